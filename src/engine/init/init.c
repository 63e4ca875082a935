/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a sandbox: see init.h for trust and order. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/broker/broker.h"
#include "engine/init/command.h"
#include "engine/init/connecting.h"
#include "engine/init/init_session.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/heap.h"
#include "os/landlock.h"
#include "os/path.h"
#include "os/rlimit.h"
#include "os/seccomp.h"
#include "os/uapi.h"

#define BROKER_STACK_B (512u << 10)

/* Signals that a terminal, a shell or an operator sends and the command should see. */
static const int forwarded[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

_Noreturn static void init_fail(struct init *in, const struct err *e)
{
	struct control_msg m = {.type = CONTROL_FAILED,
		.err_kind = (uint32_t)e->kind,
		.err_boundary = e->boundary,
		.errnum = e->errnum};

	snprintf(m.msg, sizeof(m.msg), "%s", e->msg);
	control_send(in->control, &m, NULL, 0);
	_exit(125);
}

/*
 * Behind a private root the mounts decide what is read, and Landlock would look up every open once
 * more, a microsecond each. The one way around the mounts is a descriptor from outside, opened
 * again through /proc/self/fd with rights that it was not given: where standard input or output is
 * such a file, and wherever the threat is hostile, reads are held twice.
 */
static bool mounts_hold_reads(const struct init *in)
{
	return in->enforced.ns_mount && in->plan->policy->threat != THREAT_HOSTILE &&
	       in->outside_n == 0;
}

static int apply_landlock(struct init *in, struct err *e)
{
	struct landlock l = LANDLOCK_INIT;
	bool changes_only = mounts_hold_reads(in);
	int r = landlock_open(&l,
		(in->enforced.ns_net ? 0 : LANDLOCK_DENY_TCP) |
			(changes_only ? LANDLOCK_CHANGES_ONLY : 0),
		e);

	for (size_t i = 0; r == 0 && i < in->plan->n; i++) {
		const struct plan_op *op = &in->plan->ops[i];
		cleanup_fd int fd = -1;
		struct stat st;

		if (op->kind != PLAN_LANDLOCK || (op->served && !in->enforced.decoys))
			continue;
		fd = path_open(AT_FDCWD, op->dst, O_PATH, PATH_NO_SYMLINKS);
		if (fd < 0 && op->staged)
			continue; /* not in the view, or not itself: less is granted */
		if (fd < 0 && fd != -ELOOP && op->rule && op->rule->optional)
			continue; /* a built-in rule whose path went away meanwhile: less is granted */
		if (fd < 0)
			r = err_set(e, -fd, "open %s", op->dst);
		else if (op->ino &&
			 (fstat(fd, &st) < 0 || st.st_dev != op->dev || st.st_ino != op->ino))
			r = err_refuse(e, "%s changed while the sandbox was being set up", op->dst);
		else
			r = landlock_allow(&l, fd,
				op->device                   ? LANDLOCK_GRANT_DEVICE
				: op->no_sockets             ? LANDLOCK_GRANT_WRITE_NO_SOCKETS
				: op->access == ACCESS_WRITE ? LANDLOCK_GRANT_WRITE
							     : LANDLOCK_GRANT_READ,
				e);
		in->enforced.landlock_rules += r == 0;
	}
	if (r == 0 && in->request->proxy_port && l.handled_net) {
		r = landlock_allow_connect(&l, in->request->proxy_port, e);
		in->enforced.proxy = r == 0;
	}
	if (r == 0)
		r = landlock_apply(&l, e);
	if (r == 0) {
		in->enforced.landlock_abi = l.abi;
		in->enforced.landlock_reads = l.abi > 0 && !changes_only;
		in->enforced.landlock_tcp = l.handled_net != 0;
		in->enforced.landlock_scoped = l.scoped != 0;
	}
	landlock_done(&l);
	return r;
}

struct broker_start {
	struct init *in;
	int link[2], notices[2];
};

/*
 * The broker's thread. It takes a descriptor table of its own before anything is handed to it, so
 * that the command's process tree and it share nothing but memory that the command never sees.
 */
static void *broker_main(void *arg)
{
	struct broker_start s = *(struct broker_start *)arg;
	struct sandbox from = {.control = s.link[1], .fd = SANDBOX_FDS_NONE};
	struct control_msg m = {.type = CONTROL_READY, .status = (int32_t)syscall(SYS_gettid)};
	struct broker b = {.notices = s.notices[1],
		.policy = s.in->plan->policy,
		.scratch = s.in->scratch,
		.thread = true,
		.observe_reads = (s.in->plan->seccomp_flags & SECCOMP_NOTIFY_READS) != 0,
		.metadata_only = !s.in->plan->broker,
		.allow_setid =
			!s.in->plan->broker && !(s.in->plan->seccomp_flags & SECCOMP_NO_SETID),
		.starts = s.in->starts,
		.outside = s.in->outside,
		.outside_n = s.in->outside_n,
		.private_root = s.in->enforced.ns_mount};
	struct pollfd p = {.fd = s.link[1], .events = POLLIN};

	cpus_all(&s.in->cpus);
	if (unshare(CLONE_FILES) < 0 || control_send(s.link[1], &m, NULL, 0) < 0)
		_exit(125);
	close(s.link[0]);
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (control_receive(&from, &m) != 1 || from.fd[SANDBOX_FD_NOTIFY] < 0)
		return NULL; /* no filter, so no command: the main thread says why */
	b.listener = from.fd[SANDBOX_FD_NOTIFY];
	_exit(broker_serve(&b) ? 125 : 0);
}

/*
 * The broker must be inside the Landlock domain but outside the filter, so it is started between
 * the two and given the listener afterwards through a socket. It is a thread of ours because it
 * must be an ancestor of whom it serves: Yama lets nobody else read their memory.
 */
static int start_broker(struct init *in, int *ret_sock, struct err *e)
{
	struct broker_start s;
	struct sandbox from = {.fd = SANDBOX_FDS_NONE};
	struct pollfd p = {.events = POLLIN};
	struct control_msg m;
	pthread_attr_t attr;
	pthread_t id;
	int r;

	if (in->plan->seccomp_flags & SECCOMP_NOTIFY_READS && !(in->starts = starts_new()))
		return err_set(e, errno, "share memory with the broker");
	s = (struct broker_start){.in = in};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s.link) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s.notices) < 0)
		return err_set(e, errno, "make broker sockets");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, BROKER_STACK_B);
	r = pthread_create(&id, &attr, broker_main, &s);
	pthread_attr_destroy(&attr);
	if (r != 0)
		return err_set(e, r, "start broker");
	/* Until it has its own table, what we close it loses. */
	from.control = p.fd = s.link[0];
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (control_receive(&from, &m) != 1)
		return err_set(e, EPROTO, "start broker");
	in->broker_tid = m.status;
	close(s.link[1]);
	close(s.notices[1]);
	in->fd[SANDBOX_FD_NOTICES] = s.notices[0];
	*ret_sock = s.link[0];
	return 0;
}

