/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts for croft why: see receipt_kept.h. */
#include "session/run/receipt_kept.h"

#include "base/cleanup.h"
#include "session/config/state.h"

void receipt_keep(struct receipt *r, const char *home, struct redact *hidden)
{
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);
	struct err e = ERR_INIT;

	if (!r->record.denials_n && !r->limits_hit.n && !r->network.denials_n && !r->planted.n &&
		(r->network.state <= NETWORK_IDLE || r->network.shared))
		return;
	if (hidden)
		receipt_json_hiding(r, hidden, &b, true);
	else
		receipt_json(r, &b, true);
	if (!b.failed && state_save_run(home, r->id, buf_str(&b), b.len, &e) < 0)
		receipt_degrade(r, "croft why will not know this run: %s", e.msg);
}
