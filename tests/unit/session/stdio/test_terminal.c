/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal relay: a pty pair plays the user's terminal (the test types and looks at `user`, the
 * relay has `tty`), and the test itself or a child plays the command on the relay's own pty.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/stdio/terminal.h"

#define WAIT_MS 30000 /* how long an event that must come may take */

struct rig {
	int user, tty, null;
	struct terminal *t;
	int child_stdio[3];
	char seen[65536]; /* what the user saw */
	size_t seen_n;
};

static bool rig_open(struct rig *r, bool in, bool out, bool err)
{
	struct err e = ERR_INIT;
	struct winsize size = {.ws_row = 33, .ws_col = 77};
	struct termios modes;
	int stdio[3];

	r->seen_n = 0;
	r->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	r->user = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	r->t = calloc(1, sizeof(*r->t));
	if (r->user < 0 || !r->t || grantpt(r->user) < 0 || unlockpt(r->user) < 0)
		return false;
	r->tty = open(ptsname(r->user), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (r->tty < 0 || tcgetattr(r->tty, &modes) < 0 || ioctl(r->tty, TIOCSWINSZ, &size) < 0)
		return false;
	modes.c_cc[VERASE] = 'E'; /* something to recognise */
	modes.c_lflag &= ~(tcflag_t)ECHO;
	if (tcsetattr(r->tty, TCSANOW, &modes) < 0)
		return false;
	stdio[0] = in ? r->tty : r->null;
	stdio[1] = out ? r->tty : r->null;
	stdio[2] = err ? r->tty : r->null;
	return terminal_open(r->t, stdio, r->child_stdio, &e) == 0 && terminal_start(r->t, &e) == 0;
}

static void rig_close(struct rig *r)
{
	terminal_done(r->t);
	terminal_done(r->t); /* harmless twice */
	free(r->t);
	close_fd(&r->user);
	close_fd(&r->tty);
	close_fd(&r->null);
}

/* One turn of the loop, the user looking on (or not). False when nothing happens any more. */
static bool turn(struct rig *r, bool look, int extra_fd, int timeout_ms)
{
	struct pollfd fds[TERMINAL_FDS + 2];
	int n = terminal_fds(r->t, fds), mine = n, rc;
	ssize_t got;

	if (look)
		fds[mine++] = (struct pollfd){.fd = r->user, .events = POLLIN};
	if (extra_fd >= 0)
		fds[mine++] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
	rc = poll(fds, (nfds_t)mine, timeout_ms);
	if (rc <= 0)
		return false;
	terminal_handle(r->t, fds, n);
	if (look && fds[n].revents) {
		got = read(r->user, r->seen + r->seen_n, sizeof(r->seen) - 1 - r->seen_n);
		r->seen_n += got > 0 ? (size_t)got : 0;
		r->seen[r->seen_n] = 0;
	}
	return true;
}

static bool sees(struct rig *r, const char *text)
{
	r->seen[r->seen_n] = 0;
	while (!memmem(r->seen, r->seen_n, text, strlen(text)))
		if (!turn(r, true, -1, WAIT_MS))
			return false;
	return true;
}

/* Run the relay until fd is readable, and read from it. */
static ssize_t relay_read(struct rig *r, int fd, void *p, size_t n)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	while (poll(&ready, 1, 0) == 0)
		if (!turn(r, false, fd, WAIT_MS))
			return -1;
	return read(fd, p, n);
}

static bool put(int fd, const char *s)
{
	return write(fd, s, strlen(s)) == (ssize_t)strlen(s);
}

static bool is_raw(int fd)
{
	struct termios m;

	return tcgetattr(fd, &m) == 0 && !(m.c_lflag & (ICANON | ISIG)) && !(m.c_iflag & ICRNL);
}

static bool is_own(int fd) /* as rig_open left it */
{
	struct termios m;

	return tcgetattr(fd, &m) == 0 && (m.c_lflag & ICANON) && (m.c_lflag & ISIG) &&
	       (m.c_oflag & OPOST) && m.c_cc[VERASE] == 'E';
}

