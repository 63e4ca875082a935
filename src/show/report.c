/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report: see report.h.
 *
 * Order:  what may be believed, what changed, what is dangerous in it, what was refused, and only then
 *         what ran; what the agent says of itself comes last but one and is called a claim.
 */
#include "show/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define ARGV_MAX_B (64u << 10)

static const char *or_dash(const char *s)
{
	return s && *s ? s : "-";
}

static void cell_text(struct doc *d, const char *s)
{
	doc_cell(d);
	doc_text(d, or_dash(s));
	doc_cell_end(d);
}

static void cell_code(struct doc *d, const char *s)
{
	doc_cell(d);
	doc_code(d, s);
	doc_cell_end(d);
}

static void cell_int(struct doc *d, int64_t v)
{
	doc_cell(d);
	doc_textf(d, "%" PRId64, v);
	doc_cell_end(d);
}

static void say(struct doc *d, const char *s)
{
	doc_paragraph(d);
	doc_text(d, s);
	doc_paragraph_end(d);
}

/* A table that stops somewhere says so. */
static void rest(struct doc *d, size_t n)
{
	if (n <= REPORT_ROWS_MAX)
		return;
	doc_paragraph(d);
	doc_textf(d, "%zu more are not shown here; they are in the bundle's other files.",
		n - REPORT_ROWS_MAX);
	doc_paragraph_end(d);
}

static void item(struct doc *d, const char *what, const char *value)
{
	if (!value || !*value)
		return;
	doc_item(d);
	doc_textf(d, "%s: ", what);
	doc_code(d, value);
	doc_item_end(d);
}

/* ------------------------------------------------------------------ may it be believed */

static void verdict(struct doc *d, const struct report *r)
{
	const struct ledger_verdict *v = r->verdict;

	doc_heading(d, 2, "Evidence");
	doc_paragraph(d);
	if (v->good) {
		doc_textf(d,
			"%" PRIu64
			" event%s, every signature and every link of the chain checked: good.",
			v->events, v->events == 1 ? "" : "s");
	} else {
		doc_strong(d, "The evidence is NOT good.");
		doc_textf(d, " Event %" PRIu64 " (commit %.12s): %s.", v->bad_seq,
			oid_hex(&v->bad_commit).s, v->why);
		doc_textf(d, " It and what comes after it are left out below.");
	}
	if (v->open_session[0]) {
		cleanup_buf struct buf open = BUF_INIT(512);

		ledger_say_open(v, &open);
		doc_strong(d, " The evidence is not complete: ");
		doc_textf(d, "%s.", buf_str(&open));
	}
	doc_paragraph_end(d);
	item(d, "environment", r->env_name);
	item(d, "id", r->env_id);
	item(d, "key", v->key_id.hex);
	item(d, "last good envelope (SHA-256)", v->tip.hex);
}

/* ------------------------------------------------------------------ what changed */

static const char *change_word(const struct report_file *f)
{
	if (!f->old_mode)
		return f->new_mode == 0120000 ? "new symlink" : "new";
	if (!f->new_mode)
		return "deleted";
	if ((f->old_mode ^ f->new_mode) & 0170000)
		return "type changed";
	return f->old_mode != f->new_mode ? "modified, mode changed" : "modified";
}

static void stat_table(struct doc *d, const struct report *r)
{
	static const char *const heads[] = {"File", "Change", "+", "-"};
	int64_t added = 0, deleted = 0;

	for (size_t i = 0; i < r->files_n; i++) {
		added += r->files[i].added > 0 ? r->files[i].added : 0;
		deleted += r->files[i].deleted > 0 ? r->files[i].deleted : 0;
	}
	doc_paragraph(d);
	doc_textf(d, "%zu file%s, %" PRId64 " lines added, %" PRId64 " deleted.", r->files_n,
		r->files_n == 1 ? "" : "s", added, deleted);
	doc_paragraph_end(d);
	if (!r->files_n)
		return;
	doc_table(d, heads, ARRAY_SIZE(heads));
	for (size_t i = 0; i < r->files_n && i < REPORT_ROWS_MAX; i++) {
		const struct report_file *f = &r->files[i];

		cell_code(d, f->path);
		cell_text(d, change_word(f));
		if (f->added < 0) {
			cell_text(d, "binary");
			cell_text(d, "binary");
		} else {
			cell_int(d, f->added);
			cell_int(d, f->deleted);
		}
	}
	doc_table_end(d);
	rest(d, r->files_n);
}

static void changes(struct doc *d, const struct report *r)
{
	doc_heading(d, 2, r->landed ? "What landed" : "What is staged");
	if (r->no_files) {
		say(d, r->no_files);
		return;
	}
	item(d, "commit", r->commit);
	item(d, "from tree", r->from);
	item(d, "to tree", r->to);
	stat_table(d, r);
}

