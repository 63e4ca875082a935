/* SPDX-License-Identifier: Apache-2.0 */
/* git/pack_write: git reads what croft packs; what is there already is not packed again. */
#include "test.h"

#include <errno.h>

#include "git/pack_write.h"
#include "git/sum.h"
#include "git_world.h"

#define MANY 1500u

TEST(sums_are_the_known_ones)
{
	CHECK_INT(sum_crc32(CRC32_BEGIN, "123456789", 9), 0xcbf43926);
	CHECK_INT(sum_crc32(sum_crc32(CRC32_BEGIN, "1234", 4), "56789", 5), 0xcbf43926);
	CHECK_INT(sum_adler32(ADLER32_BEGIN, "Wikipedia", 9), 0x11e60398);
}

/* Sizes around every limit of the format, then small ones, all different. */
static size_t make_bytes(unsigned i, char *b)
{
	static const size_t sizes[] = {
		0, 1, 15, 16, 17, 2047, 2048, 2049, 65534, 65535, 65536, 131070, 131071, 262144};
	size_t n =
		i >= PACK_LOOSE && i - PACK_LOOSE < ARRAY_SIZE(sizes) ? sizes[i - PACK_LOOSE] : 64;

	for (size_t k = 0; k < n; k++)
		b[k] = (char)(k * 31 + i * 7 + (k >> 8));
	if (n >= 64)
		memcpy(b, &i, sizeof(i));
	return n;
}

static bool write_many(struct git_store *s, unsigned from, unsigned to, struct oid *ret)
{
	cleanup_free char *b = malloc((size_t)512 << 10);
	struct err e = ERR_INIT;

	for (unsigned i = from; b && i < to; i++)
		if (git_write(s, GIT_BLOB, b, make_bytes(i, b), &ret[i], &e) < 0)
			return false;
	return b != NULL;
}

/* A tree that names every blob, so that git can walk to them. */
static bool write_tree(struct git_store *s, const struct oid *v, unsigned n, struct oid *ret)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < n; i++) {
		buf_addf(&b, "100644 f%06u", i);
		buf_addc(&b, '\0');
		buf_add(&b, v[i].v, v[i].n);
	}
	return !b.failed && git_write(s, GIT_TREE, b.data, b.len, ret, &e) == 0;
}

static bool open_store(const struct world *w, enum git_hash h, struct git_store *s)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/.git/objects", w->work);
	*s = (struct git_store){.objects_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.hash = h,
		.sync = true};
	return s->objects_fd >= 0;
}

static void packs(const char *format, enum git_hash h)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_free struct oid *v = calloc(2 * (size_t)MANY, sizeof(*v));
	cleanup_free char *fsck = NULL, *walk = NULL, *loose = NULL, *before = NULL, *after = NULL;
	struct git_store s = {.objects_fd = -1};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;
	struct oid tree;
	char cmd[512];

	CHECK(v && world_make(&w, format) && open_store(&w, h, &s));
	objects = s.objects_fd;
	CHECK_INT(git_pack_begin(&s, &e), 0);
	CHECK(write_many(&s, 0, MANY, v));
	CHECK(write_many(&s, 0, MANY, v)); /* each once */
	CHECK(write_tree(&s, v, MANY, &tree));
	snprintf(cmd, sizeof(cmd), "git cat-file -e %s 2>/dev/null", oid_hex(&tree).s);
	CHECK(!world_sh(&w, cmd)); /* not before the end */
	CHECK_INT(git_pack_end(&s, &e), 0);
	CHECK(s.pack == NULL);
	CHECK(world_sh(&w, cmd));
	fsck = world_ask(&w,
		"git fsck --full --strict --no-dangling 2>fsck.err && ! grep -v ^notice: "
		"fsck.err && git verify-pack .git/objects/pack/*.idx && echo fine");
	CHECK_STR(fsck, "fine");
	snprintf(cmd, sizeof(cmd), "git rev-list --objects --no-object-names %s | wc -l",
		oid_hex(&tree).s);
	walk = world_ask(&w, cmd);
	snprintf(cmd, sizeof(cmd), "%u", MANY + 1);
	CHECK_STR(walk, cmd);
	loose = world_ask(
		&w, "git count-objects -v | sed -n 's/^count: //p;s/^in-pack: //p' | tr '\\n' ' '");
	snprintf(cmd, sizeof(cmd), "%u %u ", PACK_LOOSE, MANY - PACK_LOOSE + 1);
	CHECK_STR(loose, cmd);
	/* Git's own index of it is the same. */
	CHECK(world_sh(&w, "cd .git/objects/pack; git index-pack --strict -o ../../own.idx *.pack "
			   ">/dev/null; cmp ../../own.idx *.idx"));
	/* Again, and nothing is new; then something is. */
	before = world_ask(&w, "ls -A .git/objects/pack");
	CHECK_INT(git_pack_begin(&s, &e), 0);
	CHECK(write_many(&s, 0, MANY, v) && write_tree(&s, v, MANY, &tree));
	CHECK_INT(git_pack_end(&s, &e), 0);
	after = world_ask(&w, "ls -A .git/objects/pack");
	CHECK_STR(after, before);
	/* Given up: nothing is left of it. */
	CHECK_INT(git_pack_begin(&s, &e), 0);
	CHECK(write_many(&s, MANY, 2 * MANY, v));
	git_pack_drop(&s);
	git_pack_drop(&s);
	free(take_ptr(after));
	after = world_ask(&w, "ls -A .git/objects/pack");
	CHECK_STR(after, before);
	snprintf(cmd, sizeof(cmd), "git cat-file -e %s 2>/dev/null", oid_hex(&v[2 * MANY - 1]).s);
	CHECK(!world_sh(&w, cmd));
	/* The judge can tell: one byte else, and it complains. */
	CHECK(world_sh(&w, "chmod u+w .git/objects/pack/*.pack; ln .git/objects/pack/*.pack pack"));
	CHECK(test_invert(w.fd, "work/pack", 40000));
	CHECK(!world_sh(&w, "git verify-pack .git/objects/pack/*.idx 2>/dev/null"));
}

TEST(git_reads_packs_sha1)
{
	packs("sha1", GIT_SHA1);
}

TEST(git_reads_packs_sha256)
{
	packs("sha256", GIT_SHA256);
}

TEST(few_objects_make_no_pack)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_free char *files = NULL;
	struct oid v[PACK_LOOSE];
	struct git_store s = {.objects_fd = -1};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;

	CHECK(world_make(&w, "sha1") && open_store(&w, GIT_SHA1, &s));
	objects = s.objects_fd;
	CHECK_INT(git_pack_begin(&s, &e), 0);
	CHECK(write_many(&s, 0, PACK_LOOSE, v));
	CHECK_INT(git_pack_end(&s, &e), 0);
	files = world_ask(&w, "ls -A .git/objects/pack | wc -l; git count-objects | cut -d' ' -f1");
	CHECK_STR(files, "0\n256");
}
