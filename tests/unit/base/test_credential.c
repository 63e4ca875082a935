/* SPDX-License-Identifier: Apache-2.0 */
/* base/credential: which names are credentials, however they are spelled. */
#include "test.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/credential.h"

#define RANDOM "AIza0123456789abcdefXYZ"

static bool header(const char *name)
{
	return credential_name(CREDENTIAL_HEADER, name, strlen(name));
}

static bool query(const char *name, const char *value)
{
	return credential_is(CREDENTIAL_QUERY, name, strlen(name), value, strlen(value));
}

TEST(headers)
{
	static const char *const yes[] = {"authorization", "Proxy-Authorization", "cookie",
		"set-cookie", "PRIVATE-TOKEN", "private_token", "X-Auth-Token", "JOB-TOKEN",
		"X-Vault-Token", "X_Api_Key", "x-api-key", "api-key", "apikey", "X-ApiKey",
		"x-goog-api-key", "DD-API-KEY", "DD-Application-Key", "X-Auth-Key",
		"X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "x-functions-key",
		"X-Shopify-Access-Token", "X-Client-Secret", "X-Sonar-Passcode", "X-JFrog-Art-Api",
		"Deploy-Token", "token", "X.Auth.Token",
		"x-a-name-that-is-much-longer-than-any-buffer-that-it-might-be-folded-in-token"};
	static const char *const no[] = {"accept", "content-type", "host", "user-agent",
		"sec-websocket-key", "idempotency-key", "x-request-id", "x-csrf-token",
		"lock-token", "tokens-left", "x-ratelimit-remaining", "etag", "key", "x", "x-", "-",
		"x-amz-server-side-encryption-customer-key"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!header(yes[i]))
			test_fail(__FILE__, __LINE__, "%s is no credential", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (header(no[i]))
			test_fail(__FILE__, __LINE__, "%s is a credential", no[i]);
}

TEST(parameters)
{
	static const char *const yes[] = {"private_token", "PRIVATE_TOKEN", "private%5Ftoken",
		"%70rivate_token", "private_token[]", "access_token", "job_token", "api_key",
		"apikey", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token",
		"client_secret", "password", "key", "sig", "appid"};
	static const char *const no[] = {"q", "page", "pageToken", "next_token",
		"continuation-token", "%24skiptoken", "syncToken", "keyword", "monkey", "id",
		"sort"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!query(yes[i], RANDOM))
			test_fail(__FILE__, __LINE__, "%s is no credential", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (query(no[i], RANDOM))
			test_fail(__FILE__, __LINE__, "%s is a credential", no[i]);
	/* What is also a name for other things depends on the value. */
	CHECK(!query("key", "PROJ-17") && !query("key", "some-words-with-hyphens"));
	CHECK(!query("key", "12345678901234567890"));
	CHECK(query("private_token", "x"));
}
