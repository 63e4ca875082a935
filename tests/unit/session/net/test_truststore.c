/* SPDX-License-Identifier: Apache-2.0 */
/* core/truststore: bundles, Java's store as keytool reads it, and the variables. */
#include "test.h"

#include <errno.h>
#include <sys/mman.h>

#include "session/net/authority.h"
#include "session/net/truststore.h"
#include "tool.h"

/* Not certificates, but DER that is whole: SEQUENCE {} and SEQUENCE { NULL }. */
#define EMPTY "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
#define WITH_NULL "-----BEGIN CERTIFICATE-----\nMAIF\nAA==\n-----END CERTIFICATE-----\n"

static int file_with(const void *p, size_t n)
{
	int fd = memfd_create("bundle", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, p, n) != (ssize_t)n)
		close_fd(&fd);
	return fd;
}

static int bundle_of(struct buf *out, const char *host, struct err *e)
{
	cleanup_fd int fd = host ? file_with(host, strlen(host)) : -1;
	struct gateway_ca ca;

	if (authority_make(&ca, "a", e) < 0)
		return -EIO;
	return truststore_bundle(out, &ca, fd, e);
}

static int java_of(const char *bundle)
{
	cleanup_buf struct buf out = BUF_INIT(TRUSTSTORE_JAVA_MAX);
	struct err e = ERR_INIT;

	return truststore_java(&out, bundle, strlen(bundle), &e);
}

TEST(bundle_is_the_hosts_and_ours)
{
	cleanup_buf struct buf out = BUF_INIT(TRUSTSTORE_BUNDLE_MAX),
			       own = BUF_INIT(AUTHORITY_PEM_MAX);
	cleanup_fd int fd = file_with("# text\n" EMPTY "tail", strlen("# text\n" EMPTY "tail"));
	struct gateway_ca ca;
	struct err e = ERR_INIT;

	CHECK_INT(authority_make(&ca, "a", &e), 0);
	authority_pem(&ca, &own);
	CHECK_INT(truststore_bundle(&out, &ca, -1, &e), 0);
	CHECK_STR(buf_str(&out), buf_str(&own));
	buf_reset(&out);
	/* The descriptor stands at the end of what was written to it: that does not matter. */
	CHECK_INT(truststore_bundle(&out, &ca, fd, &e), 0);
	CHECK(str_starts(buf_str(&out), "# text\n" EMPTY "tail\n-----BEGIN CERTIFICATE-----\n"));
	CHECK(str_ends(buf_str(&out), buf_str(&own)));
	CHECK_INT(out.len, strlen("# text\n" EMPTY "tail\n") + own.len);
}

TEST(host_bundle_that_would_swallow_ours_is_refused)
{
	static const char *const bad[] = {
		"-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nMAA=\n",
		EMPTY "-----BEGIN CERTIFICATE-----",
		"-----BEGIN CERTIFICATE-----\nMAA=\n-----END X509 CRL-----\n",
		("-----BEGIN CERTIFICATE-----\nMAA=\n" EMPTY), "-----BEGIN X509 CRL-----\nMAA=\n",
		"-----BEGIN -----\n", /* OpenSSL takes that for a beginning, too */
	};
	static const char *const good[] = {"", "\n", "no certificate", EMPTY, EMPTY EMPTY,
		"-----END CERTIFICATE-----\n" EMPTY, EMPTY "-----BEGIN", "-----BEGIN-----\n"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cleanup_buf struct buf out = BUF_INIT(TRUSTSTORE_BUNDLE_MAX);
		struct err e = ERR_INIT;

		CHECK_INT(bundle_of(&out, bad[i], &e), -EINVAL);
		CHECK(str_starts(e.msg, "the host's certificate bundle: "));
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		cleanup_buf struct buf out = BUF_INIT(TRUSTSTORE_BUNDLE_MAX);
		struct err e = ERR_INIT;

		CHECK_INT(bundle_of(&out, good[i], &e), 0);
	}
}

