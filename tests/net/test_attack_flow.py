#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""Connections against the gateway: addresses that stand for nothing, odd sockets, floods, and policy in between."""
import contextlib
import json
import os
import subprocess
import threading
import time

import place  # first: it finds the harness
import harness
import sites
from place import PYTHON, Skip, case, check, get, https, statuses

RAW = {"host": "raw.example.com", "ports": [80, 443]}
TCP = {"host": "tcp.example.com", "ports": [7777], "mode": "tcp"}
FDS_SLACK = 12
HEADS_MAX_MIB = 160
WILD_NAMES = 17000  # more than there is room for


def wait_for(what, text, timeout=harness.WAIT_S):
    end = time.monotonic() + timeout
    while not (value := what()):
        check(time.monotonic() < end, "waited in vain: " + text)
        threading.Event().wait(0.02)
    return value


def script(p, policy, code, *words, timeout=harness.WAIT_S):
    """A program inside that prints JSON lines: [{what, …}], by `what`."""
    p.write("attack.py", "import json\ndef say(what, **more): print(json.dumps(dict(what=what, **more)), flush=True)\n" + code)
    r, _ = p.croft_run(policy, PYTHON, "attack.py", *words, timeout=timeout)
    found = {}
    for line in r.out.splitlines():
        row = json.loads(line)
        found[row.pop("what")] = row
    check(r.rc == 0, r)
    return found


@contextlib.contextmanager
def running(p, policy, code, *words):
    """The same, talking: yields (child, its gateway's number)."""
    p.write("attack.py", code)
    child = p.start(policy, PYTHON, "attack.py", *words, stdin=subprocess.PIPE)
    try:
        line = child.stdout.readline()
        check(line == b"ready\n", "%r %r" % (line, child.stderr.read() if not line else b""))
        found = [pid for pid in harness.descendants(p.supervisor(child))
                 if harness.command_line(pid).split(b"\0")[0].endswith(b"croft-gateway") and b"--keeper" not in harness.command_line(pid)]
        check(len(found) == 1, "gateways: %s" % found)
        yield child, found[0]
    finally:
        with contextlib.suppress(OSError):
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(harness.WAIT_S)
        if child.poll() is None:
            child.kill()
            child.wait()


def tell(child, word="go"):
    child.stdin.write(word.encode() + b"\n")
    child.stdin.flush()
    return child.stdout.readline().decode().strip()


def pending(p):
    rows = json.loads(p.croft("pending", "--json").out or "[]")
    rows = rows.get("pending", []) if isinstance(rows, dict) else rows
    return [str(row["id"]) for row in rows]


# ---- where ----

WHERE = r'''
import socket, sys
def attempt(host, port, family=None):
    try:
        with socket.socket(family or (socket.AF_INET6 if ":" in host else socket.AF_INET), socket.SOCK_STREAM) as s:
            s.settimeout(4)
            s.connect((host, port))
            s.sendall(b"GET /x HTTP/1.1\r\nHost: raw.example.com\r\n\r\n")
            return s.recv(4096).decode("latin-1") or "eof"
    except OSError as e:
        return type(e).__name__
ours = socket.getaddrinfo("raw.example.com", 80, type=socket.SOCK_STREAM)
v4 = [a[4][0] for a in ours if a[0] == socket.AF_INET][0]
v6 = [a[4][0] for a in ours if a[0] == socket.AF_INET6]
say("ours", answer=attempt(v4, 80), addresses=[v4, *v6])
n = [int(x) for x in v4.split(".")]
near = ["198.18.%d.%d" % (n[2], (n[3] + k) % 256) for k in (1, 2, 255)] + ["198.19.255.255", "198.18.0.0", "198.18.0.1", "198.18.0.3", "198.18.255.1",
        "198.17.%d.%d" % (n[2], n[3]), "198.20.%d.%d" % (n[2], n[3])]
low = "%x" % (n[2] * 256 + n[3])
near += ["fd63:726f:6674::" + x for x in ("0", "1", "2", "ffff", "1:" + low, "2:" + low)]
near += ["fd63:726f:6674:1::" + low, "fd63:726f:6674:0:1::" + low, "fd63:726f:6675::" + low, "fd63:726f:6674:0:0:0:ff00:" + low]
near += ["::ffff:" + sys.argv[1], "::" + sys.argv[1], "64:ff9b::" + sys.argv[1], "2002:cb00:7142::1", "ff02::1", "224.0.0.1", "255.255.255.255",
         "240.0.0.1", "0.0.0.1", "192.88.99.1", "100.64.0.1", "192.0.0.170", "2001::1", "::ffff:0:" + sys.argv[1], "100::1", "fec0::1"]
for a in near:
    for port in (80, 443):
        say("%s %d" % (a, port), answer=attempt(a, port))
for port in (1, 2, 22, 111, 6010, 65535):
    for a in (v4, "198.18.0.1", "198.18.0.2", sys.argv[1], sys.argv[2], "127.0.0.1"):
        say("%s %d" % (a, port), answer=attempt(a, port))
say("mapped", answer=attempt("::ffff:" + v4, 80, socket.AF_INET6))
say("end", answer=attempt(v4, 80))
'''


