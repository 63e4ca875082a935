/* SPDX-License-Identifier: Apache-2.0 */
/* Trust inside a sandbox: see truststore.h. */
#include "session/net/truststore.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sha1.h>

#include "base/cleanup.h"
#include "session/net/authority.h"
#include "os/path.h"

static_assert(TRUSTSTORE_BUNDLE_MAX >= TRUSTSTORE_HOST_MAX + AUTHORITY_PEM_MAX + 1,
	"our certificate fits behind the largest bundle");

/* ------------------------------------------------------------------ places and variables */

const char *const truststore_bundle_paths[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Alpine, Arch, Gentoo */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
	"/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/cert.pem",
	"/etc/ssl/certs/ca-bundle.crt", /* NixOS; a link on Fedora */
	"/etc/ssl/ca-bundle.pem",       /* openSUSE */
	"/var/lib/ca-certificates/ca-bundle.pem",
	"/etc/ca-certificates/extracted/tls-ca-bundle.pem", /* Arch */
	"/etc/ssl/cert.pem", /* Alpine, and whatever follows the BSDs */
	"/etc/pki/tls/cacert.pem", NULL};

const char *const truststore_java_paths[] = {
	"/etc/ssl/certs/java/cacerts",              /* Debian, Ubuntu, Arch, Alpine */
	"/etc/pki/ca-trust/extracted/java/cacerts", /* Fedora, RHEL */
	"/etc/pki/java/cacerts", "/var/lib/ca-certificates/java-cacerts", /* openSUSE */
	NULL};

/*
 * Left out on purpose: SSL_CERT_DIR (a directory of hashed names adds to the file), Yarn's own
 * variables (an older Yarn stops at one it does not know; it is Node and takes
 * NODE_EXTRA_CA_CERTS).
 */
