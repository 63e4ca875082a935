/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the network of a sandbox refused while one of its commands ran.
 *
 * The gateway sees connections, not who made them. Where no other command lived meanwhile it was this one;
 * otherwise it is said that it may have been another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session/net/network_impl.h"

int network_mark(const struct network *n, struct network_mark *ret)
{
	uint64_t *v = NULL;

	if (n->denials_n && !(v = calloc(n->denials_n, sizeof(*v))))
		return -ENOMEM;
	for (size_t i = 0; i < n->denials_n; i++)
		v[i] = n->denials[i].count;
	*ret = (struct network_mark){.counts = v, .n = n->denials_n};
	return 0;
}

static void denial_done(struct network_denial *d)
{
	free(d->host), free(d->method), free(d->path), free(d->rule), free(d->why), free(d->fix);
}

static bool denial_copy(struct network_denial *to, const struct network_denial *from)
{
	*to = *from;
	to->host = strdup(from->host);
	to->method = strdup(from->method);
	to->path = strdup(from->path);
	to->rule = strdup(from->rule);
	to->why = strdup(from->why);
	to->fix = strdup(from->fix);
	if (to->host && to->method && to->path && to->rule && to->why && to->fix)
		return true;
	denial_done(to);
	return false;
}

void network_since(
	const struct network *n, const struct network_mark *m, bool shared, struct network *ret)
{
	ret->engine = n->engine;
	ret->policy = n->policy; /* says who saw it */
	ret->state = n->state;
	ret->shared = n->policy != NULL;
	for (size_t i = 0; i < n->denials_n; i++) {
		uint64_t before = i < m->n ? m->counts[i] : 0;
		struct network_denial *d;

		if (n->denials[i].count <= before)
			continue;
		if (!ret->denials)
			ret->denials = calloc(n->denials_n - i, sizeof(*ret->denials));
		d = ret->denials ? &ret->denials[ret->denials_n] : NULL;
		if (!d || !denial_copy(d, &n->denials[i])) {
			ret->denials_lost += n->denials[i].count - before;
			continue;
		}
		d->count -= before;
		d->shared = shared;
		ret->denials_n++;
	}
}

void network_denials_done(struct network *n)
{
	for (size_t i = 0; i < n->denials_n; i++)
		denial_done(&n->denials[i]);
	free(n->denials);
	n->denials = NULL;
	n->denials_n = 0;
}

void network_since_done(struct network *ret)
{
	network_denials_done(ret);
	*ret = NETWORK_INIT; /* all else in it is the session's */
}
