/* SPDX-License-Identifier: Apache-2.0 */
/* Placements: see keeper_place.h. */
#include "net/keeper/keeper_place.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/credential.h"
#include "base/str.h"
#include "net/keeper/keeper_text.h"

#define RESIDUE_MAX_B (2u * HTTP_HEAD_MAX_B)

struct bound {
	const struct net_secret *s;
	const struct vault_entry *x; /* with a value */
	bool found;
};

struct job {
	struct placement *out;
	struct http_request *r;
	const struct vault *v;
	struct bound b[PLACE_USES_MAX];
	size_t b_n;
	bool ours[HTTP_HEADERS_MAX]; /* this field holds a placeholder where it belongs */
	struct buf residue;          /* everything in which no placeholder may be */
	unsigned status;
};

static unsigned refuse(struct job *j, unsigned status, const char *next, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static unsigned refuse(struct job *j, unsigned status, const char *next, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(j->out->why, sizeof(j->out->why), fmt, ap);
	va_end(ap);
	snprintf(j->out->next, sizeof(j->out->next), "%s", next);
	j->status = status;
	return status;
}

static unsigned no_memory(struct job *j)
{
	return refuse(j, 503, "", "the keeper of secrets is out of memory");
}

/* Which header a secret goes to, or NULL for the query. */
static const char *header_of(const struct net_secret *s)
{
	switch (s->placement) {
	case NET_HEADER:
		return s->field;
	case NET_BEARER:
	case NET_BASIC:
		return "authorization";
	case NET_QUERY:
	case NET_PLACEMENT_NUM:
	default:
		return NULL;
	}
}

static bool add_use(struct job *j, const struct bound *b, const char *find, size_t find_len,
	const char *user, size_t user_len)
{
	struct placement *p = j->out;
	size_t entry = (size_t)(b->x - j->v->v);

	for (size_t i = 0; i < p->n; i++)
		if (p->use[i].entry == entry && p->use[i].find_len == find_len &&
			memcmp(p->use[i].find, find, find_len) == 0)
			return true;
	if (p->n == PLACE_USES_MAX)
		return false;
	p->use[p->n++] = (struct place_use){.entry = entry,
		.find = find,
		.find_len = find_len,
		.user = user,
		.user_len = user_len};
	return true;
}

static bool add_plain(struct job *j, const struct bound *b)
{
	return add_use(j, b, b->x->placeholder, b->x->placeholder_len, NULL, 0);
}

/* ---- a field's new value, in the request's memory ---- */

static bool set_value(
	struct job *j, struct http_field *f, const char *a, size_t a_n, const char *b, size_t b_n)
{
	char *text = arena_join(&j->r->arena, a, a_n, b, b_n);

	if (!text)
		return false;
	f->value = text;
	f->value_len = (uint32_t)(a_n + b_n);
	f->sensitive = true;
	return true;
}

/* "Basic base64(user:placeholder)" as the field's value. */
static bool set_basic(
	struct job *j, struct http_field *f, const struct bound *b, const char *user, size_t user_n)
{
	char plain[PLACE_USER_MAX + 1 + PLACEHOLDER_MAX], *text, *name;
	size_t n = user_n + 1 + b->x->placeholder_len, len = base64_len(n);

	if (user_n > PLACE_USER_MAX || memchr(user, ':', user_n))
		return false;
	memcpy(plain, user, user_n);
	plain[user_n] = ':';
	memcpy(plain + user_n + 1, b->x->placeholder, b->x->placeholder_len);
	text = arena_text(&j->r->arena, len + 1);
	name = arena_join(&j->r->arena, user, user_n, "", 0);
	if (!text || !name)
		return false;
	base64_encode(text, plain, n);
	text[len] = '\0';
	return set_value(j, f, "Basic ", 6, text, len) && add_use(j, b, text, len, name, user_n);
}

/*
 * The same for any placement in a header: exactly what the policy says, with nothing of the
 * caller's.
 */
static bool set_plainly(
	struct job *j, struct http_field *f, const struct bound *b, const char *user, size_t user_n)
{
	if (b->s->placement == NET_BASIC)
		return set_basic(j, f, b, user, user_n);
	return add_plain(j, b) && set_value(j, f, "Bearer ", b->s->placement == NET_BEARER ? 7 : 0,
					  b->x->placeholder, b->x->placeholder_len);
}

/* ---- is it there? ---- */

/* "placeholder" or "Word placeholder", nothing else. */
static bool only_placeholder(const struct http_field *f, const struct bound *b)
{
	size_t word = 0, rest;

	while (word < f->value_len && isalpha((unsigned char)f->value[word]))
		word++;
	rest = word;
	while (rest < f->value_len && f->value[rest] == ' ')
		rest++;
	if (word == 0 || rest == word || word > 16)
		rest = 0;
	return f->value_len - rest == b->x->placeholder_len &&
	       memcmp(f->value + rest, b->x->placeholder, b->x->placeholder_len) == 0;
}

/*
 * Basic credentials whose password is the placeholder; the user name is the policy's, or the
 * caller's.
 */
static int try_basic(struct job *j, struct http_field *f, const struct bound *b)
{
	char plain[PLACE_USER_MAX + 1 + PLACEHOLDER_MAX + 3];
	const char *colon, *user = plain;
	size_t n, user_n;
	long len;

	if (f->value_len < 7 || strncasecmp(f->value, "basic ", 6) != 0 ||
		(len = base64_decode(plain, sizeof(plain), f->value + 6, f->value_len - 6)) < 0)
		return 0;
	n = (size_t)len;
	colon = memchr(plain, ':', n);
	if (!colon)
		return 0;
	user_n = (size_t)(colon - plain);
	if (n - user_n - 1 != b->x->placeholder_len ||
		memcmp(colon + 1, b->x->placeholder, b->x->placeholder_len) != 0)
		return 0;
	if (b->s->field) {
		user = b->s->field;
		user_n = strlen(user);
	}
	buf_add(&j->residue, user, user_n);
	return set_basic(j, f, b, user, user_n) ? 1 : -1;
}

/* Any occurrence within the field; what is around it is searched like everything else. */
static int try_header(struct job *j, struct http_field *f, const struct bound *b)
{
	const char *p = f->value, *end = f->value + f->value_len, *hit;
	bool found = false;

	if (b->s->strip && !only_placeholder(f, b) &&
		memmem(p, f->value_len, b->x->placeholder, b->x->placeholder_len)) {
		/* Something else stands beside it, which may be a credential: only ours stays. */
		if (!set_value(j, f, "", 0, b->x->placeholder, b->x->placeholder_len))
			return -1;
		p = end;
		found = true;
	}
	while ((hit = memmem(p, (size_t)(end - p), b->x->placeholder, b->x->placeholder_len))) {
		buf_add(&j->residue, p, (size_t)(hit - p));
		buf_addc(&j->residue, '\n');
		p = hit + b->x->placeholder_len;
		found = true;
	}
	if (!found)
		return 0;
	buf_add(&j->residue, p, (size_t)(end - p));
	f->sensitive = true;
	return add_plain(j, b) ? 1 : -1;
}

static int try_bearer(struct job *j, struct http_field *f, const struct bound *b)
{
	if (!only_placeholder(f, b))
		return 0;
	return set_plainly(j, f, b, NULL, 0) ? 1 : -1;
}

static unsigned look_at_field(struct job *j, size_t i)
{
	struct http_field *f = &j->r->fields.v[i];
	const struct http_field was = *f;

	buf_addf(&j->residue, "\n%s\n", was.name);
	for (size_t k = 0; k < j->b_n; k++) {
		struct bound *b = &j->b[k];
		const char *name = header_of(b->s);
		int r;

		if (!name || strcasecmp(name, was.name) != 0)
			continue;
		r = b->s->placement == NET_BASIC    ? try_basic(j, f, b)
		    : b->s->placement == NET_BEARER ? try_bearer(j, f, b)
						    : try_header(j, f, b);
		if (r < 0)
			return no_memory(j);
		if (r > 0) {
			b->found = j->ours[i] = true;
			return 0;
		}
	}
	buf_add(&j->residue, was.value, was.value_len);
	return 0;
}

/* ---- the query ---- */

static struct bound *query_bound(struct job *j, const char *name, size_t n)
{
	for (size_t k = 0; k < j->b_n; k++) {
		const struct net_secret *s = j->b[k].s;

		if (s->placement == NET_QUERY && s->field &&
			text_escaped_is(name, n, s->field, strlen(s->field)))
			return &j->b[k];
	}
	return NULL;
}

static bool strips(const struct job *j)
{
	bool any = false;

	for (size_t k = 0; k < j->b_n; k++)
		any = any || j->b[k].s->strip;
	return any;
}

/* Does a parameter bring a credential of the caller's? Some servers take ';' for '&'. */
static bool brings_credential(const char *p, size_t n)
{
	const char *end = p + n;

	while (p < end) {
		const char *stop = memchr(p, ';', (size_t)(end - p)), *is;

		stop = stop ? stop : end;
		is = memchr(p, '=', (size_t)(stop - p));
		is = is ? is : stop;
		if (credential_is(CREDENTIAL_QUERY, p, (size_t)(is - p), is, (size_t)(stop - is)))
			return true;
		p = stop + 1;
	}
	return false;
}

/*
 * Parameter by parameter: placeholders where they belong are kept in plain form, `strip` drops
 * foreign ones.
 */
static unsigned look_at_query(struct job *j)
{
	cleanup_buf struct buf q = BUF_INIT(HTTP_PATH_MAX + PLACEHOLDER_MAX);
	const char *p = j->r->query, *end = p + strlen(p);
	bool strip = strips(j);

	while (p < end) {
		size_t n = strcspn(p, "&"), name_n = MIN_OF(strcspn(p, "="), n);
		struct bound *b = query_bound(j, p, name_n);
		size_t value = MIN_OF(name_n + 1, n);
		bool ours = b && text_escaped_is(p + value, n - value, b->x->placeholder,
					 b->x->placeholder_len);

		if (ours)
			b->found = true;
		if (ours || (!(b && b->s->strip) && !(strip && brings_credential(p, n)))) {
			if (q.len)
				buf_addc(&q, '&');
			buf_add(&q, p, ours ? value : n);
			if (ours)
				buf_add(&q, b->x->placeholder, b->x->placeholder_len);
			buf_addc(&j->residue, '\n');
			buf_add(&j->residue, p, ours ? value : n);
		}
		if (ours && !add_plain(j, b))
			return no_memory(j);
		p += n + (p + n < end);
	}
	for (size_t k = 0; k < j->b_n; k++) {
		struct bound *b = &j->b[k];

		if (b->s->placement != NET_QUERY || b->found || !b->s->strip || b->s->require ||
			!b->s->field)
			continue;
		if (q.len)
			buf_addc(&q, '&');
		text_escape(&q, b->s->field, strlen(b->s->field));
		buf_addc(&q, '=');
		buf_add(&q, b->x->placeholder, b->x->placeholder_len);
		if (!add_plain(j, b))
			return no_memory(j);
	}
	j->r->query = q.failed ? NULL : arena_join(&j->r->arena, buf_str(&q), q.len, "", 0);
	if (!j->r->query)
		return refuse(j, 414, "", "the query is too long");
	return 0;
}

/* ---- credentials of the caller ---- */

/* What callers send to say who they are. Removed where a secret says `strip`. */
static bool is_credential(const struct job *j, const struct http_field *f)
{
	const char *name = f->name;

	if (credential_is(CREDENTIAL_HEADER, name, f->name_len, f->value, f->value_len))
		return true;
	for (size_t k = 0; k < j->b_n; k++) {
		const char *h = header_of(j->b[k].s);

		if (j->b[k].s->strip && h && strcasecmp(h, name) == 0)
			return true;
	}
	return false;
}

/* A basic user name that the caller brought, kept when the policy names none. */
static size_t caller_user(const struct job *j, char out[PLACE_USER_MAX])
{
	const char *value = fields_get(&j->r->fields, "authorization"), *colon;
	char plain[PLACE_USER_MAX + PLACEHOLDER_MAX];
	long len;

	if (!value || strncasecmp(value, "basic ", 6) != 0 ||
		(len = base64_decode(plain, sizeof(plain), value + 6, strlen(value + 6))) < 0)
		return 0;
	colon = memchr(plain, ':', (size_t)len);
	if (!colon || (size_t)(colon - plain) > PLACE_USER_MAX)
		return 0;
	memcpy(out, plain, (size_t)(colon - plain));
	return (size_t)(colon - plain);
}

static void strip_fields(struct job *j)
{
	struct http_fields *f = &j->r->fields;
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		if (j->ours[i] || !is_credential(j, &f->v[i]))
			f->v[n++] = f->v[i];
	f->n = n;
}

static bool has_field(const struct http_fields *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcasecmp(f->v[i].name, name) == 0)
			return true;
	return false;
}

