/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one DNS query and writing its answer. */
#include "net/dns/dns_message.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define HEADER_B 12u
#define LABEL_MAX 63u
#define TYPE_OPT 41
#define TYPE_SOA 6
#define NEGATIVE_TTL_S 5u /* a rule may be added while the sandbox runs */

/* Header bits, as one 16-bit word. */
#define FLAG_QR 0x8000u
#define FLAG_TC 0x0200u
#define FLAG_RD 0x0100u
#define FLAG_RA 0x0080u
#define FLAG_CD 0x0010u
#define OPCODE(flags) ((flags) >> 11 & 15u)
#define EDNS_DO 0x8000u

/*
 * ---- reading: every access goes through these; `bad` is sticky and what is returned then is 0
 * ----
 */

struct reader {
	const uint8_t *p;
	size_t n, at;
	bool bad;
};

static const uint8_t *get_bytes(struct reader *r, size_t n)
{
	const uint8_t *v;

	if (r->bad || n > r->n - r->at) {
		r->bad = true;
		return NULL;
	}
	v = &r->p[r->at];
	r->at += n;
	return v;
}

static uint8_t get_u8(struct reader *r)
{
	const uint8_t *v = get_bytes(r, 1);

	return v ? v[0] : 0;
}

static uint16_t get_u16(struct reader *r)
{
	const uint8_t *v = get_bytes(r, 2);

	return v ? (uint16_t)(v[0] << 8 | v[1]) : 0;
}

