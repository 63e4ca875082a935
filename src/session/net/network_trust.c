/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a sandbox trusts, as the supervisor makes it: its authority and the lists that name it.
 *
 * Order:  network_trust() while the sandbox sets itself up: what can be refused is refused there.
 *         Everything else waits until somebody looks for a list (network_trust_file) or speaks to a
 *         host (network_authority), whichever comes first: most commands do neither. Where lists
 *         cannot be served the sandbox asks for them before READY (network_trust_send).
 * Trust:  the host's lists are the ones that the plan saw, opened before the command exists.
 * Secrecy: the sandbox's first process is there before the key is; the key goes to the gateway and
 *         is then forgotten.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/net/authority.h"
#include "session/net/network_impl.h"
#include "session/config/state.h"
#include "session/net/truststore.h"
#include "engine/init/init.h"
#include "os/path.h"

int network_authority(struct network *n, struct err *e)
{
	return n->ca.der_len ? 0 : authority_make(&n->ca, n->run_id, e);
}

/* ---- the lists ---- */

static int make_bundle(struct network *n, struct buf *out, struct err *e)
{
	return truststore_bundle(out, &n->ca, n->lists[TRUST_BUNDLE], e);
}

/* Java's list, whole, from the host's bundle and ours. */
static int make_java(struct network *n, struct buf *out, struct err *e)
{
	cleanup_buf struct buf bundle = BUF_INIT(TRUSTSTORE_BUNDLE_MAX);
	int r = make_bundle(n, &bundle, e);

	return r < 0 ? r : truststore_java(out, buf_str(&bundle), bundle.len, e);
}

/* The ends that go around the host's own; 0 where that is of another kind, or is not there. */
static int java_ends(struct network *n, struct buf *head, struct buf *tail, struct err *e)
{
	cleanup_fd int cache = state_cache(n->home);
	int own = n->lists[TRUST_JAVA];

	return own < 0 ? 0 : truststore_java_parts(head, tail, &n->ca, own, cache, e);
}

