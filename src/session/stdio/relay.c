/* SPDX-License-Identifier: Apache-2.0 */
/* Output from the command's pipes to where it goes: see relay.h. */
#include "session/stdio/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"

#define ROUNDS 8 /* reads before others in the loop have their turn */

/* ---- opening ---- */

static bool is_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/*
 * One pipe for both keeps what was written in order. Two descriptions of one regular file have
 * offsets of their own; of one pipe, socket or device there is only one place to write to.
 */
static bool same_destination(int a, int b)
{
	struct stat x, y;
	long r;

	if (fstat(a, &x) < 0 || fstat(b, &y) < 0 || x.st_dev != y.st_dev || x.st_ino != y.st_ino ||
		is_null(&x))
		return false;
	if (!S_ISREG(x.st_mode) || a == b)
		return true;
	r = forced_fail("kcmp") ? -1 : syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b);
	if (r >= 0)
		return r == 0;
	/* Not to be asked here: the same flags and offset are taken for the same description. */
	return fcntl(a, F_GETFL) == fcntl(b, F_GETFL) &&
	       lseek(a, 0, SEEK_CUR) == lseek(b, 0, SEEK_CUR);
}

static void look_at_destination(struct relay_stream *s)
{
	char path[32];
	struct stat st;

	s->kind = RELAY_PIECES;
	if (fstat(s->to, &st) < 0)
		return;
	if (S_ISREG(st.st_mode) || is_null(&st)) {
		s->kind = RELAY_WRITE;
	} else if (S_ISSOCK(st.st_mode)) {
		s->kind = RELAY_SEND;
	} else if (S_ISFIFO(st.st_mode) && !forced_fail("pipe-reopen")) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", s->to);
		s->again = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (s->again >= 0)
			s->kind = RELAY_WRITE;
	}
}

static int stream_open(struct relay_stream *s, int to, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, errno, "make a pipe for the output");
	s->from = p[0];
	s->child = p[1];
	s->to = to;
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	fcntl(p[0], F_SETPIPE_SZ, RELAY_PIPE); /* less is slower, not wrong */
	look_at_destination(s);
	return 0;
}

int relay_open(
	struct relay *r, struct capture *c, const int stdio[3], int child_stdio[3], struct err *e)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	bool out = child_stdio[1] == stdio[1], err = child_stdio[2] == stdio[2];
	bool both = out && err && same_destination(stdio[1], stdio[2]);

	*r = RELAY_INIT;
	c->terminal = (!out && !err) || both;
	if (out && stream_open(&r->stream[CAPTURE_OUT], stdio[1], e) < 0)
		return -e->errnum;
	if (err && !both && stream_open(&r->stream[CAPTURE_ERR], stdio[2], e) < 0)
		return -e->errnum;
	for (int i = 0; i < CAPTURE_STREAMS; i++) {
		struct relay_stream *s = &r->stream[i];

		s->file = &c->file[i];
		if (s->from >= 0)
			child_stdio[1 + i] = s->child;
	}
	if (both)
		child_stdio[2] = child_stdio[1];
	r->ignoring = (out || err) && sigaction(SIGPIPE, &ignore, &r->old) == 0;
	return 0;
}

static void close_children(struct relay *r)
{
	for (int i = 0; i < CAPTURE_STREAMS; i++)
		close_fd(&r->stream[i].child);
}

void relay_hand_over(struct relay *r, bool own)
{
	close_children(r);
	for (int i = 0; i < CAPTURE_STREAMS; i++)
		r->stream[i].own = own && r->stream[i].to >= 0;
}

/* ---- copying ---- */

/* Nothing more comes, or nothing more is taken: for those at the other ends this is the end. */
static void stream_close(struct relay_stream *s)
{
	close_fd(&s->from);
	close_fd(&s->again);
	if (s->own)
		close_fd(&s->to);
	s->n = s->off = 0;
}

static bool later(int errnum)
{
	return errnum == EAGAIN || errnum == EINTR;
}

/* Write what is held. poll said that there is room when `room`. True: all of it is gone. */
static bool stream_write(struct relay_stream *s, bool room)
{
	while (s->off < s->n) {
		size_t n = s->n - s->off;
		ssize_t w;

		if (s->kind == RELAY_SEND) {
			w = send(s->to, s->buf + s->off, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		} else if (s->kind == RELAY_WRITE) {
			w = write(s->again >= 0 ? s->again : s->to, s->buf + s->off, n);
		} else {
			if (!room)
				return false;
			room = false; /* for one piece */
			w = write(s->to, s->buf + s->off, MIN_OF(n, PIPE_BUF));
		}
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && later(errno))
			return false;
		if (w < 0) {
			stream_close(s);
			return false;
		}
		s->off += (size_t)w;
	}
	s->n = s->off = 0;
	return true;
}

