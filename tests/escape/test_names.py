#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""G17, G18: names that the host executes by themselves, written in place; repositories made in place."""
import os
import shutil

import harness
from harness import check

SH = ("--", "/bin/sh", "-c")
# One of each kind, and all that sandbox-runtime's own suite protects.
NAMES = (
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile", ".gitconfig", ".gitmodules", ".ripgreprc", ".mcp.json",
    ".vscode/tasks.json", ".idea/workspace.xml", ".claude/settings.json", ".claude/commands/x.md", ".claude/agents/x.md",
    ".envrc", ".husky/pre-commit", ".pre-commit-config.yaml", ".cursor/mcp.json", ".codex/config.toml", ".vimrc",
    ".gdbinit", ".devcontainer/devcontainer.json", ".config/mise/config.toml", ".mise.toml", ".ssh/authorized_keys",
)
AT_HOME = (
    ".bashrc", ".profile", ".gitconfig", ".config/autostart/x.desktop", ".config/systemd/user/x.service", ".config/git/config",
    ".local/bin/ls", ".claude/settings.json", ".config/fish/config.fish", ".npmrc", ".cargo/config.toml", ".vimrc",
    ".local/share/applications/x.desktop", ".config/environment.d/x.conf",
)
WRITE = 'for f in %s; do mkdir -p "$(dirname "$f")" 2>/dev/null; (echo evil > "$f") 2>/dev/null; ' \
        '(echo evil >> "$f") 2>/dev/null; chmod 777 "$f" 2>/dev/null; (echo evil > tmp; mv -f tmp "$f") 2>/dev/null; ' \
        'rm -f "$f" tmp 2>/dev/null; done; true'


def top(name):
    return name.split("/")[0]


def changed(p, names, base):
    """Names whose content is not what was there."""
    bad = []
    for n in names:
        try:
            with open(os.path.join(base, n), encoding="utf-8") as f:
                ok = f.read() == "mine\n"
        except OSError:
            ok = False
        if not ok:
            bad.append(n)
    return bad


@harness.case("G17-present-names")
def present(p):
    """Names that are there can neither be written, replaced, removed nor moved away with their directory."""
    for n in NAMES:
        p.write(n, "mine\n")
    moves = "; ".join("mv %s away 2>/dev/null; ln -s /tmp %s 2>/dev/null" % (t, t) for t in sorted({top(n) for n in NAMES}))
    attack = WRITE % " ".join(NAMES) + "; " + moves + "; echo ok > work.txt"
    r, receipt = p.receipt("--direct", "--observe", "writes", *SH, attack)
    check(not changed(p, NAMES, p.work), "changed in place: %s\n%s" % (changed(p, NAMES, p.work), r))
    check(p.read("work.txt") == "ok\n", "ordinary work does not go on: %s" % r)
    check(not [x for x in receipt["files"]["runs_on_host"]], "named although held: %s" % receipt["files"])
    hit = [d for d in receipt["denials"] if d["path"].endswith("/.envrc")]
    check(hit and "--write" in hit[0]["allow_with"], "no denial with a remedy: %s" % receipt["denials"])
    p.plain("/bin/sh", "-c", attack)
    check(len(changed(p, NAMES, p.work)) == len(NAMES), "the control does not write")


@harness.case("G17-granted-by-name")
def granted(p):
    """A grant of the name itself opens it, and only it."""
    p.write(".envrc", "mine\n")
    p.write(".vscode/tasks.json", "mine\n")
    p.write(".bashrc", "mine\n")
    r = p.run("--direct", "--write", "./.envrc", "--write-runs", "./.vscode", *SH,
              "echo new > .envrc; echo new > .vscode/tasks.json; echo new > .vscode/more.json; echo new > .bashrc; true")
    check(p.read(".envrc") == "new\n" and p.read(".vscode/tasks.json") == "new\n", "not granted: %s" % r)
    check(p.read(".vscode/more.json") == "new\n", "not granted: %s" % r)
    check(p.read(".bashrc") == "mine\n", "granted too much: %s" % r)
    r = p.run("--direct", "--write", "./.vscode", *SH, "echo newer > .vscode/tasks.json")
    check(r.rc == 126 and p.read(".vscode/tasks.json") == "new\n", "a directory was granted by the way: %s" % r)