@case("B1-addresses-of-nobody")
def addresses_of_nobody(p):
    """Only an address that was given out for a name leads anywhere, and only to that name."""
    found = script(p, {"allow": [RAW]}, WHERE, sites.EVIL, sites.EVIL6, timeout=200)
    good = ("ours", "mapped", "end")
    check(all(" 200 " in found[k]["answer"] for k in good), [found[k] for k in good])
    for what, row in found.items():
        refused = "HTTP/1.1" not in row["answer"] or "HTTP/1.1 403 " in row["answer"]
        check(what in good or refused, "%s: %s" % (what, row))
    for label in ("evil", "metadata", "private", "host", "hostport"):
        check(not p.world.events(label), p.world.events(label))
    check(len(p.world.requests("raw")) == len(good), p.world.requests("raw"))


# ---- with what ----

SOCKETS = r'''
import ctypes, errno, os, socket, struct, sys
evil, evil6 = sys.argv[1], sys.argv[2]
def attempt(name, act):
    try:
        out = act()
        say(name, got=str(out))
    except OSError as e:
        say(name, error=errno.errorcode.get(e.errno, str(e)))
def sock(*args):
    s = socket.socket(*args); s.settimeout(2); return s
def option(level, number, value=1):
    def act():
        with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.setsockopt(level, number, struct.pack("i", value)); return "set"
    return act
def fastopen():
    with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.sendto(b"fast " + evil.encode(), 0x20000000, (evil, 4444)); return s.recv(100)
def fastopen_connect():
    with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(6, 30, 1); s.connect((evil, 4444)); s.sendall(b"fast"); return s.recv(100)
def spoofed(kind):
    def act():
        with sock(socket.AF_INET, kind) as s:
            s.bind((sys.argv[3], 4567)); s.connect((evil, 4444)); s.send(b"spoofed"); return s.recv(100)
    return act
def same():
    with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.bind((evil, 4444)); s.connect((evil, 4444)); s.sendall(b"self"); return s.recv(100)
def reuse(port, address="0.0.0.0"):
    def act():
        with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            s.bind((address, port)); s.listen(5); return "listens"
    return act
def mptcp():
    with sock(socket.AF_INET, socket.SOCK_STREAM, 262) as s:
        s.connect((evil, 4444)); s.sendall(b"many"); return s.recv(100)
def udp(port, family=socket.AF_INET, address=None, kind=socket.SOCK_DGRAM, proto=0):
    def act():
        with sock(family, kind, proto) as s:
            s.settimeout(0.5)
            s.sendto(b"datagram " + b"x" * 40, (address or evil, port)); return s.recv(100)
    return act
def broadcast():
    with sock(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b"all", ("255.255.255.255", 4444)); return s.recv(10)
def urgent():
    with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.connect((evil, 4444)); s.send(b"x", socket.MSG_OOB); return s.recv(100)
def netns():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000 | 0x10000000): raise OSError(ctypes.get_errno(), "")
    return udp(4444)()
def repair():
    with sock(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(6, 19, 1); return "repairs"
for name, act in (("fastopen", fastopen), ("fastopen connect", fastopen_connect), ("spoofed tcp", spoofed(socket.SOCK_STREAM)),
                  ("spoofed udp", spoofed(socket.SOCK_DGRAM)), ("same", same), ("reuse 1", reuse(1)), ("reuse 53", reuse(53)), ("reuse 1 one", reuse(1, evil)),
                  ("mptcp", mptcp), ("udp 443", udp(443)), ("udp 4444", udp(4444)), ("udp6", udp(4444, socket.AF_INET6, evil6)),
                  ("udplite", udp(4444, proto=136)), ("broadcast", broadcast), ("urgent", urgent), ("transparent", option(0, 19)),
                  ("mark", option(1, 36)), ("device", lambda: sock(socket.AF_INET, socket.SOCK_STREAM).setsockopt(1, 25, b"wan0")), ("repair", repair),
                  ("raw", lambda: sock(socket.AF_INET, socket.SOCK_RAW, 255)), ("packet", lambda: sock(socket.AF_PACKET, socket.SOCK_RAW, 3)),
                  ("vsock", lambda: sock(40, socket.SOCK_STREAM)), ("xdp", lambda: sock(44, socket.SOCK_RAW)), ("netns", netns)):
    attempt(name, act)
'''


