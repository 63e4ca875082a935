#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""Signals reach the command; killing any croft process leaves nothing running."""
import json
import os
import signal

from harness import (CROFT, DEADLINE_S, SECRET, TIERS, Failed, alive, cgroups, check, end, equal, kill_quietly, lacks, main, native,
	processes, reclaim, settle, test, text, wait_for)


def children(pid):
	"""All descendants of a process, nearest first."""
	table = {}
	for name in os.listdir("/proc"):
		if name.isdigit():
			try:
				with open(f"/proc/{name}/stat", "rb") as f:
					table.setdefault(int(f.read().rpartition(b")")[2].split()[1]), []).append(int(name))
			except (OSError, IndexError):
				pass
	found, todo = [], [pid]
	while todo:
		kids = table.get(todo.pop(0), [])
		found += kids
		todo += kids
	return found


def command_of(pid):
	try:
		with open(f"/proc/{pid}/cmdline", "rb") as f:
			return f.read()
	except OSError:
		return b""


def begin(p, tier, *command, **kw):
	"""Start, wait for the command's "ready"."""
	c = p.start("run", "--direct", "-q", "--tier", tier, "--", *command, **kw)
	line = c.stdout.readline()
	if line != b"ready\n":
		end(c)
		raise Failed(f"did not start: {line!r} {c.stderr}")
	return c


@test(tiers=TIERS)
def test_signals_are_forwarded(p, tier):
	for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
		c = begin(p, tier, p.tool(), "sigwait")
		try:
			c.send_signal(sig)
			equal(c.stdout.readline(), b"got %d\n" % sig, sig.name)
			equal(c.wait(timeout=DEADLINE_S), 40 + sig, f"exit status after {sig.name}")
		finally:
			end(c)


@test(tiers=TIERS)
def test_command_that_dies_of_a_forwarded_signal(p, tier):
	for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
		c = begin(p, tier, p.tool(), "pause")
		try:
			c.send_signal(sig)
			equal(c.wait(timeout=DEADLINE_S), 128 + sig, sig.name)
		finally:
			end(c)


@test(tiers=TIERS)
def test_receipt_exists_after_a_signal(p, tier):
	file = os.path.join(p.root, "r.json")
	c = p.start("run", "--direct", "--json", file, "--tier", tier, "--", p.tool(), "pause")
	try:
		equal(c.stdout.readline(), b"ready\n")
		c.send_signal(signal.SIGTERM)
		c.wait(timeout=DEADLINE_S)
		with open(file, encoding="utf-8") as f:
			equal(json.load(f)["exit"]["signal"], int(signal.SIGTERM))
	finally:
		end(c)


@test(tiers=TIERS)
def test_kill_9_of_the_supervisor_leaves_nothing_running(p, tier):
	p.tool()
	c = begin(p, tier, "sh", "-c", "$PWD/tool daemon >/dev/null; $PWD/tool daemon >/dev/null; exec $PWD/tool pause stubborn")
	try:
		kids = children(c.pid)
		check(kids, "croft has children while it runs")
		c.kill()
		c.wait()
		wait_for(lambda: not processes(p.ws.encode()), "the command and its daemons ended")
		wait_for(lambda: not any(alive(k) for k in kids), "every helper ended")
	finally:
		end(c)
		for pid in processes(p.ws.encode()):
			kill_quietly(pid)
	reclaim(p)


@test
def test_kill_9_control_without_croft_a_daemon_survives(p):
	p.tool()
	native(p, "sh", "-c", "$PWD/tool daemon; true")
	left = processes(p.ws.encode())
	try:
		equal(len(left), 1, "daemons that outlive the shell")
	finally:
		for pid in left:
			kill_quietly(pid)


@test(tiers=TIERS)
def test_kill_9_of_the_first_process(p, tier):
	"""The sandbox's first process dies: the rest ends, and croft says that it failed."""
	c = begin(p, tier, p.tool(), "pause", "stubborn")
	try:
		first = [k for k in children(c.pid)[:1] if not command_of(k).startswith(os.fsencode(p.tool()))]
		check(first, "there is a first process")
		kill_quietly(first[0])
		check(c.wait(timeout=DEADLINE_S) != 0, "exit status")
		wait_for(lambda: not processes(p.ws.encode()), "nothing left running")
	finally:
		end(c)
	reclaim(p)


