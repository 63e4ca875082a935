/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 and percent-encoding for placements. Pure; what handles values writes into locked memory
 * only.
 */
#ifndef CROFT_NET_KEEPER_KEEPER_TEXT_H
#define CROFT_NET_KEEPER_KEEPER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "secret/value.h"

/* base64("user:value") straight into locked memory. */
bool text_basic(
	struct secret *out, const char *user, size_t user_n, const char *value, size_t value_n);

/* Percent-encode all but unreserved characters. */
void text_escape(struct buf *out, const char *p, size_t n);
bool text_escape_secret(struct secret *out, const char *p, size_t n);
/* Does p, percent-decoded, equal want? */
bool text_escaped_is(const char *p, size_t n, const char *want, size_t want_n);

#endif
