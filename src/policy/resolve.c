/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers become one policy.
 *
 * Purpose: floor -> profile -> system -> user -> project -> command line. A later layer replaces an
 *          earlier one's rule for the same path and the same setting; lists add up.
 * Trust:   three bounds hold whatever the later layers say. The floor's denies are absolute. The
 *          system layer is a ceiling: its denies (with its own exceptions), limits, tier, threat,
 *          observation and hosts cannot be exceeded. A project layer that the user has not approved
 *          may not widen what the user would have without it; this is decided by comparing the two
 *          resolved policies, not by looking at single keys, so a change of profile counts too.
 * Order:   filesystem rules (rules.c), single values, lists, digest.
 * Failure: a rule that contradicts a bound is refused with both places; nothing is returned.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define SCRATCH_B (40u << 10) /* enough for the built-in layers alone */

/* What is denied by its name has no other rule: one path, one rule. */
static bool is_denied(const struct policy_fixed *fixed, const struct policy_rule *r)
{
	for (const struct policy_fixed *f = fixed; f->path; f++)
		if (f->deny && !r->glob && str_eq(f->path, r->path))
			return true;
	return false;
}

int policy_present(struct policy *ret, struct policy *p, const bool *skip,
	const struct policy_fixed *fixed, struct err *e)
{
	struct policy live = *p;
	size_t fixed_n = 0;

	while (fixed[fixed_n].path)
		fixed_n++;
	live.rules = policy_alloc(p, (p->rules_n + fixed_n + 1) * sizeof(*live.rules));
	if (!live.rules)
		return err_set(e, ENOMEM, "settle the policy");
	live.rules_n = 0;
	for (size_t i = 0; i < p->rules_n; i++)
		if ((!skip[i] || !p->rules[i].optional) && !is_denied(fixed, &p->rules[i]))
			live.rules[live.rules_n++] = p->rules[i];
	for (const struct policy_fixed *f = fixed; f->path; f++) {
		struct policy_rule *r = &live.rules[live.rules_n];
		const struct policy_rule *decider = NULL;

		if (policy_access(p, f->path, &decider) <= (f->deny ? ACCESS_DENY : ACCESS_READ) &&
			!policy_rule_is_git(decider))
			continue;
		*r = (struct policy_rule){.access = f->deny ? ACCESS_DENY : ACCESS_READ,
			.optional = !f->absent,
			.path = policy_keep(p, f->path),
			.origin = {.layer = f->runs || f->deny ? LAYER_PROFILE : LAYER_FLOOR,
				.file = f->deny   ? "socket of a host service"
					: f->runs ? policy_held_origin
						  : "floor"}};
		if (!r->path)
			return err_set(e, ENOMEM, "settle the policy");
		live.rules_n++;
	}
	live.globs = NULL;
	live.globs_n = 0;
	if (policy_index(&live, e) < 0)
		return -e->errnum;
	*ret = live;
	return 0;
}

void policy_done(struct policy *p)
{
	struct arena a = {.head = p->memory};

	arena_done(&a);
	*p = (struct policy){0};
}

void *policy_alloc(struct policy *p, size_t n)
{
	struct arena a = {.head = p->memory};
	void *v = arena_alloc(&a, n);

	p->memory = a.head;
	return v;
}

const char *policy_keep(struct policy *p, const char *s)
{
	struct arena a = {.head = p->memory};
	const char *copy = arena_dup(&a, s);

	p->memory = a.head;
	return copy;
}

/* ---- single values ---- */

static int refuse_lower(const struct policy_layer *l, const struct layer_word *w, const char *what,
	const char *const *names, const struct policy_layer *sys, unsigned least, struct err *e)
{
	err_refuse(e, "%s %s is less than the %s that %s requires", what, names[w->v], names[least],
		sys->name);
	return layer_err(l, w->at, e);
}

struct word_key {
	const char *what;
	size_t offset; /* of the struct layer_word in a layer */
	const char *const *names;
	int (*strength)(unsigned v);
};

static int same(unsigned v)
{
	return (int)v;
}

