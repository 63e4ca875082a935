#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs the tests is tested: second chances, endings, time limits, what is alone, what is left and what is interrupted."""
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import runner  # noqa: E402
from runner import Job, Runner, Tally  # noqa: E402


def check(condition, *details):
	if not condition:
		raise AssertionError("\n".join(str(d) for d in details))


def sh(name, script, **kw):
	return Job(name, ["sh", "-c", script], **kw)


class World:
	"""A runner with a place of its own, and what it printed."""

	def __init__(self, directory):
		self.directory = directory
		self.out = io.StringIO()
		self.tally = Tally(out=self.out)
		self.scratch = os.path.join(directory, "scratch")
		os.mkdir(self.scratch)
		self.runner = Runner(self.tally, self.scratch, directory, directory, workers=3)

	def path(self, name):
		return os.path.join(self.directory, name)

	def fails_once(self, name):
		mark = self.path(os.path.basename(name))
		return sh(name, f"if test -e {mark}; then echo 'ok - it'; else touch {mark}; echo '# why'; echo 'not ok - it'; exit 1; fi")

	def run(self, *jobs, repeat=0):
		self.runner.run_all(list(jobs), repeat)
		self.status = self.tally.close(1)
		return self.out.getvalue()

	def counts(self):
		return self.tally.passed, self.tally.failed, self.tally.skipped


def test_what_fails_once_is_flaky_and_passes(w):
	text = w.run(w.fails_once("x/odd"), sh("x/good", "echo 'ok - a'; echo 'skip - b: none here'"))
	check(w.status == 0 and w.counts() == (2, 0, 1), text)
	check("flaky: x/odd failed, then passed alone" in text and "| # why" in text and "1 flaky" in text, text)
	check(text.endswith("2 passed, 0 failed, 1 skipped\n"), text)
	with open(w.path("flaky/x-odd.txt"), encoding="utf-8") as f:
		check("# why" in f.read(), "what it printed is kept")


def test_what_always_fails_has_failed(w):
	text = w.run(sh("x/bad", "echo 'ok - a'; echo '# because'; echo 'not ok - b'; exit 1"))
	check(w.status == 1 and w.counts() == (1, 1, 0) and not w.tally.flaky, text)
	check("once more, alone: x/bad" in text and "\nfailed:\n  x/bad: b\n" in text and "| # because" in text, text)


def test_four_flaky_programs_are_a_failure(w):
	text = w.run(*[w.fails_once(f"x/odd{n}") for n in range(runner.FLAKY_MAX)])
	check(w.status == 0 and len(w.tally.flaky) == runner.FLAKY_MAX, text)
	more = World(tempfile.mkdtemp(dir=w.directory))
	text = more.run(*[more.fails_once(f"x/odd{n}") for n in range(runner.FLAKY_MAX + 1)])
	check(more.status == 1 and "4 programs are flaky, and 3 may be" in text, text)


def test_what_hangs_is_ended_with_all_it_started(w):
	began = time.monotonic()
	text = w.run(sh("x/hangs", "setsid sh -c 'sleep 1000; true' & echo 'ok - a'; sleep 1000", timeout=0.5))
	check(w.counts() == (1, 1, 0) and "x/hangs: still running after 0.5 s" in text, text)
	check(time.monotonic() - began < 60, "it is ended soon")
	check(not runner.holders(w.scratch), runner.holders(w.scratch))


def test_what_says_nothing_has_failed(w):
	text = w.run(sh("x/mute", ":"), sh("x/status", "echo 'ok - a'; exit 3"), sh("x/killed", "echo 'ok - a'; kill -9 $$"),
		sh("x/liar", "echo 'not ok - a'"), Job("x/none", ["/nothing/here"]))
	for line in ("x/mute: ran no test", "x/status: exit status 3 without a failed test", "x/killed: killed by SIGKILL",
			"x/liar: a", "x/none: cannot start: "):
		check("\n  " + line in text, line, text)
	check(w.status == 1 and w.tally.failed == 5, text)


def test_no_test_at_all_is_a_failure(w):
	text = w.run()
	check(w.status == 1 and text.endswith("0 passed, 0 failed, 0 skipped\n"), text)


def test_serial_ones_do_not_meet_and_alone_is_alone(w):
	"""Each holds a directory while it runs; who must not meet another fails when the other's is there."""
	for d in ("any", "serial"):
		os.mkdir(w.path(d))

	def holds(name, kind, rule):
		mine = w.path(f"{kind}/{name}")
		return (f"mkdir {mine}; {rule}; n=0; while [ $n -lt 40 ]; do {rule}; n=$((n+1)); sleep 0.005; done; "
			f"rmdir {mine}; echo 'ok - it'")
	jobs = [sh(f"x/s{n}", holds(f"s{n}", "serial", f"test $(ls {w.path('serial')} | wc -l) = 1 || exit 9"), when="serial")
		for n in range(3)]
	jobs += [sh("x/alone", holds("alone", "any", f"test $(find {w.path('any')} {w.path('serial')} -mindepth 1 | wc -l) = 1 || exit 9"),
		when="alone")]
	jobs += [sh(f"x/p{n}", holds(f"p{n}", "any", ":")) for n in range(4)]
	text = w.run(*jobs)
	check(w.status == 0 and w.counts() == (8, 0, 0) and not w.tally.flaky, text)
	check(text.splitlines()[7].startswith("ok   x/alone"), text)


