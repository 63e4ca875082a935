/* SPDX-License-Identifier: Apache-2.0 */
/* The store of secrets: see secrets.h. */
#include "session/config/secrets.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/config/layers.h"
#include "session/config/state.h"
#include "ipc/pass.h"
#include "os/path.h"
#include "os/tree.h"

#define CLOCK_STEP_MS 50 /* of the time that a file system writes down */

int secret_name_check(const char *name, struct err *e)
{
	if (secret_name_valid(name))
		return 0;
	return err_invalid(e,
		"%.80s is not a name for a secret: letters, digits and _, at most %u, not "
		"beginning with a digit",
		name, SECRET_NAME_MAX);
}

/* ---- the directory ---- */

/* Absolute path of croft's state directory. */
static int store_parent(char *ret, size_t size, struct err *e)
{
	cleanup_free char *home = NULL;
	int r = layers_home(&home, e);

	return r < 0 ? r : state_path(ret, size, home, e);
}

/* Nobody else may reach into the store. */
static int dir_check(int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at the store of secrets");
	if (st.st_uid != geteuid())
		return err_refuse(e, "the store of secrets belongs to another user (uid %u)",
			(unsigned)st.st_uid);
	if (st.st_mode & 077)
		return err_refuse(e,
			"the store of secrets can be entered by others (mode %04o); chmod 700 "
			"croft/secrets in the state directory, and change the secrets in it",
			(unsigned)(st.st_mode & 07777));
	return 0;
}

