/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnostic observer: see observe.h for what it may and may not do. */
#include "session/run/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/pathcall.h"
#include "os/uapi.h"

#define SYMLINKS_MAX 40 /* as many as the kernel would follow */
#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* 5.12: only what needs no waiting */
#endif

/* One path argument: which, and what the call does to it. */
struct look {
	int arg;
	enum notice_op op;
	enum access need;
};

static int open_in(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags, .resolve = RESOLVE_NO_MAGICLINKS | resolve};

	return path_openat2(dir, path, &how);
}

/* ---- set-up ---- */

static int observer_open(struct observer *o)
{
	struct err e = ERR_INIT;
	int r = notify_open(&o->notify, o->listener, &e);

	if (r < 0)
		return r;
	o->root = o->workspace_fd = -1;
	o->no_openat2 = forced_fail("openat2");
	o->open = true;
	return 0;
}

void observer_done(struct observer *o)
{
	if (!o->open)
		return;
	notify_done(&o->notify);
	close_fd(&o->root);
	close_fd(&o->workspace_fd);
	o->open = false;
}

/* The sandbox's root, from the first process seen; none can change it. */
static void learn_root(struct observer *o, pid_t pid)
{
	char path[32];

	if (o->root >= 0 || o->no_openat2)
		return;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	o->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->root < 0)
		return;
	if (!notify_alive(&o->notify, o->notify.req->id)) { /* the pid may be another's by now */
		close_fd(&o->root);
		return;
	}
	if (o->workspace && o->workspace[0] == '/')
		o->workspace_fd = open_in(o->root, o->workspace + strspn(o->workspace, "/"),
			O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	if (o->workspace_fd < 0 && errno == ENOSYS)
		o->no_openat2 = true;
}

/* ---- names ---- */

/* Append `path` to the absolute `ret`, resolving "." and ".." by their spelling. */
static bool append(char ret[PATH_MAX], const char *path)
{
	size_t n = strlen(ret);

	if (n == 1)
		n = 0; /* "/" */
	while (*path) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 2 && path[0] == '.' && path[1] == '.') {
			while (n > 0 && ret[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && path[0] == '.')) {
			if (n + 1 + len >= PATH_MAX)
				return false;
			ret[n++] = '/';
			memcpy(ret + n, path, len);
			n += len;
		}
		path += len;
	}
	if (n == 0)
		ret[n++] = '/';
	ret[n] = '\0';
	return true;
}

/* The caller's path as an absolute one, by spelling alone. */
static bool absolute(
	const struct observer *o, pid_t pid, int dfd, const char *path, char ret[PATH_MAX])
{
	char link[48];
	ssize_t n;

	snprintf(ret, PATH_MAX, "/");
	if (path[0] == '/')
		return append(ret, path);
	if (dfd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, dfd);
	n = readlink(link, ret, PATH_MAX - 1);
	if (n <= 0 || n >= PATH_MAX - 1 || ret[0] != '/')
		return false;
	ret[n] = '\0';
	return append(ret, path);
}

static bool within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/*
 * Does the policy show something of the host's here? A rule at or below the scratch tree does (`--read ~`, a
 * workspace below HOME), unless it only denies what is not there anyway.
 */
static bool shown(const struct observer *o, const char *scratch, const char *path)
{
	const struct policy_rule *rule = NULL;
	char outer[PATH_MAX];
	char *slash;

	snprintf(outer, sizeof(outer), "%s", path);
	while (strlen(outer) >= strlen(scratch)) {
		policy_access(o->policy, outer, &rule);
		if (!rule || (!rule->glob && strlen(rule->path) < strlen(scratch)))
			return false;
		if (rule->access != ACCESS_DENY)
			return true;
		slash = strrchr(outer, '/');
		if (!slash || slash == outer)
			return false;
		*slash = '\0';
	}
	return false;
}

/* Of no interest: kernel file systems, and what belongs to the sandbox alone. */
static bool ignored(const struct observer *o, const char *path)
{
	if (within("/proc", path) || within("/dev", path))
		return true;
	for (const char *const *s = o->scratch; s && *s; s++)
		if (within(*s, path))
			return !shown(o, *s, path);
	return false;
}

/*
 * Where the directory of `path` really is, for a path that its spelling would deny: a symlink may
 * lead to where it is allowed. Only out of the kernel's cache; otherwise the spelling stands.
 */
static bool resolve_parent(struct observer *o, char path[PATH_MAX])
{
	char parent[PATH_MAX], link[32], name[PATH_MAX];
	char *slash = strrchr(path, '/');
	cleanup_fd int fd = -1;
	ssize_t n;

	if (o->root < 0 || !slash || slash == path)
		return false;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	fd = open_in(o->root, parent, O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_CACHED);
	if (fd < 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n <= 0 || n >= (ssize_t)sizeof(name) - 1 || name[0] != '/')
		return false;
	name[n] = '\0';
	if (str_eq(name, parent) || !append(name, slash + 1))
		return false;
	memcpy(path, name, strlen(name) + 1);
	return true;
}

