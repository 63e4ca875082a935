/* SPDX-License-Identifier: Apache-2.0 */
/* croft review: decide about what an environment changed, on a terminal or from a script. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/review_walk.h"

static const char help[] =
	"usage: croft review [--since-review] [NAME]\n"
	"       croft review NAME [--accept-all] [--accept PATH]… [--reject PATH]… [--json]\n"
	"\n"
	"On a terminal: goes through the changes, hunk by hunk; y accepts, n rejects, e edits, ? "
	"tells the rest.\n"
	"croft apply NAME then lands exactly what was accepted, and refuses when the environment "
	"has changed.\n"
	"\n"
	"  --since-review   only what changed after the last review; earlier decisions stay\n"
	"  --accept-all     accept everything but files that run on your machine\n"
	"  --accept PATH    accept this file, or what is below this directory; a file that runs on "
	"your machine\n"
	"                   must be named itself\n"
	"  --reject PATH    reject; goes before --accept and --accept-all\n"
	"  --json           the outcome as JSON\n"
	"\n"
	"What is not decided counts as rejected. Ctrl-C leaves everything as it was.\n"
	"Exit status: 0 saved, 1 not saved.\n";

struct review_cmd {
	struct opt_list accept, reject;
	bool all, since, json, help;
};

static int no_change_at(const char *path)
{
	return cli_usage("review", "nothing was changed at %.200s", path);
}

/* Each path must mean something: a mistyped one would reject silently. */
static int check_paths(const struct croft_review *r, const struct opt_list *l)
{
	for (int k = 0; k < l->n; k++) {
		bool found = false;

		for (size_t i = 0; i < croft_review_count(r) && !found; i++)
			found = croft_review_is(r, i, l->v[k]) != 0;
		if (!found)
			return no_change_at(l->v[k]);
	}
	return 0;
}

/* 2: an item's own path is in the list; 1: a directory above it is. */
static int named(const struct croft_review *r, size_t i, const struct opt_list *l)
{
	int best = 0;

	for (int k = 0; k < l->n && best < 2; k++) {
		int is = croft_review_is(r, i, l->v[k]);

		best = is > best ? is : best;
	}
	return best;
}

static int decide_item(
	struct croft *c, struct croft_review *r, size_t i, const struct review_cmd *rc)
{
	const struct croft_review_item *x = croft_review_at(r, i);
	int yes = named(r, i, &rc->accept);

	if (!x)
		return cli_fail(c);
	if (named(r, i, &rc->reject))
		return croft_review_decide(r, i, CROFT_REJECTED) < 0 ? cli_fail(c) : 0;
	if (x->refused && yes < 2)
		return 0;
	if (x->runs && yes < 2 && (yes || rc->all)) {
		fprintf(stderr,
			"croft: left out, since it runs on your machine: %s (name it: --accept "
			"PATH)\n",
			x->path);
		return 0;
	}
	if (yes || rc->all)
		return croft_review_decide(r, i, CROFT_ACCEPTED) < 0 ? cli_fail(c) : 0;
	return 0;
}

static int decide_all(struct croft *c, struct croft_review *r, const struct review_cmd *rc)
{
	int code = check_paths(r, &rc->accept);

	if (code == 0)
		code = check_paths(r, &rc->reject);
	for (size_t i = 0; i < croft_review_count(r) && code == 0; i++)
		code = decide_item(c, r, i, rc);
	return code;
}

static int save(struct croft *c, struct croft_review *r, bool json)
{
	char *text = NULL;
	int code;

	if (croft_review_save(r, json ? CROFT_JSON : CROFT_TEXT, &text) < 0)
		return cli_fail(c);
	code = cli_print(text);
	free(text);
	return code;
}

static int walk(struct croft *c, struct croft_review *r, const char *name)
{
	int answer;

	if (croft_review_count(r) == 0) {
		printf("%sThere is nothing to review in %s.\n", croft_review_context(r), name);
		return 0;
	}
	answer = review_walk(c, r);
	if (answer > 0)
		return save(c, r, false);
	fprintf(stderr, answer < 0
				? "croft: the terminal cannot be used; see: croft review --help\n"
				: "croft: nothing was saved\n");
	return answer < 0 ? CROFT_EXIT_FAILED : 1;
}

static int review(const struct review_cmd *rc, const char *name, bool script)
{
	struct croft *c = croft_new();
	struct croft_review *r = NULL;
	int code;

	if (!c) {
		fprintf(stderr, "croft: out of memory\n");
		return CROFT_EXIT_FAILED;
	}
	if (croft_review_open(c, name, rc->since, &r) < 0)
		code = cli_fail(c);
	else if (!script)
		code = walk(c, r, name);
	else if ((code = decide_all(c, r, rc)) == 0)
		code = save(c, r, rc->json);
	croft_review_close(r);
	croft_free(c);
	return code;
}

int cmd_review(int argc, char **argv)
{
	struct review_cmd rc = {0};
	const struct opt opts[] = {{"accept", 0, OPT_LIST, &rc.accept},
		{"reject", 0, OPT_LIST, &rc.reject}, {"accept-all", 0, OPT_FLAG, &rc.all},
		{"since-review", 0, OPT_FLAG, &rc.since}, {"json", 0, OPT_FLAG, &rc.json},
		{"help", 'h', OPT_FLAG, &rc.help}};
	int i = opt_parse_words("review", argc, argv, opts, sizeof(opts) / sizeof(opts[0]));
	const char *name;
	bool script = rc.all || rc.accept.n || rc.reject.n;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (rc.help)
		return cli_print(help);
	if (argc - i > 1)
		return cli_usage(
			"review", "takes one environment (paths go with --accept and --reject)");
	if (rc.json && !script)
		return cli_usage("review", "--json goes with --accept-all, --accept or --reject; "
					   "to look only: croft diff --json");
	if (!script && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return cli_usage("review",
			"this is no terminal; use --accept-all, --accept PATH or --reject PATH");
	name = i < argc ? argv[i] : cli_last_env("review");
	return name ? review(&rc, name, script) : CROFT_EXIT_FAILED;
}
