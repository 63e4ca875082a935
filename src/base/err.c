/* SPDX-License-Identifier: Apache-2.0 */
/* Error objects: see err.h for the convention. */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_format(struct err *e, enum err_kind kind, int errnum, const char *fmt, va_list ap)
{
	e->kind = kind;
	e->reason = ERR_WHY_NONE;
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

static const struct {
	const char *name;
	enum err_kind kind;
} reasons[] = {
	[ERR_WHY_NONE] = {"none", ERR_NONE},
	[ERR_WHY_FAILED] = {"failed", ERR_FAILED},
	[ERR_WHY_INVALID] = {"invalid", ERR_INVALID},
	[ERR_WHY_REFUSED] = {"refused", ERR_REFUSED},
	[ERR_WHY_NO_COMMAND] = {"no-command", ERR_NOT_FOUND},
	[ERR_WHY_NOT_EXECUTABLE] = {"not-executable", ERR_REFUSED},
	[ERR_WHY_UNENFORCEABLE] = {"unenforceable", ERR_REFUSED},
	[ERR_WHY_UNTRUSTED] = {"untrusted", ERR_REFUSED},
	[ERR_WHY_NO_ENVIRONMENT] = {"no-environment", ERR_INVALID},
	[ERR_WHY_EXISTS] = {"exists", ERR_INVALID},
	[ERR_WHY_IN_USE] = {"in-use", ERR_REFUSED},
	[ERR_WHY_UP] = {"up", ERR_INVALID},
	[ERR_WHY_NOT_UP] = {"not-up", ERR_INVALID},
	[ERR_WHY_OTHER_VERSION] = {"other-version", ERR_REFUSED},
	[ERR_WHY_NOT_YOURS] = {"not-yours", ERR_REFUSED},
	[ERR_WHY_OTHER_BOUNDARY] = {"other-boundary", ERR_REFUSED},
	[ERR_WHY_PAUSED] = {"paused", ERR_REFUSED},
	[ERR_WHY_ENDING] = {"ending", ERR_REFUSED},
	[ERR_WHY_NO_PROCESS] = {"no-process", ERR_INVALID},
	[ERR_WHY_LIMIT] = {"limit", ERR_REFUSED},
	[ERR_WHY_ENDED] = {"ended", ERR_FAILED},
	[ERR_WHY_TIMED_OUT] = {"timed-out", ERR_FAILED},
	[ERR_WHY_NO_MEMORY] = {"no-memory", ERR_FAILED},
	[ERR_WHY_NO_SPACE] = {"no-space", ERR_FAILED},
	[ERR_WHY_CONFLICT] = {"conflict", ERR_REFUSED},
};
static_assert(sizeof(reasons) / sizeof(reasons[0]) == ERR_WHY_NUM, "one line per reason");

enum err_reason err_reason(const struct err *e)
{
	if (e->kind == ERR_NONE)
		return ERR_WHY_NONE;
	if (e->reason != ERR_WHY_NONE && e->reason < ERR_WHY_NUM)
		return e->reason;
	switch (e->kind) {
	case ERR_REFUSED:
		return e->boundary ? ERR_WHY_UNENFORCEABLE : ERR_WHY_REFUSED;
	case ERR_NOT_FOUND:
		return ERR_WHY_NO_COMMAND;
	case ERR_INVALID:
		return ERR_WHY_INVALID;
	case ERR_NONE:
	case ERR_FAILED:
	case ERR_NUM:
	default:
		break;
	}
	switch (e->errnum) {
	case ENOMEM:
		return ERR_WHY_NO_MEMORY;
	case ENOSPC:
	case EDQUOT:
		return ERR_WHY_NO_SPACE;
	case ETIMEDOUT:
		return ERR_WHY_TIMED_OUT;
	case ECONNRESET:
		return ERR_WHY_ENDED;
	default:
		return ERR_WHY_FAILED;
	}
}

enum err_kind err_reason_kind(enum err_reason why)
{
	return why < ERR_WHY_NUM ? reasons[why].kind : ERR_FAILED;
}

const char *err_reason_name(enum err_reason why)
{
	return why < ERR_WHY_NUM ? reasons[why].name : NULL;
}

static int kind_exit(enum err_kind kind)
{
	switch (kind) {
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

int err_reason_exit(enum err_reason why)
{
	return kind_exit(err_reason_kind(why));
}

/* The kind decides where a reason was put on an error of another kind: statuses are a contract. */
int err_exit_code(const struct err *e)
{
	return kind_exit(e->kind);
}
