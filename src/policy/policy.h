/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may do, as one resolved value.
 *
 * Purpose: turn layers of YAML into one canonical policy with a digest, and answer questions of it.
 * Trust:   text comes from anyone (a project file is written by whoever wrote the repository); it
 *          is parsed strictly, with maxima, and nothing here does I/O, so all of it can be fuzzed.
 * Order:   policy_layer_parse() per file -> policy_resolve() over the layers -> policy_access()
 *          etc.
 * Failure: any doubt is an error with file, line, column; no partial policy is ever returned.
 */
#ifndef CROFT_POLICY_POLICY_H
#define CROFT_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/gitnames.h"

#define POLICY_FILE_MAX_B (4u << 20) /* bytes in one policy file */
#define POLICY_RULES_MAX 16384u      /* filesystem rules in one layer and in the result */
#define POLICY_LIST_MAX 4096u        /* entries of any other list */
#define POLICY_PATH_MAX 4096u
#define POLICY_DEPTH_MAX 16u

enum policy_layer_kind {
	LAYER_FLOOR,   /* built into croft; cannot be widened by anyone */
	LAYER_PROFILE, /* built-in profile, chosen by name */
	LAYER_SYSTEM,  /* /etc/croft/policy.yaml: a ceiling for every layer after it */
	LAYER_USER,    /* the user's own file */
	LAYER_PROJECT, /* croft.yaml in the workspace: narrows freely, widens only when trusted */
	LAYER_CLI,     /* command line */
	LAYER_NUM,
};

enum tier { TIER_AUTO, TIER_PROCESS, TIER_NAMESPACE, TIER_NUM };
enum threat { THREAT_TRUSTED, THREAT_RISKY, THREAT_HOSTILE, THREAT_NUM };
/* Each sees what the one before it sees. From OBSERVE_WRITES on a call waits for its watcher. */
enum observe { OBSERVE_OFF, OBSERVE_KNOWN, OBSERVE_WRITES, OBSERVE_FULL, OBSERVE_NUM };
enum access { ACCESS_DENY, ACCESS_READ, ACCESS_WRITE, ACCESS_NUM };

extern const char *const policy_layer_names[LAYER_NUM];
extern const char *const policy_tier_names[TIER_NUM];
extern const char *const policy_threat_names[THREAT_NUM];
extern const char *const policy_observe_names[OBSERVE_NUM];
extern const char *const policy_access_names[ACCESS_NUM]; /* "deny" "read" "write" */

/*
 * How strong a boundary is, for "never less than": larger is stronger. Tiers that this version does not have
 * are known by name, because a receipt may come from a later one. TIER_STRENGTH_NONE is for "unknown", a name
 * nobody knows, and "wasm", which cannot be compared with the others: it is less than anything asked.
 * "auto" lies between process, the weakest that it takes, and namespace.
 */
#define TIER_STRENGTH_NONE 0
int policy_tier_strength(const char *name); /* NULL: unknown */
int tier_strength(unsigned t);              /* of enum tier */
/* That name as static text; NULL: no tier has it, or `here` and not in this version. Never "auto". */
const char *policy_tier_find(const char *name, bool here);

/* Where a decision came from, for messages: "croft.yaml:12". */
struct policy_origin {
	enum policy_layer_kind layer;
	const char *file; /* profile name, path, or "command line" */
	unsigned line;
	unsigned column;
};

struct policy_rule {
	enum access access;
	const char *
		path; /* absolute, normalised (no "//", "/./", "..", trailing slash); may hold a glob */
	bool view;     /* access is READ; the sandbox writes a private copy, which stays croft's own */
	bool runs;     /* access is WRITE, meant although the contents run on the host: runs_inside() */
	bool git;      /* access is WRITE, of what committing needs in this Git directory: gitnames.h */
	bool glob;     /* path contains * ? [ ** */
	bool optional; /* "if present": silently skipped when the path is absent */
	bool capped;   /* `cap` is the most that anyone may have at or below path */
	enum access cap;
	uint32_t up; /* 1 + the nearest rule whose path begins this one's; 0: none */
	struct policy_origin origin;
};
/*
 * A rule with glob == false holds a plain path, to be used as it is. With glob == true it is a
 * pattern in which a backslash makes the next character ordinary. After policy_resolve() no plain
 * rule exceeds a cap; a pattern might, so ask policy_access() about each concrete path that a
 * pattern matched.
 */

#define LIMIT_NONE UINT64_MAX

struct policy_limits { /* LIMIT_NONE: not limited */
	uint64_t memory_b;
	uint64_t cpu_milli; /* 1000 = one CPU */
	uint64_t pids;
	uint64_t open_files;
	uint64_t disk_b; /* private scratch: /tmp, HOME, /run, /dev/shm and the discarded overlay;
			    and, counted apart, what is staged */
	uint64_t file_size_b;
	uint64_t timeout_ms;
};

