/* SPDX-License-Identifier: Apache-2.0 */
/* core/record: denials are deduplicated and bounded; touched files settle to what is there. */
#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/run/record.h"

static struct policy no_policy;

static void tell(struct record *r, const char *path, enum notice_op op, bool denied, bool exists)
{
	struct notice n = {.op = (uint8_t)op, .denied = denied, .exists = exists};

	snprintf(n.path, sizeof(n.path), "%s", path);
	n.path_len = (uint32_t)strlen(n.path);
	record_notice(r, &n);
}

TEST(one_denial_per_path_and_operation)
{
	struct record r;

	record_init(&r, &no_policy, "/w");
	for (int i = 0; i < 1000; i++)
		tell(&r, "/secret", NOTICE_READ, true, true);
	tell(&r, "/secret", NOTICE_WRITE, true, true);
	CHECK_INT(r.denials_n, 2);
	CHECK_INT(r.denials[0].count, 1000);
	record_done(&r);
}

TEST(a_flood_is_counted_not_stored)
{
	struct record r;
	char path[64];

	record_init(&r, &no_policy, "/w");
	for (int i = 0; i < RECORD_DENIALS_MAX + 100; i++) {
		snprintf(path, sizeof(path), "/x/%d", i);
		tell(&r, path, NOTICE_READ, true, false);
	}
	CHECK_INT(r.denials_n, RECORD_DENIALS_MAX);
	CHECK_INT(r.denials_lost, 100);
	for (int i = 0; i < RECORD_FILES_MAX + 10; i++) {
		snprintf(path, sizeof(path), "/w/%d", i);
		tell(&r, path, NOTICE_CREATE, false, false);
	}
	CHECK(r.files_n <= RECORD_FILES_MAX);
	CHECK(r.files_full);
	record_done(&r);
}

TEST(files_settle_to_what_is_there)
{
	char dir[] = "/tmp/croft-unit-record-XXXXXX", path[128];
	struct record r;

	CHECK(mkdtemp(dir));
	record_init(&r, &no_policy, dir);
	snprintf(path, sizeof(path), "%s/kept", dir);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	tell(&r, path, NOTICE_CREATE, false, false);
	tell(&r, path, NOTICE_WRITE, false, true); /* first sight decides: it is new */
	snprintf(path, sizeof(path), "%s/gone", dir);
	tell(&r, path, NOTICE_DELETE, false, true);
	snprintf(path, sizeof(path), "%s/temporary", dir);
	tell(&r, path, NOTICE_CREATE, false, false);
	tell(&r, "/elsewhere", NOTICE_CREATE, false, false);
	record_settle(&r);
	CHECK_INT(r.files_n, 2);
	CHECK_INT(r.files[0].change, FILE_CREATED);
	CHECK_INT(r.files[1].change, FILE_DELETED);
	snprintf(path, sizeof(path), "%s/kept", dir);
	unlink(path);
	rmdir(dir);
	record_done(&r);
}
