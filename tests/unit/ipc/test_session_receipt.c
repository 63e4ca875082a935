/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts as data, between a session and its callers; and the reasons of errors beside them. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ipc/session_link.h"
#include "ipc/session_receipt.h"
#include "test.h"

static void pack_one(struct buf *b)
{
	static char timeout[] = "timeout", rlimits[] = "held by rlimits", cgroup[] = "no cgroup";
	char *hit[] = {timeout, NULL}, *worse[] = {rlimits, cgroup, NULL};
	struct session_denial d[] = {{.attempt = 2, .count = 3, .target = "/etc/x", .rule = "deny /etc"},
		{.attempt = 8, .port = 443, .target = "a.example", .method = "GET", .path = "/"}};
	struct session_changed c[] = {{.change = 1, .path = "/w/a"}};
	const struct session_receipt r = {.id = "0123456789",
		.event = "12.3",
		.tier = "namespace",
		.exit = 124,
		.signal = -1,
		.timed_out = true,
		.wall_us = 1ull << 40,
		.limits = {1ull << 33, 1500, 20, 64, UINT64_MAX},
		.limits_hit = hit,
		.degradations = worse,
		.denials = d,
		.denials_n = 2,
		.denials_lost = 7,
		.changed = c,
		.changed_n = 1};

	session_receipt_pack(b, &r);
}

TEST(receipt_comes_back_as_it_was)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	struct session_receipt r = {0};

	pack_one(&b);
	CHECK(session_receipt_unpack(&r, b.data, b.len) == 0);
	CHECK(strcmp(r.event, "12.3") == 0 && r.exit == 124 && r.signal == -1 && r.timed_out);
	CHECK(r.wall_us == 1ull << 40 && strcmp(r.limits_hit[0], "timeout") == 0 && !r.limits_hit[1]);
	CHECK(r.limits.memory_b == 1ull << 33 && r.limits.cpu_milli == 1500 && r.limits.pids == 20);
	CHECK(r.limits.open_files == 64 && r.limits.file_size_b == UINT64_MAX);
	CHECK(strcmp(r.degradations[1], "no cgroup") == 0 && !r.degradations[2]);
	CHECK(r.denials_n == 2 && r.denials_lost == 7 && r.denials[1].port == 443);
	CHECK(strcmp(r.denials[0].target, "/etc/x") == 0 && r.denials[0].count == 3);
	CHECK(strcmp(r.denials[0].method, "") == 0);
	CHECK(r.changed_n == 1 && strcmp(r.changed[0].path, "/w/a") == 0 && r.changed[0].change == 1);
	session_receipt_done(&r);
}

TEST(a_request_to_run_comes_back_with_its_limits)
{
	static char sh[] = "sh";
	char *argv[] = {sh, NULL}, *none[] = {NULL};
	const struct session_exec x = {.flags = SESSION_EXEC_DETACH,
		.timeout_ms = 7,
		.limits = {1, 2, 3, 4, UINT64_MAX},
		.cwd = "/w",
		.label = "x",
		.argv = argv,
		.environ = none,
		.set = none};
	cleanup_buf struct buf b = BUF_INIT(65536);
	struct session_exec back = {0};

	session_exec_pack(&b, &x);
	CHECK(session_exec_unpack(&back, b.data, b.len) == 0);
	CHECK(back.timeout_ms == 7 && memcmp(&back.limits, &x.limits, sizeof(x.limits)) == 0);
	CHECK(strcmp(back.argv[0], "sh") == 0 && strcmp(back.cwd, "/w") == 0);
	session_exec_done(&back);
	for (size_t n = 0; n < b.len; n++)
		CHECK(session_exec_unpack(&back, b.data, n) == -EPROTO);
}

TEST(receipt_that_is_cut_or_longer_is_refused)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	struct session_receipt r = {.exit = 5};

	pack_one(&b);
	for (size_t n = 0; n < b.len; n++)
		CHECK(session_receipt_unpack(&r, b.data, n) == -EPROTO);
	buf_addc(&b, '\0');
	CHECK(session_receipt_unpack(&r, b.data, b.len) == -EPROTO);
	CHECK(r.exit == 5); /* untouched */
}

TEST(receipt_with_too_many_denials_is_refused)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	static struct session_denial d[SESSION_DENIALS_MAX + 1];
	struct session_receipt r = {.denials = d, .denials_n = SESSION_DENIALS_MAX}, back;

	session_receipt_pack(&b, &r);
	CHECK(session_receipt_unpack(&back, b.data, b.len) == 0);
	CHECK(back.denials_n == SESSION_DENIALS_MAX);
	session_receipt_done(&back);
	r.denials_n++;
	buf_reset(&b);
	session_receipt_pack(&b, &r);
	CHECK(session_receipt_unpack(&back, b.data, b.len) == -EPROTO);
}

TEST(exit_carries_a_receipt)
{
	cleanup_buf struct buf b = BUF_INIT(65536), receipt = BUF_INIT(65536);
	struct session_exit x = {.code = 3}, back;

	pack_one(&receipt);
	x.receipt = receipt.data;
	x.receipt_n = receipt.len;
	session_exit_pack(&b, &x);
	CHECK(session_exit_unpack(&back, b.data, b.len) == 0);
	CHECK(back.code == 3 && back.receipt_n == receipt.len);
	CHECK(memcmp(back.receipt, receipt.data, receipt.len) == 0);
}

TEST(every_reason_has_a_word_and_a_status)
{
	for (int i = 0; i < ERR_WHY_NUM; i++) {
		int exit = err_reason_exit((enum err_reason)i);

		CHECK(err_reason_name((enum err_reason)i) != NULL);
		CHECK(exit >= 125 && exit <= 127);
		for (int k = 0; k < i; k++)
			CHECK(strcmp(err_reason_name((enum err_reason)i),
				      err_reason_name((enum err_reason)k)) != 0);
	}
	CHECK(err_reason_name(ERR_WHY_NUM) == NULL);
}

TEST(reason_follows_kind_and_number_until_it_is_said)
{
	struct err e = ERR_INIT;

	CHECK(err_reason(&e) == ERR_WHY_NONE);
	err_set(&e, ENOSPC, "write");
	CHECK(err_reason(&e) == ERR_WHY_NO_SPACE && err_exit_code(&e) == 125);
	err_no_boundary(&e, "no user namespaces here");
	CHECK(err_reason(&e) == ERR_WHY_UNENFORCEABLE && err_exit_code(&e) == 126);
	CHECK(err_why(&e, ERR_WHY_PAUSED, err_refuse(&e, "it is paused")) == -EPERM);
	CHECK(err_reason(&e) == ERR_WHY_PAUSED);
	err_wrap(&e, "start");
	CHECK(err_reason(&e) == ERR_WHY_PAUSED); /* context does not change it */
	err_invalid(&e, "another failure");
	CHECK(err_reason(&e) == ERR_WHY_INVALID); /* and does not inherit it */
}
