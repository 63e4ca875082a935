/* SPDX-License-Identifier: Apache-2.0 */
/*
 * croft's own files: $XDG_STATE_HOME/croft (or ~/.local/state/croft), mode 0700, never granted to a
 * sandbox by any layer. runs/ID.json holds receipts worth asking about (those with denials or
 * limits hit), at most STATE_RUNS_MAX of them.
 */
#ifndef CROFT_SESSION_CONFIG_STATE_H
#define CROFT_SESSION_CONFIG_STATE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "ledger/redact/redact.h"

#define STATE_RUNS_MAX 128

/* Absolute path of the state directory. */
int state_path(char *ret, size_t size, const char *home, struct err *e);
/* The state directory itself, for small things that can be made again; -1 when there is none. */
int state_cache(const char *home);
/*
 * 32 bytes that belong to this user and this project, the same each time. They come from random ones in the
 * file "seed", which is made when it is not there.
 */
int state_seed(const char *home, const char *project, uint8_t ret[32], struct err *e);
/*
 * projects/KEY, which is made when it is not there: what is kept for one project beside its environments. Its
 * file "directory" says whose it is. A descriptor for reading, or -errno.
 */
int state_project(const char *home, const char *project, struct err *e);
/* runs/ID.net.jsonl, append-only: what a run's gateway writes down. Kept as long as its receipt. */
int state_open_journal(const char *home, const char *id, struct err *e);
/* The run has ended: secrets out of its journal. hidden NULL, or a failure: the journal goes. */
int state_hide_journal(const char *home, const char *id, struct redact *hidden, struct err *e);
int state_save_run(const char *home, const char *id, const void *json, size_t n, struct err *e);
/* id NULL: the latest. */
int state_load_run(const char *home, const char *id, struct buf *ret, struct err *e);

#endif
