/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that ask to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT), held back while something is half done.
 *
 * hold:    what was begun goes on to its end, and the signal acts after it.
 * watch:   the same, but long steps ask whether to stop (interrupt_wanted, interrupt_fd), so that what was
 *          begun can be taken away first.
 * Order:   they nest; the innermost decides, so that a hold inside of a watch is not stopped. Released
 *          in reverse order, by the thread that began.
 * Limits:  signals that the caller had told us to ignore (nohup) stay ignored. Children that are started
 *          meanwhile are given a mask of their own (git/child.c), or end with us.
 */
#ifndef CROFT_OS_INTERRUPT_H
#define CROFT_OS_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"

struct interrupt {
	sigset_t before;
	int fd;       /* readable when one is pending; -1: not watched */
	int outer_fd; /* of what this one is in */
	bool outer_watches, on;
};

void interrupt_hold(struct interrupt *i);
void interrupt_watch(struct interrupt *i);
/* What is pending acts here. Nothing happens where nothing was begun. */
void interrupt_release(struct interrupt *i);
#define cleanup_interrupt __attribute__((cleanup(interrupt_release)))

/* Should a long step stop now? The signal, or 0; also 0 where nobody watches. */
int interrupt_wanted(void);
/* To wait on beside other things; never to be read. -1: nobody watches. */
int interrupt_fd(void);
/* -EINTR with a sentence when it should stop, else 0. */
int interrupt_check(struct err *e);
/* A signal that was taken from the queue for somebody else is also meant for whoever watches here. */
void interrupt_again(int sig);

#endif
