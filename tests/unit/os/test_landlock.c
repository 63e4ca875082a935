/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock in children of the real kernel, at its own ABI and pretending to each older one. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/landlock.h"
#include "os/seccomp.h"

#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif

static char root[64]; /* <root>/{ro,rw,no}/{f,sub/} */

static bool make_file(const char *rel)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, rel);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	if (fd < 0 || write(fd, "data", 4) != 4)
		return false;
	close(fd);
	return true;
}

static bool make_tree(void)
{
	static const char *const dirs[] = {"ro", "rw", "no", "rw/sub", "rw/two"};
	char path[256];

	snprintf(root, sizeof(root), "/tmp/croft-landlock-XXXXXX");
	if (!mkdtemp(root))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		if (mkdir(path, 0700) != 0)
			return false;
	}
	return make_file("ro/f") && make_file("rw/f") && make_file("no/f") && make_file("rw/sub/f");
}

static void remove_tree(void)
{
	static const char *const names[] = {"ro/f", "ro/new", "rw/f", "rw/new", "rw/dir", "rw/link",
		"rw/sub/f", "rw/two/f", "no/f", "no/new", "rw/sub", "rw/two", "ro", "rw", "no", ""};
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, names[i]);
		remove(path);
	}
}

/* The number of what is wrong, found by name in the caller; 0 when everything held. */
#define REQUIRE(c)                                                                                 \
	do {                                                                                       \
		if (!(c))                                                                          \
			return __LINE__ % 256 ? __LINE__ % 256 : 1;                                \
	} while (0)

