/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan is the policy compiled for one engine: an ordered list of operations, data only. What
 * --dry-run prints is exactly what set-up executes, in this order.
 */
#ifndef CROFT_ENGINE_PLAN_PLAN_H
#define CROFT_ENGINE_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "os/rlimit.h"
#include "os/spawn.h"
#include "policy/policy.h"

#define PLAN_OPS_MAX 20000u

enum plan_op_kind {
	PLAN_SCRATCH,  /* a writable directory on the private tmpfs at dst, mode */
	PLAN_DIR,      /* a plain directory in the private root */
	PLAN_BIND,     /* host src at dst: read-only, or writable */
	PLAN_COPY,     /* a small file of the host's, copied: cheaper than a mount */
	PLAN_FILE,     /* small generated file: text at dst, read-only */
	PLAN_SYMLINK,  /* symlink dst -> src */
	PLAN_PROC,     /* fresh proc */
	PLAN_DEVICE,   /* host device node src at dst */
	PLAN_DEVPTS,   /* private pts instance */
	PLAN_OVERLAY,  /* src below a discarded upper layer at dst; or kept layers */
	PLAN_MASK,     /* nothing readable or writable at dst */
	PLAN_DECOY,    /* dst refuses and tells when touched */
	PLAN_CAPTURE,  /* every address is local, every connection the gateway's */
	PLAN_TRUST,    /* file src of TRUST_DIR; at dst, over the host's when nested */
	PLAN_LANDLOCK, /* Landlock rule on dst */
	PLAN_OP_NUM,
};
extern const char *const plan_op_names[PLAN_OP_NUM];

/* Kept layers of an overlay, each with its identity when the plan was made. */
struct plan_layer {
	char *path;
	dev_t dev;
	ino_t ino;
};

#define PLAN_LAYERS_MAX 160u /* their names fit the one page that a mount's options have */

struct plan_layers {
	struct plan_layer v[PLAN_LAYERS_MAX + 2]; /* newest first; then upper and work, if any */
	size_t n;
	bool writable; /* the last two are upper and work */
};

struct plan_op {
	enum plan_op_kind kind;
	enum access access; /* BIND, LANDLOCK */
	bool is_dir;
	bool no_sockets; /* LANDLOCK: bind() may make no name here, for the broker does not see it */
	bool holds;      /* MASK: something below it is granted, so it can be passed through */
	bool nested;     /* dst lies in a host tree that is already there: never created */
	bool staged;     /* BIND, MASK, LANDLOCK: in a staged workspace, if its view has it */
	bool served; /* LANDLOCK: only where FUSE serves the decoys, which refuse by themselves */
	bool device; /* LANDLOCK: read, write and ioctl of what is there; nothing may be created */
	mode_t mode;
	char *src;
	char *dst;
	dev_t dev; /* BIND, DEVICE, OVERLAY, TRUST: identity of src when the plan was made */
	ino_t ino;
	struct plan_layers *layers;     /* OVERLAY: kept; NULL: src, and what is written is lost */
	const struct policy_rule *rule; /* why; may be NULL */
};

/* Which system-call filter: os/seccomp.h builds it, seccomp_flags vary it. */
enum plan_filter { PLAN_FILTER_ALLOWLIST, PLAN_FILTER_NUM };
extern const char *const plan_filter_names[PLAN_FILTER_NUM];

/*
 * What the command may be, beside the files it sees. Filled with the plan; the first process makes itself
 * that, as it is written here.
 */
struct plan_privilege {
	struct id_map ids; /* of its user namespace; uid_n 0: it has none, and the caller's ids */
	uint64_t caps;     /* that it keeps, a bit each */
	enum plan_filter filter;
	struct rlimit_set rlimits; /* memory_b and pids: where no cgroup holds them */
};

struct plan {
	enum tier tier;
	struct plan_op *ops;
	size_t n;
	size_t cap;
	bool broker;            /* path-changing calls go through the broker */
	unsigned seccomp_flags; /* enum seccomp_flags */
	struct plan_privilege privilege;
	struct strlist absent;  /* denied names in readable trees that are not there, and must not be */
	struct strlist notes;   /* degradations known before start: recorded in the receipt */
	const struct policy *policy;
	struct digest digest; /* of the printed form; see plan_seal() */
};

struct plan_op *plan_add(struct plan *p, enum plan_op_kind kind, const char *src, const char *dst);
/* Look at a layer's directory now, without following a symlink. */
int plan_add_layer(struct plan_op *op, const char *path, struct err *e);
int plan_note(struct plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void plan_print(const struct plan *p, struct buf *out);
/* privilege.c: the limits of a policy; staged: a disk limit counts what is staged. */
struct rlimit_set plan_rlimits(const struct policy_limits *l, bool staged);
void plan_privilege_print(const struct plan *p, struct buf *out);
void plan_privilege_json(const struct plan *p, struct json *j);
void plan_json(const struct plan *p, struct json *j, const char *key);
/* Compute p->digest: what will be, or was, executed. */
void plan_seal(struct plan *p);
void plan_done(struct plan *p);

#endif
