/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a base: see base.h.
 *
 * Order:   a directory ".new.…", locked as long as its maker lives -> the skeleton of .git -> index and
 *          files, by git run clean -> submodules -> the treemap -> where objects are inside (last: on
 *          the host those paths do not exist) -> base.json -> everything on disk -> renamed to its key.
 * Failure: the directory is removed; after a crash the lock is free, and a sweep removes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "git/program.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/base_impl.h"
#include "snap/scan_impl.h"

#define MAKE_TRIES 16
#define BATCH 4000u /* files between two words on progress */

void base_links_done(struct base_links *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	*l = (struct base_links){0};
}

/* ------------------------------------------------------------------ the skeleton */

static int put_file(
	struct base_maker *k, const char *dir, const char *name, const void *p, size_t n)
{
	cleanup_free char *path = path_join(dir, name);
	cleanup_fd int fd = -1;
	int r;

	if (!path)
		return err_set(k->e, ENOMEM, "write %s", name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : fd_write_all(fd, p, n);
	return r < 0 ? err_set(k->e, -r, "write %s", path) : 0;
}

int base_skeleton(struct base_maker *k, const char *git_dir, const char *head, bool top)
{
	static const char *const dirs[] = {"", "info", "objects", "objects/info", "objects/pack",
		"refs", "refs/heads", "refs/tags"};
	const struct base_settings *s = k->settings;
	cleanup_buf struct buf config = BUF_INIT(2 * BASE_FILE_MAX_B);
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		cleanup_free char *path = path_join(git_dir, dirs[i]);

		if (!path || mkdir(path, 0777) < 0)
			return err_set(k->e, errno, "create %s/%s", git_dir, dirs[i]);
	}
	buf_add(&config, buf_str(&s->core), s->core.len);
	if (top)
		buf_add(&config, buf_str(&s->remotes), s->remotes.len);
	else if (s->sparse.len)
		buf_adds(&config, "[core]\n\tsparsecheckout = false\n");
	r = put_file(k, git_dir, "HEAD", head, strlen(head));
	if (r == 0)
		r = put_file(k, git_dir, "config", buf_str(&config), config.len);
	if (r == 0)
		r = put_file(k, git_dir, "info/exclude", buf_str(&s->exclude), s->exclude.len);
	if (r == 0 && top && s->attributes.len) {
		k->attributes = true;
		r = put_file(k, git_dir, "info/attributes", s->attributes.data, s->attributes.len);
	}
	if (r == 0 && top && s->sparse.len)
		r = put_file(k, git_dir, "info/sparse-checkout", s->sparse.data, s->sparse.len);
	return r;
}

int base_alternates(struct base_maker *k, const char *git_dir, size_t first, size_t n)
{
	cleanup_buf struct buf b = BUF_INIT(BASE_FILE_MAX_B);

	for (size_t i = 0; i < n; i++)
		buf_addf(&b, "%s/%zu\n", BASE_OBJECTS_DIR, first + i);
	return put_file(k, git_dir, "objects/info/alternates", buf_str(&b), b.len);
}

/* ------------------------------------------------------------------ files and index */

/* "K=a:b": an entry with a colon, or that begins with a quote, is quoted as Git reads it. */
static char *alternates_env(const struct strlist *from)
{
	cleanup_buf struct buf b = BUF_INIT(BASE_FILE_MAX_B);

	buf_adds(&b, "GIT_ALTERNATE_OBJECT_DIRECTORIES=");
	for (size_t i = 0; i < from->n; i++) {
		const char *p = from->v[i];

		if (i)
			buf_addc(&b, ':');
		if (!strpbrk(p, ":\"\n")) {
			buf_adds(&b, p);
			continue;
		}
		buf_addc(&b, '"');
		for (; *p; p++) {
			if (*p == '"' || *p == '\\')
				buf_addc(&b, '\\');
			if (*p == '\n')
				buf_adds(&b, "\\n");
			else
				buf_addc(&b, *p);
		}
		buf_addc(&b, '"');
	}
	return buf_take(&b);
}

struct checkout {
	struct base_maker *k;
	const struct base_checkout *c;
	const char *env[3];
	struct buf listing; /* of the index */
};

static int run(struct checkout *co, const char *const *argv, const struct buf *in, struct buf *out)
{
	struct git_run g = {.argv = argv,
		.git_dir = co->c->git_dir,
		.dir = co->c->work_tree,
		.env = co->env,
		.in = in ? in->data : NULL,
		.in_n = in ? in->len : 0,
		.out = out};

	return git_run(&g, co->k->e);
}

/* One line of "ls-files -s -t -z": "H 100644 NAME 0\tpath". */
struct index_line {
	bool skipped; /* outside of a sparse checkout */
	unsigned mode;
	struct oid oid;
	const char *path;
};

