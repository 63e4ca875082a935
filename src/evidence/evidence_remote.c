/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence to and from other repositories: see evidence.h.
 *
 * Trust:   the remote is one the user names, reached as the user; what comes from it is anybody's.
 *          A repository inside the workspace is no remote: it may have come with it, hooks and all.
 * Sending: exact names on both sides, nothing forced, no tags, no submodules: only what was asked for.
 * Fetching: the remote is asked what it has -> objects are fetched, into no ref -> each history is walked,
 *          and the ref here moves only when what it was is part of it. So a ledger here never loses an event
 *          to one from elsewhere, whatever the user's configuration says of that remote.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "evidence/evidence.h"
#include "git/program.h"
#include "ledger/chain/statement.h"

#define REMOTE_MAX 4096u
#define LISTING_MAX_B (64u << 20)
#define PUSH_BATCH 200u
#define REF_TEXT_MAX (sizeof(LEDGER_REF_PREFIX) + LEDGER_ID_LEN)

static int check_remote(const char *remote, struct err *e)
{
	size_t n = strlen(remote);

	if (n == 0 || n >= REMOTE_MAX || remote[0] == '-')
		return err_invalid(
			e, "a remote is a name (origin) or an address, and begins with no dash");
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)remote[i] < 0x20 || remote[i] == 0x7f)
			return err_invalid(e, "a remote has no control characters in its name");
	return 0;
}

static int check_repository(const struct evidence *v, struct err *e)
{
	if (v->repo.git_dir)
		return 0;
	return err_invalid(e,
		"%s is no Git repository, so its evidence is in croft's own store and cannot be "
		"sent or fetched; croft evidence export writes a bundle",
		v->repo.workspace);
}

/* The repository of the first name, or of the current directory. */
static int open_for(struct evidence *v, const char *const *names, bool all, struct err *e)
{
	struct err first = ERR_INIT;
	int r;

	if (!all && (!names || !names[0]))
		return err_invalid(e, "say which evidence: names or ids of environments, or --all");
	if (!all && evidence_find(v, names[0], &first) == 0) {
		v->ledgers_n = 0;
		return check_repository(v, e);
	}
	r = evidence_here(v, e);
	return r < 0 ? r : check_repository(v, e);
}

static bool same_repository(const struct repo *a, const struct repo *b)
{
	return str_eq(repo_ledger_dir(a), repo_ledger_dir(b));
}

/*
 * Of several remote.NAME.uploadpack git takes the first, so mute.h cannot silence the repository's: an option
 * can.
 */
static const char *pack_option(const struct repo *r, const char *verb)
{
	bool push = str_eq(verb, "push");

	for (size_t i = 0; i < r->muted.n; i++)
		if (str_starts(r->muted.v[i], "remote.") &&
			strstr(r->muted.v[i], push ? ".receivepack=" : ".uploadpack="))
			return push ? "--receive-pack=git-receive-pack"
				    : "--upload-pack=git-upload-pack";
	return NULL;
}

/* A path of this machine, as git tells them from host:path. NULL: it is elsewhere. */
static const char *local_path(const char *address)
{
	size_t slash = strcspn(address, "/"), colon = strcspn(address, ":");

	if (str_starts(address, "file://"))
		return address + strlen("file://");
	return colon < slash ? NULL : address;
}

static int check_address(const struct repo *r, const char *address, struct err *e)
{
	static const char *const endings[] = {"", ".git"}; /* that git tries, too */
	const char *path = local_path(address);

	for (size_t i = 0; path && i < ARRAY_SIZE(endings); i++) {
		cleanup_free char *name = NULL, *real = NULL;

		if (asprintf(&name, "%s/%s%s", *path == '/' ? "" : r->workspace, path, endings[i]) <
			0) {
			name = NULL;
			return err_set(e, ENOMEM, "look at the remote");
		}
		real = realpath(name, NULL);
		if (real && (str_eq(real, r->workspace) || repo_below(r->workspace, real)))
			return err_refuse(e,
				"the remote is in %s itself, where it may have come with the "
				"project, and git would run its hooks; use one that is elsewhere",
				r->workspace);
	}
	return 0;
}

