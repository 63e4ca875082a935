/* SPDX-License-Identifier: Apache-2.0 */
/* Which object directories of a repository a command may read: see objects.h. */
#include "session/config/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/config/layers.h"
#include "os/path.h"

/* ------------------------------------------------------------------ approvals */

/* The approval is of this directory for this workspace. */
static void trust_key(
	const char *workspace, const char *dir, struct buf *ret, struct digest *ret_digest)
{
	buf_addf(ret, "objects of %s\n%s", workspace, dir);
	digest_sha256(ret_digest, buf_str(ret), ret->len);
}

static bool is_approved(const struct objects_check *c, const char *dir)
{
	cleanup_buf struct buf key = BUF_INIT(3 * PATH_MAX);
	struct digest d;

	trust_key(c->repo->workspace, dir, &key, &d);
	return !key.failed && trust_has(c->state_dir, buf_str(&key), &d);
}

int objects_trust(const char *dir, bool revoke, struct buf *out, struct err *e)
{
	cleanup_layers_info struct layers_info i = {0};
	cleanup_buf struct buf key = BUF_INIT(3 * PATH_MAX);
	cleanup_fd int fd = -1;
	char real[PATH_MAX];
	struct digest d;
	int r = layers_locate(&i, NULL, e);

	if (r < 0)
		return r;
	fd = path_resolve(dir, real, sizeof(real));
	if (fd < 0)
		return err_set(e, -fd, "%s", dir);
	trust_key(i.workspace, real, &key, &d);
	if (key.failed)
		return err_set(e, ENAMETOOLONG, "%s", dir);
	if (revoke)
		r = trust_revoke(i.state, buf_str(&key), e);
	else if ((r = repo_objects_look(real, true, false, e)) == 0)
		r = trust_add(i.state, buf_str(&key), &d, e);
	if (r < 0)
		return r;
	str_show(out, real, strlen(real));
	if (revoke)
		buf_adds(out, r ? ": approval revoked\n" : " was not approved\n");
	else
		buf_adds(out, ": commands here may read every object in it\n");
	return 0;
}

/* ------------------------------------------------------------------ the question */

static int not_allowed(const struct objects_check *c, const char *dir, struct err *e)
{
	cleanup_buf struct buf word = BUF_INIT(8 * PATH_MAX);

	if (!str_shell(&word, dir, strlen(dir)))
		buf_adds(&word, "DIR"); /* no argument could name it */
	return err_refuse(e,
		"the repository of %s takes objects from %s, which is not part of it, and a "
		"command "
		"could read all of them; if that is right, approve it with: croft policy trust "
		"--objects %s",
		c->repo->workspace, dir, buf_str(&word));
}

static int denied(const struct objects_check *c, const char *dir, const struct policy_rule *rule,
	struct err *e)
{
	return err_refuse(e,
		"the repository of %s takes objects from %s, which the policy denies (%s %s, %s); "
		"remove it from .git/objects/info/alternates, or use a clone of its own",
		c->repo->workspace, dir, policy_access_names[rule->access], rule->path,
		policy_layer_names[rule->origin.layer]);
}

/* The rule that denies it, or something in it; NULL: none does. */
static const struct policy_rule *denying(const struct objects_check *c, const char *dir)
{
	const struct policy *p = c->policy;
	const struct policy_rule *rule = NULL;
	char parent[PATH_MAX];

	snprintf(parent, sizeof(parent), "%s", dir);
	if (c->granted && strrchr(parent, '/') != parent)
		*strrchr(parent, '/') = '\0';
	if (policy_access(p, parent, &rule) == ACCESS_DENY && rule)
		return rule;
	for (size_t i = 0; i < p->rules_n; i++)
		if (!p->rules[i].glob && p->rules[i].access == ACCESS_DENY &&
			repo_below(dir, p->rules[i].path))
			return &p->rules[i];
	return NULL;
}

/* Belongs to the repository of one that was allowed before: modules/x/objects beside objects. */
static bool beside(const struct strlist *dirs, size_t n, const char *dir)
{
	for (size_t i = 0; i < n; i++) {
		char top[PATH_MAX];

		snprintf(top, sizeof(top), "%s", dirs->v[i]);
		*strrchr(top, '/') = '\0';
		if (str_ends(dirs->v[i], "/objects") && repo_below(top, dir) &&
			str_starts(dir + strlen(top), "/modules/"))
			return true;
	}
	return false;
}

/* Ours, root's, or of who owns the workspace. */
static bool owner_fine(const struct objects_check *c, const char *dir)
{
	struct stat st, ws;

	return stat(dir, &st) == 0 && stat(c->repo->workspace, &ws) == 0 &&
	       (st.st_uid == geteuid() || st.st_uid == 0 || st.st_uid == ws.st_uid);
}

static int check_one(const struct objects_check *c, const struct strlist *dirs, size_t i,
	bool *ret_left_out, struct err *e)
{
	const char *dir = dirs->v[i];
	const struct repo *r = c->repo;
	bool here = repo_below(r->workspace, dir);
	const struct policy_rule *rule;

	if (strlen(dir) >= PATH_MAX)
		return err_set(e, ENAMETOOLONG, "use the object directory %.100s", dir);
	rule = denying(c, dir);
	*ret_left_out = rule && here;
	if (rule && !here)
		return denied(c, dir, rule, e);
	if (!here && !c->granted && policy_access(c->policy, dir, NULL) == ACCESS_DENY) {
		bool own = repo_is_own(r) &&
			   (repo_below(r->common_dir, dir) || repo_below(r->git_dir, dir));

		if (!own && !beside(dirs, i, dir) && !is_approved(c, dir))
			return not_allowed(c, dir, e);
		if (!owner_fine(c, dir))
			return err_refuse(e,
				"the objects in %s belong to another user; let the policy read "
				"them "
				"with --read, or use a clone of your own",
				dir);
	}
	return here && !c->deep ? 0 : repo_objects_look(dir, !here, c->deep, e);
}

int objects_check(
	const struct objects_check *c, const struct strlist *dirs, bool *left_out, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < dirs->n; i++) {
		bool out = false;

		r = check_one(c, dirs, i, &out, e);
		if (left_out)
			left_out[i] = out;
	}
	return r;
}
