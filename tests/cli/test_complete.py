#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completions: what croft offers is what croft takes, and real shells show it."""
import os
import re
import subprocess
import sys

from envs import git, new, repository, work
from harness import CROFT, DEADLINE_S, TOP, check, contains, equal, lacks, main, need, test, text
from terminal import Terminal

OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+|-[a-z](?![\w-]))")
GROUPS = {"policy": ("show", "check", "explain", "diff", "trust", "set", "keys", "bundles", "learn"), "secret": ("set", "ls", "rm"),
	"evidence": ("show", "verify", "export", "push", "fetch", "check", "key")}


def offers(p, *words):
	"""What croft complete says: candidates, and what the shell shall add itself."""
	out = text(p.croft("complete", "--", *words).exits(0).out)
	return [line.split("\t")[0] for line in out.splitlines()]


def commands(p):
	return [w for w in offers(p, "") if w not in ("help", "version")]


def every(p):
	"""Each command, with its own commands."""
	return [(c, *s) for c in commands(p) for s in ([(w,) for w in GROUPS[c]] if c in GROUPS else [()])]


@test
def test_every_command_is_offered(p):
	with open(os.path.join(TOP, "src/cli/main.c"), encoding="utf-8") as f:
		known = set(re.findall(r'^\t\{"([a-z]+)", cmd_', f.read(), re.M)) - {"session", "complete"}
	check(len(known) > 30, "the table of main.c was not found", known)
	equal(set(commands(p)), known, "commands")
	for group, subs in GROUPS.items():
		equal(sorted(offers(p, group, "")), sorted(subs), group)
		equal(sorted(offers(p, "help", group, "")), sorted(subs), "help " + group)
	equal(offers(p, "ex"), ["exec"], "by their beginning")
	equal(offers(p, "nosuch", ""), [], "an unknown command")


@test
def test_offered_options_are_taken_and_none_is_left_out(p):
	"""An option that is no flag takes any value, and the next one is then unknown; nothing is run."""
	for words in every(p):
		have = offers(p, *words, "-")
		check("--help" in have, "--help of " + " ".join(words), have)
		script = 'for o; do "$CROFT" $WORDS "$o=x" --no-such-option 2>&1 | head -n 1; done'
		r = subprocess.run(["sh", "-c", script, "sh", *[o for o in have if o.startswith("--") and o != "--help"]], cwd=p.ws, capture_output=True,
			env={**p.env, "CROFT": CROFT, "WORDS": " ".join(words)}, check=True, timeout=DEADLINE_S)
		for line in text(r.stdout).splitlines():
			check("takes no value" in line or "unknown option --no-such-option" in line or "goes with" in line,
				"offered, but unknown to " + " ".join(words) + ": " + line)
		helped = text(p.croft(*words, "--help").exits(0).out)
		if words[0] in GROUPS and "croft " + " ".join(words) + " [OPTIONS]" not in helped:
			continue
		options = {o for line in helped.splitlines() if line.startswith(("usage:", "       croft", "  -")) for o in OPTION.findall(line.split("   ")[0])}
		check(options <= set(have), "not offered by " + " ".join(words), options - set(have))


