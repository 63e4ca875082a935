#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""`croft policy`: show, check, explain, diff, trust; layers on a real disk."""
import json
import os

from harness import (ROOT, SECRET, Skip, check, contains, equal, lacks, main, native, policy_text, test, text)


def digest(p, *args, **kw):
	return json.loads(p.croft("policy", "show", "--json", "-", *args, **kw).exits(0).out)["digest"]


def user_policy(p, content):
	return p.write("../.config/croft/policy.yaml", content)


@test
def test_show(p):
	r = p.croft("policy", "show").exits(0)
	contains(text(r.out), p.ws)
	document = json.loads(p.croft("policy", "show", "--json", "-").exits(0).out)
	contains(json.dumps(document), p.ws)
	check(len(document["digest"].removeprefix("sha256:")) == 64, "digest", document["digest"])


@test
def test_show_matches_the_receipt(p):
	equal(digest(p), p.sh("true").exits(0).receipt["policy"]["digest"], "digest")
	equal(digest(p, "--profile", "python"), p.sh("true", "--profile", "python").receipt["policy"]["digest"], "with a profile")


@test
def test_show_each_profile(p):
	seen = set()
	for name in ("default", "strict", "offline", "python", "node", "rust", "go", "c"):
		seen.add(digest(p, "--profile", name))
	check(len(seen) >= 7, "profiles differ", seen)


@test
def test_check(p):
	good = p.write("../good.yaml", policy_text(read=["~/data"], deny=["./secret"], head="tier: namespace"))
	r = p.croft("policy", "check", good).exits(0)
	lacks(text(r.err), "error")
	bad = p.write("../bad.yaml", "version: 1\nfilesytem:\n  read: [/x]\n")
	sentence = p.croft("policy", "check", bad).exits(125).one_sentence()
	contains(sentence, "bad.yaml:2:1")
	contains(sentence, "filesystem")


@test
def test_explain(p):
	ssh = text(p.croft("policy", "explain", p.home + "/.ssh/id_ed25519").exits(0).out)
	contains(ssh, "deny")
	contains(ssh, ".ssh")
	ws = text(p.croft("policy", "explain", p.ws + "/file").exits(0).out)
	contains(ws, "write")
	usr = text(p.croft("policy", "explain", "/usr/bin/env").exits(0).out)
	contains(usr, "read")
	nothing = text(p.croft("policy", "explain", "/somewhere/else").exits(0).out)
	contains(nothing, "deny")
	document = json.loads(p.croft("policy", "explain", "--json", "-", p.ws + "/file").exits(0).out)
	contains(json.dumps(document), "write")


@test
def test_explain_agrees_with_what_happens(p):
	p.write("a/open", "x\n")
	p.write("a/fixed", "x\n")
	p.write("a/closed", SECRET)
	file = p.write("../p.yaml", policy_text(read=["./a/fixed"], deny=["./a/closed"]))
	for name, word in (("open", "write"), ("fixed", "read"), ("closed", "deny")):
		path = f"{p.ws}/a/{name}"
		contains(text(p.croft("policy", "explain", "--policy", file, path).exits(0).out).split("\n")[0], word, name)
		r = p.sh(f"cat a/{name} >/dev/null 2>&1 && echo r; (echo y >> a/{name}) 2>/dev/null && echo w; true", "--policy", file).exits(0)
		equal(r.out.split(), {"write": [b"r", b"w"], "read": [b"r"], "deny": []}[word], name)


@test
def test_diff(p):
	a = p.write("../a.yaml", policy_text(read=["~/data"]))
	b = p.write("../b.yaml", policy_text(read=["~/data"], write=["~/out"]))
	r = p.croft("policy", "diff", a, b)
	contains(text(r.out), p.home + "/out")
	check(r.rc in (0, 1), "exit status", r)
	same = p.croft("policy", "diff", a, a).exits(0)
	equal(same.out, b"", "no difference, no output")


@test
def test_user_policy_widens(p):
	data = p.home + "/data"
	p.write(data + "/f", "granted\n")
	check(p.sh(f"cat {data}/f").rc != 0, "control: not without the file")
	user_policy(p, policy_text(read=["~/data"]))
	equal(p.sh(f"cat {data}/f").exits(0).out, b"granted\n")


