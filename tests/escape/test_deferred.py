#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# timeout: 600
"""G1 to G13: what a sandbox leaves behind executes nothing on the host, later.

Each plant is made in a sandbox, and, as the control, by the user in a clone: there the trigger trips the
canary. Then everything that a user does next is done in the host's repository: the canary stays quiet.
"""
import json
import os
import subprocess

import harness
from harness import check
from test_workspace import Repo, differences, probe, tree_state

HOOK = "printf '#!/bin/sh\\ntouch %s\\n' > {0}; chmod +x {0}; "
# What a user does without a second thought.
LOOK = ("git status", "git log -p -2", "git diff", "git diff --cached", "git branch -a", "git stash list",
        "git submodule status", "git ls-files", "git blame a.txt", "git describe --always", "git remote -v",
        "bash -ic true", "bash -lc true", "timeout 20 vim --not-a-term -c 'qa!' a.txt")


def hook(path):
    return "mkdir -p \"$(dirname %s)\"; " % path + HOOK.format(path) % "{canary}"


def config(*pairs, file=None):
    into = "-f %s " % file if file else ""
    return "".join("git config %s%s '%s'; " % (into, key, value) for key, value in pairs)


RUN = "touch {canary}; false"
PASS = "touch {canary}; cat"
PTY = "PAGER=cat %s -c 'import pty; pty.spawn([\"git\", \"log\"])'" % harness.python
FSMONITOR = ("core.fsmonitor", RUN)
TOUCH = "echo changed >> a.txt; "

# entry, what is planted, what would run it on the host
PLANTS = (
    ("G1-hooks", "".join(hook(".git/hooks/" + h) for h in
                         ("pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction")),
     "git commit -q --allow-empty -m t; git checkout -q -b t; git checkout -q -"),
    ("G1-hooks-path", hook("tools/run/pre-commit") + config(("core.hooksPath", "tools/run")),
     "git commit -q --allow-empty -m t"),
    ("G2-fsmonitor", config(FSMONITOR), "git status"),
    ("G2-ssh-command", config(("core.sshCommand", RUN)), "git fetch ssh://nowhere.invalid/x"),
    ("G2-pager", config(("core.pager", PASS)), PTY),
    ("G2-editor", config(("core.editor", RUN)), "VISUAL=true EDITOR=true git commit --allow-empty"),
    ("G2-credential", config(("credential.helper", "!touch {canary}")),
     "echo url=https://nowhere.invalid | GIT_TERMINAL_PROMPT=0 git credential fill"),
    ("G2-alias", config(("alias.zz", "!touch {canary}")), "git zz"),
    ("G2-filter", TOUCH + "mkdir -p .git/info; echo '* filter=z' > .git/info/attributes; "
     + config(("filter.z.clean", PASS), ("filter.z.smudge", PASS)), "git status; git diff; git add -A"),
    ("G2-textconv", TOUCH + "mkdir -p .git/info; echo '* diff=z' > .git/info/attributes; "
     + config(("diff.z.textconv", PASS)), "git diff; git log -p"),
    ("G2-external-diff", TOUCH + config(("diff.external", PASS)), "echo z >> dir/b.txt; git diff"),
    ("G2-include", config(FSMONITOR, file="tools.inc") + config(("include.path", "../tools.inc")), "git status"),
    ("G2-include-if", config(FSMONITOR, file=".git/z") + config(("includeIf.gitdir:/.path", "z")), "git status"),
    ("G2-gpg", hook("sign.sh") + config(("gpg.program", "./sign.sh"), ("commit.gpgSign", "true")),
     "git commit -q --allow-empty -m t"),
    ("G3-config-worktree", config(("extensions.worktreeConfig", "true")) + config(FSMONITOR, file=".git/config.worktree"),
     "git status"),
    ("G4-git-file", "rm -rf .git; git init -q --separate-git-dir=\"$PWD/evil\" .; " + config(FSMONITOR), "git status"),
    ("G4-git-link", "mv .git evil; ln -s evil .git; " + config(FSMONITOR, file="evil/config"), "git status"),
    ("G7-nested", "git init -q n; " + config(FSMONITOR, file="n/.git/config"), "git -C n status"),
    ("G7-nested-file", "git init -q --separate-git-dir=\"$PWD/store\" n; " + config(FSMONITOR, file="store/config"),
     "git -C n status"),
    ("G7-nested-in-known", "git init -q dir; " + config(FSMONITOR, file="dir/.git/config"), "git -C dir status"),
    ("G7-bare", "git init -q --bare n; touch n/objects/k n/refs/k; "
     + config(("core.bare", "false"), ("core.worktree", "."), FSMONITOR, file="n/config"), "git -C n status"),
    ("G7-bare-hooks", "git clone -q --bare . n; " + hook("n/hooks/reference-transaction"),
     "git -C n branch z HEAD"),
    ("G8-common-dir", "git init -q --separate-git-dir=\"$PWD/c\" tmp; rm -rf tmp; cp -r .git/refs .git/HEAD c/;"
     "cp .git/packed-refs c/ 2>/dev/null; echo \"$PWD/c\" > .git/commondir; " + config(FSMONITOR, file="c/config"),
     "git status"),
    ("G8-attributes", "mkdir -p .git/info; echo '* diff=z' > .git/info/attributes; " + TOUCH
     + config(("diff.z.command", RUN)), "git diff"),
)


