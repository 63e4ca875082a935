/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One document, written as Markdown or as HTML by the same calls.
 *
 * Trust:  every text goes through str_show() and is then escaped for its format, so that nothing in it
 *         can end a cell, open a tag, hide itself, or mention anybody. There is no way to add raw text.
 */
#ifndef CROFT_SHOW_DOCUMENT_H
#define CROFT_SHOW_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum doc_format { DOC_MARKDOWN, DOC_HTML };

struct doc {
	struct buf *out;
	enum doc_format format;
	bool in_list;
	size_t columns, cell;
};

void doc_begin(struct doc *d, struct buf *out, enum doc_format f, const char *title);
void doc_end(struct doc *d);
void doc_heading(struct doc *d, int level, const char *text);

/* Text inside a paragraph, item or cell. */
void doc_text(struct doc *d, const char *s);
void doc_textf(struct doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doc_strong(struct doc *d, const char *s);
/* In a typewriter face; NULL is a dash. */
void doc_code(struct doc *d, const char *s);

void doc_paragraph(struct doc *d);
void doc_paragraph_end(struct doc *d);
/* A whole paragraph of several lines, line by line. */
void doc_quote(struct doc *d, const char *text);
/* An item opens a list, and anything that is no item closes it. */
void doc_item(struct doc *d);
void doc_item_end(struct doc *d);
void doc_table(struct doc *d, const char *const *heads, size_t n);
/* Before each cell; a row ends by itself after the last column. */
void doc_cell(struct doc *d);
void doc_cell_end(struct doc *d);
void doc_table_end(struct doc *d);

/* Text made printable and escaped; also used by itself. */
void doc_escape(struct buf *out, enum doc_format f, const char *s, size_t n);

#endif