TEST(host_bundle_has_bounds)
{
	cleanup_buf struct buf out = BUF_INIT(TRUSTSTORE_BUNDLE_MAX), small = BUF_INIT(100);
	cleanup_fd int fd = file_with("x", 1), null = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct gateway_ca ca;
	struct err e = ERR_INIT;
	int p[2];

	CHECK_INT(authority_make(&ca, "a", &e), 0);
	CHECK_INT(ftruncate(fd, (off_t)TRUSTSTORE_HOST_MAX), 0);
	CHECK_INT(truststore_bundle(&out, &ca, fd, &e), 0);
	buf_reset(&out);
	CHECK_INT(ftruncate(fd, (off_t)TRUSTSTORE_HOST_MAX + 1), 0);
	CHECK_INT(truststore_bundle(&out, &ca, fd, &e), -EINVAL);
	buf_reset(&out);
	CHECK_INT(truststore_bundle(&out, &ca, null, &e), -EINVAL); /* endless */
	CHECK_INT(pipe2(p, O_CLOEXEC), 0);
	CHECK_INT(truststore_bundle(&out, &ca, p[0], &e), -EINVAL); /* would wait */
	close(p[0]);
	close(p[1]);
	CHECK_INT(truststore_bundle(&small, &ca, -1, &e), -ENOMEM);
}

