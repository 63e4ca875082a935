#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
"""Environments: how they are made, what is in them, what they share with the user's checkout, how they end."""
import json
import os
import subprocess

import envs
from envs import (changed, clean, events, git, identity, names, new, record, refused, repository, staged_tree, status, tree_inside,
	tree_now, verify, work)
from harness import ROOT, Skip, alone, check, contains, end, equal, lacks, main, need, need_tier, test, text


# ---- life ----

alone("names the events of single runs", "from new to rm")
alone("a session is no writer that others wait for: cli/session_beside", "one writer many readers")
alone("what is up is not finished", "gc takes only what is finished")


@test
def test_from_new_to_rm(p):
	repository(p)
	contains(text(p.croft("new", "e").exits(0).out), "croft exec e -- CMD")
	equal((names(p), changed(p)), (["e"], []), "a new one")
	equal(work(p, "pwd; cat gone; id -u").split()[:2], [p.ws, "bye"], "inside it is the same place")
	work(p, "echo more >> numbers; echo new > new; rm gone; chmod +x dir/b.txt")
	equal(changed(p), ["dir/b.txt", "gone", "new", "numbers"], "staged")
	clean(p)
	s = status(p)
	equal((s["changes"]["added"], s["changes"]["modified"], s["changes"]["deleted"]), (1, 2, 1), "counts")
	equal(s["state"], "open", "state")
	contains(refused(p.croft("rm", "e"), "croft rm --force e"), "neither applied nor discarded")
	p.croft("apply", "e").exits(0)
	equal(status(p)["state"], "landed", "state")
	equal(events(p), ["created", "exec", "exec", "applied"], "events")
	verify(p)
	ledger = s["ledger"].rpartition("/")[2]
	p.croft("rm", "e").exits(0)
	equal(names(p), [], "removed")
	equal(os.listdir(envs.state(p, "layers")), [], "layers")
	verify(p, ledger)  # what it did is known without it
	refused(p.croft("status", "e"), "there is no environment called e")


@test
def test_shell_of_the_user(p):
	"""SHELL is named by a string of the caller's environment, which the sandbox forgets."""
	repository(p)
	new(p)
	for env in ({"SHELL": need("bash")}, {"SHELL": "/bin/sh"}, {"SHELL": "relative"}, {"SHELL": ""}):
		r = p.croft("shell", "e", stdin=b'echo "in $0"; echo x >> made; exit 4\n', env=env).exits(4)
		contains(text(r.out), "in " + (env["SHELL"] if env["SHELL"].startswith("/") else "/bin/sh"))
	equal(changed(p), ["made"], "staged")
	p.croft("shell", "--read-only", "e", stdin=b"cat made\n", env={"SHELL": "/bin/sh"}).exits(0)
	refused(p.croft("shell", "e", "--", "ls"), "croft exec")


@test
def test_receipt_lies_where_the_caller_is(p):
	"""Also from outside the project, whose file of that name stays as it is."""
	repository(p)
	new(p)
	p.write("out.json", "the user's\n")
	for cwd in (p.home, os.path.join(p.ws, "dir")):
		p.croft("exec", "-q", "--json", "out.json", "e", "--", "true", cwd=cwd).exits(0)
		with open(os.path.join(cwd, "out.json"), encoding="utf-8") as f:
			equal(json.load(f)["exit"]["code"], 0, f"the receipt in {cwd}")
	equal(p.read("out.json"), b"the user's\n", "the project's own file")
	p.croft("exec", "-q", "--json", "out.json", "e", "--", "true").exits(0)
	lacks(text(p.read("out.json")), "the user's", "it is written where it is asked for")


@test
def test_neither_disturbs_the_other(p):
	repository(p)
	new(p)
	before = git(p, "rev-parse", "HEAD")
	p.write("numbers", "the user's\n")
	p.write("users-own", "x\n")
	os.unlink(os.path.join(p.ws, "gone"))
	git(p, "commit", "-aqm", "the user goes on")
	equal(work(p, "cat gone; head -n1 numbers; ls; git rev-parse HEAD; git status --porcelain").split(),
		["bye", "1", "dir", "gone", "numbers", "tool.sh", before], "the environment stays where it started")
	work(p, "rm -rf * .git .gitignore")
	equal(git(p, "status", "--porcelain"), "?? users-own", "the checkout")
	equal(git(p, "log", "--format=%s"), "the user goes on\nstart", "the history")
	git(p, "fsck", "--strict")


