/* SPDX-License-Identifier: Apache-2.0 */
/* The launch shared by engines whose sandboxes are host processes: see launch.h. */
#include "engine/launch.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

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

_Noreturn static void child(struct init *in, const struct spawned *sp, uid_t uid, gid_t gid)
{
	struct err e = ERR_INIT;

	record_namespaces(&in->enforced, sp->ns_flags);
	in->pid_namespace = in->enforced.ns_pid;
	if (in->enforced.ns_user && spawn_map_self(uid, gid, &e) < 0) {
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
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct spawned sp;
	int sv[2], r;

	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		in->fd[i] = s->fd[i] = -1;
	in->shield = SHIELD_INIT;
	/* Groups are authority; only root can drop them, and a user namespace forbids it later. */
	if (uid == 0)
		in->enforced.groups_dropped = setgroups(0, NULL) == 0;
	else
		in->enforced.groups_dropped = getgroups(0, NULL) == 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_set(e, errno, "make control socket");
	r = spawn_in_namespaces(&sp, ns_flags, cgroup_fd, e);
	if (r == 0) {
		in->control = sv[1];
		child(in, &sp, uid, gid);
	}
	close(sv[1]);
	if (r < 0) {
		close(sv[0]);
		return r;
	}
	s->pid = sp.pid;
	s->pidfd = sp.pidfd;
	s->control = sv[0];
	s->in_cgroup = sp.in_cgroup;
	return 0;
}