@harness.case("G17-absent-names")
def absent(p):
    """Absent names: the broker refuses them at any depth; without one they are named afterwards."""
    os.mkdir(p.path("sub"))
    p.user.own(p.path("sub"))
    names = [n for n in NAMES if n not in (".ssh/authorized_keys",)]
    names += ["sub/" + n for n in names]
    attack = 'for f in %s; do mkdir -p "$(dirname "$f")" 2>/dev/null; (echo evil > "$f") 2>/dev/null; done; ' \
             'mkdir -p node_modules/p/.vscode; echo x > node_modules/p/.vscode/s.json; mkdir t; echo x > t/tasks.json; ' \
             'mv t sub/.zed; mkdir t2; echo x > t2/x; ln -s t2 .amp; ln -s ../t2 sub/.config; true' % " ".join(names)
    r, receipt = p.receipt("--direct", *SH, attack)
    check(os.path.exists(p.path("node_modules/p/.vscode/s.json")), "an installed package was refused: %s" % r)
    made = [n for n in names + ["sub/.zed/tasks.json", ".amp"] if os.path.lexists(p.path(n))]
    told = [x["path"] for x in p.runs_on_host(receipt)]
    if receipt["enforced"]["seccomp"]["broker"]:
        check(not made, "made although the broker judges: %s" % made)
        check(not os.path.islink(p.path("sub/.config")), "a symlink on the way to held names was made")
        check(not told, "named although refused: %s" % told)
        return
    check(made, "the control made nothing")
    silent = [n for n in made if not any(p.path(n) == t or p.path(n).startswith(t + "/") for t in told)]
    check(not silent, "written and not named: %s" % silent)
    check("runs on your machine" in r.err + p.left, "the summary does not say it: %s" % r)
    check(not any("node_modules" in t for t in told), "named: %s" % told)


@harness.case("G17-home-granted", tiers=("namespace", "process"))
def home_granted(p):
    """--write of the home directory, or of what lies around it, leaves its start-up files alone."""
    for n in AT_HOME[:8]:
        p.write(os.path.join(p.home, n), "mine\n")
    attack = "cd '%s' && { " % p.home + WRITE % " ".join(AT_HOME) + "; mkdir -p d/.claude; mv .config c2; mkdir e; " \
             "mkdir e/autostart; mv e .config2; ln -s e .local3; echo fine > plain.txt; mkdir -p p/q; echo x > p/q/.envrc; true; }"
    r, receipt = p.receipt("--direct", "--write", "~", *SH, attack)
    check(receipt["enforced"]["seccomp"]["broker"], "no broker for a grant of the home directory: %s" % receipt["enforced"])
    check(not changed(p, AT_HOME[:8], p.home), "changed: %s\n%s" % (changed(p, AT_HOME[:8], p.home), r))
    new = [n for n in AT_HOME[8:] + ("p/q/.envrc", "d/.claude") if os.path.exists(os.path.join(p.home, n))]
    check(not new, "made: %s" % new)
    check(os.path.exists(os.path.join(p.home, "plain.txt")), "the grant does not work: %s" % r)
    r = p.run("--direct", "--write", "~", "--write", "~/.npmrc", *SH, "echo x > ~/.npmrc; echo x > '%s/.npmrc'" % p.home)
    check(os.path.exists(os.path.join(p.home, ".npmrc")), "granted by name and refused: %s" % r)
    p.plain("/bin/sh", "-c", attack)
    check(os.path.exists(os.path.join(p.home, "p/q/.envrc")), "the control does not write")


