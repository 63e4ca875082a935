/* SPDX-License-Identifier: Apache-2.0 */
/* Running sandboxes: what waits for a decision, decisions, new network rules. */
#include <errno.h>
#include <stdlib.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "session/config/layers.h"
#include "session/net/live.h"

int croft_pending(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(LIVE_ANSWER_MAX * 4);
	cleanup_free char *home = NULL;
	int r;

	c->err = ERR_INIT;
	if ((r = layers_home(&home, &c->err)) < 0 ||
		(r = live_pending(home, f == CROFT_JSON, &b, &c->err)) < 0)
		return r;
	*ret = buf_take(&b);
	if (!*ret)
		*ret = calloc(1, 1);
	return *ret ? 0 : err_set(&c->err, ENOMEM, "answer");
}

int croft_decide(struct croft *c, const char *id, bool allow, unsigned long long for_ms)
{
	cleanup_free char *home = NULL;
	int r;

	c->err = ERR_INIT;
	if ((r = layers_home(&home, &c->err)) < 0)
		return r;
	return live_decide(home, id, allow ? NET_ALLOW : NET_DENY, for_ms, &c->err);
}

int croft_policy_set(struct croft *c, const char *run, const struct croft_policy *p)
{
	c->err = ERR_INIT;
	return live_set_policy(p->home, run, p->policy.net, &c->err);
}
