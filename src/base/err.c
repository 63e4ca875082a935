/* SPDX-License-Identifier: Apache-2.0 */
/* Error objects: see err.h for the convention. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_format(struct err *e, enum err_kind kind, int errnum, const char *fmt, va_list ap)
{
	e->kind = kind;
	e->boundary = false;
	e->errnum = errnum;
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
}

int err_set(struct err *e, int errnum, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (errnum < 0)
		errnum = -errnum;
	if (errnum == 0)
		errnum = EIO;
	va_start(ap, fmt);
	err_format(e, ERR_FAILED, errnum, fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", strerror(errnum));
	return -errnum;
}

int err_invalid(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_format(e, ERR_INVALID, EINVAL, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

int err_refuse(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_format(e, ERR_REFUSED, EPERM, fmt, ap);
	va_end(ap);
	return -EPERM;
}

int err_no_boundary(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_format(e, ERR_REFUSED, EPERM, fmt, ap);
	va_end(ap);
	e->boundary = true;
	return -EPERM;
}

int err_not_found(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_format(e, ERR_NOT_FOUND, ENOENT, fmt, ap);
	va_end(ap);
	return -ENOENT;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char old[ERR_MSG_MAX];
	size_t n;
	va_list ap;

	memcpy(old, e->msg, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", old);
	return e->errnum ? -e->errnum : -EIO;
}

int err_exit_code(const struct err *e)
{
	switch (e->kind) {
	case ERR_REFUSED:
		return 126;
	case ERR_NOT_FOUND:
		return 127;
	case ERR_NONE:
	case ERR_FAILED:
	case ERR_INVALID:
	case ERR_NUM:
	default:
		return 125;
	}
}