@test
def test_user_policy_with_an_error_stops_everything(p):
	user_policy(p, "version: 1\nnonsense: true\n")
	contains(p.croft("run", "--direct", "--", "true").exits(125).one_sentence(), "policy.yaml:2")


@test
def test_project_policy_narrows_freely(p):
	p.write("secret", SECRET)
	contains(p.sh("cat secret").out, SECRET.encode(), "control")
	p.write("croft.yaml", policy_text(deny=["./secret"]))
	lacks(p.sh("cat secret; true").exits(0).out, SECRET.encode())


@test
def test_project_policy_is_found_from_below(p):
	p.write("secret", SECRET)
	p.write("croft.yaml", policy_text(deny=["./secret"]))
	os.makedirs(p.ws + "/sub/deep")
	r = p.sh("cat ../../secret; true", cwd=p.ws + "/sub/deep").exits(0)
	lacks(r.out, SECRET.encode())


@test
def test_project_policy_cannot_widen_until_trusted(p):
	data = p.home + "/data"
	p.write(data + "/f", SECRET)
	p.write("croft.yaml", policy_text(read=["~/data"]))
	r = p.croft("run", "--direct", "--", "sh", "-c", f"echo x > ran; cat {data}/f").exits(126)
	sentence = r.one_sentence()
	contains(sentence, data, "what it widens")
	contains(sentence, "croft policy trust", "how to approve")
	check(not p.exists("ran"), "the command ran")
	p.croft("policy", "trust").exits(0)
	contains(p.sh(f"cat {data}/f").exits(0).out, SECRET.encode(), "after trust")


@test
def test_edit_after_trust_is_refused_again(p):
	p.write("croft.yaml", policy_text(read=["~/data"]))
	os.mkdir(p.home + "/data")
	p.croft("policy", "trust").exits(0)
	p.croft("run", "--direct", "--", "true").exits(0)
	p.write("croft.yaml", policy_text(read=["~/data", "~/.ssh"]))
	p.croft("run", "--direct", "--", "true").exits(126)
	p.write("croft.yaml", policy_text(read=["~/data"]) + "# a comment\n")
	p.croft("run", "--direct", "--", "true").exits(126)
	p.write("croft.yaml", policy_text(read=["~/data"]))
	p.croft("run", "--direct", "--", "true").exits(0)


@test
def test_trust_can_be_revoked(p):
	os.mkdir(p.home + "/data")
	p.write("croft.yaml", policy_text(read=["~/data"]))
	p.croft("policy", "trust").exits(0)
	p.croft("run", "--direct", "--", "true").exits(0)
	p.croft("policy", "trust", "--revoke").exits(0)
	p.croft("run", "--direct", "--", "true").exits(126)


@test
def test_trust_shows_what_is_approved(p):
	os.mkdir(p.home + "/data")
	p.write("croft.yaml", policy_text(read=["~/data"]))
	contains(text(p.croft("policy", "trust").exits(0).out), p.home + "/data")


@test
def test_trust_is_for_this_project_only(p):
	os.mkdir(p.home + "/data")
	p.write("croft.yaml", policy_text(read=["~/data"]))
	p.croft("policy", "trust").exits(0)
	other = p.home + "/other"
	p.write(other + "/croft.yaml", policy_text(read=["~/data", "~/x"]))
	p.croft("run", "--direct", "--", "true", cwd=other).exits(126)


@test
def test_sandboxed_side_cannot_trust_for_itself(p):
	"""A1: from inside, neither the project file nor the trust record can be made to widen."""
	os.mkdir(p.home + "/data")
	p.write(p.home + "/data/f", SECRET)
	p.write("croft.yaml", policy_text(deny=["./x"]))
	p.tool()
	r = p.sh("printf 'version: 1\\nfilesystem:\\n  read: [\"~/data\"]\\n' > croft.yaml; "
		"mkdir -p ~/.config/croft ~/.local/state/croft; echo 'version: 1' > ~/.config/croft/policy.yaml; ls ~/.local/state/croft; true").exits(0)
	check(not os.path.exists(p.home + "/.config/croft/policy.yaml"), "the user's policy was written")
	r = p.croft("run", "--direct", "--", "cat", p.home + "/data/f")
	lacks(r.out, SECRET.encode(), "the next run")


