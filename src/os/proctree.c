/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing a tree: see proctree.h. Every pass reads the process table once, marks descendants, takes
 * their right to fork away (so that a fork bomb loses the race), kills them, and reaps; orphans come
 * to us because we are a subreaper. It ends when a pass finds none.
 */
#include "os/proctree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define PROCTREE_MAX 65536
#define PROCTREE_PASSES 200

struct entry {
	pid_t pid, ppid;
	bool mine;
};

/* ppid from /proc/PID/stat: the field after the last ')' and the state letter. */
static pid_t parent_of(int proc, const char *name)
{
	char path[64], text[512];
	cleanup_fd int fd = -1;
	const char *p;
	ssize_t n;

	if (snprintf(path, sizeof(path), "%s/stat", name) >= (int)sizeof(path))
		return -1;
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, sizeof(text) - 1)) <= 0)
		return -1;
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p || strlen(p) < 5)
		return -1;
	return (pid_t)strtol(p + 4, NULL, 10);
}

static size_t read_table(struct entry *t, size_t max)
{
	cleanup_dir DIR *d = opendir("/proc");
	struct dirent *de;
	size_t n = 0;

	while (d && n < max && (de = readdir(d))) {
		uint64_t pid;

		if (!str_u64(de->d_name, INT32_MAX, &pid))
			continue;
		t[n].pid = (pid_t)pid;
		t[n].ppid = parent_of(dirfd(d), de->d_name);
		t[n].mine = false;
		n++;
	}
	return n;
}

static bool spared(pid_t pid, const pid_t *spare, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (spare[i] == pid)
			return true;
	return false;
}

static void mark_descendants(
	struct entry *t, size_t n, pid_t root, const pid_t *spare, size_t spare_n)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			if (t[i].mine || spared(t[i].pid, spare, spare_n))
				continue;
			for (size_t j = 0; j < n && !t[i].mine; j++)
				if (t[i].ppid == root || (t[j].mine && t[j].pid == t[i].ppid))
					t[i].mine = changed = true;
		}
	}
}

/*
 * Our children as the kernel lists them, for every thread of ours. Returns how many, or -1 where it
 * does not (then only the whole process table tells).
 */
static ssize_t listed_children(pid_t *ret, size_t max)
{
	cleanup_dir DIR *d = opendir("/proc/self/task");
	struct dirent *de;
	size_t n = 0;

	while (d && (de = readdir(d))) {
		char path[300], text[8192], *p = text;
		cleanup_fd int fd = -1;
		ssize_t len;

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/children", de->d_name);
		fd = openat(dirfd(d), path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (len = read(fd, text, sizeof(text) - 1)) < 0 ||
			len == (ssize_t)sizeof(text) - 1)
			return -1;
		text[len] = '\0';
		while (*(p += strspn(p, " "))) {
			if (n == max)
				return -1;
			ret[n++] = (pid_t)strtol(p, &p, 10);
		}
	}
	return d ? (ssize_t)n : -1;
}

/* The usual end of a command: nothing was left behind. */
static bool nothing_left(const pid_t *spare, size_t spare_n)
{
	pid_t now[256];
	ssize_t n = listed_children(now, ARRAY_SIZE(now));

	for (ssize_t i = 0; i < n; i++)
		if (!spared(now[i], spare, spare_n))
			return false;
	return n >= 0;
}

size_t proctree_children(pid_t *ret, size_t max)
{
	ssize_t listed = listed_children(ret, max);
	cleanup_free struct entry *t = listed < 0 ? calloc(PROCTREE_MAX, sizeof(*t)) : NULL;
	size_t n = t ? read_table(t, PROCTREE_MAX) : 0, out = listed > 0 ? (size_t)listed : 0;

	for (size_t i = 0; i < n && out < max; i++)
		if (t[i].ppid == getpid())
			ret[out++] = t[i].pid;
	return out;
}

void proctree_kill(const pid_t *spare, size_t spare_n)
{
	static const struct rlimit none = {0, 0};
	cleanup_free struct entry *t = NULL;

	if (nothing_left(spare, spare_n))
		return;
	t = calloc(PROCTREE_MAX, sizeof(*t));
	for (int pass = 0; t && pass < PROCTREE_PASSES; pass++) {
		size_t n = read_table(t, PROCTREE_MAX);
		pid_t direct = 0;
		bool alive = false;

		mark_descendants(t, n, getpid(), spare, spare_n);
		for (size_t i = 0; i < n; i++)
			if (t[i].mine)
				prlimit(t[i].pid, RLIMIT_NPROC, &none, NULL);
		for (size_t i = 0; i < n; i++) {
			if (!t[i].mine)
				continue;
			alive = kill(t[i].pid, SIGKILL) == 0 || alive;
			if (t[i].ppid == getpid())
				direct = t[i].pid;
		}
		if (!alive)
			return;
		/* Wait for one death rather than spinning: every member has a SIGKILL pending. */
		if (direct)
			waitpid(direct, NULL, 0);
		for (size_t i = 0; i < n; i++)
			if (t[i].mine && t[i].ppid == getpid())
				waitpid(t[i].pid, NULL, WNOHANG);
	}
}

size_t proctree_below(pid_t root, pid_t *ret, size_t max)
{
	cleanup_free struct entry *t = calloc(PROCTREE_MAX, sizeof(*t));
	size_t n = t ? read_table(t, PROCTREE_MAX) : 0, out = 0;

	mark_descendants(t, n, root, NULL, 0);
	for (size_t i = 0; i < n && out < max; i++)
		if (t[i].mine || t[i].pid == root)
			ret[out++] = t[i].pid;
	return out;
}
