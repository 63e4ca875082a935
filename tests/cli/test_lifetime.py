#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a run lives: no longer than who started it, nor than its time limit, stopped or not."""
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

from harness import (TIERS, alive, check, contains, equal, kill_quietly, main, need, processes, test, wait_for)
from terminal import Terminal

# A program that starts croft and waits; in a thread that ends at once, if asked to.
STARTER = """
import subprocess, sys, threading, time
how, argv = sys.argv[1], sys.argv[2:]
def start():
    global p
    p = subprocess.Popen(argv)
    print("croft", p.pid, flush=True)
if how == "thread":
    t = threading.Thread(target=start)
    t.start()
    t.join()
else:
    start()
sys.stdin.readline()
"""


def children_of(pid):
	with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
		return [int(w) for w in f.read().split()]


def begun(program):
	"""The number of croft, once its command says "ready" or croft has ended without it."""
	seen = b""

	def known():
		nonlocal seen
		while select.select([program.stdout], [], [], 0)[0]:
			more = os.read(program.stdout.fileno(), 4096)
			if not more:
				break
			seen += more
		m = re.search(rb"croft (\d+)\n", seen)
		return m and (b"ready\n" in seen or not alive(int(m.group(1)))) and m
	return int(wait_for(known, "croft and its command began").group(1)), b"ready\n" in seen