@case("B2-sockets-of-all-kinds")
def sockets_of_all_kinds(p):
    """Whatever a socket can be made to do inside, nothing of it arrives outside."""
    found = script(p, {"allow": [RAW, TCP]}, SOCKETS, sites.EVIL, sites.EVIL6, sites.RAW, timeout=120)
    check(not p.world.events("evil"), (p.world.events("evil"), found))
    for what in ("transparent", "mark", "repair", "raw", "packet", "reuse 1"):
        check("error" in found[what], "%s: %s" % (what, found[what]))
    check(p.control([{"do": "udp", "host": sites.EVIL, "port": 4444, "data": "x"}])[0].get("data") == "x", "the control does not reach")


LISTENERS = r'''
import socket, threading
made = []
def listen(address, port, family=socket.AF_INET):
    try:
        s = socket.socket(family, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port)); s.listen(5); made.append(s)
        return True
    except OSError as e:
        return str(e)
v4 = socket.gethostbyname("raw.example.com")
say("bound", one=listen(v4, 80), two=listen("0.0.0.0", 443))
s = socket.create_connection((v4, 80), timeout=10)
s.sendall(b"GET /real HTTP/1.1\r\nHost: raw.example.com\r\n\r\n")
say("answer", text=s.recv(4096).decode("latin-1"))
'''


@case("B3-listeners-inside")
def listeners_inside(p):
    """A listener of the sandbox at an address of the world gets none of what is meant for the world."""
    found = script(p, {"allow": [RAW]}, LISTENERS)
    check("/real" in found["answer"]["text"], found)


# ---- how much ----

FLOOD = r'''
import socket, struct, sys
kinds = sys.argv[1:]
print("ready", flush=True) if socket.gethostbyname("raw.example.com") and socket.create_connection(("tcp.example.com", 7777), 10) else 0
v4, tcp = socket.gethostbyname("raw.example.com"), socket.gethostbyname("tcp.example.com")
def begin(host, port, data=b"", reset=False, wait=False):
    s = socket.socket(); s.setblocking(wait); s.settimeout(10) if wait else None
    try: s.connect((host, port))
    except BlockingIOError: pass
    if data:
        try: s.send(data)
        except OSError: pass
    if reset: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
for line in sys.stdin:
    kind = line.strip()
    for i in range(600):
        try:
            if kind == "open": begin(v4, 80)
            if kind == "reset": begin(v4, 80, reset=True, wait=True)
            if kind == "half": begin(v4, 443, b"\x16\x03\x01\x02\x00\x01", wait=True)
            if kind == "head": begin(v4, 80, b"GET / HT", reset=i % 2 == 0, wait=True)
            if kind == "request": begin(v4, 80, b"GET /drip/5/10 HTTP/1.1\r\nHost: raw.example.com\r\n\r\n", reset=i % 2 == 0, wait=True)
            if kind == "post": begin(v4, 80, b"POST / HTTP/1.1\r\nHost: raw.example.com\r\nContent-Length: 100\r\n\r\nabc", reset=i % 2 == 0, wait=True)
            if kind == "tcp": begin(tcp, 7777, b"x" * 1000, reset=i % 2 == 0, wait=True)
            if kind == "nobody": begin("198.18.77.77", 80, reset=True)
            if kind == "dns": begin("198.18.0.1", 53, b"\x00\xff" + b"x" * (i % 50), reset=i % 2 == 0, wait=True)
        except OSError: pass
    print("done", flush=True)
'''


