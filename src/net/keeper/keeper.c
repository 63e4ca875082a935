/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's process: see keeper.h.
 *
 * Order:  no core dumps, not dumpable -> CONFIG -> policy, seed, values -> roots, resolvers ->
 *         confined -> READY -> serve -> END, or the supervisor's end closes. A secret that is not
 *         stored ends it before READY.
 * Trust:  the control socket is the supervisor's and believed; what comes from the gateway is
 *         checked for form here and for meaning per request.
 */
#include "net/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/pass.h"
#include "net/gateway/confine.h"
#include "net/gateway/generation.h"
#include "net/keeper/keeper_impl.h"
#include "net/reach/resolver.h"
#include "net/tls/tls.h"

#define EXIT_KEEPER_FAILED 125

/* ---- told to the supervisor ---- */

/* Never waits: a supervisor that does not listen loses what is told, not the service. */
static void say(int control, struct gateway_msg *m)
{
	gateway_send(control, m, NULL);
}

static void note(int control, const char *text)
{
	struct gateway_msg m = {.type = GATEWAY_NOTE};

	snprintf(m.text, sizeof(m.text), "%.500s", text);
	say(control, &m);
}

void keeper_tell(struct keeper *k, const struct conn *c, unsigned status, const char *why)
{
	struct gateway_msg m = {.type = GATEWAY_DENIAL,
		.mode = NET_HTTP,
		.port = c->port,
		.status = status,
		.count = 1};

	if (k->told >= KEEPER_TOLD_MAX)
		return;
	m.id = ++k->told;
	snprintf(m.host, sizeof(m.host), "%s", c->host);
	snprintf(m.method, sizeof(m.method), "%s", c->has_req ? c->req.method : "HTTP");
	snprintf(m.path, sizeof(m.path), "%.500s", c->has_req ? c->req.path : "");
	snprintf(m.rule, sizeof(m.rule), "network.secrets");
	snprintf(m.text, sizeof(m.text), "%.500s", why);
	say(k->gw.control, &m);
}

/* ---- from the gateway ---- */

/* A name in its one spelling, a port, a stream socket: else it is not carried. */
static bool open_valid(const struct keeper_open *o, int fd)
{
	char name[NET_NAME_MAX + 1];
	size_t n = strnlen(o->host, sizeof(o->host));
	int type = 0;
	socklen_t len = sizeof(type);

	return n < sizeof(o->host) && net_name(name, o->host, n) && str_eq(name, o->host) &&
	       o->port && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_STREAM;
}

static void on_opens(void *arg, uint32_t events)
{
	struct keeper *k = arg;

	for (int i = 0; i < 64; i++) {
		struct keeper_open o;
		cleanup_fd int fd = -1;
		int r = pass_receive(k->opens, &o, sizeof(o), &fd);

		if (r == -EAGAIN)
			return;
		if (r == -EBADMSG || (r == 0 && !(events & EPOLLHUP)))
			continue; /* an empty message reads like an end */
		if (r <= 0) { /* the gateway is gone; what is open is finished, nothing new comes */
			loop_unwatch(&k->opens_watch);
			return;
		}
		/* Closing it unheard is the answer to what makes no sense, or is too much. */
		if (open_valid(&o, fd) && k->conns_n < KEEPER_CONNS_MAX)
			conn_open(k, take_fd(&fd), &o);
	}
}

/* ---- policy ---- */

/* Dials under way belong to connections that conn_reload() ends, so the old policy can go. */
int keeper_reload(struct keeper *k, int policy, int from, struct err *e)
{
	struct generation *old = k->gw.gen, *g = NULL;
	struct conn *next;
	int r = generation_load(&g, policy, old->number + 1, e);

	if (r == 0) {
		k->gw.gen = g;
		resolver_policy(k->gw.resolver, g->policy);
		r = vault_load(&k->vault, g->policy, from, e);
	} else {
		vault_forget(&k->vault);
	}
	for (struct conn *c = k->conns; c; c = next) {
		next = c->next;
		conn_reload(c);
	}
	up_close_idle(k);
	if (g)
		generation_drop(old);
	return r;
}

/* ---- life ---- */

int keeper_init(struct keeper *k, int control, int opens, int policy, int store,
	const uint8_t seed[VAULT_SEED_LEN], struct err *e)
{
	int r;

	*k = (struct keeper){.gw = {.control = control, .keeper = -1, .journal_fd = -1},
		.opens = opens,
		.dial = dial_start,
		.dial_cancel = dial_cancel};
	r = generation_load(&k->gw.gen, policy, 1, e);
	if (r == 0)
		r = vault_init(&k->vault, seed, e);
	if (r == 0 && secret_init(&k->stage, KEEPER_STAGE_B) < 0)
		r = err_set(e, ENOMEM, "make memory for secrets");
	if (r == 0)
		r = vault_load(&k->vault, k->gw.gen->policy, store, e);
	if (r == 0)
		k->gw.loop = loop_new(e);
	if (r < 0 || !k->gw.loop)
		return r < 0 ? r : -ENOMEM;
	addr_host_load(&k->gw.host);
	k->gw.resolver = resolver_new(k->gw.loop, k->gw.gen->policy, e);
	if (!k->gw.resolver)
		return e->errnum ? -e->errnum : -ENOMEM;
	r = tls_new(&k->gw.tls, NULL, k->gw.gen->policy, e);
	if (r < 0)
		return r;
	r = loop_watch(k->gw.loop, &k->opens_watch, opens, EPOLLIN, on_opens, k);
	return r < 0 ? err_set(e, -r, "watch the gateway") : 0;
}

