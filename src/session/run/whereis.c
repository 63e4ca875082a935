/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a command is that was not found inside: see whereis.h.
 *
 * Nothing is executed and nothing is granted here: PATH is searched as a shell would, symlinks are
 * followed to what they lead to, and for each place that the policy does not show, the smallest
 * directory is named that holds the program with what belongs to it: the one above a bin, unless
 * that is too wide.
 */
#include "session/run/whereis.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

bool whereis_too_wide(const char *path)
{
	const char *home = getenv("HOME");
	size_t n = strlen(path), parts = 0;

	for (const char *p = path; *p; p++)
		parts += *p == '/' && p[1] && p[1] != '/';
	if (home && strncmp(home, path, n) == 0 && (!home[n] || home[n] == '/' || n == 1))
		return true;
	return parts < 2 ||
	       (parts == 2 && (str_starts(path, "/home/") || str_starts(path, "/usr/")));
}

/* The first of PATH, as a shell finds it. */
static bool search(const char *command, const char *path, char ret[PATH_MAX])
{
	while (path && *path) {
		size_t n = strcspn(path, ":");
		struct stat st;

		if (path[0] == '/' &&
			snprintf(ret, PATH_MAX, "%.*s/%s", (int)n, path, command) < PATH_MAX &&
			stat(ret, &st) == 0 && S_ISREG(st.st_mode) && access(ret, X_OK) == 0)
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

static const char *path_of(char *const *caller)
{
	for (; caller && *caller; caller++)
		if (str_starts(*caller, "PATH="))
			return *caller + 5;
	return NULL;
}

static char *cut(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash && slash != path)
		*slash = '\0';
	return path;
}

/* "--read DIR" for what holds this file; false: nothing that could be granted does. */
static bool add_grant(struct strlist *grants, const char *file, const struct policy *p)
{
	cleanup_buf struct buf option = BUF_INIT(16384);
	const struct policy_rule *rule = NULL;
	char dir[PATH_MAX], above[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", file);
	if (policy_access(p, file, &rule) >= ACCESS_READ)
		return true;
	if (rule && rule->origin.layer == LAYER_FLOOR)
		return false;
	memcpy(above, cut(dir), sizeof(above));
	cut(above);
	if (str_ends(dir, "/bin") && !whereis_too_wide(above) && !str_ends(above, "/.local"))
		memcpy(dir, above, sizeof(dir));
	if (whereis_too_wide(dir) || !policy_path_option(&option, "--read", dir))
		return false;
	return strlist_has(grants, buf_str(&option)) || strlist_add(grants, buf_str(&option));
}

void whereis_explain(
	struct err *e, const char *command, char *const *caller, const struct policy *p)
{
	cleanup_strlist struct strlist grants = STRLIST_INIT(4);
	cleanup_buf struct buf b = BUF_INIT(sizeof(e->msg));
	cleanup_free char *target = NULL;
	char found[PATH_MAX];

	if (strchr(command, '/') || !search(command, path_of(caller), found))
		return;
	target = realpath(found, NULL);
	if (!target || (policy_access(p, found, NULL) >= ACCESS_READ &&
			       policy_access(p, target, NULL) >= ACCESS_READ))
		return; /* it is shown: the reason is another one */
	buf_adds(&b, e->msg);
	buf_adds(&b, "; this machine has it as ");
	str_show_all(&b, found);
	if (add_grant(&grants, found, p) && add_grant(&grants, target, p) && grants.n) {
		buf_adds(&b, ", which is granted by");
		for (size_t i = 0; i < grants.n; i++)
			buf_addf(&b, " %s", grants.v[i]);
	} else {
		buf_adds(&b, ", which the sandbox does not show");
	}
	if (!b.failed)
		snprintf(e->msg, sizeof(e->msg), "%s", buf_str(&b));
}

void whereis_uncommitted(struct err *e, const char *command, const char *cwd, const char *env)
{
	char path[PATH_MAX];
	size_t n = strlen(e->msg);

	if (!strchr(command, '/') || command[0] == '/' ||
		snprintf(path, sizeof(path), "%s/%s", cwd, command) >= (int)sizeof(path) ||
		access(path, X_OK) < 0)
		return;
	snprintf(e->msg + n, sizeof(e->msg) - n,
		"; this directory has it: if it is not committed, %.100s does not, and croft new --dirty "
		"makes an environment that does",
		env);
}
