/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command of a session, from a caller's request to its receipt.
 *
 * Order:   recorded as started -> EXEC to a reaper -> STARTED -> output to its log, its capture and
 *          its readers -> EXIT -> what it wrote before that is read to its end -> recorded as ended ->
 *          told to its readers -> EMPTY, when nothing of it lives.
 * Input:   what callers send waits in `input` until the command takes it; callers are read no further
 *          while too much waits.
 * Output:  the caller that started it holds it back like a pipe would: while it takes nothing, the log
 *          fills up, and then nothing is read from the command. Others who are too slow are told what
 *          they have missed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/clock.h"
#include "session/serve/process_impl.h"
#include "session/stdio/terminal.h"

#define INPUT_MAX (4u << 20)
#define REAPER_TRIES 4

/* ---- its receipt ---- */

static int copy_list(struct strlist *to, const struct strlist *from)
{
	for (size_t i = 0; i < from->n; i++)
		if (!strlist_add(to, from->v[i]))
			return -ENOMEM;
	return 0;
}

/* What is known of every command in this boundary. */
static int begin_receipt(
	struct process *p, const struct session_exec *x, const char *cwd, struct err *e)
{
	const struct receipt *from = p->session->receipt;
	struct receipt *r = p->receipt;

	if (receipt_init(r) < 0)
		return err_set(e, errno, "start");
	if (strlen(x->label) > RECEIPT_LABEL_MAX)
		return err_invalid(e, "a label has at most %d bytes", RECEIPT_LABEL_MAX);
	for (char **v = x->argv; *v; v++)
		if (!strlist_add(&r->command, *v))
			return err_set(e, E2BIG, "command line");
	r->policy = from->policy;
	r->cwd = strdup(cwd);
	r->workspace = strdup(from->workspace);
	r->profile = strdup(from->profile);
	r->label = x->label[0] ? strdup(x->label) : NULL;
	r->tier = from->tier;
	r->discard = from->discard;
	r->staged = from->staged;
	r->allow_degraded = from->allow_degraded;
	r->policy_digest = from->policy_digest;
	r->enforced = from->enforced;
	r->fixed = from->fixed;
	r->cgroup_kind = from->cgroup_kind;
	r->cgroup_has = from->cgroup_has;
	r->limits = from->limits;
	r->observe = from->observe;
	if (!r->cwd || !r->workspace || !r->profile ||
		copy_list(&r->degradations, &from->degradations) < 0)
		return err_set(e, ENOMEM, "start");
	record_init(&r->record, &r->policy, r->workspace);
	r->files_by = FILES_BY_SESSION;
	r->record.files_full = true; /* files belong to an interval, not to one of many commands */
	return 0;
}

/* ---- starting ---- */

/* Pipes for what is not a terminal: ours do not block; theirs go to the command. */
static int open_pipes(struct process *p, int ret_theirs[3], struct err *e)
{
	for (int i = 0; i < 3; i++) {
		int fd[2];

		if (pipe2(fd, O_CLOEXEC) < 0)
			return err_set(e, errno, "make a pipe");
		ret_theirs[i] = fd[i == 0 ? 0 : 1];
		if (i == 0)
			p->in = fd[1];
		else
			p->out[i - 1] = fd[0];
		fcntl(fd[i == 0 ? 1 : 0], F_SETFL, O_NONBLOCK);
	}
	if (!p->wants_input)
		close_fd(&p->in); /* it reads the end at once */
	return 0;
}

/* Where the sandbox has no terminals of its own: it gets one of the host's, and the path to none. */
static int open_terminal(struct process *p, int ret_theirs[3], struct err *e)
{
	struct winsize size = {.ws_row = (unsigned short)p->rows, .ws_col = (unsigned short)p->cols};
	int r = terminal_pair(&p->master, &ret_theirs[0], e);

	if (r < 0)
		return r;
	if (size.ws_row && size.ws_col)
		ioctl(p->master, TIOCSWINSZ, &size);
	for (int i = 1; i < 3; i++) {
		ret_theirs[i] = fcntl(ret_theirs[0], F_DUPFD_CLOEXEC, 0);
		if (ret_theirs[i] < 0)
			return err_set(e, errno, "hand over a terminal");
	}
	return 0;
}

/* It ends with its socket, and what it has begun with it. */
static void drop_reaper(struct process *p)
{
	if (p->reaper)
		pool_drop(p->reaper);
	p->reaper = NULL;
}

