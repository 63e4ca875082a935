/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a journal to an event of the ledger.
 *
 * What the event will say is written down before it is said, in one file: "event", a SHA-256 in the
 * first line and below it kind, time, predicate, subjects and files. Appending reads only this, so
 * whoever does it, and however often, makes the same event. A file that a power cut tore does not match
 * its first line and counts as never written; the ledger alone is synced.
 */
#include "env/journal_event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "env/env_impl.h"
#include "session/run/hidden.h"
#include "session/config/state.h"
#include "ledger/chain/predicate.h"
#include "ledger/redact/redact.h"
#include "os/path.h"

#define EVENT_MAX_B (32u << 20)
#define NETWORK_MAX_B (4u << 20)
#define EVENT_FILES_MAX 4 /* receipt, two streams, network */

/* ---- sealing ---- */

struct seal {
	struct journal *journal;
	struct env *env;
	struct receipt *receipt;
	struct redact *redact; /* the receipt's */
	struct predicate_output output;
	struct event_file {
		const char *name;
		struct buf text;
	} files[EVENT_FILES_MAX];
	size_t files_n;
};

static struct buf *add_file(struct seal *s, const char *name)
{
	struct event_file *f = &s->files[s->files_n++];

	*f = (struct event_file){.name = name, .text = BUF_INIT(EVENT_MAX_B)};
	return &f->text;
}

