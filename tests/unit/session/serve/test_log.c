/* SPDX-License-Identifier: Apache-2.0 */
/* session/serve/log: what is kept, what goes first, and what it may take. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "session/serve/log.h"

static void add(struct log *l, unsigned stream, size_t n, uint64_t held)
{
	char *text = malloc(n);

	memset(text, 'a' + (int)stream, n);
	CHECK(log_add(l, stream, text, n, held));
	free(text);
}

TEST(keeps_what_came_last_in_order_and_by_stream)
{
	struct log l = {0};
	unsigned stream;
	const void *at;
	size_t n;

	add(&l, 0, 5, UINT64_MAX);
	add(&l, 1, 3, UINT64_MAX);
	n = log_at(&l, 2, &stream, &at);
	CHECK(n == 3 && stream == 0 && memcmp(at, "aaa", 3) == 0);
	n = log_at(&l, 5, &stream, &at);
	CHECK(n == 3 && stream == 1 && memcmp(at, "bbb", 3) == 0);
	CHECK_INT(log_at(&l, 8, &stream, &at), 0);
	for (int i = 0; i < 100; i++)
		add(&l, 0, LOG_PIECE_B, UINT64_MAX);
	CHECK(l.begin > 0 && l.end - l.begin <= LOG_MAX_B);
	CHECK(l.end - l.begin > LOG_MAX_B - 2 * LOG_PIECE_B);
	CHECK_INT(log_at(&l, l.begin - 1, &stream, &at), 0);
	log_done(&l);
}

TEST(a_reader_who_holds_it_back_loses_nothing)
{
	struct log l = {0};

	while (log_has_room(&l, 0))
		add(&l, 0, LOG_PIECE_B, 0);
	CHECK_INT(l.begin, 0);
	CHECK(l.end >= LOG_MAX_B && l.end <= LOG_MAX_B + LOG_PIECE_B);
	CHECK(log_has_room(&l, l.end)); /* it has had all of that */
	log_done(&l);
}

/* Each change of the stream takes a piece of its own, however short. */
TEST(one_byte_of_each_stream_in_turn_takes_bounded_memory)
{
	struct log l = {0};

	for (unsigned i = 0; i < 300000; i++)
		add(&l, i % 2, 1, UINT64_MAX);
	CHECK(l.cost <= LOG_COST_B + LOG_PIECE_B);
	CHECK(l.begin > 0 && l.end == 300000);
	log_done(&l);
	for (unsigned i = 0; log_has_room(&l, 0); i++) {
		add(&l, i % 2, 1, 0);
		CHECK(i < 1000000);
	}
	CHECK_INT(l.begin, 0);
	CHECK(l.cost <= LOG_COST_B + LOG_PIECE_B);
	log_done(&l);
}
