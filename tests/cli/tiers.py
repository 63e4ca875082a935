# SPDX-License-Identifier: Apache-2.0
"""What each tier does with each key of a policy: the table that tests/cli/test_table.py proves by doing, and that
tools/check-docs compares with docs/POLICY.md. A key that the reader knows, or a tier, without a row fails the test.

enforced  the tier holds it
recorded  it holds with weaker means, or not at all: the receipt's degradations say so
refused   exit 126 before the command exists
settled   nothing is asked of a tier: it is decided before one is chosen, or only says how croft reports
"""
TIERS = ("process", "namespace")
WORDS = ("enforced", "recorded", "refused", "settled")


def row(process, namespace=None):
	return {"process": process, "namespace": namespace or process}


RULE = "network.allow[]."
LIMITS = RULE + "limits."
SECRET = "network.secrets[]."
# The gateway judges the same in every tier. Without a network of its own a tier leads to it by a proxy only.
GATEWAY = row("recorded", "enforced")

ROWS = {
	"version": row("settled"),
	"profile": row("settled"),
	"tier": row("enforced"),
	"threat": row("recorded", "enforced"),
	"observe": row("enforced"),
	"devices": row("enforced"),
	"filesystem.read": row("enforced"),
	"filesystem.write": row("enforced"),
	"filesystem.deny": row("enforced"),
	"filesystem.read-if-present": row("enforced"),
	"filesystem.write-if-present": row("enforced"),
	"filesystem.view": row("recorded", "enforced"),
	"filesystem.write-runs": row("enforced"),
	"filesystem.write-git": row("enforced"),
	"environment.pass": row("enforced"),
	"environment.set": row("enforced"),
	"limits.memory": row("enforced or recorded"),
	"limits.cpus": row("enforced or refused"),
	"limits.pids": row("enforced or recorded"),
	"limits.open_files": row("enforced"),
	"limits.disk": row("recorded"),
	"limits.file_size": row("enforced"),
	"limits.timeout": row("enforced"),
	"network.publish": row("refused", "enforced"),
	**{"network." + k: row("settled") for k in ("ask-timeout", "record-query")},
	**{"network." + k: GATEWAY for k in ("use", "default", "deny", "ask", "resolve", "dns", "proxy", "trust", "host-ports")},
	**{RULE + k: GATEWAY for k in ("host", "cidr", "ports", "mode", "methods", "paths", "query", "repos", "push", "refs",
		"private", "plaintext", "encoded-slash", "ech")},
	RULE + "reason": row("settled"),
	**{LIMITS + k: GATEWAY for k in ("rate", "up", "down", "body", "uses", "expires")},
	**{SECRET + k: row("enforced") for k in ("name", "env", "host", "port", "paths", "methods", "place", "field", "strip",
		"require")},
}


def holes(keys, tiers, rows=None):
	"""Complaints about keys and tiers that have no row, or rows that nothing has. keys: as `croft policy keys` lists them."""
	rows = ROWS if rows is None else rows
	leaves = {k for k in keys if not any(o.startswith((k + ".", k + "[]")) for o in keys)}
	bad = [f"{k}: no row says what a tier does with it" for k in sorted(leaves - set(rows))]
	bad += [f"{k}: has a row, and no policy has that key" for k in sorted(set(rows) - leaves)]
	for k, claims in rows.items():
		bad += [f"{k}: nothing says what the {t} tier does with it" for t in tiers if t not in claims]
		bad += [f"{k}: \"{c}\" is no claim" for c in claims.values() if not set(c.split(" or ")) <= set(WORDS)]
	return bad


def markdown():
	"""The table of docs/POLICY.md: neighbours of one section with the same claims share a line."""
	lines = ["| key | " + " | ".join(TIERS) + " |", "|---" * (1 + len(TIERS)) + "|"]
	groups = []
	for key, claims in ROWS.items():
		section, _, name = key.rpartition(".")
		if groups and groups[-1][0] == (section, claims):
			groups[-1][1].append(name)
		else:
			groups.append(((section, claims), [name]))
	for (section, claims), names in groups:
		shown = " ".join(f"`{n}`" for n in names)
		lines.append(f"| {f'`{section}`: ' if section else ''}{shown} | " + " | ".join(claims[t] for t in TIERS) + " |")
	return "\n".join(lines)
