/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A review as evidence and as an answer: see review.h.
 *
 * The predicate is a verification summary with one decision per path; the account beside it has every
 * item, with comments and the text of edited hunks. Comments are the reviewer's own words: JSON keeps
 * them whole, and whoever shows them makes them printable.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "review/review.h"
#include "ledger/chain/predicate.h"

#define FILE_COMMENT_MAX 1024u /* in the predicate */

/* Accepted only in part is accepted with another content than was shown: edited. */
static enum predicate_decision file_decision(
	const struct review *r, const struct review_file *f, size_t *ret_yes)
{
	size_t yes = 0, edited = 0;

	for (size_t i = f->item; i < f->item + f->items_n; i++) {
		yes += r->items[i].decision == CROFT_ACCEPTED;
		edited += r->items[i].decision == CROFT_EDITED;
	}
	*ret_yes = yes + edited;
	if (yes + edited == 0)
		return DECISION_REJECTED;
	return yes == f->items_n ? DECISION_ACCEPTED : DECISION_EDITED;
}

/* Why and how far, then the comments on a file's items, one a line. NULL: nothing to say. */
static char *file_comment(const struct review *r, const struct review_file *f, size_t yes)
{
	cleanup_buf struct buf b = BUF_INIT(FILE_COMMENT_MAX);

	if (f->refused) {
		buf_adds(&b, "cannot land: ");
		diff_flags(f->refused->flags & CHANGE_REFUSED, &b);
	} else if (yes && yes < f->items_n) {
		buf_addf(&b, "%zu of %zu parts accepted", yes, f->items_n);
	}
	for (size_t i = f->item; i < f->item + f->items_n; i++)
		if (r->items[i].comment)
			buf_addf(&b, "%s%s", b.len ? "\n" : "", r->items[i].comment);
	if (b.failed)
		return strdup("(the comments are in review.json)");
	return b.len ? buf_take(&b) : NULL;
}

static void json_path(struct json *j, const char *path)
{
	size_t n = strlen(path), len = base64_len(n);
	cleanup_free char *b64 = NULL;

	json_str(j, "path", path);
	if (utf8_valid(path, n))
		return;
	b64 = malloc(len + 1);
	if (!b64) {
		j->out->failed = true;
		return;
	}
	base64_encode(b64, path, n);
	json_strn(j, "path_bytes_b64", b64, len);
}

static void json_counts(struct json *j, const struct review_counts *n)
{
	json_object(j, "counts");
	json_uint(j, "accepted", n->accepted);
	json_uint(j, "edited", n->edited);
	json_uint(j, "rejected", n->rejected);
	json_uint(j, "undecided", n->undecided);
	json_uint(j, "refused", n->refused);
	json_end(j);
}

static void json_trees(struct json *j, const struct review *r, const struct review_saved *s)
{
	json_str(j, "treeShown", oid_hex(&r->tree).s);
	json_str(j, "treeAccepted", oid_hex(&s->accepted).s);
	if (r->since)
		json_str(j, "sinceReviewOf", oid_hex(&r->earlier.tree).s);
}

void review_predicate(const struct review *r, const struct review_saved *s, const char *verifier,
	const char *previous, struct buf *out)
{
	const struct oid_hex shown = oid_hex(&r->tree), accepted = oid_hex(&s->accepted);
	cleanup_free struct predicate_path *paths = calloc(r->files_n + 1, sizeof(*paths));
	cleanup_free char **comments = calloc(r->files_n + 1, sizeof(*comments));
	char uri[ENV_NAME_MAX + OID_HEX_MAX + 32];
	struct predicate_review v = {.verifier = verifier,
		.time = s->time,
		.resource_uri = uri,
		.policy_digest = s->policy[0] ? s->policy : NULL,
		.inputs = &previous,
		.inputs_n = previous != NULL,
		.passed = s->counts.accepted + s->counts.edited > 0,
		.tree_shown = shown.s,
		.tree_accepted = accepted.s,
		.paths = paths,
		.paths_n = r->files_n};

	if (!paths || !comments) {
		out->failed = true;
		return;
	}
	snprintf(uri, sizeof(uri), "git+croft:%s@%s", r->name, shown.s);
	/* The predicate keeps so many; the account has all. */
	for (size_t i = 0; i < r->files_n; i++) {
		size_t yes = 0;

		paths[i].path = review_path(r, r->files[i].item);
		paths[i].decision = file_decision(r, &r->files[i], &yes);
		if (i < PREDICATE_LIST_MAX)
			paths[i].comment = comments[i] = file_comment(r, &r->files[i], yes);
	}
	predicate_review(&v, out);
	for (size_t i = 0; i < r->files_n; i++)
		free(comments[i]);
}

static void json_item(struct json *j, const struct review *r, size_t i)
{
	const struct review_item *x = &r->items[i];
	const struct review_file *f = &r->files[x->file];

	json_object(j, NULL);
	json_path(j, review_path(r, i));
	if (x->hunk == REVIEW_WHOLE)
		json_null(j, "hunk");
	else
		json_strn(j, "hunk", f->diff->hunks[x->hunk].head, f->diff->hunks[x->hunk].head_n);
	json_str(j, "decision", x->refused ? "refused" : review_decision_names[x->decision]);
	if (x->comment)
		json_str(j, "comment", x->comment);
	if (x->edited)
		json_strn(j, "edited", x->edited, x->edited_n);
	json_end(j);
}

/* all: every item; else those about which there is more to say than yes or no. */
static void account(const struct review *r, const struct review_saved *s, bool all, struct buf *out)
{
	size_t left_out = 0;
	struct json j;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.review/v1");
	json_str(&j, "env", r->name);
	json_str(&j, "id", r->id);
	json_str(&j, "time", s->time);
	json_trees(&j, r, s);
	json_counts(&j, &s->counts);
	json_array(&j, "items");
	for (size_t i = 0; i < r->items_n; i++) {
		if (all || r->items[i].comment || r->items[i].edited)
			json_item(&j, r, i);
		else
			left_out++;
	}
	json_end(&j);
	if (left_out)
		json_uint(&j, "itemsLeftOut", left_out);
	json_end(&j);
	buf_addc(out, '\n');
}

void review_account(const struct review *r, const struct review_saved *s, struct buf *out)
{
	account(r, s, true, out);
	if (!out->failed)
		return;
	/* Too many for one file of the ledger: the two trees tell what was accepted. */
	buf_reset(out);
	account(r, s, false, out);
}

void review_saved_json(const struct review *r, const struct review_saved *s, struct buf *out)
{
	review_account(r, s, out);
}

void review_saved_text(const struct review *r, const struct review_saved *s, struct buf *out)
{
	const struct review_counts *n = &s->counts;

	buf_addf(out, "Reviewed %s: %zu accepted, %zu edited, %zu rejected", r->name, n->accepted,
		n->edited, n->rejected);
	if (n->undecided)
		buf_addf(out, ", %zu undecided and so rejected", n->undecided);
	if (n->refused)
		buf_addf(out, ", %zu that cannot land", n->refused);
	buf_adds(out, ".\n");
	if (oid_eq(&s->accepted, &r->start_tree))
		buf_addf(out,
			"Nothing is left to land. Throw the work away with: croft discard %s\n",
			r->name);
	else
		buf_addf(out, "Land what was accepted with: croft apply %s\n", r->name);
}
