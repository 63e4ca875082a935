/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One error object, owned by the caller, of fixed size: it works after fork, under seccomp and out
 * of memory. A function that can fail takes `struct err *e` last and returns 0 (or a value) on
 * success, a negative errno on failure, with `e` holding one readable sentence. Only main prints it.
 */
#ifndef CROFT_BASE_ERR_H
#define CROFT_BASE_ERR_H

#include <stdbool.h>

#define ERR_MSG_MAX 1024

/* What kind of failure this is for the outside: exit codes now, HTTP statuses later. */
enum err_kind {
	ERR_NONE = 0,
	ERR_FAILED,    /* croft could not do its work: exit 125 */
	ERR_INVALID,   /* the user's input is wrong: exit 125 */
	ERR_REFUSED,   /* refused by policy or by a missing protection: exit 126 */
	ERR_NOT_FOUND, /* the command does not exist: exit 127 */
	ERR_NUM,
};

/*
 * Why, for programs: they decide by this and never by the sentence. The same numbers as enum croft_reason of
 * the public header, which says what each means; they are on the wire, too. Only added to, at the end.
 */
enum err_reason {
	ERR_WHY_NONE,
	ERR_WHY_FAILED,
	ERR_WHY_INVALID,
	ERR_WHY_REFUSED,
	ERR_WHY_NO_COMMAND,
	ERR_WHY_NOT_EXECUTABLE,
	ERR_WHY_UNENFORCEABLE,
	ERR_WHY_UNTRUSTED,
	ERR_WHY_NO_ENVIRONMENT,
	ERR_WHY_EXISTS,
	ERR_WHY_IN_USE,
	ERR_WHY_UP,
	ERR_WHY_NOT_UP,
	ERR_WHY_OTHER_VERSION,
	ERR_WHY_NOT_YOURS,
	ERR_WHY_OTHER_BOUNDARY,
	ERR_WHY_PAUSED,
	ERR_WHY_ENDING,
	ERR_WHY_NO_PROCESS,
	ERR_WHY_LIMIT,
	ERR_WHY_ENDED,
	ERR_WHY_TIMED_OUT,
	ERR_WHY_NO_MEMORY,
	ERR_WHY_NO_SPACE,
	ERR_WHY_CONFLICT,
	ERR_WHY_NUM,
};

struct err {
	enum err_kind kind;
	enum err_reason reason; /* NONE: as kind and errnum say; err_reason() settles it */
	bool boundary; /* the machine could not give this boundary: a weaker tier might do */
	int errnum;
	char msg[ERR_MSG_MAX];
};

#define ERR_INIT ((struct err){0})

/* "<text>: <strerror(errnum)>"; returns -errnum. */
int err_set(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A sentence about the user's input; returns -EINVAL. */
int err_invalid(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A sentence about what policy or the machine does not permit; returns -EPERM. */
int err_refuse(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As err_refuse, and the reason is the machine's, not the policy's. */
int err_no_boundary(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The command was not found; returns -ENOENT. */
int err_not_found(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prefix the message with context, keeping kind and errnum; returns -errnum. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Say why more exactly than the kind does; returns r: `return err_why(e, ERR_WHY_UP, err_refuse(e, …));` */
static inline int err_why(struct err *e, enum err_reason why, int r)
{
	e->reason = why;
	return r;
}
/* Why; ERR_WHY_NONE when nothing has failed. */
enum err_reason err_reason(const struct err *e);
/* The exit status that stands for a reason: the only place that knows. */
int err_reason_exit(enum err_reason why);
/* "not-up" …; NULL beyond the last. */
const char *err_reason_name(enum err_reason why);
/* The exit status that stands for this error. */
int err_exit_code(const struct err *e);
/* The kind of errors that have this reason. */
enum err_kind err_reason_kind(enum err_reason why);

#endif
