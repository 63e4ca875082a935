/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A secret of any bytes, written into any text in one of the forms that redact.h claims to find. What
 * comes out has it in none of them, neither whole nor half, nor what a cut at an end left of it; and
 * no byte of any place of it came through.
 *
 * Input: form, length of the secret, how much of the rest is before it, a pattern of what to escape (8
 *        bytes), the secret, the text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "ledger/redact/redact.h"
#include "must.h"

#define HEAD_LEN 11u
#define VALUE_MIN 8u
#define VALUE_MAX 71u
#define CUT_MIN 6u
#define TEXT_MAX (16u << 20)

enum form { PLAIN, PERCENT, JSON, BASE64, BASE64_URL, CUT_END, CUT_START, FORM_NUM };

struct sample {
	enum form form;
	const uint8_t *pattern;
	char value[VALUE_MAX + 1];
	size_t n;
	const char *before, *after;
	size_t before_n, after_n;
};

/* ------------------------------------------------------------------ writing it */

static bool chosen(const struct sample *s, size_t i)
{
	return s->pattern[i / 8 % 8] >> i % 8 & 1;
}

static void add_percent(const struct sample *s, struct buf *out)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->value[i] == '%' || chosen(s, i))
			buf_addf(out, i % 2 ? "%%%02x" : "%%%02X", (uint8_t)s->value[i]);
		else
			buf_addc(out, s->value[i]);
}

static void add_code(uint32_t c, struct buf *out)
{
	if (c >= 0x10000) {
		buf_addf(out, "\\u%04x", 0xd800 + ((c - 0x10000) >> 10));
		c = 0xdc00 + ((c - 0x10000) & 0x3ff);
	}
	buf_addf(out, "\\u%04x", c);
}

static void add_json(const struct sample *s, struct buf *out)
{
	static const char plain[] = "\"\\/\b\f\n\r\t", escaped[] = "\"\\/bfnrt";
	size_t len;

	for (size_t i = 0; i < s->n; i += len) {
		const char *at = strchr(plain, s->value[i]);

		len = utf8_len(s->value + i, s->n - i);
		if (at && (at < plain + 2 || chosen(s, i)))
			buf_addf(out, "\\%c", escaped[at - plain]);
		else if (len && chosen(s, i))
			add_code(utf8_code(s->value + i, len), out);
		else
			buf_add(out, s->value + i, len = MAX_OF(len, 1u));
	}
}

/* With up to two bytes before it in its group. The digits that are the value's alone: ret. */
static void add_base64(const struct sample *s, struct buf *out, struct buf *ret)
{
	size_t lead = s->pattern[0] % 3, tail = s->pattern[1] % 5, n = lead + s->n + tail;
	char raw[VALUE_MAX + 8], text[2 * VALUE_MAX];

	memset(raw, s->pattern[2], sizeof(raw));
	memcpy(raw + lead, s->value, s->n);
	base64_encode(text, raw, n);
	for (size_t i = 0; i < base64_len(n) && s->form == BASE64_URL; i++)
		text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
	buf_add(out, text, base64_len(n));
	buf_add(ret, text + (lead * 8 + 5) / 6, (lead + s->n) * 8 / 6 - (lead * 8 + 5) / 6);
}

static size_t cut_len(const struct sample *s)
{
	return CUT_MIN + s->pattern[0] % (s->n - CUT_MIN);
}

static void write_text(const struct sample *s, struct buf *out, struct buf *ret_digits)
{
	if (s->form == CUT_START)
		buf_add(out, s->value + s->n - cut_len(s), cut_len(s));
	else
		buf_add(out, s->before, s->before_n);
	buf_addc(out, ' ');
	if (s->form == PLAIN)
		buf_add(out, s->value, s->n);
	else if (s->form == PERCENT)
		add_percent(s, out);
	else if (s->form == JSON)
		add_json(s, out);
	else if (s->form == BASE64 || s->form == BASE64_URL)
		add_base64(s, out, ret_digits);
	buf_addc(out, ' ');
	if (s->form == CUT_END)
		buf_add(out, s->value, cut_len(s));
	else
		buf_add(out, s->after, s->after_n);
}

