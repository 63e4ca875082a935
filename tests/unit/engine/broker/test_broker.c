/* SPDX-License-Identifier: Apache-2.0 */
/* engine: what the broker does and what it refuses, against the real kernel. */
#include "broker_world.h"

/* ---- allowed work ---- */

static void body_ordinary(void)
{
	struct stat st;
	struct timespec ts[2] = {{1000, 0}, {2000, 5}};
	char text[32] = "";
	int fd, dir;

	umask(027);
	fd = open("new", O_CREAT | O_RDWR | O_CLOEXEC, 0666);
	EXPECT(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	EXPECT(write(fd, "data", 4) == 4 && fstat(fd, &st) == 0);
	EXPECT((st.st_mode & 07777) == 0640 && st.st_uid == getuid());
	fd = open("new", O_RDWR | O_APPEND);
	EXPECT(fd >= 0 && fcntl(fd, F_GETFD) == 0);
	EXPECT((fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK)) == O_APPEND);
	EXPECT(write(fd, "+", 1) == 1 && pread(fd, text, 9, 0) == 5 && strcmp(text, "data+") == 0);
	REFUSED(open("new", O_CREAT | O_EXCL | O_WRONLY, 0600), EEXIST);
	EXPECT(open("new", O_WRONLY | O_TRUNC) >= 0 && fstat(fd, &st) == 0 && st.st_size == 0);
	EXPECT(truncate("new", 7) == 0 && fstat(fd, &st) == 0 && st.st_size == 7);
	EXPECT(mkdir("dir", 0777) == 0 && stat("dir", &st) == 0 && (st.st_mode & 0777) == 0750);
	REFUSED(mkdir("dir", 0777), EEXIST);
	dir = open("dir", O_RDONLY | O_DIRECTORY);
	EXPECT(dir >= 0 && mkdirat(dir, "sub/", 0755) == 0);
	EXPECT(symlinkat("../new", dir, "link") == 0 &&
		linkat(AT_FDCWD, "new", dir, "hard", 0) == 0);
	EXPECT(renameat(dir, "hard", AT_FDCWD, "moved") == 0 && stat("moved", &st) == 0 &&
		st.st_nlink == 2);
	EXPECT(chmod("dir/link", 0600) == 0 && stat("new", &st) == 0 &&
		(st.st_mode & 0777) == 0600);
	EXPECT(fchmod(fd, 0644) == 0 && stat("new", &st) == 0 && (st.st_mode & 0777) == 0644);
	EXPECT(chown("new", getuid(), getgid()) == 0 &&
		lchown("dir/link", getuid(), getgid()) == 0);
	EXPECT(utimensat(dir, "link", ts, 0) == 0 && stat("new", &st) == 0 &&
		st.st_mtim.tv_sec == 2000);
	ts[1].tv_sec = 3000;
	EXPECT(futimens(fd, ts) == 0 && fstat(fd, &st) == 0 && st.st_mtim.tv_sec == 3000);
	EXPECT(utimensat(dir, "link", ts, AT_SYMLINK_NOFOLLOW) == 0);
	EXPECT(mknod("fifo", S_IFIFO | 0666, 0) == 0 && lstat("fifo", &st) == 0 &&
		S_ISFIFO(st.st_mode));
	REFUSED(unlinkat(dir, "sub", 0), EISDIR);
	EXPECT(unlinkat(dir, "sub", AT_REMOVEDIR) == 0 && unlinkat(dir, "link", 0) == 0);
	EXPECT(rmdir("dir") == 0 && unlink("moved") == 0 && unlink("fifo") == 0);
	REFUSED(open("missing", O_WRONLY), ENOENT);
	REFUSED(open("file/x", O_CREAT | O_WRONLY, 0600), ENOTDIR);
	REFUSED(open("a", O_WRONLY), EISDIR);
	REFUSED(open("fresh/", O_CREAT | O_WRONLY, 0600), EISDIR);
	REFUSED(unlink("missing"), ENOENT);
}

TEST(broker_does_ordinary_work_as_the_kernel_would)
{
	world();
	RUN(body_ordinary);
	CHECK(noted(NOTICE_CREATE, false, "/new", ws));
	CHECK(noted(NOTICE_CREATE, false, "/dir", ws));
	CHECK(noted(NOTICE_RENAME, false, "/moved", ws));
	CHECK(noted(NOTICE_DELETE, false, "/dir/hard", ws));
	CHECK(noted(NOTICE_META, false, "/new", ws));
	CHECK(noted(NOTICE_WRITE, false, "/new", ws)->exists == 1);
	CHECK(noted(NOTICE_CREATE, false, "/new", ws)->exists == 0);
	for (size_t i = 0; i < run.n; i++)
		CHECK(!run.notes[i].denied);
	tidy();
}

