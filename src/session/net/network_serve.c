/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway of a running sandbox: started by the first packet, heard, ended. See network.h.
 *
 * The gateway inherits nothing but its end of the control socket and the null device; everything
 * else comes by CONFIG. Our copies of the listeners stay, for when it rests (network_rest.c), and are closed
 * when it is lost: nothing is accepted that nobody judges.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/net/authority.h"
#include "session/net/network_impl.h"
#include "session/config/secrets.h"
#include "session/config/state.h"
#include "engine/init/init.h"
#include "os/clock.h"
#include "os/uapi.h"

#define FINISH_MS 3000    /* for the last words of a gateway */
#define DYING_MS 500      /* for the end of a process that was killed, or hung up */
#define NOTES_TOLD_MAX 16 /* a gateway's own words must not push ours out of the receipt */
#define POLICY_TEXT_MAX (4u << 20)

void network_note(struct network *n, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(2048);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < n->notes.n; i++)
		if (str_eq(n->notes.v[i], buf_str(&b)))
			return; /* gateways one after the other say the same */
	strlist_add(&n->notes, buf_str(&b));
}

/* ---- start ---- */

/* In the child of a vfork: nothing but system calls. */
_Noreturn static void become_gateway(const struct network *n, int sock, bool keeper)
{
	char *const argv[] = {(char *)"croft-gateway", keeper ? (char *)"--keeper" : NULL, NULL};
	char *const envp[] = {NULL};
	sigset_t none;
	/* Open beyond exec: by its number a script is found. The gateway closes it. */
	int null, program = fcntl(n->program_fd, F_DUPFD, GATEWAY_CONTROL_FD + 1);

	setpgid(0, 0); /* the terminal's signals are not for it */
	if (sock != GATEWAY_CONTROL_FD)
		dup2(sock, GATEWAY_CONTROL_FD);
	else
		fcntl(sock, F_SETFD, 0);
	null = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	if (program > GATEWAY_CONTROL_FD + 1)
		syscall(SYS_close_range, GATEWAY_CONTROL_FD + 1u, (unsigned)program - 1, 0u);
	syscall(SYS_close_range, (unsigned)program + 1, ~0u, 0u);
	for (int s = 1; s < 65; s++)
		if (s != SIGKILL && s != SIGSTOP)
			signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	syscall(SYS_execveat, program, "", argv, envp, AT_EMPTY_PATH);
	_exit(127);
}

static int spawn(const struct network *n, bool keeper, pid_t *ret_pid, int *ret_sock, struct err *e)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, errno, "make a socket for the gateway");
	/* A socket that lingers when it is closed would hold up whoever is made to close it: us. */
	setsockopt(pair[0], SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
	pid = vfork();
	if (pid == 0)
		become_gateway(n, pair[1], keeper);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_set(e, errno, "start the gateway");
	}
	*ret_pid = pid;
	*ret_sock = pair[0];
	return 0;
}

/* text NULL: the policy's own. */
static int policy_memfd(const struct network *n, const char *text, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(POLICY_TEXT_MAX);

	if (text)
		return network_memfd("policy", text, strlen(text), e);
	policy_network_text(n->policy, &b);
	if (b.failed)
		return err_set(e, ENOMEM, "write the network policy");
	return network_memfd("policy", b.data, b.len, e);
}

static int placeholders_memfd(const struct network *n, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);

	for (size_t i = 0; i < n->policy->secrets_n; i++)
		buf_addf(&b, "%s %s\n", n->policy->secrets[i].name, n->placeholders[i]);
	return b.failed ? err_set(e, ENOMEM, "list placeholders")
			: network_memfd("placeholders", b.data, b.len, e);
}

static void close_all(int fds[GATEWAY_FD_NUM])
{
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		close_fd(&fds[i]);
}

static void no_fds(int fds[GATEWAY_FD_NUM])
{
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = -1;
}