/* Ours in place of what was stripped, unless another secret has that place already. */
static unsigned put_in(struct job *j, struct bound *b, const char *user, size_t user_n)
{
	const char *name = header_of(b->s);
	struct http_fields *f = &j->r->fields;

	if (!name || b->found || !b->s->strip || has_field(f, name))
		return 0;
	if (b->s->field && b->s->placement == NET_BASIC) {
		user = b->s->field;
		user_n = strlen(user);
	}
	if (fields_add(f, &j->r->arena, name, strlen(name), "", 0) ||
		!set_plainly(j, &f->v[f->n - 1], b, user, user_n))
		return no_memory(j);
	return 0;
}

static unsigned strip(struct job *j)
{
	char user[PLACE_USER_MAX];
	size_t user_n = caller_user(j, user);

	if (!strips(j))
		return 0;
	strip_fields(j);
	for (size_t k = 0; k < j->b_n && !j->status; k++)
		put_in(j, &j->b[k], user, user_n);
	return j->status;
}

/* ---- the whole ---- */

static unsigned bind(struct job *j, uint16_t port, bool tls, const struct net_policy *p)
{
	struct net_request q;

	request_question(j->r, port, tls, &q);
	for (size_t from = 0; from < p->secrets_n;) {
		const struct net_secret *s = net_secret_for(p, &q, from);
		const struct vault_entry *x = s ? vault_find(j->v, s->name) : NULL;

		if (!s)
			break;
		if (!x || !x->value)
			return refuse(j, 403, "store it again: croft secret set NAME",
				"the secret %s, bound to this request, is not stored any more",
				s->name);
		if (j->b_n == PLACE_USES_MAX)
			return refuse(j, 403, "bind fewer secrets to it",
				"too many secrets are bound to this request");
		j->b[j->b_n++] = (struct bound){.s = s, .x = x};
		from = (size_t)(s - p->secrets) + 1;
	}
	return 0;
}

