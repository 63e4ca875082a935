/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence that a bundle or a replay is made of: see export.h.
 *
 * Which ledger is meant is evidence_find()'s answer, here as everywhere. The environment is beside it when
 * its record is on this machine; base and layers are opened only by what needs them.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/export.h"

void export_source_done(struct export_source *s)
{
	if (s->has_env)
		env_done(&s->env);
	evidence_done(&s->found);
	*s = (struct export_source){0};
}

int export_source_here(struct export_source *ret, struct err *e)
{
	cleanup_evidence struct evidence v = {0};
	int r = evidence_here(&v, e);

	if (r < 0)
		return r;
	*ret = (struct export_source){.found = v};
	ret->repo = &ret->found.repo;
	v = (struct evidence){0};
	return 0;
}

/* Names may have been used again and ids may be all that was given: whose id it is decides. */
static int find_record(struct export_source *s, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(1000000);
	int r = env_names(&names, e);

	for (size_t i = 0; r == 0 && i < names.n && !s->has_env; i++) {
		struct err damaged = ERR_INIT; /* another one's record is no concern of this one */

		env_init(&s->env);
		s->has_env = env_open_record(&s->env, names.v[i], &damaged) == 0 &&
			     str_eq(s->env.id, s->id);
		if (!s->has_env)
			env_done(&s->env);
	}
	return r;
}

int export_source_open(struct export_source *ret, const char *what, struct err *e)
{
	cleanup_export_source struct export_source s = {0};
	int r = evidence_find(&s.found, what, e);

	if (r < 0)
		return r;
	s.tip = s.found.ledgers[0].tip;
	memcpy(s.id, s.found.ledgers[0].id, sizeof(s.id));
	r = find_record(&s, e);
	if (r < 0)
		return r;
	*ret = s;
	ret->repo = &ret->found.repo;
	s = (struct export_source){0};
	return 0;
}