static int apply_seccomp(struct init *in, int broker_sock, struct err *e)
{
	struct seccomp_prog *prog = malloc(sizeof(*prog));
	unsigned flags = in->plan->seccomp_flags;
	cleanup_fd int listener = -1;
	int r = prog ? 0 : err_set(e, ENOMEM, "build system-call filter");

	/* What Landlock does not hold on this kernel, the filter must. */
	if (!in->enforced.ns_net && !in->enforced.landlock_tcp)
		flags |= SECCOMP_NO_INET;
	if (!in->enforced.ns_pid && in->enforced.landlock_abi == 0)
		flags |= SECCOMP_NO_PTRACE;
	if (broker_sock >= 0 && !in->plan->broker)
		flags |= SECCOMP_NOTIFY_META;
	if (r == 0)
		r = seccomp_build(prog, flags, e);
	if (r == 0)
		in->enforced.seccomp_insns = (uint32_t)prog->n;
	if (r == 0)
		r = seccomp_install(prog, flags, &listener, e);
	free(prog);
	if (r == -EPERM)
		return err_refuse(e,
			"the system-call filter is not permitted here, so this is probably a "
			"sandbox already (croft's own, perhaps); croft does not run inside one");
	if (r < 0) {
		e->kind = ERR_REFUSED; /* a protection that cannot be had */
		return r;
	}
	if (broker_sock >= 0) {
		struct control_msg m = {.type = CONTROL_READY, .fd_mask = 1u << SANDBOX_FD_NOTIFY};

		r = control_send(broker_sock, &m, &listener, 1);
		if (r < 0)
			return err_set(e, -r, "hand the listener to the broker");
		in->enforced.broker = in->plan->broker;
		in->enforced.broker_meta = 1;
	} else {
		in->fd[SANDBOX_FD_NOTIFY] = take_fd(&listener);
	}
	return 0;
}

