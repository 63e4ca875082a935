/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoy filesystem against the real kernel: a child mounts it in its own user and mount
 * namespace and tries things in lock-step; this process serves, and compares what it was told with
 * what was done.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <dirent.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/fuse.h"
#include "os/uapi.h"

#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 4
#endif

#define TOUCHES_MAX 64
#define NONE (-1)

enum { SLOT_DIR, SLOT_SECRET, SLOT_STARTUP };
static const enum decoy_kind kinds[] = {
	[SLOT_DIR] = DECOY_DIR, [SLOT_SECRET] = DECOY_SECRET, [SLOT_STARTUP] = DECOY_STARTUP};

/* Beside the slots: one that spans several reads, one that cannot be made. */
static const char *const files[] = {"list.pem", "broken"};
static char list[300001];

static int content(void *arg, size_t file, const void **ret, size_t *ret_n)
{
	if (file != 0)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(list); i++)
		list[i] = (char)('a' + i % 23);
	*ret = list;
	*ret_n = sizeof(list);
	return 0;
}

struct touch {
	int slot, op;
	char name[DECOYFS_NAME_MAX + 1];
};

struct world {
	struct decoyfs fs;
	struct touch touches[TOUCHES_MAX];
	size_t touches_n;
	pid_t child;
	int sock; /* lock-step with the child: a step number there, its result back */
	char dir[64];
};

static void touched(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid)
{
	struct world *w = arg;
	struct touch *t = &w->touches[w->touches_n % TOUCHES_MAX];

	t->slot = (int)slot;
	t->op = (int)op;
	snprintf(t->name, sizeof(t->name), "%s", name ? name : "");
	w->touches_n++;
}

/* ---- the child ---- */

static bool poke(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool send_fd(int sock, int fd)
{
	char c = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	return sendmsg(sock, &m, 0) == 1;
}

static int recv_fd(int sock)
{
	char c, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *h;
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(h), sizeof(int));
	return fd;
}

