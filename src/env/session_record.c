/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a session's commands: see session_journal.h. Secrets go first, then the batch is chosen that
 * has room, then the record is written with its number in that batch's event; only then does it count.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "env/session_journal_impl.h"
#include "os/forced.h"
#include "session/run/hidden.h"
#include "session/run/receipt_kept.h"

#define ARGV_MAX_B (64u << 10) /* of an entry; the receipt has all of it */
#define CAPTURED_MAX_B (CAPTURE_HEAD_B + CAPTURE_TAIL_B + 4096u)

static struct sprocess *find(struct sjournal *j, uint32_t process)
{
	for (size_t i = j->running_n; i-- > 0;)
		if (j->running[i].id == process)
			return &j->running[i];
	return NULL;
}

static int make_place(struct sjournal *j, struct err *e)
{
	size_t want = j->running_cap ? j->running_cap * 2 : 16;
	struct sprocess *more;

	if (j->running_n < j->running_cap)
		return 0;
	if (j->running_n >= SJOURNAL_RUNNING_MAX)
		return err_set(e, EAGAIN, "a session runs at most %u commands at once",
			SJOURNAL_RUNNING_MAX);
	more = reallocarray(j->running, want, sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "record a command");
	j->running = more;
	j->running_cap = want;
	return 0;
}

/* The entry's text gets its number, and whatever else depends on where it will be. */
static void number(
	struct buf *out, const struct sbatch *b, const char *where, const struct buf *text)
{
	buf_addf(out, "{\"n\":%u,%s", b->entries_n + 1, where);
	buf_add(out, buf_str(text) + 1, text->len - 1); /* without its brace */
}

static void add_entry(struct sbatch *b, const struct buf *entry)
{
	if (b->entries_n++)
		buf_addc(&b->entries, ',');
	buf_add(&b->entries, entry->data, entry->len);
}

static int redacted(struct sjournal *j, struct buf *plain, struct buf *ret, struct err *e)
{
	int r = plain->failed ? -E2BIG : redact_json(&j->hidden, buf_str(plain), plain->len, ret);

	if (r == 0 && (ret->failed || ret->len < 2))
		r = -ENOMEM;
	return r < 0 ? err_set(e, -r, "record a command") : 0;
}

/* Words without secrets, cut where they are too long; the last is then "…". */
static void argv_json(struct sjournal *j, const struct strlist *argv, struct json *w)
{
	size_t from = w->out->len;

	json_array(w, "argv");
	for (size_t i = 0; i < argv->n; i++) {
		cleanup_buf struct buf b = BUF_INIT(SESSION_TEXT_MAX_B);
		size_t n = strlen(argv->v[i]);

		if (w->out->len - from + n > ARGV_MAX_B) {
			json_str(w, NULL, "…");
			break;
		}
		redact_text(&j->hidden, argv->v[i], n, &b);
		json_strn(w, NULL, buf_str(&b), b.len);
		w->out->failed |= b.failed;
	}
	json_end(w);
}

static void time_member(struct json *w, const struct timespec *t)
{
	char when[40];

	env_time_text(t, when);
	json_str(w, "time", when);
}

static void started_json(struct sjournal *j, const struct sjournal_start *s, struct buf *out)
{
	struct json w;

	json_init(&w, out, false);
	json_object(&w, NULL);
	json_str(&w, "kind", "started");
	json_uint(&w, "process", s->process);
	json_str(&w, "run", s->run_id);
	time_member(&w, &s->time);
	argv_json(j, s->argv, &w);
	json_str(&w, "cwd", s->cwd);
	if (s->label)
		json_str(&w, "label", s->label);
	if (s->policy_digest)
		json_str(&w, "policy", s->policy_digest);
	json_bool(&w, "test", s->as_test);
	json_bool(&w, "tty", s->tty);
	json_end(&w);
}

/* Write a record with this entry, and count it. parts: what it has beside the entry. */
static int record(struct sjournal *j, struct sframe *f, const char *where, const struct buf *text,
	struct sbatch *b, struct err *e)
{
	cleanup_buf struct buf entry = BUF_INIT(SESSION_TEXT_MAX_B);
	int r;

	number(&entry, b, where, text);
	if (entry.failed)
		return err_set(e, ENOMEM, "record a command");
	f->batch = b->no;
	f->entry = b->entries_n + 1;
	f->part[0] = (struct sframe_part){buf_str(&entry), entry.len};
	r = sjournal_append(j, f, e);
	if (r == 0)
		add_entry(b, &entry);
	return r;
}

