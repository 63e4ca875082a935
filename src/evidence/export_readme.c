/* SPDX-License-Identifier: Apache-2.0 */
/* README.txt of a bundle: how to check it with openssl and git alone. */
#include "evidence/export.h"

/* Between the marks: a program for any POSIX shell. A test runs it as it stands. */
static const char script[] =
	"    n=0 before=none open= cut=\n"
	"    while IFS= read -r line; do\n"
	"      n=$((n + 1))\n"
	"      part() { printf %s \"$line\" | sed \"s/.*\\\"$1\\\":\\\"\\([^\\\"]*\\)\\\".*/\\1/\" "
	"|\n"
	"        openssl base64 -d -A; }\n"
	"      part payload > \"$tmp/payload\"\n"
	"      part sig > \"$tmp/sig\"\n"
	"      { printf 'DSSEv1 28 application/vnd.in-toto+json %d ' \"$(wc -c < "
	"\"$tmp/payload\")\"\n"
	"        cat \"$tmp/payload\"; } > \"$tmp/signed\"\n"
	"      openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in \"$tmp/signed\" \\\n"
	"        -sigfile \"$tmp/sig\" > /dev/null 2>&1 || { echo \"event $n: bad signature\"; "
	"exit 1; }\n"
	"      if [ \"$before\" != none ] && ! grep -q \"\\\"previous\\\":\\\"$before\\\"\" "
	"\"$tmp/payload\"; then\n"
	"        echo \"event $n: does not follow the one before\"; exit 1\n"
	"      fi\n"
	"      before=$(printf '%s\\n' \"$line\" | sha256sum | cut -d' ' -f1)\n"
	"      if grep -q '\"predicateType\":\"urn:croft:session:v1\"' \"$tmp/payload\"; then\n"
	"        if grep -q '\"begin\":{' \"$tmp/payload\"; then cut=\"$cut$open\" open=\" $n\"; "
	"fi\n"
	"        if grep -q '\"end\":{' \"$tmp/payload\"; then open=; fi\n"
	"      fi\n"
	"    done < evidence.intoto.jsonl\n"
	"    echo \"$n events: every signature and every link is good\"\n"
	"    for n in $cut $open; do\n"
	"      echo \"event $n: the session that began here has no end: it still ran, or was "
	"interrupted\"\n"
	"    done\n";

void export_readme(const struct ledger_verdict *v, const char *id, bool sha256, struct buf *out)
{
	buf_addf(out,
		"This directory is the evidence of one croft environment, %s. It can be read and\n"
		"checked without croft.\n\n"
		"  report.md, report.html  what happened, for people; start here\n"
		"  patch.diff              what changed; `git apply` takes it\n"
		"  evidence.intoto.jsonl   every event, an in-toto statement in a signed DSSE "
		"envelope\n"
		"  evidence.bundle         the same as a Git history, with the files events speak "
		"of\n"
		"  denials.sarif           what was refused, for code hosts and editors\n"
		"  receipts/N.json         the receipt of event N; N.M: of entry M of a session's\n"
		"  output/N.txt            what the command of event N printed, if it was asked "
		"for\n"
		"  agent-trace.json        an Agent Trace record, if it was asked for\n"
		"  key.pem                 the public key (ed25519); its id is\n"
		"                          %s\n"
		"  MANIFEST                SHA-256 of every file\n\n",
		id, v->key_id.hex);
	buf_adds(out,
		"1. Are the files complete? In this directory:\n\n"
		"    sha256sum -c MANIFEST\n\n"
		"2. Is every event signed with the key, and does each follow the one before?\n\n"
		"    tmp=$(mktemp -d)\n");
	buf_adds(out, script);
	buf_addf(out,
		"\n3. Do the files that events speak of have the digests that were signed? Each "
		"event\n"
		"is a commit, and its statement names every file beside it with its SHA-256:\n\n"
		"    git init -q --bare %s\"$tmp/evidence.git\"\n"
		"    git -C \"$tmp/evidence.git\" fetch -q \"$PWD/evidence.bundle\" \\\n"
		"      refs/croft/env/%s:refs/heads/e\n"
		"    git -C \"$tmp/evidence.git\" log --oneline e\n"
		"    git -C \"$tmp/evidence.git\" show e:statement.dsse.json | sha256sum\n\n"
		"4. Is it the right key? That a bundle does not tell: compare the id above with "
		"one\n"
		"that its owner gave you another way (croft evidence key).\n\n",
		sha256 ? "--object-format=sha256 " : "", id);
	buf_adds(out, ledger_limits);
}
