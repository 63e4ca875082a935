# SPDX-License-Identifier: Apache-2.0
"""What the escape drivers share: the binary, users, tiers, a place to attack, one line per test."""
import contextlib
import ctypes
import json
import os
import pwd
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests"))
import dispositions  # noqa: E402,F401  (sets them)
import others  # noqa: E402
from others import somebody_elses  # noqa: E402,F401

TIERS = ("namespace", "process")
# What probes run by Place.run() then runs in a session, beside a hostile command: see session.py.
IN_SESSION = os.environ.get("CROFT_TEST_IN") == "session"
ENVS_UP = False  # in session mode: environments are up, with a hostile command in each (test_workspace sets it)
WAIT_S = 60 * int(os.environ.get("CROFT_TEST_SLOW") or 1)  # longest wait for something that should happen at once

libc = ctypes.CDLL(None, use_errno=True)


def find_croft():
    tried = [os.environ.get("CROFT"), os.path.join(ROOT, "build", "croft"),
             os.path.join(ROOT, "build", "src", "croft")]
    for path in tried:
        if path and os.access(path, os.X_OK):
            return os.path.realpath(path)
    sys.exit("no croft binary: run make, or set CROFT")


class User:
    """Who runs croft: ourselves, or an ordinary user when we are root."""

    def __init__(self, label, uid, gid):
        self.label, self.uid, self.gid = label, uid, gid

    def drop(self):
        """Keyword arguments for subprocess that make the child this user."""
        if self.uid == os.getuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, *paths):
        for path in paths:
            if self.uid != os.getuid():
                os.lchown(path, self.uid, self.gid)


def users(only_user=None):
    """Ourselves. As root the ordinary user too, for what only root can prepare or when asked to."""
    if os.getuid() != 0:
        return [User("user", os.getuid(), os.getgid())] if only_user in (None, "user") else []
    plain = next((p for p in pwd.getpwall() if 1000 <= p.pw_uid < 60000), None) or pwd.getpwnam("nobody")
    both = [User("root", 0, 0), User("user", plain.pw_uid, plain.pw_gid)]
    if only_user:
        return [u for u in both if u.label == only_user]
    return both if os.environ.get("CROFT_BOTH_USERS") else both[:1]


class Skip(Exception):
    pass


