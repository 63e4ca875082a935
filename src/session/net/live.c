/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to a running supervisor: see live.h. */
#include "session/net/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "session/config/state.h"
#include "os/clock.h"
#include "os/path.h"
#include "os/tree.h"

#define ANSWER_MS 2000
#define SWEEP_MAX 8

static int open_dir(const char *home, bool create, char *path, size_t size, struct err *e)
{
	size_t n;
	int fd;

	if (state_path(path, size - 8, home, e) < 0)
		return -e->errnum;
	n = strlen(path);
	snprintf(path + n, size - n, "/live");
	fd = create ? dir_make(path, 0700) : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && create)
		return err_set(e, -fd, "make %s", path);
	return fd < 0 ? -errno : fd;
}

/* Through the directory's descriptor: the path may be longer than a socket's name can be. */
static void name_socket(struct sockaddr_un *a, int dir, const char *run_id)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(a->sun_path, sizeof(a->sun_path), "/proc/self/fd/%d/%.40s", dir, run_id);
}

/* Sockets of supervisors that were killed: nobody answers there. A few at a time. */
static void sweep(int dir)
{
	cleanup_dir DIR *d = dir_list(dir, ".");
	struct dirent *de;
	int tries = SWEEP_MAX;

	while (d && tries > 0 && (de = readdir(d))) {
		cleanup_fd int s = -1;
		struct sockaddr_un a;

		if (de->d_name[0] == '.')
			continue;
		tries--;
		s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		name_socket(&a, dir, de->d_name);
		if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a)) < 0 &&
			errno == ECONNREFUSED)
			unlinkat(dir, de->d_name, 0);
	}
}

int live_open(struct live *l, const char *home, const char *run_id, struct err *e)
{
	char path[4096];
	cleanup_fd int dir = open_dir(home, true, path, sizeof(path), e);
	cleanup_fd int fd = -1;
	struct sockaddr_un a;

	if (dir < 0)
		return dir;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	name_socket(&a, dir, run_id);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0)
		return err_set(e, errno, "listen for decisions");
	sweep(dir);
	l->dir = take_fd(&dir);
	snprintf(l->name, sizeof(l->name), "%.40s", run_id);
	l->fd = take_fd(&fd);
	return 0;
}

void live_close(struct live *l)
{
	if (l->fd >= 0)
		unlinkat(l->dir, l->name, 0);
	close_fd(&l->fd);
	close_fd(&l->dir);
}

/* ---- the supervisor's side ---- */

static void tell_pending(struct network *n, struct buf *out)
{
	uint64_t now = clock_ms();

	network_expire(n);
	for (size_t i = 0; i < n->asks_n; i++) {
		const struct network_ask *a = &n->asks[i];
		cleanup_buf struct buf b = BUF_INIT(16384);

		/*
		 * Fields are separated by tabs; text from the sandbox is shown, so it holds none.
		 */
		str_show(&b, a->host, strlen(a->host));
		buf_addf(&b, "\t%u\t", a->port);
		str_show(&b, a->method, strlen(a->method));
		buf_addc(&b, '\t');
		str_show(&b, a->path, strlen(a->path));
		buf_addc(&b, '\t');
		str_show(&b, a->query, strlen(a->query));
		buf_addc(&b, '\t');
		network_ask_body(a, &b);
		buf_addf(out, "%s.%" PRIu64 "\t%s\t%" PRIu64 "\n", n->run_id, a->id, buf_str(&b),
			now - a->since_ms);
	}
}

static void decide(struct network *n, const char *text, struct buf *out)
{
	uint64_t id, for_ms, effect;
	char words[3][24];
	int r;

	if (sscanf(text, "decide %23s %23s %23s", words[0], words[1], words[2]) != 3 ||
		!str_u64(words[0], UINT64_MAX, &id) || !str_u64(words[1], NET_ALLOW, &effect) ||
		!str_u64(words[2], UINT64_MAX, &for_ms)) {
		buf_adds(out, "error not understood");
		return;
	}
	r = network_answer(n, id, (enum net_effect)effect, for_ms);
	buf_adds(out, r == -ENOENT ? "error no connection with that number is waiting"
		      : r < 0      ? "error the gateway does not listen"
				   : "ok");
}

static void answer(struct network *n, const char *text, size_t len, struct buf *out)
{
	struct err e = ERR_INIT;

	if (str_eq(text, "pending"))
		tell_pending(n, out);
	else if (str_starts(text, "decide "))
		decide(n, text, out);
	else if (str_starts(text, "policy\n"))
		buf_addf(out, "%s%s", network_swap(n, text + 7, len - 7, &e) < 0 ? "error " : "ok",
			e.msg);
	else
		buf_adds(out, "error not understood");
}