/* All of a file but its ends. */
static int add_middle(struct buf *out, int fd, off_t at, off_t tail, struct err *e)
{
	char chunk[16384];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at the host's list of authorities");
	while (at < st.st_size - tail) {
		size_t want = MIN_OF(sizeof(chunk), (size_t)(st.st_size - tail - at));
		ssize_t n = pread(fd, chunk, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(
				e, n < 0 ? errno : EIO, "read the host's list of authorities");
		buf_add(out, chunk, (size_t)n);
		at += n;
	}
	return 0;
}

static int add_java(struct network *n, struct buf *out, struct err *e)
{
	cleanup_buf struct buf head = BUF_INIT(4096), tail = BUF_INIT(4096);
	int r = java_ends(n, &head, &tail, e);

	if (r <= 0)
		return r < 0 ? r : make_java(n, out, e);
	buf_add(out, head.data, head.len);
	r = add_middle(
		out, n->lists[TRUST_JAVA], TRUSTSTORE_JAVA_CUT_HEAD, TRUSTSTORE_JAVA_CUT_TAIL, e);
	buf_add(out, tail.data, tail.len);
	return r;
}

static int make_file(struct network *n, enum trust_file f, struct buf *out, struct err *e)
{
	int r = network_authority(n, e);

	*out = BUF_INIT(f == TRUST_CA     ? AUTHORITY_PEM_MAX
			: f == TRUST_JAVA ? TRUSTSTORE_JAVA_MAX
					  : TRUSTSTORE_BUNDLE_MAX);
	if (r == 0 && f == TRUST_BUNDLE)
		r = make_bundle(n, out, e);
	else if (r == 0 && f == TRUST_JAVA)
		r = add_java(n, out, e);
	else if (r == 0)
		authority_pem(&n->ca, out);
	if (r == 0 && (out->failed || !out->len))
		r = err_set(e, ENOMEM, "make %s", trust_file_names[f]);
	if (r < 0)
		buf_done(out);
	return r;
}

/* ---- served ---- */

int network_trust_file(struct network *n, enum trust_file f, const void **ret, size_t *ret_n)
{
	struct buf *b = &n->trust[f];
	struct err e = ERR_INIT;

	if (!(n->trust_files & (1u << f)))
		return -ENOENT;
	if (!b->len && make_file(n, f, b, &e) < 0) {
		if (!n->trust_failed)
			network_note(
				n, "the command could not read %s: %s", trust_file_names[f], e.msg);
		n->trust_failed = true;
		return -e.errnum;
	}
	*ret = b->data;
	*ret_n = b->len;
	return 0;
}

/* ---- sent ---- */

/*
 * What the first process needs to make Java's list: the ends that go around the host's own (in a
 * pipe, *ret_parts), or the whole where the host's is of another kind.
 */
static int send_java(struct network *n, bool *ret_parts, struct err *e)
{
	cleanup_buf struct buf head = BUF_INIT(4096), tail = BUF_INIT(4096),
			       whole = BUF_INIT(TRUSTSTORE_JAVA_MAX);
	int pipe_fd[2], r = java_ends(n, &head, &tail, e);

	*ret_parts = r == 1;
	if (r < 0)
		return r;
	if (r == 0) {
		r = make_java(n, &whole, e);
		return r < 0 ? r : network_memfd("java", whole.data, whole.len, e);
	}
	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return err_set(e, errno, "make a pipe");
	buf_add(&head, tail.data, tail.len);
	r = head.failed ? -ENOMEM : fd_write_all(pipe_fd[1], head.data, head.len);
	close(pipe_fd[1]);
	if (r == 0)
		return pipe_fd[0];
	close(pipe_fd[0]);
	return err_set(e, -r, "write to a pipe");
}

int network_trust_send(struct network *n, int control, struct err *e)
{
	cleanup_buf struct buf ca = BUF_INIT(AUTHORITY_PEM_MAX);
	struct control_msg m = {.type = CONTROL_TRUST};
	cleanup_fd int java = -1;
	bool parts = false;
	int r = network_authority(n, e);

	if (r < 0)
		return r;
	authority_pem(&n->ca, &ca);
	if (ca.failed || ca.len >= sizeof(m.msg))
		return err_set(e, E2BIG, "send the sandbox's certificate");
	memcpy(m.msg, ca.data, ca.len);
	if ((n->trust_files & (1u << TRUST_JAVA)) && (java = send_java(n, &parts, e)) < 0)
		return java;
	m.status = parts;
	m.fd_mask = java >= 0;
	r = control_send(control, &m, &java, java >= 0);
	return r < 0 ? err_set(e, -r, "send the sandbox's certificate") : 0;
}

/* ---- written, where there is no private root: in the command's own directory ---- */

static int write_file(int dir, const char *name, const struct buf *b, struct err *e)
{
	cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	int r;

	if (fd < 0)
		return err_set(e, errno, "make %s", name);
	r = fd_write_all(fd, b->data, b->len);
	return r < 0 ? err_set(e, -r, "write %s", name) : 0;
}

static int open_first(const char *const *paths)
{
	for (; *paths; paths++) {
		int fd = open(*paths, O_RDONLY | O_CLOEXEC);

		if (fd >= 0)
			return fd;
	}
	return -1;
}

static int write_files(struct network *n, const char *scratch, struct err *e)
{
	cleanup_fd int dir = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	n->lists[TRUST_BUNDLE] = open_first(truststore_bundle_paths);
	n->lists[TRUST_JAVA] = open_first(truststore_java_paths);
	for (int i = 0; i < TRUST_FILE_NUM && r == 0; i++) {
		cleanup_buf struct buf b = BUF_INIT(0);

		if (i == TRUST_JAVA && n->lists[i] < 0)
			continue;
		r = make_file(n, (enum trust_file)i, &b, e);
		if (r == 0)
			r = write_file(dir, trust_file_names[i], &b, e);
	}
	return r;
}

/* ---- before ---- */

/* The host's list as the plan saw it. */
static int open_list(const struct plan_op *op, struct err *e)
{
	cleanup_fd int fd =
		path_open(AT_FDCWD, op->src, O_RDONLY | O_NONBLOCK | O_NOCTTY, PATH_NO_SYMLINKS);
	struct stat st;

	if (fd < 0)
		return err_set(e, -fd, "open %s", op->src);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at %s", op->src);
	if (st.st_dev != op->dev || st.st_ino != op->ino)
		return err_refuse(e, "%s changed while the sandbox was being set up", op->src);
	return take_fd(&fd);
}

int network_trust(struct network *n, const struct plan *p, const char *scratch, struct err *e)
{
	if (!network_wants_trust(n))
		return 0;
	if (scratch)
		return write_files(n, scratch, e);
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];
		int fd, r;

		if (op->kind != PLAN_TRUST || op->nested || op->mode >= TRUST_FILE_NUM)
			continue;
		n->trust_files |= 1u << op->mode;
		if (!op->src)
			continue;
		fd = open_list(op, e);
		if (fd < 0)
			return fd;
		close_fd(&n->lists[op->mode]);
		n->lists[op->mode] = fd;
		if (op->mode == TRUST_BUNDLE && (r = truststore_check(fd, op->src, e)) < 0)
			return r;
	}
	return 0;
}

void network_trust_done(struct network *n)
{
	authority_wipe(&n->ca);
	for (int i = 0; i < TRUST_FILE_NUM; i++) {
		close_fd(&n->lists[i]);
		buf_done(&n->trust[i]);
	}
}