static void flagged(struct doc *d, const struct report *r)
{
	static const char *const heads[] = {"File", "Why it needs a look"};
	size_t n = 0;

	doc_heading(d, 2, "Flagged files");
	for (size_t i = 0; i < r->files_n; i++)
		n += r->files[i].runs || r->files[i].refused;
	if (r->no_files || n == 0) {
		say(d, r->no_files ? "Not known: the change is not here." : "None.");
		return;
	}
	doc_table(d, heads, ARRAY_SIZE(heads));
	for (size_t i = 0, shown = 0; i < r->files_n && shown < REPORT_ROWS_MAX; i++) {
		const struct report_file *f = &r->files[i];

		if (!f->runs && !f->refused)
			continue;
		cell_code(d, f->path);
		doc_cell(d);
		if (f->runs)
			doc_textf(d, "runs on your machine: %s", f->runs);
		if (f->refused)
			doc_textf(d, "%sdoes not land: %s", f->runs ? "; " : "", f->refused);
		doc_cell_end(d);
		shown++;
	}
	doc_table_end(d);
	rest(d, n);
}

/* ------------------------------------------------------------------ what was refused */

static void denied_what(struct doc *d, const struct story_denial *n)
{
	cleanup_buf struct buf b = BUF_INIT(ARGV_MAX_B);

	if (n->method && *n->method)
		buf_addf(&b, "%s ", n->method);
	if (n->host && *n->host)
		buf_adds(&b, n->host);
	if (n->host && *n->host && n->port)
		buf_addf(&b, ":%" PRId64, n->port);
	buf_adds(&b, n->path ? n->path : "");
	cell_code(d, buf_str(&b));
}

static void denials(struct doc *d, const struct report *r)
{
	static const char *const heads[] = {
		"Event", "Operation", "What", "Times", "Rule", "Would be allowed with"};
	const struct story *s = r->story;

	doc_heading(d, 2, "Denials");
	if (!s->denials_n && !s->denials_lost) {
		say(d, "None were seen. A missing denial is not proof that nothing was refused.");
		return;
	}
	doc_table(d, heads, ARRAY_SIZE(heads));
	for (size_t i = 0; i < s->denials_n && i < REPORT_ROWS_MAX; i++) {
		const struct story_denial *n = &s->denials[i];

		cell_int(d, (int64_t)n->seq);
		cell_text(d, n->operation);
		denied_what(d, n);
		cell_int(d, n->count);
		cell_code(d, n->rule);
		cell_code(d, n->allow_with && *n->allow_with ? n->allow_with : n->reason);
	}
	doc_table_end(d);
	rest(d, s->denials_n);
	if (s->denials_lost) {
		doc_paragraph(d);
		doc_textf(d, "%" PRIu64 " more were counted and not kept.", s->denials_lost);
		doc_paragraph_end(d);
	}
}

static void network(struct doc *d, const struct report *r)
{
	static const char *const heads[] = {
		"Host", "Port", "Rule", "Connections", "Requests", "Bytes up", "Bytes down"};
	const struct story *s = r->story;

	doc_heading(d, 2, "Network");
	if (!s->hosts_n) {
		say(d, "No host was reached.");
		return;
	}
	doc_table(d, heads, ARRAY_SIZE(heads));
	for (size_t i = 0; i < s->hosts_n && i < REPORT_ROWS_MAX; i++) {
		const struct story_host *h = &s->hosts[i];

		cell_code(d, h->host);
		cell_int(d, h->port);
		cell_code(d, h->rule);
		cell_int(d, h->connections);
		cell_int(d, h->requests);
		cell_int(d, h->up_b);
		cell_int(d, h->down_b);
	}
	doc_table_end(d);
	rest(d, s->hosts_n);
}

/* ------------------------------------------------------------------ what ran */

static void command_row(struct doc *d, const struct story_command *c)
{
	cleanup_buf struct buf argv = BUF_INIT(ARGV_MAX_B);

	story_argv(c, &argv);
	cell_text(d, story_command_name(c).s);
	cell_code(d, argv.failed ? "(a very long command: see its receipt)" : buf_str(&argv));
	doc_cell(d);
	if (c->running)
		doc_text(d, "still running");
	else if (c->interrupted)
		doc_text(d, "interrupted");
	else if (c->timed_out)
		doc_text(d, "timed out");
	else if (c->signal)
		doc_textf(d, "signal %" PRId64, c->signal);
	else
		doc_textf(d, "%" PRId64, c->exit_code);
	doc_cell_end(d);
	doc_cell(d);
	if (c->wall_us < 0)
		doc_text(d, "-");
	else
		doc_textf(d, "%" PRId64 ".%03" PRId64 " s", c->wall_us / 1000000,
			c->wall_us / 1000 % 1000);
	doc_cell_end(d);
	cell_text(d, c->tier);
	doc_cell(d);
	doc_textf(d, "%zu", c->denials_n);
	doc_cell_end(d);
}

