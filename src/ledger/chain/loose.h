/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading back loose objects as git/object.h writes them: zlib streams of stored blocks. It is what
 * the newest event of a ledger nearly always is, and saves the start of git. What is anything else
 * (compressed, packed, in an alternate) is not there for this reader; ask git then.
 */
#ifndef CROFT_LEDGER_CHAIN_LOOSE_H
#define CROFT_LEDGER_CHAIN_LOOSE_H

#include "base/buf.h"
#include "git/oid.h"

/*
 * The object's bytes, appended to ret (which bounds them), after its name was checked against them.
 * -ENOENT: not there in that form; -EBADMSG: in that form and damaged; -EFBIG.
 */
int loose_read(
	int objects_fd, enum git_hash h, const struct oid *o, enum git_type want, struct buf *ret);
/* The same from a file's bytes. */
int loose_parse(const void *p, size_t n, enum git_hash h, const struct oid *o, enum git_type want,
	struct buf *ret);

#endif