/* New namespaces, the decoy mounted on dir. Says on the socket how far it got. */
static int child_setup(int sock, const char *dir)
{
	struct err e = ERR_INIT;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char text[64];
	int dev, mnt;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	if (!poke("/proc/self/setgroups", "deny") || !poke("/proc/self/uid_map", text))
		return -errno;
	snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	if (!poke("/proc/self/gid_map", text))
		return -errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (decoyfs_mount(&dev, &mnt, &e) < 0)
		return -e.errnum;
	if (syscall(SYS_move_mount, mnt, "", AT_FDCWD, dir, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	close(mnt);
	if (!send_fd(sock, dev))
		return -errno;
	close(dev);
	return 0;
}

/* ---- what is tried: 0 or a count when it worked, -errno when not ---- */

static int try_open(const char *path, int flags)
{
	cleanup_fd int fd = open(path, flags | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : 0;
}

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

static int try_stat(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	return st.st_uid == geteuid() && st.st_gid == getegid() ? 0 : 1;
}

static int t_stat_dir(void)
{
	return try_stat("0");
}
static int t_stat_secret(void)
{
	return try_stat("1");
}
static int t_stat_root(void)
{
	return try_stat(".");
}
static int t_stat_unknown(void)
{
	return try_stat("3");
}
static int t_stat_zeros(void)
{
	return try_stat("00");
}
static int t_stat_word(void)
{
	return try_stat("id_rsa");
}
static int t_statfs(void)
{
	struct statfs s;

	return result(statfs("1", &s));
}
static int t_list_root(void)
{
	cleanup_dir DIR *d = opendir(".");
	int n = 0;

	if (!d)
		return -errno;
	while (readdir(d))
		n++;
	return n;
}
static int t_read_below(void)
{
	return try_open("0/id_ed25519", O_RDONLY);
}
static int t_read_deep(void)
{
	return try_open("0/a/b/c", O_RDONLY);
}
static int t_read_odd(void)
{
	return try_open("0/\033[2J\nx", O_RDONLY);
}
static int t_read_long(void)
{
	char path[2 + DECOYFS_NAME_MAX + 1] = "0/";

	memset(path + 2, 'n', DECOYFS_NAME_MAX);
	path[2 + DECOYFS_NAME_MAX] = 0;
	return try_open(path, O_RDONLY);
}
static int t_read_too_long(void)
{
	char path[2 + DECOYFS_NAME_MAX + 2] = "0/";

	memset(path + 2, 'n', DECOYFS_NAME_MAX + 1);
	path[2 + DECOYFS_NAME_MAX + 1] = 0;
	return try_open(path, O_RDONLY);
}
static int t_create_below(void)
{
	return try_open("0/authorized_keys", O_WRONLY | O_CREAT);
}
static int t_mkdir_below(void)
{
	return result(mkdir("0/d", 0700));
}
static int t_unlink_below(void)
{
	return result(unlink("0/x"));
}
static int t_list_dir(void)
{
	return try_open("0", O_RDONLY | O_DIRECTORY);
}
static int t_chdir_dir(void)
{
	return result(chdir("0"));
}
static int t_tmpfile_dir(void)
{
	return try_open("0", O_RDWR | O_TMPFILE);
}
static int t_chmod_dir(void)
{
	return result(chmod("0", 0777));
}
static int t_access_dir(void)
{
	return result(access("0", R_OK));
}
static int t_read_secret(void)
{
	return try_open("1", O_RDONLY);
}
static int t_write_secret(void)
{
	return try_open("1", O_WRONLY | O_APPEND);
}
static int t_exists_secret(void)
{
	return result(access("1", F_OK));
}
static int t_access_secret(void)
{
	return result(access("1", R_OK));
}
static int t_xattr_secret(void)
{
	char v[16];

	return getxattr("1", "user.x", v, sizeof(v)) < 0 ? -errno : 0;
}
static int t_path_secret(void)
{
	return try_open("1", O_PATH);
}
static int t_read_startup(void)
{
	cleanup_fd int fd = open("2", O_RDONLY | O_CLOEXEC);
	char c;

	return fd < 0 ? -errno : (int)read(fd, &c, 1);
}
static int t_access_startup(void)
{
	return result(access("2", R_OK));
}
static int t_append_startup(void)
{
	return try_open("2", O_WRONLY | O_APPEND | O_CREAT);
}
static int t_trunc_startup(void)
{
	return try_open("2", O_RDONLY | O_TRUNC);
}
static int t_truncate_startup(void)
{
	return result(truncate("2", 0));
}
static int t_unlink_startup(void)
{
	return result(unlink("2"));
}
static int t_rename_startup(void)
{
	return result(rename("2", "other"));
}
static int t_link_startup(void)
{
	return result(link("2", "other"));
}
static int t_chmod_startup(void)
{
	return result(chmod("2", 0777));
}
static int t_utime_startup(void)
{
	return result(utimensat(AT_FDCWD, "2", NULL, 0));
}
static int t_setxattr_startup(void)
{
	return result(setxattr("2", "user.x", "v", 1, 0));
}
static int t_setxattr_huge(void)
{
	static char v[65536];

	return result(setxattr("2", "user.x", v, sizeof(v), 0));
}
static int t_rmxattr_startup(void)
{
	return result(removexattr("2", "user.x"));
}
static int t_create_root(void)
{
	return try_open("new", O_WRONLY | O_CREAT);
}
static int t_symlink_root(void)
{
	return result(symlink("/", "new"));
}

/* All of it, in pieces that are no pages. */
static int t_read_file(void)
{
	cleanup_fd int fd = open("list.pem", O_RDONLY | O_CLOEXEC);
	char part[7001];
	struct stat st;
	int n = 0, got;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(list) ||
		st.st_mode != (S_IFREG | 0444))
		return -EBADF;
	while ((got = (int)read(fd, part, sizeof(part))) > 0) {
		for (int i = 0; i < got; i++)
			if (part[i] != (char)('a' + (n + i) % 23))
				return -EIO;
		n += got;
	}
	return got < 0 ? -errno : n;
}
static int t_map_file(void)
{
	cleanup_fd int fd = open("list.pem", O_RDONLY | O_CLOEXEC);
	const char *p = mmap(NULL, sizeof(list), PROT_READ, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? -errno : p[sizeof(list) - 1];
}
static int t_read_behind_file(void)
{
	cleanup_fd int fd = open("list.pem", O_RDONLY | O_CLOEXEC);
	char c;

	return (int)pread(fd, &c, 1, 1 << 30);
}
static int t_write_file(void)
{
	return try_open("list.pem", O_WRONLY);
}
static int t_trunc_file(void)
{
	return try_open("list.pem", O_RDONLY | O_TRUNC);
}
static int t_truncate_file(void)
{
	return result(truncate("list.pem", 0));
}
static int t_chmod_file(void)
{
	return result(chmod("list.pem", 0666));
}
static int t_unlink_file(void)
{
	return result(unlink("list.pem"));
}
static int t_access_file(void)
{
	return result(access("list.pem", R_OK));
}
static int t_access_file_write(void)
{
	return result(access("list.pem", W_OK));
}
static int t_broken_file(void)
{
	return try_open("broken", O_RDONLY);
}

static const struct step {
	const char *what;
	int (*run)(void);
	int want, slot, op;
	const char *name;
} steps[] = {
	{"stat root", t_stat_root, 0, NONE, 0, ""},
	{"stat dir", t_stat_dir, 0, NONE, 0, ""},
	{"stat secret", t_stat_secret, 0, NONE, 0, ""},
	{"stat slot that is not", t_stat_unknown, -ENOENT, NONE, 0, ""},
	{"stat slot spelt otherwise", t_stat_zeros, -ENOENT, NONE, 0, ""},
	{"stat a word", t_stat_word, -ENOENT, NONE, 0, ""},
	{"statfs", t_statfs, 0, NONE, 0, ""},
	{"list root", t_list_root, 0, NONE, 0, ""},
	{"read below dir", t_read_below, -EACCES, SLOT_DIR, DECOY_READ, "id_ed25519"},
	{"read below dir again", t_read_below, -EACCES, SLOT_DIR, DECOY_READ, "id_ed25519"},
	{"read deeper", t_read_deep, -EACCES, SLOT_DIR, DECOY_READ, "a"},
	{"odd name", t_read_odd, -EACCES, SLOT_DIR, DECOY_READ, "\033[2J\nx"},
	{"name over every limit", t_read_too_long, -ENAMETOOLONG, NONE, 0, ""},
	{"create below dir", t_create_below, -EACCES, SLOT_DIR, DECOY_READ, "authorized_keys"},
	{"mkdir below dir", t_mkdir_below, -EACCES, SLOT_DIR, DECOY_READ, "d"},
	{"unlink below dir", t_unlink_below, -EACCES, SLOT_DIR, DECOY_READ, "x"},
	{"list dir", t_list_dir, -EACCES, SLOT_DIR, DECOY_READ, ""},
	{"chdir dir", t_chdir_dir, -EACCES, SLOT_DIR, DECOY_READ, ""},
	{"chmod dir", t_chmod_dir, -EACCES, SLOT_DIR, DECOY_META, ""},
	{"access dir", t_access_dir, -EACCES, SLOT_DIR, DECOY_READ, ""},
	{"read secret", t_read_secret, -EACCES, SLOT_SECRET, DECOY_READ, ""},
	{"read secret again", t_read_secret, -EACCES, SLOT_SECRET, DECOY_READ, ""},
	{"write secret", t_write_secret, -EACCES, SLOT_SECRET, DECOY_WRITE, ""},
	{"secret exists", t_exists_secret, 0, NONE, 0, ""},
	{"access secret", t_access_secret, -EACCES, SLOT_SECRET, DECOY_READ, ""},
	{"xattr of secret", t_xattr_secret, -EOPNOTSUPP, NONE, 0, ""},
	{"path of secret", t_path_secret, 0, NONE, 0, ""},
	{"read startup", t_read_startup, 0, NONE, 0, ""},
	{"access startup", t_access_startup, 0, NONE, 0, ""},
	{"append startup", t_append_startup, -EACCES, SLOT_STARTUP, DECOY_WRITE, ""},
	{"open and truncate startup", t_trunc_startup, -EACCES, SLOT_STARTUP, DECOY_WRITE, ""},
	{"truncate startup", t_truncate_startup, -EACCES, SLOT_STARTUP, DECOY_WRITE, ""},
	{"unlink startup", t_unlink_startup, -EACCES, SLOT_STARTUP, DECOY_DELETE, ""},
	{"rename startup", t_rename_startup, -EACCES, SLOT_STARTUP, DECOY_DELETE, ""},
	{"link startup", t_link_startup, -EACCES, SLOT_STARTUP, DECOY_META, ""},
	{"chmod startup", t_chmod_startup, -EACCES, SLOT_STARTUP, DECOY_META, ""},
	{"times of startup", t_utime_startup, -EACCES, SLOT_STARTUP, DECOY_META, ""},
	{"set xattr of startup", t_setxattr_startup, -EACCES, SLOT_STARTUP, DECOY_META, ""},
	{"set huge xattr of startup", t_setxattr_huge, -EACCES, SLOT_STARTUP, DECOY_META, ""},
	{"remove xattr of startup", t_rmxattr_startup, -EACCES, SLOT_STARTUP, DECOY_META, ""},
	{"read file", t_read_file, sizeof(list), NONE, 0, ""},
	{"read file again", t_read_file, sizeof(list), NONE, 0, ""},
	{"map file", t_map_file, 'a' + (sizeof(list) - 1) % 23, NONE, 0, ""},
	{"read behind file", t_read_behind_file, 0, NONE, 0, ""},
	{"write file", t_write_file, -EROFS, NONE, 0, ""},
	{"open and truncate file", t_trunc_file, -EACCES, NONE, 0, ""},
	{"truncate file", t_truncate_file, -EACCES, NONE, 0, ""},
	{"chmod file", t_chmod_file, -EACCES, NONE, 0, ""},
	{"unlink file", t_unlink_file, -EACCES, NONE, 0, ""},
	{"access file", t_access_file, 0, NONE, 0, ""},
	{"access file to write", t_access_file_write, -EROFS, NONE, 0, ""},
	{"file that cannot be made", t_broken_file, -EIO, NONE, 0, ""},
	{"create in root", t_create_root, -EACCES, NONE, 0, ""},
	{"symlink in root", t_symlink_root, -EACCES, NONE, 0, ""},
};

/* Results that depend on the kernel's age are checked on their own. */
enum { STEP_LONG = 1000, STEP_TMPFILE, STEP_FLOOD };

static int t_flood(void)
{
	for (int i = 0; i < 2000; i++)
		if (t_read_below() != -EACCES)
			return -EIO;
	return 2000;
}

static void child_main(int sock, const char *dir)
{
	int rc = child_setup(sock, dir), step;

	if (rc < 0) { /* a message without a descriptor, then the reason */
		(void)!write(sock, "", 1);
		(void)!write(sock, &rc, sizeof(rc));
		_exit(1);
	}
	if (chdir(dir) < 0) /* waits for the server: FUSE_ACCESS of the root */
		_exit(2);
	while (read(sock, &step, sizeof(step)) == sizeof(step)) {
		rc = step == STEP_LONG      ? t_read_long()
		     : step == STEP_TMPFILE ? t_tmpfile_dir()
		     : step == STEP_FLOOD   ? t_flood()
					    : steps[step].run();
		if (write(sock, &rc, sizeof(rc)) != sizeof(rc))
			_exit(3);
	}
	_exit(0);
}

/* ---- this side ---- */

static void world_close(struct world *w)
{
	close_fd(&w->sock);
	close_fd(&w->fs.dev_fd);
	if (w->child > 0)
		waitpid(w->child, NULL, 0);
	rmdir(w->dir);
}

/* NULL, or why the machine cannot do this. */
static const char *world_open(struct world *w)
{
	static char why[128];
	int pair[2];

	*w = (struct world){.sock = -1, .dir = "/tmp/test-fuse-XXXXXX"};
	w->fs = (struct decoyfs){.dev_fd = -1,
		.slots_n = 3,
		.kinds = kinds,
		.touched = touched,
		.files = files,
		.files_n = ARRAY_SIZE(files),
		.content = content,
		.arg = w};
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		return "no usable /dev/fuse";
	if (!mkdtemp(w->dir) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return "no temporary directory or socket";
	w->child = fork();
	if (w->child == 0) {
		close(pair[0]);
		child_main(pair[1], w->dir);
	}
	close(pair[1]);
	w->sock = pair[0];
	w->fs.dev_fd = recv_fd(w->sock);
	if (w->fs.dev_fd < 0) {
		int rc = -EIO;

		(void)!read(w->sock, &rc, sizeof(rc));
		snprintf(why, sizeof(why), "no user namespace or FUSE mount: %s", strerror(-rc));
		world_close(w);
		return why;
	}
	return NULL;
}

/* Serve until the child has answered; -EIO when it died instead. */
static int world_wait(struct world *w)
{
	for (;;) {
		struct pollfd p[2] = {{w->fs.dev_fd, POLLIN, 0}, {w->sock, POLLIN, 0}};
		int rc = -EIO;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents && decoyfs_serve(&w->fs) < 0)
			return -ENODEV;
		if (p[1].revents)
			return read(w->sock, &rc, sizeof(rc)) == sizeof(rc) ? rc : -EIO;
	}
}

static int world_step(struct world *w, int step)
{
	w->touches_n = 0;
	if (write(w->sock, &step, sizeof(step)) != sizeof(step))
		return -EIO;
	return world_wait(w);
}

static void check_step(struct world *w, int i)
{
	const struct step *s = &steps[i];
	int rc = world_step(w, i);

	if (rc != s->want)
		test_fail(__FILE__, __LINE__, "%s: %d, not %d", s->what, rc, s->want);
	else if (s->slot == NONE && w->touches_n)
		test_fail(__FILE__, __LINE__, "%s: reported", s->what);
	else if (s->slot != NONE && w->touches_n != 1)
		test_fail(__FILE__, __LINE__, "%s: reported %zu times", s->what, w->touches_n);
	else if (s->slot != NONE && (w->touches[0].slot != s->slot || w->touches[0].op != s->op ||
					    strcmp(w->touches[0].name, s->name) != 0))
		test_fail(__FILE__, __LINE__, "%s: reported slot %d op %d name \"%s\"", s->what,
			w->touches[0].slot, w->touches[0].op, w->touches[0].name);
}

TEST(decoys_refuse_and_tell)
{
	struct world w;
	const char *why = world_open(&w);

	if (why)
		SKIP(why);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		check_step(&w, (int)i);
	world_close(&w);
}

TEST(decoy_sees_the_longest_name_and_unnamed_files)
{
	struct world w;
	const char *why = world_open(&w);
	int rc;

	if (why)
		SKIP(why);
	rc = world_step(&w, STEP_LONG);
	if (rc != -EACCES || w.touches_n != 1 || strlen(w.touches[0].name) != DECOYFS_NAME_MAX)
		test_fail(__FILE__, __LINE__, "long name: %d, %zu reports", rc, w.touches_n);
	rc = world_step(&w, STEP_TMPFILE); /* before 6.1 the kernel answers by itself */
	if (!(rc == -EACCES && w.touches_n == 1 && w.touches[0].op == DECOY_CREATE) &&
		rc != -EOPNOTSUPP)
		test_fail(__FILE__, __LINE__, "O_TMPFILE: %d, %zu reports", rc, w.touches_n);
	world_close(&w);
}

TEST(decoy_mount_does_not_wait_for_its_server)
{
	struct world w;
	const char *why = world_open(&w); /* mounted and attached without us */
	struct pollfd p;

	if (why)
		SKIP(why);
	p = (struct pollfd){.fd = w.sock, .events = POLLIN};
	CHECK_INT(write(w.sock, &(int){0}, sizeof(int)), sizeof(int));
	CHECK_INT(poll(&p, 1, 0), 0); /* the child waits */
	CHECK_INT(world_wait(&w), 0); /* and goes on once served */
	CHECK_INT(w.touches_n, 0);
	world_close(&w);
}

TEST(decoy_waiter_can_be_killed_before_any_server)
{
	struct world w;
	const char *why = world_open(&w);
	int status = 0;

	if (why)
		SKIP(why);
	CHECK_INT(kill(w.child, SIGKILL), 0);
	CHECK_INT(waitpid(w.child, &status, 0), w.child);
	CHECK(WIFSIGNALED(status));
	w.child = 0;
	/* With the namespace the mount goes; the server is told, whatever it still had to read. */
	for (int i = 0; i < 100; i++) {
		struct pollfd p = {w.fs.dev_fd, POLLIN, 0};

		CHECK(poll(&p, 1, 60000) == 1);
		if (decoyfs_serve(&w.fs) == -ENODEV) {
			world_close(&w);
			return;
		}
	}
	CHECK(!"the server is told that the mount is gone");
}

TEST(decoy_floods_do_not_hold_the_server)
{
	struct world w;
	const char *why = world_open(&w);

	if (why)
		SKIP(why);
	CHECK_INT(world_step(&w, STEP_FLOOD), 2000);
	CHECK_INT(w.touches_n, 2000); /* each of them seen */
	world_close(&w);
}

TEST(decoy_without_a_server_fails_instead_of_hanging)
{
	struct world w;
	const char *why = world_open(&w);
	int rc = 0;

	if (why)
		SKIP(why);
	CHECK_INT(world_step(&w, 0), 0);
	close_fd(&w.fs.dev_fd); /* the supervisor died */
	CHECK_INT(write(w.sock, &(int){1}, sizeof(int)), sizeof(int));
	CHECK_INT(read(w.sock, &rc, sizeof(rc)), sizeof(rc));
	CHECK_INT(rc, -ENOTCONN);
	world_close(&w);
}

TEST(decoy_serve_survives_a_device_that_is_none)
{
	struct decoyfs fs = {.dev_fd = -1, .kinds = kinds, .slots_n = 3};
	cleanup_fd int fresh = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	CHECK_INT(decoyfs_serve(&fs), -ENODEV);
	if (fresh < 0)
		SKIP("no usable /dev/fuse");
	fs.dev_fd = fresh; /* never mounted */
	CHECK_INT(decoyfs_serve(&fs), -ENODEV);
}

TEST(decoy_serve_answers_a_bounded_batch)
{
	struct world w = {.sock = -1};
	struct {
		uint32_t len, opcode;
		uint64_t unique, node;
		uint32_t uid, gid, pid, padding;
	} ask = {.len = sizeof(ask), .opcode = 17 /* FUSE_STATFS */, .node = 1};
	int pair[2], size = 1 << 20, answers = 0;
	char junk[256];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	CHECK_INT(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	w.fs = (struct decoyfs){.dev_fd = pair[0], .slots_n = 3, .kinds = kinds};
	for (unsigned i = 0; i < DECOYFS_BATCH_MAX + 10; i++)
		CHECK_INT(write(pair[1], &ask, sizeof(ask)), sizeof(ask));
	CHECK_INT(decoyfs_serve(&w.fs), 0);
	while (read(pair[1], junk, sizeof(junk)) > 0)
		answers++;
	CHECK_INT(answers, DECOYFS_BATCH_MAX);
	CHECK_INT(decoyfs_serve(&w.fs), 0);
	while (read(pair[1], junk, sizeof(junk)) > 0)
		answers++;
	CHECK_INT(answers, DECOYFS_BATCH_MAX + 10);
	close(pair[0]);
	close(pair[1]);
}

/* A socket in place of the kernel: requests that no kernel sends must neither crash nor be
 * believed. */
TEST(decoy_serve_checks_every_size)
{
	struct world w = {.sock = -1};
	int pair[2];
	unsigned seed = 1;

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	w.fs = (struct decoyfs){
		.dev_fd = pair[0], .slots_n = 3, .kinds = kinds, .touched = touched, .arg = &w};
	for (unsigned i = 0; i < 60 * 200; i++) {
		unsigned char m[160], junk[8192];
		uint32_t len, opcode = i % 60;
		uint64_t node = i / 60 % 6;

		for (size_t k = 0; k < sizeof(m); k++)
			m[k] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
		len = 30 + (seed >> 8) % (sizeof(m) - 30);
		if (len % 7 == 0)
			memset(m + 40, 'a', sizeof(m) - 40); /* a name without an end */
		memcpy(m, &(uint32_t){len % 11 == 0 ? len + 1 : len}, 4);
		memcpy(m + 4, &opcode, 4);
		memcpy(m + 16, &node, 8);
		CHECK_INT(write(pair[1], m, len), len);
		CHECK_INT(decoyfs_serve(&w.fs), 0);
		while (read(pair[1], junk, sizeof(junk)) > 0)
			;
	}
	CHECK(w.touches_n > 0);
	close(pair[0]);
	close(pair[1]);
}