@test
def test_where_it_starts(p):
	repository(p)
	first = git(p, "rev-parse", "HEAD")
	p.write("second", "2\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "second")
	git(p, "branch", "other", "HEAD~1")
	git(p, "tag", "-a", "-m", "t", "v1", "HEAD~1")
	for name, rev in (("b", "other"), ("c", "HEAD~1"), ("t", "v1"), ("o", first[:12])):
		new(p, name, "--from", rev)
		equal(work(p, "ls second 2>/dev/null; git rev-parse HEAD", name).split(), [first], rev)
		equal(changed(p, name), [], rev)
	new(p, "h")
	equal(work(p, "cat second; git branch --show-current", "h").split(), ["2", "main"], "HEAD")
	bases = os.listdir(envs.state(p, "bases"))
	equal(len(bases), 2, "one base for each tree")


@test
def test_project_is_found_and_given(p):
	repository(p)
	p.croft("new", "-q", "sub", cwd=os.path.join(p.ws, "dir")).exits(0)
	equal(record(p, "sub")["workspace"], p.ws, "from a directory inside")
	p.croft("new", "-q", "far", "--path", p.ws, cwd=p.root).exits(0)
	equal(work(p, "cat gone", "far", cwd=p.root), "bye\n", "from afar")
	equal(names(p), ["far", "sub"], "all")
	here = json.loads(p.croft("ls", "--json", cwd=p.root).exits(0).out)["environments"]
	equal(here, [], "none of this directory")


@test
def test_dirty_start_is_exact(p):
	repository(p)
	p.write("numbers", envs.NUMBERS + "dirty\n")
	p.write("untracked/new", "new\n")
	p.write("staged", "staged\n")
	git(p, "add", "staged")
	os.unlink(os.path.join(p.ws, "gone"))
	os.chmod(os.path.join(p.ws, "dir/b.txt"), 0o755)
	os.unlink(os.path.join(p.ws, "dir/c.txt"))
	os.symlink("b.txt", os.path.join(p.ws, "dir/c.txt"))
	p.write("skip.o", "ignored\n")
	want = tree_now(p)
	new(p, "e", "--dirty")
	equal(changed(p), [], "nothing is staged yet")
	equal((staged_tree(p), tree_inside(p)), (want, want), "the tree")
	work(p, "echo more >> numbers; rm untracked/new")
	equal(changed(p), ["numbers", "untracked/new"], "only what was done inside")
	p.croft("apply", "e").exits(0)
	equal(p.read("numbers"), (envs.NUMBERS + "dirty\nmore\n").encode(), "landed on the dirty file")
	check(not p.exists("untracked") and p.exists("staged") and not p.exists("gone"), "landed")
	new(p, "clean")
	equal(work(p, "cat gone; tail -n1 numbers", "clean").split(), ["bye", "40"], "not dirty unless asked")


# ---- snapshots and forks ----

@test
def test_snapshot_and_restore(p):
	repository(p)
	new(p)
	work(p, "echo one > one; rm gone")
	one = staged_tree(p)
	p.croft("snapshot", "e", "first").exits(0)
	equal(staged_tree(p), one, "a snapshot changes nothing")
	work(p, "echo two > two; echo other > one; git add -A; git commit -qm inside; rm -rf dir")
	two = staged_tree(p)
	p.croft("restore", "e", "first").exits(0)
	equal(staged_tree(p), one, "restored")
	equal(work(p, "cat one; ls gone two 2>/dev/null; cat dir/b.txt; git log --oneline | wc -l", rc=0).split(), ["one", "b", "1"],
		"inside")
	kept = [s if isinstance(s, str) else s["label"] for s in status(p)["snapshots"]]
	equal(kept, ["first", "before-restore-1"], "snapshots")
	p.croft("restore", "e", "before-restore-1").exits(0)
	equal(staged_tree(p), two, "and back")
	refused(p.croft("snapshot", "e", "first"), "already has a snapshot")
	refused(p.croft("restore", "e", "nosuch"), "snapshot", "croft status e")
	refused(p.croft("snapshot", "e", "a/b"))
	p.croft("snapshot", "e").exits(0)
	equal([k for k in events(p) if k in ("snapshot", "restored")], ["snapshot", "restored", "restored", "snapshot"], "events")
	verify(p)


@test
def test_forks_are_independent(p):
	repository(p)
	p.write("numbers", "dirty\n")
	new(p, "e", "--dirty")
	work(p, "echo one > one; git checkout -qb topic; git add one; git commit -qm one")
	p.croft("fork", "e", "f").exits(0)
	p.croft("fork", "f", "g").exits(0)
	tree = staged_tree(p)
	for name in ("f", "g"):
		equal(staged_tree(p, name), tree, name)
		equal(work(p, "cat one numbers; git log --format=%s; git branch --show-current", name).split(),
			["one", "dirty", "one", "start", "topic"], name)
	work(p, "echo two > one; rm numbers")
	work(p, "echo f > f", "f")
	equal(changed(p, "f"), ["f", "one"], "the fork")
	equal(changed(p), ["numbers", "one"], "the origin")
	equal(changed(p, "g"), ["one"], "the fork's fork")
	equal((status(p, "f")["parent"], status(p, "g")["parent"]), ("e", "f"), "parents")
	p.croft("rm", "--force", "e").exits(0)
	equal(work(p, "cat one numbers", "g").split(), ["one", "dirty"], "shared layers stay while somebody needs them")
	refused(p.croft("fork", "f", "g"), "already an environment called g")
	refused(p.croft("fork", "f", "a/b"), "not a valid environment name")
	refused(p.croft("fork", "e", "h"), "no environment called e")
	for name in ("f", "g"):
		verify(p, name)


@test
def test_what_is_restored_after_a_discard_can_land(p):
	repository(p)
	new(p)
	work(p, "echo kept > kept")
	p.croft("snapshot", "e", "s").exits(0)
	p.croft("discard", "e").exits(0)
	contains(text(p.croft("apply", "e").exits(125).err), "was discarded")
	p.croft("restore", "e", "s").exits(0)
	equal(status(p)["state"], "open", "the state")
	p.croft("apply", "e").exits(0)
	equal(p.read("kept"), b"kept\n", "landed")


@test
def test_discard_is_undone(p):
	repository(p)
	new(p)
	work(p, "echo one > one; rm -rf dir")
	tree, start = staged_tree(p), status(p)["start_tree"]
	p.croft("discard", "e").exits(0)
	equal((staged_tree(p), status(p)["state"]), (start, "discarded"), "discarded")
	p.croft("discard", "e", "--undo").exits(0)
	equal((staged_tree(p), status(p)["state"]), (tree, "open"), "brought back")
	p.croft("discard", "e").exits(0)
	work(p, "echo other > other")
	equal(changed(p), ["other"], "it goes on from its start")
	refused(p.croft("discard", "e", "--undo"), "changed after it was discarded")
	verify(p)


@test
def test_gc_takes_only_what_is_finished(p):
	repository(p)
	for name in ("landed", "open", "again", "thrown"):
		new(p, name)
		work(p, f"echo {name} > {name}", name)
	p.croft("apply", "landed").exits(0)
	p.croft("apply", "again").exits(0)
	work(p, "echo later > later", "again")
	p.croft("discard", "thrown").exits(0)
	trees = {n: staged_tree(p, n) for n in ("open", "again")}
	p.croft("gc", "-n").exits(0)
	equal(names(p), ["again", "landed", "open", "thrown"], "a dry run")
	p.croft("gc").exits(0)
	equal(names(p), ["again", "open", "thrown"], "what is landed goes")
	equal({n: staged_tree(p, n) for n in trees}, trees, "staged work")
	p.croft("discard", "thrown", "--undo").exits(0)
	equal(changed(p, "thrown"), ["thrown"], "the undo is not swept")
	for name in names(p):
		verify(p, name)


# ---- what is in it ----

@test
def test_ignored_files_are_there_copy_on_write(p):
	repository(p)
	p.write("node_modules/dep/index.js", "dep\n")
	p.write("lib.o", "object\n")
	new(p)
	equal(work(p, "cat node_modules/dep/index.js; git status --porcelain"), "dep\n", "seen inside")
	work(p, "echo mine > node_modules/dep/index.js; echo new > node_modules/new; rm -f lib.o; echo o > made.o; echo t > tracked")
	equal(p.read("node_modules/dep/index.js"), b"dep\n", "the user's own")
	check(not p.exists("node_modules/new") and not p.exists("made.o"), "written on the host")
	equal(work(p, "cat node_modules/dep/index.js node_modules/new").split(), ["mine", "new"], "kept inside")
	equal(changed(p), ["tracked"], "what can land")
	p.croft("apply", "e").exits(0)
	check(not p.exists("made.o") and not p.exists("node_modules/new"), "ignored files landed")
	equal((p.read("lib.o"), p.read("tracked")), (b"object\n", b"t\n"), "the checkout")


@test
def test_git_inside_as_usual(p):
	repository(p)
	git(p, "branch", "topic")
	host = git(p, "for-each-ref", "refs/heads", "refs/tags", "refs/stash")
	new(p)
	script = ("set -e; git checkout -qb work; echo 1 > one; git add one; git commit -qm one; echo 2 > two; git add two;"
		"git commit -qm two; echo x >> numbers; git stash -q; git checkout -q topic; echo t > t; git add t; git commit -qm t;"
		"git checkout -q work; git rebase -q topic; git stash pop -q; git tag done; git log --format=%s; git status --porcelain")
	equal(work(p, script).split(), ["two", "one", "t", "start", "M", "numbers"], "inside")
	equal(git(p, "for-each-ref", "refs/heads", "refs/tags", "refs/stash"), host, "the host's refs")
	clean(p)
	work(p, "git -c user.name=Evil -c user.email=e@example.org commit -qam last; git checkout -q -B main")
	inside = work(p, "git rev-parse HEAD^{tree}").strip()
	p.croft("apply", "e", "--commit").exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), inside, "the tree")
	equal(git(p, "log", "--format=%s|%an").split("\n"), ["last|Tester", "two|Tester", "one|Tester", "t|Tester", "start|Tester"],
		"commits, in the user's name")
	clean(p)
	git(p, "fsck", "--strict")


