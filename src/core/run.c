/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a command: see run.h. */
#include "core/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/environ.h"
#include "core/held.h"
#include "core/relay.h"
#include "core/scratch.h"
#include "core/sockets.h"
#include "core/staged.h"
#include "core/state.h"
#include "core/supervise.h"
#include "core/terminal.h"
#include "engine/engine.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/landlock.h"
#include "os/proctree.h"
#include "os/seccomp.h"
#include "os/tree.h"

#ifndef PIDFS_MAGIC
#define PIDFS_MAGIC 0x50494446 /* "PIDF", Linux 6.9 */
#endif

/* Everything one attempt on one engine owns. */
struct attempt {
	const struct run_request *q;
	const struct engine *engine;
	struct receipt *receipt;
	struct request request;
	char **argv; /* a copy: the sandbox wipes the environment, and the caller's may lie there */
	struct strlist env;
	struct scratch scratch;
	struct plan plan;
	struct cgroup cgroup;
	struct diskwatch disk;
	struct terminal *terminal;
	struct relay relay;
	struct sandbox sandbox;
	struct timespec
		since;      /* by the clock of file times: what changed later is this command's */
	struct timespec go; /* the same, just before there is a command */
	int null_fd;
	struct signals *signals;
	bool hold; /* names that run on the host need a broker */
	struct planted_scope planted;
	struct strlist repos; /* that were there before the command */
};

/*
 * A directory would be a way out of the private root; a descriptor of a process, a namespace or the
 * like is a handle on something that is no file at all.
 */
static int check_stdio(int fd, const char *name, struct err *e)
{
	struct statfs fs;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return err_refuse(
			e, "%s is a directory; a sandbox may not hold one of the host's", name);
	if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) ||
		S_ISBLK(st.st_mode))
		return 0;
	if (S_ISREG(st.st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type != NSFS_MAGIC &&
		fs.f_type != PIDFS_MAGIC && fs.f_type != ANON_INODE_FS_MAGIC)
		return 0;
	return err_refuse(e, "%s is neither a file, a pipe, a socket nor a device", name);
}

static const char *const stdio_names[3] = {"standard input", "standard output", "standard error"};

static int check_request(const struct run_request *q, struct err *e)
{
	if (!q->argv || !q->argv[0] || !q->argv[0][0])
		return err_invalid(e, "no command given; try: croft run -- CMD [ARG…]");
	if (q->discard && q->staging)
		return err_invalid(e, "changes are either staged or discarded, not both");
	for (int i = 0; i < 3; i++)
		if (check_stdio(q->stdio[i], stdio_names[i], e) < 0)
			return -e->errnum;
	return 0;
}

/* Engines to try, best first. More than one only when the policy leaves the choice to us. */
static size_t choose_engines(const struct run_request *q, const struct engine *ret[2])
{
	size_t n = 0;

	if (q->policy->tier != TIER_PROCESS)
		ret[n++] = &engine_namespace;
	if (q->policy->tier == TIER_PROCESS ||
		(q->policy->tier == TIER_AUTO && q->policy->threat != THREAT_HOSTILE &&
			!q->discard && !q->staging))
		ret[n++] = &engine_process;
	return n;
}

static int check_landlock(const struct run_request *q, struct receipt *r, struct err *e)
{
	if (landlock_abi() > 0)
		return 0;
	if (!q->allow_degraded)
		return err_refuse(e, "Landlock is missing (kernel without it, or not in its lsm= "
				     "list), so this tier would be weaker than promised; enable "
				     "it, or accept that with --allow-degraded");
	receipt_degrade(r, "Landlock is missing: files are held by mounts alone");
	return 0;
}

/* In one piece, to be freed at once; NULL when out of memory. */
static char **copy_words(char *const *words)
{
	size_t n = 0, len = 0;
	char **copy, *at;

	for (; words[n]; n++)
		len += strlen(words[n]) + 1;
	copy = malloc((n + 1) * sizeof(*copy) + len);
	if (!copy)
		return NULL;
	at = (char *)(copy + n + 1);
	for (size_t i = 0; i < n; i++) {
		copy[i] = at;
		at = stpcpy(at, words[i]) + 1;
	}
	copy[n] = NULL;
	return copy;
}

