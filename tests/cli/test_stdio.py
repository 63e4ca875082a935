#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""Pipes are transparent: exact bytes, half-close, SIGPIPE, closed descriptors, no invented waiting."""
import hashlib
import os
import random
import select
import signal
import socket
import subprocess
import threading

from harness import (QUICK, TIERS, Failed, check, contains, end, equal, main, native, payload, processes, test, text,
	wait_for)

SIZE = (4 if QUICK else 64) << 20


def stream(p, tier, *command):
	return p.start("run", "--direct", "-q", "--tier", tier, "--", *command)


def digest_of(f, result):
	h, n = hashlib.sha256(), 0
	while True:
		b = f.read(1 << 20)
		if not b:
			break
		h.update(b)
		n += len(b)
	result.append((n, h.hexdigest()))


@test(tiers=TIERS)
def test_64_MiB_through_cat_exactly(p, tier):
	rng = random.Random(3)
	block = rng.randbytes(1 << 20)
	c = stream(p, tier, "cat")
	result = []
	reader = threading.Thread(target=digest_of, args=(c.stdout, result))
	reader.start()
	h = hashlib.sha256()
	try:
		for i in range(SIZE >> 20):
			b = block[i:] + block[:i]
			h.update(b)
			c.stdin.write(b)
		c.stdin.close()
		reader.join()
		equal(c.wait(), 0, "exit status")
		equal(result[0], (SIZE, h.hexdigest()), "bytes")
	finally:
		end(c)


@test(tiers=TIERS)
def test_every_byte_value_and_odd_sizes(p, tier):
	for size in (0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 131073):
		data = bytes(i * 7 & 255 for i in range(size))
		equal(p.croft("run", "--direct", "-q", "--tier", tier, "--", "cat", stdin=data).exits(0).out, data, f"{size} bytes")


@test(tiers=TIERS)
def test_stdout_and_stderr_stay_apart(p, tier):
	r = p.croft("run", "--direct", "-q", "--tier", tier, "--", "sh", "-c", "echo out; echo err >&2; echo out2").exits(0)
	equal((r.out, r.err), (b"out\nout2\n", b"err\n"))


@test(tiers=TIERS)
def test_end_of_input_reaches_the_command(p, tier):
	c = stream(p, tier, "sh", "-c", "cat >/dev/null; echo after-eof")
	try:
		c.stdin.write(b"x\n")
		c.stdin.close()
		equal(c.stdout.read(), b"after-eof\n")
		equal(c.wait(), 0)
	finally:
		end(c)


@test(tiers=TIERS)
def test_command_closing_stdout_is_seen_before_it_ends(p, tier):
	c = stream(p, tier, "sh", "-c", "echo first; exec >&-; exec 2>&-; cat >/dev/null")
	try:
		equal(c.stdout.readline(), b"first\n")
		ready, _, _ = select.select([c.stdout], [], [], 10)
		check(ready and c.stdout.read() == b"", "stdout did not end while the command runs")
		check(c.poll() is None, "it still runs")
		c.stdin.close()
		equal(c.wait(), 0)
	finally:
		end(c)


@test(tiers=TIERS)
def test_command_that_never_reads_does_not_hold_the_caller(p, tier):
	c = stream(p, tier, "true")
	try:
		equal(c.wait(timeout=30), 0, "exit status with stdin still open")
	finally:
		end(c)


@test(tiers=TIERS)
def test_conversation(p, tier):
	c = stream(p, tier, "cat")
	try:
		for i in range(50):
			line = b"line %d\n" % i
			c.stdin.write(line)
			c.stdin.flush()
			equal(c.stdout.readline(), line)
		c.stdin.close()
		equal(c.wait(), 0)
	finally:
		end(c)


def pipeline_to_head(argv, p):
	"""argv | (read a little and close): how does argv end?"""
	c = subprocess.Popen(argv, cwd=p.ws, env=p.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
		stderr=subprocess.PIPE)
	try:
		first = c.stdout.read(10)
		c.stdout.close()
		return first, c.wait(timeout=60)
	finally:
		end(c)


@test(tiers=TIERS)
def test_sigpipe_ends_the_writer(p, tier):
	first, rc = pipeline_to_head(p.argv("run", "--direct", "-q", "--tier", tier, "--", "yes"), p)
	equal(first, b"y\ny\ny\ny\ny\n")
	equal(rc, 128 + signal.SIGPIPE, "exit status")
	_, control = pipeline_to_head(["yes"], p)
	equal(control, -signal.SIGPIPE, "control")


@test(tiers=TIERS)
def test_sigpipe_default_is_restored_inside(p, tier):
	# Python ignores SIGPIPE; a child must not inherit that through croft when croft was given the default.
	r = p.run("--tier", tier, "--", "sh", "-c", "grep SigIgn /proc/self/status").exits(0)
	mask = int(text(r.out).split()[1], 16)
	check(not mask & (1 << (signal.SIGPIPE - 1)), "SIGPIPE is ignored inside", hex(mask))


