#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""Views: a private copy of configuration, kept for the project, and never written back, whatever a sandbox tries."""
import hashlib
import os
import subprocess

from harness import CROFT, FORCED, Skip, check, contains, equal, lacks, main, test, text


def conf(p):
	if FORCED:
		raise Skip("what is forced away changes what can be had")
	p.write(p.home + "/.conf/settings", "one\n")
	p.write(p.home + "/.conf/hooks/run", "#!/bin/sh\n")
	p.write(p.home + "/.conf.json", '{"k": 1}\n')
	p.write(p.home + "/other", "other\n")
	os.link(p.home + "/.conf/settings", p.home + "/hard")
	os.symlink("../other", p.home + "/.conf/link")
	os.symlink(p.home, p.home + "/.conf/up")


def fingerprint(p):
	"""Every name, type, mode, link count, time and content of the user's home that no croft command owns."""
	found = []
	for directory, dirs, files in os.walk(p.home):
		dirs[:] = sorted(d for d in dirs if os.path.join(directory, d) != p.home + "/.local")
		for name in sorted(dirs + files):
			path = os.path.join(directory, name)
			st = os.lstat(path)
			content = b""
			if os.path.isfile(path) and not os.path.islink(path):
				with open(path, "rb") as f:
					content = f.read()
			found.append((path, st.st_mode, st.st_nlink, st.st_mtime_ns, hashlib.sha256(content).hexdigest()))
	return found


def run(p, script, *options, **kw):
	return p.croft("run", "--tier", "namespace", "--view", "~/.conf", "--view", "~/.conf.json", *options, "--", "sh", "-c", script, **kw)


@test
def test_kept_and_never_written_back(p):
	conf(p)
	before = fingerprint(p)
	r = run(p, "cat ~/.conf/settings ~/.conf.json; echo two >> ~/.conf/settings; echo new > ~/.conf/new; rm -r ~/.conf/hooks; echo '{}' > ~/.conf.json").exits(0)
	equal(text(r.out), 'one\n{"k": 1}\n')
	equal(fingerprint(p), before, "the user's own files")
	r = run(p, "cat ~/.conf/settings ~/.conf/new ~/.conf.json; ls ~/.conf").exits(0)
	equal(text(r.out), "one\ntwo\nnew\n{}\nlink\nnew\nsettings\nup\n", "kept for the project")
	# The control: without a view there is nothing to read, and with a grant it would be the user's own.
	lacks(text(p.croft("run", "--tier", "namespace", "--", "sh", "-c", "cat ~/.conf/settings 2>&1; true").out), "one\n")
	p.croft("run", "--tier", "namespace", "--write", p.home + "/other", "--", "sh", "-c", "echo hit >> ~/other").exits(0)
	check(fingerprint(p) != before, "the control changed nothing")


@test
def test_another_project_and_discard(p):
	conf(p)
	run(p, "echo mine > ~/.conf/new").exits(0)
	other = os.path.join(p.base, "elsewhere") if hasattr(p, "base") else p.ws + "-other"
	os.makedirs(other, exist_ok=True)
	lacks(text(run(p, "ls ~/.conf", "--workspace", other).exits(0).out), "new", "the view of another project")
	run(p, "echo lost > ~/.conf/lost", "--discard").exits(0)
	r = text(run(p, "ls ~/.conf").exits(0).out)
	contains(r, "new")
	lacks(r, "lost")


@test
def test_a_file_follows_the_users_until_it_is_changed_inside(p):
	conf(p)
	run(p, "true").exits(0)
	p.write(p.home + "/.conf.json", "host 2\n")
	equal(text(run(p, "cat ~/.conf.json; echo inside > ~/.conf.json").exits(0).out), "host 2\n")
	p.write(p.home + "/.conf.json", "host 3\n")
	equal(text(run(p, "cat ~/.conf.json").exits(0).out), "inside\n")
	equal(p.read(p.home + "/.conf.json"), b"host 3\n")


