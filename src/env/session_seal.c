/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a batch of a session's records to one event of the ledger: see session_journal.h.
 *
 * Order:  look at the tree (when nothing runs) -> SFRAME_SEAL: from here on the event is determined ->
 *         the event, synced -> SFRAME_SEALED. Whoever finds a batch with SFRAME_SEAL and without
 *         SFRAME_SEALED makes the same event, unless the ledger has it.
 * Trees:  a tree is the work of every process that existed since the last look, and the event says of which.
 *         A look during which a process was started counts for nothing: it is taken later.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "env/env_impl.h"
#include "env/journal_event.h"
#include "env/session_journal_impl.h"
#include "ledger/chain/entry.h"
#include "os/clock.h"
#include "os/forced.h"

#define STACK_B (8u << 20) /* a C library may give a thread as little as 128 KiB */
#define MEMBERS_MAX_B (2u << 20)
#define FIND_MAX 4096u /* events that are looked at from the newest on */

/* ---- what the event will say ---- */

static void interval_json(
	const struct sjob *job, const struct changes *c, const struct timespec *now, struct json *w)
{
	char from[40], to[40];

	env_time_text(&job->from, from);
	env_time_text(now, to);
	json_object(w, "interval");
	json_str(w, "from", from);
	json_str(w, "to", to);
	sranges_json(&job->alive, w, "processes");
	if (job->alive.coarse)
		json_bool(w, "processesExact", false);
	json_end(w);
	if (!oid_is_none(&c->tree))
		json_str(w, "treeAfter", oid_hex(&c->tree).s);
	if (c->unnamed)
		json_uint(w, "filesNotNamed", c->unnamed);
}

/* Members of the predicate, beside its entries. */
static void members(const struct sjournal *j, const struct changes *c, bool settled,
	const struct timespec *now, struct buf *out)
{
	const struct sbatch *b = j->job.batch;
	struct digest host;
	struct json w;

	journal_host_id(&host);
	json_init(&w, out, false);
	json_str(&w, "session", j->id);
	json_uint(&w, "batch", b->no);
	json_str(&w, "hostID", host.hex);
	if (b->begin) {
		buf_adds(out, ",\"begin\":");
		buf_adds(out, j->begin);
	}
	if (b->end) {
		json_object(&w, "end");
		json_str(&w, "how", b->interrupted ? "interrupted" : "ended");
		if (j->left) {
			buf_adds(out, ",\"left\":");
			buf_adds(out, j->left);
		}
		json_end(&w);
	}
	sranges_json(&j->job.running, &w, "running");
	if (settled)
		interval_json(&j->job, c, now, &w);
}

static void title(const struct sjournal *j, struct buf *out)
{
	const struct sbatch *b = j->job.batch;

	buf_addf(out, "session %s", j->id);
	if (b->begin)
		buf_adds(out, " began");
	if (b->started_n || b->ended_n)
		buf_addf(out, "%s %u started, %u ended", b->begin ? "," : ":", b->started_n,
			b->ended_n);
	else if (!b->begin && !b->end)
		buf_adds(out, ": what it changed");
	if (b->end)
		buf_addf(out, "%s %s", b->started_n || b->ended_n || b->begin ? "; it" : "",
			b->interrupted ? "was cut off" : "ended");
}

static int seal_json(const struct sjournal *j, const struct changes *c, bool settled,
	const struct timespec *now, struct buf *out)
{
	cleanup_buf struct buf text = BUF_INIT(MEMBERS_MAX_B), head = BUF_INIT(256);
	struct json w;

	members(j, c, settled, now, &text);
	title(j, &head);
	json_init(&w, out, false);
	json_object(&w, NULL);
	json_int(&w, "seconds", now->tv_sec);
	json_int(&w, "nanoseconds", now->tv_nsec);
	json_bool(&w, "settled", settled);
	json_bool(&w, "end", j->job.batch->end);
	json_str(&w, "tree", settled && !oid_is_none(&c->tree) ? oid_hex(&c->tree).s : NULL);
	json_str(&w, "title", buf_str(&head));
	json_strn(&w, "members", buf_str(&text), text.len);
	json_end(&w);
	return text.failed || head.failed || out->failed ? -E2BIG : 0;
}

/*
 * The lock is held from the question whether a process was started to the record: then a process whose
 * record comes after SFRAME_SEAL in the file began after the look.
 */
static int write_seal(
	struct sjournal *j, const struct changes *c, bool looked, struct buf *ret, struct err *e)
{
	struct sjob *job = &j->job;
	struct sframe f = {.kind = SFRAME_SEAL, .batch = job->batch->no};
	int r;

