/* SPDX-License-Identifier: Apache-2.0 */
/* Names of credentials: see credential.h. */
#include "base/credential.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define FOLDED_MAX 64u /* the end of longer names is looked at */
#define RANDOM_MIN 16u

enum how {
	WHOLE,     /* this name only */
	ENDS,      /* also at the end of longer names */
	AMBIGUOUS, /* this name only, and the value must look random */
	NOT_ENDS,  /* no credential, though a word above is at its end */
};

#define BOTH (CREDENTIAL_HEADER | CREDENTIAL_QUERY)

/* clang-format off */
static const struct word {
	const char *text; /* folded */
	enum how how;
	unsigned places;
} words[] = {
	/* Looked at first. CSRF tokens prove no identity; the others are places in a list (AIP-158,
	 * AWS, OData), WebDAV's locks (RFC 4918) and AWS's idempotency tokens. */
	{"csrftoken", NOT_ENDS, BOTH},
	{"xsrftoken", NOT_ENDS, BOTH},
	{"locktoken", NOT_ENDS, CREDENTIAL_HEADER},
	{"continuationtoken", NOT_ENDS, BOTH},
	{"pagetoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"paginationtoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"nexttoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"startingtoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"skiptoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"synctoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"clienttoken", NOT_ENDS, CREDENTIAL_QUERY},
	{"clientrequesttoken", NOT_ENDS, CREDENTIAL_QUERY},

	{"authorization", ENDS, BOTH},      /* RFC 9110, Proxy-, X-, X-Goog-IAM- */
	{"cookie", ENDS, CREDENTIAL_HEADER}, /* RFC 6265, Set- */
	{"cookie2", ENDS, CREDENTIAL_HEADER},
	/* access_token (RFC 6750), PRIVATE-TOKEN and JOB-TOKEN (GitLab), X-Auth-Token (OpenStack),
	 * X-Vault-Token, X-Amz-Security-Token, X-Figma-Token, X-Shopify-Access-Token, Circle-Token … */
	{"token", ENDS, BOTH},
	{"jwt", ENDS, BOTH},
	{"assertion", ENDS, BOTH}, /* RFC 7521: client_assertion */
	{"apikey", ENDS, BOTH},    /* X-Api-Key, api_key, DD-API-KEY, x-goog-api-key, X-NuGet-ApiKey */
	{"accesskey", ENDS, BOTH},
	{"accesskeyid", ENDS, BOTH}, /* AWS */
	{"secretkey", ENDS, BOTH},
	{"authkey", ENDS, BOTH},        /* Cloudflare */
	{"masterkey", ENDS, BOTH},
	{"sharedkey", ENDS, BOTH},
	{"privatekey", ENDS, BOTH},
	{"servicekey", ENDS, BOTH},     /* Cloudflare: X-Auth-User-Service-Key */
	{"applicationkey", ENDS, BOTH}, /* Datadog */
	{"subscriptionkey", ENDS, BOTH}, /* Azure: Ocp-Apim-Subscription-Key */
	{"functionskey", ENDS, BOTH},   /* Azure */
	{"jfrogartapi", WHOLE, CREDENTIAL_HEADER}, /* Artifactory */
	{"password", ENDS, BOTH},
	{"passwd", ENDS, BOTH},
	{"passphrase", ENDS, BOTH},
	{"passcode", ENDS, BOTH}, /* SonarQube */
	{"secret", ENDS, BOTH},   /* client_secret (RFC 6749) */
	{"credential", ENDS, BOTH}, /* X-Amz-Credential */
	{"credentials", ENDS, BOTH},
	{"sessionid", ENDS, BOTH},
	{"signature", ENDS, CREDENTIAL_QUERY}, /* X-Amz-, X-Goog- */
	{"sig", AMBIGUOUS, CREDENTIAL_QUERY},  /* Azure's shared access signatures */
	{"key", AMBIGUOUS, BOTH},              /* Google */
	{"appid", AMBIGUOUS, CREDENTIAL_QUERY}, /* OpenWeather */
	{"auth", AMBIGUOUS, BOTH},
	{"pass", AMBIGUOUS, BOTH},
	{"pwd", AMBIGUOUS, BOTH},
	{"sid", AMBIGUOUS, BOTH},
};
/* clang-format on */

struct folded {
	char text[FOLDED_MAX];
	size_t n;
	bool whole; /* nothing was left out at its beginning */
};

static void folded_add(struct folded *f, char c)
{
	if (c >= 'A' && c <= 'Z')
		c = (char)(c - 'A' + 'a');
	if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
		return;
	if (f->n == FOLDED_MAX) {
		memmove(f->text, f->text + 1, --f->n);
		f->whole = false;
	}
	f->text[f->n++] = c;
}

static void fold(struct folded *f, enum credential_place place, const char *p, size_t n)
{
	size_t i = n > 2 && (p[0] == 'x' || p[0] == 'X') && (p[1] == '-' || p[1] == '_') ? 2 : 0;

	f->n = 0;
	f->whole = true;
	for (; i < n; i++)
		if (place == CREDENTIAL_QUERY && p[i] == '%' && n - i > 2 &&
			hex_digit(p[i + 1]) >= 0 && hex_digit(p[i + 2]) >= 0) {
			folded_add(f, (char)(hex_digit(p[i + 1]) << 4 | hex_digit(p[i + 2])));
			i += 2;
		} else {
			folded_add(f, p[i]);
		}
}

static bool matches(const struct folded *f, const struct word *w)
{
	size_t n = strlen(w->text);

	if (n > f->n || memcmp(f->text + f->n - n, w->text, n) != 0)
		return false;
	return w->how == ENDS || w->how == NOT_ENDS || (n == f->n && f->whole);
}

static const struct word *find(enum credential_place place, const char *name, size_t n)
{
	struct folded f;

	fold(&f, place, name, n);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if ((words[i].places & place) && matches(&f, &words[i]))
			return &words[i];
	return NULL;
}

bool credential_name(enum credential_place place, const char *name, size_t n)
{
	const struct word *w = find(place, name, n);

	return w && (w->how == WHOLE || w->how == ENDS);
}

/* Letters and digits, and long: no word, no number. */
static bool looks_random(const char *p, size_t n)
{
	bool letter = false, digit = false;

	for (size_t i = 0; i < n; i++) {
		letter |= (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z');
		digit |= p[i] >= '0' && p[i] <= '9';
	}
	return n >= RANDOM_MIN && letter && digit;
}

bool credential_is(
	enum credential_place place, const char *name, size_t n, const char *value, size_t value_n)
{
	const struct word *w = find(place, name, n);

	if (!w || w->how == NOT_ENDS)
		return false;
	return w->how != AMBIGUOUS || looks_random(value, value_n);
}
