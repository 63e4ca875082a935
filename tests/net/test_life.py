#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""The gateway's life: killed, starved, slow and many (N27), revoked (N28), asked, published, gone without a trace."""
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

import place  # first: it finds the harness
import harness
import sites
from place import BOTH, PYTHON, Skip, case, check, closed, get, https, statuses
from running import RAW, TCP, Session, echo, live, pending, wait_for

# ---- death ----

@case("N27-gateway-killed", tiers=BOTH)
def gateway_killed(p):
    """kill -9: the network is gone, nothing opens, and the receipt says so."""
    with Session(p, {"allow": [RAW, TCP]}, [echo(), echo("again"), echo("x", sites.EVIL, 4444)]) as s:
        check(s.finding().get("data") == "ping", "not served")
        pid = s.gateway()
        gone = harness.pidfds([pid])
        os.kill(pid, signal.SIGKILL)
        check(not harness.wait_gone(gone), "it lives")
        s.go_on()
        check(closed(s.finding()), "served after the gateway's death")
        s.go_on()
        check(closed(s.finding()), "open after the gateway's death")
        s.go_on()
    receipt = p.read_receipt()
    check(receipt["network"]["gateway"] == "ended early", receipt["network"])
    check(receipt.get("degradations"), receipt)
    check(not p.world.events("evil"), p.world.events("evil"))


@case("N27-connection-at-death")
def connection_at_death(p):
    """A connection that is open when the gateway dies is cut, not left hanging."""
    held = {"do": "tcp", "host": "tcp.example.com", "port": 8084, "want": 1 << 40, "wait": 30}
    with Session(p, {"allow": [TCP]}, [echo(), held]) as s:
        s.finding()
        pid = s.gateway()
        s.go_on()
        wait_for(lambda: [e for e in p.world.opened("tcp") if e["port"] == 8084], "the stream begins")
        os.kill(pid, signal.SIGKILL)
        check(s.finding()["end"] in ("eof", "ECONNRESET"), "not cut")
        s.go_on()


@case("N27-supervisor-killed", tiers=BOTH)
def supervisor_killed(p):
    """K12 for the gateway: nobody who serves a sandbox outlives its supervisor."""
    with Session(p, {"allow": [TCP]}, [echo(), {"do": "wait"}]) as s:
        s.finding()
        supervisor = p.supervisor(s.child)
        everyone = [q for q in harness.descendants(supervisor) if q != supervisor]
        check(any(b"croft-gateway" in harness.command_line(q) for q in everyone), "no gateway")
        gone = harness.pidfds(everyone)
        os.kill(supervisor, signal.SIGKILL)
        left = harness.wait_gone(gone)
        check(not left, "left: %s" % [(q, harness.command_line(q)) for q in left])


@case("N27-sandbox-cannot-see-it", tiers=BOTH)
def cannot_see(p):
    """From inside, the gateway is no process to be found or signalled."""
    code = ("import os,sys,urllib.request as u\nu.urlopen('http://raw.example.com/').read()\n"
            "print([q for q in os.listdir('/proc') if q.isdigit() and open('/proc/%s/cmdline'%q,'rb').read().split(b'\\0')[0]"
            ".endswith(b'croft-gateway')])\n"
            "n=0\nfor q in range(2,40000):\n  try: os.kill(q,0);n+=1\n  except OSError: pass\nprint(n<20)")
    r, _ = p.croft_run({"allow": [RAW]}, PYTHON, "-c", code)
    if p.tier == "namespace":
        check(r.out == "[]\nTrue\n", r)
        return
    kill = ("import os,signal,urllib.request as u\nu.urlopen('http://raw.example.com/').read()\nk=0\n"
            "for q in os.listdir('/proc'):\n  try:\n    if q.isdigit() and open('/proc/%s/cmdline'%q,'rb').read().split(b'\\0')[0]"
            ".endswith(b'croft-gateway'):\n"
            "      os.kill(int(q),9);k+=1\n  except OSError: pass\nprint('killed',k)")
    r, _ = p.croft_run({"allow": [RAW]}, PYTHON, "-c", kill)
    check("killed 0" in r.out, r)


# ---- starvation ----

