/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of network policies: layers from YAML, and questions in one line. */
#ifndef CROFT_TESTS_UNIT_NET_WORLD_H
#define CROFT_TESTS_UNIT_NET_WORLD_H

#include "test.h"

#include <time.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

static const struct policy_context ctx = {.home = "/home/u", .workspace = "/home/u/w"};
static struct policy pol;
static struct err err;

static struct policy_layer *layer(enum policy_layer_kind kind, const char *name, const char *body)
{
	struct policy_layer *l = NULL;
	struct buf text = BUF_INIT(8u << 20);

	if (!body)
		return NULL;
	buf_addf(&text, "version: 1\n%s\n", body);
	if (policy_layer_parse(&l, kind, name, buf_str(&text), text.len, &ctx, &err) < 0)
		l = NULL;
	buf_done(&text);
	return l;
}

struct layers {
	const char *system, *user, *project, *cli;
	bool trusted;
};

/* 0, the exit status of a refusal, or -1 when a layer does not even parse. */
static int resolve(struct layers in)
{
	const char *const text[4] = {in.system, in.user, in.project, in.cli};
	static const char *const names[4] = {"system.yaml", "p.yaml", "croft.yaml", "command line"};
	static const enum policy_layer_kind kinds[4] = {
		LAYER_SYSTEM, LAYER_USER, LAYER_PROJECT, LAYER_CLI};
	struct policy_layer *v[4] = {0};
	int r = 0;

	policy_done(&pol);
	err = ERR_INIT;
	for (int i = 0; i < 4 && r == 0; i++) {
		v[i] = layer(kinds[i], names[i], text[i]);
		r = text[i] && !v[i] ? -1 : 0;
	}
	if (r == 0 && policy_resolve(&pol, v, 4, in.trusted, &ctx, &err) < 0)
		r = err_exit_code(&err);
	for (int i = 0; i < 4; i++)
		policy_layer_free(v[i]);
	return r;
}
#define RESOLVE(...) resolve((struct layers){__VA_ARGS__})

/* ---- decisions ---- */

static struct net_verdict verdict;

__attribute__((unused)) static const char *connect_to(const char *host, unsigned port)
{
	struct net_dest d = {.host = host, .port = (uint16_t)port};

	if (net_addr_parse(&d.addr, host, strlen(host)))
		d.host = NULL;
	net_decide_connect(pol.net, &d, &verdict);
	return net_effect_names[verdict.effect];
}

/*
 * "METHOD https://host:port/path?query", with "http" for no TLS; options behind: body ws fetch=…
 * push=…
 */
__attribute__((unused)) static const char *ask(const char *text)
{
	char line[512], *method = line, *url, *host, *path, *query, *opts, *port;
	struct net_request q = {.query = ""};
	const char *refs[4];

	snprintf(line, sizeof(line), "%s", text);
	url = strchr(line, ' ');
	*url++ = '\0';
	opts = strchr(url, ' ');
	if (opts)
		*opts++ = '\0';
	q.method = method;
	q.tls = str_starts(url, "https://");
	host = strstr(url, "://") + 3;
	path = strchr(host, '/');
	q.path = path ? strdup(path) : strdup("/");
	if (path)
		*path = '\0';
	query = strchr(q.path, '?');
	if (query) {
		*query = '\0';
		q.query = query + 1;
	}
	port = strchr(host, ':');
	q.port = (uint16_t)(port ? strtoul(port + 1, NULL, 10) : q.tls ? 443 : 80);
	if (port)
		*port = '\0';
	q.host = host;
	while (opts && *opts) {
		char *next = strchr(opts, ' ');

		if (next)
			*next++ = '\0';
		q.has_body = q.has_body || str_eq(opts, "body");
		q.upgrade_ws = q.upgrade_ws || str_eq(opts, "ws");
		if (str_starts(opts, "fetch=") || str_starts(opts, "push="))
			q.git_repo = strchr(opts, '=') + 1;
		q.git_push = q.git_push || str_starts(opts, "push=");
		if (str_starts(opts, "ref=")) {
			refs[q.git_refs_n++] = opts + 4;
			q.git_refs = refs;
		}
		opts = next;
	}
	net_decide_request(pol.net, &q, &verdict);
	free((char *)q.path);
	return net_effect_names[verdict.effect];
}

struct decision {
	const char *request, *effect;
};

__attribute__((unused)) static void check_requests(const struct decision *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *effect = ask(d[i].request);

		if (strcmp(effect, d[i].effect) != 0)
			test_fail(__FILE__, __LINE__, "%s: %s (%s), not %s", d[i].request, effect,
				verdict.why, d[i].effect);
	}
}
#define REQUESTS(...)                                                                              \
	do {                                                                                       \
		static const struct decision d_[] = {__VA_ARGS__};                                 \
		check_requests(d_, ARRAY_SIZE(d_));                                                \
	} while (0)

#endif
