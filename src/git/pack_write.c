/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a pack: see pack_write.h.
 *
 * Format: gitformat-pack(5): "PACK", version 2, number of objects; each a head (type, size in groups of
 *         seven bits) and a zlib stream, of stored blocks here; the hash of all that. Index version 2.
 *         The number is known at the end, so the hash is taken from the finished file.
 */
#include "git/pack_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "git/hash.h"
#include "git/pack_index.h"
#include "git/sum.h"
#include "os/path.h"

#define PACK_HEAD 12u
#define BLOCK_MAX 65535u
#define OUT_B ((size_t)1 << 20)
#define TEMP_MAX 64

struct git_pack {
	enum git_hash hash;
	bool sync, broken; /* broken: an object is there in part; it cannot become a pack */
	int dir_fd, fd;    /* objects/pack; the pack, from its first object on */
	char temp[TEMP_MAX];
	unsigned loose; /* objects left to be loose */
	struct buf out; /* not written yet */
	uint64_t written;
	struct pack_entry *v;
	size_t n, cap;
	uint32_t *slots; /* index into v, plus one; 0: free. A power of two of them */
	size_t slots_n;
	struct pack_indexes old;
};

static void put32(unsigned char *p, uint32_t x)
{
	p[0] = (unsigned char)(x >> 24);
	p[1] = (unsigned char)(x >> 16);
	p[2] = (unsigned char)(x >> 8);
	p[3] = (unsigned char)x;
}

/* ------------------------------------------------------------------ which it has */

static size_t slot_of(const struct git_pack *p, const struct oid *o)
{
	uint64_t x;

	memcpy(&x, o->v, sizeof(x)); /* a hash already */
	return (size_t)x & (p->slots_n - 1);
}

static bool in_this(const struct git_pack *p, const struct oid *o)
{
	if (!p->slots_n)
		return false;
	for (size_t i = slot_of(p, o); p->slots[i]; i = (i + 1) & (p->slots_n - 1))
		if (oid_eq(&p->v[p->slots[i] - 1].oid, o))
			return true;
	return false;
}

bool git_pack_has(const struct git_pack *p, const struct oid *o)
{
	return in_this(p, o) || pack_indexes_have(&p->old, o);
}

static void take_slot(struct git_pack *p, size_t which)
{
	size_t i = slot_of(p, &p->v[which].oid);

	while (p->slots[i])
		i = (i + 1) & (p->slots_n - 1);
	p->slots[i] = (uint32_t)(which + 1);
}

