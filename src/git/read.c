/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Git objects: see read.h.
 *
 * Protocol: one line asks; "NAME TYPE SIZE\n", the bytes and "\n" answer, or "… missing\n". There is
 *           never more than one question open, so neither side can wait for the other.
 * Trust:    git does not compare an object's bytes with its name when it reads; we do. What is damaged
 *           or was changed on disk is an error, not an answer.
 * Failure:  after an error in the middle of an answer git is stopped; the next question starts
 *           another one.
 */
#include "git/read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/child.h"
#include "git/hash.h"
#include "os/interrupt.h"
#include "os/path.h"

#define SPEC_MAX 4096u
#define LINE_MAX_B (SPEC_MAX + 64u)
#define CHUNK_B 65536u
#define HOLE_MIN_B 4096u

struct git_reader {
	char *git_dir;
	struct git_child child;
	int ask_fd, answer_fd, said_fd;
	size_t at, end; /* unread part of chunk */
	char chunk[CHUNK_B];
	char stuck_on[PATH_MAX]; /* what git waits for instead of an answer */
};

/* Larger objects of a pack are passed on as they are read, instead of held whole. */
static const char *const batch_argv[] = {
	"-c", "core.bigFileThreshold=8m", "cat-file", "--batch", NULL};

/* ------------------------------------------------------------------ the other end */

static void reader_stop(struct git_reader *r)
{
	close_fd(&r->ask_fd);
	close_fd(&r->answer_fd);
	close_fd(&r->said_fd);
	git_child_stop(&r->child);
	r->at = r->end = 0;
}

static int reader_start(struct git_reader *r, struct err *e)
{
	struct git_run run = {.argv = batch_argv, .git_dir = r->git_dir};
	cleanup_fd int in = -1, out = -1;
	int s[2], p[2], rc;

	if (r->child.pid > 0)
		return 0;
	/* A socket, because a write to it can be asked not to raise SIGPIPE. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
		return err_set(e, errno, "talk to git cat-file");
	r->ask_fd = s[0];
	in = git_high_fd(s[1]);
	if (pipe2(p, O_CLOEXEC) < 0) {
		rc = err_set(e, errno, "talk to git cat-file");
		reader_stop(r);
		return rc;
	}
	r->answer_fd = p[0];
	out = git_high_fd(p[1]);
	/* A file in memory for what it says besides: it can fill no pipe. */
	r->said_fd = git_high_fd(memfd_create("croft-git-said", MFD_CLOEXEC));
	if (in < 0 || out < 0 || r->said_fd < 0)
		rc = err_set(e, errno, "talk to git cat-file");
	else
		rc = git_child_start(&r->child, &run, in, out, r->said_fd, e);
	if (rc < 0)
		reader_stop(r);
	return rc;
}

/* The conversation is broken: say why, with git's own words if it had any. */
static int reader_lost(struct git_reader *r, int errnum, struct err *e)
{
	struct git_run run = {.argv = batch_argv};
	cleanup_buf struct buf said = BUF_INIT(GIT_STDERR_MAX);
	char text[GIT_STDERR_MAX];
	ssize_t n = pread(r->said_fd, text, sizeof(text), 0);

	reader_stop(r);
	if (errnum == EDEADLK)
		return git_stuck(e, r->stuck_on);
	if (n <= 0)
		return err_set(e, errnum, "read from git cat-file");
	buf_add(&said, text, (size_t)n);
	return git_failed(e, &run, 128, &said);
}

int git_reader_open(struct git_reader **ret, const char *git_dir, struct err *e)
{
	cleanup_git_reader struct git_reader *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return err_set(e, ENOMEM, "read Git objects");
	r->ask_fd = r->answer_fd = r->said_fd = -1;
	r->git_dir = strdup(git_dir);
	if (!r->git_dir)
		return err_set(e, ENOMEM, "read Git objects");
	rc = reader_start(r, e);
	if (rc < 0)
		return rc;
	*ret = take_ptr(r);
	return 0;
}

void git_reader_close(struct git_reader *r)
{
	if (!r)
		return;
	reader_stop(r);
	free(r->git_dir);
	free(r);
}

void git_reader_closep(struct git_reader **r)
{
	git_reader_close(*r);
}