const struct truststore_var truststore_vars[] = {
	{"SSL_CERT_FILE",
		TRUSTSTORE_BUNDLE}, /* OpenSSL, Go, Python, Ruby, .NET, rustls-native-certs */
	{"CURL_CA_BUNDLE", TRUSTSTORE_BUNDLE},
	{"GIT_SSL_CAINFO", TRUSTSTORE_BUNDLE},
	{"REQUESTS_CA_BUNDLE", TRUSTSTORE_BUNDLE},
	{"PIP_CERT", TRUSTSTORE_BUNDLE},
	{"HTTPLIB2_CA_CERTS", TRUSTSTORE_BUNDLE},
	{"NODE_EXTRA_CA_CERTS", TRUSTSTORE_CA},
	{"NPM_CONFIG_CAFILE", TRUSTSTORE_BUNDLE},
	{"DENO_CERT", TRUSTSTORE_CA},
	{"CARGO_HTTP_CAINFO", TRUSTSTORE_BUNDLE},
	{"AWS_CA_BUNDLE", TRUSTSTORE_BUNDLE},
	{"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", TRUSTSTORE_BUNDLE},
	{"NIX_SSL_CERT_FILE", TRUSTSTORE_BUNDLE},
	{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", TRUSTSTORE_BUNDLE},
	{"HEX_CACERTS_PATH", TRUSTSTORE_BUNDLE},
	{"PERL_LWP_SSL_CA_FILE", TRUSTSTORE_BUNDLE},
	{"SYSTEM_CERTIFICATE_PATH", TRUSTSTORE_BUNDLE}, /* Haskell */
	{"JAVA_TOOL_OPTIONS", TRUSTSTORE_JAVA},
};
const size_t truststore_vars_n = ARRAY_SIZE(truststore_vars);

/* ------------------------------------------------------------------ PEM */

struct view {
	const char *p;
	size_t n;
};

struct pem {
	struct view text;
	size_t at;
	unsigned line; /* of what was read last, from 1 */
};

/* The next line without its end and without blanks before that; false at the end of the text. */
static bool pem_line(struct pem *m, struct view *ret)
{
	const char *start, *end;
	size_t n;

	if (m->at >= m->text.n)
		return false;
	start = m->text.p + m->at;
	n = m->text.n - m->at;
	end = memchr(start, '\n', n);
	if (end)
		n = (size_t)(end - start);
	m->at += n + (end != NULL);
	m->line++;
	while (n > 0 && (start[n - 1] == '\r' || start[n - 1] == ' ' || start[n - 1] == '\t'))
		n--;
	*ret = (struct view){start, n};
	return true;
}

/* Is the line "-----<verb> LABEL-----"? Then the label. */
static bool pem_marker(struct view line, const char *verb, struct view *ret_label)
{
	static const char dashes[] = "-----";
	size_t d = strlen(dashes), v = strlen(verb), around = 2 * d + v + 1;

	if (line.n < around || memcmp(line.p, dashes, d) != 0 || memcmp(line.p + d, verb, v) != 0 ||
		line.p[d + v] != ' ' || memcmp(line.p + line.n - d, dashes, d) != 0)
		return false;
	*ret_label = (struct view){line.p + d + v + 1, line.n - around};
	return true;
}

static bool view_eq(struct view a, struct view b)
{
	return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

/*
 * The next block: its label and everything between its two lines. 1, 0 when there is none, -errno.
 */
static int pem_block(struct pem *m, struct view *ret_label, struct view *ret_body, struct err *e)
{
	struct view line, label, other;
	unsigned first;
	size_t body;

	do
		if (!pem_line(m, &line))
			return 0;
	while (!pem_marker(line, "BEGIN", &label));
	first = m->line;
	body = m->at;
	for (;;) {
		size_t before = m->at;

		if (!pem_line(m, &line) || pem_marker(line, "BEGIN", &other))
			return err_invalid(
				e, "the block that begins in line %u does not end", first);
		if (!pem_marker(line, "END", &other))
			continue;
		if (!view_eq(label, other))
			return err_invalid(
				e, "the block that begins in line %u ends as another", first);
		*ret_label = label;
		*ret_body = (struct view){m->text.p + body, before - body};
		return 1;
	}
}

/* 0..63, or -1. A table, because a bundle has two hundred thousand of them and a command waits. */
static int base64_digit(unsigned char c)
{
	static const int8_t from_plus_to_z['z' - '+' + 1] = {62, -1, -1, -1, 63, 52, 53, 54, 55, 56,
		57, 58, 59, 60, 61, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
		11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, -1, -1, -1, -1, -1, -1,
		26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46,
		47, 48, 49, 50, 51};
	size_t i = (size_t)c - '+'; /* below '+' it is out of range, too */

	return i < sizeof(from_plus_to_z) ? from_plus_to_z[i] : -1;
}

/*
 * One encoding only: whole groups of four, '=' at the very end, no bits that nobody reads, no
 * characters besides. Two readers of a lenient form could see two certificates.
 */
struct base64 {
	uint32_t bits;
	unsigned digits; /* of the group that is being read */
	unsigned pads;
	uint8_t *out;
	size_t n, max;
};

static bool base64_add(struct base64 *b, unsigned char c)
{
	int v = base64_digit(c);

	if (b->pads > 0 && b->digits == 0)
		return false; /* the padded group was the last */
	if (c == '=') {
		if (b->digits < 2)
			return false;
		b->pads++;
		v = 0;
	} else if (v < 0 || b->pads > 0) {
		return false;
	}
	b->bits = b->bits << 6 | (uint32_t)v;
	if (++b->digits < 4)
		return true;
	if (b->max - b->n < 3 || (b->pads == 1 && (b->bits & 0xff)) ||
		(b->pads == 2 && (b->bits & 0xffff)))
		return false;
	b->out[b->n] = (uint8_t)(b->bits >> 16);
	b->out[b->n + 1] = (uint8_t)(b->bits >> 8);
	b->out[b->n + 2] = (uint8_t)b->bits;
	b->n += 3 - b->pads;
	b->digits = 0;
	return true;
}

/*
 * Whole groups without padding, which is nearly all of them, at once; how many characters were
 * taken.
 */
static size_t base64_groups(struct base64 *b, struct view line)
{
	size_t i = 0;

	if (b->digits > 0 || b->pads > 0)
		return 0;
	for (; line.n - i >= 4 && b->max - b->n >= 3; i += 4) {
		const unsigned char *c = (const unsigned char *)line.p + i;
		int v0 = base64_digit(c[0]), v1 = base64_digit(c[1]);
		int v2 = base64_digit(c[2]), v3 = base64_digit(c[3]);

		if ((v0 | v1 | v2 | v3) < 0)
			break;
		b->out[b->n] = (uint8_t)(v0 << 2 | v1 >> 4);
		b->out[b->n + 1] = (uint8_t)(v1 << 4 | v2 >> 2);
		b->out[b->n + 2] = (uint8_t)(v2 << 6 | v3);
		b->n += 3;
	}
	return i;
}

static bool base64_decode(struct view body, uint8_t *out, size_t max, size_t *ret_n)
{
	struct base64 b = {.out = out, .max = max};
	struct pem lines = {.text = body};
	struct view line;

	while (pem_line(&lines, &line)) {
		if (line.n == 0)
			return false;
		for (size_t i = base64_groups(&b, line); i < line.n; i++)
			if (!base64_add(&b, (unsigned char)line.p[i]))
				return false;
	}
	*ret_n = b.n;
	return b.digits == 0;
}

/* One DER SEQUENCE with nothing behind it, and a length written the only right way. */
static bool der_whole(const uint8_t *p, size_t n)
{
	size_t head, len = 0;

	if (n < 2 || p[0] != 0x30)
		return false;
	if (p[1] < 0x80)
		return p[1] == n - 2;
	head = p[1] & 0x7fu;
	if (head == 0 || head > 3 || n < 2 + head || p[2] == 0)
		return false;
	for (size_t i = 0; i < head; i++)
		len = len << 8 | p[2 + i];
	return len >= 0x80 && len == n - 2 - head;
}

/* ------------------------------------------------------------------ the bundle */

/* The whole of a regular file at the end of out. */
static int read_host(struct buf *out, int fd, struct err *e)
{
	char chunk[16384];
	struct stat st;
	off_t at = 0;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat");
	if (!S_ISREG(st.st_mode))
		return err_invalid(e, "it is not a regular file");
	for (;;) {
		ssize_t n = pread(fd, chunk, sizeof(chunk), at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "read");
		if (n == 0)
			return 0;
		at += n;
		if ((size_t)at > TRUSTSTORE_HOST_MAX)
			return err_invalid(e, "it has more than %zu bytes", TRUSTSTORE_HOST_MAX);
		buf_add(out, chunk, (size_t)n);
	}
}

/* Every block that begins ends. What is in them is for those who use them. */
static int check_blocks(const char *p, size_t n, struct err *e)
{
	struct pem m = {.text = {p, n}};
	struct view label, body;
	int r;

	while ((r = pem_block(&m, &label, &body, e)) > 0)
		;
	return r;
}

int truststore_bundle(struct buf *out, const struct gateway_ca *ca, int host_fd, struct err *e)
{
	size_t start = out->len;

	if (host_fd >= 0) {
		int r = read_host(out, host_fd, e);

		if (r >= 0 && !out->failed)
			r = check_blocks(buf_str(out) + start, out->len - start, e);
		if (r < 0)
			return err_wrap(e, "the host's certificate bundle");
		buf_addc(out, '\n');
	}
	authority_pem(ca, out);
	if (out->failed)
		return err_set(e, ENOMEM, "certificate bundle of the sandbox");
	return 0;
}

int truststore_check(int fd, const char *path, struct err *e)
{
	static const char end[] = "-----END CERTIFICATE-----";
	char tail[sizeof(end) + 8];
	struct stat st;
	off_t at;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at %s", path);
	at = st.st_size > (off_t)sizeof(tail) ? st.st_size - (off_t)sizeof(tail) : 0;
	n = pread(fd, tail, sizeof(tail), at);
	while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == '\r'))
		n--;
	if (st.st_size == 0 || (n >= (ssize_t)strlen(end) &&
				       memcmp(tail + n - strlen(end), end, strlen(end)) == 0))
		return 0;
	return err_refuse(e,
		"%s does not end with a certificate; the sandbox's own cannot be added to it",
		path);
}

