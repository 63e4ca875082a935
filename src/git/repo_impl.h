/* SPDX-License-Identifier: Apache-2.0 */
/* What repo.c, repo_find.c, store.c and the refs know in common. */
#ifndef CROFT_GIT_REPO_IMPL_H
#define CROFT_GIT_REPO_IMPL_H

#include "base/buf.h"
#include "git/program.h"
#include "git/repo.h"

#define REPO_OBJECTS_MAX 64u            /* object directories */
#define REPO_CONFIGS_MAX 256u           /* files that a configuration includes */
#define REPO_FILE_MAX ((size_t)1 << 20) /* any small file of a Git directory */

/* base/path, or path when it is absolute; canonical. NULL: it is not there. Caller frees. */
char *repo_canonical(const char *base, const char *path);

/* Is what git opens in the Git directory, and at the top of the workspace, a regular file each time? */
int repo_check_files(const struct repo *r, struct err *e);

/* Fills hash, sparse, reftable, claims_workspace, hooks_path, included, config_files by asking git. */
int repo_ask_git(struct repo *r, struct err *e);
/* Text that changes whenever the answers of repo_ask_git may. */
int repo_stamp(const struct repo *r, struct buf *ret, struct err *e);
/* The same for config_files, which are known only after asking. */
int repo_stamp_included(const struct repo *r, struct buf *ret, struct err *e);

/*
 * Names and, if it is not there, makes the store; gets what git has to be asked for from its notes or, when
 * these are out of date, from git; brings its alternates up to date.
 */
int store_prepare(struct repo *r, const char *state_dir, struct err *e);
/* Removes a stand-in. */
void store_leave(struct repo *r);

/* From the file of its own only; -ENOENT. */
int ref_read_loose(int dir_fd, const char *ref, struct oid *ret);
/* From packed-refs only; -ENOENT. */
int ref_read_packed(int dir_fd, const char *ref, struct oid *ret);
/* The Git directory that the ledger's refs are in. */
int ref_dir_open(const struct repo *r, struct err *e);

#endif
