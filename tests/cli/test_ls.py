#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which environments there are, which one is meant without a name, and which go by their age."""
import json
import os
import re

from envs import edit_record, names, new, refused, repository, work
from harness import check, contains, equal, main, need_tier, test, text

LONG_AGO = "2020-01-01T00:00:00Z"


@test
def test_the_list_has_a_head_and_ages(p):
	repository(p)
	new(p, "one")
	new(p, "two")
	edit_record(p, "one", created=LONG_AGO)
	lines = text(p.croft("ls").exits(0).out).splitlines()
	equal(lines[0].split(), ["NAME", "STATE", "START", "AGE", "WORKSPACE"], "the head")
	equal([l.split()[0] for l in lines[1:]], ["one", "two"], "the names")
	check(re.search(r" \d{4}d  ", lines[1]), "the age of an old one", lines)
	check(re.search(r" \d+[sm]  ", lines[2]), "the age of a new one", lines)
	equal(lines[0].index("WORKSPACE"), lines[1].index(p.ws), "columns")


@test
def test_without_a_name_the_last_of_this_directory_is_meant(p):
	repository(p)
	other = repository(p, at=os.path.join(p.root, "other"))
	for command in (("status",), ("log",), ("diff",), ("review", "--accept-all"), ("apply",), ("discard",)):
		refused(p.croft(*command), "there is none of this directory")
	new(p, "a-first")
	new(p, "elsewhere", cwd=other)
	new(p, "b-last")
	edit_record(p, "a-first", created=LONG_AGO)
	work(p, "echo x > made", "b-last")
	for command in (("status",), ("log",), ("diff",), ("review", "--accept-all"), ("apply",), ("status",)):
		r = p.croft(*command).exits(0)
		contains(text(r.err), "croft: b-last, the last environment of this directory", " ".join(command))
	check(p.exists("made"), "it did not land")
	contains(text(p.croft("status", cwd=os.path.join(p.ws, "dir")).exits(0).err), "b-last", "below the project")
	contains(text(p.croft("status", cwd=other).exits(0).err), "elsewhere", "another directory")
	equal(text(p.croft("status", "a-first").exits(0).err), "", "control: with a name")
	for command in (("rm",), ("revert",), ("exec", "--", "true")):
		check(p.croft(*command).rc == 125, "a name is needed", command)


@test
def test_environments_go_by_their_age(p):
	repository(p)
	for name in ("old", "held", "young"):
		new(p, name)
	work(p, "echo x > made", "held")
	for name in ("old", "held"):
		edit_record(p, name, created=LONG_AGO)
	refused(p.croft("rm", "--older", "7x"), "7d")
	refused(p.croft("rm", "--older", "7d", "young"), "either names")
	equal(names(p), ["held", "old", "young"], "nothing was done")
	out = text(p.croft("rm", "--older", "7d").exits(0).out)
	contains(out, "environment old is removed")
	contains(out, "croft rm --force held")
	equal(names(p), ["held", "young"], "environments")
	p.croft("rm", "-f", "--older", "7d").exits(0)
	equal(names(p), ["young"], "forced")
	contains(text(p.croft("rm", "--older", "7d").exits(0).out), "no environment")


@test
def test_staged_runs_that_left_nothing_expire(p):
	"""What Git ignores cannot land."""
	repository(p)
	need_tier("namespace")
	for script in ("mkdir node_modules && echo x > node_modules/x", "echo x > made", "echo x > y.o"):
		p.croft("run", "-q", "--", "sh", "-c", script).exits(0)
	runs = {e["name"] for e in json.loads(p.croft("ls", "--json").exits(0).out)["environments"]}
	equal(len(runs), 3, "runs")
	p.croft("gc").exits(0)
	equal(set(names(p)), runs, "young ones stay")
	p.croft("gc", "--runs", "-n").exits(0)
	equal(set(names(p)), runs, "only said")
	old = next(n for n in runs if "y.o" not in text(p.croft("status", n).out) and "made" not in text(p.croft("status", n).out))
	edit_record(p, old, created=LONG_AGO)
	p.croft("gc").exits(0)
	equal(set(names(p)), runs - {old}, "an old one went")
	p.croft("gc", "--runs").exits(0)
	equal(len(names(p)), 1, "what could land stays")
	contains(text(p.croft("status").exits(0).out), "made")


if __name__ == "__main__":
	main()