def clone(repo, name="control"):
    where = os.path.join(repo.p.dir, name)
    repo.git("clone", "-q", repo.p.work, where)
    return where


def quiet(repo, script, what):
    repo.sh(script)
    check(not repo.tripped(), "%s ran what the sandbox planted: %s" % (what, script))


def settled(repo, before):
    """After landing: what Git takes orders from is as it was."""
    moving = ("objects", "refs", "logs", "index", "ORIG_HEAD", "COMMIT_EDITMSG")
    bad = [k for k in differences(before, repo.git_state()) if k.split("/")[0] not in moving]
    check(not bad, "landing changed the host's .git: %s" % bad)


def plant(p, script, trigger, staged):
    repo = Repo(p, staged)
    script = script.format(canary=repo.canary)
    control = clone(repo)
    repo.sh(script, cwd=control)
    check(not repo.tripped(), "planting alone trips the canary")
    r = repo.sh(trigger, cwd=control)
    check(repo.tripped(), "the control does not trip the canary: %s" % r)
    before = repo.git_state()
    r = repo.sandbox("touch %s; %s echo note > note.txt; true" % (repo.canary, script))
    check(not repo.tripped(), "the sandbox reaches the canary: %s" % r)
    repo.same_git(before, "the sandbox")
    repo.croft("status", repo.name)
    repo.croft("diff", repo.name)
    repo.croft("evidence", "verify", repo.name)
    repo.same_git(before, "looking at it")
    check(not repo.tripped(), "croft ran what the sandbox planted")
    quiet(repo, trigger, "the host")
    for command in LOOK:
        quiet(repo, command, "looking around")
    before = repo.git_state()
    if not staged:
        repo.croft("apply", repo.name, "--commit", "--dry-run", rc=None)
        repo.same_git(before, "a dry run")
        repo.croft("apply", repo.name, "--commit", rc=None)
        check(not repo.tripped(), "apply --commit ran what the sandbox planted")
    if not os.path.exists(p.path("note.txt")):
        repo.land_allowed()
    check(p.read("note.txt") == "note\n", "what is allowed did not land")
    check(not repo.tripped(), "landing ran what the sandbox planted")
    settled(repo, before)
    for command in (trigger,) + LOOK + ("git add -A; git commit -qm landed",):
        quiet(repo, command, "after landing")
    repo.croft("revert", repo.name, rc=None)
    check(not repo.tripped(), "revert ran what the sandbox planted")


def register():
    for name, script, trigger in PLANTS:
        for staged in (False, True):
            probe("%s-%s" % (name, "staged" if staged else "env"))(
                lambda p, s=script, t=trigger, staged=staged: plant(p, s, t, staged))


