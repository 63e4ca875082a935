#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""F15: set-id files and file capabilities in trees that are written in place."""
import os
import stat

import harness
from harness import check

PYTHON = ("--", "/usr/bin/python3", "-I", "-c")

# Every way to a set-id file, each with a name of its own in the directory that is given. Ends with
# what a directory may have all the same.
MAKE = r'''
import ctypes, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def raw(nr, *a):
    r = libc.syscall(nr, *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    if r < 0:
        raise OSError(ctypes.get_errno(), "")
    return r
x86 = os.uname().machine == "x86_64"
os.umask(0)
os.chdir(sys.argv[1])
class How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]
def plain(name):
    with open(name, "w") as f:
        f.write("#!/bin/sh\n")
    return name
def held(name):
    return os.open(plain(name), os.O_RDONLY)
def openat2(name, mode):
    raw(437, -100, name.encode(), ctypes.byref(How(os.O_CREAT | os.O_WRONLY, mode, 0)), 24)
def give_name(fd, name):
    if libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, name.encode(), 0x400) < 0:
        raise OSError(ctypes.get_errno(), "")
def unnamed(name, mode):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)
    give_name(fd, name)
def unnamed_late(name, mode):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o755)
    os.fchmod(fd, mode)
    give_name(fd, name)
def capability(name, mode):
    os.setxattr(plain(name), "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    os.mkdir(name + ".cap")
ways = {
    "chmod": lambda n, m: os.chmod(plain(n), m),
    "fchmod": lambda n, m: os.fchmod(held(n), m),
    "fchmodat": lambda n, m: os.chmod(plain(n), m, dir_fd=os.open(".", os.O_RDONLY)),
    "fchmodat2": lambda n, m: raw(452, -100, plain(n).encode(), m, 0),
    "fchmodat2-empty": lambda n, m: raw(452, held(n), b"", m, 0x1000),
    "chmod-link": lambda n, m: os.chmod("/proc/self/fd/%d" % held(n), m),
    "open": lambda n, m: os.open(n, os.O_CREAT | os.O_WRONLY, m),
    "open-read": lambda n, m: os.open(n, os.O_CREAT | os.O_RDONLY, m),
    "openat2": openat2,
    "mknod": lambda n, m: os.mknod(n, stat.S_IFREG | m),
    "tmpfile": unnamed,
    "tmpfile-late": unnamed_late,
    "capability": capability,
    "renamed": lambda n, m: (plain(n), os.rename(n, n + ".x"), os.chmod(n + ".x", m)),
}
if x86:
    ways["creat"] = lambda n, m: raw(85, n.encode(), m)
for mode in (0o4755, 0o2755, 0o6755, 0o2644):
    for name, way in ways.items():
        try:
            way("%s.%o" % (name, mode), mode)
        except OSError:
            pass
bad = [n for n in os.listdir(".") if os.lstat(n).st_mode & 0o6000 or n.endswith(".cap")]
print("BAD", " ".join(sorted(bad)))
os.mkdir("shared")
os.chmod("shared", 0o2775)
os.mkdir("shared/below")
fd = os.open("shared", os.O_RDONLY)
os.fchmod(fd, 0o2770)
os.symlink("shared", "link")
os.chmod("link", 0o2775)
os.chmod(plain("run"), 0o755)
os.chmod("run", 0o1755)
print("DIR %o %o %o" % (os.stat("shared").st_mode & 0o7777, os.stat("shared/below").st_mode & 0o2000,
      os.stat("run").st_mode & 0o7777))
'''

GOOD = "DIR 2775 2000 1755"


def left(p, directory):
    bad = []
    for name in os.listdir(directory):
        st = os.lstat(os.path.join(directory, name))
        if stat.S_ISREG(st.st_mode) and st.st_mode & 0o6000 or name.endswith(".cap"):
            bad.append(name)
    return sorted(bad)


def ground(p):
    """A directory that is written in place, and the options for it. A session stages its workspace: it is given one."""
    if not harness.IN_SESSION:
        return p.work, ("--direct",)
    directory = os.path.join(p.outside, "ground")
    os.mkdir(directory)
    p.user.own(directory)
    return directory, ("--write", directory)


