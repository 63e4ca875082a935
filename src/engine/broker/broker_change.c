/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making, removing, renaming and linking names on behalf of the caller.
 *
 * Every call works on a held directory and one name in it; "." and ".." as last names are passed to
 * the kernel, which refuses them in its own words without doing anything.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/broker/broker_impl.h"
#include "os/tree.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1u << 0)
#define RENAME_EXCHANGE (1u << 1)
#endif

/* The caller's path i as a slot in which something new is to appear, judged. */
static int64_t slot_to_make(struct work *w, int i, bool dir, struct spot *slot)
{
	int64_t r = fetch_path(w, i);

	if (r == 0)
		r = spot_slot(w, w->c.dfd[i], w->path[i], slot);
	if (r < 0)
		return r;
	if (!judge_make(w, slot, dir))
		return deny_make(w, slot);
	return 0;
}

/* With the caller's umask, because the kernel would use ours (and none under a default ACL). */
static int64_t take_umask(struct work *w)
{
	int r = target_status(w);

	if (r < 0)
		return r;
	umask(w->umask);
	return target_alive(w) ? 0 : -ESRCH;
}

static int64_t made(struct work *w, int r, const struct spot *slot)
{
	if (r < 0)
		return -errno;
	tell(w, NOTICE_CREATE, false, false, slot->name);
	return 0;
}

int64_t broker_mkdir(struct work *w)
{
	cleanup_spot struct spot slot = SPOT_INIT;
	int64_t r = slot_to_make(w, 0, true, &slot);

	if (r < 0 || (r = take_umask(w)) < 0)
		return r;
	return made(w, mkdirat(slot.parent, slot.last, w->c.mode & 01777), &slot);
}

int64_t broker_mknod(struct work *w)
{
	cleanup_spot struct spot slot = SPOT_INIT;
	mode_t type = w->c.mode & S_IFMT;
	int64_t r;

	if (type != 0 && type != S_IFREG && type != S_IFIFO && type != S_IFSOCK)
		return -EPERM;
	r = slot_to_make(w, 0, false, &slot);
	if (r < 0)
		return r;
	if (judge_git_odd(w, slot.name, type ? type : S_IFREG))
		return deny_make(w, &slot);
	if (w->c.mode & (S_ISUID | S_ISGID))
		return deny_setid(w, NOTICE_CREATE, false, slot.name);
	if ((r = take_umask(w)) < 0)
		return r;
	return made(w,
		mknodat(slot.parent, slot.last, (type ? type : S_IFREG) | (w->c.mode & 01777), 0),
		&slot);
}

int64_t broker_symlink(struct work *w)
{
	cleanup_spot struct spot slot = SPOT_INIT;
	int64_t r = fetch_path(w, 0);

	if (r < 0)
		return r;
	if (!w->path[0][0])
		return -ENOENT;
	r = slot_to_make(w, 1, false, &slot);
	if (r < 0)
		return r;
	if (judge_git_odd(w, slot.name, S_IFLNK))
		return deny_make(w, &slot);
	if (!target_alive(w))
		return -ESRCH;
	return made(w, symlinkat(w->path[0], slot.parent, slot.last), &slot);
}

/* A file without a name (O_TMPFILE, or removed) may get one if it is of a writable directory. */
static bool judge_link_source(const struct work *w, const struct spot *p)
{
	static const char gone[] = " (deleted)";
	struct spot plain;
	size_t n = strlen(p->name);

	if (p->st.st_nlink > 0 || n < sizeof(gone) ||
		strcmp(p->name + n - (sizeof(gone) - 1), gone) != 0)
		return judge_write_name(w, p->name);
	plain = *p;
	plain.name[n - (sizeof(gone) - 1)] = '\0';
	return judge_write_name(w, plain.name);
}

