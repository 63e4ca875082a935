/* SPDX-License-Identifier: Apache-2.0 */
/* croft agent: a coding agent in a sandbox that fits it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

static const char help[] =
	"usage: croft agent [OPTIONS] AGENT [ARG…]\n"
	"\n"
	"Runs a coding agent (claude, codex, gemini, opencode, copilot, qwen, …) in a sandbox\n"
	"that fits it: it reads its own program, reaches the hosts it needs, and its key is put into its\n"
	"requests on the way without being shown to it. Its changes are staged under its name: croft\n"
	"review AGENT afterwards. What follows AGENT is for the agent; options of croft come before it.\n"
	"\n"
	"In the place of AGENT:\n"
	"  ls [--json]          the agents that are known: yours and those that come with croft\n"
	"  show AGENT [--json]  what is known of one: program, hosts, keys, configuration\n"
	"  save AGENT [PATH…]   what it changed in its private copy of your configuration; take PATH over\n"
	"  add FILE             check a data file of your own, and keep it beside your policy\n"
	"\n"
	"  --staged             keep changes aside for review (the default): croft diff, review, apply\n"
	"  --direct             write to the project in place\n"
	"  --discard            throw every change away afterwards\n"
	"  --dry-run            print what would be set up, in order, and run nothing\n"
	"  --json FILE|-        write the receipt as JSON\n"
	"  --allow-degraded     run although a protection cannot be had here; recorded\n"
	"  --stay               go on when the program or shell that started croft ends\n"
	"  -q, --quiet          no summary      -v, --verbose   a longer one\n";

/* ls, show NAME, add FILE: the words that are no agents. */
static int ask(const char *word, int argc, char **argv)
{
	bool json = false, want_help = false, list = !strcmp(word, "ls"), show = !strcmp(word, "show");
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &want_help}};
	struct croft *c;
	char *text = NULL;
	int i = opt_parse_words("agent", argc, argv, opts, 2), r, code;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (want_help)
		return cli_print(help);
	if (argc - i != (list ? 0 : 1))
		return cli_usage("agent",
			list   ? "ls takes no name"
			: show ? "show takes one name"
			       : "add takes one file");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	if (list)
		r = croft_agent_list(c, json ? CROFT_JSON : CROFT_TEXT, &text);
	else if (show)
		r = croft_agent_show(c, argv[i], json ? CROFT_JSON : CROFT_TEXT, &text);
	else
		r = croft_agent_add(c, argv[i], &text);
	code = r < 0 ? cli_fail(c) : cli_print(text);
	free(text);
	croft_free(c);
	return code;
}

/* What it changed in its configuration; with paths, take these over. */
static int save(int argc, char **argv)
{
	const char *directory = NULL;
	bool want_help = false;
	const struct opt opts[] = {
		{"workspace", 0, OPT_VALUE, &directory}, {"help", 'h', OPT_FLAG, &want_help}};
	struct croft *c;
	char *text = NULL;
	int i = opt_parse_words("agent", argc, argv, opts, 2), code;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (want_help)
		return cli_print(help);
	if (i >= argc)
		return cli_usage("agent", "save takes an agent");
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	if (croft_agent_save(c, argv[i], directory, (const char *const *)argv + i + 1, &text) < 0)
		code = cli_fail(c);
	else
		code = cli_print(text);
	if (code == 0 && !text[0])
		fprintf(stderr, "croft: %s changed nothing of its configuration in this project\n", argv[i]);
	free(text);
	croft_free(c);
	return code;
}

/* The agent's own words, then the user's. */
static char **command(const struct croft_agent *a, char **args)
{
	const char *const *own = croft_agent_argv(a);
	size_t n = 0, k = 0;
	char **v;

	while (own[n])
		n++;
	while (args[k])
		k++;
	v = calloc(n + k + 1, sizeof(*v));
	for (size_t i = 0; v && i < n + k; i++)
		v[i] = i < n ? (char *)(uintptr_t)own[i] : args[i - n];
	return v;
}

static int run_agent(struct croft *c, const char *name, const struct croft_policy_options *po,
	const struct common *o, bool dry, char **args)
{
	struct croft_env_options eo = {.discard = o->discard,
		.staged = o->staged,
		.prefer_staged = !o->direct && !o->discard,
		.allow_degraded = o->allow_degraded,
		.stem = name};
	struct croft_agent *a = NULL;
	struct croft_policy *p = NULL;
	struct croft_env *env = NULL;
	char **argv = NULL;
	int code;

	if (croft_agent_prepare(c, name, po, &a) < 0 ||
		croft_policy_load(c, croft_agent_options(a), &p) < 0 ||
		croft_env_open(c, NULL, p, &eo, &env) < 0) {
		code = cli_fail(c);
	} else if (!(argv = command(a, args))) {
		code = CROFT_EXIT_FAILED;
	} else if (dry) {
		code = run_dry(c, env, argv, o->json);
	} else {
		if (!o->quiet)
			fputs(croft_agent_told(a, o->direct), stderr);
		code = run_execute(c, env, o, argv);
		run_tell_staged(env, o->quiet);
	}
	free(argv);
	croft_env_close(env);
	croft_policy_free(p);
	croft_agent_free(a);
	return code;
}

int cmd_agent(int argc, char **argv)
{
	static struct common o;
	static struct common_storage st;
	bool dry = false;
	const struct opt extra[] = {{"dry-run", 0, OPT_FLAG, &dry},
		{"staged", 0, OPT_FLAG, &o.staged}, {"stay", 0, OPT_FLAG, &o.stay}};
	struct opt opts[COMMON_OPTS_MAX];
	struct croft_policy_options po;
	struct croft *c;
	int code, i = opt_parse("agent", argc, argv, opts, common_opts(&o, opts, extra, 3));

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (o.help) {
		printf("%s%s", help, common_help);
		return 0;
	}
	if (i >= argc)
		return cli_usage("agent", "no agent named");
	if (!strcmp(argv[i], "ls") || !strcmp(argv[i], "show") || !strcmp(argv[i], "add"))
		return ask(argv[i], argc - i, argv + i);
	if (!strcmp(argv[i], "save"))
		return save(argc - i, argv + i);
	if (common_policy("agent", &o, &st, &po) < 0)
		return CROFT_EXIT_FAILED;
	if (!(c = croft_new()))
		return CROFT_EXIT_FAILED;
	code = run_agent(c, argv[i], &po, &o, dry, argv + i + 1);
	croft_free(c);
	return code;
}
