/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a value goes in a request, and where a placeholder may not be. Pure.
 *
 * Purpose: place_judge() changes a parsed request so that it holds placeholders exactly where
 *          values belong; place_write() copies its text and puts the values in. Between the two the
 *          request is held in ordinary memory: it has no value in it.
 * Trust:   the request was written by the gateway and is believed in nothing. A placeholder that
 *          stands anywhere but at a placement bound to this very request, in whatever encoding,
 *          refuses it.
 * Order:   find placeholders at their placements -> search what is left -> require -> strip -> put
 *          in.
 */
#ifndef CROFT_NET_KEEPER_KEEPER_PLACE_H
#define CROFT_NET_KEEPER_KEEPER_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "net/keeper/keeper_vault.h"
#include "net/http/request.h"

#define PLACE_USES_MAX 16u
#define PLACE_USER_MAX 256u /* bytes of a user name in basic credentials */

struct place_use {
	size_t entry;     /* of the vault */
	const char *find; /* the text to replace: a placeholder, or base64 of "user:placeholder" */
	size_t find_len;
	const char *user; /* basic: what stands before the colon; else NULL */
	size_t user_len;
};

struct placement {
	struct place_use use[PLACE_USES_MAX];
	size_t n;
	/* Of a refusal. */
	char why[256];
	char next[192];
};

/*
 * 0: r may go, ret says what to put in. Otherwise the HTTP status of a refusal, with why and next
 * filled. Texts that ret points to are the request's, or the vault's.
 */
unsigned place_judge(struct placement *ret, struct http_request *r, uint16_t port, bool tls,
	const struct net_policy *p, const struct vault *v);
/* head as written by http1_write_request(). `out` is empty. false: does not fit. */
bool place_write(const struct placement *pl, const struct vault *v, const char *head, size_t n,
	struct secret *out);

#endif
