/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a client's first flight. Beyond not crashing: nothing is said unless it is a whole
 * hello, a name is canonical, a result that is not "more" is final however the bytes arrive, and
 * the same message in records of another size says the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "must.h"
#include "net/tls/hello.h"

#define PREFIXES 48u
#define RECORD_HEADER_B 5u

/* From memory of exactly that size. */
static enum hello_result parse(struct hello *h, const uint8_t *data, size_t n)
{
	cleanup_free uint8_t *copy = malloc(n ? n : 1);

	MUST(copy);
	if (n)
		memcpy(copy, data, n);
	memset(h, 0x5a, sizeof(*h));
	return hello_parse(h, copy, n);
}

static void check_said(const struct hello *h, enum hello_result r)
{
	char again[NET_NAME_MAX + 1];

	if (r != HELLO_OK) {
		MUST(!h->sni[0] && !h->sni_bad && !h->ech && !h->alpn_h2 && !h->alpn_h1);
		return;
	}
	MUST(!h->sni[0] || !h->sni_bad);
	if (h->sni[0])
		MUST(net_name(again, h->sni, strlen(h->sni)) && str_eq(again, h->sni));
}

static bool same(const struct hello *a, const struct hello *b)
{
	return str_eq(a->sni, b->sni) && a->sni_bad == b->sni_bad && a->ech == b->ech &&
	       a->alpn_h2 == b->alpn_h2 && a->alpn_h1 == b->alpn_h1;
}

/* What a prefix decides, the whole does not change. */
static void check_prefixes(
	const struct hello *whole, enum hello_result r, const uint8_t *data, size_t size)
{
	size_t step = size / PREFIXES + 1;
	struct hello h;

	for (size_t n = 0; n < size; n += n < 16 ? 1 : step) {
		enum hello_result part = parse(&h, data, n);

		check_said(&h, part);
		MUST(part == HELLO_MORE || (part == r && same(&h, whole)));
	}
}

/* The payload of the records, each byte in a record of its own. */
static void check_split(const struct hello *whole, const uint8_t *data, size_t size)
{
	cleanup_free uint8_t *split = malloc(size * (RECORD_HEADER_B + 1) + 1);
	size_t n = 0, at = 0;
	struct hello h;

	MUST(split);
	while (size - at >= RECORD_HEADER_B && data[at] == 22) {
		size_t payload_b = (size_t)data[at + 3] << 8 | data[at + 4];

		at += RECORD_HEADER_B;
		for (size_t i = 0; i < payload_b && at < size; i++, at++) {
			memcpy(&split[n], "\x16\x03\x01\x00\x01", RECORD_HEADER_B);
			split[n + RECORD_HEADER_B] = data[at];
			n += RECORD_HEADER_B + 1;
		}
	}
	if (n <= HELLO_MAX_B)
		MUST(parse(&h, split, n) == HELLO_OK && same(&h, whole));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello h;
	enum hello_result r = parse(&h, data, size);

	check_said(&h, r);
	check_prefixes(&h, r, data, size);
	if (r == HELLO_OK)
		check_split(&h, data, size);
	return 0;
}
