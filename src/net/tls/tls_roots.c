/* SPDX-License-Identifier: Apache-2.0 */
/* Trusted authorities, found by subject on demand: see tls_roots.h. */
#include "net/tls/tls_roots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/cleanup.h"

static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
	"/etc/ssl/ca-bundle.pem",             /* SUSE */
	"/etc/ssl/cert.pem",
};

struct root {
	const uint8_t *der;
	size_t der_len;
	const uint8_t *subject; /* within der */
	size_t subject_len;
	X509 *x; /* once it was needed */
};

struct source {
	char *text;
	size_t len;
	bool mapped;
};

struct roots {
	struct source sources[ROOTS_FILES_MAX + 1];
	size_t sources_n;
	uint8_t *ders; /* all of them, one after another */
	struct root *v;
	size_t n;
	bool indexed;
	X509_LOOKUP_METHOD *method;
};

/*
 * The system's bundle is replaced by renaming, so a mapping stays whole and costs nothing until it
 * is read. A file of the user's may be rewritten in place at any time: that one is copied.
 */
static int source_open(struct source *ret, const char *path, bool map, struct err *e)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	size_t got = 0;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "read the certificates in %s", path);
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t)ROOTS_FILE_MAX_B)
		return err_invalid(
			e, "%s is not a file of certificates (or larger than 8 MiB)", path);
	ret->len = (size_t)st.st_size;
	if (map) {
		ret->text = mmap(NULL, ret->len, PROT_READ, MAP_PRIVATE, fd, 0);
		if (ret->text == MAP_FAILED)
			return err_set(e, errno, "map %s", path);
		ret->mapped = true;
		return 0;
	}
	ret->text = malloc(ret->len);
	if (!ret->text)
		return err_set(e, ENOMEM, "read %s", path);
	while (got < ret->len && (n = read(fd, ret->text + got, ret->len - got)) > 0)
		got += (size_t)n;
	ret->len = got;
	return 0;
}

static void source_close(struct source *s)
{
	if (s->mapped)
		munmap(s->text, s->len);
	else
		free(s->text);
	*s = (struct source){0};
}

int roots_new(struct roots **ret, const char *const *files, size_t n, struct err *e)
{
	struct roots *r = calloc(1, sizeof(*r));
	struct err ignored = ERR_INIT;
	int rc;

	if (!r)
		return err_set(e, ENOMEM, "load certificates");
	for (size_t i = 0; i < ARRAY_SIZE(bundles) && !r->sources_n; i++)
		if (source_open(&r->sources[0], bundles[i], true, &ignored) == 0)
			r->sources_n = 1;
	for (size_t i = 0; i < n; i++) {
		if (i >= ROOTS_FILES_MAX)
			rc = err_invalid(e, "more than %u files in `trust`", ROOTS_FILES_MAX);
		else
			rc = source_open(&r->sources[r->sources_n], files[i], false, e);
		if (rc < 0) {
			source_close(&r->sources[r->sources_n]);
			roots_free(r);
			return rc;
		}
		r->sources_n++;
	}
	*ret = r;
	return 0;
}

void roots_free(struct roots *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->sources_n; i++)
		source_close(&r->sources[i]);
	for (size_t i = 0; i < r->n; i++)
		X509_free(r->v[i].x);
	X509_LOOKUP_meth_free(r->method);
	free(r->v);
	free(r->ders);
	free(r);
}

/* ---- just enough DER to find a subject ---- */

struct der {
	const uint8_t *p;
	size_t n;
};

/* The next element: its contents, and the whole with its header. */
static bool der_next(struct der *d, uint8_t *ret_tag, struct der *ret_inner, struct der *ret_whole)
{
	size_t head = 2, len;

	if (d->n < 2)
		return false;
	len = d->p[1];
	if (len & 0x80) {
		size_t bytes = len & 0x7f;

		if (bytes < 1 || bytes > 3 || d->n < 2 + bytes)
			return false;
		len = 0;
		for (size_t i = 0; i < bytes; i++)
			len = len << 8 | d->p[2 + i];
		head += bytes;
	}
	if (len > d->n - head)
		return false;
	*ret_tag = d->p[0];
	*ret_inner = (struct der){d->p + head, len};
	*ret_whole = (struct der){d->p, head + len};
	d->p += head + len;
	d->n -= head + len;
	return true;
}

/* Certificate { TBSCertificate { [0] version?, serial, algorithm, issuer, validity, subject … */
static bool root_subject(struct root *r)
{
	struct der cert = {r->der, r->der_len}, tbs, fields, inner, whole;
	uint8_t tag;

	if (!der_next(&cert, &tag, &tbs, &whole) || tag != 0x30)
		return false;
	if (!der_next(&tbs, &tag, &fields, &whole) || tag != 0x30)
		return false;
	if (!der_next(&fields, &tag, &inner, &whole))
		return false;
	if (tag == 0xa0 && !der_next(&fields, &tag, &inner, &whole))
		return false;
	/* The serial number was the last one read. */
	for (int i = 0; i < 4; i++)
		if (!der_next(&fields, &tag, &inner, &whole))
			return false;
	r->subject = whole.p;
	r->subject_len = whole.n;
	return tag == 0x30;
}

