#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# forced: landlock3
"""A session from its first command to its last, as two people at two terminals see it."""
import json
import os
import select
import socket
import urllib.request

import envs
import sessions
from harness import check, contains, equal, lacks, main, need, test, text, wait_for


def get(port):
	with urllib.request.urlopen(f"http://127.0.0.1:{port}/from-the-host", timeout=60) as r:
		return r.read().decode()


@test
def test_two_terminals_one_sandbox(p):
	need("curl")
	envs.repository(p)
	envs.new(p, "fix")
	contains(text(p.croft("up", "fix").exits(0).out), "fix is up", "what up says")
	try:
		server = sessions.serve(p)
		equal(server, 1, "the first number")
		equal(sessions.sh(p, "curl -sS http://127.0.0.1:8000/from-inside"), "hello from inside\n", "curl from another exec")
		port = text(p.croft("port", "fix", "0:8000").exits(0).out).strip()
		check(port.startswith("127.0.0.1:"), "port says where", port)
		equal(get(port.partition(":")[2]), "hello from inside\n", "the same from the host")
		equal(sessions.logs(p, server), "serving\nserved /from-inside\nserved /from-the-host\n", "its log")
		seen = text(p.croft("ps").exits(0).out)
		contains(seen, "python3 -c", "ps")
		contains(seen, f"port    {port} -> 8000", "ps")
		contains(seen, "exit 0", "ps: what has ended")
		p.croft("pause", "fix").exits(0)
		equal(sessions.ps(p)["state"], "paused", "state")
		since = sessions.ps(p)["up_since"]
		contains(text(p.croft("ps", "fix").exits(0).out), f"fix  up since {since}, paused, ", "ps when paused")
		p.croft("resume", "fix").exits(0)
		equal(get(port.partition(":")[2]), "hello from inside\n", "after resume")
		follow = p.start("logs", "-f", "fix", str(server))
		p.croft("kill", "fix", str(server)).exits(0)
		out, _ = follow.communicate(timeout=60)
		contains(text(out), "served /from-inside", "logs -f until the end")
		equal(sessions.ended(p, server)["exit"], 128 + 15, "its exit status")
		sessions.sh(p, "echo changed >> numbers")
		contains(text(p.croft("down", "fix").exits(0).out), "fix is down", "what down says")
	finally:
		p.croft("down", "-q", "--now", "fix")
	equal(envs.changed(p, "fix"), ["numbers"], "what is staged afterwards")
	check(b"nothing is up" in p.croft("ps").exits(0).out, "ps afterwards")
	envs.verify(p, "fix")


@test
def test_options_of_up_before_and_after_the_name(p):
	envs.repository(p)
	given = os.path.join(p.home, "given")
	os.mkdir(given)
	write = ("--write", given)
	for i, words in enumerate((("{}", "-q", *write), ("-q", "{}", *write), (*write, "-q", "{}"),
			(*write, "{}", "-q", "--json"), ("{}", "--json", *write), (*write, "--", "{}"))):
		name = f"e{i}"
		envs.new(p, name)
		try:
			out = p.croft("up", *[w.format(name) for w in words]).exits(0).out
			equal(out.startswith(b"{"), "--json" in words, "--json")
			sessions.sh(p, f"echo x > '{given}/{name}'", name=name)
			check(os.path.exists(os.path.join(given, name)), "what was asked for was not granted", words)
		finally:
			p.croft("down", "-q", "--now", name)
	envs.new(p, "none")
	p.croft("up", "none", "--memory").exits(125).one_sentence()
	p.croft("up", "none", "two", "-q").exits(125).one_sentence()


