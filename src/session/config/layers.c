/* SPDX-License-Identifier: Apache-2.0 */
/* Policy files and the command line become layers, layers become a policy: see layers.h. */
#include "session/config/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/repo.h"
#include "os/path.h"

enum { L_FLOOR, L_SYSTEM, L_USER, L_PROJECT, L_ADDED, L_CLI, L_NUM };

struct set {
	struct policy_layer *v[L_NUM];
};

static void set_done(struct set *s)
{
	for (int i = 0; i < L_NUM; i++)
		policy_layer_free(s->v[i]);
}
#define cleanup_set __attribute__((cleanup(set_done)))

/* ---- files ---- */

enum read_flags {
	READ_NOFOLLOW = 1, /* a symlink is refused */
	READ_PRIVATE = 2,  /* must not be writable by everybody */
	READ_OPTIONAL = 4, /* may be absent */
};

/* Whole text of a policy file. 1: read; 0: absent and that is fine; else an error. */
static int read_policy(const char *path, unsigned flags, struct buf *ret, struct err *e)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
					       (flags & READ_NOFOLLOW ? O_NOFOLLOW : 0));
	struct stat st;
	int r;

	if (fd < 0 && errno == ELOOP && (flags & READ_NOFOLLOW))
		return err_refuse(e,
			"%s is a symlink; a project's policy must be a file in the project", path);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && (flags & READ_OPTIONAL)) {
		if (lstat(path, &st) == 0) /* a dangling symlink is a policy that went missing */
			return err_set(e, ENOENT, "%s leads nowhere", path);
		return 0;
	}
	if (fd < 0)
		return err_set(e, errno, "read the policy %s", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "read the policy %s", path);
	if (S_ISDIR(st.st_mode))
		return err_invalid(e, "%s is a directory, not a policy file", path);
	if (!S_ISREG(st.st_mode))
		return err_invalid(e, "%s is not a regular file", path);
	if ((flags & READ_PRIVATE) && (st.st_mode & S_IWOTH))
		return err_refuse(
			e, "%s can be written by everybody; run: chmod o-w %s", path, path);
	*ret = BUF_INIT(POLICY_FILE_MAX_B);
	r = file_read_fd(fd, ret);
	if (r == -EFBIG)
		return err_invalid(
			e, "%s: a policy file may hold at most %u bytes", path, POLICY_FILE_MAX_B);
	if (r < 0)
		return err_set(e, -r, "read the policy %s", path);
	return 1;
}

static int load_file(struct policy_layer **ret, enum policy_layer_kind kind, const char *path,
	unsigned flags, const struct policy_context *ctx, struct err *e)
{
	cleanup_buf struct buf text = {0};
	int r = read_policy(path, flags, &text, e);

	if (r <= 0)
		return r;
	r = policy_layer_parse(ret, kind, path, buf_str(&text), text.len, ctx, e);
	return r < 0 ? r : 1;
}

static int load_user(
	struct set *s, const struct layers_info *i, const struct policy_context *ctx, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);

	buf_addf(&path, "%s/policy.yaml", i->config);
	return load_file(
		&s->v[L_USER], LAYER_USER, buf_str(&path), READ_PRIVATE | READ_OPTIONAL, ctx, e);
}

static int load_project(
	struct set *s, struct layers_info *i, const struct policy_context *ctx, struct err *e)
{
	struct buf path = BUF_INIT(PATH_MAX);
	int r;

	buf_addf(&path, "%s/" LAYERS_PROJECT_NAME, i->workspace);
	r = load_file(&s->v[L_PROJECT], LAYER_PROJECT, buf_str(&path),
		READ_NOFOLLOW | READ_OPTIONAL, ctx, e);
	if (r <= 0) {
		buf_done(&path);
		return r;
	}
	i->project_file = buf_take(&path);
	if (!i->project_file)
		return err_set(e, ENOMEM, "load the project's policy");
	i->project_digest = *policy_layer_digest(s->v[L_PROJECT]);
	i->project_trusted = trust_has(i->state, i->project_file, &i->project_digest);
	return 0;
}

/*
 * croft's own directories are on the floor at their usual places; where the environment or a
 * symlink puts them elsewhere, that place is on the floor as well.
 */
static int load_floor(
	struct set *s, const struct layers_info *i, const struct policy_context *ctx, struct err *e)
{
	const char *const dirs[2][2] = {
		{i->state, ".local/state/croft"}, {i->config, ".config/croft"}};
	int r = 0;

