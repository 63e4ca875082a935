/* SPDX-License-Identifier: Apache-2.0 */
/* croft pending, allow, deny: decisions about connections that wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int cmd_pending(int argc, char **argv)
{
	bool json = false, help = false;
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse("pending", argc, argv, opts, 2), code;
	struct croft *c;
	char *text = NULL;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help) {
		puts("usage: croft pending [--json]\n\n"
		     "Lists connections of running sandboxes that wait for a decision "
		     "(network.ask). Answer with\n"
		     "croft allow ID or croft deny ID; nobody answering is a no.");
		return 0;
	}
	if (i < argc)
		return cli_usage("pending", "takes no arguments");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = croft_pending(c, json ? CROFT_JSON : CROFT_TEXT, &text);
	code = code < 0 ? cli_fail(c) : cli_print(text);
	free(text);
	croft_free(c);
	return code;
}

/* Options may also come after the ids: move them to the front, in order. */
static void options_first(int argc, char **argv)
{
	int front = 1;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		int words =
			argv[i][0] == '-' ? 1 + (strcmp(argv[i], "--for") == 0 && i + 1 < argc) : 0;

		for (int k = 0; k < words; k++) {
			char *word = argv[i + k];

			memmove(argv + front + 1, argv + front,
				(size_t)(i + k - front) * sizeof(*argv));
			argv[front++] = word;
		}
		i += words ? words - 1 : 0;
	}
}

static int decide(const char *cmd, bool allow, int argc, char **argv)
{
	bool once = false, help = false;
	const char *duration = NULL;
	const struct opt opts[] = {{"once", 0, OPT_FLAG, &once}, {"for", 0, OPT_VALUE, &duration},
		{"help", 'h', OPT_FLAG, &help}};
	unsigned long long for_ms = 0;
	struct croft *c;
	int i, code = 0;

	options_first(argc, argv);
	i = opt_parse(cmd, argc, argv, opts, 3);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help) {
		printf("usage: croft %s [--once | --for TIME] ID…\n\n"
		       "Answers a connection that croft pending lists: this once (the default), or "
		       "for some time (10m)\n"
		       "also later ones to the same host and port.\n",
			cmd);
		return 0;
	}
	if (once && duration)
		return cli_usage(cmd, "--once and --for exclude each other");
	if (duration && cli_duration(duration, &for_ms) < 0)
		return cli_usage(cmd, "--for wants a time such as 90s, 10m or 2h");
	if (i == argc)
		return cli_usage(cmd, "say which: an ID as croft pending shows it");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	for (; i < argc && code == 0; i++)
		if (croft_decide(c, argv[i], allow, for_ms) < 0)
			code = cli_fail(c);
	croft_free(c);
	return code;
}

int cmd_allow(int argc, char **argv)
{
	return decide("allow", true, argc, argv);
}

int cmd_deny(int argc, char **argv)
{
	return decide("deny", false, argc, argv);
}
