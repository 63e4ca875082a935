/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox on one engine: see boundary.h. */
#include "session/run/boundary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/who.h"
#include "os/clock.h"
#include "os/landlock.h"
#include "os/path.h"
#include "os/proctree.h"
#include "os/tree.h"
#include "session/config/environ.h"
#include "session/config/sockets.h"
#include "session/run/staged.h"

int boundary_engines(
	const struct run_request *q, const struct engine *ret[ENGINES_MAX], struct err *e)
{
	unsigned need = (q->policy->threat == THREAT_HOSTILE ? ENGINE_HOSTILE : 0) |
			(q->discard || q->staging ? ENGINE_STAGE : 0);
	int n = 0;

	for (size_t i = 0; i < engine_list_n; i++)
		if (q->policy->tier == engine_list[i]->tier ||
			(q->policy->tier == TIER_AUTO && (engine_list[i]->can & need) == need))
			ret[n++] = engine_list[i];
	return n ? n : err_refuse(e, "this croft has no tier that suits the command");
}

int boundary_check(const struct run_request *q, struct receipt *r, struct err *e)
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

int boundary_environ(const struct boundary *b, const struct policy *p, char *const *caller,
	const char *cwd, const char *run_id, struct strlist *ret, struct err *e)
{
	const struct run_request *q = b->q;
	bool on_host = !(b->engine->can & ENGINE_PRIVATE_ROOT); /* HOME and TMPDIR are */
	char runtime[64];
	struct environ_facts f = {.home = on_host ? b->scratch.home : q->home,
		.tmp = on_host ? b->scratch.tmp : "/tmp",
		.runtime = on_host ? NULL : runtime,
		.cwd = cwd,
		.run_id = run_id,
		.git_config = b->git_config.len ? b->git_config_path : NULL,
		.git_held = !q->staging && !q->discard};

	snprintf(runtime, sizeof(runtime), "/run/user/%u", getuid());
	if (environ_build(ret, p, caller, &f, e) < 0 ||
		network_environ(&b->receipt->network, ret, on_host ? b->scratch.path : TRUST_DIR, p,
			e) < 0)
		return -e->errnum;
	return 0;
}

