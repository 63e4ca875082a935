#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""Snapshots and forks of an environment that is up: copies of what is staged, made while everything stands still."""
import os
import signal
import threading

import envs
import sessions
from harness import check, contains, equal, main, test, text, wait_for

# Each round writes the same number into both files: a copy made while it runs would have two numbers.
PAIR = "i=0; while :; do i=$((i+1)); echo $i > a; echo $i > b; done"


@test
def test_snapshot_while_it_is_up(p):
	with sessions.up(p):
		sessions.sh(p, "sed -i s/^3$/three/ numbers; rm gone; mkdir -p new/deep; echo n > new/deep/n; rm -r dir; mkdir dir; echo z > dir/z;"
			"ln -s numbers link; chmod 700 tool.sh; ln new/deep/n new/again; mkfifo pipe")
		before = envs.staged_tree(p, "fix")
		r = p.croft("snapshot", "fix", "first").exits(0)
		contains(text(r.out), "snapshot first of fix", "what it says")
		contains(text(r.out), "were copied", "what it says it cost")
		sessions.sh(p, "echo more > more; rm new/deep/n; echo x >> numbers")
		check(envs.staged_tree(p, "fix") != before, "the tree did not change")
		contains(text(p.croft("status", "fix").exits(0).out), "first", "status")
		contains(p.croft("snapshot", "fix", "first").exits(125).one_sentence(), "already has a snapshot called first", "twice")
		later = envs.staged_tree(p, "fix")
		p.croft("down", "-q", "fix").exits(0)
		p.croft("restore", "fix", "first").exits(0)
		equal(envs.staged_tree(p, "fix"), before, "what was restored")
		equal(envs.work(p, "stat -c %h new/again; cat new/again; test -p pipe && echo pipe", "fix"), "2\nn\npipe\n", "names of one file")
		p.croft("restore", "fix", "before-restore-1").exits(0)
		equal(envs.staged_tree(p, "fix"), later, "and back")
	contains(envs.events(p, "fix"), "snapshot", "events")
	envs.verify(p, "fix")


@test
def test_what_its_owner_cannot_read_is_copied_too(p):
	modes = "stat -c '%n %a' shut open locked deep deep/er 2>&1"
	opens = "chmod 600 shut; chmod 700 deep locked; chmod 700 deep/er; cat shut locked/f deep/er/f"
	with sessions.up(p):
		sessions.sh(p, "echo x > shut; echo o > open; mkdir -p locked deep/er; echo y > locked/f; echo z > deep/er/f;"
			"chmod 000 deep/er shut; chmod 300 locked deep; chmod 000 locked")
		before = sessions.sh(p, modes + "; true")
		contains(before, "shut 0\n", "rights (the control)")
		p.croft("snapshot", "fix", "first").exits(0)
		equal(sessions.sh(p, modes + "; true"), before, "rights afterwards")
		equal(sessions.sh(p, opens), "x\ny\nz\n", "contents, where it is up")
		sessions.sh(p, "rm -r shut locked deep")
		p.croft("down", "-q", "fix").exits(0)
		p.croft("restore", "fix", "first").exits(0)
		equal(envs.work(p, modes + "; true", "fix"), before, "rights in the snapshot")
		equal(envs.work(p, opens, "fix"), "x\ny\nz\n", "contents of the snapshot")


@test
def test_fork_while_it_is_up(p):
	with sessions.up(p):
		sessions.sh(p, "echo shared > shared; rm gone")
		before = envs.staged_tree(p, "fix")
		p.croft("fork", "fix", "two").exits(0)
		sessions.sh(p, "echo changed > shared; echo mine > mine")
		equal(envs.staged_tree(p, "two"), before, "the fork")
		equal(envs.work(p, "cat shared; echo other > other", "two"), "shared\n", "a command in the fork")
		equal(sessions.sh(p, "ls other 2>/dev/null; cat shared", name="fix"), "changed\n", "the origin")
		p.croft("up", "-q", "two").exits(0)
		equal(sessions.sh(p, "cat shared", name="two"), "shared\n", "both are up")
		p.croft("down", "-q", "two").exits(0)
		p.croft("fork", "fix", "two").exits(125).one_sentence()
	for name in ("fix", "two"):
		envs.verify(p, name)
	p.croft("gc").exits(0)
	equal(envs.work(p, "cat shared", "two"), "shared\n", "after gc")


@test
def test_everything_stands_still_meanwhile(p):
	with sessions.up(p):
		writer = sessions.detach(p, "sh", "-c", PAIR)
		wait_for(lambda: sessions.sh(p, "test -s b && echo there || true"), "it writes")
		for i in range(8):
			p.croft("snapshot", "-q", "fix", f"s{i}").exits(0)
		equal(sessions.process(p, writer)["state"], "running", "the writer")
		p.croft("down", "-q", "--now", "fix").exits(0)
		for i in range(8):
			p.croft("restore", "-q", "fix", f"s{i}").exits(0)
			a, b = envs.work(p, "cat a; echo .; cat b", "fix").split(".")
			a, b = int(a.strip() or 0), int(b.strip() or 0)
			check(a == 0 or b == 0 or 0 <= a - b <= 1, f"snapshot s{i} is of no one moment", a, b)


@test
def test_others_wait_and_are_served(p):
	"""Commands that are started meanwhile wait; none is refused."""
	with sessions.up(p):
		sessions.sh(p, "head -c 30000000 /dev/urandom > big")
		failed = []

		def snapshots():
			failed.extend(r for r in (p.croft("snapshot", "-q", "fix", f"s{i}") for i in range(4)) if r.rc)

		t = threading.Thread(target=snapshots)
		t.start()
		served = 0
		while t.is_alive():
			equal(sessions.sh(p, "echo served"), "served\n", "a command meanwhile")
			served += 1
		t.join()
		equal(failed, [], "snapshots")
		check(served > 0, "nothing was tried meanwhile")


@test
def test_who_holds_it_is_killed(p):
	with sessions.up(p):
		sessions.sh(p, "i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done; head -c 50000000 /dev/urandom > big")
		ticks = sessions.detach(p, "sh", "-c", "while :; do echo tick; sleep 0.05; done")
		for _ in range(5):
			layers = os.listdir(envs.state(p, "layers"))
			c = p.start("snapshot", "fix", "never")
			wait_for(lambda: c.poll() is not None or os.listdir(envs.state(p, "layers")) != layers, "it begins to copy")
			c.send_signal(signal.SIGKILL)
			c.communicate()
			before = sessions.process(p, ticks)["output_b"]
			wait_for(lambda: sessions.process(p, ticks)["output_b"] > before, "the session goes on")
		equal(sessions.sh(p, "cat f299"), "299\n", "what is staged")
		p.croft("gc").exits(0)
		p.croft("down", "-q", "fix").exits(0)
	envs.verify(p, "fix")


@test
def test_paused_stays_paused(p):
	with sessions.up(p):
		sessions.sh(p, "echo kept > kept")
		sessions.detach(p, "sleep", "100001")
		p.croft("pause", "fix").exits(0)
		p.croft("snapshot", "-q", "fix", "s").exits(0)
		equal(sessions.ps(p)["state"], "paused", "afterwards")
		p.croft("resume", "fix").exits(0)
		p.croft("snapshot", "-q", "fix", "t").exits(0)
		equal(sessions.ps(p)["state"], "up", "afterwards")


main()
