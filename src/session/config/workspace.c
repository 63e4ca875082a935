/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who and where the caller is: home, workspace, croft's own directories.
 *
 * The workspace is the nearest directory, from the current one upwards, that holds croft.yaml or
 * .git; without one it is the current directory. It will be writable to the command, so directories
 * that hold more than a project (a home, the root, croft's own state, the system's trees) are
 * refused, and as candidates above the current directory they are passed over. So are markers that
 * belong to another user, who could otherwise choose what is writable by making a .git in a shared
 * directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/config/layers.h"
#include "session/config/state.h"
#include "os/path.h"

void layers_info_done(struct layers_info *i)
{
	free(i->home);
	free(i->workspace);
	free(i->cwd);
	free(i->state);
	free(i->config);
	free(i->project_file);
	*i = (struct layers_info){0};
}

static bool within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	if (n == 1)
		return true;
	return strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]);
}

/* ---- home ---- */

static char *directory_real(const char *path)
{
	char *real = path && path[0] == '/' ? realpath(path, NULL) : NULL;
	struct stat st;

	if (real && (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))) {
		free(real);
		real = NULL;
	}
	return real;
}

int layers_home(char **ret, struct err *e)
{
	char *home = directory_real(getenv("HOME"));
	const struct passwd *pw;

	if (!home && (pw = getpwuid(getuid())))
		home = directory_real(pw->pw_dir);
	if (!home)
		return err_refuse(
			e, "there is no home directory; set HOME to a directory that exists");
	if (str_eq(home, "/")) {
		free(home);
		return err_refuse(e, "the home directory is /; set HOME to a directory of its own");
	}
	*ret = home;
	return 0;
}

/* The usual case, without looking at every component from the root: no symlink below a canonical
 * home. */