	env_now(&job->when);
	pthread_mutex_lock(&j->lock);
	job->settled = looked && (!job->quiet || j->starts == job->starts);
	if (job->settled)
		job->tree = c->tree;
	r = seal_json(j, c, job->settled, &job->when, ret);
	if (r < 0)
		err_set(e, -r, "the record of session %s", j->id);
	f.part[0] = (struct sframe_part){buf_str(ret), ret->len};
	if (r == 0)
		r = sjournal_append_locked(j, &f, e);
	pthread_mutex_unlock(&j->lock);
	if (r < 0)
		buf_reset(ret);
	return r;
}

static int seal(struct sjournal *j, struct err *e)
{
	cleanup_changes struct changes c = {0};
	struct sjob *job = &j->job;
	struct err why = ERR_INIT;
	bool looked = false;

	if (job->batch->seal.len)
		return 0;
	/* Without a look there is no tree in the event; it is not a reason to have no event. */
	if (job->settle)
		looked = env_settle(j->env, &job->from, &c, &why) == 0;
	return write_seal(j, &c, looked, &job->batch->seal, e);
}

/* ---- the event ---- */

static void add_file(struct ledger_event *ev, const char *name, const struct buf *b)
{
	if (b->len)
		ev->files[ev->files_n++] = (struct ledger_file){name, b->data, b->len};
}

/* Only from what is in the file: made again after a crash, it has the same bytes. */
static int append_event(struct sjournal *j, const struct sbatch *b, struct err *e)
{
	cleanup_buf struct buf predicate = BUF_INIT(SJOURNAL_ENTRIES_MAX_B + MEMBERS_MAX_B);
	cleanup_jdoc struct jdoc *d = NULL;
	struct ledger_event ev = {.kind = EVENT_SESSION,
		.env_id = j->env->id,
		.env_name = j->env->name,
		.predicate_type = PREDICATE_SESSION};
	const char *tree, *text;
	int64_t sec = 0, nsec = 0;

	if (jdoc_parse(&d, buf_str(&b->seal), b->seal.len, e) < 0)
		return err_wrap(e, "the journal of session %s", j->id);
	tree = jstr(jget(jdoc_root(d), "tree"));
	text = jstr(jget(jdoc_root(d), "members"));
	ev.title = jstr(jget(jdoc_root(d), "title"));
	if (!text || !ev.title || !jint(jget(jdoc_root(d), "seconds"), &sec) ||
		!jint(jget(jdoc_root(d), "nanoseconds"), &nsec))
		return err_set(e, EBADMSG, "the journal of session %s is damaged", j->id);
	ev.time = (struct timespec){sec, (long)nsec};
	buf_addf(&predicate, "%s,\"entries\":[", text);
	buf_add(&predicate, buf_str(&b->entries), b->entries.len);
	buf_addc(&predicate, ']');
	if (predicate.failed || b->entries.failed || b->receipts.failed || b->outputs.failed)
		return err_set(e, E2BIG, "the record of session %s", j->id);
	ev.predicate = buf_str(&predicate);
	if (tree)
		ev.subjects[ev.subjects_n++] =
			(struct ledger_subject){"workspace", "gitTree", tree};
	add_file(&ev, "receipts.jsonl", &b->receipts);
	add_file(&ev, "outputs", &b->outputs);
	add_file(&ev, "network.jsonl", &b->network);
	return env_event(j->env, &ev, e);
}

/* An attempt that failed may have come further than it knew. */
static int is_there(struct sjournal *j, const struct sbatch *b, struct err *e)
{
	uint32_t last = 0;
	bool ended;
	int r;

	if (!b->tried)
		return 0;
	j->env->tip_known = false;
	r = sseal_find(j->env, j->id, &last, &ended, e);
	return r < 0 ? r : last >= b->no;
}

static int work(struct sjournal *j, struct err *e)
{
	struct sbatch *b = j->job.batch;
	struct sframe f = {.kind = SFRAME_SEALED, .batch = b->no};
	int r = seal(j, e);

	forced_crash("session.seal");
	if (r == 0)
		r = is_there(j, b, e);
	if (r == 0)
		r = append_event(j, b, e);
	if (r < 0)
		return r;
	forced_crash("session.event");
	f.part[0] = (struct sframe_part){j->env->tip.envelope.hex, DIGEST_HEX_LEN};
	r = sjournal_append(j, &f, e);
	forced_crash("session.sealed");
	return r;
}

