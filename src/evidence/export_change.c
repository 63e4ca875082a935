/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The change that a bundle is about: see export.h.
 *
 * What landed is shown in preference to what is staged. Trees are compared clean, in the store; where
 * the objects are not here (evidence without the commits it speaks of), the report says so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/export.h"
#include "git/program.h"

#define LIST_MAX_B (1u << 30)

void export_change_done(struct export_change *c)
{
	free(c->files);
	strlist_done(&c->text);
	*c = (struct export_change){0};
}

int export_patch(const struct repo *r, const struct oid_hex *from, const struct oid_hex *to, int fd,
	struct err *e)
{
	const char *argv[] = {"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames",
		"--no-ext-diff", "--no-textconv", from->s, to->s, "--", NULL};
	struct git_run run = {.argv = argv,
		.git_dir = r->store,
		.out_fd = fd,
		.data_max_b = GIT_PATCH_DATA_MAX_B};

	return git_run(&run, e);
}

/* ------------------------------------------------------------------ git's lists */

static unsigned octal(const char *s)
{
	unsigned v = 0;

	for (; *s >= '0' && *s <= '7'; s++)
		v = v << 3 | (unsigned)(*s - '0');
	return v;
}

/* ":100644 100755 OLD NEW M" NUL path NUL; then "12 TAB 3 TAB path" NUL. */
static int take_lists(
	const struct repo *r, struct export_change *c, const struct buf *b, struct err *e)
{
	const char *p = buf_str(b), *end = p + b->len;
	size_t n = 0, at = 0;

	for (const char *q = p; q < end; q += strlen(q) + 1)
		n += *q == ':';
	c->files = calloc(n + 1, sizeof(*c->files));
	if (!c->files)
		return err_set(e, ENOMEM, "list the change");
	while (p < end && *p == ':' && c->files_n < n) {
		struct report_file *f = &c->files[c->files_n];
		const char *path = p + strlen(p) + 1;

		if (strlen(p) < 16 || path >= end || !strlist_add(&c->text, path))
			return err_set(e, EBADMSG, "git's list of changes");
		*f = (struct report_file){.path = c->text.v[c->text.n - 1],
			.old_mode = octal(p + 1),
			.new_mode = octal(p + 8)};
		f->runs = f->new_mode ? change_runs_in(r, f->path, f->new_mode) : NULL;
		c->files_n++;
		p = path + strlen(path) + 1;
	}
	for (; p < end && at < c->files_n; at++, p += strlen(p) + 1) {
		struct report_file *f = &c->files[at];

		f->added = *p == '-' ? -1 : strtoll(p, NULL, 10);
		p += strcspn(p, "\t");
		p += *p == '\t';
		f->deleted = *p == '-' ? -1 : strtoll(p, NULL, 10);
	}
	return at == c->files_n ? 0 : err_set(e, EBADMSG, "git's list of changes");
}

