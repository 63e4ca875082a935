/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From this machine to one policy: who and where the caller is, the policy files, the command line.
 *
 * Purpose: all I/O that a policy needs, so that src/policy needs none.
 * Trust:   the system's and the user's files are believed (they may not be writable by everybody);
 *          the project's file is anyone's: never followed through a symlink, and unable to widen
 * until its exact bytes are in the trust store. Order:   layers_locate() -> read and parse each
 * file once -> policy_resolve(). Failure: a file that is there and cannot be read or parsed stops
 * everything; nothing is created.
 */
#ifndef CROFT_SESSION_CONFIG_LAYERS_H
#define CROFT_SESSION_CONFIG_LAYERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "policy/policy.h"

#define LAYERS_SYSTEM_FILE "/etc/croft/policy.yaml"
#define LAYERS_PROJECT_NAME "croft.yaml"

/* What the caller asks for; the same members as struct croft_policy_options of croft.h. */
struct layers_options {
	const char *directory;
	const char *policy_file;
	const char *profile;
	const char *tier;
	const char *const *read;
	const char *const *write;
	const char *const *deny;
	const char *const *view;
	const char *const *write_runs;
	bool git; /* committing in the workspace's repository */
	const char *const *hosts;
	const char *const *publish;    /* network.publish */
	const char *const *host_ports; /* network.host-ports */
	const char *const *secrets;    /* network.secret: NAME@HOST[:PORT][:PLACE[=FIELD]] */
	const char *const *use;        /* network.use */
	const char *const *env;
	const char *const *set;
	const char *added, *added_name; /* text of a layer before the command line's, and its name */
};

/* All paths canonical and owned. */
struct layers_info {
	char *home;
	char *workspace;
	char *cwd;
	dev_t workspace_dev; /* which directory that name meant when it was chosen */
	ino_t workspace_ino;
	char *state;        /* croft's state directory; need not exist */
	char *config;       /* the user's croft configuration directory; need not exist */
	char *project_file; /* WORKSPACE/croft.yaml when it exists, else NULL */
	struct digest project_digest;
	bool project_trusted;
};

void layers_info_done(struct layers_info *i);
#define cleanup_layers_info __attribute__((cleanup(layers_info_done)))

/* The caller's home directory, canonical. */
int layers_home(char **ret, struct err *e);
/* The user's croft configuration directory, canonical; need not exist. */
int layers_config(char **ret, struct err *e);
/* Home, workspace, cwd, state, config. directory NULL: the current one. */
int layers_locate(struct layers_info *ret, const char *directory, struct err *e);
int layers_load(struct policy *ret, struct layers_info *info, const struct layers_options *o,
	struct err *e);
/* Parse one file as the layer it would be (by its name and place). */
int layers_check(const char *file, struct err *e);

/* ---- trust (session/config/policy_trust.c) ---- */

/* Has the user approved these bytes as this project's policy? */
bool trust_has(const char *state, const char *project_file, const struct digest *d);
int trust_add(const char *state, const char *project_file, const struct digest *d, struct err *e);
/* Forget every approval of this project's file. Returns 1 when there was one, 0 when not. */
int trust_revoke(const char *state, const char *project_file, struct err *e);
/*
 * Approve (or revoke) a project file, NULL: the one of the current directory. What the file gives
 * beyond the user's own policy is added to `out` for the user to see.
 */
int layers_trust(const char *file, bool revoke, struct buf *out, struct err *e);

#endif