TEST(terminal_leaves_pipes_alone)
{
	static struct terminal t;
	struct err e = ERR_INIT;
	int pipes[2], stdio[3], child[3] = {0};
	struct pollfd fds[TERMINAL_FDS];

	CHECK_INT(pipe(pipes), 0);
	stdio[0] = pipes[0];
	stdio[1] = pipes[1];
	stdio[2] = -1;
	CHECK_INT(terminal_open(&t, stdio, child, &e), 0);
	CHECK(!terminal_active(&t));
	CHECK(child[0] == pipes[0] && child[1] == pipes[1] && child[2] == -1);
	CHECK_INT(terminal_start(&t, &e), 0);
	CHECK_INT(terminal_fds(&t, fds), 0);
	terminal_resize(&t);
	terminal_suspend(&t);
	terminal_resume(&t);
	terminal_finish(&t);
	terminal_done(&t);
	CHECK_INT(fcntl(pipes[0], F_GETFD) >= 0, 1);
	close(pipes[0]);
	close(pipes[1]);
	memset(&t, 0, sizeof(t));
	terminal_done(&t); /* never opened: nothing of ours is closed */
	CHECK(fcntl(0, F_GETFD) >= 0 || errno == EBADF);
}

static void relay_both_ways(void)
{
	struct rig r;
	struct termios modes;
	struct winsize size;
	char line[64] = {0};

	CHECK(rig_open(&r, true, true, true));
	CHECK(terminal_active(r.t));
	for (int i = 0; i < 3; i++)
		CHECK_INT(r.child_stdio[i], r.t->slave);
	CHECK(fcntl(r.t->master, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(r.t->slave, F_GETFD) & FD_CLOEXEC);
	CHECK(is_raw(r.tty));
	CHECK(!(fcntl(r.tty, F_GETFL) & O_NONBLOCK)); /* the shell's, too */
	CHECK(is_own(r.t->slave));                    /* the command's is as the user's was */
	CHECK_INT(ioctl(r.t->slave, TIOCGWINSZ, &size), 0);
	CHECK(size.ws_row == 33 && size.ws_col == 77);

	CHECK(put(r.t->slave, "prompt> "));
	CHECK(sees(&r, "prompt> "));
	CHECK(put(r.user, "typed\r")); /* becomes NL in the command's terminal, not in the user's */
	CHECK_INT(relay_read(&r, r.t->slave, line, sizeof(line) - 1), 6);
	CHECK_STR(line, "typed\n");
	CHECK(put(r.t->slave, "a\nb\033]52;c;eA==\a\005c"));
	CHECK(sees(&r, "a\r\nbc"));
	CHECK(!memmem(r.seen, r.seen_n, "\r\r", 2));

	size.ws_row = 50;
	CHECK_INT(ioctl(r.user, TIOCSWINSZ, &size), 0);
	terminal_resize(r.t);
	CHECK_INT(ioctl(r.t->slave, TIOCGWINSZ, &size), 0);
	CHECK_INT(size.ws_row, 50);

	terminal_suspend(r.t);
	CHECK(is_own(r.tty));
	CHECK_INT(tcgetattr(r.tty, &modes), 0);
	modes.c_cc[VKILL] = 'K'; /* changed by the user meanwhile: kept */
	CHECK_INT(tcsetattr(r.tty, TCSANOW, &modes), 0);
	terminal_resume(r.t);
	CHECK(is_raw(r.tty));
	terminal_done(r.t);
	CHECK(is_own(r.tty));
	CHECK_INT(tcgetattr(r.tty, &modes), 0);
	CHECK_INT(modes.c_cc[VKILL], 'K');
	rig_close(&r);
}

TEST(terminal_relays_both_ways_and_restores)
{
	relay_both_ways();
}

TEST(terminal_relays_without_opening_the_tty_again)
{
	setenv("CROFT_FORCE_FAIL", "tty-reopen", 1);
	relay_both_ways();
	unsetenv("CROFT_FORCE_FAIL");
}

TEST(terminal_finish_drains_and_discards_unread_answers)
{
	struct rig r;
	struct pollfd p;
	char junk[64];

	CHECK(rig_open(&r, true, true, true));
	for (int i = 0; i < 300; i++)
		CHECK(put(r.t->slave, "0123456789"));
	CHECK(put(r.t->slave, "last\xc2")); /* withheld by the filter until the end */
	CHECK(put(r.user, "evil\n"));
	terminal_close_slave(r.t);
	terminal_finish(r.t);
	CHECK(!terminal_active(r.t));
	CHECK(is_own(r.tty));
	p = (struct pollfd){.fd = r.tty, .events = POLLIN};
	CHECK_INT(poll(&p, 1, 0), 0); /* nothing typed into the shell */
	CHECK(put(r.user, "shell\n"));
	CHECK_INT(read(r.tty, junk, sizeof(junk)), 6);
	CHECK(sees(&r, "last\xc2"));
	CHECK_INT(r.seen_n, 3005);
	rig_close(&r);
}

TEST(terminal_relays_only_output_when_stdin_is_not_one)
{
	struct rig r;
	char line[16];

	CHECK(rig_open(&r, false, true, true));
	CHECK(r.child_stdio[0] == r.null && r.child_stdio[1] == r.t->slave);
	CHECK(is_own(r.tty)); /* not raw */
	CHECK(put(r.t->slave, "out\n"));
	CHECK(sees(&r, "out\r\n"));
	CHECK_INT(r.seen_n, 5); /* one of the two terminals adds the CR */
	CHECK(put(r.user, "mine\n"));
	while (turn(&r, false, -1, 0))
		;
	CHECK_INT(read(r.tty, line, sizeof(line)), 5); /* left to whoever reads the terminal */
	/* The command does read its terminal: take over. */
	terminal_release_input(r.t);
	CHECK(is_raw(r.tty));
	CHECK(put(r.user, "yours\r"));
	CHECK_INT(relay_read(&r, r.t->slave, line, sizeof(line)), 6);
	CHECK(put(r.t->slave, "more\n"));
	CHECK(sees(&r, "more\r\n"));
	CHECK_INT(r.seen_n, 11);
	terminal_finish(r.t);
	CHECK(is_own(r.tty));
	rig_close(&r);
}

TEST(terminal_in_a_pipeline_leaves_line_ends_to_the_user)
{
	struct rig r;
	struct termios m;
	char line[16];

	CHECK(rig_open(&r, true, false, true));
	CHECK(r.child_stdio[1] == r.null && r.child_stdio[2] == r.t->slave);
	CHECK(is_raw(r.tty));
	CHECK_INT(tcgetattr(r.tty, &m), 0);
	CHECK(m.c_oflag & OPOST); /* the next program of the pipeline writes lines there */
	CHECK(put(r.t->slave, "err\n"));
	CHECK(sees(&r, "err\r\n"));
	CHECK_INT(r.seen_n, 5);
	terminal_hold_input(r.t);
	CHECK(is_own(r.tty));
	CHECK(put(r.user, "pager\n"));
	while (turn(&r, false, -1, 0))
		;
	CHECK_INT(read(r.tty, line, sizeof(line)), 6);
	terminal_release_input(r.t);
	CHECK(is_raw(r.tty));
	rig_close(&r);
	CHECK(rig_open(&r, true, false, false)); /* echo and /dev/tty still have a place to go */
	CHECK(put(r.t->slave, "prompt"));
	CHECK(sees(&r, "prompt"));
	rig_close(&r);
}

/* ---- a child as the command ---- */

/* A process with the relay's slave as its controlling terminal. Its status comes as bytes on
 * *ret_fd. */
static pid_t command(struct rig *r, void (*run)(int slave, int report), int *ret_fd)
{
	int pipes[2];
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		signal(SIGHUP, SIG_DFL);
		close(r->user);
		close(r->t->master);
		close(pipes[0]);
		if (setsid() < 0 || ioctl(r->t->slave, TIOCSCTTY, 0) < 0)
			_exit(99);
		run(r->t->slave, pipes[1]);
		_exit(0);
	}
	close(pipes[1]);
	*ret_fd = pipes[0];
	terminal_close_slave(r->t);
	return pid;
}

