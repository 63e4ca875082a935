#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An answer that cannot be written is a failure, and one that nobody wants to read is silent."""
import os
import subprocess

from envs import new, repository, work
from harness import Skip, check, contains, equal, main, test, text

FULL = "croft: cannot write to standard output: No space left on device"


def place(p):
	repository(p)
	new(p)
	work(p, "seq 200000 > long; echo x > x")
	p.croft("fork", "e", "f").exits(0)
	p.sh("cat ~/.ssh/id_ed25519")  # something to ask "why" about


def commands(p):
	yield from (("version",), ("help",), ("ls",), ("ls", "--json"), ("status", "e"), ("status", "--json", "e"), ("gc", "-n"),
		("why",), ("doctor",), ("run", "--dry-run", "--", "true"), ("diff", "e"), ("diff", "--json", "e"), ("log", "e"),
		("apply", "e", "--patch"), ("apply", "e", "--dry-run"), ("evidence", "show", "e"), ("evidence", "verify", "e"), ("evidence", "key"),
		("policy", "show"), ("policy", "check"), ("policy", "check", "--json"), ("policy", "explain", "x"), ("secret", "ls"), ("pending", "--json"),
		("compare", "e", "f"), ("snapshot", "e"), ("discard", "e"), ("discard", "e", "--undo"), ("review", "e", "--accept-all"))
	yield from ((c, "--help") for c in ("run", "exec", "new", "shell", "ls", "status", "log", "diff", "compare", "review", "apply",
		"revert", "discard", "snapshot", "restore", "fork", "rm", "gc", "evidence", "replay", "policy", "why", "doctor", "prove",
		"secret", "pending", "allow"))
	yield ("new", "another")


@test
def test_full_disk(p):
	if not os.path.exists("/dev/full"):
		raise Skip("there is no /dev/full")
	place(p)
	bad = []
	for args in commands(p):
		with open("/dev/full", "wb") as full:
			r = p.croft(*args, stdout=full)
		if r.rc != 125 or FULL not in text(r.err).splitlines() or text(r.err).count("cannot write") != 1:
			bad.append(r)
	check(not bad, f"{len(bad)} do not say so", *bad)


@test
def test_nobody_reads(p):
	place(p)
	bad = []
	for args in commands(p):
		reader, writer = os.pipe()
		os.close(reader)
		r = p.croft(*args, stdout=writer)
		os.close(writer)
		if r.rc != 141 or b"write" in r.err:
			bad.append(r)
	check(not bad, f"{len(bad)} are not silent, or not 141", *bad)


@test
def test_reader_that_leaves(p):
	place(p)
	for args in (("diff", "e"), ("apply", "e", "--patch")):
		c = p.start(*args, stdin=subprocess.DEVNULL)
		check(c.stdout.readline(), "the first line")
		c.stdout.close()
		err = c.stderr.read()
		equal((c.wait(60), err), (141, b""), args)
		c.stderr.close()


@test
def test_control_everything_is_well(p):
	place(p)
	for args in commands(p):
		r = p.croft(*args)
		check(r.rc in (0, 1) and r.out, " ".join(args), r)
	contains(text(p.croft("version").exits(0).out), "croft ")


@test
def test_help_of_one_command(p):
	for words in (("exec",), ("apply",), ("evidence", "export"), ("policy",)):
		equal(p.croft("help", *words).exits(0).out, p.croft(*words, "--help").exits(0).out, words)
	equal(p.croft("help").exits(0).out, p.croft("--help").exits(0).out, "all of them")
	contains(p.croft("help", "nosuch").exits(125).one_sentence(), "there is no command called nosuch")


if __name__ == "__main__":
	main()
