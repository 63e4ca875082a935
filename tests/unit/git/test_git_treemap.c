/* SPDX-License-Identifier: Apache-2.0 */
/* git/treemap: what git has is found; edited trees have exactly the names that git gives them. */
#include "test.h"

#include <errno.h>

#include "git/treemap.h"
#include "git_world.h"
#include "os/clock.h"

#define MODEL_MAX 400
#define EDITS_MAX 24
#define ROUNDS 25

struct item {
	char path[64];
	unsigned mode;
	struct oid oid;
};

struct model {
	struct item v[MODEL_MAX];
	size_t n;
};

static uint32_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* Few names, chosen so that files and directories sort next to and around each other. */
static void random_path(char ret[64])
{
	static const char *const names[] = {
		"a", "a-b", "a.b", "a0", "ab", "b", "a b", "\xff\xfe", "A"};
	int depth = 1 + (int)dice(4);

	ret[0] = '\0';
	for (int i = 0; i < depth; i++) {
		size_t n = strlen(ret);

		snprintf(ret + n, 64 - n, "%s%s", i ? "/" : "", names[dice(ARRAY_SIZE(names))]);
	}
}

static bool is_below(const char *path, const char *dir)
{
	return str_starts(path, dir) && path[strlen(dir)] == '/';
}

static void model_remove(struct model *m, const char *path)
{
	for (size_t i = 0; i < m->n;)
		if (str_eq(m->v[i].path, path) || is_below(m->v[i].path, path))
			m->v[i] = m->v[--m->n];
		else
			i++;
}

static void model_set(struct model *m, const struct tree_edit *t)
{
	model_remove(m, t->path);
	for (size_t i = 0; i < m->n;)
		if (is_below(t->path, m->v[i].path))
			m->v[i] = m->v[--m->n];
		else
			i++;
	snprintf(m->v[m->n].path, sizeof(m->v[0].path), "%s", t->path);
	m->v[m->n].mode = t->mode;
	m->v[m->n++].oid = t->oid;
}

/* Paths that are put there may not be above each other. */
static size_t random_edits(
	struct tree_edit *v, char paths[][64], enum git_hash h, const struct model *m)
{
	static const unsigned modes[] = {0100644, 0100755, 0120000, 0160000};
	size_t n = dice(EDITS_MAX), k = 0;

	for (size_t i = 0; i < n; i++) {
		bool clash = false;
		char byte = (char)dice(100);

		random_path(paths[k]);
		if (m->n && dice(3) == 0)
			memcpy(paths[k], m->v[dice((uint32_t)m->n)].path, 64);
		v[k] = (struct tree_edit){.path = paths[k], .mode = dice(5) ? modes[dice(4)] : 0};
		oid_of(&v[k].oid, h, GIT_BLOB, &byte, 1);
		for (size_t j = 0; j < k && v[k].mode; j++)
			clash |= v[j].mode && (is_below(v[k].path, v[j].path) ||
						      is_below(v[j].path, v[k].path) ||
						      str_eq(v[k].path, v[j].path));
		k += !clash;
	}
	return k;
}

/* The name that git gives to the tree of a model; in its own index, from nothing. */
static bool ask_git(const struct world *w, const struct model *m, struct oid *ret)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	cleanup_free char *name = NULL;

	for (size_t i = 0; i < m->n; i++) {
		buf_addf(&b, "%o %s\t%s", m->v[i].mode, oid_hex(&m->v[i].oid).s, m->v[i].path);
		buf_add(&b, "", 1);
	}
	if (file_replace_at(w->fd, "info", buf_str(&b), b.len, 0600) < 0)
		return false;
	name = world_ask(w, "export GIT_INDEX_FILE=../index; rm -f ../index; git update-index -z "
			    "--index-info < ../info; git write-tree --missing-ok");
	return oid_parse(ret, name, strlen(name));
}

static bool found_right(const struct treemap *m, const struct model *want)
{
	struct oid o;

	for (size_t i = 0; i < want->n; i++)
		if (treemap_find(m, want->v[i].path, &o) != want->v[i].mode ||
			!oid_eq(&o, &want->v[i].oid))
			return false;
	for (int i = 0; i < 50; i++) {
		char path[64];
		unsigned mode = 0;

		random_path(path);
		for (size_t j = 0; j < want->n; j++)
			if (str_eq(want->v[j].path, path))
				mode = want->v[j].mode;
			else if (is_below(want->v[j].path, path))
				mode = 0040000;
		if (treemap_find(m, path, &o) != mode)
			return false;
	}
	return true;
}

