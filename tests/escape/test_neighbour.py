#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
"""J1 to J8: what a hostile command in a session tries on croft, on the record, and on the limits it shares."""
import os
import pty
import select

import harness
from harness import check, python
from session import BESIDE, HOSTILE, Session, wait_for

ALIKE = "import os; os.execv(os.environ.get('TMPDIR', '/tmp') + '/%s', ['croft', 'session', '.'])" % BESIDE
CLEAR = "\x1b[2J"


def rounds(s, number, n=3):
    wait_for(lambda: s.output(number).count(CLEAR) >= n, "the neighbour goes on")
    return s.output(number)


@harness.case("J1-descriptors-of-croft")
def descriptors(p):
    """Memory, descriptors, directories of the first process and the reapers: by /proc, ptrace and pidfd."""
    with Session(p) as s:
        for how in ("mild", "full"):
            out = rounds(s, s.neighbour(how))
            check("took" not in out, "%s got something of croft's: %r" % (how, out[:300]))
        check(s.info()["state"] == "up", "the session")


@harness.case("J1-descriptors-of-croft-control", tiers=("namespace",))
def descriptors_control(p):
    """The same program takes all of it from a process that only looks like croft's."""
    with Session(p) as s:
        s.detach(python, "-c", ALIKE)
        number = s.detach(*HOSTILE, "mild", ".")
        wait_for(lambda: "took fd" in s.output(number) and "took mem" in s.output(number), "it takes what is not shut")


ROADS = """
import os, socket, sys
state, found = sys.argv[1], []
def there(what, act):
    try:
        act()
        found.append(what)
    except OSError:
        pass
def dial(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(path)
roads = [state] + ["/proc/%s/%s%s" % (n, of, state) for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()
    for of in ("root", "cwd")] + ["/proc/1/root" + state]
for r in roads:
    there("list " + r, lambda: os.listdir(r))
    there("open lock", lambda: os.close(os.open(r + "/envs/live/lock", os.O_RDWR)))
    there("connect", lambda: dial(r + "/envs/live/socket"))
    there("journal", lambda: os.listdir(r + "/envs/live/journal"))
print(found)
"""


@harness.case("J1-the-socket")
def the_socket(p):
    """Whoever reaches the socket is the user: no road from inside leads to it."""
    state = os.path.join(p.env["XDG_STATE_HOME"], "croft")
    with Session(p) as s:
        r = s.exec(python, "-c", ROADS, state)
        check(r.rc == 0 and r.out.strip() == "[]", "a road to the session: %s" % r)
        outside = p.plain(python, "-c", ROADS, state)
        check("connect" in outside.out and "journal" in outside.out, "the control finds nothing: %s" % outside)


@harness.case("J2-exit-status-and-denials")
def exit_status(p):
    """A neighbour may end a command: the record then says so, and never another's status or denials."""
    with Session(p, "--deny", p.secret) as s:
        s.neighbour("mild")
        looks = s.popen("/bin/sh", "-c", "read x; cat %s; exit 7" % p.secret, options=("--json", p.dir + "/a.json"),
                        stdin=harness.subprocess.PIPE)
        other = s.popen("/bin/sh", "-c", "read x; exit 3", options=("--json", p.dir + "/b.json"), stdin=harness.subprocess.PIPE)
        a, b = looks.communicate(b"\n", harness.WAIT_S), None
        b = other.communicate(b"\n", harness.WAIT_S)
        check((looks.returncode, other.returncode) == (7, 3), "exit statuses: %r %r" % ((looks.returncode, a), (other.returncode, b)))
        check(p.token not in a[0].decode(), "the secret was read")
        for name, want in (("a", None), ("b", [])):
            with open("%s/%s.json" % (p.dir, name), encoding="utf-8") as f:
                denials = harness.json.load(f)["denials"]
            check(want is None or denials == want, "denials of a neighbour in its receipt: %s" % denials)
        s.croft("down", "--now", "-q")
        said = {c[-1]: rc for kind, c, rc in s.entries() if kind == "ended" and c}
        check(said.get("read x; exit 3") == 3, "the record: %s" % said)


