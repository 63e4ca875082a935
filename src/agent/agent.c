/* SPDX-License-Identifier: Apache-2.0 */
/* Where agent files are: the user's, and those that come with croft. See agent.h. */
#include "agent/agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/path.h"

#define AGENTS_MAX 256u
#define SUFFIX ".yaml"

/* 1: read; 0: there is none. A file that anybody could have written is not believed. */
static int read_file(const char *path, struct buf *ret, struct err *e)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "read the agent file %s", path);
	if (!S_ISREG(st.st_mode))
		return err_invalid(e, "%s is not a regular file", path);
	if (st.st_mode & S_IWOTH)
		return err_refuse(
			e, "%s can be written by everybody; run: chmod o-w %s", path, path);
	r = file_read_fd(fd, ret);
	if (r == -EFBIG)
		return err_invalid(
			e, "%s: an agent file may hold at most %u bytes", path, AGENT_FILE_MAX_B);
	return r < 0 ? err_set(e, -r, "read the agent file %s", path) : 1;
}

/*
 * The directory of the shipped ones: in share beside croft's bin, or in the source tree around the build. As
 * with croft-gateway, never by a variable, and an installed croft has one place only.
 */
static bool shipped(char *ret, size_t size, int turn)
{
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own));
	char *slash;
	bool installed;

	if (n <= 0 || (size_t)n >= sizeof(own))
		return false;
	own[n] = '\0';
	slash = strrchr(own, '/');
	if (!slash)
		return false;
	*slash = '\0';
	installed = str_ends(own, "/bin");
	if (turn > (installed ? 0 : 1))
		return false;
	for (int up = 0; up <= turn; up++) {
		slash = strrchr(own, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
	return (size_t)snprintf(ret, size, "%s/share/croft/agents", own) < size;
}

static int load(struct agent *ret, const char *dir, const char *name, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(AGENT_FILE_MAX_B);
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s" SUFFIX, dir, name) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "read the agent file of %s", name);
	r = read_file(path, &text, e);
	if (r > 0)
		r = agent_parse(ret, path, name, buf_str(&text), text.len, e);
	else if (r == 0)
		return 0;
	return r < 0 ? r : 1;
}

static int unknown(const char *config, const char *name, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(AGENTS_MAX);
	struct err ignored = ERR_INIT;
	const char *near = NULL;

	if (agent_names(&names, config, &ignored) == 0)
		near = str_nearest(name, (const char *const *)names.v, names.n);
	if (near)
		return err_invalid(e, "there is no agent called %.40s; did you mean %s?", name, near);
	return err_invalid(e, "there is no agent called %.40s; see: croft agent ls", name);
}

int agent_find(struct agent *ret, const char *config, const char *name, struct err *e)
{
	char dir[PATH_MAX];
	int r = 0;

	if (!agent_name_valid(name))
		return err_invalid(e,
			"%.60s is not a name for an agent: small letters, digits and -, at most 32", name);
	if (snprintf(dir, sizeof(dir), "%s/agents", config) < (int)sizeof(dir))
		r = load(ret, dir, name, e);
	for (int turn = 0; r == 0 && shipped(dir, sizeof(dir), turn); turn++)
		r = load(ret, dir, name, e);
	if (r == 0)
		return unknown(config, name, e);
	return r < 0 ? r : 0;
}

static int list(struct strlist *ret, const char *path, struct err *e)
{
	cleanup_dir DIR *d = opendir(path);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		char name[NAME_MAX + 1];
		size_t n = strlen(de->d_name);

		if (!str_ends(de->d_name, SUFFIX))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(n - strlen(SUFFIX)), de->d_name);
		if (!agent_name_valid(name) || strlist_has(ret, name))
			continue;
		if (!strlist_add(ret, name))
			return err_invalid(e, "there are more than %u agent files", AGENTS_MAX);
	}
	return 0;
}

int agent_names(struct strlist *ret, const char *config, struct err *e)
{
	char dir[PATH_MAX];
	int r = 0;

	*ret = STRLIST_INIT(AGENTS_MAX);
	if (snprintf(dir, sizeof(dir), "%s/agents", config) < (int)sizeof(dir))
		r = list(ret, dir, e);
	for (int turn = 0; r == 0 && shipped(dir, sizeof(dir), turn); turn++)
		r = list(ret, dir, e);
	if (r < 0)
		strlist_done(ret);
	else
		strlist_sort(ret);
	return r;
}

int agent_add(const char *config, const char *file, char **ret_path, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(AGENT_FILE_MAX_B), path = BUF_INIT(PATH_MAX);
	cleanup_fd int dir = -1;
	char name[AGENT_NAME_MAX + sizeof(SUFFIX)];
	struct agent a;
	int r = read_file(file, &text, e);

	if (r == 0)
		return err_set(e, ENOENT, "read the agent file %s", file);
	if (r < 0 || (r = agent_parse(&a, file, NULL, buf_str(&text), text.len, e)) < 0)
		return r;
	snprintf(name, sizeof(name), "%s" SUFFIX, a.name);
	agent_done(&a);
	buf_addf(&path, "%s/agents", config);
	dir = dir_make(buf_str(&path), 0700);
	if (dir < 0)
		return err_set(e, -dir, "make %s", buf_str(&path));
	r = file_replace_at(dir, name, buf_str(&text), text.len, 0600);
	if (r < 0)
		return err_set(e, -r, "write %s/%s", buf_str(&path), name);
	buf_addf(&path, "/%s", name);
	*ret_path = buf_take(&path);
	return *ret_path ? 0 : err_set(e, ENOMEM, "add the agent");
}
