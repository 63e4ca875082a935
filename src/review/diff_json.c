/* SPDX-License-Identifier: Apache-2.0 */
/* Differences for programs, schema croft.diff/v1: see diff.h. */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "review/diff.h"

/* JSON holds Unicode only: a name that is none is given in full as base64 beside it. */
static void json_path(struct json *j, const char *key, const char *key_b64, const char *path)
{
	size_t n = strlen(path), len = base64_len(n);
	cleanup_free char *b64 = NULL;

	json_str(j, key, path);
	if (utf8_valid(path, n))
		return;
	b64 = malloc(len + 1);
	if (!b64) {
		j->out->failed = true;
		return;
	}
	base64_encode(b64, path, n);
	json_strn(j, key_b64, b64, len);
}

static void json_mode(struct json *j, const char *key, unsigned mode)
{
	if (mode)
		json_strf(j, key, "%06o", mode);
	else
		json_null(j, key);
}

static void json_oid(struct json *j, const char *key, const struct oid *o)
{
	json_str(j, key, o->n ? oid_hex(o).s : NULL);
}

static void json_size(struct json *j, const char *key, uint64_t size_b)
{
	if (size_b == DIFF_SIZE_UNKNOWN)
		json_null(j, key);
	else
		json_uint(j, key, size_b);
}

static void json_flags(struct json *j, unsigned flags)
{
	json_array(j, "flags");
	for (unsigned bit = 1; bit && bit <= flags; bit <<= 1)
		if (flags & bit)
			json_str(j, NULL, change_flag_text(bit));
	json_end(j);
}

static void json_hunks(struct json *j, const struct diff_file *f)
{
	struct hunk_line l;

	json_array(j, "hunks");
	for (size_t i = 0; i < f->hunks_n; i++) {
		const struct hunk *h = &f->hunks[i];
		size_t at = 0;

		json_object(j, NULL);
		json_uint(j, "old_start", h->old_start);
		json_uint(j, "old_lines", h->old_n);
		json_uint(j, "new_start", h->new_start);
		json_uint(j, "new_lines", h->new_n);
		json_strn(j, "header", h->head, h->head_n);
		json_array(j, "lines");
		while (hunk_next(h->body, h->body_n, &at, &l)) {
			json_strn(j, NULL, l.p - 1, l.n + 1);
			if (l.no_newline)
				json_str(j, NULL, "\\ No newline at end of file");
		}
		json_end(j);
		json_end(j);
	}
	json_end(j);
}

static const char *change_word(char status)
{
	return status == 'A'   ? "added"
	       : status == 'D' ? "deleted"
	       : status == 'T' ? "type"
	       : status == 'R' ? "renamed"
			       : "modified";
}

static void json_file(struct json *j, const struct diff *d, const struct diff_file *f)
{
	const struct change *x = changes_find(&d->changes, f->path);
	const char *runs = diff_runs(&d->changes, f);
	uint64_t size_b = f->new_size != DIFF_SIZE_UNKNOWN ? f->new_size
			  : x && oid_eq(&x->new, &f->new)  ? x->size
							   : DIFF_SIZE_UNKNOWN;

	json_object(j, NULL);
	json_path(j, "path", "path_bytes_b64", f->path);
	json_str(j, "change", change_word(f->status));
	if (f->from)
		json_path(j, "renamed_from", "renamed_from_bytes_b64", f->from);
	json_mode(j, "old_mode", f->old_mode);
	json_mode(j, "new_mode", f->new_mode);
	json_oid(j, "old", &f->old);
	json_oid(j, "new", &f->new);
	json_size(j, "size", f->new_mode ? size_b : 0);
	if (d->counted)
		json_bool(j, "binary", f->binary);
	if (f->binary)
		json_bool(j, "shown", f->escaped);
	json_flags(j, x ? x->flags : 0);
	json_str(j, "runs", runs);
	if (f->counted) {
		json_uint(j, "additions", f->added);
		json_uint(j, "deletions", f->deleted);
	}
	if (d->what == DIFF_HUNKS)
		json_hunks(j, f);
	json_end(j);
}

/* What no tree holds: refused paths and empty directories. */
static void json_apart(struct json *j, const struct diff *d, const char *key, unsigned flags)
{
	json_array(j, key);
	for (size_t i = 0; i < d->changes.n; i++) {
		const struct change *x = &d->changes.v[i];

		if (!(x->flags & flags) || !diff_selects(&d->paths, x->path))
			continue;
		json_object(j, NULL);
		json_path(j, "path", "path_bytes_b64", x->path);
		json_mode(j, "old_mode", x->old_mode);
		json_mode(j, "new_mode", x->new_mode);
		json_oid(j, "old", &x->old);
		json_oid(j, "new", &x->new);
		json_uint(j, "size", x->size);
		json_uint(j, "size_on_disk", x->disk_b);
		json_flags(j, x->flags);
		json_end(j);
	}
	json_end(j);
}

void diff_json(const struct diff *d, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.diff/v1");
	json_str(&j, "env", d->name);
	if (d->since)
		json_str(&j, "since_review", d->since_time);
	json_oid(&j, "start", &d->from);
	/* A tree without the files that were not read is none that could be asked to land. */
	json_oid(&j, "tree", d->changes.unnamed ? &(struct oid){0} : &d->to);
	json_array(&j, "files");
	for (size_t i = 0; i < d->tree.n; i++)
		json_file(&j, d, &d->tree.v[i]);
	json_end(&j);
	json_apart(&j, d, "refused", CHANGE_REFUSED);
	json_apart(&j, d, "empty_directories", CHANGE_EMPTY_DIR);
	json_apart(&j, d, "not_read", CHANGE_NOT_READ);
	json_uint(&j, "ignored", d->changes.ignored);
	json_object(&j, "totals");
	json_uint(&j, "files", d->tree.n);
	if (d->counted) {
		json_uint(&j, "additions", d->added);
		json_uint(&j, "deletions", d->deleted);
	}
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}
