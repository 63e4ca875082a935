/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of process.c and what they know of each other. */
#ifndef CROFT_SESSION_SERVE_PROCESS_IMPL_H
#define CROFT_SESSION_SERVE_PROCESS_IMPL_H

#include "session/serve/session_impl.h"

/* process_environ.c */
/*
 * Its variables. The values in them that must not be recorded are what ret_hidden has afterwards, and the
 * session's receipts hide them from then on.
 */
int process_environ(struct process *p, const struct session_exec *x, struct strlist *ret,
	struct redact *ret_hidden, struct err *e);

/* process_output.c */
int process_watch_output(struct process *p, struct err *e);
/* What is polled for: output while there is room for it; of a terminal also room for input that waits. */
void process_set_events(struct process *p);
/* One piece of stream i: how many bytes, 0 nothing now, -1 the end, -2 no room. */
int process_read_piece(struct process *p, int i);

/* process_reader.c */
int process_add_reader(
	struct process *p, struct caller *c, uint32_t tag, uint64_t offset, bool owner);
void process_free_reader(struct process *p, struct reader **at);
void process_feed_all(struct process *p);
/* From where on nothing may be dropped. */
uint64_t process_held_from(const struct process *p);

/* process_input.c */
void process_give_input(struct process *p);
void process_push_input(struct process *p);
void process_close_input(struct process *p); /* nobody will read it any more */

/* process_limits.c: limits of its own. Each of these does nothing for a command without. */
int limits_begin(struct process *p, const struct session_limits *own, struct err *e);
/* What its EXEC says of them. The descriptors are added to m's, and are the caller's to close. */
int limits_fill(
	const struct process *p, struct wire_process *spec, struct wire_msg *m, struct err *e);
void limits_started(struct process *p, const struct wire_msg *m); /* what its rlimits hold */
void limits_note(struct process *p); /* its receipt gets what was used, and which of them were hit */
void limits_end(struct process *p);  /* nothing of it is left */

/* process_end.c */
void process_on_timeout(void *arg);
void process_finish_if_drained(struct process *p);

#endif
