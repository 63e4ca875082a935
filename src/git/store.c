/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft's own Git directory for a workspace: see repo.h.
 *
 * Name:    16 hexadecimal digits of a digest of the workspace and its repository, so that a repository
 *          made later, or another one at the same place, does not meet the objects of the former.
 * Order:   made under another name and renamed: it is there whole or not at all, and of two that make
 *          it at once one wins. Alternates and shallow boundaries are compared with the host's each
 *          time, since they are only files; croft.json holds what git had to be asked for, and the
 *          stamp of the files that it was asked about.
 * Read-only: where the state cannot be written, one can still look. What that makes (trees and blobs of
 *          what is staged) goes to a stand-in of the same name in a temporary directory, which has the
 *          store's objects as alternates and its refs, and is removed at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "git/mute.h"
#include "git/repo_impl.h"
#include "os/path.h"
#include "os/tree.h"

#define NOTES "croft.json"
#define NOTES_SCHEMA "croft.store/v2"

static const char *const hash_names[] = {[GIT_SHA1] = "sha1", [GIT_SHA256] = "sha256"};

/* ------------------------------------------------------------------ notes */

/* Can JSON hold these names as they are? */
static bool can_note(const struct repo *r)
{
	const char *h = r->hooks_path ? r->hooks_path : "";
	bool fine = utf8_valid(h, strlen(h));

	for (size_t i = 0; i < r->config_files.n; i++)
		fine = fine && utf8_valid(r->config_files.v[i], strlen(r->config_files.v[i]));
	for (size_t i = 0; i < r->muted.n; i++)
		fine = fine && utf8_valid(r->muted.v[i], strlen(r->muted.v[i]));
	for (size_t i = 0; i < r->included.n; i++)
		fine = fine && utf8_valid(r->included.v[i], strlen(r->included.v[i]));
	return fine;
}

static int write_notes(const struct repo *r, int fd, const char *stamp, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX), files = BUF_INIT(REPO_FILE_MAX);
	struct json j;
	int rc = repo_stamp_included(r, &files, e);

	if (rc < 0)
		return rc;
	json_init(&j, &b, true);
	json_object(&j, NULL);
	json_str(&j, "schema", NOTES_SCHEMA);
	json_str(&j, "workspace", r->workspace);
	json_str(&j, "repository", r->common_dir);
	json_str(&j, "stamp", can_note(r) && !r->config_varies ? stamp : "");
	json_str(&j, "stamp_included", buf_str(&files));
	json_str(&j, "objects", hash_names[r->hash]);
	json_bool(&j, "sparse", r->sparse);
	json_bool(&j, "reftable", r->reftable);
	json_bool(&j, "claims_workspace", r->claims_workspace);
	json_str(&j, "hooks_path", r->hooks_path);
	json_list(&j, "included", &r->included);
	json_list(&j, "config_files", &r->config_files);
	json_list(&j, "muted", &r->muted);
	json_end(&j);
	buf_addc(&b, '\n');
	rc = b.failed ? -ENOMEM : file_replace_at(fd, NOTES, b.data, b.len, 0600);
	if (rc == -EROFS) /* then git is asked again next time */
		return 0;
	return rc < 0 ? err_set(e, -rc, "write %s/%s", r->store, NOTES) : 0;
}

static bool read_list(const struct jnode *n, struct strlist *ret, uint32_t max)
{
	bool fine = jtype(n) == JARRAY;

	strlist_done(ret);
	*ret = STRLIST_INIT(max);
	for (size_t i = 0; fine && i < jlen(n); i++) {
		const char *s = jstr(jat(n, i));

		fine = s && strlist_add(ret, s);
	}
	return fine;
}

