/* SPDX-License-Identifier: Apache-2.0 */
/* What a struct croft_sandbox is, and the parts that it is made of. */
#ifndef CROFT_API_SANDBOX_IMPL_H
#define CROFT_API_SANDBOX_IMPL_H

#include "api/api_impl.h"
#include "base/str.h"
#include "env/env.h"
#include "ipc/session_link.h"
#include "ipc/session_receipt.h"

/* An unpacked receipt, and the same as callers know it. */
struct api_receipt {
	struct session_receipt raw;
	struct croft_receipt_info info;
	struct croft_denial *denials;
	struct croft_changed *changed;
};

/* p stays as long as ret is used. 0, -EPROTO, -ENOMEM. */
int api_receipt_unpack(struct api_receipt *ret, const void *p, size_t n);
void api_receipt_done(struct api_receipt *r);
struct croft_denial api_denial(const struct session_denial *d);

struct croft_sandbox {
	struct croft *croft;
	struct session_link link;
	struct session_link side; /* for what may not wait behind input; fd -1: not needed yet */
	char name[ENV_NAME_MAX + 1]; /* "": not known yet */
	bool fed;                    /* it was given input */
	uint32_t tag;
	bool over;
	bool starting; /* it was started here, and has not answered yet */
	/* Of the last event. */
	struct api_receipt receipt;
	struct croft_denial denial;
	struct croft_ask ask;
};

/* Connect to the session of an environment: 1, 0 not up, -errno. */
int api_session_link(struct croft *c, const char *name, struct session_link *ret);
void api_pack_signal(struct buf *b, int signal, enum croft_scope to);
/* One question, one answer. *ret_text, or NULL: the caller frees. */
int api_ask(struct croft *c, const char *name, enum session_type type, unsigned process,
	const struct buf *b, int timeout_ms, char **ret_text);
/*
 * Execute a program that is nobody's child: `fd` becomes its descriptor 3, 0 to 2 are /dev/null, no signal is
 * blocked or ignored, and its session is its own. The caller gets no SIGCHLD and has no child to wait for.
 */
int api_spawn(const char *program, char *const *argv, int fd, struct err *e);

#endif
