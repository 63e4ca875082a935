#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# quick
"""Bad input: one clear sentence, exit 125 or 126, nothing run, nothing created, nothing lost."""
import ctypes
import json
import os
import shutil
import socket
import subprocess

from harness import (DEADLINE_S, ROOT, SANITIZED, TIERS, Skip, check, contains, end, equal, files, lacks, main,
	policy_text, processes, test, text, wait_for)

RAN = ("--", "sh", "-c", "echo x > ran")


def refused(p, *args, rc=(125, 126), **kw):
	"""The sentence of a refusal; checks that nothing ran and nothing was created."""
	before = files(p.home)
	r = p.croft(*args, **kw)
	check(r.rc in rc, f"exit status in {rc}", r)
	sentence = r.one_sentence()
	equal(files(p.home), before, "files in HOME after a refusal")
	return sentence


# ---- command line ----

@test
def test_no_command(p):
	contains(refused(p, "run"), "command")
	contains(refused(p, "run", "--"), "command")
	contains(refused(p, "run", "--direct"), "command")


@test
def test_empty_command_name(p):
	r = p.croft("run", "--", "")
	check(r.rc in (125, 126, 127), "exit status", r)


@test
def test_no_arguments_explains_itself(p):
	r = p.croft()
	check(r.rc in (0, 125), "exit status", r)
	contains(text(r.out + r.err), "run")


@test
def test_help_and_version(p):
	for args in (("--help",), ("help",), ("run", "--help")):
		r = p.croft(*args).exits(0)
		contains(text(r.out), "run", " ".join(args))
		equal(r.err, b"")
	contains(text(p.croft("--version").exits(0).out), "croft")


@test
def test_unknown_subcommand_and_option_suggest(p):
	contains(refused(p, "rnu", "--", "true"), "croft help")
	contains(refused(p, "serve"), "not available in this version")
	contains(refused(p, "run", "--dicsard", *RAN), "--discard")
	contains(refused(p, "run", "--raed", "/x", *RAN), "--read")
	refused(p, "run", "-Z", *RAN)
	refused(p, "policy", "shwo")


@test
def test_option_without_value(p):
	for option in ("--read", "--tier", "--policy", "--json", "--memory"):
		refused(p, "run", option)


@test
def test_direct_and_discard_exclude_each_other(p):
	refused(p, "run", "--direct", "--discard", *RAN)


@test
def test_argument_limits(p):
	"""The longest argument list that the kernel takes works; croft adds nothing that breaks it."""
	long = "x" * 131000
	equal(p.croft("run", "--direct", "-q", "--", "sh", "-c", "echo ${#1}", "sh", long).exits(0).out, b"131000\n")
	many = ["a"] * 20000
	equal(p.croft("run", "--direct", "-q", "--", "sh", "-c", "echo $#", "sh", *many).exits(0).out, b"20000\n")


@test
def test_very_long_option_values(p):
	refused(p, "run", "--read", "/" + "a/" * 3000, *RAN)
	refused(p, "run", "--profile", "x" * 10000, *RAN)
	refused(p, "run", "--env", "=x", *RAN)
	refused(p, "run", "--env", "A" * 70000 + "=1", *RAN, rc=(125, 126))


@test
def test_unknown_profile_suggests(p):
	contains(refused(p, "run", "--profile", "pyhton", *RAN), "python")


# ---- paths ----

@test
def test_relative_paths_in_rules(p):
	"""Only ~, . and / begin a path in a rule: a bare word is ambiguous and refused."""
	sentence = refused(p, "run", "--read", "some/dir", *RAN)
	contains(sentence, "some/dir")


@test
def test_parent_of_the_workspace_is_plain(p):
	r = p.croft("run", "--direct", "--write", "./../../..", *RAN)
	check(r.rc in (0, 125, 126), "a verdict", r)


