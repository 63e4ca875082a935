/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that evidence is signed with: see key.h.
 *
 * Files:   keys/ledger      the seed, 64 hexadecimal digits and a newline, 0600
 *          keys/ledger.pub  the public key as PEM; made again when it is missing or differs
 * Order:   the directory is locked while somebody looks for the seed and makes one; the seed is on the
 *          disk before it has its name.
 * Failure: a seed that others could read, or that is no seed, is refused and never replaced: with a new
 *          one, every ledger so far would end in events of a stranger.
 */
#include "ledger/chain/key.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/eddsa.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"

#define SEED_LEN 32
#define SEED_FILE "ledger"
#define PUBLIC_FILE "ledger.pub"
#define SEED_TEXT_LEN (2 * SEED_LEN + 1)
#define PEM_MAX_B 4096u

static_assert(KEY_PUBLIC_LEN == ED25519_KEY_SIZE && SEED_LEN == ED25519_KEY_SIZE, "ed25519");
static_assert(KEY_SIGNATURE_LEN == ED25519_SIGNATURE_SIZE, "ed25519");

/* SubjectPublicKeyInfo of an ed25519 key up to the key itself (RFC 8410). */
static const uint8_t spki[] = {
	0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
#define SPKI_LEN (sizeof(spki) + KEY_PUBLIC_LEN)

static const char pem_begin[] = "-----BEGIN PUBLIC KEY-----";
static const char pem_end[] = "-----END PUBLIC KEY-----";

void ledger_key_wipe(struct ledger_key *k)
{
	explicit_bzero(k, sizeof(*k));
}

void ledger_sign(
	const struct ledger_key *k, const void *p, size_t n, uint8_t ret[KEY_SIGNATURE_LEN])
{
	ed25519_sha512_sign(k->public, k->seed, n, p, ret);
}

bool ledger_check(const uint8_t public[KEY_PUBLIC_LEN], const void *p, size_t n,
	const uint8_t sig[KEY_SIGNATURE_LEN])
{
	return ed25519_sha512_verify(public, n, p, sig) == 1;
}

static void from_seed(struct ledger_key *k)
{
	ed25519_sha512_public_key(k->public, k->seed);
	digest_sha256(&k->id, k->public, sizeof(k->public));
}

/* ------------------------------------------------------------------ PEM */

void ledger_key_pem(const uint8_t public[KEY_PUBLIC_LEN], struct buf *out)
{
	char text[(SPKI_LEN + 2) / 3 * 4];
	uint8_t der[SPKI_LEN];

	memcpy(der, spki, sizeof(spki));
	memcpy(der + sizeof(spki), public, KEY_PUBLIC_LEN);
	base64_encode(text, der, sizeof(der));
	buf_addf(out, "%s\n%.*s\n%s\n", pem_begin, (int)sizeof(text), text, pem_end);
}

static int bad_pem(struct err *e)
{
	return err_invalid(e, "that is no ed25519 public key in PEM form (BEGIN PUBLIC KEY); croft "
			      "evidence key prints one");
}

int ledger_key_from_pem(uint8_t ret[KEY_PUBLIC_LEN], const char *pem, size_t n, struct err *e)
{
	char text[(SPKI_LEN + 2) / 3 * 4];
	uint8_t der[SPKI_LEN];
	const char *at, *end;
	size_t len = 0;

	if (n > PEM_MAX_B)
		return bad_pem(e);
	at = memmem(pem, n, pem_begin, sizeof(pem_begin) - 1);
	if (!at)
		return bad_pem(e);
	at += sizeof(pem_begin) - 1;
	end = memmem(at, n - (size_t)(at - pem), pem_end, sizeof(pem_end) - 1);
	if (!end)
		return bad_pem(e);
	for (; at < end; at++) {
		if (*at == '\n' || *at == '\r' || *at == ' ' || *at == '\t')
			continue;
		if (len == sizeof(text))
			return bad_pem(e);
		text[len++] = *at;
	}
	if (base64_decode(der, sizeof(der), text, len) != (long)sizeof(der) ||
		memcmp(der, spki, sizeof(spki)) != 0)
		return bad_pem(e);
	memcpy(ret, der + sizeof(spki), KEY_PUBLIC_LEN);
	return 0;
}

/* ------------------------------------------------------------------ the files */

static int seed_parse(uint8_t ret[SEED_LEN], const char *text, size_t n)
{
	if (n != SEED_TEXT_LEN || text[n - 1] != '\n')
		return -EBADMSG;
	for (size_t i = 0; i < SEED_LEN; i++) {
		int a = hex_digit(text[2 * i]), b = hex_digit(text[2 * i + 1]);

		if (a < 0 || b < 0)
			return -EBADMSG;
		ret[i] = (uint8_t)(a << 4 | b);
	}
	return 0;
}

/* Whether this file may be believed to hold a secret of this user's. */
static int seed_judge(int fd, const char *dir, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "look at %s/" SEED_FILE, dir);
	if (!S_ISREG(st.st_mode))
		return err_refuse(e,
			"%s/" SEED_FILE
			" is not a regular file; the key for evidence is not read from it",
			dir);
	if (st.st_uid != geteuid())
		return err_refuse(e, "%s/" SEED_FILE " belongs to another user (uid %u)", dir,
			(unsigned)st.st_uid);
	if (st.st_mode & 077)
		return err_refuse(e,
			"%s/" SEED_FILE " can be read by others (mode %04o); if nobody has, chmod "
			"600 it, else move it away: a new key is made",
			dir, (unsigned)(st.st_mode & 07777));
	return 0;
}

