#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sandbox without network rules: lookups and connections fail at once, are recorded, and start no gateway."""
import shutil
import socket
import subprocess
import time

from harness import Skip, check, contains, equal, main, need_tier, test, text

PYTHON = "/usr/bin/python3"
GIVES_UP_S = 50  # wget needs more than 100 s where it retries, npm 71 s, pip 8 s, apt 7 s
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
# Argument: a port of the host's loopback.
DIAL = """
import errno, socket, sys
own = int(sys.argv[1])
for family, host, port in ((2, "127.0.0.1", own), (2, "127.0.0.1", own), (2, "203.0.113.5", 443), (10, "2001:db8::1", 80),
                           (10, "::ffff:203.0.113.6", 80)):
    s = socket.socket(family)
    s.settimeout(0.2)
    try:
        s.connect((host, port))
        print("connected")
    except OSError as e:
        print(errno.errorcode.get(e.errno, e))
"""
OTHER = """
import ctypes, errno, socket
a, b = socket.socketpair()
s = socket.socket()
libc = ctypes.CDLL(None, use_errno=True)
def tried(call):
    try:
        call()
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
def bad():
    if libc.connect(s.fileno(), ctypes.c_void_p(1), 16):
        raise OSError(ctypes.get_errno(), "connect")
tried(lambda: a.connect("/nothing"))
tried(bad)
a.sendall(b"x")
print(b.recv(1).decode())
"""
# Argument: a port of the host's loopback. The family changes between the broker's look and the kernel's.
RACE = """
import ctypes, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
inet = struct.pack("=H", socket.AF_INET)
a = ctypes.create_string_buffer(inet + struct.pack("!H", int(sys.argv[1])) + bytes((127, 0, 0, 1)) + bytes(8), 16)
over = False
def flip():
    while not over:
        ctypes.memmove(a, b"\\1\\0", 2)
        ctypes.memmove(a, inet, 2)
t = threading.Thread(target=flip)
t.start()
answer = "refused"
for i in range(2000):
    s = socket.socket()
    if libc.connect(s.fileno(), a, 16) == 0:
        answer = "connected"
        break
    s.close()
over = True
t.join()
print(answer)
"""
HIDDEN = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + DIAL
FLOOD = """
import socket
for port in range(1, 401):
    try:
        socket.socket().connect(("203.0.113.5", port))
    except OSError:
        pass
"""
UDP = """
import socket
try:
    socket.getaddrinfo("a.example.com", 80)
except socket.gaierror as e:
    print(e.errno == socket.EAI_AGAIN)
try:
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
except PermissionError:
    print("refused")
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


PROCESS = ("--tier", "process")


class Listener:
	"""On the host's loopback; has anybody come?"""

	def __enter__(self):
		self.sock = socket.create_server(("127.0.0.1", 0))
		self.sock.settimeout(0)
		self.port = str(self.sock.getsockname()[1])
		return self

	def visited(self):
		try:
			self.sock.accept()[0].close()
			return True
		except BlockingIOError:
			return False

	def __exit__(self, *_):
		self.sock.close()


@test
def test_N32_process_tier_tells_each_address_and_port(p):
	with Listener() as host:
		r, denied, receipt = run(p, PYTHON, "-c", DIAL, host.port, options=PROCESS)
		equal(r.out.decode().split(), ["ENETUNREACH"] * 5, "answers")
		check(not host.visited(), "somebody came")
		equal([(d["host"], str(d["port"]), d["count"]) for d in denied], [("127.0.0.1", host.port, 2),
			("203.0.113.5", "443", 1), ("2001:db8::1", "80", 1), ("203.0.113.6", "80", 1)], "denials")
		for d in denied:
			equal((d["method"], d["seen_by"]), ("CONNECT", "broker"), "a denial")
			contains(d["reason"], "this sandbox has no network", "reason")
		equal(denied[0]["allow_with"], "", "what would allow the host's loopback")
		contains(denied[1]["allow_with"], "--allow-host '203.0.113.5:443'", "what would allow an address")
		equal(receipt["network"]["gateway"], "not wanted", "gateway")
		contains(text(p.croft("why", denied[1]["id"]).exits(0).out), "203.0.113.5", "croft why")
		# The control: outside the same program reaches the listener.
		out = subprocess.run([PYTHON, "-c", DIAL, host.port], stdout=subprocess.PIPE, timeout=60, check=False).stdout
		equal(out.split()[:2], [b"connected"] * 2, "outside")
		check(host.visited(), "nobody came")


@test
def test_N32_process_tier_tells_of_lookups_without_a_name(p):
	r, denied, _ = run(p, PYTHON, "-c", UDP, options=PROCESS)
	equal(r.out.split(), [b"True", b"refused"], "answers")
	equal([(d["host"], d["port"], d["method"], d["seen_by"]) for d in denied], [("(datagrams)", 0, "UDP", "broker")], "denials")
	check(denied[0]["count"] >= 2, denied)
	_, denied, _ = run(p, PYTHON, "-c", "print(1)", options=PROCESS)
	equal(denied, [], "denials of a program that asks for nothing")


@test
def test_N32_process_tier_leaves_other_calls_to_the_kernel(p):
	r, denied, _ = run(p, PYTHON, "-c", OTHER, options=PROCESS)
	equal(r.out.split(), [b"ENOENT", b"EFAULT", b"x"], "answers")
	equal(denied, [], "denials")


