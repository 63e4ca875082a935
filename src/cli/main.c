/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft: the launcher. Finds the command, makes descriptors and signals sane, prints failures once.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
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
	"  agent NAME [ARGS…]           run a coding agent: claude, codex, gemini, …\n"
	"  new NAME                     make an environment: a lasting workspace, its changes "
	"staged\n"
	"  exec NAME [--] CMD…          run a command in it       shell NAME   a shell in it\n"
	"  snapshot, restore, fork      save its state, go back to one, go on from it twice\n"
	"  ls, status NAME, log NAME    what there is, what is staged, what happened\n"
	"  rm NAME, gc                  remove one; reclaim what is of no use any more\n"
	"sessions: a sandbox that stays up for any number of commands\n"
	"  up NAME, down NAME           start it, end it; exec and shell join it meanwhile\n"
	"  exec -d NAME [--] CMD…       start a command in it and leave it running\n"
	"  ps [NAME]                    what is up, and what runs there\n"
	"  logs NAME [ID]               what a command has written\n"
	"  attach NAME [ID]             your terminal on a running command\n"
	"  kill NAME ID…                end a command, or send it a signal\n"
	"  port NAME PORT               reach a server in it from this machine\n"
	"  pause NAME, resume NAME      stop everything in it for a while\n"
	"review\n"
	"  diff NAME, compare A B…      what was changed\n"
	"  review NAME                  walk the changes and decide, hunk by hunk\n"
	"  apply, revert, discard NAME  land what was accepted; take it back out; throw it away\n"
	"  evidence show|verify|export|push|fetch|check|key\n"
	"                               the signed record of what was done\n"
	"  replay NAME [N]              do recorded commands still give what they gave?\n"
	"boundary\n"
	"  init                         write a croft.yaml for this project, each line explained\n"
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
	const char *what; /* in a few words, for completions; NULL: not for people */
} commands[] = {
	{"run", cmd_run, "run one command in a sandbox"},
	{"agent", cmd_agent, "run a coding agent in a sandbox that fits it"},
	{"new", cmd_new, "make an environment"},
	{"exec", cmd_exec, "run a command in an environment"},
	{"shell", cmd_shell, "a shell in an environment"},
	{"up", cmd_up, "start the sandbox of an environment and keep it"},
	{"down", cmd_down, "end the sandbox of an environment"},
	{"ps", cmd_ps, "processes of the sandboxes that are up"},
	{"logs", cmd_logs, "what a process has written"},
	{"attach", cmd_attach, "connect the terminal to a process"},
	{"kill", cmd_kill, "send a signal to a process"},
	{"port", cmd_port, "show a port of a sandbox on this machine"},
	{"pause", cmd_pause, "stop every process of a sandbox"},
	{"resume", cmd_resume, "let a paused sandbox go on"},
	{"ls", cmd_ls, "list environments"},
	{"status", cmd_status, "what is staged in an environment"},
	{"log", cmd_log, "what happened in an environment"},
	{"snapshot", cmd_snapshot, "keep the state of an environment"},
	{"restore", cmd_restore, "go back to a snapshot"},
	{"fork", cmd_fork, "make a second environment from one"},
	{"rm", cmd_rm, "remove environments"},
	{"gc", cmd_gc, "reclaim what is of no use any more"},
	{"diff", cmd_diff, "what an environment changed"},
	{"compare", cmd_compare, "environments side by side"},
	{"review", cmd_review, "decide about the changes, hunk by hunk"},
	{"apply", cmd_apply, "land the changes"},
	{"revert", cmd_revert, "take a landing back out"},
	{"discard", cmd_discard, "throw staged changes away"},
	{"init", cmd_init, "write a croft.yaml for this project"},
	{"evidence", cmd_evidence, "the signed record"},
	{"replay", cmd_replay, "run recorded commands again"},
	{"policy", cmd_policy, "see, test, approve and derive policies"},
	{"secret", cmd_secret, "credentials that sandboxes use and never see"},
	{"pending", cmd_pending, "connections that wait for a decision"},
	{"allow", cmd_allow, "let a waiting connection through"},
	{"deny", cmd_deny, "refuse a waiting connection"},
	{"why", cmd_why, "why something was denied"},
	{"doctor", cmd_doctor, "what this machine can enforce"},
	{"prove", cmd_prove, "try the known escapes"},
	{"complete", cmd_complete, NULL}, /* asked by the shells, see contrib/completions */
	{"session", cmd_session, NULL},   /* the process of croft up */
	{"probe", croft_probe_main, NULL}, /* inside a sandbox only: one escape attempt */
};

/* Commands of later versions: known words, so that the answer is clear. */
static const char *const later[] = {"image", "serve", "mcp", "oci"};

int cli_fail(struct croft *c)
{
	fprintf(stderr, "croft: %s\n", croft_error(c));
	return croft_error_exit(c);
}

int cli_fail_start(struct croft *c)
{
	int code = cli_fail(c);

	/* What was typed for the command is no command for the shell that started us. */
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		tcflush(STDIN_FILENO, TCIFLUSH);
	return code;
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
	size_t n = 0;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].what)
			names[n++] = commands[i].name;
	near = croft_suggest(word, names, n);
	fprintf(stderr, "croft: there is no command called %.60s%s%s%s; see: croft help\n", word,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return CROFT_EXIT_FAILED;
}

bool cli_command(size_t n, const char **ret_name, const char **ret_what)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!commands[i].what || n--)
			continue;
		*ret_name = commands[i].name;
		*ret_what = commands[i].what;
		return true;
	}
	return false;
}

int cli_run_word(const char *word, int argc, char **argv)
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
	if (!strcmp(argv[1], "session")) /* what people look for; the command of that name is not theirs */
		return cli_print("croft up, down, exec, ps, logs, attach, kill, port, pause and resume "
				 "are about sessions:\nsee man croft-session, or croft help COMMAND\n");
	words[n++] = option;
	return cli_run_word(argv[1], n, words);
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
	return cli_run_word(argv[1], argc - 1, argv + 1);
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
