/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's loop: see supervise.h. */
#include "core/supervise.h"

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
#include "core/guard.h"
#include "core/live.h"
#include "core/observe.h"
#include "core/prompt.h"
#include "core/warden.h"
#include "engine/decoys.h"
#include "engine/init.h"
#include "os/clock.h"
#include "os/fuse.h"
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
	FD_NOTIFY,
	FD_NOTICES,
	FD_DECOY,
	FD_GUARD,
	FD_LIVE,
	FD_PROMPT,
	FD_STARTER,
	FD_TERMINAL,
	/* the terminal's, then the output's, then the network's */
	FD_NUM = FD_TERMINAL + TERMINAL_FDS + RELAY_FDS + NETWORK_FDS_MAX
};

struct loop {
	struct supervise *s;
	struct outcome *out;
	struct err *e;
	struct observer observer;
	int observed; /* what it tells once it is apart; -1 before, and after its end */
	struct decoyfs decoyfs;
	struct decoy_slots slots;
	struct guard guard;
	struct live live;
	struct prompt prompt;
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

static void on_notice(void *arg, const struct notice *n)
{
	record_notice(arg, n);
}

static void tell_slot(struct loop *l, size_t slot, const char *name, enum notice_op op,
	enum notice_source source, pid_t pid)
{
	struct notice n = {.op = (uint8_t)op, .denied = 1, .source = (uint8_t)source, .pid = pid};
	int len;