@case("N27-out-of-descriptors")
def out_of_descriptors(p):
    """Accepting pauses and goes on; nothing passes unjudged."""
    flood = {"do": "many", "host": "tcp.example.com", "port": 7777, "count": 80, "wait": 0.3}
    tries = 5
    with Session(p, {"allow": [RAW, TCP]}, [echo(), flood, *[echo("after")] * tries, echo("x", sites.EVIL, 4444)]) as s:
        s.finding()
        pid = s.gateway()
        try:
            open_now = len(os.listdir("/proc/%d/fd" % pid))
        except PermissionError:
            raise Skip("the gateway does not let its own user look at it or change its limits") from None
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now + 30, open_now + 30))
        s.go_on()
        found = s.finding()
        check(found["good"] < 80, "the limit was not met: %s" % found)
        recovered = False
        for _ in range(tries):  # the flood's last connections may still hold descriptors at the first try
            s.go_on()
            recovered = s.finding().get("data") == "after" or recovered
        check(recovered, "does not recover")
        s.go_on()
        check(closed(s.finding()), "open when starved")
        s.go_on()
    check(not p.world.events("evil"), p.world.events("evil"))


@case("N27-many-connections")
def many_connections(p):
    found = p.inside({"allow": [TCP]}, [{"do": "many", "host": "tcp.example.com", "port": 7777, "count": 800, "wait": 30}, echo("after")],
                     timeout=120)
    check(found[0]["good"] == 800, found)
    check(found[1].get("data") == "after", found)


@case("N27-slow-clients")
def slow_clients(p):
    """Two hundred clients that never finish a head do not keep the next one waiting."""
    code = ("import json,socket,ssl,sys,time\nheld=[]\n"
            "for i in range(200):\n"
            "  s=socket.create_connection(('raw.example.com',80 if i%2 else 443),timeout=10)\n"
            "  s.sendall(b'GET / HTTP/1.1\\r\\nHost: raw' if i%2 else b'\\x16\\x03\\x01\\x02\\x00\\x01');held.append(s)\n"
            "t=time.monotonic();s=socket.create_connection(('raw.example.com',80));s.sendall(b'GET /quick HTTP/1.1\\r\\nHost: raw.example.com\\r\\n\\r\\n')\n"
            "print(s.recv(12).decode(), time.monotonic()-t<20)")
    r, _ = p.croft_run({"allow": [RAW]}, PYTHON, "-c", code, timeout=90)
    check("HTTP/1.1 200 True" in r.out, r)
    check([e["target"] for e in p.world.requests("raw")] == ["/quick"], p.world.requests("raw"))


@case("N27-slow-upstream")
def slow_upstream(p):
    """A server that drips and one that says nothing hold up nobody else."""
    code = ("import socket,threading,time\n"
            "def ask(path):\n  s=socket.create_connection(('raw.example.com',80),timeout=30)\n"
            "  s.sendall(('GET '+path+' HTTP/1.1\\r\\nHost: raw.example.com\\r\\nConnection: close\\r\\n\\r\\n').encode());d=b''\n"
            "  while True:\n    x=s.recv(65536)\n    if not x: return d\n    d+=x\n"
            "out={}\nt=threading.Thread(target=lambda:out.update(slow=ask('/drip/20/100')));t.start()\n"
            "h=socket.create_connection(('tcp.example.com',8085));h.sendall(b'x')\n"
            "a=time.monotonic()\nfor i in range(20): assert b'200' in ask('/q%d'%i)[:20]\n"
            "quick=time.monotonic()-a<20;t.join();print(quick,out['slow'].endswith(b'.'*20))")
    r, _ = p.croft_run({"allow": [RAW, TCP]}, PYTHON, "-c", code, timeout=90)
    check(r.out == "True True\n", r)


@case("N27-backpressure")
def backpressure(p):
    """A reader that does not read makes the sender wait: the gateway keeps nothing of it."""
    code = ("import socket,sys\ns=socket.create_connection(('tcp.example.com',8084));print('ready',flush=True);sys.stdin.readline()\n"
            "n=0\nwhile n<20000000: n+=len(s.recv(1<<20))\nprint('read',flush=True)")
    child = p.start({"allow": [TCP]}, PYTHON, "-c", code, stdin=subprocess.PIPE)
    try:
        check(child.stdout.readline() == b"ready\n", "no stream")
        pid = [q for q in harness.descendants(p.supervisor(child)) if harness.command_line(q).split(b"\0")[0].endswith(b"croft-gateway")][0]
        peak = []
        for _ in range(40):
            with open("/proc/%d/status" % pid, encoding="ascii") as f:
                peak.append(int([x for x in f if x.startswith("VmRSS")][0].split()[1]))
            threading.Event().wait(0.05)
        check(max(peak) < 64 << 10, "the gateway holds %d KiB for a reader that does not read" % max(peak))
        child.stdin.write(b"\n")
        child.stdin.flush()
        check(child.stdout.readline() == b"read\n", "the stream does not go on")
    finally:
        child.stdin.close()
        child.kill() if child.poll() is None else None
        child.wait()
        child.stdout.close()
        child.stderr.close()