@harness.case("J2-killed-by-a-neighbour", tiers=("namespace",))
def killed(p):
    """Killed with its reaper, whatever it did is recorded as a signal, never as a success."""
    with Session(p) as s:
        victim = s.popen("/bin/sh", "-c", "echo there; while :; do sleep 1000; done")
        harness.read_until(victim.stdout.fileno(), b"there")
        s.detach(*HOSTILE, "full", ".")
        out = victim.communicate(timeout=harness.WAIT_S)
        check(victim.returncode in (129, 137, 143), "its exit status: %d %r" % (victim.returncode, out))
        s.croft("down", "--now", "-q")
        over = [rc for kind, c, rc in s.entries() if kind == "ended" and c and "sleep 1000" in c[-1]]
        check(over == [victim.returncode], "the record: %s" % over)
        r = p.finish(p.popen([harness.croft, "evidence", "verify", "live"]))
        check(r.rc == 0 and "good" in r.out, "the evidence: %s" % r)


FLOODS = {
    "output": "exec yes",
    "error": "exec yes >&2",
    "processes": "while :; do (sleep 1000 >/dev/null &) ; done 2>/dev/null",
    "denials": "i=0; while :; do i=$((i+1)); cat %s/$i %s 2>/dev/null; done",
    "titles": "while :; do printf '\\033]0;x\\007\\033[2J'; done",
}


@harness.case("J3-floods", tiers=("namespace",))
def floods(p):
    """While a neighbour writes, forks, is refused and kills without end, croft answers and ends it."""
    for what, script in FLOODS.items():
        with Session(p, "--set", "limits.pids=200", "--deny", p.secret) as s:
            bad = s.detach("/bin/sh", "-c", script.replace("%s", p.secret))
            if what == "processes":
                wait_for(lambda: s.sh("exit 5").rc != 5 or s.state(bad) != "running", "the limit is reached (the control)")
            else:
                check(s.sh("exit 5").rc == 5, "another command beside " + what)
            r = s._croft("kill", "-s", "KILL", s.name, str(bad))
            check(r.rc == 0, "croft kill: %s" % r)
            wait_for(lambda: s.state(bad) == "ended", "%s is ended" % what)
            check(s.sh("exit 6").rc == 6, "a command afterwards")
            r = s._croft("down", "-q", s.name)
            check(r.rc == 0, "croft down: %s" % r)


@harness.case("J3-reapers-killed-without-end")
def reapers(p):
    """Each command beside a neighbour that kills all it can has an end, and so has the session."""
    with Session(p) as s:
        s.neighbour("full")
        for _ in range(5):
            r = s.sh("read x; exit 0", stdin=None)
            check(r.rc in (0, 125, 129, 137), "a command beside it: %s" % r)
        check(s.info()["state"] == "up", "the session")
        r = s._croft("down", "-q", s.name)
        check(r.rc == 0, "croft down: %s" % r)
        begun = [c for kind, c, _ in s.entries() if kind == "started"]
        over = [c for kind, c, _ in s.entries() if kind in ("ended", "interrupted", "dropped")]
        check(len(begun) == len(over), "each command that started has an end: %s" % s.entries())


def long_time(p):
    """Seconds that nobody else's sleep has: in the process tier /proc shows those of other tests, too."""
    return str(100000 + os.getpid()) + p.token[:2].translate(str.maketrans("abcdef", "012345"))


TRACES = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
def line(n):
    try:
        return open("/proc/%s/cmdline" % n, "rb").read()
    except OSError:
        return b""
pid = 0
while not pid:
    pid = next((int(n) for n in os.listdir("/proc") if n.isdigit() and line(n) == b"sleep\\0%s\\0" % sys.argv[1].encode()), 0)
