#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environments and bad input: conflicts, missing and corrupt objects, full and read-only disks, odd names, other versions.

One clear sentence, and nothing lost."""
import base64
import json
import os
import shutil
import subprocess
import zlib

from envs import (changed, clean, copy_tree, edit_record, events, git, identity, leftovers, names, new, open_up, record, refused, repository,
	staged_tree, state, status, tree_now, verify, work)
from harness import CROFT, ROOT, Skip, check, contains, equal, lacks, main, need, need_tier, test, text


# ---- names ----

BAD_NAMES = ("a/b", "../x", ".", "..", "", "/abs", "-x", ".hidden", "a b", "a\nb", "a\x1b[2Jb", "a\x7f", "ü", b"\xff\xfe", "x" * 65,
	"x.lock", "a\\b", "a:b", "a~1", "a^", "*", "$(id)", "a;b", "@{u}")


FLOOD = """
import os
tail = '/'.join(['\\x01' * 250] * 15)
for i in range(600):
	try: os.open('/usr/' + tail + '/%d' % i, os.O_CREAT | os.O_WRONLY)
	except OSError: pass
for i in range(1200):
	at = os.open('.', os.O_RDONLY)
	for k in range(15):
		name = '\\x01' * 240 + str(i if k == 0 else k)
		try: os.mkdir(name, dir_fd=at)
		except FileExistsError: pass
		at, old = os.open(name, os.O_RDONLY, dir_fd=at), at
		os.close(old)
	os.close(os.open('f', os.O_CREAT | os.O_WRONLY, dir_fd=at))
	os.close(at)