/* What the configuration makes git obey; false: ask again. */
static bool read_obeyed(struct repo *r, const struct jnode *root)
{
	cleanup_buf struct buf files = BUF_INIT(REPO_FILE_MAX);
	const char *was = jstr(jget(root, "stamp_included"));
	const struct jnode *hooks = jget(root, "hooks_path");
	struct err ignored = ERR_INIT;

	if (!was || !hooks || !read_list(jget(root, "included"), &r->included, REPO_CONFIGS_MAX) ||
		!read_list(jget(root, "config_files"), &r->config_files, REPO_CONFIGS_MAX) ||
		!read_list(jget(root, "muted"), &r->muted, MUTE_MAX) ||
		repo_stamp_included(r, &files, &ignored) < 0 || !str_eq(was, buf_str(&files)))
		return false;
	free(r->hooks_path);
	r->hooks_path = jstr(hooks) ? strdup(jstr(hooks)) : NULL;
	return !jstr(hooks) == !r->hooks_path;
}

/* What was found out when the files looked like this; false: ask again. */
static bool read_notes(struct repo *r, int fd, const char *stamp)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	cleanup_jdoc struct jdoc *d = NULL;
	struct err ignored = ERR_INIT;
	const struct jnode *root;
	const char *schema, *was, *hash;

	if (file_read_at(fd, NOTES, &b) < 0 || jdoc_parse(&d, buf_str(&b), b.len, &ignored) < 0)
		return false;
	root = jdoc_root(d);
	schema = jstr(jget(root, "schema"));
	was = jstr(jget(root, "stamp"));
	hash = jstr(jget(root, "objects"));
	if (!schema || !str_eq(schema, NOTES_SCHEMA) || !was || !str_eq(was, stamp) || !hash)
		return false;
	if (!str_eq(hash, "sha1") && !str_eq(hash, "sha256"))
		return false;
	if (!read_obeyed(r, root))
		return false;
	r->hash = str_eq(hash, "sha256") ? GIT_SHA256 : GIT_SHA1;
	r->sparse = jtrue(jget(root, "sparse"));
	r->reftable = jtrue(jget(root, "reftable"));
	r->claims_workspace = jtrue(jget(root, "claims_workspace"));
	return true;
}

/* ------------------------------------------------------------------ files that follow the host's */

static void quote_path(struct buf *b, const char *path)
{
	if (!strchr(path, '\n')) {
		buf_addf(b, "%s\n", path);
		return;
	}
	buf_addc(b, '"');
	for (; *path; path++) {
		if (*path == '\n') {
			buf_adds(b, "\\n");
			continue;
		}
		if (*path == '"' || *path == '\\')
			buf_addc(b, '\\');
		buf_addc(b, *path);
	}
	buf_adds(b, "\"\n");
}

