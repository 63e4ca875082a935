/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of a landing: what differs between two, what one becomes, which names are fit to be written.
 *
 * Trust: names in these trees were given by a sandbox. Git's own checks are not relied on: a path that
 *        some file system takes for .git is refused here, whatever this one does.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "git/program.h"
#include "snap/name.h"

int land_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "land");
}

struct land_shown land_show(const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 16);
	struct land_shown r;
	size_t n = strlen(path);

	str_show(&b, path, n > 150 ? 150 : n);
	snprintf(r.s, sizeof(r.s), "%.190s%s", buf_str(&b), n > 150 ? "…" : "");
	return r;
}

/* ---- names ---- */

static bool is_git(const char *name, size_t n)
{
	char part[NAME_MAX + 1];

	if (n > NAME_MAX)
		return true;
	memcpy(part, name, n);
	part[n] = '\0';
	return name_is_git(part);
}

bool land_path_good(const char *path)
{
	size_t n = strlen(path);

	if (n == 0 || n > CHANGE_PATH_MAX || path[0] == '/' || path[n - 1] == '/')
		return false;
	for (const char *p = path; *p;) {
		size_t k = strcspn(p, "/");

		if (k == 0 || (k == 1 && p[0] == '.') || (k == 2 && p[0] == '.' && p[1] == '.') ||
			is_git(p, k))
			return false;
		p += k + (p[k] == '/');
	}
	return true;
}

bool land_link_good(const char *path, const char *target, size_t n)
{
	return strlen(target) == n && !link_escapes(path, target);
}

/* ---- differences ---- */

struct raw_reader {
	const char *p;
	size_t n, at;
};

/* The bytes up to a NUL; NULL at the end or when there is none. */
static const char *raw_field(struct raw_reader *r)
{
	const char *s = r->p + r->at, *nul;

	if (r->at >= r->n)
		return NULL;
	nul = memchr(s, '\0', r->n - r->at);
	if (!nul)
		return NULL;
	r->at += (size_t)(nul - s) + 1;
	return s;
}

static bool raw_mode(const char *s, unsigned *ret)
{
	unsigned v = 0;

	for (int i = 0; i < 6; i++) {
		if (s[i] < '0' || s[i] > '7')
			return false;
		v = v * 8 + (unsigned)(s[i] - '0');
	}
	*ret = v;
	return s[6] == ' ';
}

/* ":100644 100755 OID OID M" */
static bool raw_head(const char *s, size_t hex, struct change *c)
{
	if (strlen(s) < 1 + 14 + 2 * hex + 3 || s[0] != ':' || !raw_mode(s + 1, &c->old_mode) ||
		!raw_mode(s + 8, &c->new_mode) || !oid_parse(&c->old, s + 15, hex) ||
		s[15 + hex] != ' ' || !oid_parse(&c->new, s + 16 + hex, hex))
		return false;
	if (!c->old_mode)
		c->old = (struct oid){0};
	if (!c->new_mode)
		c->new = (struct oid){0};
	return true;
}

int land_parse_raw(const struct buf *out, enum git_hash h, struct changes *ret, struct err *e)
{
	struct raw_reader r = {.p = buf_str(out), .n = out->len};
	const char *head;

	while ((head = raw_field(&r))) {
		const char *path = raw_field(&r);
		struct change got = {0}, *c;

		if (!path || !raw_head(head, git_hash_len(h) * 2, &got))
			return err_set(e, EBADMSG, "read what git diff-tree says");
		c = changes_add(ret, path);
		if (!c)
			return land_no_memory(e);
		c->old_mode = got.old_mode;
		c->new_mode = got.new_mode;
		c->old = got.old;
		c->new = got.new;
	}
	if (r.at != r.n)
		return err_set(e, EBADMSG, "read what git diff-tree says");
	changes_sort(ret);
	return 0;
}

int land_diff(const struct repo *r, const struct oid *a, const struct oid *b, struct changes *ret,
	struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(LAND_LIST_MAX_B);
	struct oid_hex ha = oid_hex(a), hb = oid_hex(b);
	const char *argv[] = {
		"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", ha.s, hb.s, NULL};
	struct git_run run = {.argv = argv, .git_dir = r->store, .out = &out};
	int rc;

	ret->start_tree = *a;
	ret->tree = *b;
	if (oid_eq(a, b))
		return 0;
	rc = git_run(&run, e);
	return rc < 0 ? rc : land_parse_raw(&out, r->hash, ret, e);
}

