/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks after a sandbox while its supervisor is stopped: see warden.h. */
#include "session/run/warden.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/clock.h"

#define WAIT_MS_MAX (1 << 30)
#define WAKE_AGAIN_MS 100

static int wait_ms(uint64_t deadline_ms, const struct diskwatch *w)
{
	uint64_t now = clock_ms();
	int disk = diskwatch_wait_ms(w, now), time = -1;

	if (deadline_ms)
		time = deadline_ms <= now ? 0 : (int)MIN_OF(deadline_ms - now, WAIT_MS_MAX);
	return disk < 0 ? time : time < 0 ? disk : MIN_OF(disk, time);
}

/* Continue it until it ends us: the first time it may not have stopped yet. */
_Noreturn static void wake(pid_t supervisor)
{
	while (getppid() == supervisor) {
		kill(supervisor, SIGCONT);
		poll(NULL, 0, WAKE_AGAIN_MS);
	}
	_exit(0);
}

_Noreturn static void serve(
	pid_t supervisor, uint64_t deadline_ms, const struct starter *p, struct diskwatch w)
{
	struct pollfd f = {.fd = p->fd, .events = POLLIN};

	/* Not in the job that is stopped, and not longer there than its supervisor. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == supervisor) {
		if (poll(&f, 1, wait_ms(deadline_ms, &w)) < 0 && errno != EINTR)
			wake(supervisor); /* it cannot watch: nobody may be left unwatched */
		if (f.revents || (deadline_ms && clock_ms() >= deadline_ms) ||
			diskwatch_look(&w, clock_ms()))
			wake(supervisor);
	}
	_exit(0);
}

pid_t warden_start(uint64_t deadline_ms, const struct starter *p, const struct diskwatch *w)
{
	pid_t supervisor = getpid(), pid = fork();

	if (pid == 0)
		serve(supervisor, deadline_ms, p, *w);
	return pid < 0 ? -errno : pid;
}

void warden_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
