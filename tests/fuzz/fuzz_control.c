/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a supervisor and a sandbox's first process: any bytes. What is taken has one form
 * only, so packing it again gives the same bytes; what is refused changes nothing.
 */
#include <string.h>

#include "base/buf.h"
#include "engine/init/init.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_msg m = {.type = CONTROL_NUM};
	char room[CONTROL_MAX_B + 1];
	struct buf b = buf_on(room, sizeof(room));

	if (control_decode(&m, data, size) < 0) {
		MUST(m.type == CONTROL_NUM);
		return 0;
	}
	MUST(m.type >= CONTROL_READY && m.type < CONTROL_NUM && m.status >= 0);
	MUST(memchr(m.msg, '\0', sizeof(m.msg)) && m.err_kind < ERR_NUM && m.errnum >= 0);
	MUST(!(m.fd_mask >> SANDBOX_FD_NUM));
	control_encode(&b, &m);
	MUST(!b.failed && b.len == size && memcmp(b.data, data, size) == 0);
	return 0;
}
