/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which new paths the project ignores: git is asked, clean, about names only.
 *
 * Trust:   the rules are those of the ignore tree, which no sandbox can write; what the sandbox did to
 *          .gitignore files does not count, so it cannot hide its work. Only what the start did not
 *          have can be ignored. A live start is the user's directory with everything in it: there git
 *          is asked as the user, whose ignore rules these are, and what is not tracked can be ignored
 *          although it was there before.
 * Limits:  a path behind a symlink of the ignore tree (which the sandbox replaced by a directory) is not
 *          asked about, since git would not answer: it counts as not ignored, so it is shown.
 */
#include <fcntl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/program.h"
#include "git/repo.h"
#include "os/path.h"
#include "snap/scan_impl.h"

#define ASK_MAX_B ((size_t)64 << 20) /* of names in one question */

bool walk_beyond_symlink(struct walk *w, const char *path, bool is_dir)
{
	const char *slash = strrchr(path, '/');
	char *parent;
	int fd;

	if (w->base_fd < 0 || (!slash && !is_dir))
		return false;
	parent = is_dir ? strdup(path) : strndup(path, (size_t)(slash - path));
	if (!parent)
		return true;
	if (w->parent && str_eq(w->parent, parent)) { /* neighbours come together */
		free(parent);
		return w->beyond;
	}
	fd = path_open(w->base_fd, parent, O_PATH, PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd >= 0)
		close(fd);
	free(w->parent);
	w->parent = parent;
	w->beyond = fd == -ELOOP || fd == -EXDEV;
	return w->beyond;
}

/* One question to git: names, and where the answers go. */
struct question {
	struct buf names;
	bool **ret; /* per name */
	size_t n, cap;
};

static void question_done(struct question *q)
{
	buf_done(&q->names);
	free(q->ret);
}
#define cleanup_question __attribute__((cleanup(question_done)))

/* "./" keeps a name that begins with a colon from being read as pathspec magic. */
static int question_add(
	struct walk *w, struct question *q, const char *path, bool is_dir, bool *ret)
{
	if (q->n == q->cap) {
		size_t cap = q->cap ? q->cap * 2 : 256;
		bool **v = realloc(q->ret, cap * sizeof(*v));

		if (!v)
			return walk_no_memory(w);
		q->ret = v;
		q->cap = cap;
	}
	q->ret[q->n++] = ret;
	if (path[0] == ':')
		buf_adds(&q->names, "./");
	buf_adds(&q->names, path);
	if (is_dir)
		buf_addc(&q->names, '/');
	buf_addc(&q->names, '\0');
	return q->names.failed ? walk_no_memory(w) : 0;
}

