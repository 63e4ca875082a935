/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of policy files share, parse.c and net_parse.c: the layer that is being filled. */
#ifndef CROFT_POLICY_READER_H
#define CROFT_POLICY_READER_H

#include "policy/policy_impl.h"
#include "policy/yaml.h"

struct reader_into {
	struct policy_layer *l;
	const struct policy_context *ctx;
};

static inline struct policy_layer *reader_layer(const struct yaml_reader *r)
{
	return ((const struct reader_into *)r->into)->l;
}

static inline const struct policy_context *reader_context(const struct yaml_reader *r)
{
	return ((const struct reader_into *)r->into)->ctx;
}

static inline struct layer_pos reader_here(const struct yaml_reader *r)
{
	return (struct layer_pos){
		(unsigned)r->ev.start_mark.line + 1, (unsigned)r->ev.start_mark.column + 1};
}

/* The section `network`: net_parse.c. */
int reader_network(struct yaml_reader *r, const char *key);
/* For policy_keys(). False: out of memory, or the list is full. */
bool reader_names(
	struct strlist *ret, const char *section, const struct reader_key *keys, size_t n);
bool reader_network_names(struct strlist *ret);
/* Text of policy_network_text(): rules have names, and nothing is checked against the others. */
int reader_expanded(struct policy_layer **ret, const char *text, size_t len, struct err *e);

#endif
