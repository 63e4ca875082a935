/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DSSE, the Dead Simple Signing Envelope (v1): {payload, payloadType, signatures[{keyid, sig}]}, where
 * what is signed is PAE(type, payload) and never the JSON around it.
 *
 * What is written has one form: these members in this order, standard base64 with padding, no blanks,
 * a newline at the end. Read is whatever the specification allows: also URL-safe base64, also without
 * padding, further members.
 */
#ifndef CROFT_LEDGER_CHAIN_DSSE_H
#define CROFT_LEDGER_CHAIN_DSSE_H

#include "base/buf.h"
#include "base/err.h"
#include "ledger/chain/key.h"

#define DSSE_INTOTO "application/vnd.in-toto+json"
#define DSSE_PAYLOAD_MAX_B (8u << 20)
#define DSSE_ENVELOPE_MAX_B (12u << 20)
#define DSSE_SIGNATURES_MAX 8
#define DSSE_TEXT_MAX 256 /* payloadType, keyid */

struct dsse_signature {
	char keyid[DSSE_TEXT_MAX]; /* a hint that nobody signed; "" for none */
	uint8_t sig[KEY_SIGNATURE_LEN];
};

struct dsse {
	char type[DSSE_TEXT_MAX];
	struct buf payload;
	struct dsse_signature signatures[DSSE_SIGNATURES_MAX];
	size_t signatures_n;
};

/* "DSSEv1" SP length SP type SP length SP body: the bytes that are signed. */
void dsse_pae(const char *type, const void *body, size_t n, struct buf *out);
/* Sign, and append the envelope. */
void dsse_write(
	const struct ledger_key *k, const char *type, const void *body, size_t n, struct buf *out);
/* The envelope with a signature that exists already. */
void dsse_write_signed(const char *type, const void *body, size_t n, const char *keyid,
	const uint8_t sig[KEY_SIGNATURE_LEN], struct buf *out);
/* Form only; check the signature next. ret is to be done with dsse_done() on success. */
int dsse_parse(struct dsse *ret, const void *p, size_t n, struct err *e);
/* Is one of the signatures this key's? */
bool dsse_check(const struct dsse *d, const uint8_t public[KEY_PUBLIC_LEN]);
void dsse_done(struct dsse *d);
#define cleanup_dsse __attribute__((cleanup(dsse_done)))

#endif
