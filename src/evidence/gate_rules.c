/* SPDX-License-Identifier: Apache-2.0 */
/* Judging commits by a gate: see gate.h. */
#include "evidence/gate_rules.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "show/sarif.h"
#include "policy/net/net.h"
#include "policy/policy.h"

const char *const gate_evidence_names[] = {"ai-touched", "all"};
static_assert(ARRAY_SIZE(gate_evidence_names) == GATE_EVIDENCE_NUM, "one name each");
const char *const gate_rule_names[] = {"croft/gate/no-evidence", "croft/gate/bad-evidence",
	"croft/gate/key", "croft/gate/tests", "croft/gate/review", "croft/gate/denials",
	"croft/gate/tier", "croft/gate/degraded"};
static_assert(ARRAY_SIZE(gate_rule_names) == GATE_RULE_NUM, "one name each");
const char *const gate_rule_texts[] = {
	"A commit that needs evidence has none: nothing that was landed matches it.",
	"The evidence for a commit does not verify.",
	"The evidence is signed with a key that the gate does not name.",
	"The tests did not pass on what landed.", "No reviewer accepted what landed.",
	"More was denied than the gate allows.",
	"A command ran in a tier that the gate does not name.",
	"A command ran with less protection than its policy asks for."};
static_assert(ARRAY_SIZE(gate_rule_texts) == GATE_RULE_NUM, "one text each");

void gate_init(struct gate *g)
{
	static const char *const usual[] = {"Assisted-by", "Croft-Env", "Croft-Evidence",
		"Generated-by", "Co-authored-by: *claude*", "Co-authored-by: *anthropic*",
		"Co-authored-by: *copilot*", "Co-authored-by: *cursor*", "Co-authored-by: *codex*",
		"Co-authored-by: *openai*", "Co-authored-by: *chatgpt*", "Co-authored-by: *gemini*",
		"Co-authored-by: *devin*", "Co-authored-by: *aider*"};

	*g = (struct gate){.keys = STRLIST_INIT(GATE_LIST_MAX),
		.tiers = STRLIST_INIT(16),
		.trailers = STRLIST_INIT(GATE_LIST_MAX),
		.ignore_commits = STRLIST_INIT(GATE_LIST_MAX),
		.ignore_paths = STRLIST_INIT(GATE_LIST_MAX)};
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		strlist_add(&g->trailers, usual[i]);
}

void gate_done(struct gate *g)
{
	strlist_done(&g->keys);
	strlist_done(&g->tiers);
	strlist_done(&g->trailers);
	strlist_done(&g->ignore_commits);
	strlist_done(&g->ignore_paths);
	for (size_t i = 0; i < g->allow_n; i++) {
		free(g->allow[i].path);
		free(g->allow[i].host);
		free(g->allow[i].reason);
	}
	free(g->allow);
	*g = (struct gate){0};
}

/* ------------------------------------------------------------------ which commits */

static bool wild_no_case(const char *pattern, const char *s, size_t n)
{
	char a[256], b[1024];
	size_t i;

	for (i = 0; pattern[i] && i < sizeof(a) - 1; i++)
		a[i] = (char)(pattern[i] >= 'A' && pattern[i] <= 'Z' ? pattern[i] | 0x20
								     : pattern[i]);
	a[i] = '\0';
	for (i = 0; i < n && i < sizeof(b) - 1; i++)
		b[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 0x20 : s[i]);
	b[i] = '\0';
	return str_wild(a, b);
}

/* One line against "Name" or "Name: pattern". */
static bool line_is(const char *want, const char *line, size_t n)
{
	size_t name = strcspn(want, ":"), at = name;
	const char *pattern = want[name] ? want + name + 1 : NULL;

	if (n <= name || strncasecmp(line, want, name) != 0)
		return false;
	while (at < n && (line[at] == ' ' || line[at] == '\t'))
		at++;
	if (at >= n || line[at] != ':')
		return false;
	at++;
	while (at < n && (line[at] == ' ' || line[at] == '\t'))
		at++;
	if (!pattern)
		return true;
	pattern += strspn(pattern, " \t");
	return wild_no_case(pattern, line + at, n - at);
}

/* Anywhere in the message, not only in its last paragraph: a rewording must not lose it. */
const char *gate_trailer(const struct gate *g, const char *message, size_t *ret_n)
{
	for (const char *p = message; *p;) {
		size_t n = strcspn(p, "\n"), from = strspn(p, " \t");

		from = MIN_OF(from, n);
		for (size_t i = 0; i < g->trailers.n; i++)
			if (line_is(g->trailers.v[i], p + from, n - from)) {
				*ret_n = n - from;
				return p + from;
			}
		p += n + (p[n] == '\n');
	}
	return NULL;
}

