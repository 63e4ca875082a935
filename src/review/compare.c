/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing environments: see compare.h. */
#include "review/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "env/env_beside.h"
#include "git/program.h"
#include "git/read.h"
#include "os/path.h"
#include "os/tree.h"

void compare_done(struct comparison *c)
{
	for (size_t i = 0; i < c->envs_n; i++) {
		free(c->envs[i].git_dir);
		changes_done(&c->envs[i].changes);
	}
	for (size_t i = 0; i < c->pairs_n; i++)
		strlist_done(&c->pairs[i].names);
	free(c->envs);
	free(c->paths);
	free(c->pairs);
	*c = (struct comparison){0};
}

/* Would it be part of a tree? */
static bool counts(const struct change *x)
{
	return !(x->flags &
		 (CHANGE_REFUSED | CHANGE_EMPTY_DIR | CHANGE_IGNORED | CHANGE_NOT_READ));
}

/* ---- one environment ---- */

static int count_lines(struct compare_env *x, struct err *e)
{
	cleanup_tree_diff struct tree_diff d = {0};
	const struct diff_query q = {.git_dir = x->git_dir,
		.from = x->changes.start_tree,
		.to = x->changes.tree,
		.what = DIFF_STAT};
	int r;

	if (x->changes.n > DIFF_STAT_MAX)
		return 0;
	r = tree_diff_get(&d, &q, e);
	if (r < 0)
		return r;
	x->counted = true;
	for (size_t i = 0; i < d.n; i++) {
		x->added += d.v[i].added;
		x->deleted += d.v[i].deleted;
	}
	return 0;
}

static int load_env(struct compare_env *x, const char *name, char **ret_dir, struct err *e)
{
	cleanup_env struct env v = {.dir_fd = -1, .lock_fd = -1};
	int r = env_open(&v, name, ENV_LOCK_READ, e);

	if (r == 0)
		r = env_beside_seal(&v, name, e);
	if (r == 0)
		r = env_look(&v, &x->changes, true, e);
	if (r == 0)
		r = review_context(&v, &x->deeds, NULL, e);
	if (r < 0)
		return r;
	memcpy(x->name, v.name, sizeof(x->name));
	x->git_dir = strdup(v.repo.store);
	if (!*ret_dir)
		*ret_dir = strdup(v.state_dir);
	if (!x->git_dir || !*ret_dir)
		return err_set(e, ENOMEM, "compare environments");
	for (size_t i = 0; i < x->changes.n; i++) {
		x->files += counts(&x->changes.v[i]);
		x->refused += (x->changes.v[i].flags & CHANGE_REFUSED) != 0;
		x->runs += (x->changes.v[i].flags & CHANGE_RUNS) != 0;
	}
	return count_lines(x, e);
}

/* ---- paths that several changed ---- */

struct touch {
	const struct change *x;
	size_t env;
};

static int by_path(const void *a, const void *b)
{
	const struct touch *x = a, *y = b;
	int r = strcmp(x->x->path, y->x->path);

	return r ? r : (x->env > y->env) - (x->env < y->env);
}

static bool same_end(const struct change *a, const struct change *b)
{
	return a->new_mode == b->new_mode && oid_eq(&a->new, &b->new);
}

static int list_paths(struct comparison *c, struct err *e)
{
	cleanup_free struct touch *all = NULL;
	size_t n = 0;

	for (size_t i = 0; i < c->envs_n; i++)
		n += c->envs[i].changes.n;
	all = calloc(n + 1, sizeof(*all));
	c->paths = calloc(n + 1, sizeof(*c->paths));
	if (!all || !c->paths)
		return err_set(e, ENOMEM, "compare environments");
	n = 0;
	for (size_t i = 0; i < c->envs_n; i++)
		for (size_t k = 0; k < c->envs[i].changes.n; k++)
			if (counts(&c->envs[i].changes.v[k]))
				all[n++] = (struct touch){&c->envs[i].changes.v[k], i};
	qsort(all, n, sizeof(*all), by_path);
	for (size_t i = 0, k; i < n; i = k) {
		struct compare_path p = {.path = all[i].x->path, .same = true};

		for (k = i; k < n && str_eq(all[k].x->path, p.path); k++) {
			p.envs |= 1u << all[k].env;
			p.same &= same_end(all[i].x, all[k].x);
		}
		if (k - i > 1)
			c->paths[c->paths_n++] = p;
	}
	return 0;
}

/* ---- pairs ---- */

/* What merging needs: a directory for files, and conversations with the stores. */
struct merger {
	int dir_fd;
	const char *dir;
	struct git_reader *readers[COMPARE_ENVS_MAX];
	size_t tried;
};

enum verdict { SAME, MERGES, CONFLICTS, UNTRIED };

/* -EFBIG: too large to try. */
static int put_blob(struct merger *m, const struct comparison *c, size_t env, const struct oid *o,
	const char *name, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(COMPARE_BLOB_MAX);
	cleanup_fd int fd = -1;
	int r = 0;

	if (!m->readers[env])
		r = git_reader_open(&m->readers[env], c->envs[env].git_dir, e);
	if (r == 0)
		r = git_read_oid(m->readers[env], o, GIT_BLOB, &b, e);
	if (r < 0)
		return r;
	fd = openat(m->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, errno, "write a file to merge");
	r = fd_write_all(fd, buf_str(&b), b.len);
	return r < 0 ? err_set(e, -r, "write a file to merge") : 0;
}

