#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Limits of one command in a session: held by a group of its own where there are cgroups, else by rlimits, which
its receipt says; what cannot be held is refused. Its neighbours are not limited by them.
"""
import contextlib
import json
import os

import envs
import sessions
from harness import FORCED, Skip, all_cgroups, alive, check, contains, equal, lacks, main, test, text, wait_for

GREEDY = "import sys; b = bytearray(int(sys.argv[1]) << 20); print('allocated', flush=True)"
KEEPS = GREEDY + "; sys.stdin.close(); import signal; signal.pause()"
# As many children as there can be, up to a number; they end with their parent.
FORKS = """
import os, sys
r, w = os.pipe()
n = 0
try:
	while n < int(sys.argv[1]):
		if os.fork() == 0:
			os.close(w)
			os.read(r, 1)
			os._exit(0)
		n += 1
	print("all", n)
except OSError as e:
	print("refused", n)
"""
SPIN = """
import time
began, used = time.monotonic(), time.process_time() # Python's own start does not count
while time.monotonic() < began + 1:
	pass
print((time.process_time() - used) / (time.monotonic() - began))
"""
OPENS = """
import os, sys
n = 0
try:
	while n < 200:
		os.open("/dev/null", os.O_RDONLY)
		n += 1
except OSError as e:
	print("refused", n, e.errno)
else:
	print("all", n)
