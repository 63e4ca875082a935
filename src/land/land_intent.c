/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intent: a landing written down before it begins, and kept afterwards as the last one.
 *
 * File: landing/intent.json, JSON lines: a head, one array per operation, a closing line that counts them;
 *       made under another name, synced, renamed. A file without its closing line does not exist as
 *       far as a landing is concerned: it is refused, and nothing was touched when it was written.
 * Names that are not UTF-8 are kept in Base64: the first character tells ('=' text, '@' Base64).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "land/land_impl.h"
#include "os/path.h"

#define SCHEMA "croft.landing/v1"
#define FLUSH_B (256u << 10)
#define INTENT_MAX_B (2047u << 20)

static const char *const kind_names[LAND_KIND_NUM] = {"apply", "revert"};

void land_intent_done(struct land_intent *in)
{
	free(in->ref);
	free(in->stage);
	land_ops_done(&in->ops);
	*in = (struct land_intent){0};
}

/* ---- writing ---- */

static void put_text(struct json *w, const char *key, const char *s)
{
	size_t n = s ? strlen(s) : 0;
	cleanup_free char *t = NULL;

	if (!s) {
		json_null(w, key);
		return;
	}
	if (utf8_valid(s, n)) {
		json_strf(w, key, "=%s", s);
		return;
	}
	t = malloc(base64_len(n) + 2);
	if (!t) {
		w->out->failed = true;
		return;
	}
	t[0] = '@';
	base64_encode(t + 1, s, n);
	json_strn(w, key, t, base64_len(n) + 1);
}

static void put_oid(struct json *w, const char *key, const struct oid *o)
{
	json_str(w, key, oid_hex(o).s);
}

static void put_head(struct buf *b, const struct land_intent *in)
{
	struct json w;

	json_init(&w, b, false);
	json_object(&w, NULL);
	json_str(&w, "schema", SCHEMA);
	json_str(&w, "kind", kind_names[in->kind]);
	json_int(&w, "how", in->how);
	json_int(&w, "time_s", in->time.tv_sec);
	json_int(&w, "time_ns", in->time.tv_nsec);
	json_uint(&w, "seq", in->seq);
	json_bool(&w, "reviewed", in->reviewed);
	put_text(&w, "ref", in->ref);
	put_oid(&w, "ref_old", &in->ref_old);
	put_oid(&w, "ref_new", &in->ref_new);
	json_bool(&w, "index", in->index);
	put_oid(&w, "start", &in->start);
	put_oid(&w, "tree", &in->tree);
	put_oid(&w, "onto", &in->onto);
	put_oid(&w, "landed", &in->landed);
	json_str(&w, "patch_id", in->patch_id);
	put_text(&w, "stage", in->stage);
	json_end(&w);
	buf_addc(b, '\n');
}

static void put_op(struct buf *b, const struct land_op *op)
{
	struct json w;

	json_init(&w, b, false);
	json_array(&w, NULL);
	put_text(&w, NULL, op->path);
	json_uint(&w, NULL, op->old_mode);
	put_oid(&w, NULL, &op->old);
	json_uint(&w, NULL, op->new_mode);
	put_oid(&w, NULL, &op->new);
	json_uint(&w, NULL, op->before.mode);
	put_oid(&w, NULL, &op->before.raw);
	json_strf(&w, NULL, "%llu", (unsigned long long)op->before.ino);
	json_uint(&w, NULL, op->before.size);
	json_int(&w, NULL, op->before.mtime_s);
	json_int(&w, NULL, op->before.mtime_ns);
	put_oid(&w, NULL, &op->raw);
	json_uint(&w, NULL, (op->crlf ? 1u : 0u) | (op->merged ? 2u : 0u) | (op->still ? 4u : 0u));
	json_uint(&w, NULL, op->exists);
	put_text(&w, NULL, op->beside);
	json_end(&w);
	buf_addc(b, '\n');
}

static int flush(struct buf *b, int fd, size_t at_least)
{
	int rc;

	if (b->failed)
		return -ENOMEM;
	if (b->len < at_least)
		return 0;
	rc = fd_write_all(fd, buf_str(b), b->len);
	buf_reset(b);
	return rc;
}

static int write_lines(const struct land_intent *in, int fd)
{
	cleanup_buf struct buf b = BUF_INIT(FLUSH_B + (1u << 20));
	int rc;

	put_head(&b, in);
	rc = flush(&b, fd, 0);
	for (size_t i = 0; rc == 0 && i < in->ops.n; i++) {
		put_op(&b, &in->ops.v[i]);
		rc = flush(&b, fd, FLUSH_B);
	}
	buf_addf(&b, "{\"end\":%zu}\n", in->ops.n);
	if (rc == 0)
		rc = flush(&b, fd, 0);
	return rc == 0 && fsync(fd) < 0 ? -errno : rc;
}

