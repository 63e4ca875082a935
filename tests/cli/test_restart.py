#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
"""EINTR where a handler lacks SA_RESTART: what nobody watches is never cut short; the rest is measured."""
import re

from harness import TIERS, check, equal, main, native, need_tier, payload, test, text

COUNTS = re.compile(r"reads (\d+) (\d+), changes (\d+) (\d+)")


def counts(out):
	"""(reads, of which cut short, changes, of which cut short)"""
	m = COUNTS.search(text(out))
	check(m, "the payload says its counts", out)
	return [int(n) for n in m.groups()]


def inside(p, tier, observe):
	need_tier(tier)
	program = payload("interrupted")
	file = p.write("../observe.yaml", f"version: 1\nobserve: {observe}\n")
	r = p.run("--tier", tier, "--read", program, "--policy", file, "--", program).exits(0)
	return counts(r.out)


@test
def test_control_nothing_is_cut_short_natively(p):
	r = native(p, payload("interrupted"))
	equal(counts(r.stdout)[1::2], [0, 0], "cut short")


@test
def test_without_observation_nothing_is(p):
	equal(inside(p, "namespace", "off")[1::2], [0, 0], "cut short")


@test(tiers=TIERS)
def test_reads_never_are(p, tier):
	"""They are not notified by default. Changes are: how often is a matter of how soon the watcher runs."""
	reads, reads_cut, changes, changes_cut = inside(p, tier, "writes")
	print(f"# {tier}: {changes_cut} of {changes} changes were cut short ({100 * changes_cut / changes:.2f} %)")
	equal(reads_cut, 0, f"of {reads} reads")


if __name__ == "__main__":
	main()
