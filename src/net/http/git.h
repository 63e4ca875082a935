/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's smart protocol over HTTP, as far as policy asks: which repository, fetch or push, which
 * refs. Pure. A push's command list is the head of the body of POST …/git-receive-pack: pkt-lines
 * until a flush.
 */
#ifndef CROFT_NET_HTTP_GIT_H
#define CROFT_NET_HTTP_GIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define GIT_COMMANDS_MAX_B (256u << 10)
#define GIT_REFS_MAX 1024u
#define GIT_REPO_MAX 512u /* characters of "owner/name" */

/*
 * Is this path one of <repo>/info/refs?service=git-(upload|receive)-pack,
 * <repo>/git-(upload|receive)-pack, or a dumb/LFS path of a repository? repo is "owner/name" (any
 * number of segments) without ".git".
 */
enum git_what {
	GIT_NOT,
	GIT_FETCH,
	GIT_PUSH,
	GIT_OTHER /* LFS, dumb protocol: never allowed in git mode */
};
/*
 * ret_repo is filled for FETCH and PUSH; a name that does not fit in repo_max makes it GIT_OTHER.
 */
enum git_what git_classify(
	const char *method, const char *path, const char *query, char *ret_repo, size_t repo_max);

/*
 * Reads pkt-lines incrementally. 1: the list is complete and in refs; 0: more is needed; -1:
 * malformed.
 */
struct git_commands {
	struct buf head; /* what was read so far, to be forwarded unchanged */
	struct strlist refs;
	bool done;
	size_t at; /* in head: where the current pkt-line begins */
};
void git_commands_init(struct git_commands *g);
void git_commands_done(struct git_commands *g);
/*
 * *ret_used: bytes taken from p, never beyond the flush. A list of nothing (a client that tests its
 * credentials) is complete with no refs. Signed pushes are malformed: their commands are in a
 * certificate.
 */
int git_commands_read(struct git_commands *g, const char *p, size_t n, size_t *ret_used);

#endif
