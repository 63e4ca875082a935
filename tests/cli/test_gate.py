#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# timeout: 600
"""croft evidence check against those who would get past it: what a commit changes counts, not where it ends up."""
import json
import os

from envs import git, new, repository, work
from harness import alone, check, contains, equal, main, need_tier, test

ALL = "version: 1\nrequire: {evidence: all, max-denials: 0}\n"


def gate(p, range_="HEAD~1..HEAD", rc=0, content=ALL, cwd=None):
	"""What the gate says of these commits, by the program's status."""
	file = p.write(os.path.join(p.home, "gate.yaml"), content)
	return json.loads(p.croft("evidence", "check", "--policy", file, "--json", range_, cwd=cwd).exits(rc).out)


def by(found):
	return [c["matched"] for c in found["commits"]]


def rules(found):
	return [q["rule"].rsplit("/", 1)[1] for c in found["commits"] for q in c["problems"]]


def land(p, name, script, *options):
	"""An environment from HEAD that does this, and its commit."""
	new(p, name)
	work(p, script, name)
	p.croft("apply", "--squash", *options, name).exits(0)
	return git(p, "rev-parse", "HEAD")


def commit(p, message, **files):
	"""By hand, without evidence."""
	for path, content in files.items():
		p.write(path, content)
		git(p, "add", path)
	git(p, "commit", "-q", "-m", message)
	return git(p, "rev-parse", "HEAD")


def start(p):
	need_tier("namespace")
	repository(p)
	return git(p, "rev-parse", "HEAD")


def squash(p, onto):
	git(p, "reset", "-q", "--soft", onto)
	git(p, "commit", "-q", "-m", "squashed")


# ---- what counts is the change ----

alone("with a command beside it a test is no evidence", "each landing of an environment", "forks take their past along")
alone("reads the events of single runs", "binary files by their whole names")
alone("a session that is up is no whole evidence", "evidence of strangers")


@test
def test_squashing_in_what_nobody_landed(p):
	base = start(p)
	land(p, "one", "echo 1 > f")
	land(p, "two", "echo 2 >> f; echo g > g")
	squash(p, base)
	gate(p) # two landings in one commit
	git(p, "reset", "-q", "--hard", base)
	commit(p, "by hand", h="evil\n")
	land(p, "three", "echo 3 > i")
	gate(p)
	squash(p, base)
	equal(rules(gate(p, rc=1)), ["no-evidence"], "the same tree, with a file that nobody landed")
	git(p, "reset", "-q", "--hard", base)
	commit(p, "by hand", j="evil\n")
	land(p, "four", "echo 4 >> j")
	gate(p)
	squash(p, base)
	equal(rules(gate(p, rc=1)), ["no-evidence"], "the same file, with lines that nobody landed")


@test
def test_taking_back_a_fix(p):
	start(p)
	first = land(p, "one", "echo wrong > f")
	land(p, "two", "echo right > f")
	gate(p)
	old = git(p, "rev-parse", first + "^{tree}")
	back = git(p, "commit-tree", "-p", "HEAD", "-m", "tidy up", old)
	for content in (ALL, "version: 1\n"):
		equal(rules(gate(p, "HEAD.." + back, rc=1, content=content)), ["no-evidence"], "an older tree")
	git(p, "rm", "-q", "f")
	git(p, "commit", "-q", "-m", "no file")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "deleted by nobody")
	# Landed once more, it is a change like any other.
	git(p, "reset", "-q", "--hard", "HEAD~1")
	land(p, "three", "echo wrong > f")
	git(p, "commit", "-q", "--amend", "-m", "reworded")
	equal(by(gate(p)), ["tree"], "landed")