bool gate_trailer_value(const char *message, const char *name, char *ret, size_t size)
{
	bool found = false;

	for (const char *p = message; *p;) {
		size_t n = strcspn(p, "\n"), at = strlen(name);

		if (line_is(name, p, n)) {
			at += strspn(p + at, " \t");
			at++;
			at += strspn(p + at, " \t");
			while (n > at && strchr(" \t\r", p[n - 1]))
				n--;
			if (n >= at && n - at < size) {
				memcpy(ret, p + at, n - at);
				ret[n - at] = '\0';
				found = true;
			}
			n = strcspn(p, "\n");
		}
		p += n + (p[n] == '\n');
	}
	return found;
}

bool gate_ignores_commit(const struct gate *g, const char *hex)
{
	for (size_t i = 0; i < g->ignore_commits.n; i++)
		if (str_starts(hex, g->ignore_commits.v[i]))
			return true;
	return false;
}

/* The same wildcards as in policies, with the top of the repository as the root. */
static bool path_matches(const char *pattern, const char *path)
{
	cleanup_buf struct buf a = BUF_INIT(8192), b = BUF_INIT(8192);
	unsigned depth;

	buf_addf(&a, "/%s", pattern);
	buf_addf(&b, "/%s", path);
	if (a.failed || b.failed)
		return false;
	if (a.len > 1 && a.data[a.len - 1] == '/')
		a.data[--a.len] = '\0';
	return policy_glob_covers(buf_str(&a), buf_str(&b), &depth);
}

bool gate_ignores_path(const struct gate *g, const char *path)
{
	for (size_t i = 0; i < g->ignore_paths.n; i++)
		if (path_matches(g->ignore_paths.v[i], path))
			return true;
	return false;
}

/* ------------------------------------------------------------------ problems */

void gate_problem(struct gate_problems *p, enum gate_rule rule, const char *fmt, ...)
{
	struct gate_problem one = {.rule = rule};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(one.text, sizeof(one.text), fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].rule == rule && str_eq(p->v[i].text, one.text))
			return;
	if (p->n == GATE_PROBLEMS_MAX)
		p->more++;
	else
		p->v[p->n++] = one;
}

/* ------------------------------------------------------------------ denials */

static bool allow_matches(
	const struct gate_allow *a, const struct story *s, const struct story_denial *d)
{
	const char *below;

	if (a->host)
		return d->host && *d->host && net_host_matches(a->host, d->host);
	if (!d->path || (d->host && *d->host))
		return false;
	if (a->path[0] == '/')
		return path_matches(a->path + 1, d->path[0] == '/' ? d->path + 1 : d->path);
	below = sarif_below(s->workspace, d->path);
	return below && path_matches(a->path + 2, below);
}

const struct gate_allow *gate_allows(const struct gate *g, const struct story *s,
	const struct story_denial *d, const char *today, bool *ret_expired)
{
	*ret_expired = false;
	for (size_t i = 0; i < g->allow_n; i++) {
		const struct gate_allow *a = &g->allow[i];

		if (!allow_matches(a, s, d))
			continue;
		if (!a->expires[0] || strcmp(today, a->expires) <= 0)
			return a;
		*ret_expired = true;
	}
	return NULL;
}

struct denied {
	uint64_t n;
	const struct story_denial *first;
	bool expired; /* an approval is, of one of them */
};

/* Up to the landing; those that a receipt counted but could not keep can be approved by nobody. */
static void count_denials(const struct gate *g, const struct gate_facts *f, struct denied *d)
{
	const struct story *s = f->story;
	bool expired;

	for (size_t i = 0; i < s->denials_n; i++) {
		if (s->denials[i].since > f->landed_seq ||
			gate_allows(g, s, &s->denials[i], f->today, &expired))
			continue;
		d->expired |= expired;
		d->first = d->first ? d->first : &s->denials[i];
		d->n = story_sum(d->n, 1);
	}
	for (size_t i = 0; i < s->commands_n; i++)
		if (s->commands[i].since <= f->landed_seq && s->commands[i].denials_lost > 0)
			d->n = story_sum(d->n, (uint64_t)s->commands[i].denials_lost);
}

/* What was refused to a command is told when it ends. */
static void judge_running(const struct gate_facts *f, struct gate_problems *ret)
{
	for (size_t i = 0; i < f->story->commands_n; i++) {
		const struct story_command *c = &f->story->commands[i];

		if (c->running && c->since <= f->landed_seq)
			gate_problem(ret, GATE_DENIALS,
				"the command of event %s had not ended when this evidence was "
				"taken: what it was denied is not known yet",
				story_command_name(c).s);
	}
}

