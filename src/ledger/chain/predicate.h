/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an event says: the members of its predicate (JSON without the braces, for ledger_event), from plain
 * inputs. Standard predicates keep their own member names, so that other tools read them; what croft adds
 * stands beside them.
 *
 * A member whose input is NULL or 0 is left out where the standard allows it. Lists are cut at
 * PREDICATE_LIST_MAX members and PREDICATE_LIST_MAX_B bytes, and then say so: the event's files have all of
 * it, and a statement is never too long to be signed, whatever a sandbox does. Nothing here hides secrets:
 * give it what has been through redact.h.
 */
#ifndef CROFT_LEDGER_CHAIN_PREDICATE_H
#define CROFT_LEDGER_CHAIN_PREDICATE_H

#include "base/buf.h"
#include "base/jsonread.h"
#include "ledger/redact/redact.h"

#define PREDICATE_LIST_MAX 1000u
#define PREDICATE_LIST_MAX_B (1u << 20)
#define PREDICATE_MAX_B (4u << 20)

/* EVENT_CREATED, and EVENT_FORKED; PREDICATE_EVENT. */
struct predicate_created {
	const char *base_commit, *tree; /* hex */
	const char *workspace;
	const char *policy_digest, *tier_asked;
	const char *agent, *model, *task;
	const char *parent_env, *parent_event; /* id; SHA-256 of an envelope */
	const char *croft_version, *kernel;
};
void predicate_created(const struct predicate_created *c, struct buf *out);

/* What was kept of a command's output. */
struct predicate_output {
	uint64_t bytes; /* that it wrote */
	bool captured, truncated;
	const struct redact *redactions; /* or NULL */
};

/* EVENT_EXEC and EVENT_INTERRUPTED; PREDICATE_TRACE, or PREDICATE_TEST by predicate_test(). */
struct predicate_exec {
	const struct jnode
		*receipt; /* root of croft.receipt/v1; NULL: interrupted, there is none */
	const char *run_id;
	const char *const *argv; /* NULL: as the receipt says */
	const char *host_id;     /* names the machine without telling who it is */
	const char *started, *finished;
	const char *policy_digest; /* NULL: as the receipt says */
	const char *tree_after;    /* NULL: it has no name */
	uint64_t unnamed;          /* files that were too much to read, so that there is no tree */
	struct predicate_output output;
	const char *note; /* what is known of an interrupted one */
};
void predicate_trace(const struct predicate_exec *x, struct buf *out);
/* The command as one test, passed when it exited with 0. */
void predicate_test(const struct predicate_exec *x, struct buf *out);

/* EVENT_REVIEWED; PREDICATE_VSA. */
enum predicate_decision { DECISION_ACCEPTED, DECISION_REJECTED, DECISION_EDITED, DECISION_NUM };
struct predicate_path {
	const char *path;
	enum predicate_decision decision;
	const char *comment; /* or NULL */
};
struct predicate_review {
	const char *verifier; /* who, as Git knows the user */
	const char *time;
	const char *resource_uri; /* "git+croft:ENV@TREE" */
	const char *policy_digest;
	const char *const *inputs; /* SHA-256 of the envelopes that were looked at */
	size_t inputs_n;
	bool passed; /* something was accepted */
	const char *tree_shown, *tree_accepted;
	const struct predicate_path *paths;
	size_t paths_n;
	const char *comment;
};
void predicate_review(const struct predicate_review *v, struct buf *out);

/* EVENT_APPLIED; PREDICATE_PROVENANCE. */
struct predicate_applied {
	const char *env_id, *mode; /* "commit", "squash", "patch", "branch", "checkout" */
	const char *const *paths;
	size_t paths_n;
	const char *policy_digest, *tier;
	const char *repository_uri; /* of base and target; NULL: left out */
	const char *base_commit, *target_commit;
	const char *invocation_id, *started, *finished;
	const char *croft_version;
	const char *tree, *commit, *branch; /* what landed */
	const char *evidence;               /* SHA-256 of the envelope it rests on */
};
void predicate_applied(const struct predicate_applied *a, struct buf *out);

/* All others; PREDICATE_EVENT. Names and strings; NULL values are left out. */
struct predicate_member {
	const char *name, *value;
};
void predicate_plain(const struct predicate_member *v, size_t n, struct buf *out);

#endif
