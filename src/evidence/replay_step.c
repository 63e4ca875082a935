/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What else happened to an environment besides commands, done again: see replay.h.
 *
 * Snapshots, restores and discards are new lists of layers (env_state.c), so doing them again in order gives
 * every later command the state that it began with. Landings, reviews and recoveries change the user's
 * checkout and not what is staged: nothing is to be done for them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "evidence/replay.h"

static int discard_again(struct env *v, const struct ledger_entry *x, struct err *e)
{
	const char *outcome = jstr(jget(x->predicate, "outcome"));

	if (outcome && str_eq(outcome, "brought back"))
		return env_undo_layers(v, e);
	return env_drop_layers(v, e);
}

int replay_step(struct env *v, const struct ledger_entry *x, struct err *e)
{
	const char *label = jstr(jget(x->predicate, "label"));
	int r = 0;

	if (x->kind == EVENT_SNAPSHOT)
		r = label ? env_snapshot(v, label, e) : -EBADMSG;
	else if (x->kind == EVENT_RESTORED)
		r = label ? env_restore(v, label, e) : -EBADMSG;
	else if (x->kind == EVENT_DISCARDED)
		r = discard_again(v, x, e);
	if (r == -EBADMSG)
		return err_set(e, EBADMSG, "event %" PRIu64 " does not say which snapshot", x->seq);
	return r < 0 ? err_wrap(e, "do event %" PRIu64 " again", x->seq) : 0;
}

int replay_forked(struct env *v, struct err *e)
{
	int r;

	for (size_t i = 0; i < v->snapshots_n; i++)
		strlist_done(&v->snapshots[i].layers);
	v->snapshots_n = 0;
	strlist_done(&v->undo);
	v->undo_time[0] = '\0';
	v->state = ENV_OPEN;
	r = env_push_layer(v, e);
	return r < 0 ? r : env_save(v, e);
}

int replay_origin(struct story *ret, uint64_t *ret_last, const struct repo *repo,
	const struct story *s, struct err *e)
{
	cleanup_story struct story from = {0};
	struct ledger_verdict verdict;
	struct ledger_tip tip;
	int r;

	if (!str_hex(s->parent, 1, 64))
		return err_set(
			e, EBADMSG, "the first event names no environment that it was forked from");
	r = ledger_tip(&tip, repo, s->parent, e);
	if (r == 0 && tip.seq == 0)
		return err_refuse(e,
			"it was forked from the environment %s, whose evidence is not here; fetch "
			"that, too",
			s->parent);
	if (r == 0)
		r = ledger_verify(repo, &tip.commit, NULL, &verdict, e);
	if (r < 0)
		return r;
	if (!verdict.good)
		return err_refuse(e,
			"the evidence of %s, which it was forked from, is not good (event %" PRIu64
			": %s); nothing was run",
			s->parent, verdict.bad_seq, verdict.why);
	r = story_read(&from, repo, &tip.commit, 0, e);
	for (size_t i = 0; r == 0 && i < from.entries_n; i++) {
		if (!s->parent_event || !str_eq(from.entries[i].envelope.hex, s->parent_event))
			continue;
		*ret_last = from.entries[i].seq;
		*ret = from;
		from = (struct story){0};
		return 0;
	}
	return r < 0 ? r
		     : err_refuse(e,
			       "the evidence of %s does not have the event that it was forked at",
			       s->parent);
}