/* Name and e-mail of who commits: in the private root, or in the directory that stands for one. */
static int know_who(struct boundary *b, bool on_host, struct err *e)
{
	static const char system[] = "/etc/gitconfig";
	cleanup_fd int dir = -1;
	int r;

	b->git_config = BUF_INIT(4096);
	if (!git_who(b->q->home, getenv("XDG_CONFIG_HOME"),
		    policy_access(b->q->policy, system, NULL) >= ACCESS_READ ? system : NULL,
		    &b->git_config)) {
		buf_reset(&b->git_config);
		return 0;
	}
	if (snprintf(b->git_config_path, sizeof(b->git_config_path), "%s%s",
		    on_host ? b->scratch.path : GIT_CONF, on_host ? "/gitconfig" : "") >=
		(int)sizeof(b->git_config_path)) {
		buf_reset(&b->git_config);
		return 0;
	}
	if (!on_host)
		return 0;
	dir = open(b->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = dir < 0 ? -errno
		    : file_replace_at(dir, "gitconfig", b->git_config.data, b->git_config.len,
			      0400);
	return r < 0 ? err_set(e, -r, "write down who commits") : 0;
}

static int prepare_network(struct boundary *b, struct err *e)
{
	network_done(&b->receipt->network); /* of an earlier attempt */
	return network_prepare(&b->receipt->network, b->q->policy, b->engine, b->receipt->id,
		b->q->home, b->q->workspace, b->q->watch_network, e);
}

/*
 * With cgroup v2 the sandbox is born in its group, which is made later. Whatever stands in the way, or fails,
 * is met again by boundary_start().
 */
int boundary_begin(struct boundary *b, const struct request *stdio, struct err *e)
{
	const struct run_request *q = b->q;
	struct err ignored = ERR_INIT;

	if (prepare_network(b, e) < 0)
		return -e->errnum;
	b->prepared = true;
	if (!b->engine->begin || cgroup_is_unified())
		return 0;
	b->request = *stdio;
	b->request.workspace = q->workspace;
	b->request.home = q->home;
	b->request.discard = q->discard;
	b->request.staging = q->staging;
	network_request(&b->receipt->network, &b->request);
	b->engine->begin(&b->sandbox, &b->plan, q->policy, &b->request, &ignored);
	return 0;
}

static int fill_request(struct boundary *b, struct err *e)
{
	const struct run_request *q = b->q;
	bool on_host = !(b->engine->can & ENGINE_PRIVATE_ROOT);

	if (on_host && scratch_make(&b->scratch, b->receipt->id, e) < 0)
		return -e->errnum;
	if (know_who(b, on_host, e) < 0)
		return -e->errnum;
	if (!q->serve && boundary_environ(b, q->policy, q->environ, q->cwd, b->receipt->id, &b->env,
				 e) < 0)
		return -e->errnum;
	if (!q->serve && !(b->argv = copy_words(q->argv)))
		return err_set(e, ENOMEM, "keep the command line");
	b->request = (struct request){.serve = q->serve,
		.argv = b->argv,
		.envp = b->env.v,
		.cwd = q->cwd,
		.workspace = q->workspace,
		.home = q->home,
		.discard = q->discard,
		.staging = q->staging,
		.stdio = {q->stdio[0], q->stdio[1], q->stdio[2]},
		.tty_fd = -1,
		.scratch = on_host ? b->scratch.path : NULL,
		.git_config = b->git_config.len ? buf_str(&b->git_config) : NULL};
	network_request(&b->receipt->network, &b->request);
	if (on_host)
		return 0; /* there a view is recorded as what it is not */
	if (views_open(&b->views, q->policy, q->home, q->workspace, q->discard, e) < 0)
		return -e->errnum;
	b->request.views = b->views.v;
	b->request.views_n = b->views.n;
	for (size_t i = 0; i < b->views.notes.n; i++)
		receipt_degrade(b->receipt, "%s", b->views.notes.v[i]);
	return 0;
}

/* The plan must be about the very directory the user was in, not about what has its name now. */
static int check_workspace(const struct boundary *b, struct err *e)
{
	for (size_t i = 0; b->q->workspace_ino && i < b->plan.n; i++) {
		const struct plan_op *op = &b->plan.ops[i];

		if (op->ino && str_eq(op->src ? op->src : op->dst, b->q->workspace) &&
			(op->dev != b->q->workspace_dev || op->ino != b->q->workspace_ino))
			return err_refuse(e, "%s was replaced while the sandbox was being planned",
				b->q->workspace);
		for (size_t k = 0; op->layers && k < op->layers->n; k++)
			if (str_eq(op->layers->v[k].path, b->q->workspace) &&
				(op->layers->v[k].dev != b->q->workspace_dev ||
					op->layers->v[k].ino != b->q->workspace_ino))
				return err_refuse(e,
					"%s was replaced while the sandbox was being planned",
					b->q->workspace);
		if ((op->kind == PLAN_SYMLINK && str_eq(op->dst, b->q->workspace)) ||
			(op->rule && str_eq(op->rule->path, b->q->workspace) &&
				strncmp(op->dst, b->q->workspace, strlen(b->q->workspace)) != 0))
			return err_refuse(e,
				"%s became a symlink while the sandbox was being planned",
				b->q->workspace);
	}
	return 0;
}

/* The directory in which names that run on the host may be written: its changes are reviewed. */
const char *boundary_harmless(const struct run_request *q)
{
	return q->staging || q->own_workspace ? q->workspace : NULL;
}

int boundary_plan(struct boundary *b, struct err *e)
{
	if (!b->prepared && prepare_network(b, e) < 0)
		return -e->errnum;
	if (fill_request(b, e) < 0)
		return -e->errnum;
	if (b->hold || b->engine->can & ENGINE_BROKER)
		policy_hold(b->q->policy, b->q->home, boundary_harmless(b->q));
	if (b->engine->plan(&b->plan, b->q->policy, &b->request, e) < 0)
		return -e->errnum;
	if (b->plan.broker) /* where there is one for another reason, it holds these as well */
		policy_hold(b->q->policy, b->q->home, boundary_harmless(b->q));
	return check_workspace(b, e);
}

/* Limits that only a cgroup can hold. Made while the sandbox sets itself up on the other core. */
static int make_cgroup(struct boundary *b, struct err *e)
{
	const struct policy_limits *pl = &b->q->policy->limits;
	struct cgroup_limits l = {
		.memory_b = pl->memory_b, .cpu_milli = pl->cpu_milli, .pids = pl->pids};
	struct receipt *r = b->receipt;

	if (cgroup_make(&b->cgroup, r->id, &l, e) < 0)
		return -e->errnum;
	r->cgroup_kind = b->cgroup.kind;
	r->cgroup_has = b->cgroup.has;
	if (pl->cpu_milli != LIMIT_NONE && !(b->cgroup.has & CGROUP_HAS_CPU)) {
		if (!b->q->allow_degraded)
			return err_refuse(e,
				"a CPU limit needs a cgroup, which is not available here (%s); "
				"drop the limit, or accept that with --allow-degraded",
				b->cgroup.why);
		receipt_degrade(r, "no CPU limit: %s", b->cgroup.why);
	}
	if (pl->memory_b != LIMIT_NONE && !(b->cgroup.has & CGROUP_HAS_MEMORY))
		receipt_degrade(r, "memory is limited per process (RLIMIT_DATA), not in total: %s",
			b->cgroup.why);
	return 0;
}

/* While the sandbox is set up: which repositories are there before the command? */
void boundary_look_before(struct boundary *b)
{
	const struct run_request *q = b->q;

	b->planted = (struct planted_scope){.policy = q->policy,
		.home = q->home,
		.except = boundary_harmless(q),
		.run_id = b->receipt->id,
		.since = &b->go,
		.before = &b->repos};
	if (!q->discard)
		planted_before(&b->planted);
}

/* After the last process is gone: what did it leave that the host will execute? */
void boundary_look_after(struct boundary *b)
{
	if (!b->q->discard)
		planted_look(&b->receipt->planted, &b->planted, &b->receipt->record);
}

void boundary_scratch(const struct boundary *b, const char *ret[BOUNDARY_SCRATCH_MAX])
{
	const char *const scratch[BOUNDARY_SCRATCH_MAX] = {"/tmp", "/run", "/dev", "/proc", "/.croft",
		b->q->home, "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname",
		"/etc/resolv.conf", NULL};

	memcpy(ret, scratch, sizeof(scratch));
}

int boundary_start(struct boundary *b, struct err *e)
{
	uint64_t disk_b = b->q->policy->limits.disk_b;
	bool early = cgroup_is_unified();
	int r;

	clock_gettime(CLOCK_REALTIME_COARSE, &b->since);
	if ((b->q->staging || b->views.n) && disk_b != LIMIT_NONE &&
		(r = diskwatch_open(&b->disk, b->q->staging, b->views.v, b->views.n, disk_b, e)) < 0)
		return r;
	if (!(b->engine->can & ENGINE_OWN_PIDS)) {
		b->others_n = proctree_children(b->others, ARRAY_SIZE(b->others));
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	}
	/* With cgroup v2 the sandbox can be born in its group, which must then exist first; with v1 the
	 * group is made meanwhile, on the other core. */
	if (early && (r = make_cgroup(b, e)) < 0)
		return r;
	if ((r = b->engine->start(
		     &b->sandbox, &b->plan, &b->request, cgroup_clone_fd(&b->cgroup), e)) < 0)
		return r;
	b->disk.sandbox = b->sandbox.pid;
	/* After it exists: the key of its authority must not be in its memory. */
	if ((r = network_trust(&b->receipt->network, &b->plan, b->request.scratch, e)) < 0 ||
		(!early && (r = make_cgroup(b, e)) < 0))
		return r;
	return 0;
}

void boundary_init(struct boundary *b, const struct run_request *q, const struct engine *en,
	struct receipt *r)
{
	*b = (struct boundary){.q = q,
		.engine = en,
		.receipt = r,
		.cgroup = CGROUP_INIT,
		.repos = STRLIST_INIT(4 * PLANTED_REPOS_MAX),
		.scratch = SCRATCH_INIT};
	b->sandbox = (struct sandbox){.pidfd = -1, .control = -1, .fd = SANDBOX_FDS_NONE};
}

void boundary_done(struct boundary *b)
{
	if (b->sandbox.waits)
		sandbox_abandon(&b->sandbox);
	cgroup_remove(&b->cgroup);
	for (int i = 0; i < SANDBOX_FD_NUM; i++)
		close_fd(&b->sandbox.fd[i]);
	close_fd(&b->sandbox.control);
	close_fd(&b->sandbox.pidfd);
	diskwatch_close(&b->disk);
	plan_done(&b->plan);
	free(b->argv);
	strlist_done(&b->env);
	strlist_done(&b->repos);
	buf_done(&b->git_config);
	scratch_remove(&b->scratch);
	views_close(&b->views);
}
