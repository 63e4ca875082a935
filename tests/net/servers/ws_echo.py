#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""WebSocket echo over TLS: ws_echo.py ADDRESS PORT CERTIFICATE KEY."""
import asyncio
import ssl
import sys

import websockets


async def echo(socket, *_path):
    async for message in socket:
        await socket.send(message)


async def main():
    address, port, cert, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with websockets.serve(echo, address, int(port), ssl=context):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
