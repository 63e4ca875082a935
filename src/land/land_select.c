/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to land: what a review accepted, or everything staged that may land, or the paths named.
 *
 * Trust: decisions are bound to trees. A review counts only for the tree it was shown; a tree the caller
 *        names must be the one that is staged; from here on only object names are used.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "land/land_impl.h"

/* A path of the request, relative to the workspace, without "./" and final slashes. */
static char *plain_path(const char *workspace, const char *p)
{
	size_t n = strlen(workspace), len;
	char *r;

	if (strncmp(p, workspace, n) == 0 && (p[n] == '/' || !p[n]))
		p += n;
	else if (*p == '/')
		return strdup(p); /* somewhere else: nothing that is staged is called so */
	while (*p == '/' || (p[0] == '.' && (p[1] == '/' || !p[1])))
		p++;
	r = strdup(p);
	len = r ? strlen(r) : 0;
	while (len > 0 && r[len - 1] == '/')
		r[--len] = '\0';
	return r;
}

struct wanted {
	struct strlist paths;
	bool *used;
};

static void wanted_done(struct wanted *w)
{
	strlist_done(&w->paths);
	free(w->used);
}

static int wanted_init(struct wanted *w, struct land_job *j, struct err *e)
{
	*w = (struct wanted){.paths = STRLIST_INIT(100000)};
	for (size_t i = 0; i < j->q->paths_n; i++) {
		cleanup_free char *p = plain_path(j->v->workspace, j->q->paths[i]);

		if (!*j->q->paths[i])
			return err_invalid(e, "a path is empty; . is the whole workspace");
		if (!p || !strlist_add(&w->paths, p))
			return land_no_memory(e);
	}
	w->used = calloc(w->paths.n + 1, sizeof(*w->used));
	return w->used ? 0 : land_no_memory(e);
}

/* exact: the path itself was named, not only a directory above it. */
static bool is_wanted(struct wanted *w, const char *path, bool *exact)
{
	bool found = w->paths.n == 0;

	*exact = false;
	for (size_t i = 0; i < w->paths.n; i++) {
		const char *p = w->paths.v[i];
		size_t n = strlen(p);

		if (n > 0 && (strncmp(path, p, n) != 0 || (path[n] && path[n] != '/')))
			continue;
		found = w->used[i] = true;
		*exact |= n > 0 && !path[n];
	}
	return found;
}

static int take(struct land_job *j, const struct change *c, struct err *e)
{
	struct change *x;

	if (!land_path_good(c->path) || c->old_mode == 0160000 || c->new_mode == 0160000)
		return err_refuse(e,
			"%s cannot be landed: its name or kind does not belong in a checkout",
			land_show(c->path).s);
	x = changes_add(&j->sel, c->path);
	if (!x)
		return land_no_memory(e);
	x->old_mode = c->old_mode;
	x->new_mode = c->new_mode;
	x->old = c->old;
	x->new = c->new;
	x->size = c->size;
	x->flags = c->flags;
	return 0;
}

static void note_flagged(struct land_job *j, const struct change *c, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(2048);

	buf_addf(&b, "%s: %s", land_show(c->path).s, why);
	strlist_add(&j->ret->notes, buf_str(&b));
}

static const char *refused_why(const struct change *c)
{
	for (unsigned bit = 1; bit && bit <= CHANGE_RUNS; bit <<= 1)
		if (c->flags & bit & CHANGE_REFUSED)
			return change_flag_text(bit);
	return "not fit to land";
}

static const char *runs_why(const struct change *c)
{
	const char *why = c->runs;

	return why ? why : "runs on this machine";
}

/* ---- without a review ---- */

struct tally {
	size_t refused, runs;
	const struct change *first_refused, *first_runs;
};

static int judge(struct land_job *j, const struct tally *t, struct err *e)
{
	if (t->refused)
		return err_refuse(e,
			"%s cannot be landed (%s)%s; name the paths that should land, or remove it "
			"inside",
			land_show(t->first_refused->path).s, refused_why(t->first_refused),
			t->refused > 1 ? ", and others" : "");
	if (t->runs)
		return err_refuse(e,
			"%s would run on this machine (%s)%s and was not reviewed; review it with "
			"croft review %s, name it after croft apply %s, or give --include-flagged",
			land_show(t->first_runs->path).s, runs_why(t->first_runs),
			t->runs > 1 ? ", as would others," : "", j->v->name, j->v->name);
	return 0;
}

static int select_all(
	struct land_job *j, const struct changes *now, struct wanted *w, struct err *e)
{
	struct tally t = {0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < now->n; i++) {
		const struct change *c = &now->v[i];
		bool exact;

		if ((c->flags & CHANGE_IGNORED) || !is_wanted(w, c->path, &exact))
			continue;
		if (c->flags & CHANGE_REFUSED) {
			if (!t.refused++)
				t.first_refused = c;
			note_flagged(j, c, refused_why(c));
			continue;
		}
		if ((c->flags & CHANGE_RUNS) && c->new_mode && !exact && !j->q->flagged) {
			if (!t.runs++)
				t.first_runs = c;
			note_flagged(j, c, runs_why(c));
			continue;
		}
		rc = take(j, c, e);
	}
	return rc < 0 ? rc : judge(j, &t, e);
}

