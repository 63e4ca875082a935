#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""`croft apply`, `revert`, `discard`: what they say and do, and what a crash at each step leaves.

What an environment staged is written into its upper layer by hand, as overlayfs would have: landing does
not depend on which boundary the work was done behind."""
import json
import os
import subprocess

from harness import check, contains, equal, lacks, main, test, text

STEPS = ("land.planned", "land.staged", "land.intent", "land.file", "land.file:2", "land.index", "land.ref",
	"land.event", "land.done")


def git(p, *args):
	r = subprocess.run(["git", *args], cwd=p.ws, env={**p.env, "GIT_CONFIG_NOSYSTEM": "1"}, capture_output=True,
		check=False)
	check(r.returncode == 0, f"git {args}", r.stderr)
	return r.stdout.decode().rstrip("\n")


def repository(p):
	p.write("a.txt", "".join(f"{i}\n" for i in range(1, 10)))
	p.write("b.txt", "b\n")
	git(p, "init", "-q", "-b", "main", ".")
	git(p, "config", "user.name", "U")
	git(p, "config", "user.email", "u@example.org")
	git(p, "add", "-A")
	git(p, "commit", "-q", "-m", "one")


def upper(p, name):
	state = os.path.join(p.home, ".local/state/croft")
	with open(os.path.join(state, "envs", name, "env.json"), encoding="utf-8") as f:
		return os.path.join(state, "layers", json.load(f)["layers"][-1], "tree")


def stage(p, name, path, content):
	full = os.path.join(upper(p, name), path)
	os.makedirs(os.path.dirname(full), exist_ok=True)
	with open(full, "wb") as f:
		f.write(content.encode())


def new(p, name="e"):
	p.croft("new", name).exits(0)
	stage(p, name, "a.txt", "".join(f"{i}\n" for i in range(1, 9)) + "nine\n")
	stage(p, name, "sub/new.txt", "new\n")


@test
def test_help_and_usage(p):
	for cmd, name in (("apply", "[NAME]"), ("revert", "NAME"), ("discard", "[NAME]")):
		contains(text(p.croft(cmd, "--help").exits(0).out), f"usage: croft {cmd} {name}")
		p.croft(cmd).exits(125).one_sentence()
		p.croft(cmd, "nobody").exits(125).one_sentence()
		p.croft(cmd, "../x").exits(125).one_sentence()
		p.croft(cmd, "--bogus").exits(125).one_sentence()
	p.croft("apply", "e", "--commit", "--squash").exits(125).one_sentence()


@test
def test_apply_and_revert(p):
	repository(p)
	new(p)
	r = text(p.croft("apply", "e", "--dry-run").exits(0).out)
	contains(r, "would apply e: 2 paths")
	equal(git(p, "status", "--porcelain"), "", "a dry run")
	p.write("b.txt", "mine\n")
	r = text(p.croft("apply", "e").exits(0).out)
	contains(r, "apply e: 2 paths")
	contains(r, "sub/new.txt")
	equal(git(p, "status", "--porcelain"), " M a.txt\n M b.txt\n?? sub/", "status")
	contains(text(p.croft("apply", "e").exits(0).out), "there already")
	p.croft("revert", "e").exits(0)
	equal(git(p, "status", "--porcelain"), " M b.txt", "status")
	p.croft("revert", "e").exits(125).one_sentence()


@test
def test_squash_as_json(p):
	repository(p)
	new(p)
	r = json.loads(p.croft("apply", "e", "--squash", "--json", "-m", "Mine").exits(0).out)
	equal(r["commit"], git(p, "rev-parse", "HEAD"), "commit")
	equal(r["tree"], git(p, "rev-parse", "HEAD^{tree}"), "tree")
	equal(r["paths"], ["a.txt", "sub/new.txt"], "paths")
	equal(git(p, "log", "-1", "--format=%s|%an"), "Mine|U", "commit")
	contains(git(p, "log", "-1"), "Croft-Evidence: ")
	lacks(git(p, "log", "-1"), "Signed-off-by")
	equal(git(p, "status", "--porcelain"), "", "status")
	r = json.loads(p.croft("revert", "e", "--json").exits(0).out)
	equal(git(p, "diff", "HEAD~2"), "", "reverted")


@test
def test_a_conflict_tells_what_to_do(p):
	repository(p)
	new(p)
	p.write("a.txt", "mine\n")
	r = p.croft("apply", "e").exits(126)
	contains(text(r.err), "conflict: a.txt")
	contains(text(r.err), "croft apply e --branch")
	equal(git(p, "status", "--porcelain"), " M a.txt", "nothing changed")
	p.croft("apply", "e", "--branch", "croft/e").exits(0)
	equal(git(p, "show", "croft/e:a.txt").split("\n")[-1], "nine", "on the branch")


@test
def test_patch_paths_and_flags(p):
	repository(p)
	new(p)
	stage(p, "e", ".envrc", "evil\n")
	contains(text(p.croft("apply", "e").exits(126).err), ".envrc")
	equal(git(p, "status", "--porcelain"), "", "nothing changed")
	patch = p.croft("apply", "e", "--patch", "a.txt", "sub").exits(0).out
	lacks(text(patch), ".envrc")
	subprocess.run(["git", "apply", "--check"], cwd=p.ws, input=patch, check=True)
	p.croft("apply", "e", "a.txt").exits(0)
	equal(git(p, "status", "--porcelain"), " M a.txt", "one path")
	p.croft("apply", "e", "--include-flagged").exits(0)
	equal(p.read(".envrc"), b"evil\n", "asked for")


@test
def test_discard_and_undo(p):
	repository(p)
	new(p)
	contains(text(p.croft("discard", "e").exits(0).out), "--undo")
	p.croft("apply", "e").exits(125).one_sentence()
	p.croft("discard", "e", "--undo").exits(0)
	p.croft("apply", "e").exits(0)
	equal(p.read("sub/new.txt"), b"new\n", "brought back")


@test
def test_a_crash_leaves_before_or_after(p):
	repository(p)
	for i, step in enumerate(STEPS):
		name = f"e{i}"
		new(p, name)
		p.croft("apply", name, "--squash", env={"CROFT_CRASH_AT": step}).exits(137)
		p.croft("apply", name, "--squash").exits(0)
		equal(git(p, "status", "--porcelain"), "", step)
		equal(git(p, "log", "--format=%s"), f"Apply croft env {name}\none", step)
		equal(sorted(f for f in os.listdir(os.path.join(p.ws, ".git")) if "croft" in f or "lock" in f), [], step)
		git(p, "reset", "-q", "--hard", "HEAD~1")


@test
def test_two_land_at_once(p):
	repository(p)
	for i in range(4):
		p.croft("new", f"t{i}").exits(0)
		stage(p, f"t{i}", f"f{i}.txt", f"{i}\n")
	started = [p.start("apply", f"t{i}", "--squash") for i in range(4)]
	for s in started:
		s.communicate(timeout=60)
		equal(s.returncode, 0, "exit")
	equal(len(git(p, "log", "--oneline").split("\n")), 5, "commits")
	equal(git(p, "status", "--porcelain"), "", "status")


if __name__ == "__main__":
	main()
