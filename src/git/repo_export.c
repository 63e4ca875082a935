/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the store into the host's repository: see repo.h.
 *
 * What:   everything that the tip reaches and that is in the store itself. What the host's refs reach is
 *         complete there, so the walk stops at them; where a ref of the host is broken, it does not
 *         stop at all. An object that both have is left out: the host's stays as it is.
 * Trust:  the objects were made from what a sandbox wrote. git index-pack, asked in the host's
 *         repository, checks each one's form, and that everything it points at is there.
 * Order:  pack and index are made in the store ("export", emptied first: what is found there a crash
 *         left) -> both copied into the host's objects/pack under names of our own and synced -> the
 *         pack gets its name, then the index: Git looks for the index.
 * Failure: what was copied is removed again: a full disk is not left fuller. After a crash, names that
 *         begin with "tmp_" are what git gc clears away. They do not end like a pack's: Git would open
 *         half of one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/repo_impl.h"
#include "os/path.h"

#define STOPS_MAX 4096u
#define PACK_HEAD 12
#define PLACE "export"
#define PACK_FILE "export.pack"
#define INDEX_FILE "export.idx"
#define COPY_B ((size_t)1 << 20)

struct stops {
	struct buf *to;
	unsigned n;
};

static int add_stop(void *arg, const char *ref, const struct oid *o)
{
	struct stops *s = arg;

	(void)ref;
	buf_addf(s->to, "^%s\n", oid_hex(o).s);
	return ++s->n >= STOPS_MAX;
}

/* ------------------------------------------------------------------ in the store */

static void clear_place(int place)
{
	unlinkat(place, PACK_FILE, 0);
	unlinkat(place, INDEX_FILE, 0);
	unlinkat(place, "export.rev", 0);
}

/* The directory, locked as long as it is open, and empty. */
static int open_place(const struct repo *r)
{
	cleanup_fd int store = open(r->store, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;

	if (store < 0 || (mkdirat(store, PLACE, 0700) < 0 && errno != EEXIST))
		return -errno;
	fd = openat(store, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	clear_place(fd);
	return take_fd(&fd);
}

static int pack(const struct repo *r, const struct buf *revs, int fd, struct err *e)
{
	struct git_run run = {.argv = (const char *const[]){"pack-objects", "--revs", "--local",
				      "--stdout", "-q", "--delta-base-offset", NULL},
		.git_dir = r->store,
		.in = revs->data,
		.in_n = revs->len,
		.out_fd = fd};

	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "write a pack");
	return git_run(&run, e);
}

static int make_pack(const struct repo *r, const struct oid *tip, int fd, struct err *e)
{
	cleanup_buf struct buf revs = BUF_INIT((size_t)1 << 20);
	struct stops s = {.to = &revs};
	struct err ignored = ERR_INIT;
	int rc;

	buf_addf(&revs, "%s\n", oid_hex(tip).s);
	rc = ref_list(r, "refs/", add_stop, &s, &ignored);
	if (rc >= 0 && s.n && !revs.failed && pack(r, &revs, fd, &ignored) == 0)
		return 0;
	buf_reset(&revs);
	buf_addf(&revs, "%s\n", oid_hex(tip).s);
	return pack(r, &revs, fd, e);
}

/* The number of objects stands in the head of a pack. */
static int is_empty(int fd)
{
	unsigned char head[PACK_HEAD];

	if (pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) || memcmp(head, "PACK", 4))
		return -EBADMSG;
	return !(head[8] | head[9] | head[10] | head[11]);
}

/* Checked against what the host has; nothing is written there. */
static int index_pack(const struct repo *r, struct err *e)
{
	char pack_path[PATH_MAX], index_path[PATH_MAX];
	struct git_run run = {.argv = (const char *const[]){
				      "index-pack", "--strict", "-o", index_path, pack_path, NULL}};

	if (snprintf(pack_path, sizeof(pack_path), "%s/" PLACE "/" PACK_FILE, r->store) >=
			(int)sizeof(pack_path) ||
		snprintf(index_path, sizeof(index_path), "%s/" PLACE "/" INDEX_FILE, r->store) >=
			(int)sizeof(index_path))
		return err_set(e, ENAMETOOLONG, "index a pack");
	return repo_git(r, &run, e);
}

/* ------------------------------------------------------------------ into the host */

struct copy {
	int from, to;     /* directories */
	char temp[2][64]; /* pack, index: while they are copied */
	char name[2][OID_HEX_MAX + 16];
	mode_t mode;
};

