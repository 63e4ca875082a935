/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's way to the keeper: see keeper.h. Knows nothing of values. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ipc/pass.h"
#include "net/gateway/gateway.h"
#include "net/keeper/keeper.h"

int keeper_connect(struct gateway *g, const char *host, uint16_t port, bool tls, bool private_ok)
{
	struct keeper_open o = {.port = port, .private_ok = private_ok, .tls = tls};
	cleanup_fd int ours = -1;
	cleanup_fd int theirs = -1;
	size_t n = strlen(host);
	int pair[2], r;

	if (g->keeper < 0)
		return -ENOTCONN;
	if (n == 0 || n >= sizeof(o.host))
		return -EINVAL;
	memcpy(o.host, host, n);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	r = pass_send(g->keeper, &o, sizeof(o), theirs);
	if (r < 0)
		return r;
	return take_fd(&ours);
}
