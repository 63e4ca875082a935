#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a run lives: no longer than who started it, nor than its time limit, stopped or not."""
import json
import os
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


class Started:
	"""croft, started by a program that the test can kill; the sandbox's command says "ready"."""

	def __init__(self, p, *options, how="plain", env=None):
		receipt = os.path.join(p.root, "orphan.json")
		argv = [os.fsdecode(w) for w in p.argv("run", "--json", receipt, *options, "--", p.tool(), "pause", "stubborn")]
		self.receipt = receipt
		self.program = subprocess.Popen([sys.executable, "-c", STARTER, how, *argv], cwd=p.ws,
			env={**p.env, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
		words = [self.program.stdout.readline(), self.program.stdout.readline()]
		check(b"ready\n" in words, "the command runs", words)
		self.croft = next(int(w.split()[1]) for w in words if w.startswith(b"croft"))

	def __enter__(self):
		return self

	def __exit__(self, *exc):
		self.program.kill()
		self.program.communicate()
		if alive(self.croft):
			kill_quietly(self.croft)


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
	try:
		words = [program.stdout.readline(), program.stdout.readline()]
		croft = next(int(w.split()[1]) for w in words if w.startswith(b"croft"))
		program.kill()
		program.wait()
		wait_for(lambda: not alive(croft), "croft ended")
		contains(p.croft("status", "e").exits(0).out, b"made")
		log = p.croft("log", "e").exits(0).out
		check(b"interrupted" not in log, "it was recorded whole", log)
	finally:
		program.kill()
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


WORKER = "$PWD/tool daemon >/dev/null 2>&1; echo begun; kill -STOP $$; echo continued; kill -STOP $$; sleep 1000"


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
		wait_for(lambda: not worker(p), "ended although stopped", 30)
		check(time.monotonic() - began < 30, "in time")

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
		t.send(b"fg >/dev/null\n")
		t.expect(b"continued")
		t.expect(b"Stopped")
		check(worker(p), "the worker lives")
		t.send(b"kill -9 %1\n")
		wait_for(lambda: not worker(p), "nothing left")


@test
def test_a_stopped_run_ends_with_its_starter(p):
	"""Stopped, and not by a shell that the kernel would tell: a program that is killed."""
	p.tool()
	t = Terminal()
	script = ("import os, subprocess, sys\n"
		"child = subprocess.Popen(sys.argv[1:], process_group=0) if sys.version_info >= (3, 11) else "
		"subprocess.Popen(sys.argv[1:], preexec_fn=lambda: os.setpgid(0, 0))\n"
		"import signal; signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
		"os.tcsetpgrp(0, child.pid)\n"
		"os.waitpid(child.pid, os.WUNTRACED)\n"
		"print('seen stopped', flush=True)\n"
		"os.read(3, 1)\n")
	r, w = os.pipe()
	try:
		argv = [os.fsdecode(a) for a in p.argv("run", "--direct", "-q", "--", "sh", "-c", WORKER)]
		t.child = subprocess.Popen([sys.executable, "-c", f"import os; os.dup2({r}, 3)\n" + script, *argv], cwd=p.ws, env=p.env,
			stdin=t.slave, stdout=t.slave, stderr=t.slave, preexec_fn=t.control, pass_fds=[r])
		t.expect(b"seen stopped")
		check(worker(p), "the worker runs")
		t.child.kill()
		t.child.wait()
		wait_for(lambda: not worker(p), "ended although stopped")
	finally:
		os.close(r)
		os.close(w)
		t.close()


if __name__ == "__main__":
	main()
