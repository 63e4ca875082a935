/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coding agent as a data file describes it.
 *
 * Trust:  shipped files are croft's own; the user's are believed as their policy is, so a file that everybody
 *         can write is refused. A sandbox reaches neither: the user's directory is on the floor.
 * Limits: AGENT_FILE_MAX_B of text, AGENT_LIST_MAX entries in a list.
 * Use:    agent_find() -> agent_use(), which finds the program and makes the options of a policy.
 */
#ifndef CROFT_AGENT_AGENT_H
#define CROFT_AGENT_AGENT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define AGENT_FILE_MAX_B (64u << 10)
#define AGENT_LIST_MAX 64u
#define AGENT_KEYS_MAX 16u
#define AGENT_NAME_MAX 32u

/* The reason of a rule that refuses what an agent's task does not need: told of in one line. */
#define AGENT_TELEMETRY "telemetry"

/* A variable that holds a key, where the key may go, and how it is put into requests. */
struct agent_key {
	char *name, *host;
	char *place, *field; /* as in network.secrets; NULL: as is usual at the host */
};

struct agent {
	char *name, *title, *note;
	char *file;      /* where this was read */
	bool unverified; /* from its documentation only: nobody ran it in croft */
	struct strlist programs; /* names to look for in PATH */
	struct strlist look;     /* paths where installers put it, "~" as in a policy */
	struct strlist read;     /* what else it consists of, where that is present */
	struct strlist hosts;    /* "host:port" or a host, port 443 */
	struct strlist websockets; /* hosts of these that are also spoken to by WebSocket */
	struct strlist telemetry; /* refused, and not worth a word each time */
	struct strlist view;      /* configuration: paths of which it gets a private view */
	struct strlist pass;      /* variables of the caller that configure it */
	struct strlist set;       /* "K=V" */
	struct strlist arguments; /* before the user's own */
	struct strlist root_set;  /* "K=V", when root runs it */
	struct strlist root_arguments;
	struct agent_key keys[AGENT_KEYS_MAX];
	size_t keys_n;
};

void agent_init(struct agent *a);
void agent_done(struct agent *a);
#define cleanup_agent __attribute__((cleanup(agent_done)))

/* May an agent be called that? */
bool agent_name_valid(const char *name);
/* One file's text; `file` is for messages. Its name must be `name`, unless that is NULL. No I/O. */
int agent_parse(struct agent *ret, const char *file, const char *name, const char *text, size_t len,
	struct err *e);

/* ---- files (agent.c) ---- */

/* The user's file of this name, or else the shipped one. `config`: the user's croft directory. */
int agent_find(struct agent *ret, const char *config, const char *name, struct err *e);
/* The names of all agents there are, sorted. */
int agent_names(struct strlist *ret, const char *config, struct err *e);
/* Check a file, and keep it as the user's own. *ret_path: where. */
int agent_add(const char *config, const char *file, char **ret_path, struct err *e);

/* ---- use (agent_use.c) ---- */

struct policy;

/* A layer of a policy; and the command. */
struct agent_use {
	struct buf policy;     /* text of a policy file */
	char name[64];         /* of that text, in messages */
	struct strlist read;   /* of the host, beyond what any sandbox sees */
	struct strlist argv;   /* program and its own arguments */
	struct strlist keyed;  /* names of the keys that were found */
	struct strlist view;   /* of the paths to view, those that exist */
	struct strlist seen;   /* the same, as the data file names them */
};

void agent_use_init(struct agent_use *u);
void agent_use_done(struct agent_use *u);
#define cleanup_agent_use __attribute__((cleanup(agent_use_done)))
/*
 * p: the policy without any of this, by which is known what the sandbox sees anyway. Nothing is run; a
 * program that is not there is refused, with how to install or name it. `bound`: secrets that the caller
 * binds ("NAME@…"), or NULL.
 */
int agent_use(struct agent_use *ret, const struct agent *a, const struct policy *p, const char *home,
	const char *workspace, const char *const *bound, struct err *e);

#endif