@test
def test_directory_without_repository(p):
	need_tier("namespace")
	identity(p)
	p.write("a", "a\n")
	p.write("d/b", "b\n")
	os.symlink("a", os.path.join(p.ws, "link"))
	new(p)
	work(p, "echo more >> a; rm d/b; mkdir n; echo n > n/n; ln -sf n link")
	equal((p.read("a"), p.exists("d/b"), p.exists("n")), (b"a\n", True, False), "nothing yet")
	equal(changed(p), ["a", "d/b", "link", "n/n"], "staged")
	p.croft("apply", "e").exits(0)
	equal((p.read("a"), p.read("n/n"), p.exists("d/b"), os.readlink(os.path.join(p.ws, "link"))),
		(b"a\nmore\n", b"n\n", False, "n"), "landed")
	verify(p)
	refused(p.croft("new", "x", "--from", "HEAD"), "no Git repository")
	p.croft("revert", "e").exits(0)
	equal((p.read("a"), p.exists("n"), p.read("d/b")), (b"a\n", False, b"b\n"), "and out again")


@test
def test_staged_run(p):
	repository(p)
	p.write("numbers", "dirty\n")
	p.croft("run", "--staged", "-q", "--", "sh", "-c", "cat numbers > copy; echo more >> numbers; rm gone").exits(0)
	equal(git(p, "status", "--porcelain"), " M numbers", "nothing yet")
	made = names(p)
	equal(len(made), 1, "one environment")
	check(record(p, made[0])["run"], "made by a run")
	equal(changed(p, made[0]), ["copy", "gone", "numbers"], "staged")
	p.croft("apply", made[0]).exits(0)
	equal((p.read("copy"), p.read("numbers"), p.exists("gone")), (b"dirty\n", b"dirty\nmore\n", False), "landed")
	verify(p, made[0])
	p.croft("run", "--staged", "-q", "--", "true").exits(0)
	p.croft("run", "--staged", "-q", "--", "sh", "-c", "echo x > x; exit 7").exits(7)
	last = [n for n in names(p) if n not in made and changed(p, n)]
	equal(len(last), 1, "a failed run keeps its changes")
	p.croft("discard", last[0]).exits(0)
	check(not p.exists("x"), "x")


