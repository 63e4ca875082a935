/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock judges opens, not descriptors: what O_PATH gives, what survives, what it cannot see. */
#include "platform.h"

#include <linux/landlock.h>

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ull << 13)
#endif

static int abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1u);
}

/* Handle `rights`, allowing them all below `allowed` (NULL: nowhere). */
static void restrict_to(uint64_t rights, const char *allowed)
{
	struct landlock_ruleset_attr attr = {.handled_access_fs = rights};
	int fd;

	if (abi() < 1)
		CLAIM_SKIP("Landlock: %s", strerror(errno));
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	CLAIM_CHECK(fd >= 0);
	if (allowed) {
		struct landlock_path_beneath_attr rule = {
			.allowed_access = rights, .parent_fd = open(allowed, O_PATH | O_CLOEXEC)};

		CLAIM_CHECK(rule.parent_fd >= 0);
		CLAIM_CHECK(syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule,
				    0) == 0);
	}
	CLAIM_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CLAIM_CHECK(syscall(SYS_landlock_restrict_self, fd, 0) == 0);
}

static void o_path(void)
{
	char name[64];
	int fd;

	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE, "/usr");
	fd = open("/etc/passwd", O_PATH | O_CLOEXEC);
	CLAIM_CHECK(fd >= 0); /* a handle without rights is given */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	CLAIM_CHECK(open(name, O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES); /* and gains none */
	CLAIM_CHECK(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
}

static void open_before(void)
{
	char c;
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE, NULL);
	CLAIM_CHECK(read(fd, &c, 1) == 1); /* which is why every descriptor is closed first */
}

static void metadata(void)
{
	char dir[64];
	struct stat st;

	enter_tmpdir(dir);
	make_file("f", "x");
	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE, "/usr");
	/* Not governed: which is why stat leaks names in the process tier, and chmod needs the
	 * broker. */
	int seen = stat("/etc/passwd", &st), changed = chmod("f", 0600);

	unlink("f");
	rmdir(dir);
	CLAIM_CHECK(seen == 0 && changed == 0);
}

static void refer(void)
{
	char dir[64];

	enter_tmpdir(dir);
	CLAIM_CHECK(mkdir("a", 0700) == 0 && mkdir("b", 0700) == 0);
	make_file("a/f", "x");
	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE, "/");
	int across = rename("a/f", "b/f"), e1 = errno, within = rename("a/f", "a/g");

	unlink("a/g");
	unlink("b/f");
	rmdir("a");
	rmdir("b");
	rmdir(dir);
	CLAIM_CHECK(across < 0 && e1 == EXDEV); /* even though it is handled by no rule */
	CLAIM_CHECK(within == 0);
}

static void stacks(void)
{
	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE, "/usr");
	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE, "/"); /* a wider second layer */
	CLAIM_CHECK(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
}

static void refuses_mounts(void)
{
	enter_scratch(0);
	CLAIM_CHECK(mkdir("m", 0755) == 0);
	restrict_to(LANDLOCK_ACCESS_FS_READ_FILE, "/");
	CLAIM_CHECK(mount("platform", "m", "tmpfs", 0, NULL) < 0 && errno == EPERM);
}

/* Signals scoped, files left alone; skips where the kernel cannot. */
static void scope_signals(void)
{
	struct {
		uint64_t fs, net, scoped;
	} attr = {.scoped = 1 << 1};
	long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (fd < 0)
		CLAIM_SKIP("Landlock does not scope signals: %s", strerror(errno));
	CLAIM_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CLAIM_CHECK(syscall(SYS_landlock_restrict_self, fd, 0) == 0);
	close((int)fd);
}

/* A child in a domain below ours; it says how its kill() went and then waits. */
static pid_t nested_child(int *ret_said)
{
	int said[2];
	pid_t pid;

	CLAIM_CHECK(pipe(said) == 0);
	pid = fork();
	if (pid == 0) {
		char c;

		scope_signals();
		c = kill(getppid(), 0) < 0 && errno == EPERM ? 'n' : 'y';
		(void)!write(said[1], &c, 1);
		for (;;)
			pause();
	}
	close(said[1]);
	*ret_said = said[0];
	return pid;
}

static void nested_signals(void)
{
	int said, status;
	char c = 0;
	pid_t pid;

	scope_signals();
	pid = nested_child(&said);
	if (read(said, &c, 1) == 0)
		CLAIM_SKIP("no nested domain");
	CLAIM_CHECK(c == 'n');
	CLAIM_CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
}

static void signal_to_all(void)
{
	pid_t outside = fork(), pid;
	int said, status;
	char c;

	if (outside == 0)
		for (;;)
			pause();
	pid = fork(); /* who signals must not be who stays outside */
	if (pid == 0) {
		scope_signals();
		/* Only a kernel that keeps this process in may be asked for more. */
		if (kill(getppid(), 0) == 0 || errno != EPERM)
			_exit(FAILS);
		pid = nested_child(&said);
		(void)!read(said, &c, 1);
		kill(-1, SIGKILL);
		_exit(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? HOLDS : FAILS);
	}
	CLAIM_CHECK(waitpid(pid, &status, 0) == pid);
	c = waitpid(outside, NULL, WNOHANG) == 0;
	kill(outside, SIGKILL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPS)
		_exit(SKIPS);
	CLAIM_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == HOLDS && c);
}

int main(void)
{
	claim("an O_PATH descriptor opens and gives no rights", o_path);
	claim("a descriptor from before keeps its rights", open_before);
	claim("metadata is not governed", metadata);
	claim("rename to another directory is EXDEV without REFER", refer);
	claim("a second layer cannot widen the first", stacks);
	claim("a confined process cannot mount", refuses_mounts);
	claim("a nested domain cannot signal the outer one, which can signal it", nested_signals);
	claim("a signal to everybody stays in the domain", signal_to_all);
	return claim_result();
}
