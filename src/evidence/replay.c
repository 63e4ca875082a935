/* SPDX-License-Identifier: Apache-2.0 */
/* Replaying: see replay.h. */
#include "evidence/replay.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_exec.h"
#include "evidence/export.h"
#include "session/config/objects.h"
#include "session/run/receipt.h"
#include "os/interrupt.h"

#define NAMES_MAX 10000
/* What a command of a session gets: one that ends when it is told to would run for ever, for nobody tells. */
#define ALONE_LEAST_MS 10000u
#define ALONE_TIMES 10u

const char *const replay_state_names[] = {
	"holds", "differs", "refused", "not replayable", "prepared"};
static_assert(ARRAY_SIZE(replay_state_names) == REPLAY_STATE_NUM, "one name each");

void replay_done(struct replay *r)
{
	free(r->commands);
	story_done(&r->old);
	story_done(&r->new);
	strlist_done(&r->notes);
	if (r->source)
		export_source_done(r->source);
	free(r->source);
	*r = (struct replay){0};
}

__attribute__((format(printf, 2, 3))) static void note(struct replay *r, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	strlist_add(&r->notes, buf_str(&b));
}

/* ------------------------------------------------------------------ what can be run */

static bool bare_shell(const struct story_command *c)
{
	static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "fish"};
	const char *a = jstr(jat(c->argv, 0)), *slash = a ? strrchr(a, '/') : NULL;
	size_t n = jlen(c->argv);
	const char *second = n > 1 ? jstr(jat(c->argv, 1)) : NULL;

	if (n > 2 || (second && !str_eq(second, "-i") && !str_eq(second, "-l")))
		return false;
	for (size_t i = 0; a && i < ARRAY_SIZE(shells); i++)
		if (str_eq(slash ? slash + 1 : a, shells[i]))
			return true;
	return false;
}

/*
 * A server runs until somebody ends it: alone, it would run for ever. A shell says so with 128 and the
 * signal's number.
 */
static bool ended_from_outside(const struct story_command *c)
{
	static const int ends[] = {SIGHUP, SIGINT, SIGKILL, SIGTERM};

	for (size_t i = 0; c->process && i < ARRAY_SIZE(ends); i++)
		if (c->signal == ends[i] || c->exit_code == 128 + ends[i])
			return true;
	return c->process && c->timed_out;
}

const char *replay_cannot(const struct story_command *c)
{
	if (c->running)
		return "it was still running: how it would have ended is not known";
	if (c->interrupted)
		return "it was interrupted: how it would have ended is not known";
	if (jlen(c->argv) == 0 || !c->receipt)
		return "the evidence does not say what ran";
	if (story_redacted(c))
		return "a secret was taken out of its arguments";
	if (c->tty || bare_shell(c))
		return "it was interactive";
	if (ended_from_outside(c))
		return "it ran in a session until a signal ended it";
	return NULL;
}

/* ------------------------------------------------------------------ comparing */

static bool same_text(const char *a, const char *b)
{
	return str_eq(a ? a : "", b ? b : "");
}

static bool same_denial(const struct story_denial *a, const struct story_denial *b)
{
	return same_text(a->operation, b->operation) && same_text(a->path, b->path) &&
	       same_text(a->host, b->host) && same_text(a->method, b->method) && a->port == b->port;
}

static bool denied_to(const struct story_denial *d, const struct story_command *c)
{
	return d->seq == c->seq && same_text(d->run, c->run);
}

/* How many denials of command `of` in a have no equal of command `in` in b. */
static size_t only_in(const struct story *a, const struct story_command *of, const struct story *b,
	const struct story_command *in, const struct story_denial **ret_first)
{
	size_t n = 0;

	for (size_t i = 0; i < a->denials_n; i++) {
		bool found = false;

		if (!denied_to(&a->denials[i], of))
			continue;
		for (size_t k = 0; k < b->denials_n && !found; k++)
			found = denied_to(&b->denials[k], in) &&
				same_denial(&a->denials[i], &b->denials[k]);
		if (found)
			continue;
		if (!n++ && ret_first)
			*ret_first = &a->denials[i];
	}
	return n;
}

void replay_judge(struct replay *r, struct replay_command *c)
{
	const struct story_command *was = c->old, *is = c->new;

	c->exit_same = was->exit_code == is->exit_code && was->signal == is->signal &&
		       was->timed_out == is->timed_out;
	c->tree_known = was->tree && is->tree;
	c->tree_same = c->tree_known && str_eq(was->tree, is->tree);
	c->test_same = was->test == is->test && was->passed == is->passed;
	c->denials_new = only_in(&r->new, is, &r->old, was, &c->first_new);
	c->denials_gone = only_in(&r->old, was, &r->new, is, NULL);
	c->state = c->exit_same && c->test_same && (c->tree_same || !c->tree_known) &&
				   !c->denials_new && !c->denials_gone
			   ? REPLAY_HOLDS
			   : REPLAY_DIFFERS;
}