static const char *const made[2] = {PACK_FILE, INDEX_FILE};
static const char *const kinds[2] = {"pack", "idx"};

/* A pack is called after the hash that it ends with. */
static int name_pack(struct copy *c, enum git_hash hash, int fd)
{
	struct oid o = {.n = (uint8_t)git_hash_len(hash)};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)(PACK_HEAD + o.n) ||
		pread(fd, o.v, o.n, st.st_size - o.n) != (ssize_t)o.n)
		return -EBADMSG;
	for (int i = 0; i < 2; i++) {
		snprintf(c->name[i], sizeof(c->name[i]), "pack-%s.%s", oid_hex(&o).s, kinds[i]);
		snprintf(c->temp[i], sizeof(c->temp[i]), "tmp_croft_%d_%.16s_%s", getpid(),
			oid_hex(&o).s, kinds[i]);
	}
	return 0;
}

static int copy_bytes(int from, int to)
{
	cleanup_free char *b = malloc(COPY_B);
	ssize_t n;
	int rc;

	if (!b)
		return -ENOMEM;
	while ((n = read(from, b, COPY_B)) > 0)
		if ((rc = fd_write_all(to, b, (size_t)n)) < 0)
			return rc;
	return n < 0 ? -errno : 0;
}

static int copy_one(const struct copy *c, int i)
{
	cleanup_fd int from = openat(c->from, made[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC), to = -1;
	int rc;

	if (from < 0)
		return -errno;
	unlinkat(c->to, c->temp[i], 0); /* left by a process that died with our number */
	to = openat(c->to, c->temp[i], O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	rc = copy_bytes(from, to);
	if (rc == 0 && (fchmod(to, c->mode) < 0 || fsync(to) < 0))
		rc = -errno;
	return rc;
}

static int place_pack(const struct copy *c)
{
	int rc = copy_one(c, 0);

	if (rc == 0)
		rc = copy_one(c, 1);
	if (rc == 0 && renameat(c->to, c->temp[0], c->to, c->name[0]) < 0)
		rc = -errno;
	if (rc == 0 && renameat(c->to, c->temp[1], c->to, c->name[1]) < 0) {
		rc = -errno;
		unlinkat(c->to, c->name[0], 0);
	}
	for (int i = 0; rc < 0 && i < 2; i++)
		unlinkat(c->to, c->temp[i], 0);
	return rc == 0 && fsync(c->to) < 0 ? -errno : rc;
}

static int to_host(const struct repo *r, int place, int pack_fd)
{
	cleanup_fd int to = -1;
	struct copy c = {.from = place};
	char path[PATH_MAX];
	struct stat st;
	int rc;

	if (snprintf(path, sizeof(path), "%s/objects/pack", r->common_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return -errno;
	to = c.to = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to < 0 || fstat(to, &st) < 0)
		return -errno;
	/* Whoever may read the directory may read the pack: so it is in a shared repository, too. */
	c.mode = 0400 | (st.st_mode & 0044);
	rc = name_pack(&c, r->hash, pack_fd);
	if (rc < 0)
		return rc;
	/* The same objects in the same order: it is there already. */
	if (fstatat(to, c.name[1], &st, 0) == 0 && fstatat(to, c.name[0], &st, 0) == 0)
		return fsync(to) < 0 ? -errno : 0;
	return place_pack(&c);
}

static int export_from(const struct repo *r, const struct oid *tip, int place, struct err *e)
{
	cleanup_fd int fd =
		openat(place, PACK_FILE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return err_set(e, errno, "write a pack in %s", r->store);
	rc = make_pack(r, tip, fd, e);
	if (rc < 0)
		return err_wrap(e, "collect what %s needs", oid_hex(tip).s);
	rc = is_empty(fd);
	if (rc == 1)
		return 0;
	if (rc < 0)
		return err_set(e, -rc, "read a pack");
	rc = index_pack(r, e);
	if (rc < 0)
		return err_wrap(e, "check what %s needs", oid_hex(tip).s);
	rc = to_host(r, place, fd);
	return rc < 0 ? err_set(e, -rc, "copy objects to %s/objects/pack", r->common_dir) : 0;
}

int repo_export_objects(const struct repo *r, const struct oid *tip, struct err *e)
{
	cleanup_fd int place = -1;
	int rc;

	if (!r->git_dir)
		return err_invalid(e, "%s is not in a Git repository", r->workspace);
	place = open_place(r);
	if (place < 0)
		return err_set(e, -place, "write a pack in %s", r->store);
	rc = export_from(r, tip, place, e);
	clear_place(place);
	return rc;
}
