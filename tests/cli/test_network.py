#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The launcher's side of the network: plan, receipt, refusals, ports, and what is left when something is killed.
Nothing here needs a network outside; what the gateway lets through is tests/net's."""
import contextlib
import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

from harness import (CROFT, FORCED, ROOT, TIERS, Skip, alive, check, contains, end, equal, fuse, kill_quietly, lacks, main,
	need, need_tier, parent_of, test, text, wait_for)

GATEWAY = os.path.join(os.path.dirname(os.path.realpath(CROFT)), "croft-gateway")
TCP = "version: 1\nnetwork:\n  allow:\n    - host: db.example\n      ports: [5432]\n      mode: tcp\n"
HTTP = "version: 1\nnetwork:\n  allow:\n    - host: www.example\n"
NONE = "version: 1\n"

CONNECT = """
import errno, socket, sys
def connect(host, port):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.settimeout(20)
    try:
        s.connect((host, port))
        return s
    except OSError as e:
        return errno.errorcode.get(e.errno, repr(e))
def through(proxy, token, host, port):
    import base64
    s = connect("127.0.0.1", proxy)
    auth = ""
    if token:
        auth = "Proxy-Authorization: Basic " + base64.b64encode(b"croft:" + token.encode()).decode() + "\\r\\n"
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n{auth}\\r\\n".encode())
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        got = s.recv(1)
        if not got: break
        head += got
    return s, head.split(b"\\r\\n")[0].decode()
def say(*words):
    print(*words, flush=True)
"""


def need_network(tier):
	"""Both tiers need Landlock here: one to confine at all, the other to hold the command to a port."""
	need_tier(tier)
	if not os.access(GATEWAY, os.X_OK):
		raise Skip("croft-gateway is not built")
	if any(f.startswith("landlock") for f in FORCED):
		raise Skip("Landlock is forced away")
	need("python3")


def policy(p, words, name="net.yaml"):
	return p.write(os.path.join(p.home, name), words)


def run_py(p, tier, code, *options, words=TCP, **kw):
	return p.run("--tier", tier, "--policy", policy(p, words), *options, "--", "python3", "-c", CONNECT + code, **kw)


def start_py(p, tier, code, *options, words=TCP):
	"""A running sandbox and where its receipt will be."""
	file = os.path.join(p.root, "receipt.json")
	return p.start("run", "--direct", "--json", file, "--tier", tier, "--policy", policy(p, words), *options, "--",
		"python3", "-c", CONNECT + code), file


def served(proc, what="up"):
	line = text(proc.stdout.readline()).strip()
	if line != what:
		proc.stdin.close()
		raise AssertionError(f"got {line!r}, want {what!r}; stderr: {text(proc.stderr.read())}")


def load(file):
	with open(file, encoding="utf-8") as f:
		return json.load(f)


def gateways(pid):
	"""Children of a supervisor that are its gateway or keeper."""
	found = []
	for name in os.listdir("/proc"):
		if not name.isdigit() or parent_of(int(name)) != pid:
			continue
		with contextlib.suppress(OSError), open(f"/proc/{name}/comm", encoding="utf-8") as f:
			if f.read().strip() == "croft-gateway":
				found.append(int(name))
	return found


def confined(pid):
	with open(f"/proc/{pid}/status", encoding="utf-8") as f:
		return "\nSeccomp:\t2\n" in f.read()


def live(p):
	d = os.path.join(p.home, ".local/state/croft/live")
	return sorted(os.listdir(d)) if os.path.isdir(d) else []


@contextlib.contextmanager
def server(greeting=b"hello from outside\n"):
	"""A host server on loopback that greets; yields its port and what it accepted."""
	s = socket.create_server(("127.0.0.1", 0))
	seen = []

	def serve():
		with contextlib.suppress(OSError):
			while True:
				c, a = s.accept()
				seen.append(a)
				c.sendall(greeting)
				c.close()
	thread = threading.Thread(target=serve, daemon=True)
	thread.start()
	try:
		yield s.getsockname()[1], seen
	finally:
		s.shutdown(socket.SHUT_RDWR)
		s.close()
		thread.join()


@contextlib.contextmanager
def http_server():
	"""One that says what it was asked for; yields its port and the hosts that requests were for."""
	asked = []

	class Answer(http.server.BaseHTTPRequestHandler):
		def do_GET(self):
			asked.append(self.headers["Host"].rsplit(":", 1)[0])
			body = f"GET {self.path}\n".encode()
			self.send_response(200)
			self.send_header("Content-Length", str(len(body)))
			self.end_headers()
			self.wfile.write(body)

		def log_message(self, *_words):
			pass

	s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
	thread = threading.Thread(target=s.serve_forever, daemon=True)
	thread.start()
	try:
		yield s.server_address[1], asked
	finally:
		s.shutdown()
		s.server_close()
		thread.join()


def free_port():
	"""Of those that nobody is given who asks for any: it stays free until it is used."""
	with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
		first = int(f.read().split()[0])
	while True:
		port = random.randrange(5000, max(first, 10000))
		with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
			return port


