/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft complete: what may come next on a command line, for the shells (contrib/completions).
 *
 * Purpose: one place that knows, so that bash, zsh and fish offer the same.
 * Order:   commands come from main's table; their options, values and words from their own help
 *          texts, which are asked for as a user would. So a new option is offered as soon as its help
 *          names it. Names of things come from the library.
 * Input:   the words after "croft", the last one (maybe empty) is being typed.
 * Output:  one candidate in each line, a tab and what it means. A line that starts with ':' tells the
 *          shell to offer things of its own: files, directories, commands, variables, revisions,
 *          remotes, or "rest N": from word N on it is a command line of another program.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

#define HELP_MAX_B 32768
#define WORD_MAX_B 64
#define OPTIONS_MAX 96
#define POSITIONS_MAX 8

struct option {
	char name[WORD_MAX_B];  /* with its dashes */
	char value[WORD_MAX_B]; /* what its help calls the value; "": it takes none */
	char what[128];         /* what its help says of it */
};

/* What the help of one command says. */
struct grammar {
	const char *command;
	char help[HELP_MAX_B];
	struct option options[OPTIONS_MAX];
	size_t options_n;
	char positions[POSITIONS_MAX][WORD_MAX_B];
	size_t positions_n;
	bool all; /* "[OPTIONS]": those of the list below, too */
};

/* The words before the one that is typed. */
struct line {
	char **words;
	int n; /* with the one that is typed */
	const char *typed;
	const char *before; /* "--tier=": stands before what is typed, and before each candidate */
	const char *positional[POSITIONS_MAX + 1]; /* those that were given */
	size_t given;
};

static void offer(const struct line *l, const char *word, const char *what)
{
	if (strncmp(word, l->typed, strlen(l->typed)) == 0)
		printf("%s%s\t%s\n", l->before, word, what);
}

/* ---- help texts ---- */

/* What "croft WORDS… --help" prints. */
static bool ask_help(char **words, int n, char *ret)
{
	char option[] = "--help", *argv[4] = {words[0], n > 1 ? words[1] : option, option, NULL};
	size_t len = 0;
	ssize_t got;
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 2) < 0 || dup2(p[1], 1) < 0)
			_exit(CROFT_EXIT_FAILED);
		if (n == 1)
			argv[2] = NULL;
		_exit(cli_end(cli_run_word(words[0], n + 1, argv)));
	}
	close(p[1]);
	while (pid > 0 && len < HELP_MAX_B - 1 &&
		(got = read(p[0], ret + len, HELP_MAX_B - 1 - len)) > 0)
		len += (size_t)got;
	ret[len] = '\0';
	close(p[0]);
	return pid > 0 && waitpid(pid, NULL, 0) == pid && len > 0;
}

/* A copy that ends at the first of `ends`; what is too long for it is left out. */
static size_t take(char *ret, const char *from, const char *ends)
{
	size_t n = strcspn(from, ends);

	if (n >= WORD_MAX_B)
		n = 0;
	memcpy(ret, from, n);
	ret[n] = '\0';
	return n;
}

static struct option *find(struct grammar *g, const char *name)
{
	for (size_t i = 0; i < g->options_n; i++)
		if (strcmp(g->options[i].name, name) == 0)
			return &g->options[i];
	return NULL;
}

static struct option *add(struct grammar *g, const char *name)
{
	struct option *o = find(g, name);

	if (o || g->options_n == OPTIONS_MAX)
		return o;
	o = &g->options[g->options_n++];
	snprintf(o->name, sizeof(o->name), "%s", name);
	return o;
}

/* At a dash: an option, and the value that follows after one blank. Returns where it ends. */
static const char *read_option(struct grammar *g, const char *p, const char *ends)
{
	char name[WORD_MAX_B], value[WORD_MAX_B] = "";
	struct option *o;

	p += take(name, p, " ,[]\n");
	if (p[0] == ' ' && p[1] != ' ' && p[1] != '-' && p[1] != '|' && p[1] != '\n')
		p += 1 + take(value, p + 1, ends);
	if (strspn(name, "-") == strlen(name))
		return p;
	o = add(g, name);
	if (o && *value)
		memcpy(o->value, value, sizeof(value));
	return p;
}

/* "[-q] [--json] NAME [LABEL]", up to the end of a line or a description. */
static void read_usage(struct grammar *g, const char *p)
{
	while (*p && *p != '\n' && strncmp(p, "  ", 2) != 0 && strncmp(p, ", croft", 7) != 0) {
		char word[WORD_MAX_B];

		if (*p == '-') {
			p = read_option(g, p, " ,[]\n");
		} else if (isupper((unsigned char)*p)) {
			size_t n = take(word, p, " ,[]\n");
			bool other = p[-1] == ' ' &&
				     p[-2] == '|'; /* another way to say the one before */

			if (strncmp(word, "OPTION", 6) == 0)
				g->all = true;
			else if (n && !other && g->positions_n < POSITIONS_MAX)
				memcpy(g->positions[g->positions_n++], word, sizeof(word));
			p += n ? n : 1;
		} else {
			p++;
		}
	}
}

