/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values leave no trace in what comes back.
 *
 * Purpose: a server may echo what it was sent. The keeper gives every answer through here before
 *          the gateway, and so the sandbox, can see it: a value in plain, base64 (three alignments)
 *          or hexadecimal, also percent-encoded or JSON-escaped, becomes as many '*'.
 * Trust:   the sandbox may choose what a server echoes, and measure when it comes back and in which
 *          pieces. When bytes are given out depends on where the lines end, on how the text is
 *          escaped and on the length of the longest value; never on whether it looks like one. What
 *          the sandbox can learn is that a whole value it already has is one.
 * Limits:  a value that is given out in several streams, or with a release in between, is seen in
 *          these parts.
 */
#ifndef CROFT_NET_KEEPER_SCRUB_H
#define CROFT_NET_KEEPER_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * What all streams share: the values as keyed hashes, and room to work in. One for each process,
 * in locked memory.
 */
struct scrubber;
struct scrubber *scrubber_new(void);    /* NULL: out of memory */
void scrubber_free(struct scrubber *d); /* wipes; streams must be gone */
/* Forget all values. */
int scrubber_reset(struct scrubber *d);
/* false: outside 16..4096 bytes, or too many. Streams that are under way look for it from now on. */
bool scrubber_add(struct scrubber *d, const char *value, size_t n);
bool scrubber_locked(const struct scrubber *d);

/* One stream. Small: the text that waits, and only while it does. */
struct scrub;
struct scrub *scrub_new(struct scrubber *d); /* NULL: out of memory */
void scrub_free(struct scrub *r);            /* wipes */
/*
 * Appends what may go out to `out`: all up to the last end of a line (LF, CR or NUL, which no value
 * holds), and of what follows all but a tail that is as long as the longest value can be. last:
 * nothing follows, nothing waits, and what is fed then is another stream. Returns how often
 * something was replaced. Out of memory: out->failed, and nothing more comes.
 */
size_t scrub_feed(struct scrub *r, const void *p, size_t n, bool last, struct buf *out);
/* Does something wait for what follows? */
bool scrub_waits(const struct scrub *r);
/* Give out what waits. The stream goes on, and of a value that began in it the rest is covered. */
void scrub_release(struct scrub *r, struct buf *out);

#endif