static int lock_down(struct init *in, struct err *e)
{
	cleanup_fd int broker_sock = -1;
	int r;

	if ((r = keyring_new_session(e)) < 0)
		return r;
	in->enforced.keyring_new = r == 0;
	if ((r = caps_reduce(in->plan->privilege.caps, e)) < 0)
		return r;
	in->enforced.caps_empty = in->plan->privilege.caps == 0;
	in->enforced.no_new_privs = 1;
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_set(e, errno, "hide from the command");
	if ((r = apply_landlock(in, e)) < 0)
		return r;
	if ((in->plan->broker || in->outside_n) && (r = start_broker(in, &broker_sock, e)) < 0)
		return r;
	if (!in->pid_namespace && (r = shield_prepare(&in->shield, in->enforced.landlock_scoped,
					   in->broker_tid, e)) < 0)
		return r;
	return apply_seccomp(in, broker_sock, e);
}

static int report_ready(struct init *in, struct err *e)
{
	struct control_msg m = {.type = CONTROL_READY, .enforced = in->enforced};
	int fds[SANDBOX_FD_NUM], n = 0, r;

	for (int i = 0; i < SANDBOX_FD_NUM; i++) {
		if (in->fd[i] < 0)
			continue;
		m.fd_mask |= 1u << i;
		fds[n++] = in->fd[i];
	}
	r = control_send(in->control, &m, fds, n);
	if (r < 0)
		return err_set(e, -r, "report to the supervisor");
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&in->fd[i]);
	return 0;
}

int init_await_plan(struct init *in, struct err *e)
{
	struct sandbox from = {.control = in->control, .fd = SANDBOX_FDS_NONE};
	struct pollfd p = {.fd = in->control, .events = POLLIN};
	const struct handed_plan *h;
	struct control_msg m;

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (control_receive(&from, &m) != 1 || m.type != CONTROL_PLAN)
		_exit(125);
	h = heap_adopt();
	if (!h)
		return err_set(e, errno, "take over the plan");
	for (size_t i = 0; i < in->plan->n; i++)
		if (i >= h->plan->n || h->plan->ops[i].kind != in->plan->ops[i].kind ||
			!str_eq(h->plan->ops[i].dst, in->plan->ops[i].dst))
			return err_set(e, EPROTO, "take over the plan");
	in->plan = h->plan;
	in->request = h->request;
	in->waits = false;
	return 0;
}

/*
 * Block until the supervisor says GO; anything else means it is gone or broken. We move ourselves
 * into the cgroup with the descriptors it sends: for a process with one thread that is quick, while
 * moving another process makes the kernel wait for every CPU.
 */