static int fill_request(struct attempt *a, struct err *e)
{
	const struct run_request *q = a->q;
	bool process = a->engine->tier == TIER_PROCESS;
	struct environ_facts f = {
		.home = q->home, .tmp = "/tmp", .cwd = q->cwd, .run_id = a->receipt->id};
	char runtime[64];

	if (process && scratch_make(&a->scratch, a->receipt->id, e) < 0)
		return -e->errnum;
	snprintf(runtime, sizeof(runtime), "/run/user/%u", getuid());
	f.runtime = process ? NULL : runtime;
	f.git_held = !q->staging && !q->discard;
	if (process) {
		f.home = a->scratch.home;
		f.tmp = a->scratch.tmp;
	}
	if (environ_build(&a->env, q->policy, q->environ, &f, e) < 0 ||
		network_environ(&a->receipt->network, &a->env,
			process ? a->scratch.path : TRUST_DIR, q->policy, e) < 0)
		return -e->errnum;
	a->argv = copy_words(q->argv);
	if (!a->argv)
		return err_set(e, ENOMEM, "keep the command line");
	a->request = (struct request){.argv = a->argv,
		.envp = a->env.v,
		.cwd = q->cwd,
		.workspace = q->workspace,
		.home = q->home,
		.discard = q->discard,
		.staging = q->staging,
		.stdio = {q->stdio[0], q->stdio[1], q->stdio[2]},
		.tty_fd = -1,
		.scratch = process ? a->scratch.path : NULL};
	network_request(&a->receipt->network, &a->request);
	return 0;
}

/* The plan must be about the very directory the user was in, not about what has its name now. */
static int check_workspace(const struct attempt *a, struct err *e)
{
	for (size_t i = 0; a->q->workspace_ino && i < a->plan.n; i++) {
		const struct plan_op *op = &a->plan.ops[i];

		if (op->ino && str_eq(op->src ? op->src : op->dst, a->q->workspace) &&
			(op->dev != a->q->workspace_dev || op->ino != a->q->workspace_ino))
			return err_refuse(e, "%s was replaced while the sandbox was being planned",
				a->q->workspace);
		for (size_t k = 0; op->layers && k < op->layers->n; k++)
			if (str_eq(op->layers->v[k].path, a->q->workspace) &&
				(op->layers->v[k].dev != a->q->workspace_dev ||
					op->layers->v[k].ino != a->q->workspace_ino))
				return err_refuse(e,
					"%s was replaced while the sandbox was being planned",
					a->q->workspace);
		if ((op->kind == PLAN_SYMLINK && str_eq(op->dst, a->q->workspace)) ||
			(op->rule && str_eq(op->rule->path, a->q->workspace) &&
				strncmp(op->dst, a->q->workspace, strlen(a->q->workspace)) != 0))
			return err_refuse(e,
				"%s became a symlink while the sandbox was being planned",
				a->q->workspace);
	}
	return 0;
}

/* The directory in which names that run on the host may be written: its changes are reviewed. */
static const char *harmless(const struct run_request *q)
{
	return q->staging || q->own_workspace ? q->workspace : NULL;
}

static int attempt_plan(struct attempt *a, struct err *e)
{
	network_done(&a->receipt->network); /* of an earlier attempt */
	if (network_prepare(&a->receipt->network, a->q->policy, a->engine->tier, a->receipt->id,
		    a->q->home, a->q->watch_network, e) < 0)
		return -e->errnum;
	if (fill_request(a, e) < 0)
		return -e->errnum;
	if (a->hold || a->engine->tier == TIER_PROCESS)
		policy_hold(a->q->policy, a->q->home, harmless(a->q));
	if (a->engine->plan(&a->plan, a->q->policy, &a->request, e) < 0)
		return -e->errnum;
	if (a->plan.broker) /* where there is one for another reason, it holds these as well */
		policy_hold(a->q->policy, a->q->home, harmless(a->q));
	return check_workspace(a, e);
}

