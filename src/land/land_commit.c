/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits of a landing: made by the user's git, in the user's name, from trees that croft computed.
 *
 * Trust: the user's configuration speaks for identity and signing only; no hook runs. Objects go to the
 *        host's repository before the commit is made and stay unreachable if nothing comes of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "git/program.h"


static int as_user(struct land_job *j, const char *const *argv, struct buf *out, bool any,
	int *ret_status, struct err *e)
{
	struct git_run run = {.argv = argv, .out = out, .any_status = any};
	int rc = repo_git(&j->v->repo, &run, e);

	if (ret_status)
		*ret_status = run.status;
	return rc;
}

static void chomp(struct buf *b)
{
	while (b->len > 0 && b->data[b->len - 1] == '\n')
		b->data[--b->len] = '\0';
}

/* ---- where commits go ---- */

static int find_head(struct land_job *j, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(8192);
	const char *symbolic[] = {"symbolic-ref", "-q", "HEAD", NULL};
	const char *exists[] = {"show-ref", "--verify", "--quiet", NULL, NULL};
	int rc = repo_resolve(&j->v->repo, "HEAD", &j->in.ref_old, &j->in.onto, e), status;

	if (rc != -ENOENT)
		return rc;
	/* No commit yet is fine: this will be the first. */
	rc = as_user(j, symbolic, &out, true, &status, e);
	chomp(&out);
	if (rc == 0 && status == 0 && out.len) {
		exists[3] = buf_str(&out);
		rc = as_user(j, exists, NULL, true, &status, e);
	}
	if (rc < 0)
		return rc;
	if (status == 0)
		return err_refuse(
			e, "HEAD of %s cannot be read; see what git fsck says", j->v->workspace);
	*e = ERR_INIT;
	j->in.ref_old = (struct oid){0};
	land_empty_tree(&j->v->repo, &j->in.onto);
	return 0;
}

/* "refs/heads/x HEX PATH": 1 when it is this ref. */
static int branch_line(struct land_job *j, char *line, const char *ref, struct err *e)
{
	char *hex = strchr(line, '\t'), *where = hex ? strchr(hex + 1, '\t') : NULL;

	if (!where)
		return err_set(e, EBADMSG, "read what git for-each-ref says");
	*hex++ = *where++ = '\0';
	if (!str_eq(line, ref))
		return 0;
	if (*where)
		return err_refuse(e,
			"branch %s is checked out in %s; land there with --squash, or name another "
			"branch",
			land_show(ref + 11).s, land_show(where).s);
	if (!oid_parse(&j->in.ref_old, hex, strlen(hex)))
		return err_set(e, EBADMSG, "read what git for-each-ref says");
	return 1;
}

static int find_tip(struct land_job *j, const char *ref, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(4u << 20), head = BUF_INIT(8192);
	const char *each[] = {
		"for-each-ref", "--format=%(refname)%09%(objectname)%09%(worktreepath)", ref, NULL};
	const char *symbolic[] = {"symbolic-ref", "-q", "HEAD", NULL};
	int rc = as_user(j, symbolic, &head, true, NULL, e);

	if (rc < 0 || (rc = as_user(j, each, &out, false, NULL, e)) < 0)
		return rc;
	chomp(&head);
	if (str_eq(buf_str(&head), ref))
		return err_refuse(e, "branch %s is checked out here; use --squash without --branch",
			land_show(ref + 11).s);
	for (char *p = out.data; p && *p;) {
		size_t n = strcspn(p, "\n");
		char *next = p + n + (p[n] == '\n');

		p[n] = '\0';
		rc = branch_line(j, p, ref, e);
		if (rc != 0)
			return rc;
		p = next;
	}
	return 0;
}

static int find_branch(struct land_job *j, const char *branch, struct err *e)
{
	cleanup_free char *ref = NULL;
	const char *check[] = {"check-ref-format", NULL, NULL};
	struct git_run run = {.argv = check, .git_dir = j->v->repo.store, .any_status = true};
	int rc;

	if (asprintf(&ref, "refs/heads/%s", branch) < 0) {
		ref = NULL;
		return land_no_memory(e);
	}
	check[1] = ref;
	rc = git_run(&run, e);
	if (rc < 0)
		return rc;
	if (run.status != 0 || branch[0] == '-' || !branch[0])
		return err_invalid(e, "%s is not a name for a branch", land_show(branch).s);
	rc = find_tip(j, ref, e);
	if (rc < 0)
		return rc;
	if (rc == 0 && oid_is_none(&j->v->base_commit)) {
		rc = find_head(j, e);
		if (rc < 0)
			return rc;
		/* A new branch of a start without commits: it grows from what is checked out. */
		j->in.ref_new = j->in.ref_old;
		j->in.ref_old = (struct oid){0};
	} else {
		j->in.ref_new = rc == 1 ? j->in.ref_old : j->v->base_commit;
		rc = land_tree_of(&j->v->repo, &j->in.ref_new, &j->in.onto, e);
	}
	j->in.ref = take_ptr(ref);
	return rc;
}

