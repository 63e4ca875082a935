/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock rulesets: see landlock.h. Every right that the running kernel knows is handled, so what
 * no rule grants is refused; what a right means at which ABI is written down once, in the table
 * below.
 */
#include "os/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/uapi.h"

/* The kernel's names and values; distribution headers stop at various ABIs. */
#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_MAKE_CHAR (1ULL << 6)
#define FS_MAKE_SOCK (1ULL << 9)
#define FS_MAKE_BLOCK (1ULL << 11)
#define FS_ABI1 ((1ULL << 13) - 1)
#define FS_REFER (1ULL << 13)     /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */

#define NET_BIND_TCP (1ULL << 0)    /* ABI 4 */
#define NET_CONNECT_TCP (1ULL << 1) /* ABI 4 */

#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)               /* ABI 6 */

#define CREATE_RULESET_VERSION (1u << 0)
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2

/* What makes sense on something that is not a directory. */
#define FS_ON_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#define GRANT_READ_FS (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
/* Device nodes are never made inside, whatever is writable. */
#define GRANT_WRITE_FS                                                                             \
	((FS_ABI1 & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK)) | FS_REFER | FS_TRUNCATE | FS_IOCTL_DEV)
#define GRANT_DEVICE_FS (FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#define ABI_TEST_MAX 16 /* "landlockN" is looked for up to this N */

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;             /* ABI 6 */
};

struct path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

struct net_port_attr {
	uint64_t allowed_access;
	uint64_t port;
};

int landlock_abi(void)
{
	long abi;

	if (forced_fail("landlock"))
		return 0;
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	if (abi <= 0)
		return 0;
	if (!getenv("CROFT_FORCE_FAIL"))
		return (int)abi;
	for (int n = 1; n <= ABI_TEST_MAX && n <= abi;
		n++) { /* "landlock4": as if ABI 4 were not there */
		char feature[16];

		snprintf(feature, sizeof(feature), "landlock%d", n);
		if (forced_fail(feature))
			return n - 1;
	}
	return (int)abi;
}

int landlock_open(struct landlock *l, unsigned flags, struct err *e)
{
	struct ruleset_attr attr = {.handled_access_fs = FS_ABI1};
	size_t size = sizeof(attr);
	int abi = landlock_abi();
	long fd;

	*l = LANDLOCK_INIT;
	if (abi == 0)
		return 0;
	if (abi >= 2)
		attr.handled_access_fs |= FS_REFER;
	if (abi >= 3)
		attr.handled_access_fs |= FS_TRUNCATE;
	if (abi >= 4 && (flags & LANDLOCK_DENY_TCP))
		attr.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
	if (abi >= 5)
		attr.handled_access_fs |= FS_IOCTL_DEV;
	if (flags & LANDLOCK_CHANGES_ONLY)
		attr.handled_access_fs &= ~(FS_READ_FILE | FS_READ_DIR | FS_TRUNCATE);
	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
	if (abi < 6)
		size = offsetof(struct ruleset_attr, scoped);
	if (abi < 4)
		size = offsetof(struct ruleset_attr, handled_access_net);
	fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0); /* close-on-exec by itself */
	if (fd < 0)
		return err_set(e, errno, "create a Landlock ruleset (ABI %d)", abi);
	*l = (struct landlock){.fd = (int)fd,
		.abi = abi,
		.handled_fs = attr.handled_access_fs,
		.handled_net = attr.handled_access_net,
		.scoped = attr.scoped};
	return 0;
}

static uint64_t grant_rights(enum landlock_grant g)
{
	switch (g) {
	case LANDLOCK_GRANT_READ:
		return GRANT_READ_FS;
	case LANDLOCK_GRANT_WRITE:
		return GRANT_WRITE_FS;
	case LANDLOCK_GRANT_WRITE_NO_SOCKETS:
		return GRANT_WRITE_FS & ~FS_MAKE_SOCK;
	case LANDLOCK_GRANT_DEVICE:
		return GRANT_DEVICE_FS;
	default:
		return 0;
	}
}

int landlock_allow(struct landlock *l, int fd, enum landlock_grant g, struct err *e)
{
	struct path_beneath_attr rule = {.parent_fd = fd};
	struct stat st;

	if (l->abi == 0)
		return 0;
	rule.allowed_access = grant_rights(g) & l->handled_fs;
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat the target of a Landlock rule");
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_ON_FILES;
	if (!rule.allowed_access)
		return 0;
	if (syscall(SYS_landlock_add_rule, l->fd, RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_set(e, errno, "add a Landlock rule");
	return 0;
}

int landlock_allow_connect(struct landlock *l, uint16_t port, struct err *e)
{
	struct net_port_attr rule = {.allowed_access = NET_CONNECT_TCP, .port = port};

	if (syscall(SYS_landlock_add_rule, l->fd, RULE_NET_PORT, &rule, 0) < 0)
		return err_set(e, errno, "add a Landlock rule for a port");
	return 0;
}

int landlock_apply(struct landlock *l, struct err *e)
{
	if (l->abi == 0)
		return 0;
	/* Audit records (ABI 7) stay at the kernel's default: the command cannot flood the host's
	 * log. */
	return landlock_enter(l->fd, e);
}

int landlock_open_signals(struct err *e)
{
	struct ruleset_attr attr = {.scoped = SCOPE_SIGNAL};
	long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	return fd < 0 ? err_set(e, errno, "create a Landlock ruleset for signals") : (int)fd;
}

int landlock_enter(int ruleset, struct err *e)
{
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_set(e, errno, "enter the Landlock domain");
	return 0;
}

void landlock_done(struct landlock *l)
{
	close_fd(&l->fd);
}
