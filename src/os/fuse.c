/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoy filesystem: the kernel's FUSE protocol spoken by hand, because a dozen requests that
 * are nearly all refused need no library, and because it is served inside the supervisor's poll
 * loop.
 *
 * Trust:  the kernel frames each request; names and flags in it come from the sandbox. Bodies are
 *         read only through req_take() and req_name(), which check sizes.
 * State:  none. Node 1 is the root, node i + 2 is slot i, files have numbers from
 *         DECOYFS_FIRST_FILE on; nothing is counted, cached or allocated, so there is nothing that a
 *         flood of requests could fill.
 * Answer: every request that wants an answer gets one at once, in the order of arrival. An unknown
 *         request is ENOSYS, which tells the kernel not to ask again.
 */
#include "os/fuse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/uapi.h"

#define DECOYFS_BLOCK 4096u
#define DECOYFS_MINOR 31u /* the protocol this file speaks, 7.31; every kernel we mount on has it */
#define DECOYFS_FIRST_SLOT 2u /* node id of slot 0 */
#define DECOYFS_FIRST_FILE 65536u
#define DECOYFS_FILE_VALID_S 86400u    /* how long the kernel need not ask again */
#define DECOYFS_READAHEAD (128u << 10) /* of a file; what the kernel asks for at once */
#define DECOYFS_OP_TMPFILE 51u         /* FUSE_TMPFILE, newer than some headers */
#define DECOYFS_OPEN_EXEC 040u         /* the kernel's own flag in FUSE_OPEN for execve() */
#define NO_REPLY 1

/* Large enough for the largest request: setxattr with a value of 64 KiB. One that does not fit is
 * answered by the kernel, and we would not see it. */
#define DECOYFS_REQUEST_MAX (FUSE_MIN_READ_BUFFER + 65536u)

/* FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, of which size and number vary: type and number only. */
#define IOCTL_NR(cmd) ((cmd)&0xffffu)
#define IOCTL_SETFLAGS 0x6602u
#define IOCTL_FSSETXATTR 0x5820u

struct req {
	const struct fuse_in_header *h;
	const unsigned char *body;
	size_t left;
};

struct reply {
	size_t n;
	const void *data; /* of a file; NULL: the answer is in u */
	union {
		struct fuse_init_out init;
		struct fuse_entry_out entry;
		struct fuse_attr_out attr;
		struct fuse_open_out open;
		struct fuse_statfs_out statfs;
	} u;
};

static_assert(sizeof(struct fuse_init_out) == 64, "FUSE_INIT's answer has had one size since 7.23");

/* ---- mounting ---- */

static int config_str(int fs, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
}

static int config_num(int fs, const char *key, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	return config_str(fs, key, text);
}

int decoyfs_mount(int *ret_dev_fd, int *ret_mount_fd, struct err *e)
{
	cleanup_fd int dev = -1, fs = -1, mnt = -1;

	if (forced_fail("fuse"))
		return err_set(e, ENOSYS, "open /dev/fuse (forced)");
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (dev < 0)
		return err_set(e, errno, "open /dev/fuse");
	fs = (int)syscall(SYS_fsopen, "fuse", FSOPEN_CLOEXEC);
	if (fs < 0)
		return err_set(e, errno, "fsopen fuse");
	/* allow_other: whoever is inside this user namespace, whatever ids it has taken on.
	 * Without it the kernel would refuse processes with mixed ids by itself, and we would
	 * not see it. */
	if (config_str(fs, "source", "decoy") < 0 || config_num(fs, "fd", (unsigned)dev) < 0 ||
		config_str(fs, "rootmode", "40000") < 0 ||
		config_num(fs, "user_id", geteuid()) < 0 ||
		config_num(fs, "group_id", getegid()) < 0 ||
		syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "allow_other", NULL, 0) < 0)
		return err_set(e, errno, "configure the decoy filesystem");
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(e, errno, "create the decoy filesystem");
	mnt = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (mnt < 0)
		return err_set(e, errno, "fsmount the decoy filesystem");
	*ret_dev_fd = take_fd(&dev);
	*ret_mount_fd = take_fd(&mnt);
	return 0;
}

