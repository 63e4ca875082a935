/* SPDX-License-Identifier: Apache-2.0 */
/* What a session and its callers say to each other: frames, and the bodies that have a form of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipc/session_link.h"
#include "ipc/session_receipt.h"
#include "must.h"

static void try_bodies(const struct session_frame *f)
{
	struct session_receipt r;
	struct session_exec x;
	struct session_exit e;

	if (session_exec_unpack(&x, f->body, f->n) == 0) {
		MUST(x.argv && x.argv[0] && x.argv[0][0]);
		MUST(!x.cwd[0] || x.cwd[0] == '/');
		session_exec_done(&x);
	}
	if (session_exit_unpack(&e, f->body, f->n) == 0 && e.receipt_n &&
		session_receipt_unpack(&r, e.receipt, e.receipt_n) == 0)
		session_receipt_done(&r);
	if (session_receipt_unpack(&r, f->body, f->n) == 0) {
		MUST(r.denials_n <= SESSION_DENIALS_MAX && r.changed_n <= SESSION_CHANGED_MAX);
		session_receipt_done(&r);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct session_link l = SESSION_LINK_INIT;
	struct session_frame f;

	buf_add(&l.in, p, n);
	while (session_link_next(&l, &f) == 1) {
		MUST(f.n <= SESSION_BODY_MAX);
		try_bodies(&f);
	}
	session_link_done(&l);
	return 0;
}
