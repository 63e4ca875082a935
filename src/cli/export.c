/* SPDX-License-Identifier: Apache-2.0 */
/* croft evidence export, evidence check, replay: evidence for others, and put to the test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

static const char help_export[] =
	"usage: croft evidence export [OPTIONS] NAME DIR\n"
	"\n"
	"Writes a bundle about environment NAME (or the ledger with that id) into the new "
	"directory DIR:\n"
	"the patch, a report as Markdown and HTML, every signed event (in-toto, DSSE), the same as "
	"a Git\n"
	"bundle, denials as SARIF, receipts, the key, and how to check all of it without croft.\n"
	"\n"
	"  --output             also what the commands printed (as captured: secrets taken out)\n"
	"  --git-ai             also write a Git AI note for the landed commit, to refs/notes/ai "
	"of your\n"
	"                       repository; a note that is there is kept, and ours added\n"
	"  --agent-trace        also an Agent Trace record, agent-trace.json in DIR; nothing is "
	"written\n"
	"                       into the repository\n";

static const char help_check[] =
	"usage: croft evidence check [OPTIONS] --policy GATE RANGE\n"
	"\n"
	"Does every commit of RANGE (such as origin/main..HEAD) have the evidence that the gate "
	"file\n"
	"asks for? What a commit changes is traced to what environments landed, by commit, trees, "
	"patch\n"
	"or files, so squashes, rebases and cherry-picks are found. Exit status 0: yes, 1: no.\n"
	"\n"
	"  --policy FILE        the gate file (docs/EVIDENCE.md, \"Gate files\")\n"
	"  --sarif FILE         also write what is missing as SARIF, for code hosts\n"
	"  --json               the result as JSON\n";

static const char help_replay[] =
	"usage: croft replay [OPTIONS] NAME [N]\n"
	"\n"
	"Runs the recorded commands of environment NAME again, in a fresh environment from the "
	"same\n"
	"commit, and says which claims still hold: exit status, test result, resulting tree, "
	"denials.\n"
	"With N, event N is judged, and the commands before it are run to get there. Policy "
	"options make\n"
	"a candidate policy; without any, those that were recorded are used. What was interactive, and "
	"what\n"
	"ran in a session until a signal ended it, such as a server, is not run again. Exit status 0:\n"
	"every claim holds, 1: not.\n"
	"\n"
	"  --keep               keep the fresh environment\n"
	"  --json               the result as JSON\n"
	"  -v, --verbose        show what the commands print, on standard error\n"
	"\n"
	"Policy options:\n";

static int print_help(const char *text, const char *more)
{
	fputs(text, stdout);
	return cli_print(more);
}

/* Print the report; r is the call's result, and the exit status when it did not fail. */
static int finish(struct croft *c, int r, char *text)
{
	int code = r;

	if (r < 0)
		code = cli_fail(c);
	else
		cli_print(text); /* main knows whether it was written */
	free(text);
	croft_free(c);
	return code;
}

static struct croft *begin(void)
{
	struct croft *c = croft_new();

	if (!c)
		fprintf(stderr, "croft: out of memory\n");
	return c;
}

