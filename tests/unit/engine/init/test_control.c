/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between supervisor and first process: each type comes back, and nothing else is taken. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/pack.h"
#include "engine/init/init.h"

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

static int open_fds(void)
{
	cleanup_dir DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static void sandbox_close(struct sandbox *s)
{
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&s->fd[i]);
}

#define EACH_TYPE(t) (uint32_t t = CONTROL_READY; t < CONTROL_NUM; t++)
#define BIT(i) (1u << (i))

/* Every field another value, so that none can take another's place. */
static struct enforced enforced(void)
{
	struct enforced f = {0};
	uint32_t n = 0x80000001u;

#define FILL_NUMBER(name) f.name = n++;
#define FILL_FLAG(name) f.name = n++ & 1;
	ENFORCED(FILL_NUMBER, FILL_FLAG)
	return f;
}

static bool enforced_same(const struct enforced *a, const struct enforced *b)
{
#define SAME(name) &&a->name == b->name
	return true ENFORCED(SAME, SAME);
}

/* One of each, as an honest end sends it; without descriptors. */
static struct control_msg sample(uint32_t type)
{
	struct control_msg m = {.type = type};

	switch (type) {
	case CONTROL_READY:
		m.status = INT32_MAX;
		m.enforced = enforced();
		break;
	case CONTROL_STARTED:
		m.enforced = enforced();
		break;
	case CONTROL_GO:
		m.status = GO_CGROUP_MEMORY | GO_CGROUP_PIDS;
		break;
	case CONTROL_FAILED:
		m.err_kind = ERR_REFUSED;
		m.err_boundary = 1;
		m.errnum = EPERM;
		snprintf(m.msg, sizeof(m.msg), "mount \xff: no");
		break;
	case CONTROL_EXIT:
		m.utime_us = UINT64_MAX;
		m.stime_us = 1ull << 32;
		m.maxrss_kb = 7;
		m.scratch_full = 1;
		__attribute__((fallthrough));
	case CONTROL_STOPPED:
		m.status = 0x137f;
		break;
	case CONTROL_TRUST:
		m.status = 1;
		snprintf(m.msg, sizeof(m.msg), "-----BEGIN\n");
		break;
	case CONTROL_CONNECT:
		m.status = UINT16_MAX;
		m.id = 63;
		break;
	case CONTROL_CONNECTED:
		m.status = ECONNREFUSED;
		m.id = UINT32_MAX;
		break;
	default:
		break;
	}
	return m;
}

static bool same(const struct control_msg *a, const struct control_msg *b)
{
	return a->type == b->type && a->status == b->status && a->id == b->id && a->err_kind == b->err_kind &&
	       a->err_boundary == b->err_boundary && a->errnum == b->errnum &&
	       a->utime_us == b->utime_us && a->stime_us == b->stime_us &&
	       a->maxrss_kb == b->maxrss_kb && a->scratch_full == b->scratch_full &&
	       a->fd_mask == b->fd_mask && strcmp(a->msg, b->msg) == 0 &&
	       enforced_same(&a->enforced, &b->enforced);
}

TEST(each_type_comes_back_over_a_socket)
{
	struct sandbox s = {.fd = SANDBOX_FDS_NONE};

	LINE(l);
	s.control = l.b;
	for
		EACH_TYPE(t)
		{
			struct control_msg m = sample(t), got;

			memset(&got, 0xff, sizeof(got)); /* what the type does not have is 0 */
			CHECK_INT(control_send(l.a, &m, NULL, 0), 0);
			CHECK_INT(control_receive(&s, &got), 1);
			CHECK(same(&m, &got));
			CHECK_INT(control_receive(&s, &got), -EAGAIN);
		}
	CHECK(s.enforced.landlock_abi == 0x80000001u);
	close_fd(&l.a);
	CHECK_INT(control_receive(&s, &(struct control_msg){0}), 0);
	CHECK_INT(control_send(l.b, &(struct control_msg){.type = CONTROL_GO}, NULL, 0), -EPIPE);
}

