/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that started this one, watched so that we end when it does.
 *
 * Why not PR_SET_PDEATHSIG: it fires when the parent's thread exits, and programs start others from
 * threads that do not last. A process descriptor tells of the process, whoever reaps it.
 * Limits:  who was started by somebody that is gone already has a new parent from the start (pid 1,
 *          or whoever reaps orphans) and is bound to that one.
 * Failure: without pidfd_open getppid() is asked now and then (STARTER_ASK_MS).
 */
#ifndef CROFT_OS_STARTER_H
#define CROFT_OS_STARTER_H

#include <stdbool.h>
#include <sys/types.h>

#define STARTER_ASK_MS 250

/* This process shall not outlive `pid`, its parent; 0: nobody (the default, as in a library). */
void starter_bind(pid_t pid);

struct starter {
	pid_t pid; /* 0: nobody is watched */
	int fd;    /* readable when it has ended; -1: starter_gone() asks */
	bool gone;
};

#define STARTER_INIT ((struct starter){.fd = -1})

void starter_open(struct starter *p);
bool starter_gone(struct starter *p);
void starter_close(struct starter *p);

#endif
