/* SPDX-License-Identifier: Apache-2.0 */
/* What a command left that the host will execute: see planted.h. */
#include "core/planted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/gitplain.h"
#include "os/path.h"
#include "os/uapi.h"
#include "policy/runs.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1u << 0)
#endif

#define TEXT_NAMES 10
#define DIRS_MAX 2048 /* directories that wait to be looked at */

struct look {
	struct planted *to;
	const struct planted_scope *s;
	const char *tree; /* the grant at hand */
	struct strlist dirs;
	size_t next;
	unsigned left; /* entries */
	bool first;    /* before the command: repositories are only noted */
	bool seen;     /* by the watchers: it may lie where no look before went */
};

static bool is_within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return n == 1 || (strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]));
}

static bool is_since(const struct look *l, const struct stat *st)
{
	const struct timespec *t = l->s->since;

	return st->st_ctim.tv_sec > t->tv_sec ||
	       (st->st_ctim.tv_sec == t->tv_sec && st->st_ctim.tv_nsec >= t->tv_nsec);
}

/* Could the command write it at all, and where no review follows? */
static bool was_open(const struct look *l, const char *path)
{
	return policy_access(l->s->policy, path, NULL) == ACCESS_WRITE &&
	       !(l->s->except && is_within(l->s->except, path));
}

static struct planted_name *keep(struct look *l, const char *path, const char *why)
{
	struct planted *p = l->to;

	for (size_t i = 0; i < p->n; i++)
		if (str_eq(p->v[i].path, path) || (!p->v[i].git && is_within(p->v[i].path, path)))
			return NULL; /* told, or below a directory that was */
	if (p->n == PLANTED_MAX) {
		p->beyond++;
		return NULL;
	}
	p->v[p->n] = (struct planted_name){.path = strdup(path), .why = why};
	return p->v[p->n].path ? &p->v[p->n++] : NULL;
}

/* ---- repositories ---- */

/* Rename, in the directory that was looked at, to a name that nothing has, and that could not be foreseen. */
static bool put_away(int dir, const char *name, const char *path, const char *run_id, char **ret)
{
	for (int i = 0; i < 8; i++) {
		char to[NAME_MAX + 1];
		uint64_t r = 0;

		if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
			return false;
		snprintf(to, sizeof(to), "%s.quarantined-%s-%016" PRIx64, name, run_id, r);
		if (syscall(SYS_renameat2, dir, name, dir, to, RENAME_NOREPLACE) == 0 ||
			(errno == EINVAL && faccessat(dir, to, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
				renameat(dir, name, dir, to) == 0)) {
			cleanup_buf struct buf b = BUF_INIT(PATH_MAX + NAME_MAX);

			buf_addf(&b, "%.*s%s", (int)(strlen(path) - strlen(name)), path, to);
			*ret = buf_take(&b);
			return true;
		}
		if (errno != EEXIST)
			return false;
	}
	return false;
}

static void quarantine(struct look *l, int dir, const char *name, const char *path, const char *why)
{
	struct planted_name *x = keep(l, path, why);
	char *moved = NULL;

	/* It is put away even when there is no room to say which. */
	if (put_away(dir, name, path, l->s->run_id, &moved) && x)
		x->moved = take_ptr(moved);
	if (x)
		x->git = true;
	free(moved);
}

/* A whole repository at this path, told from all that could take its place. */
static bool identify(struct buf *ret, int fd, const char *path)
{
	bool whole = gitplain_whole(fd, ret);

	buf_adds(ret, path);
	return whole && !ret->failed;
}

static void note_repository(struct look *l, int fd, const char *path)
{
	cleanup_buf struct buf id = BUF_INIT(2 * POLICY_PATH_MAX);

	if (identify(&id, fd, path) && !strlist_add(l->s->before, buf_str(&id)))
		l->to->partly = true;
}

static bool was_changed(const struct look *l, int fd, const char *path)
{
	cleanup_buf struct buf id = BUF_INIT(2 * POLICY_PATH_MAX);
	bool whole = identify(&id, fd, path);
	enum gitplain_before before = whole && strlist_has(l->s->before, buf_str(&id)) ? GITPLAIN_THERE
				      : l->s->before_partly || l->seen ? GITPLAIN_UNKNOWN
								       : GITPLAIN_ABSENT;

	return gitplain_changed(fd, l->s->since, before);
}

/* A name that Git takes for the repository of the directory around it. */
static void look_at_git(struct look *l, int dir, const char *name, const char *path)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *why;
	struct stat st;

	if (!was_open(l, path))
		return;
	if (l->first) {
		if (fd >= 0)
			note_repository(l, fd, path);
		return;
	}
	if (fd < 0) {
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_since(l, &st))
			quarantine(l, dir, name, path,
				S_ISDIR(st.st_mode) ? "a repository that cannot be read"
						    : "leads to a repository elsewhere");
		return;
	}
	if (was_changed(l, fd, path) && (why = gitplain_beyond(fd)))
		quarantine(l, dir, name, path, why);
}

