/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the sandbox's authority: a P-256 key and a self-signed certificate.
 *
 * Purpose: see authority.h. The curve is libhogweed's; the certificate is written here, because its
 *          shape is fixed and a library for X.509 would be larger than the launcher.
 * Trust:   no input but the run's id, the clock and the kernel's random numbers. There is no
 *          fallback for any of them.
 * Secrecy: the sandbox's first process is a fork of the one that runs this, so what stays behind on
 *          the heap or the stack would be inside the sandbox. All numbers live in one mapping that
 *          is unmapped at the end, the part of the stack that was used is overwritten, and the only
 *          copy left is ret->key, which the caller wipes once the gateway has it.
 * Failure: nothing is returned but a whole authority.
 */
#include "session/net/authority.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include <gmp.h>
#include <nettle/ecc-curve.h>
#include <nettle/ecc.h>
#include <nettle/ecdsa.h>
#include <sha2.h>

#include "base/cleanup.h"

#define SCALAR_LEN 32
#define SERIAL_LEN 16
#define KEY_ID_LEN 20
#define POINT_LEN (1 + 2 * SCALAR_LEN)
#define LIMBS_MAX ((SCALAR_LEN * 8 + GMP_NUMB_BITS - 1) / GMP_NUMB_BITS)
#define DRAWS_MAX 8                /* one draw is out of range once in 2^32 */
#define ARENA_B ((size_t)64 << 10) /* sixty times what is needed; untouched pages cost nothing */
#define STACK_USED_B 16384         /* more than signing was seen to use */
#define DAY_S 86400
#define YEAR_9999_S 253402300799ll

static_assert(GATEWAY_CA_DER_MAX <= 0xffff, "der_close() writes two octets of length at most");

/* ------------------------------------------------------------------ memory for numbers */

/* GMP's allocator takes no context, hence a variable of the file. */
static struct {
	char *base;
	size_t used;
} arena;

/*
 * GMP cannot be told that there is no memory. What one authority needs is a fixed amount, a small
 * part of the arena; more than all of it would mean that the library does something else than this
 * file knows.
 */
static void *arena_alloc(size_t n)
{
	void *p;

	n = (n + 15) & ~(size_t)15;
	if (n > ARENA_B - arena.used)
		abort();
	p = arena.base + arena.used;
	arena.used += n;
	return p;
}

static void *arena_realloc(void *old, size_t old_n, size_t n)
{
	void *p;

	if (n <= old_n)
		return old;
	p = arena_alloc(n);
	memcpy(p, old, old_n);
	return p;
}

static void arena_free(void *p, size_t n)
{
}

static void *limbs_alloc(mp_size_t n)
{
	return arena_alloc((size_t)n * sizeof(mp_limb_t));
}

/* Overwrite what returned calls left below this frame. */
static __attribute__((noinline)) void stack_wipe(void)
{
	char room[STACK_USED_B];

	explicit_bzero(room, sizeof(room));
}

/*
 * ------------------------------------------------------------------ DER, from the end to the front
 */

/* Written backwards: a header's length is known when its content is there. */
struct der {
	size_t at; /* b[at..] is written */
	bool failed;
	uint8_t b[GATEWAY_CA_DER_MAX];
};

enum der_tag {
	DER_INTEGER = 0x02,
	DER_BIT_STRING = 0x03,
	DER_UTF8 = 0x0c,
	DER_UTC_TIME = 0x17,
	DER_GENERAL_TIME = 0x18,
	DER_SEQUENCE = 0x30,
	DER_SET = 0x31,
	DER_EXPLICIT_3 = 0xa3,
};

static void der_start(struct der *d)
{
	d->at = sizeof(d->b);
	d->failed = false;
}

static void der_put(struct der *d, const void *p, size_t n)
{
	if (d->failed || n > d->at) {
		d->failed = true;
		return;
	}
	d->at -= n;
	memcpy(d->b + d->at, p, n);
}

