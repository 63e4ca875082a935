#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
"""F8, F14, F15: what can be done to the host's objects through descriptors that came from outside."""
import os
import pty
import signal
import socket

import harness
from harness import check

PYTHON = ("--", "/usr/bin/python3", "-I", "-c")
SH = ("--", "/bin/sh", "-c")

harness.alone("standard descriptors of a session's commands are pipes and terminals of its own", "F8-odd-descriptor",
              "F8-files-stay-files", "F8-pipes-are-not-relayed", "F8-observed-beside-a-file", "F14-metadata-of-terminal")

# Tries every call that changes metadata on descriptor N, by number, by its links and by a copy. Tells
# on standard error which succeeded.
CHANGE = r'''
import ctypes, fcntl, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def raw(nr, *a):
    if libc.syscall(nr, *[ctypes.c_long(x) if isinstance(x, int) else x for x in a]) < 0:
        raise OSError(ctypes.get_errno(), "")
EMPTY = 0x1000
class Args(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64), ("size", ctypes.c_uint32), ("flags", ctypes.c_uint32)]
one = ctypes.create_string_buffer(b"1")
def xattrat(fd):
    a = Args(ctypes.addressof(one), 1, 0)
    raw(463, fd, b"", EMPTY, b"user.croft-at", ctypes.byref(a), ctypes.sizeof(a))
def flags(get, put, size, change):
    def go(fd):
        b = bytearray(size)
        fcntl.ioctl(fd, get, b)
        change(b)
        fcntl.ioctl(fd, put, bytes(b))
    return go
def nodump(at):
    def go(b):
        b[at] ^= 0x40 if at == 0 and len(b) == 8 else 0x80
    return go
def calls(fd, path):
    me, mine = os.geteuid(), os.getegid()
    return {
        "fchmod": lambda: os.fchmod(fd, 0o666),
        "fchmod set-id": lambda: os.fchmod(fd, 0o4755),
        "chmod": lambda: os.chmod(path, 0o640),
        "fchmodat2": lambda: raw(452, fd, b"", 0o604, EMPTY),
        "fchown": lambda: os.fchown(fd, me, mine),
        "chown": lambda: os.chown(path, me, mine),
        "fchownat": lambda: raw({"x86_64": 260, "aarch64": 54}[os.uname().machine], fd, b"", me, mine, EMPTY),
        "futimens": lambda: os.utime(fd, (1, 1)),
        "utime": lambda: os.utime(path, (2, 2)),
        "touch": lambda: os.utime(path),
        "fsetxattr": lambda: os.setxattr(fd, "user.croft", b"1"),
        "setxattr": lambda: os.setxattr(path, "user.croft-path", b"1"),
        "setxattrat": lambda: xattrat(fd),
        "fremovexattr": lambda: os.removexattr(fd, "user.given"),
        "SETFLAGS": lambda: flags(0x80086601, 0x40086602, 8, nodump(0))(fd),
        "SETVERSION": lambda: fcntl.ioctl(fd, 0x40087602, struct.pack("q", 7)),
        "FSSETXATTR": lambda: flags(0x801c581f, 0x401c5820, 28, nodump(0))(fd),
    }
done = []
n = int(sys.argv[1])
copy = os.dup(n)
for fd, path in ((n, "/proc/self/fd/%d" % n), (copy, "/dev/fd/%d" % copy)):
    for name, call in calls(fd, path).items():
        try:
            call()
            done.append(name)
        except OSError:
            pass
print("DONE " + ",".join(sorted(set(done))), file=sys.stderr)
'''


def facts(path):
    """What the calls would change, and the time at which anything did."""
    st = os.lstat(path)
    try:
        attributes = sorted(os.listxattr(path))
    except OSError:
        attributes = []
    return st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, attributes


def done(r):
    line = [s for s in r.err.splitlines() if s.startswith("DONE ")]
    check(len(line) == 1, "the attack did not run: %s" % r)
    return set(line[0][5:].split(",")) - {""}


def give(p, path):
    try:
        os.setxattr(path, "user.given", b"1")
    except OSError:
        pass  # the control then does not remove it either


def change(p, n, make, open_it, *options, expect=("chmod", "fchmod", "futimens", "touch")):
    """No call succeeds through descriptor n and nothing changes; outside the sandbox they do."""
    path = make("given")
    before = facts(path)
    with open_it(path) as f:
        r = p.finish(p.popen(p.argv("-q", *options, *PYTHON, CHANGE, str(n)),
                             **{("stdin", "stdout")[n]: f}))
    check(harness.IN_SESSION or done(r) == set(), "%s changed something: %s" % (" ".join(options), r))
    check(facts(path) == before, "%s: %s became %s" % (" ".join(options), before, facts(path)))
    with open_it(make("control")) as f:
        r = p.finish(p.popen(["/usr/bin/python3", "-I", "-c", CHANGE, str(n)],
                             **{("stdin", "stdout")[n]: f}))
    check(done(r) >= set(expect), "the control does not escape: %s" % r)


