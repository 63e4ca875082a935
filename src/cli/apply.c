/* SPDX-License-Identifier: Apache-2.0 */
/* croft apply, revert, discard: staged work into the checkout, out again, or away. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

static const char apply_help[] =
	"usage: croft apply [NAME] [OPTION…] [PATH…]\n"
	"\n"
	"Land what is staged in an environment: what its review accepted, or, without a review, "
	"all of it,\n"
	"or only the paths given. Your own changes are kept: text is merged, anything that "
	"conflicts is refused\n"
	"and nothing is changed at all.\n"
	"\n"
	"  (no option)          into the working tree, nothing is committed\n"
	"  --commit             the environment's own commits, in your name, then what it did not "
	"commit\n"
	"  --squash             one commit\n"
	"  --branch BRANCH      commits go to BRANCH (made where the environment started if it is "
	"new);\n"
	"                       the checkout is left alone\n"
	"  --patch              print a patch for git apply; nothing is changed (on a terminal\n"
	"                       control characters are shown as text, and it may not apply)\n"
	"\n"
	"  -m, --message TEXT   of the commit; else made from the task and the changes\n"
	"  --sign               sign the commit, as commit.gpgSign would\n"
	"  --tree OID           refuse unless exactly this tree is staged\n"
	"  --include-flagged    also files that run on this machine (hooks, rc files, CI) and were "
	"not reviewed\n"
	"  --dry-run            say what would land, and change nothing\n"
	"  --json               the report as JSON\n"
	"\n"
	"Commits carry Croft-Env, Croft-Evidence and Assisted-by trailers. croft revert takes it "
	"out again.\n";

static const char revert_help[] =
	"usage: croft revert NAME [--commit] [--json]\n"
	"\n"
	"Take the last landing of an environment back out: in the working tree, or, when it was "
	"committed, by\n"
	"a commit that reverts it. What you changed since is kept; a conflict is refused, and "
	"nothing changed.\n"
	"\n"
	"  --commit             commit the reversal although the landing was not committed\n"
	"  --json               the report as JSON\n";

static const char discard_help[] = "usage: croft discard [NAME] [--undo]\n"
				   "\n"
				   "Throw away what is staged in an environment; it starts over "
				   "from where it began. For a week it can\n"
				   "be brought back.\n"
				   "\n"
				   "  --undo               bring back what was discarded last\n";

struct apply_cmd {
	struct croft_apply_options o;
	bool commit, squash, patch, undo, json, help;
};

/* Print the report; on failure the sentence, then what there is to say about it. */
static int answer(struct croft *c, int rc, char *text)
{
	int code = 0;

	if (rc < 0) {
		code = cli_fail(c);
		if (text)
			fputs(text, stderr);
	} else if (text) {
		code = cli_print(text);
	}
	free(text);
	return code;
}

/* ---- a landing seen from outside ---- */

#define QUIET_MS 1000 /* most are over before anybody wonders */
#define STEP_MS 100

struct landing {
	const char *verb, *name;
	long long begun_ms, shown_ms;
	bool shown;
};

static long long now_ms(void)
{
	struct timespec t = {0};

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* A signal that came while it landed acts as soon as we return: whoever sent it must know how it ended. */
static void tell_end(struct landing *l)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t pending;

	if (l->shown)
		fputs("\r\033[K", stderr);
	l->shown = false;
	if (sigpending(&pending) < 0)
		return;
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		if (sigismember(&pending, ending[i]) != 1)
			continue;
		fprintf(stderr, "croft: it was too late to stop: croft %s %s is complete\n",
			l->verb, l->name);
		return;
	}
}

