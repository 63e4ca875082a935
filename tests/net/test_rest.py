#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway that has nothing to do goes, and the next packet starts another that keeps what was promised (N27)."""
import os
import signal
import subprocess
import threading

import place  # first: it finds the harness
import harness
import sites
import running
from place import BOTH, PYTHON, case, check, closed, get, https, statuses
from running import RAW, TCP, echo, live, pending, wait_for

REST_MS = 300
HOST, VALUE = "secret.example.com", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
FIRST_NAME = "198.18.1.0"  # the address of the name that a sandbox looks up first


class Session(running.Session):
    """As there, with a gateway that soon comes to rest."""

    def __init__(self, p, policy, steps, rest_ms=REST_MS, program="probe.py"):
        words = p.steps([x for s in steps for x in (s, {"do": "wait"})])
        p.env["CROFT_GATEWAY_REST_MS"] = str(rest_ms)
        self.p = p
        self.child = p.start(policy, words[0], program, words[2], stdin=subprocess.PIPE)
        del p.env["CROFT_GATEWAY_REST_MS"]

    def rested(self):
        """Wait until the gateway has gone, and the keeper with it."""
        everyone = self.gateways() + self.gateways(keeper=True)
        left = harness.wait_gone(harness.pidfds(everyone))
        check(not left, "the gateway stays: %s" % left)

    def next(self):
        self.go_on()
        return self.finding()

    def next_after_rest(self):
        self.rested()
        check(not self.gateways() and not self.gateways(keeper=True), "somebody else serves")
        return self.next()


def served(p, connections=None):
    """No gateway was lost; all of them together tell one account."""
    r = p.read_receipt()
    check(r["network"]["gateway"] == "served", r["network"])
    check(not [d for d in r.get("degradations", []) if "ended early" in d], r.get("degradations"))
    if connections is not None:
        check(r["network"]["connections"] == connections, r["network"])
    return r


@case("N27-rest", tiers=BOTH)
def rest(p):
    """It goes, comes back with the next connection, and neither the sandbox nor its receipt can tell."""
    own = p.tier == "namespace"
    steps = [echo("one"), echo("two"), echo("three", FIRST_NAME if own else "tcp.example.com"), echo("x", sites.EVIL, 4444)]
    with Session(p, {"allow": [TCP]}, steps) as s:
        check(s.finding().get("data") == "one", "not served")
        check(s.next_after_rest().get("data") == "two", "not served after a rest")
        check(s.next_after_rest().get("data") == "three", "a name's address was forgotten")
        check(closed(s.next_after_rest()), "open after a rest")
        s.rested()
        s.go_on()
    r = served(p, connections=3)
    rows = [h for h in r["network"]["hosts"] if h["host"] == "tcp.example.com"]
    check(len(rows) == 1 and rows[0]["connections"] == 3, r["network"])
    check([d for d in r["denials"] if d.get("port") == 4444], r["denials"])
    check(not p.world.events("evil"), p.world.events("evil"))


@case("N27-rest-authority", tiers=BOTH)
def rest_authority(p):
    """The authority that the sandbox trusts is the same, and refusals are counted on."""
    no = https("evil.example.net", get("/no", "evil.example.net"))
    with Session(p, {"allow": [RAW]}, [https("raw.example.com", get("/1")), https("raw.example.com", get("/2")), no, no]) as s:
        check(statuses(s.finding()) == [200], "not served")
        check(statuses(s.next_after_rest()) == [200], "another authority")
        s.next_after_rest()
        s.next_after_rest()
        s.go_on()
    counts = [d["count"] for d in served(p)["denials"] if d.get("host") == "evil.example.net"]
    check(counts and max(counts) >= 2, counts)


@case("N27-rest-limits", tiers=BOTH)
def rest_limits(p):
    """What a rule allows so many times is not allowed as often again by each gateway."""
    with Session(p, {"allow": [{**TCP, "limits": {"uses": 2}}]}, [echo("one"), echo("two"), echo("three")]) as s:
        check(s.finding().get("data") == "one", "not served")
        check(s.next_after_rest().get("data") == "two", "the second use")
        check(closed(s.next_after_rest()), "a third use of two")
        s.go_on()
    served(p)


@case("N27-rest-policy", tiers=BOTH)
def rest_policy(p):
    """A policy that is set while nobody serves holds for the next connection, and for the gateways after that."""
    p.need("policy", "set")
    steps = [echo("one"), echo("two"), https("raw.example.com", get("/allowed")), echo("three")]
    with Session(p, {"allow": [RAW, TCP]}, steps) as s:
        check(s.finding().get("data") == "one", "not served")
        s.rested()
        r = p.croft("policy", "set", live(p)[0], p.policy(allow=[RAW]))
        check(r.rc == 0, r)
        check(closed(s.next()), "open under the old policy")
        check(statuses(s.next_after_rest()) == [200], "the new policy allows it")
        check(closed(s.next_after_rest()), "the old policy came back")
        s.go_on()
    served(p)


