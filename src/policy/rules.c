/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filesystem rules of all layers become one sorted list, one rule per path.
 *
 * Order:   sort, merge what is said about the same path, find which of the system's grants are
 *          exceptions to its own denies, hold every plain rule against the caps, and fix the
 *          project's own file. Afterwards no plain rule exceeds a cap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"

/* "FILE:LINE", as much of it as there is. */
static void place(struct buf *b, const struct policy_layer *l, unsigned line)
{
	buf_adds(b, l->kind == LAYER_FLOOR ? "croft itself" : l->name);
	if (line)
		buf_addf(b, ":%u", line);
}

static int refuse_inside(
	const struct gathered *g, const char *cap_path, const char *cap_place, struct err *e)
{
	cleanup_buf struct buf at = BUF_INIT(POLICY_PATH_MAX * 2);

	place(&at, g->l, g->r->origin.line);
	return err_refuse(e, "%s: %s %s is not possible: %s denies %s", buf_str(&at),
		policy_access_names[g->r->access], g->r->path, cap_place, cap_path);
}

/*
 * One path, all that the layers say about it, in order. The last layer decides; a floor or system
 * deny among them stays as a cap.
 */
static int merge_group(struct policy *p, const struct stack *s, const struct gathered *g, size_t n,
	bool *ret_exception, struct err *e)
{
	const struct gathered *win = &g[n - 1], *cap = NULL;
	struct policy_rule *r = &p->rules[p->rules_n];

	*ret_exception = false;
	for (size_t i = 0; i < n; i++) {
		enum policy_layer_kind k = g[i].l->kind;

		if (cap && cap->l->kind == LAYER_FLOOR)
			break;
		if (k == LAYER_FLOOR || k == LAYER_SYSTEM)
			cap = &g[i];
	}
	if (cap && cap->r->access != ACCESS_DENY) {
		*ret_exception =
			true; /* a cap only if it lies inside a system deny: decided later */
	} else if (cap && win->r->access != ACCESS_DENY) {
		cleanup_buf struct buf at = BUF_INIT(POLICY_PATH_MAX * 2);

		place(&at, cap->l, cap->r->origin.line);
		return refuse_inside(win, cap->r->path, buf_str(&at), e);
	} else if (cap) {
		win = cap;
	}
	*r = *win->r;
	for (size_t i = 0; i < n; i++) /* said once, it holds for whoever grants the same */
		r->runs = r->access == ACCESS_WRITE && (r->runs || g[i].r->runs);
	r->capped = cap && !*ret_exception;
	r->cap = cap ? cap->r->access : ACCESS_WRITE;
	r->path = policy_keep(p, win->r->path);
	r->origin.layer = win->l->kind;
	r->origin.file = s->name[win->order];
	if (!r->path)
		return policy_no_memory(e);
	p->rules_n++;
	return 0;
}

/* All rules of all layers, sorted, in scratch memory; and room for the policy's own at one go. */
static int gather(struct policy *p, struct gathered **ret, size_t *ret_n, const struct stack *s,
	struct err *e)
{
	size_t total = 0, n = 0, text_b = 0, pass_n = 0;
	struct arena a = {0};
	struct gathered *v;

	for (size_t i = 0; i < s->n; i++) {
		total += s->v[i]->rules_n;
		pass_n += s->v[i]->pass.n;
	}
	v = arena_alloc(s->scratch, (total + 1) * 2 * sizeof(*v));
	if (!v)
		return policy_no_memory(e);
	for (size_t i = 0; i < s->n; i++) {
		for (size_t j = 0; j < s->v[i]->rules_n; j++) {
			v[n++] = (struct gathered){&s->v[i]->rules[j], s->v[i], (unsigned)i};
			text_b += strlen(s->v[i]->rules[j].path) + 1;
		}
	}
	sort_gathered(v, v + total + 1, n);
	*ret = v;
	*ret_n = n;
	if (!arena_reserve(&a, (total + 1) * sizeof(*p->rules) + text_b + pass_n * 24 + 1024))
		return policy_no_memory(e);
	p->memory = a.head;
	p->rules = policy_alloc(p, (total + 1) * sizeof(*p->rules));
	return p->rules ? 0 : policy_no_memory(e);
}

/* The system's grants inside its own denies are exceptions, and caps of their own. */
static int mark_exceptions(struct policy *p, const bool *exception, struct err *e)
{
	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_rule *cap = NULL;
		cleanup_free char *base = NULL;

		if (!exception[i])
			continue;
		base = p->rules[i].glob ? policy_glob_base(p->rules[i].path)
					: strdup(p->rules[i].path);
		if (!base)
			return policy_no_memory(e);
		policy_cap(p, base, &cap);
		p->rules[i].capped = cap && cap->origin.layer != LAYER_FLOOR;
	}
	for (size_t i = 0; i < p->rules_n; i++)
		if (!p->rules[i].capped)
			p->rules[i].cap = ACCESS_WRITE;
	return 0;
}

static int refuse_above(const struct policy_rule *r, const struct policy_rule *cap, struct err *e)
{
	cleanup_buf struct buf at = BUF_INIT(POLICY_PATH_MAX * 2);

	buf_adds(&at, cap->origin.layer == LAYER_FLOOR ? "croft itself" : cap->origin.file);
	if (cap->origin.line)
		buf_addf(&at, ":%u", cap->origin.line);
	err_refuse(e, "%s %s is not possible: %s %s %s", policy_access_names[r->access], r->path,
		buf_str(&at), cap->cap == ACCESS_DENY ? "denies" : "allows only reading",
		cap->path);
	return r->origin.line ? err_wrap(e, "%s:%u", r->origin.file, r->origin.line)
			      : err_wrap(e, "%s", r->origin.file);
}

