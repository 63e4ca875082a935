/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of an index: entries of each version, the tables by which threads read, and what is damaged. */
#include "test.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "session/run/gitindex.h"
#include "session/run/gitplain.h"

#define HASH 20

static void be32(struct buf *b, uint32_t v)
{
	unsigned char p[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16), (unsigned char)(v >> 8),
		(unsigned char)v};

	buf_add(b, p, 4);
}

static void zeros(struct buf *b, size_t n)
{
	while (n--)
		buf_addc(b, 0);
}

static size_t last_n; /* of the name before */
static int length_off; /* what an entry says of its name's length is off by so much */

static void head(struct buf *b, uint32_t version, uint32_t n)
{
	last_n = 0;
	buf_reset(b);
	buf_add(b, "DIRC", 4);
	be32(b, version);
	be32(b, n);
}

/* One entry; version 4: `strip` bytes of the name before are dropped. */
static void entry(struct buf *b, uint32_t version, const char *name, unsigned strip, uint32_t mode)
{
	size_t from = b->len, whole;

	last_n = (version == 4 && strip <= last_n ? last_n - strip : 0) + strlen(name);
	whole = MIN_OF(last_n + (size_t)length_off, 0xfffu);
	zeros(b, 24);
	be32(b, mode);
	zeros(b, 12 + HASH);
	buf_addc(b, (char)(whole >> 8));
	buf_addc(b, (char)whole);
	if (version == 4)
		buf_addc(b, (char)strip);
	buf_add(b, name, strlen(name));
	zeros(b, version == 4 ? 1 : 8 - (b->len - from) % 8);
}

static char shared[GITINDEX_SHARED_MAX];

static const char *beyond(struct buf *b)
{
	zeros(b, HASH);
	return gitindex_check((const unsigned char *)buf_str(b), b->len, HASH, shared);
}

TEST(paths)
{
	static const struct {
		const char *name;
		bool fine;
	} cases[] = {{"a", true}, {"a/b.git/c", true}, {".gitignore", true}, {"git/x", true}, {".git", false},
		{"a/.git/config", false}, {".GIT/hooks/x", false}, {"git~1/x", false}, {"../x", false},
		{"a/../x", false}, {"/etc/x", false}, {"a//b", false}, {"./a", false}, {"a/", false}};
	cleanup_buf struct buf b = BUF_INIT(4096);

	for (uint32_t v = 2; v <= 4; v++)
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			head(&b, v, 2);
			entry(&b, v, "A", 0, 0100644);
			entry(&b, v, cases[i].name, 1, 0100644);
			if (!beyond(&b) != cases[i].fine)
				test_fail(__FILE__, __LINE__, "version %u: %s", v, cases[i].name);
		}
	head(&b, 3, 1);
	entry(&b, 3, "sparse/", 0, 0040000);
	CHECK(!beyond(&b));
}

TEST(version_4_names_are_joined)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	head(&b, 4, 2);
	entry(&b, 4, ".gitx/a", 0, 0100644);
	entry(&b, 4, "/hooks/x", 3, 0100644); /* .git/hooks/x */
	CHECK(beyond(&b));
	head(&b, 4, 2);
	entry(&b, 4, ".gitx/a", 0, 0100644);
	entry(&b, 4, "b", 1, 0100644);
	CHECK(!beyond(&b));
	head(&b, 4, 1);
	entry(&b, 4, "b", 1, 0100644); /* more than there is */
	CHECK(beyond(&b));
}

static void extension(struct buf *b, const char *sig, uint32_t n)
{
	buf_add(b, sig, 4);
	be32(b, n);
}

TEST(a_split_index_has_entries_without_names)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	head(&b, 2, 1);
	entry(&b, 2, "", 0, 0100644);
	CHECK(beyond(&b)); /* of which index? */
	for (int zero = 0; zero < 2; zero++) {
		head(&b, 2, zero ? 0 : 1);
		if (!zero)
			entry(&b, 2, "", 0, 0100644);
		extension(&b, "link", HASH + 4);
		for (int i = 0; i < HASH; i++)
			buf_addc(&b, (char)(zero ? 0 : 0xa0 + i));
		be32(&b, 0);
		CHECK(!beyond(&b));
		CHECK_STR(shared, zero ? "" : "sharedindex.a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3");
	}
	head(&b, 2, 0);
	extension(&b, "link", HASH - 1);
	zeros(&b, HASH - 1);
	CHECK(beyond(&b));
}

