#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# check
"""Denied paths inside granted trees refuse, and the receipt says so: `--read ~` leaves ~/.ssh out, and tells."""
import os

from harness import FORCED, SECRET, check, contains, equal, fuse, lacks, main, need_tier, test

WITHOUT = (True, False) if fuse() else (True,)


def sh(p, script, *words, without_fuse=False):
	need_tier("namespace")
	forced = [*FORCED, "fuse"] if without_fuse else FORCED
	return p.sh(script, "--tier", "namespace", *words, env={"CROFT_FORCE_FAIL": ",".join(forced)})


def told(p, r):
	return {(d["operation"], d["path"].replace(p.home, "~")) for d in r.receipt["denials"]}


@test
def test_read_home_leaves_secrets_out_and_tells(p):
	p.write("../plain", "plain\n")
	for without_fuse in WITHOUT:
		r = sh(p, "cat ~/plain; cat ~/.ssh/id_ed25519 ~/.netrc; true", "--read", p.home, without_fuse=without_fuse).exits(0)
		equal(r.out, b"plain\n", "what is granted is read")
		lacks(r.out, SECRET.encode(), "stdout")
		contains(r.err, b"Permission denied")
		equal(told(p, r), {("read", "~/.ssh/id_ed25519"), ("read", "~/.netrc")}, f"without_fuse={without_fuse}")
	r = sh(p, "cat ~/.netrc", "--read", p.home, "--read", p.home + "/.netrc").exits(0)
	equal((r.out, told(p, r)), (SECRET.encode() + b"\n", set()), "control: granted by name")


@test
def test_nothing_is_told_without_an_attempt(p):
	for without_fuse in WITHOUT:
		r = sh(p, "ls ~ > /dev/null; cat ~/.bashrc > /dev/null", "--read", p.home, without_fuse=without_fuse).exits(0)
		equal(told(p, r), set(), f"without_fuse={without_fuse}")


@test
def test_own_deny_rules_tell(p):
	"""A file and a directory of the user's own that a rule denies inside the workspace."""
	p.write("keys/one", SECRET + "\n")
	p.write("private.pem", SECRET + "\n")
	deny = ("--deny", p.ws + "/keys", "--deny", p.ws + "/private.pem")
	for without_fuse in WITHOUT:
		for script in ("cat keys/one private.pem; ls keys; true", "echo x > keys/two; echo x > private.pem; rm private.pem; true"):
			r = sh(p, script, *deny, "--read", p.ws, without_fuse=without_fuse).exits(0)
			lacks(r.out, SECRET.encode(), "stdout")
			names = {t[1] for t in told(p, r)}
			contains(names, "~/project/private.pem", f"{script}, without_fuse={without_fuse}")
			if not without_fuse and "cat" in script:
				contains(names, "~/project/keys/one", script)
				contains(names, "~/project/keys", script)
	equal(p.read("keys/one"), (SECRET + "\n").encode(), "unchanged")
	check(not os.path.exists(os.path.join(p.ws, "keys/two")), "nothing was made")


@test
def test_a_change_is_told_once(p):
	for without_fuse in WITHOUT:
		r = sh(p, "echo x > ~/.ssh/new; true", "--read", p.home, "--observe", "writes", without_fuse=without_fuse).exits(0)
		equal({t[1] for t in told(p, r)}, {"~/.ssh/new"}, "paths")
		equal(len(r.receipt["denials"]), 1, r.receipt["denials"])
		r = sh(p, "echo x > ~/.ssh/new; true", "--read", p.home, without_fuse=without_fuse).exits(0)
		equal(told(p, r), set() if without_fuse else {("read", "~/.ssh/new")}, f"by default, without_fuse={without_fuse}")


@test
def test_masks_beyond_the_maximum_still_refuse(p):
	for i in range(80):
		p.write(f"many/{i}", SECRET + "\n")
	words = [w for i in range(80) for w in ("--deny", f"{p.ws}/many/{i}")]
	for without_fuse in WITHOUT:
		r = sh(p, "cat many/*; true", *words, without_fuse=without_fuse).exits(0)
		lacks(r.out, SECRET.encode(), "stdout")
		contains(told(p, r), ("read", "~/project/many/0"))


if __name__ == "__main__":
	main()