@test
def test_untrusted_project_cannot_raise_limits_or_pass_environment(p):
	for head in ("limits:\n  memory: 900G", "environment:\n  pass: [AWS_SECRET_ACCESS_KEY]", "observe: off", "devices: [/dev/kvm]",
		"network:\n  allow: [example.org]"):
		p.write("croft.yaml", policy_text(head=head))
		r = p.croft("run", "--direct", "--", "true")
		equal(r.rc, 126, head)
		r.one_sentence()


@test
def test_project_may_lower_limits(p):
	p.write("croft.yaml", policy_text(head="limits:\n  pids: 16"))
	r = p.run("--", p.tool(), "forks", "100").exits(0)
	check(int(text(r.out).split()[1]) < 50, "lower limit holds", r)


@test
def test_policy_option_replaces_user_and_project(p):
	user_policy(p, policy_text(read=["~/data"]))
	p.write(p.home + "/data/f", "granted\n")
	file = p.write("../only.yaml", "version: 1\n")
	check(p.sh("cat ~/data/f", "--policy", file).rc != 0, "the user's grant does not apply")
	equal(p.sh("cat ~/data/f").exits(0).out, b"granted\n", "control")


@test
def test_command_line_denies_beat_policy_reads(p):
	p.write(p.home + "/data/f", SECRET)
	user_policy(p, policy_text(read=["~/data"]))
	lacks(p.sh("cat ~/data/f; true", "--deny", p.home + "/data").exits(0).out, SECRET.encode())


@test
def test_system_policy_is_a_ceiling(p):
	"""/etc/croft/policy.yaml narrows everybody; tested only where it can be put for a moment."""
	if not ROOT:
		raise Skip("needs root to place /etc/croft/policy.yaml")
	if os.path.exists("/etc/croft/policy.yaml"):
		raise Skip("/etc/croft/policy.yaml exists on this machine")
	made = not os.path.exists("/etc/croft")
	p.write(p.home + "/data/f", SECRET)
	try:
		os.makedirs("/etc/croft", 0o755, exist_ok=True)
		with open("/etc/croft/policy.yaml", "w", encoding="utf-8") as f:
			f.write(policy_text(deny=[p.home + "/data"], head="limits:\n  pids: 20"))
		r = p.sh("cat ~/data/f; true", "--read", p.home + "/data")
		if r.rc == 126:
			r.one_sentence()
		lacks(r.out, SECRET.encode(), "a grant above the ceiling")
		r = p.run("--pids", "400", "--", p.tool(), "forks", "100")
		check(r.rc == 126 or int(text(r.out).split()[1]) < 50, "a limit above the ceiling", r)
	finally:
		os.unlink("/etc/croft/policy.yaml")
		if made:
			os.rmdir("/etc/croft")
	contains(p.sh("cat ~/data/f", "--read", p.home + "/data").exits(0).out, SECRET.encode(), "control")


@test
def test_floor_cannot_be_widened_by_anyone(p):
	"""croft's own state stays out of reach even when the user grants it."""
	p.sh("true").exits(0)
	r = p.sh("ls -A ~/.local/state/croft; echo x > ~/.local/state/croft/x", "--write", p.home + "/.local/state/croft")
	if r.rc == 126:
		return
	check(not os.path.exists(p.home + "/.local/state/croft/x"), "written", r)


@test
def test_network_rules_of_a_policy_are_taken(p):
	file = p.write("../n.yaml", policy_text(head="network:\n  allow: [example.org]"))
	contains(text(p.croft("policy", "show", "--policy", file).exits(0).out), "example.org")
	file = p.write("../n.yaml", policy_text(head="network:\n  allow: ['*.com']"))
	contains(p.croft("run", "--policy", file, "--", "true").exits(125).one_sentence(), "*.com")


@test
def test_tier_in_a_policy_is_kept(p):
	file = p.write("../n.yaml", policy_text(head="tier: process"))
	r = p.sh("true", "--policy", file)
	if r.rc == 126:
		raise Skip("process tier does not hold here")
	equal(r.receipt["tier"], "process")


@test
def test_policy_file_through_fifo_or_replaced_is_read_once(p):
	"""The digest in the receipt is of what was enforced, also when the file changes during the run."""
	file = p.write("../p.yaml", policy_text(deny=["./a"]))
	before = digest(p, "--policy", file)
	r = p.sh("true", "--policy", file).exits(0)
	equal(r.receipt["policy"]["digest"], before)
	native(p, "sh", "-c", "true")


if __name__ == "__main__":
	main()
