/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about commands: each type comes back as it was, and nothing else is taken. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/pack.h"
#include "engine/wire/wire.h"

#define ROOM_B (WIRE_PIECE_MAX + 64)

struct line {
	int a, b;
	void *room;
};

static void line_done(struct line *l)
{
	close_fd(&l->a);
	close_fd(&l->b);
	free(l->room);
}
#define LINE(l)                                                                                    \
	__attribute__((cleanup(line_done))) struct line l = {-1, -1, NULL};                        \
	do {                                                                                       \
		int pair_[2];                                                                      \
		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair_) == 0);          \
		l = (struct line){pair_[0], pair_[1], malloc(ROOM_B)};                             \
		CHECK(l.room);                                                                     \
	} while (0)

static int open_fds(void)
{
	cleanup_dir DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

/* One of each, as an honest end sends it. */
static struct wire_msg sample(enum wire_type type)
{
	struct wire_msg m = {.type = type, .id = 0x80000000u + type, .fd = {-1, -1, -1}};

	switch (type) {
	case WIRE_FREEZE:
	case WIRE_FROZEN:
		m.value = 1;
		break;
	case WIRE_CONNECT:
		m.value = 65535;
		break;
	case WIRE_MORE:
	case WIRE_EXEC:
		m.body = "a\0\xff";
		m.body_n = 3;
		break;
	case WIRE_SIGNAL:
		m.value = 15;
		m.scope = WIRE_TO_ALL;
		break;
	case WIRE_FAILED:
		m.kind = ERR_NOT_FOUND;
		m.errnum = ENOENT;
		snprintf(m.text, sizeof(m.text), "execute \xff: no such file");
		break;
	case WIRE_EXIT:
		m.value = 0x0100;
		__attribute__((fallthrough));
	case WIRE_EMPTY:
		m.utime_us = UINT64_MAX;
		m.stime_us = 1ull << 32;
		m.maxrss_kb = 7;
		break;
	case WIRE_STARTED:
		m.rlimits = WIRE_RLIMIT_PIDS;
		m.others = UINT32_MAX;
		__attribute__((fallthrough));
	case WIRE_ADDED:
	case WIRE_LOST:
		m.value = INT32_MAX;
		break;
	case WIRE_CONNECTED:
		m.value = ECONNREFUSED;
		break;
	case WIRE_ADD:
	case WIRE_TYPE_NUM:
	default:
		break;
	}
	return m;
}

static bool same(const struct wire_msg *a, const struct wire_msg *b)
{
	return a->type == b->type && a->id == b->id && a->value == b->value &&
	       a->scope == b->scope && a->utime_us == b->utime_us && a->stime_us == b->stime_us &&
	       a->maxrss_kb == b->maxrss_kb && a->kind == b->kind && a->errnum == b->errnum &&
	       a->rlimits == b->rlimits && a->others == b->others &&
	       strcmp(a->text, b->text) == 0 && a->body_n == b->body_n &&
	       (!a->body_n || memcmp(a->body, b->body, a->body_n) == 0);
}

#define EACH_TYPE(t) (enum wire_type t = WIRE_ADD; t < WIRE_TYPE_NUM; t++)

TEST(each_type_comes_back_over_a_socket)
{
	LINE(l);
	for
		EACH_TYPE(t)
		{
			struct wire_msg m = sample(t), got = {0};

			errno = 77;
			CHECK_INT(wire_send(l.a, &m), 0);
			CHECK_INT(wire_receive(l.b, l.room, &got), 1);
			CHECK(same(&m, &got));
			CHECK(got.fd_n == 0 && got.fd[0] == -1 && got.fd[1] == -1 &&
				got.fd[2] == -1);
			CHECK_INT(wire_receive(l.b, l.room, &got), -EAGAIN);
			CHECK_INT(errno, 77);
		}
	close_fd(&l.a);
	CHECK_INT(wire_receive(l.b, l.room, &(struct wire_msg){0}), 0);
	CHECK_INT(wire_send(l.b, &(struct wire_msg){.type = WIRE_ADD}), -EPIPE);
}

/* The form is a contract between two programs: these bytes, and a version when it changes. */
TEST(the_form_is_what_it_was)
{
	static const char want[] = "crw\x02\x06\0\0\0\x06\0\0\x80\x0f\0\0\0\x02\0\0\0";
	cleanup_buf struct buf b = BUF_INIT(ROOM_B);
	struct wire_msg m = sample(WIRE_SIGNAL);

	wire_encode(&b, &m);
	CHECK_INT(b.len, sizeof(want) - 1);
	CHECK(memcmp(b.data, want, b.len) == 0);
}

TEST(every_truncation_and_every_tail_is_refused)
{
	for
		EACH_TYPE(t)
		{
			cleanup_buf struct buf b = BUF_INIT(ROOM_B);
			struct wire_msg m = sample(t), got = {.id = 7};

			wire_encode(&b, &m);
			CHECK(!b.failed);
			CHECK_INT(wire_decode(&got, b.data, b.len), 0);
			CHECK(same(&m, &got));
			got = (struct wire_msg){.id = 7};
			for (size_t n = 0; n < b.len; n++)
				CHECK_INT(wire_decode(&got, b.data, n), -EPROTO);
			buf_addc(&b, '\0');
			CHECK_INT(wire_decode(&got, b.data, b.len), -EPROTO);
			CHECK_INT(got.id, 7); /* untouched */
		}
}

TEST(another_magic_or_type_is_refused)
{
	cleanup_buf struct buf b = BUF_INIT(ROOM_B);
	struct wire_msg m = sample(WIRE_ADD), got;

	wire_encode(&b, &m);
	for (size_t i = 0; i < 4; i++) {
		b.data[i] ^= 1;
		CHECK_INT(wire_decode(&got, b.data, b.len), -EPROTO);
		b.data[i] ^= 1;
	}
	for (unsigned t = 0; t < 256; t++) {
		b.data[4] = (char)t;
		CHECK_INT(wire_decode(&got, b.data, b.len), t == WIRE_ADD ? 0 : -EPROTO);
	}
	b.data[4] = WIRE_ADD;
	b.data[7] = '\x80';
	CHECK_INT(wire_decode(&got, b.data, b.len), -EPROTO);
}

/* Bytes of a message with one word changed, at `at`. */
static int decode_with(enum wire_type type, size_t at, uint32_t word)
{
	cleanup_buf struct buf b = BUF_INIT(ROOM_B), w = BUF_INIT(4);
	struct wire_msg m = sample(type), got;

	wire_encode(&b, &m);
	pack_u32(&w, word);
	if (b.failed || at + 4 > b.len)
		return 1;
	memcpy(b.data + at, w.data, 4);
	return wire_decode(&got, b.data, b.len);
}

#define VALUE_AT 12
TEST(values_out_of_range_are_refused_by_both_ends)
{
	static const struct {
		enum wire_type type;
		size_t at;
		uint32_t good, bad[3];
	} try[] = {
		{WIRE_FREEZE, VALUE_AT, 0, {2, UINT32_MAX, 1u << 31}},
		{WIRE_FROZEN, VALUE_AT, WIRE_CANNOT_STAND, {WIRE_FROZEN_NUM, UINT32_MAX, 1u << 31}},
		{WIRE_CONNECT, VALUE_AT, 1, {0, 65536, UINT32_MAX}},
		{WIRE_SIGNAL, VALUE_AT, 64, {0, 65, UINT32_MAX}},
		{WIRE_SIGNAL, VALUE_AT + 4, WIRE_TO_GROUP, {WIRE_SCOPE_NUM, UINT32_MAX, 1u << 31}},
		{WIRE_STARTED, VALUE_AT, 1, {0, UINT32_MAX, 1u << 31}},
		{WIRE_STARTED, VALUE_AT + 4, 3, {4, UINT32_MAX, 1u << 31}},
		{WIRE_ADDED, VALUE_AT, 1, {0, UINT32_MAX, 1u << 31}},
		{WIRE_LOST, VALUE_AT, 1, {0, UINT32_MAX, 1u << 31}},
		{WIRE_EXIT, VALUE_AT, 0xffff, {0x10000, UINT32_MAX, 1u << 31}},
		{WIRE_CONNECTED, VALUE_AT, 0, {4096, UINT32_MAX, 1u << 31}},
		{WIRE_FAILED, VALUE_AT, ERR_FAILED, {ERR_NONE, ERR_NUM, UINT32_MAX}},
		{WIRE_FAILED, VALUE_AT + 4, 0, {4096, UINT32_MAX, 1u << 31}},
		{WIRE_FAILED, VALUE_AT + 8, 23, {22, 24, ERR_MSG_MAX}},
		{WIRE_EXEC, VALUE_AT, 3, {2, 4, UINT32_MAX}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(try); i++) {
		CHECK_INT(decode_with(try[i].type, try[i].at, try[i].good), 0);
		for (size_t j = 0; j < ARRAY_SIZE(try[i].bad); j++)
			CHECK_INT(decode_with(try[i].type, try[i].at, try[i].bad[j]), -EPROTO);
	}
	for (size_t i = 0; i < ARRAY_SIZE(try); i++) {
		struct wire_msg m = sample(try[i].type);

		if (try[i].at != VALUE_AT || m.body || m.kind)
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(try[i].bad); j++) {
			m.value = (int32_t)try[i].bad[j];
			CHECK_INT(wire_send(-1, &m), -EINVAL);
		}
	}
}

TEST(text_is_bounded)
{
	cleanup_buf struct buf b = BUF_INIT(ROOM_B);
	struct wire_msg m = sample(WIRE_FAILED), got;

	memset(m.text, 'x', sizeof(m.text)); /* its NUL is forgotten */
	wire_encode(&b, &m);
	CHECK_INT(wire_decode(&got, b.data, b.len), 0);
	CHECK_INT(strlen(got.text), ERR_MSG_MAX - 1);
	/* One more than fits, though all of it is there. */
	buf_reset(&b);
	m.text[0] = '\0';
	wire_encode(&b, &m);
	b.len -= 5;
	pack_bytes(&b, m.text, ERR_MSG_MAX);
	CHECK_INT(wire_decode(&got, b.data, b.len), -EPROTO);
}

TEST(a_piece_is_neither_empty_nor_too_long)
{
	cleanup_free char *piece = calloc(1, ROOM_B);
	cleanup_buf struct buf b = BUF_INIT(2 * ROOM_B);
	struct wire_msg m = sample(WIRE_MORE), got;

	LINE(l);
	CHECK(piece);
	m.body = piece;
	m.body_n = WIRE_PIECE_MAX;
	CHECK_INT(wire_send(l.a, &m), 0);
	CHECK_INT(wire_receive(l.b, l.room, &got), 1);
	CHECK_INT(got.body_n, WIRE_PIECE_MAX);
	m.body_n = 0;
	CHECK_INT(wire_send(l.a, &m), -EINVAL);
	m.body_n = WIRE_PIECE_MAX + 1;
	CHECK_INT(wire_send(l.a, &m), -EINVAL);
	/* The same as bytes, from one who does not ask wire_send(). */
	for (unsigned bad = 0; bad < 2; bad++) {
		buf_reset(&b);
		m.body_n = 1;
		wire_encode(&b, &m);
		b.len -= 6;
		pack_bytes(&b, piece, bad ? 0 : WIRE_PIECE_MAX + 1);
		CHECK_INT(wire_decode(&got, b.data, b.len), -EPROTO);
		CHECK_INT(send(l.a, b.data, b.len, 0), (ssize_t)b.len);
		CHECK_INT(wire_receive(l.b, l.room, &got), -EPROTO);
	}
	/* Longer than the room. */
	CHECK_INT(send(l.a, memset(piece, 0, ROOM_B), ROOM_B, 0), ROOM_B);
	CHECK_INT(wire_receive(l.b, l.room, &got), -EPROTO);
	buf_reset(&b);
	m.body_n = 1;
	wire_encode(&b, &m);
	while (b.len <= ROOM_B)
		buf_addc(&b, '\0');
	CHECK_INT(send(l.a, b.data, b.len, 0), (ssize_t)b.len);
	CHECK_INT(wire_receive(l.b, l.room, &got), -EPROTO);
}

/* ---- descriptors ---- */

static const unsigned fds_of[WIRE_TYPE_NUM] = {
	[WIRE_ADD] = 2, [WIRE_EXEC] = WIRE_FDS_MAX, [WIRE_STARTED] = 1, [WIRE_CONNECTED] = 1};

static void msg_close(struct wire_msg *m)
{
	for (unsigned i = 0; i < m->fd_n; i++)
		close(m->fd[i]);
}

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
	return sendmsg(sock, &mh, 0) == (ssize_t)b->len;
}