/* A command can give its values to any other one, so they stay hidden to the session's end. */
static int know_values(struct sjournal *j, const struct redact *own, struct err *e)
{
	for (size_t i = 0; own && i < own->values.n; i++)
		if (redact_add(&j->hidden, own->names.v[i], own->values.v[i], e) < 0)
			return -e->errnum;
	return 0;
}

int sjournal_started(
	struct sjournal *j, const struct sjournal_start *s, struct sjournal_ref *ret, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(SESSION_TEXT_MAX_B),
			       text = BUF_INIT(SESSION_TEXT_MAX_B);
	struct sframe f = {.kind = SFRAME_STARTED, .process = s->process};
	struct err ignored = ERR_INIT;
	struct sbatch *b;
	int r;

	if (!s->run_id || strlen(s->run_id) >= sizeof(j->running->run) || find(j, s->process))
		return err_invalid(e, "process %u cannot be recorded", s->process);
	if (sbatch_waiting_b(j) > SJOURNAL_UNSEALED_MAX_B)
		return err_set(e, ENOSPC, "the evidence of %s cannot be written", j->env->name);
	/* Its beginning is on the disk first, so that no power cut makes all of the session disappear. */
	if (j->busy && j->job.batch->begin)
		sjournal_wait(j, &ignored); /* it is tried again */
	r = make_place(j, e);
	if (r == 0)
		r = sjournal_learn(j, e);
	if (r == 0)
		r = know_values(j, s->hidden, e);
	if (r < 0)
		return r;
	started_json(j, s, &plain);
	r = redacted(j, &plain, &text, e);
	if (r < 0)
		return r;
	b = sbatch_room(j, text.len, 0, 0);
	/* Before it exists: a look at the tree that ends now must know of it. */
	if (!b || !sranges_add(&j->alive, s->process))
		return err_set(e, ENOMEM, "record a command");
	r = record(j, &f, "", &text, b, e);
	forced_crash("session.started");
	if (r < 0)
		return r;
	b->started_n++;
	j->running[j->running_n] = (struct sprocess){.id = s->process, .test = s->as_test};
	snprintf(j->running[j->running_n].run, sizeof(j->running->run), "%s", s->run_id);
	j->running_n++;
	if (ret)
		*ret = sbatch_ref(j, b);
	return 0;
}

struct output {
	struct buf text; /* stdout, then stderr */
	size_t n[CAPTURE_STREAMS];
	uint64_t bytes;
	bool captured, cut;
};

static int take_output(
	struct sjournal *j, const struct capture_mem *out, struct output *ret, struct err *e)
{
	for (int i = 0; out && i < CAPTURE_STREAMS; i++) {
		cleanup_buf struct buf raw = BUF_INIT(CAPTURED_MAX_B);
		size_t from = ret->text.len;

		ret->captured = true;
		ret->bytes += out[i].bytes;
		ret->cut |= capture_mem_cut(&out[i]) > 0;
		if (!out[i].bytes)
			continue;
		capture_mem_text(&out[i], &raw);
		hidden_output(&j->hidden, &raw, &ret->text);
		if (raw.failed || ret->text.failed)
			return err_set(e, ENOMEM, "record what a command wrote");
		ret->n[i] = ret->text.len - from;
	}
	return 0;
}

static void output_json(const struct sjournal *j, const struct output *o, struct json *w)
{
	json_object(w, "output");
	json_bool(w, "captured", o->captured);
	json_uint(w, "bytes", o->bytes);
	json_bool(w, "truncated", o->cut);
	json_uint(w, "stdout", o->n[CAPTURE_OUT]);
	json_uint(w, "stderr", o->n[CAPTURE_ERR]);
	json_object(w, "redactions");
	for (size_t i = 0; redact_rule(i); i++)
		if (j->hidden.fired[i])
			json_uint(w, redact_rule(i), j->hidden.fired[i]);
	json_end(w);
	json_end(w);
}

static void ended_json(const struct sjournal *j, const struct sprocess *p, const struct receipt *r,
	const struct output *o, struct buf *out)
{
	struct timespec now;
	struct json w;

	env_now(&now);
	json_init(&w, out, false);
	json_object(&w, NULL);
	json_str(&w, "kind", "ended");
	json_uint(&w, "process", p->id);
	json_str(&w, "run", p->run);
	time_member(&w, &now);
	json_object(&w, "exit");
	json_int(&w, "code", r->exit_code);
	if (r->exit_signal)
		json_int(&w, "signal", r->exit_signal);
	else
		json_null(&w, "signal");
	json_bool(&w, "timed_out", r->outcome.timed_out);
	json_end(&w);
	if (p->test)
		json_str(&w, "result", r->exit_code == 0 ? "PASSED" : "FAILED");
	json_uint(&w, "denials", r->record.denials_n + r->network.denials_n);
	output_json(j, o, &w);
	json_end(&w);
}

