/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets as a policy names them: where each may go and how it is put in. Values are never here. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define FIELD_MAX 128u
#define SECRET_NAME_MAX 64u

const char *const net_placement_names[NET_PLACEMENT_NUM] = {"header", "bearer", "basic", "query"};
const char *const secret_key_names[SK_NUM] = {
	"name", "env", "host", "port", "paths", "methods", "place", "field", "strip", "require"};

static int secret_keep(struct policy_layer *l, const char **ret, const char *text, struct err *e)
{
	*ret = arena_dup(&l->arena, text);
	return *ret ? 0 : err_set(e, ENOMEM, "keep a secret");
}

static int name_value(struct policy_layer *l, const char **ret, const char *text, struct err *e)
{
	int r = value_env_name(text, false, e);

	if (r < 0)
		return r;
	if (strlen(text) > SECRET_NAME_MAX)
		return value_bad(e, text, "is longer than 64 characters");
	return secret_keep(l, ret, text, e);
}

static int add_once(
	struct policy_layer *l, struct net_texts *t, const char *text, size_t max, struct err *e)
{
	const char *copy;

	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->v[i], text))
			return value_bad(e, text, "is listed twice");
	if (t->n >= max)
		return err_invalid(e, "more than %zu entries", max);
	copy = arena_dup(&l->arena, text);
	return copy && net_texts_add(&l->arena, t, copy) ? 0 : err_set(e, ENOMEM, "keep a secret");
}

static int place_value(struct net_secret *s, const char *text, struct err *e)
{
	for (int i = 0; i < NET_PLACEMENT_NUM; i++) {
		if (str_eq(text, net_placement_names[i])) {
			s->placement = (enum net_placement)i;
			return 0;
		}
	}
	return layer_unknown_word(e, "place", text, net_placement_names, NET_PLACEMENT_NUM);
}

static int secret_set(struct policy_layer *l, struct secret_draft *d, enum secret_key k,
	const char *text, struct err *e)
{
	struct net_secret *s = &d->secret;
	const char *method = NULL;
	int r;

	switch (k) {
	case SK_NAME:
		return name_value(l, &s->name, text, e);
	case SK_ENV:
		return name_value(l, &s->env, text, e);
	case SK_HOST:
		return net_value_host(&l->arena, &s->host, text, false, e);
	case SK_PORT:
		return net_value_port(&s->port, text, e);
	case SK_PATHS:
		r = net_value_path(text, e);
		return r < 0 ? r : add_once(l, &d->paths, text, NET_PATHS_MAX, e);
	case SK_METHODS:
		r = net_value_method(&l->arena, &method, text, e);
		return r < 0 ? r : add_once(l, &d->methods, text, NET_METHODS_MAX, e);
	case SK_PLACE:
		return place_value(s, text, e);
	case SK_FIELD:
		r = net_value_text("field", text, FIELD_MAX, e);
		return r < 0 ? r : secret_keep(l, &s->field, text, e);
	case SK_STRIP:
		return net_value_bool(&s->strip, text, e);
	case SK_REQUIRE:
		return net_value_bool(&s->require, text, e);
	case SK_NUM:
		break;
	}
	return err_invalid(e, "not a value of a secret");
}

int secret_value(struct policy_layer *l, struct secret_draft *d, enum secret_key k,
	const char *text, struct layer_pos at, struct err *e)
{
	d->given[k] = true;
	return secret_set(l, d, k, text, e) < 0 ? layer_err(l, at, e) : 0;
}

/*
 * A header's name as requests have it: a lower-case token that is not the gateway's own business.
 */
static int header_field(struct policy_layer *l, struct net_secret *s, struct err *e)
{
	static const char *const reserved[] = {"host", "connection", "content-length",
		"transfer-encoding", "upgrade", "te", "trailer", "expect", "keep-alive",
		"http2-settings", "cookie2"};
	char *name = arena_dup(&l->arena, s->field);

	if (!name)
		return err_set(e, ENOMEM, "keep a secret");
	for (char *p = name; *p; p++) {
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p | 0x20);
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-' ||
			    *p == '_'))
			return value_bad(e, s->field, "is not the name of a header");
	}
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
		if (str_eq(name, reserved[i]) || str_starts(name, "proxy-"))
			return value_bad(e, s->field, "is a header that carries no secret");
	s->field = name;
	return 0;
}

static int field_check(struct policy_layer *l, struct net_secret *s, struct err *e)
{
	switch (s->placement) {
	case NET_HEADER:
		return s->field ? header_field(l, s, e)
				: err_invalid(
					  e, "place \"header\" needs \"field\": the header's name");
	case NET_QUERY:
		if (!s->field)
			return err_invalid(
				e, "place \"query\" needs \"field\": the parameter's name");
		if (strpbrk(s->field, "&=#;%+ "))
			return value_bad(e, s->field, "is not a plain parameter name");
		return 0;
	case NET_BASIC:
		return s->field && strchr(s->field, ':')
			       ? value_bad(e, s->field, "holds a ':', which a user name cannot")
			       : 0;
	case NET_BEARER:
	case NET_PLACEMENT_NUM:
		break;
	}
	return s->field ? err_invalid(e, "place \"bearer\" has no \"field\"") : 0;
}

