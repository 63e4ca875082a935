#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published ports of a session whose clients and servers do what makes a careless copier spin or stand still."""
import contextlib
import resource
import socket
import time

import sessions
from harness import check, equal, main, test, text, wait_for

# Waits for the end of what a client sends; then it sends as many bytes as asked, and keeps the connection after one.
SERVER = """
import socket, sys, threading
kept = []
def serve(c):
	asked = b""
	while (b := c.recv(100)):
		asked += b
	n = int(asked or 2)
	kept.append(c)
	c.sendall(b"x" * n)
	if n > 1:
		c.close()
s = socket.create_server(("127.0.0.1", 8000), backlog=500)
print("serving", flush=True)
while True:
	threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""
STEP_B, STEPS = 64 << 10, 64


def server(p, source=SERVER):
	number = sessions.detach(p, "python3", "-c", source)
	sessions.logged(p, number, "serving")


def publish(p):
	return int(text(p.croft("port", "fix", "0:8000").exits(0).out).strip().rpartition(":")[2])


def connections(p):
	return sum(x["connections"] for x in sessions.ps(p)["ports"])


def ask(port, n):
	"""A client that sends nothing more, and has seen the first byte of an answer of n bytes, which it has not taken."""
	c = socket.socket()
	c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
	c.settimeout(60)
	c.connect(("127.0.0.1", port))
	c.sendall(b"%d" % n)
	c.shutdown(socket.SHUT_WR)
	equal(c.recv(1, socket.MSG_PEEK), b"x", "the answer begins")
	return c


@test
def a_port_is_taken_back(p):
	with sessions.up(p):
		server(p)
		port = publish(p)
		with ask(port, 1) as c:
			equal(text(p.croft("port", "--rm", "fix", "8000").exits(0).out), f"127.0.0.1:{port} is closed\n")
			equal(sessions.ps(p)["ports"], [], "ports")
			c.settimeout(60)
			equal(c.recv(2), b"x", "what was on its way")
			with contextlib.suppress(ConnectionResetError):
				equal(c.recv(1), b"", "the end of the connection")
		try:
			socket.create_connection(("127.0.0.1", port), 60).close()
			check(False, "it is still open")
		except ConnectionRefusedError:
			pass
		check("is not shown on this machine" in text(p.croft("port", "--rm", "fix", "8000").exits(125).err), "twice")
		equal(publish(p) > 0, True, "and it can be shown again")


@test
def a_client_that_resets_after_its_end_is_let_go(p):
	with sessions.up(p):
		server(p)
		c = ask(publish(p), 1)
		equal(connections(p), 1, "connections (the control)")
		c.close() # with a byte unread: a reset
		wait_for(lambda: connections(p) == 0, "the connection is let go")


@test
def a_client_that_reads_late_gets_everything_and_keeps_nobody_awake(p):
	with sessions.up(p, "fix", "--pause-idle", "1s"):
		server(p)
		port = publish(p)
		# One of these sizes fits in the buffers of the sandbox's side, and not in those of the client's.
		waiting = [(n, ask(port, n)) for n in range(STEP_B, STEP_B * STEPS, STEP_B)]
		wait_for(lambda: sessions.ps(p)["state"] == "paused", "nothing moves, and the session goes to sleep")
		for n, c in waiting:
			got = 0
			while (b := c.recv(1 << 20)):
				got += len(b)
			equal(got, n, "bytes")
			c.close()
		wait_for(lambda: connections(p) == 0, "all have ended")
		check(sessions.ps(p)["state"] in ("up", "paused"), "the session lives")


@contextlib.contextmanager
def open_files(n):
	"""So many for what is started meanwhile."""
	soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
	resource.setrlimit(resource.RLIMIT_NOFILE, (min(n, hard), hard))
	try:
		yield
	finally:
		resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def crowd(port, n):
	"""So many clients that ask for a connection and do not wait for it."""
	clients = []
	for _ in range(n):
		c = socket.socket()
		c.setblocking(False)
		c.connect_ex(("127.0.0.1", port))
		clients.append(c)
	return clients


@test
def a_crowd_at_the_ports_keeps_nobody_out(p):
	with contextlib.ExitStack() as stack:
		with open_files(256):
			stack.enter_context(sessions.up(p))
		server(p)
		port = publish(p)
		other = int(text(p.croft("port", "fix", "0:8000").exits(0).out).strip().rpartition(":")[2])
		clients = crowd(port, 150) + crowd(other, 150)
		wait_for(lambda: connections(p) == 64, "all that there may be")
		equal(sessions.sh(p, "echo fine"), "fine\n", "a command beside them")
		equal(connections(p), 64, "connections, a quarter of the open files")
		for c in clients:
			c.close()
		wait_for(lambda: connections(p) == 0, "they are let go")
		c = ask(port, 1)
		equal(c.recv(10), b"x", "one that comes later")
		c.close()


# Its queue is full, and it takes nobody from it.
DEAF = """
import errno, select, socket, time
s = socket.socket()
s.bind(("127.0.0.1", 8000))
s.listen(0)
kept = []
while True:
	c = socket.socket()
	c.setblocking(False)
	kept.append(c)
	c.connect_ex(("127.0.0.1", 8000))
	if not select.select([], [c], [], 0.5)[1]:
		break
print("serving", flush=True)
while True:
	time.sleep(1000)
"""
CROWD = 60


def timed(action):
	before = time.monotonic()
	action()
	return time.monotonic() - before


def commands(p):
	"""At once, and more than there are reapers that wait for one: the first process has to make some."""
	holding = [p.start("exec", "-q", "fix", "--", "sh", "-c", "echo ready; cat") for _ in range(12)]
	for h in holding:
		equal(h.stdout.readline(), b"ready\n", "a command")
	for h in holding:
		h.communicate(b"")


@test
def a_port_whose_server_takes_nobody_delays_no_command(p):
	with sessions.up(p):
		server(p, DEAF)
		port = publish(p)
		alone = timed(lambda: commands(p))
		one = timed(lambda: equal(knock(port, 1)[0].recv(1), b"", "one that waits in vain"))
		check(one >= 0.2, f"it has its time (the control): {one}")
		# One after the other they would take this long each time, and every command would wait for all of them; the
		# machine may be busy at one time or another.
		most = CROWD * 0.2 * 0.5 + 10 * alone
		took = []
		while len(took) < 4 and (not took or took[-1] >= most):
			clients = knock(port, CROWD)
			took.append(timed(lambda: commands(p)))
			for c in clients:
				equal(c.recv(1), b"", "what a client gets")
				c.close()
		check(took[-1] < most, f"commands took {alone:.2f} s alone and beside them {took}")
		equal(sessions.sh(p, "echo fine"), "fine\n", "afterwards")


def knock(port, n):
	clients = []
	for _ in range(n):
		c = socket.create_connection(("127.0.0.1", port), 60)
		clients.append(c)
	return clients


main()
