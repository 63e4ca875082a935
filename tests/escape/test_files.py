#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
# session: user
"""F1 to F17 where something has to be prepared or watched from outside the sandbox."""
import json
import os
import subprocess

import harness
from harness import Skip, check

SH = ("--", "/bin/sh", "-c")
TRIES = int(os.environ.get("CROFT_RACE_TRIES", "10" if harness.IN_SESSION else "120"))

harness.alone("standard descriptors of a session's commands are pipes of its own", "F8-reads-held-twice")
harness.alone("is about the directory in which croft run is started", "F9-cwd-outside", "F13-swap-cwd")


def denied_paths(receipt):
    return [d["path"] for d in receipt["denials"]]


@harness.case("F1-secret-and-startup-file")
def secret_and_startup(p):
    """The promise of the README: secret unread, start-up file unchanged, work done, both recorded."""
    key = p.write(os.path.join(p.home, ".ssh", "id_ed25519"), p.token)
    rc = p.write(os.path.join(p.home, ".bashrc"), "# mine\n")
    attack = 'cat "%s"; echo x >> "%s"; echo ok > out.txt' % (key, rc)
    r, receipt = p.receipt("--direct", *SH, attack)
    check(p.token not in r.out + r.err, r)
    check(p.read(rc) == "# mine\n", "start-up file changed")
    check(p.read("out.txt") == "ok\n", r)
    if p.tier == "namespace" and not receipt["enforced"]["decoys"]:
        return "no decoys on this machine: reads are not observed"
    seen = denied_paths(receipt)
    check(any(".bashrc" in path for path in seen), "no denial of the write: %s" % receipt["denials"])
    if p.tier == "namespace":
        check(any(".ssh" in path for path in seen), "no denial of the read: %s" % receipt["denials"])
    r = p.plain("/bin/sh", "-c", attack)
    check(p.token in r.out and p.read(rc) != "# mine\n", "the control does not escape: %s" % r)
    return None


@harness.case("F7-link-planted")
def link_planted(p):
    """--discard leaves nothing. --direct leaves the link, and croft itself does not follow it later."""
    target = p.write(os.path.join(p.home, ".bashrc"), "# mine\n")
    if p.tier == "namespace":
        r = p.run("--discard", *SH, "ln -s '%s' planted; ls -l" % target)
        check("planted" in r.out and not os.path.lexists(p.path("planted")), r)
    r = p.run("--direct", *SH, "ln -s '%s' receipt.json" % target)
    check(os.path.islink(p.path("receipt.json")), "direct mode should show the link: %s" % r)
    r = p.run("--direct", "--json", "receipt.json", "--", "true")
    check(p.read(target) == "# mine\n", "the receipt was written through a planted link\n%s" % r)


@harness.case("F7-policy-link")
def policy_link(p):
    """A project policy that is a link to a file outside is not read into messages or followed."""
    os.symlink(p.secret, p.path("croft.yaml"))
    r = p.run("--direct", "--", "true")
    check(p.token not in r.out + r.err, "the linked file's text was shown: %s" % r)
    check(r.rc in (125, 126), "a linked project policy was taken: %s" % r)


@harness.case("F8-reopen-stdio")
def reopen_stdio(p):
    """A descriptor given for one direction may not be opened again for the other."""
    log = p.write(os.path.join(p.outside, "log"), p.token + "\n")
    attack = "for f in /proc/self/fd/1 /dev/stdout /dev/fd/1; do dd iflag=nonblock status=none <$f >&2; done; " \
             "echo changed 1<>/proc/self/fd/0; echo changed >/dev/stdin; true"

    def go(start):
        with open(log, "a", encoding="utf-8") as out, open(p.secret, encoding="utf-8") as given:
            return p.finish(start(stdin=given, stdout=out))

    r = go(lambda **kw: p.popen(p.argv("-q", "--direct", *SH, attack), **kw))
    check(p.token not in r.err, "stdout was read back: %s" % r)
    check(p.read(p.secret) == p.token + "\n", "stdin was written: %s" % r)
    r = go(lambda **kw: p.popen(["/bin/sh", "-c", attack], **kw))
    check(p.token in r.err and "changed" in p.read(p.secret), "the control does not escape: %s" % r)


