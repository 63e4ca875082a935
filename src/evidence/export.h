/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bundle: everything about one environment in one directory that opens without croft.
 *
 * Content: patch.diff, report.md, report.html, evidence.intoto.jsonl, evidence.bundle, denials.sarif,
 *          receipts/N.json, output/N.txt when asked for, agent-trace.json when asked for, key.pem,
 *          README.txt, MANIFEST (SHA-256 of each).
 * Order:   the evidence is verified -> written under a temporary name beside the directory -> renamed.
 * Failure: the directory is whole or not there. Bad evidence is exported, too, and called bad.
 */
#ifndef CROFT_EVIDENCE_EXPORT_H
#define CROFT_EVIDENCE_EXPORT_H

#include "base/buf.h"
#include "env/env.h"
#include "evidence/evidence.h"
#include "show/report.h"
#include "ledger/chain/story.h"

/* One ledger, with the environment it is of or, in a clone, without. */
struct export_source {
	struct evidence found;
	const struct repo *repo; /* the evidence's */
	struct env env;          /* its record alone: repository and base are not opened */
	bool has_env;
	char id[17];
	struct oid tip;
};
void export_source_done(struct export_source *s);
#define cleanup_export_source __attribute__((cleanup(export_source_done)))
/* what: as evidence_find() takes it. */
int export_source_open(struct export_source *ret, const char *what, struct err *e);
/* The repository around the current directory, with nothing chosen in it. */
int export_source_here(struct export_source *ret, struct err *e);

/* The change: what landed, or what is staged now. */
struct export_change {
	bool landed;
	const char *none; /* why there is none to show; NULL: there is */
	struct oid_hex from, to, commit;
	struct report_file *files;
	size_t files_n;
	struct strlist text; /* owns the paths, and what none says */
};
void export_change_done(struct export_change *c);
#define cleanup_export_change __attribute__((cleanup(export_change_done)))
int export_change(struct export_source *s, const struct story *story, struct export_change *ret,
	struct err *e);
/* As a patch that `git apply` takes. */
int export_patch(const struct repo *r, const struct oid_hex *from, const struct oid_hex *to, int fd,
	struct err *e);

/* A directory that comes to be whole or not at all. */
struct export_dir {
	int parent_fd, fd;
	char temporary[32];
	char *name;
	struct strlist files;
};
#define EXPORT_DIR_INIT                                                                            \
	((struct export_dir){.parent_fd = -1, .fd = -1, .files = STRLIST_INIT(400000)})
/* Removes what was not finished. */
void export_dir_done(struct export_dir *d);
#define cleanup_export_dir __attribute__((cleanup(export_dir_done)))
int export_dir_open(struct export_dir *d, const char *path, struct err *e);
/* A new file in it; the caller closes. */
int export_dir_file(struct export_dir *d, const char *name, struct err *e);
int export_dir_put(struct export_dir *d, const char *name, const void *p, size_t n, struct err *e);
int export_dir_sub(struct export_dir *d, const char *name, struct err *e);
/* Write MANIFEST and give it its name. */
int export_dir_finish(struct export_dir *d, struct err *e);

struct export_request {
	const char *what, *directory;
	bool output, git_ai, agent_trace;
};
/* ret: what was written, for people. */
int export_bundle(const struct export_request *q, struct buf *ret, struct err *e);
/* How to check a bundle without croft. */
void export_readme(const struct ledger_verdict *v, const char *id, bool sha256, struct buf *out);

#endif
