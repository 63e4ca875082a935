/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared between the broker's files only.
 *
 *   broker.c          the loop, answers, notices, helpers for opens that block
 *   broker_resolve.c  from the caller's string to descriptors and the kernel's name of them
 *   broker_judge.c    what the policy says about such a spot
 *   broker_rules.c    the policy's rules, prepared for that
 *   broker_open.c     open
 *   broker_change.c   make, remove, rename, link
 *   broker_meta.c     mode, owner, times, extended attributes, truncate, flags
 *   broker_net.c      connections and sockets where there is no network
 *   broker_look.c     metadata_only: what else is attempted, for the record
 *
 * Order per call: copy strings -> resolve -> judge -> still alive? -> act -> notice -> answer. The
 * broker is one thread, and every change the sandbox makes to names goes through it: between
 * judging and acting no process of the sandbox can change what was judged.
 */
#ifndef CROFT_ENGINE_BROKER_BROKER_IMPL_H
#define CROFT_ENGINE_BROKER_BROKER_IMPL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "engine/broker/broker.h"
#include "engine/notice.h"
#include "os/notify.h"
#include "os/pathcall.h"

#define BROKER_HELPERS_MAX 64 /* opens waiting for the other end of a FIFO */
#define BROKER_HOPS_MAX 40    /* symlinks followed by hand, as many as the kernel would */
#define BROKER_TRIES_MAX 8    /* restarts when the host changes a name under us */
#define BROKER_XATTR_MAX 65536u
#define BROKER_RECENT 1024 /* remembered notices, so that the same news is not told twice */
#define FD_PATH_MAX 40     /* "/proc/thread-self/fd/N" */
#define BROKER_SCRATCH_MAX 64
#define BROKER_PATTERN_MAX 128 /* components of one pattern */

struct helper {
	pid_t pid;
	uint64_t id; /* the notification it will answer */
};

struct work {
	const struct broker *b;
	struct notify n;
	pid_t own; /* our pid, as /proc names us */
	pid_t own_thread;
	int proc;             /* O_PATH of /proc */
	int self_fd;          /* O_PATH of /proc/thread-self/fd */
	mode_t umask_default;
	bool no_openat2; /* absent or forced away: magic links are then judged by where they lead */
	struct strlist scratch; /* canonical */
	struct policy alias;    /* rules again, where the canonical name of their path differs */
	const char **narrow;    /* plain paths with less than write, sorted */
	size_t narrow_n;
	struct narrow_glob *globs; /* patterns with less than write, taken apart */
	size_t globs_n;
	struct helper helpers[BROKER_HELPERS_MAX];
	size_t helpers_n;

	/* The call at hand. */
	uint64_t id;
	pid_t tid;
	pid_t tgid; /* 0 until asked for */
	mode_t umask;
	struct pathcall c;
	char path[2][NOTIFY_STRING_MAX];
	int give_fd; /* answer with this descriptor */
	bool give_cloexec;
	bool deferred; /* a helper answers */
	bool pass;     /* let the kernel do it */
	bool starts;   /* it is an exec of croft's own: `start` is then used up */
	struct start_seen start;

	/* What to tell, before the answer. */
	struct notice notices[2];
	size_t notices_n;
	uint32_t lost, lost_network;
	uint32_t recent[BROKER_RECENT];

	char value[BROKER_XATTR_MAX];
};

/* Where a path leads: an object that exists, or the place for a name in a directory. */
struct spot {
	int fd;                  /* O_PATH of the object; -1 for a slot */
	int parent;              /* slot: O_PATH of the directory; else -1 */
	int fd_no;               /* the caller's own descriptor that it was reached by, or -1 */
	struct stat st;          /* of the object */
	char last[NAME_MAX + 2]; /* slot: the name there, with a trailing slash if given */
	char name[PATH_MAX];     /* the kernel's name; not starting with '/' when it has none */
};

#define SPOT_INIT ((struct spot){.fd = -1, .parent = -1, .fd_no = -1})
#define cleanup_spot __attribute__((cleanup(spot_done)))
void spot_done(struct spot *p);

/* ---- broker_resolve.c: 0 or -errno ---- */

enum spot_how { SPOT_NOFOLLOW = 1, SPOT_DIRECTORY = 2, SPOT_EMPTY_OK = 4 };

