/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in captured text: each rule with what it must find and what it must leave alone. */
#include "test.h"

#include <errno.h>
#include <time.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "ledger/redact/redact.h"

#define VALUE "s3cr3t/Value+with%odd\"chars"

static size_t rule_index(const char *name)
{
	for (size_t i = 0; redact_rule(i); i++)
		if (strcmp(redact_rule(i), name) == 0)
			return i;
	return REDACT_RULES_MAX;
}

static char *redacted(struct redact *r, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);

	redact_text(r, text, strlen(text), &b);
	return b.failed ? NULL : strdup(buf_str(&b));
}

/* Exactly `want` comes out, and the rule has fired once. */
static bool gives(const char *text, const char *rule, const char *want)
{
	cleanup_free char *is = NULL;
	struct redact r;
	size_t i = rule_index(rule);
	bool ok;

	redact_init(&r);
	is = redacted(&r, text);
	ok = is && strcmp(is, want) == 0 && i < REDACT_RULES_MAX && r.fired[i] == 1;
	if (!ok)
		printf("# %s\n# gave %s\n", text, is ? is : "(nothing)");
	redact_done(&r);
	return ok;
}

static bool leaves(const char *text)
{
	cleanup_free char *is = NULL;
	struct redact r;
	bool ok;

	redact_init(&r);
	is = redacted(&r, text);
	ok = is && strcmp(is, text) == 0;
	if (!ok)
		printf("# %s\n# gave %s\n", text, is ? is : "(nothing)");
	redact_done(&r);
	return ok;
}

TEST(rules_have_names)
{
	CHECK_STR(redact_rule(0), "value");
	CHECK(!redact_rule(REDACT_RULES_MAX));
	CHECK(rule_index("jwt") < REDACT_RULES_MAX);
	CHECK(rule_index("nonsense") == REDACT_RULES_MAX);
}

TEST(tokens)
{
	CHECK(gives("id AKIAIOSFODNN7EXAMPLE end", "aws-access-key",
		"id [redacted:aws-access-key] end"));
	CHECK(gives("x=ASIAIOSFODNN7EXAMPLE", "aws-access-key", "x=[redacted:aws-access-key]"));
	CHECK(leaves("AKIAIOSFODNN7EXAM end"));
	CHECK(leaves("AKIAIOSFODNN7EXAMPLEXX"));
	CHECK(leaves("bAKIAIOSFODNN7EXAMPLE"));
	CHECK(gives("a ghp_0123456789abcdefghijklmnopqrstuvwxyz.", "github-token",
		"a [redacted:github-token]."));
	CHECK(gives("line\\nghs_0123456789abcdefghijklmnopqrstuvwxyz", "github-token",
		"line\\n[redacted:github-token]"));
	CHECK(gives("github_pat_11ABCDEFG0123456789_abcdefghij", "github-token",
		"[redacted:github-token]"));
	CHECK(leaves("ghp_short and ghx_0123456789abcdefghijklmnopqrstuvwxyz"));
	CHECK(gives("glpat-abcdefghij0123456789", "gitlab-token", "[redacted:gitlab-token]"));
	CHECK(leaves("glpat-abc def"));
	CHECK(gives("xoxb-1234567890-abcdef", "slack-token", "[redacted:slack-token]"));
	CHECK(leaves("xoxz-1234567890-abcdef"));
	CHECK(gives("sk-ant-api03-abcDEF0123456789abc", "api-key", "[redacted:api-key]"));
	CHECK(gives("OPENAI sk-proj-abcdefghij0123456789ABCDEF", "api-key",
		"OPENAI [redacted:api-key]"));
	CHECK(leaves("a task-list-with-a-very-long-hyphenated-name"));
	CHECK(leaves("sk-learn-compatible-estimators-and-others"));
	CHECK(gives("AIzaSyA0123456789abcdefghijklmnopqrstuv", "google-api-key",
		"[redacted:google-api-key]"));
	CHECK(leaves("AIzaSyA short"));
	CHECK(gives(
		"npm_0123456789abcdefghijABCDEFGHIJ012345", "npm-token", "[redacted:npm-token]"));
	CHECK(leaves("npm_config_registry npm_lifecycle_event"));
	CHECK(gives("pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIzLTQ1Njc4OWFi",
		"pypi-token", "[redacted:pypi-token]"));
	CHECK(leaves("pypi-server is a package"));
	CHECK(gives("sk_live_0123456789abcdef", "stripe-key", "[redacted:stripe-key]"));
	CHECK(leaves("sk_live_ is a prefix"));
}

