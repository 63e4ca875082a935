#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""Every key of a policy in every tier: enforced, refused, or recorded as a degradation, as tests/cli/tiers.py says.
Each claim is tried with a command of its own, and what is seen must be what the table says."""
import json
import os
import socket

from harness import CROFT, FORCED, Failed, SECRET as BAIT, TIERS, Skip, check, contains, equal, lacks, main, need, test, text
from tiers import LIMITS, ROWS, RULE, SECRET, holes

GATEWAY = os.path.join(os.path.dirname(os.path.realpath(CROFT)), "croft-gateway")
VALUE = "value-1234567890abcdef"
PROXY_ONLY = "programs must use the proxy by themselves"


def run(p, tier, policy, script="true", **kw):
	p.write("policy.yaml", json.dumps({"version": 1, **policy}))
	return p.sh(script, "--tier", tier, "--policy", "./policy.yaml", **kw)


def outcome(r, words, held):
	"""What became of a key. Nothing at all is the one thing that may not be. held(): is it really so?"""
	if r.rc == 126:
		r.one_sentence()
		return "refused"
	r.exits(0)
	if words and any(words in d for d in r.receipt["degradations"]):
		return "recorded"
	check(held(), "neither enforced, nor refused, nor recorded", r)
	return "enforced"


# ---- files, environment, devices ----

def read(p, tier, key="read"):
	f = p.write(p.home + "/data/f", "granted\n")
	check(b"granted" not in run(p, tier, {}, f"cat {f}; true").out, "control: it is readable without the rule")
	r = run(p, tier, {"filesystem": {key: [p.home + "/data"]}}, f"cat {f}; echo x > {f}; true").exits(0)
	contains(r.out, b"granted\n")
	equal(p.read(f), b"granted\n", "a file that is only read")
	return "enforced"


def write(p, tier, key="write"):
	f = p.write(p.home + "/data/f", "old\n")
	run(p, tier, {"filesystem": {"read": [p.home + "/data"]}}, f"echo new > {f}; true").exits(0)
	equal(p.read(f), b"old\n", "control")
	run(p, tier, {"filesystem": {key: [p.home + "/data"]}}, f"echo new > {f}").exits(0)
	equal(p.read(f), b"new\n", "a file that is granted")
	return "enforced"


def deny(p, tier):
	p.write("d/secret", BAIT)
	contains(run(p, tier, {}, "cat d/secret").exits(0).out, BAIT.encode(), "control")
	lacks(run(p, tier, {"filesystem": {"deny": ["./d"]}}, "cat d/secret; true").exits(0).out, BAIT.encode())
	return "enforced"


def view(p, tier):
	f = p.write(p.home + "/data/f", "old\n")
	r = run(p, tier, {"filesystem": {"view": [p.home + "/data"]}}, f"cat {f}; echo new > {f} && cat {f}; true").exits(0)
	equal(p.read(f), b"old\n", "a file of which there is a view")
	contains(r.out, b"old\n")
	return outcome(r, "no private views", lambda: b"new\n" in r.out)


def write_runs(p, tier):
	f = p.write(p.home + "/.claude/f", "old\n")
	run(p, tier, {"filesystem": {"write": [p.home + "/.claude"]}}, f"echo new > {f}").exits(126)
	equal(p.read(f), b"old\n", "control")
	run(p, tier, {"filesystem": {"write-runs": [p.home + "/.claude"]}}, f"echo new > {f}").exits(0)
	equal(p.read(f), b"new\n", "a directory that is meant")
	return "enforced"


def write_git(p, tier):
	p.write(p.home + "/g/config", "old\n")
	p.write(p.home + "/g/HEAD", "old\n")
	script = f"echo new > {p.home}/g/HEAD; echo new > {p.home}/g/config; echo new > {p.home}/g/other; true"
	run(p, tier, {"filesystem": {"read": [p.home + "/g"]}}, script).exits(0)
	equal(p.read(p.home + "/g/HEAD"), b"old\n", "control")
	run(p, tier, {"filesystem": {"write-git": [p.home + "/g"]}}, script).exits(0)
	equal((p.read(p.home + "/g/HEAD"), p.read(p.home + "/g/config"), p.exists(p.home + "/g/other")), (b"new\n", b"old\n", False))
	return "enforced"


def if_present(p, tier, key, how):
	run(p, tier, {"filesystem": {key: [p.home + "/absent"]}}).exits(0)
	check(run(p, tier, {"filesystem": {key.removesuffix("-if-present"): [p.home + "/absent"]}}).rc, "control")
	return how(p, tier, key)


def environment_pass(p, tier):
	kw = {"env": {"PASSED": "word-1", "KEPT": "word-2"}}
	out = run(p, tier, {"environment": {"pass": ["PASS*"]}}, "env", **kw).exits(0).out
	contains(out, b"PASSED=word-1")
	lacks(out, b"word-2")
	return "enforced"


def environment_set(p, tier):
	contains(run(p, tier, {"environment": {"set": {"MADE": "word-3"}}}, "env").exits(0).out, b"MADE=word-3")
	return "enforced"


def devices(p, tier):
	name = next((d for d in ("/dev/fuse", "/dev/kvm", "/dev/net/tun") if os.access(d, os.R_OK | os.W_OK)), None)
	if not name:
		return None
	script = f"exec 3<> {name} && echo opened"
	lacks(run(p, tier, {}, script + "; true").out, b"opened", "control")
	contains(run(p, tier, {"devices": [name]}, script).exits(0).out, b"opened")
	return "enforced"


# ---- words ----

def version(p, tier):
	run(p, tier, {"version": 2}).exits(125)
	return "settled"


def profile(p, tier):
	equal(run(p, tier, {"profile": "python"}).exits(0).receipt["policy"]["profile"], "python")
	return "settled"


def tier_itself(p, tier):
	p.write("policy.yaml", json.dumps({"version": 1, "tier": tier}))
	equal(p.run("--policy", "./policy.yaml", "--", "true").exits(0).receipt["tier"], tier)
	return "enforced"


def threat(p, tier):
	return outcome(run(p, tier, {"threat": "hostile"}), "threat: hostile", lambda: tier == "namespace")


def observe(p, tier):
	seen = {}
	for level in ("off", "writes", "full"):
		r = run(p, tier, {"observe": level, "filesystem": {"read": [p.home + "/.profile"]}}, f"echo x >> {p.home}/.profile; true").exits(0)
		seen[level] = [d["path"] for d in r.receipt["denials"]]
	for level in ("writes", "full"):
		contains(seen[level], p.home + "/.profile", level)
	check(tier == "process" or not seen["off"], "control: off tells nothing, unless a broker is there anyway")
	return "enforced"


# ---- limits ----

def held_by(r, name):
	return r.receipt["enforced"]["limits_held_by"][name]


def memory(p, tier):
	r = run(p, tier, {"limits": {"memory": "256M"}})
	return outcome(r, "memory is limited per process", lambda: held_by(r, "memory") == "cgroup")


def pids(p, tier):
	r = run(p, tier, {"limits": {"pids": 64}})
	if any("process" in d and "limit" in d and "no disk limit" not in d for d in r.exits(0).receipt["degradations"]):
		return "recorded"
	return outcome(r, None, lambda: held_by(r, "pids") == "cgroup")


def cpus(p, tier):
	r = run(p, tier, {"limits": {"cpus": 1}})
	return outcome(r, None, lambda: held_by(r, "cpus") == "cgroup")


def open_files(p, tier):
	r = run(p, tier, {"limits": {"open_files": 77}}, "ulimit -n")
	return outcome(r, None, lambda: r.out == b"77\n")


def file_size(p, tier):
	r = run(p, tier, {"limits": {"file_size": "64K"}}, "head -c 128K /dev/zero > big; test $(wc -c < big) = 65536")
	return outcome(r, None, lambda: os.path.getsize(os.path.join(p.ws, "big")) == 1 << 16)


def disk(p, tier):
	return outcome(run(p, tier, {"limits": {"disk": "8M"}}), "disk limit", lambda: False)


def timeout(p, tier):
	r = run(p, tier, {"limits": {"timeout": "300ms"}}, "exec sleep 60").exits(124)
	contains(r.receipt["limits_hit"], "timeout")
	return "enforced"


FIXED = {
	"version": version, "profile": profile, "tier": tier_itself, "threat": threat, "observe": observe, "devices": devices,
	"filesystem.read": read, "filesystem.write": write, "filesystem.deny": deny,
	"filesystem.view": view, "filesystem.write-runs": write_runs, "filesystem.write-git": write_git,
	"filesystem.read-if-present": lambda p, t: if_present(p, t, "read-if-present", read),
	"filesystem.write-if-present": lambda p, t: if_present(p, t, "write-if-present", write),
	"environment.pass": environment_pass, "environment.set": environment_set,
	"limits.memory": memory, "limits.cpus": cpus, "limits.pids": pids, "limits.open_files": open_files,
	"limits.disk": disk, "limits.file_size": file_size, "limits.timeout": timeout,
}

# ---- network: what the gateway does with each is tests/net's; here, how a tier leads to it ----

GIT = {"host": "git.example", "mode": "git", "repos": ["owner/name"]}
HTTP = {"host": "www.example"}
ENTRIES = {
	"host": HTTP, "cidr": {"cidr": "198.51.100.0/24", "ports": [5432]}, "ports": {**HTTP, "ports": [443]},
	"mode": {**HTTP, "mode": "tls"}, "methods": {**HTTP, "methods": ["GET"]}, "paths": {**HTTP, "paths": ["/v1/**"]},
	"query": {**HTTP, "query": {"a": "b"}}, "repos": GIT, "push": {**GIT, "push": True},
	"refs": {**GIT, "push": True, "refs": ["refs/heads/x/*"]}, "private": {**HTTP, "private": True},
	"plaintext": {**HTTP, "plaintext": True}, "encoded-slash": {**HTTP, "paths": ["/v1/**"], "encoded-slash": "keep"},
	"ech": {**HTTP, "mode": "tls", "ech": "refuse"}, "reason": {**HTTP, "reason": "why"},
}
RULE_LIMITS = {"rate": "10/s", "up": "1M", "down": "1M", "body": "1K", "uses": 5, "expires": "2099-01-31T12:00:00Z"}
NETWORK = {
	"use": ["npm"], "default": "deny", "deny": ["bad.example"], "ask": ["ask.example"], "ask-timeout": "5s",
	"record-query": True, "resolve": {"www.example": "192.0.2.1"}, "dns": ["192.0.2.53"], "proxy": "http://192.0.2.8:3128",
	"host-ports": [9], "trust": ["/etc/ssl/certs/ca-certificates.crt"],
}
SECRETS = {
	"name": {}, "env": {"env": "OTHER"}, "host": {}, "port": {"port": 443}, "paths": {"paths": ["/v1/**"]},
	"methods": {"methods": ["GET"]}, "place": {"place": "bearer"}, "field": {"place": "header", "field": "x-key"},
	"strip": {"strip": True}, "require": {"require": True},
}
ASK = """
import urllib.request
try: urllib.request.urlopen("http://refused.example/", timeout=20)
except OSError as e: print(e)
"""


def led(p, tier, network):
	"""The rules are the gateway's: captured, or by a proxy and said so."""
	network = {"allow": [HTTP], **network}
	r = run(p, tier, {"network": network})
	return outcome(r, PROXY_ONLY, lambda: r.receipt["network"]["mode"] == "transparent" and
		r.receipt["enforced"]["network"].startswith("captured"))


