/* SPDX-License-Identifier: Apache-2.0 */
/* A receipt in the form in which it goes to callers as data (ipc/session_receipt.h). */
#ifndef CROFT_SESSION_RUN_RECEIPT_DATA_H
#define CROFT_SESSION_RUN_RECEIPT_DATA_H

#include "session/run/receipt.h"

/* r: sealed. Every string goes through `hidden`; NULL: what must be hidden is not known, so there is none. */
void receipt_pack(const struct receipt *r, struct redact *hidden, const char *event, struct buf *out);
/* One denial, as it happens. */
void receipt_pack_denial(const struct denial *d, struct redact *hidden, struct buf *out);
void receipt_pack_network_denial(
	const struct network_denial *d, struct redact *hidden, struct buf *out);

#endif
