/* SPDX-License-Identifier: Apache-2.0 */
/* Rules to places: see expand.h. */
#include "engine/plan/expand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/engine.h"
#include "os/lookup.h"
#include "os/path.h"

/* "croft.yaml:12", or "command line": where a rule was written, for messages. Two at a time. */
static const char *at(const struct policy_rule *r)
{
	static char text[2][512];
	static unsigned turn;
	char *t = text[turn++ % 2];
	const char *file = r->origin.file ? r->origin.file : "policy";

	if (r->origin.line)
		snprintf(t, sizeof(text[0]), "%.480s:%u", file, r->origin.line);
	else
		snprintf(t, sizeof(text[0]), "%.500s", file);
	return t;
}

struct place *places_add(struct places *ps, const char *path)
{
	struct place *pl;

	if (ps->n >= EXPAND_PLACES_MAX)
		return NULL;
	if (ps->n == ps->cap) {
		size_t cap = ps->cap ? ps->cap * 2 : 64;
		struct place *v = realloc(ps->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		ps->v = v;
		ps->cap = cap;
	}
	pl = &ps->v[ps->n];
	*pl = (struct place){.path = strdup(path)};
	if (!pl->path)
		return NULL;
	ps->n++;
	return pl;
}

void places_done(struct places *ps)
{
	for (size_t i = 0; i < ps->n; i++) {
		free(ps->v[i].path);
		free(ps->v[i].alias);
	}
	free(ps->v);
	*ps = (struct places){0};
}

int places_too_many(const struct policy_rule *r, struct err *e)
{
	return err_refuse(e, "%s: %s names more than %u places; make the pattern narrower", at(r),
		r->path, EXPAND_PLACES_MAX);
}

/*
 * Is this rule's path covered by a rule that gives more? Then its absence matters: the sandbox could
 * create what the rule protects.
 */
bool rule_inside_writable(const struct policy *p, const struct policy_rule *r)
{
	cleanup_free char *parent = NULL;

	if (r->glob) {
		parent = policy_glob_base(r->path);
	} else if ((parent = strdup(r->path))) {
		char *slash = strrchr(parent, '/');

		*(slash == parent ? slash + 1 : slash) = '\0';
	}
	/* Out of memory counts as writable: the side on which something more is prevented. */
	return !parent || policy_access(p, parent, NULL) == ACCESS_WRITE;
}

/*
 * Nothing there, and the sandbox can make nothing there. In a tree that it reads the host may, and
 * then it is no longer denied by its absence.
 */
static int add_unseen(
	struct places *ps, const struct policy *p, const struct policy_rule *r, struct err *e)
{
	char parent[POLICY_PATH_MAX];
	const char *slash = strrchr(r->path, '/');
	struct place *pl;

	snprintf(parent, sizeof(parent), "%.*s", slash == r->path ? 1 : (int)(slash - r->path),
		r->path);
	if (policy_access(p, parent, NULL) != ACCESS_READ)
		return 0;
	pl = places_add(ps, r->path);
	if (!pl)
		return places_too_many(r, e);
	pl->absent = pl->unseen = true;
	pl->rule = r;
	return 0;
}

static int add_absent(
	struct places *ps, const struct policy *p, const struct policy_rule *r, struct err *e)
{
	struct place *pl;