static int await_go(struct init *in, int32_t *ret_held, struct err *e)
{
	struct sandbox from = {.control = in->control, .fd = SANDBOX_FDS_NONE};
	struct pollfd p = {.fd = in->control, .events = POLLIN};
	struct control_msg m;
	size_t n = 0;
	int r = 0;

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (control_receive(&from, &m) != 1 || m.type != CONTROL_GO)
		_exit(125);
	while (n < SANDBOX_FD_NUM && from.fd[n] >= 0)
		n++;
	if (n)
		r = cgroup_join(from.fd, n, e);
	for (size_t i = 0; i < n; i++)
		close(from.fd[i]);
	*ret_held = m.status;
	return r;
}

static void report_exit(struct init *in, int status)
{
	struct control_msg m = {.type = CONTROL_EXIT, .status = status};
	struct statfs fs;
	struct rusage ru;

	if (getrusage(RUSAGE_CHILDREN, &ru) == 0) {
		m.utime_us =
			(uint64_t)ru.ru_utime.tv_sec * 1000000u + (uint64_t)ru.ru_utime.tv_usec;
		m.stime_us =
			(uint64_t)ru.ru_stime.tv_sec * 1000000u + (uint64_t)ru.ru_stime.tv_usec;
		m.maxrss_kb = (uint64_t)ru.ru_maxrss;
	}
	m.scratch_full = in->enforced.ns_mount && statfs("/tmp", &fs) == 0 && fs.f_bfree == 0;
	control_send(in->control, &m, NULL, 0);
}

/* Reap whatever has ended. Returns true when the command itself has. */
static bool reap(struct init *in, pid_t command, int *ret_status)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != command)
			continue;
		if (WIFSTOPPED(status)) {
			struct control_msg m = {.type = CONTROL_STOPPED, .status = status};

			control_send(in->control, &m, NULL, 0);
			continue;
		}
		*ret_status = status;
		return true;
	}
	return false;
}

static void connected(void *arg, uint32_t id, int error, int *fd)
{
	struct init *in = arg;
	struct control_msg answer = {.type = CONTROL_CONNECTED, .id = id, .status = error};

	if (!error)
		answer.fd_mask = 1u << SANDBOX_FD_INNER;
	if (control_send(in->control, &answer, fd, !error) == -ETOOMANYREFS) {
		answer.fd_mask = 0;
		answer.status = ECONNREFUSED;
		control_send(in->control, &answer, NULL, 0);
	}
}

/* The supervisor asks for connections to published ports. False when it is gone. */
static bool serve_supervisor(struct init *in, struct connectings *c)
{
	struct sandbox from = {.control = in->control, .fd = SANDBOX_FDS_NONE};
	struct control_msg m;
	int r = control_receive(&from, &m);

	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&from.fd[i]);
	if (r == -EAGAIN)
		return true;
	if (r != 1 || m.type != CONTROL_CONNECT)
		return false;
	connecting_start(c, m.id, m.status, clock_ms());
	return true;
}

