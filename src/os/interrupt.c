/* SPDX-License-Identifier: Apache-2.0 */
/* Ending signals held back: see interrupt.h. */
#include "os/interrupt.h"

#include <errno.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* The innermost one of this thread. */
static _Thread_local int current_fd = -1;
static _Thread_local bool watching;

/*
 * A signal that is blocked stays pending even where it is ignored: it must not look like somebody who
 * wants us to stop.
 */
static void ending_set(sigset_t *ret)
{
	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		struct sigaction sa;

		if (sigaction(ending[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(ret, ending[i]);
	}
}

static void begin(struct interrupt *i, bool watch)
{
	sigset_t set;

	ending_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, &i->before);
	i->fd = watch ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
	i->outer_fd = current_fd;
	i->outer_watches = watching;
	i->on = true;
	current_fd = i->fd;
	watching = watch;
}

void interrupt_hold(struct interrupt *i)
{
	begin(i, false);
}

void interrupt_watch(struct interrupt *i)
{
	begin(i, true);
}

void interrupt_release(struct interrupt *i)
{
	if (!i->on)
		return;
	i->on = false;
	current_fd = i->outer_fd;
	watching = i->outer_watches;
	close_fd(&i->fd);
	pthread_sigmask(SIG_SETMASK, &i->before, NULL);
}

int interrupt_wanted(void)
{
	sigset_t pending, set;

	if (!watching || sigpending(&pending) < 0)
		return 0;
	ending_set(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (sigismember(&pending, ending[i]) == 1 && sigismember(&set, ending[i]) == 1)
			return ending[i];
	return 0;
}

int interrupt_fd(void)
{
	return current_fd;
}

int interrupt_check(struct err *e)
{
	int sig = interrupt_wanted();

	return sig ? err_set(e, EINTR, "stop at signal %d", sig) : 0;
}

void interrupt_again(int sig)
{
	if (watching)
		raise(sig);
}
