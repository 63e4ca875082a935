/* SPDX-License-Identifier: Apache-2.0 */
/* What a repository has beyond `git init`: see gitplain.h. */
#include "session/run/gitplain.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"

/* ---- configuration ---- */

/* Keys that `git init` and `git clone` write, and a name and address. "*" is any subsection. */
static const char *const keys[] = {"core.repositoryformatversion", "core.filemode", "core.bare",
	"core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks",
	"extensions.objectformat", "extensions.refstorage", "remote.*.fetch", "remote.*.url",
	"remote.*.tagopt", "branch.*.remote", "branch.*.merge", "branch.*.rebase", "user.name",
	"user.email", "init.defaultbranch", "submodule.active"};

struct section {
	char name[64];
	bool sub;
};

static bool known(const struct section *s, const char *key, size_t n)
{
	char full[192];

	if (n > 64)
		return false;
	snprintf(full, sizeof(full), "%s%s.%.*s", s->name, s->sub ? ".*" : "", (int)n, key);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcasecmp(full, keys[i]) == 0)
			return true;
	return false;
}

/* "[core]", "[remote \"origin\"]": the rest of the line, or NULL. */
static const char *read_section(const char *p, const char *end, struct section *ret)
{
	size_t n = 0;

	for (p++; p < end && (isalnum((unsigned char)*p) || *p == '-'); p++)
		if (n + 1 < sizeof(ret->name))
			ret->name[n++] = *p;
	ret->name[n] = '\0';
	ret->sub = false;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (p < end && *p == '"') {
		ret->sub = true;
		for (p++; p < end && *p != '"'; p++)
			if (*p == '\\')
				p++;
		p++;
	}
	return n && p < end && *p == ']' ? p + 1 : NULL;
}

/*
 * A remote helper ("ext::sh -c …") is a program, and a leading dash is an option. Quotes may stand anywhere
 * in a value, and are not part of it.
 */
static bool value_leads_astray(const char *p, const char *end)
{
	while (p < end && strchr(" \t\"=", *p))
		p++;
	if (p < end && *p == '-')
		return true;
	for (char before = 0; p < end; p++) {
		if (*p == ':' && before == ':')
			return true;
		before = *p == '"' ? before : *p;
	}
	return false;
}

static const char *check_line(const char *p, const char *end, struct section *s)
{
	const char *key;

	while (p < end && isspace((unsigned char)*p))
		p++;
	if (p < end && *p == '[') {
		p = read_section(p, end, s);
		if (!p)
			return "a configuration that cannot be read";
		return check_line(p, end, s);
	}
	if (p == end || *p == '#' || *p == ';')
		return NULL;
	if (end[-1] == '\\')
		return "a configuration with continued lines";
	for (key = p; p < end && (isalnum((unsigned char)*p) || *p == '-'); p++)
		;
	if (!known(s, key, (size_t)(p - key)))
		return "configuration beyond that of a new repository";
	return value_leads_astray(p, end) ? "a remote that is a program" : NULL;
}

const char *gitplain_config(const char *text, size_t n)
{
	const char *p = text, *end = text + n, *why = NULL;
	struct section s = {0};

	if (memchr(text, '\0', n))
		return "a configuration that cannot be read";
	while (p < end && !why) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));

		eol = eol ? eol : end;
		why = check_line(p, eol, &s);
		p = eol + 1;
	}
	return why;
}

/* "objectformat" in [extensions], if this line sets it: 20 or 32, or 0 for what croft does not know. */
static void take_hash(const char *p, const char *end, struct section *s, size_t *hash)
{
	static const char key[] = "objectformat";
	char value[16];
	size_t n = 0;

	while (p < end && isspace((unsigned char)*p))
		p++;
	if (p < end && *p == '[') {
		p = read_section(p, end, s);
		if (p)
			take_hash(p, end, s, hash);
		else
			*hash = 0;
		return;
	}
	if (s->sub || strcasecmp(s->name, "extensions") != 0 ||
		(size_t)(end - p) < sizeof(key) - 1 || strncasecmp(p, key, sizeof(key) - 1) != 0)
		return;
	p += sizeof(key) - 1;
	if (p < end && (isalnum((unsigned char)*p) || *p == '-'))
		return;
	for (; p < end && *p != '#' && *p != ';'; p++)
		if (!strchr(" \t\r\"=", *p) && n + 1 < sizeof(value))
			value[n++] = *p;
	value[n] = '\0';
	*hash = str_eq(value, "sha1") ? 20 : str_eq(value, "sha256") ? 32 : 0;
}

