/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to a session that is up (session/serve), by the directory that has its socket.
 *
 * Trust: the directory is the user's own and no sandbox sees it; who listens must have the user's rights.
 */
#ifndef CROFT_SESSION_JOIN_JOIN_H
#define CROFT_SESSION_JOIN_JOIN_H

#include "ipc/session_link.h"

#define JOIN_SOCKET "socket"
#define JOIN_ANSWER_MS 30000

/* Bind and listen there; an older socket is removed, so whoever calls must hold the environment. */
int join_listen(int dir_fd, struct err *e);
/* Does somebody listen there? 1, or 0. */
int join_up(int dir_fd);
/*
 * 1: connected; 0: nothing is up there; -errno. `name` is for sentences. The greeting is sent but not waited
 * for: its answer, tagged JOIN_GREETING, is OK or the ERROR that ends the connection.
 */
#define JOIN_GREETING (UINT32_MAX - 1)
int join_connect(int dir_fd, const char *name, struct session_link *ret, struct err *e);
/* Only that: for a connection that is made in another way. */
int join_greet(struct session_link *l, struct err *e);
/*
 * Ask and wait for the one answer to it: OK or TEXT. 0 with *ret_text (caller frees; NULL: OK alone), or
 * -errno with the session's own sentence. timeout_ms -1: as long as it takes.
 */
int join_ask(struct session_link *l, enum session_type type, uint32_t process, const void *body,
	size_t n, int timeout_ms, char **ret_text, struct err *e);
/* Wait for the end of the connection, whatever is said before. */
int join_wait_end(struct session_link *l, int timeout_ms, struct err *e);
/* What an ERROR frame says. */
int join_error(const struct session_frame *f, struct err *e);

#endif
