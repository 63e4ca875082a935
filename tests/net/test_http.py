#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# once
"""HTTP as it should not be spoken (N13, N15, N17 to N23, N29), and as it should."""
import json
import posixpath
import urllib.parse

import place  # first: it finds the harness
from place import BOTH, case, check, closed, get, https, need_program, need_service, refusal, statuses

RAW = {"host": "raw.example.com", "ports": [80, 443]}
TWO = {"allow": [RAW, {"host": "raw2.example.com", "ports": [80, 443]}]}
MARK = "/smuggled"


def targets(p):
    return [e["target"] for e in p.world.requests("raw")]


def h2(host, *streams, **more):
    return {"do": "h2", "host": host, "port": 443, "streams": [{"headers": s} if isinstance(s, list) else s for s in streams],
            **more}


def head(path, authority="raw.example.com", method="GET", *extra):
    return [[":method", method], [":scheme", "https"], [":authority", authority], [":path", path], *extra]


def refused(finding):
    """Not one answer of the upstream server: refused by status, by closing, or both."""
    return closed(finding) or all(s >= 400 for s in statuses(finding))


def stream_refused(stream):
    return stream["status"] is None or stream["status"] >= 400


# ---- as it should be ----

@case("P20-methods-and-bodies", tiers=BOTH)
def methods_and_bodies(p):
    body = "b" * 100000
    steps = [https("raw.example.com", get("/a", method="POST", body=body)),
             https("raw.example.com", get("/b", method="HEAD"), methods={"0": "HEAD"}),
             https("raw.example.com", get("/c", method="PUT", headers=["Transfer-Encoding: chunked"]) + "5\r\nhello\r\n0\r\n\r\n"),
             https("raw.example.com", get("/status/204")), https("raw.example.com", get("/status/404")),
             https("raw.example.com", get("/chunked/3000000")), https("raw.example.com", get("/bytes/3000000")),
             https("raw.example.com", get("/e", method="POST", headers=["Expect: 100-continue"], body="later"))]
    found = p.inside({"allow": [RAW]}, steps)
    check([statuses(f) for f in found] == [[200], [200], [200], [204], [404], [200], [200], [200]], [statuses(f) for f in found])
    check(found[5]["responses"][0]["body_n"] == found[6]["responses"][0]["body_n"] == 3000000, "bytes are missing")
    seen = {e["target"]: e for e in p.world.requests("raw")}
    check(seen["/a"]["body"] == body[:65536] and seen["/c"]["body"] == "hello", "a body was changed")
    net = p.counted()
    check(not net or (net["down_b"] > 6000000 and net["up_b"] > 100000), net)


@case("P21-keep-alive", tiers=BOTH)
def keep_alive(p):
    """Requests one after the other and at once on one connection, each with its answer, in order."""
    pieces = [get("/%d" % i) for i in range(20)]
    found = p.inside({"allow": [RAW]}, [https("raw.example.com", *pieces, responses=20),
                                        https("raw.example.com", "".join(pieces), responses=20)])
    for f in found:
        check([json.loads(r["body"])["target"] for r in f["responses"]] == ["/%d" % i for i in range(20)], f)
    net = p.counted()
    check(not net or net["requests"] == 40, net)


@case("P22-http2")
def http2(p):
    need_service("nginx")
    allow = {"allow": ["www.example.com", "raw.example.com"]}
    streams = [head("/hello", "www.example.com") for _ in range(20)]
    post = {"headers": head("/echo", "www.example.com", "POST", ["content-length", "70000"]), "body": "x" * 16000}
    post["headers"] = head("/echo", "www.example.com", "POST")
    found = p.inside(allow, [h2("www.example.com", *streams), h2("raw.example.com", head("/one"), head("/two")),
                             h2("www.example.com", post)])
    check(all(s["status"] == 200 and s["body"] == "hello\n" for s in found[0]["streams"]), found[0])
    # This upstream speaks HTTP/1.1 only: the form between is the same.
    check([s["status"] for s in found[1]["streams"]] == [200, 200] and sorted(targets(p)) == ["/one", "/two"], found[1])
    check(json.loads(found[2]["streams"][0]["body"])["body"] == "x" * 16000, found[2])


@case("N23-redirects", tiers=BOTH)
def redirects(p):
    """N23: a redirect is an answer like any other; where it leads is judged again."""
    need_program("curl")
    ask = "curl -sS -m 20 -L https://raw.example.com/redirect?to="
    r, _ = p.croft_run(TWO, "/bin/sh", "-c", ask + "https://raw2.example.com/landed")
    check('"target": "/landed"' in r.out, r)
    for to in ("https://evil.example.net/N23", "http://169.254.169.254/N23", "http://127.0.0.1:8099/N23",
               "http://to-private.example.com/N23"):
        r, _ = p.croft_run(TWO, "/bin/sh", "-c", ask + to)
        check('"target"' not in r.out, "%s: %s" % (to, r))
    seen = [e for label in ("evil", "metadata", "host", "private") for e in p.world.events(label)]
    check(not seen, seen)
    check('"label": "evil"' in p.plain("/bin/sh", "-c", ask + "https://evil.example.net/N23").out, "the control does not follow")


