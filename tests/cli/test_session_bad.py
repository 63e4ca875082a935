#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""Wrong words, wrong order and hostile callers of a session: one clear sentence, and nothing lost."""
import json
import os
import shutil
import signal
import socket
import threading
import struct
import subprocess

import envs
import sessions
from harness import CROFT, ROOT, Skip, check, contains, equal, main, need, test, text, wait_for


def says(r, rc, *words):
	sentence = r.exits(rc).one_sentence()
	for w in words:
		contains(sentence, w, "what it says")


@test
def test_what_is_not_there(p):
	envs.repository(p)
	for command in (("up",), ("down",), ("ps",), ("logs",), ("attach",), ("pause",), ("resume",), ("port",), ("kill",)):
		more = {"port": ("80",), "kill": ("1",)}.get(command[0], ())
		says(p.croft(*command, "nope", *more), 125, "there is no environment called nope", "croft ls")
	envs.new(p, "fix")
	for command in (("down",), ("ps",), ("logs",), ("attach",), ("pause",), ("resume",), ("port",), ("kill",)):
		more = {"port": ("80",), "kill": ("1",)}.get(command[0], ())
		says(p.croft(*command, "fix", *more), 125, "fix is not up", "croft up fix")
	says(p.croft("exec", "-d", "fix", "--", "true"), 125, "fix is not up", "croft up fix")
	check(b"nothing is up" in p.croft("ps").exits(0).out, "ps")
	for words in (("up",), ("down",), ("logs",), ("attach",), ("kill", "fix"), ("port", "fix"), ("port", "fix", "x"), ("pause",),
		("up", "a", "b"), ("ps", "a", "b"), ("port", "fix", "0x50"), ("kill", "fix", "one"), ("logs", "fix", "1", "2")):
		p.croft(*words).exits(125).one_sentence()


@test
def test_numbers_of_no_process(p):
	with sessions.up(p):
		for command in (("kill",), ("logs",), ("attach",)):
			for number in ("1", "4294967295"):
				says(p.croft(*command, "fix", number), 125, f"fix has no process {number}", "croft ps fix")
			p.croft(*command, "fix", "99999999999").exits(125).one_sentence()
		says(p.croft("logs", "fix"), 125, "nothing has run in fix")
		for port in ("0", "65536", "0:0", "99999:80"):
			says(p.croft("port", "fix", port), 125, "from 1 to 65535")


@test
def test_up_twice(p):
	with sessions.up(p):
		r = p.croft("up", "fix").exits(0)
		contains(text(r.err), "fix is up already", "what it says")
		first = sessions.ps(p)["session"]
		p.croft("down", "-q", "fix").exits(0)
		at_once = [p.start("up", "fix") for _ in range(4)]
		for c in at_once:
			c.communicate(timeout=60)
		check(all(c.returncode in (0, 125, 126) for c in at_once), "exit statuses", [c.returncode for c in at_once])
		check(any(c.returncode == 0 for c in at_once), "none of them came up")
		check(sessions.ps(p)["session"] != first, "another session")
		equal(sessions.sh(p, "echo works"), "works\n", "it works")


@test
def test_options_of_another_boundary(p):
	"""What the live sandbox cannot become is refused; what it has already, or what belongs to one command, is not."""
	p.write(os.path.join(p.home, "policy.yaml"), "version: 1\nprofile: strict\n")
	with sessions.up(p, "fix", "--read", p.home, "--memory", "2G", "--timeout", "300s", "--env", "MINE=1"):
		for other in (("--read", "/opt"), ("--write", "/var/tmp"), ("--deny", os.path.join(p.ws, "gone")), ("--tier", "process"),
			("--disk", "1G"), ("--allow-host", "example.org"),
			("--use", "pypi"), ("--publish", "18080:80"), ("--host-port", "5432"), ("--observe", "full"), ("--profile", "strict"),
			("--set", "limits.open_files=99"), ("--policy", os.path.join(p.home, "policy.yaml"))):
			says(p.croft("exec", *other, "fix", "--", "true"), 126, "fix is up with another boundary", "croft down fix")
		p.croft("secret", "set", "tok", stdin=b"a-value-that-is-long-enough").exits(0)
		says(p.croft("exec", "--secret", "tok@example.org", "--allow-host", "example.org", "fix", "--", "true"), 126, "croft down fix")
		for same in (("--read", p.home), ("--memory", "2G"), ("--memory", "1G"), ("--open-files", "64"), ("--tier", "auto"), ("--timeout", "50s"), ("--env", "A=1"),
			("--read", p.home, "--timeout", "50s", "--env", "A=1"), ("--allow-degraded",), ("--stay",), ("--label", "x"),
			("--as", "test"), ("-v",)):
			p.croft("exec", *same, "fix", "--", "true").exits(0)
		says(p.croft("exec", "--workspace", "/tmp", "fix", "--", "true"), 125, "workspace")
		says(p.croft("exec", "--direct", "fix", "--", "true"), 125, "always staged")
		says(p.croft("exec", "--as", "judge", "fix", "--", "true"), 125, "--as knows: test")
		says(p.croft("exec", "--label", "x" * 300, "fix", "--", "true"), 125, "at most 256 bytes")
		check(sessions.is_up(p), "the session is gone")


