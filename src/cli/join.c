/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in a session: our input to it, its output to us, until it ends.
 *
 * Terminal: when standard input and output are one, the process gets a terminal of its own; ours is raw
 *           meanwhile, and keys (ctrl-C, ctrl-Z) are the process's. Ctrl-P ctrl-Q lets go of a process that
 *           was attached to. While we are attached to one without a terminal ours stays as it is, and
 *           ctrl-C lets go. What it prints passes the filter for hostile text.
 * Signals:  without a terminal SIGINT, SIGTERM, SIGQUIT and SIGHUP are passed on to the process, never to the
 *           session. When we end in any other way, the session ends what only we waited for.
 * End:      a session that is going down starts nothing more. Whoever asks it then waits until it has ended.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "cli/join.h"

#define INPUT_B 32768
#define SET_MAX (OPT_LIST_MAX + 1)
#define KEY_DETACH_1 0x10 /* ctrl-P */
#define KEY_DETACH_2 0x11 /* ctrl-Q */

extern char **environ;

struct joined {
	struct croft *c;
	struct croft_sandbox *s;
	const struct join *j;
	bool tty, raw, input_open, started;
	bool ending;      /* it starts nothing any more: we wait for its end */
	bool half_detach; /* ctrl-P was the last key */
	unsigned tag, process;
	bool unread[2]; /* nobody reads our standard output, errors */
	int starter;    /* tells that who started us has ended; -1: that does not matter */
	unsigned long long next; /* offset after the last output that was shown; 0: none was */
	struct termios saved;
	struct croft_filter *filter;
	struct croft_output *json; /* of the receipt; NULL: standard output, or none */
	int signals, code;
	sigset_t mask; /* of signals, before we took ours */
	bool over;
};

static void restore(struct joined *x)
{
	if (x->raw)
		tcsetattr(0, TCSADRAIN, &x->saved);
	x->raw = false;
}

static void go_raw(struct joined *x)
{
	struct termios raw;

	if (tcgetattr(0, &x->saved) < 0)
		return;
	raw = x->saved;
	cfmakeraw(&raw);
	x->raw = tcsetattr(0, TCSADRAIN, &raw) == 0;
}

static void size_of(unsigned *rows, unsigned *cols)
{
	struct winsize w = {0};

	ioctl(0, TIOCGWINSZ, &w);
	*rows = w.ws_row;
	*cols = w.ws_col;
}

static bool write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) { /* whoever started us made it so */
			struct pollfd room = {.fd = fd, .events = POLLOUT};

			poll(&room, 1, -1);
			continue;
		}
		if (w <= 0)
			return false;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

/* What we write arrives nowhere: who only looks ends, and the process learns of it as by a broken pipe. */
static void unread(struct joined *x, const struct croft_event *e)
{
	bool first = !x->unread[e->stream == 2], gone = errno == EPIPE;

	if (first && !gone)
		fprintf(stderr, "croft: cannot write the output: %s\n", strerror(errno));
	x->unread[e->stream == 2] = true;
	if (!x->j->argv) {
		x->over = true;
		x->code = gone ? 128 + SIGPIPE : CROFT_EXIT_FAILED;
	} else if (first) {
		croft_process_end_output(x->s, x->process, e->stream);
	}
}

static void show(struct joined *x, const struct croft_event *e)
{
	int fd = e->stream == 2 ? 2 : 1;
	char *text;
	size_t n;

	x->next = e->offset + e->size;
	if (x->unread[fd == 2])
		return;
	if (!x->filter || !isatty(fd)) {
		if (!write_all(fd, e->data, e->size))
			unread(x, e);
		return;
	}
	text = malloc(e->size + CROFT_FILTER_MORE);
	if (!text)
		return;
	n = croft_filter_run(x->filter, e->data, e->size, text);
	if (!write_all(fd, text, n))
		unread(x, e);
	free(text);
}

static int write_receipt(const struct joined *x, const char *json)
{
	if (x->json)
		return croft_output_write(x->json, json) < 0 ? cli_fail(x->c) : 0;
	if (write_all(1, json, strlen(json)))
		return 0;
	fprintf(stderr, "croft: cannot write the receipt: %s\n", strerror(errno));
	return CROFT_EXIT_FAILED;
}

