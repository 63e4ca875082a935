/* SPDX-License-Identifier: Apache-2.0 */
/* What the opaque types of croft.h are. */
#ifndef CROFT_API_API_IMPL_H
#define CROFT_API_API_IMPL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "env/env_run.h"
#include "session/run/receipt.h"
#include "croft_run.h"
#include "policy/policy.h"

struct croft {
	struct err err;
	void (*progress)(void *arg, size_t done, size_t total);
	void *progress_arg;
	char *seen;  /* the environment whose record was read last; NULL: none was */
	int seen_fd; /* its directory, so that it need not be looked for again */
};

/* r < 0: just that. Otherwise the text is the caller's to free, and r is returned. */
int api_give(struct croft *c, int r, struct buf *text, char **ret);
struct croft_policy;
/* Can the workspace not be staged here, so that it must be copied, or is written in place? (api/env.c) */
bool api_cannot_stage(const struct croft_policy *p);
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

struct api_receipt;

struct croft_receipt {
	struct receipt receipt;
	struct api_receipt *data; /* made when asked for; its strings are in `packed` */
	struct buf packed;
};

#endif
