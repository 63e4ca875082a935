/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file's content was called the last time, so that an unchanged file is not read again.
 *
 * Key:     the path's digest, device, inode, size, mode, mtime and ctime to the nanosecond. A sandbox
 *          can set mtime; it cannot set ctime.
 * Racy:    a file whose ctime is not well before the scan began may be written again within the same
 *          tick: it is read every time until it has aged.
 * Limits:  writing through a mapping touches ctime only when a page first becomes writable. While
 *          processes of an environment live, the cache is good for showing, not for landing: pass
 *          cache_fd -1 there, or scan after they ended.
 * File:    replaced as a whole; its digest is checked on reading, and anything odd is an empty cache.
 */
#ifndef CROFT_SNAP_STATCACHE_H
#define CROFT_SNAP_STATCACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "git/oid.h"

#define STATCACHE_MAX_B ((size_t)1 << 30)
#define STATCACHE_RACY_NS 2000000000ll

struct statcache;

/* context: what else an answer depends on (the start tree …); another one empties the cache. NULL: out
 * of memory. dirfd -1: a cache that forgets. */
struct statcache *statcache_open(int dirfd, const char *name, const char *context);
void statcache_close(struct statcache *c);
void statcache_closep(struct statcache **c);
#define cleanup_statcache __attribute__((cleanup(statcache_closep)))

/* bits: the caller's own flags about the file, kept with it. */
bool statcache_find(struct statcache *c, const char *path, const struct stat *st, struct oid *ret,
	uint32_t *ret_bits);
void statcache_put(struct statcache *c, const char *path, const struct stat *st,
	const struct oid *o, uint32_t bits);
/* Keep what was found or put since opening. A cache that cannot be written is no failure. */
void statcache_save(struct statcache *c, int dirfd, const char *name);

#endif