@test
def test_rewritten_commits_are_found(p):
	base = start(p)
	landed = land(p, "one", "seq 20 > f; printf 'a\\0b' > bin; ln -s f link; chmod +x f")
	git(p, "commit", "-q", "--amend", "-m", "reworded")
	equal(by(gate(p)), ["tree"], "amended")
	git(p, "checkout", "-q", "-b", "other", base)
	commit(p, "another base", z="z\n")
	git(p, "cherry-pick", landed)
	equal(by(gate(p)), ["files"], "picked, with a link")
	second = land(p, "two", "sed -i s/^20$/twenty/ f")
	git(p, "reset", "-q", "--hard", "HEAD~1")
	commit(p, "above it", f="\n".join(map(str, [0] + list(range(1, 21)))) + "\n")
	git(p, "cherry-pick", second)
	equal(by(gate(p)), ["patch"], "picked onto another state of the file")
	git(p, "commit", "-q", "--amend", "-m", "x", "--date", "1970-01-01T00:00:00")
	equal(by(gate(p)), ["patch"], "with an odd date")


@test
def test_landed_in_the_checkout_and_committed_by_hand(p):
	start(p)
	for name, script in (("one", "echo 1 > f; rm gone"), ("two", "echo 2 > g; chmod -x tool.sh")):
		new(p, name)
		work(p, script, name)
		p.croft("apply", name).exits(0)
	git(p, "add", "-A")
	git(p, "commit", "-q", "-m", "both")
	equal(by(gate(p)), ["files"], "two landings")
	equal(len(gate(p)["commits"][0]["environments"]), 2, "environments")
	p.write("f", "1\nevil\n")
	git(p, "commit", "-q", "-a", "--amend", "--no-edit")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "edited by hand")


@test
def test_what_patch_ids_do_not_see(p):
	start(p)
	above = "1\n2\n3\n4\n"
	big = "".join("line %d\n" % i for i in range(2000))
	commit(p, "large", big=big, code=above + "if x:\n\ta()\nb()\n")
	before = git(p, "rev-parse", "HEAD")
	landed = land(p, "one", "sed -i 's/^b()/ b()/' code")
	land(p, "two", "printf '%s\\0safe\\n' new >> big")
	git(p, "checkout", "-q", "-b", "other", before)
	commit(p, "elsewhere", big="above\n" + big, code="above\n" + above + "if x:\n\ta()\nb()\n")
	here = git(p, "rev-parse", "HEAD")
	git(p, "cherry-pick", landed)
	equal(by(gate(p)), ["patch"], "the same patch")
	git(p, "reset", "-q", "--hard", here)
	commit(p, "indented", code="above\n" + above + "if x:\n\ta()\n\tb()\n")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "other white space")
	git(p, "reset", "-q", "--hard", here)
	commit(p, "after a NUL", big="above\n" + big + "new\0evil\n")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "behind a NUL")


@test
def test_binary_files_by_their_whole_names(p):
	start(p)
	land(p, "one", "printf 'a\\0b' > bin")
	event = json.loads(p.croft("evidence", "show", "--json", "one", "3").exits(0).out)
	said = json.dumps(event)
	patch = git(p, "diff-tree", "-p", "--full-index", "HEAD~1", "HEAD")
	want = git(p, "patch-id", "--verbatim", stdin=patch.encode()).split()[0]
	short = git(p, "patch-id", "--verbatim", stdin=git(p, "diff-tree", "-p", "HEAD~1", "HEAD").encode()).split()[0]
	check(short != want, "there is a difference to see")
	contains(said, want)


@test
def test_changes_without_content(p):
	start(p)
	land(p, "one", "echo 1 > f")
	git(p, "commit", "-q", "--allow-empty", "-m", "nothing")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "every commit needs evidence, an empty one, too")
	git(p, "update-index", "--chmod=+x", "f")
	git(p, "commit", "-q", "-m", "mode")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "a mode")
	git(p, "mv", "f", "g")
	git(p, "commit", "-q", "-m", "renamed")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "another name")
	git(p, "update-index", "--add", "--cacheinfo", "160000,%s,sub" % git(p, "rev-parse", "HEAD"))
	git(p, "commit", "-q", "-m", "module")
	equal(rules(gate(p, rc=1)), ["no-evidence"], "a submodule")
	p.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./x\n\tignore = all\n')
	git(p, "add", ".gitmodules")
	git(p, "commit", "-q", "-m", "ignored")
	git(p, "update-index", "--cacheinfo", "160000,%s,sub" % git(p, "rev-parse", "HEAD"))
	git(p, "commit", "-q", "-m", "module")
	check(gate(p, rc=1)["commits"], "a submodule that asks to be ignored")