static void on_exited(struct joined *x, const struct croft_event *e)
{
	restore(x);
	x->over = true;
	x->code = e->exit;
	if (e->failed) {
		fprintf(stderr, "croft: %s\n", e->text);
		return;
	}
	if (!x->j->argv)
		return;
	if (!x->j->quiet)
		fputs(e->text, stderr);
	if (x->j->json && write_receipt(x, e->json) != 0)
		x->code = CROFT_EXIT_FAILED;
}

static void on_gone(const struct joined *x, unsigned long long first)
{
	if (x->next)
		fprintf(stderr, "croft: the bytes from %llu to %llu are gone: they were not read in time\n",
			x->next, first - 1);
	else if (x->j->offset)
		fprintf(stderr, "croft: offset %llu is gone, the first is %llu\n", x->j->offset, first);
	else
		fprintf(stderr, "croft: the first %llu bytes are gone; a log keeps the last megabyte\n",
			first);
}

static void on_started(struct joined *x, const struct croft_event *e)
{
	char text[512];

	x->started = true;
	x->process = e->process;
	if (!x->j->detach)
		return;
	x->over = true;
	if (!x->j->json) {
		printf("%u\n", e->process);
		return;
	}
	/* Names and runs are made of letters, digits, '.', '_' and '-'. */
	snprintf(text, sizeof(text),
		"{\"schema\": \"croft.detached/v1\", \"name\": \"%s\", \"process\": %u, \"run\": \"%s\"}\n",
		x->j->name, e->process, e->text);
	if (write_receipt(x, text) != 0)
		x->code = CROFT_EXIT_FAILED;
}

/* May the command run without the session, once that has ended? Nothing of it has happened yet. */
static bool not_begun(const struct joined *x)
{
	return x->j->argv && !x->j->detach && !x->started;
}

static void on_event(struct joined *x, const struct croft_event *e)
{
	switch (e->kind) {
	case CROFT_EVENT_STARTED:
		on_started(x, e);
		break;
	case CROFT_EVENT_OUTPUT:
		show(x, e);
		break;
	case CROFT_EVENT_GONE:
		on_gone(x, e->offset);
		break;
	case CROFT_EVENT_EXITED:
		on_exited(x, e);
		break;
	case CROFT_EVENT_DONE:
		x->over = x->over || (e->tag == x->tag && x->j->look && !x->j->follow);
		break;
	case CROFT_EVENT_UP:
	case CROFT_EVENT_DENIED:
	case CROFT_EVENT_ASKED:
	case CROFT_EVENT_CHANGED:
	case CROFT_EVENT_DOWN:
		break;
	case CROFT_EVENT_ERROR:
	default:
		if (e->tag != x->tag && e->tag != 0)
			break;
		x->ending = e->reason == CROFT_REASON_ENDING && not_begun(x);
		if (x->ending)
			break;
		restore(x);
		fprintf(stderr, "croft: %s\n", e->text);
		x->code = e->exit;
		x->over = true;
		break;
	}
}

/* Ctrl-P ctrl-Q in what was typed to a process that was attached to: let go of it. */
static bool lets_go(struct joined *x, const char *p, ssize_t n)
{
	if (x->j->argv || !x->tty)
		return false;
	for (ssize_t i = 0; i < n; i++) {
		if (x->half_detach && p[i] == KEY_DETACH_2)
			return true;
		x->half_detach = p[i] == KEY_DETACH_1;
	}
	return false;
}

static void let_go(struct joined *x)
{
	restore(x);
	fprintf(stderr, "\ncroft: let go of process %u of %s, which goes on\n", x->process, x->j->name);
	x->over = true;
}

static void on_input(struct joined *x)
{
	char piece[INPUT_B];
	ssize_t n = read(0, piece, sizeof(piece));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		x->input_open = false;
		croft_process_end_input(x->s, x->process);
		return;
	}
	if (lets_go(x, piece, n)) {
		let_go(x);
		return;
	}
	croft_process_write(x->s, x->process, piece, (size_t)n);
}

static void on_signal(struct joined *x)
{
	struct signalfd_siginfo si;
	unsigned rows, cols;

	while (read(x->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGWINCH) {
			size_of(&rows, &cols);
			if (x->tty && x->started)
				croft_process_resize(x->s, x->process, rows, cols);
		} else if (!x->j->argv && x->j->plain && si.ssi_signo == SIGINT) {
			let_go(x);
		} else if (!x->j->argv || x->ending || !x->started) {
			/* Nothing of ours runs; what may begin yet ends with the connection. */
			x->over = true;
			x->code = 128 + (int)si.ssi_signo;
		} else {
			croft_process_signal(x->s, x->process, (int)si.ssi_signo, CROFT_TO_GROUP);
		}
	}
}