# Something that makes the gateway start, in either tier; prints "up" when it has answered.
REACH = {
	"namespace": """
try: socket.getaddrinfo("db.example", 5432)
except OSError as e: say("no:", e)
say("up")
""",
	"process": """
import os, re
token, port = re.search("croft:(.*)@127.0.0.1:(.*)", os.environ["http_proxy"]).groups()
s, line = through(int(port), token, "forbidden.example", 443)
say("up" if " 403 " in line else line)
""",
}
# Between the gateway's end and the supervisor's hearing of it connections wait for nobody, and are reset then.
REFUSED = """
def refused(host, port):
    while not isinstance(s := connect(host, port), str):
        try: got = s.recv(1)
        except ConnectionResetError: continue
        if got: return "served"
    return s
sys.stdin.readline()
"""
AGAIN = {
	"namespace": REFUSED + 'say(refused("93.184.216.34", 443))\n',
	"process": REFUSED + 'say(refused("127.0.0.1", int(port)))\n',
}


# ---- plan ----

@test
def test_dry_run_shows_capture_and_trust(p):
	need_network("namespace")

	def plan(words):
		r = p.croft("run", "--dry-run", "--tier", "namespace", "--policy", policy(p, words), "--", "true").exits(0)
		return [line.split()[0] for line in text(r.out).splitlines() if line.split()]
	kinds = plan(HTTP)
	contains(kinds, "capture")
	contains(kinds, "trust")
	contains(plan(TCP), "capture")
	contains(plan(TCP), "trust")  # for the refusals, which no rule inspects
	lacks(plan(NONE), "capture", "the plan without network rules")
	equal(live(p), [], "a dry run listens nowhere")


LISTS = """
import os, ssl
def read(path):
    with open(path, "rb") as f: return f.read()
ca, bundle = read("/.croft/trust/ca.pem"), read(os.environ["SSL_CERT_FILE"])
assert bundle.endswith(ca) and ca.startswith(b"-----BEGIN"), (ca, bundle[-2000:])
assert os.stat(os.environ["SSL_CERT_FILE"]).st_size == len(bundle)
for path in sys.argv[1:]:
    assert read(path) == bundle, path
    for write in (lambda: open(path, "ab"), lambda: os.truncate(path, 0), lambda: os.unlink(path)):
        try: write()
        except OSError: continue
        raise AssertionError(path + " was changed")
    assert read(path) == bundle, path
ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
say(len(bundle) - len(ca) - 1)
"""


@test
def test_trust_files_however_they_come(p):
	"""Served, or written where FUSE or the mount of a symlink is missing; with and without decoys, and read twice."""
	need_network("namespace")
	host = "/etc/ssl/certs/ca-certificates.crt"
	there = [host] if os.path.isfile(host) and not os.path.islink(host) else []
	cases = [("", HTTP), ("fuse", HTTP), ("symlink_mount", HTTP), ("", HTTP + "observe: off\n"), ("fuse", HTTP + "observe: off\n"),
		("", HTTP + "observe: full\n"), ("", HTTP + "threat: hostile\n"), ("symlink_mount", HTTP + "threat: hostile\n")]
	for forced, words in cases:
		what = f"{forced} {words.splitlines()[-1]}"
		r = p.run("--tier", "namespace", "--policy", policy(p, words), "--", "python3", "-c", CONNECT + LISTS, *there,
			env={"CROFT_FORCE_FAIL": ",".join(filter(None, [*FORCED, forced]))})
		equal((r.rc, text(r.out).split()), (0, [str(os.path.getsize(host))] if there else text(r.out).split()), f"{what}: {text(r.err)}")
		have = [r.receipt["enforced"][k] for k in ("decoys", "traps")]
		want = [False, False] if "off" in words else [False, True] if forced == "fuse" or not fuse() else [True, False]
		equal(have, want, what)


# ---- receipt ----

@test(tiers=TIERS)
def test_receipt_says_what_the_gateway_did(p, tier):
	need_network(tier)
	net = run_py(p, tier, "", words=NONE).exits(0).receipt["network"]
	equal((net["gateway"], net["mode"], net["hosts"]), ("not wanted", None, []))
	net = run_py(p, tier, "").exits(0).receipt["network"]
	equal((net["gateway"], net["connections"]), ("not needed", 0))
	equal(net["mode"], "transparent" if tier == "namespace" else "proxy")
	r = run_py(p, tier, REACH[tier]).exits(0)
	equal(r.out, b"up\n")
	equal(r.receipt["network"]["gateway"], "served")
	equal(live(p), [], "live/ after the run")
	equal(r.receipt["enforced"]["network"].split()[0], "captured:" if tier == "namespace" else "TCP")


@test
def test_denied_names_are_in_the_receipt_and_explained(p):
	need_network("namespace")
	r = run_py(p, "namespace", """
for name in ("secret-words.evil.example", "db.example"):
    address = socket.getaddrinfo(name, 5432)[0][4][0]
    say(name, address.startswith(("198.18.", "fd63:726f:6674:")))
say(type(connect("93.184.216.34", 443)))
""").exits(0)
	contains(text(r.out), "secret-words.evil.example True")
	contains(text(r.out), "db.example True")
	found = [d for d in r.denials() if d["operation"] == "network"]
	names = {(d["host"], d["port"]) for d in found}
	contains(names, ("secret-words.evil.example", 53))
	contains(names, ("93.184.216.34", 443))
	lacks({d["host"] for d in found}, "db.example", "denied hosts")
	for d in found:
		check(d["seen_by"] == "gateway" and d["reason"] and d["count"] >= 1 and d["id"], "explains itself", d)
	out = text(p.croft("why", r.receipt["id"]).exits(0).out)
	contains(out, "secret-words.evil.example")
	contains(out, "--allow-host secret-words.evil.example")
	one = next(d for d in found if d["host"] == "93.184.216.34")
	out = text(p.croft("why", one["id"]).exits(0).out)
	contains(out, "93.184.216.34")
	lacks(out, "evil.example", "the explanation of another")
	contains(text(r.err), "denied  network", "the summary")


