/* SPDX-License-Identifier: Apache-2.0 */
/* Private directories on the host: see scratch.h. */
#include "session/run/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"
#include "os/tree.h"

/* A directory of the user's own if the session has one, else the shared one with its sticky bit. */
static int open_base(char *ret, size_t size)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	int fd;

	if (dir && dir[0] == '/') {
		fd = path_resolve(dir, ret, size);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
			st.st_uid == geteuid() && faccessat(fd, ".", W_OK, 0) == 0)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return path_resolve("/tmp", ret, size);
}

/* Which processes our numbers mean: another container may share the directory and the user. */
static unsigned long pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
}

/* "croft-PID.NS-ID" whose process is gone. */
static bool is_stale(int base, const char *name)
{
	char pid_text[16], ns[32];
	uint64_t pid;
	size_t n;
	struct stat st;

	if (!str_starts(name, "croft-"))
		return false;
	n = strcspn(name + 6, ".");
	if (n == 0 || n >= sizeof(pid_text) || name[6 + n] != '.')
		return false;
	snprintf(ns, sizeof(ns), "%lx-", pid_namespace());
	if (!str_starts(name + 7 + n, ns))
		return false;
	memcpy(pid_text, name + 6, n);
	pid_text[n] = '\0';
	if (!str_u64(pid_text, INT32_MAX, &pid) || pid == 0)
		return false;
	if (fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
		st.st_uid != geteuid())
		return false;
	return kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static void sweep(int base)
{
	cleanup_dir DIR *d = dir_list(base, ".");
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (is_stale(base, de->d_name))
			tree_remove_at(base, de->d_name);
}

int scratch_make(struct scratch *s, const char *id, struct err *e)
{
	char base[SCRATCH_PATH_MAX - 64];

	*s = SCRATCH_INIT;
	s->base_fd = open_base(base, sizeof(base));
	if (s->base_fd < 0)
		return err_set(e, -s->base_fd, "find a place for scratch files");
	sweep(s->base_fd);
	snprintf(s->name, sizeof(s->name), "croft-%d.%lx-%.24s", getpid(), pid_namespace(), id);
	if (mkdirat(s->base_fd, s->name, 0700) < 0) {
		int err = errno;

		close_fd(&s->base_fd);
		return err_set(e, err, "make %s/%s", base, s->name);
	}
	snprintf(s->path, sizeof(s->path), "%s/%s", base, s->name);
	snprintf(s->home, sizeof(s->home), "%s/home", s->path);
	snprintf(s->tmp, sizeof(s->tmp), "%s/tmp", s->path);
	if (mkdir(s->home, 0700) < 0 || mkdir(s->tmp, 0700) < 0) {
		int err = errno;

		scratch_remove(s);
		return err_set(e, err, "make scratch directories");
	}
	return 0;
}

void scratch_remove(struct scratch *s)
{
	if (s->base_fd < 0)
		return;
	tree_remove_at(s->base_fd, s->name);
	close_fd(&s->base_fd);
}
