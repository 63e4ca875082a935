/* SPDX-License-Identifier: Apache-2.0 */
/* os/path: one resolution, no symlinks, the same answers with and without openat2. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/tree.h"
#include "os/uapi.h"

static char dir[] = "/tmp/croft-unit-path-XXXXXX";
static bool made;

/* dir/{real/file, link -> real, loop -> loop, "x (deleted)"} */
static bool make_world(void)
{
	char p[PATH_MAX];

	if (made)
		return true;
	if (!mkdtemp(dir))
		return false;
	snprintf(p, sizeof(p), "%s/real", dir);
	mkdir(p, 0755);
	snprintf(p, sizeof(p), "%s/real/file", dir);
	close(open(p, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	snprintf(p, sizeof(p), "%s/link", dir);
	symlink("real", p);
	snprintf(p, sizeof(p), "%s/loop", dir);
	symlink("loop", p);
	snprintf(p, sizeof(p), "%s/x (deleted)", dir);
	close(open(p, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	made = true;
	return true;
}

__attribute__((destructor)) static void remove_world(void)
{
	if (made)
		tree_remove_at(AT_FDCWD, dir);
}

static int try_open(const char *name, unsigned flags)
{
	char p[PATH_MAX];
	int fd;

	snprintf(p, sizeof(p), "%s/%s", dir, name);
	fd = path_open(AT_FDCWD, p, O_PATH, flags);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int answers(void)
{
	if (try_open("real/file", PATH_NO_SYMLINKS) != 0)
		return 1;
	if (try_open("link/file", PATH_NO_SYMLINKS) != -ELOOP)
		return 2;
	if (try_open("link", PATH_NO_SYMLINKS) != -ELOOP)
		return 3;
	if (try_open("loop", PATH_NO_SYMLINKS) != -ELOOP)
		return 4;
	if (try_open("real/none", PATH_NO_SYMLINKS) != -ENOENT)
		return 5;
	if (try_open("real/file/none", PATH_NO_SYMLINKS) >= 0)
		return 6;
	return 0;
}

TEST(symlinks_are_refused_with_openat2)
{
	CHECK(make_world());
	CHECK_INT(answers(), 0);
}

/* The choice is made once per process: a child makes it anew. */
TEST(the_fallback_gives_the_same_answers)
{
	int status;
	pid_t pid;

	CHECK(make_world());
	pid = fork();
	if (pid == 0) {
		setenv("CROFT_FORCE_FAIL", "openat2", 1);
		execl("/proc/self/exe", "unit-path", "symlinks_are_refused", (char *)NULL);
		_exit(99);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(WEXITSTATUS(status), 0);
}

TEST(beneath_cannot_leave)
{
	cleanup_fd int d = -1;

	CHECK(make_world());
	d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(path_open(d, "../etc", O_PATH, PATH_BENEATH) < 0);
	CHECK(path_open(d, "/etc", O_PATH, PATH_BENEATH) < 0);
	cleanup_fd int ok = path_open(d, "real", O_PATH, PATH_BENEATH);
	CHECK(ok >= 0);
}

/* Renames for ever: such a lookup then meets a rename somewhere on the machine. */
static pid_t start_renaming(int d)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mkdirat(d, "here", 0755);
	for (;;) {
		renameat(d, "here", d, "there");
		renameat(d, "there", d, "here");
	}
}

TEST(a_rename_elsewhere_does_not_fail_a_lookup_beneath)
{
	static const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
	int cut = 0, failed = 0, fd;
	cleanup_fd int d = -1;
	pid_t pid;

	if (forced_fail("openat2"))
		SKIP("openat2 is forced away");
	CHECK(make_world());
	d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid = start_renaming(d);
	CHECK(pid > 0);
	for (int i = 0; i < 200000 && (i < 20000 || cut < 10); i++) {
		fd = (int)syscall(SYS_openat2, d, "real/../real", &how, sizeof(how));
		cut += fd < 0 && errno == EAGAIN;
		if (fd >= 0)
			close(fd);
		fd = path_open(d, "real/../real", O_PATH, PATH_BENEATH);
		failed += fd < 0;
		if (fd >= 0)
			close(fd);
	}
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK_INT(failed, 0);
	if (cut == 0)
		SKIP("no lookup met a rename");
}

TEST(resolve_names_the_object_not_the_spelling)
{
	char p[PATH_MAX], canon[PATH_MAX], want[PATH_MAX];
	int fd;

	CHECK(make_world());
	snprintf(p, sizeof(p), "%s/link/../link/file", dir);
	snprintf(want, sizeof(want), "%s/real/file", dir);
	fd = path_resolve(p, canon, sizeof(canon));
	CHECK(fd >= 0);
	close(fd);
	CHECK_STR(canon, want);
	snprintf(p, sizeof(p), "%s/none", dir);
	CHECK_INT(path_resolve(p, canon, sizeof(canon)), -ENOENT);
}

TEST(a_file_called_deleted_is_not_deleted)
{
	char p[PATH_MAX], name[PATH_MAX];
	cleanup_fd int fd = -1;

	CHECK(make_world());
	snprintf(p, sizeof(p), "%s/x (deleted)", dir);
	fd = open(p, O_PATH | O_CLOEXEC);
	CHECK_INT(path_of_fd(fd, name, sizeof(name)), 0);
	CHECK_STR(name, p);
	unlink(p);
	CHECK_INT(path_of_fd(fd, name, sizeof(name)), -ENOENT);
}

TEST(reading_has_a_maximum)
{
	cleanup_buf struct buf b = BUF_INIT(8);

	CHECK_INT(file_read_at(AT_FDCWD, "/proc/self/status", &b), -EFBIG);
}

TEST(replace_is_whole_or_nothing)
{
	cleanup_buf struct buf b = BUF_INIT(64);
	cleanup_fd int d = -1;

	CHECK(make_world());
	d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(file_replace_at(d, "r", "one", 3, 0600), 0);
	CHECK_INT(file_replace_at(d, "r", "two!", 4, 0600), 0);
	CHECK_INT(file_read_at(d, "r", &b), 0);
	CHECK_STR(buf_str(&b), "two!");
}

static bool count_one(void *arg, const char *path, const struct stat *st)
{
	++*(int *)arg;
	return true;
}

TEST(deep_and_unreadable_trees_are_removed)
{
	cleanup_fd int d = -1;
	int cur, n = 0;

	CHECK(make_world());
	d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(mkdirat(d, "deep", 0755), 0);
	cur = openat(d, "deep", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < TREE_DEPTH_MAX + 50; i++) {
		int next;

		mkdirat(cur, "a", 0755);
		next = openat(cur, "a", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(cur);
		cur = next;
	}
	close(cur);
	mkdirat(d, "deep/shut", 0);
	CHECK_INT(tree_remove_at(d, "deep"), 0);
	CHECK(faccessat(d, "deep", F_OK, 0) < 0);
	/* A symlink is removed, not followed. */
	CHECK_INT(tree_remove_at(d, "loop"), 0);
	CHECK(faccessat(d, "real/file", F_OK, 0) == 0);
	CHECK(tree_walk(d, 1000, count_one, &n));
	CHECK(n >= 1);
}
