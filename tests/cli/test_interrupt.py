#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, and other wishes to end: what was begun is finished or taken away, and the status says so."""
import json
import os
import select
import signal

from envs import events, git, leftovers, names, new, repository, staged_tree, state, status, tree_now, verify, work
from harness import DEADLINE_S, Failed, alive, check, contains, end, equal, lacks, main, need, processes, test, text, wait_for
from terminal import Terminal

OF_CHECKOUT = '[ "${GIT_INDEX_FILE#*/project/.git/}" != "$GIT_INDEX_FILE" ]'  # the index that a landing writes
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Paused:
	"""A git that waits where one of its arguments is this word (and also holds), until it is told to go on."""

	def __init__(self, p, word, also="true"):
		self.bin = os.path.join(p.root, "bin")
		fifos = [os.path.join(p.root, n) for n in ("here", "go")]
		self.fifos = fifos
		for f in fifos:
			os.mkfifo(f)
		self.here, self.gate = (os.open(f, os.O_RDWR | os.O_CLOEXEC) for f in fifos)
		p.write(os.path.join(self.bin, "git"), "#!/bin/sh\n"
			f"for a; do if [ \"$a\" = {word} ] && {also}; then echo $$ > '{fifos[0]}'; read -r x < '{fifos[1]}'; break; fi; done\n"
			f"exec {need('git')} \"$@\"\n", 0o755)
		self.env = {"PATH": self.bin + ":" + p.env["PATH"]}

	def wait(self):
		"""Until git is there; its process."""
		if not select.select([self.here], [], [], DEADLINE_S)[0]:
			raise Failed("git never came to this place")
		return int(os.read(self.here, 64).split()[0])

	def go(self):
		os.write(self.gate, b"\n")

	def close(self):
		for f in (self.here, self.gate):
			os.close(f)
		for f in self.fifos:
			os.unlink(f)


def asked(pid):
	"""Has an ending signal come to the process, or ended it?"""
	if not alive(pid):
		return True
	with open(f"/proc/{pid}/status", encoding="utf-8") as f:
		masks = [int(line.split()[1], 16) for line in f if line.startswith(("SigPnd", "ShdPnd"))]
	return any(m >> (s - 1) & 1 for m in masks for s in ENDING)


def interrupted(p, paused, *args, sig=None, go=True):
	"""Start croft, interrupt it while its git waits, let git go on (or not). Its end and what the terminal showed."""
	t = Terminal()
	try:
		c = t.start(p.argv(*args), p.ws, {**p.env, **paused.env})
		child = paused.wait()
		if sig:
			c.send_signal(sig)
		else:
			t.send(b"\x03")
		wait_for(lambda: asked(c.pid) or c.poll() is not None, "the signal arrives")
		if go:
			paused.go()
		return t.finish(), t.log, child
	finally:
		t.close()


def look(p):
	return tree_now(p), git(p, "status", "--porcelain"), git(p, "write-tree"), git(p, "rev-parse", "HEAD^{tree}")


def whole(p, paused, args):
	"""Interrupt a landing in its middle by each signal: it ends by the signal, with everything done."""
	for sig in (None, *ENDING):
		recorded = events(p)
		rc, log, _ = interrupted(p, paused, *args, sig=sig)
		equal(rc, -(sig or signal.SIGINT), f"{args}, {sig}: how it ended; {log!r}")
		equal(leftovers(p), [], f"{args}, {sig}: left in the Git directory")
		check(not os.path.exists(state(p, "envs/e/landing/intent.json")), f"{args}, {sig}: not at its end")
		equal(events(p), [*recorded, "reverted" if args[0] == "revert" else "applied"], f"{args}, {sig}: recorded")
		contains(log, b"too late to stop", f"{args}, {sig}")
		yield look(p)


# ---- landing ----

@test
def test_apply_and_revert_are_whole(p):
	repository(p)
	new(p)
	work(p, "echo one > one; mkdir d; echo two > d/two; rm gone; sed -i s/7/seven/ numbers; git add -A; git commit -qm x")
	before, staged = look(p), staged_tree(p)
	p.croft("apply", "e", "--squash").exits(0)
	squashed = git(p, "rev-parse", "HEAD^{tree}")
	equal(squashed, staged, "control: undisturbed")
	git(p, "reset", "-q", "--hard", "HEAD~1")
	paused = Paused(p, "update-index", OF_CHECKOUT)
	for got in whole(p, paused, ("apply", "e", "--squash")):
		equal(got, (staged, "", staged, staged), "the landing")
		git(p, "reset", "-q", "--hard", "HEAD~1")
		equal(look(p), before, "back")
	p.croft("apply", "e", "--squash").exits(0)
	for got in whole(p, paused, ("revert", "e")):
		equal(got, before, "the reversal")
		p.croft("apply", "e", "--squash").exits(0)
	verify(p)


