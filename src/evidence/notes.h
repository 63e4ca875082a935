/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other tools read: Git AI's notes (refs/notes/ai, authorship/3.0.0) and Agent Trace records (v0.1).
 *
 * Both say which lines of a commit an agent wrote. croft knows which lines landed from an environment:
 * every line that a landed commit added or changed is the agent's, or "mixed" where a reviewer edited.
 */
#ifndef CROFT_EVIDENCE_NOTES_H
#define CROFT_EVIDENCE_NOTES_H

#include "base/buf.h"
#include "git/repo.h"
#include "ledger/chain/story.h"

#define NOTES_FILES_MAX 200000u
#define NOTES_RANGES_MAX 2000000u
#define NOTES_MAX_B (64u << 20)

struct notes_range {
	uint64_t first, last; /* lines, counted from 1 */
};

struct notes_file {
	char *path;
	struct notes_range *ranges;
	size_t ranges_n, ranges_cap;
	bool mixed; /* a reviewer edited it */
};

struct notes {
	struct notes_file *files;
	size_t files_n;
	struct oid commit;
	char author[256];        /* "Name <mail>" of the commit */
	struct strlist left_out; /* paths that a format cannot hold */
};
void notes_done(struct notes *n);
#define cleanup_notes __attribute__((cleanup(notes_done)))

/* The lines that a landed commit added, and whose they are. */
int notes_read(struct notes *ret, const struct repo *r, const struct story *s,
	const struct story_landing *l, struct err *e);
/* `diff-tree -U0` text against the list of files it is about; for tests, too. */
int notes_parse(struct notes *n, const char *patch, size_t len, const bool *twice, struct err *e);

/* Agent Trace: one record. */
void notes_agent_trace(const struct notes *n, const struct story *s, const struct story_landing *l,
	const char *version, struct buf *out);
/* Git AI: a note's text, merged into `old` (NULL: there is none). 1: old has it already. */
int notes_git_ai(struct notes *n, const struct story *s, const struct story_landing *l,
	const char *old, struct buf *out, struct err *e);
/* Put it below refs/notes/ai of the user's repository, as the user. 1: it was there already. */
int notes_git_ai_write(struct notes *n, const struct repo *r, const struct story *s,
	const struct story_landing *l, struct err *e);

#endif
