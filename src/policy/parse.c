/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict reader of policy files, over libyaml's events.
 *
 * Trust:   the text is anyone's. Only the subset a policy needs is read: one document, mappings,
 *          lists and scalars at the places the schema has them. Anchors, aliases, tags, directives
 *          and a second document are refused, so nothing can be said twice or refer to itself.
 * Limits:  POLICY_FILE_MAX_B of text; depth is bounded by the schema because the first value of a
 *          wrong kind ends the parse.
 * Failure: "FILE:LINE:COL: what; did you mean X?" and no layer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "policy/net_internal.h"
#include "policy/reader.h"

#define SHOWN_MAX 64
#define EXPANDED_MAX_B (64u << 20) /* several files' rules with everything spelled out */

struct layer_pos reader_here(const struct reader *r)
{
	return (struct layer_pos){
		(unsigned)r->ev.start_mark.line + 1, (unsigned)r->ev.start_mark.column + 1};
}

int reader_fail(struct reader *r)
{
	return layer_err(r->l, reader_here(r), r->e);
}

static int yaml_problem(struct reader *r)
{
	const yaml_mark_t *m = &r->yaml.problem_mark;

	if (r->yaml.error == YAML_MEMORY_ERROR)
		return err_set(r->e, ENOMEM, "parse %s", r->l->name);
	if (!m->line && !m->column && r->yaml.context_mark.line)
		m = &r->yaml.context_mark;
	err_invalid(r->e, "%s", r->yaml.problem ? r->yaml.problem : "not YAML");
	return layer_err(
		r->l, (struct layer_pos){(unsigned)m->line + 1, (unsigned)m->column + 1}, r->e);
}

static int next_event(struct reader *r)
{
	if (r->have)
		yaml_event_delete(&r->ev);
	r->have = false;
	if (!yaml_parser_parse(&r->yaml, &r->ev))
		return yaml_problem(r);
	r->have = true;
	return 0;
}

/* Whatever makes a value more than its text is refused. */
static int no_extras(struct reader *r)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	switch (r->ev.type) {
	case YAML_ALIAS_EVENT:
		err_invalid(
			r->e, "aliases (*name) are not allowed in a policy; write the value again");
		return reader_fail(r);
	case YAML_SCALAR_EVENT:
		anchor = r->ev.data.scalar.anchor;
		tag = r->ev.data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = r->ev.data.sequence_start.anchor;
		tag = r->ev.data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = r->ev.data.mapping_start.anchor;
		tag = r->ev.data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (!anchor && !tag)
		return 0;
	err_invalid(r->e, "%s are not allowed in a policy",
		anchor ? "anchors (&name)" : "tags (!name)");
	return reader_fail(r);
}

int reader_next(struct reader *r)
{
	int x = next_event(r);

	return x < 0 ? x : no_extras(r);
}

const char *reader_text(const struct reader *r)
{
	return (const char *)r->ev.data.scalar.value;
}

int reader_want(struct reader *r, yaml_event_type_t type, const char *what, const char *kind)
{
	if (r->ev.type == type)
		return 0;
	err_invalid(r->e, "%s must be %s", what, kind);
	return reader_fail(r);
}

/* A NUL inside a scalar ("\0" in double quotes) would end the text early. */
int reader_want_scalar(struct reader *r, const char *what)
{
	int x = reader_want(r, YAML_SCALAR_EVENT, what, "a single value");

	if (x < 0)
		return x;
	if (strlen(reader_text(r)) != r->ev.data.scalar.length) {
		err_invalid(r->e, "%s holds a NUL character", what);
		return reader_fail(r);
	}
	return 0;
}

/* ---- sections: each reads the value that is the current event ---- */

/* A key of another section, for the hint. */
static const char *elsewhere(const char *name)
{
	static const char *const homes[][2] = {{"read", "filesystem"}, {"write", "filesystem"},
		{"deny", "filesystem"}, {"read-if-present", "filesystem"},
		{"write-if-present", "filesystem"}, {"pass", "environment"}, {"set", "environment"},
		{"allow", "network"}, {"ask", "network"}, {"use", "network"},
		{"publish", "network"}, {"secrets", "network"}, {"memory", "limits"},
		{"cpus", "limits"}, {"pids", "limits"}, {"open_files", "limits"},
		{"disk", "limits"}, {"file_size", "limits"}, {"timeout", "limits"}};

	for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
		if (str_eq(name, homes[i][0]))
			return homes[i][1];
	return NULL;
}

static int unknown_key(
	struct reader *r, const char *section, const struct reader_key *keys, size_t n)
{
	cleanup_buf struct buf shown = BUF_INIT(SHOWN_MAX * 8);
	const char *names[READER_KEYS_MAX];
	const char *near, *home = elsewhere(reader_text(r));

