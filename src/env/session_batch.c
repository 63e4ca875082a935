/* SPDX-License-Identifier: Apache-2.0 */
/* Records that will be one event, and sets of processes: see session_journal_impl.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "env/session_journal_impl.h"
#include "os/clock.h"

/* ---- sets of processes ---- */

bool sranges_add(struct sranges *r, uint32_t process)
{
	struct srange *last = r->n ? &r->v[r->n - 1] : NULL;
	size_t want = r->cap ? r->cap * 2 : 16;

	if (last && process >= last->first && process <= last->last)
		return true;
	if (last && process == last->last + 1) {
		last->last++;
		return true;
	}
	if (last && r->n >= SESSION_RANGES_MAX) {
		last->first = MIN_OF(last->first, process);
		last->last = MAX_OF(last->last, process);
		r->coarse = true;
		return true;
	}
	if (r->n == r->cap) {
		struct srange *more = reallocarray(r->v, want, sizeof(*more));

		if (!more)
			return false;
		r->v = more;
		r->cap = want;
	}
	r->v[r->n++] = (struct srange){process, process};
	return true;
}

bool sranges_join(struct sranges *to, const struct sranges *from)
{
	bool good = true;

	for (size_t i = 0; good && i < from->n; i++) {
		good = sranges_add(to, from->v[i].first);
		if (good && to->v[to->n - 1].last < from->v[i].last)
			to->v[to->n - 1].last = from->v[i].last;
	}
	to->coarse |= from->coarse;
	return good;
}

void sranges_done(struct sranges *r)
{
	free(r->v);
	*r = (struct sranges){0};
}

void sranges_json(const struct sranges *r, struct json *j, const char *key)
{
	json_array(j, key);
	for (size_t i = 0; i < r->n; i++) {
		json_array(j, NULL);
		json_uint(j, NULL, r->v[i].first);
		json_uint(j, NULL, r->v[i].last);
		json_end(j);
	}
	json_end(j);
}

/* ---- batches ---- */

void sbatch_free(struct sbatch *b)
{
	if (!b)
		return;
	buf_done(&b->entries);
	buf_done(&b->receipts);
	buf_done(&b->outputs);
	buf_done(&b->network);
	buf_done(&b->seal);
	free(b);
}

static size_t batch_b(const struct sbatch *b)
{
	return b->entries.len + b->receipts.len + b->outputs.len + b->network.len;
}

static bool takes(const struct sjournal *j, const struct sbatch *b, size_t entry_b,
	size_t receipt_b, size_t output_b)
{
	/* What is being sealed is the thread's: not even to be looked at. */
	return b && !(j->busy && b == j->job.batch) && !b->seal.len && !b->end &&
	       b->entries_n < SJOURNAL_BATCH_MAX &&
	       b->entries.len + entry_b <= SJOURNAL_ENTRIES_MAX_B &&
	       (!b->receipts.len || b->receipts.len + receipt_b <= SJOURNAL_FILE_MAX_B) &&
	       (!b->outputs.len || b->outputs.len + output_b <= SJOURNAL_FILE_MAX_B);
}

struct sbatch *sbatch_room(struct sjournal *j, size_t entry_b, size_t receipt_b, size_t output_b)
{
	struct sbatch *b;

	if (takes(j, j->last, entry_b, receipt_b, output_b))
		return j->last;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->no = j->batch_next++;
	b->begin = b->no == 1;
	b->first_ms = clock_ms();
	b->entries = b->receipts = b->outputs = b->network = b->seal = BUF_INIT(SESSION_TEXT_MAX_B);
	if (!j->first) {
		/* Nobody else has appended since: whoever does calls sjournal_flush() before. */
		if (!j->busy)
			j->tip_seq = j->env->tip.seq;
		j->first = b;
	} else {
		j->last->next = b;
	}
	j->last = b;
	return b;
}

uint64_t sbatch_waiting_b(const struct sjournal *j)
{
	uint64_t all = 0;

	for (const struct sbatch *b = j->first; b; b = b->next)
		all += batch_b(b);
	return all;
}

struct sjournal_ref sbatch_ref(const struct sjournal *j, const struct sbatch *b)
{
	return (struct sjournal_ref){.event = j->tip_seq + 1 + (b->no - j->first->no),
		.batch = b->no,
		.entry = b->entries_n};
}
