/* SPDX-License-Identifier: Apache-2.0 */
/* The bait tree: see bait.h. */
#include "prove/bait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/str.h"

#define BAIT_DEPTH_MAX 64

const char *const bait_denied[] = {"work/denied.env", "work/private", "work/deep/a/secret",
	"work/never", "work/gone/never", NULL};
const char *const bait_readonly[] = {"work/frozen", NULL};

/* What must look the same after a run. In run/ croft itself may keep things while it runs. */
static const char *const watched[] = {"outside", "home", "run/docker.sock", "run/bus",
	"run/agent.sock", "run/wayland-0", "run/tmux", "run/dgram", "work/denied.env",
	"work/private", "work/frozen", "work/deep/a/secret", "work/never", "work/gone/never",
	"work/.bashrc", "work/.envrc", "work/.gitconfig", "work/.mcp.json", "work/.claude",
	"work/.vscode", "work/made/.git", "work/pointer/.git", "work/bare/HEAD"};

static const struct {
	const char *path;
	enum { ITEM_DIR, ITEM_SECRET, ITEM_TEXT, ITEM_LINK } kind;
	const char *link; /* below the tree */
} items[] = {
	{"outside", ITEM_DIR},
	{"outside/.env", ITEM_SECRET},
	{"outside/victim.txt", ITEM_TEXT},
	{"outside/dir", ITEM_DIR},
	{"outside/dir/inner", ITEM_TEXT},
	{"home", ITEM_DIR},
	{"home/.ssh", ITEM_DIR},
	{"home/.ssh/id_ed25519", ITEM_SECRET},
	{"home/.aws", ITEM_DIR},
	{"home/.aws/credentials", ITEM_SECRET},
	{"home/.netrc", ITEM_SECRET},
	{"home/.git-credentials", ITEM_SECRET},
	{"home/.config", ITEM_DIR},
	{"home/.config/gh", ITEM_DIR},
	{"home/.config/gh/hosts.yml", ITEM_SECRET},
	{"home/.docker", ITEM_DIR},
	{"home/.docker/config.json", ITEM_SECRET},
	{"home/.bashrc", ITEM_TEXT},
	{"run", ITEM_DIR},
	{"work", ITEM_DIR},
	{"work/hello.txt", ITEM_TEXT},
	{"work/denied.env", ITEM_SECRET},
	{"work/private", ITEM_DIR},
	{"work/private/key", ITEM_SECRET},
	{"work/.bashrc", ITEM_TEXT},
	{"work/.envrc", ITEM_TEXT},
	{"work/.gitconfig", ITEM_TEXT},
	{"work/.mcp.json", ITEM_TEXT},
	{"work/.claude", ITEM_DIR},
	{"work/.claude/settings.json", ITEM_TEXT},
	{"work/.vscode", ITEM_DIR},
	{"work/.vscode/tasks.json", ITEM_TEXT},
	{"work/service", ITEM_DIR},
	{"work/frozen", ITEM_DIR},
	{"work/frozen/file", ITEM_TEXT},
	{"work/frozen/sub", ITEM_DIR},
	{"work/deep", ITEM_DIR},
	{"work/deep/a", ITEM_DIR},
	{"work/deep/a/secret", ITEM_SECRET},
	{"work/out", ITEM_LINK, "outside/.env"},
	{"work/outdir", ITEM_LINK, "outside"},
	{"work/dangling", ITEM_LINK, "outside/created"},
};

