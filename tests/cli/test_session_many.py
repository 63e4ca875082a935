#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""Hundreds of commands in one session, dozens at once, and sessions that come and go: nothing leaks.

tests/soak/session.py does the same by the thousand.
"""
import os

import envs
import many
from harness import check, main, test


def ready(p):
	envs.repository(p)
	envs.new(p, "e")
	envs.work(p, "true")


def say(*words):
	print("#", *words)


@test
def a_session_is_as_before_after_many_commands(p):
	ready(p)
	many.in_one_session(p, 150, 50, say)


@test
def sessions_come_and_go_without_a_trace(p):
	ready(p)
	many.up_and_down(p, 20, say)


@test
def what_is_left_is_seen(p):
	"""The control: a process, a file and a descriptor that stay are found by the same counts."""
	ready(p)
	s = many.Session(p)
	try:
		before, inside = s.at_rest(), s.inside()
		p.croft("exec", "-q", "-d", "e", "--", "sh", "-c", "echo left > ~/left; exec sleep 1000").exits(0)
		now = s.at_rest()
		check(now["processes"] > before["processes"], "a process that stays is counted", before, now)
		if before["descriptors"]:
			check(now["descriptors"] > before["descriptors"], "descriptors are counted", before, now)
		seen = s.inside()
		check(seen["processes"] > inside["processes"] and seen["names"] > inside["names"], "what stays inside is counted", inside, seen)
		with open(os.path.join(envs.state(p, "envs", "e"), "left"), "w", encoding="ascii"):
			pass
		check(s.outside()["files"] != before["files"], "a file that stays is counted")
	finally:
		s.down()


@test
def growth_is_told_from_what_a_burst_leaves(p):
	before = {"descriptors": 20, "files": ["a"]}
	check(not many.more(before, {"descriptors": 24, "files": ["a"]}), "idle reapers")
	check(many.more(before, {"descriptors": 25, "files": ["a"]}) and many.more(before, {"descriptors": 20, "files": []}), "a leak")
	check(many.grew(1000, 1000 + many.GROWTH_KB + 1) and not many.grew(1000, 1000 + many.GROWTH_KB), "the limit")
	check(not many.grew(None, 5000), "what cannot be read is not judged")


main()
