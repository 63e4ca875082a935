/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a keeper holds: the values of its policy's secrets, and the placeholders that stand for
 * them.
 *
 * Purpose: load once before confinement from the store, and again from files that are handed over.
 * Trust:   files are checked as the launcher checks them. The supervisor says where they are, never
 *          what is in them.
 * Order:   memory for values is made and locked in vault_init(), before confinement: two banks, so
 *          that new values are complete before the old ones are wiped.
 *          What hides values is made there, too.
 * Invariant: an entry keeps its number and its placeholder for as long as the keeper lives, also
 *            when its value changes its length or is gone: the sandbox still holds that
 *            placeholder.
 */
#ifndef CROFT_NET_KEEPER_KEEPER_VAULT_H
#define CROFT_NET_KEEPER_KEEPER_VAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "secret/value.h"
#include "secret/placeholder.h"
#include "net/keeper/scrub.h"
#include "policy/net/net.h"

#define VAULT_SEED_LEN 32

struct vault_entry {
	char name[SECRET_NAME_MAX + 1];
	char *placeholder; /* owned; no NUL */
	size_t placeholder_len;
	const char *value; /* in the bank; NULL: not stored any more, or not bound */
	size_t value_len;
	bool changed; /* by the last load: gone, or another value */
};

struct vault {
	uint8_t seed[VAULT_SEED_LEN];
	struct secret bank[2];
	unsigned active;
	struct vault_entry v[PLACEHOLDERS_MAX];
	size_t n;
	struct placeholder_set *set; /* index: of v */
	struct scrubber *scrubber;   /* hides these values, and those that were here before */
	bool loaded;
};

int vault_init(struct vault *v, const uint8_t seed[VAULT_SEED_LEN], struct err *e);
void vault_done(struct vault *v);
/*
 * Values of p->secrets. `from` is the store's directory (before confinement), or a socket with an
 * open file beside each name (secrets.h: secret_handover()). The first time a missing one is an
 * error; later it is only gone. On failure no value is left.
 */
int vault_load(struct vault *v, const struct net_policy *p, int from, struct err *e);
/* Wipe every value; placeholders stay known. */
void vault_forget(struct vault *v);
/* NULL: none of that name. */
const struct vault_entry *vault_find(const struct vault *v, const char *name);
/* Are all values in locked memory? */
bool vault_locked(const struct vault *v);

#endif
