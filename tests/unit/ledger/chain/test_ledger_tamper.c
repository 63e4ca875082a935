/* SPDX-License-Identifier: Apache-2.0 */
/*
 * L1: every way to change a ledger after the fact, by somebody who may write all of the repository and
 * knows Git well. Each is applied to a ledger that is good before; the first bad event must be named.
 */
#include "test.h"

#include "ledger_world.h"

#define EVENTS 4

/* A history that is put together anew: which events, and what is changed about each. */
struct forged {
	int from[8]; /* numbers of the true events, 0: the end */
	int at;      /* the one (counted here, from 1) that is changed … */
	void (*change)(
		struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit);
	struct oid tip;
};

static struct git_store store_of(struct world *w)
{
	struct git_store s = {.objects_fd = -1};

	if (repo_ledger_store(&w->repo, &s, &w->e) < 0)
		printf("# %s\n", w->e.msg);
	s.sync = false;
	return s;
}

static struct oid put(struct world *w, enum git_type t, const void *p, size_t n)
{
	struct git_store s = store_of(w);
	struct oid o = {0};

	git_write(&s, t, p, n, &o, &w->e);
	close(s.objects_fd);
	return o;
}

/* raw tree with one entry's blob replaced, left out (o NULL), or a new one added. */
static void retree(
	struct world *w, struct buf *tree, const char *name, const struct oid *o, bool add)
{
	struct ledger_blob v[8];
	static char names[8][64];
	struct tree_entry t;
	size_t at = 0, n = 0;

	while (git_tree_next(tree->data, tree->len, w->repo.hash, &at, &t) > 0) {
		bool it = t.name_n == strlen(name) && memcmp(t.name, name, t.name_n) == 0;

		if (it && !o)
			continue;
		snprintf(names[n], sizeof(names[n]), "%.*s", (int)t.name_n, t.name);
		v[n] = (struct ledger_blob){names[n], it ? *o : t.oid};
		n++;
	}
	if (add)
		v[n++] = (struct ledger_blob){name, *o};
	buf_reset(tree);
	ledger_tree_text(v, n, tree);
}

static void reseal(struct world *w, struct buf *tree, const struct buf *envelope)
{
	struct oid o = put(w, GIT_BLOB, envelope->data, envelope->len);

	retree(w, tree, LEDGER_STATEMENT, &o, false);
}

/* Replace text of the same length or not; false: it is not there. */
static bool swap(struct buf *b, const char *was, const char *is)
{
	cleanup_buf struct buf out = BUF_INIT(b->max);
	char *at = memmem(b->data, b->len, was, strlen(was));

	if (!at)
		return false;
	buf_add(&out, b->data, (size_t)(at - b->data));
	buf_adds(&out, is);
	buf_adds(&out, at + strlen(was));
	buf_reset(b);
	buf_add(b, out.data, out.len);
	return true;
}

/* One event again, after `parent`, changed or not; its new commit. */
static struct oid again(struct world *w, struct forged *f, int i, const struct oid *true_commit,
	const struct oid *parent)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	cleanup_buf struct buf tree = BUF_INIT(65536);
	cleanup_buf struct buf commit = BUF_INIT(65536);
	struct timespec t = {0};
	struct oid o;

	if (entry_source_open(&s, &w->repo, &w->e) < 0 ||
		entry_load(&s, true_commit, &raw, &x, &w->e) < 0)
		printf("# %s\n", w->e.msg);
	buf_add(&tree, raw.tree.data, raw.tree.len);
	if (f->at == i && f->change)
		f->change(w, &raw, &tree, NULL);
	o = put(w, GIT_TREE, tree.data, tree.len);
	ledger_time_parse(x.time, &t);
	ledger_commit_text(&o, parent, t.tv_sec, jstr(jget(entry_croft(&x), "title")), &commit);
	if (f->at == i && f->change)
		f->change(w, &raw, NULL, &commit);
	return put(w, GIT_COMMIT, commit.data, commit.len);
}

static void forge(struct world *w, struct forged *f)
{
	cleanup_free struct oid *v = NULL;
	struct oid parent = {0};
	size_t n = 0;

	if (ledger_commits(&w->repo, &w->tip.commit, &v, &n, &w->e) < 0)
		printf("# %s\n", w->e.msg);
	for (int i = 0; f->from[i]; i++)
		parent = again(w, f, i + 1, &v[f->from[i] - 1], &parent);
	f->tip = parent;
}

