/* SPDX-License-Identifier: Apache-2.0 */
/* Reading git's differences, applying hunks, checking edited ones. */
#include <errno.h>
#include <sys/stat.h>

#include "diff_world.h"
#include "os/path.h"

#define F 0100644u
#define X 0100755u
#define L 0120000u

static const struct diff_file *find(const struct tree_diff *d, const char *path)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->v[i].path, path) == 0)
			return &d->v[i];
	return NULL;
}

static char *lines(int from, int to, int other)
{
	struct buf b = BUF_INIT(1u << 24);

	for (int i = from; i <= to; i++)
		buf_addf(&b, i == other ? "line %d is another\n" : "line %d\n", i);
	return buf_take(&b);
}

static void every_kind(enum git_hash h)
{
	cleanup_world struct world w;
	cleanup_tree_diff struct tree_diff d = {0};
	cleanup_free char *old = lines(1, 60, 0), *new = lines(1, 60, 30);
	struct diff_query q = {.git_dir = w.dir};

	CHECK(world_open(&w, h));
	q.from = WORLD_TREE(&w, {"a", F, old}, {"bin", F, "x\0y", 3}, {"gone", F, "bye\n"},
		{"link", L, "a"}, {"moved/from", F, "same\nsame 2\nsame 3\n"},
		{"run", F, "#!/bin/sh\n"}, {"type", L, "a"},
		{"new\nline", F, "diff --git a/x b/x\n@@ -1 +1 @@\n"});
	q.to = WORLD_TREE(&w, {"a", F, new}, {"bin", F, "x\0yz", 4}, {"added", X, "no newline"},
		{"empty", F, ""}, {"link", L, "b"}, {"moved/to", F, "same\nsame 2\nsame 3\n"},
		{"run", X, "#!/bin/sh\n"}, {"type", F, "a file now\n"},
		{"new\nline", F, "diff --git a/x b/x\n@@ -1 +1 @@\nmore\n"},
		{"\xff\xfe", F, "odd\n"});
	CHECK_INT(tree_diff_get(&d, &q, &w.e), 0);
	CHECK_INT(d.n, 11);
	CHECK_INT(find(&d, "a")->hunks_n, 1);
	CHECK_INT(find(&d, "a")->added, 1);
	CHECK_INT(find(&d, "a")->hunks[0].old_start, 27);
	CHECK(find(&d, "bin")->binary && !find(&d, "bin")->counted);
	CHECK_INT(find(&d, "gone")->status, 'D');
	CHECK_INT(find(&d, "link")->status, 'M');
	CHECK_INT(find(&d, "moved/to")->status, 'R');
	CHECK_STR(find(&d, "moved/to")->from, "moved/from");
	CHECK_INT(find(&d, "run")->new_mode, X);
	CHECK_INT(find(&d, "run")->hunks_n, 0);
	CHECK_INT(find(&d, "type")->status, 'T');
	CHECK_INT(find(&d, "type")->hunks_n, 2);
	CHECK_INT(find(&d, "new\nline")->added, 1);
	CHECK_INT(find(&d, "empty")->hunks_n, 0);
	CHECK_INT(find(&d, "\xff\xfe")->status, 'A');
	CHECK_INT(tree_diff_sizes(&d, w.dir, &w.e), 0);
	CHECK_INT(find(&d, "bin")->old_size, 3);
	CHECK_INT(find(&d, "bin")->new_size, 4);
	CHECK(!find(&d, "bin")->large);
}

TEST(diff_knows_every_kind_of_change)
{
	every_kind(GIT_SHA1);
}

TEST(diff_knows_every_kind_of_change_sha256)
{
	every_kind(GIT_SHA256);
}