size_t gitplain_hash(const char *text, size_t n)
{
	const char *p = text, *end = text + n;
	struct section s = {0};
	size_t hash = 20;
	bool within = false; /* of a value that the line before began */
	bool unclear = false, said = false;

	if (memchr(text, '\0', n))
		return 0;
	while (p < end && hash) {
		const char *eol = memchr(p, '\n', (size_t)(end - p)), *last;

		eol = eol ? eol : end;
		if (!within)
			take_hash(p, eol, &s, &hash);
		for (last = eol; last > p && last[-1] == '\r';)
			last--;
		/* A comment does not go on, and where one begins in a value is more than is read here. */
		within = last > p && last[-1] == '\\';
		unclear |= within && (last - p > 1 && last[-2] == '\\');
		for (const char *c = p; c < last; c++) {
			unclear |= within && (*c == '#' || *c == ';');
			said |= (size_t)(end - c) > 12 && strncasecmp(c, "objectformat", 12) == 0;
		}
		p = eol + 1;
	}
	return unclear && said ? 0 : hash;
}

/* ---- the directory ---- */

static const char *check_config(int dir)
{
	cleanup_fd int fd =
		openat(dir, "config", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	cleanup_free char *text = malloc(GITPLAIN_CONFIG_MAX_B + 1);
	struct stat st;
	size_t n = 0;

	if (fd < 0 && errno == ENOENT)
		return NULL;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !text)
		return "a configuration that cannot be read";
	for (ssize_t got = 1; got > 0 && n <= GITPLAIN_CONFIG_MAX_B; n += (size_t)got)
		if ((got = read(fd, text + n, GITPLAIN_CONFIG_MAX_B + 1 - n)) < 0)
			return "a configuration that cannot be read";
	if (n > GITPLAIN_CONFIG_MAX_B)
		return "a configuration that is too long";
	return gitplain_config(text, n);
}

/* A directory in which only known names may be; one that is not there is plain. */
static const char *check_names(
	int dir, const char *path, bool (*plain)(const char *), const char *why)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	unsigned n = 0;

	if (fd < 0)
		return errno == ENOENT ? NULL : why;
	if (!(d = fdopendir(fd))) {
		close(fd);
		return why;
	}
	while ((de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, "..") &&
			(!plain(de->d_name) || ++n > GITPLAIN_ENTRIES_MAX))
			return why;
	return NULL;
}

static bool plain_hook(const char *name)
{
	return str_ends(name, ".sample");
}

static bool plain_info(const char *name)
{
	return str_eq(name, "exclude") || str_eq(name, "refs");
}

static bool plain_objects_info(const char *name)
{
	return str_eq(name, "packs") || str_starts(name, "commit-graph");
}

