/* SPDX-License-Identifier: Apache-2.0 */
/* What story.c and story_session.c share. */
#ifndef CROFT_LEDGER_CHAIN_STORY_IMPL_H
#define CROFT_LEDGER_CHAIN_STORY_IMPL_H

#include "ledger/chain/story.h"

/* Room for one more of n, or NULL. */
void *story_grow(void *v, size_t n, size_t *cap, size_t max, size_t size);
struct story_command *story_new_command(struct story *s);
int story_receipt(struct story *s, struct story_command *c, const struct jnode *receipt);

/* What is known of the session while its events are read, one after the other. */
struct story_sessions {
	const char *id, *tier, *policy; /* of the one that has not ended; NULL: none */
	const struct jnode *degradations;
	size_t *running, *ended; /* commands: that have not ended; that ended since the last tree */
	size_t running_n, running_cap, ended_n, ended_cap;
	const char *tree; /* as it was last looked at; NULL: it may have changed since */
};
void story_sessions_done(struct story_sessions *x);
#define cleanup_story_sessions __attribute__((cleanup(story_sessions_done)))
/* EVENT_SESSION: entry i of the story. */
int story_session(struct story_sessions *x, struct story *s, size_t i);
/* Every event, after it was taken in. */
void story_seen(struct story_sessions *x, const struct story *s, const struct ledger_entry *e);

#endif
