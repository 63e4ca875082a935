/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program against the installed library, and nothing else of croft's: what the header promises.
 *
 * usage: client CROFT WORKSPACE ENVIRONMENT, where ENVIRONMENT was made from WORKSPACE with
 * croft new --observe writes, and WORKSPACE has a file called data that is not executable.
 */
#include <croft.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define SIGNALS 64
#define GRACE_MS 2000

static const char *croft, *workspace, *environment;
static int failed;
static volatile sig_atomic_t children;

static void result(int good, const char *name, const char *fmt, ...)
{
	va_list ap;

	if (!good) {
		failed = 1;
		printf("# ");
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
		printf("\n");
	}
	printf("%s - %s\n", good ? "ok" : "not ok", name);
	fflush(stdout);
}

/* ---- a sandbox, waited for ---- */

static int next(struct croft_sandbox *s, struct croft_event *e)
{
	int r;

	while ((r = croft_sandbox_next(s, e)) == 0) {
		struct pollfd p = {.fd = croft_sandbox_fd(s), .events = POLLIN};

		if (croft_sandbox_wants_write(s))
			p.events |= POLLOUT;
		poll(&p, 1, -1);
	}
	return r;
}

static int until(struct croft_sandbox *s, enum croft_event_kind kind, struct croft_event *e)
{
	while (next(s, e) == 1)
		if (e->kind == kind)
			return 1;
		else if (e->kind == CROFT_EVENT_ERROR)
			break;
	return 0;
}

static struct croft_sandbox *start(struct croft *c, const char *name, unsigned flags)
{
	static const char *const set[] = {"observe=writes", NULL};
	const struct croft_policy_options policy = {.directory = workspace, .set = set};
	const struct croft_sandbox_options o = {
		.name = name, .policy = name ? NULL : &policy, .flags = flags, .program = croft};
	struct croft_sandbox *s = NULL;

	return croft_sandbox_start(c, &o, &s) == 0 ? s : NULL;
}

static int run(struct croft_sandbox *s, const char *const *argv, unsigned timeout_ms, struct croft_event *e)
{
	const struct croft_process p = {.argv = argv, .timeout_ms = timeout_ms};
	unsigned tag;

	return croft_process_start(s, &p, &tag) == 0 && until(s, CROFT_EVENT_EXITED, e);
}

static int shell(struct croft_sandbox *s, const char *script, struct croft_event *e)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	return run(s, argv, 0, e);
}

static void stop(struct croft_sandbox *s, char *ret_left, size_t size)
{
	struct croft_event e = {0};

	croft_sandbox_stop(s, GRACE_MS);
	if (ret_left)
		snprintf(ret_left, size, "no DOWN");
	while (next(s, &e) == 1)
		if (e.kind == CROFT_EVENT_DOWN && ret_left)
			snprintf(ret_left, size, "%s", e.text);
	croft_sandbox_close(s);
}

/* ---- what it does to the process ---- */

struct effects {
	struct sigaction action[SIGNALS + 1];
	sigset_t mask;
	int subreaper, dumpable, groups_n, fds, threads, no_new_privs;
	gid_t groups[256];
	mode_t umask;
	char cwd[4096];
};

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void look(struct effects *x)
{
	memset(x, 0, sizeof(*x));
	for (int i = 1; i <= SIGNALS; i++)
		sigaction(i, NULL, &x->action[i]);
	pthread_sigmask(SIG_SETMASK, NULL, &x->mask);
	prctl(PR_GET_CHILD_SUBREAPER, &x->subreaper);
	x->dumpable = prctl(PR_GET_DUMPABLE);
	x->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	x->groups_n = getgroups(256, x->groups);
	x->fds = entries("/proc/self/fd");
#ifndef __SANITIZE_THREAD__ /* has one of its own, from the second thread on */
	x->threads = entries("/proc/self/task");
#endif
	umask(x->umask = umask(0));
	if (!getcwd(x->cwd, sizeof(x->cwd)))
		x->cwd[0] = '\0';
}

