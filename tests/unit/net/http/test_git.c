/* SPDX-License-Identifier: Apache-2.0 */
/* net/git: which repository, fetch or push, and which refs a push changes. */
#include "test.h"

#include "base/cleanup.h"
#include "net/http/git.h"

#define OID_A "1111111111111111111111111111111111111111"
#define OID_B "2222222222222222222222222222222222222222"
#define OID_256 "3333333333333333333333333333333333333333333333333333333333333333"

TEST(requests_of_the_smart_protocol)
{
	static const struct {
		const char *method, *path, *query;
		enum git_what what;
		const char *repo;
	} cases[] = {{"GET", "/o/r.git/info/refs", "service=git-upload-pack", GIT_FETCH, "o/r"},
		{"GET", "/o/r/info/refs", "service=git-receive-pack", GIT_PUSH, "o/r"},
		{"POST", "/o/r.git/git-upload-pack", "", GIT_FETCH, "o/r"},
		{"POST", "/g/sub/r.git/git-receive-pack", "", GIT_PUSH, "g/sub/r"},
		{"POST", "/o/r.git.git/git-receive-pack", "", GIT_PUSH, "o/r.git"},
		{"GET", "/o/r.git/info/refs", "", GIT_OTHER, ""},
		{"GET", "/o/r.git/info/refs", "service=git-upload-pack&service=git-receive-pack",
			GIT_OTHER, ""},
		{"GET", "/o/r.git/info/refs", "service=git-upload-archive", GIT_OTHER, ""},
		{"GET", "/o/r.git/info/refs", "Service=git-upload-pack", GIT_OTHER, ""},
		{"POST", "/o/r.git/info/refs", "service=git-receive-pack", GIT_OTHER, ""},
		{"GET", "/o/r.git/git-receive-pack", "", GIT_OTHER, ""},
		{"POST", "/o/r.git/git-receive-pack", "x=1", GIT_OTHER, ""},
		{"POST", "/o/r.git/git-upload-archive", "", GIT_OTHER, ""},
		{"POST", "/o/r.git/info/lfs/objects/batch", "", GIT_OTHER, ""},
		{"GET", "/o/r.git/HEAD", "", GIT_OTHER, ""},
		{"GET", "/o/r.git/objects/11/22", "", GIT_OTHER, ""},
		{"GET", "/o/r", "", GIT_NOT, ""}, {"GET", "/", "", GIT_NOT, ""},
		{"POST", "/git-receive-pack", "", GIT_OTHER, ""},
		{"POST", "/o/r.git/git-receive-pack;x", "", GIT_OTHER, ""},
		{"POST", "/o/r.git/git-receive-pack/", "", GIT_OTHER, ""},
		{"POST", "/.git/git-receive-pack", "", GIT_PUSH, ".git"},
		{"POST", "/o/r/.git/git-receive-pack", "", GIT_OTHER, ""},
		{"POST", "/o/xgit-receive-pack", "", GIT_NOT, ""},
		{"OPTIONS", "*", "", GIT_NOT, ""}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char repo[64] = "";

		CHECK_INT(git_classify(cases[i].method, cases[i].path, cases[i].query, repo,
				  sizeof(repo)),
			cases[i].what);
		CHECK_STR(repo, cases[i].repo);
	}
	char small[3];

	CHECK_INT(
		git_classify("POST", "/o/r/git-upload-pack", "", small, sizeof(small)), GIT_OTHER);
}

static void pkt(struct buf *b, const char *text, size_t n)
{
	buf_addf(b, "%04zx", n + 4);
	buf_add(b, text, n);
}

#define PKT(b, text) pkt((b), (text), sizeof(text) - 1)

/* What reading `in` in pieces of `step` says; refs are joined by blanks. */
static int read_list(const struct buf *in, size_t step, struct buf *refs, size_t *ret_used)
{
	struct git_commands g;
	size_t at = 0, used;
	int got = 0;

	git_commands_init(&g);
	while (got == 0 && at < in->len) {
		size_t piece = MIN_OF(step, in->len - at);

		got = git_commands_read(&g, in->data + at, piece, &used);
		at += used;
		if (got == 0 && used != piece)
			got = -2;
	}
	for (size_t i = 0; got == 1 && i < g.refs.n; i++)
		buf_addf(refs, "%s ", g.refs.v[i]);
	if (got == 1 && (g.head.len != at || memcmp(g.head.data, in->data, at) != 0))
		got = -3;
	*ret_used = at;
	git_commands_done(&g);
	return got;
}