TEST(stat_and_names_agree_with_hunks)
{
	cleanup_world struct world w;
	cleanup_tree_diff struct tree_diff hunks = {0}, stat = {0}, names = {0}, some = {0};
	const char *const paths[] = {"d*", "e", NULL};
	struct diff_query q = {.git_dir = w.dir};

	CHECK(world_open(&w, GIT_SHA1));
	q.from = WORLD_TREE(&w, {"a", F, "1\n2\n3\n4\n5\n"}, {"b", F, "x\0", 2}, {"d*", F, "1\n"},
		{"dd", F, "1\n"});
	q.to = WORLD_TREE(&w, {"a2", F, "1\n2\n3\n4\n5\nsix\n"}, {"b", F, "y\0", 2},
		{"d*", F, "2\n"}, {"dd", F, "2\n"}, {"e/f", F, "1\n2\n"});
	CHECK_INT(tree_diff_get(&hunks, &q, &w.e), 0);
	q.what = DIFF_STAT;
	CHECK_INT(tree_diff_get(&stat, &q, &w.e), 0);
	CHECK_INT(stat.n, hunks.n);
	for (size_t i = 0; i < stat.n; i++) {
		CHECK_STR(stat.v[i].path, hunks.v[i].path);
		CHECK_INT(stat.v[i].added, hunks.v[i].added);
		CHECK_INT(stat.v[i].deleted, hunks.v[i].deleted);
		CHECK_INT(stat.v[i].binary, hunks.v[i].binary);
	}
	q.what = DIFF_NAMES;
	CHECK_INT(tree_diff_get(&names, &q, &w.e), 0);
	CHECK_INT(names.n, 6); /* a rename with changes is not looked for */
	/* A path is a path: no pattern of git's. */
	q.paths = paths;
	CHECK_INT(tree_diff_get(&some, &q, &w.e), 0);
	CHECK_INT(some.n, 2);
	CHECK_STR(some.v[0].path, "d*");
	CHECK_STR(some.v[1].path, "e/f");
}

TEST(large_files_are_shown_as_such)
{
	cleanup_world struct world w;
	cleanup_tree_diff struct tree_diff d = {0};
	cleanup_free char *big = calloc(1, (9u << 20) + 1);
	struct diff_query q = {.git_dir = w.dir};

	CHECK(world_open(&w, GIT_SHA1) && big);
	memset(big, 'x', 9u << 20);
	q.from = WORLD_TREE(&w, {"a", F, "1\n"});
	q.to = WORLD_TREE(&w, {"a", F, "1\n"}, {"big", F, big});
	CHECK_INT(tree_diff_get(&d, &q, &w.e), 0);
	CHECK_INT(d.n, 1);
	CHECK(d.v[0].binary);
	CHECK_INT(tree_diff_sizes(&d, w.dir, &w.e), 0);
	CHECK_INT(d.v[0].new_size, 9u << 20);
	CHECK(d.v[0].large);
}

/* Whatever is cut off or changed is refused, not misread. */
TEST(damaged_output_is_refused)
{
	static const char head[] = ":100644 100644 1111111111111111111111111111111111111111 "
				   "2222222222222222222222222222222222222222 M";
	static const char *const patches[] = {
		"diff --git a/a b/a\nindex "
		"1111111111111111111111111111111111111111.."
		"2222222222222222222222222222222222222222 100644\n--- a/a\n+++ b/a\n"
		"@@ -1 +1 @@\n-x\n+y\n",
		/* another object */
		"diff --git a/a b/a\nindex "
		"1111111111111111111111111111111111111111.."
		"3222222222222222222222222222222222222222 100644\n--- a/a\n+++ b/a\n"
		"@@ -1 +1 @@\n-x\n+y\n",
		/* counts that do not hold */
		"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n-x\n+y\n",
		"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,99999999999 +1 @@\n-x\n+y\n",
		"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n*y\n",
		"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y",
		/* one section too many, none at all, something unknown */
		"diff --git a/a b/a\nold mode 100644\nnew mode 100755\ndiff --git a/b b/b\n", "",
		"diff --git a/a b/a\nwhat is this\n"};

	for (size_t i = 0; i < ARRAY_SIZE(patches); i++) {
		cleanup_tree_diff struct tree_diff d = {.text = BUF_INIT(1u << 20)};
		struct err e = ERR_INIT;

		buf_add(&d.text, head, sizeof(head));
		buf_add(&d.text, "a", 2);
		buf_addc(&d.text, '\0');
		buf_adds(&d.text, patches[i]);
		CHECK_INT(tree_diff_parse(&d, HUNKS_PATCH, &e), i == 0 ? 0 : -EBADMSG);
	}
}

