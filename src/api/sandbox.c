/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcroft: a connection to a sandbox's session, and the processes in it.
 *
 * A sandbox that is started here has its connection before it exists: one end of a socket pair goes to the
 * session's process, which serves it first. What is asked before it is up waits in that socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/sandbox_impl.h"
#include "base/cleanup.h"
#include "engine/wire/wire.h"
#include "env/env.h"
#include "policy/policy.h"
#include "session/join/join.h"

#define WORDS_MAX 65536u

/* ---- connecting ---- */

int api_session_link(struct croft *c, const char *name, struct session_link *ret)
{
	cleanup_env struct env v;

	c->err = ERR_INIT;
	env_init(&v);
	if (c->seen && str_eq(c->seen, name))
		return join_connect(c->seen_fd, name, ret, &c->err);
	if (env_open_record(&v, name, &c->err) < 0)
		return -c->err.errnum;
	return join_connect(v.dir_fd, name, ret, &c->err);
}

int croft_sandbox_open(struct croft *c, const char *name, struct croft_sandbox **ret)
{
	struct croft_sandbox *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(&c->err, ENOMEM, "connect to %s", name);
	s->croft = c;
	s->side = SESSION_LINK_INIT;
	r = api_session_link(c, name, &s->link);
	if (r <= 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 1;
}

void croft_sandbox_close(struct croft_sandbox *s)
{
	if (!s)
		return;
	session_link_flush(&s->link);
	session_link_done(&s->link);
	session_link_done(&s->side);
	api_receipt_done(&s->receipt);
	free(s);
}

int croft_sandbox_fd(const struct croft_sandbox *s)
{
	return s->link.fd;
}

bool croft_sandbox_wants_write(const struct croft_sandbox *s)
{
	return session_link_pending(&s->link);
}

static int put(struct croft_sandbox *s, enum session_type type, uint32_t tag, uint32_t process,
	const void *body, size_t n)
{
	s->croft->err = ERR_INIT;
	if (!session_link_put(&s->link, type, tag, process, body, n))
		return err_set(&s->croft->err, ENOBUFS, "ask the session");
	session_link_flush(&s->link); /* an error is an event soon */
	return 0;
}

/* ---- starting ---- */

static void add_time(struct strlist *args, const char *name, unsigned long long ms)
{
	char value[48];

	if (!ms)
		return;
	snprintf(value, sizeof(value), "%llums", ms);
	strlist_add(args, name);
	strlist_add(args, value);
}

static void add_word(struct strlist *to, const char *option, const char *value)
{
	if (value) {
		strlist_add(to, option);
		strlist_add(to, value);
	}
}

static void add_words(struct strlist *to, const char *option, const char *const *values)
{
	for (; values && *values; values++)
		add_word(to, option, *values);
}

static void policy_words(struct strlist *to, const struct croft_policy_options *o)
{
	char file[PATH_MAX];

	add_word(to, "--workspace", o->directory);
	add_word(to, "--policy",
		o->policy_file && realpath(o->policy_file, file) ? file : o->policy_file);
	add_word(to, "--profile", o->profile);
	add_word(to, "--tier", o->tier);
	add_words(to, "--read", o->read);
	add_words(to, "--write", o->write);
	add_words(to, "--deny", o->deny);
	add_words(to, "--view", o->view);
	add_words(to, "--write-runs", o->write_runs);
	if (o->git)
		strlist_add(to, "--git");
	add_words(to, "--allow-host", o->hosts);
	add_words(to, "--use", o->use);
	add_words(to, "--secret", o->secrets);
	add_words(to, "--publish", o->publish);
	add_words(to, "--host-port", o->host_ports);
	add_words(to, "--env", o->env);
	add_words(to, "--set", o->set);
}

/* croft session FLAGS NAME OPTIONS…, where NAME is "-" for none. */
static int session_words(
	struct croft *c, const struct croft_sandbox_options *o, struct strlist *args)
{
	char flags[16];
	char **v;

	snprintf(flags, sizeof(flags), "%u", o->flags);
	strlist_add(args, "croft");
	strlist_add(args, "session");
	strlist_add(args, flags);
	strlist_add(args, o->name ? o->name : "-");
	add_time(args, "--linger", o->linger_ms);
	add_time(args, "--lifetime", o->lifetime_ms);
	add_time(args, "--pause-idle", o->idle_ms);
	if (o->flags & CROFT_SANDBOX_ALLOW_DEGRADED)
		strlist_add(args, "--allow-degraded");
	if (o->policy)
		policy_words(args, o->policy);
	for (const char *const *a = o->args; a && *a; a++)
		strlist_add(args, *a);
	v = reallocarray(args->v, args->n + 1, sizeof(*args->v));
	if (!v)
		return err_set(&c->err, ENOMEM, "start a sandbox");
	args->v = v;
	args->v[args->n] = NULL;
	return args->n < WORDS_MAX ? 0 : err_set(&c->err, E2BIG, "start a sandbox");
}

static int spawn_session(struct croft *c, const struct croft_sandbox_options *o, int fd)
{
	cleanup_strlist struct strlist args = STRLIST_INIT(WORDS_MAX);
	const char *program = o->program, *slash;
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (!program)
		program = slash && str_eq(slash, "/croft") ? self : "croft";
	if (session_words(c, o, &args) < 0)
		return -c->err.errnum;
	return api_spawn(program, args.v, fd, &c->err);
}

/* 1: it is up, and joined; 0: it is to be started. */
static int join_or_start(struct croft *c, const struct croft_sandbox_options *o, struct session_link *l)
{
	int r = api_session_link(c, o->name, l);

	if (r == -ECONNRESET || r == -EPIPE) { /* it has just ended: whoever starts waits for its lock */
		session_link_done(l);
		*l = SESSION_LINK_INIT;
		c->err = ERR_INIT;
		return 0;
	}
	if (r != 1 || o->flags & CROFT_SANDBOX_JOIN)
		return r;
	session_link_done(l);
	err_invalid(&c->err, "%s is up already; croft ps %s shows what runs in it", o->name, o->name);
	return err_why(&c->err, ERR_WHY_UP, -EALREADY);
}

int croft_sandbox_start(
	struct croft *c, const struct croft_sandbox_options *o, struct croft_sandbox **ret)
{
	struct croft_sandbox *s;
	int fd[2] = {-1, -1}, r;

	c->err = ERR_INIT;
	if (!o->name && o->flags & CROFT_SANDBOX_STAYS)
		return err_invalid(&c->err, "a sandbox that stays needs the name of an environment");
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(&c->err, ENOMEM, "start a sandbox");
	s->croft = c;
	s->link = s->side = SESSION_LINK_INIT;
	r = o->name ? join_or_start(c, o, &s->link) : 0;
	if (r == 0) {
		s->starting = true;
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0) {
			r = err_set(&c->err, errno, "start a sandbox");
		} else {
			s->link.fd = fd[0];
			r = join_greet(&s->link, &c->err);
		}
	}
	if (r == 0)
		r = spawn_session(c, o, fd[1]);
	if (r == 0)
		session_link_flush(&s->link);
	close_fd(&fd[1]);
	if (r < 0) {
		session_link_done(&s->link);
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int croft_sandbox_stop(struct croft_sandbox *s, unsigned long long grace_ms)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	pack_u32(&b, (uint32_t)MIN_OF(grace_ms, 3600000ull));
	return put(s, SESSION_STOP, ++s->tag, 0, b.data, b.len);
}

int croft_sandbox_watch(struct croft_sandbox *s, unsigned what)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	pack_u32(&b, what);
	return put(s, SESSION_WATCH, ++s->tag, 0, b.data, b.len);
}

