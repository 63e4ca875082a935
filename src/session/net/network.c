/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's network needs before and after its life: see network.h. */
#include "session/net/network.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/net/network_impl.h"
#include "session/config/secrets.h"
#include "session/config/state.h"
#include "session/net/truststore.h"
#include "engine/init/init.h"
#include "secret/placeholder.h"
#include "os/tproxy.h"
#include "os/landlock.h"
#include "os/path.h"

const char *const network_state_names[] = {"not wanted", "not needed", "served", "ended early", "served"};
static_assert(ARRAY_SIZE(network_state_names) == NETWORK_STATE_NUM, "one name per state");

/* ---- before ---- */

/*
 * In libexec next to croft's bin, otherwise beside croft: never by PATH or environment, and never
 * at a second place where the first has none, for a sandbox might be able to make it there.
 */
int network_program(char *ret, size_t size, struct err *e)
{
	char own[2048];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own));
	char *slash;

	if (len <= 0 || (size_t)len >= sizeof(own))
		return err_set(e, len < 0 ? errno : ENAMETOOLONG, "find croft's own program");
	own[len] = '\0';
	slash = strrchr(own, '/');
	if (!slash)
		return err_set(e, ENOENT, "find croft's own program");
	*slash = '\0';
	if (str_ends(own, "/bin")) {
		own[strlen(own) - 4] = '\0';
		snprintf(ret, size, "%s/libexec/croft/croft-gateway", own);
	} else {
		snprintf(ret, size, "%s/croft-gateway", own);
	}
	return 0;
}

static int find_gateway(struct network *n, struct err *e)
{
	int r = network_program(n->program, sizeof(n->program), e);

	if (r < 0)
		return r;
	n->program_fd = open(n->program, O_PATH | O_CLOEXEC);
	if (n->program_fd < 0 || access(n->program, X_OK) < 0)
		return err_refuse(e,
			"the policy has network rules, but croft-gateway, which carries them, is "
			"not installed (%s); install it, or remove the rules",
			n->program);
	return 0;
}

