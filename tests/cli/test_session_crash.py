#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""kill -9 of every process that a session is made of, whatever it does at that moment.

Afterwards nothing is left behind, every command that was answered is in the ledger, staged work is whole, and
the next command says what has happened. The control is in each case: work that was done before, and commands that
were not meant, are there.
"""
import json
import os
import signal
import subprocess

from envs import changed, in_journal, new, repository, verify, work
from harness import (CROFT, SLOW, Skip, alive, check, contains, end, equal, kill_quietly, lacks, main, mounts, parent_of, reclaim, settle, test, text,
	wait_for)
from live import (Caller, Family, all_of, below, children, detach, end_all, ended, entries, family, line_of, place, session, state_names,
	up, wait_state)
from terminal import Terminal

CUT = "was cut off"
# Something that ends only when it is killed, and says when it is there.
DEAF = "trap '' TERM HUP INT; echo ready; while :; do sleep 1000; done"


def native_start(p, *argv):
	return subprocess.Popen(argv, cwd=p.ws, env=p.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def answered(p, tag):
	"""Three commands that were answered; what their records must say."""
	want = set()
	for i in range(3):
		command = ("sh", "-c", f"echo {tag}{i} >> log; exit {i}")
		p.croft("exec", "-q", "e", "--", *command).exits(i)
		want.add((command, i))
	return want


class Scene:
	"""A session in one state, with something in it to be hit."""

	def __init__(self, p, state):
		self.p, self.state = p, state
		self.mounts = mounts()
		self.children, self.terminal, self.caller, self.own = [], None, None, None
		place(p)
		self.want = answered(p, state.replace(" ", "-"))
		getattr(self, "be_" + state.replace(" ", "_"))()
		self.family = family(p)

	def start(self, *args):
		child = self.p.start(*args)
		self.children.append(child)
		return child

	def attached(self):
		"""A command that somebody waits for."""
		self.caller = self.start("exec", "-q", "e", "--", "sh", "-c", DEAF)
		equal(self.caller.stdout.readline(), b"ready\n", "the command")

	def be_idle(self):
		pass

	def be_running(self):
		self.attached()
		detach(self.p, "sh", "-c", DEAF)

	def be_detached(self):
		detach(self.p, "sh", "-c", DEAF)

	def be_on_a_terminal(self):
		self.terminal = Terminal()
		self.caller = self.terminal.start(self.p.argv("exec", "-q", "e", "--", "sh", "-c", DEAF), self.p.ws, self.p.env)
		self.terminal.expect(b"ready")

	def be_paused(self):
		self.attached()
		self.p.croft("pause", "e").exits(0)

	def be_going_down(self):
		self.attached()
		down = self.start("down", "-q", "e")
		wait_for(lambda: (session(self.p) or {"state": ""})["state"] == "going down" or down.poll() is not None, "it goes down")

	def be_lent(self):
		self.attached()
		self.own = Caller(self.p)
		self.own.settle()

	def hit(self, victim):
		pid = {"session": self.family.session, "first process": self.family.first, "screen": self.family.screen,
			"caller": self.caller.pid if self.caller else 0}.get(victim)
		if victim == "reapers":
			for r in self.family.reapers:
				os.kill(r, signal.SIGKILL)
			# A command that is handed to one that is just dying is lost, and its caller told so.
			wait_for(lambda: not any(alive(r) for r in self.family.reapers), "the reapers are gone")
			return
		check(pid, f"there is no {victim}")
		os.kill(pid, signal.SIGKILL)

	def done(self):
		for c in self.children:
			end(c)
		if self.terminal:
			self.terminal.close()
		if self.own:
			self.own.close()
		self.family.close()
		end_all(self.p)


def after(s, victim):
	"""What must hold when the sandbox was ended."""
	p, note = s.p, victim == "session" or s.state != "going down"
	s.family.gone()
	for c in s.children:
		c.wait(60)
	if s.own:
		s.own.close()
	if s.caller and not s.terminal:
		code, err = s.caller.returncode, text(s.caller.stderr.read())
		if victim == "session":
			equal(code, 125, "the caller's exit status")
			contains(err, "the session of e ended")
		else:
			equal(code, 137, "the caller's exit status")
	r = p.croft("exec", "e", "--", "cat", "log").exits(0)
	got = text(r.out).split()
	equal(len(got), 3, "staged work")
	if note:
		contains(text(r.err), CUT, "what the next command says")
	lacks(text(p.croft("exec", "e", "--", "true").exits(0).err), CUT, "the command after it")
	check(s.want <= ended(p), "an answered command is not in the ledger", s.want - ended(p))
	verify(p)
	equal(in_journal(p), [], "the journal")
	equal(changed(p), ["log"], "staged")
	equal(session(p), None, "a session")
	settle(mounts, s.mounts, "mounts")
	reclaim(p)
	equal(all_of(p), [], "processes")
	# And it can come up again.
	up(p)
	equal(work(p, "cat log").split(), got, "staged work, when it is up again")
	p.croft("down", "-q", "e").exits(0)
	equal(set(state_names(p)) - {"stat-cache"}, {"env.json", "journal", "lock"}, "the environment's directory")


def goes_on(s, victim):
	"""What must hold when only a command was hit, or who waited for it."""
	p = s.p
	if s.caller:
		if s.terminal:
			s.terminal.finish()
		else:
			s.caller.wait(60)
		equal(s.caller.returncode, -9 if victim == "caller" else 137, "the caller's exit status")
	if s.state == "paused":
		equal(session(p)["state"], "paused", "the session")
		p.croft("resume", "e").exits(0)
	if s.own:
		s.own.close()
	mine = [x for x in session(p)["processes"] if not x["detached"]]
	for x in mine:
		wait_state(p, x["process"], "ended")
	if victim == "caller" and s.state == "running":
		equal([x["state"] for x in session(p)["processes"] if x["detached"]], ["running"], "the detached command")
	equal(work(p, "cat log").split()[-1:], [s.state.replace(" ", "-") + "2"], "staged work, in the same session")
	p.croft("down", "--now", "-q", "e").exits(0)
	s.family.gone()
	check(s.want <= ended(p), "an answered command is not in the ledger", s.want - ended(p))
	began = [x[3] for x in entries(p) if x[0] == "started"]
	over = [x[3] for x in entries(p) if x[0] != "started"]
	equal(sorted(began), sorted(over), "each command that started has ended")
	verify(p)
	equal(in_journal(p), [], "the journal")
	settle(mounts, s.mounts, "mounts")


def scene(state, victim, holds):
	def run(p):
		s = Scene(p, state)
		try:
			s.hit(victim)
			holds(s, victim)
		finally:
			s.done()
	run.__name__ = f"test_{victim.replace(' ', '_')}_killed_while_{state.replace(' ', '_')}"
	test(run)


STATES = ("idle", "running", "detached", "on a terminal", "paused", "going down", "lent")
for a_state in STATES:
	scene(a_state, "session", after)
	scene(a_state, "first process", after)
for a_state in ("running", "detached", "on a terminal", "paused", "lent"):
	scene(a_state, "reapers", goes_on)
for a_state in ("running", "on a terminal", "paused", "lent"):
	scene(a_state, "caller", goes_on)


@test
def test_screen_killed(p):
	"""The model of a terminal is lost: the command and its terminal are not."""
	s = Scene(p, "on a terminal")
	try:
		if not s.family.screen:
			raise Skip("no model of the screen here")
		s.hit("screen")
		looks = Terminal()
		try:
			looks.start(p.argv("attach", "e"), p.ws, p.env)
			looks.expect(b"lets go of it")
			looks.send(b"\x10\x11")
			looks.expect(b"let go of process")
		finally:
			looks.close()
		equal(work(p, "cat log | wc -l").strip(), "3", "the session")
		p.croft("down", "--now", "-q", "e").exits(0)
		s.family.gone()
		check(s.want <= ended(p), "an answered command is not in the ledger")
		verify(p)
	finally:
		s.done()


# A lookup starts the gateway; afterwards lines are answered with what a connection gives.
REACH = """
import socket, sys
def reach():
    try:
        with socket.create_connection(("api.example", 443), 20) as s:
            s.sendall(b"no greeting of TLS\\r\\n\\r\\n")
            return "answer: %r" % s.recv(100)
    except OSError as e:
        return type(e).__name__
