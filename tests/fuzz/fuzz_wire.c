/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages about commands: any bytes. What is taken has one form only, so packing it again gives the
 * same bytes; whatever is refused leaves nothing behind.
 *
 * Input: one message; or, when it is none, a command line as wire_unpack_process() has it.
 */
#include <string.h>

#include "base/buf.h"
#include "engine/wire/wire.h"
#include "must.h"

static void same_bytes(const struct buf *b, const void *p, size_t n)
{
	MUST(!b->failed && b->len == n && memcmp(b->data, p, n) == 0);
}

static void try_process(const void *p, size_t n)
{
	cleanup_buf struct buf b = BUF_INIT(WIRE_PROCESS_MAX);
	struct wire_process w = {0};

	if (wire_unpack_process(&w, p, n) < 0) {
		MUST(!w.argv && !w.envp);
		return;
	}
	MUST(w.argv[0] && w.cwd);
	wire_pack_process(&b, &w);
	same_bytes(&b, p, n);
	wire_process_done(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf b = BUF_INIT(WIRE_PIECE_MAX + 64);
	struct wire_msg m = {.type = WIRE_TYPE_NUM};

	if (wire_decode(&m, data, size) < 0) {
		MUST(m.type == WIRE_TYPE_NUM);
		try_process(data, size);
		return 0;
	}
	MUST(m.type >= WIRE_ADD && m.type < WIRE_TYPE_NUM && m.fd_n == 0);
	MUST(memchr(m.text, '\0', sizeof(m.text)) && m.body_n <= WIRE_PIECE_MAX);
	wire_encode(&b, &m);
	same_bytes(&b, data, size);
	if (m.type == WIRE_EXEC)
		try_process(m.body, m.body_n);
	return 0;
}
