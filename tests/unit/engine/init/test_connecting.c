/* SPDX-License-Identifier: Apache-2.0 */
/* engine/init/connecting: nobody who lets a connection hang makes another one wait. */
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "engine/init/connecting.h"

#define NOW 1000 /* the tests' own clock */

/* What was told, in order. */
static struct told {
	uint32_t id[CONNECTING_MAX + 8];
	int error[CONNECTING_MAX + 8], fd[CONNECTING_MAX + 8];
	size_t n;
} told;

static void on_done(void *arg, uint32_t id, int error, int *fd)
{
	CHECK(arg == &told && told.n < ARRAY_SIZE(told.id));
	CHECK((error == 0) == (*fd >= 0));
	told.id[told.n] = id;
	told.error[told.n] = error;
	told.fd[told.n++] = take_fd(fd);
}

static struct connectings fresh(void)
{
	for (size_t i = 0; i < told.n; i++)
		close_fd(&told.fd[i]);
	told.n = 0;
	return (struct connectings){.done = on_done, .arg = &told};
}

static bool was_told(uint32_t id)
{
	for (size_t i = 0; i < told.n; i++)
		if (told.id[i] == id)
			return true;
	return false;
}

/* A socket on a loopback address; its port. family: of the address. */
static int open_on(int family, int backlog, uint16_t *ret_port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in a4 = {
		.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr *a = family == AF_INET6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
	socklen_t n = family == AF_INET6 ? sizeof(a6) : sizeof(a4);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, a, n) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if ((backlog >= 0 && listen(fd, backlog) < 0) || getsockname(fd, a, &n) < 0)
		abort();
	*ret_port = ntohs(family == AF_INET6 ? a6.sin6_port : a4.sin_port);
	return fd;
}

/* Fill the queue of one that accepts nothing, until a connection is left waiting. Returns how many fds. */
static size_t fill(uint16_t port, int *fds, size_t max)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	size_t n = 0;

	for (bool waits = false; !waits && n < max; n++) {
		struct pollfd p = {.events = POLLOUT};

		fds[n] = p.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		waits = connect(p.fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
			errno == EINPROGRESS && poll(&p, 1, 500) == 0;
	}
	return n;
}

/* Turn the loop at this time until it has told so many. */
static void turn_until(struct connectings *c, size_t want, uint64_t now)
{
	struct pollfd p[CONNECTING_MAX];

	for (int i = 0; i < 1000 && told.n < want; i++) {
		size_t n = connecting_poll(c, p);

		CHECK(poll(p, (nfds_t)n, 100) >= 0);
		connecting_handle(c, p, n, now);
	}
	CHECK_INT(told.n, want);
}

TEST(one_that_hangs_delays_nobody)
{
	struct connectings c = fresh();
	struct pollfd p[CONNECTING_MAX];
	uint16_t full, good;
	int fds[8], hangs = open_on(AF_INET, 0, &full), answers = open_on(AF_INET, 64, &good);
	size_t n = fill(full, fds, ARRAY_SIZE(fds)), many = CONNECTING_MAX - 1;

	CHECK(hangs >= 0 && answers >= 0 && n < ARRAY_SIZE(fds));
	for (size_t i = 0; i < many; i++)
		connecting_start(&c, (uint32_t)i, full, NOW);
	connecting_start(&c, 1000, good, NOW);
	turn_until(&c, 1, NOW + CONNECTING_MS - 1);
	CHECK(was_told(1000) && told.error[0] == 0);
	CHECK_INT(c.n, many);
	CHECK_INT(connecting_wait_ms(&c, NOW + CONNECTING_MS - 1), 1);
	CHECK_INT(connecting_wait_ms(&c, NOW + CONNECTING_MS + 1), 0);
	/* They have had their time: nobody listens at the other address. */
	turn_until(&c, 1 + many, NOW + CONNECTING_MS);
	for (size_t i = 0; i < many; i++)
		CHECK(was_told((uint32_t)i) && told.error[1 + i] == ECONNREFUSED);
	CHECK_INT(c.n, 0);
	CHECK_INT(connecting_poll(&c, p), 0);
	CHECK_INT(connecting_wait_ms(&c, NOW), -1);
	while (n)
		close(fds[--n]);
	close(hangs);
	close(answers);
}

TEST(there_may_be_only_so_many)
{
	struct connectings c = fresh();
	uint16_t full;
	int fds[8], hangs = open_on(AF_INET, 0, &full);
	size_t n = fill(full, fds, ARRAY_SIZE(fds));

	for (uint32_t i = 0; i < CONNECTING_MAX; i++)
		connecting_start(&c, i, full, NOW);
	CHECK_INT(told.n, 0);
	connecting_start(&c, 77, full, NOW);
	CHECK(told.n == 1 && told.id[0] == 77 && told.error[0] == EAGAIN);
	turn_until(&c, 1 + CONNECTING_MAX, NOW + CONNECTING_MS);
	connecting_start(&c, 78, 0, NOW);
	connecting_start(&c, 79, 65536, NOW);
	CHECK(was_told(78) && was_told(79) && told.error[told.n - 1] == EINVAL);
	while (n)
		close(fds[--n]);
	close(hangs);
}

TEST(either_address_will_do)
{
	struct connectings c = fresh();
	uint16_t v4, v6 = 0, none;
	int four = open_on(AF_INET, 8, &v4), six = open_on(AF_INET6, 8, &v6);
	int closed = open_on(AF_INET, -1, &none); /* bound, so that nobody else listens there */

	connecting_start(&c, 4, v4, NOW);
	turn_until(&c, 1, NOW);
	CHECK(told.error[0] == 0);
	connecting_start(&c, 5, none, NOW);
	turn_until(&c, 2, NOW);
	CHECK(told.error[1] == ECONNREFUSED && told.id[1] == 5);
	if (six >= 0) {
		connecting_start(&c, 6, v6, NOW);
		turn_until(&c, 3, NOW);
		CHECK(told.error[2] == 0 && told.id[2] == 6);
	}
	CHECK_INT(c.n, 0);
	fresh();
	close(four);
	close_fd(&six);
	close(closed);
}
