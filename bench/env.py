# SPDX-License-Identifier: Apache-2.0
"""What environments cost: making one beside `git worktree add`, seeing changes beside `git status`, recording, freezing.

Each pair is interleaved in one run and reported as a ratio. Repositories of 1,000 and 100,000 files are made by
`git fast-import`; both tools work on the same one.
"""

import json
import os
import shutil
import subprocess
import time

import stats

SMALL, LARGE = 1000, 100000
GIB = 1 << 30


def call(site, argv, cwd, quiet=True):
	r = subprocess.run(argv, cwd=cwd, env=site.env, stdin=subprocess.DEVNULL,
		stdout=subprocess.DEVNULL if quiet else subprocess.PIPE, stderr=subprocess.PIPE, check=False)
	if r.returncode:
		raise RuntimeError(f"{' '.join(argv[:4])}: {r.stderr.decode('utf-8', 'replace').strip()[-400:]}")
	return r.stdout


def timed(site, argv, cwd):
	start = time.perf_counter()
	call(site, argv, cwd)
	return time.perf_counter() - start


def disk(path):
	"""Blocks really allocated, each inode once."""
	seen, total = set(), 0
	for root, _, files in os.walk(path):
		for name in [".", *files]:
			st = os.lstat(os.path.join(root, name))
			if (st.st_dev, st.st_ino) not in seen:
				seen.add((st.st_dev, st.st_ino))
				total += st.st_blocks * 512
	return total