@case("N27-half-closed")
def half_closed(p):
    """One side's end reaches the other, and the rest still comes."""
    found = p.inside({"allow": [TCP]}, [echo("last words", shut=True)])
    check(found[0].get("data") == "last words", found)
    found = p.inside({"allow": [RAW]}, [https("raw.example.com", get("/bytes/100000", headers=["Connection: close"]), drain=5)])
    check(statuses(found[0]) == [200] and found[0]["end"] == "eof", found[0]["end"])


# ---- decisions while it runs ----

@case("N28-revoke")
def revoke(p):
    """A new policy holds at once: what it does not allow is cut, what it allows goes on."""
    p.need("policy", "set")
    code = ("import socket,sys\na=socket.create_connection(('tcp.example.com',7777),timeout=10)\n"
            "b=socket.create_connection(('raw.example.com',80),timeout=10)\na.sendall(b'x');a.recv(1);print('ready',flush=True);sys.stdin.readline()\n"
            "try:\n  a.sendall(b'y');print('open' if a.recv(1) else 'cut')\nexcept OSError: print('cut')\n"
            "b.sendall(b'GET / HTTP/1.1\\r\\nHost: raw.example.com\\r\\n\\r\\n');print(b.recv(12).decode(),flush=True)\n"
            "try: socket.create_connection(('tcp.example.com',7777),timeout=5).recv(1);print('again')\nexcept OSError: print('no more')\n")
    child = p.start({"allow": [RAW, TCP]}, PYTHON, "-c", code, stdin=subprocess.PIPE)
    try:
        check(child.stdout.readline() == b"ready\n", "not served")
        check(len(live(p)) == 1, live(p))
        r = p.croft("policy", "set", live(p)[0], p.policy(allow=[RAW]))
        check(r.rc == 0, r)
        out, err = child.communicate(b"\n", timeout=harness.WAIT_S)
        check(out == b"cut\nHTTP/1.1 200\nno more\n", "%s %s" % (out, err[-500:]))
    finally:
        child.kill() if child.poll() is None else None
        child.wait()


@case("ask-and-answer", tiers=BOTH)
def ask(p):
    """What no rule covers waits for a person; once is once; no answer is no."""
    p.need("pending")
    step = https("raw.example.com", get("/asked"), wait=30)
    with Session(p, {"default": "ask", "ask-timeout": "20s", "ask": [RAW]}, [step, step]) as s:
        first = wait_for(lambda: pending(p), "somebody is asked")[0]
        check(not p.world.requests("raw"), "not asked before")
        r = p.croft("allow", "--once", first)
        check(r.rc == 0, r)
        check(statuses(s.finding()) == [200], "allowed, but refused")
        s.go_on()
        second = wait_for(lambda: [i for i in pending(p) if i != first], "asked again")[0]
        r = p.croft("deny", second)
        check(r.rc == 0, r)
        f = s.finding()
        check(closed(f) or statuses(f) == [403], f)
        s.go_on()
    check(len(p.world.requests("raw")) == 1, p.world.requests("raw"))


@case("ask-times-out", tiers=BOTH)
def ask_times_out(p):
    p.need("pending")
    begun = time.monotonic()
    found = p.inside({"ask-timeout": "1s", "ask": [RAW]}, [https("raw.example.com", get("/asked"), wait=30)])
    check(closed(found[0]) or statuses(found[0]) == [403], found)
    check(time.monotonic() - begun < harness.WAIT_S, "waited too long")
    check(not p.world.requests("raw"), p.world.requests("raw"))


# ---- ports ----

SERVE = ("import socket,sys\ns=socket.create_server(('0.0.0.0',8000));print('ready',flush=True)\n"
         "while True:\n c,_=s.accept();d=c.recv(100)\n if d!=b'hello': continue\n"
         " c.sendall(b'inside '+d);c.close();sys.stdin.readline();break\n")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@case("publish", tiers=BOTH)