TEST(each_type_carries_its_descriptors_and_no_others_are_kept)
{
	static const size_t counts[] = {0, 1, 2, 3, 4, 6, 7, 8, 64};
	int before;

	LINE(l);
	before = open_fds();
	for
		EACH_TYPE(t)
		{
			cleanup_buf struct buf b = BUF_INIT(ROOM_B);
			struct wire_msg m = sample(t);

			wire_encode(&b, &m);
			for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
				size_t n = counts[i];
				bool good = n <= fds_of[t];
				struct wire_msg got = {0};

				CHECK(send_raw(l.a, &b, l.a, n));
				CHECK_INT(wire_receive(l.b, l.room, &got), good ? 1 : -EPROTO);
				CHECK_INT(got.fd_n, good ? n : 0);
				CHECK_INT(open_fds(), before + (int)got.fd_n);
				for (unsigned k = 0; k < got.fd_n; k++)
					CHECK(fcntl(got.fd[k], F_GETFD) & FD_CLOEXEC);
				msg_close(&got);
				m.fd_n = (unsigned)n;
				if (!good && n <= WIRE_FDS_MAX)
					CHECK_INT(wire_send(l.a, &m), -EINVAL);
			}
		}
}

TEST(descriptors_of_a_bad_or_empty_message_are_closed)
{
	cleanup_buf struct buf b = BUF_INIT(ROOM_B), none = BUF_INIT(1);
	struct wire_msg m = sample(WIRE_EXEC), got = {0};
	int before;

	LINE(l);
	before = open_fds();
	wire_encode(&b, &m);
	b.len--;
	CHECK(send_raw(l.a, &b, l.a, 3));
	CHECK_INT(wire_receive(l.b, l.room, &got), -EPROTO);
	CHECK(send_raw(l.a, &none, l.a, 3));
	CHECK_INT(wire_receive(l.b, l.room, &got), 0);
	CHECK_INT(open_fds(), before);
}