TEST(broker_does_ordinary_work_on_older_kernels)
{
	with_forced("openat2", body_ordinary);
	with_forced("process_vm_readv", body_ordinary);
	with_forced("addfd_send", body_ordinary);
	with_forced("notify_sync", body_ordinary);
}

static void body_xattr(void)
{
	static const char big[1u << 17];
	char text[8] = "";

	if (setxattr("file", "user.x", "v", 1, 0) < 0 && errno == EOPNOTSUPP)
		_exit(77);
	EXPECT(getxattr("file", "user.x", text, sizeof(text)) == 1 && text[0] == 'v');
	REFUSED(setxattr("file", "user.x", "v", 1, XATTR_CREATE), EEXIST);
	REFUSED(setxattr("file", "user.x", big, sizeof(big), 0), E2BIG);
	EXPECT(removexattr("file", "user.x") == 0);
	REFUSED(removexattr("file", "user.x"), ENODATA);
	REFUSED(setxattr("secret/key", "user.x", "v", 1, 0), EACCES);
	REFUSED(removexattr("ro/file", "user.x"), EACCES);
}

TEST(broker_extended_attributes)
{
	world();
	run_with(body_xattr, BROKERED, true);
	if (run.status == 77) {
		tidy();
		SKIP("this file system has no user attributes");
	}
	if (fault->line)
		test_fail(__FILE__, fault->line, "%s (errno %d)", fault->what, fault->errnum);
	CHECK_INT(run.status, 0);
	tidy();
}

/* ---- no network ---- */

static void body_network(void)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(443)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
	struct sockaddr un = {.sa_family = AF_UNIX, .sa_data = "x"};
	int s = socket(AF_INET, SOCK_STREAM, 0), s6 = socket(AF_INET6, SOCK_STREAM, 0), pair[2];

	EXPECT(s >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	v4.sin_addr.s_addr = htonl(0xcb007105); /* 203.0.113.5 */
	v6.sin6_addr = (struct in6_addr){.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	REFUSED(connect(s, (struct sockaddr *)&v4, sizeof(v4)), ENETUNREACH);
	REFUSED(connect(s6, (struct sockaddr *)&v6, sizeof(v6)), ENETUNREACH);
	memcpy(v6.sin6_addr.s6_addr, (uint8_t[16]){[10] = 0xff, 0xff, 203, 0, 113, 6}, 16);
	REFUSED(connect(s6, (struct sockaddr *)&v6, 24), ENETUNREACH);
	REFUSED(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), EPERM);
	/* The kernel's own answers to what is no address. */
	REFUSED(connect(s, (struct sockaddr *)&v4, 4), EINVAL);
	REFUSED(connect(s, (struct sockaddr *)&v4, (socklen_t)-1), EINVAL);
	REFUSED(syscall(SYS_connect, s, 1, sizeof(v4)), EFAULT);
	REFUSED(connect(pair[0], &un, sizeof(un)), ENOENT);
	/* Closed to the broker: refused, whatever it was. */
	EXPECT(prctl(PR_SET_DUMPABLE, 0) == 0);
	REFUSED(connect(s, (struct sockaddr *)&v4, sizeof(v4)), ENETUNREACH);
}

static bool told_network(const char *what, uint32_t port)
{
	for (size_t i = 0; i < run.n; i++)
		if (run.notes[i].op == NOTICE_CONNECT && run.notes[i].port == port &&
			run.notes[i].denied && strcmp(run.notes[i].path, what) == 0)
			return true;
	return false;
}

TEST(n32_connections_without_a_network_are_refused_and_told)
{
	bool traces_all = prctl(PR_CAPBSET_READ, 19 /* CAP_SYS_PTRACE */) == 1 && geteuid() == 0;

	world();
	run_with(body_network, BROKERED | SECCOMP_NOTIFY_NETWORK, true);
	if (fault->line)
		test_fail(__FILE__, fault->line, "%s (errno %d)", fault->what, fault->errnum);
	CHECK_INT(run.status, 0);
	CHECK_INT(run.n, 5);
	CHECK(told_network("203.0.113.5", 443));
	CHECK(told_network("2001:db8::1", 80));
	CHECK(told_network("203.0.113.6", 80));
	CHECK(told_network(NOTICE_NO_DATAGRAMS, 0));
	CHECK(traces_all || told_network(NOTICE_NO_SIGHT, 0));
	tidy();
}

