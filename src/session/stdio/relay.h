/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's output through the supervisor: a pipe of ours, copied to where it was to go, and to
 * the capture on the way.
 *
 * Order:    relay_open (before the sandbox is started) -> relay_hand_over (it has its ends) ->
 *           relay_fds/relay_handle in the loop -> relay_finish (when nothing inside lives) ->
 *           relay_done on every path.
 * Blocking: a destination may be shared with others, so it is never made non-blocking: a pipe is
 *           opened once more for us alone, a socket is asked per call, anything else is written in
 *           pieces that poll has made room for. Regular files and the null device are just written.
 * Failure:  a destination that is gone, or takes no more, is gone for the command, too: our end of
 *           its pipe is closed.
 */
#ifndef CROFT_SESSION_STDIO_RELAY_H
#define CROFT_SESSION_STDIO_RELAY_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>

#include "base/err.h"
#include "session/stdio/capture.h"

#define RELAY_FDS CAPTURE_STREAMS
#define RELAY_BUF (256u << 10)
#define RELAY_PIPE (1u << 20)

enum relay_kind { RELAY_WRITE, RELAY_SEND, RELAY_PIECES };

struct relay_stream {
	int from;  /* our end of the command's pipe; -1: nothing to copy (any more) */
	int child; /* the command's, until it has it */
	int to;    /* borrowed, unless own */
	bool own;
	int again; /* the destination, opened once more: non-blocking, ours; or -1 */
	enum relay_kind kind;
	char *buf;
	size_t n, off;
	struct capture_file *file;
};

struct relay {
	struct relay_stream stream[CAPTURE_STREAMS];
	bool ignoring; /* SIGPIPE */
	struct sigaction old;
};

#define RELAY_STREAM_INIT                                                                          \
	{                                                                                          \
		.from = -1, .child = -1, .to = -1, .again = -1                                     \
	}
#define RELAY_INIT ((struct relay){.stream = {RELAY_STREAM_INIT, RELAY_STREAM_INIT}})

/*
 * Put pipes in the place of stdio[1] and stdio[2] in child_stdio[], except where it differs from
 * stdio[] already (a pty). c->terminal tells whether both are one stream.
 */
int relay_open(
	struct relay *r, struct capture *c, const int stdio[3], int child_stdio[3], struct err *e);
/* Is this stream of the command's copied here? */
static inline bool relay_has(const struct relay *r, enum capture_stream s)
{
	return r->stream[s].to >= 0;
}
/* The command exists, with its ends. own: the destinations are ours to close when it has. */
void relay_hand_over(struct relay *r, bool own);
int relay_fds(const struct relay *r, struct pollfd fds[RELAY_FDS]);
void relay_handle(struct relay *r, const struct pollfd *fds, int n);
/*
 * Copy what is left. A reader that takes nothing for stall_ms (-1: however long) is given up, and so
 * is everything at an ending signal on signal_fd.
 */
void relay_finish(struct relay *r, int signal_fd, int stall_ms);
void relay_done(struct relay *r);

#endif
