/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines a landed commit added: see notes.h. */
#include "evidence/notes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "git/program.h"
#include "git/read.h"

#define PATCH_MAX_B (1u << 30)

void notes_done(struct notes *n)
{
	for (size_t i = 0; i < n->files_n; i++) {
		free(n->files[i].path);
		free(n->files[i].ranges);
	}
	free(n->files);
	strlist_done(&n->left_out);
	*n = (struct notes){0};
}

/* ------------------------------------------------------------------ lines */

static int add_range(struct notes_file *f, uint64_t first, uint64_t count, struct err *e)
{
	if (count == 0)
		return 0;
	if (f->ranges_n && f->ranges[f->ranges_n - 1].last + 1 == first) {
		f->ranges[f->ranges_n - 1].last = first + count - 1;
		return 0;
	}
	if (f->ranges_n >= NOTES_RANGES_MAX)
		return err_set(e, EFBIG, "a file with more than %u changes", NOTES_RANGES_MAX);
	if (f->ranges_n == f->ranges_cap) {
		size_t want = f->ranges_cap ? f->ranges_cap * 2 : 8;
		struct notes_range *more = reallocarray(f->ranges, want, sizeof(*more));

		if (!more)
			return err_set(e, ENOMEM, "read the change");
		f->ranges = more;
		f->ranges_cap = want;
	}
	f->ranges[f->ranges_n++] = (struct notes_range){first, first + count - 1};
	return 0;
}

static bool number(const char **p, const char *end, uint64_t *ret)
{
	const char *from = *p;
	uint64_t v = 0;

	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
		if (v > UINT32_MAX)
			return false;
		v = v * 10 + (uint64_t)(**p - '0');
	}
	*ret = v;
	return *p > from;
}

/* "@@ -1,2 +3,4 @@": the lines of the new side. */
static int take_hunk(struct notes_file *f, const char *p, const char *end, struct err *e)
{
	const char *plus = memchr(p, '+', (size_t)(end - p));
	uint64_t first = 0, count = 1;

	if (!plus || !f)
		return err_set(e, EBADMSG, "git's patch");
	plus++;
	if (!number(&plus, end, &first))
		return err_set(e, EBADMSG, "git's patch");
	if (plus < end && *plus == ',') {
		plus++;
		if (!number(&plus, end, &count))
			return err_set(e, EBADMSG, "git's patch");
	}
	return add_range(f, first, count, e);
}

/*
 * Sections come in the order of the list; a file that became something else (twice[i]) has two, the
 * deletion and the new one. Lines of content begin with a blank, + or -, so they are never mistaken.
 */
int notes_parse(struct notes *n, const char *patch, size_t len, const bool *twice, struct err *e)
{
	const char *end = patch + len;
	struct notes_file *f = NULL;
	size_t at = 0;
	bool second = false;
	int r = 0;

	for (const char *p = patch; p < end && r == 0;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p)), *stop = nl ? nl : end;

		if (stop - p > 11 && memcmp(p, "diff --git ", 11) == 0) {
			if (f && twice[at] && !second) {
				second = true;
			} else {
				at += f != NULL;
				second = false;
			}
			if (at >= n->files_n)
				return err_set(e, EBADMSG, "git's patch");
			f = &n->files[at];
		} else if (stop - p > 4 && memcmp(p, "@@ -", 4) == 0) {
			r = take_hunk(f, p, stop, e);
		}
		p = nl ? nl + 1 : end;
	}
	return r;
}

/* ------------------------------------------------------------------ files */

struct entries {
	struct notes *n;
	bool *twice;
};

/* ":100644 120000 OLD NEW T" NUL path NUL, after the commit's name. */
static int take_list(struct entries *x, const struct buf *b, struct err *e)
{
	const char *p = buf_str(b), *end = p + b->len;
	size_t max = 0;

	for (const char *q = p; q < end; q += strlen(q) + 1)
		max += *q == ':';
	if (max > NOTES_FILES_MAX)
		return err_set(
			e, EFBIG, "a commit that changes more than %u files", NOTES_FILES_MAX);
	x->n->files = calloc(max + 1, sizeof(*x->n->files));
	x->twice = calloc(max + 1, sizeof(*x->twice));
	if (!x->n->files || !x->twice)
		return err_set(e, ENOMEM, "read the change");
	while (p < end && *p == ':' && x->n->files_n < max) {
		const char *path = p + strlen(p) + 1;
		struct notes_file *f = &x->n->files[x->n->files_n];

		if (path >= end || strlen(p) < 2)
			return err_set(e, EBADMSG, "git's list of changes");
		f->path = strdup(path);
		if (!f->path)
			return err_set(e, ENOMEM, "read the change");
		x->twice[x->n->files_n++] = p[strlen(p) - 1] == 'T';
		p = path + strlen(path) + 1;
	}
	return 0;
}

static int ask(const struct repo *r, const char *parent, const char *commit, const char *form,
	struct buf *out, struct err *e)
{
	const char *argv[] = {"diff-tree", "-r", form, str_eq(form, "-p") ? "-U0" : "-z",
		"--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", parent, commit,
		"--", NULL};
	struct git_run run = {.argv = argv, .git_dir = r->store, .out = out};

	return git_run(&run, e);
}

