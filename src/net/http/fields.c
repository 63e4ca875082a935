/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers as a list, and what the special ones among them are.
 *
 * Trust: names and values come from the sandbox or from upstream. A name that some servers read as
 *        another one (content_length, Proxy.Authorization) is refused when that other one is
 *        special: we would take it as text and they as framing.
 */
#include "net/http/fields.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/str.h"

#define FIELDS_FIRST 24u
#define SPECIAL_NAME_MAX 32u

enum token_char { TOKEN_NOT, TOKEN_YES, TOKEN_UPPER, TOKEN_ODD /* may be mistaken for '-' */ };

static const unsigned char token_chars[256] = {['a' ... 'z'] = TOKEN_YES,
	['A' ... 'Z'] = TOKEN_UPPER,
	['0' ... '9'] = TOKEN_YES,
	['!'] = TOKEN_YES,
	['#' ... '\''] = TOKEN_YES,
	['*' ... '+'] = TOKEN_YES,
	['-'] = TOKEN_YES,
	['.'] = TOKEN_ODD,
	['^'] = TOKEN_YES,
	['_'] = TOKEN_ODD,
	['`'] = TOKEN_YES,
	['|'] = TOKEN_YES,
	['~'] = TOKEN_YES};

static unsigned char token_char(char c)
{
	return token_chars[(unsigned char)c];
}

static char token_lower(char c)
{
	return token_char(c) == TOKEN_UPPER ? (char)(c | 0x20) : c;
}

#define IS(text, k)                                                                                \
	if (memcmp(name, text, sizeof(text) - 1) == 0)                                             \
	return (k)

enum field_kind field_kind(const char *name, size_t n)
{
	switch (n) {
	case 2:
		IS("te", FIELD_TE);
		break;
	case 4:
		IS("host", FIELD_HOST);
		break;
	case 6:
		IS("expect", FIELD_EXPECT);
		IS("cookie", FIELD_COOKIE);
		break;
	case 7:
		IS("upgrade", FIELD_UPGRADE);
		IS("trailer", FIELD_DROP);
		IS("alt-svc", FIELD_DROP);
		break;
	case 8:
		IS("alt-used", FIELD_DROP);
		break;
	case 10:
		IS("connection", FIELD_CONNECTION);
		IS("keep-alive", FIELD_DROP);
		break;
	case 12:
		IS("content-type", FIELD_TYPE);
		break;
	case 13:
		IS("authorization", FIELD_AUTHORIZATION);
		IS("x-http-method", FIELD_DROP);
		IS("x-rewrite-url", FIELD_DROP);
		break;
	case 14:
		IS("content-length", FIELD_LENGTH);
		IS("http2-settings", FIELD_DROP);
		IS("x-original-url", FIELD_DROP);
		break;
	case 17:
		IS("transfer-encoding", FIELD_CODING);
		IS("sec-websocket-key", FIELD_WS_KEY);
		IS("x-method-override", FIELD_DROP);
		break;
	case 22:
		IS("x-http-method-override", FIELD_DROP);
		break;
	}
	if (n > 6)
		IS("proxy-", FIELD_DROP);
	return FIELD_PLAIN;
}

static bool field_sensitive(const char *name, size_t n, enum field_kind kind)
{
	if (kind == FIELD_AUTHORIZATION || kind == FIELD_COOKIE)
		return true;
	return kind == FIELD_PLAIN && credential_name(CREDENTIAL_HEADER, name, n);
}

bool field_protected(const char *name, size_t n)
{
	static const char *const prefixes[] = {
		"accept", "access-", "content-", "if-", "sec-", "x-forwarded-"};
	static const char *const names[] = {"age", "cache-control", "date", "etag", "forwarded",
		"location", "origin", "range", "referer", "server", "user-agent", "vary", "via",
		"www-authenticate", "x-real-ip"};
	enum field_kind kind = field_kind(name, n);

	if (kind != FIELD_PLAIN)
		return kind != FIELD_DROP && kind != FIELD_TE && kind != FIELD_UPGRADE &&
		       kind != FIELD_CONNECTION;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (n >= strlen(prefixes[i]) && memcmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == n && memcmp(name, names[i], n) == 0)
			return true;
	return field_sensitive(name, n, kind);
}

/* Would a server that folds '_' and '.' to '-' take this for a header that means something? */
static bool field_mistakable(const char *name, size_t n)
{
	char folded[SPECIAL_NAME_MAX];

	if (n > sizeof(folded))
		return n > 6 && memcmp(name, "proxy", 5) == 0;
	for (size_t i = 0; i < n; i++)
		folded[i] = name[i] == '_' || name[i] == '.' ? '-' : name[i];
	return field_kind(folded, n) != FIELD_PLAIN;
}

/* Lower case, in place. */
static const struct http_problem *name_check(char *name, size_t n)
{
	bool odd = false;

	if (!n || n > FIELD_NAME_MAX)
		return HTTP_PROBLEM(400, "a header name is empty or too long");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = token_char(name[i]);

		if (c == TOKEN_NOT)
			return HTTP_PROBLEM(400, "a header name has characters that no name has");
		odd |= c == TOKEN_ODD;
		name[i] = (char)(name[i] | (c == TOKEN_UPPER) << 5);
	}
	if (odd && field_mistakable(name, n))
		return HTTP_PROBLEM(400, "a header name is spelled to look like another one");
	return NULL;
}

