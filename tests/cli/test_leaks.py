#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
"""200 runs in a row and 50 at once leave the machine as it was, apart from the receipts."""
import os
import subprocess
import tempfile

from harness import (DEADLINE_S, QUICK, SANITIZED, TIERS, cgroups, check, end, equal, files, main, mounts, namespaces, processes,
	reclaim, settle, started_by_us, test)

SEQUENTIAL = 20 if QUICK or SANITIZED else 200
CONCURRENT = 10 if QUICK or SANITIZED else 50


class Machine:
	"""Everything countable, before and after."""

	def __init__(self, p):
		self.p = p
		self.mounts = mounts()
		self.namespaces = namespaces()
		self.cgroups = cgroups()
		self.fds = self.descriptors()
		self.tmp = self.temporary()
		self.ws = files(p.ws)
		self.home = self.private()

	def descriptors(self):
		return sorted(os.listdir("/proc/self/fd"))

	def temporary(self):
		"""Scratch of ours in the shared places (the pid is in the name)."""
		places = {"/tmp", "/dev/shm", "/var/tmp", "/run", tempfile.gettempdir()}
		names = [os.path.join(d, n) for d in places if os.path.isdir(d) for n in os.listdir(d)]
		return sorted(n for n in names if started_by_us(os.path.basename(n)))

	def private(self):
		"""HOME apart from the receipt store."""
		return [f for f in files(self.p.home) if "/.local" not in f]

	def same(self):
		settle(mounts, self.mounts, "mounts")
		settle(lambda: [c for c in cgroups() if c not in self.cgroups], [], "cgroups")
		settle(lambda: processes(self.p.ws.encode()), [], "processes")
		new = namespaces() - self.namespaces
		settle(lambda: namespaces() & new, set(), "namespaces")
		equal(self.descriptors(), self.fds, "descriptors")
		settle(self.temporary, self.tmp, "temporary files")
		equal(files(self.p.ws), self.ws, "workspace")
		equal(self.private(), self.home, "HOME")
		for f in files(self.p.home + "/.local"):
			check("/.local/state" in f or f.endswith("/.local"), "only the receipt store grows", f)


@test(tiers=TIERS)
def test_sequential(p, tier):
	p.croft("run", "--direct", "-q", "--tier", tier, "--", "true").exits(0)
	m = Machine(p)
	for i in range(SEQUENTIAL):
		command = ("true",) if i % 4 else ("sh", "-c", "echo x > /tmp/f; cat ~/.ssh/id_ed25519 2>/dev/null; (sleep 100 &); exit 0")
		p.croft("run", "--direct", "-q", "--tier", tier, "--", *command).exits(0)
	m.same()


@test(tiers=TIERS)
def test_concurrent(p, tier):
	p.croft("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "noise", "1").exits(0)
	m = Machine(p)
	running = [p.start("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "hold", stderr=subprocess.DEVNULL)
		for _ in range(CONCURRENT)]
	try:
		for c in running:
			equal(c.stdout.readline(), b"ready\n", "all run at once")
		for c in running:
			c.stdin.close()
		for c in running:
			equal(c.wait(timeout=DEADLINE_S), 0)
	finally:
		for c in running:
			end(c)
	m.same()


@test(tiers=TIERS)
def test_failures_leave_nothing(p, tier):
	p.croft("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "noise", "1").exits(0)
	m = Machine(p)
	for _ in range(5):
		for command in (("absent-5f1d",), (p.tool(), "alloc", "200"), ("sh", "-c", "kill -9 $$"), ("sh", "-c", "kill -9 1; exit 3")):
			p.croft("run", "--direct", "-q", "--tier", tier, "--memory", "50M", "--", *command)
		p.croft("run", "--direct", "-q", "--tier", tier, "--timeout", "50ms", "--", p.tool(), "pause", "stubborn")
		p.croft("run", "--direct", "-q", "--tier", tier, "--policy", "/absent", "--", "true")
	m.same()


@test
def test_discard_leaves_nothing(p):
	from harness import need_tier
	need_tier("namespace")
	p.write("f", "x")
	p.croft("run", "--discard", "-q", "--", "true").exits(0)
	m = Machine(p)
	for _ in range(SEQUENTIAL // 10):
		p.croft("run", "--discard", "-q", "--", "sh", "-c", "rm -rf ./*; head -c 1000000 /dev/zero > big; mkdir -p a/b/c; chmod 0 a").exits(0)
	m.same()


@test
def test_killed_runs_are_reclaimed_by_the_next(p):
	p.croft("run", "--direct", "-q", "--", p.tool(), "noise", "1").exits(0)
	m = Machine(p)
	for i in range(20):
		c = p.start("run", "--discard" if i % 2 else "--direct", "-q", "--", p.tool(), "pause")
		try:
			equal(c.stdout.readline(), b"ready\n")
		finally:
			end(c)  # SIGKILL
	settle(lambda: processes(p.ws.encode()), [], "processes")
	reclaim(p)
	m.same()


@test
def test_receipt_store_is_bounded(p):
	"""Runs without a denial are not kept; of the others at most 128 are."""
	for _ in range(5):
		p.croft("run", "--direct", "-q", "--", "true").exits(0)
	equal([f for f in files(p.home + "/.local") if os.path.isfile(f)], [], "receipts of runs without a denial")
	for _ in range(20 if QUICK or SANITIZED else 140):
		p.croft("run", "--direct", "-q", "--", "sh", "-c", "cat ~/.ssh/id_ed25519").exits(1)
	kept = [f for f in files(p.home + "/.local") if f.endswith(".json")]
	check(1 <= len(kept) <= 128, "receipts kept", len(kept))


@test
def test_control_a_leak_is_seen(p):
	"""The snapshot can fail: something left behind is noticed."""
	m = Machine(p)
	with open(p.ws + "/left", "w", encoding="ascii"):
		pass
	try:
		m.same()
	except AssertionError:
		return
	raise AssertionError("a left file was not noticed")


if __name__ == "__main__":
	main()
