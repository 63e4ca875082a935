/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker performs path-changing system calls on behalf of the sandbox, so that rules which
 * neither mounts nor Landlock can express hold without a race.
 *
 * Purpose: deny or read-only inside a writable tree, names that do not exist yet, and metadata
 *          (mode, owner, times, xattrs), which Landlock does not govern. Also metadata of what the
 *          command holds from outside: such a descriptor carries the host's own mount. And, in the
 *          process tier without network rules, connections, so that they are told.
 * Trust:   it lives inside the boundary (same root, same Landlock domain, no capabilities), so being
 *          fooled gains nothing beyond what the sandbox already has minus the rules. It never lets the
 *          kernel re-read a path it has judged: it acts itself and returns the result or the fd.
 * Place:   it reads its callers' memory, so it must be allowed to trace them. Yama's usual setting
 *          (ptrace_scope 1) allows that to ancestors only: the broker is either a process above the
 *          command, or a thread of one (a thread that the filter is not installed on).
 * Names:   what is judged is the kernel's name of the resolved object. A rule whose path goes through a
 *          symlink holds for that name and for where it led when the broker started.
 * Failure: when it dies the kernel answers brokered calls with ENOSYS: closed, not open.
 */
#ifndef CROFT_ENGINE_BROKER_BROKER_H
#define CROFT_ENGINE_BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/box/stdio.h"
#include "engine/broker/starts.h"
#include "policy/policy.h"

struct broker {
	int listener; /* seccomp notification fd */
	int notices;  /* SOCK_SEQPACKET to the supervisor; sends never block (drops are counted) */
	const struct policy *policy;
	/* Trees of the sandbox's own (private /tmp, HOME…) where everything is allowed; NULL-terminated. */
	const char *const *scratch;
	bool observe_reads; /* also judge and report reads (SECCOMP_NOTIFY_READS) */
	/*
	 * Names are held by the mounts: calls by path are looked at and left to the kernel, and of
	 * metadata only that of `outside` is refused.
	 */
	bool metadata_only;
	const struct outside *outside; /* what the command was given by descriptor */
	size_t outside_n;
	bool allow_setid;  /* nothing is written in place: set-id files stay in layers */
	bool private_root; /* outside is told by its mount, otherwise by its number */
	struct starts *starts; /* whose exec is croft's own; NULL: nobody's */
	bool thread; /* runs in a thread: takes its own descriptor table, umask and cwd first */
};

/*
 * Serve until the last process under the filter is gone. Runs in its own process or thread, and closes
 * every descriptor there but the two. Returns an exit status; after anything but 0 the sandbox must end.
 */
int broker_serve(const struct broker *b);

#endif