@test(tiers=TIERS)
def test_kill_9_of_each_helper_opens_nothing(p, tier):
	"""Without a helper (broker, watcher) what it guards stays refused, and nothing outlives croft."""
	p.write("sub/secret", SECRET)
	script = "echo ready; read x; cat sub/secret; cat ~/.ssh/id_ed25519; echo x > later; echo done"
	i, count = 0, 1
	while i < count:
		c = p.start("run", "--direct", "-q", "--tier", tier, "--deny", "./sub/secret", "--deny", "./later", "--", "sh", "-c", script)
		try:
			equal(c.stdout.readline(), b"ready\n")
			helpers = [k for k in children(c.pid) if command_of(k).startswith(os.fsencode(CROFT))]
			count = len(helpers)
			kill_quietly(helpers[i])
			wait_for(lambda: not alive(helpers[i]), "the helper is dead")
			try:
				c.stdin.write(b"\n")
				c.stdin.close()
			except BrokenPipeError:
				pass
			out = c.stdout.read()
			c.wait(timeout=DEADLINE_S)
			lacks(out, SECRET.encode(), f"without helper {i}")
			check(not p.exists("later"), f"without helper {i} a denied name was created")
		finally:
			end(c)
		wait_for(lambda: not processes(p.ws.encode()), "nothing left running")
		i += 1
	check(count >= 1, "helpers were found")
	reclaim(p)


@test(tiers=TIERS)
def test_daemons_are_reaped(p, tier):
	p.tool()
	c = p.sh("$PWD/tool daemon; $PWD/tool daemon", "--tier", tier).exits(0)
	equal(c.out, b"ready\nready\n")
	wait_for(lambda: not processes(p.ws.encode()), "daemons ended with the command")


@test(tiers=TIERS)
def test_orphans_do_not_become_zombies(p, tier):
	r = p.sh("for i in 1 2 3 4 5 6 7 8; do (true &) ; done; "
		"n=0; while [ $n -lt 200 ]; do grep -l '^State:.Z' /proc/[0-9]*/status >/dev/null 2>&1 || { echo clean; exit 0; }; "
		"n=$((n+1)); done; echo zombies", "--tier", tier)
	if tier == "namespace":
		equal(r.exits(0).out, b"clean\n")


@test(tiers=TIERS)
def test_repeated_signals_during_start_up(p, tier):
	"""A signal at any moment of set-up ends the run and leaves nothing."""
	for i in range(40):
		c = p.start("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "pause")
		try:
			# From "immediately" to "about when it runs", in steps that no clock defines.
			for _ in range(i * 40):
				os.getpid()
			c.send_signal(signal.SIGTERM)
			rc = c.wait(timeout=DEADLINE_S)
			check(rc in (-signal.SIGTERM, 128 + signal.SIGTERM, 125), "exit status", rc)
		finally:
			end(c)
	wait_for(lambda: not processes(p.ws.encode()), "nothing left running")
	settle(cgroups, [], "cgroups")


@test(tiers=TIERS)
def test_kill_9_during_start_up(p, tier):
	for i in range(40):
		c = p.start("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "pause")
		for _ in range(i * 100):
			os.getpid()
		end(c)
	wait_for(lambda: not processes(p.ws.encode()), "nothing left running")
	reclaim(p)


@test(tiers=TIERS)
def test_second_ctrl_c_on_a_stubborn_command(p, tier):
	"""A command that ignores signals is still ended by SIGKILL of croft, and by nothing less."""
	c = begin(p, tier, p.tool(), "pause", "stubborn")
	try:
		c.send_signal(signal.SIGINT)
		c.send_signal(signal.SIGTERM)
		check(c.poll() is None or c.returncode in (130, 143), "state", c.returncode)
		c.kill()
		c.wait()
		wait_for(lambda: not processes(p.ws.encode()), "nothing left running")
	finally:
		end(c)


@test(tiers=TIERS)
def test_ignored_signals_are_not_inherited_as_surprises(p, tier):
	"""The caller ignores SIGINT (nohup-like): the command sees the same, nothing else is ignored or blocked."""
	r = p.run("--tier", tier, "--", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status").exits(0)
	lines = dict(line.split(":\t") for line in text(r.out).splitlines())
	equal(int(lines["SigBlk"], 16), 0, "blocked signals")
	control = native(p, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
	wanted = dict(line.split(":\t") for line in text(control.stdout).splitlines())
	equal(lines["SigIgn"], wanted["SigIgn"], "ignored signals")


@test(tiers=TIERS)
def test_stop_and_continue(p, tier):
	"""SIGTSTP and SIGCONT to croft: stopped with it, continued with it."""
	c = begin(p, tier, p.tool(), "hold")
	try:
		c.send_signal(signal.SIGTSTP)
		c.send_signal(signal.SIGCONT)
		c.stdin.close()
		equal(c.wait(timeout=DEADLINE_S), 0)
	finally:
		end(c)


if __name__ == "__main__":
	main()