TEST(jwt)
{
	CHECK(gives("t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl x", "jwt",
		"t [redacted:jwt] x"));
	CHECK(leaves("eyJhbGciOiJIUzI1NiJ9 alone"));
	CHECK(leaves("eyJhbGciOiJIUzI1NiJ9.other.c2lnbmF0dXJl"));
}

TEST(private_keys)
{
	CHECK(gives("a\n-----BEGIN PRIVATE KEY-----\nMIIBVQ\nabcd==\n-----END PRIVATE KEY-----\nb",
		"private-key", "a\n[redacted:private-key]\nb"));
	CHECK(gives("\"-----BEGIN RSA PRIVATE KEY-----\\nMIIB\\n-----END RSA PRIVATE KEY-----\\n\"",
		"private-key", "\"[redacted:private-key]\\n\""));
	/* Cut off behind, and before. */
	CHECK(gives("k -----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbm",
		"private-key", "k [redacted:private-key]"));
	CHECK(gives("c3BlbnNzaC1rZXktdjE\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n.",
		"private-key", "[redacted:private-key]\n."));
	CHECK(leaves("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"));
	CHECK(leaves("-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n"));
	CHECK(leaves("---- a line ----------"));
}

TEST(places)
{
	CHECK(gives("Authorization: Bearer abc.def-123\r\nHost: x", "authorization",
		"Authorization: Bearer [redacted:authorization]\r\nHost: x"));
	CHECK(gives("{\"authorization\": \"Basic dXNlcjpwYXNz\"}", "authorization",
		"{\"authorization\": \"Basic [redacted:authorization]\"}"));
	CHECK(leaves("authorization was refused"));
	CHECK(leaves("Authorization: "));
	CHECK(gives("git clone https://bob:hunter2@host/x.git", "url-password",
		"git clone https://bob:[redacted:url-password]@host/x.git"));
	CHECK(leaves("https://bob@host/x and http://host:8080/a@b"));
	CHECK(leaves("see http://[::1]:80/"));
	CHECK(gives("DB_PASSWORD=correcthorse", "assignment", "DB_PASSWORD=[redacted:assignment]"));
	CHECK(gives("{\"client_secret\": \"abcdefgh\"}", "assignment",
		"{\"client_secret\": \"[redacted:assignment]\"}"));
	CHECK(gives("token: 0123456789abcdef", "assignment", "token: [redacted:assignment]"));
	CHECK(gives("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "assignment",
		"aws_secret_access_key = [redacted:assignment]"));
	CHECK(gives("secret_key=abcdefgh12", "assignment", "secret_key=[redacted:assignment]"));
	CHECK(gives("token=ghp_0123456789abcdefghijklmnopqrstuvwxyz", "github-token",
		"token=[redacted:github-token]"));
	CHECK(leaves("password=short"));
	CHECK(leaves("password: required"));
	CHECK(leaves("token = next_token(lexer)"));
	CHECK(leaves("PASSWORD=$OTHER_VARIABLE password=${other_one} token=<your-token>"));
	CHECK(leaves("tokens: 12345678"));
	CHECK(leaves("password=[redacted:assignment]"));
}

/* ---- values ---- */

static bool hides(struct redact *r, const char *before, const char *form, const char *after)
{
	cleanup_buf struct buf text = BUF_INIT(65536);
	cleanup_free char *is = NULL;
	cleanup_buf struct buf want = BUF_INIT(65536);
	bool ok;

	buf_addf(&text, "%s%s%s", before, form, after);
	buf_addf(&want, "%s[redacted:value]%s", before, after);
	is = redacted(r, buf_str(&text));
	ok = is && strcmp(is, buf_str(&want)) == 0;
	if (!ok)
		printf("# %s\n# gave %s\n", buf_str(&text), is ? is : "(nothing)");
	return ok;
}

