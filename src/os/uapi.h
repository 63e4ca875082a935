/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel ABI newer than the distribution's headers. Numbers are the kernel's; the names match its
 * uapi so that a newer header can replace any of these without a change in the code.
 */
#ifndef CROFT_OS_UAPI_H
#define CROFT_OS_UAPI_H

#include <stdint.h>
#include <sys/syscall.h>

/* System calls (common numbers on every architecture since 5.1). */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* Seccomp notification (6.6): answerer and caller take turns on one CPU. */
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, uint64_t)
#endif

/* struct statx, of which older headers lack the end (5.8), or all of it. */
struct k_statx {
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, pad;
	uint64_t numbers[4]; /* ino, size, blocks, attributes_mask */
	uint64_t times[8];
	uint32_t devices[4];
	uint64_t mnt_id;
	uint64_t rest[13];
};
_Static_assert(sizeof(struct k_statx) == 256, "the kernel's struct statx");
#define K_STATX_BASIC 0x7ffu
#define K_STATX_MNT_ID 0x1000u
#define K_AT_STATX_DONT_SYNC 0x4000u /* ask nobody, a FUSE server least of all */

/* A socket that takes no descriptors (6.16): sending one to it fails. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* Extended attributes with a directory descriptor (6.13). */
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
#ifndef SYS_removexattrat
#define SYS_removexattrat 466
#endif

#endif
