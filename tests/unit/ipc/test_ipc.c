/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between a supervisor and its gateway, and what a hostile end makes of them. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ipc/gateway_message.h"
#include "ipc/message.h"
#include "ipc/pass.h"

struct line {
	int a, b;
};

static void line_done(struct line *l)
{
	close_fd(&l->a);
	close_fd(&l->b);
}
#define LINE(l)                                                                                    \
	__attribute__((cleanup(line_done))) struct line l = {-1, -1};                              \
	do {                                                                                       \
		int pair_[2];                                                                      \
		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair_) == 0);          \
		l = (struct line){pair_[0], pair_[1]};                                             \
	} while (0)

/* How many descriptors this process has. */
static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void no_fds(int fds[GATEWAY_FD_NUM])
{
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = -1;
}

/* Bytes as they are, with n copies of a descriptor: what no honest end would send. */
static bool send_raw(int sock, const void *p, size_t len, int fd, size_t n)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(64 * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	int list[64];

	for (size_t i = 0; i < n; i++)
		list[i] = fd;
	if (n) {
		mh.msg_control = control.b;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(n * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.h), list, n * sizeof(int));
	}
	return sendmsg(sock, &mh, MSG_NOSIGNAL) == (ssize_t)len;
}

TEST(a_message_arrives_as_it_was_sent)
{
	struct gateway_msg m = {
		.type = GATEWAY_DENIAL, .port = 443, .count = 7, .host = "a.example"};
	struct gateway_msg got;
	int fds[GATEWAY_FD_NUM];

	LINE(l);
	CHECK_INT(gateway_send(l.a, &m, NULL), 0);
	CHECK_INT(gateway_receive(l.b, &got, fds), 1);
	CHECK_INT(got.type, GATEWAY_DENIAL);
	CHECK_INT(got.port, 443);
	CHECK_INT(got.count, 7);
	CHECK_INT(got.fd_mask, 0);
	CHECK_STR(got.host, "a.example");
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		CHECK_INT(fds[i], -1);
	CHECK_INT(gateway_receive_now(l.b, &got, fds), -EAGAIN);
	close_fd(&l.a);
	CHECK_INT(gateway_receive(l.b, &got, fds), 0);
}