/* In this order: how much is observed depends on the threat level. */
enum { WORD_TIER, WORD_THREAT, WORD_OBSERVE, WORD_NUM };
static const struct word_key word_keys[WORD_NUM] = {
	{"tier", offsetof(struct policy_layer, tier), policy_tier_names, tier_strength},
	{"threat", offsetof(struct policy_layer, threat), policy_threat_names, same},
	{"observe", offsetof(struct policy_layer, observe), policy_observe_names, same},
};

static int combine_word(
	unsigned *ret, const struct stack *s, const struct word_key *k, struct err *e)
{
	const struct policy_layer *sys = NULL;
	unsigned v = *ret, least = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct layer_word *w =
			(const struct layer_word *)((const char *)s->v[i] + k->offset);

		if (!w->set)
			continue;
		if (s->v[i]->kind == LAYER_SYSTEM) {
			if (k->strength(w->v) > k->strength(v))
				v = w->v;
			if (k->strength == tier_strength && w->v == TIER_AUTO)
				continue; /* leaves the choice open */
			sys = s->v[i];
			least = w->v;
		} else if (sys && k->strength(w->v) < k->strength(least)) {
			return refuse_lower(s->v[i], w, k->what, k->names, sys, least, e);
		} else {
			v = w->v;
		}
	}
	*ret = v;
	return 0;
}

static int combine_words(struct policy *p, const struct stack *s, struct err *e)
{
	unsigned v[WORD_NUM] = {TIER_AUTO, THREAT_RISKY, OBSERVE_KNOWN};

	for (size_t i = 0; i < WORD_NUM; i++) {
		int r;

		if (i == WORD_OBSERVE && v[WORD_THREAT] == THREAT_HOSTILE)
			v[i] = OBSERVE_WRITES; /* unless a layer says how much */
		r = combine_word(&v[i], s, &word_keys[i], e);
		if (r < 0)
			return r;
	}
	p->tier = (enum tier)v[WORD_TIER];
	p->threat = (enum threat)v[WORD_THREAT];
	p->observe = (enum observe)v[WORD_OBSERVE];
	return 0;
}

/* The last layer's number, never above the system's. */
static void combine_limits(struct policy *p, const struct stack *s)
{
	for (int k = 0; k < LIMIT_NUM; k++) {
		uint64_t v = LIMIT_NONE, most = LIMIT_NONE;

		for (size_t i = 0; i < s->n; i++) {
			const struct layer_limit *l = &s->v[i]->limits[k];

			if (!l->set)
				continue;
			if (s->v[i]->kind == LAYER_SYSTEM)
				most = l->v;
			v = s->v[i]->kind == LAYER_SYSTEM ? MIN_OF(v, l->v) : l->v;
		}
		*limit_field(&p->limits, (enum limit_id)k) = MIN_OF(v, most);
	}
}

/* ---- lists ---- */

/* A list of layers' text becomes the policy's: sorted, each once, in the same array. */
static int settle(struct policy *p, struct strlist *ret, char **v, size_t n, struct err *e)
{
	*ret = (struct strlist){.v = v, .cap = n, .max = POLICY_LIST_MAX};
	sort_text(v, n);
	for (size_t i = 0; i < n; i++) {
		if (ret->n && str_eq(ret->v[ret->n - 1], v[i]))
			continue;
		ret->v[ret->n] = (char *)policy_keep(p, v[i]);
		if (!ret->v[ret->n++])
			return policy_no_memory(e);
	}
	if (ret->n > POLICY_LIST_MAX)
		return err_invalid(e, "the layers have more than %u entries in one list together",
			POLICY_LIST_MAX);
	return 0;
}

/* An array for all entries of one list of every layer. */
static int room(char ***ret, struct policy *p, const struct stack *s, size_t offset, struct err *e)
{
	size_t n = 1;

	for (size_t i = 0; i < s->n; i++)
		n += ((const struct layer_list *)((const char *)s->v[i] + offset))->n;
	*ret = policy_alloc(p, n * sizeof(char *));
	return *ret ? 0 : policy_no_memory(e);
}

