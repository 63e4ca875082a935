/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft: the launcher. Finds the command, makes descriptors and signals sane, prints failures once.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define OUTPUT_BUFFER_B 65536

bool cli_closed[3];

static const char usage[] =
	"croft gives a coding agent its own enclosed plot of your machine.\n"
	"\n"
	"usage: croft COMMAND [OPTIONS]\n"
	"\n"
	"run\n"
	"  run [OPTIONS] [--] CMD…      run one command in a sandbox\n"
	"  new NAME                     make an environment: a lasting workspace, its changes "
	"staged\n"
	"  exec NAME [--] CMD…          run a command in it       shell NAME   a shell in it\n"
	"  snapshot, restore, fork      keep its state, go back to it, go on from it twice\n"
	"  ls, status NAME, log NAME    what there is, what is staged, what happened\n"
	"  rm NAME, gc                  remove one; reclaim what is of no use any more\n"
	"review\n"
	"  diff NAME, compare A B…      what was changed\n"
	"  review NAME                  walk the changes and decide, hunk by hunk\n"
	"  apply, revert, discard NAME  land what was accepted; take it back out; throw it away\n"
	"  evidence show|verify|export|push|fetch|check|key\n"
	"                               the signed record of what was done\n"
	"  replay NAME [N]              do recorded commands still give what they gave?\n"
	"boundary\n"
	"  policy show|check|explain|diff|trust|learn|set\n"
	"                               see, test, approve and derive policies\n"
	"  secret set|ls|rm             credentials that sandboxes use and never see\n"
	"  pending, allow ID, deny ID   connections that wait for your decision\n"
	"  why [RUN[.N]]                why was something denied, and what would allow it\n"
	"  doctor [--json]              what this machine can enforce, and how to get the rest\n"
	"  prove [--tier T] [--json]    try the known escapes against the real boundary\n"
	"  help [COMMAND], version\n"
	"\n"
	"Start with: croft run -- CMD    Each command has --help. Manual: man croft\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"run", cmd_run}, {"exec", cmd_exec}, {"new", cmd_new}, {"shell", cmd_shell},
	{"ls", cmd_ls}, {"status", cmd_status}, {"log", cmd_log}, {"diff", cmd_diff},
	{"compare", cmd_compare}, {"review", cmd_review}, {"apply", cmd_apply},
	{"revert", cmd_revert}, {"discard", cmd_discard}, {"snapshot", cmd_snapshot},
	{"restore", cmd_restore}, {"fork", cmd_fork}, {"rm", cmd_rm}, {"gc", cmd_gc},
	{"evidence", cmd_evidence}, {"replay", cmd_replay}, {"policy", cmd_policy},
	{"why", cmd_why}, {"doctor", cmd_doctor}, {"prove", cmd_prove}, {"secret", cmd_secret},
	{"pending", cmd_pending}, {"allow", cmd_allow}, {"deny", cmd_deny},
	{"probe", croft_probe_main}, /* inside a sandbox only: one escape attempt */
};

/* Commands of later versions: known words, so that the answer is clear. */
static const char *const later[] = {"image", "serve", "mcp", "oci"};

int cli_fail(struct croft *c)
{
	fprintf(stderr, "croft: %s\n", croft_error(c));
	return croft_error_exit(c);
}

/*
 * Descriptors 0–2 must be something before anything is opened, or the first file we open would be
 * taken for standard output. What was closed stays closed for the command's purposes (/dev/null).
 */
static void settle_stdio(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		cli_closed[fd] = true;
		if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
			_exit(CROFT_EXIT_FAILED);
	}
}

static int unknown(const char *word)
{
	const char *names[sizeof(commands) / sizeof(commands[0])];
	const char *near;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		names[i] = commands[i].name;
	near = croft_suggest(word, names, sizeof(names) / sizeof(names[0]));
	fprintf(stderr, "croft: there is no command called %.60s%s%s%s; see: croft help\n", word,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return CROFT_EXIT_FAILED;
}

static int run_word(const char *word, int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(word, commands[i].name))
			return commands[i].run(argc, argv);
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (!strcmp(word, later[i])) {
			fprintf(stderr, "croft: %s is not available in this version\n", later[i]);
			return CROFT_EXIT_FAILED;
		}
	return unknown(word);
}

/* "croft help exec" is "croft exec --help"; also "croft help evidence export". */
static int help(int argc, char **argv)
{
	char option[] = "--help", *words[] = {argv[1], NULL, NULL, NULL};
	int n = 1;

	if (argc < 2 || argv[1][0] == '-' || !strcmp(argv[1], "help") ||
		!strcmp(argv[1], "version"))
		return cli_print(usage);
	if (argc > 2 && (!strcmp(argv[1], "evidence") || !strcmp(argv[1], "policy")))
		words[n++] = argv[2];
	words[n++] = option;
	return run_word(argv[1], n, words);
}

static int answer(int argc, char **argv)
{
	if (argc < 2) {
		fputs(usage, stderr);
		return CROFT_EXIT_FAILED;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help(argc - 1, argv + 1);
	if (!strcmp(argv[1], "version") || !strcmp(argv[1], "--version"))
		return cli_print("croft " CROFT_VERSION "\n");
	return run_word(argv[1], argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	static char buffer[OUTPUT_BUFFER_B];

	croft_end_with(getppid()); /* first: from now on it is noticed when it ends */
	settle_stdio();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	/* What is printed in pieces fails, if it does, when it is flushed: there errno still says why. */
	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	return cli_end(answer(argc, argv));
}
