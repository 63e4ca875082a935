/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened: a line of JSON per connection, request and refusal, and sums for the supervisor.
 *
 * Limits:  NETLOG_MAX_B in the file, then one line that says so and counting only.
 *          NETLOG_DENIALS_MAX different refusals are told, the rest counted; NETLOG_HOSTS_MAX
 *          (host, port, rule), then "(others)".
 * Trust:   all text came from the sandbox: bounded, and made printable before it leaves.
 */
#ifndef CROFT_NET_GATEWAY_NETLOG_H
#define CROFT_NET_GATEWAY_NETLOG_H

#include "net/gateway/flow.h"

#define NETLOG_MAX_B (64u << 20)
#define NETLOG_FLUSH_B (64u << 10)
#define NETLOG_FLUSH_MS 100
#define NETLOG_DENIALS_MAX 512
#define NETLOG_HOSTS_MAX 256

struct netlog;
struct netlog *netlog_new(struct gateway *g);
void netlog_free(struct netlog *j);
/* Tell the supervisor the final counts and DONE; write what is buffered. */
void netlog_end(struct netlog *j);
/* The same, with this message instead of DONE: what is told from now on is told anew. */
void netlog_rest(struct netlog *j, struct gateway_msg *last);
bool netlog_capped(const struct netlog *j); /* the line that says so was written */
void netlog_continue(struct netlog *j, bool capped); /* the journal of a gateway before this one */

#endif