def repository(site, path, count):
	"""A repository of this many small files in directories of about 50."""
	os.makedirs(path)
	call(site, ["git", "init", "-q", "-b", "main"], path)
	call(site, ["git", "config", "user.name", "Bench"], path)
	call(site, ["git", "config", "user.email", "bench@example.com"], path)
	stream = bytearray(b"commit refs/heads/main\ncommitter Bench <bench@example.com> 1700000000 +0000\ndata 4\nbase\n")
	for i in range(count):
		body = f"file {i}\n".encode() * (5 + i % 40)
		stream += b"M 100644 inline d%03d/e%02d/f%06d.txt\ndata %d\n" % (i // 1000, i // 50 % 20, i, len(body)) + body + b"\n"
	subprocess.run(["git", "fast-import", "--quiet"], cwd=path, env=site.env, input=bytes(stream), check=True)
	call(site, ["git", "reset", "-q", "--hard"], path)
	return path


def state_dir(site):
	return os.path.join(site.env["HOME"], ".local", "state", "croft")


def measure_new(site, repo, rounds, found):
	"""The second environment on a commit, and a worktree, in turn."""
	first = timed(site, [site.croft, "new", "-q", "bench-first"], repo)
	ours, theirs = [], []
	for i in range(rounds):
		tree = os.path.join(site.root, "worktree")
		theirs.append(timed(site, ["git", "worktree", "add", "-q", "--detach", tree], repo))
		used_worktree = disk(tree)
		call(site, ["git", "worktree", "remove", "--force", tree], repo)
		before = disk(os.path.join(state_dir(site), "layers")) + disk(os.path.join(state_dir(site), "envs"))
		ours.append(timed(site, [site.croft, "new", "-q", f"bench-{i}"], repo))
		used = disk(os.path.join(state_dir(site), "layers")) + disk(os.path.join(state_dir(site), "envs")) - before
	found["first_s"] = first
	found["new"] = {"croft": stats.summary(ours), "git worktree add": stats.summary(theirs),
		"ratio": stats.paired_ratio(theirs, ours)}
	found["disk"] = {"croft_b": used, "worktree_b": used_worktree, "ratio": used / used_worktree}


def measure_diff(site, repo, rounds, found):
	"""A handful of changes among many files, seen by each tool on its own copy of them."""
	script = "for d in d000 d001; do for f in $d/e00/*.txt; do echo changed >>$f; done; done; echo new >new.txt"
	call(site, [site.croft, "exec", "-q", "bench-first", "--", "/bin/sh", "-c", script], repo)
	call(site, ["/bin/sh", "-c", script], repo)
	ours, theirs = [], []
	call(site, ["git", "status", "--porcelain"], repo)
	for _ in range(rounds):
		theirs.append(timed(site, ["git", "status", "--porcelain"], repo))
		ours.append(timed(site, [site.croft, "diff", "--stat", "bench-first"], repo))
	call(site, ["git", "reset", "-q", "--hard"], repo)
	call(site, ["git", "clean", "-fdq"], repo)
	found["diff"] = {"croft": stats.summary(ours), "git status": stats.summary(theirs),
		"ratio": stats.paired_ratio(ours, theirs)}


def measure_record(site, repo, rounds, found):
	"""A command in an environment with and without its record."""
	plain, recorded = [], []
	for _ in range(rounds):
		plain.append(timed(site, [site.croft, "exec", "-q", "--read-only", "bench-first", "--", "/bin/true"], repo))
		recorded.append(timed(site, [site.croft, "exec", "-q", "bench-first", "--", "/bin/true"], repo))
	found["record"] = {"without": stats.summary(plain), "with": stats.summary(recorded),
		"added_s": stats.percentile([b - a for a, b in zip(plain, recorded)], 50)}


def measure_freeze(site, repo, rounds, found, size):
	"""snapshot and fork of an environment with little and with much in it."""
	call(site, [site.croft, "new", "-q", "bench-big"], repo)
	call(site, [site.croft, "exec", "-q", "--disk", "none", "bench-big", "--", "/bin/sh", "-c",
		f"head -c {size} /dev/urandom >big.bin"], repo)
	call(site, [site.croft, "new", "-q", "bench-little"], repo)
	call(site, [site.croft, "exec", "-q", "bench-little", "--", "/bin/sh", "-c", "echo x >small.txt"], repo)
	times = {(verb, env): [] for verb in ("snapshot", "fork") for env in ("big", "little")}
	for i in range(rounds):
		for env in ("big", "little"):
			times["snapshot", env].append(timed(site, [site.croft, "snapshot", "-q", f"bench-{env}", f"s-{i}"], repo))
			times["fork", env].append(timed(site, [site.croft, "fork", "-q", f"bench-{env}", f"bench-{env}-{i}"], repo))
	for verb in ("snapshot", "fork"):
		found[verb] = {"big": stats.summary(times[verb, "big"]), "little": stats.summary(times[verb, "little"]),
			"ratio": stats.paired_ratio(times[verb, "big"], times[verb, "little"])}
	found["freeze_bytes"] = size


def remove_all(site, repo):
	out = call(site, [site.croft, "ls", "--all", "--json"], repo, quiet=False)
	for e in json.loads(out)["environments"]:
		call(site, [site.croft, "rm", "-q", "--force", e["name"]], repo)


def measure(site, options, progress, skipped):
	if not shutil.which("git"):
		skipped["environments"] = "git is not installed"
		return {}
	large = 5000 if options.quick else LARGE
	rounds = 3 if options.quick else 5 # a worktree of the large one takes the better part of a minute
	results = {}
	for name, count in (("small", SMALL), ("large", large)):
		progress(f"environments: a repository of {count} files")
		repo = repository(site, os.path.join(site.root, f"env-{name}"), count)
		found = results[name] = {"files": count}
		progress(f"environments: new, {count} files")
		measure_new(site, repo, rounds, found)
		progress(f"environments: diff, {count} files")
		measure_diff(site, repo, rounds, found)
		progress(f"environments: recording, {count} files")
		measure_record(site, repo, 3 * rounds, found)
		if name == "large":
			progress("environments: snapshot and fork")
			measure_freeze(site, repo, rounds, found, 16 << 20 if options.quick else GIB)
		remove_all(site, repo)
	return results


def bars(results):
	if not results:
		return
	large, small = results["large"], results["small"]
	flat = large["new"]["croft"]["p50"] / small["new"]["croft"]["p50"]

	def bar(text, value, met):
		return text, value, met

	value = large["new"]["ratio"]["p50"]
	yield bar(f"git worktree add / croft new, {large['files']} files ≥ 20", value, value >= 20)
	value = large["disk"]["ratio"]
	yield bar("disk of a further environment / worktree ≤ 0.01", value, value <= 0.01)
	yield bar(f"croft new, {large['files']} / {small['files']} files ≤ 1.3 (flat)", flat, flat <= 1.3)
	value = large["diff"]["ratio"]["p50"]
	yield bar("croft diff / git status ≤ 0.3", value, value <= 0.3)
	value = large["record"]["added_s"] * 1000
	yield bar("recording a command, ms ≤ 5", value, value <= 5)
	for verb in ("snapshot", "fork"):
		value = large[verb]["ratio"]["p50"]
		yield bar(f"{verb} with {large['freeze_bytes'] >> 20} MiB of changes / with none ≤ 1.3 (constant)", value,
			value <= 1.3)


def report(results, say):
	for name in ("small", "large"):
		if name not in results:
			continue
		r = results[name]
		say(f"\nEnvironments, {r['files']} files (ms)")
		say(f"  first environment on a commit      {1000 * r['first_s']:9.1f}")
		say(f"  croft new, further                 {1000 * r['new']['croft']['p50']:9.1f}   "
			f"git worktree add {1000 * r['new']['git worktree add']['p50']:.1f}   "
			f"{r['new']['ratio']['p50']:.1f} × faster; disk {r['disk']['croft_b']} B / {r['disk']['worktree_b']} B")
		say(f"  croft diff --stat                  {1000 * r['diff']['croft']['p50']:9.1f}   "
			f"git status {1000 * r['diff']['git status']['p50']:.1f}   ratio {r['diff']['ratio']['p50']:.3f}")
		say(f"  a command, recorded                {1000 * r['record']['with']['p50']:9.1f}   "
			f"without {1000 * r['record']['without']['p50']:.1f}   adds {1000 * r['record']['added_s']:.2f}")
		for verb in ("snapshot", "fork"):
			if verb in r:
				say(f"  {verb:8} much / little            {1000 * r[verb]['big']['p50']:9.1f}   "
					f"{1000 * r[verb]['little']['p50']:.1f}   ratio {r[verb]['ratio']['p50']:.2f}")
