/* SPDX-License-Identifier: Apache-2.0 */
/* Running the checks, judging the tiers, and telling it as a table or as JSON: see doctor.h. */
#include "doctor/doctor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "engine/engine.h"
#include "os/clock.h"

const char *const doctor_state_names[] = {"no", "partly", "yes", "fact"};
static_assert(ARRAY_SIZE(doctor_state_names) == DOCTOR_STATE_NUM, "a name per state");

const char *const doctor_group_names[] = {
	"namespaces", "files", "confinement", "processes", "machine"};
static_assert(ARRAY_SIZE(doctor_group_names) == DOCTOR_GROUP_NUM, "a name per group");

const struct doctor_check doctor_checks[] = {
	{"user_namespace", DOCTOR_NAMESPACES, "user namespace", doctor_check_userns},
	{"mount_namespace", DOCTOR_NAMESPACES, "mount namespace", doctor_check_mntns},
	{"pid_namespace", DOCTOR_NAMESPACES, "pid namespace", doctor_check_pidns},
	{"net_namespace", DOCTOR_NAMESPACES, "network namespace", doctor_check_netns},
	{"capture", DOCTOR_NAMESPACES, "network rules (TPROXY)", doctor_check_capture},
	{"ipc_namespace", DOCTOR_NAMESPACES, "ipc namespace", doctor_check_ipcns},
	{"uts_namespace", DOCTOR_NAMESPACES, "uts namespace", doctor_check_utsns},
	{"cgroup_namespace", DOCTOR_NAMESPACES, "cgroup namespace", doctor_check_cgroupns},
	{"time_namespace", DOCTOR_NAMESPACES, "time namespace", doctor_check_timens},
	{"mount_api", DOCTOR_FILES, "mounts by descriptor", doctor_check_mount_api},
	{"proc_mount", DOCTOR_FILES, "fresh /proc", doctor_check_proc},
	{"overlay", DOCTOR_FILES, "overlay (--discard)", doctor_check_overlay},
	{"fuse", DOCTOR_FILES, "FUSE (decoys)", doctor_check_fuse},
	{"openat2", DOCTOR_FILES, "openat2", doctor_check_openat2},
	{"landlock", DOCTOR_CONFINEMENT, "Landlock", doctor_check_landlock},
	{"landlock_tcp", DOCTOR_CONFINEMENT, "Landlock closes TCP", doctor_check_landlock_tcp},
	{"seccomp", DOCTOR_CONFINEMENT, "seccomp filter", doctor_check_seccomp},
	{"seccomp_notify", DOCTOR_CONFINEMENT, "seccomp notification", doctor_check_seccomp_notify},
	{"capabilities", DOCTOR_CONFINEMENT, "capabilities dropped", doctor_check_caps},
	{"keyring", DOCTOR_CONFINEMENT, "new session keyring", doctor_check_keyring},
	{"yama", DOCTOR_CONFINEMENT, "Yama ptrace scope", doctor_check_yama},
	{"clone3", DOCTOR_PROCESSES, "clone3", doctor_check_clone3},
	{"pidfd", DOCTOR_PROCESSES, "pidfd", doctor_check_pidfd},
	{"cgroup", DOCTOR_PROCESSES, "cgroup limits", doctor_check_cgroup},
	{"kernel", DOCTOR_MACHINE, "kernel", doctor_check_machine},
	{"lsm", DOCTOR_MACHINE, "security modules", doctor_check_lsm},
	{"container", DOCTOR_MACHINE, "surroundings", doctor_check_container},
	{"subuid", DOCTOR_MACHINE, "subordinate ids", doctor_check_subuid},
	{"kvm", DOCTOR_MACHINE, "KVM", doctor_check_kvm},
};
const size_t doctor_checks_n = ARRAY_SIZE(doctor_checks);
static_assert(ARRAY_SIZE(doctor_checks) <= DOCTOR_FINDINGS_MAX, "room for every finding");

void doctor_say(struct doctor_answer *a, enum doctor_state s, const char *fmt, ...)
{
	va_list ap;

	a->state = s;
	va_start(ap, fmt);
	vsnprintf(a->detail, sizeof(a->detail), fmt, ap);
	va_end(ap);
}

void doctor_fix(struct doctor_answer *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->fix, sizeof(a->fix), fmt, ap);
	va_end(ap);
}

