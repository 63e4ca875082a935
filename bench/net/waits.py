#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of answers.py that prints how long it waited: waits.py HOST PORT ROUNDS; nanoseconds as JSON, one list per kind."""
import json
import socket
import ssl
import sys
import time

NAME = "tcp.example.com"
HEAD = "GET %s HTTP/1.1\r\nHost: " + NAME + "%s\r\n\r\n"


class Line:
	def __init__(self, host, port):
		context = ssl.create_default_context()
		context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # rivals have any name; it is the time that counts
		context.set_alpn_protocols(["http/1.1"])
		s = socket.create_connection((host, port), timeout=20)
		s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		self.s, self.left, self.port = context.wrap_socket(s, server_hostname=NAME), b"", port

	def ask(self, path, more=""):
		self.s.sendall((HEAD % (path, (":%d" % self.port if self.port != 443 else "") + more)).encode())

	def until(self, mark):
		while mark not in self.left:
			data = self.s.recv(65536)
			if not data:
				raise EOFError
			self.left += data
		head, self.left = self.left.split(mark, 1)
		return head


def timed(line, path, mark):
	begun = time.monotonic_ns()
	line.ask(path)
	line.until(mark)
	return time.monotonic_ns() - begun


def main():
	host, port, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
	line = Line(host, port)
	out = {"small": [], "two writes": [], "first byte": [], "event": [], "WebSocket echo": []}
	for _ in range(rounds):
		out["small"].append(timed(line, "/small", b"small\n"))
		out["two writes"].append(timed(line, "/two", b"headtail"))
	for _ in range(max(rounds // 10, 3)):
		out["first byte"].append(timed(line, "/stream", b"data: "))
		line.until(b"0\r\n\r\n")
		line.ask("/events")
		line.until(b"\r\n\r\n")
		for _ in range(50):
			line.until(b"data: ")
			out["event"].append(-int(line.until(b"\n\n")) + time.monotonic_ns())
		line.until(b"0\r\n\r\n")
	line.ask("/echo", "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
	line.until(b"\r\n\r\n")
	for i in range(rounds):
		data = b"%06d" % i
		begun = time.monotonic_ns()
		line.s.sendall(b"\x82\x86\0\0\0\0" + data)
		line.until(data)
		out["WebSocket echo"].append(time.monotonic_ns() - begun)
	print(json.dumps(out))


if __name__ == "__main__":
	main()
