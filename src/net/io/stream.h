/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A non-blocking byte stream over a descriptor, plain or TLS, with a queue for each direction.
 *
 * Purpose: sessions look at `in` and add to `out`; when bytes move is decided here.
 * Order:   everything that the callbacks of one turn of the loop added is sent once, after them:
 *          a head and its body, or many HTTP/2 frames, become one record and one system call.
 * Limits:  reading stops while `in` is full or the owner said so; the owner looks at
 *          stream_room() before it adds to `out`.
 * Failure: broken() once, never from within a call of the owner; nothing is called after
 *          stream_close().
 */
#ifndef CROFT_NET_IO_STREAM_H
#define CROFT_NET_IO_STREAM_H

#include <openssl/ssl.h>

#include "net/io/fifo.h"
#include "os/loop.h"

#define STREAM_IN_MAX_B (80u << 10) /* one head of HTTP_HEAD_MAX_B, and a record beside it */
#define STREAM_OUT_MAX_B                                                                           \
	(256u << 10) /* heads, frames and errors always fit behind STREAM_OUT_HIGH_B */
#define STREAM_OUT_HIGH_B (64u << 10) /* bodies stop here */

struct stream;
struct stream_set { /* those that have something to send in this turn */
	struct loop *loop;
	struct stream *dirty, *now;
	bool scheduled;
};

struct stream_ops {
	void (*shaken)(void *arg);   /* the TLS handshake is over; may be NULL for plain */
	void (*readable)(void *arg); /* `in` grew, or `eof` became true */
	void (*writable)(
		void *arg); /* `out` had reached STREAM_OUT_HIGH_B and is well below it again */
	bool (*fill)(
		void *arg); /* add to `out` what waits elsewhere; true: more waits. May be NULL */
	void (*broken)(void *arg, const char *why);
};

struct stream {
	struct stream_set *set;
	struct stream *next_dirty;
	const struct stream_ops *ops;
	void *arg;
	int fd;   /* the owner's to close */
	SSL *ssl; /* owned */
	struct watch watch;
	struct fifo in, out;
	bool open, watching, shaking, is_broken, is_dirty, paused, was_high;
	bool eof, truncated; /* truncated: the end came without TLS saying so */
	bool read_wants_write, write_blocked, hung_up, refill;
	bool shut_after;      /* send, then close our direction */
	uint64_t in_b, out_b; /* moved so far */
	char why[160];        /* of a failed handshake */
};

void stream_set_init(struct stream_set *set, struct loop *l);
/*
 * Zero-initialised `s`. ssl is prepared (accept or connect state) or NULL. 0 or -errno; ssl is
 * taken if 0.
 */
int stream_open(struct stream *s, struct stream_set *set, int fd, SSL *ssl,
	const struct stream_ops *ops, void *arg);
void stream_close(struct stream *s); /* ends watching, frees what is queued; not the descriptor */
/* Say that something was added to out. */
void stream_kick(struct stream *s);
bool stream_add(struct stream *s, const void *p, size_t n); /* and kick; false: does not fit */
/* How much of a body may be added now. */
static inline size_t stream_room(const struct stream *s)
{
	return s->out.len < STREAM_OUT_HIGH_B ? STREAM_OUT_HIGH_B - s->out.len : 0;
}
void stream_pause(struct stream *s, bool on); /* stop reading */
/* Look at `in` again, in this turn or the next: the owner can take more than when it last did. */
void stream_again(struct stream *s);
/* Send what is queued, then close our direction. */
void stream_shut(struct stream *s);
bool stream_alpn_h2(const struct stream *s);

#endif
