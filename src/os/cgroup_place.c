/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a place for a cgroup: see cgroup_place.h.
 *
 * Purpose: v1: a child of our own group in each hierarchy that has a wanted controller.
 *          v2: groups with processes cannot give controllers to children, so ours becomes a sibling
 *          of the caller's group: a child of the nearest ancestor that is writable and has, or can
 *          be given, the controllers. Other processes are never moved.
 * Trust:   /proc/self/cgroup and mountinfo are the kernel's; a directory counts only if its
 * filesystem is a cgroup's. Limits:  the usual mount points are tried first, because reading
 * mountinfo costs more than all else.
 */
#include "os/cgroup_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"

#define CGROUP1_MAGIC 0x27e0eb
#define CGROUP2_MAGIC 0x63677270
#define CGROUP_NS_FIRST 0xEFFFFFFBu /* inode number of the namespace the machine booted with */

#define OWN_MAX_B 8192u /* /proc/self/cgroup: a dozen lines */
#define MOUNTINFO_MAX_B (4u << 20)
#define DEPTH_MAX 16 /* levels above our own group that are considered */

static const struct {
	const char *name;
	unsigned has;
} controllers[] = {
	{"memory", CGROUP_HAS_MEMORY},
	{"cpu", CGROUP_HAS_CPU},
	{"pids", CGROUP_HAS_PIDS},
};

/* --- lists of names --- */

static bool list_has(const char *list, size_t len, char separator, const char *name)
{
	size_t n = strlen(name);

	while (len > 0) {
		const char *end = memchr(list, separator, len);
		size_t word = end ? (size_t)(end - list) : len;

		if (word == n && memcmp(list, name, n) == 0)
			return true;
		if (!end)
			return false;
		list += word + 1;
		len -= word + 1;
	}
	return false;
}

/* Which of our controllers a list names. */
static unsigned list_controllers(const char *list, size_t len, char separator)
{
	unsigned has = 0;

	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (list_has(list, len, separator, controllers[i].name))
			has |= controllers[i].has;
	}
	return has;
}

static void add_names(struct buf *b, unsigned has)
{
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (has & controllers[i].has)
			buf_addf(b, "%s%s", b->len ? ", " : "", controllers[i].name);
	}
}

/* --- our own place --- */

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:PATH"; v2 is "0::PATH". Cut in place. */
struct own {
	const char *controllers; /* "" for v2 */
	const char *path;
};

#define OWN_LINES_MAX 32

static size_t read_own(struct buf *text, struct own *ret)
{
	size_t n = 0;

	if (file_read_at(AT_FDCWD, "/proc/self/cgroup", text) < 0 || !text->data)
		return 0;
	for (char *line = text->data, *next; line && *line && n < OWN_LINES_MAX; line = next) {
		char *c = strchr(line, ':'), *p = c ? strchr(c + 1, ':') : NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!p || p[1] != '/' ||
			str_starts(p + 1, "/..")) /* outside our cgroup namespace */
			continue;
		*p = '\0';
		ret[n++] = (struct own){.controllers = c + 1, .path = p + 1};
	}
	return n;
}

/* --- mounts --- */

static bool is_cgroup(int fd, bool v2)
{
	struct statfs sf;

	return fstatfs(fd, &sf) == 0 &&
	       (unsigned long)sf.f_type == (v2 ? CGROUP2_MAGIC : CGROUP1_MAGIC);
}

