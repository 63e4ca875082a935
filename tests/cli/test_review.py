#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
"""`croft diff`, `croft review`, `croft compare`: what is shown, what is decided, and what comes of it."""
import json
import os
import re
import subprocess

from harness import IN_SESSION, Failed, Skip, alone, check, contains, equal, fuse, lacks, main, need, need_tier, test, text, wait_for
from terminal import Terminal

NUMBERS = "".join(f"{i}\n" for i in range(1, 41))


def git(p, *args, git_dir=None):
	r = subprocess.run([need("git"), *(["--git-dir", git_dir] if git_dir else []), *args], cwd=p.ws, env=p.env,
		capture_output=True, check=False)
	if r.returncode:
		raise Failed(f"git {args}: {text(r.stderr)}")
	return r.stdout


def repository(p):
	need_tier("namespace")
	git(p, "init", "-q", ".")
	git(p, "config", "user.name", "Reviewer")
	git(p, "config", "user.email", "reviewer@example.org")
	p.write("numbers", NUMBERS)
	p.write("gone", "bye\n")
	p.write("image", b"\0\1\2")
	git(p, "add", "-A")
	git(p, "commit", "-qm", "start")


def work(p, name, script):
	"""An agent's work: a script in the environment."""
	p.croft("exec", name, "--", "sh", "-c", script).exits(0)


CHANGE = ("sed -i 's/^3$/three/;s/^30$/thirty/' numbers; rm gone; printf '\\0\\1\\2\\3' > image; echo new > added;"
	"mkdir -p .github/workflows; echo 'on: push' > .github/workflows/ci.yml")


def env(p, name="one", script=CHANGE):
	p.croft("new", name).exits(0)
	work(p, name, script)
	return name


def record(p, name="one"):
	with open(os.path.join(p.home, ".local/state/croft/envs", name, "env.json"), encoding="utf-8") as f:
		return json.load(f)


def accepted(p, path, name="one"):
	"""What a path holds in the accepted tree; None when it is not there."""
	tree = record(p, name)["review"]["accepted"]
	stores = os.path.join(p.home, ".local/state/croft/repos")
	store = os.path.join(stores, os.listdir(stores)[0])
	try:
		return text(git(p, "cat-file", "blob", f"{tree}:{path}", git_dir=store))
	except Failed:
		return None


def unreviewed(p, name="one"):
	equal(record(p, name)["review"]["accepted"], None, "a review was saved")


class Review:
	"""`croft review` on a terminal of ours."""

	def __init__(self, p, *args, rows=40, **env):
		self.t = Terminal(rows=rows, cols=100)
		self.t.start(p.argv("review", *args), p.ws, {**p.env, **env})

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.t.close()

	def item(self, word):
		"""Wait for the question about an item whose text has this word."""
		self.t.expect(b"Accept this?")
		contains(text(self.t.last), word, "the item")
		return text(self.t.last)

	def key(self, key):
		self.t.send(key.encode())

	def end(self, code):
		got = self.t.finish()
		if got != code:
			raise Failed(f"exit status {got}, want {code}: {text(self.t.log)[-1500:]}")
		equal(self.t.attributes(), self.t.before, "the terminal's settings")


# ---- diff ----

alone("with a command beside it a test is no evidence", "compare")


@test
def test_diff_shows_everything(p):
	repository(p)
	env(p, script=CHANGE + "; ln -s /etc/passwd leak; mkdir empty; chmod +x numbers")
	out = text(p.croft("diff", "one").exits(0).out)
	for word in ("+three", "-30", "deleted file", "binary, 3 bytes → 4 bytes", "new file", "now executable",
		"runs on your machine: ", "cannot land", "leak", "empty/"):
		contains(out, word)
	lacks(out, "\x1b", "no colours in a pipe")
	contains(text(p.croft("diff", "one", "--color").exits(0).out), "\x1b[32m")
	only = text(p.croft("diff", "one", "added").exits(0).out)
	contains(only, "+new")
	lacks(only, "three")


