/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the command trusts: the host's lists of authorities and the sandbox's own, in the private
 * root and over the files that programs read by themselves.
 *
 * The supervisor serves these files and makes them, and the sandbox's authority with them, when
 * somebody looks for one: most commands never do. What stands in the root, and over the host's, is
 * a symlink to the served file. A symlink because set-up must not touch that mount: nobody answers
 * there before READY. Where there is no FUSE, or where a kernel does not mount a symlink, the
 * supervisor is asked for the certificate and the files are written here.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/forced.h"
#include "os/mount.h"
#include "os/path.h"

#define JAVA_CUT_HEAD 12 /* of a Java key store: what is made anew with another entry */
#define JAVA_CUT_TAIL 20

/*
 * The supervisor makes the sandbox's authority, and sends its certificate. Its key was never in this
 * process.
 */
static void receive_trust(struct setup *s)
{
	struct sandbox from = {.control = s->in->control, .fd = SANDBOX_FDS_NONE};
	struct pollfd p = {.fd = s->in->control, .events = POLLIN};
	struct control_msg m = {.type = CONTROL_ASK_TRUST};

	if (control_send(s->in->control, &m, NULL, 0) < 0)
		_exit(125);
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (control_receive(&from, &m) != 1 || m.type != CONTROL_TRUST)
		_exit(125); /* the supervisor gave up, and knows why */
	s->java = take_fd(&from.fd[0]);
	s->java_parts = m.status != 0;
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&from.fd[i]);
	snprintf(s->ca, sizeof(s->ca), "%s", m.msg);
}

/* All of a file but its first `head` and last `tail` bytes. */
static int copy_middle(int to, int from, off_t head, off_t tail, const char *what, struct err *e)
{
	struct stat st;
	off_t at = head;

	if (fstat(from, &st) < 0)
		return err_set(e, errno, "look at %s", what);
	while (at < st.st_size - tail) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - tail - at));

		if (n <= 0)
			return err_set(
				e, n < 0 ? errno : EIO, "copy %s into the private root", what);
	}
	return 0;
}

/* The supervisor's ends around what the host has, or all of it from the supervisor. */
static int make_java(struct setup *s, const struct plan_op *op, int to, struct err *e)
{
	char ends[4096];
	cleanup_fd int from = -1;
	ssize_t n;
	int r;

	if (!s->java_parts)
		return copy_middle(to, s->java, 0, 0, op->dst, e);
	n = read(s->java, ends, sizeof(ends));
	if (n < JAVA_CUT_HEAD || !op->src)
		return err_set(e, EPROTO, "make %s", op->dst);
	from = setup_open_source(op, O_RDONLY | O_NONBLOCK | O_NOCTTY, e);
	if (from < 0)
		return from;
	r = fd_write_all(to, ends, JAVA_CUT_HEAD);
	if (r == 0 && copy_middle(to, from, JAVA_CUT_HEAD, JAVA_CUT_TAIL, op->src, e) < 0)
		return -e->errnum;
	if (r == 0)
		r = fd_write_all(to, ends + JAVA_CUT_HEAD, (size_t)n - JAVA_CUT_HEAD);
	return r < 0 ? err_set(e, -r, "write %s", op->dst) : 0;
}

static int make_trust(struct setup *s, const struct plan_op *op, struct err *e)
{
	cleanup_fd int to = -1, from = -1;
	int r;

	if (setup_make_parents(s, op->dst, e) < 0)
		return -e->errnum;
	to = openat(s->root, setup_rel(op->dst), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (to < 0)
		return err_set(e, errno, "make %s in the private root", op->dst);
	if (op->mode == TRUST_JAVA)
		return make_java(s, op, to, e);
	if (op->src) {
		from = setup_open_source(
			op, O_RDONLY | O_NONBLOCK | O_NOCTTY, e); /* not a FIFO's other end */
		if (from < 0)
			return from;
		if (copy_middle(to, from, 0, 0, op->src, e) < 0)
			return -e->errnum;
	}
	if (op->mode == TRUST_BUNDLE && (r = fd_write_all(to, "\n", 1)) < 0)
		return err_set(e, -r, "write %s", op->dst);
	r = fd_write_all(to, s->ca, strlen(s->ca));
	return r < 0 ? err_set(e, -r, "write %s", op->dst) : 0;
}

/* Over a file of the host's. */
static int cover(struct setup *s, const struct plan_op *op, struct err *e)
{
	cleanup_fd int src = -1, m = -1;

	src = openat(s->root, setup_rel(op->src), O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (src < 0)
		return err_set(e, errno, "open %s", op->src);
	if (!s->trust_here && forced_fail("symlink_mount"))
		return err_set(e, EINVAL, "mount a symlink (forced)");
	if (mount_clone(src, MOUNT_RO | MOUNT_NODEV | MOUNT_NOEXEC, &m, e) < 0)
		return err_wrap(e, "%s", op->dst);
	return setup_attach(s, m, op, e);
}

/* The files themselves in place of the symlinks that were made until now. */
static int write_here(struct setup *s, const struct plan_op *until, struct err *e)
{
	int r = 0;

	s->trust_here = true;
	receive_trust(s);
	for (const struct plan_op *op = s->in->plan->ops; op < until && r == 0; op++) {
		if (op->kind != PLAN_TRUST || op->nested)
			continue;
		if (unlinkat(s->root, setup_rel(op->dst), 0) < 0)
			return err_set(e, errno, "remove %s", op->dst);
		r = make_trust(s, op, e);
	}
	return r;
}

int setup_trust(struct setup *s, const struct plan_op *op, struct err *e)
{
	char served[sizeof(NS_DECOY_DIR) + 64];
	int r;

	if (!s->trust_here) {
		if ((r = setup_served(s, e)) < 0)
			return r;
		if (r == 0 && (r = write_here(s, op, e)) < 0)
			return r;
	}
	if (op->nested) {
		r = cover(s, op, e);
		if (r != -EINVAL || s->trust_here)
			return r;
		*e = ERR_INIT;
		return write_here(s, op, e) < 0 ? -e->errnum : cover(s, op, e);
	}
	if (s->trust_here)
		return make_trust(s, op, e);
	snprintf(served, sizeof(served), "%s/%s", NS_DECOY_DIR, trust_file_names[op->mode]);
	return setup_symlink(s, served, op->dst, e);
}
