#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
# check
# serial
"""K8 with programs that only root can plant, K12: any croft process killed leaves nothing running."""
import os
import shutil
import signal
import subprocess

import harness
from harness import Skip, check

SH = ("--", "/bin/sh", "-c")


harness.alone("is about the end of croft run; of a session's processes: cli/session_crash", "K12-")


@harness.case("K8-setuid-root-program", only_user="user")
def setuid_root(p):
    """A setuid-root program within reach of an ordinary user's sandbox gives nothing."""
    if os.getuid() != 0:
        raise Skip("only root can plant one")
    suid = shutil.copy(harness.croft, p.path("suid"))
    os.chown(suid, 0, 0)
    os.chmod(suid, 0o4755)
    fcap = shutil.copy(harness.croft, p.path("fcap"))
    os.chmod(fcap, 0o755)
    os.setxattr(fcap, "security.capability", bytes([1, 0, 0, 2, 0, 0x20]) + bytes(14))
    for program in (suid, fcap):
        r = p.plain(program, "probe", "--ids")
        outside = r.out.split()
        if outside == [str(p.user.uid), "0"]:
            raise Skip("the filesystem is mounted nosuid")
        r = p.run("-q", "--direct", "--", program, "probe", "--ids")
        inside = r.out.split()
        check(inside in ([str(p.user.uid), "0"], []), "%s: %s inside, %s outside: %s" % (
            os.path.basename(program), inside, outside, r))


@harness.case("K8-setuid-system-programs")
def setuid_system(p):
    """Programs such as su and sudo do not become root."""
    r = p.run("-q", "--direct", *SH, "for f in su sudo passwd mount newuidmap fusermount3; do "
              "echo | timeout 2 $f -c 'id -u' 2>/dev/null; done; cat /proc/self/status | grep NoNewPrivs; "
              "sudo -n id -u; true")
    check("NoNewPrivs:\t1" in r.out, r)
    if p.user.uid:
        check("\n0\n" not in "\n" + r.out.replace("NoNewPrivs:\t1\n", ""), r)


# Leaves children in every way a program can: background, own session, own group, ignoring signals.
TREE = """
import os, signal, sys, time
def leave(how):
    if os.fork(): return
    if how > 0: os.setsid()
    if how > 1 and os.fork(): os._exit(0)
    for s in range(1, 32):
        try: signal.signal(s, signal.SIG_IGN)
        except OSError: pass
    if how > 2:
        for fd in range(0, 20):
            try: os.close(fd)
            except OSError: pass
    while True: time.sleep(1000)
for how in range(4): leave(how)
print("ready", flush=True)
while True: time.sleep(1000)
"""


def start_tree(p, *options):
    child = p.popen(p.argv("-q", "--direct", *options, "--", harness.python, "-c", TREE))
    harness.read_until(child.stdout.fileno(), b"ready")
    # Double forks may still be on their way: look until the count stands still.
    seen = []
    for _ in range(200):
        now = harness.descendants(child.pid)
        if now == seen and len(now) >= 6:
            break
        seen = now
        os.sched_yield()
    return child, harness.descendants(child.pid)


def end_all(fds):
    for fd in fds.values():
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:
            pass
        os.close(fd)


def is_croft(pid):
    return harness.command_line(pid).startswith(os.fsencode(harness.croft))


@harness.case("K12-kill-any")
def kill_any(p):
    """kill -9 of each croft process in turn: everything in the sandbox ends with it."""
    notes, bad, index, helpers = [], [], 0, 1
    # With and without rules inside the workspace, which need a helper more.
    for words in ([], ["--deny", "./absent"]):
        index, helpers = 0, 1
        while index < helpers:
            child, pids = start_tree(p, *words)
            croft = [q for q in pids if is_croft(q)]
            helpers = len(croft)
            check(helpers >= 2 and len(pids) > helpers, "unexpected tree %s" % pids)
            fds = harness.pidfds(pids)
            signal.pidfd_send_signal(fds[croft[index]], signal.SIGKILL)
            left = harness.wait_gone({q: fd for q, fd in fds.items() if q != child.pid}, 5)
            note = "%s: croft process %d of %d killed, %d of %d left" % (words, index, helpers, len(left), len(pids))
            notes.append(note)
            if left:
                bad.append("%s: %s" % (note, [harness.command_line(q)[:60] for q in left]))
            end_all(fds)
            child.communicate(timeout=harness.WAIT_S)
            index += 1
    check(not bad, "\n".join(bad))
    return "\n".join(notes)


@harness.case("K12-terminated")
def terminated(p):
    """SIGTERM, SIGINT and SIGHUP to croft end the whole tree, also what ignores signals."""
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child, pids = start_tree(p)
        fds = harness.pidfds(pids)
        child.send_signal(sig)
        left = harness.wait_gone({q: fd for q, fd in fds.items() if q != child.pid}, 10)
        end_all(fds)
        child.communicate(timeout=harness.WAIT_S)
        check(not left, "%s: %d left" % (sig, len(left)))


@harness.case("K12-stopped-supervisor")
def stopped_supervisor(p):
    """A stopped supervisor leaves the command confined: secrets stay unread."""
    p.write("no.env", p.token)
    child = p.popen(p.argv("-q", "--direct", "--deny", "./no.env", *SH,
                           "echo ready; read go; cat '%s' no.env; echo done" % p.secret), stdin=subprocess.PIPE)
    try:
        harness.read_until(child.stdout.fileno(), b"ready")
        os.kill(child.pid, signal.SIGSTOP)
        child.stdin.write(b"\n")
        child.stdin.flush()
        os.kill(child.pid, signal.SIGCONT)
        out = child.communicate(timeout=harness.WAIT_S)[0]
    finally:
        child.kill()
        child.wait()
    check(p.token.encode() not in out, out)


@harness.case("K12-broker-gone")
def broker_gone(p):
    """With the helper that judges paths killed, judged calls fail; nothing is let through."""
    p.write("denied.env", p.token)
    child = p.popen(p.argv("-q", "--direct", "--deny", "./denied.env", "--deny", "./absent", *SH,
                           "echo ready; read go; cat denied.env; echo x > absent; chmod 777 denied.env; echo done"),
                    stdin=subprocess.PIPE)
    try:
        harness.read_until(child.stdout.fileno(), b"ready")
        pids = harness.descendants(child.pid)
        # Everything of croft but the supervisor and the sandbox's first process.
        mine = [q for q in pids[2:] if is_croft(q)]
        if not mine:
            raise Skip("this tier has no separate helper")
        for q in mine:
            os.kill(q, signal.SIGKILL)
        try:
            out = child.communicate(b"\n", timeout=harness.WAIT_S)[0]
        except subprocess.TimeoutExpired:
            raise harness.Fail("hangs after its helper was killed") from None
    finally:
        child.kill()
        child.communicate()
    check(p.token.encode() not in out, "read the denied file: %r" % out)
    check(not os.path.lexists(p.path("absent")), "made the denied name")


if __name__ == "__main__":
    harness.main()