/* ------------------------------------------------------------------ Java */

static void put_u16(struct buf *out, uint16_t v)
{
	uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};

	buf_add(out, b, sizeof(b));
}

static void put_u32(struct buf *out, uint32_t v)
{
	put_u16(out, (uint16_t)(v >> 16));
	put_u16(out, (uint16_t)v);
}

static void put_text(struct buf *out, const char *s)
{
	put_u16(out, (uint16_t)strlen(s));
	buf_adds(out, s);
}

/* A trusted certificate. Its date is 1970: the same bundle gives the same bytes. */
static void put_entry(struct buf *out, unsigned number, const uint8_t *der, size_t n)
{
	char alias[32];

	snprintf(alias, sizeof(alias), "croft-%04u", number);
	put_u32(out, 2);
	put_text(out, alias);
	put_u32(out, 0);
	put_u32(out, 0);
	put_text(out, "X.509");
	put_u32(out, (uint32_t)n);
	buf_add(out, der, n);
}

/*
 * SHA-1 over the password as UTF-16, a phrase of the format's authors and the store; no secret in
 * it.
 */
static void sum_begin(SHA1_CTX *ctx)
{
	static const char phrase[] = "Mighty Aphrodite", password[] = TRUSTSTORE_JAVA_PASSWORD;

	SHA1Init(ctx);
	for (const char *c = password; *c; c++) {
		uint8_t wide[2] = {0, (uint8_t)*c};

		SHA1Update(ctx, wide, sizeof(wide));
	}
	SHA1Update(ctx, (const uint8_t *)phrase, strlen(phrase));
}

