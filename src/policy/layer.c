/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer under construction: the same checks whether a value comes from a file, a built-in table
 * or the command line. Errors carry the place: "FILE:LINE:COL: …" or "command line: …".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define SHOWN_MAX 64

const char *const policy_layer_names[LAYER_NUM] = {
	"floor", "profile", "system", "user", "project", "command line"};
const char *const policy_threat_names[THREAT_NUM] = {"trusted", "risky", "hostile"};
const char *const policy_observe_names[OBSERVE_NUM] = {"off", "known", "writes", "full"};
const char *const policy_access_names[ACCESS_NUM] = {"deny", "read", "write"};

int policy_layer_new(
	struct policy_layer **ret, enum policy_layer_kind kind, const char *name, struct err *e)
{
	struct policy_layer *l = calloc(1, sizeof(*l));

	if (!l || !(l->name = arena_dup(&l->arena, name))) {
		free(l);
		return err_set(e, ENOMEM, "make a policy layer");
	}
	l->kind = kind;
	*ret = l;
	return 0;
}

void policy_layer_free(struct policy_layer *l)
{
	if (!l)
		return;
	free(l->rules);
	free(l->pass.v);
	free(l->set.v);
	free(l->devices.v);
	layer_net_done(&l->net);
	arena_done(&l->arena);
	free(l);
}

const char *policy_layer_profile(const struct policy_layer *l)
{
	return l->profile;
}

const struct digest *policy_layer_digest(const struct policy_layer *l)
{
	return &l->digest;
}

int layer_err(const struct policy_layer *l, struct layer_pos at, struct err *e)
{
	if (at.line)
		return err_wrap(e, "%s:%u:%u", l->name, at.line, at.column);
	return err_wrap(e, "%s", l->name);
}

/* ---- filesystem ---- */

/* Places that croft makes itself or that no rule may hand over. NULL: nothing against it. */
static const char *place_forbidden(enum access a, bool glob, const char *path, const char *base)
{
	if (str_eq(path, "/"))
		return "is the whole filesystem; name the directories below it";
	if (glob && str_eq(base, "/") && a != ACCESS_DENY)
		return "starts with a wildcard and could match any directory; name the top-level "
		       "directory";
	if (path_within("/proc", base))
		return "is made new for every sandbox and takes no rules";
	if (path_within("/dev", base) && (a != ACCESS_DENY || str_eq(path, "/dev")))
		return "holds devices; list them under \"devices\"";
	if (a == ACCESS_WRITE && path_within("/sys", base))
		return "configures the machine's kernel and cannot be made writable";
	return NULL;
}

static int rule_add(struct policy_layer *l, const struct policy_rule *r, struct err *e)
{
	if (l->rules_n >= POLICY_RULES_MAX)
		return err_invalid(e, "more than %u filesystem rules", POLICY_RULES_MAX);
	if (l->rules_n == l->rules_cap) {
		size_t cap = l->rules_cap ? l->rules_cap * 2 : 16;
		struct policy_rule *v = realloc(l->rules, cap * sizeof(*v));

		if (!v)
			return err_set(e, ENOMEM, "add a rule");
		l->rules = v;
		l->rules_cap = cap;
	}
	l->rules[l->rules_n++] = *r;
	return 0;
}

int layer_rule(struct policy_layer *l, enum access a, bool optional, const char *path,
	const struct policy_context *ctx, struct layer_pos at, struct err *e)
{
	struct policy_rule r = {.access = a, .optional = optional};
	cleanup_free char *base = NULL;
	const char *why;

	r.origin = (struct policy_origin){.layer = l->kind, .line = at.line, .column = at.column};
	if (pattern_expand(&l->arena, &r.path, &r.glob, path, ctx, e) < 0)
		return layer_err(l, at, e);
	if (r.glob) {
		base = policy_glob_base(r.path);
		if (!base)
			return err_set(e, ENOMEM, "add a rule");
	}
	why = place_forbidden(a, r.glob, r.path, base ? base : r.path);
	if (why) {
		err_invalid(e, "%s %s", path, why);
		return layer_err(l, at, e);
	}
	return rule_add(l, &r, e) < 0 ? layer_err(l, at, e) : 0;
}

/* To the host it is reading, which is what everything that does not know of views takes it for. */
int layer_view(struct policy_layer *l, const char *path, const struct policy_context *ctx,
	struct layer_pos at, struct err *e)
{
	struct policy_rule *r;

