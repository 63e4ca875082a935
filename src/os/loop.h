/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll loop, level-triggered, single-threaded. Everything in the gateway happens in it, and in a
 * session everything about its processes and callers.
 *
 * Order: callbacks may watch, change, unwatch and cancel anything, themselves included; a watch
 *        that was removed during a turn is not called again in it. Freeing an object is done with
 *        loop_later().
 */
#ifndef CROFT_OS_LOOP_H
#define CROFT_OS_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

struct loop;

struct watch { /* embedded in its owner; zero-initialised */
	struct loop *loop;
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT, EPOLLRDHUP; errors and hang-ups always come */
	void (*ready)(void *arg, uint32_t events);
	void *arg;
};

struct timer { /* embedded; zero-initialised */
	struct loop *loop;
	uint64_t at_ms;
	size_t slot; /* in the heap, 1-based; 0: not set */
	void (*fire)(void *arg);
	void *arg;
};

struct loop *loop_new(struct err *e);
void loop_free(struct loop *l);
int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	void (*ready)(void *arg, uint32_t events), void *arg); /* 0 or -errno */
void loop_change(struct watch *w, uint32_t events); /* 0: stays registered, hears of nothing */
void loop_unwatch(struct watch *w);                 /* does not close the descriptor */
int loop_timer(struct loop *l, struct timer *t, uint64_t in_ms, void (*fire)(void *arg), void *arg);
void loop_cancel(struct timer *t);
/* Call fn(arg) once, when the callbacks of this turn are over. */
void loop_later(struct loop *l, void (*fn)(void *arg), void *arg);
uint64_t loop_now_ms(const struct loop *l); /* monotonic, as of this turn */
int loop_run(struct loop *l);               /* until loop_stop(); 0 or -errno */
void loop_stop(struct loop *l);
/*
 * For a caller with a poll() of its own: poll loop_fd() for reading, for loop_wait_ms() at most (-1: for
 * ever), then take one turn, which does not wait.
 */
int loop_fd(const struct loop *l);
int loop_wait_ms(const struct loop *l);
int loop_turn(struct loop *l); /* 0 or -errno */

#endif
