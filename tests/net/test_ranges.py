#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of bodies from a host with a secret (S3): Range works, and no part shows what the whole would not."""
import base64
import hashlib

import place  # first: it finds the harness
from place import PYTHON, Skip, case, check, get, https

HOST = "secret.example.com"
VALUE = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
PAD = 100000
MARGIN = 32 << 10
SIZE = 2 * PAD + len(VALUE)
FILL = r'''
import os, sys
text = open(sys.argv[1]).read().replace("@TOKEN@", os.environ["TOKEN"])
open("filled.json", "w").write(text)
os.execv(sys.executable, [sys.executable, "probe.py", "filled.json"])
'''


def ranges(p, *wanted, more=(), heads=False):
    """What each Range gives: (status, content-range, body), and all headers."""
    r = p.croft("secret", "set", "TOKEN", stdin=VALUE)
    if r.rc:
        raise Skip("no secrets here: %s" % r.err)
    policy = {"allow": [HOST], "secrets": [{"name": "TOKEN", "host": HOST, "place": "bearer"}]}
    steps = [https(HOST, get("/file/%d" % PAD, HOST, headers=["Authorization: Bearer @TOKEN@", *more] + ["Range: " + w] * bool(w)))
             for w in wanted]
    p.write("fill.py", FILL)
    r, _ = p.croft_run(policy, PYTHON, "fill.py", p.steps(steps)[2])
    check(VALUE not in r.out + r.err, "the value came back")
    found = [f["responses"][0] for f in p.parse(r, steps)]
    return [(f["status"], dict(f["headers"]).get("content-range"), f["body"], *([dict(f["headers"])] * heads)) for f in found]


@case("S3-ranges")
def parts(p):
    hidden = "x" * PAD + "*" * len(VALUE) + "y" * PAD
    end = SIZE - 1
    cases = {"": (200, None, 0, end), "bytes=0-9": (206, 0, 0, 9), "bytes=0-": (206, 0, 0, end), "bytes=-5": (206, 0, end - 4, end),
             "bytes=%d-" % (end - 4): (206, 0, end - 4, end), "bytes=%d-%d" % (PAD - 5, PAD + 5): (206, 0, PAD - 5, PAD + 5),
             "bytes=%d-%d" % (PAD + 50, PAD + 60): (206, 0, PAD + 50, PAD + 60), "bytes=150000-9999999": (206, 0, 150000, end),
             "bytes=-9999999": (206, 0, 0, end), "bytes=0-4,10-14": (200, None, 0, end), "lines=1-2": (200, None, 0, end),
             "bytes=9-0": (200, None, 0, end), "bytes=x": (200, None, 0, end)}
    found = ranges(p, *cases)
    for (asked, (status, is_part, first, last)), (got, where, body) in zip(cases.items(), found):
        want = None if is_part is None else "bytes %d-%d/%d" % (first, last, SIZE)
        check((got, where) == (status, want), "%s: %s %s" % (asked, got, where))
        check(body == hidden[first:last + 1], "%s: %d bytes, not %d, or other ones" % (asked, len(body), last + 1 - first))
    sent = [dict((k.lower(), v) for k, v in e["headers"]).get("range") for e in p.world.requests("raw")]
    check(sent[1] == "bytes=0-%d" % (9 + MARGIN) and sent[3] == "bytes=-%d" % (5 + MARGIN), sent)
    check(sent[5] == "bytes=%d-%d" % (PAD - 5 - MARGIN, PAD + 5 + MARGIN) and sent[9] is None, sent)


@case("S3-bytes-one-by-one")
def one_by_one(p):
    """The value's bytes, each asked for by itself, and where there is nothing."""
    found = ranges(p, *("bytes=%d-%d" % (i, i) for i in range(PAD - 1, PAD + len(VALUE) + 1)))
    check("".join(body for _, _, body in found) == "x" + "*" * len(VALUE) + "y", found)
    found = ranges(p, "bytes=%d-" % SIZE, "bytes=%d-%d" % (SIZE + MARGIN + 9, SIZE + MARGIN + 99))
    check([(s, w, b) for s, w, b in found] == [(416, "bytes */%d" % SIZE, "")] * 2, found)


@case("S3-range-cut-short")
def cut_short(p):
    """A server that obeys another field, too, ends its part within the value, or begins it there: that is not passed on."""
    at = PAD + 6
    for wanted, other in (("bytes=%d-%d" % (PAD, SIZE), "bytes=%d-%d" % (PAD - MARGIN, at)), ("bytes=%d-" % PAD, "bytes=%d-%d" % (PAD - MARGIN, at)),
                          ("bytes=0-%d" % at, "bytes=0-%d" % at), ("bytes=-%d" % (PAD + 6), "bytes=-%d" % (PAD + 6))):
        p.world.forget()
        status, _, body = ranges(p, wanted, more=["x-ms-range: " + other])[0]
        check(status == 502 and VALUE[:7] not in body and VALUE[-6:] not in body, (wanted, status, body[-200:]))
        sent = dict((k.lower(), v) for k, v in p.world.requests("raw")[0]["headers"])
        check(sent["x-ms-range"] == other, sent)


@case("S3-range-digests")
def digests(p):
    """Where a part that is asked for ends within the value, a digest of that part would tell the value byte by byte."""
    found = ranges(p, *("bytes=0-%d" % (PAD - MARGIN + i) for i in range(6)), heads=True)
    known = ""
    for i, (status, _, body, head) in enumerate(found):
        check(status == 206 and body == "x" * (PAD - MARGIN + 1 + i), (status, len(body)))
        for guess in "ghp_0123456789abcdef":
            part = ("x" * PAD + known + guess).encode()
            made = {"content-digest": "sha-256=:%s:" % base64.b64encode(hashlib.sha256(part).digest()).decode(),
                    "content-md5": base64.b64encode(hashlib.md5(part).digest()).decode()}
            if [n for n in made if head.get(n) == made[n]]:
                known += guess
                break
    check(known == "", "the beginning of the value was found: %s" % known)
    check(all(h.get("x-fixed") == "yes" for *_, h in found), "other headers are gone, too: %s" % found[0][3])
    # The control: the server sends them.
    status, _, _, head = ranges(p, "bytes=0-9", heads=True)[0]
    check(status == 206 and not [n for n in head if "digest" in n or "md5" in n], head)
    plain = p.control([https("raw.example.com", get("/file/10", headers=["Range: bytes=0-9"]))])[0]["responses"][0]
    check("content-digest" in dict(plain["headers"]), plain)


@case("S3-range-fields")
def fields(p):
    """Fields about parts and conditions reach the server."""
    more = ["If-Range: \"v1\"", "If-None-Match: \"v2\"", "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT", "Accept-Language: de", "Accept: text/x"]
    ranges(p, "bytes=0-9", more=more)
    headers = dict((k.lower(), v) for k, v in p.world.requests("raw")[0]["headers"])
    for line in more:
        name, _, value = line.partition(": ")
        check(headers.get(name.lower()) == value, headers)


if __name__ == "__main__":
    place.main()
