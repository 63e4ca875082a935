/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One DNS message from the sandbox, and the one that answers it. Pure.
 *
 * Purpose: a query is a header, exactly one question and at most one OPT record (EDNS); everything
 *          else is a format error. Nothing of a query is ever sent on, so what matters is that the
 *          name judged is the name asked: labels are taken by length, and a name with any byte
 *          outside letters, digits, '-' and '_' matches no rule.
 * Limits:  no compression in questions, names of 255 bytes, answers of DNS_ANSWER_MAX_B.
 */
#ifndef CROFT_NET_DNS_DNS_MESSAGE_H
#define CROFT_NET_DNS_DNS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/net/net.h"

#define DNS_QUERY_MAX_B 4096u  /* larger ones are not looked at */
#define DNS_ANSWER_MAX_B 1232u /* also the payload size we announce */
#define DNS_PLAIN_MAX_B 512u   /* over UDP without EDNS */
#define DNS_WIRE_NAME_MAX 255u
#define DNS_TEXT_MAX (4u * DNS_WIRE_NAME_MAX + 1u) /* every byte as \ddd */

enum dns_type {
	DNS_A = 1,
	DNS_PTR = 12,
	DNS_AAAA = 28,
	DNS_IXFR = 251,
	DNS_AXFR = 252,
};
#define DNS_CLASS_IN 1

enum dns_rcode {
	DNS_NOERROR,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_BADVERS = 16
};

struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool recursion, unchecked;       /* RD and CD, which the answer repeats */
	uint8_t wire[DNS_WIRE_NAME_MAX]; /* the name as it came, for the answer: case and all */
	size_t wire_len;                 /* 0: no question was understood, none is repeated */
	char name[NET_NAME_MAX + 1];     /* canonical; "" when it is not a host name */
	char text[DNS_TEXT_MAX];         /* for people, odd bytes as \ddd */
	uint16_t type, class;
	bool edns, dnssec_ok;
	uint16_t payload_b; /* what the asker takes over UDP; at least DNS_PLAIN_MAX_B */
};

/*
 * 0: a question to be judged. >0: an enum dns_rcode to answer with, *ret holds what was understood.
 * <0: not worth an answer (no whole header, or an answer itself: answering that could go on for
 * ever).
 */
int dns_query_parse(struct dns_query *ret, const uint8_t *p, size_t n);

struct dns_answer {
	enum dns_rcode rcode;
	enum dns_type type;   /* of the one record; 0: none */
	struct net_addr addr; /* DNS_A, DNS_AAAA */
	const char *name;     /* DNS_PTR: canonical */
	uint32_t ttl_s;
};

/*
 * Bytes written. What is over limit_b (and DNS_ANSWER_MAX_B) comes without its record and with TC.
 */
size_t dns_answer_write(uint8_t out[DNS_ANSWER_MAX_B], const struct dns_query *q,
	const struct dns_answer *a, size_t limit_b);
/* How large an answer over UDP may be. */
size_t dns_udp_limit(const struct dns_query *q);

/* The address that a name under in-addr.arpa or ip6.arpa, canonical, stands for. */
bool dns_reverse(struct net_addr *ret, const char *name);
/* Is it under one of these trees at all? */
bool dns_is_reverse(const char *name);
/* "A", "AAAA", "HTTPS" …; "other" when it has no name here. Static. */
const char *dns_type_name(uint16_t type);

#endif
