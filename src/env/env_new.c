/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New environments: from a commit, a dirty tree, a plain directory, another environment.
 *
 * Order: base (made once per tree, shared) -> start layer (the environment's own refs; uncommitted
 * files) -> upper layer -> record -> first event -> the name. Until it has its name nobody sees it, and
 * what a crash leaves is swept by gc and by the next one that is made. A signal that asks to end is
 * held back until what was begun is taken away.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "croft.h"
#include "env/journal.h"
#include "session/config/objects.h"
#include "git/program.h"
#include "ledger/chain/predicate.h"
#include "os/interrupt.h"
#include "os/overlay.h"
#include "os/path.h"
#include "os/tree.h"

/* ---- the directory ---- */

static int make_directory(struct env *v, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int all = -1;
	char name[32];

	buf_addf(&path, "%s/envs", v->state_dir);
	all = dir_make(buf_str(&path), 0700);
	if (all < 0)
		return err_set(e, -all, "make %s", buf_str(&path));
	snprintf(name, sizeof(name), ".new-%s", v->id);
	if (mkdirat(all, name, 0700) < 0)
		return err_set(e, errno, "make an environment in %s", buf_str(&path));
	buf_addf(&path, "/%s", name);
	v->dir = buf_take(&path);
	v->dir_fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (!v->dir || v->dir_fd < 0)
		return err_set(e, v->dir ? errno : ENOMEM, "make an environment");
	v->lock_fd = openat(v->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (v->lock_fd < 0 || flock(v->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, errno, "lock the new environment");
	return 0;
}

/* It is said to be there: so are its name and everything below. */
static int keep(const struct env *v, struct err *e)
{
	cleanup_fd int all = openat(v->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = all < 0 ? -errno : dir_flush(all);

	return r < 0 ? err_set(e, -r, "write environment %s to the disk", v->name) : 0;
}

/* From now on it exists. */
int env_give_name(struct env *v, struct err *e)
{
	cleanup_buf struct buf to = BUF_INIT(PATH_MAX);

	v->named = true;
	if (env_save(v, e) < 0)
		return -e->errnum;
	buf_addf(&to, "%s/envs/%s", v->state_dir, v->name);
	if (syscall(SYS_renameat2, AT_FDCWD, v->dir, AT_FDCWD, buf_str(&to), RENAME_NOREPLACE) < 0)
		return errno == EEXIST
			       ? err_why(e, ERR_WHY_EXISTS,
					 err_invalid(e,
						 "there is already an environment called %s; choose "
						 "another name, or remove it with: croft rm %s",
						 v->name, v->name))
			       : err_set(e, errno, "name environment %s", v->name);
	free(v->dir);
	v->dir = buf_take(&to);
	return v->dir ? keep(v, e) : err_set(e, ENOMEM, "name environment %s", v->name);
}

/* Nothing of a failed one stays; what made it fail does not stop this. */
static void undo_new(struct env *v)
{
	cleanup_interrupt struct interrupt held = {0};
	const char *slash = v->dir ? strrchr(v->dir, '/') : NULL;
	char path[PATH_MAX];
	struct err ignored = ERR_INIT;

	interrupt_hold(&held);
	for (size_t i = v->parent ? v->layers.n - 1 : 0; i < v->layers.n; i++)
		if (env_layer_path(v, v->layers.v[i], "", path, sizeof(path), &ignored) == 0)
			tree_remove_at(AT_FDCWD, path);
	if (!oid_is_none(&v->base_commit) && v->repo.store)
		env_release_base(v);
	if (slash && str_starts(slash, "/.new-"))
		tree_remove_at(AT_FDCWD, v->dir);
	if (v->copy_made)
		tree_remove_at(AT_FDCWD, v->copy);
}

static int exists_already(const struct env *v, const char *name, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	struct stat st;

	buf_addf(&path, "%s/envs/%s", v->state_dir, name);
	if (lstat(buf_str(&path), &st) < 0)
		return 0;
	return err_invalid(e,
		"there is already an environment called %s; choose another name, or remove it "
		"with: croft rm %s",
		name, name);
}

/* ---- what it starts from ---- */

/*
 * The commit must outlive whatever the user does to branches: a ref of our own holds it until the
 * environment is removed.
 */
static int env_keep_base(const struct env *v, struct err *e)
{
	const struct oid none = {0};
	char ref[64];

	env_base_ref(v, ref, sizeof(ref));
	return ref_move(&v->repo, ref, &none, &v->base_commit, e);
}

/* v->base_commit is resolved. */
static int start_pinned(
	struct env *v, const struct env_new *n, const struct oid *tree, struct err *e)
{
	cleanup_free char *branch = n->from ? NULL : repo_branch(&v->repo);
	cleanup_fd int layer = -1;

	if (base_get(&v->base, &v->repo, &v->base_commit, tree, v->state_dir, n->progress,
		    n->progress_arg, e) < 0)
		return -e->errnum;
	if (env_keep_base(v, e) < 0)
		return -e->errnum;
	v->base_key = strdup(v->base.key);
	v->store_key = strdup(env_store_key(&v->repo));
	v->start_tree = *tree;
	if (!v->base_key || !v->store_key || env_push_layer(v, e) < 0)
		return e->errnum ? -e->errnum : err_set(e, ENOMEM, "make the environment");
	v->start_layers = 1;
	layer = env_layer_fd(v, 0, e);
	if (layer < 0 || base_git_layer(&v->repo, layer, branch, &v->base_commit, e) < 0)
		return -e->errnum;
	if (n->dirty && base_dirty_layer(&v->repo, &v->base, layer, v->dir_fd, "start.trees",
				&v->start_tree, e) < 0)
		return -e->errnum;
	return env_push_layer(v, e);
}

/* Not every file system can hold an overlay's layers: better known now than at the first command. */
static bool can_stage(const struct env *v)
{
	struct err ignored = ERR_INIT;
	const char *top = v->layers.v[v->layers.n - 1];
	char upper[PATH_MAX], work[PATH_MAX];

	if (env_layer_path(v, top, "tree", upper, sizeof(upper), &ignored) < 0 ||
		env_layer_path(v, top, "work", work, sizeof(work), &ignored) < 0)
		return true;
	switch (overlay_try(v->base.tree, upper, work)) {
	case -ENODEV:
	case -EPERM:
	case -EACCES:
	case -EINVAL:
	case -EOPNOTSUPP:
	case -ENOSPC: /* no user namespaces: their number is limited to none */
		return false;
	default:
		return true; /* a passing trouble is no reason for a copy */
	}
}

/* 1: there is a commit to begin with; 0: a directory, or a repository before its first commit. */
static int find_start(struct env *v, const struct env_new *n, struct oid *ret_tree, struct err *e)
{
	struct err unborn = ERR_INIT;
	int r;

	if (!v->repo.git_dir || n->run)
		return 0;
	if (git_version(e) < 0)
		return -e->errnum;
	r = repo_resolve(&v->repo, n->from ? n->from : "HEAD", &v->base_commit, ret_tree, &unborn);
	if (r == 0)
		return 1;
	if (r == -ENOENT && !n->from)
		return 0;
	*e = unborn;
	return r;
}

static int start(struct env *v, const struct env_new *n, struct err *e)
{
	struct oid tree;
	int r = find_start(v, n, &tree, e);

	if (r < 0)
		return r;
	if (r) {
		v->kind = ENV_PINNED;
		if (start_pinned(v, n, &tree, e) < 0)
			return -e->errnum;
		return n->copy || !can_stage(v) ? env_start_copy(v, e) : 0;
	}
	if (n->from)
		return err_invalid(e,
			"%s is no Git repository, so there is no revision to start from",
			v->workspace);
	if (n->copy)
		return err_no_boundary(e,
			"staging a directory that is no repository needs an overlay, which is "
			"not available here; use croft run --direct");
	v->kind = ENV_LIVE;
	return env_push_layer(v, e);
}

/* ---- create ---- */

static char *dup_or_null(const char *s, bool *failed)
{
	char *d = s ? strdup(s) : NULL;

	*failed = *failed || (s && !d);
	return d;
}

static int fill(struct env *v, const struct env_new *n, struct err *e)
{
	struct timespec now;
	bool failed = false;

	snprintf(v->name, sizeof(v->name), "%s", n->name);
	v->run = n->run;
	v->workspace = dup_or_null(n->workspace, &failed);
	v->home = dup_or_null(n->home, &failed);
	v->state_dir = dup_or_null(n->state_dir, &failed);
	v->agent = dup_or_null(n->agent, &failed);
	v->model = dup_or_null(n->model, &failed);
	v->task = dup_or_null(n->task, &failed);
	for (size_t i = 0; i < n->args_n; i++)
		failed = failed || !strlist_add(&v->args, n->args[i]);
	env_now(&now);
	env_time_text(&now, v->created);
	return failed ? err_set(e, ENOMEM, "make environment %s", n->name)
		      : env_random_id(v->id, e);
}

int env_first_event(struct env *v, const struct env_new *n, struct err *e)
{
	cleanup_buf struct buf members = BUF_INIT(1u << 20);
	struct ledger_event ev = {.kind = EVENT_CREATED,
		.env_id = v->id,
		.env_name = v->name,
		.predicate_type = PREDICATE_EVENT,
		.title = v->run ? "staged run" : "new environment"};
	struct oid_hex tree = oid_hex(&v->start_tree), commit = oid_hex(&v->base_commit);
	struct digest self;
	struct utsname uts;
	struct predicate_created c = {.workspace = v->workspace,
		.base_commit = *commit.s ? commit.s : NULL,
		.tree = *tree.s ? tree.s : NULL,
		.policy_digest = n->policy_digest,
		.tier_asked = n->tier,
		.agent = v->agent,
		.model = v->model,
		.task = v->task,
		.parent_env = n->parent_id,
		.parent_event = n->parent_event,
		.croft_version = CROFT_VERSION,
		.kernel = uname(&uts) == 0 ? uts.release : NULL};

	predicate_created(&c, &members);
	ev.predicate = buf_str(&members);
	env_now(&ev.time);
	if (!oid_is_none(&v->start_tree))
		ev.subjects[ev.subjects_n++] =
			(struct ledger_subject){"workspace", "gitTree", tree.s};
	if (!oid_is_none(&v->base_commit))
		ev.subjects[ev.subjects_n++] =
			(struct ledger_subject){"base", "gitCommit", commit.s};
	if (n->policy_text)
		ev.files[ev.files_n++] =
			(struct ledger_file){"policy.yaml", n->policy_text, strlen(n->policy_text)};
	/* Something must be spoken of, also where there is neither commit nor policy text. */
	digest_sha256(&self, v->id, strlen(v->id));
	ev.subjects[ev.subjects_n++] = (struct ledger_subject){"environment", "sha256", self.hex};
	v->tip = (struct ledger_tip){0};
	v->tip_known = true;
	return env_event(v, &ev, e);
}

int env_create(struct env *ret, const struct env_new *n, struct err *e)
{
	cleanup_interrupt struct interrupt watched = {0};
	cleanup_fd __attribute__((unused)) int gc = -1;
	struct env v;
	int r;

	env_init(&v);
	if (!env_name_good(n->name)) {
		cleanup_buf struct buf shown = BUF_INIT(512);

		str_show(&shown, n->name, MIN_OF(strlen(n->name), 80u));
		return err_invalid(e,
			"\"%s\" is not a valid environment name; use letters, digits, '.', '_' and "
			"'-', at most %d of them, beginning with a letter or digit",
			buf_str(&shown), ENV_NAME_MAX);
	}
	interrupt_watch(&watched);
	env_sweep_unborn(n->state_dir);
	gc = env_hold_gc(n->state_dir, false);
	r = fill(&v, n, e);
	if (r == 0)
		r = exists_already(&v, n->name, e);
	if (r == 0)
		r = repo_open(&v.repo, v.workspace, v.state_dir, e);
	if (r == 0 && n->policy)
		r = objects_check(&(struct objects_check){.policy = n->policy,
					  .repo = &v.repo,
					  .state_dir = v.state_dir,
					  .deep = true},
			&v.repo.objects, NULL, e);
	if (r == 0)
		r = make_directory(&v, e);
	if (r == 0)
		r = start(&v, n, e);
	/* What was copied, of which nobody else knows. */
	if (r == 0 && (n->dirty || v.kind == ENV_COPY) && syncfs(v.dir_fd) < 0)
		r = err_set(e, errno, "write environment %s to the disk", n->name);
	if (r == 0)
		r = env_first_event(&v, n, e);
	if (r == 0)
		r = interrupt_check(e);
	if (r == 0)
		r = env_give_name(&v, e);
	if (r < 0) {
		undo_new(&v);
		env_done(&v);
		return r;
	}
	*ret = v;
	return 0;
}

/* ---- fork ---- */

/* What a fork has in common with its origin. */
static int inherit(struct env *c, const struct env *v, struct err *e)
{
	bool failed = false;

	c->kind = v->kind;
	c->base_key = dup_or_null(v->base_key, &failed);
	c->store_key = dup_or_null(v->store_key, &failed);
	c->base_commit = v->base_commit;
	c->start_tree = v->start_tree;
	c->start_layers = v->start_layers;
	c->ignored_known = v->ignored_known;
	c->parent = dup_or_null(v->name, &failed);
	if (failed || !strlist_copy(&c->layers, &v->layers) ||
		!strlist_copy(&c->ignored, &v->ignored))
		return err_set(e, ENOMEM, "fork environment %s", v->name);
	free(c->layers.v[--c->layers.n]); /* the origin's upper layer: fresh, or in use */
	return 0;
}

/* A dirty start's trees are the fork's, too. */
static int inherit_start(struct env *c, const struct env *v, struct err *e)
{
	if (linkat(v->dir_fd, "start.trees", c->dir_fd, "start.trees", 0) < 0 && errno != ENOENT)
		return err_set(e, errno, "fork environment %s", v->name);
	return 0;
}

int env_fork(struct env *ret, struct env *v, const char *name, struct err *e)
{
	struct env_new n = {.name = name,
		.workspace = v->workspace,
		.home = v->home,
		.state_dir = v->state_dir,
		.args = v->args.v,
		.args_n = v->args.n,
		.agent = v->agent,
		.model = v->model,
		.task = v->task,
		.parent_id = v->id};
	cleanup_interrupt struct interrupt held = {0};
	cleanup_fd __attribute__((unused)) int gc = env_hold_gc(v->state_dir, false);
	char copy[ENV_LAYER_NAME_LEN + 1];
	bool up = v->beside_fd >= 0;
	struct env c;
	int r;

	env_init(&c);
	interrupt_hold(&held); /* it takes no time */
	if (!env_name_good(name))
		return err_invalid(e, "that is not a valid environment name; use letters, digits, "
				      "'.', '_' and '-'");
	if (v->kind == ENV_COPY)
		return err_refuse(
			e, "environment %s is a plain copy and cannot be forked", v->name);
	/* Signed in the fork's first event, so that nothing done before can be left out afterwards. */
	r = env_need_ledger(v, e);
	n.parent_event = v->tip.envelope.hex;
	if (r == 0 && (r = fill(&c, &n, e)) == 0 && (r = exists_already(&c, name, e)) == 0 &&
		(r = make_directory(&c, e)) == 0)
		r = up ? env_copy_upper(v, copy, e)
		       : env_push_layer(v, e); /* freezes what was the upper one */
	if (r == 0 && (r = inherit(&c, v, e)) == 0 && up && !strlist_add(&c.layers, copy))
		r = err_set(e, ENOMEM, "fork environment %s", v->name);
	if (r == 0 && (r = inherit_start(&c, v, e)) == 0 &&
		(r = env_push_layer(&c, e)) == 0 && (r = env_save(v, e)) == 0 &&
		(r = env_attach(&c, e)) == 0 && (r = env_keep_base(&c, e)) == 0)
		r = env_first_event(&c, &n, e);
	if (r == 0)
		r = env_give_name(&c, e);
	if (r < 0) {
		if (c.parent)
			undo_new(&c);
		env_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}
