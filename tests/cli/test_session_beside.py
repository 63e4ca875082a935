#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""Working on an environment while its session is up, and terminals that are attached later."""
import contextlib
import fcntl
import json
import os
import select
import signal
import struct

import envs
import live
import sessions
from harness import DEADLINE_S, alive, check, contains, end, equal, lacks, main, processes, test, text, wait_for

# Draws a screen as an editor does, and waits for a key; shows what it was given.
FULL_SCREEN = r"""
printf '\033[?1049h\033[2J\033[1;1Htop left\033[5;20Hmiddle\033[7m reversed \033[0m\033[10;1H'
stty -echo -icanon min 1
while :; do key=$(dd bs=1 count=1 2>/dev/null); printf '\033[12;1Hgot %s ' "$key"; done
"""


@test
def test_one_after_the_other(p):
	"""Whoever comes when the one before has ended gets its turn, though the session heard of them first."""
	live.place(p)
	a, b = live.Caller(p), live.Caller(p)
	a.settle()
	b.say(live.SETTLE, struct.pack("<I", 1))
	equal(b.hear()[0], live.ERROR, "the control: the one before is still there")
	b.close()
	pid = live.session(p)["pid"]
	os.kill(pid, signal.SIGSTOP)
	wait_for(lambda: stopped(pid), "it stands still")
	b = live.Caller(p, hello=False)
	b.greet(p)
	b.say(live.SETTLE, struct.pack("<I", 1))
	a.close()
	os.kill(pid, signal.SIGCONT)
	equal([b.hear()[0], b.hear()[0]], [live.OK, live.OK], "the answers")
	b.close()


def stopped(pid):
	with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
		return f.read().rpartition(")")[2].split()[0] == "T"


@test
def test_what_was_answered_is_seen_at_once(p):
	"""Who reads the ledger of an environment that is up need not wait until the session has sealed a batch."""
	with sessions.up(p):
		for code in range(10, 16):
			sessions.sh(p, f"exit {code}", rc=code)
			events = json.loads(p.croft("log", "--json", "fix").exits(0).out)["events"]
			ends = [x["exit"] for e in events for x in e.get("entries", []) if x["kind"] == "ended"]
			equal(ends, list(range(10, code + 1)), "what ended")
		equal(live.session(p, "fix")["state"], "up", "the session")
		holder = live.Caller(p, name="fix")
		holder.settle()
		p.croft("log", "fix").exits(0)  # whoever has it lent does not keep others from reading
		other = live.Caller(p, name="fix")
		other.say(live.SETTLE, struct.pack("<I", 0))  # what it never had it cannot give back
		equal(other.hear()[0], live.OK, "the answer")
		other.say(live.SETTLE, struct.pack("<I", 1))
		equal(other.hear()[0], live.ERROR, "it is still lent")
		other.close()
		holder.close()


@test
def test_look_and_land_while_commands_run(p):
	with sessions.up(p):
		writer = sessions.detach(p, "sh", "-c", "while :; do echo x >> /tmp/beat; sleep 0.05; done")
		sessions.sh(p, "echo new > made; sed -i s/^3$/three/ numbers")
		equal(envs.changed(p, "fix"), ["made", "numbers"], "diff")
		contains(text(p.croft("diff", "fix").exits(0).out), "+three", "diff as text")
		now = envs.status(p, "fix")
		check(now["changes"]["tree"], "status has no tree")
		contains(text(p.croft("status", "fix").exits(0).out), "open, up", "status as text")
		contains(text(p.croft("ls").exits(0).out), " up ", "ls")
		p.croft("review", "--accept-all", "fix").exits(0)
		p.croft("apply", "fix").exits(0)
		equal(p.read("made"), b"new\n", "what landed")
		equal(sessions.process(p, writer)["state"], "running", "the command meanwhile")
		sessions.sh(p, "echo later > later")
		equal(envs.changed(p, "fix"), ["later", "made", "numbers"], "diff after landing")
		log = json.loads(p.croft("log", "--json", "fix").exits(0).out)
		contains([e["kind"] for e in log["events"]], "applied", "events")
		p.croft("log", "fix").exits(0)
		p.croft("down", "-q", "fix").exits(0)
	envs.verify(p, "fix")


