/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches write-intent calls of a namespace-tier sandbox from outside, to say what was denied and
 * what was changed.
 *
 * Purpose: diagnosis. Every call is let through; mounts and Landlock decide. A caller that
 *          races or lies can hide from it or mislead it, and gains nothing else. The one exception is
 *          chmod with the set-group-id bit, where trees are written in place: directories may have
 *          it, files not, and the observer does the call itself on what it has looked at.
 * Trust:   it runs in the supervisor, outside the sandbox and perhaps as root, on the sandbox's
 *          words. It opens nothing but O_PATH, follows no magic link in a path, and never resolves a path in
 *          a way that can wait: the supervisor itself serves the decoy file system, so waiting for
 *          it would be for ever. Reading a caller's memory can wait, too, once there is a file on
 *          that file system that has bytes: its pages can be mapped, and dropped. From then on
 *          the observer is a thread (observer_apart).
 * Limits:  one call at a time; text bounded by PATH_MAX. What could not be looked at is counted in
 *          `lost`.
 */
#ifndef CROFT_SESSION_RUN_OBSERVE_H
#define CROFT_SESSION_RUN_OBSERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/plan/decoys.h"
#include "engine/notice.h"
#include "os/notify.h"
#include "policy/policy.h"

struct observer {
	int listener; /* borrowed */
	const struct policy *policy;
	const char *workspace;      /* absolute, canonical, as inside */
	bool reads;                 /* opens for reading and exec are notified, too */
	const char *const *scratch; /* trees of the sandbox's own: not reported; NULL-terminated */
	const struct decoy_slots *decoys; /* but changes of these are; NULL: there are none */
	bool served; /* they are FUSE's, and tell of themselves, not of names below */
	void (*saw)(void *arg, const struct notice *n);
	void *arg;
	uint64_t seen, lost;

	/* Its own: zero at the start. */
	bool open;
	struct notify notify;
	int root; /* O_PATH of the sandbox's root, -1 until the first call */
	int workspace_fd;
	bool no_openat2;
	struct notice note[2]; /* of the call at hand */
	unsigned notes_n;
	bool apart;
	pthread_t thread;
	int tell; /* the thread's end of what it tells, struct notice by struct notice */
};

/* Handle one waiting call, never blocking. 0; -ESHUTDOWN when the last process is gone. */
int observer_serve(struct observer *o);
/*
 * Go on in a thread, which then has the listener and everything here for itself. Returns a socket where
 * its notices arrive and which ends when it ends; or -errno, and nothing has changed.
 */
int observer_apart(struct observer *o);
/* After its socket has ended. */
void observer_join(struct observer *o);
void observer_done(struct observer *o);

#endif