static void commands(struct doc *d, const struct report *r)
{
	static const char *const heads[] = {
		"Event", "Command", "Exit", "Duration", "Tier", "Denials"};
	const struct story *s = r->story;
	size_t n = 0;

	doc_heading(d, 2, "Commands");
	if (!s->commands_n) {
		say(d, "None.");
		return;
	}
	doc_table(d, heads, ARRAY_SIZE(heads));
	for (size_t i = 0; i < s->commands_n && i < REPORT_ROWS_MAX; i++)
		command_row(d, &s->commands[i]);
	doc_table_end(d);
	rest(d, s->commands_n);
	for (size_t i = 0; i < s->commands_n && n < REPORT_ROWS_MAX; i++)
		for (size_t k = 0; k < jlen(s->commands[i].degradations); k++, n++) {
			const char *t = jstr(jat(s->commands[i].degradations, k));

			doc_item(d);
			doc_textf(d, "event %s ran with less protection: %s",
				story_command_name(&s->commands[i]).s, or_dash(t));
			doc_item_end(d);
		}
}

static void tests(struct doc *d, const struct report *r)
{
	static const char *const heads[] = {"Event", "Result", "Command", "On tree"};
	const struct story *s = r->story;
	size_t n = 0;

	doc_heading(d, 2, "Tests");
	for (size_t i = 0; i < s->commands_n; i++)
		n += s->commands[i].test;
	if (!n) {
		say(d, "No command was run as a test.");
		return;
	}
	doc_table(d, heads, ARRAY_SIZE(heads));
	for (size_t i = 0, shown = 0; i < s->commands_n && shown < REPORT_ROWS_MAX; i++) {
		const struct story_command *c = &s->commands[i];
		cleanup_buf struct buf argv = BUF_INIT(ARGV_MAX_B);

		if (!c->test)
			continue;
		story_argv(c, &argv);
		cell_text(d, story_command_name(c).s);
		doc_cell(d);
		if (c->running)
			doc_text(d, "still running");
		else if (c->passed)
			doc_text(d, "passed");
		else
			doc_strong(d, "failed");
		doc_cell_end(d);
		cell_code(d, buf_str(&argv));
		cell_code(d, c->tree);
		shown++;
	}
	doc_table_end(d);
	rest(d, n);
}

/* ------------------------------------------------------------------ who decided, who claims */

static void decision_item(struct doc *d, const struct jnode *n)
{
	const char *path = jstr(jget(n, "path")), *what = jstr(jget(n, "decision")),
		   *comment = jstr(jget(n, "comment"));

	doc_item(d);
	doc_textf(d, "%s: ", or_dash(what));
	doc_code(d, path);
	if (comment && *comment)
		doc_textf(d, " (%s)", comment);
	doc_item_end(d);
}

static void review(struct doc *d, const struct report *r)
{
	const struct story *s = r->story;
	const struct story_review *v = s->reviews_n ? &s->reviews[s->reviews_n - 1] : NULL;

	doc_heading(d, 2, "Review");
	if (!v) {
		say(d, "Nobody reviewed it with croft.");
		return;
	}
	doc_paragraph(d);
	doc_textf(d, "The last of %zu review%s, at %s: %s.", s->reviews_n,
		s->reviews_n == 1 ? "" : "s", v->entry->time, or_dash(v->result));
	doc_paragraph_end(d);
	item(d, "tree that was shown", v->tree);
	item(d, "tree that was accepted", v->accepted);
	for (size_t i = 0; i < jlen(v->decisions) && i < REPORT_ROWS_MAX; i++)
		decision_item(d, jat(v->decisions, i));
	rest(d, jlen(v->decisions));
}

static void claims(struct doc *d, const struct report *r)
{
	const struct story *s = r->story;

	doc_heading(d, 2, "Claims");
	say(d, "What follows was said by whoever started the environment; croft did not check it.");
	item(d, "agent", s->agent);
	item(d, "model", s->model);
	item(d, "forked from", s->parent);
	if (s->task && *s->task) {
		say(d, "Task:");
		doc_quote(d, s->task);
	}
}

/* Lines that begin with a dash are items; others go on with the one before. */
static void limits(struct doc *d)
{
	bool open = false;

	doc_heading(d, 2, "What this does not prove");
	for (const char *p = ledger_limits; *p;) {
		size_t n = strcspn(p, "\n");
		const char *from = p + strspn(p, " \t");
		bool fresh = *from == '-';

		from += fresh ? strspn(from, "- ") : 0;
		if (fresh && open)
			doc_item_end(d);
		if (fresh)
			doc_item(d);
		open |= fresh;
		if (open && from < p + n)
			doc_textf(d, "%s%.*s", fresh ? "" : " ", (int)(p + n - from), from);
		p += n + (p[n] == '\n');
	}
	if (open)
		doc_item_end(d);
}

void report_write(const struct report *r, enum doc_format f, struct buf *out)
{
	cleanup_buf struct buf title = BUF_INIT(1024);
	struct doc d;

	buf_addf(&title, "croft: environment %s", or_dash(r->env_name));
	doc_begin(&d, out, f, buf_str(&title));
	verdict(&d, r);
	changes(&d, r);
	flagged(&d, r);
	denials(&d, r);
	network(&d, r);
	commands(&d, r);
	tests(&d, r);
	review(&d, r);
	claims(&d, r);
	limits(&d);
	doc_paragraph(&d);
	doc_textf(&d, "Written by croft %s.", r->version);
	doc_paragraph_end(&d);
	doc_end(&d);
}
