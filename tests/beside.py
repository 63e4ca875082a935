# SPDX-License-Identifier: Apache-2.0
"""
A hostile command beside what a test does in an environment.

Before the first `croft exec` of a test in an environment that is brought up, with the options that exec has, and the
hostile command (tests/payload/hostile.c) is started in it; exec then joins. Everything else (diff, status, review,
apply, log, verify …) finds a session that is up, with a command in it. What needs it down ends it first.
"""
NAME = "hostile-neighbour"
BRING = 'cat >"${TMPDIR:-/tmp}/%s" && chmod 755 "${TMPDIR:-/tmp}/%s"' % (NAME, NAME)
START = 'exec "${TMPDIR:-/tmp}/%s" "$@"' % NAME
VALUED = ("--as", "--label", "--json", "--tier", "--policy", "--profile", "--read", "--write", "--deny", "--view", "--env",
	"--allow-host", "--use", "--secret", "--publish", "--host-port", "--memory", "--cpus", "--pids", "--disk", "--timeout",
	"--observe", "--set", "--workspace")
OF_EXEC = ("--as", "--label", "--json", "--env", "--timeout", "--stay", "-q", "--quiet", "-v", "--verbose")
ALONE = ("--read-only", "-d", "--detach", "--help")  # an exec that means what it says
NEED_DOWN = ("discard", "restore", "revert", "rm")


def parse(words):
	"""Of croft exec: the environment's name or None, options of the boundary, whether it is to be left alone."""
	boundary, rest = [], list(words)
	while rest and rest[0].startswith("-") and rest[0] != "--":
		o = rest.pop(0)
		key = o.split("=", 1)[0]
		value = [rest.pop(0)] if o in VALUED and rest else []
		if key in ALONE:
			return None, [], True
		if key not in OF_EXEC:
			boundary += [o, *value]
	return (rest[0] if rest else None), boundary, False


class Beside:
	"""run(words, stdin, **how) runs croft to its end: its exit status. first_output(words, text, **how): does it print that?"""

	def __init__(self, run, first_output, hostile):
		self.run, self.first_output, self.hostile = run, first_output, hostile
		self.up, self.seen = {}, set()

	def before(self, words, **how):
		"""croft is about to be run with these words."""
		if words[:1] == ["exec"]:
			name, boundary, alone = parse(words[1:])
			if name and not alone and self.up.get(name) != boundary:
				self.start(name, boundary, **how)
		elif words[:1] == ["down"]:
			for name in words[1:]:
				self.up.pop(name, None)
		elif words[:1] == ["gate"] or words[:2] == ["evidence", "check"]:
			self.end_all()  # a session that has not ended is no evidence yet
		elif words and words[0] in NEED_DOWN:
			for name in [w for w in words[1:] if w in self.up]:
				self.end(name)

	def start(self, name, boundary, **how):
		self.end(name)
		if self.run(["up", "-q", *boundary, name], None, **how):
			return  # the test is about to be told why
		self.up[name] = boundary
		self.seen.add(name)
		with open(self.hostile, "rb") as f:
			good = self.run(["exec", "-q", name, "--", "/bin/sh", "-c", BRING], f, **how) == 0
		good = good and self.run(["exec", "-d", name, "--", "/bin/sh", "-c", START, "sh", "mild", "/"], None, **how) == 0
		if not good or not self.first_output(["logs", "-f", name, "2"], b"there", **how):
			raise AssertionError("the hostile command does not run in " + name)

	def end(self, name):
		if self.up.pop(name, None) is not None:
			self.run(["down", "--now", "-q", name], None)

	def end_all(self):
		for name in list(self.up):
			self.end(name)
