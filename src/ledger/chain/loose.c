/* SPDX-License-Identifier: Apache-2.0 */
/* Stored loose objects: see loose.h. */
#include "ledger/chain/loose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"

#define HEAD_MAX 32       /* "commit 18446744073709551615" and its NUL */
#define BLOCK_MAX 65535u  /* bytes of a stored block … */
#define BLOCK_HEAD_LEN 5u /* … and of what is before them */
#define SUM_LEN 4u
#define OVERHEAD_B 4096u

struct view {
	const unsigned char *p;
	size_t n;
};

static bool take(struct view *v, size_t n, struct view *ret)
{
	if (v->n < n)
		return false;
	*ret = (struct view){v->p, n};
	v->p += n;
	v->n -= n;
	return true;
}

/* All blocks joined. */
static int unwrap(struct view v, struct buf *ret)
{
	struct view head, body;
	bool last = false;

	if (!take(&v, 2, &head) || head.p[0] != 0x78 || head.p[1] != 0x01)
		return -ENOENT;
	while (!last) {
		size_t n;

		if (!take(&v, BLOCK_HEAD_LEN, &head))
			return -EBADMSG;
		if (head.p[0] > 1)
			return -ENOENT; /* compressed after all */
		last = head.p[0] == 1;
		n = head.p[1] | (size_t)head.p[2] << 8;
		if ((head.p[1] ^ head.p[3]) != 0xff || (head.p[2] ^ head.p[4]) != 0xff ||
			!take(&v, n, &body))
			return -EBADMSG;
		buf_add(ret, body.p, body.n);
	}
	/* The sum at the end is not asked: the object's name says more. */
	return ret->failed ? -EFBIG : v.n == SUM_LEN ? 0 : -EBADMSG;
}

int loose_parse(const void *p, size_t n, enum git_hash h, const struct oid *o, enum git_type want,
	struct buf *ret)
{
	cleanup_buf struct buf all = BUF_INIT(ret->max - MIN_OF(ret->max, ret->len) + HEAD_MAX);
	char head[HEAD_MAX];
	const char *body;
	struct oid is;
	size_t body_n;
	int r = unwrap((struct view){p, n}, &all), head_n;

	if (r < 0)
		return r;
	body = all.len ? memchr(all.data, '\0', MIN_OF(all.len, (size_t)HEAD_MAX)) : NULL;
	if (!body)
		return -EBADMSG;
	body++;
	body_n = all.len - (size_t)(body - all.data);
	head_n = snprintf(head, sizeof(head), "%s %zu", git_type_names[want], body_n);
	if (head_n < 0 || (size_t)head_n + 1 != all.len - body_n ||
		memcmp(head, all.data, (size_t)head_n) != 0)
		return -EBADMSG;
	oid_of(&is, h, want, body, body_n);
	if (!oid_eq(&is, o))
		return -EBADMSG;
	buf_add(ret, body, body_n);
	return ret->failed ? -EFBIG : 0;
}

int loose_read(
	int objects_fd, enum git_hash h, const struct oid *o, enum git_type want, struct buf *ret)
{
	struct oid_hex hex = oid_hex(o);
	cleanup_buf struct buf raw = {0};
	cleanup_fd int fd = -1;
	char name[OID_HEX_MAX + 2];
	struct stat st;
	size_t room = ret->max - MIN_OF(ret->max, ret->len);
	int r;

	if (objects_fd < 0 || o->n != git_hash_len(h))
		return -ENOENT;
	snprintf(name, sizeof(name), "%.2s/%s", hex.s, hex.s + 2);
	fd = openat(objects_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	raw = BUF_INIT(room + room / BLOCK_MAX * BLOCK_HEAD_LEN + OVERHEAD_B);
	r = file_read_fd(fd, &raw);
	if (r < 0)
		return r == -EFBIG ? -EFBIG : -ENOENT;
	return loose_parse(buf_str(&raw), raw.len, h, o, want, ret);
}
