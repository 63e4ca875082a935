/* SPDX-License-Identifier: Apache-2.0 */
/* The store of secrets on a real disk: what is kept, what is refused, what nobody can read. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/config/secrets.h"

#define VALUE "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
#define LEN (sizeof(VALUE) - 1)

/* A store of its own; everything goes when the test does. */
struct place {
	char top[64];
	char dir[128];
};

static void place_done(struct place *p)
{
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", p->top, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}
#define PLACE(p)                                                                                   \
	__attribute__((cleanup(place_done))) struct place p = {.top = "/tmp/croft-secret.XXXXXX"}; \
	if (!mkdtemp(p.top))                                                                       \
		SKIP("no temporary directory");                                                    \
	setenv("XDG_STATE_HOME", p.top, 1);                                                        \
	snprintf(p.dir, sizeof(p.dir), "%s/croft/secrets", p.top)

static int put(const char *name, const char *value, size_t n, struct err *e)
{
	cleanup_secret struct secret s = SECRET_INIT;

	if (secret_init(&s, SECRET_MAX_B + 16) < 0 || !secret_add(&s, value, n))
		return -ENOMEM;
	return secret_set(name, &s, e);
}

static const char *file_of(const struct place *p, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	return path;
}

static int write_file(const char *path, const char *text, mode_t mode)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	return fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0 ? -1 : 0;
}

TEST(names)
{
	char longest[SECRET_NAME_MAX + 2];

	CHECK(secret_name_valid("A"));
	CHECK(secret_name_valid("_x9"));
	CHECK(!secret_name_valid(""));
	CHECK(!secret_name_valid("9x"));
	CHECK(!secret_name_valid("a-b"));
	CHECK(!secret_name_valid("a/b"));
	CHECK(!secret_name_valid(".."));
	CHECK(!secret_name_valid("a\n"));
	memset(longest, 'x', sizeof(longest));
	longest[SECRET_NAME_MAX] = '\0';
	CHECK(secret_name_valid(longest));
	longest[SECRET_NAME_MAX] = 'x';
	longest[SECRET_NAME_MAX + 1] = '\0';
	CHECK(!secret_name_valid(longest));
}

