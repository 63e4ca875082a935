/* SPDX-License-Identifier: Apache-2.0 */
/* croft up, down, ps, logs, attach, kill, port, pause, resume: sandboxes that stay up. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/join.h"
#include "croft_run.h"

#define STARTER_FD 3
#define DOWN_MS 5000

static const char help_up[] =
	"usage: croft up [OPTIONS] NAME\n"
	"\n"
	"Starts the sandbox of environment NAME and keeps it: any number of commands can then\n"
	"run in it at once (croft exec, croft shell) and share its HOME, its /tmp and its\n"
	"network, until croft down NAME. Options come on top of those of croft new; when it is up\n"
	"already, they must be those that it has.\n"
	"\n"
	"  --linger TIME        end it when nothing has run and nobody was connected for so long\n"
	"  --lifetime TIME      end it after so long in any case\n"
	"  --pause-idle TIME    stop its processes when nobody was connected for so long; the next\n"
	"                       command or connection to a published port wakes them\n"
	"  --allow-degraded     start although a protection cannot be had here; recorded\n"
	"  --json               the session as croft ps --json NAME shows it\n"
	"  -q, --quiet          say nothing when it is up\n";

static const char help_down[] =
	"usage: croft down [--now] [--json] [-q] NAME…\n"
	"\n"
	"Ends the sandbox of each environment: its processes get SIGTERM, and SIGKILL after five\n"
	"seconds (with --now at once). What they wrote stays staged; croft exec works as before.\n"
	"With --json one object for each.\n";

static const char help_ps[] =
	"usage: croft ps [--json] [NAME]\n"
	"\n"
	"What runs in the session of NAME, and what has run, with limits of its own; without NAME\n"
	"in all that are up.\n";

static const char help_logs[] =
	"usage: croft logs [-f] [--from BYTE] NAME [ID]\n"
	"\n"
	"What a process of a session has written; without ID that of the newest. The last\n"
	"megabyte of each is kept while the session is up; the evidence keeps its own.\n"
	"\n"
	"  -f, --follow         go on until it ends\n"
	"  --from BYTE          from this byte of its output on\n";

static const char help_attach[] =
	"usage: croft attach NAME [ID]\n"
	"\n"
	"Connects your terminal to a process of a session; without ID to the newest. Ctrl-P ctrl-Q\n"
	"lets go of it again; ctrl-C and other keys are for the process. From one that has no\n"
	"terminal of its own ctrl-C lets go.\n";

static const char help_kill[] =
	"usage: croft kill [-s SIGNAL | -SIGNAL] NAME ID…\n"
	"\n"
	"Sends SIGTERM, or SIGNAL, to every process that the command started.\n";

static const char help_port[] =
	"usage: croft port [--json] [--rm] NAME [HOSTPORT:]PORT\n"
	"\n"
	"Shows port PORT of the sandbox on this machine's loopback, at port HOSTPORT or the same\n"
	"number (0: any that is free), and prints where. It stays until croft down, or --rm.\n";

static const char help_pause[] = "usage: croft pause NAME\n\n"
				 "Stops every process of a session until croft resume NAME.\n";
static const char help_resume[] = "usage: croft resume NAME\n\n"
				  "Lets the processes of a paused session go on.\n";

/* ---- up, and the process that it makes ---- */

struct up {
	struct common common;
	const char *linger, *lifetime, *idle;
	bool read_only; /* what croft new may have kept for exec */
	bool json;      /* of croft up itself */
};

static int up_opts(struct up *u, struct opt *opts)
{
	const struct opt extra[] = {{"linger", 0, OPT_VALUE, &u->linger},
		{"lifetime", 0, OPT_VALUE, &u->lifetime}, {"pause-idle", 0, OPT_VALUE, &u->idle},
		{"stay", 0, OPT_FLAG, &u->common.stay}};

	return common_opts(&u->common, opts, extra, 4);
}

