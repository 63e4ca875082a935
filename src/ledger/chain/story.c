/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a ledger into a story: see story.h. */
#include "ledger/chain/story.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/story_impl.h"

void story_done(struct story *s)
{
	for (size_t i = 0; i < s->entries_n; i++) {
		ledger_entry_done(&s->entries[i]);
		jdoc_free(s->files[i]);
	}
	free(s->entries);
	free(s->files);
	free(s->commands);
	free(s->denials);
	free(s->hosts);
	free(s->landings);
	free(s->reviews);
	*s = (struct story){0};
}

/* Numbers of a receipt are anybody's: a sum stays at the largest rather than turning into a small one. */
static void add_number(int64_t *sum, const struct jnode *n)
{
	int64_t v;

	if (jint(n, &v) && v > 0 && __builtin_add_overflow(*sum, v, sum))
		*sum = INT64_MAX;
}

static int64_t number(const struct jnode *n, int64_t otherwise)
{
	int64_t v;

	return jint(n, &v) ? v : otherwise;
}

/* The digest of that algorithm of any subject, or NULL. */
static const char *subject_digest(const struct ledger_entry *x, const char *algorithm)
{
	const struct jnode *subjects = jget(x->statement, "subject");

	for (size_t i = 0; i < jlen(subjects); i++) {
		const char *v = jstr(jget(jget(jat(subjects, i), "digest"), algorithm));

		if (v)
			return v;
	}
	return NULL;
}

const char *story_tree(const struct ledger_entry *x)
{
	const char *after = jstr(jget(x->predicate, "treeAfter"));

	return after ? after : subject_digest(x, "gitTree");
}

/* ------------------------------------------------------------------ commands */

void *story_grow(void *v, size_t n, size_t *cap, size_t max, size_t size)
{
	size_t want = *cap ? *cap * 2 : 16;
	void *more;

	if (n < *cap)
		return v;
	if (n >= max)
		return NULL;
	more = reallocarray(v, want, size);
	if (more)
		*cap = want;
	return more;
}

static int add_denial(struct story *s, const struct story_command *c, const struct jnode *n)
{
	struct story_denial *v = story_grow(
		s->denials, s->denials_n, &s->denials_cap, STORY_DENIALS_MAX, sizeof(*s->denials));

	if (!v)
		return -EFBIG;
	s->denials = v;
	v[s->denials_n++] = (struct story_denial){.seq = c->seq,
		.since = c->since,
		.run = c->run,
		.id = jstr(jget(n, "id")),
		.operation = jstr(jget(n, "operation")),
		.path = jstr(jget(n, "path")),
		.host = jstr(jget(n, "host")),
		.method = jstr(jget(n, "method")),
		.rule = jstr(jget(n, "rule")),
		.reason = jstr(jget(n, "reason")),
		.allow_with = jstr(jget(n, "allow_with")),
		.seen_by = jstr(jget(n, "seen_by")),
		.port = number(jget(n, "port"), 0),
		.count = number(jget(n, "count"), 1)};
	return 0;
}

static int add_host(struct story *s, const struct jnode *n)
{
	const char *host = jstr(jget(n, "host"));
	int64_t port = number(jget(n, "port"), 0);
	struct story_host *h = NULL, *v;

	if (!host)
		return 0;
	for (size_t i = 0; i < s->hosts_n && !h; i++)
		if (s->hosts[i].port == port && str_eq(s->hosts[i].host, host))
			h = &s->hosts[i];
	if (!h) {
		v = story_grow(
			s->hosts, s->hosts_n, &s->hosts_cap, STORY_HOSTS_MAX, sizeof(*s->hosts));
		if (!v)
			return -EFBIG;
		s->hosts = v;
		h = &v[s->hosts_n++];
		*h = (struct story_host){.host = host, .port = port, .rule = jstr(jget(n, "rule"))};
	}
	add_number(&h->connections, jget(n, "connections"));
	add_number(&h->requests, jget(n, "requests"));
	add_number(&h->up_b, jget(n, "up_b"));
	add_number(&h->down_b, jget(n, "down_b"));
	return 0;
}

