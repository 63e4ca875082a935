/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown and HTML: see document.h. */
#include "show/document.h"

#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/str.h"

#define TEXT_MAX_B (8u << 20)

/* No script runs and nothing is fetched: the policy allows this one style and nothing else. */
static const char style[] =
	":root{color-scheme:light "
	"dark;--fg:#1c1c1e;--bg:#fff;--dim:#5c5c66;--line:#d6d6dc;--code:#f3f3f6;--bad:#a8071a}@"
	"media(prefers-color-scheme:dark){:root{--fg:#e6e6ea;--bg:#17171a;--dim:#a2a2ad;--line:#"
	"3a3a42;--code:#232329;--bad:#ff8a8a}}body{margin:2rem auto;max-width:62rem;padding:0 "
	"1rem;color:var(--fg);background:var(--bg);font:16px/1.5 "
	"system-ui,sans-serif}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem;border-"
	"bottom:1px solid "
	"var(--line)}table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{border:1px "
	"solid var(--line);padding:.3rem "
	".5rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}code{background:var(--"
	"code);padding:.05rem "
	".25rem;border-radius:3px;font-size:.9em;overflow-wrap:anywhere}blockquote{margin:0;"
	"padding:.2rem 1rem;border-left:3px solid "
	"var(--line);color:var(--dim)}strong{color:var(--bad)}";

static void escape_html(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		switch (s[i]) {
		case '&':
			buf_adds(out, "&amp;");
			break;
		case '<':
			buf_adds(out, "&lt;");
			break;
		case '>':
			buf_adds(out, "&gt;");
			break;
		case '"':
			buf_adds(out, "&quot;");
			break;
		case '\'':
			buf_adds(out, "&#39;");
			break;
		default:
			buf_addc(out, s[i]);
		}
	}
}

/* A backslash before every character that could be markup; a backslash among them. */
static void escape_markdown(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strchr("\\`*_{}[]<>#|~!&$()", s[i]))
			buf_addc(out, '\\');
		buf_addc(out, s[i]);
	}
}

void doc_escape(struct buf *out, enum doc_format f, const char *s, size_t n)
{
	cleanup_buf struct buf shown = BUF_INIT(TEXT_MAX_B);

	str_show(&shown, s, n);
	if (shown.failed) {
		out->failed = true;
		return;
	}
	if (f == DOC_HTML)
		escape_html(out, buf_str(&shown), shown.len);
	else
		escape_markdown(out, buf_str(&shown), shown.len);
}

/* ------------------------------------------------------------------ the whole */

/* The name a Content-Security-Policy has for an inline style: SHA-256 in base64. */
static void style_hash(struct buf *out)
{
	unsigned char raw[DIGEST_HEX_LEN / 2];
	char text[64];
	struct digest d;

	digest_sha256(&d, style, sizeof(style) - 1);
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] =
			(unsigned char)(hex_digit(d.hex[2 * i]) << 4 | hex_digit(d.hex[2 * i + 1]));
	base64_encode(text, raw, sizeof(raw));
	buf_add(out, text, base64_len(sizeof(raw)));
}

void doc_begin(struct doc *d, struct buf *out, enum doc_format f, const char *title)
{
	*d = (struct doc){.out = out, .format = f};
	if (f == DOC_HTML) {
		buf_adds(out,
			"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
			"'none'; style-src 'sha256-");
		style_hash(out);
		buf_adds(out, "'; base-uri 'none'; form-action 'none'\">\n"
			      "<meta name=\"referrer\" content=\"no-referrer\">\n"
			      "<meta name=\"viewport\" content=\"width=device-width, "
			      "initial-scale=1\">\n<title>");
		doc_escape(out, f, title, strlen(title));
		buf_adds(out, "</title>\n<style>");
		buf_adds(out, style);
		buf_adds(out, "</style>\n</head>\n<body>\n");
	}
	doc_heading(d, 1, title);
}

static void close_list(struct doc *d)
{
	if (!d->in_list)
		return;
	d->in_list = false;
	buf_adds(d->out, d->format == DOC_HTML ? "</ul>\n" : "\n");
}

void doc_end(struct doc *d)
{
	close_list(d);
	if (d->format == DOC_HTML)
		buf_adds(d->out, "</body>\n</html>\n");
}