/* ---- refusals ---- */

static void try_everything_on(const char *p)
{
	struct timespec ts[2] = {{1, 0}, {1, 0}};

	REFUSED(open(p, O_WRONLY), EACCES);
	REFUSED(open(p, O_RDWR | O_CREAT | O_TRUNC, 0600), EACCES);
	REFUSED(open(p, O_RDONLY | O_TRUNC), EACCES);
	REFUSED(truncate(p, 0), EACCES);
	REFUSED(chmod(p, 0777), EACCES);
	REFUSED(chown(p, getuid(), getgid()), EACCES);
	REFUSED(utimensat(AT_FDCWD, p, ts, 0), EACCES);
	REFUSED(unlink(p), EACCES);
	REFUSED(rename(p, "stolen"), EACCES);
	REFUSED(rename("file", p), EACCES);
	REFUSED(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, p, 2), EACCES);
	REFUSED(link(p, "alias"), EACCES);
}

static void body_protected(void)
{
	int fd;

	try_everything_on("secret/key");
	try_everything_on("ro/file");
	try_everything_on(".git/hooks/pre");
	try_everything_on(in(other, "file"));
	try_everything_on("../other/file");
	try_everything_on("a/../secret//./key");
	/* The same through a directory held open, and through the file held open for reading. */
	fd = open("secret", O_PATH | O_DIRECTORY);
	EXPECT(fd >= 0);
	REFUSED(openat(fd, "key", O_WRONLY), EACCES);
	REFUSED(openat(fd, "new", O_WRONLY | O_CREAT, 0600), EACCES);
	REFUSED(unlinkat(fd, "key", 0), EACCES);
	EXPECT(fchdir(fd) == 0);
	REFUSED(open("key", O_WRONLY), EACCES);
	REFUSED(open("../ro/file", O_WRONLY), EACCES);
	EXPECT(chdir("..") == 0);
	fd = open("ro/file", O_RDONLY);
	EXPECT(fd >= 0);
	REFUSED(fchmod(fd, 0777), EACCES);
	REFUSED(fchown(fd, getuid(), getgid()), EACCES);
	REFUSED(futimens(fd, NULL), EACCES);
	REFUSED(fchmodat(fd, "", 0777, 0), ENOENT);
	REFUSED(syscall(SYS_fchmodat2, fd, "", 0777, AT_EMPTY_PATH), EACCES);
	REFUSED(linkat(fd, "", AT_FDCWD, "alias", AT_EMPTY_PATH), EACCES);
}

TEST(broker_refuses_every_change_of_what_is_protected)
{
	world();
	RUN(body_protected);
	CHECK(holds(ws, "secret/key", "private"));
	CHECK(holds(ws, "ro/file", "fixed"));
	CHECK(holds(other, "file", "host"));
	CHECK(holds(ws, "file", "hello"));
	CHECK(!present(ws, "alias") && !present(ws, "stolen") && !present(ws, "secret/new"));
	CHECK(noted(NOTICE_WRITE, true, "/secret/key", ws));
	CHECK(noted(NOTICE_META, true, "/ro/file", ws));
	CHECK(noted(NOTICE_DELETE, true, "/file", other));
	CHECK(noted(NOTICE_WRITE, true, "/secret/key", ws)->pid > 0);
	tidy();
}

