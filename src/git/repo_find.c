/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the repository of a workspace is, and what it is like: see repo.h.
 *
 * Order:  ".git" (a directory, or a file that names one) -> its common directory -> object directories
 *         and their alternates, all by reading files, because this is on the way of every command.
 *         Only what stands in the configuration is asked of git, once per change (store.c).
 * Trust:  the repository may have come with the project, or a command may have made it: what it names is a
 *         candidate (repo_is_own(), objects.h). Every file that is read has a maximum, is regular and
 *         is reached through no symlink; every list has an end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/mute.h"
#include "git/repo_impl.h"
#include "os/path.h"

static bool is_dir(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
	       stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* lstat, so that HEAD may be the symbolic link that old versions of Git made. */
static bool exists(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
	       lstat(path, &st) == 0;
}

int repo_read_file(const char *dir, const char *name, struct buf *ret)
{
	cleanup_fd int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int fd = -1;
	struct stat st;

	if (at < 0)
		return -errno;
	fd = path_open(at, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? file_read_fd(fd, ret) : -EINVAL;
}

bool repo_below(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(dir, path, n) == 0 && path[n] == '/';
}

/* base/path, or path when it is absolute; canonical. NULL: it is not there. */
char *repo_canonical(const char *base, const char *path)
{
	cleanup_fd int fd = -1;
	char joined[2 * PATH_MAX], real[PATH_MAX];
	int n = path[0] == '/' ? snprintf(joined, sizeof(joined), "%s", path)
			       : snprintf(joined, sizeof(joined), "%s/%s", base, path);

	if (n < 0 || (size_t)n >= sizeof(joined))
		return NULL;
	fd = path_resolve(joined, real, sizeof(real));
	return fd < 0 ? NULL : strdup(real);
}

static void trim(struct buf *b)
{
	while (b->len > 0 && (b->data[b->len - 1] == '\n' || b->data[b->len - 1] == '\r'))
		b->data[--b->len] = '\0';
}

/* ------------------------------------------------------------------ the Git directory */

static int damaged(const struct repo *r, const char *what, struct err *e)
{
	return err_invalid(e,
		"%s/.git is not a repository that can be used: %s; see what `git status` says "
		"there",
		r->workspace, what);
}

/* ".git" is a file: "gitdir: PATH". */
static int follow_git_file(struct repo *r, struct err *e)
{
	static const char key[] = "gitdir: ";
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	int rc = repo_read_file(r->workspace, ".git", &b);

	if (rc < 0)
		return err_set(e, -rc, "read %s/.git", r->workspace);
	trim(&b);
	if (!str_starts(buf_str(&b), key) || strlen(b.data) != b.len)
		return damaged(r, "the file does not say where the Git directory is", e);
	r->git_dir = repo_canonical(r->workspace, b.data + strlen(key));
	return r->git_dir ? 0 : damaged(r, "the Git directory it names is not there", e);
}

static int find_common(struct repo *r, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	int rc = repo_read_file(r->git_dir, "commondir", &b);

	if (rc == -ENOENT) {
		r->common_dir = strdup(r->git_dir);
		return r->common_dir ? 0 : err_set(e, ENOMEM, "open the repository");
	}
	if (rc < 0)
		return err_set(e, -rc, "read %s/commondir", r->git_dir);
	trim(&b);
	if (b.len == 0 || strlen(b.data) != b.len)
		return damaged(r, "its file commondir names nothing", e);
	r->common_dir = repo_canonical(r->git_dir, b.data);
	return r->common_dir ? 0
			     : damaged(r, "the directory in its file commondir is not there", e);
}

static int find_git_dir(struct repo *r, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int rc = 0;

	if (snprintf(path, sizeof(path), "%s/.git", r->workspace) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "open %s", r->workspace);
	if (stat(path, &st) < 0) {
		if (errno != ENOENT)
			return err_set(e, errno, "open %s", path);
		if (exists(r->workspace, "HEAD") && is_dir(r->workspace, "objects") &&
			is_dir(r->workspace, "refs"))
			return err_invalid(e,
				"%s is a bare repository, which has no files to work on: use a "
				"clone or worktree of it",
				r->workspace);
		return 0;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return damaged(r, "it is neither a directory nor a file", e);
	if (S_ISDIR(st.st_mode)) {
		r->git_dir = repo_canonical(r->workspace, ".git");
		if (!r->git_dir)
			return err_set(e, EIO, "open %s", path);
	} else {
		rc = follow_git_file(r, e);
	}
	if (rc == 0)
		rc = find_common(r, e);
	if (rc < 0)
		return rc;
	if (!exists(r->git_dir, "HEAD"))
		return damaged(r, "it has no HEAD", e);
	rc = repo_check_files(r, e);
	if (rc < 0)
		return rc;
	if (!is_dir(r->common_dir, "objects") || !is_dir(r->common_dir, "refs"))
		return damaged(r, "it has no objects or no refs", e);
	r->shallow = exists(r->common_dir, "shallow");
	return 0;
}

int repo_find(struct repo *r, const char *workspace, struct err *e)
{
	cleanup_free char *objects = NULL;
	int rc;

	*r = (struct repo){.objects = STRLIST_INIT(REPO_OBJECTS_MAX),
		.included = STRLIST_INIT(REPO_CONFIGS_MAX),
		.config_files = STRLIST_INIT(REPO_CONFIGS_MAX),
		.muted = STRLIST_INIT(MUTE_MAX)};
	r->workspace = repo_canonical("/", workspace);
	if (!r->workspace)
		return err_set(e, ENOENT, "open %s", workspace);
	rc = find_git_dir(r, e);
	if (rc < 0 || !r->git_dir)
		return rc;
	objects = repo_canonical(r->common_dir, "objects");
	if (!objects)
		return damaged(r, "its objects cannot be opened", e);
	rc = repo_objects_look(objects, false, false, e);
	return rc < 0 ? rc : repo_objects_add(&r->objects, objects, e);
}

/* ------------------------------------------------------------------ what the configuration says */

static void stamp_file(struct buf *b, const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
		stat(path, &st) < 0)
		buf_addf(b, "%s -;", name);
	else
		buf_addf(b, "%s %llu.%09ld %llu.%09ld %lld %llu:%llu;", name,
			(unsigned long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec,
			(unsigned long long)st.st_ctim.tv_sec, (long)st.st_ctim.tv_nsec,
			(long long)st.st_size, (unsigned long long)st.st_dev,
			(unsigned long long)st.st_ino);
}

int repo_stamp(const struct repo *r, struct buf *ret, struct err *e)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	static const char *const named[] = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"};

	if (r->git_dir) {
		stamp_file(ret, r->common_dir, "config");
		stamp_file(ret, r->git_dir, "config.worktree");
		stamp_file(ret, "/etc", "gitconfig");
		if (home)
			stamp_file(ret, home, ".gitconfig");
		if (xdg && *xdg)
			stamp_file(ret, xdg, "git/config");
		else if (home)
			stamp_file(ret, home, ".config/git/config");
		for (size_t i = 0; i < ARRAY_SIZE(named); i++)
			if (getenv(named[i]))
				stamp_file(ret, "", getenv(named[i]));
	}
	return ret->failed ? err_set(e, ENOMEM, "open the repository") : 0;
}

int repo_stamp_included(const struct repo *r, struct buf *ret, struct err *e)
{
	for (size_t i = 0; i < r->config_files.n; i++)
		stamp_file(ret, "", r->config_files.v[i]);
	return ret->failed ? err_set(e, ENOMEM, "open the repository") : 0;
}

/* ------------------------------------------------------------------ what git obeys */

/* base/path, or path when it is absolute, without ".", ".." and doubled slashes. Caller frees. */
static char *normal(const char *base, const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(2 * PATH_MAX);
	char joined[2 * PATH_MAX];
	int n = path[0] == '/' ? snprintf(joined, sizeof(joined), "%s", path)
			       : snprintf(joined, sizeof(joined), "%s/%s", base, path);

	if (n < 0 || (size_t)n >= sizeof(joined))
		return NULL;
	for (const char *p = joined; *p;) {
		size_t len = strcspn(p, "/");

		if (len == 2 && p[0] == '.' && p[1] == '.') {
			while (b.len > 0 && b.data[--b.len] != '/')
				;
		} else if (len > 0 && !(len == 1 && p[0] == '.')) {
			buf_addc(&b, '/');
			buf_add(&b, p, len);
		}
		p += len + (p[len] == '/');
	}
	return b.failed ? NULL : strndup(b.len ? b.data : "/", b.len ? b.len : 1);
}

/* The part of an absolute path below the workspace ("" is its top), or NULL. */
static const char *below(const struct repo *r, const char *path)
{
	size_t n = strlen(r->workspace);

	if (n == 1)
		return path + 1;
	if (strncmp(path, r->workspace, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path[n] ? path + n + 1 : path + n;
}

/*
 * Where a path lies in the workspace: by its name, or, when symlinks outside lead in, by what is there
 * of it. NULL: nowhere. Caller frees.
 */
static char *inside(const struct repo *r, const char *path)
{
	cleanup_free char *head = strdup(path);
	const char *in = below(r, path);

	if (in)
		return strdup(in);
	while (head && *head) {
		const char *rest = path + strlen(head);
		cleanup_free char *real = repo_canonical("/", head);
		cleanup_free char *whole = real ? normal(real, *rest ? rest + 1 : ".") : NULL;

		if (real) {
			in = whole ? below(r, whole) : NULL;
			return in ? strdup(in) : NULL;
		}
		*strrchr(head, '/') = '\0';
	}
	return NULL;
}

/* A file that a configuration includes, as the file `origin` ("file:…") of it names it. */
static int take_include(struct repo *r, const char *origin, const char *v, struct err *e)
{
	cleanup_free char *from = NULL, *path = NULL, *in = NULL;
	const char *home = getenv("HOME");

	if (!v || !*v || !str_starts(origin, "file:"))
		return 0;
	from = normal(r->workspace, origin + strlen("file:"));
	if (from)
		*strrchr(from, '/') = '\0';
	if (str_starts(v, "~/"))
		path = home ? normal(home, v + 2) : NULL;
	else
		path = from ? normal(from, v) : NULL;
	if (!path || strlist_has(&r->config_files, path))
		return 0;
	in = inside(r, path);
	if (!strlist_add(&r->config_files, path) || (in && !strlist_add(&r->included, in)))
		return err_invalid(e,
			"the configuration of %s includes more than %u files: remove what is not "
			"needed",
			r->workspace, REPO_CONFIGS_MAX);
	return 0;
}

/* git expands core.hooksPath itself. */
static int find_hooks(struct repo *r, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(2 * PATH_MAX);
	cleanup_free char *path = NULL;
	struct git_run run = {
		.argv = (const char *const[]){"rev-parse", "--git-path", "hooks", NULL},
		.out = &out,
		.hooks = true}; /* there are none for this; otherwise they would be elsewhere */
	int rc = repo_git(r, &run, e);

	if (rc < 0)
		return err_wrap(e, "ask git where the hooks of %s are", r->workspace);
	trim(&out);
	path = out.len ? normal(r->workspace, out.data) : NULL;
	r->hooks_path = path ? inside(r, path) : NULL;
	return 0;
}

static bool says_true(const char *v)
{
	return !v || !strcasecmp(v, "true") || !strcasecmp(v, "yes") || !strcasecmp(v, "on") ||
	       str_eq(v, "1");
}

/*
 * Files elsewhere would be listed, compared and landed instead of the workspace's. Where it names the
 * workspace, the Git directory of a submodule shows whose it is.
 */
static int take_work_tree(struct repo *r, const char *v, struct err *e)
{
	cleanup_free char *path = repo_canonical(r->git_dir, v);

	if (!path || !str_eq(path, r->workspace))
		return err_refuse(e,
			"the repository of %s says that its files are in another directory "
			"(core.worktree): use croft there",
			r->workspace);
	r->claims_workspace = true;
	return 0;
}

/* One setting of the repository itself; keys are in lower case. v NULL: a key without value. */
static int take_setting(struct repo *r, const char *key, const char *v, bool *bare, struct err *e)
{
	if (str_eq(key, "core.repositoryformatversion")) {
		if (v && (str_eq(v, "0") || str_eq(v, "1")))
			return 0;
		return err_invalid(e,
			"the repository of %s has format version %.20s; croft knows 0 and 1",
			r->workspace, v ? v : "(none)");
	}
	if (str_eq(key, "extensions.objectformat")) {
		if (!v || (strcasecmp(v, "sha1") && strcasecmp(v, "sha256")))
			return err_invalid(e,
				"the repository of %s names objects by %.20s; croft knows sha1 and "
				"sha256",
				r->workspace, v ? v : "(nothing)");
		r->hash = strcasecmp(v, "sha256") ? GIT_SHA1 : GIT_SHA256;
	} else if (str_eq(key, "extensions.refstorage")) {
		r->reftable = v && strcasecmp(v, "files") != 0;
	} else if (str_eq(key, "core.sparsecheckout")) {
		r->sparse = says_true(v);
	} else if (str_eq(key, "core.bare")) {
		*bare = says_true(v);
	} else if (str_eq(key, "core.worktree") && str_eq(r->git_dir, r->common_dir)) {
		return take_work_tree(r, v ? v : "", e);
	}
	return 0;
}

/* The next text that a NUL ends, or NULL. */
static char *next_text(struct buf *b, size_t *at)
{
	char *s = b->data + *at;

	if (*at >= b->len)
		return NULL;
	*at += strlen(s) + 1;
	return s;
}

/* An include that comes and goes with something else than the configuration: the branch. */
static bool depends_on_more(const char *key)
{
	return str_starts(key, "includeif.") && !str_starts(key, "includeif.gitdir") &&
	       !str_starts(key, "includeif.hasconfig:");
}

/* "scope NUL origin NUL key LF value NUL" again and again; without LF: a key alone. */
static int take_settings(
	struct repo *r, struct buf *out, bool *ret_any, bool *ret_hooks, struct err *e)
{
	cleanup_mute struct mute mute = MUTE_INIT;
	bool bare = false;
	size_t at = 0;
	int rc = 0;

	if (out->len && out->data[out->len - 1] != '\0')
		return err_set(e, EBADMSG, "read the configuration of %s", r->workspace);
	while (rc == 0 && at < out->len) {
		const char *scope = next_text(out, &at), *origin = next_text(out, &at);
		char *key = next_text(out, &at), *v;
		bool own;

		if (!key)
			return err_set(e, EBADMSG, "read the configuration of %s", r->workspace);
		v = strchr(key, '\n');
		if (v)
			*v++ = '\0';
		if (str_eq(scope, "command")) /* ours */
			continue;
		*ret_hooks |= str_eq(key, "core.hookspath");
		r->config_varies |= depends_on_more(key);
		if (str_eq(key, "include.path") ||
			(str_starts(key, "includeif.") && str_ends(key, ".path")))
			rc = take_include(r, origin, v, e);
		own = str_eq(scope, "local") || str_eq(scope, "worktree");
		if (rc == 0)
			rc = mute_take(&mute, own, key, v, e);
		if (!own)
			continue;
		*ret_any = true;
		if (rc == 0)
			rc = take_setting(r, key, v, &bare, e);
	}
	if (rc < 0)
		return rc;
	/* A linked worktree of a bare repository has files all the same. */
	if (bare && str_eq(r->git_dir, r->common_dir))
		return err_invalid(e,
			"the repository of %s is bare, so it has no files to work on: use a clone "
			"or worktree of it",
			r->workspace);
	return mute_settings(&mute, &r->muted, e);
}

/* Somebody else's: git says so in many words. */
static int say_foreign(const struct repo *r, int rc, struct err *e)
{
	if (!strstr(e->msg, "dubious ownership") && !strstr(e->msg, "safe.directory"))
		return err_wrap(e, "open the repository of %s", r->workspace);
	err_refuse(e,
		"the repository of %s belongs to another user, so git does not open it for you; "
		"work as "
		"that user, or, if you trust what is in it, run: git config --global --add "
		"safe.directory %s",
		r->workspace, r->workspace);
	return rc < 0 ? -EPERM : rc;
}

int repo_git(const struct repo *r, struct git_run *run, struct err *e)
{
	cleanup_buf struct buf ceiling = BUF_INIT(PATH_MAX + 64);
	const char *slash = strrchr(r->workspace, '/');
	const char *env[] = {NULL, NULL};

	/* Not what is around the workspace, should its own be gone in the meantime. */
	buf_addf(&ceiling, "GIT_CEILING_DIRECTORIES=%.*s", (int)MAX_OF(slash - r->workspace, 1),
		r->workspace);
	env[0] = buf_str(&ceiling);
	run->git_dir = NULL;
	run->dir = r->workspace;
	run->muted = &r->muted;
	if (!run->env)
		run->env = env;
	return git_run(run, e);
}

int repo_ask_git(struct repo *r, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT((size_t)16 << 20);
	struct git_run run = {.argv = (const char *const[]){"config", "--list", "--show-scope",
				      "--show-origin", "-z", NULL},
		.out = &out};
	bool any = false, hooks = false;
	int rc;

	free(r->hooks_path);
	r->hooks_path = NULL;
	strlist_done(&r->included);
	strlist_done(&r->config_files);
	r->included = r->config_files = STRLIST_INIT(REPO_CONFIGS_MAX);
	strlist_done(&r->muted);
	r->muted = STRLIST_INIT(MUTE_MAX);
	r->hash = GIT_SHA1;
	r->sparse = r->reftable = r->claims_workspace = r->config_varies = false;
	if (!r->git_dir)
		return 0;
	rc = repo_git(r, &run, e);
	if (rc < 0)
		return err_wrap(e, "open the repository of %s", r->workspace);
	rc = take_settings(r, &out, &any, &hooks, e);
	if (rc == 0 && hooks)
		rc = find_hooks(r, e);
	if (rc < 0 || any)
		return rc;
	/*
	 * Nothing of the repository's own: it has no settings, or git would not have it (a format or an
	 * extension it does not know, somebody else's directory) and listed the rest without a word.
	 */
	run = (struct git_run){.argv = (const char *const[]){"rev-parse", "--git-dir", NULL}};
	rc = repo_git(r, &run, e);
	return rc < 0 ? say_foreign(r, rc, e) : 0;
}