@test
def test_what_needs_it_down(p):
	with sessions.up(p):
		sessions.sh(p, "echo kept > kept")
		for words in (("restore", "fix", "s1"), ("rm", "fix"), ("rm", "-f", "fix"), ("discard", "fix")):
			contains(p.croft(*words).exits(126).one_sentence(), "croft down fix", " ".join(words))
		equal(sessions.sh(p, "cat kept"), "kept\n", "afterwards")
		p.croft("gc").exits(0)
		equal(sessions.sh(p, "cat kept"), "kept\n", "after gc")


@test
def test_verify_while_it_is_up(p):
	with sessions.up(p):
		sessions.sh(p, "true")
		def says():
			out = text(p.croft("evidence", "verify", "fix").exits(0).out)
			contains(out, "good: fix", "verify")
			return "is up and goes on" in out  # once its begin is sealed
		wait_for(says, "verify tells of the session")
		check(json.loads(p.croft("evidence", "verify", "--json", "fix").exits(0).out)["ledgers"][0]["up"]["session"], "as JSON")
		os.kill(sessions.ps(p)["pid"], 9)
		wait_for(lambda: not sessions.is_up(p), "it is killed")
		contains(text(p.croft("evidence", "verify", "fix").exits(1).out), "INTERRUPTED: fix", "verify of what was cut off")


@test
def test_attach_shows_the_screen_as_it_is(p):
	with sessions.up(p):
		with sessions.terminal(p, "exec", "-q", "fix", "--", "sh", "-c", FULL_SCREEN) as first:
			first.expect(b"reversed")
			with sessions.terminal(p, "attach", "fix", "1") as t:
				t.expect(b"ctrl-P ctrl-Q lets go of it")
				t.expect(b"top left")
				t.expect(b"middle")
				t.expect(b"reversed")
				t.send(b"k")
				t.expect(b"got k")
				first.expect(b"got k")
				t.send(b"\x10\x11")
				equal(t.finish(), 0, "exit status of attach")
				contains(t.log, b"let go of process 1", "what it says")
			first.send(b"j")
			first.expect(b"got j")
			p.croft("kill", "fix", "1").exits(0)
			check(first.finish() != 0, "its exit status")


@test
def test_a_terminal_attached_to_what_has_none(p):
	"""It stays as it is: lines begin at its left edge, and ctrl-C lets go."""
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", "echo one; echo two; exec sleep 100001")
		sessions.logged(p, number, "two")
		with sessions.terminal(p, "attach", "fix", str(number)) as t:
			t.expect(b"ctrl-C lets go of it")
			t.expect(b"one\r\ntwo\r\n")
			t.send(b"\x03")
			t.expect(b"let go of process %d of fix, which goes on" % number)
			equal(t.finish(), 0, "exit status of attach")
		equal(sessions.process(p, number)["state"], "running", "it goes on")


@test
def test_attach_to_what_has_no_terminal(p):
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", "echo early; while :; do sleep 0.1; test -e /tmp/go && break; done; echo late; exit 4")
		sessions.logged(p, number, "early")
		c = p.start("attach", "fix", str(number))
		equal(c.stdout.readline(), b"early\n", "what was before")
		sessions.sh(p, "touch /tmp/go")
		out, _ = c.communicate(timeout=60)
		equal((out, c.returncode), (b"late\n", 4), "the rest, and its exit status")
		equal(p.croft("attach", "fix", str(number)).exits(4).out, b"early\nlate\n", "after its end")


@test
def test_hostile_output_is_filtered_on_a_terminal(p):
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", r"printf 'before\033]52;c;aGk=\007\033[21t\033Pq\033\\after\n'")
		sessions.ended(p, number)
		with sessions.terminal(p, "logs", "fix", str(number)) as t:
			equal(t.finish(), 0, "exit status")
			contains(t.log, b"before", "what is shown")
			contains(t.log, b"after", "what is shown")
			for bad in (b"\x1b]52", b"\x1b[21t", b"\x1bP"):
				lacks(t.log, bad, "what is shown")


