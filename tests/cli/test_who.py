#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A command can commit as the user in every mode; of the user's Git settings it gets name and e-mail, and nothing else."""
import os
import subprocess

from envs import git, new, repository
from harness import DEADLINE_S, SECRET, TIERS, check, contains, equal, lacks, main, need, need_tier, test, text

CONFIG = ("[user]\n\tname = Ann Example\n\temail = ann@example.org\n\tsigningKey = " + SECRET + "\n[credential]\n\thelper = " + SECRET
	+ "\n[alias]\n\tco = !echo " + SECRET + "\n[url \"https://x:" + SECRET + "@example.org/\"]\n\tinsteadOf = ex:\n[init]\n\tdefaultBranch = main\n")
COMMIT = "echo more >> numbers && git commit -qam inside && git log -1 --format='%an <%ae> %cn <%ce>'"
ANN = "Ann Example <ann@example.org> Ann Example <ann@example.org>\n"


def place(p, config=CONFIG):
	repository(p)
	p.write(os.path.join(p.home, ".gitconfig"), config)


def shown(p, *options, env=None):
	"""What git knows inside, by scope."""
	r = p.croft("run", "-q", *options, "--", "git", "config", "--show-scope", "-l", env=env)
	return [line.split("\t", 1) for line in text(r.exits(0).out).splitlines()]


def who(p, *options, env=None):
	known = dict(v.split("=", 1) for _, v in shown(p, *options, env=env) if "=" in v)
	return known.get("user.name"), known.get("user.email")


@test
def test_a_command_commits_as_the_user_in_every_mode(p):
	need_tier("namespace")
	place(p)
	new(p, "e")
	for how in (("run", "-q"), ("run", "-q", "--discard"), ("exec", "-q", "e"), ("run", "-q", "--direct", "--write", "./.git"),
			("run", "-q", "--direct", "--tier", "process", "--write", "./.git")):
		r = p.croft(*how, "--", "sh", "-c", COMMIT)
		check(r.rc == 0, "it does not commit with " + " ".join(how), r)
		equal(text(r.out), ANN, " ".join(how))


@test(tiers=TIERS)
def test_nothing_else_is_passed(p, tier):
	place(p)
	options = ("--direct", "--tier", tier)
	r = p.sh("git config -l; env; cat \"$GIT_CONFIG_SYSTEM\"; cat ~/.gitconfig; grep -rs " + SECRET + " ~ $(dirname \"$GIT_CONFIG_SYSTEM\"); true", *options[1:])
	lacks(text(r.exits(0).out), SECRET, "what a command sees")
	equal(text(r.out).count("name = "), 1, "the file")
	names = {v.split("=")[0] for scope, v in shown(p, *options) if scope == "system"}
	names -= {v.split("=")[0] for v in text(subprocess.run([need("git"), "config", "--system", "-l"], capture_output=True, check=False).stdout).splitlines()}
	equal(names - {"include.path"}, {"user.name", "user.email"}, "settings")
	contains(text(subprocess.run([need("git"), "config", "-l"], env=p.env, capture_output=True, check=True, timeout=DEADLINE_S).stdout), SECRET, "control")


@test
def test_what_is_nearer_goes_first(p):
	"""The repository's own name, the command's, and the policy's."""
	need_tier("namespace")
	place(p)
	git(p, "config", "user.email", "here@example.org")
	equal(who(p, "--direct"), ("Ann Example", "here@example.org"), "of the repository")
	r = p.croft("run", "-q", "--direct", "--", "sh", "-c", "export GIT_CONFIG_GLOBAL=/tmp/mine; git config --global user.name Inside; git config user.name").exits(0)
	equal(text(r.out), "Inside\n", "of the command")
	r = p.croft("run", "-q", "--direct", "--env", "GIT_AUTHOR_NAME=Other", "--", "git", "var", "GIT_AUTHOR_IDENT").exits(0)
	contains(text(r.out), "Other <here@example.org>", "of the command line")


@test
def test_the_file_is_read_as_git_reads_it(p):
	"""Where we read less than git does, nothing is passed: never another name than the user's."""
	need_tier("namespace")
	place(p)
	git(p, "config", "--unset-all", "user.name", rc=None)
	p.write(os.path.join(p.home, "more"), "[user]\n name = Included # not this\n")
	os.makedirs(os.path.join(p.home, ".config/git"))
	p.write(os.path.join(p.home, ".config/git/config"), "[user]\n\temail = xdg@example.org\n")
	for config in ("[user]\nname=Plain\n", "[USER]\n NAME = Case ; comment\n", "[user]name = One Line\n", "[user]\n\tname = \"Quoted # \\\"x\\\" \" y\n",
			"[user]\n\tname = Trailing   \n\temail = a@b\n", "[user \"sub\"]\n\tname = No\n", "[users]\n\tname = No\n", "[include]\n\tpath = ~/more\n",
			"[include]\n\tpath = more\n[user]\n\temail = later@example.org\n", "[include]\n\tpath = nowhere\n", "[user]\n\tname = A\n[user]\n\tname = B\n",
			"[user]\n\tname = Gr\u00fc\u00dfe \u2603\n", "[user]\n\tname =\n", "# [user]\n; name = x\n", "\ufeff[user]\n name = Mark\n", "[user]\r\n\tname = Windows\r\n",
			"[core]\n\tx = \"[user]\"\n[user]\n\tname = Last"):
		p.write(os.path.join(p.home, ".gitconfig"), config)
		want = [text(subprocess.run([need("git"), "config", "user." + k], env=p.env, cwd=p.home, capture_output=True, check=False).stdout).removesuffix("\n") or None
			for k in ("name", "email")]
		got = [v or None for v in who(p, "--direct")]
		check(got == want, f"{config!r}: got {got}, git has {want}") if "\ufeff" not in config else check(got[0] in (want[0], None), "with a mark", got)
	for config in ("[includeIf \"gitdir:~/project/\"]\n\tpath = more\n[user]\n\tname = A\n\temail = a@b\n", "[user]\n\tname = \"open\n", "[user]\n\tname = a\\\n b\n",
			"[user]\n\tname = a\\qb\n", "[user]\n\tname = " + "x" * 5000 + "\n", "[include]\n\tpath = ~root/x\n[user]\n\tname = A\n", "[user]\n\tname = a\\nb\n"):
		p.write(os.path.join(p.home, ".gitconfig"), config)
		equal(who(p, "--direct"), (None, None), repr(config)[:60])
	os.unlink(os.path.join(p.home, ".gitconfig"))
	os.mkfifo(os.path.join(p.home, ".gitconfig"))
	equal(text(p.croft("run", "-q", "--direct", "--", "sh", "-c", "echo \"[$GIT_CONFIG_SYSTEM]\"").exits(0).out), "[]\n", "a FIFO")


if __name__ == "__main__":
	main()
