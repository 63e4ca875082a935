#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# once
# timeout: 900
"""What was staged is what lands, to the byte: the tree that `git add -A` makes inside is the one that croft shows,
that --squash commits, that lands in the working tree and that the patch makes; or it is refused, loudly."""
import hashlib
import os
import random
import stat

from envs import (LONG, changed, clean, diff, git, leftovers, new, repository, staged_tree, status, tree_inside, tree_now,
	verify, work)
from harness import Skip, check, contains, equal, main, test, text

MANY = 100000 if LONG else 1000


def exact(p, script, name="e", timeout=60, make=True):
	"""Do it inside, land it in every way, and compare the trees."""
	if make:
		new(p, name)
	work(p, script, name, timeout=timeout)
	want = tree_inside(p, name, timeout=timeout)
	equal(staged_tree(p, name, timeout=timeout), want, "what status says")
	head = git(p, "rev-parse", "HEAD")
	clean(p)
	patch = p.croft("apply", name, "--patch", timeout=timeout).exits(0).out
	index = {"GIT_INDEX_FILE": os.path.join(p.root, "patched")}
	git(p, "read-tree", "HEAD", env=index)
	git(p, "apply", "--cached", "-", stdin=patch, env=index)
	equal(git(p, "write-tree", env=index), want, "what the patch makes")
	p.croft("apply", name, timeout=timeout).exits(0)
	equal(tree_now(p), want, "what lands in the working tree")
	p.croft("revert", name, timeout=timeout).exits(0)
	clean(p, "after the revert")
	p.croft("apply", name, "--squash", timeout=timeout).exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), want, "what is committed")
	clean(p, "after the commit")
	equal(git(p, "rev-parse", "HEAD^"), head, "one commit")
	equal(leftovers(p), [], "left behind")
	verify(p, name)
	return want


def loud(p, script, *paths):
	"""It cannot land: said by diff, named by apply, and nothing at all was changed."""
	new(p)
	work(p, script + "\necho fine > fine")
	before = tree_now(p)
	r = p.croft("apply", "e")
	equal(r.rc, 126, f"exit status of {r!r}")
	for path in paths:
		contains(text(r.err), path, "the refusal")
	shown = text(p.croft("diff", "e").exits(0).out)
	for path in paths:
		contains(shown, path, "the diff")
	equal(tree_now(p), before, "the checkout")
	check(not p.exists("fine"), "something landed beside it")
	p.croft("apply", "e", "fine").exits(0)  # what is fine can be named
	equal(p.read("fine"), b"fine\n", "named")
	verify(p)


@test
def test_binary_and_odd_contents(p):
	repository(p)
	p.write("image", bytes(range(256)))
	git(p, "add", "-A")
	git(p, "commit", "-qm", "binary")
	exact(p, "printf '\\0\\377\\200' >> image; printf '' > empty; printf 'no newline' > none; printf 'a\\rb\\r\\nc\\n' > mixed;"
		"head -c 300000 /dev/urandom > random; printf '\\357\\273\\277bom\\n' > bom; : > numbers")