static int open_stdio(struct attempt *a, struct err *e)
{
	int in[3];

	for (int i = 0; i < 3; i++) {
		in[i] = a->q->stdio[i];
		if (in[i] >= 0)
			continue;
		if (a->null_fd < 0)
			a->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (a->null_fd < 0)
			return err_set(e, errno, "open /dev/null");
		in[i] = a->null_fd;
	}
	if (terminal_open(a->terminal, in, a->request.stdio, e) < 0)
		return -e->errnum;
	a->request.tty = terminal_active(a->terminal);
	a->request.tty_fd = a->request.tty ? a->terminal->slave : -1;
	/*
	 * In a pipeline (croft run … | less) another program may be the one that reads the
	 * keyboard.
	 */
	a->request.tty_background = a->request.tty && in[0] >= 0 && isatty(in[0]) && !isatty(in[1]);
	if (a->request.tty_background)
		terminal_hold_input(a->terminal);
	if (!a->q->capture)
		return 0;
	a->terminal->capture = a->terminal->is_tty[1]   ? &a->q->capture->file[CAPTURE_OUT]
			       : a->terminal->is_tty[2] ? &a->q->capture->file[CAPTURE_ERR]
							: NULL;
	return relay_open(&a->relay, a->q->capture, in, a->request.stdio, e);
}

/* Limits that only a cgroup can hold. Made while the sandbox sets itself up on the other core. */
static int make_cgroup(struct attempt *a, struct err *e)
{
	const struct policy_limits *pl = &a->q->policy->limits;
	struct cgroup_limits l = {
		.memory_b = pl->memory_b, .cpu_milli = pl->cpu_milli, .pids = pl->pids};
	struct receipt *r = a->receipt;

	if (cgroup_make(&a->cgroup, r->id, &l, e) < 0)
		return -e->errnum;
	r->cgroup_kind = a->cgroup.kind;
	r->cgroup_has = a->cgroup.has;
	if (pl->cpu_milli != LIMIT_NONE && !(a->cgroup.has & CGROUP_HAS_CPU)) {
		if (!a->q->allow_degraded)
			return err_refuse(e,
				"a CPU limit needs a cgroup, which is not to be had here (%s); "
				"drop the limit, or accept that with --allow-degraded",
				a->cgroup.why);
		receipt_degrade(r, "no CPU limit: %s", a->cgroup.why);
	}
	if (pl->memory_b != LIMIT_NONE && !(a->cgroup.has & CGROUP_HAS_MEMORY))
		receipt_degrade(r, "memory is limited per process (RLIMIT_DATA), not in total: %s",
			a->cgroup.why);
	return 0;
}

static bool visit_upper(void *arg, const char *path, const struct stat *st)
{
	struct attempt *a = arg;
	char full[8192];
	struct stat below;
	bool existed;

	snprintf(full, sizeof(full), "%s/%s", a->q->workspace, path);
	existed = lstat(full, &below) == 0;
	record_change(&a->receipt->record, full,
		S_ISCHR(st->st_mode) && st->st_rdev == 0 ? FILE_DELETED
		: existed                                ? FILE_MODIFIED
							 : FILE_CREATED);
	return true;
}

/* What the command changed: as the upper layer has it, or as it was seen to be touched. */
static void note_files(struct attempt *a)
{
	struct record *rec = &a->receipt->record;
	int upper = a->sandbox.fd[SANDBOX_FD_UPPER];
	bool all;

	if (!a->q->staging && (!a->q->discard || upper < 0)) {
		record_settle(rec);
		return;
	}
	record_forget_files(rec);
	if (upper < 0)
		return; /* nobody could write */
	all = a->q->staging ? staged_changes(rec, upper, a->q->staging, &a->since)
			    : tree_walk(upper, STAGED_FILES_MAX, visit_upper, a);
	rec->files_full = !all || rec->files_full;
}

