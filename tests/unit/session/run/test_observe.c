/* SPDX-License-Identifier: Apache-2.0 */
/* core: the observer sees, judges and stays out of the way. */
#include "broker_world.h"

#include "session/run/observe.h"

static void saw(void *arg, const struct notice *n)
{
	if (run.n < ARRAY_SIZE(run.notes))
		run.notes[run.n++] = *n;
}

/* Run a body under the filter that notifies, with the observer in this process. */
static struct observer observe(void (*body)(void), unsigned flags)
{
	static const char *trees[] = {scratch, NULL};
	struct observer o = {.policy = &policy,
		.workspace = ws,
		.scratch = trees,
		.saw = saw,
		.reads = (flags & SECCOMP_NOTIFY_READS) != 0};
	int sv[2], status = 0, r = 0;
	pid_t pid;

	run.n = 0;
	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		close(sv[0]);
		run_body(body, flags, sv[1]);
	}
	close(sv[1]);
	o.listener = receive_listener(sv[0]);
	while (o.listener >= 0 && r == 0) {
		struct pollfd p = {.fd = o.listener, .events = POLLIN};

		if (poll(&p, 1, -1) > 0)
			r = observer_serve(&o);
	}
	close(sv[0]);
	close(o.listener);
	waitpid(pid, &status, 0);
	run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
	if (r != -ESHUTDOWN)
		run.status = 2000;
	observer_done(&o);
	return o;
}

#define OBSERVE(body, flags)                                                                       \
	({                                                                                         \
		struct observer observed_ = observe(body, flags);                                  \
		if (fault->line)                                                                   \
			test_fail(__FILE__, fault->line, "%s (errno %d)", fault->what,             \
				fault->errnum);                                                    \
		CHECK_INT(run.status, 0);                                                          \
		observed_;                                                                         \
	})

static void body_writes(void)
{
	EXPECT(open("file", O_WRONLY) >= 0);
	EXPECT(open("./a/../fresh", O_WRONLY | O_CREAT, 0600) >= 0);
	EXPECT(open("only", O_WRONLY | O_CREAT | O_EXCL, 0600) >= 0);
	EXPECT(mkdir("dir", 0755) == 0 && rename("only", "dir/moved") == 0 && unlink("fresh") == 0);
	EXPECT(open("file", O_RDONLY) >= 0);
	EXPECT(open("/dev/null", O_WRONLY) >= 0);
	EXPECT(open(in(scratch, "x"), O_WRONLY | O_CREAT, 0600) >= 0);
	EXPECT(chdir("dir") == 0 && truncate("moved", 3) == 0);
}

TEST(observer_reports_changes_in_the_workspace)
{
	struct observer o;

	world();
	o = OBSERVE(body_writes, SECCOMP_NOTIFY_WRITES);
	CHECK(o.seen >= 9 && o.lost == 0);
	CHECK_INT(run.n, 8);
	CHECK(noted(NOTICE_WRITE, false, "/file", ws)->exists == 1);
	CHECK(noted(NOTICE_WRITE, false, "/fresh", ws)->exists == 0);
	CHECK(noted(NOTICE_CREATE, false, "/only", ws)->exists == 0);
	CHECK(noted(NOTICE_CREATE, false, "/dir", ws)->exists == 0);
	CHECK(noted(NOTICE_DELETE, false, "/only", ws)->exists == 1);
	CHECK(noted(NOTICE_RENAME, false, "/dir/moved", ws)->exists == 0);
	CHECK(noted(NOTICE_DELETE, false, "/fresh", ws)->exists == 1);
	CHECK(noted(NOTICE_WRITE, false, "/dir/moved", ws)->exists == 1);
	CHECK(run.notes[0].pid > 0 && run.notes[0].source == NOTICE_BY_OBSERVER);
	tidy();
}

static void body_would_be_denied(void)
{
	int dir;

	/* Nothing but the observer here: the calls themselves must go through untouched. */
	EXPECT(open("secret/key", O_WRONLY) >= 0);
	EXPECT(open("../other/file", O_WRONLY) >= 0);
	EXPECT(rename("file", "absent") == 0 && rename("absent", "file") == 0);
	EXPECT((dir = open(other, O_RDONLY | O_DIRECTORY)) >= 0);
	EXPECT(openat(dir, "new", O_CREAT | O_WRONLY, 0600) >= 0 && unlinkat(dir, "new", 0) == 0);
	REFUSED(syscall(SYS_openat, AT_FDCWD, 8, O_WRONLY), EFAULT);
	REFUSED(open("", O_WRONLY), ENOENT);
	REFUSED(openat(99, "x", O_WRONLY), EBADF);
}