static void run_wait(int slave, int report)
{
	(void)!write(report, "r", 1);
	for (;;)
		pause();
}

TEST(terminal_ctrl_c_is_a_signal_inside)
{
	struct rig r;
	int fd = -1, status = 0;
	pid_t pid;
	char c;

	CHECK(rig_open(&r, true, true, true));
	pid = command(&r, run_wait, &fd);
	CHECK_INT(relay_read(&r, fd, &c, 1), 1);
	CHECK(put(r.user, "\x03"));
	CHECK_INT(relay_read(&r, fd, &c, 1), 0); /* it ended */
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	while (!r.t->out_eof)
		CHECK(turn(&r, true, -1, WAIT_MS));
	CHECK(!turn(&r, true, -1, 0)); /* and the loop rests */
	close(fd);
	rig_close(&r);
}

/* A small shell: its job is a group of its own in the foreground. */
static void run_job(int slave, int report)
{
	pid_t job = fork();
	int status = 0;
	char sig;

	if (job == 0) {
		setpgid(0, 0);
		signal(SIGTTOU, SIG_IGN);
		tcsetpgrp(slave, getpid());
		run_wait(slave, report);
	}
	waitpid(job, &status, WUNTRACED);
	sig = WIFSTOPPED(status) ? (char)WSTOPSIG(status) : 0;
	(void)!write(report, &sig, 1);
	kill(job, SIGKILL);
}

