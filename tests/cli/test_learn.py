#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`croft policy learn`: propose the narrowest policy that would have let the command work; apply nothing."""
import json

from harness import SECRET, check, contains, equal, files, lacks, main, need_tier, test, text


@test
def test_proposes_what_was_missing(p):
	need_tier("namespace")
	p.write(p.home + "/data/f", "needed\n")
	p.write(p.home + "/data/other", "not needed\n")
	r = p.croft("policy", "learn", "--", "sh", "-c", f"cat {p.home}/data/f; echo x > out.txt; true")
	out = text(r.out)
	contains(out, "~/data/f", "proposal")
	lacks(out, "data/other", "proposal")
	check(r.rc == 0, "exit status", r)


@test
def test_runs_inside_the_boundary(p):
	need_tier("namespace")
	r = p.croft("policy", "learn", "--", "sh", "-c", "cat ~/.ssh/id_ed25519; echo x >> ~/.bashrc; true")
	lacks(r.out + r.err, SECRET.encode())
	equal(p.read("../.bashrc"), b"# mine\n", ".bashrc")


@test
def test_applies_nothing(p):
	need_tier("namespace")
	p.write(p.home + "/data/f", "needed\n")
	def settings():
		return [f for f in files(p.home) if "/.local/state/croft" not in f and "/.local/state" not in f and not f.endswith("/.local")]
	before = settings()
	p.croft("policy", "learn", "--", "cat", p.home + "/data/f")
	equal(settings(), before, "files")
	check(p.sh("cat ~/data/f").rc != 0, "the policy is as before")


@test
def test_secrets_are_not_proposed_silently(p):
	need_tier("namespace")
	r = p.croft("policy", "learn", "--", "sh", "-c", "cat ~/.ssh/id_ed25519; true")
	for line in text(r.out).splitlines():
		if ".ssh" in line and line.lstrip().startswith("+"):
			check("secret" in line or "denied" in line or "#" in line, "a secret is proposed like any file", line)


@test
def test_json(p):
	need_tier("namespace")
	p.write(p.home + "/data/f", "needed\n")
	r = p.croft("policy", "learn", "--json", "-", "--", "cat", p.home + "/data/f")
	last = r.out[r.out.index(b"{"):]
	contains(json.dumps(json.loads(last)), p.home + "/data/f")


@test
def test_nothing_to_propose(p):
	need_tier("namespace")
	r = p.croft("policy", "learn", "--", "true").exits(0)
	lacks(text(r.out), "+ read")


@test
def test_without_a_command(p):
	p.croft("policy", "learn").exits(125).one_sentence()


if __name__ == "__main__":
	main()
