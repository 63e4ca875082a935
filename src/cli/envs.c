/* SPDX-License-Identifier: Apache-2.0 */
/* croft ls, status, snapshot, restore, fork, rm, gc: environments as things. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct flags {
	bool json, all, force, dry_run, quiet, runs;
	const char *older; /* as typed; NULL: not given */
	unsigned long long older_ms;
};

/* What one of these commands is: its words, and what it asks of the library. */
struct simple {
	const char *name, *help;
	int min, max;                   /* words */
	bool json, all, force, dry_run; /* options that it takes */
	int (*run)(struct croft *c, char **words, const struct flags *f, char **ret);
};

static enum croft_format format(const struct flags *f)
{
	return f->json ? CROFT_JSON : CROFT_TEXT;
}

static int run_ls(struct croft *c, char **words, const struct flags *f, char **ret)
{
	if (f->quiet)
		return croft_names(c, f->all ? CROFT_NAMES_ALL_ENVS : CROFT_NAMES_ENVS, NULL, ret);
	return croft_env_list(c, f->all, format(f), ret);
}

static int run_status(struct croft *c, char **words, const struct flags *f, char **ret)
{
	return croft_env_status(c, words[0], format(f), ret);
}

static int run_snapshot(struct croft *c, char **words, const struct flags *f, char **ret)
{
	return croft_env_snapshot(c, words[0], words[1], format(f), ret); /* argv ends with NULL */
}

static int run_restore(struct croft *c, char **words, const struct flags *f, char **ret)
{
	return croft_env_restore(c, words[0], words[1], format(f), ret);
}

static int run_fork(struct croft *c, char **words, const struct flags *f, char **ret)
{
	return croft_env_fork(c, words[0], words[1], format(f), ret);
}

static int run_rm(struct croft *c, char **words, const struct flags *f, char **ret)
{
	if (f->older)
		return croft_env_remove_older(c, f->older_ms, f->force, ret);
	return croft_env_remove(c, words[0], f->force, ret);
}

static int run_gc(struct croft *c, char **words, const struct flags *f, char **ret)
{
	return croft_gc(c, f->dry_run, f->runs, format(f), ret);
}

static const struct simple ls = {"ls",
	"usage: croft ls [-a, --all] [-q, --quiet] [--json]\n"
	"\n"
	"The environments of this directory; with --all those of every one. --quiet prints\n"
	"their names only.\n",
	0, 0, .json = true, .all = true, .run = run_ls};
static const struct simple status = {"status",
	"usage: croft status [--json] [NAME]\n"
	"\n"
	"What an environment starts from, what is staged in it, and what comes next.\n",
	1, 1, .json = true, .run = run_status};
static const struct simple snapshot = {"snapshot",
	"usage: croft snapshot [-q, --quiet] [--json] NAME [LABEL]\n"
	"\n"
	"Freezes the state of an environment: in constant time, or, while it is up, by a copy\n"
	"of what was changed. croft restore goes back to it.\n",
	1, 2, .json = true, .run = run_snapshot};
static const struct simple restore = {"restore",
	"usage: croft restore [-q, --quiet] [--json] NAME LABEL\n"
	"\n"
	"Makes an environment what it was at a snapshot. What is there now is kept as a\n"
	"snapshot of its own.\n",
	2, 2, .json = true, .run = run_restore};
static const struct simple fork_ = {"fork",
	"usage: croft fork [-q, --quiet] [--json] NAME NEW\n"
	"\n"
	"A second environment that starts where the first is now: in constant time, or, while\n"
	"it is up, by a copy of what was changed.\n",
	2, 2, .json = true, .run = run_fork};
static const struct simple rm = {"rm",
	"usage: croft rm [-q, --quiet] [-f, --force] NAME…\n"
	"       croft rm [-q, --quiet] [-f, --force] --older TIME\n"
	"\n"
	"Removes environments, or all of this directory that were made longer ago than TIME (7d,\n"
	"12h). One that holds work which is neither applied nor discarded is kept, unless forced.\n"
	"The evidence stays in the repository.\n",
	1, 1000, .force = true, .run = run_rm};
