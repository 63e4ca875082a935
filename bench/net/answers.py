#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server whose answers show delays: answers.py ADDRESS PORT CERTIFICATE KEY.

/small one write; /two two writes; /stream a byte at once, the rest later; /events server-sent events, each with the time it was
sent; /echo a WebSocket that sends every frame back. Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""
import asyncio
import base64
import hashlib
import ssl
import sys
import time

PAUSE_S, EVENTS = 0.003, 50


def accept_of(key):
	return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())


async def echo(r, w):
	while True:
		head = await r.readexactly(2)
		n = head[1] & 127
		mask = await r.readexactly(4)
		data = bytes(b ^ mask[i % 4] for i, b in enumerate(await r.readexactly(n)))
		w.write(bytes([head[0], n]) + data)
		await w.drain()


async def chunk(w, data):
	w.write(b"%x\r\n%s\r\n" % (len(data), data))
	await w.drain()


async def respond(path, headers, r, w):
	if path == "/two":
		w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhead")
		await w.drain()
		await asyncio.sleep(PAUSE_S / 3)
		w.write(b"tail")
	elif path in ("/stream", "/events"):
		kind = b"text/event-stream" if path == "/events" else b"text/plain"
		w.write(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _ in range(EVENTS if path == "/events" else 2):
			await chunk(w, b"data: %d\n\n" % time.monotonic_ns())
			await asyncio.sleep(PAUSE_S)
		w.write(b"0\r\n\r\n")
	elif path == "/echo":
		w.write(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
				+ accept_of(headers["sec-websocket-key"]) + b"\r\n\r\n")
		await w.drain()
		await echo(r, w)
	else:
		w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsmall\n")
	await w.drain()


async def serve(r, w):
	try:
		while True:
			lines = (await r.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
			headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
			await respond(lines[0].split(" ")[1], headers, r, w)
	except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
		pass
	finally:
		w.close()


async def main():
	address, port, cert, key = sys.argv[1:]
	context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
	context.load_cert_chain(cert, key)
	server = await asyncio.start_server(serve, address, int(port), ssl=context)
	print("ready", flush=True)
	await server.serve_forever()


if __name__ == "__main__":
	asyncio.run(main())