static const struct story_command *command_at(const struct story *s, uint64_t seq)
{
	for (size_t i = 0; i < s->commands_n; i++)
		if (s->commands[i].seq == seq)
			return &s->commands[i];
	return NULL;
}

static void judge_all(struct replay *r)
{
	for (size_t i = 0; i < r->commands_n; i++) {
		struct replay_command *c = &r->commands[i];

		if (c->state == REPLAY_HOLDS || c->state == REPLAY_DIFFERS) {
			c->new = command_at(&r->new, c->seq);
			if (c->new) {
				replay_judge(r, c);
			} else {
				c->state = REPLAY_REFUSED;
				snprintf(c->why, sizeof(c->why), "it ran, but was not recorded");
			}
		}
		r->failed += c->state == REPLAY_DIFFERS || c->state == REPLAY_REFUSED;
	}
}

/* ------------------------------------------------------------------ running */

/* The same place in this workspace, or its top. */
static char *place_of(const struct env *v, const struct story_command *c)
{
	size_t n = c->workspace ? strlen(c->workspace) : 0;
	cleanup_buf struct buf b = BUF_INIT(8192);

	buf_adds(&b, v->kind == ENV_COPY ? v->copy : v->workspace);
	if (n && c->cwd && strncmp(c->cwd, c->workspace, n) == 0 && c->cwd[n] == '/')
		buf_adds(&b, c->cwd + n);
	return buf_take(&b);
}

/* LIMIT_NONE: it was not in a session, or how long it took is not known. */
static uint64_t alone_ms(const struct story_command *c)
{
	if (!c->process || c->wall_us < 0)
		return LIMIT_NONE;
	return ALONE_LEAST_MS + ALONE_TIMES * ((uint64_t)c->wall_us / 1000);
}

static int run_one(struct env *v, const struct replay_request *q, struct policy *p,
	struct replay_command *c, struct err *e)
{
	size_t n = jlen(c->old->argv);
	cleanup_free char **argv = calloc(n + 1, sizeof(*argv));
	cleanup_free char *cwd = place_of(v, c->old);
	struct env_exec x = {.policy = p,
		.cwd = cwd,
		.argv = argv,
		.environ = q->environ,
		.stdio = {-1, q->verbose ? STDERR_FILENO : -1, q->verbose ? STDERR_FILENO : -1},
		.as_test = c->old->test,
		.allow_degraded = jlen(c->old->degradations) > 0,
		.label = c->old->label};
	uint64_t limit = p->limits.timeout_ms, own = alone_ms(c->old);
	struct err why = ERR_INIT;
	struct receipt receipt;
	int r;

	if (!argv || !cwd || receipt_init(&receipt) < 0)
		return err_set(e, ENOMEM, "run a command again");
	for (size_t i = 0; i < n; i++)
		argv[i] = (char *)(uintptr_t)jstr(jat(c->old->argv, i)); /* execve's type */
	p->limits.timeout_ms = MIN_OF(limit, own);
	r = env_exec(v, &x, &receipt, &why);
	p->limits.timeout_ms = limit;
	if (r < 0) {
		c->state = REPLAY_REFUSED;
		snprintf(c->why, sizeof(c->why), "%.500s", why.msg);
	} else if (receipt.outcome.timed_out && own < limit) {
		c->state = REPLAY_NOT;
		snprintf(c->why, sizeof(c->why),
			"it ran in a session, and alone it did not end in %" PRIu64 " s", own / 1000);
	} else {
		c->seq = v->tip_known ? v->tip.seq : 0;
	}
	receipt_done(&receipt);
	return 0;
}

/* A command whose result is compared, or (before the event asked for) only what leads there. */
static int run_listed(struct replay *r, struct env *v, const struct replay_request *q,
	struct policy *p, const struct story_command *old, struct err *e)
{
	struct replay_command *c = &r->commands[r->commands_n++];
	const char *cannot = replay_cannot(old);
	int x;

	*c = (struct replay_command){.old = old, .state = REPLAY_DIFFERS};
	if (cannot) {
		c->state = REPLAY_NOT;
		snprintf(c->why, sizeof(c->why), "%s", cannot);
		return 0;
	}
	x = run_one(v, q, p, c, e);
	if (q->event && old->seq != q->event && c->state == REPLAY_DIFFERS)
		c->state = REPLAY_PREPARED;
	return x;
}

/* A command of the environment that this one was forked from. */
static int run_before(struct replay *r, struct env *v, const struct replay_request *q,
	struct policy *p, const struct story_command *old, struct err *e)
{
	struct replay_command c = {.old = old, .state = REPLAY_PREPARED};
	const char *cannot = replay_cannot(old);
	int x = cannot ? 0 : run_one(v, q, p, &c, e);

