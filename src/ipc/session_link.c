/* SPDX-License-Identifier: Apache-2.0 */
/* A session and its callers: see session_link.h. */
#include "ipc/session_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#define HEAD_B 16
#define READ_B (64u << 10)

void session_link_done(struct session_link *l)
{
	close_fd(&l->fd);
	buf_done(&l->in);
	buf_done(&l->out);
	*l = SESSION_LINK_INIT;
}

/* Forget what was used; a buffer that was large once does not stay so. */
static void forget(struct buf *b, size_t *off)
{
	size_t max = b->max;

	if (*off == b->len) {
		if (b->cap > READ_B * 4) {
			buf_done(b);
			*b = BUF_INIT(max);
		} else {
			buf_reset(b);
		}
		*off = 0;
	} else if (*off > READ_B) {
		memmove(b->data, b->data + *off, b->len - *off);
		b->len -= *off;
		*off = 0;
	}
}

bool session_link_put(struct session_link *l, enum session_type type, uint32_t tag,
	uint32_t process, const void *body, size_t n)
{
	if (n > SESSION_BODY_MAX)
		return false;
	pack_u32(&l->out, (uint32_t)n);
	pack_u32(&l->out, type);
	pack_u32(&l->out, tag);
	pack_u32(&l->out, process);
	buf_add(&l->out, body, n);
	return !l->out.failed;
}

bool session_link_error(struct session_link *l, uint32_t tag, uint32_t process, const struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	pack_u32(&b, err_reason(e));
	pack_u32(&b, (uint32_t)e->errnum);
	pack_str(&b, e->msg);
	return session_link_put(l, SESSION_ERROR, tag, process, b.data, b.len);
}

bool session_link_room(const struct session_link *l)
{
	return l->out.len - l->out_off < SESSION_OUT_LOW;
}

int session_link_flush(struct session_link *l)
{
	while (session_link_pending(l)) {
		ssize_t n = send(l->fd, l->out.data + l->out_off, l->out.len - l->out_off,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0)
			return -errno;
		l->out_off += (size_t)n;
	}
	forget(&l->out, &l->out_off);
	return 0;
}

int session_link_fill(struct session_link *l)
{
	char piece[READ_B];
	ssize_t n;

	do
		n = recv(l->fd, piece, sizeof(piece), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (n == 0)
		return 0;
	forget(&l->in, &l->in_off);
	buf_add(&l->in, piece, (size_t)n);
	return l->in.failed ? -EPROTO : 1;
}

int session_link_next(struct session_link *l, struct session_frame *ret)
{
	size_t left = l->in.len - l->in_off;
	uint32_t n, type;
	struct unpack u;

	if (left < HEAD_B)
		return 0;
	u = unpack_of(l->in.data + l->in_off, left);
	n = unpack_u32(&u);
	type = unpack_u32(&u);
	if (n > SESSION_BODY_MAX || type == 0 || type >= SESSION_TYPE_NUM)
		return -EPROTO;
	if (left - HEAD_B < n)
		return 0;
	*ret = (struct session_frame){.type = (enum session_type)type, .n = n};
	ret->tag = unpack_u32(&u);
	ret->process = unpack_u32(&u);
	ret->body = u.p;
	l->in_off += HEAD_B + n;
	return 1;
}

/* ---- bodies ---- */

void session_limits_pack(struct buf *b, const struct session_limits *l)
{
	pack_u64(b, l->memory_b);
	pack_u64(b, l->cpu_milli);
	pack_u64(b, l->pids);
	pack_u64(b, l->open_files);
	pack_u64(b, l->file_size_b);
}

void session_limits_unpack(struct unpack *u, struct session_limits *ret)
{
	ret->memory_b = unpack_u64(u);
	ret->cpu_milli = unpack_u64(u);
	ret->pids = unpack_u64(u);
	ret->open_files = unpack_u64(u);
	ret->file_size_b = unpack_u64(u);
}

void session_exec_pack(struct buf *b, const struct session_exec *x)
{
	pack_u32(b, x->flags);
	pack_u32(b, x->rows);
	pack_u32(b, x->cols);
	pack_u64(b, x->timeout_ms);
	session_limits_pack(b, &x->limits);
	pack_str(b, x->cwd);
	pack_str(b, x->label);
	pack_list(b, (const char *const *)x->argv);
	pack_list(b, (const char *const *)x->environ);
	pack_list(b, (const char *const *)x->set);
}

int session_exec_unpack(struct session_exec *ret, const void *p, size_t n)
{
	struct unpack u = unpack_of(p, n);
	struct session_exec x = {0};
	size_t argc = 0, count;

	x.flags = unpack_u32(&u);
	x.rows = unpack_u32(&u);
	x.cols = unpack_u32(&u);
	x.timeout_ms = unpack_u64(&u);
	session_limits_unpack(&u, &x.limits);
	x.cwd = unpack_str(&u, 4096);
	x.label = unpack_str(&u, SESSION_TEXT_MAX);
	x.argv = unpack_list(&u, SESSION_LIST_MAX, SESSION_BODY_MAX, &argc);
	x.environ = unpack_list(&u, SESSION_LIST_MAX, SESSION_BODY_MAX, &count);
	x.set = unpack_list(&u, SESSION_LIST_MAX, SESSION_BODY_MAX, &count);
	if (!unpack_good(&u) || argc == 0 || !x.argv[0][0] || x.rows > UINT16_MAX ||
		x.cols > UINT16_MAX || (x.cwd[0] && x.cwd[0] != '/')) {
		session_exec_done(&x);
		return -EPROTO;
	}
	*ret = x;
	return 0;
}

void session_exec_done(struct session_exec *x)
{
	free(x->argv);
	free(x->environ);
	free(x->set);
	x->argv = x->environ = x->set = NULL;
}

void session_exit_pack(struct buf *b, const struct session_exit *x)
{
	pack_u32(b, (uint32_t)x->code);
	pack_u32(b, (uint32_t)x->signal);
	pack_u32(b, x->failed);
	pack_str(b, x->json);
	pack_str(b, x->text);
	pack_bytes(b, x->receipt, x->receipt_n);
}

int session_exit_unpack(struct session_exit *ret, const void *p, size_t n)
{
	struct unpack u = unpack_of(p, n);

	ret->code = (int32_t)unpack_u32(&u);
	ret->signal = (int32_t)unpack_u32(&u);
	ret->failed = unpack_u32(&u);
	ret->json = unpack_str(&u, SESSION_BODY_MAX);
	ret->text = unpack_str(&u, SESSION_BODY_MAX);
	ret->receipt = unpack_bytes(&u, SESSION_BODY_MAX, &ret->receipt_n);
	return unpack_good(&u) ? 0 : -EPROTO;
}
