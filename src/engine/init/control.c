/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages between the supervisor and a sandbox's first process.
 *
 * Form:    magic with the version, type; then what shape_of[] says that the type has, in the order
 *          status, id, descriptors, what is enforced, usage, error, text (base/pack.h). Nothing else.
 * Trust:   after lock-down the first process lives beside the command, so what it says is a claim: both
 *          ends hold to the same table, and descriptors are placed only once everything else is right.
 * Limits:  no memory is asked for: it works after fork and under the filter.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/pack.h"
#include "engine/init/init.h"
#include "ipc/message.h"

#define MAGIC 0x01637263u /* "crc", version 1 */
#define ERRNO_MAX 4095
#define STATUS_MAX 0xffff /* a wait status: two bytes */
#define FD_BIT(fd) (1u << (fd))
#define FDS_ALL (FD_BIT(SANDBOX_FD_NUM) - 1)

enum has {
	HAS_STATUS = 1,
	HAS_FDS = 2,
	HAS_ENFORCED = 4,
	HAS_USAGE = 8,
	HAS_ERROR = 16,
	HAS_TEXT = 32,
	HAS_ID = 64
};

static const struct shape {
	unsigned has;
	int32_t status_max; /* the least is 0 */
	uint32_t fds;       /* bits that the mask may have */
} shape_of[CONTROL_NUM] = {
	[CONTROL_READY] = {HAS_STATUS | HAS_FDS | HAS_ENFORCED, INT32_MAX,
		FDS_ALL & ~FD_BIT(SANDBOX_FD_INNER)},
	[CONTROL_GO] = {HAS_STATUS | HAS_FDS, GO_CGROUP_MEMORY | GO_CGROUP_PIDS, FDS_ALL},
	[CONTROL_STARTED] = {HAS_ENFORCED, 0, 0},
	[CONTROL_FAILED] = {HAS_ERROR | HAS_TEXT, 0, 0},
	[CONTROL_EXIT] = {HAS_STATUS | HAS_USAGE, STATUS_MAX, 0},
	[CONTROL_STOPPED] = {HAS_STATUS, STATUS_MAX, 0},
	[CONTROL_ASK_TRUST] = {0, 0, 0},
	[CONTROL_TRUST] = {HAS_STATUS | HAS_FDS | HAS_TEXT, 1, FD_BIT(0)},
	[CONTROL_CONNECT] = {HAS_STATUS | HAS_ID, UINT16_MAX, 0},
	[CONTROL_CONNECTED] = {HAS_STATUS | HAS_ID | HAS_FDS, ERRNO_MAX, FD_BIT(SANDBOX_FD_INNER)},
	[CONTROL_PLAN] = {0, 0, 0},
};
static_assert(CONTROL_NUM == CONTROL_PLAN + 1, "every type has a shape");

#define ONE(name) +1
#define NONE(name)
#define NUMBERS (0 ENFORCED(ONE, NONE))
#define FLAGS (0 ENFORCED(NONE, ONE))
static_assert(FLAGS <= 32, "the flags fit in one number");
static_assert((5 + NUMBERS) * 4 <= CONTROL_MAX_B, "READY fits");
static_assert(8 * 4 + ERR_MSG_MAX <= CONTROL_MAX_B, "FAILED and TRUST fit");
static_assert(SANDBOX_FD_NUM <= MESSAGE_FDS_MAX, "every descriptor fits");

static bool type_known(uint32_t type)
{
	return type >= CONTROL_READY && type < CONTROL_NUM;
}

/* Whether a known type may have what `m` holds: asked by both ends. */
static bool fields_good(const struct control_msg *m)
{
	const struct shape *s = &shape_of[m->type];

	if ((s->has & HAS_STATUS) && (m->status < 0 || m->status > s->status_max))
		return false;
	if ((s->has & HAS_FDS) && (m->fd_mask & ~s->fds))
		return false;
	if ((s->has & HAS_USAGE) && m->scratch_full > 1)
		return false;
	return !(s->has & HAS_ERROR) || (m->err_kind < ERR_NUM && m->err_boundary <= 1 &&
						m->errnum >= 0 && m->errnum <= ERRNO_MAX);
}

/* The numbers, then the flags as one more: the first is bit 0. */
static void pack_enforced(struct buf *b, const struct enforced *f)
{
	uint32_t flags = 0;
	unsigned n = 0;

#define PACK_NUMBER(name) pack_u32(b, f->name);
#define PACK_FLAG(name) flags |= (uint32_t)(f->name != 0) << n++;
	ENFORCED(PACK_NUMBER, PACK_FLAG)
	pack_u32(b, flags);
}

static void unpack_enforced(struct unpack *u, struct enforced *f)
{
	uint64_t flags;

#define UNPACK_NUMBER(name) f->name = unpack_u32(u);
#define UNPACK_FLAG(name) f->name = flags & 1, flags >>= 1;
	ENFORCED(UNPACK_NUMBER, NONE)
	flags = unpack_u32(u);
	ENFORCED(NONE, UNPACK_FLAG)
	u->bad |= flags != 0; /* a flag that nobody knows */
}

