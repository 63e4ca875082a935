/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft policy: show, check, explain, diff, trust, set. (learn is a run, and has a file of its
 * own.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common.h"

static const char help[] =
	"usage: croft policy COMMAND [OPTIONS]\n"
	"\n"
	"  show [OPTIONS]         the policy that would apply here, and where each rule comes "
	"from\n"
	"  check [OPTIONS] [FILE…]\n"
	"                         errors in policy files; without one, in those that apply here\n"
	"  explain [OPTIONS] PATH…|HOST:PORT…\n"
	"                         which rule decides for it, and what would change that\n"
	"  diff [OPTIONS] [A] [B]\n"
	"                         A and B are files or profiles; exit 1 if they differ\n"
	"  trust [--revoke] [FILE]\n"
	"                         approve exactly these bytes of a project's croft.yaml\n"
	"  trust [--revoke] --objects DIR\n"
	"                         let commands read the Git objects in DIR, which the repository\n"
	"                         here refers to\n"
	"  set RUN|NAME FILE      swap the network rules of a running sandbox, or of an environment\n"
	"                         that is up, for FILE's\n"
	"  keys [--json]          every key that a policy file may have\n"
	"  bundles [--json]       what --use takes, and the hosts that each lets a command reach\n"
	"  learn [OPTIONS] [--] CMD…\n"
	"                         run CMD observed, and propose the narrowest policy\n"
	"\n"
	"  --json               the answer as JSON\n";

struct policy_cmd {
	struct common common;
	struct common_storage storage;
	bool json, revoke;
	const char *objects;
};

static int print(char *text, int code)
{
	cli_print(text); /* main knows whether it was written */
	free(text);
	return code;
}

static enum croft_format format(const struct policy_cmd *pc)
{
	return pc->json ? CROFT_JSON : CROFT_TEXT;
}

static int load(struct croft *c, struct policy_cmd *pc, struct croft_policy **ret)
{
	struct croft_policy_options o;

	if (common_policy("policy", &pc->common, &pc->storage, &o) < 0)
		return CROFT_EXIT_FAILED;
	return croft_policy_load(c, &o, ret) < 0 ? cli_fail(c) : 0;
}

static int policy_show(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	struct croft_policy *p = NULL;
	char *text = NULL;
	int code;

	if (argc > 0)
		return cli_usage("policy", "show takes no arguments");
	code = load(c, pc, &p);
	if (code == 0)
		code = croft_policy_show(c, p, format(pc), &text) < 0 ? cli_fail(c)
								      : print(text, 0);
	croft_policy_free(p);
	return code;
}

static int policy_check(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	struct croft_policy *p = NULL;
	int code = 0;

	if (argc == 0) { /* everything that applies here, resolved */
		code = load(c, pc, &p);
		croft_policy_free(p);
		if (code == 0 && !pc->json)
			code = print(strdup("the policies that apply here are in order\n"), 0);
	}
	for (int i = 0; i < argc; i++) {
		if (croft_policy_check(c, argv[i]) < 0)
			code = cli_fail(c);
		else if (!pc->json)
			printf("%s: in order\n", argv[i]);
	}
	if (pc->json)
		printf("{\"ok\": %s}\n", code == 0 ? "true" : "false");
	return code;
}

static int policy_keys(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	char *text = NULL;

	if (argc)
		return cli_usage("policy", "keys takes no arguments");
	return croft_policy_keys(c, format(pc), &text) < 0 ? cli_fail(c) : print(text, 0);
}

static int policy_bundles(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	char *text = NULL;

	if (argc)
		return cli_usage("policy", "bundles takes no arguments");
	return croft_policy_bundles(c, format(pc), &text) < 0 ? cli_fail(c) : print(text, 0);
}

static int policy_explain(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	struct croft_policy *p = NULL;
	int code;

	if (argc == 0)
		return cli_usage("policy", "explain needs a path");
	code = load(c, pc, &p);
	for (int i = 0; code == 0 && i < argc; i++) {
		char *text = NULL;

		code = croft_policy_explain(c, p, argv[i], format(pc), &text) < 0 ? cli_fail(c)
										  : print(text, 0);
	}
	croft_policy_free(p);
	return code;
}

/* A side of a comparison: a policy file if there is one of that name, else a profile. */
static int load_side(
	struct croft *c, const struct policy_cmd *pc, const char *name, struct croft_policy **ret)
{
	struct croft_policy_options o = {.directory = pc->common.workspace};

	if (strchr(name, '/') || access(name, F_OK) == 0)
		o.policy_file = name;
	else
		o.profile = name;
	return croft_policy_load(c, &o, ret) < 0 ? cli_fail(c) : 0;
}

static int policy_diff(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	struct croft_policy *a = NULL, *b = NULL;
	char *text = NULL;
	int code, n;

	if (argc > 2)
		return cli_usage("policy", "diff compares at most two policies");
	/* Without a first side: the default profile. Without a second: what would apply here. */
	code = load_side(c, pc, argc > 0 ? argv[0] : "default", &a);
	if (code == 0)
		code = argc > 1 ? load_side(c, pc, argv[1], &b) : load(c, pc, &b);
	if (code == 0) {
		n = croft_policy_diff(c, a, b, format(pc), &text);
		code = n < 0 ? cli_fail(c) : print(text, n > 0 ? 1 : 0);
	}
	croft_policy_free(a);
	croft_policy_free(b);
	return code;
}

static int policy_trust(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	char *text = NULL;

	if (argc > 1 || (argc && pc->objects))
		return cli_usage("policy", "trust takes one file, or --objects DIR");
	if (pc->objects) {
		if (croft_policy_trust_objects(c, pc->objects, pc->revoke, &text) < 0)
			return cli_fail(c);
		return print(text, 0);
	}
	if (croft_policy_trust(c, argc ? argv[0] : NULL, pc->revoke, &text) < 0)
		return cli_fail(c);
	return print(text, 0);
}

static int policy_set(struct croft *c, struct policy_cmd *pc, int argc, char **argv)
{
	struct croft_policy_options o = {.directory = pc->common.workspace};
	struct croft_policy *p = NULL;
	struct croft_sandbox *s = NULL;
	int code = 0, r;

	if (argc != 2)
		return cli_usage("policy",
			"set takes an environment that is up, or a run (as croft run prints it in "
			"brackets), and a file");
	o.policy_file = argv[1];
	r = croft_policy_load(c, &o, &p);
	if (r == 0)
		r = croft_sandbox_open(c, argv[0], &s) == 1 ? croft_session_policy(c, argv[0], p)
							    : croft_policy_set(c, argv[0], p);
	if (r < 0)
		code = cli_fail(c);
	croft_sandbox_close(s);
	croft_policy_free(p);
	return code;
}

static const struct {
	const char *name;
	int (*run)(struct croft *c, struct policy_cmd *pc, int argc, char **argv);
} commands[] = {{"show", policy_show}, {"check", policy_check}, {"explain", policy_explain},
	{"diff", policy_diff}, {"trust", policy_trust}, {"set", policy_set}, {"keys", policy_keys},
	{"bundles", policy_bundles}};
#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

/* Reports take --json alone; "--json -" means the same here as it does for croft run. */
static int drop_json_dash(int argc, char **argv)
{
	int n = 0;

	for (int i = 0; i < argc; i++) {
		if (n > 0 && strcmp(argv[n - 1], "--json") == 0 && strcmp(argv[i], "-") == 0)
			continue;
		argv[n++] = argv[i];
	}
	argv[n] = NULL;
	return n;
}

static int dispatch(size_t which, struct policy_cmd *pc, int argc, char **argv)
{
	const struct opt extra[] = {
		{"revoke", 0, OPT_FLAG, &pc->revoke}, {"objects", 0, OPT_VALUE, &pc->objects}};
	struct opt opts[COMMON_OPTS_MAX];
	int n = common_opts(&pc->common, opts, extra, 2), i, code;
	struct croft *c;

	for (int k = 0; k < n; k++)
		if (strcmp(opts[k].name, "json") == 0)
			opts[k] = (struct opt){"json", 0, OPT_FLAG, &pc->json};
	i = opt_parse("policy", argc, argv, opts, n);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (pc->common.help) {
		fputs(help, stdout);
		return cli_print(common_help);
	}
	if (pc->revoke && strcmp(commands[which].name, "trust") != 0)
		return cli_usage("policy", "--revoke goes with trust");
	if (pc->objects && strcmp(commands[which].name, "trust") != 0)
		return cli_usage("policy", "--objects goes with trust");
	c = croft_new();
	if (!c) {
		fprintf(stderr, "croft: out of memory\n");
		return CROFT_EXIT_FAILED;
	}
	code = commands[which].run(c, pc, argc - i, argv + i);
	croft_free(c);
	return code;
}

int cmd_policy(int argc, char **argv)
{
	struct policy_cmd *pc;
	int code;

	if (argc < 2)
		return cli_usage("policy",
			"say what: show, check, explain, diff, trust, set, keys, bundles or learn");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		fputs(help, stdout);
		return cli_print(common_help);
	}
	if (strcmp(argv[1], "learn") == 0)
		return cmd_learn(argc - 1, argv + 1);
	for (size_t i = 0; i < COMMANDS_N; i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		pc = calloc(1, sizeof(*pc));
		if (!pc) {
			fprintf(stderr, "croft: out of memory\n");
			return CROFT_EXIT_FAILED;
		}
		argc = drop_json_dash(argc, argv);
		code = dispatch(i, pc, argc - 1, argv + 1);
		free(pc);
		return code;
	}
	return cli_usage("policy",
		"there is no \"%.60s\"; it is show, check, explain, diff, trust, set, keys, "
		"bundles or learn",
		argv[1]);
}
