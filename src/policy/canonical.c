/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resolved policy as text: the canonical form under the digest, and the form for people.
 *
 * Both are YAML and spell every value in one way. The canonical form has its keys sorted, names the
 * caps, holds no origins (the same policy from other files is the same policy), and has only the
 * digest of what environment.set sets, because it is kept as evidence and values may be secrets.
 * The form for people can be saved and given to --policy again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/net/net_impl.h"

void origin_show(struct buf *out, const struct policy_origin *o)
{
	if (o->layer == LAYER_FLOOR) {
		buf_adds(out, "floor");
		return;
	}
	if (o->layer == LAYER_PROFILE)
		buf_adds(out, "profile ");
	str_show(out, o->file, strlen(o->file));
	if (o->line)
		buf_addf(out, ":%u", o->line);
}

void rule_path(struct buf *out, const struct policy_rule *r)
{
	for (const char *p = r->path; *p; p++) {
		if (!r->glob && strchr("*?[]\\", *p))
			buf_addc(out, '\\');
		buf_addc(out, *p);
	}
}

/* Short constant text, the most frequent kind here, without a call where there is room. */
static inline __attribute__((always_inline)) void put(struct buf *out, const char *s, size_t n)
{
	if (out->failed || out->cap - out->len <= n || out->len + n > out->max) {
		buf_add(out, s, n);
		return;
	}
	memcpy(out->data + out->len, s, n);
	out->len += n;
	out->data[out->len] = '\0';
}
#define PUT(out, text) put(out, text, sizeof(text) - 1)

/* ---- YAML scalars ---- */

static bool letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* May stand without quotes: cannot be mistaken for anything but text. */
static bool plain_ok(const char *s, size_t n)
{
	if (n == 0 || (s[0] != '/' && !letter(s[0])))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!letter(s[i]) && !(s[i] >= '-' && s[i] <= '9') && s[i] != '_' && s[i] != '+')
			return false;
	return true;
}

static void quoted(struct buf *out, const char *s, size_t n)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < n;) {
		cleanup_buf struct buf shown = BUF_INIT(64);
		size_t len = utf8_len(s + i, n - i);
		uint32_t cp = 0;

		str_show(&shown, s + i, MAX_OF(len, 1u));
		if (s[i] == '"' || s[i] == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, s[i]);
		} else if (len == shown.len && memcmp(shown.data, s + i, len) == 0) {
			buf_add(out, s + i, len);
		} else if (len <= 1) {
			buf_addf(out, "\\x%02x", (unsigned char)s[i]);
		} else {
			cp = (unsigned char)s[i] & (0xffu >> (len + 1));
			for (size_t k = 1; k < len; k++)
				cp = cp << 6 | ((unsigned char)s[i + k] & 0x3f);
			buf_addf(out, "\\U%08x", cp);
		}
		i += MAX_OF(len, 1u);
	}
	buf_addc(out, '"');
}

void yaml_scalar(struct buf *out, const char *s)
{
	size_t n = strlen(s);

	if (plain_ok(s, n))
		buf_add(out, s, n);
	else
		quoted(out, s, n);
}

static void scalar_path(struct buf *out, const struct policy_rule *r)
{
	cleanup_buf struct buf b = BUF_INIT(2 * POLICY_PATH_MAX);

	if (!policy_has_glob(r->path)) {
		yaml_scalar(out, r->path);
		return;
	}
	rule_path(&b, r);
	yaml_scalar(out, buf_str(&b));
}

/* ---- sections ---- */

struct writer {
	struct buf *out;
	const struct policy *p;
	bool views, runs, git; /* just now: those rules, and no others */
	bool show; /* for people: origins, no empty lists, values */
};

static void items(struct writer *w, const char *indent, const char *key, const struct strlist *l)
{
	if (l->n == 0 && w->show)
		return;
	buf_adds(w->out, indent);
	buf_adds(w->out, key);
	buf_adds(w->out, l->n ? ":\n" : ": []\n");
	for (size_t i = 0; i < l->n; i++) {
		buf_adds(w->out, indent);
		PUT(w->out, "  - ");
		yaml_scalar(w->out, l->v[i]);
		PUT(w->out, "\n");
	}
}

