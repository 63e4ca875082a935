#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# once
# timeout: 600
"""
The power goes while croft works: what was not sent to the disk is gone.

Project and state lie on a file system of their own, in an image. A cut is a copy of the image at that moment: what the
kernel still holds back is not in it. The copy is then mounted in the place of the first, as after a start of the machine.
The control: what a command wrote is lost when the power goes before its record is sealed, and there when it goes after.
"""
import os
import shutil
import subprocess

from envs import (EXEC_STEPS, LAND_STEPS, LONG, WORK, changed, events, git, leftovers, look, names, new, repository, staged_tree,
	verify, work)
from harness import Skip, check, contains, equal, main, test, text

SIZE = 256 << 20


def call(*argv):
	r = subprocess.run(argv, capture_output=True, check=False)
	if r.returncode:
		raise Skip(f"{argv[0]}: {text(r.stderr).strip()[-200:]}")


class Disk:
	"""A file system whose power can be cut. Everything of p moves to it."""

	def __init__(self, p, kind="ext4"):
		if os.getuid() != 0:
			raise Skip("mounting an image needs root")
		if not shutil.which(f"mkfs.{kind}"):
			raise Skip(f"no mkfs.{kind} here")
		self.p, self.images, self.n = p, os.path.join(p.root, "images"), 0
		self.top = os.path.join(p.root, "disk")
		os.makedirs(self.images)
		os.makedirs(self.top)
		self.image = os.path.join(self.images, "0")
		with open(self.image, "wb") as f:
			f.truncate(SIZE)
		call(f"mkfs.{kind}", "-q", self.image)
		self.mount()
		p.ws, p.home = os.path.join(self.top, "ws"), os.path.join(self.top, "home")
		os.makedirs(p.ws)
		os.makedirs(p.home)
		p.env["HOME"] = p.home

	def __enter__(self):
		return self

	def __exit__(self, *_):
		subprocess.run(["umount", "-l", self.top], capture_output=True, check=False)
		shutil.rmtree(self.images, ignore_errors=True)

	def mount(self):
		call("mount", "-o", "loop,noatime", self.image, self.top)

	def replace(self, image):
		"""Another image in this one's place."""
		self.n += 1
		fresh = os.path.join(self.images, str(self.n))
		subprocess.run(["cp", "--sparse=always", image, fresh], check=True)
		subprocess.run(["umount", "-l", self.top], check=True)
		if self.image != image:
			os.unlink(self.image)
		self.image = fresh
		self.mount()

	def cut(self):
		self.replace(self.image)

	def save(self):
		"""What is there now, safely; the name of its image."""
		subprocess.run(["umount", self.top], check=True)
		kept = self.image + ".kept"
		subprocess.run(["cp", "--sparse=always", self.image, kept], check=True)
		self.mount()
		return kept


def good(p, *envs):
	for name in envs:
		check(staged_tree(p, name), "what is staged cannot be told")
		verify(p, name)
	git(p, "fsck", "--strict")
	equal(leftovers(p), [], "left in the Git directory")


def inside(p, script, env="e"):
	return text(p.croft("exec", "-q", env, "--", "sh", "-c", script).exits(0).out)


@test
def test_the_cut_takes_what_was_not_sent(p):
	with Disk(p) as d:
		p.write("sent", "x")
		fd = os.open(os.path.join(p.ws, "sent"), os.O_WRONLY)
		os.fsync(fd)
		os.close(fd)
		p.write("held", "x")
		d.cut()
		check(p.read("sent") == b"x" and (not p.exists("held") or p.read("held") == b""), "this is no power cut")


@test
def test_what_is_recorded_is_on_the_disk(p):
	"""A command that has ended, and the power goes at once: its event, its output and its work are there."""
	with Disk(p) as d:
		repository(p)
		new(p)
		inside(p, "true")
		for i in range(6):
			inside(p, f"echo {i} >> log; head -c 70000 /dev/zero > zeros{i}; git add log; git commit -qm c{i}; echo said {i}")
			d.cut()
			equal(inside(p, "cat log; git log --format=%s -1 2>&1; stat -c %s zeros*").split(),
				[str(k) for k in range(i + 1)] + [f"c{i}"] + ["70000"] * (i + 1), f"after cut {i}")
			equal(events(p), ["created", "exec"] + ["exec", "exec"] * (i + 1), f"after cut {i}")
			good(p, "e")
			d.cut()


