/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line endings as `git add` would store them: by attribute text, crlf and eol, and core.autocrlf.
 * Pure: bytes in, bytes out.
 */
#ifndef CROFT_SNAP_EOL_H
#define CROFT_SNAP_EOL_H

#include <stdbool.h>
#include <stddef.h>

#define EOL_CONVERT_MAX_B ((size_t)256 << 20) /* larger ones that would change are refused */

enum eol_action {
	EOL_RAW,  /* bytes as they are */
	EOL_TEXT, /* CRLF becomes LF */
	EOL_AUTO, /* the same, if it looks like text and was not stored with CRLF before */
};

struct eol_rule {
	enum eol_action action;
	bool by_git; /* needs more than line endings (ident, another encoding): git does it */
};

/* One attribute's value, as git check-attr says it; call for text, crlf, eol in any order. */
struct eol_attrs {
	char text[16], crlf[16], eol[16];
};
/* autocrlf: core.autocrlf is true or input. */
enum eol_action eol_action(const struct eol_attrs *a, bool autocrlf);

bool eol_has_crlf(const char *p, size_t n);
/* Git's guess: NUL, lone CR, or too much that is not printable. */
bool eol_is_binary(const char *p, size_t n);
/* In place; the new length. */
size_t eol_to_lf(char *p, size_t n);

#endif
