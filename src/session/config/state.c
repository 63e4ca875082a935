/* SPDX-License-Identifier: Apache-2.0 */
/* croft's own files: see state.h. */
#include "session/config/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/str.h"
#include "session/run/hidden.h"
#include "os/path.h"
#include "os/tree.h"

#define JOURNAL_MAX_B (80u << 20) /* the gateway stops at 64 MiB, after a whole line */

int state_path(char *ret, size_t size, const char *home, struct err *e)
{
	const char *xdg = getenv("XDG_STATE_HOME");
	int n;

	if (xdg && xdg[0] == '/')
		n = snprintf(ret, size, "%s/croft", xdg);
	else
		n = snprintf(ret, size, "%s/.local/state/croft", home);
	if (n < 0 || (size_t)n >= size)
		return err_set(e, ENAMETOOLONG, "state directory");
	return 0;
}

static int open_runs(const char *home, bool create, struct err *e)
{
	char path[4096];
	size_t n;
	int fd;

	if (state_path(path, sizeof(path) - 8, home, e) < 0)
		return -e->errnum;
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/runs");
	fd = create ? dir_make(path, 0700) : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (create && fd < 0)
		return err_set(e, -fd, "make %s", path);
	return fd < 0 ? -ENOENT : fd;
}

/* Find the newest entry, or the oldest when more than STATE_RUNS_MAX are kept. */
static int scan_runs(int dir, char *newest, char *oldest, size_t size)
{
	cleanup_dir DIR *d = dir_list(dir, ".");
	struct timespec max = {0, 0}, min = {INT64_MAX, 0};
	struct dirent *de;
	int count = 0;

	newest[0] = oldest[0] = '\0';
	while (d && (de = readdir(d))) {
		struct stat st;

		if (!str_ends(de->d_name, ".json") || de->d_name[0] == '.' ||
			fstatat(dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		count++;
		if (st.st_mtim.tv_sec > max.tv_sec ||
			(st.st_mtim.tv_sec == max.tv_sec && st.st_mtim.tv_nsec > max.tv_nsec)) {
			max = st.st_mtim;
			snprintf(newest, size, "%s", de->d_name);
		}
		if (st.st_mtim.tv_sec < min.tv_sec ||
			(st.st_mtim.tv_sec == min.tv_sec && st.st_mtim.tv_nsec < min.tv_nsec)) {
			min = st.st_mtim;
			snprintf(oldest, size, "%s", de->d_name);
		}
	}
	return count;
}

int state_cache(const char *home)
{
	struct err ignored = ERR_INIT;
	char path[4096];

	if (state_path(path, sizeof(path), home, &ignored) < 0)
		return -1;
	return open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* 1, 0: there is none yet. What others could read or make is no secret. */
static int read_seed(int dir, uint8_t ret[32], struct err *e)
{
	cleanup_fd int fd = openat(dir, "seed", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "read the seed of placeholders");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		(st.st_mode & 077) || st.st_size != 32 || read(fd, ret, 32) != 32)
		return err_refuse(e,
			"the file seed in croft's state directory is not as croft made it; remove it");
	return 1;
}

/* By link, so that of two that make it at once both use the same. */
static int make_seed(int dir, struct err *e)
{
	uint8_t fresh[32];
	char name[40];
	int r;

	snprintf(name, sizeof(name), ".seed.%d", (int)getpid());
	if (getrandom(fresh, sizeof(fresh), 0) != (ssize_t)sizeof(fresh))
		return err_set(e, EIO, "get random bytes");
	r = file_replace_at(dir, name, fresh, sizeof(fresh), 0600);
	if (r == 0 && linkat(dir, name, dir, "seed", 0) < 0 && errno != EEXIST)
		r = -errno;
	unlinkat(dir, name, 0);
	return r < 0 ? err_set(e, -r, "make the seed of placeholders") : 0;
}

int state_seed(const char *home, const char *project, uint8_t ret[32], struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(PATH_MAX + 64);
	cleanup_fd int dir = -1;
	struct digest d;
	uint8_t seed[32];
	char path[4096];
	int r;

	if (state_path(path, sizeof(path), home, e) < 0)
		return -e->errnum;
	dir = dir_make(path, 0700);
	if (dir < 0)
		return err_set(e, -dir, "make %s", path);
	r = read_seed(dir, seed, e);
	if (r == 0 && (r = make_seed(dir, e)) == 0)
		r = read_seed(dir, seed, e);
	if (r <= 0)
		return r < 0 ? r : err_set(e, ENOENT, "read the seed of placeholders");
	buf_add(&b, seed, sizeof(seed));
	buf_adds(&b, project);
	if (b.failed)
		return err_set(e, ENOMEM, "make placeholders");
	digest_sha256(&d, buf_str(&b), b.len);
	for (size_t i = 0; i < 32; i++) {
		const char pair[3] = {d.hex[2 * i], d.hex[2 * i + 1], '\0'};

		ret[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return 0;
}

int state_project(const char *home, const char *project, struct err *e)
{
	cleanup_fd int dir = -1;
	cleanup_fd int fd = -1;
	struct digest d;
	char path[4096 + 64];
	size_t n;
	int r;

	if (state_path(path, 4096, home, e) < 0)
		return -e->errnum;
	digest_sha256(&d, project, strlen(project));
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/projects/%.16s", d.hex);
	dir = dir_make(path, 0700);
	if (dir < 0)
		return err_set(e, -dir, "make %s", path);
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open %s", path);
	if (faccessat(fd, "directory", F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		r = file_replace_at(fd, "directory", project, strlen(project), 0600);
		if (r < 0)
			return err_set(e, -r, "write %s/directory", path);
	}
	return take_fd(&fd);
}

static void journal_name(char name[64], const char *id)
{
	snprintf(name, 64, "%.32s.net.jsonl", id);
}

int state_open_journal(const char *home, const char *id, struct err *e)
{
	cleanup_fd int dir = open_runs(home, true, e);
	char name[64];
	int fd;

	if (dir < 0)
		return dir;
	journal_name(name, id);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		flock(fd, LOCK_SH); /* in use: see forget_journals() */
	return fd < 0 ? err_set(e, errno, "make the journal of the network") : fd;
}

int state_hide_journal(const char *home, const char *id, struct redact *hidden, struct err *e)
{
	cleanup_fd int dir = open_runs(home, false, e);
	cleanup_buf struct buf raw = BUF_INIT(JOURNAL_MAX_B), clean = BUF_INIT(2 * JOURNAL_MAX_B);
	char name[64];
	int r;

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	journal_name(name, id);
	r = file_read_at(dir, name, &raw);
	if (r == -ENOENT)
		return 0;
	if (r >= 0 && hidden) {
		hidden_lines(hidden, buf_str(&raw), raw.len, &clean);
		if (!clean.failed && clean.len == raw.len &&
			memcmp(buf_str(&clean), buf_str(&raw), raw.len) == 0)
			return 0;
		r = clean.failed ? -ENOMEM
				 : file_replace_at(dir, name, buf_str(&clean), clean.len, 0600);
	}
	if (r >= 0 && hidden)
		return 0;
	unlinkat(dir, name, 0);
	return r < 0 ? err_set(e, -r, "take secrets out of the network journal") : 0;
}

/* By its run or session, which goes on, however long ago it wrote. */
static bool journal_used(int dir, const char *name)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Journals that were left alone: their run was killed, and never had a receipt. */
static void forget_journals(int dir, const struct timespec *before)
{
	cleanup_dir DIR *d = dir_list(dir, ".");
	struct dirent *de;

	while (d && (de = readdir(d))) {
		char receipt[300];
		struct stat st;

		snprintf(receipt, sizeof(receipt), "%.*s.json", (int)strcspn(de->d_name, "."),
			de->d_name);
		if (str_ends(de->d_name, ".net.jsonl") &&
			fstatat(dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			st.st_mtim.tv_sec < before->tv_sec &&
			faccessat(dir, receipt, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
			!journal_used(dir, de->d_name))
			unlinkat(dir, de->d_name, 0);
	}
}

static void forget_run(int dir, const char *receipt)
{
	char journal[300];
	struct stat st;

	if (fstatat(dir, receipt, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	unlinkat(dir, receipt, 0);
	snprintf(journal, sizeof(journal), "%.*s.net.jsonl", (int)strcspn(receipt, "."), receipt);
	unlinkat(dir, journal, 0);
	forget_journals(dir, &st.st_mtim);
}

int state_save_run(const char *home, const char *id, const void *json, size_t n, struct err *e)
{
	cleanup_fd int dir = open_runs(home, true, e);
	char name[64], newest[256], oldest[256];
	int r;

	if (dir < 0)
		return dir;
	snprintf(name, sizeof(name), "%.32s.json", id);
	r = file_replace_at(dir, name, json, n, 0600);
	if (r < 0)
		return err_set(e, -r, "record the run");
	if (scan_runs(dir, newest, oldest, sizeof(newest)) > STATE_RUNS_MAX && oldest[0])
		forget_run(dir, oldest);
	return 0;
}

#define HINT "; croft run --observe writes reports every write that is refused"

int state_load_run(const char *home, const char *id, struct buf *ret, struct err *e)
{
	cleanup_fd int dir = open_runs(home, false, e);
	char newest[256], oldest[256], name[64];
	int r;

	if (dir < 0)
		return err_invalid(e, "no run with denials is recorded yet" HINT);
	if (!id) {
		if (scan_runs(dir, newest, oldest, sizeof(newest)) == 0)
			return err_invalid(e, "no run with denials is recorded yet" HINT);
		r = file_read_at(dir, newest, ret);
	} else {
		if (!str_hex(id, 1, 32))
			return err_invalid(e,
				"%.64s is not a run id (as printed in brackets by croft run)", id);
		snprintf(name, sizeof(name), "%s.json", id);
		r = file_read_at(dir, name, ret);
	}
	if (r == -ENOENT)
		return err_invalid(e,
			"no record of run %s (only the last %d runs with denials are kept)" HINT, id,
			STATE_RUNS_MAX);
	return r < 0 ? err_set(e, -r, "read the record of run %s", id ? id : "(latest)") : 0;
}
