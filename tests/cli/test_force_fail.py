#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""Kernel features forced away: a fallback that holds as well, or exit 126; never "ran anyway" unrecorded."""
import json
import os

from harness import FORCED, SECRET, TIERS, Skip, check, contains, equal, lacks, main, test, text

ATTACK = "cat ~/.ssh/id_ed25519; echo x >> ~/.bashrc; echo ok > out.txt; true"
FEATURES = ("openat2", "landlock", "clone3", "cgroup")


def attempt(p, feature, *options):
	if FORCED:
		raise Skip("features are forced away already")
	if p.exists("out.txt"):
		os.unlink(p.ws + "/out.txt")
	return p.sh(ATTACK, *options, env={"CROFT_FORCE_FAIL": feature})


def verdict(p, r, feature):
	"""Refused with a reason and nothing run, or run with everything in place or the loss recorded."""
	equal(p.read("../.bashrc"), b"# mine\n", ".bashrc")
	lacks(r.out, SECRET.encode())
	if r.rc == 126:
		r.one_sentence()
		check(not p.exists("out.txt"), "refused, but the command ran")
		return "refused"
	r.exits(0)
	check(p.exists("out.txt"), "ran")
	return "ran"


@test(tiers=TIERS)
def test_openat2(p, tier):
	verdict(p, attempt(p, "openat2", "--tier", tier), "openat2")


@test(tiers=TIERS)
def test_clone3(p, tier):
	equal(verdict(p, attempt(p, "clone3", "--tier", tier), "clone3"), "ran", "clone3 has a fallback")


@test(tiers=TIERS)
def test_landlock(p, tier):
	r = attempt(p, "landlock", "--tier", tier)
	equal(verdict(p, r, "landlock"), "refused", "without Landlock")
	contains(text(r.err), "andlock", "the reason")


@test
def test_landlock_degraded_only_when_asked_and_recorded(p):
	r = attempt(p, "landlock", "--tier", "namespace", "--allow-degraded")
	if verdict(p, r, "landlock") == "refused":
		return
	contains(json.dumps(r.receipt["degradations"]), "andlock")
	equal(r.receipt["enforced"]["landlock"]["abi"], 0)
	contains(text(p.croft("run", "--direct", "--allow-degraded", "--", "true", env={"CROFT_FORCE_FAIL": "landlock"}).err),
		"andlock", "the summary")


@test
def test_process_tier_is_nothing_without_landlock(p):
	r = attempt(p, "landlock", "--tier", "process", "--allow-degraded")
	equal(verdict(p, r, "landlock"), "refused", "the process tier without Landlock")


@test(tiers=TIERS)
def test_cgroup(p, tier):
	r = attempt(p, "cgroup", "--tier", tier)
	if verdict(p, r, "cgroup") == "ran":
		equal(r.receipt["enforced"]["cgroup"]["kind"], "none")
		held = r.receipt["enforced"]["limits_held_by"]
		for name in ("memory", "pids"):
			check(held[name] in ("rlimit", "unlimited") or "cgroup" in json.dumps(r.receipt["degradations"]),
				f"{name} is held or its loss recorded", r.receipt)


@test
def test_explicit_cpu_limit_without_cgroup_is_refused_or_recorded(p):
	r = attempt(p, "cgroup", "--cpus", "0.5")
	if r.rc != 126:
		contains(json.dumps(r.receipt["degradations"]), "cpu")


@test
def test_userns_forced_away(p):
	"""No user namespaces: the namespace tier is refused, auto goes to the process tier and says so."""
	r = attempt(p, "userns", "--tier", "namespace")
	equal(verdict(p, r, "userns"), "refused")
	r = attempt(p, "userns", "--tier", "auto")
	if verdict(p, r, "userns") == "ran":
		equal(r.receipt["tier"], "process")


@test
def test_everything_at_once(p):
	for tier in (*TIERS, "auto"):
		verdict(p, attempt(p, "openat2,landlock,clone3,cgroup", "--tier", tier), "all")
	verdict(p, attempt(p, "openat2,clone3,cgroup", "--tier", "namespace"), "three")


@test
def test_unknown_feature_name_changes_nothing(p):
	equal(verdict(p, attempt(p, "gravity"), "gravity"), "ran")


@test
def test_the_seam_cannot_be_set_by_the_policy_to_weaken(p):
	"""The seam only takes away; the sandboxed command does not see it either."""
	if FORCED:
		raise Skip("features are forced away already")
	r = p.run("--", "env", env={"CROFT_FORCE_FAIL": "clone3"})
	lacks(text(r.out), "CROFT_FORCE_FAIL")


if __name__ == "__main__":
	main()
