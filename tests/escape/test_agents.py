#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
# session
"""A1 to A4 and S7: an agent that wants a wider sandbox, a missing protection, a typo, the environment."""
import os

import harness
from harness import check

SH = ("--", "/bin/sh", "-c")


@harness.case("A1-widen-next-run")
def widen_next_run(p):
    """A project policy written from inside gives the next run no more, whatever it says."""
    secret = p.write(os.path.join(p.home, "notes"), p.token)
    wishes = ["filesystem: {read: [%s]}" % secret, "filesystem: {write: [~]}", "tier: process", "observe: off",
              "threat: trusted", "environment: {pass: [BAIT]}", "devices: [/dev/mem]", "limits: {memory: none}"]
    for wish in wishes:
        p.write("croft.yaml", "version: 1\n%s\n" % wish)
        r = p.run("-q", "--direct", *SH, "cat '%s'; env" % secret, env={"BAIT": p.token},
                  tier="auto" if wish.startswith("tier") else None)
        check(p.token not in r.out, "%s: %s" % (wish, r))
        check(r.rc in (125, 126), "%s was not refused: %s" % (wish, r))
        os.unlink(p.path("croft.yaml"))


@harness.case("A1-own-files")
def own_files(p):
    """User policy, approvals and receipts: not to be read, changed or made from inside."""
    config = p.write(os.path.join(p.home, ".config", "croft", "policy.yaml"), "version: 1\n# %s\n" % p.token)
    state = os.path.join(p.home, ".local", "state", "croft")
    p.write(os.path.join(state, "marker"), p.token)
    env = {"XDG_STATE_HOME": os.path.join(p.home, ".local", "state")}
    attack = "cat '%s' '%s/marker'; echo 'threat: trusted' >> '%s'; mkdir -p '%s'; echo x > '%s/trust'; rm -rf '%s'; true" % (
        config, state, config, state, state, os.path.dirname(config))
    for words in ([], ["--write", p.home], ["--write", os.path.join(p.home, ".config")]):
        r = p.run("-q", "--direct", *words, *SH, attack, env=env)
        check(p.token not in r.out, "%s: %s" % (words, r))
        check(p.read(config) == "version: 1\n# %s\n" % p.token, "%s changed the user's policy: %s" % (words, r))
        check(not os.path.exists(state + "/trust"), "%s made an approval: %s" % (words, r))
    p.plain("/bin/sh", "-c", attack)
    check(not os.path.exists(config), "the control does not escape")


@harness.case("A1-own-files-elsewhere")
def own_files_elsewhere(p):
    """The same when XDG variables put them into a place that is granted."""
    for variable, rel in (("XDG_CONFIG_HOME", ".cfg"), ("XDG_STATE_HOME", ".state")):
        base = p.path(rel)
        os.makedirs(os.path.join(base, "croft"), exist_ok=True)
        p.user.own(base, os.path.join(base, "croft"))
        name = os.path.join(base, "croft", "policy.yaml")
        p.write(name, "version: 1\n")
        r = p.run("-q", "--direct", *SH, "echo '# evil' >> '%s'; echo x > '%s/croft/new'; mv '%s' away; true" % (
            name, base, base), env={variable: base})
        check(r.rc in (125, 126) or (os.path.exists(name) and "evil" not in p.read(name)
                                     and not os.path.exists(base + "/croft/new")), "%s: %s" % (variable, r))


@harness.case("A1-own-program")
def own_program(p):
    """croft itself lies in the workspace: the command cannot replace it for the next run."""
    with open(harness.croft, "rb") as f:
        original = f.read()
    own = p.path("bin", "croft")
    p.write(own, "", 0o755)
    with open(own, "wb") as f:
        f.write(original)
    os.chmod(own, 0o755)
    child = p.popen([own, "run", "-q", "--tier", p.tier, "--direct", *SH,
                     "echo evil > bin/new; mv bin/new bin/croft; rm -f bin/croft; mv bin away; mkdir bin; echo evil > bin/croft; true"])
    r = p.finish(child)
    if r.rc in (125, 126):
        return "refused: %s" % r.err.strip()
    with open(own, "rb") as f:
        check(f.read() == original, "the launcher was replaced: %s" % r)
    return None


@harness.case("A1-trust-from-inside")
def trust_from_inside(p):
    """`croft policy trust` in the sandbox approves nothing outside."""
    secret = p.write(os.path.join(p.home, "notes"), p.token)
    p.write("croft.yaml", "version: 1\nlimits: {pids: 200}\n")
    p.run("-q", "--direct", "--read", harness.croft, *SH, "%s policy trust; true" % harness.croft)
    p.write("croft.yaml", "version: 1\nfilesystem: {read: [%s]}\n" % secret)
    r = p.run("-q", "--direct", "--", "true")
    check(r.rc == 126, r)


@harness.case("A2-missing-protection")
def missing_protection(p):
    """What cannot be enforced is refused, with a reason and a way out; accepted only by the flag, recorded."""
    for feature in ("landlock", "seccomp"):
        r = p.run("-q", "--direct", *SH, "touch ran", env={"CROFT_FORCE_FAIL": feature})
        check(r.rc in (125, 126) and not os.path.exists(p.path("ran")), "%s missing: %s" % (feature, r))
        check(len(r.err.strip()) > 20, "no reason: %s" % r)
    if p.tier == "namespace":
        r = p.run("-q", "--direct", *SH, "touch ran", env={"CROFT_FORCE_FAIL": "userns"})
        check(r.rc in (125, 126) and not os.path.exists(p.path("ran")), "no user namespaces: %s" % r)
        r, receipt = p.receipt("--direct", "--allow-degraded", *SH, "touch ran", env={"CROFT_FORCE_FAIL": "landlock"})
        check(r.rc == 0 and receipt["enforced"]["landlock"]["abi"] == 0 and receipt["degradations"], r)
        os.unlink(p.path("ran"))
    r = p.run("-q", "--direct", "--tier", "vm", *SH, "touch ran")
    check(r.rc in (125, 126) and not os.path.exists(p.path("ran")), r)