static int random_hex(char *out, size_t digits, struct err *e)
{
	uint8_t raw[64];

	if (getrandom(raw, digits / 2, 0) != (ssize_t)(digits / 2))
		return err_set(e, EIO, "get random bytes");
	for (size_t i = 0; i < digits / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

/* What the sandbox holds instead of each secret. The values stay where they are. */
static int make_placeholders(struct network *n, const char *project, struct err *e)
{
	if (!n->policy->secrets_n)
		return 0;
	if (state_seed(n->home, project, n->seed, e) < 0)
		return -e->errnum;
	n->placeholders = calloc(n->policy->secrets_n, sizeof(*n->placeholders));
	if (!n->placeholders)
		return err_set(e, ENOMEM, "make placeholders");
	for (size_t i = 0; i < n->policy->secrets_n; i++) {
		const struct net_secret *s = &n->policy->secrets[i];
		size_t len;

		if (secret_length(s->name, &len, e) < 0) {
			e->kind = ERR_REFUSED;
			return -e->errnum;
		}
		n->placeholders[i] = calloc(1, len + 1);
		if (!n->placeholders[i])
			return err_set(e, ENOMEM, "make placeholders");
		placeholder_make(n->placeholders[i], len, n->seed, s->name);
	}
	return 0;
}

static int listen_on(uint16_t port, int *ret, uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(a);
	int one = 1;

	if (fd < 0)
		return -errno;
	if (port) /* a chosen port may still be remembered from the run before */
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -errno;
	*ret_port = ntohs(a.sin_port);
	*ret = take_fd(&fd);
	return 0;
}

static int open_published(struct network *n, struct err *e)
{
	if (n->policy->publish_n > NETWORK_PUBLISH_MAX)
		return err_invalid(e, "at most %d ports can be published", NETWORK_PUBLISH_MAX);
	if (n->policy->publish_n && !network_own(n))
		return err_refuse(e,
			"the %s tier has no network of its own, so nothing in it can be published; "
			"use --tier namespace",
			n->engine->name);
	for (size_t i = 0; i < n->policy->publish_n; i++) {
		uint16_t port;
		int r = listen_on(n->policy->publish[i].host, &n->publish[i], &port);

		if (r < 0)
			return err_set(e, -r, "listen on 127.0.0.1:%u to publish port %u",
				n->policy->publish[i].host, n->policy->publish[i].inside);
	}
	return 0;
}

static int open_proxy(struct network *n, struct err *e)
{
	int r;

	if (landlock_abi() < 4)
		return err_refuse(e,
			"network rules in the %s tier need Landlock ABI 4 (kernel 6.7), which "
			"alone can hold the command to the gateway's port; use --tier namespace",
			n->engine->name);
	r = listen_on(0, &n->proxy, &n->proxy_port);
	return r < 0 ? err_set(e, -r, "open a proxy port")
		     : random_hex(n->token, GATEWAY_TOKEN_LEN, e);
}

/* Only to see what is asked for: without it the sandbox is as it would have been. */
static void prepare_watch(struct network *n, const struct policy *p)
{
	struct err e = ERR_INIT;

	if (find_gateway(n, &e) == 0 && (network_own(n) || open_proxy(n, &e) == 0))
		return;
	n->policy = NULL;
	n->state = NETWORK_NONE;
	strlist_add(&n->notes,
		"the network is not watched: croft-gateway is missing, or cannot serve this tier");
}

int network_prepare(struct network *n, const struct policy *p, const struct engine *engine,
	const char *run_id, const char *home, const char *project, bool watch, struct err *e)
{
	bool wanted = p->net && net_wanted(p->net);
	int r;

	*n = NETWORK_INIT;
	n->engine = engine;
	for (size_t i = 0; i < NETWORK_PUBLISH_MAX; i++)
		n->publish[i] = -1;
	for (size_t i = 0; i < NETWORK_WAITING_MAX; i++)
		n->waiting[i].fd = -1;
	if (!wanted && !(p->net && watch && !p->net->secrets_n)) /* to watch, no secret is needed */
		return 0;
	n->policy = p->net;
	while (n->local_ports_n < MIN_OF(p->net->host_ports_n, ARRAY_SIZE(n->local_ports))) {
		n->local_ports[n->local_ports_n] = p->net->host_ports[n->local_ports_n].host;
		n->local_ports_n++;
	}
	n->home = home;
	n->state = NETWORK_IDLE;
	n->rest_ms = network_rest_ms();
	n->ask_timeout_ms = p->net->ask_timeout_ms;
	snprintf(n->run_id, sizeof(n->run_id), "%s", run_id);
	if (!wanted) {
		prepare_watch(n, p);
		return 0;
	}
	if ((r = find_gateway(n, e)) < 0 || (r = make_placeholders(n, project, e)) < 0 ||
		(r = open_published(n, e)) < 0)
		return r;
	return network_own(n) ? 0 : open_proxy(n, e);
}

/* Java keeps its own list of authorities; only where there is one does it need ours. */
static bool host_has_java(void)
{
	for (const char *const *p = truststore_java_paths; *p; p++)
		if (access(*p, R_OK) == 0)
			return true;
	return false;
}

bool network_has_apt(void)
{
	return access("/usr/bin/apt-get", X_OK) == 0;
}

bool network_wants_trust(const struct network *n)
{
	return n->policy;
}

void network_request(const struct network *n, struct request *r)
{
	if (!n->policy) {
		r->refuse_names = network_own(n);
		r->no_retries = r->refuse_names && network_has_apt();
		return;
	}
	r->capture = network_own(n);
	r->local_ports = n->local_ports;
	r->local_ports_n = n->local_ports_n;
	r->proxy_port = n->proxy_port;
	if (network_wants_trust(n))
		r->trust = 1u << TRUST_BUNDLE | 1u << TRUST_CA |
			   (host_has_java() ? 1u << TRUST_JAVA : 0);
}

static bool add_env(struct strlist *env, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static bool add_env(struct strlist *env, const char *name, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(8192);
	va_list ap;

	buf_addf(&b, "%s=", name);
	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], buf_str(&b), strlen(name) + 1) == 0) {
			char *v = buf_take(&b);

			if (!v)
				return false;
			free(env->v[i]);
			env->v[i] = v;
			return true;
		}
	return !b.failed && strlist_add(env, buf_str(&b));
}

