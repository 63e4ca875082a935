/* SPDX-License-Identifier: Apache-2.0 */
/* engine/expand: rules to places on this machine: symlinks, globs, absence, conflicts. */
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/plan/expand.h"
#include "os/tree.h"

static char dir[] = "/tmp/croft-unit-expand-XXXXXX";
static bool made;

static const char *at(const char *name)
{
	static char p[4][PATH_MAX];
	static int i;
	char *s = p[i++ % 4];

	snprintf(s, PATH_MAX, "%s/%s", dir, name);
	return s;
}

static bool make_world(void)
{
	if (made)
		return true;
	made = mkdtemp(dir) != NULL;
	if (!made)
		return false;
	mkdir(at("w"), 0755);
	mkdir(at("w/sub"), 0755);
	mkdir(at("secret"), 0755);
	close(open(at("w/.env"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	close(open(at("w/sub/.env"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	symlink("../secret", at("w/to-secret"));
	symlink("nowhere", at("w/dangling"));
	symlink("secret", at("alias"));
	return true;
}

__attribute__((destructor)) static void remove_world(void)
{
	if (made)
		tree_remove_at(AT_FDCWD, dir);
}

struct rule_text {
	enum access access;
	const char *path;
};

static int expand(struct places *ps, const struct rule_text *t, size_t n, struct err *e)
{
	struct policy_context ctx = {.home = "/nonexistent-home", .workspace = at("w")};
	struct policy_layer *l = NULL;
	struct policy p;
	int r = policy_layer_new(&l, LAYER_CLI, "test", e);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = policy_layer_add_rule(l, t[i].access, t[i].path, &ctx, e);
	if (r == 0)
		r = policy_resolve(&p, &l, 1, false, &ctx, e);
	policy_layer_free(l);
	if (r < 0)
		return r;
	r = places_expand(ps, &p, e);
	policy_done(&p);
	return r;
}

static const struct place *find(const struct places *ps, const char *path)
{
	for (size_t i = 0; i < ps->n; i++)
		if (strcmp(ps->v[i].path, path) == 0)
			return &ps->v[i];
	return NULL;
}

TEST(a_grant_through_a_symlink_cannot_open_what_is_denied)
{
	struct places ps = {0};
	struct err e = ERR_INIT;
	struct rule_text t[] = {{ACCESS_READ, NULL}, {ACCESS_DENY, NULL}};

	CHECK(make_world());
	t[0].path = at("alias");
	t[1].path = at("secret");
	CHECK(expand(&ps, t, 2, &e) < 0);
	CHECK_INT(e.kind, ERR_REFUSED);
	/* Control: without the denial the same grant names the target, with the symlink as alias. */
	e = ERR_INIT;
	CHECK_INT(expand(&ps, t, 1, &e), 0);
	CHECK(find(&ps, at("secret")) && find(&ps, at("secret"))->alias);
	places_done(&ps);
}

TEST(a_symlink_in_a_writable_tree_leads_nowhere_else)
{
	struct places ps = {0};
	struct err e = ERR_INIT;
	struct rule_text t = {ACCESS_READ, NULL};

	CHECK(make_world());
	t.path = at("w/to-secret"); /* the workspace is writable: an earlier run may have made it */
	CHECK(expand(&ps, &t, 1, &e) < 0);
	CHECK_INT(e.kind, ERR_REFUSED);
}

TEST(deny_globs_find_every_match)
{
	struct places ps = {0};
	struct err e = ERR_INIT;
	struct rule_text t[] = {{ACCESS_WRITE, NULL}, {ACCESS_DENY, NULL}};

	CHECK(make_world());
	t[0].path = at("w");
	t[1].path = at("w/**/.env");
	CHECK_INT(expand(&ps, t, 2, &e), 0);
	CHECK(find(&ps, at("w/.env")) && find(&ps, at("w/.env"))->access == ACCESS_DENY);
	CHECK(find(&ps, at("w/sub/.env")) && find(&ps, at("w/sub/.env"))->access == ACCESS_DENY);
	CHECK(ps.late_names); /* names that match later must be watched, too */
	places_done(&ps);
}

TEST(absent_names_in_writable_trees_are_kept)
{
	struct places ps = {0};
	struct err e = ERR_INIT;
	struct rule_text t[] = {{ACCESS_WRITE, NULL}, {ACCESS_DENY, NULL}};

	CHECK(make_world());
	t[0].path = at("w");
	t[1].path = at("w/absent");
	CHECK_INT(expand(&ps, t, 2, &e), 0);
	CHECK(ps.late_names && find(&ps, at("w/absent")) && find(&ps, at("w/absent"))->absent);
	places_done(&ps);
	/* A dangling symlink is not absence. */
	t[1].path = at("w/dangling");
	CHECK(expand(&ps, t, 2, &e) < 0);
	/* A grant of something absent outside is a mistake to be told. */
	t[1] = (struct rule_text){ACCESS_READ, at("no/such")};
	CHECK(expand(&ps, t, 2, &e) < 0);
}

TEST(parents_come_before_children)
{
	struct places ps = {0};
	struct err e = ERR_INIT;
	struct rule_text t[] = {{ACCESS_READ, NULL}, {ACCESS_WRITE, NULL}, {ACCESS_READ, NULL}};

	CHECK(make_world());
	t[0].path = at("w/sub");
	t[1].path = at("w");
	t[2].path = at("secret");
	CHECK_INT(expand(&ps, t, 3, &e), 0);
	for (size_t i = 1; i < ps.n; i++) {
		size_t n = strlen(ps.v[i].path);

		CHECK(strncmp(ps.v[i - 1].path, ps.v[i].path, n) != 0 ||
			ps.v[i - 1].path[n] != '/');
	}
	CHECK_INT(places_above(&ps, at("w/sub/x"), NULL), ACCESS_READ);
	CHECK_INT(places_above(&ps, at("w/x"), NULL), ACCESS_WRITE);
	CHECK_INT(places_above(&ps, at("x"), NULL), ACCESS_DENY);
	places_done(&ps);
}