@test
def test_diff_for_programs(p):
	repository(p)
	env(p)
	d = json.loads(p.croft("diff", "--json", "one").exits(0).out)
	equal(d["schema"], "croft.diff/v1", "schema")
	files = {f["path"]: f for f in d["files"]}
	equal(len(files["numbers"]["hunks"]), 2, "hunks")
	equal((files["numbers"]["additions"], files["numbers"]["deletions"]), (2, 2), "lines")
	equal(files["gone"]["change"], "deleted", "change")
	equal(files["image"]["binary"], True, "binary")
	check(files[".github/workflows/ci.yml"]["runs"], "a workflow runs")
	check("+three" in files["numbers"]["hunks"][0]["lines"], "lines of a hunk")
	names = json.loads(p.croft("diff", "--json", "--names", "one").exits(0).out)
	equal({f["path"]: f["new"] for f in names["files"]}, {k: v["new"] for k, v in files.items()}, "names")
	stat = json.loads(p.croft("diff", "--json", "--stat", "one").exits(0).out)
	equal(stat["totals"], d["totals"], "totals")


@test
def test_hostile_names_and_lines_are_made_printable(p):
	repository(p)
	env(p, script="printf '\\033]0;owned\\007\\n' > \"$(printf 'a\\033[2Jb')\"; printf 'x\\n' > \"$(printf 'bad\\377')\"")
	r = p.croft("diff", "one").exits(0)
	check(b"\x1b" not in r.out and b"\x07" not in r.out and b"\xff" not in r.out, "raw bytes", r)
	contains(text(r.out), "a\\x1b[2Jb")
	d = json.loads(p.croft("diff", "--json", "one").exits(0).out)
	equal([f["path_bytes_b64"] for f in d["files"] if "path_bytes_b64" in f], ["YmFk/w=="], "bytes of the name")
	with Review(p, "one", NO_COLOR="1") as r:
		r.item("a\\x1b[2Jb")
		r.key("s")
		r.item("bad\\xff")
		r.key("q")
		r.end(1)
		check(b"\x1b" not in r.t.log and b"\x07" not in r.t.log, "raw bytes on the terminal", r.t.log)


# ---- review from scripts ----

@test
def test_accept_all_leaves_out_what_runs_here(p):
	repository(p)
	env(p)
	r = p.croft("review", "one", "--accept-all").exits(0)
	contains(text(r.err), ".github/workflows/ci.yml")
	contains(text(r.out), "undecided and so rejected")
	equal(accepted(p, "added"), "new\n", "added")
	equal(accepted(p, "gone"), None, "gone")
	equal(accepted(p, ".github/workflows/ci.yml"), None, "the workflow")
	p.croft("review", "one", "--accept", ".github").exits(125)
	p.croft("review", "one", "--accept-all", "--accept", ".github/workflows/ci.yml").exits(0)
	equal(accepted(p, ".github/workflows/ci.yml"), "on: push\n", "the workflow, named")
	equal(record(p)["review"]["accepted"], record(p)["review"]["tree"], "everything: the tree that was shown")


@test
def test_accept_and_reject_paths(p):
	repository(p)
	env(p)
	d = json.loads(p.croft("review", "one", "--accept", "numbers", "--accept", "./added", "--reject", "added", "--json")
		.exits(0).out)
	equal(d["counts"]["accepted"], 2, "accepted")
	equal(accepted(p, "added"), None, "rejected goes before accepted")
	contains(accepted(p, "numbers"), "thirty")
	equal(accepted(p, "gone"), "bye\n", "undecided")
	contains(p.croft("review", "one", "--accept", "nowhere").exits(125).one_sentence(), "nowhere")


