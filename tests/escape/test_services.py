#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""I14: a host service whose socket lies in a granted tree."""
import os
import socket
import threading

import harness
from harness import check

CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    print(s.recv(100).decode())
except OSError as e:
    print("refused:", e)
"""


class Service:
    """Answers every connection with a token, until it is closed."""

    def __init__(self, path, token, cwd=None):
        back = os.getcwd()
        if cwd:
            os.chdir(cwd)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        os.chmod(path, 0o777)
        self.sock.listen(8)
        os.chdir(back)
        self.token = token
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c = self.sock.accept()[0]
            except OSError:
                return
            c.sendall(self.token.encode())
            c.close()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def reach(p, path, *options):
    return p.run("-q", *options, "--", "/usr/bin/python3", "-c", CLIENT, path)


@harness.case("I14-socket-in-workspace")
def in_workspace(p):
    """Direct, readable, writable trees: not reached, also by a relative name; granted by name: reached."""
    tree = os.path.join(p.outside, "tree")
    os.makedirs(os.path.join(tree, "deep"), 0o755)
    os.mkdir(p.path("run"))
    for d in (tree, os.path.join(tree, "deep"), p.path("run")):
        p.user.own(d)
    absolute, other = p.path("run", "service.sock"), os.path.join(tree, "deep", "db.sock")
    relative, below = p.path("relative.sock"), p.path("run", "below.sock")
    services = [Service(absolute, p.token), Service(other, p.token), Service("relative.sock", p.token, cwd=p.work),
                Service("./below.sock", p.token, cwd=p.path("run"))]
    for path in (absolute, other, relative, below):
        p.user.own(path)
    try:
        for path in (absolute, relative, below):
            r = reach(p, path, "--direct")
            check(p.token not in r.out, "reached: %s" % r)
        for option in ("--read", "--write"):
            r = reach(p, other, "--direct", option, tree)
            check(p.token not in r.out, "reached: %s" % r)
        if p.tier == "namespace":
            check(p.token not in reach(p, other, "--read", tree).out, "reached from a staged run")
            check(p.token not in reach(p, absolute).out, "reached from a staged workspace")
            r = reach(p, absolute, "--direct", "--write", absolute)
            check(p.token in r.out, "granted by name and refused: %s" % r)
        r = p.run("-q", "--direct", "--", "/bin/sh", "-c", "mv run gone; rm -f run/service.sock; echo x > run/new; true")
        check(os.path.exists(absolute) or p.tier == "process", "moved away: %s" % r)
        r = p.plain("/usr/bin/python3", "-c", CLIENT, other)
        check(p.token in r.out, "the control does not reach it: %s" % r)
    finally:
        for s in services:
            s.close()


@harness.case("I14-named-by-project", tiers=("namespace",))
def named_by_project(p):
    """A croft.yaml that nobody approved names a socket: it stays masked. Approved, or by an option: reached."""
    direct, below = p.path("db.sock"), os.path.join(p.outside, "agent.sock")
    services = [Service(direct, p.token), Service(below, p.token)]
    for path in (direct, below):
        p.user.own(path)
    own = p.write(os.path.join(p.dir, "own.yaml"), "version: 1\nfilesystem: {read: [%s]}\n" % p.outside)
    try:
        for access in ("read", "write", "read-if-present", "write-if-present"):
            p.write("croft.yaml", "version: 1\nfilesystem: {%s: [./db.sock]}\n" % access)
            r = reach(p, direct, "--direct")
            check(p.token not in r.out and ("refused" in r.out or r.rc == 126), "reached (%s): %s" % (access, r))
        p.write("croft.yaml", "version: 1\nfilesystem: {read: [%s]}\n" % below)
        for options in (("--policy", own), ("--policy", own, "--direct")):
            r = reach(p, below, *options)
            check(p.token not in r.out and ("refused" in r.out or r.rc == 126), "reached %s: %s" % (options, r))
        if harness.IN_SESSION:
            return  # the environment has a copy of the socket, which nobody serves
        p.write("croft.yaml", "version: 1\nfilesystem: {write: [./db.sock]}\n")
        r = reach(p, direct, "--direct", "--write", direct)
        check(p.token in r.out, "granted by an option and refused: %s" % r)
        r = p.plain(harness.croft, "policy", "trust", "croft.yaml")
        check(r.rc == 0, "not approved: %s" % r)
        r = reach(p, direct, "--direct")
        check(p.token in r.out, "approved and refused: %s" % r)
    finally:
        for s in services:
            s.close()


@harness.case("I14-own-sockets", tiers=("namespace",))
def own_sockets(p):
    """What the sandbox makes itself it can use, and make again in the next run."""
    script = "import os, socket\n" \
             "try: os.unlink('own.sock')\n" \
             "except FileNotFoundError: pass\n" \
             "s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(1)\n" \
             "c = socket.socket(socket.AF_UNIX); c.connect('own.sock'); print('talked')"
    for _ in range(2):
        r, receipt = p.receipt("--direct", "--", "/usr/bin/python3", "-c", script)
        check("talked" in r.out and r.rc == 0, r)
        check(not any("service" in d for d in receipt["degradations"]), receipt["degradations"])


@harness.case("I14-late-service", tiers=("namespace",))
def late_service(p):
    """A service that comes while the command runs is told."""
    child = p.popen(p.argv("--json", os.path.join(p.dir, "r.json"), "--direct", "--", "/bin/sh", "-c", "echo up; read x; true"),
                    stdin=harness.subprocess.PIPE)
    check(child.stdout.readline() == b"up\n", "the command did not start")
    path = p.path("late.sock")
    s = Service(path, p.token)
    try:
        r = p.finish(child)
        with open(os.path.join(p.dir, "r.json"), encoding="utf-8") as f:
            receipt = harness.json.load(f)
        told = r.err if harness.IN_SESSION else str(receipt["degradations"])  # a session tells it at its end
        check(path in told, "not told: %s %s" % (r, receipt["degradations"]))
    finally:
        s.close()


if __name__ == "__main__":
    harness.main()