"""
# A daemon: waits for a word, then runs Python with what is given, and writes down how that ended.
DAEMON = """
mkfifo $TMPDIR/go
setsid sh -c 'read word < $TMPDIR/go; python3 -c "$0" "$@" > $TMPDIR/out 2>&1; echo ended $? >> $TMPDIR/out' "$@" &
"""


@contextlib.contextmanager
def up(p, *options, forced=None, new=()):
	envs.repository(p)
	envs.new(p, "fix", *new)
	p.croft("up", "-q", *options, "fix",
		env={"CROFT_FORCE_FAIL": ",".join([*FORCED, forced])} if forced else None).exits(0)
	try:
		yield
	finally:
		p.croft("down", "-q", "--now", "fix")


def run(p, *argv, options=()):
	"""A command in the session, and its receipt."""
	file = os.path.join(p.root, "receipt.json")
	if os.path.exists(file):
		os.unlink(file)
	r = p.croft("exec", "-q", "--json", file, *options, "fix", "--", *argv)
	if os.path.exists(file):
		with open(file, encoding="utf-8") as f:
			r.receipt = json.load(f)
	return r


def python(p, script, *args, options=()):
	return run(p, "python3", "-c", script, *map(str, args), options=options)


def held_by(r, limit):
	return r.receipt["enforced"]["limits_held_by"][limit]


def less(r):
	return "\n".join(r.receipt["degradations"])


def groups(p):
	"""Those that the session has made."""
	own = f"/croft-{sessions.ps(p)['pid']}."
	return sorted(d for d in all_cgroups() if own in d)


# ---- memory ----

def memory(p):
	neighbour = sessions.detach(p, "python3", "-c", KEEPS, "160")
	sessions.logged(p, neighbour, "allocated")
	r = python(p, GREEDY, 160, options=("--memory", "64M"))
	lacks(r.out, b"allocated")
	check(r.rc in (1, 137), "ended or refused", r)
	equal(r.receipt["limits"]["memory_b"], 64 << 20, "the receipt's limit")
	holder = held_by(r, "memory")
	check(holder in ("cgroup", "rlimit"), "what holds it", r.receipt["enforced"])
	if holder == "cgroup":
		equal(r.receipt["limits_hit"], ["memory"])
		check(r.receipt["usage"]["peak_memory_b"] <= 64 << 20, "peak", r.receipt["usage"])
	else:
		contains(less(r), "memory is limited per process (RLIMIT_DATA)")
	equal(sessions.process(p, neighbour)["state"], "running", "the neighbour, which has more")
	r = python(p, GREEDY, 160, options=("--memory", "600M")).exits(0)
	equal((r.out, r.receipt["limits_hit"]), (b"allocated\n", []), "the control with more")
	r = python(p, GREEDY, 160).exits(0)
	equal(r.out, b"allocated\n", "the control without")
	check(r.receipt["limits"]["memory_b"] != 600 << 20, "the next command has that limit, too", r.receipt["limits"])
	return holder


@test
def one_command_is_ended_by_its_memory_limit(p):
	with up(p):
		memory(p)


@test
def memory_without_cgroups(p):
	with up(p, forced="cgroup"):
		equal(memory(p), "rlimit")


# ---- processes ----

def pids(p):
	options = ("--pids", "20")
	r = python(p, FORKS, 200, options=options)
	if r.rc == 126:
		contains(r.one_sentence(), "RLIMIT_NPROC does not bind root")
		return "refused"
	said, n = text(r.exits(0).out).split()
	equal(said, "refused")
	holder = held_by(r, "pids")
	if holder == "cgroup":
		check(int(n) < 20, "processes", r.out)
		equal(r.receipt["limits_hit"], ["pids"])
	else:
		equal(holder, "rlimit")
		contains(less(r), "RLIMIT_NPROC")
	equal(r.receipt["limits"]["pids"], 20)
	return holder


def neighbour_forks(p):
	equal(text(python(p, FORKS, 200).exits(0).out), "all 200\n", "the control")


@test
def processes(p):
	with up(p):
		pids(p)
		neighbour_forks(p)


@test
def processes_without_cgroups(p):
	"""The kernel spares root, so there the limit is refused, unless less was allowed; then that is recorded."""
	with up(p, forced="cgroup"):
		holder = pids(p)
		neighbour_forks(p)
	check(holder == ("refused" if os.geteuid() == 0 else "rlimit"), "held by", holder)
	if holder != "refused":
		return
	p.croft("up", "-q", "--allow-degraded", "fix", env={"CROFT_FORCE_FAIL": ",".join([*FORCED, "cgroup"])}).exits(0)
	r = python(p, FORKS, 60, options=("--pids", "20")).exits(0)
	equal((text(r.out), held_by(r, "pids")), ("all 60\n", "not enforced"))
	contains(less(r), "no process limit: RLIMIT_NPROC does not bind root")


@test
def in_the_process_tier(p):
	with up(p, new=("--tier", "process")):
		memory(p)
		pids(p)
		neighbour_forks(p)


# ---- CPU ----

@test
def cpus(p):
	with up(p):
		r = python(p, SPIN, options=("--cpus", "0.1"))
		if r.rc == 126:
			contains(r.one_sentence(), "a CPU limit of one command needs a cgroup")
			raise Skip("no cgroup for this user: refused")
		equal((held_by(r, "cpus"), r.receipt["limits"]["cpu_milli"]), ("cgroup", 100))
		used = float(r.exits(0).out)
		control = python(p, SPIN).exits(0)
		check(used < 0.4, "it had more than a tenth of a CPU", used)
		equal(control.receipt["limits"]["cpu_milli"], None)
		if float(control.out) < 0.6:
			raise Skip(f"the machine is too busy for the control: {float(control.out):.2f} of a CPU without the limit")


@test
def cpus_without_cgroups(p):
	with up(p, forced="cgroup"):
		r = run(p, "sh", "-c", "echo ran > ran", options=("--cpus", "0.5")).exits(126)
		contains(r.one_sentence(), "leave it out")
		equal(sessions.sh(p, "ls"), sessions.sh(p, "ls | grep -v '^ran$'"), "it ran")
		equal(len(sessions.ps(p)["processes"]), 2, "it is no process")
	p.croft("up", "-q", "--allow-degraded", "fix", env={"CROFT_FORCE_FAIL": ",".join([*FORCED, "cgroup"])}).exits(0)
	r = run(p, "true", options=("--cpus", "0.5")).exits(0)
	equal(held_by(r, "cpus"), "not enforced")
	contains(less(r), "no CPU limit")


# ---- files ----

@test
def open_files_and_the_size_of_a_file(p):
	with up(p):
		r = python(p, OPENS, options=("--open-files", "64")).exits(0)
		said, n, error = text(r.out).split()
		check(said == "refused" and int(n) < 64 and error == "24", "open files", r.out)
		equal(r.receipt["limits"]["open_files"], 64)
		equal(text(python(p, OPENS).exits(0).out), "all 200\n", "the control")
		write = ("sh", "-c", "head -c 300000 /dev/zero > \"$TMPDIR/f\"; wc -c < \"$TMPDIR/f\"")
		equal(int(run(p, *write, options=("--file-size", "64K")).out), 64 << 10, "the size of a file")
		equal(int(run(p, *write).out), 300000, "the control")


# ---- what it leaves behind, and what it leaves nothing of ----

def leave_daemon(p, *argv, options=()):
	"""One that runs argv when told; how that ended."""
	sessions.sh(p, "rm -f $TMPDIR/go $TMPDIR/out")
	equal(run(p, "sh", "-c", DAEMON, "sh", *argv, options=options).rc, 0, "its starter")
	number = sessions.ps(p)["processes"][0]["process"]
	equal(sessions.process(p, number)["state"], "left processes")
	sessions.sh(p, "echo go > $TMPDIR/go")
	sessions.ended(p, number)
	return sessions.sh(p, "cat $TMPDIR/out")


def memory_of_a_daemon(p):
	out = leave_daemon(p, GREEDY, "160", options=("--memory", "64M"))
	lacks(out, "allocated")
	contains(out, "ended ")
	contains(leave_daemon(p, GREEDY, "160"), "allocated", "the control")


@test
def what_a_command_leaves_behind_is_still_limited(p):
	with up(p):
		memory_of_a_daemon(p)
		if python(p, FORKS, 1, options=("--pids", "20")).rc == 126:
			raise Skip("no cgroup to limit root's processes with")
		contains(leave_daemon(p, FORKS, "200", options=("--pids", "20")), "refused")
		contains(leave_daemon(p, FORKS, "200"), "all 200", "the control")


@test
def what_a_command_leaves_behind_is_still_limited_without_cgroups(p):
	with up(p, forced="cgroup"):
		memory_of_a_daemon(p)


@test
def limited_commands_leave_no_group(p):
	with up(p):
		sessions.sh(p, "true")
		before = groups(p)
		most = ("--memory", "256M", "--open-files", "64")
		if python(p, FORKS, 1, options=("--pids", "50")).rc == 0:
			most += ("--pids", "50")
		if run(p, "true", options=("--cpus", "1")).rc == 0:
			most += ("--cpus", "1")
		number = sessions.detach(p, "sh", "-c", "exec sleep 1000", options=most)
		during = groups(p)
		if before:
			check(len(during) > len(before) or "--pids" not in most, "the control has groups", during)
		for i in range(50):
			equal(run(p, "sh", "-c", f"true & exit {i}", options=most).rc, i)
		p.croft("kill", "-s", "KILL", "fix", str(number)).exits(0)
		sessions.ended(p, number)
		wait_for(lambda: groups(p) == before, "the groups of 52 commands are gone")
		run(p, "no-such-program", options=most).exits(127)
		wait_for(lambda: groups(p) == before, "the group of a command that is none is gone")
		pid = sessions.ps(p)["pid"]
		number = sessions.detach(p, "sleep", "1000", options=most)
		p.croft("down", "-q", "--now", "fix").exits(0)
	equal([d for d in all_cgroups() if f"/croft-{pid}." in d], [], "groups of the session that is down")


@test
def a_session_that_is_killed_leaves_no_limited_command(p):
	with up(p):
		options = ("--memory", "256M")
		number = sessions.detach(p, "python3", "-c", KEEPS, "1", options=options)
		sessions.logged(p, number, "allocated")
		info = sessions.ps(p)
		os.kill(info["pid"], 9)
		wait_for(lambda: not alive(info["pid"]), "the session ends")
		contains(text(p.croft("exec", "fix", "--", "true").exits(0).err), "exit 0")


@test
def a_pause_stops_limited_commands(p):
	with up(p):
		options = ("--memory", "256M")
		if run(p, "true", options=("--pids", "50")).rc == 0:
			options += ("--pids", "50")
		number = sessions.detach(p, "sh", "-c", "while :; do (echo b) & echo a; wait; done", options=options)

		def written():
			return sessions.process(p, number)["output_b"]

		def goes_on():
			before = written()
			wait_for(lambda: written() > before, "it goes on")

		goes_on() # the control
		p.croft("pause", "fix").exits(0)
		seen = []

		def quiet():
			seen.append(written())
			return len(seen) > 5 and seen[-5:] == [seen[-1]] * 5

		wait_for(quiet, "the output of what was stopped comes to an end")
		for _ in range(10):
			equal(written(), seen[-1], "what a stopped command has written")
		p.croft("resume", "fix").exits(0)
		goes_on()


# ---- what may be asked for, and what is told ----

@test
def more_than_the_sandbox_has_is_refused(p):
	most = ("--memory", "1G", "--pids", "100", "--open-files", "512", "--file-size", "1G")
	with up(p, *most):
		sessions.sh(p, "true")
		for more, has, name in ((("--memory", "2G"), "1G", "memory"), (("--pids", "101"), "100", "pids"),
			(("--open-files", "513"), "512", "open_files"), (("--file-size", "2G"), "1G", "file_size"),
			(("--memory", "64M", "--pids", "4000"), "100", "pids")):
			sentence = run(p, "sh", "-c", "echo ran > $TMPDIR/ran", options=more).exits(126).one_sentence()
			for word in (f"for {name} is more than the {has} that fix has", "croft down fix"):
				contains(sentence, word)
		equal(sessions.sh(p, "[ -e $TMPDIR/ran ] || echo no"), "no\n", "what was refused ran")
		equal(len(sessions.ps(p)["processes"]), 2, "what was refused is no process")
		for same in (most[:2], most[4:6], most[6:], ("--memory", "none")):
			run(p, "true", options=same).exits(0)
		for bad in (("--memory", "lots"), ("--pids", "0"), ("--cpus", "x"), ("--open-files", "3"), ("--file-size", "-1")):
			contains(run(p, "true", options=bad).exits(125).one_sentence(), "is not a ")
		run(p, "true", options=("--disk", "1M")).exits(126)
		if run(p, "true", options=("--cpus", "1000")).rc != 126: # the sandbox has no limit of this kind
			equal(run(p, "true", options=("--cpus", "0.5")).receipt["limits"]["cpu_milli"], 500)


@test
def limits_are_told(p):
	with up(p):
		number = sessions.detach(p, "sleep", "1000", options=("--memory", "256M", "--open-files", "64", "--label", "web"))
		equal(sessions.process(p, number)["limits"],
			{"memory_b": 256 << 20, "cpu_milli": None, "pids": None, "open_files": 64, "file_size_b": None})
		sessions.sh(p, "true")
		equal(set(sessions.process(p, number + 1)["limits"].values()), {None}, "of a command that has none of its own")
		shown = text(p.croft("ps", "fix").exits(0).out)
		contains(shown, "[web] [memory 256M, open_files 64] sleep 1000")
		p.croft("kill", "-s", "KILL", "fix", str(number)).exits(0)
		equal(sessions.ended(p, number)["limits"]["memory_b"], 256 << 20, "when it has ended")


@test
def without_a_session_they_are_those_of_the_sandbox(p):
	envs.repository(p)
	envs.new(p, "fix")
	r = run(p, "true", options=("--memory", "64M", "--open-files", "64", "--file-size", "1M")).exits(0)
	limits = r.receipt["limits"]
	equal((limits["memory_b"], limits["open_files"], limits["file_size_b"]), (64 << 20, 64, 1 << 20))
	r = p.run("--open-files", "64", "--", "sh", "-c", "ulimit -n").exits(0)
	equal((r.out, r.receipt["limits"]["open_files"]), (b"64\n", 64))


main()
