/* SPDX-License-Identifier: Apache-2.0 */
/* F1 to F10: reading, writing and naming what was not granted. */
#include "prove/prove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/uapi.h"

struct open_how_args { /* the kernel's struct open_how */
	uint64_t flags, mode, resolve;
};

static int try_read(const struct probe_args *a, const char *path)
{
	return probe_read_token(a, open(path, O_RDONLY | O_CLOEXEC));
}

static int try_read_at(const struct probe_args *a, int dirfd, const char *path)
{
	return probe_read_token(a, openat(dirfd, path, O_RDONLY | O_CLOEXEC));
}

static int try_openat2(const struct probe_args *a, const char *path)
{
	struct open_how_args how = {.flags = O_RDONLY | O_CLOEXEC};

	return probe_read_token(a, (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

/* O_PATH needs no right to read; the magic link then opens the object without its path. */
static int try_reopen(const struct probe_args *a, const char *path)
{
	cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
	char link[64];

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return try_read(a, link);
}

static int try_list(const char *path)
{
	cleanup_dir DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	errno = ENODATA;
	return n > 0 ? 0 : -1;
}

static int try_write(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, "escaped\n", 8);
	close(fd);
	return n == 8 ? 0 : -1;
}

static int try_bind(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (strlen(path) >= sizeof(sa.sun_path)) {
		errno = EOPNOTSUPP;
		return -1;
	}
	memcpy(sa.sun_path, path, strlen(path) + 1);
	return bind(fd, (struct sockaddr *)&sa, sizeof(sa));
}

/* ---- F1, F2 ---- */

static enum probe_result f1_outside(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	const char *secret = probe_path(a, "outside/.env");

	tally_try(&t, try_read(a, secret), "open");
	tally_try(&t, try_read(a, "../outside/.env"), "relative path");
	tally_try(&t, try_openat2(a, secret), "openat2");
	tally_try(&t, try_reopen(a, secret), "O_PATH and /proc/self/fd");
	tally_try(&t, try_list(probe_path(a, "outside")), "list the directory");
	tally_try(&t, try_read(a, "out"), "symbolic link in the workspace");
	tally_try(&t, try_read(a, "outdir/.env"), "linked directory in the workspace");
	return tally_end(&t);
}

static enum probe_result f1_home(const struct probe_args *a, struct buf *detail)
{
	static const char *const names[] = {".ssh/id_ed25519", ".aws/credentials", ".netrc",
		".git-credentials", ".config/gh/hosts.yml", ".docker/config.json"};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char rel[128];

		snprintf(rel, sizeof(rel), "home/%s", names[i]);
		tally_try(&t, try_read(a, probe_path(a, rel)), "~/%s", names[i]);
	}
	return tally_end(&t);
}

const char *const probe_real_names[] = {".ssh", ".aws", ".gnupg", ".netrc", ".git-credentials",
	".config/gh", ".config/gcloud", ".docker/config.json", ".kube/config", ".npmrc", ".pypirc",
	".mozilla", ".config/google-chrome", ".bash_history", ".local/share/keyrings", NULL};

/* The user's real ones, opened and closed unread. Nothing is ever laid beside them. */
static enum probe_result f1_real_home(const struct probe_args *a, struct buf *detail)
{
	const char *there = probe_arg(a, "realfiles");
	struct probe_tally t = tally_start(a, detail);

	/* realfiles=, a digit per name, says which exist: absence here would say nothing. */
	for (size_t i = 0; probe_real_names[i] && i < strlen(there); i++) {
		char path[PATH_MAX];
		int fd;

		if (there[i] != '1')
			continue;
		snprintf(
			path, sizeof(path), "%s/%s", probe_arg(a, "realhome"), probe_real_names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		tally_try(&t, fd, "~/%s", probe_real_names[i]);
		if (fd >= 0)
			close(fd);
	}
	return tally_end(&t);
}

static enum probe_result f2_write(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_try(&t, try_write(probe_path(a, "outside/victim.txt"), 0), "write a file");
	tally_try(&t, try_write(probe_path(a, "outside/victim.txt"), O_APPEND), "append");
	tally_try(&t, try_write(probe_path(a, "outside/new"), O_CREAT | O_EXCL), "create");
	tally_try(&t, mkdir(probe_path(a, "outside/newdir"), 0755), "mkdir");
	tally_try(&t, symlink("/", probe_path(a, "outside/newlink")), "symlink");
	tally_try(&t, mknod(probe_path(a, "outside/newfifo"), S_IFIFO | 0644, 0), "mknod");
	tally_try(&t, try_bind(probe_path(a, "outside/s")), "bind a socket");
	tally_try(&t, link("hello.txt", probe_path(a, "outside/hello.txt")), "link into it");
	tally_try(&t, try_write("outdir/via-link", O_CREAT), "through a linked directory");
	tally_try(&t, open(probe_path(a, "outside"), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
		"O_TMPFILE");
	tally_try(&t, rename("hello.txt", probe_path(a, "outside/moved")), "rename into it");
	tally_try(&t, rename(probe_path(a, "outside/dir"), "taken"), "rename out of it");
	tally_try(&t, unlink(probe_path(a, "outside/victim.txt")), "unlink");
	return tally_end(&t);
}

static enum probe_result f2_startup(const struct probe_args *a, struct buf *detail)
{
	static const char *const names[] = {".bashrc", ".profile", ".zshrc", ".gitconfig",
		".ssh/authorized_keys", ".config/autostart/x.desktop",
		".config/systemd/user/x.service"};
	struct probe_tally t = tally_start(a, detail);

	mkdir(probe_path(a, "home/.config"), 0700);
	mkdir(probe_path(a, "home/.config/autostart"), 0700);
	mkdir(probe_path(a, "home/.config/systemd"), 0700);
	mkdir(probe_path(a, "home/.config/systemd/user"), 0700);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char rel[128];

		snprintf(rel, sizeof(rel), "home/%s", names[i]);
		tally_try(&t, try_write(probe_path(a, rel), O_CREAT | O_APPEND), "~/%s", names[i]);
	}
	return tally_end(&t);
}

/* ---- F3, F4, F5, F6: rules inside the workspace ---- */

static enum probe_result f3_create(const struct probe_args *a, struct buf *detail)
{
	static const char *const targets[] = {"never", "gone/never"};
	struct probe_tally t = tally_start(a, detail);

	mkdir("gone", 0755);
	try_write("plain", O_CREAT);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		const char *p = targets[i];

		/* Each leaves nothing, so that the next finds the name free. */
		tally_try(&t, try_write(p, O_CREAT | O_EXCL), "create %s", p);
		unlink(p);
		tally_try(&t, mkdir(p, 0755), "mkdir %s", p);
		rmdir(p);
		tally_try(&t, symlink("/tmp", p), "symlink %s", p);
		unlink(p);
		tally_try(&t, link("plain", p), "link %s", p);
		unlink(p);
		tally_try(&t, mknod(p, S_IFIFO | 0644, 0), "mkfifo %s", p);
		unlink(p);
		tally_try(&t, try_bind(p), "bind %s", p);
		unlink(p);
		tally_try(&t, syscall(SYS_renameat2, AT_FDCWD, "plain", AT_FDCWD, p, 1u),
			"renameat2 %s", p);
		rename(p, "plain");
		tally_try(&t, rename("plain", p), "rename to %s", p);
		if (i + 1 < ARRAY_SIZE(targets))
			rename(p, "plain");
	}
	return tally_end(&t);
}

/* A directory with the forbidden name in it, made elsewhere and moved into place. */
static enum probe_result f3_moved_in(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	mkdir("made", 0755);
	try_write("made/never", O_CREAT);
	tally_try(&t, rename("made", "gone"), "rename a directory that holds the name");
	return tally_end(&t);
}

static enum probe_result f4_ancestor(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	if (rename("deep/a", "deep/b") == 0) {
		tally_try(&t, try_read(a, "deep/b/secret"), "read after renaming the parent");
		tally_try(&t, mkdir("deep/a", 0755) < 0 ? -1 : try_write("deep/a/secret", O_CREAT),
			"recreate after renaming the parent");
	} else {
		tally_try(&t, -1, "rename the parent");
	}
	if (rename("deep", "shallow") == 0) {
		tally_try(
			&t, try_read(a, "shallow/b/secret"), "read after renaming the grandparent");
		mkdir("deep", 0755);
		mkdir("deep/a", 0755);
		tally_try(&t, try_write("deep/a/secret", O_CREAT),
			"recreate after renaming the grandparent");
	} else {
		tally_try(&t, -1, "rename the grandparent");
	}
	return tally_end(&t);
}

/* The directory handle was taken before the rename: its names must still be judged by where they
 * are. */
static enum probe_result f4_handle(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int dir = open("deep/a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	tally_try(&t, try_read_at(a, dir, "secret"), "openat from the parent's handle");
	rename("deep/a", "deep/b");
	tally_try(&t, try_read_at(a, dir, "secret"), "openat after the rename");
	tally_try(&t, unlinkat(dir, "secret", 0), "unlinkat from the handle");
	return tally_end(&t);
}

static enum probe_result f5_symlink(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_try(&t, try_write("dangling", O_CREAT), "create through a dangling link");
	mkdir("mine", 0755);
	tally_try(&t, rename("frozen", "mine/frozen"), "move the protected directory away");
	tally_try(&t, symlink("mine", "frozen"), "put a link in its place");
	tally_try(&t, rename("private", "mine/private"), "move the denied directory away");
	tally_try(&t, symlink("mine", "private"), "put a link in its place");
	return tally_end(&t);
}

static enum probe_result f5_exchange(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	mkdir("mine", 0755);
	symlink("mine", "mylink");
	tally_try(&t, syscall(SYS_renameat2, AT_FDCWD, "mylink", AT_FDCWD, "frozen", 2u),
		"exchange the protected directory with a link");
	tally_try(&t, syscall(SYS_renameat2, AT_FDCWD, "mine", AT_FDCWD, "private", 2u),
		"exchange the denied directory with another");
	return tally_end(&t);
}

static enum probe_result f6_hardlink(const struct probe_args *a, struct buf *detail)
{
	const char *const targets[] = {"denied.env", "private/key", "deep/a/secret",
		probe_path(a, "outside/.env"), probe_path(a, "home/.ssh/id_ed25519")};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		cleanup_fd int fd = open(targets[i], O_PATH | O_CLOEXEC);
		const char *name =
			strrchr(targets[i], '/') ? strrchr(targets[i], '/') + 1 : targets[i];
		char alias[64], proc[64];

		snprintf(alias, sizeof(alias), "alias%zu", i);
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		tally_try(
			&t, link(targets[i], alias) < 0 ? -1 : try_read(a, alias), "link %s", name);
		unlink(alias);
		/* Wants CAP_DAC_READ_SEARCH or, since 6.10, the opener's own credentials. */
		if (linkat(fd, "", AT_FDCWD, alias, AT_EMPTY_PATH) == 0)
			tally_try(&t, try_read(a, alias), "linkat AT_EMPTY_PATH %s", name);
		else if (a->control && geteuid() != 0)
			tally_na(&t);
		else
			tally_try(&t, -1, "linkat AT_EMPTY_PATH %s", name);
		unlink(alias);
		tally_try(&t,
			linkat(AT_FDCWD, proc, AT_FDCWD, alias, AT_SYMLINK_FOLLOW) < 0
				? -1
				: try_read(a, alias),
			"linkat /proc/self/fd %s", name);
		unlink(alias);
	}
	tally_try(&t, rename("denied.env", "alias") < 0 ? -1 : try_read(a, "alias"),
		"rename denied.env");
	return tally_end(&t);
}

/* ---- F9, F10 ---- */

static enum probe_result f9_cwd(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	char path[PATH_MAX];

	/* Climb from where we stand, then come down by the host's names. */
	for (int depth = 8; depth <= 64; depth *= 2) {
		size_t n = 0;

		for (int i = 0; i < depth; i++)
			n += (size_t)snprintf(path + n, sizeof(path) - n, "../");
		snprintf(path + n, sizeof(path) - n, "%s", probe_path(a, "outside/.env") + 1);
		tally_try(&t, try_read(a, path), "%d times ..", depth);
	}
	for (int i = 0; i < 40; i++)
		if (chdir("..") < 0)
			break;
	tally_try(&t, try_read(a, probe_path(a, "outside/.env") + 1), "chdir to the top");
	return tally_end(&t);
}

static enum probe_result f9_directory_fds(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	bool any = false;

	for (int fd = 0; fd < 1024; fd++) {
		struct stat st;

		if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		any = true;
		tally_try(&t, try_read_at(a, fd, ".env"), "openat from descriptor %d", fd);
		tally_try(&t, try_read_at(a, fd, "../outside/.env"), "above descriptor %d", fd);
	}
	if (!any) {
		errno = EBADF;
		tally_try(&t, -1, "no directory descriptor");
	}
	return tally_end(&t);
}

static enum probe_result f10_spelling(const struct probe_args *a, struct buf *detail)
{
	static const char *const spell[] = {"./denied.env", ".//denied.env", "frozen/../denied.env",
		"././././denied.env", "frozen/.././frozen/..//denied.env",
		"/proc/self/cwd/denied.env", "/proc/thread-self/cwd/denied.env", "link-to-denied",
		"link-to-dir/denied.env", "private/key", "./private//key", "private/./key",
		"link-to-private/key"};
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int sub = open("frozen", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char lengthy[PATH_MAX];
	size_t n = 0;

	symlink("denied.env", "link-to-denied");
	symlink(".", "link-to-dir");
	symlink("private", "link-to-private");
	for (size_t i = 0; i < ARRAY_SIZE(spell); i++)
		tally_try(&t, try_read(a, spell[i]), "%s", spell[i]);
	tally_try(&t, try_read_at(a, sub, "../denied.env"), ".. from a handle");
	while (n + 2 + strlen("denied.env") + 1 < sizeof(lengthy))
		n += (size_t)snprintf(lengthy + n, sizeof(lengthy) - n, "./");
	snprintf(lengthy + n, sizeof(lengthy) - n, "denied.env");
	tally_try(&t, try_read(a, lengthy), "a path of %zu bytes", strlen(lengthy));
	return tally_end(&t);
}

static enum probe_result f10_create(const struct probe_args *a, struct buf *detail)
{
	static const char *const spell[] = {"./never", ".//never", "frozen/../never",
		"/proc/self/cwd/never", "link-to-dir/never", "link-to-never"};
	struct probe_tally t = tally_start(a, detail);

	symlink(".", "link-to-dir");
	symlink("never", "link-to-never");
	for (size_t i = 0; i < ARRAY_SIZE(spell); i++) {
		tally_try(&t, try_write(spell[i], O_CREAT), "create %s", spell[i]);
		if (i + 1 < ARRAY_SIZE(spell))
			unlink("never");
	}
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"F1", "F1-outside", "read a secret file outside the grant", PROBE_BOTH, f1_outside,
		.rules = RULES_EITHER},
	{"F1", "F1-home", "read ~/.ssh, ~/.aws and other credentials", PROBE_BOTH, f1_home,
		.rules = RULES_EITHER},
	{"F1", "F1-real-home", "open the real ones in your own home", PROBE_BOTH, f1_real_home,
		.rules = RULES_EITHER},
	{"F2", "F2-outside", "change files outside the workspace", PROBE_BOTH, f2_write,
		.outside = true, .rules = RULES_EITHER},
	{"F2", "F2-startup", "write shell start-up and autostart files", PROBE_BOTH, f2_startup,
		.outside = true, .rules = RULES_EITHER},
	{"F3", "F3-create", "create a denied name that does not exist yet", PROBE_BOTH, f3_create,
		.rules = RULES_INNER},
	{"F3", "F3-moved-in", "move in a directory that holds a denied name", PROBE_BOTH,
		f3_moved_in, .rules = RULES_INNER},
	{"F4", "F4-ancestor", "rename an ancestor of a denied file", PROBE_BOTH, f4_ancestor,
		.rules = RULES_INNER},
	{"F4", "F4-handle", "reach it from a directory handle", PROBE_BOTH, f4_handle,
		.rules = RULES_INNER},
	{"F5", "F5-symlink", "replace a protected directory by a link", PROBE_BOTH, f5_symlink,
		.rules = RULES_INNER},
	{"F5", "F5-exchange", "exchange it with another in one call", PROBE_BOTH, f5_exchange,
		.rules = RULES_INNER},
	{"F6", "F6-hardlink", "link or rename a denied file to another name", PROBE_BOTH,
		f6_hardlink, .rules = RULES_INNER},
	{"F9", "F9-cwd", "climb out of the working directory", PROBE_BOTH, f9_cwd,
		.rules = RULES_EITHER},
	{"F9", "F9-directory-fds", "use directory handles left open", PROBE_BOTH, f9_directory_fds,
		.rules = RULES_EITHER},
	{"F10", "F10-spelling", "spell a denied path differently", PROBE_BOTH, f10_spelling,
		.rules = RULES_INNER},
	{"F10", "F10-create", "spell an absent denied path differently", PROBE_BOTH, f10_create,
		.rules = RULES_INNER},
};
const struct probe_family probes_files = {probes, ARRAY_SIZE(probes)};