/* ---- reading requests ---- */

static const void *req_take(struct req *r, size_t n)
{
	const void *p = r->body;

	if (n > r->left)
		return NULL;
	r->body += n;
	r->left -= n;
	return p;
}

/* The next NUL-terminated name, or NULL when it is not one. */
static const char *req_name(struct req *r)
{
	const unsigned char *end = memchr(r->body, 0, r->left);
	size_t n = end ? (size_t)(end - r->body) : 0;

	if (!end || n == 0 || n > DECOYFS_NAME_MAX)
		return NULL;
	return req_take(r, n + 1);
}

/* ---- slots and files ---- */

static bool node_slot(const struct decoyfs *d, uint64_t node, size_t *ret)
{
	if (node < DECOYFS_FIRST_SLOT || node - DECOYFS_FIRST_SLOT >= d->slots_n)
		return false;
	*ret = (size_t)(node - DECOYFS_FIRST_SLOT);
	return true;
}

/* The slot that this name in the root stands for: decimal, no leading zero. */
static bool name_slot(const struct decoyfs *d, const char *name, size_t *ret)
{
	size_t v = 0;

	if (!name || !*name || (name[0] == '0' && name[1]))
		return false;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return false;
		v = v * 10 + (size_t)(*name - '0');
		if (v >= d->slots_n)
			return false;
	}
	*ret = v;
	return true;
}

static bool node_file(const struct decoyfs *d, uint64_t node, size_t *ret)
{
	if (node < DECOYFS_FIRST_FILE || node - DECOYFS_FIRST_FILE >= d->files_n)
		return false;
	*ret = (size_t)(node - DECOYFS_FIRST_FILE);
	return true;
}

/* The node that this name in the root stands for; 0 when none. */
static uint64_t name_node(const struct decoyfs *d, const char *name)
{
	size_t slot;

	for (size_t i = 0; i < d->files_n; i++)
		if (strcmp(d->files[i], name) == 0)
			return i + DECOYFS_FIRST_FILE;
	return name_slot(d, name, &slot) ? slot + DECOYFS_FIRST_SLOT : 0;
}

static int refuse_slot(
	struct decoyfs *d, const struct req *r, size_t slot, const char *name, enum decoy_op op)
{
	if (d->touched)
		d->touched(d->arg, slot, name, op, (pid_t)r->h->pid);
	return -EACCES;
}

/* Refuse something done to a node itself. */
static int refuse_node(struct decoyfs *d, const struct req *r, uint64_t node, enum decoy_op op)
{
	size_t slot;

	return node_slot(d, node, &slot) ? refuse_slot(d, r, slot, NULL, op) : -EACCES;
}

/* Refuse something done to a name in a directory. */
static int refuse_name(
	struct decoyfs *d, const struct req *r, uint64_t dir, const char *name, enum decoy_op op)
{
	size_t slot;

	if (!name)
		return -EINVAL;
	if (dir == FUSE_ROOT_ID)
		return name_slot(d, name, &slot) ? refuse_slot(d, r, slot, NULL, op) : -EACCES;
	return node_slot(d, dir, &slot) ? refuse_slot(d, r, slot, name, op) : -EACCES;
}

/* Everything belongs to whoever asks: the server does not know the sandbox's ids, the kernel
 * does. */
static int fill_attr(
	const struct decoyfs *d, const struct req *r, uint64_t node, struct fuse_attr *a)
{
	static const mode_t modes[] = {
		[DECOY_DIR] = S_IFDIR | 0700,
		[DECOY_SECRET] = S_IFREG | 0600,
		[DECOY_STARTUP] = S_IFREG | 0644,
	};
	const void *bytes;
	size_t slot, n = 0;

	if (node == FUSE_ROOT_ID)
		a->mode = S_IFDIR | 0555;
	else if (node_slot(d, node, &slot))
		a->mode = modes[d->kinds[slot]];
	else if (!node_file(d, node, &slot))
		return -ESTALE;
	else if (d->content(d->arg, slot, &bytes, &n) < 0)
		return -EIO;
	else
		a->mode = S_IFREG | 0444;
	a->size = n;
	a->blocks = (n + 511) / 512;
	a->ino = node;
	a->nlink = S_ISDIR(a->mode) ? 2 : 1;
	a->uid = r->h->uid;
	a->gid = r->h->gid;
	a->blksize = DECOYFS_BLOCK;
	return 0;
}

