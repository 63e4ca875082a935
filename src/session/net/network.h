/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of a sandbox's network.
 *
 * Purpose: decide what the sandbox needs (captured sockets, a proxy port, an authority,
 *          placeholders), hold its listening sockets while nobody uses them, start the gateway when
 *          somebody does, take down what it tells, end it with the command.
 * Order:   network_prepare() before the plan -> network_request(), network_environ() -> the sandbox
 *          starts -> network_trust() -> READY: network_take() -> network_fds()/network_handle() in
 *          the loop -> network_finish() when the command has ended -> network_done().
 * Trust:   what the gateway says is data from a process that parses hostile bytes: bounded and
 *          escaped.
 * Rest:    a gateway that has nothing to do goes, and the next packet starts another (network_rest.c).
 * Failure: a gateway that dies leaves the sandbox without a network, and the receipt says so.
 */
#ifndef CROFT_SESSION_NET_NETWORK_H
#define CROFT_SESSION_NET_NETWORK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/notice.h"
#include "engine/wire/wire.h"
#include "ipc/gateway_message.h"
#include "policy/net/net.h"
#include "os/tproxy.h"

#define NETWORK_DENIALS_MAX 256
#define NETWORK_HOSTS_MAX 256
#define NETWORK_ASKS_MAX 64
#define NETWORK_PUBLISH_MAX 16
#define NETWORK_WAITING_MAX WIRE_CONNECTS_MAX /* of all ports together */
#define NETWORK_FDS_MAX (8 + NETWORK_PUBLISH_MAX)

enum network_state {
	NETWORK_NONE,   /* the policy has no network */
	NETWORK_IDLE,   /* sockets are held here; no gateway yet */
	NETWORK_SERVED, /* by a gateway */
	NETWORK_LOST,   /* the gateway ended before the command */
	NETWORK_RESTS,  /* it had nothing to do: as IDLE, but what it has left goes to the next one */
	NETWORK_STATE_NUM
};
extern const char *const network_state_names[NETWORK_STATE_NUM];

struct network_denial {
	char *host, *method, *path, *rule, *why, *fix;
	uint16_t port;
	uint32_t status;
	uint64_t count;
	uint64_t before; /* of it, what gateways before the present one have counted */
	bool shared;     /* in a command's receipt: by it, or by another that ran at that time */
};

struct network_host {
	char *host, *rule;
	uint16_t port;
	enum net_mode mode;
	uint64_t connections, requests, up_b, down_b;
};

struct network_ask {
	uint64_t id;
	char *host, *method, *path, *query;
	uint16_t port;
	uint64_t since_ms;
	enum gateway_body body;
	uint64_t body_b; /* of GATEWAY_BODY_LENGTH */
};

struct network {
	const struct net_policy *policy; /* NULL: none wanted */
	const char *home;
	char run_id[40];
	char program[4096]; /* croft-gateway */
	int program_fd;     /* the same, found once: later gateways are of the version of the first */
	const struct engine *engine; /* NULL: not prepared */
	enum network_state state;
	bool shared; /* of a command in a session: whose traffic it was is not known */
	/* These stay open while a gateway has them, for when it rests. */
	int listen[4]; /* captured, in the order of enum capture_fd */
	int proxy;     /* where the sandbox has no network of its own */
	uint16_t proxy_port;
	uint16_t local_ports[CAPTURE_LOCAL_MAX]; /* of loopback inside, which lead to this machine's */
	size_t local_ports_n;
	char token[GATEWAY_TOKEN_LEN + 1];
	uint8_t seed[32]; /* of the placeholders: the same in every run of one project */
	char **placeholders;
	struct gateway_ca ca; /* der_len 0: nobody needed it yet */
	unsigned trust_files; /* bits of enum trust_file that the command may look for */
	struct buf trust[TRUST_FILE_NUM]; /* those that somebody looked for */
	int lists[TRUST_FILE_NUM];        /* the host's own; -1: none */
	bool trust_failed;                /* and was told */
	int authority; /* memfd: what gateways are given of `ca`; -1: not yet */
	int rest_state; /* memfd: what the last one left; -1: not yet */
	uint64_t rest_ms, started_ms;
	uint64_t said;  /* messages to the gateway since CONFIG */
	uint64_t lives; /* gateways that were started */
	int sock;
	pid_t pid, keeper; /* 0: none, or reaped */
	int keeper_sock;
	int journal;
	char *first_policy; /* text that the first gateway began with; NULL: of `policy` */
	char *new_policy;   /* text of a generation that was set while running */
	int publish[NETWORK_PUBLISH_MAX];
	/* Accepted, until the sandbox answers CONNECTED; the id is the place. fd -1: that place is free. */
	struct network_waiting {
		int fd;
		uint16_t port;
	} waiting[NETWORK_WAITING_MAX];
	size_t waiting_n;
	struct network_denial *denials;
	size_t denials_n;
	uint64_t denials_lost;
	struct network_host *hosts;
	size_t hosts_n;
	struct network_ask *asks;
	size_t asks_n;
	uint64_t ask_timeout_ms; /* the gateway has denied what is older */
	struct strlist notes;    /* degradations */
	unsigned notes_told;     /* by the gateway and the keeper */
	uint64_t connections, requests, up_b, down_b;
	uint64_t datagrams_refused;
	int counters[2]; /* of the namespace: /proc/PID/net/snmp, snmp6 */
	int refuser;     /* without a policy: the resolver that refuses every name; -1: none */
	bool ending;     /* END was said */
	bool done;       /* DONE came after it */
};