@test
def test_names_that_are_hard(p):
	repository(p)
	odd = [b"caf\xe9", b"\xff\xfe", "ü".encode(), "u\u0308".encode(), b"new\nline", b"tab\there", b"-dash", b"--help", b"quo\"te", b"ba\\ck",
		b" space ", b"\x1b[2J", b"#hash", b"!bang", b":colon", b"a*b?[c]", b"n" * 255, b"$(id)", b"~", b"...", b"HEAD", b"\xe2\x80\xaeltr"]
	here = os.path.join(p.ws, "inbox")
	for i, name in enumerate(odd):
		p.write(os.path.join(here, os.fsdecode(name)), f"{i}\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "names")
	exact(p, "cd inbox; i=0; for f in * .[!.]* ...; do [ -f \"./$f\" ] || continue; i=$((i+1)); case $((i%3)) in 0) rm -- \"./$f\";;"
		"1) echo more >> \"./$f\";; 2) mv -- \"./$f\" \"../moved-$i\";; esac; done;"
		"mkdir -p \"$(printf 'd\\351')\"; echo x > \"$(printf 'd\\351/f\\377')\"; cp \"$(printf 'd\\351/f\\377')\" ../plain")
	listed = {f["path"] for f in diff(p, "e", "--names")["files"]}
	check(len(listed) > 20, "all of them are shown", listed)


@test
def test_deep_and_long_paths(p):
	repository(p)
	exact(p, "d=deep; for i in $(seq 1 60); do d=$d/$i; done; mkdir -p $d; echo x > $d/file;"
		"l=$(printf '%0200d' 0); mkdir -p long/$l/$l/$l; echo y > long/$l/$l/$l/$l")


@test
def test_modes(p):
	repository(p)
	exact(p, "chmod +x dir/b.txt; chmod -x tool.sh; echo 'echo hi' > new.sh; chmod 0777 new.sh; chmod 0600 numbers; chmod 0666 gone;"
		"chmod 0700 dir; echo x > secret; chmod 0400 secret")
	equal(sorted(f for f in changed(p)), ["dir/b.txt", "new.sh", "secret", "tool.sh"], "modes that Git does not keep are no change")
	mode = stat.S_IMODE(os.lstat(os.path.join(p.ws, "new.sh")).st_mode)
	equal(mode & 0o022, 0, "not writable for others")


@test
def test_symlinks(p):
	repository(p)
	os.symlink("numbers", os.path.join(p.ws, "link"))
	os.symlink("dir", os.path.join(p.ws, "dirlink"))
	git(p, "add", "-A")
	git(p, "commit", "-qm", "links")
	exact(p, "ln -sfn gone link; rm dirlink; mkdir dirlink; echo f > dirlink/f; rm gone; ln -s nowhere gone; rm -r dir; ln -s dirlink dir;"
		"ln -s ../numbers dirlink/up; ln -s \"$(printf 'bad\\377')\" bytes; rm numbers; cp tool.sh numbers")
	equal(os.readlink(os.path.join(p.ws, "dir")), "dirlink", "a directory that became a link")


@test
def test_links_out_of_the_tree_are_refused(p):
	repository(p)
	loud(p, "ln -s /etc/passwd absolute; ln -s ../../outside climbing; ln -s .git/config into-git; mkdir s; ln -s ../.. s/up",
		"absolute", "climbing", "into-git", "s/up")


@test
def test_case_collisions(p):
	repository(p)
	if os.path.exists(os.path.join(p.ws, "NUMBERS")):
		raise Skip("this file system folds case")
	new(p)
	work(p, "echo upper > NUMBERS; mkdir DIR; echo x > DIR/B.TXT; echo 1 > same; echo 2 > SAME")
	want, before = tree_inside(p), tree_now(p)
	r = p.croft("apply", "e")
	if r.rc:
		equal(r.rc, 126, "refused")
		contains(text(r.err), "NUMBERS")
		equal(tree_now(p), before, "nothing changed")
	else:
		equal(tree_now(p), want, "landed")
	verify(p)


@test
def test_things_git_cannot_hold_are_refused(p):
	repository(p)
	loud(p, "mkfifo pipe; mkdir nested; git init -q nested; echo x > nested/x; mkdir .GIT 2>/dev/null && echo x > .GIT/config;"
		"mkdir 'git~1' && echo x > 'git~1/x'", "pipe", "nested", "git~1")
	check(not p.exists("nested") and not p.exists("git~1"), "landed")


@test
def test_empty_directories(p):
	repository(p)
	new(p)
	work(p, "mkdir -p empty/inner void; rm dir/*; echo x > x")
	want = tree_inside(p)
	equal(staged_tree(p), want, "status")
	p.croft("apply", "e").exits(0)
	equal(tree_now(p), want, "landed")
	check(os.path.isdir(os.path.join(p.ws, "empty/inner")) and os.path.isdir(os.path.join(p.ws, "void")), "empty directories")
	p.croft("revert", "e").exits(0)
	check(not p.exists("empty") and not p.exists("void") and p.exists("dir/b.txt"), "and out again")
	clean(p)


@test
def test_directories_come_and_go(p):
	repository(p)
	for i in range(30):
		p.write(f"old/{i % 3}/{i}", f"{i}\n")
	p.write("swap/in/file", "s\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "more")
	exact(p, "rm -rf old; rm -rf swap; echo file > swap; rm gone; mkdir gone; echo d > gone/inside; rm -rf dir; mkdir dir;"
		"echo fresh > dir/fresh; mv tool.sh dir/tool.sh; mkdir -p old/1; echo again > old/1/4; cp numbers dir/c.txt")
	check(not p.exists("old/0"), "a deleted directory is gone")


@test
def test_directories_renamed(p):
	repository(p)
	for i in range(20):
		p.write(f"src/a/{i}", f"{i}\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "more")
	exact(p, "mv src lib; mkdir src; mv lib/a src/b; rmdir lib; mv dir src/dir; git mv -k numbers src/ ; echo x >> src/b/3")


@test
def test_crlf_as_it_is(p):
	repository(p)
	p.write("dos", "a\r\nb\r\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "dos")
	exact(p, "printf 'c\\r\\n' >> dos; printf 'x\\r\\ny\\n' > mixed; sed -i 's/$/\\r/' numbers")
	equal(p.read("dos"), b"a\r\nb\r\nc\r\n", "bytes")


@test
def test_crlf_with_autocrlf(p):
	repository(p)
	git(p, "config", "core.autocrlf", "true")
	git(p, "rm", "-rq", "--cached", ".")
	git(p, "reset", "-q", "--hard")
	contains(text(p.read("numbers")), "\r\n", "the checkout has CRLF")
	clean(p)
	new(p)
	equal(changed(p), [], "nothing yet")
	work(p, "printf 'more\\r\\n' >> numbers; printf 'a\\r\\nb\\r\\n' > fresh; printf 'a\\nb\\n' > unix; printf 'a\\0\\r\\n' > bin")
	want = tree_inside(p)
	equal(staged_tree(p), want, "status")
	p.croft("apply", "e").exits(0)
	equal(tree_now(p), want, "landed")
	equal(p.read("numbers")[-8:], b"40\r\nmore\r\n"[-8:], "bytes of the checkout")
	p.croft("revert", "e").exits(0)
	clean(p)
	p.croft("apply", "e", "--squash").exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), want, "committed")
	clean(p)


@test
def test_onto_a_dirty_checkout(p):
	repository(p)
	new(p)
	work(p, "sed -i 's/^3$/three/' numbers; rm gone; echo n > new")
	p.write("numbers", p.read("numbers").replace(b"\n38\n", b"\nthirty-eight\n"))
	p.write("dir/b.txt", "the user's\n")
	p.write("mine", "mine\n")
	p.croft("apply", "e").exits(0)
	want = [b"three" if i == 3 else b"thirty-eight" if i == 38 else str(i).encode() for i in range(1, 41)]
	equal(p.read("numbers"), b"\n".join(want) + b"\n", "merged")
	equal((p.read("dir/b.txt"), p.read("mine"), p.exists("gone")), (b"the user's\n", b"mine\n", False), "the rest")
	p.croft("revert", "e").exits(0)
	contains(text(p.read("numbers")), "thirty-eight")
	equal(git(p, "status", "--porcelain").split("\n"), [" M dir/b.txt", " M numbers", "?? mine"], "the user's own work is as it was")


@test
def test_a_big_file(p):
	repository(p)
	size = (2 << 30) + 1 if LONG else (48 << 20) + 1
	free = os.statvfs(p.root)
	if free.f_bavail * free.f_frsize < 3 * size:
		raise Skip("not enough free space")
	new(p, "e", "--disk", "none")
	work(p, f"truncate -s {size - 4} big; printf tail >> big; echo x > x", timeout=600)
	digest = hashlib.sha1(f"blob {size}\0".encode())
	for _ in range((size - 4) // (1 << 20)):
		digest.update(bytes(1 << 20))
	digest.update(bytes((size - 4) % (1 << 20)) + b"tail")
	listed = {f["path"]: f for f in diff(p, "e", "--names", timeout=600)["files"]}
	contains(str(listed["big"]["new"]), digest.hexdigest(), "what diff names")
	p.croft("apply", "e", "--squash", timeout=600).exits(0)
	equal(git(p, "rev-parse", "HEAD:big"), digest.hexdigest(), "committed")
	equal(os.path.getsize(os.path.join(p.ws, "big")), size, "size")
	clean(p)
	verify(p)


@test
def test_many_files(p):
	repository(p)
	for i in range(0, MANY, 10):
		p.write(f"many/{i % 100}/{i}", f"{i}\n")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "many")
	script = ("import os\n"
		f"for i in range({MANY}):\n"
		"\td = f'many/{i % 100}'\n"
		"\tos.makedirs(d, exist_ok=True)\n"
		"\tif i % 30 == 0: os.unlink(f'{d}/{i}')\n"
		"\telse: open(f'{d}/{i}', 'w').write(f'new {i}\\n')\n")
	new(p)
	p.write(os.path.join(p.root, "script.py"), script)
	with open(os.path.join(p.root, "script.py"), "rb") as f:
		p.croft("exec", "-q", "e", "--", "python3", "-", stdin=f, timeout=600).exits(0)
	want = tree_inside(p, timeout=600)
	s = status(p, timeout=600)
	equal((s["changes"]["tree"], sum(s["changes"][k] for k in ("added", "modified", "deleted"))), (want, MANY), "status")
	p.croft("apply", "e", timeout=600).exits(0)
	equal(tree_now(p), want, "landed")
	p.croft("revert", "e", timeout=600).exits(0)
	clean(p)
	p.croft("apply", "e", "--squash", timeout=600).exits(0)
	equal(git(p, "rev-parse", "HEAD^{tree}"), want, "committed")
	clean(p)
	verify(p)


# ---- whatever somebody does ----

RANDOM = r"""
import os, random, shutil, sys
r = random.Random(int(sys.argv[1]))
def walk():
	fs, ds = [], ['.']
	for top, dirs, files in os.walk('.'):
		if top == '.':
			dirs[:] = [d for d in dirs if d != '.git']
		fs += [os.path.join(top, f) for f in files + [d for d in dirs if os.path.islink(os.path.join(top, d))]]
		ds += [os.path.join(top, d) for d in dirs if not os.path.islink(os.path.join(top, d))]
	return sorted(fs), sorted(ds)
def name():
	return r.choice(['x', 'y', 'z', 'numbers', 'dir', 'b.txt', 'k%d' % r.randrange(9)])
for _ in range(int(sys.argv[2])):
	fs, ds = walk()
	d, f = r.choice(ds), r.choice(fs or ['./numbers'])
	to = os.path.join(d, name())
	try:
		what = r.randrange(12)
		if what < 3: open(to, 'w').write('%d\n' % r.randrange(5))
		elif what == 3: open(f, 'a').write('more\n')
		elif what == 4: os.unlink(f)
		elif what == 5 and os.path.isfile(f): os.chmod(f, r.choice([0o644, 0o755]))
		elif what == 6: os.rename(f, to)
		elif what == 7 and d != '.': shutil.rmtree(d)
		elif what == 8: os.mkdir(to)
		elif what == 9: os.symlink('nowhere%d' % r.randrange(3), to)
		elif what == 10 and d != '.': shutil.move(d, os.path.join(r.choice(ds), name()))
		elif what == 11: os.unlink(f); os.mkdir(f); open(f + '/q', 'w').write('q\n')
	except OSError: pass
	except shutil.Error: pass
"""


@test
def test_random_work(p):
	"""Rounds of random operations, with snapshots between; every round lands exactly."""
	repository(p)
	seed = int(os.environ.get("CROFT_TEST_SEED") or random.randrange(1 << 30))
	print(f"# CROFT_TEST_SEED={seed}", flush=True)
	new(p)
	rng = random.Random(seed)
	for i in range(40 if LONG else 6):
		p.croft("exec", "-q", "e", "--", "python3", "-", str(seed + i), "25", stdin=RANDOM.encode()).exits(0)
		want = tree_inside(p)
		equal(staged_tree(p), want, f"round {i}: status")
		how = rng.choice([[], ["--squash"]])
		clean(p, f"round {i}: before")
		r = p.croft("apply", "e", "--include-flagged", *how)  # .gitignore changes, too
		if r.rc == 0:
			equal(tree_now(p), want, f"round {i}: landed {how}")
			if how:
				clean(p, f"round {i}")
				git(p, "reset", "-q", "--hard", status(p)["base_commit"])
			else:
				p.croft("revert", "e").exits(0)
			git(p, "clean", "-qfd")  # empty directories of a commit
			clean(p, f"round {i}: taken back")
		else:
			contains(text(r.err), "cannot land", f"round {i}")
			clean(p, f"round {i}: refused")
		if rng.randrange(2):
			p.croft("snapshot", "e").exits(0)
	verify(p)


if __name__ == "__main__":
	main()