/* Replace a file of the store if it is not like this. NULL: it must not be there. */
static int follow(
	const struct repo *r, int fd, const char *name, const struct buf *want, struct err *e)
{
	cleanup_buf struct buf is = BUF_INIT(REPO_SHALLOW_MAX);
	cleanup_fd int dir = -1;
	const char *slash = strrchr(name, '/');
	int rc;

	if (!want) {
		struct stat st;

		/* Looked for first: on a read-only file system, removing nothing fails as well. */
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			return 0;
		if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
			return err_set(e, errno, "remove %s/%s", r->store, name);
		return 0;
	}
	rc = file_read_at(fd, name, &is);
	if (rc == 0 && is.len == want->len && memcmp(buf_str(&is), buf_str(want), is.len) == 0)
		return 0;
	dir = openat(fd, slash ? "objects/info" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = dir < 0 ? -errno
		     : file_replace_at(
			       dir, slash ? slash + 1 : name, buf_str(want), want->len, 0600);
	return rc < 0 ? err_set(e, -rc, "write %s/%s", r->store, name) : 0;
}

/* own: a further object directory, before the host's; or NULL. */
static int follow_host(const struct repo *r, int fd, const char *own, struct err *e)
{
	cleanup_buf struct buf alternates = BUF_INIT(REPO_FILE_MAX);
	cleanup_buf struct buf shallow = BUF_INIT(REPO_SHALLOW_MAX);
	int rc;

	if (own)
		quote_path(&alternates, own);
	for (size_t i = 0; i < r->objects.n; i++)
		quote_path(&alternates, r->objects.v[i]);
	if (alternates.failed)
		return err_set(e, ENOMEM, "prepare %s", r->store);
	rc = follow(r, fd, "objects/info/alternates", alternates.len ? &alternates : NULL, e);
	if (rc < 0)
		return rc;
	if (r->shallow) {
		rc = repo_read_file(r->common_dir, "shallow", &shallow);
		if (rc < 0 && rc != -ENOENT)
			return err_set(e, -rc, "read %s/shallow", r->common_dir);
	}
	return follow(r, fd, "shallow", shallow.len ? &shallow : NULL, e);
}

/* ------------------------------------------------------------------ making it */

static int put_file(int fd, const char *name, const char *text)
{
	cleanup_fd int f = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc;

	if (f < 0)
		return -errno;
	rc = fd_write_all(f, text, strlen(text));
	return rc == 0 && fsync(f) < 0 ? -errno : rc;
}

static int fill_store(const struct repo *r, int fd)
{
	static const char *const dirs[] = {
		"objects", "objects/info", "objects/pack", "refs", "refs/heads"};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(fd, dirs[i], 0700) < 0)
			return -errno;
	if (r->hash == GIT_SHA256)
		rc = put_file(fd, "config",
			"[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
			"[extensions]\n\tobjectformat = sha256\n");
	else
		rc = put_file(
			fd, "config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
	if (rc == 0)
		rc = put_file(fd, "HEAD", "ref: refs/heads/none\n");
	return rc;
}

/* Under a name of our own in `repos`, then under its real one. */
static int make_store(const struct repo *r, int repos, const char *key)
{
	static atomic_uint serial;
	char temp[64];
	int rc, fd;

	snprintf(temp, sizeof(temp), "tmp-%d-%u", getpid(), atomic_fetch_add(&serial, 1));
	tree_remove_at(repos, temp); /* left by a process that died with our number */
	if (mkdirat(repos, temp, 0700) < 0)
		return -errno;
	fd = openat(repos, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	rc = fd < 0 ? -errno : fill_store(r, fd);
	if (fd >= 0)
		close(fd);
	if (rc == 0 && renameat(repos, temp, repos, key) < 0)
		rc = errno == EEXIST || errno == ENOTEMPTY ? -EEXIST : -errno;
	if (rc < 0)
		tree_remove_at(repos, temp);
	return rc == -EEXIST ? 0 : rc;
}

static int store_key(const struct repo *r, char ret[17])
{
	cleanup_buf struct buf b = BUF_INIT(4 * PATH_MAX);
	struct digest d;

	buf_add(&b, r->workspace, strlen(r->workspace) + 1);
	if (r->common_dir)
		buf_adds(&b, r->common_dir);
	if (b.failed)
		return -ENOMEM;
	digest_sha256(&d, b.data, b.len);
	memcpy(ret, d.hex, 16);
	ret[16] = '\0';
	return 0;
}

/* A repository that was made anew with another object format. */
static int check_format(const struct repo *r, int fd, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	int rc = file_read_at(fd, "config", &b);

	if (rc < 0)
		return err_set(e, -rc, "read %s/config", r->store);
	if ((strstr(buf_str(&b), "sha256") != NULL) == (r->hash == GIT_SHA256))
		return 0;
	return err_invalid(e,
		"the repository of %s names objects by %s now, and did not when croft first saw "
		"it: move %s away if nothing in it is needed",
		r->workspace, hash_names[r->hash], r->store);
}

static int open_store(struct repo *r, int repos, const char *key, const char *stamp, struct err *e)
{
	int fd = openat(repos, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc;

	if (fd >= 0 && read_notes(r, fd, stamp))
		return fd;
	if (fd < 0 && errno != ENOENT)
		return err_set(e, errno, "open %s", r->store);
	rc = repo_ask_git(r, e);
	if (rc == 0 && fd < 0) {
		rc = make_store(r, repos, key);
		if (rc == 0) {
			fd = openat(repos, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			rc = fd < 0 ? -errno : 0;
		}
		if (rc < 0)
			rc = err_set(e, -rc, "make %s", r->store);
	}
	if (rc == 0)
		rc = check_format(r, fd, e);
	if (rc == 0)
		rc = write_notes(r, fd, stamp, e);
	if (rc == 0)
		return fd;
	close_fd(&fd);
	return rc;
}

/* ------------------------------------------------------------------ where it cannot be written */

static bool read_only(int fd)
{
	struct statvfs v;

	return fstatvfs(fd, &v) == 0 && v.f_flag & ST_RDONLY;
}

/* What a store has, but for refs, which are those of the one it stands for. */
static int fill_stand_in(const struct repo *r, int fd, const char *real)
{
	static const char *const links[] = {"refs", "packed-refs"};
	char target[PATH_MAX];
	int rc = fill_store(r, fd);

	if (rc < 0)
		return rc;
	if (unlinkat(fd, "refs/heads", AT_REMOVEDIR) < 0 || unlinkat(fd, "refs", AT_REMOVEDIR) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (snprintf(target, sizeof(target), "%s/%s", real, links[i]) >=
				(int)sizeof(target) ||
			symlinkat(target, fd, links[i]) < 0)
			return -ENAMETOOLONG;
	return 0;
}

static int stand_in(struct repo *r, const char *key, struct err *e)
{
	cleanup_free char *real = take_ptr(r->store);
	cleanup_fd int fd = -1;
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX], objects[PATH_MAX];
	int rc;

	if (snprintf(path, sizeof(path), "%s/croft-store-XXXXXX",
		    tmp && *tmp == '/' ? tmp : "/tmp") >= (int)sizeof(path) ||
		snprintf(objects, sizeof(objects), "%s/objects", real) >= (int)sizeof(objects))
		return err_set(e, ENAMETOOLONG, "make a temporary store");
	if (!mkdtemp(path))
		return err_set(e, errno, "make %s for what cannot be kept in %s", path, real);
	r->stand_in = strdup(path);
	if (!r->stand_in || asprintf(&r->store, "%s/%s", path, key) < 0) {
		r->store = NULL;
		return err_set(e, ENOMEM, "make a temporary store");
	}
	rc = mkdir(r->store, 0700) < 0 ? -errno : 0;
	fd = rc < 0 ? -1 : open(r->store, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (rc == 0)
		rc = fd < 0 ? -errno : fill_stand_in(r, fd, real);
	return rc < 0 ? err_set(e, -rc, "make %s", r->store) : follow_host(r, fd, objects, e);
}

void store_leave(struct repo *r)
{
	if (r->stand_in)
		tree_remove_at(AT_FDCWD, r->stand_in);
	free(take_ptr(r->stand_in));
}

int store_prepare(struct repo *r, const char *state_dir, struct err *e)
{
	cleanup_buf struct buf stamp = BUF_INIT(4 * PATH_MAX);
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int repos = -1, fd = -1;
	char key[17];
	int rc;

	rc = store_key(r, key);
	buf_addf(&path, "%s/repos", state_dir);
	if (rc < 0 || path.failed)
		return err_set(e, ENOMEM, "prepare the store");
	repos = dir_make(path.data, 0700);
	if (repos < 0)
		return err_set(e, -repos, "make %s", path.data);
	buf_addf(&path, "/%s", key);
	r->store = buf_take(&path);
	if (!r->store)
		return err_set(e, ENAMETOOLONG, "prepare the store");
	rc = repo_stamp(r, &stamp, e);
	if (rc < 0)
		return rc;
	fd = open_store(r, repos, key, buf_str(&stamp), e);
	if (fd < 0)
		return fd;
	return read_only(fd) ? stand_in(r, key, e) : follow_host(r, fd, NULL, e);
}
