/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to ports on loopback inside that are on their way.
 *
 * Purpose: the first process makes connections for published ports and waits for none of them: what
 *          listens there is the command's, which may let every one of them hang.
 * Order:   connecting_start(); then, in each turn of the loop, connecting_poll() and connecting_handle().
 *          Each start is told to `done` once, perhaps before it returns.
 * Limits:  CONNECTING_MAX at once; each address has CONNECTING_MS. What listens has either loopback, or both.
 */
#ifndef CROFT_ENGINE_INIT_CONNECTING_H
#define CROFT_ENGINE_INIT_CONNECTING_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/wire/wire.h"

#define CONNECTING_MAX WIRE_CONNECTS_MAX
#define CONNECTING_MS 200

struct connecting {
	int fd;
	uint32_t id;
	uint16_t port;
	bool v6; /* the second address */
	uint64_t until_ms;
};

/* error: 0 with *fd, which the callee may take; else an errno. */
typedef void (*connecting_fn)(void *arg, uint32_t id, int error, int *fd);

struct connectings {
	struct connecting v[CONNECTING_MAX];
	size_t n;
	connecting_fn done;
	void *arg;
};

void connecting_start(struct connectings *c, uint32_t id, int port, uint64_t now_ms);
/* What to poll: returns how many of p[CONNECTING_MAX]. */
size_t connecting_poll(const struct connectings *c, struct pollfd *p);
/* p, n: as connecting_poll() said, and polled since. */
void connecting_handle(struct connectings *c, const struct pollfd *p, size_t n, uint64_t now_ms);
/* For poll(): until the next one has had its time; -1: none is on its way. */
int connecting_wait_ms(const struct connectings *c, uint64_t now_ms);

#endif
