/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a merge does beyond merging: see gate.h.
 *
 * A merge of two is made again from its parents. When git alone comes to the same tree, it brings nothing
 * that its parents do not. Otherwise it changes what git would have made of them, and that is judged as
 * the change of any commit is; so one that keeps the tree of either parent, and with it takes back what
 * the other brought, is seen whichever parent comes first. What cannot be made again (more parents, no
 * common history, an old git) is compared with every parent.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/gate.h"
#include "git/program.h"

#define LIST_MAX_B (256u << 20)

/* 1: the tree is in *ret, with marks in what conflicts; 0: it cannot be said. */
static int merge_again(
	const struct gate_commit *c, const struct repo *r, struct oid *ret, struct err *e)
{
	const struct oid_hex a = oid_hex(&c->parents[0]), b = oid_hex(&c->parents[1]);
	const char *argv[] = {"merge-tree", "--write-tree", "--no-messages", a.s, b.s, NULL};
	const char *env[] = {GATE_WHOLE_HISTORY, NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct git_run run = {
		.argv = argv, .git_dir = r->store, .env = env, .out = &out, .any_status = true};
	int x;

	if (c->parents_n != 2)
		return 0;
	x = git_run(&run, e);
	if (x < 0)
		return x;
	return run.status <= 1 && oid_parse(ret, buf_str(&out), strcspn(buf_str(&out), "\n"));
}

/* From this tree or commit to the merge's tree. */
static int add_change(
	struct gate_commit *c, const struct repo *r, const struct oid *from, struct err *e)
{
	const struct oid_hex a = oid_hex(from), b = oid_hex(&c->tree);
	const char *argv[] = {"diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev",
		"--ignore-submodules=none", a.s, b.s, NULL};
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct gate_commits one = {.v = c, .n = 1};
	struct git_run run = {.argv = argv, .git_dir = r->store, .out = &out};
	int x;

	/* As if it were one of a list. */
	buf_adds(&out, oid_hex(&c->oid).s);
	buf_add(&out, "", 1);
	x = git_run(&run, e);
	return x < 0 ? x : gate_commits_paths(&one, buf_str(&out), out.len, e);
}

int gate_merge_look(struct gate_commit *c, const struct repo *r, struct err *e)
{
	struct oid again = {0};
	int x = merge_again(c, r, &again, e);

	c->plain_merge = x == 1 && oid_eq(&again, &c->tree);
	if (x < 0 || c->plain_merge)
		return x < 0 ? x : 0;
	if (x == 1)
		return add_change(c, r, &again, e);
	for (int i = 0; i < c->parents_n && x == 0; i++)
		x = add_change(c, r, &c->parents[i], e);
	return x;
}
