/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes: the signed bytes exactly, one form written, every permitted form read, nothing else. */
#include "test.h"

#include <stdint.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "ledger/chain/dsse.h"

/* Seed 01 02 … 20; signature computed by another implementation of ed25519. */
static const uint8_t public[32] = {0x79, 0xb5, 0x56, 0x2e, 0x8f, 0xe6, 0x54, 0xf9, 0x40, 0x78, 0xb1,
	0x12, 0xe8, 0xa9, 0x8b, 0xa7, 0x90, 0x1f, 0x85, 0x3a, 0xe6, 0x95, 0xbe, 0xd7, 0xe0, 0xe3,
	0x91, 0x0b, 0xad, 0x04, 0x96, 0x64};
#define TYPE "http://example.com/HelloWorld"
#define BODY "hello world"
#define SIG                                                                                        \
	"gsW+/22ZLLBkSDnEUODXvAxct/LnTGmqZZeEK/UdnwLgH2x7+2uXk07zvthSIA2e5+ccUDOx7xvLKregwslcCQ=="

static struct ledger_key key(void)
{
	struct ledger_key k;

	for (size_t i = 0; i < sizeof(k.seed); i++)
		k.seed[i] = (uint8_t)(i + 1);
	memcpy(k.public, public, sizeof(public));
	digest_sha256(&k.id, public, sizeof(public));
	return k;
}

TEST(pae)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	dsse_pae(TYPE, BODY, strlen(BODY), &b);
	CHECK_STR(buf_str(&b), "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
	buf_reset(&b);
	dsse_pae("", "", 0, &b);
	CHECK_STR(buf_str(&b), "DSSEv1 0  0 ");
	buf_reset(&b);
	dsse_pae("\xc3\xa9", "\0\n", 2, &b); /* lengths are bytes */
	CHECK_INT(b.len, 16);
	CHECK(memcmp(b.data, "DSSEv1 2 \xc3\xa9 2 \0\n", 16) == 0);
}

TEST(written_form)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	cleanup_buf struct buf want = BUF_INIT(4096);
	cleanup_dsse struct dsse d = {0};
	struct ledger_key k = key();
	struct err e = ERR_INIT;

	dsse_write(&k, TYPE, BODY, strlen(BODY), &b);
	buf_addf(&want,
		"{\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE
		"\",\"signatures\":[{\"keyid\":\"%s\",\"sig\":\"" SIG "\"}]}\n",
		k.id.hex);
	CHECK_STR(buf_str(&b), buf_str(&want));
	CHECK_INT(dsse_parse(&d, b.data, b.len, &e), 0);
	CHECK_STR(d.type, TYPE);
	CHECK_STR(buf_str(&d.payload), BODY);
	CHECK_STR(d.signatures[0].keyid, k.id.hex);
	CHECK(dsse_check(&d, public));
}

static int parse(const char *text, bool *ret_good)
{
	cleanup_dsse struct dsse d = {0};
	struct err e = ERR_INIT;
	int r = dsse_parse(&d, text, strlen(text), &e);

	if (r == 0 && ret_good)
		*ret_good = dsse_check(&d, public);
	if (r < 0 && !e.msg[0])
		return 1;
	return r;
}

#define ENVELOPE(payload, sigs)                                                                    \
	"{\"payload\":\"" payload "\",\"payloadType\":\"" TYPE "\",\"signatures\":[" sigs "]}"
#define SIGNED "{\"keyid\":\"x\",\"sig\":\"" SIG "\"}"
#define OTHER                                                                                      \
	"{\"sig\":"                                                                                \
	"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"  \
	"A==\"}"

TEST(every_permitted_form)
{
	bool good = false;

	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGQ=", SIGNED), &good), 0);
	CHECK(good);
	good = false;
	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGQ", SIGNED), &good), 0);
	CHECK(good);
	good = false;
	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGQ=",
				"{\"sig\":\"gsW-_22ZLLBkSDnEUODXvAxct_LnTGmqZZeEK_UdnwLgH2x7-"
				"2uXk07zvthSIA2e5-ccUDOx7xvLKregwslcCQ\"}"),
			  &good),
		0);
	CHECK(good);
	/* One of several is enough; further members are nobody's business. */
	good = false;
	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGQ=", OTHER "," SIGNED), &good), 0);
	CHECK(good);
	CHECK_INT(parse("{\"x\":[1],\"payload\":\"\",\"payloadType\":\"\",\"signatures\":[" SIGNED
			"]}",
			  &good),
		0);
	CHECK(!good);
}

TEST(changed)
{
	bool good = true;

	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGR=", SIGNED), &good), -22); /* bits left over */
	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGU=", SIGNED), &good), 0);
	CHECK(!good);
	good = true;
	CHECK_INT(parse("{\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"other\","
			"\"signatures\":[" SIGNED "]}",
			  &good),
		0);
	CHECK(!good);
	good = true;
	CHECK_INT(parse(ENVELOPE("aGVsbG8gd29ybGQ=", OTHER), &good), 0);
	CHECK(!good);
}

TEST(bad_forms)
{
	static const char *const bad[] = {"", "{}", "[]", "null", "{\"payload\":\"\"}",
		ENVELOPE("aGVsbG8gd29ybGQ=", ""), ENVELOPE("a", SIGNED), ENVELOPE("a+b_", SIGNED),
		ENVELOPE("aGVs bG8=", SIGNED), ENVELOPE("====", SIGNED),
		ENVELOPE("aGVsbG8gd29ybGQ=", "{}"), ENVELOPE("aGVsbG8gd29ybGQ=", "1"),
		ENVELOPE("aGVsbG8gd29ybGQ=", "{\"sig\":\"AAAA\"}"),
		ENVELOPE("aGVsbG8gd29ybGQ=", "{\"keyid\":1,\"sig\":\"" SIG "\"}"),
		ENVELOPE("aGVsbG8gd29ybGQ=", SIGNED "," SIGNED "," SIGNED "," SIGNED "," SIGNED
						    "," SIGNED "," SIGNED "," SIGNED "," SIGNED),
		ENVELOPE("aGVsbG8gd29ybGQ=", SIGNED) "x",
		"{\"payload\":\"\",\"payload\":\"\",\"payloadType\":\"\",\"signatures\":[" SIGNED
		"]}",
		"{\"payload\":1,\"payloadType\":\"\",\"signatures\":[" SIGNED "]}"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i], NULL) >= 0) {
			test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
			return;
		}
}