TEST(observer_reports_what_policy_denies_and_lets_it_pass)
{
	world();
	OBSERVE(body_would_be_denied, SECCOMP_NOTIFY_WRITES);
	CHECK(noted(NOTICE_WRITE, true, "/secret/key", ws));
	CHECK(noted(NOTICE_WRITE, true, "/file", other));
	CHECK(noted(NOTICE_RENAME, true, "/absent", ws));
	CHECK(noted(NOTICE_WRITE, true, "/new", other));
	CHECK(noted(NOTICE_DELETE, true, "/new", other));
	tidy();
}

static void body_links(void)
{
	struct stat st;

	/* Spelled as denied, really in the workspace: looked up just now, so cached. */
	EXPECT(stat(in(other, "in/a"), &st) == 0);
	EXPECT(open(in(other, "in/a/through"), O_CREAT | O_WRONLY, 0600) >= 0);
	/* Through a link inside: what is behind it is not looked at. */
	EXPECT(open("loop/x", O_CREAT | O_WRONLY, 0600) < 0);
	EXPECT(open("link/y", O_CREAT | O_WRONLY, 0600) >= 0);
}

TEST(observer_looks_twice_at_denials_and_follows_no_link_in_the_workspace)
{
	/* Passing a link whose access time is due is not "cached"; a fresh one's is due for a tick. */
	const struct timespec times[2] = {{.tv_sec = time(NULL) + 60}, {.tv_nsec = UTIME_OMIT}};

	world();
	CHECK(symlink(ws, in(other, "in")) == 0 && symlink("loop", in(ws, "loop")) == 0);
	CHECK(utimensat(AT_FDCWD, in(other, "in"), times, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(symlink("a", in(ws, "link")) == 0);
	OBSERVE(body_links, SECCOMP_NOTIFY_WRITES);
	CHECK(noted(NOTICE_WRITE, false, "/a/through", ws));
	CHECK(noted(NOTICE_WRITE, false, "/a/through", ws)->exists == 0);
	CHECK(noted(NOTICE_WRITE, false, "/loop/x", ws)->exists == 1);
	CHECK(noted(NOTICE_WRITE, false, "/link/y", ws)->exists == 1);
	tidy();
}

static void body_reads(void)
{
	char *argv[] = {(char *)"true", NULL};
	pid_t pid;

	EXPECT(open("ro/file", O_RDONLY) >= 0 && open("secret/key", O_RDONLY) >= 0);
	EXPECT(open("secret", O_PATH) >= 0);
	pid = fork();
	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(1);
	}
	EXPECT(waitpid(pid, &(int){0}, 0) == pid);
}

TEST(observer_reports_reads_when_asked)
{
	world();
	rule(ACCESS_READ, "", "/usr");
	OBSERVE(body_reads, SECCOMP_NOTIFY_WRITES | SECCOMP_NOTIFY_READS);
	CHECK(noted(NOTICE_READ, false, "/ro/file", ws));
	CHECK(noted(NOTICE_READ, true, "/secret/key", ws));
	CHECK(!noted(NOTICE_READ, true, "/secret", ws));
	tidy();
	world();
	OBSERVE(body_reads, SECCOMP_NOTIFY_WRITES);
	CHECK_INT(run.n, 0);
	tidy();
}

TEST(observer_without_openat2_reports_without_looking)
{
	world();
	setenv("CROFT_FORCE_FAIL", "openat2", 1);
	OBSERVE(body_writes, SECCOMP_NOTIFY_WRITES);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK(noted(NOTICE_WRITE, false, "/fresh", ws)->exists == 1);
	tidy();
}

static void body_dying(void)
{
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				close(open("file", O_WRONLY));
		for (int j = 0; j < i % 7; j++)
			sched_yield();
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

TEST(observer_outlives_callers_killed_at_any_moment)
{
	world();
	OBSERVE(body_dying, SECCOMP_NOTIFY_WRITES);
	tidy();
}