static const char *difference(const struct effects *a, const struct effects *b)
{
	static char text[64];

	for (int i = 1; i <= SIGNALS; i++)
		if (a->action[i].sa_handler != b->action[i].sa_handler ||
			a->action[i].sa_flags != b->action[i].sa_flags) {
			snprintf(text, sizeof(text), "the disposition of signal %d", i);
			return text;
		}
	for (int i = 1; i <= SIGNALS; i++)
		if (sigismember(&a->mask, i) != sigismember(&b->mask, i))
			return "the signal mask";
	if (a->subreaper != b->subreaper)
		return "the subreaper";
	if (a->dumpable != b->dumpable || a->no_new_privs != b->no_new_privs)
		return "its attributes";
	if (a->groups_n != b->groups_n || memcmp(a->groups, b->groups, sizeof(a->groups)) != 0)
		return "the groups";
	if (a->fds != b->fds) {
		snprintf(text, sizeof(text), "descriptors: %d before, %d after", a->fds, b->fds);
		return text;
	}
	if (a->threads != b->threads)
		return "threads";
	if (a->umask != b->umask)
		return "the umask";
	return strcmp(a->cwd, b->cwd) != 0 ? "the directory" : NULL;
}

static void on_child(int sig)
{
	children = children + sig - sig + 1;
}

struct worker {
	int good;
	char why[256];
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct croft *c = croft_new();
	struct croft_sandbox *s = c ? start(c, NULL, 0) : NULL;
	struct croft_event e = {0};

	if (!s || !shell(s, "echo hello; exit 7", &e))
		snprintf(w->why, sizeof(w->why), "%s", c ? croft_error(c) : "out of memory");
	else if (!e.receipt || e.receipt->exit != 7)
		snprintf(w->why, sizeof(w->why), "no receipt, or exit %d", e.exit);
	else
		w->good = 1;
	if (s)
		stop(s, NULL, 0);
	croft_free(c);
	return NULL;
}

static void test_effects(void)
{
	struct sigaction count = {.sa_handler = on_child};
	struct worker w[THREADS] = {0};
	pthread_t t[THREADS];
	struct effects before, after;
	const char *what;
	int good = 1, none;

	sigaction(SIGCHLD, &count, NULL);
	look(&before);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, &w[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		good &= w[i].good;
	}
	none = waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD;
	look(&after);
	what = difference(&before, &after);
	result(good, "four threads run a sandbox each at once", "%s; %s; %s; %s", w[0].why, w[1].why,
		w[2].why, w[3].why);
	result(!what, "the process is as it was", "%s", what ? what : "");
	result(none, "no child is left", "there is one");
	result(children == 0, "nobody is told of a child", "SIGCHLD came %d times", (int)children);
	/* The control: this is what would be seen. */
	signal(SIGUSR1, SIG_IGN);
	none = dup(0);
	look(&after);
	result(difference(&before, &after) != NULL, "a change would be noticed", "it was not");
	close(none);
	signal(SIGUSR1, SIG_DFL);
	if (fork() == 0)
		_exit(0);
	while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
		;
	result(children == 1, "and so would a child", "SIGCHLD came %d times", (int)children);
	signal(SIGCHLD, SIG_DFL);
}

struct handed {
	struct croft *c;
	struct croft_sandbox *s;
};

static void *start_and_leave(void *arg)
{
	struct handed *h = arg;
	struct croft_event e = {0};

	h->s = start(h->c, NULL, 0);
	if (h->s && !until(h->s, CROFT_EVENT_UP, &e)) {
		croft_sandbox_close(h->s);
		h->s = NULL;
	}
	return NULL;
}

