/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an envelope, as a stored object, and as text with secrets. What is taken for an envelope
 * comes out the same when it is written again; nobody's signature is taken for that of a key that never
 * signed; a known value does not come through redaction, and what came out can be redacted again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ledger/chain/dsse.h"
#include "ledger/chain/loose.h"
#include "ledger/redact/redact.h"
#include "ledger/chain/statement.h"
#include "must.h"

static void envelope(const uint8_t *data, size_t size)
{
	static const uint8_t key[KEY_PUBLIC_LEN] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7,
		0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6,
		0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
	cleanup_dsse struct dsse d = {0}, again = {0};
	cleanup_buf struct buf b = BUF_INIT(2 * DSSE_ENVELOPE_MAX_B);
	struct err e = ERR_INIT;

	if (dsse_parse(&d, data, size, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
		return;
	}
	MUST(d.signatures_n >= 1 && d.signatures_n <= DSSE_SIGNATURES_MAX);
	MUST(!dsse_check(&d, key));
	dsse_write_signed(d.type, buf_str(&d.payload), d.payload.len, d.signatures[0].keyid,
		d.signatures[0].sig, &b);
	MUST(!b.failed && dsse_parse(&again, b.data, b.len, &e) == 0);
	MUST(strcmp(d.type, again.type) == 0 && d.payload.len == again.payload.len);
	MUST(memcmp(buf_str(&d.payload), buf_str(&again.payload), d.payload.len) == 0);
	MUST(memcmp(d.signatures[0].sig, again.signatures[0].sig, KEY_SIGNATURE_LEN) == 0);
}

static void text(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf once = BUF_INIT(64u << 20);
	cleanup_buf struct buf twice = BUF_INIT(64u << 20);
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	MUST(redact_add(&r, "A", "0123456789abcdef", &e) == 0);
	redact_text(&r, data, size, &once);
	MUST(!once.failed && !memmem(buf_str(&once), once.len, "0123456789abcdef", 16));
	redact_text(&r, buf_str(&once), once.len, &twice);
	MUST(!twice.failed);
	redact_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(1u << 16);
	const struct oid o = {.n = 20};
	struct timespec t;
	char word[64];

	envelope(data, size);
	text(data, size);
	MUST(loose_parse(data, size, GIT_SHA1, &o, GIT_BLOB, &out) < 0);
	snprintf(word, sizeof(word), "%.*s", (int)MIN_OF(size, sizeof(word) - 1),
		(const char *)data);
	if (ledger_time_parse(word, &t)) {
		struct ledger_time s;

		MUST(ledger_time_text(&t, &s) && strcmp(s.s, word) == 0);
	}
	return 0;
}
