#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""croft evidence export, evidence check, replay: bundles that open without croft, gates, claims put to the test."""
import json
import os
import re
import subprocess

from harness import alone, check, contains, equal, lacks, main, need, need_tier, test, text

HOSTILE = "a|`b`<script>x</script>[c](http://d)"


def git(p, *args, ok=True):
	r = subprocess.run(["git", *args], cwd=p.ws, env=p.env, capture_output=True, check=False, timeout=60)
	check(r.returncode == 0 or not ok, f"git {args}: {text(r.stderr)}")
	return text(r.stdout).strip()


def repository(p):
	"""A project with one commit."""
	need("git")
	git(p, "init", "-q", "-b", "main")
	git(p, "config", "user.name", "Tester")
	git(p, "config", "user.email", "t@example.org")
	p.write("a", "a\n")
	git(p, "add", ".")
	git(p, "commit", "-qm", "base")


def landed(p, *apply_options):
	"""An environment that was worked in, tested, and landed as a commit."""
	need_tier("namespace")
	repository(p)
	p.croft("new", "one", "--agent", "bot", "--model", "m-1", "--task", HOSTILE).exits(0)
	p.croft("exec", "one", "--", "sh", "-c", "echo b > b; cat ~/.ssh/id_ed25519; echo said").exits(0)
	p.croft("exec", "--as", "test", "one", "--", "grep", "-q", "b", "b").exits(0)
	p.croft("apply", "one", *(apply_options or ("--squash",))).exits(0)


def export(p, *options, name="one"):
	out = os.path.join(p.home, "bundle")
	p.croft("evidence", "export", *options, name, out).exits(0)
	return out


def load(*path):
	with open(os.path.join(*path), encoding="utf-8") as f:
		return f.read()


def verify_script(out):
	"""What README.txt says to type."""
	readme = load(out, "README.txt")
	lines = readme[readme.index("    tmp=$(mktemp"):].splitlines()
	end = next(i for i, line in enumerate(lines) if line.startswith("    echo"))
	return "\n".join(line[4:] for line in lines[:end + 1])


def run_script(out):
	return subprocess.run(["sh", "-c", verify_script(out)], cwd=out, capture_output=True, check=False, timeout=60)


GATE = "version: 1\nrequire: {tests: passed, max-denials: 9}\n"


def gate(p, content, range_, *options):
	return p.croft("evidence", "check", "--policy", p.write(os.path.join(p.home, "gate.yaml"), content),
		*options, range_)


# ---- without any command having run ----

alone("with a command beside it a test is no evidence", "gates find rewritten commits")
alone("a command without an end is not run again: cli/replay", "replay")
alone("names the files of single runs", "a bundle of what landed")


@test
def test_a_bundle_of_a_new_environment(p):
	repository(p)
	p.croft("new", "one", "--task", HOSTILE).exits(0)
	out = export(p)
	want = {"MANIFEST", "README.txt", "denials.sarif", "evidence.bundle", "evidence.intoto.jsonl", "key.pem",
		"patch.diff", "receipts", "report.html", "report.md"}
	equal(set(os.listdir(out)), want, "files")
	r = subprocess.run(["sha256sum", "-c", "MANIFEST"], cwd=out, capture_output=True, check=False, timeout=60)
	equal(r.returncode, 0, "sha256sum -c")
	html = load(out, "report.html")
	lacks(html, "<script")
	contains(html, "default-src 'none'")
	lacks(re.sub(r"\\.", "", load(out, "report.md")), "<script")
	equal(json.loads(load(out, "denials.sarif"))["version"], "2.1.0", "SARIF")
	p.croft("evidence", "export", "one", out).exits(125).one_sentence()
	equal([n for n in os.listdir(p.home) if n.startswith(".croft-")], [], "left behind")


@test
def test_bundles_where_the_environment_is_not_whole(p):
	"""Evidence outlives what it was made from: what `evidence verify` finds, a bundle is made of."""
	repository(p)
	p.croft("new", "one").exits(0)
	state = os.path.join(p.home, ".local/state/croft")
	outside = os.path.join(p.home, "outside")
	os.mkdir(outside)
	with open(os.path.join(state, "envs/one/env.json"), encoding="utf-8") as f:
		env_id = json.load(f)["id"]

	def made(name, where, out, why=None):
		p.croft("evidence", "verify", name, cwd=where).exits(0)
		said = text(p.croft("evidence", "export", name, os.path.join(p.home, out), cwd=where).exits(0).out)
		equal("patch.diff" in os.listdir(os.path.join(p.home, out)), why is None, f"{out}: patch.diff")
		if why:
			contains(said, why)
			contains(load(p.home, out, "report.md").replace("\\", ""), why)

	made("one", outside, "whole")
	made(env_id, p.ws, "by-id")
	made(f"refs/croft/env/{env_id}", p.ws, "by-ref")
	for part in ("layers", "bases"):
		os.rename(os.path.join(state, part), os.path.join(state, part + ".away"))
		made("one", p.ws, f"no-{part}", "missing")
		made("one", outside, f"no-{part}-outside", "missing")
		os.rename(os.path.join(state, part + ".away"), os.path.join(state, part))
	made("one", outside, "whole-again")
	p.croft("rm", "--force", "one").exits(0)
	made("one", p.ws, "no-record", "not on this machine")
	# Not found is not the same as not whole
	p.croft("evidence", "export", env_id, "x", cwd=outside).exits(125).one_sentence()