/* ------------------------------------------------------------------ finding it */

static int hex_at(const char *p, size_t digits)
{
	int c = 0;

	for (size_t i = 0; i < digits; i++) {
		if (hex_digit(p[i]) < 0)
			return -1;
		c = c * 16 + hex_digit(p[i]);
	}
	return c;
}

static void undo_percent(const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		int c = p[i] == '%' && n - i >= 3 ? hex_at(p + i + 1, 2) : -1;

		buf_addc(out, c < 0 ? p[i] : (char)c);
		i += c < 0 ? 0 : 2;
	}
}

static void add_utf8(struct buf *out, uint32_t c)
{
	if (c < 0x80) {
		buf_addc(out, (char)c);
		return;
	}
	if (c < 0x800) {
		buf_addc(out, (char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			buf_addc(out, (char)(0xe0 | c >> 12));
		} else {
			buf_addc(out, (char)(0xf0 | c >> 18));
			buf_addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
		}
		buf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
	}
	buf_addc(out, (char)(0x80 | (c & 0x3f)));
}

static int unit_at(const char *p, size_t n)
{
	return n >= 6 && p[0] == '\\' && p[1] == 'u' ? hex_at(p + 2, 4) : -1;
}

static void undo_json(const char *p, size_t n, struct buf *out)
{
	static const char escaped[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";

	for (size_t i = 0; i < n; i++) {
		const char *at =
			p[i] == '\\' && n - i >= 2 && p[i + 1] ? strchr(escaped, p[i + 1]) : NULL;
		int c = unit_at(p + i, n - i), low;

		if (at) {
			buf_addc(out, plain[at - escaped]);
			i++;
		} else if (c < 0) {
			buf_addc(out, p[i]);
		} else {
			i += 5;
			low = c >= 0xd800 && c < 0xdc00 ? unit_at(p + i + 1, n - i - 1) : -1;
			if (low >= 0xdc00 && low < 0xe000) {
				c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
				i += 6;
			}
			add_utf8(out, (uint32_t)c);
		}
	}
}

/* As it is, or with escapes undone. */
static bool holds(const char *p, size_t n, const char *what, size_t what_n)
{
	cleanup_buf struct buf percent = BUF_INIT(TEXT_MAX), json = BUF_INIT(TEXT_MAX);

	undo_percent(p, n, &percent);
	undo_json(p, n, &json);
	MUST(!percent.failed && !json.failed);
	return memmem(p, n, what, what_n) || memmem(buf_str(&percent), percent.len, what, what_n) ||
	       memmem(buf_str(&json), json.len, what, what_n);
}

/* Words of our own are not the secret's, whatever it is. */
static bool in_a_mark(const char *what, size_t n)
{
	const char *rule;

	for (size_t i = 0; (rule = redact_rule(i)); i++) {
		cleanup_buf struct buf mark = BUF_INIT(256);

		buf_addf(&mark, "[redacted:%s]", rule);
		if (memmem(buf_str(&mark), mark.len, what, n))
			return true;
	}
	return false;
}

/* This part of the value is gone, unless the text around, with its blanks, has it by itself. */
static void check_part(const struct sample *s, const struct buf *text, const struct buf *out,
	const char *part, size_t part_n)
{
	if (part_n < VALUE_MIN || in_a_mark(part, part_n) ||
		holds(text->data, s->before_n + 1, part, part_n) ||
		holds(text->data + text->len - s->after_n - 1, s->after_n + 1, part, part_n))
		return;
	MUST(!holds(buf_str(out), out->len, part, part_n));
}

/* What must not come through: every place of the value, and what was written of it here. */
static size_t covered(const struct sample *s, const struct buf *text, const struct buf *digits)
{
	cleanup_free char *map = calloc(1, text->len);
	size_t n = 0, from = s->before_n + 1, to = text->len - s->after_n - 1;
	const char *at = text->data;

	MUST(map);
	while ((at = memmem(at, text->len - (size_t)(at - text->data), s->value, s->n)))
		memset(map + (at++ - text->data), 1, s->n);
	if (s->form == CUT_END)
		memset(map + text->len - cut_len(s), 1, cut_len(s));
	else if (s->form == CUT_START)
		memset(map, 1, cut_len(s));
	else if (digits->len)
		memset(map + from + (s->pattern[0] % 3 * 8 + 5) / 6, 1, digits->len);
	else
		memset(map + from, 1, to - from);
	for (size_t i = 0; i < text->len; i++)
		n += map[i] != 0;
	return n;
}

/* How much of the text came through: all but our marks. */
static size_t kept(const struct redact *r, const struct buf *out)
{
	const char *rule;
	size_t n = out->len;

	for (size_t i = 0; (rule = redact_rule(i)); i++)
		n -= r->fired[i] * (strlen("[redacted:]") + strlen(rule));
	return n;
}

static void check(const struct sample *s, const struct buf *text, const struct buf *out,
	const struct buf *digits)
{
	size_t cut = cut_len(s);

	if (!in_a_mark(s->value, s->n))
		MUST(!memmem(buf_str(out), out->len, s->value, s->n));
	if (digits->len && !in_a_mark(digits->data, digits->len))
		MUST(!memmem(buf_str(out), out->len, digits->data, digits->len));
	if (s->form == PLAIN || s->form == PERCENT || s->form == JSON) {
		check_part(s, text, out, s->value, s->n);
		check_part(s, text, out, s->value, s->n / 2);
		check_part(s, text, out, s->value + s->n / 2, s->n - s->n / 2);
	}
	if (s->form == CUT_END)
		MUST(out->len < cut || memcmp(out->data + out->len - cut, s->value, cut) != 0);
	if (s->form == CUT_START)
		MUST(out->len < cut || memcmp(out->data, s->value + s->n - cut, cut) != 0);
}

static bool sample_make(struct sample *s, const uint8_t *data, size_t size)
{
	size_t rest;

	if (size < HEAD_LEN + VALUE_MIN)
		return false;
	*s = (struct sample){.form = data[0] % FORM_NUM, .pattern = data + 3};
	s->n = VALUE_MIN + data[1] % (VALUE_MAX - VALUE_MIN + 1);
	s->n = MIN_OF(s->n, size - HEAD_LEN);
	memcpy(s->value, data + HEAD_LEN, s->n);
	/* Values are strings; and a bracket of ours is not one of theirs. */
	for (size_t i = 0; i < s->n; i++)
		if (!s->value[i] || strchr("[]", s->value[i]))
			s->value[i] = '#';
	rest = size - HEAD_LEN - s->n;
	s->before = (const char *)data + HEAD_LEN + s->n;
	s->before_n = rest * data[2] / 255;
	s->after = s->before + s->before_n;
	s->after_n = rest - s->before_n;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX), out = BUF_INIT(TEXT_MAX);
	cleanup_buf struct buf digits = BUF_INIT(4096);
	cleanup_free char *exact = NULL;
	struct err e = ERR_INIT;
	struct sample s;
	struct redact r;

	if (!sample_make(&s, data, size))
		return 0;
	write_text(&s, &text, &digits);
	exact = malloc(text.len);
	MUST(!text.failed && exact);
	memcpy(exact, text.data, text.len);
	redact_init(&r);
	MUST(redact_add(&r, "A", s.value, &e) == 0);
	redact_text(&r, exact, text.len, &out);
	MUST(!out.failed);
	check(&s, &text, &out, &digits);
	MUST(kept(&r, &out) + covered(&s, &text, &digits) <= text.len);
	redact_done(&r);
	return 0;
}
