/* SPDX-License-Identifier: Apache-2.0 */
/* Answering "why was this denied" from a stored receipt. */
#ifndef CROFT_SHOW_WHY_H
#define CROFT_SHOW_WHY_H

#include "base/buf.h"
#include "base/err.h"

/* id: "RUN", "RUN.N" or NULL for the latest run with something to ask about. */
int why_text(const char *home, const char *id, struct buf *out, struct err *e);
int why_json(const char *home, const char *id, struct buf *out, struct err *e);

#endif
