/* SPDX-License-Identifier: Apache-2.0 */
/* engine: the broker against callers that lie, race, block and die. */
#include "broker_world.h"

/* ---- what means something else to the broker ---- */

static void body_self(void)
{
	char path[128], text[32] = "";
	int p[2], fd, n;

	EXPECT(pipe(p) == 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", p[1]);
	EXPECT((fd = open(path, O_WRONLY)) >= 0 && write(fd, "one", 3) == 3);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p[1]);
	EXPECT((fd = open(path, O_WRONLY | O_TRUNC)) >= 0 && write(fd, "two", 3) == 3);
	snprintf(path, sizeof(path), "//proc/./thread-self///fd/%d", p[1]);
	EXPECT((fd = open(path, O_WRONLY)) >= 0 && write(fd, "3", 1) == 1);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), p[1]);
	EXPECT((fd = open(path, O_WRONLY)) >= 0 && write(fd, "4", 1) == 1);
	EXPECT(dup2(p[1], 1) == 1 && (fd = open("/dev/stdout", O_WRONLY)) >= 0);
	EXPECT(write(fd, "5", 1) == 1);
	/* Followed by hand, which needs openat2 to stop at the magic link. */
	EXPECT(symlink("/dev/stdout", "log") == 0);
	fd = open(getenv("CROFT_FORCE_FAIL") ? "/dev/stdout" : "log", O_WRONLY | O_APPEND);
	EXPECT(fd >= 0 && write(fd, "6", 1) == 1);
	EXPECT((n = (int)read(p[0], text, sizeof(text))) == 10 &&
		memcmp(text, "onetwo3456", 10) == 0);
	REFUSED(open("/dev/fd/9999", O_WRONLY), ENOENT);
	EXPECT(open("/dev/null", O_WRONLY) >= 0 && open("/dev/zero", O_RDWR) >= 0);
	/* Through its own links into the tree: judged by where they lead. */
	EXPECT(open("/proc/self/cwd/file", O_WRONLY) >= 0);
	REFUSED(open("/proc/self/cwd/secret/key", O_WRONLY), EACCES);
	snprintf(path, sizeof(path), "/proc/self/root%s/file", other);
	REFUSED(open(path, O_WRONLY), EACCES);
	fd = open("ro/file", O_RDONLY);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	REFUSED(open(path, O_WRONLY), EACCES);
	REFUSED(chmod(path, 0777), EACCES);
	fd = open(other, O_PATH | O_DIRECTORY);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/file", fd);
	REFUSED(open(path, O_WRONLY), EACCES);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/new", fd);
	REFUSED(open(path, O_WRONLY | O_CREAT, 0600), EACCES);
}

TEST(broker_reads_proc_self_and_dev_fd_as_the_callers)
{
	world();
	RUN(body_self);
	CHECK(noted(NOTICE_WRITE, true, "/ro/file", ws));
	CHECK(holds(other, "file", "host") && !present(other, "new"));
	tidy();
	with_forced("openat2", body_self);
}

static void body_others(void)
{
	static const char *const names[] = {"mem", "comm", "oom_score_adj", "fd/3", "fd/4",
		"cwd/file", "root/tmp/x", "environ", "attr/current"};
	char path[128], link_to[64];
	pid_t broker = getppid();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)broker, names[i]);
		EXPECT(open(path, O_RDWR) < 0);
		EXPECT(open(path, O_WRONLY | O_CREAT, 0600) < 0);
	}
	for (int fd = 0; fd < 16; fd++) {
		snprintf(link_to, sizeof(link_to), "/proc/%d/fd/%d", (int)broker, fd);
		snprintf(path, sizeof(path), "fd%d", fd);
		EXPECT(symlink(link_to, path) == 0 && open(path, O_RDWR) < 0);
		EXPECT(open(link_to, O_WRONLY) < 0);
	}
	REFUSED(open("/proc/self/mem", O_RDWR), EACCES);
	REFUSED(open("/proc/1/oom_score_adj", O_WRONLY), EACCES);
	REFUSED(open("/proc/sys/kernel/core_pattern", O_WRONLY), EACCES);
}

TEST(broker_lends_nothing_of_its_own)
{
	world();
	RUN(body_others);
	tidy();
	with_forced("openat2", body_others);
}

static void body_own_output(void)
{
	int fd = open("/dev/stdout", O_WRONLY | O_APPEND);

	/* Held open for writing by whoever started us: a second descriptor gives nothing new. */
	EXPECT(fd >= 0 && write(fd, "again", 5) == 5);
	REFUSED(open("/dev/stdout", O_RDWR), EACCES);
}