/* Fields that a type does not have are not sent, whatever they hold. */
TEST(only_the_fields_of_the_type_are_sent)
{
	for
		EACH_TYPE(t)
		{
			cleanup_buf struct buf all = BUF_INIT(CONTROL_MAX_B),
					       own = BUF_INIT(CONTROL_MAX_B);
			struct control_msg m = sample(t), got;

			control_encode(&own, &m);
			CHECK_INT(control_decode(&got, own.data, own.len), 0);
			if (t != CONTROL_FAILED)
				m.err_kind = m.err_boundary = 0xffffffffu;
			if (t != CONTROL_EXIT)
				m.utime_us = m.stime_us = m.maxrss_kb = m.scratch_full =
					0x7fffffffu;
			if (t != CONTROL_CONNECT && t != CONTROL_CONNECTED)
				m.id = 0x7fffffffu;
			if (t != CONTROL_FAILED && t != CONTROL_TRUST)
				memset(m.msg, 'x', sizeof(m.msg));
			if (t != CONTROL_READY && t != CONTROL_STARTED)
				memset(&m.enforced, 0xff, sizeof(m.enforced));
			if (t == CONTROL_STARTED || t == CONTROL_FAILED || t == CONTROL_ASK_TRUST)
				m.status = -1;
			control_encode(&all, &m);
			CHECK(!all.failed && all.len == own.len &&
				memcmp(all.data, own.data, own.len) == 0);
		}
}

/* Each flag and each number by itself: none is missing, and none stands for another. */
TEST(what_is_enforced_goes_field_by_field)
{
	struct control_msg m[] = {
#define ONE(name) {.type = CONTROL_READY, .enforced = {.name = 1}},
		ENFORCED(ONE, ONE)};
	struct control_msg got;
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
		cleanup_buf struct buf b = BUF_INIT(CONTROL_MAX_B);

		control_encode(&b, &m[i]);
		CHECK_INT(control_decode(&got, b.data, b.len), 0);
		CHECK(enforced_same(&m[i].enforced, &got.enforced));
		CHECK(i == 0 || !enforced_same(&m[i - 1].enforced, &got.enforced));
		len = b.len;
	}
	/* Five numbers, and the flags as a sixth. */
	CHECK_INT(ARRAY_SIZE(m), 5 + 23);
	CHECK_INT(len, 4 * (4 + 6));
	/* A flag of any value is one; a flag that nobody knows is refused. */
	m[0].enforced.ns_pid = 0x80;
	for (int bad = 0; bad < 2; bad++) {
		cleanup_buf struct buf b = BUF_INIT(CONTROL_MAX_B);

		control_encode(&b, &m[0]);
		b.data[b.len - 4] |= 1; /* landlock_reads */
		b.data[b.len - 2] |= bad ? '\x80' : 0x40;
		CHECK_INT(control_decode(&got, b.data, b.len), bad ? -EPROTO : 0);
		CHECK(bad || (got.enforced.landlock_reads == 1 && got.enforced.broker_meta == 1 &&
				     got.enforced.ns_pid == 1));
	}
}

TEST(every_truncation_and_every_tail_is_refused)
{
	for
		EACH_TYPE(t)
		{
			cleanup_buf struct buf b = BUF_INIT(2 * CONTROL_MAX_B);
			struct control_msg m = sample(t), got = {.errnum = 77};
			struct sandbox s = {.fd = SANDBOX_FDS_NONE};

			LINE(l);
			s.control = l.b;
			control_encode(&b, &m);
			CHECK(!b.failed);
			for (size_t n = 0; n < b.len; n++)
				CHECK_INT(control_decode(&got, b.data, n), -EPROTO);
			CHECK_INT(send(l.a, b.data, b.len - 1, 0), (ssize_t)b.len - 1);
			CHECK_INT(control_receive(&s, &got), -EPROTO);
			buf_addc(&b, '\0');
			CHECK_INT(control_decode(&got, b.data, b.len), -EPROTO);
			CHECK_INT(got.errnum, 77); /* untouched */
			while (b.len <= CONTROL_MAX_B)
				buf_addc(&b, '\0');
			CHECK_INT(send(l.a, b.data, b.len, 0), (ssize_t)b.len);
			CHECK_INT(control_receive(&s, &got), -EPROTO);
		}
}

/* A message with one word changed, at `at`. */
static int decode_with(uint32_t type, size_t at, uint32_t word)
{
	cleanup_buf struct buf b = BUF_INIT(CONTROL_MAX_B), w = BUF_INIT(4);
	struct control_msg m = sample(type), got;

	control_encode(&b, &m);
	pack_u32(&w, word);
	if (b.failed || at + 4 > b.len)
		return 1;
	memcpy(b.data + at, w.data, 4);
	return control_decode(&got, b.data, b.len);
}

