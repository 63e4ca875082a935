/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loose objects: see object.h.
 *
 * Format:  zlib (RFC 1950) of stored deflate blocks (RFC 1951), each at most 65535 bytes, over
 *          "type size\0" and the bytes; runs of zeros in a large file as in zeros.h; Adler-32 at the
 *          end.
 * Failure: a temporary file is removed on every way out; a crash leaves "tmp_obj_…", which Git's own
 *          pruning takes away.
 */
#include "git/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/hash.h"
#include "git/pack_write.h"
#include "git/sum.h"
#include "git/zeros.h"
#include "os/path.h"

#define BLOCK_MAX 65535u
#define BLOCK_HEAD 5u
#define SMALL_B ((size_t)256 << 10) /* read whole, so that what exists already is not written */
#define PAGE_B ((size_t)4096)       /* the shortest run of zeros that is worth a block */
#define TEMP_TRIES 100

static char
	zero_bytes[65536]; /* never written; not const, so that the program does not carry them */

/* ------------------------------------------------------------------ the stream */

struct object_stream {
	int fd; /* -1: hash only */
	struct hasher hash;
	uint32_t adler;
	unsigned char
		*block;  /* room for two bytes of zlib, a head, up to BLOCK_MAX bytes, the sum */
	size_t start, n; /* where the head is; bytes after it */
};

static int stream_flush(struct object_stream *s, bool last)
{
	unsigned char *h = s->block + s->start;
	size_t end = s->start + BLOCK_HEAD + s->n;
	int r;

	h[0] = last;
	h[1] = (unsigned char)(s->n & 255);
	h[2] = (unsigned char)(s->n >> 8);
	h[3] = (unsigned char)~h[1];
	h[4] = (unsigned char)~h[2];
	if (last) {
		for (int shift = 24; shift >= 0; shift -= 8)
			s->block[end++] = (unsigned char)(s->adler >> shift);
	}
	r = fd_write_all(s->fd, s->block, end);
	s->start = 0;
	s->n = 0;
	return r;
}

static int stream_put(struct object_stream *s, const void *p, size_t n)
{
	const unsigned char *u = p;

	if (s->fd < 0)
		return 0;
	s->adler = sum_adler32(s->adler, u, n);
	while (n > 0) {
		size_t run = MIN_OF(n, BLOCK_MAX - s->n);
		int r;

		memcpy(s->block + s->start + BLOCK_HEAD + s->n, u, run);
		s->n += run;
		u += run;
		n -= run;
		if (s->n < BLOCK_MAX)
			continue;
		r = stream_flush(s, false);
		if (r < 0)
			return r;
	}
	return 0;
}

static int stream_begin(
	struct object_stream *s, int fd, enum git_hash h, enum git_type t, uint64_t size)
{
	char head[HASHER_HEAD_MAX];

	*s = (struct object_stream){.fd = fd, .adler = ADLER32_BEGIN};
	hasher_begin(&s->hash, h, t, size);
	if (fd < 0)
		return 0;
	s->block = malloc(2 + BLOCK_HEAD + MIN_OF((uint64_t)BLOCK_MAX, sizeof(head) + size) + 4);
	if (!s->block)
		return -ENOMEM;
	s->block[0] = 0x78; /* deflate, 32 KiB window */
	s->block[1] = 0x01; /* fastest; makes the two a multiple of 31 */
	s->start = 2;
	return stream_put(s, head, hasher_head(head, t, size));
}

static int stream_add(struct object_stream *s, const void *p, size_t n)
{
	hasher_add(&s->hash, p, n);
	return stream_put(s, p, n);
}

