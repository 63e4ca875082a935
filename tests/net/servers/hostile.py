#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that answers as no server should: HTTP/1.1 by hand, and HTTP/2 frame by frame.

usage: hostile.py ADDRESS PORT CERT KEY RECORD     prints "ready"

What it does is in the path. Every request's head, and every odd thing about its body, becomes a line in RECORD.
"""
import base64
import gzip
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse

FLOOD_B = 64 << 20
DATA, HEADERS, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
lock = threading.Lock()
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"


def note(**what):
    with lock, open(sys.argv[5], "a", encoding="utf-8") as f:
        f.write(json.dumps(what) + "\n")


def flood(send, piece):
    """As much as is taken, up to a limit that nobody should reach."""
    block, sent = piece * max(1, 16384 // len(piece)), 0
    try:
        while sent < FLOOD_B:
            send(block)
            sent += len(block)
    except OSError:
        pass
    note(event="flood", sent=sent)


# ---- HTTP/1.1 ----

def plain(body, *fields, status="200 OK"):
    head = ["HTTP/1.1 " + status, "Content-Length: %d" % len(body), *fields]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def echoes(secret, words):
    """The secret in some place of an answer."""
    raw, how = secret.encode(), words[1]
    if how == "header":
        return plain(b"", "X-Echo: a" + secret + "b")
    if how == "name":
        return plain(b"", secret + ": x")
    if how == "location":
        return plain(b"", "Location: https://x.example/?t=" + "".join("%%%02X" % b for b in raw), status="302 Found")
    if how == "cookie":
        return plain(b"", "Set-Cookie: t=" + base64.b64encode(b"u:" + raw).decode())
    if how == "reason":
        return plain(b"ok", status="200 " + secret)
    if how == "early":
        return b"HTTP/1.1 103 Early Hints\r\nLink: <" + raw + b">\r\n\r\n" + plain(b"ok")
    if how == "gzip":
        return plain(gzip.compress(raw), "Content-Encoding: gzip")
    if how == "grpc-gzip":
        packed = gzip.compress(raw)
        return plain(b"\1" + len(packed).to_bytes(4, "big") + packed, "Content-Type: application/grpc", "Grpc-Encoding: gzip")
    if how == "connect-gzip":
        packed = gzip.compress(raw)
        return plain(b"\1" + len(packed).to_bytes(4, "big") + packed, "Content-Type: application/connect+proto",
                     "Connect-Content-Encoding: gzip")
    if how == "delta-gzip":
        return plain(gzip.compress(raw), "IM: gzip", status="226 IM Used")
    if how.startswith("utf-"):
        return plain(secret.encode(how), "Content-Type: application/json; charset=" + how)
    if how == "ibm037":
        return plain(secret.encode("cp037"), 'Content-Type: text/plain; x=";"; Charset="IBM037"')
    if how == "utf8":
        return plain(raw, "Content-Type: application/json;charset=UTF-8")
    if how == "deflate-te":
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
    if how == "range":
        return plain(raw[:10], "Content-Range: bytes 0-9/%d" % len(raw), status="206 Partial Content")
    if how == "bytes":
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(b"1\r\n%c\r\n" % b for b in raw) + b"0\r\n\r\n"
    if how == "trailer":
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: " + raw + b"\r\n\r\n"
    if how == "close":
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + raw
    if how == "json":
        return plain("".join("\\u%04x" % b for b in raw).encode())
    return plain(raw)


def act1(s, method, target, headers):
    """True when the connection goes on."""
    words = target.partition("?")[0].strip("/").split("/")
    if words[0] == "flood1xx":
        flood(s.sendall, b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
    elif words[0] == "endless-head":
        s.sendall(b"HTTP/1.1 200 OK\r\n")
        flood(s.sendall, b"X-A: " + b"a" * 100 + b"\r\n")
    elif words[0] == "endless-line":
        s.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
        flood(s.sendall, b"a" * 1000)
    elif words[0] == "endless-chunks":
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        flood(s.sendall, b"X-A: a\r\n")
    elif words[0] == "bodyless":  # a body where there is none
        status = {"head": b"200 OK", "204": b"204 No Content", "304": b"304 Not Modified"}[words[1]]
        s.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(POISON) + POISON)
        return True
    elif words[0] == "late":
        s.sendall(plain(b"in time\n"))
        time.sleep(0.3)
        s.sendall(POISON)
        return True
    elif words[0] == "twice":
        s.sendall(plain(b"in time\n") + POISON)
        return True
    elif words[0] == "raw":
        s.sendall(urllib.parse.unquote_to_bytes(target.partition("?")[2]))
        return False
    elif words[0] == "echo":
        value = headers.get("authorization", "").partition(" ")[2]
        s.sendall(echoes(value, words))
    else:
        s.sendall(plain(json.dumps({"target": target, "method": method}).encode() + b"\n"))
        return True
    return words[0] == "echo"


def serve1(s):
    left = b""
    while True:
        while b"\r\n\r\n" not in left:
            more = s.recv(65536)
            if not more:
                note(event="end", left=left.decode("latin-1"))
                return
            left += more
        head, left = left.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (x.partition(":") for x in lines[1:])}
        note(event="request", line=lines[0], headers=headers)
        if lines[0].split(" ")[1].startswith("/no-bodies/"):  # it reads none, and takes them for what follows
            if not act1(s, lines[0].split(" ")[0], lines[0].split(" ")[1], headers) or headers.get("connection") == "close":
                return
            continue
        while "transfer-encoding" in headers and not left.endswith(b"0\r\n\r\n"):
            left += s.recv(65536)
        if "transfer-encoding" in headers:
            left = b""
        want = int(headers.get("content-length", 0))
        while len(left) < want:
            left += s.recv(65536)
        left = left[want:]
        if not act1(s, lines[0].split(" ")[0], lines[0].split(" ")[1], headers):
            return


# ---- HTTP/2 ----

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A field without indexing, both parts as they are."""
    def text(t):
        return (bytes([len(t)]) if len(t) < 127 else b"\x7f" + varint(len(t) - 127)) + t
    return b"\0" + text(name) + text(value)


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n % 128 | 128])
        n //= 128
    return out + bytes([n])