class Fail(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Fail(message)


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    def __str__(self):
        return "exit %d\nstdout: %s\nstderr: %s" % (self.rc, self.out[-1500:], self.err[-1500:])


def run_is_inside():
    """Is what Place.run() runs a command in a session?"""
    return IN_SESSION and not ENVS_UP


def _beside(place):
    """What keeps a session up for each environment of a place, and a hostile command in it: tests/beside.py."""
    import beside
    import session

    def run(words, stdin, **how):
        child = place.start_program([croft, *words], stdin=stdin or subprocess.DEVNULL, **how)
        return place.finish(child).rc

    def first_output(words, text, **how):
        child = place.start_program([croft, *words], **how)
        try:
            return bool(read_until(child.stdout.fileno(), text))
        finally:
            child.kill()
            child.communicate()
    return beside.Beside(run, first_output, session.payload())


class Place:
    """A workspace, a home and secrets outside both, owned by the user who runs croft."""

    def __init__(self, user, tier, base):
        self.user, self.tier = user, tier
        self.dir = tempfile.mkdtemp(prefix="t.", dir=base)
        self.token = os.urandom(12).hex()
        self.beside = _beside(self) if ENVS_UP else None
        self.left = ""  # what the end of the last session said
        self.pids = set()  # of what was started here: cgroups and files have them in their names
        self.work, self.home = os.path.join(self.dir, "work"), os.path.join(self.dir, "home")
        self.outside = os.path.join(self.dir, "outside")
        for path in (self.work, self.home, self.outside):
            os.mkdir(path, 0o700)
        user.own(self.dir, self.work, self.home, self.outside)
        self.secret = self.write(os.path.join(self.outside, "secret"), self.token + "\n")
        self.env = {"HOME": self.home, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
                    "XDG_STATE_HOME": os.path.join(self.dir, "state")}

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def write(self, path, text="x\n", mode=0o600):
        """A file that belongs to the user; directories on the way are made."""
        path = os.path.join(self.work, path)
        missing = []
        parent = os.path.dirname(path)
        while not os.path.lexists(parent):
            missing.append(parent)
            parent = os.path.dirname(parent)
        for parent in reversed(missing):
            os.mkdir(parent, 0o700)
            self.user.own(parent)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(text)
        os.chmod(path, mode)
        self.user.own(path)
        return path

    def read(self, path):
        with open(os.path.join(self.work, path), encoding="utf-8", errors="replace") as f:
            return f.read()

    def popen(self, argv, **kw):
        if self.beside and argv[0] == croft:
            self.beside.before(list(argv[1:]), **{k: v for k, v in kw.items() if k in ("cwd", "env")})
        return self.start_program(argv, **kw)

    def start_program(self, argv, **kw):
        kw.setdefault("cwd", self.work)
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        env = dict(self.env, **kw.pop("env", {}))
        child = subprocess.Popen(argv, env=env, **kw, **self.user.drop())
        self.pids.add(child.pid)
        return child

    def plain(self, *argv, **kw):
        """Run without a sandbox: the negative control."""
        return self.finish(self.popen(list(argv), **kw))

    def argv(self, *options, tier=None):
        if run_is_inside():
            import session
            return [python, session.__file__, croft, session.payload(), tier or self.tier, self.dir] + list(options)
        return [croft, "run", "--tier", tier or self.tier] + list(options)

    def run(self, *words, **kw):
        """croft run: options, then "--", then the command."""
        tier, timeout = kw.pop("tier", None), kw.pop("timeout", WAIT_S)
        if run_is_inside():
            import session
            return session.run_inside(self, words, tier, timeout, kw)
        return self.finish(self.popen(self.argv(*words, tier=tier), **kw), timeout)

    def finish(self, child, timeout=WAIT_S):
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            raise Fail("hung: %s\n%s" % (child.args, (err or b"").decode(errors="replace")[-800:]))
        text = [(b or b"").decode("utf-8", "replace") for b in (out, err)]
        return Result(child.returncode, *text)

    def receipt(self, *words, **kw):
        """Run and return (result, parsed receipt)."""
        name = os.path.join(self.dir, "receipt.json")
        result = self.run("--json", name, *words, **kw)
        if not os.path.exists(name):
            raise Fail("no receipt: %s" % result)
        with open(name, encoding="utf-8") as f:
            text = f.read()
        os.unlink(name)
        return result, json.loads(text)


    def supervisor(self, child):
        """The process that holds the sandbox of a croft run, while its command runs."""
        if not run_is_inside():
            return child.pid
        r = self.plain(croft, "ps", "--json", "p%d" % child.pid)
        check(r.rc == 0, "croft ps: %s" % r)
        return json.loads(r.out)["pid"]

    def runs_on_host(self, receipt):
        """Names that the host would execute, and repositories: a receipt has them, of a session its end tells them."""
        if not run_is_inside():
            return receipt["files"]["runs_on_host"]
        found = []
        for line in self.left.splitlines():
            m = re.match(r"  (runs|git) +(\S+)  .*?(?:renamed to (\S+?)[,:]|$)", line)
            if m:
                moved = m.group(3) and os.path.join(os.path.dirname(m.group(2)), m.group(3))
                found.append({"path": m.group(2), "state": "quarantined" if moved else "", "moved_to": moved})
        return found


_cases = []


_alone = {}


def alone(why, *names):
    """These cases make no sense in a session, and why; by the start of their names."""
    _alone.update({n: why for n in names})


def in_session(tiers):
    """A session of a directory that is no repository needs an overlay, which the process tier does not have."""
    return [t for t in tiers if t != "process"] if run_is_inside() else tiers


def case(name, tiers=TIERS, only_user=None, once=False):
    """Register a driver: run per tier and user. The name starts with the entry of the catalogue."""
    def register(function):
        _cases.append((name, in_session(tiers if not once else tiers[:1]), only_user, once, function))
        return function
    return register


def tier_refused(place):
    r = place.run("-q", "--", "true")
    if r.rc == 0:
        return None
    if r.rc == 126:
        return r.err.strip().splitlines()[-1] if r.err.strip() else "refused"
    return "croft run -- true: exit %d %s" % (r.rc, r.err.strip()[-300:])


def report(kind, name, note=""):
    print("%s - %s%s" % (kind, name, ": " + note if note else ""), flush=True)


def details(text):
    for line in str(text).splitlines():
        print("# " + line, flush=True)


def run_case(full, function, place):
    why = next((w for n, w in _alone.items() if IN_SESSION and full.startswith(n)), None)
    try:
        if why:
            raise Skip(why)
        note = function(place)
        report("ok", full)
        if note:
            details(note)
        return True
    except Skip as e:
        report("skip", full, str(e))
        return True
    except Fail as e:
        report("not ok", full)
        details(e)
    except Exception:
        report("not ok", full)
        details(traceback.format_exc())
    return False


def remove(path):
    def again(function, p, _info):
        with contextlib.suppress(OSError, TypeError):
            os.chmod(os.path.dirname(p), 0o700)
            os.chmod(p, 0o700)
            function(p)
    # An overlay's work directory has no permissions at all, and rm alone does not enter it.
    subprocess.run(["find", path, "-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", "+"],
        check=False, stderr=subprocess.DEVNULL)
    # Deeper than recursion allows: the tool does not mind.
    subprocess.run(["rm", "-rf", "--", path], check=False, stderr=subprocess.DEVNULL)
    if os.path.lexists(path):
        shutil.rmtree(path, onerror=again)


def main():
    """Run every registered case; arguments select by substring of "name[tier,user]"."""
    global croft
    wanted = sys.argv[1:]
    base = tempfile.mkdtemp(prefix="croft-escape.", dir="/var/tmp" if os.path.isdir("/var/tmp") else None)
    os.chmod(base, 0o755)
    others.mine(base)
    # A copy, because an ordinary user may not reach the build directory.
    croft = shutil.copy(find_croft(), os.path.join(base, "croft"))
    gateway = os.path.join(os.path.dirname(find_croft()), "croft-gateway")
    if os.path.exists(gateway):
        shutil.copy(gateway, base)
    os.chmod(croft, 0o755)
    good = True
    refused = {}
    try:
        for name, tiers, only_user, once, function in _cases:
            for user in users(only_user):
                for tier in tiers:
                    where = user.label if once else "%s,%s" % (tier, user.label)
                    full = "%s[%s]" % (name, where)
                    if wanted and not any(w in full for w in wanted):
                        continue
                    place = Place(user, tier, base)
                    key = (tier, user.label)
                    if key not in refused:
                        refused[key] = tier_refused(place)
                    if refused[key]:
                        report("skip", full, refused[key])
                    else:
                        good &= run_case(full, function, place)
                    if IN_SESSION:
                        import session
                        session.end_all(place)
                    remove(place.dir)
    finally:
        remove(base)
    sys.exit(0 if good else 1)


# ---- small things that several drivers need ----

RENAME_EXCHANGE = 2


def exchange(a, b):
    """Swap two names in one step."""
    if libc.syscall(316 if os.uname().machine == "x86_64" else 276, -100, os.fsencode(a), -100,
                    os.fsencode(b), RENAME_EXCHANGE) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def descendants(pid):
    """Process ids below pid, itself first, in the order of birth."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open("/proc/%s/stat" % name, encoding="ascii", errors="replace") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [pid]
    while todo:
        p = todo.pop(0)
        found.append(p)
        todo += sorted(children.get(p, []))
    return found


def pidfds(pids):
    """Handles on those that still are."""
    found = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            found[pid] = os.pidfd_open(pid)
    return found


def command_line(pid):
    with contextlib.suppress(OSError):
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read()
    return b""


def wait_gone(pidfds, timeout=WAIT_S):
    """Wait until each process has ended; returns those that have not."""
    left = dict(pidfds)
    poll = select.poll()
    for fd in left.values():
        poll.register(fd, select.POLLIN)
    while left:
        events = poll.poll(timeout * 1000)
        if not events:
            break
        for fd, _ in events:
            poll.unregister(fd)
            left = {p: f for p, f in left.items() if f != fd}
    return sorted(left)


def read_until(fd, text, timeout=WAIT_S):
    """Read from fd until the text was seen."""
    data = b""
    while text not in data:
        if not select.select([fd], [], [], timeout)[0]:
            raise Fail("waited for %r, got %r" % (text, data[-400:]))
        chunk = os.read(fd, 4096)
        if not chunk:
            raise Fail("end of output while waiting for %r, got %r" % (text, data[-400:]))
        data += chunk
    return data


# One that an ordinary user can run, too.
python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
croft = None
__all__ = [n for n in dir() if not n.startswith("_")]
