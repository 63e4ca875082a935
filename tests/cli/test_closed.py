#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sandbox without network rules: lookups and connections fail at once, are recorded, and start no gateway."""
import shutil
import time

from harness import Skip, check, contains, equal, main, need_tier, test, text

PYTHON = "/usr/bin/python3"
GIVES_UP_S = 20  # npm needs 71 s where it retries, pip 8 s, apt 7 s
LOOKUP = """
import socket
for name in ("a.example.com", "b.example.com", "a.example.com", "x.localhost"):
    try:
        print(name, sorted({a[4][0] for a in socket.getaddrinfo(name, 80)}))
    except socket.gaierror as e:
        print(name, e.errno == socket.EAI_NONAME)
"""
CONNECT = """
import errno, socket
for kind, family, host in ((socket.SOCK_STREAM, socket.AF_INET, "203.0.113.5"), (socket.SOCK_DGRAM, socket.AF_INET, "8.8.8.8"),
                           (socket.SOCK_STREAM, socket.AF_INET6, "2001:db8::1")):
    try:
        socket.socket(family, kind).connect((host, 53))
        print("connected")
    except OSError as e:
        print(errno.errorcode[e.errno])
"""


def run(p, *words, options=("--tier", "namespace"), timeout=60):
	need_tier(options[1])
	r = p.run(*options, "--", *words, timeout=timeout)
	receipt = r.receipt
	return r, [d for d in receipt["denials"] if d["operation"] == "network"], receipt


@test
def test_names_do_not_exist_and_each_is_one_denial(p):
	r, denied, receipt = run(p, PYTHON, "-c", LOOKUP)
	equal(r.out.decode().splitlines(), ["a.example.com True", "b.example.com True", "a.example.com True",
		"x.localhost ['127.0.0.1', '::1']"], "lookups")
	equal(sorted(d["host"] for d in denied), ["a.example.com", "b.example.com"], "denials")
	for d in denied:
		equal((d["method"], d["seen_by"], d["allow_with"]), ("DNS", "supervisor", "--allow-host " + d["host"]), "a denial")
	equal(receipt["network"]["gateway"], "not wanted", "gateway")
	contains(text(r.err), "--allow-host a.example.com", "the summary")
	why = p.croft("why", denied[0]["id"]).exits(0)
	contains(text(why.out), "a.example.com", "croft why")


@test
def test_addresses_cannot_be_reached_and_how_often_is_told(p):
	r, denied, _ = run(p, PYTHON, "-c", CONNECT)
	check(all(line == "ENETUNREACH" for line in r.out.decode().split()), r.out)
	equal([(d["host"], d["count"]) for d in denied], [("(addresses)", 3)], "denials")
	_, denied, _ = run(p, PYTHON, "-c", "import socket; s = socket.create_server(('127.0.0.1', 0)); "
		"socket.create_connection(s.getsockname())")
	equal(denied, [], "denials of a sandbox's own loopback")


@test
def test_nobody_inside_takes_the_resolvers_place(p):
	script = """
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    s.bind(("127.0.0.1", 53))
    print("bound")
except OSError:
    pass
for i in range(2000):
    s.sendto(os.urandom(i % 1400), ("127.0.0.1", 53))
print(socket.getaddrinfo("localhost", 1)[0][4][0])
"""
	r, _, _ = run(p, PYTHON, "-c", script)
	check(b"bound" not in r.out and r.rc == 0, r)


@test
def test_variables_that_stop_retries_are_defaults(p):
	show = ("/bin/sh", "-c", "echo $npm_config_fetch_retries $PIP_RETRIES $CARGO_NET_RETRY")
	for tier in ("namespace", "process"):
		r, _, _ = run(p, *show, options=("--tier", tier))
		equal(r.out, b"0 0 0\n", "set")
		r, _, _ = run(p, *show, options=("--tier", tier, "--env", "PIP_RETRIES=7"))
		equal(r.out, b"0 7 0\n", "set by the user")


def client(name, tier, *words):
	def gives_up(p):
		need_tier(tier)
		if not shutil.which(words[0], path="/usr/bin:/bin"):
			raise Skip(words[0] + " is not installed")
		began = time.monotonic()
		r, denied, _ = run(p, *words, options=("--tier", tier), timeout=100)
		took = time.monotonic() - began
		check(r.rc != 0 or name == "apt", f"{r!r}")
		check(took < GIVES_UP_S, f"{name} took {took:.1f} s")
		if tier == "namespace":
			check("denied.example.com" in [d["host"] for d in denied], denied)
	gives_up.__name__ = f"test_{name}_gives_up_in_the_{tier}_tier"
	test(gives_up)


APT = ("d=$PWD/apt; mkdir -p $d/lists/partial $d/cache/archives/partial; : > $d/status; echo 'deb http://denied.example.com/ x main' > "
	"$d/list; apt-get -o Dir::State=$d -o Dir::State::status=$d/status -o Dir::Cache=$d/cache -o Dir::Etc::SourceList=$d/list "
	"-o Dir::Etc::SourceParts=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User= update")
for each in ("namespace", "process"):
	client("npm", each, "npm", "install", "--no-audit", "--no-fund", "--registry", "https://denied.example.com/", "x")
	client("pip", each, PYTHON, "-m", "pip", "download", "--disable-pip-version-check", "--index-url", "https://denied.example.com/simple", "x")
	client("git", each, "git", "ls-remote", "https://denied.example.com/x.git")
client("apt", "namespace", "/bin/sh", "-c", APT)

if __name__ == "__main__":
	main()
