/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox can measure of redaction: neither when an echo comes back, nor in which pieces, nor
 * how long the search takes tells whether a guess is the beginning of a value.
 *
 * Each statement has a control: the same measurement sees the difference where there is one.
 */
#include "keeper_world.h"

#include "secret/needles.h"
#include "net/keeper/scrub.h"
#include "net/keeper/values.h"

/* ---- pieces ---- */

/* How much is given out of `text` in steps, as a list of numbers. */
static void trace(struct scrub *r, const char *text, size_t n, size_t step, struct buf *ret)
{
	cleanup_buf struct buf out = BUF_INIT(65536);

	for (size_t at = 0; at < n; at += step) {
		scrub_feed(r, text + at, MIN_OF(step, n - at), false, &out);
		buf_addf(ret, "%zu ", out.len);
	}
	scrub_release(r, &out);
	scrub_feed(r, "......", 6, false, &out);
	buf_addf(ret, "%zu ", out.len);
	scrub_feed(r, "", 0, true, &out);
	buf_addf(ret, "%zu", out.len);
}

/* What begins a value waits, other things do not: as it once was. */
static void trace_naive(const char *value, const char *text, size_t n, size_t step, struct buf *ret)
{
	for (size_t end = MIN_OF(step, n);; end = MIN_OF(end + step, n)) {
		size_t k = MIN_OF(end, strlen(value) - 1);

		while (k && memcmp(text + end - k, value, k) != 0)
			k--;
		buf_addf(ret, "%zu ", end - k);
		if (end == n)
			return;
	}
}

static const struct { /* how each byte is written: as it is, or its number behind something */
	const char *before;
	int digits;
} written[] = {{"", 0}, {"%", 2}, {"\\u", 4}, {"%5cu", 4}, {"", 2}, {"\\\\u", 4}, {"%25", 2}};

/* `n` characters of the value, written in some way; wrong: the last is another. */
static void guess(struct buf *out, const char *value, size_t n, size_t how, bool wrong)
{
	buf_adds(out, "{\"echo\": \"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)value[i];

		/* Another letter or digit, which has digits of the same kind. */
		if (wrong && i + 1 == n)
			c ^= 1;
		if (how == 0)
			buf_addc(out, (char)c);
		else
			buf_addf(out, "%s%0*x", written[how].before, written[how].digits, c);
	}
}

TEST(pieces_do_not_tell_a_guess)
{
	static const char value[] = "ghp_4hB2c8D6e0F3g5H7i9JkLmNoPqRsTuVwXyZb";
	struct scrubber *d = scrubber_new();
	struct scrub *r = d ? scrub_new(d) : NULL;
	size_t naive_differs = 0;

	CHECK(r && scrubber_add(d, value, sizeof(value) - 1));
	for (size_t how = 0; how < ARRAY_SIZE(written); how++)
		for (size_t n = 5; n < sizeof(value) - 1; n++)
			for (size_t step = 1; step < 200; step += 1 + step / 3) {
				cleanup_buf struct buf a = BUF_INIT(4096), b = BUF_INIT(4096);
				cleanup_buf struct buf ta = BUF_INIT(65536), tb = BUF_INIT(65536);

				guess(&a, value, n, how, false);
				guess(&b, value, n, how, true);
				CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) != 0);
				trace(r, a.data, a.len, step, &ta);
				trace(r, b.data, b.len, step, &tb);
				if (!str_eq(buf_str(&ta), buf_str(&tb)))
					test_fail(__FILE__, __LINE__, "%s: %s, other than %s",
						a.data, buf_str(&ta), buf_str(&tb));
				buf_reset(&ta);
				buf_reset(&tb);
				trace_naive(value, a.data, a.len, step, &ta);
				trace_naive(value, b.data, b.len, step, &tb);
				naive_differs += !str_eq(buf_str(&ta), buf_str(&tb));
			}
	CHECK(naive_differs > 100);
	scrub_free(r);
	scrubber_free(d);
}

