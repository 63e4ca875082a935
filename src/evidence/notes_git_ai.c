/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes as Git AI writes them: see notes.h.
 *
 * A note has lines "path" and "  key ranges", a line "---", and a JSON object. A commit has at most one,
 * so what is there already stays, byte for byte, and our session is put beside it: our lines into the
 * sections of their files, our entry into `sessions`.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "evidence/notes.h"
#include "git/program.h"

#define KEY_HEX 14
#define KEY_MAX (2 + KEY_HEX + 2 + 2 + KEY_HEX + 1)

struct key {
	char session[2 + KEY_HEX + 1]; /* "s_…" */
	char all[KEY_MAX];             /* "s_…::t_…" */
};

static const char *tool_of(const struct story *s)
{
	return s->agent && *s->agent ? s->agent : "croft";
}

static void key_of(const struct story *s, const struct story_landing *l, struct key *ret)
{
	cleanup_buf struct buf b = BUF_INIT(64u << 10);
	struct digest d;

	buf_addf(&b, "%.1024s:%s", tool_of(s), l->entry->env_id);
	digest_sha256(&d, buf_str(&b), b.len);
	snprintf(ret->session, sizeof(ret->session), "s_%.*s", KEY_HEX, d.hex);
	snprintf(ret->all, sizeof(ret->all), "%s::t_%.*s", ret->session, KEY_HEX,
		l->entry->envelope.hex);
}

/* ------------------------------------------------------------------ attestations */

/* As the format has it: quoted with blanks in it, and not at all with quotes or line ends. */
static bool path_line(const char *path, struct buf *out)
{
	if (strpbrk(path, "\"\n\r") || !utf8_valid(path, strlen(path)) || str_eq(path, "---"))
		return false;
	if (strpbrk(path, " \t"))
		buf_addf(out, "\"%s\"", path);
	else
		buf_adds(out, path);
	return true;
}

static void ranges_line(const struct notes_file *f, const char *key, struct buf *out)
{
	buf_addf(out, "  %s ", key);
	for (size_t i = 0; i < f->ranges_n; i++) {
		const struct notes_range *r = &f->ranges[i];

		buf_addf(out, "%s%" PRIu64, i ? "," : "", r->first);
		if (r->last > r->first)
			buf_addf(out, "-%" PRIu64, r->last);
	}
	buf_addc(out, '\n');
}

/* The file whose line this is, or NULL. */
static struct notes_file *file_of_line(struct notes *n, const char *p, size_t len)
{
	for (size_t i = 0; i < n->files_n; i++) {
		cleanup_buf struct buf b = BUF_INIT(16384);

		if (path_line(n->files[i].path, &b) && b.len == len &&
			memcmp(buf_str(&b), p, len) == 0)
			return &n->files[i];
	}
	return NULL;
}

/* Sections of `old` (up to `end`) with ours added; done[i] says which files were there. */
static void merge_sections(struct notes *n, const char *old, const char *end, const char *key,
	bool *done, struct buf *out)
{
	struct notes_file *open = NULL;

	for (const char *p = old; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = nl ? (size_t)(nl - p) : (size_t)(end - p);

		if (len && p[0] != ' ') {
			if (open && open->ranges_n)
				ranges_line(open, key, out);
			open = file_of_line(n, p, len);
			if (open)
				done[open - n->files] = true;
		}
		buf_add(out, p, len);
		buf_addc(out, '\n');
		p += len + 1;
	}
	if (open && open->ranges_n)
		ranges_line(open, key, out);
}

static int attestations(struct notes *n, const char *old, const char *end, const char *key,
	struct buf *out, struct err *e)
{
	cleanup_free bool *done = calloc(n->files_n + 1, sizeof(*done));

	if (!done)
		return err_set(e, ENOMEM, "write a note");
	if (old)
		merge_sections(n, old, end, key, done, out);
	for (size_t i = 0; i < n->files_n; i++) {
		if (done[i] || !n->files[i].ranges_n)
			continue;
		if (!path_line(n->files[i].path, out)) {
			strlist_add(&n->left_out, n->files[i].path);
			continue;
		}
		buf_addc(out, '\n');
		ranges_line(&n->files[i], key, out);
	}
	return 0;
}

/* ------------------------------------------------------------------ metadata */

static void session_members(
	struct json *j, const struct notes *n, const struct story *s, const struct story_landing *l)
{
	json_object(j, "agent_id");
	json_str(j, "tool", tool_of(s));
	json_str(j, "id", l->entry->env_id);
	json_str(j, "model", s->model && *s->model ? s->model : "unknown");
	json_end(j);
	json_str(j, "human_author", n->author);
	json_object(j, "custom_attributes");
	json_str(j, "croft_env", l->entry->env_id);
	json_str(j, "croft_evidence", l->entry->envelope.hex);
	if (s->policy)
		json_str(j, "croft_policy", s->policy);
	json_end(j);
}

static void fresh_metadata(const struct notes *n, const struct story *s,
	const struct story_landing *l, const struct key *k, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema_version", "authorship/3.0.0");
	json_str(&j, "base_commit_sha", oid_hex(&n->commit).s);
	json_object(&j, "prompts");
	json_end(&j);
	json_object(&j, "sessions");
	json_object(&j, k->session);
	session_members(&j, n, s, l);
	json_end(&j);
	json_end(&j);
	json_object(&j, "humans");
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}

