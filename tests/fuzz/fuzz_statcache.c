/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of what is known about unchanged files: entries of any bytes under a digest that is right.
 * Nothing is found that is not in it; what was kept is found again; and after any one byte was
 * changed nothing is.
 *
 * Input: where the kept file is changed (2 bytes), how (1 byte), a file's name, NUL, the entries.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "os/path.h"
#include "place.h"
#include "snap/statcache.h"

#define FILE_MAX_B (1u << 20)
#define HEAD_LEN 3u
#define MAGIC "croftst2"
#define CONTEXT "tree"

/* The entries, with what must be before them. */
static void put_entries(const uint8_t *p, size_t n)
{
	cleanup_buf struct buf rest = BUF_INIT(FILE_MAX_B), file = BUF_INIT(FILE_MAX_B);
	struct digest d;

	digest_sha256(&d, CONTEXT, strlen(CONTEXT));
	buf_add(&rest, d.hex, DIGEST_HEX_LEN);
	buf_add(&rest, p, n);
	if (rest.failed)
		return;
	digest_sha256(&d, rest.data, rest.len);
	buf_adds(&file, MAGIC);
	buf_add(&file, d.hex, DIGEST_HEX_LEN);
	buf_add(&file, rest.data, rest.len);
	place_write("stat", &file);
}

static bool find(const char *name, const char *context, const struct stat *st, struct oid *ret)
{
	cleanup_statcache struct statcache *c = statcache_open(place_fd(), "stat", context);
	uint32_t bits = 0;

	MUST(c);
	if (!statcache_find(c, name, st, ret, &bits))
		return false;
	MUST((ret->n == 20 || ret->n == 32) && bits == 7);
	return true;
}

/* Any entries: what is found is a file's of this name, and its object's name is there. */
static void read_any(const char *name, const struct stat *st, const uint8_t *p, size_t n)
{
	cleanup_statcache struct statcache *c = NULL;
	uint32_t bits;
	struct oid o;

	put_entries(p, n);
	c = statcache_open(place_fd(), "stat", CONTEXT);
	MUST(c);
	if (statcache_find(c, name, st, &o, &bits)) {
		MUST(memmem(p, n, name, strlen(name) + 1) && memmem(p, n, o.v, o.n));
		statcache_save(c, place_fd(), "stat");
	}
	statcache_find(c, "", st, &o, &bits);
	statcache_find(c, "\xff", st, &o, &bits);
	unlinkat(place_fd(), "stat", 0);
}

static void keep(const char *name, const struct stat *st, const struct oid *o)
{
	cleanup_statcache struct statcache *c = statcache_open(place_fd(), "stat", CONTEXT);

	MUST(c);
	statcache_put(c, "b", st, o, 1);
	statcache_put(c, name, st, o, 7);
	statcache_put(c, "a/b", st, o, 1);
	statcache_save(c, place_fd(), "stat");
}

static void keep_and_change(const char *name, const struct stat *st, const uint8_t *how)
{
	struct oid o = {.n = how[2] & 1 ? 32 : 20, .v = {1, 2, 3, how[0]}}, got = {0};
	cleanup_buf struct buf file = BUF_INIT(FILE_MAX_B);
	struct stat other = *st;

	keep(name, st, &o);
	MUST(find(name, CONTEXT, st, &got) && oid_eq(&got, &o));
	MUST(!find(name, "another tree", st, &got) && !find("not there", CONTEXT, st, &got));
	other.st_ctim.tv_nsec++;
	MUST(!find(name, CONTEXT, &other, &got));
	MUST(file_read_at(place_fd(), "stat", &file) == 0);
	file.data[(how[0] | (size_t)how[1] << 8) % file.len] ^= (char)(how[2] | 1);
	place_write("stat", &file);
	MUST(!find(name, CONTEXT, st, &got));
	unlinkat(place_fd(), "stat", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct stat st = {.st_dev = 1,
		.st_ino = 2,
		.st_size = 3,
		.st_mode = S_IFREG | 0644,
		.st_mtim = {4, 5},
		.st_ctim = {6, 7}};
	const uint8_t *nul = size > HEAD_LEN ? memchr(data + HEAD_LEN, 0, size - HEAD_LEN) : NULL;
	const char *name = (const char *)data + HEAD_LEN;

	if (!nul)
		return 0;
	read_any(name, &st, nul + 1, size - (size_t)(nul + 1 - data));
	/* Names that are kept beside it, or sought and not there, are others. */
	if (strcmp(name, "b") != 0 && strcmp(name, "a/b") != 0 && strcmp(name, "not there") != 0)
		keep_and_change(name, &st, data);
	return 0;
}