static void turn(struct joined *x)
{
	struct croft_event e;
	struct pollfd p[4] = {{.fd = croft_sandbox_fd(x->s), .events = POLLIN},
		{.fd = x->signals, .events = POLLIN},
		{.fd = -1, .events = POLLIN},
		{.fd = x->starter, .events = POLLIN}};
	int r;

	if (croft_sandbox_wants_write(x->s))
		p[0].events |= POLLOUT;
	else if (x->input_open && x->started)
		p[2].fd = 0;
	if (poll(p, 4, -1) < 0 && errno != EINTR) {
		x->over = true;
		x->code = CROFT_EXIT_FAILED;
		return;
	}
	if (p[3].revents) { /* as without a session: the end of the connection ends the process */
		x->over = true;
		x->code = 128 + SIGTERM;
		return;
	}
	if (p[1].revents)
		on_signal(x);
	if (p[2].revents && !x->over)
		on_input(x);
	while (!x->over && (r = croft_sandbox_next(x->s, &e)) != 0) {
		if (r < 0) {
			restore(x);
			x->over = true;
			x->code = not_begun(x) ? JOIN_ENDED : CROFT_EXIT_FAILED;
			if (x->code != JOIN_ENDED)
				fprintf(stderr, "croft: the session of %s ended\n", x->j->name);
			return;
		}
		on_event(x, &e);
	}
}

