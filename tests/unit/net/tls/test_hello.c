/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ClientHellos: whole, in pieces, in many records, malformed; what is said about the server's name.
 */
#include "test.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/tls/hello.h"

#define MESSAGE_MAX_B (64u << 10)

/* ---- writing one ---- */

static void put_number(struct buf *b, unsigned v, unsigned bytes)
{
	while (bytes--)
		buf_addc(b, (char)(v >> 8 * bytes));
}

static void put_vector(struct buf *b, unsigned length_b, const void *p, size_t n)
{
	put_number(b, (unsigned)n, length_b);
	buf_add(b, p, n);
}

static void put_extension(struct buf *b, unsigned type, const void *p, size_t n)
{
	put_number(b, type, 2);
	put_vector(b, 2, p, n);
}

static void put_sni_n(struct buf *b, const void *name, size_t n)
{
	cleanup_buf struct buf entry = BUF_INIT(MESSAGE_MAX_B), list = BUF_INIT(MESSAGE_MAX_B);

	buf_addc(&entry, 0);
	put_vector(&entry, 2, name, n);
	put_vector(&list, 2, buf_str(&entry), entry.len);
	put_extension(b, 0, buf_str(&list), list.len);
}

static void put_sni(struct buf *b, const char *name)
{
	put_sni_n(b, name, strlen(name));
}

/* The body of the message around these extensions. */
static void put_body(struct buf *b, const struct buf *extensions)
{
	put_number(b, 0x0303, 2);
	for (int i = 0; i < 32; i++)
		buf_addc(b, (char)i);
	put_vector(b, 1, "0123456789abcdef0123456789abcdef", 32);
	put_vector(b, 2, "\x0a\x0a\x13\x01\x13\x02", 6);
	put_vector(b, 1, "", 1);
	put_vector(b, 2, buf_str(extensions), extensions->len);
}

static void put_message(struct buf *b, const struct buf *body)
{
	buf_addc(b, 1);
	put_vector(b, 3, buf_str(body), body->len);
}

static void put_records(struct buf *b, const struct buf *message, size_t record_b)
{
	for (size_t at = 0; at < message->len; at += record_b) {
		buf_addc(b, 22);
		put_number(b, 0x0301, 2);
		put_vector(b, 2, &message->data[at], MIN_OF(record_b, message->len - at));
	}
}

static void put_hello(struct buf *b, const struct buf *extensions, size_t record_b)
{
	cleanup_buf struct buf body = BUF_INIT(MESSAGE_MAX_B), message = BUF_INIT(MESSAGE_MAX_B);

	put_body(&body, extensions);
	put_message(&message, &body);
	put_records(b, &message, record_b);
}

/* An exact copy, so that a sanitizer sees a read past the end. */
static enum hello_result parse(struct hello *h, const void *p, size_t n)
{
	cleanup_free unsigned char *copy = malloc(n ? n : 1);

	memset(h, 0x5a, sizeof(*h));
	if (!copy)
		abort();
	if (n)
		memcpy(copy, p, n);
	return hello_parse(h, copy, n);
}

static enum hello_result parse_with(struct hello *h, const struct buf *extensions)
{
	cleanup_buf struct buf b = BUF_INIT(MESSAGE_MAX_B);

	put_hello(&b, extensions, 16384);
	return parse(h, b.data, b.len);
}

static enum hello_result parse_body(const struct buf *body)
{
	cleanup_buf struct buf b = BUF_INIT(MESSAGE_MAX_B), message = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_message(&message, body);
	put_records(&b, &message, 16384);
	return parse(&h, b.data, b.len);
}

static void put_usual(struct buf *x)
{
	put_extension(x, 0x3a3a, "", 0); /* GREASE */
	put_sni(x, "api.Example.com");
	put_extension(x, 16, "\0\x0c\x02h2\x08http/1.1", 14);
	put_extension(x, 43, "\x02\x03\x04", 3);
	put_extension(x, 0xaaaa, "x", 1);
}

/* ---- what is read ---- */

TEST(a_usual_hello)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_usual(&x);
	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK_STR(h.sni, "api.example.com");
	CHECK(!h.sni_bad && !h.ech && h.alpn_h2 && h.alpn_h1);
}

TEST(no_extensions_means_no_name)
{
	cleanup_buf struct buf body = BUF_INIT(MESSAGE_MAX_B), x = BUF_INIT(64);
	struct hello h;

	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK(!h.sni[0] && !h.sni_bad && !h.ech && !h.alpn_h2 && !h.alpn_h1);
	put_body(&body, &x);
	body.len -= 2; /* not even their length */
	CHECK_INT(parse_body(&body), HELLO_OK);
}