@test
def test_terminal_escapes_in_names_reach_no_terminal(p):
	need_network("namespace")
	r = run_py(p, "namespace", """
q = b"\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00" + b"\\x05\\x1b[31m\\x04\\x07\\x9b\\n\\t\\x03com\\x00" + b"\\x00\\x01\\x00\\x01"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
s.sendto(q, ("8.8.8.8", 53)); say(len(s.recv(512)) > 11)
s = connect("93.184.216.34", 80)
""").exits(0)
	equal(r.out, b"True\n")
	for what in (r.err, p.croft("why", r.receipt["id"]).out, p.croft("pending").out):
		for byte in (b"\x1b", b"\x07", b"\x9b[", b"\t"):
			lacks(what, byte, "what a terminal gets")
	with open(os.path.join(p.home, ".local/state/croft/runs", r.receipt["id"] + ".net.jsonl"), "rb") as f:
		for line in f.read().splitlines():
			lacks(line, b"\x1b", "the journal")
			json.loads(line)


# ---- refusals ----

@test
def test_bad_rules_are_errors_with_their_place(p):
	for words, line, word in (
		("version: 1\nnetwork:\n  use: [github-raed]\n", ":3:", "github-read"),
		("version: 1\nnetwork:\n  allow:\n    - host: example.com\n      prots: [1]\n", ":5:", "ports"),
		("version: 1\nnetwork:\n  allow:\n    - host: 127.1\n", ":4:", "127.1"),
		("version: 1\nnetwork:\n  publish: [\"80:99999\"]\n", ":3:", "99999"),
	):
		r = p.croft("run", "--policy", policy(p, words, "bad.yaml"), "--", "touch", "ran").exits(125)
		contains(text(r.err), "bad.yaml" + line, "the place")
		contains(text(r.err), word, "the reason")
		check(not p.exists("ran"), "nothing ran")
	p.croft("run", "--use", "no-such-bundle", "--", "true").exits(125).one_sentence()


@test(tiers=TIERS)
def test_missing_secret_is_refused_before_the_command(p, tier):
	need_network(tier)
	r = p.sh("touch ran", "--tier", tier, "--allow-host", "api.example", "--secret", "NO_SUCH@api.example").exits(126)
	contains(r.one_sentence(), "croft secret set NO_SUCH")
	check(not p.exists("ran"), "the command ran")
	# Control: once it is stored, the same command runs, and has not the value.
	p.croft("secret", "set", "NO_SUCH", stdin=b"value-1234567890abcdef").exits(0)
	r = p.sh("touch ran; env", "--tier", tier, "--allow-host", "api.example", "--secret", "NO_SUCH@api.example").exits(0)
	check(p.exists("ran"), "the command runs")
	contains(text(r.out), "NO_SUCH=", "the placeholder")
	lacks(text(r.out), "value-1234567890abcdef", "the environment")


@test
def test_gateway_missing_or_no_nftables(p):
	need_network("namespace")
	copy = os.path.join(p.root, "alone", "croft")
	os.makedirs(os.path.dirname(copy))
	shutil.copy2(os.path.realpath(CROFT), copy)
	r = p.croft("run", "--policy", policy(p, TCP), "--", "touch", "ran", program=copy).exits(126)
	contains(r.one_sentence(), "croft-gateway")
	p.croft("run", "--policy", policy(p, NONE), "--", "true", program=copy).exits(0)
	r = p.croft("run", "--tier", "namespace", "--policy", policy(p, TCP), "--", "touch", "ran",
		env={"CROFT_FORCE_FAIL": "nftables"}).exits(126)
	contains(r.one_sentence(), "nftables")
	check(not p.exists("ran"), "nothing ran")


@test(tiers=TIERS)
def test_croft_inside_croft_is_refused(p, tier):
	need_network(tier)
	for name in ("croft", "croft-gateway"):
		shutil.copy2(os.path.join(os.path.dirname(GATEWAY), name), os.path.join(p.ws, name))
	p.write("inner.yaml", TCP)
	r = p.sh("./croft run --direct --policy inner.yaml -- touch ran; echo rc $?", "--tier", tier).exits(0)
	contains(text(r.out), "rc 126")
	check(not p.exists("ran"), "the inner command ran")
	check(any(line.startswith("croft: ") for line in text(r.err).splitlines()), "a sentence", r)


# ---- the programs themselves ----

REPLACE = """for f in croft-gateway croft-screen; do
	echo x > $f; cp x y; mv -f y $f; rm -f $f; ln -s x $f; cp x $f; done; echo x > croft; true"""


