/* SPDX-License-Identifier: Apache-2.0 */
/* The parent of one command: see reaper.h. */
#include "engine/init/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "engine/init/command.h"
#include "engine/wire/wire.h"
#include "os/proctree.h"
#include "os/text_pages.h"

#define TREE_MAX 4096 /* processes that a signal for all reaches at once */

struct reaper {
	struct init *in;
	int sock, group, sigfd, held;
	uint32_t id; /* of the command; 0: idle */
	pid_t main;  /* its first process; 0: it has ended */
	uint64_t utime_us, stime_us, maxrss_kb;
	struct buf pieces; /* of a command line that is on its way */
	char room[WIRE_PIECE_MAX + 64];
};

/* The session reads all the time and a command has few messages: one that finds no room ends us both. */
static void tell(struct reaper *r, struct wire_msg *m)
{
	m->id = r->id;
	m->utime_us = r->utime_us;
	m->stime_us = r->stime_us;
	m->maxrss_kb = r->maxrss_kb;
	if (wire_send(r->sock, m) < 0)
		_exit(125);
}

static void add_usage(struct reaper *r, const struct rusage *u)
{
	r->utime_us += (uint64_t)u->ru_utime.tv_sec * 1000000u + (uint64_t)u->ru_utime.tv_usec;
	r->stime_us += (uint64_t)u->ru_stime.tv_sec * 1000000u + (uint64_t)u->ru_stime.tv_usec;
	r->maxrss_kb = MAX_OF(r->maxrss_kb, (uint64_t)u->ru_maxrss);
}

static void main_ended(struct reaper *r, int status)
{
	struct wire_msg m = {.type = WIRE_EXIT, .value = status};

	r->main = 0;
	tell(r, &m);
}

/* Reap what has ended; when nothing is left, the command is over and the next one may come. */
static void reap(struct reaper *r)
{
	struct wire_msg empty = {.type = WIRE_EMPTY};
	struct rusage u;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &u)) > 0) {
		add_usage(r, &u);
		if (pid == r->main)
			main_ended(r, status);
	}
	if (pid == 0 || errno != ECHILD || !r->id || r->main)
		return;
	tell(r, &empty);
	r->id = 0;
	r->utime_us = r->stime_us = r->maxrss_kb = 0;
}

/* A terminal of the sandbox's own: its other side goes to the session. */
static int open_terminal(const struct wire_process *p, int *ret_master, struct err *e)
{
	struct winsize size = {.ws_row = p->rows, .ws_col = p->cols};
	cleanup_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0, slave;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_set(e, errno, "make a terminal in the sandbox");
	if (size.ws_row && size.ws_col)
		ioctl(master, TIOCSWINSZ, &size);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_set(e, errno, "open a terminal in the sandbox");
	*ret_master = take_fd(&master);
	return slave;
}

static int start(struct reaper *r, const struct wire_process *p, struct wire_msg *exec,
	struct wire_msg *answer, struct err *e)
{
	struct command c = {.argv = p->argv,
		.envp = p->envp,
		.cwd = p->cwd,
		.stdio = {exec->fd[0], exec->fd[1], exec->fd[2]},
		.tty_fd = -1,
		.group_fd = r->group,
		.limits = &p->limits,
		.less = p->flags & WIRE_LESS,
		.own_session = true};
	unsigned stdio_n = exec->fd_n - p->groups; /* 0: a terminal of its own */
	cleanup_fd int master = -1, slave = -1;
	pid_t pid;

	if (exec->fd_n < p->groups || (stdio_n != 0 && stdio_n != 3))
		return err_set(e, EPROTO, "start a command with descriptors that were not agreed on");
	c.groups = exec->fd + stdio_n;
	c.groups_n = p->groups;
	if (stdio_n == 0)
		c.stdio[0] = c.stdio[1] = c.stdio[2] = -1;
	if (p->flags & WIRE_TTY && stdio_n == 3) {
		c.tty_fd = exec->fd[0];
	} else if (p->flags & WIRE_TTY) {
		if ((slave = open_terminal(p, &master, e)) < 0)
			return slave;
		c.tty_fd = c.stdio[0] = c.stdio[1] = c.stdio[2] = slave;
	} else if (stdio_n != 3) {
		return err_set(e, EPROTO, "start a command without standard descriptors");
	}
	pid = command_start(r->in, &c, r->held, e);
	if (pid < 0)
		return (int)pid;
	r->main = pid;
	answer->value = pid;
	answer->rlimits = (r->in->enforced.rlimit_memory ? WIRE_RLIMIT_MEMORY : 0) |
			  (r->in->enforced.rlimit_pids ? WIRE_RLIMIT_PIDS : 0);
	answer->others = r->in->enforced.nproc_others;
	if (master >= 0) {
		answer->fd[0] = take_fd(&master);
		answer->fd_n = 1;
	}
	return 0;
}

