/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server's HTTP/2 as the keeper reads it: frames in, an answer of HTTP/1.1 out.
 *
 * Input:   a byte of modes, a byte that says how long the pieces are in which the rest arrives, and that
 *          rest: what the server says, its SETTINGS first. The kept connection is used for one more
 *          request when it may be.
 * Checked: beyond not crashing and not leaking, that an answer ends where its text says so, that nothing
 *          of it is left on a connection that may be used again, and that text without a whole answer is
 *          never all that comes of one that the keeper takes for whole.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "must.h"
#include "net/keeper/keeper_impl.h"

#define MODE_BODY 0x03u /* of the request: none, with a length, chunked */
#define TEXT_MAX_B (4u << 20)

static const char *const requests[] = {
	"GET /p.S/M HTTP/1.1\r\nhost: h.example\r\ncontent-type: application/grpc\r\n\r\n",
	"POST /p.S/M HTTP/1.1\r\nhost: h.example\r\ncontent-length: 5\r\n\r\nhello",
	("POST /p.S/M HTTP/1.1\r\nhost: h.example\r\ntransfer-encoding: "
	 "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
	"HEAD /p.S/M HTTP/1.1\r\nhost: h.example\r\n\r\n"};

static int server;

/* What the library says to the server. */
static void drain(void)
{
	char waste[4096];

	while (recv(server, waste, sizeof(waste), MSG_DONTWAIT) > 0)
		;
}

static bool request(struct up *u, unsigned mode)
{
	const char *p = requests[mode & MODE_BODY];
	size_t n = strlen(p), at = 0;

	while (at < n) {
		long got = up_h2_write(u, p + at, n - at);

		if (got <= 0)
			return false;
		at += (size_t)got;
		drain();
	}
	return true;
}

/* Is the text a whole answer, and no more? -1: it is none. */
static int answer(const struct buf *text, unsigned mode)
{
	const char *method = (mode & MODE_BODY) == 3 ? "HEAD" : (mode & MODE_BODY) ? "POST" : "GET";
	const struct http_problem *problem = NULL;
	struct chunks c = {0};
	struct http_response r;
	size_t at = 0;
	int n;

	for (;;) { /* interim answers come before */
		n = http1_response(&r, method, buf_str(text) + at, text->len - at, &problem);
		if (n <= 0)
			return n;
		at += (size_t)n;
		if (r.status >= 200)
			break;
		response_done(&r);
	}
	n = r.body == HTTP_BODY_NONE;
	MUST(r.body != HTTP_BODY_STREAM || !r.until_close);
	response_done(&r);
	while (!n && at < text->len && c.state != CHUNK_DONE) {
		const char *data;
		size_t data_n;
		long used = chunks_read(&c, buf_str(text) + at, text->len - at, &data, &data_n);

		MUST(used > 0); /* the keeper framed it */
		at += (size_t)used;
	}
	if (!n && c.state != CHUNK_DONE)
		return 0;
	return at == text->len ? 1 : -1;
}

/* One request and what comes of it; true: the connection may be used again. */
static bool exchange(
	struct up *u, unsigned mode, const uint8_t **p, const uint8_t *end, size_t piece)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX_B);
	char out[512];

	if (!request(u, mode))
		return false;
	for (;;) {
		long n = up_h2_read(u, out, sizeof(out));
		int is;

		drain();
		if (n > 0) {
			buf_add(&text, out, (size_t)n);
			continue;
		}
		is = text.len ? answer(&text, mode) : 0;
		if (is || n < 0 || *p == end)
			return is == 1 && up_h2_reset(u);
		piece = MIN_OF(piece, (size_t)(end - *p));
		MUST(send(server, *p, piece, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)piece);
		*p += piece;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *p = data + 2, *end = data + size;
	struct up u = {.fd = -1, .shaken = true};
	int pair[2];

	if (size < 2 || size > (32u << 10))
		return 0;
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	u.fd = pair[0];
	server = pair[1];
	MUST(up_h2_start(&u));
	if (exchange(&u, data[0], &p, end, 1u + data[1] * 16u))
		exchange(&u, data[0] >> 2, &p, end, 1u + data[1] * 16u);
	up_h2_free(&u);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
