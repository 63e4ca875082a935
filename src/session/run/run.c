/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a command: see run.h. */
#include "session/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/heap.h"
#include "session/config/state.h"
#include "session/run/boundary.h"
#include "session/run/settle.h"
#include "session/run/supervise.h"
#include "session/stdio/relay.h"
#include "session/stdio/terminal.h"

#ifndef PIDFS_MAGIC
#define PIDFS_MAGIC 0x50494446 /* "PIDF", Linux 6.9 */
#endif

/* One command: a boundary, and what its descriptors need. */
struct attempt {
	const struct run_request *q;
	struct boundary boundary;
	struct terminal *terminal;
	struct relay relay;
	struct request stdio; /* what the command gets as 0, 1, 2, and its terminal */
	int null_fd;
	struct signals *signals;
};

/*
 * A directory would be a way out of the private root; a descriptor of a process, a namespace or the
 * like is a handle on something that is no file at all.
 */
static int check_stdio(int fd, const char *name, struct err *e)
{
	struct statfs fs;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return err_refuse(
			e, "%s is a directory; a sandbox may not hold one of the host's", name);
	if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) ||
		S_ISBLK(st.st_mode))
		return 0;
	if (S_ISREG(st.st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type != NSFS_MAGIC &&
		fs.f_type != PIDFS_MAGIC && fs.f_type != ANON_INODE_FS_MAGIC)
		return 0;
	return err_refuse(e, "%s is neither a file, a pipe, a socket nor a device", name);
}

static const char *const stdio_names[3] = {"standard input", "standard output", "standard error"};

int run_check(const struct run_request *q, struct err *e)
{
	if (!q->serve && (!q->argv || !q->argv[0] || !q->argv[0][0]))
		return err_invalid(e, "no command given; try: croft run -- CMD [ARG…]");
	if (q->discard && q->staging)
		return err_invalid(e, "changes are either staged or discarded, not both");
	for (int i = 0; i < 3; i++)
		if (check_stdio(q->stdio[i], stdio_names[i], e) < 0)
			return -e->errnum;
	return 0;
}

static int open_stdio(struct attempt *a, struct err *e)
{
	int in[3];

	for (int i = 0; i < 3; i++) {
		in[i] = a->q->stdio[i];
		if (in[i] >= 0)
			continue;
		if (a->null_fd < 0)
			a->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (a->null_fd < 0)
			return err_set(e, errno, "open /dev/null");
		in[i] = a->null_fd;
	}
	if (terminal_open(a->terminal, in, a->stdio.stdio, e) < 0)
		return -e->errnum;
	a->stdio.tty = terminal_active(a->terminal);
	a->stdio.tty_fd = a->stdio.tty ? a->terminal->slave : -1;
	/*
	 * In a pipeline (croft run … | less) another program may be the one that reads the
	 * keyboard.
	 */
	a->stdio.tty_background = a->stdio.tty && in[0] >= 0 && isatty(in[0]) && !isatty(in[1]);
	if (a->stdio.tty_background)
		terminal_hold_input(a->terminal);
	if (!a->q->capture)
		return 0;
	a->terminal->capture = a->terminal->is_tty[1]   ? &a->q->capture->file[CAPTURE_OUT]
			       : a->terminal->is_tty[2] ? &a->q->capture->file[CAPTURE_ERR]
							: NULL;
	return relay_open(&a->relay, a->q->capture, in, a->stdio.stdio, e);
}

/* The plan was made for what the caller has. */
static void give_stdio(struct attempt *a)
{
	struct request *r = &a->boundary.request;

	memcpy(r->stdio, a->stdio.stdio, sizeof(r->stdio));
	r->tty = a->stdio.tty;
	r->tty_fd = a->stdio.tty_fd;
	r->tty_background = a->stdio.tty_background;
}

/*
 * The command has its own copies now. Ours are closed when they were given to us for that, so that
 * the other ends see the command close them; a terminal's are still needed to copy from and to.
 */
static void release_stdio(void *arg)
{
	struct attempt *a = arg;
	const int *fd = a->q->stdio;

	heap_rest(); /* a command may run for days */
	for (int i = 0; i < 3 && a->q->own_stdio; i++) {
		bool copied = a->relay.stream[CAPTURE_OUT].to == fd[i] ||
			      a->relay.stream[CAPTURE_ERR].to == fd[i];

		if (fd[i] >= 0 && !copied && !isatty(fd[i]))
			close(fd[i]);
	}
	relay_hand_over(&a->relay, a->q->own_stdio);
}