/* Room for one more, and slots at most half full. */
static int grow(struct git_pack *p)
{
	size_t cap = p->cap ? 2 * p->cap : 1024;
	struct pack_entry *v;
	uint32_t *slots;

	if (p->n < p->cap)
		return 0;
	v = realloc(p->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	p->v = v;
	slots = calloc(2 * cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(p->slots);
	p->slots = slots;
	p->slots_n = 2 * cap;
	p->cap = cap;
	for (size_t i = 0; i < p->n; i++)
		take_slot(p, i);
	return 0;
}

/* ------------------------------------------------------------------ the pack */

static int temp_open(struct git_pack *p, const char *kind, char ret[TEMP_MAX])
{
	static atomic_uint serial;
	int fd;

	snprintf(ret, TEMP_MAX, "tmp_pack_croft_%d_%u_%s", getpid(), atomic_fetch_add(&serial, 1),
		kind);
	unlinkat(p->dir_fd, ret, 0); /* left by a process that died with our number */
	fd = openat(p->dir_fd, ret, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static int flush(struct git_pack *p)
{
	int r = p->out.failed ? -ENOMEM : fd_write_all(p->fd, buf_str(&p->out), p->out.len);

	p->written += p->out.len;
	buf_reset(&p->out);
	return r;
}

static int start(struct git_pack *p)
{
	static const char none[PACK_HEAD];

	p->fd = temp_open(p, "pack", p->temp);
	if (p->fd < 0)
		return p->fd;
	buf_add(&p->out, none, sizeof(none)); /* the head, when the number is known */
	return 0;
}

static void put_head(struct buf *out, enum git_type t, size_t n)
{
	static const unsigned char codes[] = {
		[GIT_COMMIT] = 1, [GIT_TREE] = 2, [GIT_BLOB] = 3, [GIT_TAG] = 4};
	unsigned char c = (unsigned char)(codes[t] << 4 | (n & 15));

	for (n >>= 4; n; n >>= 7) {
		buf_addc(out, (char)(c | 0x80));
		c = n & 0x7f;
	}
	buf_addc(out, (char)c);
}

static void put_stored(struct buf *out, const unsigned char *b, size_t n)
{
	unsigned char sum[4];
	size_t at = 0;

	put32(sum, sum_adler32(ADLER32_BEGIN, b, n));
	buf_add(out, "\x78\x01", 2);
	do {
		size_t run = MIN_OF(n - at, (size_t)BLOCK_MAX);
		unsigned char h[5] = {
			at + run == n, (unsigned char)(run & 255), (unsigned char)(run >> 8), 0, 0};

		h[3] = (unsigned char)~h[1];
		h[4] = (unsigned char)~h[2];
		buf_add(out, h, sizeof(h));
		if (run)
			buf_add(out, b + at, run);
		at += run;
	} while (at < n);
	buf_add(out, sum, sizeof(sum));
}

int git_pack_add(struct git_pack *p, enum git_type t, const void *b, size_t n, const struct oid *o)
{
	size_t from;
	int r = 0;

	if (n > PACK_OBJECT_MAX_B || p->n >= PACK_OBJECTS_MAX)
		return 0;
	if (p->loose > 0) {
		p->loose--;
		return 0;
	}
	if (p->fd < 0)
		r = start(p);
	if (r == 0)
		r = grow(p);
	if (r < 0)
		return r;
	from = p->out.len;
	put_head(&p->out, t, n);
	put_stored(&p->out, b, n);
	if (p->out.failed) {
		p->broken = true;
		return -ENOMEM;
	}
	p->v[p->n] = (struct pack_entry){.oid = *o,
		.at = p->written + from,
		.crc = sum_crc32(CRC32_BEGIN, p->out.data + from, p->out.len - from)};
	take_slot(p, p->n++);
	if (p->out.len < OUT_B)
		return 1;
	r = flush(p);
	p->broken = r < 0;
	return r < 0 ? r : 1;
}

/* ------------------------------------------------------------------ the end */

/* Head and trailer; the trailer is its name. */
static int seal(struct git_pack *p, struct oid *ret)
{
	unsigned char head[PACK_HEAD] = {'P', 'A', 'C', 'K'};
	cleanup_free char *chunk = malloc(OUT_B);
	struct hasher h;
	ssize_t n = 0;
	int r = chunk ? flush(p) : -ENOMEM;

	if (r < 0)
		return r;
	put32(head + 4, 2);
	put32(head + 8, (uint32_t)p->n);
	if (pwrite(p->fd, head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return -EIO;
	hasher_begin_plain(&h, p->hash);
	for (uint64_t at = 0; at < p->written; at += (uint64_t)n) {
		n = pread(p->fd, chunk, OUT_B, (off_t)at);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		hasher_add(&h, chunk, (size_t)n);
	}
	hasher_end(&h, ret);
	return fd_write_all(p->fd, ret->v, ret->n);
}

static int put_index(struct git_pack *p, const struct oid *trailer, int fd)
{
	cleanup_buf struct buf b = BUF_INIT((size_t)1 << 30);
	int r;

	pack_index_make(p->v, p->n, p->hash, trailer, &b);
	r = b.failed ? -ENOMEM : fd_write_all(fd, b.data, b.len);
	return r == 0 && p->sync && fsync(fd) < 0 ? -errno : r;
}

/* Readable for whom the directory is: a shared repository stays shared. */
static void set_mode(const struct git_pack *p, int fd)
{
	struct stat st;

	if (fstat(p->dir_fd, &st) == 0)
		fchmod(fd, 0400 | (st.st_mode & 0044));
}

static int place(struct git_pack *p, const struct oid *trailer, const char *index)
{
	char pack_name[OID_HEX_MAX + 16], index_name[OID_HEX_MAX + 16];

	snprintf(pack_name, sizeof(pack_name), "pack-%s.pack", oid_hex(trailer).s);
	snprintf(index_name, sizeof(index_name), "pack-%s.idx", oid_hex(trailer).s);
	if (renameat(p->dir_fd, p->temp, p->dir_fd, pack_name) < 0)
		return -errno;
	p->temp[0] = '\0';
	if (renameat(p->dir_fd, index, p->dir_fd, index_name) < 0) {
		int r = -errno;

		unlinkat(p->dir_fd, pack_name, 0);
		return r;
	}
	return p->sync && fsync(p->dir_fd) < 0 ? -errno : 0;
}

static int finish(struct git_pack *p)
{
	cleanup_fd int fd = -1;
	char index[TEMP_MAX];
	struct oid trailer;
	int r;

	if (p->broken)
		return -EIO;
	if (p->n == 0)
		return 0;
	r = seal(p, &trailer);
	if (r == 0 && p->sync && fsync(p->fd) < 0)
		r = -errno;
	if (r < 0)
		return r;
	fd = temp_open(p, "idx", index);
	if (fd < 0)
		return fd;
	set_mode(p, p->fd);
	set_mode(p, fd);
	r = put_index(p, &trailer, fd);
	if (r == 0)
		r = place(p, &trailer, index);
	if (r < 0)
		unlinkat(p->dir_fd, index, 0);
	return r;
}

/* ------------------------------------------------------------------ its life */

void git_pack_drop(struct git_store *s)
{
	struct git_pack *p = take_ptr(s->pack);

	if (!p)
		return;
	if (p->fd >= 0 && p->temp[0])
		unlinkat(p->dir_fd, p->temp, 0);
	close_fd(&p->fd);
	close_fd(&p->dir_fd);
	buf_done(&p->out);
	pack_indexes_done(&p->old);
	free(p->v);
	free(p->slots);
	free(p);
}

int git_pack_begin(struct git_store *s, struct err *e)
{
	struct git_pack *p = calloc(1, sizeof(*p));
	int r = 0;

	if (!p)
		return err_set(e, ENOMEM, "begin a pack");
	*p = (struct git_pack){.hash = s->hash,
		.sync = s->sync,
		.dir_fd = -1,
		.fd = -1,
		.loose = PACK_LOOSE,
		.out = BUF_INIT(2 * OUT_B)};
	s->pack = p;
	if (mkdirat(s->objects_fd, "pack", 0777) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0) {
		p->dir_fd = openat(s->objects_fd, "pack", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = p->dir_fd < 0 ? -errno : pack_indexes_open(&p->old, p->dir_fd, s->hash);
	}
	if (r < 0) {
		git_pack_drop(s);
		return err_set(e, -r, "begin a pack");
	}
	return 0;
}

int git_pack_end(struct git_store *s, struct err *e)
{
	int r = s->pack ? finish(s->pack) : 0;

	git_pack_drop(s);
	return r < 0 ? err_set(e, -r, "write a pack of Git objects") : git_store_name(s, e);
}
