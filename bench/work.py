# SPDX-License-Identifier: Apache-2.0
"""Ordinary work to run inside: a C project to build, a large Git tree to query and to walk.

All of it is generated, from fixed seeds, so that two machines do the same work.
"""

import os
import random
import subprocess

GIT_DIRS, GIT_FILES_PER_DIR = 250, 200
C_FILES, C_FUNCTIONS = 60, 40


def write(path, text):
	with open(path, "w", encoding="utf-8") as f:
		f.write(text)


def c_function(rng, unit, n):
	"""One function with enough in it that the optimiser has something to do."""
	size = rng.randrange(8, 40)
	return f"""
static int step_{unit}_{n}(int *v, size_t n, unsigned k)
{{
	int sum = 0;
	for (size_t i = 0; i < n; i++) {{
		switch ((unsigned)v[i] % {rng.randrange(3, 9)}u) {{
		case 0: v[i] = v[i] * {rng.randrange(3, 99)} + (int)k; break;
		case 1: v[i] ^= (int)(k << {rng.randrange(1, 13)}); break;
		case 2: sum += v[(i * {rng.randrange(3, 31)}) % n]; break;
		default: v[i] -= sum / {rng.randrange(2, 17)}; break;
		}}
	}}
	return sum % {size * 97};
}}
"""


def c_project(path):
	"""About 60 files, headers shared by all, built with plain make. Returns the command."""
	rng = random.Random(7)
	os.makedirs(path, exist_ok=True)
	names = [f"unit{i:02}" for i in range(C_FILES)]
	write(os.path.join(path, "all.h"), "#include <stddef.h>\n#include <stdint.h>\n" +
		  "".join(f"int {n}(int *v, size_t n);\n" for n in names))
	for i, name in enumerate(names):
		body = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
		body += '#include <sys/stat.h>\n#include "all.h"\n'
		body += "".join(c_function(rng, i, n) for n in range(C_FUNCTIONS))
		calls = "".join(f"\tsum += step_{i}_{n}(v, n, {n}u);\n" for n in range(C_FUNCTIONS))
		body += f"\nint {name}(int *v, size_t n)\n{{\n\tint sum = 0;\n{calls}\treturn sum;\n}}\n"
		write(os.path.join(path, name + ".c"), body)
	calls = "".join(f"\tr += {n}(v, 64);\n" for n in names)
	write(os.path.join(path, "main.c"), '#include "all.h"\nint main(void)\n{\n\tint v[64] = {1}, r = 0;\n' +
		  calls + "\treturn r == 42;\n}\n")
	write(os.path.join(path, "Makefile"),
		  "OBJ := $(patsubst %.c,%.o,$(wildcard *.c))\nCFLAGS = -O1\nprog: $(OBJ)\n\t$(CC) -o $@ $^\n"
		  "$(OBJ): all.h\nclean:\n\trm -f prog *.o\n.PHONY: clean\n")
	return ["/usr/bin/make", "-s", "-j2", "prog"], "make -s clean"


def git_tree(path, env, quick):
	"""A repository of 50,000 files of a few KiB in one commit, with a refreshed index."""
	dirs = GIT_DIRS // 10 if quick else GIT_DIRS
	rng = random.Random(11)
	words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 10))) for _ in range(500)]
	lines = [" ".join(rng.choices(words, k=6)) + "\n" for _ in range(2000)]
	for d in range(dirs):
		sub = os.path.join(path, f"part{d % 10}", f"dir{d:03}")
		os.makedirs(sub, exist_ok=True)
		for f in range(GIT_FILES_PER_DIR):
			start, count = rng.randrange(1800), rng.randrange(20, 200)  # 0.8 to 8 KiB, as sources are
			text = "".join(lines[start:start + count]) + ("the needle\n" if rng.randrange(500) == 0 else "")
			write(os.path.join(sub, f"file{f:03}.txt"), text)
	git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]
	for args in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "tree"], ["status", "--porcelain"]):
		subprocess.run([*git, *args], cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)
	return dirs * GIT_FILES_PER_DIR
