/* SPDX-License-Identifier: Apache-2.0 */
/* Judging evidence, in words: see evidence.h. What is judged is in ledger/chain/verify.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "env/env_up.h"
#include "evidence/evidence.h"
#include "ledger/chain/entry.h"
#include "os/path.h"

#define KEY_FILE_MAX_B 65536u

enum known { KEY_GIVEN, KEY_OWN, KEY_UNKNOWN };
static const char *const known_names[] = {"given", "this machine's", "unknown"};

/* One ledger, judged. */
struct judged {
	const struct evidence_ledger *ledger;
	struct ledger_verdict v;
	bool good;
	char kind[64]; /* of the bad event, printable; "" when it cannot be read */
	enum known known;
	bool up;     /* the session without an end is one that runs here now */
	bool landed; /* an event says that this very commit or tree landed */
};

struct judge {
	struct evidence *evidence;
	uint8_t key[KEY_PUBLIC_LEN], own[KEY_PUBLIC_LEN];
	bool has_key, has_own;
};

/* ------------------------------------------------------------------ keys */

static int read_pem(const char *path, uint8_t ret[KEY_PUBLIC_LEN], struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(KEY_FILE_MAX_B);
	int r = file_read_at(AT_FDCWD, path, &b);

	if (r < 0)
		return err_set(e, -r, "read the key %.512s", path);
	r = ledger_key_from_pem(ret, buf_str(&b), b.len, e);
	return r < 0 ? err_wrap(e, "%.512s", path) : 0;
}

/* Looked at, not made: verifying leaves nothing behind. */
static void read_own(struct judge *j)
{
	struct err ignored = ERR_INIT;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/keys/ledger.pub", j->evidence->state_dir) <
		(int)sizeof(path))
		j->has_own = read_pem(path, j->own, &ignored) == 0;
}

/* ------------------------------------------------------------------ one ledger */

static bool names_commit(const struct ledger_entry *x, const struct evidence *v)
{
	const struct jnode *subjects = jget(x->statement, "subject");
	struct oid_hex commit = oid_hex(&v->commit), tree = oid_hex(&v->commit_tree);

	for (size_t i = 0; x->kind == EVENT_APPLIED && i < jlen(subjects); i++) {
		const struct jnode *d = jget(jat(subjects, i), "digest");
		const char *c = jstr(jget(d, "gitCommit")), *t = jstr(jget(d, "gitTree"));

		if ((c && str_eq(c, commit.s)) || (t && str_eq(t, tree.s)))
			return true;
	}
	return false;
}

/* What the commit says of the ledger, and the ledger of the commit. */
static int compare_commit(struct judge *j, struct judged *d, struct err *e)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	cleanup_free struct oid *v = NULL;
	bool claimed = !d->ledger->claimed[0];
	size_t n = 0;
	int r = ledger_commits(&j->evidence->repo, &d->ledger->tip, &v, &n, e);

	if (r == 0)
		r = entry_source_open(&s, &j->evidence->repo, e);
	for (size_t i = 0; r == 0 && i < n; i++) {
		cleanup_entry_raw struct entry_raw raw = {0};
		cleanup_entry struct ledger_entry x = {0};

		r = entry_load(&s, &v[i], &raw, &x, e);
		if (r < 0)
			break;
		claimed = claimed || str_eq(x.envelope.hex, d->ledger->claimed);
		d->landed = d->landed || names_commit(&x, j->evidence);
	}
	if (r == 0 && !claimed) {
		d->good = false;
		d->v.bad_seq = d->v.events + 1;
		snprintf(d->v.why, sizeof(d->v.why),
			"it is missing: the commit rests on the event %.16s…, which this ledger "
			"does not have; the newest events were cut off, or the trailer is wrong",
			d->ledger->claimed);
	}
	return r;
}

