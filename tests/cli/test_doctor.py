#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
# quick
"""`croft doctor`: the table and its JSON twin agree, and an absence is told with its fix."""
import glob
import json
import os

from harness import FORCED, Skip, check, contains, equal, lacks, main, test, text, wait_for

STATES = {"yes", "no", "partly", "fact"}


def report(p, **env):
	r = p.croft("doctor", "--json", env=env)
	check(r.rc in (0, 1), "exit status", repr(r))
	return r.rc, json.loads(r.out)


def finding(d, name):
	return next(f for f in d["findings"] if f["id"] == name)


@test
def test_json_is_complete(p):
	rc, d = report(p)
	ids = [f["id"] for f in d["findings"]]
	equal(len(ids), len(set(ids)), "distinct ids")
	for wanted in ("user_namespace", "landlock", "seccomp", "seccomp_notify", "cgroup", "openat2", "kvm"):
		check(wanted in ids, f"{wanted} is missing")
	for f in d["findings"]:
		check(f["state"] in STATES, f"state of {f['id']}", f)
		check(f["detail"], f"{f['id']} says nothing")
		check("gave no answer" not in f["detail"], f"{f['id']} gave no answer")
		check(f["state"] != "yes" or f["fix"] is None, "what works needs no fix", f)
	equal([t["name"] for t in d["tiers"]], ["namespace", "process"], "tiers, strongest first")
	equal(rc, 0 if d["auto"] == "namespace" else 1, "exit status")
	for t in d["tiers"]:
		check(t["holds"] or t["reason"], "a tier that does not hold has a reason", t)


@test
def test_text_says_the_same_without_colour(p):
	_, d = report(p)
	r = p.croft("doctor", env={"NO_COLOR": "1", "TERM": "xterm-256color"})
	lacks(r.out, b"\x1b", "table")
	out = text(r.out)
	for f in d["findings"]:
		contains(out, f["title"], "table")
	rows = [line for line in out.splitlines() if line.startswith(("  yes ", "  no ", "  - ", "  partly "))]
	check(len(rows) >= len(d["findings"]), "a row for each finding")
	check(all(line[10] != " " and line[9] == " " for line in rows), "columns are aligned", *rows)


@test
def test_verdict_agrees_with_run(p):
	_, d = report(p)
	for t in d["tiers"]:
		r = p.croft("run", "--direct", "-q", "--tier", t["name"], "--", "true")
		if "landlock" in FORCED:
			raise Skip("runs are degraded on purpose")
		equal(r.rc == 0, t["holds"], f"--tier {t['name']} works\n{r!r}")


@test
def test_absence_is_told_with_a_fix(p):
	rc, d = report(p, CROFT_FORCE_FAIL="landlock,openat2,clone3,cgroup")
	for name in ("landlock", "openat2", "clone3", "cgroup"):
		f = finding(d, name)
		equal(f["state"], "no", name)
		check(f["fix"], f"{name} has no fix")
	equal(rc, 1, "exit status")
	equal(d["auto"], None, "no tier holds without Landlock")
	contains(text(p.croft("doctor", env={"CROFT_FORCE_FAIL": "landlock"}).out), "to fix", "table")


@test
def test_leaves_nothing(p):
	def groups():
		return set(glob.glob("/sys/fs/cgroup/**/*doctor*", recursive=True))
	before = groups()
	with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
		mounts = f.read()
	for _ in range(3):
		report(p)
	left = groups() - before  # or of somebody else's doctor, who takes it away
	wait_for(lambda: not left & groups(), f"cgroups are gone: {left}")
	with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
		equal(f.read(), mounts, "mounts")
	equal(os.listdir(p.ws), [], "files in the workspace")


@test
def test_bad_usage(p):
	r = p.croft("doctor", "--jsno")
	r.exits(125)
	contains(text(r.err), "--json", "message")
	p.croft("doctor", "extra").exits(125)


main()
