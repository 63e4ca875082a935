/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes: see dsse.h. */
#include "ledger/chain/dsse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "base/str.h"

void dsse_done(struct dsse *d)
{
	buf_done(&d->payload);
	*d = (struct dsse){0};
}

void dsse_pae(const char *type, const void *body, size_t n, struct buf *out)
{
	buf_addf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, n);
	buf_add(out, body, n);
}

/* ------------------------------------------------------------------ writing */

static void add_base64(struct buf *out, const void *p, size_t n)
{
	size_t len = base64_len(n);
	cleanup_free char *text = malloc(len + 1);

	if (!text) {
		out->failed = true;
		return;
	}
	base64_encode(text, p, n);
	buf_add(out, text, len);
}

static void add_string(struct buf *out, const char *s)
{
	struct json j;

	json_init(&j, out, false);
	json_str(&j, NULL, s);
}

void dsse_write_signed(const char *type, const void *body, size_t n, const char *keyid,
	const uint8_t sig[KEY_SIGNATURE_LEN], struct buf *out)
{
	buf_adds(out, "{\"payload\":\"");
	add_base64(out, body, n);
	buf_adds(out, "\",\"payloadType\":");
	add_string(out, type);
	buf_adds(out, ",\"signatures\":[{\"keyid\":");
	add_string(out, keyid);
	buf_adds(out, ",\"sig\":\"");
	add_base64(out, sig, KEY_SIGNATURE_LEN);
	buf_adds(out, "\"}]}\n");
}

void dsse_write(
	const struct ledger_key *k, const char *type, const void *body, size_t n, struct buf *out)
{
	cleanup_buf struct buf pae = BUF_INIT(DSSE_PAYLOAD_MAX_B + 2 * DSSE_TEXT_MAX);
	uint8_t sig[KEY_SIGNATURE_LEN];

	dsse_pae(type, body, n, &pae);
	if (pae.failed || n > DSSE_PAYLOAD_MAX_B || strlen(type) >= DSSE_TEXT_MAX) {
		out->failed = true;
		return;
	}
	ledger_sign(k, pae.data, pae.len, sig);
	dsse_write_signed(type, body, n, k->id.hex, sig, out);
}

/* ------------------------------------------------------------------ reading */

/*
 * Either alphabet, but not both in one text; padding may be left out. Appended to ret, which bounds
 * it.
 */
static int decode(const char *s, struct buf *ret)
{
	size_t n = strlen(s), full = (n + 3) / 4 * 4;
	bool url = strpbrk(s, "-_") != NULL;
	cleanup_free char *text = NULL;
	cleanup_free char *raw = NULL;
	long len;

	if (n == 0)
		return 0;
	if (url && strpbrk(s, "+/"))
		return -EBADMSG;
	text = malloc(full);
	raw = malloc(full / 4 * 3);
	if (!text || !raw)
		return -ENOMEM;
	memcpy(text, s, n);
	memset(text + n, '=', full - n);
	for (size_t i = 0; url && i < n; i++)
		text[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	len = base64_decode(raw, full / 4 * 3, text, full);
	if (len < 0)
		return -EBADMSG;
	buf_add(ret, raw, (size_t)len);
	return ret->failed ? -EFBIG : 0;
}

static int copy_text(char ret[DSSE_TEXT_MAX], const char *s)
{
	size_t n = strlen(s);

	if (n >= DSSE_TEXT_MAX)
		return -EFBIG;
	memcpy(ret, s, n + 1);
	return 0;
}

static int bad(struct err *e, const char *what)
{
	return err_invalid(e, "the envelope %s", what);
}

static int signature_parse(struct dsse_signature *ret, const struct jnode *n, struct err *e)
{
	cleanup_buf struct buf raw = BUF_INIT(KEY_SIGNATURE_LEN);
	const char *keyid = jstr(jget(n, "keyid")), *sig = jstr(jget(n, "sig"));

	if (jget(n, "keyid") && !keyid)
		return bad(e, "has a keyid that is no string");
	if (!sig)
		return bad(e, "has a signature without sig");
	if (keyid && copy_text(ret->keyid, keyid) < 0)
		return bad(e, "has a keyid that is too long");
	if (decode(sig, &raw) < 0 || raw.len != KEY_SIGNATURE_LEN)
		return bad(e, "has a signature that is not one of ed25519");
	memcpy(ret->sig, raw.data, KEY_SIGNATURE_LEN);
	return 0;
}

static int fill(struct dsse *d, const struct jnode *root, struct err *e)
{
	const char *payload = jstr(jget(root, "payload"));
	const char *type = jstr(jget(root, "payloadType"));
	const struct jnode *sigs = jget(root, "signatures");
	int r;

	if (jtype(root) != JOBJECT || !payload || !type || jtype(sigs) != JARRAY)
		return bad(e, "lacks payload, payloadType or signatures");
	if (copy_text(d->type, type) < 0)
		return bad(e, "has a payloadType that is too long");
	if (jlen(sigs) == 0 || jlen(sigs) > DSSE_SIGNATURES_MAX)
		return bad(e, "has no signature, or too many");
	for (size_t i = 0; i < jlen(sigs); i++) {
		r = signature_parse(&d->signatures[d->signatures_n++], jat(sigs, i), e);
		if (r < 0)
			return r;
	}
	r = decode(payload, &d->payload);
	if (r == -EFBIG)
		return bad(e, "has a payload that is too large");
	return r < 0 ? bad(e, "has a payload that is not base64") : 0;
}

int dsse_parse(struct dsse *ret, const void *p, size_t n, struct err *e)
{
	cleanup_jdoc struct jdoc *doc = NULL;
	struct dsse d = {.payload = BUF_INIT(DSSE_PAYLOAD_MAX_B)};
	int r;

	if (n > DSSE_ENVELOPE_MAX_B)
		return bad(e, "is too large");
	r = jdoc_parse(&doc, p, n, e);
	if (r < 0)
		return err_wrap(e, "the envelope cannot be read");
	r = fill(&d, jdoc_root(doc), e);
	if (r < 0) {
		dsse_done(&d);
		return r;
	}
	*ret = d;
	return 0;
}

bool dsse_check(const struct dsse *d, const uint8_t public[KEY_PUBLIC_LEN])
{
	cleanup_buf struct buf pae = BUF_INIT(DSSE_PAYLOAD_MAX_B + 2 * DSSE_TEXT_MAX);

	dsse_pae(d->type, buf_str(&d->payload), d->payload.len, &pae);
	for (size_t i = 0; !pae.failed && i < d->signatures_n; i++)
		if (ledger_check(public, pae.data, pae.len, d->signatures[i].sig))
			return true;
	return false;
}