/* Everything written since `end` becomes the content of `tag`. */
static void der_close(struct der *d, enum der_tag tag, size_t end)
{
	size_t n = end - d->at;
	uint8_t head[4] = {(uint8_t)tag};
	size_t len = 2;

	if (n < 0x80) {
		head[1] = (uint8_t)n;
	} else if (n < 0x100) {
		head[1] = 0x81;
		head[2] = (uint8_t)n;
		len = 3;
	} else {
		head[1] = 0x82;
		head[2] = (uint8_t)(n >> 8);
		head[3] = (uint8_t)n;
		len = 4;
	}
	der_put(d, head, len);
}

static void der_value(struct der *d, enum der_tag tag, const void *p, size_t n)
{
	size_t end = d->at;

	der_put(d, p, n);
	der_close(d, tag, end);
}

/* An unsigned number, big-endian: no leading zeros, but one where the sign would be. */
static void der_unsigned(struct der *d, const uint8_t *p, size_t n)
{
	size_t end = d->at;

	while (n > 1 && *p == 0) {
		p++;
		n--;
	}
	der_put(d, p, n);
	if (*p & 0x80)
		der_put(d, "", 1);
	der_close(d, DER_INTEGER, end);
}

/* ------------------------------------------------------------------ key and signature */

struct keypair {
	const struct ecc_curve *curve;
	struct ecc_scalar secret;
	uint8_t point[POINT_LEN]; /* uncompressed */
};

static int fill_random(void *p, size_t n, struct err *e)
{
	ssize_t got;

	do
		got = getrandom(p, n, 0);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)n)
		return err_set(e, got < 0 ? errno : EIO, "random numbers from the kernel");
	return 0;
}

/* A number in [1, order). */
static int draw_scalar(struct ecc_scalar *ret, const struct ecc_curve *curve, struct err *e)
{
	uint8_t raw[SCALAR_LEN];
	int good = 0;
	mpz_t z;

	ecc_scalar_init(ret, curve);
	for (int i = 0; i < DRAWS_MAX && !good; i++) {
		if (fill_random(raw, sizeof(raw), e) < 0)
			return -e->errnum;
		mpz_init(z);
		mpz_import(z, sizeof(raw), 1, 1, 1, 0, raw);
		good = ecc_scalar_set(ret, z);
	}
	explicit_bzero(raw, sizeof(raw));
	return good ? 0 : err_set(e, EIO, "random numbers from the kernel are out of range");
}

/* Big-endian, with leading zeros. */
static void number_write(uint8_t ret[SCALAR_LEN], const mpz_t z)
{
	size_t n = (mpz_sizeinbase(z, 2) + 7) / 8;

	memset(ret, 0, SCALAR_LEN);
	if (n <= SCALAR_LEN)
		mpz_export(ret + SCALAR_LEN - n, NULL, 1, 1, 1, 0, z);
}

static int keypair_make(struct keypair *ret, uint8_t ret_key[SCALAR_LEN], struct err *e)
{
	struct ecc_point public;
	mpz_t x, y, z;

	ret->curve = nettle_get_secp_256r1();
	if (draw_scalar(&ret->secret, ret->curve, e) < 0)
		return -e->errnum;
	ecc_point_init(&public, ret->curve);
	ecc_point_mul_g(&public, &ret->secret);
	mpz_init(x);
	mpz_init(y);
	mpz_init(z);
	ecc_point_get(&public, x, y);
	ret->point[0] = 4;
	number_write(ret->point + 1, x);
	number_write(ret->point + 1 + SCALAR_LEN, y);
	ecc_scalar_get(&ret->secret, z);
	number_write(ret_key, z);
	return 0;
}

static void sha256(uint8_t ret[SHA256_DIGEST_LENGTH], const void *p, size_t n)
{
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	SHA256Update(&ctx, p, n);
	SHA256Final(ret, &ctx);
}

