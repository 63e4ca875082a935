#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
# session
"""Ways out that were found by looking for them: each stays closed."""
import os
import stat
import subprocess

import harness
from harness import check

SH = ("--", "/bin/sh", "-c")


def talk(p, words, script):
    """Start a sandbox that says "up", waits for a line, and goes on. Returns (child, go)."""
    child = p.popen(p.argv("-q", "--direct", *words, *SH, "echo up; read go; " + script),
                    stdin=subprocess.PIPE)
    harness.read_until(child.stdout.fileno(), b"up")

    def go():
        out, err = child.communicate(b"\n", timeout=harness.WAIT_S)
        return out.decode() + err.decode()
    return child, go


@harness.case("F3-host-replaces-file")
def host_replaces_file(p):
    """A denied file stays denied when the host's editor puts a new one in its place."""
    p.write("denied.env", "old\n")
    child, go = talk(p, ("--deny", "./denied.env"), "cat denied.env; true")
    new = p.write("new.env", p.token)
    os.rename(new, p.path("denied.env"))
    check(p.token not in go(), "the new file was read")
    child, go = talk(p, (), "cat denied.env; true")
    check(p.token in go(), "the control does not escape")


@harness.case("F3-unsearchable-directory")
def unsearchable_directory(p):
    """A denial below a directory without permission holds when its owner opens it from inside."""
    p.write("locked/key", p.token)
    attack = "chmod 700 locked; cat locked/key; chmod 0 locked; true"
    os.chmod(p.path("locked"), 0)
    try:
        r = p.run("-q", "--direct", "--deny", "./locked/key", *SH, attack)
        check(p.token not in r.out, "read: %s" % r)
        r = p.run("-q", "--direct", *SH, attack)
        check(p.token in r.out, "the control does not escape: %s" % r)
    finally:
        os.chmod(p.path("locked"), stat.S_IRWXU)


@harness.case("F12-glob-matches-later")
def glob_matches_later(p):
    """A pattern that matches nothing at the start still denies what the host makes later."""
    child, go = talk(p, ("--deny", "./**/*.pem"), "cat later.pem; true")
    p.write("later.pem", p.token)
    check(p.token not in go(), "read")
    child, go = talk(p, (), "cat later.pem; true")
    check(p.token in go(), "the control does not escape")


@harness.case("S7-environment-of-init")
def environment_of_init(p):
    """The caller's variables are nowhere in /proc, not even below the numbers of threads."""
    env = dict(p.env, CALLER_SECRET=p.token)
    look = "for i in 1 2 3 4 5 6 7 8 $PPID $((PPID+1)) $((PPID+2)); do tr '\\0' '\\n' < /proc/$i/environ; done; true"
    for words in ((), ("--observe", "full"), ("--deny", "./**/nothing")):
        r = p.finish(p.popen(p.argv("-q", "--direct", *words, *SH, look), env=env))
        check(p.token not in r.out, "%s: %s" % (words, r))
    r = p.finish(p.popen(["/bin/sh", "-c", "tr '\\0' '\\n' < /proc/$$/environ"], env=env))
    check(p.token in r.out, "the control does not escape: %s" % r)


@harness.case("F7-receipt-forged")
def receipt_forged(p):
    """The receipt is the supervisor's, whatever the command does to its file."""
    attack = "rm -f r.json; echo FORGED > r.json; true"
    p.run("-q", "--direct", "--json", "r.json", *SH, attack)
    check(p.read("r.json").startswith("{") and "croft.receipt" in p.read("r.json"), "forged: %s" % p.read("r.json"))
    os.unlink(p.path("r.json"))
    os.mkfifo(p.path("r.json"))
    r = p.run("-q", "--direct", "--json", "r.json", "--", "true")
    check(r.rc in (125, 126), "a pipe was opened: %s" % r)
    os.unlink(p.path("r.json"))
    os.symlink(p.outside, p.path("dir"))
    r = p.run("-q", "--direct", "--json", "dir/r.json", "--", "true")
    check(not os.path.exists(os.path.join(p.outside, "r.json")), "followed a planted directory link: %s" % r)
    p.plain("/bin/sh", "-c", attack)
    check(p.read("r.json") == "FORGED\n", "the control does not escape")


@harness.case("F7-receipt-in-granted-tree")
def receipt_in_granted(p):
    """A link in a tree that sandboxes write leads no receipt elsewhere; where they do not write the user's links are followed."""
    link = os.path.join(p.outside, "dir")
    os.symlink(p.home, link)
    p.user.own(link)
    for words, want in ((("--write", p.outside), False), ((), True)):
        r = p.run("-q", "--direct", *words, "--json", link + "/r.json", "--", "true")
        check(os.path.exists(os.path.join(p.home, "r.json")) == want, "%s: %s" % (words, r))
        check(r.rc == (0 if want else 126), r)


@harness.case("K11-denied-program")
def denied_program(p):
    """A program that the policy denies is not run as the command either."""
    p.write("tool", "#!/bin/sh\necho ran\n", mode=0o755)
    for command in (("./tool",), ("/bin/sh", "-c", "./tool; true")):
        r = p.run("-q", "--direct", "--deny", "./tool", "--", *command)
        check("ran" not in r.out, "%s: %s" % (command, r))
    r = p.run("-q", "--direct", "--", "./tool")
    check("ran" in r.out, "the control does not escape: %s" % r)


@harness.case("I9-stop-init")
def stop_init(p):
    """Stopping croft's own process inside does not leave the command unwatched."""
    r = p.run("-q", "--direct", "--timeout", "20s", *SH, "kill -STOP $PPID; kill -STOP 1; exit 0")
    check(r.rc in (0, 137), "hung until the timeout: %s" % r)


if __name__ == "__main__":
    harness.main()