int cmd_evidence_export(int argc, char **argv)
{
	struct croft_export_options o = {0};
	bool help = false;
	const struct opt opts[] = {{"output", 0, OPT_FLAG, &o.output},
		{"git-ai", 0, OPT_FLAG, &o.git_ai}, {"agent-trace", 0, OPT_FLAG, &o.agent_trace},
		{"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words(
		"evidence export", argc, argv, opts, sizeof(opts) / sizeof(opts[0]));
	struct croft *c;
	char *text = NULL;
	int r;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return print_help(help_export, "");
	if (argc - i != 2)
		return cli_usage("evidence export", "name an environment and a new directory");
	c = begin();
	if (!c)
		return CROFT_EXIT_FAILED;
	o.directory = argv[i + 1];
	r = croft_evidence_export(c, argv[i], &o, &text);
	return finish(c, r, text);
}

int cmd_evidence_check(int argc, char **argv)
{
	const char *gate = NULL, *sarif = NULL;
	bool help = false, json = false;
	const struct opt opts[] = {{"policy", 0, OPT_VALUE, &gate}, {"sarif", 0, OPT_VALUE, &sarif},
		{"json", 0, OPT_FLAG, &json}, {"help", 'h', OPT_FLAG, &help}};
	int i = opt_parse_words("evidence check", argc, argv, opts, sizeof(opts) / sizeof(opts[0]));
	struct croft *c;
	char *text = NULL;
	int r;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (help)
		return print_help(help_check, "");
	if (!gate)
		return cli_usage("evidence check", "--policy FILE says what is asked for");
	if (argc - i != 1)
		return cli_usage("evidence check", "name one range of commits");
	c = begin();
	if (!c)
		return CROFT_EXIT_FAILED;
	r = croft_evidence_check(c, gate, argv[i], sarif, json ? CROFT_JSON : CROFT_TEXT, &text);
	return finish(c, r, text);
}

/* ---- replay ---- */

static bool number(const char *s, unsigned long long *ret)
{
	size_t n = strlen(s);

	if (n == 0 || n > 9 || strspn(s, "0123456789") != n)
		return false;
	*ret = strtoull(s, NULL, 10);
	return *ret > 0;
}

/* Was any option given that decides about the boundary? */
static bool is_candidate(const struct common *o)
{
	return o->tier || o->policy || o->profile || o->memory || o->cpus || o->pids ||
	       o->open_files || o->file_size || o->disk ||
	       o->timeout || o->observe || o->read.n || o->write.n || o->deny.n || o->hosts.n ||
	       o->use.n || o->secrets.n || o->publish.n || o->host_ports.n || o->env.n || o->set.n;
}

/* The candidate is for the environment's own directory, wherever we are. */
static int load_candidate(
	struct croft *c, const char *name, struct common *o, struct croft_policy **ret)
{
	static struct common_storage st;
	struct croft_policy_options po;
	char *directory = NULL, **args = NULL;
	int code = 0;

	if (common_policy("replay", o, &st, &po) < 0)
		return CROFT_EXIT_FAILED;
	if (croft_env_args(c, name, &directory, &args) < 0)
		return cli_fail(c);
	po.directory = directory;
	if (croft_policy_load(c, &po, ret) < 0)
		code = cli_fail(c);
	for (size_t i = 0; args && args[i]; i++)
		free(args[i]);
	free(args);
	free(directory);
	return code;
}

int cmd_replay(int argc, char **argv)
{
	static struct common o;
	struct croft_replay_options ro = {0};
	bool json = false;
	const struct opt extra[] = {{"keep", 0, OPT_FLAG, &ro.keep}};
	struct opt opts[COMMON_OPTS_MAX];
	int n = common_opts(&o, opts, extra, 1), i, r, code;
	struct croft *c;
	char *text = NULL;

	for (int k = 0; k < n; k++)
		if (strcmp(opts[k].name, "json") == 0)
			opts[k] = (struct opt){"json", 0, OPT_FLAG, &json};
	i = opt_parse_words("replay", argc, argv, opts, n);
	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (o.help)
		return print_help(help_replay, common_help);
	if (o.direct || o.discard || o.staged || o.workspace)
		return cli_usage("replay", "a replay has a fresh environment of its own");
	if (argc - i < 1 || argc - i > 2)
		return cli_usage("replay", "name an environment, and perhaps one of its events");
	if (argc - i == 2 && !number(argv[i + 1], &ro.event))
		return cli_usage("replay", "%.60s is not an event number", argv[i + 1]);
	c = begin();
	if (!c)
		return CROFT_EXIT_FAILED;
	ro.verbose = o.verbose;
	code = is_candidate(&o) ? load_candidate(c, argv[i], &o, &ro.policy) : 0;
	if (code) {
		croft_free(c);
		return code;
	}
	r = croft_replay(c, argv[i], &ro, json ? CROFT_JSON : CROFT_TEXT, &text);
	croft_policy_free(ro.policy);
	return finish(c, r, text);
}