static void fill_test(struct story_command *c, const struct ledger_entry *x)
{
	const char *result = jstr(jget(x->predicate, "result"));

	c->test = x->predicate_type && str_eq(x->predicate_type, PREDICATE_TEST);
	c->passed = c->test && result && str_eq(result, "PASSED");
}

struct story_command *story_new_command(struct story *s)
{
	struct story_command *v = story_grow(s->commands, s->commands_n, &s->commands_cap,
		STORY_COMMANDS_MAX, sizeof(*s->commands));

	if (!v)
		return NULL;
	s->commands = v;
	v[s->commands_n] = (struct story_command){.exit_code = -1, .wall_us = -1};
	return &v[s->commands_n++];
}

/* What its receipt says replaces what was known before. */
int story_receipt(struct story *s, struct story_command *c, const struct jnode *r)
{
	const struct jnode *denials = jget(r, "denials"),
			   *hosts = jget(jget(r, "network"), "hosts");
	int x_r = 0;

	c->receipt = r;
	c->timed_out = jtrue(jget(jget(r, "exit"), "timed_out"));
	if (jget(r, "command"))
		c->argv = jget(r, "command");
	c->degradations = jget(r, "degradations");
	if (jstr(jget(r, "id")))
		c->run = jstr(jget(r, "id"));
	c->cwd = jstr(jget(r, "cwd"));
	c->workspace = jstr(jget(r, "workspace"));
	c->tier = jstr(jget(r, "tier"));
	c->mode = jstr(jget(r, "mode"));
	c->label = jstr(jget(r, "label"));
	c->policy = jstr(jget(jget(r, "policy"), "digest"));
	c->exit_code = number(jget(jget(r, "exit"), "code"), -1);
	c->signal = number(jget(jget(r, "exit"), "signal"), 0);
	c->denials_lost = number(jget(r, "denials_beyond_limit"), 0);
	c->denials_n = jlen(denials);
	jmilli(jget(jget(r, "usage"), "wall_ms"), &c->wall_us);
	if (c->denials_lost > 0)
		s->denials_lost = story_sum(s->denials_lost, (uint64_t)c->denials_lost);
	for (size_t k = 0; k < jlen(denials) && x_r == 0; k++)
		x_r = add_denial(s, c, jat(denials, k));
	for (size_t k = 0; k < jlen(hosts) && x_r == 0; k++)
		x_r = add_host(s, jat(hosts, k));
	return x_r;
}

static int add_command(struct story *s, size_t i)
{
	const struct ledger_entry *x = &s->entries[i];
	struct story_command *c = story_new_command(s);

	if (!c)
		return -EFBIG;
	c->seq = c->since = x->seq;
	c->interrupted = x->kind == EVENT_INTERRUPTED;
	c->event = x;
	c->argv = jget(jget(x->predicate, "monitoredProcess"), "event");
	c->run = jstr(jget(x->predicate, "run"));
	c->tree = story_tree(x);
	fill_test(c, x);
	return story_receipt(s, c, s->files[i] ? jdoc_root(s->files[i]) : NULL);
}

struct story_name story_command_name(const struct story_command *c)
{
	struct story_name n;

	if (c->entry)
		snprintf(n.s, sizeof(n.s), "%" PRIu64 ".%u", c->seq, c->entry);
	else
		snprintf(n.s, sizeof(n.s), "%" PRIu64, c->seq);
	return n;
}

/* What need not be quoted for a shell. */
static bool plain(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./"
			    ":=,+@%",
			    *s))
			return false;
	return true;
}

void story_argv(const struct story_command *c, struct buf *out)
{
	for (size_t i = 0; i < jlen(c->argv); i++) {
		const char *a = jstr(jat(c->argv, i));

		if (i)
			buf_addc(out, ' ');
		if (!a || plain(a)) {
			buf_adds(out, a ? a : "?");
			continue;
		}
		buf_addc(out, '\'');
		for (; *a; a++)
			if (*a == '\'')
				buf_adds(out, "'\\''");
			else
				buf_addc(out, *a);
		buf_addc(out, '\'');
	}
}

