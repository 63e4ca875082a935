/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a network namespace takes the kernel as long as most of the mounts together, so a thread
 * makes one while we mount. We enter it as soon as it is there; what then remains of its set-up goes on
 * while we lock ourselves down, and ends before READY: afterwards we are alone in the process again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/namespace/namespace.h"
#include "engine/namespace/setup.h"
#include "os/capture.h"
#include "os/spawn.h"

static struct net_maker {
	pthread_t thread;
	int made[2];  /* a pipe: the number of the namespace's descriptor comes when it is there */
	bool capture; /* its traffic goes to sockets[] */
	bool lookups; /* its lookups go to sockets[CAPTURE_UDP4] */
	int sockets[CAPTURE_FD_NUM];
	struct err e;
} net;

static void *make_net(void *arg)
{
	int fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		err_set(&net.e, errno, "create a network namespace");
	else if (loopback_up(&net.e) == 0 &&
		 (fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		err_set(&net.e, errno, "open the network namespace");
	if (fd >= 0 && write(net.made[1], &fd, sizeof(fd)) != (ssize_t)sizeof(fd))
		err_set(&net.e, errno, "hand over the network namespace");
	close(net.made[1]);
	if (fd >= 0 && net.capture)
		capture_set_up(net.sockets, &net.e);
	else if (fd >= 0 && net.lookups)
		capture_lookups(&net.sockets[CAPTURE_UDP4], &net.e);
	return arg;
}

int setup_net_begin(const struct init *in, struct err *e)
{
	int r;

	net.capture = in->request->capture;
	net.lookups = in->request->refuse_names;
	if (pipe2(net.made, O_CLOEXEC) < 0)
		return err_set(e, errno, "make a pipe");
	r = pthread_create(&net.thread, NULL, make_net, NULL);
	return r ? err_set(e, r, "start a thread") : 0;
}

int setup_net_enter(struct init *in, struct err *e)
{
	cleanup_fd int fd = -1;
	ssize_t n;

	while ((n = read(net.made[0], &fd, sizeof(fd))) < 0 && errno == EINTR)
		;
	close(net.made[0]);
	if (n != (ssize_t)sizeof(fd)) {
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
