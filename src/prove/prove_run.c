/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prove: every probe in a sandbox of its own, against fresh bait, judged from both sides.
 *
 * Order:   per probe: start the lure -> fork a runner whose HOME, environment, keyring and
 * descriptors hold bait, and which plants what only this probe needs -> the runner executes the probe
 * in a sandbox (or, as control, plainly) -> ask the lure what it saw -> verdict -> let the lure clean
 * up. Failure: a probe that could not be run, crashed or said nothing is FAILED and counts like an
 * escape: what was not shown to hold is not held. One that croft refused to start is SKIPPED, unless
 * that very refusal is what the probe expects.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "os/uapi.h"
#include "prove/bait.h"

#define LURE_LINES_MAX 40
#define PROBE_TIMEOUT_MS 60000
#define TEXT_MAX (64u << 10)
#define LEAKED_FD 77
#define SET_MAX 8

struct prove {
	const struct prove_options *o;
	bool control;
	char exe[4096];
	char token[48];
	/* The lure of the probe that is running. */
	pid_t lure;
	int to, from;
	struct buf pending; /* read from the lure, not yet taken */
	struct strlist lines;
	char dir[256];
	unsigned count[PROBE_RESULT_NUM];
};

/* ---- the lure ---- */

static int read_line(struct prove *p, struct buf *ret)
{
	for (;;) {
		char *nl = p->pending.len ? memchr(p->pending.data, '\n', p->pending.len) : NULL;
		struct pollfd pfd = {.fd = p->from, .events = POLLIN};
		char chunk[4096];
		ssize_t n;

		if (nl) {
			size_t len = (size_t)(nl - p->pending.data),
			       rest = p->pending.len - len - 1;

			buf_reset(ret);
			buf_add(ret, p->pending.data, len);
			memmove(p->pending.data, nl + 1, rest);
			p->pending.len = rest;
			return 0;
		}
		if (poll(&pfd, 1, PROBE_TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
		n = read(p->from, chunk, sizeof(chunk));
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		buf_add(&p->pending, chunk, (size_t)n);
	}
}

static void lure_exec(const struct prove *p, int in, int out)
{
	const char *const argv[] = {p->exe, "probe", "--lure", NULL};
	char token[80], home[4200];
	const char *const envp[] = {token, home, NULL};

	snprintf(token, sizeof(token), "CROFT_BAIT_TOKEN=%s", p->token);
	snprintf(home, sizeof(home), "HOME=%s", getenv("HOME") ? getenv("HOME") : "/");
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0)
		_exit(125);
	execve(p->exe, (char *const *)argv, (char *const *)envp);
	_exit(125);
}

static int lure_start(struct prove *p, struct err *e)
{
	struct buf line = BUF_INIT(4096);
	int in[2], out[2], rc;

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe");
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return err_set(e, errno, "pipe");
	}
	p->lure = fork();
	if (p->lure == 0)
		lure_exec(p, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	p->to = in[1];
	p->from = out[0];
	buf_reset(&p->pending);
	p->lines = STRLIST_INIT(LURE_LINES_MAX);
	while ((rc = read_line(p, &line)) == 0 && !str_eq(buf_str(&line), "ready")) {
		if (str_starts(buf_str(&line), "bait="))
			snprintf(p->dir, sizeof(p->dir), "%s", buf_str(&line) + 5);
		if (!strlist_add(&p->lines, buf_str(&line))) {
			rc = -E2BIG;
			break;
		}
	}
	buf_done(&line);
	return rc < 0 ? err_set(e, -rc, "start the bait keeper %s probe --lure", p->exe) : 0;
}

/* What was touched or changed: "" when nothing. */
static int lure_ask(struct prove *p, struct buf *ret)
{
	struct buf line = BUF_INIT(4096);
	int rc = write(p->to, "?\n", 2) == 2 ? 0 : -EPIPE;

	while (rc == 0 && (rc = read_line(p, &line)) == 0 && !str_eq(buf_str(&line), ".")) {
		if (ret->len)
			buf_adds(ret, ", ");
		buf_adds(ret, buf_str(&line));
	}
	buf_done(&line);
	return rc;
}

static void lure_stop(struct prove *p)
{
	close_fd(&p->to);
	/* Read to its end, so that it never waits for us. */
	for (char c[256]; p->from >= 0 && read(p->from, c, sizeof(c)) > 0;)
		;
	close_fd(&p->from);
	while (p->lure > 0 && waitpid(p->lure, NULL, 0) < 0 && errno == EINTR)
		;
	p->lure = -1;
	strlist_done(&p->lines);
	buf_reset(&p->pending);
}

/* ---- the runner ---- */

enum { KEYCTL_JOIN = 1, KEYCTL_SETPERM = 5, KEY_SESSION = -3 };

/* A key that the session holds and the user may read; its serial number, or -1. */
static long lay_key(const struct prove *p)
{
	long key;

	if (syscall(SYS_keyctl, KEYCTL_JOIN, NULL, 0, 0, 0) < 0)
		return -1;
	key = syscall(SYS_add_key, "user", "croft-bait", p->token, strlen(p->token), KEY_SESSION);
	if (key >= 0)
		syscall(SYS_keyctl, KEYCTL_SETPERM, key, 0x3f3f0000L, 0, 0);
	return key;
}

static void lay_environment(const struct prove *p)
{
	static const char *const gone[] = {
		"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS", "CROFT_POLICY"};
	char path[512];
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		unsetenv(gone[i]);
	snprintf(path, sizeof(path), "%s/home", p->dir);
	setenv("HOME", path, 1);
	snprintf(path, sizeof(path), "%s/run", p->dir);
	setenv("XDG_RUNTIME_DIR", path, 1);
	snprintf(path, sizeof(path), "%s/state", p->dir);
	setenv("XDG_STATE_HOME", path, 1);
	/* Environments that are copies: not in HOME, which is watched. */
	snprintf(path, sizeof(path), "%s/data", p->dir);
	setenv("XDG_DATA_HOME", path, 1);
	snprintf(path, sizeof(path), "%s/run/agent.sock", p->dir);
	setenv("SSH_AUTH_SOCK", path, 1);
	setenv("CROFT_BAIT_SECRET", p->token, 1);
	setenv("AWS_SECRET_ACCESS_KEY", p->token, 1);
	/* A directory handle left open by mistake, inherited by whatever is executed. */
	snprintf(path, sizeof(path), "%s/outside", p->dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		dup2(fd, LEAKED_FD);
		close(fd);
	}
}

static size_t absolute(const struct prove *p, struct strlist *l, const char *const *relative)
{
	char path[512];

	for (size_t i = 0; relative[i]; i++) {
		snprintf(path, sizeof(path), "%s/%s", p->dir, relative[i]);
		strlist_add(l, path);
	}
	return l->n;
}

static bool terminate(struct strlist *l, const char *ret[], size_t max)
{
	if (l->n >= max)
		return false;
	for (size_t i = 0; i < l->n; i++)
		ret[i] = l->v[i];
	ret[l->n] = NULL;
	return true;
}

/* In a process of its own; never returns. */
static void runner(struct prove *p, const struct probe *probe, bool inner, int out, int why_fd)
{
	const char *argv[LURE_LINES_MAX + 16], *read_list[8], *deny[16], *set[SET_MAX];
	const char *write_list[2] = {NULL};
	struct strlist args = STRLIST_INIT(LURE_LINES_MAX + 8), rd = STRLIST_INIT(7),
		       dn = STRLIST_INIT(15);
	char text[4200], work[512], write_path[512], why[1024] = "";
	struct prove_cell cell;
	size_t sets = 0;
	int rc, given = -1;

	lay_environment(p);
	snprintf(work, sizeof(work), "%s/work", p->dir);
	strlist_add(&args, p->exe);
	strlist_add(&args, "probe");
	strlist_add(&args, probe->name);
	snprintf(text, sizeof(text), "token=%s", p->token);
	strlist_add(&args, text);
	snprintf(text, sizeof(text), "tier=%s", p->o->tier);
	strlist_add(&args, text);
	snprintf(text, sizeof(text), "exe=%s", p->exe);
	strlist_add(&args, text);
	snprintf(text, sizeof(text), "key=%ld", lay_key(p));
	strlist_add(&args, text);
	for (size_t i = 0; i < p->lines.n; i++)
		strlist_add(&args, p->lines.v[i]);
	strlist_add(&rd, p->exe);
	if (inner) {
		absolute(p, &rd, bait_readonly);
		absolute(p, &dn, bait_denied);
	}
	for (; sets < ARRAY_SIZE(probe->set) && probe->set[sets]; sets++)
		set[sets] = probe->set[sets];
	set[sets] = NULL;
	if (chdir(work) < 0 || !terminate(&args, argv, ARRAY_SIZE(argv)) ||
		!terminate(&rd, read_list, ARRAY_SIZE(read_list)) ||
		!terminate(&dn, deny, ARRAY_SIZE(deny)))
		_exit(125);
	if (probe->given) {
		snprintf(text, sizeof(text), "%s/%s", p->dir, probe->given);
		given = open(text, O_RDONLY | O_CLOEXEC);
		if (given < 0)
			_exit(125);
	}
	if (probe->write) {
		snprintf(write_path, sizeof(write_path), "%s/%s", p->dir, probe->write);
		write_list[0] = write_path;
	}
	if (probe->plant && probe->plant(p->dir) < 0)
		_exit(125);
	if (p->control) {
		if (given >= 0)
			dup2(given, STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		execv(p->exe, (char *const *)argv);
		_exit(125);
	}
	cell = (struct prove_cell){.workspace = work,
		.tier = p->o->tier,
		.argv = argv,
		.read = read_list,
		.write = write_list,
		.deny = deny,
		.set = set,
		.place = probe->place,
		.stdin_fd = given,
		.stdout_fd = out};
	rc = p->o->execute(p->o->arg, &cell, why, sizeof(why));
	(void)!write(why_fd, why, strlen(why));
	_exit(rc);
}

/* Run and collect both outputs; returns the wait status or -1. */
static int run_probe(
	struct prove *p, const struct probe *probe, bool inner, struct buf *out, struct buf *why)
{
	struct buf *to[2] = {out, why};
	int a[2], b[2], status = -1;
	struct pollfd fds[2];
	pid_t pid;

	if (pipe2(a, O_CLOEXEC) < 0)
		return -1;
	if (pipe2(b, O_CLOEXEC) < 0) {
		close(a[0]);
		close(a[1]);
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		close_fd(&p->to);
		close_fd(&p->from);
		runner(p, probe, inner, a[1], b[1]);
	}
	close(a[1]);
	close(b[1]);
	fds[0] = (struct pollfd){.fd = a[0], .events = POLLIN};
	fds[1] = (struct pollfd){.fd = b[0], .events = POLLIN};
	while (pid > 0 && (fds[0].fd >= 0 || fds[1].fd >= 0)) {
		if (poll(fds, 2, PROBE_TIMEOUT_MS) <= 0) {
			kill(pid, SIGKILL);
			break;
		}
		for (int i = 0; i < 2; i++) {
			char chunk[4096];
			ssize_t n;

			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			n = read(fds[i].fd, chunk, sizeof(chunk));
			if (n > 0)
				buf_add(to[i], chunk, (size_t)n);
			else
				close_fd(&fds[i].fd);
		}
	}
	close_fd(&fds[0].fd);
	close_fd(&fds[1].fd);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 ? status : -1;
}

/* ---- the verdict ---- */

/* What the probe said of itself. */
static enum probe_result inside_result(int status, const struct probe *probe, struct buf *out,
	const struct buf *why, struct buf *detail)
{
	static const int exits[] = {PROBE_EXIT_HELD, PROBE_EXIT_ESCAPED, PROBE_EXIT_SKIPPED};
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

	for (int r = PROBE_HELD; r <= PROBE_SKIPPED; r++) {
		size_t n = strlen(probe_result_names[r]);
		const char *text = buf_str(out);

		if (code != exits[r] || !str_starts(text, probe_result_names[r]))
			continue;
		text += n + (text[n] == ' ');
		str_show(detail, text, strcspn(text, "\n"));
		if (r == PROBE_ESCAPED && probe->limit && strstr(buf_str(why), probe->limit)) {
			buf_adds(detail, "; the receipt says that this limit cannot be held here");
			return PROBE_SKIPPED;
		}
		return (enum probe_result)r;
	}
	if (code == 126) {
		buf_addf(detail, "refused to run: %s", buf_str(why));
		return probe->refusal && strstr(buf_str(why), probe->refusal) ? PROBE_HELD
									      : PROBE_SKIPPED;
	}
	/* Environments need git: where there is none, there is nothing to attack. */
	if (probe->place == PLACE_ENVIRONMENT && strstr(buf_str(why), "there is no git")) {
		buf_adds(detail, "git is not installed");
		return PROBE_SKIPPED;
	}
	/* Out of memory the kernel may choose the probe itself. */
	if (code == 128 + SIGKILL && str_eq(probe->id, "R2")) {
		buf_adds(detail, "killed by the limit");
		return PROBE_HELD;
	}
	buf_addf(detail, "ended with %d%s%s", code, why->len ? ": " : "", buf_str(why));
	return PROBE_FAILED;
}

static enum probe_result judge(const struct prove *p, const struct probe *probe,
	enum probe_result inside, const struct buf *touched, struct buf *detail)
{
	if (inside == PROBE_FAILED)
		return inside;
	if (p->control) {
		if (inside != PROBE_ESCAPED || !probe->outside || touched->len)
			return inside;
		buf_adds(detail, "; but nothing outside was changed");
		return PROBE_HELD;
	}
	if (touched->len) {
		buf_adds(detail, "; seen outside: ");
		str_show(detail, touched->data, touched->len);
		return PROBE_ESCAPED;
	}
	if (inside == PROBE_ESCAPED && probe->outside) {
		buf_reset(detail);
		buf_adds(detail, "nothing outside was changed");
		return PROBE_HELD;
	}
	return inside;
}

static int prove_once(struct prove *p, const struct probe *probe, bool inner,
	enum probe_result *ret, struct buf *detail, struct err *e)
{
	struct buf out = BUF_INIT(TEXT_MAX), why = BUF_INIT(TEXT_MAX), touched = BUF_INIT(TEXT_MAX);
	int status, rc;

	rc = lure_start(p, e);
	if (rc == 0) {
		status = run_probe(p, probe, inner, &out, &why);
		*ret = inside_result(status, probe, &out, &why, detail);
		if (lure_ask(p, &touched) < 0) {
			/* The keeper is gone: an attack reached it. */
			buf_adds(detail, "; the bait keeper died");
			*ret = PROBE_ESCAPED;
		} else {
			*ret = judge(p, probe, *ret, &touched, detail);
		}
	}
	lure_stop(p);
	buf_done(&out);
	buf_done(&why);
	buf_done(&touched);
	return rc;
}

/* Under each policy that the probe is meant for, until one fails to hold. */
static int prove_one(struct prove *p, const struct probe *probe, enum probe_result *ret,
	struct buf *detail, struct err *e)
{
	int rc = 0;

	*ret = PROBE_HELD;
	for (int inner = 0; inner < 2 && rc == 0 && *ret != PROBE_ESCAPED && *ret != PROBE_FAILED;
		inner++) {
		if (probe->rules != (inner ? RULES_INNER : RULES_DEFAULT) &&
			probe->rules != RULES_EITHER)
			continue;
		if (p->control && inner && probe->rules == RULES_EITHER)
			continue;
		buf_reset(detail);
		rc = prove_once(p, probe, inner, ret, detail, e);
	}
	return rc;
}

/* ---- the report ---- */

static bool selected(const char *only, const struct probe *probe)
{
	while (only && *only) {
		size_t n = strcspn(only, ",");
		char word[64];

		if (n < sizeof(word)) {
			memcpy(word, only, n);
			word[n] = '\0';
			if (str_eq(word, probe->id) || str_wild(word, probe->name))
				return true;
		}
		only += n + (only[n] == ',');
		if (!*only)
			return false;
	}
	return true;
}

static void report_end(struct prove *p, struct buf *out, struct json *j)
{
	static const char *const keys[] = {"held", "escaped", "skipped", "failed"};

	if (p->o->json) {
		json_end(j);
		for (int r = 0; r < PROBE_RESULT_NUM; r++)
			json_uint(j, keys[r], p->count[r]);
		json_end(j);
		buf_addc(out, '\n');
		return;
	}
	buf_addf(out, "%s%s: %u held, %u escaped, %u skipped, %u failed\n",
		p->control ? "controls without a sandbox" : p->o->tier, p->control ? "" : " tier",
		p->count[PROBE_HELD], p->count[PROBE_ESCAPED], p->count[PROBE_SKIPPED],
		p->count[PROBE_FAILED]);
}

static void report_one(struct prove *p, struct buf *out, struct json *j, const struct probe *probe,
	enum probe_result r, const struct buf *detail)
{
	if (!p->o->json) {
		buf_addf(out, "%-8s %-20s %s\n%-29s %s\n", probe_result_names[r], probe->name,
			probe->what, "", buf_str(detail));
		return;
	}
	json_object(j, NULL);
	json_str(j, "id", probe->id);
	json_str(j, "name", probe->name);
	json_str(j, "what", probe->what);
	json_str(j, "result", probe_result_names[r]);
	json_strn(j, "detail", buf_str(detail), detail->len);
	json_end(j);
}

static int prove_init(struct prove *p, const struct prove_options *o, struct err *e)
{
	unsigned char raw[16];
	ssize_t n;

	*p = (struct prove){
		.o = o, .lure = -1, .to = -1, .from = -1, .pending = BUF_INIT(TEXT_MAX)};
	p->control = str_eq(o->tier, "none");
	n = readlink("/proc/self/exe", p->exe, sizeof(p->exe) - 1);
	if (n < 0)
		return err_set(e, errno, "read /proc/self/exe");
	p->exe[n] = '\0';
	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return err_set(e, errno, "getrandom");
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(p->token + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

int prove_run(const struct prove_options *o, struct buf *out, struct err *e)
{
	static const unsigned tier_bits[] = {PROBE_PROCESS, PROBE_NAMESPACE};
	unsigned bit = str_eq(o->tier, "process") ? tier_bits[0] : tier_bits[1];
	struct buf detail = BUF_INIT(PROBE_DETAIL_MAX * 4);
	struct prove p;
	struct json j;
	bool any = false;
	int rc = prove_init(&p, o, e);

	if (rc < 0)
		return rc;
	json_init(&j, out, true);
	if (o->json) {
		json_object(&j, NULL);
		json_str(&j, "tier", o->tier);
		json_bool(&j, "control", p.control);
		json_array(&j, "probes");
	}
	for (size_t f = 0; rc == 0 && probe_families[f]->n; f++) {
		for (size_t i = 0; rc == 0 && i < probe_families[f]->n; i++) {
			const struct probe *probe = &probe_families[f]->v[i];
			enum probe_result r = PROBE_FAILED;

			if (!selected(o->only, probe) || (!p.control && !(probe->tiers & bit)))
				continue;
			any = true;
			buf_reset(&detail);
			rc = prove_one(&p, probe, &r, &detail, e);
			p.count[r]++;
			report_one(&p, out, &j, probe, r, &detail);
		}
	}
	report_end(&p, out, &j);
	buf_done(&detail);
	buf_done(&p.pending);
	if (rc < 0)
		return rc;
	if (!any)
		return err_invalid(
			e, "no probe is named \"%s\"; croft prove --list names them", o->only);
	if (out->failed)
		return err_set(e, ENOMEM, "write the report");
	return (int)(p.control ? p.count[PROBE_HELD] + p.count[PROBE_FAILED]
			       : p.count[PROBE_ESCAPED] + p.count[PROBE_FAILED]);
}
