/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a sandbox's cgroup: see cgroup.h; where it goes is cgroup_place.c's to find.
 *
 * Names are croft-PID.NS.TIME-ID: the supervisor's pid, its pid namespace and the time since boot,
 * by which a later croft knows whether the group still has its owner or only somebody with its
 * number.
 */
#include "os/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/cgroup_impl.h"
#include "os/clock.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/proctree.h"

const char *const cgroup_kind_names[CGROUP_KIND_NUM] = {"none", "v1", "v2", "hybrid"};

#define CPU_PERIOD_US 100000u
#define CPU_QUOTA_MIN_US 1000u /* the kernel's smallest */
#define FILE_TEXT_MAX 4096     /* of a statistics file; what we look for stands early */
#define DRAIN_MS_MAX 2000      /* how long a group may take to empty or to go away */
#define REAP_EVERY 16u         /* one run in this many looks for stale neighbours */

/* --- small files --- */

/* One read into a fixed buffer: the value files of cgroupfs answer in one piece. */
static bool read_text(int dir_fd, const char *file, char ret[FILE_TEXT_MAX])
{
	cleanup_fd int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, FILE_TEXT_MAX - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n >= 0;
}

/* "123\n", or the number after `key` at the start of a line. 0 when absent. */
static uint64_t read_number(int dir_fd, const char *file, const char *key)
{
	char text[FILE_TEXT_MAX];
	const char *p = text;
	size_t n = key ? strlen(key) : 0;

	if (!read_text(dir_fd, file, text))
		return 0;
	while (key && p && (strncmp(p, key, n) != 0 || p[n] != ' ')) {
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return p ? strtoull(p + n, NULL, 10) : 0;
}

static int poke_number(int dir_fd, const char *file, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	return file_poke_at(dir_fd, file, text);
}

/* --- waiting --- */

/* Sleep 50 µs, then twice as long each time up to 10 ms; false when the time is up. */
static bool wait_a_little(unsigned *round, uint64_t until_ms)
{
	struct timespec t = {.tv_nsec = 50000L << (*round < 7 ? *round : 7)};

	if (clock_ms() >= until_ms)
		return false;
	(*round)++;
	nanosleep(&t, NULL);
	return true;
}

/* --- making --- */

static int set_memory(int fd, bool v2, uint64_t v)
{
	struct sysinfo si;
	int rc = poke_number(fd, v2 ? "memory.max" : "memory.limit_in_bytes", v);

	/* Swap would only make the limit slow. Kernels without swap accounting have no such file.
	 */
	if (rc == 0 && sysinfo(&si) == 0 && si.totalswap > 0) {
		if (v2)
			file_poke_at(fd, "memory.swap.max", "0");
		else
			poke_number(fd, "memory.memsw.limit_in_bytes", v);
	}
	return rc;
}

static int set_cpu(int fd, bool v2, uint64_t milli)
{
	uint64_t quota =
		milli > UINT64_MAX / CPU_PERIOD_US ? UINT64_MAX : milli * CPU_PERIOD_US / 1000;
	char text[64];

	quota = MAX_OF(quota, CPU_QUOTA_MIN_US);
	if (!v2)
		return poke_number(fd, "cpu.cfs_quota_us", quota);
	snprintf(text, sizeof(text), "%" PRIu64 " %u", quota, CPU_PERIOD_US);
	return file_poke_at(fd, "cpu.max", text);
}

/* Each limit that holds stays in the returned set. */
static unsigned set_limits(int fd, const struct cgroup_place *p, const struct cgroup_limits *l)
{
	unsigned has = p->has;

	if ((has & CGROUP_HAS_MEMORY) && set_memory(fd, p->v2, l->memory_b) < 0)
		has &= ~(unsigned)CGROUP_HAS_MEMORY;
	if ((has & CGROUP_HAS_CPU) && set_cpu(fd, p->v2, l->cpu_milli) < 0)
		has &= ~(unsigned)CGROUP_HAS_CPU;
	if ((has & CGROUP_HAS_PIDS) && poke_number(fd, "pids.max", l->pids) < 0)
		has &= ~(unsigned)CGROUP_HAS_PIDS;
	return has;
}

/* The inode of our pid namespace: pids in names mean something only within it. */
static unsigned long pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 ? 0 : (unsigned long)st.st_ino;
}

