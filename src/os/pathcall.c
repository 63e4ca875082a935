/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of file system calls: see pathcall.h. */
#include "os/pathcall.h"

#include <fcntl.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "os/uapi.h"

enum { NONE = -1 };

/*
 * Which argument holds what, by number; NONE where the call has no such argument. `at` is the
 * argument with AT_* flags, `fixed` the flags that the spelling itself implies.
 */
struct shape {
	int nr;
	enum pathcall_kind kind;
	int8_t dfd, path, dfd2, path2, at, a, b; /* a, b: the call's own first and second operand */
	int fixed;
};

#define AT1(d, p) d, p, NONE, NONE
static const struct shape shapes[] = {
	{SYS_openat, PATHCALL_OPEN, AT1(0, 1), NONE, 2, 3, 0},
	{SYS_unlinkat, PATHCALL_UNLINK, AT1(0, 1), 2, NONE, NONE, 0},
	{SYS_mkdirat, PATHCALL_MKDIR, AT1(0, 1), NONE, 2, NONE, 0},
	{SYS_mknodat, PATHCALL_MKNOD, AT1(0, 1), NONE, 2, 3, 0},
	{SYS_symlinkat, PATHCALL_SYMLINK, NONE, 0, 1, 2, NONE, NONE, NONE, 0},
	{SYS_linkat, PATHCALL_LINK, 0, 1, 2, 3, 4, NONE, NONE, 0},
#ifdef SYS_renameat
	{SYS_renameat, PATHCALL_RENAME, 0, 1, 2, 3, NONE, NONE, NONE, 0},
#endif
	{SYS_renameat2, PATHCALL_RENAME, 0, 1, 2, 3, NONE, 4, NONE, 0},
	{SYS_truncate, PATHCALL_TRUNCATE, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_fchmod, PATHCALL_CHMOD, AT1(0, NONE), NONE, 1, NONE, 0},
	{SYS_fchmodat, PATHCALL_CHMOD, AT1(0, 1), NONE, 2, NONE, 0},
	{SYS_fchmodat2, PATHCALL_CHMOD, AT1(0, 1), 3, 2, NONE, 0},
	{SYS_fchown, PATHCALL_CHOWN, AT1(0, NONE), NONE, 1, 2, 0},
	{SYS_fchownat, PATHCALL_CHOWN, AT1(0, 1), 4, 2, 3, 0},
	{SYS_utimensat, PATHCALL_UTIME, AT1(0, 1), 3, 2, NONE, 0},
	{SYS_setxattr, PATHCALL_SETXATTR, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_lsetxattr, PATHCALL_SETXATTR, AT1(NONE, 0), NONE, 1, NONE, AT_SYMLINK_NOFOLLOW},
	{SYS_fsetxattr, PATHCALL_SETXATTR, AT1(0, NONE), NONE, 1, NONE, 0},
	{SYS_setxattrat, PATHCALL_SETXATTR, AT1(0, 1), 2, 3, 4, 0},
	{SYS_removexattr, PATHCALL_REMOVEXATTR, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_lremovexattr, PATHCALL_REMOVEXATTR, AT1(NONE, 0), NONE, 1, NONE, AT_SYMLINK_NOFOLLOW},
	{SYS_fremovexattr, PATHCALL_REMOVEXATTR, AT1(0, NONE), NONE, 1, NONE, 0},
	{SYS_removexattrat, PATHCALL_REMOVEXATTR, AT1(0, 1), 2, 3, NONE, 0},
	{SYS_ioctl, PATHCALL_SETFLAGS, AT1(0, NONE), NONE, 1, 2, 0},
	{SYS_execve, PATHCALL_EXEC, AT1(NONE, 0), NONE, NONE, NONE, 0},
	{SYS_execveat, PATHCALL_EXEC, AT1(0, 1), 4, NONE, NONE, 0},
/* Spellings that only older architectures have. */
#ifdef SYS_open
	{SYS_open, PATHCALL_OPEN, AT1(NONE, 0), NONE, 1, 2, 0},
	{SYS_creat, PATHCALL_OPEN, AT1(NONE, 0), NONE, NONE, 1, O_CREAT | O_WRONLY | O_TRUNC},
	{SYS_unlink, PATHCALL_UNLINK, AT1(NONE, 0), NONE, NONE, NONE, 0},
	{SYS_rmdir, PATHCALL_UNLINK, AT1(NONE, 0), NONE, NONE, NONE, AT_REMOVEDIR},
	{SYS_mkdir, PATHCALL_MKDIR, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_mknod, PATHCALL_MKNOD, AT1(NONE, 0), NONE, 1, 2, 0},
	{SYS_symlink, PATHCALL_SYMLINK, NONE, 0, NONE, 1, NONE, NONE, NONE, 0},
	{SYS_link, PATHCALL_LINK, NONE, 0, NONE, 1, NONE, NONE, NONE, 0},
	{SYS_rename, PATHCALL_RENAME, NONE, 0, NONE, 1, NONE, NONE, NONE, 0},
	{SYS_chmod, PATHCALL_CHMOD, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_chown, PATHCALL_CHOWN, AT1(NONE, 0), NONE, 1, 2, 0},
	{SYS_lchown, PATHCALL_CHOWN, AT1(NONE, 0), NONE, 1, 2, AT_SYMLINK_NOFOLLOW},
	{SYS_utime, PATHCALL_UTIME, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_utimes, PATHCALL_UTIME, AT1(NONE, 0), NONE, 1, NONE, 0},
	{SYS_futimesat, PATHCALL_UTIME, AT1(0, 1), NONE, 2, NONE, 0},
#endif
};
#undef AT1

