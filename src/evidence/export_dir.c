/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that comes to be whole or not at all: see export.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sha2.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "evidence/export.h"
#include "os/interrupt.h"
#include "os/path.h"
#include "os/tree.h"

#define CHUNK_B 65536u

void export_dir_done(struct export_dir *d)
{
	close_fd(&d->fd);
	if (d->temporary[0] && d->parent_fd >= 0)
		tree_remove_at(d->parent_fd, d->temporary);
	close_fd(&d->parent_fd);
	free(d->name);
	d->name = NULL;
	d->temporary[0] = '\0';
	strlist_done(&d->files);
}

/* "a/b/" is directory a with name b. */
static int split(struct export_dir *d, const char *path, struct err *e)
{
	cleanup_free char *copy = strdup(path);
	size_t n = copy ? strlen(copy) : 0;
	char *slash;

	if (!copy)
		return err_set(e, ENOMEM, "make %s", path);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	slash = strrchr(copy, '/');
	d->name = strdup(slash ? slash + 1 : copy);
	if (!d->name)
		return err_set(e, ENOMEM, "make %s", path);
	if (!*d->name || str_eq(d->name, ".") || str_eq(d->name, ".."))
		return err_invalid(e, "%.256s is not a name that a new directory can have", path);
	if (slash)
		slash[slash == copy] = '\0';
	d->parent_fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return d->parent_fd < 0
		       ? err_set(e, errno, "open the directory that %.256s is to be in", path)
		       : 0;
}

/* What is there already must be an empty directory. */
static int check_empty(struct export_dir *d, struct err *e)
{
	cleanup_fd int fd =
		openat(d->parent_fd, d->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_dir DIR *dir = NULL;
	struct dirent *de;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_set(e, errno, "%.256s is there already, and no directory", d->name);
	dir = fdopendir(fd);
	if (!dir)
		return err_set(e, errno, "read %.256s", d->name);
	take_fd(&fd);
	while ((de = readdir(dir)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			return err_invalid(e,
				"%.256s holds something already; name a directory that is new or "
				"empty",
				d->name);
	return 0;
}

int export_dir_open(struct export_dir *d, const char *path, struct err *e)
{
	unsigned char raw[8];
	int r = split(d, path, e), n;

	if (r == 0)
		r = check_empty(d, e);
	if (r < 0)
		return r;
	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_set(e, errno, "make %.256s", path);
	n = snprintf(d->temporary, sizeof(d->temporary), ".croft-");
	for (size_t i = 0; i < sizeof(raw); i++)
		n += snprintf(d->temporary + n, sizeof(d->temporary) - (size_t)n, "%02x", raw[i]);
	if (mkdirat(d->parent_fd, d->temporary, 0777) < 0) {
		d->temporary[0] = '\0';
		return err_set(e, errno, "make %.256s", path);
	}
	d->fd = openat(d->parent_fd, d->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return d->fd < 0 ? err_set(e, errno, "make %.256s", path) : 0;
}

int export_dir_sub(struct export_dir *d, const char *name, struct err *e)
{
	return mkdirat(d->fd, name, 0777) < 0 ? err_set(e, errno, "make %s", name) : 0;
}

int export_dir_file(struct export_dir *d, const char *name, struct err *e)
{
	int fd = interrupt_check(e);

	if (fd < 0)
		return fd;
	fd = openat(d->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return err_set(e, errno, "write %s", name);
	if (!strlist_add(&d->files, name)) {
		close(fd);
		return err_set(e, ENOMEM, "write %s", name);
	}
	return fd;
}

int export_dir_put(struct export_dir *d, const char *name, const void *p, size_t n, struct err *e)
{
	cleanup_fd int fd = export_dir_file(d, name, e);
	int r;

	if (fd < 0)
		return fd;
	r = fd_write_all(fd, p, n);
	return r < 0 ? err_set(e, -r, "write %s", name) : 0;
}

static int hash_file(int dir_fd, const char *name, char ret[SHA256_DIGEST_STRING_LENGTH])
{
	uint8_t raw[SHA256_DIGEST_LENGTH];
	cleanup_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char chunk[CHUNK_B];
	SHA2_CTX c;
	ssize_t n;

	if (fd < 0)
		return -errno;
	SHA256Init(&c);
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		SHA256Update(&c, (const uint8_t *)chunk, (size_t)n);
	}
	SHA256Final(raw, &c);
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
	return fsync(fd) < 0 ? -errno : 0;
}

/* Lines that `sha256sum -c` takes. */
static int manifest(struct export_dir *d, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(64u << 20);
	char hex[SHA256_DIGEST_STRING_LENGTH];

	strlist_sort(&d->files);
	for (size_t i = 0; i < d->files.n; i++) {
		int r = hash_file(d->fd, d->files.v[i], hex);

		if (r < 0)
			return err_set(e, -r, "read %s back", d->files.v[i]);
		buf_addf(&b, "%s  %s\n", hex, d->files.v[i]);
	}
	return b.failed ? err_set(e, ENOMEM, "write MANIFEST")
			: export_dir_put(d, "MANIFEST", buf_str(&b), b.len, e);
}

int export_dir_finish(struct export_dir *d, struct err *e)
{
	int r = manifest(d, e);

	if (r < 0)
		return r;
	if (renameat(d->parent_fd, d->temporary, d->parent_fd, d->name) < 0)
		return errno == ENOTEMPTY || errno == EEXIST
			       ? err_invalid(
					 e, "somebody else wrote into %.256s meanwhile", d->name)
			       : err_set(e, errno, "name the bundle %.256s", d->name);
	d->temporary[0] = '\0';
	return fsync(d->parent_fd) < 0 && errno != EINVAL ? err_set(e, errno, "write %s", d->name)
							  : 0;
}