/* The NULL that envp ends with, in a slot beyond the entries. */
static bool end_env(struct strlist *env)
{
	if (env->n == env->cap) {
		char **v = realloc(env->v, (env->cap + 1) * sizeof(*v));

		if (!v)
			return false;
		env->v = v;
		env->cap++;
	}
	env->v[env->n] = NULL;
	return true;
}

bool network_env_default(struct strlist *env, const char *name, const char *value)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=')
			return true;
	return add_env(env, name, "%s", value);
}

/*
 * Plain http:// throughout: some clients fail at once when they meet a scheme of SOCKS they do not
 * know.
 */
static bool add_proxy_env(const struct network *n, struct strlist *env)
{
	static const char *const proxy[] = {
		"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};
	static const char *const none[] = {"no_proxy", "NO_PROXY"};
	/* pip tries five times again where the proxy refuses, for 8 s; two take it 0.8 s. */
	bool ok = add_env(env, "NODE_USE_ENV_PROXY", "1") &&
		  network_env_default(env, "PIP_RETRIES", "2");

	for (size_t i = 0; ok && i < ARRAY_SIZE(proxy); i++)
		ok = add_env(
			env, proxy[i], "http://croft:%s@127.0.0.1:%u", n->token, n->proxy_port);
	/* Ports of this machine are reached as localhost by the proxy, and by nothing else. */
	for (size_t i = 0; ok && i < ARRAY_SIZE(none); i++)
		ok = add_env(env, none[i], "%s", n->local_ports_n ? "" : "localhost,127.0.0.1,::1");
	return ok;
}

int network_environ(const struct network *n, struct strlist *env, const char *trust_dir,
	const struct policy *p, struct err *e)
{
	bool ok = true;

	if (!n->policy)
		return network_closed_environ(n, trust_dir, env) && end_env(env)
			       ? 0
			       : err_set(e, ENOMEM, "build the environment");
	for (size_t i = 0; ok && i < n->policy->secrets_n; i++)
		ok = add_env(env, n->policy->secrets[i].env, "%s", n->placeholders[i]);
	/* apt tries three times again where the proxy refuses, for 7 s; once takes it 1 s. */
	if (ok && n->proxy >= 0)
		ok = add_proxy_env(n, env) && network_tell_apt(trust_dir, 1, env);
	if (!ok || !end_env(env))
		return err_set(e, ENOMEM, "build the environment");
	if (!network_wants_trust(n))
		return 0;
	return truststore_env(env, trust_dir, host_has_java(), p->env_set, p->env_set_n, e);
}

int network_memfd(const char *name, const void *p, size_t len, struct err *e)
{
	cleanup_fd int fd = memfd_create(name, MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_set(e, errno, "make a memory file");
	r = fd_write_all(fd, p, len);
	if (r < 0)
		return err_set(e, -r, "write a memory file");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "rewind a memory file");
	return take_fd(&fd);
}

/* ---- after ---- */

uint64_t network_counter(const char *text, const char *prefix, const char *column)
{
	const char *names = strstr(text, prefix), *values;
	size_t at = 0, column_len = strlen(column);

	if (!names || !(values = strstr(names + 1, prefix)))
		return 0;
	for (const char *p = names; *p && *p != '\n'; at++) {
		size_t len = strcspn(p, " \n");

		if (len == column_len && strncmp(p, column, len) == 0)
			break;
		p += len + (p[len] == ' ');
		if (*p == '\n')
			return 0;
	}
	for (; at > 0; at--) {
		values += strcspn(values, " \n");
		values += *values == ' ';
	}
	return strtoull(values, NULL, 10);
}

/*
 * Datagrams that found no socket: the namespace counts them, and its files outlive its processes.
 */
void network_count(struct network *n)
{
	static const char *const names[] = {"Udp:", "Udp6NoPorts"};

	for (int i = 0; i < 2; i++) {
		char text[16384];
		ssize_t len =
			n->counters[i] < 0 ? -1 : pread(n->counters[i], text, sizeof(text) - 1, 0);
		const char *at;

		if (len <= 0)
			continue;
		text[len] = '\0';
		if (i == 0)
			n->datagrams_refused += network_counter(text, names[i], "NoPorts");
		else if ((at = strstr(text, names[i])))
			n->datagrams_refused += strtoull(at + strlen(names[i]), NULL, 10);
	}
}

void network_done(struct network *n)
{
	network_trust_done(n);
	for (int i = 0; i < 4; i++)
		close_fd(&n->listen[i]);
	for (int i = 0; i < NETWORK_PUBLISH_MAX && n->policy; i++)
		close_fd(&n->publish[i]);
	for (int i = 0; i < NETWORK_WAITING_MAX && n->policy; i++)
		close_fd(&n->waiting[i].fd);
	close_fd(&n->proxy);
	close_fd(&n->sock);
	close_fd(&n->keeper_sock);
	close_fd(&n->journal);
	close_fd(&n->program_fd);
	close_fd(&n->authority);
	close_fd(&n->rest_state);
	close_fd(&n->counters[0]);
	close_fd(&n->counters[1]);
	close_fd(&n->refuser);
	for (size_t i = 0; n->placeholders && i < n->policy->secrets_n; i++)
		free(n->placeholders[i]);
	free(n->placeholders);
	free(n->new_policy);
	free(n->first_policy);
	network_denials_done(n);
	for (size_t i = 0; i < n->hosts_n; i++)
		free(n->hosts[i].host), free(n->hosts[i].rule);
	free(n->hosts);
	for (size_t i = 0; i < n->asks_n; i++)
		free(n->asks[i].host), free(n->asks[i].method), free(n->asks[i].path), free(n->asks[i].query);
	free(n->asks);
	strlist_done(&n->notes);
	*n = NETWORK_INIT;
}

/* ---- in the receipt ---- */

void network_denials_json(const void *arg, struct json *j, const char *run_id, size_t first)
{
	const struct network *n = arg;
	const char *closed = network_own(n) ? "supervisor" : "broker";
	const char *seen_by = n->policy ? "gateway" : closed;

	for (size_t i = 0; i < n->denials_n; i++) {
		const struct network_denial *d = &n->denials[i];

		json_object(j, NULL);
		json_strf(j, "id", "%s.%zu", run_id, first + i + 1);
		json_str(j, "path", d->path);
		json_str(j, "operation", "network");
		json_str(j, "host", d->host);
		json_uint(j, "port", d->port);
		json_str(j, "method", d->method);
		json_str(j, "rule", d->rule[0] ? d->rule : "no rule grants it");
		json_str(j, "reason", d->why);
		json_str(j, "allow_with", d->fix);
		json_str(j, "seen_by", seen_by);
		json_uint(j, "count", d->count);
		if (d->shared)
			json_bool(j, "shared", true);
		json_end(j);
	}
}

void network_json(const struct network *n, struct json *j)
{
	json_object(j, "network");
	json_str(j, "gateway", network_state_names[n->state]);
	json_str(j, "mode", !n->policy ? NULL : network_own(n) ? "transparent" : "proxy");
	if (n->shared) {
		static const char *const unknown[] = {"connections", "requests", "up_b", "down_b",
			"datagrams_refused", "hosts"};

		for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
			json_null(j, unknown[i]);
		json_end(j);
		return;
	}
	json_uint(j, "connections", n->connections);
	json_uint(j, "requests", n->requests);
	json_uint(j, "up_b", n->up_b);
	json_uint(j, "down_b", n->down_b);
	json_uint(j, "datagrams_refused", n->datagrams_refused);
	json_array(j, "hosts");
	for (size_t i = 0; i < n->hosts_n; i++) {
		const struct network_host *h = &n->hosts[i];

		json_object(j, NULL);
		json_str(j, "host", h->host);
		json_uint(j, "port", h->port);
		json_str(j, "rule", h->rule);
		json_str(j, "mode", net_mode_names[h->mode]);
		json_uint(j, "connections", h->connections);
		json_uint(j, "requests", h->requests);
		json_uint(j, "up_b", h->up_b);
		json_uint(j, "down_b", h->down_b);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}
