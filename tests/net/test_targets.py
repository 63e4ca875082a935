#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# session
"""Request targets that servers read in different ways (N20): carried as they are where no path is judged, refused or read in
one way where one is."""
import place  # first: it finds the harness
from place import BOTH, case, check, get, https, need_service, refusal, statuses

HOST = "raw.example.com"
ODD = ("/a%2Fb", "/a%2fb", "//x", "/x//y", "/100%", "/%zz", "/a/../b", "/%2e%2e/b", "/x?q=\xc3\xa4", "/\xc3\xa4", "/a%5Cb", "/a\\b", "/[x]", "/%41",
       "/@scope%2Fname", "/%2561dmin", "/x?%", "/a;b=c", "/x?a=b?c=%00")
NEVER = ("/a\x01b", "/a\x7fb", "/a#b", "/a\tb", "/x?a\x00b", "a", "")


def targets(p):
    return [r["target"] for r in p.world.requests("raw")]


def ask(path, **more):
    return https(HOST, get(path, **more), wait=8)


def rule(**more):
    return {"allow": [{"host": HOST, "ports": [443], **more}]}


@case("N20-as-sent", tiers=BOTH)
def as_sent(p):
    """A host that is allowed as a whole gets the bytes that were sent, in HTTP/1 and in HTTP/2; what is no target goes nowhere."""
    for policy in (rule(), rule(methods=["GET"])):
        p.world.forget()
        found = p.inside(policy, [ask(path) for path in ODD])
        check([statuses(f) for f in found] == [[200]] * len(ODD), [(o, statuses(f)) for o, f in zip(ODD, found)])
        check(targets(p) == list(ODD), targets(p))
    p.world.forget()
    streams = [{"headers": [[":method", "GET"], [":scheme", "https"], [":authority", HOST], [":path", path]]} for path in ODD if path.isascii()]
    p.inside(rule(), [{"do": "h2", "host": HOST, "port": 443, "tls": {"alpn": ["h2"]}, "streams": streams}])
    check(sorted(targets(p)) == sorted(path for path in ODD if path.isascii()), targets(p))
    p.world.forget()
    found = p.inside(rule(), [ask(path) for path in NEVER])
    check(all(statuses(f) in ([], [400], [505]) for f in found), found)
    check(not targets(p), targets(p))


@case("N20-judged")
def judged(p):
    """As soon as one rule of the host has paths, nothing that could be read in two ways passes; another host's rules do not matter."""
    for policy in (rule(paths=["/**"]), {**rule(), "deny": [{"host": HOST, "ports": [443], "paths": ["/admin/**"]}]},
                   {"allow": [{"host": HOST, "ports": [443]}, {"host": "*.example.com", "ports": [443], "paths": ["/z"]}]}):
        p.world.forget()
        found = p.inside(policy, [ask(path) for path in ODD])
        bad = [path for path, f in zip(ODD, found) if statuses(f) != [400]]
        check(bad == ["/x?q=\xc3\xa4", "/[x]", "/%41", "/@scope%2Fname", "/%2561dmin", "/x?%", "/a;b=c", "/x?a=b?c=%00"], bad)
        check(targets(p) == ["/x?q=\xc3\xa4", "/%5Bx%5D", "/A", "/@scope/name", "/%2561dmin", "/x?%", "/a;b=c", "/x?a=b?c=%00"], targets(p))
    p.world.forget()
    found = p.inside({"allow": [{"host": HOST, "ports": [443]}, {"host": HOST, "ports": [8443], "mode": "http", "paths": ["/z"]},
                                {"host": "www.example.com", "ports": [443], "paths": ["/z"]}]}, [ask("/a%2Fb")])
    check(statuses(found[0]) == [200] and targets(p) == ["/a%2Fb"], found)
    found = p.inside(rule(query={"q": "*"}), [ask("/a%2Fb?q=1"), ask("/x?q=\xc3\xa4"), ask("/x?q=%")])
    check([statuses(f) for f in found] == [[200], [400], [400]], found)


@case("N20-encoded-slash")
def encoded_slash(p):
    """encoded-slash: keep: one segment, whatever is in it; denies hold for either reading; dots stay refused."""
    keep = {"encoded-slash": "keep"}
    policy = {**rule(paths=["/projects/*", "/own/a%2Fb/**"], **keep), "deny": [{"host": HOST, "ports": [443], "paths": ["/projects/secret/**"]}]}
    good = ["/projects/group%2Fname", "/projects/a%2fb%2Fc", "/own/a%2Fb/x"]
    bad = ["/projects/group/name", "/projects/secret%2Fx", "/projects%2Fx", "/own/a/b/x", "/own/a%2Fc/x", "/projects/..%2Fadmin", "/projects/a%2F..%2Fb",
           "/projects/a%2F%2Fb", "/projects/%2Fb", "/projects/a%252Fb", "//projects/x", "/projects/100%", "/projects/a%5Cb", "/projects/SECRET%2Fx"]
    found = p.inside(policy, [ask(path) for path in good + bad])
    check([statuses(f) for f in found[:len(good)]] == [[200]] * len(good), found[:len(good)])
    check(targets(p) == [good[0], "/projects/a%2Fb%2Fc", good[2]], targets(p))
    for path, f in zip(bad, found[len(good):]):
        check(statuses(f) in ([400], [403]), "%s: %s" % (path, f))
    # Another grant of the host with paths that does not say it: nobody can tell which reading it meant.
    policy["allow"].append({"host": HOST, "ports": [443], "paths": ["/x/*"]})
    check(refusal(p.inside(policy, [ask(good[0])])[0])["reason"].startswith("the path has an encoded slash"), "kept")
    for wrong in (rule(**keep), {"deny": [{"host": HOST, "paths": ["/x"], **keep}]}, rule(paths=["/x"], **{"encoded-slash": "yes"})):
        r = p.croft("policy", "check", p.policy(**wrong))
        check(r.rc == 125 and ("encoded-slash" in r.err or "keep" in r.err), r)


@case("N20-decoded-once")
def decoded_once(p):
    """/%2561dmin is the name "%61dmin", for croft and for nginx: judged and served are one."""
    need_service("nginx")
    policy = {"allow": [{"host": "www.example.com", "ports": [443]}], "deny": [{"host": "www.example.com", "paths": ["/admin"]}]}
    paths = ("/%2561dmin", "/%61dmin", "/admin", "/%41dmin", "/hello")
    steps = [https("www.example.com", get(path, "www.example.com"), wait=8) for path in paths]
    found, control = p.inside(policy, steps), p.control(steps)
    check([statuses(f) for f in found] == [[200], [403], [403], [403], [200]], found)
    check("the admin page" not in str(found[0]), found[0])
    check("the admin page" in str(control[1]) and "the admin page" in str(control[2]) and "the admin page" not in str(control[0]), control)


if __name__ == "__main__":
    place.main()