/* ---- a tree with changes ---- */

static void add_info(
	struct buf *b, unsigned mode, const struct oid *o, size_t hex, const char *path)
{
	if (mode)
		buf_addf(b, "%o %s\t", mode, oid_hex(o).s);
	else
		buf_addf(b, "0 %0*d\t", (int)hex, 0);
	buf_add(b, path, strlen(path) + 1);
}

/* Deletions first: a file may take the place of a directory, or the other way round. */
static void index_info(const struct repo *r, const struct changes *c, struct buf *b)
{
	size_t hex = git_hash_len(r->hash) * 2;

	for (size_t i = 0; i < c->n; i++)
		if (!c->v[i].new_mode)
			add_info(b, 0, NULL, hex, c->v[i].path);
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].new_mode && c->v[i].new_mode != 040000)
			add_info(b, c->v[i].new_mode, &c->v[i].new, hex, c->v[i].path);
}

static int one_oid(const struct buf *out, struct oid *ret)
{
	size_t n = out->len;

	while (n > 0 && out->data[n - 1] == '\n')
		n--;
	return n > 0 && oid_parse(ret, out->data, n) ? 0 : -EBADMSG;
}

static int write_with(const struct repo *r, const char *index, const struct oid *tree,
	const struct buf *info, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	struct oid_hex h = oid_hex(tree);
	const char *env[] = {index, NULL};
	const char *read[] = {"read-tree", h.s, NULL};
	const char *update[] = {"update-index", "--add", "--replace", "-z", "--index-info", NULL};
	const char *write[] = {"write-tree", "--missing-ok", NULL};
	struct git_run run = {.argv = read, .git_dir = r->store, .env = env};
	struct oid empty;
	int rc = 0;

	land_empty_tree(r, &empty);
	if (!oid_eq(tree, &empty))
		rc = git_run(&run, e);
	if (rc == 0) {
		run = (struct git_run){.argv = update,
			.git_dir = r->store,
			.env = env,
			.in = buf_str(info),
			.in_n = info->len};
		rc = git_run(&run, e);
	}
	if (rc == 0) {
		run = (struct git_run){.argv = write, .git_dir = r->store, .env = env, .out = &out};
		rc = git_run(&run, e);
	}
	if (rc == 0 && one_oid(&out, ret) < 0)
		rc = err_set(e, EBADMSG, "read what git write-tree says");
	return rc;
}

int land_tree_with(const struct repo *r, const struct oid *tree, const struct changes *c,
	struct oid *ret, struct err *e)
{
	cleanup_buf struct buf info = BUF_INIT(LAND_LIST_MAX_B);
	char index[4200];
	int rc, n;

	index_info(r, c, &info);
	if (info.failed)
		return land_no_memory(e);
	if (info.len == 0) {
		*ret = *tree;
		return 0;
	}
	n = snprintf(index, sizeof(index), "GIT_INDEX_FILE=%s/croft-index-%d", r->store, getpid());
	if (n < 0 || (size_t)n >= sizeof(index))
		return err_set(e, ENAMETOOLONG, "make an index in %s", r->store);
	unlink(strchr(index, '=') + 1);
	rc = write_with(r, index, tree, &info, ret, e);
	unlink(strchr(index, '=') + 1);
	return rc < 0 ? err_wrap(e, "compute the tree") : 0;
}

int land_tree_of(const struct repo *r, const struct oid *commit, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	char spec[OID_HEX_MAX + 16];
	const char *argv[] = {"rev-parse", "--verify", "--quiet", "--end-of-options", spec, NULL};
	struct git_run run = {.argv = argv, .git_dir = r->store, .out = &out};
	int rc;

	snprintf(spec, sizeof(spec), "%s^{tree}", oid_hex(commit).s);
	rc = git_run(&run, e);
	if (rc == 0 && one_oid(&out, ret) < 0)
		rc = err_set(e, EBADMSG, "read what git rev-parse says");
	return rc;
}

void land_empty_tree(const struct repo *r, struct oid *ret)
{
	oid_of(ret, r->hash, GIT_TREE, "", 0);
}