static bool caught(struct world *w, struct forged f, unsigned seq, const char *why)
{
	struct ledger_verdict v;

	forge(w, &f);
	v = world_verify(w, &f.tip);
	return !v.good && v.bad_seq == seq && v.events == seq - 1 && strstr(v.why, why) &&
	       !oid_is_none(&v.bad_commit);
}
#define CAUGHT(seq, why, ...) CHECK(caught(&w, (struct forged){__VA_ARGS__}, seq, why))
#define ALL .from = {1, 2, 3, 4}

static void edit_output(
	struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	struct oid o;

	if (!tree)
		return;
	o = put(w, GIT_BLOB, "tests passed\n", 13);
	retree(w, tree, "output", &o, false);
}

static void add_file(struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	struct oid o;

	if (!tree)
		return;
	o = put(w, GIT_BLOB, "more", 4);
	retree(w, tree, "approval.json", &o, true);
}

static void drop_file(struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	if (tree)
		retree(w, tree, "output", NULL, false);
}

static void back_date(struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	if (commit)
		swap(commit, "author croft <croft@localhost> 17",
			"author croft <croft@localhost> 16");
}

static void retitle(struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	if (commit)
		swap(commit, "an event", "approved");
}

static void second_parent(
	struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	char line[128];

	if (!commit)
		return;
	snprintf(line, sizeof(line), "parent %s\nauthor", oid_hex(&w->tip.commit).s);
	swap(commit, "author", line);
}

static void other_header(
	struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	if (commit)
		swap(commit, "+0000\n\n", "+0000\nencoding x\n\n");
}

/* The payload is changed and the old signature kept. */
static void edit_statement(
	struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	cleanup_buf struct buf envelope = BUF_INIT(1u << 20);

	if (!tree)
		return;
	swap(&raw->dsse.payload, "\"plain\"", "\"plane\"");
	dsse_write_signed(raw->dsse.type, raw->dsse.payload.data, raw->dsse.payload.len,
		raw->dsse.signatures[0].keyid, raw->dsse.signatures[0].sig, &envelope);
	reseal(w, tree, &envelope);
}

/* What somebody with the key could sign, and still is no event of this ledger. */
static void sign_other(
	struct world *w, struct entry_raw *raw, struct buf *tree, const char *was, const char *is)
{
	cleanup_buf struct buf envelope = BUF_INIT(1u << 20);

	if (!tree)
		return;
	if (!swap(&raw->dsse.payload, was, is))
		printf("# no %s in the statement\n", was);
	dsse_write(
		&w->key, raw->dsse.type, raw->dsse.payload.data, raw->dsse.payload.len, &envelope);
	reseal(w, tree, &envelope);
}

#define SIGNED_CHANGE(name, was, is)                                                               \
	static void name(                                                                          \
		struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)      \
	{                                                                                          \
		sign_other(w, raw, tree, was, is);                                                 \
	}
SIGNED_CHANGE(newer_schema, LEDGER_SCHEMA, "croft.ledger/v9")
SIGNED_CHANGE(later_schema, LEDGER_SCHEMA, LEDGER_SCHEMA_2)
SIGNED_CHANGE(session_as_before, "\"kind\":\"exec\"", "\"kind\":\"session\"")
SIGNED_CHANGE(foreign_schema, LEDGER_SCHEMA, "elsewhere")
SIGNED_CHANGE(other_env, WORLD_ENV, "fedcba9876543210")
SIGNED_CHANGE(earlier, "\"time\":\"2025-10-09", "\"time\":\"2025-10-08")
SIGNED_CHANGE(twice, "\"note\":", "\"note\":1,\"note\":")
SIGNED_CHANGE(other_number, "\"seq\":3", "\"seq\":7")
SIGNED_CHANGE(no_files, "\"files\":[\"receipt.json\",\"output\"]", "\"files\":[\"receipt.json\"]")
SIGNED_CHANGE(odd_file, "\"files\":[\"receipt.json\",", "\"files\":[\"../x\",\"receipt.json\",")
SIGNED_CHANGE(no_subject, "{\"name\":\"output\"", "{\"name\":\"outpux\"")
SIGNED_CHANGE(known_kind, "\"kind\":\"exec\"", "\"kind\":\"created\"")
SIGNED_CHANGE(other_type, "https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1")
SIGNED_CHANGE(no_time, "\"time\":\"2025-", "\"time\":\"2025 ")

