#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The servers of the test world that write down what they receive, byte by byte.

usage: app.py CONFIG     a JSON file: {"record": FILE, "git": DIR, "listen": [{label, address, port, kind, …}]}

Kinds: http, tls (HTTP over TLS), raw (echo), rawtls, sink, source, ssh (a banner, then echo), udp (echo),
hush (accepts, says nothing). Every line of the record is one event, written before the answer is
sent: a client that has its answer may look for the record. Prints "ready" when everything listens.
"""
import asyncio
import base64
import gzip
import hashlib
import itertools
import json
import os
import socket
import ssl
import struct
import sys
import urllib.parse

HEAD_MAX = 1 << 20
BODY_MAX = 64 << 20
BOMB_B = 256 << 20  # what a small compressed answer expands to
LATE_S = 0.02  # how long /ws-late keeps what it recognises

numbers = itertools.count(1)
config = {}
record = None


def note(label, conn, event, data=b"", **more):
    record.write(json.dumps({"label": label, "conn": conn, "event": event,
                             "data": data.decode("latin-1"), **more}) + "\n")
    record.flush()


def bomb():
    global _bomb
    if _bomb is None:
        _bomb = gzip.compress(bytes(BOMB_B), 9)
    return _bomb


_bomb = None
last = {}  # what each server was authorized with


class Reader:
    """A stream whose bytes are recorded as they come."""

    def __init__(self, stream, label, conn):
        self.stream, self.label, self.conn, self.left = stream, label, conn, b""

    async def more(self):
        data = await self.stream.read(65536)
        if data:
            note(self.label, self.conn, "data", data)
        self.left += data
        return bool(data)

    async def until(self, mark):
        while mark not in self.left:
            if len(self.left) > HEAD_MAX or not await self.more():
                return None
        head, self.left = self.left.split(mark, 1)
        return head

    async def exactly(self, n):
        while len(self.left) < n:
            if not await self.more():
                return None
        out, self.left = self.left[:n], self.left[n:]
        return out


async def read_body(r, headers):
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = b""
        while len(body) < BODY_MAX:
            line = await r.until(b"\r\n")
            size = int(line.split(b";")[0], 16) if line else 0
            if not size:
                while line and await r.until(b"\r\n"):
                    pass
                return body
            body += await r.exactly(size) or b""
            await r.exactly(2)
    return await r.exactly(min(int(headers.get("content-length", "0") or 0), BODY_MAX)) or b""


def answer(status, body=b"", kind="text/plain", extra=()):
    if isinstance(body, str):
        body = body.encode()
    lines = ["HTTP/1.1 %d X" % status, "Content-Type: " + kind, "Content-Length: %d" % len(body), *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(query):
    return answer(int(query.get("status", ["302"])[0]), b"moved\n", extra=["Location: " + query["to"][0]])


def echo_secret(headers):
    """Every way in which a server could give a credential back."""
    value = headers.get("authorization", headers.get("x-api-key", ""))
    value = value.split(" ", 1)[-1]
    raw = value.encode("latin-1")
    body = "\n".join(["plain " + value, "upper " + value.upper(), "lower " + value.lower(), "percent " + "".join("%%%02X" % b for b in raw), "hex " + raw.hex(),
                      "base64 " + base64.b64encode(raw).decode(),
                      "base64-1 " + base64.b64encode(b"x" + raw).decode(),
                      "base64-2 " + base64.b64encode(b"xy" + raw).decode(),
                      "json " + "".join("\\u%04x" % b for b in raw), ""])
    return answer(200, body, extra=["X-Echo: " + value, "Set-Cookie: t=" + value])


def ranged(data, wanted):
    if not wanted.startswith("bytes=") or "," in wanted:
        return answer(200, data, extra=["Accept-Ranges: bytes"])
    first, last = wanted[6:].split("-")
    a = int(first) if first else max(0, len(data) - int(last))
    b = min(int(last), len(data) - 1) if first and last else len(data) - 1
    if a > b:
        return answer(416, b"", extra=["Content-Range: bytes */%d" % len(data)])
    part = data[a:b + 1]
    return answer(206, part, extra=["Content-Range: bytes %d-%d/%d" % (a, b, len(data)), "X-Fixed: yes",
        "Content-Digest: sha-256=:%s:" % base64.b64encode(hashlib.sha256(part).digest()).decode(),  # RFC 9530
        "Content-MD5: " + base64.b64encode(hashlib.md5(part).digest()).decode()])  # RFC 2616; Azure, when it is asked to


async def drip(w, pieces, pause_s):
    w.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % pieces)
    for _ in range(pieces):
        w.write(b".")
        await w.drain()
        await asyncio.sleep(pause_s)


async def big(w, size, chunked):
    block = b"x" * 65536
    w.write(b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked
                                     else b"Content-Length: %d\r\n\r\n" % size))
    while size:
        n = min(size, len(block))
        w.write(b"%x\r\n%s\r\n" % (n, block[:n]) if chunked else block[:n])
        await w.drain()
        size -= n
    if chunked:
        w.write(b"0\r\n\r\n")


async def echo_frames(r, w, headers, late):
    """A WebSocket that sends every frame back as it came; late: the beginning of the credential is delayed."""
    proof = hashlib.sha1((headers.get("sec-websocket-key", "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    w.write(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n" % base64.b64encode(proof))
    token = headers.get("authorization", "").split(" ", 1)[-1].encode("latin-1")
    while True:
        head = await r.exactly(2)
        if head is None:
            return
        size = head[1] & 0x7f
        if size == 126:
            size, = struct.unpack("!H", await r.exactly(2))
        mask = await r.exactly(4)
        data = await r.exactly(size)
        if data is None:
            return
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        if late and token.startswith(data):
            await asyncio.sleep(LATE_S)
        w.write(head[:1] + (bytes([size]) if size < 126 else struct.pack("!BH", 126, size)) + data)
        await w.drain()


async def git_backend(method, path, query, headers, body):
    """git http-backend as a CGI program."""
    env = {"PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": config["git"], "GIT_HTTP_EXPORT_ALL": "1",
           "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_USER": "tester",
           "CONTENT_TYPE": headers.get("content-type", ""), "CONTENT_LENGTH": str(len(body)),
           "REMOTE_ADDR": "192.0.2.9", "HOME": config["git"], "GIT_CONFIG_COUNT": "1",
           "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    if headers.get("content-encoding"):
        env["HTTP_CONTENT_ENCODING"] = headers["content-encoding"]
    if headers.get("git-protocol"):
        env["HTTP_GIT_PROTOCOL"] = headers["git-protocol"]
    p = await asyncio.create_subprocess_exec("git", "http-backend", env=env, stdin=-1, stdout=-1,
                                             stderr=asyncio.subprocess.DEVNULL)
    out, _ = await p.communicate(body)
    head, _, rest = out.partition(b"\r\n\r\n")
    status, extra, kind = 200, [], "application/octet-stream"
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(": ")
        if name.lower() == "status":
            status = int(value.split()[0])
        elif name.lower() == "content-type":
            kind = value
        elif name:
            extra.append(line)
    return answer(status, rest, kind, extra)


async def respond(label, conn, w, method, target, headers, pairs, body):
    """True when the connection may carry on."""
    path, _, query_text = target.partition("?")
    if "://" in path:
        path = "/" + path.split("://", 1)[1].partition("/")[2]
    query = urllib.parse.parse_qs(query_text, keep_blank_values=True)
    words = path.strip("/").split("/")
    if words[0] == "status":
        w.write(answer(int(words[1]), "status\n"))
    elif words[0] == "redirect":
        w.write(redirect(query))
    elif words[0] in ("bytes", "chunked"):
        await big(w, int(words[1]), words[0] == "chunked")
    elif words[0] == "drip":
        await drip(w, int(words[1]), int(words[2]) / 1000)
    elif words[0] == "two":  # an answer in two writes
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhead")
        await w.drain()
        await asyncio.sleep(0.001)
        w.write(b"tail")
    elif words[0] == "file":  # bytes that hold a credential, or a part of them
        pad = int(words[1])
        data = b"x" * pad + headers.get("authorization", "").split(" ")[-1].encode() + b"y" * pad
        w.write(ranged(data, headers.get("x-ms-range") or headers.get("range", "")))  # in this order: Azure's blobs
    elif words[0] == "hold":
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhold")
        await w.drain()
        return None
    elif words[0] == "reset":
        w.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        w.transport.abort()
        return False
    elif words[0] == "bomb":
        w.write(answer(200, bomb(), extra=["Content-Encoding: gzip"]))
    elif words[0] == "echo-secret":
        w.write(echo_secret(headers))
    elif words[0] == "last":
        w.write(answer(200, "last %s\n" % last.get("all", ""), extra=["X-Last: %s" % last.get("all", "")]))
    elif words[0] == "bad-response":
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhelloxx")
    elif words[0] == "close":
        w.write(answer(200, "closing\n", extra=["Connection: close"]))
        await w.drain()
        return False
    elif words[0] == "alt-svc":
        w.write(answer(200, "alt\n", extra=['Alt-Svc: h3=":443"; ma=60']))
    elif ".git" in path or words[-1] in ("git-upload-pack", "git-receive-pack"):
        w.write(await git_backend(method, path, query_text, headers, body))
    else:
        text = json.dumps({"label": label, "conn": conn, "method": method, "target": target, "headers": pairs,
                           "body": body.decode("latin-1")})
        w.write(answer(200, b"" if method == "HEAD" else text + "\n", "application/json"))
    await w.drain()
    return headers.get("connection", "").lower() != "close"


async def serve_http(label, conn, r, w):
    while True:
        head = await r.until(b"\r\n\r\n")
        if head is None:
            return
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3:
            w.write(answer(400, "not HTTP\n"))
            return
        pairs = [[n, v.strip()] for n, _, v in (line.partition(":") for line in lines[1:])]
        headers = {n.lower(): v for n, v in pairs}
        if headers.get("expect", "").lower() == "100-continue":
            w.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "authorization" in headers:
            last["all"] = headers["authorization"]
        if words[1].startswith("/ws") and headers.get("upgrade", "").lower() == "websocket":
            note(label, conn, "request", method=words[0], target=words[1], headers=pairs, body="")
            await echo_frames(r, w, headers, words[1] == "/ws-late")
            return
        body = await read_body(r, headers)
        note(label, conn, "request", method=words[0], target=words[1], headers=pairs,
             body=body[:65536].decode("latin-1"))
        go_on = await respond(label, conn, w, words[0], words[1], headers, pairs, body)
        if go_on is None:
            while await r.more():
                pass
        if not go_on:
            return


async def serve_raw(label, conn, r, w, kind):
    if kind in ("ssh", "greet"):
        w.write(b"SSH-2.0-OpenSSH_9.2\r\n" if kind == "ssh" else b"220 hello\r\n")
    if kind == "source":
        block = bytes(65536)
        while True:
            w.write(block)
            await w.drain()
    while True:
        if kind == "sink":
            data = await r.stream.read(1 << 20)
            if not data:
                return
            continue
        if not await r.more():
            return
        if kind != "hush":
            w.write(r.left)
            await w.drain()
        r.left = b""


def serve(entry):
    label, kind = entry["label"], entry["kind"]

    async def handle(stream, w):
        conn = next(numbers)
        tls = w.get_extra_info("ssl_object")
        peer, local = w.get_extra_info("peername"), w.get_extra_info("sockname")
        note(label, conn, "open", peer=peer[0], local=local[0], port=local[1],
             sni=getattr(tls, "asked_name", None), alpn=tls.selected_alpn_protocol() if tls else None)
        why = "closed"
        try:
            r = Reader(stream, label, conn)
            if kind in ("http", "tls"):
                await serve_http(label, conn, r, w)
            else:
                await serve_raw(label, conn, r, w, kind)
        except (OSError, ValueError, asyncio.IncompleteReadError) as e:
            why = str(e)
        note(label, conn, "close", why=why)
        w.close()
    return handle


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, label):
        self.label = label

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        note(self.label, next(numbers), "data", data, peer=addr[0])
        self.transport.sendto(data, addr)


def tls_context(entry):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(entry["cert"], entry["key"])
    context.set_alpn_protocols(entry.get("alpn", ["http/1.1"]))

    def asked(tls, name, _context):
        tls.asked_name = name
    context.sni_callback = asked
    return context


async def main():
    global config, record
    with open(sys.argv[1], encoding="utf-8") as f:
        config = json.load(f)
    record = open(config["record"], "a", encoding="utf-8")  # for as long as we run
    loop = asyncio.get_running_loop()
    for entry in config["listen"]:
        family = socket.AF_INET6 if ":" in entry["address"] else socket.AF_INET
        if entry["kind"] == "udp":
            await loop.create_datagram_endpoint(lambda label=entry["label"]: Datagrams(label),
                                                local_addr=(entry["address"], entry["port"]), family=family)
        else:
            await asyncio.start_server(serve(entry), entry["address"], entry["port"], family=family, backlog=4096,
                                       ssl=tls_context(entry) if entry["kind"] in ("tls", "rawtls") else None)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/bin:/bin"
    asyncio.run(main())