# ---- every landing, every origin ----

@test
def test_each_landing_of_an_environment(p):
	base = start(p)
	tests = "version: 1\nrequire: {evidence: all, tests: passed}\n"
	new(p, "one")
	work(p, "echo 1 > f", "one")
	p.croft("apply", "--squash", "one").exits(0)
	work(p, "echo 2 > g", "one")
	p.croft("exec", "--as", "test", "one", "--", "true").exits(0)
	p.croft("apply", "--squash", "one").exits(0)
	gate(p, content=tests)
	equal(rules(gate(p, base + "..HEAD", rc=1, content=tests)), ["tests"], "the first was not tested")
	squash(p, base)
	equal(rules(gate(p, rc=1, content=tests)), ["tests"], "nor is it with the second")


@test
def test_forks_take_their_past_along(p):
	start(p)
	new(p, "clean")
	work(p, "echo 1 > f", "clean")
	p.croft("fork", "clean", "clean-fork").exits(0)
	work(p, "cat ~/.ssh/id_ed25519; true", "clean")
	p.croft("apply", "--squash", "clean-fork").exits(0)
	gate(p)
	new(p, "bad")
	work(p, "echo 2 > g; cat ~/.ssh/id_ed25519; true", "bad")
	p.croft("fork", "bad", "fork").exits(0)
	p.croft("fork", "fork", "fork-fork").exits(0)
	p.croft("apply", "--squash", "fork-fork").exits(0)
	equal(rules(gate(p, rc=1)), ["denials"], "denied before the fork")
	allowed = "version: 1\nrequire: {evidence: all, max-denials: 9, tiers: [%s]}\n"
	gate(p, content=allowed % "namespace")
	equal(rules(gate(p, rc=1, content=allowed % "process")), ["tier"], "ran before the fork")
	ids = {e["name"]: e["id"] for e in json.loads(p.croft("ls", "--json").exits(0).out)["environments"]}
	ref = "refs/croft/env/" + ids["bad"]
	tip = git(p, "rev-parse", ref)
	git(p, "update-ref", ref, tip + "~1")
	equal(rules(gate(p, rc=1, content=allowed % "namespace")), ["no-evidence"], "cut off before the fork")
	git(p, "update-ref", "-d", ref)
	equal(rules(gate(p, rc=1, content=allowed % "namespace")), ["no-evidence"], "not here")
	git(p, "update-ref", ref, tip)
	gate(p, content=allowed % "namespace")


# ---- whose evidence ----

@test
def test_evidence_of_strangers(p):
	base = start(p)
	landed = land(p, "one", "echo 1 > f")
	key = json.loads(p.croft("evidence", "key", "--json").exits(0).out)
	key = key.get("id") or key["key_id"]
	mine = "version: 1\nrequire: {keys: [%s]}\n" % key
	hand = commit(p, "by hand", h="h\n")
	found = gate(p, base + "..HEAD", content=mine)
	equal([c["state"] for c in found["commits"]], ["good", "untouched"], "before")
	# Somebody else says to have landed both, with denials.
	git(p, "checkout", "-q", "-b", "stranger", base)
	home = dict(p.env, XDG_STATE_HOME=os.path.join(p.home, "stranger"))
	p.croft("new", "two", env=home).exits(0)
	p.croft("exec", "two", "--", "sh", "-c", "echo 1 > f; echo h > h; cat ~/.ssh/id_ed25519; true", env=home).exits(0)
	p.croft("apply", "--squash", "two", env=home).exits(0)
	found = gate(p, "%s..%s" % (base, hand), content=mine)
	equal([c["state"] for c in found["commits"]], ["good", "untouched"], "with a stranger's evidence")
	equal(rules(gate(p, rc=1, content=mine)), ["key"], "the stranger's own commit names it")
	# Without keys anybody's counts; what is good still is.
	equal(gate(p, "%s..%s" % (base, landed), content="version: 1\n")["commits"][0]["state"], "good", "no keys")


# ---- merges ----

