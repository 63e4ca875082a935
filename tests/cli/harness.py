# SPDX-License-Identifier: Apache-2.0
"""What the command-line tests share: a place to run in, croft runs and their receipts, snapshots.

Each test gets a Place: a new HOME full of bait secrets, a workspace inside it, and an environment
with nothing of ours in it. Tests print one line each ("ok - name", "not ok - name",
"skip - name: reason"); details follow in lines that start with "#". Nothing sleeps: wait_for() polls
an event with a deadline that only a failure reaches.
"""
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TOP, "tests"))
import dispositions  # noqa: E402,F401  (sets them)
import others  # noqa: E402
from beside import Beside  # noqa: E402
from others import parent_of, somebody_elses  # noqa: E402,F401

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(TOP, "build"))
CROFT = os.path.abspath(os.environ.get("CROFT") or os.path.join(BUILD, "croft"))
FORCED = [f for f in os.environ.get("CROFT_FORCE_FAIL", "").split(",") if f]
QUICK = bool(os.environ.get("CROFT_TEST_QUICK"))
SANITIZED = bool(os.environ.get("CROFT_TEST_SANITIZER"))
ROOT = os.geteuid() == 0
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
SLOW = int(os.environ.get("CROFT_TEST_SLOW") or 1)  # how many times slower than usual the machine is
# Environments are up then, with a hostile command in each: tests/beside.py.
IN_SESSION = os.environ.get("CROFT_TEST_IN") == "session"
DEADLINE_S = 150  # of what hangs; a machine with ten times too much to do is slow
SECRET = "bait-5f1d9c-do-not-read"
TIERS = ("namespace", "process")

_tests = []
_alone = {}
_started = {}  # every croft process that this file started: pid, and when (hundredths of a second since boot)


class Skip(Exception):
	"""Not testable here, and why."""


class Failed(AssertionError):
	"""A check that did not hold."""


def check(condition, message="check failed", *details):
	if not condition:
		raise Failed(message + "".join(f"\n{d}" for d in details))


def equal(got, want, what="value"):
	if got == want:
		return
	if isinstance(got, list) and isinstance(want, list) and len(got) + len(want) > 20:
		more, less = [x for x in got if x not in want], [x for x in want if x not in got]
		if more or less: # of long lists only what differs is readable
			raise Failed(f"{what}: got besides {more!r}, and not {less!r}")
	raise Failed(f"{what}: got {got!r}, want {want!r}")


def contains(haystack, needle, what="output"):
	if needle not in haystack:
		raise Failed(f"{what} does not contain {needle!r}:\n{haystack!r}"[:4000])


def lacks(haystack, needle, what="output"):
	if needle in haystack:
		raise Failed(f"{what} contains {needle!r}:\n{haystack!r}"[:4000])


def wait_for(condition, what, timeout_s=DEADLINE_S):
	"""Poll until condition() is true and return its value."""
	end = time.monotonic() + timeout_s
	while True:
		value = condition()
		if value:
			return value
		if time.monotonic() > end:
			raise Failed(f"never happened: {what}")
		select.select([], [], [], 0.005)


def text(b):
	return b.decode("utf-8", "replace")


class Result:
	"""One finished croft run."""

	def __init__(self, argv, rc, out, err, receipt):
		self.argv, self.rc, self.out, self.err, self.receipt = argv, rc, out, err, receipt

	def __repr__(self):
		return (f"argv: {self.argv}\nrc: {self.rc}\nstdout: {text(self.out)[-1500:]}\n"
			f"stderr: {text(self.err)[-1500:]}")

	def exits(self, rc):
		if self.rc != rc:
			raise Failed(f"exit status {self.rc}, want {rc}\n{self!r}")
		return self

	def denials(self, path=None):
		found = (self.receipt or {}).get("denials", [])
		return [d for d in found if path is None or d["path"] == path]

	def one_sentence(self):
		"""A refusal or failure is one line on stderr, from croft, and nothing on stdout."""
		lines = text(self.err).splitlines()
		if len(lines) != 1 or not re.match(r"croft( [a-z]+)*: ", lines[0]) or len(lines[0]) < 20:
			raise Failed(f"not one clear sentence on stderr\n{self!r}")
		if "Sanitizer" in lines[0] or "\x1b" in lines[0]:
			raise Failed(f"not a sentence for people\n{self!r}")
		equal(self.out, b"", "stdout")
		return lines[0]


