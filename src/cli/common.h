/* SPDX-License-Identifier: Apache-2.0 */
/* Options that every command which resolves a policy takes, parsed in one place. */
#ifndef CROFT_CLI_COMMON_H
#define CROFT_CLI_COMMON_H

#include "cli/cli.h"

struct common {
	const char *tier, *policy, *profile, *workspace;
	const char *memory, *cpus, *pids, *disk, *timeout, *observe;
	struct opt_list read, write, deny, hosts, use, secrets, publish, host_ports, env, set;
	bool discard, direct, staged, stay, allow_degraded, help, quiet, verbose;
	const char *json;
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
extern const char common_help[];

/* Run a command in an environment with our descriptors, and tell how it went (cli/run.c). */
int run_execute(struct croft *c, struct croft_env *env, const struct common *o, char **argv);

#endif
