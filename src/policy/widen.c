/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a project's policy give more than the user has without it?
 *
 * Both policies are complete, so the question is whether any path, variable, limit, device or host
 * gets more. For plain rules it is exact: access changes only at a rule's path, so asking both
 * policies about every rule's path of either finds every difference. For patterns it errs on the
 * safe side: a pattern that might reach something narrower counts as widening.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"
#include "policy/runs.h"

bool widen_found(struct findings *f, unsigned line)
{
	f->n++;
	if (f->n > 1)
		return false;
	f->line = line ? line : f->l->profile_at.line;
	return true;
}

/* ---- filesystem ---- */

static void found_path(struct findings *f, const char *path, enum access now,
	const struct policy_rule *why, enum access before)
{
	unsigned line = why && why->origin.layer == LAYER_PROJECT ? why->origin.line : 0;

	if (!widen_found(f, line))
		return;
	buf_addf(&f->first, "%s ", policy_access_names[now]);
	str_show(&f->first, path, strlen(path));
	if (!line)
		buf_addf(&f->first, " (through profile %s)", f->l->profile ? f->l->profile : "?");
	buf_addf(&f->first, " where your own policy has %s", policy_access_names[before]);
}

static void compare_at(
	struct findings *f, const struct policy *base, const struct policy *wide, const char *path)
{
	const struct policy_rule *why;
	enum access before = policy_access(base, path, NULL), now = policy_access(wide, path, &why);

	if (now > before)
		found_path(f, path, now, why, before);
	else if (now == ACCESS_WRITE && policy_git_name(base, path) && !policy_git_name(wide, path))
		found_path(f, path, now, why, ACCESS_READ); /* all of it, not what committing needs */
}

static const struct policy_rule *same_pattern(const struct policy *p, const struct policy_rule *r)
{
	for (size_t i = 0; i < p->globs_n; i++)
		if (str_eq(p->rules[p->globs[i]].path, r->path))
			return &p->rules[p->globs[i]];
	return NULL;
}

/* Could pattern g grant something inside what rule r of the user's policy holds narrower? */
static bool pattern_reaches(const struct policy_rule *g, const char *g_base,
	const struct policy_rule *r, bool *ret_failed)
{
	cleanup_free char *r_base = NULL;

	if (!r->glob)
		return glob_reaches(g->path, r->path);
	r_base = policy_glob_base(r->path);
	if (!r_base) {
		*ret_failed = true;
		return true;
	}
	return path_within(g_base, r_base) || path_within(r_base, g_base);
}

/* A pattern that grants and that the user's policy does not have as well. */
static void compare_pattern(
	struct findings *f, const struct policy *base, const struct policy_rule *g)
{
	cleanup_free char *dir = policy_glob_base(g->path);
	enum access before;

	if (!dir) {
		f->failed = true;
		return;
	}
	before = policy_access(base, dir, NULL);
	if (g->access == ACCESS_WRITE && (g->runs || runs_pattern(g->path)))
		before = MIN_OF(before, ACCESS_READ); /* it may name what no other grant opens */
	if (before < g->access) {
		found_path(f, g->path, g->access, g, before);
		return;
	}
	for (size_t i = 0; i < base->rules_n; i++) {
		const struct policy_rule *r = &base->rules[i];

		if (r->access < g->access && pattern_reaches(g, dir, r, &f->failed)) {
			found_path(f, g->path, g->access, g, r->access);
			return;
		}
	}
}

static void compare_rules(struct findings *f, const struct policy *base, const struct policy *wide)
{
	for (size_t i = 0; i < wide->rules_n; i++) {
		const struct policy_rule *r = &wide->rules[i], *other;

		if (!r->glob) {
			compare_at(f, base, wide, r->path);
			continue;
		}
		other = same_pattern(base, r);
		if (r->access != ACCESS_DENY && !(other && other->access >= r->access))
			compare_pattern(f, base, r);
	}
	for (size_t i = 0; i < base->rules_n; i++) {
		const struct policy_rule *r = &base->rules[i], *other;

		if (!r->glob) {
			if (policy_access(wide, r->path, NULL) >
					policy_access(base, r->path, NULL) &&
				f->n == 0)
				compare_at(f, base, wide, r->path);
			continue;
		}
		other = same_pattern(wide, r);
		if (r->access != ACCESS_WRITE && !(other && other->access <= r->access))
			found_path(f, r->path, ACCESS_WRITE, other, r->access);
	}
}

