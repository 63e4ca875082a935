/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for tests of the broker: a directory with rules inside, a body that runs there as a
 * sandboxed process would, under the real filter, and the broker above it.
 */
#ifndef CROFT_TESTS_UNIT_BROKER_WORLD_H
#define CROFT_TESTS_UNIT_BROKER_WORLD_H

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <pthread.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/broker/broker.h"
#include "engine/notice.h"
#include "os/seccomp.h"
#include "os/uapi.h"

/* ---- the world a body finds: its own directory, with some rules inside ---- */

static char top[64], ws[80], other[80], scratch[80];

/* Where a body failed, visible to the test. */
static struct fault {
	int line, errnum;
	const char *what;
} * fault;

#define EXPECT(c)                                                                                  \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			*fault = (struct fault){__LINE__, errno, #c};                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
/* The call fails with this errno. */
#define REFUSED(call, errnum)                                                                      \
	do {                                                                                       \
		errno = 0;                                                                         \
		EXPECT((call) < 0);                                                                \
		EXPECT(errno == (errnum));                                                         \
	} while (0)

static struct policy_rule rules[32];
static char rule_paths[32][160];
static struct policy policy;

static void rule(enum access a, const char *fmt, const char *dir)
{
	struct policy_rule *r = &rules[policy.rules_n];

	snprintf(rule_paths[policy.rules_n], sizeof(rule_paths[0]), "%s%s", dir, fmt);
	*r = (struct policy_rule){
		.access = a, .path = rule_paths[policy.rules_n], .glob = policy_has_glob(fmt)};
	policy.rules_n++;
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

static void make_dir(const char *dir, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (mkdir(path, 0755) < 0)
		abort();
}

static void world(void)
{
	char base[] = "/tmp/croft-broker-XXXXXX";

	if (!fault)
		fault = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*fault = (struct fault){0};
	umask(022);
	if (!mkdtemp(base) || !realpath(base, top))
		abort();
	snprintf(ws, sizeof(ws), "%s/ws", top);
	snprintf(other, sizeof(other), "%s/other", top);
	snprintf(scratch, sizeof(scratch), "%s/scratch", top);
	make_dir(top, "ws");
	make_dir(top, "other");
	make_dir(top, "scratch");
	make_dir(ws, "secret");
	make_dir(ws, "ro");
	make_dir(ws, ".git");
	make_dir(ws, ".git/hooks");
	make_dir(ws, "a");
	put(ws, "file", "hello");
	put(ws, "secret/key", "private");
	put(ws, "ro/file", "fixed");
	put(ws, ".git/hooks/pre", "exit 0");
	put(other, "file", "host");
	policy = (struct policy){.rules = rules, .devices = STRLIST_INIT(8)};
	rule(ACCESS_WRITE, "", ws);
	rule(ACCESS_READ, "/.git/hooks", ws);
	rule(ACCESS_DENY, "/**/.env", ws);
	rule(ACCESS_READ, "/**/.vault/config", ws);
	rule(ACCESS_DENY, "/absent", ws);
	rule(ACCESS_READ, "/ro", ws);
	rule(ACCESS_DENY, "/secret", ws);
}

/* What one run of a body left behind. */
struct run {
	int status;
	int broker_status;
	struct notice notes[64];
	size_t n;
	uint32_t lost;
};
static struct run run;
static bool as_thread; /* the broker is a thread, not a process */

static void send_listener(int sock, int fd)
{
	char byte = 0;
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	if (sendmsg(sock, &m, 0) != 1)
		_exit(98);
}

static int receive_listener(int sock)
{
	char byte;
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

_Noreturn static void run_body(void (*body)(void), unsigned flags, int sock)
{
	static struct seccomp_prog prog;
	struct err e = ERR_INIT;
	int listener = -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (chdir(ws) < 0 || seccomp_build(&prog, flags, &e) < 0 ||
		seccomp_install(&prog, flags, &listener, &e) < 0)
		_exit(97);
	send_listener(sock, listener);
	close(listener);
	close(sock);
	body();
	_exit(0);
}

struct in_thread {
	struct broker b;
	int ready; /* pipe on which the listener's number comes */
};

static void *broker_thread(void *arg)
{
	struct in_thread *t = arg;

	if (read(t->ready, &t->b.listener, sizeof(int)) != sizeof(int) || broker_serve(&t->b) != 0)
		_exit(95);
	return NULL;
}

/* The same as a thread of the body's parent, which itself is under the filter. */
_Noreturn static void run_thread(void (*body)(void), unsigned flags, struct broker *b)
{
	static struct seccomp_prog prog;
	struct in_thread t = {.b = *b};
	struct err e = ERR_INIT;
	int p[2], listener = -1, status = 0;
	pthread_t id;
	pid_t pid;

	t.b.thread = true;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (pipe2(p, O_CLOEXEC) < 0)
		_exit(96);
	t.ready = p[0];
	if (pthread_create(&id, NULL, broker_thread, &t) != 0 || chdir(ws) < 0 ||
		seccomp_build(&prog, flags, &e) < 0 ||
		seccomp_install(&prog, flags, &listener, &e) < 0 ||
		write(p[1], &listener, sizeof(int)) != sizeof(int))
		_exit(97);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_DUMPABLE, 1); /* as after exec: the broker has hidden our parent */
		syscall(SYS_close_range, 3u, ~0u, 0u);
		body();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 94);
}

