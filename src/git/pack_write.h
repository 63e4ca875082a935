/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many objects into one pack: a hundred thousand changed files are one file, not as many.
 *
 * Between git_pack_begin() and git_pack_end() the first PACK_LOOSE objects that git_write() is given
 * become loose as always; what follows goes into a pack, each once, and not at all when a pack of this
 * directory has it. Large files stay loose. Nobody can read what is in the pack before its end.
 * Order:   pack -> its hash -> index -> the pack gets its name -> the index gets its own: Git looks for
 *          the index. Synced when the store is.
 * Failure: nothing of it is there; what was loose stays. A crash leaves "tmp_pack_…", which Git's own
 *          pruning takes away.
 * One writer: a store with a pack is used by one thread.
 */
#ifndef CROFT_GIT_PACK_WRITE_H
#define CROFT_GIT_PACK_WRITE_H

#include "base/err.h"
#include "git/object.h"

#define PACK_LOOSE 256u
#define PACK_OBJECTS_MAX (1u << 22) /* beyond them, objects become loose again */
#define PACK_OBJECT_MAX_B ((size_t)256 << 10)

int git_pack_begin(struct git_store *s, struct err *e);
/* The pack is there, or there was nothing to pack. The store is as before the beginning either way. */
int git_pack_end(struct git_store *s, struct err *e);
/* Give it up; also when it has ended or never began. */
void git_pack_drop(struct git_store *s);

/* ---- for object.c ---- */

/* Is it in this pack, or in one that was there at the beginning? */
bool git_pack_has(const struct git_pack *p, const struct oid *o);
/* 1: taken; 0: write it as a loose object; -errno. */
int git_pack_add(struct git_pack *p, enum git_type t, const void *b, size_t n, const struct oid *o);

#endif
