#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""G15: no git that croft runs executes a program which the repository's own configuration names.

Each plant is in the repository's configuration, or in a file that it includes. Control: git, run by the user as the
plant wants it, trips the canary. Then every command of croft that runs git is run, and the canary stays quiet. What
the user's own configuration names goes on working.
"""
import os

import harness
from harness import Skip, check
from test_workspace import Repo, probe

PASS = "touch {canary}; cat"
SIGN = ("#!/bin/sh\ntouch %s\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED D 1 8 00 1 X' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nfake\\n-----END PGP SIGNATURE-----\\n'\n")
PUSH = "git push -q origin HEAD:refs/heads/t"
DIRTY = "echo changed >> a.txt; "
HOOK = "mkdir -p h; for f in reference-transaction post-index-change pre-push pre-commit; do printf '#!/bin/sh\\ntouch {canary}\\n' > h/$f; chmod +x h/$f; done; "


def config(key, value, where=""):
    return "git config %s %s '%s'; " % (where, key, value)


ATTRIBUTES = "echo '*.txt filter=z diff=z merge=z' > .git/info/attributes; "
# name, what is planted, what runs it
PLANTS = (
    ("gpg", config("gpg.program", "{sign}") + config("commit.gpgSign", "true"), "git commit -q --allow-empty -m t"),
    ("gpg-ssh", config("gpg.ssh.program", "{sign}") + config("gpg.format", "ssh") + config("commit.gpgSign", "true")
     + config("user.signingKey", "key::ssh-ed25519 AAAA"), "git commit -q --allow-empty -m t"),
    ("gpg-key-command", config("gpg.ssh.defaultKeyCommand", "touch {canary}") + config("gpg.format", "ssh")
     + config("commit.gpgSign", "true"), "git commit -q --allow-empty -m t"),
    ("filter-clean", ATTRIBUTES + config("filter.z.clean", PASS) + DIRTY, "git status; git add -A"),
    ("filter-process", ATTRIBUTES + config("filter.z.process", "touch {canary}; false") + config("filter.z.required", "true") + DIRTY,
     "git add -A"),
    ("filter-case", "echo '*.txt filter=Zz.y' > .git/info/attributes; " + config("filter.Zz.y.clean", PASS) + DIRTY, "git add -A"),
    ("fsmonitor", config("core.fsmonitor", "touch {canary}; false"), "git status"),
    ("hooks-path", HOOK + config("core.hooksPath", "h"), "git update-ref refs/heads/t HEAD; git commit -q --allow-empty -m t"),
    ("hooks", HOOK + "mkdir -p .git/hooks; cp h/* .git/hooks/", "git update-ref refs/heads/t HEAD; git commit -q --allow-empty -m t"),
    ("ssh-command", "git remote add origin ssh://nowhere.invalid/x; " + config("core.sshCommand", "touch {canary}; false"), PUSH),
    ("receive-pack", "git init -q --bare ../far; git remote add origin $PWD/../far; "
     + config("remote.origin.receivepack", "touch {canary}; git-receive-pack"), PUSH),
    ("upload-pack", "git init -q --bare ../far; git remote add origin $PWD/../far; "
     + config("remote.origin.uploadpack", "touch {canary}; git-upload-pack"), "git fetch -q origin"),
    ("ext", "git remote add origin 'ext::touch {canary}'; " + config("protocol.ext.allow", "always"), PUSH),
    ("ext-instead", "git remote add origin far:x; " + config("'url.ext::touch {canary} .insteadOf'", "far:")
     + config("protocol.allow", "always"), PUSH),
    ("git-proxy", "git remote add origin git://nowhere.invalid/x; " + config("core.gitProxy", "./proxy.sh")
     + "printf '#!/bin/sh\\ntouch {canary}\\n' > proxy.sh; chmod +x proxy.sh", "git fetch -q origin"),
    ("promisor", "git init -q --bare ../far; git remote add origin $PWD/../far; " + config("remote.origin.promisor", "true")
     + config("extensions.partialClone", "origin") + config("core.repositoryFormatVersion", "1")
     + config("remote.origin.uploadpack", "touch {canary}; git-upload-pack")
     + "o=$(git rev-parse HEAD); rm -f .git/objects/pack/*; rm -f .git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-)",
     "git log -1"),
    ("vcs", "git remote add origin x; mkdir git-remote-a; printf '#!/bin/sh\\ntouch {canary}\\n' > git-remote-a/b; chmod +x git-remote-a/b; "
     + config("remote.origin.vcs", "a/b"), PUSH),
    ("alias", "git remote add origin zz::y; " + config("alias.remote-zz", "!touch {canary}; false"), PUSH),
    ("remote-inside", "git init -q --bare far.git; git remote add origin ./far; printf '#!/bin/sh\\ntouch {canary}\\n' > far.git/hooks/pre-receive; "
     "chmod +x far.git/hooks/pre-receive", PUSH),
    ("remote-inside-pushed", "git init -q --bare far; git init -q --bare ../away; git remote add origin $PWD/../away; "
     "printf '#!/bin/sh\\ntouch {canary}\\n' > far/hooks/update; chmod +x far/hooks/update; "
     + config("url.far.pushInsteadOf", "$PWD/../away").replace("'$PWD/../away'", '"$PWD/../away"'), PUSH),
    ("include", "printf '[gpg]\\n\\tprogram = {sign}\\n[commit]\\n\\tgpgsign = true\\n' > .git/more; "
     + config("include.path", "more"), "git commit -q --allow-empty -m t"),
    ("include-workspace", "printf '[gpg]\\n\\tprogram = {sign}\\n[commit]\\n\\tgpgsign = true\\n' > more; "
     + config("include.path", "../more"), "git commit -q --allow-empty -m t"),
    ("worktree", config("extensions.worktreeConfig", "true") + config("gpg.program", "{sign}", "--worktree")
     + config("commit.gpgSign", "true"), "git commit -q --allow-empty -m t"),
)


def everything(repo):
    """Commands that run git on the user's repository; each may fail, none may run the plant."""
    p, name = repo.p, repo.name
    yield ("new", "-q", "--tier", p.tier, "--dirty", name)
    yield ("exec", "-q", name, "--", "sh", "-c", "echo in >> note.txt; git add -A; git -c commit.gpgsign=false commit -qm in || true")
    yield ("status", name)
    yield ("diff", name)
    yield ("review", name, "--accept-all")
    yield ("apply", name, "--commit")
    yield ("evidence", "push", "origin", name)
    yield ("evidence", "fetch", "origin", name)
    yield ("gate", "HEAD~1..HEAD")
    yield ("new", "-q", "--tier", p.tier, "second")
    yield ("exec", "-q", "second", "--", "sh", "-c", "echo in > c")
    yield ("apply", "second", "--squash", "-m", "words")
    yield ("revert", "second")
    yield ("run", "-q", "--tier", p.tier, "--staged", "--", "sh", "-c", "echo in >> dir/b.txt")
    yield ("export", name, os.path.join(p.dir, "exported"))