@harness.case("F8-reopen-fifo")
def reopen_fifo(p):
    """A named pipe given for writing is not read from, or the sandbox would take what others write into it."""
    fifo = os.path.join(p.outside, "fifo")
    attack = "dd iflag=nonblock bs=%d count=1 status=none </proc/self/fd/1 >&2; true" % len(p.token)

    def go(start):
        os.mkfifo(fifo, 0o600)
        p.user.own(fifo)
        held = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        given = os.open(fifo, os.O_WRONLY)
        try:
            os.write(held, p.token.encode())
            return p.finish(start(stdout=given))
        finally:
            os.close(given)
            os.close(held)
            os.unlink(fifo)

    r = go(lambda **kw: p.popen(p.argv("-q", "--direct", *SH, attack), **kw))
    check(p.token not in r.err, "what others wrote was read: %s" % r)
    r = go(lambda **kw: p.popen(["/bin/sh", "-c", attack], **kw))
    check(p.token in r.err, "the control does not escape: %s" % r)


@harness.case("F8-reads-held-twice")
def reads_held_twice(p):
    """A file as standard output brings Landlock's own judgement of reads; a pipe does not need it."""
    r = p.run("--direct", "--json", "-", *SH, "true")
    with open(os.path.join(p.outside, "out"), "w+", encoding="utf-8") as out:
        p.finish(p.popen(p.argv("--direct", "--json", "-", *SH, "true"), stdout=out))
        out.seek(0)
        to_file = json.loads(out.read())
    piped = json.loads(r.out)
    check(to_file["enforced"]["landlock"]["reads"], to_file)
    check(piped["enforced"]["landlock"]["reads"] == (p.tier == "process"), piped)


@harness.case("F9-stdin-directory")
def stdin_directory(p):
    """A directory as standard input would be a handle on the host's tree."""
    fd = os.open(p.outside, os.O_RDONLY)
    attack = "cat /proc/self/fd/0/secret /dev/stdin/secret; cd /proc/self/fd/0 && cat secret"
    try:
        r = p.finish(p.popen(p.argv("-q", "--direct", *SH, attack), stdin=fd))
        check(p.token not in r.out + r.err, r)
        r = p.finish(p.popen(["/bin/sh", "-c", attack], stdin=fd))
        check(p.token in r.out, "the control does not escape: %s" % r)
    finally:
        os.close(fd)


@harness.case("F9-cwd-outside")
def cwd_outside(p):
    """Started in a directory that the policy does not grant, or that was removed."""
    gone = os.path.join(p.dir, "gone")
    os.mkdir(gone, 0o700)
    p.user.own(gone)
    r = p.plain("/bin/sh", "-c", 'cd "%s" && rmdir "%s" && exec "%s" run --tier %s -q -- /bin/ls -a ..'
                % (gone, gone, harness.croft, p.tier))
    check(r.rc in (125, 126) and "secret" not in r.out and "outside" not in r.out, r)


NAMES = ["new\nline", "comma,semi;colon:", "sp ace 'quote\" ", "back\\slash", "-dash", "upper=dir,lower=dir",
         "per%cent%s", "tab\there", "\udcff\udcfe", "café‮", "a" * 250]


@harness.case("F10-names")
def names(p):
    """Strange names as workspace, as grant and as deny: no more and no less than asked."""
    for name in NAMES:
        work = os.path.join(p.work, name)
        p.write(os.path.join(work, "in.txt"), "inside\n")
        p.write(os.path.join(work, "no.txt"), p.token + "\n")
        for mode in ("--direct", "--discard") if p.tier == "namespace" else ("--direct",):
            r = p.run("-q", mode, "--deny", os.path.join(work, "no.txt"), *SH,
                      'cat in.txt; cat no.txt "%s"; cat ../../outside/secret; echo new > made' % p.secret,
                      cwd=work)
            # Refusing an odd name is allowed, taking it for another is not.
            check(p.token not in r.out + r.err, "%r %s: %s" % (name, mode, r))
            if r.rc in (125, 126):
                check(r.err.startswith("croft"), r)
                continue
            check("inside" in r.out, "%r %s: %s" % (name, mode, r))
            made = os.path.join(work, "made")
            check(os.path.exists(made) == (mode == "--direct"), "%r %s: %s" % (name, mode, r))
            if mode == "--direct":
                os.unlink(made)


