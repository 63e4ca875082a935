/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing Git objects without Git: loose files in an object directory of our choice.
 *
 * Why by hand: a command's record must not cost the start of another program, and a blob of what a
 * sandbox wrote must be its bytes, whatever filters and attributes say. Objects are stored as zlib
 * streams of stored blocks, but for runs of zeros (zeros.h); Git compresses them when it packs.
 * Order:   temporary file -> its bytes sent to the disk -> rename to its name -> one flush for several.
 *          What is there already is left alone.
 */
#ifndef CROFT_GIT_OBJECT_H
#define CROFT_GIT_OBJECT_H

#include "base/err.h"
#include "git/oid.h"

#define GIT_TEMP_MAX 48
#define GIT_PENDING_MAX 8

struct git_pack;
struct git_store {
	int objects_fd; /* an "objects" directory */
	enum git_hash hash;
	struct git_pack *pack; /* where many go at once (pack_write.h), or NULL */
	bool sync; /* objects get their names in git_store_name(), when their bytes are on the disk */
	struct git_pending {
		int fd;
		char temp[GIT_TEMP_MAX];
		struct oid oid;
	} pending[GIT_PENDING_MAX];
	size_t pending_n;
};

/*
 * What was written with `sync` was only sent on its way, all of it side by side. Naming waits for the
 * bytes and gives the objects their names; flushing settles the names, too. Where one fsync settles all
 * that was done before it (path.h), syncing a ref afterwards does that.
 */
int git_store_name(struct git_store *s, struct err *e);
int git_store_flush(struct git_store *s, struct err *e);
/* Whatever was not named is dropped. */
void git_store_close(struct git_store *s);

int git_write(struct git_store *s, enum git_type t, const void *p, size_t n, struct oid *ret,
	struct err *e);
/*
 * A regular file, from its beginning, as a blob; of any size, in constant memory. A file that changes
 * size meanwhile is an error (-EAGAIN). s may be only a hash (objects_fd -1): the name is computed,
 * nothing is written.
 */
int git_write_file(struct git_store *s, int fd, struct oid *ret, struct err *e);

#endif
