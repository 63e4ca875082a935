/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: what the process of a session does (croft_run.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "env/env.h"
#include "env/env_up.h"
#include "ipc/session_link.h"

#define NAME_TRIES 16

static uint64_t or_never(unsigned long long ms)
{
	return ms ? ms : UINT64_MAX;
}

/* A frame to the starter, who reads nothing from us any more that somebody else could write into. */
static void tell(int caller, enum session_type type, const struct err *e, const struct buf *b)
{
	struct session_link l = SESSION_LINK_INIT;

	l.fd = caller;
	if (e)
		session_link_error(&l, 0, 0, e);
	else
		session_link_put(&l, type, 0, 0, b->data, b->len);
	session_link_flush(&l);
	l.fd = -1; /* not ours to close */
	session_link_done(&l);
}

void croft_session_refuse(struct croft *c, int caller)
{
	if (c->err.kind == ERR_NONE)
		err_invalid(&c->err, "the options of the session are not good");
	tell(caller, SESSION_ERROR, &c->err, NULL);
}

static int serve(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_sandbox_options *o, int caller, bool *ret_waits)
{
	struct env_up u = {.policy = &p->policy,
		.words = name ? o->args : NULL,
		.allow_degraded = o->flags & CROFT_SANDBOX_ALLOW_DEGRADED,
		.linger_ms = or_never(o->linger_ms),
		.lifetime_ms = or_never(o->lifetime_ms),
		.idle_ms = or_never(o->idle_ms),
		.holder = caller,
		.held = !(o->flags & CROFT_SANDBOX_STAYS),
		.ret_holder_waits = ret_waits};
	cleanup_env struct env v;
	struct receipt r;
	int rc;

	c->err = ERR_INIT;
	env_init(&v);
	if ((rc = env_open(&v, name, ENV_LOCK_WRITE, &c->err)) < 0)
		return rc;
	if (receipt_init(&r) < 0)
		return err_set(&c->err, errno, "start");
	rc = env_up(&v, &u, &r, &c->err);
	receipt_done(&r);
	return rc;
}

/* An environment for this session alone, from the directory as it is. */
static int make(struct croft *c, struct croft_policy *p, const struct croft_sandbox_options *o,
	char name[ENV_NAME_MAX + 1])
{
	const struct croft_new_options no = {.dirty = true, .args = o->args};
	uint32_t id;
	int r = -EEXIST;

	for (int i = 0; r < 0 && i < NAME_TRIES; i++) {
		cleanup_free char *report = NULL;

		c->err = ERR_INIT;
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			return err_set(&c->err, errno, "name a sandbox");
		snprintf(name, ENV_NAME_MAX + 1, "sandbox-%08x", id);
		r = croft_env_new(c, name, p, &no, CROFT_JSON, &report);
		if (r < 0 && err_reason(&c->err) != ERR_WHY_EXISTS)
			return r;
	}
	return r;
}

int croft_session_serve(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_sandbox_options *o, int caller)
{
	cleanup_buf struct buf left = BUF_INIT(4096);
	cleanup_free char *report = NULL;
	char own[ENV_NAME_MAX + 1] = "";
	struct croft quiet = {.err = ERR_INIT};
	bool waits = true; /* nobody has said anything to the starter yet */
	int r = name ? 0 : make(c, p, o, own);

	if (r == 0)
		r = serve(c, name ? name : own, p, o, caller, &waits);
	/* What has changed something stays, and so does what has not been up. */
	if (own[0] && croft_env_remove(&quiet, own, o->flags & CROFT_SANDBOX_DISCARD, &report) == 0)
		own[0] = '\0';
	if (!waits)
		return r;
	if (r < 0) {
		croft_session_refuse(c, caller);
	} else {
		pack_str(&left, name ? name : own);
		tell(caller, SESSION_DOWN, NULL, &left);
	}
	return r;
}
