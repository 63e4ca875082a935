#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The near end of the network measurements. Runs inside a sandbox, or outside; does what each line of stdin says.

  send HOST PORT BYTES     prints nanoseconds from the connection's begin to the peer's end
  fetch HOST PORT BYTES    the same, receiving
  hold HOST PORT COUNT     opens that many connections, each with one byte there and back; prints how many
  drop                     closes them
Where the environment names a proxy (and no namespace carries the connection), CONNECT is used.
"""

import base64
import os
import resource
import socket
import sys
import time
import urllib.parse

BLOCK_B = 1 << 20
WAIT_S = 60


def connect(host, port):
	proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
	if not proxy:
		return socket.create_connection((host, port), timeout=WAIT_S)
	url = urllib.parse.urlsplit(proxy)
	s = socket.create_connection((url.hostname, url.port), timeout=WAIT_S)
	head = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n"
	if url.username:
		pair = f"{urllib.parse.unquote(url.username)}:{urllib.parse.unquote(url.password or '')}"
		head += "Proxy-Authorization: Basic " + base64.b64encode(pair.encode()).decode() + "\r\n"
	s.sendall(head.encode() + b"\r\n")
	reply = b""
	while b"\r\n\r\n" not in reply:
		reply += s.recv(1) or b"closed\r\n\r\n"
	if b" 200 " not in reply:
		raise OSError(reply.decode("latin-1").split("\r\n")[0])
	return s


def send(host, port, count):
	block = memoryview(bytes(BLOCK_B))
	begun = time.monotonic_ns()
	with connect(host, port) as s:
		left = count
		while left > 0:
			left -= s.send(block[:min(left, BLOCK_B)])
		s.shutdown(socket.SHUT_WR)
		while s.recv(65536):
			pass
	return time.monotonic_ns() - begun


def fetch(host, port, count):
	buffer = bytearray(BLOCK_B)
	begun = time.monotonic_ns()
	with connect(host, port) as s:
		s.sendall(b"%d\n" % count)
		left = count
		while left > 0:
			n = s.recv_into(buffer, BLOCK_B, socket.MSG_TRUNC)
			if not n:
				raise OSError(f"ended {left} bytes early")
			left -= n
	return time.monotonic_ns() - begun


held = []


def hold(host, port, count):
	resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
	for _ in range(count):
		s = connect(host, port)
		s.sendall(b"x")
		if s.recv(1) != b"x":
			break
		held.append(s)
	return len(held)


def drop(*_):
	for s in held:
		s.close()
	held.clear()
	return 0


def main():
	acts = {"send": send, "fetch": fetch, "hold": hold, "drop": drop}
	print("ready", flush=True)
	for line in sys.stdin:
		words = line.split()
		try:
			print(acts[words[0]](*(w if not w.isdigit() else int(w) for w in words[1:])), flush=True)
		except OSError as e:
			print("failed", e, flush=True)


if __name__ == "__main__":
	main()
