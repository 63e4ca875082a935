#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""What the pages show: their commands are run in the order of the page, and print what the page says."""
import os
import re
import subprocess

import envs
from harness import BUILD, CROFT, FORCED, Failed, Skip, TOP, check, main, need, need_tier, test, text

# What differs from one time to the next.
VOLATILE = ((r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"), (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
	(r"\d\d/[A-Z][a-z]{2}/\d{4} \d\d:\d\d:\d\d", "TIME"),
	(r"process \d{2,}", "process N"), (r" +\d+\.\d s ", " N s "), (r"127\.0\.0\.1:[1-79]\d{3,4}\b", "127.0.0.1:PORT"), (r"\([0-9a-f]{16}\)", "(ID)"),
	(r"\d+ events", "N events"), (r"key [0-9a-f]{16}…", "key KEY…"), (r"\d+\.\d ms", "N ms"), (r"\[[0-9a-f]{10}\]", "[RUN]"),
	(r"commit [0-9a-f]{12}", "commit COMMIT"), (r"\b[0-9a-f]{7} ", "COMMIT "))
# Where the pages say that things are.
HOME, PROJECT = "/home/ann", "/home/ann/project"


def masked(words):
	words = re.sub(r"  less    .*\n", "", words)  # where something of this machine is missing
	for pattern, name in VOLATILE:
		words = re.sub(pattern, name, words)
	return words


def steps(page):
	"""(command, what the page says that it prints), in order."""
	found = []
	with open(os.path.join(TOP, page), encoding="utf-8") as f:
		blocks = re.findall(r"```console\n(.*?)```", f.read(), re.S)
	for line in "".join(blocks).splitlines(keepends=True):
		if line.startswith("$ "):
			found.append([line[2:].rstrip("\n"), ""])
		else:
			found[-1][1] += line
	check(found, f"{page} shows no command")
	return found


def follow(p, page, change=lambda command: command, after=lambda command, got: None, **env):
	env = {**p.env, "PATH": os.path.dirname(CROFT) + ":" + p.env["PATH"], "BUILD": BUILD, **env}
	for command, says in steps(page):
		r = subprocess.run(["sh", "-c", change(command)], cwd=p.ws, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
			stderr=subprocess.STDOUT, timeout=120, check=False)
		got = text(r.stdout).replace(p.ws, PROJECT).replace(p.home, HOME)
		after(command, got)
		if masked(got) != masked(says):
			raise Failed(f"{page}: $ {command}\nprints\n{got}\nand the page says\n{says}")


def project(p, **files):
	need_tier("namespace")
	if FORCED:
		raise Skip("what is forced away changes what is printed")
	envs.repository(p)
	for name, words in files.items():
		p.write(name.replace("__", "."), words)
		os.chmod(os.path.join(p.ws, name.replace("__", ".")), 0o755)
	envs.git(p, "add", "-A")
	envs.git(p, "commit", "-q", "--allow-empty", "-m", "files")


@test
def test_sessions(p):
	need("curl")
	envs.repository(p)
	p.write("hello.txt", "hello\n")
	envs.git(p, "add", "-A")
	envs.git(p, "commit", "-qm", "hello")
	port = []

	def change(command):
		return command.replace("127.0.0.1:41231", port[0]) if port else command

	def after(command, got):
		if command.startswith("croft port"):
			port[:] = [got.strip()]
	try:
		follow(p, "docs/SESSIONS.md", change, after)
	finally:
		p.croft("down", "-q", "--now", "fix")


@test
def test_readme(p):
	"""The script is the one that the page shows."""
	script = dict(steps("README.md"))["cat agent.sh"]
	project(p, agent__sh=script, greeting__txt="hello\n")
	p.write(p.home + "/.ssh/id_ed25519", "the key\n")
	follow(p, "README.md")


@test
def test_install(p):
	need("curl")
	project(p)
	follow(p, "docs/INSTALL.md")


# In the place of the real one, which make test-agents runs: it edits, commits, and changes its own configuration.
CLAUDE = """#!/bin/sh
echo hello > greeting.txt
git commit -qam 'Mend the greeting'
echo '{"hooks": {}}' > ~/.claude/settings.json
echo 'The greeting is mended, checked and committed.'
"""


@test
def test_agents(p):
	project(p, greeting__txt="helo\n")
	p.write(p.home + "/.claude/settings.json", "{}\n")
	p.write(p.home + "/.claude.json", "{}\n")
	os.chmod(p.write(p.home + "/.local/bin/claude", CLAUDE), 0o755)
	follow(p, "docs/AGENTS.md", PATH=os.path.dirname(CROFT) + ":" + p.home + "/.local/bin:" + p.env["PATH"],
		ANTHROPIC_API_KEY="sk-ant-api03-not-a-key-000000000000")


main()