@test
def test_repository_without_commits(p):
	need_tier("namespace")
	identity(p)
	git(p, "init", "-q", ".")
	p.write("a", "a\n")
	new(p)
	work(p, "echo b > b; git add -A; git -c user.name=A -c user.email=a@example.org commit -qm first; git log --format=%s")
	equal(changed(p), ["b"], "staged")
	p.croft("apply", "e").exits(0)
	equal((p.read("b"), git(p, "status", "--porcelain").split("\n")), (b"b\n", ["?? a", "?? b"]), "landed")
	work(p, "echo c > c")
	r = p.croft("apply", "e", "--squash")  # the first commit, or a sentence that there is none to add to
	if r.rc:
		refused(r)
		equal(git(p, "status", "--porcelain").split("\n"), ["?? a", "?? b"], "nothing changed")
	else:
		equal(git(p, "log", "--format=%an"), "Tester", "the first commit")
	verify(p)


# ---- kinds of repositories ----

@test
def test_linked_worktree(p):
	repository(p)
	linked = os.path.join(p.home, "linked")
	git(p, "worktree", "add", "-q", "-b", "topic", linked)
	p.croft("new", "-q", "w", "--path", linked).exits(0)
	equal(work(p, "pwd; git branch --show-current; git status --porcelain", "w", cwd=linked).split(), [linked, "topic"], "inside")
	work(p, "echo w > w; git add w; git commit -qm w; rm gone", "w", cwd=linked)
	want = tree_inside(p, "w", cwd=linked)
	p.croft("apply", "w", "--squash", "-m", "landed", cwd=linked).exits(0)
	equal(git(p, "rev-parse", "topic^{tree}"), want, "the tree")
	equal(git(p, "log", "-1", "--format=%s", "main"), "start", "the other branch")
	clean(p)
	clean(p, "the linked one", cwd=linked)
	equal(envs.leftovers(p, linked), [], "left behind")
	verify(p, "w")
	new(p, "m")  # beside it, from the main one
	equal(work(p, "git branch --show-current; ls w 2>/dev/null; true", "m").split(), ["main"], "the main one")