	for (int k = 0; r == 0 && k < 2; k++) {
		cleanup_buf struct buf usual = BUF_INIT(PATH_MAX);
		cleanup_buf struct buf plain = BUF_INIT(4 * PATH_MAX);

		buf_addf(&usual, "%s/%s", i->home, dirs[k][1]);
		if (str_eq(buf_str(&usual), dirs[k][0]))
			continue;
		for (const char *p = dirs[k][0]; *p; p++) {
			if (strchr("*?[]\\", *p))
				buf_addc(&plain, '\\');
			buf_addc(&plain, *p);
		}
		if (!s->v[L_FLOOR])
			r = policy_layer_new(&s->v[L_FLOOR], LAYER_FLOOR, "floor", e);
		if (r == 0)
			r = policy_layer_add_rule(
				s->v[L_FLOOR], ACCESS_DENY, buf_str(&plain), ctx, e);
	}
	return r;
}

/* ---- command line ---- */

static int add_paths(struct policy_layer *l, enum access a, const char *const *v,
	const struct policy_context *ctx, struct err *e)
{
	int r = 0;

	for (; r == 0 && v && *v; v++)
		r = policy_layer_add_rule(l, a, *v, ctx, e);
	return r;
}

/* "key=value" of --set; paths need the context, so they go another way. */
static int add_setting(
	struct policy_layer *l, const char *text, const struct policy_context *ctx, struct err *e)
{
	static const char *const paths[ACCESS_NUM] = {[ACCESS_DENY] = "filesystem.deny",
		[ACCESS_READ] = "filesystem.read",
		[ACCESS_WRITE] = "filesystem.write"};
	const char *eq = strchr(text, '=');
	cleanup_free char *key = NULL;

	if (!eq || eq == text)
		return err_invalid(
			e, "command line: a setting is KEY=VALUE, such as limits.memory=2G");
	key = strndup(text, (size_t)(eq - text));
	if (!key)
		return err_set(e, ENOMEM, "read the command line");
	for (int a = 0; a < ACCESS_NUM; a++)
		if (str_eq(key, paths[a]))
			return policy_layer_add_rule(l, (enum access)a, eq + 1, ctx, e);
	if (str_eq(key, "filesystem.view"))
		return policy_layer_add_view(l, eq + 1, ctx, e);
	if (str_eq(key, "filesystem.write-git"))
		return policy_layer_add_git(l, eq + 1, ctx, e);
	if (str_eq(key, "filesystem.write-runs"))
		return policy_layer_add_runs(l, eq + 1, ctx, e);
	return policy_layer_set(l, key, eq + 1, e);
}

static int add_network(struct policy_layer *l, const struct layers_options *o, struct err *e)
{
	const struct {
		const char *key;
		const char *const *values;
	} lists[] = {{"network.allow", o->hosts}, {"network.use", o->use},
		{"network.publish", o->publish}, {"network.host-ports", o->host_ports},
		{"network.secret", o->secrets}};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (const char *const *v = lists[i].values; r == 0 && v && *v; v++)
			r = policy_layer_set(l, lists[i].key, *v, e);
	return r;
}

static int add_values(struct policy_layer *l, const struct layers_options *o,
	const struct policy_context *ctx, struct err *e)
{
	int r = 0;

	if (o->profile)
		r = policy_layer_set(l, "profile", o->profile, e);
	if (r == 0 && o->tier)
		r = policy_layer_set(l, "tier", o->tier, e);
	if (r == 0)
		r = add_network(l, o, e);
	for (const char *const *v = o->env; r == 0 && v && *v; v++)
		r = policy_layer_set(
			l, strchr(*v, '=') ? "environment.set" : "environment.pass", *v, e);
	for (const char *const *v = o->set; r == 0 && v && *v; v++)
		r = add_setting(l, *v, ctx, e);
	return r;
}

static int add_git_dir(struct policy_layer *l, const char *dir, const struct policy_context *ctx,
	struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(2 * POLICY_PATH_MAX);

	policy_path_literal(&b, dir);
	if (b.failed)
		return err_invalid(e, "the path of %s is too long", dir);
	return policy_layer_add_git(l, buf_str(&b), ctx, e);
}