TEST(set_and_length)
{
	struct err e = ERR_INIT;
	struct stat st;
	size_t len = 0;
	PLACE(p);

	CHECK(secret_length("TOKEN", &len, &e) < 0);
	CHECK(strstr(e.msg, "croft secret set TOKEN"));
	CHECK_INT(put("TOKEN", VALUE, LEN, &e), 0);
	CHECK_INT(secret_length("TOKEN", &len, &e), 0);
	CHECK_INT(len, LEN);
	CHECK(lstat(file_of(&p, "TOKEN"), &st) == 0 && S_ISREG(st.st_mode));
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK(lstat(p.dir, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0700);
	/* Another value in its place; a loose umask changes nothing. */
	umask(0);
	CHECK_INT(put("TOKEN", VALUE VALUE, 2 * LEN, &e), 0);
	umask(022);
	CHECK_INT(secret_length("TOKEN", &len, &e), 0);
	CHECK_INT(len, 2 * LEN);
	CHECK(lstat(file_of(&p, "TOKEN"), &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(secret_remove("TOKEN", &e), 0);
	CHECK(secret_length("TOKEN", &len, &e) < 0);
	CHECK(secret_remove("TOKEN", &e) < 0);
	CHECK_INT(e.kind, ERR_INVALID);
}

TEST(values_that_are_none)
{
	static const struct {
		const char *value;
		size_t n;
		const char *why;
	} bad[] = {
		{"", 0, "empty"},
		{"fifteen bytes 1", 15, "shorter"},
		{"has a\0NUL byte in it", 20, "NUL"},
		{"two lines\nof text here", 22, "one line"},
		{"a carriage\rreturn in it", 23, "carriage return"},
	};
	char big[SECRET_MAX_B + 1];
	struct err e = ERR_INIT;
	size_t len;
	PLACE(p);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_INT(put("X", bad[i].value, bad[i].n, &e), -EINVAL);
		CHECK(strstr(e.msg, bad[i].why));
		CHECK(bad[i].n < 2 || !strstr(e.msg, bad[i].value)); /* never the value itself */
		CHECK(secret_length("X", &len, &e) < 0);
	}
	memset(big, 'x', sizeof(big));
	CHECK_INT(put("X", big, sizeof(big), &e), -EINVAL);
	CHECK_INT(put("X", big, SECRET_MAX_B, &e), 0);
	CHECK_INT(put("X", big, SECRET_MIN_B, &e), 0);
	CHECK_INT(put("a/b", big, 20, &e), -EINVAL);
	CHECK_INT(put("..", big, 20, &e), -EINVAL);
}

/* A file that somebody could have read or planted is refused, and a good one beside it is not. */
TEST(files_that_are_not_believed)
{
	struct err e = ERR_INIT;
	size_t len;
	PLACE(p);

	CHECK_INT(put("GOOD", VALUE, LEN, &e), 0);
	CHECK_INT(write_file(file_of(&p, "OPEN"), VALUE, 0644), 0);
	CHECK_INT(secret_length("OPEN", &len, &e), -EPERM);
	CHECK_INT(err_exit_code(&e), 126);
	CHECK_INT(write_file(file_of(&p, "GROUP"), VALUE, 0620), 0);
	CHECK_INT(secret_length("GROUP", &len, &e), -EPERM);
	CHECK(symlink("GOOD", file_of(&p, "LINK")) == 0);
	CHECK_INT(secret_length("LINK", &len, &e), -EPERM);
	CHECK(mkdir(file_of(&p, "DIR"), 0700) == 0);
	CHECK_INT(secret_length("DIR", &len, &e), -EPERM);
	CHECK(mkfifo(file_of(&p, "FIFO"), 0600) == 0);
	CHECK_INT(secret_length("FIFO", &len, &e), -EPERM);
	CHECK_INT(write_file(file_of(&p, "SHORT"), "short", 0600), 0);
	CHECK_INT(secret_length("SHORT", &len, &e), -EPERM);
	CHECK_INT(secret_length("GOOD", &len, &e), 0);
	{
		char other[256];

		snprintf(other, sizeof(other), "%s/second", p.top);
		CHECK(link(file_of(&p, "GOOD"), other) == 0);
		CHECK_INT(secret_length("GOOD", &len, &e), -EPERM);
		CHECK(unlink(other) == 0);
		CHECK_INT(secret_length("GOOD", &len, &e), 0);
	}
	/* Setting replaces a symlink, and does not follow it. */
	CHECK_INT(put("LINK", VALUE VALUE, 2 * LEN, &e), 0);
	CHECK_INT(secret_length("LINK", &len, &e), 0);
	CHECK_INT(len, 2 * LEN);
	CHECK_INT(secret_length("GOOD", &len, &e), 0);
	CHECK_INT(len, LEN);
}

TEST(foreign_owner)
{
	struct err e = ERR_INIT;
	size_t len;
	PLACE(p);

	if (geteuid() != 0)
		SKIP("only root can make a file that belongs to another");
	CHECK_INT(put("MINE", VALUE, LEN, &e), 0);
	CHECK_INT(secret_length("MINE", &len, &e), 0);
	CHECK(chown(file_of(&p, "MINE"), 1, 1) == 0);
	CHECK_INT(secret_length("MINE", &len, &e), -EPERM);
	CHECK(strstr(e.msg, "another user"));
}

TEST(directory_open_to_others)
{
	struct err e = ERR_INIT;
	size_t len;
	PLACE(p);

	CHECK_INT(put("X", VALUE, LEN, &e), 0);
	CHECK(chmod(p.dir, 0755) == 0);
	CHECK_INT(secret_length("X", &len, &e), -EPERM);
	CHECK_INT(put("X", VALUE, LEN, &e), -EPERM);
	CHECK(chmod(p.dir, 0700) == 0);
	CHECK_INT(secret_length("X", &len, &e), 0);
	/* The directory itself may not be a symlink. */
	{
		char aside[256];

		snprintf(aside, sizeof(aside), "%s/aside", p.top);
		CHECK(rename(p.dir, aside) == 0 && symlink(aside, p.dir) == 0);
		CHECK(secret_length("X", &len, &e) < 0);
	}
}

/* What is not stored is the caller's variable; a stored value comes first, also one that is no good. */
TEST(from_the_environment)
{
	const char *const names[] = {"FROM_ENV"};
	struct err e = ERR_INIT;
	size_t len = 0;
	int fd;
	PLACE(p);

	unsetenv("FROM_ENV");
	CHECK(secret_length("FROM_ENV", &len, &e) < 0);
	CHECK(strstr(e.msg, "no variable of that name"));
	CHECK(secret_handover(names, 1, &e) < 0);
	setenv("FROM_ENV", "0123456789abcdef-0", 1);
	CHECK_INT(secret_length("FROM_ENV", &len, &e), 0);
	CHECK_INT(len, 18);
	fd = secret_handover(names, 1, &e);
	CHECK(fd >= 0);
	close(fd);
	setenv("FROM_ENV", "short", 1);
	CHECK(secret_length("FROM_ENV", &len, &e) < 0);
	CHECK(strstr(e.msg, "your variable FROM_ENV is shorter"));
	CHECK_INT(put("FROM_ENV", VALUE, LEN, &e), 0);
	CHECK_INT(secret_length("FROM_ENV", &len, &e), 0);
	CHECK_INT(len, LEN);
	CHECK(chmod(file_of(&p, "FROM_ENV"), 0644) == 0);
	setenv("FROM_ENV", "0123456789abcdef-0", 1);
	CHECK(secret_length("FROM_ENV", &len, &e) < 0);
	unsetenv("FROM_ENV");
}

TEST(listing)
{
	cleanup_free struct secret_info *v = NULL;
	cleanup_free struct secret_info *none = NULL;
	struct err e = ERR_INIT;
	size_t n = 9;
	PLACE(p);

	CHECK_INT(secret_list(&none, &n, &e), 0);
	CHECK_INT(n, 0);
	CHECK_INT(put("ZED", VALUE, LEN, &e), 0);
	CHECK_INT(put("ALPHA", VALUE, 20, &e), 0);
	CHECK_INT(write_file(file_of(&p, "MID"), VALUE, 0604), 0);
	CHECK_INT(write_file(file_of(&p, ".TMP.1.tmp"), VALUE, 0600), 0);
	CHECK_INT(secret_list(&v, &n, &e), 0);
	CHECK_INT(n, 3);
	CHECK_STR(v[0].name, "ALPHA");
	CHECK_INT(v[0].len_b, 20);
	CHECK(!v[0].problem && v[0].set_at > 0);
	CHECK_STR(v[1].name, "MID");
	CHECK(v[1].problem);
	CHECK_STR(v[2].name, "ZED");
	CHECK_INT(v[2].len_b, LEN);
}

/* What a keeper gets: names and open files, whose bytes the launcher has not read. */
TEST(handover)
{
	const char *const both[] = {"ONE", "TWO"}, *const missing[] = {"ONE", "NONE"};
	struct err e = ERR_INIT;
	PLACE(p);
	cleanup_fd int sock = -1;

	CHECK_INT(put("ONE", VALUE, LEN, &e), 0);
	CHECK_INT(put("TWO", VALUE VALUE, 2 * LEN, &e), 0);
	CHECK(secret_handover(missing, 2, &e) < 0);
	CHECK(strstr(e.msg, "NONE"));
	sock = secret_handover(both, 2, &e);
	CHECK(sock >= 0);
	for (int i = 0; i < 3; i++) {
		char name[SECRET_NAME_MAX + 1], text[128], control[CMSG_SPACE(sizeof(int))];
		struct iovec iov = {name, sizeof(name)};
		struct msghdr mh = {.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control)};
		cleanup_fd int fd = -1;
		ssize_t n = recvmsg(sock, &mh, MSG_DONTWAIT);

		if (i == 2) {
			CHECK_INT(n, 0);
			break;
		}
		CHECK_INT(n, sizeof(name));
		CHECK_STR(name, both[i]);
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(fd));
		n = read(fd, text, sizeof(text));
		CHECK_INT(n, (i + 1) * LEN);
		CHECK(memcmp(text, VALUE, LEN) == 0);
	}
}