def fds(pid):
    try:
        return len(os.listdir("/proc/%d/fd" % pid))
    except PermissionError:
        raise Skip("the gateway does not let its own user look at it") from None


@case("B4-nothing-is-kept")
def nothing_is_kept(p):
    """Connections that end in every odd way leave no descriptor and no memory that grows."""
    with running(p, {"allow": [RAW, TCP]}, FLOOD) as (child, gateway):
        tell(child, "request")
        before = wait_for(lambda: fds(gateway), "the gateway is there")
        for kind in ("open", "reset", "half", "head", "request", "post", "tcp", "nobody", "dns", "request"):
            check(tell(child, kind) == "done", kind)
            wait_for(lambda: fds(gateway) <= before + 120, "%s: %d descriptors" % (kind, fds(gateway)))
        wait_for(lambda: fds(gateway) <= before + FDS_SLACK, "%d descriptors, %d before" % (fds(gateway), before), 60)
        with open("/proc/%d/status" % gateway, encoding="ascii") as f:
            peak = [int(line.split()[1]) >> 10 for line in f if line.startswith("VmHWM")][0]
        check(peak < 96, "the gateway had %d MiB" % peak)


NAMES = r'''
import socket, struct, sys, time
count = int(sys.argv[1])
def question(name, ident):
    labels = b"".join(bytes([len(x)]) + x for x in name.encode().split(b"."))
    return struct.pack(">HHHHHH", ident, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
def lookup(s, name, ident=1):
    while True:
        s.send(question(name, ident))
        try: return socket.inet_ntoa(s.recv(512)[-4:])
        except socket.timeout: pass
def get(address, host):
    try:
        with socket.create_connection((address, 80), timeout=20) as c:
            c.sendall(("GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host).encode())
            return c.recv(4096).decode("latin-1") or "eof"
    except OSError as e: return type(e).__name__
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("198.18.0.1", 53)); s.settimeout(5)
first, held = lookup(s, "a.wild.example.org"), lookup(s, "raw.example.com")
keep = socket.create_connection((held, 80), timeout=5)
keep.sendall(b"GET /status/204 HTTP/1.1\r\nHost: raw.example.com\r\n\r\n"); keep.recv(4096)
say("before", first=get(first, "a.wild.example.org"))
done, seen = 0, set()
while done < count:
    for k in range(20):
        s.send(question("n%d.wild.example.org" % (done + k), k))
    try:
        for k in range(20): seen.add(s.recv(512)[-4:])
    except socket.timeout: pass
    done += 20
say("made", different=len(seen), reused=socket.inet_aton(first) in seen or socket.inet_aton(held) in seen)
say("evicted", answer=get(first, "a.wild.example.org"), other=get(first, "n1.wild.example.org"))
keep.sendall(b"GET /held HTTP/1.1\r\nHost: raw.example.com\r\n\r\n")
say("held", answer=keep.recv(4096).decode("latin-1"), address=lookup(s, "raw.example.com") == held)
again = lookup(s, "a.wild.example.org")
say("again", answer=get(again, "a.wild.example.org"), wrong=get(again, "raw.example.com"))
'''


@case("B5-more-names-than-room")
def more_names_than_room(p):
    """A name that was pushed out stands for nothing; one in use stays; no address changes hands."""
    found = script(p, {"allow": [RAW, {"host": "*.wild.example.org", "ports": [80]}]}, NAMES, str(WILD_NAMES), timeout=110)
    check(" 200 " in found["before"]["first"] and found["made"]["different"] > WILD_NAMES * 0.9, found)
    check(not found["made"]["reused"], found["made"])
    check("HTTP/1.1" not in found["evicted"]["answer"] + found["evicted"]["other"], found["evicted"])
    check("/held" in found["held"]["answer"] and found["held"]["address"], found["held"])
    check(" 200 " in found["again"]["answer"] and " 421 " in found["again"]["wrong"], found["again"])