@test
def test_interrupted_before_anything_is_touched(p):
	"""While it is only planned, Ctrl-C ends it at once, and nothing is done then or later."""
	repository(p)
	new(p)
	work(p, "echo one > one")
	before = look(p)
	rc, log, _ = interrupted(p, Paused(p, "patch-id"), "apply", "e")
	equal(rc, -signal.SIGINT, f"how it ended; {log!r}")
	equal((look(p), leftovers(p)), (before, []), "the checkout")
	work(p, "true")
	equal((look(p), events(p).count("applied")), (before, 0), "later")


@test
def test_interrupted_while_contents_are_made_ready(p):
	"""Before the first file is touched there is a directory of contents: it goes, too."""
	repository(p)
	new(p)
	work(p, "mkdir many; for i in $(seq 3000); do echo $i > many/$i; done")
	before = look(p)
	c = p.start("apply", "e")
	try:
		wait_for(lambda: leftovers(p) or c.poll() is not None, "it begins")
		c.send_signal(signal.SIGINT)
		equal(c.wait(DEADLINE_S), -signal.SIGINT, "how it ended")
	finally:
		end(c)
	equal(leftovers(p), [], "left in the Git directory")
	check(look(p) == before or len(os.listdir(os.path.join(p.ws, "many"))) == 3000, "half of it", look(p))


@test
def test_interrupted_landing_is_not_done_behind_the_users_back(p):
	repository(p)
	new(p)
	work(p, "echo one > one; echo 41 >> numbers; git add -A; git commit -qm x")
	before, start = look(p), git(p, "rev-parse", "HEAD")
	interrupted(p, Paused(p, "update-index", OF_CHECKOUT), "apply", "e", "--squash")
	for left in leftovers(p):
		if left.endswith(".lock"):
			os.unlink(os.path.join(p.ws, ".git", left))  # as a user would who wants to go on
	git(p, "reset", "-q", "--hard", start)
	git(p, "clean", "-qfd")
	equal(look(p), before, "taken away by hand")
	work(p, "true")
	new(p, "f")
	work(p, "echo f > f", "f")
	p.croft("apply", "f").exits(0)
	os.unlink(os.path.join(p.ws, "f"))
	equal(look(p), before, "the checkout after other commands")


@test
def test_crashed_landing_is_told(p):
	"""After a real crash those who look are told, and what they are told to do does it."""
	repository(p)
	new(p)
	work(p, "echo one > one; echo 41 >> numbers")
	lacks(text(p.croft("status", "e").exits(0).out), "interrupted", "control")
	lacks(text(p.croft("ls").exits(0).out), "interrupted", "control")
	p.croft("apply", "e", env={"CROFT_CRASH_AT": "land.file"}).exits(137)
	for command in (("status", "e"), ("ls",)):
		contains(text(p.croft(*command).exits(0).out), "a landing was interrupted; croft apply e completes it", command[0])
	equal(status(p)["landing_interrupted"], True, "status --json")
	listed = json.loads(p.croft("ls", "--json").exits(0).out)["environments"]
	equal([e["landing_interrupted"] for e in listed], [True], "ls --json")
	p.croft("apply", "e").exits(0)
	equal((p.read("one"), status(p)["landing_interrupted"], names(p)), (b"one\n", False, ["e"]), "completed")
	lacks(text(p.croft("status", "e").exits(0).out), "interrupted")


# ---- replay ----

@test
def test_replay_stops(p):
	"""Ctrl-C is no result of the command that ran: no verdict, nothing left, the end of the signal."""
	repository(p)
	gate = p.write(os.path.join(p.root, "gate/gate"), "")
	new(p, "e", "--read", os.path.dirname(gate))
	for script in ("echo a > a", f"echo here >&2; cat {gate}", "echo b > b"):
		work(p, script)
	contains(text(p.croft("replay", "e").exits(0).out), "holds", "control")
	os.unlink(gate)
	os.mkfifo(gate)  # now it waits
	for sig in (None, signal.SIGTERM):
		t = Terminal()
		try:
			c = t.start(p.argv("replay", "-v", "e"), p.ws, p.env)
			t.expect(b"here")
			if sig:
				c.send_signal(sig)
			else:
				t.send(b"\x03")
			equal(t.finish(), -(sig or signal.SIGINT), f"how it ended; {t.log!r}")
			for word in (b"holds", b"differs", b"claim"):
				lacks(t.log, word, "the terminal")
		finally:
			t.close()
		equal(names(p), ["e"], "environments")
		wait_for(lambda: not processes(os.fsencode(gate)), "nothing left running")


