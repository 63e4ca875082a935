/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that evidence is signed with: ed25519, one per user and machine, $STATE/keys/ledger (0600,
 * the seed) and ledger.pub. It never enters a sandbox: the state directory is below the floor.
 */
#ifndef CROFT_LEDGER_CHAIN_KEY_H
#define CROFT_LEDGER_CHAIN_KEY_H

#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"

#define KEY_PUBLIC_LEN 32
#define KEY_SIGNATURE_LEN 64

struct ledger_key {
	uint8_t public[KEY_PUBLIC_LEN];
	uint8_t seed[32];
	struct digest id; /* SHA-256 of the public key */
};

/* Made on first use, with a lock so that two makers agree. */
int ledger_key_load(struct ledger_key *ret, const char *state_dir, struct err *e);
void ledger_key_wipe(struct ledger_key *k);
void ledger_sign(
	const struct ledger_key *k, const void *p, size_t n, uint8_t ret[KEY_SIGNATURE_LEN]);
bool ledger_check(const uint8_t public[KEY_PUBLIC_LEN], const void *p, size_t n,
	const uint8_t sig[KEY_SIGNATURE_LEN]);
/* PEM (SubjectPublicKeyInfo), for other tools; and back. */
void ledger_key_pem(const uint8_t public[KEY_PUBLIC_LEN], struct buf *out);
int ledger_key_from_pem(uint8_t ret[KEY_PUBLIC_LEN], const char *pem, size_t n, struct err *e);

#endif