/* limits.c: limits of one command, beside a policy. */
struct policy_limits policy_no_limits(void);
/* One limit by its key in a policy ("memory", "cpus" …), from text as it has it there. */
int policy_limit_set(struct policy_limits *l, const char *key, const char *text, struct err *e);
/* The value of one by its key, as a policy has it: "2G", "1.5". */
void policy_limit_show(struct buf *out, const char *key, uint64_t v);
/* Refuses what is more than `most` has; `name` is the sandbox's. */
int policy_limits_fit(const struct policy_limits *own, const struct policy_limits *most,
	const char *name, struct err *e);

#define POLICY_ENV_NAME_MAX 255u
#define POLICY_ENV_VALUE_MAX (128u << 10)

struct policy_var {
	const char *name;
	const char *value;
};

struct net_policy; /* what may be reached: policy/net/net.h */

struct policy {
	enum tier tier;
	enum threat threat;
	enum observe observe;
	const char *profile;       /* name of the built-in profile used */
	struct policy_rule *rules; /* sorted by path; one rule per path */
	size_t rules_n;
	struct strlist env_pass; /* names; a trailing * matches a prefix */
	struct policy_var *env_set;
	size_t env_set_n;
	struct policy_limits limits;
	struct strlist devices; /* beyond the minimal set: absolute /dev paths */
	struct net_policy *net; /* policy/net/net.h; never NULL after policy_resolve() */
	struct digest digest;   /* of the canonical form */
	bool indexed;           /* made by policy_resolve(): rules sorted, `globs` complete */
	uint32_t *globs;        /* which rules are patterns */
	bool gits;              /* some rule is of a Git directory */
	bool unapproved;        /* nobody approved the project's rules: see policy_rule_grants() */
	bool hold;              /* names that run on the host are read-only: policy_hold() */
	const char *hold_home;
	const char *hold_not; /* except in this directory; NULL: everywhere */
	size_t globs_n;
	void *memory; /* of everything above; freed by policy_done() */
};

/*
 * What relative words in a policy mean for this run. All absolute, normalised, owned by the caller.
 */
struct policy_context {
	const char *home;      /* "~" */
	const char *workspace; /* "." */
};

/* One parsed file, not yet combined. Opaque: src/policy/layer.c. */
struct policy_layer;

/*
 * Parse one layer. `name` is used in messages. On error `e` says "NAME:LINE:COL: what; did you mean
 * X?".
 */
int policy_layer_parse(struct policy_layer **ret, enum policy_layer_kind kind, const char *name,
	const char *text, size_t len, const struct policy_context *ctx, struct err *e);
void policy_layer_free(struct policy_layer *l);
/*
 * Every key that a file may have, as the reader knows them: "limits.memory", "network.allow[].host"
 * (those of deny and ask are the same). False: out of memory, or the list is full.
 */
bool policy_keys(struct strlist *ret);
#define cleanup_policy_layer __attribute__((cleanup(policy_layer_freep)))
static inline void policy_layer_freep(struct policy_layer **l)
{
	policy_layer_free(*l);
}

/* An empty layer to which the command line adds settings with the same checks as a file. */
int policy_layer_new(
	struct policy_layer **ret, enum policy_layer_kind kind, const char *name, struct err *e);
int policy_layer_add_rule(struct policy_layer *l, enum access a, const char *path,
	const struct policy_context *ctx, struct err *e);
int policy_layer_add_view(struct policy_layer *l, const char *path,
	const struct policy_context *ctx, struct err *e);
int policy_layer_add_git(struct policy_layer *l, const char *path,
	const struct policy_context *ctx, struct err *e);
int policy_layer_add_runs(struct policy_layer *l, const char *path,
	const struct policy_context *ctx, struct err *e);
/*
 * key as in the file, dotted: "limits.memory", "tier", "environment.pass", "network.allow"…; and
 * "network.secret" as NAME@HOST[:PORT][:PLACE[=FIELD]], "network.resolve" as NAME=ADDRESS.
 */
int policy_layer_set(struct policy_layer *l, const char *key, const char *value, struct err *e);
/* A built-in layer, without parsing: a profile, or the floor when name is NULL. */
int policy_layer_builtin(struct policy_layer **ret, const char *name,
	const struct policy_context *ctx, struct err *e);
/* The profile a layer asks for, or NULL; digest of the layer's exact bytes. */
const char *policy_layer_profile(const struct policy_layer *l);
const struct digest *policy_layer_digest(const struct policy_layer *l);

/*
 * Combine layers (in order of enum policy_layer_kind; absent ones are NULL pointers or left out).
 * The built-in floor is always added; so is the profile that the layers ask for, unless one is
 * given. `project_trusted`: the user has recorded approval of the project layer's exact digest. An
 * untrusted project layer that widens is refused (ERR_REFUSED) with what it widens and how to
 * approve it.
 */
int policy_resolve(struct policy *ret, struct policy_layer *const *layers, size_t n,
	bool project_trusted, const struct policy_context *ctx, struct err *e);
