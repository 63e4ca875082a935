/* SPDX-License-Identifier: Apache-2.0 */
/* session/run/diskwatch: however many names there are, a walk looks at so many and no more. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/footprint.h"
#include "os/tree.h"
#include "session/run/diskwatch.h"

#define FILES 300
#define FILE_B 8192

/* A directory with so many files, in a few directories. */
static void fill(const char *top)
{
	static const char block[FILE_B] = {1};
	char path[256];

	for (int i = 0; i < FILES; i++) {
		cleanup_fd int fd = -1;

		snprintf(path, sizeof(path), "%s/d%d", top, i % 7);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/d%d/%d", top, i % 7, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		CHECK(fd >= 0 && write(fd, block, sizeof(block)) == FILE_B);
	}
}

TEST(a_walk_has_a_budget)
{
	char top[] = "croft-disk.XXXXXX";
	struct footprint all = {0}, exact = {.entries_max = FILES + 7}, some = {.entries_max = FILES / 2};
	cleanup_fd int fd = -1;

	CHECK(mkdtemp(top) != NULL);
	fill(top);
	fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	footprint_add(&all, fd, UINT64_MAX - 1);
	CHECK(!all.cut && all.entries == FILES + 7 && all.used_b >= FILES * FILE_B);
	footprint_add(&exact, fd, UINT64_MAX - 1);
	CHECK(!exact.cut && exact.used_b == all.used_b);
	footprint_add(&some, fd, UINT64_MAX - 1);
	CHECK(some.cut && some.entries == FILES / 2 && some.used_b < all.used_b);
	footprint_add(&some, fd, UINT64_MAX - 1); /* another tree of the same walk */
	CHECK_INT(some.entries, FILES / 2);
	tree_remove_at(AT_FDCWD, top);
}

TEST(where_there_are_more_names_what_was_there_at_the_start_counts)
{
	char top[] = "croft-disk.XXXXXX";
	struct request_view view = {.kept = top};
	struct diskwatch w;
	uint64_t start;

	CHECK(mkdtemp(top) != NULL);
	fill(top);
	CHECK_INT(diskwatch_open(&w, NULL, &view, 1, 1ull << 40, &(struct err){0}), 0);
	start = w.start_used_b;
	CHECK(start >= FILES * FILE_B && !w.cut && w.entries_max == DISKWATCH_ENTRIES_MAX);
	diskwatch_again(&w);
	CHECK(!w.cut && w.used_b == start); /* the control */
	w.entries_max = 10;
	w.start_free_b += 1ull << 30; /* as if so much had been written since: more than others free */
	diskwatch_again(&w);
	CHECK(w.cut && w.used_b > start);
	w.limit_b = start + (1u << 20);
	CHECK(diskwatch_again(&w) && diskwatch_end(&w));
	diskwatch_close(&w);
	tree_remove_at(AT_FDCWD, top);
}
