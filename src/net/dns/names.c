/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and the synthetic addresses that stand for them.
 *
 * Purpose: both addresses of a name are made from one number, its slot: 198.18.0.0 + slot and
 *          fd63:726f:6674:: + slot. So one table, by slot, answers for both families.
 * Trust:   the sandbox chooses the names (under what policy allows) and how many. It can push out
 *          its own bindings, never one that a flow of its holds, and it cannot aim at one bucket:
 *          the hash is seeded.
 * Order:   a slot is fresh, then used, then at the end of a queue of free ones. Fresh slots go
 *          first, then the queue from its head: an address that somebody may still remember under
 *          its old name is the last to get a new one.
 * Limits:  memory is reserved for all of NAMES_MAX at once and touched only as far as it is used.
 */
#include "net/dns/names.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"

#define SLOT_FIRST 256u     /* 198.18.0.0/24 is reserved */
#define SLOT_END (1u << 17) /* a /15 */
#define BUCKETS (2u * NAMES_MAX)
#define NONE 0u /* no entry, no slot: entry 0 and slot 0 are never given out */
#define SLOT_USED (1u << 31)

static_assert((BUCKETS & (BUCKETS - 1)) == 0, "buckets are found by a mask");
static_assert(
	NAMES_MAX < SLOT_END - SLOT_FIRST, "a free address exists whenever a name is evicted");

struct entry {
	char *host; /* NULL: not in use */
	uint64_t hash;
	uint32_t slot;
	uint32_t chain; /* next of the same bucket */
	uint32_t newer, older;
	uint32_t held;
};

struct names {
	uint64_t seed;
	struct entry *entries; /* 1-based */
	uint32_t entries_n;
	uint32_t buckets[BUCKETS];
	/* By recency of use; only names that no flow holds. */
	uint32_t newest, oldest;
	/* Of a used slot: its entry with SLOT_USED. Of a free one: the next in the queue. */
	uint32_t *slots;
	uint32_t fresh;     /* slots from here on were never used */
	uint32_t refused_n; /* names that names_bind_refused() added */
	uint32_t free_head, free_tail;
};

struct names *names_new(void)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->entries = calloc(NAMES_MAX + 1, sizeof(*n->entries));
	n->slots = calloc(SLOT_END, sizeof(*n->slots));
	if (!n->entries || !n->slots) {
		names_free(n);
		return NULL;
	}
	if (getrandom(&n->seed, sizeof(n->seed), GRND_NONBLOCK) != sizeof(n->seed)) {
		struct timespec ts = {0};

		/* Early in a machine's life only; what is lost is evenness, not a protection. */
		clock_gettime(CLOCK_MONOTONIC, &ts);
		n->seed = (uint64_t)ts.tv_nsec << 32 ^ (uint64_t)(uintptr_t)n;
	}
	n->fresh = SLOT_FIRST;
	return n;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (uint32_t i = 1; i <= n->entries_n; i++)
		free(n->entries[i].host);
	free(n->entries);
	free(n->slots);
	free(n);
}

/* ---- by name ---- */

