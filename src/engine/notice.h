/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a watcher of the boundary saw: one attempt on one path or address. Sent as one SOCK_SEQPACKET
 * message (the header and exactly path_len bytes) by the broker, or handed over in-process by the observer
 * and the decoys. Text in it comes from the sandbox: hostile to terminals, never trusted as policy.
 */
#ifndef CROFT_ENGINE_NOTICE_H
#define CROFT_ENGINE_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

enum notice_op {
	NOTICE_READ,
	NOTICE_LOOK,  /* read, listed or only looked at: not known which */
	NOTICE_WRITE, /* open for writing an existing file, truncate */
	NOTICE_CREATE,
	NOTICE_DELETE,
	NOTICE_RENAME, /* path is the new name */
	NOTICE_META,   /* mode, owner, times, extended attributes */
	NOTICE_EXEC,
	NOTICE_CONNECT, /* by the broker: path is an address as text, or one of NOTICE_NO_… */
	NOTICE_OP_NUM,
};
extern const char *const notice_op_names[NOTICE_OP_NUM];
bool notice_changes(enum notice_op op);

/* NOTICE_CONNECT without an address. */
#define NOTICE_NO_DATAGRAMS "datagrams" /* a socket for them was refused */
#define NOTICE_NO_STREAMS "streams"     /* the same */
#define NOTICE_NO_SIGHT "unread"        /* the caller's memory is closed to the broker */

struct notice {
	uint8_t op;     /* enum notice_op */
	uint8_t denied; /* 1: refused (or certain to be); 0: seen and allowed */
	uint8_t source; /* enum notice_source */
	uint8_t exists; /* 1: the path existed before the call */
	int32_t pid;    /* in the watcher's pid namespace; 0 unknown */
	/* Notices that found no room since the last one sent: those of CONNECT, or all others. */
	uint32_t lost;
	uint32_t port; /* CONNECT; 0: none */
	uint32_t path_len;
	char path[POLICY_PATH_MAX]; /* absolute, as the sandbox names it; NUL-terminated */
};
enum notice_source {
	NOTICE_BY_OBSERVER,
	NOTICE_BY_BROKER,
	NOTICE_BY_DECOY,
	NOTICE_BY_TRAP, /* found afterwards: not who, nor how often */
	NOTICE_SOURCE_NUM,
};
extern const char *const notice_source_names[NOTICE_SOURCE_NUM];

#endif
