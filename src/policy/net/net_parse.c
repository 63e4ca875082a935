/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `network` section of a policy file: entries are text or mappings, and every value has a
 * place.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"
#include "policy/reader.h"

static int out_of_memory(struct yaml_reader *r)
{
	return err_set(r->e, ENOMEM, "parse %s", r->name);
}

/* ---- a rule ---- */

static enum net_key rule_key(const char *key)
{
	int k = 0;

	while (k < NK_NUM - 1 && !str_eq(key, net_key_names[k]))
		k++;
	return (enum net_key)k;
}

static int rule_value(struct yaml_reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	return x < 0 ? x
		     : net_draft_value(reader_layer(r), r->draft, rule_key(key), reader_text(r),
			       reader_here(r), r->e);
}

/* A list under a key; that it is there counts, too, so an empty one is refused. */
static int rule_list(struct yaml_reader *r, const char *key)
{
	struct net_draft *d = r->draft;
	struct layer_pos at = reader_here(r);
	int x = reader_list(r, key, rule_value, key);

	if (x == 0 && !d->given[rule_key(key)]) {
		err_invalid(r->e, "\"%s\" is empty; name some, or leave the key out", key);
		x = layer_err(reader_layer(r), at, r->e);
	}
	return x;
}

static int rule_query(struct yaml_reader *r, const char *key)
{
	struct net_draft *d = r->draft;
	struct layer_pos start = reader_here(r);
	int x = reader_want(r, YAML_MAPPING_START_EVENT, key, "a mapping (parameter: pattern)");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		cleanup_free char *name = NULL;
		struct layer_pos at = reader_here(r);

		x = reader_want_scalar(r, "a parameter");
		if (x < 0)
			break;
		name = strdup(reader_text(r));
		if (!name)
			return out_of_memory(r);
		x = reader_next(r);
		if (x == 0)
			x = reader_want_scalar(r, "the pattern of a parameter");
		if (x == 0)
			x = net_draft_query(
				reader_layer(r), r->draft, name, reader_text(r), at, r->e);
	}
	if (x == 0 && !d->given[NK_QUERY]) {
		err_invalid(r->e, "\"query\" is empty; name some, or leave the key out");
		x = layer_err(reader_layer(r), start, r->e);
	}
	return x;
}

static int rule_limit(struct yaml_reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	return x < 0 ? x
		     : net_draft_limit(reader_layer(r), r->draft, key, reader_text(r),
			       reader_here(r), r->e);
}

static int rule_limits(struct yaml_reader *r, const char *key)
{
	struct reader_key keys[NET_LIMIT_KEYS_N];

	for (size_t i = 0; i < NET_LIMIT_KEYS_N; i++)
		keys[i] = (struct reader_key){net_limit_keys[i], rule_limit};
	return reader_mapping(r, key, keys, NET_LIMIT_KEYS_N);
}

static const struct reader_key entry_keys[NK_NUM] = {[NK_HOST] = {"host", rule_value},
	[NK_CIDR] = {"cidr", rule_value},
	[NK_PORTS] = {"ports", rule_list},
	[NK_MODE] = {"mode", rule_value},
	[NK_METHODS] = {"methods", rule_list},
	[NK_PATHS] = {"paths", rule_list},
	[NK_QUERY] = {"query", rule_query},
	[NK_REPOS] = {"repos", rule_list},
	[NK_PUSH] = {"push", rule_value},
	[NK_REFS] = {"refs", rule_list},
	[NK_LIMITS] = {"limits", rule_limits},
	[NK_PRIVATE] = {"private", rule_value},
	[NK_PLAINTEXT] = {"plaintext", rule_value},
	[NK_ENCODED_SLASH] = {"encoded-slash", rule_value},
	[NK_ECH] = {"ech", rule_value},
	[NK_REASON] = {"reason", rule_value},
	[NK_NAME] = {"name", rule_value}};

/* The current event is an entry of allow, deny, ask or a ceiling. */
static int read_entry(struct yaml_reader *r, const char *key)
{
	bool ceiling = str_starts(key, "ceiling");
	enum net_effect effect = str_eq(key, "deny")    ? NET_DENY
				 : str_ends(key, "ask") ? NET_ASK
							: NET_ALLOW;
	struct net_draft d = {.rule.effect = effect, .at = reader_here(r), .ceiling = ceiling};
	int x;

	if (r->ev.type == YAML_SCALAR_EVENT && !ceiling) {
		x = reader_want_scalar(r, "an entry");
		return x < 0 ? x
			     : net_rule_text(reader_layer(r), effect, reader_text(r), d.at, r->e);
	}
	if (r->ev.type != YAML_MAPPING_START_EVENT) {
		err_invalid(r->e, "an entry is a host, or a mapping with \"host\" or \"cidr\"");
		return reader_fail(r);
	}
	r->draft = &d;
	x = reader_mapping(r, "an entry", entry_keys, reader_layer(r)->expanded ? NK_NUM : NK_NAME);
	r->draft = NULL;
	return x < 0 ? x : net_draft_finish(reader_layer(r), &d, r->e);
}

static int read_entries(struct yaml_reader *r, const char *key)
{
	if (str_starts(key, "ceiling"))
		reader_layer(r)->net.ceiling = true;
	else if (!str_eq(key, "deny"))
		reader_layer(r)->net.reach = true;
	return reader_entries(r, key, read_entry, key);
}

/* ---- a secret ---- */