/* 0, -ENOENT (no key yet), or an error. */
static int seed_read(int dirfd, const char *dir, uint8_t ret[SEED_LEN], struct err *e)
{
	cleanup_fd int fd =
		openat(dirfd, SEED_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char text[SEED_TEXT_LEN + 1];
	size_t n = 0;
	int r;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_set(e, errno, "open %s/" SEED_FILE, dir);
	r = seed_judge(fd, dir, e);
	if (r < 0)
		return r;
	while (n < sizeof(text)) {
		ssize_t got = read(fd, text + n, sizeof(text) - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(e, errno, "read %s/" SEED_FILE, dir);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	r = seed_parse(ret, text, n);
	explicit_bzero(text, sizeof(text));
	if (r < 0)
		return err_refuse(e,
			"%s/" SEED_FILE
			" is damaged; put it back from a backup, or move it away: a new key is "
			"made, and environments that exist keep their evidence but take no more",
			dir);
	return 0;
}

static int seed_text_write(int dirfd, const char *temp, const char *text)
{
	cleanup_fd int fd =
		openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text, SEED_TEXT_LEN);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, temp, dirfd, SEED_FILE) < 0)
		r = -errno;
	if (r == 0 && fsync(dirfd) < 0)
		r = -errno;
	return r;
}

/* Under the lock. */
static int seed_make(int dirfd, const char *dir, uint8_t ret[SEED_LEN], struct err *e)
{
	static const char temp[] = SEED_FILE ".new", digits[] = "0123456789abcdef";
	char text[SEED_TEXT_LEN];
	int r;

	if (getrandom(ret, SEED_LEN, 0) != SEED_LEN)
		return err_set(e, errno ? errno : EIO, "draw a key");
	for (size_t i = 0; i < SEED_LEN; i++) {
		text[2 * i] = digits[ret[i] >> 4];
		text[2 * i + 1] = digits[ret[i] & 15];
	}
	text[SEED_TEXT_LEN - 1] = '\n';
	unlinkat(dirfd, temp, 0); /* what a crash left: we have the lock */
	r = seed_text_write(dirfd, temp, text);
	explicit_bzero(text, sizeof(text));
	if (r < 0)
		unlinkat(dirfd, temp, 0);
	return r < 0 ? err_set(e, -r, "make the key for evidence in %s", dir) : 0;
}

/* The public half is a convenience: that it cannot be written stops nobody. */
static void public_keep(int dirfd, const struct ledger_key *k)
{
	cleanup_buf struct buf want = BUF_INIT(PEM_MAX_B);
	cleanup_buf struct buf is = BUF_INIT(PEM_MAX_B);

	ledger_key_pem(k->public, &want);
	if (file_read_at(dirfd, PUBLIC_FILE, &is) == 0 && is.len == want.len &&
		memcmp(is.data, want.data, is.len) == 0)
		return;
	(void)file_replace_at(dirfd, PUBLIC_FILE, want.data, want.len, 0644);
}

static int lock(int fd)
{
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int make_or_meet(int dirfd, const char *dir, struct ledger_key *k, struct err *e)
{
	int r = lock(dirfd);

	if (r < 0)
		return err_set(e, -r, "lock %s", dir);
	r = seed_read(dirfd, dir, k->seed, e);
	if (r == -ENOENT && e->kind == ERR_NONE)
		r = seed_make(dirfd, dir, k->seed, e);
	return r;
}

int ledger_key_load(struct ledger_key *ret, const char *state_dir, struct err *e)
{
	cleanup_fd int path_fd = -1;
	cleanup_fd int dirfd = -1;
	struct ledger_key k = {0};
	char dir[PATH_MAX];
	int n = snprintf(dir, sizeof(dir), "%s/keys", state_dir), r;

	if (n < 0 || (size_t)n >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "the directory of keys");
	path_fd = dir_make(dir, 0700);
	if (path_fd < 0)
		return err_set(e, -path_fd, "make %s", dir);
	dirfd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_set(e, errno, "open %s", dir);
	r = seed_read(dirfd, dir, k.seed, e);
	if (r == -ENOENT && e->kind == ERR_NONE)
		r = make_or_meet(dirfd, dir, &k, e);
	if (r == 0) {
		from_seed(&k);
		public_keep(dirfd, &k);
		*ret = k;
	}
	explicit_bzero(&k, sizeof(k));
	return r;
}
