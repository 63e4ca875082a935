/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One engine implements one tier behind this vtable. Engines do not know each other; core knows
 * only this header.
 *
 * Order: probe() -> plan() -> start(): the sandbox's first process sets itself up, locks itself
 *        down
 * and reports READY, then waits; core serves the watchers and says GO, with the cgroup to join;
 * only then does the command exist.
 */
#ifndef CROFT_ENGINE_ENGINE_H
#define CROFT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/plan.h"
#include "policy/policy.h"

/* A tree of the workspace as kept overlay layers. Paths absolute. */
struct staging_tree {
	const char *dst;          /* where it appears: the workspace, or a directory in it */
	const char *const *lower; /* newest first, NULL-terminated; the last is the lowest */
	const char *upper, *work; /* both NULL: nobody may write */
};

/* The workspace staged: what the command writes there goes to layers on the host, not to the host's files. */
struct staging {
	const struct staging_tree *trees; /* the workspace itself first; others lie in it */
	size_t trees_n;
	const char *const
		*objects; /* directories shown read-only at objects_dir/0, /1 …, "": not; or NULL */
	const char *objects_dir;
};

/* What to run. Borrowed strings; all paths absolute. */
struct request {
	char *const *argv;
	char *const *envp;     /* complete: nothing of the caller's environment is added */
	const char *cwd;       /* canonical, inside the workspace */
	const char *workspace; /* canonical */
	const char *home;      /* where HOME is, inside and outside */
	const char *scratch;   /* process tier: private directory for HOME and TMPDIR, or NULL */
	bool discard;          /* workspace on an ephemeral overlay */
	const struct staging *staging; /* workspace on kept layers; NULL: in place */
	bool capture;      /* every connection lands in sockets that are handed out with READY */
	bool refuse_names; /* no network: lookups land in a socket that is handed out with READY */
	bool no_retries;   /* no network: CLOSED_APT_CONF tells apt so */
	unsigned trust;    /* bits of enum trust_file: what the command shall find */
	uint16_t proxy_port; /* process tier: the one TCP port that may be connected to, or 0 */
	int stdio[3];        /* what the command gets as 0, 1, 2 */
	bool tty;            /* stdio[] holds a pty slave that becomes the controlling terminal */
	int tty_fd;          /* that slave, or -1 */
	bool tty_background; /* start without the terminal: it is given when the command reads */
};

/* Whom the command shall trust: made outside, put into the private root. */
enum trust_file { TRUST_BUNDLE, TRUST_CA, TRUST_JAVA, TRUST_FILE_NUM };
#define CLOSED_APT_CONF "/.croft/apt.conf"
#define TRUST_DIR "/.croft/trust"
extern const char *const trust_file_names[TRUST_FILE_NUM]; /* below TRUST_DIR */

/*
 * What was really enforced: filled by the sandbox itself while locking down, echoed in the receipt.
 */
struct enforced {
	int32_t landlock_abi; /* 0: none */
	uint32_t landlock_rules;
	uint32_t seccomp_insns;
	uint8_t landlock_reads; /* and not only the mounts */
	uint8_t landlock_tcp;   /* TCP closed by Landlock */
	uint8_t landlock_scoped;
	uint8_t ns_user, ns_mount, ns_pid, ns_net, ns_ipc, ns_uts, ns_cgroup, ns_time;
	uint8_t no_new_privs;
	uint8_t caps_empty;
	uint8_t keyring_new;
	uint8_t groups_dropped; /* supplementary groups gone */
	uint8_t decoys;         /* decoy filesystem serving */
	uint8_t traps;          /* in its place: symlinks that keep when they were followed */
	uint8_t rlimit_pids, rlimit_memory;
	uint8_t capture;     /* all traffic lands in the gateway's sockets */
	uint8_t proxy;       /* TCP to the gateway's port only */
	uint8_t broker;      /* path-changing calls are performed by the broker */
	uint8_t broker_meta; /* and so is metadata, if nothing else */
	uint32_t mounts;
	uint32_t nproc_others; /* STARTED: tasks of the user that RLIMIT_NPROC counts, too */
};

enum sandbox_fd {
	SANDBOX_FD_NOTIFY,
	SANDBOX_FD_DECOY,
	SANDBOX_FD_TRAP,
	SANDBOX_FD_UPPER,
	SANDBOX_FD_NOTICES,
	SANDBOX_FD_TCP4, /* captured traffic, in the order of enum capture_fd */
	SANDBOX_FD_TCP6,
	SANDBOX_FD_UDP4,
	SANDBOX_FD_UDP6,
	SANDBOX_FD_INNER, /* CONNECTED */
	SANDBOX_FD_NUM
};
#define SANDBOX_FDS_NONE                                                                           \
	{                                                                                          \
		-1, -1, -1, -1, -1, -1, -1, -1, -1, -1                                             \
	}

/* A started sandbox, as the supervisor holds it. */
struct sandbox {
	pid_t pid;              /* its first process, in our pid namespace */
	int pidfd;              /* -1 where the kernel has none */
	int control;            /* SOCK_SEQPACKET to it */
	int fd[SANDBOX_FD_NUM]; /* received with READY, -1 unused */
	bool in_cgroup;         /* born in the cgroup: no need to enter it */
	struct enforced enforced;
};

struct engine {
	const char *name;
	enum tier tier;
	/*
	 * Can this machine hold this tier? Tried by doing; on failure `e` has the reason and the
	 * fix.
	 */
	int (*probe)(struct err *e);
	int (*plan)(
		struct plan *ret, const struct policy *p, const struct request *r, struct err *e);
	/* Returns once the child exists; set-up errors arrive as control messages. */
	int (*start)(struct sandbox *s, const struct plan *p, const struct request *r,
		int cgroup_fd, struct err *e);
};

extern const struct engine engine_process;
extern const struct engine engine_namespace;

/* Control messages (engine/init.c), fixed size, checked on receipt. */
enum control_type {
	CONTROL_READY = 1,
	CONTROL_GO,
	CONTROL_STARTED,
	CONTROL_FAILED,
	CONTROL_EXIT,
	CONTROL_STOPPED,
	CONTROL_ASK_TRUST, /* before READY: trust files cannot be served here, so TRUST, please */
	CONTROL_TRUST,     /* S: msg is a certificate as PEM; perhaps a descriptor for Java: the
			      whole file, or (status 1) what goes around the host's */
	CONTROL_CONNECT,   /* S: a connection to port `status` on loopback inside, please */
	CONTROL_CONNECTED, /* its answer: INNER, or status is an errno */
	CONTROL_NUM
};

/* What a cgroup holds already, so that no rlimit need stand in for it. */
enum go_flags { GO_CGROUP_MEMORY = 1, GO_CGROUP_PIDS = 2 };

struct control_msg {
	uint32_t type;
	int32_t status;    /* EXIT, STOPPED: wait status; GO: enum go_flags; CONNECT: port */
	uint32_t err_kind; /* FAILED */
	uint32_t err_boundary;
	int32_t errnum;
	uint64_t utime_us, stime_us, maxrss_kb; /* EXIT */
	uint32_t scratch_full;    /* EXIT: the private tmpfs had no room left at the end */
	uint32_t fd_mask;         /* READY: which enum sandbox_fd follow as SCM_RIGHTS, in order;
				     GO: as many bits as cgroup descriptors to join */
	struct enforced enforced; /* READY, STARTED */
	char msg[ERR_MSG_MAX];    /* FAILED */
};

#endif
