# SPDX-License-Identifier: Apache-2.0
"""What croft itself keeps in memory while a sandbox runs and does nothing."""

import os
import subprocess


def processes():
	"""pid -> parent pid, for every process that is visible."""
	found = {}
	for name in os.listdir("/proc"):
		if not name.isdigit():
			continue
		try:
			with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
				found[int(name)] = int(f.read().rpartition(")")[2].split()[1])
		except (OSError, ValueError, IndexError):
			continue
	return found


def tree(root):
	table = processes()
	members, grown = {root}, True
	while grown:
		new = {p for p, parent in table.items() if parent in members} - members
		members |= new
		grown = bool(new)
	return sorted(members)


def weigh(pid):
	"""PSS and private bytes; None when the kernel does not let this user read them."""
	values = {}
	try:
		with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
			for line in f:
				key, _, rest = line.partition(":")
				if rest.strip().endswith("kB"):
					values[key] = int(rest.split()[0]) * 1024
	except OSError:
		return None
	return {"pss_b": values.get("Pss", 0),
			"private_b": values.get("Private_Clean", 0) + values.get("Private_Dirty", 0)}


def comm(pid):
	with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
		return f.read().strip()


def measure(site, argv, program):
	"""Start one sandbox that rests, weigh every process of its tool, end it."""
	p = subprocess.Popen(argv, cwd=site.workspace, env=site.env, stdin=subprocess.PIPE,
						 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
	try:
		if p.stdout.readline() != b"ready\n":
			return None
		rows = []
		for pid in tree(p.pid):
			name = comm(pid)
			if name == os.path.basename(program):
				continue
			weight = weigh(pid)
			if weight is None:
				return {"unreadable": True, "processes": len(rows) + 1}
			rows.append({"name": name, **weight})
		return {"processes": rows, "pss_b": sum(r["pss_b"] for r in rows),
				"private_b": sum(r["private_b"] for r in rows)}
	finally:
		p.stdin.close()
		p.wait()
		p.stdout.close()
