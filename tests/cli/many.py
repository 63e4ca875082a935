# SPDX-License-Identifier: Apache-2.0
"""Many commands in one session, and many sessions: what is counted before and after. For the soak and its small test.

What a session holds is counted outside (its descriptors, processes, memory, files, mounts, cgroups) and inside
(processes, mounts and names in HOME, /tmp and /run, as a command of it sees them).
"""
import concurrent.futures
import json
import os
import subprocess

import envs
from harness import Failed, all_cgroups, check, end, equal, mounts, processes, text, wait_for

KEPT = 64  # commands that have ended and that a session keeps for their logs: SESSION_KEPT_MAX
GROWTH_KB = 1024  # of memory that thousands of commands may leave: pages that the allocator keeps
NULL = subprocess.DEVNULL


def stat_of(pid):
	with open(f"/proc/{pid}/stat", "rb") as f:
		return f.read().rpartition(b")")[2].split()


def below(pid):
	"""A process and all its descendants, as the process table shows them now."""
	parents = {}
	for name in os.listdir("/proc"):
		if name.isdigit():
			try:
				fields = stat_of(name)
			except OSError:
				continue
			if fields[0] != b"Z":
				parents[int(name)] = int(fields[1])
	found = [pid]
	for p in found:
		found += [c for c, parent in parents.items() if parent == p]
	return found


def pss_kb(pid):
	"""Proportional share of memory, or None where it cannot be read."""
	try:
		with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
			return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
	except (OSError, StopIteration):
		return None


def descriptors(pid):
	try:
		return len(os.listdir(f"/proc/{pid}/fd"))
	except OSError:
		return 0 # not readable: not judged


def groups_below(tops):
	return sum(len(dirs) for top in tops for _, dirs, _ in os.walk(top))


class Session:
	"""One session and what it holds."""

	def __init__(self, place, name="e"):
		self.p, self.name = place, name
		place.croft("up", "-q", name).exits(0)
		self.pid = self.ps()["pid"]

	def groups(self):
		"""Names of its cgroups: croft-PID.NAMESPACE.TIME-ID."""
		return {os.path.basename(g) for g in all_cgroups() if os.path.basename(g).startswith(f"croft-{self.pid}.")}

	def ps(self):
		return json.loads(self.p.croft("ps", "--json", self.name).exits(0).out)

	def run(self):
		return self.p.start("exec", "-q", self.name, "--", "true", stdin=NULL, stdout=NULL, stderr=subprocess.PIPE)

	def execs(self, n, at_once=4):
		"""n commands, some at once; each must end well."""
		def one(_):
			s = self.run()
			_, err = s.communicate()
			return None if s.returncode == 0 else f"exit {s.returncode}: {text(err)}"

		with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
			bad = [why for why in pool.map(one, range(n)) if why]
		check(not bad, f"{len(bad)} of {n} commands failed", bad[:3])

	def at_once(self, n):
		"""n commands that all run at the same moment."""
		running = [self.p.start("exec", "-q", self.name, "--", "sh", "-c", "echo ready; exec cat") for _ in range(n)]
		try:
			ready = sum(c.stdout.readline() == b"ready\n" for c in running)
			equal(ready, n, "running together")
			alive = sum(x["state"] == "running" for x in self.ps()["processes"])
			equal(alive, n, "running as ps says")
			for c in running:
				c.stdin.close()
			equal(sum(c.wait() == 0 for c in running), n, "ended well")
		finally:
			for c in running:
				end(c)

	def at_rest(self):
		"""Its counts when nothing is being written down any more."""
		seen = []

		def rests():
			seen.append(self.outside())
			return len(seen) > 2 and seen[-3:] == [seen[-1]] * 3

		wait_for(rests, "the session rests")
		return seen[-1]

	def outside(self):
		"""Counts from outside. What commands just left is waited for by settle()."""
		tree = below(self.pid)
		state = envs.state(self.p, "envs", self.name)
		return {"descriptors": descriptors(self.pid), "processes": len(tree),
			"cgroups": groups_below(g for g in all_cgroups() if os.path.basename(g).startswith(f"croft-{self.pid}.")), "mounts": len(mounts()),
			"layers": len(os.listdir(envs.state(self.p, "layers"))),
			"files": sorted(n for base, _, names in os.walk(state) for n in names if not n.isdigit())}

	def inside(self):
		"""What a command in it sees: processes, mounts, names in the places that last."""
		out = self.p.croft("exec", "-q", self.name, "--", "sh", "-c",
			"ls /proc | grep -c '^[0-9]'; wc -l < /proc/self/mountinfo; find ~ /tmp /run 2>/dev/null | grep -v \"^$PWD\" | wc -l").exits(0).out
		return dict(zip(("processes", "mounts", "names"), map(int, out.split()), strict=True))

	def memory(self):
		"""KiB of the session and of all its processes inside; None where it cannot be read."""
		each = [pss_kb(pid) for pid in below(self.pid)]
		return pss_kb(self.pid), None if None in each else sum(each)

	def down(self):
		self.p.croft("down", "-q", self.name).exits(0)


