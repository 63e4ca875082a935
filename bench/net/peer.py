#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The far end of the network measurements: peer.py ADDRESS listens on 9001 (sink), 9002 (echo) and 9003 (source).

A sink reads to the end, then closes, so that the sender's clock stops when the last byte has arrived. A source reads
one line, a number of bytes, and sends that many.
"""

import asyncio
import socket
import sys
import threading

BLOCK_B = 1 << 20


def sink(c):
	buffer = bytearray(BLOCK_B)
	with c:
		# MSG_TRUNC: the kernel drops the bytes; what is measured is the way here, not a copy at its end.
		while c.recv_into(buffer, BLOCK_B, socket.MSG_TRUNC):
			pass


def source(c):
	block = memoryview(bytes(BLOCK_B))
	with c:
		left = int(c.makefile("rb").readline())
		while left > 0:
			left -= c.send(block[:min(left, BLOCK_B)])


def threads(address, port, handle):
	listener = socket.create_server((address, port), backlog=1024)

	def serve():
		while True:
			c, _ = listener.accept()
			threading.Thread(target=guarded, args=(handle, c), daemon=True).start()
	threading.Thread(target=serve, daemon=True).start()


def guarded(handle, c):
	try:
		handle(c)
	except (OSError, ValueError):
		pass  # the other side gave up: nothing to measure


async def echo(reader, writer):
	try:
		while data := await reader.read(65536):
			writer.write(data)
			await writer.drain()
	except OSError:
		pass
	writer.close()


async def main():
	address = sys.argv[1]
	threads(address, 9001, sink)
	threads(address, 9003, source)
	await asyncio.start_server(echo, address, 9002, backlog=4096)
	print("ready", flush=True)
	await asyncio.Event().wait()


if __name__ == "__main__":
	asyncio.run(main())
