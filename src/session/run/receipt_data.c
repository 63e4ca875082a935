/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts as data: see receipt_data.h. */
#include "session/run/receipt_data.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "croft.h"
#include "ipc/session_receipt.h"

#define TEXTS_MAX 65536u
#define TEXT_MAX_B (1u << 20)

static_assert((int)CROFT_ATTEMPT_READ == NOTICE_READ && (int)CROFT_ATTEMPT_LOOK == NOTICE_LOOK &&
		      (int)CROFT_ATTEMPT_WRITE == NOTICE_WRITE &&
		      (int)CROFT_ATTEMPT_CREATE == NOTICE_CREATE &&
		      (int)CROFT_ATTEMPT_DELETE == NOTICE_DELETE &&
		      (int)CROFT_ATTEMPT_RENAME == NOTICE_RENAME &&
		      (int)CROFT_ATTEMPT_META == NOTICE_META &&
		      (int)CROFT_ATTEMPT_EXEC == NOTICE_EXEC &&
		      (int)CROFT_ATTEMPT_CONNECT == NOTICE_CONNECT &&
		      (int)CROFT_ATTEMPT_NUM == NOTICE_OP_NUM,
	"an attempt is the same number for callers");
static_assert((int)CROFT_CREATED == FILE_CREATED && (int)CROFT_MODIFIED == FILE_MODIFIED &&
		      (int)CROFT_DELETED == FILE_DELETED && (int)CROFT_CHANGE_NUM == FILE_CHANGE_NUM,
	"and a change");
static_assert(RECORD_DENIALS_MAX + NETWORK_DENIALS_MAX <= SESSION_DENIALS_MAX &&
		      RECORD_FILES_MAX <= SESSION_CHANGED_MAX,
	"what is recorded can be told");

/* The strings of one receipt, as they may be told. */
struct texts {
	struct redact *hidden;
	struct strlist kept;
};

static const char *text(struct texts *t, const char *s)
{
	cleanup_buf struct buf b = BUF_INIT(TEXT_MAX_B);

	if (!s || !s[0])
		return "";
	redact_field(t->hidden, s, strlen(s), &b);
	return !b.failed && strlist_add(&t->kept, buf_str(&b)) ? t->kept.v[t->kept.n - 1]
							       : "[lost]";
}

static char **list(struct texts *t, const struct strlist *from)
{
	char **v = calloc(from->n + 1, sizeof(*v));

	for (size_t i = 0; v && i < from->n; i++)
		v[i] = (char *)(uintptr_t)text(t, from->v[i]);
	return v;
}

static struct session_denial of_denial(struct texts *t, const struct denial *d)
{
	cleanup_buf struct buf rule = BUF_INIT(TEXT_MAX_B), fix = BUF_INIT(TEXT_MAX_B);

	if (d->rule)
		denial_rule(d, &rule);
	if (d->op != NOTICE_CONNECT && !(d->rule && d->rule->origin.layer == LAYER_FLOOR))
		denial_fix(d, &fix);
	return (struct session_denial){.attempt = d->op,
		.count = d->count,
		.target = text(t, d->path),
		.rule = text(t, buf_str(&rule)),
		.fix = text(t, buf_str(&fix))};
}

static struct session_denial of_network(struct texts *t, const struct network_denial *d)
{
	return (struct session_denial){.attempt = NOTICE_CONNECT,
		.count = d->count,
		.port = d->port,
		.target = text(t, d->host),
		.method = text(t, d->method),
		.path = text(t, d->path),
		.rule = text(t, d->rule),
		.fix = text(t, d->fix)};
}

static void add_lists(const struct receipt *r, struct texts *t, struct session_receipt *x)
{
	size_t denials = r->record.denials_n + r->network.denials_n;

	x->limits_hit = list(t, &r->limits_hit);
	x->degradations = list(t, &r->degradations);
	x->denials_lost = r->record.denials_lost + r->network.denials_lost;
	x->denials = denials ? calloc(denials, sizeof(*x->denials)) : NULL;
	for (size_t i = 0; x->denials && i < r->record.denials_n; i++)
		x->denials[x->denials_n++] = of_denial(t, &r->record.denials[i]);
	for (size_t i = 0; x->denials && i < r->network.denials_n; i++)
		x->denials[x->denials_n++] = of_network(t, &r->network.denials[i]);
	x->changed = r->record.files_n ? calloc(r->record.files_n, sizeof(*x->changed)) : NULL;
	for (size_t i = 0; x->changed && i < r->record.files_n; i++)
		x->changed[x->changed_n++] =
			(struct session_changed){.change = r->record.files[i].change,
				.path = text(t, r->record.files[i].path)};
}

static uint64_t or_zero(uint64_t limit)
{
	return limit == LIMIT_NONE ? 0 : limit;
}

void receipt_pack(const struct receipt *r, struct redact *hidden, const char *event, struct buf *out)
{
	struct texts t = {.hidden = hidden, .kept = STRLIST_INIT(TEXTS_MAX)};
	struct session_receipt x = {.id = r->id,
		.event = event,
		.tier = r->tier,
		.policy_digest = r->policy_digest.hex,
		.enforced_digest = r->enforced_digest.hex,
		.exit = r->exit_code,
		.signal = r->exit_signal,
		.timed_out = r->outcome.timed_out,
		.wall_us = r->wall_us,
		.cpu_us = r->cpu_us,
		.peak_memory_b = r->peak_memory_b,
		.limits = {.memory_b = or_zero(r->limits.memory_b),
			.cpu_milli = or_zero(r->limits.cpu_milli),
			.pids = or_zero(r->limits.pids),
			.open_files = or_zero(r->limits.open_files),
			.file_size_b = or_zero(r->limits.file_size_b)}};

	if (hidden)
		add_lists(r, &t, &x);
	session_receipt_pack(out, &x);
	session_receipt_done(&x);
	strlist_done(&t.kept);
}

void receipt_pack_denial(const struct denial *d, struct redact *hidden, struct buf *out)
{
	struct texts t = {.hidden = hidden, .kept = STRLIST_INIT(TEXTS_MAX)};
	struct session_denial x = of_denial(&t, d);

	session_denial_pack(out, &x);
	strlist_done(&t.kept);
}

void receipt_pack_network_denial(
	const struct network_denial *d, struct redact *hidden, struct buf *out)
{
	struct texts t = {.hidden = hidden, .kept = STRLIST_INIT(TEXTS_MAX)};
	struct session_denial x = of_network(&t, d);

	session_denial_pack(out, &x);
	strlist_done(&t.kept);
}