static void test_thread_ends(void)
{
	struct handed h = {.c = croft_new()};
	struct croft_event e = {0};
	pthread_t t;
	int good;

	pthread_create(&t, NULL, start_and_leave, &h);
	pthread_join(t, NULL);
	good = h.s && shell(h.s, "exit 5", &e) && e.exit == 5;
	result(good, "a sandbox outlives the thread that started it", "%s, exit %d", croft_error(h.c),
		e.exit);
	if (h.s)
		stop(h.s, NULL, 0);
	croft_free(h.c);
}

/* ---- what it tells ---- */

static void test_receipt(struct croft *c, struct croft_sandbox *s)
{
	static const char *const wait_for_ever[] = {"sleep", "1000", NULL};
	struct croft_event e = {0};
	size_t i = 0;

	if (!shell(s, "echo x > /etc/croft-test; kill -KILL $$", &e) || !e.receipt) {
		result(0, "a receipt is data", "%s", croft_error(c));
		return;
	}
	result(e.receipt->signal == SIGKILL && e.exit == 128 + SIGKILL && e.receipt->wall_us > 0 &&
			strlen(e.receipt->id) == 10 && strchr(e.receipt->event, '.') &&
			strlen(e.receipt->policy_digest) == 64 && !e.receipt->timed_out && !e.json[0],
		"a receipt is data", "signal %d, exit %d, id %s, event %s", e.receipt->signal, e.exit,
		e.receipt->id, e.receipt->event);
	while (i < e.receipt->denials_n && !strstr(e.receipt->denials[i].target, "/etc/croft-test"))
		i++;
	result(i < e.receipt->denials_n && e.receipt->denials[i].attempt != CROFT_ATTEMPT_READ &&
			e.receipt->denials[i].count >= 1,
		"a denial is data", "%zu denials", e.receipt->denials_n);
	result(run(s, wait_for_ever, 200, &e) && e.receipt && e.receipt->timed_out &&
			e.exit == CROFT_EXIT_TIMEOUT && e.receipt->limits_hit[0] &&
			!strcmp(e.receipt->limits_hit[0], "timeout"),
		"a time limit is data", "exit %d", e.exit);
}

static void test_reasons(struct croft *c, struct croft_sandbox *s)
{
	static const char *const none[] = {"no-such-command", NULL}, *const data[] = {"./data", NULL};
	struct croft_sandbox_options wrong = {.program = "/nonexistent/croft"};
	struct croft_sandbox *other = NULL;
	struct croft_event e = {0};
	unsigned tag;

	result(run(s, none, 0, &e) && e.failed && e.reason == CROFT_REASON_NO_COMMAND && e.exit == 127,
		"there is no such command", "reason %d", e.reason);
	result(run(s, data, 0, &e) && e.failed && e.reason == CROFT_REASON_NOT_EXECUTABLE && e.exit == 126,
		"a file is not executable", "reason %d", e.reason);
	croft_process_signal(s, 999, SIGTERM, CROFT_TO_ALL);
	result(next(s, &e) == 1 && e.kind == CROFT_EVENT_ERROR && e.reason == CROFT_REASON_NO_PROCESS &&
			e.exit == croft_reason_exit(e.reason),
		"there is no such process", "kind %d, reason %d", e.kind, e.reason);
	croft_process_read(s, 1, 1ull << 40, 0, &tag);
	result(next(s, &e) == 1 && e.kind == CROFT_EVENT_ERROR && e.tag == tag &&
			e.reason == CROFT_REASON_INVALID,
		"an offset is beyond the end", "kind %d, reason %d", e.kind, e.reason);
	result(croft_sandbox_open(c, "no-such-environment", &other) < 0 &&
			croft_error_reason(c) == CROFT_REASON_NO_ENVIRONMENT,
		"there is no such environment", "%s", croft_error(c));
	result(croft_session_stop(c, environment, 0) < 0 && croft_error_reason(c) == CROFT_REASON_NOT_UP,
		"it is not up", "%s", croft_error(c));
	result(croft_sandbox_start(c, &wrong, &other) < 0 && croft_error_reason(c) == CROFT_REASON_FAILED,
		"there is no such program", "%s", croft_error(c));
	wrong.program = "/bin/true";
	result(croft_sandbox_start(c, &wrong, &other) == 0 && next(other, &e) == 1 &&
			e.kind == CROFT_EVENT_ERROR && e.tag == 0 && e.reason == CROFT_REASON_FAILED &&
			next(other, &e) < 0 && croft_error_reason(c) == CROFT_REASON_ENDED,
		"a program that is not croft", "%s", croft_error(c));
	croft_sandbox_close(other);
	wrong.program = croft;
	wrong.name = "no-such-environment";
	result(croft_sandbox_start(c, &wrong, &other) < 0 &&
			croft_error_reason(c) == CROFT_REASON_NO_ENVIRONMENT,
		"one of that name cannot be started", "%s", croft_error(c));
	for (int i = 0; i < CROFT_REASON_NUM; i++)
		if (!croft_reason_name((enum croft_reason)i))
			result(0, "each reason has a name", "%d has none", i);
	result(!croft_reason_name(CROFT_REASON_NUM), "each reason has a name", "and more");
}

