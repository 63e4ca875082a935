#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
# timeout: 600
"""L1 to L7: evidence that cannot be changed unseen, a review that shows and lands what there is. L5: test_workspace.py."""
import base64
import hashlib
import json
import os
import pty
import random
import re
import shutil
import subprocess
import threading

import harness
from harness import Skip, check
from test_workspace import Repo, Running, probe, tree_state

# ---- L1 ----


class Event:
    """One commit of a ledger, taken apart."""

    def __init__(self, files, header, message):
        self.files, self.header, self.message = files, header, message

    def copy(self):
        return Event(dict(self.files), list(self.header), self.message)

    def envelope(self):
        return json.loads(self.files["statement.dsse.json"][1])

    def statement(self):
        return json.loads(base64.b64decode(self.envelope()["payload"]))


class Ledger:
    """A clone that has the evidence, and what is needed to write another history there."""

    def __init__(self, repo):
        self.repo, self.id = repo, repo.record()["id"]
        self.ref = "refs/croft/env/" + self.id
        self.dir = os.path.join(repo.p.dir, "clone")
        repo.quiet()
        repo.git("clone", "-q", repo.p.work, self.dir)
        repo.git("fetch", "-q", "origin", "%s:%s" % (self.ref, self.ref), cwd=self.dir)
        self.tip = repo.git("rev-parse", self.ref, cwd=self.dir).strip()
        self.events = [self.read(c) for c in self.call("rev-list", "--reverse", self.tip).decode().split()]

    def call(self, *args, data=None):
        return subprocess.run(["git", *args], cwd=self.dir, env=self.repo.p.env, input=data, check=True,
                              stdout=subprocess.PIPE, **self.repo.p.user.drop()).stdout

    def read(self, commit):
        files = {}
        for line in self.call("ls-tree", "-z", commit).split(b"\0")[:-1]:
            about, name = line.split(b"\t")
            mode, _, oid = about.decode().split()
            files[name.decode()] = (mode, self.call("cat-file", "blob", oid))
        header, message = self.call("cat-file", "commit", commit).split(b"\n\n", 1)
        return Event(files, [h for h in header.decode().split("\n") if not h.startswith(("tree ", "parent "))], message)

    def write(self, events, merge=None):
        parent = None
        for i, event in enumerate(events):
            listing = b"".join(b"%s blob %s\t%s\n" % (mode.encode(), self.call("hash-object", "-w", "--stdin", data=data)
                                                     .strip(), name.encode()) for name, (mode, data) in event.files.items())
            lines = ["tree " + self.call("mktree", data=listing).decode().strip()]
            lines += ["parent " + parent] if parent else []
            lines += ["parent " + self.tip] if merge == i else []
            data = "\n".join(lines + event.header).encode() + b"\n\n" + event.message
            parent = self.call("hash-object", "-w", "-t", "commit", "--stdin", data=data).decode().strip()
        self.call("update-ref", self.ref, parent)
        return parent

    def verify(self, want, what):
        """want: the number of the first bad event; None: good."""
        r = self.repo.croft("evidence", "verify", self.id, cwd=self.dir, rc=None)
        text = r.out + r.err
        if want is None:
            check(r.rc == 0 and "good" in text, "%s: %s" % (what, r))
        else:
            check(r.rc == 1, "%s: status is not 1: %s" % (what, r))
            check(re.search(r"event %d\b" % want, text), "%s: event %d is not named: %s" % (what, want, r))


def with_history(p):
    repo = Repo(p)
    repo.sandbox("echo four >> a.txt; echo printed")
    repo.croft("exec", "-q", "--as", "test", repo.name, "--", "grep", "-q", "four", "a.txt")
    repo.croft("review", repo.name, "--accept-all")
    repo.croft("apply", repo.name, "--squash")
    return repo, Ledger(repo)


def flipped(data, at=None):
    at = len(data) // 2 if at is None else at
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