struct policy_fixed {
	const char *path; /* NULL: the end of the list */
	bool absent;      /* nothing has the name yet, and nothing shall */
	bool deny;        /* not even read: a host service's socket, unless a grant names it */
	bool runs;        /* on the host, so a grant may name it; otherwise it is croft's own */
};
/*
 * The policy as it is for this machine now: without the if-present rules whose path skip[] marks as
 * absent, and with every path of `fixed` (each once) read-only even where it lies in a writable
 * tree. Shares the memory of `p`, which must outlive it; not to be given to policy_done().
 */
int policy_present(struct policy *ret, struct policy *p, const bool *skip,
	const struct policy_fixed *fixed, struct err *e);
/*
 * From now on a name that runs on the host (policy/runs.h) is read-only inside a writable tree unless a
 * grant names it: for engines whose broker judges every name. `except`: a directory where writing it
 * harms nobody (a staged workspace), or NULL. The texts must outlive the policy.
 */
void policy_hold(struct policy *p, const char *home, const char *except);
/* Which kind of name in a Git directory that is granted for committing; GITNAME_NONE: in none. */
enum gitname policy_git_name(const struct policy *p, const char *path);
/* Is this rule what policy_access() answers for the names that such a grant holds? */
bool policy_rule_is_git(const struct policy_rule *r);
/*
 * Does this rule grant the very thing that it names, where more hangs on a name than the access level (a host
 * service's socket)? What nobody approved only narrows, so it names nothing.
 */
bool policy_rule_grants(const struct policy *p, const struct policy_rule *r, const char *path);
/* Is `path` equal to `dir` or below it? Both absolute and normalised. */
bool path_within(const char *dir, const char *path);
/* The end, in a path, of the name that a rule of policy_hold() holds; 0: it is another rule. */
size_t policy_rule_holds(const struct policy_rule *r, const char *path);
void policy_done(struct policy *p);
#define cleanup_policy __attribute__((cleanup(policy_done)))

/*
 * The access that the policy gives to an absolute normalised path, and the deciding rule (NULL: no
 * rule covers it, which is ACCESS_DENY). The most specific matching rule wins: more matching
 * literal path components beat fewer; at equal depth a literal beats a glob; at a tie the narrower
 * access wins.
 */
enum access policy_access(
	const struct policy *p, const char *path, const struct policy_rule **ret_rule);

/*
 * Does `pattern` (absolute, may hold globs) match `path` or an ancestor of it? *ret_depth:
 * components.
 */
bool policy_glob_covers(const char *pattern, const char *path, unsigned *ret_depth);
bool policy_glob_match(const char *pattern, const char *path); /* whole path */
bool policy_has_glob(const char *path); /* holds * ? [ or a backslash: is not a plain path */
/* The plain directory above the first component with a wildcard, unescaped. NULL: out of memory. */
char *policy_glob_base(const char *pattern);

bool policy_env_passes(const struct policy *p, const char *name);

/* Normalise: collapse "//" and "/./", resolve ".." lexically, strip trailing "/". Absolute only. */
int policy_path_normalise(char **ret, const char *path, struct err *e);
/*
 * Expand "~", "~/x", ".", "./x", "/x" with the context, then normalise. Anything else is an error.
 */
int policy_path_expand(
	char **ret, const char *path, const struct policy_context *ctx, struct err *e);

/* The pattern that stands for this path and no other. */
void policy_path_literal(struct buf *out, const char *path);
/*
 * "--read PATH" as one would type it into a shell: a pattern for exactly this path, quoted. false, and
 * nothing added: no policy can name it.
 */
bool policy_path_option(struct buf *out, const char *option, const char *path);
#define POLICY_UNNAMEABLE "nothing: no policy can name this path; grant the directory above it"

/* The same for a rule: wildcards are checked and kept, escapes removed when there are none. */
int policy_pattern_expand(char **ret, bool *ret_glob, const char *text,
	const struct policy_context *ctx, struct err *e);

/* Canonical text: sorted keys, one form for every value; the digest is over exactly these bytes. */
void policy_canonical(const struct policy *p, struct buf *out);
void policy_json(const struct policy *p, struct buf *out);
/* The policy as a policy file, each rule with where it came from as a comment. */
void policy_show(const struct policy *p, struct buf *out);
/* Differences between two policies as text lines "+ write /x (origin)"; returns how many. */
size_t policy_diff(const struct policy *a, const struct policy *b, struct buf *out);
/* Which rule decides for this path and why, as text. */
void policy_explain(const struct policy *p, const char *path, struct buf *out);

/* The same for "host", "host:port" or an address: the verdict and every rule that covers it. */
void policy_explain_host(const struct policy *p, const char *host_port, struct buf *out);

/* Built-in profiles: names and their YAML. */
extern const char *const policy_profile_names[];
extern const size_t policy_profile_names_n;
const char *policy_profile_text(const char *name); /* NULL when unknown */
const char *policy_floor_text(void);

#endif
