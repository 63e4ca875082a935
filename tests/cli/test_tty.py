#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A terminal inside: job control, resizing, raw programs; nothing injected, nothing left behind."""
import os
import signal

from harness import (SECRET, TIERS, Skip, check, contains, equal, kill_quietly, lacks, main, need, need_tier, processes,
	test, text, wait_for)
from terminal import Terminal


class Session:
	"""croft on a terminal of its own, ended whatever happens."""

	def __init__(self, p, tier, *command, options=(), **kw):
		self.t = Terminal(**kw)
		self.c = self.t.start(p.argv("run", "--direct", "-q", "--tier", tier, *options, "--", *command), p.ws, p.env)

	def __enter__(self):
		return self.t

	def __exit__(self, *exc):
		self.t.close()


class Shell:
	"""An interactive shell on a terminal, from which croft is started as a person would."""

	def __init__(self, p):
		self.t = Terminal()
		bash = need("bash")
		self.t.start([bash, "--norc", "--noprofile", "-i"], p.ws, {**p.env, "PS1": "PROMPT> ", "PS2": "", "TERM": "dumb",
			"HISTFILE": ""})
		self.t.expect(b"PROMPT> ")
		self.t.send(b"bind 'set enable-bracketed-paste off' 2>/dev/null; stty -echo\n")
		self.t.expect(b"PROMPT> ")

	def __enter__(self):
		return self.t

	def __exit__(self, *exc):
		self.t.close()


def command_line(p, tier, *command):
	words = p.argv("run", "--direct", "-q", "--tier", tier, "--", *command)
	return b" ".join(b"'" + w.replace(b"'", b"'\\''") + b"'" for w in words)


@test(tiers=TIERS)
def test_it_is_a_terminal_inside(p, tier):
	with Session(p, tier, p.tool(), "isatty") as t:
		t.expect(b"111 session 1 foreground 1")
		equal(t.finish(), 0)


@test(tiers=TIERS)
def test_it_is_not_the_users_terminal(p, tier):
	p.tool()
	with Session(p, tier, "sh", "-c", "$PWD/tool fds; tty; echo END") as t:
		t.expect(b"END")
		lacks(text(t.last), os.ttyname(t.slave), "descriptors inside")


