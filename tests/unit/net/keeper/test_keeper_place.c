/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements: every place a value may go, every place a placeholder may not be; and the vault
 * behind them.
 */
#include "keeper_store.h"

#include <errno.h>

#include "net/http/http1.h"
#include "net/keeper/keeper_place.h"

/* ---- text ---- */

TEST(escaped_is)
{
	CHECK(text_escaped_is("k%65y", 5, "key", 3));
	CHECK(text_escaped_is("key", 3, "key", 3));
	CHECK(!text_escaped_is("k%6", 3, "key", 3));
	CHECK(!text_escaped_is("keyx", 4, "key", 3));
	CHECK(!text_escaped_is("ke", 2, "key", 3));
	CHECK(!text_escaped_is("k%zzy", 5, "key", 3));
}

/* ---- the vault ---- */

TEST(vault_refuses)
{
	struct net_secret s = {.name = "TOKEN", .host = HOST, .port = 443};
	struct net_policy p = {.secrets = &s, .secrets_n = 1};
	struct err e = ERR_INIT;
	struct vault v;
	DIR_OF(d);

	CHECK_INT(vault_init(&v, seed, &e), 0);
	CHECK_INT(vault_load(&v, &p, d.fd, &e), 0); /* the control */
	CHECK(v.v[0].value && v.v[0].value_len == VALUE_LEN);
	vault_done(&v);

	CHECK(fchmodat(d.fd, "TOKEN", 0640, 0) == 0);
	CHECK_INT(vault_init(&v, seed, &e), 0);
	CHECK_INT(vault_load(&v, &p, d.fd, &e), -EPERM);
	CHECK(strstr(e.msg, "TOKEN") && !strstr(e.msg, VALUE));
	vault_done(&v);

	CHECK(unlinkat(d.fd, "TOKEN", 0) == 0 && symlinkat("OTHER", d.fd, "TOKEN") == 0);
	CHECK_INT(vault_init(&v, seed, &e), 0);
	CHECK(vault_load(&v, &p, d.fd, &e) < 0);
	CHECK_INT(v.bank[0].len + v.bank[1].len, 0);
	vault_done(&v);

	CHECK(unlinkat(d.fd, "TOKEN", 0) == 0 &&
		dir_put(&d, "TOKEN", "two lines\nof a value", 0600));
	CHECK_INT(vault_init(&v, seed, &e), 0);
	CHECK(vault_load(&v, &p, d.fd, &e) < 0);
	vault_done(&v);
}

/* A placeholder stays what it was, whatever becomes of the value. */
TEST(vault_rotates)
{
	struct net_secret s = {.name = "TOKEN", .host = HOST, .port = 443};
	struct net_policy p = {.secrets = &s, .secrets_n = 1}, none = {0};
	char want[VALUE_LEN];
	struct err e = ERR_INIT;
	struct vault v;
	DIR_OF(d);

	placeholder_make(want, sizeof(want), seed, "TOKEN");
	CHECK_INT(vault_init(&v, seed, &e), 0);
	CHECK_INT(vault_load(&v, &p, d.fd, &e), 0);
	CHECK_INT(vault_load(&v, &p, d.fd, &e), 0);
	CHECK(!v.v[0].changed);
	CHECK(dir_put(&d, "TOKEN", "a new and much longer value than before, by far", 0600));
	CHECK_INT(vault_load(&v, &p, d.fd, &e), 0);
	CHECK(v.v[0].changed);
	CHECK(v.v[0].value && memcmp(v.v[0].value, "a new and", 9) == 0);
	CHECK_INT(v.v[0].placeholder_len, sizeof(want));
	CHECK(memcmp(v.v[0].placeholder, want, sizeof(want)) == 0);
	CHECK(!memmem(v.bank[0].data, v.bank[0].cap, VALUE, VALUE_LEN));
	CHECK(!memmem(v.bank[1].data, v.bank[1].cap, VALUE, VALUE_LEN));
	CHECK(unlinkat(d.fd, "TOKEN", 0) == 0);
	CHECK_INT(vault_load(&v, &p, d.fd, &e), 0);
	CHECK(v.v[0].changed && !v.v[0].value);
	CHECK(dir_put(&d, "TOKEN", VALUE, 0600));
	CHECK_INT(vault_load(&v, &p, d.fd, &e), 0);
	CHECK(v.v[0].value);
	CHECK_INT(vault_load(&v, &none, d.fd, &e), 0);
	CHECK(v.v[0].changed && !v.v[0].value && v.n == 1);
	CHECK(!memmem(v.bank[0].data, v.bank[0].cap, VALUE, VALUE_LEN));
	CHECK(!memmem(v.bank[1].data, v.bank[1].cap, VALUE, VALUE_LEN));
	vault_done(&v);
}

