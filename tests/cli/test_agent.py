#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""`croft agent`: data files, finding the program, what its sandbox gets, the summary. The agent is a script."""
import json
import os

from harness import FORCED, ROOT, TIERS, Skip, check, contains, equal, lacks, main, test, text

SCRIPT = """#!/bin/sh
echo "args: $*"
echo "key: $FAKE_KEY"
echo "set: $FAKE_SET, passed: $FAKE_PASSED"
cat "$(dirname "$(readlink -f "$0")")/part.txt"
cat "$HOST_HOME/private" 2>&1
echo changed > work.txt
"""
DATA = """version: 1
name: fake
title: Fake Agent
program:
  names: [fake-agent]
  look: [~/tools/bin/fake-agent]
hosts: [api.example.com]
telemetry: [telemetry.example.com]
keys:
  - {name: FAKE_KEY, host: api.example.com, place: header, field: x-api-key}
environment:
  pass: [FAKE_PASSED, HOST_HOME]
  set: {FAKE_SET: "a \\"quoted\\" value"}
arguments: [--first]
"""
VALUE = "key-0123456789abcdefghij"


def fake(p, data=DATA, where="lib/node_modules/@some/fake"):
	"""An agent as an installer leaves it: a symlink in a bin directory to a file deep in another."""
	p.write(p.home + "/.config/croft/agents/fake.yaml", data, 0o600)
	p.write(f"{p.home}/{where}/cli.sh", SCRIPT, 0o755)
	p.write(f"{p.home}/{where}/part.txt", "a part of the program\n")
	p.write(p.home + "/private", "the user's own\n")
	os.makedirs(p.home + "/tools/bin", exist_ok=True)
	os.symlink(f"{p.home}/{where}/cli.sh", p.home + "/tools/bin/fake-agent")


def agent(p, *words, env=None, **kw):
	return p.croft("agent", *words, env={"HOST_HOME": p.home, **(env or {})}, **kw)


