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

struct err {
	enum err_kind kind;
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
/* The exit status that stands for this error. */
int err_exit_code(const struct err *e);

#endif
