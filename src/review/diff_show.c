/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences for people: list, hunks, and what cannot land. See diff.h.
 *
 * Trust: names and lines come from a sandbox; each passes str_show() or show_line(). The only escape
 * sequences in the output are ours.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "review/diff.h"

#define MODE_EXECUTABLE 0100755u
#define MODE_SYMLINK 0120000u
#define MODE_GITLINK 0160000u

#define RED "\033[31m"
#define GREEN "\033[32m"
#define CYAN "\033[36m"
#define BOLD "\033[1m"
#define WARN "\033[1;31m"
#define PLAIN "\033[0m"

static void paint(struct buf *out, bool color, const char *sequence)
{
	if (color)
		buf_adds(out, sequence);
}

void diff_size(uint64_t size_b, struct buf *out)
{
	static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
	uint64_t whole = size_b, tenths = 0;
	size_t u = 0;

	if (size_b == DIFF_SIZE_UNKNOWN) {
		buf_adds(out, "size unknown");
		return;
	}
	for (; whole >= 1024 && u + 1 < ARRAY_SIZE(units); u++) {
		tenths = whole % 1024 * 10 / 1024;
		whole /= 1024;
	}
	if (u && whole < 10 && tenths)
		buf_addf(out, "%llu.%llu %s", (unsigned long long)whole, (unsigned long long)tenths,
			units[u]);
	else
		buf_addf(
			out, "%llu %s", (unsigned long long)whole, size_b == 1 ? "byte" : units[u]);
}

void diff_flags(unsigned flags, struct buf *out)
{
	bool first = true;

	for (unsigned bit = 1; bit && bit <= flags; bit <<= 1) {
		if (!(flags & bit))
			continue;
		buf_addf(out, "%s%s", first ? "" : ", ", change_flag_text(bit));
		first = false;
	}
}

/* ---- one file ---- */

static const char *kind_of(unsigned mode)
{
	return mode == MODE_EXECUTABLE ? "executable file"
	       : mode == MODE_SYMLINK  ? "symlink"
	       : mode == MODE_GITLINK  ? "submodule"
				       : "file";
}

/* Where a symlink leads, as its hunk says. */
static void symlink_target(const struct diff_file *f, struct buf *out)
{
	struct hunk_line l;

	for (size_t i = 0; i < f->hunks_n; i++) {
		size_t at = 0;

		while (hunk_next(f->hunks[i].body, f->hunks[i].body_n, &at, &l)) {
			if (l.mark != '+')
				continue;
			buf_adds(out, " -> ");
			str_show(out, l.p, l.n);
			return;
		}
	}
}

static void binary_sizes(const struct diff_file *f, struct buf *out)
{
	buf_adds(out, f->large ? ", too large to show, " : ", binary, ");
	if (f->old.n)
		diff_size(f->old_size, out);
	if (f->old.n && f->new.n)
		buf_adds(out, " → ");
	if (f->new.n)
		diff_size(f->new_size, out);
	if (f->escaped)
		buf_adds(out, ", shown escaped");
	else
		buf_addf(out, ", content not shown (blob %.12s)",
			oid_hex(f->new.n ? &f->new : &f->old).s);
}

void diff_title(const struct diff_file *f, struct buf *out)
{
	switch (f->status) {
	case 'A':
		buf_addf(out, "new %s", kind_of(f->new_mode));
		break;
	case 'D':
		buf_addf(out, "deleted %s", kind_of(f->old_mode));
		break;
	case 'T':
		buf_addf(out, "%s in place of a %s", kind_of(f->new_mode), kind_of(f->old_mode));
		break;
	case 'R':
		buf_adds(out, "renamed from ");
		str_show(out, f->from, strlen(f->from));
		break;
	default:
		buf_addf(out, "modified%s", f->new_mode == MODE_SYMLINK ? " symlink" : "");
	}
	if (f->new_mode == MODE_SYMLINK)
		symlink_target(f, out);
	if (f->status != 'T' && f->old_mode && f->new_mode && f->old_mode != f->new_mode)
		buf_adds(out, f->new_mode == MODE_EXECUTABLE ? ", now executable"
							     : ", no longer executable");
	if (f->binary)
		binary_sizes(f, out);
}

