/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gateway (or keeper) gives up before it reads the first hostile byte.
 *
 * Order:  confine_early() first thing in main(): inherited descriptors, parent-death signal,
 *         limits. confine() when every file was read and every library loaded; then READY.
 * After:  no file can be opened, nothing executed, no process made or looked at, no listening;
 *         sockets are TCP and UDP over IPv4 and IPv6, and netlink's list of addresses. What breaks
 *         this ends the process.
 * Failure: a step that fails ends the program. Only Landlock may be missing: the filter refuses
 *          every open anyway.
 */
#ifndef CROFT_NET_GATEWAY_CONFINE_H
#define CROFT_NET_GATEWAY_CONFINE_H

#include <stdbool.h>

#include "base/err.h"

#define CONFINE_NOFILE_MAX 65536
#define CONFINE_FILE_MAX_B (80u << 20) /* of the journal, which ends itself at 64 MiB */

/* Keeps 0..2 and `keep_fd`, closes every other descriptor; dies with the parent from here on. */
int confine_early(int keep_fd, struct err *e);
/* *ret_degraded: NULL, or a sentence about what this kernel could not give. */
int confine(const char **ret_degraded, struct err *e);

#endif
