/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages about the commands of a sandbox that stays up: see wire.h.
 *
 * Form:    magic with the version, type, id; then what shape_of[] says that the type has, in the order
 *          value, scope, usage, error, rlimits, piece. Nothing more and nothing less.
 * Trust:   wire_decode() holds to the same table as wire_encode(), so what this end would not send it
 *          does not take either. Descriptors are kept only once the rest of the message is right.
 */
#include "engine/wire/wire.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/pack.h"
#include "ipc/message.h"
#include "os/clock.h"

#define MAGIC 0x02777263u /* "crw", version 2 */
#define HEAD_B (3 * 4)
#define ROOM_B (WIRE_PIECE_MAX + 64) /* what the caller of wire_receive() has */
#define SEND_WAIT_MS 2000
#define ERRNO_MAX 4095
#define STATUS_MAX 0xffff /* a wait status: two bytes */
#define SIGNAL_MAX 64
#define PROCESS_FLAGS (WIRE_TTY | WIRE_LESS)
#define RLIMITS (WIRE_RLIMIT_MEMORY | WIRE_RLIMIT_PIDS)

/* A piece, its length before it and the NUL after it; and the longest of the others, FAILED. */
static_assert(HEAD_B + 4 + WIRE_PIECE_MAX + 1 <= ROOM_B, "the room holds the longest message");
static_assert(HEAD_B + 3 * 4 + ERR_MSG_MAX <= ROOM_B, "the room holds an error");

enum has { HAS_VALUE = 1, HAS_SCOPE = 2, HAS_USAGE = 4, HAS_ERROR = 8, HAS_PIECE = 16, HAS_RLIMITS = 32 };

static const struct shape {
	unsigned has;
	int32_t min, max; /* of value */
	unsigned fd_max;
} shape_of[WIRE_TYPE_NUM] = {
	[WIRE_ADD] = {0, 0, 0, 2},
	[WIRE_FREEZE] = {HAS_VALUE, 0, 1, 0},
	[WIRE_CONNECT] = {HAS_VALUE, 1, UINT16_MAX, 0},
	[WIRE_MORE] = {HAS_PIECE, 0, 0, 0},
	[WIRE_EXEC] = {HAS_PIECE, 0, 0, WIRE_FDS_MAX},
	[WIRE_SIGNAL] = {HAS_VALUE | HAS_SCOPE, 1, SIGNAL_MAX, 0},
	[WIRE_STARTED] = {HAS_VALUE | HAS_RLIMITS, 1, INT32_MAX, 1},
	[WIRE_FAILED] = {HAS_ERROR, 0, 0, 0},
	[WIRE_EXIT] = {HAS_VALUE | HAS_USAGE, 0, STATUS_MAX, 0},
	[WIRE_EMPTY] = {HAS_USAGE, 0, 0, 0},
	[WIRE_FROZEN] = {HAS_VALUE, 0, WIRE_FROZEN_NUM - 1, 0},
	[WIRE_CONNECTED] = {HAS_VALUE, 0, ERRNO_MAX, 1},
	[WIRE_ADDED] = {HAS_VALUE, 1, INT32_MAX, 0},
	[WIRE_LOST] = {HAS_VALUE, 1, INT32_MAX, 0},
};
static_assert(WIRE_TYPE_NUM == WIRE_LOST + 1, "every type has a shape");

static bool type_known(uint32_t type)
{
	return type >= WIRE_ADD && type < WIRE_TYPE_NUM;
}

/* Whether a known type may have what `m` holds: asked by both ends. */
static bool fields_good(const struct wire_msg *m)
{
	const struct shape *s = &shape_of[m->type];

	if ((s->has & HAS_VALUE) && (m->value < s->min || m->value > s->max))
		return false;
	if ((s->has & HAS_SCOPE) && (unsigned)m->scope >= WIRE_SCOPE_NUM)
		return false;
	if ((s->has & HAS_ERROR) && (m->kind == ERR_NONE || m->kind >= ERR_NUM || m->errnum < 0 ||
					    m->errnum > ERRNO_MAX))
		return false;
	if ((s->has & HAS_RLIMITS) && (m->rlimits & ~(uint32_t)RLIMITS))
		return false;
	return !(s->has & HAS_PIECE) || (m->body_n > 0 && m->body_n <= WIRE_PIECE_MAX);
}

static bool fds_good(const struct wire_msg *m)
{
	const struct shape *s = &shape_of[m->type];

	return m->fd_n <= s->fd_max;
}

