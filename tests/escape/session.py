# SPDX-License-Identifier: Apache-2.0
"""
A session in a place of the escape tests, and a hostile command beside what is tried in it.

As a program: session.py CROFT HOSTILE TIER DIRECTORY OPTIONS -- COMMAND does what croft run does with them, in a session.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import harness

BESIDE = "hostile-neighbour"  # the program's name in the sandbox's /tmp: the workspace is as the test made it
HOSTILE = ("/bin/sh", "-c", 'exec "${TMPDIR:-/tmp}/%s" "$@"' % BESIDE, "sh")
BRING = 'cat >"${TMPDIR:-/tmp}/%s" && chmod 755 "${TMPDIR:-/tmp}/%s"' % (BESIDE, BESIDE)


def payload():
    given = os.environ.get("CROFT_TEST_HOSTILE")
    build = given or os.path.dirname(harness.find_croft())
    for path in (given or "", os.path.join(build, "tests", "payload-hostile"), os.path.join(build, "..", "tests", "payload-hostile")):
        if os.access(path, os.X_OK):
            return path
    raise harness.Skip("payload-hostile is not built")


def wait_for(condition, what, place=None, timeout=harness.WAIT_S):
    """Poll until condition() is true and return its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise harness.Fail("never happened: " + what)
        time.sleep(0.01)


class Session:
    """An environment of the place's workspace that is up; `with` ends it."""

    def __init__(self, place, *options, name="live", tier=None, env=None, cwd=None):
        self.place, self.name = place, name
        self.tier = tier or place.tier
        self.cwd, self.env = cwd or place.work, env or {}
        if self.tier == "process" and not os.path.exists(place.path(".git")):
            self._repository()  # without an overlay its copies are made from a commit
        self.refused = self._croft("new", "-q", "--tier", self.tier, "--dirty", name, cwd=self.cwd)
        if self.refused.rc == 0:
            self.refused = self._croft("up", "-q", *options, name)
        if self.refused.rc == 0:
            self._bring()

    def _bring(self):
        with open(payload(), "rb") as f:
            r = self.exec("/bin/sh", "-c", BRING, stdin=f)
        harness.check(r.rc == 0, "the hostile program cannot be brought in: %s" % r)

    def _repository(self):
        who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
        for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "--allow-empty", "-m", "start")):
            r = self.place.finish(self.place.popen(["git", *words]))
            harness.check(r.rc == 0, "git: %s" % r)

    def __enter__(self):
        if self.refused.rc == 126:
            self.__exit__()
            raise harness.Skip(self.refused.err.strip().splitlines()[-1])
        harness.check(self.refused.rc == 0, "it does not come up: %s" % self.refused)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(harness.Fail):
            self.place.left = self._croft("down", "--now", self.name).err
            self._croft("rm", "--force", "-q", self.name)

    def _croft(self, *words, **kw):
        timeout = kw.pop("timeout", harness.WAIT_S)
        kw["env"] = {**self.env, **(kw.get("env") or {})}
        return self.place.finish(self.place.popen([harness.croft, *words], **kw), timeout)

    def croft(self, command, *words, **kw):
        return self._croft(command, self.name, *words, **kw)

    def exec(self, *words, options=(), **kw):
        return self._croft("exec", "-q", *options, self.name, "--", *words, **kw)

    def sh(self, script, *options, **kw):
        return self.exec("/bin/sh", "-c", script, options=options, **kw)

    def popen(self, *words, options=(), **kw):
        return self.place.popen([harness.croft, "exec", "-q", *options, self.name, "--", *words], **kw)

    def detach(self, *words):
        r = self._croft("exec", "-d", self.name, "--", *words)
        harness.check(r.rc == 0 and r.out.strip().isdigit(), "exec -d: %s" % r)
        return int(r.out)

    def info(self):
        r = self._croft("ps", "--json", self.name)
        harness.check(r.rc == 0, "croft ps: %s" % r)
        return json.loads(r.out)

    def process(self, number):
        return next((p for p in self.info()["processes"] if p["process"] == number), None)

    def state(self, number):
        """Its state; "ended" for one that is forgotten already."""
        found = self.process(number)
        return found["state"] if found else "ended"

    def output(self, number):
        return self._croft("logs", self.name, str(number)).out

    def neighbour(self, how, where="."):
        """The hostile command, when it has tried everything once; its number."""
        number = self.detach(*HOSTILE, how, where)
        child = self.place.popen([harness.croft, "logs", "-f", self.name, str(number)], env=self.env)
        try:
            harness.read_until(child.stdout.fileno(), b"there")
        finally:
            child.kill()
            child.communicate()
        return number

    def entries(self):
        """What the ledger has of commands, once it is down: (kind, command or None, exit or None)."""
        found, commands = [], {}
        events = json.loads(self._croft("log", "--json", self.name).out)["events"]
        for x in (x for e in events for x in e.get("entries", [])):
            if "command" in x:
                commands[x["run"]] = x["command"]
            found.append((x["kind"], commands.get(x.get("run")), x.get("exit")))
        return found


