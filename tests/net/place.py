# SPDX-License-Identifier: Apache-2.0
"""What the network tests share: the world, a workspace in it, policies, and probes inside and outside the sandbox."""
import contextlib
import copy
import json
import os
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "escape"))
sys.dont_write_bytecode = True

import harness  # noqa: E402
import sites  # noqa: E402
from harness import Fail, Skip, check  # noqa: E402,F401
from world import PYTHON, Unavailable, World  # noqa: E402

NAMESPACE = ("namespace",)
BOTH = ("namespace", "process")
world = None  # the script's World, once main() runs
GATEWAY = "croft-gateway"
NEIGHBOUR = "192.0.2.66"  # where the hostile command of a session knocks: NOWHERE in tests/payload/hostile.c
started = []  # children that may still run
CASE_MAX_S = 300  # a case that waits for what never comes fails; the others still run


def case(name, tiers=NAMESPACE, only_user=None, once=False):
    """Most attempts need a namespace to be tried in; those that make sense through a proxy name both tiers."""
    return harness.case(name, tiers, only_user, once)


def need_program(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"):
    found = shutil.which(name, path=path)
    if not found:
        raise Skip(name + " is not installed")
    return found


def need_service(name):
    if name in world.missing:
        raise Skip(world.missing[name])


def neighbours(d):
    """Was it the hostile command of a session? It knocks at one address, and at the gateway's own port."""
    return harness.IN_SESSION and (d["host"] == NEIGHBOUR or (d["host"], d["port"]) == ("127.0.0.1", 1))


class Denied:
    """Those entries of a receipt that are about the network."""

    def __init__(self, receipt):
        self.all = [d for d in receipt.get("denials", []) if d.get("operation") == "network" and not neighbours(d)]

    def about(self, **fields):
        return [d for d in self.all if all(d.get(k) == v for k, v in fields.items())]

    def __str__(self):
        return json.dumps(self.all, indent=1)


class Place(harness.Place):
    def __init__(self, user, tier, base):
        super().__init__(user, tier, base)
        signal.alarm(CASE_MAX_S)
        started[:] = [child for child in started if child.poll() is None]
        world.forget()
        self.world = world
        self.serial = 0
        self.last = None
        self.env["SSL_CERT_FILE"] = self.env["CURL_CA_BUNDLE"] = self.env["GIT_SSL_CAINFO"] = world.ca
        self.probe_file = self.write("probe.py", open(os.path.join(HERE, "probe.py"), encoding="utf-8").read())
        self._gateway()

    @staticmethod
    def _gateway():
        """croft looks for its gateway beside itself; ours is a copy, so the gateway is copied too."""
        target = os.path.join(os.path.dirname(harness.croft), GATEWAY)
        if os.path.exists(target):
            return
        directory = os.path.dirname(harness.find_croft())
        for path in (os.path.join(directory, GATEWAY), os.path.join(directory, "net", GATEWAY),
                     os.path.join(os.path.dirname(directory), GATEWAY)):
            if os.path.exists(path):
                shutil.copy(path, target)
                os.chmod(target, 0o755)
                return

    def policy(self, **network):
        """A policy file with this network section; JSON is YAML."""
        network = copy.deepcopy(network)
        network.setdefault("dns", [sites.DNS])
        network.setdefault("trust", [world.ca])
        self.serial += 1
        path = os.path.join(self.dir, "policy%d.yaml" % self.serial)
        self.write(path, "version: 1\nnetwork: %s\n" % json.dumps(network))
        return path

    def command_env(self):
        """What a command inside gets: nothing of the controls' trust."""
        return {}

    def croft_run(self, policy, *words, options=(), **kw):
        """(result, receipt) of a command under a policy (a path, or the network section as a dict)."""
        if isinstance(policy, dict):
            policy = self.policy(**policy)
        chosen = ["--policy", policy] if policy else []
        saved = dict(self.env)
        for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"):
            self.env.pop(name, None)
        try:
            result, receipt = self.receipt("-q", "--direct", *chosen, *options, "--", *words, **kw)
        finally:
            self.env = saved
        self.last = (result, receipt)
        return result, receipt

    def start(self, policy, *words, options=(), **kw):
        """croft run in the background: a Popen. `receipt_file` holds the receipt afterwards."""
        if isinstance(policy, dict):
            policy = self.policy(**policy)
        self.serial += 1
        self.receipt_file = os.path.join(self.dir, "receipt%d.json" % self.serial)
        chosen = ["--policy", policy] if policy else []
        env = {k: v for k, v in self.env.items() if k not in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")}
        argv = self.argv("-q", "--direct", "--json", self.receipt_file, *chosen, *options, "--", *words)
        kw.setdefault("cwd", self.work)
        started.append(subprocess.Popen(argv, env=env, stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **kw, **self.user.drop()))
        return started[-1]

    def popen(self, argv, **kw):
        started.append(super().popen(argv, **kw))
        return started[-1]

    def read_receipt(self):
        with open(self.receipt_file, encoding="utf-8") as f:
            return json.load(f)

    def steps(self, steps):
        self.serial += 1
        path = "steps%d.json" % self.serial
        self.write(path, json.dumps(steps))
        return [PYTHON, "probe.py", path]

    @staticmethod
    def parse(result, steps):
        lines = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
        if len(lines) != len(steps):
            raise Fail("%d of %d steps answered: %s" % (len(lines), len(steps), result))
        return lines

    def inside(self, policy, steps, options=(), **kw):
        """Run the probe's steps in a sandbox: a list of findings. The receipt is in last[1]."""
        result, _ = self.croft_run(policy, *self.steps(steps), options=options, **kw)
        return self.parse(result, steps)

    def control(self, steps):
        """The control: the same steps without a sandbox."""
        return self.parse(self.plain(*self.steps(steps)), steps)

    def denied(self):
        return Denied(self.last[1])

    def network(self):
        return self.last[1].get("network", {})

    def counted(self):
        """A receipt's account of the network, or None: nobody knows whose traffic it was in a session."""
        net = self.network()
        if not harness.IN_SESSION:
            return net
        check(net["gateway"] == "served" and net["connections"] is None and net["hosts"] is None, net)
        return None

    def payload(self, name):
        """One of tests/payload, in the workspace: from the build, or compiled now."""
        target = self.path(name)
        built = os.path.join(os.environ.get("BUILD") or os.path.join(harness.ROOT, "build"), "tests", "payload-" + name)
        if os.path.exists(built):
            shutil.copy(built, target)
        else:
            source = os.path.join(harness.ROOT, "tests", "payload", name + ".c")
            for cc in ("cc", "gcc", "clang"):
                if shutil.which(cc) and subprocess.run([cc, "-static", "-D_GNU_SOURCE", "-O1", "-o", target, source],
                                                       check=False).returncode == 0:
                    break
            else:
                raise Skip("no compiler for " + name)
        os.chmod(target, 0o755)
        self.user.own(target)
        return "./" + name

    def croft(self, *words, stdin="", **kw):
        """Another croft command as this user."""
        child = self.popen([harness.croft, *words], stdin=subprocess.PIPE, **kw)
        out, err = child.communicate(stdin.encode(), timeout=harness.WAIT_S)
        return harness.Result(child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def need(self, *words):
        """Skip when this croft does not know a command or an option."""
        r = self.croft(*words, "--help")
        if r.rc != 0:
            raise Skip("croft has no " + " ".join(words))
        return r.out


def get(path="/", host="raw.example.com", method="GET", headers=(), body="", version="1.1"):
    """One ordinary request as text."""
    lines = ["%s %s HTTP/%s" % (method, path, version), "Host: " + host, *headers]
    if body:
        lines.append("Content-Length: %d" % len(body))
    return "\r\n".join(lines) + "\r\n\r\n" + body


def https(host, *pieces, port=443, sni=None, **more):
    """A step: these bytes over TLS to the host."""
    tls = {"alpn": ["http/1.1"]}
    if sni:
        tls.update(sni=sni, verify=False)
    return {"do": "http", "host": host, "port": port, "tls": tls, "send": list(pieces), **more}


def statuses(finding):
    return [r["status"] for r in finding.get("responses", [])]


def refusal(finding, index=0):
    """The JSON of a 403 or 502 that the gateway gave."""
    responses = finding.get("responses", [])
    if len(responses) <= index:
        raise Fail("no response: %s" % finding)
    with contextlib.suppress(ValueError):
        text = json.loads(responses[index]["body"])
        if isinstance(text, dict) and "error" in text:
            return text
    raise Fail("not the gateway's refusal: %s" % responses[index])


def closed(finding):
    """Refused below HTTP: no connection, or one that ended without a byte."""
    return "error" in finding or (finding.get("end") in ("eof", "ECONNRESET", "EPIPE") and not finding.get("data")
                                  and not finding.get("responses"))


def turned_away(finding):
    """Refused: below HTTP, or by the gateway's own 403."""
    if closed(finding):
        return True
    if "responses" in finding:
        return statuses(finding) == [403] and refusal(finding)["error"] == "denied by croft policy"
    return "denied by croft policy" in finding.get("data", "")


def unsupported():
    """Why this croft cannot run network tests at all, or None."""
    r = subprocess.run([harness.find_croft(), "run", "--help"], capture_output=True, text=True, check=False)
    text = r.stdout + r.stderr
    return None if "--publish" in text or "publish" in text else "this croft has no network gateway yet"


def main(services=None):
    """Make the world, run the registered cases in it, take it down."""
    global world

    def ended(number, _frame):
        for child in started:  # else they would write where we clean up
            if child.poll() is None:
                child.kill()
                child.wait()
        raise SystemExit(128 + number)

    def hung(_number, _frame):
        raise Fail("the case took longer than %d s" % CASE_MAX_S)

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGALRM, hung)
    reason = unsupported()
    world = World(services) if services else World()
    try:
        if reason:
            raise Unavailable(reason)
        world.start()
    except Unavailable as e:
        world.stop()
        harness.report("skip", os.path.basename(sys.argv[0]), str(e))
        sys.exit(0)
    except BaseException:
        world.stop()
        raise
    for name, why in world.missing.items():
        harness.details("%s: %s" % (name, why))
    harness.Place = Place
    try:
        harness.main()
    finally:
        signal.alarm(0)
        world.stop()


__all__ = [n for n in dir() if not n.startswith("_")]
