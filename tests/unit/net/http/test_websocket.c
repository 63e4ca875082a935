/* SPDX-License-Identifier: Apache-2.0 */
/* net/websocket: the handshake's proof, and frames in whole and in pieces. */
#include "test.h"

#include "net/http/websocket.h"

#define FRAMES(text) text, sizeof(text) - 1

static const char *whole(bool masked, const char *p, size_t n)
{
	struct ws_check w = {.masked = masked};

	return ws_check(&w, p, n);
}

/* The same verdict however the bytes arrive. */
static bool in_pieces(bool masked, const char *p, size_t n)
{
	struct ws_check w = {.masked = masked};
	const char *wrong = NULL;

	for (size_t i = 0; i < n && !wrong; i++)
		wrong = ws_check(&w, p + i, 1);
	return !wrong == !whole(masked, p, n);
}

TEST(the_proof_is_that_of_the_standard)
{
	char proof[WS_ACCEPT_LEN + 1];

	CHECK(ws_accept(proof, "dGhlIHNhbXBsZSBub25jZQ=="));
	CHECK_STR(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	CHECK(!ws_accept(proof, "dGhlIHNhbXBsZSBub25jZQ="));
	CHECK(!ws_accept(proof, "dGhlIHNhbXBsZSBub25jZQAA"));
	CHECK(!ws_accept(proof, "!!!!IHNhbXBsZSBub25jZQ=="));
	CHECK(!ws_accept(proof, ""));
}

TEST(frames_that_are_good)
{
	CHECK(!whole(false, FRAMES("\x81\x02hi")));
	CHECK(!whole(true, FRAMES("\x81\x82maskhi\x89\x80mask")));
	CHECK(!whole(false, FRAMES("\x01\x01"
				   "a\x89\x00\x80\x01"
				   "b\x82\x00")));
	CHECK(!whole(false, FRAMES("\x88\x02\x03\xe8")));
	CHECK(in_pieces(true, FRAMES("\x81\x82maskhi\x89\x80mask")));
	CHECK(in_pieces(false, FRAMES("\x01\x01"
				      "a\x89\x00\x80\x01"
				      "b\x82\x00")));
}

TEST(frames_that_are_not)
{
	static const struct {
		bool masked;
		const char *p;
		size_t n;
	} bad[] = {
		{true, FRAMES("\x81\x02hi")},                    /* not masked */
		{false, FRAMES("\x81\x82maskhi")},               /* masked */
		{false, FRAMES("\xc1\x02hi")},                   /* RSV1: compressed */
		{false, FRAMES("\x83\x00")},                     /* opcode 3 */
		{false, FRAMES("\x8b\x00")},                     /* opcode 11 */
		{false, FRAMES("\x09\x00")},                     /* fragmented ping */
		{false, FRAMES("\x89\x7e\x00\x80")},             /* long ping */
		{false, FRAMES("\x82\x7e\x00\x7d")},             /* 125 in two bytes */
		{false, FRAMES("\x82\x7f\0\0\0\0\0\0\xff\xff")}, /* 65535 in eight */
		{false, FRAMES("\x82\x7f\x7f\0\0\0\0\0\0\0")},   /* too long */
		{false, FRAMES("\x80\x00")},                     /* continues nothing */
		{false, FRAMES("\x01\x01"
			       "a\x81\x01"
			       "b")},                /* a new message within one */
		{false, FRAMES("\x88\x01x")},        /* half a code */
		{false, FRAMES("\x88\x00\x81\x00")}, /* after the close */
		{true, FRAMES("SSH-2.0-OpenSSH")},
		{false, FRAMES("HTTP/1.1 200 OK\r\n")},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(whole(bad[i].masked, bad[i].p, bad[i].n));
		CHECK(in_pieces(bad[i].masked, bad[i].p, bad[i].n));
	}
}
