#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""G16: what is dangerous only together does not land in parts.

Each part alone may land. What counts is the checkout, or the branch, that results: what was landed before, what the
user has there, what the branch has by now, and what lands. Control: the user puts the same files there by hand, and
`git status` in that directory runs the canary.
"""
import os

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


if __name__ == "__main__":
    harness.main()