static int send_exec(struct process *p, const struct session_exec *x, const struct strlist *env,
	const int theirs[3], struct err *e)
{
	struct wire_process spec = {.flags = p->tty ? WIRE_TTY : 0,
		.rows = (uint16_t)x->rows,
		.cols = (uint16_t)x->cols,
		.cwd = p->receipt->cwd,
		.argv = x->argv,
		.envp = env->v};
	struct wire_msg m = {.type = WIRE_EXEC, .id = p->id};
	int r;

	for (int i = 0; i < 3 && theirs[0] >= 0; i++)
		m.fd[m.fd_n++] = theirs[i];
	if (limits_fill(p, &spec, &m, e) < 0)
		return -e->errnum;
	r = -EAGAIN;
	/* Commands inside can kill a reaper that waits: then the next one takes this command. */
	for (int i = 0; r < 0 && i < REAPER_TRIES; i++) {
		p->reaper = pool_take(p->session);
		if (!p->reaper)
			break;
		p->reaper->process = p;
		p->t0_us = clock_us();
		r = wire_send_process(p->reaper->sock, &m, &spec);
		if (r < 0)
			drop_reaper(p);
		if (r != -EPIPE && r != -ECONNRESET)
			break;
	}
	for (uint32_t i = 0; i < spec.groups; i++)
		close_fd(&m.fd[m.fd_n - 1 - i]);
	if (r == -EAGAIN)
		return err_set(e, EAGAIN, "start a reaper in the sandbox");
	return r < 0 ? err_set(e, -r, "hand the command to the sandbox") : 0;
}

static int check_start(struct session *s, struct err *e)
{
	if (s->stopping)
		return err_why(e, ERR_WHY_ENDING, err_refuse(e, "%s is going down", s->o->name));
	if (s->paused && !s->idle_paused && !s->resuming)
		return err_why(e, ERR_WHY_PAUSED,
			err_refuse(e, "%s is paused; continue it with croft resume %s", s->o->name,
				s->o->name));
	if (s->boundary.disk.over && diskwatch_again(&s->boundary.disk))
		return err_why(e, ERR_WHY_LIMIT,
			err_refuse(e,
				"what is staged in %s takes more than its disk limit; end it (croft down %s) "
				"and apply or discard what is staged, or raise --disk",
				s->o->name, s->o->name));
	if (s->alive_n >= SESSION_PROCESSES_MAX)
		return err_why(e, ERR_WHY_LIMIT,
			err_refuse(e, "%s runs %d commands, the most there can be", s->o->name,
				SESSION_PROCESSES_MAX));
	return 0;
}

static int start(struct process *p, const struct session_exec *x, struct err *e)
{
	struct session *s = p->session;
	struct strlist env = STRLIST_INIT(SESSION_LIST_MAX);
	struct redact hidden;
	const char *cwd = x->cwd[0] ? x->cwd : s->o->q->cwd;
	int theirs[3] = {-1, -1, -1}, r;
	struct session_started started = {
		.process = p->id, .run_id = p->receipt->id, .as_test = p->as_test, .tty = p->tty};

	redact_init(&hidden);
	cgroup_hits(&s->boundary.cgroup, &p->hits);
	r = begin_receipt(p, x, cwd, e);
	if (r == 0 && network_mark(&s->receipt->network, &p->refused) < 0)
		r = err_set(e, ENOMEM, "start");
	if (r == 0)
		r = process_environ(p, x, &env, &hidden, e);
	if (r == 0 && !p->tty)
		r = open_pipes(p, theirs, e);
	else if (r == 0 && !(s->boundary.engine->can & ENGINE_PRIVATE_ROOT))
		r = open_terminal(p, theirs, e);
	if (r == 0)
		r = process_watch_output(p, e);
	if (r == 0)
		r = limits_begin(p, &x->limits, e);
	started.cwd = p->receipt->cwd;
	started.label = p->receipt->label;
	started.argv = &p->receipt->command;
	started.time = p->receipt->started;
	started.hidden = &hidden;
	if (r == 0 && s->o->ops.started)
		r = s->o->ops.started(s->o->ops.arg, &started, e);
	if (r == 0 && (r = send_exec(p, x, &env, theirs, e)) < 0 && s->o->ops.dropped)
		s->o->ops.dropped(s->o->ops.arg, p->id, e->msg);
	for (int i = 0; i < 3; i++)
		close_fd(&theirs[i]);
	strlist_done(&env);
	redact_done(&hidden);
	return r;
}