/* --git: the repository of the workspace, which may lie elsewhere (a linked worktree, a submodule). */
static int add_git(struct policy_layer *l, const struct layers_info *i,
	const struct policy_context *ctx, struct err *e)
{
	cleanup_repo struct repo repo = {0};
	int r = repo_find(&repo, i->workspace, e);

	if (r < 0)
		return err_wrap(e, "--git");
	if (!repo.git_dir)
		return err_invalid(e, "--git: there is no repository in %s", i->workspace);
	if (!repo_is_own(&repo))
		return err_refuse(e,
			"--git: %s/.git leads to %s, which does not say that this is a worktree of it; "
			"grant it by name if it is meant: --set filesystem.write-git=%s",
			i->workspace, repo.git_dir, repo.git_dir);
	r = add_git_dir(l, repo.git_dir, ctx, e);
	if (r == 0 && strcmp(repo.git_dir, repo.common_dir) != 0)
		r = add_git_dir(l, repo.common_dir, ctx, e);
	return r;
}

static bool any(const char *const *v)
{
	return v && *v;
}

/* On a command line "./x" means what it means to the shell: relative to the current directory. */
static int load_cli(
	struct set *s, const struct layers_info *i, const struct layers_options *o, struct err *e)
{
	struct policy_context ctx = {.home = i->home, .workspace = i->cwd};
	int r;

	if (!o->profile && !o->tier && !any(o->read) && !any(o->write) && !any(o->deny) && !any(o->view) &&
		!any(o->write_runs) && !o->git &&
		!any(o->hosts) && !any(o->use) && !any(o->publish) && !any(o->host_ports) &&
		!any(o->secrets) && !any(o->env) && !any(o->set))
		return 0;
	r = policy_layer_new(&s->v[L_CLI], LAYER_CLI, "command line", e);
	if (r == 0)
		r = add_paths(s->v[L_CLI], ACCESS_READ, o->read, &ctx, e);
	if (r == 0)
		r = add_paths(s->v[L_CLI], ACCESS_WRITE, o->write, &ctx, e);
	if (r == 0)
		r = add_paths(s->v[L_CLI], ACCESS_DENY, o->deny, &ctx, e);
	for (const char *const *v = o->view; r == 0 && v && *v; v++)
		r = policy_layer_add_view(s->v[L_CLI], *v, &ctx, e);
	for (const char *const *v = o->write_runs; r == 0 && v && *v; v++)
		r = policy_layer_add_runs(s->v[L_CLI], *v, &ctx, e);
	if (r == 0 && o->git)
		r = add_git(s->v[L_CLI], i, &ctx, e);
	if (r == 0)
		r = add_values(s->v[L_CLI], o, &ctx, e);
	return r;
}

/* What a command of croft adds for its purpose, such as an agent's needs: as if the user had written it. */
static int load_added(
	struct set *s, const struct layers_info *i, const struct layers_options *o, struct err *e)
{
	struct policy_context ctx = {.home = i->home, .workspace = i->workspace};

	if (!o->added)
		return 0;
	return policy_layer_parse(&s->v[L_ADDED], LAYER_CLI, o->added_name ? o->added_name : "added",
		o->added, strlen(o->added), &ctx, e);
}

/* ---- the whole ---- */

static int load_files(
	struct set *s, struct layers_info *i, const struct layers_options *o, struct err *e)
{
	struct policy_context ctx = {.home = i->home, .workspace = i->workspace};
	int r = load_floor(s, i, &ctx, e);

	if (r == 0)
		r = load_file(&s->v[L_SYSTEM], LAYER_SYSTEM, LAYERS_SYSTEM_FILE,
			READ_PRIVATE | READ_OPTIONAL, &ctx, e);
	if (r < 0)
		return r;
	if (o->policy_file)
		return load_file(&s->v[L_USER], LAYER_USER, o->policy_file, 0, &ctx, e);
	r = load_user(s, i, &ctx, e);
	return r < 0 ? r : load_project(s, i, &ctx, e);
}

int layers_load(
	struct policy *ret, struct layers_info *info, const struct layers_options *o, struct err *e)
{
	static const struct layers_options none = {0};
	cleanup_layers_info struct layers_info i = {0};
	cleanup_set struct set s = {0};
	struct policy_context ctx;
	int r;