/* Of all environments together: forking must not give a new allowance. */
static void judge_denials(
	const struct gate *g, const struct gate_facts *f, struct gate_problems *ret)
{
	cleanup_buf struct buf shown = BUF_INIT(2048);
	struct denied d = {0};

	for (; f; f = f->origin) {
		count_denials(g, f, &d);
		judge_running(f, ret);
	}
	if (d.n <= g->max_denials)
		return;
	if (d.first) {
		const char *what = d.first->host && *d.first->host ? d.first->host : d.first->path;

		buf_addf(&shown, "%s ", d.first->operation ? d.first->operation : "access");
		str_show(&shown, what ? what : "?", what ? strnlen(what, 120) : 1);
	} else {
		buf_adds(&shown, "not kept by the receipt");
	}
	gate_problem(ret, GATE_DENIALS,
		"%" PRIu64 " denial%s that nobody approved (at most %" PRIu64
		" may be), the first: %s%s; look at them with croft log, and allow what is meant "
		"in allowed-denials",
		d.n, d.n == 1 ? "" : "s", g->max_denials, buf_str(&shown),
		d.expired ? "; an approval has expired" : "");
}

/* ------------------------------------------------------------------ tests and review */

/* Did a later event before the landing leave another tree? */
static bool changed_after(const struct gate_facts *f, uint64_t seq, const char *tree)
{
	bool unknown = false; /* a session ran commands, and has not looked at the tree since */

	for (size_t i = 0; i < f->story->entries_n; i++) {
		const struct ledger_entry *x = &f->story->entries[i];
		const char *now;

		if (x->seq <= seq || x->seq >= f->landed_seq)
			continue;
		if (x->kind == EVENT_RESTORED || x->kind == EVENT_DISCARDED ||
			x->kind == EVENT_INTERRUPTED)
			return true;
		if (x->kind == EVENT_SESSION && !jget(x->predicate, "interval")) {
			unknown |= jlen(jget(x->predicate, "entries")) > 0;
			continue;
		}
		if (x->kind != EVENT_EXEC && x->kind != EVENT_SESSION)
			continue;
		now = story_tree(x);
		if (!now || !tree || !str_eq(now, tree))
			return true;
		unknown = false;
	}
	return unknown;
}

static bool same_command(const struct story_command *a, const struct story_command *b)
{
	if (jlen(a->argv) != jlen(b->argv))
		return false;
	for (size_t i = 0; i < jlen(a->argv); i++) {
		const char *x = jstr(jat(a->argv, i)), *y = jstr(jat(b->argv, i));

		if (!x || !y || !str_eq(x, y))
			return false;
	}
	return true;
}

/* Only the last result of each test command before the landing counts. */
static bool superseded(const struct gate_facts *f, size_t at)
{
	const struct story *s = f->story;

	for (size_t i = at + 1; i < s->commands_n; i++)
		if (s->commands[i].seq < f->landed_seq && s->commands[i].test &&
			!s->commands[i].running && same_command(&s->commands[i], &s->commands[at]))
			return true;
	return false;
}

/* Without a review in between, what landed must be what was there when the tests ran. */
static bool landed_other(const struct gate_facts *f, const char *tree)
{
	for (size_t i = 0; i < f->story->landings_n; i++) {
		const struct story_landing *l = &f->story->landings[i];

		if (l->entry->seq == f->landed_seq)
			return !l->reviewed && l->accepted && (!tree || !str_eq(l->accepted, tree));
	}
	return true;
}

static void judge_tests(const struct gate_facts *f, struct gate_problems *ret)
{
	const struct story *s = f->story;
	const struct story_command *last = NULL;

	for (size_t i = 0; i < s->commands_n; i++) {
		const struct story_command *c = &s->commands[i];

		if (!c->test || c->running || c->seq >= f->landed_seq || superseded(f, i))
			continue;
		if (!c->passed)
			gate_problem(ret, GATE_TESTS, "the test in event %s failed",
				story_command_name(c).s);
		last = c;
	}
	if (!last)
		gate_problem(ret, GATE_TESTS,
			"no test ran before it landed; run one with croft exec --as test");
	else if (last->entry && !last->tree)
		gate_problem(ret, GATE_TESTS,
			"other commands ran beside the tests in event %s and changed something, so "
			"what was tested is not known; run them again by themselves",
			story_command_name(last).s);
	else if (changed_after(f, last->seq, last->tree))
		gate_problem(ret, GATE_TESTS,
			"something changed after the tests in event %s; run them again before "
			"landing",
			story_command_name(last).s);
	else if (landed_other(f, last->tree))
		gate_problem(ret, GATE_TESTS,
			"what landed is not what the tests in event %s ran on",
			story_command_name(last).s);
}