/* ---- answers ---- */

static int do_init(struct req *r, struct reply *out)
{
	/* Older and newer kernels send more or less after these members. */
	const struct fuse_init_in *in = req_take(r, offsetof(struct fuse_init_in, flags));

	if (!in || in->major < FUSE_KERNEL_VERSION)
		return -EPROTO;
	out->n = sizeof(out->u.init);
	out->u.init.major = FUSE_KERNEL_VERSION;
	if (in->major > FUSE_KERNEL_VERSION)
		return 0; /* it asks again in our version */
	if (in->minor < 23)
		return -EPROTO;
	out->u.init.minor = MIN_OF(in->minor, DECOYFS_MINOR);
	out->u.init.flags = FUSE_PARALLEL_DIROPS;
	out->u.init.max_readahead = MIN_OF(in->max_readahead, DECOYFS_READAHEAD);
	out->u.init.max_write = DECOYFS_BLOCK;
	out->u.init.time_gran = 1;
	return 0;
}

static int do_lookup(struct decoyfs *d, struct req *r, struct reply *out)
{
	const char *name = req_name(r);
	struct fuse_entry_out *entry = &out->u.entry;

	if (!name)
		return -ENAMETOOLONG;
	if (r->h->nodeid != FUSE_ROOT_ID)
		return refuse_name(d, r, r->h->nodeid, name, DECOY_READ);
	entry->nodeid = name_node(d, name);
	if (!entry->nodeid)
		return -ENOENT;
	out->n = sizeof(*entry);
	if (entry->nodeid >= DECOYFS_FIRST_FILE)
		entry->entry_valid = entry->attr_valid = DECOYFS_FILE_VALID_S;
	return fill_attr(d, r, entry->nodeid, &entry->attr);
}

static int do_getattr(struct decoyfs *d, struct req *r, struct reply *out)
{
	out->n = sizeof(out->u.attr);
	if (r->h->nodeid >= DECOYFS_FIRST_FILE)
		out->u.attr.attr_valid = DECOYFS_FILE_VALID_S;
	return fill_attr(d, r, r->h->nodeid, &out->u.attr.attr);
}

static int do_setattr(struct decoyfs *d, struct req *r)
{
	const struct fuse_setattr_in *in = req_take(r, sizeof(*in));

	if (!in)
		return -EINVAL;
	return refuse_node(d, r, r->h->nodeid, in->valid & FATTR_SIZE ? DECOY_WRITE : DECOY_META);
}

static int do_open(struct decoyfs *d, struct req *r, struct reply *out)
{
	const struct fuse_open_in *in = req_take(r, sizeof(*in));
	enum decoy_op op = DECOY_READ;
	size_t slot;

	if (!in)
		return -EINVAL;
	if ((in->flags & O_ACCMODE) != O_RDONLY || (in->flags & O_TRUNC))
		op = DECOY_WRITE;
	else if (in->flags & DECOYFS_OPEN_EXEC)
		op = DECOY_EXEC;
	if (node_file(d, r->h->nodeid, &slot)) {
		out->n = sizeof(out->u.open);
		out->u.open.open_flags = FOPEN_KEEP_CACHE;
		return op == DECOY_READ ? 0 : op == DECOY_WRITE ? -EROFS : -EACCES;
	}
	if (!node_slot(d, r->h->nodeid, &slot))
		return -EINVAL;
	if (d->kinds[slot] != DECOY_STARTUP || op != DECOY_READ)
		return refuse_slot(d, r, slot, NULL, op);
	out->n = sizeof(out->u.open);
	return 0;
}

