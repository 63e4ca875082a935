/* SPDX-License-Identifier: Apache-2.0 */
/* os/loop: watches, timers and later calls, and what may be done to them from within. */
#include "test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/loop.h"

struct seen {
	struct loop *l;
	struct watch *other;
	struct timer *timer;
	int n, at[8];
};

static struct loop *make(void)
{
	struct err e = ERR_INIT;

	return loop_new(&e);
}

static void stop(void *arg)
{
	loop_stop(arg);
}

static void ready_once(void *arg, uint32_t events)
{
	struct seen *s = arg;
	char c;

	s->n += read(s->at[0], &c, 1) == 1;
	if (s->n == 3)
		loop_stop(s->l);
}

TEST(a_watch_is_called_as_long_as_there_is_something)
{
	struct loop *l = make();
	struct seen s = {.l = l};
	struct watch w = {0};
	int p[2];

	CHECK(l != NULL);
	CHECK_INT(pipe(p), 0);
	s.at[0] = p[0];
	CHECK_INT(write(p[1], "abc", 3), 3);
	CHECK_INT(loop_watch(l, &w, p[0], EPOLLIN, ready_once, &s), 0);
	CHECK_INT(loop_run(l), 0);
	CHECK_INT(s.n, 3);
	loop_unwatch(&w);
	close(p[0]);
	close(p[1]);
	loop_free(l);
}

static void ready_remove_other(void *arg, uint32_t events)
{
	struct seen *s = arg;

	s->n++;
	loop_unwatch(s->other);
	loop_later(s->l, stop, s->l);
}

/*
 * Both are ready in one turn; whichever comes first removes the other, which must then not be
 * called.
 */
TEST(a_watch_removed_in_a_turn_is_not_called_in_it)
{
	struct loop *l = make();
	struct watch a = {0}, b = {0};
	struct seen sa = {.l = l, .other = &b}, sb = {.l = l, .other = &a};
	int p[2], q[2];

	CHECK(l != NULL);
	CHECK(pipe(p) == 0 && pipe(q) == 0);
	CHECK(write(p[1], "x", 1) == 1 && write(q[1], "x", 1) == 1);
	CHECK_INT(loop_watch(l, &a, p[0], EPOLLIN, ready_remove_other, &sa), 0);
	CHECK_INT(loop_watch(l, &b, q[0], EPOLLIN, ready_remove_other, &sb), 0);
	loop_run(l);
	CHECK_INT(sa.n + sb.n, 1);
	loop_unwatch(&a);
	loop_unwatch(&b);
	loop_free(l);
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(q[i]);
	}
}

TEST(a_silenced_watch_hears_nothing_until_it_is_changed_back)
{
	struct loop *l = make();
	struct seen s = {.l = l};
	struct watch w = {0};
	struct timer t = {0};
	int p[2];

	CHECK(l != NULL && pipe(p) == 0);
	s.at[0] = p[0];
	CHECK_INT(write(p[1], "abc", 3), 3);
	CHECK_INT(loop_watch(l, &w, p[0], EPOLLIN, ready_once, &s), 0);
	loop_change(&w, 0);
	CHECK_INT(loop_timer(l, &t, 5, stop, l), 0);
	loop_run(l);
	CHECK_INT(s.n, 0);
	loop_change(&w, EPOLLIN);
	loop_run(l);
	CHECK_INT(s.n, 3);
	loop_unwatch(&w);
	close(p[0]);
	close(p[1]);
	loop_free(l);
}

struct tick {
	struct seen *s;
	int name;
};

static void note(void *arg)
{
	struct tick *t = arg;

	t->s->at[t->s->n++] = t->name;
	if (t->name == 1)
		loop_cancel(t->s->timer);
	if (t->s->n == 4)
		loop_stop(t->s->l);
}

TEST(timers_fire_in_order_and_can_cancel_each_other)
{
	struct loop *l = make();
	struct timer t[6] = {0};
	struct seen s = {.l = l, .timer = &t[2]};
	static const int in_ms[] = {9, 1, 3, 12, 2, 7};
	struct tick k[6];

	CHECK(l != NULL);
	for (int i = 0; i < 6; i++) {
		k[i] = (struct tick){&s, i};
		CHECK_INT(loop_timer(l, &t[i], (uint64_t)in_ms[i], note, &k[i]), 0);
	}
	CHECK_INT(loop_timer(l, &t[3], 4, note, &k[3]), 0); /* moved */
	loop_run(l);
	CHECK_INT(s.at[0], 1);
	CHECK_INT(s.at[1], 4);
	CHECK_INT(s.at[2], 3);
	CHECK_INT(s.at[3], 5);
	loop_free(l);
	CHECK_INT(t[0].slot, 0);
}

#define MANY 500

struct order {
	struct loop *l;
	uint64_t last_ms;
	int n, wrong;
};

static void ordered(void *arg)
{
	struct order *o = arg;

	o->wrong += loop_now_ms(o->l) < o->last_ms;
	o->last_ms = loop_now_ms(o->l);
	if (++o->n == MANY / 2)
		loop_stop(o->l);
}

TEST(the_heap_survives_cancelling_from_the_middle)
{
	struct loop *l = make();
	struct timer *t = calloc(MANY, sizeof(*t));
	struct order o = {.l = l};

	CHECK(l != NULL && t != NULL);
	for (unsigned i = 0; i < MANY; i++)
		CHECK_INT(loop_timer(l, &t[i], i * 7919 % 20, ordered, &o), 0);
	for (unsigned i = 0; i < MANY; i += 2)
		loop_cancel(&t[i]);
	loop_run(l);
	CHECK_INT(o.n, MANY / 2);
	CHECK_INT(o.wrong, 0);
	loop_free(l);
	free(t);
}

static void again(void *arg)
{
	struct seen *s = arg;

	s->n++;
	loop_later(s->l, again, s);
}

/* Somebody who calls back for ever must not keep a descriptor from being heard. */
TEST(later_calls_do_not_starve_descriptors)
{
	struct loop *l = make();
	struct seen s = {.l = l}, r = {.l = l};
	struct watch w = {0};
	int p[2];

	CHECK(l != NULL && pipe(p) == 0);
	r.at[0] = p[0];
	loop_later(l, again, &s);
	CHECK_INT(write(p[1], "abc", 3), 3);
	CHECK_INT(loop_watch(l, &w, p[0], EPOLLIN, ready_once, &r), 0);
	loop_run(l);
	CHECK_INT(r.n, 3);
	CHECK(s.n >= 2);
	loop_unwatch(&w);
	close(p[0]);
	close(p[1]);
	loop_free(l);
}
