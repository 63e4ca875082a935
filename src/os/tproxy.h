/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network namespace in which every address is here, and every connection lands in our sockets.
 *
 * Purpose: `lo` alone, a `local default` route for IPv4 and IPv6, one nftables chain that hands TCP
 *          to a transparent listener whatever its address and port. Loopback and the namespace's
 *          own address are left to the servers inside, but for chosen ports of 127.0.0.1 and ::1.
 * Trust:   nothing here keeps anything in: there is no uplink. Taking the rules away only cuts off.
 * Order:   in the namespace, with its capabilities, before they are dropped. The sockets go
 *          outside.
 */
#ifndef CROFT_OS_TPROXY_H
#define CROFT_OS_TPROXY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum capture_fd { CAPTURE_TCP4, CAPTURE_TCP6, CAPTURE_UDP4, CAPTURE_UDP6, CAPTURE_FD_NUM };

#define CAPTURE_PORT 1                /* of the listeners; nobody inside may bind it */
#define CAPTURE_RESOLVER "198.18.0.1" /* any address would do: all of them are here */

/* Ports of loopback that are captured too: whoever asks for more gets the first of them. */
#define CAPTURE_LOCAL_MAX 16

/* lo is up already. Descriptors are the caller's, non-blocking, close-on-exec. */
int capture_set_up(
	int ret[CAPTURE_FD_NUM], const uint16_t *local, size_t local_n, struct err *e);
/* The resolver of a namespace that has only lo: a UDP socket on 127.0.0.1:53. */
int capture_lookups(int *ret, struct err *e);

#endif
