/* SPDX-License-Identifier: Apache-2.0 */
/* A review's beginning and end: see review.h for the order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "env/env_beside.h"
#include "env/env_ran.h"
#include "review/review.h"
#include "review/review_context.h"
#include "git/program.h"
#include "ledger/chain/predicate.h"

#define CONTEXT_MAX (64u << 10)

/* ---- opening ---- */

static int by_path(const void *key, const void *x)
{
	return strcmp(key, ((const struct diff_file *)x)->path);
}

static int by_path2(const void *a, const void *b)
{
	return strcmp(((const struct diff_file *)a)->path, ((const struct diff_file *)b)->path);
}

/*
 * Since a review: what differs now from what it accepted, of the files that changed since it was shown.
 * A file that was accepted as it was thus shows only what is new; one that was rejected in part
 * shows all that is not accepted.
 */
static int keep_changed(struct review *r, struct err *e)
{
	cleanup_tree_diff struct tree_diff changed = {0};
	const struct diff_query q = {.git_dir = r->git_dir,
		.from = r->earlier.tree,
		.to = r->tree,
		.what = DIFF_NAMES,
		.no_renames = true};
	size_t n = 0;
	int rc = tree_diff_get(&changed, &q, e);

	if (rc < 0)
		return rc;
	if (changed.n)
		qsort(changed.v, changed.n, sizeof(*changed.v), by_path2);
	for (size_t i = 0; i < r->diff.n; i++) {
		struct diff_file *f = &r->diff.v[i], drop = *f;

		if (changed.n && bsearch(f->path, changed.v, changed.n, sizeof(*f), by_path)) {
			r->diff.v[n++] = drop;
			continue;
		}
		free(drop.path);
		free(drop.from);
		free(drop.hunks);
	}
	r->diff.n = n;
	return 0;
}

static int load(struct review *r, struct env *v, struct err *e)
{
	struct diff_query q;
	int rc = env_changes(v, &r->changes, true, e);

	if (rc < 0)
		return rc;
	memcpy(r->name, v->name, sizeof(r->name));
	memcpy(r->id, v->id, sizeof(r->id));
	r->hash = v->repo.hash;
	r->earlier = v->review;
	r->start_tree = r->changes.start_tree;
	r->tree = r->changes.tree;
	r->base = r->since ? v->review.accepted : r->start_tree;
	r->git_dir = strdup(v->repo.store);
	if (!r->git_dir)
		return err_set(e, ENOMEM, "open a review");
	q = (struct diff_query){.git_dir = r->git_dir,
		.from = r->base,
		.to = r->tree,
		.what = DIFF_HUNKS,
		.no_renames = r->since};
	rc = tree_diff_get(&r->diff, &q, e);
	if (rc == 0)
		rc = tree_diff_sizes(&r->diff, r->git_dir, e);
	if (rc == 0 && r->since)
		rc = keep_changed(r, e);
	if (rc == 0)
		rc = tree_diff_binary(&r->diff, &q, &r->changes, false, e);
	return rc < 0 ? rc : review_itemize(r, e);
}

/* Two lines about the change, then what the environment did. */
static int describe(struct review *r, struct env *v, struct err *e)
{
	uint64_t added = 0, deleted = 0;
	size_t empty = 0;
	struct deeds deeds;

	for (size_t i = 0; i < r->diff.n; i++) {
		added += r->diff.v[i].added;
		deleted += r->diff.v[i].deleted;
	}
	for (size_t i = 0; i < r->changes.n; i++)
		empty += (r->changes.v[i].flags & CHANGE_EMPTY_DIR) != 0;
	buf_addf(&r->context, "%s: %zu file%s, +%llu -%llu lines", r->name, r->files_n,
		r->files_n == 1 ? "" : "s", (unsigned long long)added, (unsigned long long)deleted);
	if (r->since)
		buf_addf(&r->context, ", since the review of %s", r->earlier.time);
	buf_addc(&r->context, '\n');
	if (r->changes.ignored)
		buf_addf(&r->context, "  not shown    %llu path%s that the project ignores\n",
			(unsigned long long)r->changes.ignored, r->changes.ignored == 1 ? "" : "s");
	if (empty)
		buf_addf(&r->context,
			"  not shown    %zu empty director%s, which Git does not keep\n", empty,
			empty == 1 ? "y" : "ies");
	return review_context(v, &deeds, &r->context, e);
}

