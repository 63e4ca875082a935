#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# timeout: 600
"""G16: what is dangerous only together does not land in parts.

Each part alone may land. What counts is the checkout, or the branch, that results: what was landed before, what the
user has there, what the branch has by now, and what lands. Control: the user puts the same files there by hand, and
`git status` in that directory runs the canary.
"""
import base64
import os
import zlib

import harness
from harness import check
from test_workspace import Repo, probe

FIRST = "mkdir -p docs/objects docs/refs; echo k > docs/objects/k; echo k > docs/refs/k"
SECOND = ("mkdir -p docs; echo 'ref: refs/heads/main' > docs/HEAD; "
          "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = \"touch %s; false\"\\n' > docs/config")


class Steps(Repo):
    def __init__(self, p):
        super().__init__(p, make=False)
        self.made = 0

    def second(self):
        return SECOND % self.canary

    def env(self, script):
        """A new environment in which this was done."""
        self.made += 1
        self.name = "e%d" % self.made
        self.new()
        self.sandbox(script)
        return self.name

    def control(self):
        """The same files, by hand, do run the canary."""
        where = os.path.join(self.p.dir, "control")
        os.mkdir(where)
        self.p.user.own(where)
        self.sh("%s; %s; git -C docs status" % (FIRST, self.second()), cwd=where)
        check(self.tripped(), "the control does not trip the canary")

    def refuses(self, *args, what="repository"):
        r = self.croft(*args, rc=(125, 126))
        check(what in r.err, "the reason is not said: %s" % r)

    def quiet(self):
        self.sh("git status; git -C docs status; git -C docs log; true")
        check(not self.tripped(), "what landed runs on the host")


@probe("G16-two-landings")
def two_landings(p):
    s = Steps(p)
    s.control()
    s.croft("apply", s.env(FIRST))
    check(os.path.exists(p.path("docs/objects/k")), "the first part did not land")
    name = s.env(s.second())
    s.refuses("apply", name)
    s.refuses("apply", name, "docs/HEAD")
    s.refuses("apply", name, "--squash", "-m", "words")
    s.quiet()
    check(not os.path.lexists(p.path("docs/HEAD")), "HEAD landed")
    # what does not complete it lands
    s.croft("apply", name, "docs/config")
    s.croft("apply", s.env("mkdir -p docs; echo text > docs/page.txt"))
    check(p.read("docs/page.txt") == "text\n", "an ordinary file did not land")
    s.quiet()


@probe("G16-users-own")
def users_own(p):
    """The user has directories of these names, ignored by the project."""
    s = Steps(p)
    name = s.env(s.second())
    s.sh("echo docs/objects/ >> .git/info/exclude; echo docs/refs/ >> .git/info/exclude; " + FIRST)
    s.refuses("apply", name)
    s.refuses("apply", name, "--squash", "-m", "words")
    s.quiet()


@probe("G16-branch-moved")
def branch_moved(p):
    """Both parts start from the same commit, and meet in the merge."""
    s = Steps(p)
    one, two = s.env(FIRST), s.env(s.second())
    s.croft("apply", one, "--squash", "-m", "one")
    s.refuses("apply", two, "--squash", "-m", "two")
    s.refuses("apply", two, "--commit")
    s.quiet()
    check("docs/HEAD" not in s.git("ls-tree", "-r", "--name-only", "HEAD"), "the commit holds it")


@probe("G16-other-branch")
def other_branch(p):
    """A branch that is not checked out: its tree counts."""
    s = Steps(p)
    one, two = s.env(FIRST), s.env(s.second())
    s.croft("apply", one, "--branch", "side", "-m", "one")
    s.refuses("apply", two, "--branch", "side", "-m", "two")
    check("docs/HEAD" not in s.git("ls-tree", "-r", "--name-only", "side"), "the branch holds it")


@probe("G16-symlinks")
def symlinks(p):
    """A symlink called objects is as good as a directory; so is commondir."""
    s = Steps(p)
    s.croft("apply", s.env("mkdir -p docs/refs o; echo k > docs/refs/k; echo k > o/k; ln -s ../o docs/objects"))
    s.refuses("apply", s.env(s.second()))
    s.croft("apply", s.env("mkdir d2; echo 'ref: refs/heads/main' > d2/HEAD"))
    s.refuses("apply", s.env("mkdir -p d2; echo ../o > d2/commondir"))
    s.quiet()


