#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The summary after a command: its numbers are true, and it tells what the user can do something about."""
import json
import re

from envs import new, repository, work
from harness import TIERS, check, contains, equal, lacks, main, need_tier, test, text

# What no setting and no package changes on a machine.
FIXED = ("supplementary groups", "Landlock ABI", "network: programs must use the proxy", "the disk limit on staged files is held", "no time namespace")


def summary(p, script, *options):
	return text(p.croft(*(options or ("run",)), "--", "sh", "-c", script).exits(0).err)


def changed(said):
	found = re.search(r", (more than )?(\d+) files? changed", said)
	return int(found.group(2)) if found else 0


@test
def test_ignored_files_are_counted_apart(p):
	repository(p)
	said = summary(p, "mkdir -p node_modules/x; for i in 1 2 3; do echo $i > node_modules/x/$i; done; echo more >> numbers; echo new > new")
	equal(changed(said), 2, said)
	contains(said, "that Git ignores will not land")
	lacks(summary(p, "echo more >> numbers"), "Git ignores", "control")
	new(p, "e")
	for script, want, tells in (("echo x > node_modules.txt", 1, False), ("mkdir node_modules; echo x > node_modules/x", 0, True), ("echo y > y", 1, False)):
		said = summary(p, script, "exec", "e")
		equal((changed(said), "Git ignores" in said), (want, tells), script)


@test
def test_what_is_as_before_is_no_change(p):
	repository(p)
	said = summary(p, "cat numbers > /tmp/n; echo x > numbers; cat /tmp/n > numbers; touch gone; chmod 644 dir/b.txt; echo x >> dir/c.txt")
	equal(changed(said), 1, said)


@test
def test_no_number_ends_at_what_can_be_kept(p):
	repository(p)
	many = "mkdir d; cd d; seq 9000 | xargs touch"
	said = summary(p, many)
	equal(changed(said), 9000, said)
	p.croft("discard").exits(0)
	said = text(p.croft("run", "--direct", "--observe", "writes", "--", "sh", "-c", many).exits(0).err)
	check("more than" in said or changed(said) == 9000, "in place", said)


@test(tiers=TIERS)
def test_only_weaknesses_that_somebody_could_mend_are_counted(p, tier):
	r = p.sh("true", "--tier", tier).exits(0)
	mendable = [d for d in r.receipt["degradations"] if not d.startswith(FIXED)]
	found = re.search(r"  less    (\d+) weaker", text(r.err))
	equal(int(found.group(1)) if found else 0, len(mendable), "weaker protections that are told")
	said = text(p.croft("run", "--direct", "--tier", tier, "-v", "--", "true").exits(0).err)
	for d in r.receipt["degradations"]:
		contains(said, "  less    " + d[:40], "with -v")


@test
def test_after_a_review_commits_land_as_one(p):
	repository(p)
	new(p)
	work(p, "echo x > made; git add made; git -c user.name=a -c user.email=b@c commit -qm inside")
	p.croft("review", "e", "--accept-all").exits(0)
	line = p.croft("apply", "e", "--commit").exits(125).one_sentence()
	contains(line, "croft apply e --squash")
	p.croft(*line.rsplit("croft ", 1)[1].split()).exits(0)
	check(p.exists("made"), "it did not land")


@test
def test_a_client_of_containers_is_told_why_not(p):
	for name, told in (("docker", True), ("podman", True), ("dockerish", False)):
		p.write("bin/" + name, "#!/bin/sh\nexit $1\n", 0o755)
		said = text(p.croft("run", "--direct", "--", "bin/" + name, "1").exits(1).err)
		equal("no tier of this version runs containers inside" in said, told, said)
		lacks(text(p.croft("run", "--direct", "--", "bin/" + name, "0").exits(0).err), "containers", "when it worked")


@test
def test_prove_says_what_held(p):
	need_tier("namespace")
	out = text(p.croft("prove", "--only", "R2-memory").out)
	lacks(out, "used where", "the table")
	if "HELD" in out:
		check(re.search(r"to use 192 MiB where 64 are allowed \(\w+|killed by the limit", out), "why it held", out)
	lacks(out, "Bad address", "the table")
	control = json.loads(p.croft("prove", "--only", "R2-memory", "--control", "--json").out)
	equal([x["result"] for x in control["probes"]], ["ESCAPED"], "control")


if __name__ == "__main__":
	main()