static void judge_review(const struct gate_facts *f, struct gate_problems *ret)
{
	const struct story *s = f->story;
	const struct story_review *last = NULL;

	for (size_t i = 0; i < s->reviews_n; i++)
		if (s->reviews[i].entry->seq < f->landed_seq)
			last = &s->reviews[i];
	if (!last)
		gate_problem(
			ret, GATE_REVIEW, "nobody reviewed it before it landed; use croft review");
	else if (!last->result || !str_eq(last->result, "PASSED"))
		gate_problem(ret, GATE_REVIEW, "the review in event %" PRIu64 " accepted nothing",
			last->entry->seq);
	else if (changed_after(f, last->entry->seq, last->tree))
		gate_problem(ret, GATE_REVIEW,
			"something changed after the review in event %" PRIu64, last->entry->seq);
}

/* ------------------------------------------------------------------ boundary */

static void judge_command(const struct gate *g, const char *of, const struct story_command *c,
	struct gate_problems *ret)
{
	cleanup_buf struct buf shown = BUF_INIT(1024);
	const char *tier = c->tier ? c->tier : "unknown", *less;

	str_show(&shown, tier, strnlen(tier, 64));
	if (g->tiers.n && (!c->tier || !strlist_has(&g->tiers, c->tier)))
		gate_problem(ret, GATE_TIER, "event %s%s ran in the tier %s",
			story_command_name(c).s, of, buf_str(&shown));
	if (!g->clean || (c->receipt && jlen(c->degradations) == 0))
		return;
	less = jstr(jat(c->degradations, 0));
	less = less ? less : "its receipt is missing";
	buf_reset(&shown);
	str_show(&shown, less, strnlen(less, 200));
	gate_problem(ret, GATE_DEGRADED, "event %s%s ran with less protection: %s",
		story_command_name(c).s, of, buf_str(&shown));
}

/* Those of the environments that it was forked from are told apart by the environment's id. */
static void judge_commands(
	const struct gate *g, const struct gate_facts *f, struct gate_problems *ret)
{
	char of[64] = "";

	for (; f; f = f->origin) {
		for (size_t i = 0; i < f->story->commands_n; i++)
			if (f->story->commands[i].since <= f->landed_seq)
				judge_command(g, of, &f->story->commands[i], ret);
		if (f->origin)
			snprintf(of, sizeof(of), " of %.16s, which it was forked from,",
				f->origin->verdict->env_id);
	}
}

bool gate_takes_key(const struct gate *g, const struct ledger_verdict *v)
{
	return !g->keys.n || strlist_has(&g->keys, v->key_id.hex);
}

/*
 * A session that never ended may have lost what it did last. Unless it was alive when this landed: then
 * everything until there was recorded before, and the landing, signed, says so.
 */
static bool cut_off(const struct gate_facts *f)
{
	const struct ledger_verdict *v = f->verdict;

	if (!v->open_session[0] || v->open_seq > f->landed_seq)
		return false;
	for (size_t i = 0; i < f->story->entries_n; i++) {
		const struct ledger_entry *x = &f->story->entries[i];
		const char *in = jstr(jget(jget(x->predicate, "croft"), "session"));

		if (x->seq == f->landed_seq)
			return !in || !str_eq(in, v->open_session);
	}
	return true;
}

void gate_judge(const struct gate *g, const struct gate_facts *f, struct gate_problems *ret)
{
	for (const struct gate_facts *o = f; o; o = o->origin) {
		if (!o->verdict->good) {
			gate_problem(ret, GATE_BAD_EVIDENCE,
				"event %" PRIu64 " of the evidence of %.16s is bad: %s",
				o->verdict->bad_seq, o->verdict->env_id, o->verdict->why);
			return;
		}
		if (cut_off(o)) {
			cleanup_buf struct buf why = BUF_INIT(1024);

			ledger_say_open(o->verdict, &why);
			gate_problem(ret, GATE_BAD_EVIDENCE,
				"the evidence of %.16s is not complete: %s", o->verdict->env_id,
				buf_str(&why));
		}
		if (!gate_takes_key(g, o->verdict))
			gate_problem(ret, GATE_KEY,
				"its evidence is signed with the key %.16s…, which the gate does "
				"not name",
				o->verdict->key_id.hex);
	}
	judge_denials(g, f, ret);
	if (g->tests)
		judge_tests(f, ret);
	if (g->review)
		judge_review(f, ret);
	judge_commands(g, f, ret);
}
