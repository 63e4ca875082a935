/* SPDX-License-Identifier: Apache-2.0 */
/* What a gate found, for people, programs and code hosts: see gate.h. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "evidence/gate.h"
#include "croft.h"
#include "show/sarif.h"

#define SUBJECT_MAX 60u

static void subject(const struct gate_commit *c, struct buf *out, size_t max)
{
	size_t n = strcspn(c->message, "\n");

	str_show(out, c->message, MIN_OF(n, max));
}

static const char *word(const struct gate_commit *c)
{
	switch (c->state) {
	case GATE_IGNORED:
		return "ignored";
	case GATE_MERGE:
		return "merge";
	case GATE_UNTOUCHED:
		return "no agent";
	case GATE_GOOD:
		return "good";
	case GATE_BAD:
	case GATE_STATE_NUM:
		break;
	}
	return "BAD";
}

void gate_text(const struct gate_result *r, struct buf *out)
{
	size_t good = 0;

	for (size_t i = 0; i < r->commits.n; i++) {
		const struct gate_commit *c = &r->commits.v[i];

		good += c->state == GATE_GOOD;
		buf_addf(out, "%-8s  %.12s  ", word(c), oid_hex(&c->oid).s);
		subject(c, out, SUBJECT_MAX);
		for (size_t k = 0; k < c->from_n && c->matched; k++)
			buf_addf(out, "%s%s event %llu", k ? ", " : "  <- ",
				r->index.envs[c->from[k].env].id,
				(unsigned long long)c->from[k].seq);
		if (c->matched)
			buf_addf(out, " (by %s)", c->matched);
		buf_addc(out, '\n');
		for (size_t k = 0; k < c->problems.n; k++) {
			buf_adds(out, "          ");
			str_show(out, c->problems.v[k].text, strlen(c->problems.v[k].text));
			buf_addc(out, '\n');
		}
		if (c->problems.more)
			buf_addf(out, "          … and %zu more\n", c->problems.more);
	}
	buf_addf(out, "%zu commit%s: %zu with good evidence, %zu without\n", r->commits.n,
		r->commits.n == 1 ? "" : "s", good, r->bad);
	if (good && !r->gate.keys.n)
		buf_adds(out, "The gate names no keys: anybody could have signed this evidence.\n");
}

static void commit_json(struct json *j, const struct gate_result *r, const struct gate_commit *c)
{
	json_object(j, NULL);
	json_str(j, "commit", oid_hex(&c->oid).s);
	json_strn(j, "subject", c->message, strcspn(c->message, "\n"));
	json_str(j, "state", gate_state_names[c->state]);
	json_str(j, "matched", c->matched);
	json_array(j, "environments");
	for (size_t i = 0; i < c->from_n && c->matched; i++) {
		json_object(j, NULL);
		json_str(j, "env", r->index.envs[c->from[i].env].id);
		json_str(j, "name", r->index.envs[c->from[i].env].verdict.env_name);
		json_uint(j, "event", c->from[i].seq);
		json_str(j, "key", r->index.envs[c->from[i].env].verdict.key_id.hex);
		json_end(j);
	}
	json_end(j);
	json_array(j, "problems");
	for (size_t i = 0; i < c->problems.n; i++) {
		json_object(j, NULL);
		json_str(j, "rule", gate_rule_names[c->problems.v[i].rule]);
		json_str(j, "text", c->problems.v[i].text);
		json_end(j);
	}
	json_end(j);
	json_uint(j, "problems_beyond_limit", c->problems.more);
	json_end(j);
}

void gate_json(const struct gate_result *r, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.gate/v1");
	json_str(&j, "range", r->range);
	json_bool(&j, "good", r->bad == 0);
	json_bool(&j, "keys_named", r->gate.keys.n > 0);
	json_array(&j, "commits");
	for (size_t i = 0; i < r->commits.n; i++)
		commit_json(&j, r, &r->commits.v[i]);
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}

/* Code hosts want a file to show it at: the first that the commit changes. */
static void commit_sarif(struct sarif *s, const struct gate_commit *c)
{
	const struct oid_hex hex = oid_hex(&c->oid);

	for (size_t i = 0; i < c->problems.n; i++) {
		cleanup_buf struct buf text = BUF_INIT(8192);
		const char *properties[] = {"commit", hex.s, NULL, NULL};
		char print[OID_HEX_MAX + 24];

		buf_addf(&text, "Commit %.12s (", hex.s);
		subject(c, &text, SUBJECT_MAX);
		buf_addf(&text, "): %s.", c->problems.v[i].text);
		snprintf(print, sizeof(print), "%s/%d", hex.s, (int)c->problems.v[i].rule);
		sarif_add(s, &(struct sarif_result){.rule = gate_rule_names[c->problems.v[i].rule],
				     .level = "error",
				     .message = buf_str(&text),
				     .path = c->paths_n ? c->paths[0].path : NULL,
				     .logical = hex.s,
				     .logical_kind = "commit",
				     .fingerprint = print,
				     .properties = properties});
	}
}

void gate_sarif(const struct gate_result *r, struct buf *out)
{
	struct sarif_rule rules[GATE_RULE_NUM];
	struct sarif s;

	for (int i = 0; i < GATE_RULE_NUM; i++)
		rules[i] = (struct sarif_rule){gate_rule_names[i], gate_rule_texts[i]};
	sarif_begin(&s, out, CROFT_VERSION, rules, GATE_RULE_NUM);
	for (size_t i = 0; i < r->commits.n; i++)
		commit_sarif(&s, &r->commits.v[i]);
	sarif_end(&s);
}
