/* SPDX-License-Identifier: Apache-2.0 */
/* core: a copy of what a command writes: head, tail, order, ends that go away, ends that wait. */
#include "stage_world.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "session/stdio/capture.h"
#include "session/stdio/relay.h"

#define MARK_MAX 64

static int temp(void)
{
	return memfd_create("capture", MFD_CLOEXEC);
}

static char *contents(int fd, size_t *ret_n)
{
	struct stat st;
	char *p;

	if (fstat(fd, &st) < 0 || !(p = calloc(1, (size_t)st.st_size + 1)))
		abort();
	*ret_n = pread(fd, p, (size_t)st.st_size, 0) == st.st_size ? (size_t)st.st_size : 0;
	return p;
}

/* Byte i of a stream that repeats with a period which is no power of two. */
static char byte_at(uint64_t i)
{
	return (char)('a' + i % 23);
}

static void feed(struct capture_file *f, uint64_t total, size_t step)
{
	char *p = malloc(step);

	for (uint64_t at = 0; at < total;) {
		size_t n = (size_t)MIN_OF(total - at, (uint64_t)step);

		for (size_t i = 0; i < n; i++)
			p[i] = byte_at(at + i);
		capture_add(f, p, n);
		at += n;
	}
	free(p);
}

/* Head and tail are what they should be, whatever the pieces were. 0: all good. */
static int wrong_at(uint64_t total, size_t step)
{
	struct capture c = CAPTURE_INIT;
	uint64_t head = MIN_OF(total, (uint64_t)CAPTURE_HEAD_B);
	uint64_t tail = MIN_OF(total - head, (uint64_t)CAPTURE_TAIL_B), cut = total - head - tail;
	char mark[MARK_MAX] = "";
	cleanup_free char *got = NULL;
	int bad = 0;
	size_t n, at;

	c.file[CAPTURE_OUT].fd = temp();
	feed(&c.file[CAPTURE_OUT], total, step);
	capture_end(&c);
	capture_end(&c); /* the second time does nothing */
	got = contents(c.file[CAPTURE_OUT].fd, &n);
	if (cut)
		snprintf(mark, sizeof(mark), "\n[croft: %llu bytes left out]\n",
			(unsigned long long)cut);
	if (c.file[CAPTURE_OUT].bytes != total || c.file[CAPTURE_OUT].cut != cut)
		bad = 1;
	if (n != head + strlen(mark) + tail)
		bad = 2;
	for (at = 0; !bad && at < head; at++)
		if (got[at] != byte_at(at))
			bad = 3;
	if (!bad && memcmp(got + head, mark, strlen(mark)) != 0)
		bad = 4;
	for (at = 0; !bad && at < tail; at++)
		if (got[head + strlen(mark) + at] != byte_at(total - tail + at))
			bad = 5;
	capture_done(&c);
	return bad;
}

TEST(head_and_tail_are_exact)
{
	static const uint64_t totals[] = {0, 1, CAPTURE_HEAD_B - 1, CAPTURE_HEAD_B,
		CAPTURE_HEAD_B + 1, CAPTURE_HEAD_B + CAPTURE_TAIL_B - 1,
		CAPTURE_HEAD_B + CAPTURE_TAIL_B, CAPTURE_HEAD_B + CAPTURE_TAIL_B + 1, 2000003,
		8u << 20};
	static const size_t steps[] = {
		977, 4096, 65536, CAPTURE_TAIL_B, CAPTURE_TAIL_B + 7, 1000000, 3u << 20};

	for (size_t i = 0; i < ARRAY_SIZE(totals); i++)
		for (size_t k = 0; k < ARRAY_SIZE(steps); k++)
			if (wrong_at(totals[i], steps[k])) {
				test_fail(__FILE__, __LINE__, "%llu bytes in pieces of %zu: %d",
					(unsigned long long)totals[i], steps[k],
					wrong_at(totals[i], steps[k]));
				return;
			}
}

TEST(a_file_that_takes_no_more_costs_only_the_copy)
{
	struct capture c = CAPTURE_INIT;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	CHECK(full >= 0);
	c.file[CAPTURE_OUT].fd = full;
	feed(&c.file[CAPTURE_OUT], 1000000, 10000);
	capture_end(&c);
	CHECK_INT(c.file[CAPTURE_OUT].bytes, 1000000);
	CHECK_INT(c.file[CAPTURE_OUT].cut, 1000000);
	capture_done(&c);
	/* Nothing is kept where nothing is wanted. */
	feed(&c.file[CAPTURE_OUT], 1000, 100);
	CHECK_INT(c.file[CAPTURE_OUT].bytes, 0);
}