bool pathcall_writes(int oflags)
{
	if (oflags & O_PATH)
		return false;
	return (oflags & PATHCALL_ACCMODE) != O_RDONLY || (oflags & (O_CREAT | O_TRUNC)) ||
	       (oflags & O_TMPFILE) == O_TMPFILE;
}

static const struct shape *shape_of(int nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (shapes[i].nr == nr)
			return &shapes[i];
	return NULL;
}

static void decode_open(struct pathcall *c, const struct shape *s, const uint64_t *args)
{
	c->oflags = s->a == NONE ? s->fixed : (int)args[s->a];
	c->mode = (mode_t)args[s->b];
	c->at_flags = 0;
}

static void decode_times(struct pathcall *c, const struct shape *s, const uint64_t *args)
{
	c->times = args[s->a];
	c->times_form = TIMES_TIMESPEC;
#ifdef SYS_utime
	if (s->nr == SYS_utime)
		c->times_form = TIMES_UTIMBUF;
	if (s->nr == SYS_utimes || s->nr == SYS_futimesat)
		c->times_form = TIMES_TIMEVAL;
#endif
	/* Both have a spelling without a path that means the descriptor itself. */
	c->by_fd = c->path[0] == 0;
}

static void decode_xattr(struct pathcall *c, const struct shape *s, const uint64_t *args)
{
	c->xattr_name = args[s->a];
	if (s->kind == PATHCALL_REMOVEXATTR)
		return;
	if (s->b != NONE) {
		c->xattr_args = args[s->b];
		c->xattr_size = args[5]; /* of the struct, until it has been copied */
		return;
	}
	c->xattr_value = args[s->a + 1];
	c->xattr_size = args[s->a + 2];
	c->xattr_flags = (int)args[s->a + 3];
}

bool pathcall_decode(struct pathcall *ret, const struct seccomp_data *d)
{
	const struct shape *s = shape_of(d->nr);
	uint64_t args[6];
	struct pathcall c = {.dfd = {AT_FDCWD, AT_FDCWD}};

	if (!s)
		return false;
	for (int i = 0; i < 6; i++)
		args[i] = d->args[i];
	c.kind = s->kind;
	if (s->dfd != NONE)
		c.dfd[0] = (int)args[s->dfd];
	if (s->dfd2 != NONE)
		c.dfd[1] = (int)args[s->dfd2];
	if (s->path != NONE)
		c.path[0] = args[s->path];
	if (s->path2 != NONE)
		c.path[1] = args[s->path2];
	c.by_fd = s->path == NONE;
	c.at_flags = s->fixed | (s->at != NONE ? (int)args[s->at] : 0);
	switch (s->kind) {
	case PATHCALL_OPEN:
		decode_open(&c, s, args);
		break;
	case PATHCALL_TRUNCATE:
		c.length = (int64_t)args[s->a];
		break;
	case PATHCALL_MKDIR:
	case PATHCALL_CHMOD:
		c.mode = (mode_t)args[s->a];
		break;
	case PATHCALL_MKNOD:
		c.mode = (mode_t)args[s->a];
		c.dev = (dev_t)(unsigned)args[s->b];
		break;
	case PATHCALL_RENAME:
		c.rename_flags = s->a != NONE ? (unsigned)args[s->a] : 0;
		break;
	case PATHCALL_CHOWN:
		c.uid = (uid_t)args[s->a];
		c.gid = (gid_t)args[s->b];
		break;
	case PATHCALL_UTIME:
		decode_times(&c, s, args);
		break;
	case PATHCALL_SETXATTR:
	case PATHCALL_REMOVEXATTR:
		decode_xattr(&c, s, args);
		break;
	case PATHCALL_SETFLAGS:
		c.ioctl_cmd = (unsigned)args[s->a];
		c.ioctl_arg = args[s->b];
		break;
	case PATHCALL_SYMLINK:
	case PATHCALL_LINK:
	case PATHCALL_UNLINK:
	case PATHCALL_EXEC:
	case PATHCALL_KIND_NUM:
		break;
	}
	*ret = c;
	return true;
}