static void show_progress(void *arg, size_t done, size_t total)
{
	struct landing *l = arg;
	long long now = now_ms();

	if (done == total) {
		tell_end(l);
		return;
	}
	if (now - l->begun_ms < QUIET_MS || now - l->shown_ms < STEP_MS || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[Kcroft: %zu of %zu files", done, total);
	l->shown = true;
	l->shown_ms = now;
}

static int run_apply(struct croft *c, struct apply_cmd *a, int n, char **words)
{
	int modes = a->commit + a->squash + a->patch, rc;
	struct landing l = {.verb = "apply", .begun_ms = now_ms()};
	char *text = NULL;

	if (modes > 1)
		return cli_usage("apply", "--commit, --squash and --patch exclude each other");
	a->o.how = a->commit   ? CROFT_LAND_COMMIT
		   : a->squash ? CROFT_LAND_SQUASH
		   : a->patch  ? CROFT_LAND_PATCH
			       : CROFT_LAND_WORKTREE;
	if (n > 1)
		a->o.paths = (const char *const *)(words + 1);
	l.name = n ? words[0] : cli_last_env("apply");
	if (!l.name)
		return CROFT_EXIT_FAILED;
	a->o.shown = isatty(STDOUT_FILENO);
	croft_on_progress(c, show_progress, &l);
	rc = croft_apply(c, l.name, &a->o, a->json ? CROFT_JSON : CROFT_TEXT, &text);
	if (l.shown)
		fputs("\r\033[K", stderr);
	return answer(c, rc, text);
}

static int run_revert(struct croft *c, struct apply_cmd *a, int n, char **words)
{
	struct landing l = {.verb = "revert", .begun_ms = now_ms()};
	char *text = NULL;
	int rc;

	if (n != 1)
		return cli_usage("revert", n ? "it takes one environment" : "name the environment");
	l.name = words[0];
	croft_on_progress(c, show_progress, &l);
	rc = croft_revert(c, words[0], a->commit, a->json ? CROFT_JSON : CROFT_TEXT, &text);
	if (l.shown)
		fputs("\r\033[K", stderr);
	return answer(c, rc, text);
}

static int run_discard(struct croft *c, struct apply_cmd *a, int n, char **words)
{
	const char *name = n ? words[0] : cli_last_env("discard");
	char *text = NULL;
	int rc;

	if (n > 1)
		return cli_usage("discard", "it takes one environment");
	if (!name)
		return CROFT_EXIT_FAILED;
	rc = croft_discard(c, name, a->undo, &text);
	return answer(c, rc, text);
}

static int run(const char *cmd, const char *help, const struct opt *opts, int opts_n,
	struct apply_cmd *a, int argc, char **argv,
	int (*go)(struct croft *, struct apply_cmd *, int, char **))
{
	int code, i = opt_parse_words(cmd, argc, argv, opts, opts_n);
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (a->help)
		return cli_print(help);
	c = croft_new();
	if (!c)
		return CROFT_EXIT_FAILED;
	code = go(c, a, argc - i, argv + i);
	croft_free(c);
	return code;
}

int cmd_apply(int argc, char **argv)
{
	struct apply_cmd a = {0};
	const struct opt opts[] = {{"commit", 0, OPT_FLAG, &a.commit},
		{"squash", 0, OPT_FLAG, &a.squash}, {"patch", 0, OPT_FLAG, &a.patch},
		{"branch", 0, OPT_VALUE, &a.o.branch}, {"message", 'm', OPT_VALUE, &a.o.message},
		{"tree", 0, OPT_VALUE, &a.o.tree}, {"include-flagged", 0, OPT_FLAG, &a.o.flagged},
		{"dry-run", 0, OPT_FLAG, &a.o.dry_run}, {"sign", 0, OPT_FLAG, &a.o.sign},
		{"json", 0, OPT_FLAG, &a.json}, {"help", 'h', OPT_FLAG, &a.help}};

	return run("apply", apply_help, opts, sizeof(opts) / sizeof(opts[0]), &a, argc, argv,
		run_apply);
}

int cmd_revert(int argc, char **argv)
{
	struct apply_cmd a = {0};
	const struct opt opts[] = {{"commit", 0, OPT_FLAG, &a.commit},
		{"json", 0, OPT_FLAG, &a.json}, {"help", 'h', OPT_FLAG, &a.help}};

	return run("revert", revert_help, opts, sizeof(opts) / sizeof(opts[0]), &a, argc, argv,
		run_revert);
}

int cmd_discard(int argc, char **argv)
{
	struct apply_cmd a = {0};
	const struct opt opts[] = {
		{"undo", 0, OPT_FLAG, &a.undo}, {"help", 'h', OPT_FLAG, &a.help}};

	return run("discard", discard_help, opts, sizeof(opts) / sizeof(opts[0]), &a, argc, argv,
		run_discard);
}