@harness.case("F11-order-of-rules")
def order_of_rules(p):
    """A wider grant, given later, does not open what an earlier and narrower rule closed."""
    secret = p.write(os.path.join(p.outside, "a", "b", "key"), p.token)
    public = p.write(os.path.join(p.outside, "a", "b", "open", "text"), "public\n")
    top, inner = os.path.join(p.outside, "a"), os.path.join(p.outside, "a", "b")
    read = "cat '%s' '%s'" % (secret, public)
    for words in (["--deny", inner, "--read", top], ["--read", top, "--deny", inner],
                  ["--write", top, "--deny", inner], ["--deny", inner, "--write", top, "--read", top]):
        r = p.run("-q", *words, *SH, read)
        check(p.token not in r.out, "%s: %s" % (words, r))
    r = p.run("-q", "--read", top, "--deny", inner, "--read", os.path.dirname(public), *SH, read)
    check(p.token not in r.out and "public" in r.out, "a narrower grant inside a deny: %s" % r)
    r = p.run("-q", "--read", top, *SH, read)
    check(p.token in r.out, "the control does not escape: %s" % r)


@harness.case("F11-symlink-grant")
def symlink_grant(p):
    """A grant on a link does not open a target that is denied by its own name."""
    key = p.write(os.path.join(p.outside, "vault", "key"), p.token)
    vault, link = os.path.dirname(key), os.path.join(p.outside, "link")
    os.symlink("vault", link)
    for words in (["--read", link, "--deny", vault], ["--deny", vault, "--read", link]):
        r = p.run("-q", *words, *SH, "cat '%s/key' '%s'" % (link, key))
        check(p.token not in r.out, "%s: %s" % (words, r))
    # Secrets in the home directory are denied by the default profile: a link is no way around.
    ssh = p.write(os.path.join(p.home, ".ssh", "id"), p.token)
    os.symlink(os.path.dirname(ssh), os.path.join(p.work, "keys"))
    r = p.run("-q", *SH, "cat keys/id")
    check(p.token not in r.out, r)


@harness.case("F11-project-symlink")
def project_symlink(p):
    """A link in the repository and a project policy that names it: no approval, so no way outside."""
    notes = p.write(os.path.join(p.home, "notes", "n"), p.token + "\n")
    os.symlink(os.path.dirname(notes), p.path("data"))
    os.symlink(p.home, p.path("up"))
    read = False
    for access in ("read", "write", "write-if-present"):
        for name in ("./data", "./up/notes", "./data/n"):
            p.write("croft.yaml", "version: 1\nfilesystem:\n  %s: [%s]\n" % (access, name))
            r = p.run("-q", "--direct", *SH, "cat data/n up/notes/n '%s'; echo evil >> data/n; "
                      "echo evil >> up/notes/n; true" % notes)
            read |= p.token in r.out
            check("evil" not in p.read(notes), "%s: %s wrote through the link: %s" % (access, name, r))
    check(not read, "read through the link")
    os.unlink(p.path("croft.yaml"))
    # The control: the same file, approved by the user who names the target itself.
    r = p.run("-q", "--direct", "--read", os.path.dirname(notes), *SH, "cat data/n '%s'" % notes)
    check(p.token in r.out, "the control does not escape: %s" % r)


@harness.case("F11-planted-for-next-run")
def planted_for_next_run(p):
    """What a sandbox leaves in the workspace does not widen the next run."""
    notes = p.write(os.path.join(p.home, "notes", "n"), p.token + "\n")
    p.run("-q", "--direct", *SH, "ln -s '%s' data; printf 'version: 1\\nfilesystem:\\n  write: [./data]\\n' > "
          "croft.yaml; true" % os.path.dirname(notes))
    r = p.run("-q", "--direct", *SH, "cat data/n; echo evil >> data/n; true")
    check(p.token not in r.out, "the second run reads outside: %s" % r)
    check("evil" not in p.read(notes), "the second run writes outside: %s" % r)


@harness.case("F5-dangling-deny")
def dangling_deny(p):
    """A deny on a link that leads nowhere is refused or held; never taken for an absent name."""
    target = os.path.join(p.work, "later")
    os.symlink(target, p.path("link"))
    p.user.own(p.path("link"))
    r = p.run("-q", "--direct", "--deny", "./link", *SH, "echo x > link; echo x > later; cat link; true")
    check(r.rc == 126 or not os.path.exists(target), "made through the denied link: %s" % r)


