/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate: what a project asks of the evidence for its commits (docs/EVIDENCE.md, "Gate files"), and the
 * judgement of one commit by it. Nothing here does I/O: evidence/gate.h gathers the facts.
 *
 * Trust:   the gate file is the project's own. The facts about an environment count only when its
 *          ledger was verified; one that was not is a problem by itself, and nothing else is asked.
 * Failure: what is not known counts against the commit.
 */
#ifndef CROFT_EVIDENCE_GATE_RULES_H
#define CROFT_EVIDENCE_GATE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "ledger/chain/story.h"
#include "ledger/chain/ledger.h"

#define GATE_FILE_MAX_B (1u << 20)
#define GATE_LIST_MAX 10000u
#define GATE_PROBLEMS_MAX 64u

enum gate_evidence { GATE_AI_TOUCHED, GATE_ALL, GATE_EVIDENCE_NUM };
extern const char *const gate_evidence_names[GATE_EVIDENCE_NUM];

/* A denial that the project has looked at. */
struct gate_allow {
	char *path; /* absolute, or "./…" in the workspace, with wildcards; NULL: a host */
	char *host; /* as in network rules */
	char *reason;
	char expires[11]; /* "2026-01-31", the last day it holds; "" for ever */
	unsigned line;
};

struct gate {
	enum gate_evidence evidence;
	bool tests, review, clean;
	uint64_t max_denials;
	struct strlist keys; /* ids; none: any key */
	struct strlist tiers;
	struct strlist trailers; /* "Name" or "Name: pattern" */
	struct strlist ignore_commits, ignore_paths;
	struct gate_allow *allow;
	size_t allow_n, allow_cap;
};

void gate_init(struct gate *g);
void gate_done(struct gate *g);
#define cleanup_gate __attribute__((cleanup(gate_done)))
/* ret must be gate_init()ed. name is for messages: "NAME:LINE:COLUMN: …". */
int gate_parse(struct gate *ret, const char *name, const char *text, size_t n, struct err *e);

/* ---- which commits it is about ---- */

/* Does one of the message's lines look like a trailer that the gate looks for? The line, or NULL. */
const char *gate_trailer(const struct gate *g, const char *message, size_t *ret_n);
/* The value of the last line "NAME: value" in a message, trimmed; false when there is none. */
bool gate_trailer_value(const char *message, const char *name, char *ret, size_t size);
bool gate_ignores_commit(const struct gate *g, const char *hex);
bool gate_ignores_path(const struct gate *g, const char *path);

/* ---- judging ---- */

enum gate_rule {
	GATE_NO_EVIDENCE, /* nothing that was landed matches */
	GATE_BAD_EVIDENCE,
	GATE_KEY,
	GATE_TESTS,
	GATE_REVIEW,
	GATE_DENIALS,
	GATE_TIER,
	GATE_DEGRADED,
	GATE_RULE_NUM
};
/* "croft/gate/no-evidence" … */
extern const char *const gate_rule_names[GATE_RULE_NUM];
extern const char *const gate_rule_texts[GATE_RULE_NUM];

struct gate_problem {
	enum gate_rule rule;
	char text[512];
};

struct gate_problems {
	struct gate_problem v[GATE_PROBLEMS_MAX];
	size_t n;
	size_t more; /* beyond the maximum */
};
/* The same sentence is kept once. */
void gate_problem(struct gate_problems *p, enum gate_rule rule, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * What is asked of one environment up to the landing that a commit comes from. A fork begins with what was
 * done where it was forked, so denials and commands of its origins up to there count as its own. Tests
 * and reviews do not: they are about what landed, which the fork has to show for itself.
 */
struct gate_facts {
	const struct ledger_verdict *verdict;
	const struct story *story;
	uint64_t landed_seq;             /* events up to and with this one count */
	const char *today;               /* "2026-01-31" */
	const struct gate_facts *origin; /* it was forked from there; NULL: from nothing */
};
void gate_judge(const struct gate *g, const struct gate_facts *f, struct gate_problems *ret);
bool gate_takes_key(const struct gate *g, const struct ledger_verdict *v);
/* Is this denial one that the gate has allowed, and not too long ago? */
const struct gate_allow *gate_allows(const struct gate *g, const struct story *s,
	const struct story_denial *d, const char *today, bool *ret_expired);

#endif
