/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of an object while its bytes pass by. */
#ifndef CROFT_GIT_HASH_H
#define CROFT_GIT_HASH_H

#include <sys/types.h>
#include <sha1.h>
#include <sha2.h>

#include "git/oid.h"

#define HASHER_HEAD_MAX 32 /* "commit 18446744073709551615" and its NUL */

struct hasher {
	enum git_hash kind;
	union {
		SHA1_CTX sha1;
		SHA2_CTX sha256;
	};
};

/* The head that is hashed first; its length, with the NUL. */
size_t hasher_head(char head[HASHER_HEAD_MAX], enum git_type t, uint64_t size);
void hasher_begin(struct hasher *h, enum git_hash kind, enum git_type t, uint64_t size);
/* Without such a head: of a pack, of an index. */
void hasher_begin_plain(struct hasher *h, enum git_hash kind);
void hasher_add(struct hasher *h, const void *p, size_t n);
void hasher_end(struct hasher *h, struct oid *ret);

#endif
