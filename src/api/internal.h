/* SPDX-License-Identifier: Apache-2.0 */
/* What the opaque types of croft.h are. */
#ifndef CROFT_API_INTERNAL_H
#define CROFT_API_INTERNAL_H

#include <stdbool.h>

#include "base/err.h"
#include "core/env_run.h"
#include "core/receipt.h"
#include "croft.h"
#include "policy/policy.h"

struct croft {
	struct err err;
};

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