TEST(values_out_of_range_are_refused)
{
	static const struct {
		uint32_t type;
		size_t at;
		uint32_t good, bad[3];
	} try[] = {
		{CONTROL_ASK_TRUST, 0, 0x01637263u, {0x02637263u, 0, UINT32_MAX}}, /* magic */
		{CONTROL_ASK_TRUST, 4, CONTROL_ASK_TRUST, {0, CONTROL_NUM, UINT32_MAX}},
		{CONTROL_READY, 8, 0, {UINT32_MAX, 1u << 31, 1u << 31}},
		{CONTROL_READY, 12, BIT(SANDBOX_FD_UDP6),
			{BIT(SANDBOX_FD_INNER), BIT(SANDBOX_FD_NUM), UINT32_MAX}},
		{CONTROL_GO, 8, 3, {4, UINT32_MAX, 1u << 31}},
		{CONTROL_GO, 12, 15, {BIT(SANDBOX_FD_NUM), UINT32_MAX, 1u << 31}},
		{CONTROL_FAILED, 8, ERR_NONE, {ERR_NUM, UINT32_MAX, 1u << 31}},
		{CONTROL_FAILED, 12, 0, {2, UINT32_MAX, 1u << 31}},
		{CONTROL_FAILED, 16, 4095, {4096, UINT32_MAX, 1u << 31}},
		{CONTROL_FAILED, 20, 11, {10, 12, ERR_MSG_MAX}},
		{CONTROL_EXIT, 8, 0xffff, {0x10000, UINT32_MAX, 1u << 31}},
		{CONTROL_EXIT, 8 + 4 + 24, 0, {2, UINT32_MAX, 1u << 31}},
		{CONTROL_STOPPED, 8, 0, {0x10000, UINT32_MAX, 1u << 31}},
		{CONTROL_TRUST, 8, 0, {2, UINT32_MAX, 1u << 31}},
		{CONTROL_TRUST, 12, 1, {2, 3, UINT32_MAX}},
		{CONTROL_CONNECT, 8, 80, {65536, UINT32_MAX, 1u << 31}},
		{CONTROL_CONNECTED, 8, 0, {4096, UINT32_MAX, 1u << 31}},
		{CONTROL_CONNECTED, 16, BIT(SANDBOX_FD_INNER),
			{1, BIT(SANDBOX_FD_NUM), UINT32_MAX}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(try); i++) {
		CHECK_INT(decode_with(try[i].type, try[i].at, try[i].good), 0);
		for (size_t j = 0; j < ARRAY_SIZE(try[i].bad); j++)
			CHECK_INT(decode_with(try[i].type, try[i].at, try[i].bad[j]), -EPROTO);
	}
}

TEST(what_the_other_end_would_refuse_is_not_sent)
{
	struct control_msg m = {.type = CONTROL_NUM};

	LINE(l);
	CHECK_INT(control_send(l.a, &m, NULL, 0), -EINVAL);
	m = (struct control_msg){.type = CONTROL_CONNECT, .status = -1};
	CHECK_INT(control_send(l.a, &m, NULL, 0), -EINVAL);
	m = (struct control_msg){.type = CONTROL_READY, .fd_mask = 1};
	CHECK_INT(control_send(l.a, &m, NULL, 0), -EINVAL);
	m = (struct control_msg){.type = CONTROL_STARTED, .fd_mask = 1};
	CHECK_INT(control_send(l.a, &m, &l.a, 1), -EINVAL);
	CHECK_INT(recv(l.b, &m, sizeof(m), MSG_DONTWAIT), -1);
}

TEST(text_is_bounded)
{
	cleanup_buf struct buf b = BUF_INIT(2 * CONTROL_MAX_B);
	struct control_msg m = sample(CONTROL_FAILED), got;
	struct sandbox s = {.fd = SANDBOX_FDS_NONE};

	LINE(l);
	s.control = l.b;
	memset(m.msg, 'x', sizeof(m.msg)); /* its NUL is forgotten */
	CHECK_INT(control_send(l.a, &m, NULL, 0), 0);
	CHECK_INT(control_receive(&s, &got), 1);
	CHECK_INT(strlen(got.msg), ERR_MSG_MAX - 1);
	m.msg[0] = '\0';
	control_encode(&b, &m);
	b.len -= 5;
	memset(m.msg, 'x', sizeof(m.msg));
	pack_bytes(&b, m.msg, ERR_MSG_MAX);
	CHECK_INT(control_decode(&got, b.data, b.len), -EPROTO);
}

/* ---- descriptors ---- */

/* Bytes as they are, with n copies of a descriptor: what no honest end would send. */
static bool send_raw(int sock, const struct buf *b, int fd, size_t n)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(64 * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = b->data, .iov_len = b->len};
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
	return sendmsg(sock, &mh, MSG_NOSIGNAL) == (ssize_t)b->len;
}

