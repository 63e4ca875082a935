/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened during one command: denials, and files touched in the workspace.
 *
 * Trust:  notices carry text chosen by the sandbox. Everything is bounded: a flood is counted, not
 *         stored; repeated attempts on one path are one denial with a count.
 */
#ifndef CROFT_SESSION_RUN_RECORD_H
#define CROFT_SESSION_RUN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "engine/notice.h"
#include "policy/policy.h"

#define RECORD_DENIALS_MAX 256
#define RECORD_FILES_MAX 8192
/* Bytes of their paths in all: as JSON they grow up to sixfold, and must still fit into a statement. */
#define RECORD_DENIALS_MAX_B (96u << 10)
#define RECORD_FILES_MAX_B (1u << 20)

struct denial {
	char *path;
	enum notice_op op;
	enum notice_source source;
	uint64_t count;
	bool shared; /* in a session: by this command, or by another that lived at that time */
	const struct policy_rule *rule; /* NULL: no rule covers the path */
};

enum file_change { FILE_CREATED, FILE_MODIFIED, FILE_DELETED, FILE_CHANGE_NUM };
extern const char *const file_change_names[FILE_CHANGE_NUM];

struct file_touched {
	char *path;
	bool existed;
	enum file_change change; /* after record_settle() */
};

struct record {
	const struct policy *policy;
	const char *workspace;
	struct denial *denials;
	size_t denials_n, denials_b;
	uint64_t denials_lost; /* distinct denials beyond the maximum */
	struct file_touched *files;
	size_t files_n, files_cap, files_b;
	uint32_t *index; /* open addressing over files, power of two */
	size_t index_cap;
	bool files_full;
	/* Sees every notice as it comes, for policy learn; NULL: nobody. */
	void (*tap)(void *arg, const struct notice *n);
	void *tap_arg;
};

int record_init(struct record *r, const struct policy *p, const char *workspace);
void record_done(struct record *r);
void record_notice(struct record *r, const struct notice *n);
/* A denial that may be another command's: those of a session share one sandbox. */
void record_shared_denial(struct record *r, const struct notice *n);
/* Was something denied at this path, or below it, too? */
bool record_has_denial(const struct record *r, const char *path, bool below);
/* Touched files are known better from elsewhere. */
void record_forget_files(struct record *r);
/* A change found by looking (overlay upper layer). */
void record_change(struct record *r, const char *path, enum file_change c);
/* After the command: compare what was touched with what is there; drop what came and went. */
void record_settle(struct record *r);
/* The option or rule that would have allowed a denial. */
void denial_fix(const struct denial *d, struct buf *out);
/* Does the fix name a path that is not there? A rule for it is refused until it is. */
bool denial_fix_waits(const char *path, const char *fix);
void denial_rule(const struct denial *d, struct buf *out);
/*
 * `more` adds denials that are not about files, numbered from `first`; NULL: there are none.
 * `more_lost`: those of them beyond their maximum.
 */
void record_denials_json(const struct record *r, struct json *j, const char *run_id,
	void (*more)(const void *arg, struct json *j, const char *run_id, size_t first),
	const void *arg, uint64_t more_lost);
/* Members of the object "files". */
void record_files_json(const struct record *r, struct json *j);

#endif
