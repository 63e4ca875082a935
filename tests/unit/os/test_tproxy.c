/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace whose every address is captured, tried from inside: what is dialled lands in our
 * sockets with the address that was dialled; the namespace's own servers are reached directly. Each
 * test is a child in new user and network namespaces; the control is the same child without
 * capture.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/tproxy.h"
#include "os/netlink.h"
#include "os/spawn.h"

#define WAIT_MS 20000
#define NO_NAMESPACE 77 /* exit status: nothing to test here */
#define NO_NFTABLES 78

struct where { /* an address and port of either family */
	struct sockaddr_storage a;
	socklen_t len;
};

static struct where where(const char *text, uint16_t port)
{
	struct where w = {0};
	struct sockaddr_in *a4 = (struct sockaddr_in *)&w.a;
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)&w.a;

	if (inet_pton(AF_INET, text, &a4->sin_addr) == 1) {
		a4->sin_family = AF_INET;
		a4->sin_port = htons(port);
		w.len = sizeof(*a4);
	} else if (inet_pton(AF_INET6, text, &a6->sin6_addr) == 1) {
		a6->sin6_family = AF_INET6;
		a6->sin6_port = htons(port);
		w.len = sizeof(*a6);
	}
	return w;
}

/* "address port" of this end, or of the other. */
static const char *name_of(int fd, bool peer)
{
	static char text[80];
	char addr[INET6_ADDRSTRLEN] = "?";
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	bool v6;

	if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&a, &len) < 0)
		return "nothing";
	v6 = a.ss_family == AF_INET6;
	inet_ntop(a.ss_family,
		v6 ? (void *)&((struct sockaddr_in6 *)&a)->sin6_addr
		   : (void *)&((struct sockaddr_in *)&a)->sin_addr,
		addr, sizeof(addr));
	snprintf(text, sizeof(text), "%s %u", addr, ntohs(((struct sockaddr_in *)&a)->sin_port));
	return text;
}

/* Connected within WAIT_MS, or -errno. */
static int dial(const char *addr, uint16_t port)
{
	struct where w = where(addr, port);
	cleanup_fd int fd = socket(w.a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t n = sizeof(int);
	int why = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&w.a, w.len) < 0 && errno != EINPROGRESS)
		return -errno;
	if (poll(&p, 1, WAIT_MS) != 1)
		return -ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n);
	return why ? -why : take_fd(&fd);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, WAIT_MS) == 1;
}

static bool quiet(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

/* Run `body` in new user and network namespaces; its exit status. */
static int in_namespace(void (*body)(void))
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct err e = ERR_INIT;

		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 || spawn_map_self(uid, gid, &e) < 0 ||
			loopback_up(&e) < 0)
			_exit(NO_NAMESPACE);
		body();
		fflush(stdout);
		_exit(test_failed);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define INSIDE(body)                                                                               \
	do {                                                                                       \
		int rc_ = in_namespace(body);                                                      \
		if (rc_ == NO_NAMESPACE)                                                           \
			SKIP("user and network namespaces are not available here");                \
		if (rc_ == NO_NFTABLES)                                                            \
			SKIP("this kernel has no nftables with TPROXY");                           \
		CHECK_INT(rc_, 0);                                                                 \
	} while (0)

static void capture(int fd[CAPTURE_FD_NUM])
{
	struct err e = ERR_INIT;

	if (capture_set_up(fd, NULL, 0, &e) == 0)
		return;
	printf("# %s\n", e.msg);
	fflush(stdout);
	_exit(e.boundary ? NO_NFTABLES : 1);
}

static void tcp_lands(int listener, const char *addr, uint16_t port)
{
	cleanup_fd int client = dial(addr, port), server = -1;
	char want[80], got = 0;

	CHECK(client >= 0);
	CHECK(readable(listener));
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(server >= 0);
	snprintf(want, sizeof(want), "%s %u", addr, port);
	CHECK_STR(name_of(server, false), want);
	CHECK_STR(name_of(client, true), want);
	CHECK_INT(write(client, "x", 1), 1);
	CHECK(readable(server));
	CHECK_INT(read(server, &got, 1), 1);
	CHECK_INT(got, 'x');
	CHECK(quiet(listener));
}

