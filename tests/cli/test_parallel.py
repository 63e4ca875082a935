#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 900
"""Many environments on one repository, made, used and landed at the same time: correct, in order, nothing lost."""
import os
import random

from envs import LONG, changed, clean, events, git, in_journal, leftovers, names, new, repository, staged_tree, state, tree_now, verify, work
from harness import Failed, check, contains, end, equal, lacks, main, mounts, settle, test, text, wait_for
from live import all_of

MANY = 200 if LONG else 50


def at_once(p, commands, timeout=300):
	"""Start them all, then wait for each; (exit status, stdout, stderr) in order."""
	started = [p.start(*c) for c in commands]
	try:
		ends = []
		for s in started:
			out, err = s.communicate(timeout=timeout)
			ends.append((s.returncode, text(out), text(err)))
		return ends
	finally:
		for s in started:
			end(s)


def all_good(ends, what):
	bad = [e for e in ends if e[0]]
	if bad:
		raise Failed(f"{what}: {len(bad)} of {len(ends)} failed, the first: {bad[0]}")


@test
def test_fifty_at_once(p):
	repository(p)
	envs = [f"e{i}" for i in range(MANY)]
	all_good(at_once(p, [("new", "-q", n) for n in envs]), "new")
	equal(sorted(names(p)), sorted(envs), "all are there")
	equal(len(os.listdir(state(p, "bases"))), 1, "one base for all")
	script = "n=$0; echo $n > file-$n; mkdir -p d; echo $n > d/$n; i=${n#e}; sed -i \"$((i % 8 * 5 + 1))s/.*/&/\" numbers; cat gone"
	ends = at_once(p, [("exec", "-q", n, "--", "sh", "-c", script, n) for n in envs])
	all_good(ends, "exec")
	check(all(e[1] == "bye\n" for e in ends), "what they saw")
	for n in envs[:: max(1, MANY // 5)]:
		equal(changed(p, n), [f"d/{n}", f"file-{n}"], n)
	clean(p)
	all_good(at_once(p, [("apply", n, "--squash", "-m", n) for n in envs]), "apply")
	equal(sorted(git(p, "log", "--format=%s").split("\n")), sorted(["start", *envs]), "a commit for each")
	equal(git(p, "rev-list", "--merges", "HEAD"), "", "one after the other")
	clean(p)
	for n in envs:
		equal((p.read(f"file-{n}"), p.read(f"d/{n}")), (f"{n}\n".encode(),) * 2, n)
	equal(leftovers(p), [], "left behind")
	git(p, "fsck", "--strict")
	r = p.croft("evidence", "verify")
	check(r.rc == 0 and text(r.out).count("good: ") == MANY, "the evidence of all", r)
	for n in envs[:: max(1, MANY // 5)]:
		equal(events(p, n), ["created", "exec", "applied"], n)
	p.croft("gc").exits(0)
	equal(names(p), [], "all are finished")


@test
def test_two_that_conflict(p):
	"""The same line twice: one lands, the other is refused and still has its work."""
	repository(p)
	for attempt in range(3):
		for n in "ab":
			new(p, f"{n}{attempt}")
			work(p, f"sed -i '5s/.*/{n}{attempt}/' numbers; echo {n} > only-{n}{attempt}", f"{n}{attempt}")
		how = [[], ["--squash"], []][attempt]
		before = git(p, "rev-parse", "HEAD")
		staged = {n: staged_tree(p, f"{n}{attempt}") for n in "ab"}
		ends = at_once(p, [("apply", f"{n}{attempt}", *how) for n in "ab"])
		equal(sorted(e[0] for e in ends), [0, 126], f"exit statuses {ends}")
		won, lost = ("a", "b") if ends[0][0] == 0 else ("b", "a")
		contains(ends["ab".index(lost)][2], "numbers", "the refusal")
		equal(p.read("numbers").split(b"\n")[4], f"{won}{attempt}".encode(), "the line")
		equal((p.exists(f"only-{won}{attempt}"), p.exists(f"only-{lost}{attempt}")), (True, False), "all or nothing")
		equal({n: staged_tree(p, f"{n}{attempt}") for n in "ab"}, staged, "staged work")
		if how:
			equal(git(p, "rev-parse", "HEAD~1"), before, "one commit")
			clean(p)
		for n in "ab":
			verify(p, f"{n}{attempt}")
		git(p, "reset", "-q", "--hard")
		git(p, "clean", "-qfd")


@test
def test_two_that_merge(p):
	repository(p)
	for i in range(6):
		new(p, f"m{i}")
		work(p, f"sed -i '{i * 6 + 2}s/.*/changed {i}/' numbers; echo {i} > m{i}", f"m{i}")
	all_good(at_once(p, [("apply", f"m{i}", *(["--squash"] if i % 2 else [])) for i in range(6)][1::2]), "commits")
	all_good(at_once(p, [("apply", f"m{i}") for i in range(0, 6, 2)]), "working tree")
	lines = p.read("numbers").decode().split("\n")
	equal([lines[i * 6 + 1] for i in range(6)], [f"changed {i}" for i in range(6)], "everyone's lines")
	equal(git(p, "diff", "--name-only"), "numbers", "what is not committed")
	equal(len(git(p, "log", "--format=%h").split("\n")), 4, "commits")
	all_good(at_once(p, [("revert", f"m{i}") for i in range(0, 6, 2)]), "revert")
	clean(p)
	p.croft("evidence", "verify").exits(0)


@test
def test_branches_and_worktrees_at_once(p):
	repository(p)
	linked = os.path.join(p.home, "linked")
	git(p, "worktree", "add", "-q", "-b", "topic", linked)
	for i in range(4):
		new(p, f"b{i}")
		work(p, f"echo {i} > b{i}", f"b{i}")
		p.croft("new", "-q", f"l{i}", "--path", linked).exits(0)
		work(p, f"echo {i} > l{i}", f"l{i}", cwd=linked)
	ends = at_once(p, [("apply", f"b{i}", "--branch", "shared") for i in range(4)] + [("apply", f"l{i}", "--squash") for i in range(4)])
	all_good(ends, "apply")
	equal(git(p, "ls-tree", "--name-only", "shared").split("\n")[1:5], ["b0", "b1", "b2", "b3"], "the branch")
	equal(len(git(p, "log", "--format=%h", "topic").split("\n")), 5, "the linked worktree")
	clean(p)
	clean(p, "the linked worktree", cwd=linked)
	git(p, "fsck", "--strict")


@test
def test_everything_beside_everything(p):
	"""Readers, writers, forks, snapshots, gc and the user's own commits, all at the same time."""
	repository(p)
	for i in range(8):
		new(p, f"e{i}")
		work(p, f"echo {i} > f{i}", f"e{i}")
	commands = []
	for i in range(8):
		commands += [("exec", "-q", f"e{i}", "--", "sh", "-c", f"echo more >> f{i}"), ("diff", f"e{i}"), ("status", f"e{i}"),
			("fork", f"e{i}", f"k{i}"), ("exec", "-q", "--read-only", f"e{i}", "--", "cat", f"f{i}"), ("snapshot", f"e{i}"), ("log", f"e{i}")]
	commands += [("gc",), ("ls", "-a"), ("new", "-q", "late"), ("evidence", "verify")] * 3
	started = [p.start(*c) for c in commands]
	for i in range(3):
		p.write(f"user{i}", "u\n")
		git(p, "add", f"user{i}")
		git(p, "commit", "-qm", f"user {i}")
	try:
		for c, s in zip(commands, started):
			_, err = s.communicate(timeout=300)
			busy = b"in use" in err or (c[0] == "new" and b"already an environment" in err) or \
				(c[0] == "gc" and b"try again" in err)
			check(s.returncode == 0 or (s.returncode in (125, 126) and busy), f"{c}: exit {s.returncode}", text(err))
	finally:
		for s in started:
			end(s)
	for n in names(p):
		verify(p, n)
		if n != "late":
			check(changed(p, n) == [f"f{n[1:]}"], "staged work", n)
	clean(p)
	all_good(at_once(p, [("apply", f"e{i}", "--squash") for i in range(8)]), "apply")
	equal(sorted(f for f in os.listdir(p.ws) if f[0] == "f"), [f"f{i}" for i in range(8)], "landed")
	equal(tree_now(p), git(p, "rev-parse", "HEAD^{tree}"), "clean")


@test
def test_sessions_beside_everything(p):
	"""
	Callers of everything at once on few environments, whose sessions come and go meanwhile: each one succeeds or is
	told in a sentence why not, what was answered is recorded, and nothing is left.
	"""
	repository(p)
	clean_before = (mounts(), all_of(p))
	for name in "abc":
		new(p, name)
		work(p, f"echo {name} > {name}", name)
	commands = []
	for i in range(4):
		for name in "abc":
			commands += [("up", "-q", name), ("exec", "-q", name, "--", "sh", "-c", f"echo said-{i} >> log-{name}; echo said-{i}"),
				("exec", "-d", name, "--", "sh", "-c", f"echo behind-{i}"), ("status", name), ("snapshot", name), ("down", "-q", name),
				("review", name, "--accept-all"), ("fork", name, f"{name}{i}"), ("ps", name), ("pause", name), ("resume", name),
				("exec", "-q", name, "--", "true")]
			commands += [("apply", name), ("rm", "--force", f"{name}{i}"), ("diff", name), ("gc",)] if i % 2 else [("ls", "-a"), ("log", name)]
	random.Random(7).shuffle(commands)
	said, done = 0, 0
	for at in range(0, len(commands), 24):
		some = commands[at:at + 24]
		for c, (rc, out, err) in zip(some, at_once(p, some)):
			refused = rc in (1, 125, 126) and "croft" in err and "Sanitizer" not in err
			check(rc == 0 or refused, f"{c}: exit {rc}", out, err)
			lacks(err, "timed out", f"{c}: nobody waits in vain")
			done += rc == 0
			if c[0] == "exec" and rc == 0 and "-d" not in c and "sh" in c:
				said += 1
				check(out.startswith("said-"), f"{c}: what it wrote", out, err)
	for name in names(p):
		p.croft("resume", name)
		p.croft("down", "-q", name)
	check(done >= len(commands) // 8, "hardly anything was done (the control)", done)
	wait_for(lambda: not all_of(p), "no session is left")
	lines = 0
	for name in names(p):
		p.croft("exec", "-q", name, "--", "true").exits(0)
		verify(p, name)
		equal(in_journal(p, name), [], f"{name}: the journal")
		if name in "abc":
			lines += int(text(p.croft("exec", "-q", name, "--", "sh", "-c", f"cat log-{name} 2>/dev/null | wc -l").exits(0).out))
	check(lines >= said, "a command's work is gone", lines, said)
	git(p, "fsck", "--strict")
	equal(leftovers(p), [], "left in the Git directory")
	settle(mounts, clean_before[0], "mounts")
	for name in names(p):
		p.croft("rm", "--force", "-q", name).exits(0)
	p.croft("gc").exits(0)
	equal([names(p), os.listdir(state(p, "layers"))], [[], []], "what is left of them")


if __name__ == "__main__":
	main()