@test(tiers=TIERS)
def test_sandbox_cannot_replace_croft_or_its_gateway(p, tier):
	need_network(tier)
	own = os.path.join(p.ws, "croft")
	shutil.copy2(os.path.realpath(CROFT), own)
	p.write("x", "#!/bin/sh\ntouch ~/planted\n", 0o755)
	args = ("run", "--direct", "--tier", tier, "--policy", policy(p, TCP), "--", "sh", "-c")
	from_ours = {name: os.path.join(os.path.dirname(os.path.realpath(GATEWAY)), name) for name in ("croft-gateway", "croft-screen")}
	for name, theirs in from_ours.items():
		shutil.copy2(theirs, os.path.join(p.ws, name))
	p.croft(*args, REPLACE, program=own).exits(0)
	for name, theirs in from_ours.items():
		with open(os.path.join(p.ws, name), "rb") as a, open(theirs, "rb") as b:
			check(a.read() == b.read(), f"{name} is another")
	check(os.path.getsize(own) > 10000, "croft is another")
	# Not there yet: it cannot be put there either.
	for name, theirs in from_ours.items():
		it = os.path.join(p.ws, name)
		os.unlink(it)
		p.croft("run", "--direct", "--tier", tier, "--", "sh", "-c", REPLACE, program=own).exits(0)
		check(not os.path.lexists(it), f"{name} was planted", os.listdir(p.ws))
		# A symlink cannot be held: refused.
		os.symlink(theirs, it)
		contains(p.croft(*args, "true", program=own).exits(126).one_sentence(), "symlink")
		os.unlink(it)
		shutil.copy2(theirs, it)
	# Control: where croft is somewhere else, these are files like others.
	p.croft(*args, REPLACE).exits(0)
	for name in from_ours:
		check(os.path.getsize(os.path.join(p.ws, name)) < 100, "the control replaces nothing")


# ---- ports ----

@test
def test_published_port(p):
	need_network("namespace")
	port = free_port()
	proc, file = start_py(p, "namespace", """
s = socket.create_server(("127.0.0.1", 8000)); say("up")
c, a = s.accept(); c.sendall(b"hello from inside\\n"); c.close(); sys.stdin.readline()
""", "--publish", f"{port}:8000")
	try:
		served(proc)
		with socket.create_connection(("127.0.0.1", port), 20) as c:
			equal(c.makefile("rb").readline(), b"hello from inside\n")
		listening = subprocess.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, check=True).stdout
		contains(text(listening), f"0100007F:{port:04X} 00000000:0000 0A", "on loopback")
		lacks(text(listening), f"00000000:{port:04X} 00000000:0000 0A", "on no other address")
		r = p.croft("run", "--tier", "namespace", "--publish", f"{port}:80", "--", "touch", "ran").exits(125)
		contains(r.one_sentence(), f"127.0.0.1:{port}")
		check(not p.exists("ran"), "nothing ran")
		# Another sandbox cannot reach it, by whatever name.
		other = run_py(p, "namespace", f"""
print([c if isinstance(c, str) else c.recv(9) for c in (connect("127.0.0.1", {port}), connect("198.18.0.2", {port}))])
c = connect("10.0.0.1", {port})
""").exits(0)
		equal(text(other.out).strip(), "['ECONNREFUSED', 'ECONNREFUSED']")
		proc.stdin.write(b"\n")
		proc.stdin.close()
		proc.wait(60)
		equal(load(file)["exit"]["code"], 0)
	finally:
		end(proc)
	with socket.socket() as s:
		equal(s.connect_ex(("127.0.0.1", port)) != 0, True, "closed with the run")
	p.croft("run", "--tier", "process", "--publish", f"{port}:80", "--", "true").exits(126).one_sentence()


@test
def test_published_port_without_a_server_inside(p):
	need_network("namespace")
	port = free_port()
	proc, _ = start_py(p, "namespace", 'say("up"); sys.stdin.readline()', "--publish", f"{port}:8000")
	try:
		served(proc)
		for _ in range(40):
			with socket.create_connection(("127.0.0.1", port), 20) as c:
				equal(c.recv(1), b"")
		proc.stdin.close()
		equal(proc.wait(60), 0)
	finally:
		end(proc)


@test
def test_host_port(p):
	need_network("namespace")
	with server() as (port, seen), server() as (other, seen_other):
		code = f"""
for port in ({port}, {other}):
    try:
        a = socket.getaddrinfo("host.croft.internal", port, socket.AF_INET)[0][4][0]
        c = connect(a, port)
        say(c if isinstance(c, str) else c.makefile().readline().strip())
    except OSError as e: say(type(e).__name__)
say(connect("127.0.0.1", {other}))
for name in ("127.0.0.1", "::1", "localhost"):
    s = socket.create_connection((name, {port}), 20)
    say(s.makefile().readline().strip())
"""
		r = run_py(p, "namespace", code, "--host-port", str(port), words=NONE).exits(0)
		lines = text(r.out).splitlines()
		equal(lines[0], "hello from outside")
		lacks(lines[1], "hello", "the other port")
		equal(lines[2], "ECONNREFUSED", "loopback is the sandbox's own")
		equal(lines[3:6], ["hello from outside"] * 3, "but for that port")
		equal((len(seen), len(seen_other)), (4, 0), "accepted")
		equal({h["host"]: h["connections"] for h in r.receipt["network"]["hosts"]}, {"host.croft.internal": 1, "localhost": 3})
		# A server of the sandbox's own on any other port is reached as ever.
		r = run_py(p, "namespace", f"""
l = socket.create_server(("127.0.0.1", {other})); c = socket.create_connection(("127.0.0.1", {other})); a, _ = l.accept(); a.sendall(b"own\\n")
say(c.makefile().readline().strip())
""", "--host-port", str(port), words=NONE).exits(0)
		equal(text(r.out).splitlines(), ["own"])