void diff_hunk(const struct hunk *h, bool color, struct buf *out)
{
	bool cr = hunk_has_cr(h);
	struct hunk_line l;
	size_t at = 0;

	paint(out, color, CYAN);
	show_line(out, h->head, h->head_n);
	paint(out, color, PLAIN);
	buf_adds(out, cr ? "   (lines end in CR LF)\n" : "\n");
	while (hunk_next(h->body, h->body_n, &at, &l)) {
		bool marked = l.mark != ' ';

		if (marked)
			paint(out, color, l.mark == '+' ? GREEN : RED);
		buf_addc(out, l.mark);
		show_line(out, l.p, l.n - cr);
		if (marked)
			paint(out, color, PLAIN);
		buf_addc(out, '\n');
		if (l.no_newline)
			buf_adds(out, "\\ No newline at end of file\n");
	}
}

/* ---- the whole ---- */

static void list_line(const struct diff *d, const struct diff_file *f, bool color, struct buf *out)
{
	buf_addf(out, "  %c ", f->status);
	str_show(out, f->path, strlen(f->path));
	if (d->what != DIFF_NAMES || f->status != 'M' || f->old_mode != f->new_mode) {
		buf_adds(out, "   ");
		diff_title(f, out);
	}
	if (f->counted && f->added) {
		paint(out, color, GREEN);
		buf_addf(out, "  +%llu", (unsigned long long)f->added);
		paint(out, color, PLAIN);
	}
	if (f->counted && f->deleted) {
		paint(out, color, RED);
		buf_addf(out, "  -%llu", (unsigned long long)f->deleted);
		paint(out, color, PLAIN);
	}
	buf_addc(out, '\n');
}

static void show_runs(const struct diff *d, bool color, struct buf *out)
{
	bool head = false;

	for (size_t i = 0; i < d->tree.n; i++) {
		const struct diff_file *f = &d->tree.v[i];
		const char *why = diff_runs(&d->changes, f);

		if (!why)
			continue;
		if (!head) {
			paint(out, color, WARN);
			buf_adds(out, "These run on your machine once they are there:\n");
			paint(out, color, PLAIN);
			head = true;
		}
		buf_adds(out, "  ");
		str_show(out, f->path, strlen(f->path));
		buf_addf(out, "   runs on your machine: %s\n", why);
	}
}

static void show_refused(const struct diff *d, bool color, struct buf *out)
{
	bool head = false;

	for (size_t i = 0; i < d->changes.n; i++) {
		const struct change *x = &d->changes.v[i];

		if (!(x->flags & CHANGE_REFUSED) || !diff_selects(&d->paths, x->path))
			continue;
		if (!head) {
			paint(out, color, WARN);
			buf_adds(out, "These are refused, and cannot land:\n");
			paint(out, color, PLAIN);
			head = true;
		}
		buf_adds(out, "  ");
		str_show(out, x->path, strlen(x->path));
		buf_adds(out, "   ");
		diff_flags(x->flags & CHANGE_REFUSED, out);
		buf_addc(out, '\n');
	}
}

