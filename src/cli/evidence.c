/* SPDX-License-Identifier: Apache-2.0 */
/* croft evidence and croft log: the signed record of what was done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
	"usage: croft evidence show ENV [N | N.M] [--json]\n"
	"       croft evidence verify [ENV | ID | REF | COMMIT] [--key FILE] [--json]\n"
	"       croft evidence push REMOTE ENV… | --all\n"
	"       croft evidence fetch REMOTE [ENV…]\n"
	"       croft evidence key [--json]\n"
	"       croft evidence export ENV …, croft evidence check …   (each has --help)\n"
	"\n"
	"  show      what an event says (N.M: entry M of a session's), or all; as recorded, not "
	"verified\n"
	"  verify    check signatures, order and every file, offline, also in a clone; names the "
	"first bad\n"
	"            event and says what signatures do not prove. Without a name: all evidence "
	"here\n"
	"  push      send evidence, and nothing else, to another repository; nothing is forced\n"
	"  fetch     get evidence; without names all there is. What is no continuation is refused\n"
	"  key       the public key that this machine signs with\n"
	"\n"
	"  --key FILE   it must be signed with this key (PEM, as croft evidence key prints it)\n"
	"\n"
	"Status: 0 good, 1 bad evidence, 125 it could not be looked at.\n";

struct evidence_cmd {
	const char *key;
	bool json, all, help;
};

/* What a call gave goes out, also before a failure is told. */
static int finish(struct croft *c, int r, char *text)
{
	if (text)
		cli_print(text);
	free(text);
	return r < 0 ? cli_fail(c) : r;
}

static enum croft_format format(const struct evidence_cmd *x)
{
	return x->json ? CROFT_JSON : CROFT_TEXT;
}

/* A whole number above zero. */
static bool number(const char *s, unsigned long long *ret)
{
	size_t n = strlen(s);

	if (n == 0 || n > 9 || strspn(s, "0123456789") != n)
		return false;
	*ret = strtoull(s, NULL, 10);
	return *ret > 0;
}

/* "7", or "7.3": an entry of a session's event. */
static bool event_number(
	const char *s, unsigned long long *ret_event, unsigned long long *ret_entry)
{
	const char *dot = strchr(s, '.');
	char event[16];

	if (!dot)
		return number(s, ret_event);
	if ((size_t)(dot - s) >= sizeof(event))
		return false;
	snprintf(event, sizeof(event), "%.*s", (int)(dot - s), s);
	return number(event, ret_event) && number(dot + 1, ret_entry);
}

static int evidence_show(struct croft *c, const struct evidence_cmd *x, int argc, char **argv)
{
	unsigned long long event = 0, entry = 0;
	char *text = NULL;
	int r;

	if (argc < 1 || argc > 2)
		return cli_usage("evidence", "show takes an environment and perhaps a number");
	if (argc == 2 && !event_number(argv[1], &event, &entry))
		return cli_usage("evidence", "%.40s is not an event number", argv[1]);
	r = entry ? croft_evidence_show_entry(c, argv[0], event, entry, format(x), &text)
		  : croft_evidence_show(c, argv[0], event, format(x), &text);
	return finish(c, r, text);
}

static int evidence_verify(struct croft *c, const struct evidence_cmd *x, int argc, char **argv)
{
	char *text = NULL;
	int r;

	if (argc > 1)
		return cli_usage("evidence", "verify takes one environment, id, ref or commit");
	r = croft_evidence_verify(c, argc ? argv[0] : NULL, x->key, format(x), &text);
	return finish(c, r, text);
}

static int evidence_push(struct croft *c, const struct evidence_cmd *x, int argc, char **argv)
{
	char *text = NULL;
	int r;

	if (argc < 1)
		return cli_usage("evidence", "push needs a remote");
	if (x->all ? argc > 1 : argc < 2)
		return cli_usage("evidence", "push takes names of environments, or --all");
	r = croft_evidence_push(c, argv[0], (const char *const *)argv + 1, x->all, &text);
	return finish(c, r, text);
}