TEST(descriptors_find_their_places)
{
	struct gateway_msg m = {.type = GATEWAY_CONFIG}, got;
	int fds[GATEWAY_FD_NUM], in[GATEWAY_FD_NUM], before, pipe_fds[2];
	char c = 0;

	LINE(l);
	CHECK(pipe(pipe_fds) == 0);
	no_fds(fds);
	fds[GATEWAY_FD_JOURNAL] = pipe_fds[1];
	fds[GATEWAY_FD_INNER] = l.a;
	before = open_fds();
	CHECK_INT(gateway_send(l.a, &m, fds), 0);
	CHECK_INT(m.fd_mask, 1u << GATEWAY_FD_JOURNAL | 1u << GATEWAY_FD_INNER);
	CHECK_INT(gateway_receive(l.b, &got, in), 1);
	CHECK_INT(open_fds(), before + 2);
	CHECK(in[GATEWAY_FD_JOURNAL] >= 0 && in[GATEWAY_FD_INNER] >= 0);
	CHECK_INT(in[GATEWAY_FD_POLICY], -1);
	CHECK(fcntl(in[GATEWAY_FD_JOURNAL], F_GETFD) & FD_CLOEXEC);
	CHECK_INT(write(in[GATEWAY_FD_JOURNAL], "x", 1), 1);
	CHECK_INT(read(pipe_fds[0], &c, 1), 1);
	CHECK_INT(c, 'x');
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		close_fd(&in[i]);
	/* Every place at once. */
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = pipe_fds[0];
	CHECK_INT(gateway_send(l.a, &m, fds), 0);
	CHECK_INT(gateway_receive(l.b, &got, in), 1);
	CHECK_INT(open_fds(), before + GATEWAY_FD_NUM);
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		close_fd(&in[i]);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

TEST(garbage_is_refused_and_its_descriptors_closed)
{
	struct gateway_msg good = {.type = GATEWAY_NOTE, .fd_mask = 1}, m, got;
	char big[sizeof(good) + 64] = {0};
	int fds[GATEWAY_FD_NUM], before;

	LINE(l);
	before = open_fds();
	/* Control: with one descriptor and one bit it is a message. */
	CHECK(send_raw(l.a, &good, sizeof(good), l.a, 1));
	CHECK_INT(gateway_receive(l.b, &got, fds), 1);
	CHECK(fds[0] >= 0);
	close_fd(&fds[0]);

	CHECK(send_raw(l.a, &good, sizeof(good) - 1, l.a, 1)); /* short */
	CHECK_INT(gateway_receive(l.b, &got, fds), -EBADMSG);
	CHECK(send_raw(l.a, "x", 1, l.a, 12));
	CHECK_INT(gateway_receive(l.b, &got, fds), -EBADMSG);
	memcpy(big, &good, sizeof(good));
	CHECK(send_raw(l.a, big, sizeof(big), l.a, 1)); /* long */
	CHECK_INT(gateway_receive(l.b, &got, fds), -EBADMSG);
	m = good;
	m.type = 0;
	CHECK(send_raw(l.a, &m, sizeof(m), l.a, 1));
	CHECK_INT(gateway_receive(l.b, &got, fds), -EBADMSG);
	m.type = GATEWAY_MSG_NUM;
	CHECK(send_raw(l.a, &m, sizeof(m), l.a, 1));
	CHECK_INT(gateway_receive(l.b, &got, fds), -EBADMSG);
	CHECK_INT(open_fds(), before);
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		CHECK_INT(fds[i], -1);
}

TEST(a_mask_that_lies_is_refused)
{
	static const struct {
		uint32_t mask;
		size_t n;
	} lies[] = {{0, 1}, {1, 0}, {1, 2}, {3, 1}, {1u << GATEWAY_FD_NUM, 1}, {1u << 31 | 1, 2},
		{(1u << GATEWAY_FD_NUM) - 1, GATEWAY_FD_NUM + 1}, {(1u << GATEWAY_FD_NUM) - 1, 60}};
	struct gateway_msg m = {.type = GATEWAY_NOTE}, got;
	int fds[GATEWAY_FD_NUM], before;

	LINE(l);
	before = open_fds();
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		m.fd_mask = lies[i].mask;
		CHECK(send_raw(l.a, &m, sizeof(m), l.a, lies[i].n));
		CHECK_INT(gateway_receive(l.b, &got, fds), -EBADMSG);
		CHECK_INT(open_fds(), before);
	}
}

TEST(an_empty_message_ends_it_and_leaves_nothing)
{
	struct gateway_msg got;
	int fds[GATEWAY_FD_NUM], before;

	LINE(l);
	before = open_fds();
	CHECK(send_raw(l.a, "", 0, l.a, 3));
	CHECK_INT(gateway_receive(l.b, &got, fds), 0);
	CHECK_INT(open_fds(), before);
}

TEST(text_is_ended_by_the_receiver)
{
	struct gateway_msg m, got;
	int fds[GATEWAY_FD_NUM];

	LINE(l);
	memset(&m, 'A', sizeof(m));
	m.type = GATEWAY_DENIAL;
	m.fd_mask = 0;
	CHECK(send_raw(l.a, &m, sizeof(m), -1, 0));
	CHECK_INT(gateway_receive(l.b, &got, fds), 1);
	CHECK_INT(strlen(got.host), sizeof(got.host) - 1);
	CHECK_INT(strlen(got.method), sizeof(got.method) - 1);
	CHECK_INT(strlen(got.path), sizeof(got.path) - 1);
	CHECK_INT(strlen(got.rule), sizeof(got.rule) - 1);
	CHECK_INT(strlen(got.text), sizeof(got.text) - 1);
	CHECK_INT(strlen(got.fix), sizeof(got.fix) - 1);
	CHECK_INT(strlen(got.token), sizeof(got.token) - 1);
}

TEST(nobody_waits_for_an_end_that_does_not_read)
{
	struct gateway_msg m = {.type = GATEWAY_POLICY};
	int r = 0, sent = 0;

	LINE(l);
	while (sent < 100000 && (r = gateway_send(l.a, &m, NULL)) == 0)
		sent++;
	CHECK_INT(r, -EAGAIN);
	CHECK(sent > 0);
	close_fd(&l.b);
	r = gateway_send(l.a, &m, NULL); /* and no SIGPIPE */
	CHECK(r == -EPIPE || r == -ECONNRESET);
}

/* ---- bytes with descriptors, as every form has them ---- */

