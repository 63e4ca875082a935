/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: one question to the session of an environment, one answer. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "api/sandbox_impl.h"
#include "base/cleanup.h"
#include "engine/wire/wire.h"
#include "policy/net/net.h"
#include "session/join/join.h"

#define STOP_SLACK_MS 30000

static int connect_to(struct croft *c, const char *name, struct session_link *ret)
{
	int r = api_session_link(c, name, ret);

	if (r == 0)
		return err_why(&c->err, ERR_WHY_NOT_UP,
			err_invalid(&c->err, "%s is not up; start it with croft up %s", name, name));
	return r < 0 ? r : 0;
}

int api_ask(struct croft *c, const char *name, enum session_type type, unsigned process,
	const struct buf *b, int timeout_ms, char **ret_text)
{
	cleanup_free char *text = NULL;
	struct session_link l;
	int r = connect_to(c, name, &l);

	if (r < 0)
		return r;
	r = join_ask(&l, type, process, b ? b->data : NULL, b ? b->len : 0, timeout_ms, &text, &c->err);
	session_link_done(&l);
	if (r == 0 && ret_text)
		*ret_text = take_ptr(text);
	return r;
}

int croft_session_end(
	struct croft *c, const char *name, unsigned long long grace_ms, char **ret_left)
{
	cleanup_buf struct buf b = BUF_INIT(64);
	cleanup_free char *text = NULL;
	unsigned long long grace = MIN_OF(grace_ms, 3600000ull);
	struct session_link l;
	int r = connect_to(c, name, &l), wait_ms = (int)grace + STOP_SLACK_MS;

	if (r < 0)
		return r;
	pack_u32(&b, (uint32_t)grace);
	r = join_ask(&l, SESSION_STOP, 0, b.data, b.len, wait_ms, &text, &c->err);
	if (r == 0)
		r = join_wait_end(&l, STOP_SLACK_MS, &c->err);
	session_link_done(&l);
	if (r == -ECONNRESET) { /* that is the answer */
		c->err = ERR_INIT;
		r = 0;
	}
	if (r == 0 && ret_left)
		*ret_left = take_ptr(text);
	return r;
}

int croft_session_stop(struct croft *c, const char *name, unsigned long long grace_ms)
{
	return croft_session_end(c, name, grace_ms, NULL);
}

int croft_session_pause(struct croft *c, const char *name, bool pause)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	pack_u32(&b, pause);
	return api_ask(c, name, SESSION_PAUSE, 0, &b, JOIN_ANSWER_MS, NULL);
}

static int ask_port(struct croft *c, const char *name, enum session_type type, unsigned host,
	unsigned inside, unsigned *ret_host)
{
	cleanup_buf struct buf b = BUF_INIT(64);
	cleanup_free char *text = NULL;
	int r;

	pack_u32(&b, host);
	pack_u32(&b, inside);
	r = api_ask(c, name, type, 0, &b, JOIN_ANSWER_MS, &text);
	if (r == 0)
		*ret_host = text ? (unsigned)strtoul(text, NULL, 10) : 0;
	return r;
}

int croft_session_port(struct croft *c, const char *name, unsigned host, unsigned inside,
	unsigned *ret_host)
{
	return ask_port(c, name, SESSION_PORT, host, inside, ret_host);
}

int croft_session_unport(struct croft *c, const char *name, unsigned host, unsigned inside,
	unsigned *ret_host)
{
	return ask_port(c, name, SESSION_UNPORT, host, inside, ret_host);
}

int croft_session_policy(struct croft *c, const char *name, const struct croft_policy *p)
{
	cleanup_buf struct buf text = BUF_INIT(SESSION_TEXT_MAX), b = BUF_INIT(SESSION_TEXT_MAX + 64);

	policy_network_text(p->policy.net, &text);
	pack_str(&b, buf_str(&text));
	return api_ask(c, name, SESSION_POLICY, 0, &b, JOIN_ANSWER_MS, NULL);
}

int croft_session_signal(struct croft *c, const char *name, unsigned process, int signal)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	api_pack_signal(&b, signal, CROFT_TO_ALL);
	return api_ask(c, name, SESSION_SIGNAL, process, &b, JOIN_ANSWER_MS, NULL);
}

int croft_session_start(
	struct croft *c, const char *name, const struct croft_sandbox_options *o)
{
	struct croft_sandbox_options stays = o ? *o : (struct croft_sandbox_options){0};
	struct croft_sandbox *s;
	struct croft_event ev;
	int r;

	stays.name = name;
	stays.flags |= CROFT_SANDBOX_STAYS;
	r = croft_sandbox_start(c, &stays, &s);
	if (r < 0)
		return err_reason(&c->err) == ERR_WHY_UP ? -EALREADY : r;
	while ((r = croft_sandbox_next(s, &ev)) == 0) {
		struct pollfd p = {.fd = croft_sandbox_fd(s), .events = POLLIN};

		if (croft_sandbox_wants_write(s))
			p.events |= POLLOUT;
		poll(&p, 1, -1);
	}
	if (r == 1)
		r = ev.kind == CROFT_EVENT_UP ? 0 : -c->err.errnum;
	croft_sandbox_close(s);
	return r;
}