/* Every beginning of a good output but the whole is refused. */
TEST(cut_output_is_refused)
{
	cleanup_world struct world w;
	cleanup_tree_diff struct tree_diff whole = {0};
	struct diff_query q = {.git_dir = w.dir};

	CHECK(world_open(&w, GIT_SHA1));
	q.from = WORLD_TREE(&w, {"a", F, "1\n2\n"}, {"r", F, "1\n2\n3\n"});
	q.to = WORLD_TREE(&w, {"a", F, "1\n3"}, {"s", F, "1\n2\n3\n"});
	CHECK_INT(tree_diff_get(&whole, &q, &w.e), 0);
	/* The last section is of a pure rename, whose lines are all optional to a reader. */
	for (size_t n = 1; n + 80 < whole.text.len; n++) {
		cleanup_tree_diff struct tree_diff d = {.text = BUF_INIT(1u << 20)};
		struct err e = ERR_INIT;

		buf_add(&d.text, whole.text.data, n);
		CHECK_INT(tree_diff_parse(&d, HUNKS_PATCH, &e), -EBADMSG);
	}
}

/* ---- applying ---- */

static uint32_t seed = 7;
static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* A text and a changed one. */
static void random_texts(struct buf *a, struct buf *b)
{
	uint32_t n = dice(80);

	for (uint32_t i = 0; i < n; i++) {
		char line[32];

		snprintf(line, sizeof(line), "%u%s\n", dice(12), dice(9) ? "" : "\r");
		buf_adds(a, line);
		if (dice(8))
			buf_adds(b, line);
		if (dice(10) == 0)
			buf_addf(b, "new %u\n", dice(5));
	}
	if (dice(3) == 0)
		buf_adds(a, "the end");
	if (dice(3) == 0)
		buf_adds(b, "an end");
}

/* The truth about some hunks: a patch of just these, applied by git. */
static int git_applies(struct world *w, const struct diff_file *f, const struct hunk_choice *c,
	const struct buf *old, struct buf *ret)
{
	cleanup_buf struct buf patch = BUF_INIT(1u << 20);
	char tree[96], setting[128], file[112];
	cleanup_fd int fd = -1;
	struct git_run r = {.argv = (const char *const[]){"apply", "--unidiff-zero", "-", NULL},
		.git_dir = w->dir,
		.dir = tree,
		.env = (const char *const[]){setting, NULL}};

	snprintf(tree, sizeof(tree), "%s/wt", w->dir);
	snprintf(setting, sizeof(setting), "GIT_WORK_TREE=%s", tree);
	snprintf(file, sizeof(file), "%s/f", tree);
	mkdir(tree, 0700);
	fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, buf_str(old), old->len) < 0)
		return -1;
	buf_adds(&patch, "--- a/f\n+++ b/f\n");
	for (size_t i = 0; i < f->hunks_n; i++) {
		if (!c[i].accept)
			continue;
		buf_add(&patch, f->hunks[i].head, f->hunks[i].head_n);
		buf_addc(&patch, '\n');
		buf_add(&patch, f->hunks[i].body, f->hunks[i].body_n);
	}
	r.in = patch.data;
	r.in_n = patch.len;
	if (git_run(&r, &w->e) < 0)
		return -1;
	return file_read_at(AT_FDCWD, file, ret);
}

TEST(some_hunks_are_applied_as_git_does)
{
	cleanup_world struct world w;

	CHECK(world_open(&w, GIT_SHA1));
	for (int round = 0; round < 20; round++) {
		cleanup_buf struct buf a = BUF_INIT(1u << 20), b = BUF_INIT(1u << 20),
				       some = BUF_INIT(1u << 20), truth = BUF_INIT(1u << 20);
		cleanup_tree_diff struct tree_diff d = {0};
		struct hunk_choice c[64] = {0};
		struct diff_query q = {.git_dir = w.dir};
		size_t first;

		random_texts(&a, &b);
		q.from = WORLD_TREE(&w, {"f", F, buf_str(&a)});
		q.to = WORLD_TREE(&w, {"f", F, buf_str(&b)});
		CHECK_INT(tree_diff_get(&d, &q, &w.e), 0);
		if (d.n == 0 || d.v[0].hunks_n < 2)
			continue;
		CHECK(d.v[0].hunks_n < 64);
		first = dice((uint32_t)d.v[0].hunks_n);
		for (size_t i = 0; i < d.v[0].hunks_n; i++)
			c[i].accept = i == first || dice(2);
		CHECK_INT(git_applies(&w, &d.v[0], c, &a, &truth), 0);
		CHECK_INT(hunks_apply(
				  d.v[0].hunks, c, d.v[0].hunks_n, buf_str(&a), a.len, &some, &w.e),
			0);
		CHECK_STR(buf_str(&some), buf_str(&truth));
	}
}

