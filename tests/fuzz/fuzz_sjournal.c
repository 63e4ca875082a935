/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's journal as a crash can leave it: any bytes. The reader takes what is whole, stops at the first
 * record that is not, and what it took is what it would take of those bytes alone.
 *
 * Input: a letter, then the file. 'r': as it is. 'f': each line becomes one whole record: a letter for the
 * kind, a digit each for batch, entry and process, then the parts, separated by tabs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "env/session_journal_impl.h"
#include "must.h"

#define FILE_MAX_B (1u << 20)

static void put_frame(const struct sframe *f, struct buf *out)
{
	unsigned char head[SFRAME_HEAD_LEN];
	struct iovec iov[1 + SFRAME_PARTS];

	MUST(sframe_write(f, head, iov));
	for (size_t i = 0; i < ARRAY_SIZE(iov); i++)
		if (iov[i].iov_len)
			buf_add(out, iov[i].iov_base, iov[i].iov_len);
}

static void put_line(const char *p, size_t n, struct buf *out)
{
	static const char kinds[] = "-HSEONLD"; /* in the order of enum sframe_kind */
	const char *kind = n >= 4 && p[0] ? strchr(kinds, p[0]) : NULL;
	const char *end = p + n;
	struct sframe f = {0};

	if (!kind || kind == kinds)
		return;
	f.kind = (enum sframe_kind)(kind - kinds);
	f.batch = (uint8_t)(p[1] - '0');
	f.entry = (uint8_t)(p[2] - '0');
	f.process = (uint8_t)(p[3] - '0');
	p += 4;
	for (size_t i = 0; i < SFRAME_PARTS && p < end; i++) {
		const char *tab = memchr(p, '\t', (size_t)(end - p));

		f.part[i] = (struct sframe_part){p, (size_t)((tab ? tab : end) - p)};
		p = tab ? tab + 1 : end;
	}
	put_frame(&f, out);
}

static void put_lines(const char *p, size_t n, struct buf *out)
{
	while (n > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;

		put_line(p, len, out);
		len += nl != NULL;
		p += len;
		n -= len;
	}
}

static size_t entries_of(const struct sjournal *j)
{
	size_t n = 0;

	for (const struct sbatch *b = j->first; b; b = b->next)
		n += b->entries_n;
	return n;
}

static void check(const struct sjournal *j)
{
	const struct sbatch *last = NULL;

	for (const struct sbatch *b = j->first; b; last = b, b = b->next) {
		MUST(!last || b->no == last->no + 1);
		MUST(b->no < j->batch_next && b->receipts_n <= b->ended_n);
		MUST(!b->entries_n == !b->entries.len && !b->entries.failed);
	}
	MUST(j->last == last && j->running_n <= SJOURNAL_RUNNING_MAX);
}

static void read_all(const char *p, size_t n)
{
	static struct env none;
	struct sjournal *j = sjournal_new(&none, "5e55"), *again = sjournal_new(&none, "5e55");
	uint32_t sealed = 0, sealed_again = 0;
	int r;

	MUST(j && again);
	r = sjournal_read(j, p, n, &sealed);
	check(j);
	if (r >= 0) {
		MUST(j->begin && j->log_b <= n && (r == 0) == (j->log_b == n));
		MUST(sjournal_read(again, p, j->log_b, &sealed_again) == 0);
		MUST(again->log_b == j->log_b && sealed == sealed_again);
		MUST(entries_of(j) >= entries_of(again) && again->running_n <= j->running_n + 1);
	} else {
		MUST(!j->first && !j->running_n);
	}
	sjournal_free(j);
	sjournal_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf file = BUF_INIT(FILE_MAX_B);

	if (size < 1)
		return 0;
	if (data[0] == 'f')
		put_lines((const char *)data + 1, size - 1, &file);
	else
		buf_add(&file, data + 1, size - 1);
	if (!file.failed)
		read_all(buf_str(&file), file.len);
	return 0;
}