@probe("G16-no-repository")
def no_repository(p):
    """The workspace itself, where there is no repository."""
    s = Steps.__new__(Steps)
    Repo.__init__(s, p, make=False, git=False)
    s.made = 0
    s.croft("apply", s.env(FIRST.replace("docs/", "")))
    s.refuses("apply", s.env(s.second().replace("docs/", "")), what="nested .git")
    s.sh("git status")
    check(not s.tripped(), "what landed runs on the host")


@probe("G16-case")
def case(p):
    """A name that differs only in case from one of the user's, tracked or not, or of the branch."""
    s = Steps(p)
    one, two, three = s.env("echo evil > MAKEFILE"), s.env("echo evil > A.TXT2"), s.env("mkdir DIR; echo evil > DIR/n")
    p.write("Makefile", "all:\n")
    s.refuses("apply", one, what="only in case")
    p.write("a.txt2", "mine\n")
    s.git("add", "a.txt2")
    s.git("commit", "-qm", "mine")
    s.refuses("apply", two, what="only in case")
    s.refuses("apply", two, "--squash", "-m", "words", what="only in case")
    s.refuses("apply", three, what="case")
    # a change of case alone goes on working
    name = s.env("git mv a.txt2 A.txt2")
    s.croft("apply", name)
    check(p.read("A.txt2") == "mine\n" and not os.path.lexists(p.path("a.txt2")), "the new name did not land")


COMPOSED, APART, UPPER = "caf\u00e9.txt", "cafe\u0301.txt", "CAFE\u0301.TXT"


