/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which object directories of a repository a command may read.
 *
 * Purpose: a repository's metadata (alternates, a .git file, commondir, submodules, symlinks) names
 *          directories, and whoever made the workspace may have written it. Such a directory is bound into
 *          an environment, or its objects are checked out there, only if one of these holds:
 *          - it lies in the workspace, or the policy lets the command read it;
 *          - it belongs to the workspace's own repository (repo_is_own());
 *          - it belongs to a repository for which one of these holds already (submodules of a reference);
 *          - the user approved it for this workspace: croft policy trust --objects DIR.
 *          Nothing that a rule denies (floor, profile, user) is ever given, approved or not.
 * Failure: refused, with the command that approves it. One that lies in the workspace and is denied there
 *          is left out instead: git inside finds nothing, as was asked for.
 */
#ifndef CROFT_SESSION_CONFIG_OBJECTS_H
#define CROFT_SESSION_CONFIG_OBJECTS_H

#include "base/err.h"
#include "base/str.h"
#include "git/repo.h"
#include "policy/policy.h"

struct objects_check {
	const struct policy *policy;
	const struct repo *repo;
	const char *state_dir;
	bool deep;    /* before anything is checked out: every loose object is looked at */
	bool granted; /* the policy was made to read them: only denies around them count */
};

/*
 * left_out (one for each of dirs, or NULL): those that are denied in the workspace. With NULL they are
 * passed over.
 */
int objects_check(
	const struct objects_check *c, const struct strlist *dirs, bool *left_out, struct err *e);

/* Record, or forget, the user's approval of a directory for the workspace around the current directory. */
int objects_trust(const char *dir, bool revoke, struct buf *out, struct err *e);

#endif