static int time_of(const char *cmd, const char *name, const char *text, unsigned long long *ret)
{
	if (!text || cli_duration(text, ret) == 0)
		return 0;
	return cli_usage(cmd, "--%s takes a time such as 90s, 10m or 2h", name);
}

static int times_of(const char *cmd, const struct up *u, struct croft_sandbox_options *o)
{
	return time_of(cmd, "linger", u->linger, &o->linger_ms) ||
	       time_of(cmd, "lifetime", u->lifetime, &o->lifetime_ms) ||
	       time_of(cmd, "pause-idle", u->idle, &o->idle_ms);
}

static int list(struct croft *c, const char *name, enum croft_format f)
{
	char *text = NULL;
	int code = croft_session_list(c, name, f, &text) < 0 ? cli_fail(c) : cli_print(text);

	free(text);
	return code;
}

/* What it found when it came up, such as a session before it that was cut off. */
static void tell_notes(struct croft *c, const char *name)
{
	struct croft_sessions *s;

	if (croft_sessions(c, name, &s) < 0)
		return;
	for (const char *const *note = s->v[0].notes; *note; note++)
		fprintf(stderr, "croft: %s\n", *note);
	croft_sessions_free(s);
}

/* Options for one that is up already are those that it has: none is dropped in silence. */
static int up_as_asked(
	struct croft *c, const char *name, const struct up *u, const struct croft_sandbox_options *o)
{
	struct croft_sessions *s;
	int code = join_check_up(c, name, &u->common);
	bool differs;

	if (code || (!u->linger && !u->lifetime && !u->idle))
		return code;
	if (croft_sessions(c, name, &s) < 0)
		return cli_fail(c);
	differs = (u->linger && o->linger_ms != s->v[0].linger_ms) ||
		  (u->lifetime && o->lifetime_ms != s->v[0].lifetime_ms) ||
		  (u->idle && o->idle_ms != s->v[0].idle_ms);
	croft_sessions_free(s);
	if (!differs)
		return 0;
	fprintf(stderr,
		"croft: %s is up with other times than these options ask for; leave them out, or end it "
		"first: croft down %s\n",
		name, name);
	return CROFT_EXIT_REFUSED;
}

int cmd_up(int argc, char **argv)
{
	static struct up u;
	struct opt opts[COMMON_OPTS_MAX];
	struct croft_sandbox_options o = {0}, asked;
	static const char *const own[] = {"json", NULL};
	int i, n = up_opts(&u, opts), code;
	struct croft *c;
	char **given;

	for (int j = 0; j < n; j++)
		if (!strcmp(opts[j].name, "json"))
			opts[j] = (struct opt){"json", 0, OPT_FLAG, &u.json};
	given = common_words(argc, argv, opts, n, own);
	i = opt_parse_words("up", argc, argv, opts, n);
	if (!given || i < 0)
		return CROFT_EXIT_FAILED;
	if (u.common.help) {
		printf("%s%s", help_up, common_help);
		return 0;
	}
	if (i != argc - 1)
		return cli_usage("up", i >= argc ? "no environment given" : "one environment, please");
	if (u.common.direct || u.common.discard)
		return cli_usage("up", "an environment is always staged");
	if (times_of("up", &u, &o) != 0)
		return CROFT_EXIT_FAILED;
	asked = o;
	o = (struct croft_sandbox_options){0}; /* they are among the words */
	o.args = (const char *const *)given;
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = croft_session_start(c, argv[i], &o);
	if (code == -EALREADY) {
		char said[512];

		snprintf(said, sizeof(said), "%s", croft_error(c));
		code = up_as_asked(c, argv[i], &u, &asked);
		if (code == 0)
			fprintf(stderr, "croft: %s\n", said);
	} else if (code < 0) {
		code = cli_fail(c);
	} else if (!u.common.quiet && !u.json) {
		printf("%s is up; run in it with croft exec %s -- CMD, end it with croft down %s\n",
			argv[i], argv[i], argv[i]);
	}
	if (code == 0 && !u.common.quiet)
		tell_notes(c, argv[i]);
	if (code == 0 && u.json)
		code = list(c, argv[i], CROFT_JSON);
	free(given);
	croft_free(c);
	return code;
}