@case("N27-rest-answer")
def rest_answer(p):
    """An answer that lasts outlasts the gateway that was given it."""
    p.need("pending")
    step = https("raw.example.com", get("/asked"), wait=30)
    with Session(p, {"default": "ask", "ask-timeout": "20s", "ask": [RAW]}, [step, step]) as s:
        first = wait_for(lambda: pending(p), "somebody is asked")[0]
        check(s.gateways(), "it rests while a question is out")
        r = p.croft("allow", "--for", "1h", first)
        check(r.rc == 0, r)
        check(statuses(s.finding()) == [200], "allowed, but refused")
        check(statuses(s.next_after_rest()) == [200], "asked again")
        s.go_on()
    served(p)


# The probe, with the placeholder in its steps.
CLIENT = r'''
import os, sys
text = open(sys.argv[1]).read().replace("@P@", os.environ["TOKEN"])
open("filled.json", "w").write(text)
os.execv(sys.executable, [sys.executable, "probe.py", "filled.json"])
'''


@case("N27-rest-secret")
def rest_secret(p):
    """The keeper rests with the gateway; afterwards secrets go where they went before, and come back to nobody."""
    r = p.croft("secret", "set", "TOKEN", stdin=VALUE)
    check(r.rc == 0, r)
    p.write("client.py", CLIENT)
    policy = {"allow": [HOST], "secrets": [{"name": "TOKEN", "host": HOST, "place": "bearer"}]}
    step = https(HOST, get("/api", HOST, headers=["Authorization: Bearer @P@"]))
    with Session(p, policy, [step, step, step], program="client.py") as s:
        check(statuses(s.finding()) == [200], "not served")
        check(len(s.gateways(keeper=True)) == 1, "no keeper")
        check(statuses(s.next_after_rest()) == [200], "not served after a rest")
        check(statuses(s.next_after_rest()) == [200], "not served after another")
        s.go_on()
    served(p)
    sent = [dict((k.lower(), v) for k, v in e["headers"]).get("authorization") for e in p.world.requests("raw")]
    check(sent == ["Bearer " + VALUE] * 3, sent)


@case("N27-rest-not-while-used", tiers=BOTH)
def rest_not_while_used(p):
    """An open connection is work, whether it says something or not."""
    held = {"do": "tcp", "host": "tcp.example.com", "port": 8085, "send": ["x"], "want": 1, "wait": 10}
    with Session(p, {"allow": [TCP]}, [echo(), held], rest_ms=100) as s:
        s.finding()
        s.rested()
        s.go_on()
        pid = wait_for(s.gateways, "it is served")[0]
        threading.Event().wait(1)  # ten times what a gateway without work waits
        check(s.gateways() == [pid], "it went, or was replaced, under an open connection")
        s.finding()
        s.go_on()
    served(p)


@case("N27-rest-then-killed", tiers=BOTH)
def rest_then_killed(p):
    """Only a rest is silent: the second gateway's death is told, and nobody takes its place."""
    with Session(p, {"allow": [TCP]}, [echo("one"), echo("two"), echo("three")]) as s:
        check(s.finding().get("data") == "one", "not served")
        s.rested()
        s.go_on()
        pid = wait_for(s.gateways, "another one serves")[0]
        gone = harness.pidfds([pid])
        os.kill(pid, signal.SIGKILL)
        check(not harness.wait_gone(gone), "it lives")
        s.finding()
        check(closed(s.next()), "served after the gateway's death")
        s.go_on()
    r = p.read_receipt()
    check(r["network"]["gateway"] == "ended early", r["network"])


# Connections and lookups that come just when the gateway goes.
RACE = r'''
import socket, sys, time
bad = 0
for i in range(60):
    time.sleep((90 + i % 24) / 1000)
    try:
        with socket.create_connection(("tcp.example.com", 7777), timeout=20) as s:
            s.sendall(b"x%d" % i)
            bad += s.recv(100) != b"x%d" % i
    except OSError as e:
        print(i, e)
        bad += 1
print("bad", bad)
'''


@case("N27-rest-race")
def rest_race(p):
    """A packet that comes while the gateway goes is answered by it or by the next one."""
    p.env["CROFT_GATEWAY_REST_MS"] = "100"
    r, receipt = p.croft_run({"allow": [TCP]}, PYTHON, "-c", RACE, timeout=120)
    del p.env["CROFT_GATEWAY_REST_MS"]
    check(r.out == "bad 0\n", r)
    check(receipt["network"]["connections"] == 60, receipt["network"])
    check(receipt["network"]["gateway"] == "served", receipt["network"])


if __name__ == "__main__":
    place.main()
