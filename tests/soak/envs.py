#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environments for a long time: work, snapshots, forks, landings, crashes and gc at random; nothing lost, nothing left.

usage: tests/soak/envs.py [--rounds N] [--at-once N] [--seed N]

Every round picks an environment and does something to it; a share of the commands is killed at a random moment. A model
kept here says what each environment must hold; at the end everything is compared, landed, verified and removed.
Prints one line per kind of thing; exits 1 when anything is wrong. Run by `make soak`.
"""
import argparse
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))

import envs  # noqa: E402
from harness import CROFT, Failed, Place, Skip, cgroups, check, end, equal, mounts, processes, reclaim, settle, text  # noqa: E402


class Soak:
	"""The model: name -> {path: content} that is staged there; label -> the same for snapshots."""

	def __init__(self, place, seed):
		self.p, self.r = place, random.Random(seed)
		self.staged, self.kept, self.n, self.kills, self.done = {}, {}, 0, 0, {}

	def name(self):
		self.n += 1
		return f"s{self.n}"

	def croft(self, *args):
		"""Run a command, or, now and then, kill it somewhere on its way. True: it ran to its end."""
		self.done[args[0]] = self.done.get(args[0], 0) + 1
		if self.r.randrange(8):
			self.p.croft(*args).exits(0)
			return True
		self.kills += 1
		s = self.p.start(*args)
		try:
			s.wait(self.r.random() * 0.15)
		except subprocess.TimeoutExpired:
			s.kill()
		s.wait()
		good = s.returncode == 0
		end(s)
		return good

	def holds(self, name):
		"""What is staged, read from inside."""
		out = self.p.croft("exec", "-q", "--read-only", name, "--", "sh", "-c",
			"for f in w*; do [ -f $f ] && echo $f=$(cat $f); done; true").exits(0).out
		return dict(line.split("=", 1) for line in text(out).split())

	def either(self, name, before, after, finished):
		"""A killed command leaves before or after, and the model follows."""
		now = self.holds(name)
		check(now == after or (not finished and now == before), f"{name}: neither before nor after", now, before, after)
		self.staged[name] = now

	# ---- what can be done ----

	def make(self):
		name = self.name()
		finished = self.croft("new", "-q", name)
		if name in envs.names(self.p):
			self.staged[name], self.kept[name] = {}, {}
			self.either(name, {}, {}, finished)
		else:
			check(not finished, f"{name} was made and is not there")

	def write(self, name):
		before = self.staged[name]
		path, value = f"w{self.r.randrange(6)}", str(self.r.randrange(1000))
		gone = self.r.randrange(4) == 0
		after = {k: v for k, v in before.items() if k != path} if gone else {**before, path: value}
		script = f"rm -f {path}" if gone else f"echo {value} > t && mv t {path}"
		finished = self.croft("exec", "-q", name, "--", "sh", "-c", script)
		if not finished:
			self.p.croft("exec", "-q", name, "--", "rm", "-f", "t").exits(0)
		self.either(name, before, after, finished)

	def snapshot(self, name):
		label = self.name()
		if len(self.kept[name]) < 20:
			self.croft("snapshot", name, label)
			if label in [s if isinstance(s, str) else s["label"] for s in envs.status(self.p, name)["snapshots"]]:
				self.kept[name][label] = dict(self.staged[name])

	def restore(self, name):
		if self.kept[name]:
			label = self.r.choice(sorted(self.kept[name]))
			self.either(name, self.staged[name], self.kept[name][label], self.croft("restore", name, label))

	def fork(self, name):
		other = self.name()
		finished = self.croft("fork", name, other)
		if other in envs.names(self.p):
			self.kept[other] = {}
			self.either(other, self.staged[name], self.staged[name], True)
		else:
			check(not finished, f"{other} was made and is not there")

	def discard(self, name):
		if self.staged[name]:
			self.either(name, self.staged[name], {}, self.croft("discard", name))

	def remove(self, name):
		finished = self.croft("rm", "--force", name)
		if name not in envs.names(self.p):
			del self.staged[name], self.kept[name]
		else:
			check(not finished, f"{name} is still there")

	def land(self, name):
		"""Apply and take back: the checkout is whole after either."""
		if not self.staged[name]:
			return
		finished = self.croft("apply", name)
		self.p.croft("exec", "-q", name, "--", "true").exits(0)
		landed = {f: text(self.p.read(f)).strip() for f in os.listdir(self.p.ws) if f.startswith("w")}
		check(landed == self.staged[name] or (not finished and landed == {}), f"{name}: half of it landed", landed, self.staged[name])
		if landed:
			self.p.croft("revert", name).exits(0)
		envs.clean(self.p)

	def round(self):
		name = self.r.choice(sorted(self.staged)) if self.staged else None
		if name is None or (len(self.staged) < 12 and self.r.randrange(10) == 0):
			self.make()
			return
		can = [self.write] * 8 + [self.snapshot, self.restore, self.land, self.land, self.discard]
		can += [self.fork] if len(self.staged) < 12 else [self.remove]
		self.r.choice(can)(name)
		if self.r.randrange(40) == 0:
			self.croft("gc")

	def finish(self):
		for name in sorted(self.staged):
			equal(self.holds(name), self.staged[name], name)
			envs.verify(self.p, name)
		envs.clean(self.p)
		self.p.croft("evidence", "verify").exits(0)
		envs.git(self.p, "fsck", "--strict")
		for name in sorted(self.staged):
			self.p.croft("rm", "--force", name).exits(0)
		equal(envs.names(self.p), [], "environments")
		equal(envs.leftovers(self.p), [], "left in the Git directory")


def say(good, what, detail=""):
	print(f"{'ok' if good else 'not ok'} - environments: {what}" + (f": {detail}" if detail else ""), flush=True)
	return good


def at_once(p, n):
	"""n environments made, used and landed at the same time."""
	for verb in (lambda i: ("new", "-q", f"p{i}"), lambda i: ("exec", "-q", f"p{i}", "--", "sh", "-c", f"echo {i} > p{i}"),
		lambda i: ("apply", f"p{i}", "--squash")):
		started = [p.start(*verb(i), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for i in range(n)]
		for s in started:
			_, err = s.communicate(timeout=1800)
			check(s.returncode == 0, f"{verb(0)}: exit {s.returncode}", text(err))
	equal(len(envs.git(p, "log", "--format=%h").split("\n")), n + 1, "commits")
	equal(sorted(f for f in os.listdir(p.ws) if f[0] == "p"), sorted(f"p{i}" for i in range(n)), "files")
	envs.clean(p)


def main():
	ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	ap.add_argument("--rounds", type=int, default=2000)
	ap.add_argument("--at-once", type=int, default=200)
	ap.add_argument("--seed", type=int, default=random.randrange(1 << 30))
	options = ap.parse_args()
	if not os.access(CROFT, os.X_OK):
		sys.exit(f"soak: {CROFT} is not there")
	place, good = Place(), True
	before = mounts()
	try:
		envs.repository(place)
		soak, start = Soak(place, options.seed), time.monotonic()
		i = 0
		try:
			for i in range(options.rounds):
				soak.round()
			soak.finish()
			say(True, f"{options.rounds} rounds", f"{soak.kills} killed, {soak.done}, {time.monotonic() - start:.0f} s")
		except Failed as e:
			good = say(False, f"round {i}, --seed {options.seed}", str(e))
		if good:
			at_once(place, options.at_once)
			say(True, f"{options.at_once} at once")
			reclaim(place)
			settle(mounts, before, "mounts")
			settle(cgroups, [], "cgroups")
			left = processes(place.ws.encode())
			good = say(not left, "no mount, cgroup or process left", str(left) if left else "")
	except Failed as e:
		good = say(False, "at once, or left behind", str(e))
	except Skip as e:
		print(f"skip - environments: {e}")
	finally:
		place.done()
	sys.exit(0 if good else 1)


if __name__ == "__main__":
	main()
