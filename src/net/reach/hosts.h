/* SPDX-License-Identifier: Apache-2.0 */
/* The host's table of names (hosts(5)), read once. */
#ifndef CROFT_NET_REACH_HOSTS_H
#define CROFT_NET_REACH_HOSTS_H

#include "policy/net/net.h"

#define HOSTS_MAX_B (4u << 20)
#define HOSTS_MAX 65536u

struct hosts;
struct hosts *hosts_load(
	const char *path); /* a missing or oversized file is an empty table; NULL: no memory */
struct hosts *hosts_parse(const char *text, size_t n);
void hosts_free(struct hosts *h);
/* How many addresses were written to ret. */
size_t hosts_find(const struct hosts *h, const char *host, struct net_addr *ret, size_t max);

#endif
