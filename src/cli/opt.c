/* SPDX-License-Identifier: Apache-2.0 */
/* Option parsing: see cli.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int cli_usage(const char *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "croft %s: ", cmd);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "; see: croft %s --help\n", cmd);
	return CROFT_EXIT_FAILED;
}

int cli_duration(const char *text, unsigned long long *ret_ms)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);
	unsigned long long unit = !strcmp(end, "ms")                    ? 1ull
				  : !strcmp(end, "") || !strcmp(end, "s") ? 1000ull
				  : !strcmp(end, "m")                     ? 60000ull
				  : !strcmp(end, "h")                     ? 3600000ull
				  : !strcmp(end, "d")                     ? 86400000ull
									  : 0;

	if (end == text || !unit || text[0] == '-' || n == 0 || n > 100000000)
		return -1;
	*ret_ms = n * unit;
	return 0;
}

/* The option that was probably meant. */
static const char *closest(const char *name, size_t len, const struct opt *opts, int n)
{
	const char *names[64];
	char word[64];

	if (len >= sizeof(word) || n > 64)
		return NULL;
	memcpy(word, name, len);
	word[len] = '\0';
	for (int i = 0; i < n; i++)
		names[i] = opts[i].name;
	return croft_suggest(word, names, (size_t)n);
}

static int store(const char *cmd, const struct opt *o, const char *value)
{
	struct opt_list *l = o->to;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->to = true;
		return 0;
	case OPT_VALUE:
		*(const char **)o->to = value;
		return 0;
	case OPT_LIST:
	default:
		if (l->n >= OPT_LIST_MAX) {
			cli_usage(cmd, "--%s was given more than %d times; use a policy file",
				o->name, OPT_LIST_MAX);
			return -1;
		}
		l->v[l->n++] = value;
		l->v[l->n] = NULL;
		return 0;
	}
}

static const struct opt *find_long(const struct opt *opts, int n, const char *name, size_t len)
{
	for (int i = 0; i < n; i++)
		if (strlen(opts[i].name) == len && strncmp(opts[i].name, name, len) == 0)
			return &opts[i];
	return NULL;
}

/* One argument; *i is moved on when the value is the next word. Returns 0, or -1 after a message. */
static int parse_one(const char *cmd, int argc, char **argv, int *i, const struct opt *opts, int n)
{
	const char *arg = argv[*i], *value = NULL;
	const struct opt *o = NULL;

	if (arg[1] == '-') {
		size_t len = strcspn(arg + 2, "=");

		o = find_long(opts, n, arg + 2, len);
		if (!o) {
			const char *near = closest(arg + 2, len, opts, n);

			cli_usage(cmd, "unknown option --%.*s%s%s%s", (int)(len > 60 ? 60 : len),
				arg + 2, near ? "; did you mean --" : "", near ? near : "",
				near ? "?" : "");
			return -1;
		}
		if (arg[2 + len] == '=')
			value = arg + 3 + len;
	} else {
		for (int k = 0; k < n && !o; k++)
			if (opts[k].letter && opts[k].letter == arg[1] && !arg[2])
				o = &opts[k];
		if (!o) {
			cli_usage(cmd, "unknown option %.60s", arg);
			return -1;
		}
	}
	if (o->kind == OPT_FLAG && value) {
		cli_usage(cmd, "--%s takes no value", o->name);
		return -1;
	}
	if (o->kind != OPT_FLAG && !value) {
		if (*i + 1 >= argc) {
			cli_usage(cmd, "--%s needs a value", o->name);
			return -1;
		}
		value = argv[++*i];
	}
	return store(cmd, o, value);
}

int opt_parse(const char *cmd, int argc, char **argv, const struct opt *opts, int opts_n)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			return i + 1;
		if (argv[i][0] != '-' || !argv[i][1])
			return i;
		if (parse_one(cmd, argc, argv, &i, opts, opts_n) < 0)
			return -1;
	}
	return argc;
}

int opt_parse_words(const char *cmd, int argc, char **argv, const struct opt *opts, int opts_n)
{
	char *words[OPT_WORDS_MAX];
	int n = 0, i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (argv[i][0] == '-' && argv[i][1]) {
			if (parse_one(cmd, argc, argv, &i, opts, opts_n) < 0)
				return -1;
		} else if (n < OPT_WORDS_MAX) {
			words[n++] = argv[i];
		} else {
			cli_usage(cmd, "more than %d words", OPT_WORDS_MAX);
			return -1;
		}
	}
	for (i += i < argc; i < argc && n < OPT_WORDS_MAX; i++)
		words[n++] = argv[i];
	memcpy(argv + argc - n, words, (size_t)n * sizeof(*words));
	return argc - n;
}
