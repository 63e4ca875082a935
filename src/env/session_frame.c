/* SPDX-License-Identifier: Apache-2.0 */
/* Records in a session's journal: see session_frame.h. All numbers are little-endian. */
#include "env/session_frame.h"

#include <errno.h>
#include <string.h>

#include "git/sum.h"

/* Head: magic, sum of all that follows it, kind, batch, entry, process, lengths of the parts, 0. */
static const unsigned char magic[4] = {'C', 'S', 'J', '1'};
#define AT_SUM 4u
#define AT_KIND 8u
#define AT_BATCH 12u
#define AT_ENTRY 16u
#define AT_PROCESS 20u
#define AT_PARTS 24u
#define AT_ZERO 40u

static void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

size_t sframe_write(const struct sframe *f, unsigned char head[SFRAME_HEAD_LEN],
	struct iovec iov[1 + SFRAME_PARTS])
{
	size_t all = SFRAME_HEAD_LEN;
	uint32_t sum;

	memset(head, 0, SFRAME_HEAD_LEN);
	memcpy(head, magic, sizeof(magic));
	put32(head + AT_KIND, (uint32_t)f->kind);
	put32(head + AT_BATCH, f->batch);
	put32(head + AT_ENTRY, f->entry);
	put32(head + AT_PROCESS, f->process);
	iov[0] = (struct iovec){head, SFRAME_HEAD_LEN};
	for (size_t i = 0; i < SFRAME_PARTS; i++) {
		const struct sframe_part *p = &f->part[i];

		if (p->n > SFRAME_PART_MAX_B)
			return 0;
		put32(head + AT_PARTS + 4 * i, (uint32_t)p->n);
		iov[1 + i] = (struct iovec){(void *)(uintptr_t)p->p, p->n};
		all += p->n;
	}
	sum = sum_crc32(CRC32_BEGIN, head + AT_KIND, SFRAME_HEAD_LEN - AT_KIND);
	for (size_t i = 0; i < SFRAME_PARTS; i++)
		if (f->part[i].n)
			sum = sum_crc32(sum, f->part[i].p, f->part[i].n);
	put32(head + AT_SUM, sum);
	return all;
}

int sframe_next(const void *p, size_t n, size_t *at, struct sframe *ret)
{
	const unsigned char *head = (const unsigned char *)p + *at;
	size_t left = n - *at, all = SFRAME_HEAD_LEN;
	struct sframe f = {0};
	uint32_t kind;

	if (left == 0)
		return 0;
	if (left < SFRAME_HEAD_LEN || memcmp(head, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	kind = get32(head + AT_KIND);
	if (kind < SFRAME_SESSION || kind >= SFRAME_KIND_END || get32(head + AT_ZERO) != 0)
		return -EBADMSG;
	f.kind = (enum sframe_kind)kind;
	f.batch = get32(head + AT_BATCH);
	f.entry = get32(head + AT_ENTRY);
	f.process = get32(head + AT_PROCESS);
	for (size_t i = 0; i < SFRAME_PARTS; i++) {
		size_t part = get32(head + AT_PARTS + 4 * i);

		if (part > SFRAME_PART_MAX_B || part > left - all)
			return -EBADMSG;
		f.part[i] = (struct sframe_part){(const char *)head + all, part};
		all += part;
	}
	if (get32(head + AT_SUM) != sum_crc32(CRC32_BEGIN, head + AT_KIND, all - AT_KIND))
		return -EBADMSG;
	*ret = f;
	*at += all;
	return 1;
}
