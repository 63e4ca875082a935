/* SPDX-License-Identifier: Apache-2.0 */
/* The commits of a range and what they change: see gate.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "evidence/gate.h"
#include "git/program.h"
#include "git/read.h"

#define LIST_MAX_B (1u << 30)
#define MESSAGE_MAX_B (16u << 20)

void gate_commits_done(struct gate_commits *c)
{
	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0; k < c->v[i].paths_n; k++)
			free(c->v[i].paths[k].path);
		free(c->v[i].paths);
		free(c->v[i].message);
	}
	free(c->v);
	*c = (struct gate_commits){0};
}

/* ------------------------------------------------------------------ the range */

/* Its ends, "NAME" and "^NAME" a line. What the user writes is a revision or range, never an option. */
static int name_ends(const struct repo *r, const char *range, struct buf *out, struct err *e)
{
	const char *argv[] = {"rev-parse", "--revs-only", range, "--", NULL};
	struct git_run run = {.argv = argv, .out = out};

	if (!r->git_dir)
		return err_invalid(e, "%s is no Git repository; a gate judges the commits of one",
			r->workspace);
	if (range[0] == '-' || !range[0])
		return err_invalid(
			e, "%.60s is not a range of commits; write one such as main..HEAD", range);
	return repo_git(r, &run, e);
}

/*
 * Oldest first. Only the names are the user's: what lies between them is asked in the store, of the objects
 * alone, since replacements, grafts and the end of a shallow clone would hide commits.
 */
static int list_range(const struct repo *r, const char *range, struct buf *out, struct err *e)
{
	const char *argv[] = {"rev-list", "--reverse", "--topo-order", "--stdin", NULL};
	const char *env[] = {GATE_WHOLE_HISTORY, NULL};
	cleanup_buf struct buf ends = BUF_INIT(1u << 20);
	struct git_run run = {.argv = argv, .git_dir = r->store, .env = env, .out = out};
	int x = name_ends(r, range, &ends, e);

	if (x == 0) {
		run.in = buf_str(&ends);
		run.in_n = ends.len;
		x = ends.len ? git_run(&run, e) : err_invalid(e, "it names no commit");
	}
	if (x < 0 && r->shallow)
		return err_wrap(e,
			"list the commits of %.100s (this clone is shallow; git fetch --unshallow "
			"gets the rest)",
			range);
	return x < 0 ? err_wrap(e, "list the commits of %.100s", range) : 0;
}

static int take_range(struct gate_commits *c, const struct buf *list, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < list->len; i++)
		n += list->data[i] == '\n';
	if (n > GATE_COMMITS_MAX)
		return err_invalid(e, "the range has %zu commits; a gate takes at most %u", n,
			GATE_COMMITS_MAX);
	c->v = calloc(n + 1, sizeof(*c->v));
	if (!c->v)
		return err_set(e, ENOMEM, "list the commits");
	for (const char *p = buf_str(list); *p; p += strcspn(p, "\n") + 1) {
		if (c->n >= n || !oid_parse(&c->v[c->n].oid, p, strcspn(p, "\n")))
			return err_set(e, EBADMSG, "git's list of commits");
		c->n++;
		if (!strchr(p, '\n'))
			break;
	}
	return 0;
}

static int read_commit(struct git_reader *g, const struct oid *o, enum git_hash h,
	struct commit_info *ret, struct err *e)
{
	cleanup_buf struct buf raw = BUF_INIT(MESSAGE_MAX_B);
	int x = git_read_oid(g, o, GIT_COMMIT, &raw, e);

	return x < 0 ? x : git_commit_parse(buf_str(&raw), raw.len, h, ret, e);
}

/* The tree that a commit starts from; it stays none where that is not here. */
static void read_parent_tree(struct git_reader *g, struct gate_commit *c, enum git_hash h)
{
	struct err missing = ERR_INIT;
	struct commit_info info;

	if (c->parents_n == 0)
		oid_of(&c->parent_tree, h, GIT_TREE, "", 0);
	if (c->parents_n != 1 || read_commit(g, &c->parents[0], h, &info, &missing) < 0)
		return;
	c->parent_tree = info.tree;
	commit_info_done(&info);
}

