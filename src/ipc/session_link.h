/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session and its callers say to each other, over a stream socket in the state directory.
 *
 * Form:   frames: length, type, tag, process; then a body (base/pack.h). A tag is the caller's choice and
 *         comes back in every answer to that request, so one connection can have any number of requests
 *         and processes in flight. The first frame of a caller is HELLO.
 * Trust:  both ends belong to one user (the socket is 0600 in a directory that no sandbox sees, and peer
 *         credentials are checked); a body may still be anything: every field is checked.
 * Limits: a frame has at most SESSION_BODY_MAX bytes of body. Neither side is waited for: what cannot be
 *         written yet is kept in `out`, and whoever fills it asks session_link_room() first.
 */
#ifndef CROFT_IPC_SESSION_LINK_H
#define CROFT_IPC_SESSION_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/pack.h"

#define SESSION_PROTOCOL 3u
#define SESSION_BODY_MAX (32u << 20) /* a receipt is the longest thing that is said */
#define SESSION_CHUNK_MAX (64u << 10)
#define SESSION_OUT_MAX (64u << 20)
#define SESSION_OUT_LOW (256u << 10) /* below it there is room for more output */
#define SESSION_TEXT_MAX (1u << 20)
#define SESSION_LIST_MAX 65536u

/* What is recorded: */
enum session_settle {
	SESSION_SETTLE_BACK, /* I need it no more */
	SESSION_SETTLE_LEND, /* lend it to me, until then or until the connection ends */
	SESSION_SETTLE_SEAL, /* put into the ledger what is not there yet: I read it */
	SESSION_SETTLE_NUM
};

enum session_type {
	/* caller -> session */
	SESSION_HELLO = 1, /* u32 protocol, str version */
	SESSION_EXEC,      /* session_exec_pack(); answers: STARTED or ERROR, OUTPUT …, EXITED */
	SESSION_STDIN,     /* bytes for the process; none: the end of its input */
	SESSION_SIGNAL,    /* u32 signal, u32 scope (enum wire_scope) */
	SESSION_RESIZE,    /* u32 rows, u32 columns */
	SESSION_READ,      /* u64 offset, u32 enum session_read; answers: OK, OUTPUT …, EXITED */
	SESSION_LIST,      /* answer: TEXT, JSON */
	SESSION_STOP,      /* u32 grace in ms; answer: TEXT, if something is to be told of what was left on
			      the host, and then the end of the connection, when all is over */
	SESSION_PORT,      /* u32 port on the host (0: any), u32 port inside; answer: TEXT, the port */
	SESSION_PAUSE,     /* u32 enum session_pause; answer: OK */
	SESSION_POLICY,    /* str network policy as text; answer: OK */
	SESSION_SETTLE,    /* u32 enum session_settle; answer: OK */
	SESSION_WATCH,     /* u32 enum session_watch: which events of the whole sandbox to send; answer: OK */
	/* session -> caller */
	SESSION_OK,      /* of HELLO: str environment, when it is up */
	SESSION_ERROR,   /* u32 enum err_reason, u32 errnum, str sentence */
	SESSION_TEXT,    /* str */
	SESSION_STARTED, /* str run id */
	SESSION_OUTPUT,  /* u32 stream, u64 offset, bytes */
	SESSION_GONE,    /* u64 offset of the first byte that is left */
	SESSION_EXITED,  /* session_exit_pack() */
	SESSION_DENIED,  /* a denial (ipc/session_receipt.h); process 0: not known whose */
	SESSION_ASKED,   /* str id, u32 port, str host, str method, str path */
	SESSION_CHANGED, /* u64 event of the ledger, str tree: what was recorded */
	SESSION_DOWN,    /* str environment that is left, or "": to the starter, when nothing runs any more */
	/* caller -> session */
	SESSION_UNREAD, /* u32 stream (0 output, 1 errors): who started the process reads no more of it */
	SESSION_UNPORT, /* u32 port on the host (0: any), u32 port inside; answer: TEXT, the port */
	SESSION_TYPE_NUM
};