class Place:
	"""A HOME with bait, a workspace in it, and croft runs there."""

	def __init__(self, bare=False):
		self.root = os.path.realpath(tempfile.mkdtemp(prefix="croft-cli."))
		others.mine(self.root)
		self.home = os.path.join(self.root, "home")
		self.ws = os.path.join(self.home, "project")
		os.makedirs(self.ws)
		self.env = {"HOME": self.home, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "xterm",
			"USER": "tester", "SHELL": "/bin/sh"}
		if "CROFT_FORCE_FAIL" in os.environ:
			self.env["CROFT_FORCE_FAIL"] = os.environ["CROFT_FORCE_FAIL"]
		for k in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
			if k in os.environ:
				self.env[k] = os.environ[k]
		self._n = 0
		self.beside = Beside(self._exit_of, self._prints, payload("hostile")) if IN_SESSION else None
		if not bare:
			self.bait()

	def _exit_of(self, words, stdin, **how):
		p = self.start_croft(words, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
		return p.wait(DEADLINE_S)

	def _prints(self, words, wanted, **how):
		p = self.start_croft(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
		found = b""
		try:
			while wanted not in found:
				piece = os.read(p.stdout.fileno(), 4096)
				if not piece:
					return False
				found += piece
			return True
		finally:
			end(p)

	def bait(self):
		for name in (".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".netrc", ".gnupg/private",
			".config/gh/hosts.yml", ".env"):
			self.write(os.path.join(self.home, name), SECRET + "\n", 0o600)
		self.write(os.path.join(self.home, ".bashrc"), "# mine\n")
		self.write(os.path.join(self.home, ".profile"), "# mine\n")

	def write(self, path, content, mode=0o644):
		path = os.path.join(self.ws, path)
		os.makedirs(os.path.dirname(path), exist_ok=True)
		with open(path, "wb") as f:
			f.write(content if isinstance(content, bytes) else content.encode())
		os.chmod(path, mode)
		return path

	def read(self, path):
		with open(os.path.join(self.ws, path), "rb") as f:
			return f.read()

	def exists(self, path):
		return os.path.lexists(os.path.join(self.ws, path))

	def tool(self):
		"""The helper program, inside the workspace."""
		target = os.path.join(self.ws, "tool")
		if not os.path.exists(target):
			shutil.copy(payload("tool"), target)
			os.chmod(target, 0o755)
		return target

	def argv(self, *args):
		"""croft and its arguments; a "run" gets what the forced absences need."""
		args = [os.fsencode(a) for a in args]
		if args and args[0] == b"run" and "landlock" in FORCED and b"--allow-degraded" not in args:
			args.insert(1, b"--allow-degraded")
		return [os.fsencode(CROFT), *args]

	def croft(self, *args, stdin=b"", cwd=None, env=None, timeout=DEADLINE_S, program=None, **kw):
		"""Run croft (or a copy of it) to the end; no receipt."""
		argv = self.argv(*args)
		if program:
			argv[0] = os.fsencode(program)
		if not isinstance(stdin, (bytes, type(None))):
			kw["stdin"] = stdin
			stdin = None
		if self.beside:
			self.beside.before([os.fsdecode(a) for a in argv[1:]], cwd=cwd or self.ws, env=env or {})
		began = boot_ticks()
		p = subprocess.Popen(argv, stdin=kw.pop("stdin", subprocess.PIPE),
			stdout=kw.pop("stdout", subprocess.PIPE), stderr=kw.pop("stderr", subprocess.PIPE),
			cwd=cwd or self.ws, env={**self.env, **(env or {})}, **kw)
		_started[p.pid] = began
		try:
			out, err = p.communicate(stdin, timeout)
		except subprocess.TimeoutExpired as e:
			end(p)
			raise Failed(f"still running after {timeout} s: {argv}\n{e.stdout!r}\n{e.stderr!r}") from None
		return Result(argv, p.returncode, out or b"", err or b"", None)

	def run(self, *args, command=None, **kw):
		"""croft run --direct with a receipt: args are options, then "--", then the command."""
		self._n += 1
		file = os.path.join(self.root, f"receipt{self._n}.json")
		r = self.croft("run", "--direct", "--json", file, *args, **kw)
		if os.path.exists(file) and os.path.getsize(file):
			with open(file, encoding="utf-8") as f:
				r.receipt = json.load(f)
		return r

	def sh(self, script, *options, **kw):
		return self.run(*options, "--", "sh", "-c", script, **kw)

	def start(self, *args, **kw):
		"""Start croft and return the Popen object; stop it with end()."""
		if self.beside:
			self.beside.before([os.fsdecode(a) for a in args], cwd=kw.get("cwd", self.ws), env=kw.get("env", {}))
		return self.start_croft(args, **kw)

	def start_croft(self, args, **kw):
		kw.setdefault("stdin", subprocess.PIPE)
		kw.setdefault("stdout", subprocess.PIPE)
		kw.setdefault("stderr", subprocess.PIPE)
		began = boot_ticks()
		p = subprocess.Popen(self.argv(*args), cwd=kw.pop("cwd", self.ws),
			env={**self.env, **kw.pop("env", {})}, **kw)
		_started[p.pid] = began
		return p

	def good(self):
		"""What sessions wrote is whole: looked at when a test has not failed."""
		if not self.beside:
			return
		self.beside.end_all()
		for name in sorted(self.beside.seen):
			r = self.croft("evidence", "verify", name)
			gone = b"there is no environment called" in r.err
			check(gone or (r.rc == 0 and b"good: " in r.out), f"the evidence of {name} is not good", r)

	def end_sessions(self):
		"""A test that failed may have left sandboxes up."""
		state = self.env.get("XDG_STATE_HOME") or os.path.join(self.home, ".local", "state")
		for socket in glob.glob(os.path.join(glob.escape(state), "croft", "envs", "*", "socket")):
			name = os.path.basename(os.path.dirname(socket))
			try:
				self.croft("down", "--now", "-q", name, timeout=10)
			except (Failed, OSError):
				pass

	def done(self):
		self.end_sessions()
		shutil.rmtree(self.root, ignore_errors=True)


def end(p):
	"""Make sure that a started process is gone."""
	if p.poll() is None:
		p.kill()
	p.wait()
	for f in (p.stdin, p.stdout, p.stderr):
		if f and not f.closed:
			try:
				f.close()
			except OSError:
				pass


_payloads = {}


def payload(name):
	"""Path of a built helper; compiled here when the build has none (a sanitizer build)."""
	built = os.path.join(BUILD, "tests", "payload-" + name)
	if os.path.exists(built):
		return built
	if name not in _payloads:
		cc = shutil.which("musl-gcc", path=PATH) or shutil.which("gcc", path=PATH)
		source = os.path.join(TOP, "tests", "payload", name + ".c")
		if not cc or not os.path.exists(source):
			raise Skip(f"payload {name} is not built")
		target = os.path.join(tempfile.mkdtemp(prefix="croft-payload."), name)
		r = subprocess.run([cc, "-static", "-O2", "-D_GNU_SOURCE", "-o", target, source],
			capture_output=True, check=False)
		if r.returncode:
			raise Skip(f"payload {name} does not compile here")
		_payloads[name] = target
	return _payloads[name]


def need(program):
	found = shutil.which(program, path=PATH)
	if not found:
		raise Skip(f"{program} is not installed")
	return found


_tier_works = {}


def need_tier(tier):
	"""Skip when this machine (or a forced absence) cannot hold the tier, with croft's own reason."""
	if tier not in _tier_works:
		p = Place(bare=True)
		try:
			r = p.croft("run", "--direct", "--tier", tier, "--", "true")
			_tier_works[tier] = None if r.rc == 0 else text(r.err).strip().splitlines()[-1:]
			if r.rc not in (0, 126):
				raise Failed(f"--tier {tier} neither works nor is refused\n{r!r}")
		finally:
			p.done()
	if _tier_works[tier]:
		raise Skip(f"tier {tier}: {_tier_works[tier][0]}")


def fuse():
	"""Can this user's sandboxes have a file system that croft serves? Else they have traps for decoys."""
	if "fuse" in FORCED:
		return False
	try:
		os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
	except OSError:
		return False
	return True


def native(place, *argv, stdin=b"", env=None, cwd=None):
	"""The same attempt without croft: the negative control."""
	return subprocess.run(argv, input=stdin, capture_output=True, cwd=cwd or place.ws,
		env={**place.env, **(env or {})}, timeout=DEADLINE_S, check=False)


def test(function=None, *, tiers=None):
	"""Register a test. tiers: run it once per tier, as function(place, tier)."""
	def register(f):
		name = f.__name__.removeprefix("test_").replace("_", " ")
		if tiers:
			for t in tiers:
				_tests.append((f"{name} ({t})", lambda place, t=t: (need_tier(t), f(place, t))))
		else:
			_tests.append((name, f))
		return f
	return register(function) if function else register


def alone(why, *names):
	"""These tests make no sense in a session, and why."""
	_alone.update({n: why for n in names})


def one(name, function):
	place = None
	try:
		place = Place()
		if IN_SESSION and name in _alone:
			raise Skip(_alone[name])
		function(place)
		place.good()
		print(f"ok - {name}", flush=True)
		return True
	except Skip as e:
		print(f"skip - {name}: {e}", flush=True)
		return True
	except Exception:  # a test must not take the others down
		print(f"not ok - {name}")
		for line in traceback.format_exc().splitlines():
			print(f"# {line[:1000]}")
		sys.stdout.flush()
		return False
	finally:
		if place:
			place.done()


def main():
	"""Run the tests of the calling file; arguments choose by substring."""
	if not os.access(CROFT, os.X_OK):
		print(f"not ok - {CROFT} is not there")
		sys.exit(1)
	wanted = sys.argv[1:]
	good = True
	for name, function in _tests:
		if not wanted or any(w in name for w in wanted):
			good = one(name, function) and good
	for p in _payloads.values():
		shutil.rmtree(os.path.dirname(p), ignore_errors=True)
	sys.exit(0 if good else 1)


def policy_text(read=(), write=(), deny=(), head=""):
	"""A policy file with these rules; head: further lines."""
	lines = ["version: 1", *head.splitlines()]
	if read or write or deny:
		lines.append("filesystem:")
	for key, names in (("read", read), ("write", write), ("deny", deny)):
		if names:
			lines.append(f"  {key}:")
			lines += [f"    - {json.dumps(n, ensure_ascii=False)}" for n in names]
	return "\n".join(lines) + "\n"


# ---- what is on the machine ----

def processes(pattern):
	"""pids whose command line contains the pattern (bytes); ours excluded."""
	found = []
	for name in os.listdir("/proc"):
		if not name.isdigit() or int(name) == os.getpid():
			continue
		try:
			with open(f"/proc/{name}/cmdline", "rb") as f:
				line = f.read()
			with open(f"/proc/{name}/stat", "rb") as f:
				state = f.read().rpartition(b")")[2].split()[0]
		except OSError:
			continue
		if pattern in line and state != b"Z":
			found.append(int(name))
	return found


def alive(pid):
	try:
		with open(f"/proc/{pid}/stat", "rb") as f:
			return f.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
	except OSError:
		return False


def namespaces():
	"""Every namespace of a process that is ours or nobody's."""
	found = set()
	for name in os.listdir("/proc"):
		if not name.isdigit() or somebody_elses(int(name)):
			continue
		for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts", "time"):
			try:
				found.add(os.readlink(f"/proc/{name}/ns/{kind}"))
			except OSError:
				pass
	return found


def mounts():
	"""All but those of other tests, which may run beside us."""
	theirs = re.compile(r"^\S+ \S+ \S+ \S+ /(var/)?tmp/croft-(test|cli|escape)\.")
	ours = os.environ.get("TMPDIR", "/tmp")
	with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
		return sorted(line for line in f.read().splitlines()
			if not theirs.match(line) or (ours not in ("/tmp", "/var/tmp") and line.split()[4].startswith(ours + "/")))


def boot_ticks():
	return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)


def started_by_us(name):
	"""
	Is this the name of something that a croft of ours made? Its pid is in the name. Pids come round again on a busy
	machine: a cgroup also has the time at which it was made, which is soon after its croft was started.
	"""
	m = re.match(r"croft-(\d+)\b(?:\.[0-9a-f]+\.([0-9a-f]+)-)?", name)
	if not m or int(m.group(1)) not in _started:
		return False
	return not m.group(2) or 0 <= int(m.group(2), 16) - _started[int(m.group(1))] < 100 * DEADLINE_S


def all_cgroups():
	return {os.path.join(top, d) for top, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if d.startswith("croft-")}


_cgroups_before = all_cgroups()  # of others, perhaps long dead; pids come round again


def cgroups():
	"""Cgroups on the machine that belong to croft runs of ours."""
	return sorted(d for d in all_cgroups() - _cgroups_before if started_by_us(os.path.basename(d)))


def reclaim(place):
	"""What a killed croft could not remove, later runs do: one in a few looks. Run until it is gone."""
	for _ in range(200):
		if not cgroups():
			return
		place.croft("run", "--direct", "-q", "--", "true").exits(0)
	raise Failed(f"never reclaimed: {cgroups()}")


def files(*tops):
	found = []
	for top in tops:
		for base, dirs, names in os.walk(top):
			found += [os.path.join(base, n) for n in dirs + names]
	return sorted(found)


def settle(snapshot, before, what):
	"""The kernel frees namespaces and cgroups a moment after the last process: wait for equality."""
	try:
		wait_for(lambda: snapshot() == before, what)
	except Failed:
		now = snapshot()
		raise Failed(f"{what}: more: {[x for x in now if x not in before][:10]}, "
			f"less: {[x for x in before if x not in now][:10]}") from None


def kill_quietly(pid, sig=signal.SIGKILL):
	try:
		os.kill(pid, sig)
	except ProcessLookupError:
		pass