def modes(p):
    """Every way in which the workspace is held in this tier."""
    if p.tier == "process":
        return [("--direct",)]
    return [("--direct",), ("--discard",), ("--staged",), ("--direct", "--deny", "./late")]


def outside_file(p):
    def make(name):
        path = p.write(os.path.join(p.outside, name), "text\n")
        give(p, path)
        return path
    return make


@harness.case("F14-metadata-of-output")
def metadata_of_output(p):
    """A file given for writing keeps mode, owner, times, attributes and flags."""
    for options in modes(p):
        change(p, 1, outside_file(p), lambda path: open(path, "ab"), *options)


@harness.case("F14-metadata-of-input")
def metadata_of_input(p):
    """So does a file given for reading, which is not even to be written."""
    for options in modes(p):
        change(p, 0, outside_file(p), lambda path: open(path, "rb"), *options)


@harness.case("F14-metadata-of-staged-output")
def metadata_of_staged_output(p):
    """A file of the workspace itself, while the command's own changes there are staged or thrown away."""
    if p.tier == "process":
        raise harness.Skip("the process tier stages nothing")
    def make(name):
        path = p.write(name, "text\n")
        give(p, path)
        return path
    for options in (("--staged",), ("--discard",), ("--staged", "--deny", "./late")):
        change(p, 1, make, lambda path: open(path, "ab"), *options)


@harness.case("F14-metadata-of-fifo")
def metadata_of_fifo(p):
    """A pipe with a name is an object of the host's tree, too."""
    def make(name):
        path = os.path.join(p.outside, name)
        if os.path.lexists(path):
            os.unlink(path)
        os.mkfifo(path, 0o600)
        p.user.own(path)
        return path
    for options in modes(p):
        change(p, 0, make, lambda path: os.fdopen(os.open(path, os.O_RDWR), "rb", buffering=0), *options)


@harness.case("F14-metadata-of-terminal")
def metadata_of_terminal(p):
    """The pty that croft makes is on the host's devpts."""
    attack = ("import os\n"
              "bad = []\n"
              "for f in (lambda: os.fchmod(0, 0o666), lambda: os.chmod('/proc/self/fd/0', 0o666),\n"
              "          lambda: os.utime(0, (1, 1)), lambda: os.fchown(0, os.geteuid(), -1)):\n"
              "    try:\n"
              "        f(); bad.append(1)\n"
              "    except OSError: pass\n"
              "open('result', 'w').write('%d %s' % (len(bad), os.isatty(0)))\n")
    host, slave = pty.openpty()
    try:
        p.user.own(os.ttyname(slave))
        r = p.finish(p.popen(p.argv("-q", "--direct", *PYTHON, attack), stdin=slave))
        check(r.rc == 0 and p.read("result") == "0 True", "%s\n%s" % (p.read("result"), r))
        r = p.plain("/usr/bin/python3", "-I", "-c", attack, stdin=slave)
        check(p.read("result") == "4 True", "the control does not escape: %s" % r)
    finally:
        os.close(host)
        os.close(slave)


@harness.case("F8-reopen-below-narrower-rule")
def reopen_below_narrower_rule(p):
    """In a tree written in place a rule inside it holds for a standard descriptor as well."""
    def go(start, attack, **given):
        p.write(".git/config", "[core]\n")
        p.write("denied/file", p.token + "\n")
        fds = {k: open(p.path(name), mode) for k, (name, mode) in given.items()}
        try:
            return p.finish(start(attack, **fds))
        finally:
            for f in fds.values():
                f.close()

    def inside(attack, **fds):
        return p.popen(p.argv("-q", "--direct", "--deny", "./denied", *SH, attack), **fds)

    def plain(attack, **fds):
        return p.popen(["/bin/sh", "-c", attack], **fds)

    write, read = "echo changed 1<>/proc/self/fd/0; true", "exec 3>&1; dd if=/proc/self/fd/3 iflag=nonblock status=none >&2; true"
    r = go(inside, write, stdin=(".git/config", "rb"))
    check(p.read(".git/config") == "[core]\n", r)
    r = go(inside, read, stdout=("denied/file", "ab"))
    check(p.token not in r.err, r)
    r = go(plain, write, stdin=(".git/config", "rb"))
    check("changed" in p.read(".git/config"), "the control does not escape: %s" % r)
    r = go(plain, read, stdout=("denied/file", "ab"))
    check(p.token in r.err, "the control does not escape: %s" % r)


