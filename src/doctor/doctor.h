/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine can enforce, found out by doing it.
 *
 * Purpose: one finding per kernel feature, the tiers that hold here, and the fix for what is
 * missing. Trust:   every check runs in a child of its own, which may confine, break or lose
 * itself; only a fixed-size answer comes back. Limits:  a check that gives no answer within
 * DOCTOR_CHECK_MS is ended and counts as "no".
 */
#ifndef CROFT_DOCTOR_DOCTOR_H
#define CROFT_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/policy.h"

#define DOCTOR_FINDINGS_MAX 40
#define DOCTOR_CHECK_MS 5000
#define DOCTOR_DETAIL_MAX 256
#define DOCTOR_FIX_MAX 1024

enum doctor_state {
	DOCTOR_NO,
	DOCTOR_PARTLY,
	DOCTOR_YES,
	DOCTOR_FACT, /* neither good nor bad: said for the reader */
	DOCTOR_STATE_NUM,
};
extern const char *const doctor_state_names[DOCTOR_STATE_NUM];

enum doctor_group {
	DOCTOR_NAMESPACES,
	DOCTOR_FILES,
	DOCTOR_CONFINEMENT,
	DOCTOR_PROCESSES,
	DOCTOR_MACHINE,
	DOCTOR_GROUP_NUM,
};
extern const char *const doctor_group_names[DOCTOR_GROUP_NUM];

/* What a check answers; crosses a pipe, so it holds no pointers. */
struct doctor_answer {
	enum doctor_state state;
	char detail[DOCTOR_DETAIL_MAX]; /* what was seen, one line */
	char fix[DOCTOR_FIX_MAX]; /* what would make it work; may have several lines; "" none */
};

struct doctor_check {
	const char *id; /* stable: in the JSON */
	enum doctor_group group;
	const char *title;
	void (*run)(struct doctor_answer *a); /* in a child of its own */
};
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_checks_n;

struct doctor_finding {
	const struct doctor_check *check;
	struct doctor_answer answer;
};

struct doctor_tier {
	enum tier tier;
	bool holds;
	char reason[ERR_MSG_MAX]; /* why not; "" when it holds */
};

struct doctor {
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
	size_t n;
	struct doctor_tier tiers[TIER_NUM]; /* strongest first */
	size_t tiers_n;
	enum tier chosen; /* what --tier auto would take; TIER_AUTO: none holds */
};

/* Run every check and every engine's probe. */
int doctor_examine(struct doctor *ret, struct err *e);
const struct doctor_finding *doctor_find(const struct doctor *d, const char *id);
void doctor_text(const struct doctor *d, struct buf *out);
void doctor_json(const struct doctor *d, struct buf *out);

/* For the checks. */
void doctor_say(struct doctor_answer *a, enum doctor_state s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_fix(struct doctor_answer *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The checks, by file: doctor_ns.c, doctor_files.c, doctor_kernel.c, doctor_machine.c. */
void doctor_check_userns(struct doctor_answer *a);
void doctor_check_mntns(struct doctor_answer *a);
void doctor_check_pidns(struct doctor_answer *a);
void doctor_check_netns(struct doctor_answer *a);
void doctor_check_capture(struct doctor_answer *a);
void doctor_check_ipcns(struct doctor_answer *a);
void doctor_check_utsns(struct doctor_answer *a);
void doctor_check_cgroupns(struct doctor_answer *a);
void doctor_check_timens(struct doctor_answer *a);
void doctor_check_mount_api(struct doctor_answer *a);
void doctor_check_proc(struct doctor_answer *a);
void doctor_check_overlay(struct doctor_answer *a);
void doctor_check_fuse(struct doctor_answer *a);
void doctor_check_openat2(struct doctor_answer *a);
void doctor_check_landlock(struct doctor_answer *a);
void doctor_check_landlock_tcp(struct doctor_answer *a);
void doctor_check_seccomp(struct doctor_answer *a);
void doctor_check_seccomp_notify(struct doctor_answer *a);
void doctor_check_caps(struct doctor_answer *a);
void doctor_check_keyring(struct doctor_answer *a);
void doctor_check_yama(struct doctor_answer *a);
void doctor_check_clone3(struct doctor_answer *a);
void doctor_check_pidfd(struct doctor_answer *a);
void doctor_check_cgroup(struct doctor_answer *a);
void doctor_check_machine(struct doctor_answer *a);
void doctor_check_lsm(struct doctor_answer *a);
void doctor_check_container(struct doctor_answer *a);
void doctor_check_subuid(struct doctor_answer *a);
void doctor_check_kvm(struct doctor_answer *a);

/* In a check: enter a new user namespace and others with it, mapped to ourselves. 0 or -errno with
 * the answer filled: what failed and, where it can be told, the fix. */
int doctor_enter_userns(struct doctor_answer *a, int more_flags);
/* A small kernel file as one trimmed line; "" when it cannot be read. */
void doctor_read_line(const char *path, char *ret, size_t size);
bool doctor_in_container(char *ret_what, size_t size);

#endif