/* How a limit on processes is held without a cgroup, once it is known. */
static void note_pids(struct attempt *a)
{
	const struct enforced *f = &a->sandbox.enforced;
	struct receipt *r = a->receipt;

	if (r->limits.pids == LIMIT_NONE || (a->cgroup.has & CGROUP_HAS_PIDS))
		return;
	if (!f->rlimit_pids && geteuid() == 0)
		receipt_degrade(r, "no process limit: RLIMIT_NPROC does not bind root, and %s",
			a->cgroup.why);
	else if (f->nproc_others)
		receipt_degrade(r,
			"processes are limited by RLIMIT_NPROC, which counts all of the user's: to "
			"%" PRIu64 " and the %u that there were, whoever starts them: %s",
			r->limits.pids, f->nproc_others, a->cgroup.why);
	else
		receipt_degrade(r, "processes are limited by RLIMIT_NPROC: %s", a->cgroup.why);
}

static void note_degradations(struct attempt *a)
{
	struct receipt *r = a->receipt;
	const struct enforced *f = &a->sandbox.enforced;

	for (size_t i = 0; i < a->plan.notes.n; i++)
		receipt_degrade(r, "%s", a->plan.notes.v[i]);
	note_pids(a);
	if (r->outcome.replaced[0]) {
		cleanup_buf struct buf name = BUF_INIT(8192);

		str_show(&name, r->outcome.replaced, strlen(r->outcome.replaced));
		receipt_degrade(r,
			"the protection of %s ended when the host replaced it; the command was "
			"killed then",
			buf_str(&name));
	}
	if (r->outcome.unwatched)
		receipt_degrade(r,
			"whether the host replaces what is protected was looked at before "
			"and after the command, not while it ran");
	if (!f->groups_dropped)
		receipt_degrade(r, "supplementary groups are kept: only root can drop them");
	if (f->landlock_abi > 0 && f->landlock_abi < 6)
		receipt_degrade(r,
			"Landlock ABI %d: abstract sockets and signals are not scoped by it",
			f->landlock_abi);
	if (r->network.policy && a->engine->tier == TIER_PROCESS)
		receipt_degrade(r, "network: programs must use the proxy by themselves, and the "
				   "port of the gateway could be reached on other hosts, too");
	if (a->disk.n > 0)
		receipt_degrade(r, "the disk limit on staged files is held by counting: it can be "
				   "passed for a moment, and deleted files on their way through a "
				   "socket are not counted");
	else if (a->engine->tier == TIER_NAMESPACE && r->limits.disk_b != LIMIT_NONE &&
		 !a->q->discard && !a->q->staging)
		receipt_degrade(r, "the disk limit holds private files only: what is written in "
				   "place ends with its file system");
	if (a->engine->tier == TIER_NAMESPACE && !f->ns_time)
		receipt_degrade(r, "no time namespace on this kernel");
	for (size_t i = 0; i < r->network.notes.n; i++) /* last: some are the gateway's own words */
		receipt_degrade(r, "%s", r->network.notes.v[i]);
}

static bool upper_full(const struct attempt *a)
{
	struct statfs fs;

	return a->q->discard && a->sandbox.fd[SANDBOX_FD_UPPER] >= 0 &&
	       fstatfs(a->sandbox.fd[SANDBOX_FD_UPPER], &fs) == 0 && fs.f_bfree == 0;
}

static void note_limits(struct attempt *a, const struct cgroup_usage *u)
{
	struct receipt *r = a->receipt;

	if (r->outcome.timed_out)
		strlist_add(&r->limits_hit, "timeout");
	if (u->oom_kills)
		strlist_add(&r->limits_hit, "memory");
	if (u->pids_refused)
		strlist_add(&r->limits_hit, "pids");
	if (r->outcome.scratch_full || upper_full(a) || diskwatch_end(&a->disk))
		strlist_add(&r->limits_hit, "disk");
}