@test
def test_bundles_are_checked_without_croft(p):
	need("openssl")
	repository(p)
	p.croft("new", "one").exits(0)
	out = export(p)
	r = run_script(out)
	equal(r.returncode, 0, text(r.stdout))
	contains(text(r.stdout), "every signature and every link is good")
	path = os.path.join(out, "evidence.intoto.jsonl")
	envelope = json.loads(load(path))
	payload = envelope["payload"]
	envelope["payload"] = ("A" if payload[40] != "A" else "B").join((payload[:40], payload[41:]))
	p.write(path, json.dumps(envelope, separators=(",", ":")) + "\n")
	r = run_script(out)
	equal(r.returncode, 1, "a byte was changed")
	contains(text(r.stdout), "event 1: bad signature")


@test
def test_unknown_environments(p):
	repository(p)
	contains(p.croft("evidence", "export", "none", "x").exits(125).one_sentence(), "none")
	p.croft("evidence", "export", "../x", "x").exits(125).one_sentence()
	p.croft("evidence", "export", "0123456789abcdef", "x").exits(125).one_sentence()
	p.croft("evidence", "export", "one").exits(125)
	p.croft("replay", "none").exits(125)
	p.croft("replay", "one", "zero").exits(125)
	check(not p.exists("x"), "nothing was made")


@test
def test_a_gate_without_evidence(p):
	repository(p)
	p.write("b", "b\n")
	git(p, "add", ".")
	git(p, "commit", "-qm", "by hand")
	gate(p, GATE, "HEAD~1..HEAD").exits(0)
	git(p, "commit", "-q", "--amend", "-m", "x\n\nAssisted-by: bot:m")
	sarif = os.path.join(p.home, "gate.sarif")
	r = gate(p, GATE, "HEAD~1..HEAD", "--json", "--sarif", sarif).exits(1)
	found = json.loads(r.out)
	equal(found["schema"], "croft.gate/v1", "schema")
	equal(found["commits"][0]["problems"][0]["rule"], "croft/gate/no-evidence", "rule")
	result = json.loads(load(sarif))["runs"][0]["results"][0]
	equal(result["level"], "error", "level")
	equal(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "b", "file")
	contains(gate(p, "version: 1\nrequires: {}\n", "HEAD").exits(125).one_sentence(), "gate.yaml:2:1: unknown key")
	gate(p, GATE, "--all").exits(125)
	gate(p, GATE, "no..where").exits(125).one_sentence()


# ---- the whole way ----

@test
def test_a_bundle_of_what_landed(p):
	landed(p)
	out = export(p, "--output", "--agent-trace", "--git-ai")
	contains(load(out, "patch.diff"), "+b")
	contains(load(out, "output", "2.txt"), "said")
	equal(json.loads(load(out, "receipts", "2.json"))["schema"], "croft.receipt/v1", "receipt")
	results = json.loads(load(out, "denials.sarif"))["runs"][0]["results"]
	check(any("id_ed25519" in r["message"]["text"] for r in results), "the denial is there", results)
	trace = json.loads(load(out, "agent-trace.json"))
	equal(trace["vcs"]["revision"], git(p, "rev-parse", "HEAD"), "commit")
	equal(trace["files"][0]["path"], "b", "path")
	equal(trace["files"][0]["conversations"][0]["ranges"], [{"start_line": 1, "end_line": 1}], "lines")
	note = git(p, "notes", "--ref=ai", "show", "HEAD")
	check(re.match(r"b\n  s_[0-9a-f]{14}::t_[0-9a-f]{14} 1\n---\n\{", note), note)
	check(not p.exists(".agent-trace"), "nothing in the repository")
	r = run_script(out)
	equal(r.returncode, 0, text(r.stdout))


@test
def test_gates_find_rewritten_commits(p):
	landed(p)
	gate(p, GATE, "HEAD~1..HEAD").exits(0)
	contains(text(gate(p, GATE, "HEAD~1..HEAD").out), "(by commit)")
	git(p, "commit", "-q", "--amend", "-m", "reworded")
	contains(text(gate(p, GATE, "HEAD~1..HEAD").exits(0).out), "(by tree)")
	git(p, "checkout", "-q", "-b", "other", "HEAD~1")
	p.write("z", "z\n")
	git(p, "add", "z")
	git(p, "commit", "-qm", "another base")
	git(p, "cherry-pick", "main")
	contains(text(gate(p, GATE, "HEAD~1..HEAD").exits(0).out), "(by patch)")
	gate(p, GATE.replace("max-denials: 9", "max-denials: 0"), "HEAD~1..HEAD").exits(1)
	gate(p, "version: 1\nrequire: {review: true, max-denials: 9}\n", "HEAD~1..HEAD").exits(1)
	p.write("b", "b\nevil\n")
	git(p, "commit", "-qa", "--amend", "-m", "x\n\nCroft-Env: " + "0" * 16)
	gate(p, GATE, "HEAD~1..HEAD").exits(1)


@test
def test_replay(p):
	landed(p)
	r = p.croft("replay", "one", "--json").exits(0)
	found = json.loads(r.out)
	check(found["holds"], found)
	equal([c["state"] for c in found["commands"]], ["holds", "holds"], "states")
	lacks(text(p.croft("ls", "--json").exits(0).out), "replay-", "environments")
	r = p.croft("replay", "one", "3", "--keep").exits(0)
	contains(text(r.out), "kept as replay-")
	# A candidate that takes the tool away
	r = p.croft("replay", "one", "--deny", "/usr/bin/grep", "--json").exits(1)
	check(json.loads(r.out)["commands"][1]["state"] != "holds", "the test cannot run", text(r.out))


if __name__ == "__main__":
	main()