	if (slot >= l->slots.n)
		return;
	len = snprintf(n.path, sizeof(n.path), "%s%s%s", l->slots.path[slot], name ? "/" : "",
		name ? name : "");
	n.path_len = (uint32_t)MIN_OF((size_t)len, sizeof(n.path) - 1);
	record_notice(l->s->record, &n);
}

static bool told(const struct loop *l, size_t slot, const char *name, bool below)
{
	char path[POLICY_PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", l->slots.path[slot], name ? "/" : "",
		name ? name : "");
	return record_has_denial(l->s->record, path, below);
}

static void on_decoy(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid)
{
	static const enum notice_op ops[] = {[DECOY_READ] = NOTICE_READ,
		[DECOY_WRITE] = NOTICE_WRITE,
		[DECOY_CREATE] = NOTICE_CREATE,
		[DECOY_DELETE] = NOTICE_DELETE,
		[DECOY_META] = NOTICE_META,
		[DECOY_EXEC] = NOTICE_EXEC};
	struct loop *l = arg;

	/* Whoever changes something below a mask looks it up first, and the observer has told. */
	if (slot < l->slots.n && l->slots.mask[slot] && op == DECOY_READ &&
		told(l, slot, name, false))
		return;
	tell_slot(l, slot, name, ops[op], NOTICE_BY_DECOY, pid);
}

/* Whoever tried to write there followed the same symlink, and was told by another. */
static void on_trap(void *arg, size_t slot, const char *name)
{
	struct loop *l = arg;
	bool look = l->slots.kind[slot] == DECOY_DIR && !name;

	if (!told(l, slot, name, true))
		tell_slot(l, slot, name, look ? NOTICE_LOOK : NOTICE_READ, NOTICE_BY_TRAP, 0);
}

/*
 * Whoever has a file with bytes can make the observer wait for whoever serves it: before the first is
 * handed out, the observer becomes another thread.
 */
static int part_observer(struct loop *l)
{
	struct network *n = l->s->network;
	int fd;

	if (l->observer.apart || l->s->sandbox->fd[SANDBOX_FD_NOTIFY] < 0)
		return 0;
	fd = observer_apart(&l->observer);
	if (fd < 0 && !n->trust_failed)
		strlist_add(&n->notes, "the command could not read its lists of authorities: the "
				       "observer could not be made a thread");
	n->trust_failed = n->trust_failed || fd < 0;
	l->observed = MAX_OF(fd, -1);
	return MIN_OF(fd, 0);
}

static int on_trust_file(void *arg, size_t file, const void **ret, size_t *ret_n)
{
	struct loop *l = arg;
	int r = part_observer(l);

	return r < 0 ? r : network_trust_file(l->s->network, (enum trust_file)file, ret, ret_n);
}

/* For decisions and new rules from outside, while it runs. Nobody waits for this. */
static void open_live(struct loop *l)
{
	struct network *n = l->s->network;
	struct err why = ERR_INIT;

	if (n->policy)
		prompt_open(&l->prompt, l->s->terminal->is_tty[0]);
	if (n->policy && live_open(&l->live, n->home, n->run_id, &why) < 0)
		strlist_add(&n->notes, "this run could not be talked to while it ran");
}

/*
 * A protection ended with the object it was on: nothing is allowed any more, and what the command did
 * since then is not vouched for.
 */
static bool on_guard(struct loop *l)
{
	const char *path = guard_broken(&l->guard);

	if (path && !l->out->replaced[0])
		snprintf(l->out->replaced, sizeof(l->out->replaced), "%s", path);
	if (path)
		signal_init(l->s->sandbox, SIGKILL);
	return path != NULL;
}

/* Before GO: from here on every replacement is seen, and there was none before. */
static int open_guard(struct loop *l)
{
	const char *path;
	int r = guard_open(&l->guard, l->s->plan, l->e);

	l->out->unwatched = l->guard.unwatched;
	if (r == 0 && (path = guard_broken(&l->guard)))
		r = err_refuse(l->e, "%s was replaced while the sandbox was being set up", path);
	return r;
}

/* READY: the sandbox stands locked down and waits. Place it, watch it, let it go. */
static int on_ready(struct loop *l)
{
	struct supervise *s = l->s;
	struct control_msg go = {.type = CONTROL_GO};
	int join[CGROUP_DIRS_MAX], n = 0, r;

	if ((r = open_guard(l)) < 0)
		return r;
	if (s->begin && (r = s->begin(s->meanwhile_arg, l->e)) < 0)
		return r;
	if (!s->sandbox->in_cgroup && s->cgroup->kind != CGROUP_NONE &&
		(n = cgroup_join_fds(s->cgroup, join, l->e)) < 0)
		return n;
	go.fd_mask = (1u << n) - 1;
	go.status = (s->cgroup->has & CGROUP_HAS_MEMORY ? GO_CGROUP_MEMORY : 0) |
		    (s->cgroup->has & CGROUP_HAS_PIDS ? GO_CGROUP_PIDS : 0);
	network_take(s->network, s->sandbox);
	l->observer.listener = s->sandbox->fd[SANDBOX_FD_NOTIFY];
	l->observer.served = s->sandbox->fd[SANDBOX_FD_DECOY] >= 0;
	l->observer.decoys =
		l->observer.served || s->sandbox->fd[SANDBOX_FD_TRAP] >= 0 ? &l->slots : NULL;
	l->decoyfs.dev_fd = s->sandbox->fd[SANDBOX_FD_DECOY];
	if (s->timeout_ms != LIMIT_NONE)
		l->deadline_ms = clock_ms() + s->timeout_ms;
	r = control_send(s->sandbox->control, &go, join, n);
	while (n > 0)
		close(join[--n]);
	if (r < 0)
		return err_set(l->e, -r, "start the command");
	l->go = true;
	l->s->gone(l->s->meanwhile_arg);
	open_live(l);
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

/*
 * Stop as a job of our own shell, and continue the command when we are continued. Without a shell
 * that could do that (an orphaned process group) the kernel ignores the signal, and both go on at
 * once. The clock goes on meanwhile, for other processes of the command do: when something is due,
 * the warden continues us, and the user's terminal is not ours then.
 */
static void stop_with_it(struct loop *l)
{
	sigset_t stop, old;
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
	warden_stop(warden);
	if (time_is_over(l) || starter_gone(&l->starter) ||
		diskwatch_look(l->s->disk, clock_ms())) {
		terminal_hold_input(l->s->terminal);
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
		network_connected(l->s->network, l->s->sandbox->fd[SANDBOX_FD_INNER]);
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

/* The broker says where a decoy really is. Those of FUSE tell by themselves. */
static bool name_decoy(const struct loop *l, struct notice *n)
{
	if (trap_rename(&l->slots, n->path, sizeof(n->path)))
		n->path_len = (uint32_t)strlen(n->path);
	return strncmp(n->path, DECOY_DIR_INSIDE "/", sizeof(DECOY_DIR_INSIDE)) != 0;
}

/*
 * Notices from the broker, or from the observer once it is apart: one message each, length checked
 * against its own header.
 */
static void on_notices(struct loop *l, int *fd, enum notice_source source)
{
	struct notice n;

	for (int i = 0; i < 256; i++) {
		ssize_t len = recv(*fd, &n, sizeof(n), MSG_DONTWAIT);
		size_t head = offsetof(struct notice, path);

		if (len == 0) {
			close_fd(fd);
			return;
		}
		if (len < 0)
			return;
		if ((size_t)len <= head || n.path_len >= sizeof(n.path) ||
			(size_t)len != head + n.path_len || n.op >= NOTICE_OP_NUM ||
			memchr(n.path, '\0', n.path_len))
			continue;
		n.path[n.path_len] = '\0';
		if (n.op == NOTICE_CONNECT) {
			network_notice(l->s->network, &n);
			continue;
		}
		if (n.lost)
			l->s->record->files_full = true;
		n.source = (uint8_t)source;
		if (source == NOTICE_BY_BROKER && l->s->pid_namespace && !name_decoy(l, &n))
			continue;
		record_notice(l->s->record, &n);
	}
}

static void on_observed(struct loop *l)
{
	if (l->observer.apart)
		on_notices(l, &l->observed, NOTICE_BY_OBSERVER);
	else if (observer_serve(&l->observer) < 0)
		close_fd(&l->s->sandbox->fd[SANDBOX_FD_NOTIFY]);
}

/* Nobody is left to look at. A look that waits for a served file is let go by not serving it any more. */
static void end_observer(struct loop *l)
{
	struct pollfd p = {.fd = l->observed, .events = POLLIN};

	if (l->observer.apart)
		close_fd(&l->s->sandbox->fd[SANDBOX_FD_DECOY]);
	while (l->observed >= 0)
		if (poll(&p, 1, -1) > 0)
			on_notices(l, &l->observed, NOTICE_BY_OBSERVER);
	observer_join(&l->observer);
	if (l->observer.lost) /* a call that could not be looked at may have changed a file */
		l->s->record->files_full = true;
	observer_done(&l->observer);
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
		[FD_NOTIFY] = {.fd = l->observer.apart ? l->observed : b->fd[SANDBOX_FD_NOTIFY],
			.events = POLLIN},
		[FD_NOTICES] = {.fd = b->fd[SANDBOX_FD_NOTICES], .events = POLLIN},
		[FD_DECOY] = {.fd = b->fd[SANDBOX_FD_DECOY], .events = POLLIN},
		[FD_GUARD] = {.fd = l->guard.fd, .events = POLLIN},
		[FD_LIVE] = {.fd = l->live.fd, .events = POLLIN},
		[FD_PROMPT] = {.fd = l->prompt.asked ? l->prompt.fd : -1, .events = POLLIN},
		[FD_STARTER] = {.fd = l->starter.gone ? -1 : l->starter.fd, .events = POLLIN},
	};
	int tty_n = terminal_fds(l->s->terminal, p + FD_TERMINAL);
	struct pollfd *out = p + FD_TERMINAL + tty_n;
	int out_n = relay_fds(l->s->relay, out);
	struct pollfd *net = out + out_n;
	int net_n = network_fds(l->s->network, net);

	if (poll(p, (nfds_t)(net + net_n - p), wait_ms(l)) < 0 && errno != EINTR)
		return;
	if (p[FD_GUARD].revents) {
		guard_drain(&l->guard);
		l->out->unwatched = l->guard.unwatched;
		on_guard(l);
	}
	/* Watchers first: what the command did is known before it is known to have ended. */
	if (p[FD_NOTIFY].revents)
		on_observed(l);
	if (p[FD_DECOY].revents && decoyfs_serve(&l->decoyfs) < 0)
		close_fd(&b->fd[SANDBOX_FD_DECOY]);
	if (p[FD_NOTICES].revents)
		on_notices(l, &b->fd[SANDBOX_FD_NOTICES], NOTICE_BY_BROKER);
	if (tty_n)
		terminal_handle(l->s->terminal, p + FD_TERMINAL, tty_n);
	if (out_n)
		relay_handle(l->s->relay, out, out_n);
	if (p[FD_LIVE].revents)
		live_serve(&l->live, l->s->network);
	if (p[FD_PROMPT].revents)
		prompt_read(&l->prompt, l->s->network);
	if (net_n)
		network_handle(l->s->network, net, net_n, b);
	prompt_show(&l->prompt, l->s->network);
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

/* What the command followed, now that it has ended. */
static void read_traps(struct loop *l)
{
	int *fd = &l->s->sandbox->fd[SANDBOX_FD_TRAP];

	if (*fd >= 0)
		traps_read(*fd, &l->slots, on_trap, l);
	close_fd(fd);
}

/* Nothing of the sandbox survives this. */
static void end_sandbox(struct loop *l)
{
	struct sandbox *b = l->s->sandbox;
	/* What the observer still has to tell belongs to the account, too. */
	bool early = l->s->pid_namespace && !l->out->lost && !l->observer.apart;
	int status = 0;

	if (l->rc < 0 || l->out->lost)
		signal_init(b, SIGKILL);
	close_fd(&b->control);
	network_finish(l->s->network);
	if (l->go) /* what no event told */
		on_guard(l);
	if (early)
		read_traps(l);
	if (l->rc == 0 && early)
		l->s->meanwhile(l->s->meanwhile_arg, l->out);
	while (waitpid(b->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (l->out->lost)
		l->out->status = status;
	if (!l->s->pid_namespace) {
		cgroup_kill(l->s->cgroup);
		proctree_kill(l->s->others, l->s->others_n);
		prctl(PR_SET_CHILD_SUBREAPER, 0);
	}
	while (b->fd[SANDBOX_FD_NOTICES] >= 0 &&
		recv(b->fd[SANDBOX_FD_NOTICES], &status, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		on_notices(l, &b->fd[SANDBOX_FD_NOTICES], NOTICE_BY_BROKER);
	end_observer(l);
	read_traps(l);
	if (l->rc == 0 && !early)
		l->s->meanwhile(l->s->meanwhile_arg, l->out);
}

int supervise(struct supervise *s, struct outcome *ret, struct err *e)
{
	struct loop l = {.s = s,
		.out = ret,
		.e = e,
		.observed = -1,
		.guard = GUARD_INIT,
		.live = LIVE_INIT,
		.prompt = PROMPT_INIT};

	*ret = (struct outcome){0};
	starter_open(&l.starter);
	l.observer = (struct observer){.listener = -1,
		.scratch = s->scratch,
		.policy = s->plan->policy,
		.workspace = s->workspace,
		.reads = s->plan->policy->observe == OBSERVE_FULL,
		.saw = on_notice,
		.arg = s->record};
	decoy_slots(&l.slots, s->plan);
	l.decoyfs = (struct decoyfs){.dev_fd = -1,
		.slots_n = l.slots.n,
		.kinds = l.slots.kind,
		.touched = on_decoy,
		.files = trust_file_names,
		.files_n = s->network->trust_files ? TRUST_FILE_NUM : 0,
		.content = on_trust_file,
		.arg = &l};
	l.rc = s->refuse ? -ECANCELED : 0;
	if (l.rc == 0)
		enforce_starter(&l);
	while (!l.over && l.rc == 0)
		loop_once(&l);
	live_close(&l.live);
	prompt_close(&l.prompt);
	starter_close(&l.starter);
	end_sandbox(&l);
	guard_done(&l.guard);
	terminal_finish(s->terminal);
	/* Over time is over: only a command that ended by itself has its reader waited for. */
	relay_finish(s->relay, s->signals->fd, l.kill_ms || l.rc < 0 ? KILL_GRACE_MS : -1);
	return l.rc;
}
