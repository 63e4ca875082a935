/* SPDX-License-Identifier: Apache-2.0 */
/* Each rlimit, hit by a child. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/rlimit.h"

#define REQUIRE(c)                                                                                 \
	do {                                                                                       \
		if (!(c))                                                                          \
			return __LINE__ % 256 ? __LINE__ % 256 : 1;                                \
	} while (0)
#define NONE ((struct rlimit_set){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX})

static int in_child(int (*f)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(f());
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int try_nothing(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d = {0};
	struct rlimit before, after;
	struct err e = ERR_INIT;

	REQUIRE(getrlimit(RLIMIT_DATA, &before) == 0);
	REQUIRE(rlimit_apply(&l, &d, &e) == 0);
	REQUIRE(d.core && !d.memory && !d.pids && !d.open_files && !d.file_size);
	REQUIRE(getrlimit(RLIMIT_DATA, &after) == 0 && after.rlim_cur == before.rlim_cur);
	REQUIRE(getrlimit(RLIMIT_CORE, &after) == 0 && after.rlim_max == 0);
	return 0;
}

TEST(only_core_dumps_go_when_nothing_is_asked)
{
	CHECK_INT(in_child(try_nothing), 0);
}

static void *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int try_memory(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d;
	struct err e = ERR_INIT;

	REQUIRE(map(256u << 20) != MAP_FAILED); /* control */
	l.memory_b = 64u << 20;
	REQUIRE(rlimit_apply(&l, &d, &e) == 0 && d.memory);
	REQUIRE(map(256u << 20) == MAP_FAILED && errno == ENOMEM);
	return 0;
}

TEST(memory)
{
	CHECK_INT(in_child(try_memory), 0);
}

static int try_files(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d;
	struct err e = ERR_INIT;
	struct rlimit raise = {.rlim_cur = 1u << 20, .rlim_max = 1u << 20};

	REQUIRE(dup2(1, 100) == 100); /* control */
	l.open_files = 32;
	l.file_size_b = 10;
	REQUIRE(rlimit_apply(&l, &d, &e) == 0 && d.open_files && d.file_size);
	REQUIRE(dup2(1, 101) < 0 && errno == EBADF);
	if (geteuid() != 0)
		REQUIRE(setrlimit(RLIMIT_NOFILE, &raise) < 0);
	l.open_files = 1u << 20; /* asking for more later changes nothing */
	REQUIRE(rlimit_apply(&l, &d, &e) == 0);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &raise) == 0 && raise.rlim_max == 32);
	return 0;
}

TEST(open_files_and_file_size)
{
	CHECK_INT(in_child(try_files), 0);
}

static int try_file_size(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d;
	struct err e = ERR_INIT;
	char path[] = "/tmp/croft-rlimit-XXXXXX";
	int fd = mkstemp(path);

	REQUIRE(fd >= 0);
	unlink(path);
	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(write(fd, "0123456789ab", 12) == 12); /* control */
	REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
	l.file_size_b = 10;
	REQUIRE(rlimit_apply(&l, &d, &e) == 0 && d.file_size);
	REQUIRE(write(fd, "0123456789ab", 12) == 10);
	REQUIRE(write(fd, "x", 1) < 0 && errno == EFBIG);
	return 0;
}

TEST(file_size)
{
	CHECK_INT(in_child(try_file_size), 0);
}

/* Fork until refused, at most `max` at once; how many were had. */
static int forks(int max)
{
	int n = 0, hold[2];
	char c;

	if (pipe(hold) < 0)
		return -1;
	for (; n < max; n++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
		}
	}
	close(hold[1]);
	close(hold[0]);
	while (wait(NULL) > 0)
		;
	return n;
}

#define TEST_UID 64321 /* nobody's: nothing else is counted */

static int try_pids_user(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d;
	struct err e = ERR_INIT;

	REQUIRE(setgid(TEST_UID) == 0 && setuid(TEST_UID) == 0);
	REQUIRE(forks(20) == 20); /* control */
	l.pids = 8;
	REQUIRE(rlimit_apply(&l, &d, &e) == 0 && d.pids);
	REQUIRE(forks(20) == 7);
	return 0;
}

TEST(processes_of_a_plain_user)
{
	if (geteuid() != 0)
		SKIP("needs root, to become a user without other processes");
	CHECK_INT(in_child(try_pids_user), 0);
}

static int try_pids_root(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d;
	struct err e = ERR_INIT;

	l.pids = 1;
	REQUIRE(rlimit_apply(&l, &d, &e) == 0);
	REQUIRE((forks(3) == 0) == d.pids); /* said to hold exactly when it does */
	return 0;
}

TEST(processes_are_claimed_only_where_the_kernel_heeds_the_limit)
{
	CHECK_INT(in_child(try_pids_root), 0);
}

/* One more for each process and each thread, and no more for anybody else's. */
static int try_own_tasks(void)
{
	int hold[2];
	pid_t pid;

	REQUIRE(setgid(TEST_UID) == 0 && setuid(TEST_UID) == 0 && pipe(hold) == 0);
	REQUIRE(rlimit_own_tasks(0) == 1);
	pid = fork();
	if (pid == 0) {
		char c;

		close(hold[1]);
		(void)!read(hold[0], &c, 1);
		_exit(0);
	}
	REQUIRE(rlimit_own_tasks(0) == 2);
	REQUIRE(rlimit_own_tasks(10) >= 2 && rlimit_own_tasks(10) <= 12);
	close(hold[1]);
	REQUIRE(waitpid(pid, NULL, 0) == pid);
	REQUIRE(rlimit_own_tasks(0) == 1);
	REQUIRE(forks(20) == 20); /* nothing of it stays */
	return 0;
}

TEST(own_tasks_are_counted_exactly)
{
	if (geteuid() != 0)
		SKIP("needs root, to become a user without other processes");
	CHECK_INT(in_child(try_own_tasks), 0);
}

static int try_forced(void)
{
	struct rlimit_set l = NONE;
	struct rlimit_done d = {0};
	struct err e = ERR_INIT;

	setenv("CROFT_FORCE_FAIL", "rlimit", 1);
	REQUIRE(rlimit_apply(&l, &d, &e) < 0 && !d.core && e.msg[0]);
	return 0;
}

TEST(forced_failure_is_an_error)
{
	CHECK_INT(in_child(try_forced), 0);
}