static int lay_item(const struct bait *b, int root, size_t i, const char *token)
{
	char text[256];
	cleanup_fd int fd = -1;

	switch (items[i].kind) {
	case ITEM_DIR:
		return mkdirat(root, items[i].path, 0700);
	case ITEM_LINK:
		snprintf(text, sizeof(text), "%s/%s", b->dir, items[i].link);
		return symlinkat(text, root, items[i].path);
	case ITEM_SECRET:
	case ITEM_TEXT:
		fd = openat(root, items[i].path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			return -1;
		return dprintf(fd, "%s\n", items[i].kind == ITEM_SECRET ? token : "untouched") < 0
			       ? -1
			       : 0;
	}
	return 0;
}

/*
 * As root: a program that would run as another user, and one with capabilities. They are copies of
 * this program, which only prints who it is.
 */
static void lay_privileged(int root)
{
	/* Version 2, effective bit; CAP_NET_RAW permitted. */
	static const uint8_t caps[20] = {1, 0, 0, 2, 0, 0x20};
	static const char *const names[] = {"work/suid", "work/fcap"};
	char chunk[65536];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cleanup_fd int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		cleanup_fd int to =
			openat(root, names[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
		ssize_t n;

		if (from < 0 || to < 0)
			return;
		while ((n = read(from, chunk, sizeof(chunk))) > 0)
			if (write(to, chunk, (size_t)n) != n)
				return;
		if (i == 0)
			(void)!(fchown(to, 65534, 65534) == 0 && fchmod(to, 04755) == 0);
		else if (fsetxattr(to, "security.capability", caps, sizeof(caps), 0) < 0)
			unlinkat(root, names[i], 0);
	}
}

int bait_lay(struct bait *b, const char *token, struct err *e)
{
	static const char *const bases[] = {"/var/tmp", "/tmp"};
	cleanup_fd int root = -1;

	for (size_t i = 0; i < ARRAY_SIZE(bases) && root < 0; i++) {
		snprintf(b->dir, sizeof(b->dir), "%s/croft-prove.XXXXXX", bases[i]);
		if (mkdtemp(b->dir))
			root = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (root < 0)
		return err_set(e, errno, "make a directory for bait in /var/tmp or /tmp");
	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		if (lay_item(b, root, i, token) < 0) {
			int saved = errno;

			bait_remove(b);
			return err_set(e, saved, "lay %s in %s", items[i].path, b->dir);
		}
	}
	if (geteuid() == 0)
		lay_privileged(root);
	return 0;
}

/* Depth first; probes may have taken rights away from directories. */
static void remove_at(int dirfd, const char *name, int depth)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *e;
	int fd;

	if (unlinkat(dirfd, name, 0) == 0 || depth > BAIT_DEPTH_MAX)
		return;
	fchmodat(dirfd, name, 0700, 0);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	d = fdopendir(fd);
	while (d && (e = readdir(d)))
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			remove_at(fd, e->d_name, depth + 1);
	unlinkat(dirfd, name, AT_REMOVEDIR);
}

void bait_remove(struct bait *b)
{
	remove_at(AT_FDCWD, b->dir, 0);
}

static void print_content(int dirfd, const char *name, struct buf *out)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[4096], attrs[512];
	struct digest d;
	ssize_t n;

	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text));
	digest_sha256(&d, text, n > 0 ? (size_t)n : 0);
	n = flistxattr(fd, attrs, sizeof(attrs));
	buf_addf(out, " %.16s %zd", d.hex, n);
}

static void print_at(int dirfd, const char *name, const char *path, int depth, struct buf *out)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *e;
	struct stat st;
	char below[4096];
	int fd;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		buf_addf(out, "%s absent\n", path);
		return;
	}
	buf_addf(out, "%s %o %u %u %ju %ju %jd.%ld %jd.%ld", path, st.st_mode, st.st_uid, st.st_gid,
		(uintmax_t)st.st_ino, (uintmax_t)st.st_nlink, (intmax_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec, (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	if (S_ISREG(st.st_mode))
		print_content(dirfd, name, out);
	buf_addc(out, '\n');
	if (!S_ISDIR(st.st_mode) || depth > BAIT_DEPTH_MAX)
		return;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	d = fdopendir(fd);
	while (d && (e = readdir(d))) {
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
		print_at(fd, e->d_name, below, depth + 1, out);
	}
}

void bait_print(const struct bait *b, struct buf *out)
{
	cleanup_fd int root = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		print_at(root, watched[i], watched[i], 0, out);
}

/* Is this exact line among the lines of b? */
static bool has_line(const struct buf *b, const char *line, size_t n)
{
	const char *p = buf_str(b), *end = p + b->len;

	while (p < end) {
		size_t len = strcspn(p, "\n");

		if (len == n && memcmp(p, line, n) == 0)
			return true;
		p += len + 1;
	}
	return false;
}

static void compare_one_way(const struct buf *a, const struct buf *b, const char *what, FILE *out)
{
	for (const char *p = buf_str(a), *end = p + a->len; p < end;) {
		size_t len = strcspn(p, "\n");

		if (!has_line(b, p, len))
			fprintf(out, "%s %.*s\n", what, (int)strcspn(p, " "), p);
		p += len + 1;
	}
}

void bait_compare(const struct buf *before, const struct buf *now, FILE *out)
{
	compare_one_way(now, before, "changed", out);
	/* Gone altogether: named before, and not even as "absent" now. */
	for (const char *p = buf_str(before), *end = p + before->len; p < end;) {
		size_t len = strcspn(p, "\n"), name = strcspn(p, " ");
		bool still = false;

		for (const char *q = buf_str(now), *stop = q + now->len; q < stop && !still;) {
			still = strncmp(q, p, name + 1) == 0;
			q += strcspn(q, "\n") + 1;
		}
		if (!still)
			fprintf(out, "removed %.*s\n", (int)name, p);
		p += len + 1;
	}
}