int review_open(struct review *ret, const char *name, bool since, struct err *e)
{
	cleanup_review struct review r = {.since = since, .context = BUF_INIT(CONTEXT_MAX)};
	cleanup_env struct env v = {.dir_fd = -1, .lock_fd = -1};
	int rc = env_open(&v, name, ENV_LOCK_READ, e);

	if (rc < 0 || (rc = env_beside_seal(&v, name, e)) < 0)
		return rc;
	if (since && (!v.review.tree.n || !v.review.accepted.n))
		return err_invalid(
			e, "%s has not been reviewed yet; see: croft review %s", v.name, v.name);
	rc = load(&r, &v, e);
	if (rc == 0)
		rc = describe(&r, &v, e);
	if (rc < 0)
		return rc;
	*ret = r;
	r = (struct review){0};
	return 0;
}

/* ---- saving ---- */

static bool same_refused(const struct changes *a, const struct changes *b)
{
	size_t i = 0, k = 0;

	for (;; i++, k++) {
		while (i < a->n && !(a->v[i].flags & CHANGE_REFUSED))
			i++;
		while (k < b->n && !(b->v[k].flags & CHANGE_REFUSED))
			k++;
		if (i == a->n || k == b->n)
			return i == a->n && k == b->n;
		if (!str_eq(a->v[i].path, b->v[k].path) || a->v[i].flags != b->v[k].flags ||
			!oid_eq(&a->v[i].new, &b->v[k].new))
			return false;
	}
}

/* Is the environment what it was when the review was opened? */
static int check_unchanged(const struct review *r, struct env *v, struct err *e)
{
	cleanup_changes struct changes now = {0};
	int rc;

	if (!str_eq(v->id, r->id))
		return err_refuse(e, "%s is another environment by now; review it again", r->name);
	rc = env_changes(v, &now, true, e);
	if (rc < 0)
		return rc;
	if (!oid_eq(&now.tree, &r->tree) || !oid_eq(&now.start_tree, &r->start_tree) ||
		!same_refused(&now, &r->changes))
		return err_refuse(e,
			"%s changed while it was reviewed; nothing was saved; review it again: "
			"croft review %s",
			r->name, r->name);
	if (r->since && (!oid_eq(&v->review.tree, &r->earlier.tree) ||
				!oid_eq(&v->review.accepted, &r->earlier.accepted)))
		return err_refuse(e,
			"somebody else saved a review of %s meanwhile; nothing was saved; review "
			"it again",
			r->name);
	return 0;
}

static int check_decided(const struct review *r, const struct review_counts *n, struct err *e)
{
	if (n->accepted + n->rejected + n->edited + n->undecided == 0)
		return err_invalid(e, "%s has no changes that could be accepted%s", r->name,
			n->refused ? "; all of them are refused" : "");
	if (n->accepted + n->rejected + n->edited == 0)
		return err_invalid(e, "nothing was decided; there is nothing to save");
	return 0;
}

/* The treemap whose root is the base, if there is one: of the base commit or of a dirty start. */
static const struct treemap *map_of_base(
	const struct review *r, const struct env *v, struct treemap **own)
{
	struct err ignored = ERR_INIT;
	struct oid root = {0};

	if (v->base.trees) {
		treemap_root(v->base.trees, &root);
		if (oid_eq(&root, &r->base))
			return v->base.trees;
	}
	if (treemap_open(own, v->dir_fd, "start.trees", &ignored) < 0)
		*own = NULL;
	return *own;
}

