/* SPDX-License-Identifier: Apache-2.0 */
/* Changes in a workspace by the times of its files: see changed.h. */
#include "session/run/changed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/dirnames.h"
#include "os/path.h"

struct look {
	struct record *record;
	const struct policy *policy;
	const struct timespec *since;
	struct strlist dirs; /* that wait: absolute */
	unsigned left;       /* entries */
	bool partly;
};

static bool is_since(const struct look *l, const struct timespec *t)
{
	return t->tv_sec > l->since->tv_sec ||
	       (t->tv_sec == l->since->tv_sec && t->tv_nsec >= l->since->tv_nsec);
}

/* Can the command have written in this directory, or in one below it? */
static bool was_open(const struct look *l, const char *dir)
{
	size_t n = strlen(dir);

	if (policy_access(l->policy, dir, NULL) == ACCESS_WRITE)
		return true;
	for (size_t i = 0; i < l->policy->rules_n; i++) {
		const struct policy_rule *r = &l->policy->rules[i];

		if (r->access == ACCESS_WRITE &&
			(r->glob || (strncmp(r->path, dir, n) == 0 && r->path[n] == '/')))
			return true;
	}
	return false;
}

static void note(struct look *l, int dir, const char *name, const char *path)
{
	cleanup_fd int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct timespec born;

	if (fd < 0 || policy_access(l->policy, path, NULL) != ACCESS_WRITE)
		return;
	record_change(l->record, path,
		fd_born(fd, &born) && is_since(l, &born) ? FILE_CREATED : FILE_MODIFIED);
}

static void look_at(struct look *l, int dir, const char *at, const char *name)
{
	char path[POLICY_PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", at[1] ? at : "", name) >= (int)sizeof(path) ||
		fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		l->partly = true;
	else if (!S_ISDIR(st.st_mode) && is_since(l, &st.st_ctim))
		note(l, dir, name, path);
	else if (S_ISDIR(st.st_mode) && was_open(l, path) && !strlist_add(&l->dirs, path))
		l->partly = true;
}

static void look_in(struct look *l, const char *at)
{
	int fd = path_open(AT_FDCWD, at, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	cleanup_dirnames struct dirnames list;
	const struct dirent *de;
	struct stat st;

	dirnames_init(&list, fd);
	if (fd < 0) {
		l->partly = true;
		return;
	}
	/* Something came, went or was moved here. What came is found; the rest is not. */
	if (fstat(fd, &st) < 0 || is_since(l, &st.st_ctim))
		l->partly = true;
	while ((de = dirnames_next(&list))) {
		if (l->left == 0) {
			l->partly = true;
			return;
		}
		l->left--;
		look_at(l, fd, at, de->d_name);
	}
	l->partly |= list.failed;
}

unsigned changed_entries(uint64_t wall_us)
{
	return (unsigned)MIN_OF(
		CHANGED_ENTRIES_MIN + wall_us / CHANGED_US_AN_ENTRY, (uint64_t)CHANGED_ENTRIES_MAX);
}

bool changed_look(
	struct record *r, const struct policy *p, const struct timespec *since, unsigned entries)
{
	struct look l = {.record = r,
		.policy = p,
		.since = since,
		.dirs = STRLIST_INIT(CHANGED_DIRS_MAX),
		.left = entries};

	if (was_open(&l, r->workspace) && !strlist_add(&l.dirs, r->workspace))
		l.partly = true;
	for (size_t i = 0; i < l.dirs.n; i++)
		look_in(&l, l.dirs.v[i]);
	strlist_done(&l.dirs);
	return !l.partly;
}
