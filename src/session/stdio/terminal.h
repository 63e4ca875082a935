/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal of its own for the command, when the caller's stdio is one.
 *
 * Trust: the sandbox never holds a descriptor of the user's terminal. It gets a pty; bytes are
 *        copied here. Input injection (TIOCSTI) can reach only that pty. Output passes a filter
 *        that removes sequences which make a terminal act (clipboard, answerback, title report,
 *        device strings).
 * Order: terminal_open -> terminal_start (raw mode) -> terminal_fds/terminal_handle in the loop ->
 *        terminal_finish (drain, restore, discard unread replies). terminal_done on every path.
 * Host:  the user's terminal is never made non-blocking, because its open file description belongs
 *        to the shell as well; it is opened again for us where /proc permits, else written in
 *        small pieces.
 * Modes: raw only while stdin is the terminal and we are its foreground job; started in the
 *        background nothing is read, and the next terminal_fds() or terminal_resume() in the
 *        foreground takes over. Exactly one of the two terminals turns "\n" into "\r\n".
 * Init:  the sandbox's first process should keep the slave open until it ends: once nobody has it
 *        open, the relay takes that as the end of output.
 */
#ifndef CROFT_SESSION_STDIO_TERMINAL_H
#define CROFT_SESSION_STDIO_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/err.h"
#include "session/stdio/capture.h"

#define TERMINAL_FDS 4
#define TERMINAL_BUF 16384

/* ---- output filter (session/stdio/termfilter.c) ---- */

#define TERMFILTER_HOLD 4096        /* longest sequence that can pass */
#define TERMFILTER_SKIP_MAX 1048576 /* of a sequence without an end, then it is text again */

enum vt_state { VT_TEXT, VT_ESC, VT_CSI, VT_OSC, VT_OSC_ESC, VT_STRING, VT_STRING_ESC };

/* Zero-initialise; latin and console only for a terminal that is known to be that. */
struct termfilter {
	enum vt_state state;
	bool latin;   /* ISO 8859: bytes 80–9f are controls wherever they stand */
	bool console; /* Linux's own console: OSC P and OSC R have no end */
	bool bad;     /* the held sequence will be dropped when it ends */
	bool lead_c2; /* a byte c2 waits: with 80–9f after it, it is a control */
	unsigned char need, next_lo, next_hi; /* continuation bytes due; range of the next one */
	size_t hold_n, body, skipped; /* held; start of its body; length of what is dropped */
	unsigned char hold[TERMFILTER_HOLD]; /* the sequence so far: goes out whole or not at all */
};
/* Filter n bytes; out has room for n + TERMFILTER_HOLD; returns bytes written. */
size_t termfilter_run(struct termfilter *f, const unsigned char *in, size_t n, unsigned char *out);
/* The end: what was withheld and is text (at most one byte); an unfinished sequence is dropped. */
size_t termfilter_end(struct termfilter *f, unsigned char *out);

/* ---- relay ---- */

struct terminal {
	bool opened;
	int master, slave;
	int host_in, host_out; /* the user's terminal; -1 if there is none to read or write */
	bool own_in, own_out;  /* opened again for us: non-blocking, ours to close */
	bool is_tty[3];
	bool raw;     /* we changed the user's terminal: saved holds what it was */
	bool held;    /* do not read input (yet) */
	bool out_eof; /* nobody has the slave open any more */
	struct termios saved;
	struct termfilter filter;
	unsigned char in[TERMINAL_BUF], out[TERMINAL_BUF + TERMFILTER_HOLD];
	size_t in_n, in_off, out_n, out_off;
	struct capture_file *capture; /* a copy of what is shown goes here; or NULL */
};

/* A pty of the host's: the master does not block. */
int terminal_pair(int *ret_master, int *ret_slave, struct err *e);
/* Look at stdio[]; if any is a tty make a pty and set child_stdio[i] to its slave for those, else
 * leave t inactive (master == -1) and copy stdio. The descriptors of stdio are borrowed. */
int terminal_open(struct terminal *t, const int stdio[3], int child_stdio[3], struct err *e);
static inline bool terminal_active(const struct terminal *t)
{
	return t->opened && t->master >= 0;
}
int terminal_start(struct terminal *t, struct err *e); /* raw mode when stdin is the terminal */
void terminal_close_slave(struct terminal *t); /* in the supervisor, once the child has it */
int terminal_fds(struct terminal *t, struct pollfd fds[TERMINAL_FDS]); /* returns how many */
/* When the user's terminal has hung up, the pty is closed (the command gets SIGHUP) and t is
 * inactive. */
void terminal_handle(struct terminal *t, const struct pollfd *fds, int n);
void terminal_resize(struct terminal *t);  /* on SIGWINCH */
void terminal_suspend(struct terminal *t); /* give the user's terminal back, before we stop */
void terminal_resume(struct terminal *t);
/*
 * In a pipeline the terminal is not ours alone (`croft run … | less`: less wants the keys). Input
 * is held from the start when stdin is not a terminal; when stdout is not, the caller may hold it,
 * too. Release it when the command really reads: run it in a background group of the pty, and it
 * stops with SIGTTIN.
 */
void terminal_hold_input(struct terminal *t);
void terminal_release_input(struct terminal *t);
void terminal_finish(struct terminal *t); /* after the command: copy what is left, restore */
void terminal_done(struct terminal *t);

#endif