static void test_short_lived(void)
{
	struct croft *c = croft_new();
	struct croft_sandbox *s = start(c, NULL, 0), *other;
	struct croft_event e = {0};
	char name[128] = "", left[128];
	struct stat st;

	if (!s || !until(s, CROFT_EVENT_UP, &e)) {
		result(0, "a sandbox is made from a directory", "%s", croft_error(c));
		return;
	}
	snprintf(name, sizeof(name), "%s", e.text);
	result(strncmp(name, "sandbox-", 8) == 0 && shell(s, "test -f data", &e) && e.exit == 0,
		"a sandbox is made from a directory", "%s, exit %d", name, e.exit);
	test_receipt(c, s);
	test_reasons(c, s);
	stop(s, left, sizeof(left));
	result(!left[0] && croft_sandbox_open(c, name, &other) < 0 &&
			croft_error_reason(c) == CROFT_REASON_NO_ENVIRONMENT,
		"one that changed nothing leaves nothing", "left: \"%s\", %s", left, croft_error(c));
	s = start(c, NULL, 0);
	if (s && shell(s, "echo made > made.txt", &e))
		stop(s, left, sizeof(left));
	result(strncmp(left, "sandbox-", 8) == 0 && croft_sandbox_open(c, left, &other) == 0 &&
			stat("made.txt", &st) < 0,
		"one that changed something keeps it", "left: \"%s\"", left);
	s = start(c, NULL, CROFT_SANDBOX_DISCARD);
	if (s && shell(s, "echo made > made.txt", &e))
		stop(s, left, sizeof(left));
	result(!left[0], "or not, when that is asked for", "left: \"%s\"", left);
	croft_free(c);
}

/* Of one process: its neighbour has them not. */
static void test_limits(struct croft *c, struct croft_sandbox *s)
{
	static const char *const argv[] = {"sh", "-c", "test $(ulimit -n) = 64", NULL};
	struct croft_process p = {.argv = argv};
	struct croft_event e = {0};
	unsigned tag;

	result(croft_limits_set(c, &p.limits, "open_files", "64") == 0 && p.limits.open_files == 64 &&
			croft_limits_set(c, &p.limits, "memory", "256M") == 0 &&
			p.limits.memory_b == 256u << 20 &&
			croft_limits_set(c, &p.limits, "pids", "none") == 0 && p.limits.pids == 0,
		"limits are read as a policy has them", "%s", croft_error(c));
	result(croft_limits_set(c, &p.limits, "disk", "1G") < 0 &&
			croft_limits_set(c, &p.limits, "memory", "lots") < 0 &&
			p.limits.memory_b == 256u << 20,
		"and refused if they are none of a process", "%llu", p.limits.memory_b);
	result(croft_process_start(s, &p, &tag) == 0 && until(s, CROFT_EVENT_EXITED, &e) && e.exit == 0 &&
			e.receipt->limits.open_files == 64 && e.receipt->limits.memory_b == 256u << 20,
		"a process has limits of its own", "exit %d: %s", e.exit, croft_error(c));
	result(run(s, argv, 0, &e) && e.exit == 1 && e.receipt->limits.open_files > 64,
		"the next one has not", "exit %d: %s", e.exit, croft_error(c));
	p.limits.open_files = 1u << 30;
	result(croft_process_start(s, &p, &tag) == 0 && until(s, CROFT_EVENT_ERROR, &e) && e.exit == 126,
		"nor more than the sandbox", "exit %d: %s", e.exit, e.text ? e.text : "");
}