/* All hunks give the new content, none the old. */
TEST(hunks_applied_are_exact)
{
	cleanup_world struct world w;

	CHECK(world_open(&w, GIT_SHA1));
	for (int round = 0; round < 40; round++) {
		cleanup_buf struct buf a = BUF_INIT(1u << 20), b = BUF_INIT(1u << 20),
				       all = BUF_INIT(1u << 20), none = BUF_INIT(1u << 20);
		cleanup_tree_diff struct tree_diff d = {0};
		struct hunk_choice c[64] = {0};
		struct diff_query q = {.git_dir = w.dir};

		random_texts(&a, &b);
		q.from = WORLD_TREE(&w, {"f", F, buf_str(&a)});
		q.to = WORLD_TREE(&w, {"f", F, buf_str(&b)});
		CHECK_INT(tree_diff_get(&d, &q, &w.e), 0);
		if (d.n == 0)
			continue;
		CHECK(d.v[0].hunks_n < 64);
		CHECK_INT(hunks_apply(
				  d.v[0].hunks, c, d.v[0].hunks_n, buf_str(&a), a.len, &none, &w.e),
			0);
		CHECK_STR(buf_str(&none), buf_str(&a));
		for (size_t i = 0; i < 64; i++)
			c[i].accept = true;
		CHECK_INT(hunks_apply(
				  d.v[0].hunks, c, d.v[0].hunks_n, buf_str(&a), a.len, &all, &w.e),
			0);
		CHECK_STR(buf_str(&all), buf_str(&b));
	}
}

TEST(hunks_do_not_fit_other_content)
{
	cleanup_world struct world w;
	cleanup_tree_diff struct tree_diff d = {0};
	cleanup_buf struct buf out = BUF_INIT(1u << 20);
	struct diff_query q = {.git_dir = w.dir};
	const struct hunk_choice yes = {.accept = true}, no = {0};

	CHECK(world_open(&w, GIT_SHA1));
	q.from = WORLD_TREE(&w, {"f", F, "1\n2\n3\n"});
	q.to = WORLD_TREE(&w, {"f", F, "1\ntwo\n3\n"});
	CHECK_INT(tree_diff_get(&d, &q, &w.e), 0);
	CHECK_INT(hunks_apply(d.v[0].hunks, &yes, 1, "1\n2\n4\n", 6, &out, &w.e), -EBADMSG);
	CHECK_INT(hunks_apply(d.v[0].hunks, &no, 1, "1\n2\n4\n", 6, &out, &w.e), -EBADMSG);
	CHECK_INT(hunks_apply(d.v[0].hunks, &yes, 1, "1\n2\n3", 5, &out, &w.e), -EBADMSG);
	CHECK_INT(hunks_apply(d.v[0].hunks, &yes, 1, "", 0, &out, &w.e), -EBADMSG);
}

/* ---- editing ---- */

static int edit(struct world *w, const char *old, const char *new, const char *text, bool cr,
	struct buf *out)
{
	cleanup_tree_diff struct tree_diff d = {0};
	cleanup_buf struct buf body = BUF_INIT(1u << 20);
	struct diff_query q = {.git_dir = w->dir};
	struct hunk_choice c = {.accept = true};
	int r;

	q.from = WORLD_TREE(w, {"f", F, old});
	q.to = WORLD_TREE(w, {"f", F, new});
	w->e = ERR_INIT;
	if (tree_diff_get(&d, &q, &w->e) < 0 || d.n != 1 || d.v[0].hunks_n != 1)
		return -1000;
	r = hunk_edit(&d.v[0].hunks[0], text, strlen(text), cr, &body, &w->e);
	if (r < 0)
		return r;
	c.edited = buf_str(&body);
	c.edited_n = body.len;
	return hunks_apply(d.v[0].hunks, &c, 1, old, strlen(old), out, &w->e);
}

