/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a secret in memory, and what a file must look like to be believed as one.
 *
 * Purpose: one type for bytes that must not leave: pages of their own, locked (not in swap), left
 *          out of core dumps, wiped in a forked child and when done. Nothing here formats, prints
 *          or logs.
 * Trust:   whoever can write the store can choose a value; the checks keep out files that others
 *          could read or have put there.
 * Limits:  where the machine grants no locked memory (RLIMIT_MEMLOCK) the value is still kept apart
 *          and wiped; `locked` says so, and the keeper tells the supervisor.
 *
 * Header only, because the launcher (session/config/secrets.c) and the keeper are linked apart and share
 * nothing else of this directory.
 */
#ifndef CROFT_SECRET_VALUE_H
#define CROFT_SECRET_VALUE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SECRET_MIN_B                                                                               \
	16u /* shorter values would be found by chance, and redacted from innocent text */
#define SECRET_MAX_B 4096u /* as long as a placeholder can be */
#define SECRET_NAME_MAX 64u

struct secret {
	char *data;
	size_t len, cap;
	bool locked;
};

#define SECRET_INIT ((struct secret){0})
#define cleanup_secret __attribute__((cleanup(secret_done)))

/* Wipes. */
static inline void secret_done(struct secret *s)
{
	if (s->data) {
		explicit_bzero(s->data, s->cap);
		munmap(s->data, s->cap);
	}
	*s = SECRET_INIT;
}

/* Room for n bytes, in whole pages. 0 or -ENOMEM. */
static inline int secret_init(struct secret *s, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), cap = (n + page) / page * page;
	void *p = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*s = SECRET_INIT;
	if (p == MAP_FAILED)
		return -ENOMEM;
	madvise(p, cap, MADV_DONTDUMP);
#ifdef MADV_WIPEONFORK
	madvise(p, cap, MADV_WIPEONFORK);
#endif
	/* On fault: room that is never used costs no memory. */
#ifdef SYS_mlock2
	s->locked = syscall(SYS_mlock2, p, cap, 1 /* MLOCK_ONFAULT */) == 0;
#endif
	s->locked = s->locked || mlock(p, cap) == 0;
	s->data = p;
	s->cap = cap;
	return 0;
}

/* Wipes and keeps the memory. */
static inline void secret_reset(struct secret *s)
{
	if (s->data)
		explicit_bzero(s->data, s->len);
	s->len = 0;
}

/* false: no room. */
static inline bool secret_add(struct secret *s, const void *p, size_t n)
{
	if (n > s->cap - s->len)
		return false;
	if (n)
		memcpy(s->data + s->len, p, n);
	s->len += n;
	return true;
}

/* Equal, in a time that depends on the lengths only. */
static inline bool secret_same(const struct secret *a, const struct secret *b)
{
	unsigned char diff = 0;

	if (a->len != b->len)
		return false;
	for (size_t i = 0; i < a->len; i++)
		diff |= (unsigned char)(a->data[i] ^ b->data[i]);
	return diff == 0;
}

static inline bool secret_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= SECRET_NAME_MAX && !(name[0] >= '0' && name[0] <= '9') &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/*
 * Why these bytes cannot be a value, or NULL. They end up in header lines, so no line may end in
 * them.
 */
static inline const char *secret_flaw(const char *p, size_t n)
{
	if (n == 0)
		return "is empty";
	if (n < SECRET_MIN_B)
		return "is shorter than 16 bytes, too short to be told from other text";
	if (n > SECRET_MAX_B)
		return "is longer than 4096 bytes";
	if (memchr(p, '\0', n))
		return "holds a NUL byte";
	if (memchr(p, '\n', n))
		return "holds more than one line";
	if (memchr(p, '\r', n))
		return "holds a carriage return (a file with DOS line ends?)";
	return NULL;
}

/* Why this file is not to be believed, or NULL. */
static inline const char *secret_file_flaw(const struct stat *st)
{
	if (S_ISLNK(st->st_mode))
		return "is a symlink";
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_uid != geteuid())
		return "belongs to another user";
	if (st->st_mode & 077)
		return "can be read or written by others (chmod 600 it, and change the secret)";
	if (st->st_nlink > 1) /* none: it is in memory only */
		return "has a second name (a hard link)";
	if (st->st_size < (off_t)SECRET_MIN_B || st->st_size > (off_t)SECRET_MAX_B)
		return "does not have the size of a secret";
	return NULL;
}

/*
 * The rest of a descriptor. 0, -EFBIG when it does not fit, or -errno. Leaves nothing of it
 * elsewhere.
 */
static inline int secret_fill(struct secret *s, int fd)
{
	for (;;) {
		ssize_t n;

		if (s->len == s->cap)
			return -EFBIG;
		n = read(fd, s->data + s->len, s->cap - s->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		s->len += (size_t)n;
	}
}

#endif
