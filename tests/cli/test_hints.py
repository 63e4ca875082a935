#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What croft suggests to type is quoted, means exactly what was refused, and shows no character that hides (L6, L9)."""
import json
import os
import subprocess
import sys

from envs import new, repository, work
from harness import DEADLINE_S, check, contains, equal, lacks, main, need_tier, policy_text, test, text

# Each would do something if a shell read it, or match something else if a policy did.
NAMES = ("$(touch owned)", "`touch owned`", "x;touch owned", "x' ; touch owned ; '", "a b", "*", "[x]", "q?", "back\\slash", "-n", "!x", "~", "#",
	"\u00e9", "r\u202elo", "z\u200bz", "tag\U000e0041", "\u3164", "n\u00a0b")
# No policy can name these, so nothing may be suggested that looks as if one could.
UNNAMEABLE = ("esc\x1b[2J", "new\nline", "tab\tx")
SHOWN = ("\u202e", "\u200b", "\U000e0041", "\u3164", "\u00a0", "\x1b")


def denials(p, where, names, policy):
	"""Write to each, where only reading is allowed; the receipt."""
	p.croft("run", "-q", "--direct", "--json", "receipt.json", "--policy", policy, "--", "sh", "-c", 'for f; do echo x >> "$f"; done; true', "sh",
		*[os.path.join(where, n) for n in names])
	with open(os.path.join(p.ws, "receipt.json"), encoding="utf-8") as f:
		return json.load(f)


def shell(p, word_text):
	"""What a shell makes of a hint: its arguments."""
	r = subprocess.run(["sh", "-c", "exec \"$0\" -c 'import sys,json; print(json.dumps([a.encode(\"utf-8\",\"surrogateescape\").decode(\"utf-8\") "
		"for a in sys.argv[1:]]))' " + word_text, sys.executable], cwd=p.ws, capture_output=True, check=True, timeout=DEADLINE_S,
		env={**p.env, "LC_ALL": "C.UTF-8"})
	return json.loads(r.stdout)


@test
def test_a_hint_about_what_is_not_there_says_so(p):
	"""A rule for it would be refused, so the hint alone would not work."""
	need_tier("namespace")
	where = os.path.join(p.home, "refused")
	p.write(os.path.join(where, "there"), "x\n")
	r = p.croft("run", "--discard", "--read", where, "--", "sh", "-c", f"echo x >> {where}/there; echo x >> {where}/new")
	lines = {l.split()[2]: l for l in text(r.err).splitlines() if l.startswith("  denied")}
	check(lines[where + "/there"].endswith("--write " + where + "/there"), "a file that is there", lines)
	check(lines[where + "/new"].endswith("--write " + where + "/new (once it exists)"), "a new file", lines)
	equal(text(p.croft("why").exits(0).out).count("(once it exists"), 1, "croft why")
	p.croft("run", "--direct", "--write", where + "/new", "--", "true").exits(126)
	p.write(where + "/new", "")
	p.croft("run", "--direct", "--write", where + "/new", "--", "true").exits(0)
	lacks(text(p.croft("why").exits(0).out), "once it exists")


@test
def test_the_hint_for_git_names_its_directory(p):
	"""A grant of the lock alone would not let it commit."""
	repository(p)
	commit = ("git", "-c", "user.name=t", "-c", "user.email=t", "commit", "--allow-empty", "-qm", "x")
	r = p.run("--", *commit).exits(128)
	equal({d["allow_with"] for d in r.receipt["denials"]}, {"--write " + p.ws + "/.git"}, "hints")
	p.run("--write", p.ws + "/.git", "--", *commit).exits(0)
	r = p.run("--write", p.ws + "/.git", "--deny", p.ws + "/.git/config", "--", "sh", "-c", "echo x >> .git/config")
	equal({d["allow_with"].split()[-1] for d in r.receipt["denials"]}, {p.ws + "/.git/config"}, "a rule of its own")