/* All but the bytes of a piece, and the NUL that ends it. */
static void encode_front(struct buf *b, const struct wire_msg *m)
{
	unsigned has;

	if (!type_known(m->type) || !fields_good(m)) {
		b->failed = true;
		return;
	}
	has = shape_of[m->type].has;
	pack_u32(b, MAGIC);
	pack_u32(b, m->type);
	pack_u32(b, m->id);
	if (has & HAS_VALUE)
		pack_u32(b, (uint32_t)m->value);
	if (has & HAS_SCOPE)
		pack_u32(b, m->scope);
	if (has & HAS_USAGE) {
		pack_u64(b, m->utime_us);
		pack_u64(b, m->stime_us);
		pack_u64(b, m->maxrss_kb);
	}
	if (has & HAS_ERROR) {
		pack_u32(b, m->kind);
		pack_u32(b, (uint32_t)m->errnum);
		pack_bytes(b, m->text, strnlen(m->text, sizeof(m->text) - 1));
	}
	if (has & HAS_RLIMITS) {
		pack_u32(b, m->rlimits);
		pack_u32(b, m->others);
	}
	if (has & HAS_PIECE)
		pack_u32(b, (uint32_t)m->body_n);
}

void wire_encode(struct buf *b, const struct wire_msg *m)
{
	encode_front(b, m);
	if (!b->failed && (shape_of[m->type].has & HAS_PIECE)) {
		buf_add(b, m->body, m->body_n);
		buf_addc(b, '\0');
	}
}

int wire_decode(struct wire_msg *ret, const void *p, size_t n)
{
	struct wire_msg m = {.fd = {-1, -1, -1, -1, -1, -1, -1}};
	struct unpack u = unpack_of(p, n);
	uint32_t magic = unpack_u32(&u), type = unpack_u32(&u);
	unsigned has;

	if (u.bad || magic != MAGIC || !type_known(type))
		return -EPROTO;
	m.type = type;
	m.id = unpack_u32(&u);
	has = shape_of[type].has;
	if (has & HAS_VALUE)
		m.value = (int32_t)unpack_u32(&u);
	if (has & HAS_SCOPE)
		m.scope = unpack_u32(&u);
	if (has & HAS_USAGE) {
		m.utime_us = unpack_u64(&u);
		m.stime_us = unpack_u64(&u);
		m.maxrss_kb = unpack_u64(&u);
	}
	if (has & HAS_ERROR) {
		m.kind = unpack_u32(&u);
		m.errnum = (int32_t)unpack_u32(&u);
		snprintf(m.text, sizeof(m.text), "%s", unpack_str(&u, sizeof(m.text) - 1));
	}
	if (has & HAS_RLIMITS) {
		m.rlimits = unpack_u32(&u);
		m.others = unpack_u32(&u);
	}
	if (has & HAS_PIECE)
		m.body = unpack_bytes(&u, WIRE_PIECE_MAX, &m.body_n);
	if (!unpack_good(&u) || !fields_good(&m))
		return -EPROTO;
	*ret = m;
	return 0;
}

/* ---- over a socket ---- */

static int send_now(int sock, const struct wire_msg *m)
{
	char room[HEAD_B + 3 * 4 + ERR_MSG_MAX + 1], nul = '\0';
	struct buf front = buf_on(room, sizeof(room));
	struct iovec iov[3];
	size_t iov_n = 1;

	encode_front(&front, m);
	if (front.failed || !fds_good(m))
		return -EINVAL;
	iov[0] = (struct iovec){front.data, front.len};
	if (shape_of[m->type].has & HAS_PIECE) {
		iov[iov_n++] = (struct iovec){(void *)(uintptr_t)m->body, m->body_n};
		iov[iov_n++] = (struct iovec){&nul, 1};
	}
	return message_send(sock, iov, iov_n, m->fd, m->fd_n, MSG_DONTWAIT);
}

int wire_send(int sock, const struct wire_msg *m)
{
	int saved = errno, r = send_now(sock, m);

	errno = saved;
	return r;
}

/* As wire_send(), but wait for room until the time is up. */
static int send_by(int sock, const struct wire_msg *m, uint64_t until_ms)
{
	int r, saved = errno;

	while ((r = wire_send(sock, m)) == -EAGAIN) {
		struct pollfd p = {.fd = sock, .events = POLLOUT};
		uint64_t now = clock_ms();

		if (now >= until_ms)
			return -ETIMEDOUT;
		poll(&p, 1, (int)(until_ms - now));
		errno = saved;
	}
	return r;
}