/* What comes after options and two blanks, or in the line below, is said of each of them. */
static void describe(struct grammar *g, const char *names, const char *p)
{
	const char *end, *gap;
	char name[WORD_MAX_B];
	struct option *o;

	if (*p == '\n' && strncmp(p + 1, "     ", 5) == 0)
		p += 1 + strspn(p + 1, " ");
	p += strspn(p, " ");
	gap = strstr(p, "    ");
	end = p + strcspn(p, "\n");
	if (gap && gap < end)
		end = gap;
	for (; names < p; names += strcspn(names, "-") ? strcspn(names, "-") : 1) {
		names += take(name, names, " ,\n");
		o = find(g, name);
		if (o && !*o->what)
			snprintf(o->what, sizeof(o->what), "%.*s", (int)(end - p), p);
	}
}

/* Does this line of the list explain an option of the usage? */
static bool explains(struct grammar *g, const char *p)
{
	char name[WORD_MAX_B];

	while (*p == '-') {
		p += take(name, p, " ,\n");
		if (find(g, name))
			return true;
		p += strncmp(p, ", -", 3) == 0 ? 2 : 0;
	}
	return false;
}

/* A line of the list of options: without "[OPTIONS]" only if it explains one of the usage. */
static void read_line(struct grammar *g, const char *p)
{
	const char *gap = p;

	if (!g->all && !explains(g, p))
		return;
	while (*gap == '-') {
		gap = read_option(g, gap, " ,\n");
		if (strncmp(gap, ", -", 3) == 0 || strncmp(gap, "  -", 3) == 0)
			gap += 2;
	}
	describe(g, p, gap);
	/* A second column, after four blanks. */
	for (const char *col = gap;
		(col = strstr(col, "    ")) && col < gap + strcspn(gap, "\n");) {
		col += strspn(col, " ");
		if (*col == '-')
			read_line(g, col);
	}
}

/* All that a help text says of "croft COMMAND [SUB]". */
static void read_help(struct grammar *g, const char *command, const char *sub)
{
	const char *usage_end = strstr(g->help, "\n\n"), *p;
	char word[2 * WORD_MAX_B], start[WORD_MAX_B];

	snprintf(word, sizeof(word), "croft %s%s%s", command, sub ? " " : "", sub ? sub : "");
	snprintf(start, sizeof(start), "\n  %s ", sub ? sub : "");
	for (p = g->help; (p = strstr(p, word)) && usage_end && p < usage_end; p++)
		if (strchr(" \n", p[strlen(word)]))
			read_usage(g, p + strlen(word));
	if (sub)
		for (p = g->help; (p = strstr(p, start)); p++)
			if (p[strlen(start)] != ' ')
				read_usage(g, p + strlen(start));
	for (p = strstr(g->help, "\n  -"); p; p = strstr(p + 1, "\n  -"))
		read_line(g, p + 3);
	add(g, "--help");
}

/* Offers the commands below a command that has some, and says whether it has. */
static bool offer_subs(const struct line *l, struct grammar *g, const char *command, bool show)
{
	const char *end = strstr(g->help, "\n\n"), *p = g->help;
	char start[2 * WORD_MAX_B], word[WORD_MAX_B], again[WORD_MAX_B + 8];
	bool any = false, listed;
	size_t n;

	n = (size_t)snprintf(start, sizeof(start), "croft %s ", command);
	listed = strncmp(p, "usage: ", 7) == 0 && strncmp(p + 7 + n, "COMMAND", 7) == 0;
	for (; !listed && (p = strstr(p, start)) && end && p < end; p++)
		if (islower((unsigned char)p[n])) {
			any = true;
			take(word, p + n, " \n");
			if (show)
				offer(l, word, "");
		}
	for (p = g->help; listed && (p = strstr(p, "\n  ")); p++)
		if (islower((unsigned char)p[3])) {
			any = true;
			take(word, p + 3, " \n");
			snprintf(again, sizeof(again), "\n  %s ", word);
			if (show && !strstr(p + 1, again))
				offer(l, word, "");
		}
	return any;
}

/* ---- names of things ---- */

static void offer_names(const struct line *l, enum croft_names what, const char *of,
	const char *end, const char *is)
{
	struct croft *c = croft_new();
	char *text = NULL, word[4096];

	if (c && croft_names(c, what, of, &text) >= 0)
		for (char *p = text, *q; (q = strchr(p, '\n')); p = q + 1)
			if (snprintf(word, sizeof(word), "%.*s%s", (int)(q - p), p, end) <
				(int)sizeof(word))
				offer(l, word, is);
	free(text);
	croft_free(c);
}