	if (layer_rule(l, ACCESS_READ, false, path, ctx, at, e) < 0)
		return -e->errnum;
	r = &l->rules[l->rules_n - 1];
	r->view = true;
	if (!r->glob)
		return 0;
	err_invalid(e, "%s is a pattern; a view is of one path", path);
	return layer_err(l, at, e);
}

int policy_layer_add_view(struct policy_layer *l, const char *path,
	const struct policy_context *ctx, struct err *e)
{
	return layer_view(l, path, ctx, (struct layer_pos){0}, e);
}

/* A grant for writing that is also the user's word that what it holds may run on the host. */
int layer_runs(struct policy_layer *l, const char *path, const struct policy_context *ctx,
	struct layer_pos at, struct err *e)
{
	if (layer_rule(l, ACCESS_WRITE, false, path, ctx, at, e) < 0)
		return -e->errnum;
	l->rules[l->rules_n - 1].runs = true;
	return 0;
}

/* A grant of what committing needs in this Git directory, and no more. */
int layer_git(struct policy_layer *l, const char *path, const struct policy_context *ctx,
	struct layer_pos at, struct err *e)
{
	struct policy_rule *r;

	if (layer_rule(l, ACCESS_WRITE, false, path, ctx, at, e) < 0)
		return -e->errnum;
	r = &l->rules[l->rules_n - 1];
	r->git = true;
	if (!r->glob)
		return 0;
	err_invalid(e, "%s is a pattern; name one Git directory", path);
	return layer_err(l, at, e);
}

int policy_layer_add_git(struct policy_layer *l, const char *path,
	const struct policy_context *ctx, struct err *e)
{
	return layer_git(l, path, ctx, (struct layer_pos){0}, e);
}

int policy_layer_add_runs(struct policy_layer *l, const char *path,
	const struct policy_context *ctx, struct err *e)
{
	return layer_runs(l, path, ctx, (struct layer_pos){0}, e);
}

int policy_layer_add_rule(struct policy_layer *l, enum access a, const char *path,
	const struct policy_context *ctx, struct err *e)
{
	return layer_rule(l, a, false, path, ctx, (struct layer_pos){0}, e);
}

static int rule_cmp(const void *a, const void *b)
{
	const struct policy_rule *x = *(const struct policy_rule *const *)a;
	const struct policy_rule *y = *(const struct policy_rule *const *)b;
	int c = strcmp(x->path, y->path);

	if (c == 0)
		c = (int)x->glob - (int)y->glob;
	if (c == 0)
		c = x < y ? -1 : x > y; /* the order in which they were written */
	return c;
}

/*
 * The same path twice: read and write together mean write; deny together with either is a
 * contradiction. In a file, an exact repetition is a mistake too; on a command line it is harmless.
 */
static int rule_conflict(const struct policy_layer *l, const struct policy_rule *first,
	const struct policy_rule *second, struct err *e)
{
	struct layer_pos at = {second->origin.line, second->origin.column};
	bool deny = first->access == ACCESS_DENY || second->access == ACCESS_DENY;

	if (first->view != second->view) {
		err_invalid(e, "%s has a view and another grant; keep one", second->path);
		return layer_err(l, at, e);
	}
	if (first->git != second->git) {
		err_invalid(e, "%s is granted for committing and besides; keep one", second->path);
		return layer_err(l, at, e);
	}
	if (first->access != second->access && !deny)
		return 0;
	if (first->access == second->access && (!at.line || first->runs != second->runs))
		return 0;
	if (first->access == second->access)
		err_invalid(e, "%s is listed twice under %s (first on line %u)", second->path,
			policy_access_names[second->access], first->origin.line);
	else if (at.line)
		err_invalid(e, "%s is under both %s (line %u) and %s; keep one", second->path,
			policy_access_names[first->access], first->origin.line,
			policy_access_names[second->access]);
	else
		err_invalid(e, "%s has both %s and %s; keep one", second->path,
			policy_access_names[first->access], policy_access_names[second->access]);
	return layer_err(l, at, e);
}

