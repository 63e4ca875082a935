/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a session: see join.h. */
#include "session/join/join.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "croft.h"
#include "os/clock.h"

#define ASK_TAG UINT32_MAX /* of join_ask(): nobody else uses it */
#define BACKLOG 128

/* Through the directory's descriptor: the path may be longer than a socket's name can be. */
static void name_socket(struct sockaddr_un *a, int dir_fd)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(a->sun_path, sizeof(a->sun_path), "/proc/self/fd/%d/" JOIN_SOCKET, dir_fd);
}

int join_listen(int dir_fd, struct err *e)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	mode_t old;
	int r;

	name_socket(&a, dir_fd);
	if (fd < 0 || (unlinkat(dir_fd, JOIN_SOCKET, 0) < 0 && errno != ENOENT))
		return err_set(e, errno, "listen for callers");
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a));
	umask(old);
	if (r < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, errno, "listen for callers");
	return take_fd(&fd);
}

int join_up(int dir_fd)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;

	name_socket(&a, dir_fd);
	return fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

int join_error(const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t why = unpack_u32(&u), errnum = unpack_u32(&u);
	const char *text = unpack_str(&u, ERR_MSG_MAX);

	*e = ERR_INIT;
	if (!unpack_good(&u) || why == ERR_WHY_NONE || why >= ERR_WHY_NUM)
		return err_set(e, EPROTO, "understand the session");
	e->reason = (enum err_reason)why;
	e->kind = err_reason_kind(e->reason);
	e->boundary = e->reason == ERR_WHY_UNENFORCEABLE;
	e->errnum = errnum && errnum < 4096 ? (int)errnum : EIO;
	snprintf(e->msg, sizeof(e->msg), "%s", text);
	return -e->errnum;
}

static int wait_for(struct session_link *l, uint64_t until, struct session_frame *ret, struct err *e)
{
	for (;;) {
		struct pollfd p = {.fd = l->fd, .events = POLLIN};
		uint64_t now = clock_ms();
		int r = session_link_flush(l);

		if (r == 0)
			r = session_link_next(l, ret);
		if (r < 0)
			return err_set(e, -r, "talk to the session");
		if (r == 1 && (ret->tag == ASK_TAG ||
				      (ret->tag == JOIN_GREETING && ret->type == SESSION_ERROR)))
			return 0;
		if (r == 1)
			continue;
		if (until && now >= until)
			return err_set(e, ETIMEDOUT, "wait for the session");
		if (session_link_pending(l))
			p.events |= POLLOUT;
		if (poll(&p, 1, until ? (int)(until - now) : -1) < 0 && errno != EINTR)
			return err_set(e, errno, "wait for the session");
		if (!(p.revents & (POLLIN | POLLHUP | POLLERR)))
			continue;
		r = session_link_fill(l);
		if (r == 0)
			return err_set(e, ECONNRESET, "the session ended");
		if (r < 0 && r != -EAGAIN)
			return err_set(e, -r, "talk to the session");
	}
}

int join_ask(struct session_link *l, enum session_type type, uint32_t process, const void *body,
	size_t n, int timeout_ms, char **ret_text, struct err *e)
{
	struct session_frame f;
	int r;

	*ret_text = NULL;
	if (!session_link_put(l, type, ASK_TAG, process, body, n))
		return err_set(e, E2BIG, "ask the session");
	r = wait_for(l, timeout_ms < 0 ? 0 : clock_ms() + (uint64_t)timeout_ms, &f, e);
	if (r < 0)
		return r;
	if (f.type == SESSION_ERROR)
		return join_error(&f, e);
	if (f.type == SESSION_TEXT) {
		struct unpack u = unpack_of(f.body, f.n);
		const char *text = unpack_str(&u, SESSION_BODY_MAX);

		if (!unpack_good(&u) || !(*ret_text = strdup(text)))
			return err_set(e, EPROTO, "understand the session");
		return 0;
	}
	return f.type == SESSION_OK ? 0 : err_set(e, EPROTO, "understand the session");
}

int join_wait_end(struct session_link *l, int timeout_ms, struct err *e)
{
	uint64_t until = clock_ms() + (uint64_t)timeout_ms;
	struct session_frame f;
	int r;

	while ((r = wait_for(l, until, &f, e)) == 0)
		;
	if (r != -ECONNRESET)
		return r;
	*e = ERR_INIT; /* that is what was waited for */
	return 0;
}

int join_greet(struct session_link *l, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(128);

	pack_u32(&b, SESSION_PROTOCOL);
	pack_str(&b, CROFT_VERSION);
	if (!session_link_put(l, SESSION_HELLO, JOIN_GREETING, 0, b.data, b.len))
		return err_set(e, ENOMEM, "greet the session");
	return 0;
}

int join_connect(int dir_fd, const char *name, struct session_link *ret, struct err *e)
{
	struct sockaddr_un a;
	struct stat st;
	int r;

	*ret = SESSION_LINK_INIT;
	name_socket(&a, dir_fd);
	if (fstatat(dir_fd, JOIN_SOCKET, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode))
		return 0;
	/* Who owns the directory decides what has this name in it. */
	if (st.st_uid != geteuid() || (fstat(dir_fd, &st) == 0 && st.st_uid != geteuid()))
		return err_why(e, ERR_WHY_NOT_YOURS,
			err_refuse(e,
				"the session of %s belongs to somebody else (user %u); nothing was asked "
				"of it",
				name, st.st_uid));
	ret->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ret->fd < 0)
		return err_set(e, errno, "connect to %s", name);
	if (connect(ret->fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		r = errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
		session_link_done(ret);
		return r < 0 ? err_set(e, -r, "connect to the session of %s", name) : 0;
	}
	r = is_ours(ret->fd) ? join_greet(ret, e)
			     : err_why(e, ERR_WHY_NOT_YOURS,
				       err_refuse(e, "the session of %s belongs to somebody else", name));
	if (r < 0)
		session_link_done(ret);
	return r < 0 ? r : 1;
}
