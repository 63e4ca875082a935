#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# once
# timeout: 900
"""Crashes at every step of exec, recording, apply, revert, gc and the rest: afterwards it is as before or as after,
the evidence is good, and staged work is all there.

Two ways: croft ends itself at a named step (CROFT_CRASH_AT), and it is killed just before its nth system call that
changes a file system, whichever that is. The second needs no knowledge of the code and visits what nobody thought of;
by default a random sample of the calls, with CROFT_TEST_LONG every one.
"""
import os
import random
import re
import signal

from envs import (EXEC_STEPS, LAND_STEPS, LONG, SESSION_STEPS, WORK, Saved, changed, clean, events, git, in_journal, killed_at, leftovers, look, names, new,
	record, repository, staged_tree, state, tree_inside, tree_now, verify, work)
from harness import TOP, alive, check, contains, end, equal, main, processes, test, text, wait_for

SAMPLE = 2
BEFORE_INTENT = ("land.planned", "land.staged")


def crash(p, step, *args):
	p.croft(*args, env={"CROFT_CRASH_AT": step}).exits(137)


def settled(p, *envs):
	"""What must hold in any place, at any time: every environment opens, its evidence is good, nothing is left."""
	for name in envs:
		check(staged_tree(p, name), "what is staged cannot be told")
		verify(p, name)
	git(p, "fsck", "--strict")
	equal(leftovers(p), [], "left in the Git directory")


@test
def test_the_steps_are_all_known(p):
	"""A step that is added to the program has to be added here."""
	source = os.path.join(TOP, "src")
	if not os.path.isdir(source):
		return
	found = set()
	for top, _, files in os.walk(source):
		for f in files:
			with open(os.path.join(top, f), encoding="utf-8", errors="replace") as fh:
				found |= set(re.findall(r"(?:forced_crash|land_step)\(\"([a-z.]+)\"", fh.read()))
	known = {s.partition(":")[0] for s in EXEC_STEPS + LAND_STEPS + SESSION_STEPS}
	equal(sorted(found - known), [], "steps without a test")
	equal(sorted(known - found), [], "steps that are gone")


# ---- exec and its record ----

@test
def test_a_torn_start_does_not_undo_what_was_sealed(p):
	repository(p)
	new(p)
	crash(p, "record.sealed", "exec", "-q", "e", "--", "sh", "-c", "echo b > b")
	run = next(n for n in os.listdir(state(p, "envs/e/journal")) if n != "spare")
	with open(state(p, "envs/e/journal", run, "started.json"), "w", encoding="ascii"):
		pass
	p.croft("exec", "-q", "e", "--", "true").exits(0)
	equal(events(p), ["created", "exec", "exec"], "events")
	verify(p)


@test
def test_an_event_of_another_run_is_not_taken(p):
	"""What a reused file still held after a power cut belongs to nobody."""
	repository(p)
	new(p)
	crash(p, "record.sealed", "exec", "-q", "e", "--", "sh", "-c", "echo b > b")
	top = state(p, "envs/e/journal")
	run = next(n for n in os.listdir(top) if n != "spare")
	os.rename(os.path.join(top, run), os.path.join(top, "0123456789"))
	contains(text(p.croft("exec", "e", "--", "true").exits(0).err), "0123456789 was cut short")
	equal(events(p), ["created", "interrupted", "exec"], "events")
	verify(p)


@test
def test_exec_at_every_step(p):
	repository(p)
	new(p)
	work(p, "echo kept > kept")
	lines = 0
	for i, step in enumerate(EXEC_STEPS):
		before = events(p)
		crash(p, step, "exec", "-q", "e", "--", "sh", "-c", f"echo {i} >> log; echo said {i}")
		r = p.croft("exec", "-q", "e", "--", "sh", "-c", "cat kept; cat log 2>/dev/null; true").exits(0)
		got = text(r.out).split()
		lines += step != "exec.begun"  # it is begun before the command may go
		equal((got[0], len(got) - 1), ("kept", lines), f"{step}: staged work")
		now = events(p)
		equal(len(now), len(before) + 2, f"{step}: one event for the run, one for the next")
		check(now[-2] == ("interrupted" if step in ("exec.begun", "exec.ended") else "exec"), f"{step}: recorded as {now[-2]}")
		verify(p)
		equal(in_journal(p), [], f"{step}: the journal")
	contains(text(p.croft("evidence", "show", "e").exits(0).out), "interrupted")