@test
def test_non_utf8_paths(p):
	"""Bytes are bytes: such a path works, or is refused with a sentence; the sentence stays printable."""
	raw = os.fsencode(p.home) + b"/\xff\xfe"
	os.mkdir(raw)
	with open(raw + b"/f", "wb") as f:
		f.write(b"granted\n")
	r = p.croft("run", "--direct", "-q", "--read", raw, "--", "cat", raw + b"/f")
	if r.rc == 0:
		equal(r.out, b"granted\n")
	else:
		check(r.rc in (125, 126), "exit status", r)
		r.err.decode("utf-8")
		r.one_sentence()
	# as the directory to run in
	r = p.croft("run", "--direct", "--json", "-", "--", "true", cwd=raw)
	if r.rc == 0:
		json.loads(r.out.decode("utf-8"))
	else:
		r.one_sentence()


@test
def test_control_characters_in_paths_are_escaped(p):
	sentence = refused(p, "run", "--read", "rel\x1b]0;x\x07", *RAN)
	lacks(sentence, "\x1b")
	lacks(sentence, "\x07")


@test
def test_unreachable_working_directory(p):
	gone = os.path.join(p.root, "gone")
	os.mkdir(gone)
	r = subprocess.run(["sh", "-c", 'rmdir "$1"; shift; exec "$@"', "sh", gone, *p.argv("run", "--direct", "--", "true")],
		cwd=gone, env=p.env, capture_output=True, check=False)
	check(r.returncode in (125, 126), "exit status", r)
	equal(len(r.stderr.splitlines()), 1, "sentences")


# ---- policy files ----

@test
def test_policy_file_that_cannot_be_read(p):
	contains(refused(p, "run", "--policy", p.home + "/absent.yaml", *RAN), "absent.yaml")
	contains(refused(p, "run", "--policy", p.home, *RAN), "directory")
	unreadable = p.write("../noread.yaml", "version: 1\n", 0o000)
	if not ROOT:
		contains(refused(p, "run", "--policy", unreadable, *RAN), "noread.yaml")
	os.mkfifo(p.home + "/fifo")
	refused(p, "run", "--policy", p.home + "/fifo", *RAN)
	refused(p, "run", "--policy", "/dev/zero", *RAN)
	s = socket.socket(socket.AF_UNIX)
	with s:
		s.bind(p.home + "/sock")
		refused(p, "run", "--policy", p.home + "/sock", *RAN)


HOSTILE = {
	"empty": "",
	"no version": "tier: process\n",
	"future version": "version: 2\n",
	"unknown key": "version: 1\nversoin: 1\n",
	"wrong type": "version: 1\nlimits: [1, 2]\n",
	"duplicate key": "version: 1\ntier: process\ntier: namespace\n",
	"tab indentation": "version: 1\nlimits:\n\tmemory: 1G\n",
	"unclosed": "version: 1\nfilesystem: {read: [\n",
	"scalar document": "just a string\n",
	"list document": "- a\n- b\n",
	"two documents": "version: 1\n---\nversion: 1\n",
	"billion laughs": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
	"alias": "version: 1\nlimits: &x {memory: 1G}\n",
	"tag": "version: 1\ntier: !!python/object:os.system process\n",
	"deep": "version: 1\ndevices: " + "[" * 5000 + "]" * 5000 + "\n",
	"nul": b"version: 1\ntier: pro\0cess\n",
	"not utf-8": b"version: 1\ntier: \xff\xfe\n",
	"control characters": b"version: 1\ntier: \x1b[31m\n",
	"bad value": "version: 1\ntier: strongest\n",
	"merge key": "version: 1\n<<: {tier: process}\n",
	"huge": "version: 1\n# " + "x" * (5 << 20) + "\n",
	"bom utf-16": "version: 1\n".encode("utf-16"),
}


def processor_s():
	"""What our children have had of the processor, in seconds: others may need it, too."""
	now = os.times()
	return now.children_user + now.children_system


@test
def test_hostile_policy_files(p):
	file = p.home + "/policy.yaml"
	for what, content in HOSTILE.items():
		p.write(file, content)
		start = processor_s()
		sentence = refused(p, "run", "--policy", file, *RAN)
		check(processor_s() - start < (20 if SANITIZED else 5), f"{what}: took too long")
		contains(sentence, "policy.yaml", what)
		check(not p.exists("ran"), f"{what}: the command ran")


