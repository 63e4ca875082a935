/* SPDX-License-Identifier: Apache-2.0 */
/* The process that started this one: see starter.h. */
#include "os/starter.h"

#include <poll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/uapi.h"

static pid_t bound; /* a process has one parent */

void starter_bind(pid_t pid)
{
	bound = pid;
}

void starter_open(struct starter *p)
{
	*p = STARTER_INIT;
	p->pid = bound;
	if (p->pid <= 0) /* 0: it is outside our pid namespace, whose end is then ours */
		return;
	if (!forced_fail("pidfd_open"))
		p->fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	/* The number may have gone to somebody else in between: not if it is still our parent's. */
	p->gone = getppid() != p->pid;
}

bool starter_gone(struct starter *p)
{
	struct pollfd f = {.fd = p->fd, .events = POLLIN};

	if (p->pid <= 0 || p->gone)
		return p->gone;
	p->gone = p->fd >= 0 ? poll(&f, 1, 0) == 1 : getppid() != p->pid;
	return p->gone;
}

void starter_close(struct starter *p)
{
	close_fd(&p->fd);
}