/* ---- placements ---- */

/*
 * Judge a request (with @P, @O) and write it. "" when refused, with the status in *ret_status. Two
 * secrets: TOKEN as s says, OTHER in header x-other.
 */
static void carry(struct net_secret s, const char *request, struct buf *ret, unsigned *ret_status)
{
	struct net_secret both[2] = {s, {.name = "OTHER",
						.host = HOST,
						.port = 443,
						.placement = NET_HEADER,
						.field = "x-other"}};
	struct net_policy p = {.secrets = both, .secrets_n = 2};
	cleanup_buf struct buf text = BUF_INIT(1u << 20);
	cleanup_buf struct buf head = BUF_INIT(1u << 20);
	cleanup_secret struct secret out = SECRET_INIT;
	const struct http_problem *problem = NULL;
	struct http_request r;
	struct err e = ERR_INIT;
	struct placement pl;
	struct vault v;
	struct place_dir d;

	both[0].name = "TOKEN";
	both[0].host = HOST;
	both[0].port = 443;
	*ret_status = 999;
	if (!dir_make_one(&d) || vault_init(&v, seed, &e) < 0 || vault_load(&v, &p, d.fd, &e) < 0)
		return;
	expand(&text, request);
	if (http1_request(&r, text.data, text.len, &problem) > 0) {
		*ret_status = place_judge(&pl, &r, 443, true, &p, &v);
		if (*ret_status == 0) {
			http1_write_request(&r, &head);
			secret_init(&out, 1u << 20);
			/* Until it is written, no value is in it. */
			if (memmem(head.data, head.len, VALUE, VALUE_LEN) ||
				!place_write(&pl, &v, head.data, head.len, &out))
				*ret_status = 998;
			buf_add(ret, out.data, out.len);
		} else if (strstr(pl.why, VALUE) || strstr(pl.next, VALUE) || !pl.why[0]) {
			*ret_status = 997;
		}
		request_done(&r);
	} else {
		*ret_status = problem ? problem->status : 996;
	}
	vault_done(&v);
	dir_done(&d);
}

#define CARRY(s, request)                                                                          \
	cleanup_buf struct buf out = BUF_INIT(1u << 20);                                           \
	unsigned status;                                                                           \
	carry(s, request, &out, &status)
#define HAS(text) CHECK(strstr(buf_str(&out), text))
#define LACKS(text) CHECK(!strstr(buf_str(&out), text))
#define REFUSED(s, request)                                                                        \
	do {                                                                                       \
		CARRY(s, request);                                                                 \
		CHECK_INT(status, 403);                                                            \
	} while (0)

static const struct net_secret bearer = {.placement = NET_BEARER};
static const struct net_secret header = {.placement = NET_HEADER, .field = "X-Api-Key"};
static const struct net_secret auth = {.placement = NET_HEADER, .field = "authorization"};
static const struct net_secret query = {.placement = NET_QUERY, .field = "key"};
static const struct net_secret basic = {.placement = NET_BASIC};