/* Is text anywhere in this process's writable memory but the stack? */
static bool in_memory(const char *text, size_t n)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	cleanup_fd int mem = open("/proc/self/mem", O_RDONLY);
	bool found = false;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char perms[5];
		char *copy;
		ssize_t got;

		if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) != 3 || perms[1] != 'w' ||
			to - from > (64u << 20) || strstr(line, "[stack]"))
			continue;
		copy = malloc(to - from);
		got = copy ? pread(mem, copy, to - from, (off_t)from) : 0;
		for (ssize_t i = 0; !found && i + (ssize_t)n <= got; i++)
			found = memcmp(copy + i, text, n) == 0;
		if (copy)
			memset(copy, 0, (size_t)(to - from));
		free(copy);
	}
	if (maps)
		fclose(maps);
	return found;
}

TEST(wiped_when_done)
{
	struct secret s = SECRET_INIT;
	char text[40];
	size_t n = sizeof(text);

	for (size_t i = 0; i < n; i++) /* made at run time, so that no constant is found */
		text[i] = (char)('A' + (i * 7 + (size_t)getpid()) % 26);
	CHECK_INT(secret_init(&s, n), 0);
	CHECK(secret_add(&s, text, n));
	for (size_t i = 0; i < n; i++)
		text[i] ^= 0x55; /* what is searched for is not itself in memory */
	{
		char want[40];
		bool with, without;

		for (size_t i = 0; i < n; i++)
			want[i] = text[i] ^ 0x55;
		with = in_memory(want, n); /* the control: it is found while it is there */
		secret_done(&s);
		without = in_memory(want, n);
		CHECK(with);
		CHECK(!without);
	}
}

TEST(same)
{
	struct secret a = SECRET_INIT, b = SECRET_INIT;

	CHECK_INT(secret_init(&a, 64), 0);
	CHECK_INT(secret_init(&b, 64), 0);
	CHECK(secret_add(&a, VALUE, LEN) && secret_add(&b, VALUE, LEN));
	CHECK(secret_same(&a, &b));
	b.data[3] ^= 1;
	CHECK(!secret_same(&a, &b));
	b.data[3] ^= 1;
	b.len--;
	CHECK(!secret_same(&a, &b));
	secret_done(&a);
	secret_done(&b);
}
