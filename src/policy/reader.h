/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of policy files, shared by parse.c and net_parse.c: see parse.c for what it refuses.
 */
#ifndef CROFT_POLICY_READER_H
#define CROFT_POLICY_READER_H

#include <stdbool.h>
#include <yaml.h>

#include "policy/internal.h"

#define READER_KEYS_MAX 24

struct reader {
	yaml_parser_t yaml;
	yaml_event_t ev;
	bool have;    /* ev holds an event that must be deleted */
	bool version; /* seen, and one we read */
	struct policy_layer *l;
	const struct policy_context *ctx;
	void *draft; /* what the mapping being read fills in */
	struct err *e;
};

/* Reads the value that is the current event. */
typedef int reader_fn(struct reader *r, const char *key);

struct reader_key {
	const char *name;
	reader_fn *read;
};

struct layer_pos reader_here(const struct reader *r);
/* Complete an error that err_invalid() and friends began. */
int reader_fail(struct reader *r);
int reader_next(struct reader *r);
/* Text of the current scalar; gone with the next event. */
const char *reader_text(const struct reader *r);
int reader_want(struct reader *r, yaml_event_type_t type, const char *what, const char *kind);
int reader_want_scalar(struct reader *r, const char *what);
/* A mapping with known keys, each at most once. */
int reader_mapping(struct reader *r, const char *section, const struct reader_key *keys, size_t n);
/* A list of scalars; `add` gets each as the current event. */
int reader_list(struct reader *r, const char *what, reader_fn *add, const char *key);
/* The section `network`: net_parse.c. */
int reader_network(struct reader *r, const char *key);
/* Text of policy_network_text(): rules have names, and nothing is checked against the others. */
int reader_expanded(struct policy_layer **ret, const char *text, size_t len, struct err *e);

#endif
