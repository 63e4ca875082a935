/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened: a line of JSON per connection, request and refusal, and sums for the supervisor.
 *
 * Limits:  JOURNAL_MAX_B in the file, then one line that says so and counting only.
 *          JOURNAL_DENIALS_MAX different refusals are told, the rest counted; JOURNAL_HOSTS_MAX
 *          (host, port, rule), then "(others)".
 * Trust:   all text came from the sandbox: bounded, and made printable before it leaves.
 */
#ifndef CROFT_NET_JOURNAL_H
#define CROFT_NET_JOURNAL_H

#include "net/flow.h"

#define JOURNAL_MAX_B (64u << 20)
#define JOURNAL_FLUSH_B (64u << 10)
#define JOURNAL_FLUSH_MS 100
#define JOURNAL_DENIALS_MAX 512
#define JOURNAL_HOSTS_MAX 256

struct journal;
struct journal *journal_new(struct gateway *g);
void journal_free(struct journal *j);
/* Tell the supervisor the final counts and DONE; write what is buffered. */
void journal_end(struct journal *j);

#endif