static int read_commits(struct gate_commits *c, const struct repo *r, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	int x = git_reader_open(&g, r->store, e);

	for (size_t i = 0; i < c->n && x == 0; i++) {
		struct gate_commit *v = &c->v[i];
		struct commit_info info;

		x = read_commit(g, &v->oid, r->hash, &info, e);
		if (x < 0)
			break;
		static_assert(sizeof(info.parents) == sizeof(v->parents), "as many parents");
		memcpy(v->parents, info.parents, sizeof(v->parents));
		v->tree = info.tree;
		v->parents_n = info.parents_n;
		v->message = take_ptr(info.message);
		commit_info_done(&info);
		if (!v->message)
			return err_set(e, ENOMEM, "read a commit");
		read_parent_tree(g, v, r->hash);
	}
	return x;
}

/* ------------------------------------------------------------------ paths */

static int add_path(struct gate_commit *c, const char *path, const struct gate_file *old,
	const struct gate_file *new, struct err *e)
{
	if (c->paths_n == c->paths_cap) {
		size_t want = c->paths_cap ? c->paths_cap * 2 : 8;
		struct gate_path *more = reallocarray(c->paths, want, sizeof(*more));

		if (!more)
			return err_set(e, ENOMEM, "read a commit");
		c->paths = more;
		c->paths_cap = want;
	}
	c->paths[c->paths_n] = (struct gate_path){strdup(path), *old, *new};
	if (!c->paths[c->paths_n].path)
		return err_set(e, ENOMEM, "read a commit");
	c->paths_n++;
	return 0;
}

/* ":M1 M2 O1 O2 A" */
static int take_entry(struct gate_commit *c, const char *p, const char *path, struct err *e)
{
	struct gate_file side[2] = {0};
	const char *field[4];
	size_t n = 0;

	for (const char *q = p + 1; *q && n < ARRAY_SIZE(field); n++) {
		field[n] = q;
		q += strcspn(q, " ");
		q += *q == ' ';
	}
	for (size_t i = 0; i < 2 && n == ARRAY_SIZE(field); i++) {
		side[i].mode = (unsigned)strtoul(field[i], NULL, 8);
		if (!oid_parse(&side[i].oid, field[i + 2], strcspn(field[i + 2], " ")))
			n = 0;
	}
	if (n != ARRAY_SIZE(field))
		return err_set(e, EBADMSG, "git's list of changes");
	return add_path(c, path, &side[0], &side[1], e);
}

int gate_commits_paths(struct gate_commits *c, const char *p, size_t n, struct err *e)
{
	const char *end = p + n;
	struct gate_commit *at = NULL;
	size_t next = 0;
	int r = 0;

	while (p < end && r == 0) {
		size_t len = strnlen(p, (size_t)(end - p));
		struct oid o;

		if (*p == ':') {
			const char *path = p + len + 1;

			if (!at || path >= end)
				return err_set(e, EBADMSG, "git's list of changes");
			r = take_entry(at, p, path, e);
			p = path + strnlen(path, (size_t)(end - path)) + 1;
			continue;
		}
		/* Commits that change nothing are passed over in the list. */
		if (!oid_parse(&o, p, len))
			return err_set(e, EBADMSG, "git's list of changes");
		while (next < c->n && !oid_eq(&c->v[next].oid, &o))
			next++;
		if (next == c->n)
			return err_set(e, EBADMSG, "git's list of changes");
		at = &c->v[next];
		p += len + 1;
	}
	return r;
}

/* Those that are no merges: what a merge changes is asked in another way. */
static void list_plain(const struct gate_commits *c, struct buf *out)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].parents_n < 2)
			buf_addf(out, "%s\n", oid_hex(&c->v[i].oid).s);
}

static int read_paths(
	struct gate_commits *c, const struct repo *r, const struct buf *plain, struct err *e)
{
	const char *argv[] = {"diff-tree", "--stdin", "-r", "--raw", "-z", "--no-renames",
		"--no-abbrev", "--ignore-submodules=none", "--root", NULL};
	const char *env[] = {GATE_WHOLE_HISTORY, NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct git_run run = {.argv = argv,
		.git_dir = r->store,
		.env = env,
		.in = buf_str(plain),
		.in_n = plain->len,
		.out = &out};
	int x = plain->len ? git_run(&run, e) : 0;

	if (x == 0)
		x = gate_commits_paths(c, buf_str(&out), out.len, e);
	for (size_t i = 0; i < c->n && x == 0; i++)
		if (c->v[i].parents_n > 1)
			x = gate_merge_look(&c->v[i], r, e);
	return x;
}

/* ------------------------------------------------------------------ patch ids */

/* The commit that a line names, from *next on; NULL: none. Both lists have the same order. */
static struct gate_commit *named(struct gate_commits *c, const char *p, size_t n, size_t *next)
{
	struct oid o;