/* Options of croft up that do not decide about the boundary, or about one process each. */
static const char *const up_own[] = {"linger", "lifetime", "pause-idle", "workspace", "stay", "quiet",
	"verbose", "json", "help", "allow-degraded", "env", "timeout", NULL};
/* Without a name: an environment is made, which keeps all of them. */
static const char *const made_own[] = {"linger", "lifetime", "pause-idle", "workspace", "stay", "quiet",
	"verbose", "json", "help", NULL};

/* As croft new was told, then as croft_sandbox_start() was: words has the options after the name. */
static int session(struct croft *c, const char *name, int words_n, char **words, unsigned flags)
{
	static struct up u;
	static struct common_storage st;
	struct opt opts[COMMON_OPTS_MAX];
	struct croft_sandbox_options o = {.flags = flags};
	struct croft_policy_options po;
	struct croft_policy *p = NULL;
	char **args = NULL, *dir = NULL, **full;
	int n = 1, r;

	if (name && croft_env_args(c, name, &dir, &args) < 0)
		return -1;
	while (args && args[n - 1])
		n++;
	full = calloc((size_t)(n + words_n) + 1, sizeof(*full));
	if (!full)
		return -1;
	full[0] = words[-1];
	if (n > 1)
		memcpy(full + 1, args, (size_t)(n - 1) * sizeof(*full));
	memcpy(full + n, words, (size_t)words_n * sizeof(*full));
	o.args = (const char *const *)common_words(words_n + 1, full + n - 1, opts, up_opts(&u, opts),
		name ? up_own : made_own);
	if (!o.args || opt_parse("session", n + words_n, full, opts, up_opts(&u, opts)) != n + words_n ||
		times_of("session", &u, &o) != 0)
		return -1;
	if (dir)
		u.common.workspace = dir;
	if (u.common.allow_degraded)
		o.flags |= CROFT_SANDBOX_ALLOW_DEGRADED;
	if (common_policy("session", &u.common, &st, &po) < 0)
		return -1;
	r = croft_policy_load(c, &po, &p);
	if (r == 0 && chdir("/") < 0)
		r = -1;
	if (r < 0)
		return -1;
	croft_session_serve(c, name, p, &o, STARTER_FD); /* says itself how it went */
	croft_policy_free(p);
	return 0;
}

/*
 * croft session FLAGS NAME OPTIONS…, executed by croft_sandbox_start(): descriptor 3 is the starter's
 * connection. It belongs to no terminal and to no parent, and has nothing that the starter left open.
 */
int cmd_session(int argc, char **argv)
{
	struct croft *c;

	if (argc < 3 || fcntl(STARTER_FD, F_GETFD) < 0) {
		fputs("croft: session is the process of croft up, which starts it\n", stderr);
		return CROFT_EXIT_FAILED;
	}
	syscall(SYS_close_range, STARTER_FD + 1, ~0u, 0);
	fcntl(STARTER_FD, F_SETFD, FD_CLOEXEC);
	croft_end_with(0);
	signal(SIGHUP, SIG_IGN);
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	if (session(c, strcmp(argv[2], "-") ? argv[2] : NULL, argc - 3, argv + 3,
		    (unsigned)strtoul(argv[1], NULL, 10)) < 0)
		croft_session_refuse(c, STARTER_FD);
	croft_free(c);
	return 0;
}

/* ---- what is asked of one that is up ---- */