int wire_send_process(int sock, struct wire_msg *m, const struct wire_process *p)
{
	cleanup_buf struct buf b = BUF_INIT(WIRE_PROCESS_MAX);
	struct wire_msg more = {.type = WIRE_MORE, .id = m->id};
	uint64_t until_ms = clock_ms() + SEND_WAIT_MS;
	size_t at = 0;
	int r;

	if (!p->argv || !p->argv[0])
		return -EINVAL;
	wire_pack_process(&b, p);
	if (b.failed)
		return -E2BIG;
	for (; b.len - at > WIRE_PIECE_MAX; at += WIRE_PIECE_MAX) {
		more.body = b.data + at;
		more.body_n = WIRE_PIECE_MAX;
		if ((r = send_by(sock, &more, until_ms)) < 0)
			return r;
	}
	m->type = WIRE_EXEC;
	m->body = b.data + at;
	m->body_n = b.len - at;
	r = send_by(sock, m, until_ms);
	m->body = NULL; /* it goes with b */
	m->body_n = 0;
	return r;
}

int wire_receive(int sock, void *room, struct wire_msg *ret)
{
	struct wire_msg m;
	int fds[WIRE_FDS_MAX], saved = errno, r;
	size_t fd_n;

	r = message_receive(sock, room, ROOM_B, fds, WIRE_FDS_MAX, &fd_n);
	errno = saved;
	if (r <= 0)
		return r;
	if (wire_decode(&m, room, (size_t)r) == 0) {
		memcpy(m.fd, fds, fd_n * sizeof(int));
		m.fd_n = (unsigned)fd_n;
		if (fds_good(&m)) {
			*ret = m;
			return 1;
		}
	}
	while (fd_n)
		close(fds[--fd_n]);
	return -EPROTO;
}

/* ---- what to start ---- */

static size_t list_len(char **v)
{
	size_t n = 0;

	while (v && v[n] && n <= WIRE_ARGS_MAX)
		n++;
	return n;
}

static bool process_good(const struct wire_process *p, size_t argc, size_t envc)
{
	return !(p->flags & ~(uint32_t)PROCESS_FLAGS) && p->groups <= WIRE_GROUPS_MAX && argc > 0 &&
	       argc <= WIRE_ARGS_MAX && envc <= WIRE_ARGS_MAX && p->cwd &&
	       strnlen(p->cwd, PATH_MAX) < PATH_MAX;
}

void wire_pack_process(struct buf *b, const struct wire_process *p)
{
	if (!process_good(p, list_len(p->argv), list_len(p->envp))) {
		b->failed = true;
		return;
	}
	pack_u32(b, p->flags);
	pack_u32(b, (uint32_t)p->rows << 16 | p->cols);
	pack_u32(b, p->groups);
	pack_u64(b, p->limits.memory_b);
	pack_u64(b, p->limits.pids);
	pack_u64(b, p->limits.open_files);
	pack_u64(b, p->limits.file_size_b);
	pack_str(b, p->cwd);
	pack_list(b, (const char *const *)p->argv);
	pack_list(b, (const char *const *)p->envp);
}

int wire_unpack_process(struct wire_process *ret, const void *p, size_t n)
{
	struct unpack u = unpack_of(p, n);
	struct wire_process w = {.flags = unpack_u32(&u)};
	uint32_t size = unpack_u32(&u);
	size_t argc, envc;

	if (n > WIRE_PROCESS_MAX)
		return -EPROTO;
	w.rows = (uint16_t)(size >> 16);
	w.cols = (uint16_t)size;
	w.groups = unpack_u32(&u);
	w.limits.memory_b = unpack_u64(&u);
	w.limits.pids = unpack_u64(&u);
	w.limits.open_files = unpack_u64(&u);
	w.limits.file_size_b = unpack_u64(&u);
	w.cwd = unpack_str(&u, PATH_MAX - 1);
	w.argv = unpack_list(&u, WIRE_ARGS_MAX, WIRE_PROCESS_MAX, &argc);
	w.envp = unpack_list(&u, WIRE_ARGS_MAX, WIRE_PROCESS_MAX, &envc);
	if (!unpack_good(&u) || !process_good(&w, argc, envc)) {
		wire_process_done(&w);
		return -EPROTO;
	}
	*ret = w;
	return 0;
}

void wire_process_done(struct wire_process *p)
{
	free(p->argv);
	free(p->envp);
	*p = (struct wire_process){0};
}