@test
def test_session_at_every_step(p):
	"""The first time at each step, which may be before it is up, and the second."""
	repository(p)
	new(p)
	work(p, "touch log")
	for i, step in enumerate(s + nth for s in SESSION_STEPS for nth in ("", ":2")):
		answered, before = [], len(work(p, "cat log").split())
		up = p.croft("up", "-q", "e", env={"CROFT_CRASH_AT": step})
		check(up.rc in (0, 125), f"{step}: up", up)
		for k in range(3 if up.rc == 0 else 0):
			r = p.croft("exec", "-q", "e", "--", "sh", "-c", f"echo {i}.{k} >> log; echo said {i}.{k}")
			if r.rc == 0:
				answered.append(f"said {i}.{k}")
		p.croft("down", "-q", "e")
		now = work(p, "cat log").split()
		check(len(now) >= before + len(answered), f"{step}: staged work", now)
		told = text(p.croft("evidence", "show", "e").exits(0).out)
		settled(p, "e")
	contains(told, "interrupted")


@test
def test_every_kind_of_command_recovers_the_journal(p):
	repository(p)
	for i, command in enumerate((("apply", "e"), ("snapshot", "e"), ("fork", "e", "f"), ("discard", "e"), ("gc",), ("rm", "--force", "e"),
		("review", "e", "--accept-all"))):
		new(p)
		crash(p, EXEC_STEPS[1 + i % 3], "exec", "-q", "e", "--", "sh", "-c", f"echo {i} > file{i}")
		ledger = record(p)["id"]
		p.croft(*command).exits(0)
		contains(text(p.croft("evidence", "show", ledger).exits(0).out), f"file{i}", command[0])
		verify(p, ledger)
		for name in names(p):
			p.croft("rm", "--force", name).exits(0)
		git(p, "clean", "-qfd")


@test
def test_supervisor_killed_in_the_middle(p):
	repository(p)
	new(p)
	mark = os.path.basename(p.root).encode()
	for how, options in (("exec", ("exec", "-q", "e")), ("test", ("exec", "-q", "--as", "test", "e"))):
		script = f": {mark.decode()}; echo half-{how} > half-{how}; mkdir -p d; echo x > d/{how}; echo ready; exec sleep 600"
		s = p.start(*options, "--", "sh", "-c", script)
		try:
			equal(s.stdout.readline(), b"ready\n", "the command")
			equal(work(p, f"cat half-{how}", "e", "--read-only"), f"half-{how}\n", "a reader")
			s.send_signal(signal.SIGKILL)
			s.wait(60)
		finally:
			end(s)
		wait_for(lambda: not processes(b"sleep\x00600") or not [x for x in processes(b"sleep\x00600") if mine(x, p)],
			"the command goes with its supervisor")
		equal(work(p, f"cat half-{how} d/{how}").split(), [f"half-{how}", "x"], "what was written is there")
		equal(events(p)[-2:], ["interrupted", "exec"], "recorded")
		verify(p)
	p.croft("apply", "e").exits(0)
	equal(p.read("half-exec"), b"half-exec\n", "it can land")


def mine(pid, p):
	"""Does a process work in this place?"""
	try:
		return os.readlink(f"/proc/{pid}/cwd").startswith(p.root) and alive(pid)
	except OSError:
		return False


@test
def test_staged_run_killed(p):
	repository(p)
	s = p.start("run", "--staged", "-q", "--", "sh", "-c", "echo half > half; echo ready; exec sleep 600")
	try:
		equal(s.stdout.readline(), b"ready\n", "the command")
		s.send_signal(signal.SIGKILL)
		s.wait(60)
	finally:
		end(s)
	made = names(p)
	equal(len(made), 1, "its environment")
	equal(changed(p, made[0]), ["half"], "staged")
	clean(p)
	p.croft("apply", made[0]).exits(0)
	equal(p.read("half"), b"half\n", "landed")
	equal([k for k in events(p, made[0]) if k in ("interrupted", "applied")], ["interrupted", "applied"], "recorded")
	verify(p, made[0])


