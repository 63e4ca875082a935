/* SPDX-License-Identifier: Apache-2.0 */
/* Throwing staged work away, and bringing it back: layers change hands, nothing is copied or removed. */
#include "land/land.h"

#include <time.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "ledger/chain/predicate.h"

/* The tree is named when all of it was read; nobody waits for what is thrown away. */
static int note_discard(struct env *v, const struct changes *c, bool undone, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct oid_hex hex = c->unnamed ? (struct oid_hex){""} : oid_hex(&c->tree);
	const struct predicate_member m[] = {
		{"outcome", undone ? "brought back" : "discarded"}, {"tree", hex.s}};
	struct ledger_event ev = {.kind = EVENT_DISCARDED,
		.env_id = v->id,
		.env_name = v->name,
		.predicate_type = PREDICATE_EVENT,
		.subjects = {{.name = "tree", .algorithm = "gitTree", .value = hex.s}},
		.subjects_n = c->unnamed ? 0 : 1,
		.title = undone ? "bring back what was discarded" : "discard what is staged"};

	env_now(&ev.time);
	predicate_plain(m, c->unnamed ? 1 : ARRAY_SIZE(m), &b);
	ev.predicate = buf_str(&b);
	return b.failed ? land_no_memory(e) : env_event(v, &ev, e);
}

int land_discard(struct env *v, struct err *e)
{
	cleanup_changes struct changes c = {0};
	int rc;

	if ((rc = land_tip(v, e)) < 0 || (rc = env_look(v, &c, false, e)) < 0)
		return rc;
	if (c.n == 0 && c.ignored == 0)
		return err_invalid(e, "nothing is staged in %s", v->name);
	rc = env_drop_layers(v, e);
	return rc < 0 ? rc : note_discard(v, &c, false, e);
}

int land_undo_discard(struct env *v, struct err *e)
{
	cleanup_changes struct changes c = {0};
	int rc = land_tip(v, e);

	if (rc == 0)
		rc = env_undo_layers(v, e);
	if (rc == 0)
		rc = env_look(v, &c, false, e);
	return rc < 0 ? rc : note_discard(v, &c, true, e);
}