static int open_dir(int at, const char *path)
{
	return openat(at, *path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The directory `path` (absolute in the hierarchy) below a mount whose root is `root`. */
static int open_below(int mount_fd, const char *root, const char *path)
{
	size_t n = str_eq(root, "/") ? 0 : strlen(root);

	if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return -1;
	return open_dir(mount_fd, path + n + (path[n] == '/'));
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

/*
 * "36 35 0:28 ROOT MOUNTPOINT OPTIONS [tags] - TYPE SOURCE SUPEROPTIONS": opens the mount point if
 * the line is the hierarchy looked for.
 */
static int open_mount_line(char *line, const char *controller, const char **ret_root)
{
	char *field[6], *tail, *save = line, *super;
	bool v2 = controller == NULL;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		field[i] = strsep(&save, " ");
		if (!field[i] || !save)
			return -1;
	}
	tail = str_starts(save, "- ") ? save + 2 : strstr(save, " - ");
	if (!tail)
		return -1;
	if (*tail == ' ')
		tail += 3;
	if (!str_starts(tail, v2 ? "cgroup2 " : "cgroup "))
		return -1;
	super = strrchr(tail, ' ') + 1;
	if (!v2 && !list_has(super, strlen(super), ',', controller))
		return -1;
	unescape(field[3]);
	unescape(field[4]);
	fd = open_dir(AT_FDCWD, field[4]);
	if (fd >= 0 && !is_cgroup(fd, v2)) { /* something else is mounted over it */
		close(fd);
		return -1;
	}
	*ret_root = field[3];
	return fd;
}

/* A mount and our own group in it. */
struct hierarchy {
	int mount_fd;
	int own_fd;
	const char *below; /* our own group's path below the mount */
};

static int find_by_mountinfo(const char *controller, const char *path, struct hierarchy *ret)
{
	cleanup_buf struct buf text = BUF_INIT(MOUNTINFO_MAX_B);

	if (file_read_at(AT_FDCWD, "/proc/self/mountinfo", &text) < 0 || !text.data)
		return -ENOENT;
	for (char *line = text.data, *next; line && *line; line = next) {
		const char *root;
		int mount_fd, own_fd;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		mount_fd = open_mount_line(line, controller, &root);
		if (mount_fd < 0)
			continue;
		own_fd = open_below(mount_fd, root, path);
		if (own_fd >= 0) {
			size_t n = str_eq(root, "/") ? 0 : strlen(root);

			*ret = (struct hierarchy){
				.mount_fd = mount_fd, .own_fd = own_fd, .below = path + n};
			return 0;
		}
		close(mount_fd);
	}
	return -ENOENT;
}

/*
 * In a cgroup namespace of one's own, paths start at its root and a mount made outside does not:
 * then only mountinfo tells where a mount begins.
 */
static bool in_first_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/cgroup", &st) < 0 || st.st_ino == CGROUP_NS_FIRST;
}

/* `controller` NULL: v2. */
static int find_hierarchy(const char *controller, const char *path, struct hierarchy *ret)
{
	static const char *const usual_v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char usual_v1[64];

	if (!in_first_namespace())
		return find_by_mountinfo(controller, path, ret);
	snprintf(usual_v1, sizeof(usual_v1), "/sys/fs/cgroup/%s", controller ? controller : "");
	for (size_t i = 0; i < (controller ? 1 : ARRAY_SIZE(usual_v2)); i++) {
		int mount_fd = open_dir(AT_FDCWD, controller ? usual_v1 : usual_v2[i]);
		int own_fd = -1;

		if (mount_fd >= 0 && is_cgroup(mount_fd, !controller))
			own_fd = open_below(mount_fd, "/", path);
		if (own_fd >= 0) {
			*ret = (struct hierarchy){
				.mount_fd = mount_fd, .own_fd = own_fd, .below = path};
			return 0;
		}
		close_fd(&mount_fd);
	}
	return find_by_mountinfo(controller, path, ret);
}

/* --- v2: which ancestor --- */

static unsigned controllers_in(int dir_fd, const char *file)
{
	cleanup_buf struct buf text = BUF_INIT(4096);

	if (file_read_at(dir_fd, file, &text) < 0)
		return 0;
	while (text.len > 0 && text.data[text.len - 1] == '\n')
		text.len--;
	return list_controllers(buf_str(&text), text.len, ' ');
}

/* May we make a group here and move a process from below into it? */
static bool is_ours(int dir_fd)
{
	return faccessat(dir_fd, ".", W_OK | X_OK, AT_EACCESS) == 0 &&
	       faccessat(dir_fd, "cgroup.procs", W_OK, AT_EACCESS) == 0;
}

static bool file_is(int dir_fd, const char *file, const char *want)
{
	cleanup_buf struct buf text = BUF_INIT(1u << 20);

	return file_read_at(dir_fd, file, &text) == 0 && str_eq(buf_str(&text), want);
}

/*
 * Give the missing controllers to the children, those that can be given. Never where processes are:
 * the kernel would take cpu and pids and turn the group, and all below it, into a threaded one,
 * where no process can be moved to. The root of all is exempt.
 */
static unsigned enable(int dir_fd, bool root, unsigned want)
{
	unsigned has = controllers_in(dir_fd, "cgroup.subtree_control");
	unsigned can = (want & ~has) ? controllers_in(dir_fd, "cgroup.controllers") : 0;

	if ((want & ~has & can) && !root && !file_is(dir_fd, "cgroup.procs", ""))
		can = 0;
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		char text[16];

		if (!(want & ~has & can & controllers[i].has))
			continue;
		snprintf(text, sizeof(text), "+%s", controllers[i].name);
		if (file_poke_at(dir_fd, "cgroup.subtree_control", text) == 0)
			has |= controllers[i].has;
	}
	return has & want;
}