/* Environments that are up, or the processes of one. */
static void offer_sessions(const struct line *l, const char *of)
{
	struct croft *c = croft_new();
	struct croft_sessions *s = NULL;

	if (c && croft_sessions(c, of, &s) >= 0)
		for (size_t i = 0; i < s->n; i++) {
			char id[16];

			if (!of)
				offer(l, s->v[i].name, "environment that is up");
			for (size_t k = 0; of && k < s->v[i].processes_n; k++) {
				snprintf(id, sizeof(id), "%u", s->v[i].processes[k].process);
				offer(l, id, "process");
			}
		}
	croft_sessions_free(s);
	croft_free(c);
}

/* "auto (default), namespace, process", or "namespace|process". */
static void offer_words(const struct line *l, const char *list)
{
	char word[WORD_MAX_B];

	while (*list) {
		size_t n = take(word, list, " ,|");

		if (n && islower((unsigned char)word[0]))
			offer(l, word, "");
		list += n ? n : 1;
	}
}

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

/* The value of an option, by what its help calls it. */
static void offer_value(const struct line *l, const struct grammar *g, const struct option *o)
{
	static const struct {
		const char *value, *says;
	} shell[] = {{"FILE", ":files"}, {"FILE|-", ":files"}, {"P", ":files"},
		{"DIR", ":directories"}, {"K[=V]", ":variables"}, {"VAR", ":variables"},
		{"REV", ":revisions"}, {"BRANCH", ":revisions"}, {"CMD", ":commands"}};
	static const char signals[] = "TERM INT HUP KILL QUIT STOP CONT USR1 USR2";
	char word[WORD_MAX_B];

	for (size_t i = 0; i < sizeof(shell) / sizeof(shell[0]); i++)
		if (strcmp(o->value, shell[i].value) == 0)
			puts(shell[i].says);
	if (strcmp(o->value, "BUNDLE") == 0)
		offer_names(l, CROFT_NAMES_BUNDLES, NULL, "", "bundle");
	else if (strcmp(o->value, "NAME@HOST") == 0)
		offer_names(l, CROFT_NAMES_SECRETS, NULL, "@", "secret");
	else if (strcmp(o->name, "--profile") == 0)
		offer_names(l, CROFT_NAMES_PROFILES, NULL, "", "profile");
	else if (strcmp(o->value, "PATH") == 0 && l->given && strcmp(g->command, "review") == 0)
		offer_names(l, CROFT_NAMES_CHANGES, l->positional[0], "", "changed");
	else if (strcmp(o->value, "PATH") == 0)
		puts(":files");
	else if (strcmp(o->value, "SIGNAL") == 0)
		for (const char *p = signals; *p; p += strspn(p, " ")) {
			p += take(word, p, " ");
			offer(l, word, "signal");
		}
	else if (strcmp(o->value, "T") == 0 || strcmp(o->value, "MODE") == 0)
		offer_words(l, o->what);
	else if (strspn(o->value, "abcdefghijklmnopqrstuvwxyz|") == strlen(o->value))
		offer_words(l, o->value);
}

static void offer_agents(const struct line *l)
{
	offer_names(l, CROFT_NAMES_AGENTS, NULL, "", "agent");
	offer(l, "ls", "the agents that are known");
	offer(l, "show", "what is known of one");
	offer(l, "save", "what it changed in its configuration");
	offer(l, "add", "a data file of your own");
}

/* A word of the command itself, by what its usage calls it. */
static void offer_position(const struct line *l, const struct grammar *g, const char *is, int at)
{
	static const char *const up[] = {
		"down", "ps", "logs", "attach", "kill", "port", "pause", "resume", NULL};
	static const char *const waiting[] = {"allow", "deny", NULL};
	const char *env = l->given ? l->positional[0] : NULL;
	char name[WORD_MAX_B];

	take(name, is, "|\xe2"); /* "NAME…", "PATH…|HOST:PORT…" */
	if (strcmp(name, "CMD") == 0)
		printf(":rest %d\n", at);
	else if (strcmp(name, "FILE") == 0)
		puts(":files");
	else if (strcmp(name, "AGENT") == 0)
		offer_agents(l);
	else if (strcmp(name, "DIR") == 0)
		puts(":directories");
	else if (strcmp(name, "REMOTE") == 0)
		puts(":remotes");
	else if (strcmp(name, "RANGE") == 0)
		puts(":revisions");
	else if (strcmp(name, "LABEL") == 0 && strcmp(g->command, "restore") == 0)
		offer_names(l, CROFT_NAMES_SNAPSHOTS, env, "", "snapshot");
	else if (strcmp(name, "ID") == 0 && is_one_of(g->command, up))
		offer_sessions(l, env);
	else if (strcmp(name, "PATH") == 0 && strcmp(g->command, "policy") == 0)
		puts(":files");
	else if (strcmp(name, "PATH") == 0)
		offer_names(l, CROFT_NAMES_CHANGES, env, "", "changed");
	else if ((strcmp(name, "A") == 0 || strcmp(name, "B") == 0) && puts(":files") >= 0)
		offer_names(l, CROFT_NAMES_PROFILES, NULL, "", "profile");
	else if (strcmp(name, "NAME") != 0 && strcmp(name, "ENV") != 0)
		return;
	else if (is_one_of(g->command, up))
		offer_sessions(l, NULL);
	else if (strcmp(g->command, "secret") == 0)
		offer_names(l, CROFT_NAMES_SECRETS, NULL, "", "secret");
	else if (strcmp(g->command, "new") != 0 && !is_one_of(g->command, waiting))
		offer_names(l, CROFT_NAMES_ENVS, NULL, "", "environment");
}

