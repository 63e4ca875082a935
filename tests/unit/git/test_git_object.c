/* SPDX-License-Identifier: Apache-2.0 */
/* git/oid, git/object: names and files are those that git makes and reads. */
#include "test.h"

#include <errno.h>

#include "git_world.h"

static int objects_of(const struct world *w)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/.git/objects", w->work);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(names_parse_strictly)
{
	static const char hex[] = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
	struct oid o, p = {0};

	CHECK(oid_parse(&o, hex, 40));
	CHECK_STR(oid_hex(&o).s, hex);
	CHECK(!oid_is_none(&o) && oid_is_none(&p));
	CHECK_STR(oid_hex(&p).s, "");
	CHECK(!oid_parse(&o, hex, 39));
	CHECK(!oid_parse(&o, "E69de29bb2d1d6434b8b29ae775ad8c2e48c5391", 40));
	CHECK(!oid_parse(&o, "g69de29bb2d1d6434b8b29ae775ad8c2e48c5391", 40));
	oid_of(&p, GIT_SHA1, GIT_BLOB, "", 0);
	CHECK(oid_eq(&o, &p));
	oid_of(&p, GIT_SHA256, GIT_TREE, "", 0);
	CHECK_STR(
		oid_hex(&p).s, "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321");
	CHECK(!oid_eq(&o, &p));
}

/* Sizes around the borders of blocks and of what is read whole. */
static const size_t sizes[] = {
	0, 1, 65524, 65525, 65526, 65535, 65536, 131070, 262144, 262145, 1000003};

