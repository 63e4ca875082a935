# SPDX-License-Identifier: Apache-2.0
"""What the tests of sessions share: an environment that is up, commands in it, and what is asked of it."""
import contextlib
import json

import envs
from harness import CROFT, check, text, wait_for
from terminal import Terminal

# Says when it serves, so that nobody has to guess; answers every request with its own line.
SERVER = """
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
	def do_GET(self):
		self.send_response(200); self.end_headers(); self.wfile.write(b"hello from inside\\n")
	def log_message(self, form, *args):
		print("served", self.path, flush=True)
s = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), H)
print("serving", flush=True)
s.serve_forever()
"""


@contextlib.contextmanager
def up(p, name="fix", *options, new=()):
	"""An environment of a small repository, and its session; down again whatever happens."""
	envs.repository(p)
	envs.new(p, name, *new)
	p.croft("up", "-q", *options, name).exits(0)
	try:
		yield name
	finally:
		p.croft("down", "-q", "--now", name)


def sh(p, script, *options, name="fix", rc=0, **kw):
	"""A shell script in the session; what it printed."""
	return text(p.croft("exec", "-q", *options, name, "--", "sh", "-c", script, **kw).exits(rc).out)


def detach(p, *argv, name="fix", options=()):
	"""exec -d: the number that it printed."""
	r = p.croft("exec", "-d", *options, name, "--", *argv).exits(0)
	return int(text(r.out))


def ps(p, name="fix"):
	return json.loads(p.croft("ps", "--json", name).exits(0).out)


def process(p, number, name="fix"):
	found = [x for x in ps(p, name)["processes"] if x["process"] == number]
	check(len(found) == 1, f"there is no process {number} in {name}")
	return found[0]


def ended(p, number, name="fix"):
	"""Wait until nothing of it is left; what ps says of it then."""
	return wait_for(lambda: (x := process(p, number, name))["state"] == "ended" and x, f"process {number} ends")


def is_up(p, name="fix"):
	return p.croft("ps", "--json", name).rc == 0


def logs(p, number, *options, name="fix"):
	return text(p.croft("logs", *options, name, str(number)).exits(0).out)


def logged(p, number, words, name="fix"):
	"""Wait until the log of a process has these words."""
	return wait_for(lambda: words in (now := logs(p, number, name=name)) and now, f"process {number} writes {words!r}")


def serve(p, port=8000, name="fix"):
	number = detach(p, "python3", "-c", SERVER, str(port), name=name)
	logged(p, number, "serving", name)
	return number


@contextlib.contextmanager
def terminal(p, *argv, rows=24, cols=80, env=None):
	"""croft on a terminal of its own."""
	t = Terminal(rows, cols)
	try:
		t.start([CROFT, *argv], p.ws, {**p.env, **(env or {})})
		yield t
	finally:
		t.close()