@harness.case("G17-parents-moved", tiers=("process",))
def parents_moved(p):
    """A prepared tree cannot become one that holds such names by renaming a directory above it."""
    attack = 'mkdir -p x/mise; echo evil > x/mise/config.toml; mv -T x .config; python3 -c \'import os\n' \
             'try: os.rename("x", ".config"); print("renamed")\n' \
             'except OSError: pass\' ; mkdir -p "$TMPDIR/y/.vscode"; echo evil > "$TMPDIR/y/.vscode/tasks.json"; ' \
             'mv "$TMPDIR/y" y; ln "$TMPDIR/y/.vscode/tasks.json" .envrc; true'
    r = p.run("--direct", *SH, attack)
    check("renamed" not in r.out, "renamed: %s" % r)
    bad = [n for n in (".config/mise/config.toml", "y/.vscode/tasks.json", ".envrc") if os.path.exists(p.path(n))]
    check(not bad, "moved into place: %s\n%s" % (bad, r))
    p.plain("/bin/sh", "-c", "mkdir -p x/mise; echo evil > x/mise/config.toml; mv -T x .config")
    check(os.path.exists(p.path(".config/mise/config.toml")), "the control does not move")


@harness.case("G17-other-repository")
def other_repository(p):
    """A repository in another granted directory: its hooks and configuration are read-only."""
    other = os.path.join(p.outside, "repo")
    os.mkdir(other, 0o700)
    p.user.own(other)
    p.plain("git", "init", "-q", other)
    with open(os.path.join(other, ".git", "config"), encoding="utf-8") as f:
        before = f.read()
    attack = "cd '%s'; echo '[core] fsmonitor = evil' >> .git/config; echo x > .git/hooks/pre-commit; " \
             "mv .git/hooks .git/h2; echo x > .git/index2; echo x > file" % other
    r = p.run("--direct", "--write", other, *SH, attack)
    with open(os.path.join(other, ".git", "config"), encoding="utf-8") as f:
        check(f.read() == before, "configuration written: %s" % r)
    check(not os.path.exists(os.path.join(other, ".git", "hooks", "pre-commit")), "hook written: %s" % r)
    check(os.path.exists(os.path.join(other, "file")), "the grant does not work: %s" % r)
    p.plain("/bin/sh", "-c", attack)
    check(os.path.exists(os.path.join(other, ".git", "h2", "pre-commit")), "the control does not write")


# ---- repositories made in place ----

GIT = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; "
EVIL = {
    "fsmonitor": 'git init -q {d}; git -C {d} config core.fsmonitor "touch {m}; false"',
    "oneline": "git init -q {d}; echo '[core] fsmonitor = \"touch {m}; false\"' > {d}/.git/config; "
               "echo '[core] repositoryformatversion = 0' >> {d}/.git/config",
    "include": "git init -q {d}; echo '[core] fsmonitor = \"touch {m}; false\"' > {d}/inc; "
               "git -C {d} config include.path ../inc",
    "pointer": 'git init -q {d}.real; git -C {d}.real config core.fsmonitor "touch {m}; false"; mkdir {d}; '
               'echo "gitdir: ../$(basename {d}).real/.git" > {d}/.git',
    "symlink": 'git init -q {d}.real; git -C {d}.real config core.fsmonitor "touch {m}; false"; mkdir {d}; '
               'ln -s "../$(basename {d}).real/.git" {d}/.git',
    "bare": 'git init -q --bare {d}; git -C {d} config core.fsmonitor "touch {m}; false"; '
            'git -C {d} config core.bare false; git -C {d} config core.worktree .',
    "hook": 'git init -q {d}; printf "#!/bin/sh\\ntouch {m}\\n" > {d}/.git/hooks/post-index-change; '
            "chmod +x {d}/.git/hooks/post-index-change; echo x > {d}/f; git -C {d} add f; rm {m} 2>/dev/null; touch {d}/f",
}