@test
def test_refused_paths_cannot_be_accepted(p):
	repository(p)
	env(p, script="ln -s /etc/passwd leak; mkdir d; ln -s ../../.. d/up; echo ok > d/fine")
	contains(p.croft("review", "one", "--accept", "leak").exits(126).one_sentence(), "cannot land")
	unreviewed(p)
	p.croft("review", "one", "--accept", "d").exits(0)
	equal((accepted(p, "d/fine"), accepted(p, "d/up")), ("ok\n", None), "only what can land")


@test
def test_bad_usage(p):
	repository(p)
	env(p, script="true")
	contains(p.croft("review", "one").exits(125).one_sentence(), "--accept-all")
	contains(p.croft("review", "one", "--accept-all").exits(125).one_sentence(), "no changes")
	contains(p.croft("review", "one", "--json").exits(125).one_sentence(), "--json")
	contains(p.croft("review", "one", "two", "--accept-all").exits(125).one_sentence(), "one environment")
	p.croft("review", "nobody", "--accept-all").exits(125).one_sentence()
	p.croft("diff", "../one").exits(125).one_sentence()
	p.croft("diff", "one", "../..").exits(125).one_sentence()
	contains(p.croft("diff", "one", "--since-review").exits(125).one_sentence(), "not been reviewed")
	contains(p.croft("review", "one", "--since-review", "--accept-all").exits(125).one_sentence(), "not been reviewed")
	p.croft("compare", "one").exits(125).one_sentence()
	for command in ("diff", "review", "compare"):
		contains(text(p.croft(command, "--help").exits(0).out), "usage: croft " + command)


@test
def test_since_review(p):
	repository(p)
	env(p)
	p.croft("review", "one", "--accept", "added", "--reject", "numbers").exits(0)
	equal(json.loads(p.croft("diff", "one", "--since-review", "--json").exits(0).out)["files"], [], "nothing yet")
	work(p, "one", "echo more >> added; echo later > later")
	d = json.loads(p.croft("diff", "one", "--since-review", "--json").exits(0).out)
	equal([f["path"] for f in d["files"]], ["added", "later"], "since the review")
	p.croft("review", "one", "--since-review", "--accept-all").exits(0)
	equal((accepted(p, "added"), accepted(p, "later")), ("new\nmore\n", "later\n"), "accepted now")
	equal(accepted(p, "numbers"), NUMBERS, "rejected before")


# ---- review on a terminal ----

@test
def test_a_denial_is_told_once(p):
	"""However many commands met it: what is above the first hunk fits on a screen."""
	if IN_SESSION and not fuse():
		raise Skip("traps tell at the end of the session")
	repository(p)
	p.write(p.home + "/.ssh/id_ed25519", "the key\n")
	p.croft("new", "-q", "one").exits(0)
	for i in range(3):
		p.croft("exec", "-q", "one", "--", "sh", "-c", f"echo {i} >> numbers; cat ~/.ssh/id_ed25519; true").exits(0)
	with Review(p, "one") as r:
		shown = r.item("numbers")
		equal(len(re.findall(r"  denied       read .*/id_ed25519 \([0-9]+ times\)", shown)), 1, "one line in " + shown)
		equal(shown.count("  denied  "), 1, "lines")
		r.key("q")


@test
def test_a_walk(p):
	repository(p)
	env(p)
	with Review(p, "one") as r:
		shown = r.item("ci.yml")
		contains(shown, "one: 5 files")
		contains(shown, "runs on your machine")
		r.key("a")
		contains(r.item("ci.yml"), "say y to each")
		r.key("n")
		r.item("added")
		r.key("s")
		r.item("gone")
		r.key("b")
		r.item("added")
		r.key("y")
		r.item("gone")
		r.key("n")
		r.item("image")
		r.key("c")
		r.t.expect(b"comment")
		r.key("looks odd\n")
		contains(r.item("image"), "commented")
		r.key("y")
		contains(r.item("three"), "hunk 1/2")
		r.key("n")
		contains(r.item("thirty"), "hunk 2/2")
		r.key("y")
		r.t.expect(b"Save this review?")
		r.key("y")
		r.t.expect(b"Reviewed one: 3 accepted, 0 edited, 3 rejected")
		r.end(0)
	equal(accepted(p, "numbers"), NUMBERS.replace("30\n", "thirty\n"), "one hunk of two")
	equal((accepted(p, "added"), accepted(p, "gone")), ("new\n", "bye\n"), "files")
	ref = text(git(p, "for-each-ref", "--format=%(objectname)", "refs/croft/env/" + record(p)["id"])).strip()
	contains(text(git(p, "cat-file", "blob", f"{ref}:review.json")), "looks odd", "the event")


