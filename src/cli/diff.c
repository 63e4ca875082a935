/* SPDX-License-Identifier: Apache-2.0 */
/* croft diff, compare: what environments changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char diff_help[] =
	"usage: croft diff [OPTIONS] [NAME [PATH…]]\n"
	"\n"
	"Shows what an environment changed: files, hunks, renames, modes; what cannot land, and "
	"what would run\n"
	"on your machine. Paths are relative to the workspace's top.\n"
	"\n"
	"  --stat           files and counted lines only\n"
	"  --names          files only; reads none of them\n"
	"  --since-review   only what changed after the last review\n"
	"  --text           show binary files, too, with escapes\n"
	"  --color, --no-color\n"
	"                   colours (default: on a terminal, unless NO_COLOR is set)\n"
	"  --json           as JSON\n"
	"\n"
	"Go through it and decide with: croft review NAME\n";

static const char compare_help[] = "usage: croft compare [--json] NAME NAME…\n"
				   "\n"
				   "Sets environments that work on one task side by side: size of "
				   "the change, tests (croft exec --as test),\n"
				   "commands, denials, time; which files several of them changed, "
				   "and which pairs would conflict.\n";

static int print_and_free(char *text)
{
	int code = cli_print(text);

	free(text);
	return code;
}

static bool wants_color(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

int cmd_diff(int argc, char **argv)
{
	bool stat = false, names = false, since = false, color = false, plain = false;
	bool json = false, help = false, text_too = false;
	const struct opt opts[] = {{"text", 0, OPT_FLAG, &text_too}, {"stat", 0, OPT_FLAG, &stat},
		{"names", 0, OPT_FLAG, &names}, {"since-review", 0, OPT_FLAG, &since},
		{"color", 0, OPT_FLAG, &color}, {"no-color", 0, OPT_FLAG, &plain},
		{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("diff", argc, argv, opts, sizeof(opts) / sizeof(opts[0])), code;
	struct croft_diff_options o = {0};
	const char *name;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(diff_help);
	if (stat && names)
		return cli_usage("diff", "--stat and --names exclude each other");
	if (text_too && (stat || names))
		return cli_usage("diff", "--text shows content, which --stat and --names do not");
	if (color && plain)
		return cli_usage("diff", "--color and --no-color exclude each other");
	name = i < argc ? argv[i] : cli_last_env("diff");
	if (!name)
		return CROFT_EXIT_FAILED;
	o.what = names ? CROFT_DIFF_NAMES : stat ? CROFT_DIFF_STAT : CROFT_DIFF_HUNKS;
	o.since_review = since;
	o.text = text_too;
	o.color = color || (!plain && wants_color());
	o.paths = i + 1 < argc ? (const char *const *)argv + i + 1 : NULL;
	c = croft_new();
	if (!c)
		return CROFT_EXIT_FAILED;
	code = croft_diff(c, name, &o, json ? CROFT_JSON : CROFT_TEXT, &text) < 0
		       ? cli_fail(c)
		       : print_and_free(text);
	croft_free(c);
	return code;
}

int cmd_compare(int argc, char **argv)
{
	bool json = false, help = false;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("compare", argc, argv, opts, 2), code;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return cli_print(compare_help);
	if (argc - i < 2)
		return cli_usage("compare", "name at least two environments");
	c = croft_new();
	if (!c)
		return CROFT_EXIT_FAILED;
	code = croft_compare(c, (const char *const *)argv + i, (size_t)(argc - i),
		       json ? CROFT_JSON : CROFT_TEXT, &text) < 0
		       ? cli_fail(c)
		       : print_and_free(text);
	croft_free(c);
	return code;
}