TEST(java_store_takes_only_strict_pem)
{
#define CERT(body) "-----BEGIN CERTIFICATE-----\n" body "-----END CERTIFICATE-----\n"
	static const char *const bad[] = {
		"",
		"text only\n",
		"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n",
		CERT(""),
		CERT("MAA\n"),
		CERT("MAA=="),
		CERT("MAB=\n"),
		CERT("MA==\n"),
		CERT("MAA=\n=\n"),
		CERT("MAA=MAA=\n"),
		CERT("MA A=\n"),
		CERT("MA\n\nA=\n"),
		CERT(" MAA=\n"),
		CERT("MA*=\n"),
		CERT("MA\x80=\n"),
		CERT("=AA=\n"),
		CERT("M===\n"),
		CERT("MA=A\n"),
		CERT("M-A=\n"),
		CERT("MAAA\n"),     /* a SEQUENCE and one octet more */
		CERT("MAE=\n"),     /* one octet short */
		CERT("MQA=\n"),     /* a SET */
		CERT("MIEA\n"),     /* a length in two octets that fits in one */
		CERT("MIAAAA==\n"), /* a length that is not definite */
		CERT("Proc-Type: 4,ENCRYPTED\n\nMAA=\n"),
		EMPTY "-----BEGIN CERTIFICATE-----\nMAA=\n",
	};
	static const char *const good[] = {EMPTY, WITH_NULL, EMPTY WITH_NULL,
		"text\n" EMPTY "more\n\n" EMPTY, CERT("M\nA\nA\n=\n"), CERT("MAA= \t\r\n"),
		"-----BEGIN CERTIFICATE-----\r\nMAA=\r\n-----END CERTIFICATE-----\r\n",
		"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
		EMPTY "-----BEGIN X509 CRL-----\nnot even base64!\n-----END X509 CRL-----\n"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (java_of(bad[i]) != -EINVAL)
			test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (java_of(good[i]) != 0)
			test_fail(__FILE__, __LINE__, "refused: %s", good[i]);
#undef CERT
}

TEST(java_store_is_written_octet_by_octet)
{
	static const char head[] = "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\2"
				   "\0\0\0\2\0\x0a"
				   "croft-0001\0\0\0\0\0\0\0\0\0\5X.509\0\0\0\2\x30\0"
				   "\0\0\0\2\0\x0a"
				   "croft-0002\0\0\0\0\0\0\0\0\0\5X.509\0\0\0\4\x30\2\5\0";
	/* SHA-1, by another program, over the password, the phrase and the octets above */
	static const char sum[] =
		"\x88\x28\xb2\xb0\x0a\xf3\xef\x9a\xaa\x85\x22\xe8\xee\x39\x42\x43\x64\x20\x1c\xca";
	cleanup_buf struct buf out = BUF_INIT(TRUSTSTORE_JAVA_MAX);
	struct err e = ERR_INIT;

	buf_adds(&out, "kept");
	CHECK_INT(truststore_java(&out, EMPTY WITH_NULL, strlen(EMPTY WITH_NULL), &e), 0);
	CHECK_INT(out.len, 4 + sizeof(head) - 1 + 20);
	CHECK(memcmp(out.data, "kept", 4) == 0);
	CHECK(memcmp(out.data + 4, head, sizeof(head) - 1) == 0);
	CHECK(memcmp(out.data + 4 + sizeof(head) - 1, sum, 20) == 0);
}

TEST(java_store_has_bounds)
{
	cleanup_buf struct buf many = BUF_INIT(TRUSTSTORE_BUNDLE_MAX), small = BUF_INIT(64);
	cleanup_buf struct buf big = BUF_INIT(TRUSTSTORE_BUNDLE_MAX);
	struct err e = ERR_INIT;

	for (int i = 0; i < TRUSTSTORE_CERTS_MAX; i++)
		buf_adds(&many, EMPTY);
	CHECK_INT(java_of(buf_str(&many)), 0);
	buf_adds(&many, EMPTY);
	CHECK_INT(java_of(buf_str(&many)), -EINVAL);
	CHECK_INT(truststore_java(&small, EMPTY, strlen(EMPTY), &e), -ENOMEM);
	/* One certificate above the largest: SEQUENCE of 0x010002 octets, all there. */
	buf_adds(&big, "-----BEGIN CERTIFICATE-----\nMIMBAAIA\n");
	for (int i = 0; i < 65536 / 48 + 1; i++)
		buf_adds(
			&big, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n");
	buf_adds(&big, "-----END CERTIFICATE-----\n");
	CHECK_INT(java_of(buf_str(&big)), -EINVAL);
}

TEST(keytool_reads_the_java_store)
{
	cleanup_tool_dir struct tool_dir d = {.fd = -1};
	cleanup_buf struct buf bundle = BUF_INIT(TRUSTSTORE_BUNDLE_MAX),
			       store = BUF_INIT(TRUSTSTORE_JAVA_MAX),
			       out = BUF_INIT(TOOL_OUTPUT_MAX);
	cleanup_fd int host = open("/etc/ssl/certs/ca-certificates.crt", O_RDONLY | O_CLOEXEC);
	struct gateway_ca ca;
	struct err e = ERR_INIT;

	CHECK(tool_dir_make(&d));
	CHECK_INT(authority_make(&ca, "javatest", &e), 0);
	CHECK_INT(truststore_bundle(&bundle, &ca, host, &e), 0);
	CHECK_INT(truststore_java(&store, buf_str(&bundle), bundle.len, &e), 0);
	CHECK(tool_write(&d, "cacerts", buf_str(&store), store.len));
	if (TOOL(&d, &out, "keytool", "-list", "-v", "-keystore", "cacerts", "-storepass",
		    TRUSTSTORE_JAVA_PASSWORD) == 127)
		SKIP("there is no keytool");
	CHECK(strstr(buf_str(&out), "Entry type: trustedCertEntry"));
	CHECK(strstr(buf_str(&out), "Owner: CN=croft sandbox javatest, O=croft\n"));
	CHECK_INT(TOOL(&d, &out, "keytool", "-list", "-keystore", "cacerts"), 0); /* no password */
	CHECK(strstr(buf_str(&out), "croft-0001, "));
	/* A changed octet, which the sum must show. The store's date of the first entry. */
	store.data[30] ^= 1;
	CHECK(tool_write(&d, "cacerts", buf_str(&store), store.len));
	CHECK_INT(TOOL(&d, &out, "keytool", "-list", "-keystore", "cacerts", "-storepass",
			  TRUSTSTORE_JAVA_PASSWORD),
		1);
}

TEST(a_list_that_was_cut_off_is_refused)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {{"", 0}, {"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----", 0},
		{"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\r\n\n", 0},
		{"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE----", -EPERM},
		{"-----BEGIN CERTIFICATE-----\nAA==\n", -EPERM}, {"x", -EPERM},
		{"-----END CERTIFICATE-----\n# and more\n", -EPERM}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_fd int fd = file_with(cases[i].text, strlen(cases[i].text));
		struct err e = ERR_INIT;

		CHECK_INT(truststore_check(fd, "/etc/list", &e), cases[i].want);
		CHECK(!cases[i].want || strstr(e.msg, "/etc/list"));
	}
}

/* The host's store in the middle of our two ends. */
static bool around(
	struct buf *out, const struct buf *head, const struct buf *host, const struct buf *tail)
{
	buf_reset(out);
	buf_add(out, head->data, head->len);
	buf_add(out, host->data + TRUSTSTORE_JAVA_CUT_HEAD,
		host->len - TRUSTSTORE_JAVA_CUT_HEAD - TRUSTSTORE_JAVA_CUT_TAIL);
	buf_add(out, tail->data, tail->len);
	return !out->failed;
}

TEST(parts_around_the_hosts_java_store)
{
	cleanup_tool_dir struct tool_dir d = {.fd = -1};
	cleanup_buf struct buf host = BUF_INIT(TRUSTSTORE_JAVA_MAX),
			       all = BUF_INIT(TRUSTSTORE_JAVA_MAX), head = BUF_INIT(64),
			       tail = BUF_INIT(4096), head2 = BUF_INIT(64), tail2 = BUF_INIT(4096),
			       out = BUF_INIT(TOOL_OUTPUT_MAX),
			       pem = BUF_INIT(TRUSTSTORE_BUNDLE_MAX);
	cleanup_fd int fd = -1,
		       other = file_with("PK not a key store at all, but long enough for one", 50);
	struct gateway_ca ca;
	struct err e = ERR_INIT;

	CHECK(tool_dir_make(&d));
	CHECK_INT(authority_make(&ca, "parts", &e), 0);
	CHECK_INT(bundle_of(&pem, NULL, &e), 0);
	CHECK_INT(truststore_java(&host, buf_str(&pem), pem.len, &e), 0);
	fd = file_with(host.data, host.len);
	CHECK_INT(truststore_java_parts(&head, &tail, &ca, other, d.fd, &e), 0);
	CHECK_INT(truststore_java_parts(&head, &tail, &ca, fd, d.fd, &e), 1);
	/* The second time by the sum that was kept, to the same bytes. */
	CHECK_INT(faccessat(d.fd, "java-sum", F_OK, 0), 0);
	CHECK_INT(truststore_java_parts(&head2, &tail2, &ca, fd, d.fd, &e), 1);
	CHECK(tail.len == tail2.len && memcmp(tail.data, tail2.data, tail.len) == 0);
	CHECK(head.len == head2.len && memcmp(head.data, head2.data, head.len) == 0);
	CHECK(around(&all, &head, &host, &tail));
	CHECK(tool_write(&d, "cacerts", all.data, all.len));
	if (TOOL(&d, &out, "keytool", "-version") == 127)
		SKIP("there is no keytool");
	CHECK_INT(TOOL(&d, &out, "keytool", "-list", "-keystore", "cacerts", "-storepass",
			  TRUSTSTORE_JAVA_PASSWORD),
		0);
	CHECK(strstr(buf_str(&out), "2 entries"));
	all.data[all.len - 1] ^= 1;
	CHECK(tool_write(&d, "cacerts", all.data, all.len));
	CHECK_INT(TOOL(&d, &out, "keytool", "-list", "-keystore", "cacerts", "-storepass",
			  TRUSTSTORE_JAVA_PASSWORD),
		1);
}

/* ------------------------------------------------------------------ variables */

static const char *value(const struct strlist *l, const char *name)
{
	const char *found = NULL;
	size_t n = strlen(name);

	for (size_t i = 0; i < l->n; i++) {
		if (strncmp(l->v[i], name, n) != 0 || l->v[i][n] != '=')
			continue;
		if (found)
			return "there are two";
		found = l->v[i] + n + 1;
	}
	return found;
}

TEST(variables_name_the_files)
{
	cleanup_strlist struct strlist env = STRLIST_INIT(64);
	struct err e = ERR_INIT;

	CHECK(strlist_add(&env, "PATH=/bin"));
	CHECK_INT(truststore_env(&env, TRUSTSTORE_DIR, true, NULL, 0, &e), 0);
	CHECK_INT(env.n, 1 + truststore_vars_n);
	CHECK(env.v[env.n] == NULL);
	CHECK_STR(value(&env, "PATH"), "/bin");
	CHECK_STR(value(&env, "SSL_CERT_FILE"), "/.croft/trust/bundle.pem");
	CHECK_STR(value(&env, "NODE_EXTRA_CA_CERTS"), "/.croft/trust/ca.pem");
	CHECK_STR(value(&env, "JAVA_TOOL_OPTIONS"),
		"-Djavax.net.ssl.trustStore=/.croft/trust/cacerts");
}

TEST(variables_of_the_policy_win_and_those_of_the_caller_do_not)
{
	static const struct policy_var set[] = {{"SSL_CERT_FILE", "/mine"}, {"PIP_CERT", ""}};
	cleanup_strlist struct strlist env = STRLIST_INIT(64);
	struct err e = ERR_INIT;

	CHECK(strlist_add(&env, "SSL_CERT_FILE=/mine") && strlist_add(&env, "PIP_CERT="));
	CHECK(strlist_add(&env, "CURL_CA_BUNDLE=/host") && strlist_add(&env, "SSL_CERT_FILE2=x"));
	CHECK_INT(truststore_env(&env, "/d", false, set, ARRAY_SIZE(set), &e), 0);
	CHECK_STR(value(&env, "SSL_CERT_FILE"), "/mine");
	CHECK_STR(value(&env, "PIP_CERT"), "");
	CHECK_STR(value(&env, "CURL_CA_BUNDLE"), "/d/bundle.pem");
	CHECK_STR(value(&env, "SSL_CERT_FILE2"), "x");
	CHECK(!value(&env, "JAVA_TOOL_OPTIONS"));
	CHECK(env.v[env.n] == NULL);
}

TEST(java_options_are_added_to)
{
	static const struct policy_var memory = {"JAVA_TOOL_OPTIONS", "-Xmx1g"},
				       own = {"JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/t"};
	struct err e = ERR_INIT;

	for (int i = 0; i < 4; i++) {
		cleanup_strlist struct strlist env = STRLIST_INIT(64);
		const struct policy_var *v = i < 2 ? &memory : &own;
		bool set = i % 2;
		cleanup_buf struct buf b = BUF_INIT(256);

		buf_addf(&b, "%s=%s", v->name, v->value);
		CHECK(strlist_add(&env, buf_str(&b)));
		CHECK_INT(truststore_env(&env, "/a b", true, v, set, &e), 0);
		if (i == 3) { /* the policy names a store of its own */
			CHECK_STR(value(&env, v->name), v->value);
			continue;
		}
		buf_reset(&b);
		buf_addf(&b, "%s \"-Djavax.net.ssl.trustStore=/a b/cacerts\"", v->value);
		CHECK_STR(value(&env, v->name), buf_str(&b));
	}
}

TEST(variables_that_cannot_be_written_are_an_error)
{
	cleanup_strlist struct strlist env = STRLIST_INIT(64), full = STRLIST_INIT(3);
	struct err e = ERR_INIT;

	CHECK_INT(truststore_env(&env, "relative", false, NULL, 0, &e), -EINVAL);
	CHECK_INT(truststore_env(&env, "", false, NULL, 0, &e), -EINVAL);
	CHECK_INT(truststore_env(&env, "/a\"b", false, NULL, 0, &e), -EINVAL);
	CHECK_INT(truststore_env(&env, "/a\nb", false, NULL, 0, &e), -EINVAL);
	CHECK_INT(env.n, 0);
	CHECK_INT(truststore_env(&full, "/d", false, NULL, 0, &e), -E2BIG);
}

TEST(places_are_absolute_and_named_once)
{
	const char *const *const lists[] = {truststore_bundle_paths, truststore_java_paths};
	cleanup_strlist struct strlist seen = STRLIST_INIT(64);

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (const char *const *p = lists[i]; *p; p++) {
			CHECK((*p)[0] == '/' && !strlist_has(&seen, *p));
			CHECK(strlist_add(&seen, *p));
		}
	for (size_t i = 0; i < truststore_vars_n; i++) {
		CHECK(!strlist_has(&seen, truststore_vars[i].name));
		CHECK(strlist_add(&seen, truststore_vars[i].name));
		CHECK(truststore_vars[i].what < TRUSTSTORE_WHAT_NUM);
	}
}