static int secret_read(struct yaml_reader *r, const char *key)
{
	int k = 0, x = reader_want_scalar(r, key);

	while (k < SK_NUM - 1 && !str_eq(key, secret_key_names[k]))
		k++;
	return x < 0 ? x
		     : secret_value(reader_layer(r), r->draft, (enum secret_key)k, reader_text(r),
			       reader_here(r), r->e);
}

static int secret_list(struct yaml_reader *r, const char *key)
{
	struct secret_draft *d = r->draft;
	struct layer_pos at = reader_here(r);
	size_t before = d->paths.n + d->methods.n;
	int x = reader_list(r, key, secret_read, key);

	if (x == 0 && d->paths.n + d->methods.n == before) {
		err_invalid(r->e, "\"%s\" is empty; name some, or leave the key out", key);
		x = layer_err(reader_layer(r), at, r->e);
	}
	return x;
}

static int read_secrets(struct yaml_reader *r, const char *key)
{
	struct reader_key keys[SK_NUM];
	int x = reader_want(
		r, YAML_SEQUENCE_START_EVENT, key, "a list (lines that begin with \"- name:\")");

	for (int i = 0; i < SK_NUM; i++)
		keys[i] = (struct reader_key){secret_key_names[i],
			i == SK_PATHS || i == SK_METHODS ? secret_list : secret_read};
	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_SEQUENCE_END_EVENT) {
		struct secret_draft d = {.at = reader_here(r)};

		r->draft = &d;
		x = reader_mapping(r, "a secret", keys, SK_NUM);
		r->draft = NULL;
		if (x == 0)
			x = secret_finish(reader_layer(r), &d, r->e);
	}
	return x;
}

/* ---- the rest ---- */

static int read_addresses(struct yaml_reader *r, const char *name, struct layer_pos at)
{
	bool more = false;
	int x = 0;

	if (r->ev.type == YAML_SCALAR_EVENT) {
		x = reader_want_scalar(r, "an address");
		return x < 0 ? x
			     : net_resolve_add(
				       reader_layer(r), name, reader_text(r), false, at, r->e);
	}
	x = reader_want(r, YAML_SEQUENCE_START_EVENT, "the value of a name",
		"an address or a list of addresses");
	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_SEQUENCE_END_EVENT) {
		x = reader_want_scalar(r, "an address");
		if (x == 0)
			x = net_resolve_add(reader_layer(r), name, reader_text(r), more,
				more ? reader_here(r) : at, r->e);
		more = true;
	}
	if (x == 0 && !more) {
		err_invalid(r->e, "%s has no address", name);
		x = layer_err(reader_layer(r), at, r->e);
	}
	return x;
}

static int read_resolve(struct yaml_reader *r, const char *key)
{
	int x = reader_want(r, YAML_MAPPING_START_EVENT, key, "a mapping (name: address)");

	while (x == 0 && (x = reader_next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		char name[NET_NAME_MAX + 4];
		struct layer_pos at = reader_here(r);

		x = reader_want_scalar(r, "a name");
		if (x == 0 && strlen(reader_text(r)) >= sizeof(name))
			x = reader_bad(r, "is not a host name");
		if (x < 0)
			break;
		memcpy(name, reader_text(r), strlen(reader_text(r)) + 1);
		x = reader_next(r);
		if (x == 0)
			x = read_addresses(r, name, at);
	}
	return x;
}

static int net_value(struct yaml_reader *r, const char *key)
{
	int x = reader_want_scalar(r, key);

	if (x == 0 && str_eq(key, "use"))
		return net_bundle_add(reader_layer(r), reader_text(r), reader_here(r), r->e);
	if (x == 0 && net_set(reader_layer(r), key, reader_text(r), reader_context(r),
			      reader_here(r), r->e) < 0)
		x = reader_fail(r);
	return x;
}

static int net_values(struct yaml_reader *r, const char *key)
{
	if (str_eq(key, "use"))
		reader_layer(r)->net.reach = true;
	return reader_list(r, key, net_value, key);
}

/* Ceilings last: only the gateway's own text has them. */
static const struct reader_key network_keys[] = {{"use", net_values}, {"default", net_value},
	{"ask-timeout", net_value}, {"record-query", net_value}, {"allow", read_entries},
	{"deny", read_entries}, {"ask", read_entries}, {"resolve", read_resolve},
	{"dns", net_values}, {"proxy", net_value}, {"trust", net_values}, {"publish", net_values},
	{"host-ports", net_values}, {"secrets", read_secrets}, {"ceiling", read_entries},
	{"ceiling-ask", read_entries}};
#define CEILINGS_N 2

int reader_network(struct yaml_reader *r, const char *key)
{
	return reader_mapping(r, key, network_keys,
		ARRAY_SIZE(network_keys) - (reader_layer(r)->expanded ? 0 : CEILINGS_N));
}

bool reader_network_names(struct strlist *ret)
{
	struct reader_key limits[NET_LIMIT_KEYS_N], secrets[SK_NUM];

	for (size_t i = 0; i < NET_LIMIT_KEYS_N; i++)
		limits[i].name = net_limit_keys[i];
	for (size_t i = 0; i < SK_NUM; i++)
		secrets[i].name = secret_key_names[i];
	return reader_names(ret, "network.", network_keys, ARRAY_SIZE(network_keys) - CEILINGS_N) &&
	       reader_names(ret, "network.allow[].", entry_keys, NK_NAME) &&
	       reader_names(ret, "network.allow[].limits.", limits, NET_LIMIT_KEYS_N) &&
	       reader_names(ret, "network.secrets[].", secrets, SK_NUM);
}
