/* SPDX-License-Identifier: Apache-2.0 */
/* Privilege that must be gone before untrusted code runs, and the proof that it is. */
#ifndef CROFT_OS_CAPS_H
#define CROFT_OS_CAPS_H

#include <stdint.h>

#include "base/err.h"

/*
 * Drop the bounding set, ambient, inheritable, permitted and effective sets, lock securebits
 * (where permitted), set no_new_privs; then read back and fail unless every set is empty.
 */
int caps_drop_all(struct err *e);
/* As that for keep == 0, the only set that can be kept today; any other is refused. */
int caps_reduce(uint64_t keep, struct err *e);
/*
 * Join a new, empty session keyring. Returns 0, or 1 when there is none: the kernel has
 * no keyrings, an outer filter refuses keyctl, or the user's quota of keys is used up. The caller's
 * keys are then closed by the system-call filter alone, which the receipt should show.
 */
int keyring_new_session(struct err *e);

#endif
