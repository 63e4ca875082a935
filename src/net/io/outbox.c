/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that wait: see outbox.h. */
#include "net/io/outbox.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct waiting {
	struct gateway_msg m;
	struct waiting *next;
};

struct outbox {
	struct waiting *first, **end;
	size_t n;
};

struct outbox *outbox_new(void)
{
	struct outbox *o = calloc(1, sizeof(*o));

	if (o)
		o->end = &o->first;
	return o;
}

static void drop_first(struct outbox *o)
{
	struct waiting *w = o->first;

	o->first = w->next;
	if (!o->first)
		o->end = &o->first;
	o->n--;
	free(w);
}

void outbox_free(struct outbox *o)
{
	while (o && o->first)
		drop_first(o);
	free(o);
}

bool outbox_empty(const struct outbox *o)
{
	return o->first == NULL;
}

void outbox_flush(struct outbox *o, int sock)
{
	/* Anything but "full" means that nobody will ever take it. */
	while (o->first && gateway_send(sock, &o->first->m, NULL) != -EAGAIN)
		drop_first(o);
}

bool outbox_put(struct outbox *o, int sock, struct gateway_msg *m)
{
	struct waiting *w;
	int r = o->first ? -EAGAIN : gateway_send(sock, m, NULL);

	if (r != -EAGAIN)
		return r == 0;
	w = o->n < OUTBOX_MAX ? malloc(sizeof(*w)) : NULL;
	if (!w)
		return false;
	*w = (struct waiting){.m = *m};
	*o->end = w;
	o->end = &w->next;
	o->n++;
	return true;
}