	for (size_t i = 0; i < n && i < ARRAY_SIZE(names); i++)
		names[i] = keys[i].name;
	near = str_nearest(reader_text(r), names, MIN_OF(n, ARRAY_SIZE(names)));
	str_show(&shown, reader_text(r), MIN_OF(strlen(reader_text(r)), SHOWN_MAX));
	if (home && !str_eq(home, section))
		err_invalid(r->e, "unknown key \"%s\"%s%s; it belongs under \"%s\"",
			buf_str(&shown), *section ? " in " : "", section, home);
	else if (near)
		err_invalid(r->e, "unknown key \"%s\"%s%s; did you mean \"%s\"?", buf_str(&shown),
			*section ? " in " : "", section, near);
	else
		err_invalid(r->e, "unknown key \"%s\"%s%s", buf_str(&shown), *section ? " in " : "",
			section);
	return reader_fail(r);
}

int reader_mapping(struct reader *r, const char *section, const struct reader_key *keys, size_t n)
{
	unsigned first[READER_KEYS_MAX] = {0};
	int x = reader_want(r, YAML_MAPPING_START_EVENT, *section ? section : "a policy",
		"a mapping (key: value)");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		size_t i = 0;

		x = reader_want_scalar(r, "a key");
		if (x < 0)
			break;
		while (i < n && !str_eq(reader_text(r), keys[i].name))
			i++;
		if (i == n)
			return unknown_key(r, section, keys, n);
		if (first[i]) {
			err_invalid(r->e, "\"%s\" is given twice (first on line %u)", keys[i].name,
				first[i]);
			return reader_fail(r);
		}
		first[i] = reader_here(r).line;
		x = reader_next(r);
		if (x == 0)
			x = keys[i].read(r, keys[i].name);
	}
	return x;
}

int reader_list(struct reader *r, const char *what, reader_fn *add, const char *key)
{
	int x = reader_want(r, YAML_SEQUENCE_START_EVENT, what,
		"a list ([a, b] or lines that begin with \"-\")");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_SEQUENCE_END_EVENT) {
		x = reader_want_scalar(r, "an entry");
		if (x == 0)
			x = add(r, key);
	}
	return x;
}

static int read_word(struct reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	return x < 0 ? x : layer_value(r->l, key, reader_text(r), reader_here(r), r->e);
}

static int read_version(struct reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	if (x < 0)
		return x;
	r->version =
		r->ev.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && str_eq(reader_text(r), "1");
	if (r->version)
		return 0;
	err_invalid(r->e, "this croft reads policies of version: 1");
	return reader_fail(r);
}

static int add_rule(struct reader *r, const char *key)
{
	enum access a = str_starts(key, "read")    ? ACCESS_READ
			: str_starts(key, "write") ? ACCESS_WRITE
						   : ACCESS_DENY;

	return layer_rule(r->l, a, str_ends(key, "-if-present"), reader_text(r), r->ctx,
		reader_here(r), r->e);
}

static int read_paths(struct reader *r, const char *key)
{
	return reader_list(r, key, add_rule, key);
}

static const struct reader_key fs_keys[] = {{"read", read_paths}, {"write", read_paths},
	{"deny", read_paths}, {"read-if-present", read_paths}, {"write-if-present", read_paths}};

static int read_filesystem(struct reader *r, const char *key)
{
	return reader_mapping(r, key, fs_keys, ARRAY_SIZE(fs_keys));
}

static int add_value(struct reader *r, const char *key)
{
	return layer_value(r->l, key, reader_text(r), reader_here(r), r->e);
}

static int read_pass(struct reader *r, const char *key)
{
	r->l->pass.present = true;
	return reader_list(r, key, add_value, "environment.pass");
}

static int read_set(struct reader *r, const char *key)
{
	int x = reader_want(r, YAML_MAPPING_START_EVENT, key, "a mapping (NAME: value)");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		cleanup_free char *name = NULL;
		struct layer_pos at = reader_here(r);

		x = reader_want_scalar(r, "a variable name");
		if (x < 0)
			break;
		name = strdup(reader_text(r));
		if (!name)
			return err_set(r->e, ENOMEM, "parse %s", r->l->name);
		x = reader_next(r);
		if (x == 0)
			x = reader_want_scalar(r, "the value of a variable");
		if (x == 0)
			x = layer_env_set(r->l, name, reader_text(r), at, r->e);
	}
	return x;
}

