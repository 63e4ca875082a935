/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's own certificate authority: one per run, made in memory, gone with it.
 *
 * Its certificate is trusted inside one sandbox and nowhere else; its key signs the leaves that the
 * gateway shows for inspected hosts. Whoever makes it hands the key to the gateway and calls
 * authority_wipe() before a process is forked that the sandbox could look into.
 */
#ifndef CROFT_SESSION_NET_AUTHORITY_H
#define CROFT_SESSION_NET_AUTHORITY_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "ipc/gateway_message.h"

#define AUTHORITY_RUN_ID_MAX 50    /* X.509 allows 64 characters for a common name */
#define AUTHORITY_PEM_MAX 2048     /* what authority_pem() writes at most */
#define AUTHORITY_BACKDATED_DAYS 1 /* clocks inside containers and VMs may be late */
#define AUTHORITY_VALID_DAYS 30 /* longer than any run, short enough to mean little if it leaks */

/* run_id: letters, digits, '-', '_' and '.'. Not for two threads at once. */
int authority_make(struct gateway_ca *ret, const char *run_id, struct err *e);
/* The same at a given time, in Unix seconds. */
int authority_make_at(struct gateway_ca *ret, const char *run_id, int64_t now_s, struct err *e);
/* The certificate as PEM text. */
void authority_pem(const struct gateway_ca *ca, struct buf *out);
/* Forget the key. The certificate is public and stays. */
void authority_wipe(struct gateway_ca *ca);

#endif
