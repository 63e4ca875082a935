/* SPDX-License-Identifier: Apache-2.0 */
/* Host services in granted trees: see sockets.h. */
#include "session/config/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/dirnames.h"
#include "os/path.h"

struct search {
	struct strlist *ret;
	const struct policy *p;
	const char *except;
	struct strlist names; /* last parts of names that are relative to somewhere */
	struct strlist dirs;  /* to be looked through for them */
	unsigned left;        /* entries */
};

/* A grant that somebody wrote, or a tree that is written in place. */
static bool is_grant(const struct search *s, const struct policy_rule *r)
{
	if (r->access == ACCESS_DENY || r->glob || (s->except && path_within(s->except, r->path)))
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
	if ((s->except && path_within(s->except, path)) ||
		policy_access(s->p, path, &rule) == ACCESS_DENY || !rule ||
		policy_rule_grants(s->p, rule, path) || lstat(path, &st) < 0 ||
		!S_ISSOCK(st.st_mode) || strlist_has(s->ret, path))
		return 0;
	if (!strlist_add(s->ret, path))
		return err_refuse(e,
			"more than %d sockets of host services lie in what is granted; "
			"grant less",
			SOCKETS_MAX);
	return 0;
}

/* A name relative to where its service was started, which may be anywhere: sought by its last part. */
static void remember(struct search *s, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (*name && !strlist_has(&s->names, name))
		strlist_add(&s->names, name);
}

static int look_in_dir(struct search *s, const char *at, struct err *e)
{
	cleanup_dirnames struct dirnames l;
	const struct dirent *de;

	dirnames_init(&l, path_open(AT_FDCWD, at, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS));
	while (s->left && (de = dirnames_next(&l))) {
		bool named = strlist_has(&s->names, de->d_name);
		bool dir = de->d_type == DT_DIR || de->d_type == DT_UNKNOWN;
		char path[POLICY_PATH_MAX];

		s->left--;
		if (!(named || dir) || snprintf(path, sizeof(path), "%s/%s", at[1] ? at : "",
					       de->d_name) >= (int)sizeof(path))
			continue;
		if (named && look(s, path, e) < 0)
			return -e->errnum;
		if (dir && policy_access(s->p, path, NULL) != ACCESS_DENY)
			strlist_add(&s->dirs, path);
	}
	return 0;
}

/* Nearest first. Only where there is such a name at all. */
static int look_in_grants(struct search *s, struct err *e)
{
	s->left = SOCKETS_ENTRIES_MAX;
	for (size_t i = 0; s->names.n && i < s->p->rules_n; i++)
		if (is_grant(s, &s->p->rules[i]))
			strlist_add(&s->dirs, s->p->rules[i].path);
	for (size_t i = 0; i < s->dirs.n && s->left; i++)
		if (look_in_dir(s, s->dirs.v[i], e) < 0)
			return -e->errnum;
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
	char *line, *save = NULL, *first;
	int r = file_read_at(AT_FDCWD, "/proc/net/unix", &list);

	if (r < 0) {
		err_set(e, -r, "read which sockets the host's services have");
		e->kind = ERR_REFUSED;
		return r;
	}
	first = strchr(buf_str(&list), '\n'); /* what stands before are the names of the columns */
	for (line = first ? strtok_r(first, "\n", &save) : NULL; line && r == 0;
		line = strtok_r(NULL, "\n", &save)) {
		const char *path = path_of_line(line);

		if (!path || path[0] == '@')
			continue;
		if (path[0] == '/')
			r = look(s, path, e);
		else
			remember(s, path);
	}
	return r == 0 ? look_in_grants(s, e) : r;
}

int sockets_find(struct strlist *ret, const struct policy *p, const char *except, struct err *e)
{
	struct search s = {.ret = ret,
		.p = p,
		.except = except,
		.names = STRLIST_INIT(SOCKETS_MAX),
		.dirs = STRLIST_INIT(SOCKETS_DIRS_MAX)};
	bool any = false; /* or nothing but the system's own trees is shown */
	int r = 0;

	for (size_t i = 0; i < p->rules_n; i++)
		any |= is_grant(&s, &p->rules[i]);
	if (any)
		r = look_at_list(&s, e);
	strlist_done(&s.names);
	strlist_done(&s.dirs);
	return r;
}
