/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, ABI 1 to 7, as the kernel has it.
 *
 * Order: landlock_open() asks for everything this kernel can handle; landlock_allow() adds rules by
 * file descriptor; landlock_apply() needs no_new_privs and cannot be undone.
 */
#ifndef CROFT_OS_LANDLOCK_H
#define CROFT_OS_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What a rule gives below its path. */
enum landlock_grant {
	LANDLOCK_GRANT_READ, /* read files, list directories, execute */
	LANDLOCK_GRANT_WRITE, /* READ and every kind of change, incl. truncate, refer, device ioctl */
	LANDLOCK_GRANT_DEVICE, /* read, write, ioctl on an existing file; nothing may be created */
};

struct landlock {
	int fd;
	int abi;           /* 0: kernel has no Landlock */
	uint64_t handled_fs;
	uint64_t handled_net;
	uint64_t scoped;
};

#define LANDLOCK_INIT ((struct landlock){.fd = -1})

/* The kernel's ABI version; 0 when Landlock is absent, disabled, or forced off for a test. */
int landlock_abi(void);
/* deny_tcp: handle TCP bind and connect (ABI 4) and allow none. */
int landlock_open(struct landlock *l, bool deny_tcp, struct err *e);
/* `fd` is an O_PATH descriptor; rights that make no sense for a non-directory are dropped. */
int landlock_allow(struct landlock *l, int fd, enum landlock_grant g, struct err *e);
int landlock_apply(struct landlock *l, struct err *e);
void landlock_done(struct landlock *l);

#endif