/* ECDSA with SHA-256: r and s, big-endian. */
static int sign(const struct keypair *k, const void *p, size_t n, uint8_t ret_r[SCALAR_LEN],
	uint8_t ret_s[SCALAR_LEN], struct err *e)
{
	mp_size_t size = ecc_size(k->curve);
	uint8_t digest[SHA256_DIGEST_LENGTH];
	mp_limb_t r[LIMBS_MAX], s[LIMBS_MAX];
	void *scratch = limbs_alloc(ecc_ecdsa_sign_itch(k->curve));
	struct ecc_scalar nonce;
	mpz_t rz, sz;

	if (size != LIMBS_MAX)
		return err_set(e, EINVAL, "P-256 numbers of %ld limbs", (long)size);
	sha256(digest, p, n);
	for (int i = 0; i < DRAWS_MAX; i++) {
		if (draw_scalar(&nonce, k->curve, e) < 0)
			return -e->errnum;
		ecc_ecdsa_sign(
			k->curve, k->secret.p, nonce.p, sizeof(digest), digest, r, s, scratch);
		mpz_roinit_n(rz, r, size);
		mpz_roinit_n(sz, s, size);
		if (mpz_sgn(rz) == 0 || mpz_sgn(sz) == 0)
			continue; /* so the standard says; nobody has seen it */
		number_write(ret_r, rz);
		number_write(ret_s, sz);
		return 0;
	}
	return err_set(e, EIO, "no signature could be made");
}

/* ------------------------------------------------------------------ certificate */

static const uint8_t ecdsa_with_sha256[] = {/* SEQUENCE { 1.2.840.10045.4.3.2 } */
	0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02};