@test
def test_policy_errors_have_line_and_suggestion(p):
	file = p.write("../policy.yaml", "version: 1\nlimtis:\n  memory: 1G\n")
	sentence = refused(p, "run", "--policy", file, *RAN)
	contains(sentence, "policy.yaml:2:1")
	contains(sentence, "limits")
	file = p.write("../policy.yaml", "version: 1\ntier: namespce\n")
	sentence = refused(p, "run", "--policy", file, *RAN)
	contains(sentence, "policy.yaml:2:7")
	contains(sentence, "namespace")


@test
def test_smallest_policy_file(p):
	file = p.write("../policy.yaml", "version: 1\n")
	p.croft("run", "--direct", "--policy", file, "--", "true").exits(0)


def rules_file(p, n, existing=True):
	"""A policy with n read rules for files that are there."""
	top = os.path.join(p.home, "many")
	names = [f"{top}/d{i % 100}/f{i}" for i in range(n)]
	if existing:
		for i in range(100):
			os.makedirs(f"{top}/d{i}", exist_ok=True)
		for name in names:
			with open(name, "wb"):
				pass
	return p.write("../many.yaml", policy_text(read=names))


@test
def test_10000_rules_work(p):
	file = rules_file(p, 10000)
	start = processor_s()
	p.croft("run", "--direct", "-q", "--policy", file, "--", "true").exits(0)
	took = processor_s() - start
	check(took < (60 if SANITIZED else 10), f"took {took:.2f} s: not in proportion")


@test
def test_10000_deny_rules_are_enforced(p):
	for i in range(0, 10000, 2500):
		p.write(f"d/f{i}", "secret-text")
	file = p.write("../deny.yaml", policy_text(deny=[f"./d/f{i}" for i in range(10000)]))
	start = processor_s()
	r = p.croft("run", "--direct", "-q", "--policy", file, "--", "sh", "-c", "cat d/f0 d/f2500 d/f7500; echo x > d/f9999; true").exits(0)
	took = processor_s() - start
	lacks(r.out, b"secret-text")
	check(not p.exists("d/f9999"), "an absent denied name was created")
	check(took < (30 if SANITIZED else 2), f"took {took:.2f} s")


@test
def test_20000_rules_are_refused(p):
	file = rules_file(p, 20000, existing=False)
	contains(refused(p, "run", "--policy", file, *RAN), "16384")


# ---- things that change under croft ----

@test(tiers=TIERS)
def test_workspace_disappears_mid_run(p, tier):
	ws = os.path.join(p.home, "doomed")
	os.mkdir(ws)
	shutil.copy(p.tool(), ws)
	file = p.root + "/r.json"
	c = p.start("run", "--direct", "--json", file, "--tier", tier, "--", ws + "/tool", "hold", cwd=ws)
	try:
		equal(c.stdout.readline(), b"ready\n")
		os.rename(ws, ws + ".moved")
		shutil.rmtree(ws + ".moved")
		c.stdin.close()
		rc = c.wait(timeout=DEADLINE_S)
		check(rc in (0, 125), "exit status", rc, text(c.stderr.read()))
		with open(file, encoding="utf-8") as f:
			equal(json.load(f)["exit"]["code"], 0, "the receipt survives")
		check(not os.path.exists(ws), "the directory was made again")
	finally:
		end(c)
	equal(processes(ws.encode()), [], "processes left")


def mount_tmpfs(path, options):
	libc = ctypes.CDLL(None, use_errno=True)
	if libc.mount(b"croft-test", os.fsencode(path), b"tmpfs", 0, options):
		raise Skip(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno())}")
	return lambda: libc.umount2(os.fsencode(path), 2)


@test(tiers=TIERS)
def test_full_disk_as_workspace(p, tier):
	if not ROOT:
		raise Skip("mounting a small file system needs root")
	ws = os.path.join(p.home, "small")
	os.mkdir(ws)
	unmount = mount_tmpfs(ws, b"size=256k")
	try:
		r = p.run("--tier", tier, "--", "sh", "-c", "head -c 1000000 /dev/zero > big; echo status $?", cwd=ws)
		contains(r.out, b"status 1")
		r.exits(0)
		check(r.receipt is not None, "receipt")
	finally:
		unmount()


