/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of sessions: see story.h. An event of a session holds entries "started", "ended",
 * "interrupted" and "dropped", each naming its process; receipts are lines of a file beside it.
 *
 * Trust: as in story.c. What does not fit together (an end without a start) is passed over: verifying has
 *        said that it is croft's own, and then it does not happen.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/story_impl.h"

void story_sessions_done(struct story_sessions *x)
{
	free(x->running);
	free(x->ended);
	*x = (struct story_sessions){0};
}

static bool push(size_t **v, size_t *n, size_t *cap, size_t value)
{
	size_t *more = story_grow(*v, *n, cap, STORY_COMMANDS_MAX, sizeof(**v));

	if (!more)
		return false;
	*v = more;
	more[(*n)++] = value;
	return true;
}

static bool is(const struct jnode *entry, const char *kind)
{
	const char *k = jstr(jget(entry, "kind"));

	return k && str_eq(k, kind);
}

static uint32_t number32(const struct jnode *n)
{
	int64_t v;

	return jint(n, &v) && v > 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

/* ---- entries ---- */

/* Whoever runs beside another does so from here on; of those that run, at most one was alone. */
static void mark_overlap(struct story_sessions *x, struct story *s)
{
	if (x->running_n < 2)
		return;
	s->commands[x->running[x->running_n - 1]].overlapped = true;
	if (x->running_n == 2)
		s->commands[x->running[0]].overlapped = true;
}

static int started(struct story_sessions *x, struct story *s, const struct ledger_entry *at,
	const struct jnode *entry)
{
	struct story_command *c = story_new_command(s);
	const char *policy = jstr(jget(entry, "policy"));

	if (!c || !push(&x->running, &x->running_n, &x->running_cap, s->commands_n - 1))
		return -EFBIG;
	c->seq = c->since = at->seq;
	c->entry = number32(jget(entry, "n"));
	c->process = number32(jget(entry, "process"));
	c->running = true;
	c->event = at;
	c->run = jstr(jget(entry, "run"));
	c->argv = jget(entry, "argv");
	c->cwd = jstr(jget(entry, "cwd"));
	c->label = jstr(jget(entry, "label"));
	c->test = jtrue(jget(entry, "test"));
	c->tty = jtrue(jget(entry, "tty"));
	/* Its boundary is the session's, whether it lives to leave a receipt or not. */
	c->tier = x->tier;
	c->degradations = x->degradations;
	c->policy = policy ? policy : x->policy;
	mark_overlap(x, s);
	return 0;
}

static struct story_command *take_running(
	struct story_sessions *x, struct story *s, uint32_t process, size_t *ret)
{
	for (size_t i = x->running_n; i-- > 0;) {
		size_t at = x->running[i];

		if (s->commands[at].process != process)
			continue;
		x->running[i] = x->running[--x->running_n];
		*ret = at;
		return &s->commands[at];
	}
	return NULL;
}

/* It has ended, or is gone. */
static int over(struct story_sessions *x, struct story *s, size_t i, const struct jnode *entry)
{
	const struct ledger_entry *at = &s->entries[i];
	const struct jnode *receipts = s->files[i] ? jdoc_root(s->files[i]) : NULL;
	uint32_t line = number32(jget(entry, "receipt"));
	const char *result = jstr(jget(entry, "result"));
	size_t which = 0;
	struct story_command *c = take_running(x, s, number32(jget(entry, "process")), &which);

	if (!c)
		return 0;
	c->running = false;
	c->event = at;
	c->seq = at->seq;
	c->entry = number32(jget(entry, "n"));
	c->interrupted = !is(entry, "ended");
	c->passed = c->test && result && str_eq(result, "PASSED");
	if (!push(&x->ended, &x->ended_n, &x->ended_cap, which))
		return -EFBIG;
	return line && line <= jlen(receipts) ? story_receipt(s, c, jat(receipts, line - 1)) : 0;
}

/* It never existed. Others are known by their places in the list: it is taken out in the end. */
static void dropped(struct story_sessions *x, struct story *s, const struct jnode *entry)
{
	size_t which = 0;
	struct story_command *c = take_running(x, s, number32(jget(entry, "process")), &which);

	if (c)
		c->dropped = true;
}

static int take_entries(struct story_sessions *x, struct story *s, size_t i)
{
	const struct jnode *list = jget(s->entries[i].predicate, "entries");
	int r = 0;

	for (size_t k = 0; k < jlen(list) && r == 0; k++) {
		const struct jnode *entry = jat(list, k);

		if (is(entry, "started"))
			r = started(x, s, &s->entries[i], entry);
		else if (is(entry, "dropped"))
			dropped(x, s, entry);
		else if (is(entry, "ended") || is(entry, "interrupted"))
			r = over(x, s, i, entry);
	}
	return r;
}

/* ---- trees ---- */

static bool one_process(const struct jnode *ranges)
{
	return jlen(ranges) == 1 && number32(jat(jat(ranges, 0), 0)) != 0 &&
	       number32(jat(jat(ranges, 0), 0)) == number32(jat(jat(ranges, 0), 1));
}

static void give_tree(struct story_sessions *x, struct story *s, const struct ledger_entry *at)
{
	const struct jnode *interval = jget(at->predicate, "interval");
	const char *tree = story_tree(at);
	bool sure = tree && (one_process(jget(interval, "processes")) ||
				    (x->tree && str_eq(x->tree, tree)));

	if (!interval)
		return;
	for (size_t k = 0; k < x->ended_n && sure; k++)
		s->commands[x->ended[k]].tree = tree;
	x->ended_n = 0;
	x->tree = tree;
}

int story_session(struct story_sessions *x, struct story *s, size_t i)
{
	const struct jnode *p = s->entries[i].predicate, *begin = jget(p, "begin");
	int r;

	if (begin) {
		x->id = jstr(jget(p, "session"));
		x->tier = jstr(jget(begin, "tier"));
		x->policy = jstr(jget(begin, "policy"));
		x->degradations = jget(begin, "degradations");
		x->running_n = x->ended_n = 0; /* of one that never ended: they stay as they are */
	}
	r = take_entries(x, s, i);
	if (r == 0)
		give_tree(x, s, &s->entries[i]);
	if (jget(p, "end"))
		x->running_n = x->ended_n = 0;
	return r;
}

void story_seen(struct story_sessions *x, const struct story *s, const struct ledger_entry *e)
{
	if (e == s->entries)
		x->tree = e->kind == EVENT_CREATED ? s->base_tree : NULL;
	else if (e->kind == EVENT_EXEC)
		x->tree = story_tree(e);
	else if (e->kind == EVENT_RESTORED || e->kind == EVENT_DISCARDED ||
		 e->kind == EVENT_INTERRUPTED)
		x->tree = NULL;
}
