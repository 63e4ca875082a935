/* SPDX-License-Identifier: Apache-2.0 */
/* Small members that several predicates have. */
#ifndef CROFT_LEDGER_CHAIN_PREDICATE_IMPL_H
#define CROFT_LEDGER_CHAIN_PREDICATE_IMPL_H

#include "base/json.h"

/* Left out when NULL. */
void predicate_opt(struct json *j, const char *key, const char *v);
/* "digest": {algorithm: hex} */
void predicate_digest(struct json *j, const char *algorithm, const char *hex);
/* key: {uri, digest}; left out when NULL. */
void predicate_policy(struct json *j, const char *key, const char *digest);

#endif