register()


@probe("G1-own-hooks-path")
def own_hooks_path(p):
    """The user keeps hooks in the project: a change to one runs on the next commit, and must be flagged."""
    repo = Repo(p, make=False)
    p.write("tools/run/pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
    repo.git("config", "core.hooksPath", "tools/run")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "hooks")
    repo.new()
    repo.sandbox("echo 'touch %s' > tools/run/pre-commit; echo note > note.txt" % repo.canary)
    repo.land_allowed()
    check(p.read("note.txt") == "note\n", "what is allowed did not land")
    repo.sh("git commit -q --allow-empty -m t")
    check(not repo.tripped(), "a hook in core.hooksPath landed in bulk, and ran")


@probe("G4-linked-worktree")
def linked_worktree(p):
    """The workspace is a linked worktree: neither its .git file nor the main repository's files can be changed."""
    for staged in (False, True):
        main = harness.Place(p.user, p.tier, p.dir)
        source = Repo(main, make=False)
        place = harness.Place(p.user, p.tier, p.dir)
        source.git("worktree", "add", "-q", os.path.join(place.dir, "linked"), "-b", "linked")
        place.work = os.path.join(place.dir, "linked")
        repo = Repo.__new__(Repo)
        repo.__dict__.update(source.__dict__, p=place, staged=staged, canary=os.path.join(place.outside, "canary"))
        place.env = dict(place.env, HOME=main.home)
        if not staged:
            repo.new()
        before, file = repo.git_state(), place.read(".git")
        attack = ("d=$(git rev-parse --git-dir); c=$(git rev-parse --git-common-dir); "
                  "for f in \"$d/config.worktree\" \"$c/config\" \"$d/config\"; do git config -f \"$f\" core.fsmonitor "
                  "'touch {0}; false'; done; git config extensions.worktreeConfig true; echo \"$PWD/evil\" > \"$d/commondir\"; "
                  "mkdir -p \"$c/hooks\"; printf '#!/bin/sh\\ntouch {0}\\n' > \"$c/hooks/pre-commit\"; "
                  "chmod +x \"$c/hooks/pre-commit\"; git init -q --separate-git-dir=\"$PWD/evil\" x; rm -rf .git;"
                  "echo \"gitdir: $PWD/evil\" > .git; git config -f evil/config core.fsmonitor 'touch {0}; false';"
                  "echo note > note.txt; true").format(repo.canary)
        repo.sandbox(attack)
        check(place.read(".git") == file, "the .git file was repointed")
        repo.same_git(before, "the sandbox")
        for command in LOOK + ("git commit -q --allow-empty -m t",):
            quiet(repo, command, "the host")
        repo.land_allowed()
        check(place.read("note.txt") == "note\n" and place.read(".git") == file, "after landing")
        quiet(repo, "git status; git commit -q --allow-empty -m t", "after landing")
        if staged:
            repo.sh(attack)
            repo.sh("git status")
            check(repo.tripped(), "the control does not trip the canary")