/* Was it there before the call? Yes when in doubt. Crosses no mount and no symlink. */
static bool existed(const struct observer *o, const char *path)
{
	const char *rest = path + strlen(o->workspace);
	int fd;

	rest += strspn(rest, "/");
	if (o->workspace_fd < 0 || !*rest)
		return true;
	fd = open_in(o->workspace_fd, rest, O_NOFOLLOW,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (fd < 0)
		return errno != ENOENT && errno != ENOTDIR;
	close(fd);
	return true;
}

/*
 * A read in a private tree (HOME above all) of something that only the host has there: to the
 * command it does not exist, to the user it was kept from it.
 */
static bool hidden(const struct observer *o, const char *path)
{
	struct stat st;
	int fd;

	if (o->root < 0 || within("/proc", path) || within("/dev", path))
		return false;
	fd = open_in(o->root, path + strspn(path, "/"), O_NOFOLLOW,
		RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	if (fd >= 0) {
		close(fd);
		return false;
	}
	return errno == ENOENT && lstat(path, &st) == 0;
}

/* Is croft's symlink still there? The command may put something of its own in its place. */
static bool is_decoy(const struct observer *o, const char *path)
{
	static const char own[] = "/.croft/";
	char target[sizeof(own)] = "";
	int fd;

	if (o->root < 0)
		return false; /* not known, so not claimed */
	fd = open_in(o->root, path + 1, O_NOFOLLOW, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return false;
	if (readlinkat(fd, "", target, sizeof(target) - 1) < 0)
		target[0] = '\0';
	close(fd);
	return str_eq(target, own);
}

/*
 * A change through a decoy, which refuses it. The symlink itself is the command's to remove, since nothing
 * of the host's is there.
 */
static bool decoyed(const struct observer *o, const char *path, enum notice_op op)
{
	for (size_t i = 0; i < o->decoys->n; i++)
		if (!o->decoys->mask[i] && within(o->decoys->path[i], path) &&
			(path[strlen(o->decoys->path[i])] || (op == NOTICE_WRITE && !o->served)))
			return is_decoy(o, o->decoys->path[i]);
	return false;
}

/* Is there something of this name already? Only out of the kernel's cache; no when in doubt. */
static bool in_the_way(const struct observer *o, const char *path)
{
	int fd;

	if (o->root < 0 || within("/proc", path) || !path[1])
		return o->root >= 0 && !path[1];
	fd = open_in(o->root, path + 1, O_NOFOLLOW, RESOLVE_IN_ROOT | RESOLVE_CACHED);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* ---- one call ---- */

static void note(
	struct observer *o, const struct look *l, const char *path, bool denied, bool exists)
{
	struct notice *n = &o->note[o->notes_n++];
	size_t len = strlen(path);

	n->op = (uint8_t)l->op;
	n->denied = denied;
	n->source = NOTICE_BY_OBSERVER;
	n->exists = exists;
	n->pid = (int32_t)o->notify.req->pid;
	n->lost = 0;
	n->path_len = (uint32_t)len;
	memcpy(n->path, path, len + 1);
}

static void look_at(struct observer *o, const struct pathcall *c, const struct look *l)
{
	pid_t pid = (pid_t)o->notify.req->pid;
	char text[NOTIFY_STRING_MAX], path[PATH_MAX];
	enum access have;
	ssize_t n = notify_read_string(pid, c->path[l->arg], text, sizeof(text));

	if (n == 0 || n == -EFAULT || n == -ENAMETOOLONG)
		return; /* the kernel will refuse it for what it is */
	if (n < 0 || !absolute(o, pid, c->dfd[l->arg], text, path)) {
		o->lost++;
		return;
	}
	learn_root(o, pid);
	/* Who is in the directory behind a trap names it by where it is. */
	if (l->need != ACCESS_READ && o->decoys &&
		(trap_rename(o->decoys, path, sizeof(path)) || decoyed(o, path, l->op))) {
		note(o, l, path, true, false);
		return;
	}
	if (ignored(o, path)) {
		if (l->need == ACCESS_READ && hidden(o, path))
			note(o, l, path, true, false);
		return;
	}
	have = policy_access(o->policy, path, NULL);
	if (have < l->need && resolve_parent(o, path)) {
		if (ignored(o, path))
			return;
		have = policy_access(o->policy, path, NULL);
	}
	if (have < l->need && l->op == NOTICE_CREATE && in_the_way(o, path))
		return; /* mkdir -p: it exists, which is the kernel's answer before any other */
	if (have < l->need)
		note(o, l, path, true, false);
	else if (l->need == ACCESS_READ)
		note(o, l, path, false, true);
	else if (o->workspace && within(o->workspace, path))
		note(o, l, path, false, existed(o, path));
}

/* What a call does to which of its paths. Returns how many are worth a look. */
static int looks(const struct observer *o, const struct pathcall *c, struct look ret[2])
{
	ret[0] = (struct look){0, NOTICE_META, ACCESS_WRITE};
	ret[1] = (struct look){1, NOTICE_CREATE, ACCESS_WRITE};
	if (c->by_fd)
		return 0;
	switch (c->kind) {
	case PATHCALL_OPEN:
		if (pathcall_writes(c->oflags)) {
			bool fresh = (c->oflags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);

			ret[0].op = fresh ? NOTICE_CREATE : NOTICE_WRITE;
			return 1;
		}
		ret[0] = (struct look){0, NOTICE_READ, ACCESS_READ};
		return o->reads && !(c->oflags & O_PATH);
	case PATHCALL_EXEC:
		ret[0] = (struct look){0, NOTICE_EXEC, ACCESS_READ};
		return o->reads;
	case PATHCALL_TRUNCATE:
		ret[0].op = NOTICE_WRITE;
		return 1;
	case PATHCALL_MKDIR:
	case PATHCALL_MKNOD:
		ret[0].op = NOTICE_CREATE;
		return 1;
	case PATHCALL_SYMLINK:
	case PATHCALL_LINK:
		ret[0] = ret[1];
		return 1;
	case PATHCALL_UNLINK:
		ret[0].op = NOTICE_DELETE;
		return 1;
	case PATHCALL_RENAME:
		ret[0].op = NOTICE_DELETE;
		ret[1].op = NOTICE_RENAME;
		return 2;
	case PATHCALL_SETFLAGS:
	case PATHCALL_KIND_NUM:
		return 0;
	default:
		return 1;
	}
}

/* ---- chmod with the set-group-id bit ---- */

/* Names that the supervisor itself may have to answer for, and links that mean something else to it. */
static bool beyond_us(const char *path)
{
	return within("/proc", path) || within("/.croft", path);
}

/*
 * O_PATH of the first `n` bytes of the path, no symlink among them but perhaps the last, whose text
 * then takes its place in the path: -EAGAIN.
 */
static int open_part(struct observer *o, char path[PATH_MAX], size_t n)
{
	char part[PATH_MAX], rest[PATH_MAX], text[PATH_MAX];
	struct k_statx st = {0};
	cleanup_fd int fd = -1;
	ssize_t len;

	memcpy(part, path, n);
	part[n] = '\0';
	fd = open_in(o->root, part + 1, O_NOFOLLOW, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	if (fd < 0 || syscall(SYS_statx, fd, "", AT_EMPTY_PATH | K_AT_STATX_DONT_SYNC,
			      K_STATX_BASIC, &st) < 0)
		return -errno;
	if (!S_ISLNK(st.mode))
		return take_fd(&fd);
	len = readlinkat(fd, "", text, sizeof(text) - 1);
	if (len <= 0 || len >= (ssize_t)sizeof(text) - 1)
		return -ELOOP;
	text[len] = '\0';
	snprintf(rest, sizeof(rest), "%s", path + n);
	path[text[0] == '/' ? 1 : strrchr(part, '/') - part + 1] = '\0';
	return append(path, text) && append(path, rest) ? -EAGAIN : -ENAMETOOLONG;
}

/* Follow a path component by component, so that no step waits for ourselves. */
static int open_by_steps(struct observer *o, char path[PATH_MAX], bool nofollow)
{
	for (int hops = 0; hops < SYMLINKS_MAX; hops++) {
		size_t n = 0;
		int fd = -EAGAIN;

		while (!beyond_us(path)) {
			bool last;

			n += 1 + strcspn(path + n + 1, "/");
			last = path[n] == '\0';
			if (last && nofollow) {
				fd = open_in(o->root, path + 1, O_NOFOLLOW,
					RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
				return fd >= 0 ? fd : -errno;
			}
			fd = open_part(o, path, n);
			if (fd < 0 || last)
				break;
			close(fd);
		}
		if (fd != -EAGAIN)
			return fd;
		if (beyond_us(path))
			return -EPERM;
	}
	return -ELOOP;
}

/* O_PATH of what the call is about, or -errno. As everywhere here nothing may wait for ourselves. */
static int chmod_subject(struct observer *o, const struct pathcall *c)
{
	pid_t pid = (pid_t)o->notify.req->pid;
	uint64_t nofollow = c->at_flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0;
	char text[NOTIFY_STRING_MAX] = "", path[PATH_MAX], link[48];
	ssize_t n = 0;
	int fd;

	if (!c->by_fd && (n = notify_read_string(pid, c->path[0], text, sizeof(text))) < 0)
		return (int)n;
	if (!c->by_fd && n == 0 && !(c->at_flags & AT_EMPTY_PATH))
		return -ENOENT;
	if (n == 0 && c->dfd[0] != AT_FDCWD) {
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, c->dfd[0]);
		fd = open(link, O_PATH | O_CLOEXEC);
		return fd >= 0 ? fd : -EBADF;
	}
	learn_root(o, pid);
	if (o->root < 0 || !absolute(o, pid, c->dfd[0], text, path) || beyond_us(path))
		return -EPERM;
	if (!path[1])
		return -EPERM;
	fd = open_in(o->root, path + 1, nofollow, RESOLVE_IN_ROOT | RESOLVE_CACHED);
	if (fd < 0 && (errno == EAGAIN || errno == EINVAL))
		return open_by_steps(o, path, nofollow);
	return fd >= 0 ? fd : -errno;
}

/*
 * Only a directory may have the bit, and no filter can tell. The call is therefore done here, on the
 * object that was looked at, with no more right than the caller has: its owner is the user, and the
 * descriptor carries the sandbox's mount.
 */
static int chmod_setgid(struct observer *o, const struct pathcall *c)
{
	cleanup_fd int fd = chmod_subject(o, c);
	mode_t mode = c->mode & 07777;
	struct k_statx st = {0};
	char link[32], name[PATH_MAX] = "";

	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, name, sizeof(name) - 1) <= 0 || within("/.croft", name) ||
		syscall(SYS_statx, fd, "", AT_EMPTY_PATH | K_AT_STATX_DONT_SYNC, K_STATX_BASIC,
			&st) < 0)
		return -EPERM;
	if (!S_ISDIR(st.mode)) {
		if (!ignored(o, name))
			note(o, &(struct look){0, NOTICE_META, ACCESS_WRITE}, name, true, true);
		return -EPERM;
	}
	if (st.uid != geteuid() || !notify_alive(&o->notify, o->notify.req->id))
		return -EPERM;
	if (st.gid != getegid() && geteuid() == 0)
		mode &= ~(mode_t)S_ISGID; /* as the kernel has it for who is not in the group */
	return fchmodat(AT_FDCWD, link, mode, 0) < 0 ? -errno : 0;
}

static void handle(struct observer *o)
{
	struct pathcall c = {.kind = PATHCALL_KIND_NUM};
	struct look l[2];
	int n = 0;

	o->seen++;
	o->notes_n = 0;
	if (o->notify.req->pid == 0)
		o->lost++; /* outside our view of processes */
	else if (pathcall_decode(&c, &o->notify.req->data) && c.kind != PATHCALL_CHMOD)
		n = looks(o, &c, l);
	for (int i = 0; i < n; i++)
		look_at(o, &c, &l[i]);
	if (c.kind == PATHCALL_CHMOD)
		notify_answer(&o->notify, o->notify.req->id, 0, -chmod_setgid(o, &c));
	else
		notify_continue(&o->notify, o->notify.req->id);
	for (unsigned i = 0; i < o->notes_n; i++)
		o->saw(o->arg, &o->note[i]);
}

static int serve(struct observer *o, int timeout_ms)
{
	int r = o->open ? 0 : observer_open(o);

	if (r == 0)
		r = notify_recv(&o->notify, timeout_ms);
	if (r == 1)
		handle(o);
	return r < 0 ? r : 0;
}

int observer_serve(struct observer *o)
{
	return serve(o, 0);
}

/* ---- apart ---- */

#define THREAD_STACK_B (256u << 10)

/* May wait: then so does the caller that was looked at, until the supervisor has read. */
static void tell(void *arg, const struct notice *n)
{
	struct observer *o = arg;

	while (send(o->tell, n, offsetof(struct notice, path) + n->path_len, MSG_NOSIGNAL) < 0)
		if (errno != EINTR) {
			o->lost++;
			return;
		}
}

static void *watch(void *arg)
{
	struct observer *o = arg;

	while (serve(o, -1) == 0)
		;
	close_fd(&o->tell);
	return NULL;
}

int observer_apart(struct observer *o)
{
	void (*saw)(void *, const struct notice *) = o->saw;
	void *saw_arg = o->arg;
	pthread_attr_t attr;
	int fd[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		return -errno;
	o->tell = fd[1];
	o->saw = tell;
	o->arg = o;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK_B);
	r = forced_fail("observer_thread") ? EAGAIN : pthread_create(&o->thread, &attr, watch, o);
	pthread_attr_destroy(&attr);
	o->apart = r == 0;
	if (r == 0)
		return fd[0];
	o->saw = saw;
	o->arg = saw_arg;
	close(fd[0]);
	close(fd[1]);
	return -r;
}

void observer_join(struct observer *o)
{
	if (o->apart)
		pthread_join(o->thread, NULL);
	o->apart = false;
}