/* Everything that is not a placement. */
static unsigned search(struct job *j)
{
	struct placeholder_scan scan = {0};
	int hit;

	buf_addf(&j->residue, "\n%s", j->r->path);
	if (j->residue.failed)
		return refuse(j, 431, "", "the request's head is too long");
	hit = placeholder_find(j->v->set, &scan, buf_str(&j->residue), j->residue.len);
	placeholder_scan_done(&scan);
	if (hit < 0)
		return 0;
	return refuse(j, 403, "send it only where network.secrets binds it",
		"the placeholder of %s stands where it is not bound to go", j->v->v[hit].name);
}

static unsigned require(struct job *j)
{
	for (size_t k = 0; k < j->b_n; k++)
		if (j->b[k].s->require && !j->b[k].found)
			return refuse(j, 403, "send the placeholder that the environment holds",
				"requests here must carry the placeholder of %s, and nothing else",
				j->b[k].s->name);
	return 0;
}

unsigned place_judge(struct placement *ret, struct http_request *r, uint16_t port, bool tls,
	const struct net_policy *p, const struct vault *v)
{
	struct job j = {.out = ret, .r = r, .v = v, .residue = BUF_INIT(RESIDUE_MAX_B)};

	*ret = (struct placement){0};
	if (r->fields.n > HTTP_HEADERS_MAX)
		return refuse(&j, 431, "", "too many headers");
	bind(&j, port, tls, p);
	for (size_t i = 0; !j.status && i < r->fields.n; i++)
		look_at_field(&j, i);
	if (!j.status)
		look_at_query(&j);
	if (!j.status)
		search(&j);
	if (!j.status)
		require(&j);
	if (!j.status)
		strip(&j);
	buf_done(&j.residue);
	return j.status;
}

