/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The story of one environment as its ledger tells it: events in order, and what reports, gates and
 * replays ask of them.
 *
 * Trust:  the text is a sandbox's or a stranger's; nothing here judges it (ledger_verify() does), and
 *         whoever shows it escapes it. Members that an event lacks are NULL, 0 or -1.
 * Limits: STORY_EVENTS_MAX events, STORY_RECEIPTS_MAX_B of receipts; beyond them the story is refused
 *         rather than told in part.
 */
#ifndef CROFT_LEDGER_CHAIN_STORY_H
#define CROFT_LEDGER_CHAIN_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/jsonread.h"
#include "ledger/chain/ledger.h"

#define STORY_EVENTS_MAX 100000u
#define STORY_RECEIPTS_MAX_B (512u << 20)
#define STORY_COMMANDS_MAX 1000000u
#define STORY_DENIALS_MAX 1000000u
#define STORY_HOSTS_MAX 100000u

struct story_denial {
	uint64_t seq;   /* of its event */
	uint64_t since; /* of the event in which its command started */
	const char *run, *id, *operation, *path, *host, *method, *rule, *reason, *allow_with,
		*seen_by;
	int64_t port, count;
};

struct story_host {
	const char *host, *rule;
	int64_t port, connections, requests, up_b, down_b; /* of all commands together */
};

/*
 * A command that ended, or whose supervisor died. One of a session may have started in an earlier event than
 * it ended in, and may still run: then seq is where it started.
 */
struct story_command {
	uint64_t seq, since; /* the events where it ended and where it started */
	uint32_t entry;   /* of that event, counted from 1; 0: the event is this command's alone */
	uint32_t process; /* of its session */
	bool interrupted, test, passed, timed_out;
	bool running;    /* it has not ended */
	bool overlapped; /* others of its session ran at the same time */
	bool tty;
	bool dropped; /* while reading: it never existed */
	const struct ledger_entry *event;
	const struct jnode *receipt, *argv, *degradations;
	const char *run, *cwd, *workspace, *tier, *mode, *label, *policy;
	/*
	 * The workspace's, afterwards. Of a session it is known only when nothing else can have changed it:
	 * no other process was alive between two looks at it, or both found the same.
	 */
	const char *tree;
	int64_t exit_code, signal, wall_us, denials_lost;
	size_t denials_n;
};

/* What went into the user's checkout. */
struct story_landing {
	const struct ledger_entry *entry;
	const char *how, *commit, *tree, *patch_id;
	const char *onto;             /* the commit it landed on */
	const char *start, *accepted; /* trees: what landed is the difference */
	bool reviewed;
	const struct jnode *paths; /* [{path, mode, blob, oldMode, oldBlob}]; NULL: too many */
};

/* One path of a landing: what it was and what it became. Mode 0 and NULL: not there. */
struct story_path {
	const char *path, *blob, *old_blob;
	unsigned mode, old_mode;
	bool old_known; /* the event says what was there before */
};

struct story_review {
	const struct ledger_entry *entry;
	const char *tree, *accepted, *result;
	const struct jnode *decisions;
};

struct story {
	struct ledger_entry *entries;
	struct jdoc **files; /* receipt of a command, list of a landing: one per entry, or NULL */
	size_t entries_n;
	struct story_command *commands; /* in the order in which they started */
	size_t commands_n, commands_cap;
	struct story_denial *denials;
	size_t denials_n, denials_cap;
	uint64_t denials_lost; /* beyond what receipts keep */
	struct story_host *hosts;
	size_t hosts_n, hosts_cap;
	struct story_landing *landings;
	size_t landings_n;
	struct story_review *reviews;
	size_t reviews_n;
	/* of the first event: claims, but for the trees */
	const char *agent, *model, *task, *parent, *base_commit, *base_tree, *policy, *workspace;
	const char *parent_event; /* SHA-256 of the envelope that was the parent's newest */
};

/* Counts come from receipts, which are anybody's: a sum stays at the largest instead of wrapping. */
static inline uint64_t story_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void story_done(struct story *s);
#define cleanup_story __attribute__((cleanup(story_done)))
/* The first max events (0: all) of what leads to tip; form only. */
int story_read(
	struct story *ret, const struct repo *r, const struct oid *tip, size_t max, struct err *e);
/* The workspace's tree when the event was written, or NULL. */
const char *story_tree(const struct ledger_entry *x);
/* Until visit returns non-zero. */
int story_landed_files(const struct story_landing *l,
	int (*visit)(void *arg, const struct story_path *p), void *arg);
/* "7", or "7.3": the third entry of event 7. */
struct story_name {
	char s[40];
};
struct story_name story_command_name(const struct story_command *c);
/* "cargo test --all", arguments quoted as a shell would need them; not escaped for display. */
void story_argv(const struct story_command *c, struct buf *out);
/* "[REDACTED]" and other marks in an argument: it cannot be run again. */
bool story_redacted(const struct story_command *c);

#endif
