/* SPDX-License-Identifier: Apache-2.0 */
/* Which evidence is meant: see evidence.h. */
#include "evidence/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "env/env.h"
#include "env/env_beside.h"
#include "session/config/layers.h"
#include "ledger/chain/entry.h"

#define MESSAGE_MAX_B (1u << 20)
#define WORD_MAX 1024u

void evidence_done(struct evidence *v)
{
	repo_done(&v->repo);
	free(v->state_dir);
	free(v->ledgers);
	*v = (struct evidence){0};
}

static int add(struct evidence *v, const char *id, const struct oid *tip, const char *claimed,
	size_t claimed_n, struct err *e)
{
	struct evidence_ledger *l;

	if (v->ledgers_n >= EVIDENCE_LEDGERS_MAX)
		return err_set(e, EFBIG, "look at more than %u ledgers", EVIDENCE_LEDGERS_MAX);
	if (v->ledgers_n == v->ledgers_cap) {
		size_t cap = v->ledgers_cap ? 2 * v->ledgers_cap : 8;

		l = reallocarray(v->ledgers, cap, sizeof(*l));
		if (!l)
			return err_set(e, ENOMEM, "find evidence");
		v->ledgers = l;
		v->ledgers_cap = cap;
	}
	l = &v->ledgers[v->ledgers_n++];
	*l = (struct evidence_ledger){.tip = *tip};
	snprintf(l->id, sizeof(l->id), "%s", id);
	snprintf(l->claimed, sizeof(l->claimed), "%.*s", (int)claimed_n, claimed);
	return 0;
}

/* -ENOENT without a sentence: there is no such ledger in this repository. */
static int add_id(
	struct evidence *v, const char *id, const char *claimed, size_t claimed_n, struct err *e)
{
	char ref[sizeof(LEDGER_REF_PREFIX) + LEDGER_ID_LEN];
	struct oid tip;
	int r;

	snprintf(ref, sizeof(ref), LEDGER_REF_PREFIX "%s", id);
	r = ref_read(&v->repo, ref, &tip, e);
	if (r == -ENOENT)
		*e = ERR_INIT;
	return r < 0 ? r : add(v, id, &tip, claimed, claimed_n, e);
}

/* ------------------------------------------------------------------ places */

int evidence_here(struct evidence *ret, struct err *e)
{
	cleanup_layers_info struct layers_info info = {0};
	cleanup_evidence struct evidence v = {0};
	int r = layers_locate(&info, NULL, e);

	if (r == 0)
		r = env_state_dir(&v.state_dir, NULL, e);
	if (r == 0)
		r = repo_open(&v.repo, info.workspace, v.state_dir, e);
	if (r < 0)
		return r;
	*ret = v;
	v = (struct evidence){0};
	return 0;
}