@probe("L1-edit")
def edit(p):
    """One bit in any file, statement, signature, key id, message, date or author of any event."""
    _, ledger = with_history(p)
    check(len(ledger.events) >= 5, "too few events to test with")
    check(ledger.write(ledger.events) == ledger.tip, "writing the same history again gives another commit")
    ledger.verify(None, "untouched")
    for i, event in enumerate(ledger.events):
        for name, (mode, data) in event.files.items():
            for what, file in (("bit", (mode, flipped(data) if data else b"x")), ("end", (mode, data + b"\n")),
                               ("mode", ("100755", data)), ("link", ("120000", data)), ("gone", None)):
                events = [e.copy() for e in ledger.events]
                if file:
                    events[i].files[name] = file
                else:
                    del events[i].files[name]
                ledger.write(events)
                ledger.verify(i + 1, "%s of %s in event %d" % (what, name, i + 1))
        for member in ("payload", "sig", "keyid", "payloadType"):
            events = [e.copy() for e in ledger.events]
            envelope = events[i].envelope()
            where = envelope["signatures"][0] if member in ("sig", "keyid") else envelope
            value = where[member]
            where[member] = value[:20] + ("B" if value[20:21] == "A" else "A") + value[21:]
            events[i].files["statement.dsse.json"] = ("100644", json.dumps(envelope, separators=(",", ":")).encode())
            ledger.write(events)
            ledger.verify(i + 1, "%s of event %d" % (member, i + 1))
        for what, change in (("extra file", lambda e: e.files.update(zz=("100644", b"zz"))),
                             ("message", lambda e: setattr(e, "message", b"another\n")),
                             ("author", lambda e: e.header.__setitem__(0, e.header[0].replace("croft", "other", 1))),
                             ("date", lambda e: e.header.__setitem__(1, re.sub(r"> \d+", "> 1000000000", e.header[1])))):
            events = [e.copy() for e in ledger.events]
            change(events[i])
            ledger.write(events)
            ledger.verify(i + 1, "%s of event %d" % (what, i + 1))
    ledger.write(ledger.events)
    ledger.verify(None, "restored")


@probe("L1-history")
def history(p):
    """Events dropped, doubled, swapped, merged in, moved from another ledger; the newest cut off."""
    repo, ledger = with_history(p)
    events, n = ledger.events, len(ledger.events)
    for i in range(n - 1):
        ledger.write(events[:i] + events[i + 1:])
        ledger.verify(i + 1, "without event %d" % (i + 1))
        ledger.write(events[:i] + [events[i + 1], events[i]] + events[i + 2:])
        ledger.verify(i + 1, "event %d and the next swapped" % (i + 1))
    for i in range(n):
        ledger.write(events[:i + 1] + events[i:])
        ledger.verify(i + 2, "event %d twice" % (i + 1))
    for i in range(1, n):
        ledger.write(events, merge=i)
        ledger.verify(i + 1, "event %d is a merge" % (i + 1))
    repo.new("other")
    repo.croft("exec", "-q", "other", "--", "true")
    foreign = Ledger.__new__(Ledger)
    foreign.__dict__.update(ledger.__dict__)
    repo.git("fetch", "-q", "origin", "refs/croft/*:refs/croft/*", cwd=ledger.dir, good=False)
    refs = [r for r in repo.git("for-each-ref", "--format=%(refname)", "refs/croft/env").split() if r != ledger.ref]
    for commit in ledger.call("rev-list", "--reverse", refs[0]).decode().split():
        ledger.write(events + [foreign.read(commit)])
        ledger.verify(n + 1, "an event of another environment")
    # The newest cut off: the ledger alone cannot tell, the landed commit does.
    ledger.write(events)
    r = repo.croft("evidence", "verify", "HEAD", cwd=ledger.dir)
    check("good" in r.out, "the landed commit: %s" % r)
    ledger.write(events[:-2])
    repo.croft("evidence", "verify", "HEAD", cwd=ledger.dir, rc=1)


