/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping privilege: as root, as root of a fresh user namespace, and as whoever runs the tests. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/caps.h"
#include "os/uapi.h"

#define REQUIRE(c)                                                                                 \
	do {                                                                                       \
		if (!(c))                                                                          \
			return __LINE__ % 256 ? __LINE__ % 256 : 1;                                \
	} while (0)
#define SKIPPED 77

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

/* The kernel's own account of all five sets, independent of capget. */
static bool status_shows_none(bool bounding)
{
	static const char *const names[] = {
		"CapInh:\t", "CapPrm:\t", "CapEff:\t", "CapAmb:\t", "CapBnd:\t"};
	char text[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names) - !bounding; i++) {
		const char *p = strstr(text, names[i]);

		if (!p || strncmp(p + strlen(names[i]), "0000000000000000", 16) != 0)
			return false;
	}
	return strstr(text, "NoNewPrivs:\t1") != NULL;
}

/* Does exec give anything back? Runs a shell that prints its own sets. */
static bool exec_gives_nothing(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c",
			"grep -q '^CapPrm:.0000000000000000$' /proc/self/status", (char *)NULL);
		_exit(2);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static int try_as_root(void)
{
	struct err e = ERR_INIT;

	REQUIRE(!exec_gives_nothing()); /* control: root's exec does give capabilities */
	REQUIRE(caps_drop_all(&e) == 0);
	REQUIRE(status_shows_none(true));
	REQUIRE(prctl(PR_GET_SECUREBITS) & SECBIT_NOROOT);
	REQUIRE(prctl(PR_GET_SECUREBITS) & SECBIT_NOROOT_LOCKED);
	REQUIRE(exec_gives_nothing());
	REQUIRE(mknod("/tmp/croft-test-null", S_IFCHR | 0600, 0x103) < 0 && errno == EPERM);
	REQUIRE(caps_drop_all(&e) == 0); /* again, with nothing left: nested croft */
	return 0;
}

TEST(root_keeps_nothing)
{
	if (geteuid() != 0)
		SKIP("needs root");
	CHECK_INT(in_child(try_as_root), 0);
}

static int try_in_namespace(void)
{
	struct err e = ERR_INIT;

	if (unshare(CLONE_NEWUSER) < 0)
		return SKIPPED;
	REQUIRE(!status_shows_none(false)); /* control: a fresh namespace has every capability */
	REQUIRE(caps_drop_all(&e) == 0);
	REQUIRE(status_shows_none(true));
	REQUIRE(unshare(CLONE_NEWUTS) < 0 && errno == EPERM);
	REQUIRE(exec_gives_nothing());
	return 0;
}

TEST(namespace_root_keeps_nothing)
{
	int rc = in_child(try_in_namespace);

	if (rc == SKIPPED)
		SKIP("user namespaces are refused here");
	CHECK_INT(rc, 0);
}

static int try_as_user(void)
{
	struct err e = ERR_INIT;

	if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
		return SKIPPED;
	REQUIRE(caps_drop_all(&e) == 0);
	REQUIRE(status_shows_none(false));
	REQUIRE(exec_gives_nothing());
	return 0;
}

static int try_to_keep(void)
{
	struct err e = ERR_INIT;

	REQUIRE(caps_reduce(1, &e) < 0 && e.kind == ERR_REFUSED);
	REQUIRE(caps_reduce(0, &e) == 0);
	REQUIRE(status_shows_none(false));
	return 0;
}

TEST(nothing_can_be_kept)
{
	CHECK_INT(in_child(try_to_keep), 0);
}

TEST(plain_user_has_nothing)
{
	CHECK_INT(in_child(try_as_user), 0);
}

static int try_keyring(void)
{
	struct err e = ERR_INIT;
	long before, key;

	before = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1);
	if (before < 0)
		return SKIPPED;
	key = syscall(SYS_add_key, "user", "croft-test", "secret", 6, KEY_SPEC_SESSION_KEYRING);
	REQUIRE(key > 0);
	REQUIRE(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "croft-test",
			0) == key); /* control */
	REQUIRE(keyring_new_session(&e) == 0);
	REQUIRE(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) != before);
	REQUIRE(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "croft-test",
			0) < 0);
	return 0;
}

/* In a session of its own first, so that nothing is left in the tester's keyring. */
static int try_keyring_apart(void)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		return SKIPPED;
	return try_keyring();
}

TEST(session_keyring_is_new_and_empty)
{
	int rc = in_child(try_keyring_apart);

	if (rc == SKIPPED)
		SKIP("no keyrings here");
	CHECK_INT(rc, 0);
}

static int try_forced(void)
{
	struct err e = ERR_INIT;

	setenv("CROFT_FORCE_FAIL", "keyring", 1);
	REQUIRE(keyring_new_session(&e) == 1);
	return 0;
}

TEST(forced_absence_of_keyrings_is_told)
{
	CHECK_INT(in_child(try_forced), 0);
}