static uint64_t hash_of(const struct names *n, const char *host)
{
	uint64_t h = n->seed;

	for (const char *c = host; *c; c++) {
		h = (h ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return h ^ h >> 32;
}

static uint32_t find(const struct names *n, const char *host, uint64_t hash)
{
	uint32_t i = n->buckets[hash & (BUCKETS - 1)];

	while (i != NONE && (n->entries[i].hash != hash || !str_eq(n->entries[i].host, host)))
		i = n->entries[i].chain;
	return i;
}

static void bucket_add(struct names *n, uint32_t i)
{
	uint32_t *head = &n->buckets[n->entries[i].hash & (BUCKETS - 1)];

	n->entries[i].chain = *head;
	*head = i;
}

static void bucket_remove(struct names *n, uint32_t i)
{
	uint32_t *at = &n->buckets[n->entries[i].hash & (BUCKETS - 1)];

	while (*at != i)
		at = &n->entries[*at].chain;
	*at = n->entries[i].chain;
}

/* ---- by recency ---- */

static void recency_add(struct names *n, uint32_t i)
{
	struct entry *e = &n->entries[i];

	e->newer = NONE;
	e->older = n->newest;
	if (n->newest != NONE)
		n->entries[n->newest].newer = i;
	else
		n->oldest = i;
	n->newest = i;
}

static void recency_remove(struct names *n, uint32_t i)
{
	const struct entry *e = &n->entries[i];

	if (e->newer != NONE)
		n->entries[e->newer].older = e->older;
	else
		n->newest = e->older;
	if (e->older != NONE)
		n->entries[e->older].newer = e->newer;
	else
		n->oldest = e->newer;
}

static void recency_touch(struct names *n, uint32_t i)
{
	if (n->entries[i].held)
		return; /* not in the list: comes back in front when it is let go */
	recency_remove(n, i);
	recency_add(n, i);
}

/* ---- by slot ---- */

static uint32_t slot_take(struct names *n)
{
	uint32_t s;

	if (n->fresh < SLOT_END)
		return n->fresh++;
	s = n->free_head; /* not empty: there are more slots than names */
	n->free_head = n->slots[s];
	if (n->free_head == NONE)
		n->free_tail = NONE;
	return s;
}

static void slot_give(struct names *n, uint32_t s)
{
	n->slots[s] = NONE;
	if (n->free_tail != NONE)
		n->slots[n->free_tail] = s;
	else
		n->free_head = s;
	n->free_tail = s;
}

static const uint8_t ula[6] = {0xfd, 0x63, 0x72, 0x6f, 0x66, 0x74};

static void slot_addrs(uint32_t s, struct net_addr *ret_v4, struct net_addr *ret_v6)
{
	*ret_v4 = (struct net_addr){
		.b = {198, (uint8_t)(18 + (s >> 16)), (uint8_t)(s >> 8), (uint8_t)s}};
	*ret_v6 = (struct net_addr){.v6 = true};
	memcpy(ret_v6->b, ula, sizeof(ula));
	ret_v6->b[13] = (uint8_t)(s >> 16);
	ret_v6->b[14] = (uint8_t)(s >> 8);
	ret_v6->b[15] = (uint8_t)s;
}

bool names_synthetic(const struct net_addr *a)
{
	if (a->v6)
		return memcmp(a->b, ula, sizeof(ula)) == 0;
	return a->b[0] == 198 && (a->b[1] & 0xfe) == 18;
}

/* NONE for an address of the ranges that no slot has. */
static uint32_t slot_of(const struct net_addr *a)
{
	static const uint8_t zeros[7];

	if (!names_synthetic(a))
		return NONE;
	if (!a->v6)
		return (uint32_t)(a->b[1] & 1) << 16 | (uint32_t)a->b[2] << 8 | a->b[3];
	if (memcmp(&a->b[sizeof(ula)], zeros, sizeof(zeros)) != 0 || a->b[13] > 1)
		return NONE;
	return (uint32_t)a->b[13] << 16 | (uint32_t)a->b[14] << 8 | a->b[15];
}

/* ---- what others call ---- */

/* An entry to fill: a new one, or the one unused longest, emptied. NONE: all are held. */
static uint32_t entry_take(struct names *n)
{
	uint32_t i = n->oldest;

	if (n->entries_n < NAMES_MAX)
		return ++n->entries_n;
	if (i == NONE)
		return NONE;
	recency_remove(n, i);
	bucket_remove(n, i);
	slot_give(n, n->entries[i].slot);
	free(n->entries[i].host);
	n->entries[i] = (struct entry){0};
	return i;
}

int names_bind(struct names *n, const char *host, struct net_addr *ret_v4, struct net_addr *ret_v6)
{
	uint64_t hash = hash_of(n, host);
	uint32_t i = find(n, host, hash);
	cleanup_free char *copy = NULL;

	if (i != NONE) {
		recency_touch(n, i);
		slot_addrs(n->entries[i].slot, ret_v4, ret_v6);
		return 0;
	}
	copy = strdup(host); /* before anything is evicted for it */
	if (!copy)
		return -ENOMEM;
	i = entry_take(n);
	if (i == NONE)
		return -ENOSPC;
	n->entries[i] = (struct entry){.host = take_ptr(copy), .hash = hash, .slot = slot_take(n)};
	n->slots[n->entries[i].slot] = i | SLOT_USED;
	bucket_add(n, i);
	recency_add(n, i);
	slot_addrs(n->entries[i].slot, ret_v4, ret_v6);
	return 0;
}

int names_bind_refused(
	struct names *n, const char *host, struct net_addr *ret_v4, struct net_addr *ret_v6)
{
	bool known = find(n, host, hash_of(n, host)) != NONE;
	int r;

	if (!known && n->refused_n >= NAMES_REFUSED_MAX)
		return -ENOSPC;
	r = names_bind(n, host, ret_v4, ret_v6);
	if (r == 0 && !known)
		n->refused_n++;
	return r;
}

const char *names_lookup(const struct names *n, const struct net_addr *a)
{
	uint32_t s = slot_of(a);

	if (s < SLOT_FIRST || !(n->slots[s] & SLOT_USED))
		return NULL;
	return n->entries[n->slots[s] & ~SLOT_USED].host;
}

void names_hold(struct names *n, const char *host, int delta)
{
	uint32_t i = find(n, host, hash_of(n, host));
	struct entry *e = &n->entries[i];

	if (i == NONE)
		return;
	if (delta > 0) {
		if (e->held++ == 0)
			recency_remove(n, i);
	} else if (delta < 0 && e->held && --e->held == 0) {
		recency_add(n, i);
	}
}

/* ---- kept while no gateway runs ---- */

/* Oldest first, so that reading them in order makes the same queue; then the free addresses, in theirs. */
void names_pack(const struct names *n, struct buf *out)
{
	uint32_t used = 0;

	for (uint32_t i = n->oldest; i != NONE; i = n->entries[i].newer)
		used++;
	pack_u32(out, n->fresh);
	pack_u32(out, n->refused_n);
	pack_u32(out, used);
	for (uint32_t i = n->oldest; i != NONE; i = n->entries[i].newer) {
		pack_u32(out, n->entries[i].slot);
		pack_str(out, n->entries[i].host);
	}
	for (uint32_t s = n->free_head; s != NONE; s = n->slots[s])
		pack_u32(out, s);
}

static bool unpack_name(struct names *n, struct unpack *u)
{
	uint32_t s = unpack_u32(u), i = n->entries_n + 1;
	const char *host = unpack_str(u, NET_NAME_MAX);
	uint64_t hash = hash_of(n, host);

	if (u->bad || !*host || s < SLOT_FIRST || s >= n->fresh || n->slots[s] ||
		find(n, host, hash) != NONE)
		return false;
	n->entries[i] = (struct entry){.host = strdup(host), .hash = hash, .slot = s};
	if (!n->entries[i].host)
		return false;
	n->entries_n = i;
	n->slots[s] = i | SLOT_USED;
	bucket_add(n, i);
	recency_add(n, i);
	return true;
}

bool names_unpack(struct names *n, struct unpack *u)
{
	uint32_t fresh = unpack_u32(u), refused = unpack_u32(u), used = unpack_u32(u);

	if (u->bad || n->entries_n || fresh < SLOT_FIRST || fresh > SLOT_END || used > NAMES_MAX ||
		used > fresh - SLOT_FIRST || refused > NAMES_REFUSED_MAX)
		return false;
	n->fresh = fresh;
	n->refused_n = refused;
	for (uint32_t i = 0; i < used; i++)
		if (!unpack_name(n, u))
			return false;
	for (uint32_t i = used; i < fresh - SLOT_FIRST; i++) {
		uint32_t s = unpack_u32(u);

		/* One that is in the queue has a next one, or is the last. */
		if (u->bad || s < SLOT_FIRST || s >= fresh || n->slots[s] || s == n->free_tail)
			return false;
		slot_give(n, s);
	}
	return true;
}
