/* SPDX-License-Identifier: Apache-2.0 */
/* Host services in granted trees: see sockets.h. */
#include "core/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/path.h"

struct search {
	struct strlist *ret;
	const struct policy *p;
	const char *except;
};

static bool is_within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return n == 1 || (strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]));
}

/* A grant that somebody wrote, or a tree that is written in place. */
static bool is_grant(const struct search *s, const struct policy_rule *r)
{
	if (r->access == ACCESS_DENY || r->glob || (s->except && is_within(s->except, r->path)))
		return false;
	return r->access == ACCESS_WRITE ||
	       (r->origin.layer != LAYER_PROFILE && r->origin.layer != LAYER_FLOOR);
}

static int look(struct search *s, const char *text, struct err *e)
{
	cleanup_free char *path = NULL;
	const struct policy_rule *rule = NULL;
	struct err ignored = ERR_INIT;
	struct stat st;

	if (policy_path_normalise(&path, text, &ignored) < 0)
		return 0;
	if ((s->except && is_within(s->except, path)) ||
		policy_access(s->p, path, &rule) == ACCESS_DENY || !rule ||
		(!rule->glob && str_eq(rule->path, path)) || lstat(path, &st) < 0 ||
		!S_ISSOCK(st.st_mode) || strlist_has(s->ret, path))
		return 0;
	if (!strlist_add(s->ret, path))
		return err_refuse(e,
			"more than %d sockets of host services lie in what is granted; "
			"grant less",
			SOCKETS_MAX);
	return 0;
}

/* A name relative to where its service was started, which is often the top of a project. */
static int look_in_grants(struct search *s, const char *name, struct err *e)
{
	for (size_t i = 0; i < s->p->rules_n; i++) {
		cleanup_buf struct buf b = BUF_INIT(POLICY_PATH_MAX);

		if (!is_grant(s, &s->p->rules[i]))
			continue;
		buf_addf(&b, "%s/%s", s->p->rules[i].path, name);
		if (!b.failed && look(s, buf_str(&b), e) < 0)
			return -e->errnum;
	}
	return 0;
}

/* "Num: RefCount Protocol Flags Type St Inode Path": a path may hold spaces, and may be missing. */
static const char *path_of_line(char *line)
{
	for (int i = 0; i < 7; i++) {
		line += strspn(line, " ");
		line += strcspn(line, " ");
	}
	return *line == ' ' ? line + 1 : NULL;
}

static int look_at_list(struct search *s, struct err *e)
{
	cleanup_buf struct buf list = BUF_INIT(SOCKETS_LIST_MAX_B);
	char *line, *save = NULL;
	int r = file_read_at(AT_FDCWD, "/proc/net/unix", &list);

	if (r < 0) {
		err_set(e, -r, "read which sockets the host's services have");
		e->kind = ERR_REFUSED;
		return r;
	}
	for (line = strtok_r(list.data, "\n", &save); line && r == 0;
		line = strtok_r(NULL, "\n", &save)) {
		const char *path = path_of_line(line);

		if (!path || path[0] == '@')
			continue;
		r = path[0] == '/' ? look(s, path, e) : look_in_grants(s, path, e);
	}
	return r;
}

int sockets_find(struct strlist *ret, const struct policy *p, const char *except, struct err *e)
{
	struct search s = {.ret = ret, .p = p, .except = except};

	for (size_t i = 0; i < p->rules_n; i++)
		if (is_grant(&s, &p->rules[i]))
			return look_at_list(&s, e);
	return 0; /* nothing but the system's own trees is shown */
}