/* ---- processes ---- */

int croft_limits_set(struct croft *c, struct croft_limits *l, const char *key, const char *value)
{
	struct policy_limits p = policy_no_limits();
	const struct {
		const char *key;
		const uint64_t *from;
		unsigned long long *to;
	} all[] = {{"memory", &p.memory_b, &l->memory_b}, {"cpus", &p.cpu_milli, &l->cpu_milli},
		{"pids", &p.pids, &l->pids}, {"open_files", &p.open_files, &l->open_files},
		{"file_size", &p.file_size_b, &l->file_size_b}};

	c->err = ERR_INIT;
	if (policy_limit_set(&p, key, value, &c->err) < 0)
		return -c->err.errnum;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (str_eq(key, all[i].key)) {
			*all[i].to = *all[i].from == LIMIT_NONE ? 0 : *all[i].from;
			return 0;
		}
	return err_invalid(&c->err, "limits.%s is not a limit of one process", key);
}

int croft_process_start(struct croft_sandbox *s, const struct croft_process *p, unsigned *ret_tag)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_BODY_MAX);
	const struct session_exec x = {.flags = p->flags,
		.rows = p->rows,
		.cols = p->cols,
		.timeout_ms = p->timeout_ms,
		.limits = {.memory_b = p->limits.memory_b,
			.cpu_milli = p->limits.cpu_milli,
			.pids = p->limits.pids,
			.open_files = p->limits.open_files,
			.file_size_b = p->limits.file_size_b},
		.cwd = p->cwd,
		.label = p->label,
		.argv = (char **)(uintptr_t)p->argv, /* read only */
		.environ = (char **)(uintptr_t)p->environ,
		.set = (char **)(uintptr_t)p->set};

	session_exec_pack(&b, &x);
	if (b.failed)
		return err_set(&s->croft->err, E2BIG, "ask for a process");
	*ret_tag = ++s->tag;
	return put(s, SESSION_EXEC, s->tag, 0, b.data, b.len);
}