/* So many zero bytes: hashed like any others, but neither read nor stored one by one. */
static int stream_zeros(struct object_stream *s, uint64_t n)
{
	struct zeros z;
	int r;

	for (uint64_t left = n; left > 0;) {
		size_t run = (size_t)MIN_OF(left, (uint64_t)sizeof(zero_bytes));

		hasher_add(&s->hash, zero_bytes, run);
		left -= run;
	}
	if (s->fd < 0 || n == 0)
		return 0;
	r = s->n > 0 ? stream_flush(s, false) : 0;
	s->adler = sum_adler32_zeros(s->adler, n);
	zeros_block(&z, n);
	if (r == 0)
		r = fd_write_all(s->fd, z.before, z.before_n);
	while (r == 0 && z.middle > 0) {
		size_t run = (size_t)MIN_OF(z.middle, (uint64_t)sizeof(zero_bytes));

		r = fd_write_all(s->fd, zero_bytes, run);
		z.middle -= run;
	}
	return r < 0 ? r : fd_write_all(s->fd, z.after, z.after_n);
}

static int stream_end(struct object_stream *s, struct oid *ret)
{
	hasher_end(&s->hash, ret);
	return s->fd < 0 ? 0 : stream_flush(s, true);
}

static void stream_done(struct object_stream *s)
{
	free(s->block);
}
#define cleanup_stream __attribute__((cleanup(stream_done)))

/* ------------------------------------------------------------------ the file */

struct object_path {
	char dir[3];
	char name[OID_HEX_MAX + 4];
};

static struct object_path path_of(const struct oid *o)
{
	struct oid_hex h = oid_hex(o);
	struct object_path p = {0};

	memcpy(p.dir, h.s, 2);
	snprintf(p.name, sizeof(p.name), "%s/%s", p.dir, h.s + 2);
	return p;
}

