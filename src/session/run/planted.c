/* SPDX-License-Identifier: Apache-2.0 */
/* What a command left that the host will execute: see planted.h. */
#include "session/run/planted.h"

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
#include "session/run/gitindex.h"
#include "session/run/gitplain.h"
#include "os/dirnames.h"
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
	struct strlist away; /* the user's, put away: what is inside is not looked at again */
	size_t next;
	unsigned left; /* entries */
	bool first;    /* before the command: repositories are only noted */
	bool seen;     /* by the watchers: it may lie where no look before went */

	struct timespec newest; /* change that was met before the command */
};

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
	       !(l->s->except && path_within(l->s->except, path));
}

static struct planted_name *keep(struct look *l, const char *path, const char *why)
{
	struct planted *p = l->to;

	for (size_t i = 0; i < p->n; i++)
		if (str_eq(p->v[i].path, path) || (!p->v[i].git && path_within(p->v[i].path, path)))
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

/*
 * `in` is the repository's directory when that is what is put away, else -1. Then its HEAD is put away as
 * well: whoever enters the directory to look into it, or their prompt, may run Git there. One that was
 * there before is its user's, with all that is inside.
 */
static void quarantine(struct look *l, int dir, const char *name, int in, const char *path,
	const char *why, bool there)
{
	cleanup_free char *moved = NULL, *head = NULL;
	struct planted_name *x = keep(l, path, why);

	/* It is put away even when there is no room to say which. */
	if (put_away(dir, name, path, l->s->run_id, &moved) && moved && in >= 0) {
		cleanup_buf struct buf at = BUF_INIT(2 * PATH_MAX);

		buf_addf(&at, "%s/HEAD", moved);
		put_away(in, "HEAD", buf_str(&at), l->s->run_id, &head);
		if (there)
			strlist_add(&l->away, moved);
	}
	if (!x)
		return;
	x->git = true;
	x->moved = take_ptr(moved);
	x->head = take_ptr(head);
}

/* A whole repository at this path, told from all that could take its place. */
static bool identify(struct buf *ret, int fd, const char *path)
{
	bool whole = gitplain_whole(fd, ret);

	buf_adds(ret, path);
	return whole && !ret->failed;
}

/*
 * The list has two strings for each repository and index: which it is, and "=" and its state. A state
 * that could not be told is "=" alone, which is like no other.
 */
static bool state_of(struct buf *ret, int fd, const struct stat *file, struct timespec *newest)
{
	buf_addc(ret, '=');
	if (!file)
		return gitplain_state(fd, ret, newest);
	gitplain_state_of(file, ret, newest);
	return !ret->failed;
}

static void note(struct look *l, const char *id, int fd, const struct stat *file)
{
	cleanup_buf struct buf state = BUF_INIT(POLICY_PATH_MAX);
	bool known = state_of(&state, fd, file, &l->newest);

	if (!strlist_add(l->s->before, id) ||
		!strlist_add(l->s->before, known ? buf_str(&state) : "="))
		l->to->partly = true;
}

/* Was it there before the command, and is it in the same state now? */
enum before { BEFORE_NOT_NOTED, BEFORE_SAME, BEFORE_OTHER };

static enum before compare(const struct look *l, const char *id, int fd, const struct stat *file)
{
	cleanup_buf struct buf state = BUF_INIT(POLICY_PATH_MAX);
	const struct strlist *b = l->s->before;
	struct timespec newest = {0};
	size_t i = 0;

	while (i < b->n && !str_eq(b->v[i], id))
		i++;
	if (i + 1 >= b->n || b->v[i + 1][0] != '=')
		return BEFORE_NOT_NOTED;
	return state_of(&state, fd, file, &newest) && str_eq(b->v[i + 1], buf_str(&state))
		       ? BEFORE_SAME
		       : BEFORE_OTHER;
}

static void note_repository(struct look *l, int fd, const char *path)
{
	cleanup_buf struct buf id = BUF_INIT(2 * POLICY_PATH_MAX);

	if (identify(&id, fd, path))
		note(l, buf_str(&id), fd, NULL);
}

static bool was_changed(const struct look *l, int fd, const char *path, bool *ret_there)
{
	cleanup_buf struct buf id = BUF_INIT(2 * POLICY_PATH_MAX);
	enum before before =
		identify(&id, fd, path) ? compare(l, buf_str(&id), fd, NULL) : BEFORE_NOT_NOTED;

	*ret_there = before != BEFORE_NOT_NOTED;
	if (*ret_there)
		return before == BEFORE_OTHER;
	return !(l->s->before_partly || l->seen) || gitplain_changed(fd, l->s->since);
}

/* A file or symlink of that name, which leads elsewhere, or a directory that cannot be opened. */
static void look_at_pointer(struct look *l, int dir, const char *name, const char *path)
{
	cleanup_buf struct buf id = BUF_INIT(2 * POLICY_PATH_MAX);
	enum before before;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	buf_addf(&id, "%jx:%jx %s", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, path);
	if (l->first) {
		note(l, buf_str(&id), -1, &st);
		return;
	}
	before = compare(l, buf_str(&id), -1, &st);
	if (before == BEFORE_OTHER || (before == BEFORE_NOT_NOTED && is_since(l, &st)))
		quarantine(l, dir, name, -1, path,
			S_ISDIR(st.st_mode) ? "a repository that cannot be read"
					    : "leads to a repository elsewhere",
			before == BEFORE_OTHER);
}

/* An index with paths that no tree has is put away; the repository is its user's, and stays. */
static void look_at_index(struct look *l, int dir, const char *path)
{
	cleanup_buf struct buf id = BUF_INIT(2 * POLICY_PATH_MAX);
	char index[PATH_MAX + sizeof("/index")];
	const char *why;
	struct stat st;

	snprintf(index, sizeof(index), "%s/index", path);
	if (fstatat(dir, "index", &st, AT_SYMLINK_NOFOLLOW) < 0 || !was_open(l, index))
		return;
	buf_adds(&id, index);
	if (l->first)
		note(l, buf_str(&id), -1, &st);
	else if (compare(l, buf_str(&id), -1, &st) != BEFORE_SAME && (why = gitindex_beyond(dir)))
		quarantine(l, dir, "index", -1, index, why, true);
}

/* A name that Git takes for the repository of the directory around it. */
static void look_at_git(struct look *l, int dir, const char *name, const char *path)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *why;
	bool there;

