/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: receipts as structs. */
#include <errno.h>
#include <stdlib.h>

#include "api/sandbox_impl.h"
#include "session/run/receipt_data.h"

struct croft_denial api_denial(const struct session_denial *d)
{
	return (struct croft_denial){
		.attempt = d->attempt < CROFT_ATTEMPT_NUM ? (enum croft_attempt)d->attempt
							  : CROFT_ATTEMPT_LOOK,
		.target = d->target,
		.port = d->port,
		.method = d->method,
		.path = d->path,
		.rule = d->rule,
		.fix = d->fix,
		.count = d->count};
}

static int fill(struct api_receipt *r)
{
	static const char *const none[] = {NULL};
	const struct session_receipt *x = &r->raw;

	r->denials = calloc(x->denials_n + 1, sizeof(*r->denials));
	r->changed = calloc(x->changed_n + 1, sizeof(*r->changed));
	if (!r->denials || !r->changed)
		return -ENOMEM;
	for (size_t i = 0; i < x->denials_n; i++)
		r->denials[i] = api_denial(&x->denials[i]);
	for (size_t i = 0; i < x->changed_n; i++)
		r->changed[i] = (struct croft_changed){.path = x->changed[i].path,
			.change = x->changed[i].change < CROFT_CHANGE_NUM
					  ? (enum croft_change)x->changed[i].change
					  : CROFT_MODIFIED};
	r->info = (struct croft_receipt_info){.id = x->id,
		.event = x->event,
		.exit = x->exit,
		.signal = x->signal,
		.timed_out = x->timed_out,
		.wall_us = x->wall_us,
		.cpu_us = x->cpu_us,
		.peak_memory_b = x->peak_memory_b,
		.tier = x->tier,
		.policy_digest = x->policy_digest,
		.enforced_digest = x->enforced_digest,
		.limits = {.memory_b = x->limits.memory_b,
			.cpu_milli = x->limits.cpu_milli,
			.pids = x->limits.pids,
			.open_files = x->limits.open_files,
			.file_size_b = x->limits.file_size_b},
		.limits_hit = x->limits_hit ? (const char *const *)x->limits_hit : none,
		.degradations = x->degradations ? (const char *const *)x->degradations : none,
		.denials = r->denials,
		.denials_n = x->denials_n,
		.denials_lost = x->denials_lost,
		.changed = r->changed,
		.changed_n = x->changed_n};
	return 0;
}

int api_receipt_unpack(struct api_receipt *ret, const void *p, size_t n)
{
	struct api_receipt r = {0};
	int rc = session_receipt_unpack(&r.raw, p, n);

	if (rc == 0)
		rc = fill(&r);
	if (rc < 0)
		api_receipt_done(&r);
	else
		*ret = r;
	return rc;
}

void api_receipt_done(struct api_receipt *r)
{
	session_receipt_done(&r->raw);
	free(r->denials);
	free(r->changed);
	*r = (struct api_receipt){0};
}

const struct croft_receipt_info *croft_receipt_info(struct croft_receipt *r)
{
	struct api_receipt *d;

	if (r->data)
		return &r->data->info;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	r->packed = BUF_INIT(RECEIPT_JSON_MAX);
	receipt_pack(&r->receipt, r->receipt.hidden_unknown ? NULL : &r->receipt.hidden, "", &r->packed);
	if (r->packed.failed || api_receipt_unpack(d, r->packed.data, r->packed.len) < 0) {
		free(d);
		buf_done(&r->packed);
		return NULL;
	}
	r->data = d;
	return &d->info;
}

void croft_receipt_free(struct croft_receipt *r)
{
	if (!r)
		return;
	if (r->data)
		api_receipt_done(r->data);
	free(r->data);
	buf_done(&r->packed);
	receipt_done(&r->receipt);
	free(r);
}
