/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that secrets go to: see receivers.h. */
#include "net/reach/receivers.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void receivers_done(struct receivers *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i]);
	*r = (struct receivers){0};
}

static bool known(const struct receivers *r, const char *pattern)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->v[i], pattern))
			return true;
	return false;
}

void receivers_add(struct receivers *r, const struct net_policy *p)
{
	for (size_t i = 0; i < p->secrets_n; i++) {
		char *copy;

		if (known(r, p->secrets[i].host))
			continue;
		copy = r->n < RECEIVERS_MAX ? strdup(p->secrets[i].host) : NULL;
		if (copy)
			r->v[r->n++] = copy;
		else
			r->all = true;
	}
}

bool receivers_has(const struct receivers *r, const char *host)
{
	bool has = r->all;

	for (size_t i = 0; !has && i < r->n; i++)
		has = net_host_matches(r->v[i], host);
	return has;
}
