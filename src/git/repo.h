/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The repository around a workspace, and croft's own Git directory beside it.
 *
 * Two Git directories matter. The host's (common_dir) is the user's: croft reads its objects, adds
 * evidence below refs/croft, and otherwise changes it only when something lands. The store is croft's:
 * bare, in the state directory, with no configuration but its object format and the host's objects
 * as alternates; everything that plumbing is run on is run there (program.h), and objects made from
 * what a sandbox wrote stay there until they land: it is the quarantine.
 * A directory that is no repository has a store only.
 */
#ifndef CROFT_GIT_REPO_H
#define CROFT_GIT_REPO_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "git/object.h"
#include "git/oid.h"

#define REPO_SHALLOW_MAX ((size_t)64 << 20) /* the file "shallow" */
#define REF_NAME_MAX 1024u

struct git_run;

struct repo {
	enum git_hash hash;
	char *workspace;        /* top of the working tree, canonical */
	char *store;            /* "$STATE/repos/<16 hex>": GIT_DIR of all plumbing */
	char *stand_in;         /* temporary directory with the store (read-only state); or NULL */
	char *git_dir;          /* the host's; NULL: no repository */
	char *common_dir;       /* differs from git_dir in a linked worktree */
	struct strlist objects; /* the host's object directories, own first, alternates flattened */
	bool shallow, sparse, reftable;
	bool claims_workspace; /* core.worktree names the workspace */
	bool config_varies;    /* the configuration includes files by the branch */
	/* What of the workspace the user's own configuration, of any scope, makes git obey: */
	char *hooks_path; /* relative to the workspace when core.hooksPath lies in it, else NULL */
	struct strlist included; /* files in it that include.path or includeIf names, relative */
	struct strlist config_files; /* every file so named, absolute, there or not */
	struct strlist
		muted; /* "key=value": programs of its own configuration, silenced (mute.h) */
};

/* Finds the repository and makes the store if need be. A damaged one is refused with what to do. */
int repo_open(struct repo *ret, const char *workspace, const char *state_dir, struct err *e);
/*
 * The same without a store, and without what its configuration says: *r needs repo_done()
 * whatever comes back. No git_dir: there is no repository.
 */
int repo_find(struct repo *r, const char *workspace, struct err *e);
void repo_done(struct repo *r);
#define cleanup_repo __attribute__((cleanup(repo_done)))

/* ---- whose directories its metadata names (repo_objects.c) ---- */

/*
 * Is the Git directory the workspace's own? It lies in the workspace, or, with the same owner, it says itself
 * that this is its worktree (as a linked worktree's or a submodule's does). Whoever made the workspace cannot
 * make another repository say so.
 */
bool repo_is_own(const struct repo *r);
/* Add an object directory (canonical) and those that its alternates name, each once. */
int repo_objects_add(struct strlist *l, const char *dir, struct err *e);
/*
 * Does this directory hold objects and packs, and no symlink or special file that git could follow instead?
 * strict: and nothing of another name. deep: every loose object is looked at, too. -EPERM with a sentence.
 */
int repo_objects_look(const char *dir, bool strict, bool deep, struct err *e);
/*
 * A small file of a Git directory: regular, reached through no symlink below dir, never waited for. -EINVAL:
 * it is something else.
 */
int repo_read_file(const char *dir, const char *name, struct buf *ret);
/* Does path lie below dir? By name; both canonical. */
bool repo_below(const char *dir, const char *path);

/* The store's objects. */
int repo_store(const struct repo *r, struct git_store *ret, struct err *e);
/* Where evidence is written: the host's repository when there is one, else the store. */
int repo_ledger_store(const struct repo *r, struct git_store *ret, struct err *e);
const char *repo_ledger_dir(const struct repo *r);

/* Run git as user in the repository of the workspace, and in no other around it: program.h. */
int repo_git(const struct repo *r, struct git_run *run, struct err *e);
/* A commit by any name the user gives; as user. -ENOENT with a sentence. */
int repo_resolve(const struct repo *r, const char *rev, struct oid *ret_commit,
	struct oid *ret_tree, struct err *e);
/* The branch that is checked out ("refs/heads/x"), or NULL when detached or unborn. Caller frees. */
char *repo_branch(const struct repo *r);
/* Copy what a tree or commit reaches from the store into the host's objects, and nothing else. */
int repo_export_objects(const struct repo *r, const struct oid *tip, struct err *e);

/* Whether Git would take this as the full name of a ref. */
bool ref_name_fine(const char *ref);

/* ---- refs of the ledger ---- */

/* -ENOENT: no such ref. */
int ref_read(const struct repo *r, const char *ref, struct oid *ret, struct err *e);
/* Move ref from `from` (none: must not exist) to `to` (none: delete). -EAGAIN when it was moved. */
int ref_move(const struct repo *r, const char *ref, const struct oid *from, const struct oid *to,
	struct err *e);
/* Refs below a prefix such as "refs/croft/env/". */
int ref_list(const struct repo *r, const char *prefix,
	int (*visit)(void *arg, const char *ref, const struct oid *o), void *arg, struct err *e);

#endif
