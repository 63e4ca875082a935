#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""G19: --git lets a command commit in place; what Git obeys stays as it was, and nothing runs afterwards."""
import hashlib
import inspect
import os
import struct

import harness
from harness import check

GIT = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; "
WORK = GIT + """set -e
echo two >> file; git add file; git commit -qm two; git commit -q --allow-empty -m three; git tag t
echo four >> file; git commit -q -m four file; echo five >> file; git stash -q; git stash pop -q; git commit -qam five
git checkout -qb other; git commit -q --allow-empty -m six; git reset -q --hard HEAD~1; git merge -q t; git branch -qD t 2>/dev/null || true
git pack-refs --all; git tag -d t >/dev/null; git log --format=%s | head -n 1"""


def repository(p, where=None):
    p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    where = where or p.work
    r = p.plain("/bin/sh", "-c", "set -e; git init -q -b main .; git config user.name me; git config user.email me@here; echo one > file; "
                "git add file; git commit -qm one; rm -rf .git/logs/refs/x", cwd=where)
    check(r.rc == 0, "the repository: %s" % r)


def held(git):
    """Everything in a Git directory but what committing makes: names, types, and contents."""
    found = {}
    for top, dirs, files in os.walk(git):
        for n in dirs + files:
            path = os.path.join(top, n)
            rest = os.path.relpath(path, git)
            first = rest.split("/")[0].removesuffix(".lock")
            if first in ("logs", "index", "HEAD", "ORIG_HEAD", "packed-refs", "COMMIT_EDITMSG", "MERGE_MSG", "FETCH_HEAD", "MERGE_HEAD",
                         "AUTO_MERGE", "worktrees") or (first == "refs" and not rest.startswith("refs/replace")):
                check(not os.path.islink(path), "a symlink in .git: " + rest)
                continue
            if rest.startswith("objects/") and rest[8:12] not in ("pack", "info"):
                continue
            data = ""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    data = hashlib.sha256(f.read()).hexdigest()
            elif os.path.islink(path):
                data = os.readlink(path)
            found[rest] = (os.lstat(path).st_mode, data)
    return found


def objects(git):
    found = {}
    for top, _dirs, files in os.walk(os.path.join(git, "objects")):
        for n in files:
            with open(os.path.join(top, n), "rb") as f:
                found[os.path.join(top, n)] = f.read()
    return found


@harness.case("G19-commits")
def commits(p):
    """What an agent does all day works, and is there afterwards for the user's own Git."""
    repository(p)
    before = held(p.path(".git"))
    r, receipt = p.receipt("--direct", "--git", "--", "/bin/sh", "-c", WORK)
    check(r.rc == 0 and r.out.strip().splitlines()[-1] == "five", "the work: %s" % r)
    check(held(p.path(".git")) == before, "something else changed")
    check(not receipt["denials"], "denials: %s" % receipt["denials"])
    check(not receipt["files"]["runs_on_host"], "named: %s" % receipt["files"])
    r = p.plain("git", "status", "--porcelain=v1", "-b")
    check(r.out == "## other\n", "afterwards: %s" % r)
    check(p.plain("git", "fsck", "--strict").rc == 0, "fsck")
    r = p.run("-q", "--direct", "--", "/bin/sh", "-c", GIT + "git commit -q --allow-empty -m no")
    check(r.rc, "the control commits without --git: %s" % r)