@test
def test_host_port_through_the_proxy(p):
	need_network("process")
	with server() as (port, seen), server() as (other, seen_other):
		r = run_py(p, "process", REACH["process"] + f"""
for target in ({port}, {other}):
    s, line = through(int(port), token, "host.croft.internal", target)
    say(line.split()[1], s.makefile().readline().strip() if " 200 " in line else "")
for name, target in (("localhost", {port}), ("127.0.0.1", {port}), ("localhost", {other})):
    s, line = through(int(port), token, name, target)
    say(line.split()[1], s.makefile().readline().strip() if " 200 " in line else "")
say(connect("127.0.0.1", {other}))
""", "--host-port", str(port), words=NONE).exits(0)
		lines = text(r.out).splitlines()
		equal(lines[1], "200 hello from outside")
		check(not lines[2].startswith("200"), "the other port", lines)
		equal(lines[3:5], ["200 hello from outside"] * 2, "as localhost")
		check(not lines[5].startswith("200"), "the other port as localhost", lines)
		equal(lines[6], "EACCES", "directly")
		equal((len(seen), len(seen_other)), (3, 0), "accepted")


@test(tiers=TIERS)
def test_host_port_by_http(p, tier):
	"""What a browser, curl or a test asks of a development server: also where that is a request to a proxy."""
	need_network(tier)
	with http_server() as (port, asked):
		for host, want in (("localhost", True), ("host.croft.internal", True)):
			r = p.croft("run", "--direct", "--tier", tier, "--host-port", str(port), "--", "curl", "-sS", "-m", "20", f"http://{host}:{port}/a?b=c")
			equal((r.rc, r.out), (0, b"GET /a?b=c\n"), f"{host}: {r!r}")
		equal(asked, ["localhost", "host.croft.internal"], "and the server is told the name that was typed")
		r = p.croft("run", "--direct", "--tier", tier, "--use", "npm", "--", "curl", "-sS", "-f", "-m", "20", f"http://localhost:{port}/")
		check(r.rc and len(asked) == 2, "without the option", r)


@test
def test_what_to_write_in_the_place_of_a_host(p):
	for value, want in (("localhost:5432", "--host-port PORT"), ("127.0.0.1", "--host-port PORT"), ("host.croft.internal:5432", "--host-port PORT"),
			("5432", "--host-port PORT"), ("npm", "--use"), ("https://a.example/x", "the host alone"), ("10.0.0.1", "in a policy file")):
		contains(p.croft("run", "--direct", "--allow-host", value, "--", "true").exits(125).one_sentence(), want, value)


# ---- the proxy of the process tier ----

@test
def test_proxy_is_only_for_who_has_the_token(p):
	need_network("process")
	with server() as (target, seen):
		proc, file = start_py(p, "process", REACH["process"] + 'say(port, token); sys.stdin.readline()', "--host-port",
			str(target), words=NONE)
		try:
			served(proc)
			port, token = text(proc.stdout.readline()).split()

			def ask(auth):
				with socket.create_connection(("127.0.0.1", int(port)), 20) as c:
					c.sendall(f"CONNECT host.croft.internal:{target} HTTP/1.1\r\nHost: x\r\n{auth}\r\n".encode())
					return c.makefile("rb").readline()
			contains(ask(""), b" 407 ", "without a token")
			contains(ask("Proxy-Authorization: Basic Y3JvZnQ6MDAwMA==\r\n"), b" 407 ", "with another")
			equal(seen, [], "no connection was made for them")
			with socket.create_connection(("127.0.0.1", int(port)), 20) as c:
				c.sendall(b"\x05\x01\x00")  # SOCKS without authentication
				equal(c.recv(2)[1:], b"\xff")
			proc.stdin.close()
			equal(proc.wait(60), 0)
		finally:
			end(proc)
	with open(file, encoding="utf-8") as f:
		lacks(f.read(), token, "the receipt")
	state = os.path.join(p.home, ".local/state/croft/runs")
	for name in os.listdir(state):
		with open(os.path.join(state, name), "rb") as f:
			lacks(f.read(), token.encode(), name)
	dry = p.croft("run", "--dry-run", "--tier", "process", "--policy", policy(p, TCP), "--", "true").exits(0)
	lacks(text(dry.out), "http://croft:", "the plan")


@test
def test_environment_ends_where_it_should(p):
	"""Variables added for the network follow those that were there, and nothing follows them."""
	need_network("process")
	for extra in range(12):
		args = [a for i in range(extra) for a in ("--env", f"EXTRA_{i}={i}")]
		r = p.run("--tier", "process", "--policy", policy(p, TCP), *args, "--", "env").exits(0)
		for line in text(r.out).splitlines():
			contains(line, "=", "a variable")
		contains(text(r.out), "\nNO_PROXY=", "the last that was added")


# ---- talking to a run ----

@test
def test_pending_and_policy_set(p):
	equal(p.croft("pending").exits(0).out, b"")
	equal(json.loads(p.croft("pending", "--json").exits(0).out), [])
	for run in ("0123456789", "../../etc", "x"):
		p.croft("policy", "set", run, policy(p, TCP)).exits(125).one_sentence()
	p.croft("allow", "0123456789.1").exits(125).one_sentence()


