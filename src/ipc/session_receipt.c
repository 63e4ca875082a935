/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts between a session and its callers: see session_receipt.h. */
#include "ipc/session_receipt.h"

#include <errno.h>
#include <stdlib.h>

#include "ipc/session_link.h"

#define WORD_MAX 256u

void session_denial_pack(struct buf *b, const struct session_denial *d)
{
	pack_u32(b, d->attempt);
	pack_u32(b, d->port);
	pack_u64(b, d->count);
	pack_str(b, d->target);
	pack_str(b, d->method);
	pack_str(b, d->path);
	pack_str(b, d->rule);
	pack_str(b, d->fix);
}

void session_denial_unpack(struct unpack *u, struct session_denial *ret)
{
	ret->attempt = unpack_u32(u);
	ret->port = unpack_u32(u);
	ret->count = unpack_u64(u);
	ret->target = unpack_str(u, SESSION_TEXT_MAX);
	ret->method = unpack_str(u, SESSION_TEXT_MAX);
	ret->path = unpack_str(u, SESSION_TEXT_MAX);
	ret->rule = unpack_str(u, SESSION_TEXT_MAX);
	ret->fix = unpack_str(u, SESSION_TEXT_MAX);
}

void session_receipt_pack(struct buf *b, const struct session_receipt *r)
{
	pack_str(b, r->id);
	pack_str(b, r->event);
	pack_str(b, r->tier);
	pack_str(b, r->policy_digest);
	pack_str(b, r->enforced_digest);
	pack_u32(b, (uint32_t)r->exit);
	pack_u32(b, (uint32_t)r->signal);
	pack_u32(b, r->timed_out);
	pack_u64(b, r->wall_us);
	pack_u64(b, r->cpu_us);
	pack_u64(b, r->peak_memory_b);
	session_limits_pack(b, &r->limits);
	pack_list(b, (const char *const *)r->limits_hit);
	pack_list(b, (const char *const *)r->degradations);
	pack_u64(b, r->denials_lost);
	pack_u32(b, (uint32_t)r->denials_n);
	for (size_t i = 0; i < r->denials_n; i++)
		session_denial_pack(b, &r->denials[i]);
	pack_u32(b, (uint32_t)r->changed_n);
	for (size_t i = 0; i < r->changed_n; i++) {
		pack_u32(b, r->changed[i].change);
		pack_str(b, r->changed[i].path);
	}
}

static void unpack_denials(struct unpack *u, struct session_receipt *r)
{
	uint32_t n = unpack_u32(u);

	if (u->bad || n > SESSION_DENIALS_MAX) {
		u->bad = true;
		return;
	}
	r->denials = calloc((size_t)n + 1, sizeof(*r->denials));
	if (!r->denials) {
		u->bad = true;
		return;
	}
	for (; r->denials_n < n && !u->bad; r->denials_n++)
		session_denial_unpack(u, &r->denials[r->denials_n]);
}

static void unpack_changed(struct unpack *u, struct session_receipt *r)
{
	uint32_t n = unpack_u32(u);

	if (u->bad || n > SESSION_CHANGED_MAX) {
		u->bad = true;
		return;
	}
	r->changed = calloc((size_t)n + 1, sizeof(*r->changed));
	if (!r->changed) {
		u->bad = true;
		return;
	}
	for (; r->changed_n < n && !u->bad; r->changed_n++) {
		r->changed[r->changed_n].change = unpack_u32(u);
		r->changed[r->changed_n].path = unpack_str(u, SESSION_TEXT_MAX);
	}
}

int session_receipt_unpack(struct session_receipt *ret, const void *p, size_t n)
{
	struct unpack u = unpack_of(p, n);
	struct session_receipt r = {0};
	size_t count;

	r.id = unpack_str(&u, WORD_MAX);
	r.event = unpack_str(&u, WORD_MAX);
	r.tier = unpack_str(&u, WORD_MAX);
	r.policy_digest = unpack_str(&u, WORD_MAX);
	r.enforced_digest = unpack_str(&u, WORD_MAX);
	r.exit = (int32_t)unpack_u32(&u);
	r.signal = (int32_t)unpack_u32(&u);
	r.timed_out = unpack_u32(&u) != 0;
	r.wall_us = unpack_u64(&u);
	r.cpu_us = unpack_u64(&u);
	r.peak_memory_b = unpack_u64(&u);
	session_limits_unpack(&u, &r.limits);
	r.limits_hit = unpack_list(&u, SESSION_SENTENCES_MAX, SESSION_TEXT_MAX, &count);
	r.degradations = unpack_list(&u, SESSION_SENTENCES_MAX, SESSION_BODY_MAX, &count);
	r.denials_lost = unpack_u64(&u);
	unpack_denials(&u, &r);
	unpack_changed(&u, &r);
	if (!unpack_good(&u)) {
		session_receipt_done(&r);
		return -EPROTO;
	}
	*ret = r;
	return 0;
}

void session_receipt_done(struct session_receipt *r)
{
	free(r->limits_hit);
	free(r->degradations);
	free(r->denials);
	free(r->changed);
	*r = (struct session_receipt){0};
}