	if (cannot || c.state != REPLAY_PREPARED)
		note(r,
			"event %" PRIu64
			" of the environment that it was forked from could not be run again: %s",
			old->seq, cannot ? cannot : c.why);
	return x;
}

/*
 * Every event of a story up to `last` (0: all), in order; the commands of an event are those that started in
 * it. What ran at once is run one after the other, in the order of their starts.
 */
static int run_story(struct replay *r, struct env *v, const struct replay_request *q,
	struct policy *p, const struct story *s, uint64_t last, struct err *e)
{
	size_t k = 0;
	int x = 0;

	for (size_t i = 0; i < s->entries_n && x == 0; i++) {
		const struct ledger_entry *at = &s->entries[i];

		if (last && at->seq > last)
			break;
		x = replay_step(v, at, e);
		while (x == 0 && k < s->commands_n && s->commands[k].since == at->seq) {
			x = (s == &r->old ? run_listed : run_before)(
				r, v, q, p, &s->commands[k++], e);
			if (x == 0) /* who ends a replay ends all of it: no result of a command */
				x = interrupt_check(e);
		}
		if (x == 0)
			x = interrupt_check(e);
	}
	return x;
}

/* What a fork was forked from, and what that one was, first. */
static int run_origins(struct replay *r, struct env *v, const struct replay_request *q,
	struct policy *p, const struct story *s, unsigned depth, struct err *e)
{
	cleanup_story struct story from = {0};
	uint64_t last = 0;
	int x;

	if (!s->parent || !*s->parent)
		return 0;
	if (depth == REPLAY_FORKS_MAX)
		return err_invalid(e, "it is a fork of more than %d others", REPLAY_FORKS_MAX);
	x = replay_origin(&from, &last, r->source->repo, s, e);
	if (x == 0)
		x = run_origins(r, v, q, p, &from, depth + 1, e);
	if (x == 0)
		x = run_story(r, v, q, p, &from, last, e);
	return x < 0 ? x : replay_forked(v, e);
}

static int run_all(struct replay *r, struct env *v, const struct replay_request *q,
	struct policy *p, struct err *e)
{
	int x = run_origins(r, v, q, p, &r->old, 0, e);

	return x < 0 ? x : run_story(r, v, q, p, &r->old, q->event, e);
}

/* ------------------------------------------------------------------ the fresh environment */

static int fresh(struct replay *r, struct env *ret, struct policy *p, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(256u << 20);
	const struct export_source *s = r->source;
	struct env_new n = {.name = r->env_name,
		.from = r->old.base_commit,
		.policy_digest = p->digest.hex,
		.tier = policy_tier_names[p->tier],
		.policy = p,
		.agent = "croft replay",
		.task = "run recorded commands again"};
	cleanup_strlist struct strlist names = STRLIST_INIT(1000000);
	cleanup_free char *state = NULL, *home = NULL;
	int x = env_state_dir(&state, &home, e);

	if (x < 0)
		return x;
	policy_canonical(p, &text);
	n.policy_text = buf_str(&text);
	n.workspace = s->repo->workspace;
	n.home = home;
	n.state_dir = state;
	n.args = s->has_env ? s->env.args.v : NULL;
	n.args_n = s->has_env ? s->env.args.n : 0;
	n.copy = (s->has_env && s->env.kind == ENV_COPY) || !engine_tier_can(p->tier, ENGINE_STAGE);
	if (n.copy && r->candidate)
		return err_invalid(e, "a candidate policy can be tried only where environments are "
				      "staged; this one is a plain copy");
	x = env_names(&names, e);
	if (x < 0)
		return x;
	for (int i = 1; i < NAMES_MAX; i++) {
		snprintf(r->env_name, sizeof(r->env_name), "replay-%.6s-%d", s->id, i);
		if (!strlist_has(&names, r->env_name))
			break;
	}
	return env_create(ret, &n, e);
}

/* What makes a replay less than exact is said, not hidden. */
static int check_start(
	struct replay *r, const struct replay_request *q, const struct policy *p, struct err *e)
{
	const struct export_source *s = r->source;
	struct oid commit, tree;
	size_t overlapped = 0;
	int x;

