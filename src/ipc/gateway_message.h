/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor and its gateway say to each other.
 *
 * Purpose: one SOCK_SEQPACKET pair per gateway (and one per keeper), fixed-size messages,
 *          descriptors beside them. The supervisor starts the gateway when the first connection
 *          waits, so that a command without traffic pays for none of it.
 * Trust:   the gateway parses what the sandbox sends. What it says is taken as claims: size and
 *          type checked, text bounded and escaped before anyone reads it. It can decide nothing for
 *          others.
 * Order:   CONFIG first, once. END, or closing the socket, ends the gateway.
 * Rest:    a gateway without work stops listening, leaves its state, and says REST with the number of
 *          messages that it has heard. If the supervisor has sent no other it ends the gateway and
 *          listens itself; else REST is void on both sides: the message that crossed it makes the
 *          gateway listen again.
 */
#ifndef CROFT_IPC_GATEWAY_MESSAGE_H
#define CROFT_IPC_GATEWAY_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#define GATEWAY_CONTROL_FD 3 /* the gateway's end, at exec */
#define GATEWAY_TOKEN_LEN 32 /* hexadecimal digits: who may use an explicit proxy */
#define GATEWAY_CA_DER_MAX 1024
#define GATEWAY_STATE_MAX_B (8u << 20)

enum gateway_msg_type {
	/* supervisor -> gateway */
	GATEWAY_CONFIG = 1, /* fds: enum gateway_fd by fd_mask; token */
	GATEWAY_POLICY,     /* fds: POLICY. A new generation; what it does not allow is closed */
	GATEWAY_VERDICT,    /* id of an ASK; effect; for_ms (0: this once) */
	GATEWAY_RELAY,      /* fds: OUTER and INNER, both connected: a published port */
	GATEWAY_END,        /* finish what is written, say DONE, exit */
	/* gateway -> supervisor */
	GATEWAY_READY, /* confined, serving */
	GATEWAY_DENIAL, /* refused: once per (host, port, method, path, rule); its count at times, and last */
	GATEWAY_HOST, /* at the end: what was used, per (host, port, rule) */
	GATEWAY_ASK,  /* somebody must decide; the connection waits */
	GATEWAY_NOTE, /* a sentence for the receipt's degradations */
	GATEWAY_DONE, /* everything was said; totals */
	GATEWAY_REST, /* nothing to do: may end now; id: messages heard since CONFIG; sums as DONE */
	GATEWAY_MSG_NUM
};

enum gateway_fd {
	GATEWAY_FD_POLICY,  /* memfd: network policy as text, policy_network_text() */
	GATEWAY_FD_CA,      /* memfd: struct gateway_ca */
	GATEWAY_FD_JOURNAL, /* append-only file: JSON lines */
	GATEWAY_FD_TCP4,    /* transparent listeners in the sandbox's network namespace */
	GATEWAY_FD_TCP6,
	GATEWAY_FD_UDP4, /* port 53, IP_PKTINFO */
	GATEWAY_FD_UDP6,
	GATEWAY_FD_PROXY,  /* listener for CONNECT and SOCKS5, where there is no namespace */
	GATEWAY_FD_KEEPER, /* SOCK_SEQPACKET to the keeper of secrets, see net/keeper/keeper.h */
	GATEWAY_FD_PLACEHOLDERS, /* memfd: a line "NAME PLACEHOLDER" per secret of the policy, in its order */
	GATEWAY_FD_OUTER, /* RELAY */
	GATEWAY_FD_INNER,
	GATEWAY_FD_LATER, /* CONFIG: the generation that is in force, when it is not POLICY */
	GATEWAY_FD_STATE, /* memfd of GATEWAY_STATE_MAX_B: what a resting gateway leaves to the next */
	GATEWAY_FD_NUM
};

enum gateway_body { GATEWAY_BODY_NONE, GATEWAY_BODY_LENGTH, GATEWAY_BODY_STREAM };

/* The sandbox's own authority, made by the supervisor in memory. */
struct gateway_ca {
	uint8_t key[32]; /* P-256 scalar, big-endian */
	uint32_t der_len;
	uint8_t der[GATEWAY_CA_DER_MAX]; /* its certificate */
};

struct gateway_msg {
	uint32_t type;
	uint32_t fd_mask;
	uint64_t id;     /* ASK, VERDICT; DENIAL: number within this gateway */
	uint32_t effect; /* VERDICT: enum net_effect */
	uint32_t mode;   /* enum net_mode */
	uint32_t port;
	uint32_t status; /* DENIAL: HTTP status given, or 0 */
	uint64_t for_ms; /* VERDICT; CONFIG: rest after so long without work, 0 never */
	uint64_t count;  /* DENIAL: how often; HOST: requests; DONE: denials beyond what was told;
			    CONFIG: how many gateways served this sandbox before */
	uint64_t connections;  /* HOST, DONE */
	uint64_t up_b, down_b; /* HOST, DONE; ASK: up_b is the length of a body */
	uint32_t body;         /* ASK: enum gateway_body */
	char host[256];        /* name, or address as text */
	char method
		[32]; /* "" when not HTTP; "CONNECT", "DNS", "TLS" … say what kind of attempt it was */
	char path[1024];                   /* without query */
	char query[1024];                  /* ASK */
	char rule[160];                    /* which rule decided, "" when none did */
	char text[512];                    /* DENIAL: why; NOTE: the sentence */
	char fix[320];                     /* DENIAL: what would allow it, or "" */
	char token[GATEWAY_TOKEN_LEN + 1]; /* CONFIG */
};

/* 1, 0 at EOF, -errno. Descriptors go to fds[] by enum gateway_fd; unused ones become -1. */
int gateway_receive(int sock, struct gateway_msg *ret, int fds[GATEWAY_FD_NUM]);
/* The same without waiting: -EAGAIN. */
int gateway_receive_now(int sock, struct gateway_msg *ret, int fds[GATEWAY_FD_NUM]);
/*
 * fds[] as above, -1 where none; m->fd_mask is filled in. 0 or -errno; never waits: EAGAIN when the
 * other side does not read.
 */
int gateway_send(int sock, struct gateway_msg *m, const int fds[GATEWAY_FD_NUM]);

#endif