_Noreturn static void check_child(const struct doctor_check *c, int out)
{
	struct doctor_answer a = {.state = DOCTOR_NO};

	/* A group of its own, so that what it leaves behind can be ended with it. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	c->run(&a);
	_exit(write(out, &a, sizeof(a)) == (ssize_t)sizeof(a) ? 0 : 1);
}

/* One whole answer within the time, or false. */
static bool read_answer(int fd, struct doctor_answer *ret)
{
	struct doctor_answer a;
	size_t got = 0;
	int64_t end = (int64_t)clock_ms() + DOCTOR_CHECK_MS;

	while (got < sizeof(a)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - (int64_t)clock_ms();
		ssize_t n;

		if (left <= 0 || (poll(&p, 1, (int)left) < 0 && errno != EINTR))
			return false;
		if (!p.revents)
			continue;
		n = read(fd, (char *)&a + got, sizeof(a) - got);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		got += n > 0 ? (size_t)n : 0;
	}
	if ((unsigned)a.state >= DOCTOR_STATE_NUM)
		return false;
	a.detail[sizeof(a.detail) - 1] = '\0';
	a.fix[sizeof(a.fix) - 1] = '\0';
	*ret = a;
	return true;
}

static int run_check(const struct doctor_check *c, struct doctor_answer *ret, struct err *e)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, errno, "create pipe");
	pid = fork();
	if (pid < 0) {
		close(p[0]);
		close(p[1]);
		return err_set(e, errno, "start a check");
	}
	if (pid == 0) {
		close(p[0]);
		check_child(c, p[1]);
	}
	close(p[1]);
	if (!read_answer(p[0], ret))
		doctor_say(ret, DOCTOR_NO, "the check gave no answer");
	close(p[0]);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* The engines know best what they need: ask each, strongest first. */
static void judge_tiers(struct doctor *d)
{
	d->chosen = TIER_AUTO;
	for (size_t i = 0; i < engine_list_n; i++) {
		struct doctor_tier *t = &d->tiers[d->tiers_n++];
		struct err e = ERR_INIT;

		t->tier = engine_list[i]->tier;
		t->holds = engine_list[i]->probe(&e) >= 0;
		if (!t->holds)
			memcpy(t->reason, e.msg, sizeof(t->reason));
		else if (d->chosen == TIER_AUTO)
			d->chosen = t->tier;
	}
}

int doctor_examine(struct doctor *ret, struct err *e)
{
	*ret = (struct doctor){0};
	for (size_t i = 0; i < doctor_checks_n; i++) {
		struct doctor_finding *f = &ret->findings[ret->n++];

		f->check = &doctor_checks[i];
		if (run_check(f->check, &f->answer, e) < 0)
			return err_wrap(e, "doctor: %s", f->check->id);
	}
	judge_tiers(ret);
	return 0;
}

const struct doctor_finding *doctor_find(const struct doctor *d, const char *id)
{
	for (size_t i = 0; i < d->n; i++)
		if (str_eq(d->findings[i].check->id, id))
			return &d->findings[i];
	return NULL;
}

static bool found(const struct doctor *d, const char *id)
{
	const struct doctor_finding *f = doctor_find(d, id);

	return f && f->answer.state == DOCTOR_YES;
}

/* What a tier has here, as one line; what it lacks comes after "without". */
static void tier_summary(const struct doctor *d, const struct engine *engine, struct buf *out)
{
	static const struct {
		const char *id, *name;
		unsigned with, without; /* enum engine_can: only for an engine that is so */
	} parts[] = {
		{"landlock", "Landlock", 0, 0},
		{"landlock_tcp", "TCP closed by Landlock", 0, ENGINE_OWN_NETWORK},
		{"seccomp", "seccomp", 0, 0},
		{"seccomp_notify", "every denied write reported where a policy asks", 0, 0},
		{"cgroup", "cgroup limits", 0, 0},
		{"capture", "network through the gateway only", ENGINE_OWN_NETWORK, 0},
		{"fuse", "decoys that count reads", ENGINE_PRIVATE_ROOT, 0},
		{"overlay", "--discard", ENGINE_STAGE, 0},
		{"time_namespace", "time namespace", ENGINE_TIME_NAMESPACE, 0},
	};
	const char *sep = "";

	if (engine->can & ENGINE_PRIVATE_ROOT) {
		buf_adds(out, "private root, own processes and network");
		sep = ", ";
	}
	for (int have = 1; have >= 0; have--) {
		bool first = true;

		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
			if ((engine->can & parts[i].with) != parts[i].with ||
				engine->can & parts[i].without)
				continue;
			if (found(d, parts[i].id) != have)
				continue;
			buf_adds(out, first && !have ? "; without " : sep);
			buf_adds(out, parts[i].name);
			sep = ", ";
			first = false;
		}
	}
}