/* The control: without the broker all of it works, so the refusals above are the broker's. */
TEST(broker_control_the_same_writes_succeed_without_it)
{
	char path[256];
	struct stat st;

	world();
	snprintf(path, sizeof(path), "%s/secret/key", ws);
	CHECK(chmod(path, 0600) == 0 && stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(truncate(path, 0) == 0 && unlink(path) == 0);
	tidy();
}

static void body_absent(void)
{
	REFUSED(open("absent", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("absent", O_CREAT | O_EXCL | O_WRONLY, 0600), EACCES);
	REFUSED(mkdir("absent", 0755), EACCES);
	REFUSED(mkdir("absent/", 0755), EACCES);
	REFUSED(mknod("absent", S_IFIFO | 0600, 0), EACCES);
	REFUSED(symlink("file", "absent"), EACCES);
	REFUSED(link("file", "absent"), EACCES);
	REFUSED(rename("file", "absent"), EACCES);
	REFUSED(rename("a", "absent"), EACCES);
	/* By way of a dangling symlink, and of one to a directory. */
	EXPECT(symlink("absent", "dangling") == 0 && symlink(".", "here") == 0);
	REFUSED(open("dangling", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("here/absent", O_CREAT | O_WRONLY, 0600), EACCES);
	/* An honest dangling symlink is filled where it points. */
	EXPECT(symlink("a/filled", "honest") == 0);
	EXPECT(open("honest", O_CREAT | O_WRONLY, 0600) >= 0 && access("a/filled", F_OK) == 0);
	REFUSED(open("dangling", O_CREAT | O_WRONLY | O_NOFOLLOW, 0600), ELOOP);
	REFUSED(open("dangling", O_CREAT | O_EXCL | O_WRONLY, 0600), EEXIST);
	EXPECT(symlink("loop", "loop") == 0);
	REFUSED(open("loop", O_CREAT | O_WRONLY, 0600), ELOOP);
	REFUSED(unlink("absent"), ENOENT);
	/* Patterns protect names that do not exist yet, at any depth. */
	REFUSED(open(".env", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("a/.env", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(rename("file", "a/.env"), EACCES);
}

TEST(broker_keeps_absent_names_absent)
{
	world();
	RUN(body_absent);
	CHECK(!present(ws, "absent") && !present(ws, ".env") && !present(ws, "a/.env"));
	CHECK(noted(NOTICE_CREATE, true, "/absent", ws));
	CHECK(noted(NOTICE_CREATE, true, "/a/.env", ws));
	CHECK(noted(NOTICE_CREATE, false, "/a/filled", ws));
	tidy();
	with_forced("openat2", body_absent);
}

static void body_ancestors(void)
{
	EXPECT(mkdir("evil", 0755) == 0 && mkdir("evil/hooks", 0755) == 0);
	EXPECT(open("evil/hooks/pre", O_CREAT | O_WRONLY, 0755) >= 0);
	REFUSED(rename(".git", "git2"), EACCES);
	REFUSED(rename(".git", "a/.git"), EACCES);
	REFUSED(syscall(SYS_renameat2, AT_FDCWD, ".git", AT_FDCWD, "evil", 2), EACCES);
	REFUSED(syscall(SYS_renameat2, AT_FDCWD, "evil", AT_FDCWD, ".git", 2), EACCES);
	REFUSED(rename("evil", ".git"), EACCES);
	REFUSED(rmdir(".git"), EACCES);
	REFUSED(rename("secret", "public"), EACCES);
	REFUSED(rename(ws, in(top, "ws2")), EACCES);
	REFUSED(rmdir(ws), EACCES);
	/* Writing beside what is protected goes on. */
	EXPECT(open(".git/index", O_CREAT | O_WRONLY, 0644) >= 0);
	EXPECT(rename(".git/index", ".git/index2") == 0 && unlink(".git/index2") == 0);
	/* Ordinary directories move freely although a ** rule could match below them. */
	EXPECT(rename("a", "b") == 0 && rename("b", "a") == 0 && rename("evil", "a/good") == 0);
	/* A directory that such a rule spells out does not. */
	EXPECT(mkdir("a/.vault", 0755) == 0);
	REFUSED(rename("a/.vault", "a/v"), EACCES);
	REFUSED(rename("a/good", "a/x/.vault"), ENOENT);
	REFUSED(rename("a/good", ".vault"), EACCES);
	REFUSED(symlink("a", ".vault"), EACCES);
	REFUSED(open(".vault", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("a/.vault/config", O_CREAT | O_WRONLY, 0600), EACCES);
	EXPECT(mkdir(".vault", 0755) == 0 && open(".vault/data", O_CREAT | O_WRONLY, 0600) >= 0);
	/* In from where no rule holds: piece by piece. */
	EXPECT(mkdir(in(scratch, "d"), 0755) == 0);
	EXPECT(open(in(scratch, "d/.env"), O_CREAT | O_WRONLY, 0600) >= 0);
	REFUSED(rename(in(scratch, "d"), "d"), EXDEV);
	EXPECT(rename(in(scratch, "d"), in(scratch, "e")) == 0);
	REFUSED(rename(in(scratch, "e/.env"), ".env"), EACCES);
	EXPECT(rename(in(scratch, "e/.env"), "plain") == 0);
}

static void body_ancestor_gone(void)
{
	/* Nobody made .git yet: what stands in its place must be a directory. */
	REFUSED(symlink("a", ".git"), EACCES);
	REFUSED(open(".git", O_CREAT | O_WRONLY, 0644), EACCES);
	REFUSED(rename("file", ".git"), EACCES);
	REFUSED(rename("a", ".git"), EACCES);
	EXPECT(mkdir(".git", 0755) == 0);
	REFUSED(mkdir(".git/hooks", 0755), EACCES);
}

TEST(broker_holds_the_ancestors_of_what_is_protected)
{
	world();
	RUN(body_ancestors);
	CHECK(holds(ws, ".git/hooks/pre", "exit 0"));
	CHECK(!present(ws, "git2") && !present(ws, "d"));
	CHECK(noted(NOTICE_RENAME, true, "/.git", ws));
	for (size_t i = 0; i < run.n; i++)
		CHECK(strstr(run.notes[i].path, "/scratch/") == NULL);
	tidy();
	world();
	CHECK(unlink(in(ws, ".git/hooks/pre")) == 0);
	CHECK(rmdir(in(ws, ".git/hooks")) == 0 && rmdir(in(ws, ".git")) == 0);
	RUN(body_ancestor_gone);
	tidy();
}

static void body_symlinks(void)
{
	EXPECT(symlink(other, "out") == 0 && symlink("secret/key", "key") == 0);
	EXPECT(symlink("file", "in") == 0 && symlink("in", "in2") == 0);
	REFUSED(open("out/file", O_WRONLY), EACCES);
	REFUSED(open("out/new", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("key", O_WRONLY | O_TRUNC), EACCES);
	REFUSED(chmod("key", 0777), EACCES);
	REFUSED(open("in", O_WRONLY | O_NOFOLLOW), ELOOP);
	EXPECT(open("in2", O_WRONLY) >= 0);
	/* The link itself is the workspace's. */
	EXPECT(rename("key", "key2") == 0 && unlink("key2") == 0 &&
		access("secret/key", F_OK) == 0);
	EXPECT(link("in", "in3") == 0 && readlink("in3", (char[8]){0}, 8) == 4);
	EXPECT(open("in", O_PATH | O_NOFOLLOW) >= 0);
}

TEST(broker_judges_where_symlinks_lead)
{
	world();
	RUN(body_symlinks);
	CHECK(holds(other, "file", "host") && !present(other, "new"));
	CHECK(noted(NOTICE_WRITE, true, "/file", other));
	CHECK(noted(NOTICE_WRITE, true, "/secret/key", ws));
	tidy();
	with_forced("openat2", body_symlinks);
}

static void body_alias(void)
{
	REFUSED(open("real/x", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("link/x", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(rename("real", "unreal"), EACCES);
	REFUSED(unlink("link"), EACCES);
	REFUSED(open("real/none", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("a/deep/keep", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(open("a/none/x", O_CREAT | O_WRONLY, 0600), ENOENT);
	REFUSED(mkdir("a/none", 0755), EACCES);
	EXPECT(open("a/deep/free", O_CREAT | O_WRONLY, 0600) >= 0);
	EXPECT(open(in(other, "granted"), O_CREAT | O_WRONLY, 0600) >= 0);
	EXPECT(open(in(top, "grant/too"), O_CREAT | O_WRONLY, 0600) >= 0);
	/* A grant follows no link from where the sandbox writes, nor one the project names. */
	REFUSED(open("planted/x", O_CREAT | O_WRONLY, 0600), EACCES);
	REFUSED(chmod(in(top, "outside"), 0777), EACCES);
	REFUSED(chmod(in(top, "outside2"), 0777), EACCES);
}

TEST(broker_applies_rules_written_with_symlinks)
{
	world();
	make_dir(ws, "real");
	make_dir(ws, "a/deep");
	CHECK(symlink("real", in(ws, "link")) == 0 && symlink(other, in(top, "grant")) == 0);
	CHECK(symlink("a", in(ws, "to_a")) == 0);
	rule(ACCESS_DENY, "/link", ws);
	rule(ACCESS_WRITE, "/grant", top);
	rule(ACCESS_DENY, "/to_a/**/keep", ws);
	rule(ACCESS_READ, "/to_a/none", ws);
	make_dir(top, "outside");
	make_dir(top, "outside2");
	CHECK(symlink("../outside", in(ws, "planted")) == 0);
	CHECK(symlink("outside2", in(top, "project")) == 0);
	rule(ACCESS_WRITE, "/planted", ws);
	rule(ACCESS_WRITE, "/project", top);
	rules[policy.rules_n - 1].origin.layer = LAYER_PROJECT;
	RUN(body_alias);
	tidy();
}

TEST(broker_works_as_a_thread_of_the_callers_parent)
{
	as_thread = true;
	world();
	RUN(body_ordinary);
	tidy();
	world();
	RUN(body_protected);
	CHECK(holds(ws, "secret/key", "private"));
	tidy();
	as_thread = false;
}