/* Only with nothing held. False: there is nothing now, or there will be nothing any more. */
static bool stream_read(struct relay_stream *s)
{
	ssize_t n;

	if (!s->buf && !(s->buf = malloc(RELAY_BUF))) {
		stream_close(s);
		return false;
	}
	n = read(s->from, s->buf, RELAY_BUF);
	if (n > 0) {
		s->n = (size_t)n;
		s->off = 0;
		capture_add(s->file, s->buf, s->n);
		return true;
	}
	if (n == 0 || !later(errno))
		stream_close(s);
	return false;
}

/* Returns how many bytes were read. */
static size_t stream_copy(struct relay_stream *s, bool room, int rounds)
{
	size_t total = 0;

	if (s->from < 0 || !stream_write(s, room))
		return 0;
	for (int i = 0; i < rounds && s->from >= 0 && stream_read(s); i++) {
		total += s->n;
		if (!stream_write(s, false))
			break;
	}
	return total;
}

static bool stream_poll(const struct relay_stream *s, struct pollfd *p)
{
	if (s->from < 0)
		return false;
	if (s->off < s->n)
		*p = (struct pollfd){.fd = s->again >= 0 ? s->again : s->to, .events = POLLOUT};
	else
		*p = (struct pollfd){.fd = s->from, .events = POLLIN};
	return true;
}

int relay_fds(const struct relay *r, struct pollfd fds[RELAY_FDS])
{
	int n = 0;

	for (int i = 0; i < CAPTURE_STREAMS; i++)
		n += stream_poll(&r->stream[i], &fds[n]);
	return n;
}

void relay_handle(struct relay *r, const struct pollfd *fds, int n)
{
	int at = 0;

	for (int i = 0; i < CAPTURE_STREAMS && at < n; i++) {
		struct relay_stream *s = &r->stream[i];

		if (s->from < 0)
			continue;
		if (fds[at].revents)
			stream_copy(s, true, ROUNDS);
		at++;
	}
}

/* ---- the end ---- */

static bool told_to_end(int signal_fd)
{
	struct signalfd_siginfo si;

	while (read(signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (si.ssi_signo == SIGINT || si.ssi_signo == SIGTERM || si.ssi_signo == SIGHUP ||
			si.ssi_signo == SIGQUIT)
			return true;
	return false;
}

/*
 * All who could write are gone, so what the pipes hold is all there is. It is not more than they can
 * hold, even if somebody outside was given an end.
 */
static bool stream_drain(struct relay_stream *s, size_t *left, bool room)
{
	while (s->from >= 0 && *left > 0) {
		size_t n = stream_copy(s, room, 1);

		*left -= MIN_OF(n, *left);
		if (s->from >= 0 && s->off < s->n)
			return true; /* the reader is slow */
		if (n == 0)
			break;
		room = false;
	}
	stream_close(s);
	return false;
}

void relay_finish(struct relay *r, int signal_fd, int stall_ms)
{
	size_t left[CAPTURE_STREAMS] = {2 * RELAY_PIPE, 2 * RELAY_PIPE};
	bool room[CAPTURE_STREAMS] = {false, false};

	close_children(r);
	for (;;) {
		struct pollfd p[1 + CAPTURE_STREAMS] = {{.fd = signal_fd, .events = POLLIN}};
		bool slow = false;
		int n;

		for (int i = 0; i < CAPTURE_STREAMS; i++) {
			p[1 + i].fd = -1;
			if (stream_drain(&r->stream[i], &left[i], room[i]))
				slow |= stream_poll(&r->stream[i], &p[1 + i]);
		}
		if (!slow)
			return;
		n = poll(p, ARRAY_SIZE(p), stall_ms);
		if (n == 0 || (n < 0 && errno != EINTR) || (p[0].revents && told_to_end(signal_fd)))
			return;
		for (int i = 0; i < CAPTURE_STREAMS; i++)
			room[i] = p[1 + i].revents != 0;
	}
}

void relay_done(struct relay *r)
{
	close_children(r);
	for (int i = 0; i < CAPTURE_STREAMS; i++) {
		stream_close(&r->stream[i]);
		free(r->stream[i].buf);
		r->stream[i].buf = NULL;
		r->stream[i].to = -1;
	}
	if (r->ignoring)
		sigaction(SIGPIPE, &r->old, NULL);
	r->ignoring = false;
}