@probe("G5-submodule")
def submodule(p):
    """A submodule's own repository: configuration, hooks, its working tree, its commit and .gitmodules."""
    for staged in (False, True):
        place = harness.Place(p.user, p.tier, p.dir)
        repo = Repo(place, staged, make=False)
        other = clone(repo, "library")
        repo.git("submodule", "add", "-q", other, "sub")
        repo.git("commit", "-qam", "submodule")
        if not staged:
            repo.new()
        attack = ("d=$(git -C sub rev-parse --absolute-git-dir); git config -f \"$d/config\" core.fsmonitor "
                  "'touch {0}; false'; mkdir -p \"$d/hooks\"; printf '#!/bin/sh\\ntouch {0}\\n' > \"$d/hooks/pre-commit\";"
                  "chmod +x \"$d/hooks/pre-commit\"; echo z > sub/z; git config -f .gitmodules submodule.sub.update "
                  "'!touch {0}'; mkdir -p .git/modules/new; git init -q --bare .git/modules/new;"
                  "git -C sub -c user.name=z -c user.email=z -c core.fsmonitor= commit -qam z; echo note > note.txt; true"
                  ).format(repo.canary)
        before, sub = repo.git_state(), tree_state(place.path("sub"))
        repo.sandbox(attack)
        repo.same_git(before, "the sandbox")
        check(tree_state(place.path("sub")) == sub, "the submodule changed")
        check("sub   " in repo.refused() or "sub/z   " in repo.refused(), "the submodule's change is not refused by name: %s"
              % repo.croft("diff", repo.name).out)
        repo.land_allowed()
        trigger = "git status; git submodule update; git -C sub status; git -C sub commit -q --allow-empty -m t"
        for command in LOOK + (trigger,):
            quiet(repo, command, "the host")
        check(place.read("note.txt") == "note\n", "what is allowed did not land")
        repo.sh(attack.replace(".git/modules/new", "new"))
        repo.sh("git status")
        check(repo.tripped(), "the control does not trip the canary")


@probe("G5-submodule-asked")
def submodule_asked(p):
    """What an earlier run without staging left in a submodule's repository: no Git that croft runs enters it."""
    repo = Repo(p, make=False)
    other = clone(repo, "library")
    repo.git("submodule", "add", "-q", other, "sub")
    repo.git("submodule", "add", "-q", other, "old")
    # As older versions of Git made it: the repository lies in the working tree.
    repo.sh("rm old/.git && mv .git/modules/old old/.git && git config -f old/.git/config --unset core.worktree")
    repo.git("commit", "-qam", "submodules")
    plants = "".join(
        "d=$(git -C {0} rev-parse --absolute-git-dir); mkdir -p \"$d/info\"; "
        "echo '* filter=z diff=z' > \"$d/info/attributes\"; git config -f \"$d/config\" filter.z.clean '{1}'; "
        "git config -f \"$d/config\" diff.z.textconv '{1}'; git config -f \"$d/config\" core.fsmonitor '{2}'; "
        .format(sub, PASS.format(canary=repo.canary), RUN.format(canary=repo.canary)) for sub in ("sub", "old"))
    repo.sh(plants + "echo dirty > sub/a.txt; echo dirty > old/a.txt; echo mine > a.txt; echo new > note.txt")
    check(not repo.tripped(), "planting alone trips the canary")
    name = repo.name
    for args in (("new", "-q", "--tier", p.tier, "--dirty", name), ("exec", "-q", name, "--", "sh", "-c", "echo in >> note.txt"),
                 ("status", name), ("diff", name), ("ls",), ("review", name, "--accept-all"), ("apply", name),
                 ("new", "-q", "--tier", p.tier, "second"), ("exec", "-q", "second", "--", "sh", "-c", "echo in > c; rm -rf sub"),
                 ("apply", "second", "--squash", "c"), ("revert", "second"), ("gc",),
                 ("run", "-q", "--tier", p.tier, "--staged", "--", "sh", "-c", "echo in >> dir/b.txt; echo > sub/n"),
                 ("doctor",)):
        repo.croft(*args, rc=None)
        check(not repo.tripped(), "croft %s ran what is planted in a submodule" % args[0])
    check(p.read("note.txt") == "new\nin\n", "the uncommitted state was not carried over, or did not land")
    for sub in ("sub", "old"):
        repo.sh("git status --ignore-submodules=none", cwd=p.work)
        check(repo.tripped(), "the control does not trip the canary")
        repo.sh("git -C %s config --remove-section filter.z; git -C %s config --unset core.fsmonitor" % (sub, sub))
        repo.tripped()