static bool plain_below(const char *home, const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(home);
	struct stat st;

	if (strncmp(path, home, n) != 0 || path[n] != '/' || strlen(path) >= sizeof(part) ||
		strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../"))
		return false;
	while (path[n]) {
		n++;
		n += strcspn(path + n, "/");
		memcpy(part, path, n);
		part[n] = '\0';
		if (lstat(part, &st) < 0)
			return errno == ENOENT;
		if (S_ISLNK(st.st_mode))
			return false;
	}
	return true;
}

/* Canonical also when the last parts do not exist yet. */
static char *real_or_future(const char *path)
{
	char head[PATH_MAX];
	size_t n = strlen(path);
	char *real = realpath(path, NULL);
	struct buf b = BUF_INIT(PATH_MAX);

	if (real)
		return real;
	if (n >= sizeof(head))
		return NULL;
	memcpy(head, path, n + 1);
	while (!real) {
		char *slash = strrchr(head, '/');

		if (!slash || slash == head)
			return strdup(path);
		*slash = '\0';
		real = realpath(head, NULL);
	}
	buf_adds(&b, str_eq(real, "/") ? "" : real);
	buf_adds(&b, path + strlen(head));
	free(real);
	return buf_take(&b);
}

static int croft_directories(struct layers_info *i, struct err *e)
{
	const char *xdg = getenv("XDG_CONFIG_HOME");
	cleanup_buf struct buf b = BUF_INIT(PATH_MAX);
	char state[PATH_MAX];
	int r = state_path(state, sizeof(state), i->home, e);

	if (r < 0)
		return r;
	if (xdg && xdg[0] == '/')
		buf_addf(&b, "%s/croft", xdg);
	else
		buf_addf(&b, "%s/.config/croft", i->home);
	if (b.failed)
		return err_set(e, ENAMETOOLONG, "configuration directory");
	i->state = plain_below(i->home, state) ? strdup(state) : real_or_future(state);
	i->config = plain_below(i->home, buf_str(&b)) ? strdup(buf_str(&b))
						      : real_or_future(buf_str(&b));
	if (!i->state || !i->config)
		return err_set(e, ENOMEM, "find croft's own directories");
	return 0;
}

int layers_config(char **ret, struct err *e)
{
	cleanup_layers_info struct layers_info i = {0};

	if (layers_home(&i.home, e) < 0 || croft_directories(&i, e) < 0)
		return -e->errnum;
	*ret = take_ptr(i.config);
	return 0;
}

/* ---- workspace ---- */

/* Why a directory cannot be a workspace; NULL when it can. */
static const char *unfit(const struct layers_info *i, const char *dir)
{
	static const char *const exact[] = {"/bin", "/boot", "/etc", "/home", "/lib", "/lib32",
		"/lib64", "/media", "/mnt", "/opt", "/root", "/sbin", "/srv", "/tmp", "/usr",
		"/var", "/var/tmp", "/usr/local"};
	static const char *const whole[] = {"/dev", "/proc", "/run", "/sys"};

	if (str_eq(dir, "/"))
		return "is the whole machine";
	if (str_eq(dir, i->home))
		return "is your home directory";
	if (within(dir, i->home))
		return "contains your home directory";
	if (within(dir, i->state) || within(dir, i->config))
		return "contains croft's own files";
	if (within(i->state, dir) || within(i->config, dir))
		return "is one of croft's own directories";
	for (size_t k = 0; k < ARRAY_SIZE(exact); k++)
		if (str_eq(dir, exact[k]))
			return "is shared by the whole system";
	for (size_t k = 0; k < ARRAY_SIZE(whole); k++)
		if (within(whole[k], dir))
			return "belongs to the running system";
	return NULL;
}

/* A marker of ours, of root's, or of whoever owns the directory the user is in. */
static bool has_marker(const char *dir, uid_t cwd_owner)
{
	static const char *const names[] = {LAYERS_PROJECT_NAME, ".git"};
	cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t k = 0; fd >= 0 && k < ARRAY_SIZE(names); k++) {
		struct stat st;

		if (fstatat(fd, names[k], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (st.st_uid == getuid() || st.st_uid == 0 || st.st_uid == cwd_owner)
			return true;
	}
	return false;
}

static int find_workspace(struct layers_info *i, struct err *e)
{
	cleanup_free char *dir = strdup(i->cwd);
	const char *why;
	struct stat st;

	if (!dir)
		return err_set(e, ENOMEM, "find the workspace");
	if (stat(i->cwd, &st) < 0)
		return err_set(e, errno, "look at %s", i->cwd);
	for (;;) {
		char *slash;

		if (!unfit(i, dir) && has_marker(dir, st.st_uid)) {
			i->workspace = take_ptr(dir);
			return 0;
		}
		slash = strrchr(dir, '/');
		if (!slash || slash == dir)
			break;
		*slash = '\0';
	}
	why = unfit(i, i->cwd);
	if (why)
		return err_refuse(e,
			"%s %s and cannot be a workspace; go to the project's own directory, or "
			"name it with --workspace",
			i->cwd, why);
	i->workspace = strdup(i->cwd);
	return i->workspace ? 0 : err_set(e, ENOMEM, "find the workspace");
}

static int check_name(const char *dir, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	for (const char *p = dir; *p; p++) {
		size_t n = utf8_len(p, strlen(p));

		if (n == 0 || (unsigned char)*p < 0x20 || *p == 0x7f) {
			str_show(&b, dir, MIN_OF(strlen(dir), 256u));
			return err_invalid(e,
				"the name of the directory \"%s\" is not plain UTF-8 text, so no "
				"policy can name it; rename it",
				buf_str(&b));
		}
		p += n - 1;
	}
	if (strlen(dir) > POLICY_PATH_MAX - 64)
		return err_invalid(e, "the path of the current directory is too long");
	return 0;
}

/*
 * Names can be given to other directories while we work. Remember which one was meant: the one that
 * holds, by that name, the directory we are really in.
 */
static int pin_workspace(struct layers_info *i, const struct stat *cwd, struct err *e)
{
	cleanup_fd int ws =
		path_open(AT_FDCWD, i->workspace, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
	const char *rest = i->cwd + strlen(i->workspace);
	cleanup_fd int below = -1;
	struct stat st, at;

	rest += strspn(rest, "/");
	if (ws >= 0)
		below = path_open(ws, *rest ? rest : ".", O_PATH | O_DIRECTORY,
			PATH_NO_SYMLINKS | PATH_BENEATH);
	if (ws < 0 || below < 0 || fstat(ws, &st) < 0 || fstat(below, &at) < 0 ||
		at.st_dev != cwd->st_dev || at.st_ino != cwd->st_ino)
		return err_refuse(e, "%s was moved or replaced just now; try again", i->workspace);
	i->workspace_dev = st.st_dev;
	i->workspace_ino = st.st_ino;
	return 0;
}

int layers_locate(struct layers_info *ret, const char *directory, struct err *e)
{
	cleanup_layers_info struct layers_info i = {0};
	cleanup_fd int fd = -1;
	char name[PATH_MAX];
	struct stat st;
	int r = layers_home(&i.home, e);

	if (r < 0)
		return r;
	fd = open(directory ? directory : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "%s", directory ? directory : "the current directory");
	r = path_of_fd(fd, name, sizeof(name));
	if (r < 0)
		return err_set(e, -r, "%s", directory ? directory : "the current directory");
	i.cwd = strdup(name);
	if (!i.cwd)
		return err_set(e, ENOMEM, "find the workspace");
	r = check_name(i.cwd, e);
	if (r == 0)
		r = check_name(i.home, e);
	if (r == 0)
		r = croft_directories(&i, e);
	if (r == 0)
		r = find_workspace(&i, e);
	if (r == 0)
		r = pin_workspace(&i, &st, e);
	if (r < 0)
		return r;
	*ret = i;
	i = (struct layers_info){0};
	return 0;
}
