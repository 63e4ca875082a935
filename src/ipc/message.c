/* SPDX-License-Identifier: Apache-2.0 */
/* One message with descriptors: see message.h. */
#include "ipc/message.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

union control {
	struct cmsghdr h;
	char b[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))];
};

int message_send(
	int sock, const struct iovec *iov, size_t iov_n, const int *fds, size_t fd_n, int flags)
{
	struct msghdr mh = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = iov_n};
	union control c = {0};
	ssize_t n;

	if (fd_n > MESSAGE_FDS_MAX)
		return -EINVAL;
	if (fd_n) {
		mh.msg_control = c.b;
		mh.msg_controllen = CMSG_SPACE(fd_n * sizeof(int));
		c.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(fd_n * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&c.h), fds, fd_n * sizeof(int));
	}
	do
		n = sendmsg(sock, &mh, MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Every descriptor that came. */
static size_t take_fds(struct msghdr *mh, int *fds, size_t max)
{
	size_t used = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(mh); h; h = CMSG_NXTHDR(mh, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS || n > max - used)
			continue;
		memcpy(fds + used, CMSG_DATA(h), n * sizeof(int));
		used += n;
	}
	return used;
}

/*
 * A peer that goes while something of ours is unread leaves ECONNRESET before what it said last:
 * that error is told once, and what was said can still be received.
 */
static ssize_t receive_some(int sock, struct msghdr *mh)
{
	bool reset = false;
	ssize_t n;

	do
		n = recvmsg(sock, mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset && (reset = true))));
	return n < 0 ? -errno : n;
}

int message_receive(int sock, void *p, size_t n, int *fds, size_t fd_max, size_t *ret_fd_n)
{
	struct iovec iov = {.iov_base = p, .iov_len = n};
	union control c = {0};
	/* Not CMSG_SPACE(): the kernel would use the padding for one descriptor more. */
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.b,
		.msg_controllen = CMSG_LEN(fd_max * sizeof(int))};
	ssize_t got;

	*ret_fd_n = 0;
	if (fd_max > MESSAGE_FDS_MAX)
		return -EINVAL;
	got = receive_some(sock, &mh);
	if (got < 0)
		return (int)got;
	*ret_fd_n = take_fds(&mh, fds, fd_max);
	if (got > 0 && !(mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return (int)got;
	while (*ret_fd_n)
		close(fds[--*ret_fd_n]);
	return got == 0 ? 0 : -EPROTO;
}