@probe("G16-normal")
def normal(p):
    """Names that differ only in Unicode normalisation: in one change, beside what is there, on a branch."""
    s = Steps(p)
    s.refuses("apply", s.env("echo 1 > %s; echo 2 > %s" % (COMPOSED, APART)), what="normalisation")
    one, two, three = (s.env("echo %s > %s" % (n, n)) for n in (COMPOSED, APART, UPPER))
    below, above = s.env("mkdir %s; echo 1 > %s/x" % (APART, APART)), s.env("mkdir d; echo 1 > d/\u212b")
    s.croft("apply", one, "--branch", "side", "-m", "one")
    for name in (two, three, below):
        s.refuses("apply", name, "--branch", "side", "-m", "two", what="normalisation")
    s.croft("apply", one)
    for name in (two, three, below):
        s.refuses("apply", name, what="normalisation")
        s.refuses("apply", name, "--squash", "-m", "words", what="normalisation")
    os.mkdir(p.path("d"))
    p.write("d/a\u030a", "mine\n")
    s.refuses("apply", above, what="normalisation")
    check(os.listdir(p.path("d")) == ["a\u030a"], "the Angstrom sign landed")
    names = [n for n in os.listdir(p.path(".")) if n.lower().startswith("caf")]
    check(names == [COMPOSED], "a twin landed: %s" % ascii(names))
    names = s.git("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "side")
    check(APART not in names and UPPER not in names, "the branch holds a twin")
    # control: other accents, none, and compatibility forms are other names
    for other in ("cafe.txt", "caf\u00e8.txt", "\ufb01le", "file"):
        s.croft("apply", s.env("echo %s > %s" % (other, other)))
        check(p.read(other) == other + "\n", "%s did not land" % ascii(other))
    # a change of the form alone goes on working
    s.git("add", "-A")
    s.git("commit", "-qm", "mine")
    s.croft("apply", s.env("git mv %s %s" % (COMPOSED, APART)))
    check(p.read(APART) == COMPOSED + "\n" and not os.path.lexists(p.path(COMPOSED)), "the new name did not land")


@probe("G16-host-links")
def host_links(p):
    """By a symlink that only the user's checkout has, made after the environment, another name runs."""
    s = Steps(p)
    change = "mkdir -p conf/deep; echo evil > conf/pre-push; echo evil > conf/deep/x; echo text > plain.txt"
    one, two = s.env(change.replace("pre-push", "other")), s.env(change)
    three = s.env("mkdir conf; echo evil > conf/post-merge; echo text > third.txt")
    s.croft("apply", one)  # control: without the symlink it lands
    p.write(".git/info/exclude", ".husky\nlink\n")
    os.symlink("conf", p.path("link"))
    os.symlink(p.path("link"), p.path(".husky"))
    s.refuses("apply", two, what="would run on this machine")
    s.refuses("apply", two, "--squash", "-m", "words", what="would run on this machine")
    check(not os.path.lexists(p.path("conf/pre-push")), "it landed")
    s.croft("review", three, "--accept-all")
    s.croft("apply", three)
    check(p.read("third.txt") == "text\n", "what was accepted did not land")
    check(not os.path.lexists(p.path("conf/post-merge")), "accepting all takes what runs")
    os.unlink(p.path("link"))  # control: a symlink that leads nowhere marks nothing
    s.croft("apply", two)
    check(p.read("conf/pre-push") == "evil\n", "it did not land")


@probe("G16-filters")
def filters(p):
    """A file that a filter converts lands as it is, and that is told."""
    s = Steps(p)
    p.write(".gitattributes", "*.bin filter=big\n")
    s.git("config", "--global", "filter.big.clean", "touch %s; cat" % s.canary)
    s.git("add", "-A")
    s.git("commit", "-qm", "attributes")
    s.tripped()
    name = s.env("echo data > x.bin; echo text > y.txt")
    s.tripped()
    r = s.croft("apply", name)
    check("x.bin needs the filter big" in r.out + r.err and "y.txt needs" not in r.out + r.err, "it is not told: %s" % r)
    check(p.read("x.bin") == "data\n", "it was converted")


@probe("G16-unlistable")
def unlistable(p):
    """A directory whose names cannot be listed may hold the other part: nothing lands in it."""
    s = Steps(p)
    name = s.env(s.second())
    s.sh("echo docs/objects/ >> .git/info/exclude; echo docs/refs/ >> .git/info/exclude; %s; chmod 300 docs" % FIRST)
    if not s.sh("ls docs").rc:
        raise harness.Skip("root lists everything")
    s.refuses("apply", name, what="list docs/")
    s.sh("chmod 700 docs")
    check(not os.path.lexists(p.path("docs/HEAD")), "HEAD landed")
    s.quiet()
    # The control: what is listed, and is nothing, is no obstacle.
    s.sh("rm -r docs/objects docs/refs")
    s.croft("apply", name)
    check(os.path.exists(p.path("docs/HEAD")), "it does not land where it is harmless")


@probe("G16-forged-commit")
def forged_commit(p):
    """Inside, a file with the name of another commit of the user's says that it follows the start: it does not land."""
    s = Steps(p)
    s.sh("git checkout -q --orphan private; git rm -qrf .; echo plan > plan; git add plan; git commit -qm private; git checkout -q main")
    theirs, start = s.git("rev-parse", "private").strip(), s.git("rev-parse", "main").strip()
    name = theirs[:2] + "/" + theirs[2:]
    commit = s.git("cat-file", "commit", "main").split("\n", 1)
    body = ("%s\nparent %s\n%s" % (commit[0], start, commit[1])).encode()
    packed = base64.b64encode(zlib.compress(b"commit %d\0" % len(body) + body)).decode()
    inside = "mkdir -p .git/objects/%s; rm -f .git/objects/%s; printf %%s %s | base64 -d > .git/objects/%s; " % (
        name[:2], name, packed, name) + "echo %s > .git/HEAD; echo x > mine" % theirs
    made = s.env(inside)
    s.refuses("apply", made, "--commit", what="not one line on top of where it started")
    check(s.git("rev-parse", "main").strip() == start, "something landed")
    # The control: git takes the file for the commit, so what the walk in quarantine says is not enough.
    s.sh("cp -r .git '%s/control'" % p.outside)
    there = os.path.join(p.outside, "control")
    s.sh("mkdir -p objects/%s; rm -f objects/%s; printf %%s %s | base64 -d > objects/%s" % (name[:2], name, packed, name), cwd=there)
    said = s.git("rev-list", "--parents", "-1", theirs, cwd=there).split()
    check(said == [theirs, start], "the control does not forge: %s" % said)
    # What is staged lands, and what is true lands as it is.
    s.croft("apply", made, "--squash", "-m", "words")
    check("plan" not in s.git("log", "--name-only", "--format=", "main"), "the history holds it")
    s.croft("apply", s.env("git commit -q --allow-empty -m inside; echo y > yours; git add yours; git commit -qm yours"), "--commit")
    check("yours" in s.git("log", "--format=%s", "main"), "a true commit does not land")


if __name__ == "__main__":
    harness.main()
