/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing events: see ledger.h.
 *
 * Order:   the event is judged -> statement -> signature -> blobs, tree, commit (each on the disk before
 *          it is named) -> the ref, by compare-and-swap. Only the last step shows.
 * Time:    an event is never before the one it follows, or an honest ledger would look back-dated after
 *          the machine's clock was set back: then it gets the time of that one, and says what the
 *          clock said.
 * Failure: nothing is half there. A caller that tries the same event again makes the same commit.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/dsse.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/ledger.h"
#include "ledger/chain/statement.h"
#include "os/path.h"

#define REF_MAX (sizeof(LEDGER_REF_PREFIX) + LEDGER_ID_LEN)

static int ref_name(char ret[REF_MAX], const char *env_id, struct err *e)
{
	if (!ledger_id_valid(env_id))
		return err_invalid(
			e, "%.40s is not the id of an environment (16 hex digits)", env_id);
	snprintf(ret, REF_MAX, LEDGER_REF_PREFIX "%s", env_id);
	return 0;
}

/* ------------------------------------------------------------------ the newest event */

static int tip_fill(struct ledger_tip *ret, const struct ledger_entry *x, struct err *e)
{
	const char *run = jstr(jget(entry_croft(x), "run"));
	struct ledger_tip t = {
		.commit = x->commit, .envelope = x->envelope, .seq = x->seq, .schema = x->schema};

	if (!ledger_time_parse(x->time, &t.time))
		return err_invalid(e, "its time cannot be read");
	if (run && strlen(run) >= sizeof(t.run_id))
		return err_invalid(e, "its run has too long a name");
	snprintf(t.run_id, sizeof(t.run_id), "%s", run ? run : "");
	if (strlen(x->key_id) == DIGEST_HEX_LEN)
		snprintf(t.key_id.hex, sizeof(t.key_id.hex), "%s", x->key_id);
	*ret = t;
	return 0;
}

int ledger_tip(struct ledger_tip *ret, const struct repo *r, const char *env_id, struct err *e)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	char ref[REF_MAX];
	struct oid tip;
	int n = ref_name(ref, env_id, e);

	if (n < 0)
		return n;
	n = ref_read(r, ref, &tip, e);
	if (n == -ENOENT) {
		*e = ERR_INIT;
		*ret = (struct ledger_tip){0};
		return 0;
	}
	if (n == 0)
		n = entry_source_open(&s, r, e);
	if (n == 0)
		n = entry_load(&s, &tip, &raw, &x, e);
	if (n == 0 && !str_eq(x.env_id, env_id))
		n = err_invalid(e, "it belongs to the environment %s", x.env_id);
	if (n == 0)
		n = tip_fill(ret, &x, e);
	return n < 0 ? err_wrap(e, "the newest event of the ledger (%s)", ref) : 0;
}

/* ------------------------------------------------------------------ judging an event */