TEST(descriptors_arrive_in_their_order)
{
	struct wire_msg m = sample(WIRE_EXEC), got;
	int p[2];

	LINE(l);
	CHECK_INT(pipe(p), 0);
	m.fd_n = 3;
	memcpy(m.fd, (int[]){p[0], p[1], l.a}, 3 * sizeof(m.fd[0]));
	CHECK_INT(wire_send(l.a, &m), 0);
	CHECK_INT(wire_receive(l.b, l.room, &got), 1);
	CHECK_INT(got.fd_n, 3);
	CHECK_INT(write(got.fd[1], "x", 1), 1);
	CHECK_INT(read(got.fd[0], &(char){0}, 1), 1);
	CHECK_INT(send(got.fd[2], "x", 1, 0), 1);
	CHECK_INT(recv(l.b, &(char){0}, 1, 0), 1);
	msg_close(&got);
	close(p[0]);
	close(p[1]);
}

/* The kernel tells of the unread message first; what was said before the end must not be lost. */
TEST(the_last_words_of_a_peer_that_had_not_read_everything_are_heard)
{
	struct wire_msg m = sample(WIRE_SIGNAL), last = sample(WIRE_EXIT), got;

	LINE(l);
	CHECK_INT(wire_send(l.a, &m), 0);
	CHECK_INT(wire_send(l.b, &last), 0);
	close_fd(&l.b);
	CHECK_INT(wire_receive(l.a, l.room, &got), 1);
	CHECK(same(&last, &got));
	CHECK_INT(wire_receive(l.a, l.room, &got), 0);
}