/* What this would have cost is somebody else's choice: said with sizes, and that it was not read. */
static void show_not_read(const struct diff *d, bool color, struct buf *out)
{
	bool head = false;

	for (size_t i = 0; i < d->changes.n; i++) {
		const struct change *x = &d->changes.v[i];

		if (!(x->flags & CHANGE_NOT_READ) || !diff_selects(&d->paths, x->path))
			continue;
		if (!head) {
			paint(out, color, WARN);
			buf_adds(out, "These were not read (more than ");
			diff_size(ENV_LOOK_MAX_B, out);
			buf_adds(out, " in all); they land nevertheless:\n");
			paint(out, color, PLAIN);
			head = true;
		}
		buf_addf(out, "  %c ", !x->old_mode ? 'A' : !x->new_mode ? 'D' : 'M');
		str_show(out, x->path, strlen(x->path));
		buf_addf(out, "   %s, ", kind_of(x->new_mode ? x->new_mode : x->old_mode));
		diff_size(x->size, out);
		if (x->disk_b < x->size) {
			buf_adds(out, ", of which ");
			diff_size(x->disk_b, out);
			buf_adds(out, " are on the disk and the rest is a hole");
		}
		if (x->flags & CHANGE_RUNS)
			buf_addf(out, "   runs on your machine: %s", x->runs);
		buf_addc(out, '\n');
	}
}

static void show_left_out(const struct diff *d, struct buf *out)
{
	bool head = false;

	for (size_t i = 0; i < d->changes.n; i++) {
		const struct change *x = &d->changes.v[i];

		if (!(x->flags & CHANGE_EMPTY_DIR) || !diff_selects(&d->paths, x->path))
			continue;
		if (!head)
			buf_adds(out, "Empty directories, which Git does not keep:\n");
		head = true;
		buf_adds(out, "  ");
		str_show(out, x->path, strlen(x->path));
		buf_adds(out, "/\n");
	}
	if (d->changes.ignored)
		buf_addf(out, "%llu changed path%s the project ignores (never landed).\n",
			(unsigned long long)d->changes.ignored, d->changes.ignored == 1 ? "" : "s");
}

static void show_totals(const struct diff *d, struct buf *out)
{
	buf_addf(out, "%s: %zu file%s changed", d->name, d->tree.n, d->tree.n == 1 ? "" : "s");
	if (d->changes.unnamed)
		buf_addf(out, ", %llu not read", (unsigned long long)d->changes.unnamed);
	if (d->counted && d->tree.n)
		buf_addf(out, ", %llu line%s added, %llu removed", (unsigned long long)d->added,
			d->added == 1 ? "" : "s", (unsigned long long)d->deleted);
	if (d->since)
		buf_addf(out, " since the review of %s", d->since_time);
	buf_addc(out, '\n');
	if (d->what == DIFF_STAT && !d->counted && d->tree.n)
		buf_addf(out, "Lines are not counted for more than %u files.\n", DIFF_STAT_MAX);
}

static void show_hunks(const struct diff *d, bool color, struct buf *out)
{
	for (size_t i = 0; i < d->tree.n; i++) {
		const struct diff_file *f = &d->tree.v[i];

		if (!f->hunks_n)
			continue;
		buf_addc(out, '\n');
		paint(out, color, BOLD);
		str_show(out, f->path, strlen(f->path));
		buf_adds(out, "   ");
		diff_title(f, out);
		paint(out, color, PLAIN);
		buf_addc(out, '\n');
		for (size_t k = 0; k < f->hunks_n; k++)
			diff_hunk(&f->hunks[k], color, out);
	}
}

/* What a reader has not seen is counted, with the way to see it. */
static void show_unseen(const struct diff *d, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < d->tree.n; i++)
		n += d->tree.v[i].binary && !d->tree.v[i].large && !d->tree.v[i].escaped;
	if (n)
		buf_addf(out,
			"The content of %zu binary file%s is not shown; croft diff --text %s shows "
			"it, escaped.\n",
			n, n == 1 ? "" : "s", d->name);
}

void diff_text(const struct diff *d, bool color, struct buf *out)
{
	show_totals(d, out);
	for (size_t i = 0; i < d->tree.n; i++)
		list_line(d, &d->tree.v[i], color, out);
	show_not_read(d, color, out);
	show_refused(d, color, out);
	show_runs(d, color, out);
	show_left_out(d, out);
	if (d->what == DIFF_HUNKS)
		show_unseen(d, out);
	if (d->what == DIFF_HUNKS)
		show_hunks(d, color, out);
}
