#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
"""R2: the disk limit holds for what is staged, however it is written."""
import os
import subprocess

import harness
from harness import Skip, check

SH = ("--", "/bin/sh", "-c")
NS = ("namespace",)
MIB = 1 << 20

# About 64 MiB in ways that one look, or one limit, would miss, as fast as a slow disk: a busy machine can keep up.
WAYS = {
    "one file": "dd if=/dev/zero of=big bs=1M count=64 2>/dev/null",
    "many files": "i=0; while [ $i -lt 64 ]; do dd if=/dev/zero of=f$i bs=1M count=1 2>/dev/null; sleep 0.03; i=$((i+1)); done; sleep 60",
    "a closed directory": "mkdir d; exec 3>d/3 4>d/4 5>d/5 6>d/6 7>d/7 8>d/8 9>d/9; chmod 0 d; "
                          "for n in 3 4 5 6 7 8 9; do dd if=/dev/zero bs=1M count=7 >&$n 2>/dev/null; sleep 0.3; done; sleep 60",
    "files without a name": "exec 3>3 4>4 5>5 6>6 7>7 8>8 9>9; rm ?; "
                            "for n in 3 4 5 6 7 8 9; do dd if=/dev/zero bs=1M count=7 >&$n 2>/dev/null; sleep 0.3; done; sleep 60",
    "deep": "i=0; while [ $i -lt 64 ]; do mkdir d; cd d; dd if=/dev/zero of=f bs=1M count=1 2>/dev/null; sleep 0.03; i=$((i+1)); done; sleep 60",
}


def staged_b(p):
    """What lies in the layers, in bytes of the disk."""
    r = subprocess.run(["du", "-s", "-B1", os.path.join(p.dir, "state", "croft", "layers")], capture_output=True,
                       text=True, check=False)
    return int(r.stdout.split()[0]) if r.stdout.split() else 0


@harness.case("R2-staged", tiers=NS)
def staged(p):
    """--disk 8M and 64 MiB to be staged: it ends, the receipt says why, and much less is on the disk."""
    notes = []
    for name, way in WAYS.items():
        if name == "a closed directory" and p.user.uid:
            continue  # only root can list it; for others the free space decides, which is not ours alone
        before = staged_b(p)
        r, receipt = p.receipt("--staged", "--disk", "8M", *SH, way)
        check("disk" in receipt["limits_hit"], "%s: not in the receipt: %s %s" % (name, receipt["limits_hit"], r))
        check(r.rc != 0, "%s: %s" % (name, r))
        check(any("counting" in d for d in receipt["degradations"]), "how it is held: %s" % receipt["degradations"])
        grown = staged_b(p) - before
        check(grown < 48 * MIB, "%s: %d MiB are staged" % (name, grown // MIB))
        notes.append("%s: %.1f MiB staged" % (name, grown / MIB))
    r, receipt = p.receipt("--staged", "--disk", "100M", *SH, WAYS["one file"])
    check(r.rc == 0 and not receipt["limits_hit"], "the control is ended: %s" % r)
    check(os.path.exists(p.path("big")) is False, "written in place")
    r, receipt = p.receipt("--staged", *SH, WAYS["one file"])
    check(r.rc == 0 and receipt["limits"]["disk_b"] is None and not receipt["limits_hit"], "without a limit: %s" % r)
    return "\n".join(notes)


# So many files without a name that they are not told apart, then those that matter.
CROWD = """
import os, sys, time
def make(n, size_b):
    for i in range(n):
        fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.write(fd, b"x" * size_b)
        os.unlink("f")
for i in range(10):
    r, w = os.pipe()
    if os.fork() == 0:
        make(450, 1)
        os.write(w, b"x")
        time.sleep(60)
    os.read(r, 1)
    os.close(r)
    os.close(w)
for i in range(80):
    make(1, 4 << 20)
    time.sleep(0.03)
"""


@harness.case("R2-staged-crowd", tiers=NS)
def crowd(p):
    """Files without a name are counted behind thousands of small ones."""
    r, receipt = p.receipt("--staged", "--disk", "64M", "--", harness.python, "-c", CROWD + "time.sleep(60)")
    check("disk" in receipt["limits_hit"] and r.rc != 0, "%s %s" % (receipt["limits_hit"], r))
    r, receipt = p.receipt("--staged", "--disk", "2G", "--", harness.python, "-c", CROWD.replace("range(80)", "range(4)"))
    check(r.rc == 0 and not receipt["limits_hit"], "the control is ended: %s" % r)


@harness.case("R2-staged-again", tiers=NS)
def staged_again(p):
    """In an environment the limit is for all that its layer holds; what is too full already is refused."""
    if p.plain("git", "init", "-q", ".").rc != 0:
        raise Skip("no git")
    p.plain("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "t")
    check(p.plain(harness.croft, "new", "e", "-q").rc == 0, "no environment")

    def execute(*words):
        return p.plain(harness.croft, "exec", "e", "-q", *words)
    r = execute("--disk", "40M", *SH, "dd if=/dev/zero of=a bs=1M count=20 2>/dev/null")
    check(r.rc == 0, r)
    r = execute("--disk", "40M", *SH, "dd if=/dev/zero of=b bs=1M count=30 2>/dev/null; sleep 60")
    check(r.rc == 137, "the second half did not count: %s" % r)
    r = execute("--disk", "10M", "--", "true")
    check(r.rc == 126 and "disk limit" in r.err, "not refused: %s" % r)
    r = execute("--disk", "10M", "--read-only", "--", "true")
    check(r.rc == 0, "looking needs no room: %s" % r)


@harness.case("R2-in-place", tiers=NS)
def in_place(p):
    """What is written in place is not limited, and the receipt says so."""
    r, receipt = p.receipt("--direct", "--disk", "8M", *SH, WAYS["one file"])
    check(r.rc == 0, r)
    check(any("in place" in d for d in receipt["degradations"]), "silent: %s" % receipt["degradations"])
    r, receipt = p.receipt("--direct", *SH, "true")
    check(not any("disk limit" in d for d in receipt["degradations"]), "without a limit: %s" % receipt["degradations"])


if __name__ == "__main__":
    harness.main()