def forge(event, key, pem, change, scratch):
    """The event with another statement, well signed, with a key of our own."""
    statement = event.statement()
    change(statement)
    payload = json.dumps(statement, separators=(",", ":")).encode()
    kind = event.envelope()["payloadType"]
    with open(scratch, "wb") as f:
        f.write(b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload))
    sig = subprocess.run(["openssl", "pkeyutl", "-sign", "-inkey", pem, "-rawin", "-in", scratch],
                         capture_output=True, check=True).stdout
    made = event.copy()
    made.files["statement.dsse.json"] = ("100644", json.dumps({"payload": base64.b64encode(payload).decode(),
        "payloadType": kind, "signatures": [{"keyid": key, "sig": base64.b64encode(sig).decode()}]},
        separators=(",", ":")).encode())
    return made


@probe("L1-forged")
def forged(p):
    """Events that are signed well, but by another key: appended, back-dated, the whole ledger."""
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    repo, ledger = with_history(p)
    pem, scratch = os.path.join(p.dir, "forger.pem"), os.path.join(p.dir, "signed")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", pem], check=True, capture_output=True)
    public = subprocess.run(["openssl", "pkey", "-in", pem, "-pubout", "-outform", "DER"], capture_output=True,
                            check=True).stdout[-32:]
    key, n = hashlib.sha256(public).hexdigest(), len(ledger.events)
    last = ledger.events[-1]

    def next_event(s):
        s["predicate"]["croft"].update(seq=n + 1, previous=hashlib.sha256(last.files["statement.dsse.json"][1]).hexdigest())

    for claimed in (key, last.envelope()["signatures"][0]["keyid"]):
        ledger.write(ledger.events + [forge(last, claimed, pem, next_event, scratch)])
        ledger.verify(n + 1, "appended, signed with another key")
        for i, event in enumerate(ledger.events):
            back = forge(event, claimed, pem, lambda s: s["predicate"]["croft"].update(time="2020-01-01T00:00:00.000000Z"),
                         scratch)
            back.header = [re.sub(r"> \d+", "> 1577836800", h) for h in back.header]
            ledger.write(ledger.events[:i] + [back] + ledger.events[i + 1:])
            ledger.verify(i + 1, "event %d back-dated" % (i + 1))
    # A whole ledger by somebody else hangs together; with the right key asked for, it is not taken.
    made, previous = [], None
    for event in ledger.events:
        def change(s, previous=previous):
            s["predicate"]["croft"]["previous"] = previous
            if "key" in s["predicate"]["croft"]:
                s["predicate"]["croft"]["key"] = base64.b64encode(public).decode()
        made.append(forge(event, key, pem, change, scratch))
        previous = hashlib.sha256(made[-1].files["statement.dsse.json"][1]).hexdigest()
    ledger.write(made)
    own = repo.croft("evidence", "key").out
    name = p.write(os.path.join(p.outside, "own.pem"), own[own.index("-----BEGIN"):])
    repo.croft("evidence", "verify", ledger.id, "--key", name, cwd=ledger.dir, rc=1)
    r = repo.croft("evidence", "verify", ledger.id, cwd=ledger.dir, rc=None)
    check(r.rc == 1 or "(this machine's)" not in r.out + r.err, "another's ledger counts as this machine's: %s" % r)
    ledger.write(ledger.events)
    repo.croft("evidence", "verify", ledger.id, "--key", name, cwd=ledger.dir)


@probe("L1-damaged-objects")
def damaged_objects(p):
    """A damaged or missing commit, tree or blob is named; it is not taken for the end of the ledger."""
    _, ledger = with_history(p)
    objects = os.path.join(ledger.dir, ".git", "objects")
    for number, commit in enumerate(ledger.call("rev-list", "--reverse", ledger.tip).decode().split(), 1):
        blobs = [line.split()[2].decode() for line in ledger.call("ls-tree", commit).splitlines()]
        for oid in [commit, ledger.call("rev-parse", commit + "^{tree}").decode().strip()] + blobs:
            path = os.path.join(objects, oid[:2], oid[2:])
            bad = (1, 125) if oid == ledger.tip else (1,)  # without the newest commit there is nothing to judge
            check(os.path.exists(path), "the clone has packs: nothing to damage")
            with open(path, "rb") as f:
                whole = f.read()
            os.chmod(path, 0o600)
            for what, data in (("flipped", flipped(whole)), ("emptied", b""), ("cut", whole[:-4])):
                with open(path, "wb") as f:
                    f.write(data)
                r = ledger.repo.croft("evidence", "verify", ledger.id, cwd=ledger.dir, rc=None)
                check(r.rc in bad and "good:" not in r.out, "%s %s, event %d: %s" % (oid, what, number, r))
            os.unlink(path)
            r = ledger.repo.croft("evidence", "verify", ledger.id, cwd=ledger.dir, rc=None)
            check(r.rc in bad, "%s is gone, event %d: %s" % (oid, number, r))
            p.write(path)
            with open(path, "wb") as f:
                f.write(whole)
    ledger.verify(None, "restored")