TEST(terminal_ctrl_z_stops_the_job_inside)
{
	struct rig r;
	int fd = -1;
	pid_t pid;
	char c;

	CHECK(rig_open(&r, true, true, true));
	pid = command(&r, run_job, &fd);
	CHECK_INT(relay_read(&r, fd, &c, 1), 1);
	CHECK(put(r.user, "\x1a"));
	CHECK_INT(relay_read(&r, fd, &c, 1), 1);
	CHECK_INT(c, SIGTSTP);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(fd);
	rig_close(&r);
}

TEST(terminal_hang_up_reaches_the_command)
{
	struct rig r;
	int fd = -1, status = 0;
	pid_t pid;
	char c;

	CHECK(rig_open(&r, true, true, true));
	pid = command(&r, run_wait, &fd);
	CHECK_INT(relay_read(&r, fd, &c, 1), 1);
	close_fd(&r.user); /* the window was closed */
	while (terminal_active(r.t))
		CHECK(turn(&r, false, -1, WAIT_MS));
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
	close(fd);
	rig_close(&r);
}

#define FLOOD_LINES 40000

static void run_flood(int slave, int report)
{
	char line[32];

	for (int i = 0; i < FLOOD_LINES; i++) {
		int n = snprintf(line, sizeof(line), "line %d\033[m\n", i);

		if (write(slave, line, (size_t)n) != n)
			_exit(1);
	}
	(void)!write(report, "r", 1);
}