OK, NONE = literal(b":status", b"200"), literal(b":status", b"204")


def act2(s, n, path):
    def answer(block, flags=END_HEADERS | END_STREAM):
        s.sendall(frame(HEADERS, flags, n, block))

    if path == "/push":
        promise = b"".join(literal(a, b) for a, b in ((b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/pushed"),
                                                      (b":authority", b"raw.example.com")))
        for i in range(50):
            s.sendall(frame(PUSH, END_HEADERS, n, struct.pack(">I", 2 + 2 * i) + promise))
            s.sendall(frame(HEADERS, END_HEADERS | END_STREAM, 2 + 2 * i, OK))
        answer(OK)
    elif path == "/goaway":
        for _ in range(200):
            s.sendall(frame(GOAWAY, 0, 0, struct.pack(">II", n, 0)))
        answer(OK)
    elif path == "/goaway-all":
        s.sendall(frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)))
    elif path == "/rst":
        s.sendall(frame(RST, 0, n, struct.pack(">I", 7)))  # refused: it may be tried again
    elif path == "/flood1xx":
        flood(s.sendall, frame(HEADERS, END_HEADERS, n, literal(b":status", b"103")))
    elif path == "/continuation":
        s.sendall(frame(HEADERS, 0, n, OK))
        flood(s.sendall, frame(CONTINUATION, 0, n, literal(b"x-a", b"a" * 100)))
    elif path == "/big-head":
        block = OK + literal(b"x-a", b"a" * 16000)
        s.sendall(frame(HEADERS, 0, n, block))
        for i in range(8):
            s.sendall(frame(CONTINUATION, END_HEADERS if i == 7 else 0, n, literal(b"x-a", b"a" * 16000)))
    elif path == "/bomb":  # one entry in the table, said again and again
        block = OK + b"\x40\x03x-a\x7f" + varint(3900 - 127) + b"a" * 3900
        s.sendall(frame(HEADERS, END_HEADERS | END_STREAM, n, block + b"\xbe" * 12000))
    elif path == "/204-data":
        answer(NONE, END_HEADERS)
        s.sendall(frame(DATA, END_STREAM, n, POISON))
    elif path == "/length-lie":
        answer(OK + literal(b"content-length", b"3"), END_HEADERS)
        s.sendall(frame(DATA, END_STREAM, n, b"abc" + POISON))
    elif path == "/two-status":
        answer(OK + literal(b":status", b"500"))
    elif path == "/crlf":
        answer(OK + literal(b"x-a", b"a\r\nx-b: c\r\n\r\n" + POISON))
    elif path == "/name-crlf":
        answer(OK + literal(b"x-a: b\r\nx-b", b"c"))
    elif path == "/te":
        answer(OK + literal(b"transfer-encoding", b"chunked"), END_HEADERS)
        s.sendall(frame(DATA, END_STREAM, n, b"0\r\n\r\n" + POISON))
    elif path == "/trailer":
        answer(OK, END_HEADERS)
        s.sendall(frame(DATA, 0, n, b"body"))
        answer(literal(b":status", b"500") + literal(b"content-length", b"3") + literal(b"transfer-encoding", b"chunked"))
    elif path == "/trailer-length":
        answer(OK, END_HEADERS)
        s.sendall(frame(DATA, 0, n, b"body"))
        answer(literal(b"content-length", b"3") + literal(b"x-ok", b"1"))
    elif path == "/pings":
        flood(s.sendall, frame(PING, 0, 0, b"12345678"))
    elif path == "/settings":
        flood(s.sendall, frame(SETTINGS, 0, 0))
    elif path == "/empty-data":
        answer(OK, END_HEADERS)
        flood(s.sendall, frame(DATA, 0, n))
    elif path == "/window":
        answer(OK, END_HEADERS)
        for _ in range(20):
            s.sendall(frame(DATA, 0, n, b"x" * 16384))
    elif path == "/101":
        answer(literal(b":status", b"101"))
    else:
        answer(OK, END_HEADERS)
        s.sendall(frame(DATA, END_STREAM, n, b"fine\n"))


def exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def serve2(s):
    import hpack
    decoder = hpack.Decoder()
    exactly(s, 24)
    note(event="open2")
    # Our settings are never confirmed by us: what the other side forbids is not forbidden yet.
    s.sendall(frame(SETTINGS, 0, 0))
    while True:
        head = exactly(s, 9)
        n, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big")
        payload = exactly(s, n)
        if kind == SETTINGS and not flags & ACK:
            pass
        elif kind == HEADERS:
            fields = decoder.decode(payload)
            note(event="request2", fields=fields)
            act2(s, stream, dict(fields)[":path"])


def main():
    address, port, cert, key, record = sys.argv[1:6]
    open(record, "a", encoding="ascii").close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2", "http/1.1"] if int(port) % 2 else ["http/1.1"])
    listener = socket.create_server((address, int(port)), backlog=64)

    def serve(c):
        try:
            c.settimeout(60)
            s = context.wrap_socket(c, server_side=True)
            (serve2 if s.selected_alpn_protocol() == "h2" else serve1)(s)
            s.close()
        except (OSError, EOFError, ValueError) as e:
            note(event="broken", why=str(e))
        c.close()

    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
    os._exit(0)
