/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages: what is understood, what is refused and how, and what an answer looks like. */
#include "dns_world.h"

/* -1: not answered, else the code; a whole query follows the header given. */
static int code_of(unsigned flags, unsigned qd, unsigned an, unsigned ns, unsigned ar)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	struct answer a;

	world_init(&w);
	put_head(&q, flags, qd, an, ns, ar);
	put_question(&q, "api.example.com", 1, 1);
	a = reply(&w, &q, true);
	return a.n ? (int)a.rcode : -1;
}

TEST(headers)
{
	CHECK_INT(code_of(0x0100, 1, 0, 0, 0), 0); /* control */
	CHECK_INT(code_of(0x0000, 1, 0, 0, 0), 0);
	CHECK_INT(code_of(0x8100, 1, 0, 0, 0), -1); /* an answer gets none */
	CHECK_INT(code_of(0x0900, 1, 0, 0, 0), 4);  /* inverse query */
	CHECK_INT(code_of(0x2100, 1, 0, 0, 0), 4);  /* notify */
	CHECK_INT(code_of(0x2900, 1, 0, 0, 0), 4);  /* update */
	CHECK_INT(code_of(0x0300, 1, 0, 0, 0), 1);  /* TC */
	CHECK_INT(code_of(0x0100, 0, 0, 0, 0), 1);
	CHECK_INT(code_of(0x0100, 2, 0, 0, 0), 1);
	CHECK_INT(code_of(0x0100, 0xffff, 0, 0, 0), 1);
	CHECK_INT(code_of(0x0100, 1, 1, 0, 0), 1);
	CHECK_INT(code_of(0x0100, 1, 0, 1, 0), 1);
	CHECK_INT(code_of(0x0100, 1, 0, 0, 1), 1); /* announced, not there */
	CHECK_INT(code_of(0x0100, 1, 0, 0, 2), 1);
}

TEST(every_prefix_and_every_excess_is_refused)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	struct answer a;

	world_init(&w);
	put_query(&q, "api.example.com", 1);
	for (size_t n = 0; n < q.len; n++) {
		struct buf cut = q;

		cut.len = n;
		a = reply(&w, &cut, true);
		CHECK_INT(a.n == 0, n < 12);
		CHECK_INT(a.rcode, n < 12 ? 0 : 1);
		CHECK_INT(a.qd + a.an + a.ns + a.ar, 0);
	}
	buf_addc(&q, 0);
	a = reply(&w, &q, true);
	CHECK_INT(a.rcode, 1);
}

static unsigned code_of_name(const void *name, size_t n)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);

	world_init(&w);
	put_head(&q, 0x0100, 1, 0, 0, 0);
	buf_add(&q, name, n);
	put_u16(&q, 1);
	put_u16(&q, 1);
	return reply(&w, &q, true).rcode;
}

TEST(wire_names)
{
	char longest[256];

	CHECK_INT(code_of_name("\3api\7example\3com", 17), 0); /* control */
	CHECK_INT(code_of_name("\3api\xc0\x0c", 6), 1);        /* a pointer, to itself */
	CHECK_INT(code_of_name("\xc0\x0c", 2), 1);
	CHECK_INT(code_of_name("\x43"
			       "api",
			  5),
		1);
	CHECK_INT(code_of_name("\x80", 2), 1);
	/* Read as lengths these would find as many bytes, and the end of the name behind them. */
	memset(longest, 'a', sizeof(longest));
	longest[0] = 63;
	longest[64] = 0;
	CHECK_INT(code_of_name(longest, 65), 3); /* control */
	longest[0] = 64;
	longest[65] = 0;
	CHECK_INT(code_of_name(longest, 66), 1);
	longest[0] = (char)0xc0;
	longest[65] = 'a';
	longest[193] = 0;
	CHECK_INT(code_of_name(longest, 194), 1);
	/* 255 bytes on the wire are the most, whatever is in them. */
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = i % 64 ? 'a' : 63;
	longest[192] = 61;
	longest[254] = 0;
	CHECK_INT(code_of_name(longest, 255), 0); /* refused, by an address that answers 403 */
	longest[192] = 62;
	longest[254] = 'a';
	longest[255] = 0;
	CHECK_INT(code_of_name(longest, 256), 1);
}

TEST(transfers_and_other_classes_are_not_implemented)
{
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	a = ask(&w, "api.example.com", 252);
	CHECK_INT(a.rcode, 4);
	a = ask(&w, "api.example.com", 251);
	CHECK_INT(a.rcode, 4);
	cleanup_buf struct buf q = BUF_INIT(4096);

	put_head(&q, 0x0100, 1, 0, 0, 0);
	put_question(&q, "version.bind", 16, 3);
	a = reply(&w, &q, true);
	CHECK_INT(a.rcode, 4);
	CHECK_INT(told_n, 0);
}

/* The code with the part that EDNS carries; -1 when the answer's own OPT is not as it must be. */
static int edns_code(struct world *w, const struct buf *q)
{
	struct answer a = reply(w, q, true);

	if (a.ar != 1 || a.end + 11 != a.n || a.p[a.end] || at_u16(&a, a.end + 1) != 41 ||
		at_u16(&a, a.end + 3) != 1232 || a.p[a.end + 6] || at_u16(&a, a.end + 9))
		return -1;
	return a.p[a.end + 5] << 4 | (int)a.rcode;
}

TEST(edns)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	size_t begin;

	world_init(&w);
	put_head(&q, 0x0120, 1, 0, 0, 1);
	put_question(&q, "api.example.com", 1, 1);
	begin = q.len;
	put_opt(&q, 4096, 0);
	CHECK_INT(edns_code(&w, &q), 0);
	q.data[begin + 6] = 1;
	CHECK_INT(edns_code(&w, &q), 16); /* a version there is not */
	q.data[begin + 6] = 0;
	q.data[begin + 2] = 40;
	CHECK_INT(reply(&w, &q, true).rcode, 1); /* not an OPT */
	q.data[begin + 2] = 41;
	q.data[q.len - 1] = 4; /* options that are not there, then there, then too long */
	CHECK_INT(reply(&w, &q, true).rcode, 1);
	buf_add(&q, "\0\x0a\0\0", 4);
	CHECK_INT(edns_code(&w, &q), 0);
	q.data[q.len - 1] = 1;
	CHECK_INT(reply(&w, &q, true).rcode, 1);
	buf_reset(&q);
	put_head(&q, 0x0120, 1, 0, 0, 1);
	put_question(&q, "evil.example", 1, 1);
	put_opt(&q, 0, 0); /* less than everybody must take: as if it said 512 */
	CHECK_INT(edns_code(&w, &q), 0);
}

TEST(what_is_too_large_is_cut)
{
	struct dns_query q = {.id = 7, .wire_len = 1, .type = DNS_PTR, .class = 1};
	struct dns_answer a = {.type = DNS_PTR, .name = "a.rather.long.name.example", .ttl_s = 60};
	uint8_t out[DNS_ANSWER_MAX_B];

	CHECK_INT(dns_answer_write(out, &q, &a, 512), 12 + 5 + 12 + 28);
	CHECK_INT(out[2] & 2, 0);
	CHECK_INT(dns_answer_write(out, &q, &a, 12 + 5 + 12 + 27), 12 + 5);
	CHECK_INT(out[2] & 2, 2);
	CHECK_INT(out[7], 0);
	q.payload_b = 512;
	CHECK_INT(dns_udp_limit(&q), 512);
	q.payload_b = 65535;
	CHECK_INT(dns_udp_limit(&q), DNS_ANSWER_MAX_B);
}
