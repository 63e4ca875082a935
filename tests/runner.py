# SPDX-License-Identifier: Apache-2.0
"""How the programs of the suites are run: side by side, judged, once more alone when they fail, and swept up after.

Order: what is not marked runs on every worker; of what is "serial" one runs at a time, beside the others; what is "alone"
runs at the end, with nothing beside it. A program that failed runs once more when all others are done. What passes then is
flaky: it counts as passed, is named with what it printed first, and that is kept in BUILD/flaky. More than FLAKY_MAX are a
failure: then something is wrong with the machine or with the tests.

Everything of a run has its scratch directory in a name, its environment, its working directory or its open root; so what is
left of it can be found by looking at the machine, also when the run itself was killed: the lock of its scratch is free then.
"""
import concurrent.futures
import contextlib
import fcntl
import glob
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

FLAKY_MAX = 3
LINE = re.compile(r"^(ok|not ok|skip) - (.*)")
OUTPUT_MAX = 4 << 20
DETAILS_MAX = 80
SCRATCH = "croft-test."
ENDING_S = 10  # between the polite signal and the other one
# between systemd's ranges: no distribution gives them to anybody
USER_UIDS = range(60900, 60932)


class Interrupted(Exception):
	"""Ctrl-C, or a polite signal."""


class Job:
	"""One program to run and how."""

	def __init__(self, name, argv, env=None, user=None, timeout=300, when="", cwd=None, then=None):
		self.name = name
		self.argv = argv
		self.env = env or {}
		self.user = user
		self.timeout = timeout
		self.when = when  # "", "serial" or "alone"
		self.cwd = cwd
		self.then = then # what can be run once this has passed: a function that returns jobs


class Outcome:
	"""What one run of a program came to."""

	def __init__(self, job, seconds=0.0, passed=0, failures=(), skips=(), details=(), text="", processor_s=0.0):
		self.job, self.seconds, self.passed, self.text, self.processor_s = job, seconds, passed, text, processor_s
		self.failures, self.skips, self.details = list(failures), list(skips), list(details)

	@classmethod
	def judged(cls, job, seconds, status, timed_out, text, processor_s):
		o = cls(job, seconds, text=text, processor_s=processor_s)
		for line in text.split("\n"):
			m = LINE.match(line)
			if m and m.group(1) == "ok":
				o.passed += 1
				continue
			if m and m.group(1) == "skip":
				o.skips.append(m.group(2))
				continue
			if m:
				o.failures.append(m.group(2))
			if line.strip():
				o.details.append(line)
		if timed_out:
			o.failures.append(f"still running after {job.timeout} s")
		elif status < 0:
			o.failures.append(f"killed by {signal.Signals(-status).name}")
		elif status != 0 and not o.failures:
			o.failures.append(f"exit status {status} without a failed test")
		elif status == 0 and o.failures:
			o.details.append("(and its exit status was 0)")
		elif not o.passed and not o.skips and not o.failures:
			o.failures.append("ran no test")
		return o