static void any_address(void)
{
	int fd[CAPTURE_FD_NUM];

	capture(fd);
	tcp_lands(fd[CAPTURE_TCP4], "93.184.216.34", 443);
	tcp_lands(fd[CAPTURE_TCP4], "10.0.0.1", 22);
	tcp_lands(fd[CAPTURE_TCP4], "169.254.169.254", 80);
	tcp_lands(fd[CAPTURE_TCP4], "198.18.0.1", 65535);
	tcp_lands(fd[CAPTURE_TCP4], "8.8.8.8", 53);
	tcp_lands(fd[CAPTURE_TCP6], "2606:2800::1", 8443);
	tcp_lands(fd[CAPTURE_TCP6], "fd00::1", 1024);
}

TEST(every_tcp_connection_lands_with_its_address)
{
	INSIDE(any_address);
}

/* As the sandbox is: another process, without capabilities in the namespace's user. */
static void from_another_process(void)
{
	int fd[CAPTURE_FD_NUM], status = 0, server;
	pid_t pid;

	capture(fd);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < CAPTURE_FD_NUM; i++)
			close(fd[i]);
		_exit(dial("93.184.216.34", 443) < 0 || dial("2606:2800::1", 8443) < 0);
	}
	CHECK(readable(fd[CAPTURE_TCP4]));
	server = accept4(fd[CAPTURE_TCP4], NULL, NULL, SOCK_CLOEXEC);
	CHECK_STR(name_of(server, false), "93.184.216.34 443");
	close(server);
	CHECK(readable(fd[CAPTURE_TCP6]));
	server = accept4(fd[CAPTURE_TCP6], NULL, NULL, SOCK_CLOEXEC);
	CHECK_STR(name_of(server, false), "2606:2800::1 8443");
	close(server);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	/* The sockets gone: refused, not waiting for anybody. */
	for (int i = 0; i < CAPTURE_FD_NUM; i++)
		close(fd[i]);
	CHECK_INT(dial("93.184.216.34", 443), -ECONNREFUSED);
	CHECK_INT(dial("2606:2800::1", 8443), -ECONNREFUSED);
}

TEST(from_a_child_and_refused_when_nobody_listens_any_more)
{
	INSIDE(from_another_process);
}

/* One datagram to addr:53; where PKTINFO says that it was sent to. */
static void udp_lands(int sock, const char *addr)
{
	struct where w = where(addr, 53);
	cleanup_fd int client = socket(w.a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char bytes[64], control[256], text[INET6_ADDRSTRLEN] = "";
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};

	CHECK_INT(sendto(client, "question", 8, 0, (struct sockaddr *)&w.a, w.len), 8);
	CHECK(readable(sock));
	CHECK_INT(recvmsg(sock, &mh, 0), 8);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
			inet_ntop(AF_INET, &((struct in_pktinfo *)CMSG_DATA(c))->ipi_addr, text,
				sizeof(text));
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
			inet_ntop(AF_INET6, &((struct in6_pktinfo *)CMSG_DATA(c))->ipi6_addr, text,
				sizeof(text));
	}
	CHECK_STR(text, addr);
}

static void questions(void)
{
	struct where other = where("8.8.8.8", 123);
	cleanup_fd int client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int fd[CAPTURE_FD_NUM];

	capture(fd);
	udp_lands(fd[CAPTURE_UDP4], "8.8.8.8");
	udp_lands(fd[CAPTURE_UDP4], CAPTURE_RESOLVER);
	udp_lands(fd[CAPTURE_UDP6], "2001:4860:4860::8888");
	/* Another port is nobody's: no socket, and an error for whoever asks. */
	CHECK(connect(client, (struct sockaddr *)&other.a, other.len) == 0);
	CHECK_INT(send(client, "x", 1, 0), 1);
	CHECK(quiet(fd[CAPTURE_UDP4]));
	CHECK(readable(client));
	CHECK_INT(recv(client, &(char){0}, 1, 0), -1);
	CHECK_INT(errno, ECONNREFUSED);
}

TEST(questions_to_any_resolver_arrive_with_its_address)
{
	INSIDE(questions);
}

