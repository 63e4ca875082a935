/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of YAML files that people write: policies, gates.
 *
 * Trust:   the text is anyone's. Only one document is read, with mappings, lists and scalars at the places
 *          the schema has them. Anchors, aliases, tags, directives and a second document are refused, so
 *          nothing can be said twice or refer to itself.
 * Limits:  the caller's for the text; depth is bounded by the schema because the first value of a wrong
 *          kind ends the parse.
 * Failure: "FILE:LINE:COLUMN: what; did you mean X?".
 */
#ifndef CROFT_POLICY_YAML_H
#define CROFT_POLICY_YAML_H

#include <stdbool.h>
#include <yaml.h>

#include "base/err.h"

#define READER_KEYS_MAX 24

struct yaml_reader {
	const char *name; /* of the file */
	const char *noun; /* what it is in sentences: "policy" */
	/* The section that a key unknown here belongs to, for the hint; or no such function. */
	const char *(*elsewhere)(const char *key);
	void *into; /* what the whole file fills in */
	struct err *e;

	yaml_parser_t yaml;
	yaml_event_t ev;
	bool have;    /* ev holds an event that must be deleted */
	bool version; /* seen, and one we read */
	void *draft;  /* what the mapping being read fills in */
};

/* Reads the value that is the current event. */
typedef int reader_fn(struct yaml_reader *r, const char *key);

struct reader_key {
	const char *name;
	reader_fn *read;
};

/* The whole text, whose top mapping has these keys; r has its first five members. */
int reader_run(struct yaml_reader *r, const char *text, size_t len, const struct reader_key *keys,
	size_t n);

/* Complete an error that err_invalid() and friends began. Lines and columns as libyaml counts: from 0. */
int reader_fail(struct yaml_reader *r);
int reader_fail_at(struct yaml_reader *r, size_t line, size_t column);
/* "TEXT" why: the current scalar is not what it should be. */
int reader_bad(struct yaml_reader *r, const char *why);
int reader_next(struct yaml_reader *r);
/* Text of the current scalar; gone with the next event. */
const char *reader_text(const struct yaml_reader *r);
int reader_want(struct yaml_reader *r, yaml_event_type_t type, const char *what, const char *kind);
int reader_want_scalar(struct yaml_reader *r, const char *what);
/* A mapping with known keys, each at most once. */
int reader_mapping(
	struct yaml_reader *r, const char *section, const struct reader_key *keys, size_t n);
/* A list; `add` gets each entry as the current event. */
int reader_entries(struct yaml_reader *r, const char *what, reader_fn *add, const char *key);
/* The same, of scalars. */
int reader_list(struct yaml_reader *r, const char *what, reader_fn *add, const char *key);

#endif
