#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
"""EINTR where a handler lacks SA_RESTART: the default run adds none; where calls are watched it is measured."""
import re
import shutil
import subprocess

from harness import PATH, Skip, check, equal, main, native, need_tier, payload, test, text

COUNTS = re.compile(r"reads (\d+) (\d+), changes (\d+) (\d+), metadata (\d+) (\d+), waits (\d+) (\d+)")
KINDS = ("reads", "changes", "metadata", "waits")
MANY = 500  # calls of a kind, at least


def counts(out):
	"""{kind: (calls, of which cut short)}. The waits show that signals came, and that they end a wait."""
	m = COUNTS.search(text(out))
	check(m, "the payload says its counts", out)
	n = [int(x) for x in m.groups()]
	got = dict(zip(KINDS, zip(n[::2], n[1::2])))
	check(got["waits"][1] > 0 and got["waits"][0] == got["waits"][1], "the timer ends no wait", got)
	for kind in ("reads", "changes", "metadata"):
		check(got[kind][0] >= MANY / 4, "too few calls to say anything", got)
	check(got["changes"][0] >= MANY, "too few calls to say anything", got)
	return got


def tell(what, got):
	for kind in ("changes", "metadata"):
		calls, cut = got[kind]
		print(f"# {what}: {cut} of {calls} {kind} were cut short ({100 * cut / calls:.2f} %)")


def none_cut(got, kinds=("reads", "changes", "metadata")):
	equal([got[k][1] for k in kinds], [0] * len(kinds), "cut short")


def inside(p, *options):
	program = payload("interrupted")
	if "namespace" not in options and "process" not in options:
		need_tier("namespace")
		options = ("--tier", "namespace", *options)
	return counts(p.croft("run", "--read", program, *options, "--", program).exits(0).out)


@test
def test_control_nothing_is_cut_short_natively(p):
	none_cut(counts(native(p, payload("interrupted")).stdout))


@test
def test_by_default_nothing_is_cut_short(p):
	"""Staged, discarded, written in place: no call waits for anybody."""
	for mode in ((), ("--discard",), ("--direct",)):
		none_cut(inside(p, *mode))


@test
def test_without_observation_nothing_is(p):
	none_cut(inside(p, "--direct", "--observe", "off"))


@test
def test_control_watched_changes_can_be(p):
	"""The same calls with a watcher: what the default does without. How often is a matter of how soon it runs."""
	cut = 0
	for _ in range(10):
		got = inside(p, "--direct", "--observe", "writes")
		tell("namespace, observe: writes", got)
		none_cut(got, ("reads", "metadata"))
		cut += got["changes"][1]
		if cut:
			return
	raise Skip("no signal came between a call and its watcher, in ten runs")


@test
def test_reads_never_are_in_the_process_tier(p):
	need_tier("process")
	got = inside(p, "--tier", "process", "--direct")
	tell("process", got)
	none_cut(got, ("reads",))


@test
def test_a_file_as_output_costs_metadata_calls_only(p):
	"""A broker keeps the metadata of the host's file; other calls do not wait for it."""
	need_tier("namespace")
	program = payload("interrupted")
	with open(p.root + "/out", "w+b") as out:
		p.croft("run", "--tier", "namespace", "--read", program, "--", program, stdout=out).exits(0)
		out.seek(0)
		got = counts(out.read())
	tell("namespace, output to a file", got)
	none_cut(got, ("reads", "changes"))


@test
def test_stress_ng_touch(p):
	"""Its handlers lack SA_RESTART, and it says "fail:" for what an unlink that was cut short leaves behind."""
	program = shutil.which("stress-ng", path=PATH)
	if not program:
		raise Skip("stress-ng is not installed")
	words = [program, "--touch", "2", "-t", "2", "--temp-path", "."]
	r = subprocess.run(words, cwd=p.ws, env=p.env, capture_output=True, timeout=120, check=False)
	check(r.returncode == 0 and b"fail:" not in r.stdout + r.stderr, "the control", r)
	for mode in ((), ("--direct",)):
		r = p.croft("run", *mode, "--", *words, timeout=120)
		check(r.rc == 0 and b"fail:" not in r.out + r.err, "inside", mode, r)


if __name__ == "__main__":
	main()