void control_encode(struct buf *b, const struct control_msg *m)
{
	unsigned has;

	if (!type_known(m->type) || !fields_good(m)) {
		b->failed = true;
		return;
	}
	has = shape_of[m->type].has;
	pack_u32(b, MAGIC);
	pack_u32(b, m->type);
	if (has & HAS_STATUS)
		pack_u32(b, (uint32_t)m->status);
	if (has & HAS_ID)
		pack_u32(b, m->id);
	if (has & HAS_FDS)
		pack_u32(b, m->fd_mask);
	if (has & HAS_ENFORCED)
		pack_enforced(b, &m->enforced);
	if (has & HAS_USAGE) {
		pack_u64(b, m->utime_us);
		pack_u64(b, m->stime_us);
		pack_u64(b, m->maxrss_kb);
		pack_u32(b, m->scratch_full);
	}
	if (has & HAS_ERROR) {
		pack_u32(b, m->err_kind);
		pack_u32(b, m->err_boundary);
		pack_u32(b, (uint32_t)m->errnum);
	}
	if (has & HAS_TEXT)
		pack_bytes(b, m->msg, strnlen(m->msg, sizeof(m->msg) - 1));
}

int control_decode(struct control_msg *ret, const void *p, size_t n)
{
	struct control_msg m = {0};
	struct unpack u = unpack_of(p, n);
	uint32_t magic = unpack_u32(&u);
	unsigned has;

	m.type = unpack_u32(&u);
	if (u.bad || magic != MAGIC || !type_known(m.type))
		return -EPROTO;
	has = shape_of[m.type].has;
	if (has & HAS_STATUS)
		m.status = (int32_t)unpack_u32(&u);
	if (has & HAS_ID)
		m.id = unpack_u32(&u);
	if (has & HAS_FDS)
		m.fd_mask = unpack_u32(&u);
	if (has & HAS_ENFORCED)
		unpack_enforced(&u, &m.enforced);
	if (has & HAS_USAGE) {
		m.utime_us = unpack_u64(&u);
		m.stime_us = unpack_u64(&u);
		m.maxrss_kb = unpack_u64(&u);
		m.scratch_full = unpack_u32(&u);
	}
	if (has & HAS_ERROR) {
		m.err_kind = unpack_u32(&u);
		m.err_boundary = unpack_u32(&u);
		m.errnum = (int32_t)unpack_u32(&u);
	}
	if (has & HAS_TEXT)
		snprintf(m.msg, sizeof(m.msg), "%s", unpack_str(&u, sizeof(m.msg) - 1));
	if (!unpack_good(&u) || !fields_good(&m))
		return -EPROTO;
	*ret = m;
	return 0;
}

int control_send(int fd, const struct control_msg *m, const int *fds, int fds_n)
{
	char room[CONTROL_MAX_B + 1];
	struct buf b = buf_on(room, sizeof(room));
	struct iovec iov;
	unsigned slots;

	control_encode(&b, m);
	if (b.failed)
		return -EINVAL;
	slots = shape_of[m->type].has & HAS_FDS ? m->fd_mask : 0;
	if (fds_n != __builtin_popcount(slots))
		return -EINVAL;
	iov = (struct iovec){b.data, b.len};
	return message_send(fd, &iov, 1, fds, (size_t)fds_n, 0);
}

/* What the sandbox says of itself is kept beside it. */
static void keep_enforced(struct sandbox *s, const struct control_msg *m)
{
	if (m->type == CONTROL_READY)
		s->enforced = m->enforced;
	if (m->type == CONTROL_STARTED) {
		s->enforced.rlimit_memory = m->enforced.rlimit_memory;
		s->enforced.rlimit_pids = m->enforced.rlimit_pids;
		s->enforced.nproc_others = m->enforced.nproc_others;
	}
}

int control_receive(struct sandbox *s, struct control_msg *ret)
{
	char room[CONTROL_MAX_B];
	int fds[SANDBOX_FD_NUM], r;
	size_t n, used = 0;

	r = message_receive(s->control, room, sizeof(room), fds, SANDBOX_FD_NUM, &n);
	if (r <= 0)
		return r == -ECONNRESET ? 0 : r;
	if (control_decode(ret, room, (size_t)r) < 0 ||
		(size_t)__builtin_popcount(ret->fd_mask) != n) {
		while (n)
			close(fds[--n]);
		return -EPROTO;
	}
	for (int i = 0; i < SANDBOX_FD_NUM; i++) {
		if (!(ret->fd_mask & FD_BIT(i)))
			continue;
		if (s->fd[i] < 0)
			s->fd[i] = fds[used++];
		else
			close(fds[used++]); /* its place is taken */
	}
	keep_enforced(s, ret);
	return 1;
}
