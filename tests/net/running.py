# SPDX-License-Identifier: Apache-2.0
"""A sandbox that runs while a test looks at its gateway: for test_life and test_rest."""
import contextlib
import json
import os
import subprocess
import threading
import time

import harness
from harness import check

RAW = {"host": "raw.example.com", "ports": [80, 443]}
TCP = {"host": "tcp.example.com", "ports": [7777, 8083, 8084, 8085], "mode": "tcp"}


def echo(text="ping", host="tcp.example.com", port=7777, **more):
    return {"do": "tcp", "host": host, "port": port, "send": [text], "want": len(text), "wait": 10, **more}


class Session:
    """A sandbox whose probe waits between steps, so that the test can act meanwhile."""

    def __init__(self, p, policy, steps, options=()):
        self.p, self.steps = p, steps
        apart = [x for s in steps for x in (s, {"do": "wait"})]
        self.child = p.start(policy, *p.steps(apart), stdin=subprocess.PIPE, options=options)

    def __enter__(self):
        return self

    def finding(self):
        line = self.child.stdout.readline()
        if not line:
            raise harness.Fail("ended: %s" % self.child.stderr.read().decode("utf-8", "replace")[-800:])
        return json.loads(line)

    def go_on(self):
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()
        self.child.stdout.readline()

    def gateways(self, keeper=False):
        found = []
        for pid in harness.descendants(self.p.supervisor(self.child)):
            words = harness.command_line(pid).split(b"\0")
            if words[0].endswith(b"croft-gateway") and (b"--keeper" in words) == keeper:
                found.append(pid)
        return found

    def gateway(self):
        found = self.gateways()
        check(len(found) == 1, "gateways: %s" % found)
        return found[0]

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        try:
            self.child.wait(harness.WAIT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise harness.Fail("does not end") from None
        finally:
            self.child.stdout.close()
            self.err = self.child.stderr.read().decode("utf-8", "replace")
            self.child.stderr.close()


def wait_for(what, text, timeout=harness.WAIT_S):
    """Until what() is true. For events that another process makes and nobody announces."""
    end = time.monotonic() + timeout
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise harness.Fail("waited in vain: " + text)
        threading.Event().wait(0.02)


def live(p):
    """Ids of this user's running sandboxes."""
    with contextlib.suppress(OSError):
        return os.listdir(os.path.join(p.env["XDG_STATE_HOME"], "croft", "live"))
    return []


def pending(p):
    r = p.croft("pending", "--json")
    if r.rc:
        r = p.croft("pending")
    with contextlib.suppress(ValueError):
        rows = json.loads(r.out)
        rows = rows.get("pending", []) if isinstance(rows, dict) else rows
        return [str(row["id"]) for row in rows]
    return [line.split()[0] for line in r.out.splitlines() if line and line[0].isalnum() and any(c.isdigit() for c in line.split()[0])]