@test
def test_l9_a_hint_typed_into_a_shell_does_only_what_it_says(p):
	need_tier("namespace")
	where = os.path.join(p.root, "refused")
	os.makedirs(where)
	for n in NAMES + UNNAMEABLE:
		p.write(os.path.join(where, n), "content\n")
	policy = p.write(os.path.join(p.root, "policy.yaml"), policy_text(read=("/usr", "/bin", "/lib", "/lib64", where), write=(".",)))
	receipt = denials(p, where, NAMES + UNNAMEABLE, policy)
	hints = {d["path"]: d["allow_with"] for d in receipt["denials"]}
	equal(sorted(h for h in hints if h.startswith(where)), sorted(os.path.join(where, n) for n in NAMES + UNNAMEABLE), "every name was refused")
	for n in NAMES:
		path = os.path.join(where, n)
		hint = hints[path]
		option, value = shell(p, hint)
		check(not os.path.exists(os.path.join(p.ws, "owned")), "the hint ran something: " + hint)
		check(not any(c in hint for c in SHOWN), "a hidden character in " + ascii(hint))
		equal(option, "--write", "option of " + hint)
		# The hint, typed: it grants this file, and no other.
		others = [os.path.join(where, o) for o in NAMES if o != n]
		r = p.croft("run", "-q", "--direct", "--policy", policy, option, value, "--", "sh", "-c",
			'echo more >> "$1" || exit 9; shift; for f; do ! (echo x >> "$f") 2>/dev/null || exit 8; done', "sh", path, *others)
		equal(r.rc, 0, "the grant of " + ascii(hint) + text(r.err))
		with open(path, encoding="utf-8") as f:
			equal(f.read(), "content\nmore\n", "content of " + ascii(n))
	for n in UNNAMEABLE:
		contains(hints[os.path.join(where, n)], "nothing: no policy can name", "hint for " + ascii(n))
	# Control: unquoted, the shell does run it.
	subprocess.run(["sh", "-c", "true --write " + os.path.join(where, NAMES[0])], cwd=p.ws, check=False)
	check(os.path.exists(os.path.join(p.ws, "owned")), "the control did nothing")


@test
def test_l9_policy_explain_suggests_what_a_shell_takes(p):
	path = "/nowhere/$(touch owned)*"
	out = text(p.croft("policy", "explain", path).exits(0).out)
	line = next(x for x in out.split("\n") if "to read it" in x)
	words = shell(p, line.split("croft run ")[1].split(" …")[0])
	equal(words, ["--read", "/nowhere/$(touch owned)\\*"], "the words")
	check(not os.path.exists(os.path.join(p.ws, "owned")), "it ran")


HIDDEN = "a\u200bb\u2060c\u3164d\ufe0fe\U000e0041f\u202eg\u00adh\u034fi"


@test
def test_l6_no_hidden_character_is_shown_raw(p):
	repository(p)
	new(p)
	name, name_shown = "f\u3164\u200b.txt", "f\\u{3164}\\u{200b}.txt"
	work(p, "printf '%s\\n' \"$0\" > \"$1\"; printf '%s\\n' \"$0\" >> numbers".replace("$0", HIDDEN).replace("$1", name))
	for args in (("diff", "e"), ("diff", "--stat", "e"), ("diff", "--names", "e"), ("diff", "--json", "e")):
		out = text(p.croft(*args).exits(0).out)
		for c in HIDDEN:
			if c > "\x7f":
				lacks(out, c, " ".join(args) + " shows " + ascii(c))
	contains(text(p.croft("diff", "e").out), "a\\u{200b}b\\u{2060}c\\u{3164}d\\u{fe0f}e\\u{e0041}f", "each is escaped")
	p.croft("evidence", "export", "e", "out").exits(0)
	seen = 0
	for top, _, files in os.walk(os.path.join(p.ws, "out")):
		for n in files:
			if n.endswith((".md", ".html", ".sarif", ".json", ".txt")):
				with open(os.path.join(top, n), encoding="utf-8", errors="replace") as f:
					out = f.read()
				seen += name_shown in out
				check(not any(c in out for c in HIDDEN if c > "\x7f"), "hidden characters in " + n)
	check(seen, "no exported file names " + name_shown)


@test
def test_the_table_is_what_unicode_says(p):
	"""The generators and the generated files agree, where this Python knows the same version of Unicode."""
	top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
	for tool, name in (("tools/unicode-table", "src/base/unseen.h"), ("tools/fold-table", "src/base/fold_table.h")):
		r = subprocess.run([os.path.join(top, tool)], capture_output=True, check=True, timeout=DEADLINE_S)
		with open(os.path.join(top, name), "rb") as f:
			have = f.read()
		if have.split(b"\n")[1] == r.stdout.split(b"\n")[1]:
			equal(have, r.stdout, name)


if __name__ == "__main__":
	main()