/* Where git would really go: the configuration has a say in every name and address. */
static int check_addresses(const struct repo *r, const char *remote, struct err *e)
{
	cleanup_free char *as_address = NULL;
	const char *const by_name[] = {"remote", "get-url", "--push", "--all", "--", remote, NULL};
	/* no such name: an address */
	const char *by_address[] = {
		"-c", NULL, "remote", "get-url", "--push", "--all", "--", "croft-asked", NULL};
	const char *by_fetch[] = {"ls-remote", "--get-url", "--", remote, NULL};
	const char *const *const ways[] = {by_name, by_address, by_fetch};
	bool known = false;
	int x = 0;

	if (asprintf(&as_address, "remote.croft-asked.url=%s", remote) < 0) {
		as_address = NULL;
		return err_set(e, ENOMEM, "look at the remote");
	}
	by_address[1] = as_address;
	for (size_t i = 0; x == 0 && i < ARRAY_SIZE(ways); i++) {
		cleanup_buf struct buf out = BUF_INIT(LISTING_MAX_B);
		struct git_run run = {.argv = ways[i], .out = &out, .any_status = true};

		if (ways[i] == by_address && known)
			continue;
		x = repo_git(r, &run, e);
		known |= run.status == 0;
		for (char *p = out.data, *next; x == 0 && p && *p; p = next) {
			next = p + strcspn(p, "\n");
			if (*next)
				*next++ = '\0';
			x = check_address(r, p, e);
		}
	}
	return x;
}

static int run_git(const struct evidence *v, const char *const *words, const struct buf *in,
	struct buf *out, struct err *e)
{
	const char *argv[PUSH_BATCH + 24] = {words[0], pack_option(&v->repo, words[0])};
	struct git_run run = {.argv = argv,
		.in = in ? in->data : NULL,
		.in_n = in ? in->len : 0,
		.out = out,
		.interactive = true};

	for (size_t i = 1, n = argv[1] ? 2 : 1; words[i] && n + 1 < ARRAY_SIZE(argv); i++)
		argv[n++] = words[i];
	return repo_git(&v->repo, &run, e);
}

/* ------------------------------------------------------------------ push */

static int choose(struct evidence *v, const char *const *names, struct err *e)
{
	for (size_t i = 0; names[i]; i++) {
		cleanup_evidence struct evidence one = {0};
		struct evidence_ledger *more;
		int r = evidence_find(&one, names[i], e);

		if (r < 0)
			return r;
		if (!same_repository(&one.repo, &v->repo))
			return err_invalid(e,
				"%.80s is in another repository (%s) than %.80s; push them one by "
				"one",
				names[i], one.repo.workspace, names[0]);
		more = reallocarray(v->ledgers, v->ledgers_n + 1, sizeof(*more));
		if (!more)
			return err_set(e, ENOMEM, "push evidence");
		v->ledgers = more;
		v->ledgers[v->ledgers_n++] = one.ledgers[0];
		v->ledgers_cap = v->ledgers_n;
	}
	return 0;
}

static int push_some(struct evidence *v, const char *remote, size_t from, size_t to,
	struct buf *out, struct err *e)
{
	const char *argv[PUSH_BATCH + 10] = {"push", "--porcelain", "--no-verify",
		"--no-follow-tags", "--recurse-submodules=no", "--no-signed", "--", remote};
	char refs[PUSH_BATCH][2 * REF_TEXT_MAX];
	size_t n = 8;
	int r;

	for (size_t i = from; i < to; i++) {
		snprintf(refs[i - from], sizeof(refs[0]),
			LEDGER_REF_PREFIX "%s:" LEDGER_REF_PREFIX "%s", v->ledgers[i].id,
			v->ledgers[i].id);
		argv[n++] = refs[i - from];
	}
	argv[n] = NULL;
	r = run_git(v, argv, NULL, NULL, e);
	if (r < 0)
		return err_wrap(e, "push evidence (nothing is forced: a ledger that has gone "
				   "another way there is refused)");
	for (size_t i = from; i < to; i++) {
		buf_addf(out, "pushed " LEDGER_REF_PREFIX "%s to ", v->ledgers[i].id);
		str_show(out, remote, strlen(remote));
		buf_addc(out, '\n');
	}
	return 0;
}

