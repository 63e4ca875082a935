#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session in which nothing runs is small: few processes, little memory, no gateway. And nobody else can tell."""
import json
import os

from envs import new, repository, verify
from harness import check, contains, equal, main, need_tier, parent_of, test, text, wait_for


def up(p, *options, **env):
	repository(p)
	new(p)
	p.croft("up", "-q", *options, "e", env=env).exits(0)
	return ps(p)["pid"]


def ps(p):
	return json.loads(p.croft("ps", "--json", "e").exits(0).out)


def run(p, *words):
	return text(p.croft("exec", "-q", "e", "--", *words).exits(0).out)


def below(pid):
	"""The processes of a session: what descends from it, and itself."""
	found, grown = {pid}, True
	while grown:
		new_ones = {int(q) for q in os.listdir("/proc") if q.isdigit() and parent_of(int(q)) in found} - found
		found |= new_ones
		grown = bool(new_ones)
	return found


def private_kb(pid):
	with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
		return sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty"))


def code_kb(pid):
	"""Pages of the program's own code that the process holds."""
	held, inside = 0, False
	with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as f:
		for line in f:
			if "-" in line.split()[0] and not line.split()[0].endswith(":"):
				inside = " r-xp " in line and line.rstrip().endswith("/croft")
			elif inside and line.startswith("Rss:"):
				held += int(line.split()[1])
	return held


def comms(pids):
	found = []
	for pid in pids:
		try:
			with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as f:
				found.append(f.read().strip())
		except OSError:
			pass
	return found


@test
def what_a_burst_needed_is_given_back(p):
	need_tier("namespace")
	pid = up(p)
	for _ in range(4):
		p.croft("exec", "-d", "e", "--", "sh", "-c", "mkfifo /tmp/g$$ && read line < /tmp/g$$").exits(0)
	check(len(below(pid)) > 3, "a burst has more processes than a session at rest (the control)")
	check(code_kb(pid) >= 1000, "a session that works holds its code (the control)", code_kb(pid))
	for x in ps(p)["processes"]:
		p.croft("kill", "-s", "KILL", "e", str(x["process"])).exits(0)
	wait_for(lambda: len(below(pid)) == 3, "session, first process and one reaper are left")
	wait_for(lambda: code_kb(pid) < 1000, "the session's code is given back")
	equal(run(p, "echo", "fine"), "fine\n")
	p.croft("down", "-q", "e").exits(0)


@test
def commands_that_have_ended_keep_no_receipt(p):
	need_tier("namespace")
	pid = up(p)
	for i in range(4):
		run(p, "echo", str(i))
	before = private_kb(pid)
	for i in range(60):
		run(p, "echo", str(i))
	wait_for(lambda: private_kb(pid) < before + 400, "sixty commands leave less than 400 KiB")
	wait_for(lambda: ps(p)["processes"][0]["state"] == "ended", "the last command is over")
	last = ps(p)["processes"][0]
	equal((last["command"], last["exit"]), (["echo", "59"], 0))
	contains(last["started"], "T")
	equal(text(p.croft("logs", "e", str(last["process"])).exits(0).out), "59\n")
	p.croft("exec", "-q", "e", "--", "sh", "-c", "exit 3").exits(3)
	wait_for(lambda: ps(p)["processes"][0]["state"] == "ended", "it is over")
	equal(ps(p)["processes"][0]["exit"], 3)
	p.croft("down", "-q", "e").exits(0)
	verify(p)


@test
def the_gateway_goes_and_comes_back(p):
	need_tier("namespace")
	pid = up(p, "--allow-host", "example.com", CROFT_GATEWAY_REST_MS="200")
	check("croft-gateway" not in comms(below(pid)), "no gateway before the first packet")
	first = run(p, "getent", "ahostsv4", "example.com")
	contains(first, "198.18.")
	wait_for(lambda: "croft-gateway" not in comms(below(pid)), "the gateway goes")
	equal(run(p, "getent", "ahostsv4", "other.example.org").split()[0] == first.split()[0], False)
	wait_for(lambda: "croft-gateway" not in comms(below(pid)), "the gateway goes again")
	equal(run(p, "getent", "ahostsv4", "example.com"), first, "the address of a name")
	p.croft("down", "-q", "e").exits(0)
	verify(p)


main()
