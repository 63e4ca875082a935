/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket, as far as a relay must understand it: the handshake's proof, and the structure of
 * frames, so that what was let through as a WebSocket cannot become a tunnel for something else.
 * Pure.
 */
#ifndef CROFT_NET_WEBSOCKET_H
#define CROFT_NET_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_FRAME_MAX_B (64ull << 20)
#define WS_ACCEPT_LEN 28 /* base64 of SHA-1 */

/*
 * What a server must answer to this sec-websocket-key; false when the key is not 16 bytes in
 * base64.
 */
bool ws_accept(char ret[WS_ACCEPT_LEN + 1], const char *key);

struct ws_check {    /* one direction; zero-initialised but for masked */
	bool masked; /* frames must be: from the client */
	uint8_t head[14];
	uint8_t head_n;
	uint64_t left;   /* of the current frame's payload */
	bool in_message; /* a fragmented one is open */
	bool closed;     /* a close frame came; nothing may follow */
};
/* NULL, or what is wrong with the stream. */
const char *ws_check(struct ws_check *w, const void *p, size_t n);

#endif
