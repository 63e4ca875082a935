/* SPDX-License-Identifier: Apache-2.0 */
/* croft-screen as a process: redraws, confinement, and what happens when it is slow, dead or bad. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/clock.h"
#include "os/landlock.h"
#include "screen_world.h"
#include "session/screen/screen_confine.h"
#include "session/screen/screen.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define DEADLINE_MS 30000
#define ROWS 12
#define COLS 40

static const char stream[] = "$ vi\r\n\033[?1049h\033[1;11r\033[?1h\033[H\033[2J\033[94m~\033[m\r\n"
			     "\xe4\xb8\xad"
			     "e\xcc\x81\033[12;1H\033[7m-- INSERT --\033[m\033[3;5H";

/* ---- helpers ---- */

/* Beside croft: below src in a build, and one up in the copy that a plain user tests. */
static const char *program(void)
{
	static const char *const places[] = {"src/croft-screen", "croft-screen"};
	static char path[4096];
	char own[3072];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = '\0';
	for (int up = 0; up < 2; up++)
		if (strrchr(own, '/'))
			*strrchr(own, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s/%s", own, places[i]);
		if (access(path, X_OK) == 0)
			break;
	}
	return path;
}

struct got {
	int calls;
	bool picture, exact;
	size_t n;
	struct termfilter filter;
	unsigned char bytes[SCREEN_DUMP_MAX + TERMFILTER_HOLD];
};
static struct got got;

static void done(void *arg, const struct screen_picture *p)
{
	struct got *g = arg;

	g->calls++;
	g->picture = p;
	if (!p)
		return;
	g->exact = p->exact;
	g->n = p->n;
	g->filter = *p->filter;
	memcpy(g->bytes, p->bytes, p->n);
}

static void turn(struct screen *s)
{
	struct pollfd fds[SCREEN_FDS];
	int n = screen_fds(s, fds), wait = screen_timeout_ms(s);

	poll(fds, (nfds_t)n, wait >= 0 && wait < 1000 ? wait : 1000);
	screen_handle(s, fds, n);
}

/* Ask for a redraw and wait for it. */
static bool redraw(struct screen *s, int timeout_ms)
{
	memset(&got, 0, offsetof(struct got, filter));
	if (screen_dump(s, timeout_ms, done, &got) < 0)
		return false;
	while (!got.calls)
		turn(s);
	return got.picture;
}

static bool start(struct screen *s)
{
	struct err e = ERR_INIT;

	if (screen_start(s, program(), ROWS, COLS, &e) == 0)
		return true;
	printf("# %s\n", e.msg);
	return false;
}

static long proc_number(pid_t pid, const char *file, const char *key)
{
	char path[64], line[256];
	long v = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	cleanup_file FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtol(line + strlen(key), NULL, strcmp(key, "CapEff:") == 0 ? 16 : 10);
	return v;
}

/* ---- redraws ---- */

TEST(redraw_is_that_of_the_model)
{
	struct model m, copy;
	struct screen s;

	CHECK(start(&s));
	CHECK(model_init(&m, ROWS, COLS) && model_init(&copy, ROWS, COLS));
	for (size_t i = 0; i < sizeof(stream) - 1; i += 7) {
		screen_feed(&s, stream + i, MIN_OF((size_t)7, sizeof(stream) - 1 - i));
		model_feed(&m, stream + i, MIN_OF((size_t)7, sizeof(stream) - 1 - i));
	}
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(got.exact);
	model_feed(&copy, got.bytes, got.n);
	CHECK(!screen_differs(&m, &copy));
	screen_resize(&s, ROWS / 2, COLS * 2);
	CHECK(model_resize(&m, ROWS / 2, COLS * 2) && model_resize(&copy, ROWS / 2, COLS * 2));
	CHECK(redraw(&s, DEADLINE_MS));
	model_feed(&copy, "\033c", 2);
	model_feed(&copy, got.bytes, got.n);
	CHECK(!screen_differs(&m, &copy));
	CHECK(!screen_gone(&s));
	screen_stop(&s);
	CHECK(!screen_running(&s) && !screen_gone(&s));
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
	model_done(&m);
	model_done(&copy);
}