static void bad_kind(struct judge *j, struct judged *d)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	cleanup_buf struct buf shown = BUF_INIT(sizeof(d->kind) - 1);
	struct err ignored = ERR_INIT;

	if (oid_is_none(&d->v.bad_commit) ||
		entry_source_open(&s, &j->evidence->repo, &ignored) < 0 ||
		entry_load(&s, &d->v.bad_commit, &raw, &x, &ignored) < 0)
		return;
	str_show(&shown, x.kind_text, strnlen(x.kind_text, 12));
	snprintf(d->kind, sizeof(d->kind), "%s", buf_str(&shown));
}

/* No record is missing of a session that goes on: there will be more. */
static bool still_up(const struct judged *d)
{
	cleanup_env struct env v;
	struct err ignored = ERR_INIT;

	env_init(&v);
	return d->v.open_session[0] && env_open_record(&v, d->v.env_name, &ignored) == 0 &&
	       str_eq(v.id, d->ledger->id) && env_is_up(&v);
}

static int judge_one(struct judge *j, struct judged *d, struct err *e)
{
	int r = ledger_verify(
		&j->evidence->repo, &d->ledger->tip, j->has_key ? j->key : NULL, &d->v, e);

	if (r < 0)
		return r;
	d->good = d->v.good;
	d->known = j->has_key                                                      ? KEY_GIVEN
		   : j->has_own && memcmp(j->own, d->v.key, sizeof(d->v.key)) == 0 ? KEY_OWN
										   : KEY_UNKNOWN;
	if (d->good && !str_eq(d->v.env_id, d->ledger->id)) {
		d->good = false;
		d->v.bad_seq = 1;
		d->v.events = 0;
		snprintf(d->v.why, sizeof(d->v.why),
			"it belongs to the environment %s and not to this ref", d->v.env_id);
	}
	if (d->good && !oid_is_none(&j->evidence->commit))
		r = compare_commit(j, d, e);
	if (!d->good)
		bad_kind(j, d);
	d->up = d->good && still_up(d);
	return r;
}

/* ------------------------------------------------------------------ words */

static void text_bad(const struct judged *d, struct buf *out)
{
	const struct ledger_verdict *v = &d->v;

	if (v->bad_seq)
		buf_addf(out, "event %" PRIu64, v->bad_seq);
	else
		buf_adds(out, "the newest event");
	if (!oid_is_none(&v->bad_commit))
		buf_addf(out, " (%s%scommit %.12s)", d->kind, d->kind[0] ? ", " : "",
			oid_hex(&v->bad_commit).s);
	buf_adds(out, ": ");
	str_show_all(out, v->why);
	buf_addf(out, "\n  %" PRIu64 " event%s before it %s good\n", v->events,
		v->events == 1 ? "" : "s", v->events == 1 ? "is" : "are");
}

/* Every event is good, and none can be missing of a session that is over without an end. */
static bool whole(const struct judged *d)
{
	return d->good && (d->up || !d->v.open_session[0]);
}

static void text_one(const struct judge *j, const struct judged *d, struct buf *out)
{
	buf_addf(out, "%s: ", !d->good ? "BAD" : whole(d) ? "good" : "INTERRUPTED");
	str_show_all(out, d->v.env_name[0] ? d->v.env_name : "?");
	buf_addf(out, " (%s): ", d->ledger->id);
	if (!d->good) {
		text_bad(d, out);
		return;
	}
	buf_addf(out, "%" PRIu64 " event%s, signed with the key %.16s… (%s)\n", d->v.events,
		d->v.events == 1 ? "" : "s", d->v.key_id.hex,
		d->known == KEY_GIVEN ? "the one that was given"
		: d->known == KEY_OWN ? "this machine's"
				      : "unknown here: compare it with its owner's, --key FILE");
	if (d->up) {
		buf_addf(out, "  session %s is up and goes on: there will be more events\n",
			d->v.open_session);
	} else if (d->v.open_session[0]) {
		buf_adds(out, "  ");
		ledger_say_open(&d->v, out);
		buf_addc(out, '\n');
	}
	if (!oid_is_none(&j->evidence->commit))
		buf_addf(out, "  commit %.12s: %s\n", oid_hex(&j->evidence->commit).s,
			d->landed ? "an event says that it landed so"
				  : "no event names it or its tree: it was rebased, squashed or "
				    "changed after landing");
}