static bool host_byte(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

/* Labels up to the root, copied as they are. Compression pointers and extended labels are bad. */
static void get_name(struct reader *r, struct dns_query *q)
{
	size_t len = 0;

	for (;;) {
		uint8_t label = get_u8(r);
		const uint8_t *v = get_bytes(r, label);

		if (r->bad || label > LABEL_MAX || 1u + label > sizeof(q->wire) - len) {
			r->bad = true;
			return;
		}
		q->wire[len++] = label;
		if (!label)
			break;
		memcpy(&q->wire[len], v, label);
		len += label;
	}
	q->wire_len = len;
}

/* The name for people and, when every byte is one of a host name, for policy. */
static void name_texts(struct dns_query *q)
{
	cleanup_buf struct buf text = BUF_INIT(DNS_TEXT_MAX);
	bool host = true;
	size_t at = 0;

	while (at < q->wire_len && q->wire[at]) {
		size_t end = at + 1u + q->wire[at];

		if (text.len)
			buf_addc(&text, '.');
		for (at++; at < end && at < q->wire_len; at++) {
			if (host_byte(q->wire[at])) {
				buf_addc(&text, (char)q->wire[at]);
				continue;
			}
			host = false;
			buf_addf(&text, "\\%03u", q->wire[at]);
		}
	}
	if (!text.len)
		buf_addc(&text, '.');
	snprintf(q->text, sizeof(q->text), "%s", buf_str(&text));
	if (text.failed || !host || !net_name(q->name, text.data, text.len))
		q->name[0] = '\0';
}

/* The only further record there may be. Its options are of no interest, but must add up. */
static int get_opt(struct reader *r, struct dns_query *q)
{
	uint8_t root = get_u8(r);
	uint16_t type = get_u16(r);
	uint16_t payload_b = get_u16(r);
	uint8_t extended = get_u8(r);
	uint8_t version = get_u8(r);
	uint16_t flags = get_u16(r);
	struct reader options = {.n = get_u16(r)};

	options.p = get_bytes(r, options.n);
	if (r->bad || root || type != TYPE_OPT || extended)
		return DNS_FORMERR;
	while (options.at < options.n) {
		get_u16(&options);
		get_bytes(&options, get_u16(&options));
		if (options.bad)
			return DNS_FORMERR;
	}
	q->edns = true;
	q->dnssec_ok = flags & EDNS_DO;
	q->payload_b = MAX_OF(payload_b, (uint16_t)DNS_PLAIN_MAX_B);
	return version ? DNS_BADVERS : DNS_NOERROR;
}

int dns_query_parse(struct dns_query *ret, const uint8_t *p, size_t n)
{
	struct reader r = {.p = p, .n = n};
	uint16_t flags, questions, answers, authorities, additional;
	bool transfer; /* or a class of which there is nothing here */
	int rc;

	*ret = (struct dns_query){.payload_b = DNS_PLAIN_MAX_B};
	ret->id = get_u16(&r);
	flags = get_u16(&r);
	questions = get_u16(&r);
	answers = get_u16(&r);
	authorities = get_u16(&r);
	additional = get_u16(&r);
	if (r.bad || flags & FLAG_QR)
		return -1;
	ret->opcode = OPCODE(flags);
	ret->recursion = flags & FLAG_RD;
	ret->unchecked = flags & FLAG_CD;
	if (ret->opcode)
		return DNS_NOTIMP;
	if (questions != 1 || flags & FLAG_TC || n > DNS_QUERY_MAX_B)
		return DNS_FORMERR;
	get_name(&r, ret);
	ret->type = get_u16(&r);
	ret->class = get_u16(&r);
	if (r.bad) {
		ret->wire_len = 0;
		return DNS_FORMERR;
	}
	name_texts(ret);
	transfer = ret->type == DNS_AXFR || ret->type == DNS_IXFR || ret->class != DNS_CLASS_IN;
	if (answers || authorities || additional > 1)
		return transfer ? DNS_NOTIMP : DNS_FORMERR; /* IXFR brings a record of its own */
	rc = additional ? get_opt(&r, ret) : DNS_NOERROR;
	if (r.at != r.n)
		return DNS_FORMERR;
	return rc == DNS_NOERROR && transfer ? DNS_NOTIMP : rc;
}

/* ---- writing ---- */

struct writer {
	uint8_t *p;
	size_t n, at;
	bool full;
};

static void put_bytes(struct writer *w, const void *v, size_t n)
{
	if (w->full || n > w->n - w->at) {
		w->full = true;
		return;
	}
	if (n)
		memcpy(&w->p[w->at], v, n);
	w->at += n;
}

static void put_u8(struct writer *w, unsigned v)
{
	put_bytes(w, &(uint8_t){(uint8_t)v}, 1);
}

static void put_u16(struct writer *w, unsigned v)
{
	put_bytes(w, &(uint8_t[2]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static void put_u32(struct writer *w, uint32_t v)
{
	put_u16(w, v >> 16);
	put_u16(w, v & 0xffffu);
}

static void put_name(struct writer *w, const char *name)
{
	while (*name) {
		size_t label = strcspn(name, ".");

		if (!label || label > LABEL_MAX) {
			w->full = true; /* not canonical: better no record than a wrong one */
			return;
		}
		put_u8(w, (unsigned)label);
		put_bytes(w, name, label);
		name += label;
		name += *name == '.';
	}
	put_u8(w, 0);
}

static void put_head(struct writer *w, const struct dns_query *q, enum dns_rcode rcode, bool cut,
	bool answer, bool authority)
{
	unsigned flags = FLAG_QR | FLAG_RA | (unsigned)q->opcode << 11 | ((unsigned)rcode & 15u);

	flags |= q->recursion ? FLAG_RD : 0;
	flags |= q->unchecked ? FLAG_CD : 0;
	flags |= cut ? FLAG_TC : 0;
	put_u16(w, q->id);
	put_u16(w, flags);
	put_u16(w, q->wire_len ? 1 : 0);
	put_u16(w, answer);
	put_u16(w, authority);
	put_u16(w, q->edns);
	if (!q->wire_len)
		return;
	put_bytes(w, q->wire, q->wire_len);
	put_u16(w, q->type);
	put_u16(w, q->class);
}

/* The record's owner is the question's name, by a pointer to where put_head() placed it. */
static void put_record(struct writer *w, const struct dns_answer *a)
{
	size_t length_at, begin;
	unsigned length;

	put_u16(w, 0xc000u | HEADER_B);
	put_u16(w, a->type);
	put_u16(w, DNS_CLASS_IN);
	put_u32(w, a->ttl_s);
	length_at = w->at;
	put_u16(w, 0);
	begin = w->at;
	if (a->type == DNS_PTR)
		put_name(w, a->name);
	else
		put_bytes(w, a->addr.b, a->type == DNS_AAAA ? 16 : 4);
	if (w->full)
		return;
	length = (unsigned)(w->at - begin);
	w->p[length_at] = (uint8_t)(length >> 8);
	w->p[length_at + 1] = (uint8_t)length;
}

/*
 * Only its last number counts: for how long a resolver inside may remember that there is no such
 * name.
 */
static void put_soa(struct writer *w)
{
	put_u8(w, 0); /* the root: above every name */
	put_u16(w, TYPE_SOA);
	put_u16(w, DNS_CLASS_IN);
	put_u32(w, NEGATIVE_TTL_S);
	put_u16(w, 1 + 1 + 5 * 4);
	put_u8(w, 0);
	put_u8(w, 0);
	put_u32(w, 1);
	put_u32(w, 3600);
	put_u32(w, 600);
	put_u32(w, 86400);
	put_u32(w, NEGATIVE_TTL_S);
}

static void put_opt(struct writer *w, const struct dns_query *q, enum dns_rcode rcode)
{
	put_u8(w, 0);
	put_u16(w, TYPE_OPT);
	put_u16(w, DNS_ANSWER_MAX_B);
	put_u8(w, (unsigned)rcode >> 4);
	put_u8(w, 0);
	put_u16(w, q->dnssec_ok ? EDNS_DO : 0);
	put_u16(w, 0);
}

size_t dns_answer_write(uint8_t out[DNS_ANSWER_MAX_B], const struct dns_query *q,
	const struct dns_answer *a, size_t limit_b)
{
	struct writer w = {.p = out, .n = MIN_OF(limit_b, (size_t)DNS_ANSWER_MAX_B)};
	bool soa = a->rcode == DNS_NXDOMAIN;

	put_head(&w, q, a->rcode, false, a->type != 0, soa);
	if (a->type)
		put_record(&w, a);
	if (soa)
		put_soa(&w);
	if (q->edns)
		put_opt(&w, q, a->rcode);
	if (!w.full)
		return w.at;
	w = (struct writer){.p = out, .n = w.n};
	put_head(&w, q, a->rcode, true, false, false);
	if (q->edns)
		put_opt(&w, q, a->rcode);
	return w.full ? 0 : w.at;
}

size_t dns_udp_limit(const struct dns_query *q)
{
	return MIN_OF((size_t)q->payload_b, (size_t)DNS_ANSWER_MAX_B);
}

/* ---- reverse names ---- */

static const char v4_tree[] = ".in-addr.arpa";
static const char v6_tree[] = ".ip6.arpa";

bool dns_is_reverse(const char *name)
{
	return str_ends(name, v4_tree) || str_ends(name, v6_tree) || str_eq(name, &v4_tree[1]) ||
	       str_eq(name, &v6_tree[1]);
}

/* "4.3.2.1": the last byte first, in the one spelling a resolver writes. */
static bool reverse_v4(struct net_addr *ret, const char *s)
{
	struct net_addr a = {0};

	for (int i = 3; i >= 0; i--) {
		size_t digits = strspn(s, "0123456789");
		unsigned v = 0;

		if (!digits || digits > 3 || (digits > 1 && *s == '0'))
			return false;
		for (size_t k = 0; k < digits; k++)
			v = v * 10u + (unsigned)(s[k] - '0');
		s += digits;
		if (v > 255 || *s != '.')
			return false;
		s++;
		a.b[i] = (uint8_t)v;
	}
	if (!str_eq(s, &v4_tree[1]))
		return false;
	*ret = a;
	return true;
}

static bool reverse_v6(struct net_addr *ret, const char *s)
{
	static const char hex[] = "0123456789abcdef";
	struct net_addr a = {.v6 = true};

	for (int i = 31; i >= 0; i--) {
		const char *digit = *s ? strchr(hex, *s) : NULL;

		if (!digit || s[1] != '.')
			return false;
		a.b[i / 2] |= (uint8_t)((digit - hex) << (i % 2 ? 0 : 4));
		s += 2;
	}
	if (!str_eq(s, &v6_tree[1]))
		return false;
	*ret = a;
	return true;
}

bool dns_reverse(struct net_addr *ret, const char *name)
{
	return str_ends(name, v4_tree)   ? reverse_v4(ret, name)
	       : str_ends(name, v6_tree) ? reverse_v6(ret, name)
					 : false;
}

const char *dns_type_name(uint16_t type)
{
	static const struct {
		uint16_t type;
		const char *name;
	} known[] = {{DNS_A, "A"}, {2, "NS"}, {5, "CNAME"}, {TYPE_SOA, "SOA"}, {DNS_PTR, "PTR"},
		{15, "MX"}, {16, "TXT"}, {DNS_AAAA, "AAAA"}, {33, "SRV"}, {35, "NAPTR"}, {43, "DS"},
		{48, "DNSKEY"}, {64, "SVCB"}, {65, "HTTPS"}, {DNS_IXFR, "IXFR"}, {DNS_AXFR, "AXFR"},
		{255, "ANY"}, {257, "CAA"}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].type == type)
			return known[i].name;
	return "other";
}
