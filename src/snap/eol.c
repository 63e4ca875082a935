/* SPDX-License-Identifier: Apache-2.0 */
/* Line endings: see eol.h. The rules are those that gitattributes(5) states. */
#include "snap/eol.h"

#include <string.h>

#include "base/str.h"

/* text, and its older spelling crlf: what it says, or -1 for nothing. */
static int one_attr(const char *v)
{
	if (str_eq(v, "set") || str_eq(v, "input"))
		return EOL_TEXT;
	if (str_eq(v, "unset"))
		return EOL_RAW;
	return str_eq(v, "auto") ? EOL_AUTO : -1;
}

enum eol_action eol_action(const struct eol_attrs *a, bool autocrlf)
{
	int act = one_attr(a->text);

	if (act < 0)
		act = one_attr(a->crlf);
	/* eol alone makes a file text; beside text=auto it only says what a checkout writes */
	if (act < 0 && (str_eq(a->eol, "lf") || str_eq(a->eol, "crlf")))
		act = EOL_TEXT;
	if (act < 0)
		act = autocrlf ? EOL_AUTO : EOL_RAW;
	return (enum eol_action)act;
}

bool eol_has_crlf(const char *p, size_t n)
{
	for (const char *end = p + n; p < end; p++) {
		p = memchr(p, '\r', (size_t)(end - p));
		if (!p)
			return false;
		if (p + 1 < end && p[1] == '\n')
			return true;
	}
	return false;
}

bool eol_is_binary(const char *p, size_t n)
{
	size_t printable = 0, odd = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '\r') {
			if (i + 1 >= n || p[i + 1] != '\n')
				return true;
			i++;
		} else if (c == 0) {
			return true;
		} else if (c == '\n') {
			continue;
		} else if (c == 127 || (c < 32 && !strchr("\b\t\033\014", c))) {
			odd++;
		} else {
			printable++;
		}
	}
	if (n > 0 && p[n - 1] == '\032') /* an old end-of-file mark */
		odd--;
	return (printable >> 7) < odd;
}

size_t eol_to_lf(char *p, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++)
		if (p[i] != '\r' || i + 1 >= n || p[i + 1] != '\n')
			p[out++] = p[i];
	return out;
}
