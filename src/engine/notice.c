/* SPDX-License-Identifier: Apache-2.0 */
/* Names of what watchers report: see notice.h. */
#include "engine/notice.h"

#include <assert.h>

#include "base/cleanup.h"

const char *const notice_op_names[NOTICE_OP_NUM] = {
	[NOTICE_READ] = "read",
	[NOTICE_LOOK] = "look",
	[NOTICE_WRITE] = "write",
	[NOTICE_CREATE] = "create",
	[NOTICE_DELETE] = "delete",
	[NOTICE_RENAME] = "rename",
	[NOTICE_META] = "metadata",
	[NOTICE_EXEC] = "exec",
	[NOTICE_CONNECT] = "connect",
};
static_assert(NOTICE_OP_NUM == NOTICE_CONNECT + 1, "every operation has a name");

const char *const notice_source_names[NOTICE_SOURCE_NUM] = {
	[NOTICE_BY_OBSERVER] = "observer",
	[NOTICE_BY_BROKER] = "broker",
	[NOTICE_BY_DECOY] = "decoy",
	[NOTICE_BY_TRAP] = "trap",
};
static_assert(NOTICE_SOURCE_NUM == NOTICE_BY_TRAP + 1, "every source has a name");

bool notice_changes(enum notice_op op)
{
	return op != NOTICE_READ && op != NOTICE_LOOK && op != NOTICE_EXEC && op != NOTICE_CONNECT;
}