@test
def test_names_are_offered_and_nothing_else(p):
	equal(offers(p, "exec", ""), [], "environments where there are none")
	equal(offers(p, "secret", "rm", ""), [], "secrets where there are none")
	equal(text(p.croft("ls", "-q").exits(0).out), "", "croft ls -q")
	repository(p)
	new(p, "one")
	new(p, "two")
	work(p, "echo x > 'a b'; echo x > new; printf x > $(printf 'e\\033[2J')", "one")
	p.croft("snapshot", "-q", "one", "kept").exits(0)
	p.croft("secret", "set", "TOKEN", stdin=b"0123456789abcdef\n").exits(0)
	equal(text(p.croft("ls", "-q").exits(0).out), "one\ntwo\n", "croft ls -q")
	for words in (("exec", ""), ("shell", ""), ("up", ""), ("status", ""), ("diff", ""), ("rm", "one", ""), ("evidence", "show", ""), ("replay", ""),
			("exec", "--tier", "auto", "--quiet", "")):
		equal(offers(p, *words), ["one", "two"], " ".join(words))
	for words, want in ((("exec", "t"), ["two"]), (("new", ""), []), (("down", ""), []), (("restore", "one", ""), ["kept"]), (("restore", "one", "kept", ""), []),
			(("status", "one", ""), []), (("diff", "one", ""), ["a b", "new"]), (("review", "one", "--accept", "n"), ["new"]),
			(("secret", "rm", ""), ["TOKEN"]), (("run", "--secret", "T"), ["TOKEN@"]), (("run", "--tier", ""), ["auto", "namespace", "process"]),
			(("run", "--tier=n"), ["--tier=namespace"]), (("prove", "--tier", "n"), ["namespace"]), (("exec", "--as", ""), ["test"]),
			(("kill", "-s", "K"), ["KILL"]), (("run", "--observe", ""), ["off", "known", "writes", "full"]), (("run", "--use", "github"), ["github-read"]),
			(("run", "--read", ""), [":files"]), (("run", "--workspace", ""), [":directories"]), (("run", "--env", ""), [":variables"]),
			(("new", "--from", ""), [":revisions"]), (("evidence", "push", ""), [":remotes"]), (("run", "--quiet", ""), [":rest 2"]),
			(("run", "--quiet", "ls", "-"), [":rest 2"]), (("run", "--", ""), [":rest 2"]), (("exec", "one", "make", "--"), [":rest 2"]),
			(("policy", "check", ""), [":files"]), (("policy", "learn", ""), [":rest 2"]), (("policy", "bundles", ""), []),
			(("run", "--memory", ""), []), (("run", "--nosuch=", ""), [":rest 2"])):
		equal(offers(p, *words), want, " ".join(words))
	equal(offers(p, "run", "--use", ""), [line.split()[0] for line in text(p.croft("policy", "bundles").exits(0).out).splitlines()], "bundles")
	helped = text(p.croft("run", "--help").exits(0).out)
	equal(offers(p, "run", "--profile", ""), re.search(r"--profile NAME +(.*)", helped).group(1).split(", "), "profiles")
	lacks("\n".join(offers(p, "diff", "one", "")), "\x1b", "a name that acts on a terminal")


class Shell:
	"""A shell on a terminal, with croft on its PATH."""

	def __init__(self, p, *argv):
		self.t, self.p = Terminal(), p
		tools = os.path.join(p.root, "bin")
		os.makedirs(tools, exist_ok=True)
		if not os.path.exists(os.path.join(tools, "croft")):
			os.symlink(CROFT, os.path.join(tools, "croft"))
		self.t.start(argv, p.ws, {**p.env, "PATH": tools + ":" + p.env["PATH"], "TERM": "dumb", "COLUMNS": "500", "ZDOTDIR": p.root, "PS1": "ready> "})

	def setup(self, *lines):
		for n, line in enumerate(lines):
			self.t.send(f"{line}; echo set''up-{n}\r".encode())
			self.t.expect(f"setup-{n}\r\n".encode())

	def close(self):
		self.t.close()


def bash_inserts(s, typed):
	"""All that bash would offer: it writes them onto the line (M-*), and the line becomes the words of printf."""
	s.t.send(typed.encode() + b"\x1b*" + b"\x01printf '<%s>\\n' end-of \x05 end-of\r")
	s.t.expect(b"<end-of>\r\n")
	s.t.expect(b"<end-of>\r\n")
	return re.findall(r"<(.*?)>\r\n", text(s.t.last))


@test
def test_bash_offers_them(p):
	"""Readline itself asks: what M-* inserts is what would be listed."""
	repository(p)
	new(p, "one")
	new(p, "two")
	p.write("notes.txt", "x\n")
	p.croft("secret", "set", "TOKEN", stdin=b"0123456789abcdef\n").exits(0)
	s = Shell(p, need("bash"), "--norc", "--noprofile", "-i")
	try:
		s.setup("unset HISTFILE", "bind 'set enable-bracketed-paste off'", "source " + os.path.join(TOP, "contrib/completions/croft.bash"))
		for typed, want in (("croft exec ", ["croft", "exec", "one", "two"]), ("croft rep", ["croft", "replay"]), ("croft down ", ["croft", "down"]),
				("croft run --tier ", ["croft", "run", "--tier", "auto", "namespace", "process"]), ("croft run --tier=na", ["croft", "run", "--tier=namespace"]),
				("croft run --secret TO", ["croft", "run", "--secret", "TOKEN@"]), ("croft run --secret TOKEN@host --obs", ["croft", "run", "--secret", "TOKEN@host", "--observe"]),
				("croft run --use github-", ["croft", "run", "--use", "github-read"]), ("croft exec one printen", ["croft", "exec", "one", "printenv"]),
				("croft policy check note", ["croft", "policy", "check", "notes.txt"]), ("croft new --from mai", ["croft", "new", "--from", "main"]),
				("croft pause --", ["croft", "pause", "--help"])):
			equal(bash_inserts(s, typed), want, typed)
		got = bash_inserts(s, "croft ")[1:]
		equal(sorted(got), sorted(commands(p) + ["help", "version"]), "every command")
		git(p, "tag", "v1")
		equal(bash_inserts(s, "croft new --from v"), ["croft", "new", "--from", "v1"], "a tag")
	finally:
		s.close()