/* The broker must be an ancestor of whom it serves (Yama), so it is the body's parent. */
_Noreturn static void run_broker(void (*body)(void), unsigned flags, int notices)
{
	static const char *trees[] = {scratch, NULL};
	struct broker b = {.notices = notices,
		.policy = &policy,
		.scratch = trees,
		.observe_reads = (flags & SECCOMP_NOTIFY_READS) != 0};
	int sv[2], status = 0;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (as_thread)
		run_thread(body, flags, &b);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		_exit(96);
	pid = fork();
	if (pid == 0) {
		close(notices);
		close(sv[0]);
		run_body(body, flags, sv[1]);
	}
	close(sv[1]);
	b.listener = receive_listener(sv[0]);
	if (b.listener < 0 || broker_serve(&b) != 0)
		_exit(95);
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 94);
}

static void take_notice(const char *msg, ssize_t len)
{
	struct notice *n = &run.notes[run.n];
	size_t head = offsetof(struct notice, path);

	if (run.n == ARRAY_SIZE(run.notes) || len <= (ssize_t)head)
		return;
	memcpy(n, msg, (size_t)len);
	if ((size_t)len != head + n->path_len)
		abort();
	n->path[n->path_len] = '\0';
	run.lost += n->lost;
	run.n++;
}

static void run_with(void (*body)(void), unsigned flags, bool drain)
{
	static char msg[sizeof(struct notice)];
	int sv[2], status = 0;
	ssize_t n;
	pid_t pid;

	run.n = run.lost = 0;
	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		close(sv[0]);
		run_broker(body, flags, sv[1]);
	}
	close(sv[1]);
	while (drain && (n = recv(sv[0], msg, sizeof(msg), 0)) > 0)
		take_notice(msg, n);
	waitpid(pid, &status, 0);
	while ((n = recv(sv[0], msg, sizeof(msg), MSG_DONTWAIT)) > 0)
		take_notice(msg, n);
	close(sv[0]);
	run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void tidy(void)
{
	char cmd[128];
	pid_t pid;

	snprintf(cmd, sizeof(cmd), "rm -rf -- '%s'", top);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

#define BROKERED (SECCOMP_BROKER | SECCOMP_PROCESS_TIER)

#define RUN_FLAGS(body, flags)                                                                     \
	do {                                                                                       \
		run_with(body, flags, true);                                                       \
		if (fault->line)                                                                   \
			test_fail(__FILE__, fault->line, "%s (errno %d)", fault->what,             \
				fault->errnum);                                                    \
		CHECK_INT(run.status, 0);                                                          \
	} while (0)
#define RUN(body) RUN_FLAGS(body, BROKERED)

__attribute__((unused)) static const struct notice *noted(
	enum notice_op op, bool denied, const char *fmt, const char *dir)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", dir, fmt);
	for (size_t i = 0; i < run.n; i++)
		if (run.notes[i].op == op && run.notes[i].denied == denied &&
			strcmp(run.notes[i].path, path) == 0)
			return &run.notes[i];
	return NULL;
}

__attribute__((unused)) static bool holds(const char *dir, const char *name, const char *text)
{
	char path[256], got[64] = "";
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, got, sizeof(got) - 1);
	close(fd);
	return n >= 0 && strcmp(got, text) == 0;
}

__attribute__((unused)) static bool present(const char *dir, const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0;
}

__attribute__((unused)) static const char *in(const char *dir, const char *name)
{
	static char path[4][512];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

__attribute__((unused)) static void with_forced(const char *what, void (*body)(void))
{
	world();
	setenv("CROFT_FORCE_FAIL", what, 1);
	run_with(body, BROKERED, true);
	unsetenv("CROFT_FORCE_FAIL");
	if (fault->line)
		test_fail(__FILE__, fault->line, "%s: %s (errno %d)", what, fault->what,
			fault->errnum);
	CHECK_INT(run.status, 0);
	tidy();
}

#endif
