/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: see loop.h.
 *
 * Invariants: an epoll event carries a pointer to a watch. Removing a watch takes it out of the
 *             batch that is being worked on, so a pointer that is called is always one that is
 *             still registered. The later list is swapped before it runs: what it adds comes in the
 *             next turn, after the kernel was asked again, so nobody can starve the sockets by
 *             calling back for ever.
 */
#include "os/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/clock.h"

#define BATCH_MAX 128
#define TIMERS_MAX (1u << 20)

struct later {
	void (*fn)(void *arg);
	void *arg;
};

struct later_list {
	struct later *v;
	size_t n, cap;
};

struct loop {
	int epoll;
	bool stopped;
	uint64_t now_ms;
	struct timer **heap; /* heap[0] is the earliest; a timer's slot is its index + 1 */
	size_t heap_n, heap_cap;
	struct later_list later, running;
	struct epoll_event *batch; /* of this turn, NULL between turns */
	int batch_n;
};

struct loop *loop_new(struct err *e)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(e, ENOMEM, "make an event loop");
		return NULL;
	}
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0) {
		err_set(e, errno, "make an epoll instance");
		free(l);
		return NULL;
	}
	l->now_ms = clock_ms();
	return l;
}

static void run_later(struct loop *l)
{
	struct later_list now = l->later;

	l->later = l->running;
	l->running = now;
	for (size_t i = 0; i < l->running.n; i++)
		l->running.v[i].fn(l->running.v[i].arg);
	l->running.n = 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	for (int i = 0; i < 16 && l->later.n; i++) /* what was to be freed later is freed now */
		run_later(l);
	for (size_t i = 0; i < l->heap_n; i++)
		l->heap[i]->slot = 0;
	free(l->heap);
	free(l->later.v);
	free(l->running.v);
	close_fd(&l->epoll);
	free(l);
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

/* ---- descriptors ---- */

int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	void (*ready)(void *arg, uint32_t events), void *arg)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	if (w->loop)
		loop_unwatch(w);
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	*w = (struct watch){.loop = l, .fd = fd, .events = events, .ready = ready, .arg = arg};
	return 0;
}

void loop_change(struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	if (!w->loop || w->events == events)
		return;
	/*
	 * Fails only for a descriptor that was closed under the watch; then nothing can come any
	 * more.
	 */
	if (epoll_ctl(w->loop->epoll, EPOLL_CTL_MOD, w->fd, &ev) == 0)
		w->events = events;
}

void loop_unwatch(struct watch *w)
{
	struct loop *l = w->loop;

	if (!l)
		return;
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = 0; l->batch && i < l->batch_n; i++)
		if (l->batch[i].data.ptr == w)
			l->batch[i].data.ptr = NULL;
	*w = (struct watch){.fd = -1};
}

/* ---- timers: a binary heap by time ---- */

static void heap_put(struct loop *l, size_t i, struct timer *t)
{
	l->heap[i] = t;
	t->slot = i + 1;
}

static void heap_up(struct loop *l, size_t i)
{
	struct timer *t = l->heap[i];

	while (i > 0 && l->heap[(i - 1) / 2]->at_ms > t->at_ms) {
		heap_put(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, size_t i)
{
	struct timer *t = l->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= l->heap_n)
			break;
		if (child + 1 < l->heap_n && l->heap[child + 1]->at_ms < l->heap[child]->at_ms)
			child++;
		if (l->heap[child]->at_ms >= t->at_ms)
			break;
		heap_put(l, i, l->heap[child]);
		i = child;
	}
	heap_put(l, i, t);
}

static bool heap_reserve(struct loop *l)
{
	size_t cap = l->heap_cap ? l->heap_cap * 2 : 32;
	struct timer **p;

	if (l->heap_n < l->heap_cap)
		return true;
	if (cap > TIMERS_MAX)
		return false;
	p = realloc(l->heap, cap * sizeof(*p));
	if (!p)
		return false;
	l->heap = p;
	l->heap_cap = cap;
	return true;
}

int loop_timer(struct loop *l, struct timer *t, uint64_t in_ms, void (*fire)(void *arg), void *arg)
{
	loop_cancel(t);
	if (!heap_reserve(l))
		return -ENOMEM;
	*t = (struct timer){.loop = l, .at_ms = l->now_ms + in_ms, .fire = fire, .arg = arg};
	heap_put(l, l->heap_n++, t);
	heap_up(l, l->heap_n - 1);
	return 0;
}

void loop_cancel(struct timer *t)
{
	struct loop *l = t->loop;
	size_t i;

	if (!l || !t->slot)
		return;
	i = t->slot - 1;
	t->slot = 0;
	l->heap_n--;
	if (i == l->heap_n)
		return;
	heap_put(l, i, l->heap[l->heap_n]);
	heap_up(l, i);
	heap_down(l, l->heap[i]->slot - 1);
}

static void fire_due(struct loop *l)
{
	while (!l->stopped && l->heap_n && l->heap[0]->at_ms <= l->now_ms) {
		struct timer *t = l->heap[0];

		loop_cancel(t);
		t->fire(t->arg);
	}
}

/* ---- later, and the turn ---- */

void loop_later(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct later_list *q = &l->later;

	if (q->n == q->cap) {
		size_t cap = q->cap ? q->cap * 2 : 32;
		struct later *v = realloc(q->v, cap * sizeof(*v));

		/* Nobody could go on without it: the gateway's end closes every connection. */
		if (!v)
			abort();
		q->v = v;
		q->cap = cap;
	}
	q->v[q->n++] = (struct later){.fn = fn, .arg = arg};
}

static int wait_ms(const struct loop *l)
{
	uint64_t in;

	if (l->later.n)
		return 0;
	if (!l->heap_n)
		return -1;
	if (l->heap[0]->at_ms <= l->now_ms)
		return 0;
	in = l->heap[0]->at_ms - l->now_ms;
	return in > 3600000 ? 3600000 : (int)in;
}

int loop_fd(const struct loop *l)
{
	return l->epoll;
}

int loop_wait_ms(const struct loop *l)
{
	return wait_ms(l);
}

static int turn(struct loop *l, int timeout_ms)
{
	struct epoll_event batch[BATCH_MAX];
	int n = epoll_wait(l->epoll, batch, BATCH_MAX, timeout_ms);

	if (n < 0 && errno != EINTR)
		return -errno;
	l->now_ms = clock_ms();
	l->batch = batch;
	l->batch_n = n > 0 ? n : 0;
	for (int i = 0; i < l->batch_n && !l->stopped; i++) {
		struct watch *w = batch[i].data.ptr;

		if (w)
			w->ready(w->arg, batch[i].events);
	}
	l->batch = NULL;
	fire_due(l);
	run_later(l);
	return 0;
}

int loop_turn(struct loop *l)
{
	return turn(l, 0);
}

int loop_run(struct loop *l)
{
	int r = 0;

	l->stopped = false;
	while (!l->stopped && r == 0)
		r = turn(l, wait_ms(l));
	return r;
}