def completes(s, typed, want):
	"""The only candidate is written onto the line."""
	s.t.send(b"true begin; " + typed.encode() + b"\t")
	s.t.expect(want.encode())
	s.t.send(b"\x03")


def other_shell(p, *argv, setup):
	repository(p)
	new(p, "one")
	p.write("notes.txt", "x\n")
	p.croft("secret", "set", "TOKEN", stdin=b"0123456789abcdef\n").exits(0)
	s = Shell(p, *argv)
	try:
		s.setup(*setup)
		for typed, want in (("croft exec o", "one"), ("croft rep", "replay"), ("croft run --tier n", "namespace"), ("croft run --secret TO", "TOKEN@"),
				("croft run --use github-", "github-read"), ("croft exec one printen", "printenv"), ("croft policy check note", "notes.txt"),
				("croft new --from mai", "main"), ("croft up --pause-i", "--pause-idle"), ("croft atta", "attach")):
			completes(s, typed, want[len(typed.split(" ")[-1]):])
	finally:
		s.close()


@test
def test_zsh_offers_them(p):
	zsh = need("zsh")
	functions = os.path.join(p.root, "functions")
	os.makedirs(functions)
	os.symlink(os.path.join(TOP, "contrib/completions/croft.zsh"), os.path.join(functions, "_croft"))
	other_shell(p, zsh, "-f", "-i", setup=("unsetopt zle_bracketed_paste 2>/dev/null", f"fpath=({functions} $fpath)", "autoload -U compinit && compinit -u -D",
		"unset zle_bracketed_paste"))


@test
def test_fish_offers_them(p):
	"""fish is asked, as its own tests ask it: complete -C LINE."""
	fish = need("fish")
	repository(p)
	new(p, "one")
	p.write("notes.txt", "x\n")
	p.croft("secret", "set", "TOKEN", stdin=b"0123456789abcdef\n").exits(0)
	script = "source " + os.path.join(TOP, "contrib/completions/croft.fish") + "; for line in $argv; complete -C $line; echo; end"
	lines = {"croft exec ": ["one"], "croft rep": ["replay"], "croft run --tier n": ["namespace"], "croft run --secret TO": ["TOKEN@"],
		"croft run --use github-": ["github-read"], "croft exec one printen": ["printenv"], "croft policy check note": ["notes.txt"],
		"croft new --from mai": ["main"], "croft up --pause-i": ["--pause-idle"], "croft down ": []}
	r = subprocess.run([fish, "--no-config", "-c", script, *lines], cwd=p.ws, env={**p.env, "PATH": os.path.dirname(CROFT) + ":" + p.env["PATH"]},
		capture_output=True, check=False, timeout=DEADLINE_S)
	got = [[l.split("\t")[0] for l in part.splitlines() if l] for part in text(r.stdout).split("\n\n")]
	for (line, want), have in zip(lines.items(), text(r.stdout).split("\n\n") and got, strict=False):
		equal(have, want, line)
	equal(r.stderr, b"", "fish says")


@test
def test_what_bundles_reach_is_listed(p):
	out = text(p.croft("policy", "bundles").exits(0).out)
	contains(out, "npm              registry.npmjs.org, registry.yarnpkg.com, nodejs.org\n")
	for name in [line.split()[0] for line in out.splitlines()]:
		p.croft("policy", "show", "--use", name).exits(0)
	contains(p.croft("policy", "show", "--use", "nosuch").one_sentence(), "nosuch")


if __name__ == "__main__":
	main()