TEST(values)
{
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "NAME", VALUE, &e), 0);
	CHECK_INT(redact_add(&r, "AGAIN", VALUE, &e), 0);
	CHECK_INT(r.values.n, 1);
	CHECK(redact_add(&r, "SHORT", "1234567", &e) < 0);
	CHECK(hides(&r, "x ", VALUE, " y"));
	CHECK(hides(&r, "u?k=", "s3cr3t%2FValue%2Bwith%25odd%22chars", "&b"));
	CHECK(hides(&r, "u?k=", "%733cr3t%2fValue%2bwith%25odd%22char%73", "&b"));
	CHECK(hides(&r, "{\"k\":\"", "s3cr3t\\/Value+with%odd\\\"chars", "\"}"));
	CHECK(hides(&r, "{\"k\":\"", "\\u0073\\u0033cr3t/Value\\u002bwith%odd\\\"chars", "\"}"));
	CHECK_INT(r.fired[0], 5);
	redact_done(&r);
	CHECK_INT(r.values.n, 0);
}

TEST(values_in_either_case_and_in_hex)
{
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "NAME", "Tok-AbCd-012345+/", &e), 0);
	CHECK(hides(&r, "host ", "tok-abcd-012345+/", ".example.org"));
	CHECK(hides(&r, "HOST ", "TOK-ABCD-012345+/", ".example.org"));
	CHECK(hides(&r, "hex ", "546f6b2d416243642d3031323334352b2f", " x"));
	CHECK(hides(&r, "hex ", "546F6B2D416243642D3031323334352B2F", " x"));
	CHECK(hides(&r, "hex ", "546f6b2d416243642d303132", ""));
	CHECK(hides(&r, "u=", "VG9rLUFiQ2QtMDEyMzQ1Ky", "8%3D"));
	/* One digit is another, and base64 has a case. */
	CHECK(!hides(&r, "hex ", "546f6b2d416243642d3031323334352b2e", " x"));
	CHECK(!hides(&r, "u=", "vg9rlufiq2qtmdeymzq1ky", "8="));
	/* What only begins alike, or differs where the sixth bit is all there is. */
	CHECK(!hides(&r, "host ", "tok-abcd-112345+/", ".example.org"));
	CHECK(!hides(&r, "host ", "tok\rabcd-012345+/", ".example.org"));
	redact_done(&r);
}

TEST(values_as_forms_of_web_pages)
{
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "NAME", "Pass Phrase+With \"Blanks\"", &e), 0);
	CHECK(hides(&r, "p=", "Pass+Phrase%2BWith+%22Blanks%22", "&x=1"));
	CHECK(hides(&r, "p=", "Pass%20Phrase%2bWith+%22BLANKS%22", "&x=1"));
	CHECK(hides(&r, "p=", "PASS+PHRASE+WITH+\"BLANKS\"", " x"));
	CHECK(hides(&r, "p=", "Pass+Phrase%2BWith", "")); /* cut off */
	CHECK(!hides(&r, "p=", "Pass-Phrase+With \"Blanks\"", " x"));
	redact_done(&r);
}

static char *field(struct redact *r, const char *text)
{
	struct buf b = BUF_INIT(1u << 20);

	redact_field(r, text, strlen(text), &b);
	return buf_take(&b);
}

TEST(fields_are_whole_unless_they_are_long)
{
	cleanup_free char *dir = NULL, *method = NULL, *path = NULL, *whole = NULL;
	struct err e = ERR_INIT;
	char text[200];
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "PRIVATE_FILE", "/home/user/project/keys/private.pem", &e), 0);
	dir = field(&r, "/home/user/project");
	CHECK_STR(dir, "/home/user/project");
	whole = field(&r, "--write /home/user/project/keys/private.pem");
	CHECK_STR(whole, "--write [redacted:value]");
	/* 31 bytes are as many as are kept of a method. */
	method = field(&r, "/home/user/project/keys/private");
	CHECK_STR(method, "[redacted:value]");
	memset(text, 'x', sizeof(text));
	memcpy(text + sizeof(text) - 9, "/home/us", 9);
	path = field(&r, text);
	CHECK(strstr(path, "x[redacted:value]"));
	redact_done(&r);
}