bool story_redacted(const struct story_command *c)
{
	for (size_t i = 0; i < jlen(c->argv); i++) {
		const char *a = jstr(jat(c->argv, i));

		if (!a || strstr(a, "[redacted:"))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ other events */

static void read_created(struct story *s, const struct ledger_entry *x)
{
	const struct jnode *p = x->predicate;

	s->agent = jstr(jget(jget(p, "agent"), "name"));
	s->model = jstr(jget(jget(p, "agent"), "model"));
	s->task = jstr(jget(p, "task"));
	s->parent = jstr(jget(jget(p, "parent"), "env"));
	s->parent_event = jstr(jget(jget(jget(p, "parent"), "digest"), "sha256"));
	s->base_commit = jstr(jget(jget(p, "base"), "gitCommit"));
	s->base_tree = jstr(jget(jget(p, "base"), "gitTree"));
	s->policy = jstr(jget(jget(jget(p, "policy"), "digest"), "sha256"));
	s->workspace = jstr(jget(p, "workspace"));
}

static void add_review(struct story *s, const struct ledger_entry *x)
{
	const struct jnode *p = x->predicate;

	s->reviews[s->reviews_n++] = (struct story_review){.entry = x,
		.tree = jstr(jget(p, "treeShown")),
		.accepted = jstr(jget(p, "treeAccepted")),
		.result = jstr(jget(p, "verificationResult")),
		.decisions = jget(p, "decisions")};
}

static void add_landing(struct story *s, size_t i)
{
	const struct ledger_entry *x = &s->entries[i];
	const struct jnode *l = jget(x->predicate, "landing");

	s->landings[s->landings_n++] = (struct story_landing){.entry = x,
		.how = jstr(jget(l, "how")),
		.commit = jstr(jget(l, "commit")),
		.tree = jstr(jget(l, "tree")),
		.patch_id = jstr(jget(l, "patchId")),
		.onto = jstr(jget(l, "onto")),
		.start = jstr(jget(l, "start")),
		.accepted = jstr(jget(l, "accepted")),
		.reviewed = jtrue(jget(l, "reviewed")),
		.paths = s->files[i] ? jdoc_root(s->files[i]) : NULL};
}

static unsigned mode_of(const struct jnode *n)
{
	const char *mode = jstr(n);

	return mode ? (unsigned)strtoul(mode, NULL, 8) : 0;
}

int story_landed_files(const struct story_landing *l,
	int (*visit)(void *arg, const struct story_path *p), void *arg)
{
	int r = 0;

	for (size_t i = 0; i < jlen(l->paths) && r == 0; i++) {
		const struct jnode *n = jat(l->paths, i);
		struct story_path p = {.path = jstr(jget(n, "path")),
			.blob = jstr(jget(n, "blob")),
			.old_blob = jstr(jget(n, "oldBlob")),
			.old_known = jstr(jget(n, "oldMode")) != NULL};

		if (p.blob)
			p.mode = mode_of(jget(n, "mode"));
		if (p.old_blob)
			p.old_mode = mode_of(jget(n, "oldMode"));
		if (p.path)
			r = visit(arg, &p);
	}
	return r;
}

static void take_out_dropped(struct story *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->commands_n; i++)
		if (!s->commands[i].dropped)
			s->commands[n++] = s->commands[i];
	s->commands_n = n;
}

static int tell(struct story *s, struct err *e)
{
	cleanup_story_sessions struct story_sessions sessions = {0};
	int r = 0;

	for (size_t i = 0; i < s->entries_n && r == 0; i++) {
		const struct ledger_entry *x = &s->entries[i];

		if (x->kind == EVENT_EXEC || x->kind == EVENT_INTERRUPTED)
			r = add_command(s, i);
		else if (x->kind == EVENT_SESSION)
			r = story_session(&sessions, s, i);
		else if (x->kind == EVENT_REVIEWED)
			add_review(s, x);
		else if (x->kind == EVENT_APPLIED)
			add_landing(s, i);
		if (i == 0)
			read_created(s, x);
		story_seen(&sessions, s, x);
	}
	take_out_dropped(s);
	for (size_t i = 0; i < s->commands_n && !s->workspace; i++)
		s->workspace = s->commands[i].workspace;
	return r < 0 ? err_set(e, EFBIG, "the ledger tells of too many commands, denials or hosts")
		     : 0;
}

/* ------------------------------------------------------------------ reading */

/* Lines of JSON as one list. */
static void join_lines(struct buf *b)
{
	cleanup_buf struct buf all = BUF_INIT(b->max + 2);
	size_t n = b->len;

	while (n && b->data[n - 1] == '\n')
		n--;
	buf_addc(&all, '[');
	for (size_t i = 0; i < n; i++)
		buf_addc(&all, b->data[i] == '\n' ? ',' : b->data[i]);
	buf_addc(&all, ']');
	buf_done(b);
	*b = all;
	all = (struct buf){0};
}

/* What is kept beside a statement; a file that is there must be readable. */
static int read_beside(struct git_reader *g, enum git_hash h, struct story *s, size_t i,
	uint64_t *left_b, struct err *e)
{
	const struct ledger_entry *x = &s->entries[i];
	cleanup_buf struct buf b = BUF_INIT(MIN_OF(LEDGER_FILE_MAX_B, *left_b));
	bool lines = x->kind == EVENT_APPLIED || x->kind == EVENT_SESSION;
	int r;

	if (x->kind != EVENT_EXEC && x->kind != EVENT_INTERRUPTED && !lines)
		return 0;
	r = ledger_read_file(g, h, x,
		x->kind == EVENT_APPLIED   ? "paths.jsonl"
		: x->kind == EVENT_SESSION ? "receipts.jsonl"
					   : "receipt.json",
		&b, e);
	if (r == -ENOENT)
		return 0;
	if (r == 0 && lines)
		join_lines(&b);
	if (r == 0)
		r = jdoc_parse(&s->files[i], buf_str(&b), b.len, e);
	if (r < 0)
		return err_wrap(e, "the files of event %llu", (unsigned long long)x->seq);
	*left_b -= MIN_OF(b.len, *left_b);
	return 0;
}

static int make_room(struct story *s, size_t n, struct err *e)
{
	if (n > STORY_EVENTS_MAX)
		return err_set(e, EFBIG, "a ledger of %zu events is told only in parts", n);
	s->entries = calloc(n + 1, sizeof(*s->entries));
	s->files = calloc(n + 1, sizeof(*s->files));
	s->landings = calloc(n + 1, sizeof(*s->landings));
	s->reviews = calloc(n + 1, sizeof(*s->reviews));
	if (!s->entries || !s->files || !s->landings || !s->reviews)
		return err_set(e, ENOMEM, "read the ledger");
	return 0;
}

int story_read(
	struct story *ret, const struct repo *r, const struct oid *tip, size_t max, struct err *e)
{
	cleanup_story struct story s = {0};
	cleanup_git_reader struct git_reader *g = NULL;
	cleanup_free struct oid *commits = NULL;
	uint64_t left_b = STORY_RECEIPTS_MAX_B;
	size_t n = 0;
	int x = ledger_commits(r, tip, &commits, &n, e);

	if (max && n > max)
		n = max;
	if (x == 0)
		x = make_room(&s, n, e);
	if (x == 0)
		x = git_reader_open(&g, r->store, e);
	for (size_t i = 0; i < n && x == 0; i++) {
		x = ledger_read(g, r->hash, &commits[i], &s.entries[i], e);
		if (x == 0) {
			s.entries_n++;
			x = read_beside(g, r->hash, &s, i, &left_b, e);
		}
	}
	if (x == 0)
		x = tell(&s, e);
	if (x < 0)
		return x;
	*ret = s;
	s = (struct story){0};
	return 0;
}