@harness.case("F8-odd-descriptor")
def odd_descriptor(p):
    """A handle on a process or a namespace is refused as a standard descriptor."""
    sleeper = p.popen(["/bin/sleep", "60"])
    try:
        for fd in (os.pidfd_open(sleeper.pid), os.open("/proc/self/ns/net", os.O_RDONLY),
                   os.eventfd(0)):
            try:
                r = p.finish(p.popen(p.argv("-q", "--direct", "--", "true"), stdin=fd))
                check(r.rc == 126 and "standard input is neither" in r.err, r)
            finally:
                os.close(fd)
        fd = os.pidfd_open(sleeper.pid)
        attack = "import signal; signal.pidfd_send_signal(0, signal.SIGTERM)"
        p.finish(p.popen(["/usr/bin/python3", "-I", "-c", attack], stdin=fd))
        os.close(fd)
        check(sleeper.wait(harness.WAIT_S) == -signal.SIGTERM, "the control does not escape")
    finally:
        sleeper.kill()
        sleeper.communicate()


@harness.case("F8-files-stay-files")
def files_stay_files(p):
    """What must go on working: position shared with the giver, appending, seeking, truncating, terminals."""
    given = p.write(os.path.join(p.outside, "in"), "one\ntwo\nthree\n")
    script = ('{ "$0" run -q --tier %s --direct -- /bin/sh -c "read x; echo got \\$x"; cat; } <"$1"' % p.tier)
    r = p.plain("/bin/sh", "-c", script, harness.croft, given)
    # A shell reads a file that can be sought block by block and seeks back to the end of the line.
    check(r.out == "got one\ntwo\nthree\n", r)
    out = p.write(os.path.join(p.outside, "out"), "")
    script = ('{ echo a; "$0" run -q --tier %s --direct -- echo b; echo c; } >"$1"' % p.tier)
    r = p.plain("/bin/sh", "-c", script, harness.croft, out)
    check(p.read(out) == "a\nb\nc\n", p.read(out))
    with open(out, "ab") as f:
        r = p.finish(p.popen(p.argv("-q", "--direct", *PYTHON,
            "import os, fcntl; f = fcntl.fcntl(1, fcntl.F_GETFL); assert f & os.O_APPEND;"
            "os.write(1, b'd\\n')"), stdout=f))
    check(r.rc == 0 and p.read(out) == "a\nb\nc\nd\n", "%s %s" % (r, p.read(out)))
    with open(out, "r+b") as f:
        r = p.finish(p.popen(p.argv("-q", "--direct", *PYTHON,
            "import os; os.lseek(1, 2, 0); os.write(1, b'B'); os.ftruncate(1, 4)"), stdout=f))
    check(r.rc == 0 and p.read(out) == "a\nB\n", "%s %s" % (r, p.read(out)))


@harness.case("F8-pipes-are-not-relayed")
def pipes_are_not_relayed(p):
    """The command holds the very pipe or socket that croft was given."""
    look = "import os; print(os.fstat(0).st_ino, os.fstat(1).st_ino, flush=True)"
    r, w = os.pipe()
    a, b = socket.socketpair()
    try:
        want = "%d %d\n" % (os.fstat(b.fileno()).st_ino, os.fstat(w).st_ino)
        child = p.popen(p.argv("-q", "--direct", *PYTHON, look), stdin=b.fileno(), stdout=w)
        result = p.finish(child)
        got = os.read(r, 100).decode()
        check(got == want, "%r is not %r: %s" % (got, want, result))
    finally:
        os.close(r)
        os.close(w)
        a.close()
        b.close()


@harness.case("F8-observed-beside-a-file")
def observed_beside_a_file(p):
    """Standard output to a file changes what watches, not what is seen."""
    out = os.path.join(p.outside, "out")
    attack = "echo x > made; rm made; mkdir d; echo y > d/kept; echo z > /etc/croft-test; true"
    with open(out, "wb") as f:
        _, receipt = p.receipt("--direct", "--observe", "writes", *SH, attack, stdout=f)
    seen = [d["path"] for d in receipt["denials"]]
    check("/etc/croft-test" in seen, receipt["denials"])
    changed = [c["path"] for c in receipt["files"]["changed"]] if "changed" in receipt["files"] else \
        [c["path"] for c in receipt["files"]]
    check(any(c.endswith("d/kept") for c in changed), receipt["files"])
    check(receipt["enforced"]["seccomp"]["metadata_broker"], receipt["enforced"])
    _, receipt = p.receipt("--direct", *SH, attack)
    check(receipt["enforced"]["seccomp"]["metadata_broker"] == (p.tier == "process"), receipt["enforced"])