void doc_heading(struct doc *d, int level, const char *text)
{
	close_list(d);
	if (d->format == DOC_HTML)
		buf_addf(d->out, "<h%d>", level);
	else
		buf_addf(d->out, "%.*s ", level, "######");
	doc_escape(d->out, d->format, text, strlen(text));
	if (d->format == DOC_HTML)
		buf_addf(d->out, "</h%d>\n", level);
	else
		buf_adds(d->out, "\n\n");
}

/* ------------------------------------------------------------------ text */

void doc_text(struct doc *d, const char *s)
{
	doc_escape(d->out, d->format, s, strlen(s));
}

void doc_textf(struct doc *d, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(TEXT_MAX_B);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	doc_escape(d->out, d->format, buf_str(&b), b.len);
}

void doc_strong(struct doc *d, const char *s)
{
	buf_adds(d->out, d->format == DOC_HTML ? "<strong>" : "**");
	doc_text(d, s);
	buf_adds(d->out, d->format == DOC_HTML ? "</strong>" : "**");
}

/* Markdown has the tag, too: in a code span escapes would not work, and pipes would end a cell. */
void doc_code(struct doc *d, const char *s)
{
	if (!s || !*s) {
		buf_adds(d->out, "-");
		return;
	}
	buf_adds(d->out, "<code>");
	doc_text(d, s);
	buf_adds(d->out, "</code>");
}

/* ------------------------------------------------------------------ blocks */

void doc_paragraph(struct doc *d)
{
	close_list(d);
	if (d->format == DOC_HTML)
		buf_adds(d->out, "<p>");
}

void doc_paragraph_end(struct doc *d)
{
	buf_adds(d->out, d->format == DOC_HTML ? "</p>\n" : "\n\n");
}

void doc_quote(struct doc *d, const char *text)
{
	close_list(d);
	if (d->format == DOC_HTML)
		buf_adds(d->out, "<blockquote>\n");
	for (const char *p = text;; p++) {
		size_t n = strcspn(p, "\n");

		/* The tag keeps a line from being read as a heading, a list or a fence. */
		buf_adds(d->out, d->format == DOC_HTML ? "" : "> ");
		if (n) {
			buf_adds(d->out, "<code>");
			doc_escape(d->out, d->format, p, n);
			buf_adds(d->out, "</code>");
		}
		buf_adds(d->out, d->format == DOC_HTML ? "<br>\n" : "\\\n");
		p += n;
		if (!*p)
			break;
	}
	buf_adds(d->out, d->format == DOC_HTML ? "</blockquote>\n" : "> &nbsp;\n\n");
}

void doc_item(struct doc *d)
{
	if (!d->in_list && d->format == DOC_HTML)
		buf_adds(d->out, "<ul>\n");
	d->in_list = true;
	buf_adds(d->out, d->format == DOC_HTML ? "<li>" : "- ");
}

void doc_item_end(struct doc *d)
{
	buf_adds(d->out, d->format == DOC_HTML ? "</li>\n" : "\n");
}

void doc_table(struct doc *d, const char *const *heads, size_t n)
{
	bool html = d->format == DOC_HTML;

	close_list(d);
	d->columns = n;
	d->cell = 0;
	buf_adds(d->out, html ? "<table>\n<tr>" : "|");
	for (size_t i = 0; i < n; i++) {
		buf_adds(d->out, html ? "<th>" : " ");
		doc_text(d, heads[i]);
		buf_adds(d->out, html ? "</th>" : " |");
	}
	buf_adds(d->out, html ? "</tr>\n" : "\n|");
	for (size_t i = 0; i < n && !html; i++)
		buf_adds(d->out, " --- |");
	if (!html)
		buf_addc(d->out, '\n');
}

void doc_cell(struct doc *d)
{
	bool html = d->format == DOC_HTML;

	if (d->cell == 0)
		buf_adds(d->out, html ? "<tr>" : "|");
	buf_adds(d->out, html ? "<td>" : " ");
}

void doc_cell_end(struct doc *d)
{
	bool html = d->format == DOC_HTML;

	buf_adds(d->out, html ? "</td>" : " |");
	if (++d->cell == d->columns) {
		buf_adds(d->out, html ? "</tr>\n" : "\n");
		d->cell = 0;
	}
}

void doc_table_end(struct doc *d)
{
	buf_adds(d->out, d->format == DOC_HTML ? "</table>\n" : "\n");
}