static const uint8_t ec_p256_key[] = {/* SEQUENCE { id-ecPublicKey, prime256v1 } */
	0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
	0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
static const uint8_t version_3[] = {/* [0] { INTEGER 2 } */ 0xa0, 0x03, 0x02, 0x01, 0x02};
static const uint8_t basic_constraints[] = {/* critical, CA:TRUE, pathlen 0 */
	0x30, 0x12, 0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x08, 0x30, 0x06, 0x01,
	0x01, 0xff, 0x02, 0x01, 0x00};
static const uint8_t key_usage[] = {/* critical, keyCertSign and cRLSign */
	0x30, 0x0e, 0x06, 0x03, 0x55, 0x1d, 0x0f, 0x01, 0x01, 0xff, 0x04, 0x04, 0x03, 0x02, 0x01,
	0x06};
static const uint8_t key_id_head[] = {/* subjectKeyIdentifier, its 20 octets follow */
	0x30, 0x1d, 0x06, 0x03, 0x55, 0x1d, 0x0e, 0x04, 0x16, 0x04, 0x14};
static const uint8_t oid_organization[] = {0x06, 0x03, 0x55, 0x04, 0x0a};
static const uint8_t oid_common_name[] = {0x06, 0x03, 0x55, 0x04, 0x03};

static void put_extensions(struct der *d, const uint8_t point[POINT_LEN])
{
	uint8_t id[SHA256_DIGEST_LENGTH];
	size_t end = d->at;

	sha256(id, point, POINT_LEN); /* the first 160 bits: RFC 7093, method 1 */
	der_put(d, id, KEY_ID_LEN);
	der_put(d, key_id_head, sizeof(key_id_head));
	der_put(d, key_usage, sizeof(key_usage));
	der_put(d, basic_constraints, sizeof(basic_constraints));
	der_close(d, DER_SEQUENCE, end);
	der_close(d, DER_EXPLICIT_3, end);
}

static void put_public_key(struct der *d, const uint8_t point[POINT_LEN])
{
	size_t end = d->at;

	der_put(d, point, POINT_LEN);
	der_put(d, "", 1); /* no unused bits */
	der_close(d, DER_BIT_STRING, end);
	der_put(d, ec_p256_key, sizeof(ec_p256_key));
	der_close(d, DER_SEQUENCE, end);
}

static void put_attribute(struct der *d, const uint8_t *oid, size_t oid_n, const char *value)
{
	size_t end = d->at;

	der_value(d, DER_UTF8, value, strlen(value));
	der_put(d, oid, oid_n);
	der_close(d, DER_SEQUENCE, end);
	der_close(d, DER_SET, end);
}

static void put_name(struct der *d, const char *common_name)
{
	size_t end = d->at;

	put_attribute(d, oid_common_name, sizeof(oid_common_name), common_name);
	put_attribute(d, oid_organization, sizeof(oid_organization), "croft");
	der_close(d, DER_SEQUENCE, end);
}

/* RFC 5280: two digits of the year until 2049, four from 2050 on. */
static void put_time(struct der *d, int64_t at_s)
{
	time_t t = (time_t)at_s;
	struct tm tm;
	char text[32];
	int n;
	bool general;

	if (!gmtime_r(&t, &tm)) {
		d->failed = true;
		return;
	}
	general = tm.tm_year + 1900 >= 2050;
	n = general ? snprintf(text, sizeof(text), "%04d", tm.tm_year + 1900)
		    : snprintf(text, sizeof(text), "%02d", tm.tm_year % 100);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "%02d%02d%02d%02d%02dZ", tm.tm_mon + 1,
		tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	der_value(d, general ? DER_GENERAL_TIME : DER_UTC_TIME, text, (size_t)n);
}

static void put_validity(struct der *d, int64_t now_s)
{
	size_t end = d->at;

	put_time(d, now_s + (int64_t)AUTHORITY_VALID_DAYS * DAY_S);
	put_time(d, now_s - (int64_t)AUTHORITY_BACKDATED_DAYS * DAY_S);
	der_close(d, DER_SEQUENCE, end);
}

/* The part that is signed. */
static int put_tbs(
	struct der *d, const struct keypair *k, const char *run_id, int64_t now_s, struct err *e)
{
	char name[sizeof("croft sandbox ") + AUTHORITY_RUN_ID_MAX];
	uint8_t serial[SERIAL_LEN];
	size_t end = d->at;

	if (fill_random(serial, sizeof(serial), e) < 0)
		return -e->errnum;
	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always of the same length */
	snprintf(name, sizeof(name), "croft sandbox %s", run_id);
	put_extensions(d, k->point);
	put_public_key(d, k->point);
	put_name(d, name);
	put_validity(d, now_s);
	put_name(d, name);
	der_put(d, ecdsa_with_sha256, sizeof(ecdsa_with_sha256));
	der_unsigned(d, serial, sizeof(serial));
	der_put(d, version_3, sizeof(version_3));
	der_close(d, DER_SEQUENCE, end);
	return 0;
}

static int certificate_make(struct gateway_ca *ret, const struct keypair *k, const char *run_id,
	int64_t now_s, struct err *e)
{
	uint8_t r[SCALAR_LEN], s[SCALAR_LEN];
	struct der tbs, d;
	size_t end;

	der_start(&tbs);
	if (put_tbs(&tbs, k, run_id, now_s, e) < 0)
		return -e->errnum;
	if (sign(k, tbs.b + tbs.at, sizeof(tbs.b) - tbs.at, r, s, e) < 0)
		return -e->errnum;
	der_start(&d);
	end = d.at;
	der_unsigned(&d, s, sizeof(s));
	der_unsigned(&d, r, sizeof(r));
	der_close(&d, DER_SEQUENCE, end);
	der_put(&d, "", 1); /* no unused bits */
	der_close(&d, DER_BIT_STRING, end);
	der_put(&d, ecdsa_with_sha256, sizeof(ecdsa_with_sha256));
	der_put(&d, tbs.b + tbs.at, sizeof(tbs.b) - tbs.at);
	der_close(&d, DER_SEQUENCE, end);
	if (tbs.failed || d.failed)
		return err_set(e, EOVERFLOW, "certificate of the sandbox's authority");
	ret->der_len = (uint32_t)(sizeof(d.b) - d.at);
	memcpy(ret->der, d.b + d.at, ret->der_len);
	return 0;
}

/* ------------------------------------------------------------------ outside */

static bool run_id_good(const char *id)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t n = strlen(id);

	return n > 0 && n <= AUTHORITY_RUN_ID_MAX && strspn(id, allowed) == n;
}