@test
def test_asked_and_answered_and_forgotten(p):
	"""Also below a state directory whose path is longer than a socket's name can be."""
	need_network("namespace")
	p.env["XDG_STATE_HOME"] = os.path.join(p.root, "x" * 100, "y" * 100)
	words = ("version: 1\nnetwork:\n  ask:\n    - cidr: 93.184.216.0/24\n      ports: [4001, 4002, 4003]\n      mode: tcp\n"
		"  ask-timeout: 10s\n")
	proc, file = start_py(p, "namespace", """
say("up")
for line in sys.stdin:
    c = connect("93.184.216.34", 4000 + int(line))
    try: say("reset" if isinstance(c, str) else "closed" if c.recv(1) == b"" else "open")
    except OSError as e: say("reset")
""", words=words)
	try:
		served(proc)
		directory = os.path.join(p.env["XDG_STATE_HOME"], "croft/live")
		equal(os.stat(directory).st_mode & 0o777, 0o700, "mode of live/")
		proc.stdin.write(b"1\n")
		proc.stdin.flush()
		waiting = wait_for(lambda: json.loads(p.croft("pending", "--json").exits(0).out), "it is asked about")
		equal((waiting[0]["host"], str(waiting[0]["port"])), ("93.184.216.34", "4001"))
		served(proc, "reset")  # nobody answered
		wait_for(lambda: json.loads(p.croft("pending", "--json").exits(0).out) == [], "it is forgotten")
		p.croft("allow", waiting[0]["id"]).exits(126)
		proc.stdin.write(b"2\n")
		proc.stdin.flush()
		waiting = wait_for(lambda: json.loads(p.croft("pending", "--json").exits(0).out), "it is asked about")
		p.croft("deny", waiting[0]["id"]).exits(0)
		served(proc, "reset")
		# New rules, without a question.
		p.croft("policy", "set", waiting[0]["id"].split(".")[0], policy(p, TCP, "new.yaml")).exits(0)
		proc.stdin.write(b"3\n")
		proc.stdin.flush()
		served(proc, "reset")
		equal(p.croft("pending").exits(0).out, b"")
		proc.stdin.close()
		equal(proc.wait(60), 0)
		equal(os.listdir(directory), [], "live/ after the run")
	finally:
		end(proc)
	ports = {d["port"] for d in load(file)["denials"] if d["operation"] == "network"}
	equal(ports, {4001, 4002, 4003}, "denied")


@test
def test_slow_and_huge_clients_do_not_stop_a_run(p):
	need_network("namespace")
	proc, _ = start_py(p, "namespace", 'say("up"); sys.stdin.readline()')
	socks = []
	try:
		served(proc)
		path = os.path.join(p.home, ".local/state/croft/live")
		here = os.getcwd()
		os.chdir(path)
		try:
			for i in range(8):
				s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
				s.settimeout(20)
				s.connect(live(p)[0])
				socks.append(s)
		finally:
			os.chdir(here)
		socks[0].send(b"policy\n" + b"x" * 100000)
		contains(socks[0].recv(4096), b"error", "the answer to nonsense")
		equal(p.croft("pending").exits(0).out, b"")
		proc.stdin.close()
		equal(proc.wait(60), 0)
	finally:
		for s in socks:
			s.close()
		end(proc)


# ---- ends ----

@test(tiers=TIERS)
def test_gateway_killed_closes_the_network(p, tier):
	need_network(tier)
	proc, file = start_py(p, tier, REACH[tier] + AGAIN[tier])
	try:
		served(proc)
		found = gateways(proc.pid)
		equal(len(found), 1, "gateways")
		kill_quietly(found[0])
		wait_for(lambda: not alive(found[0]), "it is gone")
		proc.stdin.write(b"\n")
		proc.stdin.close()
		equal(text(proc.stdout.readline()).strip(), "ECONNREFUSED")
		equal(proc.wait(60), 0)
	finally:
		end(proc)
	receipt = load(file)
	equal(receipt["network"]["gateway"], "ended early")
	contains(" ".join(receipt["degradations"]), "the gateway ended early (signal 9)")
	equal(live(p), [])


@test
def test_gateway_killed_with_a_broker_inside(p):
	"""The broker, too, has its descriptors from the sandbox's first process: no listener among them."""
	need_network("namespace")
	words = TCP + "filesystem:\n  deny:\n    - ./not-there-yet\n"
	proc, file = start_py(p, "namespace", REACH["namespace"] + AGAIN["namespace"], words=words)
	try:
		served(proc)
		found = gateways(proc.pid)
		kill_quietly(found[0])
		wait_for(lambda: not alive(found[0]), "it is gone")
		proc.stdin.write(b"\n")
		proc.stdin.close()
		equal(text(proc.stdout.readline()).strip(), "ECONNREFUSED")
		equal(proc.wait(60), 0)
	finally:
		end(proc)
	check(load(file)["enforced"]["seccomp"]["broker"], "there was a broker")


@test(tiers=TIERS)
def test_stopped_gateway_does_not_hold_the_run(p, tier):
	need_network(tier)
	proc, file = start_py(p, tier, REACH[tier] + "sys.stdin.readline()")
	try:
		served(proc)
		found = gateways(proc.pid)
		os.kill(found[0], signal.SIGSTOP)
		run = live(p)[0]
		for _ in range(300):  # more than its socket holds
			r = p.croft("policy", "set", run, policy(p, TCP, "again.yaml"))
			if r.rc:
				break
		contains(r.one_sentence(), "new policy")
		proc.stdin.close()
		equal(proc.wait(30), 0)
		check(not alive(found[0]), "the gateway is gone")
	finally:
		end(proc)
	receipt = load(file)
	check(any("gateway" in d for d in receipt["degradations"]), "it is told", receipt["degradations"])


