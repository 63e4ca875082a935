/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's name server: every address of the world answers on port 53, and it is this one.
 *
 * Trust:   nothing that is asked here is asked anywhere else. A name gets its synthetic pair
 *          (net/dns/names.h), whether a rule covers it or its connections will be refused, or does not
 *          exist. So a lookup carries nothing out, whatever is in it.
 * Limits:  DNS_RATE_PER_S answers in any second; what is over is dropped and counted.
 */
#ifndef CROFT_NET_DNS_DNS_H
#define CROFT_NET_DNS_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/dns/dns_message.h"
#include "net/gateway/gateway.h"

#define DNS_RATE_PER_S 20000u /* a thousand clients that look up two names at once, ten times */
#define DNS_TTL_S 60u
#define DNS_TCP_QUERIES_MAX 64u
#define DNS_TCP_IDLE_MS 10000u
#define DNS_HOST_NAME NET_THIS_MACHINE
#define DNS_SELF_NAME "croft" /* the sandbox's own host name */

struct flow;

/*
 * Sockets on port 53 of any address, or -1 where there is none; they become non-blocking, tell the
 * address that was asked, and are the new object's from here on, closed by dns_free(). NULL: e says
 * why, and they are the caller's still.
 */
struct dns *dns_new(struct gateway *g, int udp4, int udp6, struct err *e);
void dns_free(struct dns *d);
void dns_pause(struct dns *d, bool on); /* queries that come meanwhile wait; NULL is none */
/*
 * A captured connection to port 53: answers it until it ends, in flow_end(). Takes over the flow's
 * watch and timer. false: out of memory or descriptors; nothing was changed but the watch and the
 * timer, which are off.
 */
bool dns_tcp(struct flow *f);
/* How many queries were not answered because of the rate. */
uint64_t dns_dropped(const struct dns *d);

/* One query and its answer, whatever carried them. 0: none is due. Not rate-limited. */
size_t dns_reply(
	struct gateway *g, const uint8_t *p, size_t n, bool udp, uint8_t out[DNS_ANSWER_MAX_B]);

/* Does some rule cover this name, so that it may be dialled on some port? */
bool dns_name_known(const struct net_policy *p, const char *name);
/* A name was refused: tell it, unless nobody would want to know. */
void dns_denied(struct gateway *g, const char *name, const char *qtype);
/*
 * net/gateway/netlog.c: once per name. The name is text as in struct dns_query: printable, up to
 * DNS_TEXT_MAX.
 */
void netlog_name_denied(struct gateway *g, const char *name);

#endif