static void own_server(const char *bind_to, const char *dial_to, const int fd[CAPTURE_FD_NUM])
{
	struct where w = where(bind_to, 8080);
	cleanup_fd int listener = socket(w.a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_fd int client = -1, server = -1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	CHECK(bind(listener, (struct sockaddr *)&w.a, w.len) == 0 && listen(listener, 4) == 0);
	client = dial(dial_to, 8080);
	CHECK(client >= 0);
	CHECK(readable(listener));
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(server >= 0);
	CHECK(quiet(fd[CAPTURE_TCP4]) && quiet(fd[CAPTURE_TCP6]));
}

static void loopback_is_its_own(void)
{
	int fd[CAPTURE_FD_NUM];

	capture(fd);
	own_server("127.0.0.1", "127.0.0.1", fd);
	own_server("0.0.0.0", "127.3.2.1", fd);
	own_server("0.0.0.0", "198.18.0.2", fd);
	own_server("::1", "::1", fd);
	CHECK_INT(dial("127.0.0.1", 8081), -ECONNREFUSED);
	/* A server on every address does not take what was meant for others. */
	{
		struct where w = where("0.0.0.0", 443);
		cleanup_fd int greedy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		CHECK(bind(greedy, (struct sockaddr *)&w.a, w.len) == 0 && listen(greedy, 4) == 0);
		tcp_lands(fd[CAPTURE_TCP4], "93.184.216.34", 443);
		CHECK(quiet(greedy));
	}
}

TEST(servers_inside_are_reached_directly)
{
	INSIDE(loopback_is_its_own);
}

static void without(void)
{
	CHECK_INT(dial("93.184.216.34", 443), -ENETUNREACH);
	CHECK(dial("2606:2800::1", 8443) < 0);
	CHECK_INT(dial("127.0.0.1", 8080), -ECONNREFUSED);
}

TEST(control_without_capture_nothing_is_reached)
{
	INSIDE(without);
}

static void forced(void)
{
	struct err e = ERR_INIT;
	int fd[CAPTURE_FD_NUM];

	setenv("CROFT_FORCE_FAIL", "nftables", 1);
	CHECK(capture_set_up(fd, NULL, 0, &e) < 0);
	CHECK(e.boundary);
	for (int i = 0; i < CAPTURE_FD_NUM; i++)
		CHECK_INT(fd[i], -1);
}

TEST(its_absence_is_a_missing_boundary)
{
	INSIDE(forced);
}

/* ---- netlink ---- */

static void refused(void)
{
	struct rtmsg m = {.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL};
	struct err e = ERR_INIT;
	struct netlink n;

	CHECK_INT(netlink_open(&n, NETLINK_ROUTE, &e), 0);
	netlink_begin(&n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, true, &m, sizeof(m));
	netlink_put_u32(&n, RTA_OIF, 4711); /* there is no such device */
	CHECK(netlink_send(&n, "a route over nothing", &e) < 0);
	CHECK(strstr(e.msg, "a route over nothing") != NULL);
	/* And it can be used again. */
	e = ERR_INIT;
	netlink_begin(&n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, true, &m, sizeof(m));
	netlink_put_u32(&n, RTA_OIF, 1);
	CHECK_INT(netlink_send(&n, "a route over lo", &e), 0);
	netlink_done(&n);
}

TEST(a_refusal_of_the_kernels_is_the_error)
{
	INSIDE(refused);
}

TEST(what_does_not_fit_is_not_sent)
{
	static const char big[NETLINK_MAX_B];
	struct rtmsg m = {.rtm_family = AF_INET};
	struct err e = ERR_INIT;
	struct netlink n;

	CHECK_INT(netlink_open(&n, NETLINK_ROUTE, &e), 0);
	netlink_begin(&n, RTM_NEWROUTE, 0, true, &m, sizeof(m));
	netlink_put(&n, RTA_DST, big, sizeof(big));
	netlink_nest_end(&n, netlink_nest(&n, RTA_METRICS));
	CHECK_INT(netlink_send(&n, "too much", &e), -EMSGSIZE);
	netlink_done(&n);
}
