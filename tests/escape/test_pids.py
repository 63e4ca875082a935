#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
# serial
"""R1: a limit on processes is the number that was given, not the machine's number on top of it."""
import subprocess

import harness
from harness import check

FORKS = r"""
import os, sys
pids = []
try:
    while len(pids) < 300:
        pid = os.fork()
        if pid == 0:
            sys.stdin.read()
            os._exit(0)
        pids.append(pid)
except OSError:
    pass
print(len(pids))
os.close(0)
for pid in pids:
    os.kill(pid, 9)
"""
ROOM = 8  # tasks of the user's that may end while the test runs
TRIES = 5  # more of them come and go where another suite has the same user; a limit that is wrong is so each time


@harness.case("R1-pids")
def pids(p):
    """--pids 8: not many more than that many processes, or the receipt says that it is not held."""
    for limit in (8, 40):
        for _ in range(TRIES):
            r, receipt = p.receipt("--direct", "--pids", str(limit), "--", harness.python, "-c", FORKS, stdin=subprocess.PIPE)
            held = receipt["enforced"]["limits_held_by"]["pids"]
            made = int(r.out.split()[0])
            least, most = limit - 4 - (2 * ROOM if harness.IN_SESSION else ROOM), limit + (ROOM if held == "rlimit" else 0)
            if held != "rlimit" or least <= made < most:
                break
        if held == "not enforced":
            check(any("no process limit" in d for d in receipt["degradations"]), "silent: %s" % receipt["degradations"])
            continue
        check(made < most, "%d processes, held by %s: %s" % (made, held, r))
        check(made >= least, "no more than %d processes: %s" % (made, r))
        if held == "rlimit":
            check(any("RLIMIT_NPROC" in d for d in receipt["degradations"]), receipt["degradations"])
    r, receipt = p.receipt("--direct", "--pids", "1000", "--", harness.python, "-c", FORKS, stdin=subprocess.PIPE)
    check(r.out.split()[0] == "300", "the control is limited: %s" % r)
    return "held by %s" % held


if __name__ == "__main__":
    harness.main()