/* A host service that came while the command ran could be spoken to: the receipt says so. */
static void look_for_sockets(struct attempt *a)
{
	struct strlist now = STRLIST_INIT(SOCKETS_MAX);
	struct err e = ERR_INIT;

	if (a->engine->tier == TIER_NAMESPACE &&
		sockets_find(&now, a->q->policy, harmless(a->q), &e) < 0)
		receipt_degrade(a->receipt, "sockets of host services: %s", e.msg);
	for (size_t i = 0; i < now.n; i++) {
		cleanup_buf struct buf name = BUF_INIT(8192);

		str_show(&name, now.v[i], strlen(now.v[i]));
		receipt_degrade(a->receipt,
			"a service of the host's made the socket %s while the command ran, which "
			"could connect to it",
			buf_str(&name));
	}
	strlist_done(&now);
}

/* Fill the receipt from what is known after the end. */
static void conclude(void *arg, const struct outcome *o)
{
	struct attempt *a = arg;
	struct receipt *r = a->receipt;
	struct cgroup_usage u = {0};

	cgroup_usage(&a->cgroup, &u);
	r->outcome = *o;
	r->tier = a->engine->name;
	r->enforced = a->sandbox.enforced;
	r->cpu_us = MAX_OF(o->cpu_us, u.cpu_us);
	r->peak_memory_b = u.memory_peak_b ? u.memory_peak_b : o->maxrss_kb * 1024;
	r->limits = a->q->policy->limits;
	r->observe = a->q->policy->observe;
	note_limits(a, &u);
	note_degradations(a);
	look_for_sockets(a);
	note_files(a);
	receipt_seal(r, &a->plan);
}

/*
 * The command has its own copies now. Ours are closed when they were given to us for that, so that
 * the other ends see the command close them; a terminal's are still needed to copy from and to.
 */
static void release_stdio(void *arg)
{
	struct attempt *a = arg;
	const int *fd = a->q->stdio;

	for (int i = 0; i < 3 && a->q->own_stdio; i++) {
		bool copied = a->relay.stream[CAPTURE_OUT].to == fd[i] ||
			      a->relay.stream[CAPTURE_ERR].to == fd[i];

		if (fd[i] >= 0 && !copied && !isatty(fd[i]))
			close(fd[i]);
	}
	relay_hand_over(&a->relay, a->q->own_stdio);
}

static int begin(void *arg, struct err *e)
{
	struct attempt *a = arg;

	clock_gettime(CLOCK_REALTIME_COARSE, &a->go);
	return a->q->begin ? a->q->begin(a->q->begin_arg, a->receipt, e) : 0;
}

/* While the sandbox is set up: which repositories are there before the command? */
static void look_before(struct attempt *a)
{
	const struct run_request *q = a->q;

	a->planted = (struct planted_scope){.policy = q->policy,
		.home = q->home,
		.except = harmless(q),
		.run_id = a->receipt->id,
		.since = &a->go,
		.before = &a->repos};
	if (!q->discard)
		planted_before(&a->planted);
}

/* After the last process is gone: what did it leave that the host will execute? */
static void look_for_planted(struct attempt *a)
{
	if (!a->q->discard)
		planted_look(&a->receipt->planted, &a->planted, &a->receipt->record);
}

