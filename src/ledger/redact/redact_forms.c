/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms that are known to be credentials, whoever's they are.
 *
 * Scanners are written by hand and look at each byte a fixed number of times: a scanner that fails has
 * read at most its shortest form, or a run that no other start in it reads again. What is taken for a
 * secret and is none costs a reader a word; what is missed costs the user a secret.
 */
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/redact/redact_impl.h"

#define PEM_MAX_B 16384u
#define TOKEN_MAX_B 16384u
#define USERINFO_MAX_B 1024u
#define ASSIGNED_MIN 8u

struct form_scan {
	const char *p;
	size_t n;
	size_t floor;                   /* what is before it has been dealt with */
	size_t pem_end;                 /* the next "-----END ", or n … */
	bool pem_sought;                /* … once it was sought */
	size_t code_until, prose_until; /* how far values were read that are none */
};

/* ------------------------------------------------------------------ characters */

enum { DIGIT = 1, UPPER = 2, LOWER = 4, UNDER = 8, DASH = 16, B64 = 32 };
#define ALNUM (DIGIT | UPPER | LOWER)

static unsigned class_of(char c)
{
	if (c >= '0' && c <= '9')
		return DIGIT;
	if (c >= 'A' && c <= 'Z')
		return UPPER;
	if (c >= 'a' && c <= 'z')
		return LOWER;
	return c == '_' ? UNDER : c == '-' ? DASH : c == '+' || c == '/' || c == '=' ? B64 : 0;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* How many characters of these classes stand at i, at most `max`. */
static size_t run(const struct form_scan *s, size_t i, unsigned classes, size_t max)
{
	size_t n = 0;

	while (i + n < s->n && n < max && (class_of(s->p[i + n]) & classes))
		n++;
	return n;
}

static bool at(const struct form_scan *s, size_t i, const char *word)
{
	size_t n = strlen(word);

	return i <= s->n && s->n - i >= n && memcmp(s->p + i, word, n) == 0;
}

static bool at_nocase(const struct form_scan *s, size_t i, const char *word)
{
	for (; *word; word++, i++)
		if (i >= s->n || lower(s->p[i]) != *word)
			return false;
	return true;
}

/* Does a word begin at i? An escape before it (\n, %3D, \u003d) is no part of a word. */
static bool begins(const struct form_scan *s, size_t i)
{
	const char *p = s->p + i;

	if (i == 0 || !(class_of(p[-1]) & (ALNUM | UNDER | DASH)))
		return true;
	if (i >= 2 && p[-2] == '\\' && strchr("nrtbf", p[-1]))
		return true;
	if (i >= 3 && p[-3] == '%' && hex_digit(p[-2]) >= 0 && hex_digit(p[-1]) >= 0)
		return true;
	return i >= 6 && p[-6] == '\\' && p[-5] == 'u';
}

/* ------------------------------------------------------------------ tokens with a prefix */

static const struct token {
	const char *prefix;
	enum redact_kind kind;
	unsigned classes;
	size_t min, max; /* characters after the prefix */
	bool word;       /* only where a word begins */
} tokens[] = {
	{"AKIA", REDACT_AWS, DIGIT | UPPER, 16, 16, true},
	{"ASIA", REDACT_AWS, DIGIT | UPPER, 16, 16, true},
	{"ghp_", REDACT_GITHUB, ALNUM, 20, 255, false},
	{"gho_", REDACT_GITHUB, ALNUM, 20, 255, false},
	{"ghu_", REDACT_GITHUB, ALNUM, 20, 255, false},
	{"ghs_", REDACT_GITHUB, ALNUM, 20, 255, false},
	{"ghr_", REDACT_GITHUB, ALNUM, 20, 255, false},
	{"github_pat_", REDACT_GITHUB, ALNUM | UNDER, 20, 255, false},
	{"glpat-", REDACT_GITLAB, ALNUM | UNDER | DASH, 20, 255, false},
	{"xoxb-", REDACT_SLACK, ALNUM | DASH, 10, 255, false},
	{"xoxp-", REDACT_SLACK, ALNUM | DASH, 10, 255, false},
	{"xoxa-", REDACT_SLACK, ALNUM | DASH, 10, 255, false},
	{"xoxr-", REDACT_SLACK, ALNUM | DASH, 10, 255, false},
	{"xoxs-", REDACT_SLACK, ALNUM | DASH, 10, 255, false},
	{"xoxe-", REDACT_SLACK, ALNUM | DASH, 10, 255, false},
	{"xapp-", REDACT_SLACK, ALNUM | DASH, 10, 255, true},
	{"sk-ant-", REDACT_API_KEY, ALNUM | UNDER | DASH, 16, 255, true},
	{"sk-", REDACT_API_KEY, ALNUM | UNDER | DASH, 20, 255, true},
	{"AIza", REDACT_GOOGLE, ALNUM | UNDER | DASH, 35, 35, false},
	{"npm_", REDACT_NPM, ALNUM, 36, 36, false},
	{"pypi-", REDACT_PYPI, ALNUM | UNDER | DASH, 50, 512, true},
	{"sk_live_", REDACT_STRIPE, ALNUM, 10, 255, false},
	{"sk_test_", REDACT_STRIPE, ALNUM, 10, 255, false},
	{"rk_live_", REDACT_STRIPE, ALNUM, 10, 255, false},
	{"whsec_", REDACT_STRIPE, ALNUM | B64, 16, 255, true},
};

/* "sk-" begins hyphenated words of people's, too; a key has digits or capitals in it. */
static bool random_looking(const struct form_scan *s, size_t i, size_t n)
{
	unsigned seen = 0;

	for (size_t k = 0; k < n; k++)
		seen |= class_of(s->p[i + k]);
	return (seen & DIGIT) || (seen & UPPER && seen & LOWER);
}

/* A token that is cut off by the end of the text is known by its prefix and half of its length. */
static bool long_enough(const struct form_scan *s, size_t end, size_t n, size_t min)
{
	return n >= min || (end == s->n && n >= min / 2 && n >= 4);
}

static size_t token_at(const struct form_scan *s, size_t i, enum redact_kind *ret)
{
	for (size_t k = 0; k < ARRAY_SIZE(tokens); k++) {
		const struct token *t = &tokens[k];
		size_t from, n;

		if (t->prefix[0] != s->p[i] || !at(s, i, t->prefix) || (t->word && !begins(s, i)))
			continue;
		from = i + strlen(t->prefix);
		n = run(s, from, t->classes, t->max);
		if (!long_enough(s, from + n, n, t->min) ||
			(t->kind == REDACT_API_KEY && !random_looking(s, from, n)))
			continue;
		/* Of a fixed length: what goes on is another word. */
		if (t->kind == REDACT_AWS && from + n < s->n && (class_of(s->p[from + n]) & ALNUM))
			continue;
		*ret = t->kind;
		return from + n;
	}
	return 0;
}

/* Three parts of base64url with dots between them; the first two are JSON objects. */
static size_t jwt_at(const struct form_scan *s, size_t i)
{
	const unsigned part = ALNUM | UNDER | DASH;
	size_t n;

	if (!at(s, i, "eyJ") || !begins(s, i))
		return 0;
	n = run(s, i, part, TOKEN_MAX_B);
	if (n < 8)
		return 0;
	i += n;
	if (!at(s, i, ".eyJ"))
		return 0;
	i++;
	i += run(s, i, part, TOKEN_MAX_B);
	if (i == s->n)
		return i; /* cut off, and its claims are there */
	if (s->p[i] != '.')
		return 0;
	n = run(s, i + 1, part, TOKEN_MAX_B);
	return i + 1 + n;
}

/* ------------------------------------------------------------------ private keys */

/* "-----BEGIN … PRIVATE KEY-----" (or END) at i: where it ends, or 0. */
static size_t pem_marker(const struct form_scan *s, size_t i, const char *verb)
{
	size_t k, label;

	if (!at(s, i, verb))
		return 0;
	label = k = i + strlen(verb);
	while (k < s->n && k - label < 48 &&
		((class_of(s->p[k]) & (UPPER | DIGIT)) || s->p[k] == ' '))
		k++;
	if (!at(s, k, "-----"))
		return 0;
	for (size_t w = label; w + 11 <= k; w++)
		if (at(s, w, "PRIVATE KEY"))
			return k + 5;
	return 0;
}

/* What a body is made of; line ends may be written as \n. */
static bool pem_body(char c)
{
	return (class_of(c) & (ALNUM | B64)) || c == '\n' || c == '\r' || c == '\\' || c == ' ' ||
	       c == ':' || c == ',';
}

static size_t pem_at(struct form_scan *s, size_t i)
{
	static const char end_verb[] = "-----END ";
	size_t k = pem_marker(s, i, "-----BEGIN "), end;

	if (!k)
		return 0;
	if (!s->pem_sought || s->pem_end < k) {
		const char *e = memmem(s->p + k, s->n - k, end_verb, sizeof(end_verb) - 1);

		s->pem_end = e ? (size_t)(e - s->p) : s->n;
		s->pem_sought = true;
	}
	if (s->pem_end < s->n && s->pem_end - k <= PEM_MAX_B) {
		end = pem_marker(s, s->pem_end, end_verb);
		if (end)
			return end;
	}
	while (k < s->n && pem_body(s->p[k]))
		k++;
	return k;
}

/* The end of a key whose beginning is not there: back over what can be its body. */
static size_t pem_tail_at(const struct form_scan *s, size_t i, size_t *ret_start)
{
	size_t end = pem_marker(s, i, "-----END "), k = i;

	if (!end)
		return 0;
	while (k > s->floor && pem_body(s->p[k - 1]) && s->p[k - 1] != ' ' && s->p[k - 1] != ':' &&
		s->p[k - 1] != ',')
		k--;
	*ret_start = k;
	return end;
}

/* ------------------------------------------------------------------ places where secrets stand */

static size_t skip(const struct form_scan *s, size_t i, const char *these, size_t max)
{
	size_t n = 0;

	while (i + n < s->n && n < max && s->p[i + n] && strchr(these, s->p[i + n]))
		n++;
	return i + n;
}

static bool ends_value(char c)
{
	return (unsigned char)c <= ' ' || c == '"' || c == '\'' || c == '`';
}

/* "Authorization: Bearer x", also as JSON or as a variable: the credentials. */
static size_t authorization_at(const struct form_scan *s, size_t i, size_t *ret_start)
{
	static const char *const schemes[] = {"bearer ", "basic ", "token ", "digest ", "apikey "};
	size_t k, from;

	if (!at_nocase(s, i, "authorization"))
		return 0;
	k = skip(s, i + 13, "\"'\\ ", 4);
	if (k >= s->n || (s->p[k] != ':' && s->p[k] != '='))
		return 0;
	k = skip(s, k + 1, " \t\"'\\", 8);
	for (size_t w = 0; w < ARRAY_SIZE(schemes); w++)
		if (at_nocase(s, k, schemes[w])) {
			k = skip(s, k + strlen(schemes[w]), " ", 8);
			break;
		}
	from = k;
	while (k < s->n && k - from < TOKEN_MAX_B && !ends_value(s->p[k]))
		k++;
	/* A digest has several parts. */
	while (k < s->n && k - from < TOKEN_MAX_B && k > from && s->p[k - 1] == ',' &&
		s->p[k] == ' ') {
		k++;
		while (k < s->n && k - from < TOKEN_MAX_B && s->p[k] != ' ' && s->p[k] != '\n' &&
			s->p[k] != '\r')
			k++;
	}
	if (k - from < 4 || at(s, from, "[redacted:"))
		return 0;
	*ret_start = from;
	return k;
}

/* scheme://user:password@host */
static size_t url_password_at(const struct form_scan *s, size_t i, size_t *ret_start)
{
	size_t colon = 0, at_sign = 0, k;

	if (!at(s, i, "://") || i == 0 || !(class_of(s->p[i - 1]) & ALNUM))
		return 0;
	for (k = i + 3; k < s->n && k - i < USERINFO_MAX_B; k++) {
		char c = s->p[k];

		if (ends_value(c) || c == '/' || c == '?' || c == '#' || c == '<' || c == '>')
			break;
		if (c == ':' && !colon)
			colon = k;
		if (c == '@')
			at_sign = k;
	}
	if (!colon || at_sign <= colon + 1 || at(s, colon + 1, "[redacted:"))
		return 0;
	*ret_start = colon + 1;
	return at_sign;
}

/* Longer ones before those they begin with. */
static const char *const assigned[] = {"password", "passwd", "passphrase", "secret_key", "secret",
	"token", "api_key", "api-key", "apikey", "access_key", "private_key", "credentials"};

static size_t assigned_word(const struct form_scan *s, size_t i)
{
	for (size_t k = 0; k < ARRAY_SIZE(assigned); k++)
		if (lower(s->p[i]) == assigned[k][0] && at_nocase(s, i, assigned[k]))
			return i + strlen(assigned[k]);
	return 0;
}

/* The value that stands at `from`: its end. */
static size_t value_end(const struct form_scan *s, size_t from)
{
	size_t k = from;

	while (k < s->n && k - from < TOKEN_MAX_B && !ends_value(s->p[k]) &&
		!strchr(",;)}]&<>(\\", s->p[k] ? s->p[k] : ','))
		k++;
	return k;
}

/* password=…, "token": "…", secret: … */
static size_t assignment_at(struct form_scan *s, size_t i, size_t *ret_start)
{
	size_t k = assigned_word(s, i), from, before;
	enum redact_kind kind;
	bool prose;

	if (!k)
		return 0;
	k = skip(s, k, "\"'\\", 2);
	k = skip(s, k, " \t", 4);
	if (k >= s->n || (s->p[k] != '=' && s->p[k] != ':'))
		return 0;
	before = skip(s, k + 1, " \t", 4);
	from = skip(s, before, "\"'`\\", 2);
	prose = s->p[k] == ':' && from == before;
	/* References and placeholders are no secrets. What was judged once is not read again. */
	if (from >= s->n || strchr("$<{[*=", s->p[from] ? s->p[from] : '*') ||
		from < s->code_until || (prose && from < s->prose_until))
		return 0;
	k = value_end(s, from);
	if (k < s->n && s->p[k] == '(') {
		s->code_until = k;
		return 0;
	}
	if (prose && !random_looking(s, from, k - from)) {
		s->prose_until = k;
		return 0;
	}
	/* What has a name of its own is called by it. */
	if (k - from < ASSIGNED_MIN || token_at(s, from, &kind) >= k || jwt_at(s, from) >= k)
		return 0;
	*ret_start = from;
	return k;
}

/* ------------------------------------------------------------------ all of them */

/* What begins at i: its end, or 0. start may be moved: not every form goes as a whole. */
static size_t form_at(struct form_scan *s, size_t i, size_t *start, enum redact_kind *kind)
{
	size_t end = 0;

	*start = i;
	switch (s->p[i]) {
	case '-':
		*kind = REDACT_PRIVATE_KEY;
		end = pem_at(s, i);
		return end ? end : pem_tail_at(s, i, start);
	case ':':
		*kind = REDACT_URL_PASSWORD;
		return url_password_at(s, i, start);
	case 'e':
		*kind = REDACT_JWT;
		return jwt_at(s, i);
	default:
		break;
	}
	end = token_at(s, i, kind);
	if (!end && (s->p[i] == 'a' || s->p[i] == 'A')) {
		*kind = REDACT_AUTHORIZATION;
		end = authorization_at(s, i, start);
	}
	if (!end) {
		*kind = REDACT_ASSIGNMENT;
		end = assignment_at(s, i, start);
	}
	return end;
}

void redact_forms(const char *p, size_t n, struct redact_spans *ret)
{
	struct form_scan s = {.p = p, .n = n};

	for (size_t i = 0; i < n;) {
		enum redact_kind kind = REDACT_VALUE;
		size_t start, end = 0;

		if (class_of(p[i]) & (ALNUM | DASH) || p[i] == ':')
			end = form_at(&s, i, &start, &kind);
		if (!end || end <= start || start < s.floor) {
			i++;
			continue;
		}
		redact_spans_add(ret, start, end, kind);
		s.floor = i = end;
	}
}
