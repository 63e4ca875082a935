#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""G14: no path that a repository's metadata names shows a command what its policy does not.

Whoever made the workspace may have made its .git: a project that came as an archive, or a command that ran
in place. Each plant makes that .git name a directory or file with a token in it. Control: the user, whom
nothing confines, finds the token by the same path. Then croft refuses, or the token is not inside.
"""
import os

import harness
from harness import check
from test_workspace import Repo, probe

BOTH = ("namespace", "process")
REFUSED = (125, 126)


def look(token):
    """Look everywhere. The token is in two parts: the command line is recorded, and recorded in this very repository."""
    return ("t=%s''%s; grep -ras $t /.croft . $(cat .git/objects/info/alternates) 2>/dev/null; git cat-file --batch-all-objects --batch 2>/dev/null | grep -a $t;"
            "git log --all -p 2>/dev/null | grep -a $t; cat private.txt sub/private.txt 2>/dev/null; true" % (token[:9], token[9:]))


class World(Repo):
    """The user's repository, and beside it a key, croft's state and another repository, all private."""

    def __init__(self, p, **kw):
        super().__init__(p, make=False, **kw)
        self.key = p.write(os.path.join(p.home, ".ssh", "id_test"), p.token + "\n")
        self.private = os.path.join(p.home, "private")
        self.sh("git init -q {0} && cd {0} && echo {1} > private.txt && git add -A && git commit -qm private"
                .format(self.private, p.token), cwd=p.home)
        self.tip = self.git("rev-parse", "HEAD", cwd=self.private).strip()
        self.state = os.path.join(p.env["XDG_STATE_HOME"], "croft")
        p.write(os.path.join(self.state, "keys", "token"), p.token + "\n")
        os.chmod(p.env["XDG_STATE_HOME"], 0o700)

    def plant(self, script):
        names = {"S": os.path.dirname(self.key), "KEY": self.key, "P": os.path.join(self.private, ".git"),
                 "STATE": os.path.join(self.state, "keys"), "TIP": self.tip}
        for name, value in names.items():
            script = script.replace("@%s@" % name, value)
        r = self.sh("set -e; " + script)
        check(r.rc == 0, "the plant was not made: %s" % r)

    def inside(self, *options, dirty=False):
        """What a command in a new environment finds of the token; None: there is no such environment."""
        token = self.p.token
        args = ["new", "-q", "--tier", self.p.tier, *options] + (["--dirty"] if dirty else []) + [self.name]
        r = self.croft(*args, rc=(0,) + REFUSED)
        if r.rc:
            check(token not in r.out + r.err, "the refusal tells the token: %s" % r)
            return None
        r = self.croft("exec", "-q", self.name, "--", "/bin/sh", "-c", look(token), rc=(0,) + REFUSED)
        return r.out if r.rc == 0 else None

    def live(self):
        r = self.p.run("-q", *(("--staged",) if self.p.tier == "namespace" else ()), "--", "/bin/sh", "-c",
                       look(self.p.token))
        return r.out


MAIN = "echo @TIP@ > .git/refs/heads/main; rm -f .git/packed-refs; "
# name, what is planted, what the user finds there
PLANTS = (
    ("alternates-key", "echo @S@ > .git/objects/info/alternates", "cat $(cat .git/objects/info/alternates)/*"),
    ("alternates-state", "echo @STATE@ > .git/objects/info/alternates", "cat $(cat .git/objects/info/alternates)/*"),
    ("alternates-relative", "echo ../../../home/.ssh > .git/objects/info/alternates", "cat .git/objects/../../../home/.ssh/*"),
    ("alternates-nested", "mkdir -p fake/info fake/pack; echo @S@ > fake/info/alternates; "
     "echo $PWD/fake > .git/objects/info/alternates", "cat $(cat fake/info/alternates)/*"),
    ("alternates-link", "ln -s @S@ link; echo $PWD/link > .git/objects/info/alternates", "cat link/*"),
    ("alternates-quoted", "printf '\"%s\"\\n' $(echo @S@ | sed 's/s/\\\\163/g') > .git/objects/info/alternates", "cat @S@/*"),
    ("alternates-repository", "echo @P@/objects > .git/objects/info/alternates", "git cat-file -p @TIP@:private.txt"),
    ("alternates-head", MAIN + "echo @P@/objects > .git/objects/info/alternates", "git show main:private.txt"),
    ("objects-link", "mv .git/objects .git/o; ln -s @P@/objects .git/objects; " + MAIN, "git show main:private.txt"),
    ("pack-link", "git -C @P@ repack -qad; rm -rf .git/objects/pack; ln -s @P@/objects/pack .git/objects/pack; " + MAIN,
     "git show main:private.txt"),
    ("pack-file-link", "git -C @P@ repack -qad; mkdir -p .git/objects/pack; ln -s @P@/objects/pack/* .git/objects/pack/; " + MAIN,
     "git show main:private.txt"),
    ("loose-directory-link", "for d in @P@/objects/??; do rm -rf .git/objects/${d##*/}; ln -s $d .git/objects/; done; " + MAIN,
     "git show main:private.txt"),
    ("loose-link", "for f in @P@/objects/??/*; do d=${f%/*}; mkdir -p .git/objects/${d##*/}; ln -sf $f .git/objects/${d##*/}/; done; "
     + MAIN, "git show main:private.txt"),
    ("git-file", "rm -rf .git; echo 'gitdir: @P@' > .git", "git show HEAD:private.txt"),
    ("git-link", "rm -rf .git; ln -s @P@ .git", "git show HEAD:private.txt"),
    ("commondir", "echo @P@ > .git/commondir", "git show main:private.txt"),
    ("commondir-forged", "mv .git w; mkdir -p e/worktrees; mv w e/worktrees/x; echo @P@ > e/worktrees/x/commondir; "
     "echo $PWD/.git > e/worktrees/x/gitdir; echo \"gitdir: $PWD/e/worktrees/x\" > .git", "git show main:private.txt"),
    ("module-link", "git init -q --bare m; git config -f .gitmodules submodule.sub.path sub; "
     "git config -f .gitmodules submodule.sub.url ./sub; git update-index --add --cacheinfo 160000,@TIP@,sub; git add .gitmodules; "
     "git commit -qm sub; mkdir -p .git/modules sub; ln -s @P@ .git/modules/sub", "git -C .git/modules/sub show HEAD:private.txt"),
    ("module-alternates", "git config -f .gitmodules submodule.sub.path sub; git config -f .gitmodules submodule.sub.url ./sub; "
     "git update-index --add --cacheinfo 160000,@TIP@,sub; git add .gitmodules; git commit -qm sub; mkdir sub; "
     "git init -q --bare .git/modules/sub; echo @P@/objects > .git/modules/sub/objects/info/alternates",
     "git -C .git/modules/sub cat-file -p @TIP@:private.txt"),
    ("module-objects-link", "git config -f .gitmodules submodule.sub.path sub; git config -f .gitmodules submodule.sub.url ./sub; "
     "git update-index --add --cacheinfo 160000,@TIP@,sub; git add .gitmodules; git commit -qm sub; mkdir sub; "
     "git init -q --bare .git/modules/sub; rm -rf .git/modules/sub/objects; ln -s @P@/objects .git/modules/sub/objects",
     "git -C .git/modules/sub cat-file -p @TIP@:private.txt"),
    ("excludes-file", "git config core.excludesFile @KEY@", "cat $(git config core.excludesFile)"),
    ("exclude-link", "mkdir -p .git/info; ln -sf @KEY@ .git/info/exclude", "cat .git/info/exclude"),
    ("attributes-link", "mkdir -p .git/info; ln -sf @KEY@ .git/info/attributes", "cat .git/info/attributes"),
    ("sparse-link", "git config core.sparseCheckout true; mkdir -p .git/info; ln -sf @KEY@ .git/info/sparse-checkout",
     "cat .git/info/sparse-checkout"),
    ("shallow-link", "ln -sf @KEY@ .git/shallow", "cat .git/shallow"),
    ("work-tree", "git config core.worktree @S@", "cat $(git config core.worktree)/*"),
)


def attack(p, script, control):
    w = World(p)
    w.plant(script)
    control = control.replace("@S@", os.path.dirname(w.key)).replace("@TIP@", w.tip)
    check(p.token in w.sh(control).out, "the control does not find the token: %s" % w.sh(control))
    for dirty in (False, True):
        found = w.inside(dirty=dirty)
        check(not found or p.token not in found, "a command finds the token: %s" % found)
        if found is not None:
            w.croft("rm", "--force", w.name)
    check(p.token not in w.live(), "a command in a run finds the token")


for _name, _script, _control in PLANTS:
    probe("G14-" + _name, tiers=BOTH)(lambda p, s=_script, c=_control: attack(p, s, c))


@probe("G14-later", tiers=BOTH)
def later(p):
    """Alternates that appear after the environment was made are not bound by the next command either."""
    w = World(p)
    w.new()
    w.plant("echo @S@ > .git/objects/info/alternates")
    r = w.croft("exec", "-q", w.name, "--", "/bin/sh", "-c", look(p.token), rc=(0,) + REFUSED)
    check(p.token not in r.out, "a command finds the token: %s" % r)


@probe("G14-approval", tiers=BOTH)
def approval(p):
    """A clone that shares objects works when the user approved it here, and only then, and only here."""
    w = World(p)
    for name in ("one", "two"):
        w.sh("git clone -q --shared %s %s" % (w.private, os.path.join(p.dir, name)), cwd=p.dir)
    p.work = os.path.join(p.dir, "one")
    r = w.croft("new", "-q", "--tier", p.tier, "a", rc=126)
    hint = r.err.split("approve it with: ")[1].strip()
    objects = os.path.join(w.private, ".git", "objects")
    check(hint == "croft policy trust --objects " + objects, "the hint: %s" % r.err)
    w.croft(*hint.split()[1:])
    w.croft("new", "-q", "--tier", p.tier, "a")
    show = ("exec", "-q", "a", "--", "git", "cat-file", "-p", w.tip + ":private.txt")
    check(p.token in w.croft(*show).out, "an approved object directory is not shown")
    p.work = os.path.join(p.dir, "two")
    w.croft("new", "-q", "--tier", p.tier, "b", rc=126)
    p.work = os.path.join(p.dir, "one")
    w.croft("policy", "trust", "--revoke", "--objects", objects)
    w.croft(*show, rc=126)
    # What the policy lets the command read needs no approval; what it denies gets none.
    w.croft("new", "-q", "--tier", p.tier, "--read", w.private, "c")
    check(p.token in w.croft("exec", "-q", "c", "--", "git", "cat-file", "-p", w.tip + ":private.txt").out, "--read is not enough")
    w.croft("policy", "trust", "--objects", objects)
    w.croft("new", "-q", "--tier", p.tier, "--deny", w.private, "d", rc=126)
    w.croft("exec", "-q", "--deny", w.private, "a", "--", "true", rc=126)


@probe("G14-not-objects", tiers=("namespace",))
def not_objects(p):
    """A directory with anything but objects in it cannot be approved."""
    w = World(p)
    w.croft("policy", "trust", "--objects", os.path.dirname(w.key), rc=126)
    w.croft("policy", "trust", "--objects", os.path.join(w.private, ".git"), rc=126)


@probe("G14-own", tiers=BOTH)
def own(p):
    """Linked worktrees, submodules and their own workspaces, and a separate Git directory in the workspace work as before."""
    w = World(p)
    w.git("worktree", "add", "-q", os.path.join(p.dir, "linked"), "-b", "linked")
    if p.tier == "namespace":
        w.git("submodule", "add", "-q", w.private, "sub")
        w.git("commit", "-qam", "sub")
    for n, where in enumerate((p.work, os.path.join(p.dir, "linked"), os.path.join(p.work, "sub"))[:3 if p.tier == "namespace" else 2]):
        p.work = where
        w.croft("new", "-q", "--tier", p.tier, "e%d" % n)
        r = w.croft("exec", "-q", "e%d" % n, "--", "/bin/sh", "-c", "git log -p --all >/dev/null && git status && cat sub/private.txt || true")
        check("branch" in r.out and (n or p.tier == "process" or p.token in r.out), "Git does not work inside: %s" % r)


@probe("G14-denied-here")
def denied_here(p):
    """Who denies .git does not get its objects by another name."""
    w = World(p)
    w.croft("new", "-q", "--tier", p.tier, "--deny", "./.git", w.name)
    r = w.croft("exec", "-q", w.name, "--", "/bin/sh", "-c", "ls -R /.croft/git 2>/dev/null | grep -c pack; cat a.txt")
    check(r.out.startswith("0\n") and "one\n" in r.out, "the objects are shown: %s" % r)


if __name__ == "__main__":
    harness.main()