def with_submodule(p):
	repository(p)
	sub = repository(p, at=os.path.join(p.home, "sub"))
	git(p, "submodule", "add", "-q", sub, "lib")
	git(p, "commit", "-qm", "with a submodule")
	return sub


@test
def test_submodules(p):
	with_submodule(p)
	new(p)
	equal(work(p, "cat lib/gone; git submodule status; git status --porcelain; cd lib; git log --format=%s").split()[0], "bye", "inside")
	contains(work(p, "cd lib; git log --format=%s; git status --porcelain"), "start")
	work(p, "echo top > top")
	p.croft("apply", "e", "--squash").exits(0)
	clean(p)
	work(p, "cd lib; echo deep > deep; git add deep; git commit -qm deep")
	contains(text(p.croft("diff", "e").exits(0).out), "lib")
	before = git(p, "rev-parse", "HEAD:lib")
	r = p.croft("apply", "e")
	check(r.rc == 126 and b"lib" in r.err, "a submodule's change lands quietly", r)
	equal(git(p, "rev-parse", "HEAD:lib"), before, "the submodule")
	check(not p.exists("lib/deep"), "written into the submodule")
	clean(p)


@test
def test_submodule_that_is_not_there(p):
	with_submodule(p)
	bare = os.path.join(p.home, "clone")
	git(p, "clone", "-q", p.ws, bare)
	p.croft("new", "-q", "c", "--path", bare).exits(0)
	equal(work(p, "ls lib; git status --porcelain; echo x > x", "c", cwd=bare), "", "an empty directory")
	p.croft("apply", "c", "--squash", cwd=bare).exits(0)
	clean(p, cwd=bare)