static void on_exec(struct reaper *r, struct wire_msg *exec)
{
	struct wire_msg answer = {.type = WIRE_STARTED, .fd = {-1, -1, -1}};
	struct wire_process p = {0};
	struct err e = ERR_INIT;
	int rc;

	buf_add(&r->pieces, exec->body, exec->body_n);
	if (r->id) /* the session's own mistake */
		_exit(125);
	r->id = exec->id;
	rc = r->pieces.failed ? -EPROTO : wire_unpack_process(&p, r->pieces.data, r->pieces.len);
	if (rc < 0)
		err_set(&e, -rc, "read the command line");
	else
		rc = start(r, &p, exec, &answer, &e);
	if (rc < 0) {
		answer = (struct wire_msg){.type = WIRE_FAILED,
			.kind = e.kind ? (uint32_t)e.kind : ERR_FAILED,
			.errnum = e.errnum,
			.fd = {-1, -1, -1}};
		snprintf(answer.text, sizeof(answer.text), "%s", e.msg);
	}
	tell(r, &answer);
	if (answer.fd_n)
		close(answer.fd[0]);
	if (rc < 0)
		r->id = 0;
	wire_process_done(&p);
	buf_done(&r->pieces);
	r->pieces = BUF_INIT(WIRE_PROCESS_MAX);
	if (chdir("/") < 0) /* it was the command's: keep nothing busy */
		_exit(125);
}

static void on_signal(struct reaper *r, const struct wire_msg *m)
{
	cleanup_free pid_t *v = NULL;
	size_t n;

	if (m->id != r->id || m->value <= 0 || m->value > 64)
		return; /* that command is over */
	if (m->scope == WIRE_TO_ALL && m->value == SIGKILL) {
		reap(r);
		proctree_kill(NULL, 0);
		if (r->main)
			main_ended(r, SIGKILL);
		reap(r);
	} else if (m->scope == WIRE_TO_ALL) {
		v = calloc(TREE_MAX, sizeof(*v));
		n = v ? proctree_below(getpid(), v, TREE_MAX) : 0;
		for (size_t i = 0; i < n; i++)
			if (v[i] != getpid())
				kill(v[i], m->value);
	} else if (r->main) {
		kill(m->scope == WIRE_TO_GROUP ? -r->main : r->main, m->value);
	}
}

static void on_message(struct reaper *r)
{
	struct wire_msg m;
	int n = wire_receive(r->sock, r->room, &m);

	if (n == -EAGAIN)
		return;
	if (n <= 0) { /* the session is gone, or not what it was */
		proctree_kill(NULL, 0);
		_exit(0);
	}
	switch (m.type) {
	case WIRE_MORE:
		buf_add(&r->pieces, m.body, m.body_n);
		break;
	case WIRE_EXEC:
		on_exec(r, &m);
		break;
	case WIRE_SIGNAL:
		on_signal(r, &m);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < m.fd_n; i++)
		close(m.fd[i]);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close every descriptor but these; -1 among them stands for none. */
static void close_others(int *keep, size_t n)
{
	unsigned from = 0;

	qsort(keep, n, sizeof(*keep), by_number);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0u);
		from = (unsigned)keep[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0u);
}

/* We are a copy of the first process: keep nothing of it but what a command needs. */
static void become_reaper(struct reaper *r)
{
	int keep[] = {r->sock, r->group, r->in->shield.ruleset};
	sigset_t child;

	close_others(keep, ARRAY_SIZE(keep));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	command_reset_signals();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	r->sigfd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->sigfd < 0)
		_exit(125);
}

_Noreturn void reaper_main(struct init *in, int sock, int group, int held)
{
	struct reaper *r = calloc(1, sizeof(*r));
	struct signalfd_siginfo si;
	int wait_ms = REAPER_REST_MS, n;

	if (!r)
		_exit(125);
	r->in = in;
	r->sock = sock;
	r->group = group;
	r->held = held;
	r->pieces = BUF_INIT(WIRE_PROCESS_MAX);
	become_reaper(r);
	for (;;) {
		struct pollfd p[2] = {
			{.fd = r->sigfd, .events = POLLIN}, {.fd = sock, .events = POLLIN}};

		n = poll(p, 2, wait_ms);
		if (n < 0 && errno != EINTR)
			_exit(125);
		if (n == 0)
			text_pages_give_back();
		wait_ms = n == 0 ? -1 : REAPER_REST_MS;
		if (p[0].revents) {
			while (read(r->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si))
				;
			reap(r);
		}
		if (p[1].revents)
			on_message(r);
	}
}
