#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""F19: the host replaces what is denied or read-only while the command runs."""
import os
import select
import subprocess

import harness
from harness import check

SH = ("--", "/bin/sh", "-c")
# Says that it runs, waits for the host to be done, then tries for a while; "end" only if nobody ends it.
ENDS_S = 20
LOOP = "echo up; read go; i=0; while [ $i -lt %d ]; do %s; i=$((i+1)); done; echo end"


def drive(p, options, attack, change, rounds=400, ends=False):
    """Start, change something on the host while it runs, and let it try. Returns result and receipt."""
    name = os.path.join(p.dir, "receipt.json")
    child = p.popen(p.argv("--json", name, *options, *SH, LOOP % (rounds, attack)), stdin=subprocess.PIPE)
    ready = select.select([child.stdout], [], [], harness.WAIT_S)[0]
    check(ready and child.stdout.readline() == b"up\n", "the command did not start")
    change()
    if ends:  # by itself, before it can try; otherwise it tries
        end = os.pidfd_open(child.pid)
        select.select([end], [], [], ENDS_S)
        os.close(end)
    try:
        child.stdin.write(b"go\n")
        child.stdin.flush()
    except BrokenPipeError:
        pass
    r = p.finish(child)
    with open(name, encoding="utf-8") as f:
        return r, harness.json.load(f)


def replace(p, path, fill):
    """As the user's own tools do it: the old one goes, a new one of that name is made."""
    made = os.path.join(p.dir, "made")
    os.mkdir(made)
    p.user.own(made)
    p.write(os.path.join(made, fill), p.token + "\n")
    os.rename(path, path + ".old")
    os.rename(made, path)  # whole, since croft may put it away at once


def said(p, r, receipt, path):
    """It was ended, and the receipt does not claim a protection that was not there."""
    check(r.rc == 126, "not ended with 126: %s" % r)
    check("end" not in r.out.split(), "the command went on: %s" % r)
    check(any(path in d and "replaced" in d for d in receipt["degradations"]), receipt["degradations"])
    check(receipt["exit"]["code"] == 126, receipt["exit"])


@harness.case("F19-git-replaced")
def git_replaced(p):
    """A .git that the host makes anew is not writable: held by name, or the run is over."""
    git = p.path(".git")
    p.plain("git", "init", "-q", p.work)
    attack = "(echo evil > .git/hooks/evil) 2>/dev/null; (echo evil >> .git/config) 2>/dev/null"
    r, receipt = drive(p, ["--direct"], attack, lambda: replace(p, git, "hooks/x"),
                       ends=p.tier == "namespace")
    check(not os.path.exists(os.path.join(git, "hooks/evil")), "the new .git was written: %s" % r)
    if p.tier == "namespace" and not receipt["enforced"]["seccomp"]["broker"]:
        said(p, r, receipt, git)
    else:
        check(r.rc == 0, r)
    check(p.plain("/bin/sh", "-c", "mkdir -p .git/hooks; echo evil > .git/hooks/evil").rc == 0, "the control does not write")


@harness.case("F19-denied-directory-replaced")
def denied_replaced(p):
    """A denied directory that the host makes anew is not readable: the broker judges its name."""
    keys = p.path("keys")
    p.write("keys/one", "old\n")
    r, receipt = drive(p, ["--direct", "--deny", "./keys"], "cat keys/two keys/one 2>/dev/null",
                       lambda: replace(p, keys, "two"))
    check(p.token not in r.out, "the new directory was read: %s" % r)
    check(r.rc == 0 and receipt["enforced"]["seccomp"]["broker"], "ended, or no broker: %s" % r)
    check(p.token in p.plain("cat", "keys/two").out, "the control does not read")


@harness.case("F19-denied-in-readable-tree", tiers=("namespace", "process"))
def denied_in_readable(p):
    """The same inside a tree that is only readable: a directory that is replaced, and one that appears."""
    tree = os.path.join(p.outside, "tree")
    keys = os.path.join(tree, "keys")
    for what in ("replaced", "appears", "parent appears", "above replaced", "appears above"):
        subprocess.run(["rm", "-rf", tree], check=True)
        p.write(os.path.join(tree, "plain"), "plain\n")
        target = keys if what in ("replaced", "appears") else os.path.join(tree, "a/b/keys")
        if what in ("replaced", "above replaced"):
            p.write(os.path.join(target, "one"), "old\n")
        if what == "appears above":
            p.write(os.path.join(tree, "a/b/plain"), "plain\n")

        def change():
            if what == "replaced":
                replace(p, keys, "two")
            elif what in ("above replaced", "appears above"):
                replace(p, os.path.join(tree, "a"), "b/keys/two")
            else:
                p.write(os.path.join(target, "two"), p.token + "\n")

        r, receipt = drive(p, ["--direct", "--read", tree, "--deny", target], "cat '%s/two' 2>/dev/null" % target, change,
                           ends=p.tier == "namespace")
        check(p.token not in r.out, "%s: read: %s" % (what, r))
        if p.tier == "namespace":
            said(p, r, receipt, target)
        check(p.token in p.plain("cat", target + "/two").out, "the control does not read")


@harness.case("F19-start-up-file-replaced", tiers=("namespace",))
def file_replaced(p):
    """An editor that saves by renaming ends the protection of a single file."""
    rc = p.write(".envrc", "mine\n")

    def change():
        new = p.write(".envrc.new", "edited\n")
        os.rename(new, rc)

    r, receipt = drive(p, ["--direct"], "(echo evil > .envrc) 2>/dev/null", change, ends=True)
    check(p.read(".envrc") == "edited\n", "written: %s" % r)
    said(p, r, receipt, rc)


@harness.case("F19-ordinary-changes", tiers=("namespace",))
def ordinary(p):
    """What the host does beside the protected names ends nothing."""
    p.plain("git", "init", "-q", p.work)

    def change():
        for i in range(50):
            p.write("file%d" % i)
            os.rename(p.path("file%d" % i), p.path("moved%d" % i))
            os.unlink(p.path("moved%d" % i))
        p.write(".git/info/more")

    r, receipt = drive(p, ["--direct"], "echo x > t; mv t u; rm u", change, 20)
    check(r.rc == 0 and "end" in r.out, "ended: %s" % r)


if __name__ == "__main__":
    harness.main()