/* ---- whole commands ---- */

struct captured {
	struct ran ran;
	struct capture c;
	char *out, *err;
	size_t out_n, err_n;
};

static void captured_done(struct captured *c)
{
	ran_done(&c->ran);
	capture_done(&c->c);
	free(c->out);
	free(c->err);
}
#define cleanup_captured __attribute__((cleanup(captured_done)))

/* stdout and stderr go to out_fd and err_fd; -1: one file for both, whose content is in ran.out. */
static void run_captured(struct captured *ret, const char *script, int out_fd, int err_fd)
{
	struct run_request q = {.capture = &ret->c};

	ret->c = CAPTURE_INIT;
	ret->c.file[CAPTURE_OUT].fd = temp();
	ret->c.file[CAPTURE_ERR].fd = temp();
	if (out_fd >= 0) {
		q.own_stdio = true; /* as given; ours are copies */
		q.stdio[0] = -1;
		q.stdio[1] = dup(out_fd);
		q.stdio[2] = dup(err_fd);
	}
	run_request_in(&ret->ran, &q, script, NULL);
	ret->out = contents(ret->c.file[CAPTURE_OUT].fd, &ret->out_n);
	ret->err = contents(ret->c.file[CAPTURE_ERR].fd, &ret->err_n);
}

TEST(both_streams_are_copied_and_arrive)
{
	cleanup_captured struct captured c = {0};
	cleanup_fd int out = temp(), err = temp();
	cleanup_free char *o = NULL, *e = NULL;
	size_t n;

	NEEDS_STAGING();
	world();
	run_captured(&c, "echo to out; echo to err >&2; exit 3", out, err);
	CHECK_STR(c.ran.e.msg, "");
	CHECK_INT(c.ran.code, 3);
	CHECK_STR(c.out, "to out\n");
	CHECK_STR(c.err, "to err\n");
	o = contents(out, &n);
	e = contents(err, &n);
	CHECK_STR(o, "to out\n");
	CHECK_STR(e, "to err\n");
	CHECK(!c.c.terminal && c.c.file[CAPTURE_OUT].bytes == 7);
}

TEST(one_destination_keeps_the_order)
{
	cleanup_captured struct captured c = {0};

	NEEDS_STAGING();
	world();
	run_captured(
		&c, "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done", -1, -1);
	CHECK_INT(c.ran.code, 0);
	CHECK(str_starts(c.out, "out 1\nerr 1\nout 2\nerr 2\n"));
	CHECK_STR(c.ran.out, c.out);
	CHECK(c.c.terminal && c.err_n == 0);
}

TEST(background_processes_do_not_hold_it_up_and_are_heard)
{
	cleanup_captured struct captured c = {0};

	NEEDS_STAGING();
	world();
	run_captured(&c,
		"(echo from the background; sleep 1000) & echo main; wait $! & while ! test -e go; "
		"do touch go; done",
		-1, -1);
	CHECK_INT(c.ran.code, 0);
	CHECK(strstr(c.out, "main\n"));
}

TEST(much_output_arrives_whole_and_is_cut_in_the_copy)
{
	cleanup_captured struct captured c = {0};
	cleanup_fd int out = temp(), err = temp();
	struct stat st;

	NEEDS_STAGING();
	world();
	run_captured(&c, "head -c 50000000 /dev/zero; echo end", out, err);
	CHECK_INT(c.ran.code, 0);
	CHECK(fstat(out, &st) == 0);
	CHECK_INT(st.st_size, 50000004);
	CHECK_INT(c.c.file[CAPTURE_OUT].bytes, 50000004);
	CHECK_INT(c.c.file[CAPTURE_OUT].cut, 50000004 - CAPTURE_HEAD_B - CAPTURE_TAIL_B);
	CHECK(c.out_n > 4 && memcmp(c.out + c.out_n - 4, "end\n", 4) == 0);
}

/* A reader in a process of its own: takes n bytes, then does as told. */
enum then { THEN_CLOSE, THEN_ALL };

static pid_t reader(int fd[2], bool socket, size_t n, enum then then, int ret_total)
{
	pid_t pid;

	if (socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) : pipe2(fd, O_CLOEXEC))
		abort();
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		uint64_t total = 0;
		char buf[4096];
		ssize_t got = 1;

		close(fd[1]);
		while (got > 0 && (then == THEN_ALL || total < n)) {
			got = read(fd[0], buf, sizeof(buf));
			total += got > 0 ? (uint64_t)got : 0;
		}
		if (write(ret_total, &total, sizeof(total)) != sizeof(total))
			_exit(1);
		_exit(0);
	}
	close(fd[0]);
	return pid;
}

