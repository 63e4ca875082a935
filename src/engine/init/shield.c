/* SPDX-License-Identifier: Apache-2.0 */
/* The first process out of the command's reach: see shield.h. */
#include "engine/init/shield.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/pidfilter.h"
#include "os/landlock.h"
#include "os/proctree.h"

int shield_prepare(struct shield *s, bool scoped, pid_t helper, struct err *e)
{
	/* The supervisor has one thread in this tier; stopping it would stop the clock. */
	struct pidfilter g = {.ids = {getpid(), getppid(), helper},
		.ids_n = helper > 0 ? 3 : 2,
		.groups = {getpid(), getpgid(getppid())},
		.groups_n = 2};

	*s = SHIELD_INIT;
	s->first = getpid();
	if (scoped) {
		/* Tried and not believed: what stands on it is a signal to everybody. */
		s->alone = kill(getppid(), 0) < 0 && errno == EPERM;
		s->ruleset = landlock_open_signals(e);
		return MIN_OF(s->ruleset, 0);
	}
	s->guard = malloc(sizeof(*s->guard));
	if (!s->guard)
		return err_set(e, ENOMEM, "guard the first process");
	if (g.groups[1] <= 0) /* it just died, or is outside our pid namespace */
		g.groups_n = 1;
	return pidfilter_build(s->guard, &g, e);
}

int shield_enter(const struct shield *s, struct err *e)
{
	int listener;

	if (s->ruleset >= 0 && landlock_enter(s->ruleset, e) < 0)
		return -e->errnum;
	if (s->guard && seccomp_install(s->guard, 0, &listener, e) < 0)
		return -e->errnum;
	/* Not our parent: in a session that is a reaper, which a command may end. */
	if ((s->ruleset >= 0 || s->guard) && (kill(s->first, 0) == 0 || errno != EPERM))
		return err_refuse(e, "the command could end the sandbox's first process, and so "
				     "outlive croft: the kernel does not hold signals back");
	return 0;
}

/*
 * A signal to everybody is one step for the kernel: no fork can slip through, as it can between
 * reading the process table and killing. It is used only where everybody is the sandbox.
 */
void shield_end_tree(const struct shield *s)
{
	if (s->alone && (kill(-1, SIGKILL) == 0 || errno == ESRCH))
		while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
			;
	proctree_kill(NULL, 0);
}

void shield_done(struct shield *s)
{
	close_fd(&s->ruleset);
	free(s->guard);
	s->guard = NULL;
}