TEST(one_descriptor_is_passed_or_nothing_is_kept)
{
	char in[8] = "seven77", out[8];
	int pair[2], fd = -1, before = open_fds();

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_INT(pass_receive(pair[1], out, sizeof(out), &fd), -EAGAIN);
	CHECK_INT(pass_send(pair[0], in, sizeof(in), 0), 0);
	CHECK_INT(pass_receive(pair[1], out, sizeof(out), &fd), 1);
	CHECK(fd >= 0 && memcmp(in, out, sizeof(in)) == 0);
	close_fd(&fd);
	/* Too short, too long, and without a descriptor. */
	CHECK_INT(pass_send(pair[0], in, sizeof(in) - 1, 0), 0);
	CHECK_INT(pass_receive(pair[1], out, sizeof(out), &fd), -EBADMSG);
	CHECK_INT(pass_send(pair[0], in, sizeof(in), 0), 0);
	CHECK_INT(pass_receive(pair[1], out, sizeof(out) - 1, &fd), -EBADMSG);
	CHECK_INT(send(pair[0], in, sizeof(in), 0), (ssize_t)sizeof(in));
	CHECK_INT(pass_receive(pair[1], out, sizeof(out), &fd), -EBADMSG);
	CHECK_INT(fd, -1);
	close(pair[0]);
	CHECK_INT(pass_receive(pair[1], out, sizeof(out), &fd), 0);
	close(pair[1]);
	CHECK_INT(open_fds(), before);
}

TEST(a_message_has_its_descriptors_or_nothing_is_kept)
{
	char in[] = "some", more[] = "thing", out[16];
	const struct iovec iov[] = {{in, 4}, {more, 5}};
	int fds[4], list[MESSAGE_FDS_MAX + 1], before;
	size_t n = 9;

	LINE(l);
	for (size_t i = 0; i <= MESSAGE_FDS_MAX; i++)
		list[i] = l.a;
	before = open_fds();
	CHECK_INT(message_receive(l.b, out, sizeof(out), fds, 4, &n), -EAGAIN);
	CHECK_INT(n, 0);
	CHECK_INT(message_send(l.a, iov, 2, list, MESSAGE_FDS_MAX + 1, 0), -EINVAL);
	/* Up to as many as asked for, and the next is too many; an odd number has padding after it. */
	for (size_t max = 0; max <= 4; max++)
		for (size_t some = 0; some <= MESSAGE_FDS_MAX; some++) {
			CHECK_INT(message_send(l.a, iov, 2, list, some, 0), 0);
			CHECK_INT(message_receive(l.b, out, sizeof(out), fds, max, &n),
				some <= max ? 9 : -EPROTO);
			CHECK_INT(n, some <= max ? some : 0);
			CHECK_INT(open_fds(), before + (int)n);
			CHECK(memcmp(out, "something", 9) == 0);
			while (n) {
				CHECK(fcntl(fds[n - 1], F_GETFD) & FD_CLOEXEC);
				close(fds[--n]);
			}
		}
	/* Too long, and empty. */
	CHECK_INT(message_send(l.a, iov, 2, list, 2, 0), 0);
	CHECK_INT(message_receive(l.b, out, 8, fds, 4, &n), -EPROTO);
	CHECK(send_raw(l.a, "", 0, l.a, 2));
	CHECK_INT(message_receive(l.b, out, sizeof(out), fds, 4, &n), 0);
	CHECK_INT(n, 0);
	CHECK_INT(open_fds(), before);
	close_fd(&l.a);
	CHECK_INT(message_receive(l.b, out, sizeof(out), fds, 4, &n), 0);
	CHECK_INT(message_send(l.b, iov, 2, NULL, 0, 0), -EPIPE);
}

/* The kernel tells of the unread message first; what was said before the end must not be lost. */
TEST(what_a_peer_said_last_is_heard_though_it_had_not_read_everything)
{
	char c = 'x', out[4];
	const struct iovec iov = {&c, 1};
	size_t n;
	int fd;

	LINE(l);
	CHECK_INT(message_send(l.a, &iov, 1, NULL, 0, 0), 0);
	CHECK_INT(message_send(l.b, &iov, 1, NULL, 0, 0), 0);
	close_fd(&l.b);
	CHECK_INT(message_receive(l.a, out, sizeof(out), &fd, 1, &n), 1);
	CHECK_INT(message_receive(l.a, out, sizeof(out), &fd, 1, &n), 0);
}
