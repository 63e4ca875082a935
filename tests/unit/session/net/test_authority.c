/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/authority: what it makes is what OpenSSL takes for an authority, and its key leaves no
 * copies.
 */
#include "test.h"

#include <errno.h>

#include "session/net/authority.h"
#include "tool.h"

#define NO_OPENSSL "there is no openssl command"

static bool openssl_there(const struct tool_dir *d, struct buf *out)
{
	return TOOL(d, out, "openssl", "version") == 0;
}

static bool write_ca(const struct tool_dir *d, const char *name, const struct gateway_ca *ca)
{
	cleanup_buf struct buf b = BUF_INIT(AUTHORITY_PEM_MAX);

	authority_pem(ca, &b);
	return !b.failed && tool_write(d, name, buf_str(&b), b.len);
}

/* The key as an ECPrivateKey without its public half, which a reader computes. */
static bool write_key(const struct tool_dir *d, const char *name, const struct gateway_ca *ca)
{
	static const uint8_t head[] = {0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20};
	static const uint8_t curve[] = {
		0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
	uint8_t der[sizeof(head) + sizeof(ca->key) + sizeof(curve)];

	memcpy(der, head, sizeof(head));
	memcpy(der + sizeof(head), ca->key, sizeof(ca->key));
	memcpy(der + sizeof(head) + sizeof(ca->key), curve, sizeof(curve));
	return tool_write(d, name, der, sizeof(der));
}

/*
 * A key, a request and a leaf for "example.test" signed by `ca`/`key`; the last command's status.
 */
static int sign_leaf(const struct tool_dir *d, struct buf *out, const char *ca, const char *key)
{
	static const char ext[] = "subjectAltName=DNS:example.test\n"
				  "extendedKeyUsage=serverAuth\n"
				  "authorityKeyIdentifier=keyid:always\n";

	if (!tool_write(d, "leaf.ext", ext, strlen(ext)) ||
		TOOL(d, out, "openssl", "ec", "-inform", "DER", "-in", key, "-out", "ca.key") !=
			0 ||
		TOOL(d, out, "openssl", "req", "-new", "-newkey", "ec", "-pkeyopt",
			"ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "leaf.key", "-out",
			"leaf.csr", "-subj", "/CN=example.test") != 0)
		return -1;
	return TOOL(d, out, "openssl", "x509", "-req", "-in", "leaf.csr", "-CA", ca, "-CAkey",
		"ca.key", "-set_serial", "7", "-days", "2", "-sha256", "-extfile", "leaf.ext",
		"-out", "leaf.pem");
}

TEST(certificate_says_what_an_authority_says)
{
	cleanup_tool_dir struct tool_dir d = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(TOOL_OUTPUT_MAX);
	struct gateway_ca ca;
	struct err e = ERR_INIT;

	CHECK(tool_dir_make(&d));
	CHECK_INT(authority_make(&ca, "0123456789abcdef", &e), 0);
	if (!openssl_there(&d, &out))
		SKIP(NO_OPENSSL);
	CHECK(write_ca(&d, "ca.pem", &ca));
	CHECK_INT(TOOL(&d, &out, "openssl", "x509", "-in", "ca.pem", "-noout", "-text"), 0);
	CHECK(strstr(buf_str(&out), "Version: 3 (0x2)"));
	CHECK(strstr(buf_str(&out), "Signature Algorithm: ecdsa-with-SHA256"));
	CHECK(strstr(buf_str(&out), "Issuer: O = croft, CN = croft sandbox 0123456789abcdef\n"));
	CHECK(strstr(buf_str(&out), "Subject: O = croft, CN = croft sandbox 0123456789abcdef\n"));
	CHECK(strstr(buf_str(&out), "NIST CURVE: P-256"));
	CHECK(strstr(buf_str(&out), "X509v3 Basic Constraints: critical\n"));
	CHECK(strstr(buf_str(&out), "CA:TRUE, pathlen:0\n"));
	CHECK(strstr(buf_str(&out), "X509v3 Key Usage: critical\n"));
	CHECK(strstr(buf_str(&out), "Certificate Sign, CRL Sign\n"));
	CHECK(strstr(buf_str(&out), "X509v3 Subject Key Identifier:"));
	CHECK_INT(TOOL(&d, &out, "openssl", "x509", "-in", "ca.pem", "-noout", "-checkend",
			  "2505600"),
		0); /* 29 days on it is valid */
	CHECK_INT(TOOL(&d, &out, "openssl", "x509", "-in", "ca.pem", "-noout", "-checkend",
			  "2678400"),
		1); /* 31 days on it is not */
}

TEST(own_signature_verifies_and_a_changed_one_does_not)
{
	cleanup_tool_dir struct tool_dir d = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(TOOL_OUTPUT_MAX);
	struct gateway_ca ca;
	struct err e = ERR_INIT;

	CHECK(tool_dir_make(&d));
	if (!openssl_there(&d, &out))
		SKIP(NO_OPENSSL);
	/* Several: r and s are shorter, or have a leading zero, by chance. */
	for (int i = 0; i < 8; i++) {
		CHECK_INT(authority_make(&ca, "a", &e), 0);
		CHECK(write_ca(&d, "ca.pem", &ca));
		CHECK_INT(TOOL(&d, &out, "openssl", "verify", "-x509_strict", "-check_ss_sig",
				  "-CAfile", "ca.pem", "ca.pem"),
			0);
	}
	ca.der[ca.der_len - 1] ^= 1;
	CHECK(write_ca(&d, "ca.pem", &ca));
	CHECK(TOOL(&d, &out, "openssl", "verify", "-x509_strict", "-check_ss_sig", "-CAfile",
		      "ca.pem", "ca.pem") != 0);
}

TEST(signed_leaf_verifies_under_its_authority_only)
{
	cleanup_tool_dir struct tool_dir d = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(TOOL_OUTPUT_MAX);
	struct gateway_ca ca, other;
	struct err e = ERR_INIT;

	CHECK(tool_dir_make(&d));
	if (!openssl_there(&d, &out))
		SKIP(NO_OPENSSL);
	CHECK_INT(authority_make(&ca, "same", &e), 0);
	CHECK_INT(authority_make(&other, "same", &e), 0);
	CHECK(write_ca(&d, "ca.pem", &ca) && write_key(&d, "ca.der", &ca));
	CHECK(write_ca(&d, "other.pem", &other) && write_key(&d, "other.der", &other));
	CHECK_INT(sign_leaf(&d, &out, "ca.pem", "ca.der"), 0);
	CHECK_INT(TOOL(&d, &out, "openssl", "verify", "-x509_strict", "-purpose", "sslserver",
			  "-verify_hostname", "example.test", "-CAfile", "ca.pem", "leaf.pem"),
		0);
	CHECK(TOOL(&d, &out, "openssl", "verify", "-CAfile", "other.pem", "leaf.pem") != 0);
	/* The key that belongs to another authority cannot sign for this one. */
	CHECK(sign_leaf(&d, &out, "ca.pem", "other.der") > 0);
}

/* Read until the server says that it listens. */
static bool wait_accept(int fd)
{
	cleanup_buf struct buf said = BUF_INIT(4096);
	char c;

	while (!strstr(buf_str(&said), "ACCEPT")) {
		if (said.failed || read(fd, &c, 1) != 1)
			return false;
		buf_addc(&said, c);
	}
	return true;
}

/* What s_client thinks of a server with leaf.pem: its exit status. */
static int handshake(const struct tool_dir *d, struct buf *out, const char *ca)
{
	static const char *const serve[] = {"openssl", "s_server", "-unix", "sock", "-unlink",
		"-cert", "leaf.pem", "-key", "leaf.key", "-naccept", "1", NULL};
	cleanup_fd int fd = -1, hold = -1, in = -1;
	pid_t server;
	int p[2], r = -1;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	in = p[0];
	hold = p[1]; /* the server leaves when its stdin ends */
	server = tool_start(d, serve, in, &fd);
	if (server < 0)
		return -1;
	if (wait_accept(fd))
		r = TOOL(d, out, "openssl", "s_client", "-unix", "sock", "-CAfile", ca,
			"-verify_return_error", "-verify_hostname", "example.test", "-servername",
			"example.test", "-brief");
	kill(server, SIGTERM);
	tool_wait(server);
	return r;
}

TEST(tls_handshake_with_a_signed_leaf)
{
	cleanup_tool_dir struct tool_dir d = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(TOOL_OUTPUT_MAX);
	struct gateway_ca ca, other;
	struct err e = ERR_INIT;

	CHECK(tool_dir_make(&d));
	if (!openssl_there(&d, &out))
		SKIP(NO_OPENSSL);
	CHECK_INT(authority_make(&ca, "a", &e), 0);
	CHECK_INT(authority_make(&other, "b", &e), 0);
	CHECK(write_ca(&d, "ca.pem", &ca) && write_key(&d, "ca.der", &ca));
	CHECK(write_ca(&d, "other.pem", &other));
	CHECK_INT(sign_leaf(&d, &out, "ca.pem", "ca.der"), 0);
	CHECK_INT(handshake(&d, &out, "ca.pem"), 0);
	CHECK(strstr(buf_str(&out), "Verification: OK"));
	CHECK(handshake(&d, &out, "other.pem") > 0);
	CHECK(!strstr(buf_str(&out), "Verification: OK"));
}

TEST(years_from_2050_have_four_digits)
{
	static const struct {
		int64_t now_s;
		const char *before, *after; /* tag, length, text */
	} cases[] = {
		{2523139200,
			"\x17\x0d"
			"491214000000Z",
			"\x18\x0f"
			"20500114000000Z"}, /* 2049-12-15 */
		{951868800,
			"\x17\x0d"
			"000229000000Z",
			"\x17\x0d"
			"000331000000Z"}, /* 2000-03-01 */
		{253399622400,
			"\x18\x0f"
			"99991130000000Z",
			"\x18\x0f"
			"99991231000000Z"},
	};
	struct gateway_ca ca;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_INT(authority_make_at(&ca, "a", cases[i].now_s, &e), 0);
		CHECK(memmem(ca.der, ca.der_len, cases[i].before, strlen(cases[i].before)));
		CHECK(memmem(ca.der, ca.der_len, cases[i].after, strlen(cases[i].after)));
	}
}