/* ------------------------------------------------------------------ question and answer */

/* Wait for an answer: not for ever when git cannot give one, and not when we are asked to end. */
static int wait_answer(struct git_reader *r)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = r->answer_fd, .events = POLLIN},
			{.fd = interrupt_fd(), .events = POLLIN}};
		int n = poll(p, 2, GIT_LOOK_MS);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && git_child_stuck(&r->child, r->stuck_on, sizeof(r->stuck_on)))
			return -EDEADLK;
		if (n > 0 && p[0].revents)
			return 0;
		if (n > 0 && p[1].revents)
			return -EINTR;
	}
}

/* At least one unread byte. */
static int fill(struct git_reader *r)
{
	ssize_t n;
	int rc;

	if (r->at < r->end)
		return 0;
	rc = wait_answer(r);
	if (rc < 0)
		return rc;
	do
		n = read(r->answer_fd, r->chunk, sizeof(r->chunk));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	r->at = 0;
	r->end = (size_t)n;
	return 0;
}

static int ask(struct git_reader *r, const char *spec)
{
	char line[SPEC_MAX + 1];
	size_t n = strlen(spec), at = 0;

	memcpy(line, spec, n);
	line[n++] = '\n';
	while (at < n) {
		ssize_t w = send(r->ask_fd, line + at, n - at, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		at += (size_t)w;
	}
	return 0;
}

static int read_line(struct git_reader *r, char *ret, size_t size)
{
	for (size_t n = 0; n + 1 < size; n++) {
		int rc = fill(r);

		if (rc < 0)
			return rc;
		ret[n] = r->chunk[r->at++];
		if (ret[n] == '\n') {
			ret[n] = '\0';
			return 0;
		}
	}
	return -EBADMSG;
}

struct head {
	struct oid oid;
	enum git_type type;
	uint64_t size;
};

static bool parse_head(const char *line, struct head *ret)
{
	size_t n = strcspn(line, " "), m;

	if (!line[n] || !oid_parse(&ret->oid, line, n))
		return false;
	line += n + 1;
	m = strcspn(line, " ");
	if (!line[m] || !str_u64(line + m + 1, INT64_MAX, &ret->size))
		return false;
	for (int t = 0; t < GIT_TYPE_NUM; t++) {
		if (strlen(git_type_names[t]) != m || memcmp(git_type_names[t], line, m))
			continue;
		ret->type = (enum git_type)t;
		return true;
	}
	return false;
}

static int open_answer(struct git_reader *r, const char *spec, struct head *ret, struct err *e)
{
	cleanup_buf struct buf shown = BUF_INIT(8 * SPEC_MAX);
	char line[LINE_MAX_B];
	int rc;

	if (!*spec || strlen(spec) >= SPEC_MAX || strchr(spec, '\n'))
		return err_invalid(e, "this cannot be the name of a Git object");
	rc = reader_start(r, e);
	if (rc < 0)
		return rc;
	rc = ask(r, spec);
	if (rc == 0)
		rc = read_line(r, line, sizeof(line));
	if (rc < 0)
		return reader_lost(r, -rc, e);
	if (parse_head(line, ret))
		return 0;
	if (!str_ends(line, " missing") && !str_ends(line, " ambiguous"))
		return reader_lost(r, EBADMSG, e);
	str_show(&shown, spec, strlen(spec));
	*e = (struct err){.kind = ERR_FAILED, .errnum = ENOENT};
	snprintf(e->msg, sizeof(e->msg), "there is no Git object %.200s%s", buf_str(&shown),
		str_ends(line, " ambiguous") ? ": more than one would fit" : "");
	return -ENOENT;
}

/* To a fresh file; a piece of nothing but zeros becomes a hole, which end_holes() ends. */
static int put_piece(int fd, const char *p, size_t n, bool *ret_hole)
{
	static const char zeros[HOLE_MIN_B];
	bool hole = n >= HOLE_MIN_B && memcmp(p, zeros, HOLE_MIN_B) == 0 &&
		    memcmp(p, p + HOLE_MIN_B, n - HOLE_MIN_B) == 0;

	hole = hole && lseek(fd, (off_t)n, SEEK_CUR) >= 0;
	*ret_hole = hole;
	return hole ? 0 : fd_write_all(fd, p, n);
}

static int end_holes(int fd, bool hole)
{
	off_t end = hole ? lseek(fd, 0, SEEK_CUR) : 0;

	return hole && (end < 0 || ftruncate(fd, end) < 0) ? -errno : 0;
}

/* The bytes of an answer, to a buffer or a descriptor; they must hash to the name. */
static int take_answer(
	struct git_reader *r, const struct head *h, struct buf *to, int fd, struct err *e)
{
	struct hasher hash;
	struct oid real;
	bool hole = false;
	int rc;

	hasher_begin(&hash, h->oid.n == 32 ? GIT_SHA256 : GIT_SHA1, h->type, h->size);
	for (uint64_t left = h->size; left > 0;) {
		size_t n;

		rc = fill(r);
		if (rc < 0)
			return reader_lost(r, -rc, e);
		n = (size_t)MIN_OF((uint64_t)(r->end - r->at), left);
		hasher_add(&hash, r->chunk + r->at, n);
		if (to)
			buf_add(to, r->chunk + r->at, n);
		rc = to ? (to->failed ? -ENOMEM : 0) : put_piece(fd, r->chunk + r->at, n, &hole);
		r->at += n;
		left -= n;
		if (rc == 0 && left == 0 && !to)
			rc = end_holes(fd, hole);
		if (rc < 0) {
			reader_stop(r);
			return err_set(e, -rc, "store Git object %s", oid_hex(&h->oid).s);
		}
	}
	rc = fill(r);
	if (rc < 0 || r->chunk[r->at++] != '\n')
		return reader_lost(r, rc < 0 ? -rc : EBADMSG, e);
	hasher_end(&hash, &real);
	if (!oid_eq(&real, &h->oid))
		return err_set(e, EBADMSG, "Git object %s is damaged: its bytes have the name %s",
			oid_hex(&h->oid).s, oid_hex(&real).s);
	return 0;
}

/* What was there before stays, on failure, all that is there. */
static void cut_back(struct buf *b, size_t n)
{
	b->len = n;
	if (b->data)
		b->data[n] = '\0';
}

int git_read(struct git_reader *r, const char *spec, enum git_type *ret_type, struct oid *ret_oid,
	struct buf *ret, struct err *e)
{
	size_t before = ret->len;
	struct head h;
	int rc;

	rc = open_answer(r, spec, &h, e);
	if (rc < 0)
		return rc;
	if (ret->failed || h.size > ret->max - ret->len) {
		reader_stop(r); /* rather than read what nobody wants */
		return err_set(e, EFBIG, "Git object %s has %llu bytes", oid_hex(&h.oid).s,
			(unsigned long long)h.size);
	}
	rc = take_answer(r, &h, ret, -1, e);
	if (rc < 0) {
		cut_back(ret, before);
		return rc;
	}
	if (ret_type)
		*ret_type = h.type;
	if (ret_oid)
		*ret_oid = h.oid;
	return 0;
}

static int wrong_object(const struct oid *o, enum git_type is, enum git_type want, struct err *e)
{
	return err_set(e, EBADMSG, "Git object %s is a %s, not a %s", oid_hex(o).s,
		git_type_names[is], git_type_names[want]);
}

int git_read_oid(struct git_reader *r, const struct oid *o, enum git_type want, struct buf *ret,
	struct err *e)
{
	size_t before = ret->len;
	enum git_type t = GIT_BLOB;
	struct oid is;
	int rc = git_read(r, oid_hex(o).s, &t, &is, ret, e);

	if (rc < 0)
		return rc;
	if (t == want && oid_eq(&is, o))
		return 0;
	cut_back(ret, before);
	return wrong_object(o, t, want, e);
}

int git_read_to_fd(struct git_reader *r, const struct oid *o, int fd, struct err *e)
{
	struct head h;
	int rc = open_answer(r, oid_hex(o).s, &h, e);

	if (rc < 0)
		return rc;
	if (h.type != GIT_BLOB || !oid_eq(&h.oid, o)) {
		reader_stop(r);
		return wrong_object(o, h.type, GIT_BLOB, e);
	}
	return take_answer(r, &h, NULL, fd, e);
}
