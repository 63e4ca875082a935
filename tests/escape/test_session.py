#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# forced: landlock3
"""Sandboxes that stay up: what holds for the command of a single run holds for each of theirs, and for the end of all."""
import os
import select
import stat
import subprocess
import time

import harness
from harness import check

SH = ("--", "/bin/sh", "-c")
GIT = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; "
PLANT = GIT + 'git init -q {d}; git -C {d} config core.fsmonitor "touch {m}; false"; mkdir -p {d}/deep; echo evil > {d}/deep/.envrc'


class Up:
    """An environment of this place that is up, with these options of croft new."""

    def __init__(self, p, *options):
        self.p = p
        p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
        p.plain("git", "init", "-q", p.work)
        p.plain("git", "-C", p.work, "add", "-A")
        p.plain("git", "-C", p.work, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x")
        self.ok("new", "-q", "--tier", p.tier, *options, "e")
        self.ok("up", "-q", "e")

    def croft(self, *words, **kw):
        return self.p.plain(harness.croft, *words, **kw)

    def ok(self, *words):
        r = self.croft(*words)
        check(r.rc == 0, "croft %s: %s" % (words[0], r))
        return r

    def sh(self, script, **kw):
        return self.croft("exec", "-q", "e", *SH, script, **kw)

    def down(self):
        return self.ok("down", "-q", "e")


def gone(directory):
    """Wait until its .git has been put away."""
    end = time.monotonic() + harness.WAIT_S
    while os.path.lexists(os.path.join(directory, ".git")) and time.monotonic() < end:
        select.select([], [], [], 0.01)
    return not os.path.lexists(os.path.join(directory, ".git"))


@harness.case("G18-repository-made-in-session")
def repository_made(p):
    """A repository that a session made in a granted tree is put away at its end, and who ends it is told."""
    marker = os.path.join(p.dir, "ran")
    made, control = os.path.join(p.outside, "made"), os.path.join(p.dir, "control")
    up = Up(p, "--write", p.outside)
    r = up.sh(PLANT.format(d=made, m=marker) + "; git init -q '%s/plain'" % p.outside)
    check(any(n.startswith(".git") for n in os.listdir(made)), "the command cannot make a repository: %s" % r)
    # As soon as nothing runs, and again: a session may be up for days.
    check(gone(made), "it is there while the session is up")
    p.plain("rm", "-rf", made)
    up.sh(PLANT.format(d=made, m=marker))
    check(gone(made), "the second one is there while the session is up")
    held = p.popen([harness.croft, "exec", "-q", "e", *SH, PLANT.format(d=made + "2", m=marker) + "; echo up; sleep 600"])
    try:
        harness.read_until(held.stdout.fileno(), b"up")
        r = up.down()
    finally:
        held.kill()
        held.communicate()
    check("made2/.git" in r.err, "what was made last is not told: %s" % r)
    p.plain("git", "status", cwd=made + "2")
    check("renamed to .git.quarantined-" in r.err and made in r.err, "it is not told: %s" % r)
    if p.tier == "namespace":  # the other has a broker for such names
        check("deep/.envrc" in r.err, "a name that runs is not told: %s" % r)
    p.plain("git", "status", cwd=made)
    check(not os.path.exists(marker), "the user's git status ran the session's program: %s" % os.listdir(made))
    check(os.path.isdir(os.path.join(p.outside, "plain", ".git")), "what git init makes is gone")
    r = up.ok("evidence", "show", "e")
    check("quarantined" in r.out, "the evidence does not say it: %s" % r)
    up.ok("evidence", "verify", "e")
    p.plain("/bin/sh", "-c", PLANT.format(d=control, m=marker))
    p.plain("git", "status", cwd=control)
    check(os.path.exists(marker), "the control runs nothing")


@harness.case("G17-names-in-session")
def names(p):
    """Names that run on the host are held in trees that a session writes in place."""
    held = p.write(os.path.join(p.outside, ".bashrc"), "mine\n")
    up = Up(p, "--write", p.outside)
    attack = "cd '%s'; echo evil > .bashrc; echo evil > n; mv n .bashrc; rm -f .bashrc; echo ok > file" % p.outside
    r = up.sh(attack)
    check(p.read(held) == "mine\n", "changed: %s" % r)
    check(os.path.exists(os.path.join(p.outside, "file")), "the grant does not work: %s" % r)
    up.down()
    p.plain("/bin/sh", "-c", attack)
    check(not os.path.exists(held), "the control does not write")


@harness.case("F14-descriptors-in-session")
def descriptors(p):
    """Files, devices and directories that a caller has as standard descriptors do not come into the sandbox."""
    given = p.write(os.path.join(p.dir, "given"), "x\n", 0o640)
    up = Up(p)
    # Nothing is redirected to /dev/null: the control would change it.
    attack = "for f in 0 1 2; do chmod 4777 /proc/self/fd/$f; truncate -s 0 /proc/self/fd/$f; done; " \
             "python3 -c 'import os\nfor f in (0, 1, 2):\n try: os.fchmod(f, 0o4777); os.utime(f, (1, 1))\n except OSError: pass'; true"
    for croft in (True, False):
        with open(given, "r+b") as f:
            words = (harness.croft, "exec", "-q", "e", *SH, attack) if croft else ("/bin/sh", "-c", attack)
            child = p.popen(words, stdin=f, stdout=f, stderr=subprocess.PIPE)
            err = child.communicate(timeout=harness.WAIT_S)[1]
        mode = stat.S_IMODE(os.stat(given).st_mode)
        check((mode == 0o640) == croft, "%s: mode %o %r" % ("croft" if croft else "the control", mode, err))
        os.chmod(given, 0o640)
    up.down()


@harness.case("F15-set-id-in-session")
def set_id(p):
    """No set-id file in a tree that a session writes in place."""
    up = Up(p, "--write", p.outside)
    attack = "cd '%s'; cp /bin/true suid; chmod 4755 suid; cp /bin/true sgid; chmod 2755 sgid; ls -l" % p.outside
    r = up.sh(attack)
    up.down()
    for name in ("suid", "sgid"):
        check(not os.stat(os.path.join(p.outside, name)).st_mode & 0o6000, "set-id: %s" % r)
    p.plain("/bin/sh", "-c", attack)
    check(os.stat(os.path.join(p.outside, "suid")).st_mode & 0o4000, "the control sets nothing")


@harness.case("R2-disk-in-session", tiers=("namespace",))
def disk(p):
    """What a session stages beyond the limit ends who writes, and nothing starts until it is put right."""
    up = Up(p, "--disk", "8M")
    write = "i=0; while [ $i -lt 64 ]; do head -c 1048576 /dev/zero > f$i; i=$((i+1)); done; echo end"
    r = up.croft("exec", "e", *SH, write)
    check(r.rc == 137 and r.err.count("limit   disk") == 1, "not ended by the limit: %s" % r)
    r = up.sh("true")
    check(r.rc == 126 and "croft down e" in r.err, "no word about it: %s" % r)
    up.down()
    up.ok("discard", "e")
    up.ok("up", "-q", "e")
    # Gone with its command: the next one may go on. The control writes no more than there may be.
    gone = "import os, signal\nfor i in range(16):\n f = os.open('gone', os.O_CREAT | os.O_WRONLY)\n os.unlink('gone')\n" \
           " os.write(f, bytes(1 << 22))\nsignal.pause()"
    r = up.croft("exec", "-q", "e", "--", harness.python, "-c", gone)
    check(r.rc == 137, "not ended by the limit: %s" % r)
    r = up.sh("head -c 1048576 /dev/zero > f; echo end")
    check("end" in r.out, "the control: %s" % r)
    up.down()


FORKS = "import os\nfor i in range(60):\n try:\n  if os.fork() == 0: os.read(0, 1); os._exit(0)\n except OSError: pass"
EATS = "x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"


@harness.case("R1-limits-in-session", tiers=("namespace",))
def limits_hit(p):
    """A limit of the sandbox that a command reached is in its receipt, and not in that of the next."""
    up = Up(p, "--pids", "30", "--memory", "100M", "--disk", "8M")
    file = os.path.join(p.dir, "receipt.json")
    for what, attack in (("pids", FORKS), ("memory", EATS)):
        found = []
        for script in (attack, "pass"):
            r = up.croft("exec", "-q", "--json", file, "e", "--", harness.python, "-c", script)
            with open(file, encoding="utf-8") as f:
                receipt = harness.json.load(f)
            if receipt["enforced"]["limits_held_by"][what] != "cgroup":
                raise harness.Skip("no cgroup for %s" % what)
            found.append(receipt["limits_hit"])
        check(found == [[what], []], "%s: %s: %s" % (what, found, r))
    r = up.croft("exec", "-q", "--json", file, "e", *SH, "head -c 9000000 /dev/zero > big")
    with open(file, encoding="utf-8") as f:
        check("disk" in harness.json.load(f)["limits_hit"], "a file is cut at the limit, and it is not told: %s" % r)
    up.down()


@harness.case("F3-options-in-session")
def options(p):
    """What croft exec asks for and the sandbox that is up does not enforce is refused, not ignored."""
    p.write("secret", p.token)
    up = Up(p)
    for words in (("--deny", "./secret"), ("--set", "limits.pids=5"), ("--disk", "1M"), ("--memory", "512G"), ("--observe", "full")):
        r = up.croft("exec", "-q", *words, "e", "--", "cat", "secret")
        check(r.rc == 126 and p.token not in r.out and "croft down e" in r.err, "%s: %s" % (words[0], r))
    r = up.croft("exec", "-q", "e", "--", "cat", "secret")
    check(p.token in r.out, "the control does not read: %s" % r)
    up.down()


@harness.case("F19-replaced-in-session")
def replaced(p):
    """What the host replaces is not read afterwards: the session ends, and the command's receipt says why."""
    secret = os.path.join(p.outside, "denied", "secret")
    p.write(secret, "old\n")
    for replace in (False, True):
        up = Up(p, "--read", p.outside, "--deny", os.path.join(p.outside, "denied")) if not replace else up
        if replace:
            up.ok("up", "-q", "e")
        child = p.popen([harness.croft, "exec", "e", *SH, "echo up; read go; cat '%s'; echo end" % secret], stdin=subprocess.PIPE)
        try:
            harness.read_until(child.stdout.fileno(), b"up")
            if replace:
                os.rename(os.path.dirname(secret), os.path.join(p.outside, "old"))
                p.write(secret, p.token)
                if p.tier == "namespace":  # only watched: it is ended, a moment later
                    end = os.pidfd_open(child.pid)
                    select.select([end], [], [], harness.WAIT_S)
                    os.close(end)
            try:
                out, err = child.communicate(b"\n", timeout=harness.WAIT_S)
            except BrokenPipeError:
                out, err = child.communicate(timeout=harness.WAIT_S)
        finally:
            child.kill()
            child.wait()
        check(p.token.encode() not in out, "read: %r" % out)
        if not replace:
            check(b"end" in out and child.returncode == 0, "the control does not go on: %r %r" % (out, err))
            up.down()
        elif p.tier == "namespace":  # where the broker judges opens nothing has to end
            check(child.returncode == 126, "exit %d: %r %r" % (child.returncode, out, err))
            check(b"was replaced on this machine" in err, "the receipt does not say why: %r" % err)
            up.croft("down", "-q", "e")  # it may be about to end
            r = up.sh("true")
            check(r.rc == 0, "the environment is of no use any more: %s" % r)
    up.croft("down", "-q", "e")


if __name__ == "__main__":
    harness.main()