@test
def test_exit_status_is_the_commands_own(p):
	with sessions.up(p):
		for script, rc in (("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)):
			p.croft("exec", "-q", "fix", "--", "sh", "-c", script).exits(rc)
		p.croft("exec", "-q", "fix", "--", "no-such-program").exits(127).one_sentence()
		p.croft("exec", "-q", "fix", "--", "./numbers").exits(126).one_sentence()
		p.croft("exec", "-q", "--timeout", "1s", "fix", "--", "sleep", "1000").exits(124)
		p.croft("exec", "-q", "--timeout", "1s", "fix", "--", "sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done").exits(124)
		p.croft("exec", "-d", "fix", "--", "no-such-program").exits(127).one_sentence()
	log = text(p.croft("log", "fix").exits(0).out)
	equal(log.count(": no-such-program: command not found inside the sandbox"), 2, "why they did not run, in " + log)


# Executes a program as itself, then where nobody may look, as a child and as an orphan of the reaper.
UNSEEN = """
import ctypes, os, sys
def tries(unseen):
	if unseen: ctypes.CDLL(None).prctl(4, 0)
	try: os.execv("/bin/true", ["true"])
	except OSError as e: os._exit(e.errno)
def orphan():
	r, w = os.pipe()
	if os.fork() == 0:
		if os.fork() == 0:
			while os.getppid() != above: pass
			pid = os.fork()
			if pid == 0: tries(True)
			os.write(w, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
			tries(True)
			os._exit(0)
		os._exit(0)
	os.wait()
	return int(os.read(r, 9))
above = os.getppid()
for unseen in (False, True):
	pid = os.fork()
	if pid == 0: tries(unseen)
	print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(orphan())
"""


@test
def test_every_command_starts_below_a_rule_for_a_name_that_is_not_there(p):
	"""Then a broker judges what is executed, and may not look into who starts commands."""
	with sessions.up(p, "fix", "--deny", "./late"):
		for argv in (["echo", "x"], ["/bin/echo", "x"], ["sh", "-c", "echo x"], ["/usr/bin/env", "echo", "x"]) * 2:
			equal(text(p.croft("exec", "-q", "fix", "--", *argv).exits(0).out), "x\n", f"{argv}")
		sessions.sh(p, "printf '#!/bin/sh\\necho own\\n' > own; chmod +x own; mkdir sub; cp own sub")
		equal(text(p.croft("exec", "-q", "fix", "--", "./own").exits(0).out), "own\n", "by a relative name")
		running = [p.start("exec", "-q", "fix", "--", "sh", "-c", f"echo {i}") for i in range(8)]
		for i, c in enumerate(running):
			equal((text(c.communicate(timeout=60)[0]), c.returncode), (f"{i}\n", 0), "eight at once")
		sessions.sh(p, "cp own late", rc=1)
		p.croft("exec", "-q", "fix", "--", "./late").exits(127)
		equal(text(p.croft("exec", "-q", "fix", "--", "python3", "-c", UNSEEN).exits(0).out), "0\n13\n13\n", "what may not be looked at executes nothing")


@test
def test_a_receipt_is_not_written_through_a_link(p):
	"""A sandbox may have planted it in the workspace. It is found before the command runs."""
	victim, outside = os.path.join(p.home, "victim"), os.path.join(p.home, "outside")
	os.mkdir(outside)
	with open(victim, "w", encoding="ascii") as f:
		f.write("mine\n")
	with sessions.up(p):
		os.symlink(victim, os.path.join(p.ws, "link"))
		os.symlink(outside, os.path.join(p.ws, "out"))
		for to in ("link", "out/r.json", os.path.join(p.ws, "link")):
			for more in ((), ("-d",)):
				r = p.croft("exec", "-q", *more, "--json", to, "fix", "--", "touch", "ran")
				contains(r.exits(126).one_sentence(), "a link or pipe that a sandbox may have made", to)
		p.croft("exec", "-q", "--json", "absent/r.json", "fix", "--", "touch", "ran").exits(125).one_sentence()
		sessions.sh(p, "test ! -e ran")
		equal((open(victim, encoding="ascii").read(), os.listdir(outside)), ("mine\n", []), "what the links lead to")
		for to in ("own.json", os.path.join(outside, "r.json")):
			p.croft("exec", "-q", "--json", to, "fix", "--", "true").exits(0)
			with open(os.path.join(p.ws, to), encoding="utf-8") as f:
				equal(json.load(f)["exit"]["code"], 0, to)
		equal(json.loads(p.croft("exec", "-q", "--json", "-", "fix", "--", "true").exits(0).out)["exit"]["code"], 0, "-")
		number = json.loads(p.croft("exec", "-d", "--json", "/dev/stdout", "fix", "--", "true").exits(0).out)["process"]
		sessions.ended(p, number)


@test(tiers=("process", "namespace"))
def test_a_terminal_in_each_tier(p, tier):
	"""It is the command's own: of its size, with job control, and no way to another one of this user's."""
	other, theirs = os.openpty()
	looks = ("stty size; tty; test -t 0 && test -t 1 && test -t 2 && echo all; ps -o tty= -p $$ >/dev/null; "
		"exec 3<>/dev/tty && echo controlling >&3; "
		f"(echo took >{os.ttyname(theirs)}) 2>/dev/null; "
		"chmod 666 /proc/self/fd/0 2>/dev/null && echo changed; read x; echo got $x; exit 9")
	try:
		with sessions.up(p, new=("--tier", tier)):
			with sessions.terminal(p, "exec", "-q", "fix", "--", "sh", "-c", looks, rows=31, cols=97) as t:
				t.expect(b"controlling")
				t.send(b"word\n")
				t.expect(b"got word")
				equal(t.finish(), 9, "exit status")
				for words in (b"31 97", b"all"):
					contains(t.log, words, "what it is")
				equal(select.select([other], [], [], 0)[0], [], "what came to another terminal")
				equal(b"changed" in t.log, tier != "process", "its mode, where the terminal is one of the host's")
			with sessions.terminal(p, "shell", "fix", env={"PS1": "in> "}) as t:
				t.expect(b"$", b"#", b"in> ")
				t.send(b"sleep 100010 & kill %1; exit 4\n")
				equal(t.finish(), 4, "exit status of a shell")
			with sessions.terminal(p, "exec", "-q", "fix", "--", "no-such-program") as t:
				equal(t.finish(), 127, "nothing to execute")
	finally:
		os.close(other)
		os.close(theirs)


@test
def test_standard_descriptors_are_the_callers(p):
	with sessions.up(p):
		r = p.croft("exec", "-q", "fix", "--", "sh", "-c", "cat; echo err >&2", stdin=b"in\0put\n").exits(0)
		equal((r.out, r.err), (b"in\0put\n", b"err\n"), "out, err")
		big = os.urandom(3 << 20)
		equal(p.croft("exec", "-q", "fix", "--", "cat", stdin=big).exits(0).out, big, "3 MiB there and back")
		number = sessions.detach(p, "sh", "-c", "cat; echo end")
		sessions.logged(p, number, "end")
		equal(sessions.logs(p, number), "end\n", "a detached one reads nothing")


@test
def test_what_belongs_to_one_process(p):
	"""argv, environment, directory, time limit and label of each; the boundary is everybody's."""
	with sessions.up(p):
		equal(sessions.sh(p, 'echo "$A $B"', "--env", "A=1 2", "--env", "B", env={"B": "mine"}), "1 2 mine\n", "variables")
		equal(sessions.sh(p, 'echo "[$A$B]"', env={"B": "mine"}), "[]\n", "nobody else's")
		equal(sessions.sh(p, "pwd", cwd=os.path.join(p.ws, "dir")).strip(), os.path.join(p.ws, "dir"), "directory")
		equal(sessions.sh(p, "pwd", cwd=p.home).strip(), p.ws, "directory of a caller elsewhere")
		number = sessions.detach(p, "sleep", "1000", options=("--label", "a long sleep"))
		equal(sessions.process(p, number)["label"], "a long sleep", "label")
		contains(text(p.croft("ps", "fix").out), "a long sleep", "ps")
		receipt = os.path.join(p.root, "r.json")
		p.croft("exec", "-q", "--json", receipt, "--label", "quick", "fix", "--", "true").exits(0)
		with open(receipt, encoding="utf-8") as f:
			equal(json.load(f)["label"], "quick", "label in the receipt")


@test
def test_home_and_tmp_last_as_long_as_the_session(p):
	with sessions.up(p):
		sessions.sh(p, "echo one > ~/kept; echo two > /tmp/kept; mkdir -p ~/.cache && echo 3 > ~/.cache/c")
		equal(sessions.sh(p, "cat ~/kept /tmp/kept ~/.cache/c"), "one\ntwo\n3\n", "in the next command")
		p.croft("down", "-q", "fix").exits(0)
		check(not os.path.exists(os.path.join(p.home, "kept")), "the host has it")
		p.croft("up", "-q", "fix").exits(0)
		equal(sessions.sh(p, "ls ~/kept /tmp/kept 2>/dev/null | wc -l").strip(), "0", "after down and up")
		equal(envs.changed(p, "fix"), [], "it is no change")


@test
def test_logs_by_offset(p):
	with sessions.up(p):
		number = sessions.detach(p, "sh", "-c", "printf 0123456789; printf abc >&2")
		sessions.ended(p, number)
		r = p.croft("logs", "fix", str(number)).exits(0)
		equal((r.out, r.err), (b"0123456789", b"abc"), "out, err")
		equal(sessions.logs(p, number, "--from", "4"), "456789", "from byte 4")
		equal(sessions.logs(p, number, "--from", "13"), "", "from its end")
		r = p.croft("logs", "--from", "14", "fix", str(number)).exits(125)
		contains(r.one_sentence(), f"process {number} has written 13 bytes", "beyond its end")
		p.croft("logs", "--from", "x", "fix").exits(125).one_sentence()
		p.croft("logs", "--from", "-1", "fix").exits(125).one_sentence()
		number = sessions.detach(p, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end")
		sessions.ended(p, number)
		first = sessions.process(p, number)["output_kept_from_b"]
		check(0 < first < 3000004, "what is kept of 3 MB", first)
		r = p.croft("logs", "--from", "7", "fix", str(number)).exits(0)
		contains(text(r.err), f"offset 7 is gone, the first is {first}", "what is gone")
		equal(len(r.out), 3000004 - first, "what is there")
		check(r.out.endswith(b"xend\n"), "its end")
		check(len(r.out) <= 1 << 20, "the bound of a log", len(r.out))
		r = p.croft("logs", "fix", str(number)).exits(0)
		contains(text(r.err), f"the first {first} bytes are gone", "without an offset")
		for _ in range(5):
			equal(len(p.croft("logs", "fix", str(number)).exits(0).out), 3000004 - first, "all that is kept, at whatever speed")


@test
def test_a_reader_holds_its_own_command_back(p):
	"""The caller that reads nothing stops its command as a pipe would; nothing is lost."""
	with sessions.up(p):
		slow = p.start("exec", "-q", "fix", "--", "sh", "-c", "head -c 20000000 /dev/zero; echo end >> /tmp/over")
		wait_for(lambda: [x for x in sessions.ps(p)["processes"] if x["output_b"] > 1 << 20], "output that waits")
		sessions.sh(p, "test ! -e /tmp/over")
		out, _ = slow.communicate(timeout=120)
		equal(len(out), 20000000, "bytes, in the end")
		equal(sessions.sh(p, "cat /tmp/over"), "end\n", "it went on")


@test
def test_why_knows_its_commands(p):
	"""What has something to ask about, while it is up and afterwards."""
	secret = os.path.join(p.home, ".ssh", "id_ed25519")
	p.write(secret, "mine\n")
	with sessions.up(p):
		r = p.croft("exec", "--json", "-", "--timeout", "1s", "fix", "--", "sleep", "100001").exits(124)
		late = json.loads(r.out)["id"]
		quiet = json.loads(p.croft("exec", "--json", "-", "fix", "--", "true").exits(0).out)["id"]
		r = p.croft("exec", "--json", "/dev/stdout", "fix", "--", "sh", "-c", f"cat {secret} >&2; true").exits(0)
		denied = json.loads(r.out)["denials"]
		check(denied or os.geteuid() != 0, "root sees what is denied")  # others need the broker for that
		for _ in range(2):
			contains(text(p.croft("why", late).exits(0).out), "a limit was hit", "by its id")
			p.croft("why", quiet).exits(125).one_sentence()
			if denied:
				contains(text(p.croft("why", denied[0]["id"]).exits(0).out), secret, "one denial")
				contains(text(p.croft("why").exits(0).out), secret, "the latest")
			p.croft("down", "-q", "fix")


@test
def test_options_for_one_that_is_up(p):
	"""None is dropped in silence: it has them, or is refused."""
	with sessions.up(p, "fix", "--read", "/usr", "--linger", "1h", "--env", "A=1", new=("--pids", "500")):
		session = sessions.ps(p)["session"]
		for has in ((), ("--linger", "60m"), ("--read", "/usr"), ("--read", "/usr", "--env", "A=1"), ("--pids", "500"), ("-q",), ("--json",)):
			r = p.croft("up", *has, "fix").exits(0)
			contains(text(r.err), "fix is up already", has)
		for other in (("--read", "/opt"), ("--deny", "./numbers"), ("--publish", "18000:8000"), ("--linger", "2h"), ("--lifetime", "1h"),
			("--pause-idle", "1h"), ("--env", "A=2"), ("--timeout", "10m"), ("--pids", "400"), ("--profile", "strict"),
			("--linger", "1h", "--read", "/opt")):
			r = p.croft("up", *other, "fix").exits(126)
			contains(r.one_sentence(), "croft down fix", other)
		equal(sessions.ps(p)["session"], session, "it goes on")


@test
def test_messages_say_what_to_do(p):
	with sessions.up(p):
		with socket.socket() as taken:
			taken.bind(("127.0.0.1", 0))
			taken.listen()
			port = taken.getsockname()[1]
			r = p.croft("port", "fix", str(port)).exits(125)
			contains(r.one_sentence(), f"croft port fix 0:{port}", "a port that is taken")
		for option in ("-9", "-KILL", "-SIGKILL"):
			number = sessions.detach(p, "sleep", "100001")
			p.croft("kill", option, "fix", str(number)).exits(0)
			equal(sessions.ended(p, number)["exit"], 128 + 9, f"kill {option}")
		p.croft("kill", "-99", "fix", "1").exits(125).one_sentence()
		sessions.sh(p, "echo more >> numbers")
		contains(text(p.croft("status", "fix").exits(0).out), "croft diff fix, walk it with croft review fix", "status")
		waits = p.start("exec", "fix", "--", "sleep", "100001")
		wait_for(lambda: [x for x in sessions.ps(p)["processes"] if x["state"] == "running"], "a command that waits")
		p.croft("down", "-q", "fix").exits(0)
		_, err = waits.communicate(timeout=60)
		equal(waits.returncode, 128 + 15, "its exit status")
		contains(text(err), "the session of fix ended, and the command with it", "who ended it")
	contains(text(p.croft("help", "session").exits(0).out), "man croft-session", "help session")


@test
def test_json_twins(p):
	"""What people read has a form for programs."""
	envs.repository(p)
	envs.new(p, "fix")
	equal(json.loads(p.croft("ps", "--json").exits(0).out), [], "ps when nothing is up")
	try:
		up = json.loads(p.croft("up", "--json", "fix").exits(0).out)
		equal((up["name"], up["state"]), ("fix", "up"), "up")
		again = json.loads(p.croft("up", "--json", "fix").exits(0).out)
		equal(again["session"], up["session"], "up when it is up")
		port = json.loads(p.croft("port", "--json", "fix", "0:8000").exits(0).out)
		equal(port["inside"], 8000, "port")
		listed = json.loads(p.croft("ps", "--json").exits(0).out)
		equal([s["name"] for s in listed], ["fix"], "ps")
		equal([x["host"] for x in listed[0]["ports"]], [port["host"]], "ports")
		equal(listed[0]["session"], up["session"], "ps: the session")
		number = json.loads(p.croft("exec", "-d", "--json", "-", "fix", "--", "sleep", "1000").exits(0).out)
		equal(number["process"], 1, "exec -d")
		down = json.loads(p.croft("down", "--json", "fix").exits(0).out)
		equal((down["name"], down["state"]), ("fix", "down"), "down")
	finally:
		p.croft("down", "-q", "--now", "fix")


@test
def test_records_of_commands_that_ran_at_once(p):
	with sessions.up(p):
		running = [p.start("exec", "-q", "fix", "--", "sh", "-c", f"echo {i} > made-{i}; echo out {i}; exit {i}") for i in range(8)]
		for i, r in enumerate(running):
			out, _ = r.communicate(timeout=60)
			equal((out, r.returncode), (b"out %d\n" % i, i), f"command {i}")
		p.croft("down", "-q", "fix").exits(0)
	log = json.loads(p.croft("log", "--json", "fix").exits(0).out)
	entries = [x for e in log["events"] for x in e.get("entries", [])]
	started = {x["process"]: x for x in entries if x["kind"] == "started"}
	over = {x["process"]: x for x in entries if x["kind"] == "ended"}
	equal((len(started), len(over)), (8, 8), "started and ended")
	for number, x in over.items():
		made = started[number]["command"][-1]
		check(made.endswith(f"exit {x['exit']}"), "who ended how", made, x)
	envs.verify(p, "fix")
	equal(envs.changed(p, "fix"), [f"made-{i}" for i in range(8)], "what is staged")


main()