# ---- L2 ----

@probe("L2-forged-inside")
def forged_inside(p):
    """Refs, state, receipts and trailers that a sandbox makes up change nothing in the ledger."""
    repo = Repo(p)
    env, ref = repo.record()["id"], "refs/croft/env/" + repo.record()["id"]
    keys = tree_state(repo.state("keys"))
    before = repo.git_state()
    attack = ("git commit -q --allow-empty -m forged; git update-ref {ref} HEAD; git update-ref refs/croft/env/{z} HEAD;"
              "mkdir -p '{state}/envs/{name}' '{state}/keys'; echo '{{}}' > '{state}/envs/{name}/env.json';"
              "echo x > '{state}/keys/ledger'; GIT_DIR='{git}' git update-ref {ref} HEAD; "
              "GIT_DIR='{git}' git -c core.hooksPath=/dev/null commit -q --allow-empty -m forged;"
              "echo '{{\"schema\": \"croft.receipt/v1\", \"id\": \"feedfacedd\", \"tier\": \"vm\"}}';"
              "echo 'croft: namespace tier, exit 0, 1 file changed [feedfacedd]' >&2;"
              "echo four >> a.txt; git commit -qam \"work\n\nCroft-Env: ffffffffffffffff\nCroft-Evidence: {z}{z}{z}{z}\n"
              "Assisted-by: nobody\nSigned-off-by: Host <host@example.org>\nReviewed-by: Host <host@example.org>\"; true"
              ).format(ref=ref, z="f" * 16, state=repo.state(), name=repo.name, git=p.path(".git"))
    repo.sandbox(attack)
    repo.same_git(before, "the sandbox")
    check(tree_state(repo.state("keys")) == keys, "the key changed")
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/croft/env").split()
    check(refs == [ref], "refs: %s" % refs)
    log = repo.croft("log", repo.name).out
    check(len(log.strip().splitlines()) == 2 and "forged" not in log, "the ledger has other events: %s" % log)
    shown = repo.croft("evidence", "show", repo.name).out
    check("tier: vm" not in shown and not re.search("(?m)^ *(run|id): feedfacedd", shown),
          "a made-up receipt is shown as one: %s" % shown[-800:])
    repo.croft("evidence", "verify", repo.name)
    repo.croft("apply", repo.name, "--commit")
    message = repo.git("log", "-1", "--format=%B")
    trailers = repo.git("log", "-2", "--format=%(trailers:only)")
    check("four" in p.read("a.txt") and "Croft-Env: " + env in message, "did not land: %s" % message)
    check("f" * 16 not in trailers and "nobody" not in trailers, "made-up trailers landed: %s" % message)
    check("Signed-off-by" not in trailers and "Reviewed-by" not in trailers,
          "the sandbox signed and reviewed in the user's name: %s" % message)
    # Control: with the user's rights, the ref moves, and verify sees it.
    repo.sh("git update-ref %s HEAD" % ref)
    repo.croft("evidence", "verify", env, rc=1)


# ---- L3 ----