	if (!r->old.base_commit || !*r->old.base_commit)
		return err_invalid(e, "the environment did not begin with a commit, so there is "
				      "nothing to begin again from");
	x = repo_resolve(s->repo, r->old.base_commit, &commit, &tree, e);
	if (x < 0)
		return err_wrap(e, "the commit that the environment began with");
	if (r->old.base_tree && !str_eq(r->old.base_tree, oid_hex(&tree).s))
		note(r,
			"the environment began with uncommitted changes; the replay begins with "
			"commit %.12s without them",
			r->old.base_commit);
	if (!q->policy && r->old.policy && !str_eq(r->old.policy, p->digest.hex))
		note(r, "the policy is not the recorded one any more: the files or programs it "
			"comes from have changed");
	for (size_t i = 0; i < r->old.commands_n; i++)
		overlapped += r->old.commands[i].overlapped;
	if (overlapped)
		note(r,
			"%zu commands ran while others did; they were run again one after the "
			"other, "
			"in the order in which they started",
			overlapped);
	if (q->event && !command_at(&r->old, q->event))
		return err_invalid(e, "event %" PRIu64 " is not a command; see croft log", q->event);
	return 0;
}

static int open_old(struct replay *r, const struct replay_request *q, struct err *e)
{
	int x;

	r->source = calloc(1, sizeof(*r->source));
	if (!r->source)
		return err_set(e, ENOMEM, "replay");
	x = export_source_open(r->source, q->name, e);
	if (x == 0)
		x = ledger_verify(r->source->repo, &r->source->tip, NULL, &r->verdict, e);
	if (x < 0)
		return x;
	if (!r->verdict.good)
		return err_refuse(e,
			"the evidence is not good (event %" PRIu64 ": %s); nothing was run",
			r->verdict.bad_seq, r->verdict.why);
	if (r->verdict.open_session[0]) {
		cleanup_buf struct buf why = BUF_INIT(512);

		ledger_say_open(&r->verdict, &why);
		note(r, "the evidence is not complete: %s", buf_str(&why));
	}
	x = story_read(&r->old, r->source->repo, &r->source->tip, 0, e);
	if (x < 0)
		return x;
	r->commands = calloc(r->old.commands_n + 1, sizeof(*r->commands));
	return r->commands ? 0 : err_set(e, ENOMEM, "replay");
}

/* A copy is another directory, so its policy is another, too; it refers to the host's objects. */
static int policy_of_copy(const struct env *v, struct policy *p, struct err *e)
{
	cleanup_strlist struct strlist args = STRLIST_INIT(8192);
	cleanup_free bool *left_out = calloc(v->base.objects.n + 1, sizeof(*left_out));
	struct objects_check check = {.policy = p, .repo = &v->repo, .state_dir = v->state_dir};
	bool full = !left_out;

	if (!full && objects_check(&check, &v->base.objects, left_out, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < v->args.n; i++)
		full |= !strlist_add(&args, v->args.v[i]);
	for (size_t i = 0; !full && i < v->base.objects.n; i++)
		full = !left_out[i] &&
		       (!strlist_add(&args, "--read") || !strlist_add(&args, v->base.objects.v[i]));
	if (full)
		return err_set(e, ENOMEM, "load the policy of a copy");
	policy_done(p);
	*p = (struct policy){0};
	return replay_policy(p, v->copy, args.v, args.n, e);
}

/* Run, read back, judge; the environment is gone afterwards, whatever happened. */
static int act(struct replay *r, const struct replay_request *q, struct policy *p, struct err *e)
{
	cleanup_interrupt struct interrupt watched = {0}, held = {0}; /* released last to first */
	struct err gone = ERR_INIT;
	struct env v;
	int x;

	interrupt_watch(&watched);
	x = fresh(r, &v, p, e);
	if (x < 0)
		return err_wrap(e, "make a fresh environment");
	if (v.kind == ENV_COPY)
		x = policy_of_copy(&v, p, e);
	if (x == 0)
		x = run_all(r, &v, q, p, e);
	if (x == 0 && v.tip_known)
		x = story_read(&r->new, &v.repo, &v.tip.commit, 0, e);
	if (x == 0)
		judge_all(r);
	interrupt_hold(&held);
	r->kept = q->keep && x == 0;
	if (!r->kept && env_remove(&v, true, &gone) < 0)
		note(r, "%s is still there: %s", r->env_name, gone.msg);
	env_done(&v);
	return x;
}

int replay(struct replay *ret, const struct replay_request *q, struct err *e)
{
	cleanup_replay struct replay r = {
		.notes = STRLIST_INIT(64), .candidate = q->policy != NULL};
	struct policy own = {0};
	struct policy *p = q->policy;
	int x = open_old(&r, q, e);

	if (x == 0 && !p) {
		if (!r.source->has_env)
			x = err_invalid(e, "the policy options of the environment are not on this "
					   "machine; give a policy");
		else
			x = replay_policy(&own, r.source->env.workspace, r.source->env.args.v,
				r.source->env.args.n, e);
		p = &own;
	}
	if (x == 0) {
		r.policy = p->digest;
		x = check_start(&r, q, p, e);
		if (x == 0)
			x = act(&r, q, p, e);
		if (p == &own)
			policy_done(&own);
	}
	if (x < 0)
		return x;
	*ret = r;
	r = (struct replay){0};
	return 0;
}
