/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the distribution's static archives expect of glibc and musl does not have.
 *
 * libgmp.a is built against glibc with fortified printing: its memory.o and assert.o, which say one
 * sentence on stderr before they abort, call __fprintf_chk. Nothing else that the launcher takes
 * from its archives (libyaml, libmd, libhogweed, libgmp) wants such a symbol. The flag asks glibc
 * to refuse %n; musl has no such switch, and the two callers print constant formats.
 */
#include <features.h>

#ifndef __GLIBC__

#include <stdarg.h>
#include <stdio.h>

int __fprintf_chk(FILE *f, int flag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

int __fprintf_chk(FILE *f, int flag, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vfprintf(f, fmt, ap);
	va_end(ap);
	return n;
}

#else

typedef int fortify_is_glibcs_own; /* a translation unit must declare something */

#endif