def publish(p):
    """A port inside, at the host's loopback and nowhere else; without it, nothing."""
    port = free_port()
    if p.tier == "process":
        r = p.run("--publish", "%d:8000" % port, "--", "/bin/sh", "-c", "echo it-runs")
        check(r.rc in (125, 126) and "it-runs" not in r.out, "a promise that this tier cannot keep: %s" % r)
        return
    child = p.start({}, PYTHON, "-c", SERVE, stdin=subprocess.PIPE, options=["--publish", "%d:8000" % port])
    try:
        line = child.stdout.readline()
        check(line == b"ready\n", "%s %s" % (line, "" if line else child.stderr.read().decode()[-500:]))
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((sites.HOST4, port), timeout=5).close()
            raise harness.Fail("published to the network")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as c:
            c.sendall(b"hello")
            check(c.recv(100) == b"inside hello", "not carried")
    finally:
        child.stdin.close()
        child.wait(harness.WAIT_S)
        child.stdout.close()
        child.stderr.close()
    with socket.socket() as s:
        check(s.connect_ex(("127.0.0.1", port)) != 0, "still published after the end")


@case("publish-taken", tiers=BOTH)
def publish_taken(p):
    """A port that somebody has is an error before anything runs."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        r = p.run("--publish", "%d:8000" % s.getsockname()[1], "--", "/bin/sh", "-c", "echo ran")
        check(r.rc in (125, 126) and "ran" not in r.out, r)


@case("host-port")
def host_port(p):
    """One service of the host's loopback, by its name; not its neighbour, not for a sandbox without it."""
    steps = [echo("to host", "host.croft.internal", sites.HOST_PORT), echo("x", "host.croft.internal", sites.HOST_HTTP)]
    found = p.inside({}, steps, options=["--host-port", str(sites.HOST_PORT)])
    check(found[0].get("data") == "to host", "%s %s" % (found, p.denied()))
    check(closed(found[1]), found)
    p.world.forget()
    found = p.inside({"allow": [RAW]}, steps)
    check(all(map(closed, found)) and not p.world.events("hostport"), found)


# ---- nothing is left ----

def listening():
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open("/proc/net/" + name, encoding="ascii") as f:
            found |= {x.split()[1] for x in f.readlines()[1:] if x.split()[3] == "0A"}
    return found


def ours():
    """Processes of our own copy of croft, which no other suite has; gateways that we started, or that nobody waits for."""
    copy = os.path.dirname(os.path.abspath(harness.croft)).encode() + b"/"
    lines = {q: harness.command_line(int(q)) for q in os.listdir("/proc") if q.isdigit()}
    return {q for q, line in lines.items() if line.startswith(copy) or
            (line.startswith(b"croft-gateway") and not harness.somebody_elses(int(q)))}


harness.alone("the socket of a session that was killed stays until the next command", "R8-nothing-left")


@case("R8-nothing-left", tiers=BOTH)
def nothing_left(p):
    """Processes, sockets, namespaces and files after ordinary runs, denied runs and killed ones."""
    before = (ours(), listening(), len(os.listdir("/proc/self/fd")))
    for i in range(10):
        p.inside({"allow": [RAW]}, [https("raw.example.com", get("/%d" % i)), https("evil.example.net", get("/", "evil.example.net"))])
    with Session(p, {"allow": [TCP]}, [echo(), {"do": "wait"}]) as s:
        s.finding()
        gone = harness.pidfds(harness.descendants(s.child.pid))
        s.child.kill()
        check(not harness.wait_gone(gone), "processes outlive their supervisor")
    p.inside({"allow": [RAW]}, [https("raw.example.com", get("/next"))])  # sweeps what the killed one could not
    left, end = ours() - before[0], time.monotonic() + harness.WAIT_S
    while left and time.monotonic() < end:  # another suite's orphans go, ours would stay
        left &= ours()
    check(not left, "processes left: %s" % [harness.command_line(int(q)) for q in left])
    after = (None, listening(), len(os.listdir("/proc/self/fd")))
    check(after[1] <= before[1], "listening sockets left: %s" % (after[1] - before[1]))
    sockets = [os.path.join(d, f) for d, _, fs in os.walk(p.dir) for f in fs
               if os.path.exists(os.path.join(d, f)) and os.stat(os.path.join(d, f)).st_mode & 0o170000 == 0o140000]
    check(not sockets, "socket files left: %s" % sockets)


if __name__ == "__main__":
    place.main()