TEST(broker_lets_a_caller_name_what_it_holds)
{
	int saved, fd;

	world();
	fflush(stdout);
	saved = dup(1);
	fd = open(in(other, "log"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	dup2(fd, 1);
	run_with(body_own_output, BROKERED, true);
	dup2(saved, 1);
	close(saved);
	close(fd);
	if (fault->line)
		test_fail(__FILE__, fault->line, "%s (errno %d)", fault->what, fault->errnum);
	CHECK_INT(run.status, 0);
	CHECK(holds(other, "log", "again"));
	tidy();
}

/* ---- hostile arguments ---- */

static void body_hostile(void)
{
	static char name[NAME_MAX + 2], path[PATH_MAX + 64];
	struct stat st;

	memset(name, 'n', sizeof(name) - 1);
	memset(path, '/', sizeof(path) - 1);
	REFUSED(syscall(SYS_openat, AT_FDCWD, 8, O_WRONLY), EFAULT);
	REFUSED(syscall(SYS_openat, AT_FDCWD, -1, O_WRONLY), EFAULT);
	REFUSED(syscall(SYS_openat, AT_FDCWD, 0, O_WRONLY), EFAULT);
	REFUSED(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, 16, 0), EFAULT);
	REFUSED(syscall(SYS_setxattr, "file", 1, "v", 1, 0), EFAULT);
	REFUSED(syscall(SYS_utimensat, AT_FDCWD, "file", 3, 0), EFAULT);
	REFUSED(open(path, O_WRONLY), ENAMETOOLONG);
	REFUSED(open(name, O_CREAT | O_WRONLY, 0600), ENAMETOOLONG);
	REFUSED(mkdir(name, 0700), ENAMETOOLONG);
	name[NAME_MAX] = '\0';
	EXPECT(mkdir(name, 0700) == 0 && rmdir(name) == 0);
	REFUSED(open("", O_WRONLY), ENOENT);
	REFUSED(open("", O_WRONLY | O_CREAT, 0600), ENOENT);
	REFUSED(mkdir("", 0700), ENOENT);
	REFUSED(symlink("", "x"), ENOENT);
	REFUSED(rename("file", ""), ENOENT);
	REFUSED(fchownat(AT_FDCWD, "", 0, 0, 0), ENOENT);
	REFUSED(openat(99, "x", O_WRONLY), EBADF);
	REFUSED(openat(-7, "x", O_WRONLY), EBADF);
	REFUSED(fchmod(99, 0600), EBADF);
	REFUSED(fchmod(-1, 0600), EBADF);
	REFUSED(mkdir(".", 0700), EEXIST);
	REFUSED(mkdir("/", 0700), EEXIST);
	REFUSED(mkdir("a/..", 0700), EEXIST);
	EXPECT(rmdir("a/.") < 0 && rmdir("a/..") < 0 && rename("a/.", "z") < 0 && unlink(".") < 0);
	REFUSED(unlinkat(AT_FDCWD, "file", 0x4000), EINVAL);
	REFUSED(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, "z", 0x80), EINVAL);
	REFUSED(syscall(SYS_linkat, AT_FDCWD, "file", AT_FDCWD, "z", 0x8000), EINVAL);
	EXPECT(mknod("chr", S_IFCHR | 0600, 0x103) < 0 && stat("chr", &st) < 0);
	REFUSED(chmod("file", 04755), EPERM);
	REFUSED(chmod("file", 02755), EPERM);
	REFUSED(open("suid", O_CREAT | O_WRONLY, 04755), EPERM);
	EXPECT(chmod("a", 02755) == 0);
	REFUSED(truncate("file", -1), EINVAL);
}

TEST(broker_survives_hostile_arguments)
{
	world();
	RUN(body_hostile);
	CHECK(holds(ws, "file", "hello"));
	tidy();
}

static void body_many(void)
{
	struct rlimit few = {16, 16};

	EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
	for (int i = 0; i < 40; i++)
		if (open("file", O_WRONLY) < 0) {
			EXPECT(errno == EMFILE && i < 16);
			return;
		}
	EXPECT(!"descriptors without end");
}

TEST(broker_passes_on_the_callers_descriptor_limit)
{
	world();
	RUN(body_many);
	tidy();
}

/* ---- opens that wait ---- */