TEST(sending_never_waits)
{
	struct wire_msg m = sample(WIRE_EXEC);
	int r = 0, n = 0;

	LINE(l);
	while (n++ < 100000 && (r = wire_send(l.a, &m)) == 0)
		;
	CHECK_INT(r, -EAGAIN);
}

/* ---- what to start ---- */

static bool list_same(char **a, char **b)
{
	size_t i = 0;

	for (; a[i] && b[i]; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return !a[i] && !b[i];
}

static bool process_same(const struct wire_process *a, const struct wire_process *b)
{
	return a->flags == b->flags && a->rows == b->rows && a->cols == b->cols &&
	       a->groups == b->groups && memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0 &&
	       strcmp(a->cwd, b->cwd) == 0 && list_same(a->argv, b->argv) &&
	       list_same(a->envp, b->envp);
}

static char s_empty[] = "", s_sh[] = "/bin/sh", s_bytes[] = "\xff\xfe=\x80\n", s_word[] = "a b";
static char *odd[] = {s_sh, s_empty, s_bytes, s_empty, s_word, NULL};
static char *none[] = {NULL};

static struct wire_process process(void)
{
	return (struct wire_process){.flags = WIRE_TTY | WIRE_LESS,
		.groups = WIRE_GROUPS_MAX,
		.limits = {1, UINT64_MAX, 1ull << 40, 7},
		.rows = 65535,
		.cols = 1,
		.cwd = "/w\xffrk",
		.argv = odd,
		.envp = odd + 1};
}

TEST(a_process_comes_back_with_empty_strings_and_any_bytes)
{
	char *just_empty[] = {s_empty, NULL};
	struct wire_process p[] = {process(), process(), process()}, got;

	p[1].envp = none;
	p[1].cwd = "";
	p[1].flags = 0;
	p[2].argv = just_empty;
	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		cleanup_buf struct buf b = BUF_INIT(WIRE_PROCESS_MAX);

		wire_pack_process(&b, &p[i]);
		CHECK(!b.failed);
		CHECK_INT(wire_unpack_process(&got, b.data, b.len), 0);
		CHECK(process_same(&p[i], &got));
		wire_process_done(&got);
		CHECK(!got.argv && !got.envp);
		for (size_t n = 0; n < b.len; n++)
			CHECK_INT(wire_unpack_process(&got, b.data, n), -EPROTO);
		buf_addc(&b, '\0');
		CHECK_INT(wire_unpack_process(&got, b.data, b.len), -EPROTO);
		CHECK(!got.argv && !got.envp); /* untouched */
	}
}

