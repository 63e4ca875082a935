/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's loop: see supervise.h. */
#include "session/run/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/run/warden.h"
#include "session/run/watch.h"
#include "engine/init/init.h"
#include "os/clock.h"
#include "os/interrupt.h"
#include "os/starter.h"
#include "os/proctree.h"
#include "os/uapi.h"

#define KILL_GRACE_MS 2000

static const int handled[] = {
	SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD};

enum {
	FD_CONTROL,
	FD_SIGNAL,
	FD_STARTER,
	FD_TERMINAL,
	/* the terminal's, then the output's, then the watchers' */
	FD_NUM = FD_TERMINAL + TERMINAL_FDS + RELAY_FDS + WATCH_FDS_MAX
};

struct loop {
	struct supervise *s;
	struct outcome *out;
	struct err *e;
	struct watchers watch;
	struct starter starter;
	uint64_t deadline_ms; /* 0: none */
	uint64_t kill_ms;     /* it was told to end, and is killed then; 0: not told */
	bool go;              /* said: from now on there is, or will be, a command */
	bool over;            /* EXIT or FAILED seen, or control closed */
	int rc;
};

static void signal_init(const struct sandbox *b, int sig)
{
	if (b->pidfd < 0 || syscall(SYS_pidfd_send_signal, b->pidfd, sig, NULL, 0) < 0)
		kill(b->pid, sig);
}

/*
 * A protection ended with the object it was on: nothing is allowed any more, and what the command did
 * since then is not vouched for.
 */
static void on_guard(struct loop *l)
{
	const char *path = guard_broken(&l->watch.guard);

	l->out->unwatched = l->watch.guard.unwatched;
	if (path && !l->out->replaced[0])
		snprintf(l->out->replaced, sizeof(l->out->replaced), "%s", path);
	if (path)
		signal_init(l->s->sandbox, SIGKILL);
}

int sandbox_go(struct sandbox *b, const struct cgroup *cgroup, struct err *e)
{
	struct control_msg go = {.type = CONTROL_GO};
	int join[CGROUP_DIRS_MAX] = {0}, n = 0, r;

	if (!b->in_cgroup && cgroup->kind != CGROUP_NONE &&
		(n = cgroup_join_fds(cgroup, join, e)) < 0)
		return n;
	go.fd_mask = (1u << n) - 1;
	go.status = (cgroup->has & CGROUP_HAS_MEMORY ? GO_CGROUP_MEMORY : 0) |
		    (cgroup->has & CGROUP_HAS_PIDS ? GO_CGROUP_PIDS : 0);
	r = control_send(b->control, &go, join, n);
	while (n > 0)
		close(join[--n]);
	return r < 0 ? err_set(e, -r, "start the command") : 0;
}

/* READY: the sandbox stands locked down and waits. Place it, watch it, let it go. */
static int on_ready(struct loop *l)
{
	struct supervise *s = l->s;
	int r;

	if ((r = watch_ready(&l->watch, l->e)) < 0)
		return r;
	l->out->unwatched = l->watch.guard.unwatched;
	if (s->begin && (r = s->begin(s->meanwhile_arg, l->e)) < 0)
		return r;
	if (s->timeout_ms != LIMIT_NONE)
		l->deadline_ms = clock_ms() + s->timeout_ms;
	if ((r = sandbox_go(s->sandbox, s->cgroup, l->e)) < 0)
		return r;
	l->go = true;
	l->s->gone(l->s->meanwhile_arg);
	watch_go(&l->watch, l->s->terminal->is_tty[0]);
	return 0;
}

/* Time over, or nobody left who wants it: ask it to end, and kill it soon after. */
static void begin_end(struct loop *l)
{
	if (l->kill_ms)
		return;
	l->kill_ms = clock_ms() + KILL_GRACE_MS;
	signal_init(l->s->sandbox, SIGTERM);
	signal_init(l->s->sandbox, SIGCONT);
}

static bool time_is_over(const struct loop *l)
{
	return l->deadline_ms && clock_ms() >= l->deadline_ms;
}