/* Hundredths of a second since boot: what /proc/PID/stat counts in. */
static uint64_t boot_ticks(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 100 + (uint64_t)t.tv_nsec / 10000000;
}

static bool valid_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

	return n > 0 && n <= CGROUP_ID_MAX && id[n] == '\0';
}

/* Make our directory in one place; takes over the place's descriptor. */
static int make_dir(
	struct cgroup *c, size_t i, struct cgroup_place *p, const struct cgroup_limits *l)
{
	cleanup_fd int parent = take_fd(&p->fd);
	int rc = mkdirat(parent, c->name, 0755);

	if (rc < 0 && errno == EEXIST && unlinkat(parent, c->name, AT_REMOVEDIR) == 0)
		rc = mkdirat(parent, c->name, 0755);
	if (rc < 0)
		return -errno;
	c->dir_fd[i] = openat(parent, c->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->dir_fd[i] < 0) {
		rc = -errno;
		unlinkat(parent, c->name, AT_REMOVEDIR);
		return rc;
	}
	if (p->threaded && (rc = file_poke_at(c->dir_fd[i], "cgroup.type", "threaded")) < 0) {
		close_fd(&c->dir_fd[i]);
		unlinkat(parent, c->name, AT_REMOVEDIR);
		return rc;
	}
	c->threaded |= p->threaded;
	c->parent_fd[i] = take_fd(&parent);
	c->dir_v2[i] = p->v2;
	c->dir_has[i] = set_limits(c->dir_fd[i], p, l);
	return 0;
}

static enum cgroup_kind kind_of(const struct cgroup *c)
{
	bool v1 = false, v2 = false;

	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		v1 |= c->dir_fd[i] >= 0 && !c->dir_v2[i];
		v2 |= c->dir_fd[i] >= 0 && c->dir_v2[i];
	}
	return v1 && v2 ? CGROUP_HYBRID : v1 ? CGROUP_V1 : v2 ? CGROUP_V2 : CGROUP_NONE;
}

/* Directories count their subdirectories as links: a neighbour, or none to look at. */
static bool has_neighbours(const struct cgroup *c)
{
	struct stat st;

	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		if (c->parent_fd[i] >= 0 && fstat(c->parent_fd[i], &st) == 0 && st.st_nlink > 3)
			return true;
	}
	return false;
}

unsigned cgroup_wanted(const struct cgroup_limits *l)
{
	return (l->memory_b != UINT64_MAX ? CGROUP_HAS_MEMORY : 0u) |
	       (l->cpu_milli != UINT64_MAX ? CGROUP_HAS_CPU : 0u) |
	       (l->pids != UINT64_MAX ? CGROUP_HAS_PIDS : 0u);
}

int cgroup_begin(struct cgroup *c, const char *id, struct err *e)
{
	*c = CGROUP_INIT;
	if (!valid_id(id))
		return err_invalid(e, "a cgroup cannot be named after this id");
	snprintf(c->name, sizeof(c->name), "croft-%d.%lx.%" PRIx64 "-%s", getpid(), pid_namespace(),
		boot_ticks(), id);
	if (!forced_fail("cgroup"))
		return 0;
	snprintf(c->why, sizeof(c->why), "cgroups are switched off for a test");
	return 1;
}