static int read_environment(struct reader *r, const char *key)
{
	static const struct reader_key keys[] = {{"pass", read_pass}, {"set", read_set}};

	return reader_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int read_limit(struct reader *r, const char *key)
{
	char dotted[64];
	int x = reader_want_scalar(r, key);

	if (x < 0)
		return x;
	snprintf(dotted, sizeof(dotted), "limits.%s", key);
	return layer_value(r->l, dotted, reader_text(r), reader_here(r), r->e);
}

static int read_limits(struct reader *r, const char *key)
{
	struct reader_key keys[LIMIT_NUM];

	for (int i = 0; i < LIMIT_NUM; i++)
		keys[i] = (struct reader_key){limit_keys[i], read_limit};
	return reader_mapping(r, key, keys, LIMIT_NUM);
}

static int read_devices(struct reader *r, const char *key)
{
	r->l->devices.present = true;
	return reader_list(r, key, add_value, "devices");
}

static const struct reader_key top_keys[] = {{"version", read_version}, {"profile", read_word},
	{"tier", read_word}, {"threat", read_word}, {"observe", read_word},
	{"filesystem", read_filesystem}, {"environment", read_environment}, {"limits", read_limits},
	{"devices", read_devices}, {"network", reader_network}};

/* ---- the document ---- */

static int read_document(struct reader *r)
{
	int x = next_event(r); /* stream start */

	if (x == 0)
		x = next_event(r);
	if (x < 0)
		return x;
	if (r->ev.type == YAML_STREAM_END_EVENT) {
		err_invalid(r->e, "the policy is empty; it begins with \"version: 1\"");
		return reader_fail(r);
	}
	if (r->ev.data.document_start.version_directive ||
		r->ev.data.document_start.tag_directives.start !=
			r->ev.data.document_start.tag_directives.end) {
		err_invalid(
			r->e, "directives (lines that begin with %%) are not allowed in a policy");
		return reader_fail(r);
	}
	x = reader_next(r);
	if (x == 0)
		x = reader_mapping(r, "", top_keys, ARRAY_SIZE(top_keys));
	if (x == 0)
		x = next_event(r); /* document end */
	if (x == 0)
		x = next_event(r);
	if (x == 0 && r->ev.type != YAML_STREAM_END_EVENT) {
		err_invalid(r->e, "a second document begins here; a policy is one document");
		return reader_fail(r);
	}
	return x;
}

/* libyaml would stop at these too, with less to say. */
static int check_bytes(const struct policy_layer *l, const char *text, size_t len, struct err *e)
{
	size_t max = l->expanded ? EXPANDED_MAX_B : POLICY_FILE_MAX_B;
	struct layer_pos at = {1, 1};

	if (len > max)
		return err_invalid(e, "%s: a policy file may hold at most %zu bytes", l->name, max);
	for (size_t i = 0; i < len;) {
		size_t n = utf8_len(text + i, len - i);

		if (n == 0 || text[i] == '\0') {
			err_invalid(
				e, n == 0 ? "the text is not UTF-8" : "the text holds a NUL byte");
			return layer_err(l, at, e);
		}
		if (text[i] == '\n') {
			at.line++;
			at.column = 0;
		}
		at.column++;
		i += n;
	}
	return 0;
}

static int parse(struct policy_layer **ret, enum policy_layer_kind kind, const char *name,
	const char *text, size_t len, const struct policy_context *ctx, bool expanded,
	struct err *e)
{
	cleanup_policy_layer struct policy_layer *l = NULL;
	struct reader r = {.ctx = ctx, .e = e};
	int x = policy_layer_new(&l, kind, name, e);

	if (x < 0)
		return x;
	l->expanded = expanded;
	x = check_bytes(l, text, len, e);
	if (x < 0)
		return x;
	digest_sha256(&l->digest, text, len);
	r.l = l;
	if (!yaml_parser_initialize(&r.yaml))
		return err_set(e, ENOMEM, "parse %s", name);
	yaml_parser_set_encoding(&r.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, len);
	x = read_document(&r);
	if (r.have)
		yaml_event_delete(&r.ev);
	yaml_parser_delete(&r.yaml);
	if (x == 0 && !r.version) {
		err_invalid(e, "\"version: 1\" is missing");
		x = layer_err(l, (struct layer_pos){1, 1}, e);
	}
	if (x == 0 && !expanded)
		x = layer_check(l, e);
	if (x < 0)
		return x;
	*ret = take_ptr(l);
	return 0;
}

int policy_layer_parse(struct policy_layer **ret, enum policy_layer_kind kind, const char *name,
	const char *text, size_t len, const struct policy_context *ctx, struct err *e)
{
	return parse(ret, kind, name, text, len, ctx, false, e);
}

int reader_expanded(struct policy_layer **ret, const char *text, size_t len, struct err *e)
{
	static const struct policy_context none = {.home = "/", .workspace = "/"};

	return parse(ret, LAYER_USER, "network policy", text, len, &none, true, e);
}
