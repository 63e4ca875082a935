# SPDX-License-Identifier: Apache-2.0
"""A small internet of its own for one test script.

Purpose: this process moves to a new network namespace, "host", where croft will run. A second one, "outside",
         holds every server; one veth pair joins them and outside is the default route. Nothing reaches the machine's
         own network, and public addresses, metadata services and private ranges are really there to be reached.
Order:   enter() before any thread; start(); cases; stop(). Namespaces end with the processes that hold them.
Users:   root makes the namespaces directly. A plain user gets them with a user namespace in which it keeps its own
         number and, after exec, no capability: croft sees an ordinary user there. Where that is refused: Unavailable.
Failure: every server dies with this process (parent-death signal), so that even SIGKILL leaves nothing.
"""
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import certs
import sites

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 47, 2
CAPS = (10, 12, 13, 21)  # bind low ports, administer and listen raw on the network, enter namespaces
READY_S = 30
PAUSE_S = 0.01  # between attempts to connect to a server that is starting
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable

libc = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """The world cannot be made here, and why."""


def call(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), "%s: %s" % (what, os.strerror(ctypes.get_errno())))


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def keep_capabilities():
    """In a child before exec: what this user namespace gives, also after exec."""
    header = struct.pack("Ii", 0x20080522, 0)
    bits = sum(1 << c for c in CAPS)
    libc.capset(header, struct.pack("IIIIII", bits, bits, bits, 0, 0, 0))
    for cap in CAPS:
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0)


