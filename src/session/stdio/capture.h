/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of what a command writes, on its way to where it goes: its head and its tail, as much as the
 * maxima allow; what was between them is counted. A terminal's output is one stream.
 *
 * The command gets a pipe (or the pty it would have had), the supervisor copies. A destination that is
 * slow slows the command as it would have without us; one that is gone (EPIPE) is gone for the command,
 * too. Files are appended as bytes come, so that a killed supervisor loses nothing that was captured.
 */
#ifndef CROFT_SESSION_STDIO_CAPTURE_H
#define CROFT_SESSION_STDIO_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTURE_HEAD_B (256u << 10)
#define CAPTURE_TAIL_B (256u << 10)

enum capture_stream { CAPTURE_OUT, CAPTURE_ERR, CAPTURE_STREAMS };

struct capture_file {
	int fd; /* the head is written here as it comes, the tail at the end; -1: not captured */
	uint64_t bytes; /* that the command wrote in all */
	uint64_t cut;   /* of these, how many are in neither head nor tail */
	char *tail;     /* ring of CAPTURE_TAIL_B */
	size_t head_n;  /* bytes that are in the file already */
	bool bad;       /* the file took no more: what follows is counted only */
	bool ended;
};

struct capture {
	struct capture_file file[CAPTURE_STREAMS];
	bool terminal; /* both are one stream (a terminal, or 2>&1), in file[CAPTURE_OUT] */
};

#define CAPTURE_INIT ((struct capture){.file = {{.fd = -1}, {.fd = -1}}})

/* Bytes that pass. */
void capture_add(struct capture_file *f, const void *p, size_t n);
/* The end: the tail to the file, with a line that says what is missing. Idempotent. */
void capture_end(struct capture *c);
void capture_done(struct capture *c); /* closes and frees */

#endif
