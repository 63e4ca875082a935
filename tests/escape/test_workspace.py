#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# timeout: 600
"""F15 to F18 and L5 for staged work: what is handed back, what is destroyed, who shares it, full disks, odd files.

What the drivers of staged work share (class Repo) is here, too: test_deferred.py and test_evidence.py
import it, and then the drivers of this file are not registered.
"""
import base64
import contextlib
import hashlib
import json
import os
import stat
import subprocess

import harness
from harness import Skip, check

harness.ENVS_UP = harness.IN_SESSION
harness.alone("is about the evidence of single runs; a session has other records: cli/session_beside", "F18-output", "F18-sparse",
              "L7-everywhere", "L7-interrupted", "L7-cut", "L2-forged-inside")
harness.alone("is about an environment in which nothing runs", "F17-environments")
harness.alone("a session that ends on a full disk has no end in the ledger until there is room", "F18-full-disk")
harness.alone("the boundary of a session stays as it was when it came up", "G14-approval")
STAGED = ("namespace",)
MINE = "# mine\n"


def probe(name, tiers=STAGED):
    """Register a driver. What an overlay leaves in its layers can be removed afterwards."""
    def register(function):
        def run(p):
            try:
                return function(p)
            finally:
                subprocess.run(["chmod", "-R", "u+rwX", p.dir], check=False, stderr=subprocess.DEVNULL)
        harness.case(name, tiers=tiers)(run)
        return function
    return register


def case(*args, **kw):
    return probe(*args, **kw) if __name__ == "__main__" else lambda function: function


def tree_state(top, skip=()):
    """Every file and link below top: kind, mode and content. A directory counts by what is in it."""
    found = {}
    for where, dirs, names in os.walk(top):
        for name in names + [d for d in dirs if os.path.islink(os.path.join(where, d))]:
            path = os.path.join(where, name)
            rel = os.path.relpath(path, top)
            if any(rel == s or rel.startswith(s + "/") for s in skip):
                continue
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    content = hashlib.sha256(f.read()).hexdigest()
            else:
                content = ""
            found[rel] = (oct(st.st_mode), content)
    return found


def differences(before, after):
    return sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))