print("traced" if libc.ptrace(0x4206, pid, None, None) == 0 else "refused", flush=True)
time.sleep(1000)
"""


@harness.case("J3-a-neighbour-traces")
def traced(p):
    """A tracer is shown the end of what it traces, and its parent is not: nothing of croft's waits for that."""
    with Session(p) as s:
        mark = long_time(p)
        victim = s.detach("sleep", mark)
        tracer = s.detach(python, "-c", TRACES, mark)
        said = wait_for(lambda: s.output(tracer).strip(), "the tracer")
        if said != "traced":
            raise harness.Skip("processes of one sandbox cannot trace each other here")
        r = s._croft("kill", "-s", "KILL", s.name, str(victim))
        check(r.rc == 0, "croft kill: %s" % r)
        wait_for(lambda: s.state(victim) != "running", "it is known to have ended")
        # Its reaper, too: what is below comes to the first process, which must not wait for the tracer either.
        lone = s.popen("sleep", mark)
        tracer = s.detach(python, "-c", TRACES, mark)
        wait_for(lambda: s.output(tracer).strip() == "traced", "the other tracer")
        s.sh("kill -9 $(ps -o ppid=,args= -C sleep | sed -n 's/^ *\\([0-9]*\\) sleep %s$/\\1/p')" % mark)
        lone.communicate(timeout=harness.WAIT_S)
        check(s.sh("exit 5").rc == 5, "a command afterwards")
        check(s._croft("down", "-q", s.name).rc == 0, "croft down")


READS = "import os, sys\nfor n in os.listdir('/proc'):\n" \
        "  for f in ('environ', 'cmdline'):\n" \
        "    try: sys.stdout.write(open('/proc/%s/%s' % (n, f), 'rb').read().replace(b'\\0', b'\\n').decode(errors='replace'))\n" \
        "    except OSError: pass\n"


@harness.case("J4-secrets-of-a-neighbour", tiers=("namespace",))
def secrets(p):
    """What a neighbour can read of another command's environment has placeholders only."""
    value = "value-" + p.token
    child = p.popen([harness.croft, "secret", "set", "TOKEN"], stdin=harness.subprocess.PIPE)
    child.communicate(value.encode() + b"\n", harness.WAIT_S)
    with Session(p, "--allow-host", "api.example", "--secret", "TOKEN@api.example") as s:
        s.detach("sleep", "1000")
        r = s.exec(python, "-c", READS)
        check(value not in r.out, "a neighbour sees the value")
        check("TOKEN=" in r.out, "the control: it sees the variable: %s" % r)


STAYS = "import os, signal, sys, time\n" \
        "for i in range(int(sys.argv[1])):\n" \
        "  if os.fork() == 0:\n" \
        "    os.setsid()\n" \
        "    if os.fork(): os._exit(0)\n" \
        "    for n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\n" \
        "    os.setpgid(0, 0)\n" \
        "    os.execvp('sleep', ['sleep', sys.argv[2]])\n" \
        "print('there', flush=True)\n" \
        "for n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\n" \
        "time.sleep(1000)\n"


def sleepers(mark):
    found = []
    for n in os.listdir("/proc"):
        if n.isdigit() and harness.command_line(int(n)) == b"sleep\0" + mark.encode() + b"\0":
            found.append(int(n))
    return found


@harness.case("J5-outliving")
def outliving(p):
    """Sessions, groups, double forks and ignored signals do not outlive a time limit, a kill, or the session."""
    mark = long_time(p)
    with Session(p) as s:
        r = s.exec(python, "-c", STAYS, "5", mark, options=("--timeout", "2s"))
        check(r.rc == 124, "the time limit: %s" % r)
        wait_for(lambda: not sleepers(mark), "nothing is left after the time limit")
        number = s.detach(python, "-c", STAYS, "5", mark)
        wait_for(lambda: len(sleepers(mark)) == 5, "they are there")
        check(s._croft("kill", "-s", "KILL", s.name, str(number)).rc == 0, "croft kill")
        wait_for(lambda: not sleepers(mark), "nothing is left after croft kill")
        caller = s.popen(python, "-c", STAYS, "5", mark)
        wait_for(lambda: len(sleepers(mark)) == 5, "they are there")
        caller.kill()
        caller.wait()
        wait_for(lambda: not sleepers(mark), "nothing is left when the caller is gone")
        s.detach(python, "-c", STAYS, "5", mark)
        wait_for(lambda: len(sleepers(mark)) == 5, "they are there")
        check(s._croft("down", "-q", s.name).rc == 0, "croft down")
        check(not sleepers(mark), "something is left of the session")
    # The control: outside, the same ones outlive the signal.
    child = p.popen([python, "-c", STAYS, "2", mark])
    wait_for(lambda: len(sleepers(mark)) == 2, "they are there")
    child.terminate()
    check(len(sleepers(mark)) == 2, "the control: they outlive SIGTERM")
    child.kill()
    child.wait()
    for pid in sleepers(mark):
        os.kill(pid, 9)


