/* SPDX-License-Identifier: Apache-2.0 */
/* Views: see views.h. */
#include "session/run/views.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "os/path.h"
#include "policy/policy.h"
#include "session/config/state.h"

void views_close(struct views *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->lock[i] >= 0)
			close(v->lock[i]);
	strlist_done(&v->texts);
	strlist_done(&v->notes);
	v->n = 0;
}

static bool is_in(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(dir, path, n) == 0 && (!path[n] || path[n] == '/');
}

static int check_place(const char *path, const char *home, const char *workspace, struct err *e)
{
	char state[PATH_MAX];

	if (state_path(state, sizeof(state), home, e) < 0)
		return -e->errnum;
	if (is_in(path, workspace) || is_in(workspace, path))
		return err_refuse(e, "a view of %s is not possible: %s the project %s", path,
			is_in(workspace, path) ? "it lies in" : "it holds", workspace);
	if (is_in(path, state) || is_in(path, home))
		return err_refuse(e,
			"a view of %s is not possible: it holds croft's own state, or the whole home "
			"directory; name the directories below it",
			path);
	return 0;
}

/* The place of one view, made when it is not there, and ours alone. */
static int open_place(int project, const char *path, int *ret_lock, struct err *e)
{
	cleanup_fd int fd = -1;
	cleanup_fd int lock = -1;
	char name[40];
	struct digest d;
	int r;

	digest_sha256(&d, path, strlen(path));
	snprintf(name, sizeof(name), "view-%.16s", d.hex);
	if (mkdirat(project, name, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make a place for the view of %s", path);
	fd = openat(project, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open the place of the view of %s", path);
	lock = openat(fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0)
		return err_set(e, errno, "lock the view of %s", path);
	if (flock(lock, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_set(e, errno, "lock the view of %s", path);
		*ret_lock = -1;
		return take_fd(&fd);
	}
	r = file_replace_at(fd, "path", path, strlen(path), 0600);
	if (r < 0)
		return err_set(e, -r, "write down what the view of %s is of", path);
	*ret_lock = take_fd(&lock);
	return take_fd(&fd);
}

/* The absolute path of a name in the place, owned by `texts`. */
static const char *name_of(struct views *v, int place, const char *name)
{
	char path[PATH_MAX + 16], dir[PATH_MAX];

	if (path_of_fd(place, dir, sizeof(dir)) < 0)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return strlist_add(&v->texts, path) ? v->texts.v[v->texts.n - 1] : NULL;
}

/* A sandbox may have taken the owner's rights away, and then its own next run, too, could not read it. */
static int take_rights(int place, const char *name, mode_t type, mode_t keep, mode_t add)
{
	cleanup_fd int fd = openat(place, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[40];
	struct stat st;
	mode_t mode;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type)
		return -EUCLEAN;
	mode = (st.st_mode & keep) | add;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return (st.st_mode & 07777) != mode && chmod(link, mode) < 0 ? -errno : 0;
}

/* The layer's own directory shows as the view's: it has the mode of the host's. */
static int open_directory(struct views *v, struct request_view *w, int place, const struct stat *st,
	struct err *e)
{
	int r;

	if ((mkdirat(place, "upper", 0700) < 0 && errno != EEXIST) ||
		(mkdirat(place, "work", 0700) < 0 && errno != EEXIST))
		return err_set(e, errno, "make the layer of the view of %s", w->path);
	r = take_rights(place, "upper", S_IFDIR, 0, (st->st_mode & 0777) | 0700);
	if (r < 0)
		return err_set(e, -r, "open the layer of the view of %s", w->path);
	w->upper = name_of(v, place, "upper");
	w->work = name_of(v, place, "work");
	w->kept = w->upper;
	return w->upper && w->work ? 0 : err_set(e, ENOMEM, "open the view of %s", w->path);
}

static int read_bounded(int dir, const char *path, struct buf *ret)
{
	cleanup_fd int fd = path_open(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, PATH_NO_SYMLINKS);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? file_read_fd(fd, ret) : -EBADMSG;
}

/*
 * The private version follows the host's file as long as no sandbox has changed it: "base" has the digest
 * of what was copied last.
 */
static int open_file(struct views *v, struct request_view *w, int place, const struct stat *st,
	struct err *e)
{
	cleanup_buf struct buf host = BUF_INIT(VIEW_FILE_MAX_B), kept = BUF_INIT(VIEW_FILE_MAX_B),
			       base = BUF_INIT(128);
	struct digest h, k;
	int r = read_bounded(AT_FDCWD, w->path, &host);

	if (r == -EFBIG)
		return err_refuse(e, "a view of %s is not possible: it has more than %u MiB", w->path,
			VIEW_FILE_MAX_B >> 20);
	if (r < 0)
		return err_set(e, -r, "read %s", w->path);
	digest_sha256(&h, buf_str(&host), host.len);
	r = take_rights(place, "copy", S_IFREG, 07777, 0600);
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "open the private version of %s", w->path);
	r = read_bounded(place, "copy", &kept);
	if (r == 0 && file_read_at(place, "base", &base) == 0) {
		digest_sha256(&k, buf_str(&kept), kept.len);
		if (!str_eq(buf_str(&base), k.hex) || str_eq(k.hex, h.hex))
			goto done; /* changed inside, or nothing new outside */
	} else if (r == -EFBIG) {
		goto done; /* it has grown inside */
	} else if (r < 0 && r != -ENOENT) {
		return err_set(e, -r, "read the private version of %s", w->path);
	}
	r = file_replace_at(place, "copy", buf_str(&host), host.len, (st->st_mode & 0777) | 0600);
	if (r == 0)
		r = file_replace_at(place, "base", h.hex, strlen(h.hex), 0600);
	if (r < 0)
		return err_set(e, -r, "copy %s", w->path);
done:
	w->copy = name_of(v, place, "copy");
	w->kept = name_of(v, place, ".");
	return w->copy && w->kept ? 0 : err_set(e, ENOMEM, "open the view of %s", w->path);
}

static int open_view(struct views *v, int project, const char *path, const struct stat *st,
	bool discard, struct err *e)
{
	struct request_view *w = &v->v[v->n];
	cleanup_fd int place = -1;
	char note[PATH_MAX + 160];

	*w = (struct request_view){0};
	v->lock[v->n] = -1;
	if (!strlist_add(&v->texts, path))
		return err_set(e, ENOMEM, "open the view of %s", path);
	w->path = v->texts.v[v->texts.n - 1];
	v->n++;
	if (discard)
		return 0;
	place = open_place(project, path, &v->lock[v->n - 1], e);
	if (place < 0)
		return place;
	if (v->lock[v->n - 1] >= 0)
		return S_ISDIR(st->st_mode) ? open_directory(v, w, place, st, e)
					    : open_file(v, w, place, st, e);
	snprintf(note, sizeof(note),
		"another run in this project has the view of %s: what this one writes there is not kept",
		path);
	return strlist_add(&v->notes, note) ? 0 : err_set(e, ENOMEM, "open the view of %s", path);
}

int views_open(struct views *ret, const struct policy *p, const char *home, const char *workspace,
	bool discard, struct err *e)
{
	cleanup_fd int project = -1;
	int r = 0;

	*ret = (struct views){.texts = STRLIST_INIT(4 * REQUEST_VIEWS_MAX),
		.notes = STRLIST_INIT(REQUEST_VIEWS_MAX)};
	for (size_t i = 0; r == 0 && i < p->rules_n; i++) {
		char canonical[PATH_MAX];
		cleanup_fd int fd = -1;
		struct stat st;

		if (!p->rules[i].view || p->rules[i].access != ACCESS_READ)
			continue;
		fd = path_resolve(p->rules[i].path, canonical, sizeof(canonical));
		if (fd < 0)
			continue; /* the plan says what is to be said of it */
		if (ret->n == REQUEST_VIEWS_MAX) {
			r = err_refuse(e, "more than %u views", REQUEST_VIEWS_MAX);
			break;
		}
		if (fstat(fd, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))) {
			r = err_refuse(e,
				"a view of %s is not possible: it is neither a file nor a directory",
				canonical);
			break;
		}
		if (project < 0 && !discard)
			r = project = state_project(home, workspace, e);
		if (r >= 0)
			r = check_place(canonical, home, workspace, e);
		if (r >= 0)
			r = open_view(ret, project, canonical, &st, discard, e);
	}
	if (r < 0)
		views_close(ret);
	return MIN_OF(r, 0);
}