@test
def test_exec_at_every_step(p):
	with Disk(p) as d:
		repository(p)
		new(p)
		inside(p, "echo kept > kept")
		kept = d.save()
		lost = []
		for step in EXEC_STEPS:
			d.replace(kept)
			p.croft("exec", "-q", "e", "--", "sh", "-c", "echo more > more; echo said",
				env={"CROFT_CRASH_AT": step}).exits(137)
			d.cut()
			got = inside(p, "cat kept; cat more 2>/dev/null; true").split()
			check(got[:1] == ["kept"] and got[1:] in ([], ["more"]), f"{step}: {got}")
			now = events(p)
			check(now in (["created", "exec", "exec"], ["created", "exec", "exec", "exec"],
				["created", "exec", "interrupted", "exec"]), f"{step}: {now}")
			if step == "record.event":
				equal((got, now[2:]), (["kept", "more"], ["exec", "exec"]), "recorded, and gone")
			lost += [step] if got[1:] == [] else []
			good(p, "e")
		check("exec.begun" in lost and "exec.ended" in lost, "nothing is ever lost: this is no power cut", lost)


@test
def test_landing_at_every_step(p):
	with Disk(p) as d:
		repository(p)
		new(p)
		work(p, WORK)
		subprocess.run(["sync", "-f", p.ws], check=True)
		kept = d.save()
		for how in (("apply", "e"), ("apply", "e", "--squash")):
			d.replace(kept)
			before, staged = look(p), staged_tree(p)
			p.croft(*how).exits(0)
			d.cut()
			after = look(p)
			check(after != before, f"{how}: landed and recorded, and gone")
			contains(events(p), "applied", f"{how}: after the end")
			good(p, "e")
			for step in LAND_STEPS if LONG else LAND_STEPS[2:9:2]:
				d.replace(kept)
				r = p.croft(*how, env={"CROFT_CRASH_AT": step})
				if r.rc == 0:
					continue
				d.cut()
				p.croft("exec", "-q", "e", "--", "true").exits(0)
				got = look(p)
				check(got in (before, after), f"{how} {step}: neither before nor after", got, before, after)
				equal(staged_tree(p), staged, f"{how} {step}: staged work")
				good(p, "e")


@test
def test_other_commands(p):
	"""Ended, and the power goes: what they said holds."""
	with Disk(p) as d:
		repository(p)
		new(p)
		inside(p, "echo one > one")
		for args, holds in (
				(("snapshot", "e", "s"), lambda: p.croft("restore", "e", "s").exits(0)),
				(("fork", "e", "f"), lambda: equal(changed(p, "f"), ["one"], "the fork")),
				(("review", "e", "--accept-all"), lambda: contains(events(p), "reviewed")),
				(("new", "g"), lambda: contains(names(p), "g")),
				(("apply", "e"), lambda: equal(p.read("one"), b"one\n", "landed")),
				(("revert", "e"), lambda: check(not p.exists("one"), "taken back")),
				(("discard", "f"), lambda: p.croft("discard", "--undo", "f").exits(0)),
				(("rm", "--force", "g"), lambda: check("g" not in names(p), "removed"))):
			p.croft(*args).exits(0)
			d.cut()
			holds()
			good(p, "e")
			subprocess.run(["sync", "-f", p.ws], check=True)


@test
def test_runs_and_dirty_starts(p):
	with Disk(p) as d:
		repository(p)
		subprocess.run(["sync", "-f", p.ws], check=True)
		p.croft("run", "-q", "--", "sh", "-c", "echo staged > staged; exit 3").exits(3)
		d.cut()
		made = names(p)
		equal((len(made), changed(p, made[0])), (1, ["staged"]), "a staged run")
		good(p, made[0])
		p.write("numbers", "mine\n")
		p.write("untracked", "mine, too\n")
		p.croft("new", "dirty", "--dirty").exits(0)
		d.cut()
		equal(inside(p, "cat numbers untracked", "dirty"), "mine\nmine, too\n", "a dirty start")
		good(p, made[0], "dirty")
		p.croft("gc").exits(0)
		d.cut()
		good(p, made[0], "dirty")
		p.croft("apply", made[0]).exits(0)
		equal(p.read("staged"), b"staged\n", "landed")


if __name__ == "__main__":
	main()
