/* SPDX-License-Identifier: Apache-2.0 */
/* croft ls, status, snapshot, restore, fork, rm, gc: environments as things. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct flags {
	bool json, all, force, dry_run, quiet;
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
	return croft_env_remove(c, words[0], f->force, ret);
}

static int run_gc(struct croft *c, char **words, const struct flags *f, char **ret)
{
	return croft_gc(c, f->dry_run, format(f), ret);
}

static const struct simple ls = {"ls",
	"usage: croft ls [-a] [--json]\n\nThe environments of this directory; with -a, --all those "
	"of every one.\n",
	0, 0, .json = true, .all = true, .run = run_ls};
static const struct simple status = {"status",
	"usage: croft status [--json] NAME\n\nWhat an environment starts from, what is staged in "
	"it, and what comes next.\n",
	1, 1, .json = true, .run = run_status};
static const struct simple snapshot = {"snapshot",
	"usage: croft snapshot [-q] [--json] NAME [LABEL]\n\nFreezes the state of an environment, "
	"in constant time. croft restore goes back to it.\n",
	1, 2, .json = true, .run = run_snapshot};
static const struct simple restore = {"restore",
	"usage: croft restore [-q] [--json] NAME LABEL\n\nMakes an environment what it was at a "
	"snapshot. What is there now is kept as a snapshot of its own.\n",
	2, 2, .json = true, .run = run_restore};
static const struct simple fork_ = {"fork",
	"usage: croft fork [-q] [--json] NAME NEW\n\nA second environment that starts where the "
	"first is now, in constant time.\n",
	2, 2, .json = true, .run = run_fork};
static const struct simple rm = {"rm",
	"usage: croft rm [-q] [-f, --force] NAME…\n\nRemoves environments. One that holds work "
	"which is neither applied nor discarded is kept,\nunless forced. The evidence stays in the "
	"repository.\n",
	1, 1000, .force = true, .run = run_rm};
static const struct simple gc = {"gc",
	"usage: croft gc [-n] [--json]\n\nReclaims environments that are landed, or were discarded "
	"a week ago, and what crashes left behind.\nStaged work is never touched. -n, --dry-run "
	"only says what would go.\n",
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
	else if (!f->quiet && text)
		code = cli_print(text);
	free(text);
	croft_free(c);
	return code;
}

static int simple(const struct simple *s, int argc, char **argv)
{
	struct flags f = {0};
	bool help = false;
	struct opt opts[6] = {{"quiet", 'q', OPT_FLAG, &f.quiet}, {"help", 'h', OPT_FLAG, &help}};
	int code = 0, n = 2, i;

	if (s->json)
		opts[n++] = (struct opt){"json", 0, OPT_FLAG, &f.json};
	if (s->all)
		opts[n++] = (struct opt){"all", 'a', OPT_FLAG, &f.all};
	if (s->force)
		opts[n++] = (struct opt){"force", 'f', OPT_FLAG, &f.force};
	if (s->dry_run)
		opts[n++] = (struct opt){"dry-run", 'n', OPT_FLAG, &f.dry_run};
	i = opt_parse_words(s->name, argc, argv, opts, n);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(s->help);
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