/* "gitTree", "sha256": a word. */
static bool algorithm_valid(const char *a)
{
	size_t n = strlen(a);

	return n > 0 && n <= 32 &&
	       strspn(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static bool hex_valid(const char *s)
{
	return str_hex(s, 40, 40) || str_hex(s, 64, 64);
}

static int judge_subjects(const struct ledger_event *ev, struct err *e)
{
	const char *names[LEDGER_SUBJECTS_MAX + LEDGER_FILES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < ev->subjects_n; i++) {
		const struct ledger_subject *s = &ev->subjects[i];

		if (!s->name || !*s->name || !utf8_valid(s->name, strlen(s->name)) ||
			!s->algorithm || !algorithm_valid(s->algorithm) || !s->value ||
			!hex_valid(s->value))
			return err_invalid(
				e, "subject %zu of an event has no good name or digest", i);
		names[n++] = s->name;
	}
	for (size_t i = 0; i < ev->files_n; i++) {
		const struct ledger_file *f = &ev->files[i];

		if (!f->name || !ledger_file_name_valid(f->name))
			return err_invalid(e, "file %zu of an event has no good name", i);
		if (f->n > LEDGER_FILE_MAX_B)
			return err_set(e, EFBIG, "file %s of an event has more than %u MiB",
				f->name, LEDGER_FILE_MAX_B >> 20);
		names[n++] = f->name;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (str_eq(names[i], names[k]))
				return err_invalid(e, "two subjects of an event have one name");
	return n ? 0 : err_invalid(e, "an event has at least one subject or file");
}

static int judge(const struct ledger_event *ev, const struct ledger_key *k,
	const struct ledger_tip *tip, struct err *e)
{
	bool first = oid_is_none(&tip->commit);

	if ((size_t)ev->kind >= EVENT_NUM || !ev->predicate_type || !*ev->predicate_type)
		return err_invalid(e, "an event needs a kind and a predicate type");
	if (first != (tip->seq == 0) || tip->seq >= LEDGER_EVENTS_MAX)
		return err_invalid(e, "the end of the ledger is not known, or it is full");
	if (first != (ev->kind == EVENT_CREATED || ev->kind == EVENT_FORKED) &&
		(first || ev->kind == EVENT_CREATED))
		return err_invalid(
			e, "a ledger begins with created or forked, and created comes first");
	if (!ev->env_id || !ledger_id_valid(ev->env_id) || !ev->env_name || !*ev->env_name ||
		strlen(ev->env_name) > LEDGER_NAME_MAX ||
		!utf8_valid(ev->env_name, strlen(ev->env_name)))
		return err_invalid(e, "an event needs an environment's id and name");
	if (ev->subjects_n > LEDGER_SUBJECTS_MAX || ev->files_n > LEDGER_FILES_MAX)
		return err_invalid(e, "an event has too many subjects or files");
	if (ev->run_id && strlen(ev->run_id) >= sizeof(tip->run_id))
		return err_invalid(e, "the run's name is too long");
	if (tip->key_id.hex[0] && !str_eq(tip->key_id.hex, k->id.hex))
		return err_refuse(e,
			"this ledger is signed with the key %.16s…, and this machine's is %.16s…; "
			"a ledger has one key: fork the environment to go on",
			tip->key_id.hex, k->id.hex);
	return judge_subjects(ev, e);
}

/* ------------------------------------------------------------------ writing */

static bool before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Text of the statement, and the envelope around it. */
static int seal(const struct ledger_key *k, const struct ledger_event *ev,
	const struct statement_place *at, struct buf *envelope, struct err *e)
{
	cleanup_buf struct buf statement = BUF_INIT(DSSE_PAYLOAD_MAX_B);
	int r = statement_write(ev, at, &statement, e);

	if (r < 0)
		return r;
	dsse_write(k, DSSE_INTOTO, statement.data, statement.len, envelope);
	return envelope->failed ? err_set(e, ENOMEM, "sign an event") : 0;
}

static int write_tree(struct git_store *s, const struct ledger_event *ev,
	const struct buf *envelope, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf raw = BUF_INIT(LEDGER_TREE_MAX_B);
	struct ledger_blob v[LEDGER_FILES_MAX + 1];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < ev->files_n; i++) {
		const struct ledger_file *f = &ev->files[i];

		v[n].name = f->name;
		r = git_write(s, GIT_BLOB, f->n ? f->p : "", f->n, &v[n].oid, e);
		if (r < 0)
			return r;
		n++;
	}
	v[n].name = LEDGER_STATEMENT;
	r = git_write(s, GIT_BLOB, envelope->data, envelope->len, &v[n].oid, e);
	if (r < 0)
		return r;
	ledger_tree_text(v, n + 1, &raw);
	if (raw.failed)
		return err_set(e, ENOMEM, "write an event");
	return git_write(s, GIT_TREE, raw.data, raw.len, ret, e);
}

static int write_commit(struct git_store *s, const struct oid *tree, const struct oid *parent,
	const struct timespec *t, const char *title, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf raw = BUF_INIT(LEDGER_COMMIT_MAX_B);

	ledger_commit_text(tree, parent, t->tv_sec, title, &raw);
	if (raw.failed)
		return err_set(e, ENOMEM, "write an event");
	return git_write(s, GIT_COMMIT, raw.data, raw.len, ret, e);
}

static int write_objects(const struct repo *repo, const struct ledger_event *ev,
	const struct buf *envelope, const struct oid *parent, const struct timespec *t,
	const char *title, struct oid *ret, struct err *e)
{
	struct git_store s = {.objects_fd = -1};
	struct oid tree;
	int r = repo_ledger_store(repo, &s, e);

	if (r < 0)
		return r;
	r = write_tree(&s, ev, envelope, &tree, e);
	if (r == 0)
		r = write_commit(&s, &tree, parent, t, title, ret, e);
	/* Syncing the ref, which comes next in the same file system, settles the names as well. */
	if (r == 0)
		r = (fd_settles_all(s.objects_fd) ? git_store_name : git_store_flush)(&s, e);
	git_store_close(&s);
	return r;
}

static void tip_move(struct ledger_tip *tip, const struct ledger_event *ev,
	const struct oid *commit, const struct buf *envelope, const struct timespec *t,
	const struct ledger_key *k)
{
	struct ledger_tip next = {.commit = *commit,
		.seq = tip->seq + 1,
		.time = *t,
		.key_id = k->id,
		.schema = statement_schema(ev->kind, tip->schema)};

	digest_sha256(&next.envelope, envelope->data, envelope->len);
	snprintf(next.run_id, sizeof(next.run_id), "%s", ev->run_id ? ev->run_id : "");
	*tip = next;
}

/* A statement has a subject. An event about nothing else is about where the ledger was. */
static const struct ledger_event *with_subject(
	const struct ledger_event *ev, const struct ledger_tip *tip, struct ledger_event *room)
{
	if (ev->subjects_n || ev->files_n || !tip->seq)
		return ev;
	*room = *ev;
	room->subjects[room->subjects_n++] =
		(struct ledger_subject){"previous", "sha256", tip->envelope.hex};
	return room;
}

int ledger_append(const struct repo *repo, const struct ledger_key *k,
	const struct ledger_event *given, struct ledger_tip *tip, struct err *e)
{
	struct ledger_event room;
	const struct ledger_event *ev = with_subject(given, tip, &room);
	cleanup_buf struct buf envelope = BUF_INIT(DSSE_ENVELOPE_MAX_B);
	struct timespec t = before(&ev->time, &tip->time) ? tip->time : ev->time;
	struct ledger_time when, clock;
	struct ledger_title title;
	struct statement_place at = {.seq = tip->seq + 1,
		.schema = statement_schema(ev->kind, tip->schema),
		.time = when.s,
		.title = title.s};
	struct oid commit;
	char ref[REF_MAX];
	int r = judge(ev, k, tip, e);

	if (r == 0)
		r = ref_name(ref, ev->env_id, e);
	if (r == 0 && (!ledger_time_text(&t, &when) || !ledger_time_text(&ev->time, &clock)))
		r = err_invalid(
			e, "the time of an event is not between 1970 and 9999; set the clock");
	if (r < 0)
		return err_wrap(e, "write evidence");
	t.tv_nsec -= t.tv_nsec % 1000;
	ledger_title(ev->title, ev->kind, &title);
	at.clock = str_eq(clock.s, when.s) ? NULL : clock.s;
	at.previous = tip->seq ? tip->envelope.hex : NULL;
	at.key = tip->seq ? NULL : k->public;
	r = seal(k, ev, &at, &envelope, e);
	if (r == 0)
		r = write_objects(repo, ev, &envelope, &tip->commit, &t, title.s, &commit, e);
	if (r == 0)
		r = ref_move(repo, ref, &tip->commit, &commit, e);
	if (r < 0)
		return r == -EAGAIN ? r : err_wrap(e, "write evidence");
	tip_move(tip, ev, &commit, &envelope, &t, k);
	return 0;
}