@test
def test_sparse_checkout(p):
	repository(p)
	for i in range(3):
		p.write(f"part{i}/file", f"{i}\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "parts")
	git(p, "sparse-checkout", "set", "--cone", "part1")
	check(not p.exists("part0"), "the checkout is not sparse")
	new(p)
	equal(work(p, "ls; git status --porcelain").split(), ["gone", "numbers", "part1", "tool.sh"], "inside")
	equal(changed(p), [], "what is left out is not deleted")
	work(p, "echo more >> part1/file; echo new > part1/new")
	p.croft("apply", "e", "--squash").exits(0)
	clean(p)
	equal(git(p, "show", "HEAD:part0/file"), "0", "what is left out stays in the commit")
	equal(git(p, "show", "HEAD:part1/file"), "1\nmore", "landed")
	equal((p.exists("part0"), p.exists("part2")), (False, False), "still sparse")


@test
def test_sha256_repository(p):
	repository(p, "--object-format=sha256")
	new(p)
	work(p, "echo one > one; git add one; git commit -qm one; rm gone; printf 'a\\0b' > binary")
	want = tree_inside(p)
	equal(len(want), 64, "length of an id")
	equal(staged_tree(p), want, "staged")
	p.croft("apply", "e", "--squash").exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), want, "landed")
	clean(p)
	verify(p)
	git(p, "fsck", "--strict")


@test
def test_shallow_and_bare_neighbours(p):
	repository(p)
	for i in range(3):
		git(p, "commit", "-q", "--allow-empty", "-m", f"c{i}")
	shallow = os.path.join(p.home, "shallow")
	git(p, "clone", "-q", "--depth", "1", "file://" + p.ws, shallow)
	p.croft("new", "-q", "s", "--path", shallow).exits(0)
	equal(work(p, "git log --format=%s; git status --porcelain; git fsck 2>&1 | grep -c missing; echo x > x", "s", cwd=shallow).split(),
		["c2", "0"], "inside")
	p.croft("apply", "s", "--squash", cwd=shallow).exits(0)
	equal(git(p, "log", "--format=%s", cwd=shallow).split("\n")[1:], ["c2"], "one more commit")
	git(p, "fsck", cwd=shallow)
	verify(p, "s", cwd=shallow)


@test
def test_crlf_repository_and_attributes(p):
	repository(p)
	p.write(".gitattributes", "*.txt text eol=crlf\n*.bin -text\n")
	p.write("win.txt", "one\r\ntwo\r\n")
	p.write("raw.bin", "a\r\nb\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "endings")
	git(p, "rm", "-rq", "--cached", ".")
	git(p, "reset", "-q", "--hard")
	new(p)
	equal(work(p, "od -c win.txt | head -n1; git status --porcelain").split()[1:5], ["o", "n", "e", "\\r"], "inside")
	equal(changed(p), [], "nothing is staged")
	work(p, "printf 'three\\r\\n' >> win.txt; printf 'c\\r\\n' >> raw.bin; printf 'x\\r\\n' > fresh.txt")
	want = tree_inside(p)
	equal(staged_tree(p), want, "the tree")
	p.croft("apply", "e", "--squash").exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), want, "landed")
	equal((p.read("win.txt"), p.read("raw.bin")), (b"one\r\ntwo\r\nthree\r\n", b"a\r\nb\nc\r\n"), "the checkout")
	clean(p)


@test
def test_somebody_elses_repository_as_root(p):
	if not ROOT:
		raise Skip("only root may work in other people's directories")
	repository(p)
	for top, dirs, files in os.walk(p.ws):
		for f in [top, *(os.path.join(top, n) for n in dirs + files)]:
			os.chown(f, 60901, 60901, follow_symlinks=False)
	r = subprocess.run(["git", "status"], cwd=p.ws, env=p.env, capture_output=True, check=False)
	check(b"dubious ownership" in r.stderr, "git itself does not mind", r.stderr)
	r = p.croft("new", "-q", "e")
	if r.rc:  # git refuses it for the user, too: it must be said, and how to allow it
		refused(r, "safe.directory")
		p.write(os.path.join(p.home, ".gitconfig"), f"[user]\n\tname = T\n\temail = t@e.org\n[safe]\n\tdirectory = {p.ws}\n")
		new(p)
	equal(work(p, "git status --porcelain; git log --format=%s; echo new > new; echo more >> numbers"), "start\n", "inside")
	p.write(os.path.join(p.home, ".gitconfig"), f"[user]\n\tname = T\n\temail = t@e.org\n[safe]\n\tdirectory = {p.ws}\n")
	p.croft("apply", "e").exits(0)
	equal((p.read("new"), p.read("numbers")[-5:]), (b"new\n", b"more\n"), "landed")
	verify(p)