@harness.case("G18-repository-made")
def repository_made(p):
    """git status by the user, in every directory afterwards, runs nothing of the command's; a plain one stays."""
    marker = os.path.join(p.dir, "ran")
    p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    dirs = {kind: "deep/er/" + kind for kind in EVIL}
    script = GIT + "mkdir -p deep/er; " + "; ".join(
        EVIL[k].format(d=d, m=marker) for k, d in dirs.items())
    script += "; git init -q plain; git init -q deep/er/src; git clone -q deep/er/src deep/er/clone 2>/dev/null; true"
    r, receipt = p.receipt("--direct", *SH, script)
    for d in dirs.values():
        p.plain("git", "status", cwd=p.path(d))
    check(not os.path.exists(marker), "the user's git status ran the command's program: %s" % r)
    for d in ("plain", "deep/er/src", "deep/er/clone"):
        check(os.path.isdir(p.path(d, ".git")), "%s is only what git init makes, and gone: %s" % (d, r))
    told = {x["path"]: x for x in p.runs_on_host(receipt) if x["state"] == "quarantined"}
    for kind, d in dirs.items():
        want = p.path(d, "HEAD" if kind == "bare" else ".git")
        check(want in told, "%s is not told: %s" % (want, sorted(told)))
        check(os.path.lexists(told[want]["moved_to"]), "moved to nowhere: %s" % told[want])
    moved = [x["moved_to"] for x in told.values()]
    again = [t for t in told if any(t.startswith(m + "/") for m in moved)]
    check(not again, "put away again: %s" % again)
    for x in told.values():
        check(not os.path.exists(os.path.join(x["moved_to"], "HEAD")), "Git still takes it for a repository: %s" % x)
    check("quarantined" in r.err + p.left, "the summary does not say it: %s" % r)
    for kind, d in dirs.items():
        control = os.path.join(p.outside, kind)
        p.plain("/bin/sh", "-c", GIT + EVIL[kind].format(d=control, m=marker))
        if os.path.exists(marker):
            os.unlink(marker)
        p.plain("git", "status", cwd=control)
        check(os.path.exists(marker), "the control %s runs nothing" % kind)
        os.unlink(marker)


@harness.case("G18-repository-untouched")
def repository_untouched(p):
    """A repository that was there, with configuration of its user's, stays where it is."""
    for d in ("own", "sub/own"):
        p.plain("git", "init", "-q", p.path(d))
        p.plain("git", "-C", p.path(d), "config", "alias.x", "!true")
    r = p.run("--direct", *SH, "for d in own sub/own; do cd $d; echo x > file; git add file; git -c user.name=x "
              "-c user.email=x commit -qm x; git checkout -qb other; git gc -q; cd \"$OLDPWD\"; done")
    for d in ("own", "sub/own"):
        check(os.path.isdir(p.path(d, ".git")), "%s was put away: %s" % (d, r))
        check("x" in p.plain("git", "-C", p.path(d), "log", "--format=%s").out, "the command could not commit: %s" % r)


@harness.case("G18-repository-in-two-steps")
def two_steps(p):
    """What one run prepares and the next completes is put away by one of them."""
    marker = os.path.join(p.dir, "ran")
    p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    make = GIT + 'git init -q x; git -C x config core.fsmonitor "touch %s; false"; ' % marker
    steps = {"head": ("mv x/.git/HEAD h; mv x/.git x/g", "mv h x/g/HEAD; mv x/g x/.git"),
             "objects": ("rm -r x/.git/objects; mv x/.git x/g", "mkdir -p x/g/objects/info x/g/objects/pack; mv x/g x/.git"),
             "config": ("mv x/.git/config c; mv x/.git x/g", "mv c x/g/config; mv x/g x/.git"),
             "moved": ("mkdir b; mv x/.git/HEAD h; mv x/.git/refs b/; mv x/.git x/g",
                       "mv b/refs x/g/refs; mv h x/g/HEAD; mv x/g x/.git"),
             "whole": ("mv x/.git x/g", "mv x/g x/.git")}
    for kind, (first, second) in steps.items():
        for where in (p.work, p.outside):
            sub = os.path.join(where, kind)
            os.mkdir(sub, 0o700)
            p.user.own(sub)
            for script in (make + first, second):
                script = "cd '%s'; %s; true" % (sub, script)
                if where == p.work:
                    r = p.run("--direct", *SH, script)
                else:
                    p.plain("/bin/sh", "-c", script)
            if os.path.exists(marker):
                os.unlink(marker)
            p.plain("git", "status", cwd=os.path.join(sub, "x"))
            ran = os.path.exists(marker)
            check(ran == (where == p.outside), "%s: %s" % (kind, r if where == p.work else "the control runs nothing"))


