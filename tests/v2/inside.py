#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make test-v2` runs in its machine: see tools/test-v2. Started by systemd in a unit of system.slice."""
import glob
import os
import re
import subprocess
import sys
import time

TREE = "/srv/croft"
# What depends on cgroups, as it is on every user's machine; names are those of tools/run-tests.
NAMES = ("unit/cgroup", "unit/freezer", "cli/doctor", "cli/table", "escape/resources", "escape/pids",
	"escape/diskstage", "escape/session")
SLOW = 8  # how much longer a test may take in emulation


def option(name):
	with open("/proc/cmdline", encoding="utf-8") as f:
		m = re.search(rf"\bcroft\.{name}=(\S*)", f.read())
	return m.group(1) if m else ""


def names():
	given = [n for n in option("names").split(",") if n]
	if given:
		return given
	found = [n for n in NAMES if exists(n)]
	return found + ["cli/" + os.path.basename(p)[5:-3] for p in sorted(glob.glob(f"{TREE}/tests/cli/test_session*.py"))]


def exists(name):
	area, part = name.split("/")
	return os.path.exists(f"{TREE}/build/tests/unit-{part}" if area == "unit" else f"{TREE}/tests/{area}/test_{part}.py")


def say(*words):
	print(*words, flush=True)


def run(title, argv, **kw):
	"""A part; its own last line is added up outside."""
	start = time.monotonic()
	say(f"\n== {title}")
	r = subprocess.run(argv, stdin=subprocess.DEVNULL, check=False, **kw)
	say(f"== {title}: status {r.returncode} after {time.monotonic() - start:.0f} s")


def environment():
	slow = str(SLOW if option("accel") == "tcg" else 1)
	return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
		"CROFT_TEST_SLOW": slow, "BUILD": f"{TREE}/build", "HOME": os.path.expanduser("~")}


def as_root(tests):
	"""In a unit of system.slice, as a service or a scheduled job runs croft. The labels choose root's half."""
	labels = [n if n.startswith("unit/") else n + " (root)" for n in tests]
	run("root, in system.slice", ["systemd-run", "--quiet", "--wait", "--pipe", "--unit=croft-as-root",
		*(f"--setenv={k}={v}" for k, v in environment().items()),
		f"{TREE}/tools/run-tests", *labels])


LOGIN = ["systemd-run", "--quiet", "--wait", "--pipe", "-p", "User=tester", "-p", "PAMName=login"]


def as_user(tests, delegated):
	"""After a login: XDG_RUNTIME_DIR and the user's own manager are there, as pam_systemd makes them."""
	env = environment()
	del env["HOME"]
	inner = [f"{TREE}/tools/run-tests", *tests]
	if delegated:
		inner = ["systemd-run", "--user", "--scope", "--quiet", "-p", "Delegate=yes", *inner]
	run("user, in a scope with Delegate=yes" if delegated else "user, in a plain login",
		[*LOGIN, *(f"--setenv={k}={v}" for k, v in env.items()), *inner])


def describe():
	for path in ("/proc/version", "/proc/cmdline", "/sys/fs/cgroup/cgroup.controllers", "/sys/kernel/security/lsm"):
		try:
			with open(path, encoding="utf-8") as f:
				say(f"{path}: {f.read().strip()}")
		except OSError as e:
			say(f"{path}: {e.strerror}")
	say("systemd", subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0])
	say("/proc/mounts:", *(line for line in open("/proc/mounts", encoding="utf-8") if "cgroup" in line))


def main():
	tests = names()
	describe()
	say("tests:", *tests)
	who = [w for w in option("as").split(",") if w] or ["root", "user", "login"]
	if "root" in who:
		as_root(tests)
	if "user" in who:
		as_user(tests, True)
	if "login" in who:
		as_user([n for n in tests if n in ("unit/cgroup", "escape/resources", "cli/doctor")] or tests, False)
	say("\ncroft's tests are done")
	return 0


if __name__ == "__main__":
	sys.exit(main())