/* What a reviewer's edit touched is not the agent's alone. */
static void mark_edited(struct notes *n, const struct story *s, const struct story_landing *l)
{
	const struct story_review *v = NULL;

	for (size_t i = 0; i < s->reviews_n; i++)
		if (s->reviews[i].entry->seq < l->entry->seq)
			v = &s->reviews[i];
	for (size_t i = 0; v && i < jlen(v->decisions); i++) {
		const char *what = jstr(jget(jat(v->decisions, i), "decision"));
		const char *path = jstr(jget(jat(v->decisions, i), "path"));

		if (!what || !path || !str_eq(what, "edited"))
			continue;
		for (size_t k = 0; k < n->files_n; k++)
			n->files[k].mixed |= str_eq(n->files[k].path, path);
	}
}

/* The first parent, or the empty tree; and the author. */
static int commit_facts(
	const struct repo *r, struct notes *n, struct oid_hex *ret_parent, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	cleanup_buf struct buf raw = BUF_INIT(16u << 20);
	struct commit_info c;
	struct oid parent;
	int x = git_reader_open(&g, r->store, e);

	if (x == 0)
		x = git_read_oid(g, &n->commit, GIT_COMMIT, &raw, e);
	if (x == 0)
		x = git_commit_parse(buf_str(&raw), raw.len, r->hash, &c, e);
	if (x < 0)
		return x;
	oid_of(&parent, r->hash, GIT_TREE, "", 0);
	*ret_parent = oid_hex(c.parents_n ? &c.parents[0] : &parent);
	if (c.author) {
		const char *gt = strrchr(c.author, '>');
		size_t len = gt ? (size_t)(gt - c.author) + 1 : 0;

		len = MIN_OF(len, sizeof(n->author) - 1);
		memcpy(n->author, c.author, len);
		n->author[len] = '\0';
	}
	commit_info_done(&c);
	return 0;
}

int notes_read(struct notes *ret, const struct repo *r, const struct story *s,
	const struct story_landing *l, struct err *e)
{
	cleanup_notes struct notes n = {.left_out = STRLIST_INIT(NOTES_FILES_MAX)};
	cleanup_buf struct buf list = BUF_INIT(PATCH_MAX_B), patch = BUF_INIT(PATCH_MAX_B);
	struct entries x = {.n = &n};
	struct oid_hex parent, commit;
	int rc;

	if (!l->commit || !oid_parse(&n.commit, l->commit, strlen(l->commit)))
		return err_invalid(e, "notes are about commits, and this environment landed none; "
				      "land it with croft apply --commit or --squash");
	commit = oid_hex(&n.commit);
	rc = commit_facts(r, &n, &parent, e);
	if (rc == 0)
		rc = ask(r, parent.s, commit.s, "--raw", &list, e);
	if (rc == 0)
		rc = take_list(&x, &list, e);
	if (rc == 0)
		rc = ask(r, parent.s, commit.s, "-p", &patch, e);
	if (rc == 0)
		rc = notes_parse(&n, buf_str(&patch), patch.len, x.twice, e);
	free(x.twice);
	if (rc < 0)
		return err_wrap(e, "read what commit %.12s changed", l->commit);
	mark_edited(&n, s, l);
	*ret = n;
	n = (struct notes){0};
	return 0;
}

/* ------------------------------------------------------------------ Agent Trace */

/* A UUID (version 8: made by us, here from the envelope) that is the same for the same landing. */
static void uuid_of(const char *hex, char ret[37])
{
	static const char form[] = "xxxxxxxx-xxxx-8xxx-axxx-xxxxxxxxxxxx";
	size_t at = 0;

	for (size_t i = 0; i < sizeof(form); i++)
		ret[i] = form[i] == 'x' ? hex[at++] : form[i];
}

static void trace_file(struct json *j, const struct notes_file *f, const char *model)
{
	json_object(j, NULL);
	json_str(j, "path", f->path);
	json_array(j, "conversations");
	json_object(j, NULL);
	json_object(j, "contributor");
	json_str(j, "type", f->mixed ? "mixed" : "ai");
	if (model && *model)
		json_str(j, "model_id", model);
	json_end(j);
	json_array(j, "ranges");
	for (size_t i = 0; i < f->ranges_n; i++) {
		json_object(j, NULL);
		json_uint(j, "start_line", f->ranges[i].first);
		json_uint(j, "end_line", f->ranges[i].last);
		json_end(j);
	}
	json_end(j);
	json_end(j);
	json_end(j);
	json_end(j);
}

void notes_agent_trace(const struct notes *n, const struct story *s, const struct story_landing *l,
	const char *version, struct buf *out)
{
	char uuid[37];
	struct json j;

	uuid_of(l->entry->envelope.hex, uuid);
	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "version", "0.1.0");
	json_str(&j, "id", uuid);
	json_str(&j, "timestamp", l->entry->time);
	json_object(&j, "vcs");
	json_str(&j, "type", "git");
	json_str(&j, "revision", oid_hex(&n->commit).s);
	json_end(&j);
	json_object(&j, "tool");
	json_str(&j, "name", s->agent && *s->agent ? s->agent : "croft");
	if (!s->agent || !*s->agent)
		json_str(&j, "version", version);
	json_end(&j);
	json_array(&j, "files");
	for (size_t i = 0; i < n->files_n; i++)
		if (n->files[i].ranges_n && utf8_valid(n->files[i].path, strlen(n->files[i].path)))
			trace_file(&j, &n->files[i], s->model);
	json_end(&j);
	json_object(&j, "metadata");
	json_object(&j, "dev.croft");
	json_str(&j, "env", l->entry->env_id);
	json_str(&j, "evidence", l->entry->envelope.hex);
	json_str(&j, "version", version);
	json_end(&j);
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}
