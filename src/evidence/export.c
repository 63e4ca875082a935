/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a bundle: see export.h. */
#include "evidence/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/notes.h"
#include "croft.h"
#include "git/program.h"
#include "ledger/chain/dsse.h"
#include "ledger/chain/entry.h"
#include "show/sarif.h"
#include "os/interrupt.h"
#include "os/path.h"

#define FILES_MAX_B (1u << 30)

struct job {
	const struct export_request *q;
	struct export_source source;
	struct ledger_verdict verdict;
	struct story story;
	struct export_change change;
	struct export_dir dir;
	struct buf *said;
};

static void job_done(struct job *j)
{
	export_dir_done(&j->dir);
	export_change_done(&j->change);
	story_done(&j->story);
	export_source_done(&j->source);
}

/* ------------------------------------------------------------------ the change */

static int put_patch(struct job *j, struct err *e)
{
	cleanup_fd int fd = -1;
	int r;

	if (j->change.none)
		return 0;
	fd = export_dir_file(&j->dir, "patch.diff", e);
	if (fd < 0)
		return fd;
	r = export_patch(j->source.repo, &j->change.from, &j->change.to, fd, e);
	return r < 0 ? err_wrap(e, "write patch.diff") : 0;
}

static int put_report(struct job *j, struct err *e)
{
	const struct report r = {.story = &j->story,
		.verdict = &j->verdict,
		.version = CROFT_VERSION,
		.env_name = j->verdict.env_name[0] ? j->verdict.env_name : j->q->what,
		.env_id = j->source.id,
		.landed = j->change.landed,
		.no_files = j->change.none,
		.from = j->change.from.s,
		.to = j->change.to.s,
		.commit = j->change.commit.s,
		.files = j->change.files,
		.files_n = j->change.files_n};
	static const char *const names[] = {"report.md", "report.html"};
	int x = 0;

	for (int i = 0; i < 2 && x == 0; i++) {
		cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);

		report_write(&r, i ? DOC_HTML : DOC_MARKDOWN, &b);
		x = b.failed ? err_set(e, EFBIG, "write %s", names[i])
			     : export_dir_put(&j->dir, names[i], buf_str(&b), b.len, e);
	}
	return x;
}

/* ------------------------------------------------------------------ the evidence */

/* One line per envelope. What has another form than ours is written in ours: the signature holds. */
static void add_envelope(const struct entry_raw *raw, struct buf *out)
{
	const struct buf *b = &raw->envelope;
	const char *nl = memchr(buf_str(b), '\n', b->len);
	const struct dsse *d = &raw->dsse;

	if (nl && nl == buf_str(b) + b->len - 1)
		buf_add(out, buf_str(b), b->len);
	else
		dsse_write_signed(d->type, buf_str(&d->payload), d->payload.len,
			d->signatures[0].keyid, d->signatures[0].sig, out);
}

static int put_envelopes(struct job *j, struct err *e)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	cleanup_free struct oid *commits = NULL;
	cleanup_fd int fd = export_dir_file(&j->dir, "evidence.intoto.jsonl", e);
	size_t n = 0;
	int r = fd < 0 ? fd : ledger_commits(j->source.repo, &j->source.tip, &commits, &n, e);

	if (r == 0)
		r = entry_source_open(&s, j->source.repo, e);
	for (size_t i = 0; i < n && r == 0; i++) {
		cleanup_buf struct buf line = BUF_INIT(DSSE_ENVELOPE_MAX_B * 2);
		struct err bad = ERR_INIT;
		struct entry_raw raw = {0};
		struct ledger_entry x = {0};

		if (entry_load(&s, &commits[i], &raw, &x, &bad) < 0) {
			/* Only bad evidence has such an event; verify has named it. */
			if (j->verdict.good)
				return err_set(e, EIO, "%s", bad.msg);
			continue;
		}
		add_envelope(&raw, &line);
		entry_raw_done(&raw);
		ledger_entry_done(&x);
		r = line.failed ? -EFBIG : fd_write_all(fd, buf_str(&line), line.len);
		if (r < 0)
			return err_set(e, -r, "write evidence.intoto.jsonl");
	}
	return r;
}

