/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the caller's string to descriptors.
 *
 * Trust:   a string is walked by the kernel exactly once, to O_PATH descriptors; from then on only
 *          those are used, and what is judged is the kernel's own name of them. Where a path means
 *          something else to the broker than to the caller, it is translated first: /proc/self,
 *          /proc/thread-self, /dev/fd, /dev/stdin, /dev/stdout, /dev/stderr. Other magic links are
 *          not followed at all (openat2), or, without openat2, judged by where they lead.
 * Limits:  what the broker itself could reach through /proc/<own pid> is never given: such a name
 *          is read as the caller's own /proc directory, which is what a symlink through /proc/self
 *          meant.
 */
#include "engine/broker/broker_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/forced.h"
#include "os/uapi.h"

/* A path on its way: what is left of it, and the directory that starts from. */
struct walk {
	int base;         /* AT_FDCWD, or owned */
	int fd_no;        /* base is the caller's own descriptor of this number, or -1 */
	const char *rest; /* "": the base itself */
	char text[PATH_MAX];
};

#define WALK_INIT ((struct walk){.base = AT_FDCWD, .fd_no = -1, .rest = ""})

static void walk_done(struct walk *k)
{
	if (k->base >= 0)
		close(k->base);
	k->base = AT_FDCWD;
}
#define cleanup_walk __attribute__((cleanup(walk_done)))

void spot_done(struct spot *p)
{
	close_fd(&p->fd);
	close_fd(&p->parent);
}

const char *fd_name(int fd, char buf[16])
{
	snprintf(buf, 16, "%d", fd);
	return buf;
}

int resolve_open(struct work *w)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	struct statfs fs;
	int fd;

	w->own = getpid();
	w->own_thread = gettid();
	w->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->proc < 0 || fstatfs(w->proc, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return -ENOTSUP;
	w->self_fd = openat(w->proc, "thread-self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->self_fd < 0)
		return -errno;
	fd = forced_fail("openat2") ? -1
				    : (int)syscall(SYS_openat2, w->proc, ".", &how, sizeof(how));
	w->no_openat2 = fd < 0;
	close_fd(&fd);
	return 0;
}

/* ---- looking at the caller ---- */

static int target_error(int errnum)
{
	return errnum == ENOENT || errnum == ESRCH ? -ESRCH : errnum == EACCES ? -EPERM : -errnum;
}

/* O_PATH of something in the caller's /proc directory, following it when it is a magic link. */
static int target_open(const struct work *w, const char *what)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%d/%s", (int)w->tid, what);
	fd = openat(w->proc, path, O_PATH | O_CLOEXEC);
	return fd >= 0 ? fd : target_error(errno);
}

static int target_open_fd(const struct work *w, int fd)
{
	char what[32];
	int r;

	if (fd < 0)
		return -EBADF;
	snprintf(what, sizeof(what), "fd/%d", fd);
	r = target_open(w, what);
	return r == -ESRCH ? -EBADF : r;
}

/* "Name:\tVALUE" of a status file. */
static bool status_field(const char *text, const char *name, unsigned base, unsigned *ret)
{
	const char *at = strstr(text, name);
	unsigned v = 0;

	if (!at)
		return false;
	at += strlen(name);
	at += strspn(at, "\t ");
	if (*at < '0' || *at >= (char)('0' + base))
		return false;
	for (; *at >= '0' && *at < (char)('0' + base); at++)
		v = v * base + (unsigned)(*at - '0');
	*ret = v;
	return true;
}