# ---- two at a time ----

@test
def test_one_writer_many_readers(p):
	repository(p)
	new(p)
	writer = p.start("exec", "-q", "e", "--", "sh", "-c", "echo first > held; echo ready; read line; echo done >> held")
	try:
		equal(writer.stdout.readline(), b"ready\n", "the writer")
		contains(refused(p.croft("exec", "e", "--", "true"), rc=(126,)), f"in use by process {writer.pid}")
		for command in (("apply", "e"), ("snapshot", "e"), ("fork", "e", "f"), ("discard", "e"), ("rm", "--force", "e"),
			("review", "e", "--accept-all"), ("restore", "e", "x"), ("revert", "e")):
			contains(refused(p.croft(*command)), "in use")
		equal(work(p, "cat held", "e", "--read-only"), "first\n", "a reader beside it")
		equal(changed(p), ["held"], "diff beside it")
		check(status(p)["in_use"], "in use")
		readers = [p.start("exec", "-q", "--read-only", "e", "--", "sh", "-c", "cat held; echo x > held") for _ in range(4)]
		for r in readers:
			out, _ = r.communicate(timeout=60)
			check(out == b"first\n" and r.returncode != 0, "a reader writes", out, r.returncode)
		p.croft("gc").exits(0)
		writer.communicate(b"go\n", timeout=60)
		equal(writer.returncode, 0, "the writer")
	finally:
		end(writer)
	equal(work(p, "cat held"), "first\ndone\n", "what it wrote")
	equal(events(p), ["created", "exec", "exec"], "readers are not recorded")
	verify(p)


@test
def test_two_of_one_name_at_once(p):
	repository(p)
	started = [p.start("new", "-q", "e") for _ in range(6)]
	for s in started:
		s.communicate(timeout=60)
	codes = sorted(s.returncode for s in started)
	equal(codes, [0] + [125] * 5, "one of them")
	equal((names(p), changed(p)), (["e"], []), "it works")
	verify(p)
	equal([n for n in os.listdir(envs.state(p, "envs")) if n != "e"], [], "left behind")


@test
def test_a_script_that_is_not_committed(p):
	"""It is not in the environment: the sentence says so, and what would have it."""
	repository(p)
	p.write("late.sh", "#!/bin/sh\necho ran\n")
	os.chmod(p.ws + "/late.sh", 0o755)
	new(p)
	line = p.croft("exec", "e", "--", "./late.sh").exits(127).one_sentence()
	contains(line, "croft new --dirty")
	lacks(p.croft("exec", "e", "--", "./none.sh").exits(127).one_sentence(), "--dirty")
	p.croft("new", "-q", "--dirty", "d").exits(0)
	equal(p.croft("exec", "-q", "d", "--", "./late.sh").exits(0).out, b"ran\n")


@test
def test_host_repository_is_untouched_until_apply(p):
	repository(p)

	def look():
		found = {}
		for top, _, files in os.walk(os.path.join(p.ws, ".git")):
			for f in files:
				path = os.path.join(top, f)
				if "/croft" not in path and "/objects/" not in path:
					with open(path, "rb") as fh:
						found[path] = fh.read()
		return found
	before = look()
	new(p)
	work(p, "git config core.fsmonitor /tmp/evil; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit;"
		"git commit -q --allow-empty -m x; git tag t; echo y > y; git add y; git gc -q 2>/dev/null; true")
	p.croft("snapshot", "e").exits(0)
	p.croft("fork", "e", "f").exits(0)
	p.croft("discard", "e").exits(0)
	p.croft("gc").exits(0)
	after = look()
	equal(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)), [], "changed in .git")
	lacks(git(p, "for-each-ref"), "refs/tags")


if __name__ == "__main__":
	main()
