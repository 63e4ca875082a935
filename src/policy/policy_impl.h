/* SPDX-License-Identifier: Apache-2.0 */
/* Shared between the files of src/policy only: what a layer holds before it is combined. */
#ifndef CROFT_POLICY_POLICY_IMPL_H
#define CROFT_POLICY_POLICY_IMPL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/arena.h"
#include "policy/net/net.h"
#include "policy/policy.h"

struct layer_pos { /* 1-based; line 0: not from a file */
	unsigned line, column;
};

struct layer_item {
	const char *name;
	const char *value; /* environment.set only */
	struct layer_pos at;
};

struct layer_list {
	struct layer_item *v;
	size_t n, cap;
	bool present; /* named in the file, even when empty */
	struct layer_pos at;
};

struct layer_word {
	bool set;
	unsigned v;
	struct layer_pos at;
};

/* Order as in limit_keys[]. */
enum limit_id {
	LIMIT_MEMORY,
	LIMIT_CPUS,
	LIMIT_PIDS,
	LIMIT_OPEN_FILES,
	LIMIT_DISK,
	LIMIT_FILE_SIZE,
	LIMIT_TIMEOUT,
	LIMIT_NUM,
};

struct layer_limit {
	bool set;
	uint64_t v;
	struct layer_pos at;
};

/*
 * The network section of one layer. Arrays are malloc'd, the text in them is the arena's;
 * origin.file is NULL as in filesystem rules.
 */
struct layer_net {
	bool reach; /* names what may be reached (allow, ask, use), even if it is nothing */
	struct net_rule *rules;
	size_t rules_n, rules_cap;
	struct net_rule *ceilings; /* expanded text only */
	size_t ceilings_n, ceilings_cap;
	bool ceiling;
	unsigned listed[NET_EFFECT_NUM]; /* entries so far, for names of rules */
	struct net_secret *secrets;
	size_t secrets_n, secrets_cap;
	struct net_resolve *resolve;
	struct layer_pos *resolve_at;
	size_t resolve_n, resolve_cap;
	struct layer_list publish, host_ports, dns, trust, use; /* canonical text */
	const char *proxy;
	struct layer_pos proxy_at;
	struct layer_word ask_default, record_query;
	struct layer_limit ask_timeout;
};

/* All text belongs to the arena, or is constant. */
struct policy_layer {
	enum policy_layer_kind kind;
	struct arena arena;
	const char *name;
	struct digest digest;
	struct policy_rule *rules; /* origin.file is NULL here: it is `name` */
	size_t rules_n, rules_cap;
	const char *profile;
	struct layer_pos profile_at;
	struct layer_word tier, threat, observe;
	struct layer_limit limits[LIMIT_NUM];
	struct layer_list pass, set, devices;
	struct layer_net net;
	bool expanded; /* written by policy_network_text(), not by a person */
};

/* ---- layer.c: values with the same checks for files, built-ins and the command line ---- */

/* "NAME:LINE:COL: " in front of an error, or "NAME: " without a line; returns -errno. */
int layer_err(const struct policy_layer *l, struct layer_pos at, struct err *e);
int layer_view(struct policy_layer *l, const char *path, const struct policy_context *ctx,
	struct layer_pos at, struct err *e);
int layer_git(struct policy_layer *l, const char *path, const struct policy_context *ctx,
	struct layer_pos at, struct err *e);
int layer_runs(struct policy_layer *l, const char *path, const struct policy_context *ctx,
	struct layer_pos at, struct err *e);
int layer_rule(struct policy_layer *l, enum access a, bool optional, const char *path,
	const struct policy_context *ctx, struct layer_pos at, struct err *e);
int layer_value(struct policy_layer *l, const char *key, const char *value, struct layer_pos at,
	struct err *e);
int layer_env_set(struct policy_layer *l, const char *name, const char *value, struct layer_pos at,
	struct err *e);
/* Append to a list; repetition is an error in a file and harmless on a command line. */
int layer_list_add(struct policy_layer *l, struct layer_list *list, const char *name,
	struct layer_pos at, struct err *e);
int layer_unknown_word(
	struct err *e, const char *what, const char *text, const char *const *names, size_t n);
/* Conflicting or repeated paths; once, when the layer is complete. */
int layer_check(const struct policy_layer *l, struct err *e);