@probe("G6-init")
def init(p):
    """No repository here: one that is made inside does not come to be outside, and is not passed over in silence."""
    for staged in (False, True):
        place = harness.Place(p.user, p.tier, p.dir)
        repo = Repo(place, staged, git=False)
        attack = "git init -q; git config core.fsmonitor 'touch %s; false'; echo note > note.txt" % repo.canary
        repo.sandbox(attack)
        check(not os.path.lexists(place.path(".git")), "a repository appeared")
        shown = repo.croft("diff", repo.name).out
        repo.land_allowed()
        check(place.read("note.txt") == "note\n" and not os.path.lexists(place.path(".git")), "a repository landed")
        repo.croft("apply", repo.name, ".git", rc=(125, 126))
        repo.croft("apply", repo.name, ".git/config", rc=(125, 126))
        quiet(repo, "git status", "the host")
        repo.sh(attack)
        repo.sh("git status")
        check(repo.tripped(), "the control does not trip the canary")
        check(".git" in shown, "diff does not say that a .git was made and stays behind: %s" % shown)


ALIASES = (".GIT", ".Git", "git~1", ".git ", ".git.", ".g\u200cit", "\u200e.git", ".git::$INDEX_ALLOCATION", "GIT~1")


@probe("G7-aliases")
def aliases(p):
    """Names that some file system takes for .git are .git."""
    repo = Repo(p)
    for name in ALIASES:
        repo.sandbox("mkdir -p 'd1/%s' && echo '[core]' > 'd1/%s/config'; mkdir -p '%s'; echo '[core]' > '%s/config'"
                     % (name, name, name, name))
    repo.sandbox("mkdir .gitx git; echo 1 > .gitx/config; echo 1 > git/config; mkdir d2; ln -s ../.git/hooks d2/h;"
                 "ln -s .git/config d3; ln -s .gitx/config d4")
    shown = repo.croft("diff", repo.name, rc=0).out.split("cannot land:\n")[1]
    for name in ALIASES:
        escaped = name if name.isascii() else "it"
        check(shown.count(escaped) >= 1, "%r is not refused: %s" % (name, shown))
    check(shown.count("nested .git") >= 2 * len(ALIASES), shown)
    repo.land_allowed()
    for name in ALIASES:
        check(not os.path.lexists(p.path(name)) and not os.path.lexists(p.path("d1", name)), "%r landed" % name)
    check(not os.path.lexists(p.path("d2", "h")) and not os.path.lexists(p.path("d3")), "a link into .git landed")
    check(p.read(".gitx/config") == "1\n" and p.read("git/config") == "1\n" and os.path.islink(p.path("d4")),
          "what only looks like it did not land")


@probe("G8-objects")
def objects(p):
    """Replacement refs and alternates inside: the host sees neither, and is shown what is really staged."""
    repo = Repo(p)
    blob = repo.git("rev-parse", "HEAD:a.txt").strip()
    attack = ("x=$(echo replaced | git hash-object -w --stdin); git replace %s $x; git update-ref refs/replace/%s $x;"
              "mkdir -p alt/info; echo \"$PWD/alt\" >> .git/objects/info/alternates; GIT_OBJECT_DIRECTORY=alt "
              "git hash-object -w dir/b.txt; echo four >> a.txt; GIT_OBJECT_DIRECTORY=$PWD/alt "
              "GIT_ALTERNATE_OBJECT_DIRECTORIES=.git/objects git commit -qam inside; true" % (blob, blob))
    before = repo.git_state()
    repo.sandbox(attack)
    repo.same_git(before, "the sandbox")
    shown = repo.croft("diff", repo.name, "a.txt").out
    check("+four" in shown and "replaced" not in shown and "three" in shown, "diff shows a replacement: %s" % shown)
    repo.croft("apply", repo.name, "--commit", rc=None)
    check("replace" not in repo.git("for-each-ref") and "three" in repo.git("show", "HEAD:a.txt"), "a replacement landed")
    check(not os.path.exists(os.path.join(repo.git_dir(), "objects/info/alternates")), "alternates landed")
    repo.git("fsck", "--strict", "--connectivity-only")
    control = clone(repo)
    repo.sh(attack, cwd=control)
    check("replaced" in repo.git("show", blob, cwd=control) and "refs/replace" in repo.git("for-each-ref", cwd=control),
          "the control replaces nothing")


