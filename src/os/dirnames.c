/* SPDX-License-Identifier: Apache-2.0 */
/* The names in a directory: see dirnames.h. */
#include "os/dirnames.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

/* What the kernel writes is what libc hands out. */
static_assert(offsetof(struct dirent, d_ino) == 0 && offsetof(struct dirent, d_reclen) == 16 &&
		      offsetof(struct dirent, d_type) == 18 &&
		      offsetof(struct dirent, d_name) == 19,
	"struct dirent");

void dirnames_init(struct dirnames *l, int fd)
{
	l->fd = fd;
	l->failed = fd < 0;
	l->at = l->n = 0;
}

const struct dirent *dirnames_next(struct dirnames *l)
{
	for (;;) {
		const struct dirent *de;

		if (l->at >= l->n) {
			long n = l->failed ? -1
					   : syscall(SYS_getdents64, l->fd, l->buffer,
						     sizeof(l->buffer));

			l->failed = n < 0 && (l->failed || errno != ENOENT); /* it was removed */
			if (n <= 0)
				return NULL;
			l->at = 0;
			l->n = (size_t)n;
		}
		de = (const struct dirent *)(const void *)(l->buffer + l->at);
		l->at += de->d_reclen;
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			return de;
	}
}

void dirnames_done(struct dirnames *l)
{
	close_fd(&l->fd);
}