# ---- sockets ----

def hello(protocol=3, version=None):
	version = (version or text(subprocess.run([CROFT, "version"], capture_output=True, check=True).stdout).split()[1]).encode()
	return frame(1, struct.pack("<II", protocol, len(version)) + version + b"\0")


def frame(kind, body=b"", tag=7, number=0):
	return struct.pack("<IIII", len(body), kind, tag, number) + body


def connect(p, name="fix"):
	s = socket.socket(socket.AF_UNIX)
	here = os.getcwd()
	os.chdir(envs.state(p, "envs", name))  # a socket's name is short
	try:
		s.connect("socket")
	finally:
		os.chdir(here)
	s.settimeout(60)
	return s


def answer(s):
	head = b""
	while len(head) < 16:
		got = s.recv(16 - len(head))
		if not got:
			return None, b""
		head += got
	n, kind, _, _ = struct.unpack("<IIII", head)
	body = b""
	while len(body) < n:
		body += s.recv(n - len(body))
	return kind, body


def cut_off(s):
	try:
		while s.recv(65536):
			pass
	except ConnectionResetError:
		pass
	s.close()


@test
def test_up_when_the_session_before_it_ends_this_moment(p):
	"""It still listens, and then it is gone: the next one is started, and nobody is told of a broken connection."""
	envs.repository(p)
	envs.new(p, "fix")
	name = envs.state(p, "envs", "fix", "socket")
	listener = socket.socket(socket.AF_UNIX)
	here = os.getcwd()
	os.chdir(os.path.dirname(name))
	try:
		listener.bind("socket")
	finally:
		os.chdir(here)
	os.chmod(name, 0o600)
	listener.listen()
	came = []

	def end_at_once():
		c, _ = listener.accept()
		came.append(c.recv(1))  # the rest is not read, so that the other side gets a reset
		c.close()
		listener.close()
	t = threading.Thread(target=end_at_once, daemon=True)
	t.start()
	try:
		p.croft("up", "-q", "fix").exits(0)
		t.join(10)
		check(came, "the one that ends was asked (the control)")
		equal(sessions.sh(p, "echo up"), "up\n", "it is up")
	finally:
		p.croft("down", "-q", "--now", "fix")


@test
def test_stale_socket(p):
	with sessions.up(p):
		os.kill(sessions.ps(p)["pid"], signal.SIGKILL)
		wait_for(lambda: not sessions.is_up(p), "it is gone")
		check(os.path.exists(envs.state(p, "envs", "fix", "socket")), "its socket is left")
		says(p.croft("ps", "fix"), 125, "fix is not up")
		equal(envs.work(p, "echo alone", "fix"), "alone\n", "exec by itself")
		check(b"nothing is up" in p.croft("ps").exits(0).out, "ps")
		p.croft("up", "-q", "fix").exits(0)
		equal(sessions.sh(p, "echo again"), "again\n", "it is up again")


@test
def test_socket_of_somebody_else(p):
	if not ROOT:
		raise Skip("only root can give a file to somebody else")
	with sessions.up(p):
		at = envs.state(p, "envs", "fix", "socket")
		os.chown(at, 12345, 12345)
		says(p.croft("ps", "fix"), 126, "belongs to somebody else", "12345")
		says(p.croft("exec", "fix", "--", "true"), 126, "belongs to somebody else")
		os.chown(at, 0, 0)
		equal(sessions.sh(p, "echo mine"), "mine\n", "given back")
		directory = envs.state(p, "envs", "fix")
		os.chown(directory, 12345, 12345)
		r = p.croft("exec", "fix", "--", "true")
		os.chown(directory, 0, 0)
		says(r, 126, "belongs to somebody else")


@test
def test_another_version(p):
	with sessions.up(p):
		pid = sessions.ps(p)["pid"]
		s = connect(p)
		s.sendall(hello(version="0.0.1"))
		kind, body = answer(s)
		equal(kind, 15, "an error")
		for words in (b"fix is up on croft ", b"and this is croft 0.0.1", b"kill %d" % pid):
			contains(body, words, "its sentence")
		s.close()
		s = connect(p)
		s.sendall(hello(protocol=99))
		equal(answer(s)[0], 15, "another protocol")
		s.close()
		equal(sessions.sh(p, "echo fine"), "fine\n", "it goes on")