static void put_integrity(struct buf *out, size_t start)
{
	uint8_t sum[SHA1_DIGEST_LENGTH];
	SHA1_CTX ctx;

	sum_begin(&ctx);
	SHA1Update(&ctx, (const uint8_t *)buf_str(out) + start, out->len - start);
	SHA1Final(sum, &ctx);
	buf_add(out, sum, sizeof(sum));
}

/* All certificates of the bundle as entries; how many, or -errno. */
static int put_entries(struct buf *out, struct view bundle, struct err *e)
{
	static const struct view wanted = {"CERTIFICATE", sizeof("CERTIFICATE") - 1};
	cleanup_free uint8_t *der = malloc(TRUSTSTORE_CERT_MAX);
	struct pem m = {.text = bundle};
	struct view label, body;
	unsigned count = 0;
	size_t n;
	int r;

	if (!der)
		return err_set(e, ENOMEM, "certificates for Java");
	while ((r = pem_block(&m, &label, &body, e)) > 0) {
		if (!view_eq(label, wanted))
			continue;
		if (!base64_decode(body, der, TRUSTSTORE_CERT_MAX, &n) || !der_whole(der, n))
			return err_invalid(
				e, "the certificate that ends in line %u is damaged", m.line);
		if (++count > TRUSTSTORE_CERTS_MAX)
			return err_invalid(
				e, "there are more than %d certificates", TRUSTSTORE_CERTS_MAX);
		put_entry(out, count, der, n);
	}
	if (r < 0)
		return r;
	return count ? (int)count : err_invalid(e, "there is no certificate");
}

int truststore_java(struct buf *out, const char *bundle, size_t n, struct err *e)
{
	cleanup_buf struct buf entries = BUF_INIT(TRUSTSTORE_JAVA_MAX);
	size_t start = out->len;
	int count = put_entries(&entries, (struct view){bundle, n}, e);

	if (count < 0)
		return err_wrap(e, "make Java's trust store from the certificate bundle");
	put_u32(out, 0xfeedfeed);
	put_u32(out, 2); /* version */
	put_u32(out, (uint32_t)count);
	buf_add(out, buf_str(&entries), entries.len);
	put_integrity(out, start);
	if (entries.failed || out->failed)
		return err_set(e, ENOMEM, "Java's trust store");
	return 0;
}

#define JKS_HEAD_B 12u /* magic, version, count */
#define JKS_SUM_FILE "java-sum"

static uint32_t get_u32(const char *p)
{
	const uint8_t *b = (const uint8_t *)p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/*
 * Where the sum over the host's own entries is kept from run to run: it takes longer than all the
 * rest.
 */
struct jks_sum {
	uint64_t dev, ino, size_b;
	int64_t mtime_s, mtime_ns;
	SHA1_CTX ctx;
};

static bool same_file(const struct jks_sum *a, const struct jks_sum *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size_b == b->size_b &&
	       a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns;
}

static int sum_host(struct jks_sum *s, const struct buf *head, int host_fd, struct err *e)
{
	uint64_t end = s->size_b - SHA1_DIGEST_LENGTH;
	uint8_t chunk[16384];

	sum_begin(&s->ctx);
	SHA1Update(&s->ctx, (const uint8_t *)head->data, head->len);
	for (uint64_t at = JKS_HEAD_B; at < end;) {
		ssize_t n = pread(host_fd, chunk, MIN_OF(sizeof(chunk), end - at), (off_t)at);

		if (n <= 0)
			return err_set(
				e, n < 0 ? errno : EIO, "read the host's key store for Java");
		SHA1Update(&s->ctx, chunk, (size_t)n);
		at += (uint64_t)n;
	}
	return 0;
}

/*
 * The integrity of the host's own file is not looked at: whoever can change it is trusted anyway.
 */
int truststore_java_parts(struct buf *head, struct buf *tail, const struct gateway_ca *ca,
	int host_fd, int cache_dir, struct err *e)
{
	struct jks_sum sum = {0}, kept = {0};
	cleanup_buf struct buf file = BUF_INIT(sizeof(kept) + 1);
	uint8_t digest[SHA1_DIGEST_LENGTH];
	char first[JKS_HEAD_B];
	struct stat st;

	if (fstat(host_fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		st.st_size < (off_t)(JKS_HEAD_B + SHA1_DIGEST_LENGTH) ||
		st.st_size > (off_t)TRUSTSTORE_HOST_MAX ||
		pread(host_fd, first, sizeof(first), 0) != (ssize_t)sizeof(first) ||
		get_u32(first) != 0xfeedfeed || get_u32(first + 4) != 2 ||
		get_u32(first + 8) >= TRUSTSTORE_CERTS_MAX)
		return 0;
	put_u32(head, 0xfeedfeed);
	put_u32(head, 2);
	put_u32(head, get_u32(first + 8) + 1);
	sum = (struct jks_sum){.dev = st.st_dev,
		.ino = st.st_ino,
		.size_b = (uint64_t)st.st_size,
		.mtime_s = st.st_mtim.tv_sec,
		.mtime_ns = st.st_mtim.tv_nsec};
	if (cache_dir >= 0 && file_read_at(cache_dir, JKS_SUM_FILE, &file) == 0 &&
		file.len == sizeof(kept))
		memcpy(&kept, file.data, sizeof(kept));
	if (same_file(&sum, &kept)) {
		sum = kept;
	} else {
		int r = sum_host(&sum, head, host_fd, e);

		if (r < 0)
			return r;
		if (cache_dir >= 0)
			file_replace_at(cache_dir, JKS_SUM_FILE, &sum, sizeof(sum), 0600);
	}
	put_entry(tail, 0, ca->der, ca->der_len);
	SHA1Update(&sum.ctx, (const uint8_t *)tail->data, tail->len);
	SHA1Final(digest, &sum.ctx);
	buf_add(tail, digest, sizeof(digest));
	return head->failed || tail->failed ? err_set(e, ENOMEM, "Java's trust store") : 1;
}

/* ------------------------------------------------------------------ variables */

#define VALUE_MAX ((size_t)256 << 10)

static bool is_set(const struct policy_var *set, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(set[i].name, name))
			return true;
	return false;
}

/* The entry NAME=..., or NULL */
static char **find(const struct strlist *env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, n) == 0 && env->v[i][n] == '=')
			return &env->v[i];
	return NULL;
}