static int combine_devices(struct policy *p, const struct stack *s, struct err *e)
{
	char **v = NULL;
	size_t n = 0;

	if (room(&v, p, s, offsetof(struct policy_layer, devices), e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < s->n; i++) {
		for (size_t j = 0; j < s->v[i]->devices.n; j++) {
			const struct layer_item *it = &s->v[i]->devices.v[j];
			const struct policy_rule *rule = NULL;

			if (policy_access(p, it->name, &rule) == ACCESS_DENY && rule) {
				err_refuse(e, "device %s is not possible: %s denies it", it->name,
					rule->origin.file);
				return layer_err(s->v[i], it->at, e);
			}
			v[n++] = (char *)it->name;
		}
	}
	return settle(p, &p->devices, v, n, e);
}

static int var_cmp(const void *a, const void *b)
{
	return strcmp(((const struct policy_var *)a)->name, ((const struct policy_var *)b)->name);
}

static int set_var(struct policy *p, const char *name, const char *value, struct err *e)
{
	size_t i = 0;

	while (i < p->env_set_n && !str_eq(p->env_set[i].name, name))
		i++;
	p->env_set[i] = (struct policy_var){policy_keep(p, name), policy_keep(p, value)};
	if (!p->env_set[i].name || !p->env_set[i].value)
		return policy_no_memory(e);
	p->env_set_n += i == p->env_set_n;
	return 0;
}

static int combine_variables(struct policy *p, const struct stack *s, struct err *e)
{
	size_t total = 0;
	int r = 0;

	for (size_t i = 0; i < s->n; i++)
		total += s->v[i]->set.n;
	if (total > POLICY_LIST_MAX)
		return err_invalid(
			e, "the layers set more than %u variables together", POLICY_LIST_MAX);
	if (total == 0)
		return 0;
	p->env_set = policy_alloc(p, total * sizeof(*p->env_set));
	if (!p->env_set)
		return policy_no_memory(e);
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; r == 0 && j < s->v[i]->set.n; j++)
			r = set_var(p, s->v[i]->set.v[j].name, s->v[i]->set.v[j].value, e);
	qsort(p->env_set, p->env_set_n, sizeof(*p->env_set), var_cmp);
	return r;
}