int cmd_down(int argc, char **argv)
{
	bool now = false, quiet = false, json = false, help = false;
	const struct opt opts[] = {{"now", 0, OPT_FLAG, &now}, {"quiet", 'q', OPT_FLAG, &quiet},
		{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("down", argc, argv, opts, 4), code = 0;
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(help_down);
	if (i >= argc)
		return cli_usage("down", "no environment given");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	for (; i < argc; i++) {
		char *left = NULL;

		if (croft_session_end(c, argv[i], now ? 0 : DOWN_MS, &left) < 0)
			code = cli_fail(c);
		else if (json) /* a name needs no escape */
			printf("{\"schema\": \"croft.down/v1\", \"name\": \"%s\", \"state\": \"down\"}\n",
				argv[i]);
		else if (!quiet)
			printf("%s is down; what was written in it is staged\n", argv[i]);
		if (left)
			fprintf(stderr, "croft: what %s left on this machine:\n%s", argv[i], left);
		free(left);
	}
	croft_free(c);
	return code;
}

int cmd_ps(int argc, char **argv)
{
	bool json = false, help = false;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("ps", argc, argv, opts, 2), code;
	enum croft_format f = json ? CROFT_JSON : CROFT_TEXT;
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(help_ps);
	if (i + 1 < argc)
		return cli_usage("ps", "one environment, or none for all");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = list(c, i < argc ? argv[i] : NULL, f);
	croft_free(c);
	return code;
}

static int number(const char *cmd, const char *what, const char *text, unsigned long long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (end == text || *end || text[0] == '-' || errno)
		return cli_usage(cmd, "%s is a number, not \"%.40s\"", what, text);
	return 0;
}

/* The newest, when none is named (*ret is 0). *ret_plain: it has no terminal. */
static int find(struct croft *c, const char *name, unsigned long long *ret, bool *ret_plain)
{
	struct croft_sessions *s;

	if (croft_sessions(c, name, &s) < 0)
		return cli_fail(c);
	if (!*ret && s->v[0].processes_n)
		*ret = s->v[0].processes[0].process;
	for (size_t i = 0; i < s->v[0].processes_n; i++)
		if (s->v[0].processes[i].process == *ret)
			*ret_plain = !s->v[0].processes[i].terminal;
	croft_sessions_free(s);
	if (*ret)
		return 0;
	fprintf(stderr, "croft: nothing has run in %s since it is up\n", name);
	return CROFT_EXIT_FAILED;
}

static int join(const char *cmd, int words, char **word, struct join *j)
{
	struct croft_sandbox *s = NULL;
	unsigned long long id = 0;
	struct croft *c = croft_new();
	int code = 0, r;

	if (!c)
		return CROFT_EXIT_FAILED;
	j->name = word[0];
	if (words > 1)
		code = number(cmd, "ID", word[1], &id);
	r = code ? -1 : croft_sandbox_open(c, word[0], &s);
	if (r == 0) {
		fprintf(stderr, "croft: %s is not up; start it with croft up %s\n", word[0], word[0]);
		code = CROFT_EXIT_FAILED;
	} else if (r < 0 && !code) {
		code = cli_fail(c);
	}
	if (!code && (words < 2 || (id && !j->look)))
		code = find(c, word[0], &id, &j->plain);
	if (!code) {
		j->process = (unsigned)id;
		code = join_run(c, s, j);
	}
	croft_sandbox_close(s);
	croft_free(c);
	return code;
}

int cmd_logs(int argc, char **argv)
{
	const char *from = NULL;
	bool help = false;
	struct join j = {.look = true};
	const struct opt opts[] = {{"follow", 'f', OPT_FLAG, &j.follow}, {"from", 0, OPT_VALUE, &from},
		{"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("logs", argc, argv, opts, 3);

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(help_logs);
	if (i >= argc || argc - i > 2)
		return cli_usage("logs", "takes an environment, and may take the number of a process");
	if (from && number("logs", "--from", from, &j.offset) != 0)
		return CROFT_EXIT_FAILED;
	return join("logs", argc - i, argv + i, &j);
}

int cmd_attach(int argc, char **argv)
{
	bool help = false;
	struct join j = {.follow = true};
	const struct opt opts[] = {{"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("attach", argc, argv, opts, 1);

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(help_attach);
	if (i >= argc || argc - i > 2)
		return cli_usage("attach", "takes an environment, and may take the number of a process");
	return join("attach", argc - i, argv + i, &j);
}

static int signal_of(const char *text)
{
	static const struct {
		const char *name;
		int number;
	} known[] = {{"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT}, {"KILL", SIGKILL},
		{"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"STOP", SIGSTOP},
		{"CONT", SIGCONT}, {"WINCH", SIGWINCH}};
	char *end;
	long n;

	if (!strncmp(text, "SIG", 3))
		text += 3;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i].name))
			return known[i].number;
	n = strtol(text, &end, 10);
	return end != text && !*end && n > 0 && n <= 64 ? (int)n : -1;
}

int cmd_kill(int argc, char **argv)
{
	const char *sig = "TERM";
	bool help = false;
	const struct opt opts[] = {{"signal", 's', OPT_VALUE, &sig}, {"help", 'h', OPT_FLAG, &help}};
	int i, code = 0, n;
	struct croft *c;

	/* As kill -9 is written everywhere. */
	if (argc > 1 && argv[1][0] == '-' && signal_of(argv[1] + 1) > 0) {
		sig = argv[1] + 1;
		argv++;
		argc--;
	}
	i = opt_parse_words("kill", argc, argv, opts, 2);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(help_kill);
	if (argc - i < 2)
		return cli_usage("kill", "takes an environment and numbers of processes");
	n = signal_of(sig);
	if (n < 0)
		return cli_usage("kill", "there is no signal %.40s", sig);
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	for (int k = i + 1; k < argc; k++) {
		unsigned long long id;

		if (number("kill", "ID", argv[k], &id) != 0)
			code = CROFT_EXIT_FAILED;
		else if (croft_session_signal(c, argv[i], (unsigned)id, n) < 0)
			code = cli_fail(c);
	}
	croft_free(c);
	return code;
}

int cmd_port(int argc, char **argv)
{
	bool json = false, help = false, rm = false;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"rm", 0, OPT_FLAG, &rm},
		{"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("port", argc, argv, opts, 3), code = 0;
	unsigned long long host, inside;
	unsigned got = 0;
	struct croft *c;
	char *colon;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(help_port);
	if (argc - i != 2)
		return cli_usage("port", "takes an environment and a port");
	colon = strchr(argv[i + 1], ':');
	if (colon)
		*colon = '\0';
	if (number("port", "a port", colon ? colon + 1 : argv[i + 1], &inside) != 0 ||
		number("port", "a port", argv[i + 1], &host) != 0)
		return CROFT_EXIT_FAILED;
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	if (rm && !colon)
		host = 0; /* wherever it is shown */
	if ((rm ? croft_session_unport
		: croft_session_port)(c, argv[i], (unsigned)host, (unsigned)inside, &got) < 0)
		code = cli_fail(c);
	else if (json)
		printf("{\"schema\": \"croft.port/v1\", \"name\": \"%s\", \"address\": \"127.0.0.1\", "
		       "\"host\": %u, \"inside\": %llu}\n",
			argv[i], got, inside);
	else
		printf("127.0.0.1:%u%s\n", got, rm ? " is closed" : "");
	croft_free(c);
	return code;
}

static int pause_or_resume(const char *cmd, const char *text, bool pause, int argc, char **argv)
{
	bool help = false;
	const struct opt opts[] = {{"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words(cmd, argc, argv, opts, 1), code = 0;
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(text);
	if (argc - i != 1)
		return cli_usage(cmd, "takes one environment");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	if (croft_session_pause(c, argv[i], pause) < 0)
		code = cli_fail(c);
	croft_free(c);
	return code;
}

int cmd_pause(int argc, char **argv)
{
	return pause_or_resume("pause", help_pause, true, argc, argv);
}

int cmd_resume(int argc, char **argv)
{
	return pause_or_resume("resume", help_resume, false, argc, argv);
}