static const char *find(const char *p, const char *end, const char *what)
{
	return p < end ? memmem(p, (size_t)(end - p), what, strlen(what)) : NULL;
}

static void source_index(struct roots *r, const struct source *s, size_t *used)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----",
			  stop[] = "-----END CERTIFICATE-----";
	const char *p = s->text, *end = s->text + s->len, *q;
	EVP_ENCODE_CTX *c = EVP_ENCODE_CTX_new();

	while (c && r->n < ROOTS_MAX && (p = find(p, end, begin))) {
		struct root *root = &r->v[r->n];
		int n = 0, last = 0;

		p += strlen(begin);
		q = find(p, end, stop);
		if (!q)
			break;
		EVP_DecodeInit(c);
		root->der = r->ders + *used;
		if (EVP_DecodeUpdate(
			    c, r->ders + *used, &n, (const unsigned char *)p, (int)(q - p)) >= 0 &&
			EVP_DecodeFinal(c, r->ders + *used + n, &last) >= 0) {
			root->der_len = (size_t)(n + last);
			if (root_subject(root)) {
				*used += root->der_len;
				r->n++;
			}
		}
		p = q;
	}
	EVP_ENCODE_CTX_free(c);
}

static void roots_index(struct roots *r)
{
	size_t text = 0, used = 0;

	r->indexed = true;
	for (size_t i = 0; i < r->sources_n; i++)
		text += r->sources[i].len;
	r->ders = malloc(text / 4 * 3 + 64);
	r->v = calloc(ROOTS_MAX, sizeof(*r->v)); /* untouched pages cost nothing */
	if (!r->ders || !r->v)
		return; /* nothing is trusted then */
	for (size_t i = 0; i < r->sources_n; i++) {
		source_index(r, &r->sources[i], &used);
		source_close(&r->sources[i]);
	}
	r->sources_n = 0;
}

static bool subject_is(const struct root *root, const X509_NAME *name, const unsigned char *der,
	size_t n, bool loosely)
{
	const unsigned char *p = root->subject;
	X509_NAME *subject;
	bool same;

	if (!loosely)
		return root->subject_len == n && memcmp(root->subject, der, n) == 0;
	subject = d2i_X509_NAME(NULL, &p, (long)root->subject_len);
	same = subject && X509_NAME_cmp(subject, name) == 0;
	X509_NAME_free(subject);
	return same;
}

/*
 * Every root of this name goes into the store: two keys may have the same one. Returns the first.
 */
static X509 *roots_find(struct roots *r, X509_STORE *store, const X509_NAME *name, bool loosely)
{
	const unsigned char *der = NULL, *p;
	X509 *first = NULL;
	size_t n = 0;

	if (!X509_NAME_get0_der(name, &der, &n))
		return NULL;
	for (size_t i = 0; i < r->n; i++) {
		struct root *root = &r->v[i];

		if (!subject_is(root, name, der, n, loosely))
			continue;
		if (!root->x) {
			p = root->der;
			root->x = d2i_X509(NULL, &p, (long)root->der_len);
			if (root->x)
				X509_STORE_add_cert(store, root->x);
		}
		if (!first)
			first = root->x;
	}
	return first;
}

static int by_subject(
	X509_LOOKUP *l, X509_LOOKUP_TYPE type, const X509_NAME *name, X509_OBJECT *ret)
{
	struct roots *r = X509_LOOKUP_get_method_data(l);
	X509_STORE *store = X509_LOOKUP_get_store(l);
	X509 *x;

	if (type != X509_LU_X509 || !name)
		return 0;
	if (!r->indexed)
		roots_index(r);
	x = roots_find(r, store, name, false);
	if (!x) /* the same name in another string type: rare, so not indexed */
		x = roots_find(r, store, name, true);
	if (!x || !X509_OBJECT_set1_X509(ret, x))
		return 0;
	X509_free(x); /* the library takes no reference over from a lookup; ours is in root->x */
	return 1;
}

int roots_attach(struct roots *r, X509_STORE *store)
{
	X509_LOOKUP *l;

	r->method = X509_LOOKUP_meth_new("croft roots");
	if (!r->method || !X509_LOOKUP_meth_set_get_by_subject(r->method, by_subject))
		return -ENOMEM;
	l = X509_STORE_add_lookup(store, r->method);
	if (!l || !X509_LOOKUP_set_method_data(l, r))
		return -ENOMEM;
	return 0;
}
