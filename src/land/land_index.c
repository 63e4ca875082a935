/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's index and refs follow the files: under Git's own index.lock, by the user's own git.
 *
 * The lock is taken before the intent is written and held until the index is in place, so that no commit of
 * the user's falls in between. It says whose it is: one that a crash left is known again and removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "git/program.h"
#include "os/path.h"

struct git_paths {
	char *index, *lock, *fresh;
};

static void git_paths_done(struct git_paths *p)
{
	free(p->index);
	free(p->lock);
	free(p->fresh);
}

static int git_paths_of(const struct land_job *j, struct git_paths *p, struct err *e)
{
	const char *dir = j->v->repo.git_dir;

	if (asprintf(&p->index, "%s/index", dir) < 0)
		p->index = NULL;
	if (asprintf(&p->lock, "%s/index.lock", dir) < 0)
		p->lock = NULL;
	if (asprintf(&p->fresh, "%s/croft-index-%s", dir, j->v->id) < 0)
		p->fresh = NULL;
	return p->index && p->lock && p->fresh ? 0 : land_no_memory(e);
}
#define cleanup_git_paths __attribute__((cleanup(git_paths_done)))

static void lock_text(const struct land_job *j, char ret[64])
{
	snprintf(ret, 64, "croft landing %.16s\n", j->v->id);
}

