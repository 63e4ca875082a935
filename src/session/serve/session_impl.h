/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a session and what they know of each other. */
#ifndef CROFT_SESSION_SERVE_SESSION_IMPL_H
#define CROFT_SESSION_SERVE_SESSION_IMPL_H

#include "engine/wire/wire.h"
#include "ipc/session_link.h"
#include "os/freezer.h"
#include "os/loop.h"
#include "session/run/boundary.h"
#include "session/run/hidden.h"
#include "session/run/watch.h"
#include "session/screen/screen.h"
#include "session/serve/log.h"
#include "session/serve/serve.h"

struct caller;
struct part;
struct process;
struct session;
struct view;

/* A reaper inside (engine/init/reaper.h), as the session holds it. */
struct reaper {
	struct session *session;
	struct reaper *next; /* of the list it is in: idle or busy */
	uint32_t id;
	int sock;
	bool grouped; /* its commands have a group of this id */
	pid_t inside; /* its number in the sandbox; 0: not told yet */
	struct watch watch;
	struct process *process; /* NULL: idle */
};

enum process_state {
	PROCESS_RUNNING,
	PROCESS_EXITED,  /* its first process has ended; output may still be on its way */
	PROCESS_LEFT,    /* answered; something that it started still lives */
	PROCESS_OVER,    /* nothing of it is left */
	PROCESS_STATE_NUM
};

/* Somebody who wants a process's output: whoever started it, or looks later. */
struct reader {
	struct reader *next;
	struct caller *caller;
	uint32_t tag;
	uint64_t offset; /* of what it gets next */
	bool starter;    /* asked for it */
	bool owner;      /* and waits for it: holds it back, and gets its receipt */
	bool follow;
	bool waits; /* for a redraw, which comes first */
	uint64_t until; /* !follow: what there was when it asked */
};

/* What is kept of one that has ended, beside its log. */
struct process_was {
	char run[RUN_ID_LEN + 1];
	struct timespec started;
	struct strlist command;
	char *cwd, *label;
	int exit_code, exit_signal;
	uint64_t wall_us;
};

struct process {
	struct session *session;
	struct process *next;
	uint32_t id;
	enum process_state state;
	bool tty, detached, as_test, verbose, wants_input;
	bool wants_json, wants_text; /* in the answer to who started it */
	unsigned rows, cols; /* of its terminal, at the start */
	bool told_started; /* its first process exists */
	bool signalled;    /* told to end, by a limit or because its caller is gone */
	struct session_limits limits; /* of its own; 0: none */
	struct part *part; /* its groups, if it has any (process_limits.c) */
	struct receipt *receipt; /* NULL: over, and who wanted it has it; `was` has the rest */
	struct process_was was;
	struct capture_mem capture[CAPTURE_STREAMS];
	struct reaper *reaper;
	pid_t inside;
	uint64_t t0_us;
	struct timer timeout, kill, drain;
	/* Our ends: of its pipes, or of its terminal (in and out[0] are the same then). */
	int in, out[2];
	int master; /* of a terminal that was made outside, until the command has started */
	struct watch in_watch, out_watch[2];
	struct buf input; /* from callers, not yet taken */
	size_t input_off;
	bool input_ended;
	struct log log;
	struct reader *readers;
	struct view *view; /* of its terminal, or NULL */
	char event[SESSION_EVENT_MAX]; /* where its record will be; "" not known */
	struct network_mark refused; /* what the network had refused before it began */
	bool alone;                  /* no other command has lived since then */
	struct cgroup_hits hits;     /* how often limits of the sandbox had been reached then */
};

struct caller {
	struct session *session;
	struct caller *next;
	struct session_link link;
	struct watch watch;
	bool greeted, closing, gone;
	bool waits_stop; /* its connection stays until this process ends */
	uint32_t stop_tag;
	bool waits_frozen, frozen_on; /* for all to stand still, or to go on */
	bool starved; /* a reader has more for it than there was room for */
	uint32_t frozen_tag;
	bool settles; /* what is recorded is lent to it */
	bool holder;  /* started the session */
	bool looks;   /* it has asked what runs, as croft ps does */
	bool user;    /* and more than that: while it is here the session is in use */
	unsigned watches; /* enum session_watch */
	uint32_t watch_tag;
};

struct port;

struct session {
	const struct session_options *o;
	struct boundary boundary;
	struct watchers watch;
	struct receipt *receipt;
	struct signals *signals;
	struct loop *loop;
	struct redact *hidden;
	struct secret_stamp stored; /* when the stored ones in it were read */
	size_t learnt_n, learnt_b; /* values in it that came with commands */
	struct err *e;
	int rc;
	bool go, up, over; /* GO was said; it serves; it ends */
	bool stopping;
	struct freezer freezer;            /* closed where pid 1 stops the commands instead */
	struct watch frozen_watch;
	struct timer frozen_late, freeze_again; /* the first process had no room for what it is told */
	bool paused, pausing, resuming, idle_paused; /* frozen; asked to; by itself */
	bool settling; /* what is recorded is lent to a caller */
	struct caller *hold; /* has everything stand still, and nobody else is heard; NULL: none */
	bool hold_was;       /* it was paused before */
	uint64_t stop_at_ms;               /* 0: not stopping */
	uint64_t quiet_since_ms, started_ms;
	uint64_t watch_idle_ms; /* when a user was here, or bytes on a published port */
	uint64_t told_ask, told_event; /* the newest that watchers know of */
	size_t told_hosts;             /* so many of the network's denials */
	size_t told_degradations;      /* so many were there when it came up */
	size_t told_notes;             /* of the network, likewise */
	struct buf left;               /* what is to be told when it is down */
	bool look, look_none; /* trees written in place are to be looked at; there are none */
	uint64_t look_at_ms;  /* not before */
	struct outcome outcome;
	struct watch listener;
	struct timer reach;
	struct caller *callers;
	size_t callers_n, users_n;
	struct process *processes; /* newest first */
	size_t alive_n;
	uint32_t next_process, next_reaper, next_connection;
	struct reaper *idle, *busy;
	size_t idle_n;
	struct part *parts;        /* groups of commands that are over, still to be removed */
	struct timer parts_again;
	struct port *ports;
	size_t connections_n;      /* of all ports */
	size_t connecting_n;       /* those of them that the first process is asked for */
	struct timer ports_again;  /* there was no descriptor for a connection */
	struct timer callers_again; /* nor for a caller */
	struct timer rest; /* after a while without process and caller */
	char room[WIRE_PIECE_MAX + 64];
};

