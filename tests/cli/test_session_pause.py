#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pausing a session: by the cgroup v2 freezer where the sandbox is in such a group, else by signals."""
import json
import os
import signal

import envs
from harness import alive, all_cgroups, check, contains, equal, main, processes, test, text, wait_for

# Counts in its log, and so do its children, which come and go all the time.
COUNTER = "while :; do (echo $$; echo b) & echo a; wait; done"


# Its first thread ends; another counts.
HEADLESS = """
import ctypes, platform, threading
def count():
	while True:
		print("a", flush=True)
threading.Thread(target=count).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def up(p, **env):
	envs.repository(p)
	envs.new(p, "e")
	p.croft("up", "-q", "e", env=env).exits(0)


def ps(p):
	return json.loads(p.croft("ps", "--json", "e").exits(0).out)


def detach(p, script):
	return int(text(p.croft("exec", "-d", "e", "--", "sh", "-c", script).exits(0).out).split()[-1])


def written(p, number):
	return next(x["output_b"] for x in ps(p)["processes"] if x["process"] == number)


def goes_on(p, number):
	before = written(p, number)
	wait_for(lambda: written(p, number) > before, f"process {number} goes on")


def stands(p, *numbers):
	"""What was on its way when they stopped arrives; then they write nothing more, however often somebody asks."""
	seen = []

	def quiet():
		seen.append([written(p, n) for n in numbers])
		return len(seen) > 5 and seen[-5:] == [seen[-1]] * 5

	wait_for(quiet, "the output of what was stopped comes to an end")
	for _ in range(10):
		equal([written(p, n) for n in numbers], seen[-1], "what stopped processes have written")


def pause_and_resume(p):
	numbers = [detach(p, COUNTER) for _ in range(3)]
	for n in numbers:
		goes_on(p, n) # the control
	for _ in range(3):
		p.croft("pause", "e").exits(0)
		equal(ps(p)["state"], "paused", "state")
		stands(p, *numbers)
		contains(p.croft("exec", "-q", "e", "--", "true").exits(126).one_sentence(), "croft resume e")
		contains(p.croft("pause", "e").exits(125).one_sentence(), "paused already")
		p.croft("resume", "e").exits(0)
		equal(ps(p)["state"], "up", "state")
		for n in numbers:
			goes_on(p, n)
	equal(text(p.croft("exec", "-q", "e", "--", "echo", "fine").exits(0).out), "fine\n")
	p.croft("down", "-q", "e").exits(0)


@test
def paused_by_what_this_machine_has(p):
	up(p)
	receipt = os.path.join(p.root, "receipt.json")
	p.croft("exec", "-q", "--json", receipt, "e", "--", "true").exits(0)
	with open(receipt, encoding="utf-8") as f:
		kind = json.load(f)["enforced"]["cgroup"]["kind"]
	equal(ps(p)["pauses_by"], "cgroup freezer" if kind == "v2" else "signals", f"means with cgroup {kind}")
	pid = ps(p)["pid"]
	pause_and_resume(p)
	wait_for(lambda: not [g for g in all_cgroups() if os.path.basename(g).startswith(f"croft-{pid}.")], "its groups are gone")


@test
def paused_by_signals_without_a_freezer(p):
	up(p, CROFT_FORCE_FAIL="freezer")
	equal(ps(p)["pauses_by"], "signals", "means")
	pause_and_resume(p)


@test
def a_process_whose_first_thread_has_ended_is_paused_by_signals(p):
	up(p, CROFT_FORCE_FAIL="freezer")
	number = int(text(p.croft("exec", "-d", "e", "--", "python3", "-c", HEADLESS).exits(0).out).split()[-1])
	goes_on(p, number)
	p.croft("pause", "e").exits(0)
	stands(p, number)
	p.croft("resume", "e").exits(0)
	goes_on(p, number)
	p.croft("down", "-q", "--now", "e").exits(0)


def vfork(p, *how):
	"""A command that waits in the kernel for its child, and cannot be stopped before that one has done something."""
	number = int(text(p.croft("exec", "-d", "e", "--", "./tool", "vfork", *how).exits(0).out).split()[-1])
	wait_for(lambda: written(p, number) > 0, "it waits")
	return number


def up_with_tool(p):
	envs.repository(p)
	p.tool()
	envs.git(p, "add", "-f", "tool")
	envs.git(p, "commit", "-qm", "tool")
	envs.new(p, "e")
	p.croft("up", "-q", "e", env={"CROFT_FORCE_FAIL": "freezer"}).exits(0)


@test
def one_that_waits_in_vfork_does_not_keep_the_others_awake(p):
	up_with_tool(p)
	vfork(p)
	number = detach(p, COUNTER)
	goes_on(p, number)
	p.croft("pause", "e").exits(0)
	stands(p, number)
	p.croft("resume", "e").exits(0)
	goes_on(p, number)
	p.croft("down", "-q", "--now", "e").exits(0)


@test
def what_cannot_be_stopped_by_signals_is_said_and_nothing_is_paused(p):
	up_with_tool(p)
	stuck = vfork(p, "stranger")
	number = detach(p, COUNTER)
	contains(p.croft("pause", "e").exits(125).one_sentence(), "a process in e cannot be stopped now; nothing is paused")
	equal(ps(p)["state"], "up", "state")
	goes_on(p, number)
	contains(p.croft("snapshot", "e").exits(125).one_sentence(), "cannot be stopped now")
	goes_on(p, number)
	# The control: without it everything stands.
	p.croft("kill", "-s", "KILL", "e", str(stuck)).exits(0)
	wait_for(lambda: next(x for x in ps(p)["processes"] if x["process"] == stuck)["state"] == "ended", "it is killed")
	p.croft("pause", "e").exits(0)
	stands(p, number)
	p.croft("down", "-q", "--now", "e").exits(0)


@test
def what_had_stopped_before_stays_stopped(p):
	up(p)
	number = detach(p, "while :; do echo a; done")
	goes_on(p, number)
	p.croft("kill", "-s", "STOP", "e", str(number)).exits(0)
	stands(p, number)
	p.croft("pause", "e").exits(0)
	p.croft("resume", "e").exits(0)
	stands(p, number)
	p.croft("kill", "-s", "CONT", "e", str(number)).exits(0)
	goes_on(p, number)
	p.croft("down", "-q", "--now", "e").exits(0)


@test
def going_down_wakes_it_so_that_it_can_end_in_order(p):
	up(p)
	number = detach(p, "trap 'echo bye >> numbers; exit' HUP TERM; echo ready; while :; do sleep 0.01; done")
	wait_for(lambda: written(p, number) > 0, "it is ready")
	p.croft("pause", "e").exits(0)
	p.croft("down", "-q", "e").exits(0)
	equal(envs.changed(p, "e"), ["numbers"], "what it did at its end")


@test
def a_paused_command_can_be_killed(p):
	up(p)
	number = detach(p, COUNTER)
	goes_on(p, number)
	p.croft("pause", "e").exits(0)
	p.croft("kill", "-s", "KILL", "e", str(number)).exits(0)
	wait_for(lambda: next(x for x in ps(p)["processes"] if x["process"] == number)["exit"] == 137, "it is killed")
	p.croft("resume", "e").exits(0)
	p.croft("down", "-q", "e").exits(0)


def groups_go(p, pid):
	"""What a killed session could not remove, later runs do: one in a few looks."""
	for _ in range(200):
		left = [g for g in all_cgroups() if os.path.basename(g).startswith(f"croft-{pid}.")]
		if not left:
			return
		p.croft("run", "--direct", "-q", "--", "true").exits(0)
	check(False, "never reclaimed", left)


@test
def kill_of_a_paused_session_leaves_nothing(p):
	up(p)
	mark = os.path.basename(p.root)
	number = detach(p, f": {mark}; {COUNTER}")
	goes_on(p, number)
	inside = processes(mark.encode())
	check(inside, "its processes are seen from outside")
	p.croft("pause", "e").exits(0)
	pid = ps(p)["pid"]
	os.kill(pid, signal.SIGKILL)
	wait_for(lambda: not any(alive(pid) for pid in inside) and not processes(mark.encode()), "nothing is left")
	contains(text(p.croft("exec", "e", "--", "echo", "fine").exits(0).out), "fine")
	groups_go(p, pid)


main()