/* In the user's repository as the user, else clean. */
static int put_git_bundle(struct job *j, struct err *e)
{
	const struct repo *r = j->source.repo;
	cleanup_buf struct buf ref = BUF_INIT(128);
	const char *argv[] = {"bundle", "create", "--quiet", "-", NULL, NULL};
	cleanup_fd int fd = export_dir_file(&j->dir, "evidence.bundle", e);
	struct git_run run = {.argv = argv, .out_fd = fd};
	int x;

	if (fd < 0)
		return fd;
	buf_addf(&ref, LEDGER_REF_PREFIX "%s", j->source.id);
	argv[4] = buf_str(&ref);
	run.git_dir = r->store;
	x = r->git_dir ? repo_git(r, &run, e) : git_run(&run, e);
	if (x < 0 && !j->verdict.good)
		return 0; /* history that is not whole cannot be bundled; the report says it is bad */
	return x < 0 ? err_wrap(e, "write evidence.bundle") : 0;
}

static int put_key(struct job *j, struct err *e)
{
	cleanup_buf struct buf pem = BUF_INIT(4096), readme = BUF_INIT(1u << 20),
			       sarif = BUF_INIT(FILES_MAX_B);
	int r;

	ledger_key_pem(j->verdict.key, &pem);
	export_readme(&j->verdict, j->source.id, j->source.repo->hash == GIT_SHA256, &readme);
	sarif_denials(&j->story, CROFT_VERSION, &sarif);
	if (sarif.failed)
		return err_set(e, EFBIG, "write denials.sarif");
	r = export_dir_put(&j->dir, "key.pem", buf_str(&pem), pem.len, e);
	if (r == 0)
		r = export_dir_put(&j->dir, "README.txt", buf_str(&readme), readme.len, e);
	if (r == 0)
		r = export_dir_put(&j->dir, "denials.sarif", buf_str(&sarif), sarif.len, e);
	return r;
}

/* ------------------------------------------------------------------ files of events */

/* Output is a sandbox's: line ends and tabs stay, everything else that is not text is shown. */
static void add_printable(struct buf *out, const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t from = i;

		while (i < n && p[i] != '\n' && p[i] != '\t')
			i++;
		str_show(out, p + from, i - from);
		if (i < n)
			buf_addc(out, p[i++]);
	}
}

static int put_output(
	struct job *j, struct git_reader *g, const struct ledger_entry *x, struct err *e)
{
	static const char *const names[] = {"output.txt", "stdout.txt", "stderr.txt"};
	cleanup_buf struct buf all = BUF_INIT(FILES_MAX_B);
	char name[48];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cleanup_buf struct buf b = BUF_INIT(LEDGER_FILE_MAX_B);
		struct err missing = ERR_INIT;
		int r = ledger_read_file(g, j->source.repo->hash, x, names[i], &b, &missing);

		if (r == -ENOENT || (r == 0 && !b.len))
			continue;
		if (r < 0) {
			*e = missing;
			return r;
		}
		if (i)
			buf_addf(&all, "==> %.6s <==\n", names[i]);
		add_printable(&all, buf_str(&b), b.len);
		if (all.len && all.data[all.len - 1] != '\n')
			buf_addc(&all, '\n');
	}
	snprintf(name, sizeof(name), "output/%" PRIu64 ".txt", x->seq);
	return all.failed ? err_set(e, EFBIG, "write %s", name)
			  : export_dir_put(&j->dir, name, buf_str(&all), all.len, e);
}

/* ---- of a session: its entries' ---- */

/* Part of a text, as far as it is there: what an entry says of a file is anybody's. */
static void cut(const struct buf *all, int64_t *at, int64_t n, const char **ret, size_t *ret_n)
{
	size_t from = *at > 0 ? MIN_OF((size_t)*at, all->len) : 0;

	*ret = buf_str(all) + from;
	*ret_n = n > 0 ? MIN_OF((size_t)n, all->len - from) : 0;
	*at = (int64_t)(from + *ret_n);
}