@test(tiers=TIERS)
def test_only_the_terminal_sides_are_terminals(p, tier):
	t = Terminal()
	try:
		r, w = os.pipe()
		t.start(p.argv("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "isatty"), p.ws, p.env, stdout=w)
		os.close(w)
		with os.fdopen(r, "rb") as f:
			out = b""
			while not out.endswith(b"\n"):
				t.pump(0.01)
				b = os.read(f.fileno(), 100)
				if not b:
					break
				out += b
		contains(out, b"101 ")
		equal(t.finish(), 0)
	finally:
		t.close()


@test(tiers=TIERS)
def test_size_and_resize(p, tier):
	with Session(p, tier, p.tool(), "winch", rows=31, cols=97) as t:
		t.expect(b"ready 31x97")
		t.resize(40, 132)
		os.kill(t.child.pid, signal.SIGWINCH)
		t.expect(b"resized 40x132")
		equal(t.finish(), 0)


@test(tiers=TIERS)
def test_ctrl_c_interrupts_the_command(p, tier):
	with Session(p, tier, p.tool(), "sigwait") as t:
		t.expect(b"ready")
		t.send(b"\x03")
		t.expect(b"got 2")
		equal(t.finish(), 42)
	with Session(p, tier, p.tool(), "pause") as t:
		t.expect(b"ready")
		t.send(b"\x03")
		equal(t.finish(), 128 + signal.SIGINT, "exit status of an interrupted command")
		equal(t.attributes(), t.before, "terminal settings")
	equal(processes(p.ws.encode()), [], "processes left")


@test(tiers=TIERS)
def test_ctrl_d_is_end_of_input(p, tier):
	with Session(p, tier, "cat") as t:
		t.send(b"hello\n")
		t.expect(b"hello\r\nhello\r\n")
		t.send(b"\x04")
		equal(t.finish(), 0)


@test(tiers=TIERS)
def test_ctrl_z_and_fg(p, tier):
	with Shell(p) as t:
		p.tool()
		t.send(command_line(p, tier, "sh", "-c", "echo begun; read x; echo got $x") + b"\n")
		t.expect(b"begun\r\n")
		t.send(b"\x1a")
		t.expect(b"Stopped")
		t.expect(b"PROMPT> ")
		t.send(b"echo shell-is-back; stty -a | grep -o 'icanon' | head -1\n")
		t.expect(b"shell-is-back\r\n")
		t.expect(b"icanon")
		t.expect(b"PROMPT> ")
		t.send(b"fg >/dev/null\n")
		t.send(b"again\n")
		t.expect(b"got again")
		t.expect(b"PROMPT> ")
		t.send(b"echo status $?\n")
		t.expect(b"status 0")
		t.expect(b"PROMPT> ")
		t.send(b"exit\n")
		equal(t.finish(), 0)


@test(tiers=TIERS)
def test_shell_inside_has_job_control(p, tier):
	bash = need("bash")
	with Session(p, tier, bash, "--norc", "--noprofile", "-i", options=("--env", "PS1=INNER> ")) as t:
		t.expect(b"INNER> ")
		check(b"no job control" not in t.last, "no job control inside", t.last)
		t.send(b"sh -c 'echo started; read x; echo got-$x'\n")
		t.expect(b"started\r\n")
		t.send(b"\x1a")
		t.expect(b"Stopped")
		t.expect(b"INNER> ")
		t.send(b"fg >/dev/null\n")
		t.send(b"again\n")
		t.expect(b"got-again")
		t.expect(b"INNER> ")
		t.send(b"exit 5\n")
		equal(t.finish(), 5)


@test(tiers=TIERS)
def test_raw_program(p, tier):
	with Session(p, tier, p.tool(), "raw") as t:
		t.expect(b"ready\r\n")
		for key, name in ((b"\x03", b"key 03"), (b"\x1a", b"key 1a"), (b"\r", b"key 0d"), (b"\x1b[A", b"key 41"), (b"\xc3\xa9", b"key a9")):
			t.send(key)
			t.expect(name)
		t.send(b"q")
		equal(t.finish(), 0)
		equal(t.attributes(), t.before, "terminal settings")


@test(tiers=TIERS)
def test_vi(p, tier):
	need("vi")
	with Session(p, tier, "vi", "-u", "NONE", "file.txt") as t:
		t.expect(b"file.txt", b"~")
		t.send(b"ihello from vi\x1b")
		t.expect(b"vi")
		t.send(b":wq\r")
		equal(t.finish(), 0)
		equal(t.attributes(), t.before, "terminal settings")
	equal(p.read("file.txt"), b"hello from vi\n")


@test
def test_top(p):
	need("top")
	with Session(p, "auto", "top") as t:
		t.expect(b"PID")
		t.send(b"q")
		equal(t.finish(), 0)


@test(tiers=TIERS)
def test_terminal_is_restored_after_term_and_kill(p, tier):
	for sig in (signal.SIGTERM, signal.SIGHUP):
		with Session(p, tier, p.tool(), "raw") as t:
			t.expect(b"ready")
			os.kill(t.child.pid, sig)
			t.finish()
			equal(t.attributes(), t.before, f"terminal settings after {sig.name}")
		wait_for(lambda: not processes(p.ws.encode()), "nothing left running")


@test(tiers=TIERS)
def test_kill_9_on_a_terminal_leaves_nothing_running(p, tier):
	with Session(p, tier, p.tool(), "raw") as t:
		t.expect(b"ready")
		os.kill(t.child.pid, signal.SIGKILL)
		t.finish()
		wait_for(lambda: not processes(p.ws.encode()), "nothing left running")


def inject(p, line):
	"""Run the injector from a shell and say what the shell was made to run."""
	with Shell(p) as t:
		t.send(line + b"\n")
		t.expect(b"sti done")
		t.expect(b"PROMPT> ")
		t.send(b"\necho prompt-after\n")
		t.expect(b"prompt-after\r\n")
		t.expect(b"PROMPT> ")
		t.send(b"exit\n")
		t.finish()
		return t.log


@test(tiers=TIERS)
def test_input_cannot_be_injected(p, tier):
	"""TIOCSTI inside must not put characters into the terminal that croft was started from."""
	lacks(inject(p, command_line(p, tier, p.tool(), "sti", "echo inj''ected\n")), b"injected", "what the shell ran")


@test
def test_control_without_croft_input_is_injected(p):
	log = inject(p, b"'" + os.fsencode(p.tool()) + b"' sti \"echo inj''ected\n\"")
	if b"injected" not in log:
		raise Skip("this kernel refuses TIOCSTI to everybody (dev.tty.legacy_tiocsti) or to this user")


@test(tiers=TIERS)
def test_dangerous_sequences_are_filtered(p, tier):
	clipboard = "\\033]52;c;c2VjcmV0\\007"
	p.write("evil.sh", f"printf 'A{clipboard}B\\033P+q544e\\033\\\\C\\033[21tD\\033]0;title\\007\\033[31mred\\033[0mE\\n'; echo END\n")
	with Session(p, tier, "sh", "evil.sh") as t:
		t.expect(b"END")
		shown = t.last
		lacks(shown, b"\x1b]52", "clipboard")
		lacks(shown, b"c2VjcmV0", "clipboard text")
		lacks(shown, b"\x1bP", "device control string")
		lacks(shown, b"\x1b[21t", "title report")
		contains(shown, b"\x1b[31mred\x1b[0m", "colours pass")
		for c in b"ABCDE":
			contains(shown, bytes([c]), "text passes")


@test
def test_control_without_croft_the_clipboard_sequence_passes(p):
	t = Terminal()
	try:
		t.start(["sh", "-c", "printf '\\033]52;c;c2VjcmV0\\007END'"], p.ws, p.env)
		t.expect(b"END")
		contains(t.last, b"\x1b]52;c;c2VjcmV0")
	finally:
		t.close()


@test(tiers=TIERS)
def test_large_output_is_complete(p, tier):
	with Session(p, tier, "seq", "1", "20000") as t:
		rc = t.finish(60)
		equal(rc, 0)
		lines = t.seen.split()
		equal(len(lines), 20000, "lines")
		equal(lines[-1], b"20000")


@test(tiers=TIERS)
def test_last_output_is_not_lost(p, tier):
	for i in range(5):
		with Session(p, tier, "sh", "-c", f"printf last-words-{i}; exit 9") as t:
			equal(t.finish(), 9)
			contains(t.seen, b"last-words-%d" % i)


@test(tiers=TIERS)
def test_terminal_hangup_ends_the_command(p, tier):
	t = Terminal()
	c = t.start(p.argv("run", "--direct", "-q", "--tier", tier, "--", p.tool(), "pause"), p.ws, p.env)
	try:
		t.expect(b"ready")
		os.close(t.slave)
		os.close(t.master)
		wait_for(lambda: c.poll() is not None, "croft ends when the terminal is gone")
		wait_for(lambda: not processes(p.ws.encode()), "nothing left running")
	finally:
		if c.poll() is None:
			kill_quietly(c.pid)
		c.wait()


@test(tiers=TIERS)
def test_summary_on_a_terminal_has_no_stair_steps(p, tier):
	"""croft's own lines come after the terminal was restored: each starts at the left."""
	t = Terminal()
	try:
		t.start(p.argv("run", "--direct", "--tier", tier, "--", "sh", "-c", "cat ~/.ssh/id_ed25519"), p.ws, p.env)
		t.finish()
		lacks(t.seen, SECRET.encode())
		for line in t.seen.split(b"\n")[:-1]:
			check(line.endswith(b"\r"), "a line without carriage return", t.seen)
	finally:
		t.close()


def ask_and_type(p, *typed, stdin):
	"""What a sandbox gets that asks for a host under `default: ask`, when somebody types this at the question."""
	policy = p.write("../ask.yaml", "version: 1\nnetwork: {default: ask, ask-timeout: 10s, "
		"resolve: {wanted.example: 192.0.2.1}}\n")
	t = Terminal()
	try:
		code = ("import socket\ntry:\n s=socket.create_connection(('wanted.example',7),8); print('GOT', s.recv(1))\n"
			"except OSError as e: print('GOT', type(e).__name__)")
		t.start(p.argv("run", "--direct", "--tier", "namespace", "--policy", policy, "--", "python3", "-c", code), p.ws,
			p.env, stdin=stdin)
		if typed:
			t.expect(b"wanted.example:7", b"Allow?")
			for word in typed:
				t.send(word)
		t.finish(60)
		return t.log
	finally:
		t.close()


@test
def test_a_connection_that_asks_is_decided_at_the_terminal(p):
	need_tier("namespace")
	need("python3")
	with open("/dev/null", "rb") as nothing:
		log = ask_and_type(p, b"n\n", stdin=nothing)
	contains(log, b"GOT")
	contains(log, b"not allowed", "a no is a denial")
	with open("/dev/null", "rb") as nothing:
		log = ask_and_type(p, b"y\n", stdin=nothing)
	contains(log, b"GOT")  # it was dialled, and nobody is there
	lacks(log, b"not allowed", "a yes is none")


@test
def test_what_was_typed_for_a_failed_start_reaches_no_shell(p):
	"""All of it is written at once, so that it waits in the terminal while the first line runs."""
	quote = lambda *words: b" ".join(b"'" + w + b"'" for w in p.argv(*words))
	for n, (line, kept) in enumerate(((quote("shell", "nosuch"), False), (quote("run", "-q", "--direct", "--", "no-such-command"), False),
			(quote("run", "--policy", "nosuch.yaml", "--", "sh"), False), (b"false", True), (quote("status", "nosuch"), True))):
		with Shell(p) as t:
			t.send(line + b"; echo en''ded\ntouch typed-%d\n" % n)
			t.expect(b"ended")
			t.expect(b"PROMPT> ")
			t.send(b"echo af''ter\n")
			t.expect(b"after")
			equal(p.exists(f"typed-{n}"), kept, "what was typed after " + text(line))


@test
def test_no_color_is_honoured(p):
	t = Terminal()
	try:
		t.start(p.argv("run", "--direct", "--", "sh", "-c", "cat ~/.ssh/id_ed25519"), p.ws, {**p.env, "NO_COLOR": "1"})
		t.finish()
		lacks(t.seen, b"\x1b[", "output with NO_COLOR")
	finally:
		t.close()


if __name__ == "__main__":
	main()
