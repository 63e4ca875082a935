#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""10,000 runs in a row and 500 at once: mounts, namespaces, cgroups, processes, descriptors, files as before.

usage: tests/soak/soak.py [--runs N] [--at-once N] [--tier T]

Prints one line per kind of thing; exits 1 when anything is left. Run by `make soak`.
"""
import argparse
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))

from harness import (CROFT, Failed, Place, cgroups, end, files, mounts, namespaces, processes,  # noqa: E402
	settle)


def memory_kb():
	"""What the kernel holds in slabs: grows when namespaces or cgroups are pinned by nobody."""
	with open("/proc/meminfo", encoding="ascii") as f:
		return {line.split(":")[0]: int(line.split()[1]) for line in f}["SUnreclaim"]


SLABS = ("net_namespace", "mnt_cache", "pid_namespace", "user_namespace", "uts_namespace", "fuse_request", "sock_inode_cache")


def kernel_counts():
	"""Counters that show leaked kernel objects, where they can be read: cgroups, and slabs as root."""
	counts = {}
	for file, field, prefix in (("/proc/cgroups", 2, "cgroups of "), ("/proc/slabinfo", 1, "slab ")):
		try:
			with open(file, encoding="ascii") as f:
				for line in f:
					words = line.split()
					if prefix == "cgroups of " and not line.startswith("#") or words[0] in SLABS:
						counts[prefix + words[0]] = int(words[field])
		except OSError:
			pass
	return counts


class Soak:
	def __init__(self, place, tier):
		self.place, self.tier, self.good = place, tier, True
		self.before = {"mounts": mounts(), "cgroups": cgroups(), "namespaces": sorted(namespaces()),
			"descriptors": sorted(os.listdir("/proc/self/fd")), "workspace": files(place.ws)}
		self.counts = kernel_counts()
		self.slab = memory_kb()
		self.runs = 0

	def say(self, good, what, detail=""):
		self.good = self.good and good
		print(f"{'ok' if good else 'not ok'} - {self.tier}: {what}" + (f": {detail}" if detail else ""), flush=True)

	def sequential(self, n):
		p, start, bad = self.place, time.monotonic(), 0
		self.runs += n
		null = subprocess.DEVNULL
		for i in range(n):
			bad += p.start("run", "--direct", "-q", "--tier", self.tier, "--", "true", stdin=null, stdout=null,
				stderr=null).wait() != 0
			if sys.stderr.isatty() and i % 100 == 0:
				print(f"\r{self.tier} {i}/{n}", end="", file=sys.stderr, flush=True)
		took = time.monotonic() - start
		self.say(not bad, f"{n} runs in a row", f"{bad} failed, {n / took:.0f} a second")

	def at_once(self, n):
		p = self.place
		running = [p.start("run", "--direct", "-q", "--tier", self.tier, "--", p.tool(), "hold", stderr=subprocess.DEVNULL)
			for _ in range(n)]
		try:
			ready = sum(c.stdout.readline() == b"ready\n" for c in running)
			for c in running:
				c.stdin.close()
			good = sum(c.wait() == 0 for c in running)
		finally:
			for c in running:
				end(c)
		self.say(ready == n and good == n, f"{n} runs at once", f"{ready} were running together, {good} exited 0")

	def grown(self):
		"""Kinds that grew by more than caches and neighbours explain, given how many runs there were."""
		slack = max(200, self.runs // 20)
		return [f"{k}: {self.counts.get(k, 0)} -> {v}" for k, v in kernel_counts().items()
			if v > self.counts.get(k, 0) + slack]

	def compare(self):
		now = {"mounts": mounts, "cgroups": cgroups, "descriptors": lambda: sorted(os.listdir("/proc/self/fd")),
			"workspace": lambda: files(self.place.ws)}
		for what, look in now.items():
			try:
				settle(look, self.before[what], what)
				self.say(True, f"{what} as before", str(len(self.before[what])))
			except Failed as e:
				self.say(False, f"{what} as before", str(e))
		left = processes(self.place.ws.encode())
		self.say(not left, "no process left", str(left) if left else "")
		try:
			new = namespaces() - set(self.before["namespaces"])
			settle(lambda: sorted(namespaces() & new), [], "namespaces")
			self.say(True, "no namespace left")
		except Failed as e:
			self.say(False, "no namespace left", str(e))
		try:
			settle(self.grown, [], "counts")
			self.say(True, "the kernel's own counts as before", f"{len(self.counts)} kinds")
		except Failed as e:
			self.say(False, "the kernel's own counts as before", str(e))
		print(f"# unreclaimable slab: {self.slab} KiB before, {memory_kb()} KiB after")


def main():
	ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	ap.add_argument("--runs", type=int, default=10000)
	ap.add_argument("--at-once", type=int, default=500)
	ap.add_argument("--tier", action="append", choices=("namespace", "process"))
	options = ap.parse_args()
	if not os.access(CROFT, os.X_OK):
		sys.exit(f"soak: {CROFT} is not there")
	good = True
	for tier in options.tier or ("namespace", "process"):
		place = Place()
		try:
			place.tool()
			r = place.croft("run", "--direct", "-q", "--tier", tier, "--", "true")
			if r.rc:
				print(f"skip - {tier}: does not run here: {r.err.decode('utf-8', 'replace').strip()}")
				good = good and r.rc == 126
				continue
			soak = Soak(place, tier)
			soak.sequential(options.runs)
			soak.at_once(options.at_once)
			soak.compare()
			good = good and soak.good
		finally:
			place.done()
	sys.exit(0 if good else 1)


if __name__ == "__main__":
	main()