TEST(alpn_is_told_apart)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_extension(&x, 16, "\0\x0f\x08http/1.0\x02h3\x02hq", 17);
	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK(!h.alpn_h2 && !h.alpn_h1);
	buf_reset(&x);
	put_extension(&x, 16, "\0\x03\x02h2", 5);
	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK(h.alpn_h2 && !h.alpn_h1);
}

TEST(n12_any_encrypted_hello_is_seen)
{
	static const unsigned types[] = {0xfe0d, 0xfe08, 0xffce};
	struct hello h;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);

		put_usual(&x);
		put_extension(&x, types[i], "\0\0\x01\0\x01\x20", 6);
		CHECK_INT(parse_with(&h, &x), HELLO_OK);
		CHECK(h.ech || h.ech_old);
	}
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);

	put_extension(&x, 0xfe0e, "", 0); /* control: not every unknown one */
	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK(!h.ech && !h.ech_old);
}

/* ---- names that are not taken ---- */

static bool sni_refused(const void *name, size_t n)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_sni_n(&x, name, n);
	return parse_with(&h, &x) == HELLO_OK && h.sni_bad && !h.sni[0];
}

TEST(n11_names_that_are_not_canonical)
{
	static const char *const bad[] = {"a b", "b\303\274cher.example", "a..b", ".a", "a.b.",
		"127.0.0.1", "0x7f.1", "[::1]", "::1", "a%b", "a/b", "*.example.com", "a:443",
		"user@a.example"};
	char longest[255];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(sni_refused(bad[i], strlen(bad[i])));
	CHECK(sni_refused("evil.example\0.api.example.com", 29));
	CHECK(sni_refused("", 0));
	memset(longest, 'a', sizeof(longest));
	CHECK(sni_refused(longest, 254));
	CHECK(sni_refused(longest, 64)); /* one label */
	CHECK(!sni_refused("a.b", 3));   /* control */
}

static bool server_name_refused(const void *body, size_t n)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_extension(&x, 0, body, n);
	return parse_with(&h, &x) == HELLO_OK && h.sni_bad && !h.sni[0];
}

TEST(n12_more_than_one_name_or_another_kind)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	CHECK(!server_name_refused("\0\6\0\0\3a.b", 8)); /* control */
	CHECK(server_name_refused("\0\014\0\0\3a.b\0\0\3a.c", 14));
	CHECK(server_name_refused("\0\6\1\0\3a.b", 8));
	CHECK(server_name_refused("\0\6\0\0\3a.bX", 9));
	CHECK(server_name_refused("\0\7\0\0\3a.bX", 9));
	CHECK(server_name_refused("\0\6\0\0\4a.b", 8));
	CHECK(server_name_refused("\0\5\0\0\3a.b", 8));
	CHECK(server_name_refused("", 0));
	CHECK(server_name_refused("\0\0", 2));
	put_sni(&x, "a.example");
	put_sni(&x, "a.example");
	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK(h.sni_bad && !h.sni[0]);
	buf_reset(&x);
	put_extension(&x, 0, "", 0); /* the second does not heal the first, nor the other way */
	put_sni(&x, "a.example");
	CHECK_INT(parse_with(&h, &x), HELLO_OK);
	CHECK(h.sni_bad && !h.sni[0]);
}

/* ---- pieces ---- */

TEST(n12_every_prefix_waits_for_more)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B), b = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_usual(&x);
	put_hello(&b, &x, 50);
	for (size_t n = 0; n < b.len; n++) {
		CHECK_INT(parse(&h, b.data, n), HELLO_MORE);
		CHECK(!h.sni[0]);
	}
	CHECK_INT(parse(&h, b.data, b.len), HELLO_OK);
	buf_adds(&b, "\x14\x03\x03"); /* what follows is not looked at */
	CHECK_INT(parse(&h, b.data, b.len), HELLO_OK);
	CHECK_STR(h.sni, "api.example.com");
}

TEST(n12_records_of_any_size)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_usual(&x);
	for (size_t record_b = 1; record_b < 300; record_b++) {
		cleanup_buf struct buf b = BUF_INIT(MESSAGE_MAX_B);

		put_hello(&b, &x, record_b);
		CHECK_INT(parse(&h, b.data, b.len), HELLO_OK);
		CHECK_STR(h.sni, "api.example.com");
	}
}