TEST(json_stays_json)
{
	static const char text[] =
		"\"a\": \"x s3cr3t-value y\", \"s3cr3t-value\": [1, -2.5e3, true, null,\n"
		"\"S3CR3T-VALUE\\\"\", \"s3cr3t\\u002dvalue\", \"a\\n\\u00e4\"]\n";
	static const char want[] =
		"\"a\": \"x [redacted:value] y\", \"s3cr3t-value\": [1, -2.5e3, true, null,\n"
		"\"[redacted:value]\\\"\", \"[redacted:value]\", \"a\\n\\u00e4\"]\n";
	static const char *const bad[] = {
		"{\"a\": \"open}", "{\"a\": s3cr3t-value}", "\"\\", "{'a': 1}"};
	/* A key without its end takes all that can be its body, but no quote and no backslash before one. */
	static const char key[] = "{\"p\":\"-----BEGIN PRIVATE KEY-----abc\\\\\",\"q\":\"abc\"}";
	struct buf out = BUF_INIT(65536);
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "NAME", "s3cr3t-value", &e), 0);
	CHECK_INT(redact_json(&r, text, strlen(text), &out), 0);
	CHECK_STR(buf_str(&out), want);
	CHECK_INT(r.fired[0], 3);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_reset(&out);
		CHECK_INT(redact_json(&r, bad[i], strlen(bad[i]), &out), -EBADMSG);
	}
	buf_reset(&out);
	CHECK_INT(redact_json(&r, key, strlen(key), &out), 0);
	CHECK_STR(buf_str(&out), "{\"p\":\"[redacted:private-key]\",\"q\":\"abc\"}");
	buf_done(&out);
	redact_done(&r);
}

/* Nothing of the value's own digits is left, whatever stands around it. */
TEST(values_in_base64)
{
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "NAME", "0123456789abcdef>>>???", &e), 0);
	for (size_t before = 0; before < 3; before++) {
		cleanup_free char *is = NULL;
		char raw[64], text[128] = "";
		int n = snprintf(
			raw, sizeof(raw), "%.*s0123456789abcdef>>>???~~", (int)before, "xyz");

		base64_encode(text, raw, (size_t)n);
		is = redacted(&r, text);
		CHECK(is && strstr(is, "[redacted:value]"));
		CHECK(strlen(is) < strlen("[redacted:value]") + 12);
		for (char *c = text; *c; c++)
			*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
		free(is);
		is = redacted(&r, text);
		CHECK(is && strstr(is, "[redacted:value]"));
		CHECK(strlen(is) < strlen("[redacted:value]") + 12);
	}
	redact_done(&r);
}

TEST(values_cut_and_overlapping)
{
	struct err e = ERR_INIT;
	struct redact r;

	redact_init(&r);
	CHECK_INT(redact_add(&r, "A", "abcdefgh12345678", &e), 0);
	CHECK_INT(redact_add(&r, "B", "12345678ijklmnop", &e), 0);
	CHECK(hides(&r, "end ", "abcdefgh12345678ijklmnop", " x"));
	CHECK(hides(&r, "end ", "abcdefgh1234", ""));
	CHECK(hides(&r, "", "fgh12345678", " begin"));
	/* Too little is left to know it; and in the middle a part is no cut. */
	CHECK(!hides(&r, "end ", "abcde", ""));
	CHECK(!hides(&r, "mid ", "abcdefgh1234", " x"));
	redact_done(&r);
}

/* Text made to be slow: the same in four times the length takes about four times as long. */
static double seconds(const char *unit, size_t n)
{
	size_t len = strlen(unit), total = n / len * len;
	cleanup_free char *text = malloc(total + 1);
	struct buf out = BUF_INIT(64u << 20);
	struct timespec a, b;
	struct redact r;

	for (size_t i = 0; i < total; i += len)
		memcpy(text + i, unit, len);
	redact_init(&r);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	redact_text(&r, text, total, &out);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	buf_done(&out);
	redact_done(&r);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

TEST(linear)
{
	static const char *const units[] = {"-----BEGIN PRIVATE KEY-----.",
		"token=token=", "secret:secret:", "eyJ", "eyJ.", "sk-", "://a",
		"authorization:", "-----END A", "ghp_", "AIza", "password=\"", "token=a("};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		double small = seconds(units[i], 1u << 18), large = seconds(units[i], 1u << 20);

		if (large > 0.2 && large > 12 * small) {
			test_fail(__FILE__, __LINE__, "%s: %.3f s, then %.3f s", units[i], small,
				large);
			return;
		}
	}
}