/* Tabs become blanks; false when there is any other control character. Eight bytes at a time. */
static bool value_check(char *v, size_t n)
{
	const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t x, del;

		memcpy(&x, v + i, 8);
		del = x ^ (ones * 0x7f);
		if ((((x - ones * 0x20) & ~x) | ((del - ones) & ~del)) & high)
			break;
	}
	for (; i < n; i++) {
		unsigned char c = (unsigned char)v[i];

		if (c == '\t')
			v[i] = ' ';
		else if (c < 0x20 || c == 0x7f)
			return false;
	}
	return true;
}

static bool fields_grow(struct http_fields *f, struct arena *a)
{
	size_t cap = f->cap ? f->cap * 2 : FIELDS_FIRST;
	struct http_field *v = arena_alloc(a, cap * sizeof(*v));

	if (!v)
		return false;
	if (f->n)
		memcpy(v, f->v, f->n * sizeof(*v));
	f->v = v;
	f->cap = cap;
	return true;
}

const struct http_problem *fields_own(struct http_fields *f, struct arena *a, char *name,
	size_t name_len, char *value, size_t value_len)
{
	const struct http_problem *problem = name_check(name, name_len);
	struct http_field *x;

	if (problem)
		return problem;
	if (f->n >= HTTP_HEADERS_MAX || value_len > HTTP_HEAD_MAX_B)
		return HTTP_PROBLEM(431, "there are too many headers");
	while (value_len && (*value == ' ' || *value == '\t')) {
		value++;
		value_len--;
	}
	while (value_len && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
		value_len--;
	if (!value_check(value, value_len))
		return HTTP_PROBLEM(400, "a header value has control characters");
	if (f->n == f->cap && !fields_grow(f, a))
		return HTTP_PROBLEM(503, "out of memory");
	name[name_len] = '\0';
	value[value_len] = '\0';
	x = &f->v[f->n++];
	*x = (struct http_field){.name = name,
		.value = value,
		.name_len = (uint32_t)name_len,
		.value_len = (uint32_t)value_len,
		.kind = (uint8_t)field_kind(name, name_len)};
	x->sensitive = field_sensitive(name, name_len, x->kind);
	return NULL;
}

const struct http_problem *fields_add(struct http_fields *f, struct arena *a, const char *name,
	size_t name_len, const char *value, size_t value_len)
{
	char *n, *v;

	if (name_len > FIELD_NAME_MAX || value_len > HTTP_HEAD_MAX_B)
		return HTTP_PROBLEM(431, "a header is too long");
	n = arena_text(a, name_len + 1);
	v = arena_text(a, value_len + 1);
	if (!n || !v)
		return HTTP_PROBLEM(503, "out of memory");
	if (name_len)
		memcpy(n, name, name_len);
	if (value_len)
		memcpy(v, value, value_len);
	return fields_own(f, a, n, name_len, v, value_len);
}

const char *fields_get(const struct http_fields *f, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].name_len == n && memcmp(f->v[i].name, name, n) == 0)
			return f->v[i].value;
	return NULL;
}

void fields_remove(struct http_fields *f, const char *name)
{
	size_t n = strlen(name), kept = 0;

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].name_len != n || memcmp(f->v[i].name, name, n) != 0)
			f->v[kept++] = f->v[i];
	f->n = kept;
}

int token_next(const char **p, const char *end, const char **ret, size_t *ret_n)
{
	const char *s = *p, *t;

	while (s < end && (*s == ' ' || *s == ','))
		s++;
	if (s == end) {
		*p = s;
		return 0;
	}
	for (t = s; t < end && token_char(*t) != TOKEN_NOT; t++)
		;
	*ret = s;
	*ret_n = (size_t)(t - s);
	while (t < end && *t == ' ')
		t++;
	*p = t;
	return *ret_n && (t == end || *t == ',') ? 1 : -1;
}

bool token_is(const char *t, size_t n, const char *name)
{
	return strlen(name) == n && strncasecmp(t, name, n) == 0;
}

/* One element of Connection that is no keyword names a header of this hop. */
static bool connection_names(struct http_fields *f, bool answer, const char *t, size_t n)
{
	char name[FIELD_NAME_MAX];

	if (n > sizeof(name))
		return false;
	for (size_t i = 0; i < n; i++)
		name[i] = token_lower(t[i]);
	if (field_protected(name, n))
		return answer;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].kind == FIELD_PLAIN && f->v[i].name_len == n &&
			memcmp(f->v[i].name, name, n) == 0)
			f->v[i].kind = FIELD_DROP;
	return true;
}

bool fields_connection(struct http_fields *f, bool answer, struct connection *ret)
{
	unsigned named = 0;

	for (size_t i = 0; i < f->n; i++) {
		const char *p = f->v[i].value, *end = p + f->v[i].value_len, *t;
		size_t n;
		int more;

		if (f->v[i].kind != FIELD_CONNECTION)
			continue;
		while ((more = token_next(&p, end, &t, &n)) > 0) {
			if (token_is(t, n, "close"))
				ret->close = true;
			else if (token_is(t, n, "keep-alive"))
				ret->keep_alive = true;
			else if (token_is(t, n, "upgrade"))
				ret->upgrade = true;
			else if (++named > HTTP_HEADERS_MAX / 8 ||
				 !connection_names(f, answer, t, n))
				return false;
		}
		if (more < 0)
			return false;
	}
	return true;
}