TEST(place_header)
{
	{
		CARRY(header, GET("/x") "x-api-key: @P\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: " VALUE "\r\n");
		LACKS("croft0");
	}
	{
		CARRY(auth, GET("/x") "authorization: token @P\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("authorization: token " VALUE "\r\n");
	}
	{
		CARRY(header, GET("/x") "x-api-key: a @P and @P\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: a " VALUE " and " VALUE "\r\n");
	}
	{ /* nothing is put in where nothing was asked for */
		CARRY(header, GET("/x") "x-api-key: mine\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: mine\r\n");
		LACKS(VALUE);
	}
	{ /* two secrets, each at its place */
		CARRY(header, GET("/x") "x-api-key: @P\r\nx-other: @O\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: " VALUE "\r\n");
		HAS("x-other: " OTHER "\r\n");
	}
}

TEST(place_bearer)
{
	static const char *const spellings[] = {
		"Bearer @P", "bearer @P", "token @P", "@P", "Bearer  @P"};

	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		char request[256];

		snprintf(request, sizeof(request), "%sauthorization: %s\r\n\r\n", GET("/x"),
			spellings[i]);
		{
			CARRY(bearer, request);
			CHECK_INT(status, 0);
			HAS("authorization: Bearer " VALUE "\r\n");
		}
	}
	REFUSED(bearer, GET("/x") "authorization: Bearer @P x\r\n\r\n");
	REFUSED(bearer, GET("/x") "authorization: Bearer x@P\r\n\r\n");
	REFUSED(bearer, GET("/x") "authorization: a b @P\r\n\r\n");
}

static void basic_request(struct buf *out, const char *user_pass)
{
	cleanup_buf struct buf plain = BUF_INIT(8192);

	expand(&plain, user_pass);
	buf_adds(out, GET("/x") "authorization: Basic ");
	add_base64(out, buf_str(&plain), plain.len);
	buf_adds(out, "\r\n\r\n");
}

TEST(place_basic)
{
	cleanup_buf struct buf request = BUF_INIT(16384);
	cleanup_buf struct buf want = BUF_INIT(16384);
	struct net_secret named = basic;

	named.field = "x-access-token";
	basic_request(&request, "me:@P");
	buf_adds(&want, "authorization: Basic ");
	add_base64(&want, "me:" VALUE, VALUE_LEN + 3);
	buf_adds(&want, "\r\n");
	{
		CARRY(basic, buf_str(&request));
		CHECK_INT(status, 0);
		HAS(buf_str(&want));
	}
	buf_reset(&want);
	add_base64(&want, "x-access-token:" VALUE, VALUE_LEN + 15);
	{
		CARRY(named, buf_str(&request));
		CHECK_INT(status, 0);
		HAS(buf_str(&want));
	}
	/* As the user name, or with something beside it, it is not where it belongs. */
	buf_reset(&request);
	basic_request(&request, "@P:x");
	REFUSED(basic, buf_str(&request));
	buf_reset(&request);
	basic_request(&request, "me:@Px");
	REFUSED(basic, buf_str(&request));
	buf_reset(&request);
	basic_request(&request, "@P:@P");
	REFUSED(basic, buf_str(&request));
	/* Basic credentials are no bearer token. */
	buf_reset(&request);
	basic_request(&request, "me:@P");
	REFUSED(bearer, buf_str(&request));
}

TEST(place_query)
{
	{
		CARRY(query, GET("/x?a=1&key=@P&b=2") "\r\n");
		CHECK_INT(status, 0);
		HAS("GET /x?a=1&key=sk-live%2B%2F%3D%25%260123456789abcdefXYZ&b=2 HTTP/1.1\r\n");
	}
	{
		CARRY(query, GET("/x?k%65y=@P") "\r\n");
		CHECK_INT(status, 0);
		HAS("=sk-live%2B%2F");
	}
	{ /* the same secret's text in a header is not its place */
		CARRY(query, GET("/x?key=@P") "x-api-key: @P\r\n\r\n");
		CHECK_INT(status, 403);
	}
	REFUSED(query, GET("/x?other=@P") "\r\n");
	REFUSED(query, GET("/x?key=@Px") "\r\n");
	REFUSED(query, GET("/x?@P=key") "\r\n");
	REFUSED(query, GET("/x?a&@P") "\r\n");
	REFUSED(bearer, GET("/x?key=@P") "\r\n");
}

