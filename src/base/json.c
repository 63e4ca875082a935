/* SPDX-License-Identifier: Apache-2.0 */
/* JSON writer: see json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

void json_init(struct json *j, struct buf *out, bool indent)
{
	*j = (struct json){.out = out, .indent = indent};
	j->first[0] = true;
}

static void json_newline(struct json *j)
{
	if (!j->indent)
		return;
	buf_addc(j->out, '\n');
	for (int i = 0; i < j->depth; i++)
		buf_adds(j->out, "  ");
}

/* Valid JSON either way; but somebody will print it on a terminal. */
static void json_unsafe(struct buf *out, const char *s, size_t len)
{
	uint32_t c = utf8_code(s, len);

	if (c >= 0x10000) {
		buf_addf(out, "\\u%04x", 0xd800 + ((c - 0x10000) >> 10));
		c = 0xdc00 + ((c - 0x10000) & 0x3ff);
	}
	buf_addf(out, "\\u%04x", c);
}

static void json_quote(struct json *j, const char *s, size_t n)
{
	size_t i = 0;

	buf_addc(j->out, '"');
	while (i < n) {
		unsigned char c = (unsigned char)s[i];
		size_t len = utf8_len(s + i, n - i);

		if (len == 0) {
			buf_adds(j->out, "\\ufffd");
			i++;
			continue;
		}
		if (len > 1 && str_unsafe(s + i, len)) {
			json_unsafe(j->out, s + i, len);
		} else if (len > 1) {
			buf_add(j->out, s + i, len);
		} else if (c == '"' || c == '\\') {
			buf_addc(j->out, '\\');
			buf_addc(j->out, (char)c);
		} else if (c == '\n') {
			buf_adds(j->out, "\\n");
		} else if (c == '\t') {
			buf_adds(j->out, "\\t");
		} else if (c < 0x20 || c == 0x7f) {
			buf_addf(j->out, "\\u%04x", c);
		} else {
			buf_addc(j->out, (char)c);
		}
		i += len;
	}
	buf_addc(j->out, '"');
}

static void json_before(struct json *j, const char *key)
{
	if (!j->first[j->depth])
		buf_addc(j->out, ',');
	j->first[j->depth] = false;
	if (j->depth > 0)
		json_newline(j);
	if (key) {
		json_quote(j, key, strlen(key));
		buf_adds(j->out, j->indent ? ": " : ":");
	}
}

static void json_open(struct json *j, const char *key, char open, char close)
{
	json_before(j, key);
	buf_addc(j->out, open);
	if (j->depth + 1 >= JSON_DEPTH_MAX) {
		j->out->failed = true;
		return;
	}
	j->depth++;
	j->close[j->depth] = close;
	j->first[j->depth] = true;
}

void json_object(struct json *j, const char *key)
{
	json_open(j, key, '{', '}');
}

void json_array(struct json *j, const char *key)
{
	json_open(j, key, '[', ']');
}

void json_end(struct json *j)
{
	char c;
	bool empty;

	if (j->depth == 0) {
		j->out->failed = true;
		return;
	}
	c = j->close[j->depth];
	empty = j->first[j->depth];
	j->depth--;
	if (!empty)
		json_newline(j);
	buf_addc(j->out, c);
}

void json_strn(struct json *j, const char *key, const char *v, size_t n)
{
	json_before(j, key);
	json_quote(j, v, n);
}

void json_str(struct json *j, const char *key, const char *v)
{
	if (v)
		json_strn(j, key, v, strlen(v));
	else
		json_null(j, key);
}

void json_strf(struct json *j, const char *key, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(64 * 1024);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	json_strn(j, key, buf_str(&b), b.len);
}

void json_int(struct json *j, const char *key, int64_t v)
{
	json_before(j, key);
	buf_addf(j->out, "%" PRId64, v);
}

void json_uint(struct json *j, const char *key, uint64_t v)
{
	json_before(j, key);
	buf_addf(j->out, "%" PRIu64, v);
}

void json_fixed(struct json *j, const char *key, uint64_t v, int decimals)
{
	uint64_t scale = 1;

	for (int i = 0; i < decimals; i++)
		scale *= 10;
	json_before(j, key);
	buf_addf(j->out, "%" PRIu64 ".%0*" PRIu64, v / scale, decimals, v % scale);
}

void json_bool(struct json *j, const char *key, bool v)
{
	json_before(j, key);
	buf_adds(j->out, v ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
	json_before(j, key);
	buf_adds(j->out, "null");
}

void json_list(struct json *j, const char *key, const struct strlist *l)
{
	json_array(j, key);
	for (size_t i = 0; i < l->n; i++)
		json_str(j, NULL, l->v[i]);
	json_end(j);
}
