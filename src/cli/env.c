/* SPDX-License-Identifier: Apache-2.0 */
/* croft new, exec, shell: environments and commands in them. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/join.h"

#define JOIN_TRIES 8 /* one session after another that ends just then */

#define ARGS_MAX 4096

static const char help_new[] =
	"usage: croft new [OPTIONS] NAME\n"
	"\n"
	"Makes an environment: this project as it is in a commit, with its ignored files "
	"(node_modules, …),\n"
	"where everything that is written is staged. Nothing is copied, and what you change "
	"meanwhile does\n"
	"not reach it. The options below are used for every command that runs in it.\n"
	"\n"
	"  --from REV           start from this commit or branch; default: HEAD\n"
	"  --dirty              with what you have not committed\n"
	"  --path DIR           the project; default: the one around the current directory\n"
	"  --agent NAME  --model NAME  --task TEXT\n"
	"                       who works in it and on what: recorded, as claims\n"
	"  --json               a report for programs      -q, --quiet   none\n";

static const char help_exec[] =
	"usage: croft exec [OPTIONS] NAME [--] CMD [ARG…]\n"
	"\n"
	"Runs CMD in environment NAME, behind the boundary that was chosen with croft new; options "
	"given here\n"
	"come on top. What it writes is staged, what it prints and does is recorded in the "
	"ledger.\n"
	"After croft up NAME it joins the sandbox that is up, beside whatever runs in it.\n"
	"\n"
	"  --as test            it is a test: whether it passed is evidence for what is staged "
	"now\n"
	"  -d, --detach         print its number and go; needs croft up (see also croft logs, attach)\n"
	"  --label TEXT         a name for this command in croft ps, its receipt and its record\n"
	"                       In a session --memory, --cpus, --pids, --open-files and --file-size\n"
	"                       are limits of this command alone.\n"
	"  --read-only          look only; nothing is recorded; possible while another command "
	"runs\n"
	"  --json FILE|-        write the receipt as JSON; with -d the number of the process\n"
	"  --allow-degraded     run although a protection cannot be had here; recorded\n"
	"  --stay               go on when the program or shell that started croft ends\n"
	"  -q, --quiet          no summary      -v, --verbose   a longer one\n";

static const char help_shell[] =
	"usage: croft shell [OPTIONS] NAME\n"
	"\n"
	"Your shell in environment NAME. After croft up NAME any number of shells and commands\n"
	"share one sandbox; otherwise one at a time can write, and with --read-only any number\n"
	"can look, which is not recorded. Takes the options of croft exec.\n";

/* ---- new ---- */

/* Options of croft new itself: the others decide about the boundary, and every exec uses them again. */
static const char *const new_own[] = {"from", "path", "workspace", "agent", "model", "task", "json", "quiet",
	"dirty", "help", NULL};

static void show_progress(void *arg, unsigned percent)
{
	bool *shown = arg;

	if (!isatty(2))
		return;
	fprintf(stderr, "\rcroft: checking out the base, once for this commit: %u %%", percent);
	*shown = percent < 100;
	if (percent >= 100)
		fputs("\r\033[K", stderr);
	fflush(stderr);
}

/* However quiet: that the workspace was copied must be known. */
static void tell_copy(void *arg, const char *sentence)
{
	fprintf(stderr, "croft: %s\n", sentence);
}

static int make_new(struct croft *c, const char *name, const struct croft_policy_options *po,
	struct croft_new_options *no, bool json, bool quiet)
{
	struct croft_policy *p = NULL;
	bool shown = false;
	char *text = NULL;
	int code = 0;

	no->progress = quiet ? NULL : show_progress;
	no->progress_arg = &shown;
	if (quiet && !json)
		no->copied = tell_copy;
	if (croft_policy_load(c, po, &p) < 0 ||
		croft_env_new(c, name, p, no, json ? CROFT_JSON : CROFT_TEXT, &text) < 0) {
		if (shown)
			fputs("\r\033[K", stderr);
		code = cli_fail(c);
	} else if (!quiet || json) {
		code = cli_print(text);
	}
	free(text);
	croft_policy_free(p);
	return code;
}