class World:
    def __init__(self, services=("nginx", "app", "ws", "grpc", "h2", "dns", "host")):
        self.services = services
        self.dir = None
        self.children = []
        self.outside = None  # descriptor of the namespace
        self.holder = None
        self.ipv6 = os.path.exists("/proc/sys/net/ipv6")
        self.missing = {}  # service -> why it does not run
        self.marks = {}
        self.rootless = os.getuid() != 0

    # ---- namespaces ----

    def enter(self):
        """Become a process of the "host" namespace."""
        uid, gid = os.getuid(), os.getgid()
        try:
            call(libc.unshare(CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if self.rootless else 0)), "unshare")
            if self.rootless:
                write("/proc/self/setgroups", "deny")
                write("/proc/self/uid_map", "%d %d 1" % (uid, uid))
                write("/proc/self/gid_map", "%d %d 1" % (gid, gid))
            call(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
        except OSError as e:
            raise Unavailable("no namespaces for the test network: %s" % e.strerror) from None
        self._hold_outside()
        self._connect()

    def _hold_outside(self):
        """A child whose only work is to keep the second namespace."""
        ready_r, ready_w = os.pipe()
        self.holder = os.fork()
        if self.holder == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            ok = libc.unshare(CLONE_NEWNET) == 0
            os.write(ready_w, b"y" if ok else b"n")
            while True:
                signal.pause()
        os.close(ready_w)
        with os.fdopen(ready_r, "rb") as f:
            if f.read(1) != b"y":
                raise Unavailable("no second network namespace")
        self.outside = os.open("/proc/%d/ns/net" % self.holder, os.O_RDONLY | os.O_CLOEXEC)

    def _ip(self, lines, outside=False):
        r = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True,
                           check=False, preexec_fn=lambda: self._child(outside))
        if r.returncode:
            raise Unavailable("ip: " + (r.stderr.strip().splitlines() or ["failed"])[0])

    def _connect(self):
        v4, v6 = sites.outside_addresses()
        host = ["link set lo up", "link add wan0 type veth peer name net0 netns %d" % self.holder,
                "addr add %s/24 dev wan0" % sites.HOST4,
                "addr add %s/32 dev lo" % sites.HOST_LAN, "link set wan0 up",
                "route add default via " + sites.ROUTER4]
        far = ["link set lo up", "addr add %s/24 dev net0" % sites.ROUTER4, "link set net0 up"]
        far += ["addr add %s/32 dev lo" % a for a in v4]
        if self.ipv6:
            host += ["addr add %s/64 dev wan0 nodad" % sites.HOST6, "route add ::/0 via " + sites.ROUTER6]
            far += ["addr add %s/64 dev net0 nodad" % sites.ROUTER6]
            far += ["addr add %s/128 dev lo nodad" % a for a in v6]
        self._ip(host[:-1] if self.ipv6 else host)
        self._ip(far, outside=True)
        if self.ipv6:
            self._ip(host[-1:])
        pid = os.fork()
        if pid == 0:
            call(libc.setns(self.outside, CLONE_NEWNET), "setns")
            write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            raise Unavailable("low ports cannot be opened to the servers")

    def _child(self, outside):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if outside and libc.setns(self.outside, CLONE_NEWNET):
            os._exit(127)
        if self.rootless:
            keep_capabilities()

    # ---- servers ----

    def spawn(self, argv, outside=True, **kw):
        """A server; ends with stop() or with this process."""
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=lambda: self._child(outside), **kw)
        self.children.append(child)
        return child

    def spawn_ready(self, argv, outside=True):
        """A server that says "ready"."""
        with open(os.path.join(self.dir, "servers.log"), "ab") as log:
            child = self.spawn(argv, outside, stdout=subprocess.PIPE, stderr=log)
        if child.stdout.readline() != b"ready\n":
            child.wait()
            with open(log.name, encoding="utf-8", errors="replace") as f:
                raise Unavailable("%s: %s" % (os.path.basename(argv[1]), f.read()[-500:].strip()))
        return child

    def wait_port(self, address, port, child):
        end = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection((address, port), timeout=5).close()
                return
            except OSError as e:
                if child.poll() is not None or time.monotonic() > end:
                    raise Unavailable("%s does not listen on %s: %s" % (child.args[0], address, e)) from None
            time.sleep(PAUSE_S)

    def start(self):
        self.dir = tempfile.mkdtemp(prefix="croft-world.", dir="/var/tmp" if os.path.isdir("/var/tmp") else None)
        os.chmod(self.dir, 0o755)
        self.enter()
        self._resolv_conf()
        self.authority = certs.Authority(os.path.join(self.dir, "ca"))
        self.ca = self.authority.ca
        self.good = self.authority.issue("good", sites.CERTIFIED)
        sites.build(self.dir)
        for service in self.services:
            self._start(service)

    def _start(self, service):
        needs = {"nginx": "nginx", "h2": "nghttpd", "dns": "dnsmasq", "app": "git"}
        program = needs.get(service)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        if program and not shutil.which(program, path=path):
            if service in ("app", "dns"):
                raise Unavailable(program + " is not installed")
            self.missing[service] = program + " is not installed"
            return
        try:
            getattr(self, "_start_" + service)()
        except Unavailable as e:
            if service in ("app", "dns", "host"):
                raise
            self.missing[service] = str(e)

    def _start_app(self):
        conf = {"record": os.path.join(self.dir, "outside.record"), "git": os.path.join(self.dir, "git"),
                "listen": sites.listeners(*self.good, self.ipv6)}
        self._app("outside", conf, True)

    def _start_host(self):
        conf = {"record": os.path.join(self.dir, "host.record"), "git": "/nonexistent",
                "listen": sites.host_listeners(self.ipv6)}
        self._app("host", conf, False)

    def _app(self, name, conf, outside):
        path = os.path.join(self.dir, name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(conf, f)
        open(conf["record"], "a", encoding="utf-8").close()
        self.spawn_ready([PYTHON, os.path.join(HERE, "servers", "app.py"), path], outside)

    def _start_nginx(self):
        stranger = certs.Authority(os.path.join(self.dir, "stranger"), "an authority nobody knows")
        bad = {"wrongname.example.com": self.authority.issue("wrongname", ["elsewhere.example.net"]),
               "expired.example.com": self.authority.issue("expired", ["expired.example.com"], expired=True),
               "selfsigned.example.com": self.authority.self_signed("selfsigned", ["selfsigned.example.com"]),
               "unknownca.example.com": stranger.issue("unknownca", ["unknownca.example.com"])}
        path = os.path.join(self.dir, "nginx.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(sites.nginx_conf(self.dir, self.good, bad, self.ipv6))
        child = self.spawn([shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-p", self.dir, "-c", path, "-e",
                            os.path.join(self.dir, "nginx.err")], stderr=subprocess.DEVNULL)
        for address in (sites.NGINX, sites.REGISTRY, sites.BADCERT):
            self.wait_port(address, 443, child)

    def _start_h2(self):
        child = self.spawn([shutil.which("nghttpd", path="/usr/sbin:/usr/bin"), "-a", sites.H2, "-d",
                            os.path.join(self.dir, "www"), "--echo-upload", "443", self.good[1], self.good[0]],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_port(sites.H2, 443, child)

    def _start_ws(self):
        self.spawn_ready([PYTHON, os.path.join(HERE, "servers", "ws_echo.py"), sites.WS, "443", *self.good])

    def _start_grpc(self):
        self.spawn_ready([PYTHON, os.path.join(HERE, "servers", "grpc_echo.py"), sites.GRPC + ":443", *self.good])

    def _start_dns(self):
        self.flip_file = os.path.join(self.dir, "flip")
        write(self.flip_file, "%s %s\n" % (sites.RAW, sites.FLIP))
        self.dns_log = os.path.join(self.dir, "dns.log")
        argv = [shutil.which("dnsmasq", path="/usr/sbin:/usr/bin"), "--keep-in-foreground", "--no-resolv", "--no-hosts",
                "--conf-file=/dev/null", "--local=/example.com/example.net/example.org/evilexample.com/", "--listen-address=" + sites.DNS, "--bind-interfaces", "--log-queries",
                "--log-facility=" + self.dns_log, "--pid-file=", "--cache-size=0", "--addn-hosts=" + self.flip_file,
                "--txt-record=exfil.attacker.example.net,reached", "--address=/attacker.example.net/" + sites.EVIL]
        if not self.rootless:
            argv.append("--user=root")
        for name, addresses in sites.NAMES.items():
            for a in addresses:
                argv.append("--host-record=%s,%s" % (name, a))
        open(self.dns_log, "a", encoding="ascii").close()
        self.dnsmasq = self.spawn(argv, stderr=subprocess.DEVNULL)
        self.wait_port(sites.DNS, 53, self.dnsmasq)

    def _resolv_conf(self):
        """Programs outside the sandbox, the controls, ask the same resolver."""
        path = os.path.join(self.dir, "resolv.conf")
        write(path, "nameserver %s\noptions timeout:2 attempts:1\n" % sites.DNS)
        target = os.path.realpath("/etc/resolv.conf")
        if not os.path.exists(target) or libc.mount(path.encode(), target.encode(), None, MS_BIND, None):
            self.missing["resolv.conf"] = "/etc/resolv.conf cannot be replaced"

    def rebind(self, address):
        """From now on sites.FLIP has this address."""
        write(self.flip_file, "%s %s\n" % (address, sites.FLIP))
        self.dnsmasq.send_signal(signal.SIGHUP)
        end = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError):
                if socket.gethostbyname(sites.FLIP) == address:
                    return
            if time.monotonic() > end:
                raise Unavailable("the resolver does not take a new address")
            time.sleep(PAUSE_S)

    # ---- what was seen ----

    def _since(self, path):
        with open(path, encoding="utf-8", errors="replace") as f:
            f.seek(self.marks.get(path, 0))
            return f.read()

    def forget(self):
        """What was seen until now does not count."""
        for path in (os.path.join(self.dir, n) for n in ("outside.record", "host.record", "dns.log")):
            if os.path.exists(path):
                self.marks[path] = os.path.getsize(path)

    def events(self, label=None):
        found = []
        for name in ("outside.record", "host.record"):
            path = os.path.join(self.dir, name)
            if os.path.exists(path):
                found += [json.loads(line) for line in self._since(path).splitlines() if line.endswith("}")]
        return [e for e in found if label is None or e["label"] == label]

    def opened(self, label):
        return [e for e in self.events(label) if e["event"] == "open"]

    def requests(self, label):
        return [e for e in self.events(label) if e["event"] == "request"]

    def received(self, label=None):
        """All bytes that came in, by connection."""
        found = {}
        for e in self.events(label):
            if e["event"] == "data":
                found[e["conn"]] = found.get(e["conn"], "") + e["data"]
        return list(found.values())

    def queries(self):
        """Names that the resolver was asked."""
        return re.findall(r"query\[[^]]+\] (\S+) from", self._since(self.dns_log))

    def stop(self):
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdout:
                child.stdout.close()
        self.children = []
        if self.holder:
            os.kill(self.holder, signal.SIGKILL)
            os.waitpid(self.holder, 0)
            self.holder = None
        if self.outside is not None:
            os.close(self.outside)
            self.outside = None
        if self.dir:
            shutil.rmtree(self.dir, ignore_errors=True)