	if (r->optional)
		return 0;
	if (r->access != ACCESS_DENY && !rule_inside_writable(p, r))
		return err_refuse(
			e, "%s: %s does not exist; create it or remove the rule", at(r), r->path);
	if (!rule_inside_writable(p, r))
		return r->glob ? 0 : add_unseen(ps, p, r, e);
	if (r->access == ACCESS_WRITE)
		return 0; /* already covered by the writable tree around it */
	pl = places_add(ps, r->path);
	if (!pl)
		return places_too_many(r, e);
	pl->access = r->access;
	pl->absent = true;
	pl->rule = r;
	ps->late_names = true;
	ps->late_denies |= r->access == ACCESS_DENY;
	return 0;
}

/* One concrete path of a rule. */
static int add_path(struct places *ps, const struct policy *p, const struct policy_rule *r,
	const char *path, struct err *e)
{
	char canonical[PATH_MAX];
	cleanup_fd int fd = -1;
	const struct policy_rule *decider = NULL;
	enum access given;
	struct stat st;
	struct place *pl;
	int found = lookup_follow(ps->lookup, path, canonical, sizeof(canonical), &st);

	if (found == LOOKUP_UNPLAIN) {
		fd = found = path_resolve(path, canonical, sizeof(canonical));
		if (fd >= 0 && fstat(fd, &st) < 0)
			return err_set(e, errno, "look at %s", path);
	}
	if (found == -ENOENT || found == -ENOTDIR || found == -ELOOP) {
		struct stat link;

		/* A dangling symlink is a name that exists: to deny it is to keep it from being used. */
		if (r->access == ACCESS_DENY && rule_inside_writable(p, r) &&
			lstat(path, &link) == 0)
			return err_refuse(e,
				"%s: %s is a symlink that leads nowhere, so it cannot be denied "
				"safely; remove it",
				at(r), path);
		return add_absent(ps, p, r, e);
	}
	if (found < 0) {
		/* Out of our reach, but an owner can open the way: the name is watched instead. */
		if (found == -EACCES && r->access == ACCESS_DENY)
			return add_absent(ps, p, r, e);
		if (r->optional)
			return 0;
		err_set(e, -found, "%s: %s", at(r), path);
		e->kind = ERR_REFUSED;
		return found;
	}
	/* The object's own name decides: a pattern or a symlink gives no more than a rule on it would. */
	given = policy_access(p, canonical, &decider);
	if (r->access != ACCESS_DENY && given == ACCESS_DENY && decider) {
		if (r->optional || r->glob)
			return 0;
		return err_refuse(e, "%s: %s leads to %s, which %s denies", at(r), path, canonical,
			at(decider));
	}
	/* A name in a tree that a sandbox can write may have been planted by one: it leads nowhere else. */
	if (r->access != ACCESS_DENY && strcmp(path, canonical) != 0 && given < r->access &&
		rule_inside_writable(p, r)) {
		if (r->optional || r->glob)
			return 0;
		return err_refuse(e,
			"%s: %s is a symlink out of the workspace, to %s; name that path itself if "
			"it is meant",
			at(r), path, canonical);
	}
	pl = places_add(ps, canonical);
	if (!pl)
		return places_too_many(r, e);
	pl->alias = strcmp(path, canonical) != 0 ? strdup(path) : NULL;
	pl->access = decider ? MIN_OF(r->access, given) : r->access;
	pl->is_dir = S_ISDIR(st.st_mode);
	pl->size_b = S_ISREG(st.st_mode) && st.st_size > 0 ? (uint64_t)st.st_size : 0;
	pl->dev = st.st_dev;
	pl->ino = st.st_ino;
	pl->glob = r->glob;
	pl->rule = r;
	return 0;
}

/* Walk below dirfd; every entry whose full path the glob matches becomes a place. */
static int walk_glob(struct places *ps, const struct policy *p, const struct policy_rule *r, int fd,
	char *path, size_t len, unsigned depth, struct err *e)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	int dup_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dup_fd < 0 || !(d = fdopendir(dup_fd))) {
		int err = errno;

		if (dup_fd >= 0)
			close(dup_fd);
		if (err == EACCES && r->access != ACCESS_DENY)
			return 0;
		err_set(e, err, "%s: cannot list %s to expand %s", at(r), path, r->path);
		e->kind = ERR_REFUSED;
		return -err;
	}
	while ((de = readdir(d))) {
		size_t n = strlen(de->d_name);
		int r2 = 0;

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		if (++ps->visits > EXPAND_VISITS_MAX || depth > 128 ||
			len + n + 2 > POLICY_PATH_MAX)
			return err_refuse(e,
				"%s: %s would search too many files; make the pattern narrower",
				at(r), r->path);
		snprintf(path + len, POLICY_PATH_MAX - len, "/%s", de->d_name);
		if (policy_glob_match(r->path, path))
			r2 = add_path(ps, p, r, path, e);
		if (r2 == 0 && ps->staging && strcmp(path, ps->staging->trees[0].dst) == 0) {
			path[len] = '\0'; /* its layers are looked at instead */
			continue;
		}
		if (r2 == 0 && (de->d_type == DT_DIR || de->d_type == DT_UNKNOWN)) {
			cleanup_fd int sub = openat(dirfd(d), de->d_name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (sub >= 0)
				r2 = walk_glob(ps, p, r, sub, path, len + n + 1, depth + 1, e);
			else if (errno == EACCES && r->access == ACCESS_DENY)
				ps->late_names = ps->late_denies = true; /* its owner can open it */
		}
		path[len] = '\0';
		if (r2 < 0)
			return r2;
	}
	return 0;
}

