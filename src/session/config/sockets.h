/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of host services that lie in granted trees.
 *
 * Purpose: connecting to a socket by its path needs no more than to see it: neither a read-only mount nor
 *          Landlock (before ABI 9) govern that, so a service of the host's in a granted directory could be
 *          spoken to. Those that are there when the run begins are masked unless a rule names them. An
 *          overlay has inodes of its own, so in a staged workspace none can be reached.
 * Source:  the kernel's list of bound sockets (/proc/net/unix). It has the names that were bound: for
 *          one that is relative the trees are walked, as far as a bound goes. The sandbox's own sockets,
 *          and those that an earlier one left, are not in it: they are another network namespace's, or
 *          nobody's.
 * Limits:  a socket that a service makes while the command runs can be reached: it is looked for at the
 *          end, and told. Services of other network namespaces (a container that shares the directory) are
 *          not seen, nor those whose socket was renamed after it was bound.
 */
#ifndef CROFT_SESSION_CONFIG_SOCKETS_H
#define CROFT_SESSION_CONFIG_SOCKETS_H

#include "base/str.h"
#include "policy/policy.h"

#define SOCKETS_MAX 256
#define SOCKETS_LIST_MAX_B (4u << 20)
#define SOCKETS_ENTRIES_MAX 16384 /* directory entries that are looked at for relative names */
#define SOCKETS_DIRS_MAX 4096

/* Adds to *ret those that the policy would show and no rule names. `except`: a staged workspace, or NULL. */
int sockets_find(struct strlist *ret, const struct policy *p, const char *except, struct err *e);

#endif