	if (!o)
		o = &none;
	r = layers_locate(&i, o->directory, e);
	if (r == 0)
		r = load_files(&s, &i, o, e);
	if (r >= 0)
		r = load_added(&s, &i, o, e);
	if (r >= 0)
		r = load_cli(&s, &i, o, e);
	if (r < 0)
		return r;
	ctx = (struct policy_context){.home = i.home, .workspace = i.workspace};
	r = policy_resolve(ret, s.v, L_NUM, i.project_trusted, &ctx, e);
	if (r < 0)
		return r;
	*info = i;
	i = (struct layers_info){0};
	return 0;
}

int layers_check(const char *file, struct err *e)
{
	cleanup_policy_layer struct policy_layer *l = NULL;
	cleanup_free char *home = NULL;
	const char *name = strrchr(file, '/');
	enum policy_layer_kind kind = LAYER_USER;
	struct policy_context ctx = {.workspace = "/workspace"};
	int r = layers_home(&home, e);

	if (r < 0)
		return r;
	ctx.home = home;
	name = name ? name + 1 : file;
	if (str_eq(file, LAYERS_SYSTEM_FILE))
		kind = LAYER_SYSTEM;
	else if (str_eq(name, LAYERS_PROJECT_NAME))
		kind = LAYER_PROJECT;
	r = load_file(&l, kind, file, kind == LAYER_PROJECT ? READ_NOFOLLOW : 0, &ctx, e);
	return r < 0 ? r : 0;
}

/* ---- approval ---- */

/* What the project gives beyond the user's own policy, as differences. */
static int project_effect(
	const struct layers_info *i, struct set *s, struct buf *out, struct err *e)
{
	struct policy_context ctx = {.home = i->home, .workspace = i->workspace};
	struct policy_layer *project = s->v[L_PROJECT];
	cleanup_policy struct policy with = {0};
	cleanup_policy struct policy without = {0};
	int r = policy_resolve(&with, s->v, L_NUM, true, &ctx, e);

	if (r < 0)
		return r;
	s->v[L_PROJECT] = NULL;
	r = policy_resolve(&without, s->v, L_NUM, false, &ctx, e);
	s->v[L_PROJECT] = project;
	if (r < 0)
		return r;
	if (policy_diff(&without, &with, out) == 0)
		buf_adds(out, "  no difference from your own policy\n");
	return 0;
}

/* The directory whose croft.yaml is meant. */
static int trust_directory(char **ret, const char *file, struct err *e)
{
	cleanup_free char *real = NULL;
	char *slash;

	if (!file)
		return 0;
	real = realpath(file, NULL);
	if (!real)
		return err_set(e, errno, "%s", file);
	slash = strrchr(real, '/');
	if (!slash || !str_eq(slash + 1, LAYERS_PROJECT_NAME))
		return err_invalid(e, "%s is not a project's %s", file, LAYERS_PROJECT_NAME);
	*(slash == real ? slash + 1 : slash) = '\0';
	*ret = take_ptr(real);
	return 0;
}

int layers_trust(const char *file, bool revoke, struct buf *out, struct err *e)
{
	static const struct layers_options none = {0};
	cleanup_layers_info struct layers_info i = {0};
	cleanup_set struct set s = {0};
	cleanup_free char *dir = NULL;
	int r = trust_directory(&dir, file, e);

	if (r == 0)
		r = layers_locate(&i, dir, e);
	if (r < 0)
		return r;
	if (revoke) { /* also when the file is gone or broken */
		cleanup_buf struct buf path = BUF_INIT(PATH_MAX);

		buf_addf(&path, "%s/" LAYERS_PROJECT_NAME, i.workspace);
		r = trust_revoke(i.state, buf_str(&path), e);
		if (r >= 0) {
			str_show(out, buf_str(&path), path.len);
			buf_adds(out, r ? ": approval revoked\n" : " was not approved\n");
		}
		return r < 0 ? r : 0;
	}
	r = load_files(&s, &i, &none, e);
	if (r < 0)
		return r;
	if (!i.project_file)
		return err_invalid(e, "there is no %s in %s", LAYERS_PROJECT_NAME, i.workspace);
	r = project_effect(&i, &s, out, e);
	if (r == 0)
		r = trust_add(i.state, i.project_file, &i.project_digest, e);
	if (r < 0)
		return r;
	str_show(out, i.project_file, strlen(i.project_file));
	buf_addf(out, ": approved, sha256:%s\n", i.project_digest.hex);
	return 0;
}
