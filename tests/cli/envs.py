# SPDX-License-Identifier: Apache-2.0
"""What the tests of environments share: repositories, work in them, and what must hold afterwards."""
import contextlib
import ctypes
import glob
import json
import os
import shutil
import signal
import subprocess

from harness import DEADLINE_S, Failed, Skip, check, equal, need, need_tier, text

LONG = bool(os.environ.get("CROFT_TEST_LONG"))
# Steps at which CROFT_CRASH_AT kills.
EXEC_STEPS = ("exec.begun", "exec.ended", "record.sealed", "record.event")
LAND_STEPS = ("land.planned", "land.staged", "land.intent", "land.file", "land.file:2", "land.file:4", "land.index", "land.ref",
	"land.event", "land.done")
SESSION_STEPS = ("session.started", "session.ended", "session.seal", "session.event", "session.sealed")
# What an agent may do in between.
WORK = ("sed -i 's/^3$/three/' numbers; rm gone; mkdir -p new/deep; echo n > new/deep/n; rm -r dir; ln -s numbers dir; chmod -x tool.sh;"
	"git add new; git commit -qm inside")
NUMBERS = "".join(f"{i}\n" for i in range(1, 41))


# ---- repositories ----

def git(p, *args, cwd=None, env=None, stdin=None, rc=0):
	"""git as the user; its output without the last newline."""
	r = subprocess.run([need("git"), *args], cwd=cwd or p.ws, env={**p.env, "GIT_CONFIG_NOSYSTEM": "1", **(env or {})},
		input=stdin, capture_output=True, check=False, timeout=4 * DEADLINE_S)
	if rc is not None and r.returncode != rc:
		raise Failed(f"git {args}: exit {r.returncode}\n{text(r.stdout)[-800:]}\n{text(r.stderr)[-800:]}")
	return os.fsdecode(r.stdout).removesuffix("\n")


def identity(p):
	p.write(os.path.join(p.home, ".gitconfig"), "[user]\n\tname = Tester\n\temail = tester@example.org\n"
		"[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n")


def repository(p, *init, at=None):
	"""A small repository with a commit; the project of the place unless told otherwise."""
	need_tier("namespace")
	at = at or p.ws
	identity(p)
	os.makedirs(at, exist_ok=True)
	git(p, "init", "-q", *init, at)
	for name, content in (("numbers", NUMBERS), ("dir/b.txt", "b\n"), ("dir/c.txt", "c\n"), ("gone", "bye\n"),
		(".gitignore", "node_modules/\n*.o\n")):
		p.write(os.path.join(at, name), content)
	p.write(os.path.join(at, "tool.sh"), "#!/bin/sh\n", 0o755)
	git(p, "add", "-A", cwd=at)
	git(p, "commit", "-q", "-m", "start", cwd=at)
	return at


def tree_now(p, cwd=None):
	"""The tree that `git add -A` makes of the checkout, without touching the user's index."""
	index = os.path.join(p.root, "index-of-test")
	with contextlib.suppress(FileNotFoundError):
		os.unlink(index)
	env = {"GIT_INDEX_FILE": index}
	git(p, "read-tree", "HEAD", cwd=cwd, env=env)
	git(p, "add", "-A", cwd=cwd, env=env)
	return git(p, "write-tree", cwd=cwd, env=env)


def clean(p, what="the host's checkout", cwd=None):
	equal(git(p, "status", "--porcelain", cwd=cwd), "", what)


# ---- environments ----

def new(p, name="e", *options, **kw):
	return p.croft("new", "-q", *options, name, **kw).exits(0)


def work(p, script, name="e", *options, rc=0, **kw):
	"""A shell script in the environment; what it printed."""
	r = p.croft("exec", "-q", *options, name, "--", "sh", "-c", script, **kw)
	return text(r.exits(rc).out)


def tree_inside(p, name="e", **kw):
	"""The tree that `git add -A` makes of the workspace as a command inside sees it."""
	return work(p, "cp .git/index /tmp/i && export GIT_INDEX_FILE=/tmp/i && git add -A && git write-tree", name, **kw).strip()


