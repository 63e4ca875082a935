/* SPDX-License-Identifier: Apache-2.0 */
/* croft run: one command in a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common.h"

static const char help[] =
	"usage: croft run [OPTIONS] [--] CMD [ARG…]\n"
	"\n"
	"Runs CMD behind a boundary: it sees the workspace (the directory you are in, or the "
	"repository\n"
	"around it), the system's programs read-only, and private /tmp, /run and HOME; of the "
	"network "
	"only\n"
	"what you allow, through a gateway it cannot go around; nothing else of your machine. A "
	"summary goes\n"
	"to standard error.\n"
	"\n"
	"  --staged             keep changes aside for review (the default): croft diff, review, "
	"apply\n"
	"  --direct             write to the workspace in place\n"
	"  --discard            throw every change to the workspace away afterwards\n"
	"  --dry-run            print what would be set up, in order, and run nothing\n"
	"  --json FILE|-        write the receipt as JSON\n"
	"  --allow-degraded     run although a protection cannot be had here; recorded\n"
	"  --stay               go on when the program or shell that started croft ends\n"
	"  -q, --quiet          no summary      -v, --verbose   a longer one\n";

static const char help_end[] = "\nExit status: the command's own; 124 timed out; 125 croft failed; "
			       "126 refused by policy or by a\n"
			       "missing protection; 127 not found; 128+N killed by signal N.\n";

/* Where the receipt goes: a file, or a copy of our standard output. */
struct json_out {
	struct croft_output *file;
	int fd;
};

/* Found before the command runs: a bad name must not cost a run. */
static int open_json(struct croft_env *env, const char *name, struct json_out *ret)
{
	if (!name)
		return 0;
	if (strcmp(name, "-") != 0)
		return croft_output_open(env, name, &ret->file);
	ret->fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	return ret->fd < 0 ? -1 : 0;
}

static int write_json(struct croft *c, struct json_out *o, struct croft_receipt *r)
{
	const char *text;

	if (!o->file && o->fd < 0)
		return 0;
	text = croft_receipt_json(r);
	if (o->file && croft_output_write(o->file, text) < 0)
		return cli_fail(c);
	for (size_t n = strlen(text); o->fd >= 0 && n > 0;) {
		ssize_t w = write(o->fd, text, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0) {
			fprintf(stderr, "croft: cannot write the receipt: %s\n", strerror(errno));
			return CROFT_EXIT_FAILED;
		}
		text += w;
		n -= (size_t)w;
	}
	return 0;
}

static void close_json(struct json_out *o)
{
	croft_output_free(o->file);
	if (o->fd >= 0)
		close(o->fd);
}

int run_dry(struct croft *c, struct croft_env *env, char **argv, const char *json)
{
	char *text = NULL;
	int code;

	if (croft_env_plan(env, (const char *const *)argv, json ? CROFT_JSON : CROFT_TEXT, &text) <
		0)
		return cli_fail(c);
	code = cli_print(text);
	free(text);
	return code;
}

/*
 * The command gets our standard input and output themselves, and we keep none: whoever is at the
 * other end must see when the command closes one. Standard error stays ours too, for the summary; a
 * receipt for standard output ("--json -") was given a copy of its own.
 */
static void give_stdio(struct croft_input *in)
{
	in->own_fds = true;
	for (int i = 0; i < 3; i++) {
		in->fd[i] = cli_closed[i] ? -1 : fcntl(i, F_DUPFD_CLOEXEC, 3);
		if (in->fd[i] >= 0 && i < 2 && !isatty(i)) {
			int null = open("/dev/null", O_RDWR | O_CLOEXEC);

			if (null >= 0 && dup2(null, i) >= 0)
				close(null);
		}
	}
}

/* Where the reviewer goes from here. */
void run_tell_staged(struct croft_env *env, bool quiet)
{
	const char *name = croft_env_name(env);

	if (!quiet)
		fputs(croft_env_notes(env), stderr);
	if (name && !quiet)
		fprintf(stderr,
			"croft: changes are staged as %s: croft diff %s, croft review %s, croft "
			"apply %s, croft discard %s\n",
			name, name, name, name, name);
}

int run_execute(struct croft *c, struct croft_env *env, const struct common *o, char **argv)
{
	struct croft_input in = {.argv = (const char *const *)argv, .fd = {0, 1, 2}, .label = o->label};
	struct json_out json = {.fd = -1};
	struct croft_receipt *r = NULL;
	int code;

	if (open_json(env, o->json, &json) < 0)
		return cli_fail(c);
	if (o->stay)
		croft_end_with(0);
	give_stdio(&in);
	if (croft_execute(env, "exec", &in, &r) < 0) {
		close_json(&json);
		return cli_fail_start(c);
	}
	code = croft_receipt_exit(r);
	if (!o->quiet)
		fputs(croft_receipt_text(r, o->verbose), stderr);
	if (croft_env_problem(env)) /* a failure of ours, however quiet we shall be */
		fprintf(stderr, "croft: what was done is not in the ledger yet, but kept: %s\n",
			croft_env_problem(env));
	if (write_json(c, &json, r) != 0)
		code = CROFT_EXIT_FAILED;
	close_json(&json);
	croft_receipt_free(r);
	return code;
}

int cmd_run(int argc, char **argv)
{
	static struct common o;
	static struct common_storage st;
	bool dry = false;
	const struct opt extra[] = {{"dry-run", 0, OPT_FLAG, &dry},
		{"staged", 0, OPT_FLAG, &o.staged}, {"stay", 0, OPT_FLAG, &o.stay}};
	struct opt opts[COMMON_OPTS_MAX];
	struct croft_policy_options po;
	struct croft_env_options eo;
	struct croft_policy *p = NULL;
	struct croft_env *env = NULL;
	struct croft *c;
	int code, i = opt_parse("run", argc, argv, opts, common_opts(&o, opts, extra, 3));

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (o.help) {
		printf("%s%s%s", help, common_help, help_end);
		return 0;
	}
	if (i >= argc)
		return cli_usage("run", "no command given");
	croft_ends_soon(!dry);
	if (common_env_set("run", &o) < 0 || common_policy("run", &o, &st, &po) < 0)
		return CROFT_EXIT_FAILED;
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	eo = (struct croft_env_options){.discard = o.discard,
		.staged = o.staged,
		.prefer_staged = !o.direct && !o.discard,
		.allow_degraded = o.allow_degraded};
	if (croft_policy_load(c, &po, &p) < 0 || croft_env_open(c, NULL, p, &eo, &env) < 0)
		code = cli_fail_start(c);
	else
		code = dry ? run_dry(c, env, argv + i, o.json) : run_execute(c, env, &o, argv + i);
	if (env && !dry)
		run_tell_staged(env, o.quiet);
	croft_env_close(env);
	croft_policy_free(p);
	croft_free(c);
	return code;
}
