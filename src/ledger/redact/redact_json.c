/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets out of JSON: string by string, so that what comes out is JSON whatever the strings hold. A
 * redaction of the text as a whole could take a quote or a backslash with it.
 *
 * Only what was changed is written anew; everything else stays as it was, byte by byte.
 */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "ledger/redact/redact_impl.h"

/* Where the string that begins at i ends (behind its quote), or 0. */
static size_t string_end(const char *p, size_t n, size_t i)
{
	for (i++; i < n; i++) {
		if (p[i] == '"')
			return i + 1;
		if (p[i] == '\\')
			i++;
	}
	return 0;
}

static bool is_key(const char *p, size_t n, size_t end)
{
	while (end < n && (p[end] == ' ' || p[end] == '\t'))
		end++;
	return end < n && p[end] == ':';
}

/* What may stand outside of strings: nothing that could say a secret. */
static bool is_layout(char c)
{
	return c && strchr("{}[],:+-.0123456789eE \t\r\ntrufalsn", c);
}

static void plain_text(const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n;) {
		char to[4];
		size_t made;

		i += redact_undo_json(p + i, n - i, to, &made);
		buf_add(out, to, made);
	}
}

/* One string with its quotes. */
static void redact_string(struct redact *r, const char *p, size_t n, struct buf *plain,
	struct buf *clean, struct buf *out)
{
	struct json j;

	buf_reset(plain);
	buf_reset(clean);
	plain_text(p + 1, n - 2, plain);
	redact_field(r, buf_str(plain), plain->len, clean);
	if (plain->failed || clean->failed) {
		out->failed = true;
	} else if (clean->len == plain->len &&
		   memcmp(buf_str(clean), buf_str(plain), clean->len) == 0) {
		buf_add(out, p, n);
	} else {
		json_init(&j, out, false);
		json_strn(&j, NULL, buf_str(clean), clean->len);
	}
}

int redact_json(struct redact *r, const char *p, size_t n, struct buf *out)
{
	cleanup_buf struct buf plain = BUF_INIT(out->max), clean = BUF_INIT(out->max);
	size_t i = 0;

	while (i < n && !out->failed) {
		size_t end = i;

		if (p[i] == '"') {
			end = string_end(p, n, i);
			if (!end)
				return -EBADMSG;
			if (is_key(p, n, end))
				buf_add(out, p + i, end - i);
			else
				redact_string(r, p + i, end - i, &plain, &clean, out);
		} else {
			while (end < n && p[end] != '"')
				if (!is_layout(p[end++]))
					return -EBADMSG;
			buf_add(out, p + i, end - i);
		}
		i = end;
	}
	return out->failed ? -ENOMEM : 0;
}
