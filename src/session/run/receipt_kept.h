/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts with something to ask about, which are kept for croft why. */
#ifndef CROFT_SESSION_RUN_RECEIPT_KEPT_H
#define CROFT_SESSION_RUN_RECEIPT_KEPT_H

#include "session/run/receipt.h"

/*
 * Something was denied, a limit was hit, something was planted, or the network was used: it is kept. If that
 * fails, it is a degradation. hidden: what must not be in it; NULL: r->hidden.
 */
void receipt_keep(struct receipt *r, const char *home, struct redact *hidden);

#endif