TEST(a_process_has_limits)
{
	cleanup_free char **many = calloc(WIRE_ARGS_MAX + 2, sizeof(*many));
	cleanup_free char *cwd = calloc(1, 4097), *big = calloc(1, WIRE_PROCESS_MAX);
	cleanup_buf struct buf b = BUF_INIT(2 * WIRE_PROCESS_MAX);
	char *big_list[] = {big, NULL};
	struct wire_process p = process(), got;

	CHECK(many && cwd && big);
	for (size_t i = 0; i <= WIRE_ARGS_MAX; i++)
		many[i] = s_empty;
	p.argv = many;
	wire_pack_process(&b, &p);
	CHECK(b.failed);
	many[WIRE_ARGS_MAX] = NULL; /* just as many as there may be */
	buf_reset(&b);
	wire_pack_process(&b, &p);
	CHECK(!b.failed);
	CHECK_INT(wire_unpack_process(&got, b.data, b.len), 0);
	wire_process_done(&got);
	p = process();
	p.cwd = memset(cwd, 'x', 4096);
	buf_reset(&b);
	wire_pack_process(&b, &p);
	CHECK(b.failed);
	cwd[4095] = '\0';
	buf_reset(&b);
	wire_pack_process(&b, &p);
	CHECK(!b.failed && wire_unpack_process(&got, b.data, b.len) == 0);
	wire_process_done(&got);
	p = process();
	p.envp = big_list; /* together with the rest it is too long */
	memset(big, 'x', WIRE_PROCESS_MAX - 1);
	buf_reset(&b);
	wire_pack_process(&b, &p);
	CHECK(!b.failed);
	CHECK_INT(wire_unpack_process(&got, b.data, b.len), -EPROTO);
}

TEST(a_process_that_is_none_is_refused)
{
	cleanup_buf struct buf b = BUF_INIT(ROOM_B);
	struct wire_process p = process(), got;

	wire_pack_process(&b, &p);
	b.data[0] = 4; /* a flag that nobody knows */
	CHECK_INT(wire_unpack_process(&got, b.data, b.len), -EPROTO);
	b.data[0] = 0;
	b.data[8]++; /* more groups than there can be */
	CHECK_INT(wire_unpack_process(&got, b.data, b.len), -EPROTO);
	buf_reset(&b);
	for (int i = 0; i < 3 + 4 * 2; i++) /* flags, size, groups, limits */
		pack_u32(&b, 0);
	pack_str(&b, "/");
	pack_u32(&b, 0); /* nothing to execute */
	pack_u32(&b, 0);
	CHECK_INT(wire_unpack_process(&got, b.data, b.len), -EPROTO);
	p.argv = none;
	buf_reset(&b);
	wire_pack_process(&b, &p);
	CHECK(b.failed);
}