void cgroup_make_in(
	struct cgroup *c, struct cgroup_place *place, size_t n, const struct cgroup_limits *l)
{
	for (size_t i = 0; i < n; i++) {
		int rc = make_dir(c, i, &place[i], l);

		if (rc < 0)
			snprintf(c->why, sizeof(c->why), "cannot make a cgroup (%s v%d): %s",
				c->name, place[i].v2 ? 2 : 1, strerror(-rc));
		else if (c->dir_has[i] != place[i].has)
			snprintf(c->why, sizeof(c->why), "the kernel refuses a cgroup limit");
		c->has |= c->dir_has[i];
	}
	c->kind = kind_of(c);
	/* By the random id, not by our pid: runs in a row take pids in equal steps. */
	if ((unsigned char)c->name[strlen(c->name) - 1] % REAP_EVERY == 0 && has_neighbours(c))
		cgroup_reap_stale(c);
}

int cgroup_make(struct cgroup *c, const char *id, const struct cgroup_limits *l, struct err *e)
{
	struct cgroup_place place[CGROUP_DIRS_MAX];
	int rc = cgroup_begin(c, id, e);

	if (rc != 0)
		return MIN_OF(rc, 0);
	cgroup_make_in(c, place, cgroup_places(cgroup_wanted(l), place, c->why, sizeof(c->why)), l);
	return 0;
}

/* --- entering --- */

bool cgroup_is_unified(void)
{
	struct statfs fs;

	return statfs("/sys/fs/cgroup", &fs) == 0 &&
	       fs.f_type == 0x63677270; /* CGROUP2_SUPER_MAGIC */
}

int cgroup_clone_fd(const struct cgroup *c)
{
	return c->kind == CGROUP_V2 ? c->dir_fd[0]
				    : -1; /* with v1 groups beside it it is not enough */
}

int cgroup_join_fds(const struct cgroup *c, int ret_fds[CGROUP_DIRS_MAX], struct err *e)
{
	int fds[CGROUP_DIRS_MAX], n = 0;

	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		if (c->dir_fd[i] < 0)
			continue;
		/* One thread moving itself waits for nobody: v1 has a file for it, and threaded groups. */
		fds[n] = openat(c->dir_fd[i],
			!c->dir_v2[i] ? "tasks"
			: c->threaded ? "cgroup.threads"
				      : "cgroup.procs",
			O_WRONLY | O_CLOEXEC);
		if (fds[n] < 0) {
			int errnum = errno;

			while (n > 0)
				close(fds[--n]);
			return err_set(e, errnum, "open cgroup %s", c->name);
		}
		n++;
	}
	memcpy(ret_fds, fds, (size_t)n * sizeof(fds[0]));
	return n;
}

int cgroup_join(const int *fds, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (write(fds[i], "0", 1) != 1)
			return err_set(e, errno, "enter the cgroup");
	}
	return 0;
}

int cgroup_enter(struct cgroup *c, pid_t pid, struct err *e)
{
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		int rc = c->dir_fd[i] < 0
				 ? 0
				 : poke_number(c->dir_fd[i], "cgroup.procs", (uint64_t)pid);

		if (rc < 0)
			return err_set(e, rc, "move process %d into cgroup %s", pid, c->name);
	}
	return 0;
}

/* --- while it lives --- */

/* Without those of groups below, which v2 counts here too since Linux 6.11. */
static const char *own_events(int fd)
{
	static const char *const local = "pids.events.local";

	return faccessat(fd, local, F_OK, 0) == 0 ? local : "pids.events";
}

void cgroup_hits(const struct cgroup *c, struct cgroup_hits *ret)
{
	*ret = (struct cgroup_hits){0};
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		int fd = c->dir_fd[i];

		if (fd >= 0 && c->dir_has[i] & CGROUP_HAS_MEMORY)
			ret->oom_kills = read_number(fd,
				c->dir_v2[i] ? "memory.events" : "memory.oom_control", "oom_kill");
		if (fd >= 0 && c->dir_has[i] & CGROUP_HAS_PIDS)
			ret->pids_refused = read_number(fd, own_events(fd), "max");
	}
}