def in_place(p, directory, *options, **kw):
    os.makedirs(directory)
    p.user.own(directory)
    r = p.run("-q", *options, *PYTHON, MAKE, directory, **kw)
    out = r.out
    if "stdout" in kw:
        kw["stdout"].seek(0)
        out = kw["stdout"].read().decode()
    check(r.rc == 0 and "BAD \n" in out and GOOD in out, "%s %s: %s" % (options, out, r))
    check(left(p, directory) == [], "%s left %s" % (options, left(p, directory)))


@harness.case("F15-set-id-in-place")
def set_id_in_place(p):
    """No call leaves a set-id file or a file capability in a tree of the host's; directories may be set-gid."""
    top, given = ground(p)
    cases = [(), ("--deny", os.path.join(top, "late")), ("--observe", "writes"), ("--observe", "full")]
    if p.tier == "namespace":
        cases.append(("--observe", "off"))
    for i, options in enumerate(cases):
        in_place(p, os.path.join(top, "d%d" % i), *given, *options)
    # Standard output to a file has another watcher judge.
    with open(p.write(os.path.join(p.outside, "out"), ""), "r+b") as f:
        in_place(p, os.path.join(top, "dfile"), *given, stdout=f)
    granted = os.path.join(p.outside, "granted")
    os.mkdir(granted)
    p.user.own(granted)
    if harness.IN_SESSION:
        pass  # all of the above were given
    elif p.tier == "namespace":
        in_place(p, os.path.join(granted, "d"), "--staged", "--write", granted)
    else:
        in_place(p, os.path.join(granted, "d"), "--direct", "--write", granted)
    directory = p.path("control")
    os.mkdir(directory)
    p.user.own(directory)
    r = p.plain("/usr/bin/python3", "-I", "-c", MAKE, directory)
    got = {n.split(".")[0] for n in left(p, directory)}
    want = {"chmod", "fchmod", "fchmodat", "fchmodat2", "chmod-link", "open", "open-read", "openat2", "tmpfile-late",
            "renamed"}
    check(got >= want and GOOD in r.out, "the control does not escape: %s %s" % (want - got, r))


@harness.case("F15-set-id-in-layers", tiers=("namespace",))
def set_id_in_layers(p):
    """In a staged workspace such files can be made, as package managers need, and do not land."""
    for stdout in (None, "file"):
        kw = {}
        if stdout:
            kw["stdout"] = open(p.write(os.path.join(p.outside, "out"), ""), "r+b")
        r = p.run("-q", *(() if harness.IN_SESSION else ("--staged",)), "--", "/bin/sh", "-c",
                  "echo x > s && chmod 4755 s && test -u s && echo y > g && chmod 2755 g && test -g g", **kw)
        check(r.rc == 0 and not os.path.lexists(p.path("s")), r)


@harness.case("F15-set-gid-race", tiers=("namespace",))
def set_gid_race(p):
    """A directory that becomes a file while the call is judged does not get the bit."""
    attack = r'''
import os, sys, threading, time
os.chdir(sys.argv[1])
os.mkdir("d"); open("f", "w").close(); os.chmod("f", 0o755)
end = time.monotonic() + 2
def swap():
    while time.monotonic() < end:
        os.rename("d", "x"); os.rename("f", "d"); os.rename("d", "f"); os.rename("x", "d")
def swap_fd():
    a, b = os.open("d2", os.O_RDONLY), os.open("f", os.O_RDONLY)
    while time.monotonic() < end:
        os.dup2(a, 77); os.dup2(b, 77)
os.mkdir("d2")
os.dup2(os.open("d2", os.O_RDONLY), 77)
threads = [threading.Thread(target=t) for t in (swap, swap_fd)]
for t in threads:
    t.start()
n = 0
while time.monotonic() < end:
    for what in ("d", 77):
        try:
            os.chmod(what, 0o2755); n += 1
        except OSError: pass
for t in threads:
    t.join()
print("tries", n, oct(os.stat("f").st_mode))
'''
    top, given = ground(p)
    r = p.run("-q", *given, *PYTHON, attack, top)
    check(r.rc == 0 and "tries" in r.out, r)
    check(not os.stat(os.path.join(top, "f")).st_mode & 0o2000, "the file got the bit: %s" % r)
    check(int(r.out.split()[1]) > 0, "no call succeeded: %s" % r)


if __name__ == "__main__":
    harness.main()