@case("P24-websocket")
def websocket(p):
    """N22: allowed where the rule says ws, refused where it says http."""
    need_service("ws")
    client = ("import asyncio,ssl,sys,websockets\n"
              "async def go():\n"
              "  async with websockets.connect('wss://ws.example.com/chat', ssl=ssl.create_default_context()) as s:\n"
              "    for m in ('one', b'two', 'x' * 200000):\n"
              "      await s.send(m); r = await s.recv(); assert r == m, r[:20]\n"
              "    print('echoed')\nasyncio.run(go())")
    r, _ = p.croft_run({"allow": [{"host": "ws.example.com", "ports": [443], "mode": "ws"}]}, place.PYTHON, "-c", client)
    check(r.out == "echoed\n", r)
    r, _ = p.croft_run({"allow": ["ws.example.com"]}, place.PYTHON, "-c", client)
    check("echoed" not in r.out and "403" in r.err, r)
    check(p.denied().about(host="ws.example.com"), p.denied())
    check(p.plain(place.PYTHON, "-c", client).out == "echoed\n", "the control does not reach")


@case("P25-upstream-faults", tiers=BOTH)
def upstream_faults(p):
    """A broken answer is a 502 or a cut, never a guess; the next request is fine."""
    steps = [https("raw.example.com", get("/reset")), https("raw.example.com", get("/bad-response")),
             https("raw.example.com", get("/alt-svc")), https("raw.example.com", get("/bomb")),
             https("raw.example.com", get("/after"))]
    found = p.inside({"allow": [RAW]}, steps)
    check(statuses(found[0]) in ([502], []), found[0])
    check(statuses(found[1]) in ([502], []), found[1])
    check(statuses(found[2]) == [200] and "alt-svc" not in dict(map(tuple, found[2]["responses"][0]["headers"])), found[2])
    check(statuses(found[3]) == [200] and found[3]["responses"][0]["body_n"] < 2 << 20, "the answer was unpacked")
    check(statuses(found[4]) == [200], found[4])


@case("P26-limits")
def limits(p):
    def rule(**limit):
        return {"allow": [{"host": "raw.example.com", "ports": [443], "limits": limit}]}

    four = [https("raw.example.com", get("/%d" % i)) for i in range(4)]
    found = p.inside(rule(uses=2), four)
    check([statuses(f) for f in found] == [[200], [200], [403], [403]], found)
    check("uses" in json.dumps(refusal(found[2])) or "used" in json.dumps(refusal(found[2])), refusal(found[2]))
    found = p.inside(rule(rate="4/h"), four + four)
    passed = [statuses(f) == [200] for f in found]
    check(passed[0] and 1 <= sum(passed) <= 5 and not passed[-1], passed)
    found = p.inside(rule(body="1K"), [https("raw.example.com", get("/a", method="POST", body="x" * 1000)),
                                       https("raw.example.com", get("/b", method="POST", body="x" * 5000))])
    check(statuses(found[0]) == [200] and refused(found[1]), found)
    found = p.inside(rule(down="100K"), [https("raw.example.com", get("/bytes/50000")), https("raw.example.com", get("/bytes/9000000")),
                                         https("raw.example.com", get("/after"))])
    check(statuses(found[0]) == [200], found[0])
    check(not statuses(found[1]) or statuses(found[1])[0] >= 400 or found[1]["responses"][0]["body_n"] < 9000000, "no limit")
    check(refused(found[2]), "used up, but allowed: %s" % found[2])


# ---- whose host ----