class Tally:
	"""What all programs came to, printed as it comes in."""

	def __init__(self, verbose=False, out=sys.stdout):
		self.passed = self.failed = self.skipped = 0
		self.failures = []
		self.flaky = []
		self.skips = {}
		self.verbose = verbose
		self.out = out
		self.lock = threading.Lock()

	def say(self, line):
		print(line, file=self.out, flush=True)

	def show(self, o):
		"""The line of a program, with its time and the processors' (of what it waited for), and its details when it failed."""
		with self.lock:
			counts = f"{o.passed} passed"
			if o.failures:
				counts += f", {len(o.failures)} failed"
			if o.skips:
				counts += f", {len(o.skips)} skipped"
			self.say(f"{'FAIL' if o.failures else 'ok':4} {o.job.name:44} {counts:36} {o.seconds:6.1f} s {o.processor_s:6.1f} s")
			if o.failures or self.verbose:
				for d in o.details[-DETAILS_MAX:]:
					self.say(f"     | {d}")

	def count(self, o):
		with self.lock:
			self.passed += o.passed
			self.failed += len(o.failures)
			self.skipped += len(o.skips)
			self.failures += [f"{o.job.name}: {f}" for f in o.failures]
			for s in o.skips:
				self.skips.setdefault(s, []).append(o.job.name)

	def note_skip(self, name, reason):
		with self.lock:
			self.skipped += 1
			self.skips.setdefault(f"{name}: {reason}", []).append(name)
			self.say(f"skip {name:44} {reason}")

	def close(self, seconds):
		"""The last lines; the exit status."""
		if self.skips:
			self.say("\nskipped:")
			for reason, where in sorted(self.skips.items()):
				self.say(f"  {reason}" + (f" ({len(where)} times)" if len(where) > 1 else ""))
		for o in self.flaky:
			self.say(f"\nflaky: {o.job.name} failed, then passed alone; at first it printed")
			for d in o.details[-DETAILS_MAX:] + o.failures:
				self.say(f"     | {d}")
		if len(self.flaky) > FLAKY_MAX:
			self.failed += 1
			self.failures.append(f"{len(self.flaky)} programs are flaky, and {FLAKY_MAX} may be")
		if self.failures:
			self.say("\nfailed:")
			for f in self.failures:
				self.say(f"  {f}")
		self.say(f"\n{seconds:.0f} s" + (f", {len(self.flaky)} flaky" if self.flaky else ""))
		self.say(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
		return 1 if self.failed or not self.passed else 0


class Queue:
	"""What is still to be run; in the end what has to be run alone is left."""

	def __init__(self, jobs):
		self.left, self.running = list(jobs), []
		self.changed = threading.Condition()

	def take(self):
		"""The next program, or None; waits while one runs that may bring others."""
		with self.changed:
			while True:
				serial = any(j.when == "serial" for j in self.running)
				kinds = ("",) if serial else ("serial", "") # their chain is the longest
				job = next((j for k in kinds for j in self.left if j.when == k), None)
				if job:
					self.left.remove(job)
					self.running.append(job)
				if job or not any(j.then for j in self.running):
					return job
				self.changed.wait()

	def done(self, job, more):
		with self.changed:
			self.running.remove(job)
			self.left += more
			self.changed.notify_all()


class Runner:
	def __init__(self, tally, scratch, build, top, workers=2):
		self.tally, self.scratch, self.build, self.top, self.workers = tally, scratch, build, top, workers
		self.seq = 0
		self.running = {}  # pid: its Popen
		self.stopped = False
		self.lock = threading.Lock()

	def environment(self, job):
		"""A small, known environment: what the tests see must not depend on who runs them."""
		with self.lock:
			self.seq += 1
			home = os.path.join(self.scratch, f"{self.seq}")
		os.makedirs(os.path.join(home, "tmp"))
		if job.user is not None:
			for d in (home, os.path.join(home, "tmp")):
				os.chown(d, job.user, job.user)
		env = {k: v for k, v in os.environ.items()
			if k in ("LANG", "LC_ALL", "TERM", "CI", "ASAN_OPTIONS", "UBSAN_OPTIONS")
			or k.startswith("CROFT_TEST_")}
		env.update({
			"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME": home, "TMPDIR": os.path.join(home, "tmp"), "SHELL": "/bin/sh",
			"BUILD": self.build, "CROFT": os.path.join(self.build, "croft"), "SRCDIR": self.top,
			"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": env.get("LC_ALL", "C.UTF-8"),
		})
		env.update(job.env)
		return home, env

	def start(self, job, home, env, out):
		extra = {}
		if job.user is not None:
			extra = {"user": job.user, "group": job.user, "extra_groups": []}
		with self.lock:
			if self.stopped:
				raise OSError("interrupted")
			proc = subprocess.Popen(job.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env,
				cwd=job.cwd or home, start_new_session=True, **extra)
			self.running[proc.pid] = proc
		return proc

	def run(self, job):
		"""Run a program to its end: what it came to."""
		home, env = self.environment(job)
		began = time.monotonic()
		timed_out = False
		with open(os.path.join(home, "output"), "w+b") as out:
			try:
				proc = self.start(job, home, env, out)
			except OSError as e:
				return Outcome(job, failures=[f"cannot start: {e}"])
			ended = os.pidfd_open(proc.pid)
			if not select.select([ended], [], [], job.timeout)[0]:
				timed_out = True
				signal_group(proc.pid, signal.SIGKILL)
				select.select([ended], [], [])
			os.close(ended)
			with self.lock: # a signal goes to a pid that is still ours
				_, status, used = os.wait4(proc.pid, 0)
				proc.returncode = os.waitstatus_to_exitcode(status)
				del self.running[proc.pid]
			seconds = time.monotonic() - began
			out.seek(0)
			text = out.read(OUTPUT_MAX).decode("utf-8", "replace")
		if timed_out:
			sweep(home)
		shutil.rmtree(home, ignore_errors=True)
		return Outcome.judged(job, seconds, proc.returncode, timed_out, text, used.ru_utime + used.ru_stime)

	def stop(self):
		"""End what runs, politely first: tests put their own things away."""
		with self.lock:
			self.stopped = True
			left = list(self.running.values())
		for p in left:
			signal_group(p.pid, signal.SIGTERM)
		end = time.monotonic() + ENDING_S
		while not all(has_ended(p.pid) for p in left) and time.monotonic() < end:
			select.select([], [], [], 0.05)
		with self.lock:
			for pid in self.running:
				signal_group(pid, signal.SIGKILL)

	def run_all(self, jobs, repeat=0):
		try:
			if repeat:
				self.repeat(jobs, repeat)
			else:
				self.twice(jobs)
		except BaseException:
			self.stop()
			raise

	def twice(self, jobs):
		"""Everything once, and what failed once more."""
		outcomes = self.once(jobs)
		for o in outcomes:
			if not o.failures:
				self.tally.count(o)
		for first in [o for o in outcomes if o.failures]:
			if first.job.then: # what it brings was not run
				self.tally.count(first)
				continue
			self.tally.say(f"once more, alone: {first.job.name}")
			second = self.run(first.job)
			self.tally.show(second)
			self.tally.count(first if second.failures else second)
			if not second.failures:
				self.tally.flaky.append(first)
				self.keep(first)

	def keep(self, o):
		"""What a flaky program printed when it failed stays for a reader."""
		directory = os.path.join(self.build, "flaky")
		with contextlib.suppress(OSError):
			os.makedirs(directory, exist_ok=True)
			name = re.sub(r"[^A-Za-z0-9]+", "-", o.job.name).strip("-")
			with open(os.path.join(directory, name + ".txt"), "w", encoding="utf-8") as f:
				f.write(o.text + "\n".join(["", *o.failures, ""]))

	def once(self, jobs):
		"""Everything once, in the order of the theory above; what each came to, as shown."""
		outcomes, queue = [], Queue(jobs)

		def work():
			while not self.stopped:
				job = queue.take()
				if not job:
					break
				more = []
				try:
					o = self.run(job)
					self.tally.show(o)
					outcomes.append(o)
					if job.then and not o.failures:
						more = job.then()
				finally:
					queue.done(job, more)
		with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
			try:
				for f in concurrent.futures.as_completed([pool.submit(work) for _ in range(self.workers)]):
					f.result()
			except BaseException:
				self.stop() # here, for leaving the pool waits for its workers
				raise
		for job in queue.left:
			outcomes.append(self.run(job))
			self.tally.show(outcomes[-1])
		return outcomes

	def repeat(self, jobs, count):
		"""Each program this often, and no second chance: how a flaky one is found."""
		for n in range(count):
			for o in self.once(jobs):
				self.tally.count(o)


def has_ended(pid):
	"""It need not have been waited for: that may be for us to do."""
	try:
		return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
	except ChildProcessError:
		return True


def signal_group(pid, number):
	with contextlib.suppress(ProcessLookupError, PermissionError):
		os.killpg(pid, number)


@contextlib.contextmanager
def busy(count):
	"""So many programs that take all the time they can get; they end with this one."""
	loop = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n\tfor _ in range(1000000): pass"
	loops = [subprocess.Popen([sys.executable, "-c", loop, str(os.getpid())]) for _ in range(count)]
	try:
		yield
	finally:
		for p in loops:
			p.kill()
			p.wait()


@contextlib.contextmanager
def plain_user():
	"""A number nobody has, not even another run of the tests on this machine: a plain user's limits count all it runs."""
	chosen = os.environ.get("CROFT_TEST_UID")
	if chosen:
		yield int(chosen)
		return
	with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as claim:
		for uid in USER_UIDS:
			try:
				claim.bind(f"\0croft-test-uid-{uid}")
			except OSError:
				continue
			yield uid
			return
	raise RuntimeError(f"{len(USER_UIDS)} test runs are going on, and each needs a user of its own")


def holders(scratch):
	"""The processes that belong to a run: its scratch directory is in what they are, have or stand on."""
	mark, found = os.fsencode(scratch), []
	for name in os.listdir("/proc"):
		if not name.isdigit() or int(name) == os.getpid():
			continue
		for what in ("environ", "cmdline"):
			with contextlib.suppress(OSError), open(f"/proc/{name}/{what}", "rb") as f:
				if mark + b"/" in f.read():
					found.append(int(name))
					break
		else:
			for what in ("cwd", "root", "exe"):
				with contextlib.suppress(OSError):
					if os.fsencode(os.readlink(f"/proc/{name}/{what}")).startswith(mark + b"/"):
						found.append(int(name))
						break
	return found


def sweep(scratch):
	"""End whatever of a run still runs, and take its control groups away. How many processes there were."""
	count = 0
	end = time.monotonic() + ENDING_S
	while time.monotonic() < end:
		pids = holders(scratch)
		if not pids:
			break
		for pid in pids:
			count += 1
			with contextlib.suppress(OSError):
				os.kill(pid, signal.SIGKILL)
		select.select([], [], [], 0.05)
	sweep_groups()
	return count


def sweep_groups():
	"""Control groups of croft processes that are gone; the kernel refuses those in use."""
	here = f"{os.stat('/proc/self/ns/pid').st_ino:x}" # as in their names: src/os/cgroup.c
	for top in ("/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")):
		for d, _, _ in os.walk(top, topdown=False):
			m = re.search(rf"/croft-(\d+)\.{here}\.", d)
			if m and not os.path.exists(f"/proc/{m.group(1)}"):
				with contextlib.suppress(OSError):
					os.rmdir(d)


