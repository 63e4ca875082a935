/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket's way back to the gateway, without values.
 *
 * Trust:  the server may cut a value into frames, and put others in between. Messages are searched
 *         as messages: the payloads of their frames, joined. Nothing but well-formed frames without
 *         extensions passes.
 * Order:  a message waits for its end and goes on in one frame. A long one goes on in frames of
 *         MESSAGE_PIECE_B or more. Where frames end, and when they come, depends on lengths only.
 *         Control frames go on between them, each searched by itself.
 * Limits: a value that a server sends in several messages, or in the payloads of several pings, is
 *         not found.
 */
#include <string.h>

#include "base/cleanup.h"
#include "net/keeper/keeper_impl.h"

#define MESSAGE_PIECE_B (32u << 10)

static bool send_frame(struct conn *c, bool fin, uint8_t opcode, const char *p, size_t n)
{
	uint8_t head[WS_HEAD_MAX];

	return fifo_add(&c->out, (const char *)head, ws_head(head, fin, opcode, n)) &&
	       fifo_add(&c->out, p, n);
}

static bool take_control(struct conn *c, const struct ws_piece *x)
{
	struct messages *m = &c->messages;
	cleanup_buf struct buf clean = BUF_INIT(WS_CONTROL_MAX_B + 1);
	struct scrub *r;

	if (x->n > sizeof(m->control) - m->control_n)
		return false;
	if (x->n)
		memcpy(m->control + m->control_n, x->p, x->n);
	m->control_n += x->n;
	if (!x->end)
		return true;
	/* A message may be under way: this is a stream by itself. */
	r = scrub_new(c->k->vault.scrubber);
	if (!r)
		return false;
	scrub_feed(r, m->control, m->control_n, true, &clean);
	scrub_free(r);
	explicit_bzero(m->control, m->control_n);
	m->control_n = 0;
	return !clean.failed && send_frame(c, true, x->opcode, buf_str(&clean), clean.len);
}

static bool take_data(struct conn *c, const struct ws_piece *x)
{
	struct messages *m = &c->messages;
	bool last = x->end && x->fin, ok;

	if (!m->begun)
		m->opcode = x->opcode;
	m->begun = !last;
	scrub_feed(c->scrub, x->p, x->n, last, &m->clean);
	if (m->clean.failed)
		return false;
	if (!last && m->clean.len < MESSAGE_PIECE_B)
		return true;
	ok = send_frame(c, last, m->opcode, buf_str(&m->clean), m->clean.len);
	m->opcode = WS_CONTINUATION;
	buf_reset(&m->clean);
	return ok;
}

void messages_init(struct messages *m)
{
	*m = (struct messages){.clean = BUF_INIT(MESSAGE_PIECE_B + KEEPER_OUT_MAX_B)};
}

void messages_done(struct messages *m)
{
	explicit_bzero(m->control, sizeof(m->control));
	buf_done(&m->clean);
	messages_init(m);
}

long messages_pump(struct conn *c, const char *p, size_t n)
{
	const char *wrong = NULL;
	struct ws_piece x;
	size_t used = ws_next(&c->messages.check, p, n, &x, &wrong);
	bool ok = !wrong;

	if (ok && (x.n || x.end))
		ok = x.opcode >= WS_CLOSE ? take_control(c, &x) : take_data(c, &x);
	return ok ? (long)used : -1;
}
