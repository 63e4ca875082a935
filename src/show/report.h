/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a bundle: what a reviewer reads first. Markdown and HTML say the same. */
#ifndef CROFT_SHOW_REPORT_H
#define CROFT_SHOW_REPORT_H

#include "show/document.h"
#include "ledger/chain/story.h"

/* Tables end here with a count of the rest; everything is in the receipts. */
#define REPORT_ROWS_MAX 2000u
#define REPORT_MAX_B (64u << 20)

/* A file of the change. */
struct report_file {
	const char *path;
	unsigned old_mode, new_mode; /* 0: not there */
	int64_t added, deleted;      /* -1: binary */
	const char *runs;            /* why it runs on the reader's machine, or NULL */
	const char *refused;         /* why it does not land, or NULL */
};

struct report {
	const struct story *story;
	const struct ledger_verdict *verdict;
	const char *version; /* croft's */
	const char *env_name, *env_id;
	bool landed;           /* files: what landed; else what is staged */
	const char *no_files;  /* why the change is not here; NULL: it is */
	const char *from, *to; /* trees */
	const char *commit;    /* that landed, or NULL */
	struct report_file *files;
	size_t files_n;
};

void report_write(const struct report *r, enum doc_format f, struct buf *out);

#endif
