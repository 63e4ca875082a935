/* SPDX-License-Identifier: Apache-2.0 */
/* Options that every command which resolves a policy takes, parsed in one place. */
#ifndef CROFT_CLI_COMMON_H
#define CROFT_CLI_COMMON_H

#include "cli/cli.h"

struct common {
	const char *tier, *policy, *profile, *workspace;
	const char *memory, *cpus, *pids, *open_files, *file_size, *disk, *timeout, *observe;
	struct opt_list read, write, deny, view, write_runs;
	struct opt_list hosts, use, secrets, publish, host_ports, env, set;
	bool git, discard, direct, staged, stay, allow_degraded, help, quiet, verbose;
	const char *json, *label;
};

#define COMMON_OPTS_MAX 48

/* Fill opts with the common options followed by `extra`; returns how many. */
int common_opts(struct common *c, struct opt *opts, const struct opt *extra, int extra_n);
/*
 * Turn them into what croft_policy_load takes. storage keeps the strings; 0 or -1 after a message.
 */
struct common_storage {
	char text[16][128];
	struct opt_list set;
};
int common_policy(const char *cmd, struct common *c, struct common_storage *st,
	struct croft_policy_options *ret);
/* --env NAME of a variable that is not set is a mistake, told here; -1. */
int common_env_set(const char *cmd, const struct common *c);
/* Was anything given that decides about the boundary, and cannot be of one process in it? */
bool common_of_boundary(const struct common *c);
/* The limits that one command in a session can have of its own: how many were given. */
#define COMMON_LIMITS_MAX 5
struct common_limit {
	const char *key, *value; /* as in a policy */
};
int common_limits(const struct common *c, struct common_limit ret[COMMON_LIMITS_MAX]);
/*
 * The options in argv that `drop` (NULL-terminated) does not name, as they were given: argv is as before
 * parsing, and known to be good. NULL: no memory. Caller frees.
 */
char **common_words(int argc, char **argv, const struct opt *opts, int n, const char *const *drop);
/* What `from` says of the boundary, on top of `to`. */
void common_add(struct common *to, const struct common *from);
extern const char common_help[];

/* Run a command in an environment with our descriptors, and tell how it went (cli/run.c). */
int run_execute(struct croft *c, struct croft_env *env, const struct common *o, char **argv);
/* What would be set up; and, afterwards, where the reviewer goes from here. */
int run_dry(struct croft *c, struct croft_env *env, char **argv, const char *json);
void run_tell_staged(struct croft_env *env, bool quiet);

#endif