static int combine_environment(struct policy *p, const struct stack *s, struct err *e)
{
	char **v = NULL;
	size_t n = 0;
	int r;

	if (room(&v, p, s, offsetof(struct policy_layer, pass), e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < s->v[i]->pass.n; j++)
			v[n++] = (char *)s->v[i]->pass.v[j].name;
	r = settle(p, &p->env_pass, v, n, e);
	return r < 0 ? r : combine_variables(p, s, e);
}

/* ---- the whole ---- */

/* Nearly always the text fits into scratch memory of a fitting size; else it grows as it must. */
static int take_digest(struct policy *p, struct arena *scratch)
{
	size_t cap = 2048 + p->rules_n * 64;
	struct buf text = {.data = arena_alloc(scratch, cap), .cap = cap, .max = cap - 1};
	cleanup_buf struct buf grown = BUF_INIT(256u << 20);

	if (!text.data)
		return -ENOMEM;
	policy_canonical(p, &text);
	if (!text.failed) {
		digest_sha256(&p->digest, text.data, text.len);
		return 0;
	}
	policy_canonical(p, &grown);
	if (grown.failed)
		return -ENOMEM;
	digest_sha256(&p->digest, grown.data, grown.len);
	return 0;
}

static int combine(struct policy *ret, struct stack *s, const char *profile, bool digest,
	const struct policy_context *ctx, struct err *e)
{
	cleanup_policy struct policy p = {0};
	int r = combine_rules(&p, s, ctx, e);

	if (r == 0)
		r = combine_words(&p, s, e);
	if (r == 0)
		r = combine_environment(&p, s, e);
	if (r == 0)
		r = combine_devices(&p, s, e);
	if (r == 0)
		r = combine_network(&p, s, digest, e); /* what is only compared is not used */
	if (r < 0)
		return r;
	combine_limits(&p, s);
	p.profile = policy_keep(&p, profile);
	if (!p.profile)
		return policy_no_memory(e);
	if (digest && take_digest(&p, s->scratch) < 0)
		return policy_no_memory(e);
	*ret = p;
	p = (struct policy){0};
	return 0;
}

struct selection {
	struct policy_layer *const *layers;
	size_t n;
	const struct policy_layer *floor;
	const struct policy_context *ctx;
	struct arena *scratch;
};

/* Floor, profile, then the given layers; with or without the project and the command line. */
static int combine_selected(
	struct policy *ret, const struct selection *sel, bool project, bool cli, struct err *e)
{
	const struct policy_layer *given = NULL;
	const char *profile = "default";
	struct stack s = {.v = {sel->floor}, .n = 1, .scratch = sel->scratch};
	int r;

	for (size_t i = 0; i < sel->n; i++) {
		const struct policy_layer *l = sel->layers[i];

		if (!l)
			continue;
		if (l->kind == LAYER_PROFILE)
			given = l;
		else if (l->profile && (project || l->kind != LAYER_PROJECT))
			profile =
				l->profile; /* the last that asks; the command line always counts */
	}
	if (!given) {
		r = builtin_layer(&given, sel->scratch, profile, sel->ctx, e);
		if (r < 0)
			return r;
	} else {
		profile = given->name;
	}
	for (int k = LAYER_FLOOR; k < LAYER_NUM; k++) {
		if (k == LAYER_PROFILE)
			s.v[s.n++] = given;
		if (k == LAYER_PROFILE || (k == LAYER_PROJECT && !project) ||
			(k == LAYER_CLI && !cli))
			continue;
		for (size_t i = 0; i < sel->n; i++)
			if (sel->layers[i] && (int)sel->layers[i]->kind == k)
				s.v[s.n++] = sel->layers[i];
	}
	return combine(
		ret, &s, profile, cli, sel->ctx, e); /* nobody sees the digest of a comparison */
}

static int resolve(struct policy *ret, struct selection *sel, bool project_trusted, struct err *e)
{
	const struct policy_layer *project = NULL;
	int r = builtin_layer(&sel->floor, sel->scratch, NULL, sel->ctx, e);

	for (size_t i = 0; r == 0 && i < sel->n; i++) {
		if (sel->layers[i] && sel->layers[i]->kind == LAYER_PROJECT)
			project = sel->layers[i];
		if (sel->layers[i] && sel->layers[i]->kind == LAYER_CLI)
			r = layer_check(sel->layers[i], e);
	}
	if (r == 0 && project && !project_trusted) {
		cleanup_policy struct policy base = {0};
		cleanup_policy struct policy wide = {0};

		r = combine_selected(&base, sel, false, false, e);
		if (r == 0)
			r = combine_selected(&wide, sel, true, false, e);
		if (r < 0)
			return r;
		/* Names that run on the host are read-only in what is granted, until a grant names one. */
		policy_hold(&base, sel->ctx->home, NULL);
		policy_hold(&wide, sel->ctx->home, NULL);
		r = policy_not_wider(&base, &wide, project, e);
	}
	if (r == 0)
		r = combine_selected(ret, sel, true, true, e);
	if (r == 0)
		ret->unapproved = project && !project_trusted;
	return r;
}

int policy_resolve(struct policy *ret, struct policy_layer *const *layers, size_t n,
	bool project_trusted, const struct policy_context *ctx, struct err *e)
{
	struct arena scratch = {0};
	struct selection sel = {.layers = layers, .n = n, .ctx = ctx, .scratch = &scratch};
	int r;

	if (n > LAYERS_MAX - 2)
		return err_invalid(e, "more than %d policy layers", LAYERS_MAX - 2);
	r = arena_reserve(&scratch, SCRATCH_B) ? resolve(ret, &sel, project_trusted, e)
					       : policy_no_memory(e);
	arena_done(&scratch);
	return r;
}
