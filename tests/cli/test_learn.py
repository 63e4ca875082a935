#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""`croft policy learn`: propose the narrowest policy that would have let the command work; apply nothing."""
import json
import os
import subprocess

from harness import (CROFT, SECRET, Skip, check, contains, equal, files, lacks, main, need, need_tier, test,
	text)


def need_gateway():
	need_tier("namespace")
	beside = os.path.dirname(os.path.realpath(CROFT))
	if not any(os.access(os.path.join(beside, f), os.X_OK)
		for f in ("croft-gateway", "../libexec/croft/croft-gateway")):
		raise Skip("croft-gateway is not built")


def proposal(p, r):
	"""The proposed file, which the policy's own check must accept."""
	lines = [l[1:] for l in text(r.out).splitlines() if l.startswith("+") and not l.startswith("+++")]
	body = "\n".join(lines) + "\n"
	file = p.write(os.path.join(p.root, "proposed.yaml"), body)
	p.croft("policy", "check", file).exits(0)
	return body


def comments(r):
	return "\n".join(l for l in text(r.out).splitlines() if l.startswith("#"))


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
def test_what_is_not_there_is_no_rule(p):
	"""A program looks for a file in many places; a grant of one that is not there would stop every run."""
	need_tier("namespace")
	p.write(p.home + "/data/f", "needed\n")
	command = ("sh", "-c", f"cat {p.home}/data/none {p.home}/data/f /etc/none-such.conf; echo x > {p.home}/none/f; true")
	r = p.croft("policy", "learn", "--", *command).exits(0)
	body = proposal(p, r)
	contains(body, "~/data/f", "proposal")
	lacks(body, "none", "proposal")
	contains(comments(r), "/etc/none-such.conf")
	p.croft("run", "--policy", os.path.join(p.root, "proposed.yaml"), "--discard", "--", "true").exits(0)


@test
def test_the_proposal_runs_as_it_is(p):
	"""As a patch that git takes, and the same command then works behind it; what it did not use it can still use."""
	need_tier("namespace")
	p.write(p.home + "/data/f", "needed\n")
	command = ("sh", "-c", f"cat {p.home}/data/f && echo x > out.txt && ls /usr/share > /dev/null")
	r = p.croft("policy", "learn", "--", *command)
	check(p.croft("run", "--discard", "--", *command).rc != 0, "control: it works without the proposal")
	subprocess.run([need("git"), "init", "-q"], cwd=p.ws, env=p.env, check=True, timeout=60)
	subprocess.run([need("git"), "apply"], cwd=p.ws, env=p.env, input=r.out, check=True, timeout=60)
	p.croft("policy", "check", "croft.yaml").exits(0)
	p.croft("policy", "trust").exits(0)
	p.croft("run", "--discard", "--", *command).exits(0)
	lacks(text(p.read("croft.yaml")), "deny", "the proposal")
	contains(comments(r), "never used of what the profile grants: ")
	p.croft("run", "--discard", "--", "sh", "-c", "getent passwd root && perl -e 1 && ls /opt > /dev/null").exits(0)
	r = p.croft("policy", "learn", "--policy", p.write(p.root + "/own.yaml", "version: 1\nfilesystem:\n  read: [~/data, /etc, /usr]\n"), "--", "true").exits(0)
	contains(comments(r), "never used, take it out: read ~/data (")


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
def test_network_name(p):
	need_gateway()
	need("getent")
	r = p.croft("policy", "learn", "--", "sh", "-c", "getent hosts api.example.org; true").exits(0)
	body = proposal(p, r)
	contains(body, "host: api.example.org", "proposal")
	lacks(body, "example.com", "proposal")
	lacks(proposal(p, p.croft("policy", "learn", "--", "true").exits(0)), "network", "proposal")


@test
def test_network_is_only_watched(p):
	need_gateway()
	need("curl")
	r = p.croft("policy", "learn", "--", "sh", "-c",
		"curl -fsS http://api.example.org/ && echo reached; curl -fsS -m 5 http://192.0.2.1/ && echo reached; true")
	lacks(text(r.out + r.err), "reached")
	r = p.sh("getent hosts api.example.org; true")
	equal(r.receipt["network"]["gateway"], "not wanted", "gateway of an ordinary run")


@test
def test_network_proposal_is_enough_and_no_more(p):
	need_gateway()
	need("getent")
	body = proposal(p, p.croft("policy", "learn", "--", "sh", "-c", "getent hosts api.example.org; true"))
	p.write("croft.yaml", "version: 1\n" + body[body.index("network:"):])
	p.croft("policy", "trust").exits(0)
	check(p.sh("getent hosts api.example.org").receipt["denials"] == [], "the name is known with the proposal")
	check(p.sh("getent hosts www.example.org").receipt["denials"] != [], "another name is not")


@test
def test_network_floor_is_named_only(p):
	need_gateway()
	need("curl")
	r = p.croft("policy", "learn", "--", "sh", "-c", "for h in metadata.google.internal 169.254.169.254 "
		"10.1.2.3 192.0.2.1 '[fd00:ec2::254]'; do curl -sS -m 5 http://$h/; done; true").exits(0)
	body = proposal(p, r)
	lacks(body, "network", "proposal")
	for h in ("metadata.google.internal", "169.254.169.254", "10.1.2.3", "192.0.2.1", "fd00:ec2::254"):
		contains(comments(r), h, "comments")


@test
def test_network_requests(p):
	need_gateway()
	need("curl")
	p.write("croft.yaml", "version: 1\nnetwork:\n  allow:\n"
		"    - {host: api.example.org, ports: [80], methods: [GET], paths: [/a]}\n"
		"    - unused.example.org\n  use: [pypi]\n  deny: [bad.example.org]\n")
	p.croft("policy", "trust").exits(0)
	r = p.croft("policy", "learn", "--", "sh", "-c", "for i in 17 18; do curl -sS -d x http://api.example.org/b/$i; "
		"done; curl -sS http://bad.example.org/; true").exits(0)
	body = proposal(p, r)
	contains(body, 'paths: ["/b/*"]', "proposal")
	contains(body, "methods: [POST]", "proposal")
	lacks(body, "GET", "proposal")
	lacks(body, "bad.example.org", "proposal")
	contains(comments(r), "bad.example.org", "comments")
	contains(comments(r), "unused.example.org", "comments")
	contains(comments(r), "bundle pypi", "comments")


@test
def test_network_json(p):
	need_gateway()
	need("getent")
	r = p.croft("policy", "learn", "--json", "-", "--", "sh", "-c", "getent hosts api.example.org; true").exits(0)
	net = json.loads(r.out[r.out.index(b"{"):])["network"]
	equal([(e["host"], e["port"], e["guess"]) for e in net["proposed"]], [("api.example.org", 443, True)], "proposed")
	equal((net["unused"], net["skipped"], net["lost"]), ([], 0, 0), "the rest")


@test
def test_odd_paths_are_not_proposed(p):
	need_tier("namespace")
	p.write(p.home + "/data/*", "x\n")
	p.write(p.home + '/data/a"b', "x\n")
	r = p.croft("policy", "learn", "--", "sh", "-c", "cat ~/data/'*' ~/data/'a\"b'; true").exits(0)
	lacks(proposal(p, r), "data/", "proposal")
	contains(comments(r), "data/*", "comments")


@test
def test_without_a_command(p):
	p.croft("policy", "learn").exits(125).one_sentence()


if __name__ == "__main__":
	main()