int cmd_new(int argc, char **argv)
{
	static struct common o;
	static struct common_storage st;
	static char policy_path[PATH_MAX];
	struct croft_new_options no = {0};
	const char *path = NULL;
	bool json = false;
	const struct opt extra[] = {{"from", 0, OPT_VALUE, &no.from},
		{"dirty", 0, OPT_FLAG, &no.dirty}, {"path", 0, OPT_VALUE, &path},
		{"agent", 0, OPT_VALUE, &no.agent}, {"model", 0, OPT_VALUE, &no.model},
		{"task", 0, OPT_VALUE, &no.task}};
	struct opt opts[COMMON_OPTS_MAX];
	struct croft_policy_options po;
	char **given, **kept = NULL;
	struct croft *c;
	int n = common_opts(&o, opts, extra, 6), i, code;

	for (int k = 0; k < n; k++)
		if (!strcmp(opts[k].name, "json"))
			opts[k] = (struct opt){"json", 0, OPT_FLAG, &json};
	given = calloc((size_t)argc + 1, sizeof(*given));
	if (!given)
		return CROFT_EXIT_FAILED;
	memcpy(given, argv, (size_t)argc * sizeof(*given));
	i = opt_parse_words("new", argc, argv, opts, n);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (o.help) {
		printf("%s%s", help_new, common_help);
		return 0;
	}
	if (i != argc - 1)
		return cli_usage("new", i >= argc ? "no name given" : "one name, please");
	if (no.from && no.dirty)
		return cli_usage("new", "--from and --dirty exclude each other");
	if (o.direct || o.discard)
		return cli_usage("new", "an environment is always staged");
	if (o.policy && realpath(o.policy, policy_path))
		o.policy = policy_path;
	if (path)
		o.workspace = path;
	if (common_policy("new", &o, &st, &po) < 0 ||
		!(kept = common_words(argc, given, opts, n, new_own)))
		return CROFT_EXIT_FAILED;
	for (int k = 0; kept[k] && kept[k + 1]; k++)
		if (!strcmp(kept[k], "--policy"))
			kept[k + 1] = policy_path;
	no.args = (const char *const *)kept;
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = make_new(c, argv[i], &po, &no, json, o.quiet);
	free(kept);
	free(given);
	croft_free(c);
	return code;
}

/* ---- exec, shell ---- */

struct exec_options {
	struct common common;
	const char *as;
	bool read_only, detach;
};

static int parse_exec(const char *cmd, int argc, char **argv, struct exec_options *x)
{
	const struct opt extra[] = {{"as", 0, OPT_VALUE, &x->as},
		{"read-only", 0, OPT_FLAG, &x->read_only}, {"stay", 0, OPT_FLAG, &x->common.stay},
		{"detach", 'd', OPT_FLAG, &x->detach}, {"label", 0, OPT_VALUE, &x->common.label}};
	struct opt opts[COMMON_OPTS_MAX];

	return opt_parse(cmd, argc, argv, opts, common_opts(&x->common, opts, extra, 5));
}

/* Options before and after NAME. Returns the index of the command; *ret_name is NULL without one. */
static int parse_named(
	const char *cmd, int argc, char **argv, struct exec_options *x, const char **ret_name)
{
	int i = parse_exec(cmd, argc, argv, x), k;

	*ret_name = NULL;
	if (i < 0 || i >= argc)
		return i;
	*ret_name = argv[i];
	k = parse_exec(cmd, argc - i, argv + i, x);
	return k < 0 ? k : i + k;
}

/* What was given to croft new, then what is given now. */
static int parse_both(const char *cmd, struct croft *c, int argc, char **argv, const char *name,
	struct exec_options *x, char **ret_dir)
{
	char **args = NULL, *full[ARGS_MAX + 2];
	int n = 0;

	if (croft_env_args(c, name, ret_dir, &args) < 0)
		return -1;
	full[n++] = (char *)(uintptr_t)cmd;
	for (int i = 0; args[i] && n < ARGS_MAX; i++)
		full[n++] = args[i];
	full[n] = NULL;
	/* The strings are used until the end: args is not freed before. */
	if (parse_exec(cmd, n, full, x) != n || parse_named(cmd, argc, argv, x, &name) < 0)
		return -2;
	free(args);
	return 0;
}

static int run_in(const char *cmd, struct croft *c, const char *name, struct exec_options *x,
	const char *dir, char **argv)
{
	static struct common_storage st;
	struct croft_policy_options po;
	struct croft_env_options eo;
	struct croft_policy *p = NULL;
	struct croft_env *env = NULL;
	char cwd[PATH_MAX];
	size_t n = strlen(dir);
	int code;

	x->common.workspace = dir;
	if (common_policy(cmd, &x->common, &st, &po) < 0)
		return CROFT_EXIT_FAILED;
	if (getcwd(cwd, sizeof(cwd)) && !strncmp(cwd, dir, n) && cwd[n] == '/')
		po.directory = cwd;
	eo = (struct croft_env_options){.read_only = x->read_only,
		.as_test = x->as != NULL,
		.allow_degraded = x->common.allow_degraded};
	if (croft_policy_load(c, &po, &p) < 0 || croft_env_open(c, name, p, &eo, &env) < 0) {
		code = cli_fail_start(c);
	} else {
		if (!x->common.quiet)
			fputs(croft_env_notes(env), stderr);
		code = run_execute(c, env, &x->common, argv);
	}
	croft_env_close(env);
	croft_policy_free(p);
	return code;
}