static int take_signals(sigset_t *ret_before)
{
	static const int taken[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		struct sigaction sa;

		if (sigaction(taken[i], NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			continue;
		sigaddset(&set, taken[i]);
	}
	sigprocmask(SIG_BLOCK, &set, ret_before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* "K" is our own value of K, when there is one. */
static int set_of(const struct opt_list *from, const char *ret[SET_MAX], char **keep)
{
	int n = 0;

	for (int i = 0; from && i < from->n; i++) {
		const char *value;

		if (strchr(from->v[i], '=')) {
			ret[n++] = from->v[i];
			continue;
		}
		value = getenv(from->v[i]);
		if (value && asprintf(&keep[n], "%s=%s", from->v[i], value) >= 0) {
			ret[n] = keep[n];
			n++;
		}
	}
	ret[n] = NULL;
	return n;
}

static int limits_of(struct joined *x, struct croft_limits *ret)
{
	struct common_limit given[COMMON_LIMITS_MAX];
	int n = x->j->limits ? common_limits(x->j->limits, given) : 0;

	for (int i = 0; i < n; i++)
		if (croft_limits_set(x->c, ret, given[i].key, given[i].value) < 0)
			return cli_fail(x->c);
	return 0;
}

static int ask(struct joined *x)
{
	static const char *set[SET_MAX];
	static char *keep[SET_MAX];
	const struct join *j = x->j;
	struct croft_process p = {.argv = j->argv,
		.cwd = j->cwd,
		.label = j->label,
		.environ = (const char *const *)environ,
		.set = set};
	int r;

	if (!j->argv) {
		x->process = j->process;
		x->started = true;
		r = croft_process_read(x->s, j->process, j->offset,
			(j->follow ? CROFT_READ_FOLLOW : 0) | (j->from_end ? CROFT_READ_END : 0) |
				(x->tty ? CROFT_READ_SCREEN : 0),
			&x->tag);
		if (r == 0 && x->tty) {
			size_of(&p.rows, &p.cols);
			r = croft_process_resize(x->s, j->process, p.rows, p.cols);
		}
		return r;
	}
	set_of(j->set, set, keep);
	if (j->timeout && cli_duration(j->timeout, &p.timeout_ms) < 0)
		return cli_usage("exec", "--timeout takes a time such as 90s or 10m");
	if ((r = limits_of(x, &p.limits)) != 0)
		return r;
	p.flags = (x->tty ? CROFT_PROCESS_TTY : 0) | (j->detach ? CROFT_PROCESS_DETACH : 0) |
		  (x->input_open ? CROFT_PROCESS_INPUT : 0) | (j->as_test ? CROFT_PROCESS_TEST : 0) |
		  (j->verbose ? CROFT_PROCESS_VERBOSE : 0) | (j->quiet ? 0 : CROFT_PROCESS_TEXT) |
		  (j->json ? CROFT_PROCESS_JSON : 0);
	if (x->tty)
		size_of(&p.rows, &p.cols);
	r = croft_process_start(x->s, &p, &x->tag);
	for (int i = 0; i < SET_MAX; i++)
		free(keep[i]);
	return r;
}

/* As the session was started: what croft new kept, then what croft up was given. */
static int parse_words(struct common *ret, char *const *first, const char *const *then)
{
	struct opt opts[COMMON_OPTS_MAX];
	const struct opt extra[] = {
		{"stay", 0, OPT_FLAG, &ret->stay}, {"read-only", 0, OPT_FLAG, &ret->stay}};
	int n = 1, r, opts_n = common_opts(ret, opts, extra, 2);
	char **all;

	for (int i = 0; first[i]; i++)
		n++;
	for (int i = 0; then[i]; i++)
		n++;
	all = calloc((size_t)n + 1, sizeof(*all));
	if (!all)
		return -1;
	n = 1;
	for (; *first; first++)
		all[n++] = *first;
	for (; *then; then++)
		all[n++] = (char *)(uintptr_t)*then;
	r = opt_parse("exec", n, all, opts, opts_n) == n ? 0 : -1;
	free(all);
	return r;
}

static int load(const char *cmd, struct croft *c, struct common *o, const char *dir,
	struct croft_policy **ret)
{
	static struct common_storage st;
	struct croft_policy_options po;

	o->workspace = dir;
	if (common_policy(cmd, o, &st, &po) < 0)
		return CROFT_EXIT_FAILED;
	return croft_policy_load(c, &po, ret) < 0 ? cli_fail(c) : 0;
}

static int another(const char *name)
{
	fprintf(stderr,
		"croft: %s is up with another boundary than these options ask for; leave them out, or end "
		"it first: croft down %s\n",
		name, name);
	return CROFT_EXIT_REFUSED;
}

/*
 * Would it be another boundary with these options? Compared is what it was started with, without and with
 * them: what belongs to one process (environment, time limit; for exec all limits but the disk's) is in
 * neither.
 */
static int compare(const char *cmd, struct croft *c, const char *name, const struct common *now,
	char *const *args, const char *dir, const struct croft_sessions *up)
{
	static struct common is, would;
	struct croft_policy *a = NULL, *b = NULL;
	int code = CROFT_EXIT_FAILED;

	if (parse_words(&is, args, up->v[0].options) < 0)
		return code;
	is.timeout = NULL;
	is.env.n = 0;
	is.env.v[0] = NULL;
	would = is;
	common_add(&would, now);
	if ((code = load(cmd, c, &is, dir, &a)) == 0 && (code = load(cmd, c, &would, dir, &b)) == 0 &&
		strcmp(croft_policy_digest(a), croft_policy_digest(b)) != 0)
		code = another(name);
	croft_policy_free(a);
	croft_policy_free(b);
	return code;
}

static void free_args(char **args)
{
	for (int i = 0; args && args[i]; i++)
		free(args[i]);
	free(args);
}

/* Was it started with exactly these options? 0, or an exit status after a message. */
static int same(struct croft *c, const struct common *now, char *const *args,
	const char *dir, const struct croft_sessions *up, bool *ret)
{
	static const char *const none[] = {NULL};
	static struct common all;
	struct croft_policy *p = NULL;
	int code = CROFT_EXIT_FAILED;

	if (parse_words(&all, args, none) < 0)
		return code;
	common_add(&all, now);
	for (int i = 0; i < now->env.n && all.env.n < OPT_LIST_MAX; i++)
		all.env.v[all.env.n++] = now->env.v[i];
	if (now->timeout)
		all.timeout = now->timeout;
	if ((code = load("up", c, &all, dir, &p)) == 0)
		*ret = !strcmp(croft_policy_digest(p), up->v[0].policy_digest);
	croft_policy_free(p);
	return code;
}

int join_check_up(struct croft *c, const char *name, const struct common *now)
{
	struct croft_sessions *up = NULL;
	char *dir = NULL, **args = NULL;
	bool is_same = false;
	int code;

	struct common_limit limits[COMMON_LIMITS_MAX];

	if (!common_of_boundary(now) && !common_limits(now, limits) && !now->env.n && !now->timeout)
		return 0;
	if (croft_sessions(c, name, &up) < 0 || croft_env_args(c, name, &dir, &args) < 0)
		code = cli_fail(c);
	else
		code = same(c, now, args, dir, up, &is_same);
	if (code == 0 && !is_same)
		code = now->env.n || now->timeout ? another(name)
						  : compare("up", c, name, now, args, dir, up);
	croft_sessions_free(up);
	free_args(args);
	free(dir);
	return code;
}

int join_check(const char *cmd, struct croft *c, const char *name, const struct common *now)
{
	static struct common boundary; /* without the limits, which are the command's own */
	struct croft_sessions *up = NULL;
	char *dir = NULL, **args = NULL;
	int code;

	if (!common_of_boundary(now))
		return 0;
	boundary = *now;
	boundary.memory = boundary.cpus = boundary.pids = boundary.open_files = boundary.file_size = NULL;
	if (croft_sessions(c, name, &up) < 0 || croft_env_args(c, name, &dir, &args) < 0)
		code = cli_fail(c);
	else
		code = compare(cmd, c, name, &boundary, args, dir, up);
	croft_sessions_free(up);
	free_args(args);
	free(dir);
	return code;
}

/* The policy that a session was started with: 0, or an exit status after a message. */
static int policy_of(struct croft *c, const char *name, struct croft_policy **ret)
{
	static struct common is;
	struct croft_sessions *up = NULL;
	char *dir = NULL, **args = NULL;
	int code = CROFT_EXIT_FAILED;

	if (croft_sessions(c, name, &up) < 0 || croft_env_args(c, name, &dir, &args) < 0)
		code = cli_fail(c);
	else if (parse_words(&is, args, up->v[0].options) == 0)
		code = load("exec", c, &is, dir, ret);
	croft_sessions_free(up);
	free_args(args);
	free(dir);
	return code;
}

/* Symlinks on the way are rare: only for them it must be known where the session writes. */
static int open_json(struct croft *c, const struct join *j, struct croft_output **ret)
{
	struct croft_policy *p = NULL;
	int code = 0;

	if (croft_output_open_beside(c, NULL, j->json, ret) == 0 ||
		(code = policy_of(c, j->name, &p)) != 0)
		return code;
	if (croft_output_open_beside(c, p, j->json, ret) < 0)
		code = cli_fail(c);
	croft_policy_free(p);
	return code;
}

int join_run(struct croft *c, struct croft_sandbox *s, const struct join *j)
{
	struct joined x = {.c = c, .s = s, .j = j, .code = 0};
	bool said;
	int r;

	/* Found before the command runs: a bad name must not cost a run. */
	if (j->json && strcmp(j->json, "-") != 0 &&
		(r = open_json(c, j, &x.json)) != 0)
		return r;
	x.tty = !j->detach && !j->look && isatty(0) && isatty(1);
	said = x.tty && !j->argv;
	x.tty = x.tty && !j->plain;
	x.input_open = !j->detach && !j->look && !cli_closed[0];
	if (isatty(1) || isatty(2))
		x.filter = croft_filter_new();
	x.signals = take_signals(&x.mask);
	x.starter = j->stay || j->detach ? -1 : (int)syscall(SYS_pidfd_open, getppid(), 0);
	if (x.tty)
		go_raw(&x);
	r = ask(&x);
	/* Not before the terminal is raw: until then it would take the keys itself. */
	if (r == 0 && said)
		fprintf(stderr, "croft: attached to process %u of %s; %s lets go of it%s\n", j->process,
			j->name, j->plain ? "ctrl-C" : "ctrl-P ctrl-Q", x.raw && isatty(2) ? "\r" : "");
	if (r < 0)
		x.code = cli_fail_start(c);
	else if (r > 0)
		x.code = r;
	else
		while (!x.over)
			turn(&x);
	restore(&x);
	if (x.signals >= 0)
		close(x.signals);
	if (x.starter >= 0)
		close(x.starter);
	croft_filter_free(x.filter);
	croft_output_free(x.json);
	if (x.code == JOIN_ENDED) /* the command that runs by itself finds them as they were */
		sigprocmask(SIG_SETMASK, &x.mask, NULL);
	return x.code;
}