@test
def test_the_agents_that_come_with_croft(p):
	known = json.loads(agent(p, "ls", "--json").exits(0).out)
	names = [a["name"] for a in known]
	equal(names, sorted(["aider", "amp", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode", "qwen"]))
	equal([a["name"] for a in known if not a["verified"]], ["aider", "amp", "cursor-agent", "goose"], "unverified")
	for a in known:
		check(a["hosts"] and a["programs"], "an agent without hosts or program", a)
		for k in a["keys"]:
			contains(a["hosts"], k["host"], a["name"])
	lines = text(agent(p, "ls").exits(0).out).splitlines()
	equal([line.split()[0] for line in lines], names)
	offered = [line.split("\t")[0] for line in text(p.croft("complete", "--", "agent", "").exits(0).out).splitlines()]
	equal(sorted(offered), sorted([*names, "ls", "show", "save", "add"]), "completions")
	contains(text(agent(p, "show", "claude").exits(0).out), "ANTHROPIC_API_KEY, sent to api.anthropic.com as header x-api-key")
	equal(json.loads(agent(p, "show", "codex", "--json").exits(0).out)["websockets"], ["api.openai.com", "chatgpt.com"])


@test
def test_usage(p):
	for args, says in (((), "no agent named"), (("claud",), "did you mean claude?"), (("../x",), "is not a name"), (("show",), "one name"),
		(("add",), "one file"), (("ls", "x"), "no name"), (("add", "/nonexistent"), "read the agent file"), (("--frob", "claude"), "--frob")):
		contains(agent(p, *args).exits(125).one_sentence(), says)
	contains(text(agent(p, "--help").exits(0).out), "usage: croft agent")


@test
def test_not_installed(p):
	fake(p)
	os.unlink(p.home + "/tools/bin/fake-agent")
	contains(agent(p, "fake").exits(125).one_sentence(), "Fake Agent is not installed: there is no program called fake-agent")


@test
def test_add(p):
	f = p.write("mine.yaml", DATA.replace("name: fake\n", "name: mine\n"))
	contains(text(agent(p, "add", f).exits(0).out), "/agents/mine.yaml")
	contains(text(agent(p, "ls").exits(0).out), "mine")
	p.write("bad.yaml", "version: 1\nname: bad\nhostss: []\n")
	contains(agent(p, "add", "bad.yaml").exits(125).one_sentence(), 'bad.yaml:3:1: unknown key "hostss"')
	# One's own comes before the one that is shipped; one that everybody can write is not believed.
	path = p.write(p.home + "/.config/croft/agents/claude.yaml", DATA.replace("name: fake", "name: claude"), 0o600)
	equal(json.loads(agent(p, "show", "claude", "--json").exits(0).out)["title"], "Fake Agent")
	os.chmod(path, 0o666)
	contains(agent(p, "show", "claude").exits(126).one_sentence(), "written by everybody")


@test
def test_the_page(p):
	with open(os.path.join(os.environ["SRCDIR"], "docs/AGENTS.md"), encoding="utf-8") as f:
		page = f.read()
	agent(p, "add", p.write("mine.yaml", page.split("```yaml\n")[1].split("```")[0])).exits(0)
	a = json.loads(agent(p, "show", "mine", "--json").exits(0).out)
	equal((a["title"], a["keys"][0]["field"], a["arguments"]), ("My Agent", "x-api-key", ["--no-sandbox"]))
	for known in json.loads(agent(p, "ls", "--json").exits(0).out):
		check(known["name"] == "mine" or f"`{known['name']}`" in page, "not on the page", known["name"])


@test(tiers=TIERS)
def test_what_it_gets(p, tier):
	if FORCED:
		raise Skip("what is forced away changes what is staged")
	fake(p)
	r = agent(p, "--tier", tier, "--json", "r.json", "fake", "one", "--two", env={"FAKE_KEY": VALUE, "FAKE_PASSED": "it"}).exits(0)
	out, err = text(r.out), text(r.err)
	contains(out, "args: --first one --two\n")
	contains(out, 'set: a "quoted" value, passed: it\n')
	contains(out, "a part of the program\n")
	lacks(out, "the user's own")
	lacks(out + err, VALUE)
	contains(out, "key: croft", "the placeholder")
	contains(err, "Fake Agent reaches api.example.com; FAKE_KEY is put into its requests")
	contains(err, "a staged copy of this project" if tier == "namespace" else "the files of this project in place")
	if tier == "namespace":
		contains(err, "changes are staged as fake:")
		check(not os.path.exists(os.path.join(p.ws, "work.txt")), "it was written in place")
		p.croft("apply", "fake").exits(0)
	equal(p.read("work.txt"), b"changed\n")


@test
def test_placeholder_and_words_once(p):
	fake(p)
	env = {"FAKE_KEY": VALUE}
	first, second = (agent(p, "--discard", "fake", env=env).exits(0) for _ in range(2))
	key = [line for line in text(first.out).splitlines() if line.startswith("key: ")]
	contains(text(second.out), key[0], "the same placeholder in every run of one project")
	contains(text(first.err), "Fake Agent sees")
	lacks(text(second.err), "Fake Agent sees")


@test
def test_names_of_what_is_staged(p):
	fake(p)
	err = text(agent(p, "-v", "fake").exits(0).err)
	if "changes are staged" not in err:
		raise Skip("nothing can be staged here")
	contains(err, "staged as fake:")
	contains(text(agent(p, "fake").exits(0).err), "staged as fake-2:")


@test
def test_without_a_key(p):
	fake(p)
	r = agent(p, "--discard", "fake").exits(0)
	contains(text(r.out), "key: \n")
	lacks(text(r.err), "FAKE_KEY")
	# Bound by the caller: then it is the caller's to place, and it must be there.
	contains(agent(p, "--discard", "--secret", "FAKE_KEY@api.example.com", "fake").exits(126).one_sentence(), "no secret called FAKE_KEY")


@test
def test_save(p):
	if FORCED:
		raise Skip("what is forced away changes what can be had")
	fake(p, DATA + "view: [~/.fake, ~/.fake.json]\n")
	p.write(p.home + "/.fake/settings", "mine\n")
	p.write(p.home + "/.fake/old", "old\n")
	p.write(p.home + "/.fake.json", "{}\n")
	p.write(p.home + "/private2", "private\n")
	os.symlink(p.home + "/private2", p.home + "/.fake/mylink")
	p.write(p.home + "/lib/node_modules/@some/fake/cli.sh", """#!/bin/sh
cd ~/.fake && echo theirs > settings && rm old && mkdir -p d && echo new > d/new && ln -s /etc/passwd link && mkfifo fifo && rm mylink && echo x > mylink
echo '{"a": 1}' > ~/.fake.json
""", 0o755)
	r = agent(p, "save", "fake").exits(0)
	equal(text(r.out), "", "before the first run")
	contains(text(r.err), "fake changed nothing", "what is said then")
	r = agent(p, "--tier", "namespace", "fake")
	if r.rc == 126:
		raise Skip("no namespace tier")
	listed = text(agent(p, "save", "fake").exits(0).out)
	equal(sorted(listed.splitlines()), sorted(["changed  ~/.fake.json", "changed  ~/.fake/mylink", "changed  ~/.fake/settings", "deleted  ~/.fake/old",
		"new      ~/.fake/d/new", "new      ~/.fake/fifo", "new      ~/.fake/link"]))
	equal(p.read(p.home + "/.fake/settings"), b"mine\n", "listing changes nothing")
	contains(text(agent(p, "save", "fake", "~/.fake/settings", "~/.fake/d/new", "~/.fake/old", "~/.fake.json").exits(0).out), "saved    ~/.fake/settings")
	equal((p.read(p.home + "/.fake/settings"), p.read(p.home + "/.fake/d/new"), p.read(p.home + "/.fake.json")), (b"theirs\n", b"new\n", b'{"a": 1}\n'))
	check(not os.path.exists(p.home + "/.fake/old"), "what was deleted is there")
	for bad in ("~/.fake/link", "~/.fake/fifo", "~/.fake/mylink"): # nothing is followed, on neither side
		contains(agent(p, "save", "fake", bad).exits(126).one_sentence(), "not a regular file")
	equal(p.read(p.home + "/private2"), b"private\n", "what a link of the user's leads to")
	for bad in ("~/.fake/none", "~/.fake/../private", "/etc/passwd"):
		agent(p, "save", "fake", bad).exits(125).one_sentence()
	equal(sorted(line.split()[1] for line in text(agent(p, "save", "fake").exits(0).out).splitlines()), ["~/.fake/fifo", "~/.fake/link", "~/.fake/mylink"])


@test
def test_save_tells_of_what_is_hidden_and_of_what_cannot_be_read(p):
	if FORCED:
		raise Skip("what is forced away changes what can be had")
	fake(p, DATA + "view: [~/.fake]\n")
	for name in ("hooks/one", "hooks/deep/two", "hooks/same", "other"):
		p.write(p.home + "/.fake/" + name, "mine\n")
	p.write(p.home + "/lib/node_modules/@some/fake/cli.sh", """#!/bin/sh
cd ~/.fake && rm -r hooks && mkdir hooks && echo mine > hooks/same && echo x > hooks/new && mkdir shut && echo y > shut/new && chmod 000 shut
""", 0o755)
	r = agent(p, "--tier", "namespace", "fake")
	if r.rc == 126:
		raise Skip("no namespace tier")
	shut = "new      ~/.fake/shut/new" if ROOT else "unreadable ~/.fake/shut"
	equal(sorted(text(agent(p, "save", "fake").exits(0).out).splitlines()), sorted([shut, "deleted  ~/.fake/hooks/one",
		"deleted  ~/.fake/hooks/deep/two", "new      ~/.fake/hooks/new"]))
	agent(p, "save", "fake", "~/.fake/hooks/one", "~/.fake/hooks/deep/two").exits(0)
	equal([os.path.exists(p.home + "/.fake/" + n) for n in ("hooks/one", "hooks/deep/two", "hooks/same", "other")], [False, False, True, True])
	for bad in ("~/.fake/hooks/none", "~/.fake/hooks/deep", "~/.fake/hooks/same"):
		agent(p, "save", "fake", bad).exits(125).one_sentence()


@test
def test_options_come_before(p):
	fake(p)
	out = text(agent(p, "--discard", "--env", "FAKE_SET=mine", "fake", "--tier", "nonsense", "--").exits(0).out)
	contains(out, "args: --first --tier nonsense --\n")
	contains(out, "set: mine,")
	contains(text(agent(p, "--dry-run", "fake").exits(0).out), "node_modules")


if __name__ == "__main__":
	main()