def settled(p, tier, network):
	led(p, tier, network)
	return "settled"


def publish(p, tier):
	with socket.socket() as s: # an address that is taken: that it is wanted is seen by the error
		s.bind(("127.0.0.1", 0))
		s.listen(1)
		port = s.getsockname()[1]
		r = run(p, tier, {"network": {"allow": [HTTP], "publish": [f"{port}:80"]}})
	if r.rc == 126:
		return outcome(r, None, lambda: False)
	contains(text(r.exits(125).err), f"127.0.0.1:{port}", "the port that is taken")
	return outcome(run(p, tier, {"network": {"allow": [HTTP], "publish": [f"{port}:80"]}}), None, lambda: True)


def secret(p, tier, more):
	p.croft("secret", "set", "TOKEN", stdin=VALUE.encode()).exits(0)
	s = {"name": "TOKEN", "host": "www.example", **more}
	out = text(run(p, tier, {"network": {"allow": [HTTP], "secrets": [s]}}, "env").exits(0).out)
	contains(out, s.get("env", "TOKEN") + "=", "the placeholder")
	lacks(out, VALUE, "the environment")
	return "enforced"


def network_rows():
	for k, entry in ENTRIES.items():
		how = settled if k == "reason" else led
		yield RULE + k, lambda p, t, how=how, e=entry: how(p, t, {"allow": [e]})
	for k, v in RULE_LIMITS.items():
		yield LIMITS + k, lambda p, t, k=k, v=v: led(p, t, {"allow": [{**HTTP, "limits": {k: v}}]})
	for k, v in NETWORK.items():
		how = settled if k in ("ask-timeout", "record-query") else led
		yield "network." + k, lambda p, t, how=how, k=k, v=v: how(p, t, {k: v})
	for k, more in SECRETS.items():
		yield SECRET + k, lambda p, t, more=more: secret(p, t, more)
	yield "network.publish", publish


