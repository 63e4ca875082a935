/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of an index: see gitindex.h. The format is gitformat-index(5). */
#include "session/run/gitindex.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "os/path.h"
#include "session/run/gitplain.h"

#define UNREADABLE "an index that cannot be read"
#define ASTRAY "an index that leads out of the working tree"
#define STAT_B 40u /* before the name of the object */
#define FLAG_EXTENDED 0x4000u
#define FLAG_LENGTH 0x0fffu /* of the name, or this where it is longer */
#define MODE_DIRECTORY 0040000u

struct index {
	const unsigned char *p, *end; /* the end is that of the extensions */
	size_t hash_n, at;
	uint32_t version, count;
	const unsigned char *blocks; /* of the table by which threads read, or NULL */
	uint32_t blocks_n, block;
	uint32_t left; /* entries of the block */
	char name[PATH_MAX];
	size_t name_n;
	bool stands_in; /* an entry without a name: it means one of the shared index */
	const unsigned char *shared; /* the hash in the name of that, or NULL */
};

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool has(const struct index *x, size_t n)
{
	return (size_t)(x->end - x->p) - x->at >= n;
}

/* Each part is the name of something in the tree. A directory of a sparse index ends with a slash. */
static bool fine(const char *name, size_t n, bool dir)
{
	if (dir && n && name[n - 1] == '/')
		n--;
	for (size_t i = 0; i <= n;) {
		const char *p = name + i, *slash = memchr(p, '/', n - i);
		size_t k = slash ? (size_t)(slash - p) : n - i;

		if (k == 0 || (k == 1 && p[0] == '.') || (k == 2 && p[0] == '.' && p[1] == '.') ||
			(k == 4 && strncasecmp(p, ".git", 4) == 0) ||
			(k == 5 && strncasecmp(p, "git~1", 5) == 0))
			return false;
		i += k + 1;
	}
	return true;
}

/* Version 4: so many bytes of the name before are dropped. */
static bool take_strip(struct index *x, size_t *ret)
{
	size_t v;

	if (!has(x, 1))
		return false;
	v = x->p[x->at] & 127;
	while (x->p[x->at++] & 128) {
		if (!has(x, 1) || v > PATH_MAX)
			return false;
		v = ((v + 1) << 7) + (x->p[x->at] & 127);
	}
	*ret = v;
	return v <= x->name_n;
}

static bool take_name(struct index *x, size_t from, bool first)
{
	const unsigned char *nul;
	size_t strip = x->name_n, n;

	if (x->version == 4 && !take_strip(x, &strip))
		return false;
	if (first && strip != x->name_n)
		return false; /* a thread that begins here has no name before */
	nul = memchr(x->p + x->at, '\0', (size_t)(x->end - x->p) - x->at);
	if (!nul)
		return false;
	n = (size_t)(nul - (x->p + x->at));
	x->name_n -= strip;
	if (x->name_n + n >= sizeof(x->name))
		return false;
	memcpy(x->name + x->name_n, x->p + x->at, n);
	x->name_n += n;
	x->at += n;
	if (x->version == 4) {
		x->at++;
		return true;
	}
	/* One to eight NUL bytes, to a multiple of eight. */
	n = 8 - (x->at - from) % 8;
	if (!has(x, n))
		return false;
	x->at += n;
	return true;
}

/* Where a thread begins is where an entry does, and it reads as many as are there. */
static bool meets_block(struct index *x, bool *ret_first)
{
	*ret_first = false;
	if (!x->blocks)
		return true;
	if (x->left == 0) {
		if (x->block == x->blocks_n || be32(x->blocks + 8 * (size_t)x->block) != x->at)
			return false;
		x->left = be32(x->blocks + 8 * (size_t)x->block + 4);
		x->block++;
		*ret_first = true;
	}
	return x->left-- > 0;
}

static const char *entries(struct index *x)
{
	x->at = 12;
	x->name_n = 0;
	for (uint32_t i = 0; i < x->count; i++) {
		size_t from = x->at, fixed = STAT_B + x->hash_n + 2;
		bool first;
		unsigned flags;

		if (!meets_block(x, &first) || !has(x, fixed))
			return UNREADABLE;
		flags = (unsigned)x->p[from + fixed - 2] << 8 | x->p[from + fixed - 1];
		if (flags & FLAG_EXTENDED && x->version < 3)
			return UNREADABLE;
		fixed += flags & FLAG_EXTENDED ? 2 : 0;
		if (!has(x, fixed))
			return UNREADABLE;
		x->at += fixed;
		if (!take_name(x, from, first))
			return UNREADABLE;
		/* Where the name ends Git learns from here, and not from the NUL. */
		if ((flags & FLAG_LENGTH) != MIN_OF(x->name_n, (size_t)FLAG_LENGTH))
			return UNREADABLE;
		x->stands_in |= x->name_n == 0;
		if (x->name_n && !fine(x->name, x->name_n,
					 (be32(x->p + from + 24) & 0170000u) == MODE_DIRECTORY))
			return ASTRAY;
	}
	return x->blocks && (x->left || x->block != x->blocks_n) ? UNREADABLE : NULL;
}

