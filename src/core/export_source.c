/* SPDX-License-Identifier: Apache-2.0 */
/* Which ledger is meant: see export.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/export.h"
#include "core/layers.h"

void export_source_done(struct export_source *s)
{
	if (s->has_env)
		env_done(&s->env);
	repo_done(&s->repo_own);
	free(s->state_dir);
	*s = (struct export_source){0};
}

static bool id_form(const char *s)
{
	return strlen(s) == 16 && strspn(s, "0123456789abcdef") == 16;
}

int export_source_here(struct export_source *ret, struct err *e)
{
	cleanup_layers_info struct layers_info info = {0};
	cleanup_export_source struct export_source s = {0};
	int r = layers_locate(&info, NULL, e);

	if (r == 0)
		r = env_state_dir(&s.state_dir, NULL, e);
	if (r == 0)
		r = repo_open(&s.repo_own, info.workspace, s.state_dir, e);
	if (r < 0)
		return r;
	*ret = s;
	ret->repo = &ret->repo_own;
	s = (struct export_source){0};
	return 0;
}

static int by_id(struct export_source *s, const char *id, struct err *e)
{
	cleanup_buf struct buf ref = BUF_INIT(128);
	int r;

	buf_addf(&ref, LEDGER_REF_PREFIX "%s", id);
	r = ref_read(s->repo, buf_str(&ref), &s->tip, e);
	if (r == -ENOENT)
		return err_set(e, ENOENT,
			"there is no environment and no evidence %s here (evidence of others: "
			"croft "
			"evidence fetch)",
			id);
	if (r == 0)
		memcpy(s->id, id, sizeof(s->id));
	return r;
}

/* ---- by name, where only evidence is left ---- */

struct by_name {
	const struct repo *repo;
	struct git_reader *git;
	const char *name;
	char id[17];
	size_t found;
};

static int look(void *arg, const char *ref, const struct oid *o)
{
	struct by_name *b = arg;
	const char *id = ref + strlen(LEDGER_REF_PREFIX);
	struct err ignored = ERR_INIT;
	struct ledger_entry x;

	if (!id_form(id) || ledger_read(b->git, b->repo->hash, o, &x, &ignored) < 0)
		return 0;
	if (x.env_name && str_eq(x.env_name, b->name)) {
		memcpy(b->id, id, sizeof(b->id));
		b->found++;
	}
	ledger_entry_done(&x);
	return 0;
}

static int by_name(struct export_source *s, const char *name, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	struct by_name b = {.repo = s->repo, .name = name};
	int r = git_reader_open(&g, s->repo->store, e);

	b.git = g;
	if (r == 0)
		r = ref_list(s->repo, LEDGER_REF_PREFIX, look, &b, e);
	if (r < 0)
		return r;
	if (b.found == 1)
		return by_id(s, b.id, e);
	if (b.found > 1)
		return err_invalid(
			e, "%zu ledgers here are of an environment %s; give its id", b.found, name);
	return err_set(e, ENOENT, "there is no environment %s, and no evidence of one here", name);
}

int export_source_open(struct export_source *ret, const char *what, struct err *e)
{
	cleanup_export_source struct export_source s = {0};
	struct err missing = ERR_INIT;
	int r;

	if (!env_name_good(what))
		return err_invalid(e, "that is no name of an environment and no id of a ledger");
	r = env_open(&s.env, what, ENV_LOCK_READ, &missing);
	if (r == 0) {
		s.has_env = true;
		s.repo = &s.env.repo;
		r = by_id(&s, s.env.id, e);
	} else if (r != -ENOENT) {
		*e = missing;
	} else {
		r = export_source_here(&s, e);
		if (r == 0)
			s.repo = &s.repo_own;
		if (r == 0)
			r = id_form(what) ? by_id(&s, what, e) : by_name(&s, what, e);
	}
	if (r < 0)
		return r;
	*ret = s;
	ret->repo = s.has_env ? &ret->env.repo : &ret->repo_own;
	s = (struct export_source){0};
	return 0;
}