static int check_rules(const struct policy_layer *l, struct err *e)
{
	cleanup_free const struct policy_rule **v = NULL;
	int r;

	if (l->rules_n < 2)
		return 0;
	v = malloc(l->rules_n * sizeof(*v));
	if (!v)
		return err_set(e, ENOMEM, "check the rules of %s", l->name);
	for (size_t i = 0; i < l->rules_n; i++)
		v[i] = &l->rules[i];
	qsort(v, l->rules_n, sizeof(*v), rule_cmp);
	for (size_t i = 1; i < l->rules_n; i++) {
		if (strcmp(v[i - 1]->path, v[i]->path) != 0 || v[i - 1]->glob != v[i]->glob)
			continue;
		r = rule_conflict(l, v[i - 1], v[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

int layer_check(const struct policy_layer *l, struct err *e)
{
	int r = check_rules(l, e);

	return r < 0 ? r : net_lint_layer(l, e);
}

/* ---- lists ---- */

static int list_add(struct policy_layer *l, struct layer_list *list, const char *name,
	const char *value, struct layer_pos at, struct err *e)
{
	struct layer_item it = {.at = at};

	list->present = true;
	if (list->n >= POLICY_LIST_MAX)
		return err_invalid(e, "more than %u entries", POLICY_LIST_MAX);
	if (list->n == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 16;
		struct layer_item *v = realloc(list->v, cap * sizeof(*v));

		if (!v)
			return err_set(e, ENOMEM, "extend a list");
		list->v = v;
		list->cap = cap;
	}
	it.name = arena_dup(&l->arena, name);
	it.value = value ? arena_dup(&l->arena, value) : NULL;
	if (!it.name || (value && !it.value))
		return err_set(e, ENOMEM, "extend a list");
	list->v[list->n++] = it;
	return 0;
}

/* Repetition is an error in a file; a command line may repeat itself (the last value counts). */
static int list_add_new(struct policy_layer *l, struct layer_list *list, const char *name,
	const char *value, struct layer_pos at, struct err *e)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!str_eq(list->v[i].name, name))
			continue;
		if (at.line)
			return err_invalid(e, "%s is listed twice (first on line %u)", name,
				list->v[i].at.line);
		if (!value)
			return 0;
	}
	return list_add(l, list, name, value, at, e);
}

static int set_env(struct policy_layer *l, const char *name, const char *value, struct layer_pos at,
	struct err *e)
{
	int r = value_env_name(name, false, e);

	if (r < 0)
		return r;
	if (strlen(value) > POLICY_ENV_VALUE_MAX)
		return err_invalid(
			e, "the value of %s is longer than %u bytes", name, POLICY_ENV_VALUE_MAX);
	return list_add_new(l, &l->set, name, value, at, e);
}

int layer_env_set(struct policy_layer *l, const char *name, const char *value, struct layer_pos at,
	struct err *e)
{
	return set_env(l, name, value, at, e) < 0 ? layer_err(l, at, e) : 0;
}

static int set_env_pair(
	struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	const char *eq = strchr(text, '=');
	cleanup_free char *name = NULL;

	if (!eq)
		return err_invalid(e, "environment.set wants NAME=VALUE");
	name = strndup(text, (size_t)(eq - text));
	if (!name)
		return err_set(e, ENOMEM, "set a variable");
	return set_env(l, name, eq + 1, at, e);
}

static int set_pass(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	int r = value_env_name(text, true, e);

	return r < 0 ? r : list_add_new(l, &l->pass, text, NULL, at, e);
}

int layer_list_add(struct policy_layer *l, struct layer_list *list, const char *name,
	struct layer_pos at, struct err *e)
{
	return list_add_new(l, list, name, NULL, at, e);
}

static int set_device(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	cleanup_free char *path = NULL;
	int r = value_device(&path, text, e);

	return r < 0 ? r : list_add_new(l, &l->devices, path, NULL, at, e);
}

/* ---- words ---- */

int layer_unknown_word(
	struct err *e, const char *what, const char *text, const char *const *names, size_t n)
{
	cleanup_buf struct buf shown = BUF_INIT(SHOWN_MAX * 8);
	cleanup_buf struct buf all = BUF_INIT(512);
	const char *near = str_nearest(text, names, n);

	str_show(&shown, text, MIN_OF(strlen(text), SHOWN_MAX));
	if (near)
		return err_invalid(
			e, "unknown %s \"%s\"; did you mean \"%s\"?", what, buf_str(&shown), near);
	for (size_t i = 0; i < n; i++)
		buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
	return err_invalid(
		e, "unknown %s \"%s\"; it is one of %s", what, buf_str(&shown), buf_str(&all));
}

static int set_word(struct layer_word *w, const char *what, const char *text,
	const char *const *names, size_t n, struct layer_pos at, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(text, names[i])) {
			*w = (struct layer_word){.set = true, .v = (unsigned)i, .at = at};
			return 0;
		}
	}
	return layer_unknown_word(e, what, text, names, n);
}

