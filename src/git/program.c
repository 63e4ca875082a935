/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running git to its end: see program.h.
 *
 * Order:   input from memory goes into a memory file first, so only output has to be served while it
 *          runs, and neither side can wait for the other.
 * Failure: git is killed and waited for on every way out. A grandchild that keeps a pipe open does not
 *          hold us: what counts is the end of git itself. Where ending signals are watched
 *          (os/interrupt.h), one of them ends git, too.
 */
#include "git/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/child.h"
#include "os/interrupt.h"
#include "os/path.h"
#include "os/uapi.h"

#define CHUNK_B 65536u

/* One pipe from git, and where its bytes go. */
struct drain {
	int fd; /* -1: at its end */
	struct buf *to;
	bool all; /* overflow is an error; otherwise the rest is dropped */
};

static void drain_done(struct drain *d)
{
	close_fd(&d->fd);
}

/* -EFBIG when a buffer is full; 0 at the end or when there is nothing more for now. */
static int drain_read(struct drain *d)
{
	char chunk[CHUNK_B / 4];

	for (;;) {
		ssize_t n = read(d->fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			int r = n < 0 ? -errno : 0;

			close_fd(&d->fd);
			return r;
		}
		if (!d->all)
			n = (ssize_t)MIN_OF((size_t)n, d->to->max - d->to->len);
		buf_add(d->to, chunk, (size_t)n);
		if (d->all && d->to->failed)
			return d->to->len + (size_t)n > d->to->max ? -EFBIG : -ENOMEM;
	}
}

/* Serve both pipes until both are at their end, or git is. -EDEADLK: it waits for no file, ret_file. */
static int serve(struct drain *d, struct git_child *c, char ret_file[PATH_MAX])
{
	cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0u);
	int r = 0;

	while (r == 0 && (d[0].fd >= 0 || d[1].fd >= 0)) {
		struct pollfd p[4] = {{.fd = d[0].fd, .events = POLLIN},
			{.fd = d[1].fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN},
			{.fd = interrupt_fd(), .events = POLLIN}};

		int n = poll(p, 4, GIT_LOOK_MS);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && git_child_stuck(c, ret_file, PATH_MAX))
			return -EDEADLK;
		if (n <= 0)
			continue;
		for (int i = 0; i < 2 && r == 0; i++)
			if (d[i].fd >= 0 && (p[i].revents || p[2].revents))
				r = drain_read(&d[i]);
		if (p[2].revents)
			break;
		if (p[3].revents)
			return -EINTR;
	}
	return r;
}

/* A pipe whose reading end never blocks; both above 2. */
static int make_pipe(int ret[2])
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	p[0] = git_high_fd(p[0]);
	p[1] = git_high_fd(p[1]);
	if (p[0] < 0 || p[1] < 0 || fcntl(p[0], F_SETFL, O_NONBLOCK) < 0) {
		int r = -errno;

		close_fd(&p[0]);
		close_fd(&p[1]);
		return r;
	}
	ret[0] = p[0];
	ret[1] = p[1];
	return 0;
}

/* What git reads: a memory file, the caller's descriptor (a copy), or nothing. */
static int open_input(const struct git_run *r)
{
	cleanup_fd int fd = -1;
	int rc;

	if (!r->in || !r->in_n) {
		fd = r->in_fd > 0 && !r->in ? fcntl(r->in_fd, F_DUPFD_CLOEXEC, 3) : git_null_fd();
		return fd < 0 ? -errno : take_fd(&fd);
	}
	fd = git_high_fd(memfd_create("croft-git-in", MFD_CLOEXEC));
	if (fd < 0)
		return -errno;
	rc = fd_write_all(fd, r->in, r->in_n);
	if (rc < 0)
		return rc;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return take_fd(&fd);
}

static int open_output(const struct git_run *r, struct drain *d)
{
	int p[2], rc;

	if (!r->out) {
		rc = r->out_fd > 0 ? fcntl(r->out_fd, F_DUPFD_CLOEXEC, 3) : git_null_fd();
		return rc < 0 ? -errno : rc;
	}
	rc = make_pipe(p);
	if (rc < 0)
		return rc;
	*d = (struct drain){.fd = p[0], .to = r->out, .all = true};
	return p[1];
}

int git_run(struct git_run *r, struct err *e)
{
	cleanup_buf struct buf said = BUF_INIT(GIT_STDERR_MAX);
	cleanup_git_child struct git_child c = {0};
	cleanup_fd int in = -1, out = -1, err = -1;
	__attribute__((cleanup(drain_done))) struct drain d_out = {.fd = -1}, d_err = {.fd = -1};
	struct drain d[2];
	char file[PATH_MAX];
	int rc = interrupt_check(e), p[2];

	if (rc < 0)
		return rc;
	in = open_input(r);
	if (in < 0)
		return err_set(e, -in, "give git its input");
	out = open_output(r, &d_out);
	rc = out < 0 ? out : make_pipe(p);
	if (rc < 0)
		return err_set(e, -rc, "take the output of git");
	err = p[1];
	d_err = (struct drain){.fd = p[0], .to = &said};
	rc = git_child_start(&c, r, in, out, err, e);
	if (rc < 0)
		return rc;
	/* Only git holds the writing ends now, so that its end is seen. */
	close_fd(&in);
	close_fd(&out);
	close_fd(&err);
	d[0] = d_out;
	d[1] = d_err;
	rc = serve(d, &c, file);
	d_out = d[0];
	d_err = d[1];
	if (rc == -EDEADLK)
		return git_stuck(e, file);
	if (rc == -EFBIG)
		return err_set(
			e, EFBIG, "git %s gives more than %zu bytes", r->argv[0], r->out->max);
	if (rc < 0)
		return err_set(e, -rc, "read what git %s says", r->argv[0]);
	r->status = git_child_wait(&c);
	if (r->status != 0 && !r->any_status)
		return git_failed(e, r, r->status, &said);
	return 0;
}

/* "git version 2.39.5 (whatever)" */
static int parse_version(const char *s)
{
	char *end;
	unsigned long major, minor;

	if (!str_starts(s, "git version "))
		return -EBADMSG;
	major = strtoul(s + strlen("git version "), &end, 10);
	if (*end != '.' || major > 1000)
		return -EBADMSG;
	minor = strtoul(end + 1, &end, 10);
	return minor < 100 ? (int)(major * 100 + minor) : (int)(major * 100 + 99);
}

int git_version(struct err *e)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int known;
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct git_run r = {.argv = (const char *const[]){"version", NULL},
		.git_dir = "/nonexistent",
		.dir = "/",
		.out = &out};
	int v;

	pthread_mutex_lock(&lock);
	v = known;
	pthread_mutex_unlock(&lock);
	if (v)
		return v;
	v = git_run(&r, e);
	if (v < 0)
		return v;
	v = parse_version(buf_str(&out));
	if (v <= 0)
		return err_set(e, EBADMSG, "find out the version of git");
	pthread_mutex_lock(&lock);
	known = v;
	pthread_mutex_unlock(&lock);
	return v;
}
