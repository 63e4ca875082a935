/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages about the commands of a sandbox that stays up.
 *
 * Purpose: the session S tells the first process to add reapers (one for each command, engine/init/reaper.h),
 *          and each reaper what to start; they tell what became of it.
 * Form:    one SOCK_SEQPACKET message: type, number of the command, a body that depends on the type; all
 *          little-endian (base/pack.h), so that it can cross a serial line, where descriptors cannot. A
 *          command line longer than one message goes ahead of its EXEC in pieces (MORE).
 * Trust:   what comes from inside is a claim: type, length and every field are checked, text is bounded,
 *          and only as many descriptors are kept as the type may carry.
 */
#ifndef CROFT_ENGINE_WIRE_WIRE_H
#define CROFT_ENGINE_WIRE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define WIRE_PIECE_MAX (64u << 10)   /* bytes in the body of one message */
#define WIRE_PROCESS_MAX (4u << 20)  /* a command line with its environment */
#define WIRE_ARGS_MAX 65536u
#define WIRE_GROUPS_MAX 4
#define WIRE_FDS_MAX (3 + WIRE_GROUPS_MAX)
#define WIRE_CONNECTS_MAX 64 /* CONNECT that wait for their answers */

enum wire_type {
	/* S -> first process */
	WIRE_ADD = 1, /* the socket of a new reaper; perhaps the group of its commands (os/freezer.h) */
	WIRE_FREEZE,  /* value: 1 stop everything by signals, 0 go on */
	WIRE_CONNECT, /* value: a port on loopback inside; id: to be repeated in the answer */
	/* S -> reaper */
	WIRE_MORE,   /* a piece of a struct wire_process that is too long for one message */
	WIRE_EXEC,   /* the last piece, or all of it; descriptors 0, 1, 2, or none for a terminal; then
			those of the groups to enter */
	WIRE_SIGNAL, /* value: the signal; scope: enum wire_scope */
	/* reaper -> S */
	WIRE_STARTED, /* value: its number inside; rlimits, others; for a terminal one descriptor: the
			 master */
	WIRE_FAILED,  /* it does not exist: kind, errnum, text */
	WIRE_EXIT,    /* value: wait status; usage so far. Others of the command may still live */
	WIRE_EMPTY,   /* nothing of the command is left; usage of all of it */
	/* first process -> S */
	WIRE_FROZEN,    /* value: enum wire_frozen */
	WIRE_CONNECTED, /* value: 0 with one descriptor, or an errno */
	WIRE_ADDED,     /* value: the number inside of the reaper that serves ADD's socket; id as asked */
	WIRE_LOST,      /* a reaper died, and what it left behind was killed; value: its number inside */
	WIRE_TYPE_NUM
};

enum wire_scope {
	WIRE_TO_MAIN,  /* the process that was started */
	WIRE_TO_GROUP, /* its process group: what a terminal's keys reach */
	WIRE_TO_ALL,   /* everything the command started, whatever it did to its groups */
	WIRE_SCOPE_NUM
};

/* What became of FREEZE. */
enum wire_frozen {
	WIRE_GOES_ON,
	WIRE_STANDS,
	WIRE_CANNOT_STAND, /* something could not be stopped in time, so everything goes on */
	WIRE_FROZEN_NUM
};

enum wire_rlimits { WIRE_RLIMIT_MEMORY = 1, WIRE_RLIMIT_PIDS = 2 };

struct wire_msg {
	enum wire_type type;
	uint32_t id; /* of the command; 0 where it is about none */
	int32_t value;
	enum wire_scope scope;                  /* SIGNAL */
	uint64_t utime_us, stime_us, maxrss_kb; /* EXIT, EMPTY */
	uint32_t kind;                          /* FAILED: enum err_kind */
	int32_t errnum;                         /* FAILED */
	uint32_t rlimits; /* STARTED: what the command's rlimits hold, in the place of a cgroup */
	uint32_t others;  /* STARTED: tasks of the user that RLIMIT_NPROC counts, too */
	char text[ERR_MSG_MAX];                 /* FAILED */
	const void *body; /* MORE, EXEC: the piece; in the buffer of wire_receive() */
	size_t body_n;
	int fd[WIRE_FDS_MAX]; /* -1 unused; the receiver's to close */
	unsigned fd_n;
};

enum wire_process_flags {
	WIRE_TTY = 1,
	WIRE_LESS = 2, /* start it although a limit of its own cannot be held */
};

/* Limits of one command that no group of its own holds: rlimits of each of its processes. 0: none. */
struct wire_limits {
	uint64_t memory_b, pids, open_files, file_size_b;
};

/* What to start. Unpacked, the strings lie in the bytes that were given. */
struct wire_process {
	uint32_t flags;
	uint16_t rows, cols; /* of its terminal */
	uint32_t groups;     /* how many of the descriptors are those of groups to enter, the last ones */
	struct wire_limits limits;
	const char *cwd;
	char **argv, **envp; /* each ends with NULL; when unpacked, the arrays are to be freed */
};

/* 0 or -errno; never waits. fd[0 … fd_n-1] are sent beside and stay the caller's. */
int wire_send(int sock, const struct wire_msg *m);
/* MORE as often as it takes, then EXEC with id and fds of m. May wait for room. */
int wire_send_process(int sock, struct wire_msg *m, const struct wire_process *p);
/* 1 with *ret filled, 0 at the end, -EAGAIN, -EPROTO … `room` has WIRE_PIECE_MAX + 64 bytes. */
int wire_receive(int sock, void *room, struct wire_msg *ret);

void wire_pack_process(struct buf *b, const struct wire_process *p);
/* 0, or -EPROTO with nothing allocated. */
int wire_unpack_process(struct wire_process *ret, const void *p, size_t n);
void wire_process_done(struct wire_process *p);

/* The two halves of the form, without a socket: for tests and fuzzing. */
void wire_encode(struct buf *b, const struct wire_msg *m);
int wire_decode(struct wire_msg *ret, const void *p, size_t n);

#endif
