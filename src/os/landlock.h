/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, ABI 1 to 7, as the kernel has it.
 *
 * Order: landlock_open() asks for everything this kernel can handle; landlock_allow() adds rules by
 * file descriptor; landlock_apply() needs no_new_privs and cannot be undone.
 *
 * Without Landlock (abi 0) open, allow and apply succeed and do nothing: the caller looks at `abi`,
 * `handled_net` and `scoped` and decides what that means. What each ABI cannot refuse: below 2
 * every rename or link between directories fails (EXDEV); below 3 truncate() of any file the user
 * could write; below 4 TCP; below 5 ioctl on devices; below 6 signals and abstract sockets. At no
 * ABI: metadata (mode, owner, times, xattrs), stat, UDP, connect() to sockets in the filesystem.
 */
#ifndef CROFT_OS_LANDLOCK_H
#define CROFT_OS_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What a rule gives below its path. */
enum landlock_grant {
	LANDLOCK_GRANT_READ,             /* read files, list directories, execute */
	LANDLOCK_GRANT_WRITE,            /* READ and every change but making device nodes */
	LANDLOCK_GRANT_WRITE_NO_SOCKETS, /* WRITE, but no socket may be made: bind() is not brokered */
	LANDLOCK_GRANT_DEVICE, /* read, write, ioctl on what exists; nothing may be made or executed
				*/
};

struct landlock {
	int fd;
	int abi; /* 0: kernel has no Landlock */
	uint64_t handled_fs;
	uint64_t handled_net;
	uint64_t scoped;
};

#define LANDLOCK_INIT ((struct landlock){.fd = -1})

/*
 * The kernel's ABI version; 0 when Landlock is absent, disabled, or forced off for a test. For
 * tests "landlockN" in CROFT_FORCE_FAIL takes ABI N and later away.
 */
int landlock_abi(void);
/* What to leave to somebody else, and what to take on beyond files. */
enum landlock_flags {
	LANDLOCK_DENY_TCP = 1,    /* handle TCP bind and connect (ABI 4) and allow none */
	LANDLOCK_CHANGES_ONLY = 2 /* neither reading nor truncation: nothing is looked up on an open
				     for reading, which is most of what a build does */
};
int landlock_open(struct landlock *l, unsigned flags, struct err *e);
/* `fd` is an O_PATH descriptor; rights that make no sense for a non-directory are dropped. */
int landlock_allow(struct landlock *l, int fd, enum landlock_grant g, struct err *e);
/* TCP to this port, of whatever host: Landlock knows no addresses. Needs LANDLOCK_DENY_TCP. */
int landlock_allow_connect(struct landlock *l, uint16_t port, struct err *e);
int landlock_apply(struct landlock *l, struct err *e);
/*
 * A ruleset that scopes signals and nothing else (ABI 6), to be entered later by another process
 * than the one that made it: who is not below that one cannot be signalled from then on.
 */
int landlock_open_signals(struct err *e);
int landlock_enter(int ruleset, struct err *e);
void landlock_done(struct landlock *l);

#endif