	if (!was_open(l, path))
		return;
	if (fd < 0)
		look_at_pointer(l, dir, name, path);
	else if (!l->first && was_changed(l, fd, path, &there) && (why = gitplain_beyond(fd)))
		quarantine(l, dir, name, fd, path, why, there);
	else
		look_at_index(l, fd, path);
	if (fd >= 0 && l->first)
		note_repository(l, fd, path);
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
	bool there;

	snprintf(head, sizeof(head), "%s/%s", path, name);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (fstatat(dir, parts[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return;
	if (strlen(head) >= POLICY_PATH_MAX || !was_open(l, head))
		return;
	if (!l->first && was_changed(l, dir, path, &there) && (why = gitplain_beyond(dir)))
		quarantine(l, dir, name, -1, head, why, there);
	else
		look_at_index(l, dir, path);
	if (l->first)
		note_repository(l, dir, path);
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
		!was_open(l, path) || strlist_has(&l->away, path) || !strlist_add(&l->dirs, path))
		l->to->partly |= depth >= PLANTED_DEPTH_MAX || l->dirs.n >= DIRS_MAX;
}

/* The repository here, by its names: one of them was met, or not all names were. */
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
	cleanup_dirnames struct dirnames list;
	bool repository = false, cut = false;
	const struct dirent *de;

	dirnames_init(&list, fd);
	if (fd < 0) { /* one that may be entered, but not listed, can hold anything */
		l->to->partly |= fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP;
		return;
	}
	while ((de = dirnames_next(&list))) {
		const char *name = de->d_name;
		char path[POLICY_PATH_MAX];

		repository |= strcasecmp(name, "HEAD") == 0 || str_eq(name, ".git");
		if (str_eq(name, ".git"))
			continue;
		if (!l->left--) {
			l->left = 0;
			cut = true;
			break;
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
	cut |= list.failed;
	l->to->partly |= cut;
	if (repository || cut)
		look_for_git(l, fd, at);
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

		if (r->access != ACCESS_WRITE || (s->except && path_within(s->except, r->path)))
			continue;
		if (r->git) { /* what else is in it was held */
			cleanup_fd int fd = path_open(
				AT_FDCWD, r->path, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);

			l->to->looked = true;
			if (fd >= 0)
				look_at_index(l, fd, r->path);
			continue;
		}
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
	s->newest = l.newest;
}

void planted_settle(const struct planted_scope *s)
{
	const struct timespec *t = &s->newest, ms = {.tv_nsec = 1000000};
	struct timespec now;

	for (int i = 0; i < PLANTED_SETTLE_MS; i++) {
		int64_t ahead_ns;

		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if (t->tv_sec < now.tv_sec - 1 || t->tv_sec > now.tv_sec + 1)
			return;
		ahead_ns =
			(int64_t)(t->tv_sec - now.tv_sec) * 1000000000 + t->tv_nsec - now.tv_nsec;
		if (ahead_ns < 0 || ahead_ns > PLANTED_SETTLE_MS * (int64_t)ms.tv_nsec)
			return;
		nanosleep(&ms, NULL);
	}
}

void planted_look(struct planted *ret, const struct planted_scope *s, const struct record *seen)
{
	struct look l = {.to = ret, .s = s, .away = STRLIST_INIT(PLANTED_REPOS_MAX)};

	ret->beyond = 0; /* of an earlier look: they are met again */
	look_at_trees(&l);
	l.seen = true;
	if (ret->looked)
		look_at_seen(&l, seen);
	strlist_done(&l.away);
}

void planted_done(struct planted *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].path);
		free(p->v[i].moved);
		free(p->v[i].head);
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
		if (x->head)
			json_str(j, "head_moved_to", x->head);
		json_end(j);
	}
	json_end(j);
	json_uint(j, "runs_on_host_beyond_limit", p->beyond);
	json_bool(j, "runs_on_host_complete", !p->partly);
}

static void show_last(struct buf *out, const char *path)
{
	const char *last = strrchr(path, '/');

	last = last ? last + 1 : path;
	str_show(out, last, strlen(last));
}

void planted_text(const struct planted *p, struct buf *out, bool verbose)
{
	for (size_t i = 0; i < p->n && (verbose || i < TEXT_NAMES); i++) {
		const struct planted_name *x = &p->v[i];

		buf_adds(out, x->git ? "  git     " : "  runs    ");
		str_show(out, x->path, strlen(x->path));
		buf_addf(out, "  %s", x->why);
		if (x->moved) {
			buf_adds(out, "; renamed to ");
			show_last(out, x->moved);
			if (x->head) {
				buf_adds(out, ", and its HEAD to ");
				show_last(out, x->head);
			}
			buf_addf(out, ": look into it before you rename %s back",
				x->head ? "both" : "it");
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
		buf_adds(out, "  runs    not all of the tree could be looked at for names that run "
			      "on your "
			      "machine\n");
}