static void respell(struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	if (!tree)
		return;
	swap(&raw->envelope, "\"payload\":", "\"payload\": ");
	reseal(w, tree, &raw->envelope);
}

static void other_key(struct world *w, struct entry_raw *raw, struct buf *tree, struct buf *commit)
{
	cleanup_buf struct buf envelope = BUF_INIT(1u << 20);
	struct ledger_key k;
	char dir[128];

	if (!tree)
		return;
	snprintf(dir, sizeof(dir), "%s/other", w->top);
	ledger_key_load(&k, dir, &w->e);
	dsse_write(&k, raw->dsse.type, raw->dsse.payload.data, raw->dsse.payload.len, &envelope);
	/* … and says it is the right one */
	if (raw->parents_n == 0)
		swap(&envelope, k.id.hex, w->key.id.hex);
	reseal(w, tree, &envelope);
}

TEST(control)
{
	struct forged f = {ALL};

	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	forge(&w, &f);
	CHECK(oid_eq(&f.tip, &w.tip.commit)); /* what is not changed comes out the same */
	CHECK(world_verify(&w, &f.tip).good);
}

TEST(edited)
{
	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CAUGHT(2, "file output is not the one that was signed", ALL, .at = 2,
		.change = edit_output);
	CAUGHT(1, "file output is not the one", ALL, .at = 1, .change = edit_output);
	CAUGHT(4, "file output is not the one", ALL, .at = 4, .change = edit_output);
	CAUGHT(3, "signature does not match", ALL, .at = 3, .change = edit_statement);
	CAUGHT(3, "approval.json is there and was not signed", ALL, .at = 3, .change = add_file);
	CAUGHT(3, "file output is missing", ALL, .at = 3, .change = drop_file);
	CAUGHT(4, "not written as croft", ALL, .at = 4, .change = respell);
}

TEST(dropped_and_reordered)
{
	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CAUGHT(2, "number 3 where 2", .from = {1, 3, 4});
	CAUGHT(2, "number 3 where 2", .from = {1, 3, 2, 4});
	CAUGHT(3, "number 2 where 3", .from = {1, 2, 2, 3});
	CAUGHT(1, "number 2 where 1", .from = {2, 3, 4});
}

TEST(back_dated_and_dressed_up)
{
	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CAUGHT(3, "its commit (date", ALL, .at = 3, .change = back_date);
	CAUGHT(2, "its commit (date", ALL, .at = 2, .change = retitle);
	CAUGHT(2, "2 parents", ALL, .at = 2, .change = second_parent);
	CAUGHT(5, "number 1 where 5", ALL, .at = 1,
		.change = second_parent); /* a history before it */
	CAUGHT(4, "its commit (date", ALL, .at = 4, .change = other_header);
}

TEST(signed_but_wrong)
{
	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CAUGHT(3, "of another version of croft", ALL, .at = 3, .change = newer_schema);
	CAUGHT(3, "none of croft's", ALL, .at = 3, .change = foreign_schema);
	CAUGHT(3, "its schema is not the one", ALL, .at = 3, .change = later_schema);
	CAUGHT(3, "its schema is not the one", ALL, .at = 3, .change = session_as_before);
	CAUGHT(3, "another environment", ALL, .at = 3, .change = other_env);
	CAUGHT(3, "is before that of the event before", ALL, .at = 3, .change = earlier);
	CAUGHT(3, "cannot be read", ALL, .at = 3, .change = twice);
	CAUGHT(3, "number 7 where 3", ALL, .at = 3, .change = other_number);
	CAUGHT(3, "output is there and was not signed", ALL, .at = 3, .change = no_files);
	CAUGHT(3, "file ../x has a name", ALL, .at = 3, .change = odd_file);
	CAUGHT(3, "file output has no digest", ALL, .at = 3, .change = no_subject);
	CAUGHT(3, "nowhere else", ALL, .at = 3, .change = known_kind);
	CAUGHT(3, "not an in-toto statement", ALL, .at = 3, .change = other_type);
	CAUGHT(3, "its time", ALL, .at = 3, .change = no_time);
	/* Even when all else is right, the next one says what was before. */
	CAUGHT(2, "file output is not the one", ALL, .at = 2, .change = edit_output);
}