/* In any other place, in any disguise. */
TEST(wrong_places)
{
	cleanup_buf struct buf p = BUF_INIT(4096);
	cleanup_buf struct buf b64 = BUF_INIT(4096);
	char request[4096], hex[4 * VALUE_LEN + 1];
	const char *ph;

	expand(&p, "@P");
	ph = buf_str(&p);
	REFUSED(header, GET("/x") "user-agent: @P\r\n\r\n");
	REFUSED(header, GET("/@P") "\r\n");
	REFUSED(header, GET("/x") "authorization: Bearer @P\r\n\r\n");
	REFUSED(header, GET("/x") "x-other: @P\r\n\r\n");
	REFUSED(header, GET("/x") "x-api-key: @O\r\n\r\n");
	REFUSED(header, GET("/x") "x-api-key: @P\r\ncookie: a=@P\r\n\r\n");
	REFUSED(header, GET("/x") "x-api-key: @P @O\r\n\r\n");
	/* percent-encoded, whole */
	for (size_t i = 0; i < VALUE_LEN; i++)
		snprintf(hex + 3 * i, 4, "%%%02x", (unsigned char)ph[i]);
	snprintf(request, sizeof(request), "%sx-q: %s\r\n\r\n", GET("/x"), hex);
	REFUSED(header, request);
	snprintf(request, sizeof(request), "GET /x?q=%s HTTP/1.1\r\nhost: " HOST "\r\n\r\n", hex);
	REFUSED(header, request);
	/* hexadecimal */
	for (size_t i = 0; i < VALUE_LEN; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)ph[i]);
	snprintf(request, sizeof(request), "%sx-q: %s\r\n\r\n", GET("/x"), hex);
	REFUSED(header, request);
	/* base64 at each alignment, also beside the placement */
	for (size_t shift = 0; shift < 3; shift++) {
		cleanup_buf struct buf shifted = BUF_INIT(4096);

		buf_add(&shifted, "xyz", shift);
		buf_adds(&shifted, ph);
		buf_adds(&shifted, "tail");
		buf_reset(&b64);
		add_base64(&b64, shifted.data, shifted.len);
		snprintf(request, sizeof(request), "%sx-q: %s\r\n\r\n", GET("/x"), buf_str(&b64));
		REFUSED(header, request);
		snprintf(request, sizeof(request), "%sx-api-key: @P %s\r\n\r\n", GET("/x"),
			buf_str(&b64));
		REFUSED(header, request);
	}
	{ /* the control: nothing of it anywhere */
		CARRY(header, GET("/x?q=1") "user-agent: croft\r\n\r\n");
		CHECK_INT(status, 0);
		LACKS(VALUE);
	}
}

TEST(require_it)
{
	struct net_secret s = header;

	s.require = true;
	REFUSED(s, GET("/x") "\r\n");
	REFUSED(s, GET("/x") "x-api-key: somebody-elses-key-0123\r\n\r\n");
	s.strip = true;
	REFUSED(s, GET("/x") "x-api-key: somebody-elses-key-0123\r\n\r\n");
	{
		CARRY(s, GET("/x") "x-api-key: @P\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: " VALUE "\r\n");
	}
}