@test
def test_whole_files_and_search(p):
	repository(p)
	env(p)
	with Review(p, "one") as r:
		r.item("ci.yml")
		r.key("/")
		r.t.expect(b"search:")
		r.key("thirty\n")
		r.item("thirty")
		r.key("b")
		r.item("three")
		r.key("a")
		r.t.expect(b"Save this review?")
		r.key("b")
		r.item("thirty")
		r.key("q")
		r.t.expect(b"4 undecided")
		r.key("y")
		r.end(0)
	check("three" in accepted(p, "numbers") and "thirty" in accepted(p, "numbers"), "the whole file")
	equal(accepted(p, "added"), None, "undecided")


@test
def test_editing_a_hunk(p):
	repository(p)
	env(p)
	editor = p.write(os.path.join(p.home, "editor"),
		"#!/bin/sh\nstat -c %a \"$1\" > \"$HOME/mode\"; echo \"$1\" > \"$HOME/name\"\n"
		"sed -i 's/^+three/+drei/' \"$1\"\n", 0o755)
	wrong = p.write(os.path.join(p.home, "wrong"), "#!/bin/sh\nsed -i 's/^ 1$/ one/' \"$1\"\n", 0o755)
	with Review(p, "one", VISUAL=editor) as r:
		r.item("ci.yml")
		r.key("/")
		r.t.expect(b"search:")
		r.key("three\n")
		r.item("three")
		r.key("e")
		r.item("thirty")
		r.key("b")
		contains(r.item("+drei"), "accepted as edited")
		r.key("q")
		r.t.expect(b"Save this review?")
		r.key("y")
		r.end(0)
	equal(accepted(p, "numbers"), NUMBERS.replace("\n3\n", "\ndrei\n"), "the edited hunk, and no other")
	with open(os.path.join(p.home, "mode"), encoding="utf-8") as f:
		equal(f.read().strip(), "600", "mode of the file")
	with open(os.path.join(p.home, "name"), encoding="utf-8") as f:
		name = f.read().strip()
	check(not name.startswith(p.ws) and not os.path.exists(name), "where the file was", name)
	before = record(p)["review"]["accepted"]
	with Review(p, "one", EDITOR=wrong) as r:
		r.item("ci.yml")
		r.key("/")
		r.t.expect(b"search:")
		r.key("three\n")
		r.item("three")
		r.key("e")
		contains(r.item("three"), "must stay")
		r.key("q")
		r.end(1)
	equal(record(p)["review"]["accepted"], before, "nothing saved")


@test
def test_leaving_saves_nothing(p):
	repository(p)
	env(p)
	with Review(p, "one") as r:
		r.item("ci.yml")
		r.key("y")
		r.item("added")
		r.key("\x03")
		r.end(-2)
	unreviewed(p)
	with Review(p, "one") as r:
		r.item("ci.yml")
		r.key("y")
		r.item("added")
		r.key("q")
		r.t.expect(b"Save this review?")
		r.key("n")
		r.end(1)
	unreviewed(p)
	with Review(p, "one") as r:
		r.item("ci.yml")
		r.key("q")
		r.end(1)
	unreviewed(p)


