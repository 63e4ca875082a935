/* SPDX-License-Identifier: Apache-2.0 */
/* Shared between network.c, network_serve.c and network_trust.c only. */
#ifndef CROFT_CORE_NETWORK_IMPL_H
#define CROFT_CORE_NETWORK_IMPL_H

#include "core/network.h"

/* A memory file with these bytes, rewound. */
int network_memfd(const char *name, const void *p, size_t len, struct err *e);

void network_count(struct network *n);
void network_note(struct network *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool network_wants_trust(const struct network *n);
/* Make the authority unless it is there. */
int network_authority(struct network *n, struct err *e);
void network_trust_done(struct network *n);

#endif
