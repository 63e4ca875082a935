/* SPDX-License-Identifier: Apache-2.0 */
/* What a resting gateway left to the next one, from any bytes: what is taken is whole. */
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "must.h"
#include "net/dns/names.h"
#include "net/gateway/ask.h"
#include "net/gateway/usage.h"

#define BYTES_MAX (64u << 10)

/* A table that was taken over works, and is the same when it is put away again. */
static void names_work(struct names *n)
{
	cleanup_buf struct buf once = BUF_INIT(1u << 20), twice = BUF_INIT(1u << 20);
	struct names *again = names_new();
	struct net_addr v4, v6;
	struct unpack u;

	names_pack(n, &once);
	if (once.failed || !again)
		return names_free(again);
	u = unpack_of(once.data, once.len);
	MUST(names_unpack(again, &u) && unpack_good(&u));
	names_pack(again, &twice);
	MUST(once.len == twice.len);
	if (names_bind(n, "fuzz.example", &v4, &v6) == 0)
		MUST(names_lookup(n, &v4) && names_lookup(n, &v6));
	names_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	struct gateway g = {.loop = loop_new(&e)};
	struct names *n = names_new();
	struct usage *usage = usage_new();
	struct asks *asks = asks_new(&g);
	struct unpack u = unpack_of(data, size);

	if (size <= BYTES_MAX && g.loop && n && usage && asks && names_unpack(n, &u)) {
		names_work(n);
		if (usage_unpack(usage, &u) && asks_unpack(asks, &u))
			MUST(!asks_waiting(asks));
	}
	asks_free(asks);
	usage_free(usage);
	names_free(n);
	loop_free(g.loop);
	return 0;
}
