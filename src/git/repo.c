/* SPDX-License-Identifier: Apache-2.0 */
/* The repository around a workspace: see repo.h. Finding it is in repo_find.c, the store in store.c. */
#include "git/repo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/mute.h"
#include "git/repo_impl.h"
#include "os/path.h"

#define REV_MAX 1024u

int repo_open(struct repo *ret, const char *workspace, const char *state_dir, struct err *e)
{
	cleanup_repo struct repo r = {0};
	int rc;

	rc = repo_find(&r, workspace, e);
	if (rc == 0)
		rc = store_prepare(&r, state_dir, e);
	if (rc < 0)
		return rc;
	*ret = r;
	r = (struct repo){0};
	return 0;
}

void repo_done(struct repo *r)
{
	free(r->workspace);
	store_leave(r);
	free(r->store);
	free(r->git_dir);
	free(r->common_dir);
	strlist_done(&r->objects);
	free(r->hooks_path);
	strlist_done(&r->included);
	strlist_done(&r->config_files);
	strlist_done(&r->muted);
	*r = (struct repo){0};
}

/* ------------------------------------------------------------------ where objects are written */

static int open_objects(
	const char *git_dir, enum git_hash hash, bool sync, struct git_store *ret, struct err *e)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/objects", git_dir) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "open %s/objects", git_dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open %s", path);
	*ret = (struct git_store){.objects_fd = fd, .hash = hash, .sync = sync};
	return 0;
}

int repo_store(const struct repo *r, struct git_store *ret, struct err *e)
{
	return open_objects(r->store, r->hash, false, ret, e);
}

const char *repo_ledger_dir(const struct repo *r)
{
	return r->common_dir ? r->common_dir : r->store;
}

int repo_ledger_store(const struct repo *r, struct git_store *ret, struct err *e)
{
	return open_objects(repo_ledger_dir(r), r->hash, true, ret, e);
}

/* ------------------------------------------------------------------ names of commits */

static int no_commit(const struct repo *r, const char *rev, struct err *e)
{
	cleanup_buf struct buf shown = BUF_INIT(8 * REV_MAX);

	str_show(&shown, rev, strnlen(rev, REV_MAX));
	*e = (struct err){.kind = ERR_INVALID, .errnum = ENOENT};
	if (str_eq(rev, "HEAD"))
		snprintf(e->msg, sizeof(e->msg),
			"there is no commit in %.400s yet: make a first one", r->workspace);
	else
		snprintf(e->msg, sizeof(e->msg), "\"%.200s\" is not a commit in %.400s",
			buf_str(&shown), r->workspace);
	return -ENOENT;
}

/* One commit and nothing that git would take for an option or a range. */
static bool rev_fine(const char *rev)
{
	return *rev && *rev != '-' && *rev != '^' && strlen(rev) < REV_MAX && !strstr(rev, "..") &&
	       !strchr(rev, '\n');
}

/* "commit NAME\nTREE\n" */
static bool parse_answer(
	const struct buf *out, size_t hex_n, struct oid *ret_commit, struct oid *ret_tree)
{
	static const char key[] = "commit ";
	size_t k = strlen(key);

	return out->len == k + hex_n + 1 + hex_n + 1 && memcmp(out->data, key, k) == 0 &&
	       out->data[k + hex_n] == '\n' && oid_parse(ret_commit, out->data + k, hex_n) &&
	       oid_parse(ret_tree, out->data + k + hex_n + 1, hex_n);
}

int repo_resolve(const struct repo *r, const char *rev, struct oid *ret_commit,
	struct oid *ret_tree, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	char spec[REV_MAX + 16];
	struct git_run run = {.argv = (const char *const[]){"rev-list", "--no-walk",
				      "--max-count=1", "--format=%T", spec, "--", NULL},
		.git_dir = r->store,
		.out = &out,
		.any_status = true};
	struct oid commit, tree;
	int rc;

	if (!rev_fine(rev))
		return no_commit(r, rev, e);
	snprintf(spec, sizeof(spec), "%s^{commit}", rev);
	rc = r->git_dir ? repo_git(r, &run, e) : git_run(&run, e);
	if (rc < 0)
		return rc;
	if (run.status != 0 || !parse_answer(&out, 2 * git_hash_len(r->hash), &commit, &tree))
		return no_commit(r, rev, e);
	if (ret_commit)
		*ret_commit = commit;
	if (ret_tree)
		*ret_tree = tree;
	return 0;
}

static bool branch_of_head(const struct repo *r, struct buf *ret)
{
	static const char key[] = "ref: ";
	struct git_run run = {
		.argv = (const char *const[]){"symbolic-ref", "-q", "HEAD", NULL}, .out = ret};
	struct err ignored = ERR_INIT;
	char path[PATH_MAX];

	if (r->reftable)
		return repo_git(r, &run, &ignored) == 0;
	if (snprintf(path, sizeof(path), "%s/HEAD", r->git_dir) >= (int)sizeof(path) ||
		file_read_at(AT_FDCWD, path, ret) < 0 || !str_starts(buf_str(ret), key))
		return false;
	memmove(ret->data, ret->data + strlen(key), ret->len - strlen(key) + 1);
	ret->len -= strlen(key);
	return true;
}

char *repo_branch(const struct repo *r)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	struct err ignored = ERR_INIT;
	struct oid o;
	char *name;

	if (!r->git_dir || !branch_of_head(r, &b))
		return NULL;
	name = b.data;
	name += strspn(name, " \t");
	name[strcspn(name, "\r\n")] = '\0';
	if (!str_starts(name, "refs/heads/") || !ref_name_fine(name) ||
		ref_read(r, name, &o, &ignored) < 0)
		return NULL;
	return strdup(name);
}