ASKS = r'''
import socket, sys, threading
def get(i, out):
    try:
        with socket.create_connection(("raw.example.com", 80), timeout=30) as c:
            c.sendall(("GET /asked/%d HTTP/1.1\r\nHost: raw.example.com\r\n\r\n" % i).encode())
            out.append(c.recv(100)[9:12].decode())
    except OSError as e: out.append(type(e).__name__)
out = []
threads = [threading.Thread(target=get, args=(i, out)) for i in range(200)]
[t.start() for t in threads]; [t.join() for t in threads]
say("asks", refused=out.count("403"), all=len(out), other=[x for x in out if x != "403"][:5])
'''


@case("B6-more-questions-than-anybody-answers")
def more_questions(p):
    found = script(p, {"ask": [RAW], "ask-timeout": "3s"}, ASKS, timeout=90)
    check(found["asks"]["refused"] == found["asks"]["all"] == 200, found)
    check(not p.world.requests("raw"), p.world.requests("raw"))


HEADS = r'''
import os, signal, socket, sys
host, ends, kids = socket.gethostbyname("raw.example.com"), [], []
for _ in range(4):
    r, w = os.pipe()
    kids.append(os.fork())
    if kids[-1] == 0:
        held = []
        for i in range(850):
            try:
                s = socket.create_connection((host, 80), timeout=5)
                held.append(s)
                s.sendall(b"GET / HTTP/1.1\r\nHost: raw.example.com\r\nX: " + b"a" * 62000)
            except OSError: pass
        os.write(w, b"x"); os.close(w)
        signal.pause()
    os.close(w); ends.append(r)
[os.read(r, 1) for r in ends]
print("ready", flush=True)
sys.stdin.readline()
with socket.create_connection((host, 80), timeout=60) as s:
    s.sendall(b"GET /small HTTP/1.1\r\nHost: raw.example.com\r\n\r\n")
    print(s.recv(100)[9:12].decode(), flush=True)
[os.kill(k, signal.SIGKILL) for k in kids]
'''


@case("B10-heads-without-end")
def heads_without_end(p):
    """Thousands of heads that never end do not fill memory, and a small request is still heard."""
    with running(p, {"allow": [RAW]}, HEADS) as (child, gateway):
        with open("/proc/%d/status" % gateway, encoding="ascii") as f:
            peak = [int(line.split()[1]) >> 10 for line in f if line.startswith("VmHWM")][0]
        check(peak < HEADS_MAX_MIB, "the gateway has %d MiB" % peak)
        check(tell(child) in ("200", "503"), "a small request is not answered")


# ---- policy in between ----

def live(p):
    """Ids of this user's running sandboxes."""
    return os.listdir(os.path.join(p.env["XDG_STATE_HOME"], "croft", "live"))


PUSH = r'''
import socket, sys
line = "%s %s %s\0report-status" % ("0" * 40, "1" * 40, sys.argv[1])
body = ("%04x%s0000" % (len(line) + 4, line)).encode()
c = socket.create_connection(("raw.example.com", 80), timeout=20)
c.sendall(b"POST /owner/demo.git/git-receive-pack HTTP/1.1\r\nHost: raw.example.com\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:int(sys.argv[2])])
print("ready", flush=True)
sys.stdin.readline()
c.sendall(body[int(sys.argv[2]):])
try: print(c.recv(4096)[9:12].decode() or "eof", flush=True)
except OSError as e: print(type(e).__name__, flush=True)
sys.stdin.readline()
'''


def git_rule(*refs):
    return {"host": "raw.example.com", "ports": [80], "mode": "git", "repos": ["owner/*"], "push": True, "refs": list(refs)}