	if (!oid_parse(&o, p, n))
		return NULL;
	for (size_t i = *next; i < c->n; i++)
		if (oid_eq(&c->v[i].oid, &o)) {
			*next = i;
			return &c->v[i];
		}
	return NULL;
}

/* "PATCH COMMIT" lines; commits without a patch are passed over. */
static void take_patch_ids(struct gate_commits *c, const struct buf *b)
{
	size_t next = 0;

	for (const char *p = buf_str(b); *p;) {
		size_t id = strcspn(p, " \n"), line = strcspn(p, "\n");
		struct gate_commit *v =
			id < line ? named(c, p + id + 1, line - id - 1, &next) : NULL;

		if (v && id <= OID_HEX_MAX) {
			memcpy(v->patch_id, p, id);
			v->patch_id[id] = '\0';
		}
		p += line + (p[line] == '\n');
	}
}

/*
 * What a patch id does not see must not be found by one. Git reads a line up to its first NUL only, and
 * takes the target of a link, or the commit of a submodule, for text like any other.
 */
static void drop_blind_ids(struct gate_commits *c, const char *p, size_t n)
{
	struct gate_commit *at = NULL;
	size_t next = 0;

	for (const char *end = p + n; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t line = (size_t)((nl ? nl : end) - p);
		struct gate_commit *v = named(c, p, line, &next);

		at = v ? v : at;
		if (at && memchr(p, '\0', line))
			at->patch_id[0] = '\0';
		p += line + 1;
	}
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->v[i].paths_n; k++) {
			const struct gate_path *w = &c->v[i].paths[k];

			if ((w->old.mode && !S_ISREG(w->old.mode)) ||
				(w->new.mode && !S_ISREG(w->new.mode)))
				c->v[i].patch_id[0] = '\0';
		}
}

static int drop_blind_ids_in(struct gate_commits *c, int fd, struct err *e)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "read patches");
	if (st.st_size == 0)
		return 0;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return err_set(e, errno, "read patches");
	drop_blind_ids(c, p, (size_t)st.st_size);
	munmap(p, (size_t)st.st_size);
	return 0;
}

/* As landing computes them (land/land_event.c); through an unnamed file, for patches may be large. */
static int read_patch_ids(
	struct gate_commits *c, const struct repo *r, const struct buf *plain, struct err *e)
{
	const char *diff[] = {"diff-tree", "--stdin", "-r", "--root", PATCH_ID_DIFF, NULL};
	const char *ids[] = {"patch-id", PATCH_ID_OPTION, NULL};
	const char *env[] = {GATE_WHOLE_HISTORY, NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	cleanup_fd int fd = open(r->store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct git_run run = {.argv = diff,
		.git_dir = r->store,
		.env = env,
		.in = buf_str(plain),
		.in_n = plain->len};
	int x;

	if (fd < 0)
		fd = memfd_create("croft-patches", MFD_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "keep patches");
	run.out_fd = fd;
	x = git_run(&run, e);
	if (x < 0)
		return x;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "read patches");
	run = (struct git_run){.argv = ids, .git_dir = r->store, .in_fd = fd, .out = &out};
	x = git_run(&run, e);
	if (x < 0)
		return x;
	take_patch_ids(c, &out);
	return drop_blind_ids_in(c, fd, e);
}

int gate_commits_load(
	struct gate_commits *ret, const struct repo *r, const struct buf *list, struct err *e)
{
	cleanup_gate_commits struct gate_commits c = {0};
	cleanup_buf struct buf plain = BUF_INIT(list->max);
	int x = take_range(&c, list, e);

	if (x == 0 && c.n)
		x = read_commits(&c, r, e);
	if (x < 0)
		return x;
	list_plain(&c, &plain);
	if (plain.failed)
		return err_set(e, ENOMEM, "list the commits");
	x = read_paths(&c, r, &plain, e);
	if (x == 0 && plain.len)
		x = git_version(e);
	if (x >= PATCH_ID_GIT_MIN)
		x = read_patch_ids(&c, r, &plain, e);
	if (x < 0)
		return x;
	*ret = c;
	c = (struct gate_commits){0};
	return 0;
}

int gate_commits_read(
	struct gate_commits *ret, const struct repo *r, const char *range, struct err *e)
{
	cleanup_buf struct buf list = BUF_INIT(GATE_COMMITS_MAX * (OID_HEX_MAX + 1) * 4);
	int x = list_range(r, range, &list, e);

	return x < 0 ? x : gate_commits_load(ret, r, &list, e);
}
