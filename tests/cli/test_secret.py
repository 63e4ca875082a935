#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""`croft secret`: set, ls, rm; where values come from, and everywhere they must not show."""
import json
import os
import stat

from harness import (SANITIZED, check, contains, equal, lacks, main, native, processes, somebody_elses, test, text,
	wait_for)
from terminal import Terminal

VALUE = "ghp_" + "Qx7" * 12


def store(p):
	return os.path.join(p.home, ".local/state/croft/secrets")


def stored(p, name):
	with open(os.path.join(store(p), name), "rb") as f:
		return f.read()


def names(p):
	return [s["name"] for s in json.loads(p.croft("secret", "ls", "--json").exits(0).out)["secrets"]]


def silent(r):
	"""Success says nothing, and a failure never says the value."""
	lacks(text(r.out) + text(r.err), VALUE)
	return r


@test
def test_set_from_stdin(p):
	r = silent(p.croft("secret", "set", "TOKEN", stdin=VALUE.encode() + b"\n").exits(0))
	equal((r.out, r.err), (b"", b""), "output")
	equal(stored(p, "TOKEN"), VALUE.encode(), "one newline is cut")
	file = os.stat(os.path.join(store(p), "TOKEN"))
	equal(stat.S_IMODE(file.st_mode), 0o600, "mode")
	equal(stat.S_IMODE(os.stat(store(p)).st_mode), 0o700, "mode of the directory")
	silent(p.croft("secret", "set", "TOKEN", stdin=b"another value, long enough").exits(0))
	equal(stored(p, "TOKEN"), b"another value, long enough", "replaced")
	equal(os.listdir(store(p)), ["TOKEN"], "nothing left behind")


@test
def test_set_from_elsewhere(p):
	file = p.write("token.txt", VALUE + "\n", 0o600)
	for options in (("--from-file", file), ("--from-command", f"cat {file}"), ("--from-env", "MINE")):
		for args in (("TOKEN", *options), (*options, "TOKEN"), (options[0] + "=" + options[1], "--", "TOKEN")):
			silent(p.croft("secret", "set", *args, env={"MINE": VALUE}).exits(0))
			equal(stored(p, "TOKEN"), VALUE.encode(), f"{args}")
			p.croft("secret", "rm", "TOKEN").exits(0)


@test
def test_a_command_that_fails_stores_nothing(p):
	s = silent(p.croft("secret", "set", "T", "--from-command", f"echo {VALUE[:8]}{VALUE[8:]}x; exit 3")).exits(125).one_sentence()
	contains(s, "status 3")
	p.croft("secret", "set", "T", "--from-command", "kill -9 $$").exits(125).one_sentence()
	p.croft("secret", "set", "T", "--from-command", "yes").exits(125).one_sentence()
	p.croft("secret", "set", "T", "--from-command", "true").exits(125).one_sentence()
	equal(names(p), [], "names")


@test
def test_values_that_are_none(p):
	for value, why in ((b"", "empty"), (b"short", "shorter"), (b"x" * 15 + b"\n", "shorter"), (b"x" * 4097, "longer"),
		(b"x" * 100000, "longer"), (b"line one is long\nline two\n", "one line"), (VALUE.encode() + b"\n\n", "one line"),
		(VALUE.encode() + b"\r\n", "carriage return"), (b"a NUL\0in the value", "NUL")):
		s = p.croft("secret", "set", "T", stdin=value).exits(125).one_sentence()
		contains(s, why)
		check(len(value) < 8 or text(value[:12]) not in s, "the value is in the message", s)
	equal(names(p), [], "names")
	for n in (16, 4096):
		p.croft("secret", "set", "T", stdin=b"x" * n).exits(0)


@test
def test_wrong_usage(p):
	for args in ((), ("sett",), ("set",), ("set", "A", "value-on-the-command-line"), ("set", "9A"), ("set", "a-b"),
		("set", "../x"), ("set", "A" * 65), ("set", "A", "--from-file", "x", "--from-env", "y"), ("set", "A", "--json"),
		("set", "A", "--from-env", "NOT_SET"), ("set", "A", "--from-file", "/nonexistent"), ("set", "A", "--from"),
		("ls", "x"), ("ls", "--from-env", "X"), ("rm",), ("rm", "NONE"), ("rm", "../x")):
		p.croft("secret", *args, stdin=VALUE.encode()).exits(125).one_sentence()
	check(not os.path.exists(store(p)) or not os.listdir(store(p)), "something was stored")
	contains(text(p.croft("secret", "--help").exits(0).out), "--from-command")
	contains(text(p.croft("secret", "set", "--help").exits(0).out), "usage: croft secret")


