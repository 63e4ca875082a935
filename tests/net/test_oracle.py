#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# serial
"""What comes back tells nothing about a secret: neither when nor where from (S8, S9)."""
import json

import place  # first: it finds the harness
from place import BOTH, PYTHON, case, check, get, https, statuses

HOST = "secret.example.com"
VALUE = "ghp_0a1b2c3d4e5f6g7h8i9jAkBlCmDnEoFpGqHr"
SAMPLES = 120
APART_MS = 5  # less than what the control delays, more than noise
TRIES = 5  # a machine that is busy makes differences; one that is there stays

# Runs inside. Guesses of every length, right and wrong in turn, over a WebSocket that echoes.
CLIENT = r'''
import base64, json, os, socket, ssl, statistics, struct, sys, time, urllib.parse
host, path, value, samples = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
WAIT_S = 2.0
def connect():
    proxy = os.environ.get("https_proxy", "")
    if proxy:
        at = urllib.parse.urlsplit(proxy)
        s = socket.create_connection((at.hostname, at.port), timeout=10)
        who = base64.b64encode(("%s:%s" % (at.username, at.password)).encode()).decode()
        s.sendall(("CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\nProxy-Authorization: Basic %s\r\n\r\n" % (host, host, who)).encode())
        head = b""
        while b"\r\n\r\n" not in head: head += s.recv(1)
    else:
        s = socket.create_connection((host, 443), timeout=10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ssl.create_default_context().wrap_socket(s, server_hostname=host)
s = connect()
token = os.environ.get("TOKEN") or value
s.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % (path, host, token)).encode())
head = b""
while b"\r\n\r\n" not in head:
    more = s.recv(1)
    if not more: sys.exit("no handshake: %r" % head)
    head += more
if b" 101 " not in head.split(b"\r\n")[0]: sys.exit("refused: %r" % head)
def send(first, data): s.sendall(struct.pack("!BBI", first, 0x80 | len(data), 0) + data)
def exactly(n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more: sys.exit("closed")
        got += more
    return got
def ask(data):
    """Seconds until the echo is whole, and in how many frames it came."""
    since, got, frames = time.monotonic(), b"", 0
    s.settimeout(WAIT_S)
    send(0x81, data)
    try:
        while len(got) < len(data):
            h = exactly(2)
            got += exactly(h[1] & 127)
            frames += 1
    except TimeoutError:
        s.settimeout(10)  # it waits for what follows
        send(0x81, b"\n~")
        rest = b""
        while not rest.endswith(b"~"): rest += s.recv(100)
    return (time.monotonic() - since) * 1000, frames
times = {True: [], False: []}
shapes = {True: set(), False: set()}
for i in range(samples):
    n = 1 + i % (len(value) - 1)
    for right in (True, False):
        guess = value[:n] if right else value[:n - 1] + "~"
        ms, frames = ask(guess.encode())
        times[right].append(ms)
        shapes[right].add(frames)
    if max(times[True]) > WAIT_S * 1000 and i > 3: break
ordinary = {t: ask(t.encode())[0] for t in ("ping", "50%", "C:\\", "\\u00")}
send(0x01, value[:9].encode()); send(0x89, b"now"); send(0x80, value[9:].encode())
joined = b""
while len(joined) < len(value):
    h = exactly(2)
    data = exactly(h[1] & 127)
    joined += b"" if h[0] & 8 else data
print(json.dumps({"right": statistics.median(times[True]), "wrong": statistics.median(times[False]), "slowest": max(times[True]),
                  "shapes": [sorted(shapes[True]), sorted(shapes[False])], "ordinary": ordinary, "joined": joined.decode()}))
'''


def policy():
    return {"allow": [{"host": HOST, "ports": [443], "mode": "ws"}],
            "secrets": [{"name": "TOKEN", "host": HOST, "place": "bearer"}]}