/* Whoever started us is gone, so nobody is left who could end this. */
static void enforce_starter(struct loop *l)
{
	if (l->out->orphaned || !starter_gone(&l->starter))
		return;
	l->out->orphaned = true;
	if (l->go) {
		begin_end(l);
		return;
	}
	l->rc = err_invalid(l->e,
		"the program that started croft ended before the command "
		"was started; --stay lets croft go on without it");
	l->over = true;
}

/*
 * Stop as a job of our own shell, and continue the command when we are continued. Without a shell
 * that could do that (an orphaned process group) the kernel ignores the signal, and both go on at
 * once. The clock goes on meanwhile, for other processes of the command do: when something is due,
 * the warden continues us, and the user's terminal is not ours then.
 */
static void stop_with_it(struct loop *l)
{
	static const struct timespec at_once;
	sigset_t stop, cont, old;
	pid_t warden;

	if (l->kill_ms) { /* it was told to end: no way to put that off */
		signal_init(l->s->sandbox, SIGCONT);
		return;
	}
	warden = warden_start(l->deadline_ms, &l->starter, l->s->disk);
	if (warden < 0) {
		signal_init(l->s->sandbox, SIGCONT);
		return;
	}
	terminal_suspend(l->s->terminal);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, &old); /* here we stop */
	sigprocmask(SIG_SETMASK, &old, NULL);
	/* Handed on below, once: a second one could meet the command in its next stop. */
	sigemptyset(&cont);
	sigaddset(&cont, SIGCONT);
	sigtimedwait(&cont, NULL, &at_once);
	warden_stop(warden);
	if (time_is_over(l) || starter_gone(&l->starter) ||
		diskwatch_look(l->s->disk, clock_ms())) {
		terminal_hold_input(l->s->terminal);
		enforce_starter(l); /* the descriptor that tells of its end is not waited for again */
		return;
	}
	terminal_resume(l->s->terminal);
	signal_init(l->s->sandbox, SIGCONT);
}

/* The command stopped itself (ctrl-Z on its own terminal, or by a signal of its own): stop with it. */
static void on_stopped(struct loop *l, int status)
{
	int sig = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

	if (!terminal_active(l->s->terminal))
		return;
	if (l->s->tty_background && (sig == SIGTTIN || sig == SIGTTOU)) {
		l->s->tty_background = false; /* it really reads: now it may have the keyboard */
		terminal_release_input(l->s->terminal);
		signal_init(l->s->sandbox, SIGCONT);
		return;
	}
	stop_with_it(l);
}

static void on_failed(struct loop *l, const struct control_msg *m)
{
	l->e->kind = m->err_kind < ERR_NUM && m->err_kind ? (enum err_kind)m->err_kind : ERR_FAILED;
	l->e->boundary = m->err_boundary != 0 && !l->go;
	l->e->errnum = m->errnum > 0 ? m->errnum : EIO;
	memcpy(l->e->msg, m->msg, sizeof(l->e->msg));
	l->rc = -l->e->errnum;
	l->over = true;
}

static void on_control(struct loop *l)
{
	struct control_msg m;
	int r = control_receive(l->s->sandbox, &m);

	if (r == -EAGAIN)
		return;
	if (r <= 0) {
		l->over = true;
		if (l->go)
			l->out->started = l->out->lost =
				true; /* killed from inside, perhaps at once */
		else if (l->rc == 0)
			l->rc = err_set(
				l->e, r < 0 ? -r : ECHILD, "the sandbox ended during set-up");
		return;
	}
	switch (m.type) {
	case CONTROL_READY:
		l->rc = l->go ? err_set(l->e, EPROTO, "the sandbox reported twice") : on_ready(l);
		l->over = l->rc < 0;
		break;
	case CONTROL_ASK_TRUST:
		if (!l->go) /* afterwards it is the command's neighbour, and needs nothing */
			l->rc = network_trust_send(l->s->network, l->s->sandbox->control, l->e);
		l->over = l->rc < 0;
		break;
	case CONTROL_STARTED:
		l->out->started = true;
		network_counters(l->s->network, l->s->sandbox);
		break;
	case CONTROL_STOPPED:
		on_stopped(l, m.status);
		break;
	case CONTROL_FAILED:
		on_failed(l, &m);
		break;
	case CONTROL_CONNECTED:
		network_connected(l->s->network, m.id, l->s->sandbox->fd[SANDBOX_FD_INNER]);
		close_fd(&l->s->sandbox->fd[SANDBOX_FD_INNER]);
		break;
	case CONTROL_EXIT:
		l->out->started = true;
		l->out->status = m.status;
		l->out->cpu_us = m.utime_us + m.stime_us;
		l->out->maxrss_kb = m.maxrss_kb;
		l->out->scratch_full = m.scratch_full != 0;
		l->over = true;
		break;
	default:
		break;
	}
}

