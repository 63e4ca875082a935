/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing a tree: see proctree.h. Every pass reads the process table once, marks descendants, takes
 * their right to fork away (so that a fork bomb loses the race), kills them, and reaps; orphans come
 * to us because we are a subreaper. It ends when a pass finds none.
 */
#include "os/proctree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/uapi.h"

#define PROCTREE_MAX 65536
#define PROCTREE_PASSES 200

#define DEATH_WAIT_MS 1000 /* of one process that has a SIGKILL pending */

struct entry {
	pid_t pid, ppid;
	bool mine;
	bool zombie; /* nothing of it runs any more: not even another thread */
};

#define STAT_NOEXEC 0x40ul /* PF_FORKNOEXEC: it has executed nothing since its fork */
#define STAT_EXITING 0x4ul /* PF_EXITING: it does not come back from here */

/* From /proc/PID/stat, after the last ')': state, parent, and fifteen fields later how many threads. */
static void read_stat(int proc, const char *name, struct entry *t)
{
	char path[64], text[512];
	cleanup_fd int fd = -1;
	const char *p;
	ssize_t n;

	t->ppid = -1;
	t->zombie = false;
	if (snprintf(path, sizeof(path), "%s/stat", name) >= (int)sizeof(path))
		return;
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, sizeof(text) - 1)) <= 0)
		return;
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p || strlen(p) < 5)
		return;
	t->ppid = (pid_t)strtol(p + 4, NULL, 10);
	t->zombie = p[2] == 'Z' || p[2] == 'X';
	for (int i = 0; i < 18 && p; i++)
		p = strchr(p + 1, ' ');
	t->zombie = t->zombie && p && strtol(p, NULL, 10) <= 1;
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
		t[n].mine = false;
		read_stat(dirfd(d), de->d_name, &t[n]);
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

/*
 * Not waitpid(): while somebody traces it, the kernel shows its end to that one alone, who may be a
 * neighbour in the sandbox that wants us to wait for ever. Then it is reaped when the tracer has ended.
 */
static void wait_for_death(pid_t pid)
{
	cleanup_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	poll(&p, 1, fd < 0 ? 1 : DEATH_WAIT_MS);
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
			if (t[i].zombie)
				continue;
			alive = kill(t[i].pid, SIGKILL) == 0 || alive;
			if (t[i].ppid == getpid())
				direct = t[i].pid;
		}
		/* Wait for one death rather than spinning: every member has a SIGKILL pending. */
		if (direct)
			wait_for_death(direct);
		for (size_t i = 0; i < n; i++)
			if (t[i].mine && t[i].ppid == getpid())
				waitpid(t[i].pid, NULL, WNOHANG);
		if (!alive)
			return;
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

/* /proc/PID/stat from the letter of the state on; NULL when there is none. */
static const char *stat_of(pid_t pid, char *text, size_t size)
{
	char path[64];
	cleanup_fd int fd = -1;
	const char *p;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, size - 1)) <= 0)
		return NULL;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && p[1] == ' ' && p[2] ? p + 2 : NULL;
}

/* A field of the stat after the state, which is 0. */
static const char *stat_field(const char *stat, int n)
{
	for (; n > 0 && stat; n--)
		stat = strchr(stat + 1, ' ');
	return stat;
}

/* A leader may have ended while others run. */
static bool is_gone(const char *stat)
{
	const char *threads = stat_field(stat, 17);

	return strchr("ZX", *stat) && (!threads || strtol(threads, NULL, 10) <= 1);
}

/*
 * Every thread that has not ended, since the first one may have, and then says nothing of the others. False
 * when one runs; *ret_waiting: how many wait in the kernel for what no signal interrupts.
 */
static bool threads_stand(pid_t pid, size_t *ret_waiting)
{
	char path[64], text[512];
	cleanup_dir DIR *d = NULL;
	struct dirent *de;

	*ret_waiting = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		const char *p;
		uint64_t tid;

		if (!str_u64(de->d_name, INT32_MAX, &tid))
			continue;
		p = stat_of((pid_t)tid, text, sizeof(text));
		if (p && *p == 'D')
			(*ret_waiting)++;
		else if (p && !strchr("TtZX", *p))
			return false;
	}
	return true;
}

bool proctree_stopped(pid_t pid)
{
	char text[512];
	const char *p = stat_of(pid, text, sizeof(text));
	size_t waiting;

	if (!p || is_gone(p))
		return true;
	return strchr("TtZX", *p) && threads_stand(pid, &waiting) && waiting == 0;
}

/* A child that shares the memory of its parent until its exec, as far as the process table shows. */
static bool is_stopped_vfork(pid_t child, const char *parent)
{
	char text[512];
	const char *p = stat_of(child, text, sizeof(text)), *flags, *ours, *theirs;

	flags = p ? stat_field(p, 6) : NULL;
	ours = p ? stat_field(p, 20) : NULL;
	theirs = stat_field(parent, 20); /* the size of the memory */
	return flags && ours && theirs && (strtoul(flags, NULL, 10) & STAT_NOEXEC) &&
	       strtoull(ours, NULL, 10) == strtoull(theirs, NULL, 10) && proctree_stopped(child);
}

bool proctree_vfork_stopped(pid_t pid)
{
	cleanup_free struct entry *t = NULL;
	char text[512];
	const char *p = stat_of(pid, text, sizeof(text));
	size_t waiting, children = 0, n;

	if (!p || !threads_stand(pid, &waiting) || waiting == 0)
		return false;
	t = calloc(PROCTREE_MAX, sizeof(*t));
	n = t ? read_table(t, PROCTREE_MAX) : 0;
	for (size_t i = 0; i < n; i++)
		children += t[i].ppid == pid && is_stopped_vfork(t[i].pid, p);
	return waiting <= children;
}

bool proctree_will_stop(pid_t pid)
{
	char path[64], text[4096];
	cleanup_fd int fd = -1;
	const char *p;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[MAX_OF(n, (ssize_t)0)] = '\0';
	p = strstr(text, "\nShdPnd:"); /* signals to the process, not to one thread; the first is bit 0 */
	return p && (strtoull(p + 8, NULL, 16) & 1ull << (SIGSTOP - 1));
}

bool proctree_ending(pid_t pid)
{
	char text[512];
	const char *p = stat_of(pid, text, sizeof(text));
	unsigned long flags;

	if (!p || is_gone(p))
		return true;
	if (strchr("ZX", *p)) /* its first thread has ended, and others live */
		return false;
	/* After the state: parent, group, session, terminal, its group, flags. */
	if (sscanf(p + 1, " %*d %*d %*d %*d %*d %lu", &flags) != 1)
		return true;
	return flags & STAT_EXITING;
}
