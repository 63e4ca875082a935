/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is about to become a command by an exec of croft's own.
 *
 * Purpose: until its exec such a process shares the memory of the first process or a reaper, which nobody
 *          may read: the broker cannot see what it executes. Whoever starts the command has judged it.
 * How:     memory that the broker shares with whoever starts commands, and that no command has: an exec drops
 *          it. Each announcement is good for one exec. Every starter has a slot of its own.
 */
#ifndef CROFT_ENGINE_BROKER_STARTS_H
#define CROFT_ENGINE_BROKER_STARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STARTS_MAX 4097 /* the first process and every reaper */

struct starts;

/* Before the broker starts, and never given back. NULL with errno. */
struct starts *starts_new(void);
/* In the process that is about to execute something, before each attempt. `s` may be NULL, here and below. */
void starts_announce(struct starts *s, size_t slot);
/* Nobody starts a command there any more. */
void starts_forget(struct starts *s, size_t slot);

struct start_seen {
	size_t slot;
	uint64_t value;
};

/* Has this process announced an exec that was not used yet? */
bool starts_find(struct starts *s, pid_t pid, struct start_seen *ret);
void starts_use(struct starts *s, const struct start_seen *seen);

#endif
