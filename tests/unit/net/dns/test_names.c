/* SPDX-License-Identifier: Apache-2.0 */
/* Names and their synthetic addresses: stable, both ways, bounded, held, reused last. */
#include "test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/dns/names.h"

#define SLOTS ((1u << 17) - 256u) /* addresses of 198.18.0.0/15 without 198.18.0.0/24 */

static bool bind_number(struct names *n, unsigned i, struct net_addr *ret_v4)
{
	struct net_addr v6;
	char host[32];

	snprintf(host, sizeof(host), "n%u.example", i);
	return names_bind(n, host, ret_v4, &v6) == 0;
}

static unsigned slot(const struct net_addr *v4)
{
	return (unsigned)(v4->b[1] - 18) << 16 | (unsigned)v4->b[2] << 8 | v4->b[3];
}

static const char *lookup(const struct names *n, const struct net_addr *a)
{
	const char *s = names_lookup(n, a);

	return s ? s : "(none)";
}

TEST(a_name_keeps_its_pair_and_either_address_leads_back)
{
	struct names *n = names_new();
	struct net_addr a4, a6, b4, b6, again4, again6;

	CHECK(n != NULL);
	CHECK_INT(names_bind(n, "a.example", &a4, &a6), 0);
	CHECK_INT(names_bind(n, "b.example", &b4, &b6), 0);
	CHECK_INT(names_bind(n, "a.example", &again4, &again6), 0);
	CHECK(!a4.v6 && a6.v6);
	CHECK(memcmp(&a4, &again4, sizeof(a4)) == 0 && memcmp(&a6, &again6, sizeof(a6)) == 0);
	CHECK(memcmp(&a4, &b4, sizeof(a4)) != 0 && memcmp(&a6, &b6, sizeof(a6)) != 0);
	CHECK_STR(lookup(n, &a4), "a.example");
	CHECK_STR(lookup(n, &a6), "a.example");
	CHECK_STR(lookup(n, &b6), "b.example");
	CHECK(names_synthetic(&a4) && names_synthetic(&a6));
	names_free(n);
}

TEST(the_first_network_is_never_given_out)
{
	struct names *n = names_new();
	struct net_addr v4;

	CHECK(bind_number(n, 0, &v4));
	CHECK_INT(slot(&v4), 256);
	CHECK_INT(v4.b[0], 198);
	names_free(n);
}

TEST(addresses_that_nobody_asked_for_have_no_name)
{
	struct names *n = names_new();
	struct net_addr v4, v6, a;

	CHECK_INT(names_bind(n, "a.example", &v4, &v6), 0);
	a = v4;
	a.b[3]++;
	CHECK_STR(lookup(n, &a), "(none)");
	CHECK(names_synthetic(&a));
	a = (struct net_addr){.b = {198, 18, 0, 1}};
	CHECK_STR(lookup(n, &a), "(none)");
	/* Every bit of the longer address counts: none is a second spelling of a bound one. */
	for (unsigned bit = 0; bit < 128; bit++) {
		a = v6;
		a.b[bit / 8] ^= (uint8_t)(0x80u >> bit % 8);
		CHECK_STR(lookup(n, &a), "(none)");
		CHECK_INT(names_synthetic(&a), bit >= 48);
	}
	for (unsigned bit = 0; bit < 32; bit++) {
		a = v4;
		a.b[bit / 8] ^= (uint8_t)(0x80u >> bit % 8);
		CHECK_STR(lookup(n, &a), "(none)");
		CHECK_INT(names_synthetic(&a), bit >= 15);
	}
	CHECK_STR(lookup(n, &v6), "a.example"); /* control */
	names_free(n);
}

TEST(when_full_the_one_unused_longest_makes_room)
{
	struct names *n = names_new();
	struct net_addr first, second, third, v4, again;

	CHECK(bind_number(n, 0, &first));
	CHECK(bind_number(n, 1, &second));
	CHECK(bind_number(n, 2, &third));
	for (unsigned i = 3; i < NAMES_MAX; i++)
		CHECK(bind_number(n, i, &v4));
	CHECK_STR(lookup(n, &first), "n0.example"); /* control: full, and nothing is gone */
	CHECK(bind_number(n, 0, &again));           /* used again: the second is the oldest now */
	CHECK(bind_number(n, NAMES_MAX, &v4));
	CHECK_STR(lookup(n, &second), "(none)");
	CHECK_STR(lookup(n, &first), "n0.example");
	CHECK_STR(lookup(n, &third), "n2.example");
	CHECK_INT(slot(&v4), 256 + NAMES_MAX);
	names_free(n);
}

