/* SPDX-License-Identifier: Apache-2.0 */
/* The key for evidence: ed25519 as others do it, made once, kept from others' eyes. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/key.h"
#include "os/path.h"

struct place {
	char top[64];
};

static void run(const char *const *argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static void place_done(struct place *p)
{
	const char *const argv[] = {"rm", "-rf", p->top, NULL};

	run(argv);
}
#define PLACE(p)                                                                                   \
	__attribute__((cleanup(place_done))) struct place p = {.top = "/tmp/croft-key.XXXXXX"};    \
	if (!mkdtemp(p.top))                                                                       \
	SKIP("no temporary directory")

static size_t unhex(uint8_t *to, const char *s)
{
	size_t n = strlen(s) / 2;

	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(hex_digit(s[2 * i]) << 4 | hex_digit(s[2 * i + 1]));
	return n;
}

/* RFC 8032, 7.1: tests 1, 2, 3 and SHA(abc). */
static const struct {
	const char *seed, *public, *message, *sig;
} vectors[] = {
	{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
		"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
		"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc6"
		"1e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
	{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
		"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
		"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e45"
		"8f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
	{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
		"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
		"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae"
		"67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
	{"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
		"ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
		"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836"
		"ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
		"dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfd"
		"fbc7c66431e0303dca179c138ac17ad9bef1177331a704"},
};

TEST(rfc8032)
{
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		uint8_t public[32], message[128], want[64], sig[64];
		struct ledger_key k = {0};
		size_t n;

		unhex(k.seed, vectors[i].seed);
		unhex(k.public, vectors[i].public);
		unhex(public, vectors[i].public);
		n = unhex(message, vectors[i].message);
		unhex(want, vectors[i].sig);
		ledger_sign(&k, message, n, sig);
		CHECK(memcmp(sig, want, sizeof(sig)) == 0);
		CHECK(ledger_check(public, message, n, sig));
		sig[0] ^= 1;
		CHECK(!ledger_check(public, message, n, sig));
		sig[0] ^= 1;
		sig[63] ^= 0x20;
		CHECK(!ledger_check(public, message, n, sig));
		sig[63] ^= 0x20;
		message[n] = 0;
		CHECK(!ledger_check(public, message, n + 1, sig));
		public[0] ^= 1;
		CHECK(!ledger_check(public, message, n, sig));
	}
}

/* The same S plus the group's order is the same number to careless readers. */
TEST(one_signature_per_message)
{
	static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6,
		0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
	uint8_t public[32], sig[64];
	unsigned carry = 0;

	unhex(public, vectors[0].public);
	unhex(sig, vectors[0].sig);
	CHECK(ledger_check(public, "", 0, sig));
	for (size_t i = 0; i < 32; i++) {
		carry += (unsigned)sig[32 + i] + order[i];
		sig[32 + i] = (uint8_t)carry;
		carry >>= 8;
	}
	CHECK(!ledger_check(public, "", 0, sig));
}

TEST(made_once)
{
	struct ledger_key a, b;
	struct err e = ERR_INIT;
	char path[128];
	struct stat st;
	struct digest d;

	PLACE(p);
	CHECK_INT(ledger_key_load(&a, p.top, &e), 0);
	CHECK_INT(ledger_key_load(&b, p.top, &e), 0);
	CHECK(memcmp(&a, &b, sizeof(a)) == 0);
	digest_sha256(&d, a.public, sizeof(a.public));
	CHECK_STR(a.id.hex, d.hex);
	snprintf(path, sizeof(path), "%s/keys/ledger", p.top);
	CHECK(stat(path, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(st.st_size, 65);
	snprintf(path, sizeof(path), "%s/keys", p.top);
	CHECK(stat(path, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0700);
	ledger_key_wipe(&a);
	CHECK_INT(a.seed[0] | a.seed[31] | a.public[7], 0);
}

/* Many at once: one key. */
TEST(makers_agree)
{
	struct ledger_key k;
	struct err e = ERR_INIT;
	int fd[2], ok = 0;
	char id[DIGEST_HEX_LEN];

	PLACE(p);
	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	for (int i = 0; i < 8; i++) {
		if (fork() != 0)
			continue;
		if (ledger_key_load(&k, p.top, &e) < 0 ||
			write(fd[1], k.id.hex, DIGEST_HEX_LEN) != DIGEST_HEX_LEN)
			_exit(1);
		_exit(0);
	}
	close(fd[1]);
	for (int i = 0; i < 8; i++) {
		int status;

		CHECK(wait(&status) > 0);
		ok += status == 0;
	}
	CHECK_INT(ok, 8);
	CHECK_INT(ledger_key_load(&k, p.top, &e), 0);
	for (int i = 0; i < 8; i++) {
		CHECK_INT(read(fd[0], id, sizeof(id)), DIGEST_HEX_LEN);
		CHECK(memcmp(id, k.id.hex, DIGEST_HEX_LEN) == 0);
	}
	close(fd[0]);
}

static int spoil(const struct place *p, const char *text, mode_t mode)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/keys", p->top);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/keys/ledger", p->top);
	unlink(path);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	return fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0 ? -1 : 0;
}

#define GOOD "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"

TEST(bad_files_are_refused)
{
	static const char *const bad[] = {"", "\n", GOOD, GOOD "\n\n", "x" GOOD "\n",
		"gd61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n"};
	struct ledger_key k;
	struct err e = ERR_INIT;
	char path[128], to[128];

	PLACE(p);
	CHECK_INT(spoil(&p, GOOD "\n", 0600), 0);
	CHECK_INT(ledger_key_load(&k, p.top, &e), 0);
	CHECK_INT(k.public[0], 0xd7);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		e = ERR_INIT;
		CHECK_INT(spoil(&p, bad[i], 0600), 0);
		CHECK(ledger_key_load(&k, p.top, &e) < 0);
		CHECK(strstr(e.msg, "damaged"));
	}
	e = ERR_INIT;
	CHECK_INT(spoil(&p, GOOD "\n", 0640), 0);
	CHECK(ledger_key_load(&k, p.top, &e) < 0);
	CHECK(strstr(e.msg, "can be read by others"));
	snprintf(path, sizeof(path), "%s/keys/ledger", p.top);
	snprintf(to, sizeof(to), "%s/elsewhere", p.top);
	CHECK_INT(spoil(&p, GOOD "\n", 0600), 0);
	CHECK(rename(path, to) == 0 && symlink(to, path) == 0);
	e = ERR_INIT;
	CHECK(ledger_key_load(&k, p.top, &e) < 0);
}

TEST(pem)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct err e = ERR_INIT;
	uint8_t public[32], back[32] = {0};

	unhex(public, vectors[0].public);
	ledger_key_pem(public, &b);
	CHECK_STR(buf_str(&b), "-----BEGIN PUBLIC KEY-----\n"
			       "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
			       "-----END PUBLIC KEY-----\n");
	CHECK_INT(ledger_key_from_pem(back, b.data, b.len, &e), 0);
	CHECK(memcmp(back, public, sizeof(back)) == 0);
	CHECK(ledger_key_from_pem(back, b.data, b.len - 10, &e) < 0);
	b.data[30] ^= 1;
	CHECK(ledger_key_from_pem(back, b.data, b.len, &e) < 0);
	CHECK(ledger_key_from_pem(back, "", 0, &e) < 0);
}

/* Somebody else's program agrees about a key and a signature of ours. */
TEST(openssl_agrees)
{
	char message[128], sig[128], pub[128], out[128];
	cleanup_fd int dir = -1;
	uint8_t raw[64];
	struct ledger_key k;
	struct err e = ERR_INIT;
	int status = 0;
	pid_t pid;

	PLACE(p);
	CHECK_INT(ledger_key_load(&k, p.top, &e), 0);
	ledger_sign(&k, "hello", 5, raw);
	dir = open(p.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(file_replace_at(dir, "m", "hello", 5, 0600), 0);
	CHECK_INT(file_replace_at(dir, "s", raw, sizeof(raw), 0600), 0);
	snprintf(message, sizeof(message), "%s/m", p.top);
	snprintf(sig, sizeof(sig), "%s/s", p.top);
	snprintf(pub, sizeof(pub), "%s/keys/ledger.pub", p.top);
	snprintf(out, sizeof(out), "%s/out", p.top);
	pid = fork();
	if (pid == 0) {
		int fd = open(out, O_WRONLY | O_CREAT, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		execlp("openssl", "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pub,
			"-rawin", "-in", message, "-sigfile", sig, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		SKIP("no openssl");
	CHECK_INT(status, 0);
}
