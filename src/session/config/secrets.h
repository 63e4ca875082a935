/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of secrets: $XDG_STATE_HOME/croft/secrets/NAME, one file each, 0600, in a directory
 * 0700.
 *
 * Purpose: put in, take away, list and measure. A sandbox needs only the length (for its
 *          placeholder), and the keeper reads values itself, through what is handed to it. The
 *          launcher reads values for one thing: to take them out of what it writes down, when the
 *          sandbox cannot get a copy of its memory any more (session/run/hidden.h).
 * Trust:   the state directory is on the floor of every policy: no sandbox reads or writes it. A
 *          file counts only if it is regular, ours, closed to others and has no second name;
 *          nothing is followed.
 * Failure: whatever does not look like that is refused by name, never skipped.
 */
#ifndef CROFT_SESSION_CONFIG_SECRETS_H
#define CROFT_SESSION_CONFIG_SECRETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "secret/value.h"

#define SECRETS_MAX 1024u /* stored ones that are listed */

struct secret_info {
	char name[SECRET_NAME_MAX + 1];
	size_t len_b;
	int64_t set_at;      /* Unix seconds */
	const char *problem; /* why it cannot be used, or NULL; static text */
};

/* 0, or a sentence that says what a name looks like. */
int secret_name_check(const char *name, struct err *e);
/*
 * Length of the value in bytes, by the file's size: it is not read. What is not stored is the caller's
 * variable of that name, here and in secret_handover().
 */
int secret_length(const char *name, size_t *ret, struct err *e);
/* Replace or make. A crash leaves the old value or the new one. */
int secret_set(const char *name, const struct secret *value, struct err *e);
int secret_remove(const char *name, struct err *e);
/* All of them, by name; caller frees *ret. */
int secret_list(struct secret_info **ret, size_t *ret_n, struct err *e);
/* Every value that can be used, one at a time, wiped afterwards. Stops when visit gives non-zero. */
int secret_each(int (*visit)(void *arg, const char *name, const struct secret *value), void *arg,
	struct err *e);
/* What the store looked like when its values were read. */
struct secret_stamp {
	struct timespec changed, seen;
	uint64_t dev, ino;
};
/* Has nothing been stored since? If something may have been, *s is a new stamp: read the values then. */
bool secret_unchanged(struct secret_stamp *s);
/*
 * Named secrets for a keeper that can open nothing any more: the reading end of a socket in which
 * each waits as an open file beside its name, in this order. The values are not read here. Returns
 * the descriptor or -errno.
 */
int secret_handover(const char *const *names, size_t n, struct err *e);

#endif