/* pool.c */
int pool_fill(struct session *s, size_t want);
struct reaper *pool_take(struct session *s); /* NULL: none could be made */
void pool_give_back(struct reaper *r);
void pool_drop(struct reaper *r); /* r->process, if any, is the caller's to tell */
void pool_added(struct session *s, uint32_t id, pid_t inside);
struct process *pool_process_inside(struct session *s, pid_t reaper_inside);
void pool_rest(struct session *s); /* keep one that is idle */
void pool_done(struct session *s);

/* process.c */
/* A process, or NULL with why. The caller becomes its owner unless it is detached. */
struct process *process_start(struct session *s, struct caller *c, uint32_t tag,
	const struct session_exec *x, struct err *e);
struct process *process_find(struct session *s, uint32_t id);
void process_message(struct process *p, struct wire_msg *m); /* of its reaper */
void process_lost(struct process *p);                        /* its reaper is gone */
void process_signal(struct process *p, int sig, enum wire_scope scope);
void process_finish(struct process *p); /* the sandbox is gone: whatever it waits for */
/* SIGTERM to all of it, SIGHUP too if it has a terminal, and SIGKILL after grace_ms (UINT64_MAX: not). */
#define PROCESS_GRACE_MS 2000
void process_end(struct process *p, uint64_t grace_ms);
void process_input(struct process *p, const void *bytes, size_t n);
bool process_input_room(const struct process *p);
/* Its starter reads no more of this stream: it is told so as by a pipe that nobody reads. */
void process_unread(struct process *p, const struct caller *c, unsigned stream);
void process_resize(struct process *p, unsigned rows, unsigned cols);
void process_pump(struct process *p); /* output to its readers, as far as they have room */
int process_read(struct process *p, struct caller *c, uint32_t tag, uint64_t offset, unsigned how);
void process_forget_caller(struct process *p, const struct caller *c);
void process_denied(struct session *s, const struct notice *n); /* whose was it? */
void process_shrink(struct process *p); /* it is over, and nobody waits for it */
void process_free(struct process *p);
const char *process_state_name(const struct process *p);

/* process_limits.c */
void limits_done(struct session *s); /* groups that are left */

/* view.c */
void view_open(struct process *p, unsigned rows, unsigned cols);
void view_feed(struct process *p, const void *bytes, size_t n);
void view_resize(struct process *p, unsigned rows, unsigned cols);
/* Show the screen as it is to this reader, who gets what is written from now on after it. */
void view_show(struct process *p, struct reader *r);
void view_forget(struct process *p, const struct reader *r);
void view_close(struct process *p);

/* caller.c */
void caller_accept(struct session *s);
int caller_adopt(struct session *s, int fd); /* the starter's connection; fd is dup()ed */
/* To everybody who watches for this. */
void caller_tell(struct session *s, enum session_watch what, enum session_type type,
	uint32_t process, const struct buf *body);
void caller_send(struct caller *c, enum session_type type, uint32_t tag, uint32_t process,
	const void *body, size_t n);
void caller_error(struct caller *c, uint32_t tag, uint32_t process, const struct err *e);
/* In the loop's next turn it is read and written again. Nobody is cut off in here: its readers stay. */
void caller_wake(struct caller *c);
void caller_close_all(struct session *s);

/* list.c */
void list_processes(const struct session *s, struct buf *out);

/* port.c */
int port_withdraw(struct session *s, uint16_t host, uint16_t inside, uint16_t *ret_host, struct err *e);
int port_publish(struct session *s, uint16_t host, uint16_t inside, uint16_t *ret_host, struct err *e);
void port_take_published(struct session *s); /* of the policy */
void port_connected(struct session *s, uint32_t id, int error, int *fd);
void port_list(const struct session *s, struct json *j);
void port_done(struct session *s);

/* pause.c */
void pause_init(struct session *s); /* by the freezer, where this machine has it */
void pause_done(struct session *s);
void pause_without_groups(struct session *s); /* a command's group cannot be made: by signals from now on */
void pause_changed(struct session *s, bool on); /* the first process has stopped or continued everything */
/* Nothing is paused: something could not be stopped. */
void pause_failed(struct session *s);
const char *pause_means(const struct session *s);
void session_pause(struct session *s, bool on);

/* session.c */
void session_stop(struct session *s, uint64_t grace_ms);
void session_quiet(struct session *s); /* a process or caller came or went */
void session_used(struct session *s);  /* wakes it, if it has gone to sleep by itself */
bool session_quiescent(const struct session *s);
/* Is everything still there that protections are mounted on? If not, the sandbox is killed. */
bool session_intact(struct session *s);
/* What has happened to the network since the session came up, such as the end of its gateway. */
void session_note_network(const struct session *s, struct receipt *r);

#endif