def measure(r):
    lines = [line for line in r.out.splitlines() if line.startswith("{")]
    check(lines, r)
    return json.loads(lines[-1])


@case("S8-delays", tiers=BOTH)
def delays(p):
    """A WebSocket that echoes guesses: right and wrong beginnings of the secret come back alike."""
    r = p.croft("secret", "set", "TOKEN", stdin=VALUE)
    check(r.rc == 0, r)
    p.write("client.py", CLIENT)
    found = None
    for _ in range(TRIES):
        r, _ = p.croft_run(policy(), PYTHON, "client.py", HOST, "/ws", VALUE, str(SAMPLES))
        found = measure(r)
        check(found["shapes"][0] == found["shapes"][1] == [1], found)
        if abs(found["right"] - found["wrong"]) < APART_MS and max(found["ordinary"].values()) < 1000:
            break
    check(VALUE in "".join(p.world.received("raw")), "the secret was not used")
    check(abs(found["right"] - found["wrong"]) < APART_MS, found)
    check(max(found["ordinary"].values()) < 1000, found)
    check(set(found["joined"]) == {"*"}, "a secret in two fragments came back: %s" % found)
    # The control: a server that keeps right guesses for a while is seen to.
    r, _ = p.croft_run(policy(), PYTHON, "client.py", HOST, "/ws-late", VALUE, str(SAMPLES))
    found = measure(r)
    check(found["right"] - found["wrong"] > APART_MS, "the control is not seen: %s" % found)
    r = p.plain(PYTHON, "client.py", HOST, "/ws", VALUE, "4")
    check(measure(r)["joined"] == VALUE, "the control is not echoed: %s" % r)


@case("S9-everywhere", tiers=BOTH)
def everywhere(p):
    """A secret that is bound to some paths does not come back from others of its host: other ports, plain text, WebSockets."""
    r = p.croft("secret", "set", "TOKEN", stdin=VALUE)
    check(r.rc == 0, r)
    rule = {"host": HOST, "ports": [80, 443, 8443], "mode": "ws"}
    secret = {"name": "TOKEN", "host": HOST, "place": "bearer", "paths": ["/repos/**"], "methods": ["GET"]}
    steps = [https(HOST, get("/repos/x", HOST, headers=["Authorization: Bearer @P@"])), https(HOST, get("/last", HOST)),
             https(HOST, get("/last", HOST, method="POST", body="x")), https(HOST, get("/last", HOST + ":8443"), port=8443),
             {"do": "http", "host": HOST, "port": 80, "send": [get("/last", HOST)]}]
    p.write("client.py", "import json,os,sys\ntext = open(sys.argv[1]).read().replace('@P@', os.environ['TOKEN'])\n"
            "open('filled.json', 'w').write(text)\nos.execv(sys.executable, [sys.executable, 'probe.py', 'filled.json'])\n")
    r, _ = p.croft_run({"allow": [rule], "secrets": [secret]}, PYTHON, "client.py", p.steps(steps)[2])
    found = p.parse(r, steps)
    check(VALUE in "".join(p.world.received("raw")), "the secret was not used: %s" % found)
    for s, f in zip(steps, found):
        check(statuses(f) == [200], "%s: %s" % (s, f))
        check(VALUE not in json.dumps(f), "%s: it came back: %s" % (s, f))
    check(all("last Bearer ****" in json.dumps(f) for f in found[1:]), found)
    # The control: a host that was given nothing is not redacted, and one without the gateway neither.
    plain = p.control(steps[1:])
    check(all(VALUE in json.dumps(f) for f in plain), "the control is not told: %s" % plain)
    p.write("ws.py", CLIENT.replace('os.environ.get("TOKEN") or value', '"nothing"'))
    r, _ = p.croft_run({"allow": [rule], "secrets": [secret]}, PYTHON, "ws.py", HOST, "/ws", VALUE, "4")
    check(set(measure(r)["joined"]) == {"*"}, r)


if __name__ == "__main__":
    place.main()
