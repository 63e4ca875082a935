#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# once
"""HTTP against the gateway: servers that lie, requests that mean two things, secrets that are sent back."""
import base64
import contextlib
import json
import re
import os
import signal
import subprocess
import time

import place  # first: it finds the harness
import harness
import sites
from place import PYTHON, Fail, Skip, case, check, get, https, statuses
from world import HERE, World

H1, H2 = 9002, 9003  # of the hostile server; odd ports speak HTTP/2
RAW = {"host": "raw.example.com", "ports": [443, H1, H2], "mode": "http"}
PAUSE = {"do": "dns", "raw": "00", "wait": 1}  # nobody answers that
HOST, VALUE = "secret.example.com", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
MEMORY_MAX_B = 96 << 20  # of the gateway, whatever a server sends
GRACE_S = 40


def start_hostile(self):
    for port in (H1, H2):
        self.spawn_ready([PYTHON, os.path.join(HERE, "servers", "hostile.py"), sites.RAW, str(port), *self.good,
                          os.path.join(self.dir, "hostile.record")])


World._start_hostile = start_hostile


def noted(p):
    with open(os.path.join(p.world.dir, "hostile.record"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def head(path, authority="raw.example.com:%d" % H2, method="GET", *extra):
    return [[":method", method], [":scheme", "https"], [":authority", authority], [":path", path], *extra]


def h2(*streams, port=H2, **more):
    return {"do": "h2", "host": "raw.example.com", "port": port,
            "streams": [{"headers": s} if isinstance(s, list) else s for s in streams], **more}


def hostile(*pieces, **more):
    return https("raw.example.com", *pieces, port=H1, **more)


def ask(path, method="GET", **more):
    return get(path, "raw.example.com:%d" % H1, method=method, **more)


def poisoned(finding):
    text = json.dumps(finding)
    return "poisoned" in text


# ---- servers that lie ----

@case("A1-bodies-where-none-are")
def bodies_where_none_are(p):
    """What follows an answer is never the answer to the next request of the same client, or of another."""
    steps = [hostile(ask("/bodyless/head", "HEAD"), ask("/next"), responses=2, methods={"0": "HEAD"}, wait=4),
             hostile(ask("/bodyless/204"), ask("/next"), responses=2, wait=4),
             hostile(ask("/bodyless/304"), ask("/next"), responses=2, wait=4),
             hostile(ask("/twice"), ask("/next"), responses=2, wait=4),
             hostile(ask("/twice") + ask("/next"), responses=2, wait=4), hostile(ask("/late")), PAUSE,
             hostile(ask("/next")), h2(head("/204-data"), wait=4), h2(head("/length-lie"), wait=4), h2(head("/next"), wait=4)]
    found = p.inside({"allow": [RAW]}, steps)
    for s, f in zip(steps, found):
        if s is not PAUSE:
            check(not poisoned(f), "%s: %s" % (s.get("send", s), f))
    check(statuses(found[7]) == [200] and found[10]["streams"][0]["status"] == 200, found)
    control = p.control(steps[3:4])
    check(poisoned(control[0]), "the control is not poisoned: %s" % control)


@case("A2-answers-out-of-shape")
def answers_out_of_shape(p):
    """Answers that could be read in two ways are a 502 and the end of that connection."""
    raws = ["HTTP/1.1 200 OK%0d%0aContent-Length: 1%0d%0aContent-Length: 2%0d%0a%0d%0aab",
            "HTTP/1.1 200 OK%0d%0aContent-Length: 1%0d%0aTransfer-Encoding: chunked%0d%0a%0d%0a0%0d%0a%0d%0a",
            "HTTP/1.1 200 OK%0aContent-Length: 1%0a%0aa", "HTTP/1.1 200 OK%0d%0aX: a%0db%0d%0aContent-Length: 1%0d%0a%0d%0aa",
            "HTTP/1.1 200 OK%0d%0aX: a%00%0d%0aContent-Length: 1%0d%0a%0d%0aa", "HTTP/1.1 200 OK%0d%0a X: a%0d%0a%0d%0a",
            "HTTP/1.1 200 OK%0d%0aContent-Length: -1%0d%0a%0d%0a", "HTTP/1.1 200 OK%0d%0aContent-Length : 1%0d%0a%0d%0aa",
            "HTTP/1.1 200 OK%0d%0aTransfer-Encoding: chunked%0d%0a%0d%0a1;x%0d%0aa%0d%0a0%0d%0a%0d%0a",
            "HTTP/1.1 200 OK%0d%0aTransfer-Encoding: chunked%0d%0a%0d%0a1%0aa%0d%0a0%0d%0a%0d%0a",
            "HTTP/2.0 200 OK%0d%0a%0d%0a", "HTTP/1.1 20 OK%0d%0a%0d%0a", "HTTP/1.1 101 Switching%0d%0aUpgrade: websocket%0d%0aConnection: upgrade%0d%0a%0d%0a",
            "SSH-2.0-x%0d%0a", "%00%00%00%00%00%00", "HTTP/1.1 999 x%0d%0a%0d%0a", "HTTP/1.1 099 x%0d%0a%0d%0a"]
    steps = [hostile(ask("/raw?" + r.replace(" ", "%20")), wait=6) for r in raws]
    streams = ["/two-status", "/crlf", "/name-crlf", "/te", "/trailer", "/101", "/big-head", "/bomb", "/continuation"]
    steps += [h2(head(s), wait=10) for s in streams] + [h2(head("/after"), wait=6), hostile(ask("/after"))]
    found = p.inside({"allow": [RAW]}, steps, timeout=180)
    for r, f in zip(raws, found):
        good = [s for s in f.get("responses", []) if s["status"] == 200 and s["body"] != ""]
        check(not good, "%s: %s" % (r, f))
    for s, f in zip(streams, found[len(raws):]):
        text = json.dumps(f)
        check("x-b" not in text and "poisoned" not in text, "%s: %s" % (s, text[:500]))
    check(found[-2]["streams"][0]["status"] == 200 and statuses(found[-1]) == [200], found[-2:])


@case("A3-answers-in-http2")
def answers_in_http2(p):
    """Pushes, goodbyes, resets, trailers: the request gets its answer or a 502; the next one is fine."""
    paths = ["/push", "/after", "/goaway", "/after", "/goaway-all", "/rst", "/trailer-length", "/after"]
    found = p.inside({"allow": [RAW]}, [h2(head(s), wait=10) for s in paths], timeout=120)
    for s, f in zip(paths, found):
        status = f.get("streams", [{}])[0].get("status")
        if s == "/trailer-length" and f["streams"][0].get("reset"):
            continue  # seen to be wrong before any of it was passed on
        check(status in ((200,) if s == "/after" else (200, 502)), "%s: %s" % (s, f))
        check("pushed" not in json.dumps(f), f)
    before = len([e for e in noted(p) if e["event"] == "open2"])
    p.inside({"allow": [RAW]}, [h2(head("/push"), wait=10)] + [h2(head("/after"), wait=10)] * 3)
    check(len([e for e in noted(p) if e["event"] == "open2"]) == before + 1, "a connection that was pushed on is lost")
    tries = [e for e in noted(p) if e["event"] == "request2" and dict(e["fields"]).get(":path") == "/rst"]
    check(1 <= len(tries) <= 2, "tried %d times" % len(tries))


# ---- floods ----

# Runs inside: a client that asks over HTTP/2 and then does not read, until its input ends.
DEAF = r'''
import socket, ssl, sys
import h2.connection, h2.config
c = ssl.create_default_context(); c.set_alpn_protocols([sys.argv[3]])
host, port = "raw.example.com", int(sys.argv[1])
s = c.wrap_socket(socket.create_connection((host, port), timeout=20), server_hostname=host)
if sys.argv[3] == "h2":
    q = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    q.initiate_connection()
    for path in sys.argv[2].split(","):
        q.send_headers(q.get_next_available_stream_id(), [(":method", "GET"), (":scheme", "https"),
                       (":authority", "%s:%d" % (host, port)), (":path", path)], end_stream=True)
    s.sendall(q.data_to_send())
else:
    s.sendall(("GET %s HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (sys.argv[2], host, port)).encode())
print("asked", flush=True)
sys.stdin.read()
'''


def gateway_of(p, child):
    """The gateway's process id: a descendant of croft with that name."""
    for pid in harness.descendants(p.supervisor(child)):
        with contextlib.suppress(OSError), open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as f:
            if f.read().startswith("croft-gateway"):
                return pid
    raise Fail("there is no gateway")


def peak_of(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as f:
        for line in f:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


def deaf(p, port, path, alpn):
    """Peak memory of the gateway while a server floods a client that does not read."""
    p.write("deaf.py", DEAF)
    before = len([e for e in noted(p) if e["event"] == "flood"])
    child = p.start({"allow": [RAW]}, PYTHON, "deaf.py", str(port), path, alpn, stdin=subprocess.PIPE)
    try:
        line = child.stdout.readline()
        check(line == b"asked\n", "%r %r" % (line, child.stderr.read() if not line else b""))
        pid = gateway_of(p, child)
        end, peak, last = time.monotonic() + GRACE_S, 0, -1
        while time.monotonic() < end:
            last, peak = peak, peak_of(pid)
            if peak > MEMORY_MAX_B or len([e for e in noted(p) if e["event"] == "flood"]) > before:
                break
            if peak == last and time.monotonic() > end - GRACE_S + 8:
                break
            time.sleep(0.5)
        return peak_of(pid)
    finally:
        child.stdin.close()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()


harness.alone("floods a gateway for minutes, and nobody else", "A4-floods-to-a-deaf-client")


@case("A4-floods-to-a-deaf-client")
def floods_to_a_deaf_client(p):
    """Whatever a server sends without end, the gateway keeps only so much of it."""
    plans = [(H1, "/flood1xx", "h2"), (H1, "/flood1xx", "http/1.1"), (H2, "/flood1xx", "h2"), (H2, "/flood1xx", "http/1.1"),
             (H1, "/endless-head", "h2"), (H1, "/endless-line", "h2"), (H1, "/endless-chunks", "h2"), (H2, "/pings", "h2"),
             (H2, "/settings", "h2"), (H2, "/empty-data", "h2"), (H2, "/continuation", "h2"), (H2, "/window", "h2")]
    signal.alarm(400)
    for port, path, alpn in plans:
        peak = deaf(p, port, path, alpn)
        check(peak < MEMORY_MAX_B, "%s for %s: the gateway has %d MiB" % (path, alpn, peak >> 20))


# ---- requests that mean two things ----

@case("A5-authority")
def authority(p):
    """One connection, one name, in one spelling, on every stream."""
    ours = "raw.example.com:%d" % H2
    bad = [head("/x", "raw2.example.com:%d" % H2), head("/x", "raw.example.com:443"), head("/x", ours, "GET", ["host", "raw2.example.com"]),
           head("/x", ours, "GET", ["host", ours], ["host", "raw2.example.com"]), head("/x", "u@" + ours), head("/x", ours + "/"),
           head("/x", "raw.example.com:0%d" % H2), head("/x", ours + " "), head("/x", "raw.example.com%00"), head("/x", ""),
           head("/x", "raw.example.com:"), head("/x", "raw.example.com:%d:1" % H2), head("/x", "203.0.113.11:%d" % H2),
           head("/x", "xn--raw.example.com"), head("/x", ours, "GET", ["x_host", "a"], ["content_length", "5"]),
           head("/x", ours, "GET", ["proxy.authorization", "a"]), head("/x", ours, "GET", ["content-length", "0"], ["content-length", "0"])]
    good = [head("/y", ours), head("/y", "RAW.example.com:%d" % H2), head("/y", "raw.example.com"), head("/y", ours, "GET", ["host", ours])]
    found = p.inside({"allow": [RAW, {"host": "raw2.example.com", "ports": [H2], "mode": "http"}]},
                     [h2(s, wait=4) for s in bad] + [h2(head("/y", ours), *bad[:2], head("/y", ours), wait=6)] + [h2(s, wait=6) for s in good],
                     timeout=120)
    for s, f in zip(bad, found):
        check("error" in f or all((x["status"] or 400) >= 400 for x in f.get("streams", [])), "%s: %s" % (s, f))
    mixed = found[len(bad)]["streams"]
    check([s["status"] for s in mixed] == [200, 421, 421, 200], mixed)
    for s, f in zip(good, found[len(bad) + 1:]):
        check(f["streams"][0]["status"] == 200, "%s: %s" % (s, f))
    seen = [dict(e["fields"]) for e in noted(p) if e["event"] == "request2"]
    check(all(f[":authority"] in (ours, "raw.example.com") for f in seen), seen)
    check(not [f for f in seen if f[":path"] == "/x"], seen)


@case("A6-denied-paths")
def denied_paths(p):
    """A path that some server takes for a denied one is denied, however it is spelled."""
    rules = {"allow": [{"host": "raw.example.com", "ports": [443]}],
             "deny": [{"host": "raw.example.com", "paths": ["/admin/**", "/exact"]}]}
    bad = ["/admin/x", "/admin", "/admin/", "/admin;a=b/x", "/admin%3Ba/x", "/ADMIN/x", "/Admin/x", "/%61dmin/x", "/exact", "/exact/", "/exact;x",
           "/EXACT", "/exact;/", "/admin;/x;y"]
    good = ["/administrator", "/exactly", "/x/admin/y", "/ok;admin/"]
    found = p.inside(rules, [https("raw.example.com", get(path), wait=6) for path in bad + good], timeout=120)
    for path, f in zip(bad, found):
        check(statuses(f) and statuses(f)[0] in (400, 403), "%s: %s" % (path, f))
    for path, f in zip(good, found[len(bad):]):
        check(statuses(f) == [200], "%s: %s" % (path, f))


@case("A7-denied-pushes")
def denied_pushes(p):
    """Where pushes are denied, no way of writing the request is a push to some server."""
    zero, refs = "0" * 40, "refs/heads/main"
    line = "%s %s %s\0report-status" % (zero, "1" * 40, refs)
    push = "%04x%s0000" % (len(line) + 4, line)
    rules = {"allow": [{"host": "raw.example.com", "ports": [443]}],
             "deny": [{"host": "raw.example.com", "mode": "git", "push": True}]}
    posts = ["/owner/demo.git/git-receive-pack", "/owner/demo.git/git-receive-pack?a=b", "/owner/demo.git/git-receive-pack?",
             "/owner/demo.git/git%2dreceive-pack", "/owner/demo.git/git-receive-pack;a", "/owner/demo.git/git-receive-pack/",
             "/owner/demo/git-receive-pack", "/owner/demo.git/GIT-receive-pack"]
    fetch = ["/owner/demo.git/info/refs?service=git-upload-pack", "/plain"]
    steps = [https("raw.example.com", get(t, method="POST", body=push), wait=8) for t in posts]
    steps += [https("raw.example.com", get(t, method="PUT", body=push), wait=8) for t in posts[:2]]
    found = p.inside(rules, steps + [https("raw.example.com", get(t)) for t in fetch], timeout=120)
    for s, f in zip(steps, found):
        check(statuses(f) and statuses(f)[0] in (400, 403), "%s: %s" % (s["send"][0][:60], f))
    check([statuses(f) for f in found[len(steps):]] == [[200], [200]], found[len(steps):])
    check(not [e for e in p.world.requests("raw") if "receive" in e["target"].lower()], p.world.requests("raw"))
    everything = {**rules, "deny": [{"host": "raw.example.com", "mode": "git", "repos": ["owner/demo"]}]}
    gets = ["/owner/demo.git/info/refs?service=git-upload-pack", "/owner/demo.git/info/refs?service=git-upload-pack&x",
            "/owner/demo.git/info/refs", "/owner/demo.git/info/refs?service=git-receive-pack&service=git-upload-pack",
            "/owner/demo.git/HEAD", "/owner/demo.git/objects/info/packs"]
    found = p.inside(everything, [https("raw.example.com", get(t)) for t in gets + ["/plain"]])
    for t, f in zip(gets, found):
        check(statuses(f) == [403], "%s: %s" % (t, f))
    check(statuses(found[-1]) == [200], found[-1])


@case("A8-push-refs")
def push_refs(p):
    """Refs behind the end of the list, in odd packets, compressed or not there at all never reach a repository."""
    old, new = "0" * 40, "1" * 40

    def pkt(text):
        return "%04x%s" % (len(text) + 4, text)

    good = pkt("%s %s refs/heads/agent/x\0report-status" % (old, new))
    bad = pkt("%s %s refs/heads/main" % (old, new))
    rule = {"allow": [{"host": "raw.example.com", "ports": [443], "mode": "git", "repos": ["owner/demo"], "push": True,
                       "refs": ["refs/heads/agent/*"]}]}
    bodies = [good + bad + "0000", bad + good + "0000", "0004" + bad + "0000", "0001" + bad + "0000", "0002" + bad, "0003" + bad,
              pkt("shallow " + new) + bad + "0000", pkt("push-cert\0x") + bad + "0000", pkt("%s %s refs/heads/agent/../main" % (old, new)) + "0000",
              pkt("%s %s refs/heads/agent/x\nrefs/heads/main" % (old, new)) + "0000", pkt("%s %s  refs/heads/main" % (old, new)) + "0000",
              pkt("%s %s refs/heads/main\0refs/heads/agent/x" % (old, new)) + "0000", "FFFF" + bad, "-001" + bad, " 00a" + bad, "", "0",
              pkt("%s %s refs/heads/agent/x" % (old, new)).upper() + "0000", good]
    url = "/owner/demo.git/git-receive-pack"
    steps = [https("raw.example.com", get(url, method="POST", body=b), wait=8) for b in bodies]
    steps += [https("raw.example.com", get(url, method="POST", headers=["Content-Encoding: " + c], body=good + "0000"), wait=8)
              for c in ("gzip", "identity", "x-gzip", "br")]
    steps += [https("raw.example.com", get(t, method="POST", body=good + "0000"), wait=8)
              for t in (url + "?x", "/owner/other.git/git-receive-pack", "/owner/demo.git//git-receive-pack", "/owner/demo.git/git-receive-pack/")]
    found = p.inside(rule, steps, timeout=200)
    for s, f in zip(steps, found):
        check(statuses(f) and statuses(f)[0] in (400, 403, 415), "%s: %s" % (s["send"][0][-120:], f))
    check(not p.world.requests("raw"), p.world.requests("raw"))
    slow = [get(url, method="POST", headers=["Content-Length: %d" % (len(good) + 4)]), *list(good), "0000"]
    found = p.inside(rule, [https("raw.example.com", get(url, method="POST", body=good + "0000")), https("raw.example.com", *slow)])
    check([e["target"] for e in p.world.requests("raw")] == [url, url], (found, p.world.requests("raw")))


@case("A9-pipelines-and-expectations")
def pipelines_and_expectations(p):
    """A refused request takes its body with it; what waits for leave gets it from the verdict only."""
    rule = {"allow": [{"host": "raw.example.com", "ports": [443], "paths": ["/ok/**"]}]}
    inner = get("/ok/inner")
    steps = [https("raw.example.com", get("/no", method="POST", body=inner), responses=2, wait=5),
             https("raw.example.com", get("/no", method="POST", headers=["Expect: 100-continue"], body=inner), responses=2, wait=5),
             https("raw.example.com", get("/no", method="POST", headers=["Transfer-Encoding: chunked"]) + "%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner),
                   responses=2, wait=5),
             https("raw.example.com", get("/no", method="POST", headers=["Expect: 100-continue", "Content-Length: 5"]), inner, responses=2, wait=5),
             https("raw.example.com", get("/ok/a", method="POST", headers=["Expect: 200-maybe"], body=inner), responses=2, wait=5),
             https("raw.example.com", get("/ok/a", method="POST", headers=["Upgrade: websocket", "Connection: upgrade",
                   "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"], body=inner), wait=5),
             https("raw.example.com", get("/ok/b", headers=["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAAA"]), wait=5),
             https("raw.example.com", get("/ok/c", method="POST", headers=["Transfer-Encoding: chunked"]) + "5\r\nhello\r\n0\r\nX: a\r\nContent-Length: 9\r\n\r\n"),
             https("raw.example.com", *list(get("/ok/d", method="POST", headers=["Transfer-Encoding: chunked"]) + "1\r\nh\r\n2\r\nel\r\n0\r\n\r\n"))]
    found = p.inside(rule, steps, timeout=120)
    seen = [(e["method"], e["target"], e["body"]) for e in p.world.requests("raw")]
    check("/ok/inner" not in [t for _, t, _ in seen], seen)
    for f in found[:4]:
        check(statuses(f)[:1] == [403] and 200 not in statuses(f), f)
    heads = [e["headers"] for e in p.world.requests("raw")]
    check(not [h for h in heads for n, v in h if n.lower() in ("upgrade", "http2-settings", "x")], heads)
    check(("POST", "/ok/d", "hel") in seen and ("POST", "/ok/c", "hello") in seen, seen)


@case("A13-limits-and-heads")
def limits_and_heads(p):
    """What may be sent in all is counted wherever it is: in the path, the query and the headers, too."""
    rule = {"allow": [{"host": "raw.example.com", "ports": [443], "limits": {"up": "100K"}}]}
    big = get("/x", headers=["X-A: " + "a" * 40000])
    long = get("/x?" + "q" * 8000)
    found = p.inside(rule, [https("raw.example.com", big) for _ in range(4)])
    check([statuses(f) for f in found] == [[200], [200], [403], [403]], [statuses(f) for f in found])
    found = p.inside(rule, [https("raw.example.com", long) for _ in range(20)])
    passed = [statuses(f) == [200] for f in found]
    check(passed[0] and 10 <= sum(passed) <= 13, passed)
    found = p.inside({"allow": [{"host": "raw.example.com", "ports": [443]}]}, [https("raw.example.com", big) for _ in range(4)])
    check([statuses(f) for f in found] == [[200]] * 4, "the control is refused")


@case("A14-bodies-that-are-not-read")
def bodies_not_read(p):
    """A server that reads no body of a GET takes it for the next request: nobody judged that one, so the server is told to stop."""
    rule = {"allow": [{**RAW, "methods": ["GET", "DELETE", "OPTIONS", "POST"], "paths": ["/no-bodies/**"]}]}
    hidden = ask("/hidden/%s", method="DELETE")
    for method in ("GET", "DELETE", "OPTIONS"):
        steps = [hostile(ask("/no-bodies/%d" % i, method, headers=[how[0]]) + how[1] % ((hidden % i),) * (how[1].count("%s")), wait=4)
                 for i, how in enumerate((("Content-Length: %d" % len(hidden % 0), "%s"),
                                          ("Transfer-Encoding: chunked", "%x\r\n" % len(hidden % 0) + "%s\r\n0\r\n\r\n")))]
        found = p.inside(rule, [*steps, hostile(ask("/no-bodies/next"), wait=4)])
        lines = [e["line"] for e in noted(p) if e["event"] == "request"]
        check(statuses(found[0]) == [200] and statuses(found[2]) == [200], found)
        check(len([x for x in lines if x.startswith(method + " /no-bodies/")]) >= 2 and not [x for x in lines if "hidden" in x], lines)
    # The same through the keeper, where what follows on the connection would have a secret in its head.
    store(p)
    policy = {"allow": [{"host": HOST, "ports": [H1], "mode": "http", "paths": ["/no-bodies/**"]}],
              "secrets": [{"name": "TOKEN", "host": HOST, "port": H1, "place": "bearer"}]}
    part = "POST /hidden/9 HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n"
    with_placeholder(p, policy, [https(HOST, get("/no-bodies/%d" % i, "%s:%d" % (HOST, H1), headers=[*auth(), "Content-Length: %d" % len(part)])
                                       + part, port=H1, wait=4) for i in range(2)])
    heads = [e for e in noted(p) if e["event"] == "request"]
    check(len([e for e in heads if VALUE in e["headers"].get("authorization", "")]) == 2, heads)
    check(not [e for e in heads if "/hidden/" in e["line"]], heads)
    # The control: a body that no server may pass over has no such mark, and this one passes over it.
    p.inside(rule, [hostile(ask("/no-bodies/0", "POST", headers=["Content-Length: %d" % len(hidden % 0)]) + hidden % 0, wait=4)])
    check([e for e in noted(p) if "/hidden/" in e.get("line", "")], "the control reads its body")


# ---- secrets ----

# Runs inside: @NAME@ in the steps becomes the placeholder of that secret, @LEN@ the length of the body.
FILL = r'''
import json, os, sys
text = open(sys.argv[1]).read()
for name in ("TOKEN", "OTHER"):
    text = text.replace("@%s@" % name, os.environ.get(name, ""))
steps = json.loads(text)
for s in steps:
    for i, piece in enumerate(s.get("send", [])):
        h, _, b = piece.partition("\r\n\r\n")
        s["send"][i] = h.replace("@LEN@", str(len(b))) + "\r\n\r\n" + b
json.dump(steps, open("filled.json", "w"))
os.execv(sys.executable, [sys.executable, "probe.py", "filled.json"])
'''


def store(p, name="TOKEN", value=VALUE):
    r = p.croft("secret", "set", name, stdin=value)
    if "unknown command" in r.err:
        raise Skip("croft has no secret command")
    check(r.rc == 0, "cannot store a secret: %s" % r)


def with_placeholder(p, policy, steps):
    p.write("fill.py", FILL)
    r, _ = p.croft_run(policy, PYTHON, "fill.py", p.steps(steps)[2])
    check(VALUE not in r.out + r.err, "the value came back: %s" % r)
    return p.parse(r, steps)


def auth():
    return ["Authorization: Bearer @TOKEN@"]


# Codings of a body that are told by other fields than Content-Encoding, and characters that are not those of ASCII.
UNREADABLE = ("connect-gzip", "delta-gzip", "utf-16", "utf-16le", "utf-32", "utf-7", "ibm037")


@case("A10-echoes")
def echoes(p):
    """A server that sends back what it was given does not give the command the value, in any form that is text."""
    store(p)
    how = ["plain", "header", "name", "location", "cookie", "reason", "early", "gzip", "grpc-gzip", "deflate-te", "bytes", "trailer", "close", "json",
           "utf8", *UNREADABLE]
    policy = {"allow": [{"host": HOST, "ports": [H1], "mode": "http"}], "secrets": [{"name": "TOKEN", "host": HOST, "port": H1, "place": "bearer"}]}
    steps = [https(HOST, get("/echo/" + h, "%s:%d" % (HOST, H1), headers=auth()), port=H1, wait=8) for h in how]
    steps.append(https(HOST, get("/echo/range", "%s:%d" % (HOST, H1), headers=[*auth(), "Range: bytes=0-9"]), port=H1, wait=8))
    found = with_placeholder(p, policy, steps)
    reached = [e for e in noted(p) if e["event"] == "request" and VALUE in e["headers"].get("authorization", "")]
    check(len(reached) >= len(how), "the secret was not used: %s" % found)
    check(all(e["headers"].get("range") != "bytes=0-9" for e in reached), reached)  # wider, so that it can be searched
    forms = [VALUE, base64.b64encode(b"u:" + VALUE.encode()).decode()[:-4], "".join("%%%02X" % b for b in VALUE.encode()),
             "".join("\\u%04x" % b for b in VALUE.encode())]
    for h, f in zip(how, found):
        check(not [x for x in forms if x in json.dumps(f).replace("\\\\", "\\")], "%s: %s" % (h, f))
        # What nobody could search.
        check(("gzip" in h or h in UNREADABLE) == (statuses(f) == [502]) or h in ("name", "deflate-te"), "%s: %s" % (h, f))


@case("A11-two-placeholders")
def two_placeholders(p):
    """One that may go does not hide another that may not, in one header, one body or one frame."""
    store(p)
    store(p, "OTHER", "other-" + VALUE)
    # The first secret of the policy is bound to this host, the second to another one.
    policy = {"allow": [HOST, "raw.example.com"], "secrets": [{"name": "TOKEN", "host": HOST, "place": "header", "field": "x-key"},
                                                              {"name": "OTHER", "host": "raw.example.com", "place": "bearer"}]}
    texts = [get("/1", HOST, headers=["X-Key: @TOKEN@@OTHER@"]), get("/2", HOST, headers=["X-Key: @TOKEN@", "X-Other: @TOKEN@ @OTHER@"]),
             get("/3?a=@TOKEN@&b=@OTHER@", HOST), "POST /4 HTTP/1.1\r\nHost: %s\r\nContent-Length: @LEN@\r\n\r\n@TOKEN@ @OTHER@" % HOST,
             get("/5/@TOKEN@@OTHER@", HOST), get("/6", HOST, headers=["X-Key: @TOKEN@", "Cookie: a=@TOKEN@; b=@OTHER@"]),
             "POST /7 HTTP/1.1\r\nHost: %s\r\nX-Key: @TOKEN@\r\nContent-Length: @LEN@\r\n\r\n@OTHER@" % HOST]
    steps = [https(HOST, t) for t in texts] + [https(HOST, get("/ok", HOST, headers=["X-Key: @TOKEN@"]))]
    found = with_placeholder(p, policy, steps)
    for t, f in zip(texts, found):
        check(statuses(f) and statuses(f)[0] in (400, 403), "%s: %s" % (t[:60], f))
    check(statuses(found[-1]) == [200], found[-1])
    seen = "".join(p.world.received("raw"))
    both = json.loads(p.read("filled.json"))[0]["send"][0].split("X-Key: ")[1].split("\r\n")[0]
    check(both.count("croft") == 2 and seen.count(VALUE) == 1 and both[len(VALUE):] not in seen, (both, seen))


@case("A12-placeholders-in-pieces")
def placeholders_in_pieces(p):
    """A placeholder in HTTP/2 frames of one byte and in chunks of one byte."""
    store(p)
    policy = {"allow": [HOST, RAW], "secrets": [{"name": "TOKEN", "host": HOST, "place": "bearer"}]}
    chunks = get("/1", method="POST", headers=["Transfer-Encoding: chunked"])
    p.write("pieces.py", PIECES)
    r, _ = p.croft_run(policy, PYTHON, "pieces.py", chunks)
    found = [json.loads(line) for line in r.out.splitlines()]
    check(len(found) == 3, r)
    for f in found:
        check("placeholder" in f["got"] or "403" in f["got"] or f["got"] == "", f)
    bodies = "".join(e["body"] for e in p.world.requests("raw"))
    # Its beginning may have gone when its end came; never all of it.
    check(all(len(piece) < len(VALUE) for piece in re.findall("croft[A-Za-z0-9]*", bodies)), bodies[:200])


PIECES = r'''
import json, os, socket, ssl, sys
import h2.connection, h2.config, h2.events, h2.exceptions
token = os.environ["TOKEN"]
def connect(alpn):
    c = ssl.create_default_context(); c.set_alpn_protocols([alpn])
    return c.wrap_socket(socket.create_connection(("raw.example.com", 443), timeout=10), server_hostname="raw.example.com")
def drain(s):
    got = b""
    try:
        while True:
            more = s.recv(65536)
            if not more: break
            got += more
            if b"placeholder" in got: break
    except OSError: pass
    return got.decode("latin-1")
s = connect("http/1.1")
s.sendall(sys.argv[1].encode())
try:
    for c in token: s.sendall(("1\r\n%s\r\n" % c).encode())
    s.sendall(b"0\r\n\r\n")
except OSError: pass
print(json.dumps({"what": "chunks", "got": drain(s)}))
for encode in (False, True):
    s = connect("h2")
    q = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True)); q.initiate_connection()
    q.send_headers(1, [(":method", "POST"), (":scheme", "https"), (":authority", "raw.example.com"), (":path", "/2")])
    text = "".join("%%%02x" % b for b in token.encode()) if encode else token
    for c in text: q.send_data(1, c.encode())
    q.send_data(1, b"", end_stream=True)
    s.sendall(q.data_to_send())
    got = ""
    try:
        while "placeholder" not in got:
            data = s.recv(65536)
            if not data: break
            for e in q.receive_data(data):
                if isinstance(e, h2.events.DataReceived): got += e.data.decode("latin-1")
                if isinstance(e, h2.events.ResponseReceived): got += str(dict(e.headers))
                if isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)): raise EOFError
    except (OSError, EOFError, h2.exceptions.ProtocolError): pass
    print(json.dumps({"what": "frames", "got": got}))
'''


if __name__ == "__main__":
    place.main(("app", "dns", "hostile"))