/*
 * One plain rule against the caps. What the profile gives above one is dropped (an organisation may
 * narrow a built-in); what a person asked for is refused, so that nobody wonders.
 */
static int enforce_cap(struct policy *p, struct policy_rule *r, bool *ret_dropped, struct err *e)
{
	const struct policy_rule *cap = NULL;

	if (r->glob || r->access == ACCESS_DENY || r->access == ACCESS_NUM)
		return 0;
	if (r->access <= policy_cap(p, r->path, &cap))
		return 0;
	if (r->origin.layer != LAYER_PROFILE)
		return refuse_above(r, cap, e);
	r->access = ACCESS_NUM; /* marks it for removal */
	*ret_dropped = true;
	return 0;
}

static int drop_marked(struct policy *p, struct err *e)
{
	size_t out = 0;

	for (size_t i = 0; i < p->rules_n; i++)
		if (p->rules[i].access != ACCESS_NUM)
			p->rules[out++] = p->rules[i];
	p->rules_n = out;
	return policy_index(p, e);
}

/* No plain rule may exceed a cap. What lies below a plain cap follows it in the sorted rules. */
static int enforce_caps(struct policy *p, struct err *e)
{
	bool dropped = false, all = false;
	int r = 0;

	for (size_t i = 0; i < p->globs_n; i++)
		all = all || p->rules[p->globs[i]].capped;
	for (size_t i = 0; r == 0 && i < p->rules_n; i++) {
		const char *dir = p->rules[i].path;
		size_t n = strlen(dir);

		if (all) /* a pattern with a cap may reach anything */
			r = enforce_cap(p, &p->rules[i], &dropped, e);
		if (all || !p->rules[i].capped)
			continue;
		for (size_t k = i;
			r == 0 && k < p->rules_n && strncmp(p->rules[k].path, dir, n) == 0; k++)
			if (path_within(dir, p->rules[k].path))
				r = enforce_cap(p, &p->rules[k], &dropped, e);
	}
	return r == 0 && dropped ? drop_marked(p, e) : r;
}

/*
 * The project's own policy file lives in the workspace that the sandbox writes: it is read-only for
 * everybody. Where it is absent it may be made: an unapproved file can only narrow the next run.
 */
static int protect_project_file(struct policy *p, const struct policy_context *ctx, struct err *e)
{
	static const char name[] = "/croft.yaml";
	size_t n = strlen(ctx->workspace);
	char path[POLICY_PATH_MAX];
	struct policy_rule *r;
	enum access now;
	bool found;
	size_t i;

	if (n == 1)
		n = 0;
	if (n + sizeof(name) > sizeof(path))
		return err_invalid(e, "the path of the workspace is too long");
	memcpy(path, ctx->workspace, n);
	memcpy(path + n, name, sizeof(name));
	now = policy_access(p, path, NULL);
	i = policy_find(p, path, &found);
	r = &p->rules[i];
	if (found && r->access == ACCESS_WRITE)
		return err_refuse(e,
			"%s is croft's own and stays read-only in the sandbox; remove the rule "
			"that makes it writable (%s:%u)",
			path, r->origin.file, r->origin.line);
	if (!found) { /* room was kept by combine_rules() */
		memmove(r + 1, r, (p->rules_n - i) * sizeof(*r));
		p->rules_n++;
		*r = (struct policy_rule){.access = MIN_OF(now, ACCESS_READ),
			.optional = now != ACCESS_DENY,
			.path = policy_keep(p, path),
			.cap = ACCESS_READ,
			.origin = {.layer = LAYER_FLOOR, .file = "floor"}};
		if (!r->path)
			return policy_no_memory(e);
	}
	r->cap = r->capped ? MIN_OF(r->cap, ACCESS_READ) : ACCESS_READ;
	r->capped = true;
	return policy_index(p, e);
}

int combine_rules(
	struct policy *p, struct stack *s, const struct policy_context *ctx, struct err *e)
{
	struct gathered *g = NULL;
	bool *exception;
	size_t n = 0;
	int r = gather(p, &g, &n, s, e);

	if (r < 0)
		return r;
	exception = arena_alloc(s->scratch, n + 1);
	if (!exception)
		return policy_no_memory(e);
	for (size_t i = 0; i < s->n; i++)
		if (!(s->name[i] = policy_keep(p, s->v[i]->name)))
			return policy_no_memory(e);
	for (size_t i = 0, j; i < n; i = j) {
		for (j = i + 1; j < n && g[j].r->glob == g[i].r->glob &&
				str_eq(g[j].r->path, g[i].r->path);)
			j++;
		r = merge_group(p, s, &g[i], j - i, &exception[p->rules_n], e);
		if (r < 0)
			return r;
	}
	if (p->rules_n >= POLICY_RULES_MAX)
		return err_invalid(e, "the layers have more than %u filesystem rules together",
			POLICY_RULES_MAX);
	r = policy_index(p, e);
	if (r < 0)
		return r;
	r = mark_exceptions(p, exception, e);
	if (r == 0)
		r = enforce_caps(p, e);
	return r < 0 ? r : protect_project_file(p, ctx, e);
}