static int compare(const struct repo *r, struct export_change *c, struct err *e)
{
	const char *argv[] = {"-c", "core.bigFileThreshold=8m", "diff-tree", "-r", "-z", "--raw",
		"--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", c->from.s, c->to.s,
		"--", NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct git_run run = {
		.argv = argv, .git_dir = r->store, .out = &out, .data_max_b = GIT_SHOW_DATA_MAX_B};
	int x = git_run(&run, e);

	return x < 0 ? x : take_lists(r, c, &out, e);
}

/* ------------------------------------------------------------------ which trees */

/* The tree of a revision; "" when it is not here. */
static struct oid_hex tree_of(struct git_reader *g, const char *commit)
{
	cleanup_buf struct buf spec = BUF_INIT(256), raw = BUF_INIT(64u << 20);
	struct err ignored = ERR_INIT;
	struct oid o = {0};
	enum git_type t;

	buf_addf(&spec, "%s^{tree}", commit);
	if (git_read(g, buf_str(&spec), &t, &o, &raw, &ignored) < 0 || t != GIT_TREE)
		o = (struct oid){0};
	return oid_hex(&o);
}

static bool is_hex(const char *s)
{
	struct oid o;

	return s && oid_parse(&o, s, strlen(s));
}

static void copy_hex(struct oid_hex *to, const char *s)
{
	struct oid o = {0};

	*to = (struct oid_hex){0};
	if (s && oid_parse(&o, s, strlen(s)))
		*to = oid_hex(&o);
}

/* Commits against what they landed on; a working tree's by the trees that the landing recorded. */
static int landed_trees(struct export_source *s, const struct story_landing *l,
	struct export_change *c, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	struct oid empty;
	int r;

	copy_hex(&c->commit, l->commit);
	if (!c->commit.s[0]) {
		copy_hex(&c->from, l->start);
		copy_hex(&c->to, l->accepted);
		return 0;
	}
	r = git_reader_open(&g, s->repo->store, e);
	if (r < 0)
		return r;
	oid_of(&empty, s->repo->hash, GIT_TREE, "", 0);
	c->to = tree_of(g, c->commit.s);
	c->from = is_hex(l->onto) ? tree_of(g, l->onto) : oid_hex(&empty);
	return 0;
}

/* What does not land has no place in the tree: it is added to the list. */
static int add_refused(struct export_change *c, const struct changes *all, struct err *e)
{
	size_t n = 0;
	struct report_file *more;

	for (size_t i = 0; i < all->n; i++)
		n += (all->v[i].flags & CHANGE_REFUSED) != 0;
	if (!n)
		return 0;
	more = reallocarray(c->files, c->files_n + n, sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "list the change");
	c->files = more;
	for (size_t i = 0; i < all->n; i++) {
		const struct change *x = &all->v[i];
		unsigned flag = x->flags & CHANGE_REFUSED;

		if (!flag)
			continue;
		if (!strlist_add(&c->text, x->path))
			return err_set(e, ENOMEM, "list the change");
		c->files[c->files_n++] = (struct report_file){.path = c->text.v[c->text.n - 1],
			.old_mode = x->old_mode,
			.new_mode = x->new_mode,
			.added = -1,
			.deleted = -1,
			.refused = change_flag_text(flag & (0u - flag))};
	}
	return 0;
}

/* What the environment is made of may be gone while its evidence is not: that is said, not fatal. */
static int not_whole(struct export_change *c, const struct err *why, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(2 * ERR_MSG_MAX);

	buf_addf(&b, "The change is not here, for something it is made of is missing: %s.",
		why->msg);
	if (!strlist_add(&c->text, buf_str(&b)))
		return err_set(e, ENOMEM, "list the change");
	c->none = c->text.v[c->text.n - 1];
	return 0;
}

static int staged(struct export_source *s, struct export_change *c, struct err *e)
{
	cleanup_changes struct changes all = {0};
	struct err missing = ERR_INIT;
	int r;

	if (!s->has_env) {
		c->none = "The environment is not on this machine, and nothing landed: the change "
			  "is not here.";
		return 0;
	}
	r = env_attach(&s->env, &missing);
	if (r == 0)
		r = env_changes(&s->env, &all, true, &missing);
	if (r == -ENOENT)
		return not_whole(c, &missing, e);
	if (r < 0) {
		*e = missing;
		return r;
	}
	c->from = oid_hex(&all.start_tree);
	c->to = oid_hex(&all.tree);
	r = compare(s->repo, c, e);
	return r < 0 ? r : add_refused(c, &all, e);
}

int export_change(struct export_source *s, const struct story *story, struct export_change *ret,
	struct err *e)
{
	cleanup_export_change struct export_change c = {.text = STRLIST_INIT(4000000)};
	struct err missing = ERR_INIT;
	int r = 0;

	if (story->landings_n) {
		c.landed = true;
		r = landed_trees(s, &story->landings[story->landings_n - 1], &c, e);
		if (r == 0 && c.from.s[0] && c.to.s[0]) {
			if (compare(s->repo, &c, &missing) < 0)
				c.none = "What landed is no longer in this repository, or never was.";
		} else if (r == 0) {
			c.none = "What landed is no longer in this repository, or never was.";
		}
	} else {
		r = staged(s, &c, e);
	}
	if (r < 0)
		return r;
	*ret = c;
	c = (struct export_change){0};
	return 0;
}
