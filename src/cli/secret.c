/* SPDX-License-Identifier: Apache-2.0 */
/* croft secret: set, ls, rm. A value passes through here only as a handle. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"

static const char help[] =
	"usage: croft secret set NAME [--from-file FILE | --from-command CMD | --from-env VAR]\n"
	"       croft secret ls [--json]\n"
	"       croft secret rm NAME…\n"
	"\n"
	"  set          store a value: from stdin, or asked for (twice, unseen) on a terminal\n"
	"  ls           names, lengths and when they were set; never values\n"
	"  rm           remove; sandboxes that are told of it lose it at once\n"
	"\n"
	"  --from-file FILE       the file's content\n"
	"  --from-command CMD     what a shell command prints, such as 'pass show github'\n"
	"  --from-env VAR         a variable of this shell\n"
	"  --json                 the list as JSON\n"
	"\n"
	"A value has 16 to 4096 bytes in one line; one newline at its end is cut. A policy binds "
	"it to where\n"
	"it may go (network.secrets, or croft run --secret NAME@HOST); the command inside sees a "
	"placeholder\n"
	"of the same length. Never put a value on a command line: others can read it there.\n";

struct secret_cmd {
	const char *file, *command, *env;
	bool json, help;
};

/* ---- asking on a terminal ---- */

static struct termios asked_before;
static volatile sig_atomic_t asking;

/* Ctrl-C while asking must not leave the user's terminal mute. */
static void give_up(int sig)
{
	if (asking)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &asked_before);
	signal(sig, SIG_DFL);
	raise(sig);
}

static int ask_once(struct croft *c, const char *what, const char *name, struct croft_secret **ret)
{
	const struct croft_secret_source from = {.fd = STDIN_FILENO, .line = true};
	int r;

	fprintf(stderr, "%s %s (not shown): ", what, name);
	fflush(stderr);
	r = croft_secret_read(c, &from, ret);
	fputc('\n', stderr);
	return r;
}

static int ask_quietly(struct croft *c, const char *name, struct croft_secret **ret)
{
	struct croft_secret *again = NULL;
	int code = 0;

	if (ask_once(c, "Value of", name, ret) < 0 ||
		ask_once(c, "Once more, the value of", name, &again) < 0) {
		code = cli_fail(c);
	} else if (!croft_secret_same(*ret, again)) {
		fprintf(stderr, "croft: the two values differ; nothing was stored\n");
		code = CROFT_EXIT_FAILED;
	}
	croft_secret_free(again);
	return code;
}

/* Twice, with echo off; the terminal is put back whatever happens. */
static int ask(struct croft *c, const char *name, struct croft_secret **ret)
{
	const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct termios quiet;
	int code;

	if (tcgetattr(STDIN_FILENO, &asked_before) < 0) {
		fprintf(stderr, "croft: the terminal cannot be read; give the value on stdin\n");
		return CROFT_EXIT_FAILED;
	}
	quiet = asked_before;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
	quiet.c_lflag |= ICANON | ISIG;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], give_up);
	asking = 1;
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0) {
		fprintf(stderr, "croft: the terminal's echo cannot be turned off; give the value "
				"on stdin\n");
		code = CROFT_EXIT_FAILED;
	} else {
		code = ask_quietly(c, name, ret);
	}
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &asked_before);
	asking = 0;
	return code;
}

/* ---- commands ---- */

static int secret_set(struct croft *c, const struct secret_cmd *sc, int argc, char **argv)
{
	const struct croft_secret_source from = {
		.file = sc->file, .command = sc->command, .env = sc->env, .fd = STDIN_FILENO};
	int sources = !!sc->file + !!sc->command + !!sc->env, code = 0;
	struct croft_secret *v = NULL;

	if (argc != 1)
		return cli_usage("secret",
			argc ? "set takes one name (a value never goes on the command line)"
			     : "set needs a name");
	if (sources > 1)
		return cli_usage(
			"secret", "--from-file, --from-command and --from-env exclude each other");
	if (croft_secret_name(c, argv[0]) < 0)
		return cli_fail(c);
	if (sources == 0 && cli_closed[STDIN_FILENO])
		return cli_usage("secret",
			"stdin is closed; give the value there or say where it comes from");
	if (sources == 0 && isatty(STDIN_FILENO))
		code = ask(c, argv[0], &v);
	else if (croft_secret_read(c, &from, &v) < 0)
		code = cli_fail(c);
	if (code == 0 && croft_secret_set(c, argv[0], v) < 0)
		code = cli_fail(c);
	croft_secret_free(v);
	return code;
}

static int secret_ls(struct croft *c, const struct secret_cmd *sc, int argc, char **argv)
{
	char *text = NULL;
	int code;

	if (argc > 0)
		return cli_usage("secret", "ls takes no arguments");
	if (croft_secret_list(c, sc->json ? CROFT_JSON : CROFT_TEXT, &text) < 0)
		return cli_fail(c);
	code = cli_print(text);
	free(text);
	return code;
}

static int secret_rm(struct croft *c, const struct secret_cmd *sc, int argc, char **argv)
{
	int code = 0;

	if (argc == 0)
		return cli_usage("secret", "rm needs a name");
	for (int i = 0; i < argc; i++)
		if (croft_secret_remove(c, argv[i]) < 0)
			code = cli_fail(c);
	return code;
}

static const struct {
	const char *name;
	int (*run)(struct croft *c, const struct secret_cmd *sc, int argc, char **argv);
	bool json, from; /* which options it takes */
} commands[] = {{"set", secret_set, false, true}, {"ls", secret_ls, true, false},
	{"rm", secret_rm, false, false}};
#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

/* Options may stand before and after the names: "set NAME --from-file F" is how people write it. */
static int parse(struct secret_cmd *sc, int argc, char **argv)
{
	const struct opt opts[] = {{"from-file", 0, OPT_VALUE, &sc->file},
		{"from-command", 0, OPT_VALUE, &sc->command}, {"from-env", 0, OPT_VALUE, &sc->env},
		{"json", 0, OPT_FLAG, &sc->json}, {"help", 'h', OPT_FLAG, &sc->help}};

	return opt_parse_words("secret", argc, argv, opts, sizeof(opts) / sizeof(opts[0]));
}

static int dispatch(size_t which, int argc, char **argv)
{
	struct secret_cmd sc = {0};
	int i = parse(&sc, argc, argv), code;
	struct croft *c;

	if (i < 0)
		return CROFT_EXIT_FAILED;
	if (sc.help)
		return cli_print(help);
	if (sc.json && !commands[which].json)
		return cli_usage("secret", "--json goes with ls");
	if ((sc.file || sc.command || sc.env) && !commands[which].from)
		return cli_usage(
			"secret", "--from-file, --from-command and --from-env go with set");
	c = croft_new();
	if (!c) {
		fprintf(stderr, "croft: out of memory\n");
		return CROFT_EXIT_FAILED;
	}
	code = commands[which].run(c, &sc, argc - i, argv + i);
	croft_free(c);
	return code;
}

int cmd_secret(int argc, char **argv)
{
	if (argc < 2)
		return cli_usage("secret", "say what: set, ls or rm");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cli_print(help);
	for (size_t i = 0; i < COMMANDS_N; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return dispatch(i, argc - 1, argv + 1);
	return cli_usage("secret", "there is no \"%.60s\"; it is set, ls or rm", argv[1]);
}