@probe("G13-own-drivers")
def own_drivers(p):
    """The user's own drivers and filters are not run on the sandbox's files by diff, review and landing."""
    repo = Repo(p)
    for key, value in (("diff.mine.textconv", PASS), ("diff.mine.command", RUN), ("filter.mine.clean", PASS),
                       ("filter.mine.smudge", PASS), ("merge.mine.driver", RUN), ("diff.external", PASS)):
        repo.git("config", "--global", key, value.format(canary=repo.canary))
    repo.sandbox("printf '* diff=mine filter=mine merge=mine\\n' > .gitattributes; echo four >> a.txt; echo note > note.txt")
    for args in (("diff", repo.name), ("status", repo.name), ("apply", repo.name, "--patch", "a.txt"),
                 ("review", repo.name, "--accept-all"), ("apply", repo.name, "--squash"), ("log", repo.name)):
        repo.croft(*args)
        check(not repo.tripped(), "croft %s ran a driver on what the sandbox wrote" % args[0])
    check("four" in p.read("a.txt") and not os.path.exists(p.path(".gitattributes")), "what landed")
    p.write(".gitattributes", "* diff=mine filter=mine\n")
    p.write("a.txt", "changed\n")
    repo.sh("git diff")
    check(repo.tripped(), "the control does not trip the canary")


@probe("G13-where-git-runs")
def where_git_runs(p):
    """No Git of the host's runs in, or on, a directory that the sandbox could write."""
    repo = Repo(p)
    log = os.path.join(p.outside, "git.log")
    shim = p.write(os.path.join(p.outside, "bin/git"), "#!/bin/sh\necho \"dir=$GIT_DIR work=$GIT_WORK_TREE cwd=$(pwd) "
                   "objects=$GIT_OBJECT_DIRECTORY index=$GIT_INDEX_FILE args=$*\" >> '%s'\nexec /usr/bin/git \"$@\"\n"
                   % log, 0o755)
    path = {"PATH": os.path.dirname(shim) + ":" + p.env["PATH"]}
    repo.sandbox("echo four >> a.txt; git commit -qam inside; echo new > note.txt; mkdir n; git init -q n")
    for args in (("status",), ("diff",), ("review", "--accept-all"), ("apply",), ("apply", "--squash", "a.txt"),
                 ("apply", "--commit"), ("discard",)):
        repo.croft(args[0], repo.name, *args[1:], rc=None, env=path)
    with open(log, encoding="utf-8") as f:
        lines = f.read().splitlines()
    check(lines, "the control: no Git was seen to run")
    layers = repo.state("layers")
    bad = [line for line in lines if layers in line]
    check(not bad, "Git ran on what the sandbox can write: %s" % bad[:3])


# ---- G9 to G12 ----

RUNS = (
    # G9
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".inputrc", ".ssh/config", ".ssh/authorized_keys",
    ".ssh/rc", ".config/systemd/user/x.service", ".config/autostart/x.desktop", ".npmrc", "pip.conf", ".config/pip/pip.conf",
    "cron.d/x", ".config/fish/config.fish", ".gitconfig", ".config/git/config", ".gitattributes", ".gitmodules",
    # G10
    ".claude/settings.json", ".claude/commands/x.md", ".mcp.json", ".codex/config.toml", "AGENTS.md", "CLAUDE.md",
    ".cursor/mcp.json", ".cursorrules", ".gemini/settings.json", "GEMINI.md", ".github/copilot-instructions.md",
    "croft.yaml", "sub/project/AGENTS.md",
    # G11
    ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".devcontainer/devcontainer.json", ".envrc",
    ".husky/pre-commit", ".github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile",
    ".pre-commit-config.yaml", ".vimrc", ".exrc", ".nvim.lua", ".dir-locals.el", "deep/er/.vscode/tasks.json",
    "other/.VSCode/launch.json", "other/.EnvRC", "x.code-workspace",
    # G12
    "lib/site-packages/x.pth", "sitecustomize.py", ".cargo/config.toml", ".yarnrc.yml", "conftest/usercustomize.py",
)
PLAIN = ("src/main.c", "README.md", "envrc", "vscode/tasks.json", "bashrc", "docs/workflows/ci.yml", "x.pth.txt")