/* What follows the entries: each says how long it is, and together they reach the end. */
static const char *extensions(struct index *x)
{
	size_t first = x->at, eoie = 4 + 4 + 4 + x->hash_n;

	while (has(x, 8)) {
		const unsigned char *p = x->p + x->at;
		size_t n = be32(p + 4);

		x->at += 8;
		if (!has(x, n))
			return UNREADABLE;
		if (memcmp(p, "IEOT", 4) == 0) {
			if (x->blocks || n < 4 + 8 || (n - 4) % 8 || be32(p + 8) != 1)
				return UNREADABLE;
			x->blocks = p + 12;
			x->blocks_n = (uint32_t)((n - 4) / 8);
		}
		if (memcmp(p, "link", 4) == 0) {
			if (x->shared || n < x->hash_n)
				return UNREADABLE;
			x->shared = p + 8;
		}
		x->at += n;
	}
	if (x->p + x->at != x->end)
		return UNREADABLE;
	/* Git looks for this one at a fixed place before the end, and believes it. */
	if ((size_t)(x->end - x->p) >= eoie && memcmp(x->end - eoie, "EOIE", 4) == 0 &&
		be32(x->end - eoie + 8) != first)
		return UNREADABLE;
	return NULL;
}

/* The name of the shared index, "" for none: a hash of zeros means none. */
static void name_shared(const struct index *x, char ret[GITINDEX_SHARED_MAX])
{
	bool any = false;
	int n = snprintf(ret, GITINDEX_SHARED_MAX, "sharedindex.");

	for (size_t i = 0; x->shared && i < x->hash_n; i++) {
		any |= x->shared[i] != 0;
		n += snprintf(ret + n, GITINDEX_SHARED_MAX - (size_t)n, "%02x", x->shared[i]);
	}
	if (!any)
		ret[0] = '\0';
}

const char *gitindex_check(
	const unsigned char *p, size_t n, size_t hash_n, char ret_shared[GITINDEX_SHARED_MAX])
{
	struct index x = {.p = p, .hash_n = hash_n};
	const char *why;

	ret_shared[0] = '\0';

	if (n < 12 + hash_n || memcmp(p, "DIRC", 4) != 0)
		return UNREADABLE;
	x.end = p + n - hash_n;
	x.version = be32(p + 4);
	x.count = be32(p + 8);
	if (x.version < 2 || x.version > 4)
		return UNREADABLE;
	why = entries(&x);
	if (!why)
		why = extensions(&x);
	name_shared(&x, ret_shared);
	if (!why && x.stands_in && !ret_shared[0])
		why = UNREADABLE;
	/* Once more as threads would read it. */
	return why || !x.blocks ? why : entries(&x);
}

/* Which hash the repository has: its configuration says so. 0: nobody can tell. */
static size_t hash_of(int dir)
{
	static const char *const names[] = {"config", "../../config"}; /* of a linked worktree */
	cleanup_buf struct buf b = BUF_INIT(1u << 20);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (file_read_at(dir, names[i], &b) >= 0)
			return gitplain_hash(buf_str(&b), b.len);
	return 20;
}

static const char *check_file(
	int dir, const char *name, size_t hash_n, char ret_shared[GITINDEX_SHARED_MAX])
{
	cleanup_fd int in =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	cleanup_buf struct buf b = BUF_INIT(GITINDEX_MAX_B);
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || file_read_fd(in, &b) < 0)
		return UNREADABLE;
	return gitindex_check((const unsigned char *)buf_str(&b), b.len, hash_n, ret_shared);
}

const char *gitindex_beyond(int fd)
{
	char shared[GITINDEX_SHARED_MAX], more[GITINDEX_SHARED_MAX];
	const char *why;
	struct stat st;
	size_t hash_n;

	if (fstatat(fd, "index", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return NULL;
	hash_n = hash_of(fd);
	why = hash_n ? check_file(fd, "index", hash_n, shared) : UNREADABLE;
	if (why || !shared[0])
		return why;
	/* The rest of a split index; that has no other behind it. */
	why = check_file(fd, shared, hash_n, more);
	return why || !more[0] ? why : UNREADABLE;
}
