/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing environments, and reclaiming what no record names.
 *
 * gc takes only what is provably of no use: environments whose work was discarded longer ago than the
 * undo lasts, or landed and unchanged since, or that a staged run left with nothing in them that could
 * land; layers, bases, temporary directories and objects of the
 * stores that no record names and that no process holds. A record that cannot be read stops it: what
 * that one names is unknown.
 */
#include "env/env_gc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/scan.h"

#define GC_GRACE_S 3600 /* somebody may be making it just now */
#define GC_NAMES_MAX 2000000u

/* ---- what records name ---- */

struct named {
	struct strlist layers, bases;
};

static void named_done(struct named *n)
{
	strlist_done(&n->layers);
	strlist_done(&n->bases);
}

static bool add_all(struct strlist *to, const struct strlist *from)
{
	for (size_t i = 0; i < from->n; i++)
		if (!strlist_add(to, from->v[i]))
			return false;
	return true;
}

static bool name_layers(struct named *n, const struct env *v)
{
	bool ok = add_all(&n->layers, &v->layers) && add_all(&n->layers, &v->undo);

	for (size_t i = 0; ok && i < v->snapshots_n; i++)
		ok = add_all(&n->layers, &v->snapshots[i].layers);
	return ok;
}

static int name_what(struct named *n, const char *env, bool doomed, struct err *e)
{
	cleanup_env struct env v;
	bool ok;

	env_init(&v);
	if (env_open_record(&v, env, e) < 0)
		return -e->errnum;
	ok = name_layers(n, &v);
	if (ok && v.base_key && !doomed)
		ok = strlist_add(&n->bases, v.base_key);
	return ok ? 0 : err_set(e, ENOMEM, "collect what is in use");
}

/* A staged run names its layer by its own name; so does a slot that waits for the next one. */
static int name_runs(struct named *n, struct err *e)
{
	cleanup_free char *state = NULL;
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	bool ok = true;

	if (env_state_dir(&state, NULL, e) < 0)
		return -e->errnum;
	buf_addf(&path, "%s/envs", state);
	d = opendir(buf_str(&path));
	if (!d && errno != ENOENT)
		return err_set(e, errno, "list staged runs");
	while (ok && d && (de = readdir(d)))
		if (str_starts(de->d_name, ENV_RUN_PREFIX))
			ok = strlist_add(&n->layers, de->d_name + strlen(ENV_RUN_PREFIX));
	return ok ? 0 : err_set(e, ENOMEM, "collect what is in use");
}