void live_serve(struct live *l, struct network *n)
{
	cleanup_buf struct buf out = BUF_INIT(LIVE_ANSWER_MAX);
	cleanup_free char *text = malloc(LIVE_REQUEST_MAX + 1);
	cleanup_fd int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct ucred who;
	socklen_t n_who = sizeof(who);
	ssize_t len;

	if (fd < 0 || !text || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n_who) < 0 ||
		(who.uid != geteuid() && who.uid != 0))
		return;
	if (poll(&p, 1, 100) != 1) /* our own client sends at once */
		return;
	len = recv(fd, text, LIVE_REQUEST_MAX, MSG_DONTWAIT | MSG_TRUNC);
	if (len <= 0 || (size_t)len > LIVE_REQUEST_MAX)
		return;
	text[len] = '\0';
	answer(n, text, (size_t)len, &out);
	send(fd, buf_str(&out), out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- the caller's side ---- */

static int ask_run(
	int dir, const char *run_id, const char *text, size_t len, struct buf *out, struct err *e)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cleanup_free char *in = malloc(LIVE_ANSWER_MAX);
	int size = (int)(LIVE_REQUEST_MAX + 4096);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct sockaddr_un a;
	ssize_t n;

	if (fd < 0 || !in)
		return err_set(e, ENOMEM, "talk to run %s", run_id);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	name_socket(&a, dir, run_id);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		int why = errno;

		err_invalid(
			e, "no run %s is listening; croft pending shows those that wait", run_id);
		e->errnum = why;
		return -why;
	}
	if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
		return err_set(e, errno, "talk to run %s", run_id);
	if (poll(&p, 1, ANSWER_MS) != 1)
		return err_set(e, ETIMEDOUT, "run %s does not answer", run_id);
	n = recv(fd, in, LIVE_ANSWER_MAX, 0);
	if (n < 0)
		return err_set(e, errno, "run %s does not answer", run_id);
	buf_add(out, in, (size_t)n);
	return 0;
}

static bool is_run_id(const char *s)
{
	return str_hex(s, 1, 40);
}

static void pending_line(char *line, struct json *j, bool as_json, struct buf *out)
{
	static const char *const keys[] = {
		"id", "host", "port", "method", "path", "query", "body", "waiting_ms"};
	char *f[ARRAY_SIZE(keys)] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!(f[i] = strsep(&line, "\t")))
			return;
	if (!as_json) {
		buf_addf(out, "%-16s %s%s%s:%s%s%s%s  ", f[0], f[3], *f[3] ? " " : "", f[1], f[2],
			f[4], *f[5] ? "?" : "", f[5]);
		if (*f[4]) /* a request, rather than a connection */
			buf_addf(out, "body: %s  ", f[6]);
		buf_addf(out, "(%s ms)\n", f[7]);
		return;
	}
	json_object(j, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		json_str(j, keys[i], f[i]);
	json_end(j);
}

int live_pending(const char *home, bool as_json, struct buf *out, struct err *e)
{
	char path[4096];
	int fd = open_dir(home, false, path, sizeof(path), e);
	cleanup_dir DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	struct json j;

	json_init(&j, out, true);
	if (as_json)
		json_array(&j, NULL);
	while (d && (de = readdir(d))) {
		cleanup_buf struct buf b = BUF_INIT(LIVE_ANSWER_MAX);
		struct err why = ERR_INIT;
		char *at;

		if (!is_run_id(de->d_name))
			continue;
		if (ask_run(fd, de->d_name, "pending", 7, &b, &why) < 0) {
			if (why.errnum == ECONNREFUSED) /* a supervisor that was killed left it */
				unlinkat(fd, de->d_name, 0);
			continue;
		}
		at = b.data;
		for (char *line; at && (line = strsep(&at, "\n")) && *line;)
			pending_line(line, &j, as_json, out);
	}
	if (as_json) {
		json_end(&j);
		buf_addc(out, '\n');
	}
	return 0;
}

static int request(
	const char *home, const char *run_id, const char *text, size_t len, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(LIVE_ANSWER_MAX);
	char path[4096];
	cleanup_fd int dir = open_dir(home, false, path, sizeof(path), e);
	int r;

	if (!is_run_id(run_id))
		return err_invalid(
			e, "%.64s is not a run id (as croft pending and receipts show it)", run_id);
	if (dir < 0)
		return err_invalid(e, "no run is listening; only runs with network rules do");
	r = ask_run(dir, run_id, text, len, &b, e);
	if (r < 0)
		return r;
	if (str_starts(buf_str(&b), "error "))
		return err_refuse(e, "%.500s", buf_str(&b) + 6);
	return 0;
}

int live_decide(
	const char *home, const char *id, enum net_effect effect, uint64_t for_ms, struct err *e)
{
	char run[64] = "", text[128];
	const char *dot = strrchr(id, '.');
	uint64_t n;

	if (!dot || (size_t)(dot - id) >= sizeof(run) || !str_u64(dot + 1, UINT64_MAX, &n))
		return err_invalid(e, "%.64s is not an id as croft pending shows it (RUN.N)", id);
	memcpy(run, id, (size_t)(dot - id));
	snprintf(text, sizeof(text), "decide %" PRIu64 " %d %" PRIu64, n, (int)effect, for_ms);
	return request(home, run, text, strlen(text), e);
}

int live_set_policy(const char *home, const char *run_id, const struct net_policy *p, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(LIVE_REQUEST_MAX);

	buf_adds(&b, "policy\n");
	policy_network_text(p, &b);
	if (b.failed)
		return err_invalid(e, "the policy is too long to be sent to a running sandbox");
	return request(home, run_id, b.data, b.len, e);
}
