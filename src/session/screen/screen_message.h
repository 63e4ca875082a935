/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session and its croft-screen say to each other, over a SOCK_SEQPACKET: a header, and bytes
 * behind it where the kind has some.
 *
 * Trust: croft-screen believes the session. The session believes nothing: the other side has parsed
 *        what a sandbox wrote.
 */
#ifndef CROFT_SESSION_SCREEN_SCREEN_MESSAGE_H
#define CROFT_SESSION_SCREEN_SCREEN_MESSAGE_H

#include <stdint.h>

#define SCREEN_FD 3                 /* where croft-screen finds its socket */
#define SCREEN_PART_MAX (16u << 10) /* bytes behind a header */
#define SCREEN_DUMP_MAX (1u << 20)

enum screen_say {
	SCREEN_FEED,   /* bytes of the pty */
	SCREEN_RESIZE, /* a rows, b columns */
	SCREEN_LOSE,   /* bytes are missing here */
	SCREEN_DUMP,   /* a: number of the request */
};

struct screen_order {
	uint32_t say; /* enum screen_say */
	uint32_t a, b;
};

enum screen_flag {
	SCREEN_LAST = 1 << 0,    /* the dump is complete */
	SCREEN_INEXACT = 1 << 1, /* bytes were lost, or the dump had to be trimmed */
};

/* Part of a dump. */
struct screen_answer {
	uint32_t number; /* of the request */
	uint32_t flags;
};

#endif