/*
 * A directory that is itself a repository: Git takes it for one when somebody stands in it. Without a HEAD it
 * is none, and may be anything; whoever adds that later makes a repository then.
 */
static void look_at_bare(struct look *l, int dir, const char *path)
{
	static const char name[] = "HEAD";
	static const char *const parts[] = {name, "objects", "refs"};
	char head[PATH_MAX + sizeof(name)];
	const char *why;
	struct stat st;

	snprintf(head, sizeof(head), "%s/%s", path, name);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (fstatat(dir, parts[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return;
	if (strlen(head) >= POLICY_PATH_MAX || !was_open(l, head))
		return;
	if (l->first)
		note_repository(l, dir, path);
	else if (was_changed(l, dir, path) && (why = gitplain_beyond(dir)))
		quarantine(l, dir, name, head, why);
}

/* ---- names ---- */

/* Was anything in this directory changed? A few levels are enough for the name to be told. */
static bool changed_below(const struct look *l, int dir, const char *name, unsigned depth)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	struct stat st;
	unsigned n = 0;

	if (fd < 0)
		return false;
	if (!(d = fdopendir(fd))) {
		close(fd);
		return false;
	}
	while ((de = readdir(d)) && n++ < 256) {
		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			(is_since(l, &st) ||
				(S_ISDIR(st.st_mode) && depth &&
					changed_below(l, dirfd(d), de->d_name, depth - 1))))
			return true;
	}
	return false;
}

/* One entry of a directory: does a held name begin with it, and was that written now? */
static void look_at_entry(struct look *l, int dir, const char *at, const char *name)
{
	for (const struct runs_entry *x = NULL; (x = runs_next_held(name, x));) {
		const char *slash = strchr(x->pattern, '/');
		char rest[NAME_MAX + 128], path[POLICY_PATH_MAX];
		struct stat st;
		size_t n;

		snprintf(rest, sizeof(rest), "%s%s", name, slash ? slash : "");
		n = strlen(rest);
		if (rest[n - 1] == '/')
			rest[n - 1] = '\0';
		if (snprintf(path, sizeof(path), "%s/%s", at[1] ? at : "", rest) >=
				(int)sizeof(path) ||
			!runs_held(path, l->s->home, strlen(l->tree), NULL) ||
			fstatat(dir, rest, &st, AT_SYMLINK_NOFOLLOW) < 0 || !was_open(l, path))
			continue;
		if (is_since(l, &st) || (S_ISDIR(st.st_mode) && changed_below(l, dir, rest, 3)))
			keep(l, path, runs_why_text[x->why]);
	}
}

/* ---- the tree, nearest first ---- */

static void remember(struct look *l, const char *at, const char *name)
{
	char path[POLICY_PATH_MAX];
	unsigned depth = 0;

	for (const char *p = at + strlen(l->tree); *p; p++)
		depth += *p == '/';
	if (depth >= PLANTED_DEPTH_MAX ||
		snprintf(path, sizeof(path), "%s/%s", at[1] ? at : "", name) >= (int)sizeof(path) ||
		!was_open(l, path) || !strlist_add(&l->dirs, path))
		l->to->partly |= depth >= PLANTED_DEPTH_MAX || l->dirs.n >= DIRS_MAX;
}

/* The repository here, by its names: among many others they might not be met. */
static void look_for_git(struct look *l, int dir, const char *at)
{
	char path[PATH_MAX + 8];
	struct stat st;

	snprintf(path, sizeof(path), "%s/.git", at[1] ? at : "");
	if (strlen(path) < POLICY_PATH_MAX && fstatat(dir, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0)
		look_at_git(l, dir, ".git", path);
	look_at_bare(l, dir, at);
}

static void look_in(struct look *l, const char *at)
{
	int fd = path_open(AT_FDCWD, at, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;

	if (fd < 0) { /* one that may be entered, but not listed, can hold anything */
		l->to->partly |= fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP;
		return;
	}
	if (!(d = fdopendir(fd))) {
		l->to->partly = true;
		close(fd);
		return;
	}
	look_for_git(l, fd, at);
	while ((de = readdir(d))) {
		const char *name = de->d_name;
		char path[POLICY_PATH_MAX];

		if (str_eq(name, ".") || str_eq(name, "..") || str_eq(name, ".git"))
			continue;
		if (!l->left--) {
			l->left = 0;
			l->to->partly = true;
			return;
		}
		if (strcasecmp(name, ".git") == 0) {
			snprintf(path, sizeof(path), "%s/%s", at[1] ? at : "", name);
			look_at_git(l, fd, name, path);
			continue;
		}
		if (!l->first)
			look_at_entry(l, fd, at, name);
		if ((de->d_type == DT_DIR || de->d_type == DT_UNKNOWN) && !runs_inert(name))
			remember(l, at, name);
	}
}

static void look_at_tree(struct look *l, const char *tree)
{
	char canonical[PATH_MAX];
	cleanup_fd int fd = path_resolve(tree, canonical, sizeof(canonical));

	if (fd < 0 || !str_eq(canonical, tree)) { /* a file, nothing, or behind a symlink */
		l->to->partly |= fd >= 0;
		return;
	}
	l->tree = tree;
	l->dirs = STRLIST_INIT(DIRS_MAX);
	l->to->looked = true;
	look_in(l, tree);
	for (size_t i = 0; i < l->dirs.n && l->left; i++)
		look_in(l, l->dirs.v[i]);
	strlist_done(&l->dirs);
}

/* ---- what the watchers saw ---- */

/* The repository that a path is part of, by its name: it may be deeper than the look went. */
static void look_at_seen_git(struct look *l, const char *path)
{
	const char *at = path;

	while ((at = strchr(at, '/'))) {
		size_t n = strcspn(++at, "/");
		cleanup_free char *parent = NULL, *git = NULL;
		cleanup_fd int dir = -1;

		if (n != 4 || strncasecmp(at, ".git", 4) != 0)
			continue;
		parent = strndup(path, (size_t)(at - path) - 1);
		git = strndup(path, (size_t)(at - path) + n);
		if (!parent || !git)
			return;
		dir = path_open(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
		if (dir >= 0)
			look_at_git(l, dir, git + (at - path), git);
		return;
	}
}

static void look_at_seen(struct look *l, const struct record *seen)
{
	for (size_t i = 0; i < seen->files_n; i++) {
		const char *path = seen->files[i].path, *last = strrchr(path, '/');
		const struct runs_entry *x;

		if (seen->files[i].change == FILE_DELETED || !was_open(l, path))
			continue;
		x = runs_marked(path, strlen(seen->workspace));
		if (x)
			keep(l, path, runs_why_text[x->why]);
		look_at_seen_git(l, path);
		if (last && strcasecmp(last, "/HEAD") == 0) {
			cleanup_free char *dir = strndup(path, (size_t)(last - path));
			cleanup_fd int fd = dir ? path_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY,
							  PATH_NO_SYMLINKS)
						: -1;

			if (fd >= 0)
				look_at_bare(l, fd, dir);
		}
	}
}

static void look_at_trees(struct look *l)
{
	const struct planted_scope *s = l->s;

	l->left = PLANTED_ENTRIES_MAX;
	for (size_t i = 0; i < s->policy->rules_n; i++) {
		const struct policy_rule *r = &s->policy->rules[i];

		if (r->access != ACCESS_WRITE || (s->except && is_within(s->except, r->path)))
			continue;
		if (r->glob) /* what it matched is not known here */
			l->to->partly = l->to->looked = true;
		else
			look_at_tree(l, r->path);
	}
}

void planted_before(struct planted_scope *s)
{
	struct planted first = {0};
	struct look l = {.to = &first, .s = s, .first = true};

	look_at_trees(&l);
	s->before_partly = first.partly;
}

void planted_look(struct planted *ret, const struct planted_scope *s, const struct record *seen)
{
	struct look l = {.to = ret, .s = s};

	look_at_trees(&l);
	l.seen = true;
	if (ret->looked)
		look_at_seen(&l, seen);
}

void planted_done(struct planted *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].path);
		free(p->v[i].moved);
	}
	*p = (struct planted){0};
}

