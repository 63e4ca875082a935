#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""croft prove in both tiers, and its negative control: each probe must escape where nothing holds it."""
import json
import os

import harness
from harness import Fail, check


def prove(place, *options):
    r = place.finish(place.popen([harness.croft, "prove", "--json"] + list(options)), 300)
    try:
        return r, json.loads(r.out)
    except ValueError as e:
        raise Fail("no report: %s\n%s" % (e, r)) from e


def lines(report, label):
    """One line per probe, so that a run shows what was covered."""
    for p in report["probes"]:
        name = "%s [%s]" % (p["name"], label)
        if p["result"] == "SKIPPED":
            harness.report("skip", name, p["detail"])
        elif p["result"] == ("ESCAPED" if report["control"] else "HELD"):
            harness.report("ok", name)
        else:
            harness.report("not ok", name)
            harness.details("%s: %s" % (p["result"], p["detail"]))


@harness.case("prove-tier")
def tier(place):
    r, report = prove(place, "--tier", place.tier)
    lines(report, "%s,%s" % (place.tier, place.user.label))
    check(report["escaped"] == 0 and report["failed"] == 0,
          "%d escaped, %d failed" % (report["escaped"], report["failed"]))
    check(r.rc == 0, "exit %d\n%s" % (r.rc, r.err))
    check(report["held"] >= 40, "only %d probes held" % report["held"])
    left = [n for n in os.listdir("/var/tmp") + os.listdir("/tmp") if n.startswith("croft-prove.")]
    check(not left or place.user.uid != 0, "bait left behind: %s" % left)


@harness.case("prove-control", once=True)
def control(place):
    r, report = prove(place, "--control")
    lines(report, "control,%s" % place.user.label)
    weak = [p["name"] for p in report["probes"] if p["result"] not in ("ESCAPED", "SKIPPED")]
    check(not weak, "these prove nothing: %s" % ", ".join(weak))
    check(r.rc == 0, "exit %d\n%s" % (r.rc, r.err))
    # Root can do everything that is tried, so that only missing kernel features are left out.
    if place.user.label == "root":
        check(report["skipped"] <= 6, "%d controls skipped" % report["skipped"])


@harness.case("prove-reports-escape", tiers=("namespace",))
def reports_escape(place):
    """A probe that gets through makes prove fail: the judge itself has a control."""
    r, report = prove(place, "--control", "--only", "F1-outside,R7-daemon")
    check([p["result"] for p in report["probes"]] == ["ESCAPED", "ESCAPED"], report)
    r = place.plain(harness.croft, "prove", "--only", "no-such-probe")
    check(r.rc == 125 and "no-such-probe" in r.err, r)


@harness.case("probe-list", tiers=("namespace",), once=True)
def catalogue(place):
    """Every entry of the catalogue that can be tried from inside has at least one probe."""
    r = place.plain(harness.croft, "probe", "--list")
    have = {line.split()[0] for line in r.out.splitlines() if line.strip()}
    want = {"F%d" % n for n in (1, 2, 3, 4, 5, 6, 8, 9, 10, 13, 14, 15)} | {"G14", "G17", "G18", "L12"} | \
        {"I%d" % n for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14)} | \
        {"K%d" % n for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)} | {"R1", "R2", "R6", "R7", "A1", "A3", "S7"}
    check(want <= have, "no probe for %s" % ", ".join(sorted(want - have)))


if __name__ == "__main__":
    harness.main()
