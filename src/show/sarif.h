/* SPDX-License-Identifier: Apache-2.0 */
/* SARIF 2.1.0: findings in the form that code hosts and editors show beside the code. */
#ifndef CROFT_SHOW_SARIF_H
#define CROFT_SHOW_SARIF_H

#include "base/buf.h"
#include "base/json.h"

struct story;

struct sarif_rule {
	const char *id, *text;
};

struct sarif {
	struct json j;
};

struct sarif_result {
	const char *rule;
	const char *level; /* "error", "warning", "note" */
	const char *message;
	const char *path; /* relative to the top of the repository; NULL: not a file there */
	const char *logical, *logical_kind; /* what it is about otherwise; NULL: nothing */
	const char *fingerprint;            /* stays the same for the same finding */
	/* Pairs for `properties`, NULL-terminated; or NULL. */
	const char *const *properties;
};

/* version: of croft. */
void sarif_begin(struct sarif *s, struct buf *out, const char *version,
	const struct sarif_rule *rules, size_t n);
void sarif_add(struct sarif *s, const struct sarif_result *r);
void sarif_end(struct sarif *s);

/* Every denial of a story. */
void sarif_denials(const struct story *s, const char *version, struct buf *out);
/* What a path is relative to the workspace, or NULL when it is not below it. */
const char *sarif_below(const char *workspace, const char *path);

#endif