static int open_dir(int env_fd, bool make)
{
	int fd;

	if (make && mkdirat(env_fd, LAND_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(env_fd, LAND_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int land_intent_write(struct land_job *j, struct err *e)
{
	cleanup_fd int dir = open_dir(j->v->dir_fd, true), fd = -1;
	int rc = dir < 0 ? dir : 0;

	if (rc == 0) {
		fd = openat(dir, LAND_INTENT ".new",
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
		rc = fd < 0 ? -errno : write_lines(&j->in, fd);
	}
	if (rc == 0 && renameat(dir, LAND_INTENT ".new", dir, LAND_INTENT) < 0)
		rc = -errno;
	if (rc == 0 && (fsync(dir) < 0 || fsync(j->v->dir_fd) < 0) && errno != EBADF)
		rc = -errno;
	return rc < 0 ? err_set(e, -rc, "write down the landing of %s", j->v->name) : 0;
}

int land_intent_end(struct land_job *j, enum land_end how, struct err *e)
{
	cleanup_fd int dir = open_dir(j->v->dir_fd, false);
	int rc = dir < 0 ? dir : 0;

	/* What has been taken back out is no last landing any more. */
	if (rc == 0 && how == LAND_END_FORGET && unlinkat(dir, LAND_LAST, 0) < 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0 && how == LAND_END_LAST)
		rc = renameat(dir, LAND_INTENT, dir, LAND_LAST) < 0 ? -errno : 0;
	else if (rc == 0)
		rc = unlinkat(dir, LAND_INTENT, 0) < 0 ? -errno : 0;
	if (rc == 0 && fsync(dir) < 0)
		rc = -errno;
	return rc < 0 && rc != -ENOENT ? err_set(e, -rc, "end the landing of %s", j->v->name) : 0;
}

/* ---- reading ---- */

static bool get_text(const struct jnode *n, char **ret)
{
	const char *s = jstr(n);
	char *t;
	long len;

	if (!s) {
		*ret = NULL;
		return jtype(n) == JNULL;
	}
	if (s[0] == '=')
		return (*ret = strdup(s + 1)) != NULL;
	if (s[0] != '@')
		return false;
	t = malloc(strlen(s) + 1);
	len = t ? base64_decode(t, strlen(s), s + 1, strlen(s + 1)) : -1;
	if (len < 0 || memchr(t, '\0', (size_t)len)) {
		free(t);
		return false;
	}
	t[len] = '\0';
	*ret = t;
	return true;
}

static bool get_oid(const struct jnode *n, struct oid *ret)
{
	const char *s = jstr(n);

	*ret = (struct oid){0};
	return s && (!*s || oid_parse(ret, s, strlen(s)));
}

static bool get_uint(const struct jnode *n, int64_t max, int64_t *ret)
{
	return jint(n, ret) && *ret >= 0 && *ret <= max;
}

static bool get_mode(const struct jnode *n, unsigned *ret)
{
	int64_t v;

	if (!get_uint(n, 0170000, &v))
		return false;
	*ret = (unsigned)v;
	return v == 0 || v == 1 || v == 040000 || v == 0100644 || v == 0100755 || v == 0120000;
}

static bool get_ref(const char *s)
{
	return !s || str_eq(s, "HEAD") || (str_starts(s, "refs/heads/") && s[11]);
}

static bool get_head(const struct jnode *n, struct land_intent *in)
{
	const char *kind = jstr(jget(n, "kind")), *schema = jstr(jget(n, "schema")),
		   *patch = jstr(jget(n, "patch_id"));
	int64_t how, s, ns, seq;

	if (!schema || !str_eq(schema, SCHEMA) || !kind || !patch || strlen(patch) > OID_HEX_MAX)
		return false;
	in->kind = str_eq(kind, kind_names[1]) ? LAND_KIND_REVERT : LAND_KIND_APPLY;
	if (!str_eq(kind, kind_names[in->kind]) ||
		!get_uint(jget(n, "how"), LAND_HOW_NUM - 1, &how) ||
		!get_uint(jget(n, "time_s"), INT64_MAX, &s) ||
		!get_uint(jget(n, "time_ns"), 999999999, &ns) ||
		!get_uint(jget(n, "seq"), INT64_MAX, &seq))
		return false;
	in->how = (enum land_how)how;
	in->time = (struct timespec){.tv_sec = s, .tv_nsec = ns};
	in->seq = (uint64_t)seq;
	in->reviewed = jtrue(jget(n, "reviewed"));
	in->index = jtrue(jget(n, "index"));
	snprintf(in->patch_id, sizeof(in->patch_id), "%s", patch);
	return get_text(jget(n, "ref"), &in->ref) && get_ref(in->ref) &&
	       get_oid(jget(n, "ref_old"), &in->ref_old) &&
	       get_oid(jget(n, "ref_new"), &in->ref_new) && get_oid(jget(n, "start"), &in->start) &&
	       get_oid(jget(n, "tree"), &in->tree) && get_oid(jget(n, "onto"), &in->onto) &&
	       get_oid(jget(n, "landed"), &in->landed) && get_text(jget(n, "stage"), &in->stage);
}

static bool get_before(const struct jnode *n, struct land_file *f)
{
	const char *ino = jstr(jat(n, 7));
	int64_t size;

	return get_mode(jat(n, 5), &f->mode) && get_oid(jat(n, 6), &f->raw) && ino &&
	       str_u64(ino, UINT64_MAX, &f->ino) && get_uint(jat(n, 8), INT64_MAX, &size) &&
	       (f->size = (uint64_t)size, true) && jint(jat(n, 9), &f->mtime_s) &&
	       get_uint(jat(n, 10), 999999999, &f->mtime_ns);
}

static bool get_op(const struct jnode *n, struct land_intent *in)
{
	cleanup_free char *path = NULL;
	int64_t flags, exists;
	struct land_op *op;

	if (jlen(n) != 15 || !get_text(jat(n, 0), &path) || !path || !land_path_good(path))
		return false;
	op = land_ops_add(&in->ops, path);
	if (!op || !get_uint(jat(n, 12), 7, &flags) || !get_uint(jat(n, 13), 4096, &exists))
		return false;
	op->crlf = flags & 1;
	op->merged = flags & 2;
	op->still = flags & 4;
	op->exists = (unsigned)exists;
	return get_mode(jat(n, 1), &op->old_mode) && get_oid(jat(n, 2), &op->old) &&
	       get_mode(jat(n, 3), &op->new_mode) && get_oid(jat(n, 4), &op->new) &&
	       get_before(n, &op->before) && get_oid(jat(n, 11), &op->raw) &&
	       get_text(jat(n, 14), &op->beside);
}

/* 1: an ordinary line, 2: the closing one. */
static int take_line(struct land_intent *in, const char *p, size_t n, bool first, struct err *e)
{
	cleanup_jdoc struct jdoc *d = NULL;
	const struct jnode *root;
	int64_t count;
	int rc = jdoc_parse(&d, p, n, e);

	if (rc < 0)
		return rc;
	root = jdoc_root(d);
	if (first)
		return get_head(root, in) ? 1 : -EBADMSG;
	if (jtype(root) == JARRAY)
		return get_op(root, in) ? 1 : -EBADMSG;
	return jint(jget(root, "end"), &count) && count >= 0 && (size_t)count == in->ops.n
		       ? 2
		       : -EBADMSG;
}

static int read_lines(struct land_intent *in, int fd, struct err *e)
{
	FILE *f = fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 3), "re");
	cleanup_file FILE *owner = f;
	cleanup_free char *line = NULL;
	size_t cap = 0;
	bool first = true;
	ssize_t n;
	int rc = 0;

	if (!owner)
		return -ENOMEM;
	while (rc >= 0 && rc != 2 && (n = getline(&line, &cap, f)) > 0) {
		rc = take_line(in, line, (size_t)n, first, e);
		first = false;
	}
	if (rc < 0)
		return rc;
	return rc == 2 && getline(&line, &cap, f) < 0 ? 0 : -EBADMSG;
}

int land_intent_read(struct land_intent *ret, int env_fd, const char *name, struct err *e)
{
	cleanup_fd int dir = open_dir(env_fd, false), fd = -1;
	struct land_intent in = {0};
	struct stat st;
	int rc;

	if (dir < 0)
		return dir == -ENOENT ? -ENOENT
				      : err_set(e, -dir, "open the directory of landings");
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_set(e, errno, "open %s/%s", LAND_DIR, name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)INTENT_MAX_B)
		return err_set(e, EBADMSG, "read %s/%s", LAND_DIR, name);
	rc = read_lines(&in, fd, e);
	if (rc < 0) {
		land_intent_done(&in);
		return err_set(e, EBADMSG, "the record %s/%s is damaged", LAND_DIR, name);
	}
	land_ops_sort(&in.ops);
	*ret = in;
	return 0;
}
