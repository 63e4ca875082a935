/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting one command from a locked-down process: everything between vfork and exec.
 *
 * Order: command_reset_signals() once, while there is time; then for each command cgroups, shield, rlimits,
 *        session or group, terminal, descriptors, signal mask, exec. The child shares our memory until its
 *        exec, so it allocates nothing and calls only what is safe there.
 */
#ifndef CROFT_ENGINE_INIT_COMMAND_H
#define CROFT_ENGINE_INIT_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct init;
struct wire_limits;

struct command {
	char *const *argv;
	char *const *envp;
	const char *cwd;
	int stdio[3];        /* -1: closed */
	int tty_fd;          /* the terminal among them, or -1 */
	int group_fd;        /* of a group to enter first (os/freezer.h), or -1 */
	const int *groups;   /* then those of its own limits (os/cgroup.h) */
	size_t groups_n;
	const struct wire_limits *limits; /* of its own, by rlimits; NULL: none */
	bool less;                        /* it may run although one of these cannot be held */
	bool tty_background; /* it does not get the terminal now */
	bool own_session;    /* a session of its own, whose terminal tty_fd becomes */
};

/* What commands inherit: every signal does what it does by default. All of them are blocked here. */
void command_reset_signals(void);
/*
 * The number of the new process, or -errno with the reason why there is none. `held`: enum go_flags, what
 * a cgroup limits already.
 */
pid_t command_start(struct init *in, const struct command *c, int held, struct err *e);

#endif