/* Read as a reaper does: pieces until EXEC. Returns how many messages; 0 when something was wrong. */
static int gather(struct line *l, struct buf *all, struct wire_msg *ret)
{
	int n = 0, r;

	do {
		r = wire_receive(l->b, l->room, ret);
		if (r != 1 || (ret->type != WIRE_MORE && ret->type != WIRE_EXEC))
			return 0;
		n++;
		buf_add(all, ret->body, ret->body_n);
	} while (ret->type == WIRE_MORE);
	return n;
}

TEST(a_long_command_line_goes_in_pieces)
{
	/* The last: its packed form is two whole pieces, to the byte. */
	const size_t lens[] = {
		10, 60000, 70000, 150000, 2 * WIRE_PIECE_MAX - 4 - 4 - 4 - 4 * 8 - 5 - 9 - 4 - 5};
	static const int messages[] = {1, 1, 2, 3, 2};

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		cleanup_free char *text = calloc(1, lens[i] + 1);
		cleanup_buf struct buf all = BUF_INIT(WIRE_PROCESS_MAX);
		char *argv[] = {text, NULL};
		struct wire_process p = {.cwd = "", .argv = argv, .envp = none}, got;
		struct wire_msg m = {.id = 5, .fd_n = 3}, last;

		LINE(l);
		CHECK(text);
		memset(text, 'x', lens[i]);
		m.fd[0] = m.fd[1] = m.fd[2] = l.a;
		CHECK_INT(wire_send_process(l.a, &m, &p), 0);
		CHECK_INT(gather(&l, &all, &last), messages[i]);
		CHECK(last.id == 5 && last.fd_n == 3);
		msg_close(&last);
		CHECK_INT(wire_unpack_process(&got, all.data, all.len), 0);
		CHECK(process_same(&p, &got));
		wire_process_done(&got);
	}
}

/* More than the socket holds: the other end reads while we wait for room. */
TEST(pieces_wait_for_room_but_not_for_ever)
{
	cleanup_free char *text = calloc(1, 3u << 20);
	char *argv[] = {text, NULL};
	struct wire_process p = {.cwd = "/", .argv = argv, .envp = none};
	struct wire_msg m = {.id = 5}, last;
	int status;
	pid_t pid;

	LINE(l);
	CHECK(text);
	memset(text, 'x', (3u << 20) - 1);
	pid = fork();
	if (pid == 0) {
		cleanup_buf struct buf all = BUF_INIT(WIRE_PROCESS_MAX);

		close(l.a);
		for (;;) {
			struct pollfd in = {.fd = l.b, .events = POLLIN};

			if (poll(&in, 1, -1) != 1 || wire_receive(l.b, l.room, &last) != 1)
				_exit(1);
			buf_add(&all, last.body, last.body_n);
			if (last.type == WIRE_EXEC)
				_exit(wire_unpack_process(&p, all.data, all.len) == 0 &&
							strcmp(p.argv[0], text) == 0
						? 42
						: 1);
		}
	}
	CHECK_INT(wire_send_process(l.a, &m, &p), 0);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	/* Nobody reads. */
	CHECK_INT(wire_send_process(l.a, &m, &p), -ETIMEDOUT);
	close_fd(&l.b); /* with something unread: that is told first */
	CHECK_INT(wire_send_process(l.a, &m, &p), -ECONNRESET);
	CHECK_INT(wire_send_process(l.a, &m, &p), -EPIPE);
}

TEST(a_process_beyond_the_limit_is_not_begun)
{
	cleanup_free char *text = calloc(1, WIRE_PROCESS_MAX + 1);
	char *argv[] = {text, NULL};
	struct wire_process p = {.cwd = "/", .argv = argv, .envp = none};
	struct wire_msg m = {.id = 5}, got;

	LINE(l);
	CHECK(text);
	memset(text, 'x', WIRE_PROCESS_MAX);
	CHECK_INT(wire_send_process(l.a, &m, &p), -E2BIG);
	p.argv = none;
	CHECK_INT(wire_send_process(l.a, &m, &p), -EINVAL);
	CHECK_INT(wire_receive(l.b, l.room, &got), -EAGAIN);
}