# ---- landing ----

def after_of(p, saved, *args):
	"""What it looks like when nothing goes wrong."""
	p.croft(*args).exits(0)
	got = look(p)
	saved.restore()
	return got


HOW = {"worktree": ("apply", "e"), "squash": ("apply", "e", "--squash"), "commits": ("apply", "e", "--commit"),
	"branch": ("apply", "e", "--branch", "landing"), "one path": ("apply", "e", "new")}


def prepare(p):
	repository(p)
	new(p)
	work(p, WORK)
	new(p, "other")
	work(p, "echo other > other", "other")
	p.write("mine", "the user's own\n")
	return Saved(p)


def at_each_step(p, saved, args, before, after, sample):
	"""Crash there; then open the environment again, and, from the same crash, land another one."""
	staged = staged_tree(p)
	for step in sample:
		saved.restore()
		r = p.croft(*args, env={"CROFT_CRASH_AT": step})
		if r.rc == 0:
			continue  # no such step on this way
		equal(r.rc, 137, f"{step}: {r!r}")
		crashed = Saved(p, "crashed")
		check(staged_tree(p) == staged, f"{step}: staged work")
		changed(p)  # readers do not mind
		p.croft("exec", "-q", "e", "--", "true").exits(0)
		got = look(p)
		equal(got, before if step in BEFORE_INTENT else after, f"{step}: opened again")
		equal(staged_tree(p), staged, f"{step}: staged work")
		settled(p, "e", "other")
		crashed.restore()
		crashed.drop()
		p.croft("apply", "other").exits(0)
		equal(p.read("other"), b"other\n", f"{step}: the other one")
		os.unlink(os.path.join(p.ws, "other"))
		got = look(p)
		check(got in (before, after), f"{step}: neither before nor after, when another landed", got, before, after)
		check(got == after or step in BEFORE_INTENT + ("land.done",), f"{step}: not completed when another landed")
		equal(staged_tree(p), staged, f"{step}: staged work")
		p.croft("exec", "-q", "e", "--", "true").exits(0)  # what was only staged is swept by its own environment
		equal(look(p), got, f"{step}: opened after another landed")
		settled(p, "e", "other")


def each_step(p, how, steps):
	saved = prepare(p)
	before = look(p)
	after = after_of(p, saved, *HOW[how])
	check(before != after, "the landing changes nothing")
	at_each_step(p, saved, HOW[how], before, after, steps)


@test
def test_apply_to_the_working_tree(p):
	each_step(p, "worktree", LAND_STEPS if LONG else ("land.planned", "land.intent", "land.file:2", "land.done"))


@test
def test_apply_as_one_commit(p):
	each_step(p, "squash", LAND_STEPS if LONG else ("land.file", "land.index", "land.ref"))


@test
def test_apply_its_commits(p):
	each_step(p, "commits", LAND_STEPS if LONG else ("land.file:4",))


@test
def test_apply_to_a_branch(p):
	each_step(p, "branch", LAND_STEPS if LONG else ("land.ref",))


@test
def test_apply_one_path(p):
	each_step(p, "one path", LAND_STEPS if LONG else ("land.file",))


@test
def test_revert(p):
	some = {"apply": ("land.staged", "land.file:2"), "commit": ("land.index", "land.event")}
	for apply in (("apply", "e"), ("apply", "e", "--squash")):
		saved = prepare(p)
		p.croft(*apply).exits(0)
		saved.drop()
		saved = Saved(p)
		before = look(p)
		after = after_of(p, saved, "revert", "e")
		at_each_step(p, saved, ("revert", "e"), before, after, LAND_STEPS if LONG else some["commit" if "--squash" in apply else "apply"])
		p.done()
		os.makedirs(p.ws)