/* ---- writing ---- */

static bool write_value(
	const struct place_use *u, const struct vault *v, bool in_target, struct secret *out)
{
	const struct vault_entry *x = &v->v[u->entry];

	if (!x->value)
		return false;
	if (u->user)
		return text_basic(out, u->user, u->user_len, x->value, x->value_len);
	return in_target ? text_escape_secret(out, x->value, x->value_len)
			 : secret_add(out, x->value, x->value_len);
}

bool place_write(const struct placement *pl, const struct vault *v, const char *head, size_t n,
	struct secret *out)
{
	const char *line = memchr(head, '\n', n);
	size_t target_n = line ? (size_t)(line - head) : n, at = 0;

	while (at < n) {
		const struct place_use *use = NULL;
		const char *first = NULL;

		for (size_t i = 0; i < pl->n; i++) {
			const char *hit =
				memmem(head + at, n - at, pl->use[i].find, pl->use[i].find_len);

			if (hit && (!first || hit < first)) {
				first = hit;
				use = &pl->use[i];
			}
		}
		if (!use)
			return secret_add(out, head + at, n - at);
		if (!secret_add(out, head + at, (size_t)(first - head) - at) ||
			!write_value(use, v, (size_t)(first - head) < target_n, out))
			return false;
		at = (size_t)(first - head) + use->find_len;
	}
	return true;
}
