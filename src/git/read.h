/* SPDX-License-Identifier: Apache-2.0 */
/* Reading Git objects, by a conversation with `git cat-file --batch` (see program.h). */
#ifndef CROFT_GIT_READ_H
#define CROFT_GIT_READ_H

#include "base/buf.h"
#include "base/err.h"
#include "git/oid.h"
#include "git/program.h"

struct git_reader;
int git_reader_open(struct git_reader **ret, const char *git_dir, struct err *e);
void git_reader_close(struct git_reader *r);
void git_reader_closep(struct git_reader **r);
#define cleanup_git_reader __attribute__((cleanup(git_reader_closep)))

/*
 * One object, by name or any revision expression without newline. Appended to ret, which bounds its
 * size (-EFBIG). -ENOENT when there is none.
 */
int git_read(struct git_reader *r, const char *spec, enum git_type *ret_type, struct oid *ret_oid,
	struct buf *ret, struct err *e);
int git_read_oid(struct git_reader *r, const struct oid *o, enum git_type want, struct buf *ret,
	struct err *e);
/* The bytes to a descriptor, a fresh file: for blobs of any size. Zeros become holes. */
int git_read_to_fd(struct git_reader *r, const struct oid *o, int fd, struct err *e);

/* Tree entries, checked: no empty name, no slash, no "." or "..", known modes, right length. */
struct tree_entry {
	unsigned mode;
	const char *name;
	size_t name_n;
	struct oid oid;
};
/* Call in a loop with *at from 0; 1: an entry, 0: the end, -EBADMSG. */
int git_tree_next(const void *raw, size_t n, enum git_hash h, size_t *at, struct tree_entry *ret);

struct commit_info {
	struct oid tree, parents[16];
	int parents_n;
	char *author, *committer; /* "Name <mail> seconds zone", as written */
	char *message;
};
void commit_info_done(struct commit_info *c);
int git_commit_parse(
	const void *raw, size_t n, enum git_hash h, struct commit_info *ret, struct err *e);

#endif