PLANTS = r"""
for f in hooks/pre-commit hooks/post-checkout config config.worktree info/attributes info/exclude info/grafts info/sparse-checkout \
	objects/info/alternates objects/info/http-alternates objects/info/commit-graph objects/pack/pack-x.idx commondir gitdir shallow \
	modules/m/config worktrees/w/gitdir refs/replace/1234567890123456789012345678901234567890 rebase-merge/git-rebase-todo \
	sequencer/todo branches/x remotes/x description hooks.new/x config.lock FETCH_HEADX indexx CONFIG; do
	mkdir -p "$(dirname ".git/$f")" 2>/dev/null
	(echo evil > ".git/$f") 2>/dev/null; (echo evil >> ".git/$f") 2>/dev/null
	echo evil > plain; mv -f plain ".git/$f" 2>/dev/null; echo evil > plain; ln -f plain ".git/$f" 2>/dev/null
	ln -sf /bin/true ".git/$f" 2>/dev/null; cp plain ".git/$f" 2>/dev/null; truncate -s 0 ".git/$f" 2>/dev/null
	rm -rf ".git/$f" 2>/dev/null; mkfifo ".git/$f" 2>/dev/null; chmod 777 ".git/$f" 2>/dev/null
done
mkdir h; echo evil > h/pre-commit; mv h .git/hooks 2>/dev/null; mv -T h .git/hooks 2>/dev/null; mv .git/hooks .git/refs/h 2>/dev/null
mv .git/hooks away 2>/dev/null; mv .git g 2>/dev/null; rmdir .git/branches 2>/dev/null; ln -s ../h .git/hooks 2>/dev/null
mkdir n; cp -r .git n/ 2>/dev/null; mv -T n/.git .git 2>/dev/null
git config core.fsmonitor evil 2>/dev/null; git config --worktree core.hooksPath h 2>/dev/null; git remote add x 'ext::sh -c evil' 2>/dev/null
# Names that Git writes to, leading elsewhere.
for f in HEAD index logs/HEAD logs/refs/heads/main COMMIT_EDITMSG ORIG_HEAD refs/heads/x packed-refs logs/refs/y refs/z; do
	ln -sfn "$HOME/.bashrc" ".git/$f" 2>/dev/null; ln -sfn ../hooks/post-commit ".git/$f.lock" 2>/dev/null
	ln -s "$HOME/.bashrc" link 2>/dev/null; mv -fT link ".git/$f" 2>/dev/null; ln -P link ".git/$f" 2>/dev/null
	python3 - ".git/$f" <<'X' 2>/dev/null
import ctypes, os, sys
c = ctypes.CDLL(None)
a = sys.argv[1].encode()
c.syscall(316 if os.uname().machine == "x86_64" else 276, -100, b"link", -100, a, 2)
X
	mkdir -p d; ln -sf "$HOME/.bashrc" "d/HEAD" 2>/dev/null
done
mv -T d .git/logs/sub 2>/dev/null; mv -T d .git/refs/sub 2>/dev/null; mkfifo .git/logs/fifo 2>/dev/null
true
"""


@harness.case("G19-plants")
def plants(p):
    """Nothing that Git obeys can be made, changed, replaced, moved away or led elsewhere."""
    repository(p)
    p.write(os.path.join(p.home, ".bashrc"), "mine\n")
    before = held(p.path(".git"))
    r = p.run("--direct", "--git", "--", "/bin/sh", "-c", GIT + PLANTS)
    now = held(p.path(".git"))
    check(now == before, "changed: %s\n%s" % (sorted(set(now.items()) ^ set(before.items()))[:20], r))
    check(not os.path.exists(p.path(".git/logs/fifo")), "a fifo in .git")
    # The user's next commands write nothing but where they should.
    p.plain("/bin/sh", "-c", "git commit -q --allow-empty -m mine; git checkout -q -b b; git status")
    with open(os.path.join(p.home, ".bashrc"), encoding="utf-8") as f:
        check(f.read() == "mine\n", "Git of the user's wrote to its start-up file")
    control = os.path.join(p.outside, "control")
    os.mkdir(control, 0o700)
    p.user.own(control)
    repository(p, control)
    p.plain("/bin/sh", "-c", GIT + "ln -sfn ~/.bashrc .git/logs/HEAD; echo evil > .git/hooks/pre-commit; git commit -q --allow-empty -m mine", cwd=control)
    with open(os.path.join(p.home, ".bashrc"), encoding="utf-8") as f:
        check("commit: mine" in f.read(), "the control writes nothing")


@harness.case("G19-objects-stay")
def objects_stay(p):
    """An object that is there keeps its content: no history is written anew under its old name."""
    repository(p)
    before = objects(p.path(".git"))
    attack = ("for f in $(find .git/objects -type f); do chmod 666 $f 2>/dev/null; (echo evil > $f) 2>/dev/null; (echo x >> $f) 2>/dev/null; "
              "truncate -s 0 $f 2>/dev/null; echo x > tmp; mv -f tmp $f 2>/dev/null; rm -f $f 2>/dev/null; mv $f away 2>/dev/null; done; "
              "d=$(ls -d .git/objects/?? | head -n 1); mv $d away 2>/dev/null; rm -rf $d 2>/dev/null; true")
    r = p.run("--direct", "--git", "--", "/bin/sh", "-c", attack)
    check(objects(p.path(".git")) == before, "objects changed: %s" % r)
    p.plain("/bin/sh", "-c", attack)
    check(objects(p.path(".git")) != before, "the control changes nothing")


def index_of(names, git, blob, version=2):
    """An index with these paths, each an executable file of this content."""
    body, last = b"", b""
    for name in names:
        e = bytes(24) + struct.pack(">I", 0o100755) + bytes(12) + bytes.fromhex(blob) + struct.pack(">H", min(len(name), 0xfff))
        if version == 4:
            body += e + bytes([len(last)]) + name + b"\0"
            last = name
        else:
            e += name
            body += e + bytes(8 - len(e) % 8)
    data = b"DIRC" + struct.pack(">II", version, len(names)) + body
    with open(os.path.join(git, "index"), "wb") as f:
        f.write(data + hashlib.sha1(data).digest())


