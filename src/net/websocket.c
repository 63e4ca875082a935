/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket handshake proof and frame structure: see websocket.h. */
#include "net/websocket.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/cleanup.h"

#define WS_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, 1.3 */
#define WS_KEY_LEN 24

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10
};

bool ws_accept(char ret[WS_ACCEPT_LEN + 1], const char *key)
{
	unsigned char bytes[WS_KEY_LEN / 4 * 3], sum[EVP_MAX_MD_SIZE];
	char text[WS_KEY_LEN + sizeof(WS_GUID)];
	unsigned n = 0;

	/* 16 bytes are 22 characters and "==". */
	if (strlen(key) != WS_KEY_LEN || key[21] == '=' || key[22] != '=' || key[23] != '=')
		return false;
	if (EVP_DecodeBlock(bytes, (const unsigned char *)key, WS_KEY_LEN) < 0)
		return false;
	snprintf(text, sizeof(text), "%s%s", key, WS_GUID);
	if (EVP_Digest(text, strlen(text), sum, &n, EVP_sha1(), NULL) != 1)
		return false;
	EVP_EncodeBlock((unsigned char *)ret, sum, (int)n);
	return true;
}

/* How long the header is, as far as its first two bytes tell. */
static size_t head_len(const uint8_t *h)
{
	size_t n = 2;

	if ((h[1] & 0x7f) == 126)
		n += 2;
	else if ((h[1] & 0x7f) == 127)
		n += 8;
	return h[1] & 0x80 ? n + 4 : n;
}

/* A complete header is in w->head. */
static const char *frame_begin(struct ws_check *w)
{
	uint8_t opcode = w->head[0] & 0x0f, len = w->head[1] & 0x7f;
	bool fin = w->head[0] & 0x80, control = opcode >= WS_CLOSE;
	size_t bytes = len == 126 ? 2 : len == 127 ? 8 : 0;
	uint64_t n = bytes ? 0 : len;

	for (size_t i = 0; i < bytes; i++)
		n = n << 8 | w->head[2 + i];
	if (w->head[0] & 0x70)
		return "a frame has reserved bits set, and no extension was agreed on";
	if (!!(w->head[1] & 0x80) != w->masked)
		return w->masked ? "a frame from the client is not masked"
				 : "a frame from the server is masked";
	if (opcode > WS_PONG || (opcode > WS_BINARY && opcode < WS_CLOSE))
		return "a frame has an unknown opcode";
	if (control && (!fin || n > 125))
		return "a control frame is fragmented or too long";
	if ((bytes == 2 && n < 126) || (bytes == 8 && n <= 0xffff))
		return "a frame's length is not in its shortest form";
	if (n > WS_FRAME_MAX_B)
		return "a frame is too long";
	if (!control && (opcode == WS_CONTINUATION) != w->in_message)
		return "a fragmented message is out of order";
	if (opcode == WS_CLOSE && n == 1)
		return "a close frame has half a code";
	if (!control)
		w->in_message = !fin;
	if (opcode == WS_CLOSE)
		w->closed = true;
	w->left = n;
	return NULL;
}

const char *ws_check(struct ws_check *w, const void *p, size_t n)
{
	const uint8_t *b = p;
	const char *wrong;
	size_t i = 0;

	while (i < n) {
		if (w->left) {
			size_t skip = w->left < n - i ? (size_t)w->left : n - i;

			w->left -= skip;
			i += skip;
			continue;
		}
		if (w->closed && !w->head_n)
			return "something follows the close frame";
		w->head[w->head_n++] = b[i++];
		if (w->head_n < 2 || w->head_n < head_len(w->head))
			continue;
		w->head_n = 0;
		wrong = frame_begin(w);
		if (wrong)
			return wrong;
	}
	return NULL;
}
