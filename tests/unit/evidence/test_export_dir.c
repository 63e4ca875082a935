/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a bundle: whole or not there, and never over somebody's files. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "evidence/export.h"
#include "os/tree.h"

struct place {
	char top[64], dir[96];
};

static bool place_make(struct place *p)
{
	snprintf(p->top, sizeof(p->top), "/tmp/croft-export.XXXXXX");
	if (!mkdtemp(p->top))
		return false;
	snprintf(p->dir, sizeof(p->dir), "%s/out", p->top);
	return true;
}

static void place_done(struct place *p)
{
	tree_remove_at(AT_FDCWD, p->top);
}
#define PLACE(p)                                                                                   \
	__attribute__((cleanup(place_done))) struct place p;                                       \
	CHECK(place_make(&p))

/* How many names a directory has. */
static int count(const char *path)
{
	cleanup_dir DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	return d ? n - 2 : -1;
}

TEST(finished)
{
	cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;
	struct err e = ERR_INIT;
	char path[160], text[512] = "";
	cleanup_fd int fd = -1;
	PLACE(p);

	CHECK_INT(export_dir_open(&d, p.dir, &e), 0);
	CHECK_INT(export_dir_sub(&d, "receipts", &e), 0);
	CHECK_INT(export_dir_put(&d, "b", "text", 4, &e), 0);
	CHECK_INT(export_dir_put(&d, "receipts/1.json", "{}", 2, &e), 0);
	CHECK(export_dir_put(&d, "b", "again", 5, &e) < 0);
	CHECK_INT(count(p.dir), -1); /* not before it is whole */
	CHECK_INT(export_dir_finish(&d, &e), 0);
	CHECK_INT(count(p.dir), 3);
	CHECK_INT(count(p.top), 1);
	snprintf(path, sizeof(path), "%s/MANIFEST", p.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	CHECK_STR(text, "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1  b\n"
			"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a  "
			"receipts/1.json\n");
}

TEST(unfinished_leaves_nothing)
{
	struct err e = ERR_INIT;
	PLACE(p);

	{
		cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;

		CHECK_INT(export_dir_open(&d, p.dir, &e), 0);
		CHECK_INT(export_dir_put(&d, "b", "text", 4, &e), 0);
		CHECK_INT(count(p.top), 1);
	}
	CHECK_INT(count(p.top), 0);
}

TEST(what_is_there_stays)
{
	struct err e = ERR_INIT;
	char file[160];
	PLACE(p);

	snprintf(file, sizeof(file), "%s/mine", p.dir);
	CHECK_INT(mkdir(p.dir, 0700), 0);
	{
		cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;

		CHECK_INT(export_dir_open(&d, p.dir, &e), 0); /* empty is fine */
		close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		CHECK(export_dir_finish(&d, &e) < 0); /* filled meanwhile */
	}
	CHECK_INT(count(p.dir), 1);
	CHECK_INT(count(p.top), 1);
	{
		cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;

		CHECK(export_dir_open(&d, p.dir, &e) < 0);
		CHECK(strstr(e.msg, "holds something already"));
	}
	{
		cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;

		CHECK(export_dir_open(&d, file, &e) < 0);
	}
	snprintf(file, sizeof(file), "%s/link", p.top);
	CHECK_INT(symlink("/tmp", file), 0);
	{
		cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;

		CHECK(export_dir_open(&d, file, &e) < 0);
	}
	{
		cleanup_export_dir struct export_dir d = EXPORT_DIR_INIT;

		CHECK(export_dir_open(&d, "/nonexistent/x", &e) < 0);
	}
}