static void check_reader(const char *script, bool socket, enum then then, uint64_t want,
	struct captured *c, uint64_t *ret_total)
{
	cleanup_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC), told = temp();
	int fd[2], status;
	pid_t pid = reader(fd, socket, (size_t)want, then, told);

	run_captured(c, script, fd[1], null);
	close(fd[1]);
	waitpid(pid, &status, 0);
	if (pread(told, ret_total, sizeof(*ret_total), 0) != sizeof(*ret_total))
		*ret_total = UINT64_MAX;
}

TEST(a_reader_that_leaves_ends_the_command)
{
	cleanup_captured struct captured c = {0};
	uint64_t total;

	NEEDS_STAGING();
	world();
	check_reader("yes", false, THEN_CLOSE, 100000, &c, &total);
	CHECK_INT(c.ran.rc, 0);
	CHECK_INT(c.ran.code, 128 + SIGPIPE);
}

TEST(a_reader_that_leaves_a_socket_ends_the_command)
{
	cleanup_captured struct captured c = {0};
	uint64_t total;

	NEEDS_STAGING();
	world();
	check_reader("yes", true, THEN_CLOSE, 100000, &c, &total);
	CHECK_INT(c.ran.code, 128 + SIGPIPE);
}

TEST(a_slow_reader_gets_everything)
{
	cleanup_captured struct captured pipe_one = {0}, socket_one = {0}, pieces = {0};
	uint64_t total;

	NEEDS_STAGING();
	world();
	check_reader("head -c 5000000 /dev/zero", false, THEN_ALL, 0, &pipe_one, &total);
	CHECK_INT(total, 5000000);
	check_reader("head -c 5000000 /dev/zero", true, THEN_ALL, 0, &socket_one, &total);
	CHECK_INT(total, 5000000);
	/* Where the pipe cannot be opened again, in small pieces. */
	setenv("CROFT_FORCE_FAIL", "pipe-reopen", 1);
	check_reader("head -c 3000000 /dev/zero", false, THEN_ALL, 0, &pieces, &total);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK_INT(total, 3000000);
	CHECK_INT(pieces.ran.code, 0);
}

/* Reads stdout only when "heard" has come through stderr. */
static pid_t picky_reader(int out[2], int err[2], int ret_total)
{
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		abort();
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		uint64_t total = 0;
		char buf[65536];
		ssize_t n;

		alarm(60); /* a supervisor that waits for stdout would wait for ever */
		close(out[1]);
		close(err[1]);
		if (read(err[0], buf, sizeof(buf)) != 6)
			_exit(1);
		while ((n = read(out[0], buf, sizeof(buf))) > 0)
			total += (uint64_t)n;
		_exit(write(ret_total, &total, sizeof(total)) == sizeof(total) ? 0 : 1);
	}
	close(out[0]);
	close(err[0]);
	return pid;
}

TEST(a_destination_that_waits_holds_up_nothing_else)
{
	cleanup_captured struct captured c = {0};
	cleanup_fd int told = temp();
	int out[2], err[2], status;
	uint64_t total = 0;
	pid_t pid;

	NEEDS_STAGING();
	world();
	pid = picky_reader(out, err, told);
	/* It is said when the other is waiting for room already. */
	run_captured(&c,
		"head -c 9000000 /dev/zero & until grep -q '^State:.S' /proc/$!/status; do :; "
		"done; echo heard >&2; wait $!",
		out[1], err[1]);
	CHECK(!(fcntl(out[1], F_GETFL) & O_NONBLOCK));
	close(out[1]);
	close(err[1]);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_INT(pread(told, &total, sizeof(total), 0), sizeof(total));
	CHECK_INT(total, 9000000);
	CHECK_STR(c.err, "heard\n");
}

TEST(our_own_sigpipe_is_as_it_was)
{
	cleanup_captured struct captured c = {0};
	struct sigaction before = {.sa_handler = SIG_DFL}, after;

	NEEDS_STAGING();
	world();
	sigaction(SIGPIPE, &before, NULL);
	run_captured(&c, "true", -1, -1);
	sigaction(SIGPIPE, NULL, &after);
	CHECK(after.sa_handler == SIG_DFL);
}
