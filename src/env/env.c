/* SPDX-License-Identifier: Apache-2.0 */
/* Environments: opening, locking, layers. See env.h. */
#include "env/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "env/env_beside.h"
#include "env/journal.h"
#include "env/session_journal.h"
#include "session/config/layers.h"
#include "session/config/state.h"
#include "ledger/chain/statement.h"
#include "os/path.h"
#include "os/proctree.h"
#include "session/join/join.h"
#include "snap/scan.h"

#define LOCK_WAIT_MS 10
#define ASK_TRIES 500  /* each of them ends with somebody else's turn */
#define LOCK_TRIES 500 /* five seconds in all, and only after somebody who was killed */

bool env_name_good(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > ENV_NAME_MAX || str_ends(name, ".lock"))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		bool alnum =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!alnum && (i == 0 || !strchr("._-", c)))
			return false;
	}
	return true;
}

int env_state_dir(char **ret, char **ret_home, struct err *e)
{
	cleanup_free char *home = NULL;
	char path[PATH_MAX];

	if (layers_home(&home, e) < 0 || state_path(path, sizeof(path), home, e) < 0)
		return -e->errnum;
	*ret = strdup(path);
	if (!*ret)
		return err_set(e, ENOMEM, "find the state directory");
	if (ret_home)
		*ret_home = take_ptr(home);
	return 0;
}

void env_init(struct env *v)
{
	*v = (struct env){.dir_fd = -1, .lock_fd = -1, .beside_fd = -1};
	v->layers = STRLIST_INIT(ENV_LAYERS_MAX + 1);
	v->undo = STRLIST_INIT(ENV_LAYERS_MAX + 1);
	v->ignored = STRLIST_INIT(ENV_IGNORED_MAX);
	v->args = STRLIST_INIT(4096);
	v->notes = STRLIST_INIT(256);
}

void env_done(struct env *v)
{
	for (size_t i = 0; i < v->snapshots_n; i++)
		strlist_done(&v->snapshots[i].layers);
	free(v->snapshots);
	strlist_done(&v->layers);
	strlist_done(&v->undo);
	strlist_done(&v->ignored);
	strlist_done(&v->args);
	strlist_done(&v->notes);
	free(v->workspace);
	free(v->base_key);
	free(v->store_key);
	free(v->copy);
	free(v->agent);
	free(v->model);
	free(v->task);
	free(v->parent);
	free(v->landed_how);
	free(v->state_dir);
	free(v->home);
	free(v->dir);
	repo_done(&v->repo);
	base_done(&v->base);
	close_fd(&v->dir_fd);
	close_fd(&v->lock_fd);
	close_fd(&v->beside_fd); /* last: now its session may have it again */
	*v = (struct env){.dir_fd = -1, .lock_fd = -1, .beside_fd = -1};
}