static int set_tier(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	if (policy_tier_find(text, false) && !policy_tier_find(text, true))
		return err_refuse(e,
			"tier \"%s\" is not available yet; this version has auto, process "
			"and namespace",
			text);
	return set_word(&l->tier, "tier", text, policy_tier_names, TIER_NUM, at, e);
}

static int set_profile(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	if (!policy_profile_text(text))
		return layer_unknown_word(
			e, "profile", text, policy_profile_names, policy_profile_names_n);
	l->profile = arena_dup(&l->arena, text);
	l->profile_at = at;
	return l->profile ? 0 : err_set(e, ENOMEM, "set the profile");
}

static int set_limit(struct policy_layer *l, const char *key, const char *text, struct layer_pos at,
	struct err *e)
{
	uint64_t v;
	int r;

	for (int i = 0; i < LIMIT_NUM; i++) {
		if (!str_eq(key, limit_keys[i]))
			continue;
		r = value_limit(&v, (enum limit_id)i, text, e);
		if (r < 0)
			return err_wrap(e, "limits.%s", key);
		l->limits[i] = (struct layer_limit){.set = true, .v = v, .at = at};
		return 0;
	}
	return layer_unknown_word(e, "limit", key, limit_keys, LIMIT_NUM);
}

static int value_dispatch(struct policy_layer *l, const char *key, const char *value,
	struct layer_pos at, struct err *e)
{
	static const char *const keys[] = {"tier", "threat", "observe", "profile",
		"environment.pass", "environment.set", "devices", "network.allow", "network.deny",
		"network.ask", "network.use", "network.default", "network.publish",
		"network.host-ports", "network.resolve", "network.dns", "network.proxy",
		"network.trust", "network.secret", "limits.memory", "limits.cpus", "limits.pids",
		"limits.open_files", "limits.disk", "limits.file_size", "limits.timeout",
		"filesystem.read", "filesystem.write", "filesystem.deny", "filesystem.view",
		"filesystem.write-runs",
		"filesystem.write-git"};

	if (str_eq(key, "tier"))
		return set_tier(l, value, at, e);
	if (str_eq(key, "threat"))
		return set_word(
			&l->threat, "threat", value, policy_threat_names, THREAT_NUM, at, e);
	if (str_eq(key, "observe"))
		return set_word(
			&l->observe, "observe", value, policy_observe_names, OBSERVE_NUM, at, e);
	if (str_eq(key, "profile"))
		return set_profile(l, value, at, e);
	if (str_eq(key, "environment.pass"))
		return set_pass(l, value, at, e);
	if (str_eq(key, "environment.set"))
		return set_env_pair(l, value, at, e);
	if (str_eq(key, "devices"))
		return set_device(l, value, at, e);
	if (str_starts(key, "network."))
		return net_set(l, key + strlen("network."), value, NULL, at, e);
	if (str_starts(key, "limits."))
		return set_limit(l, key + strlen("limits."), value, at, e);
	return layer_unknown_word(e, "key", key, keys, ARRAY_SIZE(keys));
}

int layer_value(struct policy_layer *l, const char *key, const char *value, struct layer_pos at,
	struct err *e)
{
	for (int i = 0; i < NET_EFFECT_NUM; i++)
		if (str_starts(key, "network.") &&
			str_eq(key + strlen("network."), net_effect_names[i]))
			return net_rule_text(l, (enum net_effect)i, value, at, e);
	if (str_eq(key, "network.use"))
		return net_bundle_add(l, value, at, e);
	if (value_dispatch(l, key, value, at, e) < 0)
		return layer_err(l, at, e);
	return 0;
}

int policy_layer_set(struct policy_layer *l, const char *key, const char *value, struct err *e)
{
	return layer_value(l, key, value, (struct layer_pos){0}, e);
}