@test
def test_recovery_crashes_too(p):
	saved = prepare(p)
	after = after_of(p, saved, "apply", "e", "--squash")
	for first, second in (("land.intent", "land.file"), ("land.file", "land.file"), ("land.file:2", "land.index"), ("land.index", "land.ref"),
		("land.ref", "land.event"), ("land.event", "land.done")):
		saved.restore()
		crash(p, first, "apply", "e", "--squash")
		r = p.croft("exec", "-q", "e", "--", "true", env={"CROFT_CRASH_AT": second})
		check(r.rc in (0, 137), f"{first}, {second}", r)
		r = p.croft("snapshot", "e", env={"CROFT_CRASH_AT": "land.done"})
		check(r.rc in (0, 137), f"{first}, {second}", r)
		p.croft("exec", "-q", "e", "--", "true").exits(0)
		equal(look(p), after, f"{first}, {second}")
		equal(git(p, "log", "--format=%s").split("\n")[1:], ["start"], f"{first}, {second}: one commit")
		equal(events(p).count("applied"), 1, f"{first}, {second}: recorded once")
		settled(p, "e", "other")


@test
def test_user_goes_on_before_recovery(p):
	"""Between the crash and the next croft command the user works: what they wrote is never lost."""
	saved = prepare(p)
	for step in ("land.intent", "land.file:2", "land.index"):
		saved.restore()
		crash(p, step, "apply", "e")
		p.write("numbers", "the user's\n")
		p.write("fresh", "the user's\n")
		p.croft("exec", "-q", "e", "--", "true").exits(0)
		equal((p.read("numbers"), p.read("fresh"), p.read("mine")), (b"the user's\n", b"the user's\n", b"the user's own\n"), step)
		equal((p.exists("gone"), p.exists("new")), (True, False), f"{step}: the rest is taken back")
		verify(p)
		check(staged_tree(p), "staged")


@test
def test_environment_removed_before_recovery(p):
	saved = prepare(p)
	before = look(p)
	after = after_of(p, saved, "apply", "e")
	for command in (("rm", "--force", "e"), ("gc",), ("discard", "e")):
		saved.restore()
		crash(p, "land.file:2", "apply", "e")
		p.croft(*command)
		p.croft("apply", "other").exits(0)
		os.unlink(os.path.join(p.ws, "other"))
		check(look(p) in (before, after), f"{command}: half of a landing stays", look(p))
		settled(p, "other")


# ---- any command, any system call ----

def anywhere(p, args, good, sample=SAMPLE):
	"""
	Kill croft before any of its changing system calls (a sample of them). good(): checks what must hold afterwards.
	"""
	saved = Saved(p)
	total = killed_at(p, 1 << 60, *args)
	saved.restore()
	seed = int(os.environ.get("CROFT_TEST_SEED") or random.randrange(1 << 30))
	points = range(1, total + 1) if LONG else sorted(random.Random(seed).sample(range(1, total + 1), min(sample, total)))
	print(f"# {' '.join(args)}: {total} calls, at {list(points) if not LONG else 'each'}", flush=True)
	bad = []
	for n in points:
		if killed_at(p, n, *args) is None:
			try:
				good()
			except AssertionError as e:
				bad.append(f"killed before call {n} of {total}: {e}")
		saved.restore()
	saved.drop()
	check(not bad, f"croft {' '.join(args)}: {len(bad)} bad of {len(points)}", *bad)


def staged_place(p):
	repository(p)
	new(p)
	work(p, WORK)
	p.croft("snapshot", "e", "s").exits(0)
	work(p, "echo later > later")
	return staged_tree(p)


@test
def test_anywhere_in_apply_and_revert(p):
	staged = staged_place(p)
	for first, args in ((None, ("apply", "e")), (None, ("apply", "e", "--squash")), (("apply", "e"), ("revert", "e")),
		(("apply", "e", "--squash"), ("revert", "e"))):
		if first:
			p.croft(*first).exits(0)
		saved = Saved(p, "first")
		before = look(p)
		after = after_of(p, saved, *args)

		def good():
			equal(staged_tree(p), staged, "staged work")
			p.croft("exec", "-q", "e", "--", "true").exits(0)
			check(look(p) in (before, after), "neither before nor after", look(p), before, after)
			settled(p, "e")
			r = p.croft(*args)
			check(r.rc == 0 or (args[0] == "revert" and look(p) == after), "and again", r)
			equal(look(p)[0], after[0], "and again")
		anywhere(p, args, good)
		saved.drop()
		if first:
			p.croft("revert", "e").exits(0)
			git(p, "reset", "-q", "--hard", "HEAD~2" if "--squash" in first else "HEAD")


