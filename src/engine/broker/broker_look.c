/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at calls by path without judging them.
 *
 * Where mounts hold every name and the broker is there for metadata alone, it also stands in for the
 * observer, since a filter has one listener. What it tells is evidence: the kernel reads the path
 * again and decides.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "engine/broker/broker_impl.h"
#include "engine/plan/decoys.h"

#define TRAP_TARGET_MAX (sizeof(TRAP_EMPTY_DIR) + TRAP_NAME_MAX)

/*
 * Behind a trap every change is refused, and writing to a start-up file follows one. The symlink itself
 * is the command's to remove. Returns what the supervisor knows the trap by, or NULL.
 */
static const char *trapped(const struct spot *slot, enum notice_op op, char buf[TRAP_TARGET_MAX])
{
	ssize_t n;

	if (judge_own(slot->name))
		return slot->name;
	n = op == NOTICE_WRITE ? readlinkat(slot->parent, slot->last, buf, TRAP_TARGET_MAX - 1) : -1;
	if (n < 0)
		return NULL;
	buf[n] = '\0';
	return judge_own(buf) ? buf : NULL;
}

/* What the call attempts on path i. */
static void look_at_change(struct work *w, int i, enum notice_op op)
{
	cleanup_spot struct spot slot = SPOT_INIT;
	char target[TRAP_TARGET_MAX];
	const char *trap;
	struct stat st;
	bool exists;
	int r = fetch_path(w, i);

	if (r == 0)
		r = spot_slot(w, w->c.dfd[i], w->path[i], &slot);
	/* In a directory that is not there inside: what was meant is told by how it is spelled. */
	if ((r == -ENOENT || r == -ENOTDIR || r == -EACCES) && w->path[i][0] == '/' &&
		!judge_write_name(w, w->path[i]))
		tell(w, op, true, false, w->path[i]);
	if (r < 0)
		return;
	exists = fstatat(slot.parent, slot.last, &st, AT_SYMLINK_NOFOLLOW) == 0;
	trap = trapped(&slot, op, target);
	tell(w, op, trap || !judge_write_name(w, slot.name), exists, trap ? trap : slot.name);
}

static void look_at_read(struct work *w, enum notice_op op)
{
	cleanup_spot struct spot p = SPOT_INIT;
	int r = fetch_path(w, 0);

	if (r == 0)
		r = spot_object(w, w->c.dfd[0], w->path[0],
			w->c.at_flags & AT_EMPTY_PATH ? SPOT_EMPTY_OK : 0, &p);
	if (r < 0) {
		if (w->path[0][0] == '/' && !judge_scratch(w, w->path[0]) &&
			policy_access(w->b->policy, w->path[0], NULL) == ACCESS_DENY)
			tell(w, op, true, false, w->path[0]);
		return;
	}
	tell(w, op, !judge_read(w, &p), true, p.name);
}

int64_t broker_look(struct work *w)
{
	w->pass = true;
	switch (w->c.kind) {
	case PATHCALL_OPEN:
		if (pathcall_writes(w->c.oflags))
			look_at_change(w, 0,
				(w->c.oflags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)
					? NOTICE_CREATE
					: NOTICE_WRITE);
		else if (w->b->observe_reads && !(w->c.oflags & O_PATH))
			look_at_read(w, NOTICE_READ);
		break;
	case PATHCALL_EXEC:
		if (w->b->observe_reads)
			look_at_read(w, NOTICE_EXEC);
		break;
	case PATHCALL_TRUNCATE:
		look_at_change(w, 0, NOTICE_WRITE);
		break;
	case PATHCALL_MKDIR:
	case PATHCALL_MKNOD:
		look_at_change(w, 0, NOTICE_CREATE);
		break;
	case PATHCALL_SYMLINK:
	case PATHCALL_LINK:
		look_at_change(w, 1, NOTICE_CREATE);
		break;
	case PATHCALL_UNLINK:
		look_at_change(w, 0, NOTICE_DELETE);
		break;
	case PATHCALL_RENAME:
		look_at_change(w, 0, NOTICE_DELETE);
		look_at_change(w, 1, NOTICE_RENAME);
		break;
	default:
		break;
	}
	return 0;
}