@contextlib.contextmanager
def scratch_directory():
	"""A directory for everything of this run; those of runs that were killed are swept up first."""
	parent = tempfile.gettempdir()
	for old in glob.glob(os.path.join(glob.escape(parent), SCRATCH + "*")):
		with contextlib.suppress(OSError):
			if os.lstat(old).st_uid != os.geteuid() or os.path.islink(old):
				continue # anybody can make such a name
			with open(os.open(os.path.join(old, "lock"), os.O_RDWR | os.O_NOFOLLOW), "r+b") as f:
				fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
				sweep(old)
				remove(old)
	made = tempfile.mkdtemp(prefix="." + SCRATCH)
	with open(os.path.join(made, "lock"), "w+b") as lock:
		fcntl.flock(lock, fcntl.LOCK_EX)
		scratch = os.path.join(parent, os.path.basename(made)[1:])
		os.rename(made, scratch) # found by others when it is locked
		os.chmod(scratch, 0o755)
		try:
			yield scratch
		finally:
			sweep(scratch)
			remove(scratch)


def remove(directory):
	"""Also what tests made unreadable, when they did not come to put it right."""
	def again(function, path, _):
		with contextlib.suppress(OSError):
			for closed in (os.path.dirname(path), path):
				if not os.path.islink(closed):
					os.chmod(closed, 0o700)
			function(path)
	# Root needs no such help, and others' tests could put a symlink in the way.
	shutil.rmtree(directory, ignore_errors=os.geteuid() == 0, onerror=again)


@contextlib.contextmanager
def interruptible():
	"""Ctrl-C, a hang-up and a polite end are one thing: the context managers around put everything away. Only once."""
	def heard(number, _):
		for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
			signal.signal(s, signal.SIG_IGN)
		raise Interrupted(signal.Signals(number).name)
	before = {s: signal.signal(s, heard) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
	try:
		yield
	finally:
		for s, h in before.items():
			signal.signal(s, h)
