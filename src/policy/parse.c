/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy files: the schema over the strict reader (yaml.h).
 *
 * Limits:  POLICY_FILE_MAX_B of text.
 * Failure: "FILE:LINE:COL: what; did you mean X?" and no layer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"
#include "policy/reader.h"

#define EXPANDED_MAX_B (64u << 20) /* several files' rules with everything spelled out */

/* A key of another section, for the hint. */
static const char *elsewhere(const char *name)
{
	static const char *const homes[][2] = {{"read", "filesystem"}, {"write", "filesystem"},
		{"deny", "filesystem"}, {"view", "filesystem"}, {"read-if-present", "filesystem"},
		{"write-runs", "filesystem"}, {"write-git", "filesystem"},
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

/* ---- sections: each reads the value that is the current event ---- */

static int read_word(struct yaml_reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	return x < 0 ? x : layer_value(reader_layer(r), key, reader_text(r), reader_here(r), r->e);
}

static int read_version(struct yaml_reader *r, const char *key)
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

static int add_rule(struct yaml_reader *r, const char *key)
{
	enum access a = str_starts(key, "read")    ? ACCESS_READ
			: str_starts(key, "write") ? ACCESS_WRITE
						   : ACCESS_DENY;

	if (str_eq(key, "view"))
		return layer_view(
			reader_layer(r), reader_text(r), reader_context(r), reader_here(r), r->e);
	if (str_eq(key, "write-git"))
		return layer_git(
			reader_layer(r), reader_text(r), reader_context(r), reader_here(r), r->e);
	if (str_eq(key, "write-runs"))
		return layer_runs(
			reader_layer(r), reader_text(r), reader_context(r), reader_here(r), r->e);
	return layer_rule(reader_layer(r), a, str_ends(key, "-if-present"), reader_text(r),
		reader_context(r), reader_here(r), r->e);
}

static int read_paths(struct yaml_reader *r, const char *key)
{
	return reader_list(r, key, add_rule, key);
}

static const struct reader_key fs_keys[] = {{"read", read_paths}, {"write", read_paths},
	{"deny", read_paths}, {"read-if-present", read_paths}, {"write-if-present", read_paths},
	{"view", read_paths}, {"write-runs", read_paths}, {"write-git", read_paths}};

static int read_filesystem(struct yaml_reader *r, const char *key)
{
	return reader_mapping(r, key, fs_keys, ARRAY_SIZE(fs_keys));
}

static int add_value(struct yaml_reader *r, const char *key)
{
	return layer_value(reader_layer(r), key, reader_text(r), reader_here(r), r->e);
}

static int read_pass(struct yaml_reader *r, const char *key)
{
	reader_layer(r)->pass.present = true;
	return reader_list(r, key, add_value, "environment.pass");
}

static int read_set(struct yaml_reader *r, const char *key)
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
			return err_set(r->e, ENOMEM, "parse %s", r->name);
		x = reader_next(r);
		if (x == 0)
			x = reader_want_scalar(r, "the value of a variable");
		if (x == 0)
			x = layer_env_set(reader_layer(r), name, reader_text(r), at, r->e);
	}
	return x;
}

static const struct reader_key env_keys[] = {{"pass", read_pass}, {"set", read_set}};

static int read_environment(struct yaml_reader *r, const char *key)
{
	return reader_mapping(r, key, env_keys, ARRAY_SIZE(env_keys));
}

static int read_limit(struct yaml_reader *r, const char *key)
{
	char dotted[64];
	int x = reader_want_scalar(r, key);

	if (x < 0)
		return x;
	snprintf(dotted, sizeof(dotted), "limits.%s", key);
	return layer_value(reader_layer(r), dotted, reader_text(r), reader_here(r), r->e);
}

static int read_limits(struct yaml_reader *r, const char *key)
{
	struct reader_key keys[LIMIT_NUM];

	for (int i = 0; i < LIMIT_NUM; i++)
		keys[i] = (struct reader_key){limit_keys[i], read_limit};
	return reader_mapping(r, key, keys, LIMIT_NUM);
}

static int read_devices(struct yaml_reader *r, const char *key)
{
	reader_layer(r)->devices.present = true;
	return reader_list(r, key, add_value, "devices");
}

static const struct reader_key top_keys[] = {{"version", read_version}, {"profile", read_word},
	{"tier", read_word}, {"threat", read_word}, {"observe", read_word},
	{"filesystem", read_filesystem}, {"environment", read_environment}, {"limits", read_limits},
	{"devices", read_devices}, {"network", reader_network}};

/* ---- all keys ---- */

bool reader_names(struct strlist *ret, const char *section, const struct reader_key *keys, size_t n)
{
	char name[128];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%s", section, keys[i].name);
		if (!strlist_add(ret, name))
			return false;
	}
	return true;
}

bool policy_keys(struct strlist *ret)
{
	struct reader_key limits[LIMIT_NUM];

	for (int i = 0; i < LIMIT_NUM; i++)
		limits[i] = (struct reader_key){limit_keys[i], read_limit};
	return reader_names(ret, "", top_keys, ARRAY_SIZE(top_keys)) &&
	       reader_names(ret, "filesystem.", fs_keys, ARRAY_SIZE(fs_keys)) &&
	       reader_names(ret, "environment.", env_keys, ARRAY_SIZE(env_keys)) &&
	       reader_names(ret, "limits.", limits, LIMIT_NUM) && reader_network_names(ret);
}

/* ---- the whole ---- */

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
	struct reader_into into = {.ctx = ctx};
	struct yaml_reader r = {
		.name = name, .noun = "policy", .elsewhere = elsewhere, .into = &into, .e = e};
	int x = policy_layer_new(&l, kind, name, e);

	if (x < 0)
		return x;
	l->expanded = expanded;
	x = check_bytes(l, text, len, e);
	if (x < 0)
		return x;
	digest_sha256(&l->digest, text, len);
	into.l = l;
	x = reader_run(&r, text, len, top_keys, ARRAY_SIZE(top_keys));
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