@test
def test_ls_and_rm(p):
	contains(text(p.croft("secret", "ls").exits(0).out), "croft secret set NAME")
	for name in ("B", "A", "_c"):
		p.croft("secret", "set", name, stdin=VALUE.encode()).exits(0)
	r = silent(p.croft("secret", "ls").exits(0))
	equal([line.split()[0] for line in text(r.out).splitlines()], ["A", "B", "_c"], "names")
	document = json.loads(silent(p.croft("secret", "ls", "--json").exits(0)).out)
	equal([s["length"] for s in document["secrets"]], [len(VALUE)] * 3, "lengths")
	check(all(s["set"].endswith("Z") and s["problem"] is None for s in document["secrets"]), "when", document)
	os.chmod(os.path.join(store(p), "B"), 0o644)
	contains(text(p.croft("secret", "ls").exits(0).out), "UNUSABLE")
	p.croft("secret", "rm", "A", "NONE", "B").exits(125)
	equal(names(p), ["_c"], "what is left")


@test
def test_store_open_to_others(p):
	p.croft("secret", "set", "A", stdin=VALUE.encode()).exits(0)
	os.chmod(store(p), 0o755)
	for args in (("ls",), ("set", "A"), ("rm", "A")):
		contains(p.croft("secret", *args, stdin=VALUE.encode()).exits(126).one_sentence(), "chmod 700")
	os.chmod(store(p), 0o700)
	equal(names(p), ["A"], "names")


def ask(p, first, second):
	t = Terminal()
	try:
		t.start(p.argv("secret", "set", "ASKED"), p.ws, p.env)
		t.expect(b"not shown")
		t.send(first + b"\n")
		if second is not None:
			t.expect(b"Once more")
			t.send(second + b"\n")
		rc = t.finish()
		equal(t.attributes(), t.before, "the terminal's settings")
		return rc, t.log
	finally:
		t.close()


@test
def test_asked_on_a_terminal(p):
	rc, seen = ask(p, VALUE.encode(), VALUE.encode())
	equal(rc, 0, "status")
	lacks(seen, VALUE.encode(), "the terminal")
	equal(stored(p, "ASKED"), VALUE.encode(), "stored")
	rc, seen = ask(p, VALUE.encode() + b"1", VALUE.encode() + b"2")
	equal(rc, 125, "status")
	contains(seen, b"differ")
	lacks(seen, VALUE.encode(), "the terminal")
	equal(stored(p, "ASKED"), VALUE.encode(), "the old one is kept")
	rc, seen = ask(p, b"short", None)
	equal(rc, 125, "status")
	contains(seen, b"shorter")


@test
def test_ctrl_c_while_asking(p):
	t = Terminal()
	try:
		t.start(p.argv("secret", "set", "ASKED"), p.ws, p.env)
		t.expect(b"not shown")
		t.send(b"\x03")
		check(t.finish() != 0, "status")
		equal(t.attributes(), t.before, "the terminal's settings")
		equal(names(p), [], "names")
	finally:
		t.close()


@test
def test_value_is_in_no_command_line(p):
	"""While it waits for its value, and afterwards, nothing on the machine shows it."""
	c = p.start("secret", "set", "TOKEN")
	try:
		c.stdin.write(VALUE.encode())
		c.stdin.flush()
		wait_for(lambda: c.pid in processes(b"secret\0set\0TOKEN"), "croft runs")
		equal([x for x in processes(VALUE.encode()) if not somebody_elses(x)], [], "processes with the value in their arguments")
		with open(f"/proc/{c.pid}/environ", "rb") as f:
			lacks(f.read(), VALUE.encode(), "the environment")
		out, err = c.communicate(timeout=30)
		equal((c.returncode, out, err), (0, b"", b""), "end")
	finally:
		c.kill()
		c.wait()
	control = native(p, "sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline", "sh", VALUE)
	contains(text(control.stdout), VALUE, "the control: an argument is seen")


@test
def test_no_core_of_it(p):
	"""The memory that holds a value is locked and left out of dumps."""
	if SANITIZED:
		return
	c = p.start("secret", "set", "TOKEN")
	try:
		c.stdin.write(VALUE.encode())
		c.stdin.flush()

		def flags():
			with open(f"/proc/{c.pid}/smaps", encoding="ascii", errors="replace") as f:
				return [line for line in f if line.startswith("VmFlags:") and " dd" in line and " wf" in line]
		check(wait_for(flags, "a mapping that is not dumped"), "flags")
		c.communicate(timeout=30)
	finally:
		c.kill()
		c.wait()


if __name__ == "__main__":
	main()
