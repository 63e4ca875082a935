#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""Small mistakes: each is told in a sentence that helps, and no option is taken and ignored."""
import json
import os

from envs import events, git, names, new, refused, repository, work
from harness import contains, equal, lacks, main, native, need_tier, test, text


def answer(p, *args):
	return json.loads(p.croft(*args).exits(0).out)


@test
def test_snapshot_restore_and_fork_as_json(p):
	repository(p)
	new(p)
	work(p, "echo a > a")
	got = answer(p, "snapshot", "--json", "e", "s")
	equal((got["schema"], got["name"], got["snapshot"]), ("croft.snapshot/v1", "e", "s"), "snapshot")
	work(p, "echo b > b")
	equal(answer(p, "snapshot", "--json", "e")["snapshot"], json.loads(p.croft("status", "--json", "e").out)["snapshots"][-1], "no label")
	work(p, "echo c > c")
	got = answer(p, "restore", "--json", "e", "s")
	equal((got["schema"], got["name"], got["snapshot"]), ("croft.restore/v1", "e", "s"), "restore")
	contains(" ".join(got["notes"]), "before-restore-1", "what was kept")
	got = answer(p, "fork", "--json", "e", "f")
	equal((got["schema"], got["name"], got["parent"]), ("croft.env/v1", "f", "e"), "fork")
	equal(names(p), ["e", "f"], "environments")


@test
def test_options_that_mean_nothing_are_unknown(p):
	repository(p)
	new(p)
	for args in (("rm", "--json", "e"), ("ls", "--force"), ("ls", "-n"), ("status", "-a", "e"), ("snapshot", "--force", "e"), ("gc", "--all"),
		("fork", "--dry-run", "e", "f")):
		contains(p.croft(*args).exits(125).one_sentence(), "unknown option", args[0])
	equal(names(p), ["e"], "nothing was done")
	for args in (("ls", "-a"), ("gc", "-n"), ("gc", "--json"), ("status", "--json", "e"), ("snapshot", "-q", "e"), ("rm", "-f", "e")):
		p.croft(*args).exits(0)  # control


@test
def test_git_does_not_know_who_commits(p):
	repository(p)
	new(p)
	work(p, "echo a > a")
	head = git(p, "rev-parse", "HEAD")
	p.write(os.path.join(p.home, ".gitconfig"), "[user]\n\tuseConfigOnly = true\n")
	for how in ("--commit", "--squash", "--branch=b"):
		refused(p.croft("apply", "e", how), "git does not know who you are", "git config user.name NAME", "git config user.email MAIL")
	equal((git(p, "rev-parse", "HEAD"), git(p, "status", "--porcelain"), events(p).count("applied")), (head, "", 0), "nothing was done")
	p.croft("apply", "e").exits(0)  # without a commit nobody has to know
	git(p, "config", "user.name", "Tester")
	git(p, "config", "user.email", "tester@example.org")
	git(p, "clean", "-qfd")
	p.croft("apply", "e", "--squash").exits(0)


@test
def test_hosts_that_are_none_name_the_right_option(p):
	for host, words in (("localhost:3000", "--host-port PORT"), ("127.0.0.1:80", "--host-port PORT"), ("[::1]:80", "--host-port PORT"), ("npm", "--use"),
			("github-read", "--use"), ("https://example.org/x", "write the host alone")):
		contains(p.croft("policy", "show", "--allow-host", host).exits(125).one_sentence(), words, host)
	for args in (("--allow-host", "example.org"), ("--host-port", "3000"), ("--use", "npm"), ("--allow-host", "npm.example.org")):
		p.croft("policy", "show", *args).exits(0)


@test
def test_exec_from_where_the_environment_has_nothing(p):
	repository(p)
	new(p)
	later = os.path.join(p.ws, "later/deep")
	os.makedirs(later)
	line = refused(p.croft("exec", "-q", "e", "--", "true", cwd=later), later, "is not in environment e", "run it from " + p.ws)
	lacks(line, "No such file", "the sentence")
	p.croft("exec", "-q", "e", "--", "true", cwd=os.path.join(p.ws, "dir")).exits(0)  # control: this one is there
	refused(p.croft("exec", "-q", "e", "--", "/nosuch", cwd=p.ws), "nosuch", rc=(127,))


@test
def test_diff_of_a_path_without_changes(p):
	repository(p)
	new(p)
	work(p, "echo a > a; mkdir -p d/e; echo x > d/e/x; rm gone; git mv -k numbers figures; mkdir empty")
	for args in (("nosuch",), ("a", "nosuch"), ("--json", "nosuch"), ("--stat", "tool.sh"), ("--names", "d/e/y")):
		refused(p.croft("diff", "e", *args), "nothing was changed at " + args[-1])
	for path in ("a", "d", "d/e/x", "./d/", "gone", "empty", "figures", "numbers"):
		p.croft("diff", "e", path).exits(0)
	p.croft("diff", "e").exits(0)


@test
def test_no_such_environment_to_replay(p):
	repository(p)
	for args in (("replay", "nosuch"), ("replay", "0123456789abcdef"), ("evidence", "export", "nosuch", "b")):
		lacks(refused(p.croft(*args), "there is no evidence of"), "No such file", "the sentence")


@test
def test_advice_outside_of_a_repository(p):
	need_tier("namespace")
	p.croft("new", "-q", "e").exits(0)
	work(p, "echo a > a")
	out = text(p.croft("apply", "e").exits(0).out).replace(p.ws, "")  # which may have any letters in it
	lacks(out, "git", "the report")
	lacks(out, "commit", "the report")
	contains(out, "croft revert e", "the report")
	repository(p)
	new(p, "r")
	work(p, "echo r > r", "r")
	contains(text(p.croft("apply", "r").exits(0).out), "look: git diff", "control: in a repository")


@test
def test_the_look_at_a_branch_shows_what_landed_there(p):
	repository(p)
	new(p, "b")
	work(p, "echo landed-here > b", "b")
	said = text(p.croft("apply", "b", "--branch", "croft/b").exits(0).out)
	contains(said, "look: git show croft/b;")
	contains(native(p, "git", "show", "croft/b").stdout, b"landed-here", "what it shows")


@test
def test_probes_have_names(p):
	line = refused(p.croft("prove", "--only", "nosuch"), "nosuch", "croft prove --list")
	lacks(line, "croft probe", "the sentence")
	contains(text(p.croft("prove", "--list").exits(0).out), "K1-setns", "the list")
	contains(text(p.croft("prove", "--help").exits(0).out), "--list", "help")


if __name__ == "__main__":
	main()