#define NETWORK_INIT                                                                               \
	((struct network){.listen = {-1, -1, -1, -1},                                              \
		.proxy = -1,                                                                       \
		.program_fd = -1,                                                                  \
		.authority = -1,                                                                   \
		.rest_state = -1,                                                                  \
		.sock = -1,                                                                        \
		.keeper_sock = -1,                                                                 \
		.journal = -1,                                                                     \
		.lists = {-1, -1, -1},                                                             \
		.counters = {-1, -1},                                                              \
		.refuser = -1,                                                                     \
		.notes = {.max = 64}})

/* Where croft-gateway must be, whether it is there or not. */
int network_program(char *ret, size_t size, struct err *e);
/*
 * Everything that can be refused is refused here: a missing gateway, secret, port. `watch`: a
 * policy without network rules gets a gateway as well, if one can be started, which refuses
 * everything and tells what. `project`: its directory, to which the placeholders belong.
 */
int network_prepare(struct network *n, const struct policy *p, const struct engine *engine,
	const char *run_id, const char *home, const char *project, bool watch, struct err *e);
/* All traffic is captured; otherwise programs must use the proxy, or are refused by the broker. */
static inline bool network_own(const struct network *n)
{
	return n->engine && n->engine->can & ENGINE_OWN_NETWORK;
}
void network_request(const struct network *n, struct request *r);
/* trust_dir: where the command finds the trust files; NULL: there are none. */
int network_environ(const struct network *n, struct strlist *env, const char *trust_dir,
	const struct policy *p, struct err *e);
/*
 * Ready to make the trust files of the plan when somebody looks for them; with `scratch`: made, in
 * there.
 */
int network_trust(struct network *n, const struct plan *p, const char *scratch, struct err *e);
/* The answer to CONTROL_ASK_TRUST. */
int network_trust_send(struct network *n, int control, struct err *e);
/* The bytes of a trust file, made now if need be; they stay until network_done(). */
int network_trust_file(struct network *n, enum trust_file f, const void **ret, size_t *ret_n);
void network_take(struct network *n, struct sandbox *b);
/* What to poll; returns how many. */
int network_fds(struct network *n, struct pollfd p[NETWORK_FDS_MAX]);
void network_handle(struct network *n, const struct pollfd *p, int count, struct sandbox *b);
/* NOTICE_CONNECT of the broker: an attempt where there is no network. */
void network_notice(struct network *n, const struct notice *from);
/* CONTROL_CONNECTED came; fd -1: nobody listens there. */
void network_connected(struct network *n, uint32_t id, int fd);
/* The command runs: find what its namespace counts, where that was not done at READY. */
void network_counters(struct network *n, const struct sandbox *b);
/* The command has ended: end the gateway and hear what it has to say. */
void network_finish(struct network *n);
void network_done(struct network *n);
/*
 * What has been refused of late, for a command of a session. network_mark() remembers how often each thing
 * had been refused; network_since() copies what was refused since then to an unused *ret.
 */
struct network_mark {
	uint64_t *counts;
	size_t n;
};
int network_mark(const struct network *n, struct network_mark *ret); /* 0 or -ENOMEM */
void network_since(
	const struct network *n, const struct network_mark *m, bool shared, struct network *ret);
void network_since_done(struct network *ret); /* unused again */

/* Forget the asks whose time is over. */
void network_expire(struct network *n);
/* The ask that has waited longest, or NULL; those whose time is over are forgotten. */
/* "none", "12 bytes", "of unknown length" */
void network_ask_body(const struct network_ask *a, struct buf *out);
const struct network_ask *network_first_ask(struct network *n);
/* A verdict on an ask. -ENOENT: no such. */
int network_answer(struct network *n, uint64_t id, enum net_effect effect, uint64_t for_ms);
/* A new generation, as text. */
int network_swap(struct network *n, const char *text, size_t len, struct err *e);

void network_json(const struct network *n, struct json *j);
/* For record_denials_json(): arg is a struct network. */
void network_denials_json(const void *arg, struct json *j, const char *run_id, size_t first);

#endif
