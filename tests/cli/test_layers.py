#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Many snapshots: layers are put together, and every snapshot can still be restored and forked."""
import json
import os
import subprocess

from harness import SANITIZED, Skip, check, equal, main, need, test, text

# One step changes, deletes, makes again, replaces files by directories and back: what layers must merge.
STEP = r"""
set -e
n=$1
echo $n > counter
echo $n > only-$n
[ $n -lt 3 ] || rm only-$((n - 2))
case $((n % 6)) in
0) rm -rf dir; echo file > dir;;
1) rm -rf dir; mkdir -p dir/sub; echo $n > dir/sub/f;;
2) mkdir -p dir/more; echo $n > dir/more/g; chmod 700 dir/more;;
3) rm -rf tree; mkdir tree; echo $n > tree/new;;
4) rm -f base; ln -sfn counter link;;
5) echo $n > base; rm -rf tree; ln -f counter hard;;
esac
echo $n >> ignored/log
"""
# What shows: names, kinds, modes, contents.
SHOW = r"""
find . -path ./.git -prune -o -printf '%P %y %m %l\n' | sort
find . -path ./.git -prune -o -type f -print | sort | while read -r f; do echo "== $f"; cat "$f"; done
"""


def environment(p):
	git = need("git")
	p.write("base", "as committed\n")
	p.write("tree/old", "as committed\n")
	p.write(".gitignore", "ignored/\n")
	subprocess.run(f"{git} init -q . && {git} add -A && {git} -c user.name=t -c user.email=t@t commit -qm t",
		shell=True, cwd=p.ws, env=p.env, check=True, stdout=subprocess.DEVNULL)
	p.write("ignored/log", "")
	p.write("step", STEP)
	p.write("show", SHOW)
	r = p.croft("new", "e", "--dirty", "-q")
	if r.rc == 126:
		raise Skip(text(r.err).strip())
	r.exits(0)


def show(p, env):
	return p.croft("exec", env, "-q", "--read-only", "--", "sh", "./show").exits(0).out


def record(p):
	with open(os.path.join(p.home, ".local/state/croft/envs/e/env.json"), encoding="utf-8") as f:
		return json.load(f)


def step(p, n):
	p.croft("exec", "e", "-q", "--", "sh", "./step", str(n)).exits(0)


@test
def test_snapshots_go_on_beyond_the_layers(p):
	"""120 real steps and 130 more without a change: restore and fork early, middle and late ones."""
	environment(p)
	steps, total = (40, 60) if SANITIZED else (120, 250)
	seen = {}
	for n in range(1, steps + 1):
		step(p, n)
		if n in (1, 20, 31, 32, 33, 64, 65, 100, steps):
			seen[n] = show(p, "e")
		p.croft("snapshot", "e", f"n{n}").exits(0)
	for n in range(steps + 1, total + 1):
		p.croft("snapshot", "e", f"n{n}").exits(0)
	equal(len(record(p)["snapshots"]), total, "snapshots")
	check(len(record(p)["layers"]) <= 34, "layers of the environment", record(p)["layers"])
	equal(show(p, "e"), seen[steps], "after everything")
	diff = p.croft("diff", "e", "--stat").exits(0).out
	check(b"counter" in diff and f"only-{steps}".encode() in diff and b"only-1 " not in diff, "what is changed", diff)
	for n, want in seen.items():
		p.croft("restore", "e", f"n{n}").exits(0)
		equal(text(show(p, "e")), text(want), f"restored n{n}")
		p.croft("fork", "e", f"f{n}").exits(0)
		equal(text(show(p, f"f{n}")), text(want), f"forked from n{n}")
	p.croft("gc").exits(0)
	for n, want in seen.items():
		equal(text(show(p, f"f{n}")), text(want), f"fork of n{n} after gc")
	# Work goes on above layers that were put together, and lands as it shows.
	p.croft("restore", "e", f"n{steps}").exits(0)
	step(p, steps + 1)
	staged = p.croft("exec", "e", "-q", "--read-only", "--", "cat", "counter").exits(0).out
	equal(staged, b"%d\n" % (steps + 1), "counter")
	p.croft("evidence", "verify", "e").exits(0)


@test
def test_unreadable_layers_are_kept_apart(p):
	"""What cannot be put together stays many layers, until there are too many: then it is said why."""
	if os.geteuid() == 0:
		raise Skip("root reads everything")
	environment(p)
	p.croft("exec", "e", "-q", "--", "sh", "-c", "mkdir closed; echo x > closed/f; chmod 0 closed").exits(0)
	for n in range(40):
		p.croft("exec", "e", "-q", "--", "sh", "-c", f"echo {n} > counter").exits(0)
		p.croft("snapshot", "e", f"n{n}").exits(0)
	check(len(record(p)["layers"]) > 40, "layers", len(record(p)["layers"]))
	equal(p.croft("exec", "e", "-q", "--read-only", "--", "cat", "counter").exits(0).out, b"39\n")


if __name__ == "__main__":
	main()
