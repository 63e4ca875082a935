/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One engine implements one tier behind this vtable. Engines do not know each other; core knows
 * only this header.
 *
 * Order: probe() -> (begin() ->) plan() -> start(): the sandbox's first process sets itself up, locks itself
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
#include "engine/plan/plan.h"
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

/*
 * A path of the host's as the sandbox may write it: what it writes stays beside the environment, in croft's
 * state. Paths absolute and canonical.
 */
struct request_view {
	const char *path;
	const char *upper, *work; /* of a directory; NULL: what is written is lost in the end */
	const char *copy;         /* of a file: its private version; NULL: it is only read */
	const char *kept;         /* the directory whose size counts; NULL: nothing is kept */
};
#define REQUEST_VIEWS_MAX 32u

/* What to run. Borrowed strings; all paths absolute. */
struct request {
	bool serve; /* no command of its own: they come while it is up (engine/init/init_session.h) */
	char *const *argv;
	char *const *envp;     /* complete: nothing of the caller's environment is added */
	const char *cwd;       /* canonical, inside the workspace */
	const char *workspace; /* canonical */
	const char *home;      /* where HOME is, inside and outside */
	const char *scratch;   /* process tier: private directory for HOME and TMPDIR, or NULL */
	bool discard;          /* workspace on an ephemeral overlay */
	const struct staging *staging; /* workspace on kept layers; NULL: in place */
	const struct request_view *views;
	size_t views_n;
	bool capture;      /* every connection lands in sockets that are handed out with READY */
	const uint16_t *local_ports; /* and those to these ports of loopback, which are the host's */
	size_t local_ports_n;
	bool refuse_names; /* no network: lookups land in a socket that is handed out with READY */
	bool no_retries;   /* no network: CLOSED_APT_CONF tells apt so */
	const char *git_config; /* text of GIT_CONF: who commits; NULL: not known */
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
#define GIT_CONF "/.croft/gitconfig"
#define TRUST_DIR "/.croft/trust"
extern const char *const trust_file_names[TRUST_FILE_NUM]; /* below TRUST_DIR */

/*
 * What was really enforced: filled by the sandbox itself while locking down, echoed in the receipt.
 * One list, so that no field can be missing from the message that carries it (init/control.c):
 * N is a number, F a flag.
 */
/* clang-format off */
#define ENFORCED(N, F)                                                                             \
	N(landlock_abi) /* 0: none */                                                              \
	N(landlock_rules)                                                                          \
	N(seccomp_insns)                                                                           \
	F(landlock_reads) /* and not only the mounts */                                            \
	F(landlock_tcp)   /* TCP closed by Landlock */                                             \
	F(landlock_scoped)                                                                         \
	F(ns_user) F(ns_mount) F(ns_pid) F(ns_net) F(ns_ipc) F(ns_uts) F(ns_cgroup) F(ns_time)     \
	F(no_new_privs)                                                                            \
	F(caps_empty)                                                                              \
	F(keyring_new)                                                                             \
	F(groups_dropped) /* supplementary groups gone */                                          \
	F(decoys)         /* decoy filesystem serving */                                           \
	F(traps)          /* in its place: symlinks that keep when they were followed */           \
	F(rlimit_pids) F(rlimit_memory)                                                            \
	F(capture)     /* all traffic lands in the gateway's sockets */                            \
	F(proxy)       /* TCP to the gateway's port only */                                        \
	F(broker)      /* path-changing calls are performed by the broker */                       \
	F(broker_meta) /* and so is metadata, if nothing else */                                   \
	N(mounts)                                                                                  \
	N(nproc_others) /* STARTED: tasks of the user that RLIMIT_NPROC counts, too */
/* clang-format on */

#define ENFORCED_NUMBER(name) uint32_t name;
#define ENFORCED_FLAG(name) uint8_t name;
struct enforced {
	ENFORCED(ENFORCED_NUMBER, ENFORCED_FLAG)
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
	bool waits;             /* begun, and waits for the plan of start() */
	struct enforced enforced;
};

/*
 * What an engine's boundary has or does. The parts above ask for these, never for a tier by name
 * (tools/check-layers), so that an engine that is added later need only say what it is.
 */
enum engine_can {
	/* Changes of the workspace can be staged or discarded. */
	ENGINE_STAGE = 1 << 0,
	/* The end of the first process ends all others. */
	ENGINE_OWN_PIDS = 1 << 1,
	/*
	 * All connections and lookups can be captured, and ports be published. Without it programs
	 * have to use the gateway's proxy port.
	 */
	ENGINE_OWN_NETWORK = 1 << 2,
	/*
	 * /tmp, HOME, /run and /dev are the sandbox's own, with a limit on their size. Without it
	 * HOME and TMPDIR lead to a directory on the host.
	 */
	ENGINE_PRIVATE_ROOT = 1 << 3,
	/* Named sockets of host services in granted trees can be connected to. */
	ENGINE_UNIX_SOCKETS = 1 << 4,
	/* A broker judges every name, whatever the policy is. */
	ENGINE_BROKER = 1 << 5,
	/* There is a time namespace where the kernel has them. */
	ENGINE_TIME_NAMESPACE = 1 << 6,
	/* Strong enough for `threat: hostile`. */
	ENGINE_HOSTILE = 1 << 7,
};

struct engine {
	const char *name;
	enum tier tier;
	unsigned can; /* bits of enum engine_can */
	/*
	 * Can this machine hold this tier? Tried by doing; on failure `e` has the reason and the
	 * fix.
	 */
	int (*probe)(struct err *e);
	/*
	 * Optional: start before the plan is made. The sandbox sets up what every plan for this request
	 * begins with, which is put into *ret for plan() to go on with, and waits for start(). -errno:
	 * nothing was begun, and start() does all.
	 */
	int (*begin)(struct sandbox *s, struct plan *ret, const struct policy *p,
		const struct request *r, struct err *e);
	int (*plan)(
		struct plan *ret, const struct policy *p, const struct request *r, struct err *e);
	/* Returns once the child exists; set-up errors arrive as control messages. */
	int (*start)(struct sandbox *s, const struct plan *p, const struct request *r,
		int cgroup_fd, struct err *e);
};

extern const struct engine engine_process;
extern const struct engine engine_namespace;

/* Every engine, strongest first (tier_strength()): the order in which `auto` tries them. */
#define ENGINES_MAX TIER_NUM
extern const struct engine *const engine_list[];
extern const size_t engine_list_n;
const struct engine *engine_of(enum tier t); /* NULL for TIER_AUTO */
/* One that waits for its plan shall not get one: end it. */
void sandbox_abandon(struct sandbox *s);
/* Can the engine of this tier do all of that? TIER_AUTO: can any? */
bool engine_tier_can(enum tier t, unsigned can);

/* Control messages between the supervisor S and the first process; their form: engine/init/control.c. */
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
	CONTROL_PLAN,      /* S: what it waits for is handed over (os/heap.h), to one that was begun early */
	CONTROL_NUM
};

/* What a cgroup holds already, so that no rlimit need stand in for it. */
enum go_flags { GO_CGROUP_MEMORY = 1, GO_CGROUP_PIDS = 2 };

/* A message as it is read; what its type does not have is 0. */
struct control_msg {
	uint32_t type;
	int32_t status;    /* EXIT, STOPPED: wait status; GO: enum go_flags; CONNECT: port;
			      TRUST, CONNECTED: see there; READY: the number of the broker's thread */
	uint32_t id;       /* CONNECT, and repeated in CONNECTED */
	uint32_t err_kind; /* FAILED */
	uint32_t err_boundary;
	int32_t errnum;
	uint64_t utime_us, stime_us, maxrss_kb; /* EXIT */
	uint32_t scratch_full;    /* EXIT: the private tmpfs had no room left at the end */
	uint32_t fd_mask;         /* READY: which enum sandbox_fd follow as SCM_RIGHTS, in order;
				     GO: as many bits as cgroup descriptors to join */
	struct enforced enforced; /* READY, STARTED */
	char msg[ERR_MSG_MAX];    /* FAILED, TRUST */
};

#endif
