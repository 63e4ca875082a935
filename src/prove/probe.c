/* SPDX-License-Identifier: Apache-2.0 */
/* What every probe uses: its arguments, the count of its attempts, children, and the entry point.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define PATHS 24
#define TALLY_TEXT_MAX 1024

const char *const probe_result_names[] = {"HELD", "ESCAPED", "SKIPPED", "FAILED"};
_Static_assert(ARRAY_SIZE(probe_result_names) == PROBE_RESULT_NUM, "one name per result");

static const struct probe_family probes_end;
const struct probe_family *const probe_families[] = {
	&probes_files,
	&probes_race,
	&probes_meta,
	&probes_proc,
	&probes_ipc,
	&probes_kernel,
	&probes_privilege,
	&probes_resources,
	&probes_names,
	&probes_repository,
	&probes_agents,
	&probes_end,
};

const struct probe *probe_find(const char *name)
{
	for (size_t f = 0; probe_families[f]->n; f++)
		for (size_t i = 0; i < probe_families[f]->n; i++)
			if (str_eq(probe_families[f]->v[i].name, name))
				return &probe_families[f]->v[i];
	return NULL;
}

const char *probe_arg(const struct probe_args *a, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < a->n; i++)
		if (strncmp(a->kv[i], key, n) == 0 && a->kv[i][n] == '=')
			return a->kv[i] + n + 1;
	return "";
}

long probe_num(const struct probe_args *a, const char *key)
{
	uint64_t v;

	return str_u64(probe_arg(a, key), INT32_MAX, &v) ? (long)v : -1;
}

const char *probe_path(const struct probe_args *a, const char *relative)
{
	static char ring[PATHS][4096];
	static unsigned next;
	char *p = ring[next++ % PATHS];

	snprintf(p, sizeof(ring[0]), "%s/%s", probe_arg(a, "bait"), relative);
	return p;
}

int probe_read_token(const struct probe_args *a, int fd)
{
	char text[8192];
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text));
	if (n < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	close(fd);
	if (*a->token && memmem(text, (size_t)n, a->token, strlen(a->token)))
		return 0;
	errno = ENODATA;
	return -1;
}

struct probe_tally tally_start(const struct probe_args *a, struct buf *detail)
{
	return (struct probe_tally){
		.a = a,
		.detail = detail,
		.lost_names = BUF_INIT(TALLY_TEXT_MAX),
		.won_names = BUF_INIT(TALLY_TEXT_MAX),
	};
}

/* The kernel or the filesystem does not have the thing at all. */
static bool is_absent(int errnum)
{
	return errnum == ENOSYS || errnum == EOPNOTSUPP || errnum == EAFNOSUPPORT ||
	       errnum == EPROTONOSUPPORT || errnum == ESOCKTNOSUPPORT || errnum == ENOTTY;
}

static bool is_refusal(int errnum)
{
	return errnum == EPERM || errnum == EACCES || errnum == ENOSYS;
}

__attribute__((format(printf, 5, 0))) static void tally_count(
	struct probe_tally *t, bool won, int errnum, bool root, const char *fmt, va_list ap)
{
	struct buf *names = won ? &t->won_names : &t->lost_names;

	if (!won && t->a->control &&
		(is_absent(errnum) || (root && geteuid() != 0 && is_refusal(errnum)))) {
		t->na++;
		return;
	}
	if (names->len)
		buf_adds(names, ", ");
	buf_addv(names, fmt, ap);
	if (won) {
		t->won++;
		return;
	}
	t->lost++;
	t->last_errno = errnum;
	buf_addf(names, " (%s)", errnum == PROBE_KILLED ? "killed" : strerror(errnum));
}

void tally_try(struct probe_tally *t, long rc, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	tally_count(t, rc >= 0, saved, false, fmt, ap);
	va_end(ap);
}

void tally_root(struct probe_tally *t, long rc, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	tally_count(t, rc >= 0, saved, true, fmt, ap);
	va_end(ap);
}

void tally_reach(struct probe_tally *t, bool root, long rc, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	tally_count(t, rc >= 0 || !is_refusal(saved), saved, root, fmt, ap);
	va_end(ap);
}

void tally_na(struct probe_tally *t)
{
	t->na++;
}

enum probe_result tally_end(struct probe_tally *t)
{
	enum probe_result r;

