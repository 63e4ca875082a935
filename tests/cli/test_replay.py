#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""croft replay knows what happened between commands: snapshots, restores, discards, forks, landings; a real difference is still one."""
import json
import os

import sessions
from envs import new, repository, work
from harness import check, contains, equal, main, test, text


def replayed(p, name="e", rc=0, *options):
	r = p.croft("replay", name, "--json", *options).exits(rc)
	found = json.loads(r.out)
	return [c["state"] for c in found["commands"]], found


def holds(p, name="e"):
	states, found = replayed(p, name)
	check(found["holds"] and states and set(states) == {"holds"}, f"{name}: {json.dumps(found, indent=1)}")
	return found


@test
def test_after_a_restore(p):
	repository(p)
	new(p)
	work(p, "echo one > one")
	p.croft("snapshot", "e", "s").exits(0)
	work(p, "echo two > two; rm one")
	p.croft("restore", "e", "s").exits(0)
	work(p, "echo three > three; ls")
	p.croft("restore", "e", "before-restore-1").exits(0)
	work(p, "cat two")
	holds(p)


@test
def test_after_a_discard_and_its_undo(p):
	repository(p)
	new(p)
	work(p, "echo one > one")
	p.croft("discard", "e").exits(0)
	work(p, "test ! -e one; echo two > two")
	p.croft("discard", "e").exits(0)
	p.croft("discard", "e", "--undo").exits(0)
	work(p, "cat two; echo three > three")
	holds(p)


@test
def test_with_every_option_for_paths(p):
	"""An environment keeps the options that it was made with, and a replay takes them all."""
	repository(p)
	for name in ("data", "out", ".tool", ".vim"):
		p.write(f"{p.home}/{name}/f", "one\n")
	new(p, "e", "--read", "~/data", "--write", "~/out", "--deny", "~/data/x", "--view", "~/.tool", "--write-runs", "~/.vim", "--git")
	work(p, "cat ~/data/f ~/out/f ~/.tool/f ~/.vim/f; echo new > new; git add new; git commit -qm new")
	holds(p)


@test
def test_in_a_fork_of_a_fork(p):
	repository(p)
	new(p)
	work(p, "echo one > one")
	p.croft("snapshot", "e", "s").exits(0)
	work(p, "echo late > late")
	p.croft("fork", "e", "f").exits(0)
	work(p, "rm one")  # in the origin, after the fork
	work(p, "cat one late; echo two > two", "f")
	p.croft("snapshot", "f", "s").exits(0)  # a label that the origin has, too
	work(p, "rm two", "f")
	p.croft("restore", "f", "s").exits(0)
	p.croft("fork", "f", "g").exits(0)
	work(p, "cat one two; echo three > three", "g")
	for name in ("e", "f", "g"):
		holds(p, name)
	p.croft("rm", "--force", "e").exits(0)  # its evidence stays
	holds(p, "g")


@test
def test_after_a_landing(p):
	repository(p)
	new(p)
	work(p, "echo one > one")
	p.croft("apply", "e").exits(0)
	work(p, "cat one; echo two > two")
	holds(p)


@test
def test_a_real_difference_is_still_one(p):
	"""The negative control, after each kind of event."""
	repository(p)
	clock = os.path.join(p.home, "clock")
	for name, between in (("r", ("restore", "r", "s")), ("d", ("discard", "d")), ("f", None)):
		p.write(clock, "1\n")
		new(p, name, "--read", clock)
		work(p, "echo a > a", name)
		p.croft("snapshot", name, "s").exits(0)
		work(p, "echo b > b", name)
		if between:
			p.croft(*between).exits(0)
			last = name
		else:
			p.croft("fork", name, "ff").exits(0)
			last = "ff"
		work(p, f"cat {clock} > seen", last)
		holds(p, last)
		p.write(clock, "2\n")
		states, found = replayed(p, last, 1)
		equal((states[-1], found["holds"]), ("differs", False), last)
		check(set(states[:-1]) <= {"holds"}, f"only the last differs: {states}")
	contains(text(p.croft("replay", "r").exits(1).out), "left tree", "what differs")


@test
def test_a_server_of_a_session_is_not_run_again(p):
	"""It would run for ever: whoever ended it is not there."""
	with sessions.up(p):
		sessions.sh(p, "echo one > one")
		number = sessions.detach(p, "sleep", "100001")
		p.croft("kill", "fix", str(number)).exits(0)
		sessions.ended(p, number)
		number = sessions.detach(p, "sh", "-c", "sleep 100001; exit $?")
		p.croft("kill", "-9", "fix", str(number)).exits(0)
		sessions.ended(p, number)
		sessions.detach(p, "sleep", "100001")
		p.croft("down", "-q", "fix").exits(0)
	states, found = replayed(p, "fix")
	equal((states, found["holds"]), (["holds"] + ["not replayable"] * 3, True), "what is run again")
	contains(text(p.croft("replay", "fix").exits(0).out), "until a signal ended it", "why not")


@test
def test_a_server_that_ended_by_itself_when_it_was_told_to_has_a_limit(p):
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
		sessions.logged(p, number, "ready")
		p.croft("kill", "fix", str(number)).exits(0)
		equal(sessions.ended(p, number)["exit"], 0, "its exit status")
		sessions.sh(p, "echo one > one")
		p.croft("down", "-q", "fix").exits(0)
	states, found = replayed(p, "fix")
	equal((states, found["holds"]), (["not replayable", "holds"], True), "what is run again")
	check([c for c in found["commands"] if "alone it did not end in 1" in (c.get("why") or "")], "why not", found)


if __name__ == "__main__":
	main()