@harness.case("F12-deny-glob")
def deny_glob(p):
    """A deny with wildcards holds at every depth, or the run is refused. It is never dropped."""
    files = [".env", "a/.env", "a/b/.env", "a/b/c/d/e/f/.env", "node_modules/x/.env", "a/key.pem", "key.pem"]
    for name in files:
        p.write(name, p.token)
    p.write("a/b/plain.txt", "plain\n")
    for globs in (["./**/.env", "./**/*.pem"], ["./**/.env", "./*.pem", "./a/*.pem"], ["./**/.en?", "./**/k*"]):
        words = [w for g in globs for w in ("--deny", g)]
        r = p.run("-q", "--direct", *words, *SH, "cat a/b/plain.txt; cat %s" % " ".join(files))
        check(p.token not in r.out, "%s: %s" % (globs, r))
        check(r.rc == 126 or "plain" in r.out, "%s: %s" % (globs, r))
    r = p.run("-q", "--direct", *SH, "cat %s" % " ".join(files))
    check(p.token in r.out, "the control does not escape: %s" % r)


@harness.case("F12-deny-glob-created")
def deny_glob_created(p):
    """Files that match a deny and are made during the run: refused, or the run is."""
    os.mkdir(p.path("sub"))
    p.user.own(p.path("sub"))
    r = p.run("-q", "--direct", "--deny", "./**/*.env", *SH,
              "echo x > new.env; echo x > sub/new.env; echo x > t; mv t sub/moved.env; ln -s t sub/link.env; true")
    made = [n for n in ("new.env", "sub/new.env", "sub/moved.env", "sub/link.env") if os.path.lexists(p.path(n))]
    check(not made, "made %s: %s" % (made, r))


SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
nr = 316 if os.uname().machine == "x86_64" else 276
a, b = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
print("ready", flush=True)
while True:
    libc.syscall(nr, -100, a, -100, b, 2)
"""


def race(p, attempt, a, b, tries):
    """Exchange a and b all the time while attempt() runs; returns what the attempts printed."""
    swapper = p.popen([harness.python, "-c", SWAPPER, a, b])
    try:
        harness.read_until(swapper.stdout.fileno(), b"ready")
        return [attempt() for _ in range(tries)]
    finally:
        swapper.kill()
        swapper.communicate()


@harness.case("F13-swap-grant")
def swap_grant(p):
    """A granted directory is by turns a link to the secret: what is checked is what is mounted."""
    key = p.write(os.path.join(p.outside, "vault", "file"), p.token)
    p.write(os.path.join(p.outside, "shared", "file"), "public\n")
    granted, other = os.path.join(p.outside, "shared"), os.path.join(p.outside, "other")
    os.symlink("vault", other)
    p.user.own(other)

    def attempt():
        # The vault is denied by name; the grant follows whatever "shared" is at that moment.
        return p.run("-q", "--read", granted, "--deny", os.path.dirname(key), "--", "/bin/cat",
                     granted + "/file")

    results = race(p, attempt, granted, other, TRIES)
    leaks = [r for r in results if p.token in r.out]
    check(not leaks, "%d of %d tries read the secret" % (len(leaks), len(results)))
    good = sum("public" in r.out for r in results)
    odd = [r for r in results if r.rc not in (0, 1, 125, 126)]
    check(not odd, "unclear end: %s" % (odd and odd[0]))
    return "%d of %d runs read the public file" % (good, len(results))


@harness.case("F13-swap-cwd")
def swap_cwd(p):
    """The workspace itself is by turns a link to a directory outside."""
    p.write("in.txt", "inside\n")
    other = os.path.join(p.dir, "other")
    os.symlink(p.outside, other)
    p.user.own(other)

    def attempt():
        child = p.popen(["/bin/sh", "-c", 'cd "%s" 2>/dev/null && [ "$(pwd -P)" = "%s" ] && '
                         'exec "%s" run -q --tier %s --direct -- /bin/sh -c "ls; echo hit > made"'
                         % (p.work, p.work, harness.croft, p.tier)], cwd=p.dir)
        return p.finish(child)

    results = race(p, attempt, p.work, other, TRIES)
    if os.path.islink(p.work):
        harness.exchange(p.work, other)
    listed = sum("secret" in r.out for r in results)
    check(not os.path.exists(os.path.join(p.outside, "made")),
          "wrote outside through the swapped workspace (%d of %d saw it)" % (listed, len(results)))
    check(not listed, "%d of %d listed the directory outside" % (listed, len(results)))


@harness.case("F16-remove-everything")
def remove_everything(p):
    """rm -rf of the workspace and of .git destroys nothing: discarded, or .git refused."""
    subprocess.run(["git", "init", "-q", p.work], check=True, env=dict(p.env, GIT_CONFIG_NOSYSTEM="1"))
    p.write("src/main.c", "int main(void){}\n")
    subprocess.run(["chown", "-R", "%d:%d" % (p.user.uid, p.user.gid), p.work], check=True)
    if p.tier == "namespace":
        r = p.run("--discard", *SH, "rm -rf ./* ./.[a-z]*; ls -A")
        check("main.c" not in r.out and r.out.strip() in ("", ".git"), "nothing was removed inside: %s" % r)
        check(os.path.exists(p.path(".git/HEAD")) and os.path.exists(p.path("src/main.c")), "destroyed: %s" % r)
    if harness.IN_SESSION:
        return "staged only: of a repository in a granted tree just what runs is held"
    before = sorted(os.listdir(p.path(".git")))
    r = p.run("--direct", *SH, "rm -rf .git; mv .git x; rm -rf x .git; mkdir .git; git config core.pager evil; "
              "echo evil > .git/hooks/pre-commit; echo gone > src/main.c")
    check(sorted(os.listdir(p.path(".git"))) == before, "the repository was damaged: %s" % r)
    check("evil" not in p.read(".git/config"), "the configuration was changed")
    check(not os.path.exists(p.path(".git/hooks/pre-commit")), "a hook was made")
    check(p.read("src/main.c") == "gone\n", "direct mode writes the work: %s" % r)
    return None


@harness.case("F16-no-repository-yet")
def no_repository_yet(p):
    """Where there is no .git and the policy denies it, none is made for the host's Git to find."""
    r = p.run("--direct", "--deny", "./.git", *SH, "mkdir .git && echo bad > .git/config; git init -q .; true")
    check(not os.path.lexists(p.path(".git")), "made: %s" % r)