static int put_entry_output(struct job *j, const char *stem, const struct jnode *entry,
	const struct buf *outputs, struct err *e)
{
	static const char *const names[] = {"stdout", "stderr"};
	cleanup_buf struct buf all = BUF_INIT(FILES_MAX_B);
	char name[64];
	int64_t at = 0, n;
	const char *p;
	size_t len;

	jint(jget(entry, "outputAt"), &at);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!jint(jget(jget(entry, "output"), names[i]), &n) || n <= 0)
			continue;
		cut(outputs, &at, n, &p, &len);
		if (i)
			buf_addf(&all, "==> %s <==\n", names[i]);
		add_printable(&all, p, len);
		if (all.len && all.data[all.len - 1] != '\n')
			buf_addc(&all, '\n');
	}
	snprintf(name, sizeof(name), "output/%s.txt", stem);
	return all.failed ? err_set(e, EFBIG, "write %s", name)
			  : export_dir_put(&j->dir, name, buf_str(&all), all.len, e);
}

/* The line of that number, counted from 1, with its end. */
static void line_of(const struct buf *b, int64_t line, const char **ret, size_t *ret_n)
{
	const char *p = buf_str(b), *end = p + b->len, *nl = p;

	*ret_n = 0;
	for (; line > 0 && p < end; line--, p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl : end - 1;
		*ret = p;
		*ret_n = line == 1 ? (size_t)(nl + 1 - p) : 0;
	}
}

static int read_optional(struct job *j, struct git_reader *g, const struct ledger_entry *x,
	const char *name, struct buf *ret, struct err *e)
{
	int r = ledger_read_file(g, j->source.repo->hash, x, name, ret, e);

	if (r != -ENOENT)
		return r;
	*e = ERR_INIT;
	return 0;
}

static int put_session(
	struct job *j, struct git_reader *g, const struct ledger_entry *x, struct err *e)
{
	cleanup_buf struct buf receipts = BUF_INIT(LEDGER_FILE_MAX_B),
			       outputs = BUF_INIT(LEDGER_FILE_MAX_B);
	const struct jnode *list = jget(x->predicate, "entries");
	int r = read_optional(j, g, x, "receipts.jsonl", &receipts, e);

	if (r == 0 && j->q->output)
		r = read_optional(j, g, x, "outputs", &outputs, e);
	for (size_t i = 0; i < jlen(list) && r == 0; i++) {
		const struct jnode *entry = jat(list, i);
		const char *kind = jstr(jget(entry, "kind")), *p = NULL;
		char stem[32], name[64];
		int64_t line = 0;
		size_t n = 0;

		if (!kind || !str_eq(kind, "ended"))
			continue;
		snprintf(stem, sizeof(stem), "%" PRIu64 ".%zu", x->seq, i + 1);
		snprintf(name, sizeof(name), "receipts/%s.json", stem);
		jint(jget(entry, "receipt"), &line);
		line_of(&receipts, line, &p, &n);
		if (n)
			r = export_dir_put(&j->dir, name, p, n, e);
		if (r == 0 && j->q->output)
			r = put_entry_output(j, stem, entry, &outputs, e);
	}
	return r;
}

static int put_event_files(struct job *j, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	int r = git_reader_open(&g, j->source.repo->store, e);

	if (r == 0)
		r = export_dir_sub(&j->dir, "receipts", e);
	if (r == 0 && j->q->output)
		r = export_dir_sub(&j->dir, "output", e);
	for (size_t i = 0; i < j->story.entries_n && r == 0; i++) {
		const struct ledger_entry *x = &j->story.entries[i];
		cleanup_buf struct buf b = BUF_INIT(LEDGER_FILE_MAX_B);
		char name[48];

		if (x->kind == EVENT_SESSION)
			r = put_session(j, g, x, e);
		if (x->kind != EVENT_EXEC && x->kind != EVENT_INTERRUPTED)
			continue;
		snprintf(name, sizeof(name), "receipts/%" PRIu64 ".json", x->seq);
		if (j->story.files[i]) {
			r = ledger_read_file(g, j->source.repo->hash, x, "receipt.json", &b, e);
			if (r == 0)
				r = export_dir_put(&j->dir, name, buf_str(&b), b.len, e);
		}
		if (r == 0 && j->q->output)
			r = put_output(j, g, x, e);
	}
	return r;
}

/* ------------------------------------------------------------------ for other tools */

static void say_left_out(struct job *j, const struct notes *n)
{
	for (size_t i = 0; i < n->left_out.n && i < 20; i++) {
		buf_adds(j->said, "Git AI's notes cannot name ");
		str_show(j->said, n->left_out.v[i], strlen(n->left_out.v[i]));
		buf_adds(j->said, "; it is left out there\n");
	}
}

