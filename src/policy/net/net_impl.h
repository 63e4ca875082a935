/* SPDX-License-Identifier: Apache-2.0 */
/* Shared between the net_*.c files of src/policy only. */
#ifndef CROFT_POLICY_NET_NET_IMPL_H
#define CROFT_POLICY_NET_NET_IMPL_H

#include "base/json.h"
#include "policy/policy_impl.h"

#define NET_QUERY_MAX 16u
#define NET_RESOLVE_MAX 1024u
#define NET_FORWARDS_MAX 256u
#define NET_ADDRS_MAX 16u
#define NET_PATTERN_MAX 2048u /* characters of a path, repository, ref or query pattern */
#define NET_REASON_MAX 200u
#define NET_ASK_TIMEOUT_MS 30000u

/* ---- net_name.c ---- */

/* Bounded wildcard match, '*' only: no slash is special here. */
bool net_wild(const char *pattern, size_t pattern_n, const char *s, size_t n);
/* '/'-separated segments, '*' within one, "**" any number; neither needs a leading slash. */
bool net_segments_match(const char *pattern, const char *text, bool fold_case);
bool net_cidr_within(const struct net_cidr *inner, const struct net_cidr *outer);
bool net_cidr_overlap(const struct net_cidr *a, const struct net_cidr *b);
void net_cidr_show(struct buf *out, const struct net_cidr *c);
bool net_host_covers(const char *outer, const char *inner); /* every name of inner is in outer */
bool net_host_overlap(const char *a, const char *b);        /* some name is in both */
/* A v4-mapped address as the IPv4 address it is; any other as it is. */
struct net_addr net_addr_unmapped(const struct net_addr *a);
/* An address as text, also in brackets, unmapped. */
bool net_addr_text(struct net_addr *ret, const char *text);

/* ---- net_range.c: what a rule cannot name, or only with `private` ---- */

/* Why the range cannot be granted, or NULL. */
const char *net_cidr_forbidden(const struct net_cidr *c);
bool net_cidr_private(const struct net_cidr *c);
/* A suffix below which anybody can register names ("co.uk", "github.io"), or that holds such. */
bool net_suffix_public(const char *suffix, bool any_depth);

/* ---- net_value.c: the small languages; errors without a place ---- */

/* Canonical pattern in the arena. deny: wide patterns are fine. */
int net_value_host(struct arena *a, const char **ret, const char *text, bool deny, struct err *e);
int net_value_cidr(struct net_cidr *ret, const char *text, struct err *e);
int net_value_port(uint16_t *ret, const char *text, struct err *e);
int net_value_ports(struct net_ports *ret, const char *text, struct err *e);
int net_value_method(struct arena *a, const char **ret, const char *text, struct err *e);
int net_value_path(const char *text, struct err *e);
int net_value_repo(const char *text, struct err *e);
int net_value_ref(const char *text, struct err *e);
int net_value_rate(uint32_t *ret_milli, const char *text, struct err *e);
int net_value_time(int64_t *ret, const char *text, struct err *e);
int net_value_text(const char *what, const char *text, size_t max, struct err *e);
int net_value_bool(bool *ret, const char *text, struct err *e);
void net_rate_show(struct buf *out, uint32_t rate_milli);
void net_time_show(struct buf *out, int64_t t);

/* ---- net_rule.c: one rule, from values to checked ---- */

enum net_key {
	NK_HOST,
	NK_CIDR,
	NK_PORTS,
	NK_MODE,
	NK_METHODS,
	NK_PATHS,
	NK_QUERY,
	NK_REPOS,
	NK_PUSH,
	NK_REFS,
	NK_LIMITS,
	NK_PRIVATE,
	NK_PLAINTEXT,
	NK_ENCODED_SLASH,
	NK_ECH,
	NK_REASON,
	NK_NAME, /* expanded text only, and last for that reason */
	NK_NUM,
};
extern const char *const net_key_names[NK_NUM];

struct net_texts {
	const char **v;
	size_t n, cap;
};

struct net_draft {
	struct net_rule rule;
	struct layer_pos at;          /* of the entry */
	struct layer_pos key[NK_NUM]; /* of each value */
	bool given[NK_NUM];
	struct net_texts list[NK_NUM]; /* methods, paths, repos, refs */
	struct net_query query[NET_QUERY_MAX];
	bool ceiling; /* goes to the ceilings */
};

bool net_texts_add(struct arena *a, struct net_texts *t, const char *s);
/* One value of a key; for lists, one entry. */
int net_draft_value(struct policy_layer *l, struct net_draft *d, enum net_key k, const char *text,
	struct layer_pos at, struct err *e);
int net_draft_query(struct policy_layer *l, struct net_draft *d, const char *name,
	const char *pattern, struct layer_pos at, struct err *e);
int net_draft_limit(struct policy_layer *l, struct net_draft *d, const char *name, const char *text,
	struct layer_pos at, struct err *e);
/* "host[:port,…]" and its kin into an empty draft. */
int net_draft_text(struct policy_layer *l, struct net_draft *d, const char *text, struct err *e);
/* Defaults, checks across keys, and into the layer. */
int net_draft_finish(struct policy_layer *l, struct net_draft *d, struct err *e);
/* A text entry of a list, from a file or the command line. */
int net_rule_text(struct policy_layer *l, enum net_effect effect, const char *text,
	struct layer_pos at, struct err *e);
