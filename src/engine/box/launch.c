/* SPDX-License-Identifier: Apache-2.0 */
/* The launch shared by engines whose sandboxes are host processes: see launch.h. */
#include "engine/box/launch.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/heap.h"
#include "os/spawn.h"

#define K_CLONE_NEWTIME 0x00000080ull

static void record_namespaces(struct enforced *f, uint64_t flags)
{
	f->ns_user = !!(flags & CLONE_NEWUSER);
	f->ns_mount = !!(flags & CLONE_NEWNS);
	f->ns_pid = !!(flags & CLONE_NEWPID);
	f->ns_net = !!(flags & CLONE_NEWNET);
	f->ns_ipc = !!(flags & CLONE_NEWIPC);
	f->ns_uts = !!(flags & CLONE_NEWUTS);
	f->ns_cgroup = !!(flags & CLONE_NEWCGROUP);
	f->ns_time = !!(flags & K_CLONE_NEWTIME);
}

_Noreturn static void child(struct init *in, const struct spawned *sp)
{
	struct err e = ERR_INIT;

	heap_rest(); /* what is taken from now on is the C library's, and no one else's */
	cpus_all(&in->cpus);
	record_namespaces(&in->enforced, sp->ns_flags);
	in->pid_namespace = in->enforced.ns_pid;
	if (in->enforced.ns_user && spawn_map(&in->plan->privilege.ids, &e) < 0) {
		struct control_msg m = {.type = CONTROL_FAILED,
			.err_kind = ERR_REFUSED,
			.err_boundary = 1,
			.errnum = e.errnum};

		snprintf(m.msg, sizeof(m.msg),
			"user namespaces do not work here (%.500s); use --tier process, or see "
			"croft doctor",
			e.msg);
		control_send(in->control, &m, NULL, 0);
		_exit(125);
	}
	init_main(in);
}

int launch(struct sandbox *s, struct init *in, uint64_t ns_flags, int cgroup_fd, struct err *e)
{
	struct spawned sp;
	int sv[2], r;

	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		in->fd[i] = s->fd[i] = -1;
	in->shield = SHIELD_INIT;
	/* A session lives long, and a mask that was set once does not grow with the machine. */
	if (!in->request->serve)
		cpus_look(&in->cpus);
	/* Groups are authority; only root can drop them, and a user namespace forbids it later. */
	if (geteuid() == 0)
		in->enforced.groups_dropped = setgroups(0, NULL) == 0;
	else
		in->enforced.groups_dropped = getgroups(0, NULL) == 0;
	/* No first process runs on memory that it shares with us, unless it parts from it by itself. */
	if (!in->waits && heap_fd() >= 0 && (r = heap_part()) < 0)
		return err_set(e, -r, "part from shared memory");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_set(e, errno, "make control socket");
	r = spawn_in_namespaces(&sp, ns_flags, cgroup_fd, e);
	if (r == 0) {
		in->control = sv[1];
		child(in, &sp);
	}
	if (r > 0)
		cpus_begin_process(&in->cpus, sp.pid);
	close(sv[1]);
	if (r < 0) {
		close(sv[0]);
		return r;
	}
	s->pid = sp.pid;
	s->pidfd = sp.pidfd;
	s->control = sv[0];
	s->in_cgroup = sp.in_cgroup;
	s->waits = in->waits;
	return 0;
}

/* All that it will look at, as far as it can be told from here. */
static bool can_hand_over(const struct plan *p, const struct request *r)
{
	if (!heap_has(p) || !heap_has(r) || !heap_has(p->policy) || !heap_has(p->ops) ||
		!heap_has(r->argv) || !heap_has(r->envp))
		return false;
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->ops[i];

		if (!heap_has(op->dst) || (op->src && !heap_has(op->src)) ||
			(op->layers && !heap_has(op->layers)) || (op->rule && !heap_has(op->rule)))
			return false;
	}
	return true;
}

int launch_hand_over(struct sandbox *s, const struct plan *p, const struct request *r, struct err *e)
{
	struct control_msg m = {.type = CONTROL_PLAN};
	struct handed_plan *h = malloc(sizeof(*h));
	int rc = h ? 0 : -ENOMEM;

	if (h)
		*h = (struct handed_plan){.plan = p, .request = r};
	if (rc == 0 && (!can_hand_over(p, r) || heap_hand_over(h) < 0))
		return -ENOTSUP;
	if (rc == 0)
		rc = control_send(s->control, &m, NULL, 0);
	if (rc == -EPIPE || rc == -ECONNRESET)
		rc = 0; /* it failed, and has said why */
	if (rc == 0)
		rc = heap_part();
	s->waits = false;
	return rc < 0 ? err_set(e, -rc, "hand over the plan") : 0;
}
