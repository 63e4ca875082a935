/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in a session's journal: a head of fixed length with a CRC-32 over the rest, then up to
 * SFRAME_PARTS parts of any bytes.
 *
 * A crash can leave anything at the end of the file. The reader stops at the first record that is not
 * whole, and nothing after it counts. The file is the user's own (0600, below the state directory): the sum
 * recognises accidents, not enemies.
 */
#ifndef CROFT_ENV_SESSION_FRAME_H
#define CROFT_ENV_SESSION_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define SFRAME_HEAD_LEN 44u
#define SFRAME_PARTS 4
#define SFRAME_PART_MAX_B (32u << 20)

enum sframe_kind {
	SFRAME_SESSION = 1, /* first of a file: JSON of what came before it (session_impl.h) */
	SFRAME_STARTED,     /* entry */
	SFRAME_ENDED,       /* entry, receipt (a line of JSON), output */
	SFRAME_OTHER,       /* entry: a process that was interrupted or never came to exist */
	SFRAME_NETWORK,     /* lines of JSON: the gateway's journal */
	SFRAME_SEAL,        /* JSON: what the batch's event will say beside its entries */
	SFRAME_SEALED,      /* SHA-256 of the envelope of the event, which is in the ledger */
	SFRAME_KIND_END
};

struct sframe {
	enum sframe_kind kind;
	uint32_t batch, entry, process;
	struct sframe_part {
		const char *p;
		size_t n;
	} part[SFRAME_PARTS];
};

/*
 * As a file has it: head is filled, iov gets it and the parts. Returns the length in all, or 0: a part is too
 * long.
 */
size_t sframe_write(const struct sframe *f, unsigned char head[SFRAME_HEAD_LEN],
	struct iovec iov[1 + SFRAME_PARTS]);
/* The one at *at, which moves behind it: 1; 0: the end; -EBADMSG: not whole, or not a record. */
int sframe_next(const void *p, size_t n, size_t *at, struct sframe *ret);

#endif
