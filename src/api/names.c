/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: bare names of things, for shells that complete words and programs that choose from a list. */
#include "agent/agent.h"
#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "env/env.h"
#include "policy/net/net.h"
#include "session/config/layers.h"
#include "session/config/secrets.h"
#include "show/env_report.h"

#define NAMES_MAX_B (4u << 20)

static void add(struct buf *out, const char *name)
{
	buf_addf(out, "%s\n", name);
}

static int add_secrets(struct buf *out, struct err *e)
{
	cleanup_free struct secret_info *v = NULL;
	size_t n = 0;
	int r = secret_list(&v, &n, e);

	for (size_t i = 0; r == 0 && i < n; i++)
		add(out, v[i].name);
	return r;
}

static int add_snapshots(const char *name, struct buf *out, struct err *e)
{
	cleanup_env struct env v;
	int r;

	env_init(&v);
	r = env_open_record(&v, name, e);
	for (size_t i = 0; r >= 0 && i < v.snapshots_n; i++)
		add(out, v.snapshots[i].label);
	return r < 0 ? r : 0;
}

/* Does it show as it is? A name that would need escapes is not offered: a terminal must not see it raw. */
static bool plain(const char *path)
{
	cleanup_buf struct buf shown = BUF_INIT(NAMES_MAX_B);

	str_show_all(&shown, path);
	return str_eq(buf_str(&shown), path);
}

static int add_changes(const char *name, struct buf *out, struct err *e)
{
	cleanup_changes struct changes ch = {0};
	cleanup_env struct env v;
	int r;

	env_init(&v);
	r = env_open(&v, name, ENV_LOCK_READ, e);
	if (r >= 0)
		r = env_look(&v, &ch, false, e);
	for (size_t i = 0; r >= 0 && i < ch.n; i++)
		if (plain(ch.v[i].path))
			add(out, ch.v[i].path);
	return r < 0 ? r : 0;
}

static int add_agents(struct buf *out, struct err *e)
{
	cleanup_strlist struct strlist names = {0};
	cleanup_free char *config = NULL;

	if (layers_config(&config, e) < 0 || agent_names(&names, config, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < names.n; i++)
		add(out, names.v[i]);
	return 0;
}

int croft_names(struct croft *c, enum croft_names what, const char *of, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(NAMES_MAX_B);
	int r = 0;

	c->err = ERR_INIT;
	switch (what) {
	case CROFT_NAMES_ENVS:
	case CROFT_NAMES_ALL_ENVS:
		r = env_report_names(what == CROFT_NAMES_ALL_ENVS, &b, &c->err);
		break;
	case CROFT_NAMES_LAST_ENV:
		r = env_report_last(&b, &c->err);
		break;
	case CROFT_NAMES_SNAPSHOTS:
		r = add_snapshots(of, &b, &c->err);
		break;
	case CROFT_NAMES_CHANGES:
		r = add_changes(of, &b, &c->err);
		break;
	case CROFT_NAMES_SECRETS:
		r = add_secrets(&b, &c->err);
		break;
	case CROFT_NAMES_BUNDLES:
		for (size_t i = 0; i < net_bundle_names_n; i++)
			add(&b, net_bundle_names[i]);
		break;
	case CROFT_NAMES_AGENTS:
		r = add_agents(&b, &c->err);
		break;
	case CROFT_NAMES_PROFILES:
	default:
		for (size_t i = 0; i < policy_profile_names_n; i++)
			add(&b, policy_profile_names[i]);
		break;
	}
	return api_give(c, r, &b, ret);
}
