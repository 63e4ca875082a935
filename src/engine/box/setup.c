/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executing the plan: the private root.
 *
 * Trust:   runs as the sandbox's first process inside its own user, mount and pid namespaces: a
 *          mistake here has no privilege on the host. Host paths may be swapped by others while we
 *          work, so each source is opened once, without following any symlink, and must be the
 *          object the plan saw.
 * Order:   identity -> private mounts -> one tmpfs that becomes "/" -> plan operations in order (begun
 *          early: those that every plan begins with, then, once it is handed over, the rest) ->
 *          "/" read-only -> pivot -> hostname -> network namespace (made meanwhile by a thread; what
 *          remains of its set-up, and detaching the old root, ends in namespace_settle(), before READY).
 * Scratch: /tmp, HOME, /run and /dev/shm are directories of the one tmpfs, shown again as writable
 *          mounts of their own below a read-only root: one size limit holds for all of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/plan/decoys.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/fuse.h"
#include "os/mount.h"
#include "os/path.h"

#define SCRATCH_INODES "1000000"
#define SCRATCH_DEFAULT_B (4ull << 30)

/* The next name of a path that was cut after the last: false when it is whole again. */
static bool lengthen(char *path, size_t whole)
{
	size_t n = strlen(path);

	if (n < whole)
		path[n] = '/';
	return n < whole;
}

/*
 * Make the parent directories of dst in the private root. Existing ones (binds too) are left alone. Most
 * often only the last is missing, so it is tried first.
 */
int setup_make_parents(struct setup *s, const char *dst, struct err *e)
{
	char path[POLICY_PATH_MAX], *slash;
	size_t whole;

	if (snprintf(path, sizeof(path), "%s", setup_rel(dst)) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "%s", dst);
	if (!(slash = strrchr(path, '/')))
		return 0;
	*slash = '\0';
	whole = strlen(path);
	while (mkdirat(s->root, path, 0755) < 0 && errno != EEXIST) {
		slash = strrchr(path, '/');
		if (errno != ENOENT || !slash)
			return err_set(e, errno, "make /%s in the private root", path);
		*slash = '\0';
	}
	while (lengthen(path, whole))
		if (mkdirat(s->root, path, 0755) < 0 && errno != EEXIST)
			return err_set(e, errno, "make /%s in the private root", path);
	return 0;
}

static int make_node(struct setup *s, const char *dst, bool is_dir)
{
	return is_dir ? mkdirat(s->root, setup_rel(dst), 0755)
		      : mknodat(s->root, setup_rel(dst), S_IFREG | 0444, 0);
}

/*
 * Put a mount at dst. In our own tmpfs the place is made first; nested in a host tree it must be
 * there already (nothing is ever created in the user's files) and is reached without following a
 * symlink.
 */
int setup_attach(struct setup *s, int mount_fd, const struct plan_op *op, struct err *e)
{
	int r;

	if (op->nested) {
		cleanup_fd int target = path_open(
			s->root, setup_rel(op->dst), O_PATH, PATH_NO_SYMLINKS | PATH_BENEATH);

		if (target == -ENOENT || target == -ELOOP)
			return err_refuse(
				e, "%s changed while the sandbox was being set up", op->dst);
		if (target < 0)
			return err_set(e, -target, "open %s", op->dst);
		r = mount_attach(mount_fd, target, "", e);
	} else {
		r = make_node(s, op->dst, op->is_dir);
		if (r < 0 && errno == ENOENT) {
			if (setup_make_parents(s, op->dst, e) < 0)
				return -e->errnum;
			r = make_node(s, op->dst, op->is_dir);
		}
		if (r < 0 && errno != EEXIST)
			return err_set(e, errno, "make %s in the private root", op->dst);
		r = mount_attach(mount_fd, s->root, setup_rel(op->dst), e);
	}
	if (r < 0)
		return err_wrap(e, "%s", op->dst);
	s->in->enforced.mounts++;
	return 0;
}

/* The source as the plan saw it, or nothing; oflags: O_PATH, or how it is read. */
int setup_open_source(const struct plan_op *op, int oflags, struct err *e)
{
	cleanup_fd int fd = path_open(AT_FDCWD, op->src, oflags, PATH_NO_SYMLINKS);
	struct stat st;

	if (fd < 0) {
		err_set(e, -fd, "open %s", op->src);
		if (fd == -ELOOP)
			err_refuse(e, "%s changed while the sandbox was being set up", op->src);
		return -e->errnum;
	}
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at %s", op->src);
	if (st.st_dev != op->dev || st.st_ino != op->ino)
		return err_refuse(e, "%s changed while the sandbox was being set up", op->src);
	return take_fd(&fd);
}