static bool is_file(unsigned mode)
{
	return mode == 0100644 || mode == 0100755;
}

static int merge_contents(struct merger *m, const struct comparison *c,
	const struct compare_pair *p, const struct change *a, const struct change *b, struct err *e)
{
	struct git_run run = {
		.argv = (const char *const[]){"merge-file", "-p", "-q", "a", "base", "b", NULL},
		.git_dir = c->envs[p->a].git_dir,
		.dir = m->dir,
		.any_status = true};
	int r;

	if (m->tried++ >= COMPARE_MERGES_MAX)
		return UNTRIED;
	r = put_blob(m, c, p->a, &a->old, "base", e);
	if (r == 0)
		r = put_blob(m, c, p->a, &a->new, "a", e);
	if (r == 0)
		r = put_blob(m, c, p->b, &b->new, "b", e);
	if (r == -EFBIG) {
		/* A reader that gave up in the middle of an object is of no more use. */
		*e = ERR_INIT;
		for (size_t i = 0; i < COMPARE_ENVS_MAX; i++)
			git_reader_closep(&m->readers[i]);
		memset(m->readers, 0, sizeof(m->readers));
		return UNTRIED;
	}
	if (r == 0)
		r = git_run(&run, e);
	if (r < 0)
		return r;
	return run.status == 0 ? MERGES : CONFLICTS;
}

static int judge(struct merger *m, const struct comparison *c, const struct compare_pair *p,
	const struct change *a, const struct change *b, struct err *e)
{
	if (same_end(a, b))
		return SAME;
	if (!oid_eq(&a->old, &b->old) || a->old_mode != b->old_mode || !is_file(a->old_mode) ||
		!is_file(a->new_mode) || !is_file(b->new_mode))
		return CONFLICTS;
	/* Only the mode differs, or only one of them changed the content. */
	if (oid_eq(&a->new, &b->new) || oid_eq(&a->new, &a->old) || oid_eq(&b->new, &b->old))
		return MERGES;
	return merge_contents(m, c, p, a, b, e);
}

static int compare_two(
	struct merger *m, struct comparison *c, struct compare_pair *p, struct err *e)
{
	const uint32_t both = 1u << p->a | 1u << p->b;

	p->names = STRLIST_INIT(COMPARE_NAMES_MAX);
	for (size_t i = 0; i < c->paths_n; i++) {
		const struct change *a, *b;
		int r;

		if ((c->paths[i].envs & both) != both)
			continue;
		a = changes_find(&c->envs[p->a].changes, c->paths[i].path);
		b = changes_find(&c->envs[p->b].changes, c->paths[i].path);
		if (!a || !b)
			return err_set(e, EBADMSG, "the list of changes is not in order");
		r = judge(m, c, p, a, b, e);
		if (r < 0)
			return r;
		p->shared++;
		p->same += r == SAME;
		p->merges += r == MERGES;
		p->untried += r == UNTRIED;
		p->conflicts += r == CONFLICTS;
		if (r == CONFLICTS)
			strlist_add(&p->names, c->paths[i].path);
	}
	return 0;
}

static int compare_pairs(struct comparison *c, struct merger *m, struct err *e)
{
	int r = 0;

	c->pairs = calloc(c->envs_n * c->envs_n + 1, sizeof(*c->pairs));
	if (!c->pairs)
		return err_set(e, ENOMEM, "compare environments");
	for (size_t a = 0; a < c->envs_n; a++) {
		for (size_t b = a + 1; b < c->envs_n && r == 0; b++) {
			struct compare_pair *p = &c->pairs[c->pairs_n++];

			*p = (struct compare_pair){.a = a, .b = b};
			r = compare_two(m, c, p, e);
		}
	}
	return r;
}

int compare_overlap(struct comparison *c, const char *dir, struct err *e)
{
	cleanup_free char *temp = NULL;
	cleanup_fd int fd = -1;
	struct merger m = {.dir_fd = -1};
	int r = list_paths(c, e);

	if (r < 0)
		return r;
	if (asprintf(&temp, "%s/compare.XXXXXX", dir) < 0) {
		temp = NULL;
		return err_set(e, ENOMEM, "compare environments");
	}
	if (!mkdtemp(temp))
		return err_set(e, errno, "make a directory in %s", dir);
	fd = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	m.dir_fd = fd;
	m.dir = temp;
	r = fd < 0 ? err_set(e, errno, "open %s", temp) : compare_pairs(c, &m, e);
	for (size_t i = 0; i < COMPARE_ENVS_MAX; i++)
		git_reader_closep(&m.readers[i]);
	tree_remove_at(AT_FDCWD, temp);
	return r;
}

int compare_open(struct comparison *ret, const char *const *names, size_t n, struct err *e)
{
	cleanup_comparison struct comparison c = {0};
	cleanup_free char *dir = NULL;
	int r;

	if (n < 2 || n > COMPARE_ENVS_MAX)
		return err_invalid(e, "compare takes 2 to %u environments", COMPARE_ENVS_MAX);
	c.envs = calloc(n, sizeof(*c.envs));
	if (!c.envs)
		return err_set(e, ENOMEM, "compare environments");
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++)
			if (str_eq(names[i], names[k]))
				return err_invalid(e, "%.64s is named twice", names[i]);
		r = load_env(&c.envs[c.envs_n++], names[i], &dir, e);
		if (r < 0)
			return r;
	}
	r = compare_overlap(&c, dir, e);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct comparison){0};
	return 0;
}