static int add_glob(
	struct places *ps, const struct policy *p, const struct policy_rule *r, struct err *e)
{
	cleanup_free char *base = policy_glob_base(r->path);
	char prefix[POLICY_PATH_MAX];
	cleanup_fd int fd = -1;

	if (!base)
		return err_set(e, ENOMEM, "expand %s", r->path);
	snprintf(prefix, sizeof(prefix), "%s", base[1] ? base : "");
	fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return add_absent(ps, p, r, e);
	if (fd < 0) {
		err_set(e, errno, "%s: cannot list %s to expand %s", at(r), base, r->path);
		e->kind = ERR_REFUSED;
		return -e->errnum;
	}
	if (r->access != ACCESS_WRITE && rule_inside_writable(p, r)) {
		ps->late_names = true;
		ps->late_denies |= r->access == ACCESS_DENY;
	}
	return walk_glob(ps, p, r, fd, prefix, strlen(prefix), 0, e);
}

static int by_path(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	const char *p = x->path, *q = y->path;

	while (*p && *p == *q)
		p++, q++;
	/* '/' sorts before every other byte so that a directory's contents follow it directly. */
	if (*p != *q) {
		int c = *p == '/' ? 1 : (unsigned char)*p + 1,
		    d = *q == '/' ? 1 : (unsigned char)*q + 1;

		return (*p ? c : 0) - (*q ? d : 0);
	}
	return (int)x->access - (int)y->access; /* the narrower first: it is the one kept */
}

/*
 * After sorting: one place per path. The policy decides by the place's own canonical name, so two
 * spellings of one object get the same access; the narrower of all remains.
 */
static void places_unique(struct places *ps)
{
	size_t out = 0;

	for (size_t i = 0; i < ps->n; i++) {
		if (out > 0 && strcmp(ps->v[out - 1].path, ps->v[i].path) == 0) {
			struct place *keep = &ps->v[out - 1];

			if (!keep->alias)
				keep->alias = take_ptr(ps->v[i].alias);
			free(ps->v[i].path);
			free(ps->v[i].alias);
			continue;
		}
		ps->v[out++] = ps->v[i];
	}
	ps->n = out;
}

static int add_rule(
	struct places *ps, const struct policy *p, const struct policy_rule *r, struct err *e)
{
	if (ps->staging && path_is_above(ps->staging->trees[0].dst, r->path))
		return places_add_staged(ps, p, r, e);
	if (!r->glob)
		return add_path(ps, p, r, r->path, e);
	if (ps->staging && places_add_staged(ps, p, r, e) < 0)
		return -e->errnum;
	return add_glob(ps, p, r, e);
}

int places_expand_staged(
	struct places *ret, const struct policy *p, const struct staging *st, struct err *e)
{
	cleanup_lookup struct lookup lookup = LOOKUP_INIT;
	struct places ps = {.staging = st, .lookup = &lookup};
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->rules_n; i++)
		r = add_rule(&ps, p, &p->rules[i], e);
	if (r == 0 && st)
		r = places_add_workspace(&ps, p, e);
	if (r < 0) {
		places_done(&ps);
		return r;
	}
	if (ps.n)
		qsort(ps.v, ps.n, sizeof(*ps.v), by_path);
	places_unique(&ps);
	ps.lookup = NULL;
	*ret = ps;
	return 0;
}

int places_expand(struct places *ret, const struct policy *p, struct err *e)
{
	return places_expand_staged(ret, p, NULL, e);
}

bool path_is_above(const char *dir, const char *path)
{
	size_t n;

	if (dir[1] && dir[1] != path[1])
		return false; /* most are not */
	n = strlen(dir);
	if (n == 1)
		return path[0] == '/' && path[1];
	return strncmp(dir, path, n) == 0 && path[n] == '/';
}

enum access places_above(const struct places *ps, const char *path, const struct place **ret_place)
{
	const struct place *best = NULL;

	for (size_t i = ps->n; i-- > 0 && !best;) /* the last is the nearest */
		if (path_is_above(ps->v[i].path, path))
			best = &ps->v[i];
	if (ret_place)
		*ret_place = best;
	return best ? best->access : ACCESS_DENY;
}

bool places_below(const struct places *ps, const char *path)
{
	for (size_t i = 0; i < ps->n; i++)
		if (path_is_above(path, ps->v[i].path))
			return true;
	return false;
}
