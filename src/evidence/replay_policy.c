/* SPDX-License-Identifier: Apache-2.0 */
/* From the policy options that an environment was made with to its policy: see replay.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/config/layers.h"
#include "evidence/replay.h"

#define LIST_MAX 1024u
#define SETTINGS_N 6

struct list {
	const char *v[LIST_MAX + 1];
	size_t n;
};

struct gathered {
	struct layers_options o;
	struct list read, write, deny, view, write_runs, hosts, use, secrets, publish, host_ports, env, set;
	char *settings[SETTINGS_N * 4];
	size_t settings_n;
};

static int add(struct list *l, const char *v, struct err *e)
{
	if (l->n == LIST_MAX)
		return err_invalid(e, "the environment's record has too many policy options");
	l->v[l->n++] = v;
	return 0;
}

/* "--memory 2G" is "limits.memory=2G". */
static int add_setting(struct gathered *g, const char *key, const char *value, struct err *e)
{
	size_t n = strlen(key) + strlen(value) + 2;
	char *text = g->settings_n < ARRAY_SIZE(g->settings) ? malloc(n) : NULL;

	if (!text)
		return err_set(e, ENOMEM, "read the policy options");
	snprintf(text, n, "%s=%s", key, value);
	g->settings[g->settings_n++] = text;
	return add(&g->set, text, e);
}

static int take(struct gathered *g, const char *name, size_t n, const char *value, struct err *e)
{
	const struct {
		const char *name;
		const char **one;
		struct list *many;
		const char *setting;
	} known[] = {{"tier", &g->o.tier, NULL, NULL}, {"policy", &g->o.policy_file, NULL, NULL},
		{"profile", &g->o.profile, NULL, NULL}, {"read", NULL, &g->read, NULL},
		{"write", NULL, &g->write, NULL}, {"deny", NULL, &g->deny, NULL},
		{"view", NULL, &g->view, NULL}, {"write-runs", NULL, &g->write_runs, NULL},
		{"allow-host", NULL, &g->hosts, NULL}, {"use", NULL, &g->use, NULL},
		{"secret", NULL, &g->secrets, NULL}, {"publish", NULL, &g->publish, NULL},
		{"host-port", NULL, &g->host_ports, NULL}, {"env", NULL, &g->env, NULL},
		{"set", NULL, &g->set, NULL}, {"memory", NULL, NULL, "limits.memory"},
		{"cpus", NULL, NULL, "limits.cpus"}, {"pids", NULL, NULL, "limits.pids"},
		{"disk", NULL, NULL, "limits.disk"}, {"timeout", NULL, NULL, "limits.timeout"},
		{"observe", NULL, NULL, "observe"}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strlen(known[i].name) != n || strncmp(known[i].name, name, n) != 0)
			continue;
		if (known[i].setting)
			return add_setting(g, known[i].setting, value, e);
		if (known[i].many)
			return add(known[i].many, value, e);
		*known[i].one = value;
		return 0;
	}
	return err_invalid(e, "the environment was made with --%.*s, which a replay does not know",
		(int)MIN_OF(n, 60u), name);
}

/* Options that say nothing about the policy. */
static bool is_flag(const char *name)
{
	static const char *const flags[] = {
		"allow-degraded", "direct", "discard", "staged", "verbose", "quiet"};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (str_eq(name, flags[i]))
			return true;
	return false;
}

static int gather(struct gathered *g, char *const *args, size_t n, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const char *a = args[i], *value;
		size_t len;

		if (str_eq(a, "-e") || str_eq(a, "-p"))
			a = a[1] == 'e' ? "--env" : "--publish";
		if (str_eq(a, "--git")) {
			g->o.git = true;
			continue;
		}
		if (str_eq(a, "-v") || str_eq(a, "-q") || (str_starts(a, "--") && is_flag(a + 2)))
			continue;
		if (!str_starts(a, "--"))
			return err_invalid(e, "the record of the environment's options is damaged");
		len = strcspn(a + 2, "=");
		value = a[2 + len] ? a + 3 + len : i + 1 < n ? args[++i] : NULL;
		if (!value)
			return err_invalid(e, "the record of the environment's options is damaged");
		r = take(g, a + 2, len, value, e);
	}
	return r;
}

int replay_policy(
	struct policy *ret, const char *directory, char *const *args, size_t n, struct err *e)
{
	cleanup_layers_info struct layers_info info = {0};
	cleanup_free struct gathered *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return err_set(e, ENOMEM, "read the policy options");
	r = gather(g, args, n, e);
	g->o.directory = directory;
	g->o.read = g->read.v;
	g->o.write = g->write.v;
	g->o.deny = g->deny.v;
	g->o.view = g->view.v;
	g->o.write_runs = g->write_runs.v;
	g->o.hosts = g->hosts.v;
	g->o.use = g->use.v;
	g->o.secrets = g->secrets.v;
	g->o.publish = g->publish.v;
	g->o.host_ports = g->host_ports.v;
	g->o.env = g->env.v;
	g->o.set = g->set.v;
	if (r == 0)
		r = layers_load(ret, &info, &g->o, e);
	for (size_t i = 0; i < g->settings_n; i++)
		free(g->settings[i]);
	return r;
}
