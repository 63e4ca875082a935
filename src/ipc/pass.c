/* SPDX-License-Identifier: Apache-2.0 */
/* One message, one descriptor: see pass.h. */
#include "ipc/pass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"

union one_fd {
	struct cmsghdr h;
	char b[CMSG_SPACE(sizeof(int))];
};

int pass_send(int sock, const void *p, size_t n, int fd)
{
	union one_fd control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.b,
		.msg_controllen = sizeof(control.b)};

	control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.h), &fd, sizeof(fd));
	return sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int pass_receive(int sock, void *p, size_t n, int *ret_fd)
{
	union one_fd control;
	struct iovec iov = {.iov_base = p, .iov_len = n};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.b,
		.msg_controllen = sizeof(control.b)};
	cleanup_fd int fd = -1;
	struct cmsghdr *c;
	ssize_t got;

	do
		got = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&mh);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (got == 0)
		return 0;
	if (fd < 0 || (size_t)got != n || (mh.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return -EBADMSG;
	*ret_fd = take_fd(&fd);
	return 1;
}
