#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tests run inside a sandbox, and outside it as control: small network acts, told exactly.

usage: probe.py STEPS.json     prints one line of JSON per step

A step is {"do": act, …}. Every act ends within its own time ("wait", seconds, for what may never come; what has to
come may take SOON_S: the machine may be busy). Where the environment names
a proxy, TCP goes through it by CONNECT, unless the step says "direct". Bytes are text in Latin-1.
"""
import base64
import errno
import json
import os
import socket
import ssl
import struct
import sys
import urllib.parse

WAIT_S = 10
SOON_S = 20  # for the first answer over HTTP, whatever it is: only a failure takes as long
READ_MAX = 64 << 20


def code(e):
    if isinstance(e, (TimeoutError, socket.timeout)):
        return "timeout"
    if isinstance(e, ssl.SSLCertVerificationError):
        return "certificate: " + e.verify_message
    if isinstance(e, ssl.SSLError):
        return "tls: " + (e.reason or str(e))
    if isinstance(e, socket.gaierror):
        return "name: " + str(e.args[1])
    if isinstance(e, OSError) and e.errno:
        return errno.errorcode.get(e.errno, str(e.errno))
    return "%s: %s" % (type(e).__name__, e)


def proxy_connect(host, port, wait):
    url = urllib.parse.urlsplit(os.environ.get("https_proxy") or os.environ["HTTPS_PROXY"])
    s = socket.create_connection((url.hostname, url.port), timeout=wait)
    where = "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)
    lines = ["CONNECT %s HTTP/1.1" % where, "Host: " + where]
    if url.username:
        token = "%s:%s" % (urllib.parse.unquote(url.username), urllib.parse.unquote(url.password or ""))
        lines.append("Proxy-Authorization: Basic " + base64.b64encode(token.encode()).decode())
    s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = s.recv(1)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "proxy closed")
        head += data
    if not head.split(b" ", 2)[1] == b"200":
        raise ConnectionRefusedError(errno.ECONNREFUSED, head.decode("latin-1"))
    return s


def connect(step, at_least=0):
    """Connected, by a proxy or TLS, too; what comes then may take at_least so many seconds."""
    wait = step.get("wait", WAIT_S)
    host, port = step["host"], step["port"]
    if not step.get("direct") and (os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")):
        s = proxy_connect(host, port, wait)
    elif "family" in step or "%" in host:
        s = socket.socket(getattr(socket, step.get("family", "AF_INET6")), socket.SOCK_STREAM)
        s.settimeout(wait)
        s.connect(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4] if "%" in host else (host, port))
    else:
        s = socket.create_connection((host, port), timeout=wait)
    s.settimeout(max(wait, at_least))
    if "tls" in step:
        tls = step["tls"]
        context = ssl.create_default_context()
        if tls.get("verify") is False:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if "alpn" in tls:
            context.set_alpn_protocols(tls["alpn"])
        if tls.get("sni", host) is None:
            context.check_hostname = False
        s = context.wrap_socket(s, server_hostname=tls.get("sni", host))
    return s


def recv_some(s):
    try:
        return s.recv(65536)
    except ssl.SSLEOFError:
        return b""


def act_tcp(step):
    """Connect, send, read until `want` bytes came, the end, or time."""
    s, out = connect(step), {}
    with s:
        out["peer"] = s.getpeername()[0]
        if "tls" in step:
            out["issuer"] = dict(x[0] for x in (s.getpeercert() or {}).get("issuer", ()))
            out["alpn"] = s.selected_alpn_protocol()
        if step.get("hello"):
            s.sendall(bytes.fromhex(step["hello"]))
        for piece in step.get("send", []):
            s.sendall(piece.encode("latin-1"))
        if step.get("shut"):
            s.shutdown(socket.SHUT_WR)
        data, out["end"] = b"", "open"
        while len(data) < step.get("want", 1):
            try:
                more = recv_some(s)
            except OSError as e:
                out["end"] = code(e)
                break
            if not more:
                out["end"] = "eof"
                break
            data += more
        out["data"] = data.decode("latin-1")
    return out


class Stream:
    def __init__(self, s):
        self.s, self.left = s, b""

    def more(self):
        data = recv_some(self.s)
        self.left += data
        if not data:
            raise EOFError
        if len(self.left) > READ_MAX:
            raise OverflowError("too much")

    def until(self, mark):
        while mark not in self.left:
            self.more()
        head, self.left = self.left.split(mark, 1)
        return head

    def exactly(self, n):
        while len(self.left) < n:
            self.more()
        out, self.left = self.left[:n], self.left[n:]
        return out


def response(stream, method):
    while True:
        lines = stream.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        if status == 101 or status >= 200:
            break
    pairs = [[n.lower(), v.strip()] for n, _, v in (line.partition(":") for line in lines[1:])]
    headers = dict(pairs)
    body = b""
    if method != "HEAD" and status not in (101, 204, 304):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            size = 1
            while size:
                size = int(stream.until(b"\r\n").split(b";")[0], 16)
                body += stream.exactly(size)
                stream.exactly(2)
        elif "content-length" in headers:
            body = stream.exactly(int(headers["content-length"]))
        else:
            try:
                while True:
                    stream.more()
            except EOFError:
                body, stream.left = stream.left, b""
    return {"status": status, "headers": pairs, "body": body[:step_body_max].decode("latin-1"), "body_n": len(body)}


step_body_max = 1 << 20


def act_http(step):
    """Send pieces as they are; read as many responses as asked for, then what else comes until the end or time."""
    s, out = connect(step, SOON_S), {"responses": [], "end": "open", "rest": ""}
    with s:
        stream = Stream(s)
        try:
            for piece in step["send"]:
                s.sendall(piece.encode("latin-1"))
        except OSError as e:
            out["sent"] = code(e)
        try:
            for i in range(step.get("responses", 1)):
                if i:
                    s.settimeout(step.get("wait", WAIT_S))
                out["responses"].append(response(stream, step.get("methods", {}).get(str(i), "GET")))
            if step.get("drain"):
                s.settimeout(step["drain"])
                while True:
                    stream.more()
        except EOFError:
            out["end"] = "eof"
        except OSError as e:
            out["end"] = code(e)
        out["rest"] = stream.left[:65536].decode("latin-1")
    return out


def act_h2(step):
    """HTTP/2 streams with exactly the headers that are given, on one connection."""
    import h2.config
    import h2.connection
    import h2.events
    import h2.exceptions
    step.setdefault("tls", {}).setdefault("alpn", ["h2"])
    s, streams, out = connect(step, SOON_S), {}, {"end": "open"}
    with s:
        out["alpn"] = s.selected_alpn_protocol()
        if out["alpn"] != "h2":
            return out
        c = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False))
        c.initiate_connection()
        for want in step["streams"]:
            n = c.get_next_available_stream_id()
            streams[n] = {"status": None, "body": ""}
            c.send_headers(n, [tuple(h) for h in want["headers"]], end_stream="body" not in want)
            if "body" in want:
                c.send_data(n, want["body"].encode("latin-1"), end_stream=True)
        s.sendall(c.data_to_send())
        waiting = set(streams)
        try:
            while waiting:
                data = recv_some(s)
                if not data:
                    out["end"] = "eof"
                    break
                for e in c.receive_data(data):
                    n = getattr(e, "stream_id", None)
                    if isinstance(e, h2.events.ResponseReceived):
                        streams[n]["headers"] = [[a.decode("latin-1"), b.decode("latin-1")] if isinstance(a, bytes)
                                                 else [a, b] for a, b in e.headers]
                        streams[n]["status"] = int(dict(map(tuple, streams[n]["headers"]))[":status"])
                    elif isinstance(e, h2.events.DataReceived):
                        streams[n]["body"] += e.data.decode("latin-1")
                        c.acknowledge_received_data(e.flow_controlled_length, n)
                    elif isinstance(e, h2.events.StreamEnded):
                        waiting.discard(n)
                    elif isinstance(e, h2.events.StreamReset):
                        streams[n]["reset"] = int(e.error_code)
                        waiting.discard(n)
                    elif isinstance(e, h2.events.ConnectionTerminated):
                        out["goaway"] = int(e.error_code)
                        waiting.clear()
                s.sendall(c.data_to_send())
        except (OSError, h2.exceptions.ProtocolError) as e:
            out["end"] = code(e)
    out["streams"] = [streams[n] for n in sorted(streams)]
    return out


TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65,
         "AXFR": 252, "ANY": 255, "NULL": 10}


def question(name, kind):
    labels = b"".join(bytes([len(p)]) + p for p in name.encode("latin-1").split(b".") if p)
    return labels + b"\0" + struct.pack(">HH", TYPES[kind], 1)


def skip_name(m, at):
    while m[at]:
        if m[at] >= 0xc0:
            return at + 2
        at += 1 + m[at]
    return at + 1


def answers(m):
    n, at, found = struct.unpack(">H", m[6:8])[0], 12, []
    for _ in range(struct.unpack(">H", m[4:6])[0]):
        at = skip_name(m, at) + 4
    for _ in range(n):
        at = skip_name(m, at)
        kind, _, ttl, size = struct.unpack(">HHIH", m[at:at + 10])
        data = m[at + 10:at + 10 + size]
        text = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, data) if kind in (1, 28) else data.hex()
        found.append([kind, ttl, text])
        at += 10 + size
    return found


def resolver():
    with open("/etc/resolv.conf", encoding="utf-8") as f:
        for line in f:
            if line.startswith("nameserver"):
                return line.split()[1]
    raise OSError(errno.ENOENT, "no nameserver")


def act_dns(step):
    server, port = step.get("server") or resolver(), step.get("port", 53)
    message = bytes.fromhex(step["raw"]) if "raw" in step else \
        struct.pack(">HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) + question(step["name"], step.get("type", "A"))
    kind = socket.SOCK_STREAM if step.get("tcp") else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, kind) as s:
        s.settimeout(step.get("wait", SOON_S))
        s.connect((server, port))
        if step.get("tcp"):
            s.sendall(struct.pack(">H", len(message)) + message)
            reply = s.recv(2)
            while len(reply) < 2 + struct.unpack(">H", reply[:2])[0]:
                reply += s.recv(65536)
            reply = reply[2:]
        else:
            s.send(message)
            reply = s.recv(65536)
    return {"rcode": reply[3] & 15, "answers": answers(reply), "id": reply[:2].hex()}


def act_udp(step):
    family = socket.AF_INET6 if ":" in step["host"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(step.get("wait", 1))
        if step.get("connect", True):
            s.connect((step["host"], step["port"]))
            s.send(step["data"].encode("latin-1"))
        else:
            s.sendto(step["data"].encode("latin-1"), (step["host"], step["port"]))
        return {"data": s.recv(65536).decode("latin-1")}


def act_ping(step):
    v6 = ":" in step["host"]
    kind = getattr(socket, step.get("type", "SOCK_DGRAM"))
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, kind, socket.IPPROTO_ICMPV6 if v6
                       else socket.IPPROTO_ICMP) as s:
        s.settimeout(step.get("wait", 1))
        body = struct.pack(">HH", 7, 1) + b"ping"
        head = bytes([128 if v6 else 8, 0])
        total = sum(struct.unpack(">%dH" % ((len(body) + 4) // 2), head + b"\0\0" + body))
        total = (total & 0xffff) + (total >> 16)
        total += total >> 16
        s.sendto(head + struct.pack(">H", ~total & 0xffff) + body, (step["host"], 0))
        while True:
            reply, who = s.recvfrom(2048)
            if reply[:1] != head[:1]:
                return {"from": who[0]}


def act_socket(step):
    values = [getattr(socket, v) if isinstance(v, str) else v for v in step["args"]]
    socket.socket(*values).close()
    return {}


def act_lookup(step):
    found = socket.getaddrinfo(step["name"], step.get("port", 80), type=socket.SOCK_STREAM)
    return {"addresses": sorted({f[4][0] for f in found})}


def act_read(step):
    with open(step["path"], "rb") as f:
        return {"data": f.read(1 << 20).decode("latin-1")}


def act_wait(_step):
    """Until the test says so."""
    sys.stdin.readline()
    return {}


def act_many(step):
    """Hold `count` connections open at once and say how many were made; each must echo."""
    held, good, first = [], 0, None
    for _ in range(step["count"]):
        try:
            held.append(connect(step))
        except OSError as e:
            first = first or code(e)
    for s in held:
        try:
            s.sendall(b"ping")
            good += s.recv(4) == b"ping"
        except OSError as e:
            first = first or code(e)
    for s in held:
        s.close()
    return {"made": len(held), "good": good, "first_error": first}


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        steps = json.load(f)
    for step in steps:
        try:
            out = globals()["act_" + step["do"]](step)
        except Exception as e:  # whatever happens is the finding
            out = {"error": code(e)}
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
