/* SPDX-License-Identifier: Apache-2.0 */
/* A ledger that tells a whole story: created, tested, reviewed, landed. */
#ifndef CROFT_TESTS_UNIT_EXPORT_WORLD_H
#define CROFT_TESTS_UNIT_EXPORT_WORLD_H

#include "base/buf.h"
#include "ledger_world.h"

#define TREE_A "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#define TREE_B "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* Text that would like to be markup, everywhere a sandbox can put text. */
#define HOSTILE "<script>alert(1)</script>|`x`[a](http://e)\\n\\u202e**b**"

/* A receipt's text: tier, exit code and one denial or none. */
static inline void world_receipt(
	struct buf *out, const struct world *w, const char *tier, int code, const char *denied)
{
	buf_addf(out,
		"{\"schema\":\"croft.receipt/v1\",\"id\":\"00112233aa\",\"command\":[\"make\","
		"\"check it\"],\"cwd\":\"%s\",\"workspace\":\"%s\",\"policy\":{\"digest\":\"d\"},"
		"\"tier\":\"%s\",\"mode\":\"staged\",\"degradations\":[],\"exit\":{\"code\":%d,"
		"\"signal\":null,\"timed_out\":false},\"usage\":{\"wall_ms\":1234.567},"
		"\"network\":{\"hosts\":[{\"host\":\"a.example\",\"port\":443,\"connections\":2,"
		"\"requests\":3,\"up_b\":4,\"down_b\":5}]},\"denials\":[",
		w->dir, w->dir, tier, code);
	if (denied)
		buf_addf(out,
			"{\"id\":\"00112233aa.1\",\"path\":\"%s\",\"operation\":\"read\",\"rule\":"
			"\"floor\",\"allow_with\":\"--read %s\",\"seen_by\":\"decoy\",\"count\":2}",
			denied, denied);
	buf_adds(out, "],\"denials_beyond_limit\":0}");
}

static inline bool world_append(struct world *w, enum event_kind kind, const char *type,
	const char *predicate, const char *tree, const char *file, const char *text)
{
	struct ledger_event ev = world_event(kind, "", (long)w->tip.seq);

	if (w->env_id)
		ev.env_id = w->env_id;
	ev.predicate_type = type;
	ev.predicate = predicate;
	ev.subjects[0].value = tree;
	ev.files_n = 0;
	if (file)
		ev.files[ev.files_n++] = (struct ledger_file){file, text, strlen(text)};
	if (ledger_append(&w->repo, &w->key, &ev, &w->tip, &w->e) == 0)
		return true;
	printf("# %s\n", w->e.msg);
	return false;
}

static inline bool world_created(struct world *w)
{
	return world_append(w, EVENT_CREATED, PREDICATE_EVENT,
		"\"base\":{\"gitTree\":\"" TREE_A "\"},\"agent\":{\"name\":\"bot\",\"model\":"
		"\"m-1\"},\"task\":\"do it\\n" HOSTILE "\"",
		TREE_A, NULL, NULL);
}

/* A command; test: NULL, "PASSED" or "FAILED". */
static inline bool world_exec(
	struct world *w, const char *tree, const char *test, const char *tier, const char *denied)
{
	cleanup_buf struct buf receipt = BUF_INIT(65536), p = BUF_INIT(65536);

	world_receipt(&receipt, w, tier, test && strcmp(test, "FAILED") == 0 ? 1 : 0, denied);
	buf_addf(&p, "\"treeAfter\":\"%s\"", tree);
	if (test)
		buf_addf(&p, ",\"result\":\"%s\"", test);
	return world_append(w, EVENT_EXEC, test ? PREDICATE_TEST : PREDICATE_TRACE, buf_str(&p),
		tree, "receipt.json", buf_str(&receipt));
}

static inline bool world_reviewed(struct world *w, const char *tree, const char *result)
{
	cleanup_buf struct buf p = BUF_INIT(65536);

	buf_addf(&p,
		"\"verificationResult\":\"%s\",\"treeShown\":\"%s\",\"treeAccepted\":\"%s\","
		"\"decisions\":[{\"path\":\"b\",\"decision\":\"edited\",\"comment\":\"" HOSTILE
		"\"}]",
		result, tree, tree);
	return world_append(w, EVENT_REVIEWED, PREDICATE_VSA, buf_str(&p), tree, NULL, NULL);
}

/* commit, onto, patch may be NULL; lines: paths.jsonl. */
static inline bool world_landed(struct world *w, const char *tree, const char *commit,
	const char *onto, const char *patch, const char *accepted, bool reviewed, const char *lines)
{
	cleanup_buf struct buf p = BUF_INIT(65536);

	buf_addf(&p,
		"\"landing\":{\"how\":\"squash\",\"start\":\"" TREE_A
		"\",\"accepted\":\"%s\",\"tree\":\"%s\",\"reviewed\":%s",
		accepted, tree, reviewed ? "true" : "false");
	if (commit)
		buf_addf(&p, ",\"commit\":\"%s\"", commit);
	if (onto)
		buf_addf(&p, ",\"onto\":\"%s\"", onto);
	if (patch)
		buf_addf(&p, ",\"patchId\":\"%s\"", patch);
	buf_addc(&p, '}');
	return world_append(w, EVENT_APPLIED, PREDICATE_PROVENANCE, buf_str(&p), tree,
		lines ? "paths.jsonl" : NULL, lines);
}

/* What a shell text prints, without the final newline; "?" when it fails. Freed by the caller. */
static inline char *world_ask(const struct world *w, const char *script)
{
	cleanup_buf struct buf cmd = BUF_INIT(65536), out = BUF_INIT(1u << 20);
	cleanup_fd int fd = -1;
	char path[128], chunk[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/answer", w->top);
	buf_addf(&cmd, "cd repo && ( %s ) > '%s' 2>&1", script, path);
	if (world_sh(w, buf_str(&cmd)) != 0)
		return strdup("?");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(&out, chunk, (size_t)n);
	while (out.len && out.data[out.len - 1] == '\n')
		out.data[--out.len] = '\0';
	return out.data ? buf_take(&out) : strdup("");
}

#endif