TEST(large_redraw_comes_in_parts)
{
	struct model m, copy;
	struct screen s;
	char cell[64];

	CHECK(start(&s));
	screen_resize(&s, 60, 200);
	CHECK(model_init(&m, 60, 200) && model_init(&copy, 60, 200));
	for (unsigned i = 0; i < 60 * 200; i++) {
		int n = snprintf(
			cell, sizeof(cell), "\033[38;2;%u;2;3;48;5;%um#", i % 251, i % 199);

		screen_feed(&s, cell, (size_t)n);
		model_feed(&m, cell, (size_t)n);
		if (i % 64 == 0) {
			struct pollfd fds[SCREEN_FDS];
			int fds_n = screen_fds(&s, fds);

			poll(fds, (nfds_t)fds_n, 0);
			screen_handle(&s, fds, fds_n);
		}
	}
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(got.exact && got.n > 4 * SCREEN_PART_MAX);
	model_feed(&copy, got.bytes, got.n);
	CHECK(!screen_differs(&m, &copy));
	screen_stop(&s);
	model_done(&m);
	model_done(&copy);
}

/* Both screens, as large as they can be, and once more while they are resized. */
TEST(largest_screen_fits_its_memory)
{
	struct screen s;

	CHECK(start(&s));
	screen_resize(&s, 100000, 100000);
	screen_feed(&s, "\033#8\033[?1049h\033#8\033[m", 17);
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(got.exact && got.n > 1000u * 500);
	if (geteuid() == 0 && !SANITIZED)
		printf("# largest: %ld kB\n", proc_number(s.pid, "smaps_rollup", "Pss:"));
	screen_resize(&s, MODEL_ROWS_MAX - 1, MODEL_COLS_MAX - 1);
	CHECK(redraw(&s, DEADLINE_MS));
	screen_resize(&s, 24, 80);
	screen_feed(&s, "\033[2J", 4);
	CHECK(redraw(&s, DEADLINE_MS));
	if (geteuid() == 0 && !SANITIZED)
		printf("# 24 by 80, both screens: %ld kB\n",
			proc_number(s.pid, "smaps_rollup", "Pss:"));
	screen_stop(&s);
}

TEST(works_without_pidfds)
{
	struct screen s;

	setenv("CROFT_FORCE_FAIL", "pidfd_open", 1);
	CHECK(start(&s));
	unsetenv("CROFT_FORCE_FAIL");
	CHECK_INT(s.pidfd, -1);
	CHECK(redraw(&s, DEADLINE_MS));
	screen_stop(&s);
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

/* The rest of a sequence goes through the filter that came with the redraw. */
TEST(filter_holds_the_unfinished_sequence)
{
	unsigned char out[64 + TERMFILTER_HOLD];
	struct screen s;
	size_t n;

	CHECK(start(&s));
	screen_feed(&s, "x\033[3", 4);
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(got.n > 0 && got.bytes[got.n - 1] != '3');
	n = termfilter_run(&got.filter, (const unsigned char *)"1mY", 3, out);
	CHECK(n == 6 && memcmp(out, "\033[31mY", 6) == 0);
	screen_feed(&s, "\r\033]52;c;ZXZp", 12);
	CHECK(redraw(&s, DEADLINE_MS));
	n = termfilter_run(&got.filter, (const unsigned char *)"bA\az", 4, out);
	CHECK(n == 1 && out[0] == 'z'); /* the clipboard stays as it is */
	screen_stop(&s);
}

TEST(one_redraw_at_a_time)
{
	struct screen s;

	CHECK(start(&s));
	memset(&got, 0, offsetof(struct got, filter));
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), 0);
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), -EBUSY);
	screen_dump_cancel(&s);
	CHECK(redraw(&s, DEADLINE_MS)); /* the answer to the first is not taken for it */
	CHECK_INT(got.calls, 1);
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), 0);
	screen_stop(&s);
	CHECK_INT(got.calls, 2);
	CHECK(!got.picture);
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), -ESRCH);
}