TEST(held_names_stay_and_come_back_in_front)
{
	struct names *n = names_new();
	struct net_addr first, second, v4, v6;

	CHECK(bind_number(n, 0, &first));
	CHECK(bind_number(n, 1, &second));
	names_hold(n, "n0.example", 1);
	names_hold(n, "n0.example", 1);
	names_hold(n, "n0.example", -1);
	for (unsigned i = 2; i < 2 * NAMES_MAX; i++)
		CHECK(bind_number(n, i, &v4));
	CHECK_STR(lookup(n, &first), "n0.example");
	CHECK_STR(lookup(n, &second), "(none)"); /* control: not held */
	names_hold(n, "n0.example", -1);
	CHECK(bind_number(n, 2 * NAMES_MAX, &v4));
	CHECK_STR(lookup(n, &first), "n0.example"); /* just let go: the newest but one */
	for (unsigned i = 0; i < NAMES_MAX; i++)
		CHECK(bind_number(n, 3 * NAMES_MAX + i, &v4));
	CHECK_STR(lookup(n, &first), "(none)");
	names_hold(n, "nobody.example", 1); /* neither are errors */
	names_hold(n, "nobody.example", -1);
	CHECK_INT(names_bind(n, "x.example", &v4, &v6), 0);
	names_hold(n, "x.example", -1);
	CHECK_STR(lookup(n, &v4), "x.example");
	names_free(n);
}

TEST(when_all_are_held_there_is_no_room)
{
	struct names *n = names_new();
	struct net_addr v4, v6;
	char host[32];

	for (unsigned i = 0; i < NAMES_MAX; i++) {
		CHECK(bind_number(n, i, &v4));
		snprintf(host, sizeof(host), "n%u.example", i);
		names_hold(n, host, 1);
	}
	CHECK_INT(names_bind(n, "more.example", &v4, &v6), -ENOSPC);
	CHECK_INT(names_bind(n, "n7.example", &v4, &v6), 0); /* bound ones still answer */
	names_hold(n, "n7.example", -1);
	CHECK_INT(names_bind(n, "more.example", &v4, &v6), 0);
	CHECK_STR(lookup(n, &v4), "more.example");
	names_free(n);
}

TEST(an_address_gets_a_second_name_after_all_others)
{
	struct names *n = names_new();
	struct net_addr v4, first;

	CHECK(bind_number(n, 0, &first));
	names_hold(n, "n0.example", 1);
	/* Every slot once, in order; the first is held, so its turn passes by. */
	for (unsigned i = 1; i < SLOTS; i++) {
		CHECK(bind_number(n, i, &v4));
		CHECK_INT(slot(&v4), 256 + i);
	}
	for (unsigned i = 0; i < 3; i++) {
		CHECK(bind_number(n, SLOTS + i, &v4));
		CHECK_INT(slot(&v4), 256 + 1 + i);
		CHECK_STR(lookup(n, &first), "n0.example");
	}
	names_free(n);
}
/* What names_pack() wrote, in a new table; NULL: refused. */
static struct names *again(const struct buf *b)
{
	struct unpack u = unpack_of(b->data, b->len);
	struct names *n = names_new();

	if (n && names_unpack(n, &u) && unpack_good(&u))
		return n;
	names_free(n);
	return NULL;
}

TEST(a_table_that_was_put_away_gives_the_same_answers)
{
	cleanup_buf struct buf b = BUF_INIT(16u << 20), twice = BUF_INIT(16u << 20);
	struct names *n = names_new(), *back;
	struct net_addr first, second, v4, v6;

	CHECK(bind_number(n, 0, &first) && bind_number(n, 1, &second));
	CHECK_INT(names_bind_refused(n, "no.example", &v4, &v6), 0);
	CHECK(bind_number(n, 0, &first)); /* the one used last */
	names_pack(n, &b);
	back = again(&b);
	CHECK(back != NULL);
	CHECK_STR(lookup(back, &first), "n0.example");
	CHECK_STR(lookup(back, &second), "n1.example");
	CHECK_STR(lookup(back, &v6), "no.example");
	names_pack(back, &twice);
	CHECK(b.len == twice.len && memcmp(b.data, twice.data, b.len) == 0);
	CHECK(bind_number(back, 2, &v4));
	CHECK_INT(slot(&v4), 259);
	names_free(n);
	names_free(back);
}

TEST(a_full_table_that_was_put_away_goes_on_where_it_was)
{
	cleanup_buf struct buf b = BUF_INIT(16u << 20);
	struct names *n = names_new(), *back;
	struct net_addr a, c;

	for (unsigned i = 0; i < SLOTS + 10; i++)
		CHECK(bind_number(n, i, &a));
	names_pack(n, &b);
	back = again(&b);
	CHECK(back != NULL);
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(bind_number(n, 1000000 + i, &a) && bind_number(back, 1000000 + i, &c));
		CHECK_INT(slot(&c), slot(&a));
	}
	names_free(n);
	names_free(back);
}

TEST(bytes_that_no_table_wrote_are_refused)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct names *n = names_new();
	struct net_addr a;

	CHECK(bind_number(n, 0, &a) && bind_number(n, 1, &a));
	names_pack(n, &b);
	for (size_t cut = 0; cut < b.len; cut++) {
		struct buf part = {.data = b.data, .len = cut, .max = b.max};

		CHECK(again(&part) == NULL);
	}
	for (size_t at = 0; at + 4 <= b.len; at++) {
		char was = b.data[at];
		struct names *odd;

		b.data[at] = (char)0xff; /* refused or another table; never a crash */
		odd = again(&b);
		names_free(odd);
		b.data[at] = was;
	}
	b.data[12] = b.data[12 + 4 + 4 + 11]; /* the second name's slot: two names with one address */
	CHECK(again(&b) == NULL);
	names_free(n);
}

