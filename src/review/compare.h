/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several environments on one task, side by side: size of the change, tests, commands, denials, time; which
 * files more than one of them changed; and whether two of them could land one after the other.
 *
 * A pair conflicts in a file when git's three-way merge of the two contents does, when one deletes what
 * the other changes, when both add different things, or when it cannot be told (binary, another start,
 * too large): said as what it is, never as "clean".
 */
#ifndef CROFT_REVIEW_COMPARE_H
#define CROFT_REVIEW_COMPARE_H

#include "review/diff.h"
#include "review/review_context.h"

#define COMPARE_ENVS_MAX 32u
#define COMPARE_MERGES_MAX 500u
#define COMPARE_BLOB_MAX (16u << 20)
#define COMPARE_NAMES_MAX 20u

struct compare_env {
	char name[ENV_NAME_MAX + 1];
	char *git_dir;
	struct changes changes; /* sorted; refused ones among them */
	size_t files, refused, runs;
	bool counted;
	uint64_t added, deleted;
	struct deeds deeds;
};

/* A path that several changed. */
struct compare_path {
	const char *path;
	uint32_t envs; /* one bit each */
	bool same;     /* all of them end with the same content and mode */
};

struct compare_pair {
	size_t a, b;
	size_t shared, same, merges, conflicts, untried;
	struct strlist names; /* of conflicts, the first COMPARE_NAMES_MAX */
};

struct comparison {
	struct compare_env *envs;
	size_t envs_n;
	struct compare_path *paths;
	size_t paths_n;
	struct compare_pair *pairs;
	size_t pairs_n;
};

int compare_open(struct comparison *ret, const char *const *names, size_t n, struct err *e);
void compare_done(struct comparison *c);
#define cleanup_comparison __attribute__((cleanup(compare_done)))
void compare_text(const struct comparison *c, struct buf *out);
void compare_json(const struct comparison *c, struct buf *out);

/* From envs (changes, git_dir) to paths and pairs; dir is for temporary files. */
int compare_overlap(struct comparison *c, const char *dir, struct err *e);

#endif
