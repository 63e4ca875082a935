/* SPDX-License-Identifier: Apache-2.0 */
/* SARIF: see sarif.h. */
#include "show/sarif.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/str.h"
#include "ledger/chain/story.h"

#define TEXT_MAX_B (64u << 10)
#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"

void sarif_begin(struct sarif *s, struct buf *out, const char *version,
	const struct sarif_rule *rules, size_t n)
{
	struct json *j = &s->j;

	json_init(j, out, true);
	json_object(j, NULL);
	json_str(j, "$schema", SCHEMA);
	json_str(j, "version", "2.1.0");
	json_array(j, "runs");
	json_object(j, NULL);
	json_object(j, "tool");
	json_object(j, "driver");
	json_str(j, "name", "croft");
	json_str(j, "semanticVersion", version);
	json_array(j, "rules");
	for (size_t i = 0; i < n; i++) {
		json_object(j, NULL);
		json_str(j, "id", rules[i].id);
		json_object(j, "shortDescription");
		json_str(j, "text", rules[i].text);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	json_end(j);
	json_end(j);
	json_str(j, "columnKind", "unicodeCodePoints");
	json_array(j, "results");
}

/* A relative URI reference: everything but unreserved characters and slashes percent-encoded. */
static void add_uri(struct json *j, const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(TEXT_MAX_B);

	for (const char *p = path; *p; p++) {
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/",
			    *p))
			buf_addc(&b, *p);
		else
			buf_addf(&b, "%%%02X", (unsigned char)*p);
	}
	json_str(j, "uri", buf_str(&b));
}

static void add_location(struct json *j, const struct sarif_result *r)
{
	json_array(j, "locations");
	json_object(j, NULL);
	if (r->path) {
		json_object(j, "physicalLocation");
		json_object(j, "artifactLocation");
		add_uri(j, r->path);
		json_str(j, "uriBaseId", "%SRCROOT%");
		json_end(j);
		json_object(j, "region");
		json_int(j, "startLine", 1);
		json_end(j);
		json_end(j);
	}
	if (r->logical) {
		json_array(j, "logicalLocations");
		json_object(j, NULL);
		json_str(j, "fullyQualifiedName", r->logical);
		json_str(j, "kind", r->logical_kind);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

void sarif_add(struct sarif *s, const struct sarif_result *r)
{
	cleanup_buf struct buf shown = BUF_INIT(TEXT_MAX_B);
	struct json *j = &s->j;

	str_show(&shown, r->message, strlen(r->message));
	json_object(j, NULL);
	json_str(j, "ruleId", r->rule);
	json_str(j, "level", r->level);
	json_object(j, "message");
	json_str(j, "text", buf_str(&shown));
	json_end(j);
	if (r->path || r->logical)
		add_location(j, r);
	if (r->fingerprint) {
		json_object(j, "partialFingerprints");
		json_str(j, "croft/v1", r->fingerprint);
		json_end(j);
	}
	if (r->properties) {
		json_object(j, "properties");
		for (const char *const *p = r->properties; p[0] && p[1]; p += 2)
			json_str(j, p[0], p[1]);
		json_end(j);
	}
	json_end(j);
}

void sarif_end(struct sarif *s)
{
	while (s->j.depth > 0)
		json_end(&s->j);
	buf_addc(s->j.out, '\n');
}

/* ------------------------------------------------------------------ denials */

const char *sarif_below(const char *workspace, const char *path)
{
	size_t n = workspace ? strlen(workspace) : 0;

	if (!path || !n || strncmp(path, workspace, n) != 0 || path[n] != '/' || !path[n + 1])
		return NULL;
	return path + n + 1;
}

static void denial_text(const struct story_denial *d, struct buf *out)
{
	buf_addf(out, "%s of ", d->operation ? d->operation : "access");
	if (d->host && *d->host) {
		buf_addf(out, "%s%s%s", d->method ? d->method : "",
			d->method && *d->method ? " " : "", d->host);
		if (d->port)
			buf_addf(out, ":%" PRId64, d->port);
	}
	buf_adds(out, d->path ? d->path : "");
	buf_adds(out, " was denied");
	if (d->count > 1)
		buf_addf(out, " %" PRId64 " times", d->count);
	if (d->rule && *d->rule)
		buf_addf(out, " (%s)", d->rule);
	if (d->allow_with && *d->allow_with)
		buf_addf(out, "; it would be allowed with: %s", d->allow_with);
	else if (d->reason && *d->reason)
		buf_addf(out, "; %s", d->reason);
}

static void add_denial(struct sarif *s, const struct story *st, const struct story_denial *d)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX_B), what = BUF_INIT(TEXT_MAX_B),
			       key = BUF_INIT(TEXT_MAX_B);
	bool net = d->host && *d->host;
	struct digest print;
	char seq[24], count[24];
	const char *properties[] = {"run", d->run ? d->run : "", "event", seq, "denial",
		d->id ? d->id : "", "count", count, "seenBy", d->seen_by ? d->seen_by : "", NULL,
		NULL};

	snprintf(seq, sizeof(seq), "%" PRIu64, d->seq);
	snprintf(count, sizeof(count), "%" PRId64, d->count);
	denial_text(d, &text);
	if (net)
		buf_addf(&what, "%s:%" PRId64, d->host, d->port);
	else
		buf_adds(&what, d->path ? d->path : "");
	buf_addc(&text, '.');
	buf_addf(&key, "%s\n%s\n%s", d->operation ? d->operation : "", buf_str(&what),
		d->method ? d->method : "");
	digest_sha256(&print, buf_str(&key), key.len);
	sarif_add(s, &(struct sarif_result){.rule = d->operation ? d->operation : "denied",
			     .level = "warning",
			     .message = buf_str(&text),
			     .path = net ? NULL : sarif_below(st->workspace, d->path),
			     .logical = buf_str(&what),
			     .logical_kind = net ? "resource" : "file",
			     .fingerprint = print.hex,
			     .properties = properties});
}

static bool known(const struct sarif_rule *v, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i].id, id))
			return true;
	return false;
}

void sarif_denials(const struct story *st, const char *version, struct buf *out)
{
	struct sarif_rule rules[64];
	struct sarif s;
	size_t n = 0;

	for (size_t i = 0; i < st->denials_n && n < ARRAY_SIZE(rules); i++) {
		const char *op = st->denials[i].operation ? st->denials[i].operation : "denied";

		if (!known(rules, n, op))
			rules[n++] = (struct sarif_rule){
				op, "The boundary refused this operation of a sandboxed command."};
	}
	sarif_begin(&s, out, version, rules, n);
	for (size_t i = 0; i < st->denials_n; i++)
		add_denial(&s, st, &st->denials[i]);
	sarif_end(&s);
}