SIGNED_CHANGE(small_lie, "\"plain\"", "\"plane\"")

TEST(history_rewritten_with_the_key)
{
	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CAUGHT(3, "does not follow the event before it", ALL, .at = 2, .change = small_lie);
}

TEST(other_keys)
{
	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CAUGHT(3, "signed with another key than the first", ALL, .at = 3, .change = other_key);
	CAUGHT(1, "signature does not match", ALL, .at = 1, .change = other_key);
}

/* ---- on the disk ---- */

static void object_path(const struct world *w, const struct oid *o, char ret[256])
{
	snprintf(ret, 256, "%s/.git/objects/%.2s/%s", w->dir, oid_hex(o).s, oid_hex(o).s + 2);
}

TEST(cut_off)
{
	cleanup_free struct oid *v = NULL;
	struct ledger_verdict d;
	char path[256];
	size_t n;

	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CHECK_INT(ledger_commits(&w.repo, &w.tip.commit, &v, &n, &w.e), 0);
	CHECK_INT(n, EVENTS);
	object_path(&w, &v[1], path);
	CHECK(unlink(path) == 0);
	d = world_verify(&w, &w.tip.commit);
	CHECK(!d.good && d.bad_seq == 2 && oid_eq(&d.bad_commit, &v[1]));
	CHECK(strstr(d.why, "cut off"));
	CHECK(ledger_commits(&w.repo, &w.tip.commit, &v, &n, &w.e) < 0);
	object_path(&w, &v[3], path);
	CHECK(unlink(path) == 0);
	w.e = ERR_INIT;
	CHECK_INT(ledger_verify(&w.repo, &w.tip.commit, NULL, &d, &w.e), -ENOENT);
}

/* Bytes all over the commit, the tree and the envelope of one event, about forty of each. */
TEST(one_byte)
{
	cleanup_free struct oid *v = NULL;
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	struct oid objects[3];
	size_t n;

	WORLD(w, "");
	CHECK(world_fill(&w, EVENTS));
	CHECK_INT(ledger_commits(&w.repo, &w.tip.commit, &v, &n, &w.e), 0);
	CHECK_INT(entry_source_open(&s, &w.repo, &w.e), 0);
	CHECK_INT(entry_load(&s, &v[2], &raw, &x, &w.e), 0);
	objects[0] = v[2];
	objects[1] = x.tree;
	objects[2] = raw.statement;
	for (size_t i = 0; i < 3; i++) {
		cleanup_fd int fd = -1;
		struct stat st;
		char path[256];

		object_path(&w, &objects[i], path);
		CHECK(chmod(path, 0600) == 0);
		fd = open(path, O_RDWR | O_CLOEXEC);
		CHECK(fd >= 0 && fstat(fd, &st) == 0);
		/* A sample. zlib's own head and sum are left out: they say nothing of the event. */
		for (off_t at = 2 + 5; at < st.st_size - 4; at += 1 + st.st_size / 40) {
			struct ledger_verdict d;
			char c;

			CHECK(pread(fd, &c, 1, at) == 1);
			c ^= 1;
			CHECK(pwrite(fd, &c, 1, at) == 1);
			CHECK_INT(ledger_verify(&w.repo, &w.tip.commit, w.key.public, &d, &w.e), 0);
			CHECK(!d.good && d.bad_seq == 3);
			c ^= 1;
			CHECK(pwrite(fd, &c, 1, at) == 1);
		}
		CHECK(world_verify(&w, &w.tip.commit).good);
	}
}

/* Not a ledger at all. */
TEST(other_histories)
{
	struct ledger_verdict v;
	struct ledger_tip tip;
	struct oid o;

	WORLD(w, "");
	CHECK_INT(world_sh(&w, "cd repo && git -c user.name=a -c user.email=a@b commit -q "
			       "--allow-empty -m x && git update-ref " WORLD_REF " HEAD"),
		0);
	CHECK_INT(ref_read(&w.repo, WORLD_REF, &o, &w.e), 0);
	v = world_verify(&w, &o);
	CHECK(!v.good && v.bad_seq == 1);
	CHECK(ledger_tip(&tip, &w.repo, WORLD_ENV, &w.e) < 0);
}