# ---- the table ----

def try_rows(p, tier, rows):
	bad = []
	for key, look in rows:
		try:
			seen = look(p, tier)
		except Failed as e:
			bad.append(f"{key}: {e}")
			continue
		if seen and seen not in ROWS[key][tier].split(" or "):
			bad.append(f"{key} is {seen}, and the table says {ROWS[key][tier]}")
	check(not bad, f"rows of the {tier} tier that do not hold", *bad)


@test
def test_every_key_and_tier_has_a_row(p):
	keys = json.loads(p.croft("policy", "keys", "--json").exits(0).out)
	equal(text(p.croft("policy", "keys").exits(0).out).split(), keys, "text and JSON")
	tiers = [t["name"] for t in json.loads(p.croft("doctor", "--json").out)["tiers"]]
	equal(holes(keys, tiers), [], "holes in the table")
	tried = set(FIXED) | {k for k, _ in network_rows()}
	equal(sorted(set(ROWS) ^ tried), [], "rows that nothing tries, or the other way round")
	# Controls: a hole is seen.
	check(holes(keys + ["limits.frobs"], tiers), "a key without a row goes unseen")
	check(holes(keys + ["network.allow[].frob"], tiers), "a key of a rule without a row goes unseen")
	check(holes([k for k in keys if k != "limits.pids"], tiers), "a row without a key goes unseen")
	check(holes(keys, tiers + ["vm"]), "a tier without rows goes unseen")


@test(tiers=TIERS)
def test_files_words_and_limits(p, tier):
	if FORCED:
		raise Skip("what is forced away changes the claims")
	try_rows(p, tier, FIXED.items())


@test(tiers=TIERS)
def test_network(p, tier):
	if FORCED:
		raise Skip("what is forced away changes the claims")
	if not os.access(GATEWAY, os.X_OK):
		raise Skip("croft-gateway is not built")
	need("python3")
	r = run(p, tier, {"network": {"allow": [HTTP]}})
	if tier == "process" and r.rc == 126 and b"Landlock ABI 4" in r.err:
		raise Skip("this kernel has no Landlock ABI 4, without which the process tier refuses network rules")
	try_rows(p, tier, network_rows())
	r = run(p, tier, {"network": {"allow": [HTTP]}}, f"python3 -c '{ASK}'").exits(0)
	contains([d.get("host") for d in r.receipt["denials"]], "refused.example", f"hosts that were refused (it printed {r.out!r})")


if __name__ == "__main__":
	main()