/* ---- slow, dead, bad ---- */

TEST(missing_program_is_an_error)
{
	struct screen s;
	struct err e = ERR_INIT;

	CHECK_INT(screen_start(&s, "/nonexistent/croft-screen", ROWS, COLS, &e), -ENOENT);
	CHECK(!screen_running(&s));
	CHECK(strstr(e.msg, "/nonexistent/croft-screen"));
}

TEST(killed_model_is_gone_and_nothing_else)
{
	struct screen s;

	CHECK(start(&s));
	CHECK(redraw(&s, DEADLINE_MS));
	memset(&got, 0, offsetof(struct got, filter));
	CHECK_INT(kill(s.pid, SIGSTOP), 0); /* so that it cannot answer first */
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), 0);
	CHECK_INT(kill(s.pid, SIGKILL), 0);
	while (screen_running(&s)) {
		screen_feed(&s, stream, sizeof(stream) - 1);
		turn(&s);
	}
	CHECK_INT(got.calls, 1);
	CHECK(!got.picture);
	CHECK(screen_gone(&s) && strstr(screen_gone(&s), "signal 9"));
	screen_feed(&s, stream, sizeof(stream) - 1);
	screen_resize(&s, 5, 5);
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), -ESRCH);
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
	screen_stop(&s);
	CHECK(start(&s)); /* and another one can be started */
	CHECK(redraw(&s, DEADLINE_MS));
	screen_stop(&s);
}

TEST(stopped_model_is_not_waited_for)
{
	static char flood[10u << 20];
	struct screen s;

	memset(flood, 'x', sizeof(flood));
	CHECK(start(&s));
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK_INT(kill(s.pid, SIGSTOP), 0);
	for (size_t i = 0; i < sizeof(flood); i += 4096) {
		screen_feed(&s, flood + i, 4096);
		CHECK(s.pending.len - s.sent <= SCREEN_PENDING_MAX + SCREEN_PART_MAX);
		CHECK(s.pending.cap <= 4 * SCREEN_PENDING_MAX);
	}
	CHECK(!redraw(&s, 50)); /* too slow: said so, and it is still there */
	CHECK(screen_running(&s));
	CHECK_INT(kill(s.pid, SIGCONT), 0);
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(!got.exact); /* bytes were dropped */
	screen_feed(&s, "\033[2J\033[Hagain", 12);
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(got.exact);
	CHECK_INT(s.pending.len, 0);
	CHECK(s.pending.cap <= 64u << 10);
	screen_stop(&s);
}

/* Its bytes come from a stand-in here. */
static bool stand_in(struct screen *s, int *ret_peer)
{
	int pair[2];

	*s = SCREEN_INIT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	s->sock = pair[0];
	*ret_peer = pair[1];
	memset(&got, 0, offsetof(struct got, filter));
	return true;
}

static bool say(int peer, uint32_t number, uint32_t flags, const char *bytes, size_t n)
{
	static struct {
		struct screen_answer head;
		char bytes[SCREEN_PART_MAX];
	} a;

	a.head = (struct screen_answer){number, flags};
	memcpy(a.bytes, bytes, n);
	return send(peer, &a, sizeof(a.head) + n, MSG_DONTWAIT) == (ssize_t)(sizeof(a.head) + n);
}