/* Rules of one kind under one key; `fixed` those whose cap says the same. */
static void rule_list(struct writer *w, const char *key, enum access a, bool optional, bool fixed)
{
	bool any = false;

	for (size_t i = 0; i < w->p->rules_n; i++) {
		const struct policy_rule *r = &w->p->rules[i];

		if (r->access != a || r->optional != optional || r->view != w->views ||
			r->runs != w->runs || r->git != w->git)
			continue;
		if (!w->show && (r->capped && r->cap == a) != fixed)
			continue;
		if (!any) {
			PUT(w->out, "  ");
			buf_adds(w->out, key);
			PUT(w->out, ":\n");
		}
		any = true;
		PUT(w->out, "    - ");
		scalar_path(w->out, r);
		if (w->show) {
			PUT(w->out, "  # ");
			origin_show(w->out, &r->origin);
			if (r->capped && r->origin.layer != LAYER_FLOOR)
				PUT(w->out, ", fixed");
		}
		PUT(w->out, "\n");
	}
	if (!any && !w->show) {
		PUT(w->out, "  ");
		buf_adds(w->out, key);
		PUT(w->out, ": []\n");
	}
}

/* Caps above what the rules give, which is rare. */
static void cap_list(struct writer *w)
{
	for (size_t i = 0; i < w->p->rules_n; i++) {
		const struct policy_rule *r = &w->p->rules[i];

		if (!r->capped || r->cap == r->access)
			continue;
		buf_addf(w->out, "  at-most-%s: ", policy_access_names[r->cap]);
		scalar_path(w->out, r);
		PUT(w->out, "\n");
	}
}

static bool has_views(const struct policy *p)
{
	for (size_t i = 0; i < p->rules_n; i++)
		if (p->rules[i].view)
			return true;
	return false;
}

static bool has_runs(const struct policy *p)
{
	for (size_t i = 0; i < p->rules_n; i++)
		if (p->rules[i].runs)
			return true;
	return false;
}

static void filesystem(struct writer *w)
{
	PUT(w->out, "filesystem:\n");
	if (!w->show)
		cap_list(w);
	rule_list(w, "deny", ACCESS_DENY, false, false);
	if (!w->show)
		rule_list(w, "deny-fixed", ACCESS_DENY, false, true);
	rule_list(w, "read", ACCESS_READ, false, false);
	if (!w->show)
		rule_list(w, "read-fixed", ACCESS_READ, false, true);
	rule_list(w, "read-if-present", ACCESS_READ, true, false);
	if (!w->show)
		rule_list(w, "read-if-present-fixed", ACCESS_READ, true, true);
	if (has_views(w->p)) { /* where there are none, the text is what it was before there were any */
		w->views = true;
		rule_list(w, "view", ACCESS_READ, false, false);
		if (!w->show)
			rule_list(w, "view-fixed", ACCESS_READ, false, true);
		w->views = false;
	}
	rule_list(w, "write", ACCESS_WRITE, false, false);
	if (!w->show)
		rule_list(w, "write-fixed", ACCESS_WRITE, false, true);
	rule_list(w, "write-if-present", ACCESS_WRITE, true, false);
	if (!w->show)
		rule_list(w, "write-if-present-fixed", ACCESS_WRITE, true, true);
	if (w->p->gits) {
		w->git = true;
		rule_list(w, "write-git", ACCESS_WRITE, false, false);
		if (!w->show)
			rule_list(w, "write-git-fixed", ACCESS_WRITE, false, true);
		w->git = false;
	}
	if (!has_runs(w->p))
		return;
	w->runs = true;
	rule_list(w, "write-runs", ACCESS_WRITE, false, false);
	if (!w->show)
		rule_list(w, "write-runs-fixed", ACCESS_WRITE, false, true);
	w->runs = false;
}

static void environment(struct writer *w)
{
	PUT(w->out, "environment:\n");
	items(w, "  ", "pass", &w->p->env_pass);
	if (w->p->env_set_n || !w->show)
		buf_adds(w->out, w->p->env_set_n ? "  set:\n" : "  set: {}\n");
	for (size_t i = 0; i < w->p->env_set_n; i++) {
		const struct policy_var *v = &w->p->env_set[i];
		struct digest d;

		PUT(w->out, "    ");
		buf_adds(w->out, v->name);
		PUT(w->out, ": ");
		if (w->show) {
			quoted(w->out, v->value, strlen(v->value));
		} else {
			digest_sha256(&d, v->value, strlen(v->value));
			PUT(w->out, "sha256:");
			buf_adds(w->out, d.hex);
		}
		PUT(w->out, "\n");
	}
}

static void limits(struct writer *w)
{
	/* Alphabetical, as every mapping of the canonical form. */
	static const enum limit_id order[LIMIT_NUM] = {LIMIT_CPUS, LIMIT_DISK, LIMIT_FILE_SIZE,
		LIMIT_MEMORY, LIMIT_OPEN_FILES, LIMIT_PIDS, LIMIT_TIMEOUT};

	PUT(w->out, "limits:\n");
	for (size_t i = 0; i < LIMIT_NUM; i++) {
		PUT(w->out, "  ");
		buf_adds(w->out, limit_keys[order[i]]);
		PUT(w->out, ": ");
		limit_show(w->out, order[i], limit_get(&w->p->limits, order[i]));
		PUT(w->out, "\n");
	}
}