/* Slots have nothing in them. */
static int do_read(struct decoyfs *d, struct req *r, struct reply *out)
{
	const struct fuse_read_in *in = req_take(r, sizeof(*in));
	const void *bytes;
	size_t file, n;

	if (!in)
		return -EINVAL;
	if (!node_file(d, r->h->nodeid, &file))
		return 0;
	if (d->content(d->arg, file, &bytes, &n) < 0)
		return -EIO;
	if (in->offset >= n)
		return 0;
	out->data = (const char *)bytes + in->offset;
	out->n = MIN_OF(n - (size_t)in->offset, (size_t)in->size);
	return 0;
}

static int do_opendir(struct decoyfs *d, struct req *r, struct reply *out)
{
	if (r->h->nodeid != FUSE_ROOT_ID)
		return refuse_node(d, r, r->h->nodeid, DECOY_READ);
	out->n = sizeof(out->u.open);
	return 0;
}

/* access() and chdir(): as the open or walk that it asks about would be answered. */
static int do_access(struct decoyfs *d, struct req *r)
{
	const struct fuse_access_in *in = req_take(r, sizeof(*in));
	size_t slot;

	if (!in)
		return -EINVAL;
	if (node_file(d, r->h->nodeid, &slot))
		return in->mask & W_OK ? -EROFS : in->mask & X_OK ? -EACCES : 0;
	if (!node_slot(d, r->h->nodeid, &slot))
		return in->mask & W_OK ? -EACCES : 0;
	if (in->mask & W_OK)
		return refuse_slot(d, r, slot, NULL, DECOY_WRITE);
	if (d->kinds[slot] == DECOY_DIR && (in->mask & (R_OK | X_OK)))
		return refuse_slot(d, r, slot, NULL, DECOY_READ);
	if (d->kinds[slot] == DECOY_SECRET && (in->mask & R_OK))
		return refuse_slot(d, r, slot, NULL, DECOY_READ);
	return in->mask & X_OK ? -EACCES : 0; /* no such file is executable anywhere */
}

/* A name in the directory of the request, after `skip` bytes of arguments that do not matter. */
static int do_name(struct decoyfs *d, struct req *r, size_t skip, enum decoy_op op)
{
	if (!req_take(r, skip))
		return -EINVAL;
	return refuse_name(d, r, r->h->nodeid, req_name(r), op);
}

static int do_link(struct decoyfs *d, struct req *r)
{
	const struct fuse_link_in *in = req_take(r, sizeof(*in));

	if (!in)
		return -EINVAL;
	refuse_node(d, r, in->oldnodeid, DECOY_META);
	return refuse_name(d, r, r->h->nodeid, req_name(r), DECOY_CREATE);
}

static int do_rename(struct decoyfs *d, struct req *r, size_t args_n)
{
	const uint64_t *newdir = req_take(r, args_n); /* first member of both forms */
	const char *from = newdir ? req_name(r) : NULL;
	const char *to = from ? req_name(r) : NULL;

	if (!to)
		return -EINVAL;
	refuse_name(d, r, *newdir, to, DECOY_CREATE);
	return refuse_name(d, r, r->h->nodeid, from, DECOY_DELETE);
}

static int do_statfs(struct reply *out)
{
	out->n = sizeof(out->u.statfs);
	out->u.statfs.st.bsize = DECOYFS_BLOCK;
	out->u.statfs.st.frsize = DECOYFS_BLOCK;
	out->u.statfs.st.namelen = 255;
	return 0;
}

static int do_ioctl(struct decoyfs *d, struct req *r)
{
	const struct fuse_ioctl_in *in = req_take(r, sizeof(*in));

	if (in && (IOCTL_NR(in->cmd) == IOCTL_SETFLAGS || IOCTL_NR(in->cmd) == IOCTL_FSSETXATTR))
		return refuse_node(d, r, r->h->nodeid, DECOY_META);
	return -ENOTTY;
}