/* An empty file is what a crash leaves of an object that was never synced: not there. */
static bool have(const struct git_store *s, const struct oid *o)
{
	struct object_path p = path_of(o);
	struct stat st;

	for (size_t i = 0; i < s->pending_n; i++)
		if (oid_eq(&s->pending[i].oid, o))
			return true;
	/* Its time is now: whoever collects what is old and unnamed must leave what is about to be named. */
	return fstatat(s->objects_fd, p.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size > 0 &&
	       (utimensat(s->objects_fd, p.name, NULL, AT_SYMLINK_NOFOLLOW) == 0 ||
		       errno != ENOENT);
}

static int temp_open(const struct git_store *s, char name[GIT_TEMP_MAX])
{
	static atomic_uint serial;

	for (int tries = 0; tries < TEMP_TRIES; tries++) {
		int fd;

		snprintf(name, GIT_TEMP_MAX, "tmp_obj_%d_%u", getpid(),
			atomic_fetch_add(&serial, 1));
		fd = openat(s->objects_fd, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* "ab/", with the permissions of the directory it is in: a shared repository stays shared. */
static int fan_out(const struct git_store *s, const struct object_path *p)
{
	struct stat st;

	if (mkdirat(s->objects_fd, p->dir, 0777) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (fstat(s->objects_fd, &st) == 0)
		fchmodat(s->objects_fd, p->dir, st.st_mode & 07777, 0);
	return 0;
}

/* Its permissions, then its name. */
static int name_object(
	const struct git_store *s, int fd, const char *temp, const struct object_path *p)
{
	struct stat st;
	int r;

	if (fstat(s->objects_fd, &st) == 0)
		fchmod(fd, st.st_mode & 0444);
	for (int tries = 0;; tries++) {
		if (renameat(s->objects_fd, temp, s->objects_fd, p->name) == 0)
			return 0;
		/* git gc removes a directory that has become empty */
		if (errno != ENOENT || tries >= TEMP_TRIES)
			return -errno;
		r = fan_out(s, p);
		if (r < 0)
			return r;
	}
}

/* ------------------------------------------------------------------ several at once */

/* The file is done and will have its name; what `sync` wants is begun, and waited for in git_store_name(). */
static int settle(struct git_store *s, int *fd, const char *temp, const struct oid *o)
{
	struct object_path p = path_of(o);
	struct git_pending *next;
	struct err e = ERR_INIT;

	if (!s->sync)
		return name_object(s, *fd, temp, &p);
	if (s->pending_n == GIT_PENDING_MAX && git_store_name(s, &e) < 0)
		return -e.errnum;
	fd_begin_to_disk(*fd);
	next = &s->pending[s->pending_n++];
	*next = (struct git_pending){.fd = take_fd(fd), .oid = *o};
	snprintf(next->temp, sizeof(next->temp), "%s", temp);
	return 0;
}

int git_store_name(struct git_store *s, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->pending_n; i++)
		r = fd_send_to_disk(s->pending[i].fd);
	for (size_t i = 0; i < s->pending_n; i++) {
		struct git_pending *x = &s->pending[i];
		struct object_path p = path_of(&x->oid);

		if (r == 0)
			r = name_object(s, x->fd, x->temp, &p);
		if (r < 0)
			unlinkat(s->objects_fd, x->temp, 0);
		close_fd(&x->fd);
	}
	s->pending_n = 0;
	return r < 0 ? err_set(e, -r, "write objects to the disk") : 0;
}

int git_store_flush(struct git_store *s, struct err *e)
{
	int r = git_store_name(s, e);

	if (r < 0)
		return r;
	r = dir_flush(s->objects_fd);
	return r < 0 ? err_set(e, -r, "write objects to the disk") : 0;
}

void git_store_close(struct git_store *s)
{
	for (size_t i = 0; i < s->pending_n; i++) {
		unlinkat(s->objects_fd, s->pending[i].temp, 0);
		close_fd(&s->pending[i].fd);
	}
	s->pending_n = 0;
	close_fd(&s->objects_fd);
}

static int write_bytes(
	struct object_stream *st, int fd, enum git_hash h, enum git_type t, const void *p, size_t n)
{
	struct oid again;
	int r = stream_begin(st, fd, h, t, n);

	if (r == 0)
		r = stream_add(st, p, n);
	return r < 0 ? r : stream_end(st, &again);
}

static int write_loose(
	struct git_store *s, enum git_type t, const void *p, size_t n, const struct oid *o)
{
	cleanup_stream struct object_stream st = {.fd = -1};
	cleanup_fd int fd = -1;
	char temp[GIT_TEMP_MAX];
	int r;

	fd = temp_open(s, temp);
	r = fd < 0 ? fd : write_bytes(&st, fd, s->hash, t, p, n);
	if (r == 0)
		r = settle(s, &fd, temp, o);
	if (r < 0 && fd >= 0)
		unlinkat(s->objects_fd, temp, 0);
	return r;
}

int git_write(struct git_store *s, enum git_type t, const void *p, size_t n, struct oid *ret,
	struct err *e)
{
	struct oid o;
	int r = 0;

	oid_of(&o, s->hash, t, p, n);
	if (s->objects_fd >= 0 && !(s->pack && git_pack_has(s->pack, &o)) && !have(s, &o)) {
		r = s->pack ? git_pack_add(s->pack, t, p, n, &o) : 0;
		if (r == 0)
			r = write_loose(s, t, p, n, &o);
	}
	if (r < 0)
		return err_set(e, -r, "write Git object %s", oid_hex(&o).s);
	*ret = o;
	return 0;
}

/* ------------------------------------------------------------------ from a file */

/* Up to n bytes at an offset; fewer only at the end of the file. */
static ssize_t read_at(int fd, void *p, size_t n, uint64_t at)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = pread(fd, (char *)p + got, n - got, (off_t)(at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

struct pump {
	struct object_stream *st;
	int fd;
	uint64_t at, size;
	uint64_t zeros; /* seen, and not in the stream yet */
	char *chunk;
};

static int pump_zeros(struct pump *p)
{
	int r = stream_zeros(p->st, p->zeros);

	p->zeros = 0;
	return r;
}

/* Bytes that were read; whole pages of zeros among them are counted only. */
static int pump_bytes(struct pump *p, const char *s, size_t n)
{
	int r = 0;

	for (size_t run; r == 0 && n > 0; s += run, n -= run) {
		for (run = 0; n - run >= PAGE_B && memcmp(s + run, zero_bytes, PAGE_B) == 0;)
			run += PAGE_B;
		p->zeros += run;
		if (run)
			continue;
		while (run < n && !(n - run >= PAGE_B && memcmp(s + run, zero_bytes, PAGE_B) == 0))
			run += MIN_OF(PAGE_B, n - run);
		r = pump_zeros(p);
		if (r == 0)
			r = stream_add(p->st, s, run);
	}
	return r;
}

/* To the next byte that has room on the disk; what is before it is zeros, and costs no reading. */
static void skip_hole(struct pump *p)
{
	off_t data = lseek(p->fd, (off_t)p->at, SEEK_DATA);
	uint64_t to = data < 0 ? (errno == ENXIO ? p->size : p->at) : (uint64_t)data;

	to = MIN_OF(to, p->size);
	if (to > p->at) {
		p->zeros += to - p->at;
		p->at = to;
	}
}

/* Exactly size bytes through the stream, and then the end. */
static int pump(struct object_stream *st, int fd, uint64_t size)
{
	cleanup_free char *chunk = malloc(SMALL_B);
	struct pump p = {.st = st, .fd = fd, .size = size, .chunk = chunk};
	struct stat now;
	int r = 0;

	if (!chunk)
		return -ENOMEM;
	while (r == 0 && p.at < size) {
		size_t want;
		ssize_t n;

		skip_hole(&p);
		want = (size_t)MIN_OF((uint64_t)SMALL_B, size - p.at);
		n = read_at(fd, chunk, want, p.at);
		if (n < 0)
			return (int)n;
		if ((size_t)n < want)
			return -EAGAIN;
		r = pump_bytes(&p, chunk, want);
		p.at += want;
	}
	if (r == 0)
		r = pump_zeros(&p);
	if (r < 0)
		return r;
	return fstat(fd, &now) == 0 && (uint64_t)now.st_size == size ? 0 : -EAGAIN;
}

static int write_large(struct git_store *s, int fd, uint64_t size, struct oid *ret)
{
	cleanup_stream struct object_stream st = {.fd = -1};
	cleanup_fd int temp_fd = -1;
	char temp[GIT_TEMP_MAX];
	struct oid o;
	int r = 0;

	if (s->objects_fd >= 0) {
		temp_fd = temp_open(s, temp);
		if (temp_fd < 0)
			return temp_fd;
	}
	r = stream_begin(&st, temp_fd, s->hash, GIT_BLOB, size);
	if (r == 0)
		r = pump(&st, fd, size);
	if (r == 0)
		r = stream_end(&st, &o);
	if (r == 0 && temp_fd >= 0) {
		if (have(s, &o))
			unlinkat(s->objects_fd, temp, 0);
		else
			r = settle(s, &temp_fd, temp, &o);
	}
	if (r < 0 && temp_fd >= 0)
		unlinkat(s->objects_fd, temp, 0);
	if (r == 0)
		*ret = o;
	return r;
}

int git_write_file(struct git_store *s, int fd, struct oid *ret, struct err *e)
{
	cleanup_free char *small = NULL;
	struct stat st;
	ssize_t n;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at a file that is to become a Git object");
	if (!S_ISREG(st.st_mode))
		return err_invalid(e, "only a regular file can become a Git object");
	if ((uint64_t)st.st_size <= SMALL_B) {
		small = malloc((size_t)st.st_size + 1);
		n = small ? read_at(fd, small, (size_t)st.st_size + 1, 0) : -ENOMEM;
		if (n == st.st_size)
			return git_write(s, GIT_BLOB, small, (size_t)n, ret, e);
		r = n < 0 ? (int)n : -EAGAIN;
	} else {
		r = write_large(s, fd, (uint64_t)st.st_size, ret);
	}
	if (r == -EAGAIN)
		return err_set(e, EAGAIN, "a file changed while it was read");
	return r < 0 ? err_set(e, -r, "make a Git object of a file") : 0;
}