static int seal_output(struct seal *s, enum capture_stream which, const char *name, struct err *e)
{
	const struct capture_file *f = &s->journal->capture.file[which];
	cleanup_buf struct buf raw = BUF_INIT(CAPTURE_HEAD_B + CAPTURE_TAIL_B + 4096);
	int r;

	if (f->fd < 0 || f->bytes == 0)
		return 0;
	if (lseek(f->fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "read captured output");
	r = file_read_fd(f->fd, &raw);
	if (r < 0)
		return err_set(e, -r, "read captured output");
	hidden_output(s->redact, &raw, add_file(s, name));
	s->output.captured = true;
	s->output.bytes += f->bytes;
	s->output.truncated = s->output.truncated || f->cut > 0;
	return 0;
}

/* What the gateway wrote down, as far as it fits, in whole lines. */
static int seal_network(struct seal *s, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(4096), raw = BUF_INIT(NETWORK_MAX_B);
	cleanup_fd int fd = -1;
	char *end;

	buf_addf(&path, "%s/runs/%s.net.jsonl", s->env->state_dir, s->receipt->id);
	fd = open(buf_str(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "read the network journal");
	while (raw.len < raw.max) {
		char part[65536];
		ssize_t n = read(fd, part, MIN_OF(sizeof(part), raw.max - raw.len));

		if (n <= 0)
			break;
		buf_add(&raw, part, (size_t)n);
	}
	end = raw.len ? memrchr(raw.data, '\n', raw.len) : NULL;
	if (end)
		hidden_lines(s->redact, raw.data, (size_t)(end + 1 - raw.data),
			add_file(s, "network.jsonl"));
	return 0;
}

/* Any bytes, so that they come back as they were. */
static int add_base64(struct json *j, const struct buf *text)
{
	size_t n = base64_len(text->len);
	cleanup_free char *b64 = malloc(n + 1);

	if (!b64)
		return -ENOMEM;
	base64_encode(b64, text->data, text->len);
	json_strn(j, "base64", b64, n);
	return 0;
}

static void event_title(struct seal *s, struct buf *out)
{
	cleanup_buf struct buf plain = BUF_INIT(EVENT_MAX_B);

	buf_addf(&plain, "%s%s: exit %d", s->journal->as_test ? "test " : "exec ",
		s->receipt->command.n ? s->receipt->command.v[0] : "", s->receipt->exit_code);
	redact_field(s->redact, buf_str(&plain), plain.len, out);
}

static int event_json(struct seal *s, const char *members, const struct oid *tree,
	const struct timespec *now, struct buf *out)
{
	cleanup_buf struct buf title = BUF_INIT(EVENT_MAX_B);
	struct json j;
	int r = 0;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_str(&j, "run", s->receipt->id);
	json_int(&j, "seconds", now->tv_sec);
	json_int(&j, "nanoseconds", now->tv_nsec);
	json_str(&j, "type", s->journal->as_test ? PREDICATE_TEST : PREDICATE_TRACE);
	json_str(&j, "predicate", members);
	json_str(&j, "tree", oid_is_none(tree) ? NULL : oid_hex(tree).s);
	event_title(s, &title);
	json_strn(&j, "title", buf_str(&title), title.len);
	json_array(&j, "files");
	for (size_t i = 0; r == 0 && i < s->files_n; i++) {
		json_object(&j, NULL);
		json_str(&j, "name", s->files[i].name);
		r = s->files[i].text.failed ? -E2BIG : add_base64(&j, &s->files[i].text);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
	return out->failed || title.failed ? -E2BIG : r;
}

void journal_host_id(struct digest *ret)
{
	cleanup_buf struct buf b = BUF_INIT(256);

	buf_adds(&b, "croft host ");
	if (file_read_at(AT_FDCWD, "/etc/machine-id", &b) < 0)
		buf_adds(&b, "unknown");
	digest_sha256(ret, buf_str(&b), b.len);
}

static int by_path(const void *path, const void *change)
{
	return strcmp(path, ((const struct change *)change)->path);
}

/* Of what the command wrote, how much differs from the start; for its summary. */
static void count_changes(struct receipt *r, const struct env *v, const struct changes *c)
{
	size_t n = strlen(r->workspace);

	r->settled = r->staged;
	r->ignored = c->ignored;
	r->differ = 0;
	for (size_t i = 0; i < r->record.files_n; i++) {
		const char *path = r->record.files[i].path;

		if (strncmp(path, r->workspace, n) == 0 && path[n] == '/' && c->n &&
			bsearch(path + n + 1, c->v, c->n, sizeof(*c->v), by_path))
			r->differ++;
	}
	if (r->record.files_full && v->run) /* it is the only command there */
		r->differ = c->n;
	else if (r->record.files_full)
		r->settled = false;
}

static int seal_event(struct seal *s, struct buf *ret, struct err *e)
{
	cleanup_buf struct buf plain = BUF_INIT(EVENT_MAX_B), members = BUF_INIT(EVENT_MAX_B),
			       event = BUF_INIT(JOURNAL_EVENT_MAX_B);
	struct buf *receipt = add_file(s, "receipt.json");
	cleanup_changes struct changes c = {0};
	cleanup_jdoc struct jdoc *doc = NULL;
	struct predicate_exec x = {.run_id = s->receipt->id, .output = s->output};
	struct digest host, whole;
	struct timespec now;
	struct oid_hex tree;
	char started[40], finished[40];
	int r;

	receipt_json(s->receipt, receipt, true);
	if (receipt->failed)
		return err_set(e, E2BIG, "the receipt of run %s", s->receipt->id);
	if (jdoc_parse(&doc, receipt->data, receipt->len, e) < 0 ||
		env_settle(s->env, &s->receipt->started, &c, e) < 0)
		return -e->errnum;
	count_changes(s->receipt, s->env, &c);
	journal_host_id(&host);
	env_now(&now);
	env_time_text(&s->receipt->started, started);
	env_time_text(&now, finished);
	tree = oid_hex(&c.tree);
	x.receipt = jdoc_root(doc);
	x.host_id = host.hex;
	x.started = started;
	x.finished = finished;
	x.tree_after = *tree.s ? tree.s : NULL;
	x.unnamed = c.unnamed;
	x.output.redactions = s->redact;
	(s->journal->as_test ? predicate_test : predicate_trace)(&x, &plain);
	/* It puts words together that were looked at one by one. */
	r = plain.failed ? -E2BIG : redact_json(s->redact, buf_str(&plain), plain.len, &members);
	if (r == 0)
		r = event_json(s, buf_str(&members), &c.tree, &now, &event);
	if (r < 0)
		return err_set(e, -r, "the record of run %s", s->receipt->id);
	digest_sha256(&whole, event.data, event.len);
	buf_addf(ret, "%s\n", whole.hex);
	buf_add(ret, event.data, event.len);
	r = ret->failed ? -E2BIG : journal_put(s->journal->dir_fd, "event", ret->data, ret->len);
	return r < 0 ? err_set(e, -r, "write the journal of %s", s->env->name) : 0;
}

int journal_seal(
	struct journal *j, struct env *v, struct receipt *r, struct buf *ret, struct err *e)
{
	struct seal s = {.journal = j, .env = v, .receipt = r, .redact = &r->hidden};
	int rc;

	if (r->hidden_unknown)
		return err_set(
			e, EINVAL, "what to hide in the record of run %s is not known", r->id);
	hidden_words(s.redact, &r->command);
	rc = seal_output(&s, CAPTURE_OUT, j->capture.terminal ? "output.txt" : "stdout.txt", e);
	if (rc == 0)
		rc = seal_output(&s, CAPTURE_ERR, "stderr.txt", e);
	if (rc == 0)
		rc = seal_network(&s, e);
	if (rc == 0)
		rc = seal_event(&s, ret, e);
	for (size_t i = 0; i < s.files_n; i++)
		buf_done(&s.files[i].text);
	return rc;
}

/* ---- appending ---- */

/* The files of an event as they were; caller frees each p. */
static int load_files(const struct jnode *list, struct ledger_event *ev)
{
	for (size_t i = 0; i < jlen(list); i++) {
		const char *name = jstr(jget(jat(list, i), "name"));
		const char *b64 = jstr(jget(jat(list, i), "base64"));
		size_t room = b64 ? strlen(b64) / 4 * 3 + 1 : 0;
		char *p = room ? malloc(room) : NULL;
		long n = p ? base64_decode(p, room, b64, strlen(b64)) : -1;

		if (!name || n < 0 || ev->files_n >= EVENT_FILES_MAX) {
			free(p);
			return -EBADMSG;
		}
		ev->files[ev->files_n++] = (struct ledger_file){name, p, (size_t)n};
	}
	return 0;
}

static int append(struct env *v, const struct jnode *root, const char *run_id, struct err *e)
{
	struct ledger_event ev = {
		.kind = EVENT_EXEC, .env_id = v->id, .env_name = v->name, .run_id = run_id};
	const char *tree = jstr(jget(root, "tree")), *run = jstr(jget(root, "run"));
	int64_t sec = 0, nsec = 0;
	int r = load_files(jget(root, "files"), &ev);

	ev.predicate_type = jstr(jget(root, "type"));
	ev.predicate = jstr(jget(root, "predicate"));
	ev.title = jstr(jget(root, "title"));
	if (r < 0 || !run || !str_eq(run, run_id) || !ev.predicate_type || !ev.predicate ||
		!ev.title || !jint(jget(root, "seconds"), &sec) ||
		!jint(jget(root, "nanoseconds"), &nsec))
		r = err_set(e, EBADMSG, "the journal of run %s is damaged", run_id);
	ev.time = (struct timespec){sec, (long)nsec};
	if (tree)
		ev.subjects[ev.subjects_n++] =
			(struct ledger_subject){"workspace", "gitTree", tree};
	if (r == 0)
		r = env_event(v, &ev, e);
	for (size_t i = 0; i < ev.files_n; i++)
		free((void *)(uintptr_t)ev.files[i].p);
	return r;
}

int journal_event(struct env *v, const char *run_id, const struct buf *sealed, struct err *e)
{
	cleanup_jdoc struct jdoc *d = NULL;
	const char *text = buf_str(sealed) + DIGEST_HEX_LEN + 1;

	if (jdoc_parse(&d, text, sealed->len - DIGEST_HEX_LEN - 1, e) < 0)
		return err_wrap(e, "the journal of run %s", run_id);
	return append(v, jdoc_root(d), run_id, e);
}

bool journal_is_whole(const struct buf *sealed)
{
	struct digest d;

	if (sealed->len <= DIGEST_HEX_LEN + 1 || sealed->data[DIGEST_HEX_LEN] != '\n')
		return false;
	digest_sha256(&d, sealed->data + DIGEST_HEX_LEN + 1, sealed->len - DIGEST_HEX_LEN - 1);
	return memcmp(sealed->data, d.hex, DIGEST_HEX_LEN) == 0;
}

/* ---- a supervisor that died ---- */

/* Raw output that was captured before: secrets out. */
static void salvage(int dir, const char *from, const char *name, struct redact *rd,
	struct buf *clean, struct ledger_event *ev)
{
	cleanup_buf struct buf raw = BUF_INIT(CAPTURE_HEAD_B + CAPTURE_TAIL_B + 4096);

	if (file_read_at(dir, from, &raw) < 0 || raw.len == 0)
		return;
	hidden_output(rd, &raw, clean);
	if (!clean->failed)
		ev->files[ev->files_n++] = (struct ledger_file){name, buf_str(clean), clean->len};
}

/* The words of a command line as they were noted, secrets out; ends like an argv. */
static int noted_command(const struct jnode *list, struct redact *rd, struct strlist *ret)
{
	for (size_t i = 0; i < jlen(list); i++) {
		cleanup_buf struct buf b = BUF_INIT(EVENT_MAX_B);
		const char *word = jstr(jat(list, i));

		redact_text(rd, word ? word : "", word ? strlen(word) : 0, &b);
		if (!strlist_add(ret, buf_str(&b)))
			return -ENOMEM;
	}
	if (!strlist_add(ret, ""))
		return -ENOMEM;
	free(ret->v[--ret->n]);
	ret->v[ret->n] = NULL;
	return 0;
}

/* The event's own words from what was noted; output only when all that must be hidden is known. */
static int interrupted_texts(struct env *v, int dir, const char *run_id, const struct jnode *root,
	struct predicate_exec *x, struct strlist *command, struct buf clean[2],
	struct ledger_event *ev, struct err *e)
{
	struct redact rd;
	bool known;
	int r;

	redact_init(&rd);
	r = hidden_know_all(&rd, &v->args, e);
	known = hidden_noted(&rd, jget(root, "hidden"), run_id);
	if (r == 0 && noted_command(jget(root, "command"), &rd, command) < 0)
		r = err_set(e, ENOMEM, "read the journal of %s", run_id);
	if (r == 0 && known && root) {
		salvage(dir, "stdout", "stdout.txt", &rd, &clean[0], ev);
		salvage(dir, "stderr", "stderr.txt", &rd, &clean[1], ev);
	} else if (r == 0 && root) {
		x->note = "croft ended before the command did; its output is left out, since a "
			  "secret that it had is not known any more";
	}
	if (r == 0)
		r = state_hide_journal(v->home, run_id, known ? &rd : NULL, e);
	redact_done(&rd);
	return r;
}

int journal_interrupted(struct env *v, int dir, const char *run_id, const char *why, struct err *e)
{
	cleanup_buf struct buf started = BUF_INIT(EVENT_MAX_B), members = BUF_INIT(EVENT_MAX_B);
	struct buf clean[2] = {BUF_INIT(EVENT_MAX_B), BUF_INIT(EVENT_MAX_B)};
	cleanup_strlist struct strlist command = STRLIST_INIT(65536);
	cleanup_jdoc struct jdoc *d = NULL;
	struct ledger_event ev = {.kind = EVENT_INTERRUPTED,
		.env_id = v->id,
		.env_name = v->name,
		.run_id = run_id,
		.predicate_type = PREDICATE_TRACE,
		.title = "a command that was cut short"};
	struct predicate_exec x = {
		.run_id = run_id, .note = why ? why : "croft ended before the command did"};
	const struct jnode *root = NULL;
	struct err torn = ERR_INIT;
	int r = file_read_at(dir, "started.json", &started);

	if (r < 0)
		return err_set(e, -r, "read the journal of run %s", run_id);
	if (jdoc_parse(&d, started.data, started.len, &torn) == 0 &&
		jstr(jget(jdoc_root(d), "run")) && str_eq(jstr(jget(jdoc_root(d), "run")), run_id))
		root = jdoc_root(d);
	else if (!why)
		x.note = "the machine stopped before the command could be written down";
	r = interrupted_texts(v, dir, run_id, root, &x, &command, clean, &ev, e);
	if (r == 0) {
		x.argv = (const char *const *)command.v;
		x.started = jstr(jget(root, "started"));
		x.policy_digest = jstr(jget(root, "policy"));
		predicate_trace(&x, &members);
		env_now(&ev.time);
		ev.predicate = buf_str(&members);
		r = env_event(v, &ev, e);
	}
	buf_done(&clean[0]);
	buf_done(&clean[1]);
	return r;
}