static int evidence_fetch(struct croft *c, const struct evidence_cmd *x, int argc, char **argv)
{
	char *text = NULL;
	int r;

	if (argc < 1)
		return cli_usage("evidence", "fetch needs a remote");
	if (x->all && argc > 1)
		return cli_usage("evidence", "fetch takes names of environments, or --all");
	r = croft_evidence_fetch(
		c, argv[0], (const char *const *)argv + 1, x->all || argc == 1, &text);
	return finish(c, r, text);
}

static int evidence_key(struct croft *c, const struct evidence_cmd *x, int argc, char **argv)
{
	char *text = NULL;
	int r;

	if (argc)
		return cli_usage("evidence", "key takes no arguments");
	r = croft_evidence_key(c, format(x), &text);
	return finish(c, r, text);
}

static const struct {
	const char *name;
	int (*run)(struct croft *c, const struct evidence_cmd *x, int argc, char **argv);
	bool json, key, all; /* which options it takes */
} commands[] = {
	{"show", evidence_show, true, false, false},
	{"verify", evidence_verify, true, true, false},
	{"push", evidence_push, false, false, true},
	{"fetch", evidence_fetch, false, false, true},
	{"key", evidence_key, true, false, false},
};
#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

static int dispatch(size_t which, int argc, char **argv)
{
	struct evidence_cmd x = {0};
	const struct opt opts[] = {{"json", 0, OPT_FLAG, &x.json}, {"key", 0, OPT_VALUE, &x.key},
		{"all", 'a', OPT_FLAG, &x.all}, {"help", 'h', OPT_FLAG, &x.help}};
	int i = opt_parse_words("evidence", argc, argv, opts, sizeof(opts) / sizeof(opts[0])), code;
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (x.help)
		return cli_print(help);
	if ((x.json && !commands[which].json) || (x.key && !commands[which].key) ||
		(x.all && !commands[which].all))
		return cli_usage("evidence", "%s does not take that option", commands[which].name);
	c = croft_new();
	if (!c) {
		fprintf(stderr, "croft: out of memory\n");
		return CROFT_EXIT_FAILED;
	}
	code = commands[which].run(c, &x, argc - i, argv + i);
	croft_free(c);
	return code;
}

int cmd_evidence(int argc, char **argv)
{
	if (argc < 2)
		return cli_usage(
			"evidence", "say what: show, verify, export, push, fetch, check or key");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cli_print(help);
	if (strcmp(argv[1], "export") == 0)
		return cmd_evidence_export(argc - 1, argv + 1);
	if (strcmp(argv[1], "check") == 0)
		return cmd_evidence_check(argc - 1, argv + 1);
	for (size_t i = 0; i < COMMANDS_N; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return dispatch(i, argc - 1, argv + 1);
	return cli_usage("evidence",
		"there is no \"%.60s\"; it is show, verify, export, push, fetch, check or key",
		argv[1]);
}

/* ---- croft log ---- */

static const char log_help[] = "usage: croft log [-n N] [--json] [ENV]\n"
			       "\n"
			       "What happened in an environment, one line an event, the newest "
			       "last. croft evidence show has the\n"
			       "details, croft evidence verify checks them.\n"
			       "\n"
			       "  -n, --number N   only the last N\n";

int cmd_log(int argc, char **argv)
{
	const char *last = NULL, *name;
	bool json = false, want_help = false;
	const struct opt opts[] = {{"number", 'n', OPT_VALUE, &last}, {"json", 0, OPT_FLAG, &json},
		{"help", 'h', OPT_FLAG, &want_help}};
	int i = opt_parse_words("log", argc, argv, opts, sizeof(opts) / sizeof(opts[0])), code;
	unsigned long long n = 0;
	char *text = NULL;
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (want_help)
		return cli_print(log_help);
	if (argc - i > 1)
		return cli_usage("log", "it takes the name of one environment");
	if (last && !number(last, &n))
		return cli_usage("log", "%.40s is not a number of events", last);
	name = i < argc ? argv[i] : cli_last_env("log");
	if (!name)
		return CROFT_EXIT_FAILED;
	c = croft_new();
	if (!c) {
		fprintf(stderr, "croft: out of memory\n");
		return CROFT_EXIT_FAILED;
	}
	code = croft_env_log(c, name, (size_t)n, json ? CROFT_JSON : CROFT_TEXT, &text);
	code = finish(c, code, text);
	croft_free(c);
	return code;
}
