/* SPDX-License-Identifier: Apache-2.0 */
/* Which names of a writable tree must be read-only: see held.h. */
#include "core/held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/runs.h"

#define HELD_LIST_MAX                                                                              \
	4096 /* entries of one directory that are listed; of larger ones names are tried */

/* What Git executes of a repository that is there: nobody but Git itself needs to write it. */
static const char *const git_names[] = {"hooks", "config", "config.worktree", "info/attributes"};

struct search {
	struct held *held;
	const struct policy *p; /* with policy_hold() */
	const char *home;
	const char *tree; /* the grant at hand */
	int fd;
};

static bool is_within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return n == 1 || (strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]));
}

static void add(struct search *s, const char *path, const struct stat *st)
{
	if (S_ISLNK(st->st_mode))
		s->held->broker = true; /* a mount would cover where it leads, not the name */
	if (!strlist_add(&s->held->paths, path))
		s->held->broker = true;
}

/* One name below the tree, if it is there and nothing grants or narrows it by itself. */
static void look(struct search *s, const char *rest)
{
	const struct policy_rule *rule = NULL;
	char path[POLICY_PATH_MAX];
	struct stat st;
	size_t n = strlen(rest);
	int len;

	if (n && rest[n - 1] == '/')
		n--;
	len = snprintf(path, sizeof(path), "%s/%.*s", s->tree[1] ? s->tree : "", (int)n, rest);
	if (len >= (int)sizeof(path) || lstat(path, &st) < 0)
		return;
	policy_access(s->p, path, &rule);
	if (policy_rule_holds(rule, path))
		add(s, path, &st);
}

/* Whatever in the list begins with this entry of the tree. */
static void look_at_entry(struct search *s, const char *name)
{
	for (const struct runs_entry *x = NULL; (x = runs_next_held(name, x));) {
		const char *slash = strchr(x->pattern, '/');
		char rest[POLICY_PATH_MAX];

		if (x->hold != HOLD_ANYWHERE)
			continue;
		snprintf(rest, sizeof(rest), "%s%s", name, slash ? slash : "");
		look(s, rest);
	}
}

/* The tree is listed; one that is too large for that is asked for each name. */
static void look_in_tree(struct search *s)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	unsigned n = 0;
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && !(d = fdopendir(fd)))
		close(fd);
	while (d && n < HELD_LIST_MAX && (de = readdir(d))) {
		look_at_entry(s, de->d_name);
		n++;
	}
	if (d && n < HELD_LIST_MAX)
		return;
	for (size_t i = 0; i < runs_table_n; i++)
		if (runs_table[i].hold == HOLD_ANYWHERE && !strchr(runs_table[i].pattern, '*'))
			look(s, runs_table[i].pattern);
}

/* Names of the home directory that lie in this tree. */
static void look_at_home(struct search *s)
{
	struct search at = *s;

	at.tree = s->home;
	for (size_t i = 0; i < runs_table_n; i++) {
		char path[POLICY_PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", s->home, runs_table[i].pattern);
		if (runs_table[i].hold == HOLD_AT_HOME && is_within(s->tree, path))
			look(&at, runs_table[i].pattern);
	}
}

/* A repository in a writable tree: what Git would execute of it. */
static void look_at_git(struct search *s)
{
	static const char git[] = "/.git";
	size_t n = strlen(s->tree);
	bool own = n > sizeof(git) - 1 && str_eq(s->tree + n - (sizeof(git) - 1), git);
	const char *dir = own ? s->tree : "";
	char path[POLICY_PATH_MAX];
	struct stat st;

	if (!own) {
		snprintf(path, sizeof(path), "%s%s", s->tree[1] ? s->tree : "", git);
		if (lstat(path, &st) < 0)
			return;
		dir = path;
	}
	for (size_t i = 0; i < ARRAY_SIZE(git_names); i++) {
		const struct policy_rule *rule = NULL;
		char name[POLICY_PATH_MAX + 32];

		snprintf(name, sizeof(name), "%s/%s", dir, git_names[i]);
		if (strlen(name) < POLICY_PATH_MAX && lstat(name, &st) == 0 &&
			policy_access(s->p, name, &rule) == ACCESS_WRITE &&
			!str_eq(rule->path, name))
			add(s, name, &st);
	}
}

static void look_at_grant(struct search *s, const struct policy_rule *r)
{
	cleanup_fd int fd = -1;

	if (r->glob) {
		s->held->broker = true; /* what it will match is not known yet */
		return;
	}
	if (is_within(r->path, s->home) || runs_held_below(r->path, s->home))
		s->held->broker = true;
	fd = open(r->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return; /* a single file, or nothing */
	s->tree = r->path;
	s->fd = fd;
	look_in_tree(s);
	look_at_home(s);
	look_at_git(s);
}

int held_find(
	struct held *ret, struct policy *p, const char *home, const char *except, struct err *e)
{
	struct policy holding = *p;
	struct search s = {.held = ret, .p = &holding, .home = home};

	if (!home || home[0] != '/')
		return err_invalid(e, "the home directory has no absolute path");
	policy_hold(&holding, home, except);
	ret->broker = false;
	for (size_t i = 0; i < p->rules_n; i++)
		if (p->rules[i].access == ACCESS_WRITE &&
			!(except && is_within(except, p->rules[i].path))) {
			look_at_grant(&s, &p->rules[i]);
			ret->broker |= p->threat == THREAT_HOSTILE;
		}
	return 0;
}
