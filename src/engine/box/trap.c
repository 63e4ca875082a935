/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoys without FUSE.
 *
 * A well-known path becomes a symlink to a trap, and a trap is a symlink into a shut directory. The
 * kernel notes in a symlink when it was followed, whether or not what lies behind it could be opened,
 * and the supervisor looks at these times when the command has ended. Nothing waits for anybody, and
 * nothing is added to any call.
 * Order:  times are kept only on a mount that is not read-only, so the traps have one of their own; what
 *         they lead to is on the read-only root. A time of its own (TRAP_ARMED_S) marks a fresh trap: the
 *         kernel's clock is too coarse to tell "made" from "followed a moment later".
 * Trust:  Landlock grants no change below here. The command owns the symlinks, so it can set their times:
 *         it can hide its attempt from the receipt, and gains nothing else.
 * Limits: how often, by whom, and whether to read or to write, is not known. A name in a directory is known
 *         only if it is in the list; of others it is known that the directory was looked at or passed
 *         through. Start-up files read as empty, which is no attempt; writing them is refused, and told
 *         only where calls are watched (observe: writes).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/plan/decoys.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/forced.h"
#include "os/mount.h"

static int arm(
	struct setup *s, const char *dir, const char *suffix, const char *name, struct err *e)
{
	static const struct timespec armed[2] = {
		{.tv_sec = TRAP_ARMED_S}, {.tv_sec = TRAP_ARMED_S}};
	char target[sizeof(TRAP_SHUT_DIR) + TRAP_NAME_MAX + sizeof(".d")];

	snprintf(target, sizeof(target), "%s/%s%s", dir, name, suffix);
	if (symlinkat(target, s->traps, name) < 0 ||
		utimensat(s->traps, name, armed, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, errno, "make trap %s", name);
	return 0;
}

static int make_dir(struct setup *s, const char *dst, mode_t mode, struct err *e)
{
	if (mkdirat(s->root, setup_rel(dst), mode) < 0 && errno != EEXIST)
		return err_set(e, errno, "make %s", dst);
	return 0;
}

/* Their mount, and what they lead to. */
static int begin(struct setup *s, struct err *e)
{
	cleanup_fd int dir = -1, m = -1;

	/* Traps are not for listing: who shows where each of them leads would follow all of them. */
	if (make_dir(s, NS_OWN_DIR, 0755, e) < 0 || make_dir(s, TRAP_DIR, 0111, e) < 0 ||
		make_dir(s, TRAP_EMPTY_DIR, 0111, e) < 0 || make_dir(s, TRAP_SHUT_DIR, 0, e) < 0)
		return -e->errnum;
	dir = openat(s->root, setup_rel(TRAP_DIR), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "open " TRAP_DIR);
	if (mount_clone(dir, MOUNT_NODEV | MOUNT_NOEXEC, &m, e) < 0 ||
		mount_attach(m, dir, "", e) < 0)
		return err_wrap(e, TRAP_DIR);
	s->in->enforced.mounts++;
	s->in->enforced.traps = 1;
	s->traps = s->in->fd[SANDBOX_FD_TRAP] = take_fd(&m);
	return 0;
}

/* A directory that can be passed through, not listed, with a trap for each name worth knowing. */
static int make_tree(struct setup *s, size_t slot, const char *const *names, struct err *e)
{
	char path[TRAP_NAME_MAX];

	snprintf(path, sizeof(path), "%zu.d", slot);
	if (mkdirat(s->traps, path, 0111) <
		0) /* set-up may write in it: it still has the capability */
		return err_set(e, errno, "make trap %s", path);
	for (; names && *names; names++) {
		trap_name(path, slot, *names);
		if (arm(s, TRAP_SHUT_DIR, "", path, e) < 0)
			return -e->errnum;
	}
	trap_name(path, slot, NULL);
	return arm(s, TRAP_DIR, ".d", path, e);
}

int setup_trap(struct setup *s, const struct plan_op *op, struct err *e)
{
	const struct decoy_path *d = &decoy_paths[op->mode];
	size_t slot = (size_t)decoy_slot_of(&s->slots, op);
	char name[TRAP_NAME_MAX], target[sizeof(TRAP_EMPTY_DIR) + TRAP_NAME_MAX];

	if (s->traps < 0 && begin(s, e) < 0)
		return -e->errnum;
	trap_name(name, slot, NULL);
	if (d->kind == DECOY_STARTUP) {
		snprintf(target, sizeof(target), TRAP_EMPTY_DIR "/%s", name);
		if (mknodat(s->root, setup_rel(target), S_IFREG | 0444, 0) < 0)
			return err_set(e, errno, "make %s", target);
		return setup_symlink(s, target, op->dst, e);
	}
	if ((d->kind == DECOY_DIR ? make_tree(s, slot, d->names, e)
				  : arm(s, TRAP_SHUT_DIR, "", name, e)) < 0)
		return -e->errnum;
	snprintf(target, sizeof(target), TRAP_DIR "/%s", name);
	return setup_symlink(s, target, op->dst, e);
}

/*
 * Over a file: a symlink can be mounted there (tests/platform/mount_symlink.c). Over a directory: one with
 * traps for the names of the list, if it has any, and if nobody may write around it, since what keeps
 * times can also be written.
 */
int setup_trap_mask(struct setup *s, const struct plan_op *op, size_t slot, struct err *e)
{
	const struct policy *pol = s->in->plan->policy;
	cleanup_fd int src = -1, m = -1;
	char name[TRAP_NAME_MAX];
	struct err why = ERR_INIT;

	if (s->traps < 0 && begin(s, e) < 0)
		return -e->errnum;
	if (op->is_dir ? !s->slots.names[slot] || setup_in_writable(pol, op->dst)
		       : forced_fail("symlink_mount"))
		return 0;
	if ((op->is_dir ? make_tree(s, slot, s->slots.names[slot], e)
			: (trap_name(name, slot, NULL), arm(s, TRAP_SHUT_DIR, "", name, e))) < 0)
		return -e->errnum;
	snprintf(name, sizeof(name), "%zu%s", slot, op->is_dir ? ".d" : "");
	src = openat(s->traps, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (src < 0)
		return err_set(e, errno, "open trap %s", name);
	if (mount_clone(src, MOUNT_NODEV | MOUNT_NOEXEC, &m, &why) < 0 ||
		setup_attach(s, m, op, &why) < 0) {
		if (why.kind != ERR_REFUSED)
			return 0; /* a kernel that mounts no symlink: the plain mask holds */
		*e = why;
		return -e->errnum;
	}
	return 1;
}