/* `make`: it is made when it is not there. */
static int store_open(bool make, struct err *e)
{
	cleanup_fd int parent = -1;
	cleanup_fd int fd = -1;
	char path[PATH_MAX];
	int r = store_parent(path, sizeof(path), e);

	if (r < 0)
		return r;
	parent = make ? dir_make(path, 0700) : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 && make)
		return err_set(e, -parent, "make %s", path);
	/* In what is no directory nothing was ever stored. */
	if (parent < 0)
		return errno == ENOTDIR ? -ENOENT : -errno;
	if (make && mkdirat(parent, "secrets", 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make %s/secrets", path);
	fd = openat(parent, "secrets", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0)
		return err_set(e, errno, "open %s/secrets", path);
	r = dir_check(fd, e);
	return r < 0 ? r : take_fd(&fd);
}

/* ---- one secret ---- */

static int not_stored(const char *name, struct err *e)
{
	return err_invalid(e,
		"there is no secret called %s, and no variable of that name; store it with: croft "
		"secret set %s",
		name, name);
}

/* The caller's variable of that name: it counts where nothing is stored. 1, 0: there is none. */
static int from_environment(const char *name, const char **ret, struct err *e)
{
	const char *value = getenv(name), *flaw;

	if (!value || !*value)
		return 0;
	flaw = secret_flaw(value, strlen(value));
	if (flaw)
		return err_invalid(e, "the value of your variable %s %s", name, flaw);
	*ret = value;
	return 1;
}

/* A file that only the memory has, as the keeper wants it. */
static int memory_file(const char *name, const char *value, struct err *e)
{
	cleanup_fd int fd = memfd_create("secret", MFD_CLOEXEC);
	int r = fd < 0 || fchmod(fd, 0600) < 0 ? -errno : fd_write_all(fd, value, strlen(value));

	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? err_set(e, -r, "hand over the secret %s", name) : take_fd(&fd);
}

/* An open file that was found worthy, O_PATH or readable by `oflags`. */
static int secret_open(int dir, const char *name, int oflags, struct stat *ret, struct err *e)
{
	cleanup_fd int fd =
		openat(dir, name, oflags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *flaw;

	if (fd < 0 && errno == ENOENT)
		return not_stored(name, e);
	if (fd < 0 && errno == ELOOP)
		return err_refuse(e,
			"the secret %s is a symlink; set it again: croft secret set %s", name,
			name);
	if (fd < 0 || fstat(fd, ret) < 0)
		return err_set(e, errno, "open the secret %s", name);
	flaw = secret_file_flaw(ret);
	if (flaw)
		return err_refuse(e, "the file of the secret %s %s", name, flaw);
	return take_fd(&fd);
}

static bool is_stored(int dir, const char *name)
{
	struct stat st;

	return dir >= 0 && (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

int secret_length(const char *name, size_t *ret, struct err *e)
{
	cleanup_fd int dir = -1;
	cleanup_fd int fd = -1;
	const char *value;
	struct stat st;
	int r = secret_name_check(name, e);

	if (r < 0)
		return r;
	dir = store_open(false, e);
	if (dir < 0 && dir != -ENOENT)
		return dir;
	if (!is_stored(dir, name)) {
		r = from_environment(name, &value, e);
		if (r > 0)
			*ret = strlen(value);
		return r > 0 ? 0 : r < 0 ? r : not_stored(name, e);
	}
	fd = secret_open(dir, name, O_PATH, &st, e);
	if (fd < 0)
		return fd;
	*ret = (size_t)st.st_size;
	return 0;
}

int secret_each(int (*visit)(void *arg, const char *name, const struct secret *value), void *arg,
	struct err *e)
{
	cleanup_free struct secret_info *all = NULL;
	cleanup_fd int dir = store_open(false, e);
	size_t n = 0;
	int r = 0;

	if (dir == -ENOENT)
		return 0;
	if (dir < 0 || (r = secret_list(&all, &n, e)) < 0)
		return dir < 0 ? dir : r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		cleanup_secret struct secret value = SECRET_INIT;
		cleanup_fd int fd = -1;
		struct stat st;

		if (all[i].problem)
			continue; /* no sandbox can be given it, either */
		fd = secret_open(dir, all[i].name, O_RDONLY, &st, e);
		if (fd < 0)
			return fd;
		r = secret_init(&value, SECRET_MAX_B);
		if (r == 0)
			r = secret_fill(&value, fd);
		r = r < 0 ? err_set(e, -r, "read the secret %s", all[i].name)
			  : visit(arg, all[i].name, &value);
	}
	return r;
}

/* A change within a step of the clock after another one would show the same time. */
static bool is_settled(const struct timespec *changed, const struct timespec *seen)
{
	int64_t ms = (seen->tv_sec - changed->tv_sec) * 1000 +
		     (seen->tv_nsec - changed->tv_nsec) / 1000000;

	return ms > CLOCK_STEP_MS;
}

bool secret_unchanged(struct secret_stamp *s)
{
	struct secret_stamp now = {0};
	struct err ignored = ERR_INIT; /* whoever reads is told */
	char path[PATH_MAX], secrets[PATH_MAX + sizeof("/secrets")];
	struct stat st;
	bool same;

	clock_gettime(CLOCK_REALTIME, &now.seen);
	if (store_parent(path, sizeof(path), &ignored) < 0)
		return false;
	snprintf(secrets, sizeof(secrets), "%s/secrets", path);
	if (lstat(secrets, &st) == 0) {
		now.changed = st.st_ctim;
		now.dev = st.st_dev;
		now.ino = st.st_ino;
	} else if (errno != ENOENT && errno != ENOTDIR) {
		return false;
	}
	same = s->seen.tv_sec && s->dev == now.dev && s->ino == now.ino &&
	       s->changed.tv_sec == now.changed.tv_sec &&
	       s->changed.tv_nsec == now.changed.tv_nsec && is_settled(&s->changed, &s->seen);
	if (!same)
		*s = now;
	return same;
}

/* Written, on the disk, and only then under its name. */
static int replace(int dir, const char *name, const struct secret *value)
{
	cleanup_fd int fd = -1;
	cleanup_fd int sync_dir = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char tmp[SECRET_NAME_MAX + 32];
	int r;

	snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", name, (int)getpid());
	unlinkat(dir, tmp, 0); /* left by a process that died with our number */
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fchmod(fd, 0600) < 0 ? -errno : fd_write_all(fd, value->data, value->len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, tmp, dir, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, tmp, 0);
	else if (sync_dir < 0 || fsync(sync_dir) < 0)
		r = -errno;
	return r;
}

int secret_set(const char *name, const struct secret *value, struct err *e)
{
	cleanup_fd int dir = -1;
	const char *flaw = secret_flaw(value->data, value->len);
	int r = secret_name_check(name, e);

	if (r < 0)
		return r;
	if (flaw)
		return err_invalid(e, "the value of %s %s; nothing was stored", name, flaw);
	dir = store_open(true, e);
	if (dir < 0)
		return dir;
	r = replace(dir, name, value);
	return r < 0 ? err_set(e, -r, "store the secret %s", name) : 0;
}

int secret_remove(const char *name, struct err *e)
{
	cleanup_fd int dir = -1;
	int r = secret_name_check(name, e);

	if (r < 0)
		return r;
	dir = store_open(false, e);
	if (dir < 0 && dir != -ENOENT)
		return dir;
	if (dir >= 0 && unlinkat(dir, name, 0) == 0)
		return 0;
	if (dir >= 0 && errno != ENOENT)
		return err_set(e, errno, "remove the secret %s", name);
	return err_invalid(e, "there is no secret called %s; see: croft secret ls", name);
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct secret_info *)a)->name, ((const struct secret_info *)b)->name);
}