def runs(p, staged):
    repo = Repo(p, staged)
    p.write("src.list", "\n".join(RUNS + PLAIN) + "\n", 0o644)
    if not staged:
        repo.git("add", "-A")
        repo.git("commit", "-qm", "list")
        repo.new("two")
        repo.name = "two"
    repo.sandbox("while read -r f; do mkdir -p \"$(dirname \"$f\")\"; echo x > \"$f\"; done < src.list")
    files = {f["path"]: f for f in repo.diff()["files"]}
    shown, status = repo.croft("diff", repo.name).out, repo.croft("status", "--json", repo.name).out
    flagged = shown.split("once they are there:\n")[1].split("\n\n")[0]
    missing = [f for f in RUNS if f not in files or not files[f]["runs"] or f not in flagged]
    check(not missing, "not flagged as running on the user's machine: %s" % missing)
    wrong = [f for f in PLAIN if f not in files or files[f]["runs"]]
    check(not wrong, "flagged, or not there: %s" % wrong)
    check("runs" in status and status.count("runs") >= 1, "status flags nothing: %s" % status[:500])
    check("runs on your machine" in repo.croft("status", repo.name).out, "status flags nothing")
    before = tree_state(p.work, (".git",))
    r = repo.croft("apply", repo.name, rc=(125, 126))
    check(any(f in r.err for f in RUNS), "the refusal names nothing: %s" % r)
    check(tree_state(p.work, (".git",)) == before, "something landed")
    repo.croft("apply", repo.name, "src", ".vscode", rc=(125, 126))  # a directory is not the file's name
    check(tree_state(p.work, (".git",)) == before, "a directory's name let them land")
    r = repo.croft("review", repo.name, "--accept-all")
    check(any(f in r.err + r.out for f in RUNS), "bulk acceptance does not say what it leaves out: %s" % r)
    repo.croft("apply", repo.name)
    landed = [f for f in RUNS if os.path.lexists(p.path(f))]
    check(not landed, "landed in bulk: %s" % landed)
    missing = [f for f in PLAIN if not os.path.exists(p.path(f))]
    check(not missing, "plain files did not land: %s" % missing)
    for name in (".vscode", "deep"):
        repo.croft("review", repo.name, "--accept", name, rc=None)
        repo.croft("apply", repo.name, rc=None)
        check(not os.path.lexists(p.path(name)), "landed by its directory's name")
    # Control: named, one lands.
    repo.croft("review", repo.name, "--accept", ".envrc")
    repo.croft("apply", repo.name)
    check(p.read(".envrc") == "x\n" and not os.path.lexists(p.path(".bashrc")), "named, and yet")


probe("G9-G11-flagged-env")(lambda p: runs(p, False))
probe("G9-G11-flagged-staged")(lambda p: runs(p, True))


@probe("G9-links")
def runs_by_link(p):
    """A file that runs, by way of a link: a new link is flagged; below a link that was there, the file is."""
    repo = Repo(p, make=False)
    p.write("conf/tasks.json", "{}\n")
    os.symlink("conf", p.path(".vscode"))
    p.user.own(p.path(".vscode"))
    repo.git("add", "-A")
    repo.git("commit", "-qm", "link")
    repo.new()
    repo.sandbox("ln -s conf .idea; ln -s dir/b.txt .envrc; mkdir d; echo x > d/settings.json; ln -s d .claude;"
                 "echo '{\"run\": 1}' > conf/tasks.json; echo note > note.txt")
    repo.land_allowed()
    check(p.read("note.txt") == "note\n", "what is allowed did not land")
    for name in (".idea", ".envrc", ".claude"):
        check(not os.path.lexists(p.path(name)), "the link %s landed in bulk" % name)
    check(p.read("conf/tasks.json") == "{}\n", "what .vscode/tasks.json leads to landed in bulk, unflagged")


