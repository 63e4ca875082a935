/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of a pty, kept beside the session: what a terminal that is attached later is shown.
 *
 * Purpose: the bytes of a pty are copied to croft-screen, which keeps a model of the screen. On
 *          request it gives a redraw.
 * Trust:   croft-screen parses what a sandbox wrote, so it is taken for one of the sandbox: it is
 *          confined (screen_confine.h), what it says is bounded and checked, and a redraw goes through
 *          the terminal filter as the sandbox's own output does.
 * Order:   screen_start -> screen_feed with all that is read from the pty, screen_resize when its
 *          size changes, screen_fds and screen_handle in the loop -> screen_stop on every path.
 *          A redraw stands for exactly what was fed before it was asked for. What is fed from then
 *          on is to be written after it: through the filter that came with it, which may hold the
 *          first half of a sequence.
 * Never:   nothing here waits. What croft-screen is too slow for is kept, up to SCREEN_PENDING_MAX;
 *          then it is dropped, and the next redraws say that they are not exact until the screen
 *          has been cleared. When croft-screen ends there is no model any more (screen_gone), and
 *          nothing else is harmed. In both cases the caller asks the program to redraw, by a
 *          change of the pty's size.
 */
#ifndef CROFT_SESSION_SCREEN_SCREEN_H
#define CROFT_SESSION_SCREEN_SCREEN_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "session/screen/screen_message.h"
#include "session/stdio/terminal.h"

#define SCREEN_FDS 1
#define SCREEN_PENDING_MAX (1u << 20)

/* A redraw for a terminal of the pty's size. */
struct screen_picture {
	const unsigned char *bytes; /* filtered; gone when the callback returns */
	size_t n;
	const struct termfilter *filter; /* copy it: what follows goes through it */
	bool exact;                      /* false: let the program redraw as well */
};

/* p NULL: there is none, because croft-screen is gone or too slow. */
typedef void screen_done_fn(void *arg, const struct screen_picture *p);

struct screen {
	int sock; /* -1: not running */
	int pidfd;
	pid_t pid;
	unsigned rows, cols;
	struct buf pending; /* orders that the socket had no room for, each behind its length */
	size_t sent;        /* of these bytes */
	size_t last;        /* where the last order is, to be made longer */
	struct buf dump;
	bool exact;
	uint32_t number;      /* of the latest request */
	unsigned owed;        /* messages that may still come; more are a reason to end it */
	screen_done_fn *done; /* NULL: none is */
	void *arg;
	uint64_t deadline_ms;
	char gone[96]; /* why there is no model; "" while there is one, or was none */
};

#define SCREEN_INIT                                                                                \
	((struct screen){.sock = -1,                                                               \
		.pidfd = -1,                                                                       \
		.pid = -1,                                                                         \
		.pending = BUF_INIT(2 * SCREEN_PENDING_MAX),                                       \
		.dump = BUF_INIT(SCREEN_DUMP_MAX)})

/* Where croft-screen is: in libexec next to croft's bin, otherwise beside croft. */
int screen_program(char *ret, size_t size, struct err *e);
int screen_start(
	struct screen *s, const char *program, unsigned rows, unsigned cols, struct err *e);
static inline bool screen_running(const struct screen *s)
{
	return s->sock >= 0;
}
/* A sentence, or NULL. */
static inline const char *screen_gone(const struct screen *s)
{
	return s->gone[0] ? s->gone : NULL;
}
void screen_feed(struct screen *s, const void *p, size_t n);
void screen_resize(struct screen *s, unsigned rows, unsigned cols);
/*
 * Ask for a redraw: `done` is called once, from screen_handle or screen_stop, at the latest after
 * timeout_ms. -EBUSY: one is under way; -ESRCH: there is no model.
 */
int screen_dump(struct screen *s, int timeout_ms, screen_done_fn *done, void *arg);
void screen_dump_cancel(struct screen *s); /* `done` is not called any more */
int screen_fds(const struct screen *s, struct pollfd fds[SCREEN_FDS]); /* returns how many */
int screen_timeout_ms(const struct screen *s);                         /* for poll; -1: none */
/* After every poll, also one that timed out: then n may be 0. */
void screen_handle(struct screen *s, const struct pollfd *fds, int n);
void screen_stop(struct screen *s);

#endif