@test(tiers=TIERS)
def test_supervisor_killed_takes_everything_with_it(p, tier):
	need_network(tier)
	p.croft("secret", "set", "TOKEN", stdin=b"value-1234567890abcdef").exits(0)
	found = []
	proc, _ = start_py(p, tier, REACH[tier] + "sys.stdin.readline()", "--allow-host", "api.example", "--secret",
		"TOKEN@api.example")
	try:
		served(proc)
		found = gateways(proc.pid)
		equal(len(found), 2, "gateway and keeper")
		os.kill(found[0], signal.SIGSTOP)  # also one that looks at nothing
		os.kill(proc.pid, signal.SIGKILL)
		proc.wait()
		for pid in found:
			wait_for(lambda pid=pid: not alive(pid), "it is gone")
		# The socket of the dead is taken away by who comes next.
		equal(p.croft("pending").exits(0).out, b"")
		equal(live(p), [])
	finally:
		for pid in found:
			if alive(pid):
				kill_quietly(pid)
		end(proc)


@test
def test_gateway_holds_only_what_it_needs(p):
	need_network("namespace")
	if not ROOT:
		raise Skip("only root can look into a process that is not dumpable")
	r, w = os.pipe()
	os.set_inheritable(w, True)
	p.croft("secret", "set", "TOKEN", stdin=b"value-1234567890abcdef").exits(0)
	file = os.path.join(p.root, "receipt.json")
	proc = p.start("run", "--direct", "--json", file, "--policy", policy(p, TCP), "--allow-host", "api.example",
		"--secret", "TOKEN@api.example", "--",
		"python3", "-c", CONNECT + REACH["namespace"] + "sys.stdin.readline()", pass_fds=(w,))
	os.close(w)
	try:
		served(proc)
		inherited = os.readlink(f"/proc/self/fd/{r}")
		found = gateways(proc.pid)
		equal(len(found), 2, "gateway and keeper")
		contains([os.readlink(f"/proc/{proc.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{proc.pid}/fd")], inherited,
			"control: the supervisor has it")
		for pid in found:
			# The filter is the last of what each does before it says that it is ready.
			wait_for(lambda pid=pid: confined(pid), "it is confined")
			with open(f"/proc/{pid}/environ", "rb") as f:
				equal(f.read(), b"", "environment")
			for fd in os.listdir(f"/proc/{pid}/fd"):
				link = os.readlink(f"/proc/{pid}/fd/{fd}")
				check(link != inherited, "an inherited descriptor", link)
				check(link == "/dev/null" or link.startswith(("socket:", "anon_inode:", "pipe:", "/etc/ssl", "/usr", "/memfd:gateway-state"))
					or link.endswith(".net.jsonl"), "a descriptor that it does not need", fd, link)
				lacks(link, "/secrets/", "a secret's file")
		proc.stdin.close()
		equal(proc.wait(60), 0)
	finally:
		end(proc)
		os.close(r)


# ---- a gateway that somebody has taken over ----

# struct gateway_msg, as ipc/gateway_message.h has it: what a hostile program in its place can say.
TAKEN = """#!%s -I
import array, os, socket, struct, sys, time
control = socket.socket(fileno=3)
first, fds, _, _ = socket.recv_fds(control, 4096, 16)
CONFIG, READY, DENIAL, HOST, ASK, NOTE, DONE, REST = 1, 6, 7, 8, 9, 10, 11, 12
assert struct.unpack_from("I", first)[0] == CONFIG
HEAD = "IIQIIIIQQQQQI256s32s1024s1024s160s512s320s33s"
def message(type, text=b"", host=b"", count=1, **kw):
    m = struct.pack(HEAD, type, kw.get("mask", 0), kw.get("id", 1), 0, kw.get("mode", 0), kw.get("port", 443), 0, 0, count,
        1, 2, 3, 0, host, b"GET", kw.get("path", b"/"), b"", b"r", text, b"", b"")
    return m + bytes(len(first) - len(m))
def say(*a, **kw):
    control.send(message(*a, **kw))
if "--keeper" in sys.argv: time.sleep(60)
say(READY)
%s
"""


def taken(p, code, inside):
	"""A run whose gateway is `code`, to its end, with its receipt."""
	home = os.path.join(p.root, "taken")
	os.makedirs(home, exist_ok=True)
	shutil.copy2(os.path.realpath(CROFT), os.path.join(home, "croft"))
	p.write(os.path.join(home, "croft-gateway"), TAKEN % (need("python3"), code), 0o755)
	file = os.path.join(p.root, "receipt.json")
	script = CONNECT + 's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("8.8.8.8", 53))\n' + inside
	r = p.croft("run", "--direct", "--json", file, "--tier", "namespace", "--policy", policy(p, TCP), "--", "python3",
		"-c", script, program=os.path.join(home, "croft"), timeout=40)
	r.exits(0)
	r.receipt = load(file)
	return r


# The command waits until nobody holds its listeners: the gateway was ended.
GONE = """
import select
while connect("93.184.216.34", 443) != "ECONNREFUSED": select.select([], [], [], 0.005)
say("up")
"""
# The other way round: the command waits until the gateway says so, on a connection.
SAY_GONE = """
import select
for f in fds:
    try: s = socket.socket(fileno=os.dup(f))
    except OSError: continue
    if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and s.family == socket.AF_INET:
        select.select([s], [], [])
        s.accept()[0].sendall(b"gone")
time.sleep(60)
"""
HEAR_GONE = 's = socket.create_connection(("93.184.216.34", 443)); say(s.recv(4).decode())\n'


