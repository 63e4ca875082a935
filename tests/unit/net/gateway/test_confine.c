/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/confine: each thing is tried in a child before and after confinement. Before, it must work: a
 * test whose control fails proves nothing.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/reach/addr.h"
#include "net/gateway/confine.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum outcome { WORKED, FAILED, KILLED, NOT_CONFINED };

/* Do it in a child: 0 is success. */
static enum outcome attempt(int (*act)(void), bool confined)
{
	const char *degraded;
	struct err e = ERR_INIT;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (confined && (confine_early(3, &e) < 0 || confine(&degraded, &e) < 0))
			_exit(NOT_CONFINED);
		_exit(act() == 0 ? WORKED : FAILED);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? (enum outcome)WEXITSTATUS(status) : KILLED;
}

static int open_passwd(void)
{
	return open("/etc/passwd", O_RDONLY) < 0;
}

static int open_write(void)
{
	return open("/tmp", O_TMPFILE | O_RDWR, 0600) < 0;
}

static int run_true(void)
{
	char *const argv[] = {(char[]){"true"}, NULL};

	return execv("/bin/true", argv);
}

static int make_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0;
}

static int make_packet_socket(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0) < 0 &&
	       errno != EPERM; /* a plain user gets EPERM before, too */
}

static int make_unix_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) < 0;
}

static int make_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0) == MAP_FAILED;
}

static int trace_self(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0;
}

static int signal_parent(void)
{
	return kill(getppid(), 0) < 0;
}

static int own_by_other(void)
{
	int p[2];

	return pipe2(p, O_CLOEXEC) < 0 || fcntl(p[0], F_SETOWN, getppid()) < 0;
}

static int listen_somewhere(void)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);

	return s < 0 || listen(s, 1) < 0;
}

static int (*const forbidden[])(void) = {open_passwd, open_write, run_true, make_child,
	make_packet_socket, make_unix_socket, make_code, trace_self, signal_parent, own_by_other,
	listen_somewhere};
static const char *const forbidden_names[] = {"open /etc/passwd", "open for writing", "execve",
	"fork", "socket(AF_PACKET)", "socket(AF_UNIX)", "executable memory", "ptrace", "kill",
	"F_SETOWN", "listen"};

TEST(what_a_taken_gateway_would_want_fails_and_worked_before)
{
	if (SANITIZED)
		SKIP("sanitizers need the calls that are refused");
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		enum outcome before = attempt(forbidden[i], false),
			     after = attempt(forbidden[i], true);

		if (before != WORKED || (after != FAILED && after != KILLED)) {
			printf("# %s: %d before, %d after\n", forbidden_names[i], before, after);
			CHECK(false);
		}
	}
}

/* Everything the gateway lives on, in one go. */
static int ordinary(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct addr_host h = {0};
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int udp = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), p[2], pair[2];
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN};
	char *big = malloc(8u << 20);

	inet_aton("127.0.0.1", &to.sin_addr);
	if (tcp < 0 || (udp < 0 && errno != EAFNOSUPPORT) || ep < 0 || !big ||
		pipe2(p, O_CLOEXEC) < 0)
		return 1;
	memset(big, 1, 8u << 20);
	free(big);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || fcntl(p[0], F_SETPIPE_SZ, 65536) < 0)
		return 2;
	if (connect(tcp, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS &&
		errno != ECONNREFUSED)
		return 3;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, pair[0], &ev) < 0 || write(pair[1], "x", 1) != 1 ||
		epoll_wait(ep, &ev, 1, 1000) != 1)
		return 4;
	if (splice(pair[0], NULL, p[1], NULL, 1, SPLICE_F_NONBLOCK) != 1)
		return 5;
	return addr_host_load(&h) == 0 ? 0 : 6;
}

TEST(what_the_gateway_needs_still_works)
{
	CHECK_INT(attempt(ordinary, false), WORKED);
	CHECK_INT(attempt(ordinary, true), WORKED);
}

static int harmless_but_not_listed(void)
{
	umask(022);
	return 0;
}

TEST(calls_nobody_thought_of_end_the_process)
{
	if (SANITIZED)
		SKIP("sanitizers need the calls that are refused");
	CHECK_INT(attempt(harmless_but_not_listed, false), WORKED);
	CHECK_INT(attempt(harmless_but_not_listed, true), KILLED);
}

static int inherited_is_open(void)
{
	return fcntl(9, F_GETFD) < 0;
}

TEST(inherited_descriptors_are_closed)
{
	CHECK_INT(dup2(1, 9), 9);
	CHECK_INT(attempt(inherited_is_open, false), WORKED);
	CHECK_INT(attempt(inherited_is_open, true), FAILED);
	close(9);
}