/* doomed: environments that are as good as removed; their bases are in nobody's use. Or NULL. */
static int collect(struct named *n, const struct strlist *doomed, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(GC_NAMES_MAX);

	n->layers = STRLIST_INIT(GC_NAMES_MAX);
	n->bases = STRLIST_INIT(GC_NAMES_MAX);
	if (env_names(&names, e) < 0 || name_runs(n, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < names.n; i++)
		if (name_what(n, names.v[i], doomed && strlist_has(doomed, names.v[i]), e) < 0)
			return err_wrap(e, "nothing was reclaimed, since a record cannot be read");
	strlist_sort(&n->layers);
	strlist_sort(&n->bases);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has(const struct strlist *sorted, const char *name)
{
	return sorted->n && bsearch(&name, sorted->v, sorted->n, sizeof(char *), compare);
}

static bool base_used(void *arg, const char *key)
{
	const struct named *n = arg;

	return has(&n->bases, key);
}

/* ---- removal ---- */

/* Is there staged work that is neither landed nor discarded? */
static bool has_work(struct env *v)
{
	cleanup_changes struct changes c = {0};
	struct err ignored = ERR_INIT;

	if (v->state == ENV_LANDED) /* an exec afterwards makes it open again */
		return false;
	if (env_look(v, &c, false, &ignored) < 0)
		return true; /* when in doubt, yes */
	return c.n > 0;
}

/* Its layers go with it, unless a fork of it or a record that cannot be read may need them. */
static void remove_layers(const struct env *v)
{
	struct err ignored = ERR_INIT;
	struct named mine = {.layers = STRLIST_INIT(GC_NAMES_MAX)}, others = {0};
	char path[PATH_MAX];

	if (name_layers(&mine, v) && collect(&others, NULL, &ignored) == 0)
		for (size_t i = 0; i < mine.layers.n; i++)
			if (!has(&others.layers, mine.layers.v[i]) &&
				env_layer_path(
					v, mine.layers.v[i], "", path, sizeof(path), &ignored) == 0)
				tree_remove_at(AT_FDCWD, path);
	named_done(&mine);
	named_done(&others);
}

void env_base_ref(const struct env *v, char *ret, size_t size)
{
	snprintf(ret, size, "refs/croft/base/%s", v->id);
}

void env_release_base(const struct env *v)
{
	const struct oid none = {0};
	struct err ignored = ERR_INIT;
	char ref[64];

	env_base_ref(v, ref, sizeof(ref));
	ref_move(&v->repo, ref, &v->base_commit, &none, &ignored);
}

int env_remove(struct env *v, bool force, struct err *e)
{
	cleanup_buf struct buf to = BUF_INIT(PATH_MAX);

	if (!force && has_work(v))
		return err_refuse(e,
			"environment %s holds changes that are neither applied nor discarded; see "
			"them with croft diff %s, or remove them with: croft rm --force %s",
			v->name, v->name, v->name);
	if (v->copy)
		tree_remove_at(AT_FDCWD, v->copy);
	buf_addf(&to, "%s/envs/.old-%s", v->state_dir, v->id);
	if (to.failed || rename(v->dir, buf_str(&to)) < 0)
		return err_set(e, errno, "remove environment %s", v->name);
	tree_remove_at(AT_FDCWD, buf_str(&to));
	remove_layers(v);
	if (!oid_is_none(&v->base_commit))
		env_release_base(v);
	return 0;
}

/* ---- sweeping ---- */

static bool is_old(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ctim.tv_sec + GC_GRACE_S < time(NULL);
}

/* Its maker holds the lock in it as long as it lives. Only for who has the lock of gc alone. */
static bool is_abandoned(int envs, const char *name)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int fd = -1;

	buf_addf(&path, "%s/lock", name);
	fd = openat(envs, buf_str(&path), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return str_starts(name, ".new-") && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static uint64_t sweep_dir(const char *state, const char *what, const struct strlist *used,
	bool (*doomed)(const char *name), bool dry_run)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	uint64_t n = 0;

	buf_addf(&path, "%s/%s", state, what);
	d = opendir(buf_str(&path));
	while (d && (de = readdir(d))) {
		if (!doomed(de->d_name) || (used && has(used, de->d_name)) ||
			!(is_old(dirfd(d), de->d_name) || is_abandoned(dirfd(d), de->d_name)))
			continue;
		if (dry_run || tree_remove_at(dirfd(d), de->d_name) == 0)
			n++;
	}
	return n;
}

static bool is_layer(const char *name)
{
	return strlen(name) == ENV_LAYER_NAME_LEN &&
	       strspn(name, "0123456789abcdef") == ENV_LAYER_NAME_LEN;
}

static bool is_unborn(const char *name)
{
	return str_starts(name, ".new-");
}

static bool is_leftover(const char *name)
{
	return is_unborn(name) || str_starts(name, ".old-");
}

/* "2026-01-31T12:00:00…" as seconds; false: it says no time. */
static bool read_time(const char *text, long long *ret_s)
{
	struct tm tm = {0};

	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return false;
	*ret_s = timegm(&tm);
	return true;
}

long long env_age_s(const struct env *v)
{
	long long made;

	return read_time(v->created, &made) ? MAX_OF(time(NULL) - made, 0) : 0;
}

/* A staged run that left nothing which could land: what it wrote is ignored, or as it was. */
static bool is_empty_run(struct env *v, bool at_once)
{
	cleanup_changes struct changes c = {0};
	struct err ignored = ERR_INIT;

	if (!v->run || v->state != ENV_OPEN || v->snapshots_n || v->session[0] ||
		(!at_once && env_age_s(v) < ENV_UNDO_DAYS * 86400))
		return false;
	return env_look(v, &c, false, &ignored) == 0 && c.n == 0;
}

/* Landed and unchanged since, or discarded longer ago than the undo lasts. */
static bool is_finished(struct env *v)
{
	cleanup_changes struct changes c = {0};
	struct err ignored = ERR_INIT;
	long long discarded;

	if (v->state == ENV_LANDED)
		return true;
	if (v->state != ENV_DISCARDED || !read_time(v->undo_time, &discarded))
		return false;
	if (discarded + ENV_UNDO_DAYS * 86400 > time(NULL))
		return false;
	return env_look(v, &c, false, &ignored) == 0 && c.n == 0;
}

static int finish(const char *name, bool dry_run, bool runs, struct gc_report *ret)
{
	cleanup_env struct env v;
	struct err busy = ERR_INIT;

	env_init(&v);
	if (env_open(&v, name, ENV_LOCK_WRITE, &busy) < 0)
		return 0; /* in use, or damaged: not ours to take */
	if (!is_finished(&v) && !is_empty_run(&v, runs))
		return 0;
	strlist_add(&ret->envs, name);
	return dry_run ? 0 : env_remove(&v, true, &busy);
}

int env_hold_gc(const char *state_dir, bool alone)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int dir = dir_make(state_dir, 0700), fd = -1;

	buf_addf(&path, "%s/gc.lock", state_dir);
	fd = dir < 0 ? -1 : open(buf_str(&path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && flock(fd, alone ? LOCK_EX | LOCK_NB : LOCK_SH) < 0)
		close_fd(&fd);
	return take_fd(&fd);
}

void env_sweep_unborn(const char *state_dir)
{
	cleanup_fd int alone = env_hold_gc(state_dir, true);
	struct err ignored = ERR_INIT;

	if (alone < 0)
		return; /* somebody makes one: another time */
	sweep_dir(state_dir, "envs", NULL, is_unborn, false);
	base_sweep(state_dir, NULL, NULL, false, &ignored);
}

void gc_report_done(struct gc_report *r)
{
	strlist_done(&r->envs);
}

int env_gc(struct gc_report *ret, bool dry_run, bool runs, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(GC_NAMES_MAX);
	cleanup_free char *state = NULL;
	cleanup_fd int alone = -1;
	struct named n = {0};
	int r;

	*ret = (struct gc_report){.envs = STRLIST_INIT(GC_NAMES_MAX)};
	if (env_state_dir(&state, NULL, e) < 0 || env_names(&names, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < names.n; i++)
		finish(names.v[i], dry_run, runs, ret);
	alone = env_hold_gc(state, true);
	if (alone < 0)
		return err_refuse(e, "an environment is being made just now; try again");
	r = collect(&n, dry_run ? &ret->envs : NULL, e);
	if (r == 0) {
		ret->layers = sweep_dir(state, "layers", &n.layers, is_layer, dry_run);
		ret->leftovers = sweep_dir(state, "envs", NULL, is_leftover, dry_run);
		r = base_sweep(state, base_used, &n, dry_run, e);
		ret->bases = r > 0 ? (uint64_t)r : 0;
		r = MIN_OF(r, 0);
		if (r == 0)
			r = gc_stores(&ret->objects, state, GC_GRACE_S, dry_run, e);
	}
	named_done(&n);
	return r;
}
