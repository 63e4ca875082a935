#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a sample agent misbehaves, and everything that the demonstration promises holds, for whoever runs it."""
import os

from harness import CROFT, Skip, TOP, check, main, native, need_tier, test, text


@test
def test_the_demonstration_holds(p):
	need_tier("namespace")
	program = os.path.join(TOP, "demo", "run")
	if not os.path.exists(program):
		raise Skip("demo/ is not there")
	r = native(p, program, CROFT)
	said = text(r.stdout)
	check(r.returncode == 0 and "the boundary held." in said, "it does not", said[-4000:], text(r.stderr)[-1000:])
	check(said.count("\n  yes ") >= 15, "verdicts are missing", said[-4000:])


if __name__ == "__main__":
	main()
