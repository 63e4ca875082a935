#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
# check
"""I6 to I13 where a terminal, descriptors or host processes are needed outside."""
import array
import fcntl
import os
import pty
import select
import signal
import socket
import subprocess
import termios

import harness
from harness import Skip, check

SH = ("--", "/bin/sh", "-c")


class Terminal:
    """A terminal with a session of its own, as a person would have."""

    def __init__(self, place, argv):
        self.master, slave = pty.openpty()
        place.user.own(os.ttyname(slave))
        self.slave = slave

        def session():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.child = place.popen(argv, stdin=slave, stdout=slave, stderr=slave, preexec_fn=session)

    def finish(self):
        """Everything it printed until the end."""
        data = b""
        fd = os.pidfd_open(self.child.pid)
        while True:
            ready = select.select([self.master, fd], [], [], harness.WAIT_S)[0]
            check(ready, "the terminal session hangs: %r" % data[-400:])
            if self.master in ready:
                data += os.read(self.master, 65536)
            elif fd in ready:
                break
        os.close(fd)
        self.child.wait()
        return data

    def waiting(self):
        """Bytes that the next reader of the terminal (the user's shell) would get."""
        attrs = termios.tcgetattr(self.slave)
        attrs[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self.slave, termios.TCSANOW, attrs)
        n = array.array("i", [0])
        fcntl.ioctl(self.slave, termios.FIONREAD, n)
        return n[0]

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self.slave)
        os.close(self.master)


PUSH = "import fcntl,sys\n" \
       "for n in range(3):\n" \
       "  for c in 'evil\\n':\n" \
       "    for req in (0x5412, 0x5412 | 1 << 32):\n" \
       "      try: fcntl.ioctl(n, req & 0xffffffff, c.encode())\n" \
       "      except OSError: pass\n" \
       "try:\n" \
       "  t = open('/dev/tty', 'rb+', buffering=0)\n" \
       "  for c in 'evil\\n': fcntl.ioctl(t, 0x5412, c.encode())\n" \
       "except OSError: pass\n"


@harness.case("I10-input-pushed")
def input_pushed(p):
    """TIOCSTI from inside leaves nothing in the user's terminal."""
    script = p.write("push.py", PUSH)
    python = "/usr/bin/python3"
    if not os.access(python, os.X_OK):
        raise Skip("no python3 in /usr/bin")
    t = Terminal(p, p.argv("-q", "--direct", "--", python, script))
    try:
        t.finish()
        check(t.waiting() == 0, "%d bytes of input were pushed" % t.waiting())
    finally:
        t.close()
    t = Terminal(p, [python, script])
    try:
        t.finish()
        if t.waiting() == 0:
            return "control not possible: the kernel has TIOCSTI switched off"
    finally:
        t.close()
    return None


SEQUENCES = {
    "clipboard (OSC 52)": b"\x1b]52;c;ZXZpbA==\x07",
    "title report": b"\x1b[21t",
    "answerback by DCS": b"\x1bP$q\"p\x1b\\",
    "device attributes": b"\x1b[c",
    "status report": b"\x1b[6n",
    "key programming (DECUDK)": b"\x1bP0;1|17/6576696c0a\x1b\\",
    "application command": b"\x1b_evil\x1b\\",
    "notification (OSC 777)": b"\x1b]777;notify;a;b\x07",
    "C1 string": b"\xc2\x9d52;c;ZXZpbA==\xc2\x9c",
}


@harness.case("I10-escape-sequences")
def escape_sequences(p):
    """Sequences that make a terminal act do not reach the user's; colours and text do."""
    p.write("show", "", 0o600)
    with open(p.path("show"), "wb") as f:
        f.write(b"".join(SEQUENCES.values()) + b"\x1b[31mred\x1b[0m plain\r\n")
    words = p.argv("-q", "--direct", "--", "/bin/cat", p.path("show"))
    t = Terminal(p, words)
    try:
        data = t.finish()
    finally:
        t.close()
    check(b"\x1b[31mred" in data and b"plain" in data, "ordinary output is missing: %r" % data)
    # Queries whose answer is a fixed, harmless report are a matter of taste; these are not.
    through = [k for k, v in SEQUENCES.items() if v in data and k not in ("device attributes", "status report")]
    check(not through, "reached the terminal: %s" % ", ".join(through))
    t = Terminal(p, ["/bin/cat", p.path("show")])
    try:
        data = t.finish()
        check(all(v in data for v in SEQUENCES.values()), "the control does not escape: %r" % data)
    finally:
        t.close()


@harness.case("I10-receipt-text")
def receipt_text(p):
    """Names chosen inside do not act on the terminal through croft's own summary, why or JSON."""
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202e\r"
    path = os.path.join(p.home, evil)
    r = p.run("-v", "--direct", "--observe", "writes", "--", "/bin/sh", "-c", "exec 2>/dev/null; echo x > \"$1\"; echo x > \"$2\"; true", "sh",
              path, "./" + evil)
    summary = r.err
    why = p.plain(harness.croft, "why")
    for name, text in (("summary", summary), ("why", why.out + why.err)):
        check(not any(c in text for c in "\x1b\x07\u202e\r"), "%s carries control characters: %r" % (name, text))
    r, receipt = p.receipt("--direct", "--observe", "writes", "--", "/bin/sh", "-c", "echo x > \"$1\"; true", "sh", path)
    check(any("\x1b" in d["path"] or "x1b" in d["path"] for d in receipt["denials"]) or not receipt["denials"], receipt)