/* ---- telling ---- */

void planted_json(const struct planted *p, struct json *j)
{
	json_array(j, "runs_on_host");
	for (size_t i = 0; i < p->n; i++) {
		const struct planted_name *x = &p->v[i];

		json_object(j, NULL);
		json_str(j, "path", x->path);
		json_str(j, "why", x->why);
		json_str(j, "state",
			x->moved ? "quarantined"
			: x->git ? "could not be quarantined"
				 : "written");
		if (x->moved)
			json_str(j, "moved_to", x->moved);
		json_end(j);
	}
	json_end(j);
	json_uint(j, "runs_on_host_beyond_limit", p->beyond);
	json_bool(j, "runs_on_host_complete", !p->partly);
}

void planted_text(const struct planted *p, struct buf *out, bool verbose)
{
	for (size_t i = 0; i < p->n && (verbose || i < TEXT_NAMES); i++) {
		const struct planted_name *x = &p->v[i];

		buf_adds(out, x->git ? "  git     " : "  runs    ");
		str_show(out, x->path, strlen(x->path));
		buf_addf(out, "  %s", x->why);
		if (x->moved) {
			const char *last = strrchr(x->moved, '/');

			buf_adds(out, "; renamed to ");
			str_show(out, last ? last + 1 : x->moved,
				strlen(last ? last + 1 : x->moved));
			buf_adds(out, ": look into it before you rename it back");
		} else if (x->git) {
			buf_adds(out, "; it could not be renamed: do not run Git there");
		} else {
			buf_adds(out, ": runs on your machine");
		}
		buf_addc(out, '\n');
	}
	if (!verbose && p->n > TEXT_NAMES)
		buf_addf(out, "  … and %zu more names that run on your machine\n",
			p->n - TEXT_NAMES);
	if (p->beyond)
		buf_addf(out, "  … and %zu such names beyond what is recorded\n", p->beyond);
	if (p->partly)
		buf_adds(out,
			"  runs    not all of the tree could be looked at for names that run on your "
			"machine\n");
}
