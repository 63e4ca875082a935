/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at bytes without taking them: see peek.h. */
#include "net/io/peek.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"

ssize_t peek(int fd, void *buf, size_t size)
{
	ssize_t n;

	do
		n = recv(fd, buf, size, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

void peek_wait(int fd, size_t have)
{
	int low = have < 1u << 20 ? (int)have + 1 : 1 << 20;

	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

ssize_t peek_head_len(const char *p, size_t n)
{
	size_t line = 0; /* characters in the current line */

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\0')
			return -1;
		if (p[i] == '\n')
			return -1; /* the pair is taken together below */
		if (p[i] != '\r') {
			line++;
			continue;
		}
		if (i + 1 == n)
			return 0;
		if (p[i + 1] != '\n')
			return -1;
		if (line == 0)
			return (ssize_t)(i + 2);
		line = 0;
		i++;
	}
	return 0;
}

int peek_take(int fd, size_t n)
{
	char waste[1024];

	while (n > 0) {
		ssize_t got = recv(fd, waste, MIN_OF(n, sizeof(waste)), MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EPIPE;
		n -= (size_t)got;
	}
	return 0;
}