def prepare(p):
    repo = Repo(p, make=False)
    sign = p.write(os.path.join(p.outside, "sign"), SIGN % repo.canary, 0o755)
    return repo, sign


def attack(p, script, trigger):
    repo, sign = prepare(p)
    script = script.replace("{canary}", repo.canary).replace("{sign}", sign)
    control = os.path.join(p.dir, "control")
    repo.git("clone", "-q", p.work, control)
    repo.sh("git remote remove origin; " + script, cwd=control)
    repo.tripped()
    r = repo.sh(trigger, cwd=control)
    check(repo.tripped(), "the control does not trip the canary: %s" % r)
    repo.sh(script)
    check(not repo.tripped(), "planting alone trips the canary")
    ran = 0
    for words in everything(repo):
        ran += repo.croft(*words, rc=None).rc == 0
        check(not repo.tripped(), "croft %s ran what the repository's configuration names" % words[0])
    check(ran >= 8 or "promisor" in script, "only %d commands of croft succeed" % ran)


for _name, _script, _trigger in PLANTS:
    probe("G15-" + _name)(lambda p, s=_script, t=_trigger: attack(p, s, t))


@probe("G15-own-signing")
def own_signing(p):
    """The user's own gpg.program signs, also where the repository names another."""
    repo, sign = prepare(p)
    mine = p.write(os.path.join(p.home, "mine"), SIGN % os.path.join(p.home, "signed"), 0o755)
    repo.git("config", "--global", "gpg.program", mine)
    repo.git("config", "--global", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", sign)
    repo.new()
    repo.sandbox("echo in > note.txt")
    repo.croft("apply", repo.name, "--squash", "-m", "words")
    check(not repo.tripped(), "the repository's program signed")
    check(os.path.exists(os.path.join(p.home, "signed")), "the user's own program did not")
    check("BEGIN PGP SIGNATURE" in repo.git("cat-file", "commit", "HEAD"), "the commit is not signed")


@probe("G15-branch")
def by_branch(p):
    """What a file names that is included on one branch only, when croft saw the repository on another before."""
    repo, sign = prepare(p)
    p.write(os.path.join(p.work, ".git/more"), "[gpg]\n\tprogram = %s\n[commit]\n\tgpgsign = true\n" % sign)
    repo.git("config", "includeIf.onbranch:other.path", "more")
    repo.new()
    repo.sandbox("echo in > note.txt")
    repo.sh("git checkout -q -b other")
    repo.croft("apply", repo.name, "--squash", "-m", "words", rc=None)
    check(not repo.tripped(), "the program signed that the branch's configuration names")
    repo.sh("git commit -q --allow-empty -m t")
    check(repo.tripped(), "the control does not trip the canary")


@probe("G15-unknown")
def unknown(p):
    """A key that cannot be overridden on a command line is refused, not obeyed."""
    repo, _ = prepare(p)
    repo.sh("git config 'filter.a=b.clean' 'touch %s; cat'" % repo.canary)
    r = repo.croft("new", "-q", "--tier", p.tier, "e", rc=126)
    check("filter.a=b.clean" in r.err, "it is not named: %s" % r)


@probe("G15-foreign-owner")
def foreign_owner(p):
    """root in another user's repository: refused as git does it; with safe.directory nothing of the owner's runs."""
    if os.getuid() or p.user.uid:
        raise Skip("only root works in other people's directories")
    repo, sign = prepare(p)
    repo.sh("git config gpg.program %s; git config commit.gpgSign true" % sign)
    repo.sh("chmod -R a+rX .")
    for top, dirs, files in os.walk(p.work):
        for f in [top, *(os.path.join(top, n) for n in dirs + files)]:
            os.chown(f, 60999, 60999, follow_symlinks=False)
    for words in (("new", "-q", "--tier", p.tier, "e"), ("run", "-q", "--tier", p.tier, "--staged", "--", "true")):
        r = repo.croft(*words, rc=126)
        check("safe.directory" in r.err and "another user" in r.err, "what to do is not said: %s" % r)
    # what is changed in place needs no git
    repo.croft("run", "-q", "--tier", p.tier, "--direct", "--", "true")
    repo.git("config", "--global", "--add", "safe.directory", p.work)
    repo.new("e")
    repo.croft("exec", "-q", "e", "--", "sh", "-c", "echo in > note.txt")
    repo.croft("apply", "e", "--squash", "-m", "words", rc=None)
    check(not repo.tripped(), "the owner's program ran as root")
    repo.sh("git commit -q --allow-empty -m t")
    check(repo.tripped(), "the control does not trip the canary")


if __name__ == "__main__":
    harness.main()