@test
def test_anywhere_in_layers(p):
	staged = staged_place(p)
	at_snapshot = work(p, "rm later; cp .git/index /tmp/i; export GIT_INDEX_FILE=/tmp/i; git add -A; git write-tree").strip()
	work(p, "echo later > later")
	start = record(p)["start_tree"]
	for args, trees in ((("snapshot", "e", "t"), {staged}), (("restore", "e", "s"), {staged, at_snapshot}),
		(("discard", "e"), {staged, start}), (("fork", "e", "f"), {staged})):
		def good():
			check(staged_tree(p) in trees, "staged work", staged_tree(p), trees)
			equal(tree_inside(p), staged_tree(p), "inside")
			settled(p, "e")
			if "f" in names(p):
				equal(staged_tree(p, "f"), staged, "the fork")
				settled(p, "f")
			if staged_tree(p) == start:
				p.croft("discard", "e", "--undo")
			else:
				r = p.croft(*args)
				check(r.rc == 0 or b"already" in r.err, "and again", r)
			p.croft("gc").exits(0)
			settled(p, "e")
		anywhere(p, args, good)
	clean(p)


@test
def test_anywhere_in_new_rm_and_gc(p):
	staged = staged_place(p)
	new(p, "landed")
	work(p, "echo landed > landed", "landed")
	p.croft("apply", "landed").exits(0)
	p.croft("fork", "e", "f").exits(0)
	checkout = look(p)

	def good():
		kept = [n for n in names(p) if n != "landed"]
		check("e" in kept, "an environment is lost", kept)
		for n in kept:
			if n != "new":
				equal(staged_tree(p, n), staged, n)
			equal(tree_inside(p, n), staged_tree(p, n), n)
			settled(p, n)
		r = p.croft("new", "-q", "new")
		check(r.rc == 0 or b"already an environment" in r.err, "a new one", r)
		equal((changed(p, "new"), work(p, "cat gone", "new")), ([], "bye\n"), "a new one")
		p.croft("gc").exits(0)
		for n in kept:
			equal(tree_inside(p, n), staged_tree(p, n), n)
		equal(look(p), checkout, "the checkout")
	anywhere(p, ("new", "new"), good)
	anywhere(p, ("new", "new", "--dirty"), good, 2)
	anywhere(p, ("rm", "--force", "f"), good)
	anywhere(p, ("gc",), good)


@test
def test_anywhere_in_exec(p):
	staged = staged_place(p)

	def good():
		check(staged_tree(p), "staged work")
		equal(work(p, "cat later; rm -f more; cat new/deep/n").split(), ["later", "n"], "inside")
		equal(staged_tree(p), staged, "staged work")
		settled(p, "e")
		equal(in_journal(p), [], "the journal")
		kinds = events(p)
		check(kinds[-1] == "exec" and set(kinds[4:]) <= {"exec", "interrupted"} and len(kinds) - 4 in (1, 2), "events", kinds)
	equal(events(p), ["created", "exec", "snapshot", "exec"], "events")
	anywhere(p, ("exec", "-q", "e", "--", "sh", "-c", "echo more > more"), good, 2 * SAMPLE)


@test
def test_anywhere_in_review(p):
	staged = staged_place(p)

	def good():
		equal(staged_tree(p), staged, "staged work")
		review = record(p)["review"]
		check(review["accepted"] in (None, review["tree"]), "half a review", review)
		settled(p, "e")
		p.croft("review", "e", "--accept-all").exits(0)
		p.croft("apply", "e").exits(0)
		equal(tree_now(p), staged, "landed")
		settled(p, "e")
	anywhere(p, ("review", "e", "--accept-all"), good)


if __name__ == "__main__":
	main()