int net_rule_push(
	struct net_rule **v, size_t *n, size_t *cap, const struct net_rule *r, struct err *e);
extern const char *const net_limit_keys[];
#define NET_LIMIT_KEYS_N 6u

/* ---- net_secret.c ---- */

enum secret_key {
	SK_NAME,
	SK_ENV,
	SK_HOST,
	SK_PORT,
	SK_PATHS,
	SK_METHODS,
	SK_PLACE,
	SK_FIELD,
	SK_STRIP,
	SK_REQUIRE,
	SK_NUM
};
extern const char *const secret_key_names[SK_NUM];

struct secret_draft {
	struct net_secret secret;
	struct layer_pos at;
	bool given[SK_NUM];
	struct net_texts paths, methods;
};
int secret_value(struct policy_layer *l, struct secret_draft *d, enum secret_key k,
	const char *text, struct layer_pos at, struct err *e);
int secret_finish(struct policy_layer *l, struct secret_draft *d, struct err *e);

/* "NAME@HOST[:PORT][:PLACE[=FIELD]]" of the command line. Errors without a place. */
int secret_text(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e);

/* ---- net_set.c: fixed addresses, ports, resolvers, proxy, trust ---- */

/* A name with one more fixed address; `more`: it belongs to the entry before. */
int net_resolve_add(struct policy_layer *l, const char *name, const char *addr, bool more,
	struct layer_pos at, struct err *e);
/* Any key but allow, deny, ask, use and secrets, without "network."; errors without a place. */
int net_set(struct policy_layer *l, const char *key, const char *value,
	const struct policy_context *ctx, struct layer_pos at, struct err *e);
/* "8080:80" as kept in a layer. */
struct net_forward net_forward_of(const char *text);

/* ---- net_bundle.c ---- */

/* The rules of a bundle into the layer; errors with their place. */
int net_bundle_add(struct policy_layer *l, const char *name, struct layer_pos at, struct err *e);

/* ---- net_copy.c ---- */

void layer_net_done(struct layer_net *n);
/* Into the arena; false when out of memory. NULL stays NULL. */
bool net_copy_text(struct arena *a, const char **ret, const char *s);
bool net_copy_rule(struct arena *a, struct net_rule *to, const struct net_rule *from);
bool net_copy_secret(struct arena *a, struct net_secret *to, const struct net_secret *from);
#define NET_TAG_ANY 0u  /* must be looked at for every name */
#define NET_TAG_CIDR 1u /* for addresses only */
uint32_t net_tag(const char *host);
int net_tags(struct net_policy *n, struct arena *a);

/* ---- net_layers.c: layers become one ---- */

int combine_network(struct policy *p, const struct stack *s, bool lint, struct err *e);

/* ---- net_match.c ---- */

/* NULL when the request is within a rule that grants, else what is not: "has a method that …". */
const char *net_rule_outside(const struct net_rule *r, const struct net_request *q);
bool net_rule_denies(const struct net_rule *r, const struct net_request *q);
/* An empty list is any. */
bool net_listed(const char *const *v, size_t n, const char *s);
bool net_path_listed(const char *const *v, size_t n, const char *path);

/* ---- net_compare.c ---- */

/* Order over everything a rule means (not its name, not its origin). 0: the same rule. */
int net_rule_cmp(const struct net_rule *a, const struct net_rule *b);
bool net_secret_same(const struct net_secret *a, const struct net_secret *b);
/* Whatever inner allows, outer allows too, as far as host, port, mode and ranges go. */
bool net_rule_bounds(const struct net_rule *outer, const struct net_rule *inner);
/* Judges single requests: has methods, paths, query, repositories … */
bool net_rule_partial(const struct net_rule *r);
bool net_ports_within(const struct net_rule *outer, const struct net_rule *inner);
bool net_ports_has(const struct net_rule *r, uint16_t port);
bool net_rules_meet(const struct net_rule *a, const struct net_rule *b); /* some host and port */
void net_not_wider(
	struct findings *f, const struct net_policy *base, const struct net_policy *wide);

/* ---- net_lint.c ---- */

/* Of one file: the same rule twice, a rule hidden by another. */
int net_lint_layer(const struct policy_layer *l, struct err *e);
/* Of the whole policy, when it is about to be used. */
int net_lint(const struct net_policy *n, struct err *e);

/* ---- net_text.c ---- */

enum net_text_form {
	NET_TEXT_GATEWAY,   /* everything, with the rules' names */
	NET_TEXT_CANONICAL, /* what it means: no names, no credentials of a proxy */
	NET_TEXT_SHOW,      /* for people: origins as comments, defaults left out */
};
/* The keys of the network section, indented by two; nothing for an empty one in SHOW. */
void net_text(const struct net_policy *n, enum net_text_form form, struct buf *out);
/* Where a rule leads, for one line: "*.example.com:443,8000-8010". */
void net_rule_where(struct buf *out, const struct net_rule *r);
/* One line per fact, as `diff` shows and compares them. */
bool net_lines(const struct net_policy *n, struct strlist *out);
void net_json(struct json *j, const struct net_policy *n);
/* "http://host:port" without user and password. */
void net_proxy_show(struct buf *out, const char *proxy);

/* After "localhost cannot be granted": what was probably meant. */
#define NET_HOST_PORTS_HINT "; a port of this machine is granted with host-ports (--host-port PORT)"

#endif
