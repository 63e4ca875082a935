/* SPDX-License-Identifier: Apache-2.0 */
/* Shared between network.c and network_serve.c only. */
#ifndef CROFT_CORE_NETWORK_IMPL_H
#define CROFT_CORE_NETWORK_IMPL_H

#include "core/network.h"

/* A memory file with these bytes, rewound. */
int network_memfd(const char *name, const void *p, size_t len, struct err *e);

void network_count(struct network *n);

#endif
