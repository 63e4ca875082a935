/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer's way back to the gateway, without values.
 *
 * Trust:  the server is not believed either: it may echo what it was sent. Heads are parsed
 *         strictly and written anew, then searched as one text; bodies are searched as they stream.
 *         What would hide a value from the search is refused: a coding of the body, or a charset
 *         in which a value is made of other bytes (neither was asked for).
 * Order:  where a body is known to end, its tail waits for that. Where it is not, the tail waits
 *         until nothing has come for KEEPER_RELEASE_MS; bodies that stream are made of lines, which
 *         do not wait (scrub.h).
 * Invariant: redaction keeps lengths, so a stated length stays true.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/keeper_impl.h"

#define PIECE_MAX_B (16u << 10)

static bool is_framed(const struct conn *c)
{
	return c->answer == ANSWER_CHUNKED || c->answer == ANSWER_CLOSE;
}

/* What is hidden goes to the gateway, framed. */
static bool pass_on(struct conn *c, struct buf *clean)
{
	char head[20];

	range_cut(c, clean);
	if (clean->failed || !clean->len)
		return !clean->failed;
	if (!is_framed(c))
		return fifo_add(&c->out, clean->data, clean->len);
	return fifo_add(&c->out, head, chunk_head(head, clean->len)) &&
	       fifo_add(&c->out, clean->data, clean->len) && fifo_add(&c->out, "\r\n", 2);
}

static void release_later(struct conn *c);

static void on_release(void *arg)
{
	cleanup_buf struct buf clean = BUF_INIT(KEEPER_OUT_MAX_B);
	struct conn *c = arg;

	/* What has come meanwhile counts, also when this process was too busy to look at it. */
	conn_run(c);
	if (c->dead || !c->answered || c->answer_done || !is_framed(c) || !scrub_waits(c->scrub))
		return;
	if (c->release_stalled || loop_now_ms(c->k->gw.loop) < c->release_ms) {
		release_later(c);
		return;
	}
	scrub_release(c->scrub, &clean);
	if (!pass_on(c, &clean))
		conn_end(c);
	else
		conn_run(c);
}

/* The timer is not set anew for every byte; it looks at the time when it fires. */
static void release_later(struct conn *c)
{
	struct loop *l = c->k->gw.loop;
	uint64_t now = loop_now_ms(l);

	if (c->release_stalled)
		c->release_ms = now + KEEPER_RELEASE_MS;
	c->release_stalled = false;
	if (!c->release.slot)
		loop_timer(l, &c->release, c->release_ms - now, on_release, c);
}

/* Lines, searched as one text, as the head was. Of what gRPC says at the end, the rest is dropped. */
static bool deliver_trailers(struct conn *c)
{
	cleanup_buf struct buf clean = BUF_INIT(2 * HTTP_HEAD_MAX_B);
	size_t n = c->trailers.len;

	/* Its last two bytes are the empty line. Of a part they could be sums, as in its head. */
	if (n <= 2 || !c->up || !c->up->h2 || c->range.cut)
		return true;
	scrub_feed(c->scrub, c->trailers.data, n - 2, true, &clean);
	return !c->trailers.failed && !clean.failed && clean.len == n - 2 &&
	       fifo_add(&c->out, clean.data, clean.len);
}

/* Add to what goes to the gateway, hidden and framed. */
static bool deliver(struct conn *c, const char *p, size_t n, bool last)
{
	cleanup_buf struct buf clean = BUF_INIT(KEEPER_OUT_MAX_B);
	bool ok;

	scrub_feed(c->scrub, p, n, last, &clean);
	ok = pass_on(c, &clean);
	if (ok && is_framed(c) && last)
		ok = fifo_add(&c->out, "0\r\n", 3) && deliver_trailers(c) &&
		     fifo_add(&c->out, "\r\n", 2);
	c->release_ms = loop_now_ms(c->k->gw.loop) + KEEPER_RELEASE_MS;
	if (is_framed(c) && scrub_waits(c->scrub))
		release_later(c);
	return ok;
}

/* Wiped before it is dropped; what is left moves to the front when there is no room behind it. */
static void consume(struct conn *c, size_t n)
{
	explicit_bzero(c->rx + c->rx_off, n);
	c->rx_off += n;
	c->rx_len -= n;
	if (!c->rx_len) {
		c->rx_off = 0;
	} else if (c->rx_off > KEEPER_IN_MAX_B / 2) {
		memmove(c->rx, c->rx + c->rx_off, c->rx_len);
		explicit_bzero(c->rx + c->rx_len, c->rx_off);
		c->rx_off = 0;
	}
}