static void random_rounds(const char *format)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct git_store s = {0}, none = {.objects_fd = -1};
	cleanup_fd int objects = -1;
	struct model model = {.n = 0};
	struct err e = ERR_INIT;
	struct oid tree, want, got;

	seed = 12345;
	CHECK(world_make(&w, format));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_store(&r, &s, &e), 0);
	objects = s.objects_fd;
	none.hash = r.hash;
	CHECK_INT(tree_edit(NULL, NULL, 0, &s, &tree, &e), 0);
	for (int round = 0; round < ROUNDS; round++) {
		cleanup_treemap struct treemap *m = NULL;
		struct tree_edit edits[EDITS_MAX];
		char paths[EDITS_MAX][64];
		size_t n;

		CHECK_INT(treemap_make(&r, &tree, w.fd, "map", &e), 0);
		CHECK_INT(treemap_open(&m, w.fd, "map", &e), 0);
		treemap_root(m, &got);
		CHECK(oid_eq(&got, &tree));
		CHECK(found_right(m, &model));
		n = random_edits(edits, paths, r.hash, &model);
		for (size_t i = 0; i < n; i++)
			if (!edits[i].mode)
				model_remove(&model, edits[i].path);
		for (size_t i = 0; i < n; i++)
			if (edits[i].mode)
				model_set(&model, &edits[i]);
		CHECK_INT(tree_edit(m, edits, n, &none, &got, &e), 0);
		CHECK_INT(tree_edit(m, edits, n, &s, &tree, &e), 0);
		CHECK(oid_eq(&got, &tree));
		CHECK(ask_git(&w, &model, &want));
		CHECK_STR(oid_hex(&tree).s, oid_hex(&want).s);
	}
	CHECK(model.n > 10);
}

TEST(edited_trees_are_gits_sha1)
{
	random_rounds("sha1");
}

TEST(edited_trees_are_gits_sha256)
{
	random_rounds("sha256");
}

TEST(bad_edits_are_refused)
{
	static const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.",
		".git", "a/.GIT/config", ".Git/x"};
	struct git_store s = {.objects_fd = -1, .hash = GIT_SHA1};
	struct err e = ERR_INIT;
	struct oid o, blob;
	char deep[1200];

	oid_of(&blob, GIT_SHA1, GIT_BLOB, "", 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct tree_edit t = {.path = bad[i], .mode = 0100644, .oid = blob};

		CHECK_INT(tree_edit(NULL, &t, 1, &s, &o, &e), -EINVAL);
	}
	{
		struct tree_edit both[] = {{"a", 0100644, blob}, {"a/b", 0100644, blob}};
		struct tree_edit twice[] = {{"a", 0100644, blob}, {"a", 0100755, blob}};
		struct tree_edit fine[] = {{"a", 0100644, blob}, {"a/b", 0, blob}, {"a", 0, blob},
			{".git/x", 0, blob}};
		struct tree_edit mode = {"a", 0100600, blob}, nameless = {"a", 0100644, {0}};

		CHECK_INT(tree_edit(NULL, both, 2, &s, &o, &e), -EINVAL);
		CHECK_INT(tree_edit(NULL, twice, 2, &s, &o, &e), -EINVAL);
		CHECK_INT(tree_edit(NULL, fine, 4, &s, &o, &e), 0);
		CHECK_STR(oid_hex(&o).s, "496d6428b9cf92981dc9495211e6e1120fb6f2ba");
		CHECK_INT(tree_edit(NULL, &mode, 1, &s, &o, &e), -EINVAL);
		CHECK_INT(tree_edit(NULL, &nameless, 1, &s, &o, &e), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(deep); i++)
		deep[i] = i % 2 ? '/' : 'd';
	deep[1001] = '\0';
	{
		struct tree_edit t = {.path = deep, .mode = 0100644, .oid = blob};

		CHECK_INT(tree_edit(NULL, &t, 1, &s, &o, &e), -EINVAL);
	}
}

