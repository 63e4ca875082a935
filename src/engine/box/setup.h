/* SPDX-License-Identifier: Apache-2.0 */
/* Shared between the files that execute a plan: setup.c, trust.c, net.c. */
#ifndef CROFT_ENGINE_BOX_SETUP_H
#define CROFT_ENGINE_BOX_SETUP_H

#include <pthread.h>

#include "engine/plan/decoys.h"
#include "engine/init/init.h"

#define OPEN_MASKS_MAX 64

enum served { SERVED_UNTRIED, SERVED_NOT, SERVED };

struct setup {
	struct init *in;
	int root;     /* the tmpfs that becomes "/" */
	int old_root; /* the host's, until it is handed over to be detached */
	enum served served;
	int traps; /* their directory; -1: there is none yet */
	struct decoy_slots slots;
	pthread_t server;               /* answers for the supervisor during set-up */
	int serve_pipe[2];              /* closing the second ends it; -1: there is none */
	int mask_of[2];                 /* an unreadable file, a directory; -1: not made yet */
	int open_masks[OPEN_MASKS_MAX]; /* with mount points in them: read-only once those exist */
	size_t open_masks_n;
	bool trust_here;      /* trust files are written here, not served */
	char ca[ERR_MSG_MAX]; /* of CONTROL_TRUST, PEM; "": it has not come yet */
	int java;
	int *layers; /* of all overlays that are kept, in the plan's order */
	size_t layers_n, layers_used;
	bool java_parts; /* what goes around the host's file, in a pipe */
};

/* "a/b/c" relative to the private root; plan paths are absolute and normalised. */
static inline const char *setup_rel(const char *dst)
{
	return dst[1] ? dst + 1 : ".";
}

int setup_make_parents(struct setup *s, const char *dst, struct err *e);
int setup_attach(struct setup *s, int mount_fd, const struct plan_op *op, struct err *e);
/* The source as the plan saw it, or nothing; oflags: O_PATH, or how it is read. */
int setup_open_source(const struct plan_op *op, int oflags, struct err *e);
/* Kept layers: opened before anything is mounted; PLAN_OVERLAY with layers; closed again. */
int setup_staging_begin(struct setup *s, const struct plan *p, struct err *e);
/* The plan is known: what was begun for an expected one is kept where it is the same, else begun anew. */
int setup_staging_settle(struct setup *s, struct err *e);
void setup_staging_end(struct setup *s);
int setup_staged(struct setup *s, const struct plan_op *op, struct err *e);
/* PLAN_MASK: of what is at op->dst; and in a staged workspace, if its view has it. */
int setup_mask(struct setup *s, const struct plan_op *op, struct err *e);
int setup_staged_mask(struct setup *s, const struct plan_op *op, struct err *e);
/* PLAN_BIND in a staged workspace. */
int setup_staged_bind(struct setup *s, const struct plan_op *op, struct err *e);
/* May the command write where this name is? */
bool setup_in_writable(const struct policy *pol, const char *path);
/* Workspaces for reading become that, once the places to write in them have mounts of their own. */
int setup_close_views(struct setup *s, struct err *e);
/*
 * A mask that tells, where this one can: 1; 0: it cannot. By FUSE set-up must look the slot up, so a
 * thread serves until setup_serve_end().
 */
int setup_told_mask(struct setup *s, const struct plan_op *op, struct err *e);
void setup_serve_end(struct setup *s);
/* The same with traps. */
int setup_trap_mask(struct setup *s, const struct plan_op *op, size_t slot, struct err *e);
/* PLAN_DECOY without FUSE: refused just so, and told after the command. */
int setup_trap(struct setup *s, const struct plan_op *op, struct err *e);
int setup_symlink(struct setup *s, const char *target, const char *dst, struct err *e);
/* Mount what the supervisor serves, once. 1, or 0 where there is no FUSE. */
int setup_served(struct setup *s, struct err *e);
/* PLAN_TRUST */
int setup_trust(struct setup *s, const struct plan_op *op, struct err *e);
/*
 * The network namespace: begun by a thread, entered when it is there; namespace_settle() ends it. The same
 * thread detaches the old root, once we have left it.
 */
int setup_net_begin(const struct init *in, bool serve, struct err *e);
/* What the supervisor serves, detached: waits for the thread, or makes it here. 0 or -errno. */
int setup_net_served(int *ret_dev, int *ret_mount);
int setup_net_detach(int old_root, struct err *e);
int setup_net_enter(struct init *in, struct err *e);

#endif