@test
def test_merges(p):
	base = start(p)
	old = land(p, "one", "echo wrong > f")
	fix = land(p, "two", "echo right > f")
	git(p, "checkout", "-q", "-b", "side", old)
	land(p, "three", "echo g > g")
	side = git(p, "rev-parse", "HEAD")
	git(p, "merge", "-q", "--no-ff", "-m", "m", fix)
	equal([c["state"] for c in gate(p, base + "..HEAD")["commits"]][-1], "merge", "as git merges")
	merge = git(p, "rev-parse", "HEAD^{tree}")

	def made(tree, *parents):
		args = [w for q in parents for w in ("-p", q)]
		return git(p, "commit-tree", *args, "-m", "m", git(p, "rev-parse", tree + "^{tree}"))

	def judged(tree, *parents, rc=1):
		c = made(tree, *parents)
		return gate(p, c + "^!", rc=rc)["commits"][0]["state"]

	equal(judged(merge, side, fix, rc=0), "merge", "again")
	equal(judged(merge, fix, side, rc=0), "merge", "the other way round")
	for parents in ((side, fix), (fix, side)):
		equal(judged(side, *parents), "bad", "the fix is gone")
	equal(judged(old, fix, old), "bad", "the tree of the older")
	equal(judged(old, fix, fix), "bad", "one parent twice")
	equal(judged(side, side, fix, old), "bad", "three parents, the fix is gone")
	p.write("evil", "evil\n")
	git(p, "add", "evil")
	git(p, "commit", "-q", "--amend", "--no-edit")
	equal(gate(p, "HEAD^!", rc=1)["commits"][0]["state"], "bad", "a file of its own")


@test
def test_conflicts_are_resolved_by_somebody(p):
	base = start(p)
	land(p, "one", "echo 1 > f")
	one = git(p, "rev-parse", "HEAD")
	git(p, "checkout", "-q", "-b", "side", base)
	land(p, "two", "echo 2 > f")
	git(p, "merge", "-q", one, rc=1)
	p.write("f", "3\n")
	git(p, "add", "f")
	git(p, "commit", "-q", "-m", "resolved")
	equal(gate(p, "HEAD^!", rc=1)["commits"][0]["state"], "bad", "every commit needs evidence")
	equal(gate(p, "HEAD^!", content="version: 1\n")["commits"][0]["state"], "untouched", "by hand")
	git(p, "commit", "-q", "--amend", "-m", "x\n\nAssisted-by: bot:m")
	equal(gate(p, "HEAD^!", rc=1, content="version: 1\n")["commits"][0]["state"], "bad", "by an agent, it says")


# ---- the whole range ----

@test
def test_history_as_it_is(p):
	base = start(p)
	commit(p, "evil", h="evil\n")
	land(p, "one", "echo 1 > f")
	tip = git(p, "rev-parse", "HEAD")
	equal(len(gate(p, base + "..HEAD", rc=1)["commits"]), 2, "both")
	git(p, "replace", "--graft", tip, base)
	equal(len(gate(p, base + "..HEAD", rc=1)["commits"]), 2, "with a replacement")
	git(p, "replace", "-d", tip)
	p.write(".git/info/grafts", "%s %s\n" % (tip, base))
	equal(len(gate(p, base + "..HEAD", rc=1)["commits"]), 2, "with a graft")
	os.unlink(os.path.join(p.ws, ".git/info/grafts"))


@test
def test_shallow_clones(p):
	base = start(p)
	commit(p, "evil", h="evil\n")
	land(p, "one", "echo 1 > f")
	git(p, "branch", "old", base)
	clone = os.path.join(p.home, "clone")
	git(p, "clone", "-q", "--depth=1", "--no-single-branch", "file://" + p.ws, clone)
	git(p, "fetch", "-q", "origin", "refs/croft/env/*:refs/croft/env/*", cwd=clone)
	file = p.write(os.path.join(p.home, "gate.yaml"), ALL)
	r = p.croft("evidence", "check", "--policy", file, "origin/old..HEAD", cwd=clone).exits(125)
	contains(r.one_sentence(), "shallow")
	git(p, "fetch", "-q", "--unshallow", cwd=clone)
	found = json.loads(p.croft("evidence", "check", "--policy", file, "--json", "origin/old..HEAD", cwd=clone).exits(1).out)
	equal(len(found["commits"]), 2, "commits")


if __name__ == "__main__":
	main()
