/* SPDX-License-Identifier: Apache-2.0 */
/* The command's environment: see environ.h. */
#include "session/config/environ.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ENVIRON_MAX 4096
#define ENVIRON_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static bool has(const struct strlist *l, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], name, n) == 0 && l->v[i][n] == '=')
			return true;
	return false;
}

static int add(struct strlist *l, const char *name, const char *value, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(256 * 1024);

	buf_addf(&b, "%s=%s", name, value);
	if (b.failed || !strlist_add(l, buf_str(&b)))
		return err_set(e, E2BIG, "environment variable %s", name);
	return 0;
}

/* A default for what every program expects, unless the policy or the caller's value is there. */
static int add_default(struct strlist *l, const char *name, const char *value, struct err *e)
{
	return has(l, name) ? 0 : add(l, name, value, e);
}

/* One more slot than entries, for the NULL that envp ends with. */
int environ_end(struct strlist *ret, struct err *e)
{
	if (ret->n == ret->cap) {
		char **v = realloc(ret->v, (ret->cap + 1) * sizeof(*v));

		if (!v)
			return err_set(e, ENOMEM, "environment");
		ret->v = v;
		ret->cap++;
	}
	ret->v[ret->n] = NULL;
	return 0;
}

int environ_build(struct strlist *ret, const struct policy *p, char *const *caller,
	const struct environ_facts *f, struct err *e)
{
	*ret = STRLIST_INIT(ENVIRON_MAX);
	/* croft's own facts first: nothing may contradict where HOME and TMPDIR really are. */
	if (add(ret, "HOME", f->home, e) < 0 || add(ret, "TMPDIR", f->tmp, e) < 0 ||
		add(ret, "PWD", f->cwd, e) < 0 || add(ret, "CROFT_RUN", f->run_id, e) < 0)
		return -e->errnum;
	if (f->runtime && add(ret, "XDG_RUNTIME_DIR", f->runtime, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < p->env_set_n; i++)
		if (add_default(ret, p->env_set[i].name, p->env_set[i].value, e) < 0)
			return -e->errnum;
	for (; caller && *caller; caller++) {
		const char *eq = strchr(*caller, '=');
		char name[256];

		if (!eq || eq == *caller || (size_t)(eq - *caller) >= sizeof(name))
			continue;
		memcpy(name, *caller, (size_t)(eq - *caller));
		name[eq - *caller] = '\0';
		if (policy_env_passes(p, name) && !has(ret, name) && !strlist_add(ret, *caller))
			return err_set(e, E2BIG, "environment variable %s", name);
	}
	if (add_default(ret, "PATH", ENVIRON_PATH, e) < 0 ||
		add_default(ret, "SHELL", "/bin/sh", e) < 0 ||
		/* Where git looks last, so that whatever anybody sets elsewhere is preferred. */
		(f->git_config && add_default(ret, "GIT_CONFIG_SYSTEM", f->git_config, e) < 0) ||
		(f->git_held && add_default(ret, "GIT_OPTIONAL_LOCKS", "0", e) < 0))
		return -e->errnum;
	return environ_end(ret, e);
}