static void json_one(const struct judge *j, const struct judged *d, struct json *w)
{
	json_object(w, NULL);
	json_str(w, "env", d->v.env_name[0] ? d->v.env_name : NULL);
	json_str(w, "id", d->ledger->id);
	json_strf(w, "ref", LEDGER_REF_PREFIX "%s", d->ledger->id);
	json_str(w, "tip", oid_hex(&d->ledger->tip).s);
	json_bool(w, "good", whole(d));
	if (d->v.open_session[0]) {
		json_object(w, d->up ? "up" : "interrupted");
		json_str(w, "session", d->v.open_session);
		json_uint(w, "event", d->v.open_seq);
		json_end(w);
	}
	json_uint(w, "events", d->v.events);
	json_str(w, "key_id", d->v.key_id.hex[0] ? d->v.key_id.hex : NULL);
	json_str(w, "key_known", known_names[d->known]);
	json_str(w, "last_envelope", d->v.tip.hex[0] ? d->v.tip.hex : NULL);
	if (!oid_is_none(&j->evidence->commit)) {
		json_str(w, "commit", oid_hex(&j->evidence->commit).s);
		json_bool(w, "commit_landed", d->landed);
	}
	if (!d->good) {
		json_object(w, "bad");
		json_uint(w, "event", d->v.bad_seq);
		json_str(w, "kind", d->kind[0] ? d->kind : NULL);
		json_str(w, "commit",
			oid_is_none(&d->v.bad_commit) ? NULL : oid_hex(&d->v.bad_commit).s);
		json_str(w, "why", d->v.why);
		json_end(w);
	}
	json_end(w);
}

static void limits_json(struct json *w)
{
	json_array(w, "not_proven");
	for (const char *p = ledger_limits; *p;) {
		size_t n = strcspn(p, "\n");

		json_strn(w, NULL, p, n);
		p += n + (p[n] == '\n');
	}
	json_end(w);
}

int evidence_verify(
	struct evidence *v, const char *key_file, bool as_json, struct buf *out, struct err *e)
{
	struct judge j = {.evidence = v};
	struct json w;
	bool good = true;
	int r = 0;

	if (key_file && (r = read_pem(key_file, j.key, e)) < 0)
		return r;
	j.has_key = key_file != NULL;
	read_own(&j);
	json_init(&w, out, true);
	if (as_json) {
		json_object(&w, NULL);
		json_str(&w, "schema", "croft.verify/v1");
		json_array(&w, "ledgers");
	}
	for (size_t i = 0; i < v->ledgers_n; i++) {
		struct judged d = {.ledger = &v->ledgers[i]};

		r = judge_one(&j, &d, e);
		if (r < 0)
			return r;
		good = good && whole(&d);
		if (as_json)
			json_one(&j, &d, &w);
		else
			text_one(&j, &d, out);
	}
	if (as_json) {
		json_end(&w);
		json_bool(&w, "good", good);
		limits_json(&w);
		json_end(&w);
		buf_addc(out, '\n');
	} else {
		buf_adds(out, ledger_limits);
	}
	return good ? 0 : 1;
}

int evidence_key(bool as_json, struct buf *out, struct err *e)
{
	cleanup_free char *state = NULL;
	cleanup_buf struct buf pem = BUF_INIT(4096);
	struct ledger_key k;
	struct json w;
	int r = env_state_dir(&state, NULL, e);

	if (r == 0)
		r = ledger_key_load(&k, state, e);
	if (r < 0)
		return r;
	ledger_key_pem(k.public, &pem);
	if (as_json) {
		json_init(&w, out, true);
		json_object(&w, NULL);
		json_str(&w, "key_id", k.id.hex);
		json_str(&w, "pem", buf_str(&pem));
		json_end(&w);
		buf_addc(out, '\n');
	} else {
		buf_addf(out, "%s# key id %s\n", buf_str(&pem), k.id.hex);
	}
	ledger_key_wipe(&k);
	return 0;
}
