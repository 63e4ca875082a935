# SPDX-License-Identifier: Apache-2.0
"""Whose a process is: another program of the tests, or another suite, may run on this machine at the same time."""
import os
import re

# The place of a test, as it is in the environment of what is run there.
PLACE = re.compile(rb"/(croft-(?:cli|escape)\.[^/\0]+)")
_mine = set()


def mine(directory):
	"""What runs with a HOME below this directory is ours."""
	_mine.add(os.fsencode(os.path.basename(directory)))


def parent_of(pid):
	try:
		with open(f"/proc/{pid}/stat", "rb") as f:
			return int(f.read().rpartition(b")")[2].split()[1])
	except (OSError, IndexError):
		return 0


def elsewhere(pid):
	try:
		with open(f"/proc/{pid}/environ", "rb") as f:
			found = set(PLACE.findall(f.read()))
	except OSError:
		return False
	return bool(found) and not found & _mine


def somebody_elses(pid):
	"""
	Does a process belong to another program's tree? Ours descend from us; orphans from init. A session is one from
	the beginning: whose it is, its place says.
	"""
	steps = [pid]
	while steps[-1] > 1 and steps[-1] != os.getpid():
		steps.append(parent_of(steps[-1]))
	if steps[-1] == os.getpid():
		return False
	return len(steps) > 2 or any(elsewhere(p) for p in steps if p > 1)
