/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the person at the terminal about a connection that waits.
 *
 * Only where the terminal is ours to use: somebody sits in front of it, we are its foreground job,
 * and the command does not read from it (a program that does may have drawn anything there; then
 * the question is left to `croft pending`). One question at a time; no answer is the gateway's own
 * no, after its time.
 * Trust: what is shown came from the sandbox and is escaped; what is read is a person's line.
 */
#ifndef CROFT_SESSION_NET_PROMPT_H
#define CROFT_SESSION_NET_PROMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "session/net/network.h"

struct prompt {
	int fd;         /* /dev/tty, -1: there is nobody to ask */
	uint64_t asked; /* id of the question that stands; 0: none */
	char line[16];
	unsigned n;
};
#define PROMPT_INIT ((struct prompt){.fd = -1})

/* taken: the command reads from the terminal. */
void prompt_open(struct prompt *p, bool taken);
void prompt_close(struct prompt *p);
/* Put the next question, take an old one back. */
void prompt_show(struct prompt *p, struct network *n);
/* The terminal has something to read. */
void prompt_read(struct prompt *p, struct network *n);

#endif