/* The answer repeats, in order, those names that are ignored. */
static int question_ask(struct walk *w, struct question *q)
{
	cleanup_buf struct buf out = BUF_INIT(ASK_MAX_B + 8 * CHANGE_PATH_MAX);
	cleanup_free char *git_dir = path_join(w->s->ignore_tree, ".git");
	cleanup_buf struct buf env = BUF_INIT(2 * CHANGE_PATH_MAX);
	const char *name = q->names.data;
	size_t at = 0;
	struct git_run g = {
		.argv = (const char *const[]){"check-ignore", "-z", "--stdin", "--no-index", NULL},
		.dir = w->s->ignore_tree,
		.in = q->names.data,
		.in_n = q->names.len,
		.out = &out,
		.any_status = true};
	bool own = start_is_repository(w);
	int r;

	if (q->n == 0)
		return 0;
	buf_addf(&env, "GIT_WORK_TREE=%s", w->s->ignore_tree);
	if (!git_dir || env.failed)
		return walk_no_memory(w);
	/* repo_git() is as user, and needs none of this */
	g.git_dir = faccessat(w->base_fd, ".git/HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0
			    ? git_dir
			    : w->s->repo->store;
	g.env = (const char *const[]){buf_str(&env), NULL};
	if (own)
		g.env = NULL;
	r = own ? repo_git(w->s->repo, &g, w->e) : git_run(&g, w->e);
	if (r < 0)
		return err_wrap(w->e, "ask git which new files are ignored");
	if (g.status > 1)
		return err_set(w->e, EIO, "git check-ignore ended with status %d", g.status);
	for (size_t i = 0; i < q->n && at < out.len; i++) {
		size_t n = strlen(name) + 1;

		if (n <= out.len - at && memcmp(out.data + at, name, n) == 0) {
			*q->ret[i] = true;
			at += n;
		}
		name += n;
	}
	if (at != out.len)
		return err_set(w->e, EBADMSG, "git check-ignore named a file nobody asked about");
	buf_reset(&q->names);
	q->n = 0;
	return 0;
}

static int ask_one(struct walk *w, struct question *q, const char *path, bool is_dir, bool *ret)
{
	int r;

	if (walk_beyond_symlink(w, path, is_dir))
		return 0;
	r = question_add(w, q, path, is_dir, ret);
	if (r == 0 && q->names.len > ASK_MAX_B)
		r = question_ask(w, q);
	return r;
}

/* Forget ignored items; go on with directories that turned out to be wanted. */
static int take_answers(struct walk *w, const bool *item, const bool *held)
{
	size_t keep = w->asked;

	for (size_t i = w->asked; i < w->n; i++) {
		if (item[i - w->asked]) {
			w->ignored++;
			free(w->v[i].path);
		} else {
			if (keep != i)
				w->v[keep] = w->v[i];
			keep++;
		}
	}
	w->n = w->asked = keep;
	for (size_t i = 0; i < w->held_n; i++) {
		struct scan_place *p;

		if (held[i]) {
			w->ignored++;
			free(w->held[i].path);
			free(w->held[i].layers);
			w->held[i] = (struct scan_place){0};
			continue;
		}
		if (walk_place(w, &p) < 0)
			return walk_no_memory(w);
		*p = w->held[i];
		p->unsure = false; /* of itself; what it holds is asked about in its turn */
		w->held[i] = (struct scan_place){0};
	}
	w->held_n = 0;
	return 0;
}

/* Tracked files are not ignored, whatever the rules say. */
static int spare_tracked(struct walk *w, bool *item, bool *held)
{
	int r = 0;

	if (!start_is_repository(w))
		return 0;
	for (size_t i = w->asked; r >= 0 && i < w->n; i++) {
		bool *one = &item[i - w->asked];

		r = *one ? live_tracked(w, w->v[i].path, w->v[i].is_dir) : 0;
		*one = *one && r == 0;
	}
	for (size_t i = 0; r >= 0 && i < w->held_n; i++) {
		r = held[i] ? live_tracked(w, w->held[i].path, true) : 0;
		held[i] = held[i] && r == 0;
	}
	return r < 0 ? r : 0;
}

int walk_ask_ignored(struct walk *w)
{
	cleanup_question struct question q = {.names = BUF_INIT(ASK_MAX_B + 2 * CHANGE_PATH_MAX)};
	cleanup_free bool *item = calloc(w->n - w->asked + 1, sizeof(bool));
	cleanup_free bool *held = calloc(w->held_n + 1, sizeof(bool));
	int r = item && held ? 0 : walk_no_memory(w);

	if (r == 0 && (!w->s->ignore_tree || w->ask_nothing)) {
		w->asked = w->n;
		return 0;
	}
	for (size_t i = w->asked; r == 0 && i < w->n; i++)
		if (start_is_repository(w) || (w->v[i].old_mode == 0 && w->v[i].layer != ITEM_GONE))
			r = ask_one(w, &q, w->v[i].path, w->v[i].is_dir, &item[i - w->asked]);
	for (size_t i = 0; r == 0 && i < w->held_n; i++)
		r = ask_one(w, &q, w->held[i].path, true, &held[i]);
	if (r == 0)
		r = question_ask(w, &q);
	if (r == 0)
		r = spare_tracked(w, item, held);
	return r < 0 ? r : take_answers(w, item, held);
}