/* The first process never stops by itself: a command that stops it wants to go on unwatched. */
static void on_child(struct loop *l)
{
	siginfo_t si = {0};

	if (waitid(P_PID, (id_t)l->s->sandbox->pid, &si, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
		si.si_pid && si.si_code == CLD_STOPPED)
		signal_init(l->s->sandbox, SIGKILL);
}

/*
 * Meant for the command; while there is none yet, for the whole undertaking. Where the command is only a
 * step of something that shall end (a replay), it may handle the signal, ignore it or lose it (a shell
 * does, between two commands), but not prevent the end.
 */
static void on_ending_signal(struct loop *l, int sig)
{
	l->s->signals->ended_by = sig;
	if (l->go && interrupt_fd() >= 0 && !l->kill_ms)
		l->kill_ms = clock_ms() + KILL_GRACE_MS;
	if (l->go) { /* its first process holds signals back until the command is there */
		signal_init(l->s->sandbox, sig);
		return;
	}
	l->rc = err_set(l->e, EINTR, "signal %d before the command was started", sig);
	l->over = true;
}

static void on_signal(struct loop *l)
{
	struct signalfd_siginfo si;

	while (read(l->s->signals->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		switch (si.ssi_signo) {
		case SIGCHLD: /* the control socket tells of ends; orphans are reaped later */
			on_child(l);
			break;
		case SIGWINCH:
			terminal_resize(l->s->terminal);
			break;
		case SIGTSTP:
			signal_init(l->s->sandbox, SIGTSTP);
			stop_with_it(l);
			break;
		case SIGCONT:
		case SIGUSR1:
		case SIGUSR2:
			if (l->go)
				signal_init(l->s->sandbox, (int)si.ssi_signo);
			break;
		default:
			on_ending_signal(l, (int)si.ssi_signo);
			break;
		}
	}
}

static void enforce_time(struct loop *l)
{
	if (!l->kill_ms && time_is_over(l)) {
		l->out->timed_out = true;
		begin_end(l);
	} else if (l->kill_ms && clock_ms() >= l->kill_ms) {
		signal_init(l->s->sandbox, SIGKILL);
		l->kill_ms = UINT64_MAX;
	}
}

/* Nothing more may be written: no grace. */
static void enforce_disk(struct loop *l)
{
	if (!l->go || l->out->disk_full || !diskwatch_look(l->s->disk, clock_ms()))
		return;
	l->out->disk_full = true;
	signal_init(l->s->sandbox, SIGKILL);
}

static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : MIN_OF(a, b);
}

static int wait_ms(const struct loop *l)
{
	uint64_t at = l->kill_ms ? l->kill_ms : l->deadline_ms, now = clock_ms();
	int ms = -1;

	if (at && at != UINT64_MAX)
		ms = at <= now ? 0 : (int)MIN_OF(at - now, 1u << 30);
	if (l->starter.pid > 0 && l->starter.fd < 0 && !l->starter.gone)
		ms = sooner(ms, STARTER_ASK_MS);
	return sooner(ms, diskwatch_wait_ms(l->s->disk, now));
}

static void loop_once(struct loop *l)
{
	struct sandbox *b = l->s->sandbox;
	struct pollfd p[FD_NUM] = {
		[FD_CONTROL] = {.fd = b->control, .events = POLLIN},
		[FD_SIGNAL] = {.fd = l->s->signals->fd, .events = POLLIN},
		[FD_STARTER] = {.fd = l->starter.gone ? -1 : l->starter.fd, .events = POLLIN},
	};
	int tty_n = terminal_fds(l->s->terminal, p + FD_TERMINAL);
	struct pollfd *out = p + FD_TERMINAL + tty_n;
	int out_n = relay_fds(l->s->relay, out);
	struct pollfd *watch = out + out_n;
	int watch_n = watch_fds(&l->watch, watch);

	if (poll(p, (nfds_t)(watch + watch_n - p), wait_ms(l)) < 0 && errno != EINTR)
		return;
	/* Watchers first: what the command did is known before it is known to have ended. */
	if (watch_handle(&l->watch, watch))
		on_guard(l);
	if (tty_n)
		terminal_handle(l->s->terminal, p + FD_TERMINAL, tty_n);
	if (out_n)
		relay_handle(l->s->relay, out, out_n);
	if (p[FD_SIGNAL].revents)
		on_signal(l);
	if (p[FD_CONTROL].revents && !l->over) /* a signal may just have ended it */
		on_control(l);
	if (p[FD_STARTER].revents || l->starter.fd < 0)
		enforce_starter(l);
	enforce_time(l);
	enforce_disk(l);
}

int signals_take(struct signals *s, struct err *e)
{
	sigset_t set, blocked;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++) {
		struct sigaction sa;

		if (handled[i] != SIGCHLD && sigaction(handled[i], NULL, &sa) == 0 &&
			sa.sa_handler == SIG_IGN)
			continue;
		sigaddset(&set, handled[i]);
	}
	blocked = set;
	sigaddset(&blocked, SIGIO); /* the guard's, read by itself */
	sigprocmask(SIG_BLOCK, &blocked, &s->old);
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd >= 0)
		return 0;
	sigprocmask(SIG_SETMASK, &s->old, NULL);
	return err_set(e, errno, "watch signals");
}