static const struct simple gc = {"gc",
	"usage: croft gc [-q, --quiet] [-n, --dry-run] [--runs] [--json]\n"
	"\n"
	"Reclaims environments that are landed, or were discarded a week ago, staged runs of a\n"
	"week ago that left nothing which could land (with --runs also younger ones), and what\n"
	"crashes left behind. Staged work is never touched. --dry-run only says what would go.\n",
	0, 0, .json = true, .dry_run = true, .run = run_gc};

/* One call to the library: its report, or why it failed. */
static int ask(const struct simple *s, char **words, const struct flags *f)
{
	struct croft *c = croft_new();
	char *text = NULL;
	int code = 0;

	if (!c)
		return CROFT_EXIT_FAILED;
	if (s->run(c, words, f, &text) < 0)
		code = cli_fail(c);
	else if ((!f->quiet || s->run == run_ls) && text)
		code = cli_print(text);
	free(text);
	croft_free(c);
	return code;
}

static int simple(const struct simple *s, int argc, char **argv)
{
	struct flags f = {0};
	bool help = false;
	struct opt opts[6] = {{"help", 'h', OPT_FLAG, &help}};
	const char *last;
	int code = 0, n = 1, i;

	if (s->run != run_status)
		opts[n++] = (struct opt){"quiet", 'q', OPT_FLAG, &f.quiet};
	if (s->json)
		opts[n++] = (struct opt){"json", 0, OPT_FLAG, &f.json};
	if (s->all)
		opts[n++] = (struct opt){"all", 'a', OPT_FLAG, &f.all};
	if (s->force)
		opts[n++] = (struct opt){"force", 'f', OPT_FLAG, &f.force};
	if (s->dry_run)
		opts[n++] = (struct opt){"dry-run", 'n', OPT_FLAG, &f.dry_run};
	if (s->run == run_gc)
		opts[n++] = (struct opt){"runs", 0, OPT_FLAG, &f.runs};
	if (s->run == run_rm)
		opts[n++] = (struct opt){"older", 0, OPT_VALUE, &f.older};
	i = opt_parse_words(s->name, argc, argv, opts, n);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(s->help);
	if (i == argc && s->run == run_status) {
		last = cli_last_env("status");
		return last ? ask(s, (char *[]){(char *)(uintptr_t)last, NULL}, &f)
			    : CROFT_EXIT_FAILED;
	}
	if (f.older && cli_duration(f.older, &f.older_ms) < 0)
		return cli_usage(s->name, "--older takes a time such as 7d or 12h");
	if (f.older)
		return i == argc ? ask(s, argv + i, &f)
				 : cli_usage(s->name, "either names, or --older TIME");
	if (argc - i < s->min || argc - i > s->max)
		return cli_usage(s->name,
			argc - i < s->min ? "an argument is missing" : "too many arguments");
	if (s->run != run_rm)
		return ask(s, argv + i, &f);
	for (; i < argc; i++) {
		int one = ask(s, argv + i, &f);

		code = code ? code : one;
	}
	return code;
}

int cmd_ls(int argc, char **argv)
{
	return simple(&ls, argc, argv);
}

int cmd_status(int argc, char **argv)
{
	return simple(&status, argc, argv);
}

int cmd_snapshot(int argc, char **argv)
{
	return simple(&snapshot, argc, argv);
}

int cmd_restore(int argc, char **argv)
{
	return simple(&restore, argc, argv);
}

int cmd_fork(int argc, char **argv)
{
	return simple(&fork_, argc, argv);
}

int cmd_rm(int argc, char **argv)
{
	return simple(&rm, argc, argv);
}

int cmd_gc(int argc, char **argv)
{
	return simple(&gc, argc, argv);
}