def test_what_passes_may_bring_others(w):
	def more(n):
		return lambda: [sh(f"x/more{n}", "echo 'ok - it'"), sh(f"x/alone{n}", "echo 'ok - it'", when="alone")]
	text = w.run(sh("x/good", "sleep 0.2; echo 'ok - it'", then=more(1)), sh("x/bad", "exit 1", then=more(2)), sh("x/other", "echo 'ok - it'"))
	check(w.counts() == (4, 1, 0) and "x/more1" in text and "x/alone1" in text and "more2" not in text, text)


def test_repeated_there_is_no_second_chance(w):
	text = w.run(w.fails_once("x/odd"), repeat=4)
	check(w.status == 1 and w.counts() == (3, 1, 0), text)


def loops():
	"""How many children of this process are busy loops."""
	found = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False)
	return found.stdout.count("range(1000000)")


def test_busy_loops_end(w):
	del w
	with runner.busy(2):
		check(loops() == 2, loops())
	check(loops() == 0, loops())


def test_two_runs_have_two_users(w):
	del w
	before = os.environ.pop("CROFT_TEST_UID", None)
	try:
		with runner.plain_user() as one, runner.plain_user() as two:
			check(one != two and {one, two} <= set(runner.USER_UIDS), one, two)
		os.environ["CROFT_TEST_UID"] = "61111"
		with runner.plain_user() as chosen:
			check(chosen == 61111, chosen)
	finally:
		os.environ.pop("CROFT_TEST_UID", None)
		if before:
			os.environ["CROFT_TEST_UID"] = before


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[1])
import runner
from runner import Job, Runner, Tally
runner.ENDING_S = 1
try:
	with runner.interruptible(), runner.scratch_directory() as scratch:
		print(scratch, flush=True)
		how = sys.argv[2]
		jobs = [Job(f"x/{n}", ["sh", "-c", "trap '' TERM; setsid sleep 1000 & mkdir -m 0 shut; echo; wait; sleep 1000"], when=how) for n in range(3)]
		Runner(Tally(), scratch, scratch, scratch, 2).run_all(jobs)
except runner.Interrupted:
	sys.exit(42)
"""


def begun(w, when=""):
	"""A run of its own that hangs, with everything started: (process, its scratch)."""
	least = 2 if when else 4
	p = subprocess.Popen([sys.executable, "-c", INTERRUPTED, HERE, when], stdout=subprocess.PIPE,
		env={**os.environ, "TMPDIR": w.directory}, text=True)
	scratch = p.stdout.readline().strip()
	end = time.monotonic() + 60
	while len(runner.holders(scratch)) < least and time.monotonic() < end:
		time.sleep(0.01)
	check(len(runner.holders(scratch)) >= least, "programs and what they started", runner.holders(scratch))
	return p, scratch


def test_interrupted_nothing_is_left(w):
	for s, when in ((signal.SIGINT, ""), (signal.SIGTERM, "serial"), (signal.SIGHUP, ""), (signal.SIGINT, "alone")):
		p, scratch = begun(w, when)
		p.send_signal(s)
		check(p.wait(60) == 42, p.returncode)
		p.stdout.close()
		check(not os.path.exists(scratch), "the scratch directory")
		check(not runner.holders(scratch), runner.holders(scratch))


def test_what_a_killed_run_left_the_next_one_sweeps_up(w):
	p, scratch = begun(w)
	p.kill()
	p.wait()
	p.stdout.close()
	check(os.path.exists(scratch) and len(runner.holders(scratch)) >= 2, "the control: it is left")
	before, tempfile.tempdir = tempfile.tempdir, w.directory
	try:
		with runner.scratch_directory() as mine:
			check(not os.path.exists(scratch) and not runner.holders(scratch), runner.holders(scratch))
			with runner.scratch_directory() as other:
				check(os.path.exists(mine) and os.path.exists(other), "one that still runs is left alone")
		check(not os.path.exists(mine), mine)
	finally:
		tempfile.tempdir = before


def test_what_others_named_like_a_scratch_is_left_alone(w):
	there, victim = w.path(runner.SCRATCH + "there"), w.path("victim")
	os.mkdir(victim)
	os.symlink(victim, w.path(runner.SCRATCH + "link"))
	os.mkdir(there)
	for d in (victim, there):
		with open(os.path.join(d, "lock"), "w", encoding="ascii"):
			pass
	if os.geteuid() == 0:
		os.chown(there, 60900, 60900)
	before, tempfile.tempdir = tempfile.tempdir, w.directory
	try:
		with runner.scratch_directory():
			check(os.path.exists(os.path.join(victim, "lock")), "where a symlink leads")
			check(os.path.exists(there) == (os.geteuid() == 0), "another user's is not ours to remove")
	finally:
		tempfile.tempdir = before


def main():
	good = True
	for name, function in [(n, f) for n, f in globals().items() if n.startswith("test_")]:
		with tempfile.TemporaryDirectory(prefix="croft-runner.") as d:
			try:
				function(World(d))
				print(f"ok - {name[5:].replace('_', ' ')}", flush=True)
			except Exception: # one test must not take the others down
				print(f"not ok - {name[5:].replace('_', ' ')}")
				print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
				good = False
	return 0 if good else 1


if __name__ == "__main__":
	sys.exit(main())