@probe("G9-shell")
def shell(p):
    """A project that is a home: a shell and an editor that are opened in it run nothing that came in bulk."""
    for staged in (False, True):
        place = harness.Place(p.user, p.tier, p.dir)
        repo = Repo(place, staged)
        place.write(os.path.join(place.home, ".vimrc"), "set exrc\n")
        attack = ("for f in .bashrc .bash_profile .profile; do echo 'touch {0}' > $f; done; echo note > note.txt;"
                  "for f in .vimrc .exrc; do echo 'call system(\"touch {0}\")' > $f; done").format(repo.canary)
        home = "HOME='%s' " % place.work
        triggers = [home + "bash -ic true", home + "bash -lc true", "timeout 20 vim --not-a-term -c 'qa!' a.txt"]
        repo.sandbox(attack)
        repo.croft("apply", repo.name, rc=(125, 126))
        repo.land_allowed()
        check(place.read("note.txt") == "note\n", "what is allowed did not land")
        for command in triggers:
            quiet(repo, command, "a shell or an editor")
        repo.sh(attack)
        for command in triggers:
            repo.sh(command)
            check(repo.tripped() or ("vim" in command and not os.path.exists("/usr/bin/vim")),
                  "the control does not trip the canary: %s" % command)


CACHES = (".cache/pip/x", ".npm/_cacache/x", ".cargo/bin/cargo", ".local/bin/git", ".local/lib/python3/site-packages/x.pth",
          ".bashrc", ".config/systemd/user/x.service", ".gitconfig")


@probe("G12-caches")
def caches(p):
    """Caches, toolchains and ignored directories of the host are not changed, and ignored files never land."""
    for staged in (False, True):
        place = harness.Place(p.user, p.tier, p.dir)
        repo = Repo(place, staged, make=False)
        tool = place.write("node_modules/.bin/lint", "#!/bin/sh\nexit 0\n", 0o755)
        pth = place.write(".venv/lib/site-packages/mine.py", "")
        for name in CACHES[:3]:
            place.write(os.path.join(place.home, name), "# mine\n")
        if not staged:
            repo.new()
        home, work = tree_state(place.home), tree_state(place.work, (".git",))
        places = "".join("mkdir -p \"$(dirname \"%s/%s\")\"; echo 'touch %s' > \"%s/%s\"; "
                         % (h, n, repo.canary, h, n) for n in CACHES for h in (place.home, "$HOME"))
        attack = ("printf '#!/bin/sh\\ntouch {0}\\n' > node_modules/.bin/lint; echo x > node_modules/.bin/new; "
                  "echo 'import os; os.system(\"touch {0}\")' > .venv/lib/site-packages/z.pth; echo z > x.o; "
                  "echo note > note.txt; ").format(repo.canary)
        r = repo.sandbox(attack + places + "true")
        check(differences(home, tree_state(place.home)) == [], "the home changed: %s" % r)
        check(tree_state(place.work, (".git",)) == work, "ignored files changed: %s" % r)
        paths = [f["path"] for f in repo.diff()["files"]]
        check(paths == ["note.txt"], "what is staged: %s" % paths)
        check(json.loads(repo.croft("diff", "--json", repo.name).out)["ignored"] > 0, "ignored changes are not counted")
        repo.land_allowed()
        for name in ("node_modules/.bin/new", ".venv/lib/site-packages/z.pth", "x.o"):
            repo.croft("apply", repo.name, name, rc=(125, 126))
            check(not os.path.lexists(place.path(name)), "%s landed" % name)
        quiet(repo, "node_modules/.bin/lint; PYTHONPATH= %s -c 'import site; site.addsitedir(\".venv/lib/site-packages\")'"
              % harness.python, "the toolchain")
        check(place.read("note.txt") == "note\n" and os.path.exists(pth), "what is allowed did not land")
        repo.sh(attack)
        subprocess.run([tool], check=False, env=place.env, **place.user.drop())
        check(repo.tripped(), "the control does not trip the canary")


if __name__ == "__main__":
    harness.main()
