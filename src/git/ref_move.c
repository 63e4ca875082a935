/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving refs: see repo.h.
 *
 * Order:   NAME.lock is made (only one can), the value is read under it and compared, the new one is
 *          written into the lock, sent to the disk, and renamed over the ref; then the directory
 *          is synced. That is Git's own protocol, so Git
 *          and croft exclude each other.
 * Failure: the lock is removed on every way out. A directory on the way may be removed by somebody
 *          who deleted its last ref, and is made again.
 * Stale:   whoever makes a lock holds it by flock(2), which ends with the process. A lock below
 *          refs/croft/ that nobody holds was left by a crash, and is removed. Git does not flock, but
 *          takes such locks too, for a moment, when it packs refs or fetches them; a lock that does not
 *          bear croft's mark (a mode bit that Git never sets and that means nothing on a file) is
 *          therefore left alone until it is LOCK_OLD_S old. Anywhere else none is ever taken over: the
 *          message names it.
 * Packed:  what must be taken out of packed-refs, and what is kept in a reftable, is left to git.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/repo_impl.h"
#include "os/path.h"

#define DIR_TRIES 20
#define LOCK_WAIT_MS 5
#define LOCK_TRIES 200 /* a second in all */
#define LOCK_MARK S_ISVTX
#define LOCK_OLD_S 5

struct move {
	const struct repo *r;
	const char *ref;
	const struct oid *from, *to;
	struct err *e;
	int dir;
	char lock[REF_NAME_MAX + 8];
};

static int moved(struct move *m, const struct oid *is)
{
	*m->e = (struct err){.kind = ERR_FAILED, .errnum = EAGAIN};
	snprintf(m->e->msg, sizeof(m->e->msg), "%s was moved by another process (it is %s)", m->ref,
		is->n ? oid_hex(is).s : "gone");
	return -EAGAIN;
}

static bool as_expected(const struct move *m, const struct oid *is)
{
	return oid_is_none(m->from) ? oid_is_none(is) : oid_eq(m->from, is);
}

/* ------------------------------------------------------------------ by git */

static int move_by_git(struct move *m)
{
	cleanup_buf struct buf in = BUF_INIT(4096);
	struct git_run run = {
		.argv = (const char *const[]){"update-ref", "--no-deref", "--stdin", NULL},
		.git_dir = m->r->store};
	struct oid is = {0};
	struct err other = ERR_INIT;
	int rc;

	if (oid_is_none(m->to))
		buf_addf(&in, "delete %s %s\n", m->ref, oid_hex(m->from).s);
	else if (oid_is_none(m->from))
		buf_addf(&in, "create %s %s\n", m->ref, oid_hex(m->to).s);
	else
		buf_addf(&in, "update %s %s %s\n", m->ref, oid_hex(m->to).s, oid_hex(m->from).s);
	if (in.failed)
		return err_set(m->e, ENOMEM, "move %s", m->ref);
	run.in = in.data;
	run.in_n = in.len;
	rc = m->r->git_dir ? repo_git(m->r, &run, m->e) : git_run(&run, m->e);
	if (rc != -EIO)
		return rc;
	/* It said no. Because somebody was quicker? */
	rc = ref_read(m->r, m->ref, &is, &other);
	if ((rc == 0 || rc == -ENOENT) && !as_expected(m, &is))
		return moved(m, &is);
	return m->e->errnum ? -m->e->errnum : -EIO;
}

/* ------------------------------------------------------------------ directories */