int resolve_open(struct work *w); /* once, at the start */
/* The caller's process (not thread) and umask; needed only for some calls. */
int target_status(struct work *w);
int spot_object(struct work *w, int dfd, const char *path, unsigned how, struct spot *ret);
/* The same for a call without a path: the caller's descriptor. */
int spot_fd(struct work *w, int fd, struct spot *ret);
int spot_slot(struct work *w, int dfd, const char *path, struct spot *ret);
/* What is in the slot now. */
int spot_in_slot(struct work *w, const struct spot *slot, unsigned how, struct spot *ret);
/*
 * For open with O_CREAT: the name is a symlink to something absent; go there instead. 0: *ret is
 * the slot it points to; -EEXIST: it is no symlink.
 */
int spot_slot_follow(struct work *w, struct spot *slot);
/* -1, or a copy of the caller's descriptor if it was opened with what `oflags` needs. */
int target_dup(struct work *w, int fd, int oflags);
/* "N" for use below self_fd. */
const char *fd_name(int fd, char buf[16]);

/* ---- broker_rules.c ---- */

int rules_open(struct work *w); /* once, at the start */
void rules_done(struct work *w);
/* policy_access() by any of a rule's names. */
enum access rules_access(const struct work *w, const char *name, const struct policy_rule **ret);
/* Is something below protected by a rule that spells out this very name? */
bool rules_lead_through(const struct work *w, const char *name);
/* Do patterns protect what is below these two names alike? */
bool rules_same_below(const struct work *w, const char *a, const char *b);

/* ---- broker_judge.c ---- */

bool judge_write_name(const struct work *w, const char *name);
/* May this object be written? */
bool judge_write(const struct work *w, const struct spot *p);
/* Its metadata alone: device nodes of the host keep theirs, although they may be written. */
bool judge_meta(const struct work *w, const struct spot *p);
/* Reading: only what a rule denies is refused here; what no rule covers is Landlock's. */
bool judge_read(const struct work *w, const struct spot *p);
/* GITNAME_NONE: not in a Git directory that is granted for committing. */
enum gitname judge_git(const struct work *w, const char *name);
/*
 * Would this be anything but a file or directory in one? Git follows symlinks when it writes, and what it
 * writes to its logs is partly the command's choice.
 */
bool judge_git_odd(const struct work *w, const char *name, mode_t mode);
/* May something be made here (dir: a directory), or removed from here? */
bool judge_make(const struct work *w, const struct spot *slot, bool dir);
bool judge_remove(const struct work *w, const struct spot *slot);
/* Is this a directory on the way to a name that runs on the host? */
bool judge_leads_to_held(const struct work *w, const char *name);
/* May a directory change its name so, with all that is below it? Both names were judged already. */
bool judge_move_below(const struct work *w, const struct spot *from, const struct spot *to);
bool judge_scratch(const struct work *w, const char *name);
/* Behind a well-known path that croft made: what the kernel refuses there is a denial. */
bool judge_own(const char *name);

/* ---- broker.c ---- */

/* Note what to tell the supervisor before the call is answered. */
void tell(struct work *w, enum notice_op op, bool denied, bool exists, const char *name);
/* The same for what has no path: an address, or a word of notice.h. */
void tell_network(struct work *w, const char *what, uint16_t port);
/* Denied: told, and the answer. */
int deny(struct work *w, enum notice_op op, bool exists, const char *name);
/* The same for making a name; what is there already is EEXIST and no news. */
int deny_make(struct work *w, const struct spot *slot);
/* Set-user-id and set-group-id bits on files are refused everywhere: EPERM. */
int deny_setid(struct work *w, enum notice_op op, bool exists, const char *name);
/* To be asked after everything was resolved and before anything is done. */
bool target_alive(const struct work *w);
/* A path argument of the call, copied once. */
int fetch_path(struct work *w, int i);
/* Open `fd` again in a process of its own, which answers when that returns. */
int open_in_helper(struct work *w, int fd, int oflags, bool cloexec);

/* ---- operations: the call's result or -errno ---- */

int64_t broker_open(struct work *w);
int64_t broker_exec(struct work *w);
int64_t broker_mkdir(struct work *w);
int64_t broker_mknod(struct work *w);
int64_t broker_symlink(struct work *w);
int64_t broker_link(struct work *w);
int64_t broker_unlink(struct work *w);
int64_t broker_rename(struct work *w);
int64_t broker_truncate(struct work *w);
int64_t broker_chmod(struct work *w);
int64_t broker_chown(struct work *w);
int64_t broker_utime(struct work *w);
int64_t broker_setxattr(struct work *w);
int64_t broker_removexattr(struct work *w);
int64_t broker_setflags(struct work *w);
/* Is it a call of SECCOMP_NOTIFY_NETWORK? */
bool broker_is_network(const struct work *w);
int64_t broker_network(struct work *w);
/* Tell what a call by path attempts; the kernel decides and does it. */
int64_t broker_look(struct work *w);

#endif
