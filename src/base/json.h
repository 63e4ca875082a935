/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON writer over a bounded buffer. Commas are placed by the writer; strings are escaped so that
 * the output is valid UTF-8 JSON whatever bytes came in (ill-formed sequences become U+FFFD).
 * Usage: json_object(&j, NULL); json_str(&j, "name", v); json_end(&j);  key is NULL inside arrays.
 */
#ifndef CROFT_BASE_JSON_H
#define CROFT_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define JSON_DEPTH_MAX 32

struct strlist;

struct json {
	struct buf *out;
	int depth;
	bool indent;
	char close[JSON_DEPTH_MAX];
	bool first[JSON_DEPTH_MAX];
};

void json_init(struct json *j, struct buf *out, bool indent);
void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
void json_end(struct json *j);
void json_str(struct json *j, const char *key, const char *v); /* NULL becomes null */
void json_strn(struct json *j, const char *key, const char *v, size_t n);
void json_strf(struct json *j, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void json_int(struct json *j, const char *key, int64_t v);
void json_uint(struct json *j, const char *key, uint64_t v);
void json_fixed(struct json *j, const char *key, uint64_t v, int decimals); /* 1234,3 -> 1.234 */
void json_bool(struct json *j, const char *key, bool v);
void json_null(struct json *j, const char *key);
void json_list(struct json *j, const char *key, const struct strlist *l);

#endif