static void test_named(void)
{
	static const char *const forever[] = {"sleep", "1000", NULL};
	const struct croft_process detached = {
		.argv = forever, .label = "waits", .flags = CROFT_PROCESS_DETACH};
	struct croft *c = croft_new();
	struct croft_sandbox *s = start(c, environment, CROFT_SANDBOX_STAYS), *other;
	struct croft_sessions *l = NULL;
	struct croft_event e = {0};
	unsigned tag;

	if (!s || !until(s, CROFT_EVENT_UP, &e)) {
		result(0, "an environment is started", "%s", croft_error(c));
		return;
	}
	result(!strcmp(e.text, environment), "an environment is started", "%s", e.text);
	test_limits(c, s);
	croft_sandbox_watch(s, CROFT_WATCH_DENIED | CROFT_WATCH_CHANGED);
	until(s, CROFT_EVENT_DONE, &e);
	croft_process_start(s, &detached, &tag);
	until(s, CROFT_EVENT_STARTED, &e);
	result(!start(c, environment, 0) && croft_error_reason(c) == CROFT_REASON_UP,
		"it cannot be started twice", "%s", croft_error(c));
	other = start(c, environment, CROFT_SANDBOX_JOIN);
	result(other && shell(other, "echo x > /etc/croft-test", &e), "but joined", "%s", croft_error(c));
	result(until(s, CROFT_EVENT_DENIED, &e) && e.denial && strstr(e.denial->target, "/etc/croft-test"),
		"who watches is told of a denial", "%s", croft_error(c));
	result(until(s, CROFT_EVENT_CHANGED, &e) && e.offset > 0, "and of the record", "%s", croft_error(c));
	result(croft_sessions(c, environment, &l) == 0 && l->n == 1 &&
			!strcmp(l->v[0].name, environment) && l->v[0].state == CROFT_SESSION_UP &&
			l->v[0].pid > 1 && l->v[0].processes_n == 4 &&
			l->v[0].processes[1].state == CROFT_PROCESS_RUNNING &&
			!strcmp(l->v[0].processes[1].label, "waits") &&
			!strcmp(l->v[0].processes[1].argv[0], "sleep"),
		"a list is data", "%s", croft_error(c));
	croft_sessions_free(l);
	croft_sandbox_close(s);
	croft_sandbox_close(other);
	result(croft_sandbox_open(c, environment, &s) == 1 && shell(s, "exit 4", &e) && e.exit == 4,
		"it stays when connections end", "%s", croft_error(c));
	croft_sandbox_close(s);
	result(croft_session_stop(c, environment, GRACE_MS) == 0 &&
			croft_sandbox_open(c, environment, &s) == 0,
		"until it is stopped", "%s", croft_error(c));
	croft_free(c);
}

int main(int argc, char **argv)
{
	if (argc != 4 || chdir(argv[2]) < 0)
		return 125;
	croft = argv[1];
	workspace = argv[2];
	environment = argv[3];
	result(!strcmp(croft_version(), CROFT_VERSION) && CROFT_VERSION_NUMBER > 0,
		"the version is the header's", "%s", croft_version());
	test_effects();
	test_thread_ends();
	test_short_lived();
	test_named();
	return failed;
}