@test
def test_attempts_to_get_through(p):
	"""Symlinks, hard links, renames, other names, mount points, modes, times: nothing reaches the user's files."""
	conf(p)
	before = fingerprint(p)
	script = """
	echo x >> ~/.conf/link; echo x >> ~/.conf/up/.conf/settings; echo x > ~/.conf/up/planted; ln ~/.conf/settings ~/.conf/again && echo x >> ~/.conf/again
	mv ~/.conf ~/.conf2; mv ~/.conf/hooks ~/.conf/moved; ln -s /etc ~/.conf/etc; chmod 777 ~/.conf ~/.conf/settings; touch -d 2001-01-01 ~/.conf/settings
	mv ~/.conf.json ~/x; rm -f ~/.conf.json; ln -sf %s/other ~/.conf.json; echo x >> ~/.conf.json; chmod 777 ~/.conf.json
	mkfifo ~/.conf/fifo; truncate -s 0 ~/.conf/settings; cp /bin/sh ~/.conf/sh; chmod u+s ~/.conf/sh; setfattr -n user.overlay.redirect -v /etc ~/.conf/moved; true
	""" % p.home
	for options in ((), ("--direct",)):
		run(p, script, *options).exits(0)
		equal(fingerprint(p), before, f"the user's own files {options}")
		# What was planted in the layer is not followed by the next run, either.
		run(p, "cat ~/.conf/etc/shadow; echo x > ~/.conf/moved/x; true", *options).exits(0)
		equal(fingerprint(p), before, f"the user's own files, later {options}")


@test
def test_what_is_kept_is_replaced(p):
	"""A layer is croft's: the name of one that leads elsewhere is refused, not followed."""
	conf(p)
	run(p, "echo x > ~/.conf/new").exits(0)
	projects = p.home + "/.local/state/croft/projects"
	views = [os.path.join(d, v) for d in (os.path.join(projects, n) for n in os.listdir(projects)) for v in os.listdir(d) if v.startswith("view-")]
	layer = next(v for v in views if os.path.isdir(v + "/upper"))
	os.rename(layer + "/upper", layer + "/aside")
	os.symlink(p.home, layer + "/upper")
	before = fingerprint(p)
	r = run(p, "echo x > ~/.conf/new")
	check(r.rc in (125, 126), "a symlink in the place of a layer was used", r)
	equal(fingerprint(p), before, "the user's own files")


@test
def test_rights_that_were_taken_away_block_no_later_run(p):
	"""As the plain user: root may read what has no rights."""
	conf(p)
	run(p, "echo x > ~/.conf/new; echo y > ~/.conf.json; chmod 000 ~/.conf.json; chmod 000 ~/.conf").exits(0)
	before = fingerprint(p)
	equal(text(run(p, "cat ~/.conf/new ~/.conf.json").exits(0).out), "x\ny\n", "what was kept")
	equal(fingerprint(p), before, "the user's own files")


@test
def test_two_at_once(p):
	"""One run writes what is kept; the other is told, and does not touch it."""
	conf(p)
	env = {**p.env}
	first = subprocess.Popen([CROFT, "run", "--tier", "namespace", "--view", "~/.conf", "--", "sh", "-c", "echo first > ~/.conf/who; echo up; read x"], cwd=p.ws, env=env,
		stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
	equal(first.stdout.readline(), b"up\n")
	r = p.croft("run", "--tier", "namespace", "-v", "--view", "~/.conf", "--", "sh", "-c", "cat ~/.conf/who; echo second > ~/.conf/who").exits(0)
	lacks(text(r.out), "first")
	contains(text(r.err), "another run in this project has the view")
	first.communicate(b"\n", timeout=60)
	equal(first.returncode, 0)
	equal(text(run(p, "cat ~/.conf/who").exits(0).out), "first\n")


@test
def test_what_is_refused(p):
	conf(p)
	for options, says in ((("--view", "~"), "it holds the project"), (("--view", "."), "the project"), (("--view", "~/*"), "is a pattern"),
		(("--view", "~/none"), "does not exist"), (("--view", "~/.conf", "--write", "~/.conf"), "has a view and another grant"),
		(("--write", "~/.conf", "--view", "~/.conf/hooks"), "written in place"), (("--view", "~/.config/croft"), "")):
		r = p.croft("run", "--tier", "namespace", *options, "--", "true")
		check(r.rc in (125, 126), "accepted", options, r)
		contains(r.one_sentence(), says)
	# A project may not give itself one.
	p.write("croft.yaml", "version: 1\nfilesystem:\n  view: [~/.conf]\n")
	contains(p.croft("run", "--", "true").exits(126).one_sentence(), "asks for more than your own policy allows")


@test
def test_denied_inside(p):
	conf(p)
	r = run(p, "cat ~/.conf/hooks/run; echo x > ~/.conf/hooks/run; true", "--deny", "~/.conf/hooks").exits(0)
	lacks(text(r.out), "#!/bin/sh")


@test
def test_the_disk_limit_counts_it(p):
	conf(p)
	r = run(p, "head -c 64M /dev/zero > ~/.conf/big; sleep 60", "--disk", "8M")
	check(r.rc == 137, "the view was not limited", r)
	contains(text(r.err), "disk")


if __name__ == "__main__":
	main()