@probe("L3-changed-after-review")
def changed_after_review(p):
    """What lands is what was shown, or nothing."""
    repo = Repo(p)
    repo.sandbox("echo four >> a.txt; echo x > new")
    tree = repo.diff()["tree"]
    repo.croft("review", repo.name, "--accept-all")
    repo.sandbox("echo evil >> a.txt")
    before = tree_state(p.work, (".git",))
    for args in ((), ("--squash",), ("a.txt",), ("--patch",), ("--tree", tree)):
        r = repo.croft("apply", repo.name, *args, rc=(125, 126))
        check("evil" not in r.out, "a patch of what was not reviewed: %s" % r)
    check(tree_state(p.work, (".git",)) == before, "something landed")
    check("+evil" in repo.croft("diff", "--since-review", repo.name).out, "what changed since is not shown")
    running = Running(repo, "true")
    repo.croft("apply", repo.name, rc=(125, 126))  # while a command runs in it
    running.end()
    repo.croft("review", repo.name, "--accept-all")
    repo.croft("apply", repo.name, "--tree", tree, rc=(125, 126))
    repo.croft("apply", repo.name, "--tree", repo.diff()["tree"])
    check("evil" in p.read("a.txt") and p.read("new") == "x\n", "the control did not land")


@probe("L3-race")
def race(p):
    """The checkout changes while landing: before or after, never between, and never through a link."""
    repo = Repo(p)
    big = "".join("line %d\n" % i for i in range(20000))
    p.write("big.txt", big)
    repo.git("add", "-A")
    repo.git("commit", "-qm", "big")
    repo.new("racing")
    repo.name = "racing"
    repo.sandbox("sed -i 's/^line 10$/staged/' big.txt; echo staged > dir/b.txt; echo new > dir/new")
    staged, mine = big.replace("line 10\n", "staged\n", 1), big.replace("line 19990\n", "mine\n", 1)
    both = staged.replace("line 19990\n", "mine\n", 1)
    target = os.path.join(p.outside, "target")
    p.write(os.path.join(target, "b.txt"), "bee\n")
    os.symlink(target, p.path("swap"))
    stop, landed = threading.Event(), 0

    def racer(turn):
        stop.wait(random.uniform(0, 0.06))
        while not stop.is_set():
            if turn % 2:
                os.rename(p.write("other", mine), p.path("big.txt"))
                break
            harness.exchange(p.path("dir"), p.path("swap"))
            harness.exchange(p.path("dir"), p.path("swap"))
            stop.wait(random.uniform(0, 0.01))

    for turn in range(30):
        repo.sh("git checkout -q -f HEAD -- big.txt dir; rm -f dir/new")
        stop.clear()
        thread = threading.Thread(target=racer, args=(turn,))
        thread.start()
        r = repo.croft("apply", repo.name, rc=None)
        stop.set()
        thread.join()
        landed += r.rc == 0
        check(p.read("big.txt") in (big, mine, staged, both), "something in between: %s" % r)
        check(os.listdir(target) == ["b.txt"] and p.read(os.path.join(target, "b.txt")) == "bee\n",
              "it was written through a link: %s" % r)
        check(p.read("dir/b.txt") in ("bee\n", "staged\n"), "something in between: %s" % r)
    os.unlink(p.path("swap"))
    repo.sh("git checkout -q -f HEAD -- big.txt dir; rm -f dir/new other")
    repo.croft("apply", repo.name)
    check(p.read("big.txt") == staged and p.read("dir/new") == "new\n", "the control did not land")
    repo.croft("evidence", "verify", repo.name)
    return "%d of 30 landed during the race" % landed


# ---- L4 ----

@probe("L4-links")
def links(p):
    """Links that lead out, also by way of other links, do not land; nothing lands through a link."""
    repo = Repo(p)
    repo.sandbox("ln -s /etc/passwd absolute; ln -s ../outside/secret climbs; mkdir -p d/e f; ln -s ../.. d/e/up;"
                 "ln -s d/e/up/../outside/secret around; ln -s up/../../outside d/e/below; ln -s ../../.. d/e/far;"
                 "ln -s .git/config config; ln -s a.txt good; ln -s ../a.txt f/good; ln -s nowhere dangling;"
                 "ln -s loop loop; echo note > note.txt")
    shown = repo.refused()
    for name in ("absolute", "climbs", "d/e/far", "config"):
        check("  %s   " % name in shown, "%s is not refused: %s" % (name, shown))
    repo.land_allowed()
    check(p.read("note.txt") == "note\n" and os.readlink(p.path("good")) == "a.txt"
          and os.readlink(p.path("f/good")) == "../a.txt" and os.readlink(p.path("dangling")) == "nowhere",
          "what is allowed did not land")
    out = []
    for where, dirs, names in os.walk(p.work):
        for name in (os.path.join(where, n) for n in dirs + names):
            if os.path.islink(name) and not os.path.realpath(name).startswith(os.path.realpath(p.work) + "/") \
                    and os.path.realpath(name) != os.path.realpath(p.work):
                out.append(os.path.relpath(name, p.work))
    check(not out, "links on the host that lead out: %s" % out)