@test(tiers=TIERS)
def test_huge_output_with_a_slow_reader(p, tier):
	c = stream(p, tier, p.tool(), "noise", str(SIZE // 2))
	control = subprocess.Popen([payload("tool"), "noise", str(SIZE // 2)], stdout=subprocess.PIPE)
	try:
		result, want = [], []
		digest_of(control.stdout, want)
		h, n = hashlib.sha256(), 0
		while True:
			b = os.read(c.stdout.fileno(), 1009)  # small odd reads: the writer waits most of the time
			if not b:
				break
			h.update(b)
			n += len(b)
			if n > 1 << 20:
				digest_of(c.stdout, result)
				break
		equal(c.wait(), 0)
		equal(n + result[0][0], want[0][0], "bytes")
	finally:
		end(c)
		end(control)


@test(tiers=TIERS)
def test_output_of_both_streams_at_once(p, tier):
	n = SIZE // 8
	c = stream(p, tier, "sh", "-c", f"head -c {n} /dev/zero >&2 & head -c {n} /dev/zero; wait")
	try:
		out, err = c.communicate(timeout=120)
		equal((len(out), len(err)), (n, n), "bytes")
		equal(c.returncode, 0)
	finally:
		end(c)


@test(tiers=TIERS)
def test_files_as_stdio(p, tier):
	p.write("in", b"from a file\x00\xff")
	with open(p.ws + "/in", "rb") as i, open(p.root + "/out", "wb") as o:
		p.croft("run", "--direct", "-q", "--tier", tier, "--", "cat", stdin=i, stdout=o).exits(0)
	equal(p.read("../../out"), b"from a file\x00\xff")


@test(tiers=TIERS)
def test_append_mode_of_stdout_is_kept(p, tier):
	p.write("../../log", b"before\n")
	with open(p.root + "/log", "ab") as o:
		p.croft("run", "--direct", "-q", "--tier", tier, "--", "echo", "after", stdout=o).exits(0)
	equal(p.read("../../log"), b"before\nafter\n")


@test(tiers=TIERS)
def test_socket_as_stdio(p, tier):
	a, b = socket.socketpair()
	with a, b:
		c = p.start("run", "--direct", "-q", "--tier", tier, "--", "cat", stdin=b, stdout=b)
		try:
			a.sendall(b"over a socket")
			got = b""
			while len(got) < 13:
				got += a.recv(64)
			equal(got, b"over a socket")
			a.shutdown(socket.SHUT_WR)
			equal(c.wait(timeout=30), 0, "end of input by half-close")
		finally:
			end(c)


@test(tiers=TIERS)
def test_closed_stdio(p, tier):
	"""Any of 0, 1, 2 may be closed: croft still works, and its own files never become the command's stdio."""
	p.tool()
	for closed in ([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]):
		shell = " ".join(f"{n}{'<' if n == 0 else '>'}&-" for n in closed)
		croft = " ".join(f"'{os.fsdecode(a)}'" for a in p.argv("run", "--direct", "-q", "--tier", tier, "--"))
		out = os.path.join(p.ws, "report")
		c = native(p, "sh", "-c", f"{croft} sh -c '$PWD/tool fds > report; exit 3' {shell}")
		if c.returncode != 3:
			raise Failed(f"closed {closed}: exit status {c.returncode}, {c.stderr!r}")
		for line in text(p.read("report")).splitlines():
			fd, _, target = line.partition(" ")
			check(int(fd) <= 2, f"closed {closed}: extra descriptor", line)
			if int(fd) in closed and not target.endswith("/report"):
				check(target in ("/dev/null", "/null", ""), f"closed {closed}: descriptor {fd} is {target}")
		os.unlink(out)


@test(tiers=TIERS)
def test_closed_stdin_reads_as_end_of_file_or_error(p, tier):
	croft = " ".join(f"'{os.fsdecode(a)}'" for a in p.argv("run", "--direct", "-q", "--tier", tier, "--"))
	c = native(p, "sh", "-c", f"{croft} cat <&-")
	equal(c.stdout, b"")


@test(tiers=TIERS)
def test_directory_as_stdio_is_refused(p, tier):
	"""A directory descriptor as stdin would be a way out of the private root."""
	fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
	try:
		r = p.croft("run", "--direct", "--tier", tier, "--", "sh", "-c", "echo ran > ran; ls /proc/self/fd/0/", stdin=fd)
		r.exits(126)
		r.one_sentence()
		check(not p.exists("ran"), "the command ran")
	finally:
		os.close(fd)


@test(tiers=TIERS)
def test_path_descriptor_as_stdio_is_refused(p, tier):
	fd = os.open("/", os.O_PATH)
	try:
		r = p.croft("run", "--direct", "--tier", tier, "--", "sh", "-c", "echo ran > ran", stdin=fd)
		check(r.rc in (125, 126), "refused", r)
		check(not p.exists("ran"), "the command ran")
	finally:
		os.close(fd)


@test(tiers=TIERS)
def test_stdin_of_the_caller_is_not_eaten(p, tier):
	"""A command that reads nothing leaves the caller's input for the next reader."""
	croft = " ".join(f"'{os.fsdecode(a)}'" for a in p.argv("run", "--direct", "-q", "--tier", tier, "--"))
	c = native(p, "sh", "-c", f"{croft} true; cat", stdin=b"still here\n")
	equal(c.stdout, b"still here\n")


@test(tiers=TIERS)
def test_background_process_keeping_stdout_does_not_hang(p, tier):
	p.tool()
	r = p.croft("run", "--direct", "-q", "--tier", tier, "--", "sh", "-c", "$PWD/tool pause & echo done", timeout=30).exits(0)
	contains(r.out, b"done\n")
	wait_for(lambda: not processes(p.ws.encode()), "background process ended")


if __name__ == "__main__":
	main()
