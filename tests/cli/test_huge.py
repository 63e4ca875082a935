#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Files that cost a sandbox nothing and a reader much (L10): looking is bounded, landing exact, and nothing is kept for good."""
import json
import os
import subprocess
import sys
import time
import zlib

from envs import diff, git, new, repository, state, work
from harness import CROFT, DEADLINE_S, check, contains, equal, lacks, main, test, text

MEMORY_MAX_KB = 64 << 10
MB = 1 << 20
MEASURE = """
import json, resource, subprocess, sys
r = subprocess.run(sys.argv[1:], capture_output=True)
print(json.dumps([r.returncode, r.stdout.decode("utf-8", "replace"), r.stderr.decode("utf-8", "replace"),
	resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def measured(p, *args):
	"""What croft printed; neither it nor what it started may have taken more memory than allowed."""
	r = subprocess.run([sys.executable, "-c", MEASURE, CROFT, *args], cwd=p.ws,
		env=p.env, capture_output=True, check=True, timeout=6 * DEADLINE_S)
	rc, out, err, peak_kb = json.loads(r.stdout)
	equal(rc, 0, "croft " + " ".join(args) + ": " + err)
	check(peak_kb < MEMORY_MAX_KB, f"croft {args[0]} took {peak_kb} KB")
	return out


def disk_b(top):
	total = 0
	for d, _, files in os.walk(top):
		for f in files:
			total += os.lstat(os.path.join(d, f)).st_blocks * 512
	return total


@test
def test_l10_a_file_of_holes_is_not_read_to_be_looked_at(p):
	repository(p)
	new(p)
	work(p, "truncate -s 4G big; echo 41 >> numbers; mkdir -p .git/hooks; truncate -s 1G .envrc")
	before = disk_b(state(p))
	out = measured(p, "diff", "e")
	contains(out, "1 file changed, 2 not read")
	contains(out, "A big   file, 4 GB, of which 0 bytes are on the disk and the rest is a hole")
	contains(out, ".envrc   file, 1 GB")
	contains(out, "+41", "what can be read is shown")
	check("runs on your machine" in out.split(".envrc", 1)[1].split("\n", 1)[0], "it is still marked: " + out)
	for args in (("diff", "--stat", "e"), ("diff", "--names", "e"), ("diff", "e", "big"), ("status", "e")):
		contains(measured(p, *args), "not read", " ".join(args))
	d = json.loads(measured(p, "diff", "--json", "e"))
	equal([(x["path"], x["size"], x["size_on_disk"], x["flags"][:1]) for x in d["not_read"]],
		[(".envrc", 1 << 30, 0, ["not read"]), ("big", 4 << 30, 0, ["not read"])], "not read")
	equal(d["tree"], None, "a tree that lacks files is none to land")
	s = json.loads(measured(p, "status", "--json", "e"))
	equal((s["tree"] if "tree" in s else s["changes"]["tree"]), None, "tree of status")
	check(disk_b(state(p)) - before < MB, "looking at it keeps its bytes")
	event = json.loads(p.croft("log", "--json", "e").exits(0).out)
	contains(json.dumps(event), "exec", "the command is recorded")
	p.croft("discard", "e").exits(0)
	p.croft("discard", "e", "--undo").exits(0)
	# Control: what is small is read, and has a tree.
	work(p, "rm big .envrc")
	d = diff(p)
	equal((d["not_read"], [f["path"] for f in d["files"]]), ([], ["numbers"]), "without it")
	check(d["tree"], "a tree")


@test
def test_l10_it_lands_exactly_and_as_a_hole(p):
	repository(p)
	new(p)
	work(p, "truncate -s 300M big; printf middle | dd of=big bs=1M seek=150 conv=notrunc 2>/dev/null; printf end >> big")
	want = git(p, "hash-object", "--no-filters", "--stdin", stdin=bytes(150 * MB) + b"middle" + bytes(150 * MB - 6) + b"end")
	contains(measured(p, "diff", "e"), "1 not read")
	contains(measured(p, "apply", "e"), "big")
	got = os.path.join(p.ws, "big")
	equal(os.stat(got).st_size, 300 * MB + 3, "size")
	check(os.stat(got).st_blocks * 512 < MB, "it is not a hole any more")
	equal(git(p, "hash-object", "--no-filters", "big"), want, "content")
	check(disk_b(state(p, "repos")) < 2 * MB, "the store keeps its zeros")
	measured(p, "revert", "e")
	check(not os.path.exists(got), "reverted")


@test
def test_l10_review_is_bound_to_all_of_it(p):
	repository(p)
	new(p)
	work(p, "truncate -s 260M big; echo 41 >> numbers")
	measured(p, "review", "e", "--accept-all")
	work(p, "echo 42 >> numbers; touch big")
	out = measured(p, "diff", "--since-review", "e")
	contains(out, "+42")
	lacks(out, "D big", "what was not read")
	contains(out, "A big   file, 260 MB", "it is listed apart")
	work(p, "sed -i '$d' numbers")
	measured(p, "apply", "e")
	equal(os.stat(os.path.join(p.ws, "big")).st_size, 260 * MB, "landed")


@test
def test_l10_names_of_one_file_are_read_once(p):
	repository(p)
	new(p)
	work(p, "truncate -s 100M one; for i in 2 3 4 5; do ln one name$i; done")
	d = json.loads(measured(p, "diff", "--json", "e"))
	equal((len(d["files"]), d["not_read"]), (5, []), "five names, one reading")
	# Control: five files are more than is read.
	work(p, "rm one name*; for i in 1 2 3 4 5; do truncate -s 100M f$i; done")
	d = json.loads(measured(p, "diff", "--json", "e"))
	equal((len(d["files"]), len(d["not_read"])), (2, 3), "five files")


@test
def test_l10_gc_takes_objects_that_nothing_names(p):
	repository(p)
	new(p)
	new(p, "kept")
	work(p, "head -c 3000000 /dev/urandom > noise")
	work(p, "head -c 2000000 /dev/urandom > keep", "kept")
	p.croft("diff", "e").exits(0)
	p.croft("review", "kept", "--accept-all").exits(0)
	stores = state(p, "repos")
	check(disk_b(stores) > 4800000, "both are in the store")
	p.croft("rm", "--force", "e").exits(0)
	young = json.loads(p.croft("gc", "--json").exits(0).out)
	check(disk_b(stores) > 4800000, "young ones stay")
	old = time.time() - 7200
	for d, _, files in os.walk(stores):
		for f in files:
			os.utime(os.path.join(d, f), (old, old))
	would = json.loads(p.croft("gc", "--dry-run", "--json").exits(0).out)
	did = json.loads(p.croft("gc", "--json").exits(0).out)
	check(1900000 < disk_b(stores) < 2500000, "what a review names stays, the rest is gone")
	check(would["objects"] >= 1 and would["objects_b"] >= 3000000, f"would take {would}")
	equal((young["objects"], did["objects"]), (0, would["objects"]), "objects")
	p.croft("apply", "kept").exits(0)
	equal(os.stat(os.path.join(p.ws, "keep")).st_size, 2000000, "landed after gc")


@test
def test_l10_a_commit_that_is_huge_inside(p):
	"""A loose object of a megabyte that is a commit of 1,100: refused in little memory."""
	repository(p)
	new(p)
	pack, block, n = zlib.compressobj(9), b"a" * MB, 1100
	head = f"tree {git(p, 'rev-parse', 'HEAD^{tree}')}\nparent {git(p, 'rev-parse', 'HEAD')}\n" + "".join(
		f"{who} a <a> 1700000000 +0000\n" for who in ("author", "committer")) + "\n"
	head = b"commit %d\0" % (len(head) + n * MB) + head.encode()
	made = pack.compress(head) + pack.flush(zlib.Z_FULL_FLUSH)
	again = pack.compress(block) + pack.flush(zlib.Z_FULL_FLUSH)  # the same bytes each time: nothing is looked back at
	total = zlib.adler32(head)
	for _ in range(n):
		total = zlib.adler32(block, total)
	made += again * n + b"\3\0" + total.to_bytes(4, "big")
	name = "ab" + "12" * 19
	work(p, f"echo x > mine; mkdir -p .git/objects/ab; cat > .git/objects/ab/{name[2:]}; echo {name} > .git/HEAD", stdin=made)
	r = subprocess.run([sys.executable, "-c", MEASURE, CROFT, "apply", "e", "--commit"], cwd=p.ws, env=p.env,
		capture_output=True, check=True, timeout=6 * DEADLINE_S)
	rc, out, err, peak_kb = json.loads(r.stdout)
	check(rc in (125, 126), f"{rc} {out}{err}")
	contains(err, "--squash", "what to do")
	check(peak_kb < MEMORY_MAX_KB, f"it took {peak_kb} KB")
	# Control: what is staged lands.
	p.croft("apply", "e", "--squash", "-m", "words").exits(0)


if __name__ == "__main__":
	main()