TEST(terminal_flood_waits_for_a_slow_user_and_loses_nothing)
{
	struct rig r;
	int fd = -1, next = 0;
	pid_t pid;
	char c, want[32];
	size_t at = 0;

	CHECK(rig_open(&r, true, true, true));
	pid = command(&r, run_flood, &fd);
	while (r.t->out_n == r.t->out_off) /* nobody looks: soon the terminal takes no more */
		CHECK(turn(&r, false, -1, WAIT_MS));
	while (turn(&r, false, -1, 0))
		;
	/* The command waits. */
	CHECK_INT(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
	while (next < FLOOD_LINES) {
		snprintf(want, sizeof(want), "line %d\033[m\r\n", next);
		while (r.seen_n - at < strlen(want)) {
			memmove(r.seen, r.seen + at, r.seen_n - at);
			r.seen_n -= at;
			at = 0;
			CHECK(turn(&r, true, -1, WAIT_MS));
		}
		CHECK(memcmp(r.seen + at, want, strlen(want)) == 0);
		at += strlen(want);
		next++;
	}
	CHECK_INT(r.seen_n, at);
	CHECK_INT(read(fd, &c, 1), 1);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(fd);
	rig_close(&r);
}

static void run_absorb(int slave, int report)
{
	struct termios m;
	char p[4096];
	size_t total = 0;
	ssize_t n;

	tcgetattr(slave, &m);
	cfmakeraw(&m);
	tcsetattr(slave, TCSANOW, &m);
	(void)!write(report, "r", 1);
	while (total < 100000 && (n = read(slave, p, sizeof(p))) > 0)
		for (ssize_t i = 0; i < n; i++, total++)
			if (p[i] != (char)('a' + total % 23))
				_exit(1);
	(void)!write(report, total == 100000 ? "y" : "n", 1);
}

TEST(terminal_paste_of_any_size_arrives_whole)
{
	struct rig r;
	int fd = -1;
	pid_t pid;
	char c = 0, part[1000];
	size_t sent = 0;

	CHECK(rig_open(&r, true, true, true));
	pid = command(&r, run_absorb, &fd);
	CHECK_INT(relay_read(&r, fd, &c, 1), 1);
	while (sent < 100000) {
		ssize_t n;

		for (size_t i = 0; i < sizeof(part); i++)
			part[i] = (char)('a' + (sent + i) % 23);
		n = write(r.user, part, MIN_OF(sizeof(part), 100000 - sent));
		CHECK(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		turn(&r, false, -1, n > 0 ? 0 : WAIT_MS);
	}
	CHECK_INT(relay_read(&r, fd, &c, 1), 1);
	CHECK_INT(c, 'y');
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(fd);
	rig_close(&r);
}

/* ---- job control around us ---- */

/* In a session whose controlling terminal is tty: started in the background, later brought
 * forward. */
static int background_session(struct rig *r)
{
	pid_t bg;
	int status = 0;

	if (setsid() < 0 || ioctl(r->tty, TIOCSCTTY, 0) < 0)
		return 10;
	signal(SIGTTOU, SIG_IGN);
	bg = fork();
	if (bg == 0) {
		struct err e = ERR_INIT;
		struct pollfd fds[TERMINAL_FDS];
		int stdio[3] = {r->tty, r->tty, r->tty}, child[3];
		static struct terminal t;

		signal(SIGTTOU, SIG_DFL);
		setpgid(0, 0);
		if (terminal_open(&t, stdio, child, &e) < 0 || terminal_start(&t, &e) < 0)
			_exit(1);
		if (!is_own(r->tty) || terminal_fds(&t, fds) < 1 || !is_own(r->tty))
			_exit(2);             /* neither stopped nor raw */
		tcsetpgrp(r->tty, getpgrp()); /* stops us (SIGTTOU) until the "shell" gives it */
		terminal_fds(&t, fds);
		if (!is_raw(r->tty))
			_exit(3);
		terminal_done(&t);
		_exit(is_own(r->tty) ? 0 : 4);
	}
	if (waitpid(bg, &status, WUNTRACED) != bg || !WIFSTOPPED(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 11;
	if (tcsetpgrp(r->tty, bg) < 0 || kill(bg, SIGCONT) < 0)
		return 12;
	if (waitpid(bg, &status, 0) != bg)
		return 13;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 14;
}

TEST(terminal_of_a_background_job_is_left_alone)
{
	struct rig r;
	int status = 0;
	pid_t pid;

	CHECK(rig_open(&r, true, true, true));
	terminal_done(r.t); /* only the user's side is wanted */
	pid = fork();
	if (pid == 0)
		_exit(background_session(&r));
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
	rig_close(&r);
}