@test
def test_taken_gateway_floods(p):
	"""Its words are bounded, shown harmlessly, and do not push out what croft itself has to say."""
	need_network("namespace")
	r = taken(p, r"""
for i in range(3000):
    say(NOTE, b"\x1b]0;owned\x07 %d" % i)
    say(DENIAL, b"why\x1b[31m", b"h%d.example\x1b[2J" % i, path=b"/\r\n\x9b", count=2**64 - 1, port=2**32 - 1)
    say(HOST, b"", b"h%d\x1b" % i, mode=77, count=2**63)
    say(ASK, b"", b"a\x1b%d" % i, id=i)
say(DONE)
os.close(3)
time.sleep(60)
""", GONE)
	for byte in (b"\x1b", b"\x07", b"\x9b"):
		lacks(r.err, byte, "stderr")
		lacks(json.dumps(r.receipt).encode(), byte, "receipt")
	lacks(p.croft("why", r.receipt["id"]).exits(0).out, b"\x1b", "croft why")
	equal(r.receipt["network"]["gateway"], "ended early", "DONE that nobody asked for does not count")
	check(len(r.denials()) <= 256 and len(r.receipt["network"]["hosts"]) <= 256, "bounded")
	check(len(r.receipt["degradations"]) < 40, "notes are bounded", len(r.receipt["degradations"]))
	contains(" ".join(r.receipt["degradations"]), "the gateway ended early")


@test
def test_taken_gateway_sends_nonsense(p):
	need_network("namespace")
	for code in ('control.send(b"x")', "control.send(message(99))", "control.send(message(NOTE, mask=3))",
		"control.send(message(NOTE) + b'more')", "control.send(message(REST, id=0))", "control.send(b'')", "sys.exit(3)", "os.kill(os.getpid(), 11)"):
		r = taken(p, code + "\ntime.sleep(60)\n", GONE)
		equal(r.receipt["network"]["gateway"], "ended early", code)
		equal(r.out, b"up\n", "the command goes on")
	# Control: the same program, honest to the end.
	r = taken(p, "control.recv(4096); say(DONE); time.sleep(60)\n", 'say("up")')
	equal(r.receipt["network"]["gateway"], "served", "control")


@test
def test_taken_gateway_sends_descriptors_that_block(p):
	"""A socket that lingers holds up whoever closes it last: it must not be the supervisor."""
	need_network("namespace")
	with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
		try:
			s.setsockopt(socket.SOL_SOCKET, 83, 0)
		except OSError:
			raise Skip("this kernel cannot refuse descriptors (SO_PASSRIGHTS, 6.16)") from None
	start = time.monotonic()
	r = taken(p, r"""
l = socket.create_server(("127.0.0.1", 0), backlog=4)
for i in range(3):
    c = socket.create_connection(l.getsockname())
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    c.setblocking(False)
    try:
        while True: c.send(bytes(1 << 16))
    except BlockingIOError: pass
    try: socket.send_fds(control, [message(NOTE, mask=1)], [c.fileno()])
    except OSError: say(NOTE, b"not taken"); c.detach()
    else: c.close()
""" + SAY_GONE, HEAR_GONE)
	equal(r.out, b"gone\n", "the gateway's last word")
	check(time.monotonic() - start < 30, "the supervisor was held up")
	contains(" ".join(r.receipt["degradations"]), "not taken")


# ---- state ----

@test
def test_state_directory_that_cannot_be_written(p):
	need_network("namespace")
	p.write(os.path.join(p.root, "a-file"), "")
	r = run_py(p, "namespace", REACH["namespace"], env={"XDG_STATE_HOME": os.path.join(p.root, "a-file")}).exits(0)
	equal(r.receipt["network"]["gateway"], "served")
	told = " ".join(r.receipt["degradations"])
	contains(told, "no journal of the network")
	contains(told, "could not be talked to")


@test
def test_journals_go_with_their_receipts(p):
	need_network("namespace")
	runs = os.path.join(p.home, ".local/state/croft/runs")
	os.makedirs(runs, 0o700)
	for i in range(128):
		p.write(os.path.join(runs, f"{i:010x}.json"), "{}")
		os.utime(os.path.join(runs, f"{i:010x}.json"), (1000 + i, 1000 + i))
	for name in ("0000000000", "00000000ff", "00000000fe"):  # with a receipt; of a run that was killed; newer
		p.write(os.path.join(runs, name + ".net.jsonl"), "")
		os.utime(os.path.join(runs, name + ".net.jsonl"), (900, 900))
	os.utime(os.path.join(runs, "00000000fe.net.jsonl"), (1100, 1100))
	r = run_py(p, "namespace", REACH["namespace"]).exits(0)
	left = os.listdir(runs)
	for gone in ("0000000000.json", "0000000000.net.jsonl", "00000000ff.net.jsonl"):
		lacks(left, gone, "runs/")
	for kept in ("00000000fe.net.jsonl", r.receipt["id"] + ".json", r.receipt["id"] + ".net.jsonl"):
		contains(left, kept, "runs/")
	for name in left:
		if name.startswith(r.receipt["id"]):
			equal(os.stat(os.path.join(runs, name)).st_mode & 0o777, 0o600, name)


if __name__ == "__main__":
	main()
