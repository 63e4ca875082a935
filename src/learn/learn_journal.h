/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's network journal, read back.
 *
 * Trust:   the lines were written by a process that parses hostile bytes. One flat JSON object a
 *          line, every text bounded, no key twice; what is anything else is skipped and counted.
 * Limits:  LEARN_JOURNAL_MAX_B, LEARN_LINES_MAX, LEARN_LINE_MAX_B for one of them.
 */
#ifndef CROFT_LEARN_LEARN_JOURNAL_H
#define CROFT_LEARN_LEARN_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEARN_JOURNAL_MAX_B (64u << 20)
#define LEARN_LINES_MAX 200000u
#define LEARN_LINE_MAX_B (33u << 10)

struct learn_line { /* what a line does not say is "" or 0 */
	char type[16];
	char host[256];
	char mode[16];
	char rule[160];
	char effect[8];
	char method[32];
	char path[1200];
	char reason[300];
	uint64_t port, status;
};

struct learn_journal {
	uint64_t lines, odd;
	bool whole; /* everything up to its end was read, and its writer had not stopped before */
};

/* One line without its newline. */
bool learn_line_parse(struct learn_line *ret, const char *text, size_t n);
/* From fd's position to its end, or to a limit. 0 or -errno. */
int learn_journal_read(int fd, struct learn_journal *ret,
	void (*each)(void *arg, const struct learn_line *l), void *arg);

#endif