/* Afterwards ref_new is the commit to build on (none: there is none yet). */
int land_find_ref(struct land_job *j, const char *branch, struct err *e)
{
	int rc;

	if (!j->v->repo.git_dir)
		return err_invalid(e,
			"%s is not a Git repository: apply without --commit, --squash and --branch",
			j->v->workspace);
	if (branch)
		return find_branch(j, branch, e);
	rc = find_head(j, e);
	if (rc < 0)
		return rc;
	j->in.ref_new = j->in.ref_old;
	j->in.ref = strdup("HEAD");
	j->in.index = true;
	return j->in.ref ? 0 : land_no_memory(e);
}

int land_check_ready(struct land_job *j, struct err *e)
{
	static const char *const busy[][2] = {{"MERGE_HEAD", "a merge"},
		{"CHERRY_PICK_HEAD", "a cherry-pick"}, {"REVERT_HEAD", "a revert"},
		{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"}};
	cleanup_fd int dir = open(j->v->repo.git_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_set(e, errno, "open %s", j->v->repo.git_dir);
	for (size_t i = 0; i < ARRAY_SIZE(busy); i++)
		if (faccessat(dir, busy[i][0], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return err_refuse(e,
				"%s is going on in %s; finish or abort it first, or land on "
				"another branch with --branch",
				busy[i][1], j->v->workspace);
	if (faccessat(dir, "index.lock", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_refuse(e,
			"%s/index.lock exists: another git works in this checkout; if none does, "
			"remove it",
			j->v->repo.git_dir);
	return 0;
}

/* ---- commits ---- */

static bool wants_signature(struct land_job *j)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	const char *argv[] = {"config", "--type=bool", "--get", "commit.gpgsign", NULL};
	struct err ignored = ERR_INIT;

	if (j->q && j->q->sign)
		return true;
	return as_user(j, argv, &out, true, NULL, &ignored) == 0 &&
	       str_starts(buf_str(&out), "true");
}

static int commit_tree(struct land_job *j, const struct oid *tree, const struct oid *parent,
	const char *message, size_t n, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	struct oid_hex t = oid_hex(tree), p = oid_hex(parent);
	const char *argv[8] = {"commit-tree", t.s};
	struct git_run run = {.argv = argv,
		.in = message,
		.in_n = n,
		.out = &out,
		.interactive = true};
	int k = 2, rc;

	if (!oid_is_none(parent)) {
		argv[k++] = "-p";
		argv[k++] = p.s;
	}
	if (wants_signature(j))
		argv[k++] = "-S";
	rc = repo_export_objects(&j->v->repo, tree, e);
	if (rc == 0)
		rc = repo_git(&j->v->repo, &run, e);
	if (rc < 0)
		return err_wrap(e, "make the commit");
	chomp(&out);
	return oid_parse(ret, buf_str(&out), out.len)
		       ? 0
		       : err_set(e, EBADMSG, "read what git commit-tree says");
}

/* c on top of what there is: j->in.landed and ref_new go on. message NULL: only the tree. */
static int add_commit(struct land_job *j, const struct changes *c, const struct oid *from,
	const struct oid *to, const char *theirs, bool last, struct err *e)
{
	cleanup_buf struct buf m = BUF_INIT(4u << 20);
	struct oid tree, commit;
	int rc = land_merge_tree(j, c, from, to, &j->in.landed, &tree, e);

	if (rc < 0 || oid_eq(&tree, &j->in.landed))
		return rc;
	if (!j->q->dry_run) {
		if (theirs)
			land_message_of(j, theirs, &m);
		else
			land_message(j, last ? j->q->message : NULL, &j->in.landed, &tree, &m);
		if (m.failed)
			return err_invalid(e, "the message of a commit is too long");
		rc = commit_tree(j, &tree, &j->in.ref_new, buf_str(&m), m.len, &commit, e);
		if (rc < 0)
			return rc;
		j->in.ref_new = commit;
	}
	j->in.landed = tree;
	return 0;
}

static int check_symlink(struct land_job *j, const struct change *c, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(8192);
	int rc = land_reader(j, e);

	if (rc == 0)
		rc = git_read_oid(j->reader, &c->new, GIT_BLOB, &b, e);
	if (rc < 0)
		return rc;
	return land_link_good(c->path, buf_str(&b), b.len)
		       ? 0
		       : err_refuse(e,
				 "a commit of %s has a symlink that leads out of the workspace: %s",
				 j->v->name, land_show(c->path).s);
}

/* What a commit inside did on its way is held to the rules that its end is held to. */
static int check_commit(struct land_job *j, const struct changes *c, struct err *e)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct change *x = &c->v[i];
		int rc = 0;

		if (!land_path_good(x->path) || x->new_mode == 0160000 || x->old_mode == 0160000)
			return err_refuse(e,
				"a commit of %s holds %s, which does not land; use --squash for "
				"what is staged",
				j->v->name, land_show(x->path).s);
		if (x->new_mode && change_runs_in(&j->v->repo, x->path, x->new_mode) &&
			!j->q->flagged)
			return err_refuse(e,
				"a commit of %s holds %s, which would run on this machine (%s); "
				"give --include-flagged, or use --squash after croft review",
				j->v->name, land_show(x->path).s,
				change_runs_in(&j->v->repo, x->path, x->new_mode));
		if (x->new_mode == 0120000)
			rc = check_symlink(j, x, e);
		if (rc < 0)
			return rc;
	}
	return land_check_names(j, c, &c->tree, e);
}

static int one_of_theirs(
	struct land_job *j, const struct oid *commit, struct oid *from, struct err *e)
{
	cleanup_buf struct buf raw = BUF_INIT(4u << 20);
	__attribute__((cleanup(commit_info_done))) struct commit_info info = {0};
	cleanup_changes struct changes c = {0};
	int rc = land_reader(j, e);

	if (rc < 0 || (rc = git_read_oid(j->reader, commit, GIT_COMMIT, &raw, e)) < 0 ||
		(rc = git_commit_parse(raw.data, raw.len, j->v->repo.hash, &info, e)) < 0)
		return rc;
	rc = land_diff(&j->v->repo, from, &info.tree, &c, e);
	if (rc == 0)
		rc = check_commit(j, &c, e);
	if (rc == 0)
		rc = add_commit(
			j, &c, from, &info.tree, info.message ? info.message : "", false, e);
	*from = info.tree;
	return rc;
}

static int all_of_theirs(struct land_job *j, struct oid *from, struct err *e)
{
	struct land_chain chain = {0};
	int rc;

	if (j->q->paths_n || j->in.reviewed)
		return err_invalid(e,
			"--commit lands whole commits as they are; %s go with: croft apply %s "
			"--squash",
			j->q->paths_n ? "single paths" : "the decisions of a review", j->v->name);
	if (oid_is_none(&j->v->base_commit))
		return err_invalid(e,
			"%s did not start from a commit; what is staged lands as one with: croft "
			"apply %s --squash",
			j->v->name, j->v->name);
	rc = land_tree_of(&j->v->repo, &j->v->base_commit, from, e);
	if (rc < 0)
		return rc;
	if (!oid_eq(from, &j->in.start))
		return err_invalid(e,
			"%s started with changes that were not committed; what is staged lands as "
			"one commit with: croft apply %s --squash",
			j->v->name, j->v->name);
	rc = land_import(j, &chain, e);
	for (size_t i = 0; rc == 0 && i < chain.n; i++)
		rc = one_of_theirs(j, &chain.v[i], from, e);
	free(chain.v);
	return rc;
}

/* Asked before anything is planned: git's own words for it come late, and fill half a screen. */
static int check_identity(struct land_job *j, struct err *e)
{
	static const char *const who[] = {"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"};

	for (size_t i = 0; i < ARRAY_SIZE(who); i++) {
		const char *argv[] = {"var", who[i], NULL};
		struct git_run run = {.argv = argv, .any_status = true};
		int rc = repo_git(&j->v->repo, &run, e);

		if (rc < 0)
			return rc;
		if (run.status != 0)
			return err_invalid(e,
				"git does not know who you are; set it with: git config "
				"user.name NAME and git config user.email MAIL");
	}
	return 0;
}

int land_make_commits(struct land_job *j, struct err *e)
{
	cleanup_changes struct changes rest = {0};
	struct oid from = j->in.start;
	int rc = check_identity(j, e);

	if (rc < 0)
		return rc;
	j->in.landed = j->in.onto;
	if (j->in.how == LAND_COMMIT)
		rc = all_of_theirs(j, &from, e);
	if (rc < 0)
		return rc;
	if (oid_eq(&from, &j->in.start))
		return add_commit(j, &j->sel, &from, &j->in.tree, NULL, true, e);
	rc = land_diff(&j->v->repo, &from, &j->in.tree, &rest, e);
	return rc < 0 ? rc : add_commit(j, &rest, &from, &j->in.tree, NULL, true, e);
}
