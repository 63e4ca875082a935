#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""L12: pipes, devices, sockets and directories where Git keeps files neither hang croft nor leave a git behind.

Each file of .git, and those of the working tree that git reads by itself, becomes something that is no file. Then
every command that runs git on the repository ends, with a sentence when it is not possible. Control: git itself
waits for ever on the same pipe.
"""
import os
import signal
import socket
import stat
import subprocess
import time

import harness
from harness import Skip, check
from test_workspace import Repo, probe

LIMIT_S = 45  # an upper bound for what should take less than ten seconds
ENDS = (0, 1, 125, 126)
FILES = (".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".git/refs/heads/main", ".git/refs/heads/other",
         ".git/refs/tags/deep/er", ".git/objects/info/alternates", ".git/info/exclude", ".git/info/attributes", ".git/shallow",
         ".git/commondir", ".git/config.worktree", ".git/logs/HEAD", ".git/objects/info/commit-graph", ".git/MERGE_HEAD",
         ".git/objects/pack/multi-pack-index", ".git/objects/pack/pack-0000000000000000000000000000000000000000.idx",
         ".gitignore", "dir/.gitignore", ".gitattributes", "dir/.gitattributes", ".gitmodules", "croft.yaml", ".git")


def pipe(p, path):
    os.mkfifo(path)


def device(p, path):
    if os.getuid():
        raise Skip("only root makes devices")
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))


def directory(p, path):
    os.mkdir(path)


def listening(p, path):
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.path.basename(path))
    os.chdir(here)


def link_to_pipe(p, path):
    if not os.path.exists(os.path.join(p.outside, "pipe")):
        os.mkfifo(os.path.join(p.outside, "pipe"))
    os.symlink(os.path.join(p.outside, "pipe"), path)


def link_to_device(p, path):
    os.symlink("/dev/zero", path)


KINDS = (pipe, device, directory, listening, link_to_pipe, link_to_device)


def gits(p):
    """Git processes that work for this place: of another test's croft there may be some, too."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        line = harness.command_line(int(pid))
        if line.split(b"\0")[0].endswith(b"git"):
            try:
                where = os.readlink("/proc/%s/cwd" % pid)
            except OSError:
                continue
            if where.startswith(p.dir):
                found.append(int(pid))
    return found


def listed(directory):
    """Names in a directory; none when its process has ended meanwhile."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def replace(p, name, kind):
    """Put something else there. Returns where the file is now, or None when there was none."""
    path, aside = p.path(name), None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        aside = os.path.join(p.dir, "aside")
        os.rename(path, aside)
    kind(p, path)
    p.user.own(path)
    return aside


def restore(p, name, aside):
    (os.rmdir if os.path.isdir(p.path(name)) else os.unlink)(p.path(name))
    if aside:
        os.rename(aside, p.path(name))


def commands(p, name, file, kind, n):
    """Everything that reads the repository; the working tree is read for uncommitted files only."""
    if "dir/" in file:
        yield ("new", "-q", "--tier", p.tier, "--dirty", "dirty%d" % n)
        return
    yield ("run", "-q", "--tier", p.tier, *(("--staged",) if p.tier == "namespace" else ()), "--", "/bin/sh", "-c", "echo x > made")
    yield ("new", "-q", "--tier", p.tier, "fresh%d" % n)
    yield ("new", "-q", "--tier", p.tier, "--dirty", "dirty%d" % n)
    yield ("exec", "-q", name, "--", "/bin/sh", "-c", "echo y >> a.txt")
    if kind not in (pipe, device):
        return
    yield ("status", name)
    yield ("diff", name)
    yield ("apply", name)
    yield ("gate",)


def attack(p, kind):
    repo = Repo(p, make=False)
    repo.git("branch", "other")
    repo.new()
    repo.sandbox("echo z > z")
    for n, name in enumerate(FILES):
        aside = replace(p, name, kind)
        for words in commands(p, repo.name, name, kind, n):
            begun = time.monotonic()
            r = repo.croft(*words, rc=ENDS, timeout=LIMIT_S)
            check(time.monotonic() - begun < LIMIT_S, "croft %s takes long on %s" % (words[0], name))
            check("croft: " in r.err or r.rc != 125, "croft %s does not say what is wrong with %s: %s" % (words[0], name, r))
            check(not gits(p), "croft %s leaves a git behind on %s" % (words[0], name))
        restore(p, name, aside)


for _kind in KINDS:
    probe("L12-" + _kind.__name__, tiers=("namespace",))(lambda p, k=_kind: attack(p, k))


def blocked(p):
    """A croft whose git waits for a pipe that croft does not look for; and that git."""
    repo = Repo(p, make=False)
    replace(p, "dir/.gitignore", pipe)
    control = p.popen(["git", "status"])
    try:
        control.wait(2)
        raise harness.Fail("the control does not wait: git reads pipes differently now")
    except subprocess.TimeoutExpired:
        control.kill()
        control.communicate()
    child = p.popen([harness.croft, "new", "-q", "--tier", p.tier, "--dirty", "e"])
    end = time.monotonic() + harness.WAIT_S
    while not any("dir" in listed("/proc/%d/cwd/" % g) for g in gits(p)):
        check(child.poll() is None and time.monotonic() < end, "no git is running")
    return repo, child, harness.pidfds(gits(p))


@probe("L12-killed", tiers=("namespace",))
def killed(p):
    """croft is killed while git waits: git ends with it."""
    _, child, found = blocked(p)
    child.kill()
    child.communicate()
    check(not harness.wait_gone(found), "git outlives croft")


@probe("L12-interrupted", tiers=("namespace",))
def interrupted(p):
    """Ctrl-C ends both at once."""
    _, child, found = blocked(p)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=harness.WAIT_S)
    check(not harness.wait_gone(found), "git outlives croft")


@probe("L12-waits", tiers=("namespace",))
def waits(p):
    """Nobody comes: croft says which pipe it is, and ends."""
    repo = Repo(p, make=False)
    replace(p, "dir/.gitignore", pipe)
    r = repo.croft("new", "-q", "--tier", p.tier, "--dirty", "e", rc=126, timeout=LIMIT_S)
    check("dir/.gitignore" in r.err and "find . -type p" in r.err, "the sentence: %s" % r)


if __name__ == "__main__":
    # What is ignored at the start stays ignored in what is started: some runners ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    harness.main()