extern const char *const limit_keys[LIMIT_NUM];
uint64_t *limit_field(struct policy_limits *l, enum limit_id id);
static inline int policy_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "resolve the policy");
}
static inline uint64_t limit_get(const struct policy_limits *l, enum limit_id id)
{
	return *limit_field((struct policy_limits *)l, id);
}
/* "none", or the number in the largest unit that divides it. */
void limit_show(struct buf *out, enum limit_id id, uint64_t v);

/* ---- scalar.c ---- */

/* "\"TEXT\" WHY", the text escaped and shortened; returns -EINVAL. */
int value_bad(struct err *e, const char *text, const char *why);
int value_device(char **ret, const char *text, struct err *e);
int value_env_name(const char *name, bool pattern, struct err *e);
int value_limit(uint64_t *ret, enum limit_id id, const char *text, struct err *e);
bool value_env_risky(const char *name);

/* ---- profile.c ---- */

/* As policy_layer_builtin(), but the layer and all in it is the arena's; not to be freed. */
int builtin_layer(const struct policy_layer **ret, struct arena *a, const char *name,
	const struct policy_context *ctx, struct err *e);

/* ---- sort.c ---- */

struct gathered {
	const struct policy_rule *r;
	const struct policy_layer *l;
	unsigned order; /* of the layer in the stack */
};

/* Stable; fast where the input is made of a few sorted stretches. tmp has room for n. */
void sort_gathered(struct gathered *v, struct gathered *tmp, size_t n);
void sort_text(char **v, size_t n);

/* ---- glob.c ---- */

/* As policy_pattern_expand(), into the arena. */
int pattern_expand(struct arena *a, const char **ret, bool *ret_glob, const char *text,
	const struct policy_context *ctx, struct err *e);
/* NULL when the pattern is well-formed, else what is wrong with it. */
const char *glob_check(const char *pattern);
/* Could the pattern match `path` itself or something below it? */
bool glob_reaches(const char *pattern, const char *path);
/* Remove escapes in place. */
void glob_unescape(char *s);
unsigned path_depth(const char *path);

/* ---- access.c ---- */

int policy_index(struct policy *p, struct err *e);
/* Memory that lives as long as the policy; NULL when out of memory. */
void *policy_alloc(struct policy *p, size_t n);
const char *policy_keep(struct policy *p, const char *s);
/* Where in the sorted rules a plain path is, or would be put. */
size_t policy_find(const struct policy *p, const char *path, bool *ret_found);
/* The cap that holds at a path (ACCESS_WRITE: none), and the rule that sets it. */
enum access policy_cap(
	const struct policy *p, const char *path, const struct policy_rule **ret_rule);

/* Where rules about names that run on the host come from; told apart by this very text. */
extern const char policy_held_origin[];

/* ---- rules.c ---- */

#define LAYERS_MAX 16

/* Layers in the order in which they apply. */
struct stack {
	const struct policy_layer *v[LAYERS_MAX];
	const char *name[LAYERS_MAX]; /* the layers' names as the policy keeps them */
	size_t n;
	struct arena *scratch; /* until policy_resolve() returns */
};

int combine_rules(
	struct policy *p, struct stack *s, const struct policy_context *ctx, struct err *e);

/* ---- resolve.c ---- */

/* How much a tier asks for: "auto" may end in either, so it lies between. */

/* ---- widen.c ---- */

/* Refuse what `wide` gives beyond `base`; `l` is the project layer that made the difference. */
struct findings { /* the first in words, the rest as a number */
	const struct policy_layer *l;
	size_t n;
	unsigned line;
	struct buf first;
	bool failed;
};
/* Counts one; true when it is the first, whose words the caller then adds. */
bool widen_found(struct findings *f, unsigned line);
int policy_not_wider(const struct policy *base, const struct policy *wide,
	const struct policy_layer *l, struct err *e);

/* ---- canonical.c ---- */

/* "profile default", "croft.yaml:12", "floor". */
void origin_show(struct buf *out, const struct policy_origin *o);
/* A rule's path as a policy file would spell it, wildcards in plain paths escaped; not quoted. */
void rule_path(struct buf *out, const struct policy_rule *r);
/*
 * A YAML scalar that cannot be mistaken for anything else: plain where that is safe, else quoted.
 */
void yaml_scalar(struct buf *out, const char *s);

#endif