"""


@test
def test_a_flood_of_long_names_is_recorded_and_closes_nothing(p):
	repository(p)
	new(p)
	p.croft("exec", "-q", "e", "--", "python3", "-c", FLOOD, timeout=120).exits(0)
	p.croft("exec", "-q", "e", "--", "true").exits(0)
	equal(events(p), ["created", "exec", "exec"], "events")
	verify(p)
	p.croft("rm", "--force", "e").exits(0)


@test
def test_names(p):
	repository(p)
	for name in BAD_NAMES:
		for command in (("new",), ("exec",), ("status",), ("rm", "--force"), ("apply",), ("diff",), ("log",), ("discard",), ("snapshot",),
			("evidence", "show")):
			if name == "-x" and command[0] != "new":
				continue
			r = p.croft(*command, name, *(["--", "true"] if command[0] == "exec" else []))
			check(r.rc in (125, 126), f"croft {command} {name!r}: exit {r.rc}", r)
			line = r.one_sentence()
			check("\x1b" not in line and "\x7f" not in line, "raw bytes", line)
	equal(names(p), [], "made")
	check(not os.path.exists(state(p, "envs")) or os.listdir(state(p, "envs")) == [], "left behind")
	for name in ("a", "A", "0", "x" * 64, "a.b_c-d", "new", "HEAD", "e.LOCK"):
		new(p, name)
		equal(work(p, "cat gone", name), "bye\n", name)
	refused(p.croft("new", "a"), "already an environment called a")
	refused(p.croft("new"))
	refused(p.croft("new", "b", "c"))


@test
def test_labels_and_paths(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	for label in ("a/b", "", "..", "a\x1bb", "x" * 65):
		refused(p.croft("snapshot", "e", label))
		refused(p.croft("restore", "e", label))
	for path in ("../x", "/etc/passwd", "nowhere", "x/../../y", ".git/config", ""):
		r = p.croft("apply", "e", "--", path) if path else p.croft("apply", "e", "")
		check(r.rc in (125, 126), f"path {path!r}", r)
		r.one_sentence()
	equal(changed(p), ["x"], "staged")
	clean(p)


# ---- bases ----

@test
def test_missing_base(p):
	repository(p)
	for rev in ("nosuch", "HEAD~7", "0" * 40, "f" * 40, "--help", "-x", "HEAD:numbers", "HEAD^{tree}", "a\x1b[2Jb", "", "main..main", "@{-1}"):
		r = p.croft("new", "e", f"--from={rev}" if rev.startswith("-") else "--from", *([] if rev.startswith("-") else [rev]))
		check(r.rc in (125, 126), f"--from {rev!r}", r)
		refused(r)
	equal(names(p), [], "made")
	check(not os.path.isdir(state(p, "envs")) or os.listdir(state(p, "envs")) == [], "left behind in envs")
	refused(p.croft("new", "e", "--path", os.path.join(p.root, "nowhere")))
	refused(p.croft("new", "e", "--path", p.write("a-file", "x")))
	refused(p.croft("new", "e", "--path", "/"))


@test
def test_base_that_goes_away(p):
	"""The user throws the commits away that it started from, and collects the garbage."""
	repository(p)
	p.write("doomed", "x\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "doomed")
	doomed = git(p, "rev-parse", "HEAD:doomed")
	new(p)
	work(p, "echo x > x; echo more >> doomed")
	git(p, "reset", "-q", "--hard", "HEAD~1")
	git(p, "reflog", "expire", "--expire=now", "--all")
	git(p, "gc", "-q", "--prune=now")
	equal(changed(p), ["doomed", "x"], "staged")
	equal(work(p, "cat x doomed; git log --format=%s; git status --porcelain | wc -l").split(), ["x", "x", "more", "doomed", "start", "2"],
		"inside")
	p.croft("apply", "e", "x").exits(0)
	equal(p.read("x"), b"x\n", "landed")
	contains(text(p.croft("apply", "e").exits(126).err), "doomed", "the conflict")
	verify(p)
	p.croft("rm", "--force", "e").exits(0)
	git(p, "gc", "-q", "--prune=now")
	git(p, "cat-file", "-e", doomed, rc=1)  # and after it is removed nothing holds them


@test
def test_base_that_is_missing(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	objects = os.path.join(p.ws, ".git/objects")
	trees = [git(p, "rev-parse", r) for r in ("HEAD^{tree}", "HEAD:dir", "HEAD:numbers")]
	for oid in trees:
		os.rename(loose(p, oid), os.path.join(p.root, oid))
	for command in (("diff", "e"), ("apply", "e"), ("apply", "e", "--squash")):
		r = p.croft(*command)
		if r.rc:
			lacks(refused(r), "croft: git ", "a sentence that says what is wrong")
	for oid in trees:
		os.rename(os.path.join(p.root, oid), os.path.join(objects, oid[:2], oid[2:]))
	equal(changed(p), ["x"], "staged")
	shutil.move(state(p, "bases"), os.path.join(p.root, "bases"))
	for command in (("exec", "e", "--", "true"), ("apply", "e"), ("status", "e"), ("diff", "e")):
		refused(p.croft(*command))
	equal(names(p), ["e"], "it is still there")
	shutil.move(os.path.join(p.root, "bases"), state(p, "bases"))
	equal(work(p, "cat x"), "x\n", "nothing is lost")
	p.croft("apply", "e").exits(0)
	verify(p)


@test
def test_repository_that_goes_away(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	away = p.ws + ".away"
	commands = (("exec", "e", "--", "true"), ("apply", "e"), ("apply", "e", "--squash"), ("diff", "e"), ("snapshot", "e"))
	os.rename(p.ws, away)
	for instead in ("nothing", "a directory", "another repository"):
		if instead != "nothing":
			os.makedirs(p.ws)
		if instead == "another repository":
			git(p, "init", "-q", ".")
			p.write("numbers", "another\n")
			git(p, "add", "-A")
			git(p, "commit", "-qm", "another")
		for command in commands:
			r = p.croft(*command, cwd=p.root)
			check(r.rc in (125, 126), f"{instead}: {command}", r)
			lacks(refused(r), "croft: git ", f"{instead}: {command}")
		p.croft("ls", "-a", cwd=p.root).exits(0)
		if instead == "a directory":
			equal(os.listdir(p.ws), [], "what is there instead is left alone")
		if instead == "another repository":
			clean(p)
			equal(sorted(os.listdir(p.ws)), [".git", "numbers"], "what is there instead is left alone")
		if instead != "nothing":
			shutil.rmtree(p.ws)
	os.rename(away, p.ws)
	equal((changed(p), work(p, "cat x")), (["x"], "x\n"), "nothing is lost")
	verify(p)
	p.croft("apply", "e").exits(0)


def loose(p, oid):
	return os.path.join(p.ws, ".git/objects", oid[:2], oid[2:])


@test
def test_corrupt_objects(p):
	repository(p)
	victim = git(p, "rev-parse", "HEAD:numbers")
	tree = git(p, "rev-parse", "HEAD:dir")
	for oid, wrong in ((victim, b""), (victim, b"garbage"), (tree, zlib.compress(b"tree 4\0abcd")), (victim, zlib.compress(b"blob 3\0abc"))):
		path = loose(p, oid)
		with open(path, "rb") as f:
			good = f.read()
		os.chmod(path, 0o600)
		p.write(path, wrong)
		r = p.croft("new", "e")
		if wrong[:1] != b"x" or oid == tree:
			contains(refused(r), "git fsck", "what to do")
			equal(names(p), [], "made")
		elif r.rc:
			refused(r)
		p.write(path, good, 0o444)
		if r.rc == 0:
			p.croft("rm", "--force", "e").exits(0)
			shutil.rmtree(state(p, "bases"))
	new(p)
	equal(work(p, "git status --porcelain; head -n1 numbers").split(), ["1"], "with the objects back it works")
	os.unlink(loose(p, victim))  # the base is complete: work goes on
	work(p, "echo x > x")
	p.croft("apply", "e", "x").exits(0)
	equal(p.read("x"), b"x\n", "landed")


@test
def test_partial_clone(p):
	repository(p)
	git(p, "config", "uploadpack.allowFilter", "true")
	partial = os.path.join(p.home, "partial")
	git(p, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://" + p.ws, partial)
	r = p.croft("new", "e", "--path", partial)
	if r.rc:
		refused(r)
		equal(names(p), [], "made")
	else:
		equal(work(p, "head -n1 numbers", cwd=partial), "1\n", "inside")


# ---- conflicts ----

@test
def test_conflicts_with_a_dirty_checkout(p):
	repository(p)
	p.write("image", b"\0\1\2")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "image")
	new(p)
	work(p, "sed -i 's/^3$/three/' numbers; rm gone; echo n > new; printf '\\0\\3' > image; echo x >> dir/b.txt; mkdir made; echo m > made/m;"
		"rm dir/c.txt; mkdir dir/c.txt; echo in > dir/c.txt/in")
	staged = staged_tree(p)
	cases = {"numbers": lambda: p.write("numbers", p.read("numbers").replace(b"\n3\n", b"\ndrei\n")),
		"gone": lambda: p.write("gone", "changed\n"), "new": lambda: p.write("new", "other\n"), "image": lambda: p.write("image", b"\0\4"),
		"dir/b.txt": lambda: os.unlink(os.path.join(p.ws, "dir/b.txt")), "made": lambda: p.write("made", "a file\n"),
		"dir/c.txt": lambda: p.write("dir/c.txt", "changed\n")}
	for path, spoil in cases.items():
		spoil()
		before = tree_now(p), git(p, "status", "--porcelain")
		for how in ((), ("--squash",), ("--commit",)):
			r = p.croft("apply", "e", *how)
			check(r.rc in (125, 126), f"{path}: {how} landed", r)
			contains(text(r.err), path, f"{path}: the refusal")
			check(r.out == b"", "standard output", r)
			equal((tree_now(p), git(p, "status", "--porcelain")), before, f"{path}: nothing changed {how}")
		equal(leftovers(p), [], "left behind")
		git(p, "checkout", "-q", "--", ".")
		git(p, "clean", "-qfd")
	equal(staged_tree(p), staged, "staged work")
	p.croft("apply", "e", "--squash").exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), staged, "and then it lands")
	verify(p)


@test
def test_user_is_in_the_middle_of_something(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	p.write(".git/index.lock", "")
	contains(refused(p.croft("apply", "e", "--squash")), "index.lock")
	check(os.path.exists(os.path.join(p.ws, ".git/index.lock")), "somebody else's lock was removed")
	os.unlink(os.path.join(p.ws, ".git/index.lock"))
	git(p, "checkout", "-qb", "side")
	p.write("numbers", "side\n")
	git(p, "commit", "-qam", "side")
	git(p, "checkout", "-q", "main")
	p.write("numbers", "main\n")
	git(p, "commit", "-qam", "main")
	git(p, "merge", "-q", "side", rc=1)
	before = git(p, "status", "--porcelain")
	refused(p.croft("apply", "e", "--squash"), "merge")
	equal(git(p, "status", "--porcelain"), before, "the merge")
	git(p, "merge", "--abort")
	p.croft("apply", "e", "--squash").exits(0)
	clean(p)


@test
def test_something_else_in_the_place(p):
	"""A directory of the checkout became a symlink that leads away: nothing is written through it."""
	repository(p)
	new(p)
	work(p, "echo evil > dir/b.txt; echo evil > dir/new")
	away = os.path.join(p.root, "away")
	os.rename(os.path.join(p.ws, "dir"), away)
	os.symlink(away, os.path.join(p.ws, "dir"))
	r = p.croft("apply", "e")
	check(r.rc in (125, 126), "landed through a symlink", r)
	equal(sorted(os.listdir(away)), ["b.txt", "c.txt"], "written through the link")
	with open(os.path.join(away, "b.txt"), encoding="utf-8") as f:
		equal(f.read(), "b\n", "written through the link")


# ---- records of others ----

@test
def test_another_version_made_the_record(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	new(p, "ok")
	edit_record(p, "e", schema=2)
	for command in (("exec", "e", "--", "true"), ("apply", "e"), ("diff", "e"), ("status", "e"), ("rm", "e"), ("rm", "--force", "e"),
		("discard", "e"), ("snapshot", "e"), ("fork", "e", "f"), ("review", "e", "--accept-all")):
		contains(refused(p.croft(*command)), "another version of croft")
	equal(work(p, "cat gone", "ok"), "bye\n", "others are not concerned")
	p.croft("ls", "-a").exits(0)
	r = p.croft("gc")
	if r.rc:
		refused(r)
	edit_record(p, "e", schema=1)
	equal(work(p, "cat x"), "x\n", "nothing is lost")
	verify(p)


@test
def test_damaged_records(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	new(p, "ok")
	path = state(p, "envs/e/env.json")
	with open(path, "rb") as f:
		good = f.read()
	rec = json.loads(good)
	wrong = [b"", b"{", good[:-40], b"\0" * 100, b"[" * 100000, b"null", good.replace(b"pinned", b"nailed"),
		json.dumps({**rec, "layers": ["../../../etc"]}).encode(), json.dumps({**rec, "layers": []}).encode(),
		json.dumps({**rec, "workspace": "relative"}).encode(), json.dumps({**rec, "id": "../x"}).encode(),
		json.dumps({**rec, "name": "ok"}).encode(), json.dumps({**rec, "start_layers": 99}).encode(),
		json.dumps({**rec, "base": "../../x"}).encode(), json.dumps({**rec, "start_tree": "zz"}).encode(),
		json.dumps({**rec, "layers": ["0123456789abcdef"]}).encode(), json.dumps({**rec, "layers": ["0" * 16, "1" * 16]}).encode()]
	for w in wrong:
		p.write(path, w)
		for command in (("exec", "e", "--", "true"), ("apply", "e"), ("rm", "e")):
			r = p.croft(*command)
			check(r.rc in (125, 126), f"{command} with {w[:60]!r}…{w[-60:]!r}", r)
			refused(r)
		check(p.croft("ls", "-a").rc in (0, 125), "ls")
		r = p.croft("gc")
		check(r.rc in (0, 125, 126), "gc", r)
	edit = {**rec, "args": ["--nonsense"]}
	p.write(path, json.dumps(edit))
	refused(p.croft("exec", "e", "--", "true"))
	p.write(path, good, 0o600)
	equal((changed(p), work(p, "cat x")), (["x"], "x\n"), "nothing is lost")
	verify(p)
	equal(work(p, "cat gone", "ok"), "bye\n", "others are not concerned")


@test
def test_a_newer_croft_wrote_to_the_ledger(p):
	"""An event of a schema this one does not know: nothing is done that could not be recorded, and what is there stays."""
	repository(p)
	new(p)
	work(p, "echo x > x")
	ref = status(p)["ledger"]
	tip = git(p, "rev-parse", ref)
	event = json.loads(git(p, "show", f"{ref}:statement.dsse.json"))
	event["payload"] = base64.b64encode(base64.b64decode(event["payload"]).replace(b"croft.ledger/v1", b"croft.ledger/v9")).decode()
	blob = git(p, "hash-object", "-w", "--stdin", stdin=json.dumps(event).encode())
	tree = git(p, "mktree", stdin=f"100644 blob {blob}\tstatement.dsse.json\n".encode())
	git(p, "update-ref", ref, git(p, "commit-tree", tree, "-p", tip, "-m", "future"))
	newer = git(p, "rev-parse", ref)
	for command in (("exec", "e", "--", "sh", "-c", "echo y > y"), ("apply", "e"), ("snapshot", "e"), ("discard", "e")):
		contains(refused(p.croft(*command)), "newer croft")
	equal((git(p, "rev-parse", ref), changed(p)), (newer, ["x"]), "nothing was done")
	clean(p)
	r = p.croft("evidence", "verify", "e").exits(1)
	contains(text(r.out), "event 3")
	contains(text(r.out), "another version of croft")
	contains(text(p.croft("log", "e").exits(0).out), "UNREADABLE")
	git(p, "update-ref", ref, tip)
	equal(work(p, "cat x"), "x\n", "nothing is lost")
	verify(p)


@test
def test_ledger_is_gone(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	ref = status(p)["ledger"]
	tip = git(p, "rev-parse", ref)
	git(p, "update-ref", "-d", ref)
	for command in (("exec", "e", "--", "sh", "-c", "echo y > y"), ("apply", "e"), ("snapshot", "e"), ("discard", "e")):
		refused(p.croft(*command))
	equal(changed(p), ["x"], "nothing was done")
	clean(p)
	git(p, "update-ref", ref, tip)
	equal(work(p, "cat x"), "x\n", "nothing is lost")
	verify(p)


@test
def test_lock_of_the_ledger_that_a_crash_left(p):
	repository(p)
	new(p)
	path = os.path.join(p.ws, ".git", status(p)["ledger"] + ".lock")
	p.write(path, "")
	os.utime(path, (1, 1))
	work(p, "echo x > x")
	p.croft("apply", "e").exits(0)
	equal(events(p), ["created", "exec", "applied"], "events")
	verify(p)


# ---- disks ----

class Disk:
	"""A file system of its own (tmpfs) on a directory, in a mount namespace in which croft then runs."""

	def __init__(self, p, at, options, ro=None):
		self.p, self.at, self.options, self.ro = p, at, options, ro
		if not ROOT:
			raise Skip("only root can mount without a user namespace, in which nobody's programs are trusted")
		self.unshare = [need("unshare"), "-m", "--propagation", "private"]
		r = self.raw("true")
		if r.returncode:
			raise Skip(f"no mount namespace: {text(r.stderr).strip()[:200]}")

	def raw(self, script):
		setup = f"mount -t tmpfs -o {self.options} tmpfs '{self.at}' && " if self.options else ""
		ro = f"mount --bind '{self.ro}' '{self.ro}' && mount -o remount,bind,ro '{self.ro}' && " if self.ro else ""
		return subprocess.run([*self.unshare, "sh", "-c", setup + ro + script], cwd=self.p.ws, env={**self.p.env, "CROFT": CROFT},
			capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL)


def sentences(r, *words):
	lines = [x for x in text(r.stderr).splitlines() if x.startswith("croft")]
	check(lines, "no sentence", text(r.stdout), text(r.stderr))
	for w in words:
		check(any(w in x for x in lines), f"{w!r} is not said", text(r.stderr))


@test
def test_full_disk_for_state(p):
	"""The state directory is on a small disk that fills up: before, while and after."""
	repository(p)
	os.makedirs(state(p))
	d = Disk(p, state(p), "size=8m,mode=700")
	r = d.raw(f"""
		dd if=/dev/zero of={state(p)}/ballast bs=64k 2>/dev/null; rm -f {state(p)}/none
		"$CROFT" new full; echo "new $?"
		rm {state(p)}/ballast
		"$CROFT" ls -a --json | tr -d ' \\n' | head -c 300; echo
		"$CROFT" new -q e; echo "made $?"
		"$CROFT" exec -q e -- sh -c 'echo kept > kept'; echo "exec $?"
		"$CROFT" exec -q e -- sh -c 'head -c 20000000 /dev/zero > big; echo rc $?'; echo "fill $?"
		"$CROFT" exec -q e -- cat kept; echo "cat $?"
		"$CROFT" apply e kept; echo "apply $?"
		"$CROFT" exec -q e -- rm -f big; echo "rm $?"
		"$CROFT" exec -q e -- cat kept; echo "again $?"
		"$CROFT" apply e; echo "apply2 $?"
		"$CROFT" evidence verify e | head -n1
	""")
	out = text(r.stdout)
	contains(out, "new 125")
	contains(out, "[]")
	for line in ("made 0", "exec 0", "again 0", "apply2 0", "good: e"):
		contains(out, line, f"{out}\n{text(r.stderr)}\noutput")
	sentences(r, "No space left")
	equal(p.read("kept"), b"kept\n", "landed")
	equal(leftovers(p), [], "left behind")
	git(p, "fsck", "--strict")


@test
def test_full_disk_for_the_checkout(p):
	"""No room for what lands: nothing lands."""
	need_tier("namespace")
	identity(p)
	d = Disk(p, p.ws, "size=4m,mode=755")
	r = d.raw(f"""
		cd '{p.ws}' && git init -q . && for i in $(seq 9); do echo $i > f$i; done && git add -A && git commit -qm start || exit 9
		"$CROFT" new -q e && "$CROFT" exec -q e -- sh -c 'for i in $(seq 9); do head -c 600000 /dev/urandom > f$i; done; echo n > new'
		echo "exec $?"
		"$CROFT" apply e; echo "apply $?"; git status --porcelain; echo "status"
		"$CROFT" apply e --squash; echo "squash $?"; git status --porcelain; git log --oneline | wc -l; ls .git | grep -e croft -e lock
		dd if=/dev/zero of=.git/ballast bs=4k 2>/dev/null
		"$CROFT" apply e new >/dev/null; echo "new $?"; git status --porcelain; rm .git/ballast
		"$CROFT" apply e new >/dev/null; echo "new $?"; git status --porcelain
		"$CROFT" status e --json | grep -c '"modified": 9'
		"$CROFT" evidence verify e | head -n1; git fsck 2>&1 | grep -v dangling; echo end
	""")
	out = text(r.stdout).split("\n")
	check("exec 0" in out, "the work", text(r.stdout), text(r.stderr))
	i = out.index("apply 125") if "apply 125" in out else out.index("apply 126") if "apply 126" in out else None
	check(i is not None, "an apply without room", text(r.stdout), text(r.stderr))
	equal(out[i + 1], "status", "nothing changed")
	j = next((k for k, x in enumerate(out) if x.startswith("squash 12")), None)
	check(j is not None, "a commit without room", text(r.stdout), text(r.stderr))
	equal(out[j + 1], "1", "nothing changed, nothing left")
	k = [n for n, x in enumerate(out) if x.startswith("new ")]
	check(len(k) == 2 and out[k[0]] in ("new 125", "new 126") and k[1] == k[0] + 1 and out[k[1]] == "new 0", "full, then not",
		text(r.stdout), text(r.stderr))
	equal(out[k[1] + 1], "?? new", "landed")
	check("1" in out[k[1] + 2:] and any(x.startswith("good: e") for x in out), "staged work and evidence", text(r.stdout), text(r.stderr))
	sentences(r, "No space left")


@test
def test_read_only_checkout(p):
	repository(p)
	new(p)
	work(p, "echo x > x; rm gone")
	d = Disk(p, p.ws, "", ro=p.ws)
	r = d.raw('"$CROFT" apply e; echo "apply $?"; "$CROFT" apply e --squash; echo "squash $?"; "$CROFT" diff --names e; echo "diff $?"')
	out = text(r.stdout)
	check("apply 125" in out or "apply 126" in out, "apply", out, text(r.stderr))
	check("squash 125" in out or "squash 126" in out, "squash", out, text(r.stderr))
	contains(out, "diff 0")
	sentences(r, "ead-only")
	clean(p)
	p.croft("apply", "e").exits(0)
	equal((p.read("x"), p.exists("gone")), (b"x\n", False), "writable again")
	verify(p)


@test
def test_read_only_state(p):
	repository(p)
	new(p)
	work(p, "echo x > x")
	tree = staged_tree(p)
	d = Disk(p, p.ws, "", ro=state(p))
	r = d.raw('for c in "new n" "exec e -- true" "snapshot e" "apply e" "discard e" "fork e f" "rm --force e"; do "$CROFT" $c;'
		'echo "$c: $?"; done;'
		'"$CROFT" ls -a; "$CROFT" diff --names e; echo "diff $?"; "$CROFT" status e > /dev/null; echo "status $?"')
	for line in text(r.stdout).splitlines():
		if line.startswith(("new", "exec", "snapshot", "apply", "discard", "fork", "rm")):
			check(line.endswith((": 125", ": 126")), "on a read-only disk", line, text(r.stderr))
	contains(text(r.stdout), "diff 0", f"{text(r.stdout)}{text(r.stderr)}\noutput")
	contains(text(r.stdout), "status 0")
	sentences(r, "ead-only")
	equal((names(p), staged_tree(p)), (["e"], tree), "nothing is lost")
	clean(p)
	verify(p)


@test
def test_read_only_directory_in_the_checkout(p):
	if ROOT:
		raise Skip("root writes into read-only directories")
	repository(p)
	new(p)
	work(p, "echo a > a; echo more >> dir/b.txt; echo z > z")
	os.chmod(os.path.join(p.ws, "dir"), 0o555)
	try:
		for how in ((), ("--squash",)):
			r = p.croft("apply", "e", *how)
			check(r.rc in (125, 126), "landed", r)
			clean(p, "all or nothing")
			check(not p.exists("a") and not p.exists("z"), "half of it")
			equal(leftovers(p), [], "left behind")
	finally:
		os.chmod(os.path.join(p.ws, "dir"), 0o755)
	p.croft("apply", "e").exits(0)
	verify(p)


@test
def test_state_directory_of_somebody(p):
	repository(p)
	shutil.rmtree(state(p), ignore_errors=True)
	os.makedirs(os.path.dirname(state(p)), exist_ok=True)
	p.write(state(p), "a file\n")
	for command in (("new", "e"), ("ls",), ("exec", "e", "--", "true"), ("gc",)):
		r = p.croft(*command)
		check(r.rc in (0, 125, 126), f"{command}", r)
		if r.rc:
			refused(r)
	with open(state(p), encoding="utf-8") as f:
		equal(f.read(), "a file\n", "what is there")
	os.unlink(state(p))
	os.symlink(os.path.join(p.root, "elsewhere"), state(p))
	r = p.croft("new", "e")  # a dangling link
	if r.rc:
		refused(r)


@test
def test_copied_home(p):
	"""State that was copied (a backup, an image) works where it is, and the origin is not touched."""
	repository(p)
	new(p)
	work(p, "echo x > x; rm gone; rm -r dir; mkdir dir; echo y > dir/y")
	tree = staged_tree(p)
	copy_tree(p.home, p.home + ".copy")
	open_up(p.home)
	shutil.rmtree(p.home)
	os.rename(p.home + ".copy", p.home)
	equal(staged_tree(p), tree, "staged")
	equal(work(p, "cat x dir/y; ls -d dir/* gone 2>/dev/null; true").split(), ["x", "y", "dir/y"], "inside")
	p.croft("apply", "e", "--squash").exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), tree, "landed")
	verify(p)
	equal(events(p)[-1], "applied", "events")
	check(record(p)["state"] == "landed", "state")


if __name__ == "__main__":
	main()