static int attempt_run(struct attempt *a, struct err *e)
{
	const char *scratch[] = {"/tmp", "/run", "/dev", "/proc", "/.croft", a->q->home,
		"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
		NULL};
	struct supervise s = {.signals = a->signals,
		.scratch = scratch,
		.sandbox = &a->sandbox,
		.plan = &a->plan,
		.cgroup = &a->cgroup,
		.terminal = a->terminal,
		.relay = &a->relay,
		.record = &a->receipt->record,
		.disk = &a->disk,
		.network = &a->receipt->network,
		.workspace = a->q->workspace,
		.timeout_ms = a->q->policy->limits.timeout_ms,
		.tty_background = a->request.tty_background,
		.meanwhile = conclude,
		.begin = begin,
		.gone = release_stdio,
		.pid_namespace = a->engine->tier == TIER_NAMESPACE,
		.meanwhile_arg = a};
	uint64_t disk_b = a->q->policy->limits.disk_b;
	bool early = cgroup_is_unified();
	uint64_t t0 = clock_us();
	struct outcome o;
	int r;

	clock_gettime(CLOCK_REALTIME_COARSE, &a->since);
	if (a->q->staging && disk_b != LIMIT_NONE &&
		(r = diskwatch_open(&a->disk, a->q->staging, disk_b, e)) < 0)
		return r;
	if (a->engine->tier == TIER_PROCESS) {
		s.others_n = proctree_children(s.others, ARRAY_SIZE(s.others));
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	}
	/* With cgroup v2 the sandbox can be born in its group, which must then exist first; with v1 the
	 * group is made meanwhile, on the other core. */
	if (early && (r = make_cgroup(a, e)) < 0)
		return r;
	if ((r = a->engine->start(
		     &a->sandbox, &a->plan, &a->request, cgroup_clone_fd(&a->cgroup), e)) < 0)
		return r;
	a->disk.sandbox = a->sandbox.pid;
	terminal_close_slave(a->terminal);
	/* After it exists: the key of its authority must not be in its memory. */
	if ((r = network_trust(&a->receipt->network, &a->plan, a->request.scratch, e)) < 0 ||
		(!early && (r = make_cgroup(a, e)) < 0) ||
		(r = terminal_start(a->terminal, e)) < 0) {
		struct err first = *e;

		s.refuse = true; /* end it before it begins */
		supervise(&s, &o, e);
		*e = first;
		return r;
	}
	plan_seal(&a->plan);
	look_before(a);
	r = supervise(&s, &o, e);
	a->receipt->wall_us = clock_us() - t0;
	if (r == 0)
		look_for_planted(a);
	return r;
}

static void attempt_done(struct attempt *a)
{
	terminal_done(a->terminal);
	relay_done(&a->relay);
	cgroup_remove(&a->cgroup);
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&a->sandbox.fd[i]);
	close_fd(&a->sandbox.control);
	close_fd(&a->sandbox.pidfd);
	close_fd(&a->null_fd);
	diskwatch_close(&a->disk);
	plan_done(&a->plan);
	free(a->argv);
	strlist_done(&a->env);
	strlist_done(&a->repos);
	scratch_remove(&a->scratch);
	free(a->terminal);
}

static int attempt_init(struct attempt *a, const struct run_request *q, const struct engine *en,
	struct receipt *r, struct err *e)
{
	*a = (struct attempt){.q = q,
		.engine = en,
		.receipt = r,
		.cgroup = CGROUP_INIT,
		.null_fd = -1,
		.relay = RELAY_INIT,
		.repos = STRLIST_INIT(PLANTED_REPOS_MAX),
		.scratch = SCRATCH_INIT};
	a->sandbox = (struct sandbox){.pidfd = -1, .control = -1, .fd = SANDBOX_FDS_NONE};
	a->terminal = calloc(1, sizeof(*a->terminal));
	if (!a->terminal)
		return err_set(e, ENOMEM, "start");
	a->terminal->master = a->terminal->slave = -1;
	a->terminal->host_in = a->terminal->host_out = -1;
	return 0;
}

static int fill_receipt(struct receipt *r, const struct run_request *q, struct err *e)
{
	for (char *const *v = q->argv; *v; v++)
		if (!strlist_add(&r->command, *v))
			return err_set(e, E2BIG, "command line");
	r->cwd = strdup(q->cwd);
	r->workspace = strdup(q->workspace);
	r->profile = strdup(q->policy->profile ? q->policy->profile : "default");
	r->label = q->label ? strdup(q->label) : NULL;
	r->discard = q->discard;
	r->staged = q->staging != NULL;
	r->allow_degraded = q->allow_degraded;
	r->policy_digest = q->policy->digest;
	if (!r->cwd || !r->workspace || !r->profile)
		return err_set(e, ENOMEM, "start");
	record_init(&r->record, q->policy, r->workspace);
	r->record.tap = q->tap;
	r->record.tap_arg = q->tap_arg;
	return 0;
}