int croft_process_read(struct croft_sandbox *s, unsigned process, unsigned long long offset,
	unsigned flags, unsigned *ret_tag)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	pack_u64(&b, offset);
	pack_u32(&b, flags);
	*ret_tag = ++s->tag;
	return put(s, SESSION_READ, s->tag, process, b.data, b.len);
}

int croft_process_write(struct croft_sandbox *s, unsigned process, const void *p, size_t n)
{
	const char *at = p;
	int r = 0;

	s->fed = true;
	while (r == 0 && n) {
		size_t part = MIN_OF(n, (size_t)SESSION_CHUNK_MAX);

		r = put(s, SESSION_STDIN, 0, process, at, part);
		at += part;
		n -= part;
	}
	return r;
}

int croft_process_end_input(struct croft_sandbox *s, unsigned process)
{
	return put(s, SESSION_STDIN, 0, process, NULL, 0);
}

int croft_process_end_output(struct croft_sandbox *s, unsigned process, int stream)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	pack_u32(&b, stream == 2);
	return put(s, SESSION_UNREAD, 0, process, b.data, b.len);
}

int croft_process_resize(struct croft_sandbox *s, unsigned process, unsigned rows, unsigned cols)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	pack_u32(&b, rows);
	pack_u32(&b, cols);
	return put(s, SESSION_RESIZE, 0, process, b.data, b.len);
}

void api_pack_signal(struct buf *b, int signal, enum croft_scope to)
{
	pack_u32(b, (uint32_t)signal);
	pack_u32(b, to == CROFT_TO_MAIN ? WIRE_TO_MAIN : to == CROFT_TO_GROUP ? WIRE_TO_GROUP : WIRE_TO_ALL);
}

/*
 * A session reads a connection no further while input from it waits, and then a signal there would wait, too.
 * So it goes another way, which stays open: what is said before the end of a connection may not be heard.
 */
static bool signal_aside(struct croft_sandbox *s, unsigned process, const struct buf *b)
{
	if (!s->fed || !s->name[0])
		return false;
	if (s->side.fd < 0 && api_session_link(s->croft, s->name, &s->side) <= 0) {
		s->croft->err = ERR_INIT; /* the first way is left */
		s->side = SESSION_LINK_INIT;
		return false;
	}
	return session_link_put(&s->side, SESSION_SIGNAL, 0, process, b->data, b->len) &&
	       session_link_flush(&s->side) == 0;
}

int croft_process_signal(struct croft_sandbox *s, unsigned process, int signal, enum croft_scope to)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	api_pack_signal(&b, signal, to);
	if (signal_aside(s, process, &b))
		return 0;
	return put(s, SESSION_SIGNAL, 0, process, b.data, b.len);
}

/* ---- events ---- */

static int on_exited(struct croft_sandbox *s, const struct session_frame *f, struct croft_event *ret)
{
	struct session_exit x;
	int r;

	if (session_exit_unpack(&x, f->body, f->n) < 0)
		return -EPROTO;
	ret->kind = CROFT_EVENT_EXITED;
	ret->exit = x.code;
	ret->signal = x.signal;
	ret->failed = x.failed != ERR_WHY_NONE;
	ret->reason = x.failed < ERR_WHY_NUM ? (enum croft_reason)x.failed : CROFT_REASON_FAILED;
	ret->text = x.text;
	ret->json = x.json;
	if (!x.receipt_n)
		return 0; /* it is somebody else's */
	r = api_receipt_unpack(&s->receipt, x.receipt, x.receipt_n);
	ret->receipt = r == 0 ? &s->receipt.info : NULL;
	return r;
}

static void on_error(struct croft_sandbox *s, struct croft_event *ret)
{
	ret->kind = CROFT_EVENT_ERROR;
	ret->exit = err_exit_code(&s->croft->err);
	ret->reason = (enum croft_reason)err_reason(&s->croft->err);
	ret->text = s->croft->err.msg;
}

static int on_asked(struct croft_sandbox *s, struct unpack *u, struct croft_event *ret)
{
	s->ask.id = unpack_str(u, SESSION_TEXT_MAX);
	s->ask.port = unpack_u32(u);
	s->ask.host = unpack_str(u, SESSION_TEXT_MAX);
	s->ask.method = unpack_str(u, SESSION_TEXT_MAX);
	s->ask.path = unpack_str(u, SESSION_TEXT_MAX);
	ret->kind = CROFT_EVENT_ASKED;
	ret->ask = &s->ask;
	return unpack_good(u) ? 0 : -EPROTO;
}