/* ---- with one ---- */

static int select_reviewed(
	struct land_job *j, const struct changes *now, struct wanted *w, struct err *e)
{
	cleanup_changes struct changes acc = {0};
	int rc;

	if (!oid_eq(&j->v->review.tree, &now->tree))
		return err_refuse(e,
			"%s changed since the review; look at it with: croft diff %s "
			"--since-review, and review again",
			j->v->name, j->v->name);
	rc = land_diff(&j->v->repo, &now->start_tree, &j->v->review.accepted, &acc, e);
	for (size_t i = 0; rc == 0 && i < acc.n; i++) {
		const struct change *c = &acc.v[i], *seen = changes_find(now, c->path);
		bool exact;

		if (!is_wanted(w, c->path, &exact))
			continue;
		if (!seen || (seen->flags & CHANGE_REFUSED))
			return err_refuse(e, "%s was accepted, but %s; review again",
				land_show(c->path).s,
				seen ? refused_why(seen) : "the environment does not change it");
		rc = take(j, c, e);
	}
	j->in.reviewed = true;
	return rc;
}

/* ---- both ---- */

/* A directory in place of a file, or the reverse, is two changes: neither lands without the other. */
static int check_together(struct land_job *j, const struct changes *now, struct err *e)
{
	for (size_t i = 0; i < j->sel.n; i++) {
		const char *path = j->sel.v[i].path;
		char up[CHANGE_PATH_MAX + 1];

		if (!j->sel.v[i].new_mode)
			continue;
		for (const char *s = path; (s = strchr(s, '/')); s++) {
			const struct change *c;

			snprintf(up, sizeof(up), "%.*s", (int)(s - path), path);
			c = changes_find(now, up);
			if (c && !c->new_mode && !changes_find(&j->sel, up))
				return err_invalid(e,
					"%s takes the place of a file and does not land without "
					"it; name both",
					land_show(path).s);
		}
	}
	for (size_t i = 0; i < now->n; i++) {
		const struct change *c = &now->v[i], *over;
		char up[CHANGE_PATH_MAX + 1];

		if (c->new_mode || changes_find(&j->sel, c->path))
			continue;
		for (const char *s = c->path; (s = strchr(s, '/')); s++) {
			snprintf(up, sizeof(up), "%.*s", (int)(s - c->path), c->path);
			over = changes_find(&j->sel, up);
			if (over && over->new_mode && over->new_mode != 040000)
				return err_invalid(e,
					"%s takes the place of a directory and does not land "
					"without %s; name both",
					land_show(up).s, land_show(c->path).s);
		}
	}
	return 0;
}

static int check_used(const struct wanted *w, struct err *e)
{
	for (size_t i = 0; i < w->paths.n; i++)
		if (!w->used[i])
			return err_invalid(
				e, "nothing that is staged matches %s", land_show(w->paths.v[i]).s);
	return 0;
}

static int check_tree(struct land_job *j, const struct changes *now, struct err *e)
{
	if (j->q->tree && !str_eq(j->q->tree, oid_hex(&now->tree).s))
		return err_refuse(e, "what is staged in %s is tree %s, not %s; look again",
			j->v->name, oid_hex(&now->tree).s, land_show(j->q->tree).s);
	return 0;
}

/* The tree that start becomes with the selection. */
static int landed_tree(struct land_job *j, const struct changes *now, struct err *e)
{
	const struct oid *whole = j->in.reviewed ? &j->v->review.accepted : &now->tree;

	j->in.start = j->sel.start_tree = now->start_tree;
	if (j->q->paths_n == 0)
		j->in.tree = *whole;
	else if (land_tree_with(&j->v->repo, &now->start_tree, &j->sel, &j->in.tree, e) < 0)
		return -e->errnum;
	j->sel.tree = j->in.tree;
	return 0;
}

int land_select(struct land_job *j, struct err *e)
{
	__attribute__((cleanup(wanted_done))) struct wanted w = {0};
	cleanup_changes struct changes now = {0};
	int rc;

	if ((rc = wanted_init(&w, j, e)) < 0 || (rc = env_changes(j->v, &now, true, e)) < 0 ||
		(rc = check_tree(j, &now, e)) < 0)
		return rc;
	rc = oid_is_none(&j->v->review.accepted) ? select_all(j, &now, &w, e)
						 : select_reviewed(j, &now, &w, e);
	if (rc < 0 || (rc = check_used(&w, e)) < 0)
		return rc;
	changes_sort(&j->sel);
	if (w.paths.n && (rc = check_together(j, &now, e)) < 0)
		return rc;
	if (j->sel.n == 0)
		return err_invalid(e, "nothing to land: %s",
			j->in.reviewed ? "the review accepted no change"
				       : "what is staged is the same as what it started from");
	return landed_tree(j, &now, e);
}
