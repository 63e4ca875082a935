#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""What the gateway suggests and asks about: patterns are literal, and a person sees the whole request (L9)."""
import contextlib
import json
import subprocess
import threading
import time

import place  # first: it finds the harness
import harness
from place import BOTH, case, check, get, https, refusal, statuses

RAW = {"host": "raw.example.com", "ports": [80, 443]}
V1 = {"host": "raw.example.com", "paths": ["/v1"]}


def asked(p):
    """The first question that waits, once there is one."""
    end = time.monotonic() + harness.WAIT_S
    while time.monotonic() < end:
        rows = json.loads(p.croft("pending", "--json").out or "[]")
        if rows:
            return rows[0]
        threading.Event().wait(0.02)
    raise harness.Fail("nobody was asked")


@contextlib.contextmanager
def session(p, policy, steps):
    child = p.start(policy, *p.steps([x for s in steps for x in (s, {"do": "wait"})]), stdin=subprocess.PIPE)
    try:
        yield child
    finally:
        with contextlib.suppress(OSError):
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(harness.WAIT_S)
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


@case("L9-suggestion-is-literal", tiers=BOTH)
def literal(p):
    """A refused "/**" is no reason to suggest a rule for everything."""
    found = p.inside({"allow": [V1]}, [https("raw.example.com", get("/**"))])
    check(statuses(found[0]) == [403], found)
    want = 'network.allow: [{host: raw.example.com, methods: [GET], paths: ["/%2A%2A"]}]'
    check(refusal(found[0])["next"] == want, refusal(found[0]))
    denied = [d["allow_with"] for d in p.denied().all]
    check(denied == [want], p.denied())
    # The suggestion, followed: it allows what was refused, and nothing else.
    rule = {"host": "raw.example.com", "methods": ["GET"], "paths": ["/%2A%2A"]}
    found = p.inside({"allow": [V1, rule]}, [https("raw.example.com", get(x)) for x in ("/**", "/other", "/a/b", "/")])
    check([statuses(f) for f in found] == [[200], [403], [403], [403]], found)
    # Control: the pattern as it was would have allowed everything.
    rule["paths"] = ["/**"]
    found = p.inside({"allow": [V1, rule]}, [https("raw.example.com", get("/other"))])
    check(statuses(found[0]) == [200], found)


@case("L9-pending-shows-the-whole-request", tiers=BOTH)
def whole(p):
    p.need("pending")
    path = "/a/" + "b" * 700 + "/end"
    steps = [https("raw.example.com", get(path + "?token=1&x=" + "y" * 300 + "z", method="POST", body="hello"), wait=30),
             https("raw.example.com", get("/" + "c" * 3000), wait=30), https("raw.example.com", get("/plain"), wait=30)]
    with session(p, {"ask-timeout": "20s", "ask": [RAW]}, steps) as child:
        for want in ((path, "token=1&x=" + "y" * 300 + "z", "5 bytes"), (None, "", "none"), ("/plain", "", "none")):
            row = asked(p)
            if want[0] is None:
                check(row["path"].endswith("…[cut: 3001 bytes in all]") and row["path"].startswith("/cccc"), row)
            else:
                check(row["path"] == want[0], row)
            check((row["query"], row["body"]) == want[1:], row)
            shown = p.croft("pending").out
            check(row["path"] in shown and "body: " + row["body"] in shown and (not want[1] or "?" + want[1] in shown), shown)
            check(p.croft("deny", row["id"]).rc == 0, row)
            check(statuses(json.loads(child.stdout.readline())) == [403], "denied")
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()


if __name__ == "__main__":
    place.main()