TEST(edited_hunks_apply_or_are_refused)
{
	static const struct {
		const char *old, *new, *text, *want; /* NULL: refused */
		bool cr;
	} cases[] = {
		{"1\n2\n3\n", "1\nx\n3\n", " 1\n-2\n+my own\n 3\n", "1\nmy own\n3\n", false},
		{"1\n2\n3\n", "1\nx\n3\n", "@@ -1 +1 @@ s\n 1\n 2\n+and\n+more\n 3\n# note\n",
			"1\n2\nand\nmore\n3\n", false},
		{"1\n\n3\n", "1\n\nx\n", " 1\n\n-3\n+y\n", "1\n\ny\n", false},
		{"1\r\n2\r\n", "1\r\nx\r\n", " 1\n-2\n+y\n", "1\r\ny\r\n", true},
		{"1\n2", "1\nx", " 1\n-2\n\\ No newline at end of file\n+y\n", "1\ny\n", false},
		{"1\n2", "1\nx",
			" 1\n-2\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n",
			"1\ny", false},
		/* a context line changed, missing, doubled, out of order */
		{"1\n2\n3\n", "1\nx\n3\n", " 1!\n-2\n+x\n 3\n", NULL, false},
		{"1\n2\n3\n", "1\nx\n3\n", " 1\n+x\n 3\n", NULL, false},
		{"1\n2\n3\n", "1\nx\n3\n", " 1\n-2\n+x\n 3\n 3\n", NULL, false},
		{"1\n2\n3\n", "1\nx\n3\n", " 1\n 3\n-2\n+x\n", NULL, false},
		{"1\n2\n3\n", "1\nx\n3\n", "what\n", NULL, false},
		{"1\n2\n3\n", "1\nx\n3\n", "", NULL, false},
		/* newlines that would glue lines together */
		{"1\n2\n3\n", "1\nx\n3\n", " 1\n-2\n+x\n\\ No newline\n 3\n", NULL, false},
		{"1\n2\n3\n", "1\n2\nx\n", " 1\n 2\n-3\n+x\n\\ No newline\n", NULL, false},
		{"1\n2", "1\nx", " 1\n 2\n+y\n", NULL, false},
	};
	cleanup_world struct world w;

	CHECK(world_open(&w, GIT_SHA1));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_buf struct buf out = BUF_INIT(1u << 20);
		int r = edit(&w, cases[i].old, cases[i].new, cases[i].text, cases[i].cr, &out);

		CHECK_INT(r, cases[i].want ? 0 : -EINVAL);
		if (cases[i].want)
			CHECK_STR(buf_str(&out), cases[i].want);
		else
			CHECK(w.e.msg[0]);
	}
}

/* ---- showing (L6) ---- */

TEST(nothing_of_a_file_reaches_the_terminal_raw)
{
	cleanup_world struct world w;
	cleanup_tree_diff struct tree_diff d = {0};
	cleanup_buf struct buf out = BUF_INIT(1u << 20);
	struct diff_query q = {.git_dir = w.dir};

	CHECK(world_open(&w, GIT_SHA1));
	q.from = WORLD_TREE(&w, {"x", F, "\n"});
	q.to = WORLD_TREE(&w, {"x", F, "\n"},
		{"\033[2Jevil", F, "\033]0;title\a\ttab\n\xe2\x80\xaetrojan\nok\r\n"},
		{"link", L, "\033[31mtarget"});
	CHECK_INT(tree_diff_get(&d, &q, &w.e), 0);
	for (size_t i = 0; i < d.n; i++) {
		diff_title(&d.v[i], &out);
		for (size_t k = 0; k < d.v[i].hunks_n; k++) {
			diff_hunk(&d.v[i].hunks[k], false, &out);
			CHECK(!hunk_is_plain(&d.v[i].hunks[k]));
		}
	}
	CHECK(strstr(buf_str(&out), "\\x1b]0;title\\x07\ttab"));
	CHECK(strstr(buf_str(&out), "\\u{202e}trojan"));
	CHECK(strstr(buf_str(&out), "ok\\x0d"));
	CHECK(strstr(buf_str(&out), "-> \\x1b[31mtarget"));
	for (size_t i = 0; i < out.len; i++)
		CHECK(out.data[i] != '\033' && out.data[i] != '\a' && out.data[i] != '\r');
}