static void forward_signals(struct init *in, int sigfd, pid_t command)
{
	struct signalfd_siginfo si;

	while (read(sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			continue;
		if (si.ssi_signo == SIGCONT && in->request->tty)
			tcsetpgrp(in->request->tty_fd, command);
		/* The command's group has no parent to resume it from SIGTSTP: stop it outright. */
		kill(-command, si.ssi_signo == SIGTSTP ? SIGSTOP : (int)si.ssi_signo);
	}
}

/* Serve until the command ends or the supervisor goes. Returns the wait status, or -1. */
static int supervise_command(struct init *in, int sigfd, pid_t command)
{
	struct connectings c = {.done = connected, .arg = in};
	struct pollfd p[2 + CONNECTING_MAX];
	int status = 0;

	p[0] = (struct pollfd){.fd = sigfd, .events = POLLIN};
	p[1] = (struct pollfd){.fd = in->control, .events = POLLIN};
	for (;;) {
		size_t n = connecting_poll(&c, p + 2);
		int r;

		if (reap(in, command, &status))
			return status;
		r = poll(p, (nfds_t)(2 + n), connecting_wait_ms(&c, clock_ms()));
		if (r < 0 && errno != EINTR)
			return -1;
		if (r < 0)
			continue;
		connecting_handle(&c, p + 2, n, clock_ms());
		if (p[1].revents && !serve_supervisor(in, &c))
			return -1; /* it closed the socket: end everything */
		forward_signals(in, sigfd, command);
	}
}

/*
 * Every signal that can be blocked is: those that nobody sends us on purpose would end the sandbox
 * when the command finds a way to send them (a terminal's SIGIO).
 */
static int block_signals(struct err *e)
{
	sigset_t set;
	int fd;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		sigaddset(&set, forwarded[i]);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_set(e, errno, "watch signals");
	return fd;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close every inherited descriptor but the ones this process is for. */
static void close_others(const struct init *in)
{
	int keep[6] = {in->control, in->request->stdio[0], in->request->stdio[1],
		in->request->stdio[2], in->request->tty_fd, in->waits ? heap_fd() : -1};
	unsigned from = 0;

	qsort(keep, ARRAY_SIZE(keep), sizeof(keep[0]), by_number);
	for (size_t i = 0; i < ARRAY_SIZE(keep); i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0u);
		from = (unsigned)keep[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0u);
}

/*
 * The caller's environment is still in our memory, and a process can be looked into in more ways
 * than we know of. What the test seam needs stays.
 */
static void forget_environment(void)
{
	for (char **v = environ; v && *v; v++)
		if (!str_starts(*v, "CROFT_FORCE_FAIL="))
			memset(*v, 0, strlen(*v));
}

_Noreturn void init_main(struct init *in)
{
	const struct request *q;
	struct command of_request = {.tty_fd = -1, .group_fd = -1};
	struct control_msg started = {.type = CONTROL_STARTED};
	struct err e = ERR_INIT;
	int sigfd, status;
	int32_t held = 0;
	pid_t command;

	/* As pid 1 our death ends the sandbox, so it may be bound to the supervisor's; otherwise we
	 * must outlive it for long enough to end the tree ourselves. */
	if (in->pid_namespace)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	else
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	close_others(in);
	forget_environment();
	setsid();
	if (in->request->tty && ioctl(in->request->tty_fd, TIOCSCTTY, 0) < 0) {
		err_set(&e, errno, "take the terminal");
		init_fail(in, &e);
	}
	if ((sigfd = block_signals(&e)) < 0)
		init_fail(in, &e);
	if (in->setup && in->setup(in, &e) < 0)
		init_fail(in, &e);
	q = in->request; /* set-up may have been given another */
	if (stdio_settle(in, &e) < 0)
		init_fail(in, &e);
	if (lock_down(in, &e) < 0 || (in->settle && in->settle(in, &e) < 0) ||
		report_ready(in, &e) < 0)
		init_fail(in, &e);
	if (!q->serve)
		command_reset_signals();
	if (await_go(in, &held, &e) < 0)
		init_fail(in, &e);
	cpus_all(&in->cpus); /* again: the supervisor may have been late */
	of_request.argv = q->argv;
	of_request.envp = q->envp;
	of_request.cwd = q->cwd;
	of_request.tty_fd = q->tty ? q->tty_fd : -1;
	of_request.tty_background = q->tty_background;
	memcpy(of_request.stdio, q->stdio, sizeof(of_request.stdio));
	if (q->serve)
		serve_main(in, sigfd, held);
	command = command_start(in, &of_request, held, &e);
	if (command < 0)
		init_fail(in, &e);
	shield_done(&in->shield);
	started.enforced = in->enforced;
	for (int i = 0; i < 3; i++) /* the command alone holds its stdio: half-close must work */
		if (in->request->stdio[i] >= 0 && in->request->stdio[i] != in->request->tty_fd)
			close(in->request->stdio[i]);
	control_send(in->control, &started, NULL, 0);
	status = supervise_command(in, sigfd, command);
	if (!in->pid_namespace)
		shield_end_tree(&in->shield);
	if (status >= 0)
		report_exit(in, status);
	_exit(0);
}
