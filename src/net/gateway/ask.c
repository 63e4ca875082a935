/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions: see ask.h.
 *
 * Order:  a remembered answer -> a question that is already out -> a new one, if there is room. The
 *         asker hears in a later turn, always, and denial is what it hears when anything goes
 *         wrong.
 */
#include "net/gateway/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/request.h"

struct question;

struct ask_about {
	const char *method, *path;
	const char *query; /* NULL: none */
	enum http_body body;
	uint64_t length; /* of HTTP_BODY_LENGTH */
};

struct ask { /* one who waits */
	struct asks *all;
	struct question *q; /* NULL: the effect is known already */
	ask_done *done;
	void *arg;
	enum net_effect effect;
	struct timer timer; /* tells the effect when it is known already */
	struct ask *next;
};

struct question {
	struct asks *all;
	uint64_t id;
	struct gateway_msg msg;
	struct timer timer;
	struct ask *waiting;
	struct question *next;
};

struct answer {
	char host[256];
	uint32_t port;
	enum net_effect effect;
	uint64_t until_ms;
};

struct asks {
	struct gateway *g;
	struct question *questions;
	size_t questions_n;
	uint64_t id;
	struct answer *answers; /* made when first needed */
	size_t answers_at;
};

struct asks *asks_new(struct gateway *g)
{
	struct asks *a = calloc(1, sizeof(*a));

	if (a)
		a->g = g;
	return a;
}

static void question_drop(struct question *q)
{
	struct question **at = &q->all->questions;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	q->all->questions_n--;
	loop_cancel(&q->timer);
	loop_later(q->all->g->loop, free, q);
}

void asks_free(struct asks *a)
{
	if (!a)
		return;
	while (a->questions) {
		while (a->questions->waiting) {
			struct ask *w = a->questions->waiting;

			a->questions->waiting = w->next;
			free(w);
		}
		question_drop(a->questions);
	}
	free(a->answers);
	free(a);
}

/* ---- answers ---- */

static const struct answer *remembered(const struct asks *a, const char *host, uint32_t port)
{
	for (size_t i = 0; a->answers && i < ASK_ANSWERS_MAX; i++)
		if (a->answers[i].until_ms > loop_now_ms(a->g->loop) &&
			a->answers[i].port == port && str_eq(a->answers[i].host, host))
			return &a->answers[i];
	return NULL;
}

static void remember(
	struct asks *a, const struct gateway_msg *m, enum net_effect e, uint64_t for_ms)
{
	struct answer *r;
	uint64_t now = loop_now_ms(a->g->loop);

	if (!a->answers && !(a->answers = calloc(ASK_ANSWERS_MAX, sizeof(*a->answers))))
		return;
	r = &a->answers[a->answers_at++ % ASK_ANSWERS_MAX];
	*r = (struct answer){
		.port = m->port, .effect = e, .until_ms = now + MIN_OF(for_ms, UINT64_MAX - now)};
	snprintf(r->host, sizeof(r->host), "%s", m->host);
}

static void tell(struct ask *w)
{
	ask_done *done = w->done;
	void *arg = w->arg;
	enum net_effect e = w->effect;

	loop_cancel(&w->timer);
	loop_later(w->all->g->loop, free, w);
	done(arg, e);
}

static void tell_timed(void *arg)
{
	tell(arg);
}

static void question_answer(struct question *q, enum net_effect e)
{
	question_drop(q); /* first: who hears may ask again */
	while (q->waiting) {
		struct ask *w = q->waiting;

		q->waiting = w->next;
		w->q = NULL;
		w->effect = e;
		tell(w);
	}
}

void asks_verdict(struct asks *a, uint64_t id, enum net_effect e, uint64_t for_ms)
{
	for (struct question *q = a->questions; q; q = q->next) {
		if (q->id != id)
			continue;
		if (e != NET_ALLOW)
			e = NET_DENY;
		if (for_ms)
			remember(a, &q->msg, e, for_ms);
		question_answer(q, e);
		return;
	}
}

static void question_timed(void *arg)
{
	question_answer(arg, NET_DENY);
}

/* ---- questions ---- */

/* Printable; what does not fit is cut, and the end says so. */
static void put_text(char *to, size_t size, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(12 * HTTP_PATH_MAX);
	char mark[64];
	size_t keep;
	int n;

	str_show(&b, text, strnlen(text, HTTP_PATH_MAX));
	if (!b.failed && b.len < size && strlen(text) <= HTTP_PATH_MAX) {
		memcpy(to, buf_str(&b), b.len + 1);
		return;
	}
	n = snprintf(mark, sizeof(mark), "…[cut: %zu bytes in all]", strlen(text));
	keep = MIN_OF(b.len, size - 1 - (size_t)n);
	while (keep > 0 && ((unsigned char)b.data[keep] & 0xc0) == 0x80)
		keep--;
	memcpy(to, buf_str(&b), keep);
	memcpy(to + keep, mark, (size_t)n + 1);
}