# ---- the probes of croft run, inside ----

OF_EXEC = {"--env": 1, "--json": 1, "--timeout": 1, "--label": 1, "-q": 0, "--quiet": 0, "-v": 0, "--verbose": 0}
MODES = ("--staged", "--discard", "--stay")  # what a session writes is staged
OF_RUN = ("--read-only", "--dry-run")
PATHS = ("--read", "--write", "--write-runs", "--deny", "--view", "--policy")
THERE = 'cd "$0" && exec "$@"'
_serial = 0


def _split(words):
    """Options of the boundary, options of the command, the command."""
    at = words.index("--") if "--" in words else len(words)
    boundary, own, options = [], [], list(words[:at])
    while options:
        o = options.pop(0)
        if o in OF_RUN:
            raise harness.Skip("croft run %s" % o)
        if o in OF_EXEC:
            own += [o] + [options.pop(0) for _ in range(OF_EXEC[o])]
        elif o not in MODES:
            boundary.append(o)
    return boundary, own, list(words[at + 1:])


def _in_place(place, cwd, boundary, command):
    """
    A directory that is written in place is a grant of a session that has another one for its workspace; one with a
    policy of its own has to be the workspace itself. Returns what croft new, croft up and croft exec get then.
    """
    if "--direct" not in boundary:
        return cwd, boundary, command
    boundary = [o for o in boundary if o != "--direct"]
    if os.path.lexists(os.path.join(cwd, "croft.yaml")):
        return cwd, boundary, command
    for i in range(1, len(boundary)):
        if boundary[i - 1] in PATHS and boundary[i].startswith("."):
            boundary[i] = os.path.join(cwd, boundary[i].removeprefix("./"))
    empty = os.path.join(place.dir, "workspace")
    if not os.path.isdir(empty):
        os.mkdir(empty, 0o700)
        place.user.own(empty)
    return empty, ["--write", cwd, *boundary], ["/bin/sh", "-c", THERE, cwd, *command]


def start(place, words, tier, name, env=None, cwd=None):
    """A session with a hostile command in it, and what is to be given to croft exec; or a session that was refused."""
    boundary, own, command = _split(words)
    cwd, boundary, command = _in_place(place, cwd or place.work, boundary, command)
    s = Session(place, *boundary, name=name, tier=tier, env=env, cwd=cwd)
    if s.refused.rc == 0:
        s.neighbour("mild", "/")
    return s, own, command


def run_inside(place, words, tier, timeout, kw):
    """What croft run would run, by croft exec into a session in which a hostile command runs already."""
    global _serial
    _serial += 1
    s, own, command = start(place, words, tier, "s%d" % _serial, kw.get("env"), kw.pop("cwd", None))
    try:
        if s.refused.rc:
            return s.refused
        return s.exec(*command, options=own, timeout=timeout, **kw)
    finally:
        s.__exit__()


def end_all(place):
    """Whoever was killed has left a session up."""
    envs = os.path.join(place.env["XDG_STATE_HOME"], "croft", "envs")
    for name in os.listdir(envs) if os.path.isdir(envs) else ():
        if os.path.lexists(os.path.join(envs, name, "socket")):
            place.finish(place.popen([harness.croft, "down", "--now", "-q", name]))


class _Here:
    """The place of a program that stands for croft run: its own directory, environment and standard streams."""

    def __init__(self, tier, directory):
        self.tier, self.dir, self.user = tier, directory, harness.User("self", os.getuid(), os.getgid())
        self.work, self.left = os.getcwd(), ""

    def path(self, name):
        return os.path.join(self.work, name)

    @staticmethod
    def popen(argv, env=None, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(argv, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    @staticmethod
    def finish(child, timeout=harness.WAIT_S):
        out, err = child.communicate(timeout=timeout)
        return harness.Result(child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def main():
    harness.croft, hostile, tier, directory, *words = sys.argv[1:]
    os.environ["CROFT_TEST_HOSTILE"] = hostile
    place = _Here(tier, directory)
    s, own, command = start(place, words, tier, "p%d" % os.getpid())
    try:
        if s.refused.rc:
            sys.stderr.write(s.refused.err)
            return s.refused.rc
        return subprocess.call([harness.croft, "exec", *own, s.name, "--", *command])
    finally:
        s.__exit__()
        sys.stderr.write(place.left)


if __name__ == "__main__":
    sys.exit(main())
