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
import json
import os
import shutil
import signal
import subprocess

from envs import (EXEC_STEPS, LAND_STEPS, LONG, WORK, changed, events, git, in_journal, leftovers, look, names, new, repository,
	staged_tree, verify, work)
from harness import Skip, check, contains, equal, lacks, main, test, text, wait_for
from live import Caller, ended, family, up

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


# The machine here was not started anew, so croft must not be able to see that it is the same one.
ANEW = {"CROFT_FORCE_FAIL": "boot-id"}


def cut_session(p, d):
	"""Nothing of the session lives on; what it had answered may be in the kernel alone."""
	f = family(p)
	os.kill(f.session, signal.SIGKILL)
	f.gone()
	f.close()
	d.cut()


def commands(p, tag):
	"""Three commands that were answered; what their records say."""
	found = set()
	for i in range(3):
		command = ("sh", "-c", f"echo {tag}{i} >> log; exit {i}")
		p.croft("exec", "-q", "e", "--", *command).exits(i)
		found.add((command, i))
	return found


def interrupted(p, what):
	"""Never "good": nobody can know what is missing. And nothing is bad."""
	r = p.croft("evidence", "verify", "e").exits(1)
	contains(text(r.out), "INTERRUPTED: e", what)
	lacks(text(r.out), "BAD", what)
	lacks(text(r.out), "good: ", what)
	equal(json.loads(p.croft("evidence", "verify", "--json", "e").exits(1).out)["good"], False, what)
	git(p, "fsck", "--strict")
	equal(leftovers(p), [], f"{what}: left in the Git directory")


def goes_on_after_the_cut(p, what, answered, sure):
	"""What must hold of an environment whose session the power took; what is lost of `answered`."""
	interrupted(p, what)
	check(sure <= ended(p), f"{what}: what was sealed is gone", sure - ended(p))
	p.croft("exec", "-q", "e", "--", "true", env=ANEW).exits(0)
	interrupted(p, f"{what}, and it was recovered")
	now = ended(p)
	check(sure <= now and now - {(("true",), 0)} <= answered, f"{what}: other records than commands", now, answered)
	equal(in_journal(p), [], f"{what}: the journal")
	up(p)
	more = commands(p, "again")
	p.croft("down", "-q", "e").exits(0)
	check(more <= ended(p), f"{what}: a session afterwards")
	interrupted(p, f"{what}, and a session came afterwards")
	return answered - now


@test
def test_a_session_loses_its_tail_at_most(p):
	with Disk(p) as d:
		repository(p)
		new(p)
		inside(p, "true")
		kept, lost = d.save(), set()
		for how in ("at once", "sealed", "half of it sent", "sent"):
			d.replace(kept)
			up(p)
			borrower = Caller(p)
			if how == "at once":
				borrower.settle() # while it is lent out, nothing is sealed: else a slow machine would do that first
			answered = commands(p, "one")
			sure = set()
			if how != "at once":
				wait_for(lambda: answered <= ended(p), "they are sealed")
				sure = set(answered)
			if how in ("half of it sent", "sent"):
				subprocess.run(["sync", "-f", p.home], check=True)
			if how == "half of it sent":
				answered |= commands(p, "two")
			cut_session(p, d)
			borrower.close()
			lost |= goes_on_after_the_cut(p, how, answered, sure)
		check(lost, "nothing is ever lost: this is no power cut")
		# The control: killed, and the power stays.
		d.replace(kept)
		up(p)
		answered = commands(p, "one")
		f = family(p)
		os.kill(f.session, signal.SIGKILL)
		f.gone()
		f.close()
		p.croft("exec", "-q", "e", "--", "true").exits(0)
		check(answered <= ended(p), "killed, and something is lost", answered - ended(p))
		good(p, "e")
		# And one that has ended in order, whatever the power does then.
		up(p)
		answered |= commands(p, "two")
		p.croft("down", "-q", "e").exits(0)
		d.cut()
		p.croft("exec", "-q", "e", "--", "true", env=ANEW).exits(0)
		check(answered <= ended(p), "it was down, and something is lost", answered - ended(p))
		good(p, "e")


def recorded(p):
	"""What ended in a session, and what was run without one."""
	alone = json.loads(p.croft("log", "--json", "e").exits(0).out)["events"]
	return ended(p) | {(("sh", "-c", f"exit {x['exit']}"), x["exit"]) for x in alone if x["title"].startswith("exec sh:")}


def honest(p, what, answered):
	"""Good is said only if nothing is missing that was answered."""
	r = p.croft("evidence", "verify", "e")
	if r.rc:
		interrupted(p, what)
	else:
		check(answered <= recorded(p), f"{what}: good, and a record is missing", answered - recorded(p))
		good(p, "e")
	return r.rc == 0


@test
def test_a_session_at_every_step(p):
	"""The second command meets it. One that had not begun is run without the session, and that finishes its record."""
	with Disk(p) as d:
		repository(p)
		new(p)
		inside(p, "true")
		kept, seen = d.save(), set()
		for step in ("session.started:2", "session.ended:2", "session.seal:2", "session.event:2", "session.sealed:2"):
			d.replace(kept)
			up(p, env={"CROFT_CRASH_AT": step})
			f, want = family(p), {(("sh", "-c", f"exit {i}"), i) for i in range(2)}
			answered = {x for x in sorted(want, key=lambda x: x[1]) if p.croft("exec", "-q", "e", "--", *x[0]).rc == x[1]}
			f.gone()
			f.close()
			d.cut()
			seen.add(honest(p, step, answered))
			p.croft("exec", "-q", "e", "--", "true", env=ANEW).exits(0)
			honest(p, f"{step}, recovered", answered)
			check(ended(p) <= want, f"{step}: other records than commands", ended(p))
			equal(in_journal(p), [], f"{step}: the journal")
		equal(seen, {True, False}, "verdicts")


if __name__ == "__main__":
	main()
