/* SPDX-License-Identifier: Apache-2.0 */
/* The journal, read back: see learn_journal.h. */
#include "learn/learn_journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define KEYS_MAX 32u
#define KEY_MAX_B 32u

/* ---- a line ---- */

struct reader { /* at <= n always */
	const char *p;
	size_t n, at;
};

static bool next_is(struct reader *r, char c)
{
	if (r->at >= r->n || r->p[r->at] != c)
		return false;
	r->at++;
	return true;
}

/* The four digits of \uXXXX, for what has one byte; the writer escapes nothing else. */
static bool read_escaped(struct reader *r, char *ret)
{
	char digits[5] = {0};
	unsigned long v;

	if (r->n - r->at < 4)
		return false;
	memcpy(digits, r->p + r->at, 4);
	if (strspn(digits, "0123456789abcdefABCDEF") != 4)
		return false;
	r->at += 4;
	v = strtoul(digits, NULL, 16);
	if (v == 0 || v >= 0x80)
		return false;
	*ret = (char)v;
	return true;
}

/* out NULL: only skip. false also when it does not fit. */
static bool read_string(struct reader *r, char *out, size_t size)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	size_t len = 0;

	if (!next_is(r, '"'))
		return false;
	while (r->at < r->n) {
		char c = r->p[r->at++];
		const char *at;

		if (c == '"') {
			if (out)
				out[len] = '\0';
			return true;
		}
		if ((unsigned char)c < ' ')
			return false;
		if (c == '\\') {
			if (r->at >= r->n)
				return false;
			c = r->p[r->at++];
			at = c ? strchr(from, c) : NULL;
			if (at)
				c = to[at - from];
			else if (c != 'u' || !read_escaped(r, &c))
				return false;
		}
		if (out && len + 1 >= size)
			return false;
		if (out)
			out[len++] = c;
	}
	return false;
}

static bool read_number(struct reader *r, uint64_t *ret)
{
	char digits[24];
	size_t n = 0;

	while (r->at < r->n && r->p[r->at] >= '0' && r->p[r->at] <= '9') {
		if (n + 1 >= sizeof(digits))
			return false;
		digits[n++] = r->p[r->at++];
	}
	digits[n] = '\0';
	return n > 0 && str_u64(digits, UINT64_MAX, ret);
}

static bool read_word(struct reader *r)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (r->n - r->at >= n && memcmp(r->p + r->at, words[i], n) == 0) {
			r->at += n;
			return true;
		}
	}
	return false;
}

/* A value under a key: kept if it is one we want and of the kind it must be. */
static bool read_value(struct reader *r, const char *key, struct learn_line *l)
{
	const struct {
		const char *key;
		char *out;
		size_t size;
	} texts[] = {{"type", l->type, sizeof(l->type)}, {"host", l->host, sizeof(l->host)},
		{"mode", l->mode, sizeof(l->mode)}, {"rule", l->rule, sizeof(l->rule)},
		{"effect", l->effect, sizeof(l->effect)}, {"method", l->method, sizeof(l->method)},
		{"path", l->path, sizeof(l->path)}, {"reason", l->reason, sizeof(l->reason)}};
	uint64_t ignored;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (str_eq(key, texts[i].key))
			return read_string(r, texts[i].out, texts[i].size);
	if (str_eq(key, "port"))
		return read_number(r, &l->port);
	if (str_eq(key, "status"))
		return read_number(r, &l->status);
	if (r->at < r->n && r->p[r->at] == '"')
		return read_string(r, NULL, 0);
	return read_number(r, &ignored) || read_word(r);
}

bool learn_line_parse(struct learn_line *ret, const char *text, size_t n)
{
	struct reader r = {.p = text, .n = n};
	char keys[KEYS_MAX][KEY_MAX_B];
	struct learn_line l = {0};
	size_t keys_n = 0;

	if (!next_is(&r, '{'))
		return false;
	do {
		if (keys_n == KEYS_MAX || !read_string(&r, keys[keys_n], KEY_MAX_B))
			return false;
		for (size_t i = 0; i < keys_n; i++)
			if (str_eq(keys[i], keys[keys_n]))
				return false;
		if (!next_is(&r, ':') || !read_value(&r, keys[keys_n], &l))
			return false;
		keys_n++;
	} while (next_is(&r, ','));
	if (!next_is(&r, '}') || r.at != n || l.port > UINT16_MAX || !l.type[0])
		return false;
	*ret = l;
	return true;
}

/* ---- the file ---- */

struct pass {
	struct learn_journal *sum;
	void (*each)(void *arg, const struct learn_line *l);
	void *arg;
	struct learn_line line;
};

static void take_line(struct pass *p, const char *text, size_t n)
{
	p->sum->lines++;
	if (!learn_line_parse(&p->line, text, n))
		p->sum->odd++;
	else if (str_eq(p->line.type, "capped"))
		p->sum->whole = false;
	else
		p->each(p->arg, &p->line);
}

/* Whole lines of b; returns how much of it they are. One that is too long is dropped to its end. */
static size_t take_lines(struct pass *p, const char *b, size_t n, bool *skipping)
{
	size_t at = 0;

	while (at < n && p->sum->lines < LEARN_LINES_MAX) {
		const char *end = memchr(b + at, '\n', n - at);
		size_t len = end ? (size_t)(end - (b + at)) : n - at;

		if (!end && len <= LEARN_LINE_MAX_B && !*skipping)
			break;
		if (*skipping || len > LEARN_LINE_MAX_B) {
			if (!*skipping) {
				p->sum->lines++;
				p->sum->odd++;
			}
			*skipping = !end;
		} else {
			take_line(p, b + at, len);
		}
		at += len + (end != NULL);
	}
	return at;
}

int learn_journal_read(int fd, struct learn_journal *ret,
	void (*each)(void *arg, const struct learn_line *l), void *arg)
{
	const size_t size = 2u * LEARN_LINE_MAX_B;
	cleanup_free char *b = malloc(size);
	struct pass p = {.sum = ret, .each = each, .arg = arg};
	uint64_t total_b = 0;
	size_t have = 0;
	bool skipping = false;

	*ret = (struct learn_journal){.whole = true};
	if (!b)
		return -ENOMEM;
	for (;;) {
		ssize_t n = read(fd, b + have, size - have);
		size_t used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
		total_b += (size_t)n;
		used = take_lines(&p, b, have, &skipping);
		if (ret->lines >= LEARN_LINES_MAX || total_b > LEARN_JOURNAL_MAX_B + size) {
			ret->whole = false;
			return 0;
		}
		memmove(b, b + used, have - used);
		have -= used;
	}
	if (have || skipping) { /* its writer ended in the middle of a line */
		ret->lines += have > 0;
		ret->odd += have > 0;
		ret->whole = false;
	}
	return 0;
}
