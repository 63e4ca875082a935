#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""The library as programs use it: the example of docs/LIBRARY.md, and what croft.h promises."""
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TOP, "tests", "cli"))
from harness import CROFT, Skip, check, contains, equal, lacks, main, test, text  # noqa: E402

PREFIX = os.environ.get("CROFT_TEST_PREFIX")
# What a caller's threads run of the library, and what a sanitizer is to look at.
OWN_SIDE = ("src/api/sandbox.c", "src/api/session.c", "src/api/session_list.c", "src/api/spawn_session.c",
	"src/api/receipt_info.c", "src/api/croft.c", "src/ipc/session_link.c", "src/ipc/session_receipt.c",
	"src/session/join/join.c", "src/base/*.c")


def pkg_config(*what):
	env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(PREFIX, "lib", "pkgconfig")}
	return subprocess.run(["pkg-config", *what, "croft"], env=env, check=True, stdout=subprocess.PIPE,
		).stdout.decode().split()


def compile_with(out, sources, flags):
	r = subprocess.run(["cc", "-g", "-o", out, *sources, *flags], stdout=subprocess.PIPE,
		stderr=subprocess.STDOUT, check=False)
	check(r.returncode == 0, "it does not compile", text(r.stdout)[-3000:])


def build(p, name, source):
	"""A program as its author would build it; warnings are errors, as theirs may be."""
	out = os.path.join(p.root, name)
	compile_with(out, [source], ["-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-pthread",
		*pkg_config("--cflags", "--libs", "--static")])
	return out


def build_sanitized(p, kind, source):
	"""The program and the library's own side are looked at; the rest of the library is as it is."""
	out = os.path.join(p.root, "client-" + kind)
	own = [f for pattern in OWN_SIDE for f in sorted(glob.glob(os.path.join(TOP, pattern)))]
	flags = ["-fsanitize=" + kind, "-O1", "-pthread", "-D_GNU_SOURCE", "-std=gnu17", "-fno-strict-aliasing",
		"-I" + os.path.join(TOP, "include"), "-I" + os.path.join(TOP, "src"),
		os.path.join(PREFIX, "lib", "libcroft-whole.a"),
		*[f for f in pkg_config("--libs", "--static") if f != "-lcroft"]]
	compile_with(out, [source, *own], flags)
	return out


def example(p):
	with open(os.path.join(TOP, "docs", "LIBRARY.md"), encoding="utf-8") as fh:
		found = re.findall(r"```c\n(.*?)```", fh.read(), re.S)
	whole = [f for f in found if "int main(" in f]
	equal(len(whole), 1, "whole programs in docs/LIBRARY.md")
	path = os.path.join(p.root, "library.c")
	with open(path, "w", encoding="utf-8") as fh:
		fh.write(whole[0])
	return path, whole[0]


def program_env(p):
	"""croft is found by PATH, as it is after an installation."""
	where = os.path.join(p.root, "bin")
	os.makedirs(where, exist_ok=True)
	if not os.path.exists(os.path.join(where, "croft")):
		os.symlink(CROFT, os.path.join(where, "croft"))
	return {**p.env, "PATH": where + ":" + p.env["PATH"]}


def installed():
	if not PREFIX:
		raise Skip("not installed: tools/run-tests api does that")


def client(p, program, env):
	with open(os.path.join(p.ws, "data"), "w", encoding="utf-8") as fh:
		fh.write("data\n")
	p.croft("new", "--quiet", "--observe", "writes", "lib").exits(0)
	r = subprocess.run([program, CROFT, p.ws, "lib"], cwd=p.ws, env={**program_env(p), **env},
		stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
	out = text(r.stdout)
	bad = [line for line in out.splitlines() if line.startswith("not ok")]
	check(r.returncode == 0 and not bad and "ok - until it is stopped" in out, "the client failed", out[-6000:])
	lacks(out, "Sanitizer", "what the client says")
	return out


@test
def test_the_example_runs(p):
	installed()
	path, source = example(p)
	check(source.count("\n") <= 120, "it is longer than an example may be")
	program = build(p, "library", path)
	r = subprocess.run([program, p.ws], cwd=p.root, env=program_env(p), stdin=subprocess.DEVNULL,
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
	out = text(r.stdout)
	equal(r.returncode, 0, "exit status; it says:\n" + out)
	for line in ("look [1] line 1", "line 3", "make [2] warned"):
		contains(out, line)
	check(re.search(r"^look: exit [12], \d+ us, \d+ KiB, [a-z]+ tier, record \d+\.\d+$", out, re.M), "no receipt", out)
	check(re.search(r"^look: denied /etc/motd, \d+ times$", out, re.M), "no denial", out)
	check(re.search(r"^look: down, nothing is left$", out, re.M), "it left something", out)
	check(re.search(r"^make: down, changes are kept$", out, re.M), "it kept nothing", out)
	equal(os.path.exists(os.path.join(p.ws, "made.txt")), False, "written in place")


@test
def test_the_header_is_true(p):
	installed()
	client(p, build(p, "client", os.path.join(TOP, "tests", "api", "client.c")), {})


@test
def test_threads_do_not_race(p):
	installed()
	program = build_sanitized(p, "thread", os.path.join(TOP, "tests", "api", "client.c"))
	client(p, program, {"TSAN_OPTIONS": "halt_on_error=1:exitcode=66:die_after_fork=0"})


@test
def test_memory_is_used_well(p):
	installed()
	program = build_sanitized(p, "address", os.path.join(TOP, "tests", "api", "client.c"))
	client(p, program, {"ASAN_OPTIONS": "detect_leaks=1:exitcode=67"})


@test
def test_the_sanitizer_would_see_a_race(p):
	"""The control: with one struct croft in two threads it speaks."""
	installed()
	source = os.path.join(p.root, "race.c")
	with open(source, "w", encoding="utf-8") as fh:
		fh.write("""
#include <croft.h>
#include <pthread.h>
static void *fail(void *c)
{
	struct croft_sandbox *s;
	for (int i = 0; i < 100; i++)
		croft_sandbox_open(c, "no-such-environment", &s);
	return 0;
}
int main(void)
{
	struct croft *c = croft_new();
	pthread_t t;
	pthread_create(&t, 0, fail, c);
	fail(c);
	return pthread_join(t, 0);
}
""")
	program = build_sanitized(p, "thread", source)
	r = subprocess.run([program], cwd=p.ws, env={**program_env(p), "TSAN_OPTIONS": "exitcode=66"},
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
	if b"unexpected memory mapping" in r.stdout:
		raise Skip("this kernel places memory where ThreadSanitizer cannot run")
	equal(r.returncode, 66, "exit status; it says:\n" + text(r.stdout)[-2000:])
	contains(text(r.stdout), "data race")


if __name__ == "__main__":
	main()
