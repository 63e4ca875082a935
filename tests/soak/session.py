#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""10,000 commands in one session, 200 at once in one sandbox, 2,000 sessions up and down: nothing leaks, memory flat.

usage: tests/soak/session.py [--execs N] [--at-once N] [--cycles N]

Prints one line per part, with what was counted before and after; exits 1 when anything is left. Run by `make soak`.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))

import envs  # noqa: E402
import many  # noqa: E402
from harness import CROFT, Failed, Place, Skip  # noqa: E402


def part(what, function, *args):
	start = time.monotonic()
	try:
		function(*args, lambda *words: print("#", *words, f"{time.monotonic() - start:.0f} s", flush=True))
		print(f"ok - sessions: {what}: {time.monotonic() - start:.0f} s", flush=True)
		return True
	except Failed as e:
		print(f"not ok - sessions: {what}: {e}", flush=True)
		return False


def main():
	ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	ap.add_argument("--execs", type=int, default=10000)
	ap.add_argument("--at-once", type=int, default=200)
	ap.add_argument("--cycles", type=int, default=2000)
	options = ap.parse_args()
	if not os.access(CROFT, os.X_OK):
		sys.exit(f"soak: {CROFT} is not there")
	place, good = Place(), True
	try:
		envs.repository(place)
		envs.new(place, "e")
		envs.work(place, "true")
		good = part(f"{options.execs} commands in one session, {options.at_once} at once", many.in_one_session, place,
			options.execs, options.at_once)
		good = part(f"{options.cycles} sessions up and down", many.up_and_down, place, options.cycles) and good
	except Skip as e:
		print(f"skip - sessions: {e}")
	finally:
		place.croft("down", "-q", "--now", "e")
		place.done()
	sys.exit(0 if good else 1)


if __name__ == "__main__":
	main()