static void fill(struct gateway_msg *m, const struct flow *f, const struct ask_about *about)
{
	static const uint32_t bodies[] = {[HTTP_BODY_NONE] = GATEWAY_BODY_NONE,
		[HTTP_BODY_LENGTH] = GATEWAY_BODY_LENGTH,
		[HTTP_BODY_STREAM] = GATEWAY_BODY_STREAM};
	cleanup_buf struct buf b = BUF_INIT(4096);

	*m = (struct gateway_msg){.type = GATEWAY_ASK, .port = f->dest.port, .mode = f->mode};
	if (f->dest.host)
		str_show(&b, f->host, strlen(f->host));
	else
		net_addr_show(&b, &f->dest.addr);
	snprintf(m->host, sizeof(m->host), "%s", buf_str(&b));
	snprintf(m->method, sizeof(m->method), "%s", about->method);
	put_text(m->path, sizeof(m->path), about->path);
	put_text(m->query, sizeof(m->query), about->query ? about->query : "");
	m->body = bodies[about->body];
	m->up_b = about->body == HTTP_BODY_LENGTH ? about->length : 0;
	snprintf(m->rule, sizeof(m->rule), "%s", f->rule && f->rule->name ? f->rule->name : "");
}

static struct question *question_for(struct asks *a, const struct gateway_msg *m)
{
	uint64_t timeout_ms = a->g->gen->policy->ask_timeout_ms;
	bool connection = str_eq(m->method, "CONNECT");
	struct question *q;

	for (q = connection ? a->questions : NULL; q; q = q->next)
		if (q->msg.port == m->port && str_eq(q->msg.host, m->host) &&
			str_eq(q->msg.method, m->method) && str_eq(q->msg.path, m->path))
			return q;
	if (a->questions_n >= ASKS_MAX)
		return NULL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	*q = (struct question){.all = a, .id = ++a->id, .msg = *m};
	q->msg.id = q->id;
	q->next = a->questions;
	if (loop_timer(a->g->loop, &q->timer, timeout_ms, question_timed, q) < 0 ||
		!gateway_tell(a->g, &q->msg)) {
		loop_cancel(&q->timer);
		free(q);
		return NULL;
	}
	a->questions = q;
	a->questions_n++;
	return q;
}

static struct ask *start(struct flow *f, const struct ask_about *about, ask_done *done, void *arg)
{
	struct asks *a = f->gw->asks;
	const struct answer *known;
	struct gateway_msg m;
	struct ask *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct ask){.all = a, .done = done, .arg = arg, .effect = NET_DENY};
	fill(&m, f, about);
	known = remembered(a, m.host, m.port);
	if (known)
		w->effect = known->effect;
	else
		w->q = question_for(a, &m);
	if (w->q) {
		w->next = w->q->waiting;
		w->q->waiting = w;
	} else if (loop_timer(a->g->loop, &w->timer, 0, tell_timed, w) < 0) {
		free(w);
		return NULL;
	}
	return w;
}

struct ask *ask_start(
	struct flow *f, const char *method, const char *path, ask_done *done, void *arg)
{
	return start(f, &(struct ask_about){.method = method, .path = path}, done, arg);
}

struct ask *ask_request(struct flow *f, const struct http_request *r, ask_done *done, void *arg)
{
	struct ask_about about = {.method = r->method,
		.path = r->path,
		.query = r->query,
		.body = r->body,
		.length = r->length};

	return start(f, &about, done, arg);
}

void ask_cancel(struct ask *w)
{
	loop_cancel(&w->timer);
	if (w->q) { /* the question stays out: its answer may be for others, or to be remembered */
		struct ask **at = &w->q->waiting;

		while (*at != w)
			at = &(*at)->next;
		*at = w->next;
	}
	loop_later(w->all->g->loop, free, w);
}

/* ---- kept while no gateway runs ---- */

bool asks_waiting(const struct asks *a)
{
	return a->questions_n > 0;
}

/* Times are of the monotonic clock, which every process on the machine shares. */
void asks_pack(const struct asks *a, struct buf *out)
{
	uint64_t now = loop_now_ms(a->g->loop);
	uint32_t n = 0;

	for (size_t i = 0; a->answers && i < ASK_ANSWERS_MAX; i++)
		n += a->answers[i].until_ms > now;
	pack_u64(out, a->id);
	pack_u32(out, n);
	for (size_t i = 0; n && i < ASK_ANSWERS_MAX; i++) {
		/* From the oldest place on: the next answer takes that of the one given first. */
		const struct answer *r = &a->answers[(a->answers_at + i) % ASK_ANSWERS_MAX];

		if (r->until_ms <= now)
			continue;
		pack_str(out, r->host);
		pack_u32(out, r->port);
		pack_u32(out, (uint32_t)r->effect);
		pack_u64(out, r->until_ms);
	}
}

bool asks_unpack(struct asks *a, struct unpack *u)
{
	uint32_t n;

	a->id = unpack_u64(u);
	n = unpack_u32(u);
	if (u->bad || n > ASK_ANSWERS_MAX)
		return false;
	if (n && !(a->answers = calloc(ASK_ANSWERS_MAX, sizeof(*a->answers))))
		return false;
	for (; a->answers_at < n; a->answers_at++) {
		struct answer *r = &a->answers[a->answers_at];

		snprintf(r->host, sizeof(r->host), "%s", unpack_str(u, sizeof(r->host) - 1));
		r->port = unpack_u32(u);
		r->effect = unpack_u32(u) == NET_ALLOW ? NET_ALLOW : NET_DENY;
		r->until_ms = unpack_u64(u);
	}
	return !u->bad;
}
