/* SPDX-License-Identifier: Apache-2.0 */
/* croft why, doctor, prove: questions whose answers are reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static int print_report(struct croft *c, int r, char *text)
{
	if (r < 0)
		return cli_fail(c);
	cli_print(text);
	free(text);
	return r > 0 ? 1 : 0; /* main knows whether it was written */
}

int cmd_why(int argc, char **argv)
{
	bool json = false, help = false;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse("why", argc, argv, opts, 2), code;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help) {
		puts("usage: croft why [--json] [RUN[.N]]\n\n"
		     "Says which rule denied what in a run, and what would allow it. RUN is the id "
		     "that\n"
		     "croft run prints in brackets; without it, the latest run with denials.");
		return 0;
	}
	if (argc - i > 1)
		return cli_usage("why", "one run at a time");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = croft_why(c, i < argc ? argv[i] : NULL, json ? CROFT_JSON : CROFT_TEXT, &text);
	code = print_report(c, code, text);
	croft_free(c);
	return code;
}

int cmd_doctor(int argc, char **argv)
{
	bool json = false, help = false;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse("doctor", argc, argv, opts, 2), code;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help) {
		puts("usage: croft doctor [--json]\n\n"
		     "Tries every kernel feature croft uses, says what each tier could enforce "
		     "here, and\n"
		     "how to get what is missing. Exit 0 when the default tier holds, 1 when not.");
		return 0;
	}
	if (i < argc)
		return cli_usage("doctor", "takes no arguments");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = croft_doctor(c, json ? CROFT_JSON : CROFT_TEXT, &text);
	code = print_report(c, code, text);
	croft_free(c);
	return code;
}

int cmd_prove(int argc, char **argv)
{
	bool json = false, help = false, control = false, list = false;
	const char *tier = NULL, *only = NULL;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help},
		{"tier", 0, OPT_VALUE, &tier}, {"only", 0, OPT_VALUE, &only},
		{"control", 0, OPT_FLAG, &control}, {"list", 0, OPT_FLAG, &list}};
	char word[] = "probe", option[] = "--list", *names[] = {word, option, NULL};
	int i = opt_parse("prove", argc, argv, opts, 6), code;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help) {
		puts("usage: croft prove [--tier namespace|process] [--only ID] [--control] "
		     "[--json]\n"
		     "       croft prove --list\n\n"
		     "Runs the known escapes, harmlessly and with bait of their own, against the "
		     "boundary\n"
		     "that croft run builds here. Exit 0 when every one was refused, 1 when one "
		     "escaped.\n"
		     "--control makes the same attempts outside any sandbox, where they should "
		     "succeed.\n"
		     "--list names them, for --only.");
		return 0;
	}
	if (i < argc)
		return cli_usage("prove", "takes no arguments");
	if (list)
		return croft_probe_main(2, names);
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = croft_prove(c, control ? "none" : tier, only, json ? CROFT_JSON : CROFT_TEXT, &text);
	code = print_report(c, code, text);
	croft_free(c);
	return code;
}