static int do_bind(struct setup *s, const struct plan_op *op, unsigned flags, struct err *e)
{
	cleanup_fd int src = setup_open_source(op, O_PATH, e);
	cleanup_fd int m = -1;

	if (src < 0)
		return src;
	if (mount_clone(src, flags, &m, e) < 0)
		return err_wrap(e, "%s", op->src);
	return setup_attach(s, m, op, e);
}

/* A device can be used through a read-only mount; its mode, owner and times cannot be changed. */
static int do_device(struct setup *s, const struct plan_op *op, struct err *e)
{
	return do_bind(s, op, MOUNT_RO | MOUNT_NOEXEC, e);
}

static int write_file(struct setup *s, const char *dst, const void *p, size_t n, struct err *e)
{
	cleanup_fd int fd = -1;
	int r;

	fd = openat(s->root, setup_rel(dst), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		0444);
	if (fd < 0 && errno == ENOENT) {
		if (setup_make_parents(s, dst, e) < 0)
			return -e->errnum;
		fd = openat(s->root, setup_rel(dst),
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	}
	if (fd < 0)
		return err_set(e, errno, "make %s in the private root", dst);
	r = fd_write_all(fd, p, n);
	return r < 0 ? err_set(e, -r, "write %s in the private root", dst) : 0;
}

/* A file that cannot be read (no permission) is not there for the command either. */
static int do_copy(struct setup *s, const struct plan_op *op, struct err *e)
{
	cleanup_fd int src = path_open(AT_FDCWD, op->src, O_RDONLY, PATH_NO_SYMLINKS);
	char bytes[NS_COPY_MAX];
	struct stat st;
	ssize_t n;

	if (src == -EACCES || src == -ENOENT)
		return 0;
	if (src < 0 || fstat(src, &st) < 0 || st.st_dev != op->dev || st.st_ino != op->ino ||
		(n = read(src, bytes, sizeof(bytes))) < 0)
		return err_refuse(e, "%s changed while the sandbox was being set up", op->src);
	return write_file(s, op->dst, bytes, (size_t)n, e);
}

static int do_scratch(struct setup *s, const struct plan_op *op, struct err *e)
{
	cleanup_fd int dir = -1, m = -1;
	int r;

	r = mkdirat(s->root, setup_rel(op->dst), op->mode);
	if (r < 0 && errno == ENOENT) {
		if (setup_make_parents(s, op->dst, e) < 0)
			return -e->errnum;
		r = mkdirat(s->root, setup_rel(op->dst), op->mode);
	}
	if (r < 0 && errno != EEXIST)
		return err_set(e, errno, "make %s in the private root", op->dst);
	dir = openat(s->root, setup_rel(op->dst), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "open %s in the private root", op->dst);
	if (r < 0 && fchmodat(s->root, setup_rel(op->dst), op->mode, 0) <
			     0) /* made as another's parent */
		return err_set(e, errno, "set mode of %s", op->dst);
	if (mount_clone(dir, MOUNT_NODEV, &m, e) < 0 || mount_attach(m, dir, "", e) < 0)
		return err_wrap(e, "%s", op->dst);
	s->in->enforced.mounts++;
	return 0;
}

int setup_symlink(struct setup *s, const char *target, const char *dst, struct err *e)
{
	int r = symlinkat(target, s->root, setup_rel(dst));

	if (r < 0 && errno == ENOENT) {
		if (setup_make_parents(s, dst, e) < 0)
			return -e->errnum;
		r = symlinkat(target, s->root, setup_rel(dst));
	}
	if (r < 0 && errno != EEXIST)
		return err_set(e, errno, "link %s in the private root", dst);
	return 0;
}

static int do_new(struct setup *s, const struct plan_op *op, const char *fstype,
	const char *const *opts, unsigned flags, struct err *e)
{
	struct plan_op at = {.dst = op->dst, .is_dir = true};
	cleanup_fd int m = -1;

	if (mount_new(fstype, opts, flags, &m, e) < 0)
		return -e->errnum;
	return setup_attach(s, m, &at, e);
}

static int do_proc(struct setup *s, const struct plan_op *op, struct err *e)
{
	/* Read-only: nothing below it, /proc/sys least of all, is for the command to change. */
	int r = do_new(s, op, "proc", NULL, MOUNT_RO | MOUNT_NODEV | MOUNT_NOEXEC, e);

	if (r == -EPERM)
		return err_no_boundary(e, "a fresh /proc is not permitted here (an outer container "
					  "masks parts of its own); use --tier process, or run the "
					  "container with an unmasked /proc");
	return r;
}

/*
 * The workspace below a throw-away upper layer. Layers are named by descriptor, so no character of
 * any path can be taken for mount syntax. The upper tmpfs is attached only while the overlay is
 * made; afterwards only the overlay and the supervisor's descriptor keep it.
 */
static int do_overlay(struct setup *s, const struct plan_op *op, const char *size, struct err *e)
{
	const char *tmpfs[] = {size, "nr_inodes=" SCRATCH_INODES, "mode=0700", NULL};
	char lower[64], upper[64], work[64];
	const char *opts[] = {lower, upper, work, "userxattr", NULL};
	cleanup_fd int src = setup_open_source(op, O_PATH, e);
	cleanup_fd int layer = -1, up = -1, wk = -1, m = -1, at = -1;
	char own[64];
	struct plan_op own_op = {.dst = own, .is_dir = true};

	if (src < 0)
		return src;
	snprintf(own, sizeof(own), "%s/upper%u", NS_OWN_DIR, s->in->enforced.mounts);
	if (mount_new("tmpfs", tmpfs, MOUNT_NODEV, &layer, e) < 0 ||
		setup_attach(s, layer, &own_op, e) < 0)
		return -e->errnum;
	if (mkdirat(layer, "upper", 0755) < 0 || mkdirat(layer, "work", 0755) < 0)
		return err_set(e, errno, "make overlay layers");
	up = openat(layer, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	wk = openat(layer, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (up < 0 || wk < 0)
		return err_set(e, errno, "open overlay layers");
	snprintf(lower, sizeof(lower), "lowerdir=/proc/self/fd/%d", src);
	snprintf(upper, sizeof(upper), "upperdir=/proc/self/fd/%d", up);
	snprintf(work, sizeof(work), "workdir=/proc/self/fd/%d", wk);
	if (mount_new("overlay", opts, MOUNT_NODEV, &m, e) < 0)
		return err_wrap(e, "--discard needs an overlay of %s", op->src);
	if (setup_attach(s, m, op, e) < 0)
		return -e->errnum;
	at = openat(s->root, setup_rel(own), O_PATH | O_CLOEXEC);
	snprintf(own, sizeof(own), "/proc/self/fd/%d", at);
	if (at < 0 || umount2(own, MNT_DETACH) < 0)
		return err_set(e, errno, "detach overlay layers");
	if (str_eq(op->dst, s->in->request->workspace))
		s->in->fd[SANDBOX_FD_UPPER] = take_fd(&up);
	return 0;
}

/* What masks are mounts of: an object of ours with no permission at all, made once for each kind. */
static int mask_source(struct setup *s, const struct plan_op *op, struct err *e)
{
	char own[64];
	int fd;

	if (!op->holds && s->mask_of[op->is_dir] >= 0)
		return s->mask_of[op->is_dir];
	snprintf(own, sizeof(own), NS_OWN_DIR "/denied%s%s%.0zu", op->is_dir ? ".d" : "",
		op->holds ? "." : "", op->holds ? s->open_masks_n + 1 : 0);
	if (setup_make_parents(s, own, e) < 0)
		return -e->errnum;
	if ((op->is_dir ? mkdirat(s->root, setup_rel(own), op->holds ? 0111 : 0)
			: mknodat(s->root, setup_rel(own), S_IFREG, 0)) < 0 &&
		errno != EEXIST)
		return err_set(e, errno, "make mask");
	fd = openat(s->root, setup_rel(own), O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open mask");
	if (!op->holds)
		s->mask_of[op->is_dir] = fd;
	return fd;
}

/*
 * Cannot be opened or changed: a read-only mount of such an object. A directory below which something is
 * granted can be passed through, but not listed; it becomes read-only when the places below it have been
 * made.
 */
int setup_mask(struct setup *s, const struct plan_op *op, struct err *e)
{
	cleanup_fd int m = -1;
	int r = setup_told_mask(s, op, e), src;

	if (r != 0)
		return MIN_OF(r, 0);
	if (op->holds && s->open_masks_n == OPEN_MASKS_MAX)
		return err_refuse(
			e, "more than %d denied directories hold granted paths", OPEN_MASKS_MAX);
	if ((src = mask_source(s, op, e)) < 0)
		return src;
	r = mount_clone(src, (op->holds ? 0 : MOUNT_RO) | MOUNT_NODEV | MOUNT_NOEXEC, &m, e);
	if (op->holds)
		close(src);
	if (r < 0)
		return err_wrap(e, "mask %s", op->dst);
	if (setup_attach(s, m, op, e) < 0)
		return -e->errnum;
	if (op->holds)
		s->open_masks[s->open_masks_n++] = take_fd(&m);
	return 0;
}

static int close_masks(struct setup *s, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < s->open_masks_n; i++) {
		if (r == 0)
			r = mount_restrict(
				s->open_masks[i], MOUNT_RO | MOUNT_NODEV | MOUNT_NOEXEC, e);
		close(s->open_masks[i]);
	}
	return r;
}

/* What the supervisor serves: one mount, of which nothing may be touched before READY. */
int setup_served(struct setup *s, struct err *e)
{
	char dir[] = NS_DECOY_DIR;
	struct plan_op at = {.dst = dir, .is_dir = true};
	cleanup_fd int m = -1;

	if (s->served == SERVED_UNTRIED) {
		s->served = SERVED_NOT;
		if (setup_net_served(&s->in->fd[SANDBOX_FD_DECOY], &m) == 0) {
			if (setup_attach(s, m, &at, e) < 0)
				return -e->errnum;
			s->served = SERVED;
		} else if (make_node(s, NS_OWN_DIR, true) < 0 && errno != EEXIST) {
			return err_set(e, errno, "make " NS_OWN_DIR); /* a Landlock rule names it */
		}
	}
	return s->served == SERVED;
}

/* Each well-known path is a symlink to its slot. */
static int do_decoy(struct setup *s, const struct plan_op *op, struct err *e)
{
	int r = setup_served(s, e);
	char slot[64];

	if (r < 0)
		return r;
	if (r == 0)
		return setup_trap(s, op, e);
	s->in->enforced.decoys = 1;
	snprintf(slot, sizeof(slot), "%s/%d", NS_DECOY_DIR, decoy_slot_of(&s->slots, op));
	return setup_symlink(s, slot, op->dst, e);
}

static int do_op(struct setup *s, const struct plan_op *op, const char *size, struct err *e)
{
	static const char *const devpts[] = {"newinstance", "ptmxmode=0666", "mode=0620", NULL};

	switch (op->kind) {
	case PLAN_SCRATCH:
		return do_scratch(s, op, e);
	case PLAN_DIR:
		if (setup_make_parents(s, op->dst, e) < 0)
			return -e->errnum;
		if (mkdirat(s->root, setup_rel(op->dst), op->mode) < 0 && errno != EEXIST)
			return err_set(e, errno, "make %s in the private root", op->dst);
		return 0;
	case PLAN_BIND:
		if (op->staged)
			return setup_staged_bind(s, op, e);
		return do_bind(s, op,
			MOUNT_NODEV | MOUNT_RECURSIVE | (op->access == ACCESS_WRITE ? 0 : MOUNT_RO),
			e);
	case PLAN_DEVICE:
		return do_device(s, op, e);
	case PLAN_COPY:
		return do_copy(s, op, e);
	case PLAN_FILE:
		return write_file(s, op->dst, op->src, strlen(op->src), e);
	case PLAN_SYMLINK:
		return setup_symlink(s, op->src, op->dst, e);
	case PLAN_PROC:
		return do_proc(s, op, e);
	case PLAN_DEVPTS:
		return do_new(s, op, "devpts", devpts, MOUNT_NOEXEC, e);
	case PLAN_OVERLAY:
		return op->layers ? setup_staged(s, op, e) : do_overlay(s, op, size, e);
	case PLAN_MASK:
		return op->staged ? setup_staged_mask(s, op, e) : setup_mask(s, op, e);
	case PLAN_DECOY:
		return do_decoy(s, op, e);
	case PLAN_TRUST:
		return setup_trust(s, op, e);
	case PLAN_CAPTURE:  /* by the thread that makes the network namespace */
	case PLAN_LANDLOCK: /* executed at lock-down, by path inside the new root */
	case PLAN_OP_NUM:
	default:
		return 0;
	}
}

static int do_ops(struct setup *s, size_t *done, const char *size, struct err *e)
{
	int r = 0;

	for (; r == 0 && *done < s->in->plan->n; ++*done)
		r = do_op(s, &s->in->plan->ops[*done], size, e);
	return r;
}

static int make_root(struct setup *s, const char *size, struct err *e)
{
	const char *opts[] = {size, "nr_inodes=" SCRATCH_INODES, "mode=0755", NULL};

	s->old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->old_root < 0)
		return err_set(e, errno, "open /");
	if (mount_new("tmpfs", opts, MOUNT_NODEV, &s->root, e) < 0)
		return -e->errnum;
	/*
	 * On top of the old root: our own lookups still start below it, so host paths keep working.
	 */
	return mount_attach(s->root, s->old_root, "", e);
}

/*
 * The command's terminal is a pty of the host's devpts, which the private one does not show. It
 * stands at /dev/console, where programs that look for its name (ttyname) find it.
 */
static int show_terminal(struct setup *s, struct err *e)
{
	char console[] = "/dev/console";
	struct plan_op op = {.kind = PLAN_DEVICE, .dst = console};
	char path[64];
	struct stat st;

	if (!s->in->request->tty || fstat(s->in->request->tty_fd, &st) < 0)
		return 0;
	snprintf(path, sizeof(path), "/dev/pts/%u", minor(st.st_rdev));
	op.src = path;
	op.dev = st.st_dev;
	op.ino = st.st_ino;
	if (access(path, F_OK) < 0)
		return 0; /* another devpts mount holds it: the command can do without a name */
	return do_device(s, &op, e);
}

int namespace_setup(struct init *in, struct err *e)
{
	struct setup s = {.in = in,
		.root = -1,
		.old_root = -1,
		.java = -1,
		.traps = -1,
		.mask_of = {-1, -1},
		.serve_pipe = {-1, -1}};
	uint64_t disk = in->plan->policy->limits.disk_b;
	mode_t old_umask = umask(0);
	size_t done = 0;
	char size[40];
	int r;

	snprintf(size, sizeof(size), "size=%llu",
		(unsigned long long)(disk == LIMIT_NONE ? SCRATCH_DEFAULT_B : disk));
	if (mount_make_private(e) < 0) {
		char why[256];

		snprintf(why, sizeof(why), "%.255s", e->msg);
		return err_no_boundary(e,
			"mounts are not permitted in a user namespace here (%s); use --tier "
			"process, or see croft doctor",
			why);
	}
	/* Overlays first: while their thread waits for the disk, the other one has the processor. */
	if (in->expected && (r = setup_staging_begin(&s, in->expected, e)) < 0)
		return r;
	if ((r = setup_net_begin(in, in->plan->policy->observe != OBSERVE_OFF, e)) == 0)
		r = make_root(&s, size, e);
	if (r == 0 && in->waits && (r = do_ops(&s, &done, size, e)) == 0)
		r = init_await_plan(in, e);
	decoy_slots(&s.slots, in->plan);
	if (r == 0 && (r = setup_staging_settle(&s, e)) == 0)
		r = do_ops(&s, &done, size, e);
	setup_staging_end(&s);
	setup_serve_end(&s);
	close_fd(&s.mask_of[false]);
	close_fd(&s.mask_of[true]);
	if (r < 0)
		return r;
	if ((r = close_masks(&s, e)) < 0 || (r = setup_close_views(&s, e)) < 0 ||
		(r = show_terminal(&s, e)) < 0 ||
		(r = mount_restrict(s.root, MOUNT_RO | MOUNT_NODEV, e)) < 0 ||
		(r = mount_become_root(s.root, e)) < 0 ||
		(r = setup_net_detach(take_fd(&s.old_root), e)) < 0)
		return r;
	close(s.root);
	umask(old_umask);
	if (sethostname(NS_HOSTNAME, strlen(NS_HOSTNAME)) < 0)
		return err_set(e, errno, "set hostname");
	return setup_net_enter(in, e);
}