static int put_var(struct strlist *env, const char *name, struct buf *entry, struct err *e)
{
	char **old = find(env, name);
	bool ok;

	if (old && !entry->failed) {
		char *text = buf_take(entry);

		ok = text != NULL;
		if (ok) {
			free(*old);
			*old = text;
		}
	} else {
		ok = !entry->failed && strlist_add(env, buf_str(entry));
	}
	return ok ? 0 : err_set(e, E2BIG, "environment variable %s", name);
}

/* A JVM splits its options at blanks, and the last of two equal ones counts. */
static int add_java(struct strlist *env, const char *name, const char *dir, bool set, struct err *e)
{
	static const char option[] = "-Djavax.net.ssl.trustStore";
	cleanup_buf struct buf b = BUF_INIT(VALUE_MAX);
	char **old = find(env, name);
	const char *quote = strpbrk(dir, " \t") ? "\"" : "";

	if (set && old && strstr(*old, option))
		return 0;
	if (old)
		buf_addf(&b, "%s ", *old);
	else
		buf_addf(&b, "%s=", name);
	buf_addf(&b, "%s%s=%s/%s%s", quote, option, dir, TRUSTSTORE_JAVA_FILE, quote);
	return put_var(env, name, &b, e);
}

static int add_file(
	struct strlist *env, const char *name, const char *dir, const char *file, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(VALUE_MAX);

	buf_addf(&b, "%s=%s/%s", name, dir, file);
	return put_var(env, name, &b, e);
}

int truststore_env(struct strlist *env, const char *dir, bool java, const struct policy_var *set,
	size_t set_n, struct err *e)
{
	static const char *const files[] = {
		[TRUSTSTORE_BUNDLE] = TRUSTSTORE_BUNDLE_FILE, [TRUSTSTORE_CA] = TRUSTSTORE_CA_FILE};

	if (dir[0] != '/' || strpbrk(dir, "\"'\n\r"))
		return err_invalid(e, "\"%.256s\" cannot hold the sandbox's trust store", dir);
	for (size_t i = 0; i < truststore_vars_n; i++) {
		const struct truststore_var *v = &truststore_vars[i];
		bool fixed = is_set(set, set_n, v->name);
		int r = 0;

		if (v->what == TRUSTSTORE_JAVA)
			r = java ? add_java(env, v->name, dir, fixed, e) : 0;
		else if (!fixed)
			r = add_file(env, v->name, dir, files[v->what], e);
		if (r < 0)
			return r;
	}
	/* One more slot than entries, for the NULL that envp ends with. */
	if (env->n == env->cap) {
		char **v = realloc(env->v, (env->cap + 1) * sizeof(*v));

		if (!v)
			return err_set(e, ENOMEM, "environment");
		env->v = v;
		env->cap++;
	}
	env->v[env->n] = NULL;
	return 0;
}