@probe("L4-through-a-link")
def through_a_link(p):
    """The user's checkout has a link where the environment has a directory."""
    repo = Repo(p)
    repo.sandbox("echo evil > dir/b.txt; echo evil > dir/new; rm a.txt; mkdir a.txt; echo x > a.txt/x")
    shutil.rmtree(p.path("dir"))
    target = os.path.join(p.outside, "dir")
    p.write(os.path.join(target, "b.txt"), "bee\n")
    os.symlink(target, p.path("dir"))
    for args in ((), ("--squash",), ("dir/b.txt",), ("dir/new",)):
        repo.croft("apply", repo.name, *args, rc=(1, 125, 126))
    check(tree_state(target).keys() == {"b.txt"} and p.read(os.path.join(target, "b.txt")) == "bee\n", "through a link")
    os.unlink(p.path("dir"))
    repo.git("checkout", "-q", "--", "dir")
    repo.croft("apply", repo.name)
    check(p.read("dir/new") == "evil\n" and p.read("a.txt/x") == "x\n", "the control did not land")


COMMITS = {
    "gitlink": "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),module",
    "nested .git": "b=$(echo x | git hash-object -w --stdin); t=$(printf '100755 blob %s\\tpre-commit\\n' $b | git mktree);"
                   "t=$(printf '040000 tree %s\\thooks\\n' $t | git mktree); t=$(printf '040000 tree %s\\t.GIT\\n' $t |"
                   "git mktree); git update-ref HEAD $(git commit-tree -p HEAD -m x $t)",
    "own .git": "b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tconfig\\n' $b | git mktree);"
                "t=$(printf '040000 tree %s\\t.git\\n' $t | git mktree); git update-ref HEAD $(git commit-tree -p HEAD -m x $t)",
    "dots": "b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tx\\n' $b | git mktree);"
            "t=$(printf '040000 tree %s\\t..\\n' $t | git mktree); git update-ref HEAD $(git commit-tree -p HEAD -m x $t)",
    "link": "b=$(printf /etc/passwd | git hash-object -w --stdin); git update-index --add --cacheinfo 120000,$b,leak",
    "hook manager": "mkdir .husky; echo x > .husky/pre-commit; git add .husky",
}


@probe("L4-commits")
def commits(p):
    """Commits made inside that hold what no checkout should: refused, whatever the working tree shows."""
    for what, script in COMMITS.items():
        place = harness.Place(p.user, p.tier, p.dir)
        repo = Repo(place)
        head = repo.git("rev-parse", "HEAD")
        repo.sandbox("(%s); git diff --cached --quiet || git commit -qm x; git rm -rq --cached module leak .husky;"
                     "rm -rf .husky; git read-tree HEAD~1; git commit -qm undo; echo note > note.txt; git add note.txt;"
                     "git commit -qm note; git log --oneline; true" % script)
        r = repo.croft("apply", repo.name, "--commit", rc=None)
        names = repo.git("log", "--format=", "--raw", "--no-abbrev", "-r", head.strip() + "..HEAD")
        check(not re.search(r"160000|120000|\.GIT|\.git/|\.\./|\.husky", names), "%s landed: %s %s" % (what, names, r))
        repo.git("fsck", "--strict")
        if r.rc:
            repo.croft("apply", repo.name, "--squash")
        check(place.read("note.txt") == "note\n", "%s: what is allowed did not land: %s" % (what, r))
    repo = Repo(harness.Place(p.user, p.tier, p.dir))
    repo.sandbox("echo 1 > one; git add one; git commit -qm first; echo 2 > two; git add two; git commit -qm second")
    repo.croft("apply", repo.name, "--commit")
    check(repo.git("log", "--format=%s", "-2") == "second\nfirst\n", "the control did not land")