	if (t->a->control) {
		/* Without a sandbox each attempt has to get through, or it cannot show anything. */
		r = t->lost ? PROBE_HELD : t->won ? PROBE_ESCAPED : PROBE_SKIPPED;
		if (t->lost)
			buf_addf(t->detail, "did not get through: %s", buf_str(&t->lost_names));
		else if (t->won)
			buf_addf(t->detail, "%u got through, %u not applicable", t->won, t->na);
		else
			buf_adds(t->detail,
				"needs a privilege or a kernel feature that is not here");
	} else {
		r = t->won ? PROBE_ESCAPED : t->lost ? PROBE_HELD : PROBE_SKIPPED;
		if (t->won)
			buf_addf(t->detail, "got through: %s", buf_str(&t->won_names));
		else if (t->lost == 1)
			buf_adds(t->detail, buf_str(&t->lost_names));
		else if (t->lost)
			buf_addf(t->detail, "%u refused, last: %s", t->lost,
				strerror(t->last_errno));
		else
			buf_adds(t->detail, "nothing to try here");
	}
	buf_done(&t->lost_names);
	buf_done(&t->won_names);
	return r;
}

enum probe_result probe_skip(struct buf *detail, const char *why)
{
	buf_adds(detail, why);
	return PROBE_SKIPPED;
}

long probe_in_child(long (*fn)(void *arg), void *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid == 0) {
		long rc = fn(arg);

		_exit(rc >= 0 ? 0 : errno > 0 && errno < 255 ? errno : 255);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (WIFSIGNALED(status)) {
		errno = WTERMSIG(status) == SIGSYS ? EPERM : PROBE_KILLED;
		return -1;
	}
	errno = WEXITSTATUS(status);
	return errno == 0 ? 0 : -1;
}

int probe_spawn(const char *const *argv, int exec_fd, char *ret_out, size_t n)
{
	int status = 0, pipefd[2];
	size_t len = 0;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(pipefd[1], STDOUT_FILENO);
		if (null >= 0)
			dup2(null, STDERR_FILENO);
		if (exec_fd >= 0)
			fexecve(exec_fd, (char *const *)argv, environ);
		else
			execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(pipefd[1]);
	while (pid > 0 && len + 1 < n) {
		ssize_t got = read(pipefd[0], ret_out + len, n - 1 - len);

		if (got <= 0 && !(got < 0 && errno == EINTR))
			break;
		len += got > 0 ? (size_t)got : 0;
	}
	ret_out[len] = '\0';
	close(pipefd[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int args_parse(struct probe_args *ret, int argc, char **argv)
{
	*ret = (struct probe_args){0};
	if (argc > PROBE_ARGS_MAX)
		return -1;
	for (int i = 0; i < argc; i++) {
		if (!strchr(argv[i], '='))
			return -1;
		ret->kv[ret->n++] = argv[i];
	}
	ret->control = str_eq(probe_arg(ret, "tier"), "none");
	ret->namespaced = str_eq(probe_arg(ret, "tier"), "namespace");
	ret->token = probe_arg(ret, "token");
	return 0;
}

static int list_probes(void)
{
	for (size_t f = 0; probe_families[f]->n; f++)
		for (size_t i = 0; i < probe_families[f]->n; i++) {
			const struct probe *p = &probe_families[f]->v[i];

			printf("%-4s %-26s %s\n", p->id, p->name, p->what);
		}
	return 0;
}

/* Who we are: printed by copies that were planted with privilege (K8). */
static int print_ids(void)
{
	cleanup_file FILE *f = fopen("/proc/self/status", "re");
	unsigned long long caps = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (str_starts(line, "CapEff:"))
			caps = strtoull(line + strlen("CapEff:"), NULL, 16);
	printf("%u %llx\n", (unsigned)geteuid(), caps);
	return 0;
}

/* Prints "RESULT detail": read by prove_run and by the tests. */
int probe_main(int argc, char **argv)
{
	static const int exits[] = {PROBE_EXIT_HELD, PROBE_EXIT_ESCAPED, PROBE_EXIT_SKIPPED, 125};
	struct buf detail = BUF_INIT(PROBE_DETAIL_MAX);
	struct buf shown = BUF_INIT(4 * PROBE_DETAIL_MAX);
	struct probe_args args;
	const struct probe *p;
	enum probe_result r;

	if (argc >= 2 && str_eq(argv[1], "--lure"))
		return lure_main();
	if (argc >= 2 && str_eq(argv[1], "--list"))
		return list_probes();
	if (argc >= 2 && str_eq(argv[1], "--ids"))
		return print_ids();
	p = argc >= 2 ? probe_find(argv[1]) : NULL;
	if (!p || args_parse(&args, argc - 2, argv + 2) < 0) {
		fprintf(stderr, "usage: croft probe NAME KEY=VALUE... (see croft probe --list)\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	r = p->run(&args, &detail);
	str_show(&shown, buf_str(&detail), detail.len);
	printf("%s %s\n", probe_result_names[r], buf_str(&shown));
	fflush(stdout);
	buf_done(&detail);
	buf_done(&shown);
	return exits[r];
}