static void body_fifo(void)
{
	char text[8] = "";
	int fd;
	pid_t pid;

	EXPECT(mkfifo("fifo", 0600) == 0);
	REFUSED(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO);
	pid = fork();
	if (pid == 0) { /* blocks in the broker's helper until we read */
		fd = open("fifo", O_WRONLY);
		_exit(fd >= 0 && !(fcntl(fd, F_GETFL) & O_NONBLOCK) && write(fd, "ping", 4) == 4
				? 0
				: 1);
	}
	/* Meanwhile the broker serves others. */
	EXPECT(open("file", O_WRONLY) >= 0);
	fd = open("fifo", O_RDONLY);
	EXPECT(fd >= 0 && read(fd, text, sizeof(text)) == 4);
	EXPECT(waitpid(pid, &(int){0}, 0) == pid);
	close(fd);
	/* One that is killed while it waits hangs nothing. */
	pid = fork();
	if (pid == 0) {
		open("fifo", O_WRONLY);
		_exit(0);
	}
	EXPECT(open("file", O_WRONLY) >= 0);
	EXPECT(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	EXPECT(open("file", O_WRONLY) >= 0);
	EXPECT((fd = open("fifo", O_RDWR)) >= 0 && write(fd, "x", 1) == 1);
}

TEST(broker_does_not_wait_for_fifos)
{
	world();
	RUN(body_fifo);
	tidy();
	world();
	RUN_FLAGS(body_fifo, BROKERED | SECCOMP_NOTIFY_READS);
	tidy();
}

static void body_unnamed(void)
{
	char path[64];
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0 && errno == EOPNOTSUPP)
		return;
	EXPECT(fd >= 0 && write(fd, "tmp", 3) == 3);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	REFUSED(linkat(AT_FDCWD, path, AT_FDCWD, "secret/new", AT_SYMLINK_FOLLOW), EACCES);
	REFUSED(linkat(AT_FDCWD, path, AT_FDCWD, "absent", AT_SYMLINK_FOLLOW), EACCES);
	EXPECT(linkat(AT_FDCWD, path, AT_FDCWD, "given", AT_SYMLINK_FOLLOW) == 0);
	REFUSED(open("secret", O_TMPFILE | O_RDWR, 0600), EACCES);
	fd = open(in(other, "file"), O_RDONLY);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	REFUSED(linkat(AT_FDCWD, path, AT_FDCWD, "alias", AT_SYMLINK_FOLLOW), EACCES);
}

TEST(broker_unnamed_files_get_names_only_where_allowed)
{
	world();
	RUN(body_unnamed);
	CHECK(!present(ws, "secret/new") && !present(ws, "absent") && !present(ws, "alias"));
	tidy();
}

/* ---- races ---- */