/*
 * Try the engines in order. Only a boundary that could not be had is a reason to try the next one.
 */
static int run_attempts(struct receipt *r, const struct run_request *q, bool hold,
	struct signals *sig, struct err *e)
{
	const struct engine *engines[2];
	size_t n = choose_engines(q, engines);
	struct err first = ERR_INIT;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		struct attempt a;

		*e = ERR_INIT;
		if ((rc = attempt_init(&a, q, engines[i], r, e)) < 0)
			return rc;
		a.signals = sig;
		a.hold = hold;
		if (i > 0) {
			strlist_done(&r->degradations);
			receipt_degrade(
				r, "fell back to the %s tier: %s", engines[i]->name, first.msg);
			r->fell_back = true;
		}
		rc = attempt_plan(&a, e);
		if (rc == 0)
			rc = open_stdio(&a, e);
		if (rc == 0)
			rc = attempt_run(&a, e);
		attempt_done(&a);
		if (rc == 0 || e->kind != ERR_REFUSED || !e->boundary)
			return rc;
		first = *e;
	}
	return rc;
}

/* As policy_present(), without what means nothing in a staged workspace. */
static int settle_staged(struct policy *ret, struct policy *p, bool *skip,
	struct policy_fixed *fixed, const struct staging *s, struct err *e)
{
	cleanup_free struct policy_rule *rules = calloc(p->rules_n + 1, sizeof(*rules));
	struct policy own = *p;
	size_t n = 0;
	int r;

	if (!rules)
		return err_set(e, ENOMEM, "settle the policy");
	for (size_t i = 0; i < p->rules_n; i++) {
		rules[i] = p->rules[i];
		if (!staged_moot(s, p, &rules[i]))
			continue;
		if (!rules[i].optional && !rules[i].glob && staged_below_denied(p, &rules[i]))
			return err_refuse(e,
				"%s is granted below a directory that is denied, which a staged "
				"workspace cannot show; drop one of the two rules",
				rules[i].path);
		skip[i] = rules[i].optional = true;
	}
	for (size_t i = 0; fixed[i].path; i++) {
		struct policy_rule f = {.access = ACCESS_READ, .path = fixed[i].path};

		if (!staged_moot(s, p, &f))
			fixed[n++] = fixed[i];
	}
	fixed[n].path = NULL;
	own.rules = rules;
	r = policy_present(ret, &own, skip, fixed, e);
	p->memory = own.memory; /* what it allocated is the policy's */
	return r;
}

/* Rules that hold only if their path is present: look once, before anything depends on them. */
static int settle_policy(struct policy *ret, const struct run_request *q, const struct held *held,
	const struct strlist *sockets, struct err *e)
{
	struct policy *p = q->policy;
	cleanup_free bool *skip = calloc(p->rules_n + 1, sizeof(*skip));
	cleanup_free struct policy_fixed *fixed =
		calloc(held->paths.n + sockets->n + 3, sizeof(*fixed));
	char own[POLICY_PATH_MAX], gateway[POLICY_PATH_MAX], real[PATH_MAX];
	size_t fixed_n = 0;
	struct err no_gateway = ERR_INIT;
	struct stat st;
	ssize_t n;

	if (!skip || !fixed)
		return err_set(e, ENOMEM, "settle the policy");
	for (size_t i = 0; i < p->rules_n; i++)
		skip[i] = p->rules[i].optional && !p->rules[i].glob &&
			  lstat(p->rules[i].path, &st) < 0;
	/*
	 * The programs that will set up the next sandbox are not for this one to replace, or to put
	 * there.
	 */
	n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	own[n > 0 ? n : 0] = '\0';
	if (n > 0 && lstat(own, &st) == 0)
		fixed[fixed_n++].path = own;
	if (fixed_n && network_program(gateway, sizeof(gateway), &no_gateway) == 0) {
		fixed[fixed_n].absent = !realpath(gateway, real);
		fixed[fixed_n].path = fixed[fixed_n].absent ? gateway : real;
		fixed_n++;
	}
	for (size_t i = 0; i < held->paths.n; i++)
		fixed[fixed_n++] = (struct policy_fixed){.path = held->paths.v[i], .runs = true};
	for (size_t i = 0; i < sockets->n; i++)
		fixed[fixed_n++] = (struct policy_fixed){.path = sockets->v[i], .deny = true};
	if (q->staging)
		return settle_staged(ret, p, skip, fixed, q->staging, e);
	return policy_present(ret, p, skip, fixed, e);
}