void cgroup_usage(const struct cgroup *c, struct cgroup_usage *ret)
{
	*ret = (struct cgroup_usage){0};
	cgroup_hits(c, &ret->hits);
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		int fd = c->dir_fd[i];
		unsigned has = c->dir_has[i];

		if (fd < 0)
			continue;
		if (c->dir_v2[i])
			ret->cpu_us = read_number(fd, "cpu.stat", "usage_usec");
		else if (has & CGROUP_HAS_CPU) /* where cpuacct is mounted together with cpu */
			ret->cpu_us = read_number(fd, "cpuacct.usage", NULL) / 1000;
		if (has & CGROUP_HAS_MEMORY)
			ret->memory_peak_b = read_number(fd,
				c->dir_v2[i] ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
	}
}

/* Signal every member once. Returns how many there were, -1 when the list cannot be read. */
static int signal_members(int dir_fd, int sig)
{
	int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC), n = 0;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
	long pid;

	if (!f) {
		close_fd(&fd);
		return -1;
	}
	while (fscanf(f, "%ld", &pid) == 1) {
		n++;
		if (pid > 1 && pid != getpid()) /* 0: not in our pid namespace */
			kill((pid_t)pid, sig);
	}
	fclose(f);
	return n;
}

/* The directories below one, those of cgroup_part() in v1: fn for each, and the sum of what it returns. */
static int each_part(int dir_fd, int (*fn)(int dir_fd, const char *name, int arg), int arg)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d)
		close_fd(&fd);
	while (d && (de = readdir(d)))
		if (str_starts(de->d_name, "croft-") &&
			(de->d_type == DT_DIR || de->d_type == DT_UNKNOWN))
			n += fn(dir_fd, de->d_name, arg);
	return n;
}

static int signal_part(int dir_fd, const char *name, int sig)
{
	cleanup_fd int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? 0 : MAX_OF(signal_members(fd, sig), 0);
}

/* Those of a group of v1, which lists only what is not in a group below it, and of the latter. */
static int signal_all(int dir_fd, int sig)
{
	int n = signal_members(dir_fd, sig);

	return n < 0 ? n : n + each_part(dir_fd, signal_part, sig);
}

/* v2 tells when the last member is gone. */
static void wait_empty_v2(int dir_fd, uint64_t until_ms)
{
	cleanup_fd int fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	struct pollfd p = {.fd = fd, .events = POLLPRI};
	char text[256];

	while (fd >= 0) {
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		uint64_t now = clock_ms();

		text[n > 0 ? n : 0] = '\0';
		if (!strstr(text, "populated 1") || now >= until_ms)
			return;
		poll(&p, 1, (int)(until_ms - now));
	}
}

static void kill_dir(int dir_fd, bool v2)
{
	uint64_t until = clock_ms() + DRAIN_MS_MAX;
	unsigned round = 0;

	if (v2 && file_poke_at(dir_fd, "cgroup.kill", "1") == 0) {
		wait_empty_v2(dir_fd, until);
		return;
	}
	/* Without cgroup.kill a fork could outrun us: stop forks, or everybody, first. */
	if (signal_all(dir_fd, 0) == 0)
		return;
	file_poke_at(dir_fd, "pids.max", "0");
	if (v2)
		file_poke_at(dir_fd, "cgroup.freeze", "1");
	while (signal_all(dir_fd, SIGKILL) > 0 && wait_a_little(&round, until))
		;
}

void cgroup_kill(struct cgroup *c)
{
	size_t best = CGROUP_DIRS_MAX;

	/* Each group has the same members: take the one that kills best. */
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		if (c->dir_fd[i] < 0)
			continue;
		if (best == CGROUP_DIRS_MAX || c->dir_v2[i] ||
			(!c->dir_v2[best] && (c->dir_has[i] & CGROUP_HAS_PIDS)))
			best = i;
	}
	if (best < CGROUP_DIRS_MAX)
		kill_dir(c->dir_fd[best], c->dir_v2[best]);
}

/* --- the end --- */