static int make_accepted(struct review *r, struct env *v, struct oid *ret, struct err *e)
{
	cleanup_treemap struct treemap *own = NULL;
	struct git_store s;
	int rc = repo_store(&v->repo, &s, e);

	if (rc < 0)
		return rc;
	s.sync = true;
	rc = review_tree(r, map_of_base(r, v, &own), v->dir, &s, ret, e);
	if (rc == 0)
		rc = git_store_flush(&s, e);
	git_store_close(&s);
	return rc;
}

/* The reviewer, as Git knows the user: "Name <mail>". Who has told Git nothing is "unknown". */
static void reviewer(const struct env *v, struct buf *ret)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct git_run r = {.argv = (const char *const[]){"var", "GIT_COMMITTER_IDENT", NULL},
		.dir = "/",
		.out = &out,
		.any_status = true};
	struct err ignored = ERR_INIT;
	const char *end;

	if ((v->repo.git_dir ? repo_git(&v->repo, &r, &ignored) : git_run(&r, &ignored)) == 0 &&
		r.status == 0 && (end = strrchr(buf_str(&out), '>')))
		str_show(ret, out.data, (size_t)(end - out.data) + 1);
	if (!ret->len)
		buf_adds(ret, "unknown");
}

static int record(struct review *r, struct env *v, const struct review_saved *s,
	struct timespec now, struct err *e)
{
	cleanup_buf struct buf predicate = BUF_INIT(PREDICATE_MAX_B),
			       account = BUF_INIT(LEDGER_FILE_MAX_B), who = BUF_INIT(32768);
	const struct oid_hex shown = oid_hex(&r->tree), accepted = oid_hex(&s->accepted);
	char title[160];
	struct ledger_event ev = {.kind = EVENT_REVIEWED,
		.env_id = v->id,
		.env_name = v->name,
		.time = now,
		.predicate_type = PREDICATE_VSA,
		.title = title};
	int rc = 0;

	if (!v->tip_known)
		rc = ledger_tip(&v->tip, &v->repo, v->id, e);
	if (rc < 0)
		return rc;
	v->tip_known = true;
	reviewer(v, &who);
	review_predicate(
		r, s, buf_str(&who), v->tip.commit.n ? v->tip.envelope.hex : NULL, &predicate);
	review_account(r, s, &account);
	if (predicate.failed || account.failed)
		return err_set(e, EFBIG, "record the review");
	snprintf(title, sizeof(title), "review: %zu accepted, %zu edited, %zu rejected",
		s->counts.accepted, s->counts.edited,
		s->counts.rejected + s->counts.undecided + s->counts.refused);
	ev.predicate = buf_str(&predicate);
	ev.subjects[ev.subjects_n++] = (struct ledger_subject){"accepted", "gitTree", accepted.s};
	ev.subjects[ev.subjects_n++] = (struct ledger_subject){"shown", "gitTree", shown.s};
	ev.files[ev.files_n++] = (struct ledger_file){"review.json", account.data, account.len};
	return env_event(v, &ev, e);
}

int review_save(struct review *r, struct review_saved *ret, struct err *e)
{
	cleanup_env struct env v = {.dir_fd = -1, .lock_fd = -1};
	struct review_saved s = {0};
	struct land_ran ran;
	struct timespec now;
	int rc;

	review_count(r, &s.counts);
	rc = check_decided(r, &s.counts, e);
	if (rc == 0)
		rc = env_open(&v, r->name, ENV_LOCK_BESIDE, e);
	if (rc == 0)
		rc = check_unchanged(r, &v, e);
	if (rc == 0)
		rc = make_accepted(r, &v, &s.accepted, e);
	if (rc < 0)
		return rc;
	land_ran(&v, &ran);
	memcpy(s.policy, ran.policy, sizeof(s.policy));
	env_now(&now);
	env_time_text(&now, s.time);
	rc = record(r, &v, &s, now, e);
	if (rc < 0)
		return rc;
	v.review = (struct env_review){.tree = r->tree, .accepted = s.accepted};
	memcpy(v.review.time, s.time, sizeof(v.review.time));
	rc = env_save(&v, e);
	if (rc < 0)
		return err_wrap(e, "the review is in the ledger, but not in force; review again");
	*ret = s;
	return 0;
}
