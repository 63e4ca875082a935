#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What croft suggests to type is quoted, means exactly what was refused, and shows no character that hides (L6, L9)."""
import json
import os
import subprocess
import sys

from envs import new, repository, work
from harness import DEADLINE_S, FORCED, Skip, TIERS, check, contains, equal, lacks, main, need_tier, policy_text, test, text
from terminal import Terminal

# Each would do something if a shell read it, or match something else if a policy did.
NAMES = ("$(touch owned)", "`touch owned`", "x;touch owned", "x' ; touch owned ; '", "a b", "*", "[x]", "q?", "back\\slash", "-n", "!x", "~", "#",
	"\u00e9", "r\u202elo", "z\u200bz", "tag\U000e0041", "\u3164", "n\u00a0b")
# No policy can name these, so nothing may be suggested that looks as if one could.
UNNAMEABLE = ("esc\x1b[2J", "new\nline", "tab\tx")
SHOWN = ("\u202e", "\u200b", "\U000e0041", "\u3164", "\u00a0", "\x1b")


def denials(p, where, names, policy):
	"""Write to each, where only reading is allowed; the receipt."""
	p.croft("run", "-q", "--direct", "--observe", "writes", "--json", "receipt.json", "--policy", policy, "--", "sh", "-c", 'for f; do echo x >> "$f"; done; true', "sh",
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
	r = p.croft("run", "--discard", "--observe", "writes", "--read", where, "--", "sh", "-c", f"echo x >> {where}/there; echo x >> {where}/new")
	lines = {l.split()[2]: l for l in text(r.err).splitlines() if l.startswith("  denied")}
	check(lines[where + "/there"].endswith("--write " + where + "/there"), "a file that is there", lines)
	check(lines[where + "/new"].endswith("--write " + where + "/new (once it exists)"), "a new file", lines)
	equal(text(p.croft("why").exits(0).out).count("(once it exists"), 1, "croft why")
	p.croft("run", "--direct", "--write", where + "/new", "--", "true").exits(126)
	p.write(where + "/new", "")
	p.croft("run", "--direct", "--write", where + "/new", "--", "true").exits(0)
	lacks(text(p.croft("why").exits(0).out), "once it exists")


@test
def test_writing_what_runs_is_granted_only_by_name(p):
	"""A directory whose contents run on the host: refused with two ways out, and both do what they say."""
	need_tier("namespace")
	settings = p.write(p.home + "/.claude/settings.json", "mine\n")
	os.symlink(".claude", p.home + "/plain")
	script = ("--", "sh", "-c", f"echo new > {settings}; true")
	for tier in TIERS:
		for grant in ("~/.claude", "~/.claude/hooks", "~/plain", p.home + "/./.claude/", "~/pl*/../.claude"):
			os.makedirs(p.home + "/.claude/hooks", exist_ok=True)
			if "*" in grant:
				p.croft("run", "-q", "--direct", "--tier", tier, "--write", grant, *script)
				continue
			line = p.croft("run", "--direct", "--tier", tier, "--write", grant, *script).exits(126).one_sentence()
			for word in ("runs on your machine (agent configuration)", "--view ", "--write-runs "):
				contains(line, word)
		equal(p.read(settings), b"mine\n", "without write-runs")
	policy = p.write(os.path.join(p.root, "policy.yaml"), policy_text(write=(".", "~/.claude")))
	contains(p.croft("run", "--policy", policy, *script).exits(126).one_sentence(), policy + ":5: ")
	# Where nothing of it stays there is nothing to say; a single file is named by naming it.
	p.croft("run", "-q", "--discard", "--write", "~/.claude", *script).exits(0)
	equal(p.read(settings), b"mine\n", "discarded")
	p.write(".envrc", "mine\n")
	p.croft("run", "-q", "--direct", "--write", "./.envrc", "--", "sh", "-c", "echo new > .envrc").exits(0)
	equal(p.read(".envrc"), b"new\n", "a file by its name")
	# The two ways out, as the sentence has them.
	line = p.croft("run", "--write", "~/.claude", *script).exits(126).one_sentence()
	view, runs = (shell(p, o + " " + line.split(o + " ")[1].split(",")[0]) for o in ("--view", "--write-runs"))
	p.croft("run", "-q", *view, *script).exits(0)
	equal(p.read(settings), b"mine\n", "a private copy")
	for tier in TIERS:
		p.write(settings, "mine\n")
		p.croft("run", "-q", "--direct", "--tier", tier, *runs, *script).exits(0)
		equal(p.read(settings), b"new\n", "meant")
	p.write(settings, "mine\n")
	p.croft("run", "-q", "--write", "~/.claude", *runs, *script).exits(0)
	equal(p.read(settings), b"new\n", "meant, and granted besides")
	line = next(x for x in text(p.croft("policy", "explain", settings).exits(0).out).split("\n") if "to write it" in x)
	contains(line, "--write-runs " + settings)


@test
def test_the_hint_for_git_names_its_directory(p):
	"""A grant of the lock alone would not let it commit."""
	repository(p)
	commit = ("git", "-c", "user.name=t", "-c", "user.email=t", "commit", "--allow-empty", "-qm", "x")
	r = p.run("--observe", "writes", "--", *commit).exits(128)
	equal({d["allow_with"] for d in r.receipt["denials"]}, {"--git"}, "hints")
	p.run("--git", "--", *commit).exits(0)
	r = p.run("--observe", "writes", "--write", p.ws + "/.git", "--deny", p.ws + "/.git/config", "--", "sh", "-c", "echo x >> .git/config")
	equal({d["allow_with"].split()[-1] for d in r.receipt["denials"]}, {p.ws + "/.git/config"}, "a rule of its own")


@test(tiers=TIERS)
def test_making_what_exists_is_no_denial(p, tier):
	if "openat2" in FORCED:
		raise Skip("what exists is not looked at without openat2")
	r = p.sh("mkdir /usr; mkdir -p /usr/share; mkdir /usr/share; ln -s x /etc/passwd; mkdir /usr/croft-new; true", "--tier", tier, "--observe", "writes").exits(0)
	equal([d["path"] for d in r.receipt["denials"]], ["/usr/croft-new"], "denials")


@test
def test_no_hint_opens_a_home_directory_or_the_system(p):
	"""Also not where exactly that was asked for."""
	need_tier("namespace")
	r = p.croft("run", "--discard", "--observe", "writes", "--json", "receipt.json", "--", "sh", "-c", f"rmdir /usr /etc /usr/bin {p.home} /usr/share/doc; true")
	receipt = json.loads(p.read("receipt.json"))
	hints = {d["path"]: d["allow_with"] for d in receipt["denials"]}
	for path in ("/usr", "/etc"):
		contains(hints[path], "nothing: ", path)
	equal(hints["/usr/share/doc"], "--write /usr/share/doc", "control: one of its directories")
	for line in text(r.err).splitlines():
		check(not line.rstrip().endswith(("--write /usr", "--write /etc", "--write /usr/bin", "--write " + p.home)), "a hint that is too wide", line)


@test
def test_the_socket_of_containers_says_why_not(p):
	need_tier("namespace")
	r = p.sh("cat /var/run/docker.sock; cat ~/.netrc; true").exits(0)
	for d in r.receipt["denials"]:
		if d["path"].endswith("docker.sock"):
			contains(d["allow_with"], "no tier of this version runs containers inside")
	equal([d["allow_with"] for d in r.denials(os.path.join(p.home, ".netrc"))], ["--read " + p.home + "/.netrc"], "control")


@test
def test_bash_keeps_its_history_without_a_denial(p):
	need_tier("namespace")
	r = p.sh("cat ~/.bash_history; echo x >> ~/.bash_history; cat ~/.netrc; true").exits(0)
	lacks(text(r.err).split("croft: ")[-1], ".bash_history", "the summary")
	equal([d["path"] for d in r.receipt["denials"] if d["path"].endswith(".bash_history")], [], "denials")
	check(r.denials(os.path.join(p.home, ".netrc")), "control: a secret of the list", r)


@test
def test_a_refused_registry_is_granted_by_its_bundle(p):
	"""With a closed network, too; what no bundle knows is named as a host."""
	need_tier("namespace")
	r = p.croft("run", "--discard", "--", "sh", "-c", "getent hosts registry.npmjs.org; getent hosts pypi.org; getent hosts example.org; true")
	lines = [l for l in text(r.err).splitlines() if "denied" in l]
	for host, hint in (("registry.npmjs.org", "--use npm"), ("pypi.org", "--use pypi"), ("example.org", "--allow-host example.org")):
		line = next((l for l in lines if host in l), "")
		check(line.endswith("allow with: " + hint), "the hint for " + host, text(r.err))
		p.croft("policy", "show", *hint.split()).exits(0)


def hint_of(line):
	"""The options that a sentence ends with, as a shell takes them."""
	return line.split("granted by ", 1)[1]


@test(tiers=TIERS)
def test_a_command_that_only_the_host_has(p, tier):
	"""Said is where, and what would grant it; that, typed, does."""
	for name, file in (("plain", "tools/bin/plain"), ("linked", "opt/linked-1.0/dist/linked"), ("wide", "wide"), ("own", ".own/own")):
		p.write(os.path.join(p.home, file), "#!/bin/sh\necho it is " + name + "\n", 0o755)
	os.symlink("../../opt/linked-1.0/dist/linked", os.path.join(p.home, "tools/bin/linked"))
	missing = 127 if tier == "namespace" else 126  # without a root of its own it is seen, and not executable
	env = {"PATH": ":".join([os.path.join(p.home, d) for d in ("tools/bin", ".own")] + [p.home, p.env["PATH"]])}
	for name, want in (("plain", ["--read", p.home + "/tools"]), ("linked", ["--read", p.home + "/tools", "--read", p.home + "/opt/linked-1.0/dist"]),
			("own", ["--read", p.home + "/.own"])):
		line = p.croft("run", "--direct", "--tier", tier, "--", name, env=env).exits(missing).one_sentence()
		contains(line, "this machine has it as " + p.home)
		equal(shell(p, hint_of(line)), want, "the hint")
		equal(p.croft("run", "-q", "--direct", "--tier", tier, *want, "--", name, env=env).exits(0).out, b"it is " + name.encode() + b"\n", "typed")
	line = p.croft("run", "--direct", "--tier", tier, "--", "wide", env=env).exits(missing).one_sentence()
	contains(line, "which the sandbox does not show")
	lacks(line, "--read", "a home directory")
	lacks(p.croft("run", "--direct", "--tier", tier, "--", "nowhere-at-all", env=env).exits(127).one_sentence(), "this machine")


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
	for tool, name in (("tools/unicode-table", "src/base/unseen.h"), ("tools/fold-table", "src/base/fold_table.h"),
			("tools/width-table", "src/session/screen/width.h")):
		r = subprocess.run([os.path.join(top, tool)], capture_output=True, check=True, timeout=DEADLINE_S)
		with open(os.path.join(top, name), "rb") as f:
			have = f.read()
		if have.split(b"\n")[1] == r.stdout.split(b"\n")[1]:
			equal(have, r.stdout, name)


@test
def test_l6_a_patch_does_not_act_on_a_terminal(p):
	"""A patch for a program is exact; on a terminal its control characters are text."""
	repository(p)
	new(p)
	work(p, r"printf 'a\033]0;title\007b\tc \342\200\256x\n' > new")
	raw = b"+a\x1b]0;title\x07b\tc \xe2\x80\xaex\n"
	contains(p.croft("apply", "e", "--patch").exits(0).out, raw, "for a program")
	t = Terminal()
	try:
		t.start([os.fsdecode(w) for w in p.argv("apply", "e", "--patch")], p.ws, p.env)
		equal(t.finish(), 0, "exit status")
		lacks(t.log, b"\x1b", "terminal")
		lacks(t.log, b"\xe2\x80\xae", "terminal")
		contains(t.log, rb"+a\x1b]0;title\x07b", "terminal")
	finally:
		t.close()


if __name__ == "__main__":
	main()
