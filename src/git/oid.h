/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Git objects, SHA-1 or SHA-256. */
#ifndef CROFT_GIT_OID_H
#define CROFT_GIT_OID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OID_HEX_MAX 64

enum git_hash { GIT_SHA1, GIT_SHA256 };
enum git_type { GIT_COMMIT, GIT_TREE, GIT_BLOB, GIT_TAG, GIT_TYPE_NUM };
extern const char *const git_type_names[GIT_TYPE_NUM];

struct oid {
	uint8_t n; /* 20 or 32; 0: none */
	uint8_t v[32];
};

struct oid_hex {
	char s[OID_HEX_MAX + 1];
};

size_t git_hash_len(enum git_hash h);
bool oid_eq(const struct oid *a, const struct oid *b);
bool oid_is_none(const struct oid *o); /* none, or all zero */
/* oid_hex(&o).s is "" for none. */
struct oid_hex oid_hex(const struct oid *o);
/* Exactly 40 or 64 lower-case digits. */
bool oid_parse(struct oid *ret, const char *hex, size_t n);
/* The name an object has: hash of "type size\0" and its bytes. */
void oid_of(struct oid *ret, enum git_hash h, enum git_type t, const void *p, size_t n);

#endif