TEST(what_cannot_be_written_is_refused)
{
	static const char *const ids[] = {"", "a b", "a\n", "../x/", "\xc3\xa9", "a\"", "a,CN=b",
		"012345678901234567890123456789012345678901234567890"};
	struct gateway_ca ca = {.der_len = 77};
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		CHECK_INT(authority_make(&ca, ids[i], &e), -EINVAL);
	CHECK_INT(authority_make_at(&ca, "a", 0, &e), -ERANGE);
	CHECK_INT(authority_make_at(&ca, "a", -1, &e), -ERANGE);
	CHECK_INT(authority_make_at(&ca, "a", 253402300799, &e), -ERANGE);
	CHECK_INT(authority_make_at(&ca, "a", INT64_MAX, &e), -ERANGE);
	CHECK_INT(ca.der_len, 77); /* untouched */
	/* The longest that is allowed. */
	CHECK_INT(authority_make(&ca, "01234567890123456789012345678901234567890123456789", &e), 0);
	CHECK(ca.der_len > 400 && ca.der_len < 600);
}

TEST(no_two_authorities_are_alike)
{
	struct gateway_ca a, b;
	struct err e = ERR_INIT;

	CHECK_INT(authority_make(&a, "a", &e), 0);
	CHECK_INT(authority_make(&b, "a", &e), 0);
	CHECK(memcmp(a.key, b.key, sizeof(a.key)) != 0);
	/* SEQUENCE(4) SEQUENCE(4) version(5) INTEGER(2): the serial's 16 octets, positive */
	CHECK_INT(a.der[13], 0x02);
	CHECK_INT(a.der[14], 16);
	CHECK((a.der[15] & 0xc0) == 0x40);
	CHECK(memcmp(a.der + 15, b.der + 15, 16) != 0);
}