@harness.case("I1-socket-in-grant")
def socket_in_grant(p):
    """A host process listens inside a granted directory: connecting is reaching the host."""
    server = socket.socket(socket.AF_UNIX)
    base = os.path.join(p.outside, "sock")
    os.mkdir(base)
    p.user.own(base)
    old = os.getcwd()
    os.chdir(base)
    server.bind("s")
    os.chdir(old)
    p.user.own(os.path.join(base, "s"))
    server.listen()
    attack = "import os, socket; os.chdir('%s'); socket.socket(socket.AF_UNIX).connect('s'); print('connected')" % base
    try:
        r = p.run("-q", "--read", base, "--", harness.python, "-c", attack)
        if "connected" in r.out:
            raise Skip("not held in this tier: a socket inside a granted directory is granted with it")
        r = p.plain(harness.python, "-c", attack)
        check("connected" in r.out, "the control does not escape: %s" % r)
    finally:
        server.close()


@harness.case("I10-no-other-terminal")
def no_other_terminal(p):
    """With pipes as stdio the command has no terminal, though its caller has one."""
    master, slave = pty.openpty()
    p.user.own(os.ttyname(slave))

    def session():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    attack = "echo gotcha > /dev/tty; echo gotcha > '%s'; true" % os.ttyname(slave)
    try:
        r = p.finish(p.popen(p.argv("-q", "--direct", *SH, attack), preexec_fn=session, pass_fds=[slave]))
        got = os.read(master, 4096) if select.select([master], [], [], 0)[0] else b""
        check(b"gotcha" not in got, "wrote to the caller's terminal: %s" % r)
        p.finish(p.popen(["/bin/sh", "-c", attack], preexec_fn=session, pass_fds=[slave]))
        check(select.select([master], [], [], harness.WAIT_S)[0], "the control does not escape")
    finally:
        os.close(master)
        os.close(slave)


@harness.case("I13-inherited")
def inherited(p):
    """Descriptors that the caller forgot to close: directory, file, socket, high numbers."""
    peer, ours = socket.socketpair()
    fds = [os.open(p.outside, os.O_RDONLY), os.open(p.secret, os.O_RDONLY), ours.fileno(), os.pipe()[1]]
    high = fcntl.fcntl(fds[0], fcntl.F_DUPFD, 600)
    attack = "ls /proc/self/fd | tr '\\n' ' '; cat /proc/self/fd/%d/secret <&%d; cat /dev/fd/%d/secret; true" % (
        fds[0], fds[1], high)
    try:
        r = p.finish(p.popen(p.argv("-q", "--direct", *SH, attack), pass_fds=fds + [high]))
        check(p.token not in r.out + r.err, r)
        r2 = p.finish(p.popen(p.argv("-q", "--direct", "--", "/bin/ls", "/proc/self/fd"), pass_fds=fds + [high]))
        numbers = [int(w) for w in r2.out.split()]
        # 0, 1, 2 and the one that ls reads the directory with.
        check(len(numbers) <= 4 and max(numbers) < 10, "open inside: %s" % numbers)
        r = p.finish(p.popen(["/bin/sh", "-c", attack], pass_fds=fds + [high]))
        check(p.token in r.out, "the control does not escape: %s" % r)
    finally:
        for fd in fds[:2] + fds[3:] + [high]:
            os.close(fd)
        peer.close()
        ours.close()


@harness.case("I9-process-list")
def process_list(p):
    """Host processes: invisible in the namespace tier, out of reach in the process tier."""
    victim = p.popen(["/bin/sleep", "1000"], env={"BAIT": p.token})
    try:
        r = p.run("-q", "--direct", *SH, "kill -9 %d; tr '\\0' '\\n' < /proc/%d/environ; ls -l /proc/%d/cwd/; "
                  "kill -9 -1; true" % (victim.pid, victim.pid, victim.pid))
        check(victim.poll() is None, "the host's process was killed: %s" % r)
        check(p.token not in r.out, "its environment was read: %s" % r)
        if p.tier == "namespace":
            r = p.run("-q", *SH, "ls -d /proc/[0-9]*")
            most = 64 if harness.IN_SESSION else 8 # reapers, and what the other command starts
            check("/proc/%d\n" % victim.pid not in r.out and len(r.out.split()) < most, r)
        p.plain("/bin/sh", "-c", "kill -9 %d" % victim.pid)
        check(victim.wait(harness.WAIT_S) == -signal.SIGKILL, "the control does not escape")
    finally:
        victim.kill()
        victim.wait()


@harness.case("I9-kill-all")
def kill_all(p):
    """kill -9 -1 inside ends only what is inside; croft itself reports."""
    marker = p.popen(["/bin/sleep", "1000"])
    try:
        r, receipt = p.receipt("--direct", *SH, "/bin/sleep 1000 & kill -9 -1; kill -9 $PPID; kill -9 1; true")
        check(marker.poll() is None, "a process outside was killed: %s" % r)
        check(receipt["exit"]["code"] in (0, 1, 137), receipt["exit"])
    finally:
        marker.kill()
        marker.wait()


@harness.case("I8-shared-memory-not-left")
def shared_memory_not_left(p):
    """What the sandbox makes in shared memory is neither seen outside nor left there."""
    name = "croft-left-%d" % os.getpid()
    r = p.run("-q", "--direct", *SH, "echo x > /dev/shm/%s; ipcmk -M 4096; ipcmk -Q; ipcmk -S 1; true" % name)
    check(not os.path.exists("/dev/shm/" + name), "left in /dev/shm: %s" % r)
    out = subprocess.run(["ipcs"], capture_output=True, text=True, check=False).stdout
    made = [w for line in r.out.splitlines() for w in line.split()[-1:] if line.startswith(("Shared", "Message", "Sem"))]
    check(p.tier == "namespace" or not made, "made in the host's table: %s\n%s" % (r.out, out))


if __name__ == "__main__":
    harness.main()
