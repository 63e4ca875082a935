/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks that tell: a slot of the decoy file system over a denied path inside a granted tree.
 *
 * Order:   to mount a slot, set-up must look it up, and the supervisor serves only after READY. Until
 *          set-up is over a thread answers in its place; it has nothing to tell, since no command exists.
 *          Plans without such masks, which is most of them, start no thread.
 * Failure: without FUSE they are traps, and where those cannot be had, masks that only refuse.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/fuse.h"
#include "os/mount.h"

static void nothing_to_tell(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid)
{
	(void)arg, (void)slot, (void)name, (void)op, (void)pid;
}

static void *serve(void *arg)
{
	const struct setup *s = arg;
	struct decoyfs d = {.dev_fd = s->in->fd[SANDBOX_FD_DECOY],
		.slots_n = s->slots.n,
		.kinds = s->slots.kind,
		.touched = nothing_to_tell};
	struct pollfd p[2] = {
		{.fd = d.dev_fd, .events = POLLIN}, {.fd = s->serve_pipe[0], .events = POLLIN}};

	do {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
	} while (!p[1].revents && (!p[0].revents || decoyfs_serve(&d) == 0));
	return NULL;
}

static int begin(struct setup *s, struct err *e)
{
	int r;

	if (s->serve_pipe[0] >= 0)
		return 0;
	if (pipe2(s->serve_pipe, O_CLOEXEC) < 0)
		return err_set(e, errno, "make a pipe");
	r = pthread_create(&s->server, NULL, serve, s);
	if (r == 0)
		return 0;
	close_fd(&s->serve_pipe[0]);
	close_fd(&s->serve_pipe[1]);
	return err_set(e, r, "start a thread");
}

void setup_serve_end(struct setup *s)
{
	if (s->serve_pipe[0] < 0)
		return;
	close_fd(&s->serve_pipe[1]);
	pthread_join(s->server, NULL);
	close_fd(&s->serve_pipe[0]);
}

int setup_told_mask(struct setup *s, const struct plan_op *op, struct err *e)
{
	int slot = decoy_slot_of(&s->slots, op), r;
	cleanup_fd int src = -1, m = -1;
	char path[64];

	if (slot < 0)
		return 0;
	if ((r = setup_served(s, e)) < 0)
		return r;
	if (r == 0)
		return setup_trap_mask(s, op, (size_t)slot, e);
	if (begin(s, e) < 0)
		return -e->errnum;
	snprintf(path, sizeof(path), "%s/%d", NS_DECOY_DIR, slot);
	src = openat(s->root, setup_rel(path), O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (src < 0)
		return err_set(e, errno, "open %s", path);
	if (mount_clone(src, MOUNT_NODEV | MOUNT_NOEXEC, &m, e) < 0)
		return err_wrap(e, "mask %s", op->dst);
	if (setup_attach(s, m, op, e) < 0)
		return -e->errnum;
	s->in->enforced.decoys = 1;
	return 1;
}