/* ------------------------------------------------------------------ the key's copies */

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED

#define MASK 0x5a

/*
 * How often 32 octets (masked, so that the needle is not found) are in a piece of memory, in either
 * order.
 */
static size_t count_in(const uint8_t *p, size_t n, const uint8_t masked[32])
{
	size_t found = 0;

	for (size_t i = 0; n >= 32 && i <= n - 32; i++) {
		size_t fore = 0, back = 0;

		while (fore < 32 && (p[i + fore] ^ MASK) == masked[fore])
			fore++;
		while (back < 32 && (p[i + back] ^ MASK) == masked[31 - back])
			back++;
		found += (fore == 32) + (back == 32);
	}
	return found;
}

/* In everything that this process can write: heap, stack, data, mappings. */
static size_t count_copies(const uint8_t masked[32])
{
	cleanup_file FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	size_t found = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[0] == 'r' &&
			mode[1] == 'w' && to - from <= (64ul << 20))
			found += count_in((const uint8_t *)from, to - from, masked);
	}
	return found;
}

#endif

TEST(key_leaves_no_copies)
{
#ifdef SANITIZED
	SKIP("a sanitizer keeps memory of its own");
#else
	struct gateway_ca ca;
	uint8_t masked[sizeof(ca.key)];
	struct err e = ERR_INIT;

	CHECK_INT(authority_make(&ca, "a", &e), 0);
	for (size_t i = 0; i < sizeof(masked); i++)
		masked[i] = ca.key[i] ^ MASK;
	CHECK_INT(count_copies(masked), 1); /* the search finds what is there: ca.key */
	authority_wipe(&ca);
	CHECK_INT(count_copies(masked), 0);
	CHECK(ca.der_len > 400); /* the certificate stays */
#endif
}