static void body_race(void)
{
	static const char good[11] = "a/decoyXXX", bad[11] = "secret/key";
	char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int opened = 0, refused = 0;
	pid_t pid;

	memcpy(shared, good, sizeof(good));
	pid = fork();
	if (pid == 0) { /* swaps the string while the call is on its way */
		for (;;) {
			memcpy(shared, good, sizeof(good));
			__asm__ volatile("" ::: "memory");
			memcpy(shared, bad, sizeof(bad));
			__asm__ volatile("" ::: "memory");
		}
	}
	for (int i = 0; i < 3000 || ((!opened || !refused) && i < 300000); i++) {
		int fd = open(shared, O_WRONLY | O_CREAT, 0600);

		refused += fd < 0 && errno == EACCES;
		if (fd >= 0) {
			EXPECT(write(fd, "won", 3) == 3);
			opened++;
			close(fd);
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT(opened > 0 && refused > 0);
}

static void body_race_rename(void)
{
	pid_t pid;

	EXPECT(mkdir("x", 0755) == 0 && mkdir("y", 0755) == 0);
	EXPECT(open("x/key", O_CREAT | O_WRONLY, 0600) >= 0 && symlink("secret", "y/s") == 0);
	pid = fork();
	if (pid == 0) /* one name, now a directory of ours, now a link to the protected one */
		for (;;) {
			unlink("d");
			if (symlink("x", "t1") == 0)
				rename("t1", "d");
			if (symlink("secret", "t2") == 0)
				rename("t2", "d");
		}
	for (int i = 0; i < 3000; i++) {
		int fd = open("d/key", O_WRONLY);

		if (fd >= 0) {
			EXPECT(write(fd, "won", 3) == 3);
			close(fd);
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(broker_wins_races_over_strings_and_links)
{
	world();
	RUN(body_race);
	CHECK(holds(ws, "secret/key", "private"));
	tidy();
	world();
	RUN(body_race_rename);
	CHECK(holds(ws, "secret/key", "private"));
	tidy();
}

static void *thread_body(void *arg)
{
	struct stat st;
	int fd = open("thread", O_CREAT | O_WRONLY, 0666);

	*(int *)arg = fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0600 &&
		      open("/proc/self/fd/0", O_PATH) >= 0;
	return NULL;
}

static void body_threads(void)
{
	pthread_t t;
	int ok = 0;

	umask(077);
	EXPECT(pthread_create(&t, NULL, thread_body, &ok) == 0 && pthread_join(t, NULL) == 0);
	EXPECT(ok);
}

TEST(broker_serves_threads)
{
	world();
	RUN(body_threads);
	tidy();
}

static void body_dying(void)
{
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;) {
				open("file", O_WRONLY | O_CLOEXEC);
				mkdir("d", 0755);
				rmdir("d");
			}
		for (int j = 0; j < i % 7; j++)
			sched_yield();
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	EXPECT(open("file", O_WRONLY) >= 0);
}

TEST(broker_outlives_callers_killed_at_any_moment)
{
	world();
	RUN(body_dying);
	tidy();
}

/* ---- reads, exec, notices ---- */

static void body_reads(void)
{
	char text[512] = "", want[32], *argv[] = {(char *)"true", NULL};
	pid_t pid;
	int fd, status;

	REFUSED(open("secret/key", O_RDONLY), EACCES);
	REFUSED(open("secret", O_RDONLY | O_DIRECTORY), EACCES);
	REFUSED(open("/proc/self/cwd/secret/key", O_RDONLY), EACCES);
	EXPECT(symlink("secret/key", "k") == 0);
	REFUSED(open("k", O_RDONLY), EACCES);
	EXPECT(open("ro/file", O_RDONLY) >= 0 && open("file", O_RDONLY) >= 0 &&
		open(".", O_RDONLY) >= 0);
	EXPECT((fd = open(in(other, "file"), O_RDONLY)) >= 0); /* no rule: Landlock's to refuse */
	EXPECT((fd = open("/proc/self/status", O_RDONLY)) >= 0);
	EXPECT(read(fd, text, sizeof(text) - 1) > 0);
	snprintf(want, sizeof(want), "\nTgid:\t%d\n", (int)getpid());
	EXPECT(strstr(text, want));
	EXPECT(open("/proc/mounts", O_RDONLY) >= 0 && open("/proc/meminfo", O_RDONLY) >= 0);
	snprintf(text, sizeof(text), "/proc/%d/mem", (int)getppid());
	EXPECT((fd = open(text, O_RDONLY)) < 0 || fd >= 0); /* at most its own memory */
	EXPECT(open("secret/key", O_PATH) >= 0);
	pid = fork();
	if (pid == 0) {
		execv("secret/run", argv);
		_exit(errno == EACCES ? 3 : 4);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
	pid = fork();
	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(5);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(broker_judges_reads_when_asked)
{
	world();
	put(ws, "secret/run", "#!/bin/sh\n");
	CHECK(chmod(in(ws, "secret/run"), 0755) == 0);
	RUN_FLAGS(body_reads, BROKERED | SECCOMP_NOTIFY_READS);
	CHECK(noted(NOTICE_READ, true, "/secret/key", ws));
	CHECK(noted(NOTICE_READ, false, "/ro/file", ws));
	CHECK(noted(NOTICE_EXEC, true, "/secret/run", ws));
	tidy();
}

static void body_flood(void)
{
	for (int i = 0; i < 5000; i++)
		REFUSED(open("secret/key", O_WRONLY), EACCES);
}

TEST(broker_counts_notices_that_found_no_room)
{
	world();
	run_with(body_flood, BROKERED, false);
	CHECK_INT(run.status, 0);
	CHECK(run.n > 0); /* the socket holds some; nobody read, and nobody waited */
	tidy();
}

static void body_repeat(void)
{
	for (int i = 0; i < 50; i++)
		EXPECT(open("file", O_WRONLY | O_CLOEXEC) >= 0);
}

TEST(broker_tells_the_same_news_once)
{
	size_t writes = 0;

	world();
	RUN(body_repeat);
	for (size_t i = 0; i < run.n; i++)
		writes += run.notes[i].op == NOTICE_WRITE;
	CHECK_INT(writes, 1);
	tidy();
}

static void body_chattr(void)
{
	int fd = open("file", O_RDONLY), flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	EXPECT(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0 || errno == EOPNOTSUPP || errno == EPERM);
	fd = open("ro/file", O_RDONLY);
	REFUSED(ioctl(fd, FS_IOC_SETFLAGS, &flags), EACCES);
}

TEST(broker_judges_file_flags)
{
	world();
	RUN(body_chattr);
	tidy();
}

TEST(broker_as_a_thread_lends_nothing_either)
{
	as_thread = true;
	world();
	RUN(body_self);
	tidy();
	world();
	RUN(body_others);
	tidy();
	world();
	RUN(body_fifo);
	tidy();
	world();
	RUN(body_race);
	CHECK(holds(ws, "secret/key", "private"));
	tidy();
	as_thread = false;
}
