/* SPDX-License-Identifier: Apache-2.0 */
/* croft init: a first croft.yaml for a project. */
#include <stdlib.h>

#include "cli/cli.h"

static const char help[] =
	"usage: croft init [--print] [--workspace DIR]\n"
	"\n"
	"Writes a croft.yaml for the project that you are in: its languages and package managers\n"
	"are recognised by their files, what they need is granted, and each line is explained. An\n"
	"existing file is left alone. Nothing is approved: read it, then croft policy trust.\n"
	"\n"
	"  --print              print the file and write nothing\n"
	"  --workspace DIR      the project; default: the one around the current directory\n";

int cmd_init(int argc, char **argv)
{
	const char *directory = NULL;
	bool print = false, want_help = false;
	const struct opt opts[] = {{"print", 0, OPT_FLAG, &print},
		{"workspace", 0, OPT_VALUE, &directory}, {"help", 'h', OPT_FLAG, &want_help}};
	int i = opt_parse_words("init", argc, argv, opts, 3), code = 0;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (want_help)
		return cli_print(help);
	if (i < argc)
		return cli_usage("init", "it takes no arguments");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = croft_init(c, directory, print, &text) < 0 ? cli_fail(c) : cli_print(text);
	free(text);
	croft_free(c);
	return code;
}