def asks(pid):
	"""Has it connected to somebody? It may end while we look."""
	with contextlib.suppress(OSError):
		for name in os.listdir(f"/proc/{pid}/fd"):
			with contextlib.suppress(FileNotFoundError):
				if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
					return True
	return False


def comes_while_it_ends(p, first):
	"""A session that was lent out ends: it waits for the lock, and whoever asks it for something meanwhile waits for it."""
	with sessions.up(p):
		f, borrower = live.family(p, "fix"), live.Caller(p, "fix")
		borrower.settle()
		with open(envs.state(p, "envs", "fix", "lock"), "rb") as lock:
			fcntl.flock(lock, fcntl.LOCK_EX)
			down = p.start("down", "-q", "fix")
			wait_for(lambda: not alive(f.first), "the sandbox ends")
			check(alive(f.session), "the session waits for the lock (the control)")
			if first:
				os.kill(f.session, signal.SIGSTOP)
				fcntl.flock(lock, fcntl.LOCK_UN)
			snapshot = p.start("snapshot", "fix")
			wait_for(lambda: snapshot.poll() is not None or asks(snapshot.pid), "it asks")
			os.kill(f.session, signal.SIGCONT)
		_, err = snapshot.communicate(timeout=120)
		equal(snapshot.returncode, 0, f"the snapshot: {err}")
		equal(down.wait(60), 0, "down")
		end(down)
		f.gone()
		f.close()
		borrower.close()
		contains(envs.events(p, "fix"), "snapshot", "events")
		envs.verify(p, "fix")


@test
def test_who_comes_while_it_ends_has_its_turn(p):
	comes_while_it_ends(p, False)


@test
def test_who_comes_before_it_has_its_lock_again_keeps_nobody_waiting(p):
	comes_while_it_ends(p, True)


@test
def test_output_that_does_not_block_is_whole(p):
	"""Whoever starts croft may make its standard output non-blocking, as node and asyncio do."""
	with sessions.up(p):
		out, into = os.pipe()
		os.set_blocking(into, False)
		r = p.start("exec", "-q", "fix", "--", "head", "-c", "3000000", "/dev/zero", stdout=into)
		os.close(into)
		got = 0
		with os.fdopen(out, "rb") as f:
			select.select([f], [], [])  # it is full soon, and then waits for us
			while piece := f.read(1 << 16):
				got += len(piece)
		equal((r.wait(DEADLINE_S), got), (0, 3000000), "what arrived")
		end(r)


@test
def test_output_that_cannot_be_written_is_told(p):
	with sessions.up(p):
		number = sessions.detach(p, "echo", "hello")
		sessions.logged(p, number, "hello")
		with open("/dev/full", "wb") as full:
			r = p.croft("logs", "fix", str(number), stdout=full)
		equal(r.rc, 125, "exit status")
		contains(r.err, b"cannot write the output: No space left on device")


@test
def test_a_signal_before_the_command_began_ends_the_wait(p):
	"""The session is stopped, so nothing can begin; what begins afterwards ends with who asked for it."""
	with sessions.up(p):
		pid, seconds = live.family(p, "fix").session, str(1000000 + os.getpid())

		def takes_signals(of):
			with open(f"/proc/{of}/status", encoding="ascii", errors="replace") as f:
				blocked = [line.split()[1] for line in f if line.startswith("SigBlk:")]
			return int(blocked[0], 16) >> (signal.SIGTERM - 1) & 1
		os.kill(pid, signal.SIGSTOP)
		try:
			r = p.start("exec", "-q", "fix", "--", "sleep", seconds)
			wait_for(lambda: asks(r.pid) and takes_signals(r.pid), "it waits for the session")
			r.send_signal(signal.SIGTERM)
			equal(r.wait(DEADLINE_S), 143, "exit status")
			end(r)
		finally:
			os.kill(pid, signal.SIGCONT)
		sessions.sh(p, "true")
		wait_for(lambda: not processes(seconds.encode()), "nothing of it runs")


main()