/* Git goes by the length that an entry says, and would read its next one from elsewhere. */
TEST(names_are_as_long_as_they_say)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	char name[0x1000 + 8];

	for (uint32_t v = 2; v <= 4; v++)
		for (length_off = -1; length_off <= 64; length_off++) {
			head(&b, v, 2);
			entry(&b, v, "abc", 0, 0100644);
			entry(&b, v, "d", 3, 0100644);
			if (!beyond(&b) != (length_off == 0))
				test_fail(__FILE__, __LINE__, "version %u, off by %d", v, length_off);
		}
	length_off = 0;
	for (size_t n = 0xffd; n < 0x1000; n++) { /* PATH_MAX is croft's own limit */
		memset(name, 'a', n);
		name[n] = '\0';
		head(&b, 2, 1);
		entry(&b, 2, name, 0, 0100644);
		CHECK(!beyond(&b));
	}
	head(&b, 2, 1);
	length_off = 0x1000;
	entry(&b, 2, "abc", 0, 0100644); /* says: too long to be told */
	length_off = 0;
	CHECK(beyond(&b));
}

TEST(the_hash_is_what_the_configuration_says)
{
	static const struct {
		const char *text;
		size_t n;
	} cases[] = {{"", 20}, {"[core]\n\tbare = false\n", 20},
		{"[extensions]\n\tobjectformat = sha256\n", 32},
		{"[Extensions] ObjectFormat=\"sha256\" ; x", 32},
		{"[extensions]\nobjectformat = sha1 # sha256\n", 20},
		{"# [extensions]\n# objectformat = sha256\n", 20},
		{"[core]\n\tx = y ; [extensions] objectformat = sha256\n", 20},
		{"[core]\nobjectformat = sha256\n", 20}, {"[extensions \"a\"]\nobjectformat = sha256\n", 20},
		{"[extensions]\nobjectformatx = sha256\n", 20},
		{"[user]\n\tname = a\\\n[extensions]\nobjectformat = sha256\n", 20},
		{"[extensions]\nobjectformat = sha256\nobjectformat = sha1\n", 20},
		{"[extensions]\nobjectformat = sha256\n[alias]\na = b \\\n c\n", 32},
		{"[user]\n\tname = a\\\r\n[extensions]\r\nobjectformat = sha256\r\n", 20},
		{"# a\\\n[extensions]\nobjectformat = sha256\n", 0},
		{"[core]\nx = y ;\\\n[extensions]\nobjectformat = sha256\n", 0},
		{"[core]\nx = y\\\\\n[extensions]\nobjectformat = sha256\n", 0}, {"# a\\\n[core]\n", 20},
		{"[extensions]\nobjectformat = md5\n", 0}, {"[extensions\nobjectformat = sha256\n", 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (gitplain_hash(cases[i].text, strlen(cases[i].text)) != cases[i].n)
			test_fail(__FILE__, __LINE__, "%s", cases[i].text);
	CHECK(gitplain_hash("a\0b", 3) == 0);
}

TEST(threads_read_the_same)
{
	cleanup_buf struct buf b = BUF_INIT(8192);

	for (int wrong = 0; wrong < 4; wrong++) {
		uint32_t at[2], end;

		head(&b, 2, 2);
		at[0] = (uint32_t)b.len;
		entry(&b, 2, "a", 0, 0100644);
		at[1] = (uint32_t)b.len;
		entry(&b, 2, "b", 0, 0100644);
		end = (uint32_t)b.len;
		extension(&b, "IEOT", 4 + 16);
		be32(&b, 1);
		be32(&b, at[0]);
		be32(&b, wrong == 3 ? 2 : 1);
		be32(&b, at[1] + (wrong == 1 ? 8 : 0));
		be32(&b, 1);
		extension(&b, "EOIE", 4 + HASH);
		be32(&b, end + (wrong == 2 ? 4 : 0));
		zeros(&b, HASH);
		if (!beyond(&b) != (wrong == 0))
			test_fail(__FILE__, __LINE__, "case %d", wrong);
	}
	/* A block of version 4 begins with a whole name. */
	for (unsigned strip = 1; strip <= 3; strip++) {
		uint32_t second;

		head(&b, 4, 2);
		entry(&b, 4, "xyz", 0, 0100644);
		second = (uint32_t)b.len;
		entry(&b, 4, ".git/x", strip, 0100644);
		extension(&b, "IEOT", 4 + 16);
		be32(&b, 1);
		be32(&b, 12);
		be32(&b, 1);
		be32(&b, second);
		be32(&b, 1);
		CHECK(beyond(&b));
	}
}

TEST(damaged)
{
	cleanup_buf struct buf b = BUF_INIT(8192), cut = BUF_INIT(8192);
	size_t whole;

	head(&b, 2, 2);
	entry(&b, 2, "a", 0, 0100644);
	entry(&b, 2, "b/c", 0, 0100644);
	whole = b.len + HASH;
	extension(&b, "TREE", 3);
	buf_add(&b, "abc", 3);
	CHECK(!beyond(&b));
	for (size_t n = 0; n < b.len; n += n + 1 == whole ? 2 : 1) {
		buf_reset(&cut);
		buf_add(&cut, b.data, n);
		CHECK(gitindex_check((const unsigned char *)buf_str(&cut), cut.len, HASH, shared));
	}
	head(&b, 5, 0);
	CHECK(beyond(&b));
	head(&b, 2, 0xffffffff);
	CHECK(beyond(&b));
}
