/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the git program for what it does best: reading packs, merging, showing differences.
 *
 * Trust:  git executes what its configuration says. So it runs either
 *         clean   on a Git directory that croft made (git_dir), with an environment built from nothing:
 *                 no system, global or repository configuration of anybody, no attributes, no hooks,
 *                 no pager, no prompts, no replace refs, no lazy fetch, C locale; or
 *         as user in the user's own repository (git_dir NULL, chdir to `dir`), with the user's own
 *                 configuration and environment, for what is the user's: identity, signing, status,
 *                 push. Never on a directory that a sandbox can write; optional locks off; hooks off;
 *                 programs that the repository's own configuration names off (`muted`, see mute.h), so
 *                 repo_git() is the way to ask for it; no replace refs and no grafts, so that both ways
 *                 see one history. Whether the owner of the repository is trusted is git's own
 *                 decision (safe.directory).
 * Limits: output is collected up to out->max (-EFBIG beyond) or goes to out_fd; standard error is kept
 *         for the message, at most 2 KiB, made printable.
 */
#ifndef CROFT_GIT_PROGRAM_H
#define CROFT_GIT_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Enough to compare files of DIFF_SHOW_MAX_B; a file that came or went is held by git as a whole. */
#define GIT_SHOW_DATA_MAX_B ((uint64_t)256 << 20)
#define GIT_PATCH_DATA_MAX_B ((uint64_t)1 << 30)

struct git_run {
	const char *const *argv; /* after "git"; NULL-terminated */
	const char *git_dir;     /* clean; NULL: as user */
	const char *dir;         /* where it starts; NULL: git_dir, or "/" */
	const char *const *env;  /* further "K=V", NULL-terminated, or NULL */
	const void *in;          /* standard input from memory … */
	size_t in_n;
	int in_fd; /* … or from here when > 0; else /dev/null */
	struct buf *out;
	int out_fd;          /* when out is NULL and > 0; else /dev/null */
	uint64_t data_max_b; /* most memory of its own, for what a sandbox made; 0: any */
	bool any_status;     /* a status other than 0 is not a failure */
	bool hooks; /* as user: let core.hooksPath be what it is, for a question that runs none */
	/* As user: settings of a repository that are overridden; NULL only where dir is "/". */
	const struct strlist *muted;
	bool interactive; /* as user: keep the terminal (a signing key may ask) */
	/* results */
	int status; /* exit status, 128+n for signal n */
};

int git_run(struct git_run *r, struct err *e);
/* Is there a git, and which (major*100+minor)? Looked up once; -ENOENT with a sentence when not. */
int git_version(struct err *e);

#endif
