/* SPDX-License-Identifier: Apache-2.0 */
/* Environments as people and programs read them. */
#ifndef CROFT_SHOW_ENV_REPORT_H
#define CROFT_SHOW_ENV_REPORT_H

#include "base/buf.h"
#include "env/env.h"
#include "env/env_gc.h"

/* After `croft new`: what it is and what to do with it. */
void env_report_new(const struct env *v, struct buf *out);
/* c NULL: without changes. */
void env_report_json(const struct env *v, const struct changes *c, struct buf *out);
void env_report_text(const struct env *v, const struct changes *c, struct buf *out);
/* all: of every directory; else of the current one. */
int env_report_list(
	bool all, bool json, const struct strlist *notes, struct buf *out, struct err *e);
/* Their names alone, one in each line. */
int env_report_names(bool all, struct buf *out, struct err *e);
/* The name of the one of this directory that was made last, if there is one. */
int env_report_last(struct buf *out, struct err *e);
void env_report_gc(const struct gc_report *g, const struct strlist *notes, bool dry_run, bool json,
	struct buf *out);

#endif