TEST(answers_are_filtered)
{
	static const char evil[] = "a\033]52;c;ZXZpbA==\a\033P+q544e\033\\\033[21t\033[?46h\005"
				   "b";
	struct screen s;
	int peer;

	CHECK(stand_in(&s, &peer));
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), 0);
	CHECK(say(peer, s.number, SCREEN_LAST, evil, sizeof(evil) - 1));
	while (!got.calls)
		turn(&s);
	CHECK(got.picture && got.n == 2 && memcmp(got.bytes, "ab", 2) == 0);
	screen_stop(&s);
	close(peer);
}

TEST(answers_nobody_asked_for_end_it)
{
	struct screen s;
	int peer;

	CHECK(stand_in(&s, &peer));
	CHECK(say(peer, 1, SCREEN_LAST, "x", 1));
	turn(&s);
	CHECK(!screen_running(&s));
	CHECK(strstr(screen_gone(&s), "not asked"));
	close(peer);
	CHECK(stand_in(&s, &peer));
	CHECK(send(peer, "xyz", 3, 0) == 3); /* not even a header */
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), 0);
	turn(&s);
	CHECK(!screen_running(&s));
	CHECK_INT(got.calls, 1);
	CHECK(!got.picture);
	close(peer);
}

TEST(answers_are_bounded)
{
	static char part[SCREEN_PART_MAX];
	struct screen s;
	int peer;

	CHECK(stand_in(&s, &peer));
	memset(part, 'x', sizeof(part));
	CHECK_INT(screen_dump(&s, DEADLINE_MS, done, &got), 0);
	while (screen_running(&s)) {
		CHECK(s.dump.len <= SCREEN_DUMP_MAX);
		say(peer, s.number, 0, part, sizeof(part));
		turn(&s);
	}
	CHECK_INT(got.calls, 1);
	CHECK(!got.picture);
	CHECK(strstr(screen_gone(&s), "more than it may"));
	close(peer);
}

/* ---- memory ---- */

TEST(flood_does_not_grow_it)
{
	struct screen s;
	char block[4096];
	long before, after;

	if (SANITIZED)
		SKIP("a sanitizer's memory is not ours");
	CHECK(start(&s));
	CHECK(redraw(&s, DEADLINE_MS));
	before = proc_number(s.pid, "status", "VmRSS:");
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = "plain text and \033[31mcolours\033[m, line after line\r\n"[i % 49];
	for (int i = 0; i < 2560; i++) { /* 10 MiB */
		screen_feed(&s, block, sizeof(block));
		if (s.pending.len)
			turn(&s);
	}
	CHECK(redraw(&s, DEADLINE_MS));
	CHECK(got.exact); /* it was waited for, so nothing was dropped */
	after = proc_number(s.pid, "status", "VmRSS:");
	printf("# resident: %ld kB, after 10 MiB %ld kB\n", before, after);
	CHECK(before > 0 && after > 0);
	CHECK(after - before < 512);
	if (geteuid() == 0)
		printf("# proportional: %ld kB\n", proc_number(s.pid, "smaps_rollup", "Pss:"));
	screen_stop(&s);
}

/* ---- confinement ---- */

TEST(process_is_confined)
{
	struct screen s;
	/* Not close-on-exec: it must be closed there. */
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), held = fcntl(null, F_DUPFD, 40);
	char path[64], target[64];
	int others = 0;

	CHECK(held >= 40);
	if (SANITIZED)
		SKIP("a sanitizer makes calls of its own");
	CHECK(start(&s));
	CHECK(redraw(&s, DEADLINE_MS)); /* what it reads, it reads confined */
	CHECK_INT(proc_number(s.pid, "status", "NoNewPrivs:"), 1);
	CHECK_INT(proc_number(s.pid, "status", "Seccomp:"), 2);
	CHECK_INT(proc_number(s.pid, "status", "CapEff:"), 0);
	CHECK(proc_number(s.pid, "status", "Seccomp_filters:") >
		proc_number(getpid(), "status", "Seccomp_filters:"));
	for (int fd = 0; fd < 64; fd++) { /* only root sees them: it is not dumpable */
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)s.pid, fd);
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		if (geteuid() != 0)
			CHECK(n < 0 && errno == EACCES);
		else if (fd < 3)
			CHECK_STR(target, "/dev/null");
		else if (fd == 3)
			CHECK(strncmp(target, "socket:", 7) == 0);
		else
			others += n > 0;
	}
	CHECK_INT(others, 0);
	close(held);
	close(null);
	screen_stop(&s);
}