int evidence_push(
	const char *remote, const char *const *names, bool all, struct buf *out, struct err *e)
{
	cleanup_evidence struct evidence v = {0};
	int r = check_remote(remote, e);

	if (r == 0)
		r = open_for(&v, names, all, e);
	if (r == 0)
		r = check_addresses(&v.repo, remote, e);
	if (r == 0)
		r = all ? evidence_add_all(&v, e) : choose(&v, names, e);
	if (r == 0 && v.ledgers_n == 0)
		r = err_invalid(e, "there is no evidence in %s", v.repo.workspace);
	for (size_t i = 0; r == 0 && i < v.ledgers_n; i += PUSH_BATCH)
		r = push_some(&v, remote, i, MIN_OF(i + PUSH_BATCH, v.ledgers_n), out, e);
	return r;
}

/* ------------------------------------------------------------------ fetch */

/* What the remote has: "OID TAB REF" lines; others are none of ours. */
static bool listing_next(const char **p, struct oid *ret, char id[LEDGER_ID_LEN + 1])
{
	while (**p) {
		const char *line = *p;
		size_t n = strcspn(line, "\n"), hex = strcspn(line, "\t\n");
		const char *ref = line + hex + 1;

		*p += n + (line[n] == '\n');
		if (hex >= n || !oid_parse(ret, line, hex) || !str_starts(ref, LEDGER_REF_PREFIX))
			continue;
		ref += strlen(LEDGER_REF_PREFIX);
		if ((size_t)(line + n - ref) != LEDGER_ID_LEN)
			continue;
		snprintf(id, LEDGER_ID_LEN + 1, "%s", ref);
		if (ledger_id_valid(id))
			return true;
	}
	return false;
}

/* The id that is meant: as it is, out of a ref, or of evidence that is here already. */
static int id_of(const char *name, char ret[LEDGER_ID_LEN + 1], struct err *e)
{
	const char *id =
		str_starts(name, LEDGER_REF_PREFIX) ? name + strlen(LEDGER_REF_PREFIX) : name;
	cleanup_evidence struct evidence v = {0};
	int r;

	if (ledger_id_valid(id)) {
		snprintf(ret, LEDGER_ID_LEN + 1, "%s", id);
		return 0;
	}
	r = evidence_find(&v, name, e);
	if (r == -ENOENT)
		return err_invalid(e,
			"%.80s is not known here; names are inside the evidence, so give the id, "
			"or fetch all of it",
			name);
	if (r == 0)
		snprintf(ret, LEDGER_ID_LEN + 1, "%s", v.ledgers[0].id);
	return r;
}

static bool wanted(const struct strlist *ids, bool all, const char *id)
{
	return all || strlist_has(ids, id);
}

/* Objects only: no ref of this repository is named as a place to put them. */
static int fetch_objects(struct evidence *v, const char *remote, const char *listing,
	const struct strlist *ids, bool all, struct err *e)
{
	const char *const argv[] = {"fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
		"--no-write-fetch-head", "--no-prune", "--no-prune-tags", "--no-filter",
		"--no-auto-maintenance", "--refmap=", "--stdin", "--", remote, NULL};
	cleanup_buf struct buf refs = BUF_INIT(LISTING_MAX_B);
	char id[LEDGER_ID_LEN + 1];
	struct oid o;
	int r;

	for (const char *p = listing; listing_next(&p, &o, id);)
		if (wanted(ids, all, id))
			buf_addf(&refs, LEDGER_REF_PREFIX "%s\n", id);
	if (refs.failed)
		return err_set(e, ENOMEM, "fetch evidence");
	if (refs.len == 0)
		return 0;
	r = run_git(v, argv, &refs, NULL, e);
	return r < 0 ? err_wrap(e, "fetch evidence") : 0;
}

/* Is `old` part of the history of `tip`? */
static int follows(const struct repo *r, const struct oid *tip, const struct oid *old, bool *ret,
	struct err *e)
{
	cleanup_free struct oid *v = NULL;
	size_t n = 0;
	int x = ledger_commits(r, tip, &v, &n, e);