static int begin(void *arg, struct err *e)
{
	struct attempt *a = arg;

	planted_settle(&a->boundary.planted);
	clock_gettime(CLOCK_REALTIME_COARSE, &a->boundary.go);
	return a->q->begin ? a->q->begin(a->q->begin_arg, a->boundary.receipt, e) : 0;
}

static void conclude(void *arg, const struct outcome *o)
{
	struct attempt *a = arg;

	heap_resume();
	boundary_conclude(&a->boundary, o);
}

static int attempt_run(struct attempt *a, struct err *e)
{
	struct boundary *b = &a->boundary;
	const char *scratch[BOUNDARY_SCRATCH_MAX];
	struct supervise s = {.signals = a->signals,
		.scratch = scratch,
		.sandbox = &b->sandbox,
		.plan = &b->plan,
		.cgroup = &b->cgroup,
		.terminal = a->terminal,
		.relay = &a->relay,
		.record = &b->receipt->record,
		.disk = &b->disk,
		.network = &b->receipt->network,
		.workspace = a->q->workspace,
		.timeout_ms = a->q->policy->limits.timeout_ms,
		.tty_background = b->request.tty_background,
		.meanwhile = conclude,
		.begin = begin,
		.gone = release_stdio,
		.pid_namespace = b->engine->can & ENGINE_OWN_PIDS,
		.meanwhile_arg = a};
	uint64_t t0 = clock_us();
	struct outcome o;
	int r = boundary_start(b, e);

	if (r < 0 && b->sandbox.pid == 0)
		return r;
	boundary_scratch(b, scratch);
	terminal_close_slave(a->terminal);
	memcpy(s.others, b->others, sizeof(s.others));
	s.others_n = b->others_n;
	if (r == 0)
		r = terminal_start(a->terminal, e);
	if (r == 0 && a->q->prepare)
		r = a->q->prepare(a->q->begin_arg, b->receipt, e);
	if (r < 0) {
		struct err first = *e;

		s.refuse = true; /* end it before it begins */
		supervise(&s, &o, e);
		*e = first;
		return r;
	}
	boundary_look_before(b);
	r = supervise(&s, &o, e);
	b->receipt->wall_us = clock_us() - t0;
	if (r == 0) {
		boundary_look_for_changes(b);
		boundary_look_after(b);
	}
	return r;
}

static void attempt_free(struct attempt *a)
{
	terminal_done(a->terminal);
	relay_done(&a->relay);
	boundary_done(&a->boundary);
	close_fd(&a->null_fd);
	free(a->terminal);
	free(a);
}

/* Not on a stack: a sandbox that was begun is handed what was planned meanwhile (os/heap.h). */
static int attempt_new(struct attempt **ret, const struct run_request *q, const struct engine *en,
	struct receipt *r, struct err *e)
{
	struct attempt *a = calloc(1, sizeof(*a));

	if (!a || !(a->terminal = calloc(1, sizeof(*a->terminal)))) {
		free(a);
		return err_set(e, ENOMEM, "start");
	}
	a->q = q;
	a->null_fd = a->stdio.tty_fd = -1;
	a->relay = RELAY_INIT;
	boundary_init(&a->boundary, q, en, r);
	a->terminal->master = a->terminal->slave = -1;
	a->terminal->host_in = a->terminal->host_out = -1;
	*ret = a;
	return 0;
}

int run_begin_receipt(struct receipt *r, const struct run_request *q, struct err *e)
{
	for (char *const *v = q->argv; v && *v; v++)
		if (!strlist_add(&r->command, *v))
			return err_set(e, E2BIG, "command line");
	if (q->label && strlen(q->label) > RECEIPT_LABEL_MAX)
		return err_invalid(e, "a label has at most %d bytes", RECEIPT_LABEL_MAX);
	r->cwd = strdup(q->cwd);
	r->workspace = strdup(q->workspace);
	r->profile = strdup(q->policy->profile ? q->policy->profile : "default");
	r->label = q->label ? strdup(q->label) : NULL;
	r->discard = q->discard;
	r->staged = q->staging != NULL;
	r->allow_degraded = q->allow_degraded;
	r->policy_digest = q->policy->digest;
	if (!r->cwd || !r->workspace || !r->profile)
		return err_set(e, ENOMEM, "start");
	record_init(&r->record, q->policy, r->workspace);
	r->record.tap = q->tap;
	r->record.tap_arg = q->tap_arg;
	return 0;
}