def status(p, name="e", **kw):
	return json.loads(p.croft("status", "--json", name, **kw).exits(0).out)


def staged_tree(p, name="e", **kw):
	return status(p, name, **kw)["changes"]["tree"]


def diff(p, name="e", *options, **kw):
	return json.loads(p.croft("diff", "--json", *options, name, **kw).exits(0).out)


def changed(p, name="e", **kw):
	return sorted(f["path"] for f in diff(p, name, "--names", **kw)["files"])


def names(p):
	return [e["name"] for e in json.loads(p.croft("ls", "-a", "--json").exits(0).out)["environments"]]


def events(p, name="e"):
	"""Kinds of the events in the ledger, oldest first."""
	return [e["kind"] for e in json.loads(p.croft("log", "--json", name).exits(0).out)["events"]]


def verify(p, name="e", **kw):
	r = p.croft("evidence", "verify", name, **kw)
	check(r.rc == 0 and b"good: " in r.out, f"the evidence of {name} is not good", r)
	return r


def state(p, *parts):
	return os.path.join(p.home, ".local/state/croft", *parts)


def look(p):
	"""The checkout, as far as a landing may change it."""
	return (tree_now(p), git(p, "rev-parse", "HEAD^{tree}"), git(p, "write-tree"), git(p, "status", "--porcelain"),
		git(p, "rev-parse", "-q", "--verify", "landing^{tree}", rc=None))


def in_journal(p, name="e"):
	"""What the journal still holds: runs that were not recorded, and bytes that a recorded one left."""
	top = state(p, "envs", name, "journal")
	runs = sorted(set(os.listdir(top)) - {"spare"})
	spare = os.path.join(top, "spare")
	left = [f for f in sorted(os.listdir(spare)) if os.path.getsize(os.path.join(spare, f))] if os.path.isdir(spare) else []
	return runs + left


def record(p, name="e"):
	with open(state(p, "envs", name, "env.json"), encoding="utf-8") as f:
		return json.load(f)


def edit_record(p, name, **members):
	"""Another hand wrote the record."""
	changed_record = {**record(p, name), **members}
	with open(state(p, "envs", name, "env.json"), "w", encoding="utf-8") as f:
		json.dump(changed_record, f)


def refused(r, *words, rc=(125, 126)):
	"""One sentence that says so, and nothing on standard output."""
	check(r.rc in rc, f"exit status {r.rc}, want {rc}", r)
	line = r.one_sentence()
	for w in words:
		check(w in line, f"{w!r} is not in the sentence", line)
	return line


def leftovers(p, cwd=None):
	"""Names in the Git directory that a landing may make but not leave."""
	top = os.path.join(cwd or p.ws, git(p, "rev-parse", "--git-dir", cwd=cwd))
	return sorted(f for f in os.listdir(top) if "croft" in f or f.endswith(".lock"))


# ---- the whole place, kept and put back ----

class Saved:
	"""HOME with workspace and state as they are now; restore() puts them back, under the same names."""

	def __init__(self, p, name="saved"):
		self.p, self.copy = p, os.path.join(p.root, name)
		copy_tree(p.home, self.copy)

	def restore(self):
		open_up(self.p.home)
		shutil.rmtree(self.p.home)
		copy_tree(self.copy, self.p.home)

	def drop(self):
		shutil.rmtree(self.copy)


def open_up(home):
	"""The kernel gives its own directories in layers (work/work) a mode that lets nobody in, not even their owner."""
	for d in glob.glob(os.path.join(glob.escape(home), ".local/state/croft/layers/*/w*/work")):
		subprocess.run([need("chmod"), "-R", "u+rwx", "--", d], check=True, timeout=DEADLINE_S)


def copy_tree(a, b):
	open_up(a)
	subprocess.run([need("cp"), "-a", "--", a, b], check=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL)


# ---- crashes at every step ----