TEST(strip_what_the_caller_brought)
{
	struct net_secret s = bearer;

	s.strip = true;
	{
		CARRY(s, GET("/x") "authorization: Bearer foreign\r\nx-api-key: "
				   "foreign\r\napi-key: foreign\r\n"
				   "x-goog-api-key: foreign\r\ncookie: foreign\r\naccept: "
				   "*/*\r\n\r\n");
		CHECK_INT(status, 0);
		LACKS("foreign");
		HAS("authorization: Bearer " VALUE "\r\n");
		HAS("accept: */*\r\n");
	}
	{ /* put in also when nothing was there */
		CARRY(s, GET("/x") "\r\n");
		CHECK_INT(status, 0);
		HAS("authorization: Bearer " VALUE "\r\n");
	}
	{ /* another bound secret at its place is not the caller's */
		CARRY(s, GET("/x") "x-other: @O\r\ncookie: foreign\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-other: " OTHER "\r\n");
		LACKS("foreign");
	}
	{ /* under whatever name */
		CARRY(s,
			GET("/x?private_token=foreign&q=1&Access%5fToken=foreign&a=1;api_key="
			    "foreign"
			    "&key=foreign0123456789abc&pageToken=next1&key=PROJ-1") "PRIVATE-TOKEN:"
										    " foreign\r\nX-"
										    "Auth-Token: "
										    "foreign\r\nJOB"
										    "-TOKEN: "
										    "foreign\r\nX-"
										    "Vault-Token: "
										    "foreign\r\nX_"
										    "Api_Key: "
										    "foreign\r\n"
										    "x-csrf-token: "
										    "kept\r\nidempo"
										    "tency-key: "
										    "kept2\r\n\r"
										    "\n");
		CHECK_INT(status, 0);
		LACKS("foreign");
		HAS("GET /x?q=1&pageToken=next1&key=PROJ-1 ");
		HAS("x-csrf-token: kept\r\n");
		HAS("idempotency-key: kept2\r\n");
	}
	s = header;
	s.strip = true;
	{
		CARRY(s, GET("/x") "x-api-key: @P foreign\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: " VALUE "\r\n");
		LACKS("foreign");
	}
	{
		CARRY(s, GET("/x") "x-api-key: foreign\r\nx-api-key: @P\r\n\r\n");
		CHECK_INT(status, 0);
		LACKS("foreign");
		HAS("x-api-key: " VALUE "\r\n");
	}
	s = query;
	s.strip = true;
	{
		CARRY(s, GET("/x?key=foreign&a=1") "cookie: foreign\r\n\r\n");
		CHECK_INT(status, 0);
		LACKS("foreign");
		HAS("GET /x?a=1&key=sk-live%2B%2F%3D%25%26");
	}
	s = basic;
	s.strip = true;
	s.field = "git";
	{
		cleanup_buf struct buf want = BUF_INIT(4096);

		add_base64(&want, "git:" VALUE, VALUE_LEN + 4);
		{
			CARRY(s, GET("/x") "authorization: Basic Zm9yZWlnbjpmb3JlaWdu\r\n\r\n");
			CHECK_INT(status, 0);
			HAS(buf_str(&want));
			LACKS("Zm9yZWlnbjpmb3JlaWdu");
		}
	}
	{ /* the control: without strip they stay */
		CARRY(bearer, GET("/x?private_token=foreign1") "private-token: foreign2\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("foreign1");
		HAS("foreign2");
	}
	{ /* the control: without strip it stays */
		CARRY(bearer, GET("/x") "authorization: Bearer foreign\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("authorization: Bearer foreign\r\n");
	}
}

TEST(bound_to_a_path_and_method)
{
	static const char *const paths[] = {"/v1/**"}, *const methods[] = {"POST"};
	struct net_secret s = header;

	s.paths = paths;
	s.paths_n = 1;
	s.methods = methods;
	s.methods_n = 1;
	REFUSED(s, GET("/v1/x") "x-api-key: @P\r\n\r\n");
	REFUSED(s, "POST /v2/x HTTP/1.1\r\nhost: " HOST
		   "\r\nx-api-key: @P\r\ncontent-length: 0\r\n\r\n");
	{
		CARRY(s, "POST /v1/x HTTP/1.1\r\nhost: " HOST
			 "\r\nx-api-key: @P\r\ncontent-length: 0\r\n\r\n");
		CHECK_INT(status, 0);
		HAS("x-api-key: " VALUE "\r\n");
	}
	s.strip = true; /* where it is not bound nothing is put in */
	{
		CARRY(s, GET("/v1/x") "\r\n");
		CHECK_INT(status, 0);
		LACKS(VALUE);
	}
}