@harness.case("A2-hostile-needs-namespaces")
def hostile(p):
    """--tier auto gives no less than the stated threat needs."""
    p.write("policy.yaml", "version: 1\nthreat: hostile\n")
    r = p.run("-q", "--direct", "--policy", "policy.yaml", *SH, "touch ran", tier="auto",
              env={"CROFT_FORCE_FAIL": "userns"})
    check(r.rc == 126 and not os.path.exists(p.path("ran")), r)


@harness.case("A2-seam-not-inside")
def seam_not_inside(p):
    """The test seam and croft's variables do not come from the project or reach the command."""
    r = p.run("-q", "--direct", "--", "/usr/bin/env", env={"CROFT_FORCE_FAIL": "fuse", "CROFT_X": "1"})
    check("CROFT_FORCE_FAIL" not in r.out and "CROFT_X" not in r.out, r)


@harness.case("A3-nested")
def nested(p):
    """croft in croft: the outer policy stays; the inner may only take away."""
    p.write("no.env", p.token)
    inner = "%s run -q --tier %s --direct --allow-degraded --read %s --write . -- /bin/sh -c 'cat %s no.env; echo x > gone'"
    for tier in harness.TIERS:
        command = inner % (harness.croft, tier, p.outside, p.secret)
        r = p.run("-q", "--direct", "--read", harness.croft, "--deny", "./no.env", "--deny", "./gone", *SH, command)
        check(p.token not in r.out, "%s inside %s: %s" % (tier, p.tier, r))
        check(not os.path.lexists(p.path("gone")), "%s inside %s made a denied name: %s" % (tier, p.tier, r))
    r = p.run("-q", "--direct", "--read", p.outside, *SH, "cat '%s' no.env" % p.secret)
    check(p.token in r.out, "the control does not escape: %s" % r)


BAD = {
    "unknown key": ("version: 1\nfilesystme: {}\n", "filesystem"),
    "unknown inner key": ("version: 1\nfilesystem:\n  denny: [./x]\n", "deny"),
    "duplicate key": ("version: 1\ntier: process\ntier: namespace\n", "tier"),
    "wrong type": ("version: 1\nfilesystem: 7\n", "filesystem"),
    "duplicate path": ("version: 1\nfilesystem:\n  deny: [./x, ./x]\n", "x"),
    "relative path": ("version: 1\nfilesystem:\n  deny: [../x]\n", "x"),
    "bad value": ("version: 1\ntier: namespcae\n", "namespace"),
    "no version": ("tier: process\n", "version"),
    "not YAML": ("version: 1\n\t- [}\n", "croft"),
    "anchor": ("version: 1\nfilesystem: {deny: &a [./x], read: *a}\n", "croft"),
}


@harness.case("A4-typo", once=True)
def typo(p):
    """A mistake in any policy file: file, line, column, a suggestion; nothing runs."""
    for what, (text, expect) in BAD.items():
        for where in ("croft.yaml", "given.yaml"):
            name = p.write(where, text)
            words = ["--policy", name] if where == "given.yaml" else []
            r = p.run("--direct", *words, *SH, "touch ran")
            check(r.rc in (125, 126) and not os.path.exists(p.path("ran")), "%s ran: %s" % (what, r))
            check(expect in r.err and where + ":" in r.err, "%s: %s" % (what, r.err))
            os.unlink(name)
    for words in (["--tear", "process"], ["--tier", "namespcae"], ["--memory", "lots"], ["--deny"], ["--timeout", "-1"]):
        r = p.finish(p.popen([harness.croft, "run"] + words + ["--", "/bin/sh", "-c", "touch ran"]))
        check(r.rc == 125 and not os.path.exists(p.path("ran")), "%s: %s" % (words, r))


@harness.case("S7-environment")
def environment(p):
    """Nothing of the caller's environment comes in but what is named."""
    bait = {"AWS_SECRET_ACCESS_KEY": p.token, "GITHUB_TOKEN": p.token, "MY_VAR": p.token, "SSH_AUTH_SOCK": "/x/" + p.token,
            "LD_PRELOAD_X": p.token, "BASH_ENV": "/x/" + p.token, "LANG_X": p.token, "PATHX": p.token}
    show = "tr '\\0' '\\n' < /proc/self/environ; env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/*/environ; true"
    r = p.run("-q", "--direct", *SH, show, env=bait)
    check(p.token not in r.out, r)
    r = p.run("-q", "--direct", "--env", "MY_VAR", "--env", "GIVEN=yes", *SH, "env", env=bait)
    check("MY_VAR=" + p.token in r.out and "GIVEN=yes" in r.out and "GITHUB_TOKEN" not in r.out, r)
    r = p.plain("/bin/sh", "-c", "env", env=bait)
    check(p.token in r.out, "the control does not escape: %s" % r)


if __name__ == "__main__":
    harness.main()

