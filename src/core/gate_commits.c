/* SPDX-License-Identifier: Apache-2.0 */
/* The commits of a range and what they change: see gate.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/gate.h"
#include "git/program.h"
#include "git/read.h"

#define LIST_MAX_B (1u << 30)
#define MESSAGE_MAX_B (16u << 20)
#define FIELDS_MAX 24

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

/* Oldest first. What the user writes is a revision or range, never an option. */
static int list_range(const struct repo *r, const char *range, struct buf *out, struct err *e)
{
	const char *argv[] = {
		"rev-list", "--reverse", "--topo-order", "--end-of-options", range, "--", NULL};
	struct git_run run = {.argv = argv, .dir = r->workspace, .out = out};
	int x;

	if (!r->git_dir)
		return err_invalid(e, "%s is no Git repository; a gate judges the commits of one",
			r->workspace);
	if (range[0] == '-' || !range[0])
		return err_invalid(
			e, "%.60s is no range of commits; write one such as main..HEAD", range);
	x = git_run(&run, e);
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

static int read_messages(struct gate_commits *c, const struct repo *r, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	int x = git_reader_open(&g, r->store, e);

	for (size_t i = 0; i < c->n && x == 0; i++) {
		cleanup_buf struct buf raw = BUF_INIT(MESSAGE_MAX_B);
		struct commit_info info;

		x = git_read_oid(g, &c->v[i].oid, GIT_COMMIT, &raw, e);
		if (x == 0)
			x = git_commit_parse(buf_str(&raw), raw.len, r->hash, &info, e);
		if (x < 0)
			break;
		c->v[i].tree = info.tree;
		c->v[i].parents_n = info.parents_n;
		c->v[i].message = take_ptr(info.message);
		commit_info_done(&info);
		if (!c->v[i].message)
			return err_set(e, ENOMEM, "read a commit");
	}
	return x;
}

/* ------------------------------------------------------------------ paths */

static int add_path(
	struct gate_commit *c, const char *path, unsigned mode, const struct oid *o, struct err *e)
{
	if (c->paths_n == c->paths_cap) {
		size_t want = c->paths_cap ? c->paths_cap * 2 : 8;
		struct gate_path *more = reallocarray(c->paths, want, sizeof(*more));

		if (!more)
			return err_set(e, ENOMEM, "read a commit");
		c->paths = more;
		c->paths_cap = want;
	}
	c->paths[c->paths_n] = (struct gate_path){.path = strdup(path), .mode = mode, .oid = *o};
	if (!c->paths[c->paths_n].path)
		return err_set(e, ENOMEM, "read a commit");
	c->paths_n++;
	return 0;
}

/*
 * ":M1 M2 O1 O2 A", or for a merge "::M1 M2 M3 O1 O2 O3 AM": as many colons as parents; the last mode and
 * the last name are the commit's own.
 */
static int take_entry(struct gate_commit *c, const char *p, const char *path, struct err *e)
{
	size_t parents = strspn(p, ":"), n = 0;
	const char *field[FIELDS_MAX];
	struct oid o = {0};
	unsigned mode;

	if (parents == 0 || 2 * (parents + 1) >= FIELDS_MAX)
		return err_set(e, EBADMSG, "git's list of changes");
	for (const char *q = p + parents; *q && n < FIELDS_MAX; n++) {
		field[n] = q;
		q += strcspn(q, " ");
		q += *q == ' ';
	}
	if (n < 2 * (parents + 1))
		return err_set(e, EBADMSG, "git's list of changes");
	mode = (unsigned)strtoul(field[parents], NULL, 8);
	if (!oid_parse(&o, field[2 * parents + 1], strcspn(field[2 * parents + 1], " ")))
		return err_set(e, EBADMSG, "git's list of changes");
	return add_path(c, path, mode, &o, e);
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

static int read_paths(
	struct gate_commits *c, const struct repo *r, const struct buf *list, struct err *e)
{
	const char *argv[] = {"diff-tree", "--stdin", "-r", "-c", "--raw", "-z", "--no-renames",
		"--no-abbrev", "--root", NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct git_run run = {.argv = argv,
		.git_dir = r->store,
		.in = buf_str(list),
		.in_n = list->len,
		.out = &out};
	int x = git_run(&run, e);

	return x < 0 ? x : gate_commits_paths(c, buf_str(&out), out.len, e);
}

/* ------------------------------------------------------------------ patch ids */

/* "PATCH COMMIT" lines, in the order of the commits; those without a patch are passed over. */
static void take_patch_ids(struct gate_commits *c, const struct buf *b)
{
	size_t next = 0;

	for (const char *p = buf_str(b); *p;) {
		size_t id = strcspn(p, " \n"), line = strcspn(p, "\n");
		struct oid o;

		if (id < line && id <= OID_HEX_MAX && oid_parse(&o, p + id + 1, line - id - 1)) {
			while (next < c->n && !oid_eq(&c->v[next].oid, &o))
				next++;
			if (next == c->n)
				return;
			memcpy(c->v[next].patch_id, p, id);
			c->v[next].patch_id[id] = '\0';
		}
		p += line + (p[line] == '\n');
	}
}

/* As landing computes them (core/land_event.c); through an unnamed file, for patches may be large. */
static int read_patch_ids(
	struct gate_commits *c, const struct repo *r, const struct buf *list, struct err *e)
{
	const char *diff[] = {"diff-tree", "--stdin", "-r", "-p", "--root", "--no-ext-diff",
		"--no-textconv", NULL};
	const char *ids[] = {"patch-id", "--stable", NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	cleanup_fd int fd = open(r->store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct git_run run = {
		.argv = diff, .git_dir = r->store, .in = buf_str(list), .in_n = list->len};
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
	if (x == 0)
		take_patch_ids(c, &out);
	return x;
}

int gate_commits_load(
	struct gate_commits *ret, const struct repo *r, const struct buf *list, struct err *e)
{
	cleanup_gate_commits struct gate_commits c = {0};
	int x = take_range(&c, list, e);

	if (x == 0 && c.n)
		x = read_messages(&c, r, e);
	if (x == 0 && c.n)
		x = read_paths(&c, r, list, e);
	if (x == 0 && c.n)
		x = read_patch_ids(&c, r, list, e);
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
