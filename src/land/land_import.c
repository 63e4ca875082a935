/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment's own commits, out of a .git that a sandbox wrote.
 *
 * Trust: that directory is hostile, and no git is ever run on it. HEAD and refs are read here, through the
 *        layers, by descriptor, bounded. Of its objects, only files with the names of loose objects are
 *        copied, and packs are indexed anew, into a quarantine beside the store; what HEAD reaches is
 *        then packed and unpacked once more with --strict into the store, so every object has the
 *        name that its bytes give it, and is well-formed. Nothing else (configuration, hooks,
 *        alternates, replace refs, grafts, packs' own indices) is looked at.
 * Limits: IMPORT_*; only a straight line of commits on the base is taken.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "git/program.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/copy.h"

#define IMPORT_FILES_MAX 2000000u
#define IMPORT_BYTES_MAX (16ull << 30)
#define IMPORT_PACKS_MAX 256u
#define IMPORT_REFS_MAX_B (16u << 20)
#define IMPORT_COMMITS_MAX 10000u
/* Blobs are streamed, so that memory is needed for commits and trees only; GIT_PATCH_DATA_MAX_B of it. */
#define IMPORT_GIT "-c", "core.bigFileThreshold=8m", "-c", "pack.windowMemory=64m"

/* ---- files of .git through the layers ---- */

static bool is_opaque(int fd)
{
	char v[4];

	return fgetxattr(fd, "user.overlay.opaque", v, sizeof(v)) > 0 ||
	       fgetxattr(fd, "trusted.overlay.opaque", v, sizeof(v)) > 0;
}

/* A file in one layer; -ENOENT: not here, look below; -ENODATA: not here, nor anywhere below. */
static int open_in_layer(int layer, const char *path)
{
	cleanup_fd int dir = openat(layer, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool opaque = false;
	const char *slash;
	struct stat st;
	int fd;

	for (; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		char name[256];
		int next;

		if ((size_t)(slash - path) >= sizeof(name))
			return -ENODATA;
		snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
		next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return errno == ENOENT && !opaque ? -ENOENT : -ENODATA;
		opaque |= is_opaque(next);
		close(dir);
		dir = next;
	}
	if (dir < 0)
		return -ENODATA;
	fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && !opaque ? -ENOENT : -ENODATA;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -ENODATA;
	}
	return fd;
}

/* Directories that together are the environment's workspace, the newest first. */
static int layer_at(struct env *v, size_t i, struct err *e)
{
	int fd;

	if (v->kind == ENV_COPY) {
		fd = i == 0 && v->copy
			     ? open(v->copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
			     : -1;
		return fd < 0 ? -ENOENT : fd;
	}
	if (i < v->layers.n)
		return env_layer_fd(v, v->layers.n - 1 - i, e);
	if (i > v->layers.n || !v->base.tree)
		return -ENOENT;
	fd = open(v->base.tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int read_merged(struct env *v, const char *path, struct buf *ret)
{
	struct err ignored = ERR_INIT;

	for (size_t i = 0; i <= ENV_LAYERS_MAX + 1; i++) {
		cleanup_fd int layer = layer_at(v, i, &ignored), fd = -1;

		if (layer < 0)
			return -ENOENT;
		fd = open_in_layer(layer, path);
		if (fd == -ENOENT)
			continue;
		return fd < 0 ? -ENOENT : file_read_fd(fd, ret);
	}
	return -ENOENT;
}

/* ---- HEAD ---- */

static bool hex_line(const char *s, enum git_hash h, struct oid *ret)
{
	size_t n = 2 * git_hash_len(h);

	return strlen(s) >= n && (!s[n] || s[n] == '\n') && oid_parse(ret, s, n);
}

static bool find_packed(struct env *v, const char *ref, struct oid *ret)
{
	cleanup_buf struct buf b = BUF_INIT(IMPORT_REFS_MAX_B);
	size_t hex = 2 * git_hash_len(v->repo.hash), n = strlen(ref);
	const char *p;

	if (read_merged(v, ".git/packed-refs", &b) < 0)
		return false;
	for (p = buf_str(&b); *p;) {
		size_t len = strcspn(p, "\n");

		if (len == hex + 1 + n && p[hex] == ' ' && memcmp(p + hex + 1, ref, n) == 0)
			return oid_parse(ret, p, hex);
		p += len + (p[len] == '\n');
	}
	return false;
}

static int read_head(struct env *v, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf head = BUF_INIT(4096), tip = BUF_INIT(4096);
	char path[REF_NAME_MAX + 8], *name;

	if (read_merged(v, ".git/HEAD", &head) < 0)
		goto bad;
	if (hex_line(buf_str(&head), v->repo.hash, ret))
		return 0;
	if (!str_starts(buf_str(&head), "ref: "))
		goto bad;
	name = head.data + 5;
	name[strcspn(name, "\n")] = '\0';
	if (!ref_name_fine(name))
		goto bad;
	snprintf(path, sizeof(path), ".git/%s", name);
	if (read_merged(v, path, &tip) == 0 && hex_line(buf_str(&tip), v->repo.hash, ret))
		return 0;
	if (find_packed(v, name, ret))
		return 0;
bad:
	return err_refuse(
		e, "HEAD inside %s cannot be read; use --squash for what is staged", v->name);
}

/* ---- objects into quarantine ---- */

struct quarantine {
	char path[4200];
	char objects[4300], alternates[4300]; /* variables for git */
	int fd;
	uint64_t files, bytes;
	unsigned packs;
};

static void quarantine_done(struct quarantine *q)
{
	close_fd(&q->fd);
	if (q->path[0])
		tree_remove_at(AT_FDCWD, q->path);
}

static int quarantine_make(struct quarantine *q, const struct repo *r, struct err *e)
{
	int rc;

	if (snprintf(q->path, sizeof(q->path), "%s/croft-import-XXXXXX", r->store) >=
		(int)sizeof(q->path))
		return err_set(e, ENAMETOOLONG, "make a quarantine");
	if (!mkdtemp(q->path)) {
		rc = err_set(e, errno, "make a quarantine");
		q->path[0] = '\0';
		return rc;
	}
	snprintf(q->objects, sizeof(q->objects), "GIT_OBJECT_DIRECTORY=%s", q->path);
	snprintf(q->alternates, sizeof(q->alternates),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=%s/objects", r->store);
	q->fd = open(q->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (q->fd < 0 || mkdirat(q->fd, "pack", 0700) < 0)
		return err_set(e, errno, "make a quarantine");
	return 0;
}

static int count_in(struct quarantine *q, const struct stat *st, struct err *e)
{
	q->bytes += (uint64_t)st->st_size;
	if (++q->files > IMPORT_FILES_MAX || q->bytes > IMPORT_BYTES_MAX)
		return err_refuse(e, "there are too many objects inside; use --squash");
	return 0;
}

static int copy_loose(
	struct quarantine *q, int from, const char *dir, const char *name, struct err *e)
{
	cleanup_fd int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_fd int to = -1;
	struct copy_stats cs = {0};
	char path[128];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0; /* hidden, or rubbish: if it is needed, it will be missed */
	if (count_in(q, &st, e) < 0)
		return -e->errnum;
	if (mkdirat(q->fd, dir, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "copy objects");
	snprintf(path, sizeof(path), "%.2s/%.*s", dir, (int)OID_HEX_MAX, name);
	to = openat(q->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	if (to < 0)
		return errno == EEXIST ? 0 : err_set(e, errno, "copy objects");
	return copy_content(fd, to, &cs, e);
}

static int index_pack(
	struct quarantine *q, const struct repo *r, int from, const char *name, struct err *e)
{
	cleanup_fd int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const char *argv[] = {IMPORT_GIT, "index-pack", "--stdin", "--fix-thin", NULL};
	const char *env[] = {q->objects, q->alternates, NULL};
	struct git_run run = {.argv = argv,
		.git_dir = r->store,
		.env = env,
		.in_fd = fd,
		.data_max_b = GIT_PATCH_DATA_MAX_B};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (++q->packs > IMPORT_PACKS_MAX)
		return err_refuse(e, "there are too many packs inside; use --squash");
	if (count_in(q, &st, e) < 0)
		return -e->errnum;
	return git_run(&run, e) < 0 ? err_wrap(e, "a pack inside is damaged; use --squash") : 0;
}

static int copy_objects_of(struct quarantine *q, const struct repo *r, int layer, struct err *e)
{
	cleanup_fd int top = path_open(
		layer, ".git/objects", O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
	cleanup_dir DIR *d = top >= 0 ? dir_list(top, ".") : NULL;
	size_t rest = 2 * git_hash_len(r->hash) - 2;
	struct dirent *de, *fe;
	int rc = 0;

	while (d && rc == 0 && (de = readdir(d))) {
		bool pack = str_eq(de->d_name, "pack");
		cleanup_dir DIR *sub = NULL;

		if (!pack && !str_hex(de->d_name, 2, 2))
			continue;
		sub = dir_list(top, de->d_name);
		while (sub && rc == 0 && (fe = readdir(sub))) {
			if (!pack && str_hex(fe->d_name, rest, rest))
				rc = copy_loose(q, dirfd(sub), de->d_name, fe->d_name, e);
			else if (pack && str_starts(fe->d_name, "pack-") &&
				 str_ends(fe->d_name, ".pack"))
				rc = index_pack(q, r, dirfd(sub), fe->d_name, e);
		}
	}
	return rc;
}

/* ---- what HEAD reaches, into the store ---- */

/* "commit parent": each on the one before, the first on the base. What was in ret is forgotten. */
static int parse_chain(
	const struct buf *out, const struct env *v, struct land_chain *ret, struct err *e)
{
	size_t hex = 2 * git_hash_len(v->repo.hash);
	struct oid on = v->base_commit;

	ret->n = 0;
	for (const char *p = buf_str(out); *p;) {
		size_t n = strcspn(p, "\n");
		struct oid c, parent, *w;

		if (n != 2 * hex + 1 || p[hex] != ' ' || !oid_parse(&c, p, hex) ||
			!oid_parse(&parent, p + hex + 1, hex) || !oid_eq(&parent, &on))
			return err_refuse(e,
				"the commits inside %s are not one line on top of where it "
				"started; use --squash",
				v->name);
		if (ret->n >= IMPORT_COMMITS_MAX)
			return err_refuse(e, "there are too many commits inside; use --squash");
		w = reallocarray(ret->v, ret->n + 1, sizeof(*w));
		if (!w)
			return land_no_memory(e);
		ret->v = w;
		ret->v[ret->n++] = on = c;
		p += n + (p[n] == '\n');
	}
	return 0;
}

static int walk(const struct repo *r, const char *const *env, const struct oid *head,
	const struct oid *base, const char *how, struct buf *out, struct err *e)
{
	struct oid_hex h = oid_hex(head), b = oid_hex(base);
	char not [OID_HEX_MAX + 2];
	const char *argv[] = {
		IMPORT_GIT, "rev-list", how, "--reverse", "--topo-order", h.s, not, "--", NULL};
	struct git_run run = {.argv = argv,
		.git_dir = r->store,
		.env = env,
		.out = out,
		.data_max_b = GIT_PATCH_DATA_MAX_B};

	snprintf(not, sizeof(not ), "^%s", b.s);
	return git_run(&run, e);
}

static int bring_over(struct quarantine *q, const struct repo *r, const struct oid *head,
	const struct oid *base, struct err *e)
{
	cleanup_fd int pack = openat(q->fd, "stream", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const char *pack_argv[] = {
		IMPORT_GIT, "pack-objects", "--revs", "--stdout", "--no-reuse-object", "-q", NULL};
	const char *index_argv[] = {IMPORT_GIT, "index-pack", "--stdin", "--strict", NULL};
	const char *env[] = {q->objects, q->alternates, NULL};
	char revs[2 * OID_HEX_MAX + 8];
	struct git_run run = {.argv = pack_argv,
		.git_dir = r->store,
		.env = env,
		.in = revs,
		.out_fd = pack,
		.data_max_b = GIT_PATCH_DATA_MAX_B};
	int rc;

	if (pack < 0)
		return err_set(e, errno, "make a pack");
	snprintf(revs, sizeof(revs), "%s\n^%s\n", oid_hex(head).s, oid_hex(base).s);
	run.in_n = strlen(revs);
	rc = git_run(&run, e);
	if (rc < 0)
		return rc;
	if (lseek(pack, 0, SEEK_SET) < 0)
		return err_set(e, errno, "read a pack");
	run = (struct git_run){.argv = index_argv,
		.git_dir = r->store,
		.in_fd = pack,
		.data_max_b = GIT_PATCH_DATA_MAX_B};
	rc = git_run(&run, e);
	/* Nothing may be missing now, without the quarantine. */
	return rc < 0 ? rc : walk(r, NULL, head, base, "--objects", NULL, e);
}

int land_import(struct land_job *j, struct land_chain *ret, struct err *e)
{
	__attribute__((cleanup(quarantine_done))) struct quarantine q = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(8u << 20);
	const struct repo *r = &j->v->repo;
	const char *env[] = {q.objects, q.alternates, NULL};
	struct oid head;
	int rc;

	if ((rc = read_head(j->v, &head, e)) < 0 || oid_eq(&head, &j->v->base_commit))
		return rc;
	rc = quarantine_make(&q, r, e);
	for (size_t i = 0; rc == 0 && i <= ENV_LAYERS_MAX; i++) {
		cleanup_fd int layer = layer_at(j->v, i, e);

		if (layer < 0)
			break;
		rc = copy_objects_of(&q, r, layer, e);
	}
	*e = rc < 0 ? *e : ERR_INIT;
	if (rc == 0)
		rc = walk(r, env, &head, &j->v->base_commit, "--parents", &out, e);
	if (rc == 0)
		rc = parse_chain(&out, j->v, ret, e);
	if (rc == 0 && ret->n)
		rc = bring_over(&q, r, &head, &j->v->base_commit, e);
	/*
	 * A file in quarantine may have the name of another object, one of the user's own commits for
	 * instance, and git believes the name. What is said here is said by true names.
	 */
	buf_reset(&out);
	if (rc == 0 && ret->n)
		rc = walk(r, NULL, &head, &j->v->base_commit, "--parents", &out, e);
	if (rc == 0 && ret->n)
		rc = parse_chain(&out, j->v, ret, e);
	if (rc < 0 && e->kind != ERR_REFUSED)
		err_wrap(e,
			"the commits inside %s cannot be taken over (--squash lands what is "
			"staged)",
			j->v->name);
	return rc;
}