/* 0 with the answer in `out`, -errno, or NO_REPLY. */
static int dispatch(struct decoyfs *d, struct req *r, struct reply *out)
{
	switch (r->h->opcode) {
	case FUSE_INIT:
		return do_init(r, out);
	case FUSE_LOOKUP:
		return do_lookup(d, r, out);
	case FUSE_GETATTR:
		return do_getattr(d, r, out);
	case FUSE_SETATTR:
		return do_setattr(d, r);
	case FUSE_OPEN:
		return do_open(d, r, out);
	case FUSE_OPENDIR:
		return do_opendir(d, r, out);
	case FUSE_ACCESS:
		return do_access(d, r);
	case FUSE_CREATE:
		return do_name(d, r, sizeof(struct fuse_create_in), DECOY_CREATE);
	case FUSE_MKNOD:
		return do_name(d, r, sizeof(struct fuse_mknod_in), DECOY_CREATE);
	case FUSE_MKDIR:
		return do_name(d, r, sizeof(struct fuse_mkdir_in), DECOY_CREATE);
	case FUSE_SYMLINK:
		return do_name(d, r, 0, DECOY_CREATE);
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		return do_name(d, r, 0, DECOY_DELETE);
	case DECOYFS_OP_TMPFILE:
		return refuse_node(d, r, r->h->nodeid, DECOY_CREATE);
	case FUSE_LINK:
		return do_link(d, r);
	case FUSE_RENAME:
		return do_rename(d, r, sizeof(struct fuse_rename_in));
	case FUSE_RENAME2:
		return do_rename(d, r, sizeof(struct fuse_rename2_in));
	case FUSE_SETXATTR:
	case FUSE_REMOVEXATTR:
		return refuse_node(d, r, r->h->nodeid, DECOY_META);
	case FUSE_IOCTL:
		return do_ioctl(d, r);
	case FUSE_WRITE:
		return refuse_node(d, r, r->h->nodeid, DECOY_WRITE);
	case FUSE_STATFS:
		return do_statfs(out);
	case FUSE_READ:
		return do_read(d, r, out);
	case FUSE_READDIR: /* nothing is in any directory that could be opened */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_DESTROY:
		return 0;
	case FUSE_READLINK:
		return -EINVAL;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT: /* what it would interrupt has been answered */
		return NO_REPLY;
	default: /* GETXATTR and LISTXATTR among them: the kernel then knows there are none */
		return -ENOSYS;
	}
}

/* One request of n bytes. -ENODEV when the mount has gone meanwhile. */
static int answer(struct decoyfs *d, const unsigned char *p, size_t n)
{
	const struct fuse_in_header *h = (const struct fuse_in_header *)p;
	struct req r = {.h = h, .body = p + sizeof(*h)};
	struct reply out = {0};
	struct fuse_out_header oh = {0};
	struct iovec iov[2] = {{&oh, sizeof(oh)}, {&out.u, 0}};
	ssize_t w;
	int rc;

	if (n < sizeof(*h) || h->len != n)
		return 0; /* no kernel that we know: nothing that an answer could name */
	r.left = n - sizeof(*h);
	rc = dispatch(d, &r, &out);
	if (rc == NO_REPLY)
		return 0;
	if (out.data)
		iov[1].iov_base = (void *)(uintptr_t)out.data;
	if (rc == 0)
		iov[1].iov_len = out.n;
	oh.unique = h->unique;
	oh.error = rc;
	oh.len = (uint32_t)(sizeof(oh) + iov[1].iov_len);
	do {
		w = writev(d->dev_fd, iov, 2);
	} while (w < 0 && errno == EINTR);
	/* ENOENT: the asker was killed. Anything else concerns this one answer only. */
	return w < 0 && (errno == ENODEV || errno == EBADF) ? -ENODEV : 0;
}

int decoyfs_serve(struct decoyfs *d)
{
	unsigned char buf[DECOYFS_REQUEST_MAX] __attribute__((aligned(8)));

	for (unsigned i = 0; i < DECOYFS_BATCH_MAX; i++) {
		ssize_t n = read(d->dev_fd, buf, sizeof(buf));

		if (n >= 0) {
			if (answer(d, buf, (size_t)n) < 0)
				return -ENODEV;
		} else if (errno == EAGAIN) {
			return 0;
		} else if (errno != EINTR && errno != ENOENT) { /* ENOENT: asker killed meanwhile */
			return -ENODEV;
		}
	}
	return 0;
}