/* A candidate: is it ours and fit for children that hold processes, and with which controllers? */
static int judge(int dir_fd, unsigned want, unsigned *ret_has)
{
	bool root = faccessat(dir_fd, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;

	if (!is_ours(dir_fd))
		return -errno;
	if (!root && !file_is(dir_fd, "cgroup.type", "domain\n"))
		return -EOPNOTSUPP;
	*ret_has = want ? enable(dir_fd, root, want) : 0;
	return 0;
}

static unsigned count_bits(unsigned v)
{
	return (unsigned)__builtin_popcount(v);
}

/*
 * From our own group upwards, the nearest with everything wanted, else the nearest with most. Our
 * own group comes first: the root of all may have both processes and controllers, and a bare group
 * needs none.
 */
static int place_v2(const char *path, unsigned want, struct cgroup_place *ret)
{
	struct hierarchy h;
	char below[4096];
	int best = -EACCES;

	if (find_hierarchy(NULL, path, &h) < 0)
		return -ENOENT;
	snprintf(below, sizeof(below), "%s", h.below);
	*ret = (struct cgroup_place){.fd = -1, .v2 = true};
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		int fd = depth == 0 ? take_fd(&h.own_fd)
				    : open_dir(h.mount_fd, below + (*below == '/'));
		char *slash = strrchr(below, '/');
		unsigned has = 0;
		int rc = fd < 0 ? -errno : judge(fd, want, &has);

		if (rc == 0 && (best < 0 || count_bits(has) > count_bits(ret->has))) {
			close_fd(&ret->fd);
			*ret = (struct cgroup_place){.fd = take_fd(&fd), .v2 = true, .has = has};
			best = 0;
		} else if (rc == -EROFS && best < 0) {
			best = -EROFS;
		}
		close_fd(&fd);
		if ((best == 0 && ret->has == want) || !slash || below[0] == '\0' ||
			str_eq(below, "/"))
			break;
		*slash = '\0';
	}
	close(h.mount_fd);
	return best;
}

/* --- together --- */

static void explain(char *why, size_t size, unsigned missing, int reason, bool v1)
{
	cleanup_buf struct buf names = BUF_INIT(64);

	add_names(&names, missing);
	if (!missing)
		buf_adds(&names, "this run");
	if (reason == -EROFS)
		snprintf(why, size,
			"no cgroup for %s: the cgroup filesystem is read-only here, as in most "
			"containers; limit the container instead",
			buf_str(&names));
	else if (reason == -ENOENT)
		snprintf(why, size, "no cgroup for %s: no cgroup filesystem with it is mounted",
			buf_str(&names));
	else if (v1)
		snprintf(why, size,
			"no cgroup for %s: cgroup v1 belongs to root; boot with cgroup v2, or run "
			"croft as root",
			buf_str(&names));
	else if (geteuid() == 0)
		snprintf(why, size,
			"no cgroup for %s: not enabled above this place; run croft in `systemd-run "
			"--scope`, or enable it in the parent's cgroup.subtree_control",
			buf_str(&names));
	else
		snprintf(why, size,
			"no cgroup for %s: not delegated to you here; run croft in `systemd-run "
			"--user --scope`, and have user@.service delegate it (Delegate=cpu memory "
			"pids)",
			buf_str(&names));
}

/* A v1 place for the controllers of one line, if we may write there; else why not, as -errno. */
static int place_v1(const struct own *o, unsigned here, struct cgroup_place *ret)
{
	int reason = -ENOENT;

	for (size_t k = 0; k < ARRAY_SIZE(controllers); k++) {
		struct hierarchy h;

		if (!(here & controllers[k].has) ||
			find_hierarchy(controllers[k].name, o->path, &h) < 0)
			continue;
		close(h.mount_fd);
		if (is_ours(h.own_fd)) {
			*ret = (struct cgroup_place){.fd = h.own_fd, .has = here};
			return 0;
		}
		reason = -errno;
		close(h.own_fd);
	}
	return reason;
}

size_t cgroup_places(
	unsigned want, struct cgroup_place ret[CGROUP_DIRS_MAX], char *why, size_t size)
{
	cleanup_buf struct buf text = BUF_INIT(OWN_MAX_B);
	struct own own[OWN_LINES_MAX];
	size_t lines = read_own(&text, own), n = 0;
	unsigned missing = want;
	int reason = -ENOENT;
	bool v1 = false;

	for (size_t i = 0; i < lines && n < CGROUP_DIRS_MAX - 1; i++) {
		const char *list = own[i].controllers;
		unsigned here = list_controllers(list, strlen(list), ',') & missing;
		int rc = here ? place_v1(&own[i], here, &ret[n]) : -ENOENT;

		if (rc == 0) {
			missing &= ~here;
			n++;
		} else if (here && rc != -ENOENT) {
			v1 = true;
			reason = rc;
		}
	}
	for (size_t i = 0; i < lines && !want && n == 0; i++) { /* bare: v1 is quicker to join */
		const char *list = own[i].controllers;

		if (list_has(list, strlen(list), ',', "pids") &&
			place_v1(&own[i], CGROUP_HAS_PIDS, &ret[n]) == 0)
			ret[n++].has = 0;
	}
	for (size_t i = 0; i < lines && (missing || n == 0); i++) { /* the rest can only be in v2 */
		int rc;

		if (*own[i].controllers)
			continue;
		rc = place_v2(own[i].path, missing, &ret[n]);
		if (rc < 0 && !v1)
			reason = rc;
		if (rc < 0)
			continue;
		if (!v1)
			reason = -EACCES; /* what is still missing is not given to us here */
		missing &= ~ret[n].has;
		if (want && !ret[n].has && n > 0)
			close_fd(&ret[n].fd); /* a group in v1 does to kill by */
		else
			n++;
	}
	if (missing || n == 0)
		explain(why, size, missing, reason, v1);
	return n;
}