/* ---- in a thread, or not ---- */

static void tell(struct sjournal *j)
{
	const uint64_t one = 1;

	/* A counter that cannot overflow: there is nothing to fail. */
	while (write(j->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void *thread_main(void *arg)
{
	struct sjournal *j = arg;

	j->job.r = work(j, &j->job.err);
	tell(j);
	return NULL;
}

static int start_thread(struct sjournal *j)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_B);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&j->thread, &attr, thread_main, j);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r;
}

/* The processes of the interval are the job's now; those that start meanwhile begin the next. */
static int take_interval(struct sjournal *j, struct err *e)
{
	struct sjob *job = &j->job;

	for (size_t i = 0; i < j->running_n; i++)
		if (!sranges_add(&job->running, j->running[i].id))
			return err_set(e, ENOMEM, "seal session %s", j->id);
	job->alive = j->alive;
	j->alive = (struct sranges){0};
	return 0;
}

int sseal_begin(struct sjournal *j, bool settle, bool quiet, bool in_place, struct err *e)
{
	struct sjob *job = &j->job;

	*job = (struct sjob){.batch = j->first,
		.settle = settle,
		.quiet = quiet,
		.from = j->settled,
		.starts = j->starts, /* the loop alone changes it */
		.err = ERR_INIT};
	if (take_interval(j, e) < 0)
		return -e->errnum;
	j->busy = true;
	if (!in_place && start_thread(j) == 0)
		return 0;
	job->r = work(j, &job->err);
	j->thread = (pthread_t){0};
	job->in_place = true;
	tell(j);
	return 0;
}

/* After a look the next interval has what runs still; without one this one goes on. */
static int next_interval(struct sjournal *j)
{
	struct sjob *job = &j->job;
	struct sranges next = job->settled ? job->running : job->alive;
	bool good = sranges_join(&next, &j->alive);

	sranges_done(job->settled ? &job->alive : &job->running);
	sranges_done(&j->alive);
	job->alive = job->running = (struct sranges){0};
	j->alive = next;
	if (job->settled)
		j->settled = job->when;
	return good ? 0 : -ENOMEM;
}

int sseal_finish(struct sjournal *j, struct err *e)
{
	struct sbatch *b = j->job.batch;
	uint64_t n;
	int r;

	if (!j->job.in_place)
		pthread_join(j->thread, NULL);
	if (read(j->event_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return err_set(e, errno, "seal session %s", j->id);
	j->busy = false;
	r = next_interval(j);
	if (r == 0)
		r = j->job.r;
	if (r < 0) {
		b->tried = true;
		j->retry_ms = clock_ms() + SJOURNAL_RETRY_MS;
		*e = j->job.err;
		return e->errnum ? -e->errnum : err_set(e, -r, "seal session %s", j->id);
	}
	j->retry_ms = 0;
	j->tip_seq = j->env->tip.seq;
	j->tree = j->job.settled ? j->job.tree : (struct oid){0};
	j->first = b->next;
	if (!j->first)
		j->last = NULL;
	sbatch_free(b);
	return 0;
}

/* ---- what the ledger has ---- */

static int look(struct entry_source *s, struct oid *at, const char *id, uint32_t *ret_batch,
	bool *ret_ended, struct err *e)
{
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	int r = entry_load(s, at, &raw, &x, e);
	const char *of;
	int64_t no;

	if (r < 0)
		return r;
	of = jstr(jget(x.predicate, "session"));
	*at = raw.parents_n ? raw.parent : (struct oid){0};
	if (x.kind != EVENT_SESSION || !of || !str_eq(of, id) ||
		!jint(jget(x.predicate, "batch"), &no) || no < 1 || no > UINT32_MAX)
		return 0;
	*ret_batch = (uint32_t)no;
	*ret_ended = jget(x.predicate, "end") != NULL;
	return 1;
}

int sseal_find(struct env *v, const char *id, uint32_t *ret_batch, bool *ret_ended, struct err *e)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	struct oid at;
	int r = v->tip_known ? 0 : ledger_tip(&v->tip, &v->repo, v->id, e);

	*ret_batch = 0;
	*ret_ended = false;
	v->tip_known = r == 0;
	if (r == 0)
		r = entry_source_open(&s, &v->repo, e);
	at = v->tip.commit;
	for (size_t i = 0; r == 0 && i < FIND_MAX && !oid_is_none(&at); i++)
		r = look(&s, &at, id, ret_batch, ret_ended, e);
	return r < 0 ? r : 0;
}