/* Where an API takes its key, when nobody says: the makers' documentation. Elsewhere it is bearer. */
static void usual_place(struct net_secret *s)
{
	static const struct {
		const char *host, *header;
	} known[] = {{"api.anthropic.com", "x-api-key"},
		{"generativelanguage.googleapis.com", "x-goog-api-key"}};

	s->placement = NET_BEARER;
	for (size_t i = 0; i < ARRAY_SIZE(known) && !s->field; i++) {
		if (!str_eq(s->host, known[i].host))
			continue;
		s->placement = NET_HEADER;
		s->field = known[i].header;
	}
}

static int secret_push(struct layer_net *n, const struct net_secret *s, struct err *e)
{
	if (n->secrets_n >= NET_SECRETS_MAX)
		return err_invalid(e, "more than %u secrets", NET_SECRETS_MAX);
	if (n->secrets_n == n->secrets_cap) {
		size_t cap = n->secrets_cap ? n->secrets_cap * 2 : 4;
		struct net_secret *v = realloc(n->secrets, cap * sizeof(*v));

		if (!v)
			return err_set(e, ENOMEM, "add a secret");
		n->secrets = v;
		n->secrets_cap = cap;
	}
	n->secrets[n->secrets_n++] = *s;
	return 0;
}

static int secret_check(struct policy_layer *l, struct secret_draft *d, struct err *e)
{
	struct net_secret *s = &d->secret;

	if (!s->name)
		return err_invalid(e, "a secret needs \"name\"");
	if (!s->host)
		return err_invalid(e, "the secret %s needs \"host\": where it may go", s->name);
	for (size_t i = 0; i < l->net.secrets_n; i++)
		if (net_secret_same(s, &l->net.secrets[i]))
			return d->at.line ? err_invalid(e, "the secret %s is bound twice to %s",
						    s->name, s->host)
					  : 1;
	return field_check(l, s, e);
}

/* Defaults, checks, and into the layer. Errors without a place. */
static int secret_settle(struct policy_layer *l, struct secret_draft *d, struct err *e)
{
	struct net_secret *s = &d->secret;
	int r;

	if (!s->env)
		s->env = s->name;
	if (!s->port)
		s->port = 443;
	if (!d->given[SK_PLACE] && s->host)
		usual_place(s);
	if (!d->given[SK_STRIP])
		s->strip = true;
	if (d->paths.n)
		sort_text((char **)d->paths.v, d->paths.n);
	if (d->methods.n)
		sort_text((char **)d->methods.v, d->methods.n);
	s->paths = d->paths.v;
	s->paths_n = d->paths.n;
	s->methods = d->methods.v;
	s->methods_n = d->methods.n;
	s->origin = (struct policy_origin){
		.layer = l->kind, .line = d->at.line, .column = d->at.column};
	r = secret_check(l, d, e);
	if (r == 0)
		r = secret_push(&l->net, s, e);
	return r < 0 ? r : 0; /* 1: had already */
}

int secret_finish(struct policy_layer *l, struct secret_draft *d, struct err *e)
{
	return secret_settle(l, d, e) < 0 ? layer_err(l, d->at, e) : 0;
}

/* "PORT", "PLACE", "PLACE=FIELD" or "PORT:PLACE=FIELD": what may follow the host. */
static int secret_suffix(struct policy_layer *l, struct secret_draft *d, const char *text, struct err *e)
{
	char word[FIELD_MAX];
	size_t n = strcspn(text, ":=");
	int r;

	if (n == 0 || n >= sizeof(word))
		return value_bad(e, text, "is not PORT, PLACE or PLACE=FIELD");
	memcpy(word, text, n);
	word[n] = '\0';
	if (strspn(word, "0123456789") == n && text[n] != '=') {
		r = secret_set(l, d, SK_PORT, word, e);
		return r == 0 && text[n] ? secret_suffix(l, d, text + n + 1, e) : r;
	}
	if (text[n] == ':')
		return value_bad(e, text, "is not PORT, PLACE or PLACE=FIELD");
	r = secret_set(l, d, SK_PLACE, word, e);
	d->given[SK_PLACE] = true;
	return r == 0 && text[n] ? secret_set(l, d, SK_FIELD, text + n + 1, e) : r;
}

int secret_text(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	static const char form[] = "is not NAME@HOST, followed by nothing, :PORT, :PLACE or :PLACE=FIELD";
	struct secret_draft d = {.at = at};
	char name[SECRET_NAME_MAX + 2], host[NET_NAME_MAX + 4];
	const char *sep = strchr(text, '@');
	const char *colon = sep ? strchr(sep, ':') : NULL;
	size_t n = sep ? (size_t)(sep - text) : 0, m;
	int r;

	if (!sep || n == 0 || n >= sizeof(name))
		return value_bad(e, text, form);
	m = colon ? (size_t)(colon - sep) - 1 : strlen(sep + 1);
	if (m == 0 || m >= sizeof(host))
		return value_bad(e, text, form);
	memcpy(name, text, n);
	name[n] = '\0';
	memcpy(host, sep + 1, m);
	host[m] = '\0';
	r = secret_set(l, &d, SK_NAME, name, e);
	if (r == 0)
		r = secret_set(l, &d, SK_HOST, host, e);
	if (r == 0 && colon)
		r = secret_suffix(l, &d, colon + 1, e);
	return r < 0 ? r : secret_settle(l, &d, e);
}
