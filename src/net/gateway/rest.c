/* SPDX-License-Identifier: Apache-2.0 */
/* Going when there is no work: see rest.h. */
#include "net/gateway/rest.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/pack.h"
#include "net/dns/dns.h"
#include "net/gateway/ask.h"
#include "net/gateway/flow.h"
#include "net/gateway/netlog.h"
#include "net/gateway/usage.h"
#include "net/io/outbox.h"

#define STATE_FORM 1u
#define HEAD_B 4u /* length of what follows */

struct rest {
	struct gateway *g;
	int state;
	uint64_t idle_ms, heard;
	bool resting;
	struct timer timer;
};

int rest_new(struct rest **ret, struct gateway *g, int state, uint64_t idle_ms, struct err *e)
{
	struct rest *r;

	*ret = NULL;
	if (state < 0 || !idle_ms) {
		close_fd(&state);
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		close(state);
		return err_set(e, ENOMEM, "set up the gateway");
	}
	*r = (struct rest){.g = g, .state = state, .idle_ms = MAX_OF(idle_ms, REST_MS_MIN)};
	*ret = r;
	return 0;
}

void rest_free(struct rest *r)
{
	if (!r)
		return;
	loop_cancel(&r->timer);
	close_fd(&r->state);
	free(r);
}

/* ---- the state ---- */

static void pack_state(const struct gateway *g, struct buf *out)
{
	pack_u32(out, STATE_FORM);
	pack_u64(out, g->flow_id);
	pack_u32(out, netlog_capped(g->netlog));
	names_pack(g->names, out);
	usage_pack(g->usage, out);
	asks_pack(g->asks, out);
}

static bool unpack_state(struct gateway *g, struct unpack *u)
{
	if (unpack_u32(u) != STATE_FORM)
		return false;
	g->flow_id = unpack_u64(u);
	netlog_continue(g->netlog, unpack_u32(u) != 0);
	return names_unpack(g->names, u) && usage_unpack(g->usage, u) && asks_unpack(g->asks, u) &&
	       unpack_good(u);
}

static bool write_at(int fd, const void *p, size_t n, off_t at)
{
	return lseek(fd, at, SEEK_SET) == at && write(fd, p, n) == (ssize_t)n;
}

static bool save(const struct rest *r)
{
	cleanup_buf struct buf b = BUF_INIT(GATEWAY_STATE_MAX_B - HEAD_B), head = BUF_INIT(HEAD_B);

	pack_state(r->g, &b);
	pack_u32(&head, (uint32_t)b.len);
	return !b.failed && write_at(r->state, b.data, b.len, HEAD_B) &&
	       write_at(r->state, head.data, head.len, 0);
}

int rest_load(struct rest *r, struct err *e)
{
	unsigned char head[HEAD_B];
	cleanup_free char *text = NULL;
	struct unpack u = unpack_of(head, sizeof(head));
	size_t n = 0;

	if (!r || pread(r->state, head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return err_invalid(e, "the state of the gateway before this one is missing");
	n = unpack_u32(&u);
	text = n <= GATEWAY_STATE_MAX_B - HEAD_B ? malloc(n + 1) : NULL;
	if (!text || pread(r->state, text, n, HEAD_B) != (ssize_t)n)
		return err_invalid(e, "the state of the gateway before this one cannot be read");
	u = unpack_of(text, n);
	if (!unpack_state(r->g, &u))
		return err_invalid(e, "the state of the gateway before this one makes no sense");
	return 0;
}

/* ---- when ---- */

static void listen_again(struct rest *r, bool on)
{
	r->resting = !on;
	flow_listen_pause(r->g, !on);
	dns_pause(r->g->dns, !on);
}

static void go(struct rest *r)
{
	struct gateway_msg m = {.type = GATEWAY_REST, .id = r->heard};

	listen_again(r, false);
	if (save(r))
		netlog_rest(r->g->netlog, &m);
	else
		listen_again(r, true);
}

static bool has_work(const struct gateway *g)
{
	return g->flows_n > 0 || asks_waiting(g->asks) || !outbox_empty(g->outbox);
}

static void look(void *arg)
{
	struct rest *r = arg;
	struct gateway *g = r->g;
	uint64_t now = loop_now_ms(g->loop), due = g->used_ms + r->idle_ms;

	if (g->ending || r->resting)
		return;
	if (now >= due && !has_work(g))
		go(r);
	if (!r->resting)
		loop_timer(g->loop, &r->timer, now < due ? due - now : r->idle_ms, look, r);
}

int rest_begin(struct rest *r, struct err *e)
{
	int rc;

	if (!r)
		return 0;
	r->g->used_ms = loop_now_ms(r->g->loop);
	rc = loop_timer(r->g->loop, &r->timer, r->idle_ms, look, r);
	return rc < 0 ? err_set(e, -rc, "set up the gateway") : 0;
}

void rest_heard(struct rest *r)
{
	if (!r)
		return;
	r->heard++;
	r->g->used_ms = loop_now_ms(r->g->loop);
	if (!r->resting || r->g->ending)
		return;
	listen_again(r, true);
	loop_timer(r->g->loop, &r->timer, r->idle_ms, look, r);
}