enum session_read {
	SESSION_READ_FOLLOW = 1, /* go on until it ends */
	SESSION_READ_SCREEN = 2, /* a terminal: its screen as it is, instead of what is before it */
	SESSION_READ_END = 4,    /* from the end of what there is, not from an offset */
};

enum session_pause {
	SESSION_PAUSE_RESUME,
	SESSION_PAUSE_PAUSE,
	SESSION_PAUSE_HOLD,    /* paused, and nobody else is heard, until RELEASE or the connection ends */
	SESSION_PAUSE_RELEASE, /* it goes on as it was before */
};

enum session_watch {
	SESSION_WATCH_DENIED = 1,
	SESSION_WATCH_ASKED = 2,
	SESSION_WATCH_CHANGED = 4,
	SESSION_WATCH_ALL = 7,
};

struct session_frame {
	enum session_type type;
	uint32_t tag, process;
	const void *body;
	size_t n;
};

struct session_link {
	int fd;
	struct buf in, out;
	size_t in_off, out_off; /* what is done with already */
};

#define SESSION_LINK_INIT                                                                          \
	((struct session_link){.fd = -1,                                                           \
		.in = {.max = SESSION_BODY_MAX + 64},                                              \
		.out = {.max = SESSION_OUT_MAX}})

void session_link_done(struct session_link *l); /* closes */
/* Queue a frame; false when there is no room: the connection is of no use any more. */
bool session_link_put(struct session_link *l, enum session_type type, uint32_t tag,
	uint32_t process, const void *body, size_t n);
bool session_link_error(struct session_link *l, uint32_t tag, uint32_t process, const struct err *e);
/* Is the queue short enough for more output? */
bool session_link_room(const struct session_link *l);
static inline bool session_link_pending(const struct session_link *l)
{
	return l->out_off < l->out.len;
}
/* Write what can be written. 0, or -errno when the connection is over. */
int session_link_flush(struct session_link *l);
/* Read what is there: 1 something, 0 the end, -EAGAIN, -errno. */
int session_link_fill(struct session_link *l);
/* The next whole frame, valid until the next call: 1; 0: not yet; -EPROTO. */
int session_link_next(struct session_link *l, struct session_frame *ret);

/* ---- bodies ---- */

enum session_exec_flags {
	SESSION_EXEC_TTY = 1,
	SESSION_EXEC_DETACH = 2, /* goes on when the caller is gone; its output is not sent */
	SESSION_EXEC_TEST = 4,
	SESSION_EXEC_INPUT = 8, /* STDIN will come; otherwise it reads nothing */
	SESSION_EXEC_VERBOSE = 16,
	SESSION_EXEC_JSON = 32, /* the receipt also as JSON, and as text: otherwise as data alone */
	SESSION_EXEC_TEXT = 64,
};

/* Of one command and all that it starts; 0: as the sandbox's. */
struct session_limits {
	uint64_t memory_b, cpu_milli, pids, open_files, file_size_b;
};

struct session_exec {
	uint32_t flags, rows, cols;
	uint64_t timeout_ms; /* 0: as the policy says */
	struct session_limits limits;
	const char *cwd, *label; /* "": none */
	char **argv;
	char **environ; /* the caller's: the policy takes what it passes */
	char **set;     /* K=V, as if the policy set them */
};

void session_limits_pack(struct buf *b, const struct session_limits *l);
void session_limits_unpack(struct unpack *u, struct session_limits *ret);
void session_exec_pack(struct buf *b, const struct session_exec *x);
int session_exec_unpack(struct session_exec *ret, const void *p, size_t n);
void session_exec_done(struct session_exec *x);

struct session_exit {
	int32_t code; /* as a shell sees it */
	int32_t signal;
	uint32_t failed; /* it never existed: enum err_reason, and the sentence is in text */
	const char *json, *text;
	const void *receipt; /* session_receipt_pack(); to who started it */
	size_t receipt_n;
};

void session_exit_pack(struct buf *b, const struct session_exit *x);
int session_exit_unpack(struct session_exit *ret, const void *p, size_t n);

#endif