TEST(as_many_descriptors_as_the_mask_says_or_none_is_kept)
{
	static const uint32_t masks[CONTROL_NUM] = {[CONTROL_READY] = BIT(SANDBOX_FD_INNER) - 1,
		[CONTROL_GO] = 7,
		[CONTROL_TRUST] = 1,
		[CONTROL_CONNECTED] = BIT(SANDBOX_FD_INNER)};
	struct sandbox s = {.fd = SANDBOX_FDS_NONE};
	int before;

	LINE(l);
	s.control = l.b;
	before = open_fds();
	for
		EACH_TYPE(t)
		{
			cleanup_buf struct buf b = BUF_INIT(CONTROL_MAX_B);
			struct control_msg m = sample(t), got;
			size_t want = (size_t)__builtin_popcount(masks[t]);

			m.fd_mask = masks[t];
			control_encode(&b, &m);
			for (size_t n = 0; n <= SANDBOX_FD_NUM + 3; n++) {
				CHECK(send_raw(l.a, &b, l.a, n));
				CHECK_INT(control_receive(&s, &got), n == want ? 1 : -EPROTO);
				CHECK_INT(open_fds(), before + (n == want ? (int)want : 0));
				for (int i = 0; i < SANDBOX_FD_NUM; i++)
					CHECK_INT(s.fd[i] >= 0,
						n == want && (masks[t] & BIT(i)) != 0);
				for (int i = 0; i < SANDBOX_FD_NUM; i++)
					CHECK(s.fd[i] < 0 || fcntl(s.fd[i], F_GETFD) & FD_CLOEXEC);
				sandbox_close(&s);
				CHECK_INT(open_fds(), before);
			}
		}
	/* A short message, and an empty one. */
	for (int empty = 0; empty < 2; empty++) {
		cleanup_buf struct buf b = BUF_INIT(CONTROL_MAX_B);
		struct control_msg m = sample(CONTROL_READY), got;

		m.fd_mask = 7;
		control_encode(&b, &m);
		b.len = empty ? 0 : b.len - 1;
		CHECK(send_raw(l.a, &b, l.a, 3));
		CHECK_INT(control_receive(&s, &got), empty ? 0 : -EPROTO);
		CHECK_INT(open_fds(), before);
	}
}

TEST(descriptors_go_to_their_places_and_not_over_others)
{
	struct control_msg m = sample(CONTROL_READY), got;
	struct sandbox s = {.fd = SANDBOX_FDS_NONE};
	int before, p[2];

	LINE(l);
	s.control = l.b;
	CHECK_INT(pipe(p), 0);
	before = open_fds();
	m.fd_mask = BIT(SANDBOX_FD_NOTIFY) | BIT(SANDBOX_FD_UDP6);
	CHECK_INT(control_send(l.a, &m, p, 2), 0);
	CHECK_INT(control_receive(&s, &got), 1);
	CHECK_INT(write(s.fd[SANDBOX_FD_UDP6], "x", 1), 1);
	CHECK_INT(read(s.fd[SANDBOX_FD_NOTIFY], &(char){0}, 1), 1);
	/* Again, with one place free: the one that is taken is not replaced. */
	close_fd(&s.fd[SANDBOX_FD_NOTIFY]);
	CHECK_INT(control_send(l.a, &m, (int[]){p[0], l.a}, 2), 0);
	CHECK_INT(control_receive(&s, &got), 1);
	CHECK_INT(write(s.fd[SANDBOX_FD_UDP6], "x", 1), 1);
	CHECK_INT(read(s.fd[SANDBOX_FD_NOTIFY], &(char){0}, 1), 1);
	CHECK_INT(open_fds(), before + 2);
	sandbox_close(&s);
	close(p[0]);
	close(p[1]);
}

/* A command that ends while a CONNECT is on its way: how it ended must not be lost. */
TEST(the_end_is_heard_though_a_request_was_not_read)
{
	struct control_msg m = sample(CONTROL_CONNECT), last = sample(CONTROL_EXIT), got;
	struct sandbox s = {.fd = SANDBOX_FDS_NONE};

	LINE(l);
	s.control = l.a;
	CHECK_INT(control_send(l.a, &m, NULL, 0), 0);
	CHECK_INT(control_send(l.b, &last, NULL, 0), 0);
	close_fd(&l.b);
	CHECK_INT(control_receive(&s, &got), 1);
	CHECK(same(&last, &got));
	CHECK_INT(control_receive(&s, &got), 0);
}