/* ---- each attempt, with the filter and without ---- */

static int pipe_end = -1;

static bool try_open(void)
{
	return open("/proc/self/status", O_RDONLY) >= 0;
}
static bool try_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}
static bool try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0;
}
static bool try_exec(void)
{
	execl("/bin/true", "true", (char *)NULL);
	return false;
}
static bool try_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED;
}
static bool try_code_later(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0;
}
static bool try_shared(void)
{
	return mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}
static bool try_other_descriptor(void)
{
	return write(pipe_end + 1, "x", 1) == 1;
}
static bool try_kill(void)
{
	return kill(getppid(), 0) == 0;
}
static bool try_flags(void)
{
	return fcntl(pipe_end, F_GETFL) >= 0;
}
static bool try_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}
/* What it is there for. */
static bool try_work(void)
{
	void *p = mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char c;

	free(malloc(1000));
	return p != MAP_FAILED && munmap(p, 1u << 20) == 0 && read(pipe_end, &c, 1) == 1;
}

/* The wait status of a process that tries it. */
static int attempt(bool (*try)(void), bool confined)
{
	struct err e = ERR_INIT;
	int status = -1, p[2];
	pid_t pid;

	if (pipe(p) < 0 || write(p[1], "x", 1) != 1)
		return -1;
	pid = fork();
	if (pid == 0) {
		pipe_end = dup2(p[0], 50);
		dup2(p[1], pipe_end + 1);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (confined && screen_confine_calls(pipe_end, &e) < 0)
			_exit(2);
		_exit(try() ? 0 : 1);
	}
	close(p[0]);
	close(p[1]);
	waitpid(pid, &status, 0);
	return status;
}

TEST(filter_ends_whoever_tries_more)
{
	bool (*const tries[])(void) = {try_open, try_socket, try_fork, try_exec, try_code,
		try_code_later, try_shared, try_other_descriptor, try_kill, try_flags,
		try_dumpable};

	if (SANITIZED)
		SKIP("a sanitizer makes calls of its own");
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		int without = attempt(tries[i], false), with = attempt(tries[i], true);

		if (without != 0 || !WIFSIGNALED(with) || WTERMSIG(with) != SIGSYS)
			printf("# attempt %zu: status %x without the filter, %x with it\n", i,
				(unsigned)without, (unsigned)with);
		CHECK_INT(without, 0); /* the negative control */
		CHECK(WIFSIGNALED(with) && WTERMSIG(with) == SIGSYS);
	}
	CHECK_INT(attempt(try_work, true), 0);
}

TEST(without_a_filter_it_does_not_start)
{
	struct err e = ERR_INIT;
	int status = -1;
	pid_t pid;

	if (SANITIZED)
		SKIP("a sanitizer makes calls of its own");
	pid = fork();
	if (pid == 0) {
		setenv("CROFT_FORCE_FAIL", "seccomp", 1);
		_exit(screen_confine_calls(3, &e) == -ENOSYS ? 0 : 1);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

TEST(landlock_closes_files)
{
	int status = -1;
	pid_t pid;

	if (SANITIZED)
		SKIP("a sanitizer reads files");
	if (landlock_abi() == 0)
		SKIP("no Landlock");
	CHECK(try_open());
	pid = fork();
	if (pid == 0) {
		struct err e = ERR_INIT;

		if (screen_confine_files(&e) < 0)
			_exit(2);
		_exit(!try_open() && errno == EACCES ? 0 : 1);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}