/* The keeper of secrets, and the gateway's line to it. */
static int start_keeper(struct network *n, int *ret_line, struct err *e)
{
	struct gateway_msg m = {.type = GATEWAY_CONFIG};
	const char *names[NET_SECRETS_MAX];
	int fds[GATEWAY_FD_NUM], line[2], r;

	no_fds(fds);
	for (size_t i = 0; i < n->policy->secrets_n; i++)
		names[i] = n->policy->secrets[i].name;
	if ((r = fds[GATEWAY_FD_POLICY] = policy_memfd(n, n->first_policy, e)) < 0 ||
		(r = fds[GATEWAY_FD_CA] = network_memfd("seed", n->seed, sizeof(n->seed), e)) < 0 ||
		(r = fds[GATEWAY_FD_OUTER] = secret_handover(names, n->policy->secrets_n, e)) < 0) {
		close_all(fds);
		return r;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) < 0) {
		close_all(fds);
		return err_set(e, errno, "make a socket for the keeper");
	}
	fds[GATEWAY_FD_KEEPER] = line[1];
	r = spawn(n, true, &n->keeper, &n->keeper_sock, e);
	if (r == 0 && (r = gateway_send(n->keeper_sock, &m, fds)) < 0)
		err_set(e, -r, "configure the keeper");
	close_all(fds);
	if (r < 0) {
		close(line[0]);
		return r;
	}
	*ret_line = line[0];
	return 0;
}

/* What every gateway of this sandbox is given, made with the first. */
static int prepare_lasting(struct network *n, struct err *e)
{
	int r = 0;

	if (n->journal < 0 && (n->journal = state_open_journal(n->home, n->run_id, e)) < 0) {
		network_note(n, "no journal of the network: %s", e->msg);
		*e = ERR_INIT;
	}
	if (n->rest_state < 0)
		r = n->rest_state = network_rest_state(e);
	if (r >= 0 && n->authority < 0 && network_wants_trust(n) &&
		(r = network_authority(n, e)) == 0)
		r = n->authority = network_memfd("authority", &n->ca, sizeof(n->ca), e);
	authority_wipe(&n->ca);
	return r;
}

static int configure(struct network *n, struct err *e)
{
	struct gateway_msg m = {
		.type = GATEWAY_CONFIG, .for_ms = n->rest_ms, .count = n->lives};
	int fds[GATEWAY_FD_NUM], made[GATEWAY_FD_NUM], r = prepare_lasting(n, e);

	no_fds(made);
	memcpy(m.token, n->token, sizeof(m.token));
	if (r >= 0)
		r = made[GATEWAY_FD_POLICY] = policy_memfd(n, n->first_policy, e);
	if (r >= 0 && n->new_policy)
		r = made[GATEWAY_FD_LATER] = policy_memfd(n, n->new_policy, e);
	if (r >= 0 && n->policy->secrets_n &&
		(r = start_keeper(n, &made[GATEWAY_FD_KEEPER], e)) == 0)
		r = made[GATEWAY_FD_PLACEHOLDERS] = placeholders_memfd(n, e);
	if (r >= 0) {
		memcpy(fds, made, sizeof(fds));
		fds[GATEWAY_FD_CA] = n->authority;
		fds[GATEWAY_FD_STATE] = n->rest_state;
		fds[GATEWAY_FD_JOURNAL] = n->journal;
		fds[GATEWAY_FD_PROXY] = n->proxy;
		for (int i = 0; i < 4; i++)
			fds[GATEWAY_FD_TCP4 + i] = n->listen[i];
		r = gateway_send(n->sock, &m, fds);
		if (r < 0)
			err_set(e, -r, "configure the gateway");
	}
	close_all(made);
	n->said = 0;
	n->lives++;
	return r < 0 ? r : 0;
}

/* Counted, so that a gateway that wants to rest can be asked whether it has heard all of it. */
static int say(struct network *n, struct gateway_msg *m, const int fds[GATEWAY_FD_NUM])
{
	int r = gateway_send(n->sock, m, fds);

	n->said += r == 0;
	return r;
}

/* Nobody serves, and the next packet starts who does. */
static bool listens(const struct network *n)
{
	return n->state == NETWORK_IDLE || n->state == NETWORK_RESTS;
}

/* How it ended, once it has: reaped then, so that nobody else with its number is meant. */
static bool reap(pid_t *pid, int *ret_status)
{
	cleanup_fd int fd = (int)syscall(SYS_pidfd_open, *pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd >= 0)
		poll(&p, 1, DYING_MS);
	if (waitpid(*pid, ret_status, fd >= 0 ? WNOHANG : 0) != *pid)
		return false; /* it will be ours until we end; nothing waits for it */
	*pid = 0;
	return true;
}