# A burst leaves up to four idle reapers, each with a process, a socket and perhaps a group.
LOOSE = {"descriptors": 4, "processes": 4, "cgroups": 4}


def more(before, now):
	"""What there is more of than before, or of another kind."""
	return {k: (before[k], now[k]) for k in before
		if now[k] != before[k] and not (k in LOOSE and now[k] <= before[k] + LOOSE[k])}


def same(look, before, what):
	"""Wait until the counts are as before: what has just ended goes a moment later."""
	try:
		wait_for(lambda: not more(before, look()), what)
	except Failed:
		raise Failed(f"{what}: {more(before, look())}") from None


def grew(before, after):
	return None not in (before, after) and after > before + GROWTH_KB


def in_one_session(p, execs, concurrent_n, say):
	"""Many commands in a row, then many at once; the session is afterwards as it was after the first few."""
	s = Session(p)
	try:
		s.execs(1)
		first = {k: v for k, v in s.at_rest().items() if k in LOOSE}
		s.at_once(min(concurrent_n, 8))
		s.execs(2 * KEPT)
		same(s.outside, first, f"what a session holds of {2 * KEPT} commands that have ended")
		before, inside, memory = s.at_rest(), s.inside(), s.memory()
		s.execs(execs)
		same(s.outside, before, f"what a session holds after {execs} commands")
		same(s.inside, inside, f"what is inside after {execs} commands")
		after = s.memory()
		if execs >= 1000: # fewer leave less than what the allocator keeps now and then
			check(not grew(memory[0], after[0]) and not grew(memory[1], after[1]), "memory grew", memory, after)
		say(f"{execs} commands in one session", before, inside, memory, after)
		s.at_once(concurrent_n)
		s.execs(2 * KEPT)
		same(s.outside, before, f"what a session holds after {concurrent_n} at once")
		last = s.memory()
		say(f"{concurrent_n} commands at once", s.at_rest(), s.inside(), memory, last)
	finally:
		s.down()
	envs.verify(p)


def up_and_down(p, cycles, say):
	"""Sessions that come and go: nothing of one is left on the host or in the state directory."""
	def left():
		state = envs.state(p, "envs", "e")
		return {"mounts": mounts(), "cgroups": sorted({os.path.basename(g) for g in all_cgroups()} & groups), "processes": processes(p.ws.encode()),
			"layers": len(os.listdir(envs.state(p, "layers"))),
			"files": sorted(os.path.relpath(os.path.join(base, n), state) for base, _, names in os.walk(state) for n in names)}

	groups = set() # by their whole names: pids come round again, and others run croft, too
	before = left()
	for i in range(cycles):
		s = Session(p)
		groups |= s.groups()
		if i % 4 == 0:
			s.execs(1)
		s.down()
	same(left, before, f"what {cycles} sessions leave")
	say(f"{cycles} sessions up and down", {k: v if isinstance(v, int) else len(v) for k, v in before.items()})
	envs.verify(p)

