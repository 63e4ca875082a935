# SPDX-License-Identifier: Apache-2.0
"""What the tests of sessions share: one that is up, the processes it is made of, and its part of the ledger."""
import contextlib
import json
import os
import select
import signal
import socket
import struct

from envs import new, repository
from harness import DEADLINE_S, Failed, check, equal, kill_quietly, parent_of, processes, text, wait_for


def up(p, name="e", *options, **kw):
	return p.croft("up", "-q", *options, name, **kw).exits(0)


def place(p, *options):
	"""A repository, an environment and its session."""
	repository(p)
	new(p)
	up(p, "e", *options)


def session(p, name="e"):
	"""What croft ps says of one session, or None when it is not up."""
	r = p.croft("ps", "--json", name)
	return json.loads(r.out) if r.rc == 0 and r.out.startswith(b"{") else None


def line_of(pid):
	try:
		with open(f"/proc/{pid}/cmdline", "rb") as f:
			return f.read()
	except OSError:
		return b""


def children(pid):
	found = []
	with contextlib.suppress(OSError):
		for task in os.listdir(f"/proc/{pid}/task"):
			with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
				found += [int(n) for n in f.read().split()]
	return sorted(found)


def below(pid):
	"""A process and all that descends from it."""
	found, todo = [], [pid]
	while todo:
		found.append(todo.pop())
		todo += children(found[-1])
	return found


class Family:
	"""The processes of a session, held so that their numbers cannot mean others."""

	def __init__(self, pid):
		self.session = pid
		self.first = next((c for c in children(pid) if line_of(c).startswith(line_of(pid)[:14])), 0)
		self.reapers = [c for c in children(self.first) if line_of(c) == line_of(self.first)] if self.first else []
		helpers = [(c, line_of(c)) for c in children(pid)]
		self.keeper = next((c for c, line in helpers if b"croft-gateway\0--keeper" in line), 0)
		self.gateway = next((c for c, line in helpers if b"croft-gateway" in line and c != self.keeper), 0)
		self.screen = next((c for c, line in helpers if b"croft-screen" in line), 0)
		self.held = {}
		for c in below(pid):
			with contextlib.suppress(ProcessLookupError):
				self.held[c] = os.pidfd_open(c)

	def reaper_of(self, inside):
		"""The reaper above a process of the sandbox (a number on the host)."""
		while inside > 1 and parent_of(inside) != self.first:
			inside = parent_of(inside)
		return inside

	def gone(self):
		"""Wait until none of them is left."""
		left = dict(self.held)
		while left:
			ready = select.select(list(left.values()), [], [], DEADLINE_S)[0]
			if not ready:
				raise Failed(f"still there: {[(c, line_of(c)) for c in left]}")
			left = {c: fd for c, fd in left.items() if fd not in ready}

	def close(self):
		for fd in self.held.values():
			os.close(fd)
		self.held = {}


def family(p, name="e"):
	found = session(p, name)
	check(found, f"{name} is not up")
	return Family(found["pid"])


def entries(p, name="e"):
	"""What the ledger has of all sessions: (kind, command or None, exit status or None, process), oldest first."""
	found, commands = [], {}
	for event in json.loads(p.croft("log", "--json", name).exits(0).out)["events"]:
		for x in event.get("entries", []):
			if "command" in x:
				commands[x["run"]] = x["command"]
			found.append((x["kind"], commands.get(x.get("run")), x.get("exit"), x.get("process")))
	return found


def ended(p, name="e"):
	return {(tuple(c or ()), rc) for kind, c, rc, _ in entries(p, name) if kind == "ended"}


def all_of(p):
	"""Every process of a session that was started below this place's HOME: as root, or where one's own."""
	mark = b"HOME=" + os.fsencode(p.home) + b"\0"
	found = []
	for pid in processes(b"croft\0session\0"):
		with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
			if mark in f.read():
				found.append(pid)
	return found


def end_all(p):
	for pid in all_of(p):
		kill_quietly(pid, signal.SIGKILL)


def state_names(p, name="e"):
	"""Names in the environment's own directory; what it is made of, and what a session leaves."""
	return sorted(os.listdir(os.path.join(p.home, ".local/state/croft/envs", name)))


def wait_state(p, process, *states, name="e"):
	def now():
		found = session(p, name)
		return next((x["state"] for x in (found or {"processes": []})["processes"] if x["process"] == process), None)
	return wait_for(lambda: now() in states and now(), f"process {process} is {states}")


def detach(p, *command, name="e"):
	"""croft exec -d; the number of the process."""
	return int(text(p.croft("exec", "-d", name, "--", *command).exits(0).out))


# ---- a caller of our own ----

HELLO, EXEC, STDIN, SIGNAL, RESIZE, READ, LIST, STOP, PORT, PAUSE, POLICY, SETTLE, WATCH, OK, ERROR = range(1, 16)
PROTOCOL = 3


def string(s):
	return struct.pack("<I", len(s)) + s + b"\0"


class Caller:
	"""A connection to a session that says whatever it is told to (src/ipc/session_link.h)."""

	def __init__(self, p, name="e", hello=True):
		self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
		self.sock.settimeout(DEADLINE_S)
		top = os.open(os.path.join(p.home, ".local/state/croft/envs", name), os.O_RDONLY | os.O_DIRECTORY)
		try:  # the path may be longer than a socket's name can be
			self.sock.connect(f"/proc/self/fd/{top}/socket")
		finally:
			os.close(top)
		if hello:
			self.greet(p)
			equal(self.hear()[0], OK, "the greeting's answer")

	def greet(self, p):
		version = text(p.croft("--version").exits(0).out).split()[1]
		self.say(HELLO, struct.pack("<I", PROTOCOL) + string(version.encode()))

	def say(self, kind, body=b"", tag=1, process=0):
		self.sock.sendall(struct.pack("<IIII", len(body), kind, tag, process) + body)

	def _take(self, n):
		got = b""
		while len(got) < n:
			piece = self.sock.recv(n - len(got))
			if not piece:
				raise EOFError
			got += piece
		return got

	def hear(self):
		"""The next frame: type and body."""
		n, kind, _, _ = struct.unpack("<IIII", self._take(16))
		return kind, self._take(n)

	def settle(self):
		"""Borrow what is recorded, as croft diff does."""
		self.say(SETTLE, struct.pack("<I", 1))
		equal(self.hear()[0], OK, "what is recorded is lent")

	def close(self):
		self.sock.close()
