/* SPDX-License-Identifier: Apache-2.0 */
/* What the opaque types of croft.h are. */
#ifndef CROFT_API_INTERNAL_H
#define CROFT_API_INTERNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/env_run.h"
#include "core/receipt.h"
#include "croft.h"
#include "policy/policy.h"

struct croft {
	struct err err;
	void (*progress)(void *arg, size_t done, size_t total);
	void *progress_arg;
};

/* r < 0: just that. Otherwise the text is the caller's to free, and r is returned. */
int api_give(struct croft *c, int r, struct buf *text, char **ret);
/* Of a list that ends with NULL; NULL: none. */
size_t api_count(const char *const *list);

struct croft_policy {
	struct policy policy;
	char *home, *workspace, *cwd;
	dev_t workspace_dev;
	ino_t workspace_ino;
	bool project_trusted;
};

struct croft_env {
	struct croft *croft;
	struct croft_policy *policy; /* borrowed */
	struct croft_env_options options;
	struct env *named;   /* owned; NULL: none */
	struct env_run *run; /* owned; of a staged run */
	char *notes;
};

struct croft_receipt {
	struct receipt receipt;
};

#endif