static void end_process(pid_t *pid)
{
	int status;

	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	reap(pid, &status);
}

/* Both at once: what is left of them must not go on with the sandbox's connections. */
void network_end_gateway(struct network *n)
{
	end_process(&n->pid);
	end_process(&n->keeper);
	close_fd(&n->sock);
	close_fd(&n->keeper_sock);
}

void network_lose(struct network *n, const char *why)
{
	if (n->state == NETWORK_LOST)
		return;
	network_end_gateway(n);
	n->state = NETWORK_LOST;
	network_note(n, "the gateway ended early (%s): no network from then on", why);
	close_fd(&n->proxy);
	for (int i = 0; i < 4; i++)
		close_fd(&n->listen[i]);
}

static void start(struct network *n)
{
	struct err e = ERR_INIT;

	n->state = NETWORK_SERVED;
	n->started_ms = clock_ms();
	if (!n->lives) /* what was set before is what it begins with */
		n->first_policy = take_ptr(n->new_policy);
	if (spawn(n, false, &n->pid, &n->sock, &e) < 0 || configure(n, &e) < 0)
		network_lose(n, e.msg);
}

void network_take(struct network *n, struct sandbox *b)
{
	if (!network_own(n))
		return;
	if (!n->policy) {
		n->refuser = take_fd(&b->fd[SANDBOX_FD_UDP4]);
		return;
	}
	for (int i = 0; i < 4; i++)
		n->listen[i] = take_fd(&b->fd[SANDBOX_FD_TCP4 + i]);
	network_counters(n, b);
}