const char *gitplain_beyond(int fd)
{
	static const char *const never[] = {
		"config.worktree", "commondir", "gitdir", "worktrees", "modules"};
	/* Their lists of steps may have commands: `git rebase --continue` runs them. */
	static const char *const begun[] = {"rebase-merge", "rebase-apply", "sequencer"};
	const char *why = check_config(fd);
	struct stat st;

	if (!why)
		why = check_names(fd, "hooks", plain_hook, "hooks");
	if (!why)
		why = check_names(fd, "info", plain_info, "attributes or other files in info/");
	if (!why)
		why = check_names(fd, "objects/info", plain_objects_info, "objects of elsewhere");
	for (size_t i = 0; !why && i < ARRAY_SIZE(never); i++)
		if (fstatat(fd, never[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			why = "parts of other repositories";
	for (size_t i = 0; !why && i < ARRAY_SIZE(begun); i++)
		if (fstatat(fd, begun[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			why = "a rebase that is under way";
	/* A symlink in the place of a directory leads past all that was looked at. */
	if (!why && fstatat(fd, "objects", &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
		why = "objects of elsewhere";
	return why;
}

static bool is_since(const struct stat *st, const struct timespec *since)
{
	return st->st_ctim.tv_sec > since->tv_sec ||
	       (st->st_ctim.tv_sec == since->tv_sec && st->st_ctim.tv_nsec >= since->tv_nsec);
}

/* Users keep hooks in the tree and link to them: one symlink is followed. */
static int open_hooks(int dir)
{
	int fd = openat(dir, "hooks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char to[PATH_MAX];
	ssize_t n;

	if (fd >= 0 || errno == ENOENT)
		return fd >= 0 ? fd : -ENOENT;
	n = readlinkat(dir, "hooks", to, sizeof(to) - 1);
	if (n < 0)
		return -errno;
	to[n] = '\0';
	return path_open(dir, to, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
}

static bool any_hook_since(int dir, const struct timespec *since)
{
	int fd = open_hooks(dir);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	struct stat st;
	unsigned n = 0;

	if (fd < 0)
		return fd != -ENOENT;
	if (!(d = fdopendir(fd))) {
		close(fd);
		return true;
	}
	while ((de = readdir(d)))
		if (++n > GITPLAIN_ENTRIES_MAX ||
			fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			(!str_eq(de->d_name, "..") && is_since(&st, since)))
			return true;
	return false;
}

/* Was this directory made since then? A file system without birth times tells of any change instead. */
static bool is_new(int dir, const char *path, const struct timespec *since)
{
	cleanup_fd int fd =
		openat(dir, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno != ENOENT;
	if (fstat(fd, &st) < 0)
		return true;
	fd_born(fd, &st.st_ctim);
	return is_since(&st, since);
}

/* Git takes a directory for a repository only with a HEAD that leads somewhere. */
static bool has_head(int dir)
{
	cleanup_fd int fd =
		openat(dir, "HEAD", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	char text[48];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fd < 0 && errno == ELOOP; /* a symlink, as Git made it once */
	n = read(fd, text, sizeof(text) - 1);
	text[MAX_OF(n, 0)] = '\0';
	return str_starts(text, "ref:") || strspn(text, "0123456789abcdef") >= 40;
}

bool gitplain_whole(int fd, struct buf *ret)
{
	static const char *const parts[] = {".", "objects", "refs"};
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (fstatat(fd, parts[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		buf_addf(ret, "%jx:%jx ", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	}
	return has_head(fd);
}

/* Ordinary use of a repository changes its index, objects and refs: only what Git executes counts. */
static const char *const executed[] = {"config", "config.worktree", "commondir", "gitdir", "hooks",
	"info/attributes", "objects/info/alternates", "objects/info/http-alternates"};

void gitplain_state_of(const struct stat *st, struct buf *ret, struct timespec *newest)
{
	buf_addf(ret, "%jx:%jx:%jx.%lx ", (uintmax_t)st->st_ino, (uintmax_t)st->st_size,
		(uintmax_t)st->st_ctim.tv_sec, (unsigned long)st->st_ctim.tv_nsec);
	if (is_since(st, newest))
		*newest = st->st_ctim;
}

/* In any order: the directory's own time, in the sum, tells when an entry comes or goes. */
static bool state_of_hooks(int dir, struct buf *ret, struct timespec *newest)
{
	int fd = open_hooks(dir);
	uint64_t sizes = 0, times_ns = 0;
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	unsigned n = 0;

	if (fd < 0)
		return fd == -ENOENT;
	if (!(d = fdopendir(fd))) {
		close(fd);
		return false;
	}
	while ((de = readdir(d))) {
		struct stat st;

		if (str_eq(de->d_name, "..")) /* but itself: it may be elsewhere */
			continue;
		if (++n > GITPLAIN_ENTRIES_MAX ||
			fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		sizes += (uint64_t)st.st_size;
		times_ns += (uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec;
		if (is_since(&st, newest))
			*newest = st.st_ctim;
	}
	buf_addf(ret, "%u:%jx:%jx", n, (uintmax_t)sizes, (uintmax_t)times_ns);
	return true;
}

bool gitplain_state(int fd, struct buf *ret, struct timespec *newest)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(executed); i++) {
		if (fstatat(fd, executed[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			gitplain_state_of(&st, ret, newest);
		buf_addc(ret, '/');
	}
	return state_of_hooks(fd, ret, newest) && !ret->failed;
}

/* The directories tell when it was made: what is moved here keeps that, but nothing better is known. */
bool gitplain_changed(int fd, const struct timespec *since)
{
	struct stat st;

	if (is_new(fd, "", since) || is_new(fd, "objects", since) || is_new(fd, "refs", since))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(executed); i++)
		if (fstatat(fd, executed[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && is_since(&st, since))
			return true;
	return any_hook_since(fd, since);
}