static void text_findings(const struct doctor *d, struct buf *out)
{
	for (int g = 0; g < DOCTOR_GROUP_NUM; g++) {
		buf_addf(out, "\n%s\n", doctor_group_names[g]);
		for (size_t i = 0; i < d->n; i++) {
			const struct doctor_finding *f = &d->findings[i];

			if ((int)f->check->group != g)
				continue;
			buf_addf(out, "  %-7s %-22s ",
				f->answer.state == DOCTOR_FACT
					? "-"
					: doctor_state_names[f->answer.state],
				f->check->title);
			str_show(out, f->answer.detail, strlen(f->answer.detail));
			buf_addc(out, '\n');
		}
	}
}

static void text_lines(struct buf *out, const char *indent, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		buf_adds(out, indent);
		str_show(out, text, n);
		buf_addc(out, '\n');
		text += n + (text[n] == '\n');
	}
}

/* The findings that share the fix of number i, the first few by name. */
static void text_same_fix(const struct doctor *d, size_t i, struct buf *out)
{
	size_t n = 0;

	for (size_t k = i; k < d->n; k++) {
		if (!str_eq(d->findings[k].answer.fix, d->findings[i].answer.fix))
			continue;
		if (n < 3)
			buf_addf(out, "%s%s", n ? ", " : "", d->findings[k].check->title);
		n++;
	}
	if (n > 3)
		buf_addf(out, " and %zu more", n - 3);
}

/* The same cause often stands behind several findings: each fix is told once, with all of them. */
static void text_fixes(const struct doctor *d, struct buf *out)
{
	bool any = false;

	for (size_t i = 0; i < d->n; i++) {
		const struct doctor_answer *a = &d->findings[i].answer;
		bool told = false;

		for (size_t k = 0; k < i && a->fix[0]; k++)
			told = told || str_eq(d->findings[k].answer.fix, a->fix);
		if (!a->fix[0] || told)
			continue;
		buf_adds(out, any ? "\n" : "\nto fix\n");
		any = true;
		buf_adds(out, "  for ");
		text_same_fix(d, i, out);
		buf_adds(out, ":\n");
		text_lines(out, "    ", a->fix);
	}
}

void doctor_text(const struct doctor *d, struct buf *out)
{
	buf_adds(out, "what this machine can enforce, tried just now as this user\n");
	text_findings(d, out);
	buf_adds(out, "\ntiers\n");
	for (size_t i = 0; i < d->tiers_n; i++) {
		const struct doctor_tier *t = &d->tiers[i];

		buf_addf(out, "  %-7s %-22s ", t->holds ? "yes" : "no", policy_tier_names[t->tier]);
		if (t->holds)
			tier_summary(d, engine_of(t->tier), out);
		else
			str_show(out, t->reason, strlen(t->reason));
		buf_addc(out, '\n');
	}
	if (d->chosen != TIER_AUTO)
		buf_addf(out, "  --tier auto takes %s\n", policy_tier_names[d->chosen]);
	else
		buf_adds(out, "  no tier holds here: croft run will refuse (exit 126)\n");
	text_fixes(d, out);
}

void doctor_json(const struct doctor *d, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_int(&j, "version", 1);
	json_array(&j, "findings");
	for (size_t i = 0; i < d->n; i++) {
		const struct doctor_finding *f = &d->findings[i];

		json_object(&j, NULL);
		json_str(&j, "id", f->check->id);
		json_str(&j, "group", doctor_group_names[f->check->group]);
		json_str(&j, "title", f->check->title);
		json_str(&j, "state", doctor_state_names[f->answer.state]);
		json_str(&j, "detail", f->answer.detail);
		json_str(&j, "fix", f->answer.fix[0] ? f->answer.fix : NULL);
		json_end(&j);
	}
	json_end(&j);
	json_array(&j, "tiers");
	for (size_t i = 0; i < d->tiers_n; i++) {
		const struct doctor_tier *t = &d->tiers[i];

		json_object(&j, NULL);
		json_str(&j, "name", policy_tier_names[t->tier]);
		json_bool(&j, "holds", t->holds);
		json_str(&j, "reason", t->reason[0] ? t->reason : NULL);
		json_end(&j);
	}
	json_end(&j);
	json_str(&j, "auto", d->chosen == TIER_AUTO ? NULL : policy_tier_names[d->chosen]);
	json_end(&j);
	buf_addc(out, '\n');
}
