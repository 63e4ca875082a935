/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages between the supervisor and a sandbox's first process: fixed size, checked. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/init.h"

int control_send(int fd, const struct control_msg *m, const int *fds, int fds_n)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * SANDBOX_FD_NUM)];
		struct cmsghdr align;
	} c = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fds_n > 0) {
		size_t len = sizeof(int) * (size_t)fds_n;
		struct cmsghdr *h;

		mh.msg_control = c.buf;
		mh.msg_controllen = CMSG_SPACE(len);
		h = CMSG_FIRSTHDR(&mh);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(len);
		memcpy(CMSG_DATA(h), fds, len);
	}
	if (sendmsg(fd, &mh, MSG_NOSIGNAL) != (ssize_t)sizeof(*m))
		return errno ? -errno : -EIO;
	return 0;
}

#define CONTROL_B CMSG_SPACE(sizeof(int) * SANDBOX_FD_NUM)
#define GOT_MAX ((CONTROL_B - CMSG_LEN(0)) / sizeof(int)) /* padding holds one more, perhaps */

/* Which slots a message may fill. */
static uint32_t slots_of(const struct control_msg *m)
{
	switch (m->type) {
	case CONTROL_READY:
	case CONTROL_GO:
	case CONTROL_TRUST:
		return m->fd_mask;
	case CONTROL_CONNECTED:
		return m->fd_mask & 1u << SANDBOX_FD_INNER;
	default:
		return 0;
	}
}

/* Place received descriptors in the free slots of `slots`; surplus ones are closed. */
static void take_fds(struct sandbox *s, uint32_t slots, struct msghdr *mh)
{
	struct cmsghdr *h = CMSG_FIRSTHDR(mh);
	int fds[GOT_MAX];
	size_t n = 0, used = 0;

	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (n > GOT_MAX)
			n = GOT_MAX;
		memcpy(fds, CMSG_DATA(h), n * sizeof(int));
	}
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		if ((slots & (1u << i)) && used < n && s->fd[i] < 0)
			s->fd[i] = fds[used++];
	while (used < n)
		close(fds[used++]);
}

int control_receive(struct sandbox *s, struct control_msg *ret)
{
	union {
		char buf[CONTROL_B];
		struct cmsghdr align;
	} c = {0};
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.buf,
		.msg_controllen = sizeof(c.buf)};
	ssize_t n;

	do
		n = recvmsg(s->control, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	take_fds(s, (size_t)n == sizeof(*ret) ? slots_of(ret) : 0, &mh);
	if (n == 0)
		return 0;
	if ((size_t)n != sizeof(*ret) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
		ret->type == 0 || ret->type >= CONTROL_NUM)
		return -EPROTO;
	ret->msg[sizeof(ret->msg) - 1] = '\0';
	if (ret->type == CONTROL_READY)
		s->enforced = ret->enforced;
	if (ret->type == CONTROL_STARTED) {
		s->enforced.rlimit_memory = ret->enforced.rlimit_memory;
		s->enforced.rlimit_pids = ret->enforced.rlimit_pids;
		s->enforced.nproc_others = ret->enforced.nproc_others;
	}
	return 1;
}