static void describe(int dir, const char *name, struct secret_info *ret)
{
	struct stat st;

	*ret = (struct secret_info){0};
	snprintf(ret->name, sizeof(ret->name), "%.64s", name);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		ret->problem = "cannot be looked at";
		return;
	}
	ret->problem = secret_file_flaw(&st);
	ret->len_b = st.st_size > 0 ? (size_t)st.st_size : 0;
	ret->set_at = st.st_mtim.tv_sec;
}

int secret_list(struct secret_info **ret, size_t *ret_n, struct err *e)
{
	cleanup_fd int dir = store_open(false, e);
	cleanup_dir DIR *d = NULL;
	cleanup_free struct secret_info *v = NULL;
	struct dirent *de;
	size_t n = 0;

	if (dir < 0 && dir != -ENOENT)
		return dir;
	v = calloc(SECRETS_MAX, sizeof(*v));
	if (!v)
		return err_set(e, ENOMEM, "list the secrets");
	if (dir >= 0) {
		d = dir_list(dir, ".");
		if (!d)
			return err_set(e, errno, "list the secrets");
	}
	while (d && (de = readdir(d))) {
		if (!secret_name_valid(de->d_name))
			continue; /* ".", "..", one being written */
		if (n == SECRETS_MAX)
			return err_invalid(e,
				"more than %u secrets are stored; remove some with: croft secret "
				"rm NAME",
				SECRETS_MAX);
		describe(dir, de->d_name, &v[n++]);
	}
	qsort(v, n, sizeof(*v), by_name);
	*ret = take_ptr(v);
	*ret_n = n;
	return 0;
}

/* ---- to the keeper ---- */

int secret_handover(const char *const *names, size_t n, struct err *e)
{
	cleanup_fd int dir = store_open(false, e);
	cleanup_fd int ours = -1;
	cleanup_fd int theirs = -1;
	int pair[2];

	if (dir < 0 && dir != -ENOENT)
		return dir;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, errno, "hand over secrets");
	ours = pair[0];
	theirs = pair[1];
	for (size_t i = 0; i < n; i++) {
		char name[SECRET_NAME_MAX + 1] = {0};
		cleanup_fd int fd = -1;
		const char *value;
		struct stat st;
		int r = secret_name_check(names[i], e);

		if (r < 0)
			return r;
		if (is_stored(dir, names[i]))
			fd = secret_open(dir, names[i], O_RDONLY, &st, e);
		else if ((r = from_environment(names[i], &value, e)) > 0)
			fd = memory_file(names[i], value, e);
		else
			return r < 0 ? r : not_stored(names[i], e);
		if (fd < 0)
			return fd;
		snprintf(name, sizeof(name), "%s", names[i]);
		r = pass_send(ours, name, sizeof(name), fd);
		if (r < 0)
			return err_set(e, -r, "hand over the secret %s", names[i]);
	}
	return take_fd(&theirs);
}