WAKES = "import os, signal, time\n" \
        "for i in range(8):\n" \
        "  if os.fork() == 0: break\n" \
        "n, out = 0, os.open('beat', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n" \
        "while True:\n" \
        "  for e in os.listdir('/proc'):\n" \
        "    if e.isdigit() and int(e) not in (1, os.getpid()):\n" \
        "      try: os.kill(int(e), signal.SIGCONT)\n" \
        "      except OSError: pass\n" \
        "  os.write(1, b'.')\n"


@harness.case("J6-awake-while-paused", tiers=("namespace",))
def paused(p):
    """Processes that wake each other all the time are stopped by a pause, or croft says that they are not."""
    with Session(p) as s:
        number = s.detach(python, "-c", WAKES)
        wait_for(lambda: len(s.output(number)) > 20, "they are awake (the control)")
        for _ in range(3):
            r = s._croft("pause", s.name)
            if r.rc != 0:
                check("pause" in r.err, "why it is not paused: %s" % r)
                continue
            written = s.process(number)["output_b"]
            with open("/proc/uptime", encoding="ascii") as f:  # some time of the machine passes
                start = float(f.read().split()[0])
            wait_for(lambda: float(open("/proc/uptime", encoding="ascii").read().split()[0]) > start + 0.3, "time passes")
            more = s.process(number)["output_b"] - written
            check(more == 0, "paused, and %d bytes were written" % more)
            check(s._croft("resume", s.name).rc == 0, "croft resume")
        check(s._croft("down", "--now", "-q", s.name).rc == 0, "croft down")


EVIL = "\x1b]0;owned\x07\x1b[2J\x1bP$q\x1b\\\u202e"


@harness.case("J7-shown-to-a-terminal")
def shown(p):
    """Titles, arguments and output of a command do nothing to the terminal of whoever looks."""
    with Session(p) as s:
        number = s.detach("/bin/sh", "-c", "printf '%s\\n' \"$0\"; exec sleep 1000", EVIL)
        wait_for(lambda: EVIL in s.output(number), "the control: a file gets every byte")
        for words in (("ps", s.name), ("logs", s.name, str(number))):
            master, slave = pty.openpty()
            p.user.own(os.ttyname(slave))
            child = p.popen([harness.croft, *words], stdin=slave, stdout=slave, stderr=slave)
            os.close(slave)
            data = b""
            while select.select([master], [], [], harness.WAIT_S)[0]:
                try:
                    data += os.read(master, 65536)
                except OSError:
                    break
            child.wait()
            os.close(master)
            check(b"owned" in data and b"\x1bP" not in data, "croft %s asks the terminal: %r" % (words[0], data))
            check(words[0] == "logs" or b"\x1b" not in data, "croft %s: %r" % (words[0], data))
        r = s._croft("ps", s.name)
        check("\x1b" not in r.out and "\u202e" not in r.out, "croft ps: %r" % r.out)


REACHES = """
import os
found = []
for top, dirs, files in os.walk("/sys/fs/cgroup"):
    for f in files:
        if f in ("cgroup.procs", "tasks", "pids.max", "memory.max", "memory.limit_in_bytes", "cgroup.freeze", "cgroup.kill"):
            try:
                os.close(os.open(os.path.join(top, f), os.O_WRONLY))
                found.append(f)
            except OSError:
                pass
print(found)
"""


@harness.case("J8-its-own-limits")
def limits(p):
    """The groups that hold a session's limits cannot be written from inside."""
    with Session(p) as s:
        r = s.exec(python, "-c", REACHES)
        check(r.rc == 0 and r.out.strip() == "[]", "limits can be changed: %s" % r)
    if p.user.uid == 0:
        check(p.plain(python, "-c", REACHES).out.strip() != "[]" or not os.path.isdir("/sys/fs/cgroup/pids"), "the control")


if __name__ == "__main__":
    harness.main()
