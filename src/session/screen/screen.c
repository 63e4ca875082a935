/* SPDX-License-Identifier: Apache-2.0 */
/* The session's side of croft-screen: see screen.h. */
#include "session/screen/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/forced.h"
#include "session/screen/model.h"

#define ROUNDS 32          /* messages before others in the loop have their turn */
#define KEEP_B (64u << 10) /* of memory for orders, once all are sent */
#define ANSWERS_MAX (SCREEN_DUMP_MAX / SCREEN_PART_MAX + 1)
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* ---- start ---- */

int screen_program(char *ret, size_t size, struct err *e)
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
		len = snprintf(ret, size, "%s/libexec/croft/croft-screen", own);
	} else {
		len = snprintf(ret, size, "%s/croft-screen", own);
	}
	return (size_t)len < size ? 0 : err_set(e, ENAMETOOLONG, "find croft-screen");
}

static int spawn(pid_t *ret, const char *program, int sock)
{
	char *argv[] = {(char *)"croft-screen", NULL}, *envp[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r = posix_spawn_file_actions_init(&actions);

	if (r != 0)
		return r;
	r = posix_spawnattr_init(&attr);
	if (r == 0) {
		sigemptyset(&none);
		sigfillset(&all);
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setsigdefault(&attr, &all);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
		r = posix_spawn_file_actions_adddup2(&actions, sock, SCREEN_FD);
		if (r == 0)
			r = posix_spawn(ret, program, &actions, &attr, argv, envp);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int screen_start(struct screen *s, const char *program, unsigned rows, unsigned cols, struct err *e)
{
	int pair[2], r;

	*s = SCREEN_INIT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, errno, "make a socket for croft-screen");
	r = spawn(&s->pid, program, pair[1]);
	close(pair[1]);
	if (r != 0) {
		close(pair[0]);
		return err_set(e, r, "start %s", program);
	}
	s->sock = pair[0];
	s->pidfd = forced_fail("pidfd_open") ? -1 : (int)syscall(SYS_pidfd_open, s->pid, 0);
	screen_resize(s, rows, cols);
	return 0;
}

/* ---- end ---- */

/* It has been killed or is about to end by itself, so this takes a moment. */
static void reap(struct screen *s, char *how, size_t size)
{
	siginfo_t si = {0};

	if (s->pidfd >= 0) {
		syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
		while (waitid((idtype_t)P_PIDFD, (id_t)s->pidfd, &si, WEXITED) < 0 &&
			errno == EINTR)
			;
	} else if (s->pid > 0) { /* without pidfds nobody else may wait for our children */
		kill(s->pid, SIGKILL);
		while (waitid(P_PID, (id_t)s->pid, &si, WEXITED) < 0 && errno == EINTR)
			;
	}
	if (si.si_code == CLD_EXITED)
		snprintf(how, size, "ended with status %d", si.si_status);
	else if (si.si_pid)
		snprintf(how, size, "was ended by signal %d", si.si_status);
	else
		snprintf(how, size, "ended"); /* somebody else has waited for it */
}

static void finish_dump(struct screen *s, const struct screen_picture *p)
{
	screen_done_fn *done = take_ptr(s->done);

	if (done)
		done(s->arg, p); /* the last thing: it may stop or ask again */
}

/* why: NULL it was stopped, "" it ended by itself. */
static void end(struct screen *s, const char *why)
{
	char how[48];

	if (s->sock < 0)
		return;
	close_fd(&s->sock);
	reap(s, how, sizeof(how));
	close_fd(&s->pidfd);
	s->pid = -1;
	buf_done(&s->pending);
	buf_done(&s->dump);
	s->sent = s->last = 0;
	if (why)
		snprintf(s->gone, sizeof(s->gone), "the screen model is gone: croft-screen %s",
			*why ? why : how);
}

static void gone(struct screen *s, const char *why)
{
	end(s, why);
	finish_dump(s, NULL);
}

void screen_stop(struct screen *s)
{
	end(s, NULL);
	finish_dump(s, NULL);
}

/* ---- orders ---- */

/* False: not now. A socket whose other end is gone takes anything; poll tells about it. */
static bool send_now(struct screen *s, const void *head, size_t head_n, const void *p, size_t n)
{
	struct iovec v[2] = {{(void *)head, head_n}, {(void *)p, n}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = n ? 2 : 1};
	ssize_t w;

	do {
		w = sendmsg(s->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (w < 0 && errno == EINTR);
	return w >= 0 || errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
}

static size_t left(const struct screen *s)
{
	return s->pending.len - s->sent;
}

/* What was sent makes room when it is half of all. */
static void compact(struct screen *s)
{
	if (left(s) == 0) {
		buf_reset(&s->pending);
		if (s->pending.cap > KEEP_B)
			buf_done(&s->pending);
		s->sent = s->last = 0;
	} else if (s->sent > left(s)) {
		memmove(s->pending.data, s->pending.data + s->sent, left(s));
		s->pending.len -= s->sent;
		s->last -= MIN_OF(s->last, s->sent);
		s->sent = 0;
	}
}

/* The last order that waits, if bytes of the pty can still be put behind it. */
static bool lengthen(struct screen *s, const void *p, size_t n)
{
	struct screen_order o;
	uint32_t len;

	if (left(s) == 0 || s->last < s->sent)
		return false;
	memcpy(&len, s->pending.data + s->last, sizeof(len));
	memcpy(&o, s->pending.data + s->last + sizeof(len), sizeof(o));
	if (o.say != SCREEN_FEED || len - sizeof(o) + n > SCREEN_PART_MAX)
		return false;
	buf_add(&s->pending, p, n);
	if (s->pending.failed)
		return false;
	len += (uint32_t)n;
	memcpy(s->pending.data + s->last, &len, sizeof(len));
	return true;
}

static void keep(struct screen *s, const struct screen_order *o, const void *p, size_t n)
{
	uint32_t len = (uint32_t)(sizeof(*o) + n);

	if (o->say == SCREEN_FEED && lengthen(s, p, n))
		return;
	s->last = s->pending.len;
	buf_add(&s->pending, &len, sizeof(len));
	buf_add(&s->pending, o, sizeof(*o));
	buf_add(&s->pending, p, n);
}

/* Too much waits: all of it is dropped, and what must not be lost is said anew. */
static void lose(struct screen *s)
{
	struct screen_order o = {.say = SCREEN_LOSE};

	buf_done(&s->pending);
	s->sent = s->last = 0;
	keep(s, &o, NULL, 0);
	o = (struct screen_order){SCREEN_RESIZE, s->rows, s->cols};
	keep(s, &o, NULL, 0);
	if (s->done) { /* it may have been sent already: then two answers come */
		o = (struct screen_order){SCREEN_DUMP, s->number, 0};
		s->owed += ANSWERS_MAX;
		keep(s, &o, NULL, 0);
	}
}

static void flush(struct screen *s)
{
	while (left(s) > 0) {
		const char *at = s->pending.data + s->sent;
		uint32_t len;

		memcpy(&len, at, sizeof(len));
		if (!send_now(s, at + sizeof(len), len, NULL, 0))
			break;
		s->sent += sizeof(len) + len;
	}
	compact(s);
}

static void order(struct screen *s, struct screen_order o, const void *p, size_t n)
{
	if (left(s) == 0 && send_now(s, &o, sizeof(o), p, n))
		return;
	if (left(s) + n > SCREEN_PENDING_MAX)
		lose(s);
	keep(s, &o, p, n);
	if (s->pending.failed) { /* out of memory */
		lose(s);
		if (s->pending.failed)
			shutdown(s->sock, SHUT_RDWR); /* poll tells, and it is gone */
	}
}

void screen_feed(struct screen *s, const void *p, size_t n)
{
	const unsigned char *bytes = p;

	while (n > 0 && s->sock >= 0) {
		size_t part = MIN_OF(n, (size_t)SCREEN_PART_MAX);

		order(s, (struct screen_order){.say = SCREEN_FEED}, bytes, part);
		bytes += part;
		n -= part;
	}
}

void screen_resize(struct screen *s, unsigned rows, unsigned cols)
{
	s->rows = MAX_OF(1u, MIN_OF(rows, (unsigned)MODEL_ROWS_MAX));
	s->cols = MAX_OF(1u, MIN_OF(cols, (unsigned)MODEL_COLS_MAX));
	if (s->sock >= 0)
		order(s, (struct screen_order){SCREEN_RESIZE, s->rows, s->cols}, NULL, 0);
}

int screen_dump(struct screen *s, int timeout_ms, screen_done_fn *done, void *arg)
{
	if (s->sock < 0)
		return -ESRCH;
	if (s->done)
		return -EBUSY;
	s->number++;
	s->owed += ANSWERS_MAX;
	s->exact = true;
	s->done = done;
	s->arg = arg;
	s->deadline_ms = clock_ms() + (uint64_t)MAX_OF(timeout_ms, 0);
	buf_reset(&s->dump);
	order(s, (struct screen_order){SCREEN_DUMP, s->number, 0}, NULL, 0);
	return 0;
}

void screen_dump_cancel(struct screen *s)
{
	s->done = NULL;
	buf_done(&s->dump);
}

/* ---- answers ---- */

static void complete(struct screen *s)
{
	struct buf dump = s->dump;
	cleanup_free unsigned char *out = malloc(dump.len + TERMFILTER_HOLD);
	struct termfilter f = {0};
	struct screen_picture p = {.bytes = out, .filter = &f, .exact = s->exact};

	s->dump = BUF_INIT(SCREEN_DUMP_MAX);
	if (out)
		p.n = termfilter_run(&f, (const unsigned char *)buf_str(&dump), dump.len, out);
	buf_done(&dump);
	finish_dump(s, out ? &p : NULL);
}

/* 0: nothing (more) now, or it is gone. */
static int receive(struct screen *s)
{
	struct {
		struct screen_answer head;
		char bytes[SCREEN_PART_MAX];
	} a;
	ssize_t n = recv(s->sock, &a, sizeof(a), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		gone(s, "");
		return 0;
	}
	if ((size_t)n < sizeof(a.head) || s->owed == 0) {
		gone(s, "said what it was not asked");
		return 0;
	}
	s->owed--;
	if (!s->done || a.head.number != s->number)
		return 1; /* nobody waits for it any more */
	buf_add(&s->dump, a.bytes, (size_t)n - sizeof(a.head));
	if (s->dump.failed) {
		gone(s, "said more than it may");
		return 0;
	}
	if (a.head.flags & SCREEN_INEXACT)
		s->exact = false;
	if (a.head.flags & SCREEN_LAST) {
		complete(s);
		return 0;
	}
	return 1;
}

/* ---- the loop ---- */

int screen_fds(const struct screen *s, struct pollfd fds[SCREEN_FDS])
{
	if (s->sock < 0)
		return 0;
	fds[0] =
		(struct pollfd){.fd = s->sock, .events = (short)(POLLIN | (left(s) ? POLLOUT : 0))};
	return 1;
}

int screen_timeout_ms(const struct screen *s)
{
	uint64_t now = clock_ms();

	if (!s->done)
		return -1;
	return s->deadline_ms > now ? (int)(s->deadline_ms - now) : 0;
}

void screen_handle(struct screen *s, const struct pollfd *fds, int n)
{
	if (n > 0 && s->sock >= 0 && fds[0].fd == s->sock && fds[0].revents) {
		flush(s);
		for (int i = 0; i < ROUNDS && s->sock >= 0 && receive(s); i++)
			;
	}
	if (s->done && clock_ms() >= s->deadline_ms) {
		buf_done(&s->dump);
		finish_dump(s, NULL);
	}
}