/* ---- the time of a search ---- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define SEARCH_B (128u << 10)
#define TIMED "4hB2c8D6e0F3g5H7i9JkLmNoPqRsTuVwXyZb0a1c"
#define TIMED_OTHER "Zq1wX9sE4dC7rF0vT6gB3yH8nU5jM2iKoLpAaSdF"

/* The least of some times: noise only adds. old: the search that is used for placeholders. */
static uint64_t search_ns(const struct values *v, const struct needles *old, const uint8_t *text)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 30; i++) {
		struct value_hit hit;
		struct needle_hit needle;
		size_t at = 0;
		uint64_t since = cpu_ns();
		bool found = old ? needles_find(old, text, SEARCH_B, 0, &needle)
				 : values_find(v, text, SEARCH_B, &at, &hit);

		if (found)
			return 0;
		least = MIN_OF(least, cpu_ns() - since);
	}
	return least;
}

struct ratios {
	double worst, old;
};

static void keep_least(double *least, double ns)
{
	if (*least == 0 || ns < *least)
		*least = ns;
}

/* Text that repeats pieces of the value, and text that repeats others. */
static void compare(const struct values *v, const struct needles *old, uint8_t *text,
	uint8_t *folded, struct ratios *ret)
{
	static const char *const texts[2] = {TIMED_OTHER, TIMED};

	static double least[VALUE_WINDOW_B][2][2]; /* of all rounds: noise only adds */

	*ret = (struct ratios){1, 1};
	for (size_t n = 4; n < VALUE_WINDOW_B; n++) {
		double(*ns)[2] = least[n];

		for (int right = 0; right < 2; right++) {
			for (size_t i = 0; i < SEARCH_B; i++)
				text[i] = (uint8_t)texts[right][16 - n + i % n];
			values_fold(folded, text, SEARCH_B);
			keep_least(&ns[right][0], (double)search_ns(v, NULL, folded));
			keep_least(&ns[right][1], (double)search_ns(v, old, text));
		}
		ret->worst = MAX_OF(ret->worst, MAX_OF(ns[1][0] / ns[0][0], ns[0][0] / ns[1][0]));
		ret->old = MAX_OF(ret->old, ns[1][1] / ns[0][1]);
	}
}

TEST(time_does_not_tell_a_guess)
{
	static struct values v;
	cleanup_free uint8_t *text = malloc(SEARCH_B), *folded = malloc(SEARCH_B);
	const char *words[1] = {TIMED};
	size_t len[1] = {sizeof(TIMED) - 1};
	struct needles *old = needles_new(words, len, 1, SIZE_MAX);
	struct ratios r = {9, 1};

	CHECK(text && folded && old && values_init(&v) == 0 && values_add(&v, TIMED, len[0]));
	/* A machine that is busy makes differences; one that is there stays. */
	for (int i = 0; i < 10 && (r.worst > 1.3 || r.old <= 1.6); i++) {
		compare(&v, old, text, folded, &r);
		printf("# worst ratio %.2f, control %.2f\n", r.worst, r.old);
	}
	CHECK(r.old > 1.6);
	CHECK(r.worst <= 1.3);
	needles_free(old);
}

/* ---- through the keeper ---- */

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n / 2];
}

#define SAMPLES 200

struct delays {
	double right_us, wrong_us;
};

/* Guesses of every length, each right and wrong, as messages that are echoed. */
static bool ask_delays(struct world *w, const char *path, struct delays *ret)
{
	static double us[2][SAMPLES];
	cleanup_buf struct buf got = BUF_INIT(65536), frame = BUF_INIT(65536);
	cleanup_fd int fd = join(w);
	char request[512];

	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nhost: " HOST "\r\n" KEY UPGRADE,
		path);
	if (ask_on(fd, "GET", request, &got) != 101)
		return false;
	buf_reset(&got);
	for (size_t i = 0; i < SAMPLES; i++)
		for (size_t right = 0; right < 2; right++) {
			size_t n = 1 + i % (VALUE_LEN - 1);
			char text[VALUE_LEN];
			double since = now_us();

			memcpy(text, VALUE, n);
			text[n - 1] ^= right ? 0 : 1;
			if (!send_frame(fd, 0x81, text, n) || next_frame(fd, &got, &frame) != 0x81)
				return false;
			us[right][i] = now_us() - since;
			/* As one frame, and whole. */
			if (got.len || frame.len != n || memcmp(frame.data, text, n) != 0)
				return false;
		}
	ret->right_us = median(us[1], SAMPLES);
	ret->wrong_us = median(us[0], SAMPLES);
	printf("# %s: right %.0f us, wrong %.0f us\n", path, ret->right_us, ret->wrong_us);
	return true;
}