class Started:
	"""croft, started by a program that the test can kill; the sandbox's command says "ready"."""

	def __init__(self, p, *options, how="plain", env=None):
		receipt = os.path.join(p.root, "orphan.json")
		argv = [os.fsdecode(w) for w in p.argv("run", "--json", receipt, *options, "--", p.tool(), "pause", "stubborn")]
		self.receipt = receipt
		self.program = subprocess.Popen([sys.executable, "-c", STARTER, how, *argv], cwd=p.ws,
			env={**p.env, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
		self.croft, ready = begun(self.program)
		if not ready:
			self.__exit__()
		check(ready, "the command runs")

	def __enter__(self):
		return self

	def __exit__(self, *exc):
		self.program.kill()
		kill_quietly(self.croft)  # first: its command has the other end of the pipe that is read to its end here
		self.program.communicate()


@test(tiers=TIERS)
def test_killed_starter_ends_the_run(p, tier):
	"""kill -9 of the program that started croft: the command ends, and the receipt says why."""
	modes = [("--direct",), ("--staged",)] if tier == "namespace" else [("--direct",)]
	for options in modes:
		for env in ({}, {"CROFT_FORCE_FAIL": "pidfd_open"}):
			with Started(p, "--tier", tier, *options, env=env) as s:
				s.program.kill()
				s.program.wait()
				wait_for(lambda: not processes(p.ws.encode()), f"the command ended {options} {env}")
				wait_for(lambda: not alive(s.croft), "croft ended")
				with open(s.receipt, encoding="utf-8") as f:
					r = json.load(f)
				equal(r["exit"]["orphaned"], True, "in the receipt")
				os.unlink(s.receipt)


@test(tiers=TIERS)
def test_stay_goes_on_without_the_starter(p, tier):
	"""The control: with --stay it goes on, and ends when it is told to."""
	with Started(p, "--tier", tier, "--direct", "--stay") as s:
		s.program.kill()
		s.program.wait()
		kids = children_of(s.croft)
		check(kids and all(alive(k) for k in kids), "the sandbox lives")
		# A run that is bound to its starter and begins now is over when that starter is gone; this one is not.
		with Started(p, "--tier", tier, "--direct") as other:
			other.program.kill()
			other.program.wait()
			wait_for(lambda: not alive(other.croft), "the bound one ended")
		check(alive(s.croft) and all(alive(k) for k in kids), "the one that stays goes on")
		os.kill(s.croft, signal.SIGKILL)
		wait_for(lambda: not processes(p.ws.encode()), "ended with croft")


@test
def test_a_thread_that_ends_is_not_the_starter(p):
	"""The thread that started croft ends, its process goes on: so does the run."""
	with Started(p, "--direct", how="thread") as s:
		kids = children_of(s.croft)
		with Started(p, "--direct") as other:  # as long as it takes for another to be ended
			other.program.kill()
			other.program.wait()
			wait_for(lambda: not alive(other.croft), "the other one ended")
		check(alive(s.croft) and all(alive(k) for k in kids), "it goes on")


@test
def test_environments_end_with_the_starter_too(p):
	"""croft exec, and what it recorded: the next one finds a whole environment."""
	git = need("git")
	subprocess.run(f"{git} init -q . && {git} -c user.name=t -c user.email=t@t commit -q --allow-empty -m t",
		shell=True, cwd=p.ws, env=p.env, check=True)
	p.croft("new", "e", "-q").exits(0)
	argv = [os.fsdecode(w) for w in p.argv("exec", "e", "--", "sh", "-c", "echo x > made; echo ready; sleep 1000")]
	program = subprocess.Popen([sys.executable, "-c", STARTER, "plain", *argv], cwd=p.ws, env=p.env,
		stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
	croft = None
	try:
		croft, ready = begun(program)
		check(ready, "the command runs")
		program.kill()
		program.wait()
		wait_for(lambda: not alive(croft), "croft ended")
		contains(p.croft("status", "e").exits(0).out, b"made")
		log = p.croft("log", "e").exits(0).out
		check(b"interrupted" not in log, "it was recorded whole", log)
	finally:
		program.kill()
		if croft:
			kill_quietly(croft)
		program.communicate()


# ---- stopped as a job ----

class Shell:
	"""An interactive shell on a terminal, from which croft is started as a person would."""

	def __init__(self, p):
		self.t = Terminal()
		self.t.start([need("bash"), "--norc", "--noprofile", "-i"], p.ws, {**p.env, "PS1": "PROMPT> ", "PS2": "",
			"TERM": "dumb", "HISTFILE": ""})
		self.t.expect(b"PROMPT> ")
		self.t.send(b"bind 'set enable-bracketed-paste off' 2>/dev/null; stty -echo\n")
		self.t.expect(b"PROMPT> ")

	def __enter__(self):
		return self.t

	def __exit__(self, *exc):
		self.t.close()


def line(p, *words):
	return b" ".join(b"'" + w.replace(b"'", b"'\\''") + b"'" for w in p.argv("run", *words)) + b"\n"


WORKER = ("$PWD/tool daemon >/dev/null 2>&1; echo begun; kill -STOP $$; "
	"for n in 1 2 3 4 5 6 7 8 9; do echo continued $n; kill -STOP $$; done; sleep 1000")


def worker(p):
	return processes(os.fsencode(os.path.join(p.ws, "tool")))


@test(tiers=TIERS)
def test_time_goes_on_while_stopped(p, tier):
	"""The command stops itself, and croft with it; its worker does not outlive the time limit."""
	p.tool()
	with Shell(p) as t:
		began = time.monotonic()
		t.send(line(p, "--direct", "-q", "--tier", tier, "--timeout", "2s", "--", "sh", "-c", WORKER))
		t.expect(b"begun")
		t.expect(b"Stopped")
		check(worker(p), "the worker runs while croft is stopped")
		t.expect(b"PROMPT> ")
		wait_for(lambda: not worker(p), "ended although stopped", 60)
		check(time.monotonic() - began < 60, "in time")

		def told():
			t.send(b"jobs\n")
			t.expect(b"PROMPT> ")
			return b"Exit 124" in t.last
		wait_for(told, "the shell sees how it ended")
		t.send(b"stty -a | grep -o icanon | head -1; exit\n")
		t.expect(b"icanon")
		t.finish()


@test(tiers=TIERS)
def test_a_stopped_run_can_go_on(p, tier):
	"""The control: without a limit it stays stopped with its worker alive, and fg continues it."""
	p.tool()
	with Shell(p) as t:
		t.send(line(p, "--direct", "-q", "--tier", tier, "--", "sh", "-c", WORKER))
		t.expect(b"begun")
		t.expect(b"Stopped")
		t.expect(b"PROMPT> ")
		for n in range(1, 10): # once for each time: what is continued twice goes past its next stop
			t.send(b"fg >/dev/null\n")
			t.expect(b"continued %d" % n)
			t.expect(b"Stopped")
			t.expect(b"PROMPT> ")
		check(worker(p), "the worker lives")
		t.send(b"kill -9 %1\n")
		wait_for(lambda: not worker(p), "nothing left")


# The leader of a session, whose child starts croft as a job in the foreground and is killed. Another child of
# the leader is in the job's group: as long as it lives, the kernel does not take the group for orphaned, and
# tells a stopped croft nothing.
LEADER = """
import os, signal, subprocess, sys
told, tell = os.pipe()
starter = os.fork()
if starter == 0:
    croft = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: os.setpgid(0, 0))
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, croft.pid)
    os.write(tell, b"%d\\n" % croft.pid)
    os.waitpid(croft.pid, os.WUNTRACED)
    print("starter", os.getpid(), "saw it stop", flush=True)
    signal.pause()
group = int(os.read(told, 32))
mate = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: os.setpgid(0, group))
print("mate", mate.pid, "is there", flush=True)
signal.pause()
"""


@test
def test_a_stopped_run_ends_with_its_starter(p):
	"""Stopped, and nobody tells it: the program that started it is killed."""
	p.tool()
	t = Terminal()
	mate = None
	try:
		argv = [os.fsdecode(a) for a in p.argv("run", "--direct", "-q", "--", "sh", "-c", WORKER)]
		t.child = subprocess.Popen([sys.executable, "-c", LEADER, *argv], cwd=p.ws, env=p.env,
			stdin=t.slave, stdout=t.slave, stderr=t.slave, preexec_fn=t.control)
		for words in (b"is there", b"saw it stop"):
			if words not in t.log:
				t.expect(words)
		mate, starter = (int(re.search(rb"%s (\d+)" % who, t.log).group(1)) for who in (b"mate", b"starter"))
		check(worker(p), "the worker runs")
		os.kill(starter, signal.SIGKILL)
		wait_for(lambda: not worker(p), "ended although stopped", 60)
		check(alive(mate), "the kernel told nobody")
	finally:
		if mate:
			kill_quietly(mate)
		t.close()


if __name__ == "__main__":
	main()
