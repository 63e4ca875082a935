/* SPDX-License-Identifier: Apache-2.0 */
/* croft policy learn: run observed, propose a policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

static const char help[] = "usage: croft policy learn [OPTIONS] [--json -] [--] CMD [ARG…]\n"
			   "\n"
			   "Runs CMD in the sandbox with every file access and every name, "
			   "connection and request observed,\n"
			   "and prints, as a diff, the grants it asked for and did not get, "
			   "narrower rules for hosts that\n"
			   "allow more than was used, and what was never used. Applies nothing. "
			   "The command writes into\n"
			   "the workspace in place; with --discard nothing that it writes is "
			   "kept. Its own output goes to\n"
			   "standard error.\n";

int cmd_learn(int argc, char **argv)
{
	static struct common o;
	static struct common_storage st;
	struct opt opts[COMMON_OPTS_MAX];
	struct croft_policy_options po;
	struct croft_env_options eo;
	struct croft_policy *p = NULL;
	struct croft_env *env = NULL;
	struct croft_receipt *r = NULL;
	struct croft_input in = {.fd = {0, 2, 2}};
	struct croft *c;
	char *text = NULL;
	int code, i = opt_parse("policy learn", argc, argv, opts, common_opts(&o, opts, NULL, 0));

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (o.help) {
		printf("%s\n%s", help, common_help);
		return 0;
	}
	if (i >= argc)
		return cli_usage("policy learn", "no command given");
	if (o.json && strcmp(o.json, "-") != 0)
		return cli_usage("policy learn",
			"--json takes - here: the proposal goes to standard output");
	o.observe = "full";
	if (common_env_set("policy learn", &o) < 0 ||
		common_policy("policy learn", &o, &st, &po) < 0 || !(c = croft_new()))
		return CROFT_EXIT_FAILED;
	eo = (struct croft_env_options){.discard = o.discard, .allow_degraded = o.allow_degraded};
	in.argv = (const char *const *)(argv + i);
	for (int k = 0; k < 3; k++)
		if (cli_closed[k])
			in.fd[k] = -1;
	if (croft_policy_load(c, &po, &p) < 0 || croft_env_open(c, NULL, p, &eo, &env) < 0 ||
		croft_learn(env, &in, o.json ? CROFT_JSON : CROFT_TEXT, &text, &r) < 0) {
		code = cli_fail(c);
	} else {
		code = croft_receipt_exit(r);
		cli_print(text);
		if (!o.quiet)
			fputs(croft_receipt_text(r, o.verbose), stderr);
	}
	free(text);
	croft_receipt_free(r);
	croft_env_close(env);
	croft_policy_free(p);
	croft_free(c);
	return code;
}