/*
 * In the session that is up: 1 and the exit status, or 0 when it is not up. `now` is what was given with this
 * very command: options of the boundary must be those that it is up with.
 */
static int run_joined(const char *cmd, struct croft *c, const char *name,
	const struct exec_options *now, struct exec_options *both, const char *dir, char **argv,
	int *ret_code)
{
	struct croft_sandbox *s = NULL;
	char cwd[PATH_MAX];
	size_t n = strlen(dir);
	struct join j = {.name = name,
		.argv = (const char *const *)argv,
		.set = &now->common.env,
		.timeout = now->common.timeout,
		.limits = &now->common,
		.json = now->common.json,
		.label = now->common.label,
		.as_test = both->as != NULL,
		.detach = now->detach,
		.stay = both->common.stay,
		.quiet = both->common.quiet,
		.verbose = both->common.verbose};
	int r = now->read_only ? 0 : croft_sandbox_open(c, name, &s);

	if (r == 0 && now->detach) {
		fprintf(stderr, "croft: %s is not up, and --detach needs that; start it with: croft up %s\n",
			name, name);
		*ret_code = CROFT_EXIT_FAILED;
		return 1;
	}
	if (r < 0)
		*ret_code = cli_fail_start(c);
	if (r <= 0)
		return r < 0;
	if (getcwd(cwd, sizeof(cwd)) && !strncmp(cwd, dir, n) && cwd[n] == '/')
		j.cwd = cwd;
	*ret_code = join_check(cmd, c, name, &now->common);
	if (*ret_code == 0)
		*ret_code = join_run(c, s, &j);
	croft_sandbox_close(s);
	return *ret_code == JOIN_ENDED ? 0 : 1;
}

/*
 * A session that ends before it has started the command leaves it to us. One that has stopped serving can
 * still be connected to until its process is gone, and with it all that it holds.
 */
static int join_or_run(const char *cmd, struct croft *c, const char *name,
	const struct exec_options *now, struct exec_options *both, const char *dir, char **argv)
{
	int code = 0, joined = 0;

	for (int i = 0; i < JOIN_TRIES; i++) {
		code = 0;
		joined = run_joined(cmd, c, name, now, both, dir, argv, &code);
		if (joined || code != JOIN_ENDED)
			break;
	}
	if (joined)
		return code;
	if (code == JOIN_ENDED) {
		fprintf(stderr, "croft: the session of %s takes no commands; see: croft ps %s\n", name, name);
		return CROFT_EXIT_FAILED;
	}
	return run_in(cmd, c, name, both, dir, argv);
}

static int exec_or_shell(const char *cmd, const char *help, bool shell, int argc, char **argv)
{
	static struct exec_options first, x;
	char *own[] = {NULL, NULL};
	char **command, *dir = NULL;
	const char *name;
	struct croft *c;
	int r, i = parse_named(cmd, argc, argv, &first, &name);

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (first.common.help) {
		printf("%s%s", help, shell ? "" : common_help);
		return 0;
	}
	if (!name)
		return cli_usage(cmd, "no environment given");
	if (first.common.workspace)
		return cli_usage(cmd, "the workspace of an environment is the one it was made for");
	if (first.common.direct || first.common.discard)
		return cli_usage(cmd, "an environment is always staged");
	if (first.as && strcmp(first.as, "test") != 0)
		return cli_usage(cmd, "--as knows: test");
	command = argv + i;
	if (shell) {
		if (*command)
			return cli_usage(cmd, "a shell takes no command; use croft exec");
		own[0] = getenv("SHELL");
		if (!own[0] || own[0][0] != '/')
			own[0] = (char *)(uintptr_t) "/bin/sh";
		command = own;
	} else if (!*command) {
		return cli_usage(cmd, "no command given");
	}
	croft_ends_soon(false);
	if (common_env_set(cmd, &first.common) < 0 || !(c = croft_new()))
		return CROFT_EXIT_FAILED;
	r = parse_both(cmd, c, argc, argv, name, &x, &dir);
	if (r == -1)
		r = cli_fail_start(c);
	else if (r < 0)
		r = CROFT_EXIT_FAILED;
	else
		r = join_or_run(cmd, c, name, &first, &x, dir, command);
	free(dir);
	croft_free(c);
	return r;
}

int cmd_exec(int argc, char **argv)
{
	return exec_or_shell("exec", help_exec, false, argc, argv);
}

int cmd_shell(int argc, char **argv)
{
	return exec_or_shell("shell", help_shell, true, argc, argv);
}