struct process *process_start(struct session *s, struct caller *c, uint32_t tag,
	const struct session_exec *x, struct err *e)
{
	struct process *p;
	uint64_t limit = s->receipt->policy.limits.timeout_ms;

	if (check_start(s, e) < 0)
		return NULL;
	session_used(s);
	p = calloc(1, sizeof(*p));
	if (!p) {
		err_set(e, ENOMEM, "start a command");
		return NULL;
	}
	p->receipt = calloc(1, sizeof(*p->receipt));
	if (!p->receipt) {
		free(p);
		err_set(e, ENOMEM, "start a command");
		return NULL;
	}
	p->session = s;
	p->id = ++s->next_process;
	p->in = p->out[0] = p->out[1] = p->master = -1;
	p->input = BUF_INIT(INPUT_MAX);
	p->tty = x->flags & SESSION_EXEC_TTY;
	p->detached = x->flags & SESSION_EXEC_DETACH;
	p->as_test = x->flags & SESSION_EXEC_TEST;
	p->wants_input = p->tty || x->flags & SESSION_EXEC_INPUT;
	p->verbose = x->flags & SESSION_EXEC_VERBOSE;
	p->wants_json = x->flags & SESSION_EXEC_JSON;
	p->wants_text = x->flags & SESSION_EXEC_TEXT;
	p->rows = x->rows;
	p->cols = x->cols;
	if (start(p, x, e) < 0 || process_add_reader(p, c, tag, 0, !p->detached) < 0) {
		drop_reaper(p); /* the command may have begun */
		process_free(p);
		return NULL;
	}
	p->readers->starter = true;
	limit = x->timeout_ms ? MIN_OF(limit, x->timeout_ms) : limit;
	p->receipt->limits.timeout_ms = limit;
	if (limit != LIMIT_NONE)
		loop_timer(s->loop, &p->timeout, limit, process_on_timeout, p);
	p->alone = s->alive_n == 0;
	for (struct process *o = s->processes; o; o = o->next)
		o->alone = o->alone && o->state == PROCESS_OVER;
	p->next = s->processes;
	s->processes = p;
	s->look = !s->look_none;
	s->alive_n++;
	session_quiet(s);
	return p;
}

struct process *process_find(struct session *s, uint32_t id)
{
	struct process *p = s->processes;

	while (p && p->id != id)
		p = p->next;
	return p;
}

static void free_receipt(struct process *p)
{
	free(p->refused.counts);
	p->refused = (struct network_mark){0};
	if (!p->receipt)
		return;
	network_since_done(&p->receipt->network);
	receipt_done(p->receipt);
	free(p->receipt);
	p->receipt = NULL;
}

/* A receipt is some 14 KiB, and what is still told of one that has ended is a few names and numbers. */
void process_shrink(struct process *p)
{
	struct receipt *r = p->receipt;
	struct process_was *was = &p->was;

	if (!r)
		return;
	*was = (struct process_was){.started = r->started,
		.command = r->command,
		.cwd = take_ptr(r->cwd),
		.label = take_ptr(r->label),
		.exit_code = r->exit_code,
		.exit_signal = r->exit_signal,
		.wall_us = r->wall_us};
	memcpy(was->run, r->id, sizeof(was->run));
	r->command = (struct strlist){0};
	free_receipt(p);
}

void process_free(struct process *p)
{
	while (p->readers)
		process_free_reader(p, &p->readers);
	loop_cancel(&p->timeout);
	loop_cancel(&p->kill);
	loop_cancel(&p->drain);
	limits_end(p);
	view_close(p);
	loop_unwatch(&p->in_watch);
	for (int i = 0; i < 2; i++) {
		loop_unwatch(&p->out_watch[i]);
		if (p->out[i] == p->in)
			p->in = -1;
		close_fd(&p->out[i]);
		capture_mem_done(&p->capture[i]);
	}
	close_fd(&p->in);
	close_fd(&p->master);
	buf_done(&p->input);
	log_done(&p->log);
	free_receipt(p);
	strlist_done(&p->was.command);
	free(p->was.cwd);
	free(p->was.label);
	free(p);
}

const char *process_state_name(const struct process *p)
{
	static const char *const names[PROCESS_STATE_NUM] = {
		[PROCESS_RUNNING] = "running",
		[PROCESS_EXITED] = "ending",
		[PROCESS_LEFT] = "left processes",
		[PROCESS_OVER] = "ended",
	};

	return names[p->state];
}