/* As settle_policy(), with the names that run on the host. What is discarded harms nobody. */
static int settle(struct policy *ret, bool *ret_hold, const struct run_request *q, struct err *e)
{
	struct strlist sockets = STRLIST_INIT(SOCKETS_MAX);
	struct held held = HELD_INIT;
	int r = 0;

	if (!q->discard)
		r = held_find(&held, q->policy, q->home, harmless(q), e);
	if (r == 0 && q->policy->tier != TIER_PROCESS) /* which has no AF_UNIX sockets */
		r = sockets_find(&sockets, q->policy, harmless(q), e);
	if (r == -ENOENT || r == -EACCES) { /* no list to be had: look_for_sockets() says so */
		*e = ERR_INIT;
		r = 0;
	}
	if (r == 0)
		r = settle_policy(ret, q, &held, &sockets, e);
	strlist_done(&sockets);
	*ret_hold = held.broker;
	held_done(&held);
	return r;
}

/* What was written down on the way, and what will be, without what the command was trusted with. */
static void hide(struct receipt *r, const struct run_request *q)
{
	struct err e = ERR_INIT;

	receipt_hide(r);
	if (r->network.state > NETWORK_IDLE &&
		state_hide_journal(q->home, r->id, r->hidden_unknown ? NULL : &r->hidden, &e) < 0)
		receipt_degrade(r, "the network journal of this run is gone: %s", e.msg);
}

int run_command(struct receipt *r, const struct run_request *asked, struct err *e)
{
	struct run_request settled = *asked, *q = &settled;
	struct signals sig = SIGNALS_INIT;
	bool hold = false;
	int rc = check_request(q, e);

	if (rc < 0 || (rc = settle(&r->policy, &hold, asked, e)) < 0)
		return rc;
	settled.policy = &r->policy;
	if ((rc = fill_receipt(r, q, e)) < 0 || (rc = check_landlock(q, r, e)) < 0 ||
		(rc = signals_take(&sig, e)) < 0)
		return rc;
	rc = run_attempts(r, q, hold, &sig, e);
	signals_release(&sig);
	if (q->capture)
		capture_end(q->capture);
	if (rc == 0)
		hide(r, q);
	return rc;
}

int run_plan(struct plan *ret, const struct run_request *asked, struct policy *live, struct err *e)
{
	struct run_request settled = *asked, *q = &settled;
	const struct engine *engines[2];
	struct receipt r;
	struct attempt a;
	bool hold = false;
	int rc = check_request(q, e);

	if (rc < 0 || (rc = settle(live, &hold, asked, e)) < 0)
		return rc;
	settled.policy = live;
	if (receipt_init(&r) < 0)
		return err_set(e, errno, "start");
	choose_engines(q, engines);
	if ((rc = attempt_init(&a, q, engines[0], &r, e)) == 0) {
		a.hold = hold;
		rc = attempt_plan(&a, e);
		if (rc == 0) {
			*ret = a.plan;
			a.plan = (struct plan){0};
		}
		attempt_done(&a);
	}
	receipt_done(&r);
	return rc;
}
