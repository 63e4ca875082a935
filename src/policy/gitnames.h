/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names of a Git directory committing needs, for grants of the kind write-git.
 *
 * Purpose: a commit makes objects, moves refs, and writes logs, the index and a few messages. Everything
 *          else in a Git directory is configuration, hooks, or leads to other repositories: Git obeys it.
 * Rule:    what is not listed is held. Objects that exist stay as they are, and packs, graphs and
 *          replacements, which could show another content for an existing object, are held.
 */
#ifndef CROFT_POLICY_GITNAMES_H
#define CROFT_POLICY_GITNAMES_H

enum gitname {
	GITNAME_NONE, /* not in such a directory */
	GITNAME_HELD, /* read-only */
	GITNAME_NEW,  /* may be made, and is then as it is */
	GITNAME_OPEN,
};

/* `rest`: the path below the Git directory, "" for itself. Never GITNAME_NONE. */
enum gitname gitname_of(const char *rest);

#endif