TEST(command_lists_in_pieces_of_any_size)
{
	cleanup_buf struct buf in = BUF_INIT(4096);
	size_t list;

	PKT(&in, "shallow " OID_A);
	PKT(&in, OID_A " " OID_B " refs/heads/main\0 report-status push-options agent=git/2\n");
	PKT(&in, OID_A " " OID_B " refs/heads/f\xc3\xa9/x\n");
	PKT(&in, OID_256 " " OID_256 " refs/tags/v1");
	buf_adds(&in, "0000");
	list = in.len;
	PKT(&in, "an-option");
	buf_adds(&in, "0000PACK....");
	for (size_t step = 1; step <= in.len; step++) {
		cleanup_buf struct buf refs = BUF_INIT(4096);
		size_t used;

		CHECK_INT(read_list(&in, step, &refs, &used), 1);
		CHECK_STR(buf_str(&refs), "refs/heads/main refs/heads/f\xc3\xa9/x refs/tags/v1 ");
		CHECK_INT(used, list);
	}
}

TEST(a_list_of_nothing_is_a_probe)
{
	cleanup_buf struct buf in = BUF_INIT(64), refs = BUF_INIT(64);
	size_t used;

	buf_adds(&in, "0000");
	CHECK_INT(read_list(&in, 4, &refs, &used), 1);
	CHECK_STR(buf_str(&refs), "");
	buf_reset(&in);
	buf_adds(&in, "000");
	CHECK_INT(read_list(&in, 4, &refs, &used), 0);
}

TEST(malformed_lists_are_refused)
{
	static const struct {
		const char *text;
		size_t n;
	} bad[] = {
#define BAD(t) {t, sizeof(t) - 1}
		BAD(""),
		BAD("push-cert\0caps"),
		BAD("shallow xyz"),
		BAD(OID_A " " OID_B),
		BAD(OID_A " " OID_B " "),
		BAD(OID_A " " OID_B " HEAD"),
		BAD(OID_A " " OID_B " refs/"),
		BAD(OID_A " " OID_256 " refs/heads/a"),
		BAD(OID_A "  " OID_B " refs/heads/a"),
		BAD(OID_A " " OID_B " refs/heads/a\n\0caps"),
		BAD(OID_A " " OID_B " refs/heads/a b"),
		BAD(OID_A " " OID_B " refs/heads/../x"),
		BAD(OID_A " " OID_B " refs/heads//x"),
		BAD(OID_A " " OID_B " refs/heads/x/"),
		BAD(OID_A " " OID_B " refs/heads/.x"),
		BAD(OID_A " " OID_B " refs/heads/x.lock"),
		BAD(OID_A " " OID_B " refs/heads/x."),
		BAD(OID_A " " OID_B " refs/heads/*"),
		BAD(OID_A " " OID_B " refs/heads/a@{1}"),
		BAD(OID_A " " OID_B " refs/heads/\xff"),
		BAD("\0" OID_A " " OID_B " refs/heads/a"),
		BAD(OID_A "\0" OID_B " refs/heads/a"),
		BAD("zz11111111111111111111111111111111111111 " OID_B " refs/heads/a"),
	};
	static const char *const frames[] = {
		"0001", "0002", "0003", "0004", "fff1", "ffff", "-001", "00 4", "zzzz", "PACK"};
	size_t used;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cleanup_buf struct buf in = BUF_INIT(4096), refs = BUF_INIT(64);

		pkt(&in, bad[i].text, bad[i].n);
		buf_adds(&in, "0000");
		for (size_t step = 1; step < 8; step++)
			CHECK_INT(read_list(&in, step, &refs, &used), -1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		cleanup_buf struct buf in = BUF_INIT(64), refs = BUF_INIT(64);

		buf_adds(&in, frames[i]);
		CHECK_INT(read_list(&in, 4, &refs, &used), -1);
	}
	/* The same line, well-formed. */
	cleanup_buf struct buf in = BUF_INIT(4096), refs = BUF_INIT(64);

	PKT(&in, OID_A " " OID_B " refs/heads/a");
	buf_adds(&in, "0000");
	CHECK_INT(read_list(&in, 5, &refs, &used), 1);
}

TEST(command_lists_have_a_maximum)
{
	cleanup_buf struct buf in = BUF_INIT(8u << 20), refs = BUF_INIT(1u << 20);
	size_t used;

	for (unsigned i = 0; i < GIT_REFS_MAX; i++)
		PKT(&in, OID_A " " OID_B " refs/heads/a");
	buf_adds(&in, "0000");
	CHECK_INT(read_list(&in, 9000, &refs, &used), 1);
	in.len -= 4;
	PKT(&in, OID_A " " OID_B " refs/heads/a");
	buf_adds(&in, "0000");
	CHECK_INT(read_list(&in, 9000, &refs, &used), -1);
	buf_reset(&in);
	while (in.len <= GIT_COMMANDS_MAX_B)
		PKT(&in, "shallow " OID_A);
	CHECK_INT(read_list(&in, 9000, &refs, &used), -1);
}