/* Those of a session's commands; some may still be busy. */
static void remove_commands(int parent_fd, const char *name)
{
	cleanup_fd int fd =
		openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int below = openat(fd, CGROUP_COMMANDS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_dir DIR *d = below < 0 ? NULL : fdopendir(below);
	struct dirent *de;

	if (!d) {
		close_fd(&below);
		return;
	}
	while ((de = readdir(d)))
		if (de->d_name[0] != '.' && (de->d_type == DT_DIR || de->d_type == DT_UNKNOWN))
			unlinkat(below, de->d_name, AT_REMOVEDIR);
	unlinkat(fd, CGROUP_COMMANDS, AT_REMOVEDIR);
}

static int remove_part(int dir_fd, const char *name, int unused)
{
	return unlinkat(dir_fd, name, AT_REMOVEDIR);
}

static void remove_dir(int parent_fd, const char *name, bool v2)
{
	uint64_t until = clock_ms() + DRAIN_MS_MAX;
	unsigned round = 0;

	while (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno == EBUSY) {
		cleanup_fd int fd =
			openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (v2)
			remove_commands(parent_fd, name);
		else
			each_part(fd, remove_part, 0);
		if (!wait_a_little(&round, until))
			return;
	}
}

void cgroup_remove(struct cgroup *c)
{
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		if (c->dir_fd[i] >= 0)
			remove_dir(c->parent_fd[i], c->name, c->dir_v2[i]);
		close_fd(&c->dir_fd[i]);
		close_fd(&c->parent_fd[i]);
	}
	c->kind = CGROUP_NONE;
	c->has = 0;
}

bool cgroup_try_remove(struct cgroup *c)
{
	bool all = true;

	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		if (c->dir_fd[i] < 0)
			continue;
		if (unlinkat(c->parent_fd[i], c->name, AT_REMOVEDIR) < 0 && errno == EBUSY) {
			all = false;
			continue;
		}
		close_fd(&c->dir_fd[i]);
		close_fd(&c->parent_fd[i]);
	}
	return all;
}

/* When a process began, in boot_ticks(): field 22 of its stat. 0 when it cannot be told. */
static uint64_t started_ticks(unsigned long pid)
{
	char path[32], text[FILE_TEXT_MAX];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%lu/stat", pid);
	p = read_text(AT_FDCWD, path, text) ? strrchr(text, ')')
					    : NULL; /* the name may hold anything */
	for (int field = 2; p && field < 22; field++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p ? strtoull(p, NULL, 10) : 0;
}

/* Is this the name of a group whose supervisor lived in our pid namespace and is gone? */
static bool is_stale(const char *name, unsigned long ns)
{
	char *end;
	unsigned long pid, in;
	uint64_t made, began;

	if (!str_starts(name, "croft-") || name[6] < '1' || name[6] > '9')
		return false;
	pid = strtoul(name + 6, &end, 10);
	if (*end != '.' || pid > INT32_MAX)
		return false;
	in = strtoul(end + 1, &end, 16);
	if (*end != '.' || in != ns)
		return false;
	made = strtoull(end + 1, &end, 16);
	if (*end != '-')
		return false;
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
		return true;
	began = started_ticks(pid);
	/* Younger than the group: the number was used again. A zombie is gone: nobody may ever reap it. */
	return began > made + 1 || (began && proctree_ending((pid_t)pid));
}

static void reap_below(int parent_fd, bool v2, unsigned long ns)
{
	int fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d)
		close_fd(&fd);
	while (d && (de = readdir(d))) {
		cleanup_fd int stale = -1;

		if ((de->d_type != DT_DIR && de->d_type != DT_UNKNOWN) || !is_stale(de->d_name, ns))
			continue;
		if (unlinkat(parent_fd, de->d_name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			continue;
		stale = openat(
			parent_fd, de->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (stale < 0)
			continue;
		kill_dir(stale, v2);
		remove_dir(parent_fd, de->d_name, v2);
	}
}

void cgroup_reap_stale(const struct cgroup *c)
{
	unsigned long ns = pid_namespace();

	for (size_t i = 0; i < CGROUP_DIRS_MAX && ns != 0; i++) {
		if (c->parent_fd[i] >= 0)
			reap_below(c->parent_fd[i], c->dir_v2[i], ns);
	}
}
