/* SPDX-License-Identifier: Apache-2.0 */
/* The command's environment: built from nothing, by the policy's allowlist. */
#ifndef CROFT_SESSION_CONFIG_ENVIRON_H
#define CROFT_SESSION_CONFIG_ENVIRON_H

#include "base/err.h"
#include "base/str.h"
#include "policy/policy.h"

struct environ_facts {
	const char *home;    /* as the command sees it */
	const char *tmp;     /* TMPDIR */
	const char *runtime; /* XDG_RUNTIME_DIR or NULL */
	const char *cwd;
	const char *run_id;
	const char *git_config; /* a file that says who commits, as the command sees it; or NULL */
	bool git_held; /* .git is read-only: git status should not try to refresh its index */
};

/* ret->v is NULL-terminated and usable as envp. */
int environ_build(struct strlist *ret, const struct policy *p, char *const *caller,
	const struct environ_facts *f, struct err *e);
/* Make it usable as envp again, after something was added. */
int environ_end(struct strlist *l, struct err *e);

#endif
