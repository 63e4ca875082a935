/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authorities that upstream servers may have: the system's, and those of `trust:`.
 *
 * Purpose: some hundred and forty roots parsed are megabytes that most sandboxes never use. Files
 *          are opened before the process confines itself; their certificates are indexed by
 *          subject when the first upstream server must be verified, and parsed only when a chain
 *          ends in them.
 * Trust:   the files are the host's.
 */
#ifndef CROFT_NET_TLS_TLS_ROOTS_H
#define CROFT_NET_TLS_TLS_ROOTS_H

#include <stddef.h>

#include <openssl/x509_vfy.h>

#include "base/err.h"

#define ROOTS_FILE_MAX_B (8u << 20)
#define ROOTS_FILES_MAX 64u
#define ROOTS_MAX 4096u

struct roots;
/* The first system bundle that exists, and every one of `files`, which must be readable. */
int roots_new(struct roots **ret, const char *const *files, size_t n, struct err *e);
void roots_free(struct roots *r);
/* Let a store look certificates up here. The roots must outlive it. */
int roots_attach(struct roots *r, X509_STORE *store);

#endif