@test
def test_replay_stops_a_command_that_does_not(p):
	"""A command that ignores the signal, or a shell that loses it between two commands, is not what decides."""
	repository(p)
	gate = p.write(os.path.join(p.root, "gate/gate"), "")
	new(p, "e", "--read", os.path.dirname(gate))
	work(p, f"trap '' INT TERM; echo here >&2; cat {gate}")
	os.unlink(gate)
	os.mkfifo(gate)
	for sig in (None, signal.SIGTERM):
		t = Terminal()
		try:
			c = t.start(p.argv("replay", "-v", "e"), p.ws, p.env)
			t.expect(b"here")
			if sig:
				c.send_signal(sig)
			else:
				t.send(b"\x03")
			equal(t.finish(), -(sig or signal.SIGINT), f"how it ended; {t.log!r}")
		finally:
			t.close()
		equal(names(p), ["e"], "environments")
		wait_for(lambda: not processes(os.fsencode(gate)), "nothing left running")


# ---- new ----

def half_made(p):
	"""What a maker of environments and bases has in hand."""
	return sorted(n for d in ("envs", "bases") if os.path.isdir(state(p, d)) for n in os.listdir(state(p, d)) if n.startswith(".new"))


def layers(p):
	return os.listdir(state(p, "layers")) if os.path.isdir(state(p, "layers")) else []


@test
def test_new_leaves_nothing(p):
	repository(p)
	paused = Paused(p, "ls-files")
	for sig in (None, *ENDING[1:]):
		rc, log, child = interrupted(p, paused, "new", "e", sig=sig, go=False)
		equal(rc, -(sig or signal.SIGINT), f"how it ended; {log!r}")
		wait_for(lambda: not alive(child), "git ends with it")
		equal((half_made(p), layers(p), names(p)), ([], [], []), f"{sig}: left")
		equal(git(p, "for-each-ref", "refs/croft"), "", f"{sig}: refs")
	new(p)
	equal(names(p), ["e"], "and then it works")


@test
def test_what_a_killed_new_left_is_swept(p):
	repository(p)
	for command in (("new", "-q", "other"), ("gc",)):
		paused = Paused(p, "ls-files")
		c = p.start("new", "e", env=paused.env)
		try:
			child = paused.wait()
			check(half_made(p), "something is in the making")
			new(p, "beside")
			p.croft("rm", "beside").exits(0)
			check(len(half_made(p)) == 2, "what somebody holds stays", half_made(p))
			c.kill()
			c.wait()
			os.kill(child, signal.SIGKILL)
			wait_for(lambda: not alive(child), "git is gone")
		finally:
			end(c)
		equal(len(half_made(p)), 2, "control: left by the crash")
		p.croft(*command).exits(0)
		equal(half_made(p), [], f"{command[0]}: left")
		paused.close()
		p.write("more", command[0])  # another tree has another base
		git(p, "add", "more")
		git(p, "commit", "-q", "-m", "another tree")


@test
def test_gc_says_what_it_will_do(p):
	repository(p)
	for name in ("landed", "kept"):
		new(p, name)
		work(p, f"echo {name} > {name}", name)
		p.write(name + ".txt", name)
		git(p, "add", "-A")
		git(p, "commit", "-q", "-m", name)
	p.croft("apply", "landed").exits(0)
	said = json.loads(p.croft("gc", "-n", "--json").exits(0).out)
	done = json.loads(p.croft("gc", "--json").exits(0).out)
	equal({**said, "dry_run": False}, done, "said and done")
	equal((done["bases"], done["environments"]), (1, ["landed"]), "control: there was something to do")


# ---- export ----

@test
def test_export_leaves_nothing(p):
	repository(p)
	new(p)
	work(p, "echo a > a")
	target = os.path.join(p.root, "bundles")
	os.mkdir(target)
	paused = Paused(p, "bundle")
	for sig in (None, *ENDING[1:]):
		rc, log, child = interrupted(p, paused, "evidence", "export", "e", os.path.join(target, "b"), sig=sig, go=False)
		equal(rc, -(sig or signal.SIGINT), f"how it ended; {log!r}")
		wait_for(lambda: not alive(child), "git ends with it")
		equal(os.listdir(target), [], f"{sig}: left beside the target")
	p.croft("evidence", "export", "e", os.path.join(target, "b")).exits(0)
	equal(os.listdir(target), ["b"], "control")


if __name__ == "__main__":
	main()
