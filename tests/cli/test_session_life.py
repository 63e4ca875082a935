#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""What ends a command of a session, what ends the session, and what does not."""
import base64
import glob
import os
import re
import select
import signal
import subprocess
import urllib.request

import envs
import sessions
from harness import CROFT, SLOW, check, contains, end, equal, lacks, main, native, test, text, wait_for

# Leaves a daemon behind: a session of its own, two forks, nothing of the caller's descriptors.
DAEMON = """
import os, sys, time
if os.fork() == 0:
	os.setsid()
	if os.fork() == 0:
		null = os.open("/dev/null", os.O_RDWR)
		for fd in range(3):
			os.dup2(null, fd)
		open(sys.argv[1], "w").write(str(os.getpid()))
		os.rename(sys.argv[1], sys.argv[1] + ".pid")
		time.sleep(100000)
	os._exit(0)
os.wait()
"""


def inside(p, script):
	"""How many processes of the sandbox have this in their command line."""
	# A pattern that does not match itself.
	return int(sessions.sh(p, f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[{script[0]}]{script[1:]}' | wc -l").strip())


def daemon(p, mark, *options, then="", rc=0):
	r = p.croft("exec", "-q", *options, "fix", "--", "sh", "-c", f'python3 -c "$1" /tmp/{mark}; {then}', "x", DAEMON)
	return r.exits(rc)


@test
def test_daemons_stay_attributed_and_are_reached(p):
	with sessions.up(p):
		daemon(p, "d1")
		wait_for(lambda: sessions.sh(p, "cat /tmp/d1.pid 2>/dev/null; true"), "the daemon is there")
		# Of others it is told a moment after their end that nothing is left.
		wait_for(lambda: [x["process"] for x in sessions.ps(p)["processes"] if x["state"] == "left processes"] == [1],
			"the first one alone left processes")
		equal(sessions.process(p, 1)["exit"], 0, "its exit status")
		sessions.sh(p, "kill -0 $(cat /tmp/d1.pid)")
		p.croft("kill", "fix", "1").exits(0)
		sessions.ended(p, 1)
		sessions.sh(p, "kill -0 $(cat /tmp/d1.pid) 2>/dev/null", rc=1)


@test
def test_time_limit_reaches_daemons(p):
	with sessions.up(p):
		daemon(p, "d2", "--timeout", f"{10 * SLOW}s", then="sleep 100000", rc=124)
		number = max(x["process"] for x in sessions.ps(p)["processes"] if x["exit"] == 124)
		sessions.ended(p, number)
		sessions.sh(p, "test -e /tmp/d2.pid")
		sessions.sh(p, "kill -0 $(cat /tmp/d2.pid) 2>/dev/null", rc=1)


@test
def test_kill_is_for_all_of_one_command(p):
	with sessions.up(p):
		other = sessions.detach(p, "sleep", "100001")
		number = sessions.detach(p, "sh", "-c", "trap 'echo got usr1' USR1; echo ready; while :; do sleep 0.1; done")
		sessions.logged(p, number, "ready")
		p.croft("kill", "-s", "USR1", "fix", str(number)).exits(0)
		sessions.logged(p, number, "got usr1")
		p.croft("kill", "-s", "KILL", "fix", str(number)).exits(0)
		equal(sessions.ended(p, number)["exit"], 137, "its exit status")
		equal(sessions.process(p, other)["state"], "running", "its neighbour")
		contains(p.croft("kill", "fix", str(number)).exits(125).one_sentence(), f"process {number} has ended", "kill once more")
		p.croft("kill", "-s", "NONSENSE", "fix", str(other)).exits(125).one_sentence()


@test
def test_signals_go_to_the_command_never_to_the_session(p):
	script = "trap 'echo int; exit 3' INT; trap 'echo term; exit 4' TERM; echo ready; while :; do sleep 0.1; done"
	with sessions.up(p):
		for sig, said, rc in ((signal.SIGINT, b"int\n", 3), (signal.SIGTERM, b"term\n", 4)):
			c = p.start("exec", "-q", "fix", "--", "sh", "-c", script)
			equal(c.stdout.readline(), b"ready\n", "started")
			c.send_signal(sig)
			out, _ = c.communicate(timeout=60)
			equal((out, c.returncode), (said, rc), f"after {sig.name}")
		check(sessions.is_up(p), "the session is gone")


@test
def test_ctrl_c_ends_the_command(p):
	with sessions.up(p), sessions.terminal(p, "exec", "-q", "fix", "--", "sh", "-c", "echo ready; exec sleep 100002") as t:
		t.expect(b"ready")
		t.send(b"\x03")
		equal(t.finish(), 130, "exit status")
		check(sessions.is_up(p), "the session is gone")


@test
def test_a_caller_that_is_killed_takes_its_command_along(p):
	with sessions.up(p):
		c = p.start("exec", "-q", "fix", "--", "sh", "-c", "echo ready; exec sleep 100003")
		equal(c.stdout.readline(), b"ready\n", "started")
		end(c)
		sessions.ended(p, 1)
		equal(inside(p, "sleep.100003"), 0, "what is left of it")


@test
def test_a_closed_terminal_ends_what_waits_for_it(p):
	with sessions.up(p):
		with sessions.terminal(p, "shell", "fix", env={"PS1": "in> "}) as t:
			t.expect(b"$", b"#", b"in> ")
			t.send(b"sleep 100004 & sleep 100005\n")
			wait_for(lambda: inside(p, "sleep.100005"), "both are started")
			stays = sessions.detach(p, "sleep", "100006")
		sessions.ended(p, 1)
		equal(inside(p, "sleep.100005"), 0, "what ran before the terminal")
		equal(inside(p, "sleep.100004"), 0, "what ran behind it")
		equal(sessions.process(p, stays)["state"], "running", "what was detached")


@test
def test_output_that_nobody_reads(p):
	"""A pipeline ends as it does without a session: its reader goes, and the writer learns of it."""
	with sessions.up(p):
		r = native(p, "sh", "-c", f"{CROFT} exec -q fix -- sh -c 'yes; echo $? > /tmp/status' | head -n 1")
		equal(r.stdout, b"y\n", "what was read")
		equal(sessions.sh(p, "cat /tmp/status"), "141\n", "how the writer ended: SIGPIPE")
		number = sessions.detach(p, "sh", "-c", "while :; do echo tick; sleep 0.02; done")
		r = native(p, "sh", "-c", f"{CROFT} logs -f fix {number} | head -n 1")
		equal(r.stdout, b"tick\n", "logs -f")
		equal(sessions.process(p, number)["state"], "running", "who was looked at goes on")


@test
def test_who_started_croft_ends(p):
	with sessions.up(p):
		for options, left in (((), 0), (("--stay",), 1)):
			c = subprocess.Popen(["sh", "-c", f"{CROFT} exec -q {' '.join(options)} fix -- sh -c 'echo ready; exec sleep 100010' & wait"],
				cwd=p.ws, env=p.env, stdout=subprocess.PIPE)
			equal(c.stdout.readline(), b"ready\n", "started")
			number = sessions.ps(p)["processes"][0]["process"]
			end(c)
			if not left:
				sessions.ended(p, number)
			else:
				equal(sessions.process(p, number)["state"], "running", "with --stay it goes on")
				p.croft("kill", "fix", str(number)).exits(0)


@test
def test_two_shells_at_once(p):
	with sessions.up(p), sessions.terminal(p, "shell", "fix") as a, sessions.terminal(p, "shell", "fix") as b:
		for t in (a, b):
			t.expect(b"$", b"#")
		a.send(b"echo from-$((1+1)) > /tmp/a; export ONLY=mine; cd dir\n")
		wait_for(lambda: sessions.sh(p, "cat /tmp/a 2>/dev/null; true"), "the first one writes")
		b.send(b"cat /tmp/a; echo [$ONLY] $(basename $PWD)\n")
		b.expect(b"from-2")
		b.expect(b"[] project")
		for t in (a, b):
			t.send(b"exit 5\n")
			equal(t.finish(), 5, "exit status")


def begin(p, *options):
	"""A session that ends soon may be gone before its first command comes, on a machine that is busy."""
	if p.croft("up", "-q", *options, "fix").rc != 0:
		return False  # another one is still about to end
	r = p.croft("exec", "-d", "fix", "--", "sleep", "100007")
	return r.rc == 0 and int(text(r.out))


@test
def test_a_caller_that_is_killed_while_its_input_waits(p):
	"""What it sends and nobody takes must not hide that it is gone."""
	with sessions.up(p):
		with open("/dev/zero", "rb") as zero:
			c = p.start("exec", "--stay", "fix", "--", "sh", "-c", "echo ready; exec sleep 100013", stdin=zero)
			equal(c.stdout.readline(), b"ready\n", "it runs")
			number = sessions.ps(p)["processes"][0]["process"]
			end(c)
		equal(sessions.ended(p, number)["exit"], 143, "the command is ended with its caller")
		number = sessions.detach(p, "sleep", "100014")  # the control: nobody waits for this one
		sessions.sh(p, "true")
		equal(sessions.process(p, number)["state"], "running", "what nobody waits for goes on")


@test
def test_linger_and_lifetime(p):
	envs.repository(p)
	envs.new(p, "fix")
	try:
		p.croft("up", "-q", "--linger", f"{SLOW}s", "fix").exits(0)
		wait_for(lambda: not sessions.is_up(p), "it ends by itself")
		number = wait_for(lambda: begin(p, "--linger", f"{SLOW}s"), "a command begins in time")
		sessions.sh(p, f"sleep {2 * SLOW}")
		equal(sessions.process(p, number)["state"], "running", "while something runs it stays")
		p.croft("kill", "fix", str(number)).exits(0)
		wait_for(lambda: not sessions.is_up(p), "it ends after the last command")
		wait_for(lambda: begin(p, "--lifetime", f"{2 * SLOW}s"), "a command begins in time")
		wait_for(lambda: not sessions.is_up(p), "it ends however busy")
	finally:
		p.croft("down", "-q", "--now", "fix")
	for bad in ("0", "x", "-1s", "5 days"):
		p.croft("up", "--linger", bad, "fix").exits(125).one_sentence()
	envs.verify(p, "fix")


def state(p):
	return sessions.ps(p)["state"]


def paused(p):
	"""Asking is not using: it wakes nothing and keeps nothing up."""
	return wait_for(lambda: state(p) == "paused", "it pauses when nobody is there")


@test
def test_pause_when_idle_and_wake(p):
	with sessions.up(p, "fix", "--pause-idle", "1s"):
		ticks = sessions.detach(p, "sh", "-c", "while :; do echo tick; sleep 0.2; done")
		server = sessions.serve(p)
		port = text(p.croft("port", "fix", "0:8000").exits(0).out).strip()
		paused(p)
		equal(state(p), "paused", "to look does not wake it")
		equal(sessions.sh(p, "echo woken"), "woken\n", "the next command")
		paused(p)
		with urllib.request.urlopen(f"http://{port}/", timeout=60) as r:
			equal(r.read(), b"hello from inside\n", "a connection")
		for number in (ticks, server):
			equal(sessions.process(p, number)["state"], "running", "it goes on")


@test
def test_pause_until_resumed(p):
	with sessions.up(p):
		ticks = sessions.detach(p, "sh", "-c", "while :; do echo tick; sleep 0.05; done")
		sessions.logged(p, ticks, "tick")
		p.croft("pause", "fix").exits(0)
		p.croft("pause", "fix").exits(125).one_sentence()
		before = sessions.process(p, ticks)["output_b"]
		contains(p.croft("exec", "fix", "--", "true").exits(126).one_sentence(), "croft resume fix", "a command meanwhile")
		contains(text(p.croft("status", "fix").exits(0).out), "nothing is staged", "status meanwhile")
		check(sessions.process(p, ticks)["output_b"] <= before + 5, "it runs while it is paused")
		p.croft("resume", "fix").exits(0)
		p.croft("resume", "fix").exits(125).one_sentence()
		wait_for(lambda: sessions.process(p, ticks)["output_b"] > before + 5, "it goes on")
		p.croft("pause", "fix").exits(0)
		p.croft("down", "-q", "fix").exits(0)
		check(not sessions.is_up(p), "down while it is paused")


@test
def test_down_gives_time_and_now_does_not(p):
	script = "trap 'sleep 2.5; echo clean > cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", script)
		sessions.logged(p, number, "ready")
		p.croft("down", "-q", "fix").exits(0)
		equal(envs.changed(p, "fix"), ["cleaned"], "what it did in its last moment")
		p.croft("up", "-q", "fix").exits(0)
		number = sessions.detach(p, "sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done")
		sessions.logged(p, number, "ready")
		p.croft("down", "-q", "--now", "fix").exits(0)
		check(not sessions.is_up(p), "it is still up")


def descendants(pid):
	found = []
	for name in os.listdir("/proc"):
		if not name.isdigit():
			continue
		try:
			with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
				if int(f.read().rpartition(")")[2].split()[1]) == pid:
					found += [int(name), *descendants(int(name))]
		except OSError:
			pass
	return found


def connected(pid):
	"""Has it a connection by a named socket?"""
	try:
		mine = {os.readlink(f"/proc/{pid}/fd/{n}")[8:-1] for n in os.listdir(f"/proc/{pid}/fd")}
	except OSError:
		return False
	with open("/proc/net/unix", encoding="ascii", errors="replace") as f:
		return any(x.split()[6] in mine and x.split()[5] == "03" for x in list(f)[1:])


def meets_the_end(p, asked):
	"""A command that its session never started: its standard input and signals are its own, and what was staged is there."""
	with sessions.up(p):
		sessions.sh(p, "echo kept > kept")
		pid = sessions.ps(p)["pid"]
		os.kill(pid, signal.SIGSTOP)
		down = p.start("down", "-q", "--now", "fix") if asked else None
		if down:
			wait_for(lambda: connected(down.pid), "down is connected")
		c = p.start("exec", "-q", "fix", "--", "sh", "-c", "cat kept -; grep SigBlk /proc/self/status; exit 3",
			stdin=subprocess.PIPE)
		d = p.start("exec", "-d", "fix", "--", "true")
		wait_for(lambda: connected(c.pid) and connected(d.pid), "they are connected")
		if not down:
			os.kill(pid, signal.SIGKILL)
		os.kill(pid, signal.SIGCONT)
		out, err = c.communicate(b"input\n", timeout=60)
		equal((out, c.returncode), (b"kept\ninput\nSigBlk:\t0000000000000000\n", 3), f"what it did {err}")
		out, err = d.communicate(timeout=60)
		check(d.returncode in (125, 126) and any(x in err for x in (b"not up", b"going down", b"ended")),
			"exec -d needs a session", err)
		if down:
			equal(down.wait(60), 0, "down")
	envs.verify(p, "fix")


@test
def test_a_command_that_meets_the_death_of_its_session_runs_by_itself(p):
	meets_the_end(p, False)


@test
def test_a_command_that_meets_the_end_of_its_session_runs_by_itself(p):
	meets_the_end(p, True)


@test
def test_killed_session_leaves_nothing_and_the_next_says_so(p):
	with sessions.up(p):
		sessions.sh(p, "echo kept > kept")
		sessions.detach(p, "sleep", "100009")
		pid = sessions.ps(p)["pid"]
		tree = descendants(pid)
		check(len(tree) >= 2, "its processes", tree)
		os.kill(pid, signal.SIGKILL)
		wait_for(lambda: not [x for x in tree if os.path.exists(f"/proc/{x}")], "nothing of it is left")
		contains(p.croft("ps", "fix").exits(125).one_sentence(), "fix is not up", "ps")
		r = p.croft("up", "fix").exits(0)
		contains(text(r.out) + text(r.err), "was cut off while 1 command ran", "what up says of it")
		equal(sessions.sh(p, "cat kept"), "kept\n", "staged work")
	envs.verify(p, "fix")


@test
def signals_do_not_wait_behind_input_that_nobody_reads(p):
	with sessions.up(p):
		for sig in (signal.SIGINT, signal.SIGTERM):
			c = p.start("exec", "-q", "fix", "--", "sh", "-c", f"echo ready; trap 'echo caught; exit 7' {sig.name[3:]}; while :; do sleep 0.01; done")
			equal(c.stdout.readline(), b"ready\n", "the command")
			# As much as the pipes, the session and its sockets take; then the caller reads no more of it.
			os.set_blocking(c.stdin.fileno(), False)
			sent = seen = 0
			while sent < 256 << 20 and seen < 200:
				try:
					sent += os.write(c.stdin.fileno(), b"x" * 65536)
					seen = 0
				except BlockingIOError:
					seen += 1
					select.select([], [c.stdin], [], 0.01)
			check(sent < (256 << 20), "input that waits (the control)", sent)
			c.send_signal(sig)
			equal(c.stdout.readline(), b"caught\n", "what the command says")
			equal(c.wait(60), 7, "exit status")
			end(c)


def recorded(p):
	"""Every byte of evidence: journals as they are, and all that Git holds of them."""
	found = []
	for top, _, names in os.walk(envs.state(p, "envs")):
		for name in names:
			path = os.path.join(top, name)
			if os.path.isfile(path):
				with open(path, "rb") as f:
					found.append(f.read())
	for store in [p.ws, *glob.glob(envs.state(p, "repos", "*"))]:
		r = native(p, "git", "-C", store, "cat-file", "--batch-all-objects", "--batch", "--unordered")
		equal(r.returncode, 0, store)
		found.append(r.stdout)
		found += [base64.b64decode(x) for x in re.findall(rb'"payload":"([A-Za-z0-9+/=]*)"', r.stdout)]
	return b"\n".join(found)


@test
def a_secret_that_is_stored_while_it_is_up_is_in_no_record(p):
	value, again, control = "hush-5d1c-rather-long", "zero-77aa-rather-long", "open-0000-rather-long"
	with sessions.up(p):
		cat = p.start("exec", "-q", "fix", "--", "cat")
		cat.stdin.write(f"{value} {control}\n".encode())
		cat.stdin.flush()
		contains(cat.stdout.readline(), value.encode())
		p.croft("secret", "set", "NEW", stdin=value.encode()).exits(0)
		equal(sessions.sh(p, f"echo {value}"), value + "\n", "what its caller sees")
		cat.communicate(value.encode())
		for _ in range(3): # set at once again and again: the store's times hardly differ
			again = again[1:] + again[0]
			p.croft("secret", "set", "NEW", stdin=again.encode()).exits(0)
			sessions.sh(p, f"echo {again}")
		found = recorded(p)
	found += recorded(p)
	check(control.encode() in found and b"[redacted:value]" in found, "what they wrote is recorded (the control)")
	lacks(found, value.encode(), "what is recorded")
	for _ in range(3):
		lacks(found, again.encode(), "what is recorded")
		again = again[-1] + again[:-1]
	envs.verify(p, "fix")


main()
