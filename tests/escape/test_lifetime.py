#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# session
"""K12, I9, R3: nobody inside ends, stops or steers what ends the sandbox; nothing outlives croft."""
import os
import select
import signal
import time

import harness
from harness import Fail, check

harness.alone("is about the end of croft run; of a session's processes: cli/session_crash", "K12-outlive")


def wait_until(condition, what):
    end = time.monotonic() + harness.WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise Fail("never happened: %s" % what)
        select.select([], [], [], 0.005)


# Ways to send SIGKILL to a process, by number; each is one that a filter on kill() alone would miss.
KILL = r"""
import ctypes, fcntl, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
arch = os.uname().machine == "x86_64"
NR = {"tkill": 200 if arch else 130, "tgkill": 234 if arch else 131, "sigqueue": 129 if arch else 138,
      "tgsigqueue": 297 if arch else 240, "pidfd_send": 424, "pidfd_open": 434, "clone": 56 if arch else 220}
def call(name, *args):
    if libc.syscall(NR[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]) < 0:
        raise OSError(ctypes.get_errno(), name)
def info():
    return ctypes.create_string_buffer(struct.pack("<iiii", 9, 0, -1, 0) + bytes(112))
def tasks(pid):
    return sorted(int(t) for t in os.listdir("/proc/%d/task" % pid))
def by_group(pid):
    os.kill(-pid, 9)
def by_joining(pid):
    if os.fork() == 0:
        try:
            os.setpgid(0, pid)
            os.kill(0, 9)
        finally:
            os._exit(0)
    os.wait()
def by_pidfd(pid):
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, 9)
def by_proc(pid):
    fd = os.open("/proc/%d" % pid, os.O_RDONLY | os.O_DIRECTORY)
    call("pidfd_send", fd, 9, None, 0)
def by_owner(pid, how):
    r, w = os.pipe()
    if how == "own":
        fcntl.fcntl(r, fcntl.F_SETOWN, pid)
    elif how == "group":
        fcntl.fcntl(r, fcntl.F_SETOWN, -pid)
    elif how == "ex":
        fcntl.fcntl(r, 15, struct.pack("ii", 1, pid))
    else:
        import socket
        a, b = socket.socketpair()
        r, w = a.detach(), b.detach()
        fcntl.ioctl(r, 0x8901, struct.pack("i", pid))
    fcntl.fcntl(r, 10, 9)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")
def by_default(pid):
    r, w = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETOWN, pid)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")
def by_terminal(pid):
    os.tcsetpgrp(0, pid)
WAYS = {
    "kill": lambda p: os.kill(p, 9),
    "threads": lambda p: [os.kill(t, 9) for t in tasks(p)[1:] or [p]],
    "stop": lambda p: os.kill(p, 19),
    "term": lambda p: os.kill(p, 6),
    "group": by_group,
    "join": by_joining,
    "tkill": lambda p: [call("tkill", t, 9) for t in tasks(p)],
    "tgkill": lambda p: [call("tgkill", p, t, 9) for t in tasks(p)],
    "sigqueue": lambda p: call("sigqueue", p, 9, info()),
    "tgsigqueue": lambda p: [call("tgsigqueue", p, t, 9, info()) for t in tasks(p)],
    "pidfd": by_pidfd,
    "proc": by_proc,
    "sigio-own": lambda p: by_owner(p, "own"),
    "sigio-group": lambda p: by_owner(p, "group"),
    "sigio-ex": lambda p: by_owner(p, "ex"),
    "sigio-ioctl": lambda p: by_owner(p, "ioctl"),
    "sigio-plain": by_default,
}
def attack(way, pid):
    try:
        WAYS[way](pid)
        print(way, "sent", flush=True)
    except OSError as e:
        print(way, e, flush=True)
"""

ONE = KILL + "attack(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else os.getppid())\n"
WAYS = ("kill", "threads", "stop", "term", "group", "join", "tkill", "tgkill", "sigqueue", "tgsigqueue", "pidfd", "proc",
        "sigio-own", "sigio-group", "sigio-ex", "sigio-ioctl", "sigio-plain")

# Landlock as it is, and as it was before it scoped signals.
KERNELS = ({}, {"CROFT_FORCE_FAIL": "landlock6"})


