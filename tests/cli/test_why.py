#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check
"""`croft why`: what was denied, by which rule, and what would allow it."""
import json

from harness import SECRET, check, contains, equal, main, need_tier, test, text


def denied_run(p):
	return p.sh("cat ~/.ssh/id_ed25519; echo x >> ~/.bashrc; true").exits(0)


@test
def test_latest_run(p):
	r = denied_run(p)
	out = text(p.croft("why").exits(0).out)
	for d in r.receipt["denials"]:
		contains(out, d["path"])
	contains(out, ".ssh")
	contains(out, "--read")


@test
def test_by_run_and_by_denial(p):
	r = denied_run(p)
	p.sh("true").exits(0)
	by_run = text(p.croft("why", r.receipt["id"]).exits(0).out)
	for d in r.receipt["denials"]:
		contains(by_run, d["path"])
		one = text(p.croft("why", d["id"]).exits(0).out)
		contains(one, d["path"])
	paths = [d["path"] for d in r.receipt["denials"]]
	one = text(p.croft("why", r.receipt["denials"][0]["id"]).exits(0).out)
	check(sum(path in one for path in paths) == 1, "one denial only", one)


@test
def test_json(p):
	r = denied_run(p)
	document = json.loads(p.croft("why", "--json", r.receipt["id"]).exits(0).out)
	contains(json.dumps(document), p.home + "/.ssh/id_ed25519")


@test
def test_what_would_allow_it_does(p):
	"""The advice is tried: with it, the same read succeeds."""
	r = denied_run(p)
	advice = next(d["allow_with"] for d in r.receipt["denials"] if d["path"].endswith("id_ed25519"))
	words = advice.split()
	contains(words[0], "--", "an option")
	r = p.sh("cat ~/.ssh/id_ed25519", words[0], words[1].strip("'\"")).exits(0)
	contains(r.out, SECRET.encode())


@test
def test_nothing_denied(p):
	"""Only runs with something to ask about are kept; asking for another is answered with a sentence."""
	r = p.sh("true").exits(0)
	p.croft("why", r.receipt["id"]).exits(125).one_sentence()


@test
def test_a_write_that_nobody_watched(p):
	"""By default a write that is refused away from the known paths is not told, and croft why says what tells it."""
	need_tier("namespace")
	r = p.sh("echo x > /etc/croft-new", "--tier", "namespace")
	equal((r.rc, r.denials()), (2, []), "refused")
	contains(r.receipt["coverage"]["writes"], "a write that is refused elsewhere is not observed", "coverage")
	contains(p.croft("why", r.receipt["id"]).exits(125).one_sentence(), "--observe writes")
	r = p.sh("echo x > /etc/croft-new", "--tier", "namespace", "--observe", "writes")
	equal([d["path"] for d in r.denials()], ["/etc/croft-new"], "control")


@test
def test_unknown_and_malformed_ids(p):
	for bad in ("0000000000", "zzz", "../../etc/passwd", "", "x" * 5000, "a.b.c", "\x1b[31m", "0000000000.999"):
		r = p.croft("why", bad)
		check(r.rc == 125, f"exit status for {bad[:20]!r}", r)
		r.one_sentence()


@test
def test_before_any_run(p):
	p.croft("why").exits(125).one_sentence()


@test
def test_text_of_the_sandbox_is_escaped(p):
	p.write("evil.sh", "echo x > \"$(printf '/etc/\\033[31m\\n\\302\\202red')\"; true\n")
	p.run("--", "sh", "evil.sh")
	r = p.croft("why")
	check(b"\x1b" not in r.out + r.err, "escape sequence in the output", r)


@test
def test_repeated_denials_are_counted(p):
	r = p.sh("for i in 1 2 3 4 5; do cat ~/.ssh/id_ed25519; done 2>/dev/null; true").exits(0)
	found = r.denials(p.home + "/.ssh/id_ed25519")
	equal(len(found), 1, "entries")
	# A trap knows that it was followed, not how often.
	check(found[0]["count"] >= (1 if found[0]["seen_by"] == "trap" else 5), "count", found)


@test
def test_flood_of_denials_is_bounded(p):
	r = p.sh("i=0; while [ $i -lt 2000 ]; do (echo x > /etc/croft-$i) 2>/dev/null; i=$((i+1)); done; true", "--observe", "writes").exits(0)
	check(1 <= len(r.receipt["denials"]) <= 1000, "bounded", len(r.receipt["denials"]))
	if len(r.receipt["denials"]) < 2000:
		lost = json.dumps({k: v for k, v in r.receipt.items() if k != "denials"})
		check("lost" in lost or "beyond" in lost or "truncated" in lost or "not_recorded" in lost, "the rest is counted", lost[:3000])


if __name__ == "__main__":
	main()
