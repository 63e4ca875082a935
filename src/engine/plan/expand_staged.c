/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denied places of a staged workspace.
 *
 * What the command will see is made of layers, and exists only when they are mounted. A name in that
 * view stands in at least one layer, at the same path (no layer redirects), so the names of all
 * layers together are all that could need hiding; set-up asks the view which of them are there.
 * Layers hold what sandboxes wrote: no symlink in them is followed, and what is looked at is bounded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/engine.h"
#include "engine/plan/expand.h"
#include "os/path.h"
#include "os/tree.h"

#define STAGED_DEPTH_MAX 128

struct walk {
	struct places *ps;
	const struct policy *policy;
	const struct policy_rule *rule;
	char path[POLICY_PATH_MAX]; /* as the command will see it */
};

static int deny(struct places *ps, const struct policy_rule *r, const char *path, struct err *e)
{
	struct place *pl = places_add(ps, path);

	if (!pl)
		return places_too_many(r, e);
	pl->access = ACCESS_DENY;
	pl->staged = true;
	pl->rule = r;
	return 0;
}

static int too_much(const struct walk *w, struct err *e)
{
	return err_refuse(e,
		"%s would search too many staged files; make the pattern narrower, or discard some",
		w->rule->path);
}

static int walk_layer(struct walk *w, int dir, size_t len, unsigned depth, struct err *e);

static int walk_entry(
	struct walk *w, int dir, const char *name, size_t len, unsigned depth, struct err *e)
{
	cleanup_fd int sub = -1;

	if (policy_glob_match(w->rule->path, w->path))
		return deny(w->ps, w->rule, w->path, e);
	sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub >= 0)
		return walk_layer(w, sub, len, depth + 1, e);
	/* Its owner, who is also the command's, could open it again: then all of it stays closed. */
	if (errno == EACCES)
		return deny(w->ps, w->rule, w->path, e);
	return 0;
}

static int walk_layer(struct walk *w, int dir, size_t len, unsigned depth, struct err *e)
{
	cleanup_dir DIR *d = dir_list(dir, ".");
	struct dirent *de;
	int r = 0;

	if (!d)
		return err_set(e, errno, "list %s in a layer", w->path);
	while (r == 0 && (de = readdir(d))) {
		size_t n = strlen(de->d_name);

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		if (++w->ps->visits > EXPAND_VISITS_MAX || depth > STAGED_DEPTH_MAX ||
			len + n + 2 > sizeof(w->path))
			return too_much(w, e);
		snprintf(w->path + len, sizeof(w->path) - len, "/%s", de->d_name);
		if (de->d_type == DT_DIR || de->d_type == DT_UNKNOWN)
			r = walk_entry(w, dirfd(d), de->d_name, len + 1 + n, depth, e);
		else if (policy_glob_match(w->rule->path, w->path))
			r = deny(w->ps, w->rule, w->path, e);
		w->path[len] = '\0';
	}
	return r;
}

static int walk_tree(struct walk *w, const char *layer, const char *dst, struct err *e)
{
	cleanup_fd int fd = path_open(AT_FDCWD, layer, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);

	if (fd < 0)
		return err_set(e, -fd, "open the layer %s", layer);
	snprintf(w->path, sizeof(w->path), "%s", dst);
	return walk_layer(w, fd, strlen(w->path), 0, e);
}

/* Could the pattern match something at or below the workspace? */
static bool reaches(const struct staging *st, const char *pattern)
{
	cleanup_free char *base = policy_glob_base(pattern);
	const char *ws = st->trees[0].dst;

	return !base || strcmp(base, ws) == 0 || path_is_above(base, ws) || path_is_above(ws, base);
}

int places_add_staged(
	struct places *ps, const struct policy *p, const struct policy_rule *r, struct err *e)
{
	const struct staging *st = ps->staging;
	struct walk w = {.ps = ps, .policy = p, .rule = r};
	int rc = 0;

	if (r->access != ACCESS_DENY)
		return 0;
	if (!r->glob)
		return deny(ps, r, r->path, e);
	if (!reaches(st, r->path))
		return 0;
	if (rule_inside_writable(p, r))
		ps->late_names = ps->late_denies = true;
	for (size_t t = 0; rc == 0 && t < st->trees_n; t++) {
		const struct staging_tree *tree = &st->trees[t];

		for (const char *const *v = tree->lower; rc == 0 && *v; v++)
			rc = walk_tree(&w, *v, tree->dst, e);
		if (rc == 0 && tree->upper)
			rc = walk_tree(&w, tree->upper, tree->dst, e);
	}
	return rc;
}

int places_add_workspace(struct places *ps, const struct policy *p, struct err *e)
{
	const char *ws = ps->staging->trees[0].dst;
	const struct policy_rule *rule = NULL;
	enum access a = policy_access(p, ws, &rule);
	struct place *pl;

	if (a == ACCESS_DENY || !rule)
		return err_refuse(e, "the policy does not grant the staged workspace %s", ws);
	for (size_t i = 0; i < ps->n; i++)
		if (strcmp(ps->v[i].path, ws) == 0)
			return 0;
	pl = places_add(ps, ws);
	if (!pl)
		return places_too_many(rule, e);
	pl->access = a;
	pl->is_dir = true;
	pl->rule = rule;
	return 0;
}
