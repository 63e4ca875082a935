/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up privilege for good: see caps.h.
 *
 * Order:  no_new_privs first, so that nothing later can be undone by exec; securebits and the
 * bounding set while CAP_SETPCAP is still there; then the process's own sets. Limits: without
 * CAP_SETPCAP the bounding set stays, which is sound: it only bounds what exec may give, and with
 * no_new_privs and an empty permitted set exec gives nothing.
 */
#include "os/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/forced.h"
#include "os/uapi.h"

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif
#ifndef SECBIT_NO_CAP_AMBIENT_RAISE
#define SECBIT_NO_CAP_AMBIENT_RAISE (1 << 6)
#define SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED (1 << 7)
#endif

/* Uid 0 means nothing, identity changes bring nothing, and it stays so. */
#define SECUREBITS                                                                                 \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                           \
		SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |                          \
		SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

#define CAPS_MAX 64 /* bits in the kernel's sets */

struct cap_sets {
	struct __user_cap_data_struct half[2];
};

static int get_sets(struct cap_sets *ret)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capget, &h, ret->half) < 0 ? -errno : 0;
}

static int set_empty(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct cap_sets none = {0};

	return syscall(SYS_capset, &h, none.half) < 0 ? -errno : 0;
}

static bool sets_empty(const struct cap_sets *s)
{
	for (int i = 0; i < 2; i++) {
		if (s->half[i].effective || s->half[i].permitted || s->half[i].inheritable)
			return false;
	}
	return true;
}

static int drop_bounding(struct err *e)
{
	for (int cap = 0; cap < CAPS_MAX; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL && cap > 0)
			return 0; /* past the last one this kernel has */
		return err_set(e, errno, "drop capability %d from the bounding set", cap);
	}
	return 0;
}

static int lock_securebits(struct err *e)
{
	int now = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	if (now < 0)
		return err_set(e, errno, "read securebits");
	if ((now & SECUREBITS) == SECUREBITS)
		return 0;
	/* EPERM: someone before us locked a bit the other way; the empty sets below hold alone. */
	if (prctl(PR_SET_SECUREBITS, (now | SECUREBITS) & ~SECBIT_KEEP_CAPS, 0, 0, 0) < 0 &&
		errno != EPERM)
		return err_set(e, errno, "lock securebits");
	return 0;
}

/*
 * Read back what the kernel says now. The ambient set is within permitted and inheritable by the
 * kernel's own rule; the bounding set answered for each capability as it was dropped (reading both
 * back one by one would be eighty system calls on the path of every command).
 */
static int verify(struct err *e)
{
	struct cap_sets s;
	int rc = get_sets(&s);

	if (rc < 0)
		return err_set(e, rc, "read capabilities back");
	if (!sets_empty(&s))
		return err_refuse(e, "capabilities are left after dropping them all");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_refuse(e, "no_new_privs did not hold");
	return 0;
}

int caps_drop_all(struct err *e)
{
	struct cap_sets s;
	int rc;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, errno, "set no_new_privs");
	rc = get_sets(&s);
	if (rc < 0)
		return err_set(e, rc, "read capabilities");
	if (s.half[0].effective & (1u << CAP_SETPCAP)) {
		rc = lock_securebits(e);
		if (rc == 0)
			rc = drop_bounding(e);
		if (rc < 0)
			return rc;
	}
	/* Older kernels (before 4.3) have no ambient set to clear: EINVAL. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return err_set(e, errno, "clear ambient capabilities");
	if (!sets_empty(&s)) {
		rc = set_empty();
		if (rc < 0)
			return err_set(e, rc, "drop capabilities");
	}
	return verify(e);
}

int caps_reduce(uint64_t keep, struct err *e)
{
	if (keep)
		return err_refuse(e, "capabilities cannot be kept in a sandbox by this croft");
	return caps_drop_all(e);
}

int keyring_new_session(struct err *e)
{
	if (forced_fail("keyring"))
		return 1;
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
		return 0;
	switch (errno) {
	case ENOSYS: /* no keyrings in this kernel */
	case EPERM:  /* an outer filter refuses keyctl, to us and to the command */
	case EACCES:
	case EDQUOT: /* the user's quota of keys is used up */
		return 1;
	default:
		return err_set(e, errno, "join a new session keyring");
	}
}
