/* SPDX-License-Identifier: Apache-2.0 */
/* Shared between network*.c only. */
#ifndef CROFT_SESSION_NET_NETWORK_IMPL_H
#define CROFT_SESSION_NET_NETWORK_IMPL_H

#include "session/net/network.h"

/* A memory file with these bytes, rewound. */
int network_memfd(const char *name, const void *p, size_t len, struct err *e);

void network_count(struct network *n);
/* Of "PREFIX a b c" and the line of numbers below it: the number in the column of this name, or 0. */
uint64_t network_counter(const char *text, const char *prefix, const char *column);
/* A denial for the receipt. */
void network_denied(struct network *n, const struct gateway_msg *m);
/* Set a variable unless it is set. */
bool network_env_default(struct strlist *env, const char *name, const char *value);
bool network_has_apt(void);

/* ---- network_closed.c: no network at all ---- */
/* dir: where files for the command can be made, in tiers without a private root. */
bool network_closed_environ(const struct network *n, const char *dir, struct strlist *env);
bool network_tell_apt(const char *dir, unsigned retries, struct strlist *env);
void network_closed_serve(struct network *n);
void network_closed_finish(struct network *n);
void network_note(struct network *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- network_rest.c ---- */
uint64_t network_rest_ms(void);
int network_rest_state(struct err *e); /* a new memory file */
void network_rest(struct network *n, const struct gateway_msg *m);

/* ---- network_since.c ---- */
void network_denials_done(struct network *n);

/* ---- network_serve.c ---- */
void network_lose(struct network *n, const char *why);
void network_end_gateway(struct network *n); /* at once, and its keeper */
void network_hear_keeper(struct network *n);

bool network_wants_trust(const struct network *n);
/* Make the authority unless it is there. */
int network_authority(struct network *n, struct err *e);
void network_trust_done(struct network *n);

#endif