MAKE_INDEX = """
import sys; sys.path.insert(0, sys.argv[1])
import subprocess
from index import index_of
blob = subprocess.run(["git", "hash-object", "-w", "--stdin"], input=b"#!/bin/sh\\ntouch " + sys.argv[2].encode() + b"\\n",
    stdout=subprocess.PIPE, check=True).stdout.decode().strip()
index_of([sys.argv[3].encode()], ".git", blob, int(sys.argv[4]))
"""


@harness.case("G19-index")
def index(p):
    """An index with a hook among its paths, which `git checkout .` would write and run, is put away."""
    marker = os.path.join(p.dir, "ran")
    p.write("lib/index.py", "import hashlib, os, struct\n" + inspect.getsource(index_of))
    make = 'exec %s -c "$0" lib "$@"' % harness.python
    plans = [("2", n, w) for n in (".git/hooks/post-checkout", "../outside/post-checkout") for w in ("--git", "nested", "control")]
    plans += [("2", ".GIT/hooks/post-checkout", "--git"), ("4", ".git/hooks/post-checkout", "--git"), ("2", "a/./b", "--git")]
    for version, name, where in plans:
        top = {"--git": p.work, "nested": p.path(where)}.get(where, os.path.join(p.outside, where))
        if not os.path.isdir(top):
            os.mkdir(top, 0o700)
            p.user.own(top)
        if not os.path.isdir(os.path.join(top, ".git")):
            repository(p, top)
        script = GIT + "cd %s; mkdir -p lib; cp %s/lib/index.py lib/; %s" % (top, p.work, make)
        words = ("/bin/sh", "-c", script, MAKE_INDEX, marker, name, version)
        if where == "control":
            check(p.plain(*words).rc == 0, "the control's index")
            p.plain("/bin/sh", "-c", "git checkout -q -- .", cwd=top)
            if name == ".git/hooks/post-checkout":
                check(os.path.exists(marker), "the control runs nothing")
            if os.path.exists(marker):
                os.unlink(marker)
            os.unlink(os.path.join(top, ".git/index"))
            if os.path.exists(os.path.join(top, ".git/hooks/post-checkout")):
                os.unlink(os.path.join(top, ".git/hooks/post-checkout"))
            continue
        r, receipt = p.receipt("--direct", "--git", "--", *words)
        check(r.rc == 0, "the index was not made: %s" % r)
        told = receipt["files"]["runs_on_host"]
        check([x["state"] for x in told] == ["quarantined"] and told[0]["path"] == os.path.join(top, ".git/index"),
              "not put away (%s, %s, %s): %s" % (where, name, version, told))
        p.plain("/bin/sh", "-c", "git checkout -q -- .; git restore .; git checkout -q -f HEAD", cwd=top)
        check(not os.path.exists(marker), "it ran: %s" % r)
        check(p.plain("git", "status", cwd=top).rc == 0, "the repository is not usable")


@harness.case("G19-linked-worktree")
def linked(p):
    """In a linked worktree too; and a .git that leads to a repository which does not know of it grants nothing."""
    main = os.path.join(p.outside, "main")
    os.mkdir(main, 0o700)
    p.user.own(main)
    repository(p, main)
    os.rmdir(p.work)
    check(p.plain("git", "worktree", "add", "-q", p.work, cwd=main).rc == 0, "the worktree")
    p.user.own(p.work)
    git = os.path.join(main, ".git")
    before = held(git), {n: p.read(os.path.join(git, "worktrees/work", n)) for n in ("commondir", "gitdir")}
    r = p.run("--direct", "--git", "--", "/bin/sh", "-c", WORK)
    check(r.rc == 0, "the work: %s" % r)
    attack = GIT + ("W=$(git rev-parse --git-dir); C=$(git rev-parse --git-common-dir); for f in $W/commondir $W/gitdir $W/config.worktree $C/config "
                    "$C/hooks/pre-commit $C/worktrees/evil $C/objects/info/alternates $W/hooks; do (echo evil > $f) 2>/dev/null; "
                    "echo x > t; mv -f t $f 2>/dev/null; done; mv $W $C/worktrees/other 2>/dev/null; echo x > .git; true")
    r = p.run("--direct", "--git", "--", "/bin/sh", "-c", attack)
    after = held(git), {n: p.read(os.path.join(git, "worktrees/work", n)) for n in ("commondir", "gitdir")}
    check(after == before, "changed: %s" % r)
    # One that only claims it.
    os.rename(p.work, p.work + ".old")
    os.mkdir(p.work, 0o700)
    p.user.own(p.work)
    p.write(".git", "gitdir: %s\n" % git)
    r = p.run("--direct", "--git", "--", "/bin/sh", "-c", "true")
    check(r.rc == 126 and "does not say that this is a worktree of it" in r.err, "granted: %s" % r)
    os.unlink(p.path(".git"))
    r = p.run("--direct", "--git", "--", "true")
    check(r.rc == 125 and "no repository" in r.err, "no repository: %s" % r)


if __name__ == "__main__":
    harness.main()