@harness.case("G18-repository-beyond-watchers")
def beyond_watchers(p):
    """Where nothing was seen to change, because it is outside the workspace or reached by another name, something may be."""
    marker = os.path.join(p.dir, "ran")
    p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    make = GIT + 'git init -q .; git config core.fsmonitor "touch %s; false"' % marker
    for where, mode in ((p.outside, ("--write", p.outside)), (p.work, ("--direct",))):
        for i in range(400):
            os.mkdir(os.path.join(where, "d%d" % i), 0o700)
            p.user.own(os.path.join(where, "d%d" % i))
        last = os.path.join(where, os.listdir(where)[-1])
        for croft in (False, True):
            script = "l=${TMPDIR:-/tmp}/x%d; ln -sfn '%s' $l && cd $l && { %s; rm -f $l; }" % (os.getpid(), last, make)
            r = p.run(*mode, *SH, script) if croft else p.plain("/bin/sh", "-c", script)
            if os.path.exists(marker):
                os.unlink(marker)
            p.plain("git", "status", cwd=last)
            check(os.path.exists(marker) != croft, "%s: %s" % (last, r))
            shutil.rmtree(os.path.join(last, ".git"), ignore_errors=True)


@harness.case("G18-repository-in-a-crowd", tiers=("namespace",))
def crowd(p):
    """A repository among thousands of names is found and put away."""
    marker = os.path.join(p.dir, "ran")
    p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    fill = ("import os, sys\nos.chdir(sys.argv[1])\nfor i in range(12000):\n"
            " os.mknod('%d' % i)")
    make = (GIT + 'git init -q x; git -C x config core.fsmonitor "touch %s; false"; ' % marker +
            "exec %s -c \"$0\" x" % harness.python)
    r = p.run("--direct", "--observe", "off", *SH, make, fill)
    p.plain("git", "status", cwd=p.path("x"))
    check(r.rc == 0 and len(os.listdir(p.path("x"))) > 12000, "the control makes no crowd: %s" % r)
    check(not os.path.exists(marker), r)


@harness.case("G18-directories-that-are-no-repository")
def no_repository(p):
    """A source tree with the names of a repository's parts is left alone."""
    own = p.path("src")
    for d in ("objects", "refs", "config"):
        os.makedirs(os.path.join(own, d))
    os.makedirs(p.path("other"))
    for d in ("src", "other", "src/objects", "src/refs", "src/config"):
        p.user.own(p.path(d))
    r = p.run("--direct", *SH, "echo x > src/config/new; echo x > src/objects/new; echo x > other/HEAD; mkdir other/config")
    check(sorted(os.listdir(own)) == ["config", "objects", "refs"], "%s: %s" % (os.listdir(own), r))
    check("HEAD" in os.listdir(p.path("other")), r)


@harness.case("G18-rebase-under-way")
def rebase(p):
    """A rebase that waits with a command to run, in a repository that the command made, is put away with it."""
    marker = os.path.join(p.dir, "ran")
    p.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    who = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; "
    make = (GIT + who + "git init -q x%d; cd x%d; git commit -q --allow-empty -m a; git commit -q --allow-empty -m b; "
            "printf 'break\\nexec touch " + marker + "\\n' > ../todo; GIT_SEQUENCE_EDITOR='cp ../todo' git rebase -i HEAD~1")
    for croft in (0, 1):
        r = p.run("--direct", *SH, make % (croft, croft)) if croft else p.plain("/bin/sh", "-c", make % (croft, croft))
        p.plain("/bin/sh", "-c", who + "git rebase --continue", cwd=p.path("x%d" % croft))
        check(os.path.exists(marker) != bool(croft), r)
        if os.path.exists(marker):
            os.unlink(marker)


if __name__ == "__main__":
    harness.main()