static int in_child(int (*f)(int arg), int arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(f(arg));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int allow(struct landlock *l, const char *rel, enum landlock_grant g)
{
	struct err e = ERR_INIT;
	char path[256];
	int fd, rc;

	if (rel[0] == '/')
		snprintf(path, sizeof(path), "%s", rel);
	else
		snprintf(path, sizeof(path), "%s/%s", root, rel);
	fd = open(path, O_PATH | O_CLOEXEC);
	rc = fd < 0 ? -1 : landlock_allow(l, fd, g, &e);
	close(fd);
	return rc;
}

static int enter(struct landlock *l)
{
	struct err e = ERR_INIT;

	if (landlock_open(l, LANDLOCK_DENY_TCP, &e) < 0 ||
		allow(l, "ro", LANDLOCK_GRANT_READ) < 0 ||
		allow(l, "rw", LANDLOCK_GRANT_WRITE) < 0 ||
		allow(l, "/dev/null", LANDLOCK_GRANT_DEVICE) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || landlock_apply(l, &e) < 0)
		return -1;
	landlock_done(l);
	return chdir(root);
}

static bool can_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void pretend(int abi)
{
	char text[32];

	snprintf(text, sizeof(text), "landlock%d", abi + 1);
	if (abi > 0)
		setenv("CROFT_FORCE_FAIL", text, 1);
}

static int try_files(int abi)
{
	struct landlock l;

	pretend(abi);
	REQUIRE(landlock_abi() == abi);
	REQUIRE(enter(&l) == 0 && l.abi == abi && l.fd == -1);
	/* Nothing given. */
	REQUIRE(!can_open("no/f", O_RDONLY) && errno == EACCES);
	REQUIRE(!can_open("no/new", O_WRONLY | O_CREAT));
	REQUIRE(!can_open("/etc/passwd", O_RDONLY));
	REQUIRE(!can_open(".", O_RDONLY | O_DIRECTORY));
	/* Reading. */
	REQUIRE(can_open("ro/f", O_RDONLY) && can_open("ro", O_RDONLY | O_DIRECTORY));
	REQUIRE(!can_open("ro/f", O_WRONLY) && !can_open("ro/new", O_WRONLY | O_CREAT));
	REQUIRE(unlink("ro/f") < 0 && rename("ro/f", "ro/new") < 0 && mkdir("ro/new", 0700) < 0);
	REQUIRE(link("ro/f", "rw/new") < 0 && rename("ro/f", "rw/new") < 0);
	REQUIRE(link("no/f", "rw/new") < 0);
	REQUIRE((truncate("ro/f", 0) < 0) == (abi >= 3));
	REQUIRE((truncate("no/f", 0) < 0) == (abi >= 3));
	/* Writing. */
	REQUIRE(can_open("rw/new", O_RDWR | O_CREAT) && truncate("rw/new", 0) == 0);
	REQUIRE(mkdir("rw/dir", 0700) == 0 && rmdir("rw/dir") == 0);
	REQUIRE(symlink("x", "rw/link") == 0 && unlink("rw/link") == 0);
	REQUIRE(rename("rw/new", "rw/dir") == 0 && unlink("rw/dir") == 0);
	if (abi >= 2)
		REQUIRE(rename("rw/sub/f", "rw/two/f") == 0 && link("rw/two/f", "rw/sub/f") == 0);
	else
		REQUIRE(rename("rw/sub/f", "rw/two/f") < 0 && errno == EXDEV);
	REQUIRE(mknod("rw/new", S_IFIFO | 0600, 0) == 0 && unlink("rw/new") == 0);
	REQUIRE(mknod("rw/new", S_IFCHR | 0600, 0) < 0 && (errno == EACCES || errno == EPERM));
	/* Devices. */
	REQUIRE(can_open("/dev/null", O_RDWR | O_TRUNC) && !can_open("/dev/zero", O_RDONLY));
	return 0;
}

TEST(files_at_every_abi)
{
	int abi = landlock_abi();

	if (abi == 0)
		SKIP("this kernel has no Landlock");
	for (int n = 1; n <= MIN_OF(abi, 15); n++) {
		int rc;

		CHECK(make_tree());
		rc = in_child(try_files, n);
		remove_tree();
		if (rc != 0)
			test_fail(__FILE__, __LINE__, "ABI %d: line %d", n, rc);
		CHECK(access(root, F_OK) != 0); /* the helpers clean up after themselves */
	}
}

static int try_without_landlock(int arg)
{
	struct landlock l;
	struct err e = ERR_INIT;

	setenv("CROFT_FORCE_FAIL", "openat2,landlock", 1);
	REQUIRE(landlock_abi() == 0);
	REQUIRE(landlock_open(&l, LANDLOCK_DENY_TCP, &e) == 0 && l.fd == -1 && l.abi == 0);
	REQUIRE(l.handled_fs == 0 && l.handled_net == 0 && l.scoped == 0);
	REQUIRE(landlock_allow(&l, -1, LANDLOCK_GRANT_READ, &e) == 0);
	REQUIRE(landlock_apply(&l, &e) == 0);
	landlock_done(&l);
	REQUIRE(can_open("/etc/passwd", O_RDONLY));
	return arg;
}

TEST(forced_absence_does_nothing_and_says_so)
{
	CHECK_INT(in_child(try_without_landlock, 0), 0);
}

static int try_changes_only(int arg)
{
	struct landlock l;
	struct err e = ERR_INIT;

	REQUIRE(landlock_open(&l, LANDLOCK_CHANGES_ONLY, &e) == 0);
	REQUIRE(allow(&l, "ro", LANDLOCK_GRANT_READ) == 0 &&
		allow(&l, "rw", LANDLOCK_GRANT_WRITE) == 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	REQUIRE(landlock_apply(&l, &e) == 0 && chdir(root) == 0);
	REQUIRE(can_open("no/f", O_RDONLY) && can_open("no", O_RDONLY | O_DIRECTORY));
	REQUIRE(!can_open("no/f", O_WRONLY) && !can_open("ro/f", O_RDWR) && unlink("no/f") < 0);
	REQUIRE(can_open("rw/new", O_RDWR | O_CREAT | O_TRUNC) && unlink("rw/new") == 0);
	return arg;
}

TEST(changes_only_leaves_reading_to_others)
{
	if (landlock_abi() == 0)
		SKIP("this kernel has no Landlock");
	CHECK(make_tree());
	CHECK_INT(in_child(try_changes_only, 0), 0);
	remove_tree();
}

static int try_bad_fd(int arg)
{
	struct landlock l;
	struct err e = ERR_INIT;

	REQUIRE(landlock_open(&l, LANDLOCK_DENY_TCP, &e) == 0);
	REQUIRE(landlock_allow(&l, 999, LANDLOCK_GRANT_READ, &e) == -EBADF && e.msg[0]);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	REQUIRE(landlock_apply(&l, &e) == 0);
	return arg;
}

TEST(bad_descriptor_is_an_error)
{
	if (landlock_abi() == 0)
		SKIP("this kernel has no Landlock");
	CHECK_INT(in_child(try_bad_fd, 0), 0);
}

/* --- network --- */

static int server(struct sockaddr_in *ret)
{
	socklen_t len = sizeof(*ret);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (s < 0 || bind(s, (struct sockaddr *)ret, sizeof(*ret)) < 0 || listen(s, 4) < 0 ||
		getsockname(s, (struct sockaddr *)ret, &len) < 0)
		return -1;
	return s;
}

static bool arrives(int s)
{
	struct pollfd p = {.fd = s, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Loopback delivers before connect() returns, so "nothing arrived" needs no waiting. */
static int try_tcp(int filtered)
{
	struct sockaddr_in to, any = {.sin_family = AF_INET};
	struct landlock l;
	struct err e = ERR_INIT;
	struct seccomp_prog p;
	int srv = server(&to), s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), listener;

	REQUIRE(srv >= 0 && s >= 0);
	REQUIRE(connect(s, (struct sockaddr *)&to, sizeof(to)) == 0 && arrives(srv)); /* control */
	close(accept4(srv, NULL, NULL, SOCK_CLOEXEC));
	close(s);
	REQUIRE(landlock_open(&l, LANDLOCK_DENY_TCP, &e) == 0 && l.handled_net != 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	REQUIRE(landlock_apply(&l, &e) == 0);
	if (filtered) {
		REQUIRE(seccomp_build(&p, SECCOMP_PROCESS_TIER, &e) == 0);
		REQUIRE(seccomp_install(&p, SECCOMP_PROCESS_TIER, &listener, &e) == 0);
	}
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(s >= 0 && connect(s, (struct sockaddr *)&to, sizeof(to)) < 0 && errno == EACCES);
	REQUIRE(bind(s, (struct sockaddr *)&any, sizeof(any)) < 0 &&
		errno == (filtered ? EPERM : EACCES));
	REQUIRE(!arrives(srv));
	if (filtered) {
		/* The two ways that Landlock may not see. */
		sendto(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof(to));
		REQUIRE(!arrives(srv));
		REQUIRE(listen(s, 1) < 0 && errno == EPERM);
		REQUIRE(socket(AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */) < 0);
	}
	return 0;
}

TEST(tcp_is_closed)
{
	if (landlock_abi() < 4)
		SKIP("Landlock governs TCP from ABI 4");
	CHECK_INT(in_child(try_tcp, 0), 0);
}

TEST(tcp_is_closed_also_where_landlock_does_not_look)
{
	if (landlock_abi() < 4)
		SKIP("Landlock governs TCP from ABI 4");
	CHECK_INT(in_child(try_tcp, 1), 0);
}

static int try_tcp_left_open(int arg)
{
	struct landlock l;
	struct err e = ERR_INIT;
	struct sockaddr_in to;
	int srv = server(&to), s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(srv >= 0 && landlock_open(&l, false, &e) == 0 && l.handled_net == 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	REQUIRE(landlock_apply(&l, &e) == 0);
	REQUIRE(connect(s, (struct sockaddr *)&to, sizeof(to)) == 0 && arrives(srv));
	return arg;
}

TEST(tcp_stays_open_when_not_asked)
{
	if (landlock_abi() == 0)
		SKIP("this kernel has no Landlock");
	CHECK_INT(in_child(try_tcp_left_open, 0), 0);
}

/* --- scopes --- */

static int try_scopes(int abi)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(sa_family_t) + 20;
	int srv = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), s;
	struct landlock l;
	struct err e = ERR_INIT;
	pid_t pid;

	snprintf(sun.sun_path + 1, 19, "croft-test-%07d", getpid());
	REQUIRE(bind(srv, (struct sockaddr *)&sun, len) == 0 && listen(srv, 4) == 0);
	REQUIRE(kill(getppid(), 0) == 0);
	pretend(abi);
	REQUIRE(landlock_open(&l, LANDLOCK_DENY_TCP, &e) == 0 && (l.scoped != 0) == (abi >= 6));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	REQUIRE(landlock_apply(&l, &e) == 0);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE((connect(s, (struct sockaddr *)&sun, len) < 0) == (abi >= 6));
	REQUIRE((kill(getppid(), 0) < 0) == (abi >= 6));
	REQUIRE((pid = fork()) >= 0); /* our own children stay in reach */
	if (pid == 0) {
		pause();
		_exit(0);
	}
	REQUIRE(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	return 0;
}

TEST(signals_and_abstract_sockets_are_scoped)
{
	if (landlock_abi() < 6)
		SKIP("Landlock has scopes from ABI 6");
	CHECK_INT(in_child(try_scopes, 6), 0);
	CHECK_INT(in_child(try_scopes, 5), 0);
}