@harness.case("I9-end-the-first-process", tiers=("process",))
def end_the_first_process(p):
    """No way of sending a signal ends or stops the process that would end the tree."""
    for env in KERNELS:
        for way in WAYS:
            script = ONE + "print('on', flush=True)\n"
            r = p.finish(p.popen(p.argv("-q", "--direct", "--", harness.python, "-c", script, way), env=env))
            check(r.rc == 0 and "on" in r.out, "%s %s: %s" % (env, way, r))
        # The supervisor, whose end would end everything, and whose stop would stop the clock.
        for way in ("kill", "stop", "tkill", "sigqueue", "pidfd", "proc", "sigio-own", "sigio-plain"):
            script = KILL + ("with open('/proc/%d/stat' % os.getppid()) as f:\n"
                             "    above = int(f.read().rsplit(')', 1)[1].split()[1])\n"
                             "attack(sys.argv[1], above)\nprint('on', flush=True)\n")
            r = p.finish(p.popen(p.argv("-q", "--direct", "--", harness.python, "-c", script, way), env=env))
            check(r.rc == 0 and "on" in r.out, "%s the supervisor, %s: %s" % (env, way, r))
    for way in WAYS:
        # A session of its own with a second thread, as croft's first process is.
        victim = p.popen([harness.python, "-c", "import os, threading, time\nos.setsid()\n"
                          "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
                          "print('up', flush=True)\ntime.sleep(1000)"])
        try:
            harness.read_until(victim.stdout.fileno(), b"up")
            r = p.plain(harness.python, "-c", ONE, way, str(victim.pid))
            if way in ("join",):
                continue  # a control would have to be of the same session
            wait_until(lambda: victim.poll() is not None or stopped(victim.pid), "the control: %s" % r)
        finally:
            victim.kill()
            victim.communicate()


def stopped(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


# Waits for the supervisor to be gone and then kills the first process, as often and as fast as it can.
OUTLIVE = KILL + r"""
def state(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()
    except OSError:
        return ["X", "0"]
first = os.getppid()
above = int(state(first)[1]) if state(first)[0] != "X" else 0
print("ready", first, above, flush=True)
if os.fork():
    while above and state(above)[0] not in "ZX":
        pass
    while True:
        for way in WAYS:
            try: WAYS[way](first)
            except OSError: pass
else:
    while True:
        try: os.kill(first, 9)
        except OSError: pass
"""


@harness.case("K12-outlive-the-supervisor")
def outlive(p):
    """kill -9 of the supervisor: the command does not win the race against the end of its tree."""
    for env in KERNELS:
        for _ in range(3):
            child = p.popen(p.argv("-q", "--direct", "--", harness.python, "-c", OUTLIVE), env=env)
            harness.read_until(child.stdout.fileno(), b"ready")
            pids = harness.descendants(child.pid)
            fds = harness.pidfds(pids)
            try:
                check(len(pids) >= 3, "unexpected tree %s" % pids)
                child.kill()
                left = harness.wait_gone(fds)
                check(not left, "%s: alive: %s" % (env, [harness.command_line(q)[:60] for q in left]))
            finally:
                end_all(fds)
                child.communicate()


def end_all(fds):
    for fd in fds.values():
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:
            pass
        os.close(fd)


STEER = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
ioprio_set = 251 if os.uname().machine == "x86_64" else 30
for which, who in ((2, 0), (2, os.getuid()), (1, 0), (1, os.getpgid(0)), (2, 0)):
    libc.setpriority(which, who, 17)
for which, who in ((3, 0), (3, os.getuid()), (2, 0), (2, os.getpgid(0))):
    libc.syscall(ioprio_set, which, who, (2 << 13) | 7)
os.setpriority(os.PRIO_PROCESS, 0, 17)
print("mine", os.getpriority(os.PRIO_PROCESS, 0))
"""


@harness.case("I9-renice-by-user")
def renice_by_user(p):
    """setpriority and ioprio_set by user or group reach nobody outside; one's own is one's own."""
    ioprio_get = 252 if os.uname().machine == "x86_64" else 31
    victim = p.popen(["/bin/sleep", "1000"], start_new_session=True)

    def state():
        return os.getpriority(os.PRIO_PROCESS, victim.pid), harness.libc.syscall(ioprio_get, 1, victim.pid)
    before = state()
    try:
        for env in KERNELS:
            r = p.finish(p.popen(p.argv("-q", "--direct", "--", harness.python, "-c", STEER), env=env))
            check("mine 17" in r.out, "one's own priority: %s" % r)
            check(state() == before, "a process of the host's was reniced: %s" % r)
        p.plain(harness.python, "-c", STEER.replace("(2, 0), (2, os.getuid()), (1, 0), (1, os.getpgid(0)), (2, 0)",
                                                    "(1, %d)," % victim.pid))
        check(state() != before, "the control does not steer")
    finally:
        victim.kill()
        victim.communicate()


if __name__ == "__main__":
    harness.main()
