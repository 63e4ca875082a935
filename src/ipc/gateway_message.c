/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between supervisor and gateway: see gateway_message.h. */
#include "ipc/gateway_message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Text is ended here, whoever wrote it. */
static void terminate(struct gateway_msg *m)
{
	m->host[sizeof(m->host) - 1] = '\0';
	m->method[sizeof(m->method) - 1] = '\0';
	m->path[sizeof(m->path) - 1] = '\0';
	m->query[sizeof(m->query) - 1] = '\0';
	m->rule[sizeof(m->rule) - 1] = '\0';
	m->text[sizeof(m->text) - 1] = '\0';
	m->fix[sizeof(m->fix) - 1] = '\0';
	m->token[sizeof(m->token) - 1] = '\0';
}

#define CONTROL_B CMSG_SPACE(GATEWAY_FD_NUM * sizeof(int))
#define GOT_MAX ((CONTROL_B - CMSG_LEN(0)) / sizeof(int)) /* padding holds one more, perhaps */

/* Every descriptor that came, however many were announced. */
static size_t take_fds(struct msghdr *mh, int got[GOT_MAX])
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t len = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || len > GOT_MAX - n)
			continue;
		memcpy(got + n, CMSG_DATA(c), len * sizeof(int));
		n += len;
	}
	return n;
}

/* As many as the mask says, and no bit that means nothing. */
static bool place_fds(uint32_t mask, const int *got, size_t n, int fds[GATEWAY_FD_NUM])
{
	size_t used = 0;

	if (mask >> GATEWAY_FD_NUM || (size_t)__builtin_popcount(mask) != n)
		return false;
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		if (mask & (1u << i))
			fds[i] = got[used++];
	return true;
}

static int receive(int sock, struct gateway_msg *ret, int fds[GATEWAY_FD_NUM], int flags)
{
	union {
		struct cmsghdr h;
		char b[CONTROL_B];
	} control;
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.b,
		.msg_controllen = sizeof(control.b)};
	int got[GOT_MAX];
	size_t got_n;
	ssize_t n;

	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = -1;
	do
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	got_n = take_fds(&mh, got);
	if ((size_t)n == sizeof(*ret) && !(mh.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) &&
		ret->type > 0 && ret->type < GATEWAY_MSG_NUM &&
		place_fds(ret->fd_mask, got, got_n, fds)) {
		terminate(ret);
		return 1;
	}
	for (size_t i = 0; i < got_n; i++)
		close(got[i]);
	/* An empty message reads like the end, and ends it; nobody of ours sends one. */
	return n == 0 ? 0 : -EBADMSG;
}

int gateway_receive(int sock, struct gateway_msg *ret, int fds[GATEWAY_FD_NUM])
{
	return receive(sock, ret, fds, 0);
}

int gateway_receive_now(int sock, struct gateway_msg *ret, int fds[GATEWAY_FD_NUM])
{
	return receive(sock, ret, fds, MSG_DONTWAIT);
}

int gateway_send(int sock, struct gateway_msg *m, const int fds[GATEWAY_FD_NUM])
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(GATEWAY_FD_NUM * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	int list[GATEWAY_FD_NUM], n = 0;
	ssize_t sent;

	m->fd_mask = 0;
	for (int i = 0; fds && i < GATEWAY_FD_NUM; i++)
		if (fds[i] >= 0) {
			m->fd_mask |= 1u << i;
			list[n++] = fds[i];
		}
	if (n) {
		mh.msg_control = control.b;
		mh.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN((size_t)n * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.h), list, (size_t)n * sizeof(int));
	}
	do
		sent = sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}