@test
def test_stopped_and_continued(p):
	repository(p)
	env(p)
	shell = need("bash")
	t = Terminal(rows=40, cols=100)
	try:
		t.start([shell, "--norc", "--noediting", "-i"], p.ws, {**p.env, "PS1": "prompt> "})
		t.expect(b"prompt> ")
		before = t.attributes()
		t.send(os.fsencode(" ".join(text(a) for a in p.argv("review", "one"))) + b"\n")
		t.expect(b"Accept this?")
		check(t.attributes() != before, "keys are not read one by one")
		t.send(b"\x1a")
		t.expect(b"Stopped")
		t.expect(b"prompt> ")
		equal(t.attributes(), before, "the terminal's settings while stopped")
		t.send(b"fg\n")
		t.expect(b"review one")
		wait_for(lambda: t.attributes() != before, "keys are read again")
		t.send(b"q")
		t.expect(b"nothing was saved")
		t.expect(b"prompt> ")
		equal(t.attributes(), before, "the terminal's settings afterwards")
	finally:
		t.close()
	unreviewed(p)


@test
def test_an_environment_that_changed_is_not_saved(p):
	repository(p)
	env(p)
	with Review(p, "one") as r:
		r.item("ci.yml")
		r.key("y")
		r.item("added")
		work(p, "one", "echo evil >> added")
		r.key("q")
		r.t.expect(b"Save this review?")
		r.key("y")
		r.t.expect(b"changed while it was reviewed")
		r.end(126)
	unreviewed(p)


@test
def test_no_line_is_passed_over(p):
	"""Lines that take many rows push others off the page, and the next page begins with those."""
	repository(p)
	lines = ["x" * 1300] + [f"harmless {i}" for i in range(6)] + ["os.system(evil)"] + [f"tail {i}" for i in range(22)]
	env(p, script="printf '%s\\n' " + " ".join(f"'{x}'" for x in lines) + " > long; printf '" + "\u4e00" * 900 + "\\nwide end\\n' > wide")
	with Review(p, "one", rows=24) as r:
		for word in ("long", "wide"):
			seen = shown = r.item(word)
			for _ in range(12):
				if "more lines" not in shown:
					break
				r.key("m")
				shown = r.item(word)
				seen += shown
			for line in (lines[1:] if word == "long" else ["wide end"]):
				contains(seen, line, f"{word}: what was shown")
			r.key("n")
		r.t.expect(b"Save this review?")
		r.key("n")


@test
def test_long_hunks_are_cut_to_the_screen(p):
	repository(p)
	env(p, script="seq 1000 1300 > long")
	with Review(p, "one", rows=24) as r:
		shown = r.item("more lines")
		contains(shown, "+1000")
		lacks(shown, "+1100")
		r.key("m")
		shown = r.item("more lines")
		lacks(shown, "+1000\r")
		r.key("y")
		r.t.expect(b"Save this review?")
		r.key("y")
		r.end(0)
	equal(accepted(p, "long"), "".join(f"{i}\n" for i in range(1000, 1301)), "all of it")


# ---- compare ----

@test
def test_compare(p):
	repository(p)
	env(p, "one", "sed -i 's/^3$/three/;s/^30$/thirty/' numbers; echo same > added; echo 1 > mine")
	env(p, "two", "sed -i 's/^3$/drei/' numbers; echo same > added")
	p.croft("exec", "two", "--as", "test", "--", "false").exits(1)
	d = json.loads(p.croft("compare", "one", "two", "--json").exits(0).out)
	one, two = d["envs"]
	equal((one["files"], two["files"]), (3, 2), "files")
	equal((one["tests"], two["tests"]), (None, "failed"), "tests")
	pair = d["pairs"][0]
	equal((pair["shared"], pair["same"], pair["merges"], pair["conflicts"]), (2, 1, 0, 1), "the pair")
	equal(pair["conflict_paths"], ["numbers"], "conflicts")
	out = text(p.croft("compare", "one", "two").exits(0).out)
	for word in ("FAILED", "2 files in common", "conflict  numbers"):
		contains(out, word)
	p.croft("compare", "one", "one").exits(125).one_sentence()


if __name__ == "__main__":
	main()
