/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that were asked for, as few patterns that a rule can hold.
 *
 * Purpose: a tree of segments. A segment that is a number, a UUID or at least LEARN_HEX_MIN
 *          hexadecimal digits is a value, and so are all segments of a place where more than
 *          LEARN_VALUES_MAX different ones were seen: values are '*'.
 * Trust:   paths come from a process that parses hostile bytes. What is not canonical, or holds a
 *          wildcard of its own, is refused: nobody asks a proposal into being wider.
 * Limits:  every place has at most LEARN_VALUES_MAX + 2 entries, the tree LEARN_NODES_MAX.
 */
#ifndef CROFT_LEARN_LEARN_PATHS_H
#define CROFT_LEARN_LEARN_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define LEARN_HEX_MIN 8u
#define LEARN_VALUES_MAX 8u
#define LEARN_DEPTH_MAX 32u
#define LEARN_NODES_MAX 16384u
#define LEARN_PATH_MAX_B 1024u
#define LEARN_METHODS_MAX 32u   /* one bit each */
#define LEARN_TEMPLATES_MAX 20u /* more than these become one: what they share, and "**" */

struct learn_node;

struct learn_paths {
	struct learn_node *root;
	size_t nodes;
	struct strlist methods;
};

struct learn_template {
	char *path;
	uint32_t methods; /* by index in learn_paths.methods */
};

void learn_paths_done(struct learn_paths *t);
/* -EINVAL: cannot be written as a pattern; -E2BIG: not kept; -ENOMEM. */
int learn_paths_add(struct learn_paths *t, const char *method, const char *path);
/* Sorted by path, none covered by another. Free with learn_templates_free(). */
int learn_paths_templates(const struct learn_paths *t, struct learn_template **ret, size_t *ret_n);
void learn_templates_free(struct learn_template *v, size_t n);

#endif