int env_random_id(char ret[17], struct err *e)
{
	uint8_t raw[8];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_set(e, errno, "get random bytes");
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

void env_now(struct timespec *ret)
{
	clock_gettime(CLOCK_REALTIME, ret);
	ret->tv_nsec -= ret->tv_nsec % 1000;
}

void env_time_text(const struct timespec *t, char ret[40])
{
	struct ledger_time text;

	snprintf(ret, 40, "%s", ledger_time_text(t, &text) ? text.s : "");
}

/* ---- opening ---- */

static void show_name(const char *name, struct buf *out)
{
	str_show(out, name, MIN_OF(strlen(name), 80u));
}

/* Whoever holds the lock wrote who it is. */
static void read_holder(int fd, char ret[16])
{
	ssize_t n = pread(fd, ret, 15, 0);

	ret[n > 0 ? n : 0] = '\0';
	ret[strspn(ret, "0123456789")] = '\0';
}

static int say_busy(int fd, const char *name, struct err *e)
{
	char who[16];

	read_holder(fd, who);
	err_refuse(e,
		"environment %s is in use%s%s; wait for that command to end, or look without "
		"changing anything with: croft shell --read-only %s",
		name, who[0] ? " by process " : "", who, name);
	return err_why(e, ERR_WHY_IN_USE, -e->errnum);
}

/*
 * Who held it was killed: its sandbox goes, too, but not in the same moment, and holds it until then.
 * A zombie is gone: whoever should reap it may never do so. Who has taken his name back is about to let go.
 */
static bool holder_is_gone(int fd)
{
	char who[16];
	uint64_t pid;

	read_holder(fd, who);
	return !who[0] || (str_u64(who, INT_MAX, &pid) && pid > 0 && proctree_ending((pid_t)pid));
}

static int hold_lock(int fd)
{
	int r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;

	for (int tries = 0; r == -EWOULDBLOCK && tries < LOCK_TRIES && holder_is_gone(fd);
		tries++) {
		poll(NULL, 0, LOCK_WAIT_MS);
		r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
	}
	return r;
}

static int write_holder(int fd, const char *name, struct err *e)
{
	struct stat st;
	char pid[32];
	/* Always as long: a truncation costs more than the whole opening. */
	int n = snprintf(pid, sizeof(pid), "%-10d\n", getpid());

	if (fstat(fd, &st) < 0 || (st.st_size > n && ftruncate(fd, 0) < 0) ||
		pwrite(fd, pid, (size_t)n, 0) != n)
		return err_set(e, errno, "lock environment %s", name);
	return 0;
}

void env_let_go(const struct env *v)
{
	char nobody[16];
	int n = snprintf(nobody, sizeof(nobody), "%-10s\n", "");

	/* Without it the next one says that the environment is in use. */
	if (v->lock_fd < 0 || pwrite(v->lock_fd, nobody, (size_t)n, 0) != n)
		return;
}

/*
 * A session may hold the lock, or be about to take it back after it was lent to somebody: in either
 * case it is asked. 1: it lends the lock; 0: nothing is up.
 */
static int ask_session(struct env *v, const char *name, enum env_lock lock, struct err *e)
{
	int r;

	if (v->beside_fd >= 0)
		return 1;
	if (lock != ENV_LOCK_BESIDE) {
		r = join_up(v->dir_fd);
		return r > 0 ? err_refuse(e, "%s is up; end that first: croft down %s", name, name) : r;
	}
	return env_beside(v, name, e);
}

/*
 * Whoever asks a session must not hold the lock: one that ends wants it back, and hears nobody any more. 0,
 * or -EAGAIN: it has ended meanwhile, or somebody else was quicker.
 */
static int lock_once(struct env *v, const char *name, enum env_lock lock, struct err *e)
{
	int r = hold_lock(v->lock_fd), up = 0;

	if (r == 0 && lock == ENV_LOCK_BESIDE && v->beside_fd < 0 && join_up(v->dir_fd) > 0)
		r = flock(v->lock_fd, LOCK_UN) < 0 ? -errno : -EWOULDBLOCK;
	if (r == -EWOULDBLOCK) {
		up = ask_session(v, name, lock, e);
		if (up == -ECONNRESET || up == -EPIPE) {
			*e = ERR_INIT;
			return -EAGAIN;
		}
		if (up < 0)
			return up;
		r = up ? hold_lock(v->lock_fd) : r;
	}
	if (r == -EWOULDBLOCK)
		return up ? -EAGAIN : say_busy(v->lock_fd, name, e);
	if (r < 0)
		return err_set(e, -r, "lock environment %s", name);
	return lock == ENV_LOCK_BESIDE ? 0 : MIN_OF(ask_session(v, name, lock, e), 0);
}

static int take_lock(struct env *v, const char *name, enum env_lock lock, struct err *e)
{
	int r;

	/* Readers need none: the record is replaced whole, and layers only ever grow. */
	if (lock < ENV_LOCK_BESIDE)
		return 0;
	v->lock_fd = openat(v->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (v->lock_fd < 0)
		return err_set(e, errno, "lock environment %s", name);
	for (int i = 0; (r = lock_once(v, name, lock, e)) == -EAGAIN && i < ASK_TRIES; i++)
		poll(NULL, 0, LOCK_WAIT_MS);
	if (r < 0)
		return r == -EAGAIN ? say_busy(v->lock_fd, name, e) : r;
	return write_holder(v->lock_fd, name, e);
}

static int open_directory(struct env *v, const char *name, struct err *e)
{
	cleanup_buf struct buf shown = BUF_INIT(512), path = BUF_INIT(PATH_MAX);

	show_name(name, &shown);
	if (!env_name_good(name))
		return err_invalid(e,
			"\"%s\" is not a valid environment name; use letters, digits, '.', '_' and "
			"'-', at most %d of them, beginning with a letter or digit",
			buf_str(&shown), ENV_NAME_MAX);
	if (!v->state_dir && env_state_dir(&v->state_dir, &v->home, e) < 0)
		return -e->errnum;
	buf_addf(&path, "%s/envs/%s", v->state_dir, name);
	v->dir = buf_take(&path);
	if (!v->dir)
		return err_set(e, ENAMETOOLONG, "open environment %s", name);
	v->dir_fd = open(v->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (v->dir_fd >= 0)
		return 0;
	if (errno != ENOENT)
		return err_set(e, errno, "open environment %s", name);
	err_invalid(e, "there is no environment called %s; croft ls shows those there are",
		buf_str(&shown));
	e->errnum = ENOENT;
	return err_why(e, ERR_WHY_NO_ENVIRONMENT, -ENOENT);
}

const char *env_store_key(const struct repo *r)
{
	return strrchr(r->store, '/') + 1;
}

/* Somebody may have put another directory, or another repository, in its place. */
static int check_repository(const struct env *v, struct err *e)
{
	if (v->kind == ENV_LIVE || !v->store_key)
		return 0;
	if (!v->repo.git_dir)
		return err_refuse(e,
			"%s is no Git repository any more; put it back, or remove the environment "
			"with: croft rm --force %s",
			v->workspace, v->name);
	if (!str_eq(v->store_key, env_store_key(&v->repo)))
		return err_refuse(e, "%s is another repository now than the one it was made from",
			v->workspace);
	return 0;
}

int env_attach(struct env *v, struct err *e)
{
	int r = repo_open(&v->repo, v->workspace, v->state_dir, e);

	if (r == 0)
		r = check_repository(v, e);
	if (r == 0 && v->base_key)
		r = base_open(&v->base, v->state_dir, v->base_key, e);
	return r < 0 ? err_wrap(e, "environment %s", v->name) : 0;
}

int env_open_record(struct env *v, const char *name, struct err *e)
{
	int r = open_directory(v, name, e);

	return r < 0 ? r : env_record_read(v, name, e);
}

int env_open(struct env *ret, const char *name, enum env_lock lock, struct err *e)
{
	cleanup_env struct env v;
	int r;

	env_init(&v);
	if ((r = open_directory(&v, name, e)) < 0 || (r = take_lock(&v, name, lock, e)) < 0 ||
		(r = env_record_read(&v, name, e)) < 0)
		return r;
	if (!str_eq(v.name, name))
		return err_set(e, EBADMSG, "the record of environment %s speaks of another", name);
	if ((r = env_attach(&v, e)) < 0)
		return r;
	if (lock >= ENV_LOCK_BESIDE &&
		((r = journal_recover(&v, e)) < 0 ||
			/* What a session that is up has not sealed yet is no crash's. */
			(v.beside_fd < 0 && (r = sjournal_recover(&v, e)) < 0) ||
			(r = env_recover_landing(&v, e)) < 0)) {
		err_wrap(e, "recover environment %s", name);
		if (lock != ENV_LOCK_FORCE)
			return r;
		strlist_add(&v.notes, e->msg);
		*e = ERR_INIT;
	}
	*ret = v;
	env_init(&v);
	return 0;
}

int env_refresh(struct env *v, struct err *e)
{
	cleanup_env struct env now;
	struct env_snapshot *was;
	size_t was_n;
	int r;

	env_init(&now);
	now.dir_fd = openat(v->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (now.dir_fd < 0)
		return err_set(e, errno, "open environment %s", v->name);
	if ((r = env_record_read(&now, v->name, e)) < 0 || (r = write_holder(v->lock_fd, v->name, e)) < 0)
		return r;
	v->state = now.state;
	v->review = now.review;
	v->landed_commit = now.landed_commit;
	v->landed_tree = now.landed_tree;
	free(v->landed_how);
	v->landed_how = take_ptr(now.landed_how);
	was = v->snapshots;
	was_n = v->snapshots_n;
	v->snapshots = now.snapshots;
	v->snapshots_n = now.snapshots_n;
	now.snapshots = was;
	now.snapshots_n = was_n;
	v->tip_known = false;
	return 0;
}

int env_names(struct strlist *ret, struct err *e)
{
	cleanup_free char *state = NULL;
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;

	if (env_state_dir(&state, NULL, e) < 0)
		return -e->errnum;
	buf_addf(&path, "%s/envs", state);
	d = opendir(buf_str(&path));
	if (!d)
		return errno == ENOENT ? 0 : err_set(e, errno, "list environments");
	while ((de = readdir(d)))
		if (env_name_good(de->d_name) && !strlist_add(ret, de->d_name))
			return err_set(e, ENOMEM, "list environments");
	strlist_sort(ret);
	return 0;
}

/* ---- layers ---- */

int env_layer_path(const struct env *v, const char *layer, const char *part, char *ret, size_t size,
	struct err *e)
{
	int n = snprintf(ret, size, "%s/layers/%s/%s", v->state_dir, layer, part);

	return n > 0 && (size_t)n < size ? 0 : err_set(e, ENAMETOOLONG, "name a layer");
}

int env_layer_make(const struct env *v, char ret[ENV_LAYER_NAME_LEN + 1], struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int all = -1, fd = -1;
	char name[17];

	buf_addf(&path, "%s/layers", v->state_dir);
	all = dir_make(buf_str(&path), 0700);
	if (all < 0)
		return err_set(e, -all, "make %s", buf_str(&path));
	if (env_random_id(name, e) < 0)
		return -e->errnum;
	/* The tree is the root of what the command sees: an ordinary directory's mode. */
	if (mkdirat(all, name, 0700) < 0 ||
		(fd = path_open(all, name, O_PATH | O_DIRECTORY, 0)) < 0 ||
		mkdirat(fd, "tree", 0755) < 0 || mkdirat(fd, "work", 0700) < 0)
		return err_set(e, errno, "make a layer in %s", buf_str(&path));
	memcpy(ret, name, sizeof(name));
	return 0;
}

int env_layer_fd(const struct env *v, size_t i, struct err *e)
{
	char path[PATH_MAX];
	int fd;

	if (env_layer_path(v, v->layers.v[i], "tree", path, sizeof(path), e) < 0)
		return -e->errnum;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 ? fd
		       : err_set(e, errno, "a layer of environment %s is missing (%s)", v->name,
				 v->layers.v[i]);
}

int env_push_layer(struct env *v, struct err *e)
{
	char name[ENV_LAYER_NAME_LEN + 1];
	struct err why = ERR_INIT;
	int r;

	/* A layer that cannot be put together with others (unreadable, too deep) can still be one of many. */
	if (v->layers.n >= ENV_LAYERS_SQUASH)
		env_squash(v, &why);
	if (v->layers.n >= ENV_LAYERS_MAX)
		return err_refuse(e,
			"environment %s has %d layers, one for each snapshot and fork, which "
			"cannot "
			"be put together (%s); apply it, or start a new one",
			v->name, ENV_LAYERS_MAX, why.msg);
	r = env_layer_make(v, name, e);
	if (r < 0)
		return r;
	return strlist_add(&v->layers, name) ? 0 : err_set(e, ENOMEM, "add a layer");
}