int64_t broker_link(struct work *w)
{
	cleanup_spot struct spot from = SPOT_INIT, to = SPOT_INIT;
	unsigned how = 0;
	char no[16];
	int64_t r = fetch_path(w, 0);

	if (r < 0)
		return r;
	if (w->c.at_flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (!(w->c.at_flags & AT_SYMLINK_FOLLOW))
		how |= SPOT_NOFOLLOW;
	if (w->c.at_flags & AT_EMPTY_PATH)
		how |= SPOT_EMPTY_OK;
	r = spot_object(w, w->c.dfd[0], w->path[0], how, &from);
	if (r < 0)
		return r;
	r = slot_to_make(w, 1, false, &to);
	if (r < 0)
		return r;
	/* A second name carries the inode out of its rule: only what may be written gets one. */
	if (!judge_link_source(w, &from))
		return deny(w, NOTICE_CREATE, true, from.name);
	if (judge_git_odd(w, to.name, from.st.st_mode))
		return deny_make(w, &to);
	if (!target_alive(w))
		return -ESRCH;
	return made(w,
		linkat(w->self_fd, fd_name(from.fd, no), to.parent, to.last, AT_SYMLINK_FOLLOW),
		&to);
}

static bool has_entries(const struct spot *slot)
{
	cleanup_dir DIR *d = dir_list(slot->parent, slot->last);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			return true;
	return false;
}

/*
 * Denied: what is not there is ENOENT and no news. Git tries to remove its directories up to the top to see
 * which are empty: in one that is granted for committing this is no news, either. Elsewhere nobody is told
 * whether something is in there.
 */
static int deny_remove(struct work *w, enum notice_op op, const struct spot *slot)
{
	struct stat st;

	if (fstatat(slot->parent, slot->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (op == NOTICE_DELETE && w->c.at_flags & AT_REMOVEDIR && S_ISDIR(st.st_mode) &&
		judge_git(w, slot->name) && has_entries(slot))
		return -ENOTEMPTY;
	return deny(w, op, true, slot->name);
}

int64_t broker_unlink(struct work *w)
{
	cleanup_spot struct spot slot = SPOT_INIT;
	int64_t r = fetch_path(w, 0);

	if (r == 0 && w->c.at_flags & ~AT_REMOVEDIR)
		r = -EINVAL;
	if (r == 0)
		r = spot_slot(w, w->c.dfd[0], w->path[0], &slot);
	if (r < 0)
		return r;
	if (!judge_remove(w, &slot))
		return deny_remove(w, NOTICE_DELETE, &slot);
	if (!target_alive(w))
		return -ESRCH;
	if (unlinkat(slot.parent, slot.last, w->c.at_flags) < 0)
		return -errno;
	tell(w, NOTICE_DELETE, false, true, slot.name);
	return 0;
}

/* Both names judged by themselves and for what the move does below them. */
static int64_t judge_rename(
	struct work *w, const struct spot *from, const struct spot *to, bool *ret_replaces)
{
	bool exchange = w->c.rename_flags & RENAME_EXCHANGE, dir;
	struct stat a, b;

	if (fstatat(from->parent, from->last, &a, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!judge_remove(w, from))
		return deny(w, NOTICE_RENAME, true, from->name);
	dir = S_ISDIR(a.st_mode);
	*ret_replaces = fstatat(to->parent, to->last, &b, AT_SYMLINK_NOFOLLOW) == 0;
	if (*ret_replaces && w->c.rename_flags & RENAME_NOREPLACE)
		return -EEXIST;
	/* Not even a directory may be moved to a name that leads to what a rule protects. */
	if (*ret_replaces ? !judge_remove(w, to) || (!dir && judge_leads_to_held(w, to->name))
			  : !judge_make(w, to, false))
		return deny(w, NOTICE_RENAME, *ret_replaces, to->name);
	if (judge_git_odd(w, to->name, a.st_mode) ||
		(exchange && *ret_replaces && judge_git_odd(w, from->name, b.st_mode)))
		return deny(w, NOTICE_RENAME, *ret_replaces, to->name);
	dir |= exchange && *ret_replaces && S_ISDIR(b.st_mode);
	return dir && !judge_move_below(w, from, to) ? -EXDEV : 0;
}

int64_t broker_rename(struct work *w)
{
	cleanup_spot struct spot from = SPOT_INIT, to = SPOT_INIT;
	bool replaces = false;
	int64_t r = fetch_path(w, 0);

	if (r == 0)
		r = fetch_path(w, 1);
	if (r == 0 && w->c.rename_flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE))
		r = -EINVAL;
	if (r == 0)
		r = spot_slot(w, w->c.dfd[0], w->path[0], &from);
	if (r == 0)
		r = spot_slot(w, w->c.dfd[1], w->path[1], &to);
	if (r == 0)
		r = judge_rename(w, &from, &to, &replaces);
	if (r < 0)
		return r;
	if (!target_alive(w))
		return -ESRCH;
	/* The plain spelling where it does: some file systems know no flags. */
	if (w->c.rename_flags)
		r = syscall(SYS_renameat2, from.parent, from.last, to.parent, to.last,
			w->c.rename_flags);
	else
		r = renameat(from.parent, from.last, to.parent, to.last);
	if (r < 0)
		return -errno;
	tell(w, NOTICE_DELETE, false, true, from.name);
	tell(w, NOTICE_RENAME, false, replaces, to.name);
	return 0;
}