int land_lock_index(struct land_job *j, struct err *e)
{
	cleanup_git_paths struct git_paths p = {0};
	char text[64];
	int rc;

	if (!j->in.index)
		return 0;
	if ((rc = git_paths_of(j, &p, e)) < 0)
		return rc;
	lock_text(j, text);
	/* It says whose it is from its first moment: made under another name, then linked. */
	unlink(p.fresh);
	j->index_fd = open(p.fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (j->index_fd < 0)
		return err_set(e, errno, "lock the index with %s", p.lock);
	rc = fd_write_all(j->index_fd, text, strlen(text));
	if (rc == 0)
		rc = fd_send_to_disk(j->index_fd); /* also after a power cut */
	if (rc == 0 && link(p.fresh, p.lock) < 0)
		rc = -errno;
	unlink(p.fresh);
	if (rc < 0)
		close_fd(&j->index_fd);
	if (rc == -EEXIST)
		return err_refuse(e,
			"%s exists: another git works in this checkout; if none does, remove it",
			p.lock);
	return rc < 0 ? err_set(e, -rc, "lock the index with %s", p.lock) : 0;
}

void land_unlock_index(struct land_job *j)
{
	cleanup_git_paths struct git_paths p = {0};
	struct err ignored = ERR_INIT;

	if (j->index_fd < 0 || git_paths_of(j, &p, &ignored) < 0)
		return;
	unlink(p.lock);
	close_fd(&j->index_fd);
}

void land_break_index_lock(struct land_job *j)
{
	cleanup_git_paths struct git_paths p = {0};
	cleanup_buf struct buf b = BUF_INIT(256);
	struct err ignored = ERR_INIT;
	char text[64];

	if (!j->v->repo.git_dir || git_paths_of(j, &p, &ignored) < 0)
		return;
	lock_text(j, text);
	unlink(p.fresh);
	if (file_read_at(AT_FDCWD, p.lock, &b) == 0 && str_eq(buf_str(&b), text))
		unlink(p.lock);
}

/* ---- the index ---- */

static int copy_index(const struct git_paths *p, struct err *e)
{
	cleanup_fd int from = open(p->index, O_RDONLY | O_CLOEXEC), to = -1;
	char chunk[65536];
	ssize_t n;

	unlink(p->fresh);
	if (from < 0 && errno == ENOENT)
		return 0;
	to = from < 0 ? -1 : open(p->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (to < 0)
		return err_set(e, errno, "copy the index %s", p->index);
	while ((n = read(from, chunk, sizeof(chunk))) > 0) {
		int rc = fd_write_all(to, chunk, (size_t)n);

		if (rc < 0)
			return err_set(e, -rc, "copy the index %s", p->index);
	}
	return n < 0 ? err_set(e, errno, "read the index %s", p->index) : 0;
}

/* Before it takes the old one's place: after a power cut there is one of the two. */
static int send_index(const struct git_paths *p)
{
	cleanup_fd int fd = open(p->fresh, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_send_to_disk(fd);
}

static void add_entry(struct buf *b, const struct land_job *j, const struct land_op *op, bool back)
{
	unsigned mode = back ? op->old_mode : op->new_mode;
	const struct oid *o = back ? &op->old : &op->new;

	if (mode)
		buf_addf(b, "%o %s\t", mode, oid_hex(o).s);
	else
		buf_addf(b, "0 %0*d\t", (int)(2 * git_hash_len(j->v->repo.hash)), 0);
	buf_add(b, op->path, strlen(op->path) + 1);
}

static void index_lines(const struct land_job *j, bool back, struct buf *b)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < j->in.ops.n; i++) {
			const struct land_op *op = &j->in.ops.v[i];
			unsigned mode = back ? op->old_mode : op->new_mode;

			if (mode != 040000 && !mode == !pass)
				add_entry(b, j, op, back);
		}
}

int land_write_index(struct land_job *j, bool back, struct err *e)
{
	cleanup_git_paths struct git_paths p = {0};
	cleanup_buf struct buf lines = BUF_INIT(LAND_LIST_MAX_B);
	cleanup_free char *var = NULL;
	const char *argv[] = {"update-index", "--add", "--replace", "-z", "--index-info", NULL};
	const char *env[] = {NULL, NULL};
	struct git_run run = {.argv = argv, .env = env};
	int rc;

	if (!j->in.index)
		return 0;
	if ((rc = git_paths_of(j, &p, e)) < 0 || (rc = copy_index(&p, e)) < 0)
		return rc;
	index_lines(j, back, &lines);
	if (lines.failed || asprintf(&var, "GIT_INDEX_FILE=%s", p.fresh) < 0)
		return land_no_memory(e);
	env[0] = var;
	run.in = buf_str(&lines);
	run.in_n = lines.len;
	rc = lines.len ? repo_git(&j->v->repo, &run, e) : 0;
	if (rc < 0) {
		unlink(p.fresh);
		return err_wrap(e, "update the index");
	}
	/* The lock is ours, and says so, until the new index has taken its place. */
	if (lines.len && ((rc = send_index(&p)) < 0 || rename(p.fresh, p.index) < 0))
		return err_set(e, rc < 0 ? -rc : errno, "put the new index in place");
	land_unlock_index(j);
	return 0;
}

int land_check_index(struct land_job *j, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(LAND_LIST_MAX_B);
	cleanup_changes struct changes staged = {0};
	struct oid_hex onto = oid_hex(&j->in.onto);
	const char *argv[] = {"diff-index", "--cached", "--raw", "-z", "--no-renames",
		"--no-abbrev", "--ignore-submodules", onto.s, "--", NULL};
	struct git_run run = {.argv = argv, .out = &out};
	int rc = repo_git(&j->v->repo, &run, e);

	if (rc == 0)
		rc = land_parse_raw(&out, j->v->repo.hash, &staged, e);
	for (size_t i = 0; rc == 0 && i < staged.n; i++) {
		const struct change *c = &staged.v[i];
		const struct land_op *op = land_ops_find(&j->in.ops, c->path);

		if (op && !(op->new_mode == c->new_mode && oid_eq(&op->new, &c->new)))
			land_conflict(
				j, c->path, "has changes in your index that are not committed");
	}
	return rc < 0 ? rc : land_conflicts(j, e);
}

/* ---- the ref ---- */

int land_move_ref(struct land_job *j, bool back, struct err *e)
{
	const struct oid *to = back ? &j->in.ref_old : &j->in.ref_new,
			 *from = back ? &j->in.ref_new : &j->in.ref_old;
	struct oid_hex new = oid_hex(to), old = oid_hex(from);
	char zero[OID_HEX_MAX + 1], why[128];
	const char *set[] = {"update-ref", "-m", why, j->in.ref, new.s, old.s, NULL};
	const char *drop[] = {"update-ref", "-d", j->in.ref, old.s, NULL};
	struct git_run run = {.argv = set};
	int rc;

	if (!j->in.ref || oid_eq(to, from))
		return 0;
	snprintf(why, sizeof(why), "croft: %s %s",
		j->in.kind == LAND_KIND_REVERT ? "revert" : "apply", j->v->name);
	snprintf(zero, sizeof(zero), "%0*d", (int)(2 * git_hash_len(j->v->repo.hash)), 0);
	if (oid_is_none(from))
		set[5] = zero;
	if (oid_is_none(to))
		run.argv = drop;
	rc = repo_git(&j->v->repo, &run, e);
	return rc < 0 ? err_wrap(e, "move %s", land_show(j->in.ref).s) : 0;
}