void network_counters(struct network *n, const struct sandbox *b)
{
	static const char *const files[] = {"snmp", "snmp6"};
	char path[64];

	for (int i = 0; i < 2; i++) {
		if (n->counters[i] >= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/net/%s", b->pid, files[i]);
		n->counters[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
}

/* ---- what it says ---- */

static struct network_denial *find_denial(struct network *n, const struct gateway_msg *m)
{
	for (size_t i = 0; i < n->denials_n; i++) {
		struct network_denial *d = &n->denials[i];

		if (d->port == m->port && str_eq(d->host, m->host) &&
			str_eq(d->method, m->method) && str_eq(d->path, m->path) &&
			str_eq(d->rule, m->rule))
			return d;
	}
	return NULL;
}

void network_denied(struct network *n, const struct gateway_msg *m)
{
	struct network_denial *d = find_denial(n, m);

	if (d) { /* the gateway sends its own count again, the supervisor each one */
		d->count = n->policy ? MAX_OF(d->count, d->before + m->count)
				     : d->count + m->count;
		return;
	}
	if (!n->denials)
		n->denials = calloc(NETWORK_DENIALS_MAX, sizeof(*n->denials));
	if (!n->denials || n->denials_n == NETWORK_DENIALS_MAX) {
		n->denials_lost += MAX_OF(m->count, 1u);
		return;
	}
	d = &n->denials[n->denials_n];
	*d = (struct network_denial){.host = strdup(m->host),
		.method = strdup(m->method),
		.path = strdup(m->path),
		.rule = strdup(m->rule),
		.why = strdup(m->text),
		.fix = strdup(m->fix),
		.port = (uint16_t)m->port,
		.status = m->status,
		.count = MAX_OF(m->count, 1u)};
	if (d->host && d->method && d->path && d->rule && d->why && d->fix)
		n->denials_n++;
}

static struct network_host *find_host(struct network *n, const struct gateway_msg *m)
{
	for (size_t i = 0; i < n->hosts_n; i++) {
		struct network_host *h = &n->hosts[i];

		if (h->port == m->port && (uint32_t)h->mode == m->mode && str_eq(h->host, m->host) &&
			str_eq(h->rule, m->rule))
			return h;
	}
	return NULL;
}

static void on_host(struct network *n, const struct gateway_msg *m)
{
	struct network_host *h;

	n->requests += m->count;
	if ((h = find_host(n, m))) { /* of gateways before, or before they stayed after all */
		h->connections += m->connections;
		h->requests += m->count;
		h->up_b += m->up_b;
		h->down_b += m->down_b;
		return;
	}
	if (!n->hosts)
		n->hosts = calloc(NETWORK_HOSTS_MAX, sizeof(*n->hosts));
	if (!n->hosts || n->hosts_n == NETWORK_HOSTS_MAX)
		return;
	h = &n->hosts[n->hosts_n];
	*h = (struct network_host){.host = strdup(m->host),
		.rule = strdup(m->rule),
		.port = (uint16_t)m->port,
		.mode = m->mode < NET_MODE_NUM ? (enum net_mode)m->mode : NET_TCP,
		.connections = m->connections,
		.requests = m->count,
		.up_b = m->up_b,
		.down_b = m->down_b};
	if (h->host && h->rule)
		n->hosts_n++;
}

static void forget_ask(struct network *n, size_t i)
{
	struct network_ask *a = &n->asks[i];

	free(a->host), free(a->method), free(a->path), free(a->query);
	memmove(a, a + 1, (--n->asks_n - i) * sizeof(*a));
}

void network_ask_body(const struct network_ask *a, struct buf *out)
{
	if (a->body == GATEWAY_BODY_LENGTH)
		buf_addf(out, "%" PRIu64 " byte%s", a->body_b, a->body_b == 1 ? "" : "s");
	else
		buf_adds(out, a->body == GATEWAY_BODY_NONE ? "none" : "of unknown length");
}

void network_expire(struct network *n)
{
	uint64_t now = clock_ms();

	for (size_t i = 0; i < n->asks_n;)
		if (now - n->asks[i].since_ms >= n->ask_timeout_ms)
			forget_ask(n, i);
		else
			i++;
}

static void on_ask(struct network *n, const struct gateway_msg *m)
{
	struct network_ask *a;

	network_expire(n);
	if (!n->asks)
		n->asks = calloc(NETWORK_ASKS_MAX, sizeof(*n->asks));
	if (!n->asks || n->asks_n == NETWORK_ASKS_MAX)
		return; /* it will be denied when its time is over */
	a = &n->asks[n->asks_n];
	*a = (struct network_ask){.id = m->id,
		.host = strdup(m->host),
		.method = strdup(m->method),
		.path = strdup(m->path),
		.query = strdup(m->query),
		.port = (uint16_t)m->port,
		.body = m->body <= GATEWAY_BODY_STREAM ? (enum gateway_body)m->body
						       : GATEWAY_BODY_STREAM,
		.body_b = m->up_b,
		.since_ms = clock_ms()};
	if (a->host && a->method && a->path && a->query)
		n->asks_n++;
}

static void add_sums(struct network *n, const struct gateway_msg *m)
{
	n->connections += m->connections;
	n->up_b += m->up_b;
	n->down_b += m->down_b;
	n->denials_lost += m->count;
}

static void on_done(struct network *n, const struct gateway_msg *m)
{
	if (!n->ending)
		return; /* nobody asked it to end */
	add_sums(n, m);
	n->done = true;
}

/* The keeper tells only what it refused, and what weakens it. */
static void on_message(struct network *n, const struct gateway_msg *m, bool keeper)
{
	cleanup_buf struct buf text = BUF_INIT(4096);

	if (keeper && m->type != GATEWAY_DENIAL && m->type != GATEWAY_NOTE)
		return;
	switch (m->type) {
	case GATEWAY_DENIAL:
		network_denied(n, m);
		break;
	case GATEWAY_HOST:
		on_host(n, m);
		break;
	case GATEWAY_ASK:
		on_ask(n, m);
		break;
	case GATEWAY_NOTE:
		if (n->notes_told++ >= NOTES_TOLD_MAX)
			break;
		str_show(&text, m->text, strlen(m->text));
		network_note(n, "%s", buf_str(&text));
		break;
	case GATEWAY_DONE:
		on_done(n, m);
		break;
	case GATEWAY_REST:
		add_sums(n, m);
		network_rest(n, m);
		break;
	default:
		break;
	}
}

/* How one that hung up ended, in words. */
static void ended(pid_t *pid, char *ret, size_t size)
{
	int status = 0;

	if (*pid <= 0 || !reap(pid, &status))
		snprintf(ret, size, "it closed its socket");
	else if (WIFSIGNALED(status))
		snprintf(ret, size, "signal %d", WTERMSIG(status));
	else
		snprintf(ret, size, "exit status %d", WEXITSTATUS(status));
}

static void hear(struct network *n, int *sock, pid_t *pid)
{
	for (int i = 0; i < 256 && *sock >= 0; i++) {
		struct gateway_msg m;
		int fds[GATEWAY_FD_NUM], r = gateway_receive_now(*sock, &m, fds);
		char how[64];

		close_all(fds);
		if (r == -EAGAIN)
			return;
		if (r == 1) {
			on_message(n, &m, sock == &n->keeper_sock);
			continue;
		}
		if (n->done) {
			close_fd(sock);
			return;
		}
		if (r == 0)
			ended(pid, how, sizeof(how));
		network_lose(n, r < 0 ? "it sent what nobody understands" : how);
	}
}

void network_hear_keeper(struct network *n)
{
	hear(n, &n->keeper_sock, &n->keeper);
}

/* ---- published ports ---- */

static void on_published(struct network *n, size_t i, struct sandbox *b)
{
	struct control_msg m = {.type = CONTROL_CONNECT, .status = n->policy->publish[i].inside};
	cleanup_fd int fd = accept4(n->publish[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	while (m.id < NETWORK_WAITING_MAX && n->waiting[m.id].fd >= 0)
		m.id++;
	if (fd < 0 || m.id == NETWORK_WAITING_MAX || control_send(b->control, &m, NULL, 0) < 0)
		return;
	n->waiting[m.id] = (struct network_waiting){take_fd(&fd), n->policy->publish[i].inside};
	n->waiting_n++;
}

void network_connected(struct network *n, uint32_t id, int fd)
{
	struct gateway_msg m = {.type = GATEWAY_RELAY};
	int fds[GATEWAY_FD_NUM];

	if (id >= NETWORK_WAITING_MAX || n->waiting[id].fd < 0)
		return;
	no_fds(fds);
	m.port = n->waiting[id].port;
	fds[GATEWAY_FD_OUTER] = take_fd(&n->waiting[id].fd);
	n->waiting_n--;
	if (fd >= 0 && listens(n))
		start(n);
	if (fd >= 0 && n->sock >= 0) {
		fds[GATEWAY_FD_INNER] = fd;
		say(n, &m, fds);
		fds[GATEWAY_FD_INNER] = -1;
	}
	close_all(fds);
}

/* ---- loop ---- */

int network_fds(struct network *n, struct pollfd p[NETWORK_FDS_MAX])
{
	int count = 0;

	if (n->refuser >= 0)
		p[count++] = (struct pollfd){.fd = n->refuser, .events = POLLIN};
	if (!n->policy)
		return count;
	if (listens(n)) {
		for (int i = 0; i < 4; i++)
			if (n->listen[i] >= 0)
				p[count++] = (struct pollfd){.fd = n->listen[i], .events = POLLIN};
		if (n->proxy >= 0)
			p[count++] = (struct pollfd){.fd = n->proxy, .events = POLLIN};
	}
	if (n->sock >= 0)
		p[count++] = (struct pollfd){.fd = n->sock, .events = POLLIN};
	if (n->keeper_sock >= 0)
		p[count++] = (struct pollfd){.fd = n->keeper_sock, .events = POLLIN};
	for (size_t i = 0; i < n->policy->publish_n; i++)
		if (n->publish[i] >= 0 && n->waiting_n < NETWORK_WAITING_MAX)
			p[count++] = (struct pollfd){.fd = n->publish[i], .events = POLLIN};
	return count;
}

void network_handle(struct network *n, const struct pollfd *p, int count, struct sandbox *b)
{
	for (int k = 0; k < count; k++) {
		if (!p[k].revents)
			continue;
		if (p[k].fd == n->refuser) {
			network_closed_serve(n);
			continue;
		}
		if (p[k].fd == n->sock) {
			hear(n, &n->sock, &n->pid);
			continue;
		}
		if (p[k].fd == n->keeper_sock) {
			hear(n, &n->keeper_sock, &n->keeper);
			continue;
		}
		for (size_t i = 0; i < n->policy->publish_n; i++)
			if (p[k].fd == n->publish[i])
				on_published(n, i, b);
		for (int i = 0; i < 4; i++)
			if (listens(n) &&
				(p[k].fd == n->listen[i] || p[k].fd == n->proxy))
				start(n);
	}
}

void network_finish(struct network *n)
{
	struct gateway_msg m = {.type = GATEWAY_END};
	uint64_t until = clock_ms() + FINISH_MS, now;

	if (!n->policy) {
		network_closed_finish(n);
		return;
	}
	network_count(n);
	for (int i = 0; i < 4; i++)
		close_fd(&n->listen[i]);
	close_fd(&n->proxy);
	n->ending = true;
	if (n->sock >= 0 && say(n, &m, NULL) < 0)
		network_lose(n, "it does not listen");
	while (n->sock >= 0 && !n->done && (now = clock_ms()) < until) {
		struct pollfd p = {.fd = n->sock, .events = POLLIN};

		if (poll(&p, 1, (int)(until - now)) > 0)
			hear(n, &n->sock, &n->pid);
	}
	if (n->sock >= 0 && !n->done)
		network_note(n, "the gateway did not finish its account");
	end_process(&n->pid);
	end_process(&n->keeper);
}

/* ---- live changes ---- */

const struct network_ask *network_first_ask(struct network *n)
{
	if (n->asks_n)
		network_expire(n);
	return n->asks_n ? &n->asks[0] : NULL;
}

int network_answer(struct network *n, uint64_t id, enum net_effect effect, uint64_t for_ms)
{
	struct gateway_msg m = {
		.type = GATEWAY_VERDICT, .id = id, .effect = (uint32_t)effect, .for_ms = for_ms};

	network_first_ask(n);
	for (size_t i = 0; i < n->asks_n; i++) {
		if (n->asks[i].id != id)
			continue;
		forget_ask(n, i);
		return n->sock >= 0 ? say(n, &m, NULL) : -EPIPE;
	}
	return -ENOENT;
}

static bool same_texts(const char *const *a, size_t a_n, const char *const *b, size_t b_n)
{
	bool same = a_n == b_n;

	for (size_t i = 0; same && i < a_n; i++)
		same = str_eq(a[i], b[i]);
	return same;
}

static int send_policy(struct network *n, const char *text, struct err *e)
{
	struct gateway_msg m = {.type = GATEWAY_POLICY};
	int fds[GATEWAY_FD_NUM], r;

	no_fds(fds);
	if ((r = fds[GATEWAY_FD_POLICY] = policy_memfd(n, text, e)) < 0)
		return r;
	r = say(n, &m, fds);
	close_all(fds);
	return r < 0 ? err_set(e, -r, "send the new policy") : 0;
}

int network_swap(struct network *n, const char *text, size_t len, struct err *e)
{
	cleanup_free char *copy = NULL;
	struct net_policy *parsed;
	uint64_t ask_timeout_ms;
	int r;

	if (!n->policy)
		return err_refuse(e, "this sandbox was started without network rules, and has no way out "
				     "that could be opened; end it, and start it with network rules");
	if (n->state == NETWORK_LOST)
		return err_refuse(
			e, "the gateway of this run has ended; nothing can be opened any more");
	r = policy_network_parse(&parsed, text, len, e);
	if (r < 0)
		return r;
	ask_timeout_ms = parsed->ask_timeout_ms;
	if (!same_texts(parsed->trust, parsed->trust_n, n->policy->trust, n->policy->trust_n))
		r = err_refuse(
			e, "the files of `trust` are read when a run starts; start it again");
	else if (parsed->secrets_n || parsed->publish_n)
		r = err_refuse(e, "secrets and published ports are fixed when a run starts");
	policy_network_free(parsed);
	if (r < 0)
		return r;
	copy = strndup(text, len);
	if (!copy)
		return err_set(e, ENOMEM, "keep the new policy");
	if (n->sock >= 0 && (r = send_policy(n, copy, e)) < 0)
		return r;
	/* A gateway that is started later begins with what this one has, or with this if there is none. */
	free(n->new_policy);
	n->new_policy = take_ptr(copy);
	n->ask_timeout_ms =
		MAX_OF(n->ask_timeout_ms, ask_timeout_ms); /* some still wait by the old */
	return 0;
}
