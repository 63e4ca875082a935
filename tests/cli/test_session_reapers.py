#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands of a session that kill or stop reapers: their own, a neighbour's, or the one that waits."""
from envs import new, repository
from harness import check, contains, equal, main, test, text

# Every process but this command, its descendants and the first process: the reapers.
REAPERS = """
import os, signal, sys
mine = os.getppid()
def name(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        return f.read().rsplit(")", 1)[1].split()
for entry in os.listdir("/proc"):
    if entry.isdigit() and int(entry) not in (1, os.getpid()) and name(entry)[1] == "1":
        if (int(entry) == mine) == (sys.argv[2] == "own"):
            print("found", flush=True)
            os.kill(int(entry), int(sys.argv[1]))
if sys.argv[2] == "own":
    signal.pause()
"""


def up(p):
	repository(p)
	new(p)
	p.croft("up", "-q", "e").exits(0)
	p.write(f"{p.ws}/reapers.py", REAPERS)


def down(p):
	p.croft("down", "-q", "e").exits(0)


@test
def a_command_cannot_stop_its_reaper_to_outlive_its_time(p):
	up(p)
	for signal in ("19", "9"):
		r = p.croft("exec", "-q", "--timeout", "30s", "e", "--", "python3", "-c", REAPERS, signal, "own")
		check(r.rc == 128 + 9, "the command is killed with its reaper", r)
		contains(text(r.out), "found")
	# The session goes on, and a command that does nothing of the kind (the control) is not harmed.
	equal(text(p.croft("exec", "-q", "e", "--", "echo", "fine").exits(0).out), "fine\n")
	down(p)


@test
def a_killed_reaper_that_waits_does_not_fail_the_next_command(p):
	up(p)
	for _ in range(10):
		for signal in ("9", "19"):
			r = p.croft("exec", "-q", "e", "--", "python3", "-c", REAPERS, signal, "other").exits(0)
			equal(text(p.croft("exec", "-q", "e", "--", "echo", "fine").exits(0).out), "fine\n")
	contains(text(r.out), "found")
	down(p)


main()