static bool env_exists(const char *state_dir, const char *name)
{
	char path[PATH_MAX];

	return env_name_good(name) &&
	       snprintf(path, sizeof(path), "%s/envs/%s", state_dir, name) < (int)sizeof(path) &&
	       faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Its record is enough: evidence is there even when base or layers are not. */
static int find_env(struct evidence *ret, const char *name, struct err *e)
{
	cleanup_evidence struct evidence v = {0};
	cleanup_env struct env env;
	struct err ignored = ERR_INIT;
	int r = env_state_dir(&v.state_dir, NULL, e);

	env_init(&env);
	if (r < 0)
		return r;
	if (!env_exists(v.state_dir, name))
		return -ENOENT;
	r = env_open_record(&env, name, e);
	if (r == 0)
		env_beside_seal(&env, name, &ignored); /* what is in the ledger can be read all the same */
	if (r == 0)
		r = repo_open(&v.repo, env.workspace, v.state_dir, e);
	if (r == 0)
		r = add_id(&v, env.id, "", 0, e);
	if (r == -ENOENT && e->kind == ERR_NONE)
		r = err_set(e, ENOENT, "environment %s has no evidence in %s", name, env.workspace);
	if (r < 0)
		return r;
	*ret = v;
	v = (struct evidence){0};
	return 0;
}

/* ------------------------------------------------------------------ ledgers of a repository */

struct search {
	struct evidence *v;
	struct entry_source source;
	const char *name; /* NULL: all */
	size_t found;
	struct err *e;
};

static int visit(void *arg, const char *ref, const struct oid *o)
{
	struct search *s = arg;
	const char *id = ref + strlen(LEDGER_REF_PREFIX);
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	struct err ignored = ERR_INIT;

	if (!ledger_id_valid(id))
		return 0;
	if (s->name &&
		(entry_load(&s->source, o, &raw, &x, &ignored) < 0 || !str_eq(x.env_name, s->name)))
		return 0;
	s->found++;
	return add(s->v, id, o, "", 0, s->e);
}

static int search(struct evidence *v, const char *name, size_t *ret_found, struct err *e)
{
	struct search s = {.v = v, .name = name, .e = e, .source = {.objects_fd = -1}};
	int r = entry_source_open(&s.source, &v->repo, e);

	if (r == 0)
		r = ref_list(&v->repo, LEDGER_REF_PREFIX, visit, &s, e);
	entry_source_done(&s.source);
	*ret_found = s.found;
	return r;
}

int evidence_add_all(struct evidence *v, struct err *e)
{
	size_t found;

	return search(v, NULL, &found, e);
}

static int no_such(const char *what, struct err *e)
{
	cleanup_buf struct buf shown = BUF_INIT(1024);

	str_show(&shown, what, MIN_OF(strlen(what), 80u));
	err_invalid(e,
		"there is no evidence of %s here; croft ls --all shows environments, croft "
		"evidence fetch gets evidence of others",
		buf_str(&shown));
	e->errnum = ENOENT;
	return -ENOENT;
}

static int find_here(struct evidence *v, const char *what, struct err *e)
{
	const char *id =
		str_starts(what, LEDGER_REF_PREFIX) ? what + strlen(LEDGER_REF_PREFIX) : what;
	size_t found = 0;
	int r = -ENOENT;

	if (ledger_id_valid(id))
		r = add_id(v, id, "", 0, e);
	if (r != -ENOENT || e->kind != ERR_NONE || id != what)
		return r;
	r = search(v, what, &found, e);
	if (r < 0 || found == 1)
		return r;
	if (found == 0)
		return -ENOENT;
	return err_invalid(e,
		"%zu ledgers here are of an environment called %s; give the id instead: %s or %s%s",
		found, what, v->ledgers[0].id, v->ledgers[1].id, found > 2 ? " or …" : "");
}

int evidence_find(struct evidence *ret, const char *what, struct err *e)
{
	cleanup_evidence struct evidence v = {0};
	int r = find_env(ret, what, e);

	if (r != -ENOENT || e->kind != ERR_NONE)
		return r;
	r = evidence_here(&v, e);
	if (r == 0)
		r = find_here(&v, what, e);
	if (r == -ENOENT && e->kind == ERR_NONE)
		r = no_such(what, e);
	if (r < 0)
		return r;
	*ret = v;
	v = (struct evidence){0};
	return 0;
}

/* ------------------------------------------------------------------ by a commit */

/* The value of "Key: value" when the line is one and the value has this many hex digits. */
static const char *trailer(const char *line, size_t n, const char *key, size_t digits)
{
	size_t k = strlen(key);

	if (n < k + digits || memcmp(line, key, k) != 0)
		return NULL;
	line += k;
	n -= k;
	while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\r'))
		n--;
	return n == digits && strspn(line, "0123456789abcdef") >= digits ? line : NULL;
}

/* A commit that was squashed together from several names several. */
static int from_message(struct evidence *v, const char *message, struct err *e)
{
	char id[LEDGER_ID_LEN + 1] = "";
	int r = 0;

	for (const char *p = message; *p && r == 0;) {
		size_t n = strcspn(p, "\n");
		const char *env = trailer(p, n, "Croft-Env: ", LEDGER_ID_LEN);
		const char *claim = trailer(p, n, "Croft-Evidence: ", DIGEST_HEX_LEN);

		if (env) {
			snprintf(id, sizeof(id), "%.*s", LEDGER_ID_LEN, env);
			r = add_id(v, id, "", 0, e);
			if (r == -ENOENT && e->kind == ERR_NONE)
				r = no_such(id, e);
		} else if (claim && v->ledgers_n) {
			snprintf(v->ledgers[v->ledgers_n - 1].claimed, DIGEST_HEX_LEN + 1, "%.*s",
				DIGEST_HEX_LEN, claim);
		}
		p += n + (p[n] == '\n');
	}
	return r;
}

static int find_commit(struct evidence *v, const char *rev, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	cleanup_buf struct buf raw = BUF_INIT(MESSAGE_MAX_B);
	struct commit_info c;
	int r = repo_resolve(&v->repo, rev, &v->commit, &v->commit_tree, e);

	if (r == 0)
		r = git_reader_open(&g, v->repo.store, e);
	if (r == 0)
		r = git_read_oid(g, &v->commit, GIT_COMMIT, &raw, e);
	if (r == 0)
		r = git_commit_parse(buf_str(&raw), raw.len, v->repo.hash, &c, e);
	if (r < 0)
		return r;
	r = from_message(v, c.message ? c.message : "", e);
	commit_info_done(&c);
	if (r == 0 && v->ledgers_n == 0)
		return err_invalid(e,
			"commit %.12s has no Croft-Env trailer, so it says of no evidence; croft "
			"evidence check finds evidence by content",
			oid_hex(&v->commit).s);
	return r;
}

int evidence_find_any(struct evidence *ret, const char *what, struct err *e)
{
	cleanup_evidence struct evidence v = {0};
	struct err first;
	int r = what ? evidence_find(ret, what, e) : -ENOENT;

	if (what && r != -ENOENT)
		return r;
	first = *e;
	*e = ERR_INIT;
	r = evidence_here(&v, e);
	if (r < 0)
		return r;
	if (!what)
		r = evidence_add_all(&v, e);
	else
		r = strlen(what) < WORD_MAX ? find_commit(&v, what, e) : -ENOENT;
	if (what && r == -ENOENT && oid_is_none(&v.commit))
		*e = first; /* neither evidence nor a commit */
	if (r < 0)
		return r;
	if (v.ledgers_n == 0)
		return err_invalid(e, "there is no evidence in %s; croft new makes an environment",
			v.repo.workspace);
	*ret = v;
	v = (struct evidence){0};
	return 0;
}