TEST(n12_length_is_bounded)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B), b = BUF_INIT(MESSAGE_MAX_B);
	cleanup_free char *pad = calloc(1, 20000);
	struct hello h;

	put_extension(&x, 21, pad, 16000);
	put_sni(&x, "a.example");
	put_hello(&b, &x, 16384);
	CHECK_INT(parse(&h, b.data, b.len), HELLO_OK); /* control: large, and allowed */
	CHECK_STR(h.sni, "a.example");
	buf_reset(&b);
	put_hello(&b, &x, 16); /* the same in so many records that they are over the bound */
	CHECK(b.len > HELLO_MAX_B);
	CHECK_INT(parse(&h, b.data, HELLO_MAX_B - 1), HELLO_MORE);
	CHECK_INT(parse(&h, b.data, HELLO_MAX_B), HELLO_BAD);
	CHECK_INT(parse(&h, b.data, b.len), HELLO_BAD);
	/* Announced too long: refused before it comes. */
	CHECK_INT(parse(&h, "\x16\x03\x01\x40\x00\x01\x00\xff\xff", 9), HELLO_BAD);
	CHECK_INT(parse(&h, "\x16\x03\x01\x40\x00\x01\x00\x40\x00", 9), HELLO_MORE);
	CHECK_INT(parse(&h, "\x16\x03\x01\x40\x01", 5), HELLO_BAD);
}

TEST(n12_nothing_else_in_between)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B), body = BUF_INIT(MESSAGE_MAX_B),
			       message = BUF_INIT(MESSAGE_MAX_B), b = BUF_INIT(MESSAGE_MAX_B);
	struct hello h;

	put_usual(&x);
	put_hello(&b, &x, 100);
	b.data[105] = 20; /* a second record of another kind */
	CHECK_INT(parse(&h, b.data, b.len), HELLO_BAD);
	b.data[105] = 22;
	CHECK_INT(parse(&h, b.data, b.len), HELLO_OK); /* control */
	buf_reset(&b);
	put_body(&body, &x);
	put_message(&message, &body);
	put_message(&message, &body); /* a second message in the same record */
	put_records(&b, &message, 16384);
	CHECK_INT(parse(&h, b.data, b.len), HELLO_BAD);
	CHECK_INT(parse(&h, b.data, 9), HELLO_BAD);
	CHECK_INT(parse(&h, "\x16\x03\x01\0\0\x16\x03\x01", 8), HELLO_BAD); /* an empty record */
}

TEST(n14_what_is_not_tls)
{
	static const char *const other[] = {"GET / HTTP/1.1\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
		"PRI * HTTP/2.0\r\n", "\x80\x2e\x01\x03\x01", "\x17\x03\x03", "\x15\x03\x01",
		"\x16\x02", "\x16\x04"};
	struct hello h;

	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		CHECK_INT(parse(&h, other[i], strlen(other[i])), HELLO_NOT_TLS);
	CHECK_INT(parse(&h, "", 0), HELLO_MORE);
	CHECK_INT(parse(&h, "\x16", 1), HELLO_MORE);
	CHECK_INT(parse(&h, "\x16\x03", 2), HELLO_MORE);
	CHECK_INT(parse(&h, "\x16\x03\x01\0\x10\x02", 6), HELLO_BAD); /* a ServerHello */
	CHECK_INT(parse(&h, "\x16\x03\x09\0\x10\x01", 6), HELLO_BAD);
}

TEST(malformed_bodies)
{
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B), body = BUF_INIT(MESSAGE_MAX_B);

	put_usual(&x);
	put_body(&body, &x);
	CHECK_INT(parse_body(&body), HELLO_OK); /* control */
	for (size_t n = 0; n < body.len; n++) {
		struct buf cut = body;

		cut.len = n;
		/* Cut before the extensions it is a whole hello without them. */
		CHECK_INT(parse_body(&cut), n == 2 + 32 + 33 + 8 + 2 ? HELLO_OK : HELLO_BAD);
	}
	body.data[34] = 33; /* session id too long */
	CHECK_INT(parse_body(&body), HELLO_BAD);
	body.data[34] = 32;
	body.data[68] = 5; /* half a cipher suite */
	CHECK_INT(parse_body(&body), HELLO_BAD);
	body.data[68] = 6;
	body.data[0] = 2;
	CHECK_INT(parse_body(&body), HELLO_BAD);
	body.data[0] = 3;
	buf_addc(&body, 0); /* left over */
	CHECK_INT(parse_body(&body), HELLO_BAD);
}

TEST(malformed_alpn)
{
	static const struct {
		const char *p;
		size_t n;
	} bad[] = {{"", 0}, {"\0\0", 2}, {"\0\3\2h2x", 6}, {"\0\4\2h2", 5}, {"\0\4\2h2\0", 6},
		{"\0\3\3h2", 5}};
	struct hello h;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);

		put_extension(&x, 16, bad[i].p, bad[i].n);
		CHECK_INT(parse_with(&h, &x), HELLO_BAD);
	}
	cleanup_buf struct buf x = BUF_INIT(MESSAGE_MAX_B);

	put_extension(&x, 16, "\0\3\2h2", 5);
	CHECK_INT(parse_with(&h, &x), HELLO_OK); /* control */
	put_extension(&x, 16, "\0\3\2h2", 5);
	CHECK_INT(parse_with(&h, &x), HELLO_BAD); /* twice */
}