	*ret = false;
	for (size_t i = 0; x == 0 && i < n && !*ret; i++)
		*ret = oid_eq(&v[i], old);
	return x;
}

static int take(
	struct evidence *v, const char *id, const struct oid *tip, struct buf *out, struct err *e)
{
	char ref[REF_TEXT_MAX];
	struct ledger_verdict verdict;
	struct oid old = {0};
	bool fine = false;
	int r;

	snprintf(ref, sizeof(ref), LEDGER_REF_PREFIX "%s", id);
	r = ref_read(&v->repo, ref, &old, e);
	if (r == -ENOENT)
		*e = ERR_INIT;
	else if (r < 0)
		return r;
	if (oid_eq(&old, tip)) {
		buf_addf(out, "%s is up to date\n", ref);
		return 0;
	}
	r = ledger_verify(&v->repo, tip, NULL, &verdict, e);
	if (r == 0 && !oid_is_none(&old))
		r = follows(&v->repo, tip, &old, &fine, e);
	if (r < 0)
		return r;
	if (!oid_is_none(&old) && !fine)
		return err_refuse(e,
			"%s here has events that the fetched one does not have (it is no "
			"continuation), so it was left as it is; compare them with croft evidence "
			"verify before you trust either",
			ref);
	r = ref_move(&v->repo, ref, &old, tip, e);
	if (r < 0)
		return r;
	buf_addf(out, "fetched %s: ", ref);
	str_show(out, verdict.env_name, strlen(verdict.env_name));
	if (verdict.good && str_eq(verdict.env_id, id))
		buf_addf(out, ", %llu events, good by the key %.16s…\n",
			(unsigned long long)verdict.events, verdict.key_id.hex);
	else
		buf_adds(out, ", BAD: see croft evidence verify\n");
	return 0;
}

/* Each by itself: one that is refused does not stop the others, but is the answer in the end. */
static int take_all(struct evidence *v, const char *listing, struct strlist *ids, bool all,
	struct buf *out, struct err *e)
{
	struct err first = ERR_INIT;
	char id[LEDGER_ID_LEN + 1];
	size_t found = 0;
	struct oid tip;

	for (const char *p = listing; listing_next(&p, &tip, id);) {
		struct err one = ERR_INIT;

		if (!wanted(ids, all, id))
			continue;
		found++;
		if (take(v, id, &tip, out, &one) < 0 && first.kind == ERR_NONE)
			first = one;
	}
	if (first.kind != ERR_NONE) {
		*e = first;
		return -first.errnum;
	}
	if (all && found == 0)
		return err_invalid(e, "there is no evidence at that remote");
	if (!all && found < ids->n)
		return err_invalid(e, "the remote has %zu of the %zu ledgers that were asked for",
			found, ids->n);
	return 0;
}

int evidence_fetch(
	const char *remote, const char *const *names, bool all, struct buf *out, struct err *e)
{
	const char *const argv[] = {
		"ls-remote", "--refs", "--quiet", "--", remote, LEDGER_REF_PREFIX "*", NULL};
	cleanup_buf struct buf listing = BUF_INIT(LISTING_MAX_B);
	cleanup_strlist struct strlist ids = STRLIST_INIT(EVIDENCE_LEDGERS_MAX);
	cleanup_evidence struct evidence v = {0};
	int r = check_remote(remote, e);

	all = all || !names || !names[0];
	if (r == 0)
		r = open_for(&v, names, all, e);
	if (r == 0)
		r = check_addresses(&v.repo, remote, e);
	for (size_t i = 0; r == 0 && !all && names[i]; i++) {
		char id[LEDGER_ID_LEN + 1];

		r = id_of(names[i], id, e);
		if (r == 0 && !strlist_has(&ids, id) && !strlist_add(&ids, id))
			r = err_set(e, ENOMEM, "fetch evidence");
	}
	if (r == 0) {
		r = run_git(&v, argv, NULL, &listing, e);
		if (r < 0)
			return err_wrap(e, "ask the remote for evidence");
	}
	if (r == 0)
		r = fetch_objects(&v, remote, buf_str(&listing), &ids, all, e);
	return r < 0 ? r : take_all(&v, buf_str(&listing), &ids, all, out, e);
}
