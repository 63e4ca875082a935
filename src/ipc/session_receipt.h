/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receipt as data, from a session to its caller: the body of SESSION_EXITED has one, and SESSION_DENIED has
 * one denial.
 *
 * Trust:  a reader is given bytes from anybody. Numbers of items have maxima; text may be anything.
 * Memory: unpacked, the strings lie in the bytes that were given; the arrays are to be freed.
 */
#ifndef CROFT_IPC_SESSION_RECEIPT_H
#define CROFT_IPC_SESSION_RECEIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/pack.h"
#include "ipc/session_link.h"

#define SESSION_DENIALS_MAX 1024u
#define SESSION_CHANGED_MAX 16384u
#define SESSION_SENTENCES_MAX 4096u

struct session_denial {
	uint32_t attempt; /* enum croft_attempt */
	uint32_t port;
	uint64_t count;
	const char *target, *method, *path, *rule, *fix;
};

struct session_changed {
	uint32_t change; /* enum croft_change */
	const char *path;
};

struct session_receipt {
	const char *id, *event, *tier, *policy_digest, *enforced_digest;
	int32_t exit, signal;
	bool timed_out;
	uint64_t wall_us, cpu_us, peak_memory_b;
	struct session_limits limits; /* 0: unlimited */
	char **limits_hit, **degradations; /* NULL: none */
	struct session_denial *denials;
	size_t denials_n;
	uint64_t denials_lost;
	struct session_changed *changed;
	size_t changed_n;
};

void session_denial_pack(struct buf *b, const struct session_denial *d);
void session_denial_unpack(struct unpack *u, struct session_denial *ret);

void session_receipt_pack(struct buf *b, const struct session_receipt *r);
/* From the whole of p. 0, -EPROTO, -ENOMEM. */
int session_receipt_unpack(struct session_receipt *ret, const void *p, size_t n);
void session_receipt_done(struct session_receipt *r); /* frees the arrays */

#endif