@case("N13-host-and-name")
def host_and_name(p):
    """The request's host is the connection's, even where the other one is allowed too."""
    found = p.inside(TWO, [https("raw.example.com", get(MARK, "raw2.example.com")),
                           https("raw.example.com", get("/first"), get(MARK, "raw2.example.com"), responses=2),
                           https("raw.example.com", "GET %s HTTP/1.1\r\nHost: raw.example.com\r\nHost: raw2.example.com\r\n\r\n" % MARK),
                           https("raw.example.com", "GET %s HTTP/1.1\r\n\r\n" % MARK),
                           https("raw.example.com", "GET %s HTTP/1.0\r\n\r\n" % MARK),
                           https("raw.example.com", get("/last", "RAW.example.com:443"))])
    check(refused(found[0]) and refused(found[2]) and refused(found[3]) and refused(found[4]), found)
    check(statuses(found[1])[:1] == [200] and (statuses(found[1]) + [403])[1] >= 400, found[1])
    check(statuses(found[5]) == [200], found[5])
    check(MARK not in targets(p), targets(p))
    bad = [head(MARK, "raw2.example.com"), head(MARK, "evil.example.net"), head(MARK, ""),
           head(MARK, "raw.example.com", "GET", ["host", "raw2.example.com"])]
    found = p.inside(TWO, [h2("raw.example.com", head("/one"), s) for s in bad] + [h2("raw.example.com", head("/one"), head("/two"))])
    check(all(stream_refused(f["streams"][1]) for f in found[:-1]), found)
    check([s["status"] for s in found[-1]["streams"]] == [200, 200], found[-1])
    check(found[0]["streams"][0]["status"] == 200, "another host on one stream ends the others: %s" % found[0])
    check(MARK not in targets(p), targets(p))
    control = p.control([https("raw.example.com", get(MARK, "raw2.example.com"))])
    check(statuses(control[0]) == [200] and MARK in targets(p), "the control is refused")


@case("N15-http2-by-the-back-door")
def back_door(p):
    preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\0\0\0\x04\0\0\0\0\0"
    upgrade = get(MARK, headers=["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"])
    plain = {"do": "http", "host": "raw.example.com", "port": 80}
    steps = [https("raw.example.com", preface), {**plain, "send": [preface]}, https("raw.example.com", get("/one"), preface, responses=2),
             https("raw.example.com", upgrade), {**plain, "send": [upgrade]}]
    found = p.inside({"allow": [RAW]}, steps)
    for i in (0, 1):
        check(refused(found[i]), found[i])
    check(statuses(found[2])[:1] == [200] and all(s >= 400 for s in statuses(found[2])[1:]), found[2])
    check(101 not in statuses(found[3]) + statuses(found[4]), found[3:])
    bytes_seen = "".join(p.world.received("raw"))
    check("PRI *" not in bytes_seen and "h2c" not in bytes_seen.lower(), bytes_seen)
    # ALPN: what is agreed is what is spoken.
    h1_on_h2 = {"do": "tcp", "host": "raw.example.com", "port": 443, "tls": {"alpn": ["h2"]}, "send": [get("/h1-on-h2")], "want": 4000, "wait": 5}
    odd = {"do": "tcp", "host": "raw.example.com", "port": 443, "tls": {"alpn": ["acme-tls/1", "spdy/3"]}, "send": [get("/odd")],
           "want": 1, "wait": 5}
    found = p.inside({"allow": [RAW]}, [h1_on_h2, odd])
    check("HTTP/1.1 200" not in found[0].get("data", "") and "/h1-on-h2" not in targets(p), found[0])
    check(found[1].get("alpn") is None, found[1])
    control = p.control([{**plain, "send": [preface]}])
    check("PRI *" in "".join(p.world.received("raw")), "the control does not pass: %s" % control)


# ---- framing ----