static __attribute__((noinline)) int make(
	struct gateway_ca *ret, const char *run_id, int64_t now_s, struct err *e)
{
	struct keypair k;

	if (keypair_make(&k, ret->key, e) < 0)
		return -e->errnum;
	return certificate_make(ret, &k, run_id, now_s, e);
}

int authority_make_at(struct gateway_ca *ret, const char *run_id, int64_t now_s, struct err *e)
{
	void *(*old_alloc)(size_t);
	void *(*old_realloc)(void *, size_t, size_t);
	void (*old_free)(void *, size_t);
	struct gateway_ca made = {.der_len = 0};
	void *map;
	int r;

	if (!run_id_good(run_id))
		return err_set(e, EINVAL, "\"%.64s\" cannot name an authority", run_id);
	if (now_s < DAY_S || now_s > YEAR_9999_S - (int64_t)AUTHORITY_VALID_DAYS * DAY_S)
		return err_set(e, ERANGE, "the clock shows a time that certificates cannot hold");
	map = mmap(NULL, ARENA_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return err_set(e, errno, "memory for the sandbox's authority");
	arena.base = map;
	arena.used = 0;
	mp_get_memory_functions(&old_alloc, &old_realloc, &old_free);
	mp_set_memory_functions(arena_alloc, arena_realloc, arena_free);
	r = make(&made, run_id, now_s, e);
	mp_set_memory_functions(old_alloc, old_realloc, old_free);
	explicit_bzero(map, arena.used); /* gone even if unmapping should fail */
	munmap(map, ARENA_B);
	arena.base = NULL;
	stack_wipe();
	if (r >= 0)
		*ret = made;
	authority_wipe(&made);
	return r < 0 ? err_wrap(e, "make the sandbox's authority") : 0;
}

int authority_make(struct gateway_ca *ret, const char *run_id, struct err *e)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) < 0)
		return err_set(e, errno, "read the clock");
	return authority_make_at(ret, run_id, now.tv_sec, e);
}

/* Up to three octets as four characters. */
static void base64_quad(char ret[4], const uint8_t *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t v = (uint32_t)p[0] << 16;

	if (n > 1)
		v |= (uint32_t)p[1] << 8;
	if (n > 2)
		v |= p[2];
	ret[0] = digits[v >> 18];
	ret[1] = digits[v >> 12 & 63];
	ret[2] = n > 1 ? digits[v >> 6 & 63] : '=';
	ret[3] = n > 2 ? digits[v & 63] : '=';
}

void authority_pem(const struct gateway_ca *ca, struct buf *out)
{
	size_t len = MIN_OF((size_t)ca->der_len, sizeof(ca->der));
	char line[64];
	size_t n = 0;

	buf_adds(out, "-----BEGIN CERTIFICATE-----\n");
	for (size_t i = 0; i < len; i += 3) {
		base64_quad(line + n, ca->der + i, len - i);
		n += 4;
		if (n < sizeof(line) && i + 3 < len)
			continue;
		buf_add(out, line, n);
		buf_addc(out, '\n');
		n = 0;
	}
	buf_adds(out, "-----END CERTIFICATE-----\n");
}

void authority_wipe(struct gateway_ca *ca)
{
	explicit_bzero(ca->key, sizeof(ca->key));
}
