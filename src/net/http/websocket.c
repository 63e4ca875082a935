/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket handshake proof and frame structure: see websocket.h. */
#include "net/http/websocket.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/cleanup.h"

#define WS_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, 1.3 */
#define WS_KEY_LEN 24

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
	w->opcode = opcode;
	w->fin = fin;
	return NULL;
}

static void piece_set(struct ws_piece *ret, const struct ws_check *w, const uint8_t *p, size_t n)
{
	*ret = (struct ws_piece){
		.p = p, .n = n, .opcode = w->opcode, .end = w->left == 0, .fin = w->fin};
}

size_t ws_next(
	struct ws_check *w, const void *p, size_t n, struct ws_piece *ret, const char **wrong)
{
	const uint8_t *b = p;

	*ret = (struct ws_piece){0};
	*wrong = NULL;
	if (w->left) {
		size_t some = w->left < n ? (size_t)w->left : n;

		w->left -= some;
		piece_set(ret, w, b, some);
		return some;
	}
	if (w->closed && !w->head_n) {
		*wrong = "something follows the close frame";
		return 0;
	}
	for (size_t i = 0; i < n;) {
		w->head[w->head_n++] = b[i++];
		if (w->head_n < 2 || w->head_n < head_len(w->head))
			continue;
		w->head_n = 0;
		*wrong = frame_begin(w);
		if (*wrong)
			return 0;
		if (!w->left)
			piece_set(ret, w, b + i, 0);
		return i;
	}
	return n;
}

const char *ws_check(struct ws_check *w, const void *p, size_t n)
{
	const char *wrong = NULL;
	struct ws_piece piece;

	for (size_t at = 0; at < n && !wrong;)
		at += ws_next(w, (const uint8_t *)p + at, n - at, &piece, &wrong);
	return wrong;
}

size_t ws_head(uint8_t out[WS_HEAD_MAX], bool fin, uint8_t opcode, uint64_t n)
{
	size_t bytes = n < 126 ? 0 : n <= 0xffff ? 2 : 8;

	out[0] = (uint8_t)((fin ? 0x80 : 0) | opcode);
	out[1] = (uint8_t)(bytes == 8 ? 127 : bytes == 2 ? 126 : n);
	for (size_t i = 0; i < bytes; i++)
		out[2 + i] = (uint8_t)(n >> (8 * (bytes - 1 - i)));
	return 2 + bytes;
}
