/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the keeper share: a store of two secrets, and text with their placeholders in
 * it.
 */
#ifndef CROFT_TESTS_UNIT_KEEPER_STORE_H
#define CROFT_TESTS_UNIT_KEEPER_STORE_H

#include "test.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/keeper_text.h"
#include "net/keeper/keeper_vault.h"

#define HOST "host.croft.internal"
#define VALUE "sk-live+/=%&0123456789abcdefXYZ" /* with characters that encodings change */
#define VALUE_LEN (sizeof(VALUE) - 1)
#define OTHER "another-secret-of-this-sandbox"

static const uint8_t seed[VAULT_SEED_LEN] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* ---- a store ---- */

struct place_dir {
	char top[64];
	int fd;
};

static void dir_done(struct place_dir *d)
{
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", d->top, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	close_fd(&d->fd);
}

static bool dir_put(const struct place_dir *d, const char *name, const char *text, mode_t mode)
{
	cleanup_fd int fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	       fchmod(fd, mode) == 0;
}

static bool dir_make_one(struct place_dir *d)
{
	*d = (struct place_dir){.top = "/tmp/croft-keeper.XXXXXX", .fd = -1};
	if (!mkdtemp(d->top))
		return false;
	d->fd = open(d->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return d->fd >= 0 && dir_put(d, "TOKEN", VALUE, 0600) && dir_put(d, "OTHER", OTHER, 0600);
}
#define DIR_OF(d)                                                                                  \
	__attribute__((cleanup(dir_done))) struct place_dir d;                                     \
	CHECK(dir_make_one(&d))

/* ---- text with placeholders in it ---- */

/* "@P" becomes TOKEN's placeholder, "@O" OTHER's. */
static void expand(struct buf *out, const char *text)
{
	char p[VALUE_LEN], o[sizeof(OTHER) - 1];

	placeholder_make(p, sizeof(p), seed, "TOKEN");
	placeholder_make(o, sizeof(o), seed, "OTHER");
	for (; *text; text++) {
		if (str_starts(text, "@P"))
			buf_add(out, p, sizeof(p)), text++;
		else if (str_starts(text, "@O"))
			buf_add(out, o, sizeof(o)), text++;
		else
			buf_addc(out, *text);
	}
}

static void add_base64(struct buf *out, const char *text, size_t n)
{
	cleanup_free char *b = malloc(base64_len(n) + 1);

	base64_encode(b, text, n);
	buf_add(out, b, base64_len(n));
}

#define GET(target) "GET " target " HTTP/1.1\r\nhost: " HOST "\r\n"

#endif