/* Trees that only other programs make. */
TEST(odd_trees)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_treemap struct treemap *m = NULL;
	struct git_store s = {0};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;
	struct oid blob, o, tree;
	char raw[400];
	int n;

	CHECK(world_make(&w, "sha1"));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_store(&r, &s, &e), 0);
	objects = s.objects_fd;
	CHECK_INT(git_write(&s, GIT_BLOB, "", 0, &blob, &e), 0);
	/* A mode of long ago: git tidies it up in listings, the name says otherwise. */
	n = snprintf(raw, sizeof(raw), "100664 old");
	memcpy(raw + n + 1, blob.v, 20);
	CHECK_INT(git_write(&s, GIT_TREE, raw, (size_t)n + 21, &tree, &e), 0);
	CHECK_INT(treemap_make(&r, &tree, w.fd, "map", &e), 0);
	CHECK_INT(treemap_open(&m, w.fd, "map", &e), 0);
	CHECK_INT(treemap_find(m, "old", &o), 0100644);
	/* Twice the same name, and the wrong order. */
	for (int i = 0; i < 4; i++) {
		static const char *const first[] = {
			"100644 a", "100644 b", "100644 .git", "100644 x"};
		static const char *const second[] = {
			"100644 a", "100644 a", "100644 a", "100644 y"};
		int k = snprintf(raw, sizeof(raw), "%s", first[i]) + 1;

		memcpy(raw + k, blob.v, 20);
		k += 20;
		k += snprintf(raw + k, sizeof(raw) - (size_t)k, "%s", second[i]) + 1;
		memcpy(raw + k, blob.v, 20);
		CHECK_INT(git_write(&s, GIT_TREE, raw, (size_t)k + 20, &tree, &e), 0);
		CHECK_INT(treemap_make(&r, &tree, w.fd, "map2", &e), i == 3 ? 0 : -EINVAL);
		CHECK(i == 3 || faccessat(w.fd, "map2", F_OK, 0) < 0);
	}
}

TEST(a_damaged_map_is_refused)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;
	struct oid tree;
	int refused = 0;

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w, "mkdir -p d/e f; touch d/x d/e/y f/z; git add .; git commit -qm x"));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_resolve(&r, "HEAD", NULL, &tree, &e), 0);
	CHECK_INT(treemap_make(&r, &tree, w.fd, "map", &e), 0);
	CHECK_INT(file_read_at(w.fd, "map", &b), 0);
	for (size_t i = 0; i <= b.len; i++) {
		struct treemap *m = NULL;
		struct oid o;
		size_t n = i == b.len ? b.len - 1 : b.len;

		if (i < b.len)
			b.data[i] ^= (char)0x81;
		CHECK_INT(file_replace_at(w.fd, "bad", b.data, n, 0600), 0);
		if (i < b.len)
			b.data[i] ^= (char)0x81;
		if (treemap_open(&m, w.fd, "bad", &e) < 0) {
			refused++;
			CHECK(!m);
			continue;
		}
		/* What is not refused is still safe to ask. */
		treemap_find(m, "d/e/y", &o);
		treemap_find(m, "f/z", &o);
		treemap_find(m, "nothing", &o);
		treemap_close(m);
	}
	CHECK(refused > 50);
}

TEST(a_hundred_thousand_files)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_treemap struct treemap *m = NULL;
	struct git_store s = {.objects_fd = -1};
	struct tree_edit t;
	struct err e = ERR_INIT;
	struct oid tree, o, now;
	uint64_t from;

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w, "e=$(git hash-object -w --stdin </dev/null); seq 100000 199999 | sed "
			   "\"s|\\(.*\\)\\(.\\)\\(..\\)\\$|100644 $e\\td\\1/e\\2/file\\3|\" | git "
			   "update-index --index-info; git commit -qm x"));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_resolve(&r, "HEAD", NULL, &tree, &e), 0);
	from = clock_ms();
	CHECK_INT(treemap_make(&r, &tree, w.fd, "map", &e), 0);
	CHECK_INT(treemap_open(&m, w.fd, "map", &e), 0);
	printf("# made in %llu ms\n", (unsigned long long)(clock_ms() - from));
	CHECK_INT(treemap_find(m, "d177/e7/file77", &o), 0100644);
	CHECK_INT(treemap_find(m, "d177/e7/file7x", &o), 0);
	CHECK_INT(treemap_find(m, "d177/e7", &o), 0040000);
	t = (struct tree_edit){.path = "d177/e7/file77", .mode = 0};
	CHECK_INT(tree_edit(m, &t, 1, &s, &now, &e), 0);
	CHECK(!oid_eq(&now, &tree));
}