void answer_forget(struct conn *c)
{
	if (c->rx)
		explicit_bzero(c->rx, KEEPER_IN_MAX_B);
	free(c->rx);
	c->rx = NULL;
	c->rx_off = c->rx_len = 0;
}

/* A parsed head holds copies of what came. */
static void response_wipe(struct http_response *r)
{
	for (struct arena_block *b = r->arena.head; b; b = b->next)
		explicit_bzero(b->data, b->size);
	response_done(r);
}

/* ---- head ---- */

/* gRPC's messages, Connect's and differences (RFC 3229) have codings of their own. */
static bool is_coded(const struct http_response *r)
{
	static const char *const names[] = {
		"content-encoding", "grpc-encoding", "connect-content-encoding", "im"};

	for (size_t i = 0; i < r->fields.n; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (str_eq(r->fields.v[i].name, names[k]) &&
				strcasecmp(r->fields.v[i].value, "identity") != 0 &&
				r->fields.v[i].value_len)
				return true;
	return false;
}

/*
 * Are letters, digits and signs the bytes that they are in ASCII? By the beginnings of the names of
 * such charsets; what is not known is not readable.
 */
static bool charset_readable(const char *name, size_t n)
{
	static const char *const known[] = {"utf-8", "utf8", "us-ascii", "ascii", "ansi_x3.4",
		"iso-8859", "iso8859", "iso_8859", "iso-2022", "latin", "l1", "windows-", "cp125",
		"cp437", "cp85", "cp86", "cp93", "cp94", "koi8", "gb", "big5", "euc-", "euc_",
		"shift", "sjis", "ms_kanji", "ms949", "ks_c", "tis-620", "mac", "x-mac", "x-sjis",
		"x-euc", "x-user-defined", "x-cp", "x-gbk", "binary"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (n >= strlen(known[i]) && strncasecmp(name, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

/*
 * Every charset that the types of the body name, wherever it stands: no reader finds one that is not
 * looked at here.
 */
static bool is_unreadable(const struct http_response *r)
{
	static const char word[] = "charset";

	for (size_t i = 0; i < r->fields.n; i++) {
		const char *p = r->fields.v[i].value;

		if (!str_eq(r->fields.v[i].name, "content-type"))
			continue;
		while ((p = strcasestr(p, word))) {
			size_t n;

			p += sizeof(word) - 1;
			p += strspn(p, "* ");
			if (*p != '=')
				continue;
			p += 1 + strspn(p + 1, " \"'");
			n = strcspn(p, " \"';,");
			if (n && !charset_readable(p, n))
				return true;
		}
	}
	return false;
}

/* A STREAM is chunked or ends with the connection; only the text tells which. */
static bool is_chunked(const char *head, size_t n)
{
	static const char name[] = "\r\ntransfer-encoding:";
	size_t len = sizeof(name) - 1;

	for (const char *p = head; n >= len; n--, p++)
		if (*p == '\r' && strncasecmp(p, name, len) == 0)
			return true;
	return false;
}

bool answer_prepare(struct conn *c)
{
	if (!c->rx)
		c->rx = malloc(KEEPER_IN_MAX_B);
	if (!c->rx)
		return false;
	if (!c->scrub)
		c->scrub = scrub_new(c->k->vault.scrubber);
	return c->scrub;
}

/* Write the head as the gateway gets it: one text, searched as a whole before the body begins. */
static bool deliver_head(struct conn *c, const struct http_response *r)
{
	cleanup_buf struct buf text = BUF_INIT(2 * HTTP_HEAD_MAX_B);
	cleanup_buf struct buf clean = BUF_INIT(2 * HTTP_HEAD_MAX_B);
	bool ok = answer_prepare(c);

	http1_write_response(r, c->req.method, &text);
	if (ok)
		scrub_feed(c->scrub, text.data, text.len, true, &clean);
	ok = ok && !text.failed && !clean.failed && clean.len == text.len &&
	     fifo_add(&c->out, clean.data, clean.len);
	if (text.data)
		explicit_bzero(text.data, text.cap);
	return ok;
}

/* What follows the head. A reason to refuse, or NULL. */
static const char *settle(struct conn *c, struct http_response *r, const char *head, size_t n)
{
	if (r->status == 101 && !(c->req.upgrade_ws && r->upgrade_ws))
		return "the server switched to a protocol that was not asked for";
	if (r->status == 101 && fields_get(&r->fields, "sec-websocket-extensions"))
		return "the server uses a WebSocket extension, which could hide a secret, though "
		       "none "
		       "was asked for";
	if (r->body != HTTP_BODY_NONE && is_coded(r))
		return "the server sent a content coding, which could hide a secret, though none "
		       "was asked for";
	if (r->body != HTTP_BODY_NONE && is_unreadable(r))
		return "the server sent characters in a charset that could hide a secret (it is "
		       "not one of those that hold ASCII)";
	c->answer = r->body == HTTP_BODY_NONE     ? ANSWER_NONE
		    : r->body == HTTP_BODY_LENGTH ? ANSWER_LENGTH
		    : is_chunked(head, n)         ? ANSWER_CHUNKED
						  : ANSWER_CLOSE;
	c->answer_left = c->answer == ANSWER_LENGTH ? r->length : 0;
	c->keep_up = !r->close && c->answer != ANSWER_CLOSE && r->status != 101 &&
		     !http1_is_last(&c->req);
	/* Towards the gateway it is always HTTP/1.1 that goes on. */
	r->close = false;
	r->http10 = false;
	return NULL;
}

static void answer_bad(struct conn *c, const char *why)
{
	conn_refuse(c, 502, why, "");
}

static bool take_head(struct conn *c)
{
	const struct http_problem *problem = NULL;
	struct http_response r;
	const char *bad = NULL;
	int n;

	if (!c->rx_len)
		return false;
	n = http1_response(&r, c->req.method, c->rx + c->rx_off, c->rx_len, &problem);
	if (n == 0 && c->rx_off + c->rx_len < KEEPER_IN_MAX_B && !c->up_eof)
		return false;
	if (n <= 0) {
		answer_bad(c, problem ? problem->text
				      : "the server's answer is too long, or was cut off");
		return true;
	}
	if (r.status >= 200 || r.status == 101)
		bad = settle(c, &r, c->rx + c->rx_off, (size_t)n);
	if (!bad && r.status >= 200)
		bad = range_settle(c, &r);
	if (!bad && r.status != 100 && !deliver_head(c, &r))
		bad = "the answer's head is too long";
	if (!bad && (r.status >= 200 || r.status == 101)) {
		c->answered = true;
		if (r.status == 101)
			c->state = CONN_TUNNEL;
		else
			c->answer_done = c->answer == ANSWER_NONE ||
					 (c->answer == ANSWER_LENGTH && !c->answer_left);
	}
	response_wipe(&r);
	consume(c, (size_t)n);
	if (bad)
		answer_bad(c, bad);
	return true;
}

/* ---- body ---- */

static bool body_chunk(struct conn *c)
{
	const char *data = NULL;
	size_t n = 0;
	long used = chunks_read(&c->answer_chunks, c->rx + c->rx_off,
		MIN_OF(c->rx_len, (size_t)PIECE_MAX_B), &data, &n);

	if (used < 0 || (n && !deliver(c, data, n, false))) {
		conn_end(c);
		return true;
	}
	consume(c, (size_t)used);
	if (c->answer_chunks.state != CHUNK_DONE)
		return used > 0;
	if (!deliver(c, "", 0, true))
		conn_end(c);
	c->answer_done = true;
	return true;
}

static bool body_plain(struct conn *c)
{
	size_t n = MIN_OF(c->rx_len, (size_t)PIECE_MAX_B);
	bool last;

	if (c->answer == ANSWER_LENGTH && n > c->answer_left)
		n = (size_t)c->answer_left;
	c->answer_left -= c->answer == ANSWER_LENGTH ? n : 0;
	last = c->answer == ANSWER_LENGTH ? c->answer_left == 0 : c->up_eof && n == c->rx_len;
	if (!n && !last)
		return false;
	if (!deliver(c, c->rx + c->rx_off, n, last)) {
		conn_end(c);
		return true;
	}
	consume(c, n);
	c->answer_done = last;
	return true;
}

static bool message(struct conn *c)
{
	long used;

	if (!c->rx_len) {
		c->answer_done = c->up_eof;
		return c->up_eof;
	}
	used = messages_pump(c, c->rx + c->rx_off, MIN_OF(c->rx_len, (size_t)PIECE_MAX_B));
	if (used < 0)
		conn_end(c);
	else
		consume(c, (size_t)used);
	return true;
}

bool answer_pump(struct conn *c)
{
	bool moved;

	if (c->answer_done || c->out.len >= KEEPER_HIGH_B)
		return false;
	if (!c->answered)
		moved = take_head(c);
	else if (c->state == CONN_TUNNEL)
		moved = message(c);
	else if (c->answer == ANSWER_CHUNKED)
		moved = c->rx_len && body_chunk(c);
	else
		moved = body_plain(c);
	/* Cut off in the middle: the gateway must see that it is not whole. */
	if (!c->dead && !moved && c->up_eof && c->answered && !c->answer_done)
		conn_end(c);
	else if (!c->dead && !moved && c->up_eof && !c->answered && c->state == CONN_EXCHANGE)
		conn_up_failed(c, "the server closed the connection without an answer");
	return moved;
}