/* Past a string that begins at p; the text was parsed before, so it ends. */
static const char *past_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : end;
}

/*
 * Where the object of a top-level key begins (just after its brace); NULL when there is no such key. The
 * text is one JSON object that was parsed before.
 */
static const char *object_of(const char *text, const char *end, const char *key)
{
	int depth = 0;
	size_t n = strlen(key);

	for (const char *p = text; p < end;) {
		const char *after;

		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		if (*p != '"') {
			p++;
			continue;
		}
		after = past_string(p, end);
		if (depth == 1 && (size_t)(after - p) == n + 2 && memcmp(p + 1, key, n) == 0) {
			const char *q = after + strspn(after, " \t\r\n");

			if (q < end && *q == ':') {
				q++;
				q += strspn(q, " \t\r\n");
				return q < end && *q == '{' ? q + 1 : NULL;
			}
		}
		p = after;
	}
	return NULL;
}

static int merged_metadata(const struct notes *n, const struct story *s,
	const struct story_landing *l, const struct key *k, const char *json, struct buf *out,
	struct err *e)
{
	cleanup_buf struct buf ours = BUF_INIT(1u << 20);
	cleanup_jdoc struct jdoc *doc = NULL;
	const char *end = json + strlen(json), *at;
	const struct jnode *sessions;
	struct json j;

	if (jdoc_parse(&doc, json, strlen(json), e) < 0 || jtype(jdoc_root(doc)) != JOBJECT)
		return err_invalid(e, "the commit has a note in refs/notes/ai that is not Git "
				      "AI's; it was left as it is");
	sessions = jget(jdoc_root(doc), "sessions");
	if (sessions && jtype(sessions) != JOBJECT)
		return err_invalid(e, "the commit's note in refs/notes/ai has sessions of another "
				      "form; it was left as it is");
	json_init(&j, &ours, false);
	json_object(&j, NULL);
	session_members(&j, n, s, l);
	json_end(&j);
	at = sessions ? object_of(json, end, "sessions") : strchr(json, '{') + 1;
	if (!at)
		return err_invalid(e, "the commit's note in refs/notes/ai could not be extended");
	buf_add(out, json, (size_t)(at - json));
	if (sessions)
		buf_addf(out, "\"%s\":%s%s", k->session, buf_str(&ours), jlen(sessions) ? "," : "");
	else
		buf_addf(out, "\"sessions\":{\"%s\":%s}%s", k->session, buf_str(&ours),
			jlen(jdoc_root(doc)) ? "," : "");
	buf_add(out, at, (size_t)(end - at));
	return 0;
}

/* ------------------------------------------------------------------ the note */

/* Where the line "---" begins; NULL: there is none. */
static const char *divider(const char *note)
{
	for (const char *p = note; p;) {
		if (strncmp(p, "---", 3) == 0 && (p[3] == '\n' || !p[3]))
			return p;
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return NULL;
}

int notes_git_ai(struct notes *n, const struct story *s, const struct story_landing *l,
	const char *old, struct buf *out, struct err *e)
{
	const char *line = old ? divider(old) : NULL;
	struct key k;
	int r;

	key_of(s, l, &k);
	if (old && strstr(old, k.all))
		return 1;
	if (old && !line)
		return err_invalid(e, "the commit has a note in refs/notes/ai that is not Git "
				      "AI's; it was left as it is");
	r = attestations(n, old, line, k.all, out, e);
	if (r < 0)
		return r;
	buf_adds(out, "---\n");
	if (!old)
		fresh_metadata(n, s, l, &k, out);
	else
		r = merged_metadata(n, s, l, &k, line + 3, out, e);
	if (r == 0 && out->failed)
		r = err_set(e, EFBIG, "write a note");
	return r;
}

int notes_git_ai_write(struct notes *n, const struct repo *r, const struct story *s,
	const struct story_landing *l, struct err *e)
{
	struct oid_hex commit = oid_hex(&n->commit);
	const char *show[] = {"notes", "--ref=ai", "show", commit.s, NULL};
	const char *add[] = {"notes", "--ref=ai", "add", "-f", "-F", "-", commit.s, NULL};
	const char *list[] = {"notes", "--ref=ai", "list", commit.s, NULL};
	cleanup_buf struct buf old = BUF_INIT(NOTES_MAX_B), text = BUF_INIT(NOTES_MAX_B);
	struct git_run run = {.argv = list, .any_status = true};
	bool has;
	int x;

	if (!r->git_dir)
		return err_invalid(e, "notes need a Git repository, and %s is none", r->workspace);
	x = repo_git(r, &run, e);
	if (x < 0)
		return x;
	has = run.status == 0;
	if (has) {
		run = (struct git_run){.argv = show, .out = &old};
		x = repo_git(r, &run, e);
	}
	if (x == 0)
		x = notes_git_ai(n, s, l, has ? buf_str(&old) : NULL, &text, e);
	if (x != 0)
		return x;
	run = (struct git_run){.argv = add, .in = buf_str(&text), .in_n = text.len};
	return repo_git(r, &run, e);
}