/* ---- the line ---- */

static void complete_words(struct line *l, struct grammar *g, int first)
{
	struct option *o = NULL; /* whose value comes next */
	char name[WORD_MAX_B], before[WORD_MAX_B + 2];
	bool plain = false; /* after "--" */
	const char *equals;
	size_t last;

	for (int i = first; i < l->n - 1; i++) {
		const char *w = l->words[i];

		if (o) {
			o = NULL;
		} else if (!plain && strcmp(w, "--") == 0) {
			plain = true;
		} else if (!plain && w[0] == '-' && w[1]) {
			o = strchr(w, '=') ? NULL : find(g, w);
			if (o && !*o->value)
				o = NULL;
		} else {
			last = l->given < g->positions_n ? l->given : g->positions_n;
			if (last < g->positions_n && strcmp(g->positions[last], "CMD") == 0) {
				printf(":rest %d\n", i);
				return;
			}
			if (l->given < POSITIONS_MAX)
				l->positional[l->given++] = w;
		}
	}
	if (!o && !plain && l->typed[0] == '-' && (equals = strchr(l->typed, '=')) != NULL &&
		(size_t)(equals - l->typed) < sizeof(name)) {
		snprintf(name, sizeof(name), "%.*s", (int)(equals - l->typed), l->typed);
		snprintf(before, sizeof(before), "%s=", name);
		l->before = before;
		l->typed = equals + 1;
		o = find(g, name);
		if (!o)
			return;
	}
	if (o) {
		offer_value(l, g, o);
	} else if (!plain && l->typed[0] == '-') {
		for (size_t i = 0; i < g->options_n; i++)
			offer(l, g->options[i].name, g->options[i].what);
	} else if (g->positions_n) {
		last = l->given < g->positions_n ? l->given : g->positions_n - 1;
		if (l->given < g->positions_n || strstr(g->positions[last], "…"))
			offer_position(l, g, g->positions[last], l->n - 1);
	}
}

static void complete_first(const struct line *l, bool options)
{
	const char *name, *what;

	for (size_t i = 0; cli_command(i, &name, &what); i++)
		offer(l, name, what);
	offer(l, "help", "help, of one command or all");
	offer(l, "version", "the version");
	if (options && l->typed[0] == '-') {
		offer(l, "--help", "help");
		offer(l, "--version", "the version");
	}
}

static void complete(struct line *l)
{
	static struct grammar g;
	static char exec[] = "exec";
	const char *command = l->words[0];
	bool subs;

	if (l->n == 1) {
		complete_first(l, true);
		return;
	}
	if (strcmp(command, "help") == 0 && l->n == 2) {
		complete_first(l, false);
		return;
	}
	if (strcmp(command, "help") == 0) {
		l->words++;
		l->n--;
		command = l->words[0];
		if (l->n == 2 && ask_help(l->words, 1, g.help))
			offer_subs(l, &g, command, true);
		return;
	}
	g.command = command;
	if (strcmp(command, "shell") == 0)
		command = l->words[0] = exec; /* whose options it takes */
	if (!ask_help(l->words, 1, g.help))
		return;
	subs = offer_subs(l, &g, command, l->n == 2);
	if (subs && l->n == 2)
		return;
	if (subs && !ask_help(l->words, 2, g.help))
		return;
	read_help(&g, command, subs ? l->words[1] : NULL);
	if (strcmp(g.command, "shell") == 0)
		g.positions_n = 1;
	complete_words(l, &g, subs ? 2 : 1);
}

int cmd_complete(int argc, char **argv)
{
	struct line l = {.before = ""};

	if (argc < 3 || strcmp(argv[1], "--") != 0)
		return cli_usage("complete", "the shells ask this: complete -- WORDS");
	l.words = argv + 2;
	l.n = argc - 2;
	l.typed = l.words[l.n - 1];
	complete(&l);
	return 0;
}
