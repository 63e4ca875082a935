/* SPDX-License-Identifier: Apache-2.0 */
/* session: what is kept in memory of a stream is what would have been kept in a file. */
#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/path.h"
#include "session/stdio/capture_mem.h"

#define TEXT_MAX_B (CAPTURE_HEAD_B + CAPTURE_TAIL_B + 4096)

static char byte_at(uint64_t i)
{
	return (char)(i * 2654435761u >> 13);
}

/* Both kinds of capture get the same pieces. */
static void feed(struct capture_mem *m, struct capture *f, size_t total, size_t piece)
{
	cleanup_free char *p = malloc(piece);

	for (size_t at = 0; at < total; at += piece) {
		size_t n = MIN_OF(piece, total - at);

		for (size_t i = 0; i < n; i++)
			p[i] = byte_at(at + i);
		capture_mem_add(m, p, n);
		if (f)
			capture_add(&f->file[CAPTURE_OUT], p, n);
	}
}

static bool same_as_file(size_t total, size_t piece)
{
	cleanup_buf struct buf is = BUF_INIT(TEXT_MAX_B), want = BUF_INIT(TEXT_MAX_B);
	struct capture f = CAPTURE_INIT;
	struct capture_mem m = {0};
	bool same;

	f.file[CAPTURE_OUT].fd = memfd_create("capture", MFD_CLOEXEC);
	feed(&m, &f, total, piece);
	capture_end(&f);
	lseek(f.file[CAPTURE_OUT].fd, 0, SEEK_SET);
	file_read_fd(f.file[CAPTURE_OUT].fd, &want);
	capture_mem_text(&m, &is);
	same = is.len == want.len && !memcmp(buf_str(&is), buf_str(&want), is.len) &&
	       m.bytes == total && capture_mem_cut(&m) == f.file[CAPTURE_OUT].cut;
	capture_mem_done(&m);
	capture_done(&f);
	return same;
}

TEST(the_text_is_that_of_a_file)
{
	static const size_t totals[] = {0, 1, 4096, 4097, CAPTURE_HEAD_B - 1, CAPTURE_HEAD_B,
		CAPTURE_HEAD_B + 1, CAPTURE_HEAD_B + 5000, CAPTURE_HEAD_B + CAPTURE_TAIL_B,
		CAPTURE_HEAD_B + CAPTURE_TAIL_B + 1, 3 * CAPTURE_TAIL_B + 12345};
	static const size_t pieces[] = {777, 65536, 2 * CAPTURE_TAIL_B + 7, 4 * CAPTURE_TAIL_B};

	for (size_t i = 0; i < ARRAY_SIZE(totals); i++)
		for (size_t k = 0; k < ARRAY_SIZE(pieces); k++)
			CHECK(same_as_file(totals[i], pieces[k]));
}

TEST(memory_grows_with_what_is_written)
{
	struct capture_mem m = {0};

	CHECK(!m.head && !m.tail);
	capture_mem_add(&m, "x", 1);
	CHECK(m.head_cap <= 4096 && !m.tail);
	feed(&m, NULL, 2 * (CAPTURE_HEAD_B + CAPTURE_TAIL_B), 65536);
	CHECK_INT(m.head_cap, CAPTURE_HEAD_B);
	CHECK_INT(m.tail_cap, CAPTURE_TAIL_B);
	capture_mem_done(&m);
	CHECK(!m.head && !m.bytes);
}

/* From every offset: the bytes of that offset, or of the next one that is kept. */
TEST(reading_from_an_offset)
{
	const uint64_t total = CAPTURE_HEAD_B + 2 * CAPTURE_TAIL_B + 99;
	struct capture_mem m = {0};
	char part[1000];
	uint64_t at, seen = 0;
	size_t n;

	feed(&m, NULL, total, 4096);
	for (at = 0; (n = capture_mem_read(&m, &at, part, sizeof(part))) > 0; at += n) {
		for (size_t i = 0; i < n; i++)
			CHECK(part[i] == byte_at(at + i));
		seen += n;
	}
	CHECK_INT(at, total);
	CHECK_INT(seen, CAPTURE_HEAD_B + CAPTURE_TAIL_B);
	at = CAPTURE_HEAD_B + 5;
	CHECK(capture_mem_read(&m, &at, part, 1) == 1);
	CHECK_INT(at, total - CAPTURE_TAIL_B);
	CHECK(part[0] == byte_at(at));
	at = total + 1;
	CHECK_INT(capture_mem_read(&m, &at, part, 1), 0);
	capture_mem_done(&m);
}