static int on_denied(struct croft_sandbox *s, struct unpack *u, struct croft_event *ret)
{
	struct session_denial d;

	session_denial_unpack(u, &d);
	if (!unpack_good(u))
		return -EPROTO;
	s->denial = api_denial(&d);
	ret->kind = CROFT_EVENT_DENIED;
	ret->denial = &s->denial;
	return 0;
}

static int text_event(struct unpack *u, enum croft_event_kind kind, struct croft_event *ret)
{
	ret->kind = kind;
	ret->text = unpack_str(u, SESSION_TEXT_MAX);
	return unpack_good(u) ? 0 : -EPROTO;
}

static int up_event(struct croft_sandbox *s, struct unpack *u, struct croft_event *ret)
{
	int r = text_event(u, CROFT_EVENT_UP, ret);

	if (r == 0 && env_name_good(ret->text))
		snprintf(s->name, sizeof(s->name), "%s", ret->text);
	return r;
}

static int event_of(struct croft_sandbox *s, const struct session_frame *f, struct croft_event *ret)
{
	struct unpack u = unpack_of(f->body, f->n);

	*ret = (struct croft_event){.tag = f->tag, .process = f->process, .text = "", .json = ""};
	switch (f->type) {
	case SESSION_STARTED:
		ret->kind = CROFT_EVENT_STARTED;
		ret->text = f->n && ((const char *)f->body)[f->n - 1] == '\0' ? f->body : "";
		return 0;
	case SESSION_OUTPUT:
		ret->kind = CROFT_EVENT_OUTPUT;
		ret->stream = (int)unpack_u32(&u) + 1;
		ret->offset = unpack_u64(&u);
		ret->data = unpack_bytes(&u, SESSION_CHUNK_MAX, &ret->size);
		return unpack_good(&u) ? 0 : -EPROTO;
	case SESSION_GONE:
		ret->kind = CROFT_EVENT_GONE;
		ret->offset = unpack_u64(&u);
		return unpack_good(&u) ? 0 : -EPROTO;
	case SESSION_EXITED:
		return on_exited(s, f, ret);
	case SESSION_OK:
		if (f->tag == JOIN_GREETING) {
			ret->tag = 0;
			s->starting = false;
			return up_event(s, &u, ret);
		}
		ret->kind = CROFT_EVENT_DONE;
		return 0;
	case SESSION_TEXT:
		ret->kind = CROFT_EVENT_DONE;
		return 0;
	case SESSION_ERROR:
		join_error(f, &s->croft->err);
		on_error(s, ret);
		if (f->tag == JOIN_GREETING || f->tag == 0) { /* it is about all of the connection */
			ret->tag = 0;
			s->starting = false;
		}
		return 0;
	case SESSION_DENIED:
		return on_denied(s, &u, ret);
	case SESSION_ASKED:
		return on_asked(s, &u, ret);
	case SESSION_CHANGED:
		ret->offset = unpack_u64(&u);
		return text_event(&u, CROFT_EVENT_CHANGED, ret);
	case SESSION_DOWN:
		return text_event(&u, CROFT_EVENT_DOWN, ret);
	default:
		return -EPROTO;
	}
}

/* What was started is not what was expected: say so once, as an event. */
static int not_started(struct croft_sandbox *s, int r, struct croft_event *ret)
{
	struct err *e = &s->croft->err;

	s->starting = false;
	s->over = true;
	if (r == -EPROTO)
		err_why(e, ERR_WHY_OTHER_VERSION,
			err_refuse(e, "the croft program that was executed is not croft %s, as this "
				      "library is; name the right one",
				CROFT_VERSION));
	else
		err_set(e, ECHILD, "start the sandbox: its process ended without a word");
	*ret = (struct croft_event){.text = "", .json = ""};
	on_error(s, ret);
	return 1;
}

int croft_sandbox_next(struct croft_sandbox *s, struct croft_event *ret)
{
	struct err *e = &s->croft->err;
	struct session_frame f;
	int r = session_link_flush(&s->link);

	api_receipt_done(&s->receipt);
	for (;;) {
		int n = session_link_next(&s->link, &f);

		if (n == 1 && (n = event_of(s, &f, ret)) == 0)
			return 1;
		if (n < 0)
			return s->starting ? not_started(s, n, ret)
					   : err_set(e, -n, "understand the session");
		if (r < 0 || s->over)
			return s->starting ? not_started(s, -ECHILD, ret)
					   : err_set(e, ECONNRESET, "the session ended");
		r = session_link_fill(&s->link);
		if (r == -EAGAIN)
			return 0;
		s->over = r <= 0; /* what came before the end is still said */
		r = 0;
	}
}
