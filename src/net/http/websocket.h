/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket, as far as a relay must understand it: the handshake's proof, and the structure of
 * frames, so that what was let through as a WebSocket cannot become a tunnel for something else.
 * Pure.
 */
#ifndef CROFT_NET_HTTP_WEBSOCKET_H
#define CROFT_NET_HTTP_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_FRAME_MAX_B (64ull << 20)
#define WS_ACCEPT_LEN 28 /* base64 of SHA-1 */
#define WS_HEAD_MAX 14
#define WS_CONTROL_MAX_B 125u

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10
};

/*
 * What a server must answer to this sec-websocket-key; false when the key is not 16 bytes in
 * base64.
 */
bool ws_accept(char ret[WS_ACCEPT_LEN + 1], const char *key);

struct ws_check {    /* one direction; zero-initialised but for masked */
	bool masked; /* frames must be: from the client */
	uint8_t head[WS_HEAD_MAX];
	uint8_t head_n;
	uint64_t left;   /* of the current frame's payload */
	bool in_message; /* a fragmented one is open */
	bool closed;     /* a close frame came; nothing may follow */
	uint8_t opcode;  /* of the current frame */
	bool fin;
};
struct ws_piece { /* of a frame's payload */
	const uint8_t *p;
	size_t n;
	uint8_t opcode;
	bool end; /* of the frame */
	bool fin; /* which is the message's last */
};
/*
 * Reads some of p: a piece of a payload (also an empty one, where a frame has none), or part of a
 * header, and then nothing is in ret. Returns how much was read; 0 with *wrong set.
 */
size_t ws_next(
	struct ws_check *w, const void *p, size_t n, struct ws_piece *ret, const char **wrong);
/* An unmasked frame's header; returns its length. */
size_t ws_head(uint8_t out[WS_HEAD_MAX], bool fin, uint8_t opcode, uint64_t n);
/* NULL, or what is wrong with the stream. */
const char *ws_check(struct ws_check *w, const void *p, size_t n);

#endif