static void network(struct writer *w)
{
	size_t before = w->out->len;

	PUT(w->out, "network:\n");
	net_text(w->p->net, w->show ? NET_TEXT_SHOW : NET_TEXT_CANONICAL, w->out);
	if (w->out->len == before + strlen("network:\n")) {
		w->out->len = before;
		if (w->out->data)
			w->out->data[before] = '\0';
		if (!w->show)
			PUT(w->out, "network:\n  allow: []\n");
	}
}

static void word(struct writer *w, const char *key, const char *value)
{
	buf_adds(w->out, key);
	PUT(w->out, ": ");
	buf_adds(w->out, value);
	PUT(w->out, "\n");
}

void policy_canonical(const struct policy *p, struct buf *out)
{
	struct writer w = {.out = out, .p = p};

	items(&w, "", "devices", &p->devices);
	environment(&w);
	filesystem(&w);
	limits(&w);
	network(&w);
	word(&w, "observe", policy_observe_names[p->observe]);
	word(&w, "profile", p->profile ? p->profile : "default");
	word(&w, "threat", policy_threat_names[p->threat]);
	word(&w, "tier", policy_tier_names[p->tier]);
	word(&w, "version", "1");
}

void policy_show(const struct policy *p, struct buf *out)
{
	struct writer w = {.out = out, .p = p, .show = true};

	buf_addf(out, "# sha256:%s\n", p->digest.hex);
	word(&w, "version", "1");
	word(&w, "profile", p->profile ? p->profile : "default");
	word(&w, "tier", policy_tier_names[p->tier]);
	word(&w, "threat", policy_threat_names[p->threat]);
	word(&w, "observe", policy_observe_names[p->observe]);
	filesystem(&w);
	environment(&w);
	limits(&w);
	items(&w, "", "devices", &p->devices);
	network(&w);
}

/* ---- JSON ---- */

static void json_rule(struct json *j, const struct policy_rule *r)
{
	json_object(j, NULL);
	json_str(j, "access", policy_access_names[r->access]);
	json_str(j, "path", r->path);
	json_bool(j, "glob", r->glob);
	json_bool(j, "view", r->view);
	json_bool(j, "runs", r->runs);
	json_bool(j, "git", r->git);
	json_bool(j, "optional", r->optional);
	if (r->capped)
		json_str(j, "at_most", policy_access_names[r->cap]);
	json_str(j, "layer", policy_layer_names[r->origin.layer]);
	json_str(j, "file", r->origin.file);
	if (r->origin.line)
		json_uint(j, "line", r->origin.line);
	json_end(j);
}

static void json_environment(struct json *j, const struct policy *p)
{
	json_object(j, "environment");
	json_list(j, "pass", &p->env_pass);
	json_array(j, "set");
	for (size_t i = 0; i < p->env_set_n; i++) {
		struct digest d;

		digest_sha256(&d, p->env_set[i].value, strlen(p->env_set[i].value));
		json_object(j, NULL);
		json_str(j, "name", p->env_set[i].name);
		json_str(j, "value_sha256", d.hex);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void json_limits(struct json *j, const struct policy *p)
{
	static const char *const names[LIMIT_NUM] = {
		"memory_b", "cpus", "pids", "open_files", "disk_b", "file_size_b", "timeout_ms"};

	json_object(j, "limits");
	for (int i = 0; i < LIMIT_NUM; i++) {
		uint64_t v = limit_get(&p->limits, (enum limit_id)i);

		if (v == LIMIT_NONE)
			json_null(j, names[i]);
		else if (i == LIMIT_CPUS)
			json_fixed(j, names[i], v, 3);
		else
			json_uint(j, names[i], v);
	}
	json_end(j);
}

void policy_json(const struct policy *p, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "digest", p->digest.hex);
	json_str(&j, "profile", p->profile);
	json_str(&j, "tier", policy_tier_names[p->tier]);
	json_str(&j, "threat", policy_threat_names[p->threat]);
	json_str(&j, "observe", policy_observe_names[p->observe]);
	json_array(&j, "rules");
	for (size_t i = 0; i < p->rules_n; i++)
		json_rule(&j, &p->rules[i]);
	json_end(&j);
	json_environment(&j, p);
	json_limits(&j, p);
	json_list(&j, "devices", &p->devices);
	net_json(&j, p->net);
	json_end(&j);
}