/* The policy as it is for this machine now, and what the receipt says of it. */
static int settle_for(struct receipt *r, struct run_request *q, bool *ret_hold, struct err *e)
{
	int rc = settle(&r->policy, ret_hold, q, e);

	if (rc < 0)
		return rc;
	q->policy = &r->policy;
	return run_begin_receipt(r, q, e);
}

/*
 * Try the engines in order. Only a boundary that could not be had is a reason to try the next one. The first
 * sandbox begins before the policy is settled, which the other one needs not wait for.
 */
static int run_attempts(
	struct receipt *r, struct run_request *q, struct signals *sig, struct err *e)
{
	const struct engine *engines[ENGINES_MAX];
	int n = boundary_engines(q, engines, e), rc = n;
	struct err first = ERR_INIT;
	bool hold = false, settled = false;

	for (int i = 0; i < n; i++) {
		struct attempt *a;

		*e = ERR_INIT;
		if ((rc = attempt_new(&a, q, engines[i], r, e)) < 0)
			return rc;
		a->signals = sig;
		if (i > 0) {
			strlist_done(&r->degradations);
			receipt_degrade(
				r, "fell back to the %s tier: %s", engines[i]->name, first.msg);
			r->fell_back = true;
		}
		if ((rc = open_stdio(a, e)) == 0)
			rc = boundary_begin(&a->boundary, &a->stdio, e);
		if (rc == 0 && !settled)
			rc = settle_for(r, q, &hold, e);
		settled |= rc == 0;
		a->boundary.hold = hold;
		if (rc == 0)
			rc = boundary_plan(&a->boundary, e);
		if (rc == 0) {
			give_stdio(a);
			rc = attempt_run(a, e);
		}
		attempt_free(a);
		if (rc == 0 || e->kind != ERR_REFUSED || !e->boundary)
			return rc;
		first = *e;
	}
	return rc;
}

/* What was written down on the way, and what will be, without what the command was trusted with. */
static void hide(struct receipt *r, const struct run_request *q)
{
	struct err e = ERR_INIT;

	receipt_hide(r);
	if (r->network.state > NETWORK_IDLE &&
		state_hide_journal(q->home, r->id, r->hidden_unknown ? NULL : &r->hidden, &e) < 0)
		receipt_degrade(r, "the network journal of this run is gone: %s", e.msg);
}

int run_command(struct receipt *r, const struct run_request *asked, struct err *e)
{
	struct run_request settled = *asked, *q = &settled;
	struct signals sig = SIGNALS_INIT;
	int rc = run_check(q, e);

	if (rc < 0 || (rc = boundary_check(q, r, e)) < 0 || (rc = signals_take(&sig, e)) < 0)
		return rc;
	rc = run_attempts(r, q, &sig, e);
	signals_release(&sig);
	if (q->capture)
		capture_end(q->capture);
	if (rc == 0)
		hide(r, q);
	return rc;
}

int run_plan(struct plan *ret, const struct run_request *asked, struct policy *live, struct err *e)
{
	struct run_request settled = *asked, *q = &settled;
	const struct engine *engines[ENGINES_MAX];
	struct receipt r;
	struct attempt *a;
	bool hold = false;
	int rc = run_check(q, e);

	if (rc < 0 || (rc = settle(live, &hold, asked, e)) < 0)
		return rc;
	settled.policy = live;
	if (receipt_init(&r) < 0)
		return err_set(e, errno, "start");
	if ((rc = boundary_engines(q, engines, e)) < 0) {
		receipt_done(&r);
		return rc;
	}
	if ((rc = attempt_new(&a, q, engines[0], &r, e)) == 0) {
		a->boundary.hold = hold;
		rc = boundary_plan(&a->boundary, e);
		if (rc == 0) {
			*ret = a->boundary.plan;
			a->boundary.plan = (struct plan){0};
		}
		attempt_free(a);
	}
	receipt_done(&r);
	return rc;
}