int target_status(struct work *w)
{
	char path[32], text[1024];
	cleanup_fd int fd = -1;
	unsigned v;
	ssize_t n;

	if (w->tgid)
		return 0;
	snprintf(path, sizeof(path), "%d/status", (int)w->tid);
	fd = openat(w->proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return target_error(errno);
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -ESRCH;
	text[n] = '\0';
	/* The first line holds the caller's own name for itself, with newlines escaped. */
	if (!status_field(text, "\nTgid:", 10, &v) || v == 0)
		return -ESRCH;
	w->tgid = (pid_t)v;
	w->umask = status_field(text, "\nUmask:", 8, &v) ? (mode_t)(v & 0777) : w->umask_default;
	return 0;
}

int target_dup(struct work *w, int fd, int oflags)
{
	cleanup_fd int pidfd = -1, copy = -1;
	int have, need = oflags & PATHCALL_ACCMODE;

	if (target_status(w) < 0)
		return -1;
	pidfd = (int)syscall(SYS_pidfd_open, w->tgid, 0);
	if (pidfd < 0)
		return -1;
	copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (copy < 0)
		return -1;
	have = fcntl(copy, F_GETFL);
	if (have < 0 || (have & O_PATH))
		return -1;
	if ((have & PATHCALL_ACCMODE) != O_RDWR && (have & PATHCALL_ACCMODE) != need)
		return -1;
	return take_fd(&copy);
}

/* ---- translation ---- */

/* Take the next component if it is `word`. */
static bool take_word(const char **p, const char *word)
{
	const char *s = *p;
	size_t n = strlen(word);

	for (;;) {
		s += strspn(s, "/");
		if (s[0] == '.' && (s[1] == '/' || s[1] == '\0'))
			s++;
		else
			break;
	}
	if (strncmp(s, word, n) != 0 || (s[n] != '/' && s[n] != '\0'))
		return false;
	*p = s + n;
	return true;
}

static bool take_number(const char **p, int *ret)
{
	const char *s = *p + strspn(*p, "/");
	size_t n = strspn(s, "0123456789");
	char text[12];
	uint64_t v;

	if (n == 0 || n >= sizeof(text) || (s[n] != '/' && s[n] != '\0'))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	if (!str_u64(text, INT_MAX, &v))
		return false;
	*ret = (int)v;
	*p = s + n;
	return true;
}

/* Is the next component the caller's own directory in /proc? */
static bool take_self(struct work *w, const char **p)
{
	const char *s = *p;
	int pid;

	if (take_word(p, "self") || take_word(p, "thread-self"))
		return true;
	if (!take_number(&s, &pid) || (pid != w->tid && (target_status(w) < 0 || pid != w->tgid)))
		return false;
	*p = s;
	return true;
}

/* The walk goes on from `base` (or fails with it) with what is left at p. */
static int walk_from(struct walk *k, int base, const char *p)
{
	if (base < 0)
		return base == -EBADF ? -ENOENT : base;
	k->base = base;
	k->rest = p + strspn(p, "/");
	return 0;
}

static int walk_own_fd(struct work *w, struct walk *k, const char *p)
{
	int no;

	if (!take_number(&p, &no))
		return walk_from(k, target_open(w, "fd"), p);
	k->fd_no = no;
	return walk_from(k, target_open_fd(w, no), p);
}

/* Start an absolute path; `path` must outlive the walk. */
static int walk_absolute(struct work *w, struct walk *k, const char *path)
{
	static const char *const streams[] = {"stdin", "stdout", "stderr"};
	static const char *const links[] = {"cwd", "root", "exe"};
	const char *p = path;
	char dir[16];

	walk_done(k);
	k->fd_no = -1;
	k->rest = path;
	if (take_word(&p, "dev")) {
		if (take_word(&p, "fd"))
			return walk_own_fd(w, k, p);
		for (int i = 0; i < 3; i++)
			if (take_word(&p, streams[i])) {
				k->fd_no = i;
				return walk_from(k, target_open_fd(w, i), p);
			}
		return 0;
	}
	if (!take_word(&p, "proc") || !take_self(w, &p))
		return 0;
	if (take_word(&p, "fd"))
		return walk_own_fd(w, k, p);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (take_word(&p, links[i]))
			return walk_from(k, target_open(w, links[i]), p);
	if (target_status(w) < 0)
		return -ESRCH;
	return walk_from(k, openat(w->proc, fd_name(w->tgid, dir), O_PATH | O_CLOEXEC), p);
}

static int walk_begin(struct work *w, struct walk *k, int dfd, const char *path)
{
	int base;

	if (path[0] == '/')
		return walk_absolute(w, k, path);
	base = dfd == AT_FDCWD ? target_open(w, "cwd") : target_open_fd(w, dfd);
	if (base < 0)
		return base;
	k->base = base;
	k->rest = path;
	return 0;
}

/* ---- walking ---- */

static int open_path(const struct work *w, int base, const char *path, int oflags)
{
	struct open_how how = {
		.flags = (uint64_t)(O_PATH | O_CLOEXEC | oflags), .resolve = RESOLVE_NO_MAGICLINKS};
	int fd;

	if (w->no_openat2)
		fd = openat(base, path, O_PATH | O_CLOEXEC | oflags);
	else
		fd = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
	return fd >= 0 ? fd : -errno;
}

/* "a/b/c/" is "a/b" and "c/"; what has no last name ("/") is its own directory and ".". */
static int split(const char *path, char dir[PATH_MAX], char last[NAME_MAX + 2])
{
	size_t end = strlen(path), start;
	bool slash = false;

	while (end > 1 && path[end - 1] == '/') {
		end--;
		slash = true;
	}
	for (start = end; start > 0 && path[start - 1] != '/'; start--)
		;
	if (start == end) {
		snprintf(dir, PATH_MAX, "/");
		snprintf(last, NAME_MAX + 2, ".");
		return 0;
	}
	if (end - start > NAME_MAX)
		return -ENAMETOOLONG;
	snprintf(last, NAME_MAX + 2, "%.*s%s", (int)(end - start), path + start, slash ? "/" : "");
	if (start == 0)
		snprintf(dir, PATH_MAX, ".");
	else
		snprintf(dir, PATH_MAX, "%.*s", (int)start, path);
	return 0;
}

static int open_parent(const struct work *w, const struct walk *k, char last[NAME_MAX + 2])
{
	char dir[PATH_MAX];
	int r = split(k->rest, dir, last);

	return r < 0 ? r : open_path(w, k->base, dir, O_DIRECTORY);
}

/* Replace the walk by where the symlink `last` in `parent` points. Takes `parent`. */
static int walk_link(struct work *w, struct walk *k, int parent, const char *last)
{
	char text[PATH_MAX];
	struct statfs fs;
	ssize_t n = readlinkat(parent, last, text, sizeof(text));
	int r = n < 0 ? -errno : n >= (ssize_t)sizeof(text) ? -ENAMETOOLONG : 0;

	/* The text of a magic link is a description, not a path. */
	if (r == 0 && (fstatfs(parent, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC))
		r = -ELOOP;
	if (r < 0) {
		close(parent);
		return r;
	}
	text[n] = '\0';
	memcpy(k->text, text, (size_t)n + 1);
	if (k->text[0] == '/') {
		close(parent);
		return walk_absolute(w, k, k->text);
	}
	walk_done(k);
	k->base = parent;
	k->fd_no = -1;
	k->rest = k->text;
	return 0;
}

/* The last name is a link the kernel would not take for us: follow that one by hand. */
static int walk_follow(struct work *w, struct walk *k)
{
	char last[NAME_MAX + 2];
	int parent = open_parent(w, k, last);

	return parent < 0 ? parent : walk_link(w, k, parent, last);
}

/* ---- spots ---- */

static int kernel_name(const struct work *w, int fd, char *ret)
{
	char no[16];
	ssize_t n = readlinkat(w->self_fd, fd_name(fd, no), ret, PATH_MAX - 1);

	if (n < 0)
		return -errno;
	if (n >= PATH_MAX - 1)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	return 0;
}

/* Our own directory in /proc: what follows it, or NULL. */
static const char *below_own_proc(const struct work *w, const char *name)
{
	const pid_t ours[] = {w->own, w->own_thread};

	/* A thread has a directory of its own in /proc, too, though it is not listed. */
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		char prefix[32];
		int n = snprintf(prefix, sizeof(prefix), "/proc/%d", (int)ours[i]);

		if (strncmp(name, prefix, (size_t)n) == 0 && (name[n] == '/' || name[n] == '\0'))
			return name + n;
	}
	return NULL;
}

/* Learn the object's name and kind. */
static int spot_finish(struct work *w, struct spot *p)
{
	const char *rest;
	int r = kernel_name(w, p->fd, p->name);

	if (r < 0)
		return r;
	rest = below_own_proc(w, p->name);
	if (rest) {
		char path[PATH_MAX];
		int fd;

		if (target_status(w) < 0)
			return -ESRCH;
		if (snprintf(path, sizeof(path), "/proc/%d%s", (int)w->tgid, rest) >=
			(int)sizeof(path))
			return -ENAMETOOLONG;
		fd = open_path(w, AT_FDCWD, path, 0);
		if (fd < 0)
			return fd;
		close(p->fd);
		p->fd = fd;
		if ((r = kernel_name(w, fd, p->name)) < 0)
			return r;
		if (below_own_proc(w, p->name))
			return -EACCES;
	}
	return fstat(p->fd, &p->st) < 0 ? -errno : 0;
}

int spot_fd(struct work *w, int fd, struct spot *ret)
{
	int r = fd == AT_FDCWD ? target_open(w, "cwd") : target_open_fd(w, fd);

	if (r < 0)
		return r;
	ret->fd = r;
	ret->fd_no = fd == AT_FDCWD ? -1 : fd;
	return spot_finish(w, ret);
}

int spot_object(struct work *w, int dfd, const char *path, unsigned how, struct spot *ret)
{
	cleanup_walk struct walk k = WALK_INIT;
	int oflags =
		(how & SPOT_NOFOLLOW ? O_NOFOLLOW : 0) | (how & SPOT_DIRECTORY ? O_DIRECTORY : 0);
	int r, fd = -ELOOP;

	if (!path[0])
		return how & SPOT_EMPTY_OK ? spot_fd(w, dfd, ret) : -ENOENT;
	if ((r = walk_begin(w, &k, dfd, path)) < 0)
		return r;
	for (int hops = 0; hops < BROKER_HOPS_MAX; hops++) {
		if (!k.rest[0]) {
			if (how & SPOT_NOFOLLOW && hops == 0 && k.fd_no >= 0)
				return -ELOOP; /* it was a link after all */
			fd = k.base;
			k.base = AT_FDCWD;
			break;
		}
		k.fd_no = -1;
		fd = open_path(w, k.base, k.rest, oflags);
		if (fd != -ELOOP || how & SPOT_NOFOLLOW || walk_follow(w, &k) < 0)
			break;
	}
	if (fd < 0)
		return fd;
	ret->fd = fd;
	ret->fd_no = k.fd_no;
	return spot_finish(w, ret);
}

/* Learn the directory's name, and with it the slot's. */
static int slot_finish(struct work *w, struct spot *p)
{
	size_t n, len = strlen(p->last);
	int r = kernel_name(w, p->parent, p->name);

	if (r < 0)
		return r;
	if (below_own_proc(w, p->name))
		return -EACCES;
	if (len && p->last[len - 1] == '/')
		len--;
	n = strlen(p->name);
	if (n + 1 + len >= sizeof(p->name))
		return -ENAMETOOLONG;
	if (n == 0 || p->name[n - 1] != '/')
		p->name[n++] = '/';
	memcpy(p->name + n, p->last, len);
	p->name[n + len] = '\0';
	return 0;
}

static int slot_from(struct work *w, struct walk *k, struct spot *ret)
{
	int parent;

	if (!k->rest[0])
		return -EPERM; /* a link in /proc itself: nothing is made or removed there */
	parent = open_parent(w, k, ret->last);
	if (parent < 0)
		return parent;
	close_fd(&ret->parent);
	ret->parent = parent;
	return slot_finish(w, ret);
}

int spot_slot(struct work *w, int dfd, const char *path, struct spot *ret)
{
	cleanup_walk struct walk k = WALK_INIT;
	int r;

	if (!path[0])
		return -ENOENT;
	if ((r = walk_begin(w, &k, dfd, path)) < 0)
		return r;
	return slot_from(w, &k, ret);
}

int spot_in_slot(struct work *w, const struct spot *slot, unsigned how, struct spot *ret)
{
	int fd = open_path(w, slot->parent, slot->last, how & SPOT_NOFOLLOW ? O_NOFOLLOW : 0);

	if (fd < 0)
		return fd;
	ret->fd = fd;
	return spot_finish(w, ret);
}

int spot_slot_follow(struct work *w, struct spot *slot)
{
	cleanup_walk struct walk k = WALK_INIT;
	int r = walk_link(w, &k, take_fd(&slot->parent), slot->last);

	if (r == -EINVAL || r == -ENOENT)
		return -EEXIST;
	return r < 0 ? r : slot_from(w, &k, slot);
}