print(reach(), flush=True)
for line in sys.stdin:
    print(reach(), flush=True)
"""


@test
def test_gateway_and_keeper_killed(p):
	"""Connections are refused from then on; nothing else of the session is harmed, and its record says so."""
	for victim, state in (("gateway", "up"), ("keeper", "up"), ("gateway", "paused")):
		repository(p)
		p.croft("secret", "set", "TOKEN", stdin=b"a value that nobody sees\n").exits(0)
		new(p)
		r = p.croft("up", "-q", "--allow-host", "api.example", "--secret", "TOKEN@api.example", "e")
		if r.rc == 126:
			raise Skip(text(r.err).strip().splitlines()[-1])
		r.exits(0)
		want = answered(p, victim)
		s = p.start("exec", "-q", "e", "--", "python3", "-c", REACH)
		f = None
		try:
			s.stdout.readline()
			wait_for(lambda: b"croft-gateway" in b"".join(line_of(c) for c in children(session(p)["pid"])), "the gateway")
			f = family(p)
			check(getattr(f, victim), f"there is no {victim}", f.__dict__)
			if state == "paused":
				p.croft("pause", "e").exits(0)
			os.kill(getattr(f, victim), signal.SIGKILL)
			if state == "paused":
				p.croft("resume", "e").exits(0)
			s.stdin.write(b"\n")
			s.stdin.flush()
			check(s.stdout.readline().strip(), "an attempt to connect has an end")
			equal(work(p, "cat log | wc -l").strip(), "3", "another command")
			p.croft("down", "--now", "-q", "e").exits(0)
			s.wait(60)
			f.gone()
		finally:
			end(s)
			if f:
				f.close()
			end_all(p)
		check(want <= ended(p), "an answered command is not in the ledger")
		verify(p)
		p.croft("rm", "--force", "-q", "e").exits(0)
		p.done()
		os.makedirs(p.ws)


def coming_up(p, victim, nth):
	"""kill -9 as soon as there are so many processes; what is left is nothing, or a whole session."""
	before = mounts()
	child = p.start("up", "-q", "e")
	try:
		seen = []

		def there():
			seen[:] = [c for c in all_of(p) if parent_of(c) == 1 or line_of(parent_of(c))[:14] != line_of(c)[:14]]
			return len(below(seen[0])) >= nth if seen else child.poll() is not None
		wait_for(there, "it comes up")
		pids = below(seen[0]) if seen else []
		held = Family(seen[0]) if seen else None
		pid = {"session": seen[0] if seen else 0, "first process": pids[1] if len(pids) > 1 else 0, "caller": child.pid}[victim]
		if pid:
			kill_quietly(pid)
		child.wait(60)
	finally:
		end(child)
	hit = pid and victim != "caller"
	if hit:
		held.gone()
	if held:
		held.close()
	check(child.returncode in (0, 125, -9 if victim == "caller" else 0), "its exit status", child.returncode)
	r = p.croft("exec", "e", "--", "cat", "kept").exits(0)
	equal(r.out, b"kept\n", "staged work")
	if not hit:
		p.croft("down", "--now", "-q", "e")  # it may have come up all the same
		wait_for(lambda: not all_of(p), "nothing is left of it")
	equal(all_of(p), [], "processes")
	p.croft("exec", "-q", "e", "--", "true").exits(0)
	verify(p)
	equal(in_journal(p), [], "the journal")
	settle(mounts, before, "mounts")


@test
def test_killed_while_coming_up(p):
	repository(p)
	new(p)
	work(p, "echo kept > kept")
	for victim in ("session", "first process", "caller"):
		for nth in (1, 2, 3):
			coming_up(p, victim, nth)
	up(p)  # the control
	equal(work(p, "cat kept"), "kept\n", "the next session")
	p.croft("down", "-q", "e").exits(0)


@test
def test_killed_under_a_storm(p):
	"""Whatever many callers at once were told before the session was killed is in the ledger."""
	for victim in ("session", "first"):
		place(p)
		f = family(p)
		script = f'for i in 1 2 3 4 5 6 7 8 9; do "{CROFT}" exec -q e -- sh -c "echo $0.$i >> log; exit 3"; test $? = 3 && echo $0.$i; done'
		callers = [native_start(p, "sh", "-c", script, str(n)) for n in range(6)]
		try:
			equal(callers[0].stdout.readline(), b"0.1\n", "the first answer")
			kill_quietly(getattr(f, victim))
			f.gone()
			told = {"0.1"}
			for c in callers:
				told |= set(text(c.communicate(timeout=120)[0]).split())
		finally:
			for c in callers:
				end(c)
			f.close()
		p.croft("exec", "-q", "e", "--", "true").exits(0)
		got = {x[1][2].split()[1] for x in entries(p) if x[0] == "ended" and x[2] == 3 and x[1]}
		alone = {x for x in work(p, "cat log").split()}
		check(told <= alone, "staged work", told - alone)
		# A caller whose session is killed before it was told that its command started runs it by itself.
		events = json.loads(p.croft("log", "--json", "e").exits(0).out)["events"]
		by_itself = sum(e["kind"] == "exec" and e["exit"] == 3 for e in events)
		equal(by_itself, len(told - got), "commands that were answered and not by the session: " + " ".join(sorted(told - got)))
		verify(p)
		equal(in_journal(p), [], "the journal")
		p.croft("rm", "--force", "-q", "e").exits(0)
		p.done()
		os.makedirs(p.ws)


@test
def test_no_time_limit_is_outlived(p):
	"""What a command leaves behind ends at its limit, whatever it ignores; what has no limit goes on (the control)."""
	place(p)
	stays = "(trap '' TERM HUP; exec sleep 1000 >/dev/null 2>&1) & "
	p.croft("exec", "-q", "--timeout", "500ms", "e", "--", "sh", "-c", stays + "exec sleep 1000").exits(124)
	p.croft("exec", "-q", "--timeout", f"{5 * SLOW}s", "e", "--", "sh", "-c", stays).exits(0)
	p.croft("exec", "-q", "e", "--", "sh", "-c", stays).exits(0)
	for process in (1, 2):
		wait_state(p, process, "ended")
	equal([x["state"] for x in session(p)["processes"] if x["process"] == 3], ["left processes"], "without a limit")
	p.croft("down", "--now", "-q", "e").exits(0)


@test
def test_detached_prints_its_number_alone(p):
	place(p)
	for i in range(10):
		equal(detach(p, "sh", "-c", "echo something; sleep 1000"), i + 1, "the number")
	p.croft("down", "--now", "-q", "e").exits(0)


main()