static int put_notes(struct job *j, struct err *e)
{
	const struct story *s = &j->story;
	const struct story_landing *l = s->landings_n ? &s->landings[s->landings_n - 1] : NULL;
	cleanup_notes struct notes n = {0};
	cleanup_buf struct buf trace = BUF_INIT(FILES_MAX_B);
	int r;

	if (!j->q->git_ai && !j->q->agent_trace)
		return 0;
	if (!l)
		return err_invalid(e, "notes are about commits, and this environment landed none; "
				      "land it with croft apply --commit or --squash");
	r = notes_read(&n, j->source.repo, s, l, e);
	if (r == 0 && j->q->agent_trace) {
		notes_agent_trace(&n, s, l, CROFT_VERSION, &trace);
		r = export_dir_put(&j->dir, "agent-trace.json", buf_str(&trace), trace.len, e);
	}
	if (r == 0 && j->q->git_ai) {
		r = notes_git_ai_write(&n, j->source.repo, s, l, e);
		if (r < 0)
			return err_wrap(e, "write refs/notes/ai");
		buf_addf(j->said, "refs/notes/ai %s commit %.12s\n",
			r == 1 ? "already speaks of this for" : "now has a note for", l->commit);
		say_left_out(j, &n);
		r = 0;
	}
	return r;
}

/* ------------------------------------------------------------------ the whole */

static int gather(struct job *j, struct err *e)
{
	int r = export_source_open(&j->source, j->q->what, e);

	if (r == 0)
		r = ledger_verify(j->source.repo, &j->source.tip, NULL, &j->verdict, e);
	if (r < 0)
		return r;
	if (!j->verdict.good && j->verdict.events == 0)
		return err_invalid(e, "nothing of this evidence is good (event %" PRIu64 ": %s)",
			j->verdict.bad_seq, j->verdict.why);
	r = story_read(&j->story, j->source.repo, &j->source.tip,
		j->verdict.good ? 0 : (size_t)j->verdict.events, e);
	if (r == 0)
		r = export_change(&j->source, &j->story, &j->change, e);
	return r;
}

static int put_all(struct job *j, struct err *e)
{
	int r = export_dir_open(&j->dir, j->q->directory, e);

	if (r == 0)
		r = put_patch(j, e);
	if (r == 0)
		r = put_report(j, e);
	if (r == 0)
		r = put_envelopes(j, e);
	if (r == 0)
		r = put_git_bundle(j, e);
	if (r == 0)
		r = put_key(j, e);
	if (r == 0)
		r = put_event_files(j, e);
	if (r == 0)
		r = put_notes(j, e);
	if (r == 0)
		r = export_dir_finish(&j->dir, e);
	return r;
}

int export_bundle(const struct export_request *q, struct buf *ret, struct err *e)
{
	cleanup_buf struct buf said = BUF_INIT(64u << 10);
	struct job j = {.q = q, .dir = EXPORT_DIR_INIT, .said = &said};
	cleanup_interrupt struct interrupt watched = {0};
	int r = gather(&j, e);

	interrupt_watch(&watched); /* what is half written is taken away first */
	if (r == 0)
		r = put_all(&j, e);
	if (r == 0) {
		str_show(ret, q->directory, strlen(q->directory));
		buf_addf(ret, ": %zu files, %zu event%s, %zu denial%s; start with report.html\n",
			j.dir.files.n, j.story.entries_n, j.story.entries_n == 1 ? "" : "s",
			j.story.denials_n, j.story.denials_n == 1 ? "" : "s");
		if (!j.verdict.good) {
			buf_addf(ret, "the evidence is NOT good: event %" PRIu64 ": ",
				j.verdict.bad_seq);
			str_show(ret, j.verdict.why, strlen(j.verdict.why));
			buf_addc(ret, '\n');
		}
		if (j.change.none) {
			buf_adds(ret, "without patch.diff: ");
			str_show(ret, j.change.none, strlen(j.change.none));
			buf_addc(ret, '\n');
		}
		buf_add(ret, buf_str(&said), said.len);
	}
	job_done(&j);
	return r;
}