/* ---- the rest ---- */

static bool pass_covered(const struct policy *base, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < base->env_pass.n; i++) {
		const char *b = base->env_pass.v[i];
		size_t m = strlen(b);

		if (str_eq(b, name))
			return true;
		if (m && b[m - 1] == '*' && n >= m - 1 && strncmp(b, name, m - 1) == 0)
			return true;
	}
	return false;
}

static unsigned item_line(const struct layer_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (str_eq(list->v[i].name, name))
			return list->v[i].at.line;
	return 0;
}

static void compare_lists(struct findings *f, const struct policy *base, const struct policy *wide)
{
	for (size_t i = 0; i < wide->env_pass.n; i++)
		if (!pass_covered(base, wide->env_pass.v[i]) &&
			widen_found(f, item_line(&f->l->pass, wide->env_pass.v[i])))
			buf_addf(&f->first, "passing the variable %s", wide->env_pass.v[i]);
	for (size_t i = 0; i < wide->devices.n; i++)
		if (!strlist_has(&base->devices, wide->devices.v[i]) &&
			widen_found(f, item_line(&f->l->devices, wide->devices.v[i])))
			buf_addf(&f->first, "device %s", wide->devices.v[i]);
}

static void compare_variables(struct findings *f, const struct policy *base)
{
	for (size_t i = 0; i < f->l->set.n; i++) {
		const struct layer_item *it = &f->l->set.v[i];
		bool same = false;

		for (size_t j = 0; j < base->env_set_n; j++)
			same = same || (str_eq(base->env_set[j].name, it->name) &&
					       str_eq(base->env_set[j].value, it->value));
		if (!same && value_env_risky(it->name) && widen_found(f, it->at.line))
			buf_addf(&f->first, "setting the variable %s", it->name);
	}
}

static void compare_values(struct findings *f, const struct policy *base, const struct policy *wide)
{
	for (int k = 0; k < LIMIT_NUM; k++) {
		uint64_t before = limit_get(&base->limits, (enum limit_id)k);
		uint64_t now = limit_get(&wide->limits, (enum limit_id)k);

		if (now <= before || !widen_found(f, f->l->limits[k].at.line))
			continue;
		buf_addf(&f->first, "limits.%s ", limit_keys[k]);
		limit_show(&f->first, (enum limit_id)k, now);
		buf_adds(&f->first, " where your own policy has ");
		limit_show(&f->first, (enum limit_id)k, before);
	}
	if (tier_strength(wide->tier) < tier_strength(base->tier) &&
		widen_found(f, f->l->tier.at.line))
		buf_addf(&f->first, "tier %s where your own policy has %s",
			policy_tier_names[wide->tier], policy_tier_names[base->tier]);
	if (wide->threat < base->threat && widen_found(f, f->l->threat.at.line))
		buf_addf(&f->first, "threat %s where your own policy has %s",
			policy_threat_names[wide->threat], policy_threat_names[base->threat]);
	if (wide->observe < base->observe && widen_found(f, f->l->observe.at.line))
		buf_addf(&f->first, "observe %s where your own policy has %s",
			policy_observe_names[wide->observe], policy_observe_names[base->observe]);
}

int policy_not_wider(const struct policy *base, const struct policy *wide,
	const struct policy_layer *l, struct err *e)
{
	cleanup_buf struct buf more = BUF_INIT(64);
	struct findings f = {.l = l, .first = BUF_INIT(512)};

	compare_rules(&f, base, wide);
	compare_lists(&f, base, wide);
	compare_variables(&f, base);
	compare_values(&f, base, wide);
	net_not_wider(&f, base->net, wide->net);
	if (f.failed && f.n == 0)
		widen_found(&f, 0);
	if (f.n > 1)
		buf_addf(&more, " (and %zu more)", f.n - 1);
	if (f.n)
		err_refuse(e,
			"%s:%u: the project asks for more than your own policy allows: %s%s; read "
			"the file, then approve exactly these contents with \"croft policy trust\"",
			l->name, f.line, f.first.failed ? "a long path" : buf_str(&f.first),
			buf_str(&more));
	buf_done(&f.first);
	return f.n ? err_why(e, ERR_WHY_UNTRUSTED, -e->errnum) : 0;
}