PTRACE_TRACEME, PTRACE_KILL, PTRACE_SYSCALL, PTRACE_SETOPTIONS, PTRACE_GET_SYSCALL_INFO = 0, 8, 24, 0x4200, 0x420E
PTRACE_O_TRACESYSGOOD, PTRACE_O_EXITKILL = 1, 1 << 20
# What changes a file system, by number on this architecture. Writes to pipes are counted with the others.
CALLS = {"x86_64": {1, 18, 20, 40, 74, 75, 76, 77, 82, 83, 84, 86, 87, 88, 133, 162, 258, 259, 263, 264, 265, 266, 296, 306,
	316, 326}, "aarch64": {29, 33, 34, 35, 36, 37, 38, 46, 64, 66, 68, 71, 81, 82, 83, 267, 276, 285}}


class _SyscallInfo(ctypes.Structure):
	_fields_ = [("op", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 3), ("arch", ctypes.c_uint32), ("ip", ctypes.c_uint64),
		("sp", ctypes.c_uint64), ("nr", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 8)]


def _trace_me(libc, argv, cwd, env, log):
	"""In the child: from here on the parent sees every system call."""
	os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
	os.dup2(log, 1)
	os.dup2(log, 2)
	os.chdir(cwd)
	if libc.ptrace(PTRACE_TRACEME, 0, None, None) < 0:
		os._exit(77)
	os.execve(argv[0], argv, env)


def _next_call(libc, pid, info):
	"""On to the next entry of a system call; its number, or None when the process has ended, with its status."""
	deliver = 0
	while True:
		if libc.ptrace(PTRACE_SYSCALL, pid, None, ctypes.c_void_p(deliver)) < 0:
			raise Failed("ptrace: " + os.strerror(ctypes.get_errno()))
		_, st = os.waitpid(pid, 0)
		if not os.WIFSTOPPED(st):
			return None, st
		deliver = 0 if os.WSTOPSIG(st) in (signal.SIGTRAP, signal.SIGTRAP | 0x80) else os.WSTOPSIG(st)
		if os.WSTOPSIG(st) != signal.SIGTRAP | 0x80:
			continue
		n = libc.ptrace(PTRACE_GET_SYSCALL_INFO, pid, ctypes.c_void_p(ctypes.sizeof(info)), ctypes.byref(info))
		if n > 0 and info.op == 1:
			return info.nr, None


def killed_at(p, nth, *args, env=None):
	"""
	Run croft and kill it, as power would, just before its nth call that changes a file system. Returns how many
	calls there were when it ended by itself before that, and None when it was killed.
	"""
	calls = CALLS.get(os.uname().machine)
	if not calls:
		raise Skip(f"the numbers of the system calls of {os.uname().machine} are not known here")
	libc = ctypes.CDLL(None, use_errno=True)
	libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
	libc.ptrace.restype = ctypes.c_long
	info, seen = _SyscallInfo(), 0
	log = os.open(os.path.join(p.root, "traced.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
	pid = os.fork()
	if pid == 0:
		try:
			_trace_me(libc, p.argv(*args), p.ws, {**p.env, **(env or {})}, log)
		finally:
			os._exit(78)
	os.close(log)
	_, st = os.waitpid(pid, 0)
	if not os.WIFSTOPPED(st):
		check(os.waitstatus_to_exitcode(st) == 77, "croft was not started to be traced", st)
		raise Skip("processes cannot be traced here")
	try:
		libc.ptrace(PTRACE_SETOPTIONS, pid, None, ctypes.c_void_p(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))
		while True:
			nr, st = _next_call(libc, pid, info)
			if nr is None:
				pid = 0
				with open(os.path.join(p.root, "traced.log"), "rb") as f:
					check(st == 0, f"croft {args} ended with {st}", f.read())
				return seen
			seen += nr in calls
			if seen == nth:
				return None
	finally:
		if pid:
			os.kill(pid, signal.SIGKILL)
			os.waitpid(pid, 0)
