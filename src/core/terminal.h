/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal of its own for the command, when the caller's stdio is one.
 *
 * Trust: the sandbox never holds a descriptor of the user's terminal. It gets a pty; bytes are copied
 *        here. Input injection (TIOCSTI) can reach only that pty. Output passes a filter that removes
 *        sequences which make a terminal act (clipboard, answerback, title report, device strings).
 * Order: terminal_open -> terminal_start (raw mode) -> terminal_fds/terminal_handle in the loop ->
 *        terminal_finish (drain, restore, discard unread replies). terminal_done on every path.
 */
#ifndef CROFT_CORE_TERMINAL_H
#define CROFT_CORE_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <termios.h>

#include "base/err.h"

#define TERMINAL_FDS 4
#define TERMINAL_BUF 16384

enum vt_state { VT_TEXT, VT_ESC, VT_CSI, VT_OSC, VT_STRING, VT_STRING_ESC, VT_OSC_ESC };

struct termfilter {
	enum vt_state state;
	unsigned char hold[64]; /* the sequence so far, while undecided */
	size_t hold_n;
	bool dropping;
};
/* Filter n bytes in place-to-out (out holds at least n + 64); returns bytes written. */
size_t termfilter_run(struct termfilter *f, const unsigned char *in, size_t n, unsigned char *out);

struct terminal {
	int master, slave;
	int host_in, host_out; /* the user's terminal; -1 if that side is not one */
	bool is_tty[3];
	bool raw, saved_valid, in_eof, out_eof;
	struct termios saved;
	struct termfilter filter;
	unsigned char in[TERMINAL_BUF], out[TERMINAL_BUF + 64];
	size_t in_n, in_off, out_n, out_off;
};

/* Look at stdio[]; if any is a tty make a pty and set child_stdio[i] to its slave for those, else
 * leave t inactive (master == -1) and copy stdio. */
int terminal_open(struct terminal *t, const int stdio[3], int child_stdio[3], struct err *e);
static inline bool terminal_active(const struct terminal *t)
{
	return t->master >= 0;
}
int terminal_start(struct terminal *t, struct err *e); /* raw mode when stdin is the terminal */
void terminal_close_slave(struct terminal *t);         /* in the supervisor, once the child has it */
int terminal_fds(struct terminal *t, struct pollfd fds[TERMINAL_FDS]); /* returns how many */
void terminal_handle(struct terminal *t, const struct pollfd *fds, int n);
void terminal_resize(struct terminal *t); /* on SIGWINCH */
void terminal_suspend(struct terminal *t); /* give the user's terminal back, before stopping ourselves */
void terminal_resume(struct terminal *t);
void terminal_finish(struct terminal *t); /* after the command: copy what is left, restore */
void terminal_done(struct terminal *t);

#endif