static int index_line(struct checkout *co, size_t *at, struct index_line *ret)
{
	const struct buf *b = &co->listing;
	const char *s, *tab, *space;

	if (*at >= b->len)
		return 0;
	s = b->data + *at;
	*at += strlen(s) + 1;
	tab = strchr(s, '\t');
	space = tab && strlen(s) > 9 ? strchr(s + 9, ' ') : NULL;
	if (!space || space > tab || !oid_parse(&ret->oid, s + 9, (size_t)(space - s - 9)))
		return err_set(co->k->e, EBADMSG, "git ls-files answered oddly");
	ret->skipped = s[0] == 'S';
	ret->mode = (unsigned)strtoul(s + 2, NULL, 8);
	ret->path = tab + 1;
	return 1;
}

static int take_links(struct checkout *co, struct base_links *ret)
{
	struct index_line l;
	size_t at = 0;
	int r;

	while ((r = index_line(co, &at, &l)) > 0) {
		const char *slash = strrchr(l.path, '/');

		if (str_eq(slash ? slash + 1 : l.path, ".gitattributes"))
			co->k->attributes = true;
		if (l.mode != 0160000 || l.skipped)
			continue;
		if (ret->n == ret->cap) {
			size_t cap = ret->cap ? ret->cap * 2 : 8;
			struct base_link *v = realloc(ret->v, cap * sizeof(*v));

			if (!v)
				return err_set(co->k->e, ENOMEM, "list submodules");
			ret->v = v;
			ret->cap = cap;
		}
		ret->v[ret->n] = (struct base_link){.path = strdup(l.path), .commit = l.oid};
		if (!ret->v[ret->n].path)
			return err_set(co->k->e, ENOMEM, "list submodules");
		ret->n++;
	}
	return r;
}

/* In portions, so that somebody who waits sees it move. */
static int write_files(struct checkout *co)
{
	static const char *const argv[] = {"-c", "checkout.workers=0", "checkout-index", "-q", "-f",
		"-u", "-z", "--stdin", NULL};
	cleanup_buf struct buf names = BUF_INIT(BASE_LIST_MAX_B);
	size_t total = 0, done = 0, at = 0, in_batch = 0;
	struct index_line l;
	int r;

	for (size_t i = 0; i < co->listing.len; i++)
		total += co->listing.data[i] == '\0';
	while ((r = index_line(co, &at, &l)) > 0) {
		buf_add(&names, l.path, strlen(l.path) + 1);
		done++;
		if (++in_batch < BATCH && done < total)
			continue;
		r = names.failed ? -ENOMEM : run(co, argv, &names, NULL);
		if (r < 0)
			return r;
		co->k->progress(co->k->arg, (unsigned)(done * 100 / total));
		buf_reset(&names);
		in_batch = 0;
	}
	return r;
}

int base_checkout(struct base_maker *k, const struct base_checkout *c, struct base_links *ret)
{
	cleanup_free char *alternates = alternates_env(c->from);
	cleanup_free char *work_tree = NULL;
	struct checkout co = {.k = k, .c = c, .listing = BUF_INIT(BASE_LIST_MAX_B)};
	bool at_once = !k->progress || !c->top || k->settings->sparse.len;
	int r;

	if (!alternates || asprintf(&work_tree, "GIT_WORK_TREE=%s", c->work_tree) < 0)
		return err_set(k->e, ENOMEM, "check out files");
	co.env[0] = alternates;
	co.env[1] = work_tree;
	r = at_once ? run(&co,
			      (const char *const[]){"-c", "checkout.workers=0", "read-tree",
				      "--reset", "-u", c->treeish, NULL},
			      NULL, NULL)
		    : run(&co, (const char *const[]){"read-tree", c->treeish, NULL}, NULL, NULL);
	if (r == 0)
		r = run(&co, (const char *const[]){"ls-files", "-s", "-t", "-z", NULL}, NULL,
			&co.listing);
	if (r == 0 && !at_once)
		r = write_files(&co);
	if (r == 0)
		r = take_links(&co, ret);
	buf_done(&co.listing);
	if (r < 0)
		return err_wrap(k->e,
			"git could not write the files of %.12s (are objects missing? see `git "
			"fsck`; in a partial clone, fetch them with `git checkout` first)",
			c->treeish);
	return 0;
}

/* ------------------------------------------------------------------ the whole */