void signals_release(struct signals *s)
{
	if (s->fd < 0)
		return;
	close_fd(&s->fd);
	if (s->ended_by)
		interrupt_again(s->ended_by);
	sigprocmask(SIG_SETMASK, &s->old, NULL);
}

/* Nothing of the sandbox survives this. */
static void end_sandbox(struct loop *l)
{
	struct sandbox *b = l->s->sandbox;
	/* What the observer still has to tell belongs to the account, too. */
	bool early = l->s->pid_namespace && !l->out->lost && !l->watch.observer.apart;
	int status = 0;

	if (l->rc < 0 || l->out->lost)
		signal_init(b, SIGKILL);
	close_fd(&b->control);
	network_finish(l->s->network);
	if (l->go) /* what no event told */
		on_guard(l);
	if (early)
		watch_traps(&l->watch);
	if (l->rc == 0 && early)
		l->s->meanwhile(l->s->meanwhile_arg, l->out);
	while (waitpid(b->pid, &status, 0) < 0 && errno == EINTR)
		;
	b->waits = false;
	if (l->out->lost)
		l->out->status = status;
	if (!l->s->pid_namespace) {
		cgroup_kill(l->s->cgroup);
		proctree_kill(l->s->others, l->s->others_n);
		prctl(PR_SET_CHILD_SUBREAPER, 0);
	}
	watch_end(&l->watch);
	if (l->rc == 0 && !early)
		l->s->meanwhile(l->s->meanwhile_arg, l->out);
}

int supervise(struct supervise *s, struct outcome *ret, struct err *e)
{
	struct loop l = {.s = s,
		.out = ret,
		.e = e,
		.watch = {.sandbox = s->sandbox,
			.plan = s->plan,
			.network = s->network,
			.record = s->record,
			.workspace = s->workspace,
			.scratch = s->scratch,
			.pid_namespace = s->pid_namespace}};

	*ret = (struct outcome){0};
	starter_open(&l.starter);
	watch_init(&l.watch);
	l.rc = s->refuse ? -ECANCELED : 0;
	if (l.rc == 0)
		enforce_starter(&l);
	while (!l.over && l.rc == 0)
		loop_once(&l);
	live_close(&l.watch.live);
	prompt_close(&l.watch.prompt);
	starter_close(&l.starter);
	end_sandbox(&l);
	watch_done(&l.watch);
	terminal_finish(s->terminal);
	/* Over time is over: only a command that ended by itself has its reader waited for. */
	relay_finish(s->relay, s->signals->fd, l.kill_ms || l.rc < 0 ? KILL_GRACE_MS : -1);
	return l.rc;
}