void keeper_done(struct keeper *k)
{
	while (k->conns)
		conn_end(k->conns);
	up_close_idle(k);
	if (k->gw.loop) {
		loop_unwatch(&k->opens_watch);
		loop_unwatch(&k->control_watch);
	}
	resolver_free(k->gw.resolver);
	tls_free(k->gw.tls);
	loop_free(k->gw.loop);
	if (k->gw.gen)
		generation_drop(k->gw.gen);
	vault_done(&k->vault);
	secret_done(&k->stage);
	close_fd(&k->opens);
}

/* ---- the supervisor ---- */

static void on_policy(struct keeper *k, const int fds[GATEWAY_FD_NUM])
{
	struct err e = ERR_INIT;

	if (keeper_reload(k, fds[GATEWAY_FD_POLICY], fds[GATEWAY_FD_OUTER], &e) < 0)
		note(k->gw.control, e.msg);
}

static void on_control(void *arg, uint32_t events)
{
	struct keeper *k = arg;
	int fds[GATEWAY_FD_NUM];
	struct gateway_msg m;
	int r = gateway_receive(k->gw.control, &m, fds);

	if (r == -EAGAIN || r == -EBADMSG)
		return;
	if (r <= 0 || m.type == GATEWAY_END)
		loop_stop(k->gw.loop);
	else if (m.type == GATEWAY_POLICY)
		on_policy(k, fds);
	for (int i = 0; r > 0 && i < GATEWAY_FD_NUM; i++)
		close_fd(&fds[i]);
}

/*
 * Nothing that looks at this process, or at what is left of it, finds a value: not dumpable, no
 * core, no swap.
 */
static int hide(struct err *e)
{
	struct rlimit locked = {0};
	int r = confine_early(GATEWAY_CONTROL_FD, e);

	if (r < 0)
		return r;
	if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < locked.rlim_max) {
		locked.rlim_cur = locked.rlim_max;
		setrlimit(RLIMIT_MEMLOCK, &locked);
	}
	/*
	 * Without a limit everything may be locked: copies that libraries make stay out of swap,
	 * too.
	 */
	if (locked.rlim_cur == RLIM_INFINITY)
		mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
	return 0;
}

/* CONFIG, everything in it read and closed. */
static int configure(struct keeper *k, int control, struct err *e)
{
	uint8_t seed[VAULT_SEED_LEN + 1]; /* one more, to see that there is no more */
	int fds[GATEWAY_FD_NUM];
	struct gateway_msg m;
	int r = gateway_receive(control, &m, fds);

	if (r <= 0 || m.type != GATEWAY_CONFIG)
		return err_set(e, r < 0 ? -r : EPIPE, "receive the configuration");
	if (fds[GATEWAY_FD_POLICY] < 0 || fds[GATEWAY_FD_CA] < 0 || fds[GATEWAY_FD_KEEPER] < 0 ||
		fds[GATEWAY_FD_OUTER] < 0)
		r = err_invalid(e, "the keeper's configuration is not complete");
	else if (pread(fds[GATEWAY_FD_CA], seed, sizeof(seed), 0) != VAULT_SEED_LEN)
		r = err_invalid(e, "the seed of placeholders is not %d bytes", VAULT_SEED_LEN);
	else
		r = keeper_init(k, control, take_fd(&fds[GATEWAY_FD_KEEPER]),
			fds[GATEWAY_FD_POLICY], fds[GATEWAY_FD_OUTER], seed, e);
	explicit_bzero(seed, sizeof(seed));
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		close_fd(&fds[i]);
	return r;
}

static int start(struct keeper *k, int control, struct err *e)
{
	const char *degraded = NULL;
	int r = hide(e);

	if (r == 0)
		r = configure(k, control, e);
	if (r < 0)
		return r;
	if (fcntl(control, F_SETFL, O_NONBLOCK) < 0)
		return err_set(e, errno, "watch the supervisor");
	r = loop_watch(k->gw.loop, &k->control_watch, control, EPOLLIN, on_control, k);
	if (r < 0)
		return err_set(e, -r, "watch the supervisor");
	if (!vault_locked(&k->vault) || !k->stage.locked)
		note(control, "secret values could not be locked in memory (RLIMIT_MEMLOCK) and "
			      "may be swapped");
	r = confine(&degraded, e);
	if (r < 0)
		return r;
	if (degraded)
		note(control, degraded);
	return 0;
}

int keeper_main(void)
{
	struct gateway_msg m = {.type = GATEWAY_READY};
	struct keeper k = {.opens = -1};
	struct err e = ERR_INIT;
	int control = GATEWAY_CONTROL_FD;

	if (start(&k, control, &e) < 0) {
		note(control, e.msg);
		keeper_done(&k);
		return EXIT_KEEPER_FAILED;
	}
	say(control, &m);
	loop_run(k.gw.loop);
	m = (struct gateway_msg){.type = GATEWAY_DONE, .count = k.told};
	keeper_done(&k);
	say(control, &m);
	return 0;
}