@harness.case("F17-two-sandboxes")
def two_sandboxes(p):
    """One ends and cleans up while the other, with the same grants, goes on: its rules still hold."""
    p.write("denied.env", p.token)
    words = ["-q", "--direct", "--deny", "./denied.env", "--deny", "./absent"]
    first = p.popen(p.argv(*words, *SH, "echo up; read go; cat denied.env; echo x > absent; echo end"),
                    stdin=subprocess.PIPE)
    try:
        harness.read_until(first.stdout.fileno(), b"up")
        for _ in range(3):
            r = p.run(*words, *SH, "cat denied.env; echo x > absent; true")
            check(p.token not in r.out, r)
        r2 = p.run("-q", "--direct", *SH, "cat denied.env")
        check(p.token in r2.out, "the control does not escape: %s" % r2)
        out, err = first.communicate(b"\n", timeout=harness.WAIT_S)
    finally:
        first.kill()
        first.wait()
    check(b"end" in out and p.token.encode() not in out, "after the others ended: %r %r" % (out, err))
    left = sorted(os.listdir(p.work))
    check(left == ["denied.env"], "left in the workspace: %s" % left)


@harness.case("F3-made-by-host-later")
def made_by_host_later(p):
    """A denied name that the user makes while the command runs stays denied, by every spelling."""
    child = p.popen(p.argv("-q", "--direct", "--deny", "./.env", *SH,
                           "echo up; read go; cat .env ./.env ../work/.env; cp .env copy; ln .env hard; cat hard copy; echo end"),
                    stdin=subprocess.PIPE)
    try:
        harness.read_until(child.stdout.fileno(), b"up")
        p.write(".env", p.token)
        out = child.communicate(b"\n", timeout=harness.WAIT_S)[0]
    finally:
        child.kill()
        child.wait()
    check(b"end" in out and p.token.encode() not in out, "read: %r" % out)


@harness.case("F3-no-stubs")
def no_stubs(p):
    """Denying absent names puts nothing into the user's tree, during or after the run."""
    child = p.popen(p.argv("-q", "--direct", "--deny", "./absent", "--deny", "./no/such/dir", "--read",
                           "./missing", *SH, "echo up; read go"), stdin=subprocess.PIPE)
    try:
        data = harness.read_until(child.stdout.fileno(), b"up")
        check(os.listdir(p.work) == [], "during the run: %s" % os.listdir(p.work))
    except harness.Fail:
        child.kill()
        err = child.communicate()[1]
        if child.returncode == 126 or b"missing" in err:
            raise Skip("a grant on a missing path is refused") from None
        raise
    child.communicate(b"\n", timeout=harness.WAIT_S)
    check(os.listdir(p.work) == [] and data, "after the run: %s" % os.listdir(p.work))


if __name__ == "__main__":
    harness.main()
