/* SPDX-License-Identifier: Apache-2.0 */
/* Working beside a session: see env_beside.h. */
#include "env/env_beside.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "session/join/join.h"

static int ask_pause(struct env *v, enum session_pause how, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(64);
	struct session_link l = SESSION_LINK_INIT;
	char *text = NULL;
	int r;

	l.fd = v->beside_fd;
	pack_u32(&b, how);
	r = join_ask(&l, SESSION_PAUSE, 0, b.data, b.len, JOIN_ANSWER_MS, &text, e);
	free(text);
	l.fd = -1; /* it stays */
	session_link_done(&l);
	return r;
}

int env_beside_hold(struct env *v, struct err *e)
{
	return ask_pause(v, SESSION_PAUSE_HOLD, e);
}

int env_beside_release(struct env *v, struct err *e)
{
	return ask_pause(v, SESSION_PAUSE_RELEASE, e);
}

/* 1: done, and ret is the connection; 0: nothing is up; -errno. */
static int settle(const struct env *v, const char *name, enum session_settle what,
	struct session_link *ret, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(64);
	char *text = NULL;
	int r = join_connect(v->dir_fd, name, ret, e);

	if (r <= 0)
		return r;
	pack_u32(&b, what);
	r = join_ask(ret, SESSION_SETTLE, 0, b.data, b.len, JOIN_ANSWER_MS, &text, e);
	free(text);
	if (r < 0)
		session_link_done(ret);
	return r < 0 ? r : 1;
}

int env_beside(struct env *v, const char *name, struct err *e)
{
	struct session_link l;
	int r = settle(v, name, SESSION_SETTLE_LEND, &l, e);

	if (r <= 0)
		return r;
	v->beside_fd = take_fd(&l.fd);
	session_link_done(&l);
	return 1;
}

int env_beside_seal(const struct env *v, const char *name, struct err *e)
{
	struct session_link l;
	int r = settle(v, name, SESSION_SETTLE_SEAL, &l, e);

	if (r == -ECONNRESET || r == -EPIPE) { /* it has ended, and writes down everything then */
		*e = ERR_INIT;
		return 0;
	}
	if (r > 0)
		session_link_done(&l);
	return MIN_OF(r, 0);
}
