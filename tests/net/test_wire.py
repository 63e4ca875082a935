#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# serial
"""What honest clients need of the gateway: no delay of its own, half-closed connections, many lookups at once."""
import json

import place  # first: it finds the harness
from place import BOTH, PYTHON, Fail, case, check, get, statuses

TRIES = 5  # a machine that is busy delays now and then, a gateway that delays does it each time
RAW = {"host": "raw.example.com", "ports": [80, 443]}
NAGLE_S = 0.030  # less than a delayed acknowledgement (40 ms) and more than a busy machine's noise in a median

TWO = r'''
import json, socket, ssl, statistics, sys, time
def connect(tls):
    s = socket.create_connection(("raw.example.com", 443 if tls else 80), timeout=20)
    return ssl.create_default_context().wrap_socket(s, server_hostname="raw.example.com") if tls else s
out = []
for tls in (False, True):
    with connect(tls) as s:
        took = []
        for _ in range(21):
            t, got = time.monotonic(), b""
            s.sendall(b"GET /two HTTP/1.1\r\nHost: raw.example.com\r\n\r\n")
            while not got.endswith(b"headtail"):
                got += s.recv(4096)
            took.append(time.monotonic() - t)
        out.append(statistics.median(took))
print(json.dumps(out))
'''


@case("W1-two-writes")
def two_writes(p):
    """An answer that is sent in two writes arrives as soon as without a gateway (TCP_NODELAY)."""
    p.write("two.py", TWO)
    inside = direct = None
    for _ in range(TRIES):
        r, _ = p.croft_run({"allow": [RAW]}, PYTHON, "two.py")
        inside = json.loads(r.out)
        direct = json.loads(p.plain(PYTHON, "two.py").out)
        if all(a < b + NAGLE_S for a, b in zip(inside, direct)):
            return
    raise Fail("inside %s s, direct %s s" % (inside, direct))


@case("W2-half-close", tiers=BOTH)
def half_close(p):
    """A client that has said all it has to say still gets its answer, once the server is ready to give it."""
    ask = {"do": "tcp", "host": "raw.example.com", "port": 80, "shut": True, "want": 1 << 20, "wait": 20}
    steps = [{**ask, "send": [get("/half")]}, {**ask, "send": [get("/drip/5/50")]}, {**ask, "send": [get("/bytes/300000")]},
             {**ask, "send": [get("/a"), get("/b")]}, {**ask, "send": [get("/post", method="POST", body="hello")]}]
    if p.tier == "process":  # through CONNECT only TLS may pass
        steps = [{**s, "port": 443, "tls": {"alpn": ["http/1.1"]}, "shut": False, "send": [s["send"][-1].replace(
            "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)]} for s in steps]
    for where, found in (("inside", p.inside({"allow": [RAW]}, steps)), ("outside", p.control(steps))):
        for f, want in zip(found, ("/half", ".....", "x" * 300000, "/b", "hello")):
            check(f["end"] == "eof" and " 200 " in f["data"] and want in f["data"],
                  (where, want[:10], {**f, "data": f["data"][:200]}, p.last[1].get("denials"), p.world.requests("raw")))
    if p.tier == "namespace":
        check(len(p.world.requests("raw")) == 2 * (len(steps) + 1), p.world.requests("raw"))


@case("W2-gone")
def gone(p):
    """A client that is gone altogether leaves nothing behind, and a part of a request is no request."""
    steps = [{"do": "tcp", "host": "raw.example.com", "port": 80, "send": ["GET /part HTTP/1.1\r\nHost: raw"], "shut": True, "wait": 10},
             {"do": "tcp", "host": "raw.example.com", "port": 80, "shut": True, "wait": 10,
              "send": ["POST /part HTTP/1.1\r\nHost: raw.example.com\r\nContent-Length: 9\r\n\r\nhalf"]},
             {"do": "http", "host": "raw.example.com", "port": 80, "send": [get("/whole")]}]
    found = p.inside({"allow": [RAW]}, steps)
    check(all(f["end"] in ("eof", "ECONNRESET") and not f["data"] for f in found[:2]), found)
    check(statuses(found[2]) == [200], found[2])
    # A body is passed on as it comes, so the head of a request that was cut off may have arrived: never all of it.
    whole = [r["target"] for r in p.world.requests("raw")
             if len(r["body"]) >= int(dict(r["headers"]).get("content-length", 0))]
    check(whole == ["/whole"], p.world.requests("raw"))


LOOKUPS = r'''
import socket, threading, time, json
took, wrong, gate = [], [], threading.Event()
def one(i):
    gate.wait()
    t = time.monotonic()
    try: socket.getaddrinfo("h%d.example.com" % i, 443)
    except OSError as e: wrong.append(str(e))
    took.append(time.monotonic() - t)
threads = [threading.Thread(target=one, args=(i,)) for i in range(800)]
[t.start() for t in threads]
gate.set()
[t.join() for t in threads]
print(json.dumps([sorted(took)[-1], wrong]))
'''


@case("W3-many-lookups")
def many_lookups(p):
    """800 lookups at once: none is lost, so none waits for the resolver to ask again."""
    p.write("lookups.py", LOOKUPS)
    slowest = None
    for _ in range(TRIES):
        r, _ = p.croft_run({"allow": ["*.example.com"]}, PYTHON, "lookups.py")
        slowest, wrong = json.loads(r.out)
        check(not wrong, wrong[:5])
        if slowest < 4:
            return
    raise Fail("one took %.1f s: it was lost" % slowest)


if __name__ == "__main__":
    place.main()