static bool tells(const struct delays *d)
{
	double apart = d->right_us - d->wrong_us;

	return (apart < 0 ? -apart : apart) > 1000 + 0.5 * d->wrong_us;
}

TEST(delays_of_messages_do_not_tell_a_guess)
{
	WORLD(w, AS_HEADER);
	struct delays d;

	/* Again on a machine that is busy, as above. */
	for (int i = 0; i == 0 || (i < 10 && tells(&d)); i++)
		CHECK(ask_delays(&w, "/ws", &d));
	CHECK(!tells(&d));
	for (int i = 0; i == 0 || (i < 10 && !tells(&d)); i++)
		CHECK(ask_delays(&w, "/late", &d)); /* a server that delays right ones by 15 ms */
	CHECK(tells(&d));
}

/* An echo in chunks, while the request's body still comes. */
TEST(delays_of_streams_do_not_tell_a_guess)
{
	static const char *const texts[] = {VALUE, "another text that is no secret at all .."};
	size_t tail = 2 * VALUE_LEN - 1;
	WORLD(w, AS_HEADER);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		cleanup_buf struct buf got = BUF_INIT(65536), body = BUF_INIT(65536);
		cleanup_fd int fd = join(&w);
		struct http_response r;
		const struct http_problem *problem;
		char request[256];
		int head;

		snprintf(request, sizeof(request), "%scontent-length: 100000\r\n\r\n",
			POST("/back"));
		CHECK(send_all(fd, request, strlen(request)));
		while ((head = http1_response(&r, "POST", buf_str(&got), got.len, &problem)) == 0)
			CHECK(more(fd, &got));
		CHECK(head > 0);
		response_done(&r);
		memmove(got.data, got.data + head, got.len - (size_t)head);
		got.len -= (size_t)head;
		/* A line comes back at once, however it ends. */
		for (size_t n = 1; n < VALUE_LEN; n++) {
			CHECK(send_all(fd, texts[i], n) && send_all(fd, "\n", 1));
			while (!strchr(buf_str(&got), '\n') || !strstr(buf_str(&got), "\n\r\n"))
				CHECK(more(fd, &got));
			buf_reset(&got);
		}
		/* Without an end of line all but a constant tail does, and later all of it. */
		buf_addf(&body, "%0200d%.*s", 0, (int)VALUE_LEN - 1, texts[i]);
		CHECK(send_all(fd, body.data, body.len));
		snprintf(request, sizeof(request), "%zx\r\n", body.len - tail);
		while (got.len < strlen(request) + body.len - tail + 2)
			CHECK(more(fd, &got));
		CHECK(str_starts(buf_str(&got), request));
		CHECK_INT(got.len, strlen(request) + body.len - tail + 2);
		buf_reset(&got);
		snprintf(request, sizeof(request), "%zx\r\n%s\r\n", tail,
			buf_str(&body) + body.len - tail);
		while (got.len < strlen(request))
			CHECK(more(fd, &got));
		CHECK_STR(buf_str(&got), request);
		/* What follows is the rest of a value. */
		buf_reset(&got);
		CHECK(send_all(fd, &texts[i][VALUE_LEN - 1], 1) && send_all(fd, "\n", 1));
		while (!strchr(buf_str(&got), '\n') || !strstr(buf_str(&got), "\n\r\n"))
			CHECK(more(fd, &got));
		CHECK_INT(!!strchr(buf_str(&got), '*'), i == 0);
	}
}
