/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a network namespace takes the kernel as long as most of the mounts together, so a thread
 * makes one while we mount. We enter it as soon as it is there; what then remains of its set-up goes on
 * while we lock ourselves down, and ends before READY: afterwards we are alone in the process again.
 *
 * Where a processor is free, the same thread mounts what the supervisor serves before that, which takes as
 * long as five binds, and detaches the host's root afterwards, since the kernel waits there until every
 * processor has passed a quiet point. It has its own working directory for that. On a busy machine each
 * hand-over would only wait for its turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/box/box.h"
#include "engine/box/setup.h"
#include "os/fuse.h"
#include "os/mount.h"
#include "os/tproxy.h"
#include "os/spawn.h"

static struct net_maker {
	pthread_t thread;
	int made[2];  /* a pipe: the number of the namespace's descriptor comes when it is there */
	bool capture; /* its traffic goes to sockets[] */
	const uint16_t *local; /* loopback's ports that are captured too */
	size_t local_n;
	bool lookups; /* its lookups go to sockets[CAPTURE_UDP4] */
	int sockets[CAPTURE_FD_NUM];
	bool beside;   /* a processor is free: do what the two below say, too */
	bool serve;    /* what the supervisor serves is mounted first… */
	int served[2]; /* …and a byte comes when that is done */
	int dev, mount;
	int left[2]; /* a pipe: the descriptor of the old root comes when nobody needs it */
	const struct cpus *cpus;
	struct err e;
} net;

static int read_number(int from, int *ret)
{
	ssize_t n;

	while ((n = read(from, ret, sizeof(*ret))) < 0 && errno == EINTR)
		;
	return n == (ssize_t)sizeof(*ret) ? 0 : -EIO;
}

static void detach(struct err *e)
{
	int old = -1;

	if (unshare(CLONE_FS) < 0)
		err_set(e, errno, "have a directory of our own");
	else if (read_number(net.left[0], &old) < 0)
		err_set(e, EIO, "detach old root");
	else
		mount_detach_root(old, e);
	close_fd(&old);
}

static void *make_net(void *arg)
{
	int fd = -1;

	cpus_all(net.cpus);
	if (net.serve) {
		struct err why = ERR_INIT; /* it is done without, then */

		decoyfs_mount(&net.dev, &net.mount, &why);
		if (write(net.served[1], "", 1) != 1)
			err_set(&net.e, errno, "hand over a mount");
		close(net.served[1]);
	}
	if (unshare(CLONE_NEWNET) < 0)
		err_set(&net.e, errno, "create a network namespace");
	else if (loopback_up(&net.e) == 0 &&
		 (fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		err_set(&net.e, errno, "open the network namespace");
	if (fd >= 0 && write(net.made[1], &fd, sizeof(fd)) != (ssize_t)sizeof(fd))
		err_set(&net.e, errno, "hand over the network namespace");
	close(net.made[1]);
	if (fd >= 0 && net.capture)
		capture_set_up(net.sockets, net.local, net.local_n, &net.e);
	else if (fd >= 0 && net.lookups)
		capture_lookups(&net.sockets[CAPTURE_UDP4], &net.e);
	if (!net.e.errnum && net.beside)
		detach(&net.e);
	return arg;
}

int setup_net_begin(const struct init *in, bool serve, struct err *e)
{
	int r;

	net.beside = in->cpus.many;
	net.serve = serve && net.beside;
	net.dev = net.mount = -1;
	if (net.serve && pipe2(net.served, O_CLOEXEC) < 0)
		return err_set(e, errno, "make a pipe");

	net.capture = in->request->capture;
	net.local = in->request->local_ports;
	net.local_n = in->request->local_ports_n;
	net.lookups = in->request->refuse_names;
	if (pipe2(net.made, O_CLOEXEC) < 0 || (net.beside && pipe2(net.left, O_CLOEXEC) < 0))
		return err_set(e, errno, "make a pipe");
	net.cpus = &in->cpus;
	r = pthread_create(&net.thread, NULL, make_net, NULL);
	if (r)
		return err_set(e, r, "start a thread");
	cpus_begin_thread(&in->cpus, net.thread);
	return 0;
}

int setup_net_served(int *ret_dev, int *ret_mount)
{
	struct err why = ERR_INIT;
	char done;
	int r;

	if (!net.serve)
		return decoyfs_mount(ret_dev, ret_mount, &why);
	while ((r = (int)read(net.served[0], &done, 1)) < 0 && errno == EINTR)
		;
	close(net.served[0]);
	net.serve = false;
	if (r != 1 || net.mount < 0)
		return -EIO;
	*ret_dev = net.dev;
	*ret_mount = net.mount;
	return 0;
}

int setup_net_detach(int old_root, struct err *e)
{
	cleanup_fd int old = old_root;

	if (!net.beside) {
		if (mount_detach_root(old, e) < 0)
			return -e->errnum;
		return chdir("/") < 0 ? err_set(e, errno, "enter new root") : 0;
	}
	if (write(net.left[1], &old, sizeof(old)) != (ssize_t)sizeof(old))
		return err_set(e, errno, "hand over the old root");
	old = -1; /* closed there */
	return 0;
}

int setup_net_enter(struct init *in, struct err *e)
{
	cleanup_fd int fd = -1;
	int r = read_number(net.made[0], &fd);

	close(net.made[0]);
	if (r < 0) {
		fd = -1;
		return namespace_settle(in, e) < 0 ? -e->errnum
						   : err_set(e, EIO, "make a network namespace");
	}
	if (setns(fd, CLONE_NEWNET) < 0)
		return err_set(e, errno, "enter the network namespace");
	in->enforced.ns_net = 1;
	return 0;
}

int namespace_settle(struct init *in, struct err *e)
{
	pthread_join(net.thread, NULL);
	if (net.serve) { /* nobody asked for it */
		close(net.served[0]);
		close_fd(&net.dev);
		close_fd(&net.mount);
	}
	if (net.beside) {
		close(net.left[0]);
		close(net.left[1]);
	}
	if (net.e.errnum) {
		*e = net.e;
		return -e->errnum;
	}
	in->enforced.capture = net.capture;
	for (int i = 0; net.capture && i < CAPTURE_FD_NUM; i++)
		in->fd[SANDBOX_FD_TCP4 + i] = net.sockets[i];
	if (net.lookups)
		in->fd[SANDBOX_FD_UDP4] = net.sockets[CAPTURE_UDP4];
	return 0;
}