# ---- L6 ----

EVIL = "\x1b]0;title\x07\x1b[2J\u202egnp\u2066\u200b\u009b31m<img src=x onerror=alert(1)>|`x`[a](javascript:b)"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def clean(text, what, colours=False):
    if colours:
        text = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")
    found = RAW.search(text)
    check(not found, "%s shows %r raw: %r" % (what, found and found.group(),
                                              found and text[max(0, found.start() - 60):found.end() + 30]))


def on_terminal(repo, *args, keys=b"q"):
    """What a command shows on a terminal; then it is told to quit."""
    master, slave = pty.openpty()
    child = repo.p.popen([harness.croft, *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                         env={"TERM": "xterm"})
    os.close(slave)
    data = b""
    try:
        data = harness.read_until(master, b"Accept this?")
        os.write(master, keys)
        while True:
            data += os.read(master, 65536)
            if b"y/n" in data[-80:]:
                os.write(master, b"n")
    except OSError:
        pass
    child.wait(harness.WAIT_S)
    os.close(master)
    return data.decode("utf-8", "replace")


HOSTILE = """printf '%s\\n' "$1"; printf '%s\\n' "$1" >&2; printf '%s\\n' "$1" > "$1"; mkdir -p ".vscode/$1" "n$1"
printf x > ".vscode/$1/tasks.json"; ln -s /etc/passwd "l$1"; git init -q "n$1"; git add .; git commit -qm "$1"
cat "/nowhere/$1"; cat "$HOME/.ssh/$1"; printf '%s\\n' "$1" >> a.txt; true"""


@probe("L6-hostile-text")
def hostile_text(p):
    """Names, contents, output, arguments, messages and task: nothing of it commands a terminal or a page."""
    repo = Repo(p, make=False)
    repo.new("one", "--task", EVIL, "--agent", EVIL, "--model", EVIL)
    p.write(os.path.join(p.work, "evil.txt"), EVIL)
    name = EVIL.replace("/", "_")
    repo.croft("exec", "-q", "one", "--", "/bin/sh", "-c", HOSTILE, "sh", name)
    export = os.path.join(p.dir, "export")
    for args in (("diff", "one"), ("diff", "--stat", "one"), ("diff", "--names", "one"), ("status", "one"), ("ls",),
                 ("log", "one"), ("evidence", "show", "one"), ("apply", "one"), ("apply", "--dry-run", "one"),
                 ("compare", "one", "one"), ("review", "one", "--accept-all"), ("apply", "--dry-run", "one"), ("why",),
                 ("evidence", "verify", "one"), ("apply", "one"), ("revert", "one"),
                 ("evidence", "export", "--output", "one", export)):
        r = repo.croft(*args, rc=None)
        clean(r.out, "croft %s" % " ".join(args[:2]))
        clean(r.err, "croft %s (messages)" % " ".join(args[:2]))
    clean(on_terminal(repo, "review", "one"), "croft review", colours=True)
    clean(repo.croft("diff", "--color", "one").out, "croft diff --color", colours=True)
    for file, _ in tree_state(export).items():
        if file.endswith((".bundle", ".diff")):
            continue  # data: these are what they are
        with open(os.path.join(export, file), encoding="utf-8") as f:
            text = f.read()
        check("\x1b" not in text, "%s is raw" % file)
        if file.endswith((".md", ".html", ".txt")):
            clean(text, file)
        if file.endswith(".html"):
            check("<img" not in text and "<script" not in text and "javascript:b\"" not in text, "%s has markup" % file)
        if file.endswith(".md"):
            check(not re.search(r"(?<!\\)(\\\\)*(<img|\[a\\?\]\()", text), "%s has markup" % file)
    check(RAW.search(EVIL) and "onerror" in repo.croft("diff", "one").out, "the control: it is shown, made harmless")
    # For programs, but a terminal may be where it ends up.
    for args in (("diff", "--json", "one"), ("status", "--json", "one"), ("log", "--json", "one"), ("ls", "--json"),
                 ("evidence", "show", "--json", "one")):
        r = repo.croft(*args)
        check("\x1b" not in r.out and "\x9b" not in r.out, "croft %s: raw" % " ".join(args[:2]))
        json.loads(r.out)


# ---- L7 ----

def tokens():
    rnd = hashlib.sha256(os.urandom(8)).hexdigest()
    return {"github": "ghp_" + (rnd * 2)[:36], "aws": "AKIA" + rnd[:16].upper(), "npm": "npm_" + rnd[:36],
            "openai": "sk-proj-" + rnd[:48], "anthropic": "sk-ant-api03-" + rnd[:60], "slack": "xoxb-1234567890-" + rnd[:24],
            "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJ" + rnd[:30] + "." + rnd[30:60], "google": "AIza" + rnd[:35],
            "assigned": "password=" + rnd[5:30], "url": "https://user:" + rnd[9:30] + "@example.org/"}


PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n"


@probe("L7-tokens")
def tokens_in_output(p):
    """Secrets that a command prints, or was given as arguments, are in no object and no file of croft's."""
    repo, found = Repo(p), tokens()
    secret, body = "V4lu3-" + os.urandom(12).hex(), base64.b64encode(os.urandom(120)).decode()
    gateway = os.path.join(os.path.dirname(harness.find_croft()), "croft-gateway")
    check(os.path.exists(gateway), "%s is not built" % gateway)
    child = p.popen([harness.croft, "secret", "set", "mine"], stdin=subprocess.PIPE)
    _, err = child.communicate(secret.encode(), timeout=harness.WAIT_S)
    check(child.returncode == 0, "secret set: %r" % err)
    text = "".join("%s: %s\n" % item for item in found.items()) + PEM % body
    values = text + secret + "\n" + base64.b64encode(b"x" + secret.encode()).decode() + "\nmarker-" + p.token + "\n"
    fed = p.popen([harness.croft, "exec", "-q", "--allow-host", "example.org", "--secret", "mine@example.org",
                   repo.name, "--", "cat"], stdin=subprocess.PIPE)
    out, err = fed.communicate(values.encode(), timeout=harness.WAIT_S)
    check(fed.returncode == 0 and found["github"].encode() in out, "the command does not print them: %r" % err)
    repo.croft("exec", "-q", repo.name, "--", "printf", "%s\\n", found["github"], found["aws"], "argument-" + p.token)
    # In pieces, as a terminal or a slow program would give them.
    slow = "import sys, time\nfor c in sys.stdin.read():\n sys.stdout.write(c); sys.stdout.flush()\n"
    fed = p.popen(repo.argv("%s -c '%s'" % (harness.python, slow)), stdin=subprocess.PIPE)
    fed.communicate(text.encode(), timeout=harness.WAIT_S)
    kept = b""
    for git_dir in [repo.git_dir()] + [repo.state("repos", n) for n in os.listdir(repo.state("repos"))]:
        kept += subprocess.run(["git", "--git-dir", git_dir, "-c", "safe.directory=*", "cat-file", "--batch-all-objects",
                                "--batch"], capture_output=True, check=True, env=p.env).stdout
    payloads = [base64.b64decode(x) for x in re.findall(rb'"payload":"([A-Za-z0-9+/=]+)"', kept)]
    kept += b"".join(payloads)
    for where, _, names in os.walk(repo.state()):
        for name in names:
            path = os.path.join(where, name)
            if "/secrets" not in path and os.path.isfile(path):
                with open(path, "rb") as f:
                    kept += f.read()
    check(b"marker-" + p.token.encode() in kept and b"argument-" + p.token.encode() in kept and b"[redacted" in kept,
          "the control: what is no secret is not found either")
    for what, value in list(found.items()) + [("private key", body), ("stored secret", secret)]:
        core = {"assigned": value.split("=")[-1], "url": value.split(":")[-1].split("@")[0]}.get(what, value)
        check(core.encode() not in kept, "%s was kept: %s" % (what, core))
    repo.croft("evidence", "verify", repo.name)


if __name__ == "__main__":
    harness.main()