static void forget_process(struct sjournal *j, struct sprocess *p)
{
	*p = j->running[--j->running_n];
}

/* The receipt as one line; left out when it is too long: then the tier of the command is unknown. */
static void receipt_line(struct sjournal *j, struct receipt *r, struct buf *out)
{
	hidden_words(&j->hidden, &r->command);
	receipt_json_hiding(r, &j->hidden, out, false);
	if (out->failed)
		buf_reset(out);
}

static int ended(struct sjournal *j, struct sprocess *p, struct receipt *r, struct output *o,
	struct sbatch **ret, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(SESSION_TEXT_MAX_B),
			       text = BUF_INIT(SESSION_TEXT_MAX_B),
			       receipt = BUF_INIT(RECEIPT_JSON_MAX);
	struct sframe f = {.kind = SFRAME_ENDED, .process = p->id};
	char where[96];
	struct sbatch *b;
	int rc;

	receipt_line(j, r, &receipt);
	ended_json(j, p, r, o, &plain);
	rc = redacted(j, &plain, &text, e);
	if (rc < 0)
		return rc;
	b = sbatch_room(j, text.len, receipt.len, o->text.len);
	if (!b)
		return err_set(e, ENOMEM, "record a command");
	snprintf(where, sizeof(where),
		receipt.len ? "\"outputAt\":%zu,\"receipt\":%u," : "\"outputAt\":%zu,",
		b->outputs.len, b->receipts_n + 1);
	f.part[1] = (struct sframe_part){buf_str(&receipt), receipt.len};
	f.part[2] = (struct sframe_part){buf_str(&o->text), o->text.len};
	rc = record(j, &f, where, &text, b, e);
	if (rc < 0)
		return rc;
	b->ended_n++;
	b->receipts_n += receipt.len > 0;
	buf_add(&b->receipts, buf_str(&receipt), receipt.len);
	buf_add(&b->outputs, buf_str(&o->text), o->text.len);
	*ret = b;
	return 0;
}

int sjournal_ended(struct sjournal *j, uint32_t process, struct receipt *r,
	const struct capture_mem out[CAPTURE_STREAMS], struct sjournal_ref *ret, struct err *e)
{
	struct sprocess *p = find(j, process);
	struct output o = {.text = BUF_INIT(SESSION_TEXT_MAX_B)};
	struct sbatch *b = NULL;
	int rc;

	if (!p)
		return err_invalid(e, "process %u has not started", process);
	memset(j->hidden.fired, 0, sizeof(j->hidden.fired));
	rc = sjournal_learn(j, e);
	if (rc == 0)
		rc = take_output(j, out, &o, e);
	if (rc == 0)
		rc = ended(j, p, r, &o, &b, e);
	buf_done(&o.text);
	forced_crash("session.ended");
	if (rc < 0)
		return rc;
	receipt_keep(r, j->env->home, &j->hidden);
	forget_process(j, p);
	if (ret)
		*ret = sbatch_ref(j, b);
	return 0;
}

int sjournal_entry(
	struct sjournal *j, uint32_t process, const char *kind, const char *why, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(65536), text = BUF_INIT(65536);
	struct sprocess *p = find(j, process);
	struct sframe f = {.kind = SFRAME_OTHER, .process = process};
	struct timespec now;
	struct sbatch *b;
	struct json w;
	int r;

	if (!p)
		return err_invalid(e, "process %u has not started", process);
	env_now(&now);
	json_init(&w, &plain, false);
	json_object(&w, NULL);
	json_str(&w, "kind", kind);
	json_uint(&w, "process", process);
	json_str(&w, "run", p->run);
	time_member(&w, &now);
	if (why)
		json_str(&w, "note", why);
	json_end(&w);
	r = sjournal_learn(j, e);
	if (r == 0)
		r = redacted(j, &plain, &text, e);
	b = r == 0 ? sbatch_room(j, text.len, 0, 0) : NULL;
	if (r == 0 && !b)
		r = err_set(e, ENOMEM, "record a command");
	if (r == 0)
		r = record(j, &f, "", &text, b, e);
	if (r == 0)
		forget_process(j, p);
	return r;
}

int sjournal_dropped(struct sjournal *j, uint32_t process, const char *why, struct err *e)
{
	return sjournal_entry(j, process, "dropped", why, e);
}