@case("B7-refs-under-a-new-policy")
def refs_under_a_new_policy(p):
    """The refs of a push are judged by the policy that holds when they are known, not by that of its head."""
    p.need("policy", "set")
    for after, want in ((git_rule("refs/heads/main", "refs/heads/x"), "415"), (git_rule("refs/heads/other"), "403")):
        p.world.forget()
        with running(p, {"allow": [git_rule("refs/heads/main")]}, PUSH, "refs/heads/main", "10") as (child, _):
            r = p.croft("policy", "set", live(p)[0], p.policy(allow=[after]))
            check(r.rc == 0, r)
            got = tell(child)
        seen = [e["target"] for e in p.world.requests("raw")]
        # 415 is the server's word about the content type: it was reached.
        check(got == want and bool(seen) == (want == "415"), "%s: %s, %s" % (after, got, seen))


OPEN = r'''
import socket, sys
a = socket.create_connection(("tcp.example.com", 7777), timeout=10)
a.sendall(b"a"); a.recv(1)
b = socket.create_connection(("raw.example.com", 80), timeout=20)
b.sendall(b"GET /hold HTTP/1.1\r\nHost: raw.example.com\r\n\r\n"); b.recv(4096)
print("ready", flush=True)
sys.stdin.readline()
def cut(s, data):
    try:
        s.settimeout(3); s.sendall(data)
        while True:
            if not s.recv(4096): return "cut"
            if data == b"b": return "open"
    except socket.timeout: return "open"
    except OSError: return "cut"
print(cut(a, b"b"), cut(b, b""), flush=True)
'''


@case("B11-addresses-under-a-new-policy")
def addresses_under_a_new_policy(p):
    """A deny by address that comes later cuts what is open to it under a name."""
    p.need("policy", "set")
    for deny, want in (([], "open open"), ([{"cidr": sites.TCP + "/32"}], "cut open"), ([{"cidr": "203.0.113.0/24"}, {"cidr": sites.RAW6 + "/128"}], "cut cut")):
        with running(p, {"allow": [RAW, TCP]}, OPEN) as (child, _):
            r = p.croft("policy", "set", live(p)[0], p.policy(allow=[RAW, TCP], deny=deny))
            check(r.rc == 0, r)
            got = tell(child)
        check(got == want, "%s: %s" % (deny, got))


@case("B8-a-push-that-is-asked-about")
def asked_push(p):
    """The whole of it came while somebody was asked: it is read then, and its refs still count."""
    p.need("pending")
    for ref, want in (("refs/heads/main", "415"), ("refs/heads/other", "403")):
        p.world.forget()
        with running(p, {"ask": [git_rule("refs/heads/main")], "ask-timeout": "20s"}, PUSH, ref, "10000") as (child, _):
            first = wait_for(lambda: pending(p), "somebody is asked")[0]
            check(not p.world.requests("raw"), "not asked before")
            check(p.croft("allow", "--once", first).rc == 0, "cannot answer")
            got = tell(child)
        check(got == want, "%s: %s" % (ref, got))
        check(bool(p.world.requests("raw")) == (want == "415"), p.world.requests("raw"))


MANY = r'''
import socket, sys, threading
def post(i, out):
    with socket.create_connection(("raw.example.com", 80), timeout=60) as c:
        body = "body %d" % i
        c.sendall(("POST /asked?n=%d HTTP/1.1\r\nHost: raw.example.com\r\nContent-Length: %d\r\n\r\n%s" % (i, len(body), body)).encode())
        out.append(c.recv(100)[9:12].decode())
out = []
threads = [threading.Thread(target=post, args=(i, out)) for i in range(5)]
socket.gethostbyname("raw.example.com")
[t.start() for t in threads]
print("ready", flush=True)
sys.stdin.readline()
[t.join() for t in threads]
print(" ".join(sorted(out)), flush=True)
'''


@case("B9-once-is-once")
def once_is_once(p):
    """One answer is for one request: others that look alike do not slip through with it."""
    p.need("pending")
    with running(p, {"ask": [RAW], "ask-timeout": "20s"}, MANY) as (child, _):
        first = wait_for(lambda: pending(p), "somebody is asked")[0]
        wait_for(lambda: len(pending(p)) == 5, "five questions", 15)
        check(p.croft("allow", "--once", first).rc == 0, "cannot answer")
        got = tell(child)
    check(got == "200 403 403 403 403" and len(p.world.requests("raw")) == 1, (got, p.world.requests("raw")))


if __name__ == "__main__":
    place.main(("app", "dns"))
