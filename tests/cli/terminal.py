# SPDX-License-Identifier: Apache-2.0
"""The user's terminal, played by a test: a pty whose master we hold, and a reader that waits for text."""
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from harness import Failed


class Terminal:
	def __init__(self, rows=24, cols=80):
		self.master, self.slave = pty.openpty()
		self.resize(rows, cols)
		self.seen = b""  # not yet consumed by expect()
		self.log = b""   # everything
		self.before = termios.tcgetattr(self.slave)
		self.child = None

	def resize(self, rows, cols):
		fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

	def start(self, argv, cwd, env, **stdio):
		"""Start a session leader on this terminal, as a login shell would be."""
		self.child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdio.get("stdin", self.slave),
			stdout=stdio.get("stdout", self.slave), stderr=stdio.get("stderr", self.slave),
			preexec_fn=self.control, start_new_session=False)
		return self.child

	def control(self):
		os.setsid()
		fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
		for s in (signal.SIGPIPE, signal.SIGINT, signal.SIGTSTP):
			signal.signal(s, signal.SIG_DFL)

	def send(self, data):
		os.write(self.master, data)

	def pump(self, timeout):
		ready, _, _ = select.select([self.master], [], [], timeout)
		if ready:
			try:
				b = os.read(self.master, 65536)
			except OSError as e:
				if e.errno != errno.EIO:
					raise
				return False
			self.seen += b
			self.log += b
			return bool(b)
		return False

	def expect(self, *words, timeout=30):
		"""Read until one of the words has appeared; what came before it is consumed. Returns the word."""
		end = time.monotonic() + timeout
		while True:
			found = [(self.seen.index(w), w) for w in words if w in self.seen]
			if found:
				at, word = min(found)
				self.last, self.seen = self.seen[:at], self.seen[at + len(word):]
				return word
			if time.monotonic() > end:
				raise Failed(f"terminal never showed {words!r}; it showed {self.seen[-1500:]!r}")
			self.pump(0.2)

	def drain(self):
		while self.pump(0.05):
			pass
		return self.seen

	def finish(self, timeout=30):
		"""Wait for the child, reading meanwhile so that it can finish writing."""
		end = time.monotonic() + timeout
		while self.child.poll() is None:
			self.pump(0.02)
			if time.monotonic() > end:
				raise Failed(f"still running; the terminal shows {self.seen[-1500:]!r}")
		self.drain()
		return self.child.returncode

	def attributes(self):
		return termios.tcgetattr(self.slave)

	def close(self):
		if self.child and self.child.poll() is None:
			try:
				os.killpg(self.child.pid, signal.SIGKILL)
			except ProcessLookupError:
				pass
			self.child.kill()
			self.child.wait()
		for fd in (self.master, self.slave):
			os.close(fd)
