/* SPDX-License-Identifier: Apache-2.0 */
/* core/environ: nothing of the caller's environment gets in unless the policy passes it. */
#include "test.h"

#include "base/cleanup.h"
#include "session/config/environ.h"

static const struct environ_facts facts = {
	.home = "/h", .tmp = "/tmp", .runtime = "/run/user/1", .cwd = "/w", .run_id = "abc"};

static const char *value(const struct strlist *l, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], name, n) == 0 && l->v[i][n] == '=')
			return l->v[i] + n + 1;
	return NULL;
}

TEST(only_what_is_passed_gets_in)
{
	static const char *const caller[] = {"AWS_SECRET_ACCESS_KEY=s", "TERM=xterm", "LC_ALL=C",
		"LCX=1", "=odd", "noeq", "HOME=/evil", NULL};
	struct policy p = {.env_pass = STRLIST_INIT(8)};
	struct strlist out;
	struct err e = ERR_INIT;

	strlist_add(&p.env_pass, "TERM");
	strlist_add(&p.env_pass, "LC_*");
	strlist_add(&p.env_pass, "HOME");
	CHECK_INT(environ_build(&out, &p, (char *const *)(uintptr_t)caller, &facts, &e), 0);
	CHECK(!value(&out, "AWS_SECRET_ACCESS_KEY"));
	CHECK(!value(&out, "LCX"));
	CHECK_STR(value(&out, "TERM"), "xterm");
	CHECK_STR(value(&out, "LC_ALL"), "C");
	CHECK_STR(value(&out, "HOME"), "/h"); /* croft's facts are not for anyone to change */
	CHECK(value(&out, "PATH") != NULL);
	CHECK(out.v[out.n] == NULL);
	strlist_done(&out);
	strlist_done(&p.env_pass);
}