static int make_parents(int dir, const char *ref)
{
	char path[REF_NAME_MAX];

	for (const char *p = ref; (p = strchr(p, '/')); p++) {
		memcpy(path, ref, (size_t)(p - ref));
		path[p - ref] = '\0';
		if (mkdirat(dir, path, 0777) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* Empty directories above a ref go, but not refs/croft or any other directly below refs/. */
static void remove_parents(int dir, const char *ref)
{
	char path[REF_NAME_MAX];
	const char *kind = strchr(ref + strlen("refs/"), '/');

	snprintf(path, sizeof(path), "%s", ref);
	for (char *slash; (slash = strrchr(path, '/')) && kind && slash - path > kind - ref;) {
		*slash = '\0';
		if (unlinkat(dir, path, AT_REMOVEDIR) < 0)
			return;
	}
}

/* Empty directories in the place of a ref, which deleted refs below it left. */
static void remove_empty(int dir, const char *ref, int depth)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	int fd;

	if (depth > 16 || unlinkat(dir, ref, AT_REMOVEDIR) == 0)
		return;
	fd = openat(dir, ref, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		close_fd(&fd);
		return;
	}
	while ((de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			remove_empty(dirfd(d), de->d_name, depth + 1);
	unlinkat(dir, ref, AT_REMOVEDIR);
}

/* ------------------------------------------------------------------ under the lock */

/* Empty, or the name of an object: what a lock holds at any moment of its life. */
static bool lock_content(int fd)
{
	char text[OID_HEX_MAX + 3];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	if (n < 0 || n > (ssize_t)OID_HEX_MAX + 1)
		return false;
	if (n > 0 && text[n - 1] == '\n')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (!strchr("0123456789abcdef", text[i]) || !text[i])
			return false;
	return true;
}

static bool same_file(const struct move *m, const struct stat *st)
{
	struct stat now;

	return fstatat(m->dir, m->lock, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

static bool lock_is_ours(const struct stat *st)
{
	struct timespec now;

	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid())
		return false;
	if (st->st_mode & LOCK_MARK)
		return true;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - st->st_mtim.tv_sec > LOCK_OLD_S;
}

/*
 * Remove a lock that a crash left. It is removed while we hold it: whoever made it a moment ago then
 * cannot have it as well, and makes another.
 */
static bool break_stale(const struct move *m)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (!str_starts(m->ref, "refs/croft/"))
		return false;
	fd = openat(m->dir, m->lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return false;
	return fstat(fd, &st) == 0 && lock_is_ours(&st) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	       lock_content(fd) && same_file(m, &st) && unlinkat(m->dir, m->lock, 0) == 0;
}

/* A new lock, held. -EAGAIN: it was taken for a stale one between its making and our holding it. */
static int make_lock(const struct move *m)
{
	cleanup_fd int fd = openat(m->dir, m->lock,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666 | LOCK_MARK);
	struct stat st;

	if (fd < 0)
		return -errno;
	/* Where there is no flock(2), nobody takes a lock for stale either. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EAGAIN;
	if (fstat(fd, &st) < 0 || !same_file(m, &st))
		return -EAGAIN;
	return take_fd(&fd);
}

static int take_lock(struct move *m)
{
	int tries = 0, waits = 0, fd;

	for (;;) {
		fd = make_lock(m);
		if (fd >= 0)
			return fd;
		if (fd == -ENOENT && tries++ < DIR_TRIES) {
			int rc = make_parents(m->dir, m->ref);

			if (rc < 0 && rc != -ENOENT)
				return err_set(m->e, -rc, "make a directory for %s", m->ref);
			continue;
		}
		if (fd != -EEXIST && fd != -EAGAIN)
			return err_set(m->e, -fd, "lock %s", m->ref);
		if (++waits > LOCK_TRIES)
			break;
		if (fd == -EAGAIN || !break_stale(m))
			poll(NULL, 0, LOCK_WAIT_MS);
	}
	*m->e = (struct err){.kind = ERR_FAILED, .errnum = EBUSY};
	snprintf(m->e->msg, sizeof(m->e->msg),
		"another process is changing %.200s; if none is, one died: remove %.500s/%.200s",
		m->ref, repo_ledger_dir(m->r), m->lock);
	return -EBUSY;
}

static int sync_parent(struct move *m)
{
	cleanup_fd int fd = -1;
	char path[REF_NAME_MAX];

	snprintf(path, sizeof(path), "%s", m->ref);
	*strrchr(path, '/') = '\0';
	fd = openat(m->dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* The lock becomes the ref. */
static int put_value(struct move *m, int fd)
{
	char line[OID_HEX_MAX + 2];
	struct stat st;
	int rc, n = snprintf(line, sizeof(line), "%s\n", oid_hex(m->to).s);

	rc = fd_write_all(fd, line, (size_t)n);
	/* Where syncing the directory settles all, the value need only have gone before it. */
	if (rc == 0)
		rc = fd_send_to_disk(fd);
	if (rc < 0)
		return rc;
	if (renameat(m->dir, m->lock, m->dir, m->ref) < 0) {
		if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
		remove_empty(m->dir, m->ref, 0);
		if (renameat(m->dir, m->lock, m->dir, m->ref) < 0)
			return -errno;
	}
	m->lock[0] = '\0'; /* that name may be another's already */
	if (fstat(fd, &st) == 0)
		fchmod(fd,
			st.st_mode & 0777); /* a ref now; with the mark it would be one as well */
	return sync_parent(m);
}

/* Whatever happens, the lock is gone afterwards. *by_git: it is packed, and must leave there, too. */
static int move_locked(struct move *m, int fd, bool *by_git)
{
	struct oid is = {0};
	bool deletes = oid_is_none(m->to);
	int rc = ref_read_loose(m->dir, m->ref, &is), packed = -ENOENT;
	struct oid in_pack = {0};

	if (rc == -ENOENT || deletes)
		packed = ref_read_packed(m->dir, m->ref, &in_pack);
	if (rc == -ENOENT) {
		is = in_pack;
		rc = packed == -ENOENT ? 0 : packed;
	}
	if (rc < 0)
		rc = err_set(m->e, -rc, "read %s in %s", m->ref, repo_ledger_dir(m->r));
	else if (!as_expected(m, &is))
		rc = moved(m, &is);
	else if (deletes && packed != -ENOENT)
		*by_git = true;
	else if (deletes && unlinkat(m->dir, m->ref, 0) < 0 && errno != ENOENT)
		rc = err_set(m->e, errno, "delete %s", m->ref);
	else if (deletes && (rc = sync_parent(m)) < 0)
		rc = err_set(m->e, -rc, "delete %s", m->ref);
	else if (!deletes && (rc = put_value(m, fd)) < 0)
		rc = err_set(m->e, -rc, "write %s in %s", m->ref, repo_ledger_dir(m->r));
	if (m->lock[0])
		unlinkat(m->dir, m->lock, 0);
	return rc;
}

int ref_move(const struct repo *r, const char *ref, const struct oid *from, const struct oid *to,
	struct err *e)
{
	static const struct oid none;
	struct move m = {
		.r = r, .ref = ref, .from = from ? from : &none, .to = to ? to : &none, .e = e};
	size_t n = git_hash_len(r->hash);
	cleanup_fd int dir = -1, fd = -1;
	bool by_git = false;
	int rc;

	if (!ref_name_fine(ref) || !strchr(ref + strlen("refs/"), '/'))
		return err_invalid(e, "this cannot be the name of a ref");
	if ((!oid_is_none(m.from) && m.from->n != n) || (!oid_is_none(m.to) && m.to->n != n))
		return err_invalid(e, "this is not the name of an object of this repository");
	if (oid_is_none(m.from) && oid_is_none(m.to))
		return 0;
	if (r->reftable && r->git_dir)
		return move_by_git(&m);
	dir = ref_dir_open(r, e);
	if (dir < 0)
		return dir;
	m.dir = dir;
	snprintf(m.lock, sizeof(m.lock), "%s.lock", ref);
	fd = take_lock(&m);
	if (fd < 0)
		return fd;
	rc = move_locked(&m, fd, &by_git);
	if (rc == 0 && by_git)
		rc = move_by_git(&m);
	if (rc == 0 && oid_is_none(m.to))
		remove_parents(dir, ref);
	return rc;
}