@test
def test_N32_process_tier_refuses_what_it_cannot_read(p):
	with Listener() as host:
		r, denied, _ = run(p, PYTHON, "-c", HIDDEN, host.port, options=PROCESS)
		equal(r.out.decode().split(), ["ENETUNREACH"] * 5, "answers")
		check(not host.visited(), "somebody came")
		equal([(d["host"], d["port"], d["count"]) for d in denied], [("(addresses)", 0, 5)], "denials")


@test
def test_N32_changing_the_address_meanwhile_reaches_nobody(p):
	with Listener() as host:
		r, _, _ = run(p, PYTHON, "-c", RACE, host.port, options=PROCESS)
		equal(r.out, b"refused\n", "answer")
		check(not host.visited(), "somebody came")
		out = subprocess.run([PYTHON, "-c", RACE, host.port], stdout=subprocess.PIPE, timeout=60, check=False).stdout
		equal(out, b"connected\n", "outside")


@test
def test_N32_process_tier_bounds_what_it_tells(p):
	_, denied, receipt = run(p, PYTHON, "-c", FLOOD, options=PROCESS)
	lost = receipt["denials_beyond_limit"]
	# What found no room last, before the end, nobody has told.
	check(100 < len(denied) <= 256 and len(denied) + lost <= 400, f"{len(denied)} denials, {lost} more")
	equal(sorted({d["host"] for d in denied}), ["203.0.113.5"], "hosts")
	check(receipt["files"]["complete"], "attempts that were not told say nothing about files")


@test
def test_N32_process_tier_without_landlocks_network_tells_of_sockets(p):
	p.env["CROFT_FORCE_FAIL"] = "landlock4"
	with Listener() as host:
		r = p.run(*PROCESS, "--allow-degraded", "--", PYTHON, "-c", "import socket\ntry:\n socket.socket()\nexcept PermissionError:\n print('refused')")
		if r.rc == 126:
			raise Skip(text(r.err).strip())
		equal(r.out, b"refused\n", "answer")
		denied = [d for d in r.receipt["denials"] if d["operation"] == "network"]
		equal([(d["host"], d["method"], d["seen_by"]) for d in denied], [("(connections)", "TCP", "broker")], "denials")
		check(not host.visited(), "somebody came")


@test
def test_N32_network_rules_leave_the_broker_out(p):
	with Listener() as host:
		r, denied, _ = run(p, PYTHON, "-c", DIAL, host.port, options=(*PROCESS, "--allow-host", "api.example"))
		equal(set(r.out.split()), {b"EACCES"}, "answers: Landlock's")
		equal([d for d in denied if d["seen_by"] == "broker"], [], "denials")


@test
def test_variables_that_stop_retries_are_defaults(p):
	show = ("/bin/sh", "-c", "echo $npm_config_fetch_retries $PIP_RETRIES $CARGO_NET_RETRY")
	for tier in ("namespace", "process"):
		r, _, _ = run(p, *show, options=("--tier", tier))
		equal(r.out, b"0 0 0\n", "set")
		r, _, _ = run(p, *show, options=("--tier", tier, "--env", "PIP_RETRIES=7"))
		equal(r.out, b"0 7 0\n", "set by the user")


def client(name, tier, *words, host="denied.example.com"):
	def gives_up(p):
		need_tier(tier)
		if not shutil.which(words[0], path="/usr/bin:/bin"):
			raise Skip(words[0] + " is not installed")
		began = time.monotonic()
		r, denied, _ = run(p, *words, options=("--tier", tier), timeout=100)
		took = time.monotonic() - began
		check(r.rc != 0 or name == "apt", f"{r!r}")
		check(took < GIVES_UP_S, f"{name} took {took:.1f} s")
		check(host in [d["host"] for d in denied], denied)
	gives_up.__name__ = f"test_{name}_gives_up_in_the_{tier}_tier"
	test(gives_up)


APT = ("d=$PWD/apt; mkdir -p $d/lists/partial $d/cache/archives/partial; : > $d/status; echo 'deb http://denied.example.com/ x main' > "
	"$d/list; apt-get -o Dir::State=$d -o Dir::State::status=$d/status -o Dir::Cache=$d/cache -o Dir::Etc::SourceList=$d/list "
	"-o Dir::Etc::SourceParts=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User= update")
for each, seen in (("namespace", "denied.example.com"), ("process", "(datagrams)")):
	client("npm", each, "npm", "install", "--no-audit", "--no-fund", "--registry", "https://denied.example.com/", "x", host=seen)
	client("pip", each, PYTHON, "-m", "pip", "download", "--disable-pip-version-check", "--index-url", "https://denied.example.com/simple", "x",
		host=seen)
	client("git", each, "git", "ls-remote", "https://denied.example.com/x.git", host=seen)
	client("curl", each, "curl", "-sS", "https://denied.example.com/", host=seen)
# An address: wget would try 20 times for EACCES.
for each, seen in (("namespace", "(addresses)"), ("process", "203.0.113.5")):
	client("wget_of_an_address", each, "wget", "-O-", "http://203.0.113.5/", host=seen)
	client("curl_of_an_address", each, "curl", "-sS", "http://203.0.113.5/", host=seen)
	client("npm_of_an_address", each, "npm", "install", "--no-audit", "--no-fund", "--registry", "https://203.0.113.5/", "x", host=seen)
	client("node_of_an_address", each, "node", "-e", "fetch('http://203.0.113.5/').catch(() => process.exit(1))", host=seen)
client("apt", "namespace", "/bin/sh", "-c", APT)

if __name__ == "__main__":
	main()
