/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A landing and where its environment comes from: see gate.h.
 *
 * A fork takes over what was done in another environment, so that one's events up to the fork are judged with
 * its own. Its first event, signed, names the newest event there; a ledger that does not have it was cut
 * off, is another one, or is not here: what is not known counts against the commit.
 */
#include <string.h>

#include "base/cleanup.h"
#include "evidence/gate.h"

/* The number of the event with that envelope; 0: there is none. */
static uint64_t find_event(const struct story *s, const char *envelope)
{
	for (size_t i = 0; envelope && i < s->entries_n; i++)
		if (str_eq(s->entries[i].envelope.hex, envelope))
			return s->entries[i].seq;
	return 0;
}

static bool can_tell(const struct gate_env *v)
{
	return v->verdict.good && !v->foreign;
}

static void missing_origin(const struct story *s, bool here, struct gate_problems *ret)
{
	cleanup_buf struct buf shown = BUF_INIT(256);

	str_show(&shown, s->parent, strnlen(s->parent, 32));
	if (!here)
		gate_problem(ret, GATE_NO_EVIDENCE,
			"it was forked from the environment %s, whose evidence is not here; push "
			"and fetch it, too",
			buf_str(&shown));
	else
		gate_problem(ret, GATE_NO_EVIDENCE,
			"the evidence of %s, which it was forked from, does not have the event "
			"that it was forked at",
			buf_str(&shown));
}

void gate_judge_landing(const struct gate *g, const struct gate_index *x,
	const struct gate_from *from, const char *today, struct gate_problems *ret)
{
	struct gate_facts f[GATE_FORKS_MAX];
	const struct gate_env *v = &x->envs[from->env];
	uint64_t seq = from->seq;

	for (size_t n = 0;; n++) {
		const struct gate_env *o;

		if (n == GATE_FORKS_MAX) {
			gate_problem(ret, GATE_NO_EVIDENCE,
				"it was forked more than %u times in a row", GATE_FORKS_MAX);
			break;
		}
		f[n] = (struct gate_facts){.verdict = &v->verdict,
			.story = &v->story,
			.landed_seq = seq,
			.today = today};
		if (n)
			f[n - 1].origin = &f[n];
		if (!can_tell(v) || !v->story.parent)
			break;
		o = gate_index_env(x, v->story.parent);
		seq = o ? find_event(&o->story, v->story.parent_event) : 0;
		if (!o || (!seq && can_tell(o))) {
			missing_origin(&v->story, o != NULL, ret);
			break;
		}
		v = o;
	}
	gate_judge(g, f, ret);
}