static void round_trip(const char *format)
{
	cleanup_world struct world w = {.fd = -1};
	struct git_store s = {
		.hash = str_eq(format, "sha256") ? GIT_SHA256 : GIT_SHA1, .sync = true};
	cleanup_fd int objects = -1;
	cleanup_free char *bytes = malloc(1 << 20);

	CHECK(world_make(&w, format));
	objects = s.objects_fd = objects_of(&w);
	CHECK(objects >= 0 && bytes);
	for (size_t i = 0; i < 1 << 20; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		cleanup_fd int fd =
			openat(w.fd, "work/f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		struct git_store name_only = {.hash = s.hash, .objects_fd = -1};
		cleanup_free char *name = NULL, *same = NULL;
		char cmd[256];
		struct oid o, p, q;
		struct err e = ERR_INIT;

		CHECK_INT(fd_write_all(fd, bytes, sizes[i]), 0);
		CHECK_INT(git_write_file(&name_only, fd, &p, &e), 0);
		/* the file first, then memory; the other way round for every second */
		if (i % 2)
			CHECK_INT(git_write_file(&s, fd, &o, &e), 0);
		CHECK_INT(git_write(&s, GIT_BLOB, bytes, sizes[i], &q, &e), 0);
		CHECK_INT(git_write_file(&s, fd, &o, &e), 0);
		CHECK_INT(git_store_name(&s, &e), 0);
		name = world_ask(&w, "git hash-object --no-filters f");
		CHECK_STR(oid_hex(&o).s, name);
		CHECK(oid_eq(&o, &p) && oid_eq(&o, &q));
		snprintf(cmd, sizeof(cmd), "git cat-file blob %s | cmp - f && echo same", name);
		same = world_ask(&w, cmd);
		CHECK_STR(same, "same");
	}
	{
		cleanup_free char *fsck = world_ask(&w,
			"git fsck --full >/dev/null 2>/dev/null && git cat-file "
			"--batch-all-objects --batch-check='%(objectname)' | git pack-objects -q "
			".git/objects/pack/pack >/dev/null && git prune-packed && git fsck --full "
			">/dev/null 2>/dev/null && ! ls .git/objects | grep tmp_ && echo fine");

		CHECK_STR(fsck, "fine");
	}
}

TEST(git_reads_what_we_write_sha1)
{
	round_trip("sha1");
}

TEST(git_reads_what_we_write_sha256)
{
	round_trip("sha256");
}

/* Zeros as holes and as bytes, of lengths around what deflate's longest match and a byte of codes hold. */
TEST(l10_runs_of_zeros_are_kept_small_and_exact)
{
	static const off_t runs[] = {1, 2, 3, 257, 258, 259, 260, 516, 517, 774, 775, 1032, 1033,
		1034, 1290, 1291, 1292, 4095, 4096, 4097, 65535, 65536, 65537, 262144, 1048576 + 77,
		64 << 20};
	cleanup_world struct world w = {.fd = -1};
	struct git_store s = {.hash = GIT_SHA1};
	cleanup_fd int objects = -1;
	cleanup_free char *bytes = malloc(300001);

	CHECK(world_make(&w, "sha1"));
	objects = s.objects_fd = objects_of(&w);
	CHECK(objects >= 0 && bytes);
	for (size_t i = 0; i < 300001; i++)
		bytes[i] = (char)(i * 2654435761u >> 13 | 1);
	for (size_t i = 0; i < 3 * ARRAY_SIZE(runs); i++) {
		off_t run = runs[i / 3];
		cleanup_fd int fd =
			openat(w.fd, "work/f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		cleanup_free char *name = NULL, *same = NULL;
		struct git_store name_only = {.hash = s.hash, .objects_fd = -1};
		struct err e = ERR_INIT;
		struct stat st;
		struct oid o, p;
		char cmd[256];

		/* A hole at the end; a hole between; zeros that were written, at the beginning. */
		if (i % 3 == 2)
			CHECK(lseek(fd, run, SEEK_SET) >= 0);
		CHECK_INT(fd_write_all(fd, bytes, 300001), 0);
		if (i % 3 != 2)
			CHECK_INT(ftruncate(fd, 300001 + run), 0);
		if (i % 3 == 1)
			CHECK(lseek(fd, 0, SEEK_END) >= 0 && fd_write_all(fd, bytes, 5000) == 0);
		if (i % 3 == 2 && run <= 1 << 20)
			for (off_t at = 0; at < run; at += 4096)
				CHECK(pwrite(fd, "\0", 1, at) == 1);
		CHECK_INT(git_write_file(&name_only, fd, &p, &e), 0);
		CHECK_INT(git_write_file(&s, fd, &o, &e), 0);
		name = world_ask(&w, "git hash-object --no-filters f");
		CHECK_STR(oid_hex(&o).s, name);
		CHECK(oid_eq(&o, &p));
		snprintf(cmd, sizeof(cmd), "git cat-file blob %s | cmp - f && echo same", name);
		same = world_ask(&w, cmd);
		CHECK_STR(same, "same");
		snprintf(cmd, sizeof(cmd), "%.2s/%s", name, name + 2);
		CHECK_INT(fstatat(objects, cmd, &st, 0), 0);
		CHECK(st.st_size < 300001 + 5000 + 4096 * 3 + run / 1000);
	}
	{
		cleanup_free char *fsck =
			world_ask(&w, "git fsck --full >/dev/null 2>/dev/null && echo fine");

		CHECK_STR(fsck, "fine");
	}
}

TEST(what_is_there_is_left_alone_unless_empty)
{
	cleanup_world struct world w = {.fd = -1};
	struct git_store s = {.hash = GIT_SHA1};
	cleanup_fd int objects = -1;
	struct stat a, b;
	struct err e = ERR_INIT;
	struct oid o;
	char path[80];

	CHECK(world_make(&w, "sha1"));
	objects = s.objects_fd = objects_of(&w);
	CHECK_INT(git_write(&s, GIT_BLOB, "hello\n", 6, &o, &e), 0);
	CHECK_STR(oid_hex(&o).s, "ce013625030ba8dba906f756967f9e9ca394464a");
	snprintf(path, sizeof(path), "ce/%s", oid_hex(&o).s + 2);
	CHECK_INT(fstatat(objects, path, &a, 0), 0);
	CHECK_INT(a.st_mode & 07333, 0);
	CHECK_INT(git_write(&s, GIT_BLOB, "hello\n", 6, &o, &e), 0);
	CHECK_INT(fstatat(objects, path, &b, 0), 0);
	CHECK(a.st_ino == b.st_ino);
	/* An empty file is what is left after a power failure. */
	CHECK_INT(fchmodat(objects, path, 0600, 0), 0);
	close(openat(objects, path, O_WRONLY | O_TRUNC | O_CLOEXEC));
	CHECK_INT(git_write(&s, GIT_BLOB, "hello\n", 6, &o, &e), 0);
	CHECK_INT(fstatat(objects, path, &b, 0), 0);
	CHECK_INT(b.st_size, a.st_size);
}

TEST(synced_objects_are_named_together_or_not_at_all)
{
	cleanup_world struct world w = {.fd = -1};
	struct git_store s = {.hash = GIT_SHA1, .sync = true};
	cleanup_free char *kept = NULL, *left = NULL;
	struct err e = ERR_INIT;
	struct oid o;

	CHECK(world_make(&w, "sha1"));
	s.objects_fd = objects_of(&w);
	CHECK_INT(git_write(&s, GIT_BLOB, "dropped\n", 8, &o, &e), 0);
	git_store_close(&s);
	left = world_ask(&w, "find .git/objects -type f | wc -l");
	CHECK_STR(left, "0");
	s.objects_fd = objects_of(&w);
	/* More than are kept waiting, some twice. */
	for (int i = 0; i < 3 * GIT_PENDING_MAX; i++) {
		char text[16];
		int n = snprintf(text, sizeof(text), "%d", i / 2);

		CHECK_INT(git_write(&s, GIT_BLOB, text, (size_t)n, &o, &e), 0);
	}
	CHECK_INT(git_store_flush(&s, &e), 0);
	git_store_close(&s);
	kept = world_ask(
		&w, "git fsck --full >/dev/null 2>&1 && find .git/objects -type f | wc -l");
	CHECK_STR(kept, "12");
}

TEST(only_regular_files_and_only_writable_places)
{
	cleanup_world struct world w = {.fd = -1};
	struct git_store s = {.hash = GIT_SHA1, .objects_fd = -1};
	cleanup_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cleanup_fd int nowhere = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = ERR_INIT;
	struct oid o = {.n = 7};

	CHECK(world_make(&w, NULL));
	CHECK_INT(git_write_file(&s, null, &o, &e), -EINVAL);
	s.objects_fd = nowhere;
	CHECK(git_write(&s, GIT_BLOB, "x", 1, &o, &e) < 0);
	CHECK(strstr(e.msg, "write Git object"));
	CHECK_INT(o.n, 7);
}