@test
def test_callers_that_say_nonsense(p):
	with sessions.up(p):
		number = sessions.detach(p, "sleep", "100001")
		for bytes_ in (b"\0" * 64, b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", frame(2), hello() + frame(99), hello() + frame(14),
			hello() + struct.pack("<IIII", 0xffffffff, 2, 1, 0), hello()[:9]):
			s = connect(p)
			s.sendall(bytes_)
			s.shutdown(socket.SHUT_WR)
			cut_off(s)
		for bad in (frame(2, b"\0" * 40), frame(4, b"\1\0\0\0", number=number), frame(9, b"x"), frame(10, b""), frame(11, b"\xff" * 9)):
			s = connect(p)
			s.sendall(hello() + bad)
			answer(s)
			check(answer(s)[0] in (14, 15), "an answer to what is no request", bad)
			s.close()
		equal(sessions.process(p, number)["state"], "running", "what runs")


@test
def test_ten_thousand_messages_that_nobody_reads(p):
	"""A caller that asks and never reads costs a bounded amount of memory; everybody else is served."""
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", "head -c 900000 /dev/zero; exec sleep 100002")
		wait_for(lambda: sessions.process(p, number)["output_b"] == 900000, "its output")
		pid = sessions.ps(p)["pid"]
		s = connect(p)
		s.sendall(hello())
		s.settimeout(30)
		sent = 0
		try:
			for _ in range(10000):
				s.sendall(frame(7) + frame(6, struct.pack("<QI", 0, 1), number=number))
				sent += 2
		except (BrokenPipeError, ConnectionResetError):
			pass
		check(sent > 1000, "it was cut off at once", sent)
		equal(sessions.sh(p, "echo served"), "served\n", "others meanwhile")
		with open(f"/proc/{pid}/status", encoding="ascii") as f:
			high = int([x for x in f if x.startswith("VmHWM")][0].split()[1])
		check(high < 200000, "its memory in KB", high, sent)
		s.close()
		equal(sessions.process(p, number)["state"], "running", "what runs")


@test
def test_full_disk(p):
	"""The state directory has no room: a command is not started, what was answered is kept, and later it goes on."""
	if not ROOT:
		raise Skip("a file system of its own needs root")
	need("mkfs.ext4")
	image, at = os.path.join(p.root, "image"), envs.state(p)
	with open(image, "wb") as f:
		f.truncate(48 << 20)
	subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True, env=p.env)
	os.makedirs(at)
	if subprocess.run(["mount", "-o", "loop", image, at], check=False, capture_output=True).returncode:
		raise Skip("no loop device can be mounted here")
	try:
		os.chmod(at, 0o700)
		full_disk(p, at)
	finally:
		p.croft("down", "-q", "--now", "fix")
		wait_for(lambda: subprocess.run(["umount", at], check=False, capture_output=True).returncode == 0, "umount")


def full_disk(p, at):
	with sessions.up(p):
		sessions.sh(p, "echo kept > kept")
		server = sessions.serve(p)
		hog = os.path.join(at, "hog")
		with open(hog, "wb") as f:
			try:
				while True:
					f.write(b"x" * 65536)
					f.flush()
			except OSError:
				pass
		refused = None
		for _ in range(64):  # a journal has room in the last block it has
			r = p.croft("exec", "-q", "fix", "--", "sh", "-c", "head -c 100000 /dev/urandom | base64")
			if r.rc == 125:
				refused = r
				break
		check(refused is not None, "no command was refused on a full disk", r)
		contains(refused.one_sentence().lower(), "no space left", "what it says")
		equal(sessions.process(p, server)["state"], "running", "what runs")
		os.unlink(hog)
		wait_for(lambda: p.croft("exec", "-q", "fix", "--", "true").rc == 0, "commands run again")
		equal(sessions.sh(p, "cat kept"), "kept\n", "staged work")
		p.croft("down", "-q", "fix").exits(0)
	envs.verify(p, "fix")
	log = json.loads(p.croft("log", "--json", "fix").exits(0).out)
	entries = [x for e in log["events"] for x in e.get("entries", [])]
	started = {x["process"] for x in entries if x["kind"] == "started"}
	over = {x["process"] for x in entries if x["kind"] in ("ended", "dropped", "interrupted")}
	equal(started - over, set(), "commands without an end")


main()