def smuggle():
    """name -> (bytes, may be forwarded in one clear form). Each tries to make MARK a request that nobody judged."""
    inner = "GET %s HTTP/1.1\r\nHost: raw.example.com\r\n\r\n" % MARK
    post, host = "POST /outer HTTP/1.1\r\n", "Host: raw.example.com\r\n"
    chunked = "Transfer-Encoding: chunked\r\n"

    def cl(n):
        return "Content-Length: %s\r\n" % n

    end = "0\r\n\r\n"
    return {
        "CL and TE": (post + host + cl(len(end)) + chunked + "\r\n" + end + inner, False),
        "TE and CL": (post + host + chunked + cl(4) + "\r\n" + "%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner), False),
        "two CL": (post + host + cl(0) + cl(len(inner)) + "\r\n" + inner, False),
        "two equal CL": (post + host + cl(5) + cl(5) + "\r\nhello", True),
        "CL list": (post + host + cl("0, %d" % len(inner)) + "\r\n" + inner, False),
        "CL plus": (post + host + cl("+%d" % len(inner)) + "\r\n" + inner, False),
        "CL minus": (post + host + cl("-1") + "\r\n" + inner, False),
        "CL hex": (post + host + cl("0x10") + "\r\n" + inner, False),
        "CL space": (post + host + cl("1 0") + "\r\n" + inner, False),
        "CL huge": (post + host + cl("18446744073709551616") + "\r\n" + inner, False),
        "CL empty": (post + host + cl("") + "\r\n" + inner, False),
        "TE twice": (post + host + chunked + "Transfer-Encoding: identity\r\n\r\n" + end + inner, False),
        "TE xchunked": (post + host + cl(3) + "Transfer-Encoding: xchunked\r\n\r\n" + end + inner, False),
        "TE list": (post + host + "Transfer-Encoding: chunked, identity\r\n\r\n" + end + inner, False),
        "TE gzip": (post + host + "Transfer-Encoding: gzip, chunked\r\n\r\n" + end + inner, False),
        "TE quoted": (post + host + cl(3) + "Transfer-Encoding: \"chunked\"\r\n\r\n" + end + inner, False),
        "TE tab": (post + host + cl(3) + "Transfer-Encoding:\tchunked\r\n\r\n" + end + inner, False),
        "TE vtab": (post + host + cl(3) + "Transfer-Encoding: \x0bchunked\r\n\r\n" + end + inner, False),
        "TE in 1.0": ("POST /outer HTTP/1.0\r\n" + host + chunked + "\r\n" + end + inner, False),
        "space before colon": (post + host + "Transfer-Encoding : chunked\r\n" + cl(3) + "\r\n" + end + inner, False),
        "folded": (post + host + "X: a\r\n Transfer-Encoding: chunked\r\n" + cl(3) + "\r\n" + end + inner, False),
        "folded TE": (post + host + "Transfer-Encoding:\r\n chunked\r\n" + cl(3) + "\r\n" + end + inner, False),
        "leading fold": (post + " " + host + cl(0) + "\r\n" + inner, False),
        "bare LF": ((post + host + cl(0)).replace("\r\n", "\n") + "\n" + inner, False),
        "one bare LF": (post + host + "X: a\n" + chunked + cl(3) + "\r\n" + end + inner, False),
        "bare CR": (post + host + "X: a\rTransfer-Encoding: chunked\r\n" + cl(3) + "\r\n" + end + inner, False),
        "NUL in value": (post + host + "X: a\0b\r\n" + cl(0) + "\r\n" + inner, False),
        "NUL in name": (post + host + "X\0: a\r\n" + cl(0) + "\r\n", False),
        "no colon": (post + host + "Transfer-Encoding chunked\r\n" + cl(3) + "\r\n" + end + inner, False),
        "empty name": (post + host + ": chunked\r\n" + cl(0) + "\r\n", False),
        "non-ASCII name": (post + host + "Tr\xe4nsfer-Encoding: chunked\r\n" + cl(0) + "\r\n", False),
        "chunk extension": (post + host + chunked + "\r\n5;a=b\r\nhello\r\n0\r\n\r\n", True),
        "chunk extension LF": (post + host + chunked + "\r\n5;a\nhello\r\n0\r\n\r\n" + inner, False),
        "chunk size LF": (post + host + chunked + "\r\n5\nhello\r\n0\r\n\r\n", False),
        "chunk size 0x": (post + host + chunked + "\r\n0x5\r\nhello\r\n0\r\n\r\n", False),
        "chunk size wraps": (post + host + chunked + "\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n", False),
        "chunk size minus": (post + host + chunked + "\r\n-5\r\nhello\r\n0\r\n\r\n", False),
        "chunk without CRLF": (post + host + chunked + "\r\n5\r\nhelloXX0\r\n\r\n", False),
        "trailer": (post + host + chunked + "\r\n0\r\nX-Late: a\r\n\r\n", True),
        "trailer CL": (post + host + chunked + "\r\n0\r\nContent-Length: 50\r\nHost: evil.example.net\r\n\r\n", True),
        "Connection: Host": (post + host + "Connection: close, Content-Length\r\n" + cl(len(inner)) + "\r\n" + inner, True),
        "request line tab": ("POST\t/outer HTTP/1.1\r\n" + host + cl(0) + "\r\n", False),
        "request line spaces": ("POST  /outer  HTTP/1.1\r\n" + host + cl(0) + "\r\n", False),
        "request line extra": ("POST /outer HTTP/1.1 x\r\n" + host + cl(0) + "\r\n", False),
        "target with space": ("POST /outer HTTP/1.1\r\nHost: raw.example.com\r\nX: " + " HTTP/1.1\r\n" + cl(0) + "\r\n", True),
        "version 1.2": ("POST /outer HTTP/1.2\r\n" + host + cl(0) + "\r\n", False),
        "version 0.9": ("GET %s\r\n" % MARK, False),
        "lower-case HTTP": ("POST /outer http/1.1\r\n" + host + cl(0) + "\r\n", False),
        "huge head": (post + host + "X: " + "a" * 2000000 + "\r\n" + cl(0) + "\r\n", False),
        "many headers": (post + host + "".join("X%d: a\r\n" % i for i in range(20000)) + "\r\n", False),
    }


@case("N17-smuggling")
def smuggling(p):
    """What can be read in two ways is refused; what is forwarded was written anew."""
    table = smuggle()
    rule = {"allow": [{"host": "raw.example.com", "ports": [80, 443], "paths": ["/outer"]}]}
    steps = [https("raw.example.com", data, responses=2, wait=4) for data, _ in table.values()]
    found = p.inside(rule, steps + [https("raw.example.com", get("/outer"))], timeout=240)
    check(statuses(found[-1]) == [200], "an ordinary request is refused: %s" % found[-1])
    for (name, (_, may)), f in zip(table.items(), found):
        check(may or refused(f), "%s: %s" % (name, f))
        check(not may or statuses(f)[:1] == [200] or refused(f), "%s: %s" % (name, f))
    check(MARK not in targets(p), "smuggled: %s" % p.world.requests("raw"))
    for data in p.world.received("raw"):
        lower = data.lower()
        check("\r\n transfer" not in lower and ";a=b" not in lower and "x-late" not in lower, data[:600])
        check(not ("content-length:" in lower.split("\r\n\r\n")[0] and "transfer-encoding:" in lower.split("\r\n\r\n")[0]), data[:600])
    # The control: a server that reads leniently takes the inner request for one of its own.
    p.control([https("raw.example.com", table["TE xchunked"][0], responses=2, wait=2)])
    p.control([https("raw.example.com", table["two CL"][0], responses=1, wait=2)])
    check([e for e in p.world.events("raw") if MARK in e["data"]], "the control does not reach the server")


@case("N17-smuggling-http2")
def smuggling_http2(p):
    """Line ends, colons and lengths in HTTP/2 fields must not become HTTP/1.1 upstream."""
    inner = "\r\n\r\nGET %s HTTP/1.1\r\nHost: raw.example.com" % MARK
    bad = [head("/outer", "raw.example.com", "GET", ["x", "a" + inner]), head("/outer", "raw.example.com", "GET", ["x: y", "a"]),
           head("/outer HTTP/1.1" + inner), head("/outer", "raw.example.com" + inner), head("/outer", "raw.example.com", "GET HTTP/1.1" + inner),
           head("/outer", "raw.example.com", "GET", ["transfer-encoding", "chunked"]), head("/outer", "raw.example.com", "GET", ["connection", "close"]),
           head("/outer", "raw.example.com", "GET", ["X-Upper", "a"]), head("/outer", "raw.example.com", "GET", ["x\r\nhost", "evil"]),
           {"headers": head("/outer", "raw.example.com", "POST", ["content-length", "3"]), "body": "abc" + inner},
           {"headers": head("/outer", "raw.example.com", "POST", ["content-length", "50000"]), "body": "abc"},
           head("/outer", "raw.example.com", "GET", [":path", MARK]), head("", "raw.example.com"), head("*", "raw.example.com"),
           head("outer", "raw.example.com"), [["x", "first"], *head("/outer")], head("/outer", "raw.example.com", "GET", [":other", "x"]),
           [[":method", "GET"], [":path", MARK], [":authority", "raw.example.com"]],
           head("/outer", "raw.example.com", "GET", ["upgrade", "websocket"]), head("/outer", "raw.example.com", "GET", ["te", "gzip"]),
           [[":method", "CONNECT"], [":authority", "evil.example.net:443"]],
           [[":method", "CONNECT"], [":protocol", "websocket"], [":scheme", "https"], [":path", "/outer"], [":authority", "raw.example.com"]]]
    rule = {"allow": [{"host": "raw.example.com", "ports": [443], "paths": ["/outer"]}]}
    found = p.inside(rule, [h2("raw.example.com", s, wait=4) for s in bad] + [h2("raw.example.com", head("/outer"))], timeout=180)
    for s, f in zip(bad, found):
        check("error" in f or all(map(stream_refused, f.get("streams", []))), "%s: %s" % (s, f))
    check(found[-1].get("streams", [{}])[0].get("status") == 200, found[-1])
    check(MARK not in targets(p) and set(targets(p)) <= {"/outer"}, targets(p))
    check(all(MARK not in data.split("\r\n\r\n")[0] for data in p.world.received("raw")), p.world.received("raw"))


@case("N18-pipelining", tiers=BOTH)
def pipelining(p):
    """What comes behind a judged request is judged, too."""
    rule = {"allow": [{"host": "raw.example.com", "ports": [80, 443], "methods": ["GET", "POST"], "paths": ["/ok/**"]}]}
    post = get("/ok/2", method="POST", headers=["Transfer-Encoding: chunked"]) + "3\r\nabc\r\n0\r\n\r\n"
    steps = [https("raw.example.com", get("/ok/1") + get(MARK), responses=2),
             https("raw.example.com", get("/ok/1", method="POST", body="abc") + get(MARK), responses=2),
             https("raw.example.com", post + get(MARK), responses=2),
             https("raw.example.com", get("/ok/1") + get(MARK, method="DELETE") + get("/ok/3"), responses=3),
             https("raw.example.com", get("/ok/1") + get("/ok/x", "evil.example.net"), responses=2)]
    found = p.inside(rule, steps)
    for f in found:
        check(statuses(f)[:1] == [200] and (statuses(f) + [403])[1] >= 400, f)
    check(MARK not in targets(p) and "/ok/x" not in targets(p), targets(p))
    p.control(steps[:1])
    check(MARK in targets(p), "the control does not reach the server")


@case("N19-forms-of-target")
def forms_of_target(p):
    host = "Host: raw.example.com\r\n\r\n"
    lines = ["GET http://evil.example.net%s HTTP/1.1", "GET https://evil.example.net%s HTTP/1.1", "GET http://raw2.example.com%s HTTP/1.1",
             "GET https://user@raw.example.com%s HTTP/1.1", "GET https://raw.example.com@evil.example.net%s HTTP/1.1",
             "GET ftp://raw.example.com%s HTTP/1.1", "GET file://%s HTTP/1.1", "GET raw.example.com%s HTTP/1.1",
             "CONNECT evil.example.net:443 HTTP/1.1", "CONNECT raw.example.com:443 HTTP/1.1", "OPTIONS http://evil.example.net%s HTTP/1.1",
             "GET http://raw.example.com:8080%s HTTP/1.1", "GET http:%s HTTP/1.1", "GET  HTTP/1.1", "GET *%s HTTP/1.1",
             "GET https://[::ffff:169.254.169.254]%s HTTP/1.1"]
    texts = [(line % MARK if "%s" in line else line) + "\r\n" + host for line in lines]
    found = p.inside(TWO, [https("raw.example.com", t, wait=5) for t in texts] +
                     [https("raw.example.com", get("/ok", headers=["Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eA=="]))])
    for line, f in zip(lines, found):
        check(refused(f), "%s: %s" % (line, f))
    check(MARK not in "".join(targets(p)), targets(p))
    check(not p.world.events("evil"), p.world.events("evil"))
    check(statuses(found[-1]) == [200] and "proxy-" not in "".join(p.world.received("raw")).lower(), "proxy fields were forwarded")
    found = p.inside(TWO, [https("raw.example.com", "GET https://raw.example.com/same HTTP/1.1\r\n" + host)])
    check(statuses(found[0]) == [200] and "/same" in targets(p) or refused(found[0]), found)


# ---- what is asked for ----

PATHS = ("/public/../secret", "/public/%2e%2e/secret", "/public/..%2fsecret", "/public/%2e%2e%2fsecret", "/public//../../secret",
         "/public/..;/secret", "/public/..;a=b/secret", "/public/\\..\\secret", "/public/..\\secret", "/public/%5c..%5csecret",
         "/public/%252e%252e/secret", "/public/%00/../../secret", "/public/a%00", "//secret", "/./secret", "/public/./../secret",
         "/public/%c0%ae%c0%ae/secret", "/public/\xff/../secret", "/public/a#/../../secret", "/PUBLIC/secret", "/public", "/public%2fa",
         "/publicsecret", "/public/%", "/public/%zz", "/public/a b", "/public/\x7f", "public/a", "/secret?/public/a", "/secret;/public/a",
         "/%70ublic/../secret", "/public/.%2e/secret", "/public/%2e./secret", "/public/...../../secret")


def outside_public(target):
    """Would some server take this for something outside /public/?"""
    path = target.partition("?")[0].partition("#")[0]
    for _ in range(3):
        path = urllib.parse.unquote(path, encoding="latin-1")
    path = "/".join(part.partition(";")[0] for part in path.replace("\\", "/").split("/"))
    return not (posixpath.normpath(path.replace("//", "/")) + "/").startswith("/public/")


@case("N20-paths")
def paths(p):
    rule = {"allow": [{"host": "raw.example.com", "ports": [443], "paths": ["/public/**"]}]}
    found = p.inside(rule, [https("raw.example.com", get(path), wait=5) for path in PATHS] +
                     [https("raw.example.com", get("/public/a")), https("raw.example.com", get("/public/a/b%20c?x=../..//"))] +
                     [h2("raw.example.com", head(path), wait=5) for path in PATHS], timeout=180)
    seen = targets(p)
    check([t for t in seen if outside_public(t)] == [], [t for t in seen if outside_public(t)])
    n = len(PATHS)
    check(statuses(found[n]) == [200] and statuses(found[n + 1]) == [200], found[n:n + 2])
    for path, f in zip(PATHS, found[:n]):
        if path in ("/public/../secret", "/public/%2e%2e/secret", "//secret", "/secret?/public/a", "/public/a%00", "/public/..%2fsecret",
                    "/public/%zz", "/publicsecret"):
            check(refused(f), "%s: %s" % (path, f))
    p.world.forget()
    p.control([https("raw.example.com", get("/public/../secret"))])
    check([t for t in targets(p) if outside_public(t)], "the control is not seen")


@case("N21-methods", tiers=BOTH)
def methods(p):
    rule = {"allow": [{"host": "raw.example.com", "ports": [443], "methods": ["GET", "HEAD"]}]}
    bad = ["DELETE", "POST", "get", "Get", "TRACE", "TRACK", "CONNECT", "FOO", "GET\0", "G ET", "", "GET,DELETE", "OPTIONS", "A" * 100]
    found = p.inside(rule, [https("raw.example.com", get("/m", method=m), wait=5) for m in bad])
    for m, f in zip(bad, found):
        check(refused(f), "%r: %s" % (m, f))
    check(not targets(p), targets(p))
    fields = ["X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "x-http_method-override: DELETE"]
    found = p.inside(rule, [https("raw.example.com", get("/o", headers=[f])) for f in fields] + [https("raw.example.com", get("/plain"))])
    check("delete" not in "".join(p.world.received("raw")).lower(), p.world.received("raw"))
    check(statuses(found[-1]) == [200], found[-1])
    any_method = {"allow": [{"host": "raw.example.com", "ports": [443]}]}
    found = p.inside(any_method, [https("raw.example.com", get("/t", method=m), wait=5) for m in ("TRACE", "TRACK", "DELETE")])
    check(refused(found[0]) and refused(found[1]) and statuses(found[2]) == [200], found)
    registry = {"allow": [{"host": "raw.example.com", "ports": [443], "mode": "registry"}]}
    found = p.inside(registry, [https("raw.example.com", get("/body", body="x")), https("raw.example.com", get("/put", method="PUT", body="x")),
                                https("raw.example.com", get("/post", method="POST", body="x")), https("raw.example.com", get("/fetch"))])
    check([refused(f) for f in found] == [True, True, True, False], [statuses(f) for f in found])
    p.control([https("raw.example.com", get("/o", headers=fields[:1]))])
    check("DELETE" in "".join(p.world.received("raw")), "the control is not seen")


@case("N22-tunnels")
def tunnels(p):
    """An upgrade that the rule does not name, or the server does not take, never becomes a tunnel."""
    ask = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    other = ["Connection: Upgrade", "Upgrade: tunnel"]
    inner = get(MARK)
    http, ws = {"allow": [RAW]}, {"allow": [{"host": "raw.example.com", "ports": [443], "mode": "ws", "paths": ["/ws"]}]}
    found = p.inside(http, [https("raw.example.com", get("/ws", headers=h) + inner, responses=2, wait=4) for h in (ask, other)])
    check(101 not in statuses(found[0]) + statuses(found[1]), found)
    check("upgrade:" not in "".join(p.world.received("raw")).lower(), p.world.received("raw"))
    p.world.forget()
    # This server answers 200: the connection stays HTTP, and what follows is judged.
    found = p.inside(ws, [https("raw.example.com", get("/ws", headers=ask) + inner, responses=2, wait=4),
                          https("raw.example.com", get("/ws", headers=other) + inner, responses=2, wait=4),
                          https("raw.example.com", get("/other", headers=ask), wait=4), https("raw.example.com", get("/ws"))])
    check(MARK not in targets(p), targets(p))
    check(refused(found[2]) and statuses(found[3]) == [200], found[2:])


# ---- what an allowed host can be abused for ----

def git_script(*lines):
    return "\n".join(["set -e", "export GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t",
                      "export GIT_COMMITTER_EMAIL=t@t HOME=$PWD", "rm -rf c",
                      "git clone -q https://github.com/owner/demo.git c", "cd c", "echo x > f; git add f; git commit -qm x", *lines])


@case("N29-git", tiers=BOTH)
def git_rules(p):
    """One repository to fetch, some refs to push, nothing else of the same host."""
    need_program("git")
    need_service("nginx")

    def rule(**more):
        return {"allow": [{"host": "github.com", "ports": [443], "mode": "git", **more}]}

    only = rule(repos=["owner/demo"])
    r, _ = p.croft_run(only, "/bin/sh", "-c", git_script("cat README; git push -q origin HEAD:refs/heads/agent/a; echo pushed"))
    check("from git" in r.out and "pushed" not in r.out, r)
    check(p.denied().about(host="github.com"), p.denied())
    r, _ = p.croft_run(only, "/bin/sh", "-c", "HOME=$PWD GIT_TERMINAL_PROMPT=0 git clone -q https://github.com/owner/other.git o; echo $?")
    check("0\n" not in r.out, "another repository was cloned: %s" % r)
    some = rule(repos=["owner/demo"], push=True, refs=["refs/heads/agent/*"])
    r, _ = p.croft_run(some, "/bin/sh", "-c", git_script("git push -q origin +HEAD:refs/heads/agent/b && echo pushed"))
    check("pushed" in r.out, "%s\n%s" % (r, p.denied()))
    for attempt in ("HEAD:refs/heads/main", "HEAD:refs/heads/agent/c HEAD:refs/heads/main", ":refs/heads/main", "HEAD:refs/tags/v1",
                    "--force HEAD:refs/heads/main", "HEAD:refs/heads/agent/x/y"):
        r, _ = p.croft_run(some, "/bin/sh", "-c", git_script("git push -q origin %s && echo pushed" % attempt))
        check("pushed" not in r.out, "%s: %s" % (attempt, r))
    r, _ = p.croft_run(some, "/bin/sh", "-c", git_script("git push -q https://github.com/stranger/drop.git HEAD:refs/heads/agent/d && echo pushed"))
    check("pushed" not in r.out, "pushed to a stranger: %s" % r)
    refs = p.plain("git", "--git-dir", p.world.dir + "/git/owner/demo.git", "-c", "safe.directory=*", "for-each-ref", "--format=%(refname)").out
    check(refs.split() == ["refs/heads/agent/b", "refs/heads/main"], refs)
    r = p.plain("/bin/sh", "-c", git_script("git push -q https://github.com/stranger/drop.git +HEAD:refs/heads/agent/d && echo pushed"))
    check("pushed" in r.out, "the control cannot push: %s" % r)


@case("N29-around-git")
def around_git(p):
    """LFS, dumb protocol, API, compressed pushes, through a host that is allowed for Git."""
    need_service("nginx")
    steps = [https("github.com", get(path, "github.com", method=m, headers=h, body=b), wait=5) for m, path, h, b in (
        ("POST", "/owner/demo.git/info/lfs/objects/batch", ["Content-Type: application/vnd.git-lfs+json"], "{}"),
        ("GET", "/owner/demo.git/HEAD", [], ""), ("GET", "/owner/demo.git/objects/info/packs", [], ""), ("POST", "/graphql", [], "{}"),
        ("POST", "/gists", [], "{}"), ("GET", "/owner/demo.git/info/refs", [], ""), ("GET", "/", [], ""),
        ("GET", "/owner/demo.git/info/refs?service=git-receive-pack", [], ""),
        ("GET", "/owner/demo.git/../other.git/info/refs?service=git-upload-pack", [], ""),
        ("GET", "/owner/demo.git/info/refs?service=git-upload-pack&service=git-receive-pack", [], ""),
        ("GET", "/owner%2fdemo.git/info/refs?service=git-upload-pack", [], ""),
        ("POST", "/owner/demo.git/git-receive-pack", ["Content-Encoding: gzip"], "\x1f\x8b"),
        ("POST", "/owner/demo.git/git-receive-pack", [], "0000"), ("PUT", "/owner/demo.git/git-upload-pack", [], "0000"))]
    good = https("github.com", get("/owner/demo.git/info/refs?service=git-upload-pack", "github.com"))
    rule = {"allow": [{"host": "github.com", "ports": [443], "mode": "git", "repos": ["owner/demo"]}]}
    found = p.inside(rule, steps + [good])
    for s, f in zip(steps, found):
        check(refused(f), "%s: %s" % (s["send"][0][:80], statuses(f)))
    check(statuses(found[-1]) == [200], found[-1])
    check(len(p.world.requests("nginx")) == 1, [e["target"] for e in p.world.requests("nginx")])


@case("N29-publish", tiers=BOTH)
def publish(p):
    """Bundles fetch; they do not publish."""
    need_service("nginx")
    steps = [https(h, get(path, h, method=m, body="{}"), wait=5) for h, m, path in (
        ("registry.npmjs.org", "PUT", "/croft-demo"), ("registry.npmjs.org", "POST", "/-/v1/login"), ("pypi.org", "POST", "/legacy/"),
        ("static.crates.io", "PUT", "/api/v1/crates/new"), ("github.com", "POST", "/graphql"), ("github.com", "PUT", "/repos/o/r/contents/x"))]
    fetch = https("registry.npmjs.org", get("/croft-demo", "registry.npmjs.org"))
    found = p.inside({"use": ["npm", "pypi", "crates", "github-read"]}, steps + [fetch])
    for s, f in zip(steps, found):
        check(refused(f), "%s: %s" % (s["send"][0][:60], f))
    check(statuses(found[-1]) == [200], found[-1])
    for host in ("upload.pypi.org", "uploads.github.com"):
        found = p.inside({"use": ["npm", "pypi", "crates", "github-read"]}, [https(host, get("/", host, method="POST", body="x"))])
        check(refused(found[0]), found)


if __name__ == "__main__":
    place.main()
