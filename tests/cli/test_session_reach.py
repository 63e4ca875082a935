#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session that nobody can reach any more ends by itself."""
import json
import os
import shutil

import envs
from harness import alive, check, main, test, wait_for


def up(p, name):
	envs.new(p, name)
	p.croft("up", "-q", name).exits(0)
	p.croft("exec", "-d", "-q", name, "--", "sleep", "1000").exits(0)
	return json.loads(p.croft("ps", "--json", name).exits(0).out)


@test
def without_its_socket_a_session_ends(p):
	envs.repository(p)
	kept, lost = up(p, "kept"), up(p, "lost")
	shutil.rmtree(envs.state(p, "envs/lost"))
	wait_for(lambda: not alive(lost["pid"]), "the session without a socket has ended")
	check(alive(kept["pid"]), "the other one goes on")  # the control
	p.croft("exec", "-q", "kept", "--", "true").exits(0)
	p.croft("down", "-q", "kept").exits(0)
	check(not os.path.exists(envs.state(p, "envs/lost")), "nothing was made again")


main()