class Repo:
    """A repository of the user's, environments or staged runs on it, and a canary only the host can trip."""

    def __init__(self, p, staged=False, name="one", git=True, make=True):
        self.p, self.staged, self.name = p, staged, name
        self.canary = os.path.join(p.outside, "canary")
        p.write(os.path.join(p.home, ".gitconfig"), "[user]\n\tname = Host\n\temail = host@example.org\n"
                "[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
        p.write("a.txt", "one\ntwo\nthree\n", 0o644)
        p.write("dir/b.txt", "bee\n", 0o644)
        p.write(".gitignore", "node_modules/\n.venv/\n*.o\n", 0o644)
        if git:
            self.git("init", "-q")
            self.git("add", "-A")
            self.git("commit", "-qm", "start")
        if make and not staged:
            self.new()

    # ---- the host's side ----

    def sh(self, script, cwd=None, **kw):
        """As the user, without a sandbox."""
        return self.p.plain("/bin/sh", "-c", script, cwd=cwd or self.p.work, **kw)

    def git(self, *args, cwd=None, good=True):
        r = self.p.plain("git", *args, cwd=cwd or self.p.work)
        check(not good or r.rc == 0, "git %s: %s" % (" ".join(args), r))
        return r.out

    def git_dir(self):
        return os.path.join(self.p.work, self.git("rev-parse", "--git-common-dir").strip())

    def git_state(self):
        return tree_state(self.git_dir(), skip=("refs/croft", "logs/refs/croft"))

    def same_git(self, before, what):
        """The host's .git is, byte for byte, what it was: evidence and its objects aside."""
        self.quiet()
        after = self.git_state()
        evidence = {line[:40] for line in
                    self.git("rev-list", "--objects", "--glob=refs/croft/*").splitlines()}
        bad = [k for k in differences(before, after)
               if not (k.startswith("objects/") and k not in before and k[8:].replace("/", "") in evidence)]
        check(not bad, "%s changed the host's .git: %s" % (what, bad[:10]))

    def quiet(self):
        """No session writes evidence into the repository while it is looked at."""
        if self.p.beside:
            self.p.beside.end_all()

    def tripped(self):
        """Did the canary go off? It is reset."""
        found = os.path.exists(self.canary)
        if found:
            os.unlink(self.canary)
        return found

    # ---- croft ----

    def croft(self, *args, rc=0, **kw):
        """A command of croft's; rc None: whatever it is, but no crash."""
        timeout = kw.pop("timeout", harness.WAIT_S)
        r = self.p.finish(self.p.popen([harness.croft, *args], **kw), timeout)
        wanted = (0, 1, 125, 126) if rc is None else rc if isinstance(rc, tuple) else (rc,)
        check(r.rc in wanted, "croft %s: want exit %s: %s" % (" ".join(args)[:200], wanted, r))
        return r

    def new(self, name=None, *options):
        self.croft("new", "-q", "--tier", self.p.tier, *options, name or self.name)

    def runs(self):
        return {e["name"] for e in json.loads(self.croft("ls", "--json").out)["environments"] if e["run"]}

    def argv(self, script, *options):
        if self.staged:
            return [harness.croft, "run", "--staged", "-q", "--tier", self.p.tier, *options, "--",
                    "/bin/sh", "-c", script]
        return [harness.croft, "exec", "-q", *options, self.name, "--", "/bin/sh", "-c", script]

    def sandbox(self, script, *options, rc=0, timeout=harness.WAIT_S):
        """The attacker's turn. A staged run becomes the environment that later calls are about."""
        before = self.runs() if self.staged else None
        r = self.p.finish(self.p.popen(self.argv(script, *options)), timeout)
        check(rc is None or r.rc == rc, "the attack did not run: %s" % r)
        if self.staged:
            made = self.runs() - before
            check(len(made) == 1, "a staged run is no environment: %s %s" % (made, r))
            self.name = made.pop()
        return r

    def diff(self, name=None):
        return json.loads(self.croft("diff", "--json", name or self.name).out)

    def refused(self):
        """What the listings say cannot land."""
        text = self.croft("diff", self.name).out
        return text.split("cannot land:\n", 1)[1] if "cannot land:\n" in text else ""

    def state(self, *parts):
        return os.path.join(self.p.dir, "state", "croft", *parts)

    def record(self):
        with open(self.state("envs", self.name, "env.json"), encoding="utf-8") as f:
            return json.load(f)

    def layer(self):
        """Where what is staged lies, for what a sandbox cannot make but a hole in one could."""
        return self.state("layers", self.record()["layers"][-1], "tree")

    def land_allowed(self):
        """Accept all that may be accepted in bulk, and land it."""
        self.croft("review", self.name, "--accept-all")
        return self.croft("apply", self.name)


# ---- F15 ----

SOCKET = "import socket; socket.socket(socket.AF_UNIX).bind('sock')"


@case("F15-handed-back")
def handed_back(p):
    """Set-id bits, devices, pipes, sockets and capabilities are refused by name; plain files land plainly."""
    repo = Repo(p)
    made = repo.sandbox("cp /bin/true suid; chmod 4755 suid; cp /bin/true sgid; chmod 2755 sgid; mkfifo pipe;"
                        "%s -c \"%s\"; mknod device c 1 3; mknod disk b 8 0; echo ok > plain; chmod 0666 plain;"
                        "echo ok > tool; chmod 0777 tool; ls -l; true" % (harness.python, SOCKET))
    layer = repo.layer()
    for name, mode in (("suid2", 0o4755), ("sgid2", 0o2755), ("sticky", 0o1644)):
        path = p.write(os.path.join(layer, name), "#!/bin/sh\n")
        os.chmod(path, mode)
    wanted = ["pipe", "sock", "suid2", "sgid2", "sticky"]
    wanted += [n for n in ("suid", "sgid") if os.lstat(os.path.join(layer, n)).st_mode & 0o6000]
    wanted += [n for n in ("device", "disk") if os.path.lexists(os.path.join(layer, n))]
    if os.getuid() == 0 and p.user.uid == 0:
        os.mknod(os.path.join(layer, "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path = p.write(os.path.join(layer, "capable"), "x\n", 0o755)
        os.setxattr(path, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
        wanted += ["null", "capable"]
    shown, status = repo.refused(), repo.croft("status", "--json", repo.name).out + repo.croft("status", repo.name).out
    for name in wanted:
        check("  %s   " % name in shown, "%s is not refused by name\n%s\n%s" % (name, shown, made))
        check(name in status, "status does not name %s: %s" % (name, status))
    r = repo.croft("apply", repo.name, rc=(125, 126))
    check(any(n in r.err for n in wanted), "the refusal names nothing: %s" % r)
    check(not os.path.lexists(p.path("plain")), "something landed with a refused file beside it")
    for name in wanted:
        repo.croft("apply", repo.name, name, rc=(125, 126))
        repo.croft("review", repo.name, "--accept", name, rc=None)
        repo.croft("apply", repo.name, rc=None)
        check(not os.path.lexists(p.path(name)), "%s landed" % name)
    repo.land_allowed()
    check(p.read("plain") == "ok\n" and stat.S_IMODE(os.lstat(p.path("plain")).st_mode) & 0o133 == 0,
          "a plain file did not land plainly")
    check(os.access(p.path("tool"), os.X_OK) and not os.lstat(p.path("tool")).st_mode & 0o7022, "mode of tool")
    bad = [k for k, (mode, _) in tree_state(p.work, (".git",)).items() if int(mode, 8) & 0o7000
           or not stat.S_ISREG(int(mode, 8))]
    check(not bad, "on the host now: %s" % bad)
    # Control: what is looked for is seen when it is there.
    os.chmod(p.write("control"), 0o4755)
    check(int(tree_state(p.work, (".git",))["control"][0], 8) & 0o4000, "the control sees nothing")


@case("F15-shared-inode")
def shared_inode(p):
    """A landed file is a file of its own: writing to what is staged later does not reach the host."""
    repo = Repo(p)
    repo.sandbox("echo first > x; ln x y; ln a.txt again; true")
    repo.land_allowed()
    check(p.read("x") == "first\n" and p.read("y") == "first\n", "did not land")
    repo.sandbox("echo second > x; echo more >> again; true")
    check(p.read("x") == "first\n" and p.read("a.txt") == "one\ntwo\nthree\n", "the host shares an inode")
    check(os.lstat(p.path("x")).st_nlink == 1, "the landed file has another name")


# ---- F16 ----

DESTROY = "rm -rf .git dir * .[!.]*; ls -A; true"


def destroy(p, staged):
    repo = Repo(p, staged)
    p.write("uncommitted", "mine\n")
    before = tree_state(p.work, (".git",))
    git = repo.git_state()
    r = repo.sandbox("cat .git/objects/info/alternates | while read -r d; do chmod -R u+w \"$d\"; rm -rf \"$d\"/*;"
                     "echo x > \"$d/x\"; done; " + DESTROY)
    check("a.txt" not in r.out, "the attack does nothing: %s" % r)
    check(tree_state(p.work, (".git",)) == before, "the workspace changed")
    repo.same_git(git, "rm -rf")
    repo.git("fsck", "--strict")
    gone = {f["path"] for f in repo.diff()["files"] if f["change"] == "deleted"}
    check({"a.txt", "dir/b.txt"} <= gone, "the deletions are not shown: %s" % gone)
    repo.croft("discard", repo.name)
    check(tree_state(p.work, (".git",)) == before, "discard changed the workspace")
    if not staged:
        r = repo.sandbox("cat a.txt; git status --short; git fsck")
        check("three" in r.out and "D a.txt" not in r.out, "the environment is not what it began as: %s" % r)
        # What others share, the pinned base and the objects, is whole as well.
        repo.new("other")
        r = repo.croft("exec", "-q", "other", "--", "/bin/sh", "-c", "git status --short && git log --oneline -p")
        check("D " not in r.out and "three" in r.out, "the base was damaged: %s" % r)
    repo.git("clone", "-q", p.work, os.path.join(p.dir, "control"))
    repo.sh(DESTROY, cwd=os.path.join(p.dir, "control"))
    check(not os.listdir(os.path.join(p.dir, "control")), "the control destroys nothing")


case("F16-destroy-env")(lambda p: destroy(p, False))
case("F16-destroy-staged")(lambda p: destroy(p, True))


@case("F16-destroy-copy", tiers=("process",))
def destroy_copy(p):
    """Without an overlay an environment is a copy: the same must hold."""
    repo = Repo(p, make=False)
    r = repo.croft("new", "-q", "--tier", p.tier, repo.name, rc=None)
    if r.rc == 126:
        raise Skip(r.err.strip())
    check(r.rc == 0, "no environment in this tier, and no refusal: %s" % r)
    before, git = tree_state(p.work, (".git",)), repo.git_state()
    top = repo.record()["copy"]
    repo.sandbox(DESTROY)
    check(not top or not os.path.exists(os.path.join(top, "a.txt")), "the attack does nothing")
    check(tree_state(p.work, (".git",)) == before, "the workspace changed")
    repo.same_git(git, "rm -rf")


@case("F16-copy-outside", tiers=harness.TIERS)
def copy_outside(p):
    """A copy of uncommitted work replaces what is in the copy, never what a tracked symlink leads to."""
    victim = os.path.join(p.outside, "victim")
    for name in ("file", "deep/file"):
        p.write(os.path.join(victim, name), MINE)
    repo = Repo(p, make=False)
    p.write("gone/deep/x", "x\n")
    os.symlink(victim, p.path("d"))
    p.user.own(p.path("d"))
    repo.git("add", "-A")
    repo.git("commit", "-qm", "a link that leads out")
    # Control: a path of several parts goes through the link.
    check(os.path.samefile(p.path("d", "file"), os.path.join(victim, "file")), "the control leads nowhere")
    os.unlink(p.path("d"))
    p.write("d/file", "dirty\n")
    p.write("d/deep/file", "dirty\n")
    repo.sh("rm -r gone dir; echo now a file > dir")
    before = tree_state(p.outside)
    r = repo.croft("new", "-q", "--dirty", "--tier", p.tier, repo.name, rc=None, env={"CROFT_FORCE_FAIL": "overlay"})
    check(differences(before, tree_state(p.outside)) == [], "outside: %s %s" % (differences(before, tree_state(p.outside)), r))
    if r.rc == 126:
        raise Skip(r.err.strip())
    check(r.rc == 0, "no environment: %s" % r)
    copy = repo.record()["copy"]
    made, wanted = tree_state(copy, (".git",)), tree_state(p.work, (".git",))
    check(not differences(wanted, made), "the copy differs from what is uncommitted: %s" % differences(wanted, made))
    check(not os.path.lexists(os.path.join(copy, "gone")), "a directory that is gone is in the copy")


@case("F16-submodule-link")
def submodule_link(p):
    """A submodule of another branch is not taken from behind a symlink of the working tree."""
    repo = Repo(p, make=False)
    for name in ("hidden", "own"):
        repo.git("init", "-q", os.path.join(p.outside, name))
        p.write(os.path.join(p.outside, name, "plans"), p.token + "\n")
        repo.sh("git add -A && git commit -qm plans", cwd=os.path.join(p.outside, name))
    commit = repo.git("rev-parse", "HEAD", cwd=os.path.join(p.outside, "hidden")).strip()
    own = repo.git("rev-parse", "HEAD", cwd=os.path.join(p.outside, "own")).strip()
    repo.git("checkout", "-q", "-b", "other")
    for oid, name in ((commit, "x"), (own, "y")):
        repo.git("update-index", "--add", "--cacheinfo", "160000,%s,%s" % (oid, name))
    repo.git("commit", "-qm", "submodules")
    repo.git("checkout", "-q", "main")
    os.symlink(os.path.join("..", "outside", "hidden"), p.path("x"))
    p.user.own(p.path("x"))
    repo.git("clone", "-q", os.path.join(p.outside, "own"), p.path("y"))
    r = repo.croft("new", "-q", "--tier", p.tier, "--from", "other", repo.name, rc=None)
    bases = repo.state("bases")
    found = [f for d, _, fs in os.walk(bases) for f in (os.path.join(d, n) for n in fs)
             if f.endswith("/plans") and not os.path.islink(f)]
    check(not [f for f in found if f.endswith("/x/plans")], "the other repository is in the base: %s %s" % (found, r))
    check(r.rc == 0, "no environment: %s" % r)
    r = repo.sandbox("cat x/plans; cat y/plans")
    check(r.out == p.token + "\n", "inside, x shows something, or the control y does not: %s" % r)


# ---- F17 ----

class Running:
    """A sandbox that waits for us: it says "ready", and goes on when told to."""

    def __init__(self, repo, script):
        self.child = repo.p.popen(repo.argv("echo ready; read -r go; " + script), stdin=subprocess.PIPE)
        harness.read_until(self.child.stdout.fileno(), b"ready\n")

    def end(self):
        out, err = self.child.communicate(b"go\n", timeout=harness.WAIT_S)
        return harness.Result(self.child.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


@case("F17-environments")
def overlapping_environments(p):
    """One environment is removed, with gc, while another on the same base and project runs."""
    repo = Repo(p, name="stays")
    repo.new("goes")
    other = Repo.__new__(Repo)
    other.__dict__.update(repo.__dict__, name="goes")
    before, git = tree_state(p.work, (".git",)), repo.git_state()
    running = Running(repo, "cat a.txt dir/b.txt && echo done > made && git status --short")
    other.sandbox("echo other > a.txt; rm -rf dir .git")
    repo.croft("rm", "--force", "stays", rc=(125, 126))  # in use: refused, and says so
    repo.croft("rm", "--force", "goes")
    repo.croft("gc")
    r = running.end()
    check(r.rc == 0 and "three" in r.out and "bee" in r.out and "made" in r.out, "disturbed: %s" % r)
    check([f["path"] for f in repo.diff()["files"]] == ["made"], "what was staged: %s" % repo.diff())
    check(tree_state(p.work, (".git",)) == before, "the workspace changed")
    repo.same_git(git, "rm and gc")
    # Control: when nothing runs in it, it can be removed.
    repo.croft("rm", "--force", "stays")


@case("F17-staged-runs")
def overlapping_runs(p):
    """Two staged runs at once see their own changes only, and discarding one leaves the other."""
    repo = Repo(p, staged=True)
    first = Running(repo, "cat a.txt; echo first > a.txt; echo 1 > mine; ls")
    one = repo.sandbox("echo second > a.txt; echo 2 > yours; rm dir/b.txt")
    second = repo.name
    repo.croft("discard", second)
    repo.croft("rm", "--force", second)
    repo.croft("gc")
    r = first.end()
    check(r.rc == 0 and "three" in r.out and "yours" not in r.out, "they share: %s %s" % (r, one))
    names = repo.runs()
    check(len(names) == 1, "not kept: %s" % names)
    check([f["path"] for f in repo.diff(names.pop())["files"]] == ["a.txt", "mine"], "what was staged")
    check(p.read("a.txt") == "one\ntwo\nthree\n", "the host's file changed")


@case("F17-shared-grant", tiers=harness.TIERS)
def shared_grant(p):
    """Two runs may write the same directory; the end of one takes nothing from the other."""
    shared = os.path.join(p.outside, "shared")
    p.write(os.path.join(shared, "kept"), MINE)
    argv = p.argv("-q", "--direct", "--write", shared, "--", "/bin/sh", "-c")
    child = p.popen(argv + ["echo ready; read -r go; cat '%s/kept' '%s/left' && echo late > '%s/late'"
                            % (shared, shared, shared)], stdin=subprocess.PIPE)
    harness.read_until(child.stdout.fileno(), b"ready\n")
    r = p.finish(p.popen(argv + ["echo left > '%s/left'" % shared]))
    check(r.rc == 0, r)
    out, err = child.communicate(b"go\n", timeout=harness.WAIT_S)
    check(child.returncode == 0 and b"left" in out, "disturbed: %r %r" % (out, err))
    check(p.read(os.path.join(shared, "late")) == "late\n" and p.read(os.path.join(shared, "kept")) == MINE,
          "the grant did not outlive the other run")


# ---- F18 ----

@contextlib.contextmanager
def small_disk(p, size):
    """The state directory on a file system that is soon full."""
    where = os.path.join(p.dir, "state")
    os.makedirs(where, 0o700, exist_ok=True)
    r = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s,mode=0700" % size, "tmpfs", where],
                       capture_output=True, check=False)
    if r.returncode:
        raise Skip("a small file system needs root: %s" % r.stderr.decode(errors="replace").strip())
    try:
        p.user.own(where)
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=False)


@case("F18-full-disk")
def full_disk(p):
    """The file system below what is staged fills up: said, and nothing of the host's is touched."""
    if os.getuid() != 0:
        raise Skip("a small file system needs root")
    with small_disk(p, "24m"):
        repo = Repo(p)
        repo.sandbox("echo early > early")
        before, git = tree_state(p.work, (".git",)), repo.git_state()
        r = repo.sandbox("dd if=/dev/zero of=big bs=1M count=100; echo late > late", rc=None)
        check("No space left" in r.out + r.err, "it was not full: %s" % r)
        check(tree_state(p.work, (".git",)) == before, "the workspace changed")
        repo.same_git(git, "a full disk")
        verdict = repo.croft("evidence", "verify", repo.name)
        check("good" in verdict.out, verdict)
        for argv in (("status", repo.name), ("diff", "--stat", repo.name), ("apply", repo.name)):
            r = repo.croft(*argv, rc=None)
            check(r.rc == 0 or "croft: " in r.err, "neither done nor said: %s" % r)
        check(not os.path.lexists(p.path("late")) or p.read("late") == "late\n", "a half-landed file")
        repo.croft("discard", repo.name, rc=None)
        repo.croft("rm", "--force", repo.name)  # room can be made
        repo.new("again")
        r = repo.croft("exec", "-q", "again", "--", "cat", "a.txt")
        check("three" in r.out, r)
        repo.croft("evidence", "verify", "again")


@case("F18-limit")
def disk_limit(p):
    """--disk holds what is staged, or the receipt says that it does not."""
    repo = Repo(p)
    name = os.path.join(p.outside, "receipt.json")
    r = repo.sandbox("dd if=/dev/zero of=big bs=1M count=64", "--disk", "16M", "--json", name, rc=None)
    with open(name, encoding="utf-8") as f:
        receipt = json.load(f)
    size = os.path.getsize(os.path.join(repo.layer(), "big")) if \
        os.path.exists(os.path.join(repo.layer(), "big")) else 0
    held = json.dumps(receipt.get("limits_held_by") or receipt["enforced"].get("limits_held_by") or {})
    if size > 16 << 20:
        check("staged" in held and "disk" in held, "64 MiB were staged with --disk 16M, and nothing says so: %s %s"
              % (held, r))
    r = repo.sandbox("dd if=/dev/zero of=/tmp/big bs=1M count=64", "--disk", "16M", rc=None)
    check("No space left" in r.out + r.err, "the private files are not held: %s" % r)


@case("F18-output")
def output_flood(p):
    """What is kept of a flood of output is bounded, and the ledger says that it was cut."""
    repo = Repo(p)
    before = sum(os.lstat(os.path.join(d, f)).st_size for d, _, fs in os.walk(p.dir) for f in fs)
    child = p.popen(repo.argv("yes ABCDEFGHIJ | head -c 150000000"), stdout=subprocess.DEVNULL)
    check(p.finish(child, 2 * harness.WAIT_S).rc == 0, "the flood")
    after = sum(os.lstat(os.path.join(d, f)).st_size for d, _, fs in os.walk(p.dir) for f in fs)
    check(after - before < 70 << 20, "%d bytes were kept of a flood" % (after - before))
    shown = repo.croft("evidence", "show", repo.name, "2").out
    check("truncated: yes" in shown, "the cut is not recorded: %s" % shown[-600:])
    check("150000000" in shown, "how much there was is not recorded: %s" % shown[-600:])
    repo.sandbox("echo little")
    shown = repo.croft("evidence", "show", repo.name, "3").out
    check("truncated: no" in shown, "the control is called cut: %s" % shown[-600:])


@case("F18-sparse")
def sparse(p):
    """Files that cost the sandbox nothing cost nobody much: refused by name, or left out of the record, which says so."""
    repo = Repo(p)
    repo.sandbox("truncate -s 1T huge; echo note > note.txt")
    shown = repo.croft("evidence", "show", "--json", repo.name, "2").out
    check("treeAfter" in shown and "filesNotNamed" not in shown, "the control has no tree: %s" % shown[-800:])
    check("huge   too large" in repo.refused(), "not refused by name: %s" % repo.refused())
    check("too large" in repo.croft("status", repo.name).out, "status does not say so")
    r = repo.croft("apply", repo.name, rc=(125, 126))
    check("huge" in r.err and not os.path.lexists(p.path("note.txt")), "landed beside it: %s" % r)
    repo.croft("apply", repo.name, "huge", rc=(125, 126))
    repo.land_allowed()
    check(p.read("note.txt") == "note\n" and not os.path.lexists(p.path("huge")), "what landed")
    repo.sandbox("rm huge; truncate -s 300M large; echo more >> note.txt")
    shown = repo.croft("log", "--json", repo.name).out
    last = str(len(json.loads(shown)["events"]))
    shown = repo.croft("evidence", "show", "--json", repo.name, last).out
    check("treeAfter" not in shown and "filesNotNamed" in shown, "the record does not say so: %s" % shown[-800:])
    repo.croft("evidence", "verify", repo.name)
    listed = repo.diff()
    check("large" in {f["path"] for f in listed["not_read"]}, "it is not listed as not read: %s" % listed)
    check("note.txt" in {f["path"] for f in listed["files"]}, "what is small is not shown beside it")


# ---- L5 ----

@case("L5-odd-files")
def odd_files(p):
    """Binary, huge, oddly named or encoded, unreadable, colliding: all are shown, and land whole or are refused."""
    repo = Repo(p)
    p.write(os.path.join(p.work, "odd.py"), "import os\n"
            "w = lambda n, b: open(n, 'wb').write(b)\n"
            "w(b'binary', bytes(range(256)) * 9); w(b'empty', b'')\n"
            "w(b'lat\\xednn', b'l\\n'); w(b'bad\\xff\\xfe', b'b\\n')\n"
            "w('\\u00fcml\\u00e4ut'.encode(), b'u\\n'); w(b'new\\nline', b'n\\n'); w(b'tab\\tquote\"back\\\\', b't\\n')\n"
            "w(b' lead', b'1\\n'); w(b'trail ', b'2\\n'); w(b'-rf', b'3\\n'); w(b'n' * 255, b'4\\n')\n"
            "w(b'utf16', 'x\\r\\n'.encode('utf-16'))\n"
            "w(b'crlf', b'a\\r\\nb\\r\\n'); w(b'noeol', b'x'); w(b'Case', b'1'); w(b'cASE', b'2'); w(b'A.txt', b'3')\n"
            "w(b'*', b'star\\n'); w(b':(top)x', b'magic\\n'); w(b'long', b'x' * 3000000)\n"
            "os.makedirs('/'.join(['deep'] * 150)); w(('/'.join(['deep'] * 150) + '/f').encode(), b'd\\n')\n"
            "os.mkdir('hollow')\n"
            "w(b'closed', b'c\\n'); os.chmod('closed', 0)\n"
            "f = open('huge', 'wb'); f.truncate(300 << 20); f.seek(0, 2); f.write(b'end'); f.close()\n", 0o644)
    repo.git("add", "-A")
    repo.git("commit", "-qm", "odd")
    repo.new("odd")
    repo.name = "odd"
    repo.sandbox("%s odd.py" % harness.python)
    data = json.loads(repo.croft("diff", "--json", "--names", repo.name).out)
    shown = {base64.b64decode(f["path_bytes_b64"]) if f.get("path_bytes_b64") else f["path"].encode()
             for f in data["files"] + data.get("not_read", [])}
    refused = repo.refused()
    layer = os.fsencode(repo.layer())
    for where, dirs, names in os.walk(layer):
        for name in names:
            rel = os.path.relpath(os.path.join(where, name), layer)
            if rel.startswith((b".git/", b"odd.py")):
                continue
            named = rel.decode("utf-8", "replace") in refused
            check(rel in shown or named, "%r is neither shown nor refused" % rel)
    for name in ("Case", "cASE", "A.txt"):
        check("  %s   " % name in refused, "the collision of %s is not named: %s" % (name, refused))
    check("hollow" in repo.croft("diff", "--stat", repo.name).out, "the empty directory is passed over")
    if p.user.uid != 0:
        check("  closed   " in refused, "an unreadable file is passed over: %s" % refused)
    r = repo.croft("apply", repo.name, rc=(125, 126))
    check(not os.path.lexists(p.path("binary")), "landed with refused files beside: %s" % r)
    repo.croft("review", repo.name, "--accept-all", timeout=2 * harness.WAIT_S)
    repo.croft("apply", repo.name, timeout=2 * harness.WAIT_S)
    wrong = [rel for rel in shown if not same_file(os.path.join(layer, rel), os.path.join(os.fsencode(p.work), rel))]
    check(not wrong, "did not land as it was: %s" % wrong)
    check(os.path.getsize(p.path("huge")) == (300 << 20) + 3, "the huge file")
    check(p.read("a.txt") == "one\ntwo\nthree\n" and not os.path.lexists(p.path("cASE")), "a collision landed")


def hidden(p, staged):
    """Rules, index bits and times that a sandbox sets do not hide what it changed."""
    repo = Repo(p, staged)
    repo.sandbox("echo '*' > .gitignore; mkdir -p .git/info; echo '*' >> .git/info/exclude; git config core.excludesFile a.txt;"
                 "mkdir hid; echo '*' > hid/.gitignore; echo x > hid/x; echo x > odd.o; git update-index --assume-unchanged a.txt;"
                 "git update-index --skip-worktree dir/b.txt; echo 1111 >> a.txt; echo evil >> dir/b.txt")
    paths = {f["path"] for f in repo.diff()["files"]}
    check(paths == {".gitignore", "hid/.gitignore", "hid/x", "a.txt", "dir/b.txt"}, "shown: %s" % sorted(paths))
    check(repo.diff()["ignored"] == 1, "the control: what the project itself ignores is counted, not listed")
    if staged:
        return
    repo.sandbox("touch -r a.txt /tmp/t; sed -i s/1111/2222/ a.txt; touch -r /tmp/t a.txt")
    check("+2222" in repo.croft("diff", repo.name).out, "a change that keeps size and time is not seen")
    repo.land_allowed()
    check("2222" in p.read("a.txt") and p.read("hid/x") == "x\n" and not os.path.exists(p.path("odd.o")), "what landed")


case("L5-hidden-env")(lambda p: hidden(p, False))
case("L5-hidden-staged")(lambda p: hidden(p, True))


def same_file(a, b):
    if not os.path.exists(b):
        return False
    with open(a, "rb") as f, open(b, "rb") as g:
        while True:
            x, y = f.read(1 << 20), g.read(1 << 20)
            if x != y:
                return False
            if not x:
                return True


if __name__ == "__main__":
    harness.main()