@test
def test_full_disk_as_state_directory(p):
	"""When the receipt cannot be kept, croft says so before it runs anything or after, never silently."""
	if not ROOT:
		raise Skip("mounting a small file system needs root")
	state = os.path.join(p.home, ".local")
	os.makedirs(state)
	unmount = mount_tmpfs(state, b"size=64k,nr_inodes=1k")
	try:
		try:
			with open(state + "/fill", "wb") as f:
				while True:
					f.write(b"x" * 4096)
					f.flush()
		except OSError:
			pass
		r = p.croft("run", "--direct", "-v", "--", "sh", "-c", "cat ~/.ssh/id_ed25519")
		check(r.rc == 125 or b"croft why" in r.err, "said so", r)
		r = p.croft("run", "--direct", "-q", "--json", "-", "--", "true")
		check(r.rc == 125 or json.loads(r.out), "the receipt on stdout still comes", r)
	finally:
		unmount()


@test
def test_receipt_file_that_cannot_be_written(p):
	for target in (p.home + "/absent/dir/r.json", p.home, "/proc/croft"):
		refused(p, "run", "--direct", "--json", target, *RAN)
	if os.path.exists("/dev/full"):
		r = p.croft("run", "--direct", "--json", "/dev/full", "--", "true")
		check(r.rc == 125 and r.err, "a receipt that was lost is reported", r)


@test
def test_state_directory_that_cannot_be_made(p):
	"""HOME not writable, or HOME unset, or HOME nonsense: works or is refused with a sentence."""
	for env in ({"HOME": "/nonexistent"}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "/dev/null"}, {"HOME": "/" + "x" * 5000}):
		r = p.croft("run", "--direct", "-q", "--", "true", env=env)
		if r.rc != 0:
			check(r.rc in (125, 126), f"{env}", r)
			r.one_sentence()
	env = dict(p.env)
	del env["HOME"]
	r = subprocess.run(p.argv("run", "--direct", "-q", "--", "true"), env=env, cwd=p.ws, capture_output=True, check=False)
	check(r.returncode in (0, 125, 126), "HOME unset", r)


@test
def test_hostile_state_directory(p):
	"""A symlink where croft keeps receipts must not make it write somewhere else."""
	target = os.path.join(p.root, "elsewhere")
	os.makedirs(target)
	os.makedirs(p.home + "/.local/state")
	os.symlink(target, p.home + "/.local/state/croft")
	r = p.croft("run", "--direct", "--", "true")
	check(r.rc in (0, 125, 126), "a verdict", r)


@test
def test_stdio_closed_with_bad_input(p):
	r = subprocess.run(["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *p.argv("run", "--nonsense", "--", "true")],
		cwd=p.ws, env=p.env, check=False)
	equal(r.returncode, 125, "exit status")


@test
def test_low_descriptor_limit(p):
	r = subprocess.run(["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", *p.argv("run", "--direct", "-q", "--", "true")],
		cwd=p.ws, env=p.env, capture_output=True, check=False)
	check(r.returncode in (0, 125, 126), "exit status", r)
	if r.returncode:
		equal(len(r.stderr.splitlines()), 1, "sentences")
	wait_for(lambda: not processes(p.ws.encode()), "nothing left")


@test
def test_low_memory_limit(p):
	if SANITIZED:
		raise Skip("sanitizers reserve more address space than the limit")
	for kib in (2000, 8000, 30000):
		r = subprocess.run(["sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh", *p.argv("run", "--direct", "-q", "--", "true")],
			cwd=p.ws, env=p.env, capture_output=True, check=False)
		check(r.returncode in (0, 125, 126, 127) or r.returncode < 0, f"exit status with {kib} KiB", r)


@test
def test_umask_is_kept(p):
	r = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", *p.argv("run", "--direct", "-q", "--", "sh", "-c", "umask; echo > f")],
		cwd=p.ws, env=p.env, capture_output=True, check=False)
	equal(r.returncode, 0)
	equal(r.stdout.strip()[-3:], b"077")
	equal(os.stat(p.ws + "/f").st_mode & 0o777, 0o600)


if __name__ == "__main__":
	main()
