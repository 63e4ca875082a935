/* SPDX-License-Identifier: Apache-2.0 */
/* Which names of a writable tree must be read-only: see held.h. */
#include "session/config/held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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
	const char *workspace;
	const char *tree; /* the grant at hand */
	int fd;
};

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
	if (!path_within(s->tree, s->home) && !path_within(s->home, s->tree))
		return;
	for (size_t i = 0; i < runs_table_n; i++) {
		char path[POLICY_PATH_MAX];

		if (runs_table[i].hold != HOLD_AT_HOME)
			continue;
		snprintf(path, sizeof(path), "%s/%s", s->home, runs_table[i].pattern);
		if (path_within(s->tree, path))
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

/* Where writing decides what runs on the host, a grant must say that this is meant. */
static int refuse_unmeant(const struct policy_rule *r, const struct search *s, struct err *e)
{
	cleanup_buf struct buf at = BUF_INIT(512), view = BUF_INIT(3 * POLICY_PATH_MAX),
			       runs = BUF_INIT(3 * POLICY_PATH_MAX);
	cleanup_free char *real = NULL;
	const struct runs_entry *x;

	if (r->runs || r->origin.layer == LAYER_PROFILE || r->origin.layer == LAYER_FLOOR)
		return 0; /* what a profile grants is where the command was started */
	x = runs_inside(r->path, s->home, NULL);
	if (!x && !r->glob && (real = realpath(r->path, NULL)))
		x = runs_inside(real, s->home, NULL);
	if (!x)
		return 0;
	buf_addf(&at, "%s", r->origin.file ? r->origin.file : "policy");
	if (r->origin.line)
		buf_addf(&at, ":%u", r->origin.line);
	if (s->workspace && path_within(s->workspace, r->path))
		buf_adds(&view, "let changes be staged (without --direct)");
	else if (buf_adds(&view, "give a private copy with "), !r->glob)
		policy_path_option(&view, "--view", r->path);
	else
		buf_adds(&view, "--view");
	if (r->glob || !policy_path_option(&runs, "--write-runs", r->path))
		buf_adds(&runs, "--write-runs");
	return err_refuse(e,
		"%s: what is in %s runs on your machine (%s), so it is not made writable just like that; "
		"%s, or say that you mean it with %s",
		buf_str(&at), r->path, runs_why_text[x->why], buf_str(&view), buf_str(&runs));
}

/* What a grant for committing holds: all that is there and not needed. */
static void look_at_committing(struct search *s, const struct policy_rule *r)
{
	static const char *const dirs[] = {"", "objects", "refs"};

	s->held->broker = true; /* most of it is not there */
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char dir[POLICY_PATH_MAX], path[POLICY_PATH_MAX];
		cleanup_dir DIR *d = NULL;
		struct dirent *de;

		if (snprintf(dir, sizeof(dir), "%s%s%s", r->path, *dirs[i] ? "/" : "", dirs[i]) >=
			(int)sizeof(dir))
			continue;
		d = opendir(dir);
		for (unsigned n = 0; d && n < HELD_LIST_MAX && (de = readdir(d)); n++) {
			struct stat st;

			if (str_eq(de->d_name, ".") || str_eq(de->d_name, "..") ||
				snprintf(path, sizeof(path), "%s/%s", dir, de->d_name) >=
					(int)sizeof(path) ||
				gitname_of(path + strlen(r->path) + 1) != GITNAME_HELD ||
				lstat(path, &st) < 0)
				continue;
			add(s, path, &st);
		}
	}
}

static void look_at_grant(struct search *s, const struct policy_rule *r)
{
	if (r->git) {
		look_at_committing(s, r);
		return;
	}
	cleanup_fd int fd = -1;

	if (r->glob) {
		s->held->broker = true; /* what it will match is not known yet */
		return;
	}
	if (path_within(r->path, s->home) || runs_held_below(r->path, s->home))
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

int held_find(struct held *ret, struct policy *p, const char *home, const char *workspace,
	const char *except, struct err *e)
{
	struct policy holding = *p;
	struct search s = {.held = ret, .p = &holding, .home = home, .workspace = workspace};

	if (!home || home[0] != '/')
		return err_invalid(e, "the home directory has no absolute path");
	policy_hold(&holding, home, except);
	ret->broker = false;
	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (r->access != ACCESS_WRITE || (except && path_within(except, r->path)))
			continue;
		if (refuse_unmeant(r, &s, e) < 0)
			return -e->errnum;
		look_at_grant(&s, r);
		ret->broker |= p->threat == THREAT_HOSTILE;
	}
	return 0;
}
