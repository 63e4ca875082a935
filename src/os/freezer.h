/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cgroup v2 freezer for a sandbox of many commands: one small group per command, all below one
 * that is frozen and thawed as a whole.
 *
 * Purpose: the first process, its broker and the reapers stay in the sandbox's own group, beside
 *          "commands", so they are never frozen. A command's process enters a group of its own before its
 *          exec; whatever it starts is born there, and nothing inside can leave it.
 * Form:    the groups are threaded ones without controllers: limits hold in the sandbox's group above
 *          them, and a process with one thread that moves itself there waits for no grace period of the
 *          kernel, which entering any other group of cgroup v2 costs (10 ms and more).
 * Order:   freezer_open() -> freezer_add() for each reaper -> freezer_set(), then freezer_fd() tells
 *          when freezer_is() has changed -> freezer_close(); the groups go with cgroup_remove().
 * Limits:  needs the group to be in cgroup v2 alone: the freezer of v1 makes a SIGKILL wait, so it is never
 *          used. Without it the first process stops the others by signals.
 */
#ifndef CROFT_OS_FREEZER_H
#define CROFT_OS_FREEZER_H

#include <stdbool.h>
#include <stdint.h>

#include "os/cgroup.h"

struct freezer {
	int dir_fd;    /* of "commands"; -1: there is none */
	int events_fd; /* its cgroup.events */
};

#define FREEZER_INIT ((struct freezer){.dir_fd = -1, .events_fd = -1})

/* 0, or -errno where it cannot be had: -EOPNOTSUPP without cgroup v2. Nothing is left then. */
int freezer_open(struct freezer *f, const struct cgroup *c);
void freezer_close(struct freezer *f);
/*
 * A group for one command at a time. Returns a descriptor by which a process with one thread enters it
 * (freezer_enter()); it holds for whoever it is passed on to, with the rights of who opened it here.
 */
int freezer_add(const struct freezer *f, uint32_t id);
int freezer_enter(int fd); /* 0 or -errno; async-signal-safe */
/* Remove an empty group; one that is not yet empty goes with cgroup_remove(). */
void freezer_remove(const struct freezer *f, uint32_t id);
int freezer_set(const struct freezer *f, bool on); /* 0 or -errno; asks only */
bool freezer_is(const struct freezer *f);          /* is everything frozen now? */
int freezer_fd(const struct freezer *f);           /* EPOLLPRI when that may have changed */

#endif
