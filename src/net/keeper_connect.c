/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's way to the keeper: see keeper.h. Knows nothing of values. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/gateway.h"
#include "net/keeper.h"

int keeper_connect(struct gateway *g, const char *host, uint16_t port, bool private_ok)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct keeper_open o = {.port = port, .private_ok = private_ok};
	struct iovec iov = {.iov_base = &o, .iov_len = sizeof(o)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.b,
		.msg_controllen = sizeof(control.b)};
	cleanup_fd int ours = -1;
	cleanup_fd int theirs = -1;
	size_t n = strlen(host);
	int pair[2];

	if (g->keeper < 0)
		return -ENOTCONN;
	if (n == 0 || n >= sizeof(o.host))
		return -EINVAL;
	memcpy(o.host, host, n);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.h), &theirs, sizeof(theirs));
	if (sendmsg(g->keeper, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -errno;
	return take_fd(&ours);
}