@harness.case("F14-metadata-of-devices")
def metadata_of_devices(p):
    """Device nodes are used, not changed: by name, and as a standard descriptor."""
    node = "/dev/null"
    before = facts(node)
    attack = ("import os\n"
              "bad = []\n"
              "for d in ('/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom', '/dev/tty'%s):\n"
              "    for f in (lambda: os.chmod(d, 0o666), lambda: os.utime(d), lambda: os.chown(d, os.geteuid(), -1),\n"
              "              lambda: os.setxattr(d, 'trusted.x', b'1')):\n"
              "        try:\n"
              "            f(); bad.append(str(d))\n"
              "        except OSError: pass\n"
              "open('/dev/null', 'w').write('x'); assert open('/dev/zero', 'rb').read(1) == b'\\0'\n"
              "os.open('/dev/null', os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)\n"
              "print(len(bad), bad)\n") % ("" if harness.IN_SESSION else ", 0")  # there it is a pipe
    for options in modes(p):
        r = p.run("-q", *options, *PYTHON, attack)
        check(r.rc == 0 and r.out.startswith("0 "), "%s: %s" % (options, r))
        check(facts(node) == before, "%s became %s" % (before, facts(node)))
    # The control: a node of one's own, made the way that is open to the user.
    r = p.plain("/usr/bin/python3", "-I", "-c",
                "import os; os.utime('/dev/null', None, dir_fd=None) if os.geteuid() else os.chmod('/dev/null', 0o666)")
    check(r.rc == 0, "the control does not escape: %s" % r)


@harness.case("F14-file-ioctls")
def file_ioctls(p):
    """Ioctls that change a file need no descriptor opened for writing: those not known to be harmless are absent."""
    attack = ("import fcntl, struct, sys\n"
              "f = open(sys.argv[1], 'rb')\n"
              "fcntl.ioctl(f, 0x80086601, bytes(8))\n"  # FS_IOC_GETFLAGS stays
              "fcntl.ioctl(f, 0x40087602, struct.pack('q', 7))\n"
              "print('CHANGED')\n")
    given = p.write(os.path.join(p.outside, "given"), "text\n")
    r = p.run("-q", "--direct", "--read", given, *PYTHON, attack, given)
    check("CHANGED" not in r.out and "Inappropriate ioctl" in r.err, r)
    r = p.plain("/usr/bin/python3", "-I", "-c", attack, given)
    if "Inappropriate ioctl" in r.err or "not supported" in r.err:
        raise harness.Skip("this file system has no such ioctl")
    check("CHANGED" in r.out, "the control does not escape: %s" % r)


@harness.case("F14-lease")
def lease(p):
    """A lease on a readable file would make the host's writer wait until the command ends."""
    attack = ("import fcntl, os, sys\n"
              "f = open(sys.argv[1], 'rb')\n"
              "kind = (fcntl.F_RDLCK, fcntl.F_WRLCK)[int(sys.argv[2])]\n"
              "try:\n"
              "    fcntl.fcntl(f, fcntl.F_SETLEASE, kind); print('LEASED')\n"
              "except OSError as e: print(e.errno)\n"
              "try:\n"
              "    fcntl.fcntl(os.open('.', os.O_RDONLY), fcntl.F_NOTIFY, 1); print('NOTIFIED')\n"
              "except OSError as e: print(e.errno)\n")
    given = p.write(os.path.join(p.outside, "given"), "text\n")
    for kind in ("0", "1"):
        for options in modes(p):
            r = p.run("-q", *options, "--read", given, *PYTHON, attack, given, kind)
            check(r.rc == 0 and r.out == "1\n1\n", "%s %s" % (options, r))
        r = p.plain("/usr/bin/python3", "-I", "-c", attack, given, kind)
        check("LEASED" in r.out and "NOTIFIED" in r.out, "the control does not escape: %s" % r)


@harness.case("F14-socket-name")
def socket_name(p):
    """bind() makes a name; where names are the broker's, no socket can be bound."""
    p.write(".git/config", "[core]\n")
    attack = ("import os, socket, sys\n"
              "for name in ('.git/hook', 'denied/s', 'made'):\n"
              "    for family in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n"
              "        try:\n"
              "            a, b = socket.socketpair(socket.AF_UNIX, family)\n"
              "            a.bind(name)\n"
              "        except OSError: pass\n"
              "a, b = socket.socketpair(); a.send(b'x'); b.recv(1)\n")
    os.makedirs(p.path("denied"), exist_ok=True)
    p.user.own(p.path("denied"))
    r = p.run("-q", "--direct", "--deny", "./denied", "--read", "./absent", *PYTHON, attack)
    made = [n for n in (".git/hook", "denied/s") if os.path.lexists(p.path(n))]
    check(r.rc == 0 and not made, "%s %s" % (made, r))
    if p.tier == "process":
        check(not os.path.lexists(p.path("made")), r)
    r = p.plain("/usr/bin/python3", "-I", "-c", attack)
    check(os.path.lexists(p.path(".git/hook")), "the control does not escape: %s" % r)


if __name__ == "__main__":
    harness.main()