static int write_json(struct base_maker *k, int dir)
{
	cleanup_buf struct buf b = BUF_INIT(BASE_FILE_MAX_B);
	struct json j;
	int r;

	json_init(&j, &b, true);
	json_object(&j, NULL);
	json_int(&j, "format", BASE_FORMAT);
	json_str(&j, "hash", k->repo->hash == GIT_SHA256 ? "sha256" : "sha1");
	json_bool(&j, "attributes", k->attributes);
	json_bool(&j, "autocrlf", k->settings->autocrlf);
	json_array(&j, "objects");
	for (size_t i = 0; i < k->objects.n; i++) {
		cleanup_buf struct buf one = BUF_INIT(BASE_FILE_MAX_B);

		for (const char *p = k->objects.v[i]; *p; p++) {
			if (*p == '%' || *p < ' ' || *p > '~')
				buf_addf(&one, "%%%02x", (unsigned)(unsigned char)*p);
			else
				buf_addc(&one, *p);
		}
		json_str(&j, NULL, buf_str(&one));
	}
	json_end(&j);
	json_end(&j);
	buf_addc(&b, '\n');
	r = b.failed ? -ENOMEM : file_replace_at(dir, "base.json", b.data, b.len, 0644);
	return r < 0 ? err_set(k->e, -r, "write base.json") : 0;
}

static int fill(struct base_maker *k, int dir, const struct oid *tree)
{
	const struct repo *r = k->repo;
	cleanup_free char *git_dir = path_join(k->tree, ".git");
	cleanup_free char *own = path_join(r->git_dir, "modules");
	cleanup_free char *common = path_join(r->common_dir, "modules");
	cleanup_base_links struct base_links links = {0};
	struct oid_hex hex = oid_hex(tree);
	struct base_checkout top = {.work_tree = k->tree,
		.git_dir = git_dir,
		.from = &r->objects,
		.treeish = hex.s,
		.top = true};
	int rc;

	if (!git_dir || !own || !common)
		return err_set(k->e, ENOMEM, "make a base");
	if (mkdirat(dir, "tree", 0777) < 0)
		return err_set(k->e, errno, "create %s", k->tree);
	for (size_t i = 0; i < r->objects.n; i++)
		if (!strlist_add(&k->objects, r->objects.v[i]))
			return err_set(
				k->e, E2BIG, "the repository has too many object directories");
	/* a base belongs to a tree, not to a commit: each environment brings a HEAD of its own */
	rc = base_skeleton(k, git_dir, "ref: refs/heads/croft\n", true);
	if (rc == 0)
		rc = base_checkout(k, &top, &links);
	if (rc == 0)
		rc = base_submodules(k, k->tree, r->workspace,
			(const char *const[]){own, common, NULL}, &links, 0);
	if (rc == 0)
		rc = treemap_make(r, tree, dir, "trees", k->e);
	if (rc == 0)
		rc = base_alternates(k, git_dir, 0, r->objects.n);
	return rc < 0 ? rc : write_json(k, dir);
}

/* A new directory with our lock on it; a sweeper may take it away before we have that. */
static int make_temp(int bases, char name[64], struct err *e)
{
	static atomic_uint serial;

	for (int i = 0; i < MAKE_TRIES; i++) {
		cleanup_fd int fd = -1;
		struct stat a, b;

		snprintf(name, 64, ".new.%d.%u", getpid(), atomic_fetch_add(&serial, 1));
		if (mkdirat(bases, name, 0755) < 0) {
			if (errno == EEXIST)
				continue;
			break;
		}
		fd = openat(bases, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &a) == 0 &&
			fstatat(bases, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino)
			return take_fd(&fd);
	}
	return err_set(e, errno, "create a directory for a base");
}

int base_make(const struct repo *r, const struct base_settings *s, const struct oid *tree,
	const char *state_dir, const char *key, void (*progress)(void *arg, unsigned percent),
	void *arg, struct err *e)
{
	cleanup_free char *path = path_join(state_dir, "bases");
	struct base_maker k = {.repo = r,
		.settings = s,
		.objects = STRLIST_INIT(BASE_OBJECTS_MAX),
		.progress = progress,
		.arg = arg,
		.e = e};
	cleanup_fd int made = path ? dir_make(path, 0700) : -ENOMEM;
	cleanup_fd int bases = -1;
	cleanup_fd int dir = -1;
	char temp[64];
	int rc;

	bases = made < 0 ? made : openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (bases < 0)
		return err_set(e, made < 0 ? -made : errno, "create %s/bases", state_dir);
	dir = make_temp(bases, temp, e);
	if (dir < 0)
		return dir;
	rc = asprintf(&k.tree, "%s/%s/tree", path, temp) < 0 ? err_set(e, ENOMEM, "make a base")
							     : fill(&k, dir, tree);
	if (rc == 0 && syncfs(dir) < 0)
		rc = err_set(e, errno, "write the base to disk");
	if (rc == 0 && renameat(bases, temp, bases, key) < 0 && errno != EEXIST &&
		errno != ENOTEMPTY)
		rc = err_set(e, errno, "name the base %s", key);
	else if (rc == 0)
		fsync(bases);
	tree_remove_at(bases, temp); /* ours, when it failed or another was first */
	free(k.tree);
	strlist_done(&k.objects);
	return rc;
}
